//! Follows the worlds. A *world* is one sequence of states, one at each revision, that fits all
//! answers so far; there are several while writes of unknown fate leave a choice.

use std::collections::{BTreeMap, BTreeSet};

use crate::etcd::finding::{Rule, Violation, violation};
use crate::etcd::history::{CallId, CallRecord};
use crate::etcd::model::{Effect, Model, View};
use crate::etcd::op::{LeaseOp, Op, Response};

/// The most worlds that the judge follows. Each effect that a write of unknown fate may have had
/// makes another world; reads soon leave only one.
pub const WORLDS_MAX: usize = 64;

/// One possible past: the state at each revision. It does not say which write of unknown fate made
/// a revision; it only requires that a different write can have made each such revision.
#[derive(Clone)]
struct World {
    model: Model,
    makers: Makers,
    /// The revisions whose possible makers differ in the order of their changes.
    unordered: BTreeSet<i64>,
}

/// An effect that a revision may have had.
struct Possible {
    effect: Effect,
    /// The writes that would have this effect.
    makers: Vec<CallId>,
    /// Whether all of `makers` make their changes in the same order.
    is_ordered: bool,
}

/// The revisions that no acknowledged write made, with a choice of a different write for each.
#[derive(Clone, Default)]
struct Makers {
    /// For each revision that no acknowledged write made, the writes that may have made it.
    possible: Vec<Vec<CallId>>,
    /// For each chosen write, the position of its revision in `possible`.
    chosen: BTreeMap<CallId, usize>,
}

impl Makers {
    /// Adds a revision that one of these writes made. Returns whether each revision can still have
    /// a different write (Kuhn's matching algorithm).
    fn add(&mut self, possible: Vec<CallId>) -> bool {
        self.possible.push(possible);
        self.choose(self.possible.len() - 1, &mut BTreeSet::new())
    }

    /// Chooses a write for a revision, which may make other revisions change their choice.
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
    /// The effects that these writes would have on the newest state.
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

    /// Whether the answer to a read is the one that the newest state gives. The revision in the
    /// header is ignored for a range at an older revision, since its header has a newer one.
    fn gives(&self, record: &CallRecord) -> bool {
        let Some(answer) = record.answer() else { return true };
        // Compactions have no position in the order, so nothing is compacted here.
        let view = View { revision: self.model.view().revision, ..Model::new().view() };
        let mut own = self.model.answer_at(&record.op, view);
        if let (Ok(Response::Range(own)), Ok(Response::Range(told))) = (&mut own, answer) {
            own.revision = told.revision;
        }
        own == *answer
    }
}

/// All worlds up to a revision. There is at least one, unless they became too many.
pub(super) struct Worlds {
    all: Vec<World>,
}

impl Worlds {
    /// The world of a fresh store. These leases exist from the beginning, since no answer tells
    /// when a lease of unknown fate was granted.
    pub(super) fn new(leases: impl IntoIterator<Item = i64>) -> Worlds {
        let mut model = Model::new();
        leases.into_iter().for_each(|lease| model.grant(lease));
        Worlds { all: vec![World { model, makers: Makers::default(), unordered: BTreeSet::new() }] }
    }

    /// The state of each world, with the revisions in which the order of changes is unknown; empty
    /// if there were too many worlds.
    pub(super) fn into_pasts(self) -> Vec<(Model, BTreeSet<i64>)> {
        self.all.into_iter().map(|world| (world.model, world.unordered)).collect()
    }

    /// Whether there were too many worlds to follow.
    pub(super) fn are_too_many(&self) -> bool {
        self.all.is_empty()
    }

    /// An acknowledged write made the next revision.
    pub(super) fn change(&mut self, record: &CallRecord) -> Result<(), Violation> {
        let Some(answer) = record.answer() else { return Ok(()) };
        self.all.retain_mut(|world| world.model.apply(&record.op) == *answer);
        self.check_left(Rule::Answer, record)
    }

    /// One of these candidates, of unknown fate, made the next revision, and `reads` show it.
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

    /// These answers show the newest revision and changed nothing.
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
