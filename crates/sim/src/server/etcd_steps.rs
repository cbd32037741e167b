//! Serves HTTP requests about health, members, users and keys, which a member answers in several
//! steps: this file mirrors the loops of `listen_etcd` over the steps, on virtual connections.
//! Between two steps a request waits under a ticket: for a call of the Front, for password work, or
//! for the body of the request. The next step runs when the runtime runs again. Meanwhile the
//! client may cancel the request.

use std::collections::BTreeMap;
use std::sync::Arc;

use etcd::v2::{Form, Request as V2Request, Verb};
use machine::Machine;
use machine::etcd_v2::auth::Done as AuthDone;
use machine::etcd_v2::reply::Reason;
use member::fronts::etcd::audit::Operation;
use member::fronts::etcd::health::{HealthCall, HealthCounts, HealthStep, MemberHealth};
use member::fronts::etcd::v2::clients::{Done, Presented, UserSearch, UserStep, Work};
use member::fronts::etcd::v2::members::{
    BadUrls, MembersCall, MembersRequest, MembersStep, MembersView, ReadingUrls,
};
use member::fronts::etcd::v2::users::{BadBody, ReadingRole, ReadingUser, UsersCall, UsersStep};
use member::fronts::etcd::{
    CallRefused, CallResult, Credentials, EtcdMethod, PasswordDone, PasswordWork, V2Found, V2Result,
};
use member::message::Ticket;
use workload::etcd::history::CallId;

use super::etcd_runtime::EtcdRuntime;
use crate::etcd_clients::http::{Change, HttpAnswer, HttpRequest, ReadCame, Wish};
use crate::limits::HTTP_BODY_US_MAX;
use crate::world::World;

/// A deliberate mistake with HTTP requests, which the judge must notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpSabotage {
    /// The reads that a health check needs are not made and count as successful.
    ReadsFeigned,
    /// Some changes of users are answered as done without being made.
    ChangesFeigned,
    /// Some changes of users that were done are answered as refused.
    ChangesDenied,
    /// Every password counts as right.
    PasswordsIgnored,
    /// Reads of keys with a quorum are served without one.
    QuorumIgnored,
    /// Every client may change the members.
    MembersPermitted,
    /// The member names a member as leader that is not.
    LeaderForged,
}

/// The state of the member that a step may look at.
pub(super) struct Around<'a> {
    pub health: MemberHealth,
    pub members: MembersView,
    pub machine: &'a Machine,
    pub sabotage: Option<HttpSabotage>,
}

/// The connection and the id of a request.
type At = (usize, CallId);

/// The next step of a request.
enum Step {
    Health(HealthStep),
    Members(MembersStep),
    Users(UsersStep, Option<Change>),
    Reader(UserStep, V2Request),
}

/// A waiting request. The variant says which step follows, and the value turns the result into that
/// step.
enum Waiting {
    Health(HealthCall),
    Members(MembersCall),
    Users(UsersCall, Option<Change>),
    Reader(UserSearch, V2Request),
    Read,
    UserBody(ReadingUser, Change),
    RoleBody(ReadingRole, Change),
    Urls(ReadingUrls),
}

/// A result that a waiting request gets.
pub(super) enum StepResult {
    /// The result of an etcd v3 call, or the refusal of any call.
    Call(CallResult),
    /// The result of an etcd v2 call.
    V2(V2Result),
    /// The result of password work.
    Password(PasswordDone),
    /// Whether the whole body arrived.
    Body(bool),
}

/// The HTTP requests in progress.
#[derive(Default)]
pub(super) struct Steps {
    /// Requests that have arrived and not begun.
    pub arrived: Vec<(usize, CallId, HttpRequest)>,
    waiting: BTreeMap<Ticket, Waiting>,
    /// A handle for each request that waits for password work. Dropping the handle cancels the
    /// work.
    wanted: BTreeMap<Ticket, Arc<()>>,
    /// When each awaited body arrives, in us.
    bodies: BTreeMap<Ticket, u64>,
    /// Results that have arrived, for requests that continue when the runtime runs next.
    ready: Vec<(Ticket, StepResult)>,
    /// How many tickets for passwords and bodies were made.
    own_count: u64,
    counts: HealthCounts,
    /// The Front's calls that were begun since the caller last took this list, each with its HTTP
    /// request.
    pub begun: Vec<(Ticket, CallId)>,
    /// The answers that were made since the caller last took this list.
    pub answered: Vec<(usize, CallId, HttpAnswer)>,
}

impl Steps {
    /// Whether a ticket belongs to an HTTP request.
    pub fn has(&self, ticket: Ticket) -> bool {
        self.waiting.contains_key(&ticket)
    }

    /// Whether a request waits for something.
    pub fn has_any(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether a request can go on now.
    pub fn is_ready(&self, now_us: u64) -> bool {
        let has_body = self.bodies.values().any(|at_us| *at_us <= now_us);
        has_body || !self.arrived.is_empty() || !self.ready.is_empty()
    }

    /// When the next awaited body arrives, in us.
    pub fn body_us(&self) -> Option<u64> {
        self.bodies.values().min().copied()
    }

    /// Gives a request its result; it continues when the runtime runs next.
    pub fn add_result(&mut self, ticket: Ticket, result: StepResult) {
        self.ready.push((ticket, result));
    }

    /// Forgets a cancelled request.
    pub fn forget(&mut self, ticket: Ticket) {
        self.waiting.remove(&ticket);
        self.wanted.remove(&ticket);
        self.bodies.remove(&ticket);
    }

    /// A ticket for password work or a body. The Front's tickets count up from 0 and these count
    /// down, so they never collide.
    fn own_ticket(&mut self) -> Ticket {
        self.own_count += 1;
        Ticket(u64::MAX - self.own_count)
    }
}

impl EtcdRuntime {
    /// Continues all requests that can go on.
    pub(super) fn take_steps(&mut self, around: &Around<'_>, world: &mut World) {
        for (number, id, request) in core::mem::take(&mut self.steps.arrived) {
            self.advance((number, id), begin(request, around.sabotage), around, world);
        }
        let due = self.steps.bodies.extract_if(.., |_, at_us| *at_us <= world.now_us);
        let bodies: Vec<Ticket> = due.map(|(ticket, _)| ticket).collect();
        for ticket in bodies {
            let is_whole = !world.random.one_in(20);
            self.on_step_result(ticket, StepResult::Body(is_whole), around, world);
        }
        for (ticket, result) in core::mem::take(&mut self.steps.ready) {
            self.on_step_result(ticket, result, around, world);
        }
    }

    /// Continues a request with its result.
    fn on_step_result(
        &mut self,
        ticket: Ticket,
        mut result: StepResult,
        around: &Around<'_>,
        world: &mut World,
    ) {
        let Some(waiting) = self.steps.waiting.remove(&ticket) else { return };
        self.steps.wanted.remove(&ticket);
        match &result {
            StepResult::Call(result) => self.audit.tell(ticket, result),
            StepResult::V2(result) => self.audit.tell_v2(ticket, result),
            StepResult::Password(_) | StepResult::Body(_) => {}
        }
        let Some(at) = self.end_step(ticket) else { return };
        match (around.sabotage, &result) {
            (Some(HttpSabotage::PasswordsIgnored), StepResult::Password(PasswordDone::Wrong)) => {
                result = StepResult::Password(PasswordDone::Right);
            }
            (Some(HttpSabotage::ChangesDenied), StepResult::V2(Ok(V2Found::AuthDone(_))))
                if world.random.one_in(10) =>
            {
                result = StepResult::Call(Err(etcd::Error::NoLeader.into()));
            }
            _ => {}
        }
        let step = match waiting {
            Waiting::Health(call) => {
                Step::Health(call.on_read(result.into_read(), &self.steps.counts))
            }
            Waiting::Members(call) => Step::Members(call.on_done(result.into_done())),
            Waiting::Users(call, change) => Step::Users(call.on_done(result.into_done()), change),
            Waiting::Reader(search, request) => {
                Step::Reader(search.on_done(result.into_done()), request)
            }
            Waiting::Read => return self.answer(at, HttpAnswer::Read(result.into_read_came())),
            Waiting::UserBody(reading, change) => {
                let body = result.into_body().ok_or(BadBody::Missing);
                Step::Users(reading.on_body(body.map(|()| change.user_body())), Some(change))
            }
            Waiting::RoleBody(reading, change) => {
                let body = result.into_body().ok_or(BadBody::Missing);
                Step::Users(reading.on_body(body.map(|()| change.role_body())), Some(change))
            }
            Waiting::Urls(reading) => {
                let body = result.into_body().ok_or(BadUrls::Missing);
                let urls = || vec!["http://10.9.9.9:2380".to_string()];
                Step::Members(reading.on_body(body.map(|()| urls())))
            }
        };
        self.advance(at, step, around, world);
    }

    /// Runs steps until the request waits or is answered.
    fn advance(&mut self, at: At, mut step: Step, around: &Around<'_>, world: &mut World) {
        let is_feigned = around.sabotage == Some(HttpSabotage::ReadsFeigned);
        let waits = loop {
            step = match step {
                Step::Health(HealthStep::Look(call)) => {
                    Step::Health(call.on_member(&around.health, &self.steps.counts))
                }
                Step::Health(HealthStep::Read(call, _)) if is_feigned => {
                    Step::Health(call.on_read(Ok(()), &self.steps.counts))
                }
                Step::Health(HealthStep::Read(call, request)) => {
                    let member = Credentials::Member;
                    let ticket = self.front_mut().on_call(EtcdMethod::Range, request, member);
                    return self.wait_for(at, ticket, Waiting::Health(call));
                }
                Step::Health(HealthStep::Answer(answer)) => {
                    return self.answer(at, HttpAnswer::Health(answer));
                }
                Step::Members(MembersStep::Look(looking)) => {
                    Step::Members(looking.on_view(around.members.clone()))
                }
                Step::Members(MembersStep::ReadUrls(reading)) => break Waiting::Urls(reading),
                Step::Members(MembersStep::Work(call, work)) => {
                    return self.work(at, work, Waiting::Members(call), around, world);
                }
                Step::Members(MembersStep::Answer(answer)) => {
                    return self.answer(at, HttpAnswer::Members(answer));
                }
                Step::Users(UsersStep::ReadUser(reading), change) => {
                    break Waiting::UserBody(reading, change.expect("only a change has a body"));
                }
                Step::Users(UsersStep::ReadRole(reading), change) => {
                    break Waiting::RoleBody(reading, change.expect("only a change has a body"));
                }
                Step::Users(UsersStep::Show(shown), _) => {
                    return self.answer(at, HttpAnswer::Users(shown.answer()));
                }
                Step::Users(UsersStep::Work(call, work), change) => {
                    return self.work(at, work, Waiting::Users(call, change), around, world);
                }
                Step::Users(UsersStep::Answer(answer), _) => {
                    return self.answer(at, HttpAnswer::Users(answer));
                }
                Step::Reader(UserStep::Work(search, work), request) => {
                    return self.work(at, work, Waiting::Reader(search, request), around, world);
                }
                Step::Reader(UserStep::Found(user), mut request) => {
                    request.user = user;
                    return self.read_key(at, request, around);
                }
                Step::Reader(UserStep::Failed(failure), _) => {
                    let is_denied = failure.code == etcd::v2::Code::Unauthorized;
                    let came = if is_denied { ReadCame::Denied } else { ReadCame::Failed };
                    return self.answer(at, HttpAnswer::Read(came));
                }
            };
        };
        let late_us = if world.random.one_in(2) { HTTP_BODY_US_MAX } else { 1 };
        let ticket = self.steps.own_ticket();
        self.steps.bodies.insert(ticket, world.now_us + world.random.magnitude(1, late_us));
        self.wait_for(at, ticket, waits);
    }

    /// Reads a key: at once if that needs no quorum and the lock is free.
    fn read_key(&mut self, at: At, request: V2Request, around: &Around<'_>) {
        let is_free = at.1.number.is_multiple_of(2);
        let got = self.front().get_v2(&request, around.machine.etcd_v2()).filter(|_| is_free);
        if let Some(result) = got {
            let came = StepResult::V2(result).into_read_came();
            return self.answer(at, HttpAnswer::Read(came));
        }
        let ticket = self.front_mut().on_v2_call(request);
        self.wait_for(at, ticket, Waiting::Read);
    }

    /// Begins the call or the password work that a step needs.
    fn work(
        &mut self,
        at: At,
        work: Work,
        waiting: Waiting,
        around: &Around<'_>,
        world: &mut World,
    ) {
        match work {
            Work::Call(request) => {
                let operation = Operation::from_v2(&request);
                let is_feigned = operation.is_some()
                    && around.sabotage == Some(HttpSabotage::ChangesFeigned)
                    && world.random.one_in(10);
                if is_feigned && let Waiting::Users(call, change) = waiting {
                    let done = Done::Called(Ok(Ok(V2Found::AuthDone(AuthDone::Other))));
                    let step = Step::Users(call.on_done(done), change);
                    return self.advance(at, step, around, world);
                }
                let ticket = self.front_mut().on_v2_call(request);
                self.audit.begin(ticket, None, operation);
                self.steps.begun.push((ticket, at.1));
                self.wait_for(at, ticket, waiting);
            }
            Work::Password { password, task } => {
                let ticket = self.steps.own_ticket();
                self.wait_for(at, ticket, waiting);
                if world.random.one_in(20) {
                    let none = StepResult::Password(PasswordDone::TooMuchWork);
                    return self.steps.add_result(ticket, none);
                }
                let waits = Arc::new(());
                let work = PasswordWork { password, task, waits: Arc::downgrade(&waits) };
                self.steps.wanted.insert(ticket, waits);
                self.passwords.begin(vec![(ticket, work)], world);
            }
        }
    }

    fn wait_for(&mut self, at: At, ticket: Ticket, waiting: Waiting) {
        self.add_waiting(ticket, at);
        self.steps.waiting.insert(ticket, waiting);
    }

    fn answer(&mut self, (number, id): At, answer: HttpAnswer) {
        self.note_end(id);
        self.steps.answered.push((number, id, answer));
    }
}

/// The first step of a request.
fn begin(HttpRequest { login, wish }: HttpRequest, sabotage: Option<HttpSabotage>) -> Step {
    let presented = login.presented();
    match wish {
        Wish::Health(path, query) => {
            Step::Health(HealthCall::at(path, query).expect("the path is one of health").begin())
        }
        Wish::Members(method, path) => {
            let content_type = "application/json";
            let is_permitted = sabotage == Some(HttpSabotage::MembersPermitted);
            let root = Presented { credentials: None, certificate: Some("root".into()) };
            let presented = if is_permitted { root } else { presented };
            let request = MembersRequest { method, path, content_type, presented };
            Step::Members(MembersCall::begin(request).expect("the path is one of members"))
        }
        Wish::Change(change) => {
            let (method, rest) = change.at();
            about_users(method, &rest, presented, Some(change))
        }
        Wish::IsEnforced => about_users("GET", "enable", presented, None),
        Wish::ShowUser(user) => about_users("GET", &format!("users/{user}"), presented, None),
        Wish::Read(key, is_quorum) => {
            let is_quorum = is_quorum && sabotage != Some(HttpSabotage::QuorumIgnored);
            let mut form = Form::default();
            form.add(format!("quorum={is_quorum}").as_bytes()).expect("the form is sound");
            let request = V2Request::new(Verb::Get, key, form).expect("the request is sound");
            let is_named = presented.is_named();
            let search = || UserSearch::begin(presented);
            Step::Reader(if is_named { search() } else { UserStep::Found(None) }, request)
        }
    }
}

fn about_users(method: &str, rest: &str, presented: Presented, change: Option<Change>) -> Step {
    let step = UsersCall::begin(method, rest, presented);
    Step::Users(step.expect("the path is one of users"), change)
}

impl StepResult {
    /// The result as a health check needs it.
    fn into_read(self) -> Result<(), CallRefused> {
        match self {
            StepResult::Call(result) => result.map(drop),
            _ => unreachable!("it is a read of etcd v3"),
        }
    }

    /// The result as other steps need it.
    fn into_done(self) -> Done {
        match self {
            StepResult::Call(Err(refused)) => Done::Called(Err(refused)),
            StepResult::V2(result) => Done::Called(Ok(result)),
            StepResult::Password(done) => Done::Password(done),
            StepResult::Call(Ok(_)) | StepResult::Body(_) => unreachable!("no work gives that"),
        }
    }

    /// The result as the client that reads a key sees it.
    fn into_read_came(self) -> ReadCame {
        match self {
            StepResult::V2(Err(refusal)) if refusal.reason == Reason::Unauthorized => {
                ReadCame::Denied
            }
            StepResult::V2(_) => ReadCame::Permitted,
            StepResult::Call(Err(_)) => ReadCame::Failed,
            _ => unreachable!("it is a read of etcd v2"),
        }
    }

    /// `Some` if the whole body arrived.
    fn into_body(self) -> Option<()> {
        match self {
            StepResult::Body(is_whole) => is_whole.then_some(()),
            _ => unreachable!("it is a body"),
        }
    }
}
