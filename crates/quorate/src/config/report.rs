//! Warnings and errors for the author of a configuration: which setting, where, and what is wrong.

use std::fmt;

/// Where a setting was found: a file and, where it has one, the line (from 1); or the name of an
/// environment variable or an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub file: String,
    pub line: Option<u32>,
}

impl Place {
    pub fn of(file: &str) -> Place {
        Place { file: file.to_string(), line: None }
    }

    pub fn at(file: &str, line: u32) -> Place {
        Place { file: file.to_string(), line: Some(line) }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}", self.file),
            None => f.write_str(&self.file),
        }
    }
}

/// Something in the configuration that does not do what its author may expect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    pub severity: Severity,
    pub place: Place,
    pub key: String,
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.place, self.key, self.message)
    }
}

/// How loud a [`Warning`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// For the log at its usual level: the server differs from what was asked for.
    Warning,
    /// For a debug log: nothing was lost.
    Note,
}

/// Why a configuration cannot be used. Each is one line that names file, line and cause.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("{file}: cannot be read: {cause}")]
    Unreadable { file: String, cause: String },
    #[error("{place}: {cause}")]
    Malformed { place: Place, cause: String },
    #[error("{place}: {key}: {cause}")]
    Invalid { place: Place, key: String, cause: String },
}

/// The file of a configuration, and what its author is told about it.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// As it was named; none without one.
    pub file: Option<String>,
    /// Whether ZooKeeper's keys are spoken: in a `zoo.cfg`, or in its container's variables.
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
