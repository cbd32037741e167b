//! Matches etcd commands in the log with the client calls that they come from.
//!
//! Two calls may have the same bytes, so bytes alone cannot match them. So Loop reports which
//! ticket waits for each command of a batch, and the connection runtime reports which call has that
//! ticket. The content is checked as well.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use etcd::convert;
use etcd::pb::{Message, etcdserverpb as pb};
use machine::Origin;
use machine::etcd::command::Command;
use member::fronts::etcd::EtcdMethod;
use member::message::{FrontId, Ticket};
use workload::etcd::history::CallId;
use workload::etcd::op::Op;

use super::audit::AuditLines;
use crate::etcd_clients::{recipe, wire};

/// The calls of etcd clients and their tickets, in all process runs.
#[derive(Default)]
pub struct EtcdCalls {
    /// For each batch, by its member id, boot and sequence number, the Front and the tickets that
    /// wait for its commands, in order.
    batches: BTreeMap<(u64, u64, u64), (FrontId, Vec<Ticket>)>,
    /// The call of each ticket, by member id, boot, Front and ticket.
    calls: BTreeMap<(u64, u64, FrontId, Ticket), CallId>,
    /// The tickets of requests that a member makes itself, as parts of a `Lock` or `Campaign` call.
    parts: BTreeSet<(u64, u64, FrontId, Ticket)>,
    /// When each call ended at its member, in us: it was answered or cancelled, or its connection
    /// or process ended.
    ended_us: BTreeMap<CallId, u64>,
    /// When a Front learned that its member, with this number, installed a snapshot.
    installed_us: Vec<(usize, u64)>,
    /// The audit log's lines about the calls.
    pub audit: AuditLines,
}

impl EtcdCalls {
    /// A connection runtime gives a call to its Front, which assigns this ticket.
    pub fn on_call(&mut self, origin: Origin, front: FrontId, ticket: Ticket, call: CallId) {
        self.calls.insert((origin.member.0, origin.boot.0, front, ticket), call);
    }

    /// A Front submits a part of a `Lock` or `Campaign` call under this ticket.
    pub fn on_part(&mut self, origin: Origin, front: FrontId, ticket: Ticket) {
        self.parts.insert((origin.member.0, origin.boot.0, front, ticket));
    }

    /// A call ends at its member.
    pub fn on_end(&mut self, call: CallId, now_us: u64) {
        self.ended_us.entry(call).or_insert(now_us);
    }

    /// A process ends, and with it all its calls.
    pub fn on_process_end(&mut self, origin: Origin, now_us: u64) {
        let (member, boot) = (origin.member.0, origin.boot.0);
        let is_its =
            |(of, in_boot, ..): &(u64, u64, FrontId, Ticket)| (*of, *in_boot) == (member, boot);
        for (_, call) in self.calls.iter().filter(|(request, _)| is_its(request)) {
            self.ended_us.entry(*call).or_insert(now_us);
        }
    }

    /// A Front learns that its member, with this number, has installed a snapshot.
    pub fn on_installed(&mut self, member: usize, now_us: u64) {
        self.installed_us.push((member, now_us));
    }

    /// Whether a Front of this member learned of an installed snapshot between two times.
    pub fn has_installed(&self, member: usize, from_us: u64, until_us: u64) -> bool {
        let is_it =
            |(of, at_us): &(usize, u64)| *of == member && (from_us..=until_us).contains(at_us);
        self.installed_us.iter().any(is_it)
    }

    /// When a call ended at its member, in us; `None` if it has not.
    pub fn ended_us(&self, call: CallId) -> Option<u64> {
        self.ended_us.get(&call).copied()
    }

    /// Loop gives a Front's batch its sequence. Each ticket waits for one command of the batch, in
    /// order.
    pub fn on_batch(
        &mut self,
        origin: Origin,
        sequence: u64,
        front: FrontId,
        tickets: Vec<Ticket>,
    ) {
        self.batches.insert((origin.member.0, origin.boot.0, sequence), (front, tickets));
    }

    /// Whether a batch came from a Front, and not from Loop itself.
    pub fn is_of_front(&self, origin: Origin, sequence: u64) -> bool {
        self.batches.contains_key(&(origin.member.0, origin.boot.0, sequence))
    }

    /// The call that the command at this position of a batch comes from.
    ///
    /// # Errors
    /// It comes from no client's call.
    pub fn call_of(
        &self,
        origin: Origin,
        sequence: u64,
        position: usize,
    ) -> Result<CallId, String> {
        let request = self.request_at(origin, sequence, position);
        request.and_then(|request| self.calls.get(&request)).copied().ok_or_else(|| {
            format!("no client sent command {position} of batch {sequence} of {origin:?}")
        })
    }

    /// Whether the command at this position of a batch is a part of a `Lock` or `Campaign` call.
    pub fn is_part(&self, origin: Origin, sequence: u64, position: usize) -> bool {
        let request = self.request_at(origin, sequence, position);
        request.is_some_and(|request| self.parts.contains(&request))
    }

    fn request_at(
        &self,
        origin: Origin,
        sequence: u64,
        position: usize,
    ) -> Option<(u64, u64, FrontId, Ticket)> {
        let (member, boot) = (origin.member.0, origin.boot.0);
        let (front, tickets) = self.batches.get(&(member, boot, sequence))?;
        Some((member, boot, *front, *tickets.get(position)?))
    }
}

/// Whether a command is what this call asks for.
pub fn is_asked_for(command: &Command<'_>, op: &Op) -> bool {
    let (method, bytes) = wire::encode(op);
    let ops_max = etcd::limits::TXN_OPS_MAX_DEFAULT;
    match method {
        EtcdMethod::Range
        | EtcdMethod::RangeStream
        | EtcdMethod::LeaseKeepAlive
        | EtcdMethod::LeaseTimeToLive
        | EtcdMethod::LeaseLeases
        | EtcdMethod::Auth(_)
        | EtcdMethod::Alarm
        | EtcdMethod::Hash
        | EtcdMethod::HashKv
        | EtcdMethod::Lock
        | EtcdMethod::Campaign
        | EtcdMethod::Cluster(_)
        | EtcdMethod::Need(_) => false,
        EtcdMethod::LeaseGrant => decode(bytes, |it| convert::grant(it) == *command),
        EtcdMethod::LeaseRevoke => decode(bytes, |it| convert::revoke(it) == *command),
        EtcdMethod::Put => decode(bytes, |it: &pb::PutRequest| {
            convert::put(it).is_ok_and(|it| Command::Put(it) == *command)
        }),
        EtcdMethod::DeleteRange => decode(bytes, |it: &pb::DeleteRangeRequest| {
            convert::delete_range(it).is_ok_and(|it| Command::DeleteRange(it) == *command)
        }),
        EtcdMethod::Txn => decode(bytes, |it: &pb::TxnRequest| {
            convert::txn(it, ops_max).is_ok_and(|it| Command::Txn(it) == *command)
        }),
        EtcdMethod::Compact => decode(bytes, |it| convert::compaction(it) == *command),
    }
}

/// The operation of a part of a `Lock` or `Campaign` call: it puts the key of a lease below the
/// lock's name, or deletes that key.
///
/// # Errors
/// The command is neither.
pub fn op_of_part(command: &Command<'_>) -> Result<Op, String> {
    let op = match command {
        Command::Txn(txn) => recipe::of_part(txn),
        _ => None,
    };
    let op = op.filter(|op| is_asked_for(command, op));
    op.ok_or_else(|| format!("{command:?} is no part of a lock or an election"))
}

fn decode<M: Message + Default>(bytes: Bytes, is_it: impl FnOnce(&M) -> bool) -> bool {
    M::decode(bytes).is_ok_and(|request| is_it(&request))
}
