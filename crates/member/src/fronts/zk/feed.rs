//! Queues Apply's deliveries that this Front has not taken yet.

use std::collections::VecDeque;

use machine::zk::change::Made;
use machine::{Acl, ConnectionId, Mark, Ordinal, SharedChanges};
use zk::response::EventType;

use crate::message::Answer;

/// The deliveries that are not taken yet, and the events of the last change that was taken.
#[derive(Default)]
pub(super) struct Feed {
    pub deliveries: VecDeque<Incoming>,
    /// Events that were not yet sent to all of their connections.
    pub firing: VecDeque<Firing>,
    /// How many more changes, answers and events the present piece may take.
    pub left: usize,
    /// The highest zxid of the changes taken so far. Replies show it once all changes of that zxid
    /// were taken.
    pub zxid: i64,
    /// Whether the last hold found ZooKeeper's tree in the middle of a multi or of the end of a
    /// session. Apply makes a delivery when that is over, and reads run again.
    pub waits_for_tree: bool,
}

/// A delivery, with the position up to which it was taken.
pub(super) struct Incoming {
    pub changes: SharedChanges,
    /// How many of the changes were taken.
    taken: usize,
    /// Set if the delivery replaces the state: the new state's mark, until it is taken.
    pub replaced: Option<Mark>,
    answers: std::vec::IntoIter<Answer>,
}

/// The next item of a delivery.
pub(super) enum Next {
    /// The change that [`Incoming::take_change`] takes.
    Change,
    /// The state was replaced by another one with this mark.
    Replaced(Mark),
    Answer(Answer),
    Nothing,
}

impl Incoming {
    pub fn new(changes: SharedChanges, answers: Vec<Answer>) -> Incoming {
        let replaced = changes.control.replaced().map(|(mark, _)| mark);
        Incoming { changes, taken: 0, replaced, answers: answers.into_iter() }
    }

    /// Returns the next item in the order of ordinals. A change comes before the answers that show
    /// it.
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

/// An event with the connections that it was not sent to yet.
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

    /// Counts `count` items in the present piece, even if fewer are left.
    pub fn spend(&mut self, count: usize) {
        self.left = self.left.saturating_sub(count);
    }
}
