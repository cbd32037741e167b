//! The states that the answers leave possible.

use std::collections::{BTreeMap, BTreeSet};

use crate::etcd::finding::{Rule, Violation, violation};
use crate::etcd::history::{CallId, CallRecord};
use crate::etcd::model::{Effect, Model, View};
use crate::etcd::op::Response;

/// The most pasts that are followed side by side. Writes of unknown fate that may have made a
/// revision, each with another effect, make another past each; reads soon leave one.
pub const WORLDS_MAX: usize = 64;

/// One possible past: the state at each revision. It does not say which write of unknown fate made
/// a revision. It is possible only if a different write can have made each of these revisions.
#[derive(Clone)]
struct World {
    model: Model,
    makers: Makers,
}

/// The revisions that no acknowledged write made, and a choice of writes that made them.
#[derive(Clone, Default)]
struct Makers {
    /// For each of these revisions, the writes that can have made it.
    possible: Vec<Vec<CallId>>,
    /// For each chosen write, the position of its revision.
    chosen: BTreeMap<CallId, usize>,
}

impl Makers {
    /// Adds a revision that one of these writes made. Returns whether every revision can still have
    /// a write of its own (Kuhn's algorithm for matchings).
    fn add(&mut self, possible: Vec<CallId>) -> bool {
        self.possible.push(possible);
        self.choose(self.possible.len() - 1, &mut BTreeSet::new())
    }

    /// Chooses a write for a revision; another revision may have to change its own for that.
    fn choose(&mut self, index: usize, tried: &mut BTreeSet<CallId>) -> bool {
        for id in self.possible[index].clone() {
            let is_new = tried.insert(id);
            let other = self.chosen.get(&id).copied();
            if is_new && other.is_none_or(|other| self.choose(other, tried)) {
                self.chosen.insert(id, index);
                return true;
            }
        }
        false
    }
}

impl World {
    /// The effects that these writes would have now, each with the writes that have it.
    fn effects(&self, candidates: &[&CallRecord]) -> Vec<(Effect, Vec<CallId>)> {
        let mut effects: Vec<(Effect, Vec<CallId>)> = Vec::new();
        for record in candidates {
            let Some(effect) = self.model.effect(&record.op) else { continue };
            match effects.iter_mut().find(|(other, _)| *other == effect) {
                Some((_, ids)) => ids.push(record.id),
                None => effects.push((effect, vec![record.id])),
            }
        }
        effects
    }

    /// Whether the newest state gives the answer to a read. The header of a range at an older
    /// revision names a newer one.
    fn gives(&self, record: &CallRecord) -> bool {
        let Some(answer) = record.answer() else { return true };
        // Compactions have no place in the order: nothing is compacted here.
        let view = View { revision: self.model.view().revision, ..Model::new().view() };
        let mut own = self.model.answer_at(&record.op, view);
        if let (Ok(Response::Range(own)), Ok(Response::Range(told))) = (&mut own, answer) {
            own.revision = told.revision;
        }
        own == *answer
    }
}

/// All possible pasts up to a revision; at least one, unless too many were given up.
pub(super) struct Worlds {
    all: Vec<World>,
}

impl Worlds {
    /// The past of a fresh store.
    pub(super) fn new() -> Worlds {
        Worlds { all: vec![World { model: Model::new(), makers: Makers::default() }] }
    }

    /// Whether there were too many to follow.
    pub(super) fn are_too_many(&self) -> bool {
        self.all.is_empty()
    }

    /// The next revision is that of an acknowledged write.
    pub(super) fn change(&mut self, record: &CallRecord) -> Result<(), Violation> {
        let Some(answer) = record.answer() else { return Ok(()) };
        self.all.retain_mut(|world| world.model.apply(&record.op) == *answer);
        self.check_left(Rule::Answer, record)
    }

    /// The next revision is that of one of these, of unknown fate, and reads show it.
    pub(super) fn fill(
        &mut self,
        candidates: &[&CallRecord],
        reads: &[&CallRecord],
        revision: i64,
    ) -> Result<(), Violation> {
        let mut next = Vec::new();
        let mut refuted = None;
        for world in &mut self.all {
            for (effect, makers) in world.effects(candidates) {
                if next.len() > WORLDS_MAX {
                    break;
                }
                world.model.make(effect);
                match reads.iter().find(|record| !world.gives(record)) {
                    Some(record) => refuted = Some(*record),
                    None => {
                        let mut world = world.clone();
                        if world.makers.add(makers) {
                            next.push(world);
                        }
                    }
                }
                world.model.unmake();
            }
        }
        self.all = next;
        match refuted {
            Some(record) => self.check_left(Rule::Read, record),
            None if self.all.is_empty() => {
                let what = format!("no write can have made revision {revision}");
                Err(Violation { rule: Rule::Revision, what })
            }
            None => Ok(()),
        }
    }

    /// These answers show the newest revision, and changed nothing.
    pub(super) fn read(&mut self, records: &[&CallRecord]) -> Result<(), Violation> {
        for record in records {
            self.all.retain(|world| world.gives(record));
            self.check_left(Rule::Read, record)?;
        }
        if self.all.len() > WORLDS_MAX {
            self.all.clear();
        }
        Ok(())
    }

    fn check_left(&self, rule: Rule, record: &CallRecord) -> Result<(), Violation> {
        match self.all.is_empty() {
            true => violation(rule, "no possible state gives its answer", record),
            false => Ok(()),
        }
    }
}
