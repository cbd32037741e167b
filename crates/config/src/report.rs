//! Warnings and errors for the author of a configuration. Each has the setting, its place, and the
//! problem.

use std::fmt;

pub use tls::settings::Place;

/// A warning about a setting that may not do what its author expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// How serious it is.
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

/// How serious a [`Warning`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Logged as a warning: the server does not do what the setting says.
    Warning,
    /// Logged at debug level: the setting's effect is not missed here.
    Note,
}

/// Why a configuration cannot be used. Its text is one line with file, line and cause.
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
    /// A file, a variable or an option is not of its format.
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
        /// The key of the setting.
        key: String,
        /// The reason.
        cause: String,
    },
}

impl ConfigError {
    /// Adds to the text in which format the file was read, and why: the file's author may have
    /// meant the other format.
    pub fn read_as(mut self, format: &str, why: &str) -> ConfigError {
        if let ConfigError::Malformed { cause, .. } | ConfigError::Invalid { cause, .. } = &mut self
        {
            cause.push_str(&format!(" (read as {format}: {why})"));
        }
        self
    }
}

/// The name of the configuration file, and the warnings so far.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// The path of the file as it was given; `None` if there is no file.
    pub file: Option<String>,
    /// Whether the keys are ZooKeeper's, from a `zoo.cfg` or from the variables of its container
    /// image.
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

    /// The place to name when the configuration as a whole is at fault.
    pub fn whole(&self) -> Place {
        Place::of(self.file.as_deref().unwrap_or("configuration"))
    }

    pub fn missing(&self, cause: impl Into<String>) -> ConfigError {
        ConfigError::Malformed { place: self.whole(), cause: cause.into() }
    }
}
