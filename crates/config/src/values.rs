//! The meaning of keys' values, and the fate of a key.

use std::collections::BTreeSet;
use std::path::PathBuf;

use machine::Level;
use member::snapshot::log_rule::SnapshotLog;

use zk::files::properties;

/// The fate of a key.
pub(super) enum Fate {
    Taken,
    /// The key is known, and has no effect here or in a standalone ZooKeeper.
    Moot,
    /// The key has no effect here; the text says why, for people who ask.
    Noted(&'static str),
    /// The key does not do what its author may expect; the text says how.
    Differs(String),
    Unknown,
}

impl Fate {
    /// Asks `next` about a key that is unknown so far.
    pub fn or_else(self, next: impl FnOnce() -> Result<Fate, String>) -> Result<Fate, String> {
        match self {
            Fate::Unknown => next(),
            known => Ok(known),
        }
    }
}

/// `Moot` if no effect is lost, otherwise the warning.
pub(super) fn unless(nothing_lost: bool, complaint: &str) -> Fate {
    if nothing_lost { Fate::Moot } else { Fate::Differs(complaint.to_string()) }
}

/// Checks a filter of log lines.
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

/// Reads a property's number within bounds.
pub(super) fn number_in<T: TryFrom<i64>>(value: &str, min: i32, max: i32) -> Result<T, String> {
    within(number(value)?, min, max)
}

/// Reads a key's number, which is decimal, within bounds.
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

/// Reads a time in milliseconds; -1 means the default.
pub(super) fn decimal_or_default(value: &str) -> Result<Option<u32>, String> {
    match properties::parse_decimal(value)? {
        -1 => Ok(None),
        number => within(number, 0, i32::MAX).map(Some),
    }
}

/// Reads a count; 0 and below mean no limit, which we keep as 0.
pub(super) fn decimal_or_unlimited(value: &str) -> Result<u32, String> {
    unlimited_below_one(properties::parse_decimal(value)?)
}

pub(super) fn unlimited_below_one(number: i64) -> Result<u32, String> {
    within(number.max(0), 0, i32::MAX)
}

/// Reads names separated by commas, trimmed.
pub(super) fn list(value: &str) -> BTreeSet<String> {
    value.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_string).collect()
}

pub(super) const RECONFIG_NOT_BUILT: &str = "the servers of a running ensemble cannot be changed: reconfig is \
                                  answered \"unimplemented\"";

/// The hash algorithms a digest may use, by Java's name (which ignores case) and ours.
const DIGEST_ALGORITHMS: [(&str, &str); 10] = [
    ("SHA1", "SHA1"),
    ("SHA-1", "SHA1"),
    ("SHA", "SHA1"),
    ("SHA-224", "SHA-224"),
    ("SHA-256", "SHA-256"),
    ("SHA-384", "SHA-384"),
    ("SHA-512", "SHA-512"),
    ("SHA3-256", "SHA3-256"),
    ("SHA3-384", "SHA3-384"),
    ("SHA3-512", "SHA3-512"),
];

/// How much log makes a snapshot due, where so many bytes are set; 0: no amount.
pub(super) fn log_rule(bytes: u64) -> SnapshotLog {
    match bytes {
        0 => SnapshotLog::Unbounded,
        bytes => SnapshotLog::Bytes(bytes),
    }
}

/// Reads the highest level that a server says it knows.
pub(super) fn level_max(number: i64) -> Result<Level, String> {
    let level = u16::try_from(number).ok().and_then(Level::from_number);
    let known = level.filter(|level| *level <= Level::NEWEST);
    known.ok_or_else(|| format!("level {number} is not between 1 and {}", Level::NEWEST))
}

/// The spelling that we keep of a digest algorithm's name.
pub(super) fn digest_algorithm(name: &str) -> Result<String, String> {
    DIGEST_ALGORITHMS
        .iter()
        .find(|(java, _)| java.eq_ignore_ascii_case(name))
        .map(|(_, ours)| ours.to_string())
        .ok_or_else(|| format!("{name:?} is not a digest algorithm we know"))
}

/// Reads `user:base64(hash)`; nothing for an empty text.
pub(super) fn super_digest(text: &str) -> Result<Option<String>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    match text.split_once(':') {
        Some((user, hash)) if !user.is_empty() && !hash.is_empty() => Ok(Some(text.to_string())),
        _ => Err("is not of the form user:base64-of-the-hash".to_string()),
    }
}
