//! The part of the log that is in memory, where raft-rs reads it.
//!
//! Invariant: `entries` follow `truncated`, the position before the first of them, without a gap.
//! Every entry that is not applied yet is here. Applied entries are kept up to a limit of bytes.
//! The caller has the log on disk. A follower that needs an entry that is only on disk gets a
//! snapshot instead.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};

use raft::eraftpb::{ConfState, Entry, EntryType, HardState, Snapshot};
use raft::{Error, GetEntriesContext, RaftState, Storage, StorageError};

use crate::effects::{Position, SnapshotMeta, SnapshotWanted};
use crate::limits::ENTRY_OVERHEAD_BYTES;
use crate::replica::LogMemory;

pub(crate) struct Log {
    /// The state that raft-rs starts with; not updated afterwards.
    initial: (HardState, ConfState),
    /// Position of the entry before the first of `entries`. An append message that begins with that
    /// first entry names the term of this position.
    truncated: Position,
    entries: VecDeque<Entry>,
    applied_index: u64,
    /// Bytes of memory of the entries up to `applied_index`.
    applied_bytes: usize,
    /// The newest snapshot of this member.
    snapshot: Option<SnapshotMeta>,
    /// The follower, and the snapshot that the caller chose to send to it now.
    chosen: Option<(u64, SnapshotMeta)>,
    /// The index of the last membership entry that was handed out in this boot.
    membership_index: u64,
    /// For each follower that needs a snapshot: the least index of that snapshot. In a cell,
    /// because raft-rs fills it through a shared reference.
    wanted: RefCell<BTreeMap<u64, u64>>,
}

/// The indexes after which applied entries are still needed; `u64::MAX` if none are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Needed {
    /// Entries after this are needed by a snapshot in the making or in transfer, or by a live
    /// follower.
    pub pinned_index: u64,
    /// Entries after this are needed by a follower that has been silent for a short time.
    pub away_index: u64,
}

impl Needed {
    pub const NOTHING: Needed = Needed { pinned_index: u64::MAX, away_index: u64::MAX };
}

impl Log {
    /// A log with `entries` after `truncated`.
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

    /// Appends entries. Replaces everything from the index of the first one on.
    pub(crate) fn append(&mut self, entries: &[Entry]) {
        let Some(first) = entries.first() else {
            return;
        };
        assert!(first.index > self.applied_index, "applied entries are never replaced");
        assert!(first.index <= self.last() + 1, "the log has no gaps");
        self.entries.truncate(self.position(first.index));
        self.entries.extend(entries.iter().cloned());
    }

    /// Replaces everything by a snapshot from the leader. If this member leads later, it may send
    /// that snapshot to others: it will be installed by then.
    pub(crate) fn install(&mut self, meta: &SnapshotMeta) {
        self.truncated = Position { term: meta.term, index: meta.index };
        self.entries.clear();
        self.applied_bytes = 0;
        self.snapshot = Some(meta.clone());
        self.wanted.borrow_mut().clear();
    }

    /// Records that the state machine has applied everything up to `index`.
    pub(crate) fn on_applied(&mut self, index: u64) {
        let from = self.position(self.applied_index + 1);
        let to = self.position(index + 1);
        let bytes: usize = self.entries.range(from..to).map(entry_bytes).sum();
        self.applied_bytes += bytes;
        self.applied_index = index;
    }

    /// Records a snapshot that can be sent to followers.
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

    /// Chooses the snapshot to send to one follower. Until the next call, that follower is sent
    /// only this snapshot, and no other follower is sent any.
    pub(crate) fn choose(&mut self, chosen: Option<(u64, SnapshotMeta)>) {
        self.chosen = chosen;
    }

    /// Records that the entry at `index` changed the membership.
    pub(crate) fn on_membership(&mut self, index: u64) {
        self.membership_index = index;
    }

    /// Drops the oldest applied entries as far as the limits demand. Entries that `needed` names
    /// have limits of their own, usually larger ones.
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

    /// Takes the requests for snapshots that followers need. `index_fresh` in them is an index
    /// after which the log has about half of `pinned_bytes_max` bytes at most.
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

    /// An index after which the applied entries have about `bytes` bytes or fewer. An estimate, as
    /// if all entries had equal sizes, is enough.
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

    /// Whether a membership entry is among the entries that are not applied, up to `index`.
    pub(crate) fn has_membership_change_up_to(&self, index: u64) -> bool {
        let from = self.position(self.applied_index.max(self.truncated.index) + 1);
        let to = self.position(index + 1).max(from);
        let mut entries = self.entries.range(from..to);
        entries.any(|entry| entry.get_entry_type() != EntryType::EntryNormal)
    }

    /// The entries in memory from index `from` to index `to`, both included.
    pub(crate) fn range(&self, from: u64, to: u64) -> impl Iterator<Item = &Entry> {
        let (from, to) = (self.position(from), self.position(to + 1));
        self.entries.range(from..to.max(from))
    }

    /// The index of the last entry from `from` to `to` that comes before any membership entry and
    /// keeps the range within `bytes_max` bytes (the first entry may be larger). `from - 1` if
    /// there is none.
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

    /// The term of an entry in memory, or of the one before the first.
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

    /// The position in `entries` of the entry at `index`; clamped to the length of `entries`.
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

    /// Returns only the snapshot that the caller chose for `to`, if it is usable. Otherwise records
    /// that `to` needs one, which the caller learns from `take_wanted`.
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

/// Whether a snapshot is usable for follower `to`. The log must continue from it, or the follower
/// would need another one right after. And the follower must be a member in it: raft-rs ignores a
/// snapshot that does not know its receiver, and the leader would send it again for ever.
fn serves(meta: &SnapshotMeta, to: u64, index_min: u64) -> bool {
    meta.index >= index_min && meta.membership.contains(to)
}

/// Bytes of memory that an entry takes.
fn entry_bytes(entry: &Entry) -> usize {
    entry.data.len() + ENTRY_OVERHEAD_BYTES
}

#[cfg(test)]
mod tests;
