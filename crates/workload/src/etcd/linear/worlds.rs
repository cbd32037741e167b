//! The states that the answers leave possible.

use std::collections::{BTreeMap, BTreeSet};

use crate::etcd::finding::{Rule, Violation, violation};
use crate::etcd::history::{CallId, CallRecord};
use crate::etcd::model::{Effect, Model, View};
use crate::etcd::op::{LeaseOp, Op, Response};

/// The most pasts that are followed side by side. Writes of unknown fate that may have made a
/// revision, each with another effect, make another past each; reads soon leave one.
pub const WORLDS_MAX: usize = 64;

/// One possible past: the state at each revision. It does not say which write of unknown fate made
/// a revision. It is possible only if a different write can have made each of these revisions.
#[derive(Clone)]
struct World {
    model: Model,
    makers: Makers,
    /// The revisions whose possible makers do not agree on the order of changes.
    unordered: BTreeSet<i64>,
}

/// An effect that a revision may have.
struct Possible {
    effect: Effect,
    /// The writes that have it.
    makers: Vec<CallId>,
    /// Whether all of them make the changes in one order.
    is_ordered: bool,
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
    /// The effects that these writes would have now.
    fn effects(&self, candidates: &[&CallRecord]) -> Vec<Possible> {
        let mut effects: Vec<Possible> = Vec::new();
        for record in candidates {
            let effect = match record.op {
                Op::Lease(LeaseOp::Grant { lease, .. }) => self.model.effect_of_end(lease),
                _ => self.model.effect(&record.op),
            };
            let Some(effect) = effect else { continue };
            match effects.iter_mut().find(|other| other.effect == effect) {
                Some(same) => {
                    same.makers.push(record.id);
                    same.is_ordered &= same.effect.has_order_of(&effect);
                }
                None => {
                    effects.push(Possible { effect, makers: vec![record.id], is_ordered: true });
                }
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
    /// The past of a fresh store. These leases count as there from the beginning: no answer tells
    /// when a lease of unknown fate was made.
    pub(super) fn new(leases: impl IntoIterator<Item = i64>) -> Worlds {
        let mut model = Model::new();
        leases.into_iter().for_each(|lease| model.grant(lease));
        Worlds { all: vec![World { model, makers: Makers::default(), unordered: BTreeSet::new() }] }
    }

    /// The state of each possible past, with the revisions in which the order of changes is not
    /// known; empty if there were too many.
    pub(super) fn into_pasts(self) -> Vec<(Model, BTreeSet<i64>)> {
        self.all.into_iter().map(|world| (world.model, world.unordered)).collect()
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
            for possible in world.effects(candidates) {
                if next.len() > WORLDS_MAX {
                    break;
                }
                world.model.make(possible.effect);
                match reads.iter().find(|record| !world.gives(record)) {
                    Some(record) => refuted = Some(*record),
                    None => {
                        let mut world = world.clone();
                        if !possible.is_ordered {
                            world.unordered.insert(revision);
                        }
                        if world.makers.add(possible.makers) {
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
