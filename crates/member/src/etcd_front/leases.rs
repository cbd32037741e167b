//! Calls about leases that the leader answers: keep-alives, and questions for the time that is
//! left.
//!
//! A keep-alive notes the revision before it is handed over, as etcd does: so nobody is told of a
//! revision at which the lease was gone (`LeaseServer.leaseKeepAlive`). The other answers have the
//! revision of this member when it tells them.
//!
//! A question is handed over after a look at the state under its lock. Whatever the client was told
//! before, Apply has told Loop by then.

use etcd::Error;
use etcd::convert::{LeaseResponse, TimeToLive};
use etcd::pb::etcdserverpb as pb;
use machine::etcd::Store;
use machine::{LeaseId, Level};

use super::calls::{Call, Read, Reply};
use super::{CallRefused, EtcdFront, Method};
use crate::lease::{LeaseQuestion, LeaseTime, NoLeaseTime};
use crate::message::{Caller, LeaseAnswered, Ticket, ToLoop};

/// A question about a lease.
#[derive(Clone, Copy, Debug)]
pub(super) enum LeaseCall {
    /// To keep the lease alive.
    KeepAlive(LeaseId),
    /// For the time that is left, and the keys if that is so.
    TimeToLive(LeaseId, bool),
}

/// A question that was handed over.
#[derive(Clone, Copy, Debug)]
pub(super) struct AskedLease {
    call: LeaseCall,
    /// The revision when it was handed over.
    revision: i64,
}

impl LeaseCall {
    pub fn keep_alive(request: &pb::LeaseKeepAliveRequest) -> LeaseCall {
        LeaseCall::KeepAlive(LeaseId(request.id))
    }

    pub fn time_to_live(request: &pb::LeaseTimeToLiveRequest) -> LeaseCall {
        LeaseCall::TimeToLive(LeaseId(request.id), request.keys)
    }

    fn question(self) -> LeaseQuestion {
        match self {
            LeaseCall::KeepAlive(lease) => LeaseQuestion { lease, renews: true },
            LeaseCall::TimeToLive(lease, _) => LeaseQuestion { lease, renews: false },
        }
    }
}

impl EtcdFront {
    /// Begins a question; it waits until the level of the state has leases.
    pub(super) fn begin_lease_call(
        &mut self,
        ticket: Ticket,
        call: LeaseCall,
        kept: (Method, bytes::Bytes),
    ) -> Result<(), CallRefused> {
        if self.level < Level::ETCD {
            self.hold(ticket, Level::ETCD, kept);
        } else {
            self.calls.insert(ticket, Call::Ready(Read::AskLease(call)));
            self.runnable.push_back(ticket);
        }
        Ok(())
    }

    /// Hands a question over.
    pub(super) fn ask_lease(&mut self, ticket: Ticket, call: LeaseCall, revision: i64) {
        self.calls.insert(ticket, Call::Asking(AskedLease { call, revision }));
        let (front, connection) = (self.config.id, self.config.connection);
        self.lease_questions.push((Caller { front, connection, ticket }, call.question()));
    }

    /// Passes on the questions of this turn.
    pub(super) fn hand_over_lease_questions(&mut self) {
        if !self.lease_questions.is_empty() {
            let questions = core::mem::take(&mut self.lease_questions);
            self.output.to_loop.push(ToLoop::AskLeases(questions));
        }
    }

    /// Takes the leader's answer.
    pub(super) fn on_lease_answer(&mut self, ticket: Ticket, answered: LeaseAnswered) {
        let Some(Call::Asking(AskedLease { call, revision })) = self.calls.get(&ticket) else {
            return;
        };
        let (call, revision) = (*call, *revision);
        let time = match answered {
            Ok(time) => time,
            Err(why) => {
                self.calls.remove(&ticket);
                return self.output.results.push((ticket, Err(error_of(why).into())));
            }
        };
        match call {
            LeaseCall::KeepAlive(lease) => {
                self.calls.remove(&ticket);
                let ttl_s = time.map_or(0, |time| time.granted_s);
                let response = LeaseResponse::KeptAlive { revision, lease, ttl_s };
                self.output.results.push((ticket, Ok(Reply::of_lease(self.header(), response))));
            }
            LeaseCall::TimeToLive(lease, with_keys) => {
                self.calls.insert(ticket, Call::Ready(Read::TimeToLive { lease, with_keys, time }));
                self.runnable.push_back(ticket);
            }
        }
    }
}

/// The response for a lease of which the leader has said this. It may have ended here since.
pub(super) fn time_to_live(
    store: &Store,
    lease: LeaseId,
    with_keys: bool,
    time: Option<LeaseTime>,
) -> LeaseResponse {
    let revision = store.revision();
    let found = store.leases().get(lease);
    let response = match (time, found) {
        (Some(LeaseTime { granted_s, left_ms }), Some(found)) => {
            // Some time has passed since the clock was looked at: whole seconds are less.
            let ttl_s = (left_ms.saturating_sub(1) / 1_000) as i64;
            let shown = found.versions().filter(|_| with_keys);
            let keys = shown.cloned().collect();
            TimeToLive { revision, lease, ttl_s, granted_ttl_s: granted_s, keys }
        }
        _ => TimeToLive { revision, lease, ttl_s: -1, granted_ttl_s: 0, keys: Vec::new() },
    };
    LeaseResponse::TimeToLive(response)
}

fn error_of(why: NoLeaseTime) -> Error {
    match why {
        NoLeaseTime::NoLeader => Error::NoLeader,
        NoLeaseTime::TimedOut => Error::TimedOut,
        NoLeaseTime::TooManyRequests => Error::TooManyRequests,
    }
}
