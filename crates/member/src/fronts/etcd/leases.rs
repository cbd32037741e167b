//! Calls about leases that only the leader can answer: keep-alives, and questions for the time that
//! is left.
//!
//! A keep-alive's response has the revision from before the question went to Loop, as in etcd: a
//! response never shows a revision at which the lease was gone (`LeaseServer.leaseKeepAlive`).
//! Other responses have the revision of this member when it answers.
//!
//! A question goes to Loop only after the Front has held the state's lock. Apply reports its
//! changes to Loop before it releases that lock. So Loop knows every write whose result the client
//! may have seen.

use etcd::Error;
use etcd::convert::LeaseResponse;
use machine::Level;
use machine::etcd::lease_read::LeaseRead;

use super::EtcdFront;
use super::calls::{Call, Read};
use super::credentials::Asker;
use super::lease_call::{AskedLease, LeaseCall};
use super::method::{CallRefused, EtcdMethod};
use super::reply::Reply;
use crate::lease::NoLeaseTime;
use crate::message::{Caller, LeaseAnswered, Ticket, ToLoop};

impl EtcdFront {
    /// Begins a question. It waits until the state has the level that knows leases.
    pub(super) fn begin_lease_call(
        &mut self,
        ticket: Ticket,
        call: LeaseCall,
        kept: (EtcdMethod, bytes::Bytes),
        asker: Asker,
    ) -> Result<(), CallRefused> {
        if self.level < Level::ETCD {
            self.hold(ticket, Level::ETCD, kept, asker);
        } else {
            self.calls
                .insert(ticket, Call::Ready(Read::AskLease(call, LeaseRead::default()), asker));
            self.turns.runnable.push_back(ticket);
        }
        Ok(())
    }

    /// Queues a question for Loop.
    pub(super) fn ask_lease(
        &mut self,
        ticket: Ticket,
        call: LeaseCall,
        revision: i64,
        asker: Asker,
    ) {
        self.calls.insert(ticket, Call::Asking(AskedLease { call, revision }, asker));
        let (front, connection) = (self.config.id, self.config.connection);
        self.lease_questions.push((Caller { front, connection, ticket }, call.question()));
    }

    /// Passes the queued questions to Loop.
    pub(super) fn hand_over_lease_questions(&mut self) {
        if !self.lease_questions.is_empty() {
            let questions = core::mem::take(&mut self.lease_questions);
            self.output.to_loop.push(ToLoop::AskLeases(questions));
        }
    }

    /// Takes the leader's answer.
    pub(super) fn on_lease_answer(&mut self, ticket: Ticket, answered: LeaseAnswered) {
        let Some(Call::Asking(..)) = self.calls.get(&ticket) else { return };
        let Some(Call::Asking(AskedLease { call, revision }, asker)) = self.calls.remove(&ticket)
        else {
            return;
        };
        let time = match answered {
            Ok(time) => time,
            Err(why) => return self.output.results.push((ticket, Err(error_of(why).into()))),
        };
        match call {
            LeaseCall::KeepAlive(lease) => {
                let ttl_s = time.map_or(0, |time| time.granted_s);
                let response = LeaseResponse::KeptAlive { revision, lease, ttl_s };
                self.output.results.push((ticket, Ok(Reply::from_lease(self.header(), response))));
            }
            LeaseCall::TimeToLive(lease, with_keys) => {
                let read = LeaseRead::default();
                let read = Read::TimeToLive { lease, with_keys, time, read };
                self.calls.insert(ticket, Call::Ready(read, asker));
                self.turns.runnable.push_back(ticket);
            }
        }
    }
}

fn error_of(why: NoLeaseTime) -> Error {
    match why {
        NoLeaseTime::NoLeader => Error::NoLeader,
        NoLeaseTime::TimedOut => Error::TimedOut,
        NoLeaseTime::TooManyRequests => Error::TooManyRequests,
    }
}
