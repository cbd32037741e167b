//! The work that a leader does for etcd's space as time passes: it ends leases that nobody keeps
//! alive, and compacts the history. It also answers the questions of clients about leases.
//!
//! Only the leader's deadlines count. A member sends the questions of its clients to the leader, in
//! one message for all that have come since the last. The leader answers a question when two things
//! have happened: a ReadIndex round that began after the question arrived has returned, and the
//! leader has applied the index of that round. So it certainly leads, and it knows every lease that
//! was granted before. A question about a lease whose expiry is under way waits until the lease has
//! ended.
//!
//! A renewal (keep-alive) may be answered late, if Apply or the round takes long. So a renewal that
//! has arrived protects its lease from expiry at once: until the renewal is answered, or until the
//! client no longer waits for the answer.
//!
//! To ask a question twice has the effect of asking it once. So a member asks again whenever a
//! question may have been lost, and a new leader needs nothing from the previous one.

pub mod auto_compaction;
pub(crate) mod calls;
pub(crate) mod questions;

use machine::etcd::change::Changes;
use machine::etcd::command::Command as EtcdCommand;
use machine::etcd::{Settings, Store};
use machine::limits::EXPIRE_LEASES_MAX;
use machine::{Command, LeaseChange, LeaseId, Level, LogIndex};

use super::deadlines::{Deadlines, TimeLeft};
use super::look::{Held, Look};
use crate::lease::{LeaseQuestion, LeaseTime};
use crate::spaces::limits::{LEASE_CALLS_MAX, LEASE_GRACE_MS, LEASE_TICK_MS, LEASES_EXPIRED_MAX};
use auto_compaction::{AutoCompaction, AutoCompactor};
use calls::{Arrived, Asker, LeaseCalls};
use questions::LeaseQuestions;

/// The part of a member's configuration that concerns etcd's space.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The replicated settings that this member wants.
    pub settings: Settings,
    /// The compactions that this member begins automatically while it leads.
    pub auto_compaction: AutoCompaction,
    /// Whether this server serves no clients of ZooKeeper: a state of level 1 is of no use to it.
    pub is_alone: bool,
}

/// Changes of etcd's space that a leader must know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Changes of leases, in the order in which they were applied.
    pub leases: Vec<LeaseChange>,
    /// The settings, if they have been set.
    pub settings: Option<Settings>,
    /// The revision of the keys, if a command of etcd's space was applied.
    pub revision: Option<i64>,
}

impl News {
    pub(super) fn from_changes(changes: &Changes) -> News {
        let (settings, revision) = (changes.settings(), changes.revision());
        News { leases: changes.deadlines().to_vec(), settings, revision }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.leases.is_empty() && self.settings.is_none() && self.revision.is_none()
    }
}

/// The room of etcd's space.
pub(crate) struct Etcd {
    leases: Deadlines<LeaseId>,
    /// The replicated settings, as they are in the state.
    settings: Settings,
    wanted: Settings,
    /// Whether this server serves no clients of ZooKeeper.
    is_alone: bool,
    /// The revision of the keys, from Apply's last news.
    revision: i64,
    auto_compactor: AutoCompactor,
    /// The questions of this member's own clients.
    pub questions: LeaseQuestions,
    /// The questions of all members that this leader has not answered; `None` unless leading.
    calls: Option<LeaseCalls>,
    /// The revision to which this leader has begun to compact since the last call of
    /// [`Etcd::take_compacting`].
    compacting: Option<i64>,
    /// Leases whose expiry this member has begun, since the start.
    pub(super) expired_count: u64,
    /// Compactions that this member has begun automatically, since the start.
    pub(super) compaction_count: u64,
}

impl Etcd {
    pub(super) fn new(options: Options, state: &Store) -> Etcd {
        let revision = state.revision();
        let mut room = Etcd {
            leases: Deadlines::new(LEASE_TICK_MS, LEASE_GRACE_MS),
            settings: state.settings(),
            wanted: options.settings,
            is_alone: options.is_alone,
            revision,
            auto_compactor: AutoCompactor::new(options.auto_compaction, revision),
            questions: LeaseQuestions::default(),
            calls: None,
            compacting: None,
            expired_count: 0,
            compaction_count: 0,
        };
        let leases = state.leases().deadlines();
        room.on_applied(false, News { leases, settings: None, revision: None });
        room
    }

    pub(super) fn on_applied(&mut self, is_replaced: bool, news: News) {
        self.revision = news.revision.unwrap_or(self.revision);
        if is_replaced {
            self.leases.clear();
        }
        for change in news.leases {
            let lease = match change {
                LeaseChange::Granted { lease, granted, ttl_s } => {
                    self.leases.attach(lease, granted, ttl_s as u64 * 1_000);
                    if let Some(calls) = &self.calls {
                        self.leases.protect(lease, calls.protected_until_ms(lease));
                    }
                    lease
                }
                LeaseChange::Ended(lease) => {
                    self.leases.close(lease);
                    lease
                }
            };
            let fated = self.calls.as_mut().and_then(|calls| calls.fated.remove(&lease));
            for arrived in fated.into_iter().flatten() {
                self.answer(arrived);
            }
        }
        if let Some(settings) = news.settings {
            self.settings = settings;
        }
    }

    pub(super) fn begin_leading(&mut self) {
        self.calls = Some(LeaseCalls::default());
    }

    pub(super) fn end_leading(&mut self) {
        self.calls = None;
    }

    pub(super) fn renew_all(&mut self) {
        self.leases.renew_all();
    }

    pub(super) fn advance(&mut self, elapsed_ms: u64, planned_ms: u64) {
        self.leases.advance(elapsed_ms, planned_ms);
    }

    pub(super) fn deadline_ms(&self) -> Option<u64> {
        self.leases.due_ms()
    }

    pub(super) fn due(&mut self, look: &Look, submit: &mut dyn FnMut(&Command<'_>)) {
        let may_compact = look.leads && look.level >= Level::ETCD;
        if let Some(revision) = self.auto_compactor.step(look.now_ms, self.revision, may_compact) {
            self.compaction_count += 1;
            self.compacting = Some(revision);
            submit(&Command::Etcd(EtcdCommand::Compact { revision }));
        }
        if !look.may_judge() {
            return;
        }
        let expired = self.leases.expired(LEASES_EXPIRED_MAX);
        self.expired_count += expired.len() as u64;
        for leases in expired.chunks(EXPIRE_LEASES_MAX) {
            submit(&Command::Etcd(EtcdCommand::Expire { leases: leases.to_vec() }));
        }
    }

    /// The level that the configuration of this member needs: a state of level 1 has no keys.
    pub(super) fn level_needed(&self) -> Level {
        if self.is_alone { Level::ETCD } else { Level::FIRST }
    }

    pub(super) fn wanted(&self, level: Level) -> Option<Command<'static>> {
        let differs = level >= Level::ETCD && self.settings != self.wanted;
        differs.then_some(Command::Etcd(EtcdCommand::Configure(self.wanted)))
    }

    pub(super) fn held(&self) -> Held {
        let (deadlines, deadline_places) = (self.leases.len(), self.leases.place_count());
        let calls = self.calls.as_ref().map_or(0, LeaseCalls::count);
        Held { deadlines, deadline_places, questions: self.questions.count() + calls }
    }

    /// When to compact next, or to note the revision, by Loop's clock; `u64::MAX` if never.
    pub fn compaction_due_ms(&self) -> u64 {
        self.auto_compactor.due_ms()
    }

    /// The revision to which this leader has begun to compact automatically since the last call.
    pub fn take_compacting(&mut self) -> Option<i64> {
        self.compacting.take()
    }

    /// The questions that this leader has not answered; `None` unless leading.
    pub fn calls(&mut self) -> Option<&mut LeaseCalls> {
        self.calls.as_mut()
    }

    /// Takes a question that has arrived at this leader. The same question is kept only once.
    pub fn on_asked(&mut self, from: Asker, number: u64, question: LeaseQuestion) {
        let Some(calls) = &mut self.calls else { return };
        if calls.known.len() >= LEASE_CALLS_MAX || !calls.known.insert((from, number)) {
            return;
        }
        let arrived_ms = self.leases.now_ms();
        calls.arrived.push(Arrived { from, number, question, arrived_ms });
        if question.renews {
            let until_ms = calls.on_renewal(question.lease, arrived_ms);
            self.leases.protect(question.lease, until_ms);
        }
    }

    /// Answers the questions whose round has returned an index up to `applied`.
    pub fn answer_up_to(&mut self, applied: LogIndex) {
        let Some(calls) = &mut self.calls else { return };
        let mut ready = Vec::new();
        calls.confirmed.retain_mut(|(index, arrived)| {
            let is_ready = *index <= applied;
            if is_ready {
                ready.append(arrived);
            }
            !is_ready
        });
        for arrived in ready {
            self.answer(arrived);
        }
    }

    fn answer(&mut self, arrived: Arrived) {
        let Some(calls) = &mut self.calls else { return };
        let LeaseQuestion { lease, renews } = arrived.question;
        let time = match self.leases.left(lease) {
            Some(TimeLeft::Judged) => {
                calls.fated.entry(lease).or_default().push(arrived);
                return;
            }
            Some(TimeLeft::Some { left_ms, timeout_ms }) => {
                let left_ms = if renews { timeout_ms } else { left_ms };
                Some(LeaseTime { granted_s: (timeout_ms / 1_000) as i64, left_ms })
            }
            None => None,
        };
        if renews {
            self.leases.heard(lease);
            self.leases.protect(lease, calls.on_renewed(lease, arrived.arrived_ms));
        }
        calls.known.remove(&(arrived.from, arrived.number));
        calls.answers.entry(arrived.from).or_default().push((arrived.number, time));
    }
}
