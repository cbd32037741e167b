//! Keeps the memberships of the log, each with the first entry at which it is active, as far back
//! as the next snapshot may need them.

use std::collections::VecDeque;

use machine::LogIndex;
use storage::wal::Membership;

/// Memberships in the order of the log, the newest last. The first is the membership at the last
/// durable snapshot or before, so the list is never empty.
pub(super) struct Memberships {
    by_index: VecDeque<(LogIndex, Membership)>,
}

impl Memberships {
    /// Begins with the membership that a start restores, active from the entry at `from` on.
    pub fn new(from: LogIndex, membership: Membership) -> Memberships {
        Memberships { by_index: VecDeque::from([(from, membership)]) }
    }

    /// Adds a membership that is active from the entry at `from` on.
    pub fn push(&mut self, from: LogIndex, membership: Membership) {
        self.by_index.push_back((from, membership));
    }

    /// All memberships that are kept, each with the first entry at which it is active.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, &Membership)> {
        self.by_index.iter().map(|(from, membership)| (from.0, membership))
    }

    /// The active membership.
    pub fn newest(&self) -> &Membership {
        &self.by_index.back().expect("the list is never empty").1
    }

    /// The membership that was active at `index`, where a snapshot may end.
    pub fn at(&self, index: LogIndex) -> &Membership {
        let older = self.by_index.iter().rev().find(|(from, _)| *from <= index);
        &older.expect("those that a snapshot may have are kept").1
    }

    /// The lowest index at which the membership is known.
    pub fn first_index(&self) -> LogIndex {
        self.by_index.front().expect("the list is never empty").0
    }

    /// The entry at which the present run of memberships that satisfy `is_such` began; `None` if
    /// the newest membership does not satisfy it.
    pub fn since(&self, is_such: impl Fn(&Membership) -> bool) -> Option<LogIndex> {
        let known = self.by_index.iter().rev();
        known.take_while(|(_, membership)| is_such(membership)).last().map(|(from, _)| *from)
    }

    /// Forgets memberships that no longer count at `index`, where a durable snapshot ends: no later
    /// snapshot needs them.
    pub fn forget_before(&mut self, index: LogIndex) {
        while self.by_index.get(1).is_some_and(|(from, _)| *from <= index) {
            self.by_index.pop_front();
        }
    }
}
