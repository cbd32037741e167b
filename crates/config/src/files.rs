//! Reads the files of a configuration through a function of the caller, so that this crate itself
//! touches no file system.

use std::io;
use std::path::Path;

use super::report::ConfigError;

/// Reads the text of a file; returns `Ok(None)` if there is no such file.
pub type ReadFile<'a> = &'a dyn Fn(&Path) -> io::Result<Option<String>>;

/// Reads a file that must exist.
pub(super) fn must_read(read: ReadFile<'_>, path: &Path) -> Result<String, ConfigError> {
    let unreadable =
        |cause: String| ConfigError::Unreadable { file: path.display().to_string(), cause };
    match read(path) {
        Ok(Some(text)) => Ok(text),
        Ok(None) => Err(unreadable("there is no such file".to_string())),
        Err(error) => Err(unreadable(error.to_string())),
    }
}
