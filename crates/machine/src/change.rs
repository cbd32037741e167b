//! What changed, for those who watch: one compact, shared batch for all connection runtimes.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ids::{MemberId, Ordinal, Owner, SessionId, Zxid};
use crate::limits::QUOTA_WARNINGS_MAX;
use crate::zk::acl::Acl;
use crate::zk::settings::Settings;

/// What happened.
#[derive(Clone, Debug)]
pub enum ChangeKind {
    /// A znode was made at the path, and its parent has one child more.
    Created {
        /// Who may know of the znode; `None` is everyone.
        acl: Option<Acl>,
        /// Who may know of the parent's children; `None` is everyone.
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
        owner: Owner,
        /// Negotiated.
        timeout_ms: u32,
    },
    /// The replicated settings were replaced.
    Configured(Arc<Settings>),
    /// Which server of the configuration each member is.
    Registered(Arc<BTreeMap<MemberId, u64>>),
    /// The state was replaced by an image: connections and watches of before are worth nothing.
    Installed {
        /// Those that there are now, by id, each with its timeout in ms: owned by nobody.
        sessions: Arc<[(SessionId, u32)]>,
    },
}

/// One change.
#[derive(Clone, Debug)]
pub struct Change {
    /// The command that made it.
    pub ordinal: Ordinal,
    /// The transaction that clients see.
    pub zxid: Zxid,
    /// What happened.
    pub kind: ChangeKind,
    path_start: u32,
    path_bytes: u32,
}

/// Changes of consecutive commands, in order, with their paths in one string.
#[derive(Clone, Debug, Default)]
pub struct ChangeBatch {
    changes: Vec<Change>,
    paths: String,
    quotas_exceeded: Vec<QuotaExceeded>,
    /// Nothing is kept.
    is_for_nobody: bool,
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
    /// What there would be, or is now.
    pub usage: i64,
    /// What there may be.
    pub limit: i64,
}

/// A batch on its way to every connection runtime.
pub type SharedChanges = Arc<ChangeBatch>;

impl ChangeBatch {
    /// A batch that keeps nothing, of commands that are applied before anybody watches.
    pub fn for_nobody() -> ChangeBatch {
        ChangeBatch { is_for_nobody: true, ..ChangeBatch::default() }
    }

    /// Adds a change of the znode at `path` (empty for changes of sessions).
    pub fn push(&mut self, ordinal: Ordinal, zxid: Zxid, kind: ChangeKind, path: &str) {
        if self.is_for_nobody {
            return;
        }
        let path_start = u32::try_from(self.paths.len()).expect("a batch is far below 4 GiB");
        let path_bytes = u32::try_from(path.len()).expect("a path is far below 4 GiB");
        self.paths.push_str(path);
        self.changes.push(Change { ordinal, zxid, kind, path_start, path_bytes });
    }

    /// The changes with their paths, in the order in which they happened.
    pub fn iter(&self) -> impl Iterator<Item = (&Change, &str)> {
        self.changes.iter().map(|change| {
            let start = change.path_start as usize;
            (change, &self.paths[start..start + change.path_bytes as usize])
        })
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Notes that a quota was exceeded, unless enough of that was noted already.
    pub(crate) fn warn_of_quota(&mut self, warning: QuotaExceeded) {
        if !self.is_for_nobody && self.quotas_exceeded.len() < QUOTA_WARNINGS_MAX {
            self.quotas_exceeded.push(warning);
        }
    }

    /// The quotas that were exceeded: those of the first few writes.
    pub fn quotas_exceeded(&self) -> &[QuotaExceeded] {
        &self.quotas_exceeded
    }

    /// Bytes of all paths.
    pub fn path_bytes(&self) -> usize {
        self.paths.len()
    }

    /// Takes back the changes from number `count` on, of a multi that was refused.
    pub fn truncate(&mut self, count: usize) {
        if let Some(change) = self.changes.get(count) {
            let start = change.path_start as usize;
            self.paths.truncate(start);
            self.changes.truncate(count);
        }
    }
}

/// The path above `path`: `/` for a znode below the root.
pub fn parent_path(path: &str) -> &str {
    match path.rfind('/') {
        None | Some(0) => "/",
        Some(at) => &path[..at],
    }
}
