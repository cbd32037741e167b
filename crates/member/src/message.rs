//! The messages between the Fronts, Loop and Apply, and the jobs that Loop gives to the disk thread
//! and to the snapshot thread.

use std::sync::Arc;

use machine::change::SharedChanges;
use machine::codec::DecodeError;
use machine::entry::{self, UnstampedBatch};
use machine::{
    BootId, ConnectionId, Digest, Level, LogIndex, Mark, MemberId, Ordinal, Outcome, Owner,
    PreparedImage, Servers, StatedLevel,
};
pub use replica::{Membership, PersistId, ReplicaError, Restored};
use thiserror::Error;

pub use crate::caller::{Caller, FrontId, Ticket};
pub use crate::lease::LeaseAnswered;
use crate::lease::LeaseQuestion;
use crate::local_read::{LocalRead, ReadAnswer};
use crate::membership::servers::LinkedServer;
use crate::peer::{PeerFrame, PeerMessage, SnapshotAt, Want};
use crate::snapshot::fetch::WholeSnapshot;
use crate::spaces::{Found, News, Search};

/// How many connection runtimes a member has: threads that each serve a share of the client
/// connections. A [`FrontId`] is the number of a runtime. ZooKeeper's runtimes have the first
/// numbers, etcd's the ones after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrontCounts {
    /// Runtimes of ZooKeeper's clients.
    pub zk: u32,
    /// Runtimes of etcd's clients.
    pub etcd: u32,
}

impl FrontCounts {
    /// The number of all runtimes.
    pub fn all(self) -> u32 {
        self.zk + self.etcd
    }

    /// The runtimes of ZooKeeper's clients.
    pub fn zk_fronts(self) -> impl Iterator<Item = FrontId> {
        (0..self.zk).map(FrontId)
    }

    /// The runtimes of etcd's clients.
    pub fn etcd_fronts(self) -> impl Iterator<Item = FrontId> {
        (self.zk..self.all()).map(FrontId)
    }
}

/// A client's request that waits for the outcome of one command.
#[derive(Clone, Debug)]
pub struct Waiter {
    /// The connection that sent it.
    pub connection: ConnectionId,
    /// The ticket of that request.
    pub ticket: Ticket,
    /// Reads that the client sent right behind the command. Apply runs them right after it, before
    /// the next command, and answers them together with it.
    pub reads: Vec<LocalRead>,
    /// Whether the client gave the request up. Apply then sends no further answer to it.
    pub is_given_up: bool,
}

impl Waiter {
    /// A waiter without reads.
    pub fn new(connection: ConnectionId, ticket: Ticket) -> Waiter {
        Waiter { connection, ticket, reads: Vec::new(), is_given_up: false }
    }
}

/// A batch of clients' commands that a Front hands to Loop.
#[derive(Debug)]
pub struct Submission {
    /// The Front that received the requests.
    pub front: FrontId,
    /// The commands.
    pub batch: UnstampedBatch,
    /// One waiter per command of `batch`, in the same order.
    pub waiters: Vec<Waiter>,
}

/// A message of a Front to Loop.
#[derive(Debug)]
pub enum ToLoop {
    /// Commands to be replicated.
    Submit(Submission),
    /// Tell this caller when everything committed by now is applied here.
    Sync(Caller),
    /// Questions of clients about leases, for the leader.
    AskLeases(Vec<(Caller, LeaseQuestion)>),
    /// Sessions whose clients were heard from since the last report.
    Heard(Vec<Owner>),
    /// Requests of a Front that have timed out, or that their clients have cancelled. Each is
    /// answered at once, and Loop no longer gives its command to a leader.
    GiveUp(FrontId, Vec<(ConnectionId, Ticket)>),
    /// Connections of a Front, ascending, that ended before they had a session, or whose session
    /// has ended: nobody waits for the outcome of their commands any more.
    Withdraw(FrontId, Vec<ConnectionId>),
    /// A client uses a feature that needs this level: the leader is to raise the level to it.
    Need(Level),
}

/// An input of Loop.
#[derive(Debug)]
pub enum LoopInput {
    /// A message from a Front.
    Front(ToLoop),
    /// A message from Apply.
    Apply(FromApply),
    /// Every disk job up to this one is durable.
    Persisted(PersistId),
    /// Whether the log still has room to grow, as the disk thread sees it.
    DiskRoom {
        /// Whether the log has no room.
        is_full: bool,
    },
    /// How much disk space is set aside for the next snapshot.
    SnapshotRoom(RoomKept),
    /// A message from the snapshot thread, about a snapshot that it writes.
    Snapshot(FromSnapshot),
    /// A message from the snapshot thread, about a snapshot that is sent to another member or
    /// received from one.
    Transfer(FromTransfer),
    /// A frame of another member. Its link has proved the member's identity.
    Peer {
        /// The member that sent the frame.
        from: MemberId,
        /// The frame.
        frame: PeerFrame,
    },
    /// A link to another member was made, or broke: messages sent on it may be lost.
    Link {
        /// The other member.
        peer: MemberId,
        /// Whether the link was made.
        is_up: bool,
    },
    /// A link from another member was made, or it ended.
    Linked {
        /// The other member.
        peer: MemberId,
        /// The server as its hello describes it; `None` if the link ended.
        server: Option<LinkedServer>,
    },
}

/// A message of Loop to Apply.
#[derive(Debug)]
pub enum ToApply {
    /// This member's batch with this sequence is about to go to the leader, and these waiters wait
    /// for its outcomes. Sent before the entry that holds the batch.
    Expect {
        /// The sequence of the batch.
        sequence: u64,
        /// The Front of the waiters; `None` for Loop's own batches.
        front: Option<FrontId>,
        /// One waiter per command of the batch, in the same order. Empty for Loop's own batches.
        waiters: Vec<Waiter>,
    },
    /// These commands will never be in the log. Apply answers so, in order with its other answers.
    Refuse {
        /// The Front that received the requests.
        front: FrontId,
        /// One waiter per refused command, in the order of the commands.
        waiters: Vec<Waiter>,
        /// The reason in the answer to each waiter.
        reason: Unavailable,
    },
    /// Clients gave up these commands. Sent before any entry that holds `ControlCommand::Nothing`
    /// in place of one of them.
    GiveUp {
        /// The Front that received the requests.
        front: FrontId,
        /// The commands that were given up.
        given_up: Vec<GivenUp>,
        /// Whether to answer the waiters, at once and ahead of the waiters of earlier commands.
        is_told: bool,
    },
    /// Committed entries, in order, without gaps.
    Entries(Vec<replica::Entry>),
    /// Tell this caller once the entry at `index` is applied here.
    Sync {
        /// The index that must be applied first.
        index: LogIndex,
        /// The request that asked.
        caller: Caller,
    },
    /// Give these callers the leader's answers about leases, once the entry at `index` is applied
    /// here.
    LeaseTimes {
        /// The index that must be applied first.
        index: LogIndex,
        /// The callers, each with its answer.
        answers: Vec<(Caller, LeaseAnswered)>,
    },
    /// Begin a snapshot's image of the state at the end of the entry being applied.
    Freeze,
    /// Give the next piece of that image.
    FreezeStep,
    /// Abandon that image.
    Thaw,
    /// Search the state for znodes that a space is to remove.
    Search(Search),
    /// A decoded image, which a later `InstallImage` command puts in place of the state. Sent
    /// before the entry of that command.
    Prepare(PreparedImage),
    /// Replace the state by that of a snapshot that was fetched from another member. Later entries
    /// go on from there.
    Replace {
        /// The snapshot.
        image: WholeSnapshot,
        /// Whether this member has a vote in the snapshot's membership. If not, another member may
        /// have replaced it: it comes back as a learner.
        is_voter: bool,
    },
}

impl ToApply {
    /// Whether Apply has work to do now, rather than only something to note for later.
    pub fn is_work(&self) -> bool {
        !matches!(self, ToApply::Expect { .. } | ToApply::Prepare(_))
    }
}

/// A command that was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivenUp {
    /// The connection that sent it.
    pub connection: ConnectionId,
    /// The ticket of that request.
    pub ticket: Ticket,
    /// Where Loop found the command.
    pub at: GivenUpAt,
}

/// Where Loop found a command that was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GivenUpAt {
    /// In a batch that has no sequence yet. Loop has not announced it to Apply.
    Waiting,
    /// In a batch with a sequence, which Loop has announced to Apply.
    Batch {
        /// The sequence of the batch.
        sequence: u64,
        /// The position of the command in the batch, from 0.
        position: usize,
        /// Whether the command may still take effect: `Definite` if no leader was ever given the
        /// batch.
        fate: Fate,
    },
    /// Loop no longer has the command: it was refused, or applied.
    Nowhere,
}

/// Why a command has no outcome to answer with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// The disk has no room for the log to grow.
    DiskFull,
    /// This member is not the leader and cannot reach it.
    NotLeader,
    /// The client gave the command up before it had an outcome: either before any leader was given
    /// the command (`Definite`), or while a leader may still commit it (`Unknown`).
    GivenUp(Fate),
}

impl Unavailable {
    /// Whether the command may still take effect.
    pub fn fate(self) -> Fate {
        match self {
            Unavailable::DiskFull | Unavailable::NotLeader => Fate::Definite,
            Unavailable::GivenUp(fate) => fate,
        }
    }
}

/// Whether a command that has no outcome may still take effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The command has had no effect and never will: no entry has it.
    Definite,
    /// The command may have taken effect, or may yet: a leader may have it. It takes effect at most
    /// once.
    Unknown,
}

/// The outcome of a command, or why it has none.
pub type Answered = Result<Outcome, Unavailable>;

/// An answer to a waiter.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The answer to a command and the reads behind it.
    Command {
        /// The connection that waits.
        connection: ConnectionId,
        /// The request that is answered.
        ticket: Ticket,
        /// The ordinal and the zxid of the command.
        mark: Mark,
        /// The outcome, or why there is none.
        answered: Answered,
        /// The answers to the waiter's reads, in their order.
        reads: Vec<ReadAnswer>,
    },
    /// The answer to a sync.
    Synced {
        /// The connection that waits.
        connection: ConnectionId,
        /// The request that is answered.
        ticket: Ticket,
        /// The mark of the last command applied.
        mark: Mark,
    },
    /// The answer to a question about a lease.
    Lease {
        /// The connection that waits.
        connection: ConnectionId,
        /// The request that is answered.
        ticket: Ticket,
        /// The mark of the last command applied.
        mark: Mark,
        /// The answer.
        answered: LeaseAnswered,
    },
}

impl Answer {
    /// The ordinal of the command that the answer follows.
    pub fn ordinal(&self) -> Ordinal {
        match self {
            Answer::Command { mark, .. }
            | Answer::Synced { mark, .. }
            | Answer::Lease { mark, .. } => mark.ordinal,
        }
    }
}

/// The answers and changes that Apply pushes to a Front at the end of a hold, before it releases
/// the lock.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The changes made during this hold of the lock, shared by all Fronts.
    pub changes: SharedChanges,
    /// Answers for this Front, in order.
    pub answers: Vec<Answer>,
}

impl Delivery {
    /// Whether a client may be waiting for this delivery even if no client has a watch: it has an
    /// answer, or reads of ZooKeeper's tree may go on now that had to pause for a large command, or
    /// it changes the ensemble, so a change of the servers may have ended.
    pub fn is_urgent(&self) -> bool {
        let changes = &self.changes;
        !self.answers.is_empty() || changes.zk.ends_pause() || !changes.control.is_empty()
    }
}

/// A later version of the program wrote this entry, so this build cannot apply it. The data
/// directory is good: the later version can go on with it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "log entry {index} needs level {level}, and this server knows up to {level_max}: install {}",
    version.as_ref().map_or("a later version".to_string(), |it| {
        format!("version {it} or later, or raise level_max where it is set")
    })
)]
pub struct UnknownEntry {
    /// The index of the entry.
    pub index: u64,
    /// The level that its commands need.
    pub level: Level,
    /// The highest level that this build knows.
    pub level_max: Level,
    /// The first version of the program that knows the level, if the entry names it.
    pub version: Option<String>,
}

impl UnknownEntry {
    /// Checks that the level of a snapshot, which ends with entry `index`, is at most `level_max`.
    ///
    /// # Errors
    /// The snapshot's level is higher.
    pub fn check_level(
        index: u64,
        stated: &StatedLevel,
        level_max: Level,
    ) -> Result<(), UnknownEntry> {
        let StatedLevel { level, version } = stated.clone();
        if level <= level_max {
            return Ok(());
        }
        Err(UnknownEntry { index, level, level_max, version: Some(version) })
    }

    /// Checks that entry `index` needs no level above `level_max`. An entry whose header does not
    /// decode passes.
    ///
    /// # Errors
    /// The entry needs a higher level.
    pub fn check(index: u64, payload: &[u8], level_max: Level) -> Result<(), UnknownEntry> {
        match entry::decode_header(payload) {
            Ok(header) if header.level > level_max => Err(UnknownEntry {
                index,
                level: header.level,
                level_max,
                version: entry::version_raised_to(payload),
            }),
            _ => Ok(()),
        }
    }
}

/// An entry of the log that cannot be applied, though its checksums are right: another member or a
/// later version wrote it wrongly, or this build has a bug. To go on without it would make this
/// member's state differ from the others'.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("log entry {index} cannot be applied: {cause}")]
pub struct UnreadableEntry {
    /// The index of the entry.
    pub index: u64,
    /// The reason.
    pub cause: Unreadable,
}

/// Why an entry cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unreadable {
    /// The entry does not decode.
    #[error("{0}")]
    Malformed(#[from] DecodeError),
    /// The entry installs an image that was not prepared.
    #[error("it installs image {hash:032x}, which is not in the data directory")]
    NoImage {
        /// The hash of the image's file.
        hash: u128,
    },
    /// The entry holds a batch in this member's name that this member did not hand over: the leader
    /// that wrote it is at fault.
    #[error("batch {sequence} in it is not the one that this member handed over")]
    NotOwn {
        /// The sequence of the batch.
        sequence: u64,
    },
}

/// A message of Apply to Loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromApply {
    /// Whole entries were applied, or a snapshot replaced the state.
    Applied {
        /// The last entry that is applied.
        index: LogIndex,
        /// Changes since the last report that the spaces' rooms in Loop must know.
        news: News,
        /// The mark of the image's command, if an image was installed.
        installed: Option<Mark>,
        /// Upper bound on the bytes of an image of the state as it is after `index`.
        image_bytes_max: u64,
        /// The sequence of the last batch of this start that was applied; 0 before the first.
        own_sequence: u64,
    },
    /// A snapshot's image was begun.
    Frozen {
        /// The entry after which the image was begun.
        index: LogIndex,
        /// The term of that entry.
        term: u64,
        /// The mark of the last command in the image.
        mark: Mark,
        /// Upper bound on the bytes of the image.
        image_bytes_max: u64,
    },
    /// A piece of the image.
    Piece {
        /// The bytes of the piece.
        bytes: Vec<u8>,
        /// Whether the piece is the last.
        last: bool,
    },
    /// The image had to be given up: Apply begins a new one only when asked again.
    FreezeAborted,
    /// The answer to [`ToApply::Search`].
    Found(Found),
    /// The state's digest at the end of an entry. Sent for each entry, and for a snapshot that
    /// replaced the state.
    Digest {
        /// The index of the entry.
        index: LogIndex,
        /// The digest.
        digest: Digest,
    },
    /// The servers, and the members that each of them is; sent each time these change.
    Servers(Arc<Servers>),
    /// The level has risen, or a snapshot that replaced the state has this level.
    Raised(StatedLevel),
    /// The log has an entry of a level that this build does not know. Apply applies nothing more.
    Unknown(UnknownEntry),
    /// An entry cannot be applied: that entry and all later ones stay unapplied.
    Unreadable(UnreadableEntry),
    /// Another member has taken this member's place, and the state has forgotten this one. Apply
    /// applies nothing more.
    Forgotten,
    /// The log holds a batch of this member from a start that its data directory has no record of:
    /// the directory is an old copy. Apply applies nothing more.
    Outlived {
        /// The number of the start that handed over the batch.
        boot: BootId,
    },
}

/// One job for the disk thread. Jobs are done in order; all queued jobs go in one write and one
/// sync.
#[derive(Clone, Debug)]
pub struct DiskJob {
    /// The job's id, which is reported back once the job is durable.
    pub id: PersistId,
    /// Entries to append. An entry at an index that the log has already replaces that entry and all
    /// behind it.
    pub entries: Vec<storage::wal::LogEntry>,
    /// The term, vote and commit index, appended behind the entries.
    pub hard_state: Option<storage::wal::HardState>,
    /// The membership, if it has changed.
    pub membership: Option<storage::wal::Membership>,
    /// A durable snapshot that takes the place of the whole log, before the entries are appended.
    /// `membership` is then the snapshot's.
    pub install: Option<storage::wal::SnapshotPoint>,
}

/// One job for the snapshot thread, done in order.
#[derive(Clone, Debug)]
pub enum SnapshotJob {
    /// Begin a file.
    Begin {
        /// The number of the snapshot: snapshots begun since the start, counted from 1.
        number: u64,
        /// The index of the last entry that the snapshot holds.
        index: u64,
        /// The term of that entry.
        term: u64,
        /// The membership that is active after that entry.
        membership: storage::wal::Membership,
        /// The mark of the last command in the image. It is for messages to people; the file's name
        /// does not contain it.
        mark: Mark,
    },
    /// Append a piece to the file.
    Piece(Vec<u8>),
    /// End the file and rename it to its final name.
    Finish,
    /// Remove the unfinished file.
    Abort,
    /// Remove the received snapshot: a newer snapshot covers the command that installed it.
    DiscardReceived,
    /// Set disk space aside for the next snapshot, and keep that much set aside from now on.
    KeepRoom(RoomWanted),
    /// Read a piece of a finished snapshot, to send to another member.
    Read {
        /// The member that the piece is for.
        to: MemberId,
        /// The snapshot and the offset to read from.
        want: Want,
    },
    /// Append bytes to the snapshot that another member sends.
    Receive {
        /// Whether `bytes` are the first of the snapshot. If so, the bytes received of any other
        /// snapshot are removed.
        is_first: bool,
        /// The next bytes.
        bytes: bytes::Bytes,
    },
    /// Check the snapshot that was received completely, and give its file the final name.
    CheckReceived(SnapshotAt),
}

/// A message of the snapshot thread to Loop about a snapshot that goes to another member, or comes
/// from one.
#[derive(Debug)]
pub enum FromTransfer {
    /// The answer to [`SnapshotJob::Read`]: a piece, or that the snapshot is gone.
    Read {
        /// The member that the piece is for.
        to: MemberId,
        /// The message to send to that member.
        message: PeerMessage,
    },
    /// The received bytes are in the file.
    Written,
    /// The received snapshot is complete, and durable under its final name.
    Whole(WholeSnapshot),
    /// The received snapshot cannot be written. Its file was removed.
    Failed,
    /// The received file is not the snapshot that was offered, or is damaged. It was removed.
    Spoiled,
}

/// Disk space to set aside for the next snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoomWanted {
    /// Upper bound on the bytes of the next snapshot, as the state is now.
    pub bytes_min: u64,
    /// Bytes that must be set aside for the state to grow further. With less, writes wait for more,
    /// or are refused if the disk has none.
    pub bytes: u64,
    /// Bytes to set aside if the disk has them, so that the state can grow.
    pub bytes_max: u64,
}

/// Disk space that is set aside for the next snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoomKept {
    /// Bytes that are set aside.
    pub bytes: u64,
    /// The largest amount that was wanted when the disk was last asked. If `bytes` is less, the
    /// disk has no more.
    pub bytes_wanted: u64,
}

/// A message of the snapshot thread to Loop about the snapshot that it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromSnapshot {
    /// The piece was written, and the next may come.
    PieceWritten,
    /// The snapshot is durable under its name.
    Finished {
        /// The index of the last entry that the snapshot holds.
        index: u64,
        /// The term of that entry.
        term: u64,
    },
    /// The snapshot could not be written. Loop schedules another.
    Failed,
}
