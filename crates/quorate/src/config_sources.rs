//! Reads the files and environment variables that the configuration is made from.

use std::io;
use std::path::Path;

use config::{ConfigError, Env, ServeArgs, ServeConfig, Warning, load_from};

/// The variables of this process's environment that the configuration uses.
pub fn env_of_process() -> Env {
    let text = |name| std::env::var_os(name).map(|v| v.to_string_lossy().into_owned());
    let variables = std::env::vars_os().map(|(name, value)| {
        (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned())
    });
    Env {
        server_jvmflags: text("SERVER_JVMFLAGS"),
        jvmflags: text("JVMFLAGS"),
        container: variables.filter(|(name, _)| name.starts_with("ZOO_")).collect(),
    }
}

/// Loads the configuration of `quorate serve` from these options, this environment, and the files
/// that they name.
pub fn load(args: &ServeArgs, env: &Env) -> Result<(ServeConfig, Vec<Warning>), ConfigError> {
    load_from(args, env, &read_file)
}

/// Reads a text file; `None` if it does not exist. A file that is not UTF-8 is read as ISO 8859-1,
/// as Java reads properties.
pub fn read_file(path: &Path) -> io::Result<Option<String>> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => error.into_bytes().iter().map(|&b| char::from(b)).collect(),
        })),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
