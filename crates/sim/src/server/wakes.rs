//! The wake-ups of the parts of a process. Each part has one at most: an earlier one replaces it.

use std::collections::BTreeMap;

use crate::world::{Actor, Event, World};

/// The wake-ups of the parts of a process.
pub(super) struct Wakes {
    life: u64,
    /// When each part is to run next, and the token of that wake-up.
    planned: BTreeMap<Actor, (u64, u64)>,
}

impl Wakes {
    /// No wake-ups in this life of a process.
    pub fn new(life: u64) -> Wakes {
        Wakes { life, planned: BTreeMap::new() }
    }

    /// The life of the process.
    pub fn life(&self) -> u64 {
        self.life
    }

    /// Lets a part run at `at_us`, unless it runs before that anyway.
    pub fn plan(&mut self, world: &mut World, actor: Actor, at_us: u64) {
        if self.planned.get(&actor).is_some_and(|(scheduled, _)| *scheduled <= at_us) {
            return;
        }
        let token = world.token();
        self.planned.insert(actor, (at_us, token));
        world.schedule(at_us, Event::Run { life: self.life, actor, token });
    }

    /// Lets a part report at `at_us` that its work is done.
    pub fn report(&self, world: &mut World, actor: Actor, at_us: u64) {
        world.schedule(at_us, Event::Done { life: self.life, actor });
    }

    /// Takes the wake-up with this token. Returns false if another one replaced it.
    pub fn take(&mut self, actor: Actor, token: u64) -> bool {
        let is_newest = self.planned.get(&actor).is_some_and(|(_, newest)| *newest == token);
        if is_newest {
            self.planned.remove(&actor);
        }
        is_newest
    }
}
