//! The reports of single requests. The audit log has one event for each write of a client
//! (`AuditHelper`, `AuditEvent`, ZooKeeper 3.9.5) and one for each ephemeral that goes with its
//! session (`DataTree.killSession`). Slow requests are logged, too.
//!
//! Both are off unless configured; a request then costs the room of a pointer and no more. An event
//! is made when the request is decoded and reported when it is answered. A write whose connection
//! ends before that may take effect or not: its result is `invoked`.

use core::fmt;

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
    /// The operation was asked for, and its connection ended before the answer.
    Invoked,
}

/// One line of the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEvent {
    /// Session id.
    pub session: i64,
    /// The names in all identities that the client has proved.
    pub user: String,
    /// The client's address; empty where there is no client.
    pub ip: String,
    /// The operation (`AuditConstants`).
    pub operation: &'static str,
    /// The path of the znode; none for a multi that failed.
    pub znode: Option<String>,
    /// The mode of a create.
    pub znode_type: Option<&'static str>,
    /// The ACL that was set.
    pub acl: Option<String>,
    /// The result.
    pub result: AuditResult,
}

impl fmt::Display for AuditEvent {
    /// `AuditEvent.toString`. Control characters, which a user's name may have, become `?` so that
    /// they begin no lines.
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

/// A request that took longer than it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowRequest {
    /// `host:port` of its client.
    pub peer: String,
    /// Its session.
    pub session: i64,
    /// The xid of the request.
    pub xid: i32,
    /// The kind of the request.
    pub operation: &'static str,
    /// The path of the znode; empty if the request names none, or several.
    pub path: String,
    /// The time from its decoding to its reply.
    pub elapsed_ms: u64,
    /// Slow requests since the last logged one that were only counted.
    pub not_told: u64,
}

/// The count of slow requests that were not logged, and when one was last logged.
#[derive(Default)]
pub(super) struct SlowRequests {
    told_ms: Option<u64>,
    not_told: u64,
}

const EPHEMERAL_ENDED: &str = "ephemeralZNodeDeletionOnSessionCloseOrExpire";

impl ZkFront {
    /// Whether details of writes are kept for the audit log or for slow requests.
    pub(super) fn keeps_journal(&self) -> bool {
        self.config.audit || self.config.slow_request_ms.is_some()
    }

    /// Keeps the details of a write that was just put into the window.
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

    /// Reports a write that was answered to the audit log.
    pub(super) fn audit(&mut self, id: ConnectionId, slot: &Slot, answered: &ZkAnswered) {
        let Some(pending) = slot.pending.as_ref().filter(|_| self.config.audit) else { return };
        let Some(connection) = self.connections.get(&id) else { return };
        let ((path, mode), result) = match answered {
            Ok(Ok(ZkOutcome::Multi(outcomes))) => {
                let parts = pending.parts.iter().zip(outcomes);
                let told = parts.filter_map(|(part, outcome)| Some((part.as_ref()?, outcome)));
                // A setAcl within a multi is not reported; a sequential create is reported without
                // its mode.
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

    /// Reports the unanswered writes of a connection that is being closed: this Front will not
    /// learn their results.
    pub(super) fn audit_closing(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get(&id).filter(|_| self.config.audit) {
            self.output.audits.extend(unanswered(connection));
        }
    }

    /// Logs an answered request if it was slow; between two that are logged, slow requests are only
    /// counted.
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

/// Reports each ephemeral that was removed with its session, as done by `user`, who runs the server
/// (`DataTree.killSession`). The end of a session has a zxid of its own, and comes after the
/// removals.
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
    // The end of the last session goes on in the next batch.
    if let Some(session) = changes.open_transaction().and_then(|open| open.session) {
        tell_removed(session, &mut removed);
    }
}

/// The writes of a connection that are not answered.
pub(super) fn unanswered(connection: &Connection) -> impl Iterator<Item = AuditEvent> {
    let pending = connection.window.iter().filter_map(|slot| slot.pending.as_ref());
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

/// `AuthUtil.getUsers`: the names of identities; for a digest the part before its hash
/// (`getUserName`).
fn users(identities: &[OwnedIdentity]) -> String {
    let name = |identity: &OwnedIdentity| match &*identity.scheme {
        "digest" => identity.id.split(':').next().unwrap_or_default().to_string(),
        _ => identity.id.to_string(),
    };
    let names = identities.iter().map(name).filter(|name| !name.trim().is_empty());
    names.collect::<Vec<_>>().join(",")
}

/// The kind and the path of a request, for people.
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
