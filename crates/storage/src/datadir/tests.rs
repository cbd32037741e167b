use super::*;
use crate::fault_disk::{FaultDisk, FaultPlan};
use crate::snapshot::SnapshotReader;
use crate::wal::{EntryKind, LogEntry, Recovered};

const IDENTITY: Identity = Identity { cluster_id: 99, member_id: 7 };

fn options() -> WalOptions {
    WalOptions { segment_bytes: 64 * 1024, first_segment_bytes: 64 * 1024, ..WalOptions::default() }
}

fn membership() -> Membership {
    Membership { voters: vec![7], ..Membership::default() }
}

fn birth(disk: &FaultDisk) -> Result<DataDir<FaultDisk>, StorageError> {
    match open(disk.clone())? {
        Opened::Existing(_) => panic!("it was born before"),
        Opened::Empty(empty) => {
            empty.birth(IDENTITY, &membership(), (BIRTH_POINT, &[b"image".to_vec()]), &options())
        }
    }
}

/// Asserts that a born directory is complete.
fn check_whole(disk: &FaultDisk) -> Recovered {
    let mut reader = SnapshotReader::open(disk.clone(), &snapshot::snapshot_name(1, 1))
        .expect("the birth's snapshot is there");
    assert_eq!(reader.meta().cluster_id, IDENTITY.cluster_id);
    assert_eq!(reader.next_piece().expect("reads").as_deref(), Some(&b"image"[..]));
    assert_eq!(reader.next_piece().expect("reads"), None);
    let (_, recovered) = Wal::open(disk.clone(), options()).expect("opens");
    assert_eq!(recovered.snapshot, BIRTH_POINT);
    assert_eq!(recovered.membership, membership());
    recovered
}

#[test]
fn a_born_directory_is_found_again_with_its_snapshot_and_log() {
    let disk = FaultDisk::new(1);
    drop(birth(&disk).expect("is born"));
    disk.crash();
    let Opened::Existing(dir) = open(disk.clone()).expect("opens") else {
        panic!("it was born");
    };
    assert_eq!(dir.identity(), IDENTITY);
    check_whole(&disk);
}

#[test]
fn a_crash_at_every_operation_of_a_birth_leaves_it_unborn_or_whole() {
    let count = {
        let disk = FaultDisk::new(1);
        birth(&disk).expect("is born");
        disk.ops()
    };
    for seed in 0..40 {
        let mut seen = [false; 2];
        for stop in 0..count {
            let disk = FaultDisk::new(seed);
            // Two births in a row; the second finds what the first left.
            for again in 0..2 {
                disk.set_plan(FaultPlan {
                    stop_at: Some(disk.ops() + (stop + again * 7) % count),
                    ..FaultPlan::default()
                });
                if let Ok(Opened::Empty(empty)) = open(disk.clone()) {
                    let pieces = [b"image".to_vec()];
                    drop(empty.birth(IDENTITY, &membership(), (BIRTH_POINT, &pieces), &options()));
                }
                disk.crash();
            }
            match open(disk.clone()).expect("opens") {
                Opened::Existing(dir) => {
                    assert_eq!(dir.identity(), IDENTITY);
                    seen[1] = true;
                }
                Opened::Empty(empty) => {
                    let pieces = [b"image".to_vec()];
                    drop(
                        empty
                            .birth(IDENTITY, &membership(), (BIRTH_POINT, &pieces), &options())
                            .expect("born"),
                    );
                    seen[0] = true;
                }
            }
            check_whole(&disk);
        }
        assert!(seen[0], "no crash left it unborn");
    }
}

/// A process that is killed during a birth leaves names that are visible and not durable. The next
/// start must make them durable before the directory is used.
#[test]
fn a_birth_that_was_killed_and_used_survives_a_loss_of_power() {
    let count = {
        let disk = FaultDisk::new(1);
        birth(&disk).expect("is born");
        disk.ops()
    };
    for (stop, seed) in (0..count).flat_map(|stop| (0..20).map(move |seed| (stop, seed))) {
        let disk = FaultDisk::new(seed);
        disk.set_plan(FaultPlan { stop_at: Some(stop), ..FaultPlan::default() });
        drop(birth(&disk));
        disk.kill();
        let Opened::Existing(dir) = open(disk.clone()).expect("opens") else { continue };
        dir.next_boot().expect("counts");
        drop(dir);
        disk.crash();
        let Opened::Existing(dir) = open(disk.clone()).expect("opens") else {
            panic!("operation {stop}, seed {seed}: it was born");
        };
        assert_eq!(dir.identity(), IDENTITY);
        check_whole(&disk);
    }
}

#[test]
fn boots_only_grow_whatever_crashes() {
    for seed in 0..200 {
        let disk = FaultDisk::new(seed);
        drop(birth(&disk).expect("is born"));
        let mut before = 0;
        for round in 0..10 {
            let Opened::Existing(dir) = open(disk.clone()).expect("opens") else {
                panic!("it was born");
            };
            disk.set_plan(FaultPlan {
                stop_at: Some(disk.ops() + (seed + round * 3) % 7),
                ..FaultPlan::default()
            });
            if let Ok(boot) = dir.next_boot() {
                assert!(boot > before, "{boot} after {before}");
                before = boot;
            }
            drop(dir);
            disk.crash();
        }
    }
}

#[test]
fn a_count_that_no_server_comes_to_is_damage() {
    let disk = FaultDisk::new(1);
    drop(birth(&disk).expect("is born"));
    for (count, is_counted) in
        [(BOOT_COUNT_MAX - 1, true), (BOOT_COUNT_MAX, false), (u64::MAX, false)]
    {
        let mut bytes = vec![0; BOOT_FILE_BYTES];
        for offset in BOOT_SLOT_OFFSETS {
            bytes[offset..offset + BOOT_SLOT_BYTES].copy_from_slice(&encode_boot(count));
        }
        disk.set_content(BOOT_FILE, bytes);
        match started(disk.clone()) {
            Ok(()) => assert!(is_counted, "{count}"),
            Err(error) => {
                assert!(!is_counted, "{count}");
                assert!(matches!(&error, StorageError::Corrupt { file, .. } if file == BOOT_FILE));
            }
        }
    }
}

#[test]
fn a_second_server_is_refused_until_the_first_is_gone() {
    let disk = FaultDisk::new(1);
    let first = birth(&disk).expect("is born");
    assert!(matches!(open(disk.clone()), Err(StorageError::InUse { .. })));
    drop(first);
    let empty = open(disk.clone()).expect("opens");
    assert!(matches!(open(disk.clone()), Err(StorageError::InUse { .. })));
    drop(empty);
    open(disk).expect("opens");
}

#[test]
fn zookeepers_directory_is_refused_and_left_as_it_is() {
    for name in ["log.1", "snapshot.0"] {
        let disk = FaultDisk::new(1);
        disk.create_dir("version-2").expect("makes a directory");
        disk.set_content(&format!("version-2/{name}"), vec![1]);
        let before = disk.paths();
        let refused = open(disk.clone()).expect_err("is refused");
        assert!(matches!(refused, StorageError::ForeignZooKeeper { .. }));
        assert!(refused.to_string().contains("quorate import"));
        assert_eq!(disk.paths(), before);
    }
}

#[test]
fn a_myid_file_an_empty_version_2_and_other_files_are_fine() {
    let disk = FaultDisk::new(1);
    disk.create_dir("version-2").expect("makes a directory");
    disk.set_content("version-2/acceptedEpoch", vec![1]);
    disk.set_content("myid", b"1\n".to_vec());
    disk.set_content("readme.txt", vec![1]);
    birth(&disk).expect("is born");
    assert!(disk.content("myid").is_some());
}

#[test]
fn zookeepers_files_beside_ours_are_fine() {
    let disk = FaultDisk::new(1);
    drop(birth(&disk).expect("is born"));
    disk.create_dir("version-2").expect("makes a directory");
    disk.set_content("version-2/log.1", vec![1]);
    assert!(matches!(open(disk), Ok(Opened::Existing(_))));
}

/// Opens a directory that was born, and counts a start.
fn started(disk: FaultDisk) -> Result<(), StorageError> {
    match open(disk)? {
        Opened::Existing(dir) => dir.next_boot().map(drop),
        Opened::Empty(_) => panic!("it was born"),
    }
}

/// Changes the version in some sealed bytes; fixes their checksum only if `is_sealed`.
fn set_version(bytes: &mut [u8], version: u8, is_sealed: bool) {
    bytes[8] = version;
    if is_sealed {
        let covered = bytes.len() - 4;
        let crc = crc32c::crc32c(&bytes[..covered]);
        bytes[covered..].copy_from_slice(&crc.to_le_bytes());
    }
}

/// A born directory in which one file has another version. `is_sealed` is as in [`set_version`].
fn with_version(file: &str, version: u8, is_sealed: bool) -> FaultDisk {
    let disk = FaultDisk::new(1);
    drop(birth(&disk).expect("is born"));
    let mut bytes = disk.content(file).expect("is there");
    match file == BOOT_FILE {
        true => BOOT_SLOT_OFFSETS.into_iter().for_each(|at| {
            set_version(&mut bytes[at..at + BOOT_SLOT_BYTES], version, is_sealed);
        }),
        false => set_version(&mut bytes, version, is_sealed),
    }
    disk.set_content(file, bytes);
    disk
}

#[test]
fn a_newer_format_is_refused_as_such() {
    for file in [IDENTITY_FILE, BOOT_FILE, BIRTH_FILE] {
        let refused = started(with_version(file, 2, true));
        assert!(matches!(refused, Err(StorageError::UnknownFormat { version: 2, .. })), "{file}");
    }
}

#[test]
fn a_version_that_its_checksum_does_not_confirm_is_damage() {
    for file in [IDENTITY_FILE, BOOT_FILE, BIRTH_FILE] {
        for (version, is_sealed) in [(0, false), (0, true), (2, false), (255, false)] {
            let refused = started(with_version(file, version, is_sealed));
            assert!(matches!(refused, Err(StorageError::Corrupt { .. })), "{file} {version}");
        }
    }
    let disk = FaultDisk::new(1);
    let Ok(Opened::Empty(empty)) = open(disk.clone()) else { panic!("it is empty") };
    empty.draft(7).expect("is kept");
    let mut bytes = disk.content(DRAFT_FILE).expect("is there");
    set_version(&mut bytes, 2, false);
    disk.set_content(DRAFT_FILE, bytes.clone());
    assert!(matches!(read_draft(&disk), Err(StorageError::Corrupt { .. })));
    set_version(&mut bytes, 3, true);
    disk.set_content(DRAFT_FILE, bytes);
    assert!(matches!(read_draft(&disk), Err(StorageError::UnknownFormat { version: 3, .. })));
}

#[test]
fn a_lost_identity_never_leads_to_a_new_birth_once_a_server_has_run() {
    let disk = FaultDisk::new(1);
    let dir = birth(&disk).expect("is born");
    dir.next_boot().expect("counts");
    drop(dir);
    disk.lose_file(IDENTITY_FILE);
    assert!(matches!(open(disk), Err(StorageError::Corrupt { .. })));
}

/// Every file with its bytes, except for the lock.
fn everything(disk: &FaultDisk) -> Vec<(String, Option<Vec<u8>>)> {
    let paths = disk.paths().into_iter().filter(|path| path != LOCK_FILE);
    paths.map(|path| (path.clone(), disk.content(&path))).collect()
}

#[test]
fn a_log_that_was_used_is_never_wiped_for_want_of_the_small_files() {
    type Use<'u> = (&'u str, &'u dyn Fn(&mut Wal<FaultDisk>));
    let entry = |index: u64| LogEntry {
        index,
        term: 2,
        kind: EntryKind::Normal,
        payload: vec![5; 30_000].into(),
    };
    let append = |wal: &mut Wal<FaultDisk>, entry: LogEntry| {
        wal.append(&[entry], None, None).expect("appends");
        wal.commit().expect("commits");
    };
    let uses: [Use; 4] = [
        ("an entry", &|wal| append(wal, entry(2))),
        ("many segments", &|wal| (2..9).for_each(|index| append(wal, entry(index)))),
        ("a vote", &|wal| {
            wal.append(&[], Some(HardState { term: 4, vote: 7, commit: 1 }), None).expect("takes");
            wal.commit().expect("commits");
        }),
        ("a snapshot of another", &|wal| {
            let point = SnapshotPoint { index: 90, term: 4 };
            wal.install_snapshot(point, membership()).expect("installs");
        }),
    ];
    for (about, run) in uses {
        // With one start or two; after the second, the log begins with another segment.
        for start_count in 1..3 {
            let disk = FaultDisk::new(1);
            drop(birth(&disk).expect("is born"));
            let (mut wal, _) = Wal::open(disk.clone(), options()).expect("opens");
            run(&mut wal);
            drop(wal);
            for _ in 1..start_count {
                Wal::open(disk.clone(), options()).expect("opens");
            }
            disk.lose_file(IDENTITY_FILE);
            disk.lose_file(BOOT_FILE);
            let before = everything(&disk);
            let refused = open(disk.clone()).expect_err("is refused");
            assert!(matches!(refused, StorageError::Corrupt { .. }), "{about}: {refused}");
            assert!(refused.to_string().contains("there is a log"), "{about}: {refused}");
            assert_eq!(everything(&disk), before, "{about}");
        }
    }
}

#[test]
fn a_log_whose_only_entry_is_damaged_is_not_wiped_either() {
    let disk = FaultDisk::new(1);
    drop(birth(&disk).expect("is born"));
    let (mut wal, _) = Wal::open(disk.clone(), options()).expect("opens");
    let entry = LogEntry { index: 2, term: 2, kind: EntryKind::Normal, payload: vec![5; 9].into() };
    wal.append(&[entry], None, None).expect("appends");
    wal.commit().expect("commits");
    drop(wal);
    disk.lose_file(IDENTITY_FILE);
    disk.lose_file(BOOT_FILE);
    let paths = disk.paths();
    let path = paths.iter().rfind(|path| path.ends_with(".log")).expect("there is a log");
    let mut bytes = disk.content(path).expect("is there");
    let at = bytes.iter().rposition(|byte| *byte == 5).expect("the payload is there");
    bytes[at] ^= 1;
    disk.set_content(path, bytes);
    let refused = open(disk).expect_err("is refused");
    assert!(refused.to_string().contains("there is a log"), "{refused}");
}

/// A draft. With round 0 the member has promised nothing. Otherwise it has promised a ballot of
/// that round, and from round 2 on it has accepted a birth in the round before.
fn drafted(member_id: u64, round: u64) -> Draft {
    let birth = || Birth { cluster_id: 99, voters: vec![7, 8, 9] };
    let ballot = |round| Ballot { round, member: if round == 0 { 0 } else { 8 } };
    let accepted = (round > 1).then(|| (ballot(round - 1), birth()));
    Draft { member_id, acceptor: Acceptor { promised: ballot(round), accepted } }
}

#[test]
fn drafts_of_all_kinds_are_read_as_they_were_written_and_nonsense_is_refused() {
    for round in 0..3 {
        let draft = drafted(7, round);
        assert_eq!(decode_draft(&encode_draft(&draft)), Ok(draft));
    }
    let refused = |change: fn(&mut Acceptor)| {
        let mut draft = drafted(7, 2);
        change(&mut draft.acceptor);
        assert!(decode_draft(&encode_draft(&draft)).is_err(), "{draft:?}");
    };
    refused(|it| it.promised = Ballot { round: 0, member: 8 });
    refused(|it| it.promised = Ballot { round: 2, member: 0 });
    refused(|it| it.promised.round = crate::limits::BALLOT_ROUND_MAX + 1);
    refused(|it| it.promised = Ballot { round: 1, member: 7 });
    refused(|it| it.accepted.as_mut().expect("has accepted").0 = Ballot::default());
    for voters in [vec![], vec![0, 1], vec![8, 7], vec![7, 7]] {
        let mut draft = drafted(7, 2);
        draft.acceptor.accepted.as_mut().expect("has accepted").1.voters = voters;
        assert!(decode_draft(&encode_draft(&draft)).is_err(), "{draft:?}");
    }
}

#[test]
fn every_changed_or_missing_byte_of_the_small_files_is_noticed() {
    let identity = encode_identity(&IDENTITY);
    let boot = encode_boot(5);
    let draft = encode_draft(&drafted(7, 0));
    let first = Birth { cluster_id: 99, voters: vec![7, 8, 9] };
    let birth = encode_birth(&first);
    assert_eq!(decode_draft(&draft), Ok(drafted(7, 0)));
    assert_eq!(decode_birth(&birth), Ok(first));
    for draft in [draft, encode_draft(&drafted(7, 1)), encode_draft(&drafted(7, 2))] {
        for at in 0..draft.len() {
            assert!(decode_draft(&draft[..at]).is_err());
            let mut bytes = draft.clone();
            bytes[at] ^= 0x20;
            assert!(decode_draft(&bytes).is_err(), "byte {at}");
        }
        assert!(decode_draft(&[&draft[..], &[0]].concat()).is_err());
    }
    for at in 0..birth.len() {
        assert!(decode_birth(&birth[..at]).is_err());
        let mut bytes = birth.clone();
        bytes[at] ^= 0x20;
        assert!(decode_birth(&bytes).is_err(), "byte {at}");
    }
    assert!(decode_draft(&encode_draft(&drafted(0, 0))).is_err());
    assert!(decode_birth(&[&birth[..], &[0]].concat()).is_err());
    let of_nobody = Birth { cluster_id: 1, voters: vec![5, 0] };
    assert!(decode_birth(&encode_birth(&of_nobody)).is_err());
    assert_eq!(decode_identity(&identity), Ok(IDENTITY));
    assert_eq!(decode_boot(&boot), Ok(5));
    for at in 0..identity.len() {
        assert!(decode_identity(&identity[..at]).is_err());
        let mut bytes = identity.clone();
        bytes[at] ^= 0x20;
        assert!(decode_identity(&bytes).is_err(), "byte {at}");
    }
    for at in 0..boot.len() {
        assert!(decode_boot(&boot[..at]).is_err());
        let mut bytes = boot.clone();
        bytes[at] ^= 0x20;
        assert!(decode_boot(&bytes).is_err(), "byte {at}");
    }
    assert!(decode_identity(&[&identity[..], &[0]].concat()).is_err());
    assert!(decode_identity(&boot).is_err());
    let nobody = Identity { cluster_id: 1, member_id: 0 };
    assert!(decode_identity(&encode_identity(&nobody)).is_err());
}

#[test]
fn a_small_file_at_the_limit_is_read_and_one_past_it_refused() {
    let disk = FaultDisk::new(1);
    disk.set_content("a", vec![0; SMALL_FILE_BYTES_MAX as usize]);
    disk.set_content("b", vec![0; SMALL_FILE_BYTES_MAX as usize + 1]);
    assert!(read_small(&disk, "a").is_ok());
    assert!(matches!(read_small(&disk, "b"), Err(StorageError::Corrupt { .. })));
}

#[test]
fn a_corrupt_boot_count_is_never_guessed() {
    let disk = FaultDisk::new(1);
    let dir = birth(&disk).expect("is born");
    let mut bytes = disk.content(BOOT_FILE).expect("is there");
    for offset in BOOT_SLOT_OFFSETS {
        bytes[offset + 20] ^= 1;
    }
    disk.set_content(BOOT_FILE, bytes);
    assert!(matches!(dir.next_boot(), Err(StorageError::Corrupt { .. })));
}

#[test]
fn a_damaged_slot_of_the_boot_count_never_makes_a_number_come_twice() {
    for boots in 0..4 {
        let disk = FaultDisk::new(1);
        let dir = birth(&disk).expect("is born");
        for boot in 1..=boots {
            assert_eq!(dir.next_boot().expect("counts"), boot);
        }
        let whole = disk.content(BOOT_FILE).expect("is there");
        for (offset, at) in BOOT_SLOT_OFFSETS.iter().flat_map(|it| (0..28).map(move |at| (it, at)))
        {
            let mut bytes = whole.clone();
            bytes[offset + at] ^= 0x20;
            disk.set_content(BOOT_FILE, bytes);
            let mut before = boots;
            for _ in 0..3 {
                let boot = dir.next_boot().expect("counts");
                assert!(boot > before, "{boot} after {before}, byte {at} of {offset}");
                assert!(boot <= before + 2);
                before = boot;
            }
        }
    }
}

#[test]
fn damage_after_damage_never_makes_a_boot_number_come_twice() {
    for seed in 0..200_u32 {
        let disk = FaultDisk::new(1);
        let dir = birth(&disk).expect("is born");
        let mut before = 0;
        for round in 0..10 {
            let which = (seed >> round) as usize % 3;
            if let Some(offset) = BOOT_SLOT_OFFSETS.get(which) {
                let mut bytes = disk.content(BOOT_FILE).expect("is there");
                bytes[offset + 8] ^= 1;
                disk.set_content(BOOT_FILE, bytes);
            }
            let boot = dir.next_boot().expect("counts");
            assert!(boot > before, "{boot} after {before}, seed {seed}");
            before = boot;
        }
    }
}

#[test]
fn a_torn_count_leaves_the_other_slot() {
    // The sectors of real disks are written as a whole; this one is not.
    let disk = FaultDisk::new(1);
    let dir = birth(&disk).expect("is born");
    for boot in 1..4 {
        assert_eq!(dir.next_boot().expect("counts"), boot);
    }
    let before = disk.content(BOOT_FILE).expect("is there");
    assert_eq!(dir.next_boot().expect("counts"), 4);
    let after = disk.content(BOOT_FILE).expect("is there");
    for cut in 0..after.len() {
        if before[cut] == after[cut] {
            continue;
        }
        disk.set_content(BOOT_FILE, [&after[..cut], &before[cut..]].concat());
        assert!(dir.next_boot().expect("counts") >= 4);
    }
}

#[test]
fn a_start_is_counted_on_a_disk_without_room() {
    let disk = FaultDisk::new(1);
    let dir = birth(&disk).expect("is born");
    let paths = disk.paths();
    disk.set_plan(FaultPlan { bytes_max: Some(0), ..FaultPlan::default() });
    for boot in 1..20 {
        assert_eq!(dir.next_boot().expect("counts"), boot);
    }
    assert_eq!(disk.paths(), paths);
}

#[test]
fn a_boot_file_cut_at_any_byte_is_corrupt_or_counts_on() {
    let disk = FaultDisk::new(1);
    let dir = birth(&disk).expect("is born");
    for boot in 1..8 {
        assert_eq!(dir.next_boot().expect("counts"), boot);
    }
    let whole = disk.content(BOOT_FILE).expect("is there");
    for cut in 0..whole.len() {
        disk.set_content(BOOT_FILE, whole[..cut].to_vec());
        match (dir.next_boot(), cut >= BOOT_SLOT_BYTES) {
            (Ok(boot), true) => assert!(boot > 7, "cut at {cut}"),
            (Err(StorageError::Corrupt { .. }), false) => {}
            (other, _) => panic!("cut at {cut}: {other:?}"),
        }
    }
}

fn empty(disk: &FaultDisk) -> EmptyDir<FaultDisk> {
    match open(disk.clone()).expect("opens") {
        Opened::Existing(_) => panic!("it was never born"),
        Opened::Empty(empty) => empty,
    }
}

#[test]
fn a_draft_that_was_told_is_kept_whatever_crashes() {
    for (seed, stop) in (0..40).flat_map(|seed| (0..10).map(move |stop| (seed, stop))) {
        let disk = FaultDisk::new(seed);
        let mut told: Option<Draft> = None;
        for drawn in 1..6 {
            disk.set_plan(FaultPlan { stop_at: Some(disk.ops() + stop), ..FaultPlan::default() });
            if let Ok(Opened::Empty(empty)) = open(disk.clone())
                && let Ok(draft) = empty.draft(drawn)
            {
                let before = told.get_or_insert(draft.clone());
                assert_eq!(before.member_id, draft.member_id, "seed {seed}, stop {stop}");
                let (first, last) = (before.acceptor.promised, draft.acceptor.promised);
                assert!(first <= last, "seed {seed}, stop {stop}");
                let next = drafted(draft.member_id, drawn);
                told = Some(empty.keep_draft(&next).map_or(draft, |()| next));
            }
            match drawn % 2 {
                0 => disk.crash(),
                _ => disk.kill(),
            }
        }
        let last = empty(&disk).draft(77).expect("drafts");
        let told = told.unwrap_or(last.clone());
        assert!(
            told.member_id == last.member_id && told.acceptor.promised <= last.acceptor.promised
        );
    }
}

#[test]
fn a_draft_goes_with_the_birth_and_stays_while_that_fails() {
    let count = {
        let disk = FaultDisk::new(1);
        empty(&disk).draft(7).expect("drafts");
        let before = disk.ops();
        drop(birth(&disk).expect("is born"));
        assert!(disk.content(DRAFT_FILE).is_none());
        disk.ops() - before
    };
    for (seed, stop) in (0..10).flat_map(|seed| (0..count).map(move |stop| (seed, stop))) {
        let disk = FaultDisk::new(seed);
        empty(&disk).draft(7).expect("drafts");
        disk.set_plan(FaultPlan { stop_at: Some(disk.ops() + stop), ..FaultPlan::default() });
        drop(birth(&disk));
        disk.crash();
        match open(disk.clone()).expect("opens") {
            Opened::Existing(dir) => {
                assert_eq!(dir.identity(), IDENTITY);
                assert!(disk.content(DRAFT_FILE).is_none());
            }
            Opened::Empty(empty) => {
                assert_eq!(empty.draft(8).expect("is there"), drafted(7, 0));
            }
        }
    }
}

#[test]
fn a_damaged_draft_is_corrupt_and_never_drawn_anew() {
    let disk = FaultDisk::new(1);
    empty(&disk).draft(7).expect("drafts");
    let mut bytes = disk.content(DRAFT_FILE).expect("is there");
    bytes[20] ^= 1;
    disk.set_content(DRAFT_FILE, bytes);
    assert!(matches!(empty(&disk).draft(8), Err(StorageError::Corrupt { .. })));
}

#[test]
fn a_born_directory_says_how_the_ensemble_began() {
    let disk = FaultDisk::new(1);
    let voters = Membership { voters: vec![5, 6], ..Membership::default() };
    let dir =
        empty(&disk).birth(IDENTITY, &voters, (BIRTH_POINT, &[b"image".to_vec()]), &options());
    let first = Birth { cluster_id: IDENTITY.cluster_id, voters: vec![5, 6] };
    assert_eq!(dir.expect("is born").birth(), &first);
    let Ok(Opened::Existing(dir)) = open(disk.clone()) else { panic!("it was born") };
    assert_eq!(dir.birth(), &first);
    drop(dir);
    disk.set_content(BIRTH_FILE, encode_birth(&Birth { cluster_id: 1, ..first }));
    let refused = open(disk.clone()).expect_err("is refused");
    assert!(refused.to_string().contains("of another cluster"), "{refused}");
    // Like a directory from before this file existed.
    disk.lose_file(BIRTH_FILE);
    let Ok(Opened::Existing(dir)) = open(disk.clone()) else { panic!("it was born") };
    assert_eq!(dir.birth().voters, [IDENTITY.member_id]);
}

#[test]
fn what_is_set_aside_is_whole_and_what_is_left_is_unborn() {
    let disk = FaultDisk::new(1);
    let dir = birth(&disk).expect("is born");
    dir.next_boot().expect("counts");
    disk.set_content("myid", b"1\n".to_vec());
    let before = everything(&disk);
    let (empty, name) = dir.set_aside().expect("moves");
    assert_eq!(name, "set-aside-1");
    disk.crash();
    drop(empty);
    let moved: Vec<_> = before
        .iter()
        .filter(|(path, _)| path != "myid")
        .map(|(path, bytes)| (format!("set-aside-1/{path}"), bytes.clone()))
        .collect();
    let mut after = everything(&disk);
    assert!(after.iter().any(|(path, _)| path == "myid"));
    after.retain(|(path, _)| path != "myid");
    assert_eq!(after, moved);
    drop(birth(&disk).expect("is born"));
    check_whole(&disk);
    // And so on, up to the limit.
    for number in 2..=SET_ASIDE_MAX {
        let (_, name) = set_aside(disk.clone()).expect("moves");
        assert_eq!(name, format!("set-aside-{number}"));
    }
    let refused = set_aside(disk.clone()).expect_err("is refused");
    assert!(matches!(refused, StorageError::TooManySetAside { count_max: SET_ASIDE_MAX }));
    open(disk).expect("the directory is as it was");
}

#[test]
fn a_directory_in_use_is_not_set_aside() {
    let disk = FaultDisk::new(1);
    let dir = birth(&disk).expect("is born");
    assert!(matches!(set_aside(disk.clone()), Err(StorageError::InUse { .. })));
    drop(dir);
    set_aside(disk).expect("moves");
}

/// A directory that is only partly set aside must not be opened as a member's: the rest of its log
/// could pass for a shorter log, and the member could then vote against entries that it
/// acknowledged.
#[test]
fn a_crash_at_every_operation_of_setting_aside_leaves_it_whole_corrupt_or_unborn() {
    let lived = |seed| {
        let disk = FaultDisk::new(seed);
        let dir = birth(&disk).expect("is born");
        dir.next_boot().expect("counts");
        let (mut wal, _) = Wal::open(disk.clone(), options()).expect("opens");
        for index in 2..9 {
            let (term, kind) = (2, EntryKind::Normal);
            let entry = LogEntry { index, term, kind, payload: vec![5; 30_000].into() };
            wal.append(&[entry], None, None).expect("appends");
            wal.commit().expect("commits");
        }
        disk
    };
    let count = {
        let disk = lived(1);
        let before = disk.ops();
        set_aside(disk.clone()).expect("moves");
        disk.ops() - before
    };
    let mut seen = [0; 3];
    for (seed, stop) in (0..30).flat_map(|seed| (0..count).map(move |stop| (seed, stop))) {
        let disk = lived(seed);
        disk.set_plan(FaultPlan { stop_at: Some(disk.ops() + stop), ..FaultPlan::default() });
        assert!(set_aside(disk.clone()).is_err());
        disk.crash();
        match open(disk.clone()) {
            Ok(Opened::Existing(_)) => {
                assert_eq!(check_whole(&disk).entries.len(), 7, "seed {seed}, stop {stop}");
                seen[0] += 1;
            }
            Err(StorageError::Corrupt { .. }) => seen[1] += 1,
            Ok(Opened::Empty(_)) => {
                // Nothing was left for which the directory would be refused.
                assert!(disk.paths().iter().any(|path| path.starts_with("set-aside-1/wal/")));
                seen[2] += 1;
            }
            Err(other) => panic!("seed {seed}, stop {stop}: {other}"),
        }
        set_aside(disk.clone()).expect("moves");
        drop(birth(&disk).expect("is born"));
        assert_eq!(check_whole(&disk).entries.len(), 0);
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
}
