//! Tracks whether a process has a reason to refuse writes for want of disk space: its own disk is
//! full, or the member that it takes for the leader has reported a full disk a short time ago.

use std::collections::BTreeMap;

use machine::MemberId;
use member::order::limits::FULL_LASTS_MS;

/// How long Loop may believe after a report that another member's disk is full, on its machine's
/// clock: [`FULL_LASTS_MS`], plus a tick and a millisecond since Loop counts whole milliseconds and
/// learns the time late.
fn lasts_us(raft_tick_us: u64) -> u64 {
    FULL_LASTS_MS * 1_000 + raft_tick_us + 1_000
}

/// The disks that a process knows to be full: its own, and other members' by their reports.
pub(super) struct Refusing {
    /// Whether Loop considers its own disk full, after its last turn.
    is_full: bool,
    /// Whether the disk could lack room at any time in this process run. A report of a full disk
    /// may come after there is room again.
    could_lack_room: bool,
    /// When each other member last reported a full disk, on the machine's clock.
    said_us: BTreeMap<MemberId, u64>,
    /// Whether Loop considered its own disk full at any time in the current turn.
    was_full: bool,
    /// Whether Loop considered the leader's disk full at any time in the current turn.
    was_told: bool,
}

impl Refusing {
    /// A new process knows of no full disk.
    pub fn new(may_lack_room: bool) -> Refusing {
        Refusing {
            is_full: false,
            could_lack_room: may_lack_room,
            said_us: BTreeMap::new(),
            was_full: false,
            was_told: false,
        }
    }

    /// A turn of Loop begins. `may_lack_room`: whether a fault may make the disk lack room now.
    pub fn begin_turn(&mut self, may_lack_room: bool) {
        self.could_lack_room |= may_lack_room;
        (self.was_full, self.was_told) = (self.is_full, false);
    }

    /// Another member reports whether its disk is full.
    pub fn on_said(&mut self, member: MemberId, is_full: bool, local_us: u64) {
        if is_full {
            self.said_us.insert(member, local_us);
        } else {
            self.said_us.remove(&member);
        }
    }

    /// Returns whether the member that Loop takes for the leader has reported a full disk not long
    /// ago, and notes it for the turn. `local_us` is on the machine's clock.
    pub fn look(&mut self, leader: Option<u64>, local_us: u64, raft_tick_us: u64) -> bool {
        let said_us = leader.and_then(|leader| self.said_us.get(&MemberId(leader)));
        let is_told = said_us.is_some_and(|said_us| local_us < said_us + lasts_us(raft_tick_us));
        self.was_told |= is_told;
        is_told
    }

    /// Notes what Loop says at the end of a turn about its own disk; `None` if that has not
    /// changed.
    ///
    /// # Errors
    /// Loop considers a disk full that always had room.
    pub fn on_own(&mut self, changed: Option<bool>) -> Result<(), String> {
        let Some(is_full) = changed else { return Ok(()) };
        self.was_full = true;
        if is_full && !self.could_lack_room {
            return Err("takes its disk for full, and there always was room".to_string());
        }
        self.is_full = is_full;
        Ok(())
    }

    /// Whether Loop considers its own disk full, after its last turn.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Whether there was a reason to refuse writes at any time in the current turn.
    pub fn has_reason(&self) -> bool {
        self.was_full || self.was_told
    }

    /// Whether Loop considered its own disk full at any time in the current turn.
    pub fn was_full(&self) -> bool {
        self.was_full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK_US: u64 = 20_000;
    const OTHER: MemberId = MemberId(7);
    const S: u64 = 1_000_000;

    fn may_refuse(refusing: &mut Refusing, leader: Option<u64>, local_us: u64) -> bool {
        refusing.begin_turn(false);
        refusing.look(leader, local_us, TICK_US);
        refusing.has_reason()
    }

    #[test]
    fn the_word_of_the_leader_is_a_reason_for_three_seconds() {
        let mut refusing = Refusing::new(false);
        assert!(!may_refuse(&mut refusing, Some(OTHER.0), S));
        refusing.on_said(OTHER, true, S);
        assert!(may_refuse(&mut refusing, Some(OTHER.0), S));
        assert!(may_refuse(&mut refusing, Some(OTHER.0), 4 * S + TICK_US));
        assert!(!may_refuse(&mut refusing, Some(OTHER.0), 4 * S + TICK_US + 1_000));
        // The full disk of a member that does not lead is no reason.
        assert!(!may_refuse(&mut refusing, Some(8), S));
        assert!(!may_refuse(&mut refusing, None, S));
        refusing.on_said(OTHER, false, 2 * S);
        assert!(!may_refuse(&mut refusing, Some(OTHER.0), 2 * S));
    }

    #[test]
    fn a_full_disk_is_a_reason_from_the_turn_that_finds_it_to_the_one_that_finds_room() {
        let mut refusing = Refusing::new(false);
        refusing.begin_turn(true);
        assert_eq!(refusing.on_own(Some(true)), Ok(()));
        assert!(refusing.has_reason());
        assert!(may_refuse(&mut refusing, None, S));
        refusing.begin_turn(false);
        assert_eq!(refusing.on_own(Some(false)), Ok(()));
        assert!(refusing.has_reason());
        assert!(!may_refuse(&mut refusing, None, S));
    }

    #[test]
    fn no_disk_is_full_that_always_had_room() {
        assert!(Refusing::new(false).on_own(Some(true)).is_err());
        assert_eq!(Refusing::new(true).on_own(Some(true)), Ok(()));
    }
}
