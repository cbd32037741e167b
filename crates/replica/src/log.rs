//! The log that raft-rs reads: in memory only, and bounded.
//!
//! Invariant: `entries` follow `truncated` without a gap, everything not yet applied is here, and
//! what is below that is kept within the limits. The log on disk is the caller's; a follower that
//! needs what is only there gets a snapshot instead.

use std::cell::Cell;
use std::collections::VecDeque;

use raft::eraftpb::{ConfState, Entry, EntryType, HardState, Snapshot};
use raft::{Error, GetEntriesContext, RaftState, Storage, StorageError};

use crate::effects::{Position, SnapshotMeta, SnapshotWanted};
use crate::limits::{ENTRY_OVERHEAD_BYTES, LOG_BYTES_PINNED_MAX};

pub(crate) struct Log {
    /// What raft-rs starts from; not kept up to date afterwards.
    initial: (HardState, ConfState),
    /// The entry before the first of `entries`; its term is needed to anchor an append.
    truncated: Position,
    entries: VecDeque<Entry>,
    applied_index: u64,
    /// Memory of the entries up to `applied_index`.
    applied_bytes: usize,
    snapshot: Option<SnapshotMeta>,
    /// The last membership entry that was handed out in this boot.
    membership_index: u64,
    /// Set by raft-rs's reads, hence the cell.
    wanted: Cell<Option<SnapshotWanted>>,
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
            membership_index: 0,
            wanted: Cell::new(None),
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

    /// Replaces everything by a snapshot that comes from the leader. It can be sent on from here:
    /// this member leads only after it was installed.
    pub(crate) fn install(&mut self, meta: &SnapshotMeta) {
        self.truncated = Position { term: meta.term, index: meta.index };
        self.entries.clear();
        self.applied_bytes = 0;
        self.snapshot = Some(meta.clone());
        self.wanted.set(None);
    }

    /// The state machine has reached `index`.
    pub(crate) fn on_applied(&mut self, index: u64) {
        let from = self.position(self.applied_index + 1);
        let to = self.position(index + 1);
        let bytes: usize = self.entries.range(from..to).map(entry_bytes).sum();
        self.applied_bytes += bytes;
        self.applied_index = index;
    }

    /// There is a snapshot that followers can be sent.
    pub(crate) fn offer(&mut self, meta: SnapshotMeta) {
        assert!(meta.index <= self.applied_index, "a snapshot holds only what was applied");
        if self.snapshot.as_ref().is_none_or(|offered| offered.index < meta.index) {
            self.snapshot = Some(meta);
            self.wanted.set(None);
        }
    }

    /// The entry at `index` has changed the membership.
    pub(crate) fn on_membership(&mut self, index: u64) {
        self.membership_index = index;
    }

    /// Drops the oldest applied entries: those after `pinned_index` only beyond
    /// `LOG_BYTES_PINNED_MAX`, the others beyond `bytes_max`.
    pub(crate) fn compact(&mut self, pinned_index: u64, bytes_max: usize) {
        while let Some(first) = self.entries.front() {
            let pinned = first.index > pinned_index;
            let limit = if pinned { LOG_BYTES_PINNED_MAX } else { bytes_max };
            if first.index > self.applied_index || self.applied_bytes <= limit {
                break;
            }
            self.applied_bytes -= entry_bytes(first);
            self.truncated = Position { term: first.term, index: first.index };
            self.entries.pop_front();
        }
    }

    /// What a follower needs and does not get; asked once.
    pub(crate) fn take_wanted(&self) -> Option<SnapshotWanted> {
        self.wanted.take()
    }

    pub(crate) fn has_wanted(&self) -> bool {
        self.wanted.get().is_some()
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

    /// Where the entry of `index` stands in `entries`; clamped to what there is.
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

    /// A snapshot serves only if the log goes on from it (otherwise the follower would need
    /// another one right after it), and if the follower is a member in it: raft-rs ignores a
    /// snapshot that does not know its receiver, and would be sent the same one for ever.
    fn snapshot(&self, request_index: u64, to: u64) -> raft::Result<Snapshot> {
        let mut index_min = request_index.max(self.truncated.index);
        if let Some(meta) = &self.snapshot {
            if meta.index >= index_min && meta.membership.contains(to) {
                return Ok(meta.to_raft());
            }
            if !meta.membership.contains(to) {
                index_min = index_min.max(self.membership_index);
            }
        }
        self.wanted.set(Some(SnapshotWanted { to, index_min }));
        Err(Error::Store(StorageError::SnapshotTemporarilyUnavailable))
    }
}

/// What an entry costs in memory, in bytes.
fn entry_bytes(entry: &Entry) -> usize {
    entry.data.len() + ENTRY_OVERHEAD_BYTES
}

#[cfg(test)]
mod tests;
