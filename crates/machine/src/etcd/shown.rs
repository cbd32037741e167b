//! How much of what a command shows its outcome collects.

use crate::etcd::event::Event;
use crate::limits::{ETCD_ANSWER_ITEM_WEIGHT, ETCD_ANSWER_WEIGHT_MAX};

/// Whether the outcome of a command collects what it shows: the versions that operations read or
/// replace. Only the member that answers the client needs them, and only up to the limit of an
/// answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// Nobody takes the outcome.
    Nothing,
    /// As long as they do not weigh more than this.
    UpTo(u64),
    /// They have weighed more than an answer may, so there is none.
    TooMuch,
}

impl Shown {
    /// At the beginning of a command whose outcome somebody takes, or nobody.
    pub fn at_begin(is_taken: bool) -> Shown {
        if is_taken { Shown::UpTo(ETCD_ANSWER_WEIGHT_MAX) } else { Shown::Nothing }
    }

    /// Whether versions are collected.
    pub fn collects(self) -> bool {
        matches!(self, Shown::UpTo(_))
    }

    /// Notes that this much was collected.
    pub fn weigh(&mut self, weight: u64) {
        if let Shown::UpTo(left) = self {
            *self = left.checked_sub(weight).map_or(Shown::TooMuch, Shown::UpTo);
        }
    }
}

/// The weight of a version in an outcome: at least what its reference takes in memory, at most what
/// it will take in the answer and a little more.
pub(crate) fn weight_of(event: &Event, keys_only: bool) -> u64 {
    let shown = event.key().len() + if keys_only { 0 } else { event.value().len() };
    (shown as u64).max(ETCD_ANSWER_ITEM_WEIGHT)
}
