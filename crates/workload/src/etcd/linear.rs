//! The judge without a claim, for real processes: could a single server, doing one call after the
//! other, have given every answer in a history?
//!
//! It sees only the answers. Each answer names its revision, and each write that changes keys has a
//! revision of its own, so the answers give the order. The judge rebuilds the state at each
//! revision from the writes. If no acknowledged write made a revision, a write of unknown fate did:
//! the judge follows each effect that a candidate may have had in a separate *world*, and drops the
//! worlds that later answers contradict. It rejects a history when no world is left.
//!
//! **What an accepted history proves:**
//! - No two acknowledged writes have the same revision. Each of them, done on the state of the
//!   revision before, has exactly its answer. A write of unknown fate made every other revision,
//!   and no write made two.
//! - Every read, failed transaction and delete of nothing has the answer of the state at the
//!   revision in its header, or at the older one that a range asks for, all in the same world.
//! - An answer shows no older revision than any answer before the call was sent (for serializable
//!   reads: than any answer on the same connection); a write has a newer one. No answer shows a
//!   write that was sent after it.
//! - A range at an older revision is not answered after a compaction beyond it was acknowledged. A
//!   call is refused as compacted only if a compaction that explains it had been sent, and for a
//!   future revision only if that revision had not been shown before.
//! - The checks before the log refuse what they must, and nothing else.
//!
//! **What it does not prove:** refusals carry no revision, so the judge knows only when they were
//! given. A refusal for a missing key, lease or space must only fit its own call. Compactions have
//! no position in the order, and a serializable range may be answered after one. With more than
//! [`WORLDS_MAX`] worlds, the remaining answers are not compared with states
//! ([`Verdict::uncompared_count`]).
//!
//! **Leases.** The expiry of a lease has no call: it may make one revision, at which all its keys
//! are deleted. Another judge checks the answers about leases ([`crate::etcd::leases`]).
//!
//! **What the load must respect:** the store is fresh, only these clients write to it, each lease
//! is granted by one call, and no lease is revoked. Few writes may have an unknown fate at once,
//! unless some client reads all keys at each revision that no answer shows. If watches are judged,
//! too, no call changes a key twice.

use std::collections::{BTreeMap, BTreeSet};

use crate::etcd::finding::{Rule, Violation, check_form, fate_of, violation};
use crate::etcd::floor::Floor;
use crate::etcd::form::check;
use crate::etcd::history::{CallRecord, History};
use crate::etcd::model::{Model, View};
use crate::etcd::op::{Answer, Error, Fate, LeaseOp, Op, Response};
use crate::etcd::watch::Timeline;

mod worlds;

pub use worlds::WORLDS_MAX;

use worlds::Worlds;

/// Counts of what was judged in an accepted history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Answered writes that changed keys.
    pub change_count: usize,
    /// Answered calls that changed no keys: reads, failed transactions, compactions.
    pub read_count: usize,
    /// Calls that the store refused.
    pub refused_count: usize,
    /// Writes of unknown fate.
    pub unknown_count: usize,
    /// Revisions that no acknowledged write made.
    pub gap_count: usize,
    /// Answers that were not compared with states, since there were too many worlds.
    pub uncompared_count: usize,
}

/// A sequence of states that fits all answers.
#[derive(Clone, Debug)]
pub struct Past {
    /// The states. Nothing is compacted in it.
    pub model: Model,
    /// When each state can first have been shown to a client.
    pub timeline: Timeline,
}

/// Judges a history.
///
/// # Errors
/// The first thing that a correct server could not have done.
pub fn judge(history: &History) -> Result<Verdict, Violation> {
    judge_with_pasts(history).map(|(verdict, _)| verdict)
}

/// Judges a history, and also returns the pasts that fit its answers; none if there were too many.
///
/// # Errors
/// Like [`judge`].
pub fn judge_with_pasts(history: &History) -> Result<(Verdict, Vec<Past>), Violation> {
    let mut verdict = Verdict::default();
    for record in &history.calls {
        let fate = record.answer().map_or(Fate::Unknown, fate_of);
        let is_write = record.op.can_change() && check(&record.op).is_ok();
        verdict.unknown_count += usize::from(fate == Fate::Unknown && is_write);
        let Some(answer) = record.answer() else { continue };
        let is_judged = check_form(record, answer)?;
        verdict.refused_count += usize::from(is_judged && answer.is_err());
    }
    let sight = Sight::new(history)?;
    sight.check_times()?;
    sight.check_compactions()?;
    let pasts = sight.compare(&mut verdict)?.into_pasts();
    let past = |(model, unordered)| Past { model, timeline: sight.timeline(unordered) };
    Ok((verdict, pasts.into_iter().map(past).collect()))
}

/// The answers of a history, by time and by revision.
struct Sight<'h> {
    history: &'h History,
    answers: Vec<(u64, &'h CallRecord, &'h Answer)>,
    /// Acknowledged writes that changed keys, by revision.
    changes: BTreeMap<i64, &'h CallRecord>,
    /// The newest revision shown to any client, over time.
    floor: Floor<i64>,
    /// The newest revision shown on each connection, over time.
    floors: Vec<Floor<i64>>,
}

impl<'h> Sight<'h> {
    fn new(history: &'h History) -> Result<Sight<'h>, Violation> {
        let floors = vec![Floor::default(); history.connections.len()];
        let (answers, floor) = (history.answers(), Floor::default());
        let mut sight = Sight { history, answers, changes: BTreeMap::new(), floor, floors };
        for (answered, record, answer) in &sight.answers {
            let Ok(response) = answer else { continue };
            let revision = response.revision();
            sight.floor.raise(*answered, revision);
            sight.floors[record.connection].raise(*answered, revision);
            if response.tells_change()
                && let Some(other) = sight.changes.insert(revision, record)
            {
                let what = format!("{:?} has its revision, too", other.id);
                return violation(Rule::Revision, &what, record);
            }
        }
        Ok(sight)
    }

    /// The lowest revision that the answer to a call may show.
    fn low(&self, record: &CallRecord) -> i64 {
        let floor = match is_of_member(&record.op) {
            true => &self.floors[record.connection],
            false => &self.floor,
        };
        floor.at(record.asked.sequence)
    }

    /// Checks that each answer shows a revision that is new enough, and shows no write that was
    /// sent after the answer.
    fn check_times(&self) -> Result<(), Violation> {
        // For each revision of a change, the latest time at which a change up to it was sent.
        let mut asked: Vec<(i64, u64)> = Vec::new();
        for (revision, record) in &self.changes {
            let before = asked.last().map_or(0, |(_, asked)| *asked);
            asked.push((*revision, before.max(record.asked.sequence)));
        }
        for (answered, record, answer) in &self.answers {
            let Ok(response) = answer else { continue };
            let (low, revision) = (self.low(record), response.revision());
            let is_old = revision < low || (revision == low && response.tells_change());
            if is_old {
                let is_of_member = is_of_member(&record.op);
                let rule = if is_of_member { Rule::Connection } else { Rule::RealTime };
                let what = format!("revision {low} was shown before it was sent");
                return violation(rule, &what, record);
            }
            let count = asked.partition_point(|(changed, _)| *changed <= revision);
            if count > 0 && asked[count - 1].1 > *answered {
                let what = "it shows a revision of a write that was sent after its answer";
                return violation(Rule::RealTime, what, record);
            }
        }
        Ok(())
    }

    // Refusals, and compactions.

    fn check_compactions(&self) -> Result<(), Violation> {
        for (answered, record, answer) in &self.answers {
            let is_possible = match answer {
                Ok(_) => self.may_be_done(record, answer),
                Err(_) if check(&record.op).is_err() => true,
                Err(Error::Compacted) => self.may_be_compacted(record, *answered),
                Err(Error::FutureRevision) => {
                    asked_revisions(&record.op).iter().any(|it| *it > self.low(record))
                }
                Err(Error::KeyNotFound) => {
                    record.op.puts().iter().any(|put| put.ignore_value || put.ignore_lease)
                }
                Err(Error::LeaseNotFound) => record.op.puts().iter().any(|put| put.lease != 0),
                Err(Error::NoSpace) => record.op.has_put(),
                // Each lease is granted by one call only.
                Err(Error::LeaseExists) => false,
                Err(_) => true,
            };
            if !is_possible {
                let rule = if record.op.is_read() { Rule::Read } else { Rule::Answer };
                return violation(rule, "no state gives its answer", record);
            }
        }
        Ok(())
    }

    /// The revisions of the compactions that were acknowledged before this time.
    fn compacted_before(&self, time: u64) -> impl Iterator<Item = i64> {
        let answers = self.answers.iter().take_while(move |(answered, ..)| *answered < time);
        answers.filter_map(|(_, record, answer)| match (&record.op, answer) {
            (Op::Compact(compact), Ok(_)) => Some(compact.revision),
            _ => None,
        })
    }

    /// Whether an answered call contradicts no compaction.
    fn may_be_done(&self, record: &CallRecord, answer: &Answer) -> bool {
        let mut compacted = self.compacted_before(record.asked.sequence);
        match (&record.op, answer) {
            (Op::Range(range), _) if range.revision > 0 && !range.serializable => {
                compacted.all(|it| it <= range.revision)
            }
            (Op::Compact(compact), Ok(Response::Compact { revision })) => {
                compact.revision <= *revision && compacted.all(|it| it < compact.revision)
            }
            _ => true,
        }
    }

    /// Whether another client's compaction, sent before this time, can explain a refusal.
    fn may_be_compacted(&self, record: &CallRecord, answered: u64) -> bool {
        let of_others = self.history.calls.iter().filter_map(|other| match other.op {
            Op::Compact(compact) if other.id != record.id => {
                let may_be_done = other
                    .answer()
                    .is_none_or(|answer| answer.is_ok() || fate_of(answer) == Fate::Unknown);
                let is_sent = other.asked.sequence < answered;
                (may_be_done && is_sent).then_some(compact.revision)
            }
            _ => None,
        });
        // A fresh store counts as compacted at -1.
        let newest = of_others.max().unwrap_or(-1).max(-1);
        let revisions = asked_revisions(&record.op);
        match record.op {
            Op::Compact(_) => revisions.iter().any(|it| *it <= newest),
            // Outside a transaction, a negative revision means the newest.
            Op::Range(_) => revisions.iter().any(|it| *it > 0 && *it < newest),
            _ => revisions.iter().any(|it| *it < newest),
        }
    }

    // States.

    fn compare(&self, verdict: &mut Verdict) -> Result<Worlds, Violation> {
        let mut views: BTreeMap<i64, Vec<&CallRecord>> = BTreeMap::new();
        for (_, record, answer) in &self.answers {
            let Ok(response) = answer else { continue };
            verdict.read_count += usize::from(!response.tells_change());
            let is_view = !matches!(record.op, Op::Compact(_) | Op::Lease(_));
            if !response.tells_change() && is_view {
                views.entry(read_at(&record.op, response)).or_default().push(record);
            }
        }
        verdict.change_count = self.changes.len();
        let newest = self.floor.at(u64::MAX);
        let granted = |record: &CallRecord| match record.op {
            Op::Lease(LeaseOp::Grant { lease, .. }) => Some(lease),
            _ => None,
        };
        let mut worlds = Worlds::new(self.history.calls.iter().filter_map(granted));
        for revision in 1..=newest {
            let reads = views.get(&revision).map_or(&[][..], Vec::as_slice);
            let change = self.changes.get(&revision).copied();
            verdict.gap_count += usize::from(revision > 1 && change.is_none());
            match change {
                _ if worlds.are_too_many() => {
                    verdict.uncompared_count += reads.len() + usize::from(change.is_some());
                    continue;
                }
                Some(record) => worlds.change(record)?,
                None if revision == 1 => {}
                None => worlds.fill(&self.candidates(revision), reads, revision)?,
            }
            worlds.read(reads)?;
        }
        Ok(worlds)
    }

    /// When each revision and each compaction can first have been shown: not before it was sent.
    /// For a revision that no acknowledged write made, only its order is known.
    fn timeline(&self, unordered: BTreeSet<i64>) -> Timeline {
        const NOTHING: i64 = i64::MIN;
        // When something was sent, and either its revision or its compacted revision.
        let mut asked: Vec<(u64, i64, i64)> = Vec::new();
        let mut last = 0;
        for revision in 1..=self.floor.at(u64::MAX) {
            let of_change = self.changes.get(&revision).map(|record| record.asked.sequence);
            last = of_change.map_or(last, |asked| asked.max(last));
            asked.push((last, revision, NOTHING));
        }
        for record in &self.history.calls {
            let is_refused = || {
                let fate = record.answer().map(fate_of);
                record.answer().is_some_and(Result::is_err) && fate != Some(Fate::Unknown)
            };
            if let Op::Compact(compact) = record.op
                && !is_refused()
            {
                asked.push((record.asked.sequence, NOTHING, compact.revision));
            }
        }
        asked.sort_by_key(|(asked, ..)| *asked);
        let mut view = View { revision: 1, ..Model::new().view() };
        let mut timeline = Timeline { asked: Vec::new(), views: Vec::new(), unordered };
        for (asked, revision, compacted) in asked {
            view.revision = view.revision.max(revision);
            view.compacted = view.compacted.max(compacted);
            timeline.asked.push(asked);
            timeline.views.push(view);
        }
        timeline
    }

    /// The writes of unknown fate that may have made a revision, and the grants of leases whose
    /// expiry may have made it.
    fn candidates(&self, revision: i64) -> Vec<&'h CallRecord> {
        let shown = self.answers.iter().find_map(|(answered, _, answer)| match answer {
            Ok(response) if response.revision() >= revision => Some(*answered),
            _ => None,
        });
        let may_be_it = |record: &&CallRecord| {
            let asked = record.asked.sequence;
            let is_unknown = record.answer().map_or(Fate::Unknown, fate_of) == Fate::Unknown;
            let is_possible = match record.op {
                Op::Compact(_) => false,
                Op::Lease(LeaseOp::Grant { .. }) => {
                    is_unknown || record.answer().is_some_and(Result::is_ok)
                }
                Op::Lease(_) => false,
                _ => is_unknown && record.op.can_change() && check(&record.op).is_ok(),
            };
            is_possible
                && shown.is_some_and(|shown| asked < shown)
                && self.floor.at(asked) < revision
        };
        self.history.calls.iter().filter(may_be_it).collect()
    }
}

/// Whether a member may answer a call from its own, perhaps old, state.
fn is_of_member(op: &Op) -> bool {
    op.is_serializable() || matches!(op, Op::Lease(op) if op.is_question())
}

/// The revision of the state that an answer shows.
fn read_at(op: &Op, response: &Response) -> i64 {
    match op {
        Op::Range(range) if (1..response.revision()).contains(&range.revision) => range.revision,
        _ => response.revision(),
    }
}

/// The older revisions that a call asks for.
fn asked_revisions(op: &Op) -> Vec<i64> {
    match op {
        Op::Compact(compact) => vec![compact.revision],
        op => op.ranges().iter().map(|range| range.revision).filter(|it| *it != 0).collect(),
    }
}

#[cfg(test)]
mod tests;
