//! The judge of leases: checks that leases do not expire early, and that answers about leases are
//! right.
//!
//! It gets the committed order (the claim) after the judge of [`crate::etcd::order`] has checked
//! that order. So it need not check that a lease that ends deletes all its keys at one revision,
//! nor that puts find exactly the leases that exist in the order. For each command it also gets the
//! time at which a member first handed the command to Apply: exact in a simulation, an interval for
//! real processes ([`Handed`]). It checks:
//!
//! - **Not before.** A lease that expires has lived for its full time to live after its grant was
//!   sent, and again after the sending of each keep-alive that was answered with a time; less a
//!   slack for the difference of clocks ([`judge_leases`]).
//! - **Kept.** If a keep-alive or a `LeaseTimeToLive` is answered with a time, the lease existed at
//!   some time between the call and the answer.
//! - **Known.** If such a call is answered as for an unknown lease, the lease did not exist during
//!   the whole time between the call and the answer. Both rules also hold for puts that find their
//!   lease, or do not.
//! - **Time left.** The remaining time in an answer is 0 or more and less than the granted time,
//!   and the granted time in an answer is that of the grant.
//!
//! **Not checked here:** that leases end at all. The driver of the clients waits for the end of all
//! leases.

use std::collections::BTreeMap;

use crate::etcd::finding::{Rule, Violation, violation};
use crate::etcd::form::check;
use crate::etcd::history::{CallRecord, History};
use crate::etcd::model::LEASE_TTL_S_MIN;
use crate::etcd::op::{Error, LeaseOp, Op, Response};
use crate::etcd::order::Claimed;

/// The interval in which a member first handed a committed command to Apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handed {
    /// The earliest possible time, in us.
    pub earliest_us: u64,
    /// The latest possible time, in us.
    pub latest_us: u64,
}

impl Handed {
    /// A time that is known exactly.
    pub fn at(us: u64) -> Handed {
        Handed { earliest_us: us, latest_us: us }
    }
}

/// One life of a lease id, from a grant to the end of that lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Life {
    ttl_s: i64,
    /// When the grant was sent, in us.
    asked_us: u64,
    /// When the grant was first handed to Apply, at the latest, in us.
    granted_us: u64,
    answered_us: Option<u64>,
    /// When the end of the lease was first handed to Apply, and whether the lease expired (`true`)
    /// or was revoked. `None` if it did not end.
    ended: Option<(Handed, bool)>,
}

/// Counts of what was judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseCounts {
    /// Leases granted.
    pub granted: usize,
    /// Leases that expired.
    pub expired: usize,
    /// Keep-alives answered with a time.
    pub kept: usize,
    /// Keep-alives and `LeaseTimeToLive` calls that were answered as for an unknown lease.
    pub unknown: usize,
}

/// Judges the leases of a history. By the judge's clock a lease may expire up to `slack_us` early,
/// since leaders' clocks differ from that clock.
///
/// # Errors
/// The first thing that a correct server could not have done.
pub fn judge_leases(
    history: &History,
    claim: &[(Claimed, Handed)],
    slack_us: u64,
) -> Result<LeaseCounts, Violation> {
    let lives = lives_of(history, claim);
    let mut counts = LeaseCounts::default();
    for (lease, lives) in &lives {
        for (number, life) in lives.iter().enumerate() {
            counts.granted += 1;
            if let Some((Handed { latest_us, .. }, true)) = life.ended {
                counts.expired += 1;
                check_end(*lease, life, life.asked_us, latest_us, slack_us)?;
                let next = lives.get(number + 1);
                check_kept(history, *lease, (life, next), latest_us, slack_us)?;
            }
        }
    }
    let of_lease = |lease: i64| lives.get(&lease).map_or(&[][..], Vec::as_slice);
    for record in &history.calls {
        match &record.op {
            Op::Lease(op) => check_question(record, *op, of_lease, &mut counts)?,
            Op::Put(put) if put.lease != 0 && check(&record.op).is_ok() => match record.answer() {
                Some(Ok(_)) => check_known(record, of_lease(put.lease), None)?,
                Some(Err(Error::LeaseNotFound)) => check_unknown(record, of_lease(put.lease))?,
                _ => {}
            },
            _ => {}
        }
    }
    Ok(counts)
}

/// Checks the answer to a keep-alive or a `LeaseTimeToLive`, and counts it.
fn check_question<'l>(
    record: &CallRecord,
    op: LeaseOp,
    of_lease: impl Fn(i64) -> &'l [Life],
    counts: &mut LeaseCounts,
) -> Result<(), Violation> {
    let (lives, time) = match (op, record.answer()) {
        (LeaseOp::KeepAlive { lease }, Some(Ok(Response::KeptAlive { ttl_s, .. }))) => {
            let time = (*ttl_s != 0).then_some(*ttl_s);
            counts.kept += usize::from(time.is_some());
            (of_lease(lease), time)
        }
        (
            LeaseOp::TimeToLive { lease },
            Some(Ok(Response::TimeToLive { ttl_s, granted_s, .. })),
        ) => {
            let is_known = *ttl_s != -1;
            if is_known && !(0..*granted_s).contains(ttl_s) {
                return violation(Rule::Lease, "it has more time than it was granted", record);
            }
            (of_lease(lease), is_known.then_some(*granted_s))
        }
        _ => return Ok(()),
    };
    if time.is_some() {
        return check_known(record, lives, time);
    }
    counts.unknown += 1;
    check_unknown(record, lives)
}

/// The lives of each lease, in order.
fn lives_of(history: &History, claim: &[(Claimed, Handed)]) -> BTreeMap<i64, Vec<Life>> {
    let mut lives: BTreeMap<i64, Vec<Life>> = BTreeMap::new();
    // For each existing lease, the index of its grant in the claim.
    let mut granted: BTreeMap<i64, usize> = BTreeMap::new();
    for (index, (claimed, handed)) in claim.iter().enumerate() {
        let mut end = |lease: i64, is_by_time: bool, granted: &mut BTreeMap<i64, usize>| {
            if granted.remove(&lease).is_some()
                && let Some(life) = lives.get_mut(&lease).and_then(|lives| lives.last_mut())
            {
                life.ended = Some((*handed, is_by_time));
            }
        };
        match claimed {
            Claimed::Revoke { lease } => end(*lease, false, &mut granted),
            Claimed::Expire { lease, granted: judged } if granted.get(lease) == Some(judged) => {
                end(*lease, true, &mut granted);
            }
            Claimed::Call(id) => {
                let Some(record) = history.position(*id).map(|at| &history.calls[at]) else {
                    continue;
                };
                match record.op {
                    Op::Lease(LeaseOp::Revoke { lease }) => end(lease, false, &mut granted),
                    Op::Lease(LeaseOp::Grant { lease, ttl_s })
                        if ttl_s != i64::MAX && !granted.contains_key(&lease) =>
                    {
                        granted.insert(lease, index);
                        let answered = record.answered.as_ref();
                        let answered = answered.filter(|answered| answered.answer.is_ok());
                        lives.entry(lease).or_default().push(Life {
                            ttl_s: ttl_s.max(LEASE_TTL_S_MIN),
                            asked_us: record.asked.at_us,
                            granted_us: handed.latest_us,
                            answered_us: answered.map(|answered| answered.moment.at_us),
                            ended: None,
                        });
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }
    lives
}

/// Checks that a lease did not expire earlier than its time to live after `from_us`.
fn check_end(
    lease: i64,
    life: &Life,
    from_us: u64,
    ended_us: u64,
    slack_us: u64,
) -> Result<(), Violation> {
    let lived_us = ended_us.saturating_sub(from_us);
    if lived_us + slack_us >= life.ttl_s as u64 * 1_000_000 {
        return Ok(());
    }
    let what = format!(
        "lease {lease} with {} s to live ended {lived_us} us after it was granted or kept alive: \
         {life:?}",
        life.ttl_s
    );
    Err(Violation { rule: Rule::Lease, what })
}

/// Checks that an expired lease had its full time after each keep-alive that was answered with a
/// time. A keep-alive that may belong to the next life is skipped.
fn check_kept(
    history: &History,
    lease: i64,
    (life, next): (&Life, Option<&Life>),
    ended_us: u64,
    slack_us: u64,
) -> Result<(), Violation> {
    for record in &history.calls {
        let Op::Lease(LeaseOp::KeepAlive { lease: of }) = record.op else { continue };
        let Some(answered) = record.answered.as_ref() else { continue };
        let Ok(Response::KeptAlive { ttl_s: 1.., .. }) = answered.answer else { continue };
        let is_of_this = of == lease
            && record.asked.at_us >= life.granted_us
            && record.asked.at_us < ended_us
            && next.is_none_or(|next| answered.moment.at_us < next.asked_us);
        if is_of_this {
            check_end(lease, life, record.asked.at_us, ended_us, slack_us)?;
        }
    }
    Ok(())
}

/// Checks an answer that found a lease. `time` is the time to live in the answer, in s; `None` if
/// the answer has none.
fn check_known(record: &CallRecord, lives: &[Life], time: Option<i64>) -> Result<(), Violation> {
    let Some(answered) = &record.answered else { return Ok(()) };
    let (asked_us, answered_us) = (record.asked.at_us, answered.moment.at_us);
    let may_be_it = |life: &Life| {
        life.asked_us <= answered_us
            && life.ended.is_none_or(|(ended, _)| ended.latest_us >= asked_us)
            && time.is_none_or(|granted_s| life.ttl_s == granted_s)
    };
    match lives.iter().any(may_be_it) {
        true => Ok(()),
        false => violation(Rule::Lease, &format!("no such lease existed: {lives:?}"), record),
    }
}

/// Checks an answer that found no lease.
fn check_unknown(record: &CallRecord, lives: &[Life]) -> Result<(), Violation> {
    let Some(answered) = &record.answered else { return Ok(()) };
    let (asked_us, answered_us) = (record.asked.at_us, answered.moment.at_us);
    let was_there = |life: &Life| {
        life.answered_us.is_some_and(|granted_us| granted_us < asked_us)
            && life.ended.is_none_or(|(ended, _)| ended.earliest_us > answered_us)
    };
    match lives.iter().any(was_there) {
        true => violation(Rule::Lease, &format!("the lease existed: {lives:?}"), record),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests;
