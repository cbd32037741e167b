//! A message on its way to a client: whole, or made in pieces as the client takes them. So a large
//! answer to a slow client costs the memory of a few pieces.

use bytes::Bytes;

use super::assembly::{PREFIX_BYTES, prefix};
use super::status::{End, Status};

/// Bytes of the first buffer for a piece. A piece that needs more grows.
const PIECE_BYTES: usize = 64 * 1024;

/// Appends the next piece of a message: at least one byte, and no more work than a task may do
/// without a pause.
pub type Encode = Box<dyn FnMut(&mut Vec<u8>) + Send>;

/// One message, with its prefix.
pub struct Outgoing {
    /// Bytes that were made, and not handed to the library.
    pub(super) made: Bytes,
    pub(super) rest: Option<Rest>,
}

/// What is left of a message that is made in pieces.
pub(super) struct Rest {
    /// The prefix, until the first piece.
    prefix: Option<[u8; PREFIX_BYTES]>,
    bytes_left: usize,
    encode: Encode,
}

impl From<Bytes> for Outgoing {
    /// One message, or several, each with its prefix.
    fn from(made: Bytes) -> Outgoing {
        Outgoing { made, rest: None }
    }
}

impl Outgoing {
    /// A message of so many bytes, which `encode` makes.
    ///
    /// # Errors
    /// The message is too long to be sent.
    pub fn in_pieces(bytes: usize, encode: Encode) -> Result<Outgoing, Status> {
        let prefix = Some(prefix(bytes)?);
        let rest = Rest { prefix, bytes_left: bytes, encode };
        Ok(Outgoing { made: Bytes::new(), rest: Some(rest) })
    }

    /// Bytes of the message, and of its prefix.
    pub(super) fn bytes(&self) -> usize {
        self.made.len() + self.rest.as_ref().map_or(0, Rest::bytes)
    }

    /// Makes the next piece, if all that was made is sent.
    ///
    /// # Errors
    /// The pieces do not have the bytes that were announced. The client has a part of the message
    /// and can be told nothing.
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
