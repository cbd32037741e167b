//! Runs the calls of etcd v2 on a Front.
//!
//! A read takes the state's lock: at once, or with `quorum=true` after a sync. A write is a
//! command. [`waits`] runs the requests that wait for changes of a key. [`users`] serves requests
//! about users and roles, each made of several reads and writes. [`members`] serves members and
//! statistics. [`clients`] finds the user of a request.

pub mod clients;
pub mod limits;
pub mod members;
pub mod users;
pub(super) mod waits;

use std::sync::Arc;

use etcd::Error;
use etcd::v2::{Ask, Code, Failure, Request};
use machine::etcd_v2::Store;
use machine::etcd_v2::auth::{Auth, Done, ETCD_V2_SCHEME};
use machine::etcd_v2::event::Event;
use machine::etcd_v2::query::Found;
use machine::etcd_v2::reply::{Outcome, Refusal};
use machine::{Command, Identity};

use super::EtcdFront;
use super::calls::{Call, Read};
use super::method::CallRefused;
use crate::fronts::etcd::limits::ETCD_V2_WAITS_MAX;
use crate::message::{Ticket, ToLoop};

/// The result of a read or write that has reached the store: what it found or did, or the store's
/// refusal.
pub type V2Result = Result<V2Found, Refusal>;

/// The successful result of a read or a write.
#[derive(Clone, Debug)]
pub enum V2Found {
    /// The node that a read found.
    Node(Found),
    /// The event of a write.
    Written(Arc<Event>),
    /// All users and roles.
    Auth(Arc<Auth>),
    /// The result of a change of users or roles.
    AuthDone(Done),
}

/// A read whose form was checked.
pub(super) struct V2Read(Request);

impl EtcdFront {
    /// Answers a read of a key that needs no sync. `None` if the request is of another kind; it
    /// then goes to [`EtcdFront::on_v2_call`].
    pub fn get_v2(&self, request: &Request, store: &Store) -> Option<V2Result> {
        let is_get = matches!(request.ask, Ask::Get { .. });
        let is_at_once = is_get && (is_local(request) || self.config.is_alone);
        is_at_once.then(|| self.read_v2(request, store))
    }

    /// Runs a read on the store. A read of a key is counted.
    fn read_v2(&self, request: &Request, store: &Store) -> V2Result {
        let is_recursive = match request.ask {
            Ask::ReadAuth => return Ok(V2Found::Auth(store.auth().clone())),
            Ask::Get { is_recursive, .. } => is_recursive,
            _ => unreachable!("the others are commands or waits"),
        };
        let checked = store.check_read(request.who(), request.key(), is_recursive);
        let result = checked.and_then(|()| store.get(request.key()).map(V2Found::Node));
        self.config.command_counts.etcd_v2.on_get(result.is_ok());
        result
    }

    /// Takes a request to read or to write, and returns its ticket. The store's result comes with
    /// [`EtcdOutput::v2_results`](super::EtcdOutput::v2_results). If the request does not reach the
    /// store, an error comes with `results`, as for other calls.
    pub fn on_v2_call(&mut self, request: Request) -> Ticket {
        let ticket = match self.admit_for_time() {
            Ok(ticket) => ticket,
            Err(refused) => return refused,
        };
        if let Err(refused) = self.begin_v2(ticket, request) {
            self.output.results.push((ticket, Err(refused)));
        }
        ticket
    }

    /// Takes a request to wait, and returns its ticket. The steps of the wait come with
    /// [`EtcdOutput::v2_waited`](super::EtcdOutput::v2_waited). If there are too many calls, an
    /// error comes with `results`, as for other calls.
    pub fn on_v2_wait(&mut self, request: Request) -> Ticket {
        let Ask::Wait(ask) = request.ask else { unreachable!("the caller has looked") };
        match self.admit() {
            Ok(ticket) if self.v2_waits.count() >= ETCD_V2_WAITS_MAX => {
                self.output.results.push((ticket, Err(Error::TooManyRequests.into())));
                ticket
            }
            Ok(ticket) => {
                self.v2_waits.open(ticket, &request, ask);
                ticket
            }
            Err(refused) => refused,
        }
    }

    /// Begins a read or a write.
    pub(super) fn begin_v2(&mut self, ticket: Ticket, request: Request) -> Result<(), CallRefused> {
        let Some(command) = request.command() else {
            let is_local = is_local(&request);
            self.begin_read(ticket, Read::V2(V2Read(request)), is_local, None);
            return Ok(());
        };
        let bytes = request.bytes();
        if bytes > self.config.request_bytes_max {
            return Err(Error::RequestTooLarge.into());
        }
        let command = Command::EtcdV2(command);
        if command.level() > self.level {
            self.output.to_loop.push(ToLoop::Need(command.level()));
            self.calls.insert(ticket, Call::HeldV2(Box::new(request)));
            self.turns.held.push(ticket);
            return Ok(());
        }
        let identity = request.user.as_deref().map(|id| Identity { scheme: ETCD_V2_SCHEME, id });
        self.push_command(ticket, &command, bytes, identity)
    }

    /// Runs a read under the lock.
    pub(super) fn run_v2_read(&mut self, ticket: Ticket, store: &Store) {
        if let Some(Call::Ready(Read::V2(V2Read(request)), _)) = self.calls.remove(&ticket) {
            let result = self.read_v2(&request, store);
            self.output.v2_results.push((ticket, result));
        }
    }

    /// Takes the outcome of a write.
    pub(super) fn on_v2_outcome(&mut self, ticket: Ticket, outcome: Result<Outcome, Refusal>) {
        let result = outcome.map(|outcome| match outcome {
            Outcome::Written(event) => V2Found::Written(event),
            Outcome::AuthDone(done) => V2Found::AuthDone(done),
            Outcome::Expired { .. } => unreachable!("no client asks for that"),
        });
        self.output.v2_results.push((ticket, result));
    }
}

/// The error response for a request about keys that did not reach the store.
pub fn failure_of(refused: CallRefused) -> Failure {
    let code = match refused {
        CallRefused::Error(Error::RequestTooLarge) => Code::InvalidForm,
        _ => Code::RaftInternal,
    };
    Failure::new(code, refused.code_and_text().1)
}

/// Whether a read may use this member's state without a sync.
fn is_local(request: &Request) -> bool {
    !matches!(request.ask, Ask::Get { is_quorum: true, .. })
}
