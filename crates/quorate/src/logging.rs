//! The destination and the filter of log lines. The filter may change while the server runs.
//!
//! The filter comes from the configuration file (`quorate.log`), or else from the variable
//! `QUORATE_LOG`, or else from `-v`. The file comes first, since it is the only one that can change
//! for a running process. A filter is a level, or several directives with commas between them, as
//! the crate tracing-subscriber reads them.

use anyhow::Context;
use tracing_subscriber::EnvFilter;

/// The variable that holds the filter where the configuration file has none.
const VARIABLE: &str = "QUORATE_LOG";

/// The log of this process.
pub struct Logging {
    /// The filter to use when the configuration file has none.
    default: String,
    set: Box<dyn Fn(EnvFilter) -> anyhow::Result<()> + Send>,
}

impl Logging {
    /// Starts to log to stderr. Called once.
    pub fn start(verbose: u8) -> Logging {
        let level = match verbose {
            0 => "info",
            1 => "debug",
            _ => "trace",
        };
        let of_variable = std::env::var(VARIABLE).ok().filter(|text| parse(text).is_ok());
        let default = of_variable.unwrap_or_else(|| level.to_string());
        let builder = tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::new(&default))
            .with_writer(std::io::stderr)
            .with_target(false)
            .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
            // To report that a line cannot be written, it would write another line, and panic.
            .log_internal_errors(false)
            .with_filter_reloading();
        let handle = builder.reload_handle();
        builder.init();
        let set = move |filter| handle.reload(filter).context("the filter of the log");
        Logging { default, set: Box::new(set) }
    }

    /// Applies this filter from now on, or the default one. Returns the filter that is used.
    pub fn apply(&self, filter: Option<&str>) -> anyhow::Result<String> {
        let filter = filter.unwrap_or(&self.default);
        (self.set)(parse(filter).map_err(anyhow::Error::msg)?)?;
        Ok(filter.to_string())
    }
}

/// Reads a filter.
fn parse(text: &str) -> Result<EnvFilter, String> {
    EnvFilter::builder().parse(text).map_err(|error| error.to_string())
}

/// Checks whether a text is a filter; the error says why not.
pub fn check(text: &str) -> Result<(), String> {
    parse(text).map(drop)
}
