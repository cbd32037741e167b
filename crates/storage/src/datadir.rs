//! The data directory: whose it is, and that only one process uses it.
//!
//! ```text
//! LOCK          held while a server runs
//! draft         the member id that an unborn directory of an ensemble will be born with
//! birth         cluster id and first voters, for members that join
//! identity      cluster id and member id; written last at birth, so it says that the birth ended
//! boot          how many times a server has started here
//! snapshots/    see snapshot
//! wal/          see wal
//! set-aside-N/  all of this but the lock, as it was when it was given up
//! ```
//!
//! A directory is born with a snapshot at index 1, term 1, which holds the cluster id and the first
//! voters, and a log that goes on behind it. A birth that crashed leaves no identity and is done
//! again from the start, for which small files are written whole: temporary name, sync, rename,
//! sync the directory. The count in `boot` is kept in place, in two slots written in turn, so that
//! a start needs no room on the disk.
//!
//! In an ensemble other members learn the member id before the birth. It is drawn once, and kept in
//! `draft` until then: a server that comes with another id has lost its directory. Where servers
//! agree on the birth, `draft` also holds what this one has promised and accepted.
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

pub(crate) use draft::read_draft;
pub use draft::{Acceptor, Ballot, Draft, decode_draft, encode_draft};
pub use servers_file::{SERVERS_FILE, text_of_servers};

/// The lock file.
pub const LOCK_FILE: &str = "LOCK";

/// The file with the directory's identity.
pub const IDENTITY_FILE: &str = "identity";

/// The file that counts starts.
pub const BOOT_FILE: &str = "boot";

/// The file with the member id that an unborn directory will get.
pub const DRAFT_FILE: &str = "draft";

/// The file that says how the ensemble began.
pub const BIRTH_FILE: &str = "birth";

/// The file that says, as text, why the directory is not to be used any more. See [`condemn`].
pub const CONDEMNED_FILE: &str = "condemned";

/// Names that are not this crate's, in a data directory or in the log's own one: the chunk store,
/// the certificates that a server signs itself, the configuration of a server of a local ensemble,
/// ZooKeeper's number of the server, and what file systems make in their roots.
const OTHER_NAMES: [&str; 5] = ["chunks", "fixtures", "quorate.toml", "myid", "lost+found"];

/// Version of the formats of the small files, and of the directory as a whole. A `draft` may be of
/// the next version.
pub const DATADIR_FORMAT_VERSION: u32 = 1;

/// Where a new directory's log begins: its snapshot covers this one entry, which never existed.
pub const BIRTH_POINT: SnapshotPoint = SnapshotPoint { index: 1, term: 1 };

/// The hard state that a new directory's log begins with.
const BIRTH_STATE: HardState =
    HardState { term: BIRTH_POINT.term, vote: 0, commit: BIRTH_POINT.index };

/// Where each of the two slots of `boot` starts. They are 4 KiB apart, so that no sector of any
/// size holds both.
pub const BOOT_SLOT_OFFSETS: [usize; 2] = [0, 4096];

/// Bytes of a slot of `boot`.
pub const BOOT_SLOT_BYTES: usize = 28;

const BOOT_FILE_BYTES: usize = SMALL_FILE_BYTES_MAX as usize;

/// The end of the name of a small file that is being written.
const TEMPORARY_SUFFIX: &str = ".tmp";

const IDENTITY_MAGIC: &[u8; 8] = b"QUORIDNT";
const BOOT_MAGIC: &[u8; 8] = b"QUORBOOT";
const BIRTH_MAGIC: &[u8; 8] = b"QUORBRTH";

/// Bytes of a small file around its body.
const SEAL_BYTES: usize = 20;

/// Whether a name in a data directory, or in the log's own one, is one that a server has there. See
/// [`crate::disk::RealDisk::close_to_others`].
pub fn is_own_name(name: &str) -> bool {
    let files = [LOCK_FILE, IDENTITY_FILE, BOOT_FILE, DRAFT_FILE, BIRTH_FILE, CONDEMNED_FILE];
    let stem = name.strip_suffix(TEMPORARY_SUFFIX).unwrap_or(name);
    files.contains(&stem)
        || [SERVERS_FILE, WAL_DIR, SNAPSHOT_DIR].contains(&stem)
        || OTHER_NAMES.contains(&name)
        || name.starts_with(SET_ASIDE_PREFIX)
}

/// The owner of a data directory. The caller draws it once; it never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The cluster's id, equal for all members of an ensemble. No secret.
    pub cluster_id: u128,
    /// This directory's raft id; never used by another directory, and not 0.
    pub member_id: u64,
}

/// The beginning of an ensemble. Equal in the directories of all its members, whenever they joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Birth {
    /// The cluster's id, as in [`Identity`].
    pub cluster_id: u128,
    /// The member ids that could vote at first, ascending.
    pub voters: Vec<u64>,
}

/// The result of [`open`]. Either way the directory is locked.
#[derive(Debug)]
pub enum Opened<D: Disk> {
    /// A directory that was born.
    Existing(DataDir<D>),
    /// A directory that was not born, or whose birth did not end.
    Empty(EmptyDir<D>),
}

/// A directory that was born, locked as long as this lives.
#[derive(Debug)]
pub struct DataDir<D: Disk> {
    disk: D,
    lock: D::File,
    identity: Identity,
    birth: Birth,
}

/// A directory to be born, locked as long as this lives.
#[derive(Debug)]
pub struct EmptyDir<D: Disk> {
    disk: D,
    lock: D::File,
}

/// Locks the directory that is `disk`'s root, and tells whether it was born. Called at the start,
/// before anything else. Leaves a foreign directory as it is.
pub fn open<D: Disk>(disk: D) -> Result<Opened<D>, StorageError> {
    if !exists(&disk, IDENTITY_FILE)? {
        refuse_zookeeper(&disk)?;
    }
    let lock = take_lock(&disk)?;
    if exists(&disk, CONDEMNED_FILE)? {
        let reason = String::from_utf8_lossy(&read_small(&disk, CONDEMNED_FILE)?).into_owned();
        return Err(StorageError::Condemned { reason });
    }
    if !exists(&disk, IDENTITY_FILE)? {
        refuse_lost_identity(&disk)?;
        return Ok(Opened::Empty(EmptyDir { disk, lock }));
    }
    let identity = read_identity(&disk)?;
    let birth = read_birth(&disk, identity)?;
    remove_draft(&disk)?;
    snapshot::remove_temporaries(&disk)?;
    // A process that was killed before it synced these left names that a loss of power takes back.
    sync_root(&disk)?;
    let synced = disk.sync_dir(SNAPSHOT_DIR);
    synced.map_err(|error| StorageError::io(SNAPSHOT_DIR, "sync", error))?;
    Ok(Opened::Existing(DataDir { disk, lock, identity, birth }))
}

/// Moves all our files but the lock to a new directory `set-aside-N`, and returns its name and the
/// empty directory. For a member of an ensemble whose directory [`open`] or recovery found corrupt:
/// the other members have its data. Foreign files stay where they are.
///
/// A crash before this returns leaves the directory as it was, or corrupt, or empty; a second call
/// sets the rest aside by itself.
pub fn set_aside<D: Disk>(disk: D) -> Result<(EmptyDir<D>, String), StorageError> {
    let lock = take_lock(&disk)?;
    let name = move_aside(&disk)?;
    Ok((EmptyDir { disk, lock }, name))
}

/// Marks a directory in use as not to be used any more, durably, with the reason in a line for
/// people: the other members of the ensemble have found that it lacks, or differs from, what it
/// should hold. The process is to end; at the next start [`open`] refuses the directory, and it can
/// be set aside.
pub fn condemn<D: Disk>(disk: &D, reason: &str) -> Result<(), StorageError> {
    assert!(reason.len() as u64 <= SMALL_FILE_BYTES_MAX);
    write_small(disk, CONDEMNED_FILE, reason.as_bytes())
}

fn take_lock<D: Disk>(disk: &D) -> Result<D::File, StorageError> {
    disk.lock(LOCK_FILE).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => StorageError::InUse { file: LOCK_FILE.to_owned() },
        _ => StorageError::io(LOCK_FILE, "lock", error),
    })
}

/// Moves the files. Without its identity a directory is no member's, and as long as it has
/// something to lose it is refused as corrupt. So the identity goes first, and the count of starts,
/// which says that there was one, last.
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

    /// Like [`set_aside`], for a directory that is locked already. Nothing in it may be open any
    /// more.
    pub fn set_aside(self) -> Result<(EmptyDir<D>, String), StorageError> {
        let name = move_aside(&self.disk)?;
        Ok((EmptyDir { disk: self.disk, lock: self.lock }, name))
    }

    /// Keeps the list of servers, durably, as whole lines of text.
    ///
    /// # Errors
    /// It cannot be written, or is too long.
    pub fn keep_servers(&self, text: &str) -> Result<(), StorageError> {
        servers_file::keep(&self.disk, text)
    }

    /// Counts this start, durably, and returns its number: larger than at any start before. Called
    /// once, before anything is sent to other members.
    ///
    /// # Errors
    /// The count cannot be read or written, or is one that no server comes to
    /// ([`BOOT_COUNT_MAX`]).
    pub fn next_boot(&self) -> Result<u64, StorageError> {
        let found = read_boot(&self.disk)?;
        // A slot that does not check, because it was torn or is damaged, may have held the start
        // behind the one that the other holds: that number is left out.
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
            // Without this the other slot would be two behind: damage of the slot just written
            // would give its number again.
            write(found.position)?;
        }
        Ok(boot)
    }
}

impl<D: Disk + Clone> EmptyDir<D> {
    /// Returns the draft of this directory: the kept one, else one with the member id `drawn`, not
    /// 0, which is kept from now on, durably. Called before other members learn the id.
    ///
    /// # Errors
    /// The draft cannot be read or written, or is damaged.
    pub fn draft(&self, drawn: u64) -> Result<Draft, StorageError> {
        if exists(&self.disk, DRAFT_FILE)? {
            let kept = read_draft(&self.disk)?;
            // A process killed before this sync may have told no member the id; we are about to
            // tell it.
            sync_root(&self.disk)?;
            return Ok(kept);
        }
        let drafted = Draft { member_id: drawn, acceptor: Acceptor::default() };
        self.keep_draft(&drafted)?;
        Ok(drafted)
    }

    /// Keeps a draft, durably. Called before other members learn its content.
    ///
    /// # Errors
    /// It cannot be written. Another start finds this draft or the one before.
    pub fn keep_draft(&self, drafted: &Draft) -> Result<(), StorageError> {
        assert!(drafted.member_id != 0, "0 means nobody");
        write_small(&self.disk, DRAFT_FILE, &encode_draft(drafted))
    }

    /// Gives birth: snapshot, log, how the ensemble began, and at last the identity. `image_pieces`
    /// is the state machine's first image. A crash before this returns leaves a directory that is
    /// still unborn, and keeps its draft, or one that is born.
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
        let birth = Birth { cluster_id: identity.cluster_id, voters: membership.voters.clone() };
        write_small(disk, BIRTH_FILE, &encode_birth(&birth))?;
        write_small(disk, IDENTITY_FILE, &encode_identity(&identity))?;
        remove_draft(disk)?;
        Ok(DataDir { disk: self.disk, lock: self.lock, identity, birth })
    }
}

/// Refuses a directory of ZooKeeper, which keeps its files in `version-2` (`FileTxnSnapLog`,
/// ZooKeeper 3.9). A `myid` file or anything else beside them does not tell whose directory it is.
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

/// Refuses to give birth where a directory has lost its identity. A birth destroys the content, so
/// there must be nothing but the beginnings of a birth: no counted start, no snapshot but the
/// first, and an empty log. Each is checked by itself, because a directory that lost one file may
/// have lost others: a backup of the log alone must not be wiped.
pub(crate) fn refuse_lost_identity<D: Disk>(disk: &D) -> Result<(), StorageError> {
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

pub(crate) fn read_identity<D: Disk>(disk: &D) -> Result<Identity, StorageError> {
    let bytes = read_small(disk, IDENTITY_FILE)?;
    check_version(IDENTITY_FILE, &bytes, DATADIR_FORMAT_VERSION)?;
    decode_identity(&bytes).map_err(|error| at(IDENTITY_FILE, error))
}

/// Reads the `birth` file. Directories older than that file began an ensemble alone.
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

/// Removes the draft, which a born directory does not need. Its removal need not be durable.
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

/// The content of the `boot` file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BootCount {
    /// Starts counted so far.
    pub count: u64,
    /// The slot that holds the count; the other is written next.
    pub position: usize,
    /// Whether the other slot is good, too.
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

/// Refuses a file, or a slot of one, of a version above `version_max`. Every version has its number
/// behind the magic, and a checksum of everything at the end. If that does not match, the version
/// is as likely to be damaged as the rest, and the decoder reports that.
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

/// Writes a small file, durably and whole, and replaces the file of that name.
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

/// Checks magic, checksum and version, and returns a reader of the body of `body_bytes` bytes.
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

/// Reads the `identity` file.
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

/// Reads the `birth` file.
pub fn decode_birth(bytes: &[u8]) -> Result<Birth, DecodeError> {
    let mut reader = unseal_small(bytes, BIRTH_MAGIC, bytes.len().saturating_sub(SEAL_BYTES))?;
    let birth = Birth { cluster_id: reader.u128()?, voters: reader.u64_list(MEMBERS_MAX)? };
    reader.finish()?;
    match birth.voters.contains(&0) {
        true => Err(reader.bad("a member id is 0")),
        false => Ok(birth),
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
