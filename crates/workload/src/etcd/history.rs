//! The record of a run: every call of every etcd client, with times and answers.
//!
//! The driver of the clients writes it, with one clock for all clients ([`Moment`]), so "before"
//! has a meaning across clients. A client may have several open calls on one connection.

use std::collections::BTreeMap;

use crate::etcd::locks::{Hold, Shown};
use crate::etcd::op::{Answer, Op};
use crate::etcd::watch::{Step, StreamRecord};
use crate::history::Moment;

/// The identity of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallId {
    /// The client's number.
    pub client: u32,
    /// The call's number among the client's calls, from 0.
    pub number: u32,
}

/// An answer, with its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// When the answer arrived.
    pub moment: Moment,
    /// The answer.
    pub answer: Answer,
}

/// A call. If it has no answer, its fate is unknown.
#[derive(Clone, Debug)]
pub struct CallRecord {
    /// The identity of the call.
    pub id: CallId,
    /// The number of the connection that it was sent on.
    pub connection: usize,
    /// The operation.
    pub op: Op,
    /// When the call was sent.
    pub asked: Moment,
    /// The answer; `None` if none arrived.
    pub answered: Option<Answered>,
}

impl CallRecord {
    /// The answer; `None` if none arrived.
    pub fn answer(&self) -> Option<&Answer> {
        self.answered.as_ref().map(|answered| &answered.answer)
    }
}

/// A connection of a client to a member. A client that reconnects gets a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionRecord {
    /// The client's number.
    pub client: u32,
    /// The member's number.
    pub member: u32,
}

/// The record of a whole run.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// All calls, in the order of sending.
    pub calls: Vec<CallRecord>,
    /// All connections; the position is the connection's number.
    pub connections: Vec<ConnectionRecord>,
    /// All watch streams, in the order of opening; the position is the stream's number.
    pub watches: Vec<StreamRecord>,
    /// All holds of locks by clients, in the order in which they began.
    pub holds: Vec<Hold>,
    /// All leaders that clients were shown, in order.
    pub shown: Vec<Shown>,
    positions: BTreeMap<CallId, usize>,
    /// The number of calls of each client so far.
    asked: BTreeMap<u32, u32>,
    sequence: u64,
}

impl History {
    /// Notes that a client connects to a member. Returns the connection's number.
    pub fn connect(&mut self, client: u32, member: u32) -> usize {
        self.connections.push(ConnectionRecord { client, member });
        self.connections.len() - 1
    }

    /// Notes that a call is sent. Returns its identity.
    pub fn ask(&mut self, connection: usize, op: Op, at_us: u64) -> CallId {
        let asked = self.moment(at_us);
        let client = self.connections[connection].client;
        let next = self.asked.entry(client).or_default();
        let id = CallId { client, number: *next };
        *next += 1;
        self.positions.insert(id, self.calls.len());
        self.calls.push(CallRecord { id, connection, op, asked, answered: None });
        id
    }

    /// Notes the answer to a call.
    pub fn answer(&mut self, id: CallId, answer: Answer, at_us: u64) {
        let moment = self.moment(at_us);
        let record = &mut self.calls[self.positions[&id]];
        assert!(record.answered.is_none(), "an answer is noted once");
        record.answered = Some(Answered { moment, answer });
    }

    /// Notes that a client opens a watch stream. Returns the stream's number.
    pub fn open_stream(&mut self, connection: usize, requires_leader: bool, at_us: u64) -> usize {
        let opened = self.moment(at_us);
        self.watches.push(StreamRecord { connection, requires_leader, opened, steps: Vec::new() });
        self.watches.len() - 1
    }

    /// Notes that something was sent or received on a watch stream.
    pub fn note_watch(&mut self, stream: usize, step: Step, at_us: u64) {
        let moment = self.moment(at_us);
        let record = &mut self.watches[stream];
        assert!(record.ended().is_none(), "nothing happens on a stream that has ended");
        record.steps.push((moment, step));
    }

    /// Notes that a client learns that it holds a lock. Returns the position of the hold.
    pub fn begin_hold(
        &mut self,
        (client, name): (u32, &[u8]),
        lease: i64,
        token: i64,
        at_us: u64,
    ) -> usize {
        let (name, began) = (name.to_vec(), self.moment(at_us));
        let writes = Vec::new();
        self.holds.push(Hold { client, name, lease, token, began, ended: None, writes });
        self.holds.len() - 1
    }

    /// Notes that a client stops believing that it holds.
    pub fn end_hold(&mut self, hold: usize, at_us: u64) {
        let moment = self.moment(at_us);
        self.holds[hold].ended.get_or_insert(moment);
    }

    /// The position of a call in [`History::calls`]; `None` for an unknown call.
    pub fn position(&self, id: CallId) -> Option<usize> {
        self.positions.get(&id).copied()
    }

    /// All answers in the order of arrival, each with its time and its call.
    pub fn answers(&self) -> Vec<(u64, &CallRecord, &Answer)> {
        let mut answers = Vec::new();
        for record in &self.calls {
            if let Some(Answered { moment, answer }) = &record.answered {
                answers.push((moment.sequence, record, answer));
            }
        }
        answers.sort_unstable_by_key(|(answered, ..)| *answered);
        answers
    }

    fn moment(&mut self, at_us: u64) -> Moment {
        self.sequence += 1;
        Moment { sequence: self.sequence, at_us }
    }
}
