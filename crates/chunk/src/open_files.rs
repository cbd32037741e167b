//! The files that are kept open, of which there are so many and no more.

use std::io;
use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;
use storage::disk::is_out_of_descriptors;

use crate::block::BlockId;

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKey {
    /// A segment of the log, to be read.
    Segment(u32),
    /// The file of a block, to be written.
    Block(BlockId),
    /// The file of a block, to be read.
    BlockToRead(BlockId),
}

/// Open files by what they are. One that somebody uses stays open for as long, whatever happens
/// here.
#[derive(Debug)]
pub struct OpenFiles<F> {
    count_max: usize,
    files: Mutex<Files<F>>,
}

#[derive(Debug)]
struct Files<F> {
    open: HashMap<FileKey, Used<F>, foldhash::fast::FixedState>,
    /// What is being opened now, by whom: one for each thread at most.
    opening: Vec<(FileKey, u64)>,
    /// Counts uses.
    now: u64,
}

#[derive(Debug)]
struct Used<F> {
    file: Arc<F>,
    last: u64,
}

impl<F> OpenFiles<F> {
    /// None yet, and never more than `count_max`, which is at least 4.
    pub fn new(count_max: usize) -> OpenFiles<F> {
        let open = HashMap::with_hasher(foldhash::fast::FixedState::default());
        let files = Files { open, opening: Vec::new(), now: 0 };
        OpenFiles { count_max: count_max.max(4), files: Mutex::new(files) }
    }

    /// The file of that key, which is opened if it is not open. Where the process has no descriptor
    /// left for it, others are closed.
    pub fn get(&self, key: FileKey, open: impl Fn() -> io::Result<F>) -> io::Result<Arc<F>> {
        let mut files = self.files.lock();
        files.now += 1;
        let now = files.now;
        if let Some(used) = files.open.get_mut(&key) {
            used.last = now;
            return Ok(Arc::clone(&used.file));
        }
        // The lock is not kept while a file is opened: two who want the same one open it twice.
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

    /// Keeps what was opened, unless it was forgotten meanwhile. Gives what is closed for it, to be
    /// dropped without the lock.
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

    /// Closes a file, if it is open; who is opening it uses it once.
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
