//! The destination, the form and the filter of log lines. The filter may change while the server
//! runs.
//!
//! The filter comes from the configuration file (`quorate.log`), or else from the variable
//! `QUORATE_LOG`, or else from `-v` or etcd's `--log-level`. The file comes first, since it is the
//! only one that can change for a running process. A filter is a level, or several directives with
//! commas between them, as the crate tracing-subscriber reads them.

mod json;
mod outputs;
mod seldom;

use anyhow::Context;
use tracing_subscriber::EnvFilter;

use json::JsonLines;
pub use outputs::Output;
use outputs::Outputs;
pub use seldom::{REFUSALS_MAX, Seldom};

/// The variable that holds the filter where the configuration file has none.
const VARIABLE: &str = "QUORATE_LOG";

/// The form and the destinations of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogStyle {
    /// The filter, unless the environment or the file has one.
    pub filter: &'static str,
    /// Whether each line is a JSON object, in the form of etcd's.
    pub is_json: bool,
    pub outputs: Vec<Output>,
}

impl LogStyle {
    /// The style for `-v`, or more of them.
    pub fn of_verbosity(verbose: u8) -> LogStyle {
        let filter = match verbose {
            0 => "info",
            1 => "debug",
            _ => "trace",
        };
        LogStyle { filter, is_json: false, outputs: vec![Output::Stderr] }
    }

    /// The style that etcd's flags ask for (`embed/config_logging.go`).
    ///
    /// # Errors
    /// A flag has a wrong value.
    pub fn of_etcd(
        logger: &str,
        level: &str,
        format: &str,
        outputs: &[String],
    ) -> Result<LogStyle, String> {
        if logger != "zap" {
            return Err(format!("unknown logger option {logger:?}"));
        }
        let filter = match level {
            "debug" => "debug",
            "info" => "info",
            "warn" => "warn",
            // We have no lines above errors: the process ends with them.
            "error" | "dpanic" | "panic" | "fatal" => "error",
            _ => return Err(format!("unrecognized level: {level:?}")),
        };
        let is_json = match format {
            "json" => true,
            "console" => false,
            _ => {
                return Err(format!(
                    "unknown log format: {format}, supported values json, console"
                ));
            }
        };
        if outputs.len() > 1 && outputs.iter().any(|output| output == "default") {
            return Err("multi logoutput for \"default\" is not supported yet".to_string());
        }
        let output = |text: &String| match text.as_str() {
            // The journal takes what systemd reads from stderr.
            "default" | "stderr" | "systemd/journal" => Output::Stderr,
            "stdout" => Output::Stdout,
            path => Output::File(path.into()),
        };
        let mut outputs: Vec<Output> = outputs.iter().map(output).collect();
        if outputs.is_empty() {
            outputs.push(Output::Stderr);
        }
        Ok(LogStyle { filter, is_json, outputs })
    }
}

/// The log of this process.
pub struct Logging {
    /// The filter to use when the configuration file has none.
    default: String,
    set: Box<dyn Fn(EnvFilter) -> anyhow::Result<()> + Send>,
}

impl Logging {
    /// Starts to log. Called once.
    ///
    /// # Errors
    /// A file for the log cannot be opened.
    pub fn start(style: &LogStyle) -> anyhow::Result<Logging> {
        let of_variable = std::env::var(VARIABLE).ok().filter(|text| parse(text).is_ok());
        let default = of_variable.unwrap_or_else(|| style.filter.to_string());
        let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
        let builder = tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::new(&default))
            .with_writer(Outputs::open(&style.outputs)?)
            .with_target(false)
            .with_ansi(!style.is_json && style.outputs == [Output::Stderr] && is_terminal)
            // To report that a line cannot be written, it would write another line, and panic.
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

#[cfg(test)]
mod tests;
