//! Loop: the order. It packs what clients hand over into entries, proposes them, sends what is to
//! be persisted to the disk and what is committed to Apply, and keeps the deadlines of sessions and
//! leases.
//!
//! It never waits: for the disk, for Apply or for anyone. The driver feeds it whatever has arrived,
//! then calls [`Loop::finish`], and passes on what that gives. The credits of the Fronts bound what
//! can be waiting here.

mod clock;
mod contact;
mod fetching;
pub(crate) mod forward;
mod fullness;
mod giving_up;
pub(crate) mod hearing;
mod leases;
mod lend;
mod levels;
mod memberships;
mod packing;
mod peers;
pub(crate) mod persisting;
mod records;
mod room;
mod timing;

use std::collections::{BTreeMap, VecDeque};

use machine::entry::{self, BatchBuilder, UnstampedBatch};
use machine::{
    Command, ConnectionId, ControlCommand, Level, LogIndex, Mark, MemberId, Origin, Owner,
    PreparedImage, ServerList, StatedLevel,
};
use replica::{
    Config, EntryKind, PeerStatus, PersistId, ReadId, Replica, ReplicaError, Role, RoleChange,
    SnapshotMeta, Status,
};
use thiserror::Error;

use crate::leader::Leading;
use crate::leader::digests::{Difference, OwnDigests};
use crate::limits::{FULL_INTERVAL_MS, HEARTBEAT_TICKS, REPLACED_SILENCE_MS, SNAPSHOT_RETRY_MS};
use crate::membership::joining::{JoinStep, JoinView};
use crate::membership::levels::Levels;
use crate::membership::servers::Servers;
use crate::message::{
    Caller, DiskJob, FromApply, FromSnapshot, FrontId, LoopInput, SnapshotJob, Start, ToApply,
    ToLoop, Unavailable, UnknownEntry, UnreadableEntry, Waiter,
};
use crate::order::forward::Forwarder;
use crate::order::hearing::Hearing;
use crate::order::persisting::Persisting;
use crate::peer::{ForwardedBatch, Offer, PeerError, PeerFrame, PeerMessage, SnapshotAt};
use crate::snapshot::fetch::CatchUp;
use crate::snapshot::schedule::Snapshots;
use crate::spaces::look::Look;
use crate::spaces::{self, Spaces};
use crate::summary::Latency;

use contact::Contact;
use memberships::Memberships;
use records::{to_log_entry, to_replica};
use room::Room;
use timing::Timing;

pub use records::{to_restored, to_storage};

/// The first of a member's step functions.
pub struct Loop {
    origin: Origin,
    replica: Replica,
    /// The leader that this member follows, where it knows one. None while it leads.
    leader: Option<MemberId>,
    /// The leader and term that were last reported for the log.
    leadership: Leadership,
    timing: Timing,
    /// Loop's clock: the sum of the time that has passed, in ms.
    now_ms: u64,
    contact: Contact,
    /// Set while this member leads.
    leading: Option<Leading>,
    applied: LogIndex,
    /// The commit index that the log held at the start: what is applied up to here is a replay.
    replayed_to: LogIndex,
    forwarder: Forwarder,
    hearing: Hearing,
    waiting: VecDeque<Waiting>,
    persisting: Persisting,
    /// A hard state that changes only the commit index waits here for the next job that syncs.
    lazy_hard_state: Option<storage::wal::HardState>,
    reads: Reads,
    spaces: Spaces,
    snapshots: Snapshots,
    installing: Option<Installing>,
    servers: Servers,
    catch_up: CatchUp,
    memberships: Memberships,
    /// The list of servers that this member wants; empty: it takes any.
    servers_wanted: ServerList,
    levels: Levels,
    room: Room,
    own_digests: OwnDigests,
    /// Set once this member, as leader, has found that its state is not that of the majority.
    differs: Option<Differs>,
    ready: bool,
    counts: LoopCounts,
    output: LoopOutput,
}

/// The counts of Loop since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoopCounts {
    /// Commands in entries that were proposed.
    pub commands_proposed: u64,
    /// Counts of this member's work for the spaces as leader.
    pub spaces: spaces::Counts,
    /// Times that this member, as leader, has found that states differ (`digest_mismatches_count`).
    pub differences: u64,
    /// Bytes of snapshots' files that were sent to other members (`snapshot_bytes_sent`).
    pub snapshot_bytes_sent: u64,
    /// Snapshots that this member has fetched whole (`snapshots_fetched`).
    pub snapshots_fetched: u64,
    /// How many of the fetched snapshots came from a follower (`snapshots_borrowed`).
    pub snapshots_borrowed: u64,
    /// Bytes of the last, the smallest and the largest entry that was proposed; none before the
    /// first.
    pub proposal_bytes: Option<[u64; 3]>,
    /// How often no leader was known any more (`looking_count`).
    pub looking_count: u64,
    /// How long this member knew no leader, each time (`election_time`).
    pub election_time: Latency,
    looking_since_ms: Option<u64>,
    /// How long clients could not be served, each time (`unavailable_time`). A leader serves them
    /// once it has committed an entry of its term; no member serves any before it was ready once.
    pub unavailable_time: Latency,
    unavailable_since_ms: Option<u64>,
    /// How long this member took, as a follower after its start, from knowing a leader to having
    /// applied what was committed then (`follower_sync_time`).
    pub follower_sync_time: Latency,
    following_since_ms: Option<u64>,
    /// Times that this member, as leader, has given another one a snapshot, because the log did not
    /// reach it (`snap_count`).
    pub snapshots_given: u64,
    /// Since when this member leads; none: it does not.
    pub leading_since_ms: Option<u64>,
}

impl LoopCounts {
    /// At the start no leader is known, and no client is served.
    fn at_start() -> LoopCounts {
        LoopCounts {
            looking_count: 1,
            looking_since_ms: Some(0),
            unavailable_since_ms: Some(0),
            ..LoopCounts::default()
        }
    }

    fn on_proposal(&mut self, bytes: u64) {
        let [_, min, max] = self.proposal_bytes.unwrap_or([bytes; 3]);
        self.proposal_bytes = Some([bytes, min.min(bytes), max.max(bytes)]);
    }

    fn on_role(&mut self, is_leader: bool, is_leader_known: bool, now_ms: u64) {
        self.leading_since_ms = match self.leading_since_ms {
            _ if !is_leader => None,
            None => Some(now_ms),
            since => since,
        };
        self.following_since_ms = (is_leader_known && !is_leader).then_some(now_ms);
        match (is_leader_known, self.looking_since_ms) {
            (false, None) => {
                self.looking_count += 1;
                self.looking_since_ms = Some(now_ms);
                self.unavailable_since_ms.get_or_insert(now_ms);
            }
            (true, Some(since_ms)) => {
                self.election_time.record(now_ms.saturating_sub(since_ms));
                self.looking_since_ms = None;
            }
            _ => {}
        }
    }
}

impl LoopCounts {
    /// This member has become ready: if it follows, it has what its leader had.
    fn on_ready(&mut self, now_ms: u64) {
        if let Some(since_ms) = self.following_since_ms {
            self.follower_sync_time.record(now_ms.saturating_sub(since_ms));
        }
    }

    /// Clients are served again, if they were not.
    fn on_available(&mut self, now_ms: u64) {
        if let Some(since_ms) = self.unavailable_since_ms.take() {
            self.unavailable_time.record(now_ms.saturating_sub(since_ms));
        }
    }
}

/// How much Loop keeps for work under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopHeld {
    /// Batches that were given to no leader yet.
    pub batches: usize,
    /// Bytes of own batches that are not applied here.
    pub unapplied_bytes: usize,
    /// Syncs that wait for their index, and questions about leases that wait for an answer.
    pub waiting_reads: usize,
    /// Sessions, leases and nodes of etcd v2 with a deadline.
    pub deadlines: usize,
    /// Places that they take in the order of deadlines: one for each.
    pub deadline_places: usize,
}

/// A snapshot on its way into the state. No other may be received until a snapshot of this member
/// covers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Installing {
    /// The command that installs it was submitted.
    Proposed,
    /// It has become the state. The snapshot with this number will cover it.
    Installed { snapshot: u64 },
}

/// Why a member's directory is not to be used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Condemned {
    /// The log ends before an entry that this member acknowledged as durable: the directory is an
    /// old copy. It may have forgotten a vote as well.
    #[error(
        "this member acknowledged entry {acknowledged}, but its log ends at {last_index}: the \
         directory is an old copy, or writes to it were lost"
    )]
    Forgot {
        /// The index of an entry that this member has acknowledged.
        acknowledged: u64,
        /// The index of the last entry in its log.
        last_index: u64,
    },
    /// The log has another entry at an index that this member acknowledged: the directory is an old
    /// copy.
    #[error(
        "this member acknowledged entry {acknowledged}, but its log has another entry there, of \
         term {term}: the directory is an old copy, or writes to it were lost"
    )]
    HoldsAnother {
        /// The index of the acknowledged entry and of the other one.
        acknowledged: u64,
        /// The term of the entry that the log has there.
        term: u64,
    },
    /// The log holds a batch of a start that this directory does not know of: a later one, or
    /// another one with the same number. The directory is an old copy.
    #[error(
        "the log holds entries of start {boot} of this member, but the directory counts only \
         {own} starts: it is an old copy"
    )]
    Outlived {
        /// The number of the start that handed over the batch.
        boot: u64,
        /// The number of this start.
        own: u64,
    },
    /// Another member took this one's place, and the state no longer knows which of this member's
    /// batches it holds.
    #[error("another member took the place of this one, which was away for too long")]
    Forgotten,
    /// The state is not that of the majority.
    #[error("the state at log index {index} differs from that of the majority of the members")]
    Differs {
        /// The last entry that is applied to both states.
        index: u64,
    },
}

/// A leader whose state is not that of the majority.
#[derive(Clone, Copy)]
struct Differs {
    /// The log index at which the digests differ.
    index: u64,
    since_ms: u64,
}

/// Why a snapshot is not installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum InstallRefused {
    /// The snapshot that was installed before is not covered yet.
    #[error("another snapshot is being restored")]
    UnderWay,
    /// The log cannot take the command.
    #[error("the disk is full")]
    DiskFull,
    /// This member is not the leader, or not yet.
    #[error("this member does not take writes now")]
    NotLeader,
    /// This server is a member of an ensemble, and the others do not have the snapshot.
    #[error(
        "this server is a member of an ensemble: a snapshot is restored by a standalone server"
    )]
    Ensemble,
    /// The snapshot is of a level that this server does not know.
    #[error("the snapshot has level {level}, and this server knows up to {level_max}")]
    Level {
        /// The level of the snapshot.
        level: Level,
        /// The highest level that this server knows.
        level_max: Level,
    },
}

/// A batch that no leader has been given yet.
enum Waiting {
    /// A batch of this member, with its waiters: a Front's clients, or none for one of Loop's own.
    Own { front: Option<FrontId>, batch: UnstampedBatch, waiters: Vec<Waiter> },
    /// A batch that a follower forwarded to this member as leader.
    Forwarded(ForwardedBatch),
}

impl Waiting {
    /// A batch of one command of Loop's own.
    fn by_loop(command: &Command<'_>) -> Waiting {
        let nobody = entry::encode_identities([].into_iter());
        let mut builder = BatchBuilder::default();
        let added = builder.push(ConnectionId(0), &nobody, command);
        assert!(added.is_ok(), "Loop's own commands are bounded far below an entry");
        Waiting::Own { front: None, batch: builder.finish(), waiters: Vec::new() }
    }

    /// Commands and bytes.
    fn size(&self) -> (usize, usize) {
        match self {
            Waiting::Own { batch, .. } => (batch.command_count, batch.byte_count()),
            Waiting::Forwarded(batch) => batch.size(),
        }
    }
}

/// The ReadIndex questions: a read at such an index sees everything that was committed before.
#[derive(Default)]
struct Reads {
    /// Syncs that cannot be asked for yet.
    syncs_wanted: Vec<Caller>,
    under_way: BTreeMap<ReadId, ReadFor>,
    /// Whether the index at which this member becomes ready was asked for.
    is_ready_asked: bool,
    ready_from: Option<LogIndex>,
}

/// The use of the answer to a ReadIndex question.
#[derive(Clone, Copy)]
enum ReadFor {
    Sync(Caller),
    Ready,
    /// A proof that a quorum still followed, as of when it was asked for.
    Contact {
        asked_ms: u64,
    },
    /// A proof for questions about leases that this member leads.
    Leases,
    /// An index from which on batches may be handed over again.
    Proof {
        number: u64,
    },
}

/// Everything that the driver is to pass on, each list in order.
#[derive(Debug, Default)]
pub struct LoopOutput {
    /// Jobs for the disk thread.
    pub disk: Vec<DiskJob>,
    /// Messages for Apply.
    pub apply: Vec<ToApply>,
    /// Jobs for the snapshot thread.
    pub snapshot: Vec<SnapshotJob>,
    /// Frames for other members. The frames to one member arrive in this order or, when a link
    /// breaks, not at all.
    pub peers: Vec<(MemberId, PeerFrame)>,
    /// A durable snapshot covers the log up to this point.
    pub release: Option<storage::wal::SnapshotPoint>,
    /// Whether the log must leave the free room to a snapshot; set each time that changes.
    pub yield_room: Option<bool>,
    /// Whether writes are refused because the disk is full; set each time that changes, for people.
    pub disk_is_full: Option<bool>,
    /// The leader, each time it changes, if there are other members; for people.
    pub leadership: Vec<Leadership>,
    /// Set once, when this member begins to serve clients.
    pub ready: bool,
    /// The time that another leader stamped into the last entry that goes to the disk; none without
    /// such an entry.
    pub proposed_ms: Option<i64>,
    /// Set if the data directory must not be used any more. The driver marks it and ends the
    /// process; another start gets the other members' state.
    pub condemned: Option<Condemned>,
    /// Set if the log has an entry that this build cannot apply. The driver ends the process; the
    /// data directory stays as it is.
    pub unknown: Option<UnknownEntry>,
    /// Set if the log has an entry that cannot be read. The driver ends the process; the data
    /// directory stays as it is.
    pub unreadable: Option<UnreadableEntry>,
    /// The state's level, each time it rises, for the driver to tell other servers.
    pub raised: Option<StatedLevel>,
    /// The revision that the leader compacts etcd's keys to by itself; for people.
    pub compacting: Option<i64>,
    /// Differences that a leader found when it compared digests; for people.
    pub differences: Vec<Difference>,
    /// Snapshots that this member begins to fetch; for people.
    pub fetching: Vec<Fetching>,
    /// The mark of a snapshot that was installed.
    pub installed: Option<Mark>,
}

/// A snapshot that this member begins to fetch, since the leader's log does not reach it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetching {
    /// The index of the last entry that the snapshot holds.
    pub index: u64,
    /// The member that sends it.
    pub holder: MemberId,
    /// The number of that member's server, where it is known.
    pub server: Option<u64>,
}

/// A member that sent what no correct member sends.
#[derive(Debug)]
pub struct BadPeer {
    /// The member that sent it.
    pub from: MemberId,
    /// The error in what it sent.
    pub error: PeerError,
}

/// The leader of an ensemble, as this member knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// This member leads, in this term.
    Own(u64),
    /// Another member leads, in this term, with the number of its server where that is known.
    Other(u64, MemberId, Option<u64>),
    /// This member knows no leader.
    Nobody,
}

impl Loop {
    /// A member as its data directory gave it; not yet a leader.
    ///
    /// # Errors
    /// The restored state contradicts itself.
    pub fn new(start: Start) -> Result<Loop, ReplicaError> {
        let applied = LogIndex(start.restored.applied_index);
        let (index, term) = (start.restored.snapshot_index, start.restored.snapshot_term);
        let snapshots = Snapshots::new(
            start.snapshot_commands,
            start.snapshot_log,
            storage::wal::SnapshotPoint { index, term },
            start.log_bytes,
        );
        // A replay ends before the first entry that changes the membership.
        let memberships = Memberships::new(LogIndex(index), to_storage(&start.restored.membership));
        let config = Config {
            log_memory: start.log_memory,
            heartbeat_ticks: HEARTBEAT_TICKS,
            ..Config::new(start.origin.member.0, start.seed, start.origin.boot.0)
        };
        let replica = Replica::new(config, start.restored)?;
        Ok(Loop {
            origin: start.origin,
            replayed_to: LogIndex(replica.commit_index()),
            replica,
            leader: None,
            leadership: Leadership::Nobody,
            timing: Timing::new(start.raft_tick_ms),
            now_ms: 0,
            contact: Contact::new(start.session_timeout_ms_min),
            leading: None,
            applied,
            forwarder: Forwarder::new(start.origin),
            hearing: Hearing::new(start.origin.boot),
            waiting: VecDeque::new(),
            persisting: Persisting::new(start.disk_stall_ms),
            lazy_hard_state: None,
            reads: Reads::default(),
            spaces: start.spaces,
            snapshots,
            installing: None,
            servers: Servers::new((start.origin.member, start.server), start.servers_restored),
            catch_up: CatchUp::Idle,
            memberships,
            servers_wanted: start.servers,
            levels: Levels::new(start.known, start.level),
            room: Room::new(start.image_bytes_max),
            own_digests: OwnDigests::new(applied.0, start.digest),
            differs: None,
            ready: false,
            counts: LoopCounts::at_start(),
            output: LoopOutput::default(),
        })
    }

    // Input.

    /// Takes one input. The driver calls it for each input in order, then [`Loop::finish`].
    ///
    /// # Errors
    /// A member sent what no correct member sends: its links are to be closed.
    pub fn handle(&mut self, input: LoopInput) -> Result<(), BadPeer> {
        match input {
            LoopInput::Front(message) => self.on_front(message),
            LoopInput::Apply(message) => self.on_apply(message),
            LoopInput::Persisted(id) => self.on_persisted(id),
            LoopInput::DiskRoom { is_full } => self.on_disk_room(is_full),
            LoopInput::SnapshotRoom(kept) => self.on_snapshot_room(kept),
            LoopInput::Snapshot(message) => self.on_snapshot(message),
            LoopInput::Transfer(message) => self.on_transfer(message),
            LoopInput::Peer { from, frame } => {
                self.on_peer(from, frame).map_err(|error| BadPeer { from, error })?;
            }
            LoopInput::Link { peer, is_up } => self.on_link(peer, is_up),
            LoopInput::Linked { peer, server } => self.on_linked(peer, server),
        }
        Ok(())
    }

    /// Takes a message of a Front.
    fn on_front(&mut self, message: ToLoop) {
        match message {
            ToLoop::Submit(submission) if self.room.is_full || self.leader_is_full() => {
                let (front, waiters) = (submission.front, submission.waiters);
                let reason = Unavailable::DiskFull;
                self.output.apply.push(ToApply::Refuse { front, waiters, reason });
            }
            ToLoop::Submit(submission) => self.waiting.push_back(Waiting::Own {
                front: Some(submission.front),
                batch: submission.batch,
                waiters: submission.waiters,
            }),
            ToLoop::Sync(caller) => self.reads.syncs_wanted.push(caller),
            ToLoop::AskLeases(questions) => {
                self.spaces.etcd.questions.ask(questions, self.now_ms);
            }
            ToLoop::Heard(owners) if self.leads() => {
                owners.into_iter().for_each(|owner| self.spaces.zk.heard(owner));
            }
            ToLoop::Heard(owners) => self.hearing.heard(owners),
            ToLoop::GiveUp(front, callers) => self.give_up_requests(front, callers),
            ToLoop::Withdraw(front, connections) => self.give_up_connections(front, &connections),
            ToLoop::Need(level) => self.need_level(level),
        }
    }

    /// How many batches no leader was given yet.
    pub fn waiting_count(&self) -> usize {
        self.waiting.len()
    }

    fn condemn(&mut self, why: Condemned) {
        self.output.condemned.get_or_insert(why);
    }

    /// Takes a message of Apply.
    fn on_apply(&mut self, message: FromApply) {
        match message {
            FromApply::Applied { index, news, installed, image_bytes_max, own_sequence } => {
                assert!(index >= self.applied);
                self.applied = index;
                self.forwarder.on_applied(own_sequence);
                self.room.snapshot.on_applied(index, image_bytes_max);
                self.replica.on_applied(index.0);
                if news.zk.settings.is_some() || news.etcd.settings.is_some() {
                    self.end_configuring();
                }
                self.spaces.on_applied(news);
                if installed.is_some() {
                    self.output.installed = installed;
                    self.installing =
                        Some(Installing::Installed { snapshot: self.snapshots.want() });
                }
            }
            FromApply::Digest { index, digest } => self.on_own_digest(index.0, digest),
            FromApply::Outlived { boot } => {
                let (boot, own) = (boot.count(), self.origin.boot.count());
                self.condemn(Condemned::Outlived { boot, own });
            }
            FromApply::Forgotten => self.condemn(Condemned::Forgotten),
            FromApply::Raised(stated) => self.on_raised(stated),
            FromApply::Unknown(entry) => self.output.unknown = Some(entry),
            FromApply::Unreadable(entry) => self.output.unreadable = Some(entry),
            FromApply::Servers(servers) => {
                if let Some(leading) = &mut self.leading {
                    leading.is_configuring &= *servers.list() == *self.servers.registered.list();
                    leading.joining.on_registered();
                }
                self.servers.registered = servers;
            }
            FromApply::Found(found) => {
                if let Some(command) = self.spaces.zk.on_found(&found) {
                    self.submit_own(&command);
                }
            }
            message => {
                if let FromApply::Frozen { image_bytes_max, .. } = message {
                    self.output.snapshot.push(self.room.snapshot.on_begin(image_bytes_max));
                }
                let membership = self.membership_of(&message);
                self.output.snapshot.extend(self.snapshots.on_apply(message, &membership));
            }
        }
    }

    /// The membership at the snapshot that begins, or the newest.
    fn membership_of(&self, message: &FromApply) -> storage::wal::Membership {
        match message {
            FromApply::Frozen { index, .. } => self.memberships.at(*index).clone(),
            _ => self.membership().clone(),
        }
    }

    fn membership(&self) -> &storage::wal::Membership {
        self.memberships.newest()
    }

    /// Whether this member leads.
    fn leads(&self) -> bool {
        self.leading.is_some()
    }

    fn is_voter(&self) -> bool {
        self.membership().voters.contains(&self.origin.member.0)
    }

    /// Takes the news that every disk job up to this one is durable.
    fn on_persisted(&mut self, id: PersistId) {
        self.persisting.on_persisted();
        while let Some(job) = self.persisting.pop(id) {
            self.replica.on_persisted(job);
        }
        self.finish_unsynced_jobs();
        if let Some(image) = self.catch_up.take_replacing(id) {
            let is_voter = self.is_voter();
            self.output.apply.push(ToApply::Replace { image, is_voter });
        }
    }

    /// Takes a message of the snapshot thread.
    fn on_snapshot(&mut self, message: FromSnapshot) {
        if let FromSnapshot::Finished { index, term } = message {
            self.room.snapshot.on_finished();
            let membership = to_replica(self.memberships.at(LogIndex(index)));
            self.memberships.forget_before(LogIndex(index));
            self.replica.on_snapshot_taken(SnapshotMeta { index, term, membership });
        }
        if message == FromSnapshot::Failed {
            self.snapshots.on_failed(self.now_ms);
        }
        self.output.apply.extend(self.snapshots.on_snapshot(message));
        if matches!(message, FromSnapshot::Finished { .. }) {
            self.maybe_discard_received();
            let is_full = self.room.is_full || self.room.log_yields;
            self.output.release = Some(self.snapshots.release(is_full));
        }
    }

    /// Removes the file of an installed snapshot once a newer snapshot covers it: the log that
    /// names the file is let go of, too.
    fn maybe_discard_received(&mut self) {
        if let Some(Installing::Installed { snapshot }) = self.installing
            && self.snapshots.begun() >= snapshot
        {
            self.installing = None;
            self.snapshots.forget_older();
            self.output.snapshot.push(SnapshotJob::DiscardReceived);
        }
    }

    /// Whether a snapshot may be received, to be installed.
    ///
    /// # Errors
    /// The reason it could not be installed now.
    pub fn check_install(&self) -> Result<(), InstallRefused> {
        match () {
            () if !self.is_alone() => Err(InstallRefused::Ensemble),
            () if !self.leads() || !self.ready => Err(InstallRefused::NotLeader),
            () if self.room.is_full => Err(InstallRefused::DiskFull),
            () if self.installing.is_some() => Err(InstallRefused::UnderWay),
            () => Ok(()),
        }
    }

    /// Replaces the state by that of a snapshot, which the data directory holds, after everything
    /// that was handed over so far. [`LoopOutput::installed`] says when it is done.
    ///
    /// # Errors
    /// The snapshot cannot be installed now. Nothing has happened, and nothing names it.
    pub fn install(&mut self, image: PreparedImage) -> Result<(), InstallRefused> {
        self.check_install()?;
        let (level, level_max) = (image.machine.control().level().level, self.levels.own_max());
        if level > level_max {
            return Err(InstallRefused::Level { level, level_max });
        }
        self.installing = Some(Installing::Proposed);
        self.submit_own(&Command::Control(ControlCommand::InstallImage { hash: image.hash }));
        self.output.apply.push(ToApply::Prepare(image));
        Ok(())
    }

    /// Does what is due by now. `counted_ms` is the time that counts against others (see
    /// [`clock`]), `elapsed_ms` what the clock says.
    fn pursue(&mut self, counted_ms: u64, elapsed_ms: u64) {
        if !self.leads() && self.forwarder.is_silent_after(counted_ms) {
            self.forwarder.restart();
        }
        self.pursue_contact();
        self.pursue_snapshots();
        self.pursue_joining();
        self.pursue_level();
        let is_leader_known = self.leader.is_some() || self.leads();
        self.spaces.etcd.questions.on_time(self.now_ms, is_leader_known);
        self.pursue_difference();
        self.check_stall(counted_ms);
        if self.leads() && self.room.is_full {
            // No voter takes it where all disks are full.
            self.hand_over(None);
        }
        self.room.snapshot.advance(elapsed_ms);
        if self.room.is_full {
            if self.now_ms >= self.room.say_full_at_ms {
                self.room.say_full_at_ms = self.now_ms + FULL_INTERVAL_MS;
                self.send_to_all(&PeerMessage::Full(true));
            }
            self.room.full_ms += elapsed_ms;
            if self.room.full_ms >= SNAPSHOT_RETRY_MS {
                self.room.full_ms = 0;
                self.snapshots.make_due();
            }
        }
        self.pursue_spaces(elapsed_ms);
    }

    /// Submits the commands that are due for the spaces.
    fn pursue_spaces(&mut self, elapsed_ms: u64) {
        let look = Look {
            now_ms: self.now_ms,
            elapsed_ms,
            leads: self.is_caught_up() && self.ready,
            has_room: !self.room.is_full,
            level: self.levels.replicated(),
        };
        let waiting = &mut self.waiting;
        self.spaces.due(&look, &mut |command| waiting.push_back(Waiting::by_loop(command)));
        self.output.compacting = self.spaces.etcd.take_compacting().or(self.output.compacting);
    }

    /// Takes the next step for members that come or go.
    fn pursue_joining(&mut self) {
        if !self.is_caught_up() || self.is_alone() {
            return;
        }
        let level = self.level_to_join();
        let Some(leading) = &mut self.leading else { return };
        let membership = self.replica.membership().clone();
        let step = leading.joining.step(&JoinView {
            servers: &self.servers,
            membership: &membership,
            peers: &self.replica.peers(),
            last_index: self.replica.status().last_index,
            silent_ticks_min: REPLACED_SILENCE_MS / self.timing.raft_tick_ms,
            level,
            has_listened: self.now_ms >= leading.since_ms + REPLACED_SILENCE_MS,
            now_ms: self.now_ms,
        });
        match step {
            Some(JoinStep::Submit(command)) => self.submit_own(&command),
            Some(JoinStep::Change(change)) => {
                // A refused change is tried again: another change is under way, or leadership
                // moves.
                let _ = self.replica.propose_membership(&change);
            }
            None => {}
        }
    }

    /// A leader with a stalled disk hands leadership to the voter that is least behind. If it still
    /// leads once the disk has stalled for long, it resigns.
    fn check_stall(&mut self, elapsed_ms: u64) {
        self.persisting.advance(elapsed_ms);
        if !self.leads() || self.is_alone() || !self.persisting.is_stalled() {
            return;
        }
        if self.persisting.is_stalled_for_long() {
            self.replica.resign();
        } else {
            self.hand_over(None);
        }
    }

    /// Hands leadership to a voter that is reachable and has room on its disk: to the given one, or
    /// to the one that is least behind. False if this member does not lead, or no voter can take
    /// it.
    pub fn hand_over(&mut self, to: Option<MemberId>) -> bool {
        let voters = &self.replica.membership().voters;
        let peers = self.replica.peers();
        let mut candidates =
            peers.iter().filter(|peer| voters.contains(&peer.member_id) && self.is_there(peer));
        let chosen = match to {
            Some(to) => candidates.find(|peer| peer.member_id == to.0),
            None => candidates.max_by_key(|peer| peer.matched_index),
        };
        let Some(to) = chosen.map(|peer| peer.member_id) else { return false };
        if self.replica.status().transferring_to == Some(to) {
            return true;
        }
        self.replica.transfer_leader(to).is_ok()
    }

    /// Asks for a snapshot of the state as it is now. Returns its number: the request is over once
    /// that snapshot, or a later one, was finished or has failed.
    pub fn want_snapshot(&mut self) -> u64 {
        self.snapshots.want()
    }

    /// This member's id.
    pub fn id(&self) -> MemberId {
        self.origin.member
    }

    /// The replica's term, role and indexes.
    pub fn status(&self) -> Status {
        self.replica.status()
    }

    /// The Raft term.
    pub fn term(&self) -> u64 {
        self.replica.term()
    }

    /// The index of the last entry that is known to be committed.
    pub fn commit_index(&self) -> u64 {
        self.replica.commit_index()
    }

    /// The members whose votes count, by member id; while a change is under way also the voters
    /// that are to leave.
    pub fn voters(&self) -> Vec<u64> {
        let membership = self.replica.membership();
        let mut voters = [&membership.voters[..], &membership.voters_outgoing].concat();
        voters.sort_unstable();
        voters.dedup();
        voters
    }

    /// The members that have the log and no vote, by member id.
    pub fn learners(&self) -> Vec<u64> {
        self.replica.membership().learners.clone()
    }

    /// The other members as a leader sees them; empty at a follower.
    pub fn peers(&self) -> Vec<PeerStatus> {
        self.replica.peers()
    }

    /// The member that sends the snapshot that this member is fetching, if it fetches one.
    pub fn fetches_from(&self) -> Option<MemberId> {
        self.catch_up.fetch().map(|fetch| fetch.holder)
    }

    /// The counts since the start.
    pub fn counts(&self) -> LoopCounts {
        LoopCounts { spaces: self.spaces.counts(), ..self.counts }
    }

    /// Sessions with the time that they have left, in ms: at most `max` of them, and the number of
    /// all.
    pub fn sessions(&self, max: usize) -> (Vec<(Owner, u64)>, usize) {
        self.spaces.zk.sessions(max)
    }

    /// How much Loop keeps, for tests of its bounds. Looks at all places of deadlines.
    pub fn held(&self) -> LoopHeld {
        let is_sync = |read: &&ReadFor| matches!(read, ReadFor::Sync(..));
        let spaces = self.spaces.held();
        LoopHeld {
            batches: self.waiting.len(),
            unapplied_bytes: self.forwarder.unapplied_bytes(),
            waiting_reads: self.reads.syncs_wanted.len()
                + self.reads.under_way.values().filter(is_sync).count()
                + spaces.questions,
            deadlines: spaces.deadlines,
            deadline_places: spaces.deadline_places,
        }
    }

    // Output.

    /// Does what the messages since the last call made possible, and returns the output for the
    /// driver. `wall_ms` is stamped into new entries.
    pub fn finish(&mut self, wall_ms: i64) -> LoopOutput {
        self.maybe_campaign();
        self.maybe_configure();
        self.report_heard();
        self.ask_leases();
        self.read_indexes();
        self.output.apply.extend(self.spaces.zk.search(wall_ms).map(ToApply::Search));
        self.check_room();
        self.pack(wall_ms);
        while self.replica.has_effects() {
            self.take_effects();
        }
        // Effects may have made room for more, or made this member the leader.
        self.pack(wall_ms);
        while self.replica.has_effects() {
            self.take_effects();
        }
        self.maybe_begin_snapshot();
        let persisted_index = self.replica.status().persisted_index;
        self.output.snapshot.extend(self.snapshots.maybe_finish(persisted_index));
        self.output.snapshot.extend(self.room.snapshot.maybe_ask());
        self.maybe_ready();
        self.answer_leases();
        self.answer_reports();
        self.note_availability();
        core::mem::take(&mut self.output)
    }

    /// Begins the snapshot that is due, but not during the replay of a start: it would hold only
    /// what is applied so far, and the log that made it due would stay.
    fn maybe_begin_snapshot(&mut self) {
        if self.applied >= self.replayed_to {
            let state_bytes = self.room.snapshot.state_bytes();
            self.output.apply.extend(self.snapshots.maybe_begin(state_bytes));
        }
    }

    /// A lone voter does not wait for an election timeout.
    fn maybe_campaign(&mut self) {
        if self.is_alone() && !self.leads() {
            // A refused campaign is tried again after every message.
            let _ = self.replica.campaign();
        }
    }

    fn is_alone(&self) -> bool {
        let membership = self.membership();
        membership.voters == [self.origin.member.0] && membership.voters_outgoing.is_empty()
    }

    /// Whether this member leads and has applied everything that earlier leaders committed.
    fn is_caught_up(&self) -> bool {
        self.leading.as_ref().is_some_and(|leading| leading.is_caught_up(self.applied))
    }

    fn report_heard(&mut self) {
        if let Some(leader) = self.leader
            && let Some(report) = self.hearing.report(self.now_ms)
        {
            self.send(leader, report);
        }
    }

    /// Submits this leader's settings and servers where the state has others: the leader's
    /// configuration is the ensemble's.
    fn maybe_configure(&mut self) {
        let may = |leading: &Leading| leading.is_caught_up(self.applied) && !leading.is_configuring;
        if self.leading.as_ref().is_none_or(|leading| !may(leading)) {
            return;
        }
        if let Some(command) = self.configuration() {
            self.submit_own(&command);
            self.leading.iter_mut().for_each(|leading| leading.is_configuring = true);
        }
    }

    /// The command that makes the replicated state what this member's configuration wants; `None`
    /// if it is so.
    fn configuration(&self) -> Option<Command<'static>> {
        let wanted = self.spaces.wanted(self.levels.replicated());
        if wanted.is_some() || self.servers_wanted.servers.is_empty() {
            return wanted;
        }
        let wanted = self.servers.with_client_urls(self.servers_wanted.clone());
        let wants_others = *self.servers.registered.list() != wanted;
        wants_others.then_some(Command::Control(ControlCommand::SetServers(wanted)))
    }

    /// Settings that this leader had submitted are in the state; others may have to follow.
    fn end_configuring(&mut self) {
        if let Some(leading) = &mut self.leading {
            leading.is_configuring = false;
        }
    }

    fn maybe_ready(&mut self) {
        if self.ready {
            return;
        }
        let is_ready = match self.leads() {
            true => self.is_caught_up() && self.configuration().is_none(),
            // A learner takes no commands: if it had, and were then given a snapshot in which none
            // of them is applied, it would take itself for a member that was forgotten.
            false => {
                self.is_voter() && self.reads.ready_from.is_some_and(|index| self.applied >= index)
            }
        };
        if is_ready {
            self.ready = true;
            self.output.ready = true;
            self.counts.on_ready(self.now_ms);
            self.spaces.renew_all();
        }
    }

    fn submit_own(&mut self, command: &Command<'_>) {
        self.waiting.push_back(Waiting::by_loop(command));
    }

    fn read_indexes(&mut self) {
        self.ask_proof();
        self.confirm_leases();
        for caller in core::mem::take(&mut self.reads.syncs_wanted) {
            match self.replica.read_index() {
                Ok(read) => {
                    self.reads.under_way.insert(read, ReadFor::Sync(caller));
                }
                Err(_) => self.reads.syncs_wanted.push(caller),
            }
        }
        let wants_ready = !self.ready && !self.reads.is_ready_asked && self.leader.is_some();
        if wants_ready && let Ok(read) = self.replica.read_index() {
            self.reads.is_ready_asked = true;
            self.reads.under_way.insert(read, ReadFor::Ready);
        }
    }

    fn take_effects(&mut self) {
        let effects = self.replica.effects();
        if let Some(change) = effects.role_change {
            self.on_role(change);
        }
        for at in &effects.memberships {
            self.memberships.push(LogIndex(at.index), to_storage(&at.membership));
        }
        if let Some(persist) = effects.persist {
            let changed = effects.memberships.last().map(|at| to_storage(&at.membership));
            self.persist(persist, changed);
        }
        if !effects.committed.is_empty() {
            self.output.apply.push(ToApply::Entries(effects.committed));
        }
        for (read, index) in effects.reads {
            let index = LogIndex(index);
            match self.reads.under_way.remove(&read).expect("only own reads return") {
                ReadFor::Sync(caller) => {
                    self.output.apply.push(ToApply::Sync { index, caller });
                }
                ReadFor::Ready => self.reads.ready_from = Some(index),
                ReadFor::Contact { asked_ms } => self.on_contact(Some(asked_ms)),
                ReadFor::Leases => self.on_lease_round(read, Some(index)),
                ReadFor::Proof { number } => self.on_proof(number, Some(index)),
            }
        }
        for read in effects.reads_failed {
            match self.reads.under_way.remove(&read).expect("only own reads fail") {
                ReadFor::Sync(caller) => self.reads.syncs_wanted.push(caller),
                ReadFor::Ready => self.reads.is_ready_asked = false,
                ReadFor::Contact { .. } => self.on_contact(None),
                ReadFor::Leases => self.on_lease_round(read, None),
                ReadFor::Proof { number } => self.on_proof(number, None),
            }
        }
        for message in effects.messages {
            let to = MemberId(message.to);
            let message = match message.snapshot {
                Some(meta) => {
                    let leading = self.leading.as_mut();
                    let lender =
                        leading.as_ref().and_then(|it| it.lending.lender_of(to, meta.index));
                    let holder = lender.unwrap_or(self.origin.member);
                    let offer = Offer { holder, message: message.bytes };
                    if let Some(leading) = leading {
                        leading.offers.offer(to, offer.clone(), &meta, self.now_ms);
                    }
                    PeerMessage::Offer(offer)
                }
                None => PeerMessage::Raft(message.bytes),
            };
            self.send(to, message);
        }
        for wanted in effects.snapshots_wanted {
            self.on_snapshot_wanted(wanted);
        }
    }

    /// Takes a change of role, term or leader. Batches that the leader before was given may be
    /// lost.
    fn on_role(&mut self, change: RoleChange) {
        self.note_leadership(&change);
        self.leader = change.leader.map(MemberId).filter(|leader| *leader != self.origin.member);
        let is_leader = change.role == Role::Leader;
        self.counts.on_role(is_leader, change.leader.is_some(), self.now_ms);
        if self.leading.take().is_some() {
            self.spaces.end_leading();
            self.give_up_forwarded();
        }
        self.forwarder.restart();
        self.hearing.restart();
        self.spaces.etcd.questions.restart(self.now_ms);
        if change.role == Role::Leader {
            let from = LogIndex(self.replica.status().last_index);
            self.leading = Some(Leading::new(self.now_ms, from));
            self.ask_contact();
            self.spaces.begin_leading();
            self.hearing.take();
        }
        if self.leader.is_some() {
            self.give_newest_digest();
        }
        if self.leader_is_full() {
            self.refuse_waiting();
        }
    }

    fn note_availability(&mut self) {
        if self.counts.unavailable_since_ms.is_none() {
            return;
        }
        let takes_part = match self.leads() {
            true => self.replica.status().has_committed_in_term,
            false => self.leader.is_some(),
        };
        if takes_part && self.ready {
            self.counts.on_available(self.now_ms);
        }
    }

    fn note_leadership(&mut self, change: &RoleChange) {
        let own = self.origin.member.0;
        let leadership = match change.leader {
            Some(leader) if leader == own => Leadership::Own(change.term),
            Some(leader) => {
                let leader = MemberId(leader);
                Leadership::Other(change.term, leader, self.servers.server_of(leader))
            }
            None => Leadership::Nobody,
        };
        if leadership != self.leadership && !self.is_alone() {
            self.output.leadership.push(leadership);
        }
        self.leadership = leadership;
    }

    /// Drops Loop's own batches, which only a leader needs, and those that followers forwarded: the
    /// followers send theirs again, to the next leader.
    fn give_up_forwarded(&mut self) {
        self.forwarder.empty_own_batches();
        self.waiting.retain(|waiting| matches!(waiting, Waiting::Own { front: Some(_), .. }));
    }

    fn persist(&mut self, persist: replica::Persist, membership: Option<storage::wal::Membership>) {
        let install = persist.install.map(|meta| self.install_snapshot(persist.id, meta));
        // A received snapshot that the log has reached by itself need not be installed. Its file
        // stays.
        let commit_index = self.replica.commit_index();
        self.catch_up.take_whole_if(|whole| whole.at.index <= commit_index);
        let hard_state = persist.hard_state.map(|state| storage::wal::HardState {
            term: state.term,
            vote: state.vote,
            commit: state.commit,
        });
        let is_lazy = !persist.must_sync && persist.entries.is_empty();
        if is_lazy && membership.is_none() && install.is_none() {
            self.lazy_hard_state = hard_state.or(self.lazy_hard_state.take());
            self.persisting.push_unsynced(persist.id);
            self.finish_unsynced_jobs();
            return;
        }
        let bytes = persist.entries.iter().map(|entry| entry.payload.len()).sum();
        self.persisting.push(persist.id, bytes);
        let (point, membership) = match install {
            Some((point, of_snapshot)) => (Some(point), Some(of_snapshot)),
            None => (None, membership),
        };
        for entry in &persist.entries {
            let bytes = entry.payload.len();
            let batch_bytes = bytes.saturating_sub(entry::HEADER_BYTES);
            self.snapshots.count(batch_bytes, entry::command_count(&entry.payload));
            self.room.snapshot.on_proposed(LogIndex(entry.index), bytes as u64);
        }
        let mut entries = persist.entries.iter();
        if !self.leads()
            && let Some(last) = entries.rfind(|entry| entry.kind == EntryKind::Normal)
            && let Ok(header) = entry::decode_header(&last.payload)
        {
            self.output.proposed_ms = Some(header.time_ms);
        }
        self.output.disk.push(DiskJob {
            id: persist.id,
            entries: persist.entries.into_iter().map(to_log_entry).collect(),
            hard_state: hard_state.or(self.lazy_hard_state),
            membership,
            install: point,
        });
        self.lazy_hard_state = None;
    }

    /// Puts the received snapshot in place of the replica's log.
    fn install_snapshot(
        &mut self,
        job: PersistId,
        meta: SnapshotMeta,
    ) -> (storage::wal::SnapshotPoint, storage::wal::Membership) {
        let at = SnapshotAt { index: meta.index, term: meta.term };
        let image = self.catch_up.take_whole_if(|image| image.at == at);
        let image = image.expect("only the message of a snapshot that is there is stepped");
        self.catch_up = CatchUp::Replacing { job, image };
        let point = storage::wal::SnapshotPoint { index: meta.index, term: meta.term };
        self.snapshots.on_installed(point);
        let membership = to_storage(&meta.membership);
        self.memberships.push(LogIndex(meta.index), membership.clone());
        (point, membership)
    }

    /// Finishes jobs that need no sync once all jobs before them are durable.
    fn finish_unsynced_jobs(&mut self) {
        while let Some(job) = self.persisting.pop_unsynced() {
            self.replica.on_persisted(job);
        }
    }
}

#[cfg(test)]
mod tests;
