//! The room on this member's disk, and the members with full disks.

use std::collections::BTreeMap;

use machine::MemberId;

use crate::limits::FULL_LASTS_MS;
use crate::snapshot::room::SnapshotRoom;

/// The room on this member's disk, and the members with full disks.
pub(super) struct Room {
    /// The room set aside for the next snapshot.
    pub snapshot: SnapshotRoom,
    /// Whether the log has no room to grow, as the disk thread says.
    pub log_is_full: bool,
    /// Whether the log was told to leave the free room to a snapshot.
    pub log_yields: bool,
    /// Whether writes are refused.
    pub is_full: bool,
    /// Members with a full disk, as they said on their present links. A leader among them refuses
    /// writes; leadership is handed to none of them. Each comes with the time when it last said so:
    /// a message that it has room again may be lost.
    pub full_members: BTreeMap<MemberId, u64>,
    /// When this member says again that its disk is full.
    pub say_full_at_ms: u64,
    /// Time since a snapshot was last asked to make room.
    pub full_ms: u64,
}

impl Room {
    /// Enough room, as far as is known.
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
