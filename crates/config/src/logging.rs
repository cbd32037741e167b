//! The settings of a server's log.

/// The settings of the log. There are no defaults to fill in, so sources set this struct directly.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoggingConfig {
    /// Whether each write adds a line to the audit log (`audit.enable`).
    pub audit: bool,
    /// The filter of log lines (`quorate.log`); `None` if the environment or the command line
    /// decides.
    pub filter: Option<String>,
    /// A request that takes longer than this is logged as a warning, in ms; `None` if no request
    /// is.
    pub slow_request_ms: Option<u64>,
}
