//! The state that all tasks of a run share, and how they send a call and count its answer.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use etcd::pb::{Message, etcdserverpb as pb};
use tokio::time::timeout;

use super::cluster::{Kind, Mix, Registry};
use super::objects::Objects;
use super::value::Values;
use crate::limits::{KUBE_SIZES_MAX, SILENCE_LIMIT};
use crate::measure::meter::Tally;
use crate::workloads::etcd::client::{Call, EtcdClient};

/// The kinds of calls. Each has its own figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// An update: a transaction that puts a key if its revision is the expected one.
    Update,
    /// A create: a transaction that puts a key if the key does not exist.
    Create,
    /// A delete: a transaction that deletes a key if its revision is the expected one.
    Delete,
    /// A put of an event with a lease.
    Event,
    /// A grant of a lease for events.
    Lease,
    /// A linearizable read of one key.
    Get,
    /// A count of the keys of a kind.
    Count,
    /// One page of a list.
    Page,
    /// A compaction.
    Compaction,
}

impl CallKind {
    /// The number of kinds of calls.
    pub const COUNT: usize = 9;
}

/// The answers to all calls so far.
#[derive(Debug, Default)]
pub struct Answers {
    /// For each kind of call the answers to it.
    pub tallies: [Tally; CallKind::COUNT],
    /// The longest time without a right answer, ns.
    pub gap_ns: u64,
    /// When the last right answer came, ns since the start. Before the first one: when the first
    /// call was due.
    pub last_ns: u64,
    /// The first [`KUBE_SIZES_MAX`] results of counts, and of first pages of lists.
    pub counts: Vec<Counted>,
    /// Guarded updates and deletes that were refused, because another write came first.
    pub conflicts: u64,
    /// Guarded updates and deletes that were given up after `GUARDED_ATTEMPTS` refusals.
    pub given_up: u64,
    /// Lists that broke off, because their revision was compacted before their last page.
    pub lists_compacted: u64,
}

impl Answers {
    /// No answers yet. The first call is due at `start_ns`.
    pub fn from(start_ns: u64) -> Answers {
        Answers { last_ns: start_ns, ..Answers::default() }
    }

    /// Counts an answer. A wrong or missing one counts as an error, has no latency, and ends no
    /// gap.
    fn count(&mut self, kind: CallKind, is_right: bool, took_ns: u64, now_ns: u64) {
        let tally = &mut self.tallies[kind as usize];
        if !is_right {
            tally.errors += 1;
            return;
        }
        tally.count(true, took_ns);
        self.end_gap(now_ns);
    }

    /// Ends a gap between answers: at a right answer, or at the end of the run.
    pub fn end_gap(&mut self, now_ns: u64) {
        self.gap_ns = self.gap_ns.max(now_ns.saturating_sub(self.last_ns));
        self.last_ns = now_ns;
    }
}

/// The number of keys of a kind at one revision, by a server's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The kind that was counted.
    pub kind: Kind,
    /// The revision of the answer.
    pub revision: i64,
    /// The number of keys.
    pub keys: u64,
}

/// The lease of etcd that events of some time share.
#[derive(Clone, Copy, Debug)]
pub struct EventLease {
    /// The id of the lease.
    pub id: i64,
    /// When new events begin to use another lease, ns since the start.
    pub until_ns: u64,
}

/// The outcome of a call.
pub enum Outcome<R> {
    /// A response came.
    Answer(R),
    /// The revision of a list was compacted.
    Compacted,
    /// No answer or an error came. A write may have been executed.
    Unknown,
}

/// The state that the tasks of a run share.
pub struct Run {
    /// The origin of all times.
    pub started: Instant,
    /// How many seconds of the cluster's time pass in a second.
    pub compress: f64,
    /// The actions of the cluster, and how often each happens.
    pub mix: Mix,
    /// Makes the keys.
    pub registry: Registry,
    /// The objects that exist.
    pub objects: Objects,
    /// Makes the values.
    pub values: Values,
    /// The lease of events that are put now; `None` before the first.
    pub event_lease: tokio::sync::Mutex<Option<EventLease>>,
    /// The newest revision in any answer.
    pub revision: AtomicI64,
    answers: Mutex<Answers>,
}

impl Run {
    /// A run that starts now.
    pub fn new(registry: Registry, mix: Mix, compress: f64) -> Run {
        Run {
            started: Instant::now(),
            compress,
            mix,
            objects: Objects::new(registry.clone()),
            registry,
            values: Values::default(),
            event_lease: tokio::sync::Mutex::new(None),
            revision: AtomicI64::new(0),
            answers: Mutex::default(),
        }
    }

    /// Ns since the start of the run.
    pub fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    /// Locks the answers.
    pub fn answers(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a call and counts its answer. The latency counts from `since_ns`. `is_right` judges
    /// the response.
    pub async fn ask<R: Message + Default>(
        &self,
        client: &mut EtcdClient,
        (kind, since_ns): (CallKind, u64),
        path: &str,
        request: &impl Message,
        is_right: impl FnOnce(&R) -> bool,
    ) -> Outcome<R> {
        let Ok(call) = Call::new(path, request) else { return Outcome::Unknown };
        let answer = timeout(SILENCE_LIMIT, client.ask(&call)).await;
        let now_ns = self.now_ns();
        let took_ns = now_ns.saturating_sub(since_ns);
        let answer = answer.ok().and_then(Result::ok);
        if kind == CallKind::Page
            && let Some(refused) = answer.as_ref().filter(|it| it.message.contains("compacted"))
        {
            let mut answers = self.answers();
            answers.count(kind, refused.code != 0, took_ns, now_ns);
            answers.lists_compacted += 1;
            return Outcome::Compacted;
        }
        let response = answer.filter(|it| it.code == 0).and_then(|it| R::decode(it.body).ok());
        self.answers().count(kind, response.as_ref().is_some_and(is_right), took_ns, now_ns);
        response.map_or(Outcome::Unknown, Outcome::Answer)
    }

    /// Notes the revision in the header of a response, and returns it.
    pub fn note(&self, header: Option<&pb::ResponseHeader>) -> i64 {
        let revision = header.map_or(0, |it| it.revision);
        self.revision.fetch_max(revision, Ordering::Relaxed);
        revision
    }

    /// Keeps the number of keys of a kind that a response reports.
    pub fn note_count(&self, kind: Kind, response: &pb::RangeResponse) {
        let revision = response.header.as_ref().map_or(0, |it| it.revision);
        let counts = &mut self.answers().counts;
        if counts.len() < KUBE_SIZES_MAX {
            counts.push(Counted { kind, revision, keys: response.count.max(0) as u64 });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_gap_lies_between_two_right_answers_of_any_kind() {
        let mut answers = Answers::from(450);
        for (kind, now_ns) in [(CallKind::Get, 500), (CallKind::Update, 600), (CallKind::Page, 900)]
        {
            answers.count(kind, true, 1, now_ns);
        }
        answers.count(CallKind::Get, false, 1, 950);
        assert_eq!((answers.gap_ns, answers.last_ns), (300, 900));
        let get = &answers.tallies[CallKind::Get as usize];
        assert_eq!((get.answered, get.errors, get.latencies.count()), (1, 1, 1));
        // Only an error comes until the end of the run.
        answers.end_gap(1_300);
        assert_eq!(answers.gap_ns, 400);
        assert_eq!(CallKind::Compaction as usize + 1, CallKind::COUNT);
    }
}
