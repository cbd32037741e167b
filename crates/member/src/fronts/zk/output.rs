//! The output of a connection: the bytes that its client has not taken.

use crate::fronts::zk::limits::{
    OUTPUT_KEPT_BYTES, OUTPUT_KEPT_IDLE_BYTES, OUTPUT_TAKEN_BYTES_MIN,
};
use crate::limits::{OUTPUT_BYTES_MAX, SMALL_REPLY_BYTES};

/// The bytes that a client has not taken.
#[derive(Default)]
pub(super) struct Output {
    buffer: Vec<u8>,
    /// Bytes of `buffer` that the socket has taken.
    start: usize,
    /// Bytes of `buffer` as they count in the Front's sum.
    counted: usize,
    /// Bytes that the socket has taken since the connection was accepted.
    taken_bytes: u64,
    /// The value of `taken_bytes` when slow clients were last looked for; `None` if the connection
    /// had no large replies unread then.
    taken_before: Option<u64>,
    /// Whether the Front's list of connections with output holds this one.
    is_listed: bool,
}

impl Output {
    /// Bytes that the socket has not taken.
    #[inline]
    pub fn pending(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    /// How many bytes the socket has not taken.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// Bytes that are held: those the socket has not taken, and those whose memory is not freed
    /// yet.
    pub fn held_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Bytes that count in the Front's sum.
    pub fn counted(&self) -> usize {
        self.counted
    }

    /// Bytes for which memory is reserved.
    #[cfg(test)]
    pub fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    /// Adds what `encode` appends. Returns how many bytes that were.
    #[inline]
    pub fn append(&mut self, encode: impl FnOnce(&mut Vec<u8>)) -> usize {
        let before = self.buffer.len();
        encode(&mut self.buffer);
        self.buffer.len() - before
    }

    /// Counts the held bytes anew in the Front's sum.
    #[inline]
    pub fn count_in(&mut self, sum: &mut usize) {
        *sum = *sum - self.counted + self.buffer.len();
        self.counted = self.buffer.len();
    }

    /// The socket took `count` bytes more.
    pub fn take(&mut self, count: usize) {
        self.start += count;
        self.taken_bytes += count as u64;
        if self.start == self.buffer.len() {
            self.forget();
        } else if self.start >= OUTPUT_KEPT_BYTES.max(self.bytes()) {
            // A client may stay behind for ever, so the memory of what it took is freed meanwhile.
            self.buffer.drain(..self.start);
            self.buffer.shrink_to(OUTPUT_KEPT_BYTES);
            self.start = 0;
        }
    }

    /// Forgets all bytes, keeping a buffer of ordinary size.
    pub fn forget(&mut self) {
        self.start = 0;
        if self.buffer.capacity() > OUTPUT_KEPT_BYTES {
            self.buffer = Vec::new();
        } else {
            self.buffer.clear();
        }
    }

    /// Takes the spare buffer, if its own is small and empty.
    pub fn take_spare(&mut self, spare: &mut Vec<u8>) {
        if self.buffer.is_empty() && self.buffer.capacity() <= OUTPUT_KEPT_IDLE_BYTES {
            self.buffer = core::mem::take(spare);
        }
    }

    /// Gives back a large buffer, which is empty.
    pub fn give_spare(&mut self, spare: &mut Vec<u8>) {
        if self.buffer.capacity() > OUTPUT_KEPT_IDLE_BYTES {
            *spare = core::mem::take(&mut self.buffer);
        }
    }

    /// Whether the client has so many bytes unread that no reply is to be added.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.bytes() >= OUTPUT_BYTES_MAX
    }

    /// Whether the client has so many bytes unread that it is not served while the room for replies
    /// is full.
    #[inline]
    pub fn is_slow(&self) -> bool {
        self.bytes() >= SMALL_REPLY_BYTES
    }

    /// Looks for a slow client: one that has taken next to nothing since the last look, at which it
    /// had large replies unread.
    pub fn look_for_slow(&mut self) -> bool {
        let took_little = |before| self.taken_bytes - before < OUTPUT_TAKEN_BYTES_MIN;
        let is_slow = self.taken_before.is_some_and(took_little);
        self.taken_before = self.is_slow().then_some(self.taken_bytes);
        is_slow
    }

    /// Puts the connection on the Front's list of those with output. False if it is there already.
    #[inline]
    pub fn enlist(&mut self) -> bool {
        !core::mem::replace(&mut self.is_listed, true)
    }

    /// Takes the connection off the Front's list of those with output.
    pub fn delist(&mut self) {
        self.is_listed = false;
    }
}
