//! When a process may refuse writes for want of room on a disk: its own, or that of the member
//! that it takes for the leader.

use std::collections::BTreeMap;

use machine::MemberId;
use member::order::limits::FULL_LASTS_MS;

/// How much longer than [`FULL_LASTS_MS`] Loop may take another disk for full, by the clock of its
/// machine: Loop counts whole milliseconds, and was told the time up to a tick ago.
fn lasts_us(raft_tick_us: u64) -> u64 {
    FULL_LASTS_MS * 1_000 + raft_tick_us + 1_000
}

/// What one process was told of full disks.
pub(super) struct Refusing {
    /// Whether Loop takes its own disk for full, as of its last turn.
    is_full: bool,
    /// Whether the disk could lack room at any time in this life. Reports of a disk that was full
    /// may come when there is room again.
    could_lack_room: bool,
    /// When each other member last said that its disk is full, by the clock of the machine.
    said_us: BTreeMap<MemberId, u64>,
    /// Whether Loop took its own disk for full at any time in its present turn.
    was_full: bool,
    /// Whether Loop took the leader's disk for full at any time in its present turn.
    was_told: bool,
}

impl Refusing {
    /// What a new process knows.
    pub fn new(may_lack_room: bool) -> Refusing {
        Refusing {
            is_full: false,
            could_lack_room: may_lack_room,
            said_us: BTreeMap::new(),
            was_full: false,
            was_told: false,
        }
    }

    /// A turn of Loop begins, on a disk that may lack room or not.
    pub fn begin_turn(&mut self, may_lack_room: bool) {
        self.could_lack_room |= may_lack_room;
        (self.was_full, self.was_told) = (self.is_full, false);
    }

    /// Another member says whether its disk is full.
    pub fn on_said(&mut self, member: MemberId, is_full: bool, local_us: u64) {
        if is_full {
            self.said_us.insert(member, local_us);
        } else {
            self.said_us.remove(&member);
        }
    }

    /// Looks whether the member that Loop takes for the leader has said that its disk is full.
    /// `local_us` is by the clock of the machine. Returns whether it has, not long ago.
    pub fn look(&mut self, leader: Option<u64>, local_us: u64, raft_tick_us: u64) -> bool {
        let said_us = leader.and_then(|leader| self.said_us.get(&MemberId(leader)));
        let is_told = said_us.is_some_and(|said_us| local_us < said_us + lasts_us(raft_tick_us));
        self.was_told |= is_told;
        is_told
    }

    /// Loop says at the end of a turn whether it takes its own disk for full, if that has changed
    /// in this turn.
    ///
    /// # Errors
    /// There always was room on the disk.
    pub fn on_own(&mut self, changed: Option<bool>) -> Result<(), String> {
        let Some(is_full) = changed else { return Ok(()) };
        self.was_full = true;
        if is_full && !self.could_lack_room {
            return Err("takes its disk for full, and there always was room".to_string());
        }
        self.is_full = is_full;
        Ok(())
    }

    /// Whether Loop takes its own disk for full, as of its last turn.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Whether there was a reason to refuse writes at any time in the present turn.
    pub fn has_reason(&self) -> bool {
        self.was_full || self.was_told
    }

    /// Whether Loop took its own disk for full at any time in its present turn.
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
        // Another member that is full is none.
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
