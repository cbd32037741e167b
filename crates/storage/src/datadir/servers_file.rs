//! The file `servers` in a data directory: the list of servers, as text, with a checksum in its
//! last line. This crate does not interpret the text.
//!
//! ```text
//! the list, as whole lines
//! checksum 8 hexadecimal digits: CRC-32C of all bytes before this line
//! ```

use crate::disk::Disk;
use crate::error::StorageError;
use crate::limits::SERVERS_FILE_BYTES_MAX;

use super::{exists, read_whole, write_small};

/// The file with the list of servers.
pub const SERVERS_FILE: &str = "servers";

const CHECKSUM: &str = "checksum ";

/// Checks the content of a `servers` file, and returns its text without the checksum.
///
/// # Errors
/// The content is not what was written.
pub fn text_of_servers(content: &str) -> Result<&str, StorageError> {
    let damaged = |why: &str| StorageError::corrupt(SERVERS_FILE, 0, why);
    let body = content.strip_suffix('\n').ok_or_else(|| damaged("its end is missing"))?;
    let (text, last) = body.rsplit_once('\n').ok_or_else(|| damaged("it is one line"))?;
    let text = &content[..=text.len()];
    match last.strip_prefix(CHECKSUM) {
        Some(written) if written == checksum(text) => Ok(text),
        _ => Err(damaged("its checksum is wrong")),
    }
}

fn checksum(text: &str) -> String {
    format!("{:08x}", crc32c::crc32c(text.as_bytes()))
}

/// Writes the file durably, as a whole, unless it has this text already.
pub(super) fn keep<D: Disk>(disk: &D, text: &str) -> Result<(), StorageError> {
    assert!(text.ends_with('\n'), "it consists of whole lines");
    let content = format!("{text}{CHECKSUM}{}\n", checksum(text));
    let bytes_max = SERVERS_FILE_BYTES_MAX;
    if content.len() as u64 > bytes_max {
        return Err(StorageError::corrupt(SERVERS_FILE, bytes_max, "it is too long"));
    }
    let is_kept = exists(disk, SERVERS_FILE)?
        && read_whole(disk, SERVERS_FILE, bytes_max).is_ok_and(|kept| kept == content.as_bytes());
    if is_kept { Ok(()) } else { write_small(disk, SERVERS_FILE, content.as_bytes()) }
}
