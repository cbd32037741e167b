//! The deliveries of Apply that wait to be taken.

use std::collections::VecDeque;

use machine::zk::change::Made;
use machine::{Acl, ConnectionId, Mark, Ordinal, SharedChanges};
use zk::response::EventType;

use crate::message::Answer;

/// The deliveries that are not taken yet.
#[derive(Default)]
pub(super) struct Feed {
    pub deliveries: VecDeque<Incoming>,
    /// Events of the change that was taken last, which are not sent yet.
    pub firing: VecDeque<Firing>,
    /// How many more changes, answers and events the present piece may have.
    pub left: usize,
    /// The highest zxid of the changes that were taken. Replies show it once all changes with it
    /// were taken.
    pub zxid: i64,
    /// Whether a hold of the lock found the tree amid a change. Apply delivers something when that
    /// is over.
    pub waits_for_tree: bool,
}

/// The delivery that is being taken.
pub(super) struct Incoming {
    pub changes: SharedChanges,
    /// How many of the changes were taken.
    taken: usize,
    /// The mark of the state that took the place of the one before, until it is taken.
    pub replaced: Option<Mark>,
    answers: std::vec::IntoIter<Answer>,
}

/// The next item of a delivery.
pub(super) enum Next {
    /// The change that [`Incoming::take_change`] takes.
    Change,
    /// Another state, with this mark.
    Replaced(Mark),
    Answer(Answer),
    Nothing,
}

impl Incoming {
    pub fn new(changes: SharedChanges, answers: Vec<Answer>) -> Incoming {
        let replaced = changes.control.replaced().map(|(mark, _)| mark);
        Incoming { changes, taken: 0, replaced, answers: answers.into_iter() }
    }

    /// Returns the next item by ordinal. A change comes before the answers that show it.
    pub fn next(&mut self) -> Next {
        let answer_at = self.answers.as_slice().first().map(Answer::ordinal);
        let change_at = self.changes.zk.get(self.taken).map(|(made, _)| made.mark.ordinal);
        let is_first = |at: Ordinal, other: Option<Ordinal>| other.is_none_or(|other| at <= other);
        if let Some(mark) = self.replaced
            && is_first(mark.ordinal, change_at)
            && is_first(mark.ordinal, answer_at)
        {
            return Next::Replaced(mark);
        }
        if change_at.is_some_and(|at| is_first(at, answer_at)) {
            return Next::Change;
        }
        self.answers.next().map_or(Next::Nothing, Next::Answer)
    }

    /// Takes the next change, with its path.
    pub fn take_change(&mut self) -> (&Made, &str) {
        self.taken += 1;
        self.changes.zk.get(self.taken - 1).expect("it is the next one")
    }
}

/// An event on its way to many connections.
pub(super) struct Firing {
    pub zxid: i64,
    pub event: EventType,
    pub path: Box<str>,
    pub acl: Option<Acl>,
    pub connections: std::vec::IntoIter<ConnectionId>,
}

impl Feed {
    pub fn is_empty(&self) -> bool {
        self.deliveries.is_empty() && self.firing.is_empty()
    }

    /// Counts something that was done as a part of the present piece. It may be more than is left.
    pub fn spend(&mut self, count: usize) {
        self.left = self.left.saturating_sub(count);
    }
}
