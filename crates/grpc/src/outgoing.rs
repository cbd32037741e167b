//! Holds a message on its way to a client. The message is complete, or it is made in pieces as the
//! client takes them, so that a large answer to a slow client costs the memory of a few pieces
//! only.

use bytes::Bytes;

use super::assembly::{PREFIX_BYTES, prefix};
use super::status::{End, Status};

/// Capacity of the first buffer for a piece, in bytes. A longer piece makes the buffer grow.
const PIECE_BYTES: usize = 64 * 1024;

/// Appends the next piece of a message to the buffer: at least one byte, and no more than a task
/// may make without a pause.
pub type Encode = Box<dyn FnMut(&mut Vec<u8>) + Send>;

/// One message with its prefix.
pub struct Outgoing {
    /// Bytes that are made, and that the library does not have yet.
    pub(super) made: Bytes,
    pub(super) rest: Option<Rest>,
}

/// The pieces of a message that are not made yet.
pub(super) struct Rest {
    /// The prefix; `None` once the first piece is made.
    prefix: Option<[u8; PREFIX_BYTES]>,
    bytes_left: usize,
    encode: Encode,
}

impl From<Bytes> for Outgoing {
    /// A complete message with its prefix, or several.
    fn from(made: Bytes) -> Outgoing {
        Outgoing { made, rest: None }
    }
}

impl Outgoing {
    /// A message of `bytes` without its prefix, made in pieces by `encode`.
    ///
    /// # Errors
    /// The message is too long to be sent.
    pub fn in_pieces(bytes: usize, encode: Encode) -> Result<Outgoing, Status> {
        let prefix = Some(prefix(bytes)?);
        let rest = Rest { prefix, bytes_left: bytes, encode };
        Ok(Outgoing { made: Bytes::new(), rest: Some(rest) })
    }

    /// Bytes left of the message and its prefix.
    pub(super) fn bytes(&self) -> usize {
        self.made.len() + self.rest.as_ref().map_or(0, Rest::bytes)
    }

    /// Makes the next piece, unless some made bytes are still to be sent.
    ///
    /// # Errors
    /// A piece is empty, or the pieces exceed the announced length. The client already has a part
    /// of the message, so no status can be sent.
    pub(super) fn make_piece(&mut self) -> Result<(), End> {
        let Some(rest) = self.rest.as_mut().filter(|_| self.made.is_empty()) else {
            return Ok(());
        };
        let mut piece = Vec::with_capacity(PIECE_BYTES.min(rest.bytes()));
        piece.extend(rest.prefix.take().into_iter().flatten());
        let start = piece.len();
        if rest.bytes_left > 0 {
            (rest.encode)(&mut piece);
            let made = piece.len() - start;
            if made == 0 || made > rest.bytes_left {
                let left = rest.bytes_left;
                tracing::error!("a piece has {made} bytes where {left} are left of its message");
                return Err(End::Gone);
            }
            rest.bytes_left -= made;
        }
        if rest.bytes_left == 0 {
            self.rest = None;
        }
        self.made = piece.into();
        Ok(())
    }
}

impl Rest {
    fn bytes(&self) -> usize {
        self.bytes_left + self.prefix.map_or(0, |prefix| prefix.len())
    }
}
