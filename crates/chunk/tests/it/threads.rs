//! Many threads use one store, on the real file system.

use std::path::PathBuf;
use std::sync::Arc;

use chunk::RealDisk;
use chunk::block::{BlockData, BlockId, ChunkInfo};
use chunk::container::ContainerSpec;
use chunk::layout::Layout;
use chunk::limits::SEGMENT_BYTES_MIN;
use chunk::store::{Durability, Store, StoreOptions, WriteMode};

const THREADS: u64 = 8;

fn folder(name: &str) -> PathBuf {
    let name = format!("quorate-chunk-{}-{name}", std::process::id());
    let path = std::env::temp_dir().join(name);
    drop(std::fs::remove_dir_all(&path));
    path
}

fn bytes(seed: u64, count: usize) -> Vec<u8> {
    (0..count as u64).map(|at| (at.wrapping_mul(seed | 1) >> 5) as u8).collect()
}

/// Sizes of chunks in bytes: below, at and above the largest that is gathered, and above the size
/// of a buffer.
const SIZES: [usize; 7] = [1, 1000, 65_536, 65_537, 300_000, 1_200_000, 2];

/// The chunks that a thread writes to its block, with their data.
fn chunks_of(local_id: u64) -> Vec<(ChunkInfo, Vec<u8>)> {
    let mut offset = 0;
    let mut chunks = Vec::new();
    for number in 0..28 {
        let size = SIZES[(number + local_id as usize) % SIZES.len()];
        let name = format!("{local_id}_chunk_{number}");
        chunks.push((
            ChunkInfo::plain(name, offset, size as u64),
            bytes(local_id * 100 + number as u64, size),
        ));
        offset += size as u64;
    }
    chunks
}

fn durability(number: usize) -> Durability {
    match number % 9 {
        3 => Durability::Synced,
        5 => Durability::GroupSynced,
        _ => Durability::Buffered,
    }
}

fn run(store: &Store<RealDisk>, thread: u64) {
    // Two threads share a container.
    let id = BlockId { container_id: 1 + thread / 2, local_id: thread };
    let chunks = chunks_of(thread);
    let mut out = Vec::new();
    for (number, (chunk, data)) in chunks.iter().enumerate() {
        let mode = WriteMode { durability: durability(number), ..WriteMode::default() };
        store.write_chunk(id, chunk, data, mode).expect("writes");
        out.clear();
        store.read_chunk(id, chunk, 0, &mut out).expect("reads its own write");
        assert!(out == *data);
    }
    let chunks = chunks.into_iter().map(|(chunk, _)| chunk).collect();
    let block = BlockData {
        id,
        commit_sequence_id: 0,
        replica_index: None,
        flags: None,
        metadata: Vec::new(),
        chunks,
    };
    store.put_block(&block, true, Durability::GroupSynced).expect("commits");
}

fn check(store: &Store<RealDisk>) {
    let mut out = Vec::new();
    for thread in 0..THREADS {
        let id = BlockId { container_id: 1 + thread / 2, local_id: thread };
        assert_eq!(store.block(id, 0).expect("is there").chunks.len(), 28);
        for (chunk, data) in chunks_of(thread) {
            out.clear();
            store.read_chunk(id, &chunk, 0, &mut out).expect("reads");
            assert!(out == data, "{chunk:?}");
        }
    }
}

#[test]
fn what_many_threads_wrote_is_there_for_all_of_them_and_after_a_restart() {
    for layout in Layout::ALL {
        let folder = folder(layout.name());
        let disk = RealDisk::new(&folder).expect("makes a directory");
        let segment_bytes = 160 * SEGMENT_BYTES_MIN;
        let options = StoreOptions { layout, segment_bytes, ..StoreOptions::default() };
        let store = Arc::new(Store::open(disk.clone(), options.clone()).expect("opens"));
        for container_id in 1..=THREADS / 2 {
            store.create_container(container_id, &ContainerSpec::default()).expect("creates");
        }
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let store = Arc::clone(&store);
                std::thread::spawn(move || run(&store, thread))
            })
            .collect();
        for _ in 0..100 {
            store.tick().expect("writes out");
        }
        for thread in threads {
            thread.join().expect("ends well");
        }
        check(&store);
        drop(store);
        let store = Store::open(disk, options).expect("opens");
        assert!(store.damage().is_empty(), "{:?}", store.damage());
        check(&store);
        drop(store);
        std::fs::remove_dir_all(folder).expect("removes");
    }
}
