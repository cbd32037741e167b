//! The room for replies: counts the bytes of replies that are built and not yet taken by clients.
//!
//! Each connection has a bound of its own, but the bounds of many connections add up to any size.
//! So the ZooKeeper Fronts of a member and its Apply share one [`ReplyRoom`]. When it is full, a
//! Front ([`ZkFront`](crate::ZkFront)) lets large replies wait, and [`Apply`](crate::Apply) does
//! not build large replies to reads behind a write. The Fronts of etcd's clients share another
//! room, for the references to key versions that responses hold. No bytes are reserved, so the
//! bound may be passed by a little, and counting costs a request next to nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::limits::{
    OUTPUT_BYTES_MAX, REPLIES_BYTES_CALM, REPLIES_BYTES_MAX, REPLIES_BYTES_TIGHT, SMALL_REPLY_BYTES,
};

/// Counts the bytes of replies that a member holds.
#[derive(Debug, Default)]
pub struct ReplyRoom {
    /// Bytes held now. Rises when a reply is built, falls when its client has taken it or it is
    /// dropped.
    bytes: AtomicU64,
}

impl ReplyRoom {
    /// Bytes of replies that are held now. Each Front may be off by up to
    /// [`REPLIES_TOLD_BYTES`](crate::fronts::zk::limits::REPLIES_TOLD_BYTES), which it has not
    /// reported.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether the room is full, so that no large reply may be built.
    pub fn is_full(&self) -> bool {
        self.bytes() >= REPLIES_BYTES_MAX
    }

    /// Whether a reply of `bytes` bytes may be built now.
    pub fn takes(&self, bytes: u64) -> bool {
        let held = self.bytes();
        match bytes {
            _ if held <= REPLIES_BYTES_CALM => true,
            _ if bytes <= SMALL_REPLY_BYTES as u64 => true,
            _ if bytes <= OUTPUT_BYTES_MAX as u64 => held < REPLIES_BYTES_MAX,
            _ => held + bytes <= REPLIES_BYTES_TIGHT,
        }
    }

    /// Whether a reply of any size may be built now.
    pub fn is_calm(&self) -> bool {
        self.bytes() <= REPLIES_BYTES_CALM
    }

    /// Whether Fronts must look for clients that do not read their replies.
    pub fn is_tight(&self) -> bool {
        self.bytes() >= REPLIES_BYTES_TIGHT
    }

    /// Reports that a Front's share has changed from `before`, the last report, to `now`.
    pub(crate) fn tell(&self, before: usize, now: usize) {
        if now >= before {
            self.bytes.fetch_add((now - before) as u64, Ordering::Relaxed);
        } else {
            self.bytes.fetch_sub((before - now) as u64, Ordering::Relaxed);
        }
    }
}

/// Counts the bytes of one reply in the room, until this value is dropped.
#[derive(Debug)]
pub struct HeldReply {
    room: Arc<ReplyRoom>,
    bytes: usize,
}

impl HeldReply {
    /// Counts `bytes` bytes in the room.
    pub fn new(room: &Arc<ReplyRoom>, bytes: usize) -> HeldReply {
        room.tell(0, bytes);
        HeldReply { room: room.clone(), bytes }
    }

    /// Counts `bytes` bytes in the room instead of the bytes counted so far, if `bytes` is more.
    pub fn grow_to(&mut self, bytes: usize) {
        if bytes > self.bytes {
            self.room.tell(self.bytes, bytes);
            self.bytes = bytes;
        }
    }
}

impl Clone for HeldReply {
    fn clone(&self) -> HeldReply {
        HeldReply::new(&self.room, self.bytes)
    }
}

impl Drop for HeldReply {
    fn drop(&mut self) {
        self.room.tell(self.bytes, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_counts_until_it_is_dropped() {
        let room = Arc::new(ReplyRoom::default());
        let first = HeldReply::new(&room, 10);
        let copy = first.clone();
        assert_eq!(room.bytes(), 20);
        drop(first);
        assert_eq!(room.bytes(), 10);
        drop(copy);
        assert_eq!(room.bytes(), 0);
    }

    #[test]
    fn the_room_is_tight_before_it_is_full() {
        let room = ReplyRoom::default();
        let (tight, full) = (REPLIES_BYTES_TIGHT as usize, REPLIES_BYTES_MAX as usize);
        let steps = [(tight - 1, false, false), (tight, true, false), (full - 1, true, false)];
        let mut told = 0;
        for (bytes, is_tight, is_full) in steps.into_iter().chain([(full, true, true)]) {
            room.tell(told, bytes);
            told = bytes;
            assert_eq!((room.is_tight(), room.is_full()), (is_tight, is_full), "{bytes}");
        }
        room.tell(told, 0);
        assert!(!room.is_tight());
    }

    #[test]
    fn the_larger_a_reply_the_more_room_it_needs() {
        let (small, large) = (SMALL_REPLY_BYTES as u64, OUTPUT_BYTES_MAX as u64);
        let (calm, tight, full) = (REPLIES_BYTES_CALM, REPLIES_BYTES_TIGHT, REPLIES_BYTES_MAX);
        let check = |held: u64, bytes: u64, expected: bool| {
            let room = ReplyRoom::default();
            room.tell(0, held as usize);
            assert_eq!(room.takes(bytes), expected, "{bytes} beside {held}");
        };
        check(calm, u64::MAX, true);
        check(calm + 1, tight - calm - 1, true);
        check(calm + 1, tight - calm, false);
        check(tight, large + 1, false);
        check(full - 1, large, true);
        check(full, large, false);
        check(full, small + 1, false);
        check(full + 1, small, true);
    }
}
