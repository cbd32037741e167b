//! Changes of etcd's part of the state that Loop and the Fronts take.

use crate::etcd::event::Event;
use crate::etcd::settings::Settings;

/// A change that a command of etcd's space made.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// The settings were set.
    Configured(Settings),
    /// An image took the place of the keys: watchers know nothing of its history.
    Replaced,
}

/// A change of a key, for watchers.
#[derive(Clone, Debug)]
pub struct KeyChange {
    /// The event.
    pub event: Event,
    /// The version before it; none if the key did not exist.
    pub before: Option<Event>,
}
