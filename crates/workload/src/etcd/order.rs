//! The judge with a claim: could a single server, doing one call after the other, have given every
//! answer in a history?
//!
//! The judge gets the history and a *claim*: the order in which the server claims to have committed
//! the writes. The judge does not trust the claim. A *place* is a number n of commands of the claim
//! and names the state after the first n. The judge checks:
//!
//! - **Claim.** Each call in the claim was sent by a client, is in the claim once, is not a read,
//!   and passes the checks before the log. (Parts of locks and elections are trusted:
//!   [`crate::etcd::locks`] judges their results.)
//! - **Fate.** A call that was refused before the log is not in the claim. A write with any other
//!   answer is in the claim, even if the store refused it. A write of unknown fate may be.
//! - **Answer.** Replayed on the model, each acknowledged write has exactly its answer, including
//!   the revision. (The header of a compaction may show a newer revision, as etcd's does.)
//! - **Form.** The checks before the log refuse what they must, and nothing else.
//! - **Order of time.** A call sees everything that was answered before it was sent: a write comes
//!   after it in the claim, and a linearizable read shows no earlier place. No answer shows a
//!   command that was sent after it.
//! - **Connection.** A serializable read shows no earlier place than the earlier answers on its
//!   connection.
//! - **Read.** Each answer to a read, even a refusal, is the model's at a place that these rules
//!   allow: with its header's revision, and with the compaction that a refusal needs or a value
//!   forbids. A streamed read is one read, at the place where it began; its pieces together are the
//!   answer. It ends as compacted only if a compaction passed its revision after that place, or if
//!   its member installed a snapshot meanwhile.
//!
//! Since every write has a place in the claim, each read can be given the earliest place that fits,
//! in the order of answers. If that fails, no other choice succeeds.
//!
//! **Not checked:** whether a refusal before the log had a reason (no leader, too many requests, no
//! room on a disk); how late a write of unknown fate may take effect, which depends on faults (the
//! simulation judges that); why leases end, which the claim states ([`crate::etcd::leases`] judges
//! when leases end, and the answers about them). Watches are no calls here; they have their own
//! judge ([`crate::etcd::watch`]).

use std::collections::{BTreeMap, BTreeSet};

use crate::etcd::finding::{Rule, Violation, check_form, fate_of, shorten, violation};
use crate::etcd::floor::Floor;
use crate::etcd::form::check;
use crate::etcd::history::{Answered, CallId, CallRecord, History};
use crate::etcd::model::{Model, View};
use crate::etcd::op::{Answer, Compact, Error, Fate, LeaseOp, Op, Response};
use crate::etcd::watch::Timeline;

/// One command of the claimed order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// A call of a client that is not a read.
    Call(CallId),
    /// A member's own command, as a part of a client's `Lock` or `Campaign` call. No client learns
    /// its result.
    Part(Op),
    /// A lease is granted, by no recorded call.
    Grant {
        /// The lease id.
        lease: i64,
    },
    /// A lease ends, by no recorded call.
    Revoke {
        /// The lease id.
        lease: i64,
    },
    /// The leader expires a lease. It has no effect if the lease was granted again since.
    Expire {
        /// The lease id.
        lease: i64,
        /// The position in the claim of the grant that the leader judged.
        granted: usize,
    },
    /// The leader compacts automatically. The store refuses it if it is already compacted that far.
    Compaction {
        /// The compacted revision.
        revision: i64,
    },
    /// The quota changes.
    Quota {
        /// The new quota, in bytes.
        bytes: u64,
    },
    /// The limit of the memory for keys and leases begins.
    Bound,
    /// An operator disarms a member's alarm for want of space.
    Disarm {
        /// The member id.
        member: u64,
    },
    /// Puts are refused for want of space from now on, whatever the quota, or no longer.
    NoSpace {
        /// Whether puts are refused from now on.
        is_raised: bool,
    },
}

/// The result of judging an accepted history.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The model after the whole claim.
    pub model: Model,
    /// The state at each place of the claim, with the time before which it cannot have been shown.
    pub timeline: Timeline,
    /// Writes answered with success.
    pub acknowledged_count: usize,
    /// Writes that the store refused.
    pub refused_count: usize,
    /// Calls that were refused before the log.
    pub never_logged_count: usize,
    /// Reads answered with a value.
    pub read_count: usize,
    /// Reads that the store refused: compacted, or a future revision.
    pub read_refused_count: usize,
    /// Writes of unknown fate that are in the claim.
    pub unknown_done_count: usize,
    /// Writes of unknown fate that are not in the claim.
    pub unknown_count: usize,
    /// Automatic compactions that the store did not refuse.
    pub own_compaction_count: usize,
    /// Calls in the claim that the store did not refuse.
    pub done: BTreeSet<CallId>,
    /// Calls in the claim that the store refused for want of space.
    pub spaceless: BTreeSet<CallId>,
    /// How often the first alarm was raised, and how often the last one ended, so that no alarm was
    /// left.
    pub alarm_counts: (usize, usize),
}

/// Judges a history.
///
/// # Errors
/// The first thing that a correct server could not have done.
pub fn judge(history: &History, claim: &[Claimed]) -> Result<Verdict, Violation> {
    judge_with(history, claim, &[], &BTreeSet::new())
}

/// Like [`judge`]. `members` gives for each command the member that submitted it. `cut` holds calls
/// whose members installed a snapshot before they answered: if such a call is a streamed read, it
/// may end as compacted.
///
/// # Errors
/// Like [`judge`].
pub fn judge_with(
    history: &History,
    claim: &[Claimed],
    members: &[u64],
    cut: &BTreeSet<CallId>,
) -> Result<Verdict, Violation> {
    let replay = Replay::new(history, claim, members, cut)?;
    replay.check_calls()?;
    replay.check_times()?;
    Ok(replay.verdict())
}

/// The claim, replayed on the model.
struct Replay<'h> {
    history: &'h History,
    /// Calls whose members installed a snapshot before they answered.
    cut: &'h BTreeSet<CallId>,
    model: Model,
    /// For each call, its index in the claim; `None` if it is not in the claim.
    indices: Vec<Option<usize>>,
    /// The state at each place.
    views: Vec<View>,
    /// For each place, the latest time at which a command up to it was sent.
    asked: Vec<u64>,
    own_compaction_count: usize,
    /// The existing leases, with the indices of their grants in the claim.
    granted: BTreeMap<i64, usize>,
    done: BTreeSet<CallId>,
    spaceless: BTreeSet<CallId>,
    alarm_counts: (usize, usize),
}

/// The places that a call may show by the rules of time, both bounds included.
#[derive(Clone, Copy)]
struct Window {
    low: usize,
    high: usize,
}

impl<'h> Replay<'h> {
    fn new(
        history: &'h History,
        claim: &[Claimed],
        members: &[u64],
        cut: &'h BTreeSet<CallId>,
    ) -> Result<Replay<'h>, Violation> {
        let model = Model::new();
        let mut replay = Replay {
            history,
            cut,
            indices: vec![None; history.calls.len()],
            views: vec![model.view()],
            asked: vec![0],
            own_compaction_count: 0,
            granted: BTreeMap::new(),
            done: BTreeSet::new(),
            spaceless: BTreeSet::new(),
            alarm_counts: (0, 0),
            model,
        };
        for (index, command) in claim.iter().enumerate() {
            let mut asked = replay.asked[index];
            let member = members.get(index).copied().unwrap_or(0);
            let was_alarmed = replay.model.is_alarmed();
            match command {
                Claimed::Call(id) => asked = asked.max(replay.call(index, *id, member)?),
                Claimed::Part(op) => drop(replay.model.apply_by(op, member)),
                Claimed::Grant { lease } => replay.model.grant(*lease),
                Claimed::Revoke { lease } => replay.model.revoke(*lease),
                Claimed::Expire { lease, granted } => {
                    if replay.granted.get(lease) == Some(granted) {
                        replay.granted.remove(lease);
                        replay.model.revoke(*lease);
                    }
                }
                Claimed::Compaction { revision } => {
                    let compact = Compact { revision: *revision, physical: false };
                    let done = replay.model.apply(&Op::Compact(compact));
                    replay.own_compaction_count += usize::from(done.is_ok());
                }
                Claimed::Quota { bytes } => replay.model.set_quota(*bytes),
                Claimed::Bound => replay.model.bound(),
                Claimed::Disarm { member } => _ = replay.model.disarm(*member),
                Claimed::NoSpace { is_raised } => replay.model.set_no_space(*is_raised),
            }
            let is_alarmed = replay.model.is_alarmed();
            replay.alarm_counts.0 += usize::from(is_alarmed && !was_alarmed);
            replay.alarm_counts.1 += usize::from(was_alarmed && !is_alarmed);
            replay.asked.push(asked);
            replay.views.push(replay.model.view());
        }
        Ok(replay)
    }

    /// Replays one call of the claim. Returns when it was sent.
    fn call(&mut self, index: usize, id: CallId, member: u64) -> Result<u64, Violation> {
        let Some(position) = self.history.position(id) else {
            let what = format!("command {index} is {id:?}: nobody sent it");
            return Err(Violation { rule: Rule::Claim, what });
        };
        let record = &self.history.calls[position];
        let problem = match (self.indices[position], check(&record.op)) {
            (Some(earlier), _) => Some(format!("it is command {earlier} and command {index}")),
            (None, Err(error)) => Some(format!("it is command {index}, and {error:?} is due")),
            (None, Ok(())) if record.op.is_read() => Some(format!("command {index} is a read")),
            (None, Ok(())) => None,
        };
        if let Some(what) = problem {
            return violation(Rule::Claim, &what, record);
        }
        self.indices[position] = Some(index);
        let expected = self.model.apply_by(&record.op, member);
        match expected {
            Ok(_) => _ = self.done.insert(id),
            Err(Error::NoSpace) => _ = self.spaceless.insert(id),
            Err(_) => {}
        }
        match (&record.op, &expected) {
            (Op::Lease(LeaseOp::Grant { lease, .. }), Ok(_)) => {
                self.granted.insert(*lease, index);
            }
            (Op::Lease(LeaseOp::Revoke { lease }), Ok(_)) => {
                self.granted.remove(lease);
            }
            _ => {}
        }
        if let Some(Answered { answer, .. }) = &record.answered {
            check_answer(record, answer, &expected)?;
        }
        Ok(record.asked.sequence)
    }

    /// Checks the form of each call, and that the claim contains it if it must.
    fn check_calls(&self) -> Result<(), Violation> {
        for (position, record) in self.history.calls.iter().enumerate() {
            let Some(Answered { answer, .. }) = &record.answered else { continue };
            let is_judged = check_form(record, answer)?;
            if is_judged && record.op.can_change() && self.indices[position].is_none() {
                return violation(Rule::Fate, "it is not in the claim", record);
            }
        }
        Ok(())
    }

    /// Checks what each answer shows against everything that was shown before.
    fn check_times(&self) -> Result<(), Violation> {
        let mut floor: Floor<usize> = Floor::default();
        let mut floors = vec![Floor::default(); self.history.connections.len()];
        for (answered, record, answer) in self.history.answers() {
            if matches!(record.op, Op::Lease(op) if op.is_question()) {
                continue;
            }
            let own: &mut Floor<usize> = &mut floors[record.connection];
            let asked = record.asked.sequence;
            let low = if record.op.is_serializable() { own.at(asked) } else { floor.at(asked) };
            let window = Window { low, high: self.high(answered) };
            let index = self.history.position(record.id).and_then(|it| self.indices[it]);
            let place = match (index, fate_of(answer)) {
                (_, Fate::NeverLogged | Fate::Unknown) => None,
                (Some(index), Fate::Judged) => Some(self.show_write(record, index, window)?),
                (None, Fate::Judged) => self.show_read(record, answer, window)?,
            };
            if let Some(place) = place {
                floor.raise(answered, place);
                own.raise(answered, place);
            }
        }
        for (record, index) in self.history.calls.iter().zip(&self.indices) {
            // A call without an answer, too, must come after what was answered before it was sent.
            if index.is_some_and(|index| index < floor.at(record.asked.sequence)) {
                let what = "it stands in the claim before what was shown before it was sent";
                return violation(Rule::RealTime, what, record);
            }
        }
        Ok(())
    }

    /// The last place whose commands had all been sent when an answer arrived at `answered`.
    fn high(&self, answered: u64) -> usize {
        self.asked.partition_point(|asked| *asked < answered) - 1
    }

    /// Checks that an answered write does not come after anything that was sent after its answer.
    /// Returns the place that the answer shows.
    fn show_write(
        &self,
        record: &CallRecord,
        index: usize,
        window: Window,
    ) -> Result<usize, Violation> {
        let place = index + 1;
        if place > window.high {
            let what = "it stands in the claim behind what was sent after its answer";
            return violation(Rule::RealTime, what, record);
        }
        let Some(Ok(Response::Compact { revision })) = record.answer() else { return Ok(place) };
        let (low, high) = (self.views[place].revision, self.views[window.high].revision);
        if *revision < low || *revision > high {
            let what = format!("its revision is not from {low} to {high}");
            return violation(Rule::Answer, &what, record);
        }
        Ok(place.max(self.first_with(*revision)))
    }

    /// The first place with at least this revision.
    fn first_with(&self, revision: i64) -> usize {
        self.views.partition_point(|view| view.revision < revision)
    }

    /// Finds the earliest place that a call outside the claim can show; `None` if it shows none.
    fn show_read(
        &self,
        record: &CallRecord,
        answer: &Answer,
        window: Window,
    ) -> Result<Option<usize>, Violation> {
        // The store refuses puts beyond its quota; a server without disk space refuses all writes
        // before the log.
        let is_before_the_log = *answer == Err(Error::NoSpace) && !record.op.is_read();
        if is_before_the_log || check(&record.op).is_err() {
            return Ok(None);
        }
        if *answer == Err(Error::CompactedMeanwhile) {
            return self.check_cut(record, window).map(|()| None);
        }
        if let Some(place) = self.find(&record.op, answer, window) {
            return Ok(Some(place));
        }
        // Name the broken rule: would the answer have been right at another time?
        let earlier = self.find(&record.op, answer, Window { low: 0, ..window });
        let anywhere = Window { low: 0, high: self.views.len() - 1 };
        let rule = match self.find(&record.op, answer, anywhere) {
            None => Rule::Read,
            Some(_) if earlier.is_some() && record.op.is_serializable() => Rule::Connection,
            Some(_) => Rule::RealTime,
        };
        let (low, high) = (self.views[window.low], self.views[window.high]);
        let last = shorten(&self.model.answer_at(&record.op, high));
        let what = format!("no state from {low:?} to {high:?} gives its answer; the last: {last}");
        violation(rule, &what, record)
    }

    /// Checks that a streamed read had a reason to end as compacted.
    fn check_cut(&self, record: &CallRecord, window: Window) -> Result<(), Violation> {
        let (first, last) = (self.views[window.low], self.views[window.high]);
        let is_passed = match &record.op {
            Op::Range(range) if range.revision > 0 => range.revision < last.compacted,
            _ => first.revision < last.compacted,
        };
        if is_passed || self.cut.contains(&record.id) {
            return Ok(());
        }
        let what = format!("no compaction from {first:?} to {last:?} passed it");
        violation(Rule::Read, &what, record)
    }

    /// The earliest place in the window at which the model gives this answer.
    fn find(&self, op: &Op, answer: &Answer, window: Window) -> Option<usize> {
        let (mut low, mut high) = (window.low, window.high);
        if let Ok(response) = answer {
            low = low.max(self.first_with(response.revision()));
            high = high.min(self.first_with(response.revision().saturating_add(1)).checked_sub(1)?);
        }
        let mut last = None;
        for place in low..=high {
            let view = self.views[place];
            if last.replace(view) != Some(view) && self.model.answer_at(op, view) == *answer {
                return Some(place);
            }
        }
        None
    }

    fn verdict(self) -> Verdict {
        let mut verdict = Verdict {
            model: self.model,
            timeline: Timeline { asked: self.asked, views: self.views, unordered: BTreeSet::new() },
            acknowledged_count: 0,
            refused_count: 0,
            never_logged_count: 0,
            read_count: 0,
            read_refused_count: 0,
            unknown_done_count: 0,
            unknown_count: 0,
            own_compaction_count: self.own_compaction_count,
            done: self.done,
            spaceless: self.spaceless,
            alarm_counts: self.alarm_counts,
        };
        for (record, index) in self.history.calls.iter().zip(&self.indices) {
            let fate = record.answer().map_or(Fate::Unknown, fate_of);
            let is_done = matches!(record.answer(), Some(Ok(_)));
            let is_in_store = !record.op.can_change() && check(&record.op).is_ok();
            let count = match (fate, index) {
                (Fate::Unknown, Some(_)) => &mut verdict.unknown_done_count,
                (Fate::Unknown, None) if record.op.is_read() => continue,
                (Fate::Unknown, None) => &mut verdict.unknown_count,
                (Fate::Judged, Some(_)) if is_done => &mut verdict.acknowledged_count,
                (Fate::Judged, Some(_)) => &mut verdict.refused_count,
                (Fate::Judged, None) if is_done => &mut verdict.read_count,
                (Fate::Judged, None) if is_in_store => &mut verdict.read_refused_count,
                (Fate::Judged | Fate::NeverLogged, _) => &mut verdict.never_logged_count,
            };
            *count += 1;
        }
        verdict
    }
}

/// Checks the answer to a call of the claim against the model's answer.
fn check_answer(record: &CallRecord, answer: &Answer, expected: &Answer) -> Result<(), Violation> {
    match (fate_of(answer), answer, expected) {
        (Fate::Unknown, _, _) => Ok(()),
        (Fate::NeverLogged, _, _) => {
            violation(Rule::Fate, "it stands in the claim, and was refused before the log", record)
        }
        // The revision of a compaction is checked with the times, since etcd reads it only when it
        // answers.
        (_, Ok(Response::Compact { .. }), Ok(Response::Compact { .. })) => Ok(()),
        (_, answer, expected) if answer == expected => Ok(()),
        (_, _, expected) => {
            let what = format!("the answer at its place is {}", shorten(expected));
            violation(Rule::Answer, &what, record)
        }
    }
}

#[cfg(test)]
mod tests;
