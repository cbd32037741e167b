//! What Loop does about a disk that is getting full.

use super::{Loop, Waiting};
use crate::message::{RoomKept, ToApply, Unavailable};
use crate::peer::PeerMessage;

impl Loop {
    /// Whether the log still has room to grow, as the disk thread sees it.
    pub(super) fn on_disk_room(&mut self, is_full: bool) {
        self.room.log_is_full = is_full;
        self.weigh_room();
    }

    /// What is set aside for the next snapshot, as its thread sees it: an answer, or news. What
    /// that thread said of a snapshot with it comes behind it.
    pub(super) fn on_snapshot_room(&mut self, kept: RoomKept) {
        self.room.snapshot.on_kept(kept);
        self.weigh_room();
    }

    /// Whether there is room for more log. A snapshot under way has its own; while the one behind
    /// it has none, the log gets no new segment.
    pub(super) fn weigh_room(&mut self) {
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
        // A snapshot lets go of the log that it covers, which may be all the room that there is.
        // When there is room again, one that failed for want of it has its chance.
        self.snapshots.hurry();
        if is_full {
            self.refuse_waiting();
            self.output.release = Some(self.snapshots.release(is_full));
        } else {
            // Clients whose connections broke meanwhile could not attach.
            self.leases.renew_all();
        }
        // All are told, since any of them may lead next, or follow this member.
        self.send_to_all(&PeerMessage::Full(is_full));
    }

    /// Refuses what is in no entry yet, before anything that comes later is refused.
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
