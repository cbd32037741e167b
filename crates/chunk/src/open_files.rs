//! Keeps the files of blocks and segments open for reuse, up to a limit; then closes those that
//! were not used for longest.

use std::io;
use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;
use storage::disk::is_out_of_descriptors;

use crate::block::BlockId;

/// Names an open file: which file, and whether for reading or writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKey {
    /// A segment of the log, for reading.
    Segment(u32),
    /// The file of a block, for writing.
    Block(BlockId),
    /// The file of a block, for reading.
    BlockToRead(BlockId),
}

/// Open files by key. A file that is closed here stays open until its last user drops it.
#[derive(Debug)]
pub struct OpenFiles<F> {
    count_max: usize,
    files: Mutex<Files<F>>,
}

#[derive(Debug)]
struct Files<F> {
    open: HashMap<FileKey, Used<F>, foldhash::fast::FixedState>,
    /// Files that are being opened now, each with the number of the use that opens it; at most one
    /// entry for each thread.
    opening: Vec<(FileKey, u64)>,
    /// Counts uses, so that the least recently used files can be found.
    now: u64,
}

#[derive(Debug)]
struct Used<F> {
    file: Arc<F>,
    last: u64,
}

impl<F> OpenFiles<F> {
    /// Starts without files. Keeps at most `count_max`; a `count_max` below 4 counts as 4.
    pub fn new(count_max: usize) -> OpenFiles<F> {
        let open = HashMap::with_hasher(foldhash::fast::FixedState::default());
        let files = Files { open, opening: Vec::new(), now: 0 };
        OpenFiles { count_max: count_max.max(4), files: Mutex::new(files) }
    }

    /// Returns the file for a key; opens it if needed. If the process has no file descriptor left,
    /// closes other files first.
    pub fn get(&self, key: FileKey, open: impl Fn() -> io::Result<F>) -> io::Result<Arc<F>> {
        let mut files = self.files.lock();
        files.now += 1;
        let now = files.now;
        if let Some(used) = files.open.get_mut(&key) {
            used.last = now;
            return Ok(Arc::clone(&used.file));
        }
        // The lock is not held while a file is opened, so two threads may open the same file.
        files.opening.push((key, now));
        drop(files);
        let opened = match open() {
            Err(error) if is_out_of_descriptors(&error) => {
                let closed = self.files.lock().close_oldest();
                drop(closed);
                open()
            }
            other => other,
        };
        let opened = opened.map(Arc::new);
        let closed = self.keep(key, opened.as_ref().ok(), now);
        drop(closed);
        opened
    }

    /// Keeps a file that was opened, unless it was forgotten meanwhile. Returns the files that it
    /// displaced; the caller drops them without the lock.
    fn keep(&self, key: FileKey, file: Option<&Arc<F>>, now: u64) -> Vec<Used<F>> {
        let mut files = self.files.lock();
        let mut closed = Vec::new();
        let ours = files.opening.iter().position(|other| *other == (key, now));
        ours.map(|ours| files.opening.swap_remove(ours));
        let (Some(_), Some(file)) = (ours, file.cloned()) else { return closed };
        if files.open.len() >= self.count_max {
            closed = files.close_oldest();
        }
        closed.extend(files.open.insert(key, Used { file, last: now }));
        closed
    }

    /// Closes a file, if it is open. A thread that is just opening it uses it once and does not
    /// keep it.
    pub fn forget(&self, key: FileKey) {
        let closed = self.files.lock().forget(key);
        drop(closed);
    }

    /// Closes both files of a block, like [`OpenFiles::forget`].
    pub fn forget_block(&self, id: BlockId) {
        let mut files = self.files.lock();
        let closed = [FileKey::Block(id), FileKey::BlockToRead(id)].map(|key| files.forget(key));
        drop(files);
        drop(closed);
    }

    /// Number of files that are kept open.
    pub fn count(&self) -> usize {
        self.files.lock().open.len()
    }
}

impl<F> Files<F> {
    /// Removes the least recently used quarter of the files. Dropping the result closes them.
    fn close_oldest(&mut self) -> Vec<Used<F>> {
        let mut ages: Vec<u64> = self.open.values().map(|used| used.last).collect();
        if ages.is_empty() {
            return Vec::new();
        }
        let middle = ages.len() / 4;
        let (_, oldest, _) = ages.select_nth_unstable(middle);
        let oldest = *oldest;
        self.open.extract_if(|_, used| used.last <= oldest).map(|it| it.1).collect()
    }

    fn forget(&mut self, key: FileKey) -> Option<Used<F>> {
        self.opening.retain(|(other, _)| *other != key);
        self.open.remove(&key)
    }
}

#[cfg(test)]
mod tests;
