//! Requests of HTTP that a member answers in several steps: the loops of `listen_etcd` over these
//! steps, on virtual connections. Between two steps a request waits for a call of the Front or for
//! work on a password, under a ticket; a client may give it up there.

use std::collections::BTreeMap;
use std::sync::Arc;

use etcd::v2::{Form, Request as V2Request, Verb};
use machine::etcd_v2::auth::Done as AuthDone;
use machine::etcd_v2::reply::Reason;
use member::fronts::etcd::audit::Operation;
use member::fronts::etcd::health::{HealthCall, HealthCounts, HealthStep, MemberHealth};
use member::fronts::etcd::v2::clients::{Done, UserSearch, UserStep, Work};
use member::fronts::etcd::v2::members::{MembersCall, MembersRequest, MembersStep, MembersView};
use member::fronts::etcd::v2::users::{UsersCall, UsersStep};
use member::fronts::etcd::{
    CallRefused, CallResult, Credentials, Method, PasswordDone, PasswordWork, V2Found, V2Result,
};
use member::message::Ticket;
use workload::etcd::history::CallId;

use super::etcd_runtime::EtcdRuntime;
use crate::etcd_clients::http::{Change, HttpAnswer, HttpRequest, ReadCame, Wish};
use crate::world::World;

/// A mistake with these requests on purpose, to see that the judge notices each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpSabotage {
    /// The reads that health needs are not made, and pass for good ones.
    ReadsFeigned,
    /// A change of users is answered as done now and then, and never handed over.
    ChangesFeigned,
    /// A change of users that was done is answered as refused now and then.
    ChangesDenied,
    /// Every password is right.
    PasswordsIgnored,
    /// The member says of a member that never led that it leads.
    LeaderForged,
}

/// How the member is, for steps that look.
pub(super) struct View {
    pub health: MemberHealth,
    pub members: MembersView,
}

/// A request between two steps.
enum Step {
    Health(HealthStep),
    Members(MembersStep),
    Users(UsersStep, Option<Change>),
    Reader(UserStep, V2Request),
}

/// What continues when the result for a ticket is there.
enum Waiting {
    Health(HealthCall),
    Members(MembersCall),
    Users(UsersCall, Option<Change>),
    Reader(UserSearch, V2Request),
    Read,
}

/// The result for a ticket.
pub(super) enum Came {
    /// Of a call of etcd v3, or a refusal of any call.
    Call(CallResult),
    /// Of a call of etcd v2.
    V2(V2Result),
    /// Of work on a password.
    Password(PasswordDone),
}

/// The requests that are under way.
#[derive(Default)]
pub(super) struct Steps {
    /// Requests that have come, and were not begun.
    pub come: Vec<(usize, CallId, HttpRequest)>,
    waiting: BTreeMap<Ticket, Waiting>,
    /// For each that waits for work on a password what is dropped with it.
    wanted: BTreeMap<Ticket, Arc<()>>,
    /// The tickets that were given to work on passwords.
    work_count: u64,
    counts: HealthCounts,
    /// Calls that were begun since the last look.
    pub begun: Vec<(Ticket, CallId)>,
    /// Answers that were made since the last look.
    pub answered: Vec<(usize, CallId, HttpAnswer)>,
}

impl Steps {
    /// Whether a ticket is one of a request.
    pub fn has(&self, ticket: Ticket) -> bool {
        self.waiting.contains_key(&ticket)
    }

    /// Whether a request is under way.
    pub fn has_any(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The request waits no longer.
    pub fn forget(&mut self, ticket: Ticket) {
        self.waiting.remove(&ticket);
        self.wanted.remove(&ticket);
    }
}

impl EtcdRuntime {
    /// Begins the requests that have come.
    pub(super) fn begin_http(
        &mut self,
        (view, sabotage): (&View, Option<HttpSabotage>),
        world: &mut World,
    ) {
        for (number, id, request) in core::mem::take(&mut self.steps.come) {
            self.advance((number, id), begin(request), (view, sabotage), world);
        }
    }

    /// Goes on with a request for which something came.
    pub(super) fn go_on(
        &mut self,
        ticket: Ticket,
        mut came: Came,
        (view, sabotage): (&View, Option<HttpSabotage>),
        world: &mut World,
    ) {
        let Some(waiting) = self.steps.waiting.remove(&ticket) else { return };
        self.steps.wanted.remove(&ticket);
        match &came {
            Came::Call(result) => self.audit.tell(ticket, result),
            Came::V2(result) => self.audit.tell_v2(ticket, result),
            Came::Password(_) => {}
        }
        let Some(at) = self.done(ticket) else { return };
        if sabotage == Some(HttpSabotage::PasswordsIgnored)
            && matches!(came, Came::Password(PasswordDone::Wrong))
        {
            came = Came::Password(PasswordDone::Right);
        }
        if sabotage == Some(HttpSabotage::ChangesDenied)
            && matches!(came, Came::V2(Ok(V2Found::AuthDone(_))))
            && world.random.one_in(10)
        {
            came = Came::Call(Err(etcd::Error::NoLeader.into()));
        }
        let step = match waiting {
            Waiting::Health(call) => {
                Step::Health(call.on_read(came.refused_or_done(), &self.steps.counts))
            }
            Waiting::Members(call) => Step::Members(call.on_done(came.done())),
            Waiting::Users(call, change) => Step::Users(call.on_done(came.done()), change),
            Waiting::Reader(search, request) => Step::Reader(search.on_done(came.done()), request),
            Waiting::Read => {
                return self.steps.answered.push((at.0, at.1, HttpAnswer::Read(came.read())));
            }
        };
        self.advance(at, step, (view, sabotage), world);
    }

    /// Goes on until a request waits, or is answered.
    fn advance(
        &mut self,
        at: (usize, CallId),
        mut step: Step,
        (view, sabotage): (&View, Option<HttpSabotage>),
        world: &mut World,
    ) {
        let is_feigned = sabotage == Some(HttpSabotage::ReadsFeigned);
        let answer = loop {
            step = match step {
                Step::Health(HealthStep::Look(call)) => {
                    Step::Health(call.on_member(&view.health, &self.steps.counts))
                }
                Step::Health(HealthStep::Read(call, _)) if is_feigned => {
                    Step::Health(call.on_read(Ok(()), &self.steps.counts))
                }
                Step::Health(HealthStep::Read(call, request)) => {
                    let ticket =
                        self.front_mut().on_call(Method::Range, request, Credentials::Member);
                    return self.wait_for(at, ticket, Waiting::Health(call));
                }
                Step::Health(HealthStep::Answer(answer)) => break HttpAnswer::Health(answer),
                Step::Members(MembersStep::Look(looking)) => {
                    Step::Members(looking.on_view(view.members.clone()))
                }
                Step::Members(MembersStep::ReadUrls(reading)) => {
                    let urls = vec!["http://10.9.9.9:2380".to_string()];
                    Step::Members(reading.on_body(Ok(urls)))
                }
                Step::Members(MembersStep::Work(call, work)) => {
                    return self.work(at, work, Waiting::Members(call), (view, sabotage), world);
                }
                Step::Members(MembersStep::Answer(answer)) => break HttpAnswer::Members(answer),
                Step::Users(UsersStep::ReadUser(reading), change) => {
                    let body = change.expect("only a change has a body").user_body();
                    Step::Users(reading.on_body(Ok(body)), change)
                }
                Step::Users(UsersStep::ReadRole(reading), change) => {
                    let body = change.expect("only a change has a body").role_body();
                    Step::Users(reading.on_body(Ok(body)), change)
                }
                Step::Users(UsersStep::Show(shown), _) => break HttpAnswer::Users(shown.answer()),
                Step::Users(UsersStep::Work(call, work), change) => {
                    let waiting = Waiting::Users(call, change);
                    return self.work(at, work, waiting, (view, sabotage), world);
                }
                Step::Users(UsersStep::Answer(answer), _) => break HttpAnswer::Users(answer),
                Step::Reader(UserStep::Work(search, work), request) => {
                    let waiting = Waiting::Reader(search, request);
                    return self.work(at, work, waiting, (view, sabotage), world);
                }
                Step::Reader(UserStep::Found(user), mut request) => {
                    request.user = user;
                    let ticket = self.front_mut().on_v2_call(request);
                    return self.wait_for(at, ticket, Waiting::Read);
                }
                Step::Reader(UserStep::Failed(failure), _) => {
                    let is_denied = failure.code == etcd::v2::Code::Unauthorized;
                    break HttpAnswer::Read(if is_denied {
                        ReadCame::Denied
                    } else {
                        ReadCame::Failed
                    });
                }
            };
        };
        self.steps.answered.push((at.0, at.1, answer));
    }

    /// Begins the work that a step asks for.
    fn work(
        &mut self,
        at: (usize, CallId),
        work: Work,
        waiting: Waiting,
        (view, sabotage): (&View, Option<HttpSabotage>),
        world: &mut World,
    ) {
        match work {
            Work::Call(request) => {
                let operation = Operation::of_v2(&request);
                let is_feigned = operation.is_some()
                    && sabotage == Some(HttpSabotage::ChangesFeigned)
                    && world.random.one_in(10);
                if is_feigned && let Waiting::Users(call, change) = waiting {
                    let done = Done::Called(Ok(Ok(V2Found::AuthDone(AuthDone::Other))));
                    let step = Step::Users(call.on_done(done), change);
                    return self.advance(at, step, (view, sabotage), world);
                }
                let ticket = self.front_mut().on_v2_call(request);
                self.audit.begin(ticket, None, operation);
                self.steps.begun.push((ticket, at.1));
                self.wait_for(at, ticket, waiting);
            }
            Work::Password { password, task } => {
                // The Front counts from 0 on.
                self.steps.work_count += 1;
                let ticket = Ticket(u64::MAX - self.steps.work_count);
                let waits = Arc::new(());
                let work = PasswordWork { password, task, waits: Arc::downgrade(&waits) };
                self.steps.wanted.insert(ticket, waits);
                self.passwords.begin(vec![(ticket, work)], world);
                self.wait_for(at, ticket, waiting);
            }
        }
    }

    fn wait_for(&mut self, at: (usize, CallId), ticket: Ticket, waiting: Waiting) {
        self.wait_apart(ticket, at);
        self.steps.waiting.insert(ticket, waiting);
    }
}

/// The first step of a request.
fn begin(HttpRequest { login, wish }: HttpRequest) -> Step {
    let presented = login.presented();
    let users = |method: &str, rest: &str, change| {
        let step = UsersCall::begin(method, rest, presented.clone());
        Step::Users(step.expect("the path is one of users"), change)
    };
    match wish {
        Wish::Health(path, query) => {
            Step::Health(HealthCall::at(path, query).expect("the path is one of health").begin())
        }
        Wish::Members(method, path) => {
            let content_type = "application/json";
            let request = MembersRequest { method, path, content_type, presented };
            Step::Members(MembersCall::begin(request).expect("the path is one of members"))
        }
        Wish::Change(change) => {
            let (method, rest) = change.at();
            users(method, &rest, Some(change))
        }
        Wish::IsEnforced => users("GET", "enable", None),
        Wish::ShowUser(user) => users("GET", &format!("users/{user}"), None),
        Wish::Read(key, is_quorum) => {
            let mut form = Form::default();
            form.add(format!("quorum={is_quorum}").as_bytes()).expect("the form is sound");
            let request = V2Request::new(Verb::Get, key, form).expect("the request is sound");
            let step = match presented.is_named() {
                true => UserSearch::begin(presented),
                false => UserStep::Found(None),
            };
            Step::Reader(step, request)
        }
    }
}

impl Came {
    /// Of a read of etcd v3.
    fn refused_or_done(self) -> Result<(), CallRefused> {
        match self {
            Came::Call(result) => result.map(drop),
            Came::V2(_) | Came::Password(_) => unreachable!("it is a read of etcd v3"),
        }
    }

    /// Of work for a step.
    fn done(self) -> Done {
        match self {
            Came::Call(Err(refused)) => Done::Called(Err(refused)),
            Came::Call(Ok(_)) => unreachable!("it is no call of etcd v3"),
            Came::V2(result) => Done::Called(Ok(result)),
            Came::Password(done) => Done::Password(done),
        }
    }

    /// Of a read of a key.
    fn read(self) -> ReadCame {
        match self {
            Came::V2(Ok(_)) => ReadCame::Permitted,
            Came::V2(Err(refusal)) => match refusal.reason {
                Reason::Unauthorized => ReadCame::Denied,
                _ => ReadCame::Permitted,
            },
            Came::Call(_) | Came::Password(_) => ReadCame::Failed,
        }
    }
}
