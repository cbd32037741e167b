//! The states that the answers leave possible.

use std::collections::BTreeSet;

use crate::etcd::finding::{Rule, Violation, violation};
use crate::etcd::history::{CallId, CallRecord};
use crate::etcd::model::{Model, View};

/// The most states that are followed side by side. Each write of unknown fate that a revision may
/// be of makes another; reads soon leave one.
pub const WORLDS_MAX: usize = 64;

/// One possible past.
#[derive(Clone)]
struct World {
    model: Model,
    /// The writes of unknown fate that took effect.
    done: BTreeSet<CallId>,
}

/// All possible pasts up to a revision; at least one, unless too many were given up.
pub(super) struct Worlds {
    all: Vec<World>,
}

impl Worlds {
    /// The past of a fresh store.
    pub(super) fn new() -> Worlds {
        Worlds { all: vec![World { model: Model::new(), done: BTreeSet::new() }] }
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

    /// The next revision is that of one of these, of unknown fate.
    pub(super) fn fill(
        &mut self,
        candidates: &[&CallRecord],
        revision: i64,
    ) -> Result<(), Violation> {
        let mut next = Vec::new();
        for world in &self.all {
            for record in candidates.iter().filter(|record| !world.done.contains(&record.id)) {
                let mut world = world.clone();
                let is_done = world.model.apply(&record.op).is_ok();
                if is_done && world.model.view().revision == revision {
                    world.done.insert(record.id);
                    next.push(world);
                }
            }
        }
        self.all = next;
        if self.all.is_empty() {
            let what = format!("no write can have made revision {revision}");
            return Err(Violation { rule: Rule::Revision, what });
        }
        Ok(())
    }

    /// These answers show the newest revision, and changed nothing.
    pub(super) fn read(&mut self, records: &[&CallRecord], revision: i64) -> Result<(), Violation> {
        // Compactions have no place in the order: nothing is compacted here.
        let view = View { revision, ..Model::new().view() };
        for record in records {
            let Some(answer) = record.answer() else { continue };
            self.all.retain(|world| world.model.answer_at(&record.op, view) == *answer);
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
