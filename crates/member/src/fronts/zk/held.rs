//! The replies that a Front holds for its clients, counted against the room that all Fronts share.

use std::collections::VecDeque;

use machine::ConnectionId;

use crate::ReplyRoom;
use crate::fronts::zk::limits::{REFUSED_REPLY_INTERVAL_MS, REPLIES_TOLD_BYTES};

/// Replies that are held, wait for room, or were refused.
#[derive(Default)]
pub(super) struct HeldReplies {
    /// Connections that wait for room, each with the bytes of its next reply. A connection that was
    /// looked at and found no room goes to the end.
    pub parked: VecDeque<(ConnectionId, u64)>,
    /// Bytes of all connections' output.
    pub output: usize,
    /// The value of `output` that was last reported to the room.
    output_told: usize,
    /// When slow clients were last looked for; `None` if there is room enough.
    pub tight_since_ms: Option<u64>,
    /// Reads in all windows that travel with writes.
    pub travelling_reads: usize,
    /// When a refused reply was last logged.
    refused_told_ms: Option<u64>,
    /// How many replies were refused since, and only counted.
    refused_not_told: u64,
}

impl HeldReplies {
    /// Whether any of them needs the clock.
    pub fn is_busy(&self) -> bool {
        !self.parked.is_empty() || self.tight_since_ms.is_some()
    }

    /// Reports the bytes held here to the room, if they changed by enough, or if the last
    /// connection is gone.
    pub fn tell(&mut self, room: &ReplyRoom, is_last: bool) {
        if self.output.abs_diff(self.output_told) >= REPLIES_TOLD_BYTES || is_last {
            room.tell(self.output_told, self.output);
            self.output_told = self.output;
        }
    }

    /// Counts a refused reply. Returns, if it is to be logged, how many were only counted before
    /// it.
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
