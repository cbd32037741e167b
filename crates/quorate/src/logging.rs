//! Sets up the log of the process: its outputs, the form of its lines, and the filter that chooses
//! the lines. The filter can be changed while the server runs.
//!
//! The filter comes from the configuration file (`quorate.log`), else from the variable
//! `QUORATE_LOG`, else from `-v` or etcd's `--log-level`. The file has precedence because it is the
//! only source that can change while the process runs. A filter is a level, or several directives
//! separated by commas, in the syntax of the crate tracing-subscriber.

mod json;
mod outputs;
mod seldom;

use anyhow::Context;
use config::log_style::{LogStyle, Output};
use tracing_subscriber::EnvFilter;

use json::JsonLines;
use outputs::Outputs;
pub use seldom::{REFUSALS_MAX, Seldom};

/// The environment variable with the filter to use if the configuration file has none.
const VARIABLE: &str = "QUORATE_LOG";

/// The log of this process, once it is started.
pub struct Logging {
    /// The filter to use if the configuration file has none.
    default: String,
    set: Box<dyn Fn(EnvFilter) -> anyhow::Result<()> + Send>,
}

impl Logging {
    /// Starts the log. May be called only once.
    ///
    /// # Errors
    /// A log file cannot be opened.
    pub fn start(style: &LogStyle) -> anyhow::Result<Logging> {
        let of_variable = std::env::var(VARIABLE).ok().filter(|text| parse(text).is_ok());
        let default = of_variable.unwrap_or_else(|| style.filter.to_string());
        let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
        let builder = tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::new(&default))
            .with_writer(Outputs::open(&style.outputs)?)
            .with_target(false)
            .with_ansi(!style.is_json && style.outputs == [Output::Stderr] && is_terminal)
            // Otherwise the crate would report a line that cannot be written with another line, and
            // panic.
            .log_internal_errors(false);
        let set: Box<dyn Fn(EnvFilter) -> anyhow::Result<()> + Send> = if style.is_json {
            let builder = builder.event_format(JsonLines).with_filter_reloading();
            let handle = builder.reload_handle();
            builder.init();
            Box::new(move |filter| handle.reload(filter).context("the filter of the log"))
        } else {
            let builder = builder.with_filter_reloading();
            let handle = builder.reload_handle();
            builder.init();
            Box::new(move |filter| handle.reload(filter).context("the filter of the log"))
        };
        Ok(Logging { default, set })
    }

    /// Sets the filter, or the default one if `filter` is `None`. Returns the filter that now
    /// applies.
    pub fn apply(&self, filter: Option<&str>) -> anyhow::Result<String> {
        let filter = filter.unwrap_or(&self.default);
        (self.set)(parse(filter).map_err(anyhow::Error::msg)?)?;
        Ok(filter.to_string())
    }
}

/// Parses a filter.
fn parse(text: &str) -> Result<EnvFilter, String> {
    EnvFilter::builder().parse(text).map_err(|error| error.to_string())
}
