//! What the tasks of a run share, and how a call is sent and counted.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use etcd::pb::{Message, etcdserverpb as pb};
use tokio::time::timeout;

use super::cluster::{Mix, Registry};
use super::objects::Objects;
use super::value::Values;
use crate::client_etcd::{Call, Client};
use crate::limits::SILENCE_LIMIT;
use crate::meter::Tally;

/// The kinds of calls that are told apart in the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A put in a transaction that compares the revision of the key.
    Update,
    /// A put in a transaction, of a key that must not be there.
    Create,
    /// A delete in a transaction that compares the revision of the key.
    Delete,
    /// A put of an event, with its lease.
    Event,
    /// A lease for events.
    Lease,
    /// A linearizable read of one key.
    Get,
    /// A count of a kind.
    Count,
    /// A page of a list.
    Page,
    /// A compaction.
    Compaction,
}

impl What {
    /// How many there are.
    pub const COUNT: usize = 9;
}

/// The answers so far.
#[derive(Debug, Default)]
pub struct Answers {
    /// For each kind of call.
    pub tallies: [Tally; What::COUNT],
    /// The longest time without any answer, in ns.
    pub gap_ns: u64,
    /// When the last answer came, in ns since the start; 0 before the first.
    pub last_ns: u64,
    /// Guarded updates that were refused since another one came first.
    pub conflicts: u64,
    /// Guarded updates that were given up after many refusals.
    pub given_up: u64,
    /// Lists whose revision was compacted before their last page.
    pub lists_compacted: u64,
}

impl Answers {
    fn count(&mut self, what: What, is_right: bool, took_ns: u64, now_ns: u64) {
        self.tallies[what as usize].count(is_right, took_ns);
        if self.last_ns > 0 {
            self.gap_ns = self.gap_ns.max(now_ns.saturating_sub(self.last_ns));
        }
        self.last_ns = now_ns;
    }
}

/// A shared lease of events.
#[derive(Clone, Copy, Debug)]
pub struct EventLease {
    /// Its id.
    pub id: i64,
    /// When another one takes its place, in ns since the start.
    pub until_ns: u64,
}

/// The outcome of a call.
pub enum Outcome<R> {
    /// A response.
    Answer(R),
    /// A list's revision was compacted.
    Compacted,
    /// No answer, or an error: a write may have happened.
    Unknown,
}

/// What the tasks of a run share.
pub struct Run {
    /// The begin of all times.
    pub started: Instant,
    /// Seconds of the cluster's time in a second.
    pub compress: f64,
    /// What the cluster does, and how often.
    pub mix: Mix,
    /// The keys.
    pub registry: Registry,
    /// The objects.
    pub objects: Objects,
    /// Their values.
    pub values: Values,
    /// The lease of the events that are written now.
    pub event_lease: tokio::sync::Mutex<Option<EventLease>>,
    /// The newest revision that an answer told.
    pub revision: AtomicI64,
    answers: Mutex<Answers>,
}

impl Run {
    /// A run that begins now.
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

    /// Ns since the start.
    pub fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    /// The answers so far.
    pub fn answers(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a call and counts its answer, whose latency counts from `since_ns`. `is_right` judges
    /// the response.
    pub async fn ask<R: Message + Default>(
        &self,
        client: &mut Client,
        (what, since_ns): (What, u64),
        path: &str,
        request: &impl Message,
        is_right: impl FnOnce(&R) -> bool,
    ) -> Outcome<R> {
        let Ok(call) = Call::new(path, request) else { return Outcome::Unknown };
        let answer = timeout(SILENCE_LIMIT, client.ask(&call)).await;
        let now_ns = self.now_ns();
        let took_ns = now_ns.saturating_sub(since_ns);
        let answer = answer.ok().and_then(Result::ok);
        if what == What::Page
            && let Some(refused) = answer.as_ref().filter(|it| it.message.contains("compacted"))
        {
            let mut answers = self.answers();
            answers.count(what, refused.code != 0, took_ns, now_ns);
            answers.lists_compacted += 1;
            return Outcome::Compacted;
        }
        let response = answer.filter(|it| it.code == 0).and_then(|it| R::decode(it.body).ok());
        self.answers().count(what, response.as_ref().is_some_and(is_right), took_ns, now_ns);
        response.map_or(Outcome::Unknown, Outcome::Answer)
    }

    /// Notes the revision of a response, and returns it.
    pub fn note(&self, header: Option<&pb::ResponseHeader>) -> i64 {
        let revision = header.map_or(0, |it| it.revision);
        self.revision.fetch_max(revision, Ordering::Relaxed);
        revision
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_gap_lies_between_two_answers_of_any_kind() {
        let mut answers = Answers::default();
        for (what, now_ns) in [(What::Get, 500), (What::Update, 600), (What::Page, 900)] {
            answers.count(what, true, 1, now_ns);
        }
        answers.count(What::Get, false, 1, 950);
        assert_eq!((answers.gap_ns, answers.last_ns), (300, 950));
        let get = &answers.tallies[What::Get as usize];
        assert_eq!((get.answered, get.errors), (2, 1));
        assert_eq!(What::Compaction as usize + 1, What::COUNT);
    }
}
