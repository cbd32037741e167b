//! The facade over raft-rs. It makes every call into raft-rs, and handles every case in which
//! raft-rs would panic, silently drop something, or leave the work to its user.
//!
//! Invariants: each entry is handed out to the caller once, in order, and only when committed. A
//! membership entry is handed out only when it is also on this member's disk, and its membership is
//! active from then on. This member never campaigns when raft-rs would refuse or panic (see
//! [`CampaignObstacle`]).
//!
//! raft-rs hands out entries that are committed and on this member's own disk. But an entry on a
//! quorum's disks is committed, whether this disk has it or not. So this module hands out such an
//! entry ahead of raft-rs, and a stalled disk delays no client. It reports the entry to raft-rs as
//! applied only after raft-rs has handed it out as well.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use raft::eraftpb::{self, EntryType, MessageType};
use raft::{ProgressState, RawNode, ReadOnlyOption, SnapshotStatus, StateRole};

use crate::codec::MessageError;
use crate::effects::{
    Effects, Entry, EntryKind, HardState, MembershipAt, Outgoing, Persist, PersistId, Position,
    ReadId, Restored, Role, RoleChange, SnapshotMeta,
};
use crate::jitter::{self, Draw};
use crate::limits::{
    APPEND_BYTES_MAX, APPENDS_IN_FLIGHT_MAX, AWAY_TIMEOUTS, COMMITTED_BYTES_PER_EFFECTS_MAX,
    ENTRY_BYTES_MAX, INDEX_MAX, LOG_BYTES_AWAY_MAX, LOG_BYTES_MAX, LOG_BYTES_PINNED_MAX,
    READ_RETRY_TICKS, TERM_MAX, UNCOMMITTED_BYTES_MAX,
};
use crate::log::{Log, Needed};
use crate::members::{self, Membership, MembershipChange};
use crate::message::{self, Decoded};
use crate::pending::{Job, Pending};
use crate::reads::{ReadConfig, Reads};

/// The settings of a replica, fixed at start.
#[derive(Clone, Debug)]
pub struct Config {
    pub group_id: u32,
    /// This member's id. Not 0, and never used by another data directory.
    pub member_id: u64,
    /// The seed of the random election timeouts; may be equal on all members.
    pub seed: u64,
    /// The id of this boot. It differs between any two boots of one member, which makes ReadIndex
    /// contexts unique.
    pub boot_id: u64,
    /// The least number of ticks without a leader before an election. Each random timeout is at
    /// least this and below twice this.
    pub election_ticks: u32,
    /// Ticks between two heartbeats of a leader; less than `election_ticks`.
    pub heartbeat_ticks: u32,
    /// Ticks after which a linearizable read without an index fails.
    pub read_deadline_ticks: u32,
    pub log_memory: LogMemory,
    /// See `limits::UNCOMMITTED_BYTES_MAX`; at least `limits::APPEND_BYTES_MAX`.
    pub uncommitted_bytes_max: u64,
}

/// How many bytes of applied entries stay in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogMemory {
    /// See `limits::LOG_BYTES_MAX`.
    pub bytes_max: usize,
    /// See `limits::LOG_BYTES_AWAY_MAX`.
    pub away_bytes_max: usize,
    /// See `limits::LOG_BYTES_PINNED_MAX`.
    pub pinned_bytes_max: usize,
}

impl Default for LogMemory {
    fn default() -> LogMemory {
        LogMemory {
            bytes_max: LOG_BYTES_MAX,
            away_bytes_max: LOG_BYTES_AWAY_MAX,
            pinned_bytes_max: LOG_BYTES_PINNED_MAX,
        }
    }
}

impl Config {
    /// The usual settings: heartbeats every 2 ticks, elections after 20, reads fail after 100.
    pub fn new(member_id: u64, seed: u64, boot_id: u64) -> Config {
        Config {
            group_id: 0,
            member_id,
            seed,
            boot_id,
            election_ticks: 20,
            heartbeat_ticks: 2,
            read_deadline_ticks: 100,
            log_memory: LogMemory::default(),
            uncommitted_bytes_max: UNCOMMITTED_BYTES_MAX,
        }
    }

    fn to_raft(&self, applied_index: u64) -> raft::Config {
        let ticks = |count: u32| usize::try_from(count).expect("usize has 64 bits");
        raft::Config {
            id: self.member_id,
            election_tick: ticks(self.election_ticks),
            heartbeat_tick: ticks(self.heartbeat_ticks),
            applied: applied_index,
            max_size_per_msg: APPEND_BYTES_MAX,
            max_inflight_msgs: APPENDS_IN_FLIGHT_MAX,
            check_quorum: true,
            pre_vote: true,
            // The random timeout must be able to cover [election_ticks, 2 * election_ticks).
            min_election_tick: ticks(self.election_ticks),
            max_election_tick: ticks(self.election_ticks) * 2,
            read_only_option: ReadOnlyOption::Safe,
            skip_bcast_commit: false,
            batch_append: false,
            priority: 0,
            max_uncommitted_size: self.uncommitted_bytes_max,
            max_committed_size_per_ready: COMMITTED_BYTES_PER_EFFECTS_MAX,
        }
    }
}

/// Why a replica cannot start. The process must end: either the settings are wrong, or the disk
/// lacks something that this member has promised.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplicaError {
    #[error("configuration: {reason}")]
    Config { reason: String },
    #[error("the restored membership is invalid: {what}")]
    Membership { what: &'static str },
    #[error("the restored {what} {value} is above {value_max}")]
    TooHigh { what: &'static str, value: u64, value_max: u64 },
    #[error("entry {index} has {bytes} bytes, {bytes_max} allowed")]
    TooLarge { index: u64, bytes: usize, bytes_max: usize },
    #[error("the entry after index {index_before} is {index}")]
    Gap { index_before: u64, index: u64 },
    #[error("entry {index} has term {term}, the one before has {term_before}")]
    TermFell { index: u64, term: u64, term_before: u64 },
    #[error("commit index {commit} is beyond the log, which ends at {last_index}")]
    CommitBeyondLog { commit: u64, last_index: u64 },
    #[error("applied index {applied_index} is not within {index_min} and {index_max}")]
    Applied { applied_index: u64, index_min: u64, index_max: u64 },
    #[error("membership entry {index}: {error}")]
    Entry { index: u64, error: MessageError },
}

/// Why a request was refused. The request had no effect. The caller may repeat it when the reason
/// has passed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("not the leader")]
    NotLeader { leader: Option<u64> },
    #[error("leadership is being handed to member {to}")]
    Transferring { to: u64 },
    #[error("too many proposals are under way")]
    Overloaded,
    #[error("an entry of {bytes} bytes is larger than {bytes_max}")]
    TooLarge { bytes: usize, bytes_max: usize },
    #[error("an entry without bytes is reserved")]
    Empty,
    #[error("an earlier membership change may not be applied yet")]
    MembershipPending,
    #[error("membership change: {reason}")]
    Membership { reason: String },
    #[error("member {to} cannot become the leader")]
    NotVoter { to: u64 },
}

/// Why this member does not start an election now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CampaignObstacle {
    #[error("it is the leader already")]
    Leader,
    #[error("it has no vote")]
    NotVoter,
    /// raft-rs ends the process if a lone voter wins while entries are on their way to disk.
    #[error("jobs are on their way to disk")]
    PersistPending,
    /// raft-rs silently refuses to campaign then.
    #[error("a committed membership entry is not applied")]
    MembershipUnapplied,
    /// raft-rs would end the process: it would look at entries that are gone.
    #[error("a snapshot is being installed")]
    Installing,
}

/// Numbers for the caller's decisions, for metrics and for administrators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub role: Role,
    pub term: u64,
    pub leader: Option<u64>,
    pub transferring_to: Option<u64>,
    pub commit_index: u64,
    pub applied_index: u64,
    pub persisted_index: u64,
    pub first_index: u64,
    pub last_index: u64,
    /// Whether this leader has committed an entry of its own term. Only then may it serve reads.
    pub has_committed_in_term: bool,
    /// Payload bytes of entries that this leader accepted and has not handed out yet; 0 on a
    /// follower.
    pub uncommitted_bytes: usize,
    /// Bytes of applied entries that are still in memory.
    pub log_applied_bytes: usize,
    pub persist_job_count: usize,
    /// Whether the term and the vote are on this member's disk. Before that, a lone voter that
    /// leads has told nobody, and may lead in the same term again after a crash.
    pub is_term_durable: bool,
    pub messages_dropped_count: u64,
}

/// A peer's progress, as its leader knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerStatus {
    pub member_id: u64,
    /// The index of the last entry that the peer is known to have on disk.
    pub matched_index: u64,
    /// The index of the snapshot that is being sent to the peer, if any.
    pub snapshot_index: Option<u64>,
    /// Ticks since the peer last answered; `None` if it has not answered in this term.
    pub silent_ticks: Option<u64>,
}

/// One member's replica of one Raft group. Does no input or output itself.
pub struct Replica {
    config: Config,
    node: RawNode<Log>,
    membership: Membership,
    pending: Pending,
    reads: Reads,
    reads_failed: Vec<ReadId>,
    tick: u64,
    /// Number of elections that the timeout has started within `attempt_term`.
    attempt: u64,
    attempt_term: u64,
    /// The index of the last committed entry that was handed out to the caller.
    handed_out_index: u64,
    /// The index of the last entry that raft-rs handed out: committed, and on this member's disk.
    ready_index: u64,
    /// The index of the last entry that the state machine has applied.
    applied_index: u64,
    /// The newest hard state that was handed out to the disk, or restored.
    hard_state: HardState,
    last_role: RoleChange,
    /// The tick at which each peer last answered in this term, by member id.
    heard: BTreeMap<u64, u64>,
    /// The tick at which this member entered the current term.
    term_tick: u64,
    /// The last index of the log at the last tick.
    tick_last_index: u64,
    pinned_index: Option<u64>,
}

impl Replica {
    /// A replica with the state that was last written to its disk. It starts as a follower without
    /// a leader.
    ///
    /// # Errors
    /// The settings or the restored state contradict themselves.
    pub fn new(config: Config, restored: Restored) -> Result<Replica, ReplicaError> {
        let restored = check_restored(restored)?;
        let applied_index = restored.applied_index;
        let hard_state = restored.hard_state;
        let membership = restored.membership.clone();
        let invalid = |reason: raft::Error| ReplicaError::Config { reason: reason.to_string() };
        let raft_config = config.to_raft(applied_index);
        raft_config.validate().map_err(invalid)?;
        let log = restore_log(restored)?;
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let node = RawNode::new(&raft_config, log, &logger).map_err(invalid)?;
        let term = node.raft.term;
        let reads = Reads::new(ReadConfig {
            member_id: config.member_id,
            boot_id: config.boot_id,
            deadline_ticks: u64::from(config.read_deadline_ticks),
            retry_ticks: READ_RETRY_TICKS,
        });
        let mut replica = Replica {
            config,
            node,
            membership,
            pending: Pending::default(),
            reads,
            reads_failed: Vec::new(),
            tick: 0,
            attempt: 0,
            attempt_term: term,
            handed_out_index: applied_index,
            ready_index: applied_index,
            applied_index,
            hard_state,
            last_role: RoleChange { role: Role::Follower, term, leader: None },
            heard: BTreeMap::new(),
            term_tick: 0,
            tick_last_index: 0,
            pinned_index: None,
        };
        replica.settle();
        Ok(replica)
    }

    /// Lets one tick pass. The caller decides how long a tick is, and calls this once for each.
    pub fn tick(&mut self) {
        self.tick += 1;
        self.tick_last_index = self.node.raft.raft_log.last_index();
        let failed = self.reads.expire(self.tick);
        self.reads_failed.extend(failed);
        let is_leader = self.node.raft.state == StateRole::Leader;
        match self.campaign_obstacle() {
            // No other member could lead, so there is no need to wait for a timeout.
            None if self.is_lone_voter() => self.start_campaign(),
            Some(CampaignObstacle::PersistPending | CampaignObstacle::Installing) => {
                self.node.raft.election_elapsed = 0;
            }
            _ => {
                let elapsed = self.node.raft.election_elapsed + 1;
                let times_out = elapsed >= self.node.raft.randomized_election_timeout();
                if times_out && !is_leader && self.node.raft.promotable() {
                    self.attempt += 1;
                }
                self.node.tick();
            }
        }
        self.settle();
    }

    /// Ticks until this member starts an election if it hears from no leader. `None` if it leads or
    /// has no vote.
    pub fn ticks_until_election(&self) -> Option<u64> {
        let raft = &self.node.raft;
        let may_campaign = raft.state != StateRole::Leader && raft.promotable();
        let ticks = raft.randomized_election_timeout().saturating_sub(raft.election_elapsed);
        may_campaign.then(|| u64::try_from(ticks).unwrap_or(u64::MAX))
    }

    /// Starts an election now. Called once at start, after the committed entries of the restored
    /// log were handed out and applied. A lone voter leads when this returns; others ask for votes.
    ///
    /// # Errors
    /// The reason why it must wait; `tick` tries again without another call.
    pub fn campaign(&mut self) -> Result<(), CampaignObstacle> {
        if let Some(obstacle) = self.campaign_obstacle() {
            return Err(obstacle);
        }
        self.start_campaign();
        self.settle();
        Ok(())
    }

    /// Appends one entry and returns its position. The entry is in the next `effects`. It is
    /// committed if an entry with this position is handed out, and lost if one with its index and
    /// another term is.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn propose(&mut self, payload: Bytes) -> Result<Position, Refused> {
        if payload.is_empty() {
            return Err(Refused::Empty);
        }
        if payload.len() > ENTRY_BYTES_MAX {
            let (bytes, bytes_max) = (payload.len(), ENTRY_BYTES_MAX);
            return Err(Refused::TooLarge { bytes, bytes_max });
        }
        self.check_leads()?;
        self.append(eraftpb::Entry { data: payload, ..Default::default() })
    }

    /// Whether the log may hold a membership change that is not applied. Ask only while this member
    /// leads.
    pub fn is_changing_membership(&self) -> bool {
        self.node.raft.has_pending_conf()
    }

    /// Appends a membership entry. The next one is accepted only when this one is applied, and the
    /// joint state that it entered, if any, is left.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn propose_membership(&mut self, change: &MembershipChange) -> Result<Position, Refused> {
        self.check_leads()?;
        let invalid = |reason: String| Refused::Membership { reason };
        if let Some(what) = change.fault() {
            return Err(invalid(what.to_owned()));
        }
        if self.node.raft.has_pending_conf() {
            return Err(Refused::MembershipPending);
        }
        let after = self.try_change(change).map_err(|error| invalid(error.to_string()))?;
        if let Some(what) = after.fault() {
            return Err(invalid(what.to_owned()));
        }
        self.append(change.to_raft_entry())
    }

    /// Takes a message from the peer `from`; the connection has proved that peer's identity. If the
    /// message installs a snapshot (see `peek`), the caller steps it only when the snapshot's data
    /// have arrived.
    ///
    /// # Errors
    /// No correct member sends such a message here; nothing has changed.
    pub fn step(&mut self, from: u64, bytes: &[u8]) -> Result<(), MessageError> {
        let Decoded { mut message, is_quiet } = message::decode(self.config.group_id, bytes)?;
        message::check_route(&message, from, self.config.member_id)?;
        self.check_against_log(&message)?;
        self.lower_unsure_commit(&mut message);
        let (kind, term) = (message.get_msg_type(), message.term);
        if !self.accepts(kind) {
            return Ok(());
        }
        let unsent = self.node.raft.msgs.len();
        // raft-rs refuses only answers of unknown members here; such a member will ask again.
        let _ = self.node.step(message);
        if is_quiet {
            self.drop_agreement(unsent);
        }
        self.settle();
        self.note_heard(from, kind, term);
        Ok(())
    }

    /// Sends a heartbeat to every member now, if this member leads.
    pub fn ping(&mut self) {
        self.node.raft.ping();
        self.settle();
    }

    /// Asks for an index for a linearizable read: the read may be served once the state machine has
    /// applied that index. `Effects::reads` brings it, or `Effects::reads_failed` brings the id.
    ///
    /// # Errors
    /// `Overloaded` only. If there is no leader, the read waits for one.
    pub fn read_index(&mut self) -> Result<ReadId, Refused> {
        self.reads.submit(self.tick).ok_or(Refused::Overloaded)
    }

    /// Whether `effects` would return something.
    pub fn has_effects(&self) -> bool {
        self.node.has_ready()
            || self.pending.has_released()
            || (self.can_ask_index() && self.reads.has_next(self.tick))
            || !self.reads_failed.is_empty()
            || self.node.store().has_wanted()
            || self.role_now() != self.last_role
            || self.index_ahead() > self.handed_out_index
    }

    /// Takes out work for the caller. Call it until `has_effects` is false. Several persist jobs
    /// may be under way at once; the caller decides how many.
    pub fn effects(&mut self) -> Effects {
        let mut effects = Effects::default();
        self.ask_indexes(&mut effects);
        if self.node.has_ready() {
            self.drain_ready(&mut effects);
        }
        // raft-rs has already handed out as many entries as one call may.
        if effects.committed.is_empty() {
            self.hand_out_ahead(&mut effects);
        }
        effects.messages = self.pending.take_released();
        effects.reads_failed = std::mem::take(&mut self.reads_failed);
        let pinned_bytes_max = self.config.log_memory.pinned_bytes_max;
        effects.snapshots_wanted = self.node.store().take_wanted(pinned_bytes_max);
        self.settle();
        let role = self.role_now();
        if role != self.last_role {
            self.last_role = role;
            effects.role_change = Some(role);
        }
        effects
    }

    /// Reports that persist job `id` and all jobs before it are on disk, and synced if they must
    /// be. A job that need not be synced may be reported together with a later one.
    ///
    /// # Panics
    /// If `id` was not handed out, or was reported before: the caller broke the order.
    pub fn on_persisted(&mut self, id: PersistId) {
        self.pending.on_persisted(id);
        // A `Ready` of raft-rs without a job counts as done together with the job before it.
        let done = self.pending.first().map_or(u64::MAX, |next| next.0 - 1);
        self.node.on_persist_ready(done);
        self.advance_applied();
        self.settle();
    }

    /// Reports that the state machine has applied everything up to `index`. Calls may skip indexes.
    /// A lower index than before is ignored: the state machine reported it before it learned of the
    /// snapshot that was installed meanwhile.
    ///
    /// # Panics
    /// If the entry at `index` was not handed out.
    pub fn on_applied(&mut self, index: u64) {
        if index <= self.applied_index {
            return;
        }
        assert!(index <= self.handed_out_index, "applied what was not handed out");
        self.applied_index = index;
        self.advance_applied();
    }

    /// Reports to raft-rs how many of the entries that it handed out are applied.
    fn advance_applied(&mut self) {
        // A snapshot that is being installed is handed out before it is on disk.
        let raft_log = &self.node.raft.raft_log;
        let index = self.applied_index.min(self.ready_index).min(raft_log.persisted);
        if index <= raft_log.applied {
            return;
        }
        let last_index = self.node.raft.raft_log.last_index();
        self.node.advance_apply_to(index);
        // When raft-rs leaves a joint state on its own, it appends an entry here, but sends it to
        // no member.
        if self.node.raft.raft_log.last_index() > last_index {
            self.node.raft.bcast_append();
        }
        self.node.mut_store().on_applied(index);
        self.compact();
        self.settle();
    }

    /// Reports that the snapshot of a `Persist::install`, which is on disk, has replaced the
    /// content of the state machine.
    ///
    /// # Panics
    /// If that job was not reported by `on_persisted`.
    pub fn on_snapshot_installed(&mut self, index: u64) {
        assert!(index <= self.node.raft.raft_log.persisted, "installed before it was persisted");
        self.on_applied(index);
    }

    /// Notes a snapshot that is on disk: from now on it can be sent to followers, and entries that
    /// it covers may leave memory. If it covers entries that are not yet on this member's disk, the
    /// caller must wait for those first: otherwise the log on disk would end before the snapshot.
    ///
    /// # Panics
    /// If the snapshot covers entries that are not applied, or not on this member's disk.
    pub fn on_snapshot_taken(&mut self, meta: SnapshotMeta) {
        self.node.mut_store().on_taken(meta);
        self.compact();
    }

    /// The newest snapshot of this member: taken, installed, or found when it was restored.
    pub fn newest_snapshot(&self) -> Option<&SnapshotMeta> {
        self.node.store().snapshot()
    }

    /// Sends a snapshot, of this or another member, to the follower `to`, in answer to a
    /// `SnapshotWanted`. The log is kept from the snapshot's index on. Returns false if it was not
    /// sent: the log does not continue from the snapshot, or the follower is not in the snapshot's
    /// membership, does not answer, or needs none any more. `SnapshotWanted` is repeated while one
    /// is needed.
    pub fn send_snapshot(&mut self, to: u64, meta: &SnapshotMeta) -> bool {
        let raft = &self.node.raft;
        let is_follower = raft.state == StateRole::Leader
            && to != self.config.member_id
            && raft.prs().get(to).is_some();
        let is_of_log = self.term_of(meta.index) == Some(meta.term);
        if !is_follower || !is_of_log || !meta.membership.contains(to) {
            return false;
        }
        self.node.mut_store().choose(Some((to, meta.clone())));
        self.node.raft.send_append(to);
        self.node.mut_store().choose(None);
        self.settle();
        let progress = self.node.raft.prs().get(to);
        progress.is_some_and(|progress| {
            progress.state == ProgressState::Snapshot && progress.pending_snapshot == meta.index
        })
    }

    /// Keeps the entries after `index` in memory, up to `LogMemory::pinned_bytes_max`, while a
    /// snapshot at `index` is made for a follower; `None` ends that. While a snapshot is being
    /// sent, the entries after it are kept without this call.
    pub fn pin_log(&mut self, index: Option<u64>) {
        self.pinned_index = index;
        self.compact();
    }

    /// Reports that messages to `peer` are being lost. The leader then probes that peer with single
    /// appends until it answers.
    pub fn report_unreachable(&mut self, peer: u64) {
        self.node.report_unreachable(peer);
        self.settle();
    }

    /// Reports the result of sending a snapshot to `peer`: it arrived together with its message, or
    /// it failed. Until this report the leader sends the peer no entries.
    pub fn report_snapshot(&mut self, peer: u64, ok: bool) {
        let status = if ok { SnapshotStatus::Finish } else { SnapshotStatus::Failure };
        self.node.report_snapshot(peer, status);
        self.settle();
    }

    /// Hands leadership to the voter `to` as soon as that voter has the whole log. Until then, this
    /// member refuses proposals. If the transfer takes longer than an election timeout, it is given
    /// up, and proposals are accepted again.
    ///
    /// # Errors
    /// `NotLeader`; or `NotVoter`, also if `to` is this member.
    pub fn transfer_leader(&mut self, to: u64) -> Result<(), Refused> {
        self.check_is_leader()?;
        if to == self.config.member_id || !self.membership.voters.contains(&to) {
            return Err(Refused::NotVoter { to });
        }
        self.node.transfer_leader(to);
        self.settle();
        Ok(())
    }

    /// Reports that the connection from the leader ended, so the leader is probably gone. Does
    /// nothing if this member does not follow `leader`. This member then waits only for the random
    /// part of the election timeout, and may vote for others at once. A leader that is alive keeps
    /// its place: either it is heard before the timeout, or the pre-vote fails, since that needs a
    /// quorum that misses the leader (Raft thesis, section 9.6).
    pub fn miss_leader(&mut self, leader: u64) {
        let election_ticks = usize::try_from(self.config.election_ticks);
        let raft = &mut self.node.raft;
        if raft.state == StateRole::Follower && raft.leader_id == leader {
            raft.become_follower(raft.term, raft::INVALID_ID);
            raft.election_elapsed = election_ticks.expect("usize has 64 bits");
        }
        self.settle();
    }

    /// Stops leading, without a successor: for a leader whose disk has stalled while no other
    /// member takes over. Does nothing on a follower. A lone voter leads again at its next tick.
    pub fn resign(&mut self) {
        let raft = &mut self.node.raft;
        if raft.state == StateRole::Leader {
            raft.become_follower(raft.term, raft::INVALID_ID);
        }
        self.settle();
    }

    /// Why an election would not start now; `None` if it would.
    pub fn campaign_obstacle(&self) -> Option<CampaignObstacle> {
        let raft = &self.node.raft;
        if raft.state == StateRole::Leader {
            Some(CampaignObstacle::Leader)
        } else if !raft.promotable() {
            Some(CampaignObstacle::NotVoter)
        } else if raft.raft_log.applied < self.node.store().truncated().index
            || raft.snap().is_some()
        {
            Some(CampaignObstacle::Installing)
        } else if self.is_lone_voter() && !self.is_drained() {
            Some(CampaignObstacle::PersistPending)
        } else if self.node.store().has_membership_change_up_to(raft.raft_log.committed) {
            Some(CampaignObstacle::MembershipUnapplied)
        } else {
            None
        }
    }

    /// The membership after the last entry that was handed out.
    pub fn membership(&self) -> &Membership {
        &self.membership
    }

    /// Number of entries of the log that are not known to be committed.
    pub fn uncommitted_count(&self) -> u64 {
        let raft_log = &self.node.raft.raft_log;
        raft_log.last_index() - raft_log.committed
    }

    /// Whether this member's term and vote are on its disk. Until then none of its messages leave.
    pub fn is_term_durable(&self) -> bool {
        self.pending.is_term_durable()
    }

    /// The term of the entry at `index`. `None` unless that entry, or the one after it, is in
    /// memory.
    pub fn term_of(&self, index: u64) -> Option<u64> {
        self.node.store().term_of(index).ok()
    }

    /// The current term.
    pub fn term(&self) -> u64 {
        self.node.raft.term
    }

    /// The index of the last entry that is known to be committed.
    pub fn commit_index(&self) -> u64 {
        self.node.raft.raft_log.committed
    }

    /// The state of this replica in numbers. Cheap enough to call on every run of the caller's
    /// loop.
    pub fn status(&self) -> Status {
        let raft = &self.node.raft;
        let role = self.role_now();
        Status {
            role: role.role,
            term: role.term,
            leader: role.leader,
            transferring_to: raft.lead_transferee,
            commit_index: raft.raft_log.committed,
            applied_index: self.applied_index,
            persisted_index: raft.raft_log.persisted,
            first_index: self.node.store().truncated().index + 1,
            last_index: raft.raft_log.last_index(),
            has_committed_in_term: raft.commit_to_current_term(),
            uncommitted_bytes: raft.uncommitted_size(),
            log_applied_bytes: self.node.store().applied_bytes(),
            persist_job_count: self.pending.job_count(),
            is_term_durable: self.is_term_durable(),
            messages_dropped_count: self.pending.dropped_count(),
        }
    }

    /// The other members as the leader knows them, by id; empty unless this member leads.
    pub fn peers(&self) -> Vec<PeerStatus> {
        if self.node.raft.state != StateRole::Leader {
            return Vec::new();
        }
        let progress = self.node.raft.prs().iter();
        let others = progress.filter(|(id, _)| **id != self.config.member_id);
        let mut peers: Vec<PeerStatus> = others
            .map(|(id, progress)| PeerStatus {
                member_id: *id,
                matched_index: progress.matched,
                snapshot_index: (progress.state == ProgressState::Snapshot)
                    .then_some(progress.pending_snapshot),
                silent_ticks: self.heard.get(id).map(|tick| self.tick - tick),
            })
            .collect();
        peers.sort_unstable_by_key(|peer| peer.member_id);
        peers
    }
}

/// Helpers of the methods above.
impl Replica {
    fn start_campaign(&mut self) {
        // A local MsgHup cannot fail. `campaign_obstacle` has the cases in which raft-rs silently
        // refuses it.
        let _ = self.node.campaign();
    }

    fn check_is_leader(&self) -> Result<(), Refused> {
        let raft = &self.node.raft;
        if raft.state == StateRole::Leader {
            return Ok(());
        }
        Err(Refused::NotLeader { leader: some_id(raft.leader_id) })
    }

    fn check_leads(&self) -> Result<(), Refused> {
        self.check_is_leader()?;
        match self.node.raft.lead_transferee {
            Some(to) => Err(Refused::Transferring { to }),
            None => Ok(()),
        }
    }

    fn append(&mut self, entry: eraftpb::Entry) -> Result<Position, Refused> {
        let mut message = eraftpb::Message::default();
        message.set_msg_type(MessageType::MsgPropose);
        message.from = self.config.member_id;
        message.set_entries(vec![entry].into());
        // All other reasons to drop a proposal were checked: only the limit on bytes is left.
        self.node.raft.step(message).map_err(|_| Refused::Overloaded)?;
        self.settle();
        let raft = &self.node.raft;
        Ok(Position { term: raft.term, index: raft.raft_log.last_index() })
    }

    /// The membership after `change`.
    fn try_change(&self, change: &MembershipChange) -> raft::Result<Membership> {
        let change = change.to_raft();
        let mut changer = raft::Changer::new(self.node.raft.prs());
        let (after, _) = if change.leave_joint() {
            changer.leave_joint()?
        } else if let Some(auto_leave) = change.enter_joint() {
            changer.enter_joint(auto_leave, &change.changes)?
        } else {
            changer.simple(&change.changes)?
        };
        Ok(Membership::from_raft(&after.to_conf_state()))
    }

    /// Drops the answer that agrees to a quiet append, if it is the message at position `from`: it
    /// would tell the leader nothing new.
    fn drop_agreement(&mut self, from: usize) {
        let messages = &mut self.node.raft.msgs;
        let is_agreement = |message: &eraftpb::Message| {
            message.get_msg_type() == MessageType::MsgAppendResponse && !message.reject
        };
        if messages.get(from).is_some_and(is_agreement) {
            messages.remove(from);
        }
    }

    /// Whether the append `message` is quiet: an answer that agrees with it would tell this leader
    /// nothing new. Such a message has no entries, and the follower has said that it has the
    /// entries before, or will say so when they are on its disk. If that answer is lost, the leader
    /// asks again when the follower answers a heartbeat; by then the entry is no longer new
    /// (`is_new`). The follower must be in raft-rs's state `Replicate`: in any other, the next
    /// append waits for the answer. Heartbeats alone show that the follower is alive.
    fn is_quiet(&self, message: &eraftpb::Message) -> bool {
        let is_new = message.index > self.tick_last_index;
        let has_all = |progress: &raft::Progress| {
            let is_said = is_new || progress.matched >= message.index;
            progress.state == ProgressState::Replicate && is_said
        };
        message.get_msg_type() == MessageType::MsgAppend
            && message.entries.is_empty()
            && self.node.raft.prs().get(message.to).is_some_and(has_all)
    }

    /// Whether raft-rs may see a message of this kind. Two kinds are held back: a request to
    /// campaign while there is an obstacle, and a request for a read index on a member that does
    /// not lead, because raft-rs would forward it to the leader. The member that asks for the index
    /// asks again by itself.
    fn accepts(&self, kind: MessageType) -> bool {
        match kind {
            MessageType::MsgTimeoutNow => self.campaign_obstacle().is_none(),
            MessageType::MsgReadIndex => self.node.raft.state == StateRole::Leader,
            _ => true,
        }
    }

    /// Finds messages on which raft-rs would end the process. They show that a peer, or this
    /// member, has lost entries that were on its disk.
    fn check_against_log(&self, message: &eraftpb::Message) -> Result<(), MessageError> {
        let raft = &self.node.raft;
        let last_index = raft.raft_log.last_index();
        if message.term < raft.term {
            return Ok(());
        }
        match message.get_msg_type() {
            MessageType::MsgHeartbeat if message.commit > last_index => {
                Err(MessageError::CommitBeyondLog { commit: message.commit, last_index })
            }
            MessageType::MsgHeartbeat if message.commit_term != 0 => {
                let commit = message.commit;
                match raft.raft_log.term(commit) {
                    Ok(term) if term != 0 && term != message.commit_term => {
                        Err(MessageError::CommitDiffers { commit, term })
                    }
                    // A snapshot covers the entry.
                    _ => Ok(()),
                }
            }
            MessageType::MsgAppendResponse
                if raft.state == StateRole::Leader
                    && message.term == raft.term
                    && !message.reject
                    && message.index > last_index =>
            {
                Err(MessageError::AckBeyondLog { index: message.index, last_index })
            }
            _ => Ok(()),
        }
    }

    /// Lowers the commit index of a heartbeat to this member's own, if that is lower and the
    /// heartbeat does not name the term of the committed entry because its sender no longer knows
    /// the term. If this member has lost the end of its log, it may have another entry at that
    /// index. A later append, heartbeat with a term, or snapshot tells this member what is
    /// committed.
    fn lower_unsure_commit(&self, message: &mut eraftpb::Message) {
        if message.get_msg_type() == MessageType::MsgHeartbeat && message.commit_term == 0 {
            message.commit = message.commit.min(self.node.raft.raft_log.committed);
        }
    }

    /// Runs after every call into raft-rs: replaces the election timeout that raft-rs may have
    /// drawn, and notices a change of term.
    fn settle(&mut self) {
        let raft = &mut self.node.raft;
        if raft.term != self.attempt_term {
            self.attempt_term = raft.term;
            self.term_tick = self.tick;
            self.attempt = 0;
            self.heard.clear();
        }
        let timeout = jitter::election_timeout_ticks(
            Draw {
                seed: self.config.seed,
                member_id: self.config.member_id,
                term: raft.term,
                attempt: self.attempt,
            },
            self.config.election_ticks,
        );
        raft.set_randomized_election_timeout(timeout);
    }

    fn role_now(&self) -> RoleChange {
        let raft = &self.node.raft;
        let role = match raft.state {
            StateRole::Follower => Role::Follower,
            StateRole::PreCandidate => Role::PreCandidate,
            StateRole::Candidate => Role::Candidate,
            StateRole::Leader => Role::Leader,
        };
        RoleChange { role, term: raft.term, leader: some_id(raft.leader_id) }
    }

    fn is_lone_voter(&self) -> bool {
        self.membership.is_lone_voter(self.config.member_id)
    }

    fn is_drained(&self) -> bool {
        let log = &self.node.raft.raft_log;
        self.pending.is_synced() && log.persisted == log.last_index()
    }

    /// Whether raft-rs would accept a request for a read index and not drop it.
    fn can_ask_index(&self) -> bool {
        let raft = &self.node.raft;
        match raft.state {
            StateRole::Leader => raft.commit_to_current_term(),
            StateRole::Follower => raft.leader_id != raft::INVALID_ID,
            StateRole::Candidate | StateRole::PreCandidate => false,
        }
    }

    fn ask_indexes(&mut self, effects: &mut Effects) {
        if self.role_now() != self.last_role {
            self.reads.retry_all();
        }
        if !self.can_ask_index() {
            return;
        }
        let contexts = self.reads.next_contexts(self.tick);
        // If a lone voter is in a joint state with itself, raft-rs waits for acknowledgements that
        // nobody will send.
        let is_leader = self.node.raft.state == StateRole::Leader;
        let decides_alone = is_leader && self.is_lone_voter();
        for context in contexts {
            if decides_alone {
                let index = self.node.raft.raft_log.committed;
                let served = self.reads.on_answer(&context);
                effects.reads.extend(served.into_iter().map(|id| (id, index)));
            } else {
                self.node.read_index(context.to_vec());
            }
        }
    }

    /// Takes one `Ready` from raft-rs. The entries in it must be readable from the log before
    /// raft-rs goes on. The number of the `Ready` is the id of the persist job.
    fn drain_ready(&mut self, effects: &mut Effects) {
        let mut ready = self.node.ready();
        let is_leader = self.node.raft.state == StateRole::Leader;
        effects.persist = self.take_persist(&mut ready);
        let messages = ready.take_messages().into_iter().chain(ready.take_persisted_messages());
        for mut message in messages {
            let outgoing = self.outgoing(&mut message);
            let promises_entries = !is_leader && !is_of_term_only(message.get_msg_type());
            self.pending.send(promises_entries, outgoing);
        }
        for answer in ready.take_read_states() {
            let served = self.reads.on_answer(&answer.request_ctx);
            effects.reads.extend(served.into_iter().map(|id| (id, answer.index)));
        }
        let committed = ready.take_committed_entries();
        self.node.advance_append_async(ready);
        if self.pending.first().is_none() {
            self.node.on_persist_ready(u64::MAX);
        }
        self.hand_out(&committed, effects);
        self.advance_applied();
    }

    fn take_persist(&mut self, ready: &mut raft::Ready) -> Option<Persist> {
        let install =
            (!ready.snapshot().is_empty()).then(|| SnapshotMeta::from_raft(ready.snapshot()));
        if let Some(meta) = &install {
            self.node.mut_store().install(meta);
            self.membership = meta.membership.clone();
            self.handed_out_index = meta.index;
            self.ready_index = meta.index;
        }
        let entries = ready.take_entries();
        self.node.mut_store().append(&entries);
        let hard_state = ready.hs().map(HardState::from_raft);
        if install.is_none() && entries.is_empty() && hard_state.is_none() {
            return None;
        }
        let id = PersistId(ready.number());
        let must_sync = ready.must_sync();
        let vote = |state: HardState| (state.term, state.vote);
        let election = hard_state.is_some_and(|state| vote(state) != vote(self.hard_state));
        self.hard_state = hard_state.unwrap_or(self.hard_state);
        self.pending.add(Job { id, must_sync, election });
        let entries = entries.iter().map(Entry::from_raft).collect();
        Some(Persist { id, install, entries, hard_state, must_sync })
    }

    fn outgoing(&self, message: &mut eraftpb::Message) -> Outgoing {
        let installs = message.get_msg_type() == MessageType::MsgSnapshot;
        if message.get_msg_type() == MessageType::MsgHeartbeat {
            // A heartbeat's commit index is one that the receiver has acknowledged. By the term, a
            // receiver that runs on an old copy of its directory notices that it has another entry
            // at that index. The term is 0 if the entry is no longer in memory.
            message.commit_term = self.node.raft.raft_log.term(message.commit).unwrap_or(0);
        }
        Outgoing {
            to: message.to,
            bytes: message::encode(self.config.group_id, message, self.is_quiet(message)),
            snapshot: installs.then(|| SnapshotMeta::from_raft(message.get_snapshot())),
        }
    }

    /// Hands committed entries out to the caller, except those that it already has, and activates
    /// the memberships in them.
    fn hand_out(&mut self, committed: &[eraftpb::Entry], effects: &mut Effects) {
        for entry in committed {
            assert_eq!(entry.index, self.ready_index + 1, "raft-rs hands out in order");
            self.ready_index = entry.index;
            if entry.index <= self.handed_out_index {
                continue;
            }
            assert_eq!(entry.index, self.handed_out_index + 1, "handed out in order");
            self.handed_out_index = entry.index;
            if entry.get_entry_type() == EntryType::EntryConfChangeV2 {
                self.change_membership(entry, effects);
            }
            effects.committed.push(Entry::from_raft(entry));
        }
    }

    /// The index of the last entry that may be handed out now, even if it is not on this member's
    /// disk. 0 while a snapshot that replaces the log is being installed, or raft-rs has unstable
    /// entries.
    fn index_ahead(&self) -> u64 {
        let raft_log = &self.node.raft.raft_log;
        let store = self.node.store();
        let is_installing =
            raft_log.unstable_snapshot().is_some() || raft_log.persisted < store.truncated().index;
        if is_installing || !raft_log.unstable_entries().is_empty() {
            return 0;
        }
        let (from, to) = (self.handed_out_index + 1, raft_log.committed.min(store.last()));
        store.last_before_membership(from, to, COMMITTED_BYTES_PER_EFFECTS_MAX)
    }

    /// Hands out committed entries that a quorum has on disk, and this member does not.
    fn hand_out_ahead(&mut self, effects: &mut Effects) {
        let to = self.index_ahead();
        if to > self.handed_out_index {
            let entries = self.node.store().range(self.handed_out_index + 1, to);
            effects.committed.extend(entries.map(Entry::from_raft));
            self.handed_out_index = to;
        }
    }

    /// Applies a membership change. A change that does not fit the membership changes nothing, on
    /// every member alike.
    fn change_membership(&mut self, entry: &eraftpb::Entry, effects: &mut Effects) {
        let change = members::conf_change(entry);
        let Ok(state) = self.node.apply_conf_change(&change) else {
            return;
        };
        self.membership = Membership::from_raft(&state);
        self.node.mut_store().on_membership(entry.index);
        self.heard.retain(|id, _| self.membership.contains(*id));
        let membership = self.membership.clone();
        effects.memberships.push(MembershipAt { index: entry.index, membership });
        // raft-rs lets a leader that lost its vote continue, and then ends the process as soon as
        // that leader acts for a member that it no longer tracks.
        let raft = &mut self.node.raft;
        if raft.state == StateRole::Leader && !raft.promotable() {
            raft.become_follower(raft.term, raft::INVALID_ID);
        }
    }

    fn compact(&mut self) {
        let (needed, memory) = (self.needed(), self.config.log_memory);
        self.node.mut_store().compact(needed, memory);
    }

    /// The indexes after which entries are needed by followers. A follower that has not answered in
    /// this term counts as silent since the term began, and may need every entry.
    fn needed(&self) -> Needed {
        let alive_ticks = u64::from(self.config.election_ticks) * 2;
        let away_ticks = u64::from(self.config.election_ticks) * AWAY_TIMEOUTS;
        let mut needed = Needed::NOTHING;
        needed.pinned_index = self.pinned_index.unwrap_or(u64::MAX);
        for peer in self.peers() {
            let silent_ticks = peer.silent_ticks.unwrap_or(self.tick - self.term_tick);
            let is_alive = peer.silent_ticks.is_some() && silent_ticks < alive_ticks;
            if let Some(index) = peer.snapshot_index {
                needed.pinned_index = needed.pinned_index.min(index);
            } else if is_alive {
                needed.pinned_index = needed.pinned_index.min(peer.matched_index);
            } else if silent_ticks < away_ticks {
                needed.away_index = needed.away_index.min(peer.matched_index);
            }
        }
        needed
    }

    fn note_heard(&mut self, from: u64, kind: MessageType, term: u64) {
        let raft = &self.node.raft;
        let is_answer =
            matches!(kind, MessageType::MsgAppendResponse | MessageType::MsgHeartbeatResponse);
        let is_of_term = term == raft.term && raft.state == StateRole::Leader;
        if is_answer && is_of_term && self.membership.contains(from) {
            self.heard.insert(from, self.tick);
        }
    }
}

/// Whether a message of this kind promises nothing about the log, so that it may leave before the
/// log is on disk. The term must be on disk: a member that forgets that it answered a leader could
/// answer one of an earlier term.
fn is_of_term_only(kind: MessageType) -> bool {
    matches!(kind, MessageType::MsgHeartbeatResponse | MessageType::MsgReadIndex)
}

fn some_id(id: u64) -> Option<u64> {
    (id != raft::INVALID_ID).then_some(id)
}

/// Checks restored state, and repairs the two inconsistencies that a crash may leave.
fn check_restored(mut restored: Restored) -> Result<Restored, ReplicaError> {
    if let Some(what) = restored.membership.fault() {
        return Err(ReplicaError::Membership { what });
    }
    let mut last = restored.entries_after();
    check_numbers(&restored)?;
    for entry in &restored.entries {
        let (bytes, bytes_max) = (entry.payload.len(), ENTRY_BYTES_MAX);
        if bytes > bytes_max {
            return Err(ReplicaError::TooLarge { index: entry.index, bytes, bytes_max });
        }
        if Some(entry.index) != last.index.checked_add(1) {
            return Err(ReplicaError::Gap { index_before: last.index, index: entry.index });
        }
        if entry.term < last.term {
            let (index, term) = (entry.index, entry.term);
            return Err(ReplicaError::TermFell { index, term, term_before: last.term });
        }
        last = Position { term: entry.term, index: entry.index };
    }
    let state = &mut restored.hard_state;
    if state.commit > last.index {
        let (commit, last_index) = (state.commit, last.index);
        return Err(ReplicaError::CommitBeyondLog { commit, last_index });
    }
    // A change of the commit index alone is not synced, and a snapshot covers only committed
    // entries.
    state.commit = state.commit.max(restored.snapshot_index).max(restored.applied_index);
    // The hard state is written after the entries of its job, so a crash in between leaves an old
    // term. No vote of the new term was sent, since messages wait for the whole job.
    if state.term < last.term {
        state.term = last.term;
        state.vote = raft::INVALID_ID;
    }
    let (applied_index, index_min) = (restored.applied_index, restored.entries_after().index);
    if applied_index < index_min || applied_index > last.index {
        return Err(ReplicaError::Applied { applied_index, index_min, index_max: last.index });
    }
    Ok(restored)
}

/// Checks that no term and no index is above the limit for messages: other members would refuse
/// this member's messages, and raft-rs counts on from such a number without a check. Terms and
/// indexes of entries do not fall, so checking the last entry is enough.
fn check_numbers(restored: &Restored) -> Result<(), ReplicaError> {
    let (after, state) = (restored.entries_after(), &restored.hard_state);
    let last = restored.entries.last();
    let (last_term, last_index) =
        last.map_or((after.term, after.index), |entry| (entry.term, entry.index));
    for (what, value, value_max) in [
        ("term", state.term, TERM_MAX),
        ("term of the log", after.term.max(last_term), TERM_MAX),
        ("index of the log", after.index.max(last_index), INDEX_MAX),
        ("commit index", state.commit, INDEX_MAX),
    ] {
        if value > value_max {
            return Err(ReplicaError::TooHigh { what, value, value_max });
        }
    }
    Ok(())
}

fn restore_log(restored: Restored) -> Result<Log, ReplicaError> {
    let truncated = restored.entries_after();
    let entries: Result<VecDeque<eraftpb::Entry>, ReplicaError> = restored
        .entries
        .iter()
        .map(|entry| {
            let index = entry.index;
            entry.to_raft().map_err(|error| ReplicaError::Entry { index, error })
        })
        .collect();
    let initial = (restored.hard_state.to_raft(), restored.membership.to_raft());
    // The membership at the snapshot is known if no applied entry after it changed the membership.
    let changed = |entry: &Entry| entry.kind == EntryKind::Membership;
    let is_membership_known = !restored.applied_entries().iter().any(changed);
    let mut log = Log::new(initial, truncated, entries?, restored.applied_index);
    if restored.snapshot_index > 0 && is_membership_known {
        log.on_taken(SnapshotMeta {
            index: restored.snapshot_index,
            term: restored.snapshot_term,
            membership: restored.membership,
        });
    }
    Ok(log)
}

#[cfg(test)]
mod tests;
