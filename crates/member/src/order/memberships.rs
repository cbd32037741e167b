//! The memberships of the log, as far back as a snapshot may need them.

use std::collections::VecDeque;

use machine::LogIndex;
use storage::wal::Membership;

/// The newest membership last, each with the entry that it is active from: back to the one that the
/// next snapshot has. There is always one.
pub(super) struct Memberships {
    by_index: VecDeque<(LogIndex, Membership)>,
}

impl Memberships {
    /// The one that a start finds.
    pub fn new(from: LogIndex, membership: Membership) -> Memberships {
        Memberships { by_index: VecDeque::from([(from, membership)]) }
    }

    /// Another one, active from that entry on.
    pub fn push(&mut self, from: LogIndex, membership: Membership) {
        self.by_index.push_back((from, membership));
    }

    /// The one that is active.
    pub fn newest(&self) -> &Membership {
        &self.by_index.back().expect("there is always one").1
    }

    /// The one that was active at that entry, which a snapshot may have.
    pub fn at(&self, index: LogIndex) -> &Membership {
        let older = self.by_index.iter().rev().find(|(from, _)| *from <= index);
        &older.expect("those that a snapshot may have are kept").1
    }

    /// The first entry at which it is known.
    pub fn first_index(&self) -> LogIndex {
        self.by_index.front().expect("there is always one").0
    }

    /// The first entry since which all of them are such.
    pub fn since(&self, is_such: impl Fn(&Membership) -> bool) -> Option<LogIndex> {
        let known = self.by_index.iter().rev();
        known.take_while(|(_, membership)| is_such(membership)).last().map(|(from, _)| *from)
    }

    /// A snapshot of that entry is durable: no later one needs what was active before it.
    pub fn forget_before(&mut self, index: LogIndex) {
        while self.by_index.get(1).is_some_and(|(from, _)| *from <= index) {
            self.by_index.pop_front();
        }
    }
}
