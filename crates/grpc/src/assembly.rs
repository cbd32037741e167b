//! Assembles messages from the frames of a stream, and puts gRPC's prefix (five bytes: a flag and
//! the length) in front of messages to send. A message may span several frames, and a frame several
//! messages. But most small messages come in one frame; they are then slices of the frame, without
//! a copy.

use bytes::{Bytes, BytesMut};
use grpc_code::Code;

use super::limits::SENT_BYTES_MAX;
use super::status::Status;

/// Bytes of the prefix of each message: a flag (compressed or not), and the length, big-endian.
pub const PREFIX_BYTES: usize = 5;

/// The most memory for a partly arrived message, as a multiple of the bytes that have arrived. It
/// is small enough that announcing a message takes no memory, and large enough that each byte is
/// copied only once or twice.
const BUFFER_TIMES: usize = 4;

/// The part of a stream's next message that has arrived.
#[derive(Debug)]
pub(super) struct Assembly {
    /// What is left of the frame that was pushed last: bytes that no message has taken yet.
    frame: Bytes,
    /// The first bytes of a prefix that is spread over several frames.
    prefix: BytesMut,
    /// The length of the next message; `None` until its prefix is complete.
    length: Option<usize>,
    /// Whether messages of this stream may be compressed.
    takes_compressed: bool,
    is_compressed: bool,
    /// The bytes so far of a message that is spread over several frames.
    message: Vec<u8>,
    /// The most bytes of a message.
    bytes_max: usize,
}

impl Assembly {
    pub(super) fn new(bytes_max: usize, takes_compressed: bool) -> Assembly {
        let (frame, prefix, message) = (Bytes::new(), BytesMut::new(), Vec::new());
        let (length, is_compressed) = (None, false);
        Assembly { frame, prefix, length, takes_compressed, is_compressed, message, bytes_max }
    }

    /// Adds the next frame.
    ///
    /// # Panics
    /// The frame before is not used up.
    pub(super) fn push(&mut self, frame: Bytes) {
        assert!(self.frame.is_empty(), "a frame is used up before the next");
        self.frame = frame;
    }

    /// Whether no byte of the next message has arrived.
    pub(super) fn is_between(&self) -> bool {
        self.frame.is_empty() && self.prefix.is_empty() && self.length.is_none()
    }

    /// Whether the next message has arrived in part, its whole prefix included.
    pub(super) fn is_within(&self) -> bool {
        self.length.is_some()
    }

    /// The length of the next message; `None` until its prefix has arrived.
    ///
    /// # Errors
    /// The message is too long, or compressed without being allowed to; the texts are grpc-go's
    /// (`parser.recvMsg`, `checkRecvPayload`).
    pub(super) fn length(&mut self) -> Result<Option<usize>, Status> {
        if self.length.is_some() {
            return Ok(self.length);
        }
        let prefix = if self.prefix.is_empty() && self.frame.len() >= PREFIX_BYTES {
            self.frame.split_to(PREFIX_BYTES)
        } else {
            let missing = PREFIX_BYTES - self.prefix.len();
            let piece = self.frame.split_to(missing.min(self.frame.len()));
            self.prefix.extend_from_slice(&piece);
            if self.prefix.len() < PREFIX_BYTES {
                return Ok(None);
            }
            self.prefix.split().freeze()
        };
        let [flag, length @ ..] = &prefix[..] else { return Ok(None) };
        let Ok(length) = <[u8; 4]>::try_from(length) else { return Ok(None) };
        let (bytes, bytes_max) = (u32::from_be_bytes(length) as usize, self.bytes_max);
        if bytes > bytes_max {
            let text = format!("grpc: received message larger than max ({bytes} vs. {bytes_max})");
            return Err(Status::new(Code::ResourceExhausted, text));
        }
        match flag {
            0 => self.is_compressed = false,
            1 if self.takes_compressed => self.is_compressed = true,
            1 => {
                let text = "grpc: compressed flag set with identity or empty encoding";
                return Err(Status::new(Code::Internal, text));
            }
            other => {
                let text = format!("grpc: received unexpected payload format {other}");
                return Err(Status::new(Code::Internal, text));
            }
        }
        self.length = Some(bytes);
        Ok(self.length)
    }

    /// Whether the message whose prefix was read last is compressed: the next message or, right
    /// after [`Assembly::take`] has returned one, that message.
    pub(super) fn is_compressed(&self) -> bool {
        self.is_compressed
    }

    /// Bytes of memory that the next message needs now: for what has arrived, and, once it is
    /// complete and compressed, for the decompressed message.
    pub(super) fn memory_bytes(&self) -> usize {
        let arrived = self.message.len().saturating_add(self.frame.len());
        let is_whole = self.length.is_some_and(|length| arrived >= length);
        let decompressed = if self.is_compressed && is_whole { self.bytes_max } else { 0 };
        self.assembled_bytes(arrived).saturating_add(decompressed)
    }

    /// Bytes of memory that [`Assembly::take`] needs for the next message.
    fn assembled_bytes(&self, arrived: usize) -> usize {
        match self.length {
            Some(length) if arrived > self.message.capacity() => {
                length.min(arrived.saturating_mul(BUFFER_TIMES))
            }
            Some(length) => length.min(self.message.capacity()),
            None => 0,
        }
    }

    /// Takes the next message, if all of it has arrived.
    pub(super) fn take(&mut self) -> Option<Bytes> {
        let length = self.length?;
        if self.message.is_empty() && self.frame.len() >= length {
            self.length = None;
            return Some(self.frame.split_to(length));
        }
        let arrived = self.message.len().saturating_add(self.frame.len());
        let capacity = self.assembled_bytes(arrived);
        self.message.reserve_exact(capacity.saturating_sub(self.message.len()));
        let missing = length - self.message.len();
        let piece = self.frame.split_to(missing.min(self.frame.len()));
        self.message.extend_from_slice(&piece);
        if self.message.len() < length {
            return None;
        }
        self.length = None;
        Some(std::mem::take(&mut self.message).into())
    }
}

/// A message with its prefix. `encode` appends the message without prefix to a buffer.
///
/// # Errors
/// The message is too long to be sent.
pub fn framed(encode: impl FnOnce(&mut Vec<u8>)) -> Result<Bytes, Status> {
    framed_of(0, encode)
}

/// Like [`framed`], with a buffer of `bytes` to begin with.
///
/// # Errors
/// The message is too long to be sent.
pub fn framed_of(bytes: usize, encode: impl FnOnce(&mut Vec<u8>)) -> Result<Bytes, Status> {
    let mut out = Vec::with_capacity(PREFIX_BYTES + bytes);
    frame(&mut out, encode)?;
    Ok(out.into())
}

/// Appends a message with its prefix to `out`.
///
/// # Errors
/// The message is too long to be sent; nothing is appended.
pub fn frame(out: &mut Vec<u8>, encode: impl FnOnce(&mut Vec<u8>)) -> Result<(), Status> {
    let start = out.len();
    out.extend([0; PREFIX_BYTES]);
    let behind_prefix = out.len();
    encode(out);
    match prefix(out.len() - behind_prefix) {
        Ok(prefix) => {
            out[start..behind_prefix].copy_from_slice(&prefix);
            Ok(())
        }
        Err(too_long) => {
            out.truncate(start);
            Err(too_long)
        }
    }
}

/// The prefix of an uncompressed message of this length.
///
/// # Errors
/// The message is too long to be sent; the text is grpc-go's (`Server.sendResponse`).
pub(super) fn prefix(bytes: usize) -> Result<[u8; PREFIX_BYTES], Status> {
    if bytes > SENT_BYTES_MAX {
        let text =
            format!("grpc: trying to send message larger than max ({bytes} vs. {SENT_BYTES_MAX})");
        return Err(Status::new(Code::ResourceExhausted, text));
    }
    let [.., a, b, c, d] = (bytes as u64).to_be_bytes();
    Ok([0, a, b, c, d])
}

/// Checks that a message of this length may be sent.
///
/// # Errors
/// The message is too long.
pub fn check_sent(bytes: usize) -> Result<(), Status> {
    prefix(bytes).map(drop)
}

#[cfg(test)]
mod tests;
