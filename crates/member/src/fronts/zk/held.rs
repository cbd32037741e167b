//! Counts the replies that a Front holds for its clients, in the room that this member's ZooKeeper
//! Fronts and Apply share.

use std::collections::VecDeque;

use machine::ConnectionId;

use crate::ReplyRoom;
use crate::fronts::zk::limits::{REFUSED_REPLY_INTERVAL_MS, REPLIES_TOLD_BYTES};

/// Replies that are held, that wait for room, or that were refused.
#[derive(Default)]
pub(super) struct HeldReplies {
    /// Connections that wait for room, each with the bytes of its next reply. If there is no room
    /// for the first, it goes to the end.
    pub parked: VecDeque<(ConnectionId, u64)>,
    /// Bytes that the outputs of all connections hold.
    pub output: usize,
    /// The value of `output` in the last report to the room.
    output_told: usize,
    /// When slow clients were last looked for, in ms; `None` while there is enough room.
    pub tight_since_ms: Option<u64>,
    /// How many reads in all windows travel with writes.
    pub travelling_reads: usize,
    /// When a refused reply was last logged, in ms.
    refused_told_ms: Option<u64>,
    /// How many replies were refused since then, without being logged.
    refused_not_told: u64,
}

impl HeldReplies {
    /// Whether any of these lists needs the clock.
    pub fn is_busy(&self) -> bool {
        !self.parked.is_empty() || self.tight_since_ms.is_some()
    }

    /// Reports `output` to the room, if it has changed by enough or the last connection is gone.
    pub fn tell(&mut self, room: &ReplyRoom, is_last: bool) {
        if self.output.abs_diff(self.output_told) >= REPLIES_TOLD_BYTES || is_last {
            room.tell(self.output_told, self.output);
            self.output_told = self.output;
        }
    }

    /// Counts a refused reply. Returns `None` if the reply is not to be logged, else the number of
    /// refused replies that were not logged before it.
    pub fn on_refused(&mut self, now_ms: u64) -> Option<u64> {
        let is_due = |told_ms| now_ms >= told_ms + REFUSED_REPLY_INTERVAL_MS;
        if !self.refused_told_ms.is_none_or(is_due) {
            self.refused_not_told += 1;
            return None;
        }
        self.refused_told_ms = Some(now_ms);
        Some(core::mem::take(&mut self.refused_not_told))
    }
}
