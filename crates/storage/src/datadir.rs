//! The data directory: who we are, whose it is, and that only one process uses it.
//!
//! ```text
//! LOCK        held while a server runs
//! identity    cluster id and member id; written last at birth, so it says that the birth ended
//! boot        how many times a server has started here
//! snapshots/  see snapshot
//! wal/        see wal
//! ```
//!
//! A directory is born with a snapshot at index 1, term 1, which holds the cluster id and the first
//! voters, and a log that goes on behind it. A birth that crashed leaves no identity and is done
//! again from the start, for which small files are written whole: temporary name, sync, rename, sync
//! the directory. The count in `boot` is kept in place, in two slots written in turn, so that a
//! start needs no room on the disk.
//!
//! Byte layouts: `docs/formats.md`, "The data directory".

use std::io;

use crate::codec::{DecodeError, Reader};
use crate::disk::Disk;
use crate::error::StorageError;
use crate::limits::SMALL_FILE_BYTES_MAX;
use crate::record::{HardState, Membership, SnapshotPoint};
use crate::snapshot::{self, SNAPSHOT_DIR, SnapshotMeta, SnapshotWriter};
use crate::wal::{self, WAL_DIR, Wal, WalOptions};

/// The lock file.
pub const LOCK_FILE: &str = "LOCK";

/// The file that says who we are.
pub const IDENTITY_FILE: &str = "identity";

/// The file that counts starts.
pub const BOOT_FILE: &str = "boot";

/// Version of the formats of `identity` and `boot`, and of the directory as a whole.
pub const DATADIR_FORMAT_VERSION: u32 = 1;

/// Where a new directory's log begins: its snapshot covers this one entry, which never existed.
pub const BIRTH_POINT: SnapshotPoint = SnapshotPoint { index: 1, term: 1 };

/// The hard state that a new directory's log begins with.
const BIRTH_STATE: HardState =
    HardState { term: BIRTH_POINT.term, vote: 0, commit: BIRTH_POINT.index };

/// Where each of the two slots of `boot` starts. They are 4 KiB apart, so that no sector of any size
/// holds both.
pub const BOOT_SLOT_OFFSETS: [usize; 2] = [0, 4096];

/// Bytes of a slot of `boot`.
pub const BOOT_SLOT_BYTES: usize = 28;

const BOOT_FILE_BYTES: usize = SMALL_FILE_BYTES_MAX as usize;

const IDENTITY_MAGIC: &[u8; 8] = b"QUORIDNT";
const BOOT_MAGIC: &[u8; 8] = b"QUORBOOT";

/// Who a data directory belongs to. Drawn by the caller, once, and never changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The same for all members of an ensemble. No secret.
    pub cluster_id: u128,
    /// This directory's raft id; never used by another directory, and not 0.
    pub member_id: u64,
}

/// What [`open`] found. Either way the directory is locked.
#[derive(Debug)]
pub enum Opened<D: Disk> {
    /// A directory that was born.
    Existing(DataDir<D>),
    /// One that was not, or not to the end.
    Empty(EmptyDir<D>),
}

/// A directory that was born, locked as long as this lives.
#[derive(Debug)]
pub struct DataDir<D: Disk> {
    disk: D,
    _lock: D::File,
    identity: Identity,
}

/// A directory to be born, locked as long as this lives.
#[derive(Debug)]
pub struct EmptyDir<D: Disk> {
    disk: D,
    lock: D::File,
}

/// Locks the directory that is `disk`'s root and says what it is. At the start, before anything
/// else. Leaves a directory that is not ours as it is.
pub fn open<D: Disk>(disk: D) -> Result<Opened<D>, StorageError> {
    if !exists(&disk, IDENTITY_FILE)? {
        refuse_zookeeper(&disk)?;
    }
    let lock = disk.lock(LOCK_FILE).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => StorageError::InUse { file: LOCK_FILE.to_owned() },
        _ => StorageError::io(LOCK_FILE, "lock", error),
    })?;
    if !exists(&disk, IDENTITY_FILE)? {
        refuse_lost_identity(&disk)?;
        return Ok(Opened::Empty(EmptyDir { disk, lock }));
    }
    let bytes = read_small(&disk, IDENTITY_FILE)?;
    check_version(IDENTITY_FILE, &bytes)?;
    let identity = decode_identity(&bytes);
    let identity = identity.map_err(|error| at(IDENTITY_FILE, error))?;
    snapshot::remove_temporaries(&disk)?;
    // A process that was killed before it synced these left names that a loss of power takes back.
    sync_root(&disk)?;
    let synced = disk.sync_dir(SNAPSHOT_DIR);
    synced.map_err(|error| StorageError::io(SNAPSHOT_DIR, "sync", error))?;
    Ok(Opened::Existing(DataDir { disk, _lock: lock, identity }))
}

impl<D: Disk> DataDir<D> {
    /// Who we are.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Counts this start, durably, and returns its number: larger than at any start before. Called
    /// once, before anything is sent to anybody.
    pub fn next_boot(&self) -> Result<u64, StorageError> {
        let found = read_boot(&self.disk)?;
        // A slot that does not check, because it was torn or is damaged, may have held the start
        // behind the one that the other holds: that number is left out.
        let step = if found.is_whole { 1 } else { 2 };
        let boot = found.count.checked_add(step).expect("nobody starts a server 2^64 times");
        let io = |op| move |error| StorageError::io(BOOT_FILE, op, error);
        let file = self.disk.open(BOOT_FILE).map_err(io("open"))?;
        let offset = BOOT_SLOT_OFFSETS[1 - found.position] as u64;
        self.disk.write_at(&file, offset, &encode_boot(boot)).map_err(io("write"))?;
        self.disk.sync_data(&file).map_err(io("sync"))?;
        Ok(boot)
    }
}

impl<D: Disk + Clone> EmptyDir<D> {
    /// Gives birth: snapshot, log, and at last the identity. `image_pieces` is the state machine's
    /// first image. A crash before this returns leaves a directory that is still empty, or one that
    /// is born.
    pub fn birth(
        self,
        identity: Identity,
        membership: &Membership,
        image_pieces: &[Vec<u8>],
        options: &WalOptions,
    ) -> Result<DataDir<D>, StorageError> {
        assert!(identity.member_id != 0, "0 means nobody");
        let disk = &self.disk;
        let made = disk.create_dir(SNAPSHOT_DIR);
        made.map_err(|error| StorageError::io(SNAPSHOT_DIR, "create", error))?;
        sync_root(disk)?;
        write_small(disk, BOOT_FILE, &encode_boot_file())?;
        snapshot::remove_temporaries(disk)?;
        let meta = SnapshotMeta {
            index: BIRTH_POINT.index,
            term: BIRTH_POINT.term,
            cluster_id: identity.cluster_id,
            membership: membership.clone(),
        };
        let mut writer = SnapshotWriter::create(disk.clone(), &meta)?;
        for piece in image_pieces {
            writer.write_piece(piece)?;
        }
        writer.finish()?;
        Wal::create(disk, options, BIRTH_STATE, membership, BIRTH_POINT)?;
        write_small(disk, IDENTITY_FILE, &encode_identity(&identity))?;
        Ok(DataDir { disk: self.disk, _lock: self.lock, identity })
    }
}

/// ZooKeeper keeps its files in `version-2` (`FileTxnSnapLog`, ZooKeeper 3.9). A `myid` file or
/// anything else beside them says nothing about whose directory it is.
fn refuse_zookeeper<D: Disk>(disk: &D) -> Result<(), StorageError> {
    let names = match disk.list("version-2") {
        Ok(names) => names,
        Err(error) if is_no_directory(&error) => return Ok(()),
        Err(error) => return Err(StorageError::io("version-2", "list", error)),
    };
    let is_theirs = |name: &&String| name.starts_with("log.") || name.starts_with("snapshot.");
    match names.iter().find(is_theirs) {
        Some(name) => Err(StorageError::ForeignZooKeeper { file: format!("version-2/{name}") }),
        None => Ok(()),
    }
}

fn is_no_directory(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// A directory without an identity is born anew, which destroys what is in it. So it must hold
/// nothing but the beginnings of a birth: no start was counted, no snapshot but the first, and a log
/// without anything in it. Each is looked at by itself, because whoever loses one file may have lost
/// others: a backup of the log alone must not be wiped.
fn refuse_lost_identity<D: Disk>(disk: &D) -> Result<(), StorageError> {
    let lost = |why: &str| StorageError::corrupt(IDENTITY_FILE, 0, format!("it is missing, {why}"));
    if exists(disk, BOOT_FILE)? && read_boot(disk)?.count > 0 {
        return Err(lost("and servers have started here"));
    }
    if exists(disk, SNAPSHOT_DIR)? {
        let snapshots = snapshot::list(disk)?;
        if snapshots.iter().any(|it| it.index > BIRTH_POINT.index) {
            return Err(lost("and there are snapshots"));
        }
    }
    if exists(disk, WAL_DIR)? && wal::was_used(disk, BIRTH_STATE, BIRTH_POINT)? {
        return Err(lost("and there is a log"));
    }
    Ok(())
}

fn exists<D: Disk>(disk: &D, path: &str) -> Result<bool, StorageError> {
    let found = disk.exists(path);
    found.map_err(|error| StorageError::io(path, "look for", error))
}

fn sync_root<D: Disk>(disk: &D) -> Result<(), StorageError> {
    let synced = disk.sync_dir("");
    synced.map_err(|error| StorageError::io("the data directory", "sync", error))
}

fn at(file: &str, error: DecodeError) -> StorageError {
    StorageError::corrupt(file, error.offset as u64, error.what)
}

/// What the `boot` file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BootCount {
    /// Starts counted so far.
    pub count: u64,
    /// The slot that says so; the other is written next.
    pub position: usize,
    /// Whether the other slot checks too.
    pub is_whole: bool,
}

pub(crate) fn read_boot<D: Disk>(disk: &D) -> Result<BootCount, StorageError> {
    let bytes = read_small(disk, BOOT_FILE)?;
    let slot = |offset: usize| bytes.get(offset..offset.saturating_add(BOOT_SLOT_BYTES));
    let slots = BOOT_SLOT_OFFSETS.map(|offset| decode_boot(slot(offset).unwrap_or(&[])));
    let (count, position) = match slots {
        [Ok(first), Ok(second)] if second > first => (second, 1),
        [Ok(first), _] => (first, 0),
        [Err(_), Ok(second)] => (second, 1),
        [Err(error), Err(_)] => {
            check_version(BOOT_FILE, &bytes)?;
            return Err(at(BOOT_FILE, error));
        }
    };
    Ok(BootCount { count, position, is_whole: slots.iter().all(Result::is_ok) })
}

/// Refuses a file of a newer version. The version stands behind the magic in every file of ours.
pub(crate) fn check_version(file: &str, bytes: &[u8]) -> Result<(), StorageError> {
    let mut reader = Reader::new(bytes);
    let version = reader.take(8).and_then(|_| reader.u32());
    match version.map_err(|error| at(file, error))? {
        version if version > DATADIR_FORMAT_VERSION => Err(StorageError::UnknownFormat {
            file: file.to_owned(),
            version,
            version_max: DATADIR_FORMAT_VERSION,
        }),
        _ => Ok(()),
    }
}

/// Reads a file of at most [`SMALL_FILE_BYTES_MAX`] bytes.
pub(crate) fn read_small<D: Disk>(disk: &D, path: &str) -> Result<Vec<u8>, StorageError> {
    let file = disk.open_read_only(path);
    let file = file.map_err(|error| StorageError::io(path, "open", error))?;
    let length = disk.len(&file);
    let length = length.map_err(|error| StorageError::io(path, "measure", error))?;
    if length > SMALL_FILE_BYTES_MAX {
        return Err(StorageError::corrupt(path, length, "the file is too long"));
    }
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
    let read = disk.read_at(&file, 0, &mut bytes);
    let count = read.map_err(|error| StorageError::io(path, "read", error))?;
    bytes.truncate(count);
    Ok(bytes)
}

/// Writes a small file, durably and whole, in place of what has the name.
fn write_small<D: Disk>(disk: &D, path: &str, bytes: &[u8]) -> Result<(), StorageError> {
    let temporary = format!("{path}.tmp");
    let io = |op: &'static str| {
        let temporary = temporary.clone();
        move |error| StorageError::io(&temporary, op, error)
    };
    let file = disk.create(&temporary).map_err(io("create"))?;
    disk.write_at(&file, 0, bytes).map_err(io("write"))?;
    disk.sync_data(&file).map_err(io("sync"))?;
    drop(file);
    disk.rename(&temporary, path).map_err(io("rename"))?;
    sync_root(disk)
}

fn seal_small(magic: &[u8; 8], body: &[u8]) -> Vec<u8> {
    let mut out = magic.to_vec();
    out.extend_from_slice(&DATADIR_FORMAT_VERSION.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(body);
    let crc = crc32c::crc32c(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    out
}

/// Checks magic, version and checksum, and returns a reader of the body of `body_bytes` bytes.
fn unseal_small<'a>(
    bytes: &'a [u8],
    magic: &[u8; 8],
    body_bytes: usize,
) -> Result<Reader<'a>, DecodeError> {
    let mut reader = Reader::new(bytes);
    if reader.take(8)? != magic {
        return Err(reader.bad("the magic number is wrong"));
    }
    if reader.u32()? != DATADIR_FORMAT_VERSION {
        return Err(reader.bad("the format version is unknown"));
    }
    reader.zeros(4)?;
    let body = Reader::new(reader.take(body_bytes)?);
    let covered = Reader::new(bytes).take(body_bytes.saturating_add(16))?;
    if reader.u32()? != crc32c::crc32c(covered) {
        return Err(reader.bad("the checksum does not match"));
    }
    reader.finish()?;
    Ok(body)
}

/// Encodes the `identity` file.
pub fn encode_identity(identity: &Identity) -> Vec<u8> {
    let mut body = identity.cluster_id.to_le_bytes().to_vec();
    body.extend_from_slice(&identity.member_id.to_le_bytes());
    seal_small(IDENTITY_MAGIC, &body)
}

/// Reads the `identity` file.
pub fn decode_identity(bytes: &[u8]) -> Result<Identity, DecodeError> {
    let mut reader = unseal_small(bytes, IDENTITY_MAGIC, 24)?;
    let identity = Identity { cluster_id: reader.u128()?, member_id: reader.u64()? };
    match identity.member_id {
        0 => Err(reader.bad("the member id is 0")),
        _ => Ok(identity),
    }
}

/// The `boot` file of a new directory, at its full size: no later write needs room.
fn encode_boot_file() -> Vec<u8> {
    let mut out = vec![0; BOOT_FILE_BYTES];
    for offset in BOOT_SLOT_OFFSETS {
        out[offset..offset + BOOT_SLOT_BYTES].copy_from_slice(&encode_boot(0));
    }
    out
}

/// Encodes a slot of the `boot` file.
pub fn encode_boot(boot: u64) -> Vec<u8> {
    seal_small(BOOT_MAGIC, &boot.to_le_bytes())
}

/// Reads a slot of the `boot` file, of [`BOOT_SLOT_BYTES`] bytes.
pub fn decode_boot(bytes: &[u8]) -> Result<u64, DecodeError> {
    unseal_small(bytes, BOOT_MAGIC, 8)?.u64()
}

#[cfg(test)]
mod tests;
