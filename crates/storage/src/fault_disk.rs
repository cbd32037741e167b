//! A disk in memory that loses what was not synced, and fails on demand.
//!
//! The simulator uses this disk, and so do tests of `storage`, `member` and `chunk`. Each file has
//! its bytes as programs see them (`visible`), its bytes as they would survive a power cut
//! (`durable`), and the list of changes between the two. The names of files have the same three
//! forms. One seed drives all randomness, so a failure can be repeated.
//!
//! [`FaultDisk::crash`] cuts the power. It decides about each unsynced change to a file
//! independently: it keeps the change, loses it, or keeps a random set of the 512-byte sectors of a
//! write (a torn write). Of the unsynced changes to the names in a directory, it keeps a random
//! prefix. That is the weakest promise of any journaling file system.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::rc::Rc;

use crate::disk::Disk;
use crate::limits::DIRECT_BLOCK_BYTES;

/// Bytes that a disk writes either completely or not at all.
pub const SECTOR_BYTES: u64 = 512;

/// A small random generator (splitmix64) for tests and faults: equal seeds give equal numbers.
#[derive(Clone, Debug)]
pub struct Chance {
    state: u64,
}

impl Chance {
    /// A generator that starts from `seed`.
    pub fn new(seed: u64) -> Chance {
        Chance { state: seed }
    }

    /// The next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below `bound`, which must not be 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.bits() % bound
    }
}

/// Kinds of operations, to count them and to fail the n-th of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// `open`, `open_read_only`, and `open_or_create` of an existing file.
    Open,
    /// `read_at`, `len`, `list`, `exists`, `free_bytes`.
    Read,
    /// `create`, and `create_new` and `open_or_create` of a new file.
    Create,
    /// `write_at`, `write_blocks_at`.
    Write,
    /// `preallocate`.
    Preallocate,
    /// `truncate`.
    Truncate,
    /// `punch`.
    Punch,
    /// `sync_data`.
    Sync,
    /// `rename`.
    Rename,
    /// `remove`, `remove_dir`.
    Remove,
    /// `create_dir`.
    CreateDir,
    /// `sync_dir`.
    SyncDir,
    /// `lock`.
    Lock,
}

impl Operation {
    /// Whether the operation can change the disk or make something durable. [`FaultDisk::ops`]
    /// counts only such operations, because tests crash at each of them. A crash between two
    /// operations that change nothing is like a crash before both.
    fn is_change(self) -> bool {
        !matches!(self, Operation::Open | Operation::Read)
    }
}

/// Faults that will happen. The default has none.
#[derive(Clone, Debug, Default)]
pub struct FaultPlan {
    /// The operation with this number (counted from 0, as in [`FaultDisk::ops`]) and all later ones
    /// fail. That operation may still take effect; its effect is not synced, so a crash may undo
    /// it.
    pub stop_at: Option<u64>,
    /// The n-th operation of a kind (from 0, counted since the plan was set) fails once.
    pub fail: Vec<(Operation, u64)>,
    /// Like `fail`, but with [`io::ErrorKind::StorageFull`] and without effect. A file system may
    /// return that for any operation that needs a disk block, even for a rename into a full
    /// directory.
    pub full: Vec<(Operation, u64)>,
    /// Like `fail`, but with EMFILE, the error of a process that has as many files open as it may.
    /// Any operation that opens a file or a directory may return that.
    pub no_descriptor: Vec<(Operation, u64)>,
    /// Bytes that all files together may have; a write or preallocation that would need more fails
    /// with [`io::ErrorKind::StorageFull`]. `None` means no limit.
    pub bytes_max: Option<u64>,
    /// Whether syncs report success without making anything durable.
    pub syncs_lie: bool,
    /// Duration of each sync in microseconds of virtual time. [`FaultDisk::take_sync_delay_us`]
    /// returns the sum, for the simulator.
    pub sync_delay_us: u64,
}

#[derive(Clone, Debug)]
enum Change {
    Write { offset: u64, bytes: Vec<u8> },
    Length(u64),
}

#[derive(Clone, Debug, Default)]
struct Content {
    visible: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<Change>,
    /// Numbers of blocks that were punched. A punched block takes no disk space while it is all
    /// zeros.
    punched: BTreeSet<u64>,
}

impl Content {
    /// Disk space that the file takes, in bytes.
    fn room(&self) -> u64 {
        let bytes = self.visible.len() as u64;
        let is_hole = |block: &&u64| {
            let start = usize::try_from(**block * DIRECT_BLOCK_BYTES).unwrap_or(usize::MAX);
            let all = self.visible.get(start..start + DIRECT_BLOCK_BYTES as usize);
            all.is_some_and(|all| all.iter().all(|byte| *byte == 0))
        };
        bytes - self.punched.iter().filter(is_hole).count() as u64 * DIRECT_BLOCK_BYTES
    }
}

#[derive(Clone, Debug)]
enum NameChange {
    Link { name: String, inode: u64 },
    Directory { name: String },
    Rename { from: String, to: String },
    Remove { name: String },
    RemoveDirectory { name: String },
}

/// The files and directories of the whole disk, by full path; a file has an inode number.
#[derive(Clone, Debug, Default)]
struct Names {
    files: BTreeMap<String, u64>,
    directories: BTreeSet<String>,
}

impl Names {
    fn apply(&mut self, change: &NameChange) {
        match change {
            NameChange::Link { name, inode } => {
                self.files.insert(name.clone(), *inode);
            }
            NameChange::Directory { name } => {
                self.directories.insert(name.clone());
            }
            NameChange::Rename { from, to } => {
                if let Some(inode) = self.files.remove(from) {
                    self.files.insert(to.clone(), inode);
                } else if self.directories.contains(from) {
                    self.move_directory(from, to);
                }
            }
            NameChange::Remove { name } => {
                self.files.remove(name);
            }
            NameChange::RemoveDirectory { name } => {
                self.directories.remove(name);
            }
        }
    }

    fn move_directory(&mut self, from: &str, to: &str) {
        let moved = |path: String| moved_path(&path, from, to).unwrap_or(path);
        self.directories = core::mem::take(&mut self.directories).into_iter().map(moved).collect();
        let files = core::mem::take(&mut self.files).into_iter();
        self.files = files.map(|(path, inode)| (moved(path), inode)).collect();
    }
}

impl NameChange {
    /// The change with its paths adjusted to a moved directory.
    fn after_move(self, from: &str, to: &str) -> NameChange {
        let moved = |path: String| moved_path(&path, from, to).unwrap_or(path);
        match self {
            NameChange::Link { name, inode } => NameChange::Link { name: moved(name), inode },
            NameChange::Directory { name } => NameChange::Directory { name: moved(name) },
            NameChange::Rename { from, to } => {
                NameChange::Rename { from: moved(from), to: moved(to) }
            }
            NameChange::Remove { name } => NameChange::Remove { name: moved(name) },
            NameChange::RemoveDirectory { name } => {
                NameChange::RemoveDirectory { name: moved(name) }
            }
        }
    }
}

/// The new form of a path when directory `from` is renamed to `to`; `None` if the path is outside.
fn moved_path(path: &str, from: &str, to: &str) -> Option<String> {
    let rest = path.strip_prefix(from)?;
    (rest.is_empty() || rest.starts_with('/')).then(|| format!("{to}{rest}"))
}

#[derive(Debug)]
struct State {
    chance: Chance,
    contents: BTreeMap<u64, Content>,
    inode_next: u64,
    visible: Names,
    durable: Names,
    unsynced_names: Vec<(String, NameChange)>,
    locks: BTreeMap<String, u64>,
    lock_next: u64,
    /// How often the process was killed or the power was cut. A handle keeps the number from when
    /// it was opened, and fails once the numbers differ.
    life: u64,
    plan: FaultPlan,
    counts: BTreeMap<Operation, u64>,
    ops: u64,
    sync_count: u64,
    sync_delay_us: u64,
    bytes_written: u64,
}

/// A disk in memory. Clones share the content.
#[derive(Clone, Debug)]
pub struct FaultDisk {
    state: Rc<RefCell<State>>,
}

/// A file of a [`FaultDisk`].
#[derive(Debug)]
pub struct FaultFile {
    inode: u64,
    life: u64,
    writable: bool,
    lock: Option<LockGuard>,
}

#[derive(Debug)]
struct LockGuard {
    disk: FaultDisk,
    path: String,
    token: u64,
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        let mut state = self.disk.state.borrow_mut();
        if state.locks.get(&self.path) == Some(&self.token) {
            state.locks.remove(&self.path);
        }
    }
}

/// The decision on an operation that may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begin {
    Go,
    /// The operation takes effect, but the caller gets an error: the machine is going down.
    GoAndFail,
}

impl FaultDisk {
    /// An empty disk; `seed` drives its faults.
    pub fn new(seed: u64) -> FaultDisk {
        FaultDisk {
            state: Rc::new(RefCell::new(State {
                chance: Chance::new(seed),
                contents: BTreeMap::new(),
                inode_next: 1,
                visible: Names::default(),
                durable: Names::default(),
                unsynced_names: Vec::new(),
                locks: BTreeMap::new(),
                lock_next: 1,
                life: 0,
                plan: FaultPlan::default(),
                counts: BTreeMap::new(),
                ops: 0,
                sync_count: 0,
                sync_delay_us: 0,
                bytes_written: 0,
            })),
        }
    }

    /// Sets the faults that will happen, and restarts the count of each kind at 0.
    pub fn set_plan(&self, plan: FaultPlan) {
        let mut state = self.state.borrow_mut();
        state.plan = plan;
        state.counts.clear();
    }

    /// Number of operations so far that changed the disk or made something durable.
    pub fn ops(&self) -> u64 {
        self.state.borrow().ops
    }

    /// Number of operations of that kind since the plan was set.
    pub fn count(&self, operation: Operation) -> u64 {
        self.state.borrow().counts.get(&operation).copied().unwrap_or(0)
    }

    /// Number of successful `sync_data` calls so far.
    pub fn sync_count(&self) -> u64 {
        self.state.borrow().sync_count
    }

    /// Bytes passed to `write_at` so far.
    pub fn bytes_written(&self) -> u64 {
        self.state.borrow().bytes_written
    }

    /// Virtual microseconds that syncs took since the last call.
    pub fn take_sync_delay_us(&self) -> u64 {
        core::mem::take(&mut self.state.borrow_mut().sync_delay_us)
    }

    /// Cuts the power: each change that no completed sync covers is kept, lost or torn at random.
    /// Open files and locks become invalid. The plan is cleared.
    pub fn crash(&self) {
        self.state.borrow_mut().crash();
    }

    /// Kills the process: everything written stays visible, and what was not durable still is not.
    /// Open files and locks become invalid. The plan is cleared.
    pub fn kill(&self) {
        self.state.borrow_mut().end_life();
    }

    /// An independent copy of the disk as it is now, whose faults `seed` drives. Locks and open
    /// files stay with the original.
    pub fn fork(&self, seed: u64) -> FaultDisk {
        let copy = FaultDisk::new(seed);
        {
            let state = self.state.borrow();
            let mut other = copy.state.borrow_mut();
            other.contents = state.contents.clone();
            other.inode_next = state.inode_next;
            other.visible = state.visible.clone();
            other.durable = state.durable.clone();
            other.unsynced_names = state.unsynced_names.clone();
        }
        copy
    }

    /// All visible bytes of a file, or `None` if it does not exist. Not counted as an operation.
    pub fn content(&self, path: &str) -> Option<Vec<u8>> {
        let state = self.state.borrow();
        let inode = state.visible.files.get(path)?;
        state.contents.get(inode).map(|file| file.visible.clone())
    }

    /// Replaces a file's bytes, durably, like damage from outside. Not counted as an operation.
    pub fn set_content(&self, path: &str, bytes: Vec<u8>) {
        let mut state = self.state.borrow_mut();
        let inode = match state.visible.files.get(path) {
            Some(inode) => *inode,
            None => {
                let inode = state.new_inode();
                state.visible.files.insert(path.to_owned(), inode);
                inode
            }
        };
        state.durable.files.insert(path.to_owned(), inode);
        let content = Content { visible: bytes.clone(), durable: bytes, ..Content::default() };
        state.contents.insert(inode, content);
    }

    /// Replaces the whole content with that of another disk, durably, as a person would who
    /// restores a copy. Not counted as an operation; no process may use the disk meanwhile.
    pub fn set_all(&self, copy: &FaultDisk) {
        let copy = copy.state.borrow();
        let mut state = self.state.borrow_mut();
        let whole = |content: &Content| {
            let visible = content.visible.clone();
            Content { durable: visible.clone(), visible, ..Content::default() }
        };
        let contents = copy.contents.iter();
        state.contents = contents.map(|(inode, content)| (*inode, whole(content))).collect();
        state.inode_next = state.inode_next.max(copy.inode_next);
        state.visible = copy.visible.clone();
        state.durable = copy.visible.clone();
        state.unsynced_names.clear();
    }

    /// Removes a file, durably, like damage from outside. Not counted as an operation.
    pub fn lose_file(&self, path: &str) {
        let mut state = self.state.borrow_mut();
        state.visible.files.remove(path);
        state.durable.files.remove(path);
    }

    /// Removes a directory and everything in it, durably, as a person would; an empty path means
    /// the whole disk. Not counted as an operation; no process may use the disk meanwhile.
    pub fn lose_tree(&self, path: &str) {
        let is_in = |name: &str| path.is_empty() || moved_path(name, path, "").is_some();
        let mut state = self.state.borrow_mut();
        let State { visible, durable, unsynced_names, .. } = &mut *state;
        for names in [visible, durable] {
            names.files.retain(|name, _| !is_in(name));
            names.directories.retain(|name| !is_in(name));
        }
        unsynced_names.retain(|(_, change)| {
            let (NameChange::Link { name, .. }
            | NameChange::Directory { name }
            | NameChange::Remove { name }
            | NameChange::RemoveDirectory { name }
            | NameChange::Rename { to: name, .. }) = change;
            !is_in(name)
        });
    }

    /// Paths of all visible files, sorted. Not counted as an operation.
    pub fn paths(&self) -> Vec<String> {
        self.state.borrow().visible.files.keys().cloned().collect()
    }
}

impl State {
    fn new_inode(&mut self) -> u64 {
        let inode = self.inode_next;
        self.inode_next += 1;
        self.contents.insert(inode, Content::default());
        inode
    }

    fn end_life(&mut self) {
        self.life += 1;
        self.locks.clear();
        self.plan = FaultPlan::default();
        self.counts.clear();
    }

    fn crash(&mut self) {
        self.end_life();
        let chance = &mut self.chance;
        for content in self.contents.values_mut() {
            for change in core::mem::take(&mut content.unsynced) {
                keep_lose_or_tear(chance, &mut content.durable, &change);
            }
            content.visible = content.durable.clone();
        }
        self.crash_names();
        let live: BTreeSet<u64> = self.durable.files.values().copied().collect();
        self.contents.retain(|inode, _| live.contains(inode));
    }

    fn crash_names(&mut self) {
        let changes = core::mem::take(&mut self.unsynced_names);
        let directories: BTreeSet<String> = changes.iter().map(|(dir, _)| dir.clone()).collect();
        for directory in directories {
            let of_it = changes.iter().filter(|(dir, _)| *dir == directory);
            let kept = self.chance.below(of_it.clone().count() as u64 + 1);
            for (_, change) in of_it.take(kept as usize) {
                self.durable.apply(change);
            }
        }
        // Without its directory, a file or directory is lost, too.
        let directories = self.durable.directories.clone();
        let has_parent =
            |path: &str| path.match_indices('/').all(|(end, _)| directories.contains(&path[..end]));
        self.durable.directories.retain(|path| has_parent(path));
        self.durable.files.retain(|path, _| has_parent(path));
        self.visible = self.durable.clone();
    }

    fn begin(&mut self, operation: Operation) -> io::Result<Begin> {
        let number = self.ops;
        if operation.is_change() {
            self.ops += 1;
        }
        let count = self.counts.entry(operation).or_insert(0);
        let nth = *count;
        *count += 1;
        if let Some(stop) = self.plan.stop_at {
            if number > stop {
                return Err(io::Error::other("the machine is down"));
            }
            if number == stop && operation.is_change() {
                return Ok(Begin::GoAndFail);
            }
        }
        if self.plan.full.contains(&(operation, nth)) {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        if self.plan.no_descriptor.contains(&(operation, nth)) {
            return Err(rustix::io::Errno::MFILE.into());
        }
        match self.plan.fail.contains(&(operation, nth)) {
            true => Err(io::Error::other("injected fault")),
            false => Ok(Begin::Go),
        }
    }

    fn content_of(&mut self, file: &FaultFile) -> io::Result<&mut Content> {
        if file.life != self.life {
            return Err(io::Error::other("the file was opened before the crash"));
        }
        let content = self.contents.get_mut(&file.inode);
        content.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    /// Like Linux's page cache: a failed sync marks the pages clean. They stay visible, no later
    /// sync writes them, and some of them may have reached the disk.
    fn fail_sync(&mut self, file: &FaultFile) {
        let mut chance = self.chance.clone();
        if let Ok(content) = self.content_of(file) {
            for change in core::mem::take(&mut content.unsynced) {
                keep_lose_or_tear(&mut chance, &mut content.durable, &change);
            }
        }
        self.chance = chance;
    }

    fn need_parent(&self, path: &str) -> io::Result<()> {
        match path.rsplit_once('/') {
            Some((parent, _)) if !self.visible.directories.contains(parent) => {
                Err(io::Error::from(io::ErrorKind::NotFound))
            }
            _ => Ok(()),
        }
    }

    fn change_names(&mut self, directory: &str, change: NameChange) {
        self.visible.apply(&change);
        self.unsynced_names.push((directory.to_owned(), change));
    }

    /// Moves the unsynced changes within a renamed directory to its new name.
    fn move_unsynced(&mut self, from: &str, to: &str) {
        let changes = core::mem::take(&mut self.unsynced_names);
        self.unsynced_names.extend(changes.into_iter().map(|(dir, change)| {
            match moved_path(&dir, from, to) {
                Some(moved) => (moved, change.after_move(from, to)),
                None => (dir, change),
            }
        }));
    }

    /// Fails if the plan's `bytes_max` does not allow `file` to grow to `bytes`.
    fn need_room(&mut self, file: &FaultFile, bytes: u64) -> io::Result<()> {
        let Some(bytes_max) = self.plan.bytes_max else {
            return Ok(());
        };
        let linked: BTreeSet<u64> = self.visible.files.values().copied().collect();
        let others: u64 = linked
            .iter()
            .filter(|inode| **inode != file.inode)
            .filter_map(|inode| self.contents.get(inode))
            .map(Content::room)
            .sum();
        let now = self.content_of(file)?.visible.len() as u64;
        match bytes > now && others.saturating_add(bytes) > bytes_max {
            true => Err(io::Error::from(io::ErrorKind::StorageFull)),
            false => Ok(()),
        }
    }

    fn link_new(&mut self, path: &str) -> u64 {
        let inode = self.new_inode();
        let change = NameChange::Link { name: path.to_owned(), inode };
        self.change_names(parent_of(path), change);
        inode
    }
}

fn parent_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

fn write_into(bytes: &mut Vec<u8>, offset: u64, data: &[u8]) {
    let start = usize::try_from(offset).expect("files in memory are small");
    let end = start + data.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[start..end].copy_from_slice(data);
}

fn apply_change(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write { offset, bytes: data } => write_into(bytes, *offset, data),
        Change::Length(length) => {
            let length = usize::try_from(*length).expect("files in memory are small");
            if length / 2 <= bytes.len() {
                bytes.resize(length, 0);
                return;
            }
            // Reserved space is hardly ever written: fresh zeros from the system cost nothing.
            let mut longer = vec![0; length];
            longer[..bytes.len()].copy_from_slice(bytes);
            *bytes = longer;
        }
    }
}

fn keep_lose_or_tear(chance: &mut Chance, durable: &mut Vec<u8>, change: &Change) {
    match (chance.below(3), change) {
        (0, _) => {}
        (1, _) | (_, Change::Length(_)) => apply_change(durable, change),
        (_, Change::Write { offset, bytes }) => tear(chance, durable, *offset, bytes),
    }
}

/// Keeps a random set of the sectors of a write.
fn tear(chance: &mut Chance, durable: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    let end = offset + bytes.len() as u64;
    let mut start = offset;
    while start < end {
        let sector_end = (start / SECTOR_BYTES + 1) * SECTOR_BYTES;
        let stop = sector_end.min(end);
        if chance.below(2) == 0 {
            let data = &bytes[(start - offset) as usize..(stop - offset) as usize];
            write_into(durable, start, data);
        }
        start = stop;
    }
}

/// The result of an operation that took effect: an error if the machine goes down.
fn finish<T>(begin: Begin, value: T) -> io::Result<T> {
    match begin {
        Begin::Go => Ok(value),
        Begin::GoAndFail => Err(io::Error::other("the machine goes down")),
    }
}

impl FaultDisk {
    fn open_as(&self, path: &str, writable: bool) -> io::Result<FaultFile> {
        let mut state = self.state.borrow_mut();
        state.begin(Operation::Open)?;
        let inode = state.visible.files.get(path).copied();
        Ok(FaultFile {
            inode: inode.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?,
            life: state.life,
            writable,
            lock: None,
        })
    }
}

impl Disk for FaultDisk {
    type File = FaultFile;

    fn open(&self, path: &str) -> io::Result<FaultFile> {
        self.open_as(path, true)
    }

    fn open_read_only(&self, path: &str) -> io::Result<FaultFile> {
        self.open_as(path, false)
    }

    fn create(&self, path: &str) -> io::Result<FaultFile> {
        let mut state = self.state.borrow_mut();
        let begin = state.begin(Operation::Create)?;
        state.need_parent(path)?;
        let inode = match state.visible.files.get(path).copied() {
            Some(inode) => {
                let content = state.contents.get_mut(&inode).expect("linked files exist");
                content.visible.clear();
                content.unsynced.push(Change::Length(0));
                inode
            }
            None => state.link_new(path),
        };
        let file = FaultFile { inode, life: state.life, writable: true, lock: None };
        finish(begin, file)
    }

    fn create_new(&self, path: &str) -> io::Result<FaultFile> {
        let is_there = self.state.borrow().visible.files.contains_key(path);
        match is_there {
            true => Err(io::ErrorKind::AlreadyExists.into()),
            false => self.create(path),
        }
    }

    fn open_or_create(&self, path: &str) -> io::Result<FaultFile> {
        let is_there = self.state.borrow().visible.files.contains_key(path);
        if is_there { self.open(path) } else { self.create(path) }
    }

    fn len(&self, file: &FaultFile) -> io::Result<u64> {
        let mut state = self.state.borrow_mut();
        state.begin(Operation::Read)?;
        Ok(state.content_of(file)?.visible.len() as u64)
    }

    fn read_at(&self, file: &FaultFile, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut state = self.state.borrow_mut();
        state.begin(Operation::Read)?;
        let content = state.content_of(file)?;
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = content.visible.get(start..).unwrap_or(&[]);
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn write_at(&self, file: &FaultFile, offset: u64, bytes: &[u8]) -> io::Result<()> {
        assert!(file.writable, "a file opened for reading was written");
        let mut state = self.state.borrow_mut();
        let begin = state.begin(Operation::Write)?;
        state.need_room(file, offset + bytes.len() as u64)?;
        state.bytes_written += bytes.len() as u64;
        let change = Change::Write { offset, bytes: bytes.to_vec() };
        let content = state.content_of(file)?;
        apply_change(&mut content.visible, &change);
        content.unsynced.push(change);
        finish(begin, ())
    }

    fn write_blocks_at(&self, file: &FaultFile, offset: u64, blocks: &[u8]) -> io::Result<()> {
        let place = blocks.as_ptr() as u64;
        let is_whole = |at: u64| at.is_multiple_of(DIRECT_BLOCK_BYTES);
        let are_whole = [offset, blocks.len() as u64, place].into_iter().all(is_whole);
        assert!(are_whole, "what is not whole blocks was written as if it were");
        self.write_at(file, offset, blocks)
    }

    fn preallocate(&self, file: &FaultFile, bytes: u64) -> io::Result<()> {
        assert!(file.writable, "a file opened for reading was written");
        let mut state = self.state.borrow_mut();
        let begin = state.begin(Operation::Preallocate)?;
        state.need_room(file, bytes)?;
        let content = state.content_of(file)?;
        let change = Change::Length(bytes.max(content.visible.len() as u64));
        apply_change(&mut content.visible, &change);
        content.unsynced.push(change);
        finish(begin, ())
    }

    fn truncate(&self, file: &FaultFile, bytes: u64) -> io::Result<()> {
        assert!(file.writable, "a file opened for reading was cut off");
        let mut state = self.state.borrow_mut();
        let begin = state.begin(Operation::Truncate)?;
        let content = state.content_of(file)?;
        assert!(bytes <= content.visible.len() as u64, "a file is cut off where it is");
        let change = Change::Length(bytes);
        apply_change(&mut content.visible, &change);
        content.unsynced.push(change);
        finish(begin, ())
    }

    fn punch(&self, file: &FaultFile, offset: u64, bytes: u64) -> io::Result<()> {
        assert!(file.writable, "a file opened for reading was punched");
        let mut state = self.state.borrow_mut();
        let begin = state.begin(Operation::Punch)?;
        let content = state.content_of(file)?;
        assert!(offset + bytes <= content.visible.len() as u64, "a file is punched where it is");
        let zeros = vec![0; usize::try_from(bytes).expect("files in memory are small")];
        let change = Change::Write { offset, bytes: zeros };
        apply_change(&mut content.visible, &change);
        content.unsynced.push(change);
        let first = offset.div_ceil(DIRECT_BLOCK_BYTES);
        content.punched.extend(first..(offset + bytes) / DIRECT_BLOCK_BYTES);
        finish(begin, ())
    }

    fn sync_data(&self, file: &FaultFile) -> io::Result<()> {
        let mut state = self.state.borrow_mut();
        let begin = match state.begin(Operation::Sync) {
            Ok(begin) => begin,
            Err(error) => {
                state.fail_sync(file);
                return Err(error);
            }
        };
        if begin == Begin::GoAndFail {
            return finish(begin, ());
        }
        state.sync_count += 1;
        state.sync_delay_us += state.plan.sync_delay_us;
        if state.plan.syncs_lie {
            return Ok(());
        }
        let content = state.content_of(file)?;
        for change in core::mem::take(&mut content.unsynced) {
            apply_change(&mut content.durable, &change);
        }
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let is_near = parent_of(from) == parent_of(to);
        assert!(is_near || parent_of(from).is_empty(), "only what is in the root moves elsewhere");
        let mut state = self.state.borrow_mut();
        let begin = state.begin(Operation::Rename)?;
        state.need_parent(to)?;
        let is_directory = state.visible.directories.contains(from);
        if !state.visible.files.contains_key(from) && !is_directory {
            return Err(io::Error::from(io::ErrorKind::NotFound));
        }
        if is_directory {
            state.move_unsynced(from, to);
        }
        let change = NameChange::Rename { from: from.to_owned(), to: to.to_owned() };
        state.change_names(parent_of(from), change);
        finish(begin, ())
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        let mut state = self.state.borrow_mut();
        let begin = state.begin(Operation::Remove)?;
        if !state.visible.files.contains_key(path) {
            return Err(io::Error::from(io::ErrorKind::NotFound));
        }
        let change = NameChange::Remove { name: path.to_owned() };
        state.change_names(parent_of(path), change);
        finish(begin, ())
    }

    fn remove_dir(&self, dir: &str) -> io::Result<()> {
        let mut state = self.state.borrow_mut();
        let begin = state.begin(Operation::Remove)?;
        if !state.visible.directories.contains(dir) {
            return Err(io::Error::from(io::ErrorKind::NotFound));
        }
        let mut inside = state.visible.files.keys().chain(&state.visible.directories);
        if inside.any(|path| parent_of(path) == dir) {
            return Err(io::Error::from(io::ErrorKind::DirectoryNotEmpty));
        }
        let change = NameChange::RemoveDirectory { name: dir.to_owned() };
        state.change_names(parent_of(dir), change);
        finish(begin, ())
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        let mut state = self.state.borrow_mut();
        state.begin(Operation::Read)?;
        if !dir.is_empty() && !state.visible.directories.contains(dir) {
            return Err(io::Error::from(io::ErrorKind::NotFound));
        }
        let paths = state.visible.files.keys();
        let paths = paths.chain(&state.visible.directories);
        let inside = paths.filter(|path| parent_of(path) == dir);
        let names = inside.map(|path| path.rsplit('/').next().unwrap_or(path).to_owned());
        let names: BTreeSet<String> = names.collect();
        Ok(names.into_iter().collect())
    }

    fn create_dir(&self, dir: &str) -> io::Result<()> {
        let mut state = self.state.borrow_mut();
        let begin = state.begin(Operation::CreateDir)?;
        state.need_parent(dir)?;
        if !state.visible.directories.contains(dir) {
            let name = dir.to_owned();
            state.change_names(parent_of(dir), NameChange::Directory { name });
        }
        finish(begin, ())
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        let mut state = self.state.borrow_mut();
        let begin = state.begin(Operation::SyncDir)?;
        if begin == Begin::Go && !state.plan.syncs_lie {
            let changes = core::mem::take(&mut state.unsynced_names);
            for (directory, change) in changes {
                match directory == dir {
                    true => state.durable.apply(&change),
                    false => state.unsynced_names.push((directory, change)),
                }
            }
        }
        finish(begin, ())
    }

    fn exists(&self, path: &str) -> io::Result<bool> {
        let mut state = self.state.borrow_mut();
        state.begin(Operation::Read)?;
        let names = &state.visible;
        Ok(names.files.contains_key(path) || names.directories.contains(path))
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let mut state = self.state.borrow_mut();
        state.begin(Operation::Read)?;
        let Some(bytes_max) = state.plan.bytes_max else { return Ok(u64::MAX) };
        let linked: BTreeSet<u64> = state.visible.files.values().copied().collect();
        let contents = linked.iter().filter_map(|inode| state.contents.get(inode));
        Ok(bytes_max.saturating_sub(contents.map(Content::room).sum()))
    }

    fn lock(&self, path: &str) -> io::Result<FaultFile> {
        let mut state = self.state.borrow_mut();
        let begin = state.begin(Operation::Lock)?;
        state.need_parent(path)?;
        if state.locks.contains_key(path) {
            return Err(io::Error::from(io::ErrorKind::WouldBlock));
        }
        let inode = match state.visible.files.get(path).copied() {
            Some(inode) => inode,
            None => state.link_new(path),
        };
        if begin == Begin::GoAndFail {
            return Err(io::Error::other("the machine goes down"));
        }
        Ok(self.locked(&mut state, path, inode))
    }

    fn lock_existing(&self, path: &str) -> io::Result<FaultFile> {
        let mut state = self.state.borrow_mut();
        state.begin(Operation::Open)?;
        if state.locks.contains_key(path) {
            return Err(io::Error::from(io::ErrorKind::WouldBlock));
        }
        let Some(inode) = state.visible.files.get(path).copied() else {
            return Err(io::Error::from(io::ErrorKind::NotFound));
        };
        Ok(self.locked(&mut state, path, inode))
    }
}

impl FaultDisk {
    /// The handle of a file whose lock is taken.
    fn locked(&self, state: &mut State, path: &str, inode: u64) -> FaultFile {
        let token = state.lock_next;
        state.lock_next += 1;
        state.locks.insert(path.to_owned(), token);
        FaultFile {
            inode,
            life: state.life,
            writable: true,
            lock: Some(LockGuard { disk: self.clone(), path: path.to_owned(), token }),
        }
    }
}

impl FaultFile {
    /// Whether this handle holds a lock.
    pub fn is_lock(&self) -> bool {
        self.lock.is_some()
    }
}

#[cfg(test)]
mod tests;
