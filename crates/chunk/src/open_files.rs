//! The files that are kept open, up to a limit.

use std::io;
use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;
use storage::disk::is_out_of_descriptors;

use crate::block::BlockId;

/// The use of an open file: which file, and to read or to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKey {
    /// A segment of the log, to be read.
    Segment(u32),
    /// The file of a block, to be written.
    Block(BlockId),
    /// The file of a block, to be read.
    BlockToRead(BlockId),
}

/// Open files by their keys. A file in use stays open until its last user drops it, even if it is
/// closed here.
#[derive(Debug)]
pub struct OpenFiles<F> {
    count_max: usize,
    files: Mutex<Files<F>>,
}

#[derive(Debug)]
struct Files<F> {
    open: HashMap<FileKey, Used<F>, foldhash::fast::FixedState>,
    /// Files that are being opened now, with the number of the use that opens each; at most one
    /// entry for each thread.
    opening: Vec<(FileKey, u64)>,
    /// Counts uses, so that the oldest can be found.
    now: u64,
}

#[derive(Debug)]
struct Used<F> {
    file: Arc<F>,
    last: u64,
}

impl<F> OpenFiles<F> {
    /// No files yet, and never more than `count_max`; a smaller `count_max` than 4 counts as 4.
    pub fn new(count_max: usize) -> OpenFiles<F> {
        let open = HashMap::with_hasher(foldhash::fast::FixedState::default());
        let files = Files { open, opening: Vec::new(), now: 0 };
        OpenFiles { count_max: count_max.max(4), files: Mutex::new(files) }
    }

    /// Returns the file of that key, opened if it was not. If the process has no descriptor left,
    /// others are closed first.
    pub fn get(&self, key: FileKey, open: impl Fn() -> io::Result<F>) -> io::Result<Arc<F>> {
        let mut files = self.files.lock();
        files.now += 1;
        let now = files.now;
        if let Some(used) = files.open.get_mut(&key) {
            used.last = now;
            return Ok(Arc::clone(&used.file));
        }
        // The lock is not held while a file is opened, so two threads may open one file twice.
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

    /// Keeps a file that was opened, unless it was forgotten meanwhile. Returns the files closed in
    /// its place, for the caller to drop without the lock.
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

    /// Closes a file, if it is open. A thread that is opening it uses it once and does not keep it.
    pub fn forget(&self, key: FileKey) {
        let closed = self.files.lock().forget(key);
        drop(closed);
    }

    /// Closes the file of a block, as [`OpenFiles::forget`] does.
    pub fn forget_block(&self, id: BlockId) {
        let mut files = self.files.lock();
        let closed = [FileKey::Block(id), FileKey::BlockToRead(id)].map(|key| files.forget(key));
        drop(files);
        drop(closed);
    }

    /// Files that are open now.
    pub fn count(&self) -> usize {
        self.files.lock().open.len()
    }
}

impl<F> Files<F> {
    /// A quarter of the files, those that were used longest ago. They are closed when they are
    /// dropped.
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
