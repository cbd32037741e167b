//! Changes of etcd's part of the state that Loop and the Fronts take.

use crate::etcd::Store;
use crate::etcd::event::Event;
use crate::etcd::settings::Settings;
use crate::ids::{LeaseId, Ordinal};

/// A change that a command of etcd's space made, for every Front of etcd's clients.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// Permissions are enforced from now on.
    AuthEnabled,
    /// A token was made by the command with this ordinal.
    Authenticated(Ordinal),
    /// An image took the place of the keys: watchers know nothing of its history.
    HistoryReplaced,
}

/// A change of a key, for watchers.
#[derive(Clone, Debug)]
pub struct KeyChange {
    /// The event.
    pub event: Event,
    /// The version at the revision before it; `None` if the key did not exist, or the event creates
    /// it.
    pub before: Option<Event>,
}

/// A change of a lease, for the deadlines that Loop keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseChange {
    /// The lease was granted.
    Granted {
        /// The lease.
        lease: LeaseId,
        /// The ordinal of the grant. A command that expires the lease names it.
        granted: Ordinal,
        /// How long it lives without a keep-alive, in seconds.
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
    /// Whether somebody watches keys.
    wants_keys: bool,
    deadlines: Vec<LeaseChange>,
    settings: Option<Settings>,
    /// The revision of the keys behind the last command; `None` without one.
    revision: Option<i64>,
    /// Whether the batch keeps nothing.
    is_for_nobody: bool,
}

impl Changes {
    /// Changes that keep nothing.
    pub(crate) fn for_nobody() -> Changes {
        Changes { is_for_nobody: true, ..Changes::default() }
    }

    /// Adds a change for every Front.
    pub fn push(&mut self, change: Change) {
        if !self.is_for_nobody {
            self.made.push(change);
        }
    }

    /// Notes that the settings were set.
    pub fn push_settings(&mut self, settings: Settings) {
        if !self.is_for_nobody {
            self.settings = Some(settings);
        }
    }

    /// Keeps changes of keys from now on, or not. Without watchers they are not worth their cost.
    pub fn set_wants_keys(&mut self, wants: bool) {
        self.wants_keys = wants && !self.is_for_nobody;
    }

    /// Adds a change of a key, if somebody watches keys.
    pub(crate) fn push_event(&mut self, event: Event, before: Option<Event>) {
        if self.wants_keys {
            self.keys.push(KeyChange { event, before });
        }
    }

    /// As [`Changes::push_event`], of references.
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

    /// Takes the changes of keys behind the first `count`.
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

    /// Notes that this state took the place of the one before. Watchers look into it for what they
    /// have missed.
    pub(crate) fn on_replaced(&mut self, state: &Store) {
        self.keys.clear();
        self.note_revision(state.revision());
        if !self.is_for_nobody {
            self.deadlines = state.leases().deadlines();
        }
    }

    /// Notes the revision of the keys behind a command.
    pub(crate) fn note_revision(&mut self, revision: i64) {
        if !self.is_for_nobody {
            self.revision = Some(revision);
        }
    }

    /// The changes for every Front, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &Change> {
        self.made.iter()
    }

    /// The changes of keys, in their order; those of one revision are in one batch. If the state
    /// was replaced, they are not all.
    pub fn keys(&self) -> &[KeyChange] {
        &self.keys
    }

    /// The changes of leases, in their order. If the state was replaced, they are the leases of the
    /// new state and the changes behind it.
    pub fn deadlines(&self) -> &[LeaseChange] {
        &self.deadlines
    }

    /// The settings, if they were set; the newest.
    pub fn settings(&self) -> Option<Settings> {
        self.settings
    }

    /// The revision of the keys behind the last command of the space, or in the new state.
    pub fn revision(&self) -> Option<i64> {
        self.revision
    }

    /// Whether there is a change for every Front of etcd's clients, watched or not.
    pub fn concerns_all(&self) -> bool {
        !self.made.is_empty() || self.settings.is_some()
    }

    /// Whether there is nothing that a Front takes.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && !self.concerns_all()
    }
}
