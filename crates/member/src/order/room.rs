//! Keeps the state of the disks: whether this member's log and next snapshot have room, and which
//! other members have full disks.

use std::collections::BTreeMap;

use machine::MemberId;

use crate::message::RoomKept;
use crate::order::limits::{FULL_INTERVAL_MS, FULL_LASTS_MS, SNAPSHOT_RETRY_MS};
use crate::snapshot::room::SnapshotRoom;

/// Whether this member's log and next snapshot have room on its disk, and which other members have
/// full disks.
pub(super) struct Room {
    /// The disk space set aside for the next snapshot.
    pub snapshot: SnapshotRoom,
    /// Whether the log has no room to grow, according to the disk thread.
    log_is_full: bool,
    /// Whether the log has to leave free disk space to the next snapshot.
    log_yields: bool,
    /// Whether writes are refused because the disk is full.
    is_full: bool,
    /// Other members that have reported a full disk on their current links, with the time of the
    /// last report: a later message that they have room again may be lost. A leader among them
    /// refuses writes, and no leader hands leadership to one of them.
    full_members: BTreeMap<MemberId, u64>,
    /// When this member next repeats to the others that its disk is full.
    say_full_at_ms: u64,
    /// Time since a snapshot was last made due to gain room, in ms.
    full_ms: u64,
}

/// The changes since the last [`Room::look`].
pub(super) struct RoomChange {
    /// Whether the log has to leave free disk space to the next snapshot; `None` if that has not
    /// changed.
    pub yields: Option<bool>,
    /// Whether writes are refused because the disk is full; `None` if that has not changed.
    pub is_full: Option<bool>,
}

/// The work that is due while the disk is full.
pub(super) struct FullWork {
    /// Whether to repeat to the other members that the disk is full.
    pub is_told: bool,
    /// Whether to make a snapshot due, which may free room.
    pub wants_snapshot: bool,
}

impl Room {
    /// A disk with enough room, as far as is known. `image_bytes_max` bounds the bytes of an image
    /// of the restored state.
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

    /// Whether writes are refused.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Whether the disk is full, or the log has to leave free disk space to a snapshot.
    pub fn is_short(&self) -> bool {
        self.is_full || self.log_yields
    }

    /// Notes whether the disk thread says that the log has no room to grow.
    pub fn on_log(&mut self, is_full: bool) {
        self.log_is_full = is_full;
    }

    /// Notes how much disk space the snapshot thread has set aside. Returns whether it is enough
    /// now and was not before.
    pub fn on_kept(&mut self, kept: RoomKept) -> bool {
        let had_room = self.snapshot.has_room();
        self.snapshot.on_kept(kept);
        !had_room && self.snapshot.has_room()
    }

    /// Decides anew whether there is room for more log. A snapshot under way has its own room;
    /// while the one after it has none, the log gets no new segment.
    pub fn look(&mut self, is_snapshot_running: bool) -> RoomChange {
        if !is_snapshot_running {
            self.snapshot.on_idle();
        }
        let yields = self.snapshot.is_missing();
        let yields_changed = core::mem::replace(&mut self.log_yields, yields) != yields;
        let is_full = self.log_is_full || self.snapshot.is_used_up();
        let fullness_changed = core::mem::replace(&mut self.is_full, is_full) != is_full;
        if fullness_changed {
            self.full_ms = 0;
        }
        RoomChange {
            yields: yields_changed.then_some(yields),
            is_full: fullness_changed.then_some(is_full),
        }
    }

    /// Lets `elapsed_ms` pass. Returns the work that is due while the disk is full.
    pub fn advance(&mut self, now_ms: u64, elapsed_ms: u64) -> FullWork {
        self.snapshot.advance(elapsed_ms);
        let is_told = self.is_full && now_ms >= self.say_full_at_ms;
        if is_told {
            self.say_full_at_ms = now_ms + FULL_INTERVAL_MS;
        }
        self.full_ms += if self.is_full { elapsed_ms } else { 0 };
        let wants_snapshot = self.is_full && self.full_ms >= SNAPSHOT_RETRY_MS;
        if wants_snapshot {
            self.full_ms = 0;
        }
        FullWork { is_told, wants_snapshot }
    }

    /// Notes what another member says about its disk.
    pub fn on_member(&mut self, member: MemberId, is_full: bool, now_ms: u64) {
        if is_full {
            self.full_members.insert(member, now_ms);
        } else {
            self.full_members.remove(&member);
        }
    }

    /// Whether another member has recently said that its disk is full.
    pub fn is_member_full(&self, member: MemberId, now_ms: u64) -> bool {
        self.full_members.get(&member).is_some_and(|said_ms| now_ms < said_ms + FULL_LASTS_MS)
    }
}
