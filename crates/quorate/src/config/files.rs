//! The files that a configuration is read from.

use std::io;
use std::path::Path;

use super::report::ConfigError;

/// Reads the text of a file; `Ok(None)` when there is none.
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

/// The text of a file. Bytes that are not UTF-8 are read as ISO 8859-1, as Java reads properties.
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
