//! The replies that a Front holds for its clients, counted against the room that all Fronts share.

use std::collections::VecDeque;

use machine::ConnectionId;

use crate::ReplyRoom;
use crate::limits::{REFUSED_REPLY_INTERVAL_MS, REPLIES_TOLD_BYTES};

/// Replies that are held, wait for room, or were refused.
#[derive(Default)]
pub(super) struct HeldReplies {
    /// Connections that wait for room, each with the bytes that its next reply wants. Connections
    /// that found no room when they were looked at stand at the end.
    pub parked: VecDeque<(ConnectionId, u64)>,
    /// Bytes of all connections' output.
    pub output: usize,
    /// The value of `output` that the room was last told.
    output_told: usize,
    /// When slow takers were last looked for; none: there is room enough.
    pub tight_since_ms: Option<u64>,
    /// Reads in all windows that travel with writes.
    pub travelling_reads: usize,
    /// When the log was last told of a reply that was refused.
    refused_told_ms: Option<u64>,
    /// How many were refused since.
    refused_not_told: u64,
}

impl HeldReplies {
    /// Whether the clock is needed for any of them.
    pub fn is_busy(&self) -> bool {
        !self.parked.is_empty() || self.tight_since_ms.is_some()
    }

    /// Tells the room what is held here, unless it knows about as much, and in any case if this is
    /// the last that is held.
    pub fn tell(&mut self, room: &ReplyRoom, is_last: bool) {
        if self.output.abs_diff(self.output_told) >= REPLIES_TOLD_BYTES || is_last {
            room.tell(self.output_told, self.output);
            self.output_told = self.output;
        }
    }

    /// A reply was refused. If the log is to be told of it, how many were refused and not told
    /// before it.
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
