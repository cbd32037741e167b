//! The files that are kept open, of which there are so many and no more.

use std::io;
use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKey {
    /// A segment of the log, to be read.
    Segment(u32),
    /// The file of a block.
    Block {
        /// Its container.
        container_id: u64,
        /// The block.
        local_id: u64,
    },
}

/// Open files by what they are. One that somebody uses stays open for as long, whatever happens here.
#[derive(Debug)]
pub struct OpenFiles<F> {
    count_max: usize,
    files: Mutex<Files<F>>,
}

#[derive(Debug)]
struct Files<F> {
    open: HashMap<FileKey, Used<F>, foldhash::fast::FixedState>,
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
        OpenFiles { count_max: count_max.max(4), files: Mutex::new(Files { open, now: 0 }) }
    }

    /// The file of that key, which is opened if it is not open.
    pub fn get(&self, key: FileKey, open: impl FnOnce() -> io::Result<F>) -> io::Result<Arc<F>> {
        let mut files = self.files.lock();
        files.now += 1;
        let now = files.now;
        if let Some(used) = files.open.get_mut(&key) {
            used.last = now;
            return Ok(Arc::clone(&used.file));
        }
        // The lock is not kept while a file is opened: two who want the same one open it twice.
        drop(files);
        let file = Arc::new(open()?);
        let closed = self.keep(key, Arc::clone(&file), now);
        drop(closed);
        Ok(file)
    }

    /// Gives what is closed for it, to be dropped without the lock.
    fn keep(&self, key: FileKey, file: Arc<F>, now: u64) -> Vec<Used<F>> {
        let mut files = self.files.lock();
        let mut closed = Vec::new();
        if files.open.len() >= self.count_max {
            let mut ages: Vec<u64> = files.open.values().map(|used| used.last).collect();
            let middle = ages.len() / 4;
            let (_, oldest, _) = ages.select_nth_unstable(middle);
            let oldest = *oldest;
            closed.extend(files.open.extract_if(|_, used| used.last <= oldest).map(|it| it.1));
        }
        closed.extend(files.open.insert(key, Used { file, last: now }));
        closed
    }

    /// Closes a file, if it is open.
    pub fn forget(&self, key: FileKey) {
        let closed = self.files.lock().open.remove(&key);
        drop(closed);
    }

    /// Files that are open now.
    pub fn count(&self) -> usize {
        self.files.lock().open.len()
    }
}

#[cfg(test)]
mod tests;
