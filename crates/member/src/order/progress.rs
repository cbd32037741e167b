//! The entries that this member has applied, and the moment when it begins to serve clients.

use machine::LogIndex;

/// The progress of this member until it begins to serve clients.
#[derive(Default)]
pub(super) struct Progress {
    /// The last entry that is applied here.
    applied: LogIndex,
    /// The commit index that the log held at the start: up to here, entries are applied again.
    replayed_to: LogIndex,
    /// Whether the index at which a follower becomes ready was asked for.
    is_ready_asked: bool,
    /// That index.
    ready_from: Option<LogIndex>,
    is_ready: bool,
}

impl Progress {
    /// A member whose restored state is as of `applied`, and whose log is committed up to
    /// `replayed_to`.
    pub fn new(applied: LogIndex, replayed_to: LogIndex) -> Progress {
        Progress { applied, replayed_to, ..Progress::default() }
    }

    /// The last entry that is applied here.
    #[inline]
    pub fn applied(&self) -> LogIndex {
        self.applied
    }

    /// Entries up to this one are applied.
    #[inline]
    pub fn on_applied(&mut self, index: LogIndex) {
        assert!(index >= self.applied);
        self.applied = index;
    }

    /// Whether entries from before the start are still to be applied.
    pub fn is_replaying(&self) -> bool {
        self.applied < self.replayed_to
    }

    /// Whether this member has begun to serve clients.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// This member serves clients from now on.
    pub fn set_ready(&mut self) {
        self.is_ready = true;
    }

    /// Whether a follower is to ask for the index at which it becomes ready.
    pub fn wants_index(&self) -> bool {
        !self.is_ready && !self.is_ready_asked
    }

    /// The index was asked for.
    pub fn on_asked(&mut self) {
        self.is_ready_asked = true;
    }

    /// Takes the index, or `None` if it cannot be had now.
    pub fn on_index(&mut self, index: Option<LogIndex>) {
        match index {
            Some(index) => self.ready_from = Some(index),
            None => self.is_ready_asked = false,
        }
    }

    /// Whether a follower has applied everything that was committed when it asked.
    pub fn has_caught_up(&self) -> bool {
        self.ready_from.is_some_and(|index| self.applied >= index)
    }
}
