//! Changes of etcd's part of the state that Loop and the Fronts take.

use crate::etcd::settings::Settings;

/// A change that a command of etcd's space made.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// The settings were set.
    Configured(Settings),
}
