//! Applies etcd's commands to the store.
//!
//! A transaction goes through three parts. First all comparisons are judged on the state before the
//! transaction, including those of nested transactions that would run. This gives the transaction's
//! path, the operations to run. Then each of these operations is checked. Then they run in order,
//! each seeing the effects of those before, all at one revision. So nothing can be refused after
//! the first change. As in etcd 3.6 `txn.Txn`.
//!
//! Each part goes in steps of a bounded number of keys, however large a command in the log is.

use std::sync::Arc;

use crate::etcd::alarm::{Alarm, AlarmKind};
use crate::etcd::auth::Permitting;
use crate::etcd::auth::{AuthDone, AuthInfo};
use crate::etcd::budget::Budget;
use crate::etcd::change::{Changes, LeaseChange};
use crate::etcd::command::{Command, DeleteRange, Op, Put, Txn};
use crate::etcd::edge::CompactSoFar;
use crate::etcd::event::Event;
use crate::etcd::lease::{Grant, Lease};
use crate::etcd::paused::{Halt, Paused, PausedAt, TxnRun};
use crate::etcd::reply::{Branch, Granted, OpDone, Outcome, Refusal, TxnDone};
use crate::etcd::run::{Step, Stop};
use crate::etcd::shown::weight_of;
use crate::etcd::store::Store;
use crate::etcd::txn_state::{Checking, Judging};
use crate::held::{ETCD_LEASE_HELD_BYTES, HeldBounds};
use crate::ids::{LeaseId, Ordinal};
use crate::limits::{ETCD_ANSWER_WEIGHT_MAX, ETCD_LEASE_BYTES, ETCD_LEASE_TTL_S_MAX};

/// The context of a command that is applied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At<'a> {
    pub(crate) ordinal: Ordinal,
    /// The leader's stamp, ms since 1970.
    pub(crate) time_ms: i64,
    /// The user that sent the command; `None` if none is named.
    pub(crate) who: Option<AuthInfo<'a>>,
    /// The member that handed over the command, by the id that etcd's clients see of it.
    pub(crate) member_id: u64,
}

impl Store {
    /// Starts a command, or continues the one that is paused. Looks at up to `keys_max` keys, at
    /// least 1. Returns `None` if the command is not done; the caller must then pass it again,
    /// before any other. `is_taken` says whether somebody will read the outcome; if not, the
    /// outcome contains no versions, and reads look at no keys.
    ///
    /// # Errors
    /// The command is refused, and has changed nothing, except that it may have raised an alarm.
    pub(crate) fn apply_step(
        &mut self,
        at: At<'_>,
        command: &Command<'_>,
        (keys_max, is_taken): (u64, bool),
        changes: &mut Changes,
    ) -> Option<Result<Outcome, Refusal>> {
        let paused = self.paused.take().map(|paused| *paused);
        // The client may stop waiting between two steps. What the command has collected for it by
        // then stays in the outcome.
        let may_show = is_taken || paused.as_ref().is_some_and(Paused::has_collected);
        let step = Step { budget: Budget::new(keys_max), is_taken, changes };
        self.index.looks().take();
        let ran = self.run_command(at, command, paused, step);
        let looked_at = self.index.looks().take();
        assert!(looked_at <= keys_max, "a step is bounded: {looked_at} keys of {keys_max}");
        match ran {
            Ok(outcome) => {
                debug_assert!(is_bounded(&outcome, may_show), "an outcome is bounded");
                Some(Ok(outcome))
            }
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
        let paused = match paused {
            None => {
                self.check_alarms(command)?;
                self.permit(at, command, Default::default(), &mut step)?;
                None
            }
            Some(Paused::Permitting(permitting)) => {
                self.permit(at, command, permitting, &mut step)?;
                None
            }
            begun => begun,
        };
        match command {
            Command::Put(put) => {
                // For a put outside of a transaction, etcd checks the lease first (`txn.Put`);
                // within one, last.
                self.check_lease(put)?;
                self.check_put(put)?;
                self.check_quota(at, cost_of_put(put))?;
                Ok(self.run_whole(&mut step, |run| Outcome::Put(run.put(put))))
            }
            Command::DeleteRange(delete) => self.run_delete(delete, paused, &mut step),
            Command::Txn(txn) => self.run_txn(at, txn, paused, &mut step),
            Command::Compact { revision } => self.run_compact(*revision, paused, &mut step.budget),
            Command::Configure(settings) => {
                self.settings = *settings;
                Ok(Outcome::Configured)
            }
            Command::Grant { lease, ttl_s } => {
                Ok(Outcome::Granted(self.grant(at, *lease, *ttl_s, step.changes)?))
            }
            Command::Revoke { lease } => {
                let (halt, rest) = match paused {
                    Some(Paused::Running(PausedAt::Lease(_, rest), halt)) => (Some(halt), rest),
                    _ => (None, self.take_lease(*lease).ok_or(Refusal::LeaseNotFound)?),
                };
                self.end_lease((0, *lease), rest, halt, &mut step)?;
                Ok(Outcome::Revoked { revision: self.revision })
            }
            Command::Expire { leases } => self.expire(leases, paused, &mut step),
            Command::Auth(command) => {
                // `make_mut` clones if a running walk shares the value, so the walk keeps the old
                // one.
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

    fn run_delete(
        &mut self,
        delete: &DeleteRange<'_>,
        paused: Option<Paused>,
        step: &mut Step<'_>,
    ) -> Result<Outcome, Stop> {
        let halt = paused.and_then(Paused::into_halt);
        let done = self.run(step, halt, |run| {
            let done = run.delete_range(delete).ok_or(())?;
            Ok((done, run.shows_too_much()))
        });
        match done {
            Ok((done, false)) => Ok(Outcome::DeleteRange(done)),
            Ok((done, true)) => {
                self.garbage.add(done.prev);
                Ok(Outcome::TooLarge)
            }
            Err(((), halt)) => Err(self.pause(PausedAt::DeleteRange, halt)),
        }
    }

    fn run_compact(
        &mut self,
        revision: i64,
        paused: Option<Paused>,
        budget: &mut Budget,
    ) -> Result<Outcome, Stop> {
        let mut so_far = match paused {
            Some(Paused::Compacting(so_far)) => so_far,
            _ => CompactSoFar::default(),
        };
        match self.compact_step(revision, &mut so_far, budget)? {
            true => Ok(Outcome::Compacted { revision: self.revision }),
            false => Err(self.pause_at(Paused::Compacting(so_far))),
        }
    }

    /// Does a part of the check of a command's permissions.
    fn permit(
        &mut self,
        at: At<'_>,
        command: &Command<'_>,
        mut permitting: Permitting,
        step: &mut Step<'_>,
    ) -> Result<(), Stop> {
        match self.permit_step(at.who, command, &mut permitting, &mut step.budget)? {
            true => Ok(()),
            false => Err(self.pause_at(Paused::Permitting(permitting))),
        }
    }

    fn run_txn(
        &mut self,
        at: At<'_>,
        txn: &Txn<'_>,
        paused: Option<Paused>,
        step: &mut Step<'_>,
    ) -> Result<Outcome, Stop> {
        let (mut run, halt) = match paused {
            Some(Paused::Running(PausedAt::Txn(run), halt)) => (run, Some(halt)),
            before => {
                let judged = self.judge_and_check(txn, before, &mut step.budget)?;
                self.check_quota(at, cost_of_txn(txn))?;
                (TxnRun::new(judged), None)
            }
        };
        let done = self.run(step, halt, |it| match it.txn(txn, &mut run) {
            true => Ok(it.shows_too_much()),
            false => Err(()),
        });
        match done {
            Ok(false) => {
                Ok(Outcome::Txn(TxnDone { revision: self.revision, branch: run.finish() }))
            }
            Ok(true) => {
                self.garbage.add_branch(run.finish());
                Ok(Outcome::TooLarge)
            }
            Err(((), halt)) => Err(self.pause(PausedAt::Txn(run), halt)),
        }
    }

    /// Continues the parts before a transaction's operations run. Returns the results of the
    /// comparisons on its path, when all operations on it are checked.
    fn judge_and_check(
        &mut self,
        txn: &Txn<'_>,
        paused: Option<Paused>,
        budget: &mut Budget,
    ) -> Result<Vec<bool>, Stop> {
        let (judged, mut checking) = match paused {
            Some(Paused::Checking(judged, checking)) => (judged, checking),
            other => {
                let mut judging = match other {
                    Some(Paused::Judging(judging)) => judging,
                    _ => Judging::default(),
                };
                if !self.judge_step(txn, &mut judging, self.revision, budget)? {
                    return Err(self.pause_at(Paused::Judging(judging)));
                }
                (judging.judged, Checking::default())
            }
        };
        match self.check_step(txn, &judged, &mut checking, self.revision, budget)? {
            true => Ok(judged),
            false => Err(self.pause_at(Paused::Checking(judged, checking))),
        }
    }

    fn expire(
        &mut self,
        leases: &[(LeaseId, Ordinal)],
        paused: Option<Paused>,
        step: &mut Step<'_>,
    ) -> Result<Outcome, Stop> {
        let mut first = 0;
        if let Some(Paused::Running(PausedAt::Lease(number, rest), halt)) = paused {
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

    /// Grants a lease. The checks are in etcd's order (`lessor.Grant`).
    fn grant(
        &mut self,
        at: At<'_>,
        wanted: LeaseId,
        ttl_s: i64,
        changes: &mut Changes,
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

    /// Deletes the keys of a lease that was removed from the store, in order and at one revision
    /// (`lessor.Revoke`). `number` is the lease's position in the command's list, for a pause.
    fn end_lease(
        &mut self,
        (number, lease): (usize, LeaseId),
        rest: Lease,
        halt: Option<Box<Halt>>,
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

    /// Refuses writes that would make the store larger than its quota. Deletions and compactions
    /// are never refused, and free space (`storage.BackendQuota.Available`). A refusal raises an
    /// alarm, as in etcd, for the member that handed over the command.
    ///
    /// From level 4 on, the memory that the store takes is bounded too. That bound raises no alarm:
    /// etcd's alarm means that the database has reached its quota.
    fn check_quota(&mut self, at: At<'_>, cost: u64) -> Result<(), Refusal> {
        let quota = self.settings.quota_bytes;
        if cost == 0 {
            return Ok(());
        }
        if self.bytes() + cost < quota {
            // A new lease takes more memory beside its bytes than a put does, so count that for
            // both.
            let held = self.held() + cost + ETCD_LEASE_HELD_BYTES;
            let has_room = |bounds: HeldBounds| held < bounds.etcd(quota);
            return match self.bounds.is_none_or(has_room) {
                true => Ok(()),
                false => Err(Refusal::NoSpace),
            };
        }
        // Raising fails only if there are as many alarms as allowed. Then some member has an alarm
        // of this kind already, because an alarm of the other kind would have refused the command
        // before.
        let _ = self.alarms.raise(Alarm { kind: AlarmKind::NoSpace, member: at.member_id });
        Err(Refusal::NoSpace)
    }

    /// Refuses a command because of an alarm (`apply.applierV3Corrupt`, `applierV3Capped`). Leases
    /// still expire.
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
}

/// Whether an outcome shows no more versions than it may: none at all unless `may_show`.
fn is_bounded(outcome: &Outcome, may_show: bool) -> bool {
    let weight = match outcome {
        Outcome::Put(done) => done.prev.as_ref().map_or(0, |prev| weight_of(prev, false)),
        Outcome::DeleteRange(done) => weight_of_list(&done.prev),
        Outcome::Txn(done) => weight_of_branch(&done.branch),
        _ => 0,
    };
    weight <= if may_show { ETCD_ANSWER_WEIGHT_MAX } else { 0 }
}

fn weight_of_list(events: &[Event]) -> u64 {
    events.iter().map(|event| weight_of(event, false)).sum()
}

fn weight_of_branch(branch: &Branch) -> u64 {
    let weights = branch.done.iter().map(|done| match done {
        OpDone::Range(found) => found.events.iter().map(|it| weight_of(it, found.keys_only)).sum(),
        OpDone::Put(done) => done.prev.as_ref().map_or(0, |prev| weight_of(prev, false)),
        OpDone::DeleteRange(done) => weight_of_list(&done.prev),
        OpDone::Txn(branch) => weight_of_branch(branch),
    });
    weights.sum()
}

/// Bytes that a put counts against the quota in addition to its key and its value
/// (`storage.kvOverhead`).
const PUT_COST_BYTES: u64 = 256;

/// Bytes that a put counts against the quota before it runs (`storage.costPut`).
fn cost_of_put(put: &Put<'_>) -> u64 {
    PUT_COST_BYTES + (put.key.len() + put.value.len()) as u64
}

/// Bytes that a transaction counts before it runs: those of its larger branch (`storage.costTxn`).
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
