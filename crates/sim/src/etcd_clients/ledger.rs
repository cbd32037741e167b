//! A ledger that the *users actors* of a run share. Those are the two clients that change etcd's
//! users and roles ([`super::users`]). It tells each actor what the other one may have changed,
//! because both change users and roles at the same time.
//!
//! Each actor has its own users and roles. So the actions of one actor change the answers to the
//! other in only two ways: both raise the shared auth revision, and the first actor switches the
//! enforcement of permissions. The ledger records both kinds of changes, when they are sent and
//! when they are answered. If an actor finds an answer wrong, but open changes of the other actor
//! may explain the answer, it drops the finding.

use std::cell::RefCell;
use std::rc::Rc;

/// The most actors in a run.
pub const ACTORS_MAX: usize = 2;

/// The changes of one actor, as its client knows them.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    /// A counter that grows when this actor's change is sent, and when the change ends. If it is
    /// unchanged, nothing can have changed meanwhile.
    news: u64,
    /// Changes that are open, or whose fate is unknown.
    open: u64,
    /// Acknowledged changes that raised the revision.
    raised: u64,
}

/// The ledger of all actors.
#[derive(Debug, Default)]
struct Ledger {
    done: [Done; ACTORS_MAX],
    /// A counter that grows when a switch of the enforcement is sent, and when the switch ends.
    switch_news: u64,
    /// Switches that are open, or whose fate is unknown.
    switches_open: u64,
}

/// How a change ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The change has not taken effect, and never will.
    Nothing,
    /// The change took effect.
    Done {
        /// Whether the change raised the revision.
        is_raised: bool,
    },
    /// The change's fate is unknown: it may take effect later.
    Unknown,
}

/// One actor's view of the ledger.
#[derive(Clone, Debug, Default)]
pub struct Share {
    ledger: Rc<RefCell<Ledger>>,
    part: usize,
    /// [`Ledger::switch_news`] and [`Ledger::switches_open`] when this actor last began to ask for
    /// all users and roles.
    switches: (u64, u64),
    /// The counter of the other actors' changes when this actor last asked for the revision; `None`
    /// if they had a change open.
    asked: Option<u64>,
    /// How often the others had raised the revision when this actor last learned it; `None` if
    /// unknown.
    base: Option<u64>,
}

impl Share {
    /// The views of one ledger, one for each actor.
    pub fn all() -> impl Iterator<Item = Share> {
        let ledger: Rc<RefCell<Ledger>> = Rc::default();
        (0..ACTORS_MAX).map(move |part| Share { ledger: ledger.clone(), part, ..Share::default() })
    }

    /// The actor's position among the actors.
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

    /// Whether another actor has ever sent a change.
    pub fn has_others(&self) -> bool {
        self.others().news > 0
    }

    /// This actor sends a change. `is_switch` says that the change switches the enforcement.
    pub fn on_sent(&self, is_switch: bool) {
        let mut ledger = self.ledger.borrow_mut();
        let own = &mut ledger.done[self.part];
        own.news += 1;
        own.open += 1;
        ledger.switch_news += u64::from(is_switch);
        ledger.switches_open += u64::from(is_switch);
    }

    /// This actor's change has ended.
    pub fn on_over(&self, is_switch: bool, end: End) {
        let mut ledger = self.ledger.borrow_mut();
        let own = &mut ledger.done[self.part];
        own.news += 1;
        own.open -= u64::from(end != End::Unknown);
        own.raised += u64::from(end == End::Done { is_raised: true });
        ledger.switch_news += u64::from(is_switch);
        ledger.switches_open -= u64::from(is_switch && end != End::Unknown);
    }

    /// This actor begins to ask for all users and roles.
    pub fn on_ask_all(&mut self) {
        let ledger = self.ledger.borrow();
        self.switches = (ledger.switch_news, ledger.switches_open);
    }

    /// Whether a switch was sent or ended since this actor last began to ask.
    pub fn has_switched(&self) -> bool {
        self.ledger.borrow().switch_news != self.switches.0
    }

    /// Whether the enforcement is still as this actor last learned it: no switch was open then, and
    /// none was sent since.
    pub fn knows_enforcement(&self) -> bool {
        !self.has_switched() && self.switches.1 == 0
    }

    /// This actor asks for the revision.
    pub fn on_ask_revision(&mut self) {
        let others = self.others();
        self.asked = (others.open == 0).then_some(others.news);
    }

    /// How often the others have raised the revision that was just answered; `None` if they may
    /// have changed something meanwhile.
    fn raised(&self) -> Option<u64> {
        let others = self.others();
        (self.asked == Some(others.news)).then_some(others.raised)
    }

    /// This actor adopts the revision that was just answered.
    pub fn on_revision(&mut self) {
        self.base = self.raised();
    }

    /// How much of the difference between the revision that was just answered and the adopted one
    /// is due to the others; `None` if unknown.
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
        // The change was open when the question was sent.
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
