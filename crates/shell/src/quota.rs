//! Quotas as ZooKeeper keeps them: text in znodes below `/zookeeper/quota` (`Quotas` and
//! `StatsTrack`, 3.9.5). Pure.

use std::collections::BTreeMap;
use std::fmt;

/// The root of the quotas: a path with a quota is repeated below it.
pub const QUOTA_ROOT: &str = "/zookeeper/quota";
/// The znode that holds the limits of a path.
pub const LIMITS: &str = "zookeeper_limits";
/// The znode that holds the counts below a path.
pub const STATS: &str = "zookeeper_stats";

const COUNT: &str = "count";
const BYTES: &str = "bytes";

/// The kind of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// A limit of znodes; exceeding it is logged.
    Count,
    /// A limit of bytes; exceeding it is logged.
    Bytes,
    /// A limit of znodes; exceeding it is refused.
    CountHard,
    /// A limit of bytes; exceeding it is refused.
    BytesHard,
}

/// Every limit, with the option that names it.
pub const LIMIT_OPTIONS: [(Limit, &str); 4] =
    [(Limit::Count, "n"), (Limit::Bytes, "b"), (Limit::CountHard, "N"), (Limit::BytesHard, "B")];

impl Limit {
    /// Its name in the text.
    pub fn key(self) -> &'static str {
        match self {
            Limit::Count => COUNT,
            Limit::Bytes => BYTES,
            Limit::CountHard => "countHardLimit",
            Limit::BytesHard => "byteHardLimit",
        }
    }

    /// Whether it limits znodes, and not bytes.
    pub fn is_count(self) -> bool {
        matches!(self, Limit::Count | Limit::CountHard)
    }
}

/// The values of one znode: limits, or counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Track {
    values: BTreeMap<String, i64>,
}

impl Track {
    /// Reads the text of a znode: `count=1,bytes=2=;countHardLimit=3`.
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

    /// The limits of a new quota: all four, with no limit.
    pub fn unlimited() -> Track {
        let values = LIMIT_OPTIONS.iter().map(|(limit, _)| (limit.key().to_string(), -1));
        Track { values: values.collect() }
    }

    /// The counts of a new quota: 0.
    pub fn zero() -> Track {
        Track { values: [COUNT, BYTES].map(|key| (key.to_string(), 0)).into() }
    }

    /// The value of a limit, or -1.
    pub fn get(&self, limit: Limit) -> i64 {
        self.values.get(limit.key()).copied().unwrap_or(-1)
    }

    /// Sets the value of a limit.
    pub fn set(&mut self, limit: Limit, value: i64) {
        self.values.insert(limit.key().to_string(), value);
    }

    /// All values by their names.
    pub fn values(&self) -> &BTreeMap<String, i64> {
        &self.values
    }
}

/// Older readers expect this order and the second `=`.
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

/// The path of a quota's znodes for a path.
pub fn quota_path(path: &str) -> String {
    match path {
        "/" => QUOTA_ROOT.to_string(),
        path => format!("{QUOTA_ROOT}{path}"),
    }
}

#[cfg(test)]
mod tests;
