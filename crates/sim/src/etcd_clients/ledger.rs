//! What two actors that change users and roles at once know of each other.
//!
//! Each has users and roles of its own, so an answer about these depends on the other actor in two
//! ways only: the other one raises the revision of users and roles, and the first actor switches
//! the enforcement of permissions. The ledger has both, by what was sent and what was answered. An
//! actor whose finding may be the effect of what the other one has under way drops the finding.

use std::cell::RefCell;
use std::rc::Rc;

/// The actors of a run, at most.
pub const ACTORS_MAX: usize = 2;

/// What one actor has done, by what its client saw.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    /// Changes that were sent, or are over.
    news: u64,
    /// Changes that are under way, or may take effect later.
    open: u64,
    /// Changes that were acknowledged and have raised the revision.
    raised: u64,
}

/// What all actors have done.
#[derive(Debug, Default)]
struct Ledger {
    done: [Done; ACTORS_MAX],
    /// Switches of the enforcement that were sent, or are over.
    switch_news: u64,
    /// Switches that are under way, or may take effect later.
    switches_open: u64,
}

/// What came of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It has not taken effect, and never will.
    Nothing,
    /// It took effect. Says whether it has raised the revision.
    Done {
        /// Whether it has.
        is_raised: bool,
    },
    /// It may take effect later.
    Unknown,
}

/// An actor's view of the ledger.
#[derive(Clone, Debug, Default)]
pub struct Share {
    ledger: Rc<RefCell<Ledger>>,
    part: usize,
    /// The news of switches, and those open, when it last asked how things are.
    switches: (u64, u64),
    /// The news of the others when it asked for the revision the last time; `None` if they had
    /// something open.
    asked: Option<u64>,
    /// By how much the others had raised the revision that it knows; `None` if nobody knows.
    base: Option<u64>,
}

impl Share {
    /// The views of all actors.
    pub fn all() -> impl Iterator<Item = Share> {
        let ledger: Rc<RefCell<Ledger>> = Rc::default();
        (0..ACTORS_MAX).map(move |part| Share { ledger: ledger.clone(), part, ..Share::default() })
    }

    /// The place among the actors.
    pub fn part(&self) -> usize {
        self.part
    }

    fn others(&self) -> Done {
        let ledger = self.ledger.borrow();
        let others = ledger.done.iter().enumerate().filter(|(part, _)| *part != self.part);
        others.fold(Done::default(), |sum, (_, done)| Done {
            news: sum.news + done.news,
            open: sum.open + done.open,
            raised: sum.raised + done.raised,
        })
    }

    /// Whether there is another actor that has done something.
    pub fn has_others(&self) -> bool {
        self.others().news > 0
    }

    /// The actor sends a change; `is_switch`: of the enforcement.
    pub fn on_sent(&self, is_switch: bool) {
        let mut ledger = self.ledger.borrow_mut();
        let own = &mut ledger.done[self.part];
        own.news += 1;
        own.open += 1;
        ledger.switch_news += u64::from(is_switch);
        ledger.switches_open += u64::from(is_switch);
    }

    /// The change is over for its client.
    pub fn on_over(&self, is_switch: bool, end: End) {
        let mut ledger = self.ledger.borrow_mut();
        let own = &mut ledger.done[self.part];
        own.news += 1;
        own.open -= u64::from(end != End::Unknown);
        own.raised += u64::from(end == End::Done { is_raised: true });
        ledger.switch_news += u64::from(is_switch);
        ledger.switches_open -= u64::from(is_switch && end != End::Unknown);
    }

    /// The actor begins to ask how things are.
    pub fn on_ask_all(&mut self) {
        let ledger = self.ledger.borrow();
        self.switches = (ledger.switch_news, ledger.switches_open);
    }

    /// Whether a switch was sent, or is over, since the actor last began to ask.
    pub fn has_switched(&self) -> bool {
        self.ledger.borrow().switch_news != self.switches.0
    }

    /// Whether the enforcement is what the actor knows, if that was asked for last, and nobody else
    /// may have changed it since.
    pub fn knows_enforcement(&self) -> bool {
        !self.has_switched() && self.switches.1 == 0
    }

    /// The actor asks for the revision.
    pub fn on_ask_revision(&mut self) {
        let others = self.others();
        self.asked = (others.open == 0).then_some(others.news);
    }

    /// By how much the others have raised the revision that came now; `None` if they may have done
    /// something meanwhile.
    fn raised(&self) -> Option<u64> {
        let others = self.others();
        (self.asked == Some(others.news)).then_some(others.raised)
    }

    /// The revision that came now is the one that the actor knows from now on.
    pub fn on_revision(&mut self) {
        self.base = self.raised();
    }

    /// By how much the others have raised the revision that came now, above the one that the actor
    /// knows; `None` if nobody knows.
    pub fn raised_since(&self) -> Option<u64> {
        Some(self.raised()? - self.base?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> [Share; 2] {
        let all: Vec<Share> = Share::all().collect();
        all.try_into().expect("there are two")
    }

    #[test]
    fn the_other_raises_the_revision_by_what_was_acknowledged() {
        let [mut one, other] = two();
        one.on_ask_revision();
        one.on_revision();
        for end in [End::Done { is_raised: true }, End::Done { is_raised: false }, End::Nothing] {
            other.on_sent(false);
            other.on_over(false, end);
        }
        one.on_ask_revision();
        assert_eq!(one.raised_since(), Some(1));
    }

    #[test]
    fn nobody_knows_the_revision_beside_a_change_of_the_other() {
        let [mut one, other] = two();
        one.on_ask_revision();
        one.on_revision();
        other.on_sent(false);
        one.on_ask_revision();
        other.on_over(false, End::Done { is_raised: true });
        // It was under way when the question was sent.
        assert_eq!(one.raised_since(), None);
        one.on_ask_revision();
        other.on_sent(false);
        assert_eq!(one.raised_since(), None);
        other.on_over(false, End::Unknown);
        one.on_ask_revision();
        assert_eq!(one.raised_since(), None);
    }

    #[test]
    fn nobody_knows_the_enforcement_beside_a_switch() {
        let [one, mut other] = two();
        other.on_ask_all();
        assert!(other.knows_enforcement());
        one.on_sent(true);
        assert!(!other.knows_enforcement());
        other.on_ask_all();
        assert!(!other.knows_enforcement());
        one.on_over(true, End::Done { is_raised: false });
        assert!(other.has_switched());
        other.on_ask_all();
        assert!(other.knows_enforcement());
        one.on_sent(true);
        one.on_over(true, End::Unknown);
        other.on_ask_all();
        assert!(!other.knows_enforcement());
    }
}
