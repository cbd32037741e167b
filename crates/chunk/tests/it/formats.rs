//! This version reads what each version of the chunk store's formats wrote: a small store with
//! every kind of record, and a checkpoint. `fixtures/README.md` describes how the files were made.

use bytes::Bytes;
use chunk::block::{BlockData, BlockId, ChunkInfo, KeyValue};
use chunk::checksum::{ChecksumData, ChecksumType};
use chunk::container::{ContainerSpec, State};
use chunk::layout::Layout;
use chunk::store::{Durability, Store, StoreOptions, WriteMode, inspect};
use storage::fault_disk::FaultDisk;

const SEGMENT_BYTES: u32 = 128 * 1024;

/// The files of a store whose format is ours. Files of the log are stored without the zeros at
/// their end.
type Files = [(&'static str, &'static [u8]); 4];

/// Files that version 1 wrote.
const V1: Files = [
    ("index/0000000100016000.idx", include_bytes!("../fixtures/store-v1/index.idx")),
    ("log/00000001.log", include_bytes!("../fixtures/store-v1/1.log")),
    ("log/00000002.log", include_bytes!("../fixtures/store-v1/2.log")),
    ("store", include_bytes!("../fixtures/store-v1/store")),
];

/// Files that version 2 wrote: the identity has a salt, segments have two heads, and checkpoints
/// say where the last record starts.
const V2: Files = [
    ("index/0000000100016000.idx", include_bytes!("../fixtures/store-v2/index.idx")),
    ("log/00000001.log", include_bytes!("../fixtures/store-v2/1.log")),
    ("log/00000002.log", include_bytes!("../fixtures/store-v2/2.log")),
    ("store", include_bytes!("../fixtures/store-v2/store")),
];

fn options() -> StoreOptions {
    StoreOptions {
        segment_bytes: SEGMENT_BYTES,
        new_store_id: Some(0x0123_4567_89ab_cdef_0011_2233_4455_6677),
        ..StoreOptions::default()
    }
}

fn id(container_id: u64, local_id: u64) -> BlockId {
    BlockId { container_id, local_id }
}

fn data(seed: u32, count: u32) -> Vec<u8> {
    (0..count).map(|at| (at.wrapping_mul(2 * seed + 1) >> 4) as u8).collect()
}

fn chunk(name: &str, offset: u64, data: &[u8], kind: ChecksumType) -> ChunkInfo {
    let checksum = ChecksumData::of(kind, 16_384, data);
    ChunkInfo { checksum, ..ChunkInfo::plain(name.to_owned(), offset, data.len() as u64) }
}

fn pair(key: &str, value: Option<&str>) -> KeyValue {
    KeyValue { key: key.to_owned(), value: value.map(str::to_owned) }
}

/// Block 1 of container 1: two chunks, the second too large to be gathered.
fn first_block() -> (BlockData, Vec<u8>) {
    let (small, large) = (data(1, 1_000), data(2, 66_000));
    let first = ChunkInfo {
        metadata: vec![pair("k", Some("v"))],
        stripe_checksum: Some(Bytes::from_static(b"stripe")),
        ..chunk("1_chunk_1", 0, &small, ChecksumType::Crc32c)
    };
    let second = chunk("1_chunk_2", 1_000, &large, ChecksumType::Sha256);
    let block = BlockData {
        id: id(1, 1),
        commit_sequence_id: 0,
        replica_index: Some(3),
        flags: Some(5),
        metadata: vec![pair("TYPE", Some("KEY")), pair("none", None)],
        chunks: vec![first, second],
    };
    (block, [small, large].concat())
}

fn block(id: BlockId, chunks: Vec<ChunkInfo>) -> BlockData {
    let (replica_index, flags, metadata) = (None, None, Vec::new());
    BlockData { id, commit_sequence_id: 0, replica_index, flags, metadata, chunks }
}

/// Makes the store that the fixture holds.
fn write(disk: &FaultDisk) {
    let store = Store::open(disk.clone(), options()).expect("opens");
    let mode = WriteMode::default();
    let spec = ContainerSpec {
        replica_index: Some(3),
        metadata: vec![pair("owner", Some("ozone"))],
        ..ContainerSpec::default()
    };
    store.create_container(1, &spec).expect("creates");
    let in_files = ContainerSpec { layout: Some(Layout::PerBlock), ..ContainerSpec::default() };
    store.create_container(600, &in_files).expect("creates");
    store.create_container(3, &ContainerSpec::default()).expect("creates");
    let (first, bytes) = first_block();
    for chunk in &first.chunks {
        let data = &bytes[chunk.offset as usize..chunk.end() as usize];
        store.write_chunk(first.id, chunk, data, mode).expect("writes");
    }
    store.put_block(&first, true, Durability::GroupSynced).expect("commits");
    let in_file = chunk("2_chunk_1", 0, &data(3, 300), ChecksumType::Md5);
    store.write_chunk(id(600, 2), &in_file, &data(3, 300), mode).expect("writes");
    store.put_block(&block(id(600, 2), vec![in_file]), false, Durability::Synced).expect("commits");
    // A chunk that is not committed, and one that overwrites the middle of another.
    let lone = chunk("5_chunk_1", 0, &data(5, 40), ChecksumType::None);
    store.write_chunk(id(1, 5), &lone, &data(5, 40), mode).expect("writes");
    let middle = chunk("5_chunk_2", 10, &data(6, 20), ChecksumType::None);
    store.write_chunk(id(1, 5), &middle, &data(6, 20), mode).expect("writes");
    store.checkpoint().expect("writes");
    // These are only in the log, not in the checkpoint.
    store.delete_container(3, true).expect("deletes");
    for local_id in [7, 8] {
        let only = chunk("only", 0, &data(7, 90), ChecksumType::Crc32);
        store.write_chunk(id(1, local_id), &only, &data(7, 90), mode).expect("writes");
        let block = block(id(1, local_id), vec![only]);
        store.put_block(&block, true, Durability::GroupSynced).expect("commits");
    }
    store.delete_block(id(1, 7)).expect("deletes");
    store.finalize_block(id(1, 8)).expect("finalizes");
    // Too large for the rest of the segment.
    let huge = chunk("9_chunk_1", 0, &data(9, 20_000), ChecksumType::Crc32c);
    store.write_chunk(id(1, 9), &huge, &data(9, 20_000), mode).expect("writes");
    store.close_container(600).expect("closes");
    store.sync().expect("syncs");
}

/// The files of a store; those of the log without the zeros at their end.
fn files_of(disk: &FaultDisk) -> Vec<(String, Vec<u8>)> {
    let ours =
        |path: &String| path.ends_with(".log") || path.starts_with("index/") || path == "store";
    let content = |path: String| {
        let mut content = disk.content(&path).expect("is there");
        if path.starts_with("log/") {
            let end = content.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            content.truncate(end);
        }
        (path, content)
    };
    disk.paths().into_iter().filter(ours).map(content).collect()
}

#[test]
fn this_version_writes_what_version_2_wrote() {
    let disk = FaultDisk::new(1);
    write(&disk);
    let files = files_of(&disk);
    let names: Vec<&str> = files.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(names, V2.map(|(path, _)| path));
    for ((path, found), (_, wanted)) in files.iter().zip(V2) {
        assert!(found == wanted, "{path}");
    }
}

#[test]
fn a_store_of_any_version_is_opened_and_goes_on() {
    for files in [V1, V2] {
        check_opened(files);
    }
}

fn check_opened(files: Files) {
    let disk = FaultDisk::new(1);
    // The block files have Ozone's format and are not part of the fixture.
    write(&disk);
    for (path, content) in files {
        let mut content = content.to_vec();
        if path.starts_with("log/") {
            content.resize(SEGMENT_BYTES as usize, 0);
        }
        disk.set_content(path, content);
    }
    let report = inspect(disk.clone()).expect("looks");
    assert!(report.is_sound(), "{report}");
    let store = Store::open(disk.clone(), options()).expect("opens");
    assert_eq!(store.damage(), []);
    assert_eq!(store.container_ids(), [1, 600]);
    let container = store.container(1).expect("is there");
    assert_eq!((container.state, container.block_count), (State::Open, 2));
    assert_eq!(container.replica_index, Some(3));
    assert_eq!(container.metadata, [pair("owner", Some("ozone"))]);
    assert_eq!(store.container(600).expect("is there").state, State::Closed);
    let (first, bytes) = first_block();
    assert_eq!(store.block(first.id, 0).expect("is there"), first);
    let read = |id: BlockId, length: u64| {
        let mut out = Vec::new();
        let all = ChunkInfo::plain(String::new(), 0, length);
        store.read_chunk(id, &all, 0, &mut out).map(|()| out)
    };
    assert!(read(first.id, 67_000).expect("reads") == bytes);
    assert_eq!(read(id(600, 2), 300).expect("reads"), data(3, 300));
    let mut over = data(5, 40);
    over[10..30].copy_from_slice(&data(6, 20));
    assert_eq!(read(id(1, 5), 40).expect("reads"), over);
    assert!(read(id(1, 7), 90).is_err());
    assert_eq!(read(id(1, 8), 90).expect("reads"), data(7, 90));
    assert!(read(id(1, 9), 20_000).expect("reads") == data(9, 20_000));
    let more = chunk("8_chunk_2", 90, b"more", ChecksumType::None);
    let refused = store.write_chunk(id(1, 8), &more, b"more", WriteMode::default());
    assert!(refused.is_err(), "it is finalized");
    let next = chunk("10_chunk_1", 0, b"next", ChecksumType::None);
    store.write_chunk(id(1, 10), &next, b"next", WriteMode::default()).expect("goes on");
    assert_eq!(read(id(1, 10), 4).expect("reads"), b"next");
}
