//! What Loop does about a disk that is getting full.

use std::collections::BTreeMap;

use machine::MemberId;

use super::{Loop, Waiting};
use crate::limits::FULL_LASTS_MS;
use crate::message::{RoomKept, ToApply, Unavailable};
use crate::peer::PeerMessage;
use crate::snapshot::room::SnapshotRoom;

/// The room on this member's disk, and whose disks are full.
pub(super) struct Room {
    /// What is set aside for the next snapshot.
    pub snapshot: SnapshotRoom,
    /// As the disk's thread sees it.
    log_is_full: bool,
    /// The log was told to leave what room there is to a snapshot.
    pub log_yields: bool,
    /// Writes are refused.
    pub is_full: bool,
    /// Members whose disks are full, as they said on their present links. A leader among them
    /// refuses writes; leadership is handed to none of them.
    /// Each with when it last said so: a message that it has room again may be lost.
    pub full_members: BTreeMap<MemberId, u64>,
    /// When this member says again that its disk is full.
    pub say_full_at_ms: u64,
    /// Since a snapshot was last asked to make room.
    pub full_ms: u64,
}

impl Room {
    /// Enough of it, as far as is known.
    pub fn new(image_bytes_max: u64) -> Room {
        Room {
            snapshot: SnapshotRoom::new(image_bytes_max),
            log_is_full: false,
            log_yields: false,
            is_full: false,
            full_members: BTreeMap::new(),
            say_full_at_ms: 0,
            full_ms: 0,
        }
    }

    /// Whether another member has said that its disk is full, not long ago.
    pub fn is_member_full(&self, member: MemberId, now_ms: u64) -> bool {
        self.full_members.get(&member).is_some_and(|said_ms| now_ms < said_ms + FULL_LASTS_MS)
    }
}

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
