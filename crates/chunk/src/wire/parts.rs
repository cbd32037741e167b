//! Counts how many values a request would become, before it is decoded.
//!
//! An empty chunk takes two bytes of a message, and up to [`crate::limits::REQUEST_PART_BYTES`] of
//! memory: a message within the limit on its length could take gigabytes. So this module first
//! counts the *parts* of a message: its repeated values, and every message that may hold such
//! values. The count costs a walk over the message's tags.

use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use super::command::RequestError;
use crate::limits::REQUEST_PARTS_MAX;

/// The types of messages that have repeated fields, or hold such messages.
#[derive(Clone, Copy)]
enum Message {
    Request,
    /// CreateContainer or UpdateContainer: only their metadata count.
    Metadata,
    PutBlock,
    WriteChunk,
    ReadChunk,
    PutSmallFile,
    BlockData,
    ChunkInfo,
    ChecksumData,
    /// A pair of metadata, or a checksum.
    Leaf,
}

impl Message {
    /// The type of the message in field `number`; `None` if it need not be searched. The numbers
    /// are those of `proto/datanode.proto`.
    fn field(self, number: u32) -> Option<Message> {
        Some(match (self, number) {
            (Message::Request, 6 | 8) => Message::Metadata,
            (Message::Request, 12) => Message::PutBlock,
            (Message::Request, 16) => Message::ReadChunk,
            (Message::Request, 17) => Message::WriteChunk,
            (Message::Request, 20) => Message::PutSmallFile,
            (Message::WriteChunk, 4) | (Message::PutSmallFile, 1) => Message::PutBlock,
            (Message::WriteChunk | Message::ReadChunk | Message::PutSmallFile, 2) => {
                Message::ChunkInfo
            }
            (Message::PutBlock, 1) => Message::BlockData,
            (Message::BlockData, 4) => Message::ChunkInfo,
            (Message::ChunkInfo, 5) => Message::ChecksumData,
            (Message::Metadata, 2)
            | (Message::BlockData, 3)
            | (Message::ChunkInfo, 4)
            | (Message::ChecksumData, 3) => Message::Leaf,
            _ => return None,
        })
    }
}

/// Number of parts in a request; an error above [`REQUEST_PARTS_MAX`].
pub(super) fn count(request: &[u8]) -> Result<usize, RequestError> {
    let mut parts = 0;
    count_below(request, Message::Request, &mut parts)?;
    Ok(parts)
}

/// Adds the parts of a message. The recursion is as deep as messages are nested: five levels.
fn count_below(mut bytes: &[u8], message: Message, parts: &mut usize) -> Result<(), RequestError> {
    while !bytes.is_empty() {
        let (number, wire_type) = decode_key(&mut bytes)?;
        let child = message.field(number).filter(|_| wire_type == WireType::LengthDelimited);
        let Some(child) = child else {
            skip_field(wire_type, number, &mut bytes, DecodeContext::default())?;
            continue;
        };
        let length = usize::try_from(decode_varint(&mut bytes)?).unwrap_or(usize::MAX);
        let Some((inside, rest)) = bytes.split_at_checked(length) else {
            return Err(RequestError::CutOff);
        };
        *parts = parts.saturating_add(1);
        if *parts > REQUEST_PARTS_MAX {
            return Err(RequestError::TooManyParts { parts_max: REQUEST_PARTS_MAX });
        }
        if !matches!(child, Message::Leaf) {
            count_below(inside, child, parts)?;
        }
        bytes = rest;
    }
    Ok(())
}
