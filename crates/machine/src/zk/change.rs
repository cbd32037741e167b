//! What a command of ZooKeeper's changed, for those who watch.

use std::sync::Arc;

use crate::ids::{Attachment, SessionId};
use crate::zk::acl::Acl;
use crate::zk::settings::Settings;

/// What happened to the tree or to a session.
#[derive(Clone, Debug)]
pub enum Change {
    /// A znode was made at the path, and its parent has one child more.
    Created {
        /// ACL of the znode, which decides who is told; `None`: everyone.
        acl: Option<Acl>,
        /// ACL of the parent, which decides who is told of its children; `None`: everyone.
        parent_acl: Option<Acl>,
    },
    /// The znode at the path was removed, and its parent has one child less.
    Deleted {
        /// As in `Created`.
        acl: Option<Acl>,
        /// As in `Created`.
        parent_acl: Option<Acl>,
    },
    /// The data of the znode at the path was replaced.
    DataSet {
        /// As in `Created`.
        acl: Option<Acl>,
    },
    /// The session is gone: closed by its client (whose reply closes the connection) or expired.
    SessionClosed {
        /// Which.
        session: SessionId,
    },
    /// The session, new or not, belongs to this connection from now on; older ones are to be
    /// closed.
    SessionAttached {
        /// Which.
        session: SessionId,
        /// The connection.
        owner: Attachment,
        /// Negotiated.
        timeout_ms: u32,
    },
    /// The replicated settings were replaced.
    Configured(Arc<Settings>),
    /// The state was replaced by an image: connections and watches of before are worth nothing.
    Installed {
        /// Sessions of the image, by id, each with its timeout in ms. No connection owns them yet.
        sessions: Arc<[(SessionId, u32)]>,
    },
}

/// A write went over a quota: refused by a hard limit, or let through by a soft one. For a person
/// to read; no client is told (`ZooKeeperServer.checkQuota` logs it).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaExceeded {
    /// The path that has the quota.
    pub path: Box<str>,
    /// Whether the write was refused.
    pub hard: bool,
    /// `count` (znodes) or `bytes`.
    pub of: &'static str,
    /// Usage with the write: reached, or refused.
    pub usage: i64,
    /// Usage that the quota allows.
    pub limit: i64,
}
