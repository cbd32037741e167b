//! How far a run has come: its phase, and counts of what was done after the faults.

/// A part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Clients work while faults come.
    Faults,
    /// The faults have stopped; clients finish their work.
    Calm,
    /// Clients make their last requests, then visit the members in rounds.
    LastWords,
    /// Some clients vanish: their sessions must expire, and the others' must not.
    Silence,
    /// All members start once more after a power cut.
    LastStart,
}

/// The current phase of a run, with counts of its last rounds.
pub(super) struct Course {
    phase: Phase,
    /// When the current phase began, in us.
    began_us: u64,
    /// When all clients had finished their work and had all answers, in us.
    worked_us: u64,
    /// Rounds of visits to other members that have begun.
    visit_count: usize,
    /// Rounds of extra operations that should make members detect a wrong state.
    find_out_tries: u64,
    /// The newest zxid, and the lowest wall clock of a machine in ms, when some clients vanished.
    silence_began_at: (i64, i64),
}

impl Course {
    /// A run that begins, in the phase of faults.
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

    /// The current phase.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether the faults have stopped.
    pub fn is_calm(&self) -> bool {
        self.phase != Phase::Faults
    }

    /// Whether the run is in its last phase, after the final power cut.
    pub fn is_last(&self) -> bool {
        self.phase == Phase::LastStart
    }

    /// When the current phase began, in us.
    pub fn began_us(&self) -> u64 {
        self.began_us
    }

    /// When all clients had finished their work and had all answers, in us.
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

    /// Begins a round of visits and returns the number of rounds before it; `None` if there were as
    /// many rounds as members.
    pub fn begin_visits(&mut self, member_count: usize) -> Option<usize> {
        let before = self.visit_count;
        let is_any_left = before < member_count;
        self.visit_count += usize::from(is_any_left);
        is_any_left.then_some(before)
    }

    /// Counts a round of extra operations. Returns how many rounds there were.
    pub fn try_to_find_out(&mut self) -> u64 {
        self.find_out_tries += 1;
        self.find_out_tries
    }

    /// Notes the newest zxid, and the lowest wall clock of a machine in ms, when some clients
    /// vanish.
    pub fn note_silence(&mut self, at: (i64, i64)) {
        self.silence_began_at = at;
    }

    /// The newest zxid, and the lowest wall clock of a machine in ms, when some clients vanished.
    pub fn silence_began_at(&self) -> (i64, i64) {
        self.silence_began_at
    }
}
