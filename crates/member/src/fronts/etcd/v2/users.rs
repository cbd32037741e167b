//! Serves users and roles of etcd v2: the requests below `/v2/auth`. While permissions are
//! enforced, only `root` may make them, but any client may ask whether permissions are enforced.
//! Source: `v2http/client_auth.go` of etcd 3.4.
//!
//! A request is a [`UsersCall`]. Each of its steps tells the driver what to do next. The order of
//! the checks is etcd's: path and method; that the client is `root`; the body; the rest in Apply.
//!
//! ```text
//! UsersCall::begin -> Work: read users and roles, compare the password -> is the client root?
//!   GET         -> Show: the driver waits for room for the text -> Answer
//!   PUT         -> ReadUser or ReadRole -> Work: hash the password -> Work: write -> Answer
//!   PUT, DELETE -> Work: write -> Answer
//! ```

mod bodies;

use std::sync::Arc;

use etcd::limits::V2_TEXT_TIMES;
use etcd::v2::auth::{self as users, AuthWrite, UserWrite};
use etcd::v2::{self, Request};
use machine::etcd_v2::auth::{Auth, Done as AuthDone};
use machine::etcd_v2::reply::Reason;

use super::super::method::CallRefused;
use super::super::passwords::{PasswordDone, PasswordTask};
use super::V2Found;
use super::clients::{Done, Presented, Search, Searched, Work};
use super::limits::{USERS_ANSWER_BYTES_MAX, USERS_REQUEST_BYTES_MAX};

pub use bodies::{BadBody, RoleBody, UserBody, UserGiven};

/// A refusal of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    /// The HTTP status.
    pub status: u16,
    /// The message.
    pub text: String,
}

impl Refused {
    pub fn new(status: u16, text: impl Into<String>) -> Refused {
        Refused { status, text: text.into() }
    }

    /// The refusal of a client that is not `root`.
    pub fn not_root() -> Refused {
        Refused::new(401, "Insufficient credentials")
    }
}

/// The refusal of a request whose call the Front has refused.
impl From<CallRefused> for Refused {
    fn from(refused: CallRefused) -> Refused {
        Refused::new(500, refused.code_and_text().1)
    }
}

/// The refusal of a change by Apply: the status and the message.
impl From<(u16, String)> for Refused {
    fn from((status, text): (u16, String)) -> Refused {
        Refused { status, text }
    }
}

/// The answer to a request about users and roles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UsersAnswer {
    /// The request succeeded. The response has the header with the cluster's id.
    Line {
        /// The HTTP status.
        status: u16,
        /// A line of JSON, or nothing.
        text: Vec<u8>,
    },
    /// The request is refused, and the body is a message.
    Refused {
        /// The HTTP status.
        status: u16,
        /// The message.
        text: String,
        /// Whether the response has the header with the cluster's id. etcd adds that header only
        /// after its first checks.
        names_cluster: bool,
    },
    /// The path supports only these methods.
    NotAllowed(&'static str),
}

impl From<Refused> for UsersAnswer {
    fn from(Refused { status, text }: Refused) -> UsersAnswer {
        UsersAnswer::Refused { status, text, names_cluster: status != 401 }
    }
}

/// The next step of a request.
#[derive(Debug)]
pub enum UsersStep {
    /// The driver does the work, and hands the result to [`UsersCall::on_done`].
    Work(UsersCall, Work),
    /// The driver reads the body for [`ReadingUser::on_body`].
    ReadUser(ReadingUser),
    /// The driver reads the body for [`ReadingRole::on_body`].
    ReadRole(ReadingRole),
    /// The driver waits for room for the answer, and makes it with [`Shown::answer`].
    Show(Shown),
    /// The request is answered.
    Answer(UsersAnswer),
}

/// The resource at a path below `/v2/auth/`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Enable,
    Users,
    User(String),
    Roles,
    Role(String),
    /// A path with more levels than any resource has.
    TooDeep,
}

impl Place {
    /// The resource at the rest of a path. `None` if there is none.
    fn at(rest: &str) -> Option<Place> {
        if rest == "enable" {
            return Some(Place::Enable);
        }
        let (is_user, name) = match (rest.strip_prefix("users"), rest.strip_prefix("roles")) {
            (Some(name), _) => (true, name),
            (None, Some(name)) => (false, name),
            (None, None) => return None,
        };
        if name.is_empty() || name == "/" {
            return Some(if is_user { Place::Users } else { Place::Roles });
        }
        let name = v2::decoded(name.strip_prefix('/')?.as_bytes(), false).ok()?;
        let name = String::from_utf8(name).ok()?;
        let name = name.strip_suffix('/').unwrap_or(&name).to_string();
        Some(match (name.contains('/'), is_user) {
            (true, _) => Place::TooDeep,
            (false, true) => Place::User(name),
            (false, false) => Place::Role(name),
        })
    }

    /// The methods that the resource supports.
    fn methods(&self) -> &'static str {
        match self {
            Place::Users | Place::Roles => "GET",
            _ => "GET,PUT,DELETE",
        }
    }
}

/// What a request asks for. The request is fulfilled only if the client is `root`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wish {
    ShowUsers,
    ShowUser(String),
    ShowRoles,
    ShowRole(String),
    Enforce(bool),
    PutUser(String),
    DeleteUser(String),
    PutRole(String),
    DeleteRole(String),
}

/// A request about users and roles that waits for the driver's [`Work`].
#[derive(Debug)]
pub struct UsersCall(State);

#[derive(Debug)]
enum State {
    /// The driver reads the users and roles, only to say whether permissions are enforced. Any
    /// client may ask that.
    Asking,
    /// The search for the client is under way.
    Searching(Search, Wish),
    /// Another thread hashes a user's new password.
    Hashing(Option<Arc<str>>, UserWrite),
    /// Apply makes the change.
    Writing(AuthWrite),
}

impl UsersCall {
    /// Takes a request with this method and this part of its path behind `/v2/auth/`. Returns its
    /// first step, or `None` if the path is unknown.
    pub fn begin(method: &str, rest: &str, presented: Presented) -> Option<UsersStep> {
        let place = Place::at(rest)?;
        if place == Place::TooDeep {
            let (status, text) = (400, "Invalid path".to_string());
            return Some(UsersStep::Answer(UsersAnswer::Refused {
                status,
                text,
                names_cluster: false,
            }));
        }
        let methods = place.methods();
        if !methods.split(',').any(|allowed| allowed == method) {
            return Some(UsersStep::Answer(UsersAnswer::NotAllowed(methods)));
        }
        let is_put = method == "PUT";
        let wish = match (place, method == "GET") {
            (Place::Enable, true) => {
                let work = Work::Call(Request::read_auth());
                return Some(UsersStep::Work(UsersCall(State::Asking), work));
            }
            (Place::Enable, false) => Wish::Enforce(is_put),
            (Place::Users, _) => Wish::ShowUsers,
            (Place::Roles, _) => Wish::ShowRoles,
            (Place::User(name), true) => Wish::ShowUser(name),
            (Place::Role(name), true) => Wish::ShowRole(name),
            (Place::User(name), false) if is_put => Wish::PutUser(name),
            (Place::Role(name), false) if is_put => Wish::PutRole(name),
            (Place::User(name), false) => Wish::DeleteUser(name),
            (Place::Role(name), false) => Wish::DeleteRole(name),
            (Place::TooDeep, _) => unreachable!("it was answered"),
        };
        let (search, work) = Search::begin(presented);
        Some(UsersStep::Work(UsersCall(State::Searching(search, wish)), work))
    }

    /// Takes the result of the work, and goes on.
    ///
    /// # Panics
    /// The result is of other work.
    pub fn on_done(self, done: Done) -> UsersStep {
        let step = match self.0 {
            State::Asking => asked(done),
            State::Searching(search, wish) => searched(search, wish, done),
            State::Hashing(user, write) => hashed(user, write, done),
            State::Writing(write) => written(&write, done).map(UsersStep::Answer),
        };
        or_refused(step)
    }
}

/// The step, or the answer that refuses the request.
fn or_refused(step: Result<UsersStep, Refused>) -> UsersStep {
    step.unwrap_or_else(|refused| UsersStep::Answer(refused.into()))
}

fn asked(done: Done) -> Result<UsersStep, Refused> {
    let is_enabled = done.auth()?.is_enabled();
    let text = format!("{{\"enabled\":{is_enabled}}}\n").into_bytes();
    Ok(UsersStep::Answer(UsersAnswer::Line { status: 200, text }))
}

/// Goes on after a step of the search for the client. The answer shows users and roles as they were
/// when the client was judged. A change keeps no copy of them while it waits for its body and a
/// hash.
fn searched(search: Search, wish: Wish, done: Done) -> Result<UsersStep, Refused> {
    let (client, auth) = match search.on_done(done)? {
        Searched::Work(search, work) => {
            return Ok(UsersStep::Work(UsersCall(State::Searching(search, wish)), work));
        }
        Searched::Found(client, auth) => (client, auth),
    };
    if !client.is_root(&auth) {
        return Err(Refused::not_root());
    }
    let user = client.user();
    Ok(match wish {
        Wish::ShowUsers => UsersStep::Show(Shown { auth, what: What::Users }),
        Wish::ShowRoles => UsersStep::Show(Shown { auth, what: What::Roles }),
        Wish::ShowUser(name) => UsersStep::Show(Shown { auth, what: What::User(name) }),
        Wish::ShowRole(name) => UsersStep::Show(Shown { auth, what: What::Role(name) }),
        Wish::Enforce(is_enabled) => write(user, AuthWrite::Enforce(is_enabled)),
        Wish::PutUser(name) => UsersStep::ReadUser(ReadingUser { user, name }),
        Wish::PutRole(name) => UsersStep::ReadRole(ReadingRole { user, name }),
        Wish::DeleteUser(name) => write(user, AuthWrite::DeleteUser(name)),
        Wish::DeleteRole(name) => write(user, AuthWrite::DeleteRole(name)),
    })
}

/// A request to make or change a user that waits for its body.
#[derive(Debug)]
pub struct ReadingUser {
    /// The user that sends the request; `None` for a guest.
    user: Option<Arc<str>>,
    /// The user that the request is about.
    name: String,
}

impl ReadingUser {
    /// Takes the body, and goes on.
    pub fn on_body(self, body: Result<UserBody, BadBody>) -> UsersStep {
        let ReadingUser { user, name } = self;
        let wanted = body.map_err(Refused::from).and_then(|body| body.write(name));
        or_refused(wanted.map(|(wanted, password)| {
            if password.is_empty() {
                return write(user, AuthWrite::PutUser(wanted));
            }
            let (password, task) = (password.into_bytes(), PasswordTask::Hash);
            let call = UsersCall(State::Hashing(user, wanted));
            UsersStep::Work(call, Work::Password { password, task })
        }))
    }
}

/// A request to make or change a role that waits for its body.
#[derive(Debug)]
pub struct ReadingRole {
    /// The user that sends the request; `None` for a guest.
    user: Option<Arc<str>>,
    /// The role that the request is about.
    name: String,
}

impl ReadingRole {
    /// Takes the body, and goes on.
    pub fn on_body(self, body: Result<RoleBody, BadBody>) -> UsersStep {
        let ReadingRole { user, name } = self;
        let wanted = body.map_err(Refused::from).and_then(|body| body.write(name));
        or_refused(wanted.map(|wanted| write(user, AuthWrite::PutRole(wanted))))
    }
}

fn hashed(user: Option<Arc<str>>, mut wanted: UserWrite, done: Done) -> Result<UsersStep, Refused> {
    match done.password()? {
        PasswordDone::Hashed(hash) => wanted.hash = hash,
        other => unreachable!("{other:?} is no hash"),
    }
    Ok(write(user, AuthWrite::PutUser(wanted)))
}

/// The step that has Apply make a change in the name of this user.
fn write(user: Option<Arc<str>>, write: AuthWrite) -> UsersStep {
    let request = Request::write_auth(user, write.clone());
    UsersStep::Work(UsersCall(State::Writing(write)), Work::Call(request))
}

/// The answer to a change, from the result in Apply.
fn written(write: &AuthWrite, done: Done) -> Result<UsersAnswer, Refused> {
    let done = match done {
        Done::Called(Ok(Ok(V2Found::AuthDone(done)))) => done,
        Done::Called(Ok(Err(refusal))) => match &refusal.reason {
            Reason::Auth(why) => return Err(users::refused(why).into()),
            other => unreachable!("{other:?} is no refusal of that"),
        },
        Done::Called(Err(refused)) => return Err(refused.into()),
        other => unreachable!("{other:?} is not done by that"),
    };
    let (status, text) = match (write, done) {
        (AuthWrite::PutUser(write), AuthDone::User { is_new: true, .. }) => {
            // As in etcd: making a new user whose roles the request lists is answered with 200.
            (if write.may_change { 201 } else { 200 }, users::made_user(write))
        }
        (AuthWrite::PutUser(write), AuthDone::User { roles, .. }) => {
            (200, users::changed_user(&write.name, &roles))
        }
        (AuthWrite::PutRole(write), AuthDone::Role(_)) if !write.is_change => {
            (201, users::made_role(write))
        }
        (AuthWrite::PutRole(write), AuthDone::Role(role)) => {
            (200, users::role_line(&write.name, &role))
        }
        _ => (200, Vec::new()),
    };
    Ok(UsersAnswer::Line { status, text })
}

/// The users or roles to show to a client.
#[derive(Debug)]
pub struct Shown {
    auth: Arc<Auth>,
    what: What,
}

#[derive(Debug)]
enum What {
    Users,
    User(String),
    Roles,
    Role(String),
}

impl Shown {
    /// The most bytes of names and patterns in the answer. The answer's text may have
    /// [`V2_TEXT_TIMES`] times as many.
    pub fn kept_bytes(&self) -> usize {
        match self.what {
            // Each user is shown with its roles in full, so the size is not known before the text
            // is made.
            What::Users => USERS_ANSWER_BYTES_MAX / V2_TEXT_TIMES,
            _ => usize::try_from(self.auth.bytes()).unwrap_or(usize::MAX),
        }
    }

    /// Makes the answer.
    pub fn answer(self) -> UsersAnswer {
        match self.text() {
            Ok(text) => UsersAnswer::Line { status: 200, text },
            Err(refused) => refused.into(),
        }
    }

    fn text(&self) -> Result<Vec<u8>, Refused> {
        let Shown { auth, what } = self;
        Ok(match what {
            What::Users => {
                let text = users::users_line(auth, USERS_ANSWER_BYTES_MAX);
                let wrong = "auth: the users with their roles take more than";
                text.ok_or_else(|| {
                    Refused::new(500, format!("{wrong} {USERS_ANSWER_BYTES_MAX} bytes"))
                })?
            }
            What::Roles => users::roles_line(auth),
            What::User(name) => users::shown_user(auth, name)?,
            What::Role(name) => {
                let role = users::role_of(auth, name).ok_or_else(|| {
                    Refused::new(404, format!("auth: Role {name} does not exist."))
                })?;
                users::role_line(name, &role)
            }
        })
    }
}

/// A check, before a request to change members goes on, that the client is `root`.
#[derive(Debug)]
pub struct RootSearch(Search);

/// The next step of a [`RootSearch`].
#[derive(Debug)]
pub enum RootStep {
    /// The driver does the work, and hands the result to [`RootSearch::on_done`].
    Work(RootSearch, Work),
    /// The client is `root`, or permissions are not enforced.
    Permitted,
    /// The request is refused. The response lacks the header with the cluster's id.
    Refused {
        /// The HTTP status.
        status: u16,
        /// The message.
        text: String,
    },
}

impl RootSearch {
    /// Begins a check.
    pub fn begin(presented: Presented) -> RootStep {
        let (search, work) = Search::begin(presented);
        RootStep::Work(RootSearch(search), work)
    }

    /// Takes the result of the work, and goes on.
    pub fn on_done(self, done: Done) -> RootStep {
        let Refused { status, text } = match self.0.on_done(done) {
            Ok(Searched::Work(search, work)) => return RootStep::Work(RootSearch(search), work),
            Ok(Searched::Found(client, auth)) if client.is_root(&auth) => {
                return RootStep::Permitted;
            }
            Ok(Searched::Found(..)) => Refused::not_root(),
            Err(refused) => refused.into(),
        };
        RootStep::Refused { status, text }
    }
}

#[cfg(test)]
mod tests;
