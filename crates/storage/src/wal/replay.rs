//! Rebuilds the log's state from its frames, given in order. Pure: no disk.

use bytes::Bytes;

use crate::error::StorageError;
use crate::record::{
    FrameHeader, FrameKind, HardState, LogEntry, Membership, SnapshotPoint, decode_entry,
    decode_hard_state, decode_membership, decode_snapshot_point,
};
use crate::wal::scan::{Segment, log_path};

/// The state of the log after the frames read so far.
#[derive(Clone, Debug)]
pub(crate) struct Replay {
    /// The newest hard state.
    pub hard_state: HardState,
    /// The newest membership.
    pub membership: Membership,
    /// The newest snapshot point.
    pub snapshot: SnapshotPoint,
    /// Entries from `first` on, without gaps.
    pub entries: Vec<LogEntry>,
    /// The index of the first entry in `entries`, or the one that it would have if `entries` is
    /// empty.
    pub first: u64,
}

impl Replay {
    /// Starts with the head of the first segment of the chain.
    pub fn new(segment: &Segment) -> Replay {
        Replay {
            hard_state: segment.head.hard_state,
            membership: segment.head.membership.clone(),
            snapshot: segment.head.snapshot,
            entries: Vec::new(),
            first: segment.base_index.saturating_add(1),
        }
    }

    /// Index of the last entry, or `first - 1` if there are none.
    pub fn last(&self) -> u64 {
        let end = self.first.saturating_add(self.entries.len() as u64);
        end.saturating_sub(1)
    }

    /// Continues with the next segment, whose head must agree with what was read so far.
    pub fn on_head(&mut self, segment: &Segment) -> Result<(), StorageError> {
        if segment.base_index != self.last() {
            let (base, last) = (segment.base_index, self.last());
            let what = format!("the segment starts after index {base}, the log ends at {last}");
            let start = crate::record::FRAMES_START;
            return Err(StorageError::corrupt(&log_path(segment.sequence), start, what));
        }
        self.hard_state = segment.head.hard_state;
        self.membership = segment.head.membership.clone();
        self.snapshot = segment.head.snapshot;
        self.trim();
        Ok(())
    }

    /// Takes a frame that follows the head. The error says what is wrong with the frame.
    pub fn on_frame(&mut self, header: &FrameHeader, body: &Bytes) -> Result<(), String> {
        let text = |error: crate::codec::DecodeError| error.to_string();
        match header.kind {
            FrameKind::Head => return Err("a head stands inside a segment".to_owned()),
            FrameKind::Entry => self.on_entry(decode_entry(header, body).map_err(text)?)?,
            FrameKind::HardState => self.hard_state = decode_hard_state(body).map_err(text)?,
            FrameKind::Membership => self.membership = decode_membership(body).map_err(text)?,
            FrameKind::Snapshot => {
                self.on_snapshot(decode_snapshot_point(body).map_err(text)?)?;
            }
        }
        Ok(())
    }

    /// Adds an entry. If its index is not above the last one, it replaces the log from there on, as
    /// a follower does when its entries conflict with the leader's.
    fn on_entry(&mut self, entry: LogEntry) -> Result<(), String> {
        let (index, last, covered) = (entry.index, self.last(), self.snapshot.index);
        if index > last.saturating_add(1) {
            return Err(format!("entry {index} follows entry {last}"));
        }
        if index <= covered {
            return Err(format!("entry {index} is covered by the snapshot at {covered}"));
        }
        match index.checked_sub(self.first) {
            Some(kept) => self.entries.truncate(usize::try_from(kept).unwrap_or(usize::MAX)),
            None => {
                self.entries.clear();
                self.first = index;
            }
        }
        self.entries.push(entry);
        Ok(())
    }

    fn on_snapshot(&mut self, point: SnapshotPoint) -> Result<(), String> {
        let last = self.last();
        if point.index > last {
            let index = point.index;
            return Err(format!("the snapshot at {index} is behind the last entry, {last}"));
        }
        self.snapshot = point;
        self.trim();
        Ok(())
    }

    /// Drops entries that the snapshot covers.
    fn trim(&mut self) {
        let covered = self.snapshot.index.saturating_add(1);
        let count = covered.saturating_sub(self.first);
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let count = count.min(self.entries.len());
        self.entries.drain(..count);
        self.first = self.first.saturating_add(count as u64);
    }

    /// Whether all entries behind the snapshot are present.
    pub fn is_complete(&self) -> bool {
        let covered = self.snapshot.index;
        self.first <= covered.saturating_add(1) && self.last() >= covered
    }

    /// The hard state, with a commit index raised at least to the snapshot's (which is committed,
    /// even if the commit index was not written since), and lowered at most to the last entry's
    /// (the torn batch may have held entries that a written commit index covers).
    pub fn usable_hard_state(&self) -> HardState {
        let commit = self.hard_state.commit.max(self.snapshot.index);
        HardState { commit: commit.min(self.last()), ..self.hard_state }
    }
}
