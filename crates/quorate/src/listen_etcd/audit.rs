//! The audit log of etcd's clients: passes lines to the log when their calls are over. What a line
//! says is decided in `member/fronts/etcd/audit.rs`. Without an audit log a call costs the room of
//! a pointer.

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use member::fronts::etcd::Credentials;
use member::fronts::etcd::audit::{AuditLine, Operation};

/// The client of a call, as the audit log shows it.
pub(super) struct AuditedClient {
    ip: IpAddr,
    /// The user that the Front found for the call.
    user: RefCell<Option<Arc<str>>>,
}

impl AuditedClient {
    pub fn new(ip: IpAddr) -> Rc<AuditedClient> {
        Rc::new(AuditedClient { ip, user: RefCell::default() })
    }

    /// Takes the user that the Front found.
    pub fn set_user(&self, user: Arc<str>) {
        *self.user.borrow_mut() = Some(user);
    }

    /// Takes the user that the client claims to be, if it claims one.
    pub fn set_claimed_user(&self, credentials: &Credentials) {
        if let Some(user) = credentials.claimed_user() {
            self.set_user(user.clone());
        }
    }
}

/// A call that is a line of the audit log once this is dropped.
pub(super) struct Audited {
    client: Rc<AuditedClient>,
    pub line: AuditLine,
}

impl Audited {
    /// A call of this client.
    pub fn new(client: &Rc<AuditedClient>, operation: Operation) -> Box<Audited> {
        let line = AuditLine::new(client.ip, operation);
        Box::new(Audited { client: client.clone(), line })
    }
}

impl Drop for Audited {
    fn drop(&mut self) {
        self.line.user = self.client.user.borrow().clone();
        log(&self.line);
    }
}

/// Passes a line to the log.
pub(super) fn log(line: &AuditLine) {
    if line.is_failure() {
        tracing::error!(target: "audit", "AUDIT: {line}");
    } else {
        tracing::info!(target: "audit", "AUDIT: {line}");
    }
}
