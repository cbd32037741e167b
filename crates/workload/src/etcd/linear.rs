//! The judge without a claim, for real processes: is what clients saw what one server, doing one
//! call after the other, could have shown them?
//!
//! It sees only the answers. Each names its revision, and a write that changes keys has one of its
//! own: so the answers give the order. The judge rebuilds the state at each revision from the
//! writes. If no acknowledged write made a revision, a write of unknown fate did: the judge tries
//! each effect that a candidate has in a *world* of its own, and drops the worlds that later
//! answers contradict. It rejects a history if no world is left.
//!
//! **What is proved** of a history that is accepted:
//! - No two acknowledged writes have one revision. Each, done on the state of the revision before,
//!   has exactly its answer. Every other revision was made by a write of unknown fate, each once.
//! - Every read, failed transaction and delete of nothing has the answer of the state at the
//!   revision in its header, or at the older one that a range asks for, in one and the same world.
//! - An answer shows no older revision than any answer before the call was sent (for serializable
//!   reads: than any answer on the same connection); a write has a newer one. No answer shows a
//!   write that was sent after it.
//! - A range at an older revision is not answered after a compaction beyond it was acknowledged;
//!   a call is refused as compacted only if a compaction that does it had been sent, and for a
//!   future revision only if that had not been shown before.
//! - The checks before the log refuse what they must, and nothing else.
//!
//! **What is not**: refusals carry no revision, so the judge knows only when they were given. A
//! refusal for a missing key, lease or space must only fit its own call. Compactions have no place
//! in the order, and a serializable range may be answered after one. With more than
//! [`WORLDS_MAX`] worlds the rest of the states is not compared ([`Verdict::uncompared_count`]).
//!
//! **What the load must keep to**: the store is fresh, only these clients write to it, and no
//! lease is granted. Few writes may be of unknown fate at once, unless somebody reads all keys at
//! each revision that no answer told of.

use std::collections::BTreeMap;

use crate::etcd::finding::{Rule, Violation, check_form, fate_of, violation};
use crate::etcd::floor::Floor;
use crate::etcd::form::check;
use crate::etcd::history::{CallRecord, History};
use crate::etcd::op::{Answer, Error, Fate, Op, Response};

mod worlds;

pub use worlds::WORLDS_MAX;

use worlds::Worlds;

/// Counts of what was judged in a sound history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Writes that were answered and changed keys.
    pub change_count: usize,
    /// Calls that were answered and changed none: reads, failed transactions, compactions.
    pub read_count: usize,
    /// Calls that the store refused.
    pub refused_count: usize,
    /// Writes of unknown fate.
    pub unknown_count: usize,
    /// Revisions that no acknowledged write has.
    pub gap_count: usize,
    /// Answers that were not compared with a state, because there were too many worlds.
    pub uncompared_count: usize,
}

/// Judges a history.
///
/// # Errors
/// The first finding that no correct server would give.
pub fn judge(history: &History) -> Result<Verdict, Violation> {
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
    sight.compare(&mut verdict)?;
    Ok(verdict)
}

/// The answers, by time and by revision.
struct Sight<'h> {
    history: &'h History,
    answers: Vec<(u64, &'h CallRecord, &'h Answer)>,
    /// Acknowledged writes that changed keys, by revision.
    changes: BTreeMap<i64, &'h CallRecord>,
    /// The newest revision shown to anybody.
    floor: Floor<i64>,
    /// The newest revision shown on each connection.
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

    /// The revision that the answer to a call must show at least.
    fn low(&self, record: &CallRecord) -> i64 {
        let is_serializable = record.op.is_serializable();
        let floor = if is_serializable { &self.floors[record.connection] } else { &self.floor };
        floor.at(record.asked.sequence)
    }

    /// Checks that answers show what they must, and nothing that was sent only later.
    fn check_times(&self) -> Result<(), Violation> {
        // For each revision of a change, the time at which the last one so far was sent.
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
                let is_serializable = record.op.is_serializable();
                let rule = if is_serializable { Rule::Connection } else { Rule::RealTime };
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
                Err(_) => true,
            };
            if !is_possible {
                let rule = if record.op.is_read() { Rule::Read } else { Rule::Answer };
                return violation(rule, "no state gives its answer", record);
            }
        }
        Ok(())
    }

    /// The revisions of compactions that were acknowledged before this time.
    fn compacted_before(&self, time: u64) -> impl Iterator<Item = i64> {
        let answers = self.answers.iter().take_while(move |(answered, ..)| *answered < time);
        answers.filter_map(|(_, record, answer)| match (&record.op, answer) {
            (Op::Compact(compact), Ok(_)) => Some(compact.revision),
            _ => None,
        })
    }

    /// Whether no compaction forbids that it was done.
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

    /// Whether a compaction that others sent before this time can be the reason of a refusal.
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
            // Outside of a transaction a negative revision is the newest.
            Op::Range(_) => revisions.iter().any(|it| *it > 0 && *it < newest),
            _ => revisions.iter().any(|it| *it < newest),
        }
    }

    // States.

    fn compare(&self, verdict: &mut Verdict) -> Result<(), Violation> {
        let mut views: BTreeMap<i64, Vec<&CallRecord>> = BTreeMap::new();
        for (_, record, answer) in &self.answers {
            let Ok(response) = answer else { continue };
            verdict.read_count += usize::from(!response.tells_change());
            if !response.tells_change() && !matches!(response, Response::Compact { .. }) {
                views.entry(read_at(&record.op, response)).or_default().push(record);
            }
        }
        verdict.change_count = self.changes.len();
        let newest = self.floor.at(u64::MAX);
        let mut worlds = Worlds::new();
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
        Ok(())
    }

    /// The writes of unknown fate that may have made a revision.
    fn candidates(&self, revision: i64) -> Vec<&'h CallRecord> {
        let shown = self.answers.iter().find_map(|(answered, _, answer)| match answer {
            Ok(response) if response.revision() >= revision => Some(*answered),
            _ => None,
        });
        let may_be_it = |record: &&CallRecord| {
            let asked = record.asked.sequence;
            record.op.can_change()
                && !matches!(record.op, Op::Compact(_))
                && check(&record.op).is_ok()
                && record.answer().map_or(Fate::Unknown, fate_of) == Fate::Unknown
                && shown.is_some_and(|shown| asked < shown)
                && self.floor.at(asked) < revision
        };
        self.history.calls.iter().filter(may_be_it).collect()
    }
}

/// The revision of the state that an answer shows.
fn read_at(op: &Op, response: &Response) -> i64 {
    match op {
        Op::Range(range) if (1..response.revision()).contains(&range.revision) => range.revision,
        _ => response.revision(),
    }
}

/// The revisions other than the newest that a call asks for.
fn asked_revisions(op: &Op) -> Vec<i64> {
    match op {
        Op::Compact(compact) => vec![compact.revision],
        op => op.ranges().iter().map(|range| range.revision).filter(|it| *it != 0).collect(),
    }
}

#[cfg(test)]
mod tests;
