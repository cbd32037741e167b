//! The store: what callers ask for, and in which order it happens.
//!
//! The path of a write: the container is found and locked; the request is checked against its state
//! and the block; the log gives the record its place ([`Log::reserve`]) and the index learns it;
//! the lock is released; the rest is written, and synced if the caller asked for that. In the
//! layouts with files the index learns the length first, and then the bytes go to the file at their
//! offset.
//!
//! Everything about containers and blocks is in the log, whatever the layout: a start reads it and
//! has the index again.
//!
//! Many threads call one store. A container's lock is held for no longer than it takes to copy a
//! small chunk, or to write a few dozen KiB that were gathered for a block's file; never while
//! anything is synced.

mod blocks;
mod checkpoints;
mod chunks;
mod containers;
mod export;
mod inspect;
mod open;
mod replay;
mod sizes;
mod upkeep;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};
use storage::disk::Disk;

use crate::chain::list_segments;
use crate::container::Container;
use crate::damage::{Damage, Notes};
use crate::direct::DirectWrites;
use crate::error::ChunkError;
use crate::identity::Identity;
use crate::layout::Layout;
use crate::limits::{
    BLOCK_BYTES_MAX_DEFAULT, CONTAINER_BYTES_MAX_DEFAULT, OPEN_FILES_MAX_DEFAULT,
    RESERVE_PAUSE_CALLS, SEGMENT_BYTES_DEFAULT,
};
use crate::live::Live;
use crate::log::Log;
use crate::open_files::OpenFiles;
use crate::record::Position;
use crate::scan::Cut;
use crate::store::replay::Containers;
use crate::store::upkeep::Upkeep;

pub use export::Exported;
pub use inspect::{Report, inspect};
pub use open::repair;
pub use upkeep::{Done, UpkeepBudget};

/// The moment when a write is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// Once the store has it. A killed process may lose chunks of the last moments whose block was
    /// not committed after them; a power failure may lose everything that no sync covered.
    #[default]
    Buffered,
    /// Once a sync made it durable that this write started.
    Synced,
    /// Once a sync made it durable that all waiting writes share. Syncs of the files of blocks and
    /// chunks are not shared.
    GroupSynced,
}

/// The stage of a write. A log that orders writes elsewhere (Ratis) brings the data first, and
/// commits them later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Stage {
    /// The data come, and are not committed yet.
    Write {
        /// The term of the entry.
        term: u64,
        /// Its index.
        index: u64,
    },
    /// The entry is committed; no data come.
    Commit {
        /// The term of the entry.
        term: u64,
        /// Its index.
        index: u64,
    },
    /// Both at once.
    #[default]
    Combined,
}

/// How a chunk is written.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteMode {
    /// The stage of the write.
    pub stage: Stage,
    /// The moment when it is answered.
    pub durability: Durability,
}

/// Settings of a store.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// The layout of containers that say nothing about it.
    pub layout: Layout,
    /// Whether data are compared with their checksums before they are written, as with Ozone's
    /// `hdds.datanode.chunk.data.validation.check`.
    pub verify_writes: bool,
    /// Bytes that a block may have.
    pub block_bytes_max: u64,
    /// Bytes that a container may have.
    pub container_bytes_max: u64,
    /// Bytes of a segment of the log, whole blocks; within [`crate::limits::SEGMENT_BYTES_MIN`] and
    /// [`crate::limits::SEGMENT_BYTES_MAX`].
    pub segment_bytes: u32,
    /// Bytes that the store may take of its disk in all; 0 is no limit. Looked at now and then: a
    /// little more may be written. At the limit chunks are refused as on a full disk.
    pub bytes_max: u64,
    /// Bytes of its disk that chunks leave free, for others who write there.
    pub free_bytes_min: u64,
    /// Files that are kept open.
    pub open_files_max: usize,
    /// The id of a store that is made; drawn if nothing is said.
    pub new_store_id: Option<u128>,
}

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        StoreOptions {
            layout: Layout::default(),
            verify_writes: false,
            block_bytes_max: BLOCK_BYTES_MAX_DEFAULT,
            container_bytes_max: CONTAINER_BYTES_MAX_DEFAULT,
            segment_bytes: SEGMENT_BYTES_DEFAULT,
            bytes_max: 0,
            free_bytes_min: 0,
            open_files_max: OPEN_FILES_MAX_DEFAULT,
            new_store_id: None,
        }
    }
}

/// An open store, which is called by many threads.
#[derive(Debug)]
pub struct Store<D: Disk> {
    disk: D,
    options: StoreOptions,
    identity: Identity,
    cluster_id: String,
    log: Log<D>,
    containers: RwLock<Containers>,
    /// The needed bytes of each segment of the log.
    live: Live,
    /// Containers that were deleted, and whose folders are not gone yet.
    deleted: Mutex<BTreeSet<u64>>,
    files: OpenFiles<D::File>,
    direct: DirectWrites,
    /// Whether chunks are refused for one of the two limits of room.
    is_over_limit: AtomicBool,
    /// Ticks until files are set aside again, after there was no room for one.
    reserve_pause: AtomicU32,
    /// Files of chunks that were written over so far.
    replaced: AtomicU64,
    /// Containers with chunks that were gathered and are not in their files.
    gathering: Mutex<BTreeSet<u64>>,
    damage: Vec<Damage>,
    notes: Notes,
    cut: Option<Cut>,
    /// Whether something is damaged that nobody has accepted: nothing is removed then.
    is_damaged: bool,
    upkeep: Mutex<Upkeep<D>>,
    /// Whether something was deleted since the last look for space to be given back.
    has_garbage: AtomicBool,
    /// Held for as long as the store is open; `None` if it is only looked at.
    _lock: Option<D::File>,
}

impl<D: Disk + Clone> Store<D> {
    /// The uuid that names this store to clients: Ozone's uuid of a datanode.
    pub fn datanode_uuid(&self) -> String {
        uuid_text(self.identity.store_id)
    }

    /// Damage and losses that were found when the store was opened.
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// Damage that earlier starts found and nobody has accepted yet ([`repair`]).
    pub fn noted_damage(&self) -> &[String] {
        self.notes.noted.as_deref().unwrap_or_default()
    }

    /// Damage that was accepted. Where it is found again, it is among [`Store::damage`], too.
    pub fn accepted_damage(&self) -> &[String] {
        &self.notes.accepted
    }

    /// Whether anything is damaged that nobody has accepted. The store serves what there is, and
    /// gives no space back.
    pub fn is_damaged(&self) -> bool {
        self.is_damaged
    }

    /// Where the log was cut off when the store was opened, if what lies behind is more than zeros.
    pub fn cut(&self) -> Option<&Cut> {
        self.cut.as_ref()
    }

    /// Whether the store takes writes.
    ///
    /// # Errors
    /// A write or a sync has failed ([`ChunkError::Stopped`]).
    pub fn check(&self) -> Result<(), ChunkError> {
        self.log.check()
    }

    /// Makes everything durable that is in the log, and writes out what was gathered for files of
    /// blocks, which only a sync of the file system makes durable.
    pub fn sync(&self) -> Result<(), ChunkError> {
        self.write_all_gathered()?;
        self.log.sync_all()
    }

    /// Syncs of the log's segments so far.
    pub fn sync_count(&self) -> u64 {
        self.log.sync_count()
    }

    /// Files that are kept open now.
    pub fn open_file_count(&self) -> usize {
        self.files.count()
    }

    /// To be called every 100 ms or so: writes out what was gathered, and makes the log's next file
    /// ready. No chunk is in the process's memory alone for longer than from one call to the next.
    pub fn tick(&self) -> Result<(), ChunkError> {
        // An error of a block is reported to the callers that ask for that block.
        let _ = self.write_all_gathered();
        self.log.flush(self.log.end())?;
        self.check_room()?;
        self.prepare_files()
    }

    /// Looks whether chunks still have room within the limits that were set.
    fn check_room(&self) -> Result<(), ChunkError> {
        let StoreOptions { bytes_max, free_bytes_min, .. } = self.options;
        let is_over = bytes_max > 0 && self.bytes()? >= bytes_max
            || free_bytes_min > 0 && self.free_bytes()? < free_bytes_min;
        self.is_over_limit.store(is_over, Ordering::Relaxed);
        Ok(())
    }

    /// Whether the disk has come by room since [`Store::tick`] looked. The store's own size is only
    /// looked at there: that takes a look at all containers.
    fn has_room_again(&self) -> Result<bool, ChunkError> {
        let StoreOptions { bytes_max, free_bytes_min, .. } = self.options;
        let has_room = bytes_max == 0 && self.free_bytes()? >= free_bytes_min;
        if has_room {
            self.is_over_limit.store(false, Ordering::Relaxed);
        }
        Ok(has_room)
    }

    /// Bytes that the store takes, about: its segments, and the files of blocks and chunks.
    pub fn bytes(&self) -> Result<u64, ChunkError> {
        let containers = self.containers.read();
        let in_files = containers.values().filter(|it| it.layout.has_files());
        let in_files: u64 = in_files.map(|container| container.index.lock().bytes_used).sum();
        let segments = list_segments(&self.disk)?.len() as u64;
        Ok(in_files.saturating_add(segments * u64::from(self.options.segment_bytes)))
    }

    fn free_bytes(&self) -> Result<u64, ChunkError> {
        self.disk.free_bytes().map_err(|error| ChunkError::io("", "ask for the room of", error))
    }

    /// Sets files aside for the log: what a full disk leaves for deletions first. What there is no
    /// room for is tried again later.
    fn prepare_files(&self) -> Result<(), ChunkError> {
        let pause = &self.reserve_pause;
        if pause.load(Ordering::Relaxed) > 0 {
            pause.fetch_sub(1, Ordering::Relaxed);
            return Ok(());
        }
        let prepared = self.log.prepare_reserve().and_then(|()| self.log.prepare_next());
        match prepared {
            Err(error) if error.is_refusal() => {
                pause.store(RESERVE_PAUSE_CALLS, Ordering::Relaxed);
                Ok(())
            }
            other => other,
        }
    }

    fn find(&self, container_id: u64) -> Result<Arc<Container>, ChunkError> {
        let containers = self.containers.read();
        let found = containers.get(&container_id).map(Arc::clone);
        found.ok_or(ChunkError::NoSuchContainer { container_id })
    }

    /// Waits until the record at `at` is as durable as asked.
    fn settle(&self, at: Position, durability: Durability) -> Result<(), ChunkError> {
        let behind = Position { offset: at.offset + 1, ..at };
        match durability {
            Durability::Buffered => Ok(()),
            Durability::Synced => self.log.sync(behind, false),
            Durability::GroupSynced => self.log.sync(behind, true),
        }
    }
}

/// An id as the text of a random uuid.
fn uuid_text(id: u128) -> String {
    let id = id & !(0xf << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
    let digits = format!("{id:032x}");
    let parts = [(0, 8), (8, 12), (12, 16), (16, 20), (20, 32)];
    parts.map(|(start, end)| &digits[start..end]).join("-")
}

#[cfg(test)]
mod tests;
