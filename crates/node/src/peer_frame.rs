//! Frames on a connection between two members, to bytes and back.
//!
//! Byte layout: `docs/formats.md`, "Frame between members". Length, checksum and version stand
//! where every later version has them, so that one that is too old or too new is told apart from
//! garbage.

use std::io::IoSlice;

use bytes::{Bytes, BytesMut};
use member::peer::PeerFrame;
use thiserror::Error;

use crate::limits::PEER_READ_BYTES;

/// Version of the frames and of the handshake. That of the messages is agreed on by the hellos.
pub const PEER_VERSION: u8 = 1;

/// Bytes before the body.
pub const FRAME_HEAD_BYTES: usize = 16;

/// Where the bytes begin that the checksum covers.
const COVERED_FROM: usize = 8;

/// The group of the only log there is.
const GROUP: u32 = 0;

/// Why bytes are no frame. The connection that they came on is closed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// Before the handshake this is how anything else that connects looks like.
    #[error(
        "a frame of {bytes} bytes, of which there are {bytes_max} at most: no member sends that"
    )]
    TooLong {
        /// As its head says.
        bytes: u32,
        /// The limit.
        bytes_max: usize,
    },
    /// What came is not what was sent, or nothing of ours.
    #[error("the checksum of a frame does not match")]
    Checksum,
    /// Another version of this program, too far from this one.
    #[error("it speaks version {0} of the protocol between members, this one {PEER_VERSION}")]
    Version(u8),
    /// A log that is not there.
    #[error("a frame for group {0}")]
    Group(u32),
    /// Bytes that have no meaning yet.
    #[error("reserved bytes of a frame are not zero")]
    Reserved,
}

/// The head of a frame.
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

/// Frames that are written together; their bodies are not copied.
pub struct FrameBatch {
    heads: Vec<[u8; FRAME_HEAD_BYTES]>,
    frames: Vec<PeerFrame>,
}

impl FrameBatch {
    /// Of these, in order.
    pub fn new(frames: Vec<PeerFrame>) -> FrameBatch {
        FrameBatch { heads: frames.iter().map(encode_head).collect(), frames }
    }

    /// What is to be written behind so many bytes, in order. None is empty.
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

    /// The same in one piece.
    #[cfg(test)]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.slices(0).iter().flat_map(|slice| slice.iter().copied()).collect()
    }
}

/// Cuts what a socket gives into frames. Memory follows what is there, not what a head claims.
pub struct FrameReader {
    buffer: BytesMut,
    body_bytes_max: usize,
}

impl FrameReader {
    /// Of frames of at most so many bytes.
    pub fn new(body_bytes_max: usize) -> FrameReader {
        FrameReader { buffer: BytesMut::new(), body_bytes_max }
    }

    /// From now on frames may have so many bytes.
    pub fn set_body_bytes_max(&mut self, body_bytes_max: usize) {
        self.body_bytes_max = body_bytes_max;
    }

    /// Where the next bytes go: at least [`PEER_READ_BYTES`], and as many again as there are of a
    /// frame that is not complete.
    pub fn room(&mut self) -> &mut BytesMut {
        if self.buffer.capacity() - self.buffer.len() < PEER_READ_BYTES / 2 {
            self.buffer.reserve(self.buffer.len().max(PEER_READ_BYTES));
        }
        &mut self.buffer
    }

    /// The next frame, if it is complete.
    ///
    /// # Errors
    /// What is there is none.
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
