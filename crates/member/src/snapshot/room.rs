//! Makes sure that the next snapshot has room on the disk. On a full disk only a new snapshot
//! allows the deletion of old log, so the log and the state may grow only while room for that
//! snapshot is set aside.
//!
//! The snapshot thread sets the room aside. It reports the amount to Loop whenever the amount has
//! changed, and when Loop asks.
//!
//! N + G bytes are set aside: N bounds the bytes of the next snapshot, and G is the growth of the
//! state since the newest snapshot, which so has N - G bytes. The next snapshot uses N bytes of the
//! room, which leaves G. When it is finished, the snapshot that was the newest before is deleted,
//! which frees N - G bytes. Both together are N bytes: enough for the snapshot after it. As long as
//! nothing else takes these bytes before they are set aside, one snapshot after the other finds
//! room, even on a disk that is full to the last byte.

use std::collections::VecDeque;

use machine::LogIndex;
use storage::limits::DIRECT_BLOCK_BYTES;

use crate::message::{RoomKept, RoomWanted, SnapshotJob};
use crate::snapshot::limits::{
    SNAPSHOT_ROOM_ANSWER_MS_MAX, SNAPSHOT_ROOM_RETRY_MS, SNAPSHOT_ROOM_STEP_BYTES,
};

/// Loop's knowledge of the room for the next snapshot.
pub struct SnapshotRoom {
    /// Upper bounds on the bytes of an image: of the state after the last entry applied, and of the
    /// newest snapshot.
    image_bytes_max: u64,
    newest_image_bytes: u64,
    /// Entries that are not applied yet, with their bytes: the state may grow by as much.
    unapplied: VecDeque<(LogIndex, u64)>,
    unapplied_bytes: u64,
    under_way: Option<UnderWay>,
    kept_bytes: u64,
    /// Whether Loop waits for an answer of the snapshot thread.
    is_asked: bool,
    /// Time since Loop last asked the snapshot thread, in ms.
    asked_ms: u64,
    /// Whether less was set aside than was wanted: the disk has no more.
    is_scarce: bool,
    /// Time since the last answer, in ms.
    waited_ms: u64,
}

/// A snapshot that is being taken.
struct UnderWay {
    image_bytes_max: u64,
    /// The bytes that were set aside for that snapshot.
    room_bytes: u64,
}

impl SnapshotRoom {
    /// Begins with a restored snapshot, whose image has at most `image_bytes_max` bytes.
    pub fn new(image_bytes_max: u64) -> SnapshotRoom {
        SnapshotRoom {
            image_bytes_max,
            newest_image_bytes: image_bytes_max,
            unapplied: VecDeque::new(),
            unapplied_bytes: 0,
            under_way: None,
            kept_bytes: 0,
            is_asked: false,
            asked_ms: 0,
            is_scarce: false,
            waited_ms: 0,
        }
    }

    /// Notes that an entry goes into the log, where it replaces the entries from its index on.
    pub fn on_proposed(&mut self, index: LogIndex, bytes: u64) {
        while let Some(&(replaced, bytes)) = self.unapplied.back()
            && replaced >= index
        {
            self.unapplied.pop_back();
            self.unapplied_bytes -= bytes;
        }
        self.unapplied.push_back((index, bytes));
        self.unapplied_bytes += bytes;
    }

    /// Notes that the entries up to this one are applied.
    pub fn on_applied(&mut self, index: LogIndex, image_bytes_max: u64) {
        while let Some(&(applied, bytes)) = self.unapplied.front()
            && applied <= index
        {
            self.unapplied.pop_front();
            self.unapplied_bytes -= bytes;
        }
        self.image_bytes_max = image_bytes_max;
    }

    /// Notes that a snapshot begins, which will use the room set aside. Returns a request to set
    /// room aside for the next snapshot.
    pub fn on_begin(&mut self, image_bytes_max: u64) -> SnapshotJob {
        self.under_way = Some(UnderWay { image_bytes_max, room_bytes: self.kept_bytes });
        self.ask()
    }

    fn ask(&mut self) -> SnapshotJob {
        self.is_asked = true;
        self.asked_ms = 0;
        SnapshotJob::KeepRoom(self.wanted())
    }

    /// Notes that the snapshot being taken is durable.
    pub fn on_finished(&mut self) {
        if let Some(under_way) = self.under_way.take() {
            self.newest_image_bytes = under_way.image_bytes_max;
        }
    }

    /// Notes that no snapshot is being taken.
    pub fn on_idle(&mut self) {
        self.under_way = None;
    }

    /// Takes the snapshot thread's answer. Whether the disk is scarce depends on the amount that
    /// was wanted when it was asked: more may be wanted by now, and the disk may have it.
    pub fn on_kept(&mut self, kept: RoomKept) {
        self.kept_bytes = kept.bytes;
        self.is_asked = false;
        self.waited_ms = 0;
        self.is_scarce = kept.bytes < kept.bytes_wanted;
    }

    /// Lets `elapsed_ms` pass.
    pub fn advance(&mut self, elapsed_ms: u64) {
        self.waited_ms = self.waited_ms.saturating_add(elapsed_ms);
        self.asked_ms = self.asked_ms.saturating_add(elapsed_ms);
    }

    /// Whether the disk had less room than was wanted. It is asked again from time to time.
    pub fn is_scarce(&self) -> bool {
        self.is_scarce
    }

    /// Whether the next snapshot, after one that is being taken, has too little room, and the disk
    /// has no more.
    pub fn is_missing(&self) -> bool {
        self.is_scarce && self.kept_bytes < self.wanted().bytes
    }

    /// Whether the state must not grow any more: it would outgrow the room, and the disk has no
    /// more.
    pub fn is_used_up(&self) -> bool {
        self.is_scarce && self.is_outgrown()
    }

    /// Whether writes must wait for the snapshot thread's next answer: the state has outgrown the
    /// room, and the disk may have more. Without the wait, a state that grows faster than the
    /// thread answers could end on a full disk without room for any snapshot. The wait has a bound:
    /// the thread may hang with its disk.
    pub fn must_wait(&self) -> bool {
        let is_late = self.is_asked && self.asked_ms >= SNAPSHOT_ROOM_ANSWER_MS_MAX;
        !self.is_scarce && !is_late && self.is_outgrown()
    }

    /// Whether neither the room set aside nor the room of a snapshot being taken suffices for the
    /// state.
    fn is_outgrown(&self) -> bool {
        let needed = self.needed_bytes(self.newest_image_bytes);
        let in_use = self.under_way.as_ref().is_some_and(|it| it.room_bytes >= needed);
        self.kept_bytes < self.wanted().bytes && !in_use
    }

    /// Whether a snapshot that begins now has enough room.
    pub fn has_room(&self) -> bool {
        self.kept_bytes >= self.wanted().bytes_min
    }

    /// The request to set room aside, if it is time for one.
    pub fn maybe_ask(&mut self) -> Option<SnapshotJob> {
        let wanted = self.wanted();
        // At least half of the room for growth is used up.
        let is_low = self.kept_bytes < wanted.bytes + (wanted.bytes_max - wanted.bytes) / 2;
        let is_too_soon = self.is_scarce && self.waited_ms < SNAPSHOT_ROOM_RETRY_MS;
        if self.is_asked || !is_low || is_too_soon {
            return None;
        }
        Some(self.ask())
    }

    fn wanted(&self) -> RoomWanted {
        let newest =
            self.under_way.as_ref().map_or(self.newest_image_bytes, |it| it.image_bytes_max);
        let bytes = self.needed_bytes(newest);
        let growth = (bytes / 4).next_multiple_of(SNAPSHOT_ROOM_STEP_BYTES);
        let bytes_min = snapshot_bytes(self.image_bytes_max + self.unapplied_bytes);
        RoomWanted { bytes_min, bytes, bytes_max: bytes + growth }
    }

    /// Upper bound on the bytes of an image, of the newest snapshot or of the present state,
    /// whichever is smaller: once much was removed, the next snapshot is cheap.
    pub fn state_bytes(&self) -> u64 {
        self.newest_image_bytes.min(self.image_bytes_max)
    }

    /// The bytes that must be set aside, if the image of the newest snapshot has
    /// `newest_image_bytes`. They include one step for writes that are refused too late: so when
    /// the next snapshot ends and the disk has no other room, there is still enough for one more
    /// snapshot.
    fn needed_bytes(&self, newest_image_bytes: u64) -> u64 {
        let image_bytes = self.image_bytes_max + self.unapplied_bytes;
        let grown_bytes = image_bytes.saturating_sub(newest_image_bytes);
        snapshot_bytes(image_bytes + grown_bytes) + SNAPSHOT_ROOM_STEP_BYTES
    }
}

/// Upper bound on the bytes of a snapshot's file. Data that does not compress grows by far less
/// than one part in 64, headers included.
fn snapshot_bytes(image_bytes: u64) -> u64 {
    (image_bytes + image_bytes / 64).next_multiple_of(DIRECT_BLOCK_BYTES)
}

#[cfg(test)]
mod tests;
