//! Parses the values of ZooKeeper's keys. [`Fate`] says what applying a key has done.

use std::collections::BTreeSet;
use std::path::PathBuf;

use machine::Level;
use member::snapshot::log_rule::SnapshotLog;

use zk::auth::DigestAlgorithm;
use zk::files::properties;

/// The result of applying a key.
pub(super) enum Fate {
    Taken,
    /// The key is known, and nothing is missed because it has no effect here.
    Moot,
    /// The key has no effect here. The text, logged at debug level, says why.
    Noted(&'static str),
    /// The key does not do what its author may expect. The text, logged as a warning, says why.
    Differs(String),
    Unknown,
}

impl Fate {
    /// Tries `next` if the key is unknown so far.
    pub fn or_else(self, next: impl FnOnce() -> Result<Fate, String>) -> Result<Fate, String> {
        match self {
            Fate::Unknown => next(),
            known => Ok(known),
        }
    }
}

/// `Moot` if nothing is missed, otherwise the warning `complaint`.
pub(super) fn unless(nothing_lost: bool, complaint: &str) -> Fate {
    if nothing_lost { Fate::Moot } else { Fate::Differs(complaint.to_string()) }
}

/// Checks that a value is a valid filter of log lines.
pub(super) fn log_filter(value: &str) -> Result<String, String> {
    crate::log_style::check(value).map_err(|cause| format!("{value:?} is no filter: {cause}"))?;
    Ok(value.to_string())
}

pub(super) fn path(value: &str) -> Result<PathBuf, String> {
    if value.is_empty() { Err("is empty".to_string()) } else { Ok(PathBuf::from(value)) }
}

pub(super) fn port(value: &str) -> Result<u16, String> {
    value.trim().parse().map_err(|_| format!("{value:?} is not a port"))
}

pub(super) fn boolean(value: &str) -> Result<bool, String> {
    match value.to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(format!("{value:?} is neither true nor false")),
    }
}

pub(super) fn yes_or_no(value: &str) -> Result<bool, String> {
    match value {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(format!("{value:?} is neither yes nor no")),
    }
}

pub(super) fn number(value: &str) -> Result<i64, String> {
    properties::decode_number(value)
}

/// Parses the number of a property (decimal, hexadecimal or octal), which must be within bounds.
pub(super) fn number_in<T: TryFrom<i64>>(value: &str, min: i32, max: i32) -> Result<T, String> {
    within(number(value)?, min, max)
}

/// Parses the number of a key, which must be decimal and within bounds.
pub(super) fn decimal_in<T: TryFrom<i64>>(value: &str, min: i32, max: i32) -> Result<T, String> {
    within(properties::parse_decimal(value)?, min, max)
}

pub(super) fn within<T: TryFrom<i64>>(number: i64, min: i32, max: i32) -> Result<T, String> {
    let in_bounds = (i64::from(min)..=i64::from(max)).contains(&number);
    T::try_from(number)
        .ok()
        .filter(|_| in_bounds)
        .ok_or_else(|| format!("{number} is not between {min} and {max}"))
}

/// Parses a time in ms; `None` for -1, which means the default.
pub(super) fn decimal_or_default(value: &str) -> Result<Option<u32>, String> {
    match properties::parse_decimal(value)? {
        -1 => Ok(None),
        number => within(number, 0, i32::MAX).map(Some),
    }
}

/// Parses a limit. A value below 1 means no limit and becomes 0.
pub(super) fn decimal_or_unlimited(value: &str) -> Result<u32, String> {
    unlimited_below_one(properties::parse_decimal(value)?)
}

pub(super) fn unlimited_below_one(number: i64) -> Result<u32, String> {
    within(number.max(0), 0, i32::MAX)
}

/// Parses names separated by commas.
pub(super) fn list(value: &str) -> BTreeSet<String> {
    value.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_string).collect()
}

/// The warning about an enabled reconfig, unless the servers may use level 5.
pub(super) const RECONFIG_NEEDS_LEVEL: &str = "reconfig needs level 5, which is not released: it is answered \
                                    \"unimplemented\"";

/// The amount of log after which a snapshot is due, for a configured number of bytes; 0 means that
/// no amount of log makes a snapshot due.
pub(super) fn log_rule(bytes: u64) -> SnapshotLog {
    match bytes {
        0 => SnapshotLog::Unbounded,
        bytes => SnapshotLog::Bytes(bytes),
    }
}

/// Parses the highest level that a server may know.
pub(super) fn level_max(number: i64) -> Result<Level, String> {
    let level = u16::try_from(number).ok().and_then(Level::from_number);
    let known = level.filter(|level| *level <= Level::NEWEST);
    known.ok_or_else(|| format!("level {number} is not between 1 and {}", Level::NEWEST))
}

/// The name of a digest algorithm in the replicated settings, from any name that Java knows.
pub(super) fn digest_algorithm(name: &str) -> Result<String, String> {
    let algorithm = DigestAlgorithm::from_name(name);
    let algorithm =
        algorithm.ok_or_else(|| format!("{name:?} is not a digest algorithm we know"))?;
    Ok(algorithm.name().to_string())
}

/// Parses `user:base64(hash)`; `None` for an empty text.
pub(super) fn super_digest(text: &str) -> Result<Option<String>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    match text.split_once(':') {
        Some((user, hash)) if !user.is_empty() && !hash.is_empty() => Ok(Some(text.to_string())),
        _ => Err("is not of the form user:base64-of-the-hash".to_string()),
    }
}
