//! The log that raft-rs reads: in memory only, and bounded.
//!
//! Invariant: `entries` follow `truncated` without a gap. All entries not yet applied are here;
//! applied ones are kept within the limits. The log on disk is the caller's; a follower that needs
//! an entry that is only there gets a snapshot instead.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};

use raft::eraftpb::{ConfState, Entry, EntryType, HardState, Snapshot};
use raft::{Error, GetEntriesContext, RaftState, Storage, StorageError};

use crate::effects::{Position, SnapshotMeta, SnapshotWanted};
use crate::limits::ENTRY_OVERHEAD_BYTES;
use crate::replica::LogMemory;

pub(crate) struct Log {
    /// The state that raft-rs starts from; not kept up to date afterwards.
    initial: (HardState, ConfState),
    /// The entry before the first of `entries`; its term is needed to anchor an append.
    truncated: Position,
    entries: VecDeque<Entry>,
    applied_index: u64,
    /// Memory of the entries up to `applied_index`.
    applied_bytes: usize,
    /// The newest snapshot of this member.
    snapshot: Option<SnapshotMeta>,
    /// The snapshot that the caller chose for a follower, to be sent now.
    chosen: Option<(u64, SnapshotMeta)>,
    /// The last membership entry that was handed out in this boot.
    membership_index: u64,
    /// The least index that each follower needs, at most one for each member. A cell, since
    /// raft-rs's reads fill it.
    wanted: RefCell<BTreeMap<u64, u64>>,
}

/// The indices after which applied entries are needed; the greatest number for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Needed {
    /// By a snapshot that is made or streamed, or by a follower that is alive.
    pub pinned_index: u64,
    /// By a follower that has been away for a short time.
    pub away_index: u64,
}

impl Needed {
    pub const NOTHING: Needed = Needed { pinned_index: u64::MAX, away_index: u64::MAX };
}

impl Log {
    /// A log of `entries`, which follow `truncated` without a gap.
    pub(crate) fn new(
        initial: (HardState, ConfState),
        truncated: Position,
        entries: VecDeque<Entry>,
        applied_index: u64,
    ) -> Log {
        let mut log = Log {
            initial,
            truncated,
            entries,
            applied_index: truncated.index,
            applied_bytes: 0,
            snapshot: None,
            chosen: None,
            membership_index: 0,
            wanted: RefCell::default(),
        };
        log.on_applied(applied_index);
        log
    }

    /// Appends; replaces everything from the index of the first entry on.
    pub(crate) fn append(&mut self, entries: &[Entry]) {
        let Some(first) = entries.first() else {
            return;
        };
        assert!(first.index > self.applied_index, "applied entries are never replaced");
        assert!(first.index <= self.last() + 1, "the log has no gaps");
        self.entries.truncate(self.position(first.index));
        self.entries.extend(entries.iter().cloned());
    }

    /// Replaces everything by a snapshot from the leader. This member may send it on: it leads only
    /// after it was installed.
    pub(crate) fn install(&mut self, meta: &SnapshotMeta) {
        self.truncated = Position { term: meta.term, index: meta.index };
        self.entries.clear();
        self.applied_bytes = 0;
        self.snapshot = Some(meta.clone());
        self.wanted.borrow_mut().clear();
    }

    /// Notes that the state machine has reached `index`.
    pub(crate) fn on_applied(&mut self, index: u64) {
        let from = self.position(self.applied_index + 1);
        let to = self.position(index + 1);
        let bytes: usize = self.entries.range(from..to).map(entry_bytes).sum();
        self.applied_bytes += bytes;
        self.applied_index = index;
    }

    /// Notes a snapshot that followers can be sent.
    pub(crate) fn on_taken(&mut self, meta: SnapshotMeta) {
        assert!(meta.index <= self.applied_index, "a snapshot holds only what was applied");
        if self.snapshot.as_ref().is_none_or(|taken| taken.index < meta.index) {
            self.snapshot = Some(meta);
        }
    }

    /// The newest snapshot of this member.
    pub(crate) fn snapshot(&self) -> Option<&SnapshotMeta> {
        self.snapshot.as_ref()
    }

    /// Chooses the snapshot for a follower. Until the next call it is sent only this one, and no
    /// other follower is sent any.
    pub(crate) fn choose(&mut self, chosen: Option<(u64, SnapshotMeta)>) {
        self.chosen = chosen;
    }

    /// The entry at `index` has changed the membership.
    pub(crate) fn on_membership(&mut self, index: u64) {
        self.membership_index = index;
    }

    /// Drops the oldest applied entries: those that are needed only beyond the limit for them.
    pub(crate) fn compact(&mut self, needed: Needed, memory: LogMemory) {
        while let Some(first) = self.entries.front() {
            let limit = if first.index > needed.pinned_index {
                memory.pinned_bytes_max
            } else if first.index > needed.away_index {
                memory.away_bytes_max.max(memory.bytes_max)
            } else {
                memory.bytes_max
            };
            if first.index > self.applied_index || self.applied_bytes <= limit {
                break;
            }
            self.applied_bytes -= entry_bytes(first);
            self.truncated = Position { term: first.term, index: first.index };
            self.entries.pop_front();
        }
    }

    /// Takes the needs of followers that were not sent a snapshot. Fresh is a snapshot behind which
    /// the log has at most half of `pinned_bytes_max`.
    pub(crate) fn take_wanted(&self, pinned_bytes_max: usize) -> Vec<SnapshotWanted> {
        let index_fresh = self.index_before(pinned_bytes_max / 2);
        let wanted = self.wanted.take().into_iter();
        wanted
            .map(|(to, index_min)| SnapshotWanted {
                to,
                index_min,
                index_fresh: index_fresh.max(index_min),
            })
            .collect()
    }

    pub(crate) fn has_wanted(&self) -> bool {
        !self.wanted.borrow().is_empty()
    }

    /// An index behind which the applied entries have about `bytes` bytes or less, as if all
    /// entries had one size: an estimate is enough.
    fn index_before(&self, bytes: usize) -> u64 {
        let count = self.position(self.applied_index + 1);
        let more = self.applied_bytes.saturating_sub(bytes);
        let skipped = (count * more).checked_div(self.applied_bytes).unwrap_or(0);
        self.truncated.index + skipped as u64
    }

    pub(crate) fn truncated(&self) -> Position {
        self.truncated
    }

    pub(crate) fn last(&self) -> u64 {
        self.entries.back().map_or(self.truncated.index, |entry| entry.index)
    }

    pub(crate) fn applied_bytes(&self) -> usize {
        self.applied_bytes
    }

    /// True if a membership entry is among those after the applied ones, up to `index`.
    pub(crate) fn has_membership_change_up_to(&self, index: u64) -> bool {
        let from = self.position(self.applied_index.max(self.truncated.index) + 1);
        let to = self.position(index + 1).max(from);
        let mut entries = self.entries.range(from..to);
        entries.any(|entry| entry.get_entry_type() != EntryType::EntryNormal)
    }

    /// The entries from one index to another, both included, as far as they are in memory.
    pub(crate) fn range(&self, from: u64, to: u64) -> impl Iterator<Item = &Entry> {
        let (from, to) = (self.position(from), self.position(to + 1));
        self.entries.range(from..to.max(from))
    }

    /// The last entry in the range before a membership entry and within `bytes_max` bytes, or at
    /// least one entry if larger; the entry before `from` if there is none.
    pub(crate) fn last_before_membership(&self, from: u64, to: u64, bytes_max: u64) -> u64 {
        let mut last = from - 1;
        let mut bytes = 0_u64;
        for entry in self.range(from, to) {
            bytes = bytes.saturating_add(u64::try_from(entry_bytes(entry)).unwrap_or(u64::MAX));
            let is_beyond = bytes > bytes_max && last >= from;
            if entry.get_entry_type() != EntryType::EntryNormal || is_beyond {
                break;
            }
            assert_eq!(entry.index, last + 1, "the log has no gaps");
            last = entry.index;
        }
        last
    }

    /// The term of an entry still in memory, or of the one before the first.
    pub(crate) fn term_of(&self, index: u64) -> Result<u64, StorageError> {
        if index == self.truncated.index {
            return Ok(self.truncated.term);
        }
        if index < self.truncated.index {
            return Err(StorageError::Compacted);
        }
        let entry = self.entries.get(self.position(index));
        entry.map(|entry| entry.term).ok_or(StorageError::Unavailable)
    }

    /// The position of the entry of `index` in `entries`; clamped to its length.
    fn position(&self, index: u64) -> usize {
        let distance = index.saturating_sub(self.truncated.index + 1);
        usize::try_from(distance).map_or(self.entries.len(), |at| at.min(self.entries.len()))
    }
}

impl Storage for Log {
    fn initial_state(&self) -> raft::Result<RaftState> {
        let (hard_state, conf_state) = self.initial.clone();
        Ok(RaftState { hard_state, conf_state })
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _context: GetEntriesContext,
    ) -> raft::Result<Vec<Entry>> {
        if low <= self.truncated.index {
            return Err(Error::Store(StorageError::Compacted));
        }
        assert!(high <= self.last() + 1, "raft-rs reads only what it has appended");
        let bytes_max = max_size.into().unwrap_or(u64::MAX);
        let mut bytes = 0_u64;
        let mut entries = Vec::new();
        for entry in self.entries.range(self.position(low)..self.position(high)) {
            bytes = bytes.saturating_add(u64::try_from(entry_bytes(entry)).unwrap_or(u64::MAX));
            if bytes > bytes_max && !entries.is_empty() {
                break;
            }
            entries.push(entry.clone());
        }
        Ok(entries)
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        self.term_of(index).map_err(Error::Store)
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.truncated.index + 1)
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.last())
    }

    /// Returns only the snapshot that the caller has chosen, if it serves; otherwise the caller is
    /// told of the need.
    fn snapshot(&self, request_index: u64, to: u64) -> raft::Result<Snapshot> {
        let mut index_min = request_index.max(self.truncated.index);
        if let Some((chosen_for, meta)) = &self.chosen
            && *chosen_for == to
            && serves(meta, to, index_min)
        {
            return Ok(meta.to_raft());
        }
        if self.snapshot.as_ref().is_some_and(|own| !own.membership.contains(to)) {
            index_min = index_min.max(self.membership_index);
        }
        self.wanted.borrow_mut().insert(to, index_min);
        Err(Error::Store(StorageError::SnapshotTemporarilyUnavailable))
    }
}

/// Whether a snapshot serves: the log must go on from it (otherwise the follower would need another
/// one right after it), and the follower must be a member in it. raft-rs ignores a snapshot that
/// does not know its receiver, and would be sent it again for ever.
fn serves(meta: &SnapshotMeta, to: u64, index_min: u64) -> bool {
    meta.index >= index_min && meta.membership.contains(to)
}

/// The memory that an entry takes, in bytes.
fn entry_bytes(entry: &Entry) -> usize {
    entry.data.len() + ENTRY_OVERHEAD_BYTES
}

#[cfg(test)]
mod tests;
