//! The data directory of a member: locks it, so that only one process uses it, reads its identity,
//! gives birth to a new one, counts the starts, and sets a corrupt one aside.
//!
//! ```text
//! LOCK          held while a server runs
//! draft         the member id that an unborn directory of an ensemble will get at its birth
//! birth         cluster id and first voters of the ensemble, for members that join
//! identity      cluster id and member id; written last, so it shows that the birth is complete
//! boot          how many times a server has started here
//! servers       the list of servers, as text
//! condemned     why this directory must not be used again
//! snapshots/    see snapshot
//! wal/          see wal
//! set-aside-N/  an earlier content of this directory, which this server gave up
//! ```
//!
//! A directory is *born* with a snapshot at index 1, term 1, which holds the cluster id and the
//! first voters, and with a log that continues behind it. If a birth crashes, there is no identity,
//! and the birth starts over. Small files are written as a whole: temporary name, sync, rename,
//! sync of the directory. Only the count in `boot` is changed in place, in two slots that are
//! written in turn, so that a start needs no new disk space.
//!
//! In an ensemble, other members learn a directory's member id before its birth. The id is drawn
//! once and kept in `draft` until the birth: a server that shows up with another id has lost its
//! directory. If the servers must agree on the birth, `draft` also holds what this server promised
//! and accepted.
//!
//! Byte layouts: `docs/formats.md`, "The data directory".

use std::io;

use crate::codec::{DecodeError, Reader, put_u64_list};
use crate::disk::Disk;
pub use crate::disk::SET_ASIDE_PREFIX;
use crate::error::StorageError;
use crate::limits::{BOOT_COUNT_MAX, MEMBERS_MAX, SET_ASIDE_MAX, SMALL_FILE_BYTES_MAX};
use crate::record::{HardState, Membership, SnapshotPoint};
use crate::snapshot::{self, SNAPSHOT_DIR, SnapshotMeta, SnapshotWriter};
use crate::wal::{self, WAL_DIR, Wal, WalOptions};

mod draft;
mod servers_file;
mod successor;

pub(crate) use draft::read_draft;
pub use draft::{Acceptor, Ballot, Draft, decode_draft, encode_draft};
pub use servers_file::{SERVERS_FILE, text_of_servers};
pub use successor::SUCCESSOR_FILE;

/// The lock file.
pub const LOCK_FILE: &str = "LOCK";

/// The file with the cluster id and the member id.
pub const IDENTITY_FILE: &str = "identity";

/// The file that counts how often a server started in this directory.
pub const BOOT_FILE: &str = "boot";

/// The file with the member id that an unborn directory will get at its birth.
pub const DRAFT_FILE: &str = "draft";

/// The file with the cluster id and the first voters of the ensemble.
pub const BIRTH_FILE: &str = "birth";

/// The file with the reason, as text, why the directory must not be used again. See [`condemn`].
pub const CONDEMNED_FILE: &str = "condemned";

/// Other names that belong in a data directory or in the log's own directory, though this crate
/// does not make them: the chunk store, the certificates that a server signs itself, the
/// configuration of a server of a local ensemble, ZooKeeper's number of the server, and what file
/// systems make in their roots.
const OTHER_NAMES: [&str; 5] = ["chunks", "fixtures", "quorate.toml", "myid", "lost+found"];

/// Version of the formats of the small files, and of the directory as a whole. A `draft` that holds
/// a vote has the next version.
pub const DATADIR_FORMAT_VERSION: u32 = 1;

/// The snapshot point where a new directory's log begins. The directory's first snapshot covers
/// index 1, but no log ever held an entry with that index.
pub const BIRTH_POINT: SnapshotPoint = SnapshotPoint { index: 1, term: 1 };

/// The point of the first snapshot of a directory that begins with a given state, for example of a
/// backup. It is behind [`BIRTH_POINT`]: a member that joins later is born with an empty state
/// there, and must get a snapshot, and not only the entries that follow.
pub const GIVEN_BIRTH_POINT: SnapshotPoint = SnapshotPoint { index: 2, term: 1 };

/// The first hard state of a directory whose first snapshot is at this point.
const fn birth_state(point: SnapshotPoint) -> HardState {
    HardState { term: point.term, vote: 0, commit: point.index }
}

/// Offsets of the two slots in `boot`. They are 4 KiB apart, so that no disk sector holds both.
pub const BOOT_SLOT_OFFSETS: [usize; 2] = [0, 4096];

/// Bytes of a slot of `boot`.
pub const BOOT_SLOT_BYTES: usize = 28;

const BOOT_FILE_BYTES: usize = SMALL_FILE_BYTES_MAX as usize;

/// The suffix of a small file's name while the file is written.
const TEMPORARY_SUFFIX: &str = ".tmp";

const IDENTITY_MAGIC: &[u8; 8] = b"QUORIDNT";
const BOOT_MAGIC: &[u8; 8] = b"QUORBOOT";
const BIRTH_MAGIC: &[u8; 8] = b"QUORBRTH";

/// Bytes that a small file has besides its body: magic, version and checksum.
const SEAL_BYTES: usize = 20;

/// Whether a name in a data directory, or in the log's own directory, is one that this server uses.
/// See [`crate::disk::RealDisk::close_to_others`].
pub fn is_own_name(name: &str) -> bool {
    let files = [LOCK_FILE, IDENTITY_FILE, BOOT_FILE, DRAFT_FILE, BIRTH_FILE, CONDEMNED_FILE];
    let stem = name.strip_suffix(TEMPORARY_SUFFIX).unwrap_or(name);
    files.contains(&stem)
        || [SERVERS_FILE, SUCCESSOR_FILE, WAL_DIR, SNAPSHOT_DIR].contains(&stem)
        || OTHER_NAMES.contains(&name)
        || name.starts_with(SET_ASIDE_PREFIX)
}

/// The ids of a data directory. The caller draws the member id once; neither id ever changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The cluster's id, equal for all members of an ensemble. Not secret.
    pub cluster_id: u128,
    /// This directory's Raft id. No other directory ever uses it; not 0.
    pub member_id: u64,
}

/// How an ensemble began. Equal in the directories of all its members, however late they joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Birth {
    /// The cluster's id, as in [`Identity`].
    pub cluster_id: u128,
    /// The ids of the members that could vote at first, ascending.
    pub voters: Vec<u64>,
}

/// The result of [`open`]. The directory is locked in both cases.
#[derive(Debug)]
pub enum Opened<D: Disk> {
    /// A directory that was born.
    Existing(DataDir<D>),
    /// A directory that was not born, or whose birth was not completed.
    Empty(EmptyDir<D>),
}

/// A directory that was born. Dropping this releases the lock.
#[derive(Debug)]
pub struct DataDir<D: Disk> {
    disk: D,
    lock: D::File,
    identity: Identity,
    birth: Birth,
}

/// A directory that is not born yet. Dropping this releases the lock.
#[derive(Debug)]
pub struct EmptyDir<D: Disk> {
    disk: D,
    lock: D::File,
}

/// Locks the directory that is the root of `disk`, and finds out whether it was born. Every start
/// calls this first.
///
/// A directory with ZooKeeper's data, and none of ours, is refused before anything in it changes.
/// Also refused is a directory that another process uses, that was condemned, or whose identity was
/// lost.
pub fn open<D: Disk + Clone>(disk: D) -> Result<Opened<D>, StorageError> {
    if !exists(&disk, IDENTITY_FILE)? {
        refuse_zookeeper(&disk)?;
    }
    let lock = take_lock(&disk)?;
    successor::settle(&disk)?;
    refuse_condemned(&disk)?;
    if !exists(&disk, IDENTITY_FILE)? {
        refuse_lost_identity(&disk)?;
        return Ok(Opened::Empty(EmptyDir { disk, lock }));
    }
    let identity = read_identity(&disk)?;
    let birth = read_birth(&disk, identity)?;
    remove_draft(&disk)?;
    snapshot::remove_temporaries(&disk)?;
    // A process that was killed before it synced these directories may have left names that a power
    // loss would undo.
    sync_root(&disk)?;
    let synced = disk.sync_dir(SNAPSHOT_DIR);
    synced.map_err(|error| StorageError::io(SNAPSHOT_DIR, "sync", error))?;
    Ok(Opened::Existing(DataDir { disk, lock, identity, birth }))
}

/// A born directory that is read. Dropping this releases the lock.
#[derive(Debug)]
pub struct ReadDir<D: Disk> {
    /// `None` if the directory has no file to lock: it is a copy, or was set aside.
    lock: Option<D::File>,
    identity: Identity,
}

/// Locks the directory that is the root of `disk`, to read it. Changes nothing in it. For the
/// directory of a server that does not come back.
///
/// # Errors
/// A process uses the directory. Or it was condemned, has no identity, or cannot be read.
pub fn open_to_read<D: Disk>(disk: &D) -> Result<ReadDir<D>, StorageError> {
    let lock = match disk.lock_existing(LOCK_FILE) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        locked => Some(locked.map_err(not_locked)?),
    };
    refuse_condemned(disk)?;
    let identity = read_identity(disk)?;
    Ok(ReadDir { lock, identity })
}

impl<D: Disk> ReadDir<D> {
    /// The directory's identity.
    pub fn identity(&self) -> Identity {
        self.identity
    }
}

/// Writes the list of servers into a directory that nobody uses, durably. `text` consists of whole
/// lines.
///
/// # Errors
/// The list cannot be written, or is too long.
pub fn keep_servers<D: Disk>(disk: &D, text: &str) -> Result<(), StorageError> {
    servers_file::keep(disk, text)
}

fn refuse_condemned<D: Disk>(disk: &D) -> Result<(), StorageError> {
    if !exists(disk, CONDEMNED_FILE)? {
        return Ok(());
    }
    let reason = String::from_utf8_lossy(&read_small(disk, CONDEMNED_FILE)?).into_owned();
    Err(StorageError::Condemned { reason })
}

/// Moves this directory's data to a new subdirectory `set-aside-N`; returns the empty directory and
/// the subdirectory's name. For a member of an ensemble, if [`open`] or recovery found its
/// directory corrupt: the other members still have the data. The lock, the file `servers` and
/// foreign files stay.
///
/// After a crash in the middle, [`open`] finds the directory unchanged, corrupt or empty. A second
/// call moves what is left to another subdirectory.
pub fn set_aside<D: Disk>(disk: D) -> Result<(EmptyDir<D>, String), StorageError> {
    let lock = take_lock(&disk)?;
    let name = move_aside(&disk)?;
    Ok((EmptyDir { disk, lock }, name))
}

/// Marks a directory in use as condemned, durably: the other members of the ensemble found that it
/// lacks, or differs from, what it should hold. `reason` is one line for people. The process should
/// end then. At the next start [`open`] refuses the directory, and the caller can set it aside.
pub fn condemn<D: Disk>(disk: &D, reason: &str) -> Result<(), StorageError> {
    assert!(reason.len() as u64 <= SMALL_FILE_BYTES_MAX);
    write_small(disk, CONDEMNED_FILE, reason.as_bytes())
}

fn take_lock<D: Disk>(disk: &D) -> Result<D::File, StorageError> {
    disk.lock(LOCK_FILE).map_err(not_locked)
}

fn not_locked(error: io::Error) -> StorageError {
    match error.kind() {
        io::ErrorKind::WouldBlock => StorageError::InUse { file: LOCK_FILE.to_owned() },
        _ => StorageError::io(LOCK_FILE, "lock", error),
    }
}

/// Moves the files. A directory without its identity belongs to no member, and [`open`] refuses it
/// as corrupt while it still holds data. So the identity is moved first, and the count of starts,
/// which proves that there was data, last.
fn move_aside<D: Disk>(disk: &D) -> Result<String, StorageError> {
    let io = |file: &str, op| {
        let file = file.to_owned();
        move |error| StorageError::io(&file, op, error)
    };
    let name = free_set_aside(disk)?;
    disk.create_dir(&name).map_err(io(&name, "create"))?;
    sync_root(disk)?;
    let between = [WAL_DIR, SNAPSHOT_DIR, BIRTH_FILE, DRAFT_FILE, CONDEMNED_FILE];
    for files in [&[IDENTITY_FILE][..], &between[..], &[BOOT_FILE][..]] {
        for file in files {
            if exists(disk, file)? {
                disk.rename(file, &format!("{name}/{file}")).map_err(io(file, "move"))?;
            }
        }
        disk.sync_dir(&name).map_err(io(&name, "sync"))?;
        sync_root(disk)?;
    }
    Ok(name)
}

fn free_set_aside<D: Disk>(disk: &D) -> Result<String, StorageError> {
    for number in 1..=SET_ASIDE_MAX {
        let name = format!("{SET_ASIDE_PREFIX}{number}");
        if !exists(disk, &name)? {
            return Ok(name);
        }
    }
    Err(StorageError::TooManySetAside { count_max: SET_ASIDE_MAX })
}

impl<D: Disk> DataDir<D> {
    /// The directory's identity.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// The beginning of the ensemble.
    pub fn birth(&self) -> &Birth {
        &self.birth
    }

    /// Like [`set_aside`], for a directory that is locked already. No file in it may be open.
    pub fn set_aside(self) -> Result<(EmptyDir<D>, String), StorageError> {
        let name = move_aside(&self.disk)?;
        Ok((EmptyDir { disk: self.disk, lock: self.lock }, name))
    }

    /// Writes the list of servers, durably. `text` consists of whole lines.
    ///
    /// # Errors
    /// The list cannot be written, or is too long.
    pub fn keep_servers(&self, text: &str) -> Result<(), StorageError> {
        servers_file::keep(&self.disk, text)
    }

    /// Counts this start durably and returns its number, which is greater than that of every
    /// earlier start. Called once, before anything is sent to other members.
    ///
    /// # Errors
    /// The count cannot be read or written, or is over [`BOOT_COUNT_MAX`].
    pub fn next_boot(&self) -> Result<u64, StorageError> {
        let found = read_boot(&self.disk)?;
        // A bad slot was torn or damaged, and may have held the number after the good slot's
        // number: so that number is skipped.
        let step = if found.is_whole { 1 } else { 2 };
        let boot = found.count.saturating_add(step);
        if boot > BOOT_COUNT_MAX {
            let offset = BOOT_SLOT_OFFSETS[found.position] as u64;
            let what = format!("{} starts are more than a server comes to", found.count);
            return Err(StorageError::corrupt(BOOT_FILE, offset, what));
        }
        let io = |op| move |error| StorageError::io(BOOT_FILE, op, error);
        let file = self.disk.open(BOOT_FILE).map_err(io("open"))?;
        let write = |position: usize| {
            let offset = BOOT_SLOT_OFFSETS[position] as u64;
            self.disk.write_at(&file, offset, &encode_boot(boot)).map_err(io("write"))?;
            self.disk.sync_data(&file).map_err(io("sync"))
        };
        write(1 - found.position)?;
        if !found.is_whole {
            // Otherwise the other slot would be two behind. If the slot just written were damaged,
            // its number would be used again.
            write(found.position)?;
        }
        Ok(boot)
    }
}

impl<D: Disk + Clone> EmptyDir<D> {
    /// Returns this directory's draft. If it has none, makes one with the member id `drawn` (not
    /// 0), durably. Called before other members learn the id.
    ///
    /// # Errors
    /// The draft cannot be read or written, or is damaged.
    pub fn draft(&self, drawn: u64) -> Result<Draft, StorageError> {
        if exists(&self.disk, DRAFT_FILE)? {
            let kept = read_draft(&self.disk)?;
            // An earlier process may have been killed before it synced the name `draft`. This
            // process will tell other members the id, so the name must be durable first.
            sync_root(&self.disk)?;
            return Ok(kept);
        }
        let drafted = Draft { member_id: drawn, acceptor: Acceptor::default() };
        self.keep_draft(&drafted)?;
        Ok(drafted)
    }

    /// Writes a draft, durably. Called before other members learn its content.
    ///
    /// # Errors
    /// The draft cannot be written. The next start finds this draft or the previous one.
    pub fn keep_draft(&self, drafted: &Draft) -> Result<(), StorageError> {
        assert!(drafted.member_id != 0, "0 means nobody");
        write_small(&self.disk, DRAFT_FILE, &encode_draft(drafted))
    }

    /// Completes the birth of this directory: writes the snapshot, the log, the birth file, and at
    /// last the identity. `image_pieces` is the state machine's first state, at `point`:
    /// [`BIRTH_POINT`], or [`GIVEN_BIRTH_POINT`]. After a crash in the middle, the birth is
    /// complete, or the next start finds the directory unborn, with its draft.
    pub fn birth(
        self,
        identity: Identity,
        membership: &Membership,
        (point, image_pieces): (SnapshotPoint, &[Vec<u8>]),
        options: &WalOptions,
    ) -> Result<DataDir<D>, StorageError> {
        let Identity { cluster_id, .. } = identity;
        let SnapshotPoint { index, term } = point;
        let meta = SnapshotMeta { index, term, cluster_id, membership: membership.clone() };
        let birth = be_born(&self.disk, identity, &meta, image_pieces, options)?;
        Ok(DataDir { disk: self.disk, lock: self.lock, identity, birth })
    }
}

/// Writes the files of a birth. See [`EmptyDir::birth`]. `meta` describes the first snapshot.
fn be_born<D: Disk + Clone>(
    disk: &D,
    identity: Identity,
    meta: &SnapshotMeta,
    image_pieces: &[Vec<u8>],
    options: &WalOptions,
) -> Result<Birth, StorageError> {
    assert!(identity.member_id != 0, "0 means nobody");
    let made = disk.create_dir(SNAPSHOT_DIR);
    made.map_err(|error| StorageError::io(SNAPSHOT_DIR, "create", error))?;
    sync_root(disk)?;
    write_small(disk, BOOT_FILE, &encode_boot_file())?;
    snapshot::remove_temporaries(disk)?;
    let mut writer = SnapshotWriter::create(disk.clone(), meta)?;
    for piece in image_pieces {
        writer.write_piece(piece)?;
    }
    writer.finish()?;
    let point = SnapshotPoint { index: meta.index, term: meta.term };
    Wal::create(disk, options, birth_state(point), &meta.membership, point)?;
    let voters = meta.membership.voters.clone();
    let birth = Birth { cluster_id: identity.cluster_id, voters };
    write_small(disk, BIRTH_FILE, &encode_birth(&birth))?;
    write_small(disk, IDENTITY_FILE, &encode_identity(&identity))?;
    remove_draft(disk)?;
    Ok(birth)
}

/// Refuses ZooKeeper's own directory, which has files in `version-2` (`FileTxnSnapLog`, ZooKeeper
/// 3.9). A `myid` file or anything else does not show whose directory it is.
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

/// Refuses to give birth in a directory that lost its identity. A birth destroys the content, so
/// there may be nothing but the beginnings of a birth: no counted start, no snapshot but the first,
/// and an empty log. Each is checked on its own, because a directory that lost one file may have
/// lost others: a backup of the log alone must not be wiped.
pub(crate) fn refuse_lost_identity<D: Disk>(disk: &D) -> Result<(), StorageError> {
    let lost = |why: &str| StorageError::corrupt(IDENTITY_FILE, 0, format!("it is missing, {why}"));
    if exists(disk, BOOT_FILE)? && read_boot(disk)?.count > 0 {
        return Err(lost("and servers have started here"));
    }
    if exists(disk, SNAPSHOT_DIR)? {
        let snapshots = snapshot::list(disk)?;
        if snapshots.iter().any(|it| it.index > GIVEN_BIRTH_POINT.index) {
            return Err(lost("and there are snapshots"));
        }
    }
    let was_used = |point| wal::was_used(disk, birth_state(point), point);
    if exists(disk, WAL_DIR)? && was_used(BIRTH_POINT)? && was_used(GIVEN_BIRTH_POINT)? {
        return Err(lost("and there is a log"));
    }
    Ok(())
}

pub(crate) fn read_identity<D: Disk>(disk: &D) -> Result<Identity, StorageError> {
    let bytes = read_small(disk, IDENTITY_FILE)?;
    check_version(IDENTITY_FILE, &bytes, DATADIR_FORMAT_VERSION)?;
    decode_identity(&bytes).map_err(|error| at(IDENTITY_FILE, error))
}

/// Reads the `birth` file. A directory older than that file began its ensemble alone.
pub(crate) fn read_birth<D: Disk>(disk: &D, identity: Identity) -> Result<Birth, StorageError> {
    let Identity { cluster_id, member_id } = identity;
    if !exists(disk, BIRTH_FILE)? {
        return Ok(Birth { cluster_id, voters: vec![member_id] });
    }
    let bytes = read_small(disk, BIRTH_FILE)?;
    check_version(BIRTH_FILE, &bytes, DATADIR_FORMAT_VERSION)?;
    let birth = decode_birth(&bytes).map_err(|error| at(BIRTH_FILE, error))?;
    match birth.cluster_id == cluster_id {
        true => Ok(birth),
        false => Err(StorageError::corrupt(BIRTH_FILE, 16, "it is of another cluster")),
    }
}

/// Removes the draft, which a born directory does not need. The removal need not be durable.
fn remove_draft<D: Disk>(disk: &D) -> Result<(), StorageError> {
    if !exists(disk, DRAFT_FILE)? {
        return Ok(());
    }
    disk.remove(DRAFT_FILE).map_err(|error| StorageError::io(DRAFT_FILE, "remove", error))
}

pub(crate) fn exists<D: Disk>(disk: &D, path: &str) -> Result<bool, StorageError> {
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

/// The content of the file `boot`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BootCount {
    /// Number of starts so far.
    pub count: u64,
    /// The slot that holds `count`; the other slot is written next.
    pub position: usize,
    /// Whether the other slot is intact, too.
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
            for offset in BOOT_SLOT_OFFSETS {
                let slot = slot(offset).unwrap_or(&[]);
                check_version(BOOT_FILE, slot, DATADIR_FORMAT_VERSION)?;
            }
            return Err(at(BOOT_FILE, error));
        }
    };
    Ok(BootCount { count, position, is_whole: slots.iter().all(Result::is_ok) })
}

/// Refuses a file, or a slot of one, whose version is above `version_max`. In every version, the
/// version number follows the magic, and the last 4 bytes are a checksum of all bytes before. If
/// the checksum does not match, the version may be damaged, too: then this lets the file pass, and
/// the decoder reports the damage.
pub(crate) fn check_version(
    file: &str,
    bytes: &[u8],
    version_max: u32,
) -> Result<(), StorageError> {
    let mut reader = Reader::new(bytes);
    let version = reader.take(8).and_then(|_| reader.u32());
    match version.map_err(|error| at(file, error))? {
        version if version > version_max && is_sealed(bytes) => {
            Err(StorageError::UnknownFormat { file: file.to_owned(), version, version_max })
        }
        _ => Ok(()),
    }
}

/// Whether the last 4 bytes are the checksum of the bytes before.
fn is_sealed(bytes: &[u8]) -> bool {
    let sealed = bytes.split_last_chunk::<4>();
    sealed.is_some_and(|(covered, crc)| crc32c::crc32c(covered).to_le_bytes() == *crc)
}

/// Reads a file of at most [`SMALL_FILE_BYTES_MAX`] bytes.
pub(crate) fn read_small<D: Disk>(disk: &D, path: &str) -> Result<Vec<u8>, StorageError> {
    read_whole(disk, path, SMALL_FILE_BYTES_MAX)
}

/// Reads a file of at most `bytes_max` bytes.
fn read_whole<D: Disk>(disk: &D, path: &str, bytes_max: u64) -> Result<Vec<u8>, StorageError> {
    let file = disk.open_read_only(path);
    let file = file.map_err(|error| StorageError::io(path, "open", error))?;
    let length = disk.len(&file);
    let length = length.map_err(|error| StorageError::io(path, "measure", error))?;
    if length > bytes_max {
        return Err(StorageError::corrupt(path, length, "the file is too long"));
    }
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
    let read = disk.read_at(&file, 0, &mut bytes);
    let count = read.map_err(|error| StorageError::io(path, "read", error))?;
    bytes.truncate(count);
    Ok(bytes)
}

/// Writes a small file durably, as a whole. Replaces a file of that name.
fn write_small<D: Disk>(disk: &D, path: &str, bytes: &[u8]) -> Result<(), StorageError> {
    let temporary = format!("{path}{TEMPORARY_SUFFIX}");
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
    seal_version(magic, DATADIR_FORMAT_VERSION, body)
}

fn seal_version(magic: &[u8; 8], version: u32, body: &[u8]) -> Vec<u8> {
    let mut out = magic.to_vec();
    out.extend_from_slice(&version.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(body);
    let crc = crc32c::crc32c(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    out
}

/// Checks magic, checksum and version. Returns a reader of the body, which has `body_bytes` bytes.
fn unseal_small<'a>(
    bytes: &'a [u8],
    magic: &[u8; 8],
    body_bytes: usize,
) -> Result<Reader<'a>, DecodeError> {
    match unseal_version(bytes, magic, body_bytes)? {
        (DATADIR_FORMAT_VERSION, body) => Ok(body),
        (_, body) => Err(body.bad("the format version is unknown")),
    }
}

/// Checks magic and checksum, and returns the version and a reader of the body.
fn unseal_version<'a>(
    bytes: &'a [u8],
    magic: &[u8; 8],
    body_bytes: usize,
) -> Result<(u32, Reader<'a>), DecodeError> {
    let mut reader = Reader::new(bytes);
    if reader.take(8)? != magic {
        return Err(reader.bad("the magic number is wrong"));
    }
    let version = reader.u32()?;
    reader.zeros(4)?;
    let body = Reader::new(reader.take(body_bytes)?);
    let covered = Reader::new(bytes).take(body_bytes.saturating_add(16))?;
    if reader.u32()? != crc32c::crc32c(covered) {
        return Err(reader.bad("the checksum does not match"));
    }
    reader.finish()?;
    Ok((version, body))
}

/// Encodes the `identity` file.
pub fn encode_identity(identity: &Identity) -> Vec<u8> {
    let mut body = identity.cluster_id.to_le_bytes().to_vec();
    body.extend_from_slice(&identity.member_id.to_le_bytes());
    seal_small(IDENTITY_MAGIC, &body)
}

/// Decodes the `identity` file.
pub fn decode_identity(bytes: &[u8]) -> Result<Identity, DecodeError> {
    let mut reader = unseal_small(bytes, IDENTITY_MAGIC, 24)?;
    let identity = Identity { cluster_id: reader.u128()?, member_id: reader.u64()? };
    match identity.member_id {
        0 => Err(reader.bad("the member id is 0")),
        _ => Ok(identity),
    }
}

/// Encodes the `birth` file.
pub fn encode_birth(birth: &Birth) -> Vec<u8> {
    let mut body = birth.cluster_id.to_le_bytes().to_vec();
    put_u64_list(&mut body, &birth.voters);
    seal_small(BIRTH_MAGIC, &body)
}

/// Decodes the `birth` file.
pub fn decode_birth(bytes: &[u8]) -> Result<Birth, DecodeError> {
    let mut reader = unseal_small(bytes, BIRTH_MAGIC, bytes.len().saturating_sub(SEAL_BYTES))?;
    let birth = Birth { cluster_id: reader.u128()?, voters: reader.u64_list(MEMBERS_MAX)? };
    reader.finish()?;
    match birth.voters.contains(&0) {
        true => Err(reader.bad("a member id is 0")),
        false => Ok(birth),
    }
}

/// The `boot` file of a new directory. It has its full size, so that no later write needs disk
/// space.
fn encode_boot_file() -> Vec<u8> {
    let mut out = vec![0; BOOT_FILE_BYTES];
    for offset in BOOT_SLOT_OFFSETS {
        out[offset..offset + BOOT_SLOT_BYTES].copy_from_slice(&encode_boot(0));
    }
    out
}

/// Encodes one slot of the `boot` file.
pub fn encode_boot(boot: u64) -> Vec<u8> {
    seal_small(BOOT_MAGIC, &boot.to_le_bytes())
}

/// Decodes one slot of the `boot` file, [`BOOT_SLOT_BYTES`] bytes long.
pub fn decode_boot(bytes: &[u8]) -> Result<u64, DecodeError> {
    unseal_small(bytes, BOOT_MAGIC, 8)?.u64()
}

#[cfg(test)]
mod tests;
