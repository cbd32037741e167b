//! Lets each operation of the disk fail in turn, in every layout. Requests that were answered with
//! success are there after a crash. No sync follows a failed sync. A request that finds a full
//! disk, or a process without a file descriptor, is refused, and the store continues.

use std::collections::BTreeMap;

use chunk::ChunkError;
use chunk::block::{BlockData, BlockId, ChunkInfo};
use chunk::container::{ContainerSpec, State};
use chunk::layout::Layout;
use chunk::store::{Durability, Store, StoreOptions, UpkeepBudget, WriteMode};
use storage::fault_disk::{Chance, FaultDisk, FaultPlan, Operation};

fn options(layout: Layout) -> StoreOptions {
    let (segment_bytes, new_store_id) = (64 * 1024, Some(1));
    StoreOptions { layout, segment_bytes, new_store_id, open_files_max: 4, ..Default::default() }
}

fn id(local_id: u64) -> BlockId {
    BlockId { container_id: 1 + local_id % 2, local_id }
}

fn data(local_id: u64, count: usize) -> Vec<u8> {
    let mut chance = Chance::new(local_id);
    (0..count).map(|_| chance.bits() as u8).collect()
}

fn chunk_of(id: BlockId, length: u64) -> ChunkInfo {
    ChunkInfo::plain(format!("{}_chunk_0", id.local_id), 0, length)
}

fn bytes_of(local_id: u64) -> usize {
    [300, 20_000, 9_000][local_id as usize % 3]
}

/// Writes one block. Commits it, unless the write itself was synced (every fourth block).
fn write(store: &Store<FaultDisk>, local_id: u64) -> Result<(), ChunkError> {
    let (id, data) = (id(local_id), data(local_id, bytes_of(local_id)));
    let chunk = chunk_of(id, data.len() as u64);
    let is_synced = local_id % 4 == 3;
    let durability = if is_synced { Durability::Synced } else { Durability::Buffered };
    let mode = WriteMode { durability, ..WriteMode::default() };
    store.write_chunk(id, &chunk, &data, mode)?;
    if is_synced {
        return Ok(());
    }
    let (replica_index, flags, metadata) = (None, None, Vec::new());
    let chunks = vec![chunk];
    let block = BlockData { id, commit_sequence_id: 0, replica_index, flags, metadata, chunks };
    store.put_block(&block, false, Durability::GroupSynced).map(drop)
}

fn read(store: &Store<FaultDisk>, local_id: u64) -> Result<Vec<u8>, ChunkError> {
    let chunk = chunk_of(id(local_id), bytes_of(local_id) as u64);
    let mut out = Vec::new();
    store.read_chunk(id(local_id), &chunk, 0, &mut out).map(|()| out)
}

/// The answers of one life, by local id.
type Answers = BTreeMap<u64, Result<(), ChunkError>>;

/// Writes blocks, with ticks and background work in between.
fn live(store: &Store<FaultDisk>, local_ids: core::ops::Range<u64>) -> Answers {
    let mut answers = Answers::new();
    for local_id in local_ids {
        answers.insert(local_id, write(store, local_id));
        if local_id % 3 == 0 {
            let _ = store.tick();
        }
        if local_id % 7 == 6 {
            let budget = UpkeepBudget { bytes_moved_max: 50_000, bytes_scrubbed_max: 50_000 };
            let _ = store.upkeep(budget);
            let _ = store.checkpoint();
        }
    }
    answers
}

fn with_containers(layout: Layout) -> (FaultDisk, Store<FaultDisk>) {
    let disk = FaultDisk::new(1);
    let store = Store::open(disk.clone(), options(layout)).expect("opens");
    for container_id in [1, 2] {
        store.create_container(container_id, &ContainerSpec::default()).expect("creates");
    }
    (disk, store)
}

/// Runs one life for each call of `operation`, in which that call fails, and checks the outcome.
fn each_failure(
    operation: Operation,
    plan: impl Fn(Operation, u64) -> FaultPlan,
    check: impl Fn(&FaultDisk, Store<FaultDisk>, &Answers, &str),
) {
    for layout in Layout::ALL {
        let mut number = 0;
        loop {
            let (disk, store) = with_containers(layout);
            disk.set_plan(plan(operation, number));
            let answers = live(&store, 0..16);
            disk.set_plan(FaultPlan::default());
            let what = format!("{layout:?}, {operation:?} {number}");
            check(&disk, store, &answers, &what);
            // Stops after more calls than a life without a failure makes.
            number += 1;
            if number > 40 {
                break;
            }
        }
    }
}

/// Checks that requests answered with success are there after a crash.
fn check_kept(disk: &FaultDisk, layout: Layout, answers: &Answers, what: &str) {
    disk.crash();
    let store = Store::open(disk.clone(), options(layout));
    let store = store.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(store.damage().is_empty(), "{what}: {:?}", store.damage());
    for (local_id, _) in answers.iter().filter(|(_, answer)| answer.is_ok()) {
        let found = read(&store, *local_id);
        let found = found.unwrap_or_else(|error| panic!("{what}, block {local_id}: {error}"));
        assert!(found == data(*local_id, bytes_of(*local_id)), "{what}, block {local_id}");
    }
}

fn layout_of(store: &Store<FaultDisk>) -> Layout {
    store.container(1).expect("is there").layout
}

#[test]
fn a_failed_sync_is_the_last_in_every_layout() {
    let failed =
        |operation, number| FaultPlan { fail: vec![(operation, number)], ..FaultPlan::default() };
    // Data that found no space are written at the next sync at the latest.
    let full =
        |operation, number| FaultPlan { full: vec![(operation, number)], ..FaultPlan::default() };
    for operation in [Operation::Sync, Operation::SyncDir] {
        each_failure(operation, failed, check_stopped);
        each_failure(operation, full, check_stopped_unless_full);
    }
}

/// Checks that a failed sync stopped the store. A sync without space may instead be that of a
/// future segment's file, which holds nothing yet: then the request is refused, and the store
/// continues.
fn check_stopped_unless_full(
    disk: &FaultDisk,
    store: Store<FaultDisk>,
    answers: &Answers,
    what: &str,
) {
    let is_full =
        |answer: &Result<(), ChunkError>| matches!(answer, Err(ChunkError::DiskFull { .. }));
    match answers.values().any(is_full) {
        true => check_kept(disk, layout_of(&store), answers, what),
        false => check_stopped(disk, store, answers, what),
    }
}

fn check_stopped(disk: &FaultDisk, store: Store<FaultDisk>, answers: &Answers, what: &str) {
    let layout = layout_of(&store);
    let failed = answers.iter().find(|(_, answer)| answer.is_err()).map(|(id, _)| *id);
    if let Some(failed) = failed {
        let later = answers.range(failed + 1..).filter(|(_, answer)| answer.is_ok());
        assert_eq!(later.count(), 0, "{what}: acknowledged behind a failed sync");
        let again = write(&store, failed);
        assert!(matches!(again, Err(ChunkError::Stopped(_))), "{what}: {again:?}");
        let closed = store.close_container(1);
        assert!(matches!(closed, Err(ChunkError::Stopped(_))), "{what}: {closed:?}");
    }
    drop(store);
    check_kept(disk, layout, answers, what);
}

#[test]
fn without_a_descriptor_a_request_is_refused_and_the_next_is_done() {
    let plan = |operation, number| FaultPlan {
        no_descriptor: vec![(operation, number)],
        ..FaultPlan::default()
    };
    for operation in [Operation::Open, Operation::Create, Operation::SyncDir] {
        each_failure(operation, plan, |disk, store, answers, what| {
            let layout = layout_of(&store);
            let refused = answers.iter().filter(|(_, answer)| answer.is_err());
            let refused: Vec<_> = refused.map(|(local_id, _)| *local_id).collect();
            assert!(refused.len() <= 1, "{what}: {refused:?}");
            for local_id in refused {
                write(&store, local_id).unwrap_or_else(|error| panic!("{what}: again: {error}"));
            }
            for container_id in [1, 2] {
                let state = store.container(container_id).expect("is there").state;
                assert_eq!(state, State::Open, "{what}: container {container_id}");
            }
            drop(store);
            check_kept(disk, layout, answers, what);
        });
    }
}

#[test]
fn without_room_a_request_is_refused_and_the_next_is_done() {
    let plan =
        |operation, number| FaultPlan { full: vec![(operation, number)], ..FaultPlan::default() };
    for operation in [Operation::Create, Operation::Preallocate, Operation::Rename] {
        each_failure(operation, plan, |disk, store, answers, what| {
            let layout = layout_of(&store);
            for (local_id, answer) in answers.iter().filter(|(_, answer)| answer.is_err()) {
                let is_full = matches!(answer, Err(ChunkError::DiskFull { .. }));
                assert!(is_full, "{what}: {answer:?}");
                write(&store, *local_id).unwrap_or_else(|error| panic!("{what}: again: {error}"));
            }
            drop(store);
            check_kept(disk, layout, answers, what);
        });
    }
}

#[test]
fn a_read_that_fails_once_harms_nothing() {
    let plan =
        |operation, number| FaultPlan { fail: vec![(operation, number)], ..FaultPlan::default() };
    each_failure(Operation::Read, plan, |disk, store, answers, what| {
        let layout = layout_of(&store);
        let refused = answers.values().filter(|answer| answer.is_err()).count();
        assert!(refused <= 1, "{what}: {refused} refused");
        drop(store);
        check_kept(disk, layout, answers, what);
    });
}

#[test]
fn each_call_of_a_start_that_fails_is_told_and_changes_nothing() {
    let kinds = [Operation::Open, Operation::Read, Operation::Sync, Operation::SyncDir];
    for layout in Layout::ALL {
        let (disk, store) = with_containers(layout);
        let answers = live(&store, 0..12);
        drop(store);
        disk.kill();
        for operation in kinds {
            for number in 0..60 {
                let disk = disk.fork(number);
                let before = disk.paths();
                disk.set_plan(FaultPlan {
                    fail: vec![(operation, number)],
                    ..FaultPlan::default()
                });
                let what = format!("{layout:?}, {operation:?} {number}");
                if let Ok(store) = Store::open(disk.clone(), options(layout)) {
                    assert!(!store.is_damaged(), "{what}: {:?}", store.damage());
                }
                assert_eq!(disk.paths(), before, "{what}");
                check_kept(&disk, layout, &answers, &what);
            }
        }
    }
}
