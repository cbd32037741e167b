//! A client of plain HTTP requests: about health, members, users of etcd v2, and keys that these
//! users may read. It sends one request at a time and gives up slow ones. It only records requests
//! and answers; the judge is `check/etcd_http.rs`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use etcd::v2::auth::PatternLists;
use member::fronts::etcd::health::HealthAnswer;
use member::fronts::etcd::v2::clients::Presented;
use member::fronts::etcd::v2::members::{MembersAnswer, MembersContent};
use member::fronts::etcd::v2::users::{RoleBody, UserBody, UserGiven, UsersAnswer};
use workload::etcd::history::CallId;
use workload::generate::Random;

/// The users. Permissions can be enforced only while the first one exists.
const USERS: [&str; 3] = ["root", "ann", "bob"];

/// The passwords that users get.
const PASSWORDS: [&str; 2] = ["first", "second"];

/// The roles.
const ROLES: [&str; 2] = ["reader", "writer"];

/// Key patterns that roles may read.
const PATTERNS: [&str; 3] = ["/users/a", "/users/*", "/other/*"];

/// The keys that are read. No client ever writes them.
const KEYS: [&str; 2] = ["/users/a", "/users/b"];

/// The requests about health: path and query.
const HEALTH: [(&str, Option<&str>); 6] = [
    ("/health", None),
    ("/health", Some("serializable=true")),
    ("/livez", None),
    ("/readyz", None),
    ("/readyz/linearizable_read", None),
    ("/readyz", Some("exclude=linearizable_read&verbose")),
];

/// The requests about members: method and path.
const MEMBERS: [(&str, &str); 7] = [
    ("GET", "/v2/members"),
    ("GET", "/v2/members/leader"),
    ("GET", "/v2/machines"),
    ("GET", "/v2/stats/leader"),
    ("POST", "/v2/members"),
    ("PUT", "/v2/members/1"),
    ("DELETE", "/v2/members/1"),
];

/// The most requests that a client still makes after the faults have stopped.
const CALM_CALLS_MAX: u64 = 10;

/// How the client behaves.
#[derive(Clone, Debug)]
pub struct HttpConfig {
    /// The seed of the client's random choices.
    pub seed: u64,
    /// The number of requests that the client makes.
    pub calls: u64,
    /// The longest pause between two requests, in us.
    pub rest_us_max: u64,
    /// Whether the client changes users.
    pub has_users: bool,
}

/// The credentials of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Login {
    /// No credentials.
    Guest,
    /// A user and a password.
    User(&'static str, &'static str),
}

/// A change of users and roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Begins (`true`) or ends the enforcement of permissions.
    Enforce(bool),
    /// Creates a user with a password, or changes its password.
    PutUser(&'static str, &'static str),
    /// Grants a user a role, or revokes it (`false`).
    Grant(&'static str, &'static str, bool),
    /// Deletes a user.
    DeleteUser(&'static str),
    /// Creates a role that may read the keys of a pattern.
    MakeRole(&'static str, &'static str),
    /// Permits a role to read the keys of a pattern, or revokes that (`false`).
    Permit(&'static str, &'static str, bool),
    /// Deletes a role.
    DeleteRole(&'static str),
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// The member's health: path and query.
    Health(&'static str, Option<&'static str>),
    /// About the members: method and path.
    Members(&'static str, &'static str),
    /// A change of users.
    Change(Change),
    /// A question whether permissions are enforced.
    IsEnforced,
    /// The description of a user.
    ShowUser(&'static str),
    /// A read of a key, and whether it needs a quorum.
    Read(&'static str, bool),
}

/// A request of this client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpRequest {
    /// The request's credentials.
    pub login: Login,
    /// The request's subject.
    pub wish: Wish,
}

/// The outcome of a read of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadCame {
    /// The read was permitted.
    Permitted,
    /// The read was not permitted.
    Denied,
    /// The member was too busy, or had no leader or no time.
    Failed,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum HttpAnswer {
    /// About health.
    Health(HealthAnswer),
    /// About members.
    Members(MembersAnswer),
    /// About users.
    Users(UsersAnswer),
    /// About a key.
    Read(ReadCame),
}

/// A request that was sent, with its answer.
#[derive(Clone, Debug)]
pub struct HttpCall {
    /// The id of the request.
    pub id: CallId,
    /// The number of the connection.
    pub connection: usize,
    /// The number of the member.
    pub member: usize,
    /// The request.
    pub request: HttpRequest,
    /// When the request was sent, in us.
    pub sent_us: u64,
    /// When the request was answered, in us, and the answer; `None` if the client gave up or lost
    /// the connection.
    pub answered: Option<(u64, HttpAnswer)>,
}

/// An act that the client must carry out.
#[derive(Debug)]
pub enum HttpAct {
    /// Send a request.
    Send(HttpRequest),
    /// Leave the connection, for another member.
    Leave,
}

/// A client of plain HTTP requests.
pub struct HttpClient {
    random: Random,
    config: HttpConfig,
    calls_left: u64,
    next_us: u64,
    /// Whether the newest request may still get an answer.
    is_open: bool,
    /// The password of each user in the last change that was sent, even if that took no effect.
    passwords: [&'static str; USERS.len()],
    /// The health requests that have not been answered as healthy since the faults stopped.
    unhealthy: Vec<(&'static str, Option<&'static str>)>,
    /// All requests, in order.
    pub calls: Vec<HttpCall>,
}

impl HttpClient {
    /// A client that has sent nothing.
    pub fn new(config: HttpConfig) -> HttpClient {
        let mut random = Random::new(config.seed);
        HttpClient {
            next_us: random.magnitude(1, config.rest_us_max),
            random,
            calls_left: config.calls,
            is_open: false,
            passwords: [PASSWORDS[0]; USERS.len()],
            unhealthy: Vec::new(),
            calls: Vec::new(),
            config,
        }
    }

    fn has_wish(&self) -> bool {
        self.calls_left > 0 || !self.unhealthy.is_empty()
    }

    /// Whether the client has made all its requests and waits for no answer.
    pub fn is_done(&self) -> bool {
        !self.has_wish() && !self.is_open
    }

    /// Limits the requests that it still makes, and makes it repeat each health request until the
    /// member is healthy.
    pub fn calm_down(&mut self) {
        self.calls_left = self.calls_left.min(CALM_CALLS_MAX);
        self.unhealthy = HEALTH.to_vec();
    }

    /// The client's state, as text for people.
    pub fn describe(&self) -> String {
        let newest = self.calls.last();
        format!("http: {} requests left, open {}, {newest:?}", self.calls_left, self.is_open)
    }

    /// When the client must be polled next, in us.
    pub fn wakes_us(&self) -> u64 {
        if self.is_open || !self.has_wish() { u64::MAX } else { self.next_us }
    }

    /// The next act of the client; `None` if nothing is due. The caller reports a request with
    /// [`HttpClient::on_sent`].
    pub fn poll(&mut self, now_us: u64) -> Option<HttpAct> {
        if now_us < self.wakes_us() {
            return None;
        }
        if self.calls_left == 0 {
            let (path, query) = *self.random.pick(&self.unhealthy);
            let wish = Wish::Health(path, query);
            return Some(HttpAct::Send(HttpRequest { login: Login::Guest, wish }));
        }
        self.calls_left -= 1;
        if self.random.one_in(12) {
            self.rest(now_us);
            return Some(HttpAct::Leave);
        }
        Some(HttpAct::Send(self.draw()))
    }

    fn draw(&mut self) -> HttpRequest {
        let kinds = if self.config.has_users { 12 } else { 4 };
        let wish = match self.random.below(kinds) {
            0..3 => {
                let (path, query) = *self.random.pick(&HEALTH);
                Wish::Health(path, query)
            }
            3 => {
                let (method, path) = *self.random.pick(&MEMBERS);
                Wish::Members(method, path)
            }
            4 => Wish::IsEnforced,
            5 => Wish::ShowUser(self.pick(&USERS)),
            6..9 => Wish::Read(self.pick(&KEYS), self.random.one_in(2)),
            _ => Wish::Change(self.draw_change()),
        };
        HttpRequest { login: self.draw_login(wish), wish }
    }

    /// Draws credentials, mostly of a user with the permission for the request.
    fn draw_login(&mut self, wish: Wish) -> Login {
        if self.random.one_in(8) {
            return Login::Guest;
        }
        let is_read = matches!(wish, Wish::Read(..));
        let is_any = is_read || self.random.one_in(6);
        let user = if is_any { self.random.below(USERS.len() as u64) as usize } else { 0 };
        let is_any = self.random.one_in(8);
        let password = if is_any { self.pick(&PASSWORDS) } else { self.passwords[user] };
        Login::User(USERS[user], password)
    }

    fn draw_change(&mut self) -> Change {
        let user = self.random.below(USERS.len() as u64) as usize;
        let (role, pattern) = (self.pick(&ROLES), self.pick(&PATTERNS));
        let adds = !self.random.one_in(3);
        match self.random.below(16) {
            0..3 => Change::Enforce(adds),
            3..7 => {
                let password = self.pick(&PASSWORDS);
                self.passwords[user] = password;
                Change::PutUser(USERS[user], password)
            }
            7..10 => Change::Grant(USERS[user], role, adds),
            10 => Change::DeleteUser(USERS[user]),
            11..13 => Change::MakeRole(role, pattern),
            13..15 => Change::Permit(role, pattern, adds),
            _ => Change::DeleteRole(role),
        }
    }

    fn pick(&mut self, texts: &[&'static str]) -> &'static str {
        let at = self.random.below(texts.len() as u64);
        texts[at as usize]
    }

    fn rest(&mut self, now_us: u64) {
        self.next_us = now_us + self.random.magnitude(1, self.config.rest_us_max);
    }

    /// The client's request was sent.
    pub fn on_sent(&mut self, call: HttpCall) {
        self.calls.push(call);
        self.is_open = true;
    }

    /// A request was given up (`Some`), or the connection is gone (`None`).
    pub fn on_lost(&mut self, id: Option<CallId>, now_us: u64) {
        let newest = self.calls.last().map(|call| call.id);
        if self.is_open && id.is_none_or(|id| newest == Some(id)) {
            self.is_open = false;
            self.rest(now_us);
        }
    }

    /// An answer arrived.
    pub fn on_answer(&mut self, id: CallId, answer: HttpAnswer, now_us: u64) {
        let Some(call) = self.calls.last_mut().filter(|call| self.is_open && call.id == id) else {
            return;
        };
        if let (HttpAnswer::Health(health), Wish::Health(path, query)) =
            (&answer, call.request.wish)
        {
            // An old build that cannot run the read, an alarm, and an observer stay that way.
            let lasting =
                [etcd::Error::NotCapable.text(), "ALARM NOSPACE", "the local server is a learner"];
            if health.is_good || lasting.iter().any(|text| health.text.contains(text)) {
                self.unhealthy.retain(|question| *question != (path, query));
            }
        }
        call.answered = Some((now_us, answer));
        self.is_open = false;
        self.rest(now_us);
    }
}

impl Login {
    /// The credentials as the request's headers.
    pub fn presented(self) -> Presented {
        let header =
            |(name, password)| format!("Basic {}", STANDARD.encode([name, password].join(":")));
        let credentials = match self {
            Login::Guest => None,
            Login::User(name, password) => Some(header((name, password)).into_bytes()),
        };
        Presented { credentials, certificate: None }
    }
}

impl Change {
    /// The method, and the path behind `/v2/auth/`.
    pub fn at(self) -> (&'static str, String) {
        match self {
            Change::Enforce(true) => ("PUT", "enable".to_string()),
            Change::Enforce(false) => ("DELETE", "enable".to_string()),
            Change::PutUser(user, _) | Change::Grant(user, ..) => ("PUT", format!("users/{user}")),
            Change::DeleteUser(user) => ("DELETE", format!("users/{user}")),
            Change::MakeRole(role, _) | Change::Permit(role, ..) => {
                ("PUT", format!("roles/{role}"))
            }
            Change::DeleteRole(role) => ("DELETE", format!("roles/{role}")),
        }
    }

    /// The body of a request that changes a user.
    pub fn user_body(self) -> UserBody {
        let (user, given) = match self {
            Change::PutUser(user, password) => {
                (user, UserGiven { password: password.to_string(), ..UserGiven::default() })
            }
            Change::Grant(user, role, adds) => {
                let (list, mut given) = (vec![role.to_string()], UserGiven::default());
                *if adds { &mut given.grant } else { &mut given.revoke } = list;
                (user, given)
            }
            other => unreachable!("{other:?} is not about a user"),
        };
        UserBody { user: user.to_string(), given: Ok(given) }
    }

    /// The body of a request that changes a role.
    pub fn role_body(self) -> RoleBody {
        let lists =
            |pattern: &str| PatternLists { read: Some(vec![pattern.to_string()]), write: None };
        let none = PatternLists::default;
        let (role, given) = match self {
            Change::MakeRole(role, pattern) => (role, [lists(pattern), none(), none()]),
            Change::Permit(role, pattern, true) => (role, [none(), lists(pattern), none()]),
            Change::Permit(role, pattern, false) => (role, [none(), none(), lists(pattern)]),
            other => unreachable!("{other:?} is not about a role"),
        };
        RoleBody { role: role.to_string(), given: Ok(given) }
    }
}

/// Whether the answer to a request about members claims that something was changed.
pub fn has_changed_members(method: &str, answer: &MembersAnswer) -> bool {
    let is_refused =
        matches!(answer.content, MembersContent::Refused { .. } | MembersContent::NotAllowed(_));
    method != "GET" && !is_refused
}
