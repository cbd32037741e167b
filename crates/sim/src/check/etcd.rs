//! The judge of etcd clients: checks their calls against the committed order of commands, and the
//! members' final states against a model.

use std::collections::BTreeSet;

use etcd::convert::{Header, Response};
use machine::etcd::alarm::AlarmKind;
use machine::etcd::command::{KeyRange, RangeOp};
use machine::{LeaseId, Machine};
use workload::etcd::history::{Answered, CallId, CallRecord, History};
use workload::etcd::leases::{Handed, LeaseCounts, judge_leases};
use workload::etcd::locks::{LockCounts, judge_locks};
use workload::etcd::op::{Error, Fate, Op, Range};
use workload::etcd::order::{Claimed, Verdict, judge_with};
use workload::etcd::watch::{Step, StreamRecord, WatchVerdict, judge_watches};

use super::{Evidence, Trouble};
use crate::etcd_clients::wire::{Served, decode};
use crate::limits::{
    ETCD_FENCE_US_MAX, ETCD_LATE_US_MAX, ETCD_LEADERLESS_US_MAX, ETCD_NO_LEADER_US,
};
use crate::witness::audit::AuditLines;
use crate::witness::{EtcdCommand, Times};

/// The results of judging the etcd clients.
pub struct EtcdVerdict {
    /// The verdict on the calls, against the committed order.
    pub order: Verdict,
    /// The verdict on the leases.
    pub leases: LeaseCounts,
    /// The verdict on the locks.
    pub locks: LockCounts,
    /// The verdict on the watches.
    pub watches: WatchVerdict,
}

/// Judges the etcd clients of a run. `machines` are the final states of the members; it may be
/// empty. A lease may end up to `slack_us` before its time by the world's clock.
///
/// # Errors
/// A correct server could not have behaved so.
pub fn check_etcd(
    history: &History,
    evidence: &Evidence<'_>,
    machines: &[&Machine],
    slack_us: u64,
) -> Result<EtcdVerdict, String> {
    // First the violations that clients can see themselves; the other judges would report their
    // cause.
    let locks = judge_locks(history, slack_us).map_err(|found| format!("etcd: {found}"))?;
    let order = evidence.witness.etcd_order(history)?;
    let claim: Vec<Claimed> = order.iter().map(|it| it.claimed.clone()).collect();
    check_acknowledgements(history, &order)?;
    order.iter().try_for_each(|command| check_late_effect(history, command, evidence))?;
    order.iter().try_for_each(|command| check_protection(command, evidence, slack_us))?;
    let members: Vec<u64> = order.iter().map(|it| it.origin).collect();
    let cut = cut_calls(history, evidence);
    let verdict =
        judge_with(history, &claim, &members, &cut).map_err(|found| format!("etcd: {found}"))?;
    // A grant that was refused for want of space has not granted a lease.
    let of_leases = |claimed: &Claimed| match claimed {
        Claimed::Call(call) if verdict.spaceless.contains(call) => {
            Claimed::NoSpace { is_raised: true }
        }
        claimed => claimed.clone(),
    };
    let timed: Vec<_> =
        order.iter().map(|it| (of_leases(&it.claimed), Handed::at(it.times.handed_us))).collect();
    let leases =
        judge_leases(history, &timed, slack_us).map_err(|found| format!("etcd: {found}"))?;
    let refusing: Vec<&Trouble> =
        (0..evidence.waking.len()).map(|member| evidence.witness.refusing(member)).collect();
    check_refusals(history, &claim, &refusing)?;
    machines.iter().try_for_each(|machine| compare(machine, &verdict))?;
    let watches = check_watches(history, evidence, &order, &verdict)?;
    check_audit(history, &evidence.witness.etcd.audit, &verdict)?;
    Ok(EtcdVerdict { order: verdict, leases, locks, watches })
}

/// Checks each call's line in the audit log.
fn check_audit(history: &History, audit: &AuditLines, verdict: &Verdict) -> Result<(), String> {
    for record in &history.calls {
        let answered = match record.answer() {
            Some(Ok(_)) => Some(true),
            Some(Err(error)) if error.fate() != Fate::Unknown => Some(false),
            Some(Err(_)) | None => None,
        };
        let is_done = Some(verdict.done.contains(&record.id));
        let found = audit.check(record.id, record.op.can_change(), is_done, answered);
        found.map_err(|found| format!("etcd: the audit log: {found}"))?;
    }
    Ok(())
}

/// Judges the watch streams.
fn check_watches(
    history: &History,
    evidence: &Evidence<'_>,
    order: &[EtcdCommand],
    verdict: &Verdict,
) -> Result<WatchVerdict, String> {
    let (model, timeline) = (&verdict.model, &verdict.timeline);
    let found = judge_watches(history, model, timeline).map_err(|it| format!("etcd: {it}"))?;
    for (stream, step, revision) in &found.shown {
        let (moment, response) = &history.watches[*stream].steps[*step];
        let command = timeline.command_of(*revision).map(|at| order[at].times);
        if let Some(Times { handed_us, .. }) = command.filter(|it| moment.at_us < it.handed_us) {
            let at_us = moment.at_us;
            return Err(format!(
                "an event came at {at_us} us, syncs cover its entry since {handed_us} us: \
                 {response:?}"
            ));
        }
    }
    history.watches.iter().try_for_each(|stream| check_leaderless(stream, history, evidence))?;
    Ok(found)
}

/// Checks a stream that requires a leader: it must end soon after its member can reach no other
/// member, and must not end for want of a leader while all is well.
fn check_leaderless(
    stream: &StreamRecord,
    history: &History,
    evidence: &Evidence<'_>,
) -> Result<(), String> {
    let member = history.connections[stream.connection].member as usize;
    let opened_us = stream.opened.at_us;
    let (until_us, step) = match stream.ended() {
        Some((moment, step)) => (moment.at_us, Some(step)),
        None => (evidence.now_us, None),
    };
    let describe = |what: &str| {
        format!("a stream to member {member}, open from {opened_us} to {until_us} us, {what}")
    };
    match step {
        Some(Step::Ended(Error::NoLeader)) if stream.requires_leader => {
            let from_us = until_us.saturating_sub(ETCD_NO_LEADER_US + ETCD_LEADERLESS_US_MAX);
            let is_well = |member| evidence.is_well(member, from_us, until_us);
            // By a clock that jumped, the last contact with the leader is long past.
            let has_jumped = evidence.waking[member].has_jumped_between(from_us, until_us);
            match !has_jumped && (0..evidence.trouble.len()).all(is_well) {
                true => Err(describe("ended without a leader, and there was one")),
                false => Ok(()),
            }
        }
        Some(Step::Ended(error)) => Err(describe(&format!("ended with {error:?}"))),
        _ if stream.requires_leader => {
            let cut_off_us = evidence.cut_off[member].longest_between(opened_us, until_us);
            match cut_off_us > ETCD_NO_LEADER_US + ETCD_LEADERLESS_US_MAX {
                true => Err(describe(&format!("goes on though cut off for {cut_off_us} us"))),
                false => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// The streamed reads that ended as compacted after their member installed a snapshot.
fn cut_calls(history: &History, evidence: &Evidence<'_>) -> BTreeSet<CallId> {
    let is_cut = |record: &&CallRecord| {
        let Some(Answered { moment, answer }) = &record.answered else { return false };
        let member = history.connections[record.connection].member as usize;
        *answer == Err(Error::CompactedMeanwhile)
            && evidence.witness.etcd.has_installed(member, record.asked.at_us, moment.at_us)
    };
    history.calls.iter().filter(is_cut).map(|record| record.id).collect()
}

/// Checks that no answer to a write reached a client before a quorum had synced its entry.
fn check_acknowledgements(history: &History, order: &[EtcdCommand]) -> Result<(), String> {
    for EtcdCommand { claimed, times, .. } in order {
        let &Claimed::Call(call) = claimed else { continue };
        let handed_us = times.handed_us;
        let record = history.position(call).map(|at| &history.calls[at]);
        let answered = record.and_then(|record| record.answered.as_ref());
        if let Some(Answered { moment, answer: Ok(_) }) = answered
            && moment.at_us < handed_us
        {
            return Err(format!(
                "{call:?} was answered at {} us, syncs cover its entry since {handed_us} us",
                moment.at_us
            ));
        }
    }
    Ok(())
}

/// Checks each call that was refused for want of space and is not in the log: its member must have
/// had a reason to refuse writes at that time. `refusing` has for each member the spells with such
/// a reason: its own disk, or its leader's, was full.
fn check_refusals(
    history: &History,
    claim: &[Claimed],
    refusing: &[&Trouble],
) -> Result<(), String> {
    let call_of = |claimed: &Claimed| match claimed {
        Claimed::Call(call) => Some(*call),
        _ => None,
    };
    let logged: BTreeSet<CallId> = claim.iter().filter_map(call_of).collect();
    for record in history.calls.iter().filter(|record| !logged.contains(&record.id)) {
        let Some(Answered { moment, answer: Err(Error::NoSpace) }) = &record.answered else {
            continue;
        };
        let (asked_us, answered_us) = (record.asked.at_us, moment.at_us);
        let member = history.connections[record.connection].member as usize;
        if refusing[member].is_none_between(asked_us, answered_us) {
            return Err(format!(
                "{:?}, asked at {asked_us} us, was refused for want of space at {answered_us} us, \
                 and no disk that member {member} minds was full",
                record.id
            ));
        }
    }
    Ok(())
}

/// Checks that a leader did not end a lease while a renewal of it waited for its answer.
fn check_protection(
    command: &EtcdCommand,
    evidence: &Evidence<'_>,
    slack_us: u64,
) -> Result<(), String> {
    let &EtcdCommand { claimed: Claimed::Expire { lease, .. }, times, term, .. } = command else {
        return Ok(());
    };
    let leader = (times.member, term);
    let between = (times.judged_us, times.proposed_us);
    evidence.witness.renewals.check_end(leader, LeaseId(lease), between, slack_us)
}

/// Checks that a write takes effect soon or never after its member gave it up, because its client
/// had stopped waiting.
fn check_late_effect(
    history: &History,
    command: &EtcdCommand,
    evidence: &Evidence<'_>,
) -> Result<(), String> {
    let &EtcdCommand { claimed: Claimed::Call(call), times, led_since_us, .. } = command else {
        return Ok(());
    };
    let Some(ended_us) = evidence.witness.etcd.ended_us(call) else { return Ok(()) };
    let record = history.position(call).map(|at| &history.calls[at]);
    let record = record.ok_or_else(|| format!("{call:?} is in no history"))?;
    let origin = history.connections[record.connection].member as usize;
    let given_up = GivenUp { origin, ended_us, times, led_since_us };
    let is_well = |member, from_us, until_us| evidence.is_well(member, from_us, until_us);
    let late = given_up.late_effect(evidence.trouble.len(), is_well);
    late.map_err(|what| format!("{call:?} was given up at {ended_us} us, and {what}"))
}

/// A write that its member gave up and that took effect.
struct GivenUp {
    /// The number of the member that the client called.
    origin: usize,
    /// When that member gave the write up, in us.
    ended_us: u64,
    times: Times,
    /// When the term of the write's entry was first seen to have a leader, in us.
    led_since_us: u64,
}

impl GivenUp {
    /// Checks that the write took effect in time, in an ensemble of `member_count` members.
    /// `is_well` tells whether nothing went wrong with a member between two times.
    ///
    /// After the origin has given the write up, it sends leaders `Nothing` in its place. So only a
    /// leader that already got the command can propose it, and no leader of a later term. The
    /// message to that leader may be delayed while something is wrong with the origin or its link:
    /// a blocked link holds the message, and the origin cannot take it back. While all is well the
    /// message arrives at once, the leader proposes at once, and the entry is committed at once.
    fn late_effect(
        &self,
        member_count: usize,
        is_well: impl Fn(usize, u64, u64) -> bool,
    ) -> Result<(), String> {
        let GivenUp { origin, ended_us, times, led_since_us } = *self;
        let Times { member, proposed_us, handed_us, .. } = times;
        if led_since_us > ended_us + ETCD_FENCE_US_MAX {
            return Err(format!(
                "is proposed at {proposed_us} us in a term that began at {led_since_us} us"
            ));
        }
        if member_count == 1 {
            // The trouble of a member that is alone is not recorded.
            return Ok(());
        }
        let is_late = |at_us: u64| at_us > ended_us + ETCD_LATE_US_MAX;
        let was_well = |member, at_us: u64| is_well(member, at_us - ETCD_LATE_US_MAX, at_us);
        if is_late(proposed_us) && was_well(origin, proposed_us) && was_well(member, proposed_us) {
            return Err(format!("member {member} proposed it at {proposed_us} us"));
        }
        if is_late(handed_us) && (0..member_count).all(|member| was_well(member, handed_us)) {
            return Err(format!("took effect at {handed_us} us"));
        }
        Ok(())
    }
}

/// Checks that a member's keys and revisions equal the model's.
fn compare(machine: &Machine, verdict: &Verdict) -> Result<(), String> {
    let (store, view) = (machine.etcd(), verdict.model.view());
    if (store.revision(), store.compacted()) != (view.revision, view.compacted) {
        let found = (store.revision(), store.compacted());
        return Err(format!("etcd's state is at {found:?}, the model at {view:?}"));
    }
    let leases = (store.leases().len(), verdict.model.lease_count());
    if leases.0 != leases.1 {
        return Err(format!("etcd's state has {} leases, the model {}", leases.0, leases.1));
    }
    let space = (store.bytes(), store.alarms().has(AlarmKind::NoSpace));
    let due = (verdict.model.bytes(), verdict.model.is_alarmed());
    if space != due {
        return Err(format!("etcd's state counts {space:?} against the quota, the model {due:?}"));
    }
    let all = RangeOp::of(KeyRange { key: &[0], end: &[0] });
    let found = store.range(&all).map_err(|refusal| format!("all keys: {refusal:?}"))?;
    let header = Header { cluster_id: 0, member_id: 0, raft_term: 0 };
    let response = Response::from_range(header, &found).to_vec();
    let asked = Op::Range(Range { key: vec![0], range_end: vec![0], ..Range::default() });
    let served = Served::new(0, 0);
    let (found, expected) =
        (decode(&asked, &Ok(response), served)?, verdict.model.answer_at(&asked, view));
    match found == expected {
        true => Ok(()),
        false => Err(format!("etcd's keys are {found:?}, the model has {expected:?}")),
    }
}

#[cfg(test)]
mod tests;
