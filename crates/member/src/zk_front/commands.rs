//! The commands of a Front: those that are gathered for the next batch, and those that were handed
//! over and are not answered.

use machine::ConnectionId;
use machine::entry::BatchBuilder;

use crate::limits::FRONT_BYTES_MAX;
use crate::message::{FrontId, Submission, Waiter};

/// The next batch, and the credit that earlier commands hold.
#[derive(Default)]
pub(super) struct Commands {
    pub batch: BatchBuilder,
    /// A waiter for each command of the batch, in the same order.
    pub waiters: Vec<Waiter>,
    /// Commands that are not answered.
    pub count: usize,
    /// Bytes of these.
    pub bytes: usize,
    /// Connections that could not go on because the credit was spent.
    pub starved: Vec<ConnectionId>,
}

impl Commands {
    /// One more, of so many bytes, is on its way.
    pub fn take(&mut self, bytes: usize) {
        self.count += 1;
        self.bytes += bytes;
    }

    /// One, of so many bytes, is answered, or its connection is gone.
    pub fn give_back(&mut self, bytes: usize) {
        self.count -= 1;
        self.bytes -= bytes;
    }

    /// Whether another command may be taken, where `count_max` may be on their way.
    pub fn has_credit(&self, count_max: usize) -> bool {
        self.count < count_max && self.bytes < FRONT_BYTES_MAX
    }

    /// Ends the batch. None if it is empty.
    pub fn finish(&mut self, front: FrontId) -> Option<Submission> {
        if self.batch.command_count() == 0 {
            return None;
        }
        let batch = self.batch.finish();
        let waiters = core::mem::take(&mut self.waiters);
        assert!(batch.command_count == waiters.len());
        Some(Submission { front, batch, waiters })
    }
}
