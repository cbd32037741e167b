use std::fs;

use super::*;
use crate::servers::folder::Folder;
use crate::workloads::chunk::cmdw::load::{ChunkBytes, chunk_data};

#[test]
fn every_limit_writes_all_bytes() {
    let shape = Shape {
        chunk_bytes: ChunkBytes(1_000),
        chunks: 2_500,
        threads: 3,
        containers: 3,
        chunks_per_block: 16,
    };
    let data = chunk_data(shape.chunk_bytes);
    let folder = Folder::make(&std::env::temp_dir(), "quorate-limit-test").unwrap();
    for limit in Limit::BUFFERED.into_iter().chain(Limit::DURABLE) {
        folder.clear().unwrap();
        let run = limit.run(folder.path(), &shape, &data, &Interrupt::default()).unwrap();
        // Some file systems do not support direct writes.
        let Some((took, syncs)) = run else { continue };
        let lengths = fs::read_dir(folder.path()).unwrap();
        let bytes: u64 = lengths.map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
        let expected = match limit {
            Limit::Direct | Limit::DirectGroup => {
                shape.bytes().next_multiple_of(DIRECT_ALIGN_BYTES)
            }
            Limit::Gathered => gather::file_bytes(&shape),
            _ => shape.bytes(),
        };
        assert_eq!(bytes, expected, "{limit:?}");
        let operations = if limit.is_by_chunk() { shape.chunks } else { 0 };
        assert_eq!(took.latencies.count(), operations, "{limit:?}");
        match limit {
            Limit::LogSync => assert_eq!(syncs, shape.chunks),
            Limit::LogGroup | Limit::DirectGroup => {
                assert!((1..=shape.chunks).contains(&syncs), "{syncs}");
            }
            _ => assert_eq!(syncs, 0),
        }
    }
}

#[test]
fn a_file_of_zeros_is_whole_before_the_first_append() {
    let folder = Folder::make(&std::env::temp_dir(), "quorate-limit-zeros-test").unwrap();
    let path = folder.path().join("file");
    let bytes = STREAM_BLOCK_BYTES + 1;
    // Some file systems do not support direct writes.
    if zeroed(&path, bytes, &Interrupt::default()).unwrap().is_some() {
        let expected = bytes.next_multiple_of(DIRECT_ALIGN_BYTES) as usize;
        assert!(fs::read(&path).unwrap() == vec![0; expected]);
    }
}

#[test]
fn a_limit_ends_when_it_is_asked_to() {
    let (chunk_bytes, chunks) = (ChunkBytes(1_000), 1_000);
    let (threads, containers, chunks_per_block) = (2, 2, 16);
    let shape = Shape { chunk_bytes, chunks, threads, containers, chunks_per_block };
    let folder = Folder::make(&std::env::temp_dir(), "quorate-limit-end-test").unwrap();
    let asked = Interrupt::default();
    asked.ask();
    let result = Limit::Log.run(folder.path(), &shape, &chunk_data(chunk_bytes), &asked);
    assert_eq!(result.unwrap_err().to_string(), "interrupted");
}
