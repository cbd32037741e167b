//! How a server writes its log: the form of a line, the filter that chooses lines, and the places
//! that lines go to.

use std::path::PathBuf;

use tracing_subscriber::EnvFilter;

/// The form, the default filter and the destinations of log lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogStyle {
    /// The default filter; a filter in the environment or in the configuration file wins.
    pub filter: &'static str,
    /// Whether each line is a JSON object, in etcd's form.
    pub is_json: bool,
    /// Where lines are written. There is at least one.
    pub outputs: Vec<Output>,
}

impl LogStyle {
    /// The style for a count of `-v` options.
    pub fn from_verbosity(verbose: u8) -> LogStyle {
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
    pub fn from_etcd(
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
            // There are no lines above errors here: what would deserve one ends the process.
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
            // systemd passes stderr on to the journal.
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

/// A destination of log lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Standard error.
    Stderr,
    /// Standard output.
    Stdout,
    /// A file; lines are appended.
    File(PathBuf),
}

/// Checks that a text is a valid filter; the error says why not.
pub fn check(text: &str) -> Result<(), String> {
    EnvFilter::builder().parse(text).map(drop).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
