//! The values that cross the border of this crate: the restored state, and the work for the caller.
//! No type of raft-rs appears here.

use bytes::Bytes;
use raft::eraftpb;

use crate::codec::MessageError;
use crate::members::{Membership, MembershipChange};

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// Bytes of the caller. Empty: the first entry of a leader's term, which changes nothing.
    Normal,
    /// An encoded [`MembershipChange`]. The replica applies it itself when it hands it out.
    Membership,
}

/// One entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub index: u64,
    pub term: u64,
    pub kind: EntryKind,
    /// At most `limits::ENTRY_BYTES_MAX`.
    pub payload: Bytes,
}

/// The position of an entry: index and term together name one entry for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub term: u64,
    pub index: u64,
}

/// The state that Raft must not forget, besides the log. A vote of 0 means none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HardState {
    pub term: u64,
    pub vote: u64,
    pub commit: u64,
}

/// A snapshot as Raft sees it. Its data is the caller's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotMeta {
    /// The last entry the snapshot contains, and that entry's term.
    pub index: u64,
    pub term: u64,
    /// The membership that is active after that entry.
    pub membership: Membership,
}

/// The Raft state that a member finds on its disk, for `Replica::new`.
#[derive(Clone, Debug, Default)]
pub struct Restored {
    pub hard_state: HardState,
    /// The membership active after `applied_index` (not after the last entry: later membership
    /// entries are handed out again and applied then).
    pub membership: Membership,
    pub snapshot_index: u64,
    pub snapshot_term: u64,
    /// All entries after the snapshot, or after the ones left out, without gaps.
    pub entries: Vec<Entry>,
    /// The entries that are not in `entries`, since the state machine holds them.
    pub left_out: Option<LeftOut>,
    /// The index up to which the state machine holds the log: that of the snapshot, or of a later
    /// committed entry.
    pub applied_index: u64,
}

/// The first entries behind the snapshot, if they are only on disk. None changes the membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The position of the last entry left out.
    pub last: Position,
    /// Bytes of their payloads.
    pub bytes: u64,
}

impl Restored {
    /// The position that `entries` follow.
    pub fn entries_after(&self) -> Position {
        let snapshot = Position { term: self.snapshot_term, index: self.snapshot_index };
        self.left_out.map_or(snapshot, |left_out| left_out.last)
    }

    /// Bytes of the payloads of all entries behind the snapshot.
    pub fn log_bytes(&self) -> u64 {
        let bytes: u64 = self.entries.iter().map(|entry| entry.payload.len() as u64).sum();
        self.left_out.map_or(0, |left_out| left_out.bytes) + bytes
    }

    /// Leaves out applied entries, the oldest first, and keeps the newest ones with up to this many
    /// bytes. None left out may change the membership.
    pub fn leave_out(&mut self, bytes_kept_max: usize) {
        let applied = self.applied_entries();
        let mut bytes_kept = 0;
        let is_kept = |entry: &&Entry| {
            bytes_kept += entry.payload.len();
            bytes_kept <= bytes_kept_max
        };
        let count = applied.len() - applied.iter().rev().take_while(is_kept).count();
        for entry in self.entries.drain(..count) {
            assert!(entry.kind == EntryKind::Normal, "a membership may be needed");
            let last = Position { term: entry.term, index: entry.index };
            let bytes = self.left_out.map_or(0, |left_out| left_out.bytes);
            let bytes = bytes + entry.payload.len() as u64;
            self.left_out = Some(LeftOut { last, bytes });
        }
    }

    /// The entries that the state machine holds already.
    pub fn applied_entries(&self) -> &[Entry] {
        let count = self.entries.partition_point(|entry| entry.index <= self.applied_index);
        &self.entries[..count]
    }

    /// The term of the last entry that the state machine holds.
    pub fn applied_term(&self) -> u64 {
        self.applied_entries().last().map_or(self.entries_after().term, |entry| entry.term)
    }
}

/// Names one persist job; later jobs have larger ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PersistId(pub(crate) u64);

/// One job for the disk. Jobs are written in the order in which they were handed out, and within a
/// job in the order of the fields: `install`, `entries`, `hard_state` (a hard state found on disk
/// without the entries before it would promise a commit the log does not have).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Persist {
    pub id: PersistId,
    /// Replaces log and state by this snapshot, whose data the caller already holds.
    pub install: Option<SnapshotMeta>,
    /// Replaces everything on disk from the index of the first entry on; may be empty.
    pub entries: Vec<Entry>,
    pub hard_state: Option<HardState>,
    /// False if only the commit index moved: such a job never needs a sync of its own, and
    /// nothing waits for it.
    pub must_sync: bool,
}

/// A message for a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    pub to: u64,
    pub bytes: Bytes,
    /// Set if this message installs a snapshot. The caller streams the snapshot's data first and
    /// delivers `bytes` at the end; the receiving caller calls `step` with them once it holds all
    /// of the data. In any case the caller reports the result with `Replica::report_snapshot`.
    pub snapshot: Option<SnapshotMeta>,
}

/// The role of a member. A learner is a follower for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Follower,
    PreCandidate,
    Candidate,
    Leader,
}

/// A change of role, term or leader since the last `RoleChange`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleChange {
    pub role: Role,
    pub term: u64,
    /// `None` while no leader is known.
    pub leader: Option<u64>,
}

/// A membership and the entry it is active from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MembershipAt {
    pub index: u64,
    pub membership: Membership,
}

/// A follower needs entries that are no longer in memory. The caller chooses a snapshot of any
/// member for it, and calls `Replica::send_snapshot`. Repeated until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotWanted {
    pub to: u64,
    /// The snapshot's index must be at least this.
    pub index_min: u64,
    /// The lowest index of a snapshot that the log will probably still reach back to when the
    /// follower has it. A snapshot that is still to be taken or transferred should be this new.
    pub index_fresh: u64,
}

/// Names one linearizable read within this boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadId(pub(crate) u64);

/// All work for the caller, drained by `Replica::effects`. The parts are independent: the messages
/// may go before, while or after the persist job runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// A job for the disk; answer with `Replica::on_persisted`.
    pub persist: Option<Persist>,
    /// Messages to send now. They may be lost, doubled and reordered.
    pub messages: Vec<Outgoing>,
    /// Committed entries, in order, without gaps, each once per boot. They are on a quorum's disks,
    /// perhaps not on this member's. Apply them and answer with `Replica::on_applied`.
    pub committed: Vec<Entry>,
    /// The memberships that entries of `committed` made active.
    pub memberships: Vec<MembershipAt>,
    pub role_change: Option<RoleChange>,
    /// Reads that may be served once the state machine has applied the index.
    pub reads: Vec<(ReadId, u64)>,
    /// Reads whose deadline has passed. They may be asked again.
    pub reads_failed: Vec<ReadId>,
    /// Snapshots that followers need, at most one for each follower.
    pub snapshots_wanted: Vec<SnapshotWanted>,
}

impl Effects {
    /// True if there is nothing to do.
    pub fn is_empty(&self) -> bool {
        *self == Effects::default()
    }
}

impl Entry {
    /// From raft-rs's own form. Only for entries made by `to_raft` or by raft-rs itself.
    pub(crate) fn from_raft(entry: &eraftpb::Entry) -> Entry {
        let membership = entry.get_entry_type() == eraftpb::EntryType::EntryConfChangeV2;
        let (kind, payload) = if membership {
            (EntryKind::Membership, MembershipChange::from_raft(entry).encode())
        } else {
            (EntryKind::Normal, entry.data.clone())
        };
        Entry { index: entry.index, term: entry.term, kind, payload }
    }

    /// Into raft-rs's own form. Called for entries from disk and from peers.
    ///
    /// # Errors
    /// A membership entry whose payload is not an encoded change.
    pub(crate) fn to_raft(&self) -> Result<eraftpb::Entry, MessageError> {
        let mut entry = match self.kind {
            EntryKind::Membership => MembershipChange::decode(&self.payload)?.to_raft_entry(),
            EntryKind::Normal => {
                eraftpb::Entry { data: self.payload.clone(), ..Default::default() }
            }
        };
        entry.index = self.index;
        entry.term = self.term;
        Ok(entry)
    }
}

impl HardState {
    pub(crate) fn from_raft(state: &eraftpb::HardState) -> HardState {
        HardState { term: state.term, vote: state.vote, commit: state.commit }
    }

    pub(crate) fn to_raft(self) -> eraftpb::HardState {
        eraftpb::HardState {
            term: self.term,
            vote: self.vote,
            commit: self.commit,
            ..Default::default()
        }
    }
}

impl SnapshotMeta {
    pub(crate) fn from_raft(snapshot: &eraftpb::Snapshot) -> SnapshotMeta {
        let meta = snapshot.get_metadata();
        SnapshotMeta {
            index: meta.index,
            term: meta.term,
            membership: Membership::from_raft(meta.get_conf_state()),
        }
    }

    pub(crate) fn to_raft(&self) -> eraftpb::Snapshot {
        let mut snapshot = eraftpb::Snapshot::default();
        let meta = snapshot.mut_metadata();
        meta.index = self.index;
        meta.term = self.term;
        meta.set_conf_state(self.membership.to_raft());
        snapshot
    }
}
