//! The commands of a Front: the ones gathered for the next batch, and the ones that were handed
//! over and are not answered.

use machine::ConnectionId;
use machine::entry::BatchBuilder;

use crate::limits::FRONT_BYTES_MAX;
use crate::message::{FrontId, Submission, Waiter};

/// The next batch, and the credit that earlier commands hold.
#[derive(Default)]
pub(crate) struct Commands {
    pub batch: BatchBuilder,
    /// A waiter for each command of the batch, in the same order.
    pub waiters: Vec<Waiter>,
    /// How many commands are not answered.
    pub count: usize,
    /// Bytes of the commands that are not answered.
    pub bytes: usize,
    /// Connections that wait because the credit was spent.
    pub starved: Vec<ConnectionId>,
}

impl Commands {
    /// Counts a command of `bytes` bytes as under way.
    pub fn take(&mut self, bytes: usize) {
        self.count += 1;
        self.bytes += bytes;
    }

    /// A command of `bytes` bytes is answered, or its connection is gone.
    pub fn give_back(&mut self, bytes: usize) {
        self.count -= 1;
        self.bytes -= bytes;
    }

    /// Whether another command may be taken, if `count_max` may be under way.
    pub fn has_credit(&self, count_max: usize) -> bool {
        self.count < count_max && self.bytes < FRONT_BYTES_MAX
    }

    /// Ends the batch. `None` if it is empty.
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
