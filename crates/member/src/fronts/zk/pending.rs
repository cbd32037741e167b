//! Keeps the details of a write under way, for the audit log and for the log of slow requests.

use machine::zk::acl::perms;
use machine::{AclEntry, ZkOutcome};
use zk::request::{CreateKind, Request, WriteRequest};

/// The details of a write, kept until the write is answered.
pub(super) struct Pending {
    pub operation: &'static str,
    pub path: Box<str>,
    pub znode_type: Option<&'static str>,
    pub acl: Option<Box<str>>,
    /// The operations of a multi; `None` for an operation that is not reported.
    pub parts: Vec<Option<Pending>>,
}

const MULTI: &str = "multiOperation";
const RECONFIG: &str = "reconfig";

impl Pending {
    fn new(operation: &'static str, path: &str) -> Pending {
        Pending { operation, path: path.into(), znode_type: None, acl: None, parts: Vec::new() }
    }

    fn of(write: &WriteRequest<'_>) -> Option<Pending> {
        Some(match write {
            WriteRequest::Create { kind, path, flags, .. } => {
                let znode_type = create_mode(*kind, *flags);
                Pending { znode_type, ..Pending::new("create", path) }
            }
            WriteRequest::Delete { path, .. } => Pending::new("delete", path),
            WriteRequest::SetData { path, .. } => Pending::new("setData", path),
            WriteRequest::SetAcl { path, acl, .. } => {
                let acl = Some(acl_text(acl).into());
                Pending { acl, ..Pending::new("setAcl", path) }
            }
            WriteRequest::Check { .. } => return None,
        })
    }

    /// The details of a request; `None` if it is not a write.
    pub fn from_request(request: &Request<'_>) -> Option<Box<Pending>> {
        match request {
            Request::Write(write) => Pending::of(write).map(Box::new),
            Request::Multi(writes) => {
                let parts = writes.iter().map(Pending::of).collect();
                Some(Box::new(Pending { parts, ..Pending::new(MULTI, "") }))
            }
            Request::Reconfig { .. } => Some(Box::new(Pending::new(RECONFIG, ""))),
            _ => None,
        }
    }

    /// The path of the znode after the write, and its mode if it was created.
    pub fn done<'a>(&'a self, outcome: &'a ZkOutcome) -> (&'a str, Option<&'static str>) {
        match outcome {
            ZkOutcome::Created { path, .. } => (path, self.znode_type),
            _ => (&self.path, self.znode_type),
        }
    }
}

/// The name of a `CreateMode` in lower case; `None` if the number is no mode.
fn create_mode(kind: CreateKind, flags: i32) -> Option<&'static str> {
    match (kind, flags) {
        (_, 0) => Some("persistent"),
        (_, 1) => Some("ephemeral"),
        (_, 2) => Some("persistent_sequential"),
        (_, 3) => Some("ephemeral_sequential"),
        (_, 4) => Some("container"),
        (_, 5) => Some("persistent_with_ttl"),
        (_, 6) => Some("persistent_sequential_with_ttl"),
        _ => None,
    }
}

/// An ACL as text (`ZKUtil.aclToString`), without separators between the entries.
pub(super) fn acl_text(acl: &[AclEntry]) -> String {
    let mut text = String::new();
    for entry in acl {
        text += &format!("{}:{}:", entry.scheme, entry.id);
        for (perm, letter) in [
            (perms::CREATE, 'c'),
            (perms::DELETE, 'd'),
            (perms::READ, 'r'),
            (perms::WRITE, 'w'),
            (perms::ADMIN, 'a'),
        ] {
            if entry.perms & perm != 0 {
                text.push(letter);
            }
        }
    }
    text
}
