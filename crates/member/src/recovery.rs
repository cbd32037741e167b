//! Recovery: at a start, reads a data directory and makes Loop and Apply from it. The real server
//! and the simulator both start this way.
//!
//! An empty directory is *born* first, that is, it gets its identity and first snapshot. The
//! directory of a standalone server is born at once ([`recover`]). The directory of a member of an
//! ensemble ([`open_member`]) may stay unborn until [`crate::Bootstrap`] has decided the ensemble's
//! birth.

pub mod survivors;

use machine::image::FreezeStep;
use machine::image::restore::{DecodedPiece, Decoder, Restore, RestoreError};
use machine::together::{Together, one_by_one};
use machine::{BootId, Level, LogIndex, Machine, MemberId, Origin};
use replica::{ReplicaError, Restored};
use storage::StorageError;
use storage::datadir::{self, Acceptor, Birth, DataDir, Draft, EmptyDir, Identity, Opened};
use storage::disk::Disk;
use storage::snapshot::{self, DamagedPiece, SnapshotMeta, SnapshotReader, StoredPiece};
use storage::wal::{
    EntryKind, HardState, LogEntry, Membership, SnapshotPoint, TornTail, Wal, WalOptions,
};
use thiserror::Error;

use crate::limits::SNAPSHOT_PIECE_BYTES;
use crate::limits::START_PIECES;
use crate::membership::bootstrap::ABSENT_VOTERS_FROM;
use crate::message::UnknownEntry;
use crate::order::{self, Start, to_restored};
use crate::replay::replay;
use crate::snapshot::received;
use crate::spaces::{self, Spaces};
use crate::{Apply, Loop};

/// Why a start could not restore the state.
#[derive(Debug, Error)]
pub enum RecoveryError {
    /// The data directory, the log or a snapshot cannot be read or written.
    #[error("{0}")]
    Storage(#[from] StorageError),
    /// The checksums of a snapshot are right, but it does not decode to a state.
    #[error("snapshot {name}: {cause}")]
    Snapshot {
        /// The name of the snapshot's file.
        name: String,
        /// Why the snapshot does not decode.
        cause: RestoreError,
    },
    /// No snapshot can be read that reaches to the beginning of the log.
    #[error("no usable snapshot: the log starts after entry {index}")]
    NoSnapshot {
        /// The index of the last entry before the log.
        index: u64,
    },
    /// A later version wrote an entry of the log, which this build cannot apply.
    #[error("{0}")]
    Unknown(#[from] UnknownEntry),
}

/// A member's configuration, for Loop.
#[derive(Clone, Debug)]
pub struct Options {
    /// The options of the spaces, among them the replicated settings that this member wants.
    pub spaces: spaces::Options,
    /// The options of Loop.
    pub order: order::Options,
}

/// How a start reads a data directory.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Options of the log, for example the size of a segment.
    pub log: WalOptions,
    /// Runs two jobs of the restore: on two threads, or one after the other.
    pub together: Together,
    /// The highest level that this start accepts: the highest that the build knows, or a lower one.
    pub level_max: Level,
}

impl From<WalOptions> for Reading {
    fn from(log: WalOptions) -> Reading {
        Reading { log, together: one_by_one, level_max: Level::RELEASED }
    }
}

/// The content of a data directory, as a start has read it.
pub struct Recovered<D: Disk> {
    /// The data directory, locked as long as this value exists.
    pub dir: DataDir<D>,
    /// The member's id, and the number of this start.
    pub origin: Origin,
    /// Whether the directory was empty, and was born just now.
    pub is_new: bool,
    /// A write that was never acknowledged and that was cut off the log's end; `None` if there was
    /// none.
    pub cut: Option<TornTail>,
    /// The index at which the log ended, if that is before the snapshot: the log was damaged there,
    /// and was cut as if a write were torn. The snapshot contains the lost entries.
    pub log_ended: Option<u64>,
    /// The log, ready to append.
    pub wal: Wal<D>,
    /// The state as of the newest snapshot, or as far as [`Recovered::replay`] went.
    pub machine: Machine,
    /// The entries behind the snapshot, and the rest of the Raft state.
    pub restored: Restored,
}

/// The data directory that a start of a member of an ensemble finds.
pub enum OpenedMember<D: Disk> {
    /// The directory was born before.
    Born(Box<Recovered<D>>),
    /// The directory was not born, or was corrupt and is emptied.
    Unborn(Box<UnbornMember<D>>),
}

/// An unborn directory of a member of an ensemble, locked as long as this value exists.
pub struct UnbornMember<D: Disk> {
    dir: EmptyDir<D>,
    /// The random bytes of this start.
    drawn: [u8; 32],
    /// The member id that the directory keeps from now on.
    pub member: MemberId,
    /// What this server has promised and accepted about the birth, in this start or an earlier one.
    pub acceptor: Acceptor,
    /// Set if the directory was corrupt: the name of the directory to which its content was moved,
    /// and the damage.
    pub set_aside: Option<(String, RecoveryError)>,
}

/// Makes a cluster id and a member id, which are unique because the random bytes are.
pub fn draw_ids(drawn: &[u8; 32]) -> (u128, MemberId) {
    let (cluster, rest) = drawn.split_at(16);
    let cluster_id = u128::from_le_bytes(cluster.try_into().expect("16 bytes were split off"));
    let member_id = u64::from_le_bytes(rest[..8].try_into().expect("16 bytes are left"));
    // 0 means nobody, and ids from there on are placeholders'.
    (cluster_id, MemberId(member_id.clamp(1, ABSENT_VOTERS_FROM - 1)))
}

/// The id of the start with number `count` of a directory.
fn boot_id(count: u64, drawn: &[u8; 32]) -> BootId {
    let count = u32::try_from(count).expect("BOOT_COUNT_MAX has 32 bits");
    // These bytes follow the ones that `draw_ids` uses.
    let random = drawn[24..28].try_into().expect("4 bytes are left");
    BootId::new(count, u32::from_le_bytes(random))
}

/// Opens the data directory whose root is `disk`, and counts this start. `drawn` must be random and
/// new at each start: the id of the start comes from it. If the directory is empty, it is born as
/// the only member of a new ensemble, and its member id and cluster id come from `drawn`, too.
/// These ids are not secret, so nothing secret may be derived from `drawn`. Each snapshot that
/// cannot be used is reported to `skipped`.
///
/// # Errors
/// The directory cannot be used.
pub fn recover<D: Disk + Clone>(
    disk: &D,
    drawn: &[u8; 32],
    reading: impl Into<Reading>,
    skipped: impl FnMut(&RecoveryError),
) -> Result<Recovered<D>, RecoveryError> {
    let reading = reading.into();
    let (dir, is_new) = match datadir::open(disk.clone())? {
        Opened::Existing(found) => (found, false),
        Opened::Empty(empty) => {
            let (cluster_id, member) = draw_ids(drawn);
            let alone = Birth { cluster_id, voters: vec![member.0] };
            (give_birth(empty, member, &alone, Machine::default(), &reading.log)?, true)
        }
    };
    recover_born(disk, dir, is_new, drawn, reading, skipped)
}

/// Like [`recover`], for a member of an ensemble. An empty directory gets a member id from `drawn`,
/// and keeps this id in later starts. The content of a corrupt directory is moved aside: the other
/// members have it, and the server comes back under another member id, without a vote. Only the
/// directory of a server that began alone stays, and the start fails.
///
/// # Errors
/// The directory cannot be used, and moving its content aside would not help, or fails as well.
pub fn open_member<D: Disk + Clone>(
    disk: &D,
    drawn: &[u8; 32],
    reading: impl Into<Reading>,
    skipped: impl FnMut(&RecoveryError),
) -> Result<OpenedMember<D>, RecoveryError> {
    match open_as_it_is(disk, drawn, reading.into(), skipped) {
        Err(cause) if cause.is_corruption() && !has_begun_alone(disk) => {
            let (dir, name) = datadir::set_aside(disk.clone())?;
            unborn(dir, drawn, Some((name, cause)))
        }
        other => other,
    }
}

/// Whether the ensemble of this directory began with it alone. No other member may have its data
/// then: servers that were added later may not have caught up. False if the files that say so are
/// corrupt themselves.
fn has_begun_alone<D: Disk + Clone>(disk: &D) -> bool {
    match datadir::open(disk.clone()) {
        Ok(Opened::Existing(dir)) => dir.birth().voters == [dir.identity().member_id],
        Ok(Opened::Empty(_)) | Err(_) => false,
    }
}

fn open_as_it_is<D: Disk + Clone>(
    disk: &D,
    drawn: &[u8; 32],
    reading: Reading,
    skipped: impl FnMut(&RecoveryError),
) -> Result<OpenedMember<D>, RecoveryError> {
    match datadir::open(disk.clone())? {
        Opened::Existing(dir) => {
            let recovered = recover_born(disk, dir, false, drawn, reading, skipped)?;
            Ok(OpenedMember::Born(Box::new(recovered)))
        }
        Opened::Empty(dir) => unborn(dir, drawn, None),
    }
}

fn unborn<D: Disk + Clone>(
    dir: EmptyDir<D>,
    drawn: &[u8; 32],
    set_aside: Option<(String, RecoveryError)>,
) -> Result<OpenedMember<D>, RecoveryError> {
    let (_, member) = draw_ids(drawn);
    let Draft { member_id, acceptor } = dir.draft(member.0)?;
    let (drawn, member) = (*drawn, MemberId(member_id));
    let unborn = UnbornMember { dir, drawn, member, acceptor, set_aside };
    Ok(OpenedMember::Unborn(Box::new(unborn)))
}

impl<D: Disk + Clone> UnbornMember<D> {
    /// Makes durable what this server promises or accepts. To be called before any other server
    /// learns it.
    ///
    /// # Errors
    /// The directory cannot be written. The next start finds this value, or the previous one.
    pub fn keep(&mut self, acceptor: &Acceptor) -> Result<(), RecoveryError> {
        let draft = Draft { member_id: self.member.0, acceptor: acceptor.clone() };
        self.dir.keep_draft(&draft)?;
        self.acceptor = draft.acceptor;
        Ok(())
    }

    /// Turns the unborn directory into one with the decided birth, and counts its first start.
    ///
    /// # Errors
    /// The directory cannot be written. The next start finds it born, or unborn with the same
    /// member id.
    pub fn be_born(
        self,
        disk: &D,
        birth: &Birth,
        options: WalOptions,
    ) -> Result<Recovered<D>, RecoveryError> {
        let dir = give_birth(self.dir, self.member, birth, Machine::default(), &options)?;
        recover_born(disk, dir, true, &self.drawn, options.into(), |_| {})
    }
}

impl RecoveryError {
    /// Whether durable data is damaged, so that the state must come from another member. False if
    /// the disk cannot be read now: the next start may be able to read it.
    pub fn is_corruption(&self) -> bool {
        match self {
            RecoveryError::Storage(error) => {
                matches!(error, StorageError::Corrupt { .. } | StorageError::Condemned { .. })
            }
            // The snapshot's checksums are right, so another version may have written it.
            RecoveryError::Snapshot { cause, .. } => !cause.is_of_another_version(),
            RecoveryError::Unknown(_) => false,
            RecoveryError::NoSnapshot { .. } => true,
        }
    }
}

fn recover_born<D: Disk + Clone>(
    disk: &D,
    dir: DataDir<D>,
    is_new: bool,
    drawn: &[u8; 32],
    reading: Reading,
    skipped: impl FnMut(&RecoveryError),
) -> Result<Recovered<D>, RecoveryError> {
    // The number of the start is read before anything is changed: a directory in which that number
    // is damaged stays as it is.
    let boot = boot_id(dir.next_boot()?, drawn);
    let (mut wal, log) = Wal::open(disk.clone(), reading.log)?;
    let (meta, mut machine) = restore_newest_together(disk, log.snapshot.index, &reading, skipped)?;
    let snapshot = SnapshotPoint { index: meta.index, term: meta.term };
    let log_ended = Some(wal.last_index()).filter(|last| *last < meta.index);
    if log_ended.is_some() {
        skip_log(&mut wal, snapshot, meta.membership.clone())?;
    }
    let differs = |entry: &LogEntry| entry.index == meta.index && entry.term != meta.term;
    let mut entries = log.entries;
    if entries.iter().any(differs) {
        // The snapshot came from another member, so the entry of the log at its index was never
        // committed.
        skip_log(&mut wal, snapshot, meta.membership.clone())?;
        entries.clear();
    }
    entries.retain(|entry| entry.index > meta.index);
    let commit = wal.hard_state().commit;
    for entry in entries.iter().filter(|it| it.index <= commit && it.kind == EntryKind::Normal) {
        UnknownEntry::check(entry.index, &entry.payload, reading.level_max)?;
    }
    received::prepare(disk, &entries, &mut machine, &reading)?;
    let restored = to_restored(wal.hard_state(), meta.membership, snapshot, entries);
    let origin = Origin { member: MemberId(dir.identity().member_id), boot };
    Ok(Recovered { dir, origin, is_new, cut: log.cut, log_ended, wal, machine, restored })
}

impl<D: Disk> Recovered<D> {
    /// Whether the log has changes of the membership behind the snapshot.
    pub fn has_membership_entries(&self) -> bool {
        self.restored.entries.iter().any(|entry| entry.kind == replica::EntryKind::Membership)
    }

    /// Applies entries of the log before [`start`], up to the first that needs a decision of Loop
    /// or Apply: for a standalone server nearly all committed entries, for a member of an ensemble
    /// none.
    pub fn replay(&mut self, together: Together) {
        replay(&mut self.machine, &mut self.restored, self.origin, together);
    }
}

/// Makes the log continue behind the snapshot, in a term that is not older than the snapshot's.
fn skip_log<D: Disk>(
    wal: &mut Wal<D>,
    snapshot: SnapshotPoint,
    membership: Membership,
) -> Result<(), StorageError> {
    let found = wal.hard_state();
    if found.term < snapshot.term {
        let hard_state = HardState { term: snapshot.term, vote: 0, ..found };
        wal.append(&[], Some(hard_state), None)?;
    }
    wal.install_snapshot(snapshot, membership)
}

/// Makes Loop and Apply of a member that starts from `machine` and the entries behind it.
///
/// # Errors
/// The restored Raft state contradicts itself.
pub fn start(
    origin: Origin,
    machine: &Machine,
    restored: Restored,
    options: Options,
) -> Result<(Loop, Apply), ReplicaError> {
    let applied_term = restored.applied_term();
    let level_max = options.order.known.level_max;
    let apply = Apply::new(origin, LogIndex(restored.applied_index), applied_term, level_max);
    let log_bytes = restored.log_bytes();
    let member = Loop::new(Start {
        origin,
        seed: origin.member.0,
        spaces: Spaces::new(options.spaces, machine),
        restored,
        log_bytes,
        image_bytes_max: machine.image_bytes_max(),
        digest: machine.digest(),
        options: options.order,
        level: machine.control().level().level,
        servers_restored: machine.control().servers().clone(),
    })?;
    Ok((member, apply))
}

/// Creates the data directory of a member whose ensemble begins with the state of a backup.
/// `disk`'s root must be an empty directory. All members of the ensemble must begin with the same
/// state.
///
/// # Errors
/// The directory is not empty, or cannot be written. It is then as it was, or unborn.
pub fn be_born_with<D: Disk + Clone>(
    disk: &D,
    member: MemberId,
    birth: &Birth,
    backup: Machine,
) -> Result<(), BirthError> {
    match datadir::open(disk.clone())? {
        Opened::Existing(_) => Err(BirthError::NotEmpty),
        Opened::Empty(empty) => {
            let machine = Machine::begin_with(backup);
            give_birth(empty, member, birth, machine, &WalOptions::default())?;
            Ok(())
        }
    }
}

/// Why no directory is created from a backup.
#[derive(Debug, Error)]
pub enum BirthError {
    /// The directory is locked, or cannot be written.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The directory is a server's already.
    #[error("it is a server's data directory, which would be lost")]
    NotEmpty,
}

/// Creates the data directory of any member. All members of an ensemble begin with the same
/// snapshot.
fn give_birth<D: Disk + Clone>(
    empty: EmptyDir<D>,
    member: MemberId,
    birth: &Birth,
    machine: Machine,
    options: &WalOptions,
) -> Result<DataDir<D>, StorageError> {
    assert!(birth.voters.is_sorted(), "a membership has its members in order");
    let identity = Identity { cluster_id: birth.cluster_id, member_id: member.0 };
    let membership = Membership { voters: birth.voters.clone(), ..Membership::default() };
    let (point, pieces) = freeze_birth(machine);
    empty.birth(identity, &membership, (point, &pieces), options)
}

/// The point and the pieces of the first snapshot of a directory.
fn freeze_birth(mut machine: Machine) -> (SnapshotPoint, Vec<Vec<u8>>) {
    let index = machine.freeze();
    let points = [datadir::BIRTH_POINT, datadir::GIVEN_BIRTH_POINT];
    let point = points.into_iter().find(|point| index == LogIndex(point.index));
    let point = point.expect("it is a first state");
    let mut pieces = Vec::new();
    loop {
        match machine.freeze_step(SNAPSHOT_PIECE_BYTES, u32::MAX) {
            FreezeStep::Piece(piece) => pieces.push(piece),
            FreezeStep::Last(piece) => {
                pieces.push(piece);
                return (point, pieces);
            }
            FreezeStep::Aborted => unreachable!("nothing changes a machine that nobody has yet"),
        }
    }
}

/// Restores the newest readable snapshot that reaches to the log, which starts behind the index
/// `log_from`. Each snapshot that cannot be used is reported to `skipped`.
///
/// # Errors
/// No snapshot can be used. The error is that of the newest snapshot that may still be good, since
/// it could not be read now, or a newer version wrote it; if there is none, that of the oldest
/// snapshot.
pub fn restore_newest<D: Disk + Clone>(
    disk: &D,
    log_from: u64,
    skipped: impl FnMut(&RecoveryError),
) -> Result<(SnapshotMeta, Machine), RecoveryError> {
    let reading = Reading { level_max: Level::NEWEST, ..WalOptions::default().into() };
    restore_newest_together(disk, log_from, &reading, skipped)
}

fn restore_newest_together<D: Disk + Clone>(
    disk: &D,
    log_from: u64,
    reading: &Reading,
    mut skipped: impl FnMut(&RecoveryError),
) -> Result<(SnapshotMeta, Machine), RecoveryError> {
    let mut names = snapshot::list(disk)?;
    names.retain(|name| name.index >= log_from);
    let mut failure = RecoveryError::NoSnapshot { index: log_from };
    for name in names.iter().rev() {
        match restore(disk, &name.name, reading) {
            Ok(restored) => return Ok(restored),
            Err(error) => {
                skipped(&error);
                if failure.is_corruption() {
                    failure = error;
                }
            }
        }
    }
    Err(failure)
}

fn restore<D: Disk + Clone>(
    disk: &D,
    name: &str,
    reading: &Reading,
) -> Result<(SnapshotMeta, Machine), RecoveryError> {
    let mut reader = SnapshotReader::open(disk.clone(), name)?;
    let machine = read_image_together(&mut reader, name, reading.together, START_PIECES, || ())?;
    let unknown = |cause| RecoveryError::Snapshot { name: name.to_string(), cause };
    machine.check_level(reading.level_max).map_err(unknown)?;
    check_index(&machine, reader.meta(), name)?;
    Ok((reader.meta().clone(), machine))
}

/// Checks that a snapshot has the state at the index that its file's name says.
pub(crate) fn check_index(
    machine: &Machine,
    meta: &SnapshotMeta,
    name: &str,
) -> Result<(), StorageError> {
    if machine.index() == LogIndex(meta.index) {
        return Ok(());
    }
    let (found, index) = (machine.index().0, meta.index);
    let what = format!("the state is the one at entry {found}, and the snapshot that at {index}");
    Err(StorageError::corrupt(name, 0, what))
}

/// Reads the state from a snapshot. `rest` is called after each piece.
pub(crate) fn read_image<D: Disk>(
    reader: &mut SnapshotReader<D>,
    name: &str,
    rest: impl FnMut(),
) -> Result<Machine, RecoveryError> {
    read_image_together(reader, name, one_by_one, 1, rest)
}

/// Like [`read_image`], but decodes up to `piece_count` pieces while earlier ones are installed. If
/// two pieces are damaged, the first one is reported.
fn read_image_together<D: Disk>(
    reader: &mut SnapshotReader<D>,
    name: &str,
    together: Together,
    piece_count: usize,
    mut rest: impl FnMut(),
) -> Result<Machine, RecoveryError> {
    let bad = |cause| RecoveryError::Snapshot { name: name.to_string(), cause };
    let mut restore = Restore::default();
    let mut decoder = Decoder::default();
    let mut decoded = Vec::new();
    loop {
        let (stored, read) = read_pieces(reader, piece_count, &mut rest);
        let before = core::mem::take(&mut decoded);
        let is_last = stored.is_empty() && before.is_empty();
        let (mut decodes, mut installs) = (Ok(()), Ok(()));
        let (mut stored, mut before) = (stored.into_iter(), before.into_iter());
        let decode = &mut || decodes = decode_pieces(&mut decoder, &mut stored, &mut decoded);
        let install = &mut || installs = before.try_for_each(|piece| restore.install(piece));
        together(decode, install);
        installs.map_err(bad)?;
        decodes.map_err(|error| match error {
            PieceError::Damaged(damage) => reader.damaged(&damage).into(),
            PieceError::Malformed(cause) => bad(cause),
        })?;
        read?;
        if is_last {
            return restore.finish_together(together).map_err(bad);
        }
    }
}

/// Reads up to `piece_count` pieces; fewer at the end, or if an error prevents more, which is
/// returned beside them.
fn read_pieces<D: Disk>(
    reader: &mut SnapshotReader<D>,
    piece_count: usize,
    rest: &mut impl FnMut(),
) -> (Vec<StoredPiece>, Result<(), StorageError>) {
    let mut stored = Vec::new();
    while stored.len() < piece_count {
        match reader.next_stored() {
            Ok(Some(piece)) => stored.push(piece),
            Ok(None) => break,
            Err(error) => return (stored, Err(error)),
        }
        rest();
    }
    (stored, Ok(()))
}

/// Why a stored piece cannot be decoded.
enum PieceError {
    Damaged(DamagedPiece),
    Malformed(RestoreError),
}

fn decode_pieces(
    decoder: &mut Decoder,
    stored: &mut impl Iterator<Item = StoredPiece>,
    decoded: &mut Vec<DecodedPiece>,
) -> Result<(), PieceError> {
    for piece in stored {
        let raw = piece.decode().map_err(PieceError::Damaged)?;
        decoded.push(decoder.decode(&raw).map_err(PieceError::Malformed)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
