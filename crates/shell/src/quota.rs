//! Parses and prints quotas in the form in which ZooKeeper keeps them: as text in znodes below
//! `/zookeeper/quota` (`Quotas` and `StatsTrack`, 3.9.5). Pure.

use std::collections::BTreeMap;
use std::fmt;

/// The root of all quotas. The quota of a path is below this root, at the same path.
pub const QUOTA_ROOT: &str = "/zookeeper/quota";
/// The name of the znode with the limits.
pub const LIMITS: &str = "zookeeper_limits";
/// The name of the znode with what is used.
pub const STATS: &str = "zookeeper_stats";

const COUNT: &str = "count";
const BYTES: &str = "bytes";

/// The quantity that a limit counts, and whether the limit is enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Count of znodes; the server only logs an excess.
    Count,
    /// Bytes of data; the server only logs an excess.
    Bytes,
    /// Count of znodes; the server refuses an excess.
    CountHard,
    /// Bytes of data; the server refuses an excess.
    BytesHard,
}

/// Every kind of limit, with its option of `setquota` and `delquota`.
pub const LIMIT_OPTIONS: [(Limit, &str); 4] =
    [(Limit::Count, "n"), (Limit::Bytes, "b"), (Limit::CountHard, "N"), (Limit::BytesHard, "B")];

impl Limit {
    /// The name of the limit in a znode's text.
    pub fn key(self) -> &'static str {
        match self {
            Limit::Count => COUNT,
            Limit::Bytes => BYTES,
            Limit::CountHard => "countHardLimit",
            Limit::BytesHard => "byteHardLimit",
        }
    }

    /// Whether this limits the count of znodes; otherwise it limits bytes.
    pub fn is_count(self) -> bool {
        matches!(self, Limit::Count | Limit::CountHard)
    }
}

/// The values in the text of one znode: limits, or what is used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Track {
    values: BTreeMap<String, i64>,
}

impl Track {
    /// Parses the text of a znode: `count=1,bytes=2=;countHardLimit=3`.
    ///
    /// # Errors
    /// The text has another form.
    pub fn parse(text: &str) -> Result<Track, String> {
        let mut values = BTreeMap::new();
        for pair in text.split([',', ';']).filter(|pair| !pair.is_empty()) {
            let wrong = || format!("{text:?} is no quota");
            let (key, value) = pair.split_once('=').ok_or_else(wrong)?;
            // `bytes=2=`: old readers stop at the second `=`.
            let value = value.split('=').next().unwrap_or_default();
            let value = if value.is_empty() { -1 } else { value.parse().map_err(|_| wrong())? };
            values.insert(key.to_string(), value);
        }
        Ok(Track { values })
    }

    /// The limits of a new quota: all four set to -1, which means no limit.
    pub fn unlimited() -> Track {
        let values = LIMIT_OPTIONS.iter().map(|(limit, _)| (limit.key().to_string(), -1));
        Track { values: values.collect() }
    }

    /// The used amounts of a new quota: 0.
    pub fn zero() -> Track {
        Track { values: [COUNT, BYTES].map(|key| (key.to_string(), 0)).into() }
    }

    /// The value for this kind of limit; -1 if there is none.
    pub fn get(&self, limit: Limit) -> i64 {
        self.values.get(limit.key()).copied().unwrap_or(-1)
    }

    /// Sets the value for this kind of limit.
    pub fn set(&mut self, limit: Limit, value: i64) {
        self.values.insert(limit.key().to_string(), value);
    }

    /// All values, by their names in the text.
    pub fn values(&self) -> &BTreeMap<String, i64> {
        &self.values
    }
}

/// Older readers expect this order of the values, and the second `=`.
impl fmt::Display for Track {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "count={},bytes={}", self.get(Limit::Count), self.get(Limit::Bytes))?;
        let mut more = self.values.iter().filter(|(key, _)| *key != COUNT && *key != BYTES);
        if let Some((key, value)) = more.next() {
            write!(f, "=;{key}={value}")?;
        }
        more.try_for_each(|(key, value)| write!(f, ";{key}={value}"))
    }
}

/// The path of the znode below which the quota of `path` is kept.
pub fn quota_path(path: &str) -> String {
    match path {
        "/" => QUOTA_ROOT.to_string(),
        path => format!("{QUOTA_ROOT}{path}"),
    }
}

#[cfg(test)]
mod tests;
