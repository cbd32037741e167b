//! Tests the results of a store's operations, on a disk in memory.

use storage::fault_disk::{Chance, FaultDisk, FaultPlan, Operation};

use super::*;
use crate::block::{BlockData, BlockId, ChunkInfo, KeyValue};
use crate::checksum::{ChecksumData, ChecksumType};
use crate::container::{ContainerSpec, State};
use crate::limits::{CHUNK_BYTES_MAX, SEGMENT_BYTES_MIN};

fn options(layout: Layout) -> StoreOptions {
    StoreOptions {
        layout,
        block_bytes_max: 100_000,
        container_bytes_max: 200_000,
        segment_bytes: SEGMENT_BYTES_MIN,
        open_files_max: 8,
        new_store_id: Some(7),
        ..StoreOptions::default()
    }
}

fn open(disk: &FaultDisk, layout: Layout) -> Store<FaultDisk> {
    Store::open(disk.clone(), options(layout)).expect("opens")
}

/// A store that has container 1.
fn with_container(layout: Layout) -> (FaultDisk, Store<FaultDisk>) {
    let disk = FaultDisk::new(1);
    let store = open(&disk, layout);
    store.create_container(1, &ContainerSpec::default()).expect("creates");
    (disk, store)
}

fn id(local_id: u64) -> BlockId {
    BlockId { container_id: 1, local_id }
}

fn bytes(seed: u64, count: usize) -> Vec<u8> {
    let mut chance = Chance::new(seed);
    (0..count).map(|_| chance.bits() as u8).collect()
}

fn chunk(local_id: u64, number: u64, offset: u64, length: usize) -> ChunkInfo {
    ChunkInfo::plain(format!("{local_id}_chunk_{number}"), offset, length as u64)
}

fn write(
    store: &Store<FaultDisk>,
    local_id: u64,
    number: u64,
    offset: u64,
    data: &[u8],
) -> Result<(), ChunkError> {
    let chunk = chunk(local_id, number, offset, data.len());
    store.write_chunk(id(local_id), &chunk, data, WriteMode::default())
}

fn read(store: &Store<FaultDisk>, local_id: u64, chunk: &ChunkInfo) -> Result<Vec<u8>, ChunkError> {
    let mut out = Vec::new();
    store.read_chunk(id(local_id), chunk, 0, &mut out).map(|()| out)
}

fn block(local_id: u64, chunks: Vec<ChunkInfo>) -> BlockData {
    BlockData {
        id: id(local_id),
        commit_sequence_id: 0,
        replica_index: None,
        flags: None,
        metadata: Vec::new(),
        chunks,
    }
}

fn put(store: &Store<FaultDisk>, block: &BlockData) -> Result<u64, ChunkError> {
    store.put_block(block, true, Durability::GroupSynced)
}

#[test]
fn what_is_written_is_read_in_every_layout_and_after_a_restart() {
    for layout in Layout::ALL {
        let (disk, store) = with_container(layout);
        let parts = [bytes(1, 1000), bytes(2, 20_000), bytes(3, 1), bytes(4, 4096)];
        let mut chunks = Vec::new();
        let mut offset = 0;
        for (number, part) in (1..).zip(&parts) {
            write(&store, 9, number, offset, part).expect("writes");
            chunks.push(chunk(9, number, offset, part.len()));
            offset += part.len() as u64;
        }
        assert_eq!(put(&store, &block(9, chunks.clone())).expect("puts"), offset);
        let check = |store: &Store<FaultDisk>| {
            for (chunk, part) in chunks.iter().zip(&parts) {
                assert!(read(store, 9, chunk).expect("reads") == *part, "{layout:?} {chunk:?}");
            }
            // A part of a chunk, given by its range in the block.
            let part = ChunkInfo::plain("9_chunk_2".to_owned(), 1000 + 777, 1234);
            assert!(read(store, 9, &part).expect("reads") == parts[1][777..777 + 1234]);
            let info = store.container(1).expect("is there");
            assert_eq!((info.bytes_used, info.block_count), (offset, 1));
            assert_eq!(store.block(id(9), 0).expect("is there").chunks, chunks);
            assert_eq!(store.committed_length(id(9)).expect("is there"), offset);
        };
        check(&store);
        drop(store);
        disk.kill();
        check(&open(&disk, layout));
        disk.crash();
        check(&open(&disk, layout));
    }
}

#[test]
fn files_have_ozones_names() {
    let (disk, store) = with_container(Layout::PerBlock);
    write(&store, 9, 1, 0, b"abc").expect("writes");
    store.tick().expect("writes out");
    let prefix = format!("hdds/CID-{}/current/containerDir0/1/chunks", store.datanode_uuid());
    assert_eq!(disk.content(&format!("{prefix}/9.block")), Some(b"abc".to_vec()));

    let (disk, store) = with_container(Layout::PerChunk);
    let chunk = chunk(9, 1, 0, 3);
    let mode = |stage| WriteMode { stage, ..WriteMode::default() };
    let (written, committed) =
        (Stage::Write { term: 3, index: 4 }, Stage::Commit { term: 3, index: 4 });
    store.write_chunk(id(9), &chunk, b"abc", mode(written)).expect("writes");
    let there = || {
        let names = ["9_chunk_1", "9_chunk_1.tmp.3.4"];
        names.map(|name| disk.content(&format!("{prefix}/{name}")))
    };
    assert_eq!(there(), [None, Some(b"abc".to_vec())]);
    store.write_chunk(id(9), &chunk, b"", mode(committed)).expect("commits");
    assert_eq!(there(), [Some(b"abc".to_vec()), None]);
    // The commit comes again, as after a restart of the log that orders writes; the name exists.
    store.write_chunk(id(9), &chunk, b"", mode(committed)).expect("commits");
    let other = ChunkInfo::plain("9_chunk_2".to_owned(), 3, 3);
    let missing = store.write_chunk(id(9), &other, b"", mode(committed));
    assert!(matches!(missing, Err(ChunkError::NoSuchChunk { .. })));
}

#[test]
fn a_chunk_over_another_replaces_what_it_covers() {
    for layout in [Layout::PerBlock, Layout::Log] {
        let (disk, store) = with_container(layout);
        let (first, second) = (bytes(1, 4096), bytes(2, 3000));
        write(&store, 15, 1, 0, &first).expect("writes");
        write(&store, 15, 2, 2000, &second).expect("writes");
        let wanted = [&first[..2000], &second].concat();
        let whole = chunk(15, 1, 0, wanted.len());
        assert!(read(&store, 15, &whole).expect("reads") == wanted);
        write(&store, 15, 3, 10, &[9; 20]).expect("writes");
        let wanted = [&wanted[..10], &[9; 20], &wanted[30..]].concat();
        assert!(read(&store, 15, &whole).expect("reads") == wanted);
        assert_eq!(store.container(1).expect("is there").bytes_used, 5000);
        put(&store, &block(15, vec![whole.clone()])).expect("puts");
        drop(store);
        disk.kill();
        assert!(read(&open(&disk, layout), 15, &whole).expect("reads") == wanted);
    }
}

#[test]
fn what_does_not_fit_is_refused_and_harms_nothing() {
    for layout in [Layout::PerBlock, Layout::Log] {
        let (_disk, store) = with_container(layout);
        write(&store, 1, 1, 0, &bytes(1, 4096)).expect("writes");
        let gap = write(&store, 1, 3, 8192, &bytes(1, 10));
        assert!(matches!(gap, Err(ChunkError::Gap { length: 4096, offset: 8192, .. })), "{gap:?}");
        let claimed = chunk(1, 1, 0, 5000);
        let wrong = store.write_chunk(id(1), &claimed, &bytes(1, 4096), WriteMode::default());
        assert!(matches!(wrong, Err(ChunkError::WrongLength { length: 5000, bytes: 4096, .. })));
        let large = write(&store, 1, 2, 4096, &bytes(1, 96_000));
        assert!(
            matches!(large, Err(ChunkError::BlockTooLarge { bytes: 100_096, .. })),
            "{large:?}"
        );
        for part in 0..4 {
            write(&store, 2, 1, part * 25_000, &bytes(1, 25_000)).expect("writes");
            write(&store, 3, 1, part * 20_000, &bytes(1, 20_000)).expect("writes");
        }
        let full = write(&store, 4, 1, 0, &bytes(1, 20_000));
        assert!(
            matches!(full, Err(ChunkError::ContainerTooLarge { bytes: 204_096, .. })),
            "{full:?}"
        );
        let info = store.container(1).expect("is there");
        assert_eq!((info.state, info.bytes_used), (State::Open, 184_096));
        assert!(matches!(
            read(&store, 4, &chunk(4, 1, 0, 10)),
            Err(ChunkError::NoSuchChunk { .. })
        ));
        write(&store, 1, 2, 4096, &bytes(1, 10)).expect("goes on");
        let empty = write(&store, 5, 1, 0, b"");
        assert!(empty.is_ok(), "{empty:?}");
    }
}

#[test]
fn a_name_that_climbs_out_of_its_folder_is_refused() {
    let (disk, store) = with_container(Layout::PerChunk);
    let before = disk.paths();
    for name in ["../x", "a/b", ".."] {
        let chunk = ChunkInfo::plain(name.to_owned(), 0, 3);
        let written = store.write_chunk(id(1), &chunk, b"abc", WriteMode::default());
        assert!(matches!(written, Err(ChunkError::BadChunkName { .. })), "{written:?}");
        let read = read(&store, 1, &chunk);
        assert!(matches!(read, Err(ChunkError::BadChunkName { .. })), "{read:?}");
    }
    assert_eq!(disk.paths(), before);
}

#[test]
fn reads_beyond_the_end_or_of_nothing_are_refused() {
    for layout in Layout::ALL {
        let (_disk, store) = with_container(layout);
        write(&store, 1, 1, 0, &bytes(1, 100)).expect("writes");
        let beyond = read(&store, 1, &chunk(1, 1, 50, 51));
        let is_past = matches!(beyond, Err(ChunkError::PastTheEnd { .. }));
        assert!(is_past || layout == Layout::PerChunk, "{layout:?} {beyond:?}");
        let nothing = read(&store, 2, &chunk(2, 1, 0, 1));
        assert!(matches!(nothing, Err(ChunkError::NoSuchChunk { .. })), "{nothing:?}");
        let large = ChunkInfo::plain("1_chunk_1".to_owned(), 0, CHUNK_BYTES_MAX + 1);
        assert!(matches!(read(&store, 1, &large), Err(ChunkError::ChunkTooLarge { .. })));
        let mut out = Vec::new();
        let elsewhere = BlockId { container_id: 2, local_id: 1 };
        let missing = store.read_chunk(elsewhere, &chunk(1, 1, 0, 1), 0, &mut out);
        assert!(matches!(missing, Err(ChunkError::NoSuchContainer { container_id: 2 })));
        assert!(out.is_empty());
    }
}

#[test]
fn wrong_checksums_are_refused_if_that_is_asked_for() {
    let disk = FaultDisk::new(1);
    let options = StoreOptions { verify_writes: true, ..options(Layout::Log) };
    let store = Store::open(disk, options).expect("opens");
    store.create_container(1, &ContainerSpec::default()).expect("creates");
    for kind in ChecksumType::ALL {
        let data = bytes(1, 5000);
        let checksum = ChecksumData::of(kind, 1024, &data);
        let chunk = ChunkInfo { checksum, ..chunk(1, 1, 0, 5000) };
        store.write_chunk(id(1), &chunk, &data, WriteMode::default()).expect("writes");
        let other = store.write_chunk(id(1), &chunk, &bytes(2, 5000), WriteMode::default());
        let is_refused = matches!(other, Err(ChunkError::ChecksumMismatch { .. }));
        assert_eq!(is_refused, kind != ChecksumType::None);
    }
}

#[test]
fn a_commit_lists_what_was_written_and_replaces_the_one_before() {
    for layout in [Layout::PerBlock, Layout::Log] {
        let (_disk, store) = with_container(layout);
        let missing = put(&store, &block(5, vec![chunk(5, 1, 0, 10)]));
        assert!(matches!(missing, Err(ChunkError::NoSuchChunk { .. })), "{missing:?}");
        put(&store, &block(6, Vec::new())).expect("puts an empty one");
        assert_eq!(store.block(id(6), 0).expect("is there").chunks, Vec::new());
        write(&store, 8, 1, 0, &bytes(1, 1000)).expect("writes");
        let long = put(&store, &block(8, vec![chunk(8, 1, 0, 1001)]));
        assert!(matches!(long, Err(ChunkError::PastTheEnd { .. })), "{long:?}");
        put(&store, &block(8, vec![chunk(8, 1, 0, 1000)])).expect("puts");
        write(&store, 8, 2, 1000, &bytes(2, 500)).expect("writes");
        let both = vec![chunk(8, 1, 0, 1000), chunk(8, 2, 1000, 500)];
        put(&store, &block(8, both.clone())).expect("puts");
        assert_eq!(store.block(id(8), 0).expect("is there").chunks, both);
        assert_eq!(store.container(1).expect("is there").block_count, 2);
        assert!(matches!(store.block(id(7), 0), Err(ChunkError::NoSuchBlock(_))));
    }
}

#[test]
fn a_list_that_adds_to_the_one_before_replaces_its_last_chunk() {
    let (_disk, store) = with_container(Layout::Log);
    let incremental = vec![KeyValue { key: "incremental".to_owned(), value: None }];
    let add = |chunks| BlockData { metadata: incremental.clone(), ..block(12, chunks) };
    write(&store, 12, 1, 0, &bytes(1, 1000)).expect("writes");
    store.put_block(&add(vec![chunk(12, 1, 0, 1000)]), false, Durability::Buffered).expect("puts");
    write(&store, 12, 1, 1000, &bytes(2, 700)).expect("writes");
    let length = store.put_block(&add(vec![chunk(12, 1, 0, 1700)]), false, Durability::Buffered);
    assert_eq!(length.expect("puts"), 1700);
    write(&store, 12, 2, 1700, &bytes(3, 10)).expect("writes");
    put(&store, &add(vec![chunk(12, 2, 1700, 10)])).expect("puts");
    put(&store, &add(Vec::new())).expect("puts the end");
    let wanted = vec![chunk(12, 1, 0, 1700), chunk(12, 2, 1700, 10)];
    assert_eq!(store.block(id(12), 0).expect("is there").chunks, wanted);
}

#[test]
fn blocks_are_listed_by_their_id_from_any_of_them() {
    let (_disk, store) = with_container(Layout::Log);
    for local_id in [30, 10, 20, 40] {
        put(&store, &block(local_id, Vec::new())).expect("puts");
    }
    write(&store, 15, 1, 0, b"not committed").expect("writes");
    let listed = |start, count| {
        let blocks = store.blocks(1, start, count).expect("lists");
        blocks.iter().map(|block| block.id.local_id).collect::<Vec<_>>()
    };
    assert_eq!(listed(0, 10), [10, 20, 30, 40]);
    assert_eq!(listed(20, 2), [20, 30]);
    assert_eq!(listed(41, 2), Vec::<u64>::new());
}

#[test]
fn commits_that_were_not_seen_are_not_answered() {
    let (_disk, store) = with_container(Layout::Log);
    let committed = |local_id, commit_sequence_id| BlockData {
        commit_sequence_id,
        ..block(local_id, Vec::new())
    };
    put(&store, &committed(1, 5)).expect("puts");
    put(&store, &committed(2, 9)).expect("puts");
    assert!(store.block(id(1), 0).is_ok());
    assert!(store.block(id(1), 5).is_ok());
    assert!(store.block(id(2), 6).is_ok());
    let unknown = store.block(id(1), 10);
    assert!(matches!(unknown, Err(ChunkError::UnknownCommit { wanted: 10, known: 9, .. })));
    let other = store.block(id(1), 6);
    assert!(matches!(other, Err(ChunkError::CommitMismatch { wanted: 6, known: 5, .. })));
}

#[test]
fn a_container_goes_through_its_states() {
    for layout in Layout::ALL {
        let (disk, store) = with_container(layout);
        let again = store.create_container(1, &ContainerSpec::default());
        assert!(matches!(again, Err(ChunkError::ContainerExists { container_id: 1 })));
        write(&store, 1, 1, 0, b"abc").expect("writes");
        put(&store, &block(1, vec![chunk(1, 1, 0, 3)])).expect("puts");
        let early = store.delete_container(1, false);
        assert!(matches!(early, Err(ChunkError::DeleteOfOpen { .. })));
        store.quasi_close_container(1).expect("quasi-closes");
        store.close_container(1).expect("closes");
        store.close_container(1).expect("is closed");
        for refused in [write(&store, 1, 2, 3, b"d"), put(&store, &block(2, Vec::new())).map(drop)]
        {
            let state = State::Closed;
            assert!(
                matches!(refused, Err(ChunkError::WrongState { state: it, .. }) if it == state)
            );
        }
        assert!(matches!(store.quasi_close_container(1), Err(ChunkError::WrongState { .. })));
        let full = store.delete_container(1, false);
        assert!(matches!(full, Err(ChunkError::DeleteOfNonEmpty { block_count: 1, .. })));
        drop(store);
        disk.crash();
        let store = open(&disk, layout);
        assert_eq!(store.container(1).expect("is there").state, State::Closed);
        assert_eq!(read(&store, 1, &chunk(1, 1, 0, 3)).expect("reads"), b"abc");
        store.mark_unhealthy(1).expect("marks");
        assert!(matches!(store.close_container(1), Err(ChunkError::WrongState { .. })));
        store.delete_container(1, true).expect("deletes");
        assert!(store.container_ids().is_empty());
        assert!(!disk.paths().iter().any(|path| path.starts_with("hdds")));
        drop(store);
        disk.crash();
        assert!(open(&disk, layout).container_ids().is_empty());
    }
}

#[test]
fn metadata_of_a_container_are_added_to_and_kept() {
    let (disk, store) = with_container(Layout::Log);
    let pair =
        |key: &str, value: &str| KeyValue { key: key.to_owned(), value: Some(value.to_owned()) };
    store.update_container_metadata(1, &[pair("a", "1"), pair("b", "2")]).expect("updates");
    store.update_container_metadata(1, &[pair("a", "3")]).expect("updates");
    let wanted = vec![pair("b", "2"), pair("a", "3")];
    assert_eq!(store.container(1).expect("is there").metadata, wanted);
    drop(store);
    disk.crash();
    let store = open(&disk, Layout::Log);
    assert_eq!(store.container(1).expect("is there").metadata, wanted);
    store.close_container(1).expect("closes");
    store.update_container_metadata(1, &[pair("c", "4")]).expect("updates a closed one");
    let info = store.container(1).expect("is there");
    assert_eq!((info.metadata.len(), info.state), (3, State::Closed));
}

#[test]
fn a_block_that_is_finalized_or_deleted_takes_nothing_or_is_gone() {
    for layout in Layout::ALL {
        let (disk, store) = with_container(layout);
        for local_id in [1, 2] {
            write(&store, local_id, 1, 0, b"abc").expect("writes");
            put(&store, &block(local_id, vec![chunk(local_id, 1, 0, 3)])).expect("puts");
        }
        assert_eq!(store.finalize_block(id(1)).expect("finalizes").length(), 3);
        assert!(matches!(write(&store, 1, 2, 3, b"d"), Err(ChunkError::Finalized(_))));
        store.delete_block(id(2)).expect("deletes");
        assert!(matches!(store.delete_block(id(2)), Err(ChunkError::NoSuchBlock(_))));
        drop(store);
        disk.crash();
        let store = open(&disk, layout);
        assert!(matches!(write(&store, 1, 2, 3, b"d"), Err(ChunkError::Finalized(_))));
        assert!(matches!(store.block(id(2), 0), Err(ChunkError::NoSuchBlock(_))));
        assert!(read(&store, 2, &chunk(2, 1, 0, 3)).is_err());
        assert_eq!(store.container(1).expect("is there").bytes_used, 3);
        assert!(matches!(store.finalize_block(id(9)), Err(ChunkError::NoSuchBlock(_))));
    }
}

#[test]
fn blocks_that_were_not_committed_go_on_after_a_restart() {
    for layout in [Layout::PerBlock, Layout::Log] {
        let (disk, store) = with_container(layout);
        write(&store, 1, 1, 0, &bytes(1, 500)).expect("writes");
        store.tick().expect("writes out");
        drop(store);
        disk.kill();
        let store = open(&disk, layout);
        assert!(read(&store, 1, &chunk(1, 1, 0, 500)).expect("reads") == bytes(1, 500));
        write(&store, 1, 2, 500, &bytes(2, 500)).expect("goes on");
        assert_eq!(store.container(1).expect("is there").bytes_used, 1000);
    }
}

#[test]
fn a_flipped_bit_is_reported_by_name_and_never_served() {
    let (disk, store) = with_container(Layout::Log);
    write(&store, 1, 1, 0, &bytes(1, 3000)).expect("writes");
    write(&store, 2, 1, 0, &bytes(2, 3000)).expect("writes");
    for local_id in [1, 2] {
        put(&store, &block(local_id, vec![chunk(local_id, 1, 0, 3000)])).expect("puts");
    }
    let path = "log/00000001.log";
    let whole = disk.content(path).expect("is there");
    // Only up to the last commit: nothing was written behind it.
    let count = whole.iter().rposition(|byte| *byte != 0).expect("is written") + 1;
    for at in (4096..count).step_by(61) {
        let mut bad = whole.clone();
        bad[at] ^= 4;
        disk.set_content(path, bad);
        for local_id in [1, 2] {
            let chunk = chunk(local_id, 1, 0, 3000);
            match read(&store, local_id, &chunk) {
                Ok(data) => assert!(data == bytes(local_id, 3000), "byte {at}"),
                Err(ChunkError::Damaged { id, .. }) => assert_eq!(id.local_id, local_id),
                Err(other) => panic!("byte {at}: {other}"),
            }
            match store.block(id(local_id), 0) {
                Ok(block) => assert_eq!(block.chunks, [chunk]),
                Err(ChunkError::Damaged { id, .. }) => assert_eq!(id.local_id, local_id),
                Err(other) => panic!("byte {at}: {other}"),
            }
        }
    }
    disk.set_content(path, whole);
}

#[test]
fn damage_to_what_was_durable_is_found_at_the_start_and_the_rest_is_there() {
    let (disk, store) = with_container(Layout::Log);
    for local_id in 1..=20 {
        write(&store, local_id, 1, 0, &bytes(local_id, 900)).expect("writes");
        put(&store, &block(local_id, vec![chunk(local_id, 1, 0, 900)])).expect("puts");
    }
    drop(store);
    let path = "log/00000001.log";
    let whole = disk.content(path).expect("is there");
    let count = whole.iter().rposition(|byte| *byte != 0).expect("is written") + 1;
    for at in (0..count - 8192).step_by(509) {
        let disk = disk.fork(at as u64);
        let mut bad = whole.clone();
        bad[at] ^= 1;
        disk.set_content(path, bad);
        let opened = Store::open(disk, options(Layout::Log));
        // Damage to the head of the only segment: nothing in the log shows that it was ever
        // durable.
        if at < 4096 {
            continue;
        }
        let store = opened.expect("opens");
        let mut bad_count = 0;
        for local_id in 1..=20 {
            match read(&store, local_id, &chunk(local_id, 1, 0, 900)) {
                Ok(data) => assert!(data == bytes(local_id, 900)),
                Err(_) => bad_count += 1,
            }
            bad_count += usize::from(store.block(id(local_id), 0).is_err());
        }
        let is_padding = whole[at] == 0 && bad_count == 0;
        assert!(is_padding || !store.damage().is_empty(), "byte {at}");
        assert!(bad_count <= 2, "byte {at}: {bad_count} of 40, {:?}", store.damage());
    }
}

#[test]
fn after_a_failed_write_or_sync_nothing_more_is_written_and_reads_go_on() {
    for failing in [Operation::Write, Operation::Sync] {
        let (disk, store) = with_container(Layout::Log);
        write(&store, 1, 1, 0, &bytes(1, 500)).expect("writes");
        put(&store, &block(1, vec![chunk(1, 1, 0, 500)])).expect("puts");
        disk.set_plan(FaultPlan { fail: vec![(failing, 0)], ..FaultPlan::default() });
        let failed = put(&store, &block(2, Vec::new()));
        assert!(matches!(failed, Err(ChunkError::Io { .. })), "{failed:?}");
        let later = write(&store, 3, 1, 0, b"abc");
        assert!(matches!(later, Err(ChunkError::Stopped(_))), "{later:?}");
        assert!(matches!(store.sync(), Err(ChunkError::Stopped(_))));
        assert!(read(&store, 1, &chunk(1, 1, 0, 500)).expect("reads") == bytes(1, 500));
        drop(store);
        disk.crash();
        let store = open(&disk, Layout::Log);
        assert!(read(&store, 1, &chunk(1, 1, 0, 500)).expect("reads") == bytes(1, 500));
        write(&store, 3, 1, 0, b"abc").expect("goes on");
    }
}

#[test]
fn a_full_disk_refuses_chunks_and_lets_containers_be_deleted() {
    let (disk, store) = with_container(Layout::Log);
    write(&store, 1, 1, 0, &bytes(1, 20_000)).expect("writes");
    disk.set_plan(FaultPlan { bytes_max: Some(96_400), ..FaultPlan::default() });
    let mut offset = 20_000;
    let refused = loop {
        match write(&store, 1, 1, offset, &bytes(1, 5000)) {
            Ok(()) => offset += 5000,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, ChunkError::DiskFull { .. }), "{refused:?}");
    assert!(offset < 100_000);
    assert!(read(&store, 1, &chunk(1, 1, 0, 20_000)).expect("reads") == bytes(1, 20_000));
    put(&store, &block(1, Vec::new())).expect("commits what there is");
    store.delete_container(1, true).expect("deletes");
    disk.set_plan(FaultPlan::default());
    store.create_container(2, &ContainerSpec::default()).expect("goes on");
    drop(store);
    disk.crash();
    assert_eq!(open(&disk, Layout::Log).container_ids(), Vec::<u64>::new());
}

#[test]
fn a_full_disk_leaves_no_length_behind_in_files() {
    for layout in [Layout::PerBlock, Layout::PerChunk] {
        let (disk, store) = with_container(layout);
        write(&store, 1, 1, 0, &bytes(1, 1000)).expect("writes");
        disk.set_plan(FaultPlan { bytes_max: Some(83_400), ..FaultPlan::default() });
        let refused = write(&store, 1, 2, 1000, &bytes(1, 9000));
        assert!(matches!(refused, Err(ChunkError::DiskFull { .. })), "{refused:?}");
        assert_eq!(store.container(1).expect("is there").bytes_used, 1000);
        disk.set_plan(FaultPlan::default());
        write(&store, 1, 2, 1000, &bytes(2, 9000)).expect("goes on");
        assert!(read(&store, 1, &chunk(1, 2, 1000, 9000)).expect("reads") == bytes(2, 9000));
    }
}

#[test]
fn what_was_gathered_and_found_no_room_cannot_be_committed() {
    let (disk, store) = with_container(Layout::PerBlock);
    write(&store, 1, 1, 0, &bytes(1, 1000)).expect("writes");
    store.tick().expect("writes out");
    // Space for two segments, one of them prepared, the reserved file, and a bit more.
    disk.set_plan(FaultPlan { bytes_max: Some(148_900), ..FaultPlan::default() });
    write(&store, 1, 2, 1000, &bytes(2, 5000)).expect("gathers");
    // A write to another block gets no error from this.
    write(&store, 2, 1, 0, &bytes(3, 100)).expect("gathers");
    assert!(read(&store, 2, &chunk(2, 1, 0, 100)).expect("reads") == bytes(3, 100));
    let chunks = vec![chunk(1, 1, 0, 1000), chunk(1, 2, 1000, 5000)];
    let refused = put(&store, &block(1, chunks));
    assert!(matches!(refused, Err(ChunkError::PastTheEnd { length: 1000, .. })), "{refused:?}");
    assert!(read(&store, 1, &chunk(1, 1, 0, 1000)).expect("reads") == bytes(1, 1000));
}

#[test]
fn small_chunks_are_in_the_file_of_their_block_before_anybody_asks() {
    let (disk, store) = with_container(Layout::PerBlock);
    let path = format!("hdds/CID-{}/current/containerDir0/1/chunks/9.block", store.datanode_uuid());
    let data = bytes(1, 60_000);
    for (number, part) in data.chunks(1000).enumerate() {
        write(&store, 9, number as u64, number as u64 * 1000, part).expect("writes");
        let read = read(&store, 9, &chunk(9, 0, 0, (number + 1) * 1000)).expect("reads");
        assert!(number % 7 != 0 || read == data[..read.len()]);
    }
    write(&store, 9, 99, 500, &bytes(2, 1000)).expect("writes over");
    write(&store, 9, 99, 60_000, &bytes(3, 1000)).expect("writes");
    write(&store, 8, 1, 0, &bytes(4, 10)).expect("writes another");
    let wanted = [&data[..500], &bytes(2, 1000), &data[1500..], &bytes(3, 1000)].concat();
    assert!(disk.content(&path) == Some(wanted));
}

#[test]
fn files_stay_open_up_to_a_limit() {
    let (_disk, store) = with_container(Layout::PerBlock);
    for local_id in 0..500 {
        write(&store, local_id, 1, 0, b"abc").expect("writes");
        assert!(store.open_file_count() <= 8);
    }
    write(&store, 499, 2, 3, b"def").expect("writes");
    store.tick().expect("writes out");
    let before = store.open_file_count();
    put(&store, &block(499, vec![chunk(499, 1, 0, 6)])).expect("puts");
    assert_eq!(store.open_file_count(), before - 1);
}

#[test]
fn a_directory_that_is_something_else_or_in_use_is_refused() {
    let disk = FaultDisk::new(1);
    disk.set_content("precious", b"x".to_vec());
    let refused = Store::open(disk.clone(), options(Layout::Log));
    assert!(matches!(refused, Err(ChunkError::BadStore { .. })));
    let disk = FaultDisk::new(1);
    let store = open(&disk, Layout::Log);
    let second = Store::open(disk.clone(), options(Layout::Log));
    assert!(matches!(second, Err(ChunkError::Io { .. })));
    drop(store);
    let identity = disk.content("store").expect("is there");
    for bit in 0..8 * identity.len() {
        let mut bad = identity.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        disk.set_content("store", bad);
        assert!(Store::open(disk.clone(), options(Layout::Log)).is_err(), "bit {bit}");
    }
}

#[test]
fn a_store_is_named_by_a_random_uuid() {
    assert_eq!(uuid_text(u128::MAX), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    assert_eq!(uuid_text(0), "00000000-0000-4000-8000-000000000000");
    let drawn = |seed| {
        let options = StoreOptions { new_store_id: None, ..options(Layout::Log) };
        Store::open(FaultDisk::new(seed), options).expect("opens").datanode_uuid()
    };
    assert_ne!(drawn(1), drawn(2));
}

#[test]
fn a_store_is_shared_by_threads() {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<Store<storage::disk::RealDisk>>();
}

/// Calls `upkeep` until nothing more happens.
fn work(store: &Store<FaultDisk>) -> (u32, Vec<BlockId>) {
    let (mut removed, mut damaged) = (0, Vec::new());
    for _ in 0..200 {
        let budget = UpkeepBudget { bytes_moved_max: 50_000, bytes_scrubbed_max: 50_000 };
        let done = store.upkeep(budget).expect("works");
        removed += done.segments_removed;
        damaged.extend(done.damaged.into_iter().map(|(id, _)| id));
    }
    (removed, damaged)
}

fn segment_count(disk: &FaultDisk) -> usize {
    disk.paths().iter().filter(|path| path.ends_with(".log")).count()
}

/// Writes and commits blocks of 20,000 bytes with checksums.
fn fill(store: &Store<FaultDisk>, container_id: u64, local_ids: impl Iterator<Item = u64>) {
    for local_id in local_ids {
        let id = BlockId { container_id, local_id };
        let data = bytes(local_id, 20_000);
        let checksum = ChecksumData::of(ChecksumType::Crc32c, 4096, &data);
        let chunk = ChunkInfo { checksum, ..chunk(local_id, 1, 0, 20_000) };
        store.write_chunk(id, &chunk, &data, WriteMode::default()).expect("writes");
        let block = BlockData { id, ..block(local_id, vec![chunk]) };
        store.put_block(&block, true, Durability::GroupSynced).expect("puts");
    }
}

fn check_filled(store: &Store<FaultDisk>, container_id: u64, local_ids: impl Iterator<Item = u64>) {
    let mut out = Vec::new();
    for local_id in local_ids {
        let id = BlockId { container_id, local_id };
        let chunks = store.block(id, 0).expect("is there").chunks;
        out.clear();
        store.read_chunk(id, &chunks[0], 0, &mut out).expect("reads");
        assert!(out == bytes(local_id, 20_000));
    }
}

/// Flips a bit of the data of block 1 of container 1, wherever on the disk they are.
fn damage_block_one(disk: &FaultDisk) {
    let needle = bytes(1, 20_000);
    let place = |path: &String| {
        let content = disk.content(path).expect("is there");
        content.windows(1000).position(|window| *window == needle[5000..6000])
    };
    let paths = disk.paths();
    let (path, at) =
        paths.iter().find_map(|path| place(path).map(|at| (path, at))).expect("is written");
    let mut bad = disk.content(path).expect("is there");
    bad[at] ^= 0x10;
    disk.set_content(path, bad);
}

#[test]
fn space_of_what_was_deleted_is_given_back() {
    let disk = FaultDisk::new(1);
    let options = StoreOptions { container_bytes_max: 10_000_000, ..options(Layout::Log) };
    let store = Store::open(disk.clone(), options.clone()).expect("opens");
    for id in [1, 2] {
        store.create_container(id, &ContainerSpec::default()).expect("creates");
    }
    fill(&store, 1, 0..60);
    fill(&store, 2, 0..60);
    let full = segment_count(&disk);
    assert!(full >= 38);
    assert_eq!(work(&store).0, 0);
    // Deletes three of four blocks of one container, and the whole other container.
    for local_id in (0..60).filter(|local_id| local_id % 4 != 0) {
        store.delete_block(BlockId { container_id: 1, local_id }).expect("deletes");
    }
    store.delete_container(2, true).expect("deletes");
    let (removed, damaged) = work(&store);
    assert!(removed > 30, "{removed} of {full}");
    assert_eq!(damaged, []);
    assert!(segment_count(&disk) < 14, "{} of {full}", segment_count(&disk));
    check_filled(&store, 1, (0..60).step_by(4));
    drop(store);
    disk.crash();
    // A start from the older checkpoint, when the newer one is damaged, works, too.
    let mut checkpoints = disk.paths();
    checkpoints.retain(|path| path.ends_with(".idx"));
    assert_eq!(checkpoints.len(), 2);
    let mut bad = disk.content(&checkpoints[1]).expect("is there");
    bad[50] ^= 1;
    for is_bad in [false, true] {
        if is_bad {
            disk.set_content(&checkpoints[1], bad.clone());
        }
        let store = Store::open(disk.clone(), options.clone()).expect("opens");
        assert_eq!(store.damage().len(), usize::from(is_bad));
        assert_eq!(store.container_ids(), [1]);
        check_filled(&store, 1, (0..60).step_by(4));
    }
}

#[test]
fn a_checkpoint_without_room_leaves_nothing_and_is_tried_again() {
    let has_checkpoint = |disk: &FaultDisk| disk.paths().iter().any(|path| path.ends_with(".idx"));
    for operation in [Operation::Create, Operation::Write] {
        let disk = FaultDisk::new(1);
        let store = Store::open(disk.clone(), options(Layout::Log)).expect("opens");
        store.create_container(1, &ContainerSpec::default()).expect("creates");
        // A segment and a bit more.
        fill(&store, 1, 0..5);
        store.delete_block(id(0)).expect("deletes");
        store.sync().expect("syncs");
        // The first three attempts find no space: the first, the next, and the one after the
        // reserved file was given up.
        let full = (0..3).map(|number| (operation, number)).collect();
        disk.set_plan(FaultPlan { full, ..FaultPlan::default() });
        work(&store);
        assert!(!has_checkpoint(&disk), "{operation:?}");
        assert!(!disk.paths().iter().any(|path| path.ends_with(".tmp")), "{operation:?}");
        (0..4).for_each(|_| drop(work(&store)));
        assert!(has_checkpoint(&disk), "{operation:?}");
        check_filled(&store, 1, 1..5);
    }
}

#[test]
fn a_start_reads_the_log_from_the_last_checkpoint() {
    for layout in Layout::ALL {
        let (disk, store) = with_container(layout);
        fill(&store, 1, 0..5);
        store.checkpoint().expect("writes");
        fill(&store, 1, 5..7);
        drop(store);
        disk.crash();
        // A start from the checkpoint finds every block.
        let store = open(&disk, layout);
        check_filled(&store, 1, 0..7);
        let info = store.container(1).expect("is there");
        assert_eq!((info.bytes_used, info.block_count), (140_000, 7));
        store.delete_block(id(3)).expect("deletes");
        store.close_container(1).expect("closes");
        store.checkpoint().expect("writes");
        store.checkpoint().expect("has nothing to write");
        drop(store);
        disk.kill();
        let store = open(&disk, layout);
        assert!(matches!(store.block(id(3), 0), Err(ChunkError::NoSuchBlock(_))));
        assert_eq!(store.container(1).expect("is there").state, State::Closed);
        check_filled(&store, 1, (0..7).filter(|local_id| *local_id != 3));
    }
}

#[test]
fn the_scrubber_finds_a_flipped_bit_and_nothing_else() {
    for layout in Layout::ALL {
        let (disk, store) = with_container(layout);
        store.create_container(2, &ContainerSpec::default()).expect("creates");
        for container_id in [1, 2] {
            fill(&store, container_id, 0..3);
            store.close_container(container_id).expect("closes");
        }
        assert_eq!(work(&store).1, []);
        damage_block_one(&disk);
        let (_, damaged) = work(&store);
        assert_eq!(damaged, [id(1)], "{layout:?}");
        assert_eq!(store.container(1).expect("is there").state, State::Unhealthy);
        assert_eq!(store.container(2).expect("is there").state, State::Closed);
        check_filled(&store, 2, 0..3);
        check_filled(&store, 1, [0, 2].into_iter());
    }
}

#[test]
fn a_look_finds_what_is_wrong_and_changes_nothing() {
    for layout in Layout::ALL {
        let (disk, store) = with_container(layout);
        fill(&store, 1, 0..3);
        store.checkpoint().expect("writes");
        fill(&store, 1, 3..4);
        store.close_container(1).expect("closes");
        // Inspects while the store is open, and after it is closed.
        let before = (disk.paths(), disk.ops());
        let report = inspect(disk.clone()).expect("looks");
        assert_eq!((disk.paths(), disk.ops()), before);
        assert_eq!(report.problems, [""; 0], "{layout:?}");
        assert!(report.blocks == 4 && report.bytes >= 80_000, "{report}");
        assert!(report.to_string().contains("container 1: "), "{report}");
        assert!(report.to_string().ends_with("sound\n"), "{report}");
        drop(store);
        disk.kill();
        damage_block_one(&disk);
        let before = (disk.paths(), disk.ops());
        let report = inspect(disk.clone()).expect("looks");
        assert_eq!((disk.paths(), disk.ops()), before);
        let [problem] = &report.problems[..] else { panic!("{layout:?}: {report}") };
        assert!(problem.starts_with("block 1 of container 1: "), "{problem}");
    }
    assert!(inspect(FaultDisk::new(1)).is_err());
}

#[test]
fn a_store_that_lost_its_identity_is_refused_and_left_as_it_is() {
    let (disk, store) = with_container(Layout::Log);
    fill(&store, 1, 0..3);
    store.checkpoint().expect("writes");
    drop(store);
    let identity = disk.content("store").expect("is there");
    disk.remove("store").expect("removes");
    let opened = Store::open(disk.clone(), options(Layout::Log));
    assert!(matches!(opened, Err(ChunkError::BadStore { .. })), "{opened:?}");
    disk.set_content("store", identity);
    check_filled(&open(&disk, Layout::Log), 1, 0..3);
}

#[test]
fn a_lost_file_is_told_and_is_not_made_by_reading() {
    for layout in [Layout::PerBlock, Layout::PerChunk] {
        let (disk, store) = with_container(layout);
        fill(&store, 1, 0..1);
        drop(store);
        let path = disk.paths().into_iter().find(|path| path.contains("/chunks/"));
        let path = path.expect("there is a file");
        disk.remove(&path).expect("removes");
        let store = open(&disk, layout);
        let chunk = store.block(id(0), 0).expect("is committed").chunks[0].clone();
        let read = store.read_chunk(id(0), &chunk, 0, &mut Vec::new());
        assert!(matches!(read, Err(ChunkError::NoSuchChunk { .. })), "{layout:?}: {read:?}");
        assert!(!disk.paths().contains(&path), "{layout:?}");
    }
}

#[test]
fn a_container_of_the_log_is_exported_as_files() {
    let (disk, store) = with_container(Layout::Log);
    fill(&store, 1, 0..3);
    let half = chunk(7, 1, 0, 300);
    store.write_chunk(id(7), &half, &bytes(7, 300), WriteMode::default()).expect("writes");
    let to = FaultDisk::new(2);
    let exported = store.export_container(1, &to).expect("exports");
    assert_eq!((exported.blocks, exported.bytes), (4, 60_300));
    assert_eq!(exported.damaged, []);
    to.crash();
    for (local_id, count) in [(0, 20_000), (1, 20_000), (2, 20_000), (7, 300)] {
        let content = to.content(&format!("{}/{local_id}.block", exported.dir));
        assert!(content == Some(bytes(local_id, count)), "block {local_id}");
    }
    // Damaged blocks are reported and not exported.
    drop(store);
    damage_block_one(&disk);
    let store = open(&disk, Layout::Log);
    assert!(matches!(
        store.export_container(1, &to),
        Err(ChunkError::ContainerExists { container_id: 1 })
    ));
    let to = FaultDisk::new(3);
    let exported = store.export_container(1, &to).expect("exports");
    let damaged: Vec<BlockId> = exported.damaged.iter().map(|(id, _)| *id).collect();
    assert_eq!(damaged, [id(1)]);
    assert_eq!(to.content(&format!("{}/1.block", exported.dir)), None);
    assert_eq!(to.content(&format!("{}/2.block", exported.dir)), Some(bytes(2, 20_000)));
}

#[test]
fn a_block_that_cannot_be_read_is_not_exported_and_ends_nothing() {
    let (disk, store) = with_container(Layout::Log);
    fill(&store, 1, 0..3);
    let to = FaultDisk::new(2);
    // Each read of the store fails in turn.
    let mut named = 0;
    for number in 0.. {
        let fail = vec![(Operation::Read, number)];
        disk.set_plan(FaultPlan { fail, ..FaultPlan::default() });
        let exported = store.export_container(1, &to).expect("goes on");
        if exported.damaged.is_empty() {
            break;
        }
        named += 1;
        assert_eq!((exported.blocks, exported.damaged.len()), (2, 1));
        let files = to.list(&exported.dir).expect("is there");
        assert_eq!(files.len(), 2, "{files:?}");
        containers::remove_files(&to, &exported.dir).expect("removes");
    }
    assert!(named >= 9, "{named}");
}

#[test]
fn an_export_that_fails_leaves_nothing_of_a_container_and_another_finishes_it() {
    let (_disk, store) = with_container(Layout::Log);
    fill(&store, 1, 0..3);
    let whole = FaultDisk::new(2);
    let dir = store.export_container(1, &whole).expect("exports").dir;
    let files = |to: &FaultDisk| {
        let mut paths = to.paths();
        paths.retain(|path| path.ends_with(".block"));
        paths
    };
    for stop_at in 0..whole.ops() {
        let to = FaultDisk::new(3);
        to.set_plan(FaultPlan { stop_at: Some(stop_at), ..FaultPlan::default() });
        store.export_container(1, &to).expect_err("the disk goes away");
        to.crash();
        to.set_plan(FaultPlan::default());
        match store.export_container(1, &to) {
            // Everything was exported, except for the sync of the outer folders.
            Err(ChunkError::ContainerExists { .. }) => {}
            other => assert_eq!(other.expect("exports").blocks, 3),
        }
        assert_eq!(files(&to), files(&whole), "stopped at {stop_at}");
        assert!(to.content(&format!("{dir}/2.block")) == Some(bytes(2, 20_000)));
    }
    // Without space, the files written so far are removed; after that a smaller export fits.
    let to = FaultDisk::new(4);
    to.set_plan(FaultPlan { bytes_max: Some(50_000), ..FaultPlan::default() });
    let refused = store.export_container(1, &to);
    assert!(matches!(refused, Err(ChunkError::DiskFull { .. })), "{refused:?}");
    assert_eq!(files(&to), Vec::<String>::new());
}

#[test]
fn what_is_bad_at_one_look_only_is_no_problem() {
    let (disk, store) = with_container(Layout::PerBlock);
    fill(&store, 1, 0..3);
    store.close_container(1).expect("closes");
    drop(store);
    // One inspection takes some twenty reads.
    for number in 0..40 {
        let fail = vec![(Operation::Read, number)];
        disk.set_plan(FaultPlan { fail, ..FaultPlan::default() });
        let report = inspect(disk.clone()).expect("can be read the second time");
        assert!(report.is_sound(), "{:?}", report.problems);
        assert_eq!(report.blocks, 3);
    }
    // A problem that both passes find is reported once.
    disk.set_plan(FaultPlan::default());
    let path = disk.paths().into_iter().find(|path| path.ends_with("1.block")).expect("is there");
    disk.remove(&path).expect("removes");
    let report = inspect(disk.clone()).expect("can be read");
    assert_eq!(report.problems.len(), 1, "{:?}", report.problems);
    assert!(!disk.paths().contains(&path));
}

#[test]
fn a_commit_of_what_was_never_written_is_refused_in_every_layout() {
    for layout in Layout::ALL {
        let (disk, store) = with_container(layout);
        write(&store, 1, 1, 0, &bytes(1, 1000)).expect("writes");
        for (chunks, durability) in [
            (vec![chunk(1, 1, 0, 1000), chunk(1, 2, 1000, 10)], Durability::Buffered),
            (vec![chunk(1, 1, 0, 1001)], Durability::GroupSynced),
            (vec![chunk(1, 1, 0, 1 << 62), chunk(1, 2, 1 << 62, 1 << 62)], Durability::Buffered),
            (vec![chunk(1, 1, u64::MAX - 5, 3)], Durability::GroupSynced),
        ] {
            let refused = store.put_block(&block(1, chunks), true, durability);
            assert!(refused.is_err(), "{layout:?}: {refused:?}");
        }
        put(&store, &block(1, vec![chunk(1, 1, 0, 1000)])).expect("commits");
        drop(store);
        disk.kill();
        let store = open(&disk, layout);
        assert_eq!(store.committed_length(id(1)).expect("is there"), 1000);
    }
}

#[test]
fn a_store_in_which_absurd_lengths_were_committed_starts() {
    for layout in Layout::ALL {
        let (disk, store) = with_container(layout);
        for local_id in [1, 2] {
            let body = crate::block::encode_block(&block(
                local_id,
                vec![
                    chunk(local_id, 1, 0, i64::MAX as usize),
                    chunk(local_id, 2, 0, i64::MAX as usize),
                ],
            ));
            let (container_id, block_offset) = (1, 0);
            let record = crate::log::Record {
                kind: crate::record::Kind::Block,
                container_id,
                local_id,
                block_offset,
                body: &body,
            };
            store.log.append(&record).expect("writes");
        }
        store.sync().expect("syncs");
        drop(store);
        disk.kill();
        let store = open(&disk, layout);
        store.delete_block(id(1)).expect("deletes");
        store.checkpoint().expect("writes");
    }
}

#[test]
fn metadata_that_no_record_holds_are_refused_and_harm_nothing() {
    let disk = FaultDisk::new(1);
    let options = StoreOptions { segment_bytes: 64 * 1024 * 1024, ..options(Layout::Log) };
    let store = Store::open(disk.clone(), options.clone()).expect("opens");
    store.create_container(1, &ContainerSpec::default()).expect("creates");
    let pair = |number: usize, bytes| KeyValue {
        key: format!("key {number}"),
        value: Some("v".repeat(bytes)),
    };
    let large = vec![pair(0, 33 * 1024 * 1024)];
    let spec = ContainerSpec { metadata: large.clone(), ..ContainerSpec::default() };
    let made = store.create_container(2, &spec);
    assert!(matches!(made, Err(ChunkError::MetadataTooLarge { .. })), "{made:?}");
    let updated = store.update_container_metadata(1, &large);
    assert!(matches!(updated, Err(ChunkError::MetadataTooLarge { .. })), "{updated:?}");
    // Many small pairs, added one after the other, are refused as well.
    let mut refused = None;
    for number in 1..40 {
        refused = store.update_container_metadata(1, &[pair(number, 1024 * 1024)]).err();
        if refused.is_some() {
            break;
        }
    }
    assert!(matches!(refused, Some(ChunkError::MetadataTooLarge { .. })), "{refused:?}");
    let known = store.container(1).expect("is there").metadata;
    drop(store);
    disk.kill();
    let store = Store::open(disk, options).expect("opens");
    assert_eq!(store.damage(), []);
    assert_eq!(store.container_ids(), [1]);
    assert!(store.container(1).expect("is there").metadata == known);
}

#[test]
fn a_flipped_bit_costs_one_record_and_none_of_its_neighbours() {
    let (disk, store) = with_container(Layout::Log);
    // All records are gathered and written together.
    for local_id in 1..=100 {
        write(&store, local_id, 1, 0, &bytes(local_id, 50)).expect("writes");
        let block = block(local_id, vec![chunk(local_id, 1, 0, 50)]);
        store.put_block(&block, false, Durability::Buffered).expect("commits");
    }
    store.sync().expect("syncs");
    put(&store, &block(200, Vec::new())).expect("says that it is durable");
    drop(store);
    disk.kill();
    let path = "log/00000001.log";
    let whole = disk.content(path).expect("is there");
    let end = whole.iter().rposition(|byte| *byte != 0).expect("is written") + 1 - 200;
    for at in (4200..end).step_by(97) {
        let disk = disk.fork(at as u64);
        let mut bad = whole.clone();
        bad[at] ^= 1 << (at % 8);
        disk.set_content(path, bad);
        let store = open(&disk, Layout::Log);
        let is_lost = |local_id: &u64| {
            let chunk = chunk(*local_id, 1, 0, 50);
            let is_read =
                read(&store, *local_id, &chunk).is_ok_and(|it| it == bytes(*local_id, 50));
            !is_read || store.block(id(*local_id), 0).is_err()
        };
        let lost: Vec<u64> = (1..=100).filter(is_lost).collect();
        assert!(lost.len() <= 1, "byte {at}: {lost:?}");
        assert!(lost.is_empty() || !store.damage().is_empty(), "byte {at}");
    }
}

#[test]
fn what_a_client_wrote_is_never_taken_for_a_record() {
    use crate::record::{Header, Kind, Position, Salt, encode_header, encode_trailer};
    let (disk, store) = with_container(Layout::Log);
    // The second record starts at `chunk_at`. A client that knows all but the salt writes bytes
    // into its chunk that look like the deletion of the container.
    let chunk_at = 4096 + crate::record::record_bytes(7) as u32;
    let at = Position { segment: 1, offset: chunk_at + 64 + 16 };
    let header = Header {
        kind: Kind::ContainerDeleted,
        at,
        container_id: 1,
        local_id: 0,
        block_offset: 0,
        body_bytes: 0,
        previous: chunk_at,
        durable: Position { segment: 1, offset: chunk_at + 1 },
    };
    let header = encode_header(&header, Salt(0));
    let mut data = vec![0; 16];
    data.extend_from_slice(&header);
    encode_trailer(&header, &[], &mut data);
    data.resize(400, 1);
    write(&store, 1, 1, 0, &data).expect("writes");
    put(&store, &block(1, vec![chunk(1, 1, 0, 400)])).expect("commits");
    put(&store, &block(2, Vec::new())).expect("commits");
    drop(store);
    disk.kill();
    let path = "log/00000001.log";
    let mut bad = disk.content(path).expect("is there");
    let found = bad.windows(64).position(|window| *window == header).expect("is written");
    assert_eq!(found as u32, at.offset);
    bad[chunk_at as usize + 20] ^= 1;
    disk.set_content(path, bad);
    let store = open(&disk, Layout::Log);
    assert!(store.is_damaged());
    assert_eq!(store.container_ids(), [1]);
    assert_eq!(store.block(id(1), 0).expect("is there").chunks.len(), 1);
}

#[test]
fn a_container_whose_folder_is_not_gone_yet_is_deleted_and_its_id_comes_back() {
    for layout in [Layout::PerBlock, Layout::PerChunk] {
        let (disk, store) = with_container(layout);
        fill(&store, 1, 0..2);
        // As if a writer that was under way had left a file.
        disk.set_plan(FaultPlan { fail: vec![(Operation::Remove, 1)], ..FaultPlan::default() });
        store.delete_container(1, true).expect("it is deleted");
        assert_eq!(store.container_ids(), Vec::<u64>::new());
        let made = store.create_container(1, &ContainerSpec::default());
        assert!(matches!(made, Err(ChunkError::ContainerBeingDeleted { container_id: 1 })));
        // Neither a checkpoint nor a start forgets the deletion.
        store.checkpoint().expect("writes");
        let crashed = disk.fork(1);
        let other = open(&crashed, layout);
        assert!(!crashed.paths().iter().any(|path| path.contains("/chunks/")), "{layout:?}");
        other.create_container(1, &ContainerSpec::default()).expect("makes it");
        drop(other);
        work(&store);
        assert!(!disk.paths().iter().any(|path| path.contains("/chunks/")), "{layout:?}");
        store.create_container(1, &ContainerSpec::default()).expect("makes it");
        fill(&store, 1, 0..1);
        check_filled(&store, 1, 0..1);
    }
}

#[test]
fn a_chunk_that_is_written_over_is_the_old_one_or_the_new_one() {
    let chunk = chunk(1, 1, 0, 3000);
    let mode = WriteMode { durability: Durability::Synced, ..WriteMode::default() };
    for number in 0..30 {
        let (disk, store) = with_container(Layout::PerChunk);
        store.write_chunk(id(1), &chunk, &bytes(1, 3000), mode).expect("writes");
        let stop_at = Some(disk.ops() + number);
        disk.set_plan(FaultPlan { stop_at, ..FaultPlan::default() });
        let written = store.write_chunk(id(1), &chunk, &bytes(2, 3000), mode);
        drop(store);
        disk.crash();
        let found = read(&open(&disk, Layout::PerChunk), 1, &chunk).expect("is there");
        assert!(found == bytes(2, 3000) || written.is_err() && found == bytes(1, 3000), "{number}");
    }
}

#[test]
fn a_file_that_lost_committed_bytes_is_not_written_on() {
    let (disk, store) = with_container(Layout::PerBlock);
    write(&store, 1, 1, 0, &bytes(1, 9000)).expect("writes");
    put(&store, &block(1, vec![chunk(1, 1, 0, 9000)])).expect("commits");
    drop(store);
    disk.kill();
    let path = disk.paths().into_iter().find(|path| path.ends_with(".block")).expect("is there");
    let content = disk.content(&path).expect("is there");
    disk.set_content(&path, content[..4000].to_vec());
    let store = open(&disk, Layout::PerBlock);
    let more = write(&store, 1, 2, 9000, &bytes(2, 9000));
    assert!(matches!(more, Err(ChunkError::Damaged { .. })), "{more:?}");
    let (_, damaged) = work(&store);
    assert_eq!(damaged, [id(1)]);
}

/// A store on a full disk of 12 MB, with blocks of 50,000 bytes, equally many in each container.
fn full_store(containers: u64) -> (FaultDisk, StoreOptions, Vec<BlockId>) {
    let disk = FaultDisk::new(1);
    let options = StoreOptions {
        container_bytes_max: 100_000_000,
        segment_bytes: 1 << 20,
        ..options(Layout::Log)
    };
    let store = Store::open(disk.clone(), options.clone()).expect("opens");
    disk.set_plan(FaultPlan { bytes_max: Some(12_000_000), ..FaultPlan::default() });
    for container_id in 1..=containers {
        store.create_container(container_id, &ContainerSpec::default()).expect("creates");
    }
    let mut written = Vec::new();
    for local_id in 0.. {
        let id = BlockId { container_id: 1 + local_id % containers, local_id };
        let data = bytes(local_id, 50_000);
        let chunk = chunk(local_id, 1, 0, 50_000);
        let block = BlockData { id, ..block(local_id, vec![chunk.clone()]) };
        let done = store
            .write_chunk(id, &chunk, &data, WriteMode::default())
            .and_then(|()| store.put_block(&block, true, Durability::GroupSynced));
        match done {
            Ok(_) => written.push(id),
            Err(ChunkError::DiskFull { .. }) => break,
            Err(error) => panic!("{error}"),
        }
        store.tick().expect("works");
    }
    assert!(written.len() > 150, "{}", written.len());
    drop(store);
    disk.kill();
    disk.set_plan(FaultPlan { bytes_max: Some(12_000_000), ..FaultPlan::default() });
    (disk, options, written)
}

fn is_served(store: &Store<FaultDisk>, id: BlockId) -> bool {
    let mut out = Vec::new();
    let chunk = chunk(id.local_id, 1, 0, 50_000);
    store.read_chunk(id, &chunk, 0, &mut out).is_ok() && out == bytes(id.local_id, 50_000)
}

#[test]
fn on_a_full_disk_deletions_work_and_give_their_space_back() {
    let (disk, options, written) = full_store(16);
    // A start needs no space for a deletion, and neither do many that each wait for a sync.
    let store = Store::open(disk.clone(), options.clone()).expect("opens");
    for container_id in 1..=12 {
        store.delete_container(container_id, true).expect("deletes");
    }
    (0..4).for_each(|_| drop(work(&store)));
    let kept = |id: &&BlockId| id.container_id > 12;
    assert!(written.iter().filter(kept).all(|id| is_served(&store, *id)));
    let new = BlockId { container_id: 13, local_id: 1 << 40 };
    let large = chunk(0, 1, 0, 50_000);
    for part in 0..40 {
        let id = BlockId { local_id: new.local_id + part, ..new };
        let written = store.write_chunk(id, &large, &bytes(9, 50_000), WriteMode::default());
        written.unwrap_or_else(|error| panic!("{part}: {error}"));
    }
    drop(store);
    disk.crash();
    let store = Store::open(disk, options).expect("opens");
    assert_eq!(store.damage(), []);
    assert_eq!(store.container_ids(), [13, 14, 15, 16]);
    assert!(written.iter().filter(kept).all(|id| is_served(&store, *id)));
}

#[test]
fn on_a_full_disk_segments_that_are_mostly_needed_give_back_the_rest() {
    let (disk, options, written) = full_store(1);
    let store = Store::open(disk.clone(), options.clone()).expect("opens");
    // A third of each segment is deleted: too little for a segment to be emptied.
    for id in written.iter().filter(|id| id.local_id.is_multiple_of(3)) {
        store.delete_block(*id).expect("deletes");
    }
    let before = segment_count(&disk);
    for _ in 0..6 {
        work(&store);
        store.tick().expect("works");
    }
    // The segments still exist, but their dead ranges take no disk space.
    assert!(segment_count(&disk) + 2 >= before);
    let large = chunk(0, 1, 0, 50_000);
    for part in 0..20 {
        let id = BlockId { container_id: 1, local_id: (1 << 40) + part };
        let written = store.write_chunk(id, &large, &bytes(9, 50_000), WriteMode::default());
        written.unwrap_or_else(|error| panic!("{part}: {error}"));
    }
    let is_kept = |id: &&BlockId| !id.local_id.is_multiple_of(3);
    assert!(written.iter().filter(is_kept).all(|id| is_served(&store, *id)));
    assert_eq!(work(&store).1, []);
    drop(store);
    disk.crash();
    let store = Store::open(disk.clone(), options).expect("opens");
    assert_eq!(store.damage(), []);
    assert!(written.iter().filter(is_kept).all(|id| is_served(&store, *id)));
}

#[test]
fn on_a_full_disk_thousands_of_deletions_find_a_place() {
    let (disk, options, written) = full_store(1);
    let store = Store::open(disk.clone(), options).expect("opens");
    for id in &written {
        store.delete_block(*id).expect("deletes");
        // As the server does all the time.
        let budget = UpkeepBudget { bytes_moved_max: 50_000, bytes_scrubbed_max: 0 };
        store.upkeep(budget).expect("works");
    }
    store.create_container(2, &ContainerSpec::default()).expect("creates");
    store.delete_container(1, true).expect("deletes");
}

#[test]
fn chunks_are_refused_at_the_limits_of_room_and_taken_when_there_is_some() {
    for layout in Layout::ALL {
        for is_own_limit in [true, false] {
            let disk = FaultDisk::new(1);
            let limits = match is_own_limit {
                true => StoreOptions { bytes_max: 160_000, ..options(layout) },
                false => StoreOptions { free_bytes_min: 300_000, ..options(layout) },
            };
            let store = Store::open(disk.clone(), limits).expect("opens");
            let bytes_max = Some(600_000);
            disk.set_plan(FaultPlan { bytes_max, ..FaultPlan::default() });
            store.create_container(1, &ContainerSpec::default()).expect("creates");
            store.create_container(2, &ContainerSpec::default()).expect("creates");
            let write = |local_id| {
                let id = BlockId { container_id: 1 + local_id % 2, local_id };
                let data = bytes(local_id, 20_000);
                let chunk = chunk(local_id, 1, 0, data.len());
                store.tick().expect("looks");
                store.write_chunk(id, &chunk, &data, WriteMode::default())
            };
            let refused = (0..30).find_map(|local_id| write(local_id).err());
            assert!(matches!(refused, Some(ChunkError::DiskFull { .. })), "{refused:?}");
            let free = disk.free_bytes().expect("says");
            assert!(is_own_limit || (180_000..300_000).contains(&free), "{layout:?}: {free}");
            // Containers that exist can still be deleted.
            store.delete_container(1, true).expect("deletes");
            store.delete_container(2, true).expect("deletes");
            work(&store);
            store.tick().expect("looks");
            store.create_container(1, &ContainerSpec::default()).expect("creates");
            store.create_container(2, &ContainerSpec::default()).expect("creates");
            write(100).unwrap_or_else(|error| panic!("{layout:?}, {is_own_limit}: {error}"));
        }
    }
}

#[test]
fn a_damaged_store_lets_an_id_be_used_again_whose_folder_is_gone() {
    let (disk, store) = with_container(Layout::PerBlock);
    store.create_container(2, &ContainerSpec::default()).expect("creates");
    fill(&store, 1, 0..2);
    fill(&store, 2, 0..2);
    drop(store);
    disk.kill();
    // Damages a record behind the one that made container 1.
    let path = "log/00000001.log";
    let mut bad = disk.content(path).expect("is there");
    bad[4096 + 200] ^= 1;
    disk.set_content(path, bad);
    let store = open(&disk, Layout::PerBlock);
    assert!(store.is_damaged());
    store.delete_container(2, true).expect("deletes");
    drop(store);
    disk.kill();
    let store = open(&disk, Layout::PerBlock);
    assert!(store.is_damaged());
    store.create_container(2, &ContainerSpec::default()).expect("makes it again");
    fill(&store, 2, 0..1);
    check_filled(&store, 2, 0..1);
}
