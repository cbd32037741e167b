//! Running operations that were checked, in one step or in several.
//!
//! A removal of a million keys takes longer than anybody may hold the state's lock. So a step of a
//! command looks at a bounded number of keys, and a command that needs more is *paused*. Reads
//! between two steps see the revision before the command: the store's revision moves at its end.
//! Every step begins where the one before stopped, and nothing else is applied meanwhile, so the
//! result does not depend on the steps.

use crate::change::ChangeBatch;
use crate::etcd::change::KeyChange;
use crate::etcd::command::{DeleteRange, KeyRange, Op, Put, RangeOp, Txn};
use crate::etcd::event::{Event, Place};
use crate::etcd::lease::Lease;
use crate::etcd::reply::{Branch, Found, OpDone, PutDone, RangeDeleted, Refusal};
use crate::etcd::store::Store;

/// Why a step of a command gives no outcome.
pub(crate) enum Stop {
    /// The command is refused, and nothing has changed.
    Refused(Refusal),
    /// Its work is not done.
    Paused,
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Stop {
        Stop::Refused(refusal)
    }
}

/// A command between two of its steps.
pub(crate) struct Paused {
    pub at: PausedAt,
    pub halt: Halt,
}

/// Where a command goes on.
pub(crate) enum PausedAt {
    /// In its only operation.
    DeleteRange,
    /// Behind operations of a transaction.
    Txn {
        /// The results of the comparisons, of each transaction before those nested in it.
        judged: Vec<bool>,
        /// The outcomes so far. The last may be that of a nested transaction which is not done.
        done: Vec<OpDone>,
    },
    /// In the end of the lease with this number in the list of the command.
    Lease(usize, Lease),
}

/// The changes at one revision, which are not complete.
pub(crate) struct Halt {
    /// The place of the next event.
    place: Place,
    /// The changes so far, for watchers, who get those of one revision together. None if nobody
    /// watched.
    changes: Option<Vec<KeyChange>>,
    /// The removal that is not done.
    delete: Option<DeleteSoFar>,
}

/// A removal of a range between two steps.
struct DeleteSoFar {
    /// The first key that was not looked at.
    from: Box<[u8]>,
    count: u64,
    prev: Vec<Event>,
}

/// What a step of a command has to work with.
pub(crate) struct Step<'c> {
    /// How many more keys it may look at.
    pub keys_left: u64,
    /// For the changes of complete revisions.
    pub changes: &'c mut ChangeBatch,
}

/// A transaction whose comparisons were judged: the branch to run.
pub(crate) struct Path<'t> {
    pub succeeded: bool,
    pub ops: Vec<PathOp<'t>>,
}

pub(crate) enum PathOp<'t> {
    Range(&'t RangeOp<'t>),
    Put(&'t Put<'t>),
    DeleteRange(&'t DeleteRange<'t>),
    Txn(Path<'t>),
}

impl<'t> Path<'t> {
    /// The path on which `judge` says whether the comparisons of a transaction hold. It is asked
    /// for each before those that are nested in it.
    pub fn of(txn: &'t Txn<'t>, judge: &mut dyn FnMut(&Txn<'t>) -> bool) -> Path<'t> {
        let succeeded = judge(txn);
        let ops = if succeeded { &txn.success } else { &txn.failure };
        let ops = ops.iter().map(|op| match op {
            Op::Range(range) => PathOp::Range(range),
            Op::Put(put) => PathOp::Put(put),
            Op::DeleteRange(delete) => PathOp::DeleteRange(delete),
            Op::Txn(txn) => PathOp::Txn(Path::of(txn, judge)),
        });
        Path { succeeded, ops: ops.collect() }
    }

    /// The results that it was made from.
    pub fn judged(&self, results: &mut Vec<bool>) {
        results.push(self.succeeded);
        for op in &self.ops {
            if let PathOp::Txn(path) = op {
                path.judged(results);
            }
        }
    }

    /// Whether these are the outcomes of all its operations.
    fn is_whole(&self, done: &[OpDone]) -> bool {
        let last_is_whole = match (self.ops.last(), done.last()) {
            (Some(PathOp::Txn(path)), Some(OpDone::Txn(branch))) => path.is_whole(&branch.done),
            _ => true,
        };
        done.len() == self.ops.len() && last_is_whole
    }
}

impl Store {
    /// Whether a command is paused: then the store holds events above its revision, of that command
    /// alone.
    pub fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// Begins changes at a revision, or goes on with them, and moves the revision if they are done
    /// and there are any.
    pub(crate) fn run<D, U>(
        &mut self,
        step: &mut Step<'_>,
        halt: Option<Halt>,
        operations: impl FnOnce(&mut Run<'_>) -> Result<D, U>,
    ) -> Result<D, (U, Halt)> {
        let first = Place { revision: self.revision + 1, sub: 0 };
        let is_begun = halt.is_some();
        let (place, delete, kept) = match halt {
            Some(Halt { place, changes, delete }) => (place, delete, changes),
            None => (first, None, None),
        };
        let wants = step.changes.wants_key_changes();
        let mut apart = ChangeBatch::default();
        if is_begun && wants {
            apart.set_wants_key_changes(true);
            apart.append_key_changes(kept.unwrap_or_else(|| self.changes_from(first)));
        }
        let begin = step.changes.key_changes().len();
        let changes = if is_begun { &mut apart } else { &mut *step.changes };
        let mut run = Run { store: self, changes, place, keys_left: step.keys_left, delete };
        let done = operations(&mut run);
        let Run { place, keys_left, delete, .. } = run;
        step.keys_left = keys_left;
        match done {
            Ok(done) => {
                step.changes.append_key_changes(apart.split_off_key_changes(0));
                if place.sub > 0 {
                    self.revision = first.revision;
                }
                Ok(done)
            }
            Err(undone) => {
                let so_far = match is_begun {
                    true => apart.split_off_key_changes(0),
                    false => step.changes.split_off_key_changes(begin),
                };
                let changes = wants.then_some(so_far);
                Err((undone, Halt { place, changes, delete }))
            }
        }
    }

    /// The changes from this place on. Each costs a search, so it is for the command during which
    /// the first watcher came.
    fn changes_from(&self, first: Place) -> Vec<KeyChange> {
        let before_first = Place { revision: first.revision - 1, sub: u32::MAX };
        let events = self.tail.behind(before_first);
        let before = |event: &Event| self.index.before_revision(event).cloned();
        events.map(|event| KeyChange { event: event.clone(), before: before(event) }).collect()
    }

    /// Notes where a command goes on.
    pub(crate) fn pause(&mut self, at: PausedAt, halt: Halt) -> Stop {
        self.paused = Some(Box::new(Paused { at, halt }));
        Stop::Paused
    }
}

/// Changes at one revision while they are made.
pub(crate) struct Run<'s> {
    store: &'s mut Store,
    changes: &'s mut ChangeBatch,
    /// The place of the next event.
    place: Place,
    keys_left: u64,
    /// The removal that is not done.
    delete: Option<DeleteSoFar>,
}

impl Run<'_> {
    /// The revision that reads see: that of the changes, once there are any.
    fn current(&self) -> i64 {
        if self.place.sub > 0 { self.place.revision } else { self.store.revision }
    }

    /// Takes a part of what the step may do. False if nothing is left.
    fn spend(&mut self, keys: u64) -> bool {
        let had_some = self.keys_left > 0;
        self.keys_left = self.keys_left.saturating_sub(keys);
        had_some
    }

    /// Runs the operations of a path behind those that are done. The error is a branch that is not
    /// done.
    pub fn branch(&mut self, path: &Path<'_>, mut done: Vec<OpDone>) -> Result<Branch, Branch> {
        let succeeded = path.succeeded;
        let mut nested = Vec::new();
        if let Some(PathOp::Txn(of)) = done.len().checked_sub(1).map(|last| &path.ops[last])
            && let Some(OpDone::Txn(branch)) = done.pop_if(|last| is_undone(of, last))
        {
            nested = branch.done;
        }
        done.reserve_exact(path.ops.len() - done.len());
        for op in &path.ops[done.len()..] {
            let outcome = match op {
                PathOp::Range(range) => self.range(range).map(OpDone::Range),
                PathOp::Put(put) => self.put(put).map(OpDone::Put),
                PathOp::DeleteRange(delete) => self.delete_range(delete).map(OpDone::DeleteRange),
                PathOp::Txn(path) => match self.branch(path, core::mem::take(&mut nested)) {
                    Ok(branch) => Some(OpDone::Txn(branch)),
                    Err(branch) => {
                        done.push(OpDone::Txn(branch));
                        None
                    }
                },
            };
            let Some(outcome) = outcome else { return Err(Branch { succeeded, done }) };
            done.push(outcome);
        }
        Ok(Branch { succeeded, done })
    }

    fn range(&mut self, range: &RangeOp<'_>) -> Option<Found> {
        if !self.spend(1) {
            return None;
        }
        let found = read(self.store, range, self.current());
        self.spend(found.events.len() as u64);
        Some(found)
    }

    /// A put. None if the step may do no more.
    pub fn put(&mut self, put: &Put<'_>) -> Option<PutDone> {
        if !self.spend(1) {
            return None;
        }
        let wants_before = put.prev_kv || put.ignore_value || put.ignore_lease;
        let before = self.store.index.newest(put.key).filter(|_| wants_before).cloned();
        let (mut value, mut lease) = (put.value, put.lease);
        if let Some(before) = &before {
            if put.ignore_value {
                value = before.value();
            }
            if put.ignore_lease {
                lease = before.numbers().lease;
            }
        }
        let place = self.place;
        self.place.sub += 1;
        self.store.put(place, (put.key, value), lease, self.changes);
        let prev = if put.prev_kv { before } else { None };
        Some(PutDone { revision: place.revision, prev })
    }

    /// Removes a range, or what is left of it. None if the step may do no more.
    pub fn delete_range(&mut self, delete: &DeleteRange<'_>) -> Option<RangeDeleted> {
        let (begun, mut count, mut prev) = match self.delete.take() {
            Some(DeleteSoFar { from, count, prev }) => (Some(from), count, prev),
            None => (None, 0, Vec::new()),
        };
        let key = begun.as_deref().unwrap_or(delete.range.key);
        let range = KeyRange { key, end: delete.range.end };
        let Run { store, changes, place, keys_left, .. } = self;
        let looked_at = store.delete_range(*place, range, *keys_left, changes, |before| {
            place.sub += 1;
            count += 1;
            if delete.prev_kv {
                prev.push(before.clone());
            }
        });
        self.keys_left -= looked_at.count;
        if let Some(from) = looked_at.next {
            self.delete = Some(DeleteSoFar { from, count, prev });
            return None;
        }
        Some(RangeDeleted { revision: self.current(), count, prev })
    }

    /// Removes the keys of a lease that was taken out, in their order. The error is what is left
    /// of it.
    pub fn delete_keys(&mut self, mut lease: Lease) -> Result<(), Lease> {
        while self.keys_left > 0 {
            let Some(version) = lease.take_key() else { return Ok(()) };
            let range = KeyRange { key: version.key(), end: &[] };
            self.delete_range(&DeleteRange { range, prev_kv: false });
        }
        if lease.keys().len() == 0 { Ok(()) } else { Err(lease) }
    }
}

/// Whether an outcome is that of a nested transaction which is not done.
fn is_undone(path: &Path<'_>, done: &OpDone) -> bool {
    matches!(done, OpDone::Txn(branch) if !path.is_whole(&branch.done))
}

/// Runs a read whose revision was checked. Only a revision below 0 passes the check and is not the
/// present one where nothing was compacted; it means the present one.
pub(crate) fn read(store: &Store, range: &RangeOp<'_>, current: i64) -> Found {
    store.range_from(range, current).expect("the revision was checked before the first change")
}

#[cfg(test)]
mod tests;
