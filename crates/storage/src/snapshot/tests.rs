use super::*;
use crate::fault_disk::{Chance, FaultDisk, FaultPlan};
use crate::limits::MEMBERS_MAX;

fn meta(index: u64) -> SnapshotMeta {
    SnapshotMeta {
        index,
        term: 3,
        cluster_id: 0x1234_5678_9abc_def0_1122_3344_5566_7788,
        membership: Membership { voters: vec![1, 2, 3], ..Membership::default() },
    }
}

fn disk(seed: u64) -> FaultDisk {
    let disk = FaultDisk::new(seed);
    disk.create_dir(SNAPSHOT_DIR).expect("makes a directory");
    disk.sync_dir("").expect("syncs");
    disk
}

fn pieces() -> Vec<Vec<u8>> {
    let mut chance = Chance::new(4);
    let noise = (0..3000).map(|_| chance.bits() as u8).collect();
    vec![b"hello".to_vec(), Vec::new(), vec![7; 10_000], noise]
}

fn write(disk: &FaultDisk, index: u64) -> Result<SnapshotName, StorageError> {
    let mut writer = SnapshotWriter::create(disk.clone(), &meta(index))?;
    for piece in pieces() {
        writer.write_piece(&piece)?;
    }
    writer.finish()
}

fn read(disk: &FaultDisk, name: &str) -> Result<(SnapshotMeta, Vec<Vec<u8>>), StorageError> {
    let mut reader = SnapshotReader::open(disk.clone(), name)?;
    let mut pieces = Vec::new();
    while let Some(piece) = reader.next_piece()? {
        pieces.push(piece);
    }
    assert_eq!(reader.next_piece()?, None);
    Ok((reader.meta().clone(), pieces))
}

#[test]
fn a_snapshot_reads_back_as_it_was_written_also_after_a_power_cut() {
    let disk = disk(1);
    let name = write(&disk, 9).expect("writes");
    assert_eq!(name.name, "0000000000000009-0000000000000003.snap");
    disk.crash();
    assert_eq!(list(&disk).expect("lists"), core::slice::from_ref(&name));
    let (read_meta, read_pieces) = read(&disk, &name.name).expect("reads");
    assert_eq!(read_meta, meta(9));
    assert_eq!(read_pieces, pieces());
}

#[test]
fn a_snapshot_without_pieces_is_fine() {
    let disk = disk(1);
    let writer = SnapshotWriter::create(disk.clone(), &meta(1)).expect("creates");
    let name = writer.finish().expect("finishes");
    assert_eq!(read(&disk, &name.name).expect("reads").1, Vec::<Vec<u8>>::new());
}

#[test]
fn every_flipped_bit_is_noticed() {
    let disk = disk(1);
    let name = write(&disk, 9).expect("writes").name;
    let path = format!("{SNAPSHOT_DIR}/{name}");
    let whole = disk.content(&path).expect("is there");
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        disk.set_content(&path, bytes);
        let refused = read(&disk, &name).expect_err("is damaged");
        assert!(matches!(&refused, StorageError::Corrupt { .. }), "byte {at}: {refused}");
    }
}

#[test]
fn every_cut_and_every_byte_too_many_is_noticed() {
    let disk = disk(1);
    let name = write(&disk, 9).expect("writes").name;
    let path = format!("{SNAPSHOT_DIR}/{name}");
    let whole = disk.content(&path).expect("is there");
    for cut in 0..whole.len() {
        disk.set_content(&path, whole[..cut].to_vec());
        assert!(read(&disk, &name).is_err(), "cut at {cut}");
    }
    for more in [1, 16, 40, 100] {
        disk.set_content(&path, [&whole[..], &vec![0; more]].concat());
        assert!(read(&disk, &name).is_err(), "{more} bytes more");
    }
}

#[test]
fn a_snapshot_under_another_ones_name_is_refused() {
    let disk = disk(1);
    let name = write(&disk, 9).expect("writes").name;
    let bytes = disk.content(&format!("{SNAPSHOT_DIR}/{name}")).expect("is there");
    let other = snapshot_name(10, 3);
    disk.set_content(&format!("{SNAPSHOT_DIR}/{other}"), bytes);
    assert!(matches!(read(&disk, &other), Err(StorageError::Corrupt { .. })));
}

#[test]
fn a_newer_format_is_refused_as_such() {
    let disk = disk(1);
    let name = write(&disk, 9).expect("writes").name;
    let path = format!("{SNAPSHOT_DIR}/{name}");
    let mut bytes = disk.content(&path).expect("is there");
    bytes[8] = 2;
    // With a matching checksum the file is of another version, not damaged.
    let covered = encode_header(&meta(9)).len() - 4;
    let crc = crc32c::crc32c(&bytes[..covered]);
    bytes[covered..covered + 4].copy_from_slice(&crc.to_le_bytes());
    disk.set_content(&path, bytes);
    assert!(matches!(
        read(&disk, &name),
        Err(StorageError::UnknownFormat { version: 2, version_max: 1, .. })
    ));
}

#[test]
fn a_crash_at_every_operation_leaves_the_old_snapshots_and_at_most_a_whole_new_one() {
    let count = {
        let disk = disk(1);
        write(&disk, 5).expect("writes");
        let before = disk.ops();
        write(&disk, 9).expect("writes");
        disk.ops() - before
    };
    for seed in 0..60 {
        for stop in 0..count {
            let disk = disk(seed);
            write(&disk, 5).expect("writes");
            disk.set_plan(FaultPlan { stop_at: Some(disk.ops() + stop), ..FaultPlan::default() });
            write(&disk, 9).expect_err("the machine goes down");
            disk.crash();
            let names = list(&disk).expect("lists");
            assert_eq!(names[0].index, 5);
            for name in names {
                assert_eq!(read(&disk, &name.name).expect("is whole").1, pieces());
            }
            remove_temporaries(&disk).expect("removes");
            write(&disk, 9).expect("writes the next time");
        }
    }
}

#[test]
fn only_temporaries_of_ours_are_removed() {
    let disk = disk(1);
    let ours = "snapshots/0000000000000005-0000000000000001.tmp";
    let others = [
        "snapshots/notes.tmp",
        "snapshots/5-1.tmp",
        "snapshots/0000000000000005.tmp",
        "snapshots/0000000000000005-0000000000000001.snap.tmp",
        "snapshots/0000000000000005-000000000000000A.tmp",
    ];
    for path in others.into_iter().chain([ours]) {
        disk.set_content(path, vec![1]);
    }
    remove_temporaries(&disk).expect("removes");
    assert_eq!(disk.content(ours), None);
    for path in others {
        assert!(disk.content(path).is_some(), "{path}");
    }
}

#[test]
fn a_large_snapshot_is_synced_on_the_way() {
    let disk = disk(1);
    let mut writer = SnapshotWriter::create(disk.clone(), &meta(2)).expect("creates");
    let mut chance = Chance::new(1);
    let noise: Vec<u8> = (0..5_000_000).map(|_| chance.bits() as u8).collect();
    let before = disk.sync_count();
    writer.write_piece(&noise).expect("writes");
    assert_eq!(disk.sync_count() - before, 4);
    let name = writer.finish().expect("finishes").name;
    assert_eq!(read(&disk, &name).expect("reads").1, [noise]);
}

#[test]
fn a_full_disk_says_so_and_abort_leaves_nothing() {
    let disk = disk(1);
    let mut writer = SnapshotWriter::create(disk.clone(), &meta(2)).expect("creates");
    disk.set_plan(FaultPlan { bytes_max: Some(500), ..FaultPlan::default() });
    let refused = pieces().iter().try_for_each(|piece| writer.write_piece(piece));
    assert!(matches!(refused, Err(StorageError::DiskFull { .. })));
    writer.abort();
    assert!(disk.paths().is_empty());
}

#[test]
fn old_snapshots_go_but_never_the_newest_or_one_that_is_streamed() {
    let disk = disk(1);
    for index in [3, 5, 7, 9] {
        write(&disk, index).expect("writes");
    }
    let indexes = || list(&disk).expect("lists").iter().map(|it| it.index).collect::<Vec<u64>>();
    assert_eq!(remove_older(&disk, 1, 5, None).expect("removes"), 1);
    assert_eq!(indexes(), [5, 7, 9]);
    let spared = snapshot_name(5, 3);
    assert_eq!(remove_older(&disk, 1, u64::MAX, Some(&spared)).expect("removes"), 1);
    assert_eq!(indexes(), [5, 9]);
    write(&disk, 7).expect("writes");
    assert_eq!(remove_older(&disk, 2, u64::MAX, None).expect("removes"), 1);
    assert_eq!(indexes(), [7, 9]);
    assert_eq!(remove_older(&disk, 5, u64::MAX, None).expect("removes"), 0);
}

#[test]
fn names_that_are_not_ours_are_left_alone() {
    let disk = disk(1);
    for name in ["x.snap", "9-3.snap", "000000000000000G-0000000000000003.snap", "readme"] {
        disk.set_content(&format!("{SNAPSHOT_DIR}/{name}"), vec![1]);
    }
    assert_eq!(list(&disk).expect("lists"), []);
}

#[test]
fn a_piece_at_the_limit_is_taken_and_one_past_it_refused() {
    let disk = disk(1);
    let mut writer = SnapshotWriter::create(disk.clone(), &meta(2)).expect("creates");
    let mut piece = vec![0; PIECE_BYTES_MAX + 1];
    assert!(matches!(writer.write_piece(&piece), Err(StorageError::RecordTooLarge { .. })));
    piece.pop();
    writer.write_piece(&piece).expect("writes");
    let name = writer.finish().expect("finishes").name;
    assert_eq!(read(&disk, &name).expect("reads").1, [piece]);
}

#[test]
fn a_piece_that_decompresses_to_more_than_it_says_is_refused() {
    let stored = zstd::bulk::compress(&vec![0; 1_000_000], 1).expect("compresses");
    for (raw_bytes, is_good) in
        [(1_000_000, true), (999_999, false), (10, false), (1_000_001, false)]
    {
        let mut header = TAG_PIECE.to_le_bytes().to_vec();
        header.extend_from_slice(&u32::to_le_bytes(raw_bytes));
        header.extend_from_slice(&(stored.len() as u32).to_le_bytes());
        let crc = crc32c::crc32c_append(crc32c::crc32c(&header), &stored);
        header.extend_from_slice(&crc.to_le_bytes());
        assert_eq!(decode_piece(&header, &stored).is_ok(), is_good, "{raw_bytes}");
    }
}

#[test]
fn a_membership_at_its_limit_fits_the_header_and_one_past_it_is_refused() {
    let ids: Vec<u64> = (0..MEMBERS_MAX as u64).collect();
    let mut large = meta(1);
    large.membership = Membership {
        voters: ids.clone(),
        voters_outgoing: ids.clone(),
        learners: ids.clone(),
        learners_next: ids,
        auto_leave: false,
    };
    assert_eq!(decode_header(&encode_header(&large)), Ok(large.clone()));
    large.membership.voters.push(1);
    assert!(SnapshotWriter::create(disk(1), &large).is_err());
}

#[test]
fn random_and_mutated_bytes_never_panic() {
    let mut chance = Chance::new(5);
    let piece = encode_piece(&[5; 900]);
    let wholes = [encode_header(&meta(7)), piece, encode_trailer(5, 6)];
    for round in 0..30_000 {
        let mut bytes = wholes[round % 3].clone();
        bytes.truncate(chance.below(bytes.len() as u64 * 2) as usize);
        for _ in 0..chance.below(6) {
            if !bytes.is_empty() {
                let at = chance.below(bytes.len() as u64) as usize;
                bytes[at] = chance.bits() as u8;
            }
        }
        drop(decode_prefix(&bytes));
        drop(decode_header(&bytes));
        drop(decode_part(&bytes));
        let (header, stored) = bytes.split_at(bytes.len().min(PIECE_HEADER_BYTES));
        drop(decode_piece(header, stored));
    }
}
