//! What a server logs of its work.

/// The settings of the log. None has a default to fill in, so this is its own draft.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoggingConfig {
    /// Each write is a line in the log (`audit.enable`).
    pub audit: bool,
    /// Which lines are logged (`quorate.log`); none: as the environment or the options say.
    pub filter: Option<String>,
    /// A request that takes longer is a warning; none: no request is.
    pub slow_request_ms: Option<u64>,
}
