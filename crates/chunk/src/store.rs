//! The store: its operations, and the order of their steps.
//!
//! A write takes these steps. The container is found and locked. The request is checked against the
//! states of the container and the block. In the layout `Log`, the log gives the record its
//! position ([`Log::reserve`]), and the index records that; in the layouts with files, the index
//! records the new length of the block. The lock is released. The bytes are written, and synced if
//! the caller asked for that.
//!
//! Everything about containers and blocks is in the log, whatever the layout: a start rebuilds the
//! index from it.
//!
//! Many threads call one store. A container's lock is held while a small chunk is copied, or while
//! a few dozen KiB that were gathered for a block's file are written. The syncs of writes and
//! commits run without the lock.

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

/// When a write is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// Once the store has the write. A killed process may lose its last chunks, if their blocks
    /// were not committed after them. A power failure may lose everything that no sync covered.
    #[default]
    Buffered,
    /// Once the write is durable, after a sync that the write's own thread ran.
    Synced,
    /// Once the write is durable, after a sync that all waiting writes share. Syncs of the files of
    /// blocks and chunks are not shared.
    GroupSynced,
}

/// The stage of a write. If another log orders the writes (Ratis), a write brings its data first
/// and is committed later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Stage {
    /// The data arrive, and are not committed yet.
    Write {
        /// The term of the entry in that log.
        term: u64,
        /// The index of the entry in that log.
        index: u64,
    },
    /// The entry is committed; this call brings no data.
    Commit {
        /// The term of the entry in that log.
        term: u64,
        /// The index of the entry in that log.
        index: u64,
    },
    /// Data and commit at once.
    #[default]
    Combined,
}

/// How a chunk is written.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteMode {
    /// The stage of the write.
    pub stage: Stage,
    /// When the write is answered.
    pub durability: Durability,
}

/// Settings of a store.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// The layout of new containers that ask for none.
    pub layout: Layout,
    /// Whether data are compared with their checksums before they are written, like Ozone's
    /// `hdds.datanode.chunk.data.validation.check`.
    pub verify_writes: bool,
    /// Most bytes of a block.
    pub block_bytes_max: u64,
    /// Most bytes of a container.
    pub container_bytes_max: u64,
    /// Size of a segment of the log in bytes: a multiple of the block size, within
    /// [`crate::limits::SEGMENT_BYTES_MIN`] and [`crate::limits::SEGMENT_BYTES_MAX`].
    pub segment_bytes: u32,
    /// Most bytes of disk space for the whole store; 0 is no limit. Checked now and then, so a
    /// little more may be written. At the limit chunks are refused as on a full disk.
    pub bytes_max: u64,
    /// Bytes of the disk that chunks leave free, for others that write there.
    pub free_bytes_min: u64,
    /// Number of files that are kept open.
    pub open_files_max: usize,
    /// The id for a new store; a random one if `None`.
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

/// An open store. Many threads may call it.
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
    /// Ids of deleted containers whose folders still exist.
    deleted: Mutex<BTreeSet<u64>>,
    files: OpenFiles<D::File>,
    direct: DirectWrites,
    /// Whether chunks are refused because of `bytes_max` or `free_bytes_min`.
    is_over_limit: AtomicBool,
    /// Ticks until the store tries again to reserve files, after there was no space for one.
    reserve_pause: AtomicU32,
    /// Number of chunk files that were overwritten so far.
    replaced: AtomicU64,
    /// Ids of containers with gathered chunks that are not in their files yet.
    gathering: Mutex<BTreeSet<u64>>,
    damage: Vec<Damage>,
    notes: Notes,
    cut: Option<Cut>,
    /// Whether there is damage that nobody has accepted; nothing is removed then.
    is_damaged: bool,
    upkeep: Mutex<Upkeep<D>>,
    /// Whether something was deleted since the store last looked for space to give back.
    has_garbage: AtomicBool,
    /// The lock of the store; `None` if the store is only inspected.
    _lock: Option<D::File>,
}

impl<D: Disk + Clone> Store<D> {
    /// The uuid of this store: Ozone's uuid of a datanode.
    pub fn datanode_uuid(&self) -> String {
        uuid_text(self.identity.store_id)
    }

    /// Damage that was found when the store was opened.
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// Damage that earlier starts noted and that nobody has accepted yet ([`repair`]).
    pub fn noted_damage(&self) -> &[String] {
        self.notes.noted.as_deref().unwrap_or_default()
    }

    /// Damage that a person has accepted. If it is found again, [`Store::damage`] has it, too.
    pub fn accepted_damage(&self) -> &[String] {
        &self.notes.accepted
    }

    /// Whether there is damage that nobody has accepted. The store then serves what it has, and
    /// gives no space back.
    pub fn is_damaged(&self) -> bool {
        self.is_damaged
    }

    /// Where the log was cut off when the store was opened, if anything but zeros follows.
    pub fn cut(&self) -> Option<&Cut> {
        self.cut.as_ref()
    }

    /// Checks that the store takes writes.
    ///
    /// # Errors
    /// A write or a sync has failed ([`ChunkError::Stopped`]).
    pub fn check(&self) -> Result<(), ChunkError> {
        self.log.check()
    }

    /// Makes everything in the log durable, and writes what was gathered to the files of blocks.
    /// Only a sync of the file system makes those files durable.
    pub fn sync(&self) -> Result<(), ChunkError> {
        self.write_all_gathered()?;
        self.log.sync_all()
    }

    /// Number of syncs of the log's segments so far.
    pub fn sync_count(&self) -> u64 {
        self.log.sync_count()
    }

    /// Number of files that are open now.
    pub fn open_file_count(&self) -> usize {
        self.files.count()
    }

    /// Writes out what was gathered, and prepares the log's next file. Called every 100 ms or so,
    /// so no chunk is only in the process's memory for longer than that.
    pub fn tick(&self) -> Result<(), ChunkError> {
        // An error about a block is returned to callers that use that block.
        let _ = self.write_all_gathered();
        self.log.flush(self.log.end())?;
        self.check_room()?;
        self.prepare_files()
    }

    /// Checks whether chunks still have space within the configured limits.
    fn check_room(&self) -> Result<(), ChunkError> {
        let StoreOptions { bytes_max, free_bytes_min, .. } = self.options;
        let is_over = bytes_max > 0 && self.bytes()? >= bytes_max
            || free_bytes_min > 0 && self.free_bytes()? < free_bytes_min;
        self.is_over_limit.store(is_over, Ordering::Relaxed);
        Ok(())
    }

    /// Whether the disk has space again since [`Store::tick`] checked. Always false if the store's
    /// own size is limited: only `tick` checks that, since it takes a look at every container.
    fn has_room_again(&self) -> Result<bool, ChunkError> {
        let StoreOptions { bytes_max, free_bytes_min, .. } = self.options;
        let has_room = bytes_max == 0 && self.free_bytes()? >= free_bytes_min;
        if has_room {
            self.is_over_limit.store(false, Ordering::Relaxed);
        }
        Ok(has_room)
    }

    /// Bytes of disk space of the store, roughly: its segments, and the files of blocks and chunks.
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

    /// Prepares files for the log, first the one that is reserved for deletions. If there is no
    /// space, tries again later.
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

    /// Waits until the record at `at` is as durable as `durability` demands.
    fn settle(&self, at: Position, durability: Durability) -> Result<(), ChunkError> {
        let behind = Position { offset: at.offset + 1, ..at };
        match durability {
            Durability::Buffered => Ok(()),
            Durability::Synced => self.log.sync(behind, false),
            Durability::GroupSynced => self.log.sync(behind, true),
        }
    }
}

/// Formats an id as a random uuid.
fn uuid_text(id: u128) -> String {
    let id = id & !(0xf << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
    let digits = format!("{id:032x}");
    let parts = [(0, 8), (8, 12), (12, 16), (16, 20), (20, 32)];
    parts.map(|(start, end)| &digits[start..end]).join("-")
}

#[cfg(test)]
mod tests;
