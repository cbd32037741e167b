//! How far a run has come: its phase, and what was done in the phases after the faults.

/// A part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Clients work, and things go wrong.
    Faults,
    /// Nothing goes wrong any more; clients finish.
    Calm,
    /// Clients say their last words.
    LastWords,
    /// Some clients vanish: their sessions expire, and those of the others do not.
    Silence,
    /// The members are started once more after a loss of power.
    LastStart,
}

/// The course of a run.
pub(super) struct Course {
    phase: Phase,
    /// When the phase began.
    began_us: u64,
    /// When all clients had done everything they had to, and had every answer.
    worked_us: u64,
    /// Rounds of visits that clients have begun at the end.
    visit_count: usize,
    /// Rounds of extra operations that are to make members find out a state that was made wrong.
    find_out_tries: u64,
    /// The newest zxid and the wall clock when some clients vanished.
    silence_began_at: (i64, i64),
}

impl Course {
    /// The course of a run that begins.
    pub fn new() -> Course {
        Course {
            phase: Phase::Faults,
            began_us: 0,
            worked_us: 0,
            visit_count: 0,
            find_out_tries: 0,
            silence_began_at: (0, 0),
        }
    }

    /// The phase.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether nothing goes wrong any more.
    pub fn is_calm(&self) -> bool {
        self.phase != Phase::Faults
    }

    /// Whether the members are started for the last time.
    pub fn is_last(&self) -> bool {
        self.phase == Phase::LastStart
    }

    /// When the phase began.
    pub fn began_us(&self) -> u64 {
        self.began_us
    }

    /// When all clients had done everything they had to, and had every answer.
    pub fn worked_us(&self) -> u64 {
        self.worked_us
    }

    /// Begins a phase.
    pub fn begin(&mut self, phase: Phase, now_us: u64) {
        (self.phase, self.began_us) = (phase, now_us);
        if phase == Phase::LastWords {
            self.worked_us = now_us;
        }
    }

    /// Counts a round of visits, unless there were as many as there are members. Returns the
    /// number of rounds before it.
    pub fn begin_visits(&mut self, member_count: usize) -> Option<usize> {
        let before = self.visit_count;
        let is_any_left = before < member_count;
        self.visit_count += usize::from(is_any_left);
        is_any_left.then_some(before)
    }

    /// Counts a round of extra operations. Returns the number of rounds.
    pub fn try_to_find_out(&mut self) -> u64 {
        self.find_out_tries += 1;
        self.find_out_tries
    }

    /// Notes the newest zxid and the wall clock when some clients vanish.
    pub fn note_silence(&mut self, at: (i64, i64)) {
        self.silence_began_at = at;
    }

    /// The newest zxid and the wall clock when some clients vanished.
    pub fn silence_began_at(&self) -> (i64, i64) {
        self.silence_began_at
    }
}
