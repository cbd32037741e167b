//! Changes of etcd's part of the state that Loop and the Fronts take.

use crate::etcd::event::Event;
use crate::etcd::settings::Settings;
use crate::ids::{LeaseId, Ordinal};

/// A change that a command of etcd's space made.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// The settings were set.
    Configured(Settings),
    /// Permissions are enforced from now on.
    AuthEnabled,
    /// A token was made by the command with this ordinal.
    Authenticated(Ordinal),
    /// An image took the place of the keys: watchers know nothing of its history.
    Replaced,
}

/// A change of a key, for watchers.
#[derive(Clone, Debug)]
pub struct KeyChange {
    /// The event.
    pub event: Event,
    /// The version at the revision before it; none if the key did not exist, or the event creates
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
