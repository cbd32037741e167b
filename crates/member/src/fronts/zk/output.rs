//! Holds the output of one connection: bytes that the client's socket has not taken yet.

use crate::fronts::zk::limits::{
    OUTPUT_KEPT_BYTES, OUTPUT_KEPT_IDLE_BYTES, OUTPUT_TAKEN_BYTES_MIN,
};
use crate::limits::{OUTPUT_BYTES_MAX, SMALL_REPLY_BYTES};

/// The output of a connection.
#[derive(Default)]
pub(super) struct Output {
    buffer: Vec<u8>,
    /// How many bytes at the start of `buffer` the socket has taken.
    start: usize,
    /// The bytes of `buffer` that are in the Front's sum of held output.
    counted: usize,
    /// How many bytes the socket has taken since the connection was accepted.
    taken_bytes: u64,
    /// The value of `taken_bytes` when slow clients were last looked for; `None` if the connection
    /// had less than a small reply unread then.
    taken_before: Option<u64>,
    /// Whether the connection is in the Front's list of connections with output.
    is_listed: bool,
}

impl Output {
    /// The bytes that the socket has not taken.
    #[inline]
    pub fn pending(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    /// How many bytes the socket has not taken.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// How many bytes the buffer holds: the bytes that the socket has not taken, and the bytes that
    /// it has taken but whose memory is not freed.
    pub fn held_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// The bytes of this output that are in the Front's sum.
    pub fn counted(&self) -> usize {
        self.counted
    }

    /// The capacity of the buffer in bytes.
    #[cfg(test)]
    pub fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    /// Lets `encode` append to the output. Returns how many bytes it has appended.
    #[inline]
    pub fn append(&mut self, encode: impl FnOnce(&mut Vec<u8>)) -> usize {
        let before = self.buffer.len();
        encode(&mut self.buffer);
        self.buffer.len() - before
    }

    /// Updates the Front's sum with the bytes that the buffer holds now.
    #[inline]
    pub fn count_in(&mut self, sum: &mut usize) {
        *sum = *sum - self.counted + self.buffer.len();
        self.counted = self.buffer.len();
    }

    /// Notes that the socket has taken `count` more bytes.
    pub fn take(&mut self, count: usize) {
        self.start += count;
        self.taken_bytes += count as u64;
        if self.start == self.buffer.len() {
            self.forget();
        } else if self.start >= OUTPUT_KEPT_BYTES.max(self.bytes()) {
            // A client may lag for ever, so the memory of the bytes that it took is freed
            // meanwhile.
            self.buffer.drain(..self.start);
            self.buffer.shrink_to(OUTPUT_KEPT_BYTES);
            self.start = 0;
        }
    }

    /// Drops all bytes. Keeps the buffer unless it is large.
    pub fn forget(&mut self) {
        self.start = 0;
        if self.buffer.capacity() > OUTPUT_KEPT_BYTES {
            self.buffer = Vec::new();
        } else {
            self.buffer.clear();
        }
    }

    /// Replaces an empty, small buffer by the spare one.
    pub fn take_spare(&mut self, spare: &mut Vec<u8>) {
        if self.buffer.is_empty() && self.buffer.capacity() <= OUTPUT_KEPT_IDLE_BYTES {
            self.buffer = core::mem::take(spare);
        }
    }

    /// Gives a large buffer away as the spare one. The buffer must be empty.
    pub fn give_spare(&mut self, spare: &mut Vec<u8>) {
        if self.buffer.capacity() > OUTPUT_KEPT_IDLE_BYTES {
            *spare = core::mem::take(&mut self.buffer);
        }
    }

    /// Whether so many bytes are unread that no further reply may be added.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.bytes() >= OUTPUT_BYTES_MAX
    }

    /// Whether so many bytes are unread that the client is not served while the room for replies is
    /// full.
    #[inline]
    pub fn is_slow(&self) -> bool {
        self.bytes() >= SMALL_REPLY_BYTES
    }

    /// Whether the client is slow: at the last look it had more than a small reply unread, and it
    /// has taken next to nothing since. Notes the figures for the next look.
    pub fn look_for_slow(&mut self) -> bool {
        let took_little = |before| self.taken_bytes - before < OUTPUT_TAKEN_BYTES_MIN;
        let is_slow = self.taken_before.is_some_and(took_little);
        self.taken_before = self.is_slow().then_some(self.taken_bytes);
        is_slow
    }

    /// Marks the connection as in the Front's list of connections with output. Returns false if it
    /// was in the list already.
    #[inline]
    pub fn enlist(&mut self) -> bool {
        !core::mem::replace(&mut self.is_listed, true)
    }

    /// Marks the connection as not in the Front's list of connections with output.
    pub fn delist(&mut self) {
        self.is_listed = false;
    }
}
