//! The settings of a server's log.

/// The settings of the log. No setting has a default to fill in, so this is its own draft.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoggingConfig {
    /// Whether each write is a line in the log (`audit.enable`).
    pub audit: bool,
    /// The filter of log lines (`quorate.log`); `None` if the environment or the options decide.
    pub filter: Option<String>,
    /// The time above which a slow request is logged as a warning, ms; `None` if no request is.
    pub slow_request_ms: Option<u64>,
}
