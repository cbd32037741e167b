//! The model of etcd's store, as plain as possible: for each key, the list of all its changes.
//!
//! It was written from the source of etcd 3.6.16 (`server/etcdserver/txn/txn.go` for what a call
//! does and the order of its checks, `server/storage/mvcc` for revisions), and shares nothing with
//! the server under test.
//!
//! - A call that changes keys makes exactly one revision, however many changes it makes.
//! - A compaction only raises the revision below which reads are refused, since clients see nothing
//!   else of it. So the model can answer a call as of any earlier [`View`], and a judge need not
//!   keep old models.
//! - Keys that sort equally stay in the order of keys. etcd's sort guarantees that for up to 12
//!   keys only.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crate::etcd::form::check;
use crate::etcd::op::{
    Answer, Compact, Compare, CompareResult, CompareTarget, DeleteAnswer, DeleteRange, Error,
    KeyValue, LeaseOp, Op, Put, PutAnswer, Range, RangeAnswer, Response, SortOrder, SortTarget,
    Txn, TxnAnswer, TxnOp,
};
use crate::etcd::quota::{Counted, Quota, cost_of};

/// The revision of a fresh store.
const FIRST_REVISION: i64 = 1;
/// The compacted revision of a fresh store (`mvcc.NewStore`), so that even revision 0 can be
/// compacted once.
const NOT_COMPACTED: i64 = -1;
/// The shortest time to live of a lease, in s, at etcd's election timeout of 1 s.
pub const LEASE_TTL_S_MIN: i64 = 2;
/// The longest time to live of a lease, in s (`lease.MaxLeaseTTL`).
const LEASE_TTL_S_MAX: i64 = 9_000_000_000;

/// The parts of the store's state that every answer depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct View {
    /// The newest revision.
    pub revision: i64,
    /// The compacted revision: reads below it are refused.
    pub compacted: i64,
}

/// A change of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Change {
    revision: i64,
    /// How many changes, of any keys, the same call made before it.
    sub: usize,
    /// The pair that was put; `None` if the key was deleted.
    pair: Option<KeyValue>,
}

/// A change of a key, as a watch shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyChange {
    /// The revision of the change.
    pub revision: i64,
    /// How many changes of the same revision come before it.
    pub sub: usize,
    /// The key.
    pub key: Vec<u8>,
    /// The pair that was put; `None` if the key was deleted.
    pub pair: Option<KeyValue>,
    /// The pair before the change; `None` if the key did not exist, or if this change creates it
    /// (`v3rpc.IsCreateEvent`).
    pub before: Option<KeyValue>,
}

/// The effect of a call on keys, as far as reads show it: the last change of each key. Empty if the
/// call only deletes what it has put. Equal effects cannot be told apart by reads; only watches
/// show the order of changes.
#[derive(Clone, Debug)]
pub struct Effect(BTreeMap<Vec<u8>, Change>);

impl PartialEq for Effect {
    fn eq(&self, other: &Effect) -> bool {
        let is_same = |((key, change), (other_key, other)): (_, _)| {
            let (change, other): (&Change, &Change) = (change, other);
            key == other_key && (change.revision, &change.pair) == (other.revision, &other.pair)
        };
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(is_same)
    }
}

impl Effect {
    /// Whether an equal effect makes its changes in the same order.
    pub fn has_order_of(&self, other: &Effect) -> bool {
        self.0.values().map(|change| change.sub).eq(other.0.values().map(|change| change.sub))
    }
}

/// The model of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    view: View,
    keys: BTreeMap<Vec<u8>, Vec<Change>>,
    leases: BTreeSet<i64>,
    no_space: bool,
    quota: Quota,
}

impl Default for Model {
    fn default() -> Model {
        Model::new()
    }
}

impl Model {
    /// A fresh store, at revision 1.
    pub fn new() -> Model {
        Model {
            view: View { revision: FIRST_REVISION, compacted: NOT_COMPACTED },
            keys: BTreeMap::new(),
            leases: BTreeSet::new(),
            no_space: false,
            quota: Quota::default(),
        }
    }

    /// The current state.
    pub fn view(&self) -> View {
        self.view
    }

    /// Does a call with all its checks, including those before the log. A refused call changes
    /// nothing.
    ///
    /// # Errors
    /// The error of etcd's answer.
    pub fn apply(&mut self, op: &Op) -> Answer {
        self.apply_by(op, 0)
    }

    /// Like [`Model::apply`], for a call of a client of this member: a refusal by the quota raises
    /// an alarm for the member.
    ///
    /// # Errors
    /// Like [`Model::apply`].
    pub fn apply_by(&mut self, op: &Op, member: u64) -> Answer {
        check(op)?;
        let cost = cost_of(op);
        if (self.no_space && op.has_put()) || (self.quota.is_alarmed() && cost > 0) {
            return Err(Error::NoSpace);
        }
        if let Op::Compact(compact) = op {
            return self.compact(*compact);
        }
        if let Op::Lease(op) = op {
            return self.change_lease(*op, member);
        }
        let mut turn = Turn::new(self, self.view);
        let response = turn.run(op)?;
        let changes = turn.changes;
        self.quota.check(cost, self.leases.len(), member)?;
        self.commit(changes);
        Ok(response)
    }

    /// The effect that a call would have on keys now; `None` if it would change no key.
    pub fn effect(&self, op: &Op) -> Option<Effect> {
        check(op).ok()?;
        let mut turn = Turn::new(self, self.view);
        turn.run(op).ok()?;
        self.effect_of(turn)
    }

    /// The effect that the end of a lease would have on keys now; `None` if it has no keys.
    pub fn effect_of_end(&self, lease: i64) -> Option<Effect> {
        let mut turn = Turn::new(self, self.view);
        turn.end(lease);
        self.effect_of(turn)
    }

    fn effect_of(&self, turn: Turn<'_>) -> Option<Effect> {
        if turn.changes.is_empty() {
            return None;
        }
        let mut changes = BTreeMap::from_iter(turn.changes);
        let before = Turn::new(self, self.view);
        let exists = |key: &[u8]| before.find(key, self.view.revision).is_some();
        changes.retain(|key, change| change.pair.is_some() || exists(key));
        Some(Effect(changes))
    }

    /// Makes the next revision with this effect, which was computed on the current state.
    pub fn make(&mut self, effect: Effect) {
        self.view.revision += 1;
        for (key, change) in effect.0 {
            assert!(change.revision == self.view.revision, "the effect is one of now");
            self.keys.entry(key).or_default().push(change);
        }
    }

    /// Removes the newest revision, which [`Model::make`] made.
    pub fn unmake(&mut self) {
        let revision = self.view.revision;
        for line in self.keys.values_mut() {
            line.pop_if(|change| change.revision == revision);
        }
        self.view.revision -= 1;
    }

    /// The answer that a call would get as of an earlier view, or now. Changes nothing. Leases and
    /// space are always the current ones.
    ///
    /// # Errors
    /// The error of etcd's answer.
    pub fn answer_at(&self, op: &Op, view: View) -> Answer {
        assert!(view.revision <= self.view.revision, "the view is one that existed");
        check(op)?;
        Turn::new(self, view).run(op)
    }

    /// Grants or revokes a lease (`lease.lessor`).
    fn change_lease(&mut self, op: LeaseOp, member: u64) -> Answer {
        match op {
            LeaseOp::Grant { ttl_s, .. } if ttl_s > LEASE_TTL_S_MAX => Err(Error::LeaseTtlTooLarge),
            LeaseOp::Grant { lease, .. } if self.has_lease(lease) => Err(Error::LeaseExists),
            LeaseOp::Grant { lease, ttl_s } => {
                self.quota.check(cost_of(&Op::Lease(op)), self.leases.len(), member)?;
                self.grant(lease);
                let (revision, ttl_s) = (self.view.revision, ttl_s.max(LEASE_TTL_S_MIN));
                Ok(Response::Granted { revision, lease, ttl_s })
            }
            LeaseOp::Revoke { lease } if self.has_lease(lease) => {
                self.revoke(lease);
                Ok(Response::Revoked { revision: self.view.revision })
            }
            LeaseOp::Revoke { .. } => Err(Error::LeaseNotFound),
            LeaseOp::KeepAlive { .. } | LeaseOp::TimeToLive { .. } => {
                unreachable!("a question is not in the log")
            }
        }
    }

    /// Whether a lease exists.
    pub fn has_lease(&self, lease: i64) -> bool {
        self.leases.contains(&lease)
    }

    /// The number of existing leases.
    pub fn lease_count(&self) -> usize {
        self.leases.len()
    }

    /// The changes to keys of a range at revisions `from` to `until`, both included, in order.
    /// Changes of one call are in the order in which the call made them.
    pub fn changes(&self, key: &[u8], range_end: &[u8], from: i64, until: i64) -> Vec<KeyChange> {
        let is_inside = |candidate: &[u8]| match range_end {
            [] => candidate == key,
            [0] => candidate >= key,
            end => candidate >= key && candidate < end,
        };
        let mut found = Vec::new();
        for (key, line) in self.keys.iter().filter(|(key, _)| is_inside(key)) {
            let first = line.partition_point(|change| change.revision < from);
            for change in line[first..].iter().take_while(|change| change.revision <= until) {
                let Change { revision, sub, pair } = change.clone();
                let older = line.iter().rev().find(|it| it.revision < revision);
                let is_new = |pair: &KeyValue| pair.create_revision == revision;
                let older = older.filter(|_| !pair.as_ref().is_some_and(is_new));
                let before = older.and_then(|change| change.pair.clone());
                found.push(KeyChange { revision, sub, key: key.clone(), pair, before });
            }
        }
        found.sort_by_key(|change| (change.revision, change.sub));
        found
    }

    /// Creates a lease.
    pub fn grant(&mut self, lease: i64) {
        self.leases.insert(lease);
    }

    /// Ends a lease: deletes all its keys at one revision.
    pub fn revoke(&mut self, lease: i64) {
        self.leases.remove(&lease);
        let mut turn = Turn::new(self, self.view);
        turn.end(lease);
        let changes = turn.changes;
        self.commit(changes);
    }

    /// Sets whether puts are refused for want of space, whatever the quota.
    pub fn set_no_space(&mut self, no_space: bool) {
        self.no_space = no_space;
    }

    fn compact(&mut self, compact: Compact) -> Answer {
        if compact.revision <= self.view.compacted {
            return Err(Error::Compacted);
        }
        if compact.revision > self.view.revision {
            return Err(Error::FutureRevision);
        }
        self.view.compacted = compact.revision;
        self.quota.versions = self.count_versions();
        Ok(Response::Compact { revision: self.view.revision })
    }

    /// Counts what can still be read: for each key the newest change up to the compacted revision,
    /// and all later ones. Deletes at the compacted revision itself count, too.
    fn count_versions(&self) -> Counted {
        let compacted = self.view.compacted;
        let mut counted = Counted::default();
        for (key, line) in &self.keys {
            let later = line.partition_point(|change| change.revision <= compacted);
            for (at, change) in line.iter().enumerate() {
                let stays = match change.pair {
                    Some(_) => at + 1 >= later,
                    None => change.revision >= compacted,
                };
                if stays {
                    let place = (change.revision, change.sub);
                    counted.add(key, place, change.pair.as_ref());
                }
            }
        }
        counted
    }

    /// Bytes that count against the quota. Changes made by [`Model::make`] are not counted.
    pub fn bytes(&self) -> u64 {
        self.quota.bytes(self.leases.len())
    }

    /// Sets the quota.
    pub fn set_quota(&mut self, bytes: u64) {
        self.quota.quota_bytes = bytes;
    }

    /// Limits the memory of the model's store from now on, to a multiple of the quota.
    pub fn bound(&mut self) {
        self.quota.bound(self.leases.len());
    }

    /// Whether an alarm for want of space is raised.
    pub fn is_alarmed(&self) -> bool {
        self.quota.is_alarmed()
    }

    /// Ends a member's alarm. Returns whether there was one.
    pub fn disarm(&mut self, member: u64) -> bool {
        self.quota.disarm(member)
    }

    fn commit(&mut self, changes: Vec<(Vec<u8>, Change)>) {
        self.view.revision += i64::from(!changes.is_empty());
        for (key, change) in changes {
            assert!(change.revision == self.view.revision, "a call makes one revision");
            let place = (change.revision, change.sub);
            self.quota.versions.add(&key, place, change.pair.as_ref());
            self.keys.entry(key).or_default().push(change);
        }
    }
}

/// A call in progress, with the store before the call and the changes of the call so far.
struct Turn<'m> {
    model: &'m Model,
    before: View,
    changes: Vec<(Vec<u8>, Change)>,
}

/// The branch of a transaction that is taken.
struct Path<'t> {
    succeeded: bool,
    steps: Vec<Step<'t>>,
}

/// One operation of that branch.
enum Step<'t> {
    Range(&'t Range),
    Put(&'t Put),
    DeleteRange(&'t DeleteRange),
    Txn(Path<'t>),
}

impl<'m> Turn<'m> {
    fn new(model: &'m Model, before: View) -> Turn<'m> {
        Turn { model, before, changes: Vec::new() }
    }

    fn run(&mut self, op: &Op) -> Answer {
        match op {
            Op::Range(range) => self.range(range).map(Response::Range),
            Op::Put(put) => {
                // In a transaction, these two checks come in the other order.
                self.check_lease(put)?;
                self.put(put).map(Response::Put)
            }
            Op::DeleteRange(delete) => Ok(Response::DeleteRange(self.delete(delete))),
            Op::Txn(txn) => self.txn(txn).map(Response::Txn),
            Op::Compact(_) => Ok(Response::Compact { revision: self.now() }),
            Op::Lease(_) => unreachable!("leases do not depend on the view"),
        }
    }

    // Reading.

    /// The newest revision, including this call's own.
    fn now(&self) -> i64 {
        self.before.revision + i64::from(!self.changes.is_empty())
    }

    fn find(&self, key: &[u8], at: i64) -> Option<KeyValue> {
        let own = self.changes.iter().rev().find(|(changed, _)| changed == key);
        if let Some((_, change)) = own.filter(|(_, change)| change.revision <= at) {
            return change.pair.clone();
        }
        let line = self.model.keys.get(key)?;
        line.iter().rev().find(|change| change.revision <= at)?.pair.clone()
    }

    fn scan(&self, key: &[u8], range_end: &[u8], at: i64) -> Vec<KeyValue> {
        let is_inside = |candidate: &[u8]| match range_end {
            [0] => true,
            end => candidate < end,
        };
        if range_end.is_empty() {
            return self.find(key, at).into_iter().collect();
        }
        let from = (Bound::Included(key), Bound::Unbounded);
        let stored = self.model.keys.range::<[u8], _>(from).map(|(key, _)| key.as_slice());
        let mut keys: BTreeSet<&[u8]> = stored.take_while(|it| is_inside(it)).collect();
        let own = self.changes.iter().map(|(changed, _)| changed.as_slice());
        keys.extend(own.filter(|it| *it >= key && is_inside(it)));
        keys.into_iter().filter_map(|key| self.find(key, at)).collect()
    }

    fn range(&self, range: &Range) -> Result<RangeAnswer, Error> {
        let now = self.now();
        if range.revision > now {
            return Err(Error::FutureRevision);
        }
        let at = if range.revision <= 0 { now } else { range.revision };
        if at < self.before.compacted {
            return Err(Error::Compacted);
        }
        let mut kvs = self.scan(&range.key, &range.range_end, at);
        let count = kvs.len() as i64;
        if range.count_only {
            kvs.clear();
        }
        if range.limit > 0 && !needs_all(range) {
            kvs.truncate(range.limit.saturating_add(1) as usize);
        }
        kvs.retain(|pair| passes_filters(range, pair));
        sort(range, &mut kvs);
        let more = range.limit > 0 && kvs.len() as i64 > range.limit;
        if more {
            kvs.truncate(range.limit as usize);
        }
        if range.keys_only {
            kvs.iter_mut().for_each(|pair| pair.value.clear());
        }
        Ok(RangeAnswer { revision: now, kvs, more, count })
    }

    // Changing.

    fn change(&mut self, key: Vec<u8>, pair: Option<KeyValue>) {
        let (revision, sub) = (self.before.revision + 1, self.changes.len());
        self.changes.push((key, Change { revision, sub, pair }));
    }

    /// Deletes all keys of a lease.
    fn end(&mut self, lease: i64) {
        let all = self.scan(&[0], &[0], self.before.revision);
        for pair in all.into_iter().filter(|pair| pair.lease == lease) {
            self.change(pair.key, None);
        }
    }

    fn check_lease(&self, put: &Put) -> Result<(), Error> {
        match put.lease == 0 || self.model.leases.contains(&put.lease) {
            true => Ok(()),
            false => Err(Error::LeaseNotFound),
        }
    }

    fn check_kept(&self, put: &Put) -> Result<(), Error> {
        let keeps = put.ignore_value || put.ignore_lease;
        match keeps && self.find(&put.key, self.now()).is_none() {
            true => Err(Error::KeyNotFound),
            false => Ok(()),
        }
    }

    fn put(&mut self, put: &Put) -> Result<PutAnswer, Error> {
        self.check_kept(put)?;
        let revision = self.before.revision + 1;
        let old = self.find(&put.key, self.now());
        let mut pair = KeyValue {
            key: put.key.clone(),
            value: put.value.clone(),
            create_revision: revision,
            mod_revision: revision,
            version: 1,
            lease: put.lease,
        };
        if let Some(old) = &old {
            pair.create_revision = old.create_revision;
            pair.version = old.version + 1;
            if put.ignore_value {
                pair.value.clone_from(&old.value);
            }
            if put.ignore_lease {
                pair.lease = old.lease;
            }
        }
        self.change(put.key.clone(), Some(pair));
        Ok(PutAnswer { revision, prev_kv: old.filter(|_| put.prev_kv) })
    }

    fn delete(&mut self, delete: &DeleteRange) -> DeleteAnswer {
        let found = self.scan(&delete.key, &delete.range_end, self.now());
        for pair in &found {
            self.change(pair.key.clone(), None);
        }
        let deleted = found.len() as i64;
        let prev_kvs = if delete.prev_kv { found } else { Vec::new() };
        DeleteAnswer { revision: self.now(), deleted, prev_kvs }
    }

    // Transactions: first the branches are chosen, then their operations are checked, then done.

    fn txn(&mut self, txn: &Txn) -> Result<TxnAnswer, Error> {
        let path = self.resolve(txn);
        self.check_path(&path)?;
        let responses = self.walk(&path)?;
        Ok(TxnAnswer { revision: self.now(), succeeded: path.succeeded, responses })
    }

    /// Chooses the branches. All conditions, also of nested transactions, are evaluated on the
    /// state before the transaction.
    fn resolve<'t>(&self, txn: &'t Txn) -> Path<'t> {
        let succeeded = txn.compares.iter().all(|compare| self.holds(compare));
        let taken = if succeeded { &txn.success } else { &txn.failure };
        let steps = taken
            .iter()
            .filter_map(|op| match op {
                TxnOp::Range(range) => Some(Step::Range(range)),
                TxnOp::Put(put) => Some(Step::Put(put)),
                TxnOp::DeleteRange(delete) => Some(Step::DeleteRange(delete)),
                TxnOp::Txn(txn) => Some(Step::Txn(self.resolve(txn))),
                TxnOp::Empty => None,
            })
            .collect();
        Path { succeeded, steps }
    }

    /// Evaluates a condition. If its range has no keys, it is evaluated on a pair whose numbers are
    /// all 0, and a condition on a value fails.
    fn holds(&self, compare: &Compare) -> bool {
        let found = self.scan(&compare.key, &compare.range_end, self.before.revision);
        if found.is_empty() {
            let is_value = matches!(compare.target, CompareTarget::Value(_));
            return !is_value && holds_for(compare, &KeyValue::default());
        }
        found.iter().all(|pair| holds_for(compare, pair))
    }

    /// Checks the operations of the chosen branches on the state before the transaction.
    fn check_path(&self, path: &Path<'_>) -> Result<(), Error> {
        path.steps.iter().try_for_each(|step| match step {
            Step::Range(range) => self.check_revision(range),
            Step::Put(put) => {
                self.check_kept(put)?;
                self.check_lease(put)
            }
            Step::DeleteRange(_) => Ok(()),
            Step::Txn(path) => self.check_path(path),
        })
    }

    /// Unlike outside a transaction, a negative revision here is an old one and not the newest
    /// (seen on 3.6.16).
    fn check_revision(&self, range: &Range) -> Result<(), Error> {
        match range.revision {
            0 => Ok(()),
            revision if revision > self.before.revision => Err(Error::FutureRevision),
            revision if revision < self.before.compacted => Err(Error::Compacted),
            _ => Ok(()),
        }
    }

    /// Does the operations of the chosen branches. One can fail only if it keeps a part of a key
    /// that a delete with an open end has just deleted. etcd 3.6.16 crashes then; the model refuses
    /// the whole transaction.
    fn walk(&mut self, path: &Path<'_>) -> Result<Vec<Response>, Error> {
        let mut responses = Vec::new();
        for step in &path.steps {
            responses.push(match step {
                Step::Range(range) => Response::Range(self.range(range)?),
                Step::Put(put) => Response::Put(self.put(put)?),
                Step::DeleteRange(delete) => Response::DeleteRange(self.delete(delete)),
                Step::Txn(path) => {
                    let (succeeded, responses) = (path.succeeded, self.walk(path)?);
                    Response::Txn(TxnAnswer { revision: 0, succeeded, responses })
                }
            });
        }
        Ok(responses)
    }
}

fn holds_for(compare: &Compare, pair: &KeyValue) -> bool {
    let order = match &compare.target {
        CompareTarget::Version(version) => pair.version.cmp(version),
        CompareTarget::Create(revision) => pair.create_revision.cmp(revision),
        CompareTarget::Mod(revision) => pair.mod_revision.cmp(revision),
        CompareTarget::Value(value) => pair.value.cmp(value),
        CompareTarget::Lease(lease) => pair.lease.cmp(lease),
    };
    match compare.result {
        CompareResult::Equal => order == Ordering::Equal,
        CompareResult::Greater => order == Ordering::Greater,
        CompareResult::Less => order == Ordering::Less,
        CompareResult::NotEqual => order != Ordering::Equal,
    }
}

/// Whether a range with a limit looks at all its keys. Without a sort order and filters, etcd takes
/// the first keys plus one more and sorts only those, whatever the target (seen on 3.6.16).
fn needs_all(range: &Range) -> bool {
    let filters = [
        range.min_mod_revision,
        range.max_mod_revision,
        range.min_create_revision,
        range.max_create_revision,
    ];
    range.sort_order != SortOrder::None || filters.iter().any(|filter| *filter != 0)
}

fn passes_filters(range: &Range, pair: &KeyValue) -> bool {
    let is_within = |min: i64, max: i64, revision: i64| {
        (min == 0 || revision >= min) && (max == 0 || revision <= max)
    };
    is_within(range.min_mod_revision, range.max_mod_revision, pair.mod_revision)
        && is_within(range.min_create_revision, range.max_create_revision, pair.create_revision)
}

fn sort(range: &Range, kvs: &mut [KeyValue]) {
    let compare = |one: &KeyValue, two: &KeyValue| match range.sort_target {
        SortTarget::Key => one.key.cmp(&two.key),
        SortTarget::Version => one.version.cmp(&two.version),
        SortTarget::Create => one.create_revision.cmp(&two.create_revision),
        SortTarget::Mod => one.mod_revision.cmp(&two.mod_revision),
        SortTarget::Value => one.value.cmp(&two.value),
    };
    match range.sort_order {
        SortOrder::None | SortOrder::Ascend => kvs.sort_by(compare),
        SortOrder::Descend => kvs.sort_by(|one, two| compare(two, one)),
    }
}

#[cfg(test)]
mod tests;
