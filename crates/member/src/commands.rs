//! Holds the commands that one Front has gathered for its next batch, and counts all commands of
//! the Front that are not answered yet. A Front that has too many of these takes no more from its
//! clients.

use machine::ConnectionId;
use machine::entry::BatchBuilder;

use crate::limits::FRONT_BYTES_MAX;
use crate::message::{FrontId, Submission, Waiter};

/// The next batch of a Front, and how much of the Front's credit its unanswered commands use up.
#[derive(Default)]
pub(crate) struct Commands {
    pub batch: BatchBuilder,
    /// A waiter for each command of the batch, in the same order.
    pub waiters: Vec<Waiter>,
    /// How many taken commands are not answered.
    pub count: usize,
    /// Bytes of the taken commands that are not answered.
    pub bytes: usize,
    /// Connections that are not served because the credit was used up.
    pub starved: Vec<ConnectionId>,
}

impl Commands {
    /// Counts a command of `bytes` bytes as unanswered.
    pub fn take(&mut self, bytes: usize) {
        self.count += 1;
        self.bytes += bytes;
    }

    /// Notes that a command of `bytes` bytes is answered, or that its connection is gone.
    pub fn give_back(&mut self, bytes: usize) {
        self.count -= 1;
        self.bytes -= bytes;
    }

    /// Whether another command may be taken, if at most `count_max` may be unanswered.
    pub fn has_credit(&self, count_max: usize) -> bool {
        self.count < count_max && self.bytes < FRONT_BYTES_MAX
    }

    /// Takes the batch with its waiters, to hand over to Loop. `None` if it is empty.
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
