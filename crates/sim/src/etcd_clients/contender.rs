//! A contender: a client that wants a lock or to lead an election, again and again. It works like
//! the sessions, mutexes and elections of etcd's Go package `client/v3/concurrency`: it keeps a
//! lease alive, puts a key with that lease, waits until the key created before its own is deleted,
//! makes guarded writes while it holds the lock or leads, and deletes its key. One such round is a
//! *turn*.
//!
//! Some contenders let a member's `Lock` and `Election` services do this. These cancel calls at any
//! moment, call again at another member, and repeat a call while they hold.
//!
//! A contender only decides: [`Contender::poll`] returns what its client must do, and the client
//! reports the result. A call that fails, or whose answer is lost, is repeated, as callers of that
//! package do.
//!
//! Contenders also have the accidents of real clients: they die silently, which leaves their key in
//! the store until the lease ends; they pause for longer than their session lasts and go on as if
//! nothing had happened; and they write when they no longer hold the lock.

use std::collections::BTreeMap;

use workload::etcd::history::{CallId, History};
use workload::etcd::op::{Answer, Error, LeaseOp, Op, Response};
use workload::etcd::watch::{self, Wanted};
use workload::generate::Random;

use super::observer::Observer;
use super::recipe;

/// The first lease id of contenders. Other clients use smaller ids.
const LEASE_MIN: i64 = 1 << 48;

/// How long a contender waits before it repeats a failed call, in us.
const AGAIN_US: core::ops::RangeInclusive<u64> = 10_000..=500_000;

/// The longest pause of a contender: longer than any session lasts.
const PAUSE_US_MAX: u64 = 12_000_000;

/// The most turns that a contender still takes after the faults have stopped.
const CALM_TURNS_MAX: u64 = 2;

/// The longest hold after the faults have stopped.
const CALM_HOLD_US_MAX: u64 = 500_000;

/// The longest that a client lets a service wait for the lock before it cancels the call.
const SERVED_US_MAX: u64 = 10_000_000;

/// The prize that a contender wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prize {
    /// A lock.
    Lock,
    /// To lead an election. The contender also observes the election.
    Election,
}

/// How a contender behaves.
#[derive(Clone, Debug)]
pub struct ContenderConfig {
    /// The seed of the contender's random choices.
    pub seed: u64,
    /// The prize that the contender wants.
    pub prize: Prize,
    /// How many turns the contender takes.
    pub turns: u64,
    /// The time to live of the contender's leases, in s.
    pub ttl_s: i64,
    /// The longest hold, in us.
    pub hold_us_max: u64,
    /// The longest rest between two turns, in us.
    pub rest_us_max: u64,
    /// The longest time between two accidents, in us; `None` without accidents.
    pub accident_us_max: Option<u64>,
    /// Whether the contender uses a member's `Lock` or `Election` service.
    pub is_served: bool,
}

/// An act that a contender's client must carry out.
#[derive(Debug)]
pub enum Act {
    /// Make a call with this purpose.
    Call(Role, Op),
    /// Call a service, and cancel the call after so many us.
    Serve(Role, Service, u64),
    /// Cancel this call.
    Cancel(CallId),
    /// Begin a watch.
    Watch(Watching, Wanted),
    /// End the watch with this line.
    Forget(usize),
    /// Leave the connection.
    Leave,
    /// Do nothing and handle no messages, for so many us.
    Pause(u64),
}

/// A `Lock` or `Campaign` call, which waits until the contender holds.
#[derive(Clone, Debug)]
pub struct Service {
    /// The name of the lock or the election.
    pub name: &'static [u8],
    /// The session's lease.
    pub lease: i64,
    /// A candidate's value; `None` for a lock.
    pub value: Option<Vec<u8>>,
}

/// The result of a `Lock` or `Campaign` call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// The contender holds. The value is the revision at which its key was created, if the response
    /// has it.
    Holds(Option<i64>),
    /// The call is refused, and may be repeated.
    Refused(etcd::Error),
    /// The key is gone, since its session is over.
    Expired,
    /// The client cancelled the call.
    GivenUp,
}

/// The purpose of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watching {
    /// To wait for the deletion of the key before the contender's own.
    Before,
    /// To observe who leads.
    Leader,
}

/// The purpose of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Grant this lease.
    Grant(i64),
    /// Keep this lease alive.
    KeepAlive(i64),
    /// Put the contender's key, unless it exists.
    Enter,
    /// Wait in a service until the contender holds.
    Acquire,
    /// Call the service again for the lock or the election that the contender already holds.
    Repeat,
    /// Read the last key that was created before the contender's own.
    Look,
    /// Read the contender's own key.
    Confirm,
    /// Make a guarded write in this hold (its position in the history).
    Write(usize),
    /// Put another value, as the leader.
    Proclaim,
    /// Delete the contender's key.
    GiveUp,
    /// Revoke the lease.
    Revoke,
    /// Read who leads, for the observer.
    Observe,
}

impl Role {
    /// Whether the turn continues with this call's result.
    fn is_of_stage(self) -> bool {
        let is_beside = matches!(
            self,
            Role::KeepAlive(_) | Role::Write(_) | Role::Proclaim | Role::Observe | Role::Repeat
        );
        !is_beside
    }
}

/// How far a contender is with its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Resting,
    Granting,
    Entering,
    /// Waiting in a service.
    Acquiring,
    Looking,
    Waiting,
    Confirming,
    Holding,
    GivingUp,
    /// Revoking its lease.
    Closing,
    /// All turns are taken.
    Done,
}

/// A session: a lease, and how long it lasts by the client's clock.
#[derive(Clone, Copy, Debug)]
struct Session {
    lease: i64,
    ttl_us: u64,
    ends_us: u64,
    /// When the next keep-alive is due, in us.
    keep_us: u64,
    /// Whether the client has noticed the session's end.
    is_over: bool,
}

/// The last key created before the contender's own.
#[derive(Clone, Debug, Default)]
struct Before {
    key: Vec<u8>,
    /// A revision at which that key existed.
    revision: i64,
    /// The line of the watch on that key; `None` without a watch.
    line: Option<usize>,
}

/// The current hold of a contender.
#[derive(Clone, Copy, Debug)]
struct Holding {
    /// The hold's position in the history.
    hold: usize,
    until_us: u64,
}

/// Counts of what happened to contenders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContenderCounts {
    /// Waits for the deletion of the key that was created before the contender's own.
    pub waits: usize,
    /// `Lock` and `Campaign` calls that got the lock.
    pub served: usize,
    /// `Lock` and `Campaign` calls that the client cancelled.
    pub given_up: usize,
    /// `Lock` and `Campaign` calls by clients that already held.
    pub repeated: usize,
    /// Waits whose watch ended as compacted.
    pub waits_compacted: usize,
    /// Sessions that ended, by the client's clock or by an answer.
    pub sessions_over: usize,
    /// Accidents in which the client died.
    pub deaths: usize,
    /// Accidents in which the client paused.
    pub pauses: usize,
}

impl ContenderCounts {
    /// Adds the counts of another contender.
    pub fn add(&mut self, other: &ContenderCounts) {
        self.waits += other.waits;
        self.served += other.served;
        self.given_up += other.given_up;
        self.repeated += other.repeated;
        self.waits_compacted += other.waits_compacted;
        self.sessions_over += other.sessions_over;
        self.deaths += other.deaths;
        self.pauses += other.pauses;
    }
}

/// Watches and calls that the contender no longer wants; its client must end them.
#[derive(Debug, Default)]
struct Unwanted {
    /// The lines of watches.
    lines: Vec<usize>,
    calls: Vec<CallId>,
}

impl Unwanted {
    fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.calls.is_empty()
    }

    /// The next watch or call that the client must end.
    fn next(&mut self) -> Option<Act> {
        let line = self.lines.pop().map(Act::Forget);
        line.or_else(|| self.calls.pop().map(Act::Cancel))
    }
}

/// The observer of an election.
#[derive(Debug, Default)]
struct Observing {
    /// `None` for a lock, and once all turns are taken.
    observer: Option<Observer>,
    read_us: u64,
}

impl Observing {
    /// The line of the observer's watch, if it has one.
    fn line(&self) -> Option<usize> {
        self.observer.as_ref().and_then(Observer::line)
    }

    /// When the observer next wants something, in us. It does not read while a read is open.
    fn wakes_us(&self, is_reading: bool) -> u64 {
        let Some(observer) = &self.observer else { return u64::MAX };
        match observer.watch() {
            Some(_) => 0,
            None if observer.read().is_some() && !is_reading => self.read_us,
            None => u64::MAX,
        }
    }

    /// The act that the observer wants now; `None` if none.
    fn poll(&self, is_reading: bool, now_us: u64) -> Option<Act> {
        let observer = self.observer.as_ref()?;
        if let Some(wanted) = observer.watch() {
            return Some(Act::Watch(Watching::Leader, wanted));
        }
        let can_read = self.read_us <= now_us && !is_reading;
        let read = observer.read().filter(|_| can_read)?;
        Some(Act::Call(Role::Observe, read))
    }

    /// A read was answered, or its answer was lost (`None`). The observer reads again at `again_us`
    /// at the earliest.
    fn on_read(&mut self, answer: Option<&Answer>, again_us: u64, history: &mut History) {
        self.read_us = again_us;
        if let Some(observer) = &mut self.observer {
            observer.on_read(answer, history);
        }
    }
}

/// One contender.
#[derive(Debug)]
pub struct Contender {
    client: u32,
    config: ContenderConfig,
    random: Random,
    stage: Stage,
    /// When the turn continues, in us, unless it waits for a call.
    next_us: u64,
    turns_left: u64,
    session: Option<Session>,
    session_count: u32,
    /// The creation revision of the contender's key.
    token: i64,
    before: Before,
    holding: Option<Holding>,
    /// A write in a hold that is already over, which it makes as if it still held.
    last_write: Option<Act>,
    value_count: u64,
    /// Whether the deletion of the contender's key may still take effect later. The deletion of a
    /// lock is not guarded, so it could hit a key that this session puts again; the contender
    /// therefore needs a new session.
    may_unlock_late: bool,
    calls: BTreeMap<CallId, Role>,
    observing: Observing,
    unwanted: Unwanted,
    /// When the contender's next accident comes, in us; `None` without accidents.
    accident_us: Option<u64>,
    is_calm: bool,
    /// Counts of what happened to this contender.
    pub counts: ContenderCounts,
}

impl Contender {
    /// A contender that rests before its first turn.
    pub fn new(client: u32, config: ContenderConfig) -> Contender {
        let mut random = Random::new(config.seed);
        let next_us = random.magnitude(1, 2_000_000);
        let accident_us = config.accident_us_max.map(|max| random.between(1, max));
        let mut contender = Contender {
            client,
            turns_left: config.turns,
            config,
            random,
            stage: Stage::Resting,
            next_us,
            session: None,
            session_count: 0,
            token: 0,
            before: Before::default(),
            holding: None,
            last_write: None,
            value_count: 0,
            may_unlock_late: false,
            calls: BTreeMap::new(),
            observing: Observing { observer: None, read_us: next_us },
            unwanted: Unwanted::default(),
            accident_us,
            is_calm: false,
            counts: ContenderCounts::default(),
        };
        contender.observe();
        contender
    }

    fn observe(&mut self) {
        let is_election = self.config.prize == Prize::Election;
        self.observing.observer = is_election.then(|| Observer::new(self.client, self.name()));
    }

    /// The name of the lock or the election.
    pub fn name(&self) -> &'static [u8] {
        match self.config.prize {
            Prize::Lock => recipe::LOCK,
            Prize::Election => recipe::ELECTION,
        }
    }

    /// Whether the contender has taken all its turns and has no watch or call left.
    pub fn is_done(&self) -> bool {
        self.stage == Stage::Done && self.unwanted.is_empty()
    }

    /// The lease of the contender's key while it waits to hold; `None` if it does not wait.
    pub fn waits(&self) -> Option<i64> {
        self.session.filter(|_| self.is_waiting()).map(|session| session.lease)
    }

    fn is_waiting(&self) -> bool {
        matches!(self.stage, Stage::Acquiring | Stage::Looking | Stage::Waiting | Stage::Confirming)
    }

    /// The lease that the contender keeps alive; `None` without one.
    pub fn live_lease(&self, now_us: u64) -> Option<i64> {
        let session = self.session.filter(|it| !it.is_over && now_us < it.ends_us);
        session.map(|session| session.lease)
    }

    /// The contender's state, as text for people.
    pub fn describe(&self) -> String {
        let Contender { stage, session, token, before, turns_left, calls, next_us, .. } = self;
        format!(
            "{stage:?} with token {token} from {next_us} us, {session:?}, behind {before:?}, \
             {turns_left} turns left, calls {calls:?}, {:?}",
            self.observing.observer
        )
    }

    /// Ends its accidents and limits its turns, since the faults have stopped.
    pub fn calm_down(&mut self) {
        self.is_calm = true;
        self.accident_us = None;
        self.turns_left = self.turns_left.min(CALM_TURNS_MAX);
        self.config.hold_us_max = self.config.hold_us_max.min(CALM_HOLD_US_MAX);
    }

    /// When the contender must be polled next, in us.
    pub fn wakes_us(&self) -> u64 {
        if !self.unwanted.is_empty() || self.last_write.is_some() {
            return 0;
        }
        if self.stage == Stage::Done {
            return u64::MAX;
        }
        let session = self.session.filter(|session| !session.is_over);
        let keeps = session.filter(|_| self.stage != Stage::Closing);
        let of_observer = self.observing.wakes_us(self.is_under_way(Role::Observe));
        let is_held = self.is_stage_under_way() || self.before.line.is_some();
        let of_stage = if is_held { u64::MAX } else { self.next_us };
        let of_session = session.map_or(u64::MAX, |session| session.ends_us);
        let of_keep_alive = keeps.map_or(u64::MAX, |session| session.keep_us);
        let of_accident = self.accident_us.unwrap_or(u64::MAX);
        of_observer.min(of_stage).min(of_session).min(of_keep_alive).min(of_accident)
    }

    fn is_under_way(&self, role: Role) -> bool {
        self.calls.values().any(|of| *of == role)
    }

    /// Whether the turn waits for the result of a call.
    fn is_stage_under_way(&self) -> bool {
        self.calls.values().any(|role| role.is_of_stage())
    }

    /// The next act of the contender's client; `None` if nothing is due. The client polls while it
    /// is connected, until this returns `None`.
    pub fn poll(&mut self, now_us: u64, history: &mut History) -> Option<Act> {
        if let Some(act) = self.unwanted.next() {
            return Some(act);
        }
        let is_over = |session: &Session| !session.is_over && session.ends_us <= now_us;
        if self.session.as_ref().is_some_and(is_over) {
            self.end_session(now_us, history);
        }
        if let Some(act) = self.last_write.take().or_else(|| self.keep_alive(now_us)) {
            return Some(act);
        }
        if self.accident_us.is_some_and(|at_us| at_us <= now_us) && self.stage != Stage::Done {
            return Some(self.have_accident(now_us, history));
        }
        self.poll_observer(now_us).or_else(|| self.go_on(now_us, history))
    }

    fn keep_alive(&mut self, now_us: u64) -> Option<Act> {
        let session = self.session.as_mut().filter(|session| !session.is_over)?;
        if session.keep_us > now_us || self.stage == Stage::Closing {
            return None;
        }
        session.keep_us = now_us + session.ttl_us / 3;
        let op = Op::Lease(LeaseOp::KeepAlive { lease: session.lease });
        Some(Act::Call(Role::KeepAlive(session.lease), op))
    }

    fn have_accident(&mut self, now_us: u64, history: &mut History) -> Act {
        let wait_us_max = self.config.accident_us_max;
        self.accident_us = wait_us_max.map(|max| now_us + self.random.between(1, max));
        match self.random.below(6) {
            0..=1 => {
                self.counts.deaths += 1;
                self.end_hold(now_us, history);
                self.session = None;
                self.calls.clear();
                self.unwanted.lines.extend(self.observing.line());
                self.observe();
                self.rest(now_us);
                Act::Leave
            }
            2..=4 => {
                self.counts.pauses += 1;
                Act::Pause(self.random.magnitude(100_000, PAUSE_US_MAX))
            }
            _ => Act::Leave,
        }
    }

    fn poll_observer(&mut self, now_us: u64) -> Option<Act> {
        let is_reading = self.is_under_way(Role::Observe);
        let act = self.observing.poll(is_reading, now_us);
        act.filter(|_| self.stage != Stage::Done)
    }

    /// Takes the next step of its turn.
    fn go_on(&mut self, now_us: u64, history: &mut History) -> Option<Act> {
        if self.next_us > now_us || self.is_stage_under_way() {
            return None;
        }
        if self.stage == Stage::Resting {
            self.begin_turn();
        }
        let name = self.name();
        let lease = self.session.map_or(0, |session| session.lease);
        Some(match self.stage {
            Stage::Resting | Stage::Done => return None,
            Stage::Granting => {
                self.session_count += 1;
                let lease = LEASE_MIN + (i64::from(self.client) << 32);
                let lease = lease + i64::from(self.session_count);
                let grant = LeaseOp::Grant { lease, ttl_s: self.config.ttl_s };
                Act::Call(Role::Grant(lease), Op::Lease(grant))
            }
            Stage::Entering => {
                let reads_holder = self.config.prize == Prize::Lock;
                let value = if reads_holder { Vec::new() } else { self.value() };
                Act::Call(Role::Enter, recipe::enter(name, lease, &value, reads_holder))
            }
            Stage::Acquiring => {
                let patience_us = self.random.magnitude(10_000, SERVED_US_MAX);
                Act::Serve(Role::Acquire, self.service(lease), patience_us)
            }
            Stage::Looking => {
                Act::Call(Role::Look, Op::Range(recipe::last_created_before(name, self.token)))
            }
            Stage::Waiting if self.before.line.is_some() => return None,
            Stage::Waiting => {
                let (key, start) = (self.before.key.clone(), self.before.revision);
                Act::Watch(Watching::Before, Wanted { key, start, ..Wanted::default() })
            }
            Stage::Confirming => {
                let own = recipe::get(&recipe::own_key(name, lease));
                Act::Call(Role::Confirm, Op::Range(own))
            }
            Stage::Holding => return self.use_hold(now_us, history),
            Stage::GivingUp if self.config.prize == Prize::Lock => {
                Act::Call(Role::GiveUp, recipe::unlock(name, lease))
            }
            Stage::GivingUp => Act::Call(Role::GiveUp, recipe::resign(name, lease, self.token)),
            Stage::Closing => Act::Call(Role::Revoke, Op::Lease(LeaseOp::Revoke { lease })),
        })
    }

    /// Begins the next turn, or closes the last session, or is done.
    fn begin_turn(&mut self) {
        self.session = self.session.filter(|session| !session.is_over);
        self.stage = match (self.turns_left, self.session) {
            (0, None) => Stage::Done,
            (0, Some(_)) => Stage::Closing,
            (_, None) => Stage::Granting,
            (_, Some(_)) => self.first_stage(),
        };
        self.turns_left = self.turns_left.saturating_sub(1);
        if self.stage == Stage::Done {
            self.unwanted.lines.extend(self.observing.line());
            self.observing.observer = None;
        }
    }

    /// The first stage of a turn that has a session.
    fn first_stage(&self) -> Stage {
        if self.config.is_served { Stage::Acquiring } else { Stage::Entering }
    }

    fn service(&mut self, lease: i64) -> Service {
        let is_election = self.config.prize == Prize::Election;
        let value = is_election.then(|| self.value());
        Service { name: self.name(), lease, value }
    }

    /// Makes the next guarded write, or begins to release.
    fn use_hold(&mut self, now_us: u64, history: &mut History) -> Option<Act> {
        let holding = self.holding?;
        if holding.until_us > now_us {
            let wait_us = self.random.magnitude(1_000, self.config.hold_us_max);
            self.next_us = (now_us + wait_us).min(holding.until_us);
            if self.config.is_served && self.random.one_in(3) {
                let service = self.service(self.session?.lease);
                let patience_us = self.random.magnitude(1_000, SERVED_US_MAX);
                return Some(Act::Serve(Role::Repeat, service, patience_us));
            }
            return match self.config.prize == Prize::Election && self.random.one_in(3) {
                true => {
                    let (lease, value) = (self.session?.lease, self.value());
                    let op = recipe::proclaim(self.name(), lease, self.token, &value);
                    Some(Act::Call(Role::Proclaim, op))
                }
                false => self.write(),
            };
        }
        self.end_hold(now_us, history);
        // Closing the session deletes the key.
        let closes = self.random.one_in(6);
        self.stage = if closes { Stage::Closing } else { Stage::GivingUp };
        self.go_on(now_us, history)
    }

    fn write(&mut self) -> Option<Act> {
        let (hold, lease) = (self.holding?.hold, self.session?.lease);
        self.value_count += 1;
        let op = recipe::guarded_write(self.name(), lease, self.token, self.value_count);
        Some(Act::Call(Role::Write(hold), op))
    }

    fn value(&mut self) -> Vec<u8> {
        self.value_count += 1;
        format!("{}:{}", self.client, self.value_count).into_bytes()
    }

    /// The first act after a pause, before the contender notices how much time has passed.
    pub fn act_blindly(&mut self) -> Option<Act> {
        if self.random.one_in(3) { None } else { self.write() }
    }

    /// A call that the contender wanted was made.
    pub fn on_called(&mut self, role: Role, id: CallId, history: &mut History) {
        self.calls.insert(id, role);
        if let Role::Write(hold) = role {
            history.holds[hold].writes.push(id);
        }
    }

    /// The watch that the contender wanted exists, with this line.
    pub fn on_watch(&mut self, watching: Watching, line: usize) {
        match (watching, &mut self.observing.observer) {
            (Watching::Before, _) => self.before.line = Some(line),
            (Watching::Leader, Some(observer)) => observer.on_watch(line),
            (Watching::Leader, None) => self.unwanted.lines.push(line),
        }
    }

    /// The connection is gone, and with it the answers to all calls.
    pub fn on_left(&mut self, now_us: u64, history: &mut History) {
        self.unwanted.calls.clear();
        for (id, role) in self.calls.clone() {
            match role {
                Role::Acquire | Role::Repeat => {
                    self.on_served(id, Served::GivenUp, now_us, history);
                }
                _ => self.on_answer(id, None, now_us, history),
            }
        }
    }

    /// A call was answered; `None` if its answer will never come.
    pub fn on_answer(
        &mut self,
        id: CallId,
        answer: Option<&Answer>,
        now_us: u64,
        history: &mut History,
    ) {
        let Some(role) = self.calls.remove(&id) else { return };
        if self.is_calm && answer == Some(&Err(Error::NotCapable)) {
            // Some servers lack the needed level, and that will not change.
            self.session = None;
            self.turns_left = 0;
            return self.rest(now_us);
        }
        if role == Role::Observe {
            let again_us = now_us + self.again_us();
            return self.observing.on_read(answer, again_us, history);
        }
        let asked_us = history.position(id).map_or(0, |at| history.calls[at].asked.at_us);
        match (role, answer) {
            (Role::KeepAlive(lease), answer) => {
                self.on_kept((lease, asked_us), answer, now_us, history);
            }
            (Role::Grant(lease), Some(Ok(Response::Granted { ttl_s, .. }))) => {
                let ttl_us = *ttl_s as u64 * 1_000_000;
                let (ends_us, keep_us) = (asked_us + ttl_us, now_us + ttl_us / 3);
                self.session = Some(Session { lease, ttl_us, ends_us, keep_us, is_over: false });
                self.may_unlock_late = false;
                self.stage = self.first_stage();
            }
            (Role::Write(hold), Some(Ok(Response::Txn(done)))) if !done.succeeded => {
                // The key is gone, so the session is over.
                if self.holding.is_some_and(|holding| holding.hold == hold) {
                    self.end_session(now_us, history);
                }
            }
            (Role::Write(_) | Role::Proclaim, _) => {}
            (Role::GiveUp, Some(Ok(_))) if self.may_unlock_late => self.stage = Stage::Closing,
            (Role::GiveUp, Some(Ok(_))) => self.rest(now_us),
            (Role::Revoke, Some(Ok(_) | Err(Error::LeaseNotFound))) => {
                self.session = None;
                self.rest(now_us);
            }
            (Role::Enter, Some(Err(Error::LeaseNotFound))) => {
                self.end_session(now_us, history);
                self.rest(now_us);
            }
            (_, Some(Ok(response))) => self.on_turn(role, response, now_us, history),
            (_, Some(Err(_)) | None) => {
                self.may_unlock_late |= role == Role::GiveUp && self.config.prize == Prize::Lock;
                self.next_us = now_us + self.again_us();
            }
        }
    }

    /// A service call that the contender wanted was made.
    pub fn on_serving(&mut self, role: Role, id: CallId) {
        self.counts.repeated += usize::from(role == Role::Repeat);
        self.calls.insert(id, role);
    }

    /// A service call was answered or cancelled.
    pub fn on_served(&mut self, id: CallId, served: Served, now_us: u64, history: &mut History) {
        let role = self.calls.remove(&id);
        self.counts.given_up += usize::from(served == Served::GivenUp);
        if role != Some(Role::Acquire) {
            return;
        }
        self.next_us = now_us;
        match served {
            Served::Holds(Some(token)) => {
                self.token = token;
                self.counts.served += 1;
                self.hold(now_us, history);
            }
            Served::Holds(None) => {
                self.counts.served += 1;
                self.stage = Stage::Confirming;
            }
            Served::Refused(etcd::Error::NotCapable) if self.is_calm => {
                self.session = None;
                self.turns_left = 0;
                self.rest(now_us);
            }
            Served::Expired | Served::Refused(etcd::Error::LeaseNotFound) => {
                self.end_session(now_us, history);
                self.rest(now_us);
            }
            // The service deletes the key, or the next turn finds it.
            Served::GivenUp if self.random.one_in(3) => self.rest(now_us),
            Served::Refused(_) | Served::GivenUp => self.next_us = now_us + self.again_us(),
        }
    }

    fn again_us(&mut self) -> u64 {
        self.random.magnitude(*AGAIN_US.start(), *AGAIN_US.end())
    }

    /// A call of the turn succeeded.
    fn on_turn(&mut self, role: Role, response: &Response, now_us: u64, history: &mut History) {
        match (role, response) {
            (Role::Enter, Response::Txn(done)) => {
                let own = done.responses.first().and_then(recipe::first_pair);
                let own = own.filter(|_| !done.succeeded);
                self.token = own.map_or(done.revision, |own| own.create_revision);
                let holder = done.responses.get(1).and_then(recipe::first_pair);
                let is_first = holder.is_none_or(|holder| holder.create_revision == self.token);
                self.stage = Stage::Looking;
                if self.config.prize == Prize::Lock && is_first {
                    self.hold(now_us, history);
                }
            }
            (Role::Look, Response::Range(found)) => match found.kvs.first() {
                Some(before) => {
                    let (key, revision) = (before.key.clone(), found.revision);
                    self.before = Before { key, revision, line: None };
                    self.stage = Stage::Waiting;
                    self.counts.waits += 1;
                }
                None if self.config.prize == Prize::Lock => self.stage = Stage::Confirming,
                None => self.hold(now_us, history),
            },
            (Role::Confirm, Response::Range(found)) if found.kvs.is_empty() => {
                self.end_session(now_us, history);
                self.rest(now_us);
            }
            (Role::Confirm, Response::Range(found)) => {
                if let (true, Some(own)) = (self.config.is_served, found.kvs.first()) {
                    self.token = own.create_revision;
                }
                self.hold(now_us, history);
            }
            _ => unreachable!("a response fits its call"),
        }
    }

    fn on_kept(
        &mut self,
        (lease, asked_us): (i64, u64),
        answer: Option<&Answer>,
        now_us: u64,
        history: &mut History,
    ) {
        let again_us = now_us + self.again_us();
        let is_it = |session: &&mut Session| session.lease == lease && !session.is_over;
        let Some(session) = self.session.as_mut().filter(is_it) else { return };
        match answer {
            Some(Ok(Response::KeptAlive { ttl_s: 0, .. })) => self.end_session(now_us, history),
            // A session that has ended by the client's clock stays over.
            Some(Ok(_)) if now_us < session.ends_us => {
                session.ends_us = session.ends_us.max(asked_us + session.ttl_us);
            }
            Some(Ok(_)) => {}
            _ => session.keep_us = session.keep_us.min(again_us),
        }
    }

    /// A response arrived on the watch with this line.
    pub fn on_response(
        &mut self,
        line: usize,
        response: &watch::Response,
        now_us: u64,
        history: &mut History,
    ) {
        let observer = self.observing.observer.as_mut();
        if let Some(observer) = observer.filter(|it| it.line() == Some(line)) {
            self.unwanted.lines.extend(observer.on_response(response, history));
            return;
        }
        if self.before.line != Some(line) {
            return;
        }
        if response.is_canceled {
            self.counts.waits_compacted += 1;
            self.before.line = None;
            self.stage = Stage::GivingUp;
            self.next_us = now_us;
        } else if response.events.iter().any(|event| event.is_delete) {
            self.forget_before();
            self.stage = Stage::Looking;
            self.next_us = now_us;
        }
    }

    fn forget_before(&mut self) {
        self.unwanted.lines.extend(self.before.line.take());
    }

    /// Begins to hold, unless the session is over.
    fn hold(&mut self, now_us: u64, history: &mut History) {
        self.next_us = now_us;
        let Some(lease) = self.live_lease(now_us) else {
            self.stage = Stage::GivingUp;
            return;
        };
        let hold = history.begin_hold((self.client, self.name()), lease, self.token, now_us);
        let for_us = self.random.magnitude(1_000, self.config.hold_us_max);
        // An accident during a hold is the most revealing.
        if self.accident_us.is_some() && self.random.one_in(4) {
            self.accident_us = Some(now_us + self.random.between(1, for_us));
        }
        self.holding = Some(Holding { hold, until_us: now_us + for_us });
        self.stage = Stage::Holding;
    }

    fn end_hold(&mut self, now_us: u64, history: &mut History) {
        if let Some(Holding { hold, .. }) = self.holding.take() {
            history.end_hold(hold, now_us);
        }
    }

    /// The session is over and any hold is lost, though the contender may make one more write. A
    /// waiting contender may go on waiting: etcd's client does not check its session then.
    fn end_session(&mut self, now_us: u64, history: &mut History) {
        let is_waiting = self.is_waiting();
        if self.holding.is_some() && self.random.one_in(2) {
            self.last_write = self.write();
        }
        self.end_hold(now_us, history);
        if let Some(session) = &mut self.session {
            self.counts.sessions_over += usize::from(!session.is_over);
            session.is_over = true;
        }
        if !is_waiting || self.random.one_in(2) {
            self.rest(now_us);
        }
    }

    /// The turn is over.
    fn rest(&mut self, now_us: u64) {
        self.forget_before();
        let served = self.calls.iter().filter(|(_, role)| **role == Role::Acquire);
        self.unwanted.calls.extend(served.map(|(id, _)| *id));
        self.calls.retain(|_, role| !role.is_of_stage());
        self.stage = Stage::Resting;
        self.next_us = now_us + self.random.magnitude(1_000, self.config.rest_us_max);
    }
}
