//! The disk of a simulated member: a [`FaultDisk`] that also records which log entries are durable.
//! This file calls the recording part the *watch*.
//!
//! The watch does not know the log's format and does not trust it. A caller announces the payload
//! of each entry before the log writes it. The watch searches every write for those bytes, and then
//! waits for a completed sync of the same file. Only then does the entry count as synced.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

use bytes::Bytes;
use storage::disk::Disk;
use storage::fault_disk::{FaultDisk, FaultFile, FaultPlan, Operation};

/// How far an announced entry's bytes have come on the way to the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Progress {
    Announced,
    /// The bytes are written to this file, and no sync of the file has completed since.
    Written(String),
    Synced,
}

#[derive(Debug)]
struct Watched {
    payload: Bytes,
    progress: Progress,
}

#[derive(Debug, Default)]
struct Watch {
    entries: BTreeMap<u64, Watched>,
    /// The indexes of entries that are not synced yet.
    unsynced: Vec<u64>,
    /// Completed syncs since the last call of `take_sync_count`.
    sync_count: u64,
}

impl Watch {
    fn on_write(&mut self, path: &str, bytes: &[u8]) {
        // A new segment is filled with zeros. No entry is all zeros.
        const ZEROS: [u8; 256] = [0; 256];
        if bytes.chunks(ZEROS.len()).all(|chunk| chunk == &ZEROS[..chunk.len()]) {
            return;
        }
        for index in &self.unsynced {
            let watched = self.entries.get_mut(index).expect("an unsynced file is in the list");
            if holds(bytes, &watched.payload) {
                watched.progress = Progress::Written(path.to_string());
            }
        }
    }

    fn forget_unsynced(&mut self) {
        for index in &self.unsynced {
            if let Some(watched) = self.entries.get_mut(index) {
                watched.progress = Progress::Announced;
            }
        }
    }

    fn on_sync(&mut self, path: &str) {
        self.sync_count += 1;
        let entries = &mut self.entries;
        self.unsynced.retain(|index| {
            let watched = entries.get_mut(index).expect("an unsynced file is in the list");
            let is_synced = matches!(&watched.progress, Progress::Written(file) if file == path);
            if is_synced {
                watched.progress = Progress::Synced;
            }
            !is_synced
        });
    }
}

/// Whether `part` is anywhere in `bytes`. The last eight bytes of `part` are looked for first: to
/// compare all of `part` at each place would take most of a run's time.
fn holds(bytes: &[u8], part: &[u8]) -> bool {
    let Some((_, last)) = part.split_last_chunk::<8>() else {
        return bytes.windows(part.len().max(1)).any(|window| window == part);
    };
    let ends = bytes.windows(8).enumerate().skip(part.len() - 8);
    ends.filter(|(_, end)| end == last).any(|(at, _)| bytes[..at + 8].ends_with(part))
}

/// A fault disk that knows which log entries are synced. Clones share one disk.
#[derive(Clone, Debug)]
pub struct SimDisk {
    inner: FaultDisk,
    watch: Rc<RefCell<Watch>>,
    plan: Rc<RefCell<FaultPlan>>,
    /// Whether syncs do nothing, yet report success, in every process run.
    always_lies: bool,
}

/// The part of a disk that an operator removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost<'a> {
    /// All files.
    All,
    /// All files of this directory.
    Tree(&'a str),
}

/// A file of a [`SimDisk`].
#[derive(Debug)]
pub struct SimFile {
    inner: FaultFile,
    path: String,
}

impl SimDisk {
    /// An empty disk.
    pub fn new(seed: u64, always_lies: bool) -> SimDisk {
        let inner = FaultDisk::new(seed);
        let plan = FaultPlan { syncs_lie: always_lies, ..FaultPlan::default() };
        inner.set_plan(plan.clone());
        SimDisk { inner, watch: Rc::default(), plan: Rc::new(RefCell::new(plan)), always_lies }
    }

    /// Whether both are the same disk.
    pub fn is(&self, other: &SimDisk) -> bool {
        Rc::ptr_eq(&self.watch, &other.watch)
    }

    /// Changes the plan of faults, from the next operation on.
    pub fn change_plan(&self, change: impl FnOnce(&mut FaultPlan)) {
        let mut plan = self.plan.borrow_mut();
        change(&mut plan);
        self.inner.set_plan(plan.clone());
    }

    /// The current plan of faults.
    pub fn plan(&self) -> FaultPlan {
        self.plan.borrow().clone()
    }

    /// How many operations so far changed the disk or made data durable.
    pub fn ops(&self) -> u64 {
        self.inner.ops()
    }

    /// Whether the disk has gone past the operation at which its plan stops everything (`stop_at`).
    pub fn is_stopped(&self) -> bool {
        self.plan.borrow().stop_at.is_some_and(|stop| self.inner.ops() > stop)
    }

    /// Whether all operations before the planned stop are done. From then on reads fail.
    pub fn is_stopping(&self) -> bool {
        self.plan.borrow().stop_at.is_some_and(|stop| self.inner.ops() >= stop)
    }

    /// Whether the plan makes a read or an open fail.
    pub fn fails_reads(&self) -> bool {
        let is_read = |(operation, _): &(Operation, u64)| {
            matches!(operation, Operation::Read | Operation::Open)
        };
        self.plan.borrow().fail.iter().any(is_read)
    }

    /// Whether the plan limits the bytes that fit on the disk.
    pub fn is_limited(&self) -> bool {
        self.plan.borrow().bytes_max.is_some()
    }

    /// Whether a process may believe that the disk is full: the disk is limited, or some operation
    /// is planned to fail. The log treats any failure to create a segment as lack of room.
    pub fn may_lack_room(&self) -> bool {
        let plan = self.plan.borrow();
        plan.bytes_max.is_some() || !plan.fail.is_empty()
    }

    /// The total size of all files, in bytes.
    pub fn bytes(&self) -> u64 {
        let paths = self.inner.paths();
        let sizes = paths.iter().filter_map(|path| self.inner.content(path));
        sizes.map(|content| content.len() as u64).sum()
    }

    /// Ends the run of a process and its planned faults, except lying syncs and the size limit. If
    /// power was cut, data that no completed sync covers may be lost.
    pub fn end_life(&self, power_is_cut: bool) {
        {
            let mut plan = self.plan.borrow_mut();
            let kept = FaultPlan {
                syncs_lie: self.always_lies,
                bytes_max: plan.bytes_max,
                ..FaultPlan::default()
            };
            *plan = kept;
        }
        match power_is_cut {
            true => self.inner.crash(),
            false => self.inner.kill(),
        }
        self.inner.set_plan(self.plan());
        if power_is_cut {
            self.watch.borrow_mut().forget_unsynced();
        }
    }

    /// Removes all files, or one directory. Synced entries still count as synced: other members
    /// rely on them until the member is replaced.
    pub fn lose(&self, what: Lost<'_>) {
        match what {
            Lost::All => {
                self.inner.lose_tree("");
                self.watch.borrow_mut().forget_unsynced();
            }
            Lost::Tree(path) => self.inner.lose_tree(path),
        }
    }

    /// Restores an earlier copy of the disk. Entries synced since that copy still count as synced.
    pub fn put_back(&self, copy: &FaultDisk) {
        self.inner.set_all(copy);
        self.watch.borrow_mut().forget_unsynced();
    }

    /// The paths of all files.
    pub fn paths(&self) -> Vec<String> {
        self.inner.paths()
    }

    /// XORs `bits` into one byte of a file, durably. Does nothing if the file has no such byte.
    pub fn flip(&self, path: &str, offset: usize, bits: u8) {
        let Some(mut content) = self.inner.content(path) else { return };
        if let Some(byte) = content.get_mut(offset) {
            *byte ^= bits;
            self.inner.set_content(path, content);
        }
    }

    /// The positions of a file's non-zero bytes. A new segment holds zeros only.
    pub fn written(&self, path: &str) -> Vec<usize> {
        let content = self.inner.content(path).unwrap_or_default();
        (0..content.len()).filter(|at| content[*at] != 0).collect()
    }

    /// A copy of the disk's content, without planned faults.
    pub fn copy(&self) -> FaultDisk {
        self.inner.fork(0)
    }

    /// A copy of the disk as a power cut would leave it now, without planned faults. `seed` draws
    /// which unsynced data are lost.
    pub fn copy_after_power_cut(&self, seed: u64) -> FaultDisk {
        let copy = self.inner.fork(seed);
        copy.crash();
        copy
    }

    /// Tells the watch that an entry is about to be written. The index may have belonged to another
    /// entry before a crash.
    pub fn announce(&self, index: u64, payload: &Bytes) {
        let mut watch = self.watch.borrow_mut();
        let progress = Progress::Announced;
        watch.entries.insert(index, Watched { payload: payload.clone(), progress });
        if !watch.unsynced.contains(&index) {
            watch.unsynced.push(index);
        }
    }

    /// Whether a completed sync covers the entry.
    pub fn is_synced(&self, index: u64) -> bool {
        let watch = self.watch.borrow();
        watch.entries.get(&index).is_some_and(|watched| watched.progress == Progress::Synced)
    }

    /// Whether a completed sync covers an entry with these bytes.
    pub fn has_synced(&self, index: u64, payload: &Bytes) -> bool {
        let watch = self.watch.borrow();
        let watched = watch.entries.get(&index);
        watched.is_some_and(|it| it.progress == Progress::Synced && it.payload == *payload)
    }

    /// Completed syncs since the last call.
    pub fn take_sync_count(&self) -> u64 {
        core::mem::take(&mut self.watch.borrow_mut().sync_count)
    }
}

fn named(inner: io::Result<FaultFile>, path: &str) -> io::Result<SimFile> {
    Ok(SimFile { inner: inner?, path: path.to_string() })
}

impl Disk for SimDisk {
    type File = SimFile;

    fn open(&self, path: &str) -> io::Result<SimFile> {
        named(self.inner.open(path), path)
    }

    fn open_read_only(&self, path: &str) -> io::Result<SimFile> {
        named(self.inner.open_read_only(path), path)
    }

    fn create(&self, path: &str) -> io::Result<SimFile> {
        named(self.inner.create(path), path)
    }

    fn create_new(&self, path: &str) -> io::Result<SimFile> {
        named(self.inner.create_new(path), path)
    }

    fn open_or_create(&self, path: &str) -> io::Result<SimFile> {
        named(self.inner.open_or_create(path), path)
    }

    fn len(&self, file: &SimFile) -> io::Result<u64> {
        self.inner.len(&file.inner)
    }

    fn read_at(&self, file: &SimFile, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read_at(&file.inner, offset, buffer)
    }

    fn write_at(&self, file: &SimFile, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.inner.write_at(&file.inner, offset, bytes)?;
        self.watch.borrow_mut().on_write(&file.path, bytes);
        Ok(())
    }

    fn write_blocks_at(&self, file: &SimFile, offset: u64, blocks: &[u8]) -> io::Result<()> {
        self.inner.write_blocks_at(&file.inner, offset, blocks)?;
        self.watch.borrow_mut().on_write(&file.path, blocks);
        Ok(())
    }

    fn preallocate(&self, file: &SimFile, bytes: u64) -> io::Result<()> {
        self.inner.preallocate(&file.inner, bytes)
    }

    fn truncate(&self, file: &SimFile, bytes: u64) -> io::Result<()> {
        self.inner.truncate(&file.inner, bytes)
    }

    fn punch(&self, file: &SimFile, offset: u64, bytes: u64) -> io::Result<()> {
        self.inner.punch(&file.inner, offset, bytes)
    }

    fn sync_data(&self, file: &SimFile) -> io::Result<()> {
        self.inner.sync_data(&file.inner)?;
        self.watch.borrow_mut().on_sync(&file.path);
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.inner.remove(path)
    }

    fn remove_dir(&self, dir: &str) -> io::Result<()> {
        self.inner.remove_dir(dir)
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.inner.list(dir)
    }

    fn create_dir(&self, dir: &str) -> io::Result<()> {
        self.inner.create_dir(dir)
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        self.inner.sync_dir(dir)
    }

    fn exists(&self, path: &str) -> io::Result<bool> {
        self.inner.exists(path)
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.inner.free_bytes()
    }

    fn lock(&self, path: &str) -> io::Result<SimFile> {
        named(self.inner.lock(path), path)
    }

    fn lock_existing(&self, path: &str) -> io::Result<SimFile> {
        named(self.inner.lock_existing(path), path)
    }
}

#[cfg(test)]
mod tests;
