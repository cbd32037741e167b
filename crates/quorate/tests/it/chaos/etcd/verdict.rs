//! Judges what etcd clients saw during faults: their calls, leases and watches.

use std::path::Path;

use workload::etcd::history::{Answered, CallRecord, History};
use workload::etcd::leases::{Handed, LeaseCounts, judge_leases};
use workload::etcd::linear::{Past, Verdict, judge_with_pasts};
use workload::etcd::model::Model;
use workload::etcd::op::{Fate, LeaseOp, Op};
use workload::etcd::order::Claimed;
use workload::etcd::watch::{Step, WatchVerdict, judge_watches};

use super::keeper::keys_of;
use super::world::{EtcdWorld, lock};

/// How much too early a lease may seem to end, because members count whole milliseconds.
const CLOCK_SLACK_US: u64 = 2_000;

/// Judges the history. If the judges reject it, or cannot compare all of it, writes it to a file
/// and panics.
pub fn judge_all(world: &EtcdWorld, folder: &Path) -> (Verdict, LeaseCounts, WatchVerdict) {
    let history = lock(&world.history);
    let problem = match judge_history(&history) {
        Ok(found) if found.0.uncompared_count == 0 => return found,
        Ok((verdict, ..)) => format!("not all is compared: {verdict:?}"),
        Err(problem) => problem,
    };
    let file = folder.join("history-etcd.txt");
    std::fs::write(&file, written(&history)).unwrap();
    panic!("{problem}; see {}", file.display());
}

/// Judges a history whose clients have seen the last revision.
///
/// # Errors
/// An observation that no correct server would have caused.
pub fn judge_history(history: &History) -> Result<(Verdict, LeaseCounts, WatchVerdict), String> {
    let (verdict, pasts) = judge_with_pasts(history).map_err(|found| found.to_string())?;
    let mut first = Err("no past is known".to_string());
    for Past { model, timeline } in &pasts {
        let claim = claim_of(history, model);
        let leases = judge_leases(history, &claim, CLOCK_SLACK_US).map_err(|it| it.to_string());
        let watches = judge_watches(history, model, timeline).map_err(|it| it.to_string());
        let watches = watches.and_then(check_open);
        match leases.and_then(|leases| Ok((verdict, leases, watches?))) {
            Ok(found) => return Ok(found),
            problem if first.is_err() => first = problem,
            Err(_) => {}
        }
    }
    first
}

/// Fails if a watch has missed an event at the end.
fn check_open(verdict: WatchVerdict) -> Result<WatchVerdict, String> {
    match verdict.open.iter().find(|open| open.missing.is_some()) {
        Some(open) => Err(format!("an event never came: {open:?}")),
        None => Ok(verdict),
    }
}

/// A line for people with the numbers of watches, their events and their promises.
pub fn counts_of(watches: &WatchVerdict) -> String {
    let WatchVerdict { created_count, resumed_count, event_count, .. } = watches;
    let promises = watches.promise_count + watches.promise_of_all_count;
    format!(
        "watches: {created_count} created, {resumed_count} of them resumed, {} refused, {} \
         compacted, {} cancelled, {event_count} events, {promises} promises",
        watches.refused_count, watches.compacted_count, watches.cancelled_count
    )
}

/// The grants and ends of all leases, for the judge of leases. In a past that the judge found
/// possible, `model` says at which revision the keys of a lease vanished; only the lease's end
/// deletes them. The answers say when that was.
fn claim_of(history: &History, model: &Model) -> Vec<(Claimed, Handed)> {
    let mut claim = Vec::new();
    for record in &history.calls {
        let Op::Lease(LeaseOp::Grant { lease, .. }) = record.op else { continue };
        let is_refused = record.answer().is_some_and(|answer| {
            answer.as_ref().is_err_and(|error| error.fate() != Fate::Unknown)
        });
        if is_refused {
            continue;
        }
        let granted = claim.len();
        claim.push((Claimed::Call(record.id), Handed::at(record.asked.at_us)));
        let (first, last) = (keys_of(lease), format!("{}~", keys_of(lease)));
        let changes = model.changes(first.as_bytes(), last.as_bytes(), 0, i64::MAX);
        let gone = changes.iter().rfind(|change| change.pair.is_none());
        let handed = match gone {
            Some(gone) => made_between(history, gone.revision),
            // The lease had no key, so its end left no trace.
            None => Handed { earliest_us: 0, latest_us: u64::MAX / 2 },
        };
        claim.push((Claimed::Expire { lease, granted }, handed));
    }
    claim
}

/// When a revision can have been made: after the sending of the last linearizable call that did not
/// see it, and before the first answer that did.
fn made_between(history: &History, revision: i64) -> Handed {
    let mut handed = Handed { earliest_us: 0, latest_us: u64::MAX / 2 };
    for record in &history.calls {
        let Some(Answered { moment, answer: Ok(response) }) = &record.answered else { continue };
        if response.revision() >= revision {
            handed.latest_us = handed.latest_us.min(moment.at_us);
        } else if is_linearizable(record) {
            handed.earliest_us = handed.earliest_us.max(record.asked.at_us);
        }
    }
    for (moment, step) in history.watches.iter().flat_map(|stream| &stream.steps) {
        if let Step::Response(response) = step
            && response.revision >= revision
        {
            handed.latest_us = handed.latest_us.min(moment.at_us);
        }
    }
    handed
}

fn is_linearizable(record: &CallRecord) -> bool {
    !record.op.is_serializable() && !matches!(record.op, Op::Lease(op) if op.is_question())
}

/// A history as text: every call, then every connection, then every watch stream.
fn written(history: &History) -> String {
    let mut text = String::new();
    for record in &history.calls {
        text += &format!("{:?} connection {} {:?}\n", record.id, record.connection, record.op);
        text += &format!("    asked {:?}, {:?}\n", record.asked, record.answered);
    }
    for (number, connection) in history.connections.iter().enumerate() {
        text += &format!("connection {number}: {connection:?}\n");
    }
    for (number, stream) in history.watches.iter().enumerate() {
        text += &format!("stream {number} on connection {}\n", stream.connection);
        for step in &stream.steps {
            text += &format!("    {step:?}\n");
        }
    }
    text
}
