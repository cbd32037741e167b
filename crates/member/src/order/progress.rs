//! Records how far this member has applied the log, and whether it is ready to serve clients.

use machine::LogIndex;

/// How far this member has applied the log, and whether it is ready to serve clients.
#[derive(Default)]
pub(super) struct Progress {
    /// The last entry that is applied here.
    applied: LogIndex,
    /// The commit index that the disk held at the start: entries up to it are replayed.
    replayed_to: LogIndex,
    /// Whether a follower has asked the leader for the commit index that it must apply to be ready.
    is_ready_asked: bool,
    /// That commit index; `None` until the leader has answered.
    ready_from: Option<LogIndex>,
    is_ready: bool,
}

impl Progress {
    /// The progress of a member whose restored state is as of `applied`, and whose log is known to
    /// be committed up to `replayed_to`.
    pub fn new(applied: LogIndex, replayed_to: LogIndex) -> Progress {
        Progress { applied, replayed_to, ..Progress::default() }
    }

    /// The last entry that is applied here.
    #[inline]
    pub fn applied(&self) -> LogIndex {
        self.applied
    }

    /// Notes that entries up to this one are applied.
    #[inline]
    pub fn on_applied(&mut self, index: LogIndex) {
        assert!(index >= self.applied);
        self.applied = index;
    }

    /// Whether entries that were committed before the start are still to be applied.
    pub fn is_replaying(&self) -> bool {
        self.applied < self.replayed_to
    }

    /// Whether this member has begun to serve clients.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// Notes that this member serves clients from now on.
    pub fn set_ready(&mut self) {
        self.is_ready = true;
    }

    /// Whether a follower must still ask the leader for the commit index.
    pub fn wants_index(&self) -> bool {
        !self.is_ready && !self.is_ready_asked
    }

    /// Notes that the commit index was asked for.
    pub fn on_asked(&mut self) {
        self.is_ready_asked = true;
    }

    /// Takes the leader's commit index; with `None` the question failed and is asked again.
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
