//! The audit log of etcd clients: `listen_etcd/audit.rs` for virtual connections. A line begins
//! with its call, gets the result when the Front answers, and is logged when the call is over.

use core::net::{IpAddr, Ipv4Addr};
use std::collections::BTreeMap;

use member::fronts::etcd::audit::{AuditLine, Operation};
use member::fronts::etcd::{CallResult, EtcdMethod, V2Result};
use member::message::Ticket;
use workload::etcd::history::CallId;

use crate::world::World;

/// The address of every client.
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A deliberate mistake with the audit log, which the judges must notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditSabotage {
    /// Some lines are lost.
    LinesLost,
    /// A line reports a failure although the call's fate is unknown.
    UnknownFailed,
}

/// The audit log of one etcd connection runtime.
#[derive(Default)]
pub(super) struct AuditLog {
    /// The audit lines of unfinished calls, by ticket. The method is `None` for a call of etcd v2.
    begun: BTreeMap<Ticket, (Option<EtcdMethod>, AuditLine)>,
    /// The finished lines since the last `take`.
    logged: Vec<(CallId, String)>,
}

impl AuditLog {
    /// A call begins. It gets a line if `operation` is given: if it changes something.
    pub fn begin(
        &mut self,
        ticket: Ticket,
        method: Option<EtcdMethod>,
        operation: Option<Operation>,
    ) {
        let line = operation.map(|operation| AuditLine::new(CLIENT, operation));
        self.begun.extend(line.map(|line| (ticket, (method, line))));
    }

    /// The Front has answered a call.
    pub fn tell(&mut self, ticket: Ticket, result: &CallResult) {
        match self.begun.get_mut(&ticket) {
            Some((Some(method), line)) => line.tell(*method, result),
            // The Front refuses calls of etcd v2 with the same errors.
            Some((None, line)) => line.tell_result(result.as_ref().map(drop).map_err(|it| *it)),
            None => {}
        }
    }

    /// The store has answered a write of etcd v2.
    pub fn tell_v2(&mut self, ticket: Ticket, result: &V2Result) {
        if let Some((_, line)) = self.begun.get_mut(&ticket) {
            line.tell_v2(&Ok(result.clone()));
        }
    }

    /// A call has been answered or cancelled. `call` is `None` if its line is to be dropped.
    pub fn end(&mut self, ticket: Ticket, call: Option<CallId>) {
        let line = self.begun.remove(&ticket);
        self.logged.extend(call.zip(line).map(|(call, (_, line))| (call, line.to_string())));
    }

    /// Takes the lines logged since the last call. A sabotage may change them.
    pub fn take(
        &mut self,
        sabotage: Option<AuditSabotage>,
        world: &mut World,
    ) -> Vec<(CallId, String)> {
        let mut lines = core::mem::take(&mut self.logged);
        match sabotage {
            Some(AuditSabotage::LinesLost) => lines.retain(|_| !world.random.one_in(10)),
            Some(AuditSabotage::UnknownFailed) => {
                let failure = "result=failure\terror=";
                for (_, line) in &mut lines {
                    *line = line.replace("result=invoked", failure);
                }
            }
            None => {}
        }
        lines
    }
}
