//! The audit log of the etcd face: writes a line about each call that changes something and each
//! backup, when it is over. `member/fronts/etcd/audit.rs` decides what the line says. If there is
//! no audit log, a call pays only for a null pointer.

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use member::fronts::etcd::Credentials;
use member::fronts::etcd::audit::{AuditLine, Operation};

/// The client of a call, as the audit log names it.
pub(super) struct AuditedClient {
    ip: IpAddr,
    /// The user that the call runs as; the Front finds it out while the call runs. `None` until
    /// then.
    user: RefCell<Option<Arc<str>>>,
}

impl AuditedClient {
    pub fn new(ip: IpAddr) -> Rc<AuditedClient> {
        Rc::new(AuditedClient { ip, user: RefCell::default() })
    }

    /// Records the user that the Front found.
    pub fn set_user(&self, user: Arc<str>) {
        *self.user.borrow_mut() = Some(user);
    }

    /// Records the user that the client claims to be, if it claims one.
    pub fn set_claimed_user(&self, credentials: &Credentials) {
        if let Some(user) = credentials.claimed_user() {
            self.set_user(user.clone());
        }
    }
}

/// A call in the audit log. Dropping this writes the call's line.
pub(super) struct Audited {
    client: Rc<AuditedClient>,
    pub line: AuditLine,
}

impl Audited {
    /// A call of this client that does `operation`.
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

/// Writes a line to the audit log.
pub(super) fn log(line: &AuditLine) {
    if line.is_failure() {
        tracing::error!(target: "audit", "AUDIT: {line}");
    } else {
        tracing::info!(target: "audit", "AUDIT: {line}");
    }
}
