//! This version reads what version 1 of the formats wrote: a small data directory with every kind
//! of frame. `fixtures/README.md` describes how the files were made. They are never rewritten: a
//! later version of a format gets its own files.

use bytes::Bytes;
use storage::datadir::{
    self, Acceptor, BIRTH_FILE, BOOT_FILE, BOOT_SLOT_BYTES, BOOT_SLOT_OFFSETS, Ballot, Birth,
    DRAFT_FILE, DataDir, Draft, IDENTITY_FILE, Identity, LOCK_FILE, Opened,
};
use storage::disk::Disk;
use storage::fault_disk::FaultDisk;
use storage::inspect::inspect;
use storage::limits::{CARRIED_SHARE, SEGMENT_BYTES_MIN};
use storage::record::{
    self, FRAMES_START, FrameHeader, FrameKind, HEADER_BYTES, SLOT_BYTES, SLOT_OFFSETS,
};
use storage::snapshot::{
    self, SNAPSHOT_DIR, SnapshotMeta, SnapshotReader, SnapshotWriter, snapshot_name,
};
use storage::wal::{
    EntryKind, HardState, LogEntry, Membership, SnapshotPoint, WAL_DIR, Wal, WalOptions, log_path,
};

/// Every file of the fixture. Files of the log are stored without the zeros at their end.
const FILES: [(&str, &[u8]); 8] = [
    ("boot", include_bytes!("fixtures/datadir-v1/boot")),
    ("identity", include_bytes!("fixtures/datadir-v1/identity")),
    (
        "snapshots/0000000000000001-0000000000000001.snap",
        include_bytes!("fixtures/datadir-v1/snapshots/0000000000000001-0000000000000001.snap"),
    ),
    (
        "snapshots/0000000000000004-0000000000000002.snap",
        include_bytes!("fixtures/datadir-v1/snapshots/0000000000000004-0000000000000002.snap"),
    ),
    (
        "wal/0000000000000001.spare",
        include_bytes!("fixtures/datadir-v1/wal/0000000000000001.spare"),
    ),
    ("wal/0000000000000003.log", include_bytes!("fixtures/datadir-v1/wal/0000000000000003.log")),
    (
        "wal/0000000000000005.spare",
        include_bytes!("fixtures/datadir-v1/wal/0000000000000005.spare"),
    ),
    ("wal/0000000000000007.log", include_bytes!("fixtures/datadir-v1/wal/0000000000000007.log")),
];

/// Small files of members of an ensemble, from a later version of the program.
const DRAFT: &[u8] = include_bytes!("fixtures/ensemble-v1/draft");
const AGREEING_DRAFT: &[u8] = include_bytes!("fixtures/ensemble-v1/draft-v2");
const BIRTH: &[u8] = include_bytes!("fixtures/ensemble-v1/birth");

const IDENTITY: Identity = Identity {
    cluster_id: 0x0123_4567_89ab_cdef_0011_2233_4455_6677,
    member_id: 0x1111_2222_3333_4444,
};
const SNAPSHOT: SnapshotPoint = SnapshotPoint { index: 4, term: 2 };
const LAST: u64 = 9;
const HARD_STATE: HardState = HardState { term: 3, vote: IDENTITY.member_id, commit: 8 };

fn options() -> WalOptions {
    WalOptions {
        segment_bytes: SEGMENT_BYTES_MIN,
        first_segment_bytes: SEGMENT_BYTES_MIN,
        group: 0,
        spare_count: 0,
    }
}

fn first_members() -> Membership {
    Membership { voters: vec![IDENTITY.member_id], ..Membership::default() }
}

fn joint_members() -> Membership {
    Membership {
        voters: vec![5, 6, IDENTITY.member_id],
        voters_outgoing: vec![7, IDENTITY.member_id],
        learners: vec![8],
        learners_next: vec![7],
        auto_leave: true,
    }
}

/// Entry 5 is too long for a start to carry it over, entry 6 changes the membership, entry 7 is
/// empty. The others hold their index.
fn entry(index: u64) -> LogEntry {
    let (kind, payload) = match index {
        5 => (EntryKind::Normal, vec![b'5'; (SEGMENT_BYTES_MIN / CARRIED_SHARE) as usize]),
        6 => (EntryKind::MembershipChange, b"a change of the membership".to_vec()),
        7 => (EntryKind::Normal, Vec::new()),
        _ => (EntryKind::Normal, format!("entry {index}").into_bytes()),
    };
    let term = if index < 7 { 2 } else { 3 };
    LogEntry { index, term, kind, payload: payload.into() }
}

/// Pieces of the newer snapshot: one that compresses, one that does not, and an empty one.
fn pieces() -> Vec<Vec<u8>> {
    vec![vec![b'x'; 3_000], (0..=255).collect(), Vec::new()]
}

fn existing(disk: &FaultDisk) -> DataDir<FaultDisk> {
    match datadir::open(disk.clone()).expect("opens") {
        Opened::Existing(dir) => dir,
        Opened::Empty(_) => panic!("the directory was born"),
    }
}

/// Repeats the history of the fixture's directory.
fn live(disk: &FaultDisk) {
    let Ok(Opened::Empty(empty)) = datadir::open(disk.clone()) else {
        panic!("the directory is empty");
    };
    let image = [b"first image".to_vec()];
    let dir = empty
        .birth(IDENTITY, &first_members(), (storage::datadir::BIRTH_POINT, &image), &options())
        .expect("is born");
    dir.next_boot().expect("counts");
    let (mut wal, _) = Wal::open(disk.clone(), options()).expect("opens");
    let append = |wal: &mut Wal<FaultDisk>, entries: &[LogEntry], term| {
        let state = HardState { term, vote: IDENTITY.member_id, commit: entries[0].index - 1 };
        wal.append(entries, Some(state), None).expect("appends");
        wal.commit().expect("commits");
    };
    append(&mut wal, &[entry(2), entry(3), entry(4)], 2);
    let replaced = LogEntry { payload: b"replaced".to_vec().into(), ..entry(5) };
    append(&mut wal, &[replaced], 2);
    append(&mut wal, &[entry(5), entry(6)], 2);
    wal.append(&[], None, Some(joint_members())).expect("appends");
    wal.idle_mark().expect("marks");
    let (index, term, cluster_id) = (SNAPSHOT.index, SNAPSHOT.term, IDENTITY.cluster_id);
    let meta = SnapshotMeta { index, term, cluster_id, membership: first_members() };
    let mut writer = SnapshotWriter::create(disk.clone(), &meta).expect("starts");
    for piece in pieces() {
        writer.write_piece(&piece).expect("writes");
    }
    writer.finish().expect("finishes");
    wal.release(SNAPSHOT).expect("releases");
    drop((wal, dir));

    let dir = existing(disk);
    dir.next_boot().expect("counts");
    let (mut wal, _) = Wal::open(disk.clone(), options()).expect("opens");
    append(&mut wal, &[entry(7)], 3);
    append(&mut wal, &[entry(8)], 3);
    drop((wal, dir));

    // The third start carries entries 7 and 8 over.
    let dir = existing(disk);
    dir.next_boot().expect("counts");
    let (mut wal, _) = Wal::open(disk.clone(), options()).expect("opens");
    append(&mut wal, &[entry(9)], 3);
}

/// A disk with a copy of the fixture.
fn copy() -> FaultDisk {
    let disk = FaultDisk::new(1);
    for dir in [SNAPSHOT_DIR, WAL_DIR] {
        disk.create_dir(dir).expect("makes");
    }
    for (path, bytes) in FILES {
        let mut bytes = bytes.to_vec();
        if path.starts_with("wal/") {
            bytes.resize(SEGMENT_BYTES_MIN as usize, 0);
        }
        disk.set_content(path, bytes);
    }
    disk
}

fn file(path: &str) -> Vec<u8> {
    copy().content(path).expect("the file is part of the fixture")
}

fn segments() -> impl Iterator<Item = (&'static str, Vec<u8>)> {
    FILES.into_iter().map(|(path, _)| (path, file(path))).filter(|(path, _)| path.ends_with(".log"))
}

#[test]
fn a_directory_of_version_1_is_opened_and_goes_on() {
    let disk = copy();
    let dir = existing(&disk);
    assert_eq!(dir.identity(), IDENTITY);
    assert_eq!(dir.next_boot().expect("counts"), 4);
    let (mut wal, recovered) = Wal::open(disk.clone(), options()).expect("opens");
    assert_eq!(recovered.hard_state, HARD_STATE);
    assert_eq!(recovered.membership, joint_members());
    assert_eq!(recovered.snapshot, SNAPSHOT);
    assert_eq!(recovered.entries, (SNAPSHOT.index + 1..=LAST).map(entry).collect::<Vec<_>>());
    assert_eq!(recovered.cut, None);
    wal.append(&[entry(LAST + 1)], None, None).expect("appends");
    wal.commit().expect("commits");
    drop(wal);
    let (_, recovered) = Wal::open(disk, options()).expect("opens");
    assert_eq!(recovered.entries.last(), Some(&entry(LAST + 1)));
}

#[test]
fn snapshots_of_version_1_hold_their_pieces() {
    let disk = copy();
    for (index, term, expected) in
        [(1, 1, vec![b"first image".to_vec()]), (SNAPSHOT.index, SNAPSHOT.term, pieces())]
    {
        let name = snapshot_name(index, term);
        let mut reader = SnapshotReader::open(disk.clone(), &name).expect("opens");
        let (cluster_id, membership) = (IDENTITY.cluster_id, first_members());
        assert_eq!(reader.meta(), &SnapshotMeta { index, term, cluster_id, membership });
        for piece in expected {
            assert_eq!(reader.next_piece().expect("reads"), Some(piece));
        }
        assert_eq!(reader.next_piece().expect("reads"), None);
    }
}

#[test]
fn a_directory_of_version_1_is_sound() {
    let mut seen = Vec::new();
    let report = inspect(&copy(), &mut |entry| {
        seen.push(entry.index);
        Ok(())
    });
    assert!(report.is_sound(), "{report}");
    assert_eq!((report.identity, report.boot), (Some(IDENTITY), Some(3)));
    assert!(seen.ends_with(&[5, 6, 7, 8, 9]), "{seen:?}");
}

#[test]
fn small_files_and_headers_of_version_1_are_written_with_the_same_bytes() {
    let identity = file(IDENTITY_FILE);
    let decoded = datadir::decode_identity(&identity).expect("decodes");
    assert_eq!(datadir::encode_identity(&decoded), identity);
    let boot = file(BOOT_FILE);
    for offset in BOOT_SLOT_OFFSETS {
        let slot = &boot[offset..offset + BOOT_SLOT_BYTES];
        assert_eq!(datadir::encode_boot(datadir::decode_boot(slot).expect("decodes")), slot);
    }
    for (index, term) in [(1, 1), (SNAPSHOT.index, SNAPSHOT.term)] {
        let bytes = file(&format!("snapshots/{}", snapshot_name(index, term)));
        let (_, meta_bytes) = snapshot::decode_prefix(&bytes).expect("decodes");
        let header = &bytes[..snapshot::PREFIX_BYTES + meta_bytes + 4];
        let meta = snapshot::decode_header(header).expect("decodes");
        assert_eq!(snapshot::encode_header(&meta), header);
    }
}

/// The beginning of the fixture's ensemble.
fn first_birth() -> Birth {
    let voters = vec![5, 6, IDENTITY.member_id];
    Birth { cluster_id: IDENTITY.cluster_id, voters }
}

#[test]
fn small_files_of_an_ensemble_of_version_1_say_what_they_said() {
    let draft = Draft { member_id: IDENTITY.member_id, acceptor: Acceptor::default() };
    assert_eq!(datadir::decode_draft(DRAFT), Ok(draft.clone()));
    assert_eq!(datadir::encode_draft(&draft), DRAFT);
    assert_eq!(datadir::decode_birth(BIRTH), Ok(first_birth()));
    assert_eq!(datadir::encode_birth(&first_birth()), BIRTH);
    let disk = copy();
    disk.set_content(BIRTH_FILE, BIRTH.to_vec());
    assert_eq!(existing(&disk).birth(), &first_birth());
    let unborn = FaultDisk::new(1);
    unborn.set_content(DRAFT_FILE, DRAFT.to_vec());
    let Ok(Opened::Empty(empty)) = datadir::open(unborn) else { panic!("it is not born") };
    assert_eq!(empty.draft(1).expect("is there"), draft);
}

/// A draft that accepted a birth and promised a later ballot.
fn agreeing_draft() -> Draft {
    let promised = Ballot { round: 3, member: 6 };
    let accepted = Some((Ballot { round: 2, member: 5 }, first_birth()));
    Draft { member_id: IDENTITY.member_id, acceptor: Acceptor { promised, accepted } }
}

#[test]
fn a_draft_of_version_2_says_what_it_said() {
    assert_eq!(datadir::decode_draft(AGREEING_DRAFT), Ok(agreeing_draft()));
    assert_eq!(datadir::encode_draft(&agreeing_draft()), AGREEING_DRAFT);
}

#[test]
fn a_directory_of_version_1_without_a_birth_file_began_alone() {
    let alone = Birth { voters: vec![IDENTITY.member_id], ..first_birth() };
    assert_eq!(existing(&copy()).birth(), &alone);
}

/// Decodes and encodes the body of a frame.
fn encode_body_again(header: &FrameHeader, body: &[u8]) -> Vec<u8> {
    match header.kind {
        FrameKind::Head => record::encode_head(&record::decode_head(body).expect("decodes")),
        FrameKind::Entry => {
            let entry =
                record::decode_entry(header, &Bytes::copy_from_slice(body)).expect("decodes");
            assert_eq!(entry.kind.as_u8(), header.entry_kind);
            entry.payload.to_vec()
        }
        FrameKind::HardState => {
            record::encode_hard_state(&record::decode_hard_state(body).expect("decodes"))
        }
        FrameKind::Membership => {
            record::encode_membership(&record::decode_membership(body).expect("decodes"))
        }
        FrameKind::Snapshot => {
            record::encode_snapshot_point(&record::decode_snapshot_point(body).expect("decodes"))
        }
    }
}

#[test]
fn frames_and_slots_of_version_1_are_written_with_the_same_bytes() {
    let mut kinds = Vec::new();
    let mut slot_count = 0;
    let mut carried_count = 0;
    for (_, segment) in segments() {
        for offset in SLOT_OFFSETS {
            let bytes = &segment[offset as usize..offset as usize + SLOT_BYTES];
            if let Ok(slot) = record::decode_slot(bytes) {
                assert_eq!(record::encode_slot(&slot), bytes);
                slot_count += 1;
            }
        }
        let (mut offset, mut salt) = (FRAMES_START as usize, 0);
        while let Ok((header, crc)) = record::decode_header(&segment[offset..], salt) {
            let frame = &segment[offset..offset + header.frame_bytes() as usize];
            let body = record::decode_body(&header, &frame[HEADER_BYTES..]).expect("decodes");
            let mut again = Vec::new();
            let body = encode_body_again(&header, body);
            assert_eq!(record::encode_frame(&mut again, salt, &header, &body), crc);
            assert_eq!(again, frame);
            if header.kind == FrameKind::Head {
                salt = crc;
                carried_count += u32::from(header.mark > header.offset);
            }
            kinds.push(header.kind);
            offset += frame.len();
        }
    }
    assert!(slot_count >= 2);
    assert_eq!(carried_count, 1);
    for kind in [
        FrameKind::Head,
        FrameKind::Entry,
        FrameKind::HardState,
        FrameKind::Membership,
        FrameKind::Snapshot,
    ] {
        assert!(kinds.contains(&kind), "{kind:?}");
    }
}

#[test]
fn segments_of_version_1_are_named_by_their_generation() {
    for (path, segment) in segments() {
        let (header, _) =
            record::decode_header(&segment[FRAMES_START as usize..], 0).expect("a head");
        assert_eq!(log_path(header.generation), path);
        assert_eq!(header.offset, FRAMES_START);
    }
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "writes the fixtures, only when a person asks for it by a variable"
)]
fn fixtures_are_written_only_when_asked_for() {
    let disk = FaultDisk::new(0);
    live(&disk);
    if std::env::var_os("QUORATE_WRITE_FIXTURES").is_none() {
        return;
    }
    let of_ensemble = format!("{}/tests/fixtures/ensemble-v1", env!("CARGO_MANIFEST_DIR"));
    std::fs::create_dir_all(&of_ensemble).expect("makes");
    let draft = Draft { member_id: IDENTITY.member_id, acceptor: Acceptor::default() };
    let draft = datadir::encode_draft(&draft);
    std::fs::write(format!("{of_ensemble}/{DRAFT_FILE}"), draft).expect("writes");
    let draft = datadir::encode_draft(&agreeing_draft());
    std::fs::write(format!("{of_ensemble}/draft-v2"), draft).expect("writes");
    let birth = datadir::encode_birth(&first_birth());
    std::fs::write(format!("{of_ensemble}/{BIRTH_FILE}"), birth).expect("writes");
    for path in disk.paths() {
        let mut bytes = disk.content(&path).expect("the path was listed");
        // Directories of version 1 had no such file.
        if [LOCK_FILE, BIRTH_FILE].contains(&path.as_str()) {
            continue;
        }
        if path.starts_with("wal/") {
            let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            bytes.truncate(end);
        }
        let to = format!("{}/tests/fixtures/datadir-v1/{path}", env!("CARGO_MANIFEST_DIR"));
        let folder = std::path::Path::new(&to).parent().expect("a file lies in a folder");
        std::fs::create_dir_all(folder).expect("makes");
        std::fs::write(&to, bytes).expect("writes");
    }
}
