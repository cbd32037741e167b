//! The changes that ZooKeeper's commands make, for the watchers of znodes, for connections, and for
//! the session deadlines that Loop keeps. Reports of exceeded quotas are among them.

use std::sync::Arc;

use crate::ids::{Attachment, Ordinal, SessionId};
use crate::limits::QUOTA_WARNINGS_MAX;
use crate::mark::Mark;
use crate::zk::acl::Acl;
use crate::zk::settings::Settings;

/// A change of the tree or of a session.
#[derive(Clone, Debug)]
pub enum Change {
    /// A znode was made at the path; its parent's list of children changed too.
    Created {
        /// ACL of the znode: only watchers that it lets read are notified. `None` means everyone.
        acl: Option<Acl>,
        /// ACL of the parent: only watchers of its children that it lets read are notified. `None`
        /// means everyone.
        parent_acl: Option<Acl>,
    },
    /// The znode at the path was removed; its parent's list of children changed too.
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
    /// The session has ended: its client closed it (the reply closes the connection), or it
    /// expired.
    SessionClosed {
        /// The session.
        session: SessionId,
    },
    /// The session, new or not, belongs to this connection from now on. Its older connections are
    /// to be closed.
    SessionAttached {
        /// The session.
        session: SessionId,
        /// The connection.
        owner: Attachment,
        /// The negotiated timeout in ms.
        timeout_ms: u32,
    },
    /// The replicated settings were replaced.
    Configured(Arc<Settings>),
}

/// A change of a session's deadline. The leader's Loop expires a session that is silent for its
/// timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionChange {
    /// The session was opened, or a client attached to it.
    Attached {
        /// The session.
        session: SessionId,
        /// The ordinal of the command that opened the session or attached to it. A command that
        /// expires the session names this ordinal, and does nothing if a client has attached again
        /// since.
        attached: Ordinal,
        /// The negotiated timeout in ms.
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

/// A report that a write exceeded a limit of a quota. A hard limit refuses the write; a soft limit
/// lets it pass. The report goes to the program's log, and clients do not see it
/// (`ZooKeeperServer.checkQuota` logs it).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaExceeded {
    /// The root of the subtree that has the quota.
    pub path: Box<str>,
    /// Whether the write was refused.
    pub hard: bool,
    /// The unit of the exceeded limit: `count` (of znodes) or `bytes`.
    pub of: &'static str,
    /// Usage as it would be with the write, even if the write was refused.
    pub usage: i64,
    /// The limit that was exceeded.
    pub limit: i64,
}

/// One change of the tree or of a session, with its path and the numbers of the command that made
/// it.
#[derive(Clone, Debug)]
pub struct Made {
    /// The numbers of the command that made the change. Clients see the zxid.
    pub mark: Mark,
    /// The change.
    pub change: Change,
    path_start: u32,
    path_bytes: u32,
}

/// A transaction whose command is paused, so that only some of its changes are published yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenTransaction {
    /// The session that the transaction ends; `None` if it is not the end of a session.
    pub session: Option<SessionId>,
}

/// The changes of consecutive commands, in order. All their paths are in one string.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    made: Vec<Made>,
    paths: String,
    deadlines: Vec<SessionChange>,
    settings: Option<Arc<Settings>>,
    quotas_exceeded: Vec<QuotaExceeded>,
    /// The transaction whose last changes come in a later batch; `None` if all transactions are
    /// whole.
    open: Option<OpenTransaction>,
    /// Whether a paused command ended in this batch: readers of the tree may have waited for that.
    ends_pause: bool,
    /// Whether `push` drops its argument: nobody will read this batch.
    is_for_nobody: bool,
}

impl Changes {
    /// A batch that drops every change.
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

    /// Notes that a state with these sessions replaced the whole state. A paused command of the old
    /// state is gone with it, so readers need not wait for it.
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

    /// The changes of sessions, in order. If the state was replaced, they begin with all sessions
    /// of the new state.
    pub fn deadlines(&self) -> &[SessionChange] {
        &self.deadlines
    }

    /// The newest settings, if a command of this batch set them.
    pub fn settings(&self) -> Option<&Arc<Settings>> {
        self.settings.as_ref()
    }

    /// The number of changes.
    pub fn len(&self) -> usize {
        self.made.len()
    }

    /// Whether the batch holds nothing that a Front has to process.
    pub fn is_empty(&self) -> bool {
        self.made.is_empty() && !self.ends_pause
    }

    /// The transaction of the last change, if its further changes come in later batches.
    pub fn open_transaction(&self) -> Option<OpenTransaction> {
        self.open
    }

    /// Whether a paused command ended in this batch, for which readers of the tree may have waited.
    pub fn ends_pause(&self) -> bool {
        self.ends_pause
    }

    /// Notes that a command is paused; `open` is its transaction that is only partly published.
    pub(crate) fn pause(&mut self, open: Option<OpenTransaction>) {
        self.open = open;
    }

    /// Notes that the paused command continues.
    pub(crate) fn go_on(&mut self) {
        self.open = None;
    }

    /// Notes that the paused command has ended.
    pub(crate) fn end_pause(&mut self) {
        self.ends_pause = true;
    }

    /// Moves the changes from number `count` on into a batch of their own: those of a multi that is
    /// not done. Warnings of quotas stay here.
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

    /// Appends the changes and the warnings of another batch.
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

    /// Reports an exceeded quota, unless this batch has [`QUOTA_WARNINGS_MAX`] reports already.
    pub(crate) fn warn_of_quota(&mut self, warning: QuotaExceeded) {
        if !self.is_for_nobody && self.quotas_exceeded.len() < QUOTA_WARNINGS_MAX {
            self.quotas_exceeded.push(warning);
        }
    }

    /// The reports of exceeded quotas: the first [`QUOTA_WARNINGS_MAX`] of the batch.
    pub fn quotas_exceeded(&self) -> &[QuotaExceeded] {
        &self.quotas_exceeded
    }

    /// Bytes of all paths.
    pub fn path_bytes(&self) -> usize {
        self.paths.len()
    }

    /// Drops the changes from number `count` on: those of a multi that was refused.
    pub fn truncate(&mut self, count: usize) {
        if let Some(made) = self.made.get(count) {
            let start = made.path_start as usize;
            self.paths.truncate(start);
            self.made.truncate(count);
        }
    }
}
