//! The calls of etcd's clients that commands in the log belong to.
//!
//! Two calls may have the same bytes. So a command is matched with its call by its place: Loop says
//! which request waits for each command of a batch, and the connection runtime says which call each
//! request is. The content is compared as well.

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

/// The requests of etcd's clients, in all lives of the processes.
#[derive(Default)]
pub struct EtcdCalls {
    /// The request that waits for each command of a batch, by the member, boot and sequence of the
    /// batch.
    batches: BTreeMap<(u64, u64, u64), (FrontId, Vec<Ticket>)>,
    /// The call that each request is, by member and boot.
    calls: BTreeMap<(u64, u64, FrontId, Ticket), CallId>,
    /// The requests of members themselves, as parts of calls of `Lock` and `Campaign`.
    parts: BTreeSet<(u64, u64, FrontId, Ticket)>,
    /// When each call ended at its member: it was answered or cancelled, its connection ended, or
    /// the process did.
    ended_us: BTreeMap<CallId, u64>,
    /// When a Front learned that its member, with this number, has taken another state.
    installed_us: Vec<(usize, u64)>,
    /// The lines of the audit log about them.
    pub audit: AuditLines,
}

impl EtcdCalls {
    /// A connection runtime gives a call to its Front, which names it by this ticket.
    pub fn on_call(&mut self, origin: Origin, front: FrontId, ticket: Ticket, call: CallId) {
        self.calls.insert((origin.member.0, origin.boot.0, front, ticket), call);
    }

    /// A Front hands over a part of a call that waits for its turn.
    pub fn on_part(&mut self, origin: Origin, front: FrontId, ticket: Ticket) {
        self.parts.insert((origin.member.0, origin.boot.0, front, ticket));
    }

    /// A call ends at its member.
    pub fn on_end(&mut self, call: CallId, now_us: u64) {
        self.ended_us.entry(call).or_insert(now_us);
    }

    /// A process ends, and with it all calls that it has.
    pub fn on_process_end(&mut self, origin: Origin, now_us: u64) {
        let (member, boot) = (origin.member.0, origin.boot.0);
        let is_its =
            |(of, in_boot, ..): &(u64, u64, FrontId, Ticket)| (*of, *in_boot) == (member, boot);
        for (_, call) in self.calls.iter().filter(|(request, _)| is_its(request)) {
            self.ended_us.entry(*call).or_insert(now_us);
        }
    }

    /// A Front of a member learns that another state has taken the place of the one before.
    pub fn on_installed(&mut self, member: usize, now_us: u64) {
        self.installed_us.push((member, now_us));
    }

    /// Whether a Front of a member has learned of another state between two points in time.
    pub fn has_installed(&self, member: usize, from_us: u64, until_us: u64) -> bool {
        let is_it =
            |(of, at_us): &(usize, u64)| *of == member && (from_us..=until_us).contains(at_us);
        self.installed_us.iter().any(is_it)
    }

    /// When a call ended at its member; `None` if it never did.
    pub fn ended_us(&self, call: CallId) -> Option<u64> {
        self.ended_us.get(&call).copied()
    }

    /// Loop gives a batch of a Front its sequence. Each request waits for one command, in order.
    pub fn on_batch(
        &mut self,
        origin: Origin,
        sequence: u64,
        front: FrontId,
        tickets: Vec<Ticket>,
    ) {
        self.batches.insert((origin.member.0, origin.boot.0, sequence), (front, tickets));
    }

    /// Whether a Front handed over a batch, and not Loop itself.
    pub fn is_of_front(&self, origin: Origin, sequence: u64) -> bool {
        self.batches.contains_key(&(origin.member.0, origin.boot.0, sequence))
    }

    /// The call that sent the command at this position of a batch.
    ///
    /// # Errors
    /// No client sent it.
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

    /// Whether the command at this position of a batch is a part of a call.
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

/// Whether a command is the one that a call asks for.
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

/// What a part of a call does: it puts the key of a lease below a name, or removes one.
///
/// # Errors
/// No part is such a command.
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
