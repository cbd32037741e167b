//! Decompresses messages that a client has compressed with gzip (RFC 1952).

use std::io::{ErrorKind, Read};

use flate2::bufread::MultiGzDecoder;

/// Why bytes cannot be decompressed.
#[derive(Debug, PartialEq, Eq)]
pub enum NoMessage {
    /// The bytes have no header of gzip. Holds the cause, as text.
    NoGzip(String),
    /// The bytes are cut off or damaged. Holds the cause, as text.
    Damaged(String),
    /// The message is longer than allowed.
    TooLong,
}

/// Decompresses `bytes`, which may be several gzip members. Whatever the bytes are, this needs
/// memory only for twice `bytes_max` and a small window.
///
/// # Errors
/// The bytes are not gzip, or the message is longer than `bytes_max`.
pub fn decompressed(bytes: &[u8], bytes_max: usize) -> Result<Vec<u8>, NoMessage> {
    if bytes.is_empty() {
        return Err(NoMessage::NoGzip("EOF".to_string()));
    }
    let mut decoder = MultiGzDecoder::new(bytes);
    let mut message = Vec::new();
    let limit = bytes_max as u64 + 1;
    if let Err(error) = decoder.by_ref().take(limit).read_to_end(&mut message) {
        let why = match error.kind() {
            ErrorKind::UnexpectedEof => "unexpected EOF".to_string(),
            _ => error.to_string(),
        };
        let has_begun = !message.is_empty() || decoder.header().is_some();
        return Err(if has_begun { NoMessage::Damaged(why) } else { NoMessage::NoGzip(why) });
    }
    if message.len() > bytes_max { Err(NoMessage::TooLong) } else { Ok(message) }
}
