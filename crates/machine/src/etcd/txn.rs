//! Running commands on the store.
//!
//! A transaction first finds its path: all comparisons, those of nested transactions on the path
//! too, are judged on the state before it. Then each operation on the path is checked. Then they
//! run in order, each seeing the ones before, all at one revision. So nothing is refused after the
//! first change. etcd 3.6 `txn.Txn`.

use core::cmp::Ordering;
use std::collections::BTreeSet;

use crate::change::ChangeBatch;
use crate::etcd::change::LeaseChange;
use crate::etcd::command::{
    Command, Compare, CompareTarget, DeleteRange, KeyRange, Op, Put, RangeOp, Relation, Txn,
};
use crate::etcd::event::{Event, Place};
use crate::etcd::lease::{Grant, Lease};
use crate::etcd::reply::{
    Branch, Found, Granted, OpDone, Outcome, PutDone, RangeDeleted, Refusal, TxnDone,
};
use crate::etcd::store::Store;
use crate::ids::{LeaseId, Ordinal};
use crate::limits::{ETCD_LEASE_BYTES, ETCD_LEASE_TTL_S_MAX};

/// The moment at which a command is applied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    pub(crate) ordinal: Ordinal,
    /// The leader's stamp.
    pub(crate) time_ms: i64,
}

impl Store {
    /// Runs a command.
    ///
    /// # Errors
    /// The command is refused, and nothing has changed.
    pub(crate) fn apply(
        &mut self,
        at: At,
        command: &Command<'_>,
        changes: &mut ChangeBatch,
    ) -> Result<Outcome, Refusal> {
        match command {
            Command::Put(put) => {
                // A lone put looks for its lease first (`txn.Put`), one in a transaction last.
                self.check_lease(put)?;
                self.check_put(put)?;
                self.check_quota(cost_of_put(put))?;
                Ok(Outcome::Put(self.run(changes, |run| run.put(put))))
            }
            Command::DeleteRange(delete) => {
                Ok(Outcome::DeleteRange(self.run(changes, |run| run.delete_range(delete))))
            }
            Command::Txn(txn) => {
                let path = self.path_of(txn);
                self.check(&path)?;
                check_kept(&path)?;
                self.check_quota(cost_of_txn(txn))?;
                let branch = self.run(changes, |run| run.branch(&path));
                Ok(Outcome::Txn(TxnDone { revision: self.revision, branch }))
            }
            Command::Compact { revision } => {
                self.compact(*revision)?;
                Ok(Outcome::Compacted { revision: self.revision })
            }
            Command::Configure(settings) => {
                self.settings = *settings;
                Ok(Outcome::Configured)
            }
            Command::Grant { lease, ttl_s } => {
                self.grant(at, *lease, *ttl_s, changes).map(Outcome::Granted)
            }
            Command::Revoke { lease } => {
                let taken = self.take_lease(*lease).ok_or(Refusal::LeaseNotFound)?;
                self.end_lease(*lease, &taken, changes);
                Ok(Outcome::Revoked { revision: self.revision })
            }
            Command::Expire { leases } => {
                for (lease, granted) in leases {
                    let found = self.leases.get(*lease).map(Lease::grant);
                    if found.is_some_and(|grant| grant.granted == *granted)
                        && let Some(taken) = self.take_lease(*lease)
                    {
                        self.end_lease(*lease, &taken, changes);
                    }
                }
                Ok(Outcome::Expired)
            }
        }
    }

    /// Grants a lease. The order of the checks is etcd's (`lessor.Grant`).
    fn grant(
        &mut self,
        at: At,
        wanted: LeaseId,
        ttl_s: i64,
        changes: &mut ChangeBatch,
    ) -> Result<Granted, Refusal> {
        if ttl_s > ETCD_LEASE_TTL_S_MAX {
            return Err(Refusal::LeaseTtlTooLarge);
        }
        if self.leases.get(wanted).is_some() {
            return Err(Refusal::LeaseExists);
        }
        self.check_quota(ETCD_LEASE_BYTES)?;
        let lease = match wanted {
            LeaseId(0) => self.leases.choose(at.ordinal, at.time_ms),
            wanted => wanted,
        };
        let ttl_s = ttl_s.max(i64::from(self.settings.lease_ttl_s_min)).max(1);
        let granted = at.ordinal;
        let is_new = self.leases.add(lease, Grant { ttl_s, granted });
        assert!(is_new, "a lease that exists was refused");
        changes.push_lease(LeaseChange::Granted { lease, granted, ttl_s });
        Ok(Granted { revision: self.revision, lease, ttl_s })
    }

    /// Removes the keys of a lease that was taken out, in their order and at one revision
    /// (`lessor.Revoke`).
    fn end_lease(&mut self, lease: LeaseId, taken: &Lease, changes: &mut ChangeBatch) {
        self.run(changes, |run| {
            for key in taken.keys() {
                let range = KeyRange { key, end: &[] };
                run.delete_range(&DeleteRange { range, prev_kv: false });
            }
        });
        changes.push_lease(LeaseChange::Ended(lease));
    }

    /// Runs a transaction that only reads, on the present state.
    ///
    /// # Errors
    /// A range is at a revision that is compacted, or above the store's.
    pub fn read_txn(&self, txn: &Txn<'_>) -> Result<TxnDone, Refusal> {
        let path = self.path_of(txn);
        self.check(&path)?;
        Ok(TxnDone { revision: self.revision, branch: self.read_branch(&path) })
    }

    fn read_branch(&self, path: &Path<'_>) -> Branch {
        let done = path.steps.iter().map(|step| match step {
            Step::Txn(path) => OpDone::Txn(self.read_branch(path)),
            Step::Range(range) => OpDone::Range(read(self, range, self.revision)),
            Step::Put(_) | Step::DeleteRange(_) => unreachable!("the transaction only reads"),
        });
        Branch { succeeded: path.succeeded, done: done.collect() }
    }

    /// Runs operations that were checked, and moves the revision if they changed anything.
    fn run<R>(
        &mut self,
        changes: &mut ChangeBatch,
        operations: impl FnOnce(&mut Run<'_>) -> R,
    ) -> R {
        let revision = self.revision + 1;
        let mut run = Run { store: self, changes, place: Place { revision, sub: 0 } };
        let done = operations(&mut run);
        if run.place.sub > 0 {
            self.revision = revision;
        }
        done
    }

    /// Judges the comparisons of a transaction, and those of nested ones on the path.
    fn path_of<'t>(&self, txn: &'t Txn<'t>) -> Path<'t> {
        let succeeded = txn.compares.iter().all(|compare| self.holds(compare));
        let ops = if succeeded { &txn.success } else { &txn.failure };
        let steps = ops.iter().map(|op| match op {
            Op::Range(range) => Step::Range(range),
            Op::Put(put) => Step::Put(put),
            Op::DeleteRange(delete) => Step::DeleteRange(delete),
            Op::Txn(txn) => Step::Txn(self.path_of(txn)),
        });
        Path { succeeded, steps: steps.collect() }
    }

    /// Whether a comparison holds for every key of its range. On a range without keys it is judged
    /// on zeros, and one of values does not hold (`txn.applyCompare`).
    fn holds(&self, compare: &Compare<'_>) -> bool {
        let mut events = self.index.range(compare.range, self.revision).peekable();
        if events.peek().is_none() {
            return holds_for(compare, None);
        }
        events.all(|event| holds_for(compare, Some(event)))
    }

    /// Checks each operation on the path, on the state before the transaction (`txn.checkTxn`).
    fn check(&self, path: &Path<'_>) -> Result<(), Refusal> {
        path.steps.iter().try_for_each(|step| match step {
            Step::Range(range) => match range.revision {
                0 => Ok(()),
                revision if revision > self.revision => Err(Refusal::FutureRevision),
                revision if revision < self.compacted => Err(Refusal::Compacted),
                _ => Ok(()),
            },
            Step::Put(put) => {
                self.check_put(put)?;
                self.check_lease(put)
            }
            Step::DeleteRange(_) => Ok(()),
            Step::Txn(path) => self.check(path),
        })
    }

    /// Refuses puts that would make the store larger than its quota. Removals and compactions are
    /// never refused, and make room (`storage.BackendQuota.Available`).
    fn check_quota(&self, cost: u64) -> Result<(), Refusal> {
        match cost > 0 && self.bytes() + cost >= self.settings.quota_bytes {
            true => Err(Refusal::NoSpace),
            false => Ok(()),
        }
    }

    /// A put that names a lease needs one that exists.
    fn check_lease(&self, put: &Put<'_>) -> Result<(), Refusal> {
        match put.lease == 0 || self.leases.get(LeaseId(put.lease)).is_some() {
            true => Ok(()),
            false => Err(Refusal::LeaseNotFound),
        }
    }

    /// A put that keeps the value or the lease needs the key before the transaction: one that the
    /// transaction makes does not count.
    fn check_put(&self, put: &Put<'_>) -> Result<(), Refusal> {
        let is_there = || self.index.newest(put.key).is_some();
        match is_kept(put) && !is_there() {
            true => Err(Refusal::KeyNotFound),
            false => Ok(()),
        }
    }
}

/// Bytes that a put counts against the quota beside its key and its value (`storage.kvOverhead`).
const PUT_COST_BYTES: u64 = 256;

/// What a put counts against the quota before it is run (`storage.costPut`).
fn cost_of_put(put: &Put<'_>) -> u64 {
    PUT_COST_BYTES + (put.key.len() + put.value.len()) as u64
}

/// The larger cost of the two branches (`storage.costTxn`).
fn cost_of_txn(txn: &Txn<'_>) -> u64 {
    let cost = |ops: &[Op<'_>]| ops.iter().map(cost_of_op).sum::<u64>();
    cost(&txn.success).max(cost(&txn.failure))
}

fn cost_of_op(op: &Op<'_>) -> u64 {
    match op {
        Op::Put(put) => cost_of_put(put),
        Op::Txn(txn) => cost_of_txn(txn),
        Op::Range(_) | Op::DeleteRange(_) => 0,
    }
}

/// Whether a put keeps the value or the lease.
fn is_kept(put: &Put<'_>) -> bool {
    put.ignore_value || put.ignore_lease
}

/// Refuses a put that keeps the value or the lease behind a delete of its key in the same
/// transaction. etcd has no such check, and stops there; so this one comes last.
fn check_kept(path: &Path<'_>) -> Result<(), Refusal> {
    let mut kept = BTreeSet::new();
    collect_kept(path, &mut kept);
    if kept.is_empty() {
        return Ok(());
    }
    check_present(path, &kept, &mut kept.clone())
}

/// Adds the keys of the puts that keep the value or the lease.
fn collect_kept<'t>(path: &Path<'t>, kept: &mut BTreeSet<&'t [u8]>) {
    for step in &path.steps {
        match step {
            Step::Put(put) if is_kept(put) => drop(kept.insert(put.key)),
            Step::Txn(path) => collect_kept(path, kept),
            Step::Put(_) | Step::Range(_) | Step::DeleteRange(_) => {}
        }
    }
}

/// Runs the writes of a path on the keys in `kept`, of which `present` exist. A put adds one key at
/// most to those that deletes remove, so the cost does not grow with deletes times puts.
fn check_present<'t>(
    path: &Path<'t>,
    kept: &BTreeSet<&'t [u8]>,
    present: &mut BTreeSet<&'t [u8]>,
) -> Result<(), Refusal> {
    for step in &path.steps {
        match step {
            Step::Range(_) => {}
            Step::Put(put) if is_kept(put) && !present.contains(put.key) => {
                return Err(Refusal::KeyNotFound);
            }
            Step::Put(put) => {
                if kept.contains(put.key) {
                    present.insert(put.key);
                }
            }
            Step::DeleteRange(delete) => {
                let from = present.range(delete.range.key..);
                let deleted = from.take_while(|key| delete.range.contains(key)).copied();
                for key in deleted.collect::<Vec<_>>() {
                    present.remove(key);
                }
            }
            Step::Txn(path) => check_present(path, kept, present)?,
        }
    }
    Ok(())
}

/// A transaction whose comparisons were judged: the branch to run.
struct Path<'t> {
    succeeded: bool,
    steps: Vec<Step<'t>>,
}

enum Step<'t> {
    Range(&'t RangeOp<'t>),
    Put(&'t Put<'t>),
    DeleteRange(&'t DeleteRange<'t>),
    Txn(Path<'t>),
}

/// A transaction that is running.
struct Run<'s> {
    store: &'s mut Store,
    changes: &'s mut ChangeBatch,
    /// The place of the next event.
    place: Place,
}

impl Run<'_> {
    /// The revision that reads see: that of the changes, once there are any.
    fn current(&self) -> i64 {
        if self.place.sub > 0 { self.place.revision } else { self.store.revision }
    }

    fn next_place(&mut self) -> Place {
        let place = self.place;
        self.place.sub += 1;
        place
    }

    fn branch(&mut self, path: &Path<'_>) -> Branch {
        let mut done = Vec::with_capacity(path.steps.len());
        for step in &path.steps {
            done.push(match step {
                Step::Range(range) => OpDone::Range(read(self.store, range, self.current())),
                Step::Put(put) => OpDone::Put(self.put(put)),
                Step::DeleteRange(delete) => OpDone::DeleteRange(self.delete_range(delete)),
                Step::Txn(path) => OpDone::Txn(self.branch(path)),
            });
        }
        Branch { succeeded: path.succeeded, done }
    }

    fn put(&mut self, put: &Put<'_>) -> PutDone {
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
        let place = self.next_place();
        self.store.put(place, (put.key, value), lease, self.changes);
        let prev = if put.prev_kv { before } else { None };
        PutDone { revision: place.revision, prev }
    }

    fn delete_range(&mut self, delete: &DeleteRange<'_>) -> RangeDeleted {
        let mut prev = Vec::new();
        let Run { store, changes, place } = self;
        let count = store.delete_range(*place, delete.range, changes, |before| {
            if delete.prev_kv {
                prev.push(before.clone());
            }
        });
        self.place.sub += count;
        RangeDeleted { revision: self.current(), count: u64::from(count), prev }
    }
}

/// Runs a read whose revision was checked. Only a revision below 0 passes the check and is not the
/// present one where nothing was compacted; it means the present one.
fn read(store: &Store, range: &RangeOp<'_>, current: i64) -> Found {
    store.range_from(range, current).expect("the revision was checked before the first change")
}

fn holds_for(compare: &Compare<'_>, event: Option<&Event>) -> bool {
    let number = |operand: i64, of: fn(&Event) -> i64| event.map_or(0, of).cmp(&operand);
    let ordering = match compare.target {
        CompareTarget::Version(operand) => number(operand, |event| event.numbers().version),
        CompareTarget::Create(operand) => number(operand, |event| event.numbers().create_revision),
        CompareTarget::Mod(operand) => number(operand, Event::revision),
        CompareTarget::Lease(operand) => number(operand, |event| event.numbers().lease),
        CompareTarget::Value(operand) => match event {
            Some(event) => event.value().cmp(operand),
            None => return false,
        },
    };
    match compare.relation {
        Relation::Equal => ordering == Ordering::Equal,
        Relation::Greater => ordering == Ordering::Greater,
        Relation::Less => ordering == Ordering::Less,
        Relation::NotEqual => ordering != Ordering::Equal,
    }
}
