//! Reports about single requests: the audit log, and slow requests. The audit log has one event for
//! each write of a client (`AuditHelper`, `AuditEvent`, ZooKeeper 3.9.5), and one for each
//! ephemeral that is removed with its session (`DataTree.killSession`). A multi that succeeds has
//! one event for each of its operations, but, as in ZooKeeper, none for a check.
//!
//! Both reports are off unless configured; while they are off, they cost a request only the room of
//! a pointer. The details of a write are kept when the write is decoded, and reported when it is
//! answered. If the connection ends before the answer, the write may take effect or not: its result
//! is `invoked`.

use core::fmt;

use machine::zk::CONFIG_PATH;
use machine::zk::change::Changes as ZkChanges;
use machine::{ConnectionId, SessionId, ZkChange, ZkOutcome, Zxid};
use zk::request::{ReadKind, Request};

use super::answered::ZkAnswered;
use super::connection::{Connection, SlotKind};
use super::pending::Pending;
use super::{Slot, ZkFront};
use crate::fronts::zk::limits::SLOW_REQUEST_INTERVAL_MS;
use crate::identities::OwnedIdentity;

/// The result of an operation (`AuditEvent.Result`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditResult {
    /// The operation took effect.
    Success,
    /// The operation failed.
    Failure,
    /// The operation was asked for, but its connection ended before the answer.
    Invoked,
}

/// One line of the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEvent {
    /// The session id.
    pub session: i64,
    /// The names in all identities that the client has proved, comma-separated.
    pub user: String,
    /// The client's address; empty if no client asked, as at the end of a session.
    pub ip: String,
    /// The name of the operation (`AuditConstants`).
    pub operation: &'static str,
    /// The path of the znode; `None` for a multi that failed.
    pub znode: Option<String>,
    /// The mode of a create; `None` for other operations.
    pub znode_type: Option<&'static str>,
    /// The ACL that a setAcl sets.
    pub acl: Option<String>,
    /// The result.
    pub result: AuditResult,
}

impl fmt::Display for AuditEvent {
    /// Formats a line as `AuditEvent.toString`. Control characters, which a user's name may have,
    /// become `?`, so that no name can begin a new line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "session={:#x}", self.session)?;
        let fields = [
            ("user", Some(&*self.user).filter(|user| !user.is_empty())),
            ("ip", Some(&*self.ip).filter(|ip| !ip.is_empty())),
            ("operation", Some(self.operation)),
            ("znode", self.znode.as_deref()),
            ("znode_type", self.znode_type),
            ("acl", self.acl.as_deref()),
        ];
        for (key, value) in fields {
            let Some(value) = value else { continue };
            write!(f, "\t{key}=")?;
            for c in value.chars() {
                write!(f, "{}", if c.is_control() { '?' } else { c })?;
            }
        }
        f.write_str(match self.result {
            AuditResult::Success => "\tresult=success",
            AuditResult::Failure => "\tresult=failure",
            AuditResult::Invoked => "\tresult=invoked",
        })
    }
}

/// A request that took longer than the configuration allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowRequest {
    /// The client's `host:port`.
    pub peer: String,
    /// The session id.
    pub session: i64,
    /// The xid of the request.
    pub xid: i32,
    /// The kind of the request.
    pub operation: &'static str,
    /// The path of the znode; empty if the request has no path or several.
    pub path: String,
    /// The time from decoding the request to its reply, in ms.
    pub elapsed_ms: u64,
    /// How many slow requests were not logged since the last one that was logged.
    pub not_told: u64,
}

/// When a slow request was last logged, and how many were not logged since.
#[derive(Default)]
pub(super) struct SlowRequests {
    told_ms: Option<u64>,
    not_told: u64,
}

const EPHEMERAL_ENDED: &str = "ephemeralZNodeDeletionOnSessionCloseOrExpire";

impl ZkFront {
    /// Whether details of writes are kept: for the audit log or for slow requests.
    pub(super) fn keeps_journal(&self) -> bool {
        self.config.audit || self.config.slow_request_ms.is_some()
    }

    /// Keeps the details of the write that was just put into the window.
    pub(super) fn keep_pending(&mut self, id: ConnectionId, request: &Request<'_>) {
        let keeps_journal = self.keeps_journal();
        let connection = self.connections.get_mut(&id);
        if let Some(slot) = connection.and_then(|connection| connection.window.back_mut()) {
            slot.written = self.metrics.namespaces.written(request);
            if keeps_journal {
                slot.pending = Pending::from_request(request);
            }
        }
    }

    /// Reports an answered write to the audit log.
    pub(super) fn audit(&mut self, id: ConnectionId, slot: &Slot, answered: &ZkAnswered) {
        let Some(pending) = slot.pending.as_ref().filter(|_| self.config.audit) else { return };
        let Some(connection) = self.connections.get(&id) else { return };
        let ((path, mode), result) = match answered {
            Ok(Ok(ZkOutcome::Multi(outcomes))) => {
                let parts = pending.parts.iter().zip(outcomes);
                let told = parts.filter_map(|(part, outcome)| Some((part.as_ref()?, outcome)));
                // As in ZooKeeper, a check within a multi is not reported, and a sequential create
                // within a multi is reported without its mode.
                let events = told.map(|(part, outcome)| {
                    let (path, mode) = part.done(outcome);
                    let mode = mode.filter(|_| path == &*part.path);
                    event(connection, part, path, mode, AuditResult::Success)
                });
                self.output.audits.extend(events);
                return;
            }
            Ok(Ok(outcome)) => (pending.done(outcome), AuditResult::Success),
            _ => ((&*pending.path, pending.znode_type), AuditResult::Failure),
        };
        self.output.audits.push(event(connection, pending, path, mode, result));
    }

    /// Reports the reconfig at the front of the window to the audit log, once its result is known.
    /// One that succeeds has the path of the servers' znode (`DataTree.processTxn`).
    pub(super) fn audit_reconfig(&mut self, id: ConnectionId, result: AuditResult) {
        let Some(connection) = self.connections.get(&id).filter(|_| self.config.audit) else {
            return;
        };
        let Some(pending) = connection.window.iter().next().and_then(|it| it.pending.as_ref())
        else {
            return;
        };
        let path = if result == AuditResult::Success { CONFIG_PATH } else { "" };
        self.output.audits.push(event(connection, pending, path, None, result));
    }

    /// Reports the unanswered writes of a connection that is being closed: this Front will not
    /// learn their results.
    pub(super) fn audit_closing(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get(&id).filter(|_| self.config.audit) {
            self.output.audits.extend(unanswered(connection));
        }
    }

    /// Logs an answered request if it was slow. After one was logged, slow requests are only
    /// counted for a while.
    pub(super) fn note_slow(&mut self, id: ConnectionId, slot: &Slot, elapsed_ms: u64) {
        if self.config.slow_request_ms.is_none_or(|limit_ms| elapsed_ms <= limit_ms) {
            return;
        }
        let now_ms = self.now.monotonic_ms;
        let is_due = |told_ms: u64| told_ms + SLOW_REQUEST_INTERVAL_MS <= now_ms;
        if !self.slow.told_ms.is_none_or(is_due) {
            self.slow.not_told += 1;
            return;
        }
        let Some(connection) = self.connections.get(&id) else { return };
        let (operation, path) = described(slot);
        self.output.slow.push(SlowRequest {
            peer: connection.peer.clone(),
            session: connection.session.map_or(0, |session| session.0),
            xid: slot.xid,
            operation,
            path: path.to_string(),
            elapsed_ms,
            not_told: core::mem::take(&mut self.slow.not_told),
        });
        self.slow.told_ms = Some(now_ms);
    }
}

/// Reports each ephemeral that was removed with its session, as an act of `user`, the user that
/// runs the server (`DataTree.killSession`). The end of a session has a zxid of its own, and its
/// change comes after the removals.
pub fn audit_ended_sessions(changes: &ZkChanges, user: &str, mut tell: impl FnMut(&AuditEvent)) {
    let mut removed: Vec<&str> = Vec::new();
    let mut removed_at = Zxid(0);
    let mut tell_removed = |session: SessionId, removed: &mut Vec<&str>| {
        for path in removed.drain(..) {
            tell(&AuditEvent {
                session: session.0,
                user: user.to_string(),
                ip: String::new(),
                operation: EPHEMERAL_ENDED,
                znode: Some(path.to_string()),
                znode_type: None,
                acl: None,
                result: AuditResult::Success,
            });
        }
    };
    for (made, path) in changes.iter() {
        if made.mark.zxid != removed_at {
            removed.clear();
        }
        match &made.change {
            ZkChange::Deleted { .. } => {
                removed_at = made.mark.zxid;
                removed.push(path);
            }
            ZkChange::SessionClosed { session } => {
                tell_removed(*session, &mut removed);
            }
            _ => {}
        }
    }
    // The end of the last session continues in the next batch of changes.
    if let Some(session) = changes.open_transaction().and_then(|open| open.session) {
        tell_removed(session, &mut removed);
    }
}

/// The audit events of a connection's unanswered writes, with the result `invoked`. A reconfig that
/// succeeded has been reported, and now reads the list of servers for its answer.
pub(super) fn unanswered(connection: &Connection) -> impl Iterator<Item = AuditEvent> {
    let waiting = connection.window.iter().filter(|it| !matches!(it.kind, SlotKind::Read(_)));
    let pending = waiting.filter_map(|slot| slot.pending.as_ref());
    pending.map(|pending| {
        event(connection, pending, &pending.path, pending.znode_type, AuditResult::Invoked)
    })
}

fn event(
    connection: &Connection,
    pending: &Pending,
    path: &str,
    znode_type: Option<&'static str>,
    result: AuditResult,
) -> AuditEvent {
    let ip = connection.peer.rsplit_once(':').map_or(&*connection.peer, |(ip, _)| ip);
    AuditEvent {
        session: connection.session.map_or(0, |session| session.0),
        user: users(connection.identity.proved()),
        ip: ip.to_string(),
        operation: pending.operation,
        znode: (!path.is_empty()).then(|| path.to_string()),
        znode_type,
        acl: pending.acl.as_deref().map(str::to_string),
        result,
    }
}

/// The names of identities, comma-separated (`AuthUtil.getUsers`). The name of a digest identity is
/// the part before its hash (`getUserName`).
fn users(identities: &[OwnedIdentity]) -> String {
    let name = |identity: &OwnedIdentity| match &*identity.scheme {
        "digest" => identity.id.split(':').next().unwrap_or_default().to_string(),
        _ => identity.id.to_string(),
    };
    let names = identities.iter().map(name).filter(|name| !name.trim().is_empty());
    names.collect::<Vec<_>>().join(",")
}

/// The kind and the path of a request, for the log.
fn described(slot: &Slot) -> (&'static str, &str) {
    if let Some(pending) = &slot.pending {
        return (pending.operation, &pending.path);
    }
    match &slot.kind {
        SlotKind::Read(read) | SlotKind::TravellingRead(read) => {
            let operation = match read.kind {
                ReadKind::Exists => "exists",
                ReadKind::GetData => "getData",
                ReadKind::GetChildren | ReadKind::GetChildren2 => "getChildren",
                ReadKind::GetAcl => "getAcl",
            };
            (operation, &read.path)
        }
        SlotKind::List(list) => ("getChildren", &list.read.path),
        SlotKind::MultiRead(_) => ("multiRead", ""),
        SlotKind::SetWatches { .. } => ("setWatches", ""),
        SlotKind::AddWatch { path, .. } => ("addWatch", path),
        SlotKind::Sync { path, .. } => ("sync", path.as_deref().unwrap_or_default()),
        SlotKind::Write { .. } => ("write", ""),
        SlotKind::Close { .. } => ("closeSession", ""),
        SlotKind::Ping => ("ping", ""),
        _ => ("request", ""),
    }
}

#[cfg(test)]
mod tests;
