//! The messages between Front, Loop and Apply, and what goes to the disk.

use std::sync::Arc;

use machine::change::SharedChanges;
use machine::entry::{self, UnstampedBatch};
use machine::{
    BootId, ConnectionId, ContainerSearch, ContainersFound, Digest, Level, LogIndex, Mark,
    MemberId, Ordinal, Outcome, Owner, PreparedImage, ServerList, Servers, Settings, StatedLevel,
};
pub use replica::{Membership, PersistId, ReplicaError, Restored};
use thiserror::Error;

use crate::hello::Known;
use crate::leader::containers::ContainerSettings;
use crate::local_read::{LocalRead, ReadAnswer};
use crate::peer::{PeerFrame, PeerMessage, SnapshotAt, Want};
use crate::servers::LinkedServer;
use crate::snapshot::fetch::WholeSnapshot;

/// Which connection runtime of this member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrontId(pub u32);

/// A request of a connection, in the order in which the connection handed them over. Whoever
/// answers names it: nothing may be concluded from the order of answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Who waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Caller {
    /// Which Front.
    pub front: FrontId,
    /// Which of its connections.
    pub connection: ConnectionId,
    /// For which of its requests.
    pub ticket: Ticket,
}

/// Who waits for a command.
#[derive(Clone, Debug)]
pub struct Waiter {
    /// The connection that sent it.
    pub connection: ConnectionId,
    /// As which request.
    pub ticket: Ticket,
    /// The reads right behind it, for Apply to run right after it and before the next command.
    pub reads: Vec<LocalRead>,
    /// Set once the command is given up: whatever comes of it, this waiter is told no more.
    pub is_given_up: bool,
}

impl Waiter {
    /// A waiter without reads.
    pub fn new(connection: ConnectionId, ticket: Ticket) -> Waiter {
        Waiter { connection, ticket, reads: Vec::new(), is_given_up: false }
    }
}

/// Commands that a Front hands over.
#[derive(Debug)]
pub struct Submission {
    /// Which Front.
    pub front: FrontId,
    /// The commands.
    pub batch: UnstampedBatch,
    /// One waiter per command, in the same order.
    pub waiters: Vec<Waiter>,
}

/// What a Front asks of Loop.
#[derive(Debug)]
pub enum ToLoop {
    /// Commands to be replicated.
    Submit(Submission),
    /// Tell this caller when everything committed by now is applied here.
    Sync(Caller),
    /// Those whose clients were heard from since the last report.
    Heard(Vec<Owner>),
    /// Requests of a Front whose time is up, or whose clients have cancelled them. Each is answered
    /// at once, and no leader is given its command from now on.
    GiveUp(FrontId, Vec<(ConnectionId, Ticket)>),
    /// Connections of a Front, ascending, that ended before they had a session, or whose session
    /// has ended: nobody waits for their commands.
    Withdraw(FrontId, Vec<ConnectionId>),
    /// A client uses what this level adds for the first time: the level is to be raised.
    Need(Level),
}

/// What arrives at Loop.
#[derive(Debug)]
pub enum LoopInput {
    /// From a Front.
    Front(ToLoop),
    /// From Apply.
    Apply(FromApply),
    /// Every disk job up to this one is durable.
    Persisted(PersistId),
    /// Whether the log still has room to grow, as the disk thread sees it.
    DiskRoom {
        /// It has none.
        is_full: bool,
    },
    /// What is set aside for the next snapshot.
    SnapshotRoom(RoomKept),
    /// From the snapshot thread, of a snapshot that it writes.
    Snapshot(FromSnapshot),
    /// From the snapshot thread, of one that is sent or received.
    Transfer(FromTransfer),
    /// A frame of another member, whose identity its link has proved.
    Peer {
        /// Which member.
        from: MemberId,
        /// The frame.
        frame: PeerFrame,
    },
    /// A link to another member was made, or one broke: what was sent on it may be lost.
    Link {
        /// Which member.
        peer: MemberId,
        /// It was made.
        is_up: bool,
    },
    /// A link from another member was made, or it ended.
    Linked {
        /// Which member.
        peer: MemberId,
        /// What it said of itself; none: the link ended.
        server: Option<LinkedServer>,
    },
}

/// What Loop asks of Apply.
#[derive(Debug)]
pub enum ToApply {
    /// The batch with this sequence is under way, and these wait for it. Comes before the entry.
    Expect {
        /// Of the batch.
        sequence: u64,
        /// Which Front; none for Loop's own batches.
        front: Option<FrontId>,
        /// One per command.
        waiters: Vec<Waiter>,
    },
    /// These commands will never be in the log: answer so, in order with the others.
    Refuse {
        /// Which Front.
        front: FrontId,
        /// One per command.
        waiters: Vec<Waiter>,
        /// Why.
        reason: Unavailable,
    },
    /// Nobody waits for these commands any more. Comes before any entry in which
    /// `ControlCommand::Nothing` has taken the place of one.
    GiveUp {
        /// Which Front.
        front: FrontId,
        /// The commands.
        given_up: Vec<GivenUp>,
        /// Whether their callers are to be told, at once and before the callers of earlier
        /// commands.
        is_told: bool,
    },
    /// Committed entries, in order, without gaps.
    Entries(Vec<replica::Entry>),
    /// Tell this caller once the index is applied.
    Sync {
        /// What must be applied.
        index: LogIndex,
        /// Who asked.
        caller: Caller,
    },
    /// Start an image at the end of the current entry.
    Freeze,
    /// Give the next piece of the image.
    FreezeStep,
    /// Give the image up.
    Thaw,
    /// Look for containers and TTL znodes whose time has come.
    FindContainers(ContainerSearch),
    /// A command to come installs this. Comes before its entry.
    Prepare(PreparedImage),
    /// The state of a snapshot takes the place of the one there is. What comes later goes on from
    /// it.
    Replace {
        /// The snapshot.
        image: WholeSnapshot,
        /// Whether this member has a vote in it. A member that was replaced meanwhile has none: it
        /// comes back as a learner.
        is_voter: bool,
    },
}

impl ToApply {
    /// Whether there is anything to do, and not only to know for later.
    pub fn is_work(&self) -> bool {
        !matches!(self, ToApply::Expect { .. } | ToApply::Prepare(_))
    }
}

/// A command that was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivenUp {
    /// The connection that sent it.
    pub connection: ConnectionId,
    /// As which request.
    pub ticket: Ticket,
    /// Where Loop found it.
    pub at: GivenUpAt,
}

/// Where Loop found a command that was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GivenUpAt {
    /// In a batch without a sequence. Apply has not heard of it.
    Waiting,
    /// In a batch with a sequence. The fate is definite if no leader was ever given the batch.
    Batch {
        /// The sequence of the batch.
        sequence: u64,
        /// The command's position in the batch.
        position: usize,
        /// Whether a leader may have the command.
        fate: Fate,
    },
    /// Nowhere: the command was refused, or applied.
    Nowhere,
}

/// Why a command has no outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// The disk has no room for the log to grow.
    DiskFull,
    /// This member is not the leader and cannot reach it.
    NotLeader,
    /// Its caller gave it up before there was an outcome: without a leader that was given it
    /// (definite), or with one that did not commit it in time (unknown).
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
    /// It has not, and never will: no entry has it.
    Definite,
    /// It may have, or may yet: a leader may have it. It does so once at most.
    Unknown,
}

/// Why a command has no outcome, or what it is.
pub type Answered = Result<Outcome, Unavailable>;

/// What a waiter is told.
#[derive(Clone, Debug)]
pub enum Answer {
    /// To a command and the reads behind it.
    Command {
        /// Who waited.
        connection: ConnectionId,
        /// For which request.
        ticket: Ticket,
        /// Where the command stands.
        mark: Mark,
        /// What came of it.
        answered: Answered,
        /// In the order of the waiter's reads.
        reads: Vec<ReadAnswer>,
    },
    /// To a sync.
    Synced {
        /// Who waited.
        connection: ConnectionId,
        /// For which request.
        ticket: Ticket,
        /// Where the last command applied stands.
        mark: Mark,
    },
}

impl Answer {
    /// Where the answer stands in the order of commands.
    pub fn ordinal(&self) -> Ordinal {
        match self {
            Answer::Command { mark, .. } | Answer::Synced { mark, .. } => mark.ordinal,
        }
    }
}

/// What Apply pushes to a Front before it lets go of the lock.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Changes of this hold, shared by all Fronts.
    pub changes: SharedChanges,
    /// Answers for this Front, in order.
    pub answers: Vec<Answer>,
}

/// What became of those that live while they are heard, for the deadlines that Loop keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerEvent {
    /// Opened or attached.
    Attached {
        /// Which.
        owner: Owner,
        /// Expiry names it.
        attached: Ordinal,
        /// Negotiated.
        timeout_ms: u32,
    },
    /// Closed or expired.
    Ended(Owner),
    /// The state was replaced: of those before there is none. Those that there are now follow.
    AllReplaced,
}

/// An entry of the log that a later version wrote. The data directory is good: that version goes on
/// with it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "log entry {index} needs level {level}, and this version knows up to {level_max}: install {}",
    version.as_ref().map_or("a later version".to_string(), |it| format!("version {it} or later"))
)]
pub struct UnknownEntry {
    /// Its index.
    pub index: u64,
    /// The level that its commands need.
    pub level: Level,
    /// The highest that this build knows.
    pub level_max: Level,
    /// The first version of the program that knows the level, where the entry says it.
    pub version: Option<String>,
}

impl UnknownEntry {
    /// Looks whether a snapshot, whose last entry is that one, is of a level above that one.
    ///
    /// # Errors
    /// It is.
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

    /// Looks whether an entry needs a level above that one.
    ///
    /// # Errors
    /// It does.
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

/// What Apply tells Loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromApply {
    /// Whole entries were applied, or a snapshot was.
    Applied {
        /// Up to this one.
        index: LogIndex,
        /// What became of sessions meanwhile, in order.
        owners: Vec<OwnerEvent>,
        /// The settings, if they were replaced.
        configured: Option<Arc<Settings>>,
        /// The mark of an image, if one was installed.
        installed: Option<Mark>,
        /// What an image has at most after them.
        image_bytes_max: u64,
        /// The last batch of this boot that was applied; 0 before there is one.
        own_sequence: u64,
    },
    /// An image was started.
    Frozen {
        /// At the end of this entry.
        index: LogIndex,
        /// Of that entry.
        term: u64,
        /// The mark of the last command in the image.
        mark: Mark,
        /// What it has at most.
        image_bytes_max: u64,
    },
    /// A piece of the image.
    Piece {
        /// Its bytes.
        bytes: Vec<u8>,
        /// Whether it is the last.
        last: bool,
    },
    /// The image had to be given up.
    FreezeAborted,
    /// Containers and TTL znodes whose time has come.
    Containers(ContainersFound),
    /// What the state's digest is at the end of an entry: of each, and of that of a snapshot which
    /// took the place of the state.
    Digest {
        /// Its index.
        index: LogIndex,
        /// The digest.
        digest: Digest,
    },
    /// The servers, and which of them each member is: each time that changes.
    Servers(Arc<Servers>),
    /// The level has risen, or is that of a snapshot which took the place of the state.
    Raised(StatedLevel),
    /// The log has an entry of a level that this build does not know. Apply applies nothing more.
    Unknown(UnknownEntry),
    /// The state has forgotten this member, whose place another has taken, and Apply applies
    /// nothing more.
    Forgotten,
    /// This member has handed over a batch that it does not know of, and applies nothing more.
    Outlived {
        /// In the start of it with this number.
        boot: BootId,
    },
}

/// One job for the disk thread. Jobs are done in order; whatever is queued goes in one write and
/// one sync.
#[derive(Clone, Debug)]
pub struct DiskJob {
    /// Reported back when it is durable.
    pub id: PersistId,
    /// To be appended; an index that is in the log already replaces it and all behind it.
    pub entries: Vec<storage::wal::LogEntry>,
    /// To be appended behind the entries.
    pub hard_state: Option<storage::wal::HardState>,
    /// The membership, where it changed.
    pub membership: Option<storage::wal::Membership>,
    /// Before the entries: a snapshot, which is durable, takes the place of the whole log. The
    /// membership is its own.
    pub install: Option<storage::wal::SnapshotPoint>,
}

/// One job for the snapshot thread, done in order.
#[derive(Clone, Debug)]
pub enum SnapshotJob {
    /// Start a file.
    Begin {
        /// Counts up from 1: which of those that were begun since the start.
        number: u64,
        /// The last entry it holds.
        index: u64,
        /// Of that entry.
        term: u64,
        /// Active after it.
        membership: storage::wal::Membership,
        /// The mark of the last command in the image. People are shown it; no file's name has it.
        mark: Mark,
    },
    /// Append a piece.
    Piece(Vec<u8>),
    /// End it and give it its name.
    Finish,
    /// Throw it away.
    Abort,
    /// Remove the snapshot that was received: what installed it is covered.
    DiscardReceived,
    /// Set room aside for the next one, and keep as much from now on.
    KeepRoom(RoomWanted),
    /// Read of one that there is, for another member.
    Read {
        /// For whom.
        to: MemberId,
        /// What.
        want: Want,
    },
    /// Append to the one that comes from another member.
    Receive {
        /// Whether this is its beginning: what there was of another is thrown away.
        is_first: bool,
        /// The next bytes.
        bytes: bytes::Bytes,
    },
    /// All of it is there: read it, and give it its name.
    CheckReceived(SnapshotAt),
}

/// What the snapshot thread tells Loop of snapshots that go to other members, or come from them.
#[derive(Debug)]
pub enum FromTransfer {
    /// For another member: a piece, or that there is none.
    Read {
        /// For whom.
        to: MemberId,
        /// What to say.
        message: PeerMessage,
    },
    /// The bytes are in the file.
    Written,
    /// It is whole, and durable under its name.
    Whole(WholeSnapshot),
    /// It cannot be written. Nothing is left of it.
    Failed,
    /// It is not what it should be. Nothing is left of it.
    Spoiled,
}

/// Room to set aside for the next snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoomWanted {
    /// Bytes that the next snapshot has at most, as things stand.
    pub bytes_min: u64,
    /// Bytes without which writes are refused.
    pub bytes: u64,
    /// Bytes to set aside if there is room, so that the state may grow.
    pub bytes_max: u64,
}

/// Room that is set aside for the next snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoomKept {
    /// How much there is.
    pub bytes: u64,
    /// What was wanted at most when that was tried: with less than that the disk has no more.
    pub bytes_wanted: u64,
}

/// What the snapshot thread tells Loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromSnapshot {
    /// The piece is on its way: the next may come.
    PieceWritten,
    /// The snapshot is durable under its name.
    Finished {
        /// The last entry it holds.
        index: u64,
        /// Of that entry.
        term: u64,
    },
    /// It could not be written. Loop schedules it anew.
    Failed,
}

/// A restored or new member, as its data directory gave it.
pub struct Start {
    /// This member and this start of it.
    pub origin: machine::Origin,
    /// For everything drawn at random by the replica.
    pub seed: u64,
    /// What Raft finds on the disk.
    pub restored: replica::Restored,
    /// What the configuration wants the replicated settings to be.
    pub settings: Settings,
    /// What they are in the restored machine.
    pub settings_restored: Settings,
    /// The sessions of the restored machine.
    pub sessions: Vec<OwnerEvent>,
    /// Bytes of log since the snapshot.
    pub log_bytes: u64,
    /// What an image of the restored machine has at most.
    pub image_bytes_max: u64,
    /// The digest of the restored machine.
    pub digest: Digest,
    /// Commands after which a snapshot is taken (`snapCount`); the greatest number: never for
    /// theirs.
    pub snapshot_commands: u64,
    /// Bytes of log after which a snapshot is taken (`snapSizeLimitInKb`); none: never for its
    /// size.
    pub snapshot_log_bytes: Option<u64>,
    /// How long the log's disk may take before it stalls, unless it often is that slow.
    pub disk_stall_ms: u64,
    /// When containers and TTL znodes are looked for.
    pub containers: ContainerSettings,
    /// Length of a tick.
    pub tick_ms: u64,
    /// The shortest timeout of a session that may be opened at any time, in ms.
    pub session_timeout_ms_min: u32,
    /// Length of a tick of the replica.
    pub raft_tick_ms: u64,
    /// What the replica keeps of its log, for members that lag.
    pub log_memory: replica::LogMemory,
    /// Which server of the configuration this member is; 0 where there is no ensemble.
    pub server: u64,
    /// What the configuration wants the list of servers to be; empty: as it is.
    pub servers: ServerList,
    /// What this build knows.
    pub known: Known,
    /// The level of the restored machine.
    pub level: Level,
    /// The servers, and which of them each member is, in the restored machine.
    pub servers_restored: Servers,
}
