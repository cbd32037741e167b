use std::{fs, thread};

use super::*;
use crate::servers::folder::Folder;
use crate::workloads::chunk::cmdw::load::{ChunkBytes, chunk_data};

fn shape(chunk_bytes: u64, chunks: u64) -> Shape {
    let (threads, containers, chunks_per_block) = (3, 3, 16);
    let chunk_bytes = ChunkBytes(chunk_bytes);
    Shape { chunk_bytes, chunks, threads, containers, chunks_per_block }
}

/// Appends all chunks by all threads. Returns the result of each append.
fn append_all(group: &DirectGroup, shape: &Shape, data: &[u8]) -> Vec<io::Result<()>> {
    let next = &AtomicU64::new(0);
    let work = || {
        let is_left = || next.fetch_add(1, Ordering::Relaxed) < shape.chunks;
        let appends = std::iter::from_fn(|| is_left().then(|| group.append(data)));
        appends.collect::<Vec<_>>()
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..shape.threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn chunks_of_a_group_follow_each_other_without_a_gap() {
    let folder = Folder::make(&std::env::temp_dir(), "quorate-group-test").unwrap();
    let path = folder.path().join("file");
    // Chunks of less than a block, of whole blocks, and of so many bytes that a buffer cannot hold
    // one of each thread.
    for (chunk_bytes, chunks) in [(1_000, 500), (4_096, 100), (5_000_000, 7)] {
        let shape = shape(chunk_bytes, chunks);
        let data = chunk_data(shape.chunk_bytes);
        let group = DirectGroup::of(File::create(&path).unwrap(), &shape);
        assert!(append_all(&group, &shape, &data).iter().all(Result::is_ok));
        assert!((1..=chunks).contains(&group.syncs()), "{}", group.syncs());
        let bytes = fs::read(&path).unwrap();
        let (chunks, padding) = bytes.split_at(shape.bytes() as usize);
        assert!(chunks.chunks(data.len()).all(|chunk| chunk == data), "{chunk_bytes}");
        assert!(padding.len() < DIRECT_ALIGN_BYTES as usize);
    }
}

#[test]
fn threads_that_append_to_a_growing_file_share_its_syncs() {
    let folder = Folder::make(&std::env::temp_dir(), "quorate-growing-test").unwrap();
    let path = folder.path().join("file");
    let (threads, each, data) = (8, 200, [7; 100]);
    let group = Group::of(File::create(&path).unwrap());
    let append = || (0..each).for_each(|_| group.append(&data).unwrap());
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(append))));
    let appends = threads * each;
    assert_eq!(fs::read(&path).unwrap(), vec![7; appends as usize * data.len()]);
    assert!((1..=appends).contains(&group.syncs()), "{}", group.syncs());
    let state = group.lock();
    assert_eq!((state.written, state.durable), (appends, appends));
}

#[test]
fn a_failed_write_fails_every_append() {
    let folder = Folder::make(&std::env::temp_dir(), "quorate-group-fail-test").unwrap();
    let path = folder.path().join("file");
    fs::write(&path, b"").unwrap();
    let shape = shape(1_000, 50);
    let group = DirectGroup::of(File::open(&path).unwrap(), &shape);
    let results = append_all(&group, &shape, &chunk_data(shape.chunk_bytes));
    assert_eq!(results.len(), 50);
    assert!(results.iter().all(Result::is_err));
}

#[test]
fn aligned_memory_starts_at_a_block() {
    let mut memory = AlignedMemory::zeroed(5_000);
    assert_eq!(memory.bytes().as_ptr() as u64 % DIRECT_ALIGN_BYTES, 0);
    memory.bytes_mut().fill(1);
    assert_eq!(memory.bytes(), [1; 5_000]);
}
