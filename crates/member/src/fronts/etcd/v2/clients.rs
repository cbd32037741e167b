//! Finds the user of an etcd v2 request, from its basic authentication or from the certificate of
//! its connection (`v2http/client_auth.go` of etcd 3.4).
//!
//! A search first reads users and roles from the state. If the client sends a password, the search
//! then has it compared with the user's hash. Each step tells the driver what to do ([`Work`]) and
//! takes the result ([`Done`]).

use std::sync::Arc;

use etcd::Error;
use etcd::v2::{self, Failure, Request};
use machine::etcd_v2::auth::{Auth, Who};
use machine::etcd_v2::reply::Refusal;

use super::super::method::CallRefused;
use super::super::passwords::{PasswordDone, PasswordTask};
use super::{V2Found, V2Result, failure_of};

/// The credentials of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Presented {
    /// The value of the header `Authorization`. An empty one counts as none.
    pub credentials: Option<Vec<u8>>,
    /// The common name of the connection's client certificate. It counts only if there is a user of
    /// that name.
    pub certificate: Option<Arc<str>>,
}

impl Presented {
    /// Whether the client has any credentials. Without them it is a guest.
    pub fn is_named(&self) -> bool {
        self.credentials.is_some() || self.certificate.is_some()
    }
}

/// The client of a request, as a search found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum V2Client {
    /// A client without a user, or any client while permissions are not enforced.
    Guest,
    /// A user.
    User(Arc<str>),
    /// A client that names an unknown user, or sends a wrong password.
    Wrong,
}

impl V2Client {
    /// Whether the client may see and change users, roles and members.
    pub fn is_root(&self, auth: &Auth) -> bool {
        match self {
            V2Client::Guest => auth.permits_root(Who::Guest),
            V2Client::User(user) => auth.permits_root(Who::User(user)),
            V2Client::Wrong => false,
        }
    }

    /// The user of a command or a read. `None` for a guest and for a wrong client.
    pub fn user(self) -> Option<Arc<str>> {
        match self {
            V2Client::User(user) => Some(user),
            V2Client::Guest | V2Client::Wrong => None,
        }
    }
}

/// Work that the driver does for a request between two steps.
#[derive(Debug)]
pub enum Work {
    /// Hand the request to [`EtcdFront::on_v2_call`](crate::EtcdFront::on_v2_call).
    Call(Request),
    /// Do this work on a password, on another thread.
    Password {
        /// The password.
        password: Vec<u8>,
        /// The work on the password.
        task: PasswordTask,
    },
}

/// The result of [`Work`].
#[derive(Debug)]
pub enum Done {
    /// The result of the call.
    Called(Result<V2Result, CallRefused>),
    /// The result of the work on the password.
    Password(PasswordDone),
}

impl Done {
    /// The users and roles, as the result of a [`Request::read_auth`].
    ///
    /// # Errors
    /// The Front has refused the call.
    ///
    /// # Panics
    /// The result is of other work.
    pub(super) fn auth(self) -> Result<Arc<Auth>, CallRefused> {
        match self {
            Done::Called(Ok(Ok(V2Found::Auth(auth)))) => Ok(auth),
            Done::Called(Err(refused)) => Err(refused),
            other => unreachable!("{other:?} is no answer to that"),
        }
    }

    /// The result of work on a password.
    ///
    /// # Errors
    /// Too much work on passwords is queued.
    ///
    /// # Panics
    /// The result is of a call.
    pub(super) fn password(self) -> Result<PasswordDone, CallRefused> {
        match self {
            Done::Password(PasswordDone::TooMuchWork) => Err(Error::TooManyRequests.into()),
            Done::Password(done) => Ok(done),
            Done::Called(_) => unreachable!("{self:?} is no work on a password"),
        }
    }
}

/// A search for the user of a request.
#[derive(Debug)]
pub(super) enum Search {
    /// The driver reads the users and roles.
    Reading(Presented),
    /// Another thread compares the password.
    Comparing {
        /// The users and roles that were read.
        auth: Arc<Auth>,
        /// The user with the name that the client gave; `None` if there is none.
        user: Option<Arc<str>>,
    },
}

/// The next step of a search.
pub(super) enum Searched {
    /// The driver must do this work, and the search goes on with the result.
    Work(Search, Work),
    /// The search is over: the client, and the users and roles that it was judged by.
    Found(V2Client, Arc<Auth>),
}

impl Search {
    /// Begins a search.
    pub fn begin(presented: Presented) -> (Search, Work) {
        (Search::Reading(presented), Work::Call(Request::read_auth()))
    }

    /// Takes the result of the work, and goes on.
    ///
    /// # Errors
    /// There are too many calls, or too much work on passwords is queued.
    pub fn on_done(self, done: Done) -> Result<Searched, CallRefused> {
        match self {
            Search::Reading(presented) => Ok(judge(presented, done.auth()?)),
            Search::Comparing { auth, user } => {
                let is_right = matches!(done.password()?, PasswordDone::Right);
                let user = user.filter(|_| is_right);
                Ok(Searched::Found(user.map_or(V2Client::Wrong, V2Client::User), auth))
            }
        }
    }
}

/// Judges a client's credentials, as far as that needs no comparison of a password.
fn judge(presented: Presented, auth: Arc<Auth>) -> Searched {
    if !auth.is_enabled() {
        return Searched::Found(V2Client::Guest, auth);
    }
    let Presented { credentials, certificate } = presented;
    let Some(credentials) = credentials else {
        let user = certificate.filter(|name| auth.users().contains_key(name));
        return Searched::Found(user.map_or(V2Client::Guest, V2Client::User), auth);
    };
    let Some((name, password)) = v2::basic(&credentials) else {
        return Searched::Found(V2Client::Wrong, auth);
    };
    let known = auth.users().get_key_value(&*name);
    let task = match known {
        Some((user, known)) => {
            PasswordTask::Verify { hash: known.hash.clone(), user: user.clone() }
        }
        None => PasswordTask::Pretend,
    };
    let user = known.map(|(user, _)| user.clone());
    Searched::Work(Search::Comparing { auth, user }, Work::Password { password, task })
}

/// A search for the user of a request about a key. Needed only if [`Presented::is_named`].
#[derive(Debug)]
pub struct UserSearch(Search);

/// The next step of a search for the user of a request about a key.
#[derive(Debug)]
pub enum UserStep {
    /// The driver does the work, and hands the result to [`UserSearch::on_done`].
    Work(UserSearch, Work),
    /// The user of the request; `None` while permissions are not enforced.
    Found(Option<Arc<str>>),
    /// The request fails with this error.
    Failed(Failure),
}

impl UserSearch {
    /// Begins a search.
    pub fn begin(presented: Presented) -> UserStep {
        let (search, work) = Search::begin(presented);
        UserStep::Work(UserSearch(search), work)
    }

    /// Takes the result of the work, and goes on.
    pub fn on_done(self, done: Done) -> UserStep {
        match self.0.on_done(done) {
            Ok(Searched::Work(search, work)) => UserStep::Work(UserSearch(search), work),
            Ok(Searched::Found(V2Client::Wrong, _)) => {
                UserStep::Failed((&Refusal::UNAUTHORIZED).into())
            }
            Ok(Searched::Found(client, _)) => UserStep::Found(client.user()),
            Err(refused) => UserStep::Failed(failure_of(refused)),
        }
    }
}
