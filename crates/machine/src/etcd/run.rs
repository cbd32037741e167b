//! Runs operations that were checked before, in one step or in several.
//!
//! Deleting a million keys takes longer than anybody may hold the state's lock. So a step of a
//! command looks at a bounded number of keys, and a command that needs more is *paused* after a
//! step. Reads between two steps see the revision before the command, because the store's revision
//! moves only at the command's end. Each step starts where the one before stopped, and nothing else
//! is applied between them, so the result does not depend on the size of the steps.

use crate::etcd::budget::Budget;
use crate::etcd::change::{Changes, KeyChange};
use crate::etcd::command::{DeleteRange, KeyRange, Op, Put, RangeOp, Txn};
use crate::etcd::event::Place;
use crate::etcd::lease::Lease;
use crate::etcd::path::{Visit, Walk};
use crate::etcd::paused::{ChangesSoFar, DeleteSoFar, Halt, Paused, PausedAt, TxnRun};
use crate::etcd::range::RangeRead;
use crate::etcd::reply::{Found, OpDone, PutDone, RangeDeleted, Refusal};
use crate::etcd::shown::{Shown, weight_of};
use crate::etcd::store::Store;
use crate::limits::ETCD_ANSWER_ITEM_WEIGHT;

/// Why a step of a command returns no outcome.
pub(crate) enum Stop {
    /// The command is refused, and nothing has changed.
    Refused(Refusal),
    /// The command is not done: it is paused.
    Paused,
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Stop {
        Stop::Refused(refusal)
    }
}

/// The budget and the output of one step of a command.
pub(crate) struct Step<'c> {
    /// How much the step may still look at.
    pub budget: Budget,
    /// Whether somebody will read the outcome.
    pub is_taken: bool,
    /// Receives the changes of revisions that are complete.
    pub changes: &'c mut Changes,
}

impl Store {
    /// Whether a command is paused. The store then holds that command's events, above its revision.
    pub fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// Starts the changes of a command at the next revision, or continues them from `halt`. If they
    /// are done, and there are any, moves the store's revision. `Err` holds what is left for the
    /// next step.
    pub(crate) fn run<D, U>(
        &mut self,
        step: &mut Step<'_>,
        halt: Option<Box<Halt>>,
        operations: impl FnOnce(&mut Run<'_>) -> Result<D, U>,
    ) -> Result<D, (U, Box<Halt>)> {
        let first = Place { revision: self.revision + 1, sub: 0 };
        let is_begun = halt.is_some();
        let (place, kept, delete, read, shown) = match halt {
            None => (first, None, None, None, Shown::at_begin(step.is_taken)),
            Some(halt) => {
                let Halt { place, changes, delete, read, shown } = *halt;
                (place, changes, delete, read, shown)
            }
        };
        let wants = step.changes.wants_keys();
        let mut apart = Changes::default();
        let (mut next, mut is_behind) = (place, false);
        if is_begun && wants {
            let mut kept = kept.unwrap_or(ChangesSoFar { changes: Vec::new(), next: first });
            is_behind = !self.catch_up(&mut kept, place, &mut step.budget);
            next = kept.next;
            apart.set_wants_keys(true);
            apart.append_keys(kept.changes);
        }
        let begin = step.changes.keys().len();
        let changes = if is_begun { &mut apart } else { &mut *step.changes };
        let budget = &mut step.budget;
        let mut run = Run { store: self, changes, place, budget, is_behind, delete, read, shown };
        let done = operations(&mut run);
        let Run { place, delete, read, shown, .. } = run;
        match done {
            Ok(done) => {
                step.changes.append_keys(apart.split_off_keys(0));
                if place.sub > 0 {
                    self.revision = first.revision;
                }
                Ok(done)
            }
            Err(undone) => {
                let so_far = match is_begun {
                    true => apart.split_off_keys(0),
                    false => step.changes.split_off_keys(begin),
                };
                let next = if is_behind { next } else { place };
                let changes = wants.then_some(ChangesSoFar { changes: so_far, next });
                Err((undone, Box::new(Halt { place, changes, delete, read, shown })))
            }
        }
    }

    /// Makes changes at one revision that are always done in one step.
    pub(crate) fn run_whole<D>(
        &mut self,
        step: &mut Step<'_>,
        operations: impl FnOnce(&mut Run<'_>) -> D,
    ) -> D {
        let done = self.run(step, None, |run| Ok::<D, core::convert::Infallible>(operations(run)));
        match done {
            Ok(done) => done,
            Err((never, _)) => match never {},
        }
    }

    /// Appends to `kept` the events before `to` that it does not have. The first watcher may come
    /// late in a long command; each event then costs a search, so this goes in steps. True when all
    /// are appended.
    fn catch_up(&self, kept: &mut ChangesSoFar, to: Place, budget: &mut Budget) -> bool {
        if kept.next >= to {
            return true;
        }
        // Positions count from 0. The place before position 0 belongs to the revision before.
        let behind = match kept.next.sub.checked_sub(1) {
            Some(sub) => Place { sub, ..kept.next },
            None => Place { revision: kept.next.revision - 1, sub: u32::MAX },
        };
        for event in self.tail.behind(behind) {
            if !budget.spend_key() {
                return false;
            }
            let before = self.index.before_revision(event).cloned();
            kept.changes.push(KeyChange { event: event.clone(), before });
            kept.next = Place { sub: event.place().sub + 1, ..event.place() };
        }
        true
    }

    /// Pauses a command that has begun to make changes.
    pub(crate) fn pause(&mut self, at: PausedAt, halt: Box<Halt>) -> Stop {
        self.pause_at(Paused::Running(at, halt))
    }

    /// Pauses a command at this point.
    pub(crate) fn pause_at(&mut self, paused: Paused) -> Stop {
        self.paused = Some(Box::new(paused));
        Stop::Paused
    }
}

/// The changes at one revision, while a step makes them.
pub(crate) struct Run<'s> {
    store: &'s mut Store,
    changes: &'s mut Changes,
    /// The place that the next event will have.
    place: Place,
    budget: &'s mut Budget,
    /// Whether watchers still lack changes of earlier steps (see [`Store::catch_up`]). While they
    /// do, no operation runs.
    is_behind: bool,
    /// The deletion of a range that is not done.
    delete: Option<DeleteSoFar>,
    /// The read of a range that is not done.
    read: Option<Box<RangeRead>>,
    shown: Shown,
}

impl Run<'_> {
    /// The revision that reads see: that of the changes if there are any, else the store's.
    fn current(&self) -> i64 {
        if self.place.sub > 0 { self.place.revision } else { self.store.revision }
    }

    /// Whether the outcome has become larger than an answer may be.
    pub fn shows_too_much(&self) -> bool {
        self.shown == Shown::TooMuch
    }

    /// Runs further operations of a transaction. True when all have run.
    pub fn txn(&mut self, txn: &Txn<'_>, run: &mut TxnRun) -> bool {
        if self.is_behind {
            return false;
        }
        let mut walk = Walk::at(txn, &run.levels);
        if run.entered == 0 {
            run.enter(&mut walk);
        }
        while self.budget.spend_visit() {
            let op = match walk.visit() {
                None => return true,
                Some(Visit::End) => {
                    run.leave();
                    continue;
                }
                Some(Visit::Op(op)) => op,
            };
            let done = match op {
                Op::Txn(_) => {
                    run.enter(&mut walk);
                    continue;
                }
                Op::Range(range) => self.range(range).map(|found| found.map(OpDone::Range)),
                Op::Put(put) => self.budget.spend_key().then(|| Some(OpDone::Put(self.put(put)))),
                Op::DeleteRange(delete) => {
                    self.delete_range(delete).map(|done| Some(OpDone::DeleteRange(done)))
                }
            };
            let Some(done) = done else {
                walk.step_back();
                break;
            };
            match done {
                Some(done) if self.shown.collects() => {
                    self.shown.weigh(ETCD_ANSWER_ITEM_WEIGHT);
                    run.push(done);
                }
                Some(OpDone::DeleteRange(deleted)) => self.store.garbage.add(deleted.prev),
                _ => {}
            }
        }
        run.levels = walk.levels();
        false
    }

    /// Starts or continues a read. The outer `None` means that the step may look at no more keys;
    /// the inner `None`, that nobody will read the result, so nothing was looked at.
    fn range(&mut self, range: &RangeOp<'_>) -> Option<Option<Found>> {
        if !self.shown.collects() {
            if let Some(read) = self.read.take() {
                self.store.garbage.add(read.into_events());
            }
            return Some(None);
        }
        let current = self.current();
        if self.read.is_none() {
            let keys_left = &mut self.budget.keys_left;
            if !self.store.order_step(range, current, keys_left) || !self.budget.spend_key() {
                return None;
            }
        }
        let mut read = self.read.take().unwrap_or_else(|| Box::new(begin_read(range, current)));
        let held = read.held_weight();
        let keys_left = &mut self.budget.keys_left;
        let is_walked = self
            .store
            .range_step_within(range, &mut read, keys_left, current)
            .expect("the revision was checked before the first change");
        self.shown.weigh(read.held_weight().saturating_sub(held));
        if is_walked && read.sort_step(range, keys_left) {
            return Some(Some(read.finish(range)));
        }
        self.read = Some(read);
        None
    }

    /// Does a put that was checked before.
    pub fn put(&mut self, put: &Put<'_>) -> PutDone {
        let shows_before = put.prev_kv && self.shown.collects();
        let wants_before = shows_before || put.ignore_value || put.ignore_lease;
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
        let prev = before.filter(|_| shows_before);
        self.shown.weigh(prev.as_ref().map_or(0, |prev| weight_of(prev, false)));
        PutDone { revision: place.revision, prev }
    }

    /// Does one step of deleting the keys of a range. Returns the outcome when the deletion is
    /// done; `None` if the step may look at no more keys.
    pub fn delete_range(&mut self, delete: &DeleteRange<'_>) -> Option<RangeDeleted> {
        // Charge one key at the start, since even an empty range takes time.
        if self.is_behind || (self.delete.is_none() && !self.budget.spend_key()) {
            return None;
        }
        self.remove(delete)
    }

    fn remove(&mut self, delete: &DeleteRange<'_>) -> Option<RangeDeleted> {
        let (begun, mut count, mut prev) = match self.delete.take() {
            Some(DeleteSoFar { from, count, prev }) => (Some(from), count, prev),
            None => (None, 0, Vec::new()),
        };
        let key = begun.as_deref().unwrap_or(delete.range.key);
        let range = KeyRange { key, end: delete.range.end };
        let Run { store, changes, place, budget, shown, .. } = self;
        let looked_at = store.delete_range(*place, range, budget.keys_left, changes, |before| {
            place.sub += 1;
            count += 1;
            if delete.prev_kv && shown.collects() {
                shown.weigh(weight_of(before, false));
                prev.push(before.clone());
            }
        });
        self.budget.keys_left -= looked_at.count;
        if let Some(from) = looked_at.next {
            self.delete = Some(DeleteSoFar { from, count, prev });
            return None;
        }
        Some(RangeDeleted { revision: self.current(), count, prev })
    }

    /// Deletes the keys of a lease, in order. The lease was removed from the store before. `Err`
    /// holds the lease with the keys that are left.
    pub fn delete_keys(&mut self, mut lease: Lease) -> Result<(), Lease> {
        while self.budget.keys_left > 0 && !self.is_behind {
            let Some(version) = lease.take_key() else { return Ok(()) };
            let range = KeyRange { key: version.key(), end: &[] };
            self.remove(&DeleteRange { range, prev_kv: false });
        }
        if lease.keys().len() == 0 && !self.is_behind { Ok(()) } else { Err(lease) }
    }
}

/// Starts a read whose revision was checked. On a store that was never compacted, revision -1
/// passes that check too; it means the present one.
pub(crate) fn begin_read(range: &RangeOp<'_>, current: i64) -> RangeRead {
    RangeRead::begin(range, current).expect("the revision was checked before the first change")
}

#[cfg(test)]
mod tests;
