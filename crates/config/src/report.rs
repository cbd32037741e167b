//! Warnings and errors for the author of a configuration: the setting, its place, and the problem.

use std::fmt;

pub use tls::settings::Place;

/// A warning about a setting that may not do what its author expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The level.
    pub severity: Severity,
    /// The place of the setting.
    pub place: Place,
    /// The key of the setting.
    pub key: String,
    /// The problem.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.place, self.key, self.message)
    }
}

/// The level of a [`Warning`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// A line for the log at its usual level: the server differs from the setting.
    Warning,
    /// A line for a debug log: no effect was lost.
    Note,
}

/// The reason why a configuration cannot be used: one line that names file, line and cause.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A file cannot be read.
    #[error("{file}: cannot be read: {cause}")]
    Unreadable {
        /// The file.
        file: String,
        /// The reason.
        cause: String,
    },
    /// A file, a variable or an option breaks its format.
    #[error("{place}: {cause}")]
    Malformed {
        /// The place.
        place: Place,
        /// The reason.
        cause: String,
    },
    /// A setting has a wrong value.
    #[error("{place}: {key}: {cause}")]
    Invalid {
        /// The place of the setting.
        place: Place,
        /// Its key.
        key: String,
        /// The reason.
        cause: String,
    },
}

impl ConfigError {
    /// Adds the format that the file was read as, and why: its author may have meant another one.
    pub fn read_as(mut self, format: &str, why: &str) -> ConfigError {
        if let ConfigError::Malformed { cause, .. } | ConfigError::Invalid { cause, .. } = &mut self
        {
            cause.push_str(&format!(" (read as {format}: {why})"));
        }
        self
    }
}

/// The file of a configuration, and the warnings about it.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// The file as it was named; `None` if there is no file.
    pub file: Option<String>,
    /// Whether the keys are ZooKeeper's: in a `zoo.cfg`, or in its container's variables.
    pub is_zoo_cfg: bool,
    pub warnings: Vec<Warning>,
}

impl Report {
    pub fn warn(&mut self, place: &Place, key: &str, message: impl Into<String>) {
        self.add(Severity::Warning, place, key, message.into());
    }

    pub fn note(&mut self, place: &Place, key: &str, message: impl Into<String>) {
        self.add(Severity::Note, place, key, message.into());
    }

    fn add(&mut self, severity: Severity, place: &Place, key: &str, message: String) {
        let (place, key) = (place.clone(), key.to_string());
        self.warnings.push(Warning { severity, place, key, message });
    }

    /// The place for a complaint about the configuration as a whole.
    pub fn whole(&self) -> Place {
        Place::of(self.file.as_deref().unwrap_or("configuration"))
    }

    pub fn missing(&self, cause: impl Into<String>) -> ConfigError {
        ConfigError::Malformed { place: self.whole(), cause: cause.into() }
    }
}
