//! Reads the values of flags from the command line, as Go's package `flag` does, and from the
//! variables `ETCD_*` (`pkg/flags`).

use std::collections::BTreeMap;

use super::flags::{self, CONFIG_FILE, Flag, GROUPS, Kind, VERSION};
use super::values::{Values, check, switch};
use crate::Exit;
use crate::report::{Place, Severity, Warning};

/// The prefix of the names of all variables.
const PREFIX: &str = "ETCD_";

/// What the command line asks for: a text, or a server.
pub(super) enum Asked {
    /// Print the version.
    Version,
    /// Print the help.
    Help,
    /// Run a server with these values.
    Server(Values),
}

/// Parses the words behind the program's name.
///
/// # Errors
/// A flag is unknown, or has a wrong value.
pub(super) fn command_line(words: &[&str]) -> Result<Asked, Exit> {
    let mut values = Values::default();
    let mut asks_version = false;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let name = match word.strip_prefix("--").or_else(|| word.strip_prefix('-')) {
            Some("") | None => return Err(failed(format!("{word:?} is not a valid flag"))),
            Some(name) if name.starts_with(['-', '=']) => {
                return Err(wrong(format!("bad flag syntax: {word}")));
            }
            Some(name) => name,
        };
        let (name, value) = match name.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (name, None),
        };
        match name {
            "help" | "h" => return Ok(Asked::Help),
            VERSION => {
                asks_version = match switch(value.unwrap_or("true")) {
                    Some(asks) => asks,
                    None => return Err(wrong_switch(name, value)),
                };
                continue;
            }
            _ => {}
        }
        let flag = flags::find(name);
        let flag = flag.ok_or_else(|| wrong(format!("flag provided but not defined: -{name}")))?;
        let value = match (flag.kind, value) {
            (_, Some(value)) => value,
            (Kind::Switch | Kind::Ignored, None) => "true",
            (_, None) => {
                words.next().ok_or_else(|| wrong(format!("flag needs an argument: -{name}")))?
            }
        };
        check(flag.kind, value).map_err(|cause| match flag.kind {
            Kind::Switch => wrong_switch(name, Some(value)),
            // etcd's type for this flag repeats the value in its error.
            Kind::Choice(_) if name == "v2-deprecation" => {
                wrong(format!("invalid value {value:?} for flag -{name}: {cause} {value:?}"))
            }
            _ => wrong(format!("invalid value {value:?} for flag -{name}: {cause}")),
        })?;
        values.set(flag, value, Place::of("command line"));
    }
    Ok(if asks_version { Asked::Version } else { Asked::Server(values) })
}

/// The name of the variable that sets a flag.
fn variable_of(flag: &Flag) -> String {
    format!("{PREFIX}{}", flag.name.to_ascii_uppercase().replace('-', "_"))
}

/// The path of the configuration file, from the flag or the variable.
pub(super) fn config_file(values: &Values, variables: &BTreeMap<String, String>) -> Option<String> {
    let of_variable = || variables.get("ETCD_CONFIG_FILE").map(String::as_str);
    let file = values.path(CONFIG_FILE).or_else(of_variable);
    file.filter(|file| !file.is_empty()).map(str::to_string)
}

/// Adds the values of the variables. Returns a warning for each unknown variable.
///
/// # Errors
/// A variable has a wrong value, or its flag is set on the command line, too: etcd does not start
/// then either (`flags.verifyEnv`).
pub(super) fn environment(
    values: &mut Values,
    variables: &BTreeMap<String, String>,
) -> Result<Vec<Warning>, Exit> {
    let mut known = BTreeMap::new();
    for flag in GROUPS.iter().flat_map(|(_, flags)| flags.iter()) {
        known.insert(variable_of(flag), flag);
    }
    let mut warnings = Vec::new();
    for (variable, value) in variables.iter().filter(|(name, _)| name.starts_with(PREFIX)) {
        match known.get(variable) {
            Some(flag) if values.is_given(flag.name) => {
                return Err(failed(format!(
                    "conflicting environment variable is shadowed by corresponding command-line \
                     flag (either unset environment variable or disable flag): {variable}"
                )));
            }
            Some(_) if value.is_empty() => {}
            Some(flag) => {
                check(flag.kind, value).map_err(|cause| {
                    failed(format!("invalid value {value:?} for {variable}: {cause}"))
                })?;
                values.set(flag, value, Place::of(variable));
            }
            None => warnings.push(Warning {
                severity: Severity::Warning,
                place: Place::of("environment"),
                key: variable.clone(),
                message: "unrecognized environment variable".to_string(),
            }),
        }
    }
    Ok(warnings)
}

/// A wrong flag, for which etcd ends with status 2.
fn wrong(text: String) -> Exit {
    Exit::Wrong(format!("{text}\nUsage: etcd [flags]; `etcd --help` lists them"))
}

fn wrong_switch(name: &str, value: Option<&str>) -> Exit {
    let value = value.unwrap_or_default();
    wrong(format!("invalid boolean value {value:?} for -{name}: parse error"))
}

/// A wrong configuration, for which etcd ends with status 1.
pub(super) fn failed(text: String) -> Exit {
    Exit::Failed(format!("etcd: {text}"))
}
