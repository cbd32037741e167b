//! The audit log of etcd's clients: `listen_etcd/audit.rs` for virtual connections. A line is begun
//! with its call, told the result, and logged when the call is over.

use core::net::{IpAddr, Ipv4Addr};
use std::collections::BTreeMap;

use member::fronts::etcd::audit::{AuditLine, Operation};
use member::fronts::etcd::{CallResult, EtcdMethod, V2Result};
use member::message::Ticket;
use workload::etcd::history::CallId;

use crate::world::World;

/// The address of all clients.
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A mistake with the audit log on purpose, to see that the judges notice it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditSabotage {
    /// Lines are lost now and then.
    LinesLost,
    /// A line says that a call failed whose fate is not known.
    UnknownFailed,
}

/// The audit log of a connection runtime.
#[derive(Default)]
pub(super) struct AuditLog {
    /// The lines of calls that are not done. `None` in place of the method: of etcd v2.
    begun: BTreeMap<Ticket, (Option<EtcdMethod>, AuditLine)>,
    /// The lines of calls that have ended since the last look.
    logged: Vec<(CallId, String)>,
}

impl AuditLog {
    /// A call begins: a line if it changes something.
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
            // The Front refuses calls of etcd v2 in the same way.
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

    /// A call is over, answered or cancelled.
    pub fn end(&mut self, ticket: Ticket, call: Option<CallId>) {
        let line = self.begun.remove(&ticket);
        self.logged.extend(call.zip(line).map(|(call, (_, line))| (call, line.to_string())));
    }

    /// The lines that were logged since the last look.
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
