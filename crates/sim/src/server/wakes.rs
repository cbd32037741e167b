//! The planned wake-ups of a process's threads. Each thread has at most one planned: a new wake-up
//! replaces the planned one if it is earlier, and is dropped if it is later.

use std::collections::BTreeMap;

use crate::world::{Actor, Event, World};

/// The planned wake-ups of one process run.
pub(super) struct Wakes {
    life: u64,
    /// When each thread runs next, and the token of that wake-up.
    planned: BTreeMap<Actor, (u64, u64)>,
}

impl Wakes {
    /// A process run without wake-ups; `life` is its number.
    pub fn new(life: u64) -> Wakes {
        Wakes { life, planned: BTreeMap::new() }
    }

    /// The number of the process run.
    pub fn life(&self) -> u64 {
        self.life
    }

    /// Plans that a thread runs at `at_us`, unless it runs earlier anyway.
    pub fn plan(&mut self, world: &mut World, actor: Actor, at_us: u64) {
        if self.planned.get(&actor).is_some_and(|(scheduled, _)| *scheduled <= at_us) {
            return;
        }
        let token = world.token();
        self.planned.insert(actor, (at_us, token));
        world.schedule(at_us, Event::Run { life: self.life, actor, token });
    }

    /// Plans that a thread reports finished work at `at_us`.
    pub fn report(&self, world: &mut World, actor: Actor, at_us: u64) {
        world.schedule(at_us, Event::Done { life: self.life, actor });
    }

    /// Takes the wake-up with this token. Returns false if another wake-up has replaced it.
    pub fn take(&mut self, actor: Actor, token: u64) -> bool {
        let is_newest = self.planned.get(&actor).is_some_and(|(_, newest)| *newest == token);
        if is_newest {
            self.planned.remove(&actor);
        }
        is_newest
    }
}
