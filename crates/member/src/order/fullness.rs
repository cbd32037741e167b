//! Loop's reaction to a disk that is getting full.

use super::{Loop, Waiting};
use crate::message::{RoomKept, ToApply, Unavailable};
use crate::peer::PeerMessage;

impl Loop {
    /// Takes the disk thread's news whether the log has no room to grow.
    pub(super) fn on_disk_room(&mut self, is_full: bool) {
        self.room.log_is_full = is_full;
        self.check_room();
    }

    /// Takes the snapshot thread's report of the room set aside for the next snapshot, as an answer
    /// or as news. It comes before that thread's message about the same snapshot.
    pub(super) fn on_snapshot_room(&mut self, kept: RoomKept) {
        let had_room = self.room.snapshot.has_room();
        self.room.snapshot.on_kept(kept);
        self.check_room();
        if self.room.is_full && !had_room && self.room.snapshot.has_room() {
            // A snapshot that failed for lack of room can succeed now.
            self.snapshots.make_due();
        }
    }

    /// Judges whether there is room for more log. A snapshot under way has its own room; while the
    /// one after it has none, the log gets no new segment.
    pub(super) fn check_room(&mut self) {
        if !self.snapshots.is_running() {
            self.room.snapshot.on_idle();
        }
        let is_missing = self.room.snapshot.is_missing();
        if self.room.log_yields != is_missing {
            self.room.log_yields = is_missing;
            self.output.yield_room = Some(is_missing);
        }
        let is_full = self.room.log_is_full || self.room.snapshot.is_used_up();
        if self.room.is_full != is_full {
            self.on_fullness(is_full);
        }
    }

    fn on_fullness(&mut self, is_full: bool) {
        self.room.is_full = is_full;
        self.output.disk_is_full = Some(is_full);
        self.room.full_ms = 0;
        // A snapshot lets go of the log that it covers, which may be all the room there is to gain.
        // When there is room again, a snapshot that failed for lack of it can succeed.
        self.snapshots.make_due();
        if is_full {
            self.refuse_waiting();
            self.output.release = Some(self.snapshots.release(is_full));
        } else {
            // Clients could not attach again after their connections broke meanwhile.
            self.spaces.renew_all();
        }
        // All members are told, since any of them may lead next, or follow this member.
        self.send_to_all(&PeerMessage::Full(is_full));
    }

    /// Refuses clients' batches that are in no entry yet, before any later one is refused.
    pub(super) fn refuse_waiting(&mut self) {
        for waiting in core::mem::take(&mut self.waiting) {
            match waiting {
                Waiting::Own { front: Some(front), waiters, .. } => {
                    let reason = Unavailable::DiskFull;
                    self.output.apply.push(ToApply::Refuse { front, waiters, reason });
                }
                waiting => self.waiting.push_back(waiting),
            }
        }
    }
}
