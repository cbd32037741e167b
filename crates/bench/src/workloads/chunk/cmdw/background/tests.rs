use std::fs;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use chunk::RealDisk;
use chunk::block::ChunkInfo;
use chunk::checksum::ChecksumType;
use chunk::container::State;
use chunk::layout::Layout;
use chunk::store::WriteMode;

use super::*;
use crate::servers::folder::Folder;
use crate::workloads::chunk::cmdw::load::{ChunkBytes, Shape, chunk_data};
use crate::workloads::chunk::cmdw::{STORE_DIR, open_store, store_options};

/// Calls `run` with a store whose log has one chunk, and with the store's folder.
fn with_store(name: &str, run: impl FnOnce(&Store<RealDisk>, &Folder)) {
    let name = format!("quorate-background-{name}");
    let folder = Folder::make(&std::env::temp_dir(), &name).unwrap();
    let (threads, containers, chunks_per_block) = (1, 1, 16);
    let chunk_bytes = ChunkBytes(100_000);
    let shape = Shape { chunk_bytes, chunks: 1, threads, containers, chunks_per_block };
    let options = store_options(&shape, Layout::Log, ChecksumType::None);
    let disk = RealDisk::new(folder.path().join(STORE_DIR)).unwrap();
    let store = open_store(disk, &shape, Layout::Log, options).unwrap();
    let (id, data) = (BlockId { container_id: 1, local_id: 0 }, chunk_data(chunk_bytes));
    let chunk = ChunkInfo::plain("a".to_string(), 0, chunk_bytes.0);
    store.write_chunk(id, &chunk, &data, WriteMode::default()).unwrap();
    store.sync().unwrap();
    run(&store, &folder);
}

/// Overwrites some bytes in the middle of each file of the log.
fn damage_log(folder: &Folder) {
    for entry in fs::read_dir(folder.path().join(STORE_DIR).join("log")).unwrap() {
        let file = fs::OpenOptions::new().write(true).open(entry.unwrap().path()).unwrap();
        file.write_all_at(b"damaged", 50_000).unwrap();
    }
}

#[test]
fn upkeep_runs_while_chunks_are_written() {
    with_store("damage", |store, folder| {
        damage_log(folder);
        let began = Instant::now();
        let is_found = || store.container(1).unwrap().state == State::Unhealthy;
        let result = kept_up(store, || {
            while !is_found() && began.elapsed() < Duration::from_secs(30) {
                thread::yield_now();
            }
            Ok(is_found())
        });
        let error = format!("{:#}", result.unwrap_err());
        assert!(error.contains("is damaged"), "{error}");
    });
}

#[test]
fn what_the_work_gives_comes_back_and_its_error_too() {
    with_store("result", |store, _| {
        assert_eq!(kept_up(store, || Ok(7)).unwrap(), 7);
        let error = kept_up(store, || anyhow::Result::<()>::Err(anyhow::anyhow!("no")));
        assert_eq!(error.unwrap_err().to_string(), "no");
    });
}
