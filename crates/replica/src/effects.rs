//! The values that the crate takes from its caller and gives to it: the restored state, and work to
//! do. No type of raft-rs appears in them.

use bytes::Bytes;
use raft::eraftpb;

use crate::codec::MessageError;
use crate::members::{Membership, MembershipChange};

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// Bytes of the caller. An empty payload is the first entry of a leader's term and changes
    /// nothing.
    Normal,
    /// An encoded [`MembershipChange`]. The replica applies the change when it hands the entry out.
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

/// The position of an entry. Index and term together identify one entry for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub term: u64,
    pub index: u64,
}

/// The state that Raft must not forget, besides the log. `vote` is the member voted for; 0 is
/// nobody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HardState {
    pub term: u64,
    pub vote: u64,
    pub commit: u64,
}

/// The facts that Raft knows about a snapshot. The caller has the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotMeta {
    /// The index and the term of the last entry that the snapshot covers.
    pub index: u64,
    pub term: u64,
    /// The membership that is active after that entry.
    pub membership: Membership,
}

/// The Raft state that a member finds on its disk, and passes to `Replica::new`.
#[derive(Clone, Debug, Default)]
pub struct Restored {
    pub hard_state: HardState,
    /// The membership after the entry at `applied_index`. Membership entries behind that index are
    /// not in it yet: the replica hands them out again, and they take effect then.
    pub membership: Membership,
    pub snapshot_index: u64,
    pub snapshot_term: u64,
    /// All entries after the snapshot, or after `left_out` if that is set, without gaps.
    pub entries: Vec<Entry>,
    /// The first entries after the snapshot, if they are not in `entries`: the state machine has
    /// applied them.
    pub left_out: Option<LeftOut>,
    /// The index up to which the state machine has applied the log: that of the snapshot, or of a
    /// later committed entry.
    pub applied_index: u64,
}

/// Entries right after the snapshot that are only on disk. None of them changes the membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The position of the last such entry.
    pub last: Position,
    /// Sum of the bytes of their payloads.
    pub bytes: u64,
}

impl Restored {
    /// The position before the first of `entries`.
    pub fn entries_after(&self) -> Position {
        let snapshot = Position { term: self.snapshot_term, index: self.snapshot_index };
        self.left_out.map_or(snapshot, |left_out| left_out.last)
    }

    /// Sum of the bytes of the payloads of all entries after the snapshot.
    pub fn log_bytes(&self) -> u64 {
        let bytes: u64 = self.entries.iter().map(|entry| entry.payload.len() as u64).sum();
        self.left_out.map_or(0, |left_out| left_out.bytes) + bytes
    }

    /// Drops applied entries from memory, oldest first; keeps the newest, up to `bytes_kept_max`
    /// bytes. Panics if a dropped entry changes the membership.
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

    /// The entries that the state machine has applied already.
    pub fn applied_entries(&self) -> &[Entry] {
        let count = self.entries.partition_point(|entry| entry.index <= self.applied_index);
        &self.entries[..count]
    }

    /// The term of the last entry that the state machine has applied.
    pub fn applied_term(&self) -> u64 {
        self.applied_entries().last().map_or(self.entries_after().term, |entry| entry.term)
    }
}

/// Identifies one persist job; later jobs have greater ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PersistId(pub(crate) u64);

/// One job for the disk. Jobs are written in the order in which they were handed out. Within a job
/// the order is `install`, `entries`, `hard_state`: a hard state on disk without the entries before
/// it would promise a commit index that the log does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Persist {
    pub id: PersistId,
    /// Replaces the log and the state by this snapshot. The caller already has its data.
    pub install: Option<SnapshotMeta>,
    /// Replaces everything on disk from the index of the first entry on. May be empty.
    pub entries: Vec<Entry>,
    pub hard_state: Option<HardState>,
    /// False if only the commit index moved: such a job needs no sync of its own, and nothing waits
    /// for it.
    pub must_sync: bool,
}

/// A message for a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    pub to: u64,
    pub bytes: Bytes,
    /// Set if this message installs a snapshot. The caller first streams the snapshot's data, and
    /// then sends `bytes`. The receiver calls `step` when it has all of the data. Whether that
    /// succeeded or failed, the sender calls `Replica::report_snapshot`.
    pub snapshot: Option<SnapshotMeta>,
}

/// The role of a member. A learner is always a follower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Follower,
    PreCandidate,
    Candidate,
    Leader,
}

/// Role, term and leader, when one of them has changed since the last `RoleChange`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleChange {
    pub role: Role,
    pub term: u64,
    /// `None` if no leader is known.
    pub leader: Option<u64>,
}

/// A membership, and the index of the entry that made it active.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MembershipAt {
    pub index: u64,
    pub membership: Membership,
}

/// Asks the caller for a snapshot for a follower that needs entries no longer in memory. The caller
/// chooses a snapshot of any member and calls `Replica::send_snapshot`. The request is repeated
/// until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotWanted {
    pub to: u64,
    /// The snapshot's index must be at least this.
    pub index_min: u64,
    /// A snapshot of at least this index will probably still be usable when the follower has it:
    /// the log will still reach back to it. A snapshot that must first be taken or transferred
    /// should have at least this index.
    pub index_fresh: u64,
}

/// Identifies one linearizable read within this boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadId(pub(crate) u64);

/// Work for the caller, from `Replica::effects`. Its parts are independent: the messages may be
/// sent before, during or after the persist job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// A job for the disk. The caller reports it with `Replica::on_persisted`.
    pub persist: Option<Persist>,
    /// Messages to send now. They may get lost, duplicated and reordered.
    pub messages: Vec<Outgoing>,
    /// Committed entries, in order, without gaps, each once per boot. They are on a quorum's disks,
    /// but perhaps not on this member's. The caller applies them and calls `Replica::on_applied`.
    pub committed: Vec<Entry>,
    /// The memberships that became active with entries of `committed`.
    pub memberships: Vec<MembershipAt>,
    pub role_change: Option<RoleChange>,
    /// Reads, each with an index: a read may be served once the state machine has applied that
    /// index.
    pub reads: Vec<(ReadId, u64)>,
    /// Reads whose deadline has passed. The caller may ask again.
    pub reads_failed: Vec<ReadId>,
    /// Snapshots that followers need, at most one for each follower.
    pub snapshots_wanted: Vec<SnapshotWanted>,
}

impl Effects {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        *self == Effects::default()
    }
}

impl Entry {
    /// Converts from raft-rs's form. Only for entries that `to_raft` or raft-rs itself made.
    pub(crate) fn from_raft(entry: &eraftpb::Entry) -> Entry {
        let membership = entry.get_entry_type() == eraftpb::EntryType::EntryConfChangeV2;
        let (kind, payload) = if membership {
            (EntryKind::Membership, MembershipChange::from_raft(entry).encode())
        } else {
            (EntryKind::Normal, entry.data.clone())
        };
        Entry { index: entry.index, term: entry.term, kind, payload }
    }

    /// Converts to raft-rs's form. Called for entries from disk and from peers.
    ///
    /// # Errors
    /// The payload of a membership entry is not an encoded change.
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
