//! Tests of threads that wait for each other. A `HookedDisk` delays an operation, or reports a full
//! disk, at the moment that the test chooses.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::hooked_disk::HookedDisk;
use chunk::ChunkError;
use chunk::block::{BlockData, BlockId, ChunkInfo};
use chunk::container::{self, ContainerSpec};
use chunk::identity::Identity;
use chunk::layout::Layout;
use chunk::limits::{BUFFERS_MAX, GATHERED_BYTES_MAX};
use chunk::log::{Log, Record, Resume};
use chunk::record::{Kind, Position};
use chunk::scan::Start;
use chunk::segment::LOG_DIR;
use chunk::store::{Durability, Stage, Store, StoreOptions, UpkeepBudget, WriteMode};
use parking_lot::{Condvar, Mutex};
use rustix::process::Pid;
use rustix::thread::gettid;
use storage::disk::Disk;
use storage::fault_disk::Operation;

/// A thread that waits longer than this counts as stuck for ever.
const PATIENCE: Duration = Duration::from_secs(20);

const SEGMENT_BYTES: u32 = 1024 * 1024;

const SYNCED: WriteMode = WriteMode { stage: Stage::Combined, durability: Durability::GroupSynced };

/// A gate where threads stop until they are let through.
#[derive(Default)]
struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_closed: bool,
    /// Number of threads that have arrived while the gate was closed.
    came: usize,
    /// Number of the waiting threads that may pass.
    may_go: usize,
}

impl Gate {
    fn close(&self) {
        self.state.lock().is_closed = true;
    }

    fn open(&self) {
        self.state.lock().is_closed = false;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut state = self.state.lock();
        if !state.is_closed {
            return;
        }
        state.came += 1;
        self.changed.notify_all();
        while state.is_closed && state.may_go == 0 {
            self.changed.wait(&mut state);
        }
        state.may_go = state.may_go.saturating_sub(1);
    }

    fn let_one_go(&self) {
        self.state.lock().may_go += 1;
        self.changed.notify_all();
    }

    /// Whether `count` threads arrived in time.
    fn has_seen(&self, count: usize) -> bool {
        let end = Instant::now() + PATIENCE;
        let mut state = self.state.lock();
        while state.came < count {
            if self.changed.wait_until(&mut state, end).timed_out() {
                return false;
            }
        }
        true
    }
}

fn full() -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::StorageFull))
}

/// Runs `what` in another thread; fails if it does not end in time.
fn in_time<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver): (Sender<T>, Receiver<T>) = channel();
    thread::spawn(move || sender.send(what()));
    receiver.recv_timeout(PATIENCE).expect("it waits for what never comes")
}

/// Waits until a thread sleeps, according to Linux.
fn wait_until_asleep(id: Pid) {
    let path = format!("/proc/self/task/{}/stat", id.as_raw_pid());
    let end = Instant::now() + PATIENCE;
    let is_asleep = || std::fs::read_to_string(&path).expect("it runs").contains(") S ");
    while !is_asleep() {
        assert!(Instant::now() < end, "it does not wait");
        thread::yield_now();
    }
}

fn pattern(seed: u8, count: usize) -> Vec<u8> {
    (0..count as u32).map(|at| (at ^ (at >> 8)) as u8 ^ seed).collect()
}

fn id(local_id: u64) -> BlockId {
    BlockId { container_id: 1, local_id }
}

fn chunk(offset: u64, data: &[u8]) -> ChunkInfo {
    ChunkInfo::plain(format!("chunk_{offset}"), offset, data.len() as u64)
}

fn block(local_id: u64, chunks: Vec<ChunkInfo>) -> BlockData {
    let (replica_index, flags, metadata) = (None, None, Vec::new());
    let id = id(local_id);
    BlockData { id, commit_sequence_id: 0, replica_index, flags, metadata, chunks }
}

fn open(disk: &HookedDisk, layout: Layout) -> Store<HookedDisk> {
    let options = StoreOptions { layout, segment_bytes: SEGMENT_BYTES, ..StoreOptions::default() };
    Store::open(disk.clone(), options).expect("opens")
}

/// Two threads wait for a buffer. The first one also needs another segment, for which there is no
/// space. The second one must get the buffer for which the first was woken.
#[test]
fn who_is_refused_for_a_full_disk_wakes_the_next_that_waits_for_a_buffer() {
    let (gate, is_full) = (Arc::new(Gate::default()), Arc::new(AtomicBool::new(false)));
    let disk = {
        let (gate, is_full) = (gate.clone(), is_full.clone());
        HookedDisk::new("waits-buffer", move |operation, _| {
            match operation {
                Operation::Preallocate if is_full.load(Ordering::SeqCst) => return full(),
                Operation::Write => gate.pass(),
                _ => {}
            }
            Ok(())
        })
    };
    disk.create_dir(LOG_DIR).expect("makes it");
    // Space for as many large records as there are buffers, and one more; but not for one of twice
    // the size.
    let bytes = GATHERED_BYTES_MAX + 1;
    let segment_bytes = (BUFFERS_MAX + 4) * bytes.next_multiple_of(4096);
    let segment_bytes = (segment_bytes as u32).next_multiple_of(4096);
    let end = Start { at: Position::default(), previous: None };
    let resume = Resume { end, segment: None, next_number: 1 };
    let log = Arc::new(Log::new(disk, Identity::from_id(7), segment_bytes, resume));
    let (sender, ids) = channel();
    let append = |bytes: usize| {
        let (log, sender) = (log.clone(), sender.clone());
        thread::spawn(move || {
            sender.send(gettid()).expect("the test goes on");
            let body = vec![1; bytes];
            let (container_id, local_id, block_offset) = (1, 1, 0);
            let kind = Kind::Chunk;
            log.append(&Record { kind, container_id, local_id, block_offset, body: &body })
        })
    };
    append(1).join().expect("does not panic").expect("there is room for a segment");
    ids.recv().expect("it told");
    log.sync_all().expect("syncs");
    is_full.store(true, Ordering::SeqCst);
    gate.close();
    let writers: Vec<_> = (0..BUFFERS_MAX).map(|_| append(bytes)).collect();
    assert!(gate.has_seen(BUFFERS_MAX));
    let large = append(4 * bytes);
    ids.iter().take(BUFFERS_MAX + 1).for_each(wait_until_asleep);
    let small = append(bytes);
    ids.iter().take(1).for_each(wait_until_asleep);
    gate.let_one_go();
    let is_awake = gate.has_seen(BUFFERS_MAX + 1);
    gate.open();
    assert!(is_awake, "the buffer that came back is nobody's");
    let refused = large.join().expect("does not panic");
    assert!(matches!(refused, Err(ChunkError::DiskFull { .. })), "{refused:?}");
    for writer in writers.into_iter().chain([small]) {
        writer.join().expect("does not panic").expect("there is room for it");
    }
}

/// A chunk that was overwritten in the middle has two parts. The first is moved; for the second,
/// there is no space for another segment.
#[test]
fn of_a_chunk_that_is_moved_on_a_full_disk_no_part_is_left_unwritten() {
    let is_full = Arc::new(AtomicBool::new(false));
    let disk = {
        let is_full = is_full.clone();
        HookedDisk::new("waits-parts", move |operation, _| match operation {
            Operation::Preallocate if is_full.load(Ordering::SeqCst) => full(),
            _ => Ok(()),
        })
    };
    let store = Arc::new(open(&disk, Layout::Log));
    store.create_container(1, &ContainerSpec::default()).expect("makes it");
    let write = |local_id, offset, data: &[u8]| {
        store.write_chunk(id(local_id), &chunk(offset, data), data, SYNCED).expect("writes");
    };
    const KIB: usize = 1024;
    let (mut data, middle) = (pattern(1, 300 * KIB), pattern(2, KIB));
    write(0, 0, &data);
    // This fills the first segment; when it is deleted, most of that segment is dead.
    write(1, 0, &pattern(3, 500 * KIB));
    write(2, 0, &pattern(4, 500 * KIB));
    write(0, 150 * KIB as u64, &middle);
    data[150 * KIB..151 * KIB].copy_from_slice(&middle);
    store.delete_block(id(1)).expect("deletes");
    // The rest of the second segment has space for one part.
    write(2, 500 * KIB as u64, &pattern(5, 150 * KIB));
    store.checkpoint().expect("there is room for it");
    is_full.store(true, Ordering::SeqCst);
    let budget = UpkeepBudget { bytes_moved_max: u64::MAX, bytes_scrubbed_max: 0 };
    let moved: u64 = (0..4).map(|_| store.upkeep(budget).expect("goes on").bytes_moved).sum();
    assert_eq!(moved, 0, "the record is not moved whole");
    let check = |store: &Store<HookedDisk>| {
        let mut back = Vec::new();
        store.read_chunk(id(0), &chunk(0, &data), 0, &mut back).expect("reads");
        assert!(back == data);
    };
    {
        let store = store.clone();
        in_time(move || store.sync()).expect("syncs");
    }
    check(&store);
    drop(store);
    check(&open(&disk, Layout::Log));
}

/// While the file of a deleted block is being removed, the block cannot be written again: the new
/// bytes would be removed with the file.
#[test]
fn a_block_that_is_written_again_while_it_is_deleted_is_refused_until_it_is_gone() {
    for layout in [Layout::PerBlock, Layout::PerChunk] {
        let gate = Arc::new(Gate::default());
        let disk = {
            let gate = gate.clone();
            HookedDisk::new(&format!("waits-{}", layout.name()), move |operation, path| {
                if operation == Operation::Remove && path.contains("chunks/") {
                    gate.pass();
                }
                Ok(())
            })
        };
        let store = Arc::new(open(&disk, layout));
        store.create_container(1, &ContainerSpec::default()).expect("makes it");
        let write = |seed| {
            let data = pattern(seed, 100);
            let chunk = chunk(0, &data);
            store.write_chunk(id(1), &chunk, &data, SYNCED)?;
            store.put_block(
                &BlockData {
                    id: id(1),
                    commit_sequence_id: 0,
                    replica_index: None,
                    flags: None,
                    metadata: Vec::new(),
                    chunks: vec![chunk],
                },
                false,
                Durability::GroupSynced,
            )
        };
        let read = || {
            let mut back = Vec::new();
            store.read_chunk(id(1), &chunk(0, &[0; 100]), 0, &mut back).map(|()| back)
        };
        write(1).expect("writes");
        assert!(read().expect("reads") == pattern(1, 100));
        gate.close();
        let deleting = {
            let store = store.clone();
            thread::spawn(move || store.delete_block(id(1)))
        };
        assert!(gate.has_seen(1));
        let refused = write(2);
        assert!(matches!(refused, Err(ChunkError::BeingDeleted(_))), "{layout:?}: {refused:?}");
        gate.open();
        deleting.join().expect("does not panic").expect("deletes");
        write(3).expect("writes");
        assert!(read().expect("reads") == pattern(3, 100), "{layout:?}");
    }
}

/// The names and the record of a container become durable with the first commit. A thread that
/// writes to the container meanwhile gets no answer before that.
#[test]
fn a_synced_write_waits_for_the_record_that_made_its_container() {
    let gate = Arc::new(Gate::default());
    let disk = {
        let gate = gate.clone();
        HookedDisk::new("waits-container", move |operation, path| {
            if operation == Operation::Sync && path.starts_with(LOG_DIR) {
                gate.pass();
            }
            Ok(())
        })
    };
    let store = Arc::new(open(&disk, Layout::PerBlock));
    store.create_container(1, &ContainerSpec::default()).expect("creates");
    let data = pattern(1, 20_000);
    store.write_chunk(id(1), &chunk(0, &data), &data, WriteMode::default()).expect("writes");
    gate.close();
    let committing = {
        let (store, chunks) = (store.clone(), vec![chunk(0, &data)]);
        thread::spawn(move || store.put_block(&block(1, chunks), false, Durability::GroupSynced))
    };
    assert!(gate.has_seen(1), "nothing is synced");
    let (sender, receiver) = channel();
    let writing = {
        let (store, data) = (store.clone(), data.clone());
        thread::spawn(move || {
            sender.send(gettid()).expect("somebody waits for it");
            store.write_chunk(id(2), &chunk(0, &data), &data, SYNCED)
        })
    };
    wait_until_asleep(receiver.recv().expect("it began"));
    assert!(!writing.is_finished(), "what it wrote to may be gone after a crash");
    gate.open();
    committing.join().expect("ends").expect("commits");
    writing.join().expect("ends").expect("writes");
}

#[test]
fn a_block_that_is_deleted_while_it_is_checked_is_no_damage() {
    let gate = Arc::new(Gate::default());
    let disk = {
        let gate = gate.clone();
        HookedDisk::new("waits-checked", move |operation, path| {
            if operation == Operation::Open && path.ends_with("/1.block") {
                gate.pass();
            }
            Ok(())
        })
    };
    let store = Arc::new(open(&disk, Layout::PerBlock));
    store.create_container(1, &ContainerSpec::default()).expect("creates");
    let data = pattern(1, 20_000);
    store.write_chunk(id(1), &chunk(0, &data), &data, WriteMode::default()).expect("writes");
    let committed = block(1, vec![chunk(0, &data)]);
    store.put_block(&committed, true, Durability::GroupSynced).expect("commits");
    store.close_container(1).expect("closes");
    gate.close();
    let checking = {
        let store = store.clone();
        let budget = UpkeepBudget { bytes_moved_max: 0, bytes_scrubbed_max: 1 << 20 };
        thread::spawn(move || store.upkeep(budget))
    };
    assert!(gate.has_seen(1), "nothing is checked");
    store.delete_block(id(1)).expect("deletes");
    gate.open();
    let done = checking.join().expect("ends").expect("works");
    assert_eq!(done.damaged, []);
    assert_eq!(store.container(1).expect("is there").state, container::State::Closed);
}
