//! Decides how many versions of keys the outcome of a command collects: none if nobody will read
//! the outcome on this member, and at most as many as an answer to a client may hold.

use crate::etcd::event::Event;
use crate::limits::{ETCD_ANSWER_ITEM_WEIGHT, ETCD_ANSWER_WEIGHT_MAX};

/// Whether the outcome of a command collects what it shows: the versions that operations read or
/// replace. Only the member that answers the client needs them, and only up to the largest answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// Collect nothing: nobody will read the outcome.
    Nothing,
    /// Collect versions, up to this much more weight in bytes.
    UpTo(u64),
    /// Collect nothing more: the versions weigh more than an answer may, so none is sent.
    TooMuch,
}

impl Shown {
    /// The value at the beginning of a command. `is_taken` says whether somebody will read the
    /// outcome.
    pub fn at_begin(is_taken: bool) -> Shown {
        if is_taken { Shown::UpTo(ETCD_ANSWER_WEIGHT_MAX) } else { Shown::Nothing }
    }

    /// Whether versions are collected.
    pub fn collects(self) -> bool {
        matches!(self, Shown::UpTo(_))
    }

    /// Notes that versions of this weight were collected.
    pub fn weigh(&mut self, weight: u64) {
        if let Shown::UpTo(left) = self {
            *self = left.checked_sub(weight).map_or(Shown::TooMuch, Shown::UpTo);
        }
    }
}

/// The weight of a version in an outcome, in bytes: at least what a reference to it takes in
/// memory, and about what it takes in the answer.
pub(crate) fn weight_of(event: &Event, keys_only: bool) -> u64 {
    let shown = event.key().len() + if keys_only { 0 } else { event.value().len() };
    (shown as u64).max(ETCD_ANSWER_ITEM_WEIGHT)
}
