//! The changes that etcd's commands make. The Fronts pass changes of keys on to watchers. Loop
//! keeps the deadlines of leases, and learns from these changes which leases were granted or have
//! ended.

use crate::etcd::Store;
use crate::etcd::event::Event;
use crate::etcd::settings::Settings;
use crate::ids::{LeaseId, Ordinal};

/// A change that concerns every Front which serves etcd clients.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// Permissions are enforced from now on.
    AuthEnabled,
    /// The command with this ordinal made a simple token.
    Authenticated(Ordinal),
    /// An image replaced the keys and their history, so watchers cannot continue in it.
    HistoryReplaced,
}

/// An event of a key, for the key's watchers.
#[derive(Clone, Debug)]
pub struct KeyChange {
    /// The event.
    pub event: Event,
    /// The key's version at the revision before the event's. `None` if the key did not exist then,
    /// or if the event creates the key (perhaps again, after a deletion in the same transaction).
    pub before: Option<Event>,
}

/// A change of a lease, for the deadlines that Loop keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseChange {
    /// The lease was granted.
    Granted {
        /// The lease.
        lease: LeaseId,
        /// The ordinal of the command that granted the lease. A command that expires the lease
        /// names this ordinal, so that it does not expire a later lease with the same id.
        granted: Ordinal,
        /// The time to live in seconds: how long the lease lives without a keep-alive.
        ttl_s: i64,
    },
    /// The lease was revoked, or has expired.
    Ended(LeaseId),
}

/// The changes of consecutive commands, in order.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    made: Vec<Change>,
    keys: Vec<KeyChange>,
    /// Whether `push_event` keeps its argument: somebody watches keys.
    wants_keys: bool,
    deadlines: Vec<LeaseChange>,
    settings: Option<Settings>,
    /// The revision of the keys after the last command; `None` if the batch has no etcd command.
    revision: Option<i64>,
    /// Whether the batch drops every change: nobody will read it.
    is_for_nobody: bool,
}

impl Changes {
    /// A batch that drops every change.
    pub(crate) fn for_nobody() -> Changes {
        Changes { is_for_nobody: true, ..Changes::default() }
    }

    /// Adds a change that concerns every Front.
    pub fn push(&mut self, change: Change) {
        if !self.is_for_nobody {
            self.made.push(change);
        }
    }

    /// Notes that a command set the settings.
    pub fn push_settings(&mut self, settings: Settings) {
        if !self.is_for_nobody {
            self.settings = Some(settings);
        }
    }

    /// Sets whether changes of keys are kept from now on. Without watchers they are not worth their
    /// cost.
    pub fn set_wants_keys(&mut self, wants: bool) {
        self.wants_keys = wants && !self.is_for_nobody;
    }

    /// Adds a change of a key, if somebody watches keys.
    pub(crate) fn push_event(&mut self, event: Event, before: Option<Event>) {
        if self.wants_keys {
            self.keys.push(KeyChange { event, before });
        }
    }

    /// As [`Changes::push_event`], but clones its arguments only if somebody watches.
    pub(crate) fn push_event_after(&mut self, event: &Event, before: Option<&Event>) {
        if self.wants_keys {
            let (event, before) = (event.clone(), before.cloned());
            self.keys.push(KeyChange { event, before });
        }
    }

    /// Whether changes of keys are kept.
    pub(crate) fn wants_keys(&self) -> bool {
        self.wants_keys
    }

    /// Takes the changes of keys out of this batch, except for the first `count`.
    pub(crate) fn split_off_keys(&mut self, count: usize) -> Vec<KeyChange> {
        self.keys.split_off(count)
    }

    /// Adds changes of keys, if somebody watches keys.
    pub(crate) fn append_keys(&mut self, mut changes: Vec<KeyChange>) {
        if !self.wants_keys {
            return;
        }
        if self.keys.is_empty() {
            self.keys = changes;
        } else {
            self.keys.append(&mut changes);
        }
    }

    /// Adds a change of a lease.
    pub(crate) fn push_lease(&mut self, change: LeaseChange) {
        if !self.is_for_nobody {
            self.deadlines.push(change);
        }
    }

    /// Notes that `state` replaced the whole state. Drops earlier changes of keys: watchers read in
    /// the new state what they have missed.
    pub(crate) fn on_replaced(&mut self, state: &Store) {
        self.keys.clear();
        self.note_revision(state.revision());
        if !self.is_for_nobody {
            self.deadlines = state.leases().deadlines();
        }
    }

    /// Notes the revision of the keys after a command.
    pub(crate) fn note_revision(&mut self, revision: i64) {
        if !self.is_for_nobody {
            self.revision = Some(revision);
        }
    }

    /// The changes that concern every Front, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Change> {
        self.made.iter()
    }

    /// The changes of keys, in order. All changes of one revision are in one batch. If the state
    /// was replaced in this batch, the changes from before the replacement are missing.
    pub fn keys(&self) -> &[KeyChange] {
        &self.keys
    }

    /// The changes of leases, in order. If the state was replaced, they begin with all leases of
    /// the new state.
    pub fn deadlines(&self) -> &[LeaseChange] {
        &self.deadlines
    }

    /// The newest settings, if a command of this batch set them.
    pub fn settings(&self) -> Option<Settings> {
        self.settings
    }

    /// The revision of the keys after the last etcd command of the batch, or in the state that
    /// replaced the old one.
    pub fn revision(&self) -> Option<i64> {
        self.revision
    }

    /// Whether the batch has a change that concerns every Front which serves etcd clients.
    pub fn concerns_all(&self) -> bool {
        !self.made.is_empty() || self.settings.is_some()
    }

    /// Whether the batch holds nothing that a Front has to process.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && !self.concerns_all()
    }
}
