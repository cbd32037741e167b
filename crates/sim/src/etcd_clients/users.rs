//! The users actor: a client that changes users, roles and permissions, and makes calls as these
//! users; one call at a time, at whichever member its client is connected to. No other client
//! changes its users and roles, so after each answer it knows all permissions ([`Rights`]) and
//! checks the answer against them.
//!
//! If the fate of a change is unknown, the actor asks for all its users and roles. But the change
//! may take effect even later. So if an answer looks wrong, that is only a *doubt*: the actor first
//! asks for the auth revision. Only if that is the one that it knows, nothing has changed
//! meanwhile, and the doubt becomes an error.
//!
//! Some runs have two actors, each with its own users and roles; the first one creates root and
//! switches the enforcement. Through the [`ledger`](super::ledger) each knows what the other has
//! done or has open.

use std::collections::BTreeMap;

use bytes::Bytes;
use etcd::Error;
use etcd::convert::AuthMethod;
use etcd::pb::etcdserverpb as pb;
use etcd::pb::{Message, authpb};
use member::fronts::etcd::limits::ETCD_CALL_MS_MAX;
use member::fronts::etcd::{CallRefused, Credentials};
use workload::etcd::op::{Compare, CompareResult, CompareTarget, Op, Put, Range, Txn, TxnOp};
use workload::etcd::watch::Wanted;
use workload::generate::Random;

use super::ledger::{End, Share};
use super::rights::{
    Access, CASTS, Cast, Change, KEYS, Permission, ROLES, ROOT, Rights, Span, USERS, key_of,
};
use super::watch_wire;
use crate::limits::TOKEN_TTL_MS;

/// The most valid tokens, and the most invalid ones, that the actor keeps.
const TOKENS_MAX: usize = 6;

/// The least time, in us, for which a member lets a watch wait until the member knows as much as
/// the client.
const WATCH_WAIT_US_LEAST: u64 = ETCD_CALL_MS_MAX * 1_000 - TOKEN_SLACK_US;

/// How much before its time a token may expire, in us, since machines' clocks differ from the
/// world's.
const TOKEN_SLACK_US: u64 = 100_000;

/// The most calls that an actor still makes after the faults have stopped.
const CALM_CALLS_MAX: u64 = 20;

/// How the actor behaves.
#[derive(Clone, Debug)]
pub struct UsersConfig {
    /// The seed of the actor's random choices.
    pub seed: u64,
    /// The number of calls that the actor makes.
    pub calls: u64,
    /// The longest pause between two calls, in us.
    pub rest_us_max: u64,
}

/// An act that the actor's client must carry out.
#[derive(Debug)]
pub enum UsersAct {
    /// Make a call about keys.
    Call(Credentials, Op),
    /// Make a call about users and roles.
    Auth(Credentials, AuthMethod, Bytes),
    /// Create a watch on its own stream.
    Watch(Credentials, Bytes),
    /// Leave the connection, for another member.
    Leave,
}

/// How a call ended.
#[derive(Clone, Debug)]
pub enum Came {
    /// A response.
    Response(Vec<u8>),
    /// An error.
    Refused(Error),
    /// The call's fate is unknown.
    Lost,
}

/// Counts of what the actor found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsersCounts {
    /// Changes that were made.
    pub changes: usize,
    /// Tokens that it got.
    pub tokens: usize,
    /// Calls that were permitted while permissions were enforced.
    pub permitted: usize,
    /// Calls that were refused for want of permission.
    pub denied: usize,
    /// Calls without credentials that were refused.
    pub nobody: usize,
    /// Calls with tokens that had become invalid, and that were refused.
    pub invalid: usize,
    /// Calls with tokens that were unused for too long, and that were refused.
    pub expired: usize,
    /// Calls that were refused because the member did not know the newest users or roles.
    pub old: usize,
    /// Watches that were refused.
    pub watches_refused: usize,
    /// Changes of unknown fate.
    pub unknown: usize,
    /// Doubts that were explained by a change that took effect late.
    pub late: usize,
    /// Doubts that were dropped, since the other actor may have caused them.
    pub unsure: usize,
}

impl UsersCounts {
    /// Adds the counts of another actor.
    pub fn add(&mut self, other: &UsersCounts) {
        self.changes += other.changes;
        self.tokens += other.tokens;
        self.permitted += other.permitted;
        self.denied += other.denied;
        self.nobody += other.nobody;
        self.invalid += other.invalid;
        self.expired += other.expired;
        self.old += other.old;
        self.watches_refused += other.watches_refused;
        self.unknown += other.unknown;
        self.late += other.late;
        self.unsure += other.unsure;
    }
}

/// A token of a user.
#[derive(Clone, Debug)]
struct Token {
    user: usize,
    text: String,
    made_us: u64,
    /// When the token was last used at each member, in us.
    used_us: BTreeMap<usize, u64>,
}

/// The identity that a call has.
#[derive(Clone, Debug)]
enum By {
    Nobody,
    Root,
    /// A valid token, by its text.
    Live(String),
    /// A token that has become invalid, by its text.
    Dead(String),
}

/// The kind of a call about keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Read,
    Serializable,
    Write,
    Watch,
}

/// A step in asking for all users and roles, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    Status,
    User(usize),
    Role(usize),
    LastStatus,
}

/// The purpose of the open call.
#[derive(Clone, Debug)]
enum Doing {
    Change(Change),
    LogIn {
        user: usize,
        is_right: bool,
    },
    Use {
        by: By,
        kind: Kind,
        needs: Vec<(Access, Span)>,
    },
    Ask(Question),
    /// Asks for the revision, to decide whether this doubt is an error.
    Doubt(String),
}

/// One users actor.
#[derive(Debug)]
pub struct Users {
    client: u32,
    random: Random,
    config: UsersConfig,
    calls_left: u64,
    next_us: u64,
    rights: Rights,
    /// The next step and the answers so far, while the actor asks for all users and roles;
    /// otherwise `None`.
    found: Option<(Question, Rights)>,
    live: Vec<Token>,
    dead: Vec<Token>,
    /// The open call, when it was made in us, and at which member.
    doing: Option<(Doing, u64, usize)>,
    /// A doubt about an answer: what is wrong with the answer, unless a change of unknown fate has
    /// taken effect late.
    doubt: Option<String>,
    /// Whether a change of unknown fate may still take effect.
    has_unknown: bool,
    /// When a machine's clock last jumped, in us.
    jumped_us: u64,
    value_count: u64,
    password_count: u32,
    may_leave: bool,
    /// The actor's view of the shared ledger.
    share: Share,
    /// Counts of what it found.
    pub counts: UsersCounts,
}

impl Users {
    /// An actor that knows nothing yet, and begins by asking.
    pub fn new(client: u32, config: UsersConfig) -> Users {
        let mut random = Random::new(config.seed);
        Users {
            client,
            next_us: random.magnitude(1, 2_000_000),
            random,
            calls_left: config.calls,
            config,
            rights: Rights::default(),
            found: Some((Question::Status, Rights::default())),
            live: Vec::new(),
            dead: Vec::new(),
            doing: None,
            doubt: None,
            has_unknown: false,
            jumped_us: 0,
            value_count: 0,
            password_count: 0,
            may_leave: false,
            share: Share::default(),
            counts: UsersCounts::default(),
        }
    }

    /// Gives the actor its view of the ledger. Called before the actor does anything.
    pub fn set_share(&mut self, share: Share) {
        self.share = share;
    }

    fn cast(&self) -> &'static Cast {
        &CASTS[self.share.part()]
    }

    /// Whether the actor has made all its calls and has no doubt left.
    pub fn is_done(&self) -> bool {
        self.calls_left == 0 && self.doing.is_none() && self.doubt.is_none()
    }

    /// The actor's state, as text for people.
    pub fn describe(&self) -> String {
        format!("{} calls left, {:?}, {:?}", self.calls_left, self.doing, self.rights)
    }

    /// Limits the calls that it still makes.
    pub fn calm_down(&mut self) {
        self.calls_left = self.calls_left.min(CALM_CALLS_MAX);
    }

    /// Makes no more calls, since some servers lack the needed level and that will not change.
    pub fn give_up(&mut self) {
        self.calls_left = 0;
    }

    /// A machine's clock has jumped, so on that machine tokens may seem unused for longer than they
    /// were.
    pub fn on_clock_jump(&mut self, now_us: u64) {
        self.jumped_us = now_us;
    }

    /// When the actor must be polled next, in us.
    pub fn wakes_us(&self) -> u64 {
        if self.is_done() || self.doing.is_some() { u64::MAX } else { self.next_us }
    }

    /// The next act of the actor's client, which is connected to this member; `None` if nothing is
    /// due.
    pub fn poll(&mut self, now_us: u64, member: usize) -> Option<UsersAct> {
        if self.is_done() || self.doing.is_some() || now_us < self.next_us {
            return None;
        }
        if core::mem::take(&mut self.may_leave) && self.random.one_in(2) {
            return Some(UsersAct::Leave);
        }
        self.calls_left = self.calls_left.saturating_sub(1);
        if !self.cast().is_first && self.share.has_switched() && self.found.is_none() {
            self.doubt = None;
            self.ask_all();
        }
        let (doing, act) = self.choose();
        self.doing = Some((doing, now_us, member));
        Some(act)
    }

    fn choose(&mut self) -> (Doing, UsersAct) {
        if let Some(doubt) = self.doubt.take() {
            self.share.on_ask_revision();
            return (Doing::Doubt(doubt), ask(self.cast(), Question::Status));
        }
        if let Some((question, _)) = &self.found {
            match question {
                Question::Status => self.share.on_ask_all(),
                Question::LastStatus => self.share.on_ask_revision(),
                Question::User(_) | Question::Role(_) => {}
            }
            return (Doing::Ask(*question), ask(self.cast(), *question));
        }
        let is_ready = !self.cast().is_first || self.rights.has_root();
        match self.random.below(16) {
            _ if !is_ready => self.change(),
            0..=3 => self.change(),
            4..=6 => self.log_in().unwrap_or_else(|| self.change()),
            _ => self.use_keys(),
        }
    }

    fn change(&mut self) -> (Doing, UsersAct) {
        let mut change = self.rights.draw(self.cast(), &mut self.random);
        if let Change::AddUser(_, password) | Change::Password(_, password) = &mut change {
            self.password_count += 1;
            *password = self.password_count;
        }
        self.share.on_sent(change.is_switch());
        let (method, request) = request_of(self.cast(), &change);
        (Doing::Change(change), UsersAct::Auth(root(), method, request))
    }

    fn log_in(&mut self) -> Option<(Doing, UsersAct)> {
        let user = self.random.below(USERS as u64) as usize;
        let known = self.rights.users.get(&user);
        // The password is unknown after a change whose fate is unknown.
        let password = known.map_or(Some(0), |known| known.password)?;
        let is_right = known.is_some() && !self.random.one_in(5);
        let password = if is_right { password } else { u32::MAX };
        let name = self.cast().users[user].to_string();
        let request = pb::AuthenticateRequest { name, password: password_of(password) };
        let request = request.encode_to_vec().into();
        let act = UsersAct::Auth(Credentials::Nobody, AuthMethod::Authenticate, request);
        Some((Doing::LogIn { user, is_right }, act))
    }

    fn by(&mut self) -> (By, Credentials) {
        let token = |token: &Token| Credentials::Token(token.text.as_str().into());
        match self.random.below(8) {
            0 => (By::Nobody, Credentials::Nobody),
            1 => (By::Root, root()),
            2..=3 if !self.dead.is_empty() => {
                let of = self.random.pick(&self.dead);
                (By::Dead(of.text.clone()), token(of))
            }
            _ if !self.live.is_empty() => {
                let of = self.random.pick(&self.live);
                (By::Live(of.text.clone()), token(of))
            }
            _ => (By::Nobody, Credentials::Nobody),
        }
    }

    fn span(&mut self) -> Span {
        let from = self.random.below(KEYS as u64) as usize;
        match self.random.one_in(3) {
            true => Span { from, to: self.random.between(from as u64 + 1, KEYS as u64) as usize },
            false => Span { from, to: from },
        }
    }

    fn range(&mut self, span: Span) -> Range {
        let (key, range_end) = span.keys();
        Range { key, range_end, ..Range::default() }
    }

    fn put(&mut self, key: usize) -> Put {
        self.value_count += 1;
        let value = format!("of {} {}", self.client, self.value_count).into_bytes();
        Put { key: key_of(key), value, ..Put::default() }
    }

    fn use_keys(&mut self) -> (Doing, UsersAct) {
        let (by, credentials) = self.by();
        let (span, key) = (self.span(), self.random.below(KEYS as u64) as usize);
        let one = Span { from: key, to: key };
        let read = vec![(Access::Read, span)];
        let (kind, needs, op) = match self.random.below(12) {
            0..=3 => (Kind::Read, read, Op::Range(self.range(span))),
            4..=5 => {
                let range = Range { serializable: true, ..self.range(span) };
                (Kind::Serializable, read, Op::Range(range))
            }
            6..=8 => (Kind::Write, vec![(Access::Write, one)], Op::Put(self.put(key))),
            9 => {
                let (key, range_end) = span.keys();
                let wanted = Wanted { key, range_end, ..Wanted::default() };
                let act = UsersAct::Watch(credentials, watch_wire::create(&wanted));
                return (Doing::Use { by, kind: Kind::Watch, needs: read }, act);
            }
            _ => {
                let (put, other) = (self.put(key), self.random.below(KEYS as u64) as usize);
                let compare = Compare {
                    result: CompareResult::Greater,
                    target: CompareTarget::Version(0),
                    key: key_of(other),
                    range_end: Vec::new(),
                };
                let of_other = (Access::Read, Span { from: other, to: other });
                let needs = vec![of_other, (Access::Write, one), (Access::Read, span)];
                let txn = Txn {
                    compares: vec![compare],
                    success: vec![TxnOp::Put(put)],
                    failure: vec![TxnOp::Range(self.range(span))],
                };
                (Kind::Write, needs, Op::Txn(txn))
            }
        };
        (Doing::Use { by, kind, needs }, UsersAct::Call(credentials, op))
    }

    /// The open call has ended.
    ///
    /// # Errors
    /// No correct server gives this result.
    pub fn on_came(&mut self, came: Came, now_us: u64) -> Result<(), String> {
        let Some((doing, asked_us, member)) = self.doing.take() else { return Ok(()) };
        self.next_us = now_us + self.random.magnitude(100, self.config.rest_us_max);
        self.may_leave = true;
        let is_lost = match &came {
            Came::Lost => true,
            Came::Refused(error) => is_unknown(*error),
            Came::Response(_) => false,
        };
        let says_nothing = matches!(&came, Came::Refused(error) if is_nothing(*error));
        match doing {
            Doing::Change(change) if is_lost => {
                self.share.on_over(change.is_switch(), End::Unknown);
                self.counts.unknown += 1;
                self.has_unknown = true;
                self.ask_all();
            }
            Doing::Doubt(doubt) if is_lost || says_nothing => self.doubt = Some(doubt),
            Doing::Change(change) if says_nothing => {
                self.share.on_over(change.is_switch(), End::Nothing);
            }
            _ if is_lost || says_nothing => {}
            Doing::Change(change) => self.on_changed(change, &came),
            Doing::LogIn { user, is_right } => self.on_log_in(user, is_right, &came, asked_us)?,
            Doing::Use { by, kind, needs } => {
                self.on_used((by, kind, &needs), &came, (asked_us, now_us), member);
            }
            Doing::Ask(question) => self.on_answer(question, came)?,
            Doing::Doubt(doubt) => self.on_doubt(doubt, status_of(&came)?)?,
        }
        Ok(())
    }

    /// Whether the actor still knows the enforcement, considering what the other actor may have
    /// done.
    fn knows_enforcement(&self) -> bool {
        self.cast().is_first || self.share.knows_enforcement()
    }

    /// Handles the enforcement and the revision that it asked for because of a doubt.
    ///
    /// # Errors
    /// The doubt is an error.
    fn on_doubt(
        &mut self,
        doubt: String,
        (is_enabled, revision): (bool, u64),
    ) -> Result<(), String> {
        let raised = self.share.raised_since();
        let expected = raised.map(|raised| self.rights.revision + raised);
        if self.knows_enforcement() {
            if (is_enabled, Some(revision)) == (self.rights.is_enabled, expected) {
                return Err(doubt);
            }
            // No other client changes its users and roles.
            if !self.has_unknown {
                return Err(format!("revision {revision}, enforced: {is_enabled}; {doubt}"));
            }
        }
        match self.knows_enforcement() && expected.is_some() {
            true => self.counts.late += 1,
            false => self.counts.unsure += 1,
        }
        self.ask_all();
        Ok(())
    }

    /// Forgets what may have changed, and asks for all users and roles.
    fn ask_all(&mut self) {
        self.found = Some((Question::Status, Rights::default()));
        // Any token may have become invalid.
        self.live.clear();
    }

    fn doubt(&mut self, what: String) {
        if !self.knows_enforcement() {
            // The actor asks for all users and roles next.
            self.counts.unsure += 1;
            return self.ask_all();
        }
        let (Rights { revision, is_enabled, .. }, users) = (&self.rights, &self.rights.users);
        let roles = &self.rights.roles;
        let known = format!("revision {revision}, enforced: {is_enabled}, {users:?}, {roles:?}");
        self.doubt = Some(format!("etcd's users: {what}; {known}"));
        self.calls_left = self.calls_left.max(1);
    }

    fn on_changed(&mut self, change: Change, came: &Came) {
        let mut changed = self.rights.clone();
        let expected = changed.make(change);
        let end = match (came, &expected) {
            (Came::Refused(_), _) => End::Nothing,
            (_, Ok(())) => End::Done { is_raised: changed.revision != self.rights.revision },
            // This is a doubt already; the other actor must not get another one from it.
            (_, Err(_)) => End::Unknown,
        };
        self.share.on_over(change.is_switch(), end);
        match (came, expected) {
            (Came::Response(_), Ok(())) => {
                self.counts.changes += 1;
                self.rights.make(change).expect("it was tried");
                let rights = &self.rights;
                let ends = |token: &mut Token| match change {
                    Change::Disable => true,
                    Change::Password(user, _) | Change::DeleteUser(user) => token.user == user,
                    _ => !rights.users.contains_key(&token.user),
                };
                self.dead.extend(self.live.extract_if(.., |token| ends(token)));
                let surplus = self.dead.len().saturating_sub(TOKENS_MAX);
                self.dead.drain(..surplus);
            }
            (Came::Refused(error), Err(due)) if *error == due => {}
            // The member does not know yet that permissions are enforced.
            (Came::Refused(Error::UserEmpty), _) if self.rights.is_enabled => self.counts.old += 1,
            (came, expected) => {
                self.doubt(format!("{change:?} came to {came:?}, due is {expected:?}"));
            }
        }
    }

    fn on_log_in(
        &mut self,
        user: usize,
        is_right: bool,
        came: &Came,
        asked_us: u64,
    ) -> Result<(), String> {
        let due = match is_right && self.rights.users.contains_key(&user) {
            _ if !self.rights.is_enabled => Some(Error::AuthNotEnabled),
            true => None,
            false => Some(Error::AuthFailed),
        };
        match (came, due) {
            (Came::Response(response), None) => {
                let response: pb::AuthenticateResponse = decode(response)?;
                self.counts.tokens += 1;
                let (text, used_us) = (response.token, BTreeMap::new());
                self.live.push(Token { user, text, made_us: asked_us, used_us });
                if self.live.len() > TOKENS_MAX {
                    self.live.remove(0);
                }
            }
            (Came::Refused(error), Some(due)) if *error == due => {}
            (came, due) => {
                let name = self.cast().users[user];
                self.doubt(format!("{name} logs in: {came:?}, the error due is {due:?}"));
            }
        }
        Ok(())
    }

    fn on_used(
        &mut self,
        (by, kind, needs): (By, Kind, &[(Access, Span)]),
        came: &Came,
        (asked_us, now_us): (u64, u64),
        member: usize,
    ) {
        let error = match came {
            Came::Refused(error) => Some(*error),
            _ => None,
        };
        let live = match &by {
            By::Live(text) => self.live.iter_mut().find(|token| token.text == *text),
            _ => None,
        };
        if let Some(token) = live
            && self.rights.is_enabled
        {
            let used_us = token.used_us.get(&member).copied().unwrap_or(0).max(token.made_us);
            let ttl_us = TOKEN_TTL_MS * 1_000 - TOKEN_SLACK_US;
            let is_unused = used_us <= self.jumped_us || used_us + ttl_us < now_us;
            if error == Some(Error::InvalidAuthToken) && is_unused {
                self.counts.expired += 1;
                return;
            }
            if error != Some(Error::InvalidAuthToken) {
                token.used_us.insert(member, asked_us);
            }
        }
        let due = self.due(&by, needs);
        let lags = self.rights.is_enabled && kind == Kind::Write;
        let is_lag = match (&by, error) {
            (_, Some(Error::AuthOldRevision)) => lags && !matches!(by, By::Nobody),
            // The member does not know yet that permissions are enforced.
            (By::Root, Some(Error::UserEmpty)) => lags,
            _ => false,
        };
        self.count(kind, error, is_lag);
        // A watch with a token waits until its member knows as much as the client. If that takes
        // too long, it is judged by what the member knows, as etcd judges all watches.
        let gave_up = now_us >= asked_us + WATCH_WAIT_US_LEAST;
        // A serializable read may use an older state, but does not refuse a token because of that.
        let is_old = match (kind, &by) {
            (Kind::Watch, _) if gave_up => true,
            (Kind::Serializable, By::Live(_)) => error != Some(Error::InvalidAuthToken),
            (Kind::Serializable, _) | (Kind::Watch, By::Nobody | By::Root) => true,
            _ => false,
        };
        if error != due && !is_lag && !is_old {
            let by = match &by {
                By::Live(text) | By::Dead(text) => {
                    let mut all = self.live.iter().chain(&self.dead);
                    format!("{by:?} of {:?}", all.find(|it| it.text == *text))
                }
                _ => format!("{by:?}"),
            };
            self.doubt(format!(
                "{kind:?} of {needs:?} by {by} at member {member} from {asked_us} to {now_us} us: \
                 {error:?}, due is {due:?}"
            ));
        }
    }

    /// The error that a call must get; `None` if it must be permitted.
    fn due(&self, by: &By, needs: &[(Access, Span)]) -> Option<Error> {
        if !self.rights.is_enabled {
            return None;
        }
        match by {
            By::Nobody => Some(Error::UserEmpty),
            By::Root => None,
            By::Dead(_) => Some(Error::InvalidAuthToken),
            By::Live(text) => {
                let user = self.live.iter().find(|token| token.text == *text)?.user;
                let permits =
                    |(access, span): &(Access, Span)| self.rights.permits(user, *access, *span);
                let is_permitted = needs.iter().all(permits);
                (!is_permitted).then_some(Error::PermissionDenied)
            }
        }
    }

    fn count(&mut self, kind: Kind, error: Option<Error>, is_lag: bool) {
        let counts = &mut self.counts;
        counts.watches_refused += usize::from(kind == Kind::Watch && error.is_some());
        match error {
            _ if is_lag => counts.old += 1,
            None => counts.permitted += usize::from(self.rights.is_enabled),
            Some(Error::PermissionDenied) => counts.denied += 1,
            Some(Error::UserEmpty) => counts.nobody += 1,
            Some(Error::InvalidAuthToken) => counts.invalid += 1,
            _ => {}
        }
    }

    /// Handles the answer to a step in asking for all users and roles.
    fn on_answer(&mut self, question: Question, came: Came) -> Result<(), String> {
        let Some((_, mut found)) = self.found.take() else { return Ok(()) };
        let next = match (question, came) {
            (Question::Status, came) => {
                (found.is_enabled, found.revision) = status_of(&came)?;
                Question::User(self.cast().first_user())
            }
            (Question::LastStatus, came) => {
                let (is_enabled, revision) = status_of(&came)?;
                let is_same = (is_enabled, revision) == (found.is_enabled, found.revision);
                // Only the other actor can have raised the revision, and it does not change these
                // users and roles.
                let is_of_other = is_enabled == found.is_enabled && !self.has_unknown;
                if is_same || (self.share.has_others() && is_of_other) {
                    self.rights = Rights { revision, ..found };
                    self.share.on_revision();
                } else {
                    self.ask_all();
                }
                return Ok(());
            }
            (Question::User(user), came) => {
                match came {
                    Came::Response(response) => {
                        let response: pb::AuthUserGetResponse = decode(&response)?;
                        found.add_user(self.cast(), user, &response.roles);
                    }
                    Came::Refused(Error::UserNotFound) => {}
                    came => return Err(format!("etcd's users: user {user}: {came:?}")),
                }
                match user + 1 < USERS {
                    true => Question::User(user + 1),
                    false => Question::Role(0),
                }
            }
            (Question::Role(role), came) => {
                match came {
                    Came::Response(response) => {
                        let response: pb::AuthRoleGetResponse = decode(&response)?;
                        let permissions = response.perm.iter().map(Permission::of);
                        found.roles.insert(role, permissions.collect::<Result<_, _>>()?);
                    }
                    Came::Refused(Error::RoleNotFound) => {}
                    came => return Err(format!("etcd's users: role {role}: {came:?}")),
                }
                match role + 1 < ROLES {
                    true => Question::Role(role + 1),
                    false => Question::LastStatus,
                }
            }
        };
        self.found = Some((next, found));
        Ok(())
    }
}

/// The result of creating a watch, from the stream's first message.
///
/// # Errors
/// No correct server gives this message.
pub fn of_watch(message: &[u8]) -> Result<Came, String> {
    let response: pb::WatchResponse = decode(message)?;
    if !response.canceled {
        return Ok(Came::Response(Vec::new()));
    }
    let text = response.cancel_reason.as_str();
    let all = [
        Error::UserEmpty,
        Error::PermissionDenied,
        Error::InvalidAuthToken,
        Error::AuthOldRevision,
    ];
    let found = all.into_iter().find(|error| text.ends_with(error.text()));
    found.map(Came::Refused).ok_or_else(|| format!("etcd's users: a watch is refused: {text}"))
}

/// The result of any other call.
///
/// # Errors
/// No correct server gives this result.
pub fn of_call(result: Result<Vec<u8>, CallRefused>) -> Result<Came, String> {
    match result {
        Ok(response) => Ok(Came::Response(response)),
        Err(CallRefused::Error(error)) => Ok(Came::Refused(error)),
        Err(refused) => Err(format!("etcd's users: {refused:?}")),
    }
}

fn is_unknown(error: Error) -> bool {
    matches!(
        error,
        Error::TimedOut
            | Error::TimedOutLeaderFailed
            | Error::TimedOutConnectionLost
            | Error::LeaderChanged
            | Error::Stopped
    )
}

/// Whether an error says nothing about users, roles or keys.
fn is_nothing(error: Error) -> bool {
    matches!(error, Error::NoLeader | Error::TooManyRequests | Error::NotCapable | Error::NoSpace)
}

fn root() -> Credentials {
    Credentials::Certificate(CASTS[0].users[ROOT].into())
}

fn password_of(number: u32) -> String {
    format!("password {number}")
}

fn decode<M: Message + Default>(response: &[u8]) -> Result<M, String> {
    M::decode(response).map_err(|error| format!("etcd's users: {error}"))
}

fn status_of(came: &Came) -> Result<(bool, u64), String> {
    match came {
        Came::Response(response) => {
            let status: pb::AuthStatusResponse = decode(response)?;
            Ok((status.enabled, status.auth_revision))
        }
        came => Err(format!("etcd's users: the status: {came:?}")),
    }
}

fn ask(cast: &Cast, question: Question) -> UsersAct {
    let (method, request) = match question {
        Question::Status | Question::LastStatus => {
            (AuthMethod::Status, pb::AuthStatusRequest {}.encode_to_vec())
        }
        Question::User(user) => {
            let request = pb::AuthUserGetRequest { name: cast.users[user].to_string() };
            (AuthMethod::UserGet, request.encode_to_vec())
        }
        Question::Role(role) => {
            let request = pb::AuthRoleGetRequest { role: cast.roles[role].to_string() };
            (AuthMethod::RoleGet, request.encode_to_vec())
        }
    };
    UsersAct::Auth(root(), method, request.into())
}

/// The call that makes a change.
fn request_of(cast: &Cast, change: &Change) -> (AuthMethod, Bytes) {
    let name = |user: usize| cast.users[user].to_string();
    let role = |role: usize| cast.role_name(role).to_string();
    let (method, request) = match *change {
        Change::Enable => (AuthMethod::Enable, pb::AuthEnableRequest {}.encode_to_vec()),
        Change::Disable => (AuthMethod::Disable, pb::AuthDisableRequest {}.encode_to_vec()),
        Change::AddUser(user, password) => {
            let password = password_of(password);
            let request =
                pb::AuthUserAddRequest { name: name(user), password, ..Default::default() };
            (AuthMethod::UserAdd, request.encode_to_vec())
        }
        Change::DeleteUser(user) => {
            (AuthMethod::UserDelete, pb::AuthUserDeleteRequest { name: name(user) }.encode_to_vec())
        }
        Change::Password(user, password) => {
            let (password, hashed_password) = (password_of(password), String::new());
            let name = name(user);
            let request = pb::AuthUserChangePasswordRequest { name, password, hashed_password };
            (AuthMethod::UserChangePassword, request.encode_to_vec())
        }
        Change::GrantRole(user, of) => {
            let request = pb::AuthUserGrantRoleRequest { user: name(user), role: role(of) };
            (AuthMethod::UserGrantRole, request.encode_to_vec())
        }
        Change::RevokeRole(user, of) => {
            let request = pb::AuthUserRevokeRoleRequest { name: name(user), role: role(of) };
            (AuthMethod::UserRevokeRole, request.encode_to_vec())
        }
        Change::AddRole(of) => {
            (AuthMethod::RoleAdd, pb::AuthRoleAddRequest { name: role(of) }.encode_to_vec())
        }
        Change::DeleteRole(of) => {
            (AuthMethod::RoleDelete, pb::AuthRoleDeleteRequest { role: role(of) }.encode_to_vec())
        }
        Change::Grant(of, span, permission) => {
            let (key, range_end) = span.keys();
            let perm_type = permission as i32;
            let perm =
                authpb::Permission { perm_type, key: key.into(), range_end: range_end.into() };
            let request = pb::AuthRoleGrantPermissionRequest { name: role(of), perm: Some(perm) };
            (AuthMethod::RoleGrantPermission, request.encode_to_vec())
        }
        Change::Revoke(of, span) => {
            let (key, range_end) = span.keys();
            let (key, range_end) = (key.into(), range_end.into());
            let request = pb::AuthRoleRevokePermissionRequest { role: role(of), key, range_end };
            (AuthMethod::RoleRevokePermission, request.encode_to_vec())
        }
    };
    (method, request.into())
}
