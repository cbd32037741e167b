//! The changes that apply made, for watchers: one compact batch, shared by all connection runtimes.

use std::sync::Arc;

use crate::control::Change as ControlChange;
use crate::etcd::change::{Change as EtcdChange, KeyChange, LeaseChange};
use crate::etcd::event::Event;
use crate::etcd::lease::Leases;
use crate::etcd_v2::Store as EtcdV2Store;
use crate::etcd_v2::change::Changes as EtcdV2Changes;
use crate::ids::SessionId;
use crate::limits::QUOTA_WARNINGS_MAX;
use crate::mark::Mark;
use crate::zk::change::{Change as ZkChange, QuotaExceeded};

/// The kind of a change, by its space.
#[derive(Clone, Debug)]
pub enum ChangeKind {
    /// A change to the ensemble.
    Control(ControlChange),
    /// A change to ZooKeeper's tree or sessions.
    Zk(ZkChange),
    /// A change to etcd's part of the state.
    Etcd(EtcdChange),
}

impl From<EtcdChange> for ChangeKind {
    fn from(change: EtcdChange) -> ChangeKind {
        ChangeKind::Etcd(change)
    }
}

impl From<ControlChange> for ChangeKind {
    fn from(change: ControlChange) -> ChangeKind {
        ChangeKind::Control(change)
    }
}

impl From<ZkChange> for ChangeKind {
    fn from(change: ZkChange) -> ChangeKind {
        ChangeKind::Zk(change)
    }
}

/// One change.
#[derive(Clone, Debug)]
pub struct Change {
    /// The numbers of the command that made it, and of the transaction that clients see.
    pub mark: Mark,
    /// The kind of the change.
    pub kind: ChangeKind,
    path_start: u32,
    path_bytes: u32,
}

/// Changes of consecutive commands, in order, with their paths in one string.
#[derive(Clone, Debug, Default)]
pub struct ChangeBatch {
    changes: Vec<Change>,
    paths: String,
    key_changes: Vec<KeyChange>,
    /// Whether somebody watches etcd's keys.
    wants_key_changes: bool,
    lease_changes: Vec<LeaseChange>,
    etcd_v2: EtcdV2Changes,
    quotas_exceeded: Vec<QuotaExceeded>,
    /// The transaction of ZooKeeper's whose changes are not all here: more come in later batches.
    open: Option<OpenTransaction>,
    /// Whether a command of ZooKeeper's that was paused has ended.
    ends_pause: bool,
    /// Whether a change concerns the clients of every protocol.
    concerns_all: bool,
    /// Whether the batch keeps nothing.
    is_for_nobody: bool,
}

/// A transaction of ZooKeeper's under way, some of whose changes were given already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenTransaction {
    /// The session that it ends, if it is the end of one.
    pub session: Option<SessionId>,
}

/// A batch on its way to every connection runtime.
pub type SharedChanges = Arc<ChangeBatch>;

impl ChangeBatch {
    /// A batch that keeps nothing, for commands that are applied before any client watches.
    pub fn for_nobody() -> ChangeBatch {
        ChangeBatch { is_for_nobody: true, ..ChangeBatch::default() }
    }

    /// Whether it keeps nothing.
    pub(crate) fn is_for_nobody(&self) -> bool {
        self.is_for_nobody
    }

    /// Keeps changes of etcd's keys from now on, or not. Without watchers they are not worth their
    /// cost.
    pub fn set_wants_key_changes(&mut self, wants: bool) {
        self.wants_key_changes = wants && !self.is_for_nobody;
    }

    /// Adds a change of one of etcd's keys, if somebody watches them.
    pub(crate) fn push_event(&mut self, event: Event, before: Option<Event>) {
        if self.wants_key_changes {
            self.key_changes.push(KeyChange { event, before });
        }
    }

    /// As [`ChangeBatch::push_event`], of references.
    pub(crate) fn push_event_after(&mut self, event: &Event, before: Option<&Event>) {
        if self.wants_key_changes {
            let (event, before) = (event.clone(), before.cloned());
            self.key_changes.push(KeyChange { event, before });
        }
    }

    /// Whether changes of etcd's keys are kept.
    pub(crate) fn wants_key_changes(&self) -> bool {
        self.wants_key_changes
    }

    /// Takes the changes of etcd's keys behind the first `count`.
    pub(crate) fn split_off_key_changes(&mut self, count: usize) -> Vec<KeyChange> {
        self.key_changes.split_off(count)
    }

    /// Adds changes of etcd's keys, if somebody watches them.
    pub(crate) fn append_key_changes(&mut self, mut changes: Vec<KeyChange>) {
        if !self.wants_key_changes {
            return;
        }
        match self.key_changes.is_empty() {
            true => self.key_changes = changes,
            false => self.key_changes.append(&mut changes),
        }
    }

    /// The changes of etcd's keys, in their order; those of one revision are in one batch. If
    /// [`ZkChange::Installed`] is in the batch as well, they are not all.
    pub fn key_changes(&self) -> &[KeyChange] {
        &self.key_changes
    }

    /// Adds a change of the znode at `path` (empty for changes of sessions).
    pub fn push(&mut self, mark: Mark, kind: impl Into<ChangeKind>, path: &str) {
        if self.is_for_nobody {
            return;
        }
        let kind = kind.into();
        if matches!(kind, ChangeKind::Zk(ZkChange::Installed { .. })) {
            // A command that was not done is gone with the state before.
            self.open = None;
            self.ends_pause = true;
            self.concerns_all = true;
        }
        self.concerns_all |= !matches!(kind, ChangeKind::Zk(_));
        let path_start = u32::try_from(self.paths.len()).expect("a batch is far below 4 GiB");
        let path_bytes = u32::try_from(path.len()).expect("a path is far below 4 GiB");
        self.paths.push_str(path);
        self.changes.push(Change { mark, kind, path_start, path_bytes });
    }

    /// Adds a change of a lease. No Front wants it.
    pub(crate) fn push_lease(&mut self, change: LeaseChange) {
        if !self.is_for_nobody {
            self.lease_changes.push(change);
        }
    }

    /// Puts the leases of a state in the place of all changes of leases so far: that state takes
    /// the place of the present one.
    pub fn replace_leases(&mut self, leases: &Leases) {
        self.lease_changes.clear();
        if !self.is_for_nobody {
            self.lease_changes.extend(leases.changes());
        }
    }

    /// The changes of leases, in their order. Where [`ZkChange::Installed`] is in the batch, they
    /// are those behind it.
    pub fn lease_changes(&self) -> &[LeaseChange] {
        &self.lease_changes
    }

    /// Lets a command of etcd v2 add its changes.
    pub(crate) fn add_etcd_v2<R>(&mut self, add: impl FnOnce(&mut EtcdV2Changes) -> R) -> R {
        let result = add(&mut self.etcd_v2);
        if self.is_for_nobody {
            self.etcd_v2 = EtcdV2Changes::default();
        }
        result
    }

    /// Puts the times to live of a state of etcd v2 in the place of all its changes so far: that
    /// state takes the place of the present one.
    pub fn replace_etcd_v2(&mut self, store: &EtcdV2Store) {
        self.add_etcd_v2(|changes| {
            *changes = EtcdV2Changes { keys: Vec::new(), deadlines: store.deadlines() };
        });
    }

    /// The changes of etcd v2's tree, in their order. If [`ZkChange::Installed`] is in the batch,
    /// they are those behind it.
    pub fn etcd_v2(&self) -> &EtcdV2Changes {
        &self.etcd_v2
    }

    /// The changes with their paths, in the order in which they happened.
    pub fn iter(&self) -> impl Iterator<Item = (&Change, &str)> {
        self.changes.iter().map(|change| {
            let start = change.path_start as usize;
            (change, &self.paths[start..start + change.path_bytes as usize])
        })
    }

    /// A change with its path, by its place in the order.
    pub fn get(&self, index: usize) -> Option<(&Change, &str)> {
        let change = self.changes.get(index)?;
        let start = change.path_start as usize;
        Some((change, &self.paths[start..start + change.path_bytes as usize]))
    }

    /// The number of changes.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether a change concerns the clients of every protocol: a change of the ensemble, or
    /// another state in the place of the one before.
    pub fn concerns_all(&self) -> bool {
        self.concerns_all
    }

    /// Whether there is nothing but changes of etcd's keys.
    pub fn has_only_keys(&self) -> bool {
        self.changes.is_empty() && !self.ends_pause
    }

    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.has_only_keys() && self.key_changes.is_empty() && self.etcd_v2.is_empty()
    }

    /// The transaction of ZooKeeper's that the last change belongs to, if more of its changes come
    /// in later batches.
    pub fn open_transaction(&self) -> Option<OpenTransaction> {
        self.open
    }

    /// Whether a command of ZooKeeper's has ended for which readers of the tree may have waited.
    pub fn ends_pause(&self) -> bool {
        self.ends_pause
    }

    /// Notes that a command of ZooKeeper's is paused, and which of its transactions is not whole.
    pub(crate) fn pause(&mut self, open: Option<OpenTransaction>) {
        self.open = open;
    }

    /// Notes that a command of ZooKeeper's that was paused goes on.
    pub(crate) fn go_on(&mut self) {
        self.open = None;
    }

    /// Notes that a command of ZooKeeper's that was paused has ended.
    pub(crate) fn end_pause(&mut self) {
        self.ends_pause = true;
    }

    /// Takes the changes from number `count` on, of a command that is not done, with the warnings
    /// left here.
    pub(crate) fn split_off(&mut self, count: usize) -> ChangeBatch {
        let mut rest = ChangeBatch { is_for_nobody: self.is_for_nobody, ..ChangeBatch::default() };
        let Some(first) = self.changes.get(count) else { return rest };
        let begin = first.path_start;
        rest.paths = self.paths.split_off(begin as usize);
        rest.changes = self.changes.split_off(count);
        for change in &mut rest.changes {
            change.path_start -= begin;
        }
        rest
    }

    /// Adds the changes and the warnings of another batch.
    pub(crate) fn append(&mut self, other: ChangeBatch) {
        for warning in other.quotas_exceeded {
            self.warn_of_quota(warning);
        }
        if self.changes.is_empty() {
            self.changes = other.changes;
            self.paths = other.paths;
            return;
        }
        let begin = u32::try_from(self.paths.len()).expect("a batch is far below 4 GiB");
        self.paths.push_str(&other.paths);
        self.changes.extend(other.changes.into_iter().map(|change| {
            let path_start = change.path_start + begin;
            Change { path_start, ..change }
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
        if let Some(change) = self.changes.get(count) {
            let start = change.path_start as usize;
            self.paths.truncate(start);
            self.changes.truncate(count);
        }
    }
}
