//! Encodes and decodes the frames on a connection between two members.
//!
//! Byte layout: `docs/formats.md`, "Frame between members". Every later version has length,
//! checksum and version in the same places, so that a program that is too old or too new can be
//! told from garbage.

use std::io::IoSlice;

use bytes::{Bytes, BytesMut};
use member::peer::PeerFrame;
use thiserror::Error;

use crate::limits::PEER_READ_BYTES;

/// Version of the layout of frames. The handshake has its own versions, and hellos agree on the
/// version of messages.
pub const PEER_VERSION: u8 = 1;

/// Bytes of a frame before its body.
pub const FRAME_HEAD_BYTES: usize = 16;

/// Offset in the head of the first byte that the checksum covers.
const COVERED_FROM: usize = 8;

/// The group of the log. There is only one.
const GROUP: u32 = 0;

/// Why bytes are no frame. The connection is closed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// The length is over the limit. Before the handshake, other programs that connect look like
    /// this.
    #[error("a frame of {bytes} bytes, over the limit of {bytes_max}: no member sends that")]
    TooLong {
        /// The length stated in the head.
        bytes: u32,
        /// The limit in force.
        bytes_max: usize,
    },
    /// The bytes were damaged on the way, or do not come from this program.
    #[error("the checksum of a frame does not match")]
    Checksum,
    /// The other side runs a version of this program that is too different from this one.
    #[error("it speaks version {0} of the protocol between members, this one {PEER_VERSION}")]
    Version(u8),
    /// The frame is for a group that does not exist.
    #[error("a frame for group {0}")]
    Group(u32),
    /// Bytes are set that have no meaning yet.
    #[error("reserved bytes of a frame are not zero")]
    Reserved,
}

/// Encodes the head of a frame.
fn encode_head(frame: &PeerFrame) -> [u8; FRAME_HEAD_BYTES] {
    let bytes = u32::try_from(frame.body.len()).expect("bodies are bounded far below 2^32");
    let mut head = [0; FRAME_HEAD_BYTES];
    head[..4].copy_from_slice(&bytes.to_le_bytes());
    head[8] = PEER_VERSION;
    head[9] = frame.kind;
    head[12..].copy_from_slice(&GROUP.to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&head[COVERED_FROM..]), &frame.body);
    head[4..8].copy_from_slice(&crc.to_le_bytes());
    head
}

/// Frames that are written together. Their bodies are not copied.
pub struct FrameBatch {
    heads: Vec<[u8; FRAME_HEAD_BYTES]>,
    frames: Vec<PeerFrame>,
}

impl FrameBatch {
    /// A batch of these frames, in order.
    pub fn new(frames: Vec<PeerFrame>) -> FrameBatch {
        FrameBatch { heads: frames.iter().map(encode_head).collect(), frames }
    }

    /// The bytes of the batch after the first `written`, in order, as slices that are not empty.
    pub fn slices(&self, mut written: usize) -> Vec<IoSlice<'_>> {
        let pairs = self.heads.iter().zip(&self.frames);
        let slices = pairs.flat_map(|(head, frame)| [&head[..], &frame.body[..]]);
        let rest = slices.map(|slice| {
            let rest = slice.get(written..).unwrap_or(&[]);
            written -= slice.len() - rest.len();
            rest
        });
        rest.filter(|slice| !slice.is_empty()).map(IoSlice::new).collect()
    }

    /// The whole batch in one piece.
    #[cfg(test)]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.slices(0).iter().flat_map(|slice| slice.iter().copied()).collect()
    }
}

/// Cuts the bytes from a socket into frames. Memory grows with the bytes that arrived, not with the
/// length that a head claims.
pub struct FrameReader {
    buffer: BytesMut,
    body_bytes_max: usize,
}

impl FrameReader {
    /// A reader of frames with bodies of at most `body_bytes_max` bytes.
    pub fn new(body_bytes_max: usize) -> FrameReader {
        FrameReader { buffer: BytesMut::new(), body_bytes_max }
    }

    /// Changes the largest size of a body, in bytes.
    pub fn set_body_bytes_max(&mut self, body_bytes_max: usize) {
        self.body_bytes_max = body_bytes_max;
    }

    /// The buffer to read the next bytes into. It has space for at least half of
    /// [`PEER_READ_BYTES`], and it grows with an incomplete frame in it.
    pub fn room(&mut self) -> &mut BytesMut {
        if self.buffer.capacity() - self.buffer.len() < PEER_READ_BYTES / 2 {
            self.buffer.reserve(self.buffer.len().max(PEER_READ_BYTES));
        }
        &mut self.buffer
    }

    /// The next frame; `None` if it is not complete yet.
    ///
    /// # Errors
    /// The bytes are no frame; the connection must be closed.
    pub fn next(&mut self) -> Result<Option<PeerFrame>, FrameError> {
        let Some(head) = self.buffer.first_chunk::<FRAME_HEAD_BYTES>() else { return Ok(None) };
        let [l0, l1, l2, l3, c0, c1, c2, c3, version, kind, z0, z1, g0, g1, g2, g3] = *head;
        let bytes = u32::from_le_bytes([l0, l1, l2, l3]);
        if bytes as usize > self.body_bytes_max {
            return Err(FrameError::TooLong { bytes, bytes_max: self.body_bytes_max });
        }
        let end = FRAME_HEAD_BYTES.saturating_add(bytes as usize);
        let Some(covered) = self.buffer.get(COVERED_FROM..end) else { return Ok(None) };
        if crc32c::crc32c(covered) != u32::from_le_bytes([c0, c1, c2, c3]) {
            return Err(FrameError::Checksum);
        }
        if version != PEER_VERSION {
            return Err(FrameError::Version(version));
        }
        if [z0, z1] != [0, 0] {
            return Err(FrameError::Reserved);
        }
        let group = u32::from_le_bytes([g0, g1, g2, g3]);
        if group != GROUP {
            return Err(FrameError::Group(group));
        }
        let frame: Bytes = self.buffer.split_to(end).freeze();
        Ok(Some(PeerFrame { kind, body: frame.slice(FRAME_HEAD_BYTES..) }))
    }
}

#[cfg(test)]
mod tests;
