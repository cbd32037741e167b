//! Running commands on the store.
//!
//! A transaction first finds its path: all comparisons, those of nested transactions on the path
//! too, are judged on the state before it. Then each operation on the path is checked. Then they
//! run in order, each seeing the ones before, all at one revision. So nothing is refused after the
//! first change. etcd 3.6 `txn.Txn`.

use core::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::change::ChangeBatch;
use crate::etcd::alarm::{Alarm, AlarmKind};
use crate::etcd::auth::{AuthDone, AuthInfo};
use crate::etcd::change::LeaseChange;
use crate::etcd::command::{Command, Compare, CompareTarget, Op, Put, Relation, Txn};
use crate::etcd::event::Event;
use crate::etcd::lease::{Grant, Lease};
use crate::etcd::reply::{Branch, Granted, OpDone, Outcome, Refusal, TxnDone};
use crate::etcd::run::{Halt, Path, PathOp, Paused, PausedAt, Step, Stop, read};
use crate::etcd::store::Store;
use crate::ids::{LeaseId, MemberId, Ordinal};
use crate::limits::{ETCD_LEASE_BYTES, ETCD_LEASE_TTL_S_MAX};

/// The moment at which a command is applied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At<'a> {
    pub(crate) ordinal: Ordinal,
    /// The leader's stamp.
    pub(crate) time_ms: i64,
    /// The user that asks for it.
    pub(crate) who: Option<AuthInfo<'a>>,
    /// The member that handed it over.
    pub(crate) member: MemberId,
}

impl Store {
    /// Runs a command, or goes on with the one that is paused. Looks at up to `keys_max` keys, from
    /// 1. None if more are left: then the same command comes again, before any other.
    ///
    /// # Errors
    /// The command is refused, and nothing has changed but that its refusal may raise an alarm.
    pub(crate) fn apply_step(
        &mut self,
        at: At<'_>,
        command: &Command<'_>,
        keys_max: u64,
        changes: &mut ChangeBatch,
    ) -> Option<Result<Outcome, Refusal>> {
        let paused = self.paused.take().map(|paused| *paused);
        let step = Step { keys_left: keys_max, changes };
        match self.run_command(at, command, paused, step) {
            Ok(outcome) => Some(Ok(outcome)),
            Err(Stop::Refused(refusal)) => Some(Err(refusal)),
            Err(Stop::Paused) => None,
        }
    }

    fn run_command(
        &mut self,
        at: At<'_>,
        command: &Command<'_>,
        paused: Option<Paused>,
        mut step: Step<'_>,
    ) -> Result<Outcome, Stop> {
        self.user_tag = self.auth.user_tag(at.who);
        if paused.is_none() {
            self.check_alarms(command)?;
            self.require_for(at.who, command)?;
        }
        match command {
            Command::Put(put) => {
                // A lone put looks for its lease first (`txn.Put`), one in a transaction last.
                self.check_lease(put)?;
                self.check_put(put)?;
                self.check_quota(at, cost_of_put(put))?;
                let done = self.run(&mut step, None, |run| run.put(put).ok_or(()));
                done.map(Outcome::Put).map_err(|_| unreachable!("a step may do one put"))
            }
            Command::DeleteRange(delete) => {
                let halt = paused.map(|paused| paused.halt);
                let done = self.run(&mut step, halt, |run| run.delete_range(delete).ok_or(()));
                done.map(Outcome::DeleteRange)
                    .map_err(|((), halt)| self.pause(PausedAt::DeleteRange, halt))
            }
            Command::Txn(txn) => self.run_txn(at, txn, paused, &mut step),
            Command::Compact { revision } => {
                self.compact(*revision)?;
                Ok(Outcome::Compacted { revision: self.revision })
            }
            Command::Configure(settings) => {
                self.settings = *settings;
                Ok(Outcome::Configured)
            }
            Command::Grant { lease, ttl_s } => {
                Ok(Outcome::Granted(self.grant(at, *lease, *ttl_s, step.changes)?))
            }
            Command::Revoke { lease } => {
                let (halt, rest) = match paused {
                    Some(Paused { at: PausedAt::Lease(_, rest), halt }) => (Some(halt), rest),
                    _ => (None, self.take_lease(*lease).ok_or(Refusal::LeaseNotFound)?),
                };
                self.end_lease((0, *lease), rest, halt, &mut step)?;
                Ok(Outcome::Revoked { revision: self.revision })
            }
            Command::Expire { leases } => self.expire(leases, paused, &mut step),
            Command::Auth(command) => {
                // A running walk keeps what it began with.
                let revision = self.revision;
                Ok(match Arc::make_mut(&mut self.auth).apply(at.ordinal, command)? {
                    AuthDone::Changed => Outcome::AuthChanged { revision },
                    AuthDone::Authenticated(token) => Outcome::Authenticated { revision, token },
                })
            }
            Command::RaiseAlarm(alarm) => {
                self.alarms.raise(*alarm)?;
                Ok(Outcome::Alarmed { revision: self.revision, alarm: Some(*alarm) })
            }
            Command::DisarmAlarm(alarm) => {
                let alarm = self.alarms.disarm(*alarm).then_some(*alarm);
                Ok(Outcome::Alarmed { revision: self.revision, alarm })
            }
        }
    }

    fn run_txn(
        &mut self,
        at: At<'_>,
        txn: &Txn<'_>,
        paused: Option<Paused>,
        step: &mut Step<'_>,
    ) -> Result<Outcome, Stop> {
        let (path, done, halt) = match paused {
            Some(Paused { at: PausedAt::Txn { judged, done }, halt }) => {
                let mut judged = judged.into_iter();
                let path = Path::of(txn, &mut |_| judged.next().expect("each was judged"));
                (path, done, Some(halt))
            }
            _ => {
                let path = self.path_of(txn);
                self.check(&path)?;
                check_kept(&path)?;
                self.check_quota(at, cost_of_txn(txn))?;
                (path, Vec::new(), None)
            }
        };
        match self.run(step, halt, |run| run.branch(&path, done)) {
            Ok(branch) => Ok(Outcome::Txn(TxnDone { revision: self.revision, branch })),
            Err((Branch { done, .. }, halt)) => {
                let mut judged = Vec::new();
                path.judged(&mut judged);
                Err(self.pause(PausedAt::Txn { judged, done }, halt))
            }
        }
    }

    fn expire(
        &mut self,
        leases: &[(LeaseId, Ordinal)],
        paused: Option<Paused>,
        step: &mut Step<'_>,
    ) -> Result<Outcome, Stop> {
        let mut first = 0;
        if let Some(Paused { at: PausedAt::Lease(number, rest), halt }) = paused {
            self.end_lease((number, leases[number].0), rest, Some(halt), step)?;
            first = number + 1;
        }
        for (number, (lease, granted)) in leases.iter().enumerate().skip(first) {
            let found = self.leases.get(*lease).map(Lease::grant);
            if found.is_some_and(|grant| grant.granted == *granted)
                && let Some(taken) = self.take_lease(*lease)
            {
                self.end_lease((number, *lease), taken, None, step)?;
            }
        }
        Ok(Outcome::Expired)
    }

    /// Grants a lease. The order of the checks is etcd's (`lessor.Grant`).
    fn grant(
        &mut self,
        at: At<'_>,
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
        self.check_quota(at, ETCD_LEASE_BYTES)?;
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
    /// (`lessor.Revoke`). The number is that of the lease in the list of the command.
    fn end_lease(
        &mut self,
        (number, lease): (usize, LeaseId),
        rest: Lease,
        halt: Option<Halt>,
        step: &mut Step<'_>,
    ) -> Result<(), Stop> {
        match self.run(step, halt, |run| run.delete_keys(rest)) {
            Ok(()) => {
                step.changes.push_lease(LeaseChange::Ended(lease));
                Ok(())
            }
            Err((rest, halt)) => Err(self.pause(PausedAt::Lease(number, rest), halt)),
        }
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
        let done = path.ops.iter().map(|op| match op {
            PathOp::Txn(path) => OpDone::Txn(self.read_branch(path)),
            PathOp::Range(range) => OpDone::Range(read(self, range, self.revision)),
            PathOp::Put(_) | PathOp::DeleteRange(_) => unreachable!("the transaction only reads"),
        });
        Branch { succeeded: path.succeeded, done: done.collect() }
    }

    /// Judges the comparisons of a transaction, and those of nested ones on the path.
    fn path_of<'t>(&self, txn: &'t Txn<'t>) -> Path<'t> {
        Path::of(txn, &mut |txn| txn.compares.iter().all(|compare| self.holds(compare)))
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
        path.ops.iter().try_for_each(|op| match op {
            PathOp::Range(range) => match range.revision {
                0 => Ok(()),
                revision if revision > self.revision => Err(Refusal::FutureRevision),
                revision if revision < self.compacted => Err(Refusal::Compacted),
                _ => Ok(()),
            },
            PathOp::Put(put) => {
                self.check_put(put)?;
                self.check_lease(put)
            }
            PathOp::DeleteRange(_) => Ok(()),
            PathOp::Txn(path) => self.check(path),
        })
    }

    /// Refuses puts that would make the store larger than its quota. Removals and compactions are
    /// never refused, and make room (`storage.BackendQuota.Available`). A refusal raises an alarm,
    /// as in etcd, for the member whose client has asked.
    fn check_quota(&mut self, at: At<'_>, cost: u64) -> Result<(), Refusal> {
        if cost == 0 || self.bytes() + cost < self.settings.quota_bytes {
            return Ok(());
        }
        // Where there are too many alarms, there is one of this kind.
        let _ = self.alarms.raise(Alarm { kind: AlarmKind::NoSpace, member: at.member.0 });
        Err(Refusal::NoSpace)
    }

    /// Refuses a command while an alarm is raised (`apply.applierV3Corrupt`, `applierV3Capped`).
    /// Leases expire whatever is raised.
    fn check_alarms(&self, command: &Command<'_>) -> Result<(), Refusal> {
        if self.alarms.is_empty() {
            return Ok(());
        }
        let (is_write, takes_space) = match command {
            Command::Put(_) | Command::Grant { .. } => (true, true),
            Command::Txn(txn) => (true, cost_of_txn(txn) > 0),
            Command::DeleteRange(_) | Command::Compact { .. } | Command::Revoke { .. } => {
                (true, false)
            }
            Command::Configure(_)
            | Command::Expire { .. }
            | Command::Auth(_)
            | Command::RaiseAlarm(_)
            | Command::DisarmAlarm(_) => (false, false),
        };
        if is_write && self.alarms.has(AlarmKind::Corrupt) {
            return Err(Refusal::Corrupt);
        }
        match takes_space && self.alarms.has(AlarmKind::NoSpace) {
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
    for op in &path.ops {
        match op {
            PathOp::Put(put) if is_kept(put) => drop(kept.insert(put.key)),
            PathOp::Txn(path) => collect_kept(path, kept),
            PathOp::Put(_) | PathOp::Range(_) | PathOp::DeleteRange(_) => {}
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
    for op in &path.ops {
        match op {
            PathOp::Range(_) => {}
            PathOp::Put(put) if is_kept(put) && !present.contains(put.key) => {
                return Err(Refusal::KeyNotFound);
            }
            PathOp::Put(put) => {
                if kept.contains(put.key) {
                    present.insert(put.key);
                }
            }
            PathOp::DeleteRange(delete) => {
                let from = present.range(delete.range.key..);
                let deleted = from.take_while(|key| delete.range.contains(key)).copied();
                for key in deleted.collect::<Vec<_>>() {
                    present.remove(key);
                }
            }
            PathOp::Txn(path) => check_present(path, kept, present)?,
        }
    }
    Ok(())
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
