//! Opens a store: reads its identity, its checkpoint and its log, and finds out what is damaged.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use parking_lot::{Mutex, RwLock};
use storage::disk::Disk;

use crate::chain::survey;
use crate::checkpoint::{
    INDEX_DIR, checkpoint_bytes, checkpoint_path, list_checkpoints, read_checkpoint,
};
use crate::damage::{self, Damage, Notes};
use crate::direct::DirectWrites;
use crate::error::ChunkError;
use crate::identity::{Identity, LOCK_NAME, identify, read_identity};
use crate::limits::{BLOCK_BYTES, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN};
use crate::log::{Log, Resume};
use crate::open_files::OpenFiles;
use crate::record::{Header, Position};
use crate::scan::{Scanned, scan};
use crate::segment::{Head, LOG_DIR, Start, encode_head, next_path, segment_path};
use crate::store::replay::Replay;
use crate::store::upkeep::Upkeep;
use crate::store::{Store, StoreOptions, uuid_text};

impl<D: Disk + Clone> Store<D> {
    /// Opens the store in the root of `disk`, or makes one there if the directory is empty. Only
    /// one process may have it open. Damage does not prevent opening: it is reported
    /// ([`Store::damage`]) and noted, and from then on nothing is removed until the damage is
    /// accepted ([`repair`]).
    pub fn open(disk: D, options: StoreOptions) -> Result<Store<D>, ChunkError> {
        check_options(&options)?;
        let lock = lock(&disk)?;
        let identity = identify(&disk, options.new_store_id)?;
        let loaded = Loaded::read(&disk, &identity)?;
        if !loaded.damage.is_empty() {
            for dir in [LOG_DIR, INDEX_DIR] {
                disk.create_dir(dir).map_err(|error| ChunkError::io(dir, "create", error))?;
            }
            loaded.notes.note(&disk, &loaded.damage)?;
        }
        repair_heads(&disk, &loaded.half_damaged_heads)?;
        seal(&disk, &loaded.scanned)?;
        for number in &loaded.stale_next_files {
            let path = next_path(*number);
            disk.remove(&path).map_err(|error| ChunkError::io(&path, "remove", error))?;
        }
        let store = Store::of(disk, options, identity, loaded, Some(lock))?;
        store.finish_deletions()?;
        // Files are reserved before anything is written. On a full disk, a file of an earlier run
        // is taken.
        store.check_room()?;
        store.prepare_files()?;
        Ok(store)
    }

    /// Like [`Store::open`], but fails if there is no store.
    pub fn open_existing(disk: D, options: StoreOptions) -> Result<Store<D>, ChunkError> {
        read_identity(&disk)?;
        Store::open(disk, options)
    }

    /// Reads the store in the root of `disk` as it is now; another process may have it open.
    /// Changes nothing, and the result must not be written to.
    pub(super) fn open_to_look(disk: D) -> Result<Store<D>, ChunkError> {
        let identity = read_identity(&disk)?;
        let loaded = Loaded::read(&disk, &identity)?;
        Store::of(disk, StoreOptions::default(), identity, loaded, None)
    }

    fn of(
        disk: D,
        options: StoreOptions,
        identity: Identity,
        loaded: Loaded,
        lock: Option<D::File>,
    ) -> Result<Store<D>, ChunkError> {
        let Loaded { replay, checkpoints, scanned, damage, notes, next_number, .. } = loaded;
        let last = checkpoints.last().map(|at| checkpoint_bytes(&disk, *at));
        let is_damaged = notes.is_damaged(&damage);
        let upkeep = Upkeep::new(checkpoints, last.transpose()?.unwrap_or_default(), is_damaged);
        // A store that is only inspected needs no segment to write to.
        let resume = resume(&disk, &scanned, next_number, lock.is_some())?;
        Ok(Store {
            log: Log::new(disk.clone(), identity, options.segment_bytes, resume),
            files: OpenFiles::new(options.open_files_max),
            direct: DirectWrites::default(),
            gathering: Mutex::default(),
            is_over_limit: AtomicBool::new(false),
            reserve_pause: AtomicU32::new(0),
            replaced: AtomicU64::new(0),
            containers: RwLock::new(replay.containers),
            live: replay.live,
            deleted: Mutex::new(replay.deleted),
            damage,
            notes,
            cut: scanned.cut,
            upkeep: Mutex::new(upkeep),
            has_garbage: AtomicBool::new(false),
            is_damaged,
            _lock: lock,
            disk,
            options,
            identity,
            cluster_id: cluster_id(&identity),
        })
    }
}

/// Accepts the noted damage of the store in the root of `disk`, which no process may have open.
/// From its next start on, the store gives space back again. Returns the lines of the note.
pub fn repair<D: Disk>(disk: &D) -> Result<Vec<String>, ChunkError> {
    read_identity(disk)?;
    let _lock = lock(disk)?;
    damage::accept(disk)
}

fn lock<D: Disk>(disk: &D) -> Result<D::File, ChunkError> {
    disk.lock(LOCK_NAME).map_err(|error| ChunkError::io(LOCK_NAME, "lock", error))
}

fn cluster_id(identity: &Identity) -> String {
    format!("CID-{}", uuid_text(identity.store_id))
}

/// Where the log continues: in its last segment, if that is intact.
fn resume<D: Disk>(
    disk: &D,
    scanned: &Scanned,
    next_number: u32,
    is_written: bool,
) -> Result<Resume<D::File>, ChunkError> {
    let Scanned { end, goes_on, .. } = scanned;
    let segment = match goes_on.filter(|_| is_written) {
        None => None,
        Some(_) => {
            let path = segment_path(end.segment);
            let io = |op| move |error| ChunkError::io(&segment_path(end.segment), op, error);
            let file = disk.open_or_create(&path).map_err(io("open"))?;
            let bytes = disk.len(&file).map_err(io("read"))?;
            u32::try_from(bytes).ok().map(|bytes| (file, bytes))
        }
    };
    Ok(Resume { end: Start { at: *end, previous: *goes_on }, segment, next_number })
}

/// Everything that a start has read.
struct Loaded {
    replay: Replay,
    /// Positions of the intact checkpoints, sorted; this start began with the last one.
    checkpoints: Vec<Position>,
    scanned: Scanned,
    /// Heads of segments with one intact copy, each with the offset of the damaged copy.
    half_damaged_heads: Vec<(Head, usize)>,
    /// Numbers of `.next` files that are not needed: nothing was ever written to them.
    stale_next_files: Vec<u32>,
    /// Damage that this start found.
    damage: Vec<Damage>,
    /// Damage that earlier starts noted, and damage that a person accepted.
    notes: Notes,
    /// The number for the next segment.
    next_number: u32,
}

impl Loaded {
    fn read<D: Disk>(disk: &D, identity: &Identity) -> Result<Loaded, ChunkError> {
        let mut replay = Replay::new(cluster_id(identity));
        let mut damage = Vec::new();
        let notes = Notes::read(disk)?;
        let mut start = Start::FIRST;
        let mut checkpoints = or_missing(list_checkpoints(disk), INDEX_DIR, &mut damage)?;
        while let Some(at) = checkpoints.last().copied() {
            let put = &mut |entry| replay.put(entry);
            let what = match read_checkpoint(disk, identity.store_id, at, put)? {
                Ok(found) => {
                    start = found;
                    break;
                }
                Err(what) => what,
            };
            damage.push(Damage::file(checkpoint_path(at), what));
            checkpoints.pop();
            replay = Replay::new(cluster_id(identity));
        }
        let segments = or_missing(survey(disk, identity), LOG_DIR, &mut damage)?;
        let visit = &mut |header: &Header, body: Option<&[u8]>| replay.take(header, body);
        let scanned = scan(disk, identity, &segments, start, &mut damage, visit)?;
        replay.check_lost(disk, &mut damage)?;
        replay.check_segments(&segments, &mut damage);
        let next_number = segments.free_number().max(scanned.end.segment + 1);
        let (half_damaged_heads, stale_next_files) =
            (segments.half_damaged_heads(), segments.stale_next_files());
        Ok(Loaded {
            replay,
            checkpoints,
            scanned,
            half_damaged_heads,
            stale_next_files,
            damage,
            notes,
            next_number,
        })
    }
}

/// The content of a folder. If the folder is missing, an empty content, and `damage` gets an entry.
fn or_missing<T: Default>(
    found: Result<T, ChunkError>,
    dir: &str,
    damage: &mut Vec<Damage>,
) -> Result<T, ChunkError> {
    match found {
        Err(ChunkError::Io { file, error, .. })
            if file == dir && error.kind() == std::io::ErrorKind::NotFound =>
        {
            damage.push(Damage::file(file, "the folder is missing"));
            Ok(T::default())
        }
        other => other,
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

/// Writes the damaged copy of each head again.
fn repair_heads<D: Disk>(disk: &D, half_damaged_heads: &[(Head, usize)]) -> Result<(), ChunkError> {
    for (head, copy) in half_damaged_heads {
        let path = segment_path(head.number);
        let io = |op| move |error| ChunkError::io(&segment_path(head.number), op, error);
        let file = disk.open_or_create(&path).map_err(io("open"))?;
        disk.write_at(&file, *copy as u64, &encode_head(head)).map_err(io("write"))?;
        disk.sync_data(&file).map_err(io("sync"))?;
    }
    Ok(())
}

/// Syncs the segments that were read, and their folder: a killed process may have written to them
/// without a sync.
fn seal<D: Disk>(disk: &D, scanned: &Scanned) -> Result<(), ChunkError> {
    if scanned.segments.is_empty() {
        return Ok(());
    }
    for number in &scanned.segments {
        let path = segment_path(*number);
        let file = disk.open_or_create(&path);
        let file = file.map_err(|error| ChunkError::io(&path, "open", error))?;
        disk.sync_data(&file).map_err(|error| ChunkError::io(&path, "sync", error))?;
    }
    disk.sync_dir(LOG_DIR).map_err(|error| ChunkError::io(LOG_DIR, "sync", error))
}
