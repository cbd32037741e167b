//! The settings of ZooKeeper's sessions: the timeouts, how long a connection may have no session,
//! and whether clients may read from a server that has no leader.

use member::fronts::zk::limits::SESSIONLESS_MS_DEFAULT;

use super::report::{ConfigError, Place, Report};

/// The default of `tickTime` (`ZooKeeperServer.DEFAULT_TICK_TIME`).
const TICK_MS_DEFAULT: u32 = 3_000;

/// The timeouts of sessions, in ms.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionsConfig {
    pub tick_ms: u32,
    pub timeout_ms_min: u32,
    pub timeout_ms_max: u32,
    /// A connection that has no session for this long is closed (`nio.sessionlessCnxnTimeout`).
    pub sessionless_ms_max: u64,
    /// Whether clients that ask for it may read from a server that has no leader
    /// (`readonlymode.enabled`).
    pub read_only_mode: bool,
}

/// The settings of sessions that the sources have given so far.
#[derive(Debug, Default)]
pub(super) struct SessionsDraft {
    pub tick_ms: Option<u32>,
    pub timeout_ms_min: Option<u32>,
    pub timeout_ms_max: Option<u32>,
    /// The place of the last key that set one of the two timeouts.
    pub timeout_place: Option<Place>,
    pub sessionless_ms_max: Option<u64>,
    pub read_only_mode: bool,
}

impl SessionsDraft {
    /// Fills in the defaults. The timeouts default to multiples of a tick.
    ///
    /// # Errors
    /// The smallest timeout is above the largest.
    pub fn finish(self, report: &Report) -> Result<SessionsConfig, ConfigError> {
        let tick_ms = self.tick_ms.unwrap_or(TICK_MS_DEFAULT);
        let ticks = |count: u32| tick_ms.saturating_mul(count).min(i32::MAX.unsigned_abs());
        let timeout_ms_min = self.timeout_ms_min.unwrap_or(ticks(2));
        let timeout_ms_max = self.timeout_ms_max.unwrap_or(ticks(20));
        if timeout_ms_min > timeout_ms_max {
            return Err(ConfigError::Malformed {
                place: self.timeout_place.unwrap_or_else(|| report.whole()),
                cause: format!(
                    "the smallest session timeout, {timeout_ms_min} ms, is above the largest, \
                     {timeout_ms_max} ms"
                ),
            });
        }
        Ok(SessionsConfig {
            tick_ms,
            timeout_ms_min,
            timeout_ms_max,
            sessionless_ms_max: self.sessionless_ms_max.unwrap_or(SESSIONLESS_MS_DEFAULT),
            read_only_mode: self.read_only_mode,
        })
    }
}
