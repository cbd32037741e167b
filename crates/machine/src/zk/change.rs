//! The changes that ZooKeeper's commands make, for watchers and for the deadlines of sessions.

use std::sync::Arc;

use crate::ids::{Attachment, Ordinal, SessionId};
use crate::limits::QUOTA_WARNINGS_MAX;
use crate::mark::Mark;
use crate::zk::acl::Acl;
use crate::zk::settings::Settings;

/// A change of the tree or of a session.
#[derive(Clone, Debug)]
pub enum Change {
    /// A znode was made at the path, and its parent has one child more.
    Created {
        /// ACL of the znode, which decides whose watchers see the change; `None`: all.
        acl: Option<Acl>,
        /// ACL of the parent, which decides whose watchers see its children change; `None`: all.
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
}

/// A change of a session, for the deadlines that Loop keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionChange {
    /// The session was opened, or a client attached to it.
    Attached {
        /// The session.
        session: SessionId,
        /// The ordinal of the attach. A command that expires the session names it.
        attached: Ordinal,
        /// The negotiated timeout.
        timeout_ms: u32,
    },
    /// The session was closed, or has expired.
    Ended(SessionId),
}

impl SessionChange {
    /// The session that changed.
    pub fn session(&self) -> SessionId {
        match self {
            SessionChange::Attached { session, .. } | SessionChange::Ended(session) => *session,
        }
    }
}

/// A write went over a quota: a hard limit refused it, or a soft one let it through. For people
/// only: no client sees it (`ZooKeeperServer.checkQuota` logs it).
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

/// A change with its place.
#[derive(Clone, Debug)]
pub struct Made {
    /// The numbers of the command that made it, and of the transaction that clients see.
    pub mark: Mark,
    /// The change.
    pub change: Change,
    path_start: u32,
    path_bytes: u32,
}

/// A transaction under way, some of whose changes were given already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenTransaction {
    /// The session that it ends, if it is the end of one.
    pub session: Option<SessionId>,
}

/// The changes of consecutive commands, in order, with their paths in one string.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    made: Vec<Made>,
    paths: String,
    deadlines: Vec<SessionChange>,
    settings: Option<Arc<Settings>>,
    quotas_exceeded: Vec<QuotaExceeded>,
    /// The transaction whose changes are not all here: more come in later batches.
    open: Option<OpenTransaction>,
    /// Whether a command that was paused has ended.
    ends_pause: bool,
    /// Whether the batch keeps nothing.
    is_for_nobody: bool,
}

impl Changes {
    /// Changes that keep nothing.
    pub(crate) fn for_nobody() -> Changes {
        Changes { is_for_nobody: true, ..Changes::default() }
    }

    /// Adds a change of the znode at `path` (empty for changes of sessions).
    pub fn push(&mut self, mark: Mark, change: Change, path: &str) {
        if self.is_for_nobody {
            return;
        }
        match &change {
            Change::SessionAttached { session, timeout_ms, .. } => {
                let (session, timeout_ms, attached) = (*session, *timeout_ms, mark.ordinal);
                self.deadlines.push(SessionChange::Attached { session, attached, timeout_ms });
            }
            Change::SessionClosed { session } => {
                self.deadlines.push(SessionChange::Ended(*session));
            }
            Change::Configured(settings) => self.settings = Some(settings.clone()),
            Change::Created { .. } | Change::Deleted { .. } | Change::DataSet { .. } => {}
        }
        let path_start = u32::try_from(self.paths.len()).expect("a batch is far below 4 GiB");
        let path_bytes = u32::try_from(path.len()).expect("a path is far below 4 GiB");
        self.paths.push_str(path);
        self.made.push(Made { mark, change, path_start, path_bytes });
    }

    /// Notes that a state with these sessions took the place of the one before. A command that was
    /// not done is gone with that one.
    pub(crate) fn on_replaced(&mut self, sessions: Vec<SessionChange>) {
        self.open = None;
        self.ends_pause = true;
        if !self.is_for_nobody {
            self.deadlines = sessions;
        }
    }

    /// The changes with their paths, in the order in which they happened.
    pub fn iter(&self) -> impl Iterator<Item = (&Made, &str)> {
        self.made.iter().map(|made| {
            let start = made.path_start as usize;
            (made, &self.paths[start..start + made.path_bytes as usize])
        })
    }

    /// A change with its path, by its place in the order.
    pub fn get(&self, index: usize) -> Option<(&Made, &str)> {
        let made = self.made.get(index)?;
        let start = made.path_start as usize;
        Some((made, &self.paths[start..start + made.path_bytes as usize]))
    }

    /// Changes of sessions, in their order. If the state was replaced, they are the sessions of the
    /// new state and the changes behind it.
    pub fn deadlines(&self) -> &[SessionChange] {
        &self.deadlines
    }

    /// The settings, if they were set; the newest.
    pub fn settings(&self) -> Option<&Arc<Settings>> {
        self.settings.as_ref()
    }

    /// The number of changes.
    pub fn len(&self) -> usize {
        self.made.len()
    }

    /// Whether there is nothing that a Front takes.
    pub fn is_empty(&self) -> bool {
        self.made.is_empty() && !self.ends_pause
    }

    /// The transaction that the last change belongs to, if more of its changes come in later
    /// batches.
    pub fn open_transaction(&self) -> Option<OpenTransaction> {
        self.open
    }

    /// Whether a command has ended for which readers of the tree may have waited.
    pub fn ends_pause(&self) -> bool {
        self.ends_pause
    }

    /// Notes that a command is paused, and which of its transactions is not whole.
    pub(crate) fn pause(&mut self, open: Option<OpenTransaction>) {
        self.open = open;
    }

    /// Notes that a command that was paused goes on.
    pub(crate) fn go_on(&mut self) {
        self.open = None;
    }

    /// Notes that a command that was paused has ended.
    pub(crate) fn end_pause(&mut self) {
        self.ends_pause = true;
    }

    /// Takes the changes from number `count` on, of a multi that is not done, with the warnings
    /// left here.
    pub(crate) fn split_off(&mut self, count: usize) -> Changes {
        let mut rest = Changes { is_for_nobody: self.is_for_nobody, ..Changes::default() };
        let Some(first) = self.made.get(count) else { return rest };
        let begin = first.path_start;
        rest.paths = self.paths.split_off(begin as usize);
        rest.made = self.made.split_off(count);
        for made in &mut rest.made {
            made.path_start -= begin;
        }
        rest
    }

    /// Adds the changes and the warnings of another batch.
    pub(crate) fn append(&mut self, other: Changes) {
        self.deadlines.extend(other.deadlines);
        self.settings = other.settings.or(self.settings.take());
        for warning in other.quotas_exceeded {
            self.warn_of_quota(warning);
        }
        if self.made.is_empty() {
            self.made = other.made;
            self.paths = other.paths;
            return;
        }
        let begin = u32::try_from(self.paths.len()).expect("a batch is far below 4 GiB");
        self.paths.push_str(&other.paths);
        self.made.extend(other.made.into_iter().map(|made| {
            let path_start = made.path_start + begin;
            Made { path_start, ..made }
        }));
    }

    /// Notes that a quota was exceeded, unless [`QUOTA_WARNINGS_MAX`] were noted already.
    pub(crate) fn warn_of_quota(&mut self, warning: QuotaExceeded) {
        if !self.is_for_nobody && self.quotas_exceeded.len() < QUOTA_WARNINGS_MAX {
            self.quotas_exceeded.push(warning);
        }
    }

    /// The quotas that were exceeded by the first few writes.
    pub fn quotas_exceeded(&self) -> &[QuotaExceeded] {
        &self.quotas_exceeded
    }

    /// Bytes of all paths.
    pub fn path_bytes(&self) -> usize {
        self.paths.len()
    }

    /// Takes back the changes from number `count` on, of a multi that was refused.
    pub fn truncate(&mut self, count: usize) {
        if let Some(made) = self.made.get(count) {
            let start = made.path_start as usize;
            self.paths.truncate(start);
            self.made.truncate(count);
        }
    }
}
