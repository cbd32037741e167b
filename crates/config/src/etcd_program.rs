//! Lets this program run in place of etcd: it is called by the name `etcd` (through a link to this
//! program) or as `quorate etcd`. It understands all of etcd's flags, variables and its
//! configuration file, for scripts, unit files, manifests and test suites that start an etcd.
//!
//! Values come from the command line and from variables `ETCD_*`, or all from a file. [`parse`] is
//! pure: the environment and the files are its arguments. Sources: `etcdmain` and `embed` of etcd
//! 3.6.16.

mod cluster;
mod flags;
mod help;
mod kept;
mod settle;
mod sources;
mod tls;
mod url;
mod values;
mod yaml;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use crate::{Exit, ServeArgs};
use machine::Level;

use crate::{LEVEL_MAX_VARIABLE, ReadFile};
pub use cluster::server_line_of;
pub use kept::{text as text_of_servers, text_of_list};
use sources::{Asked, failed};

/// The name of the program and of the subcommand.
const NAME: &str = "etcd";

/// Programs that etcd's binary has beside the server.
const OTHER_PROGRAMS: [&str; 2] = ["gateway", "grpc-proxy"];

/// Turns etcd's flags, variables and file into the options of `quorate serve`. `None` if the
/// program was not called by etcd's name.
pub fn parse(
    words: &[OsString],
    variables: &BTreeMap<String, String>,
    read: ReadFile<'_>,
) -> Option<Result<ServeArgs, Exit>> {
    let is_named = |word: &OsString| Path::new(word).file_name().is_some_and(|name| name == NAME);
    let flags = match words {
        [program, flags @ ..] if is_named(program) => flags,
        [_, command, flags @ ..] if command == NAME => flags,
        _ => return None,
    };
    let texts: Option<Vec<&str>> = flags.iter().map(|word| word.to_str()).collect();
    let args = match texts {
        Some(texts) => serve_args(&texts, variables, read),
        None => Err(failed("a flag is not UTF-8".to_string())),
    };
    Some(args.map(|mut args| {
        let given = args.etcd.iter_mut();
        given.for_each(|given| given.level_max = variables.get(LEVEL_MAX_VARIABLE).cloned());
        args
    }))
}

fn serve_args(
    words: &[&str],
    variables: &BTreeMap<String, String>,
    read: ReadFile<'_>,
) -> Result<ServeArgs, Exit> {
    if let Some(program) = words.first().filter(|word| OTHER_PROGRAMS.contains(word)) {
        return Err(failed(format!(
            "{program} is not built: clients reach the members themselves"
        )));
    }
    let mut values = match sources::command_line(words)? {
        Asked::Version => return Err(Exit::Help(help::version())),
        Asked::Help => return Err(Exit::Help(help::help())),
        Asked::Server(values) => values,
    };
    let level = variables.get(LEVEL_MAX_VARIABLE).and_then(|text| text.parse().ok());
    let may_grow = level.is_some_and(|level: u16| level >= Level::MEMBERS.number());
    let Some(file) = sources::config_file(&values, variables) else {
        let warnings = sources::environment(&mut values, variables)?;
        return settle::serve_args(values, warnings, (false, may_grow), read).map_err(failed);
    };
    let text = match read(Path::new(&file)) {
        Ok(Some(text)) => text,
        Ok(None) => return Err(failed(format!("open {file}: no such file or directory"))),
        Err(cause) => return Err(failed(format!("open {file}: {cause}"))),
    };
    // As in etcd, a file makes other flags and all variables count for nothing.
    let (values, warnings) = yaml::read(&file, &text).map_err(failed)?;
    settle::serve_args(values, warnings, (true, may_grow), read).map_err(failed)
}

#[cfg(test)]
mod tests;
