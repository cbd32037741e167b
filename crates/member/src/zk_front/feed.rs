//! The deliveries of Apply that wait to be taken.

use std::collections::VecDeque;

use machine::change::SharedChanges;
use machine::{Acl, ConnectionId};
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
}

/// The delivery that is being taken.
pub(super) struct Incoming {
    pub changes: SharedChanges,
    /// How many of the changes were taken.
    pub taken: usize,
    pub answers: std::vec::IntoIter<Answer>,
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
