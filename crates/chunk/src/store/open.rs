//! Opening a store: its identity, its log, and what files were left that nothing names.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};
use parking_lot::{Mutex, RwLock};
use storage::codec::{DecodeError, Reader};
use storage::disk::Disk;

use crate::block::{BlockId, decode_block};
use crate::checkpoint::{
    Entry, INDEX_DIR, checkpoint_bytes, checkpoint_path, list_checkpoints, read_checkpoint,
    remove_checkpoint,
};
use crate::container::{Commit, Container, Index, State, decode_container};
use crate::crc::crc32c;
use crate::direct::DirectWrites;
use crate::error::ChunkError;
use crate::extents::Extent;
use crate::layout::{Layout, container_dirs};
use crate::limits::{BLOCK_BYTES, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN};
use crate::log::Log;
use crate::open_files::OpenFiles;
use crate::record::{Header, Kind, Position};
use crate::scan::{Damage, Scanned, list_segments, read_fully, scan};
use crate::segment::{FIRST_RECORD, LOG_DIR, segment_path};
use crate::store::upkeep::Upkeep;
use crate::store::{Store, StoreOptions, uuid_text};

/// The file that says that a directory is a store, and which.
const IDENTITY_NAME: &str = "store";
const IDENTITY_TEMPORARY: &str = "store.tmp";
const LOCK_NAME: &str = "lock";
const IDENTITY_MAGIC: &[u8; 8] = b"QUORCHNK";
const IDENTITY_BYTES: usize = 32;
const IDENTITY_VERSION: u32 = 1;

type Containers = HashMap<u64, Arc<Container>, FixedState>;

impl<D: Disk + Clone> Store<D> {
    /// Opens the store in the root of `disk`, or makes one there if there is nothing. One process
    /// at a time; what it finds damaged it says ([`Store::damage`]), and goes on.
    pub fn open(disk: D, options: StoreOptions) -> Result<Store<D>, ChunkError> {
        check_options(&options)?;
        let lock = disk.lock(LOCK_NAME);
        let lock = lock.map_err(|error| ChunkError::io(LOCK_NAME, "lock", error))?;
        let store_id = identify(&disk, options.new_store_id)?;
        let loaded = Loaded::read(&disk, store_id)?;
        for at in &loaded.bad_checkpoints {
            remove_checkpoint(&disk, *at)?;
        }
        seal(&disk, &loaded.scanned)?;
        remove_orphans(&disk, &cluster_id(store_id), &loaded.containers)?;
        Store::of(disk, options, store_id, loaded, Some(lock))
    }

    /// As [`Store::open`], of a store that is there: none is made.
    pub fn open_existing(disk: D, options: StoreOptions) -> Result<Store<D>, ChunkError> {
        read_identity(&disk)?;
        Store::open(disk, options)
    }

    /// The store in the root of `disk` as it is now, which another process may have open. Nothing
    /// is changed by it, and nothing may be written to it.
    pub(super) fn open_to_look(disk: D) -> Result<Store<D>, ChunkError> {
        let store_id = read_identity(&disk)?;
        let loaded = Loaded::read(&disk, store_id)?;
        Store::of(disk, StoreOptions::default(), store_id, loaded, None)
    }

    fn of(
        disk: D,
        options: StoreOptions,
        store_id: u128,
        loaded: Loaded,
        lock: Option<D::File>,
    ) -> Result<Store<D>, ChunkError> {
        let Loaded { containers, checkpoints, scanned, mut damage, .. } = loaded;
        damage.extend(scanned.damage);
        let last = checkpoints.last().map(|at| checkpoint_bytes(&disk, *at));
        let upkeep = Upkeep::new(checkpoints, last.transpose()?.unwrap_or_default());
        Ok(Store {
            log: Log::new(disk.clone(), store_id, options.segment_bytes, scanned.end),
            files: OpenFiles::new(options.open_files_max),
            direct: DirectWrites::default(),
            gathering: Mutex::default(),
            containers: RwLock::new(containers),
            damage,
            upkeep: Mutex::new(upkeep),
            has_garbage: AtomicBool::new(false),
            _lock: lock,
            disk,
            options,
            store_id,
            cluster_id: cluster_id(store_id),
        })
    }
}

fn cluster_id(store_id: u128) -> String {
    format!("CID-{}", uuid_text(store_id))
}

/// What there is, read.
struct Loaded {
    containers: Containers,
    /// Those that may be begun with, sorted: the last one was.
    checkpoints: Vec<Position>,
    /// Those that are damaged.
    bad_checkpoints: Vec<Position>,
    scanned: Scanned,
    /// Of the checkpoints; that of the log is with what was scanned.
    damage: Vec<Damage>,
}

impl Loaded {
    fn read<D: Disk>(disk: &D, store_id: u128) -> Result<Loaded, ChunkError> {
        let cluster_id = cluster_id(store_id);
        let mut replay = Replay { containers: Containers::default(), cluster_id: &cluster_id };
        let (mut damage, mut bad_checkpoints) = (Vec::new(), Vec::new());
        let mut checkpoints = list_checkpoints(disk)?;
        while let Some(at) = checkpoints.last().copied() {
            let mut last = None;
            let put = &mut |entry| replay.put(entry, &mut last);
            let Err(what) = read_checkpoint(disk, store_id, at, put)? else { break };
            let what = format!("{}: {what}", checkpoint_path(at));
            damage.push(Damage { start: at, end: at, what });
            bad_checkpoints.extend(checkpoints.pop());
            replay.containers.clear();
        }
        let first = list_segments(disk)?.first().copied();
        let first = first.map(|segment| Position { segment, offset: FIRST_RECORD });
        let scanned = match checkpoints.last().copied().or(first) {
            Some(start) => {
                scan(disk, store_id, start, &mut |header, body| replay.take(header, body))?
            }
            None => Scanned { end: Position::default(), damage: Vec::new(), beyond: Vec::new() },
        };
        let containers = replay.containers;
        Ok(Loaded { containers, checkpoints, bad_checkpoints, scanned, damage })
    }
}

fn check_options(options: &StoreOptions) -> Result<(), ChunkError> {
    let bytes = options.segment_bytes;
    let is_good = (SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&bytes)
        && bytes.is_multiple_of(BLOCK_BYTES);
    match is_good {
        true => Ok(()),
        false => Err(ChunkError::BadStore {
            file: LOG_DIR.to_owned(),
            what: format!(
                "a segment of {bytes} bytes is not one of whole blocks between \
                 {SEGMENT_BYTES_MIN} and {SEGMENT_BYTES_MAX}"
            ),
        }),
    }
}

/// The id of the store that is there.
fn read_identity<D: Disk>(disk: &D) -> Result<u128, ChunkError> {
    let io = |op| move |error| ChunkError::io(IDENTITY_NAME, op, error);
    let file = disk.open_read_only(IDENTITY_NAME).map_err(io("open"))?;
    let mut bytes = [0; IDENTITY_BYTES + 1];
    let count = read_fully(disk, &file, 0, &mut bytes).map_err(io("read"))?;
    decode_identity(&bytes[..count]).map_err(|error| ChunkError::BadStore {
        file: IDENTITY_NAME.to_owned(),
        what: error.to_string(),
    })
}

/// The id of the store that is there, or of the one that is made now.
fn identify<D: Disk>(disk: &D, new_id: Option<u128>) -> Result<u128, ChunkError> {
    let io = |op| move |error| ChunkError::io(IDENTITY_NAME, op, error);
    if disk.exists(IDENTITY_NAME).map_err(io("find"))? {
        return read_identity(disk);
    }
    let ours = [LOCK_NAME, IDENTITY_TEMPORARY, LOG_DIR, INDEX_DIR];
    let names = disk.list("").map_err(io("look for"))?;
    if let Some(foreign) = names.iter().find(|name| !ours.contains(&name.as_str())) {
        return Err(ChunkError::BadStore {
            file: foreign.clone(),
            what: "the directory is no chunk store, and is not empty".to_owned(),
        });
    }
    let store_id = new_id.unwrap_or_else(drawn_id);
    for dir in [LOG_DIR, INDEX_DIR] {
        disk.create_dir(dir).map_err(|error| ChunkError::io(dir, "create", error))?;
        let names = disk.list(dir).map_err(|error| ChunkError::io(dir, "list", error))?;
        if let Some(name) = names.first() {
            // With another id all of it would be another store's, and be removed.
            return Err(ChunkError::BadStore {
                file: IDENTITY_NAME.to_owned(),
                what: format!("it is missing, and {dir}/{name} is of a store"),
            });
        }
    }
    let file = disk.create(IDENTITY_TEMPORARY).map_err(io("create"))?;
    disk.write_at(&file, 0, &encode_identity(store_id)).map_err(io("write"))?;
    disk.sync_data(&file).map_err(io("sync"))?;
    disk.rename(IDENTITY_TEMPORARY, IDENTITY_NAME).map_err(io("rename"))?;
    disk.sync_dir("").map_err(io("sync"))?;
    Ok(store_id)
}

/// An id that no other store has. The standard library's hasher is seeded by the system.
fn drawn_id() -> u128 {
    use std::hash::{BuildHasher, Hasher};
    let draw = || u128::from(std::hash::RandomState::new().build_hasher().finish());
    (draw() << 64) | draw()
}

/// The identity of a store as it is written.
pub fn encode_identity(store_id: u128) -> Vec<u8> {
    let mut out = IDENTITY_MAGIC.to_vec();
    out.extend_from_slice(&IDENTITY_VERSION.to_le_bytes());
    out.extend_from_slice(&store_id.to_le_bytes());
    let crc = crc32c(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    out
}

/// Reads the identity of a store.
pub fn decode_identity(bytes: &[u8]) -> Result<u128, DecodeError> {
    let mut reader = Reader::new(bytes);
    let covered = Reader::new(bytes).take(IDENTITY_BYTES - 4)?;
    if reader.take(IDENTITY_MAGIC.len())? != IDENTITY_MAGIC {
        return Err(reader.bad("this is not the identity of a chunk store"));
    }
    let version = reader.u32()?;
    let store_id = reader.u128()?;
    if reader.u32()? != crc32c(covered) {
        return Err(reader.bad("the checksum does not match"));
    }
    reader.finish()?;
    match version {
        IDENTITY_VERSION => Ok(store_id),
        _ => Err(reader.bad("the store was made by a later version")),
    }
}

/// Makes what was read durable, which a killed process may not have done, and gives back what lies
/// behind the end of the log.
fn seal<D: Disk>(disk: &D, scanned: &Scanned) -> Result<(), ChunkError> {
    for number in &scanned.beyond {
        let path = segment_path(*number);
        disk.remove(&path).map_err(|error| ChunkError::io(&path, "remove", error))?;
    }
    let end = scanned.end;
    if end == Position::default() {
        return Ok(());
    }
    for number in list_segments(disk)? {
        let path = segment_path(number);
        let io = |op| move |error| ChunkError::io(&segment_path(number), op, error);
        let file = disk.open_or_create(&path).map_err(io("open"))?;
        if number == end.segment {
            let bytes = end.offset.next_multiple_of(BLOCK_BYTES);
            let length = disk.len(&file).map_err(io("read"))?;
            if length > bytes.into() {
                disk.truncate(&file, bytes.into()).map_err(io("truncate"))?;
            }
        }
        disk.sync_data(&file).map_err(io("sync"))?;
    }
    disk.sync_dir(LOG_DIR).map_err(|error| ChunkError::io(LOG_DIR, "sync", error))
}

/// Removes the folders of containers that were deleted when the process ended.
fn remove_orphans<D: Disk>(
    disk: &D,
    cluster_id: &str,
    containers: &Containers,
) -> Result<(), ChunkError> {
    let [_, _, current, ..] = container_dirs(cluster_id, 0);
    let list = |dir: &str| match disk.list(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other.map_err(|error| ChunkError::io(dir, "list", error)),
    };
    let known: HashSet<&str, FixedState> =
        containers.values().map(|container| container.path.as_str()).collect();
    for many in list(&current)? {
        for container in list(&format!("{current}/{many}"))? {
            let path = format!("{current}/{many}/{container}/chunks");
            if !known.contains(path.as_str()) {
                super::containers::remove_folder(disk, &path)?;
            }
        }
    }
    Ok(())
}

/// The index as the log makes it.
struct Replay<'a> {
    containers: Containers,
    cluster_id: &'a str,
}

impl Replay<'_> {
    /// An entry of a checkpoint. `last` is the container of the blocks that follow.
    fn put(&mut self, entry: Entry, last: &mut Option<Arc<Container>>) {
        match entry {
            Entry::Container(id, layout, index) => {
                let container = Arc::new(self.container(id, layout, index));
                *last = Some(Arc::clone(&container));
                self.containers.insert(id, container);
            }
            Entry::Block(local_id, block) => {
                let Some(container) = last else { return };
                container.index.lock().put_block(local_id, block);
            }
        }
    }

    fn container(&self, id: u64, layout: Layout, index: Index) -> Container {
        let path = match layout.has_files() {
            true => container_dirs(self.cluster_id, id)[5].clone(),
            false => String::new(),
        };
        let index = Index { has_unknown_files: layout.has_files(), ..index };
        Container::new(id, layout, path, index)
    }

    /// One record; without its body if that is damaged.
    fn take(&mut self, header: &Header, body: Option<&[u8]>) -> Result<(), ChunkError> {
        match (header.kind, body) {
            (Kind::Container, Some(body)) => return self.take_container(header, body),
            (Kind::ContainerDeleted, _) => {
                self.containers.remove(&header.container_id);
                return Ok(());
            }
            (Kind::Nothing, _) => return Ok(()),
            _ => {}
        }
        // What is about a container that is not there was followed by its deletion.
        let Some(container) = self.containers.get(&header.container_id) else { return Ok(()) };
        let mut index = container.index.lock();
        let local_id = header.local_id;
        match header.kind {
            Kind::Chunk => {
                let (offset, bytes) = (header.block_offset, header.body_bytes);
                index.put_extent(local_id, Extent::of_record(offset, header.at, bytes));
            }
            Kind::Block => {
                let commit = commit_of(header, body)?;
                if container.layout.has_files() {
                    index.grow(local_id, commit.length);
                }
                index.put_commit(local_id, commit);
            }
            Kind::BlockFinalized => {
                if let Some(block) = index.blocks.get_mut(&local_id) {
                    block.is_finalized = true;
                }
            }
            Kind::BlockDeleted => drop(index.remove_block(local_id)),
            // What the container was is damaged, or what it became.
            Kind::Container | Kind::ContainerDeleted | Kind::Nothing => {
                index.state = State::Unhealthy;
            }
        }
        Ok(())
    }

    fn take_container(&mut self, header: &Header, body: &[u8]) -> Result<(), ChunkError> {
        let (layout, index) = decode_container(body).map_err(|error| unreadable(header, &error))?;
        let id = header.container_id;
        if let Some(container) = self.containers.get(&id) {
            let Index { state, metadata, replica_index, .. } = index;
            let mut known = container.index.lock();
            (known.state, known.metadata, known.replica_index) = (state, metadata, replica_index);
            return Ok(());
        }
        let container = Arc::new(self.container(id, layout, index));
        self.containers.insert(id, container);
        Ok(())
    }
}

/// A commit as its record says it. One that is damaged is known to be there: whoever asks for the
/// block is told.
fn commit_of(header: &Header, body: Option<&[u8]>) -> Result<Commit, ChunkError> {
    let (container_id, local_id) = (header.container_id, header.local_id);
    let id = BlockId { container_id, local_id };
    let block = body.map(|body| decode_block(id, body).map_err(|error| unreadable(header, &error)));
    let block = block.transpose()?;
    Ok(Commit {
        at: header.at,
        body_bytes: header.body_bytes,
        length: block.as_ref().map_or(0, |block| block.length()),
        commit_sequence_id: block.map_or(0, |block| block.commit_sequence_id),
    })
}

/// A record that is whole and makes no sense was written by another version.
fn unreadable(header: &Header, error: &DecodeError) -> ChunkError {
    let file = segment_path(header.at.segment);
    ChunkError::BadStore { file, what: format!("{} cannot be read: {error}", header.at) }
}
