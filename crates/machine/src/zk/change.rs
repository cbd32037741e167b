//! The changes that ZooKeeper's commands make, for watchers.

use std::sync::Arc;

use crate::ids::{Attachment, SessionId};
use crate::zk::acl::Acl;
use crate::zk::settings::Settings;

/// A change of the tree or of a session.
#[derive(Clone, Debug)]
pub enum Change {
    /// A znode was made at the path, and its parent has one child more.
    Created {
        /// ACL of the znode, which decides whose watchers are told; `None`: all.
        acl: Option<Acl>,
        /// ACL of the parent, which decides whose watchers are told of its children; `None`: all.
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
        /// The session.
        session: SessionId,
    },
    /// The session, new or not, belongs to this connection from now on; older connections of it are
    /// to be closed.
    SessionAttached {
        /// The session.
        session: SessionId,
        /// The connection.
        owner: Attachment,
        /// The negotiated timeout.
        timeout_ms: u32,
    },
    /// The replicated settings were replaced.
    Configured(Arc<Settings>),
    /// The state was replaced by an image: older connections and watches are worthless.
    Installed {
        /// The sessions of the image, by id, each with its timeout in ms. No connection owns them
        /// yet.
        sessions: Arc<[(SessionId, u32)]>,
    },
}

/// A write went over a quota: a hard limit refused it, or a soft one let it through. For people
/// only: no client is told (`ZooKeeperServer.checkQuota` logs it).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaExceeded {
    /// The path that has the quota.
    pub path: Box<str>,
    /// Whether the write was refused.
    pub hard: bool,
    /// The limit that was exceeded: `count` (znodes) or `bytes`.
    pub of: &'static str,
    /// Usage with the write, whether it was made or refused.
    pub usage: i64,
    /// Usage that the quota allows.
    pub limit: i64,
}
