//! Whether the next snapshot has its room: on a full disk it is what lets go of log, so the log and
//! the state grow only while room for it is set aside.
//!
//! The thread of the snapshots keeps the room, and says how much there is: after each change, and
//! as an answer. Needed is what an image of the state has at most, and beyond that as much as the
//! state has grown since the newest snapshot. For when the next one is written into the room, and
//! replaces the newest, what is left of the room and what the newest had are the room for the one
//! behind it: enough again, since the next is larger than the newest by that growth at most. So
//! while no other takes what is free for a moment then, one snapshot after the other finds room, on
//! a disk that is full to the last byte.

use std::collections::VecDeque;

use machine::LogIndex;
use storage::limits::DIRECT_BLOCK_BYTES;

use crate::limits::{SNAPSHOT_ROOM_RETRY_MS, SNAPSHOT_ROOM_STEP_BYTES};
use crate::message::{RoomKept, RoomWanted, SnapshotJob};

/// Loop's view of the room.
pub struct SnapshotRoom {
    /// What an image has at most: after the last entry applied, and in the newest snapshot.
    image_bytes_max: u64,
    newest_image_bytes: u64,
    /// Entries that are not applied yet, and their bytes: the state may grow by as much.
    unapplied: VecDeque<(LogIndex, u64)>,
    unapplied_bytes: u64,
    under_way: Option<UnderWay>,
    kept_bytes: u64,
    /// A question is on its way, or its answer.
    is_asked: bool,
    /// There was less than was wanted then: the disk has no more.
    is_scarce: bool,
    /// Since the last answer.
    waited_ms: u64,
}

/// A snapshot that is being written.
struct UnderWay {
    image_bytes_max: u64,
    /// What was set aside for it.
    room_bytes: u64,
}

impl SnapshotRoom {
    /// Begins with the snapshot that was restored, of so many bytes at most.
    pub fn new(image_bytes_max: u64) -> SnapshotRoom {
        SnapshotRoom {
            image_bytes_max,
            newest_image_bytes: image_bytes_max,
            unapplied: VecDeque::new(),
            unapplied_bytes: 0,
            under_way: None,
            kept_bytes: 0,
            is_asked: false,
            is_scarce: false,
            waited_ms: 0,
        }
    }

    /// An entry goes into the log, in place of those from that index on.
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

    /// Entries were applied up to this one.
    pub fn on_applied(&mut self, index: LogIndex, image_bytes_max: u64) {
        while let Some(&(applied, bytes)) = self.unapplied.front()
            && applied <= index
        {
            self.unapplied.pop_front();
            self.unapplied_bytes -= bytes;
        }
        self.image_bytes_max = image_bytes_max;
    }

    /// A snapshot begins, which uses what is set aside. What to ask for before it does.
    pub fn on_begin(&mut self, image_bytes_max: u64) -> SnapshotJob {
        self.under_way = Some(UnderWay { image_bytes_max, room_bytes: self.kept_bytes });
        self.ask()
    }

    fn ask(&mut self) -> SnapshotJob {
        self.is_asked = true;
        SnapshotJob::KeepRoom(self.wanted())
    }

    /// The snapshot is durable.
    pub fn on_finished(&mut self) {
        if let Some(under_way) = self.under_way.take() {
            self.newest_image_bytes = under_way.image_bytes_max;
        }
    }

    /// No snapshot is being written.
    pub fn on_idle(&mut self) {
        self.under_way = None;
    }

    /// So much is set aside now. What is wanted may be more by now, however fast the disk gives
    /// room: that it has none is known only from what was wanted then.
    pub fn on_kept(&mut self, kept: RoomKept) {
        self.kept_bytes = kept.bytes;
        self.is_asked = false;
        self.waited_ms = 0;
        self.is_scarce = kept.bytes < kept.bytes_wanted;
    }

    /// Time went by.
    pub fn advance(&mut self, elapsed_ms: u64) {
        self.waited_ms = self.waited_ms.saturating_add(elapsed_ms);
    }

    /// Whether the disk had less room than was wanted. It is asked again now and then.
    pub fn is_scarce(&self) -> bool {
        self.is_scarce
    }

    /// Whether the next snapshot, behind one that is being written, has too little room and there
    /// is no more.
    pub fn is_missing(&self) -> bool {
        self.is_scarce && self.kept_bytes < self.wanted().bytes
    }

    /// Whether the state must not grow: what is set aside, be it in use by a snapshot or not, would
    /// not do any more.
    pub fn is_used_up(&self) -> bool {
        let needed = self.needed_bytes(self.newest_image_bytes);
        self.is_missing() && self.under_way.as_ref().is_none_or(|it| it.room_bytes < needed)
    }

    /// What to ask for, when it is time to.
    pub fn maybe_ask(&mut self) -> Option<SnapshotJob> {
        let wanted = self.wanted();
        // Half of what is kept for growth is used up.
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

    /// With a newest snapshot of so many bytes. What is refused too late is within a step more: so
    /// when it ends, and there is no other room, there is at least as much as one snapshot needs.
    fn needed_bytes(&self, newest_image_bytes: u64) -> u64 {
        let image_bytes = self.image_bytes_max + self.unapplied_bytes;
        let grown_bytes = image_bytes.saturating_sub(newest_image_bytes);
        snapshot_bytes(image_bytes + grown_bytes) + SNAPSHOT_ROOM_STEP_BYTES
    }
}

/// What does not compress becomes larger by far less than one part in 64, headers included.
fn snapshot_bytes(image_bytes: u64) -> u64 {
    (image_bytes + image_bytes / 64).next_multiple_of(DIRECT_BLOCK_BYTES)
}

#[cfg(test)]
mod tests;
