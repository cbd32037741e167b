//! Replaces odd authorities and paths of requests, which grpc-go serves and the HTTP/2 library
//! refuses: clientv3 and etcdctl 3.5.0 send `:authority: #initially=[127.0.0.1:2379]` with each
//! call. The bytes from the socket pass here before the library gets them. An authority or a path
//! that the library would refuse is replaced by a harmless one of the same length.
//!
//! A *block* is the HPACK-encoded headers of a request (RFC 7541), in a HEADERS frame and the
//! CONTINUATION frames behind it. This module looks only at the first fields of the HEADERS frame,
//! because pseudo headers come first. A field that reaches into a CONTINUATION frame stays as it
//! is. The boundaries of fields do not depend on HPACK's dynamic table, and a replaced field has
//! the same size in that table, so both ends evict the same fields.
//!
//! The library decodes each frame of a block when the frame comes, and keeps the fields in memory
//! until the block ends. Clients that do not end their blocks could fill the memory. So this module
//! holds a block back until the block is complete. A block that is too long to be held back passes
//! in parts. While the library has only some of these parts, [`LenientHeads::is_long_open`] is
//! true, and the socket limits how many connections are in this state, and for how long.

use hyper::http::uri::{Authority, PathAndQuery};

use super::keep_alive::{HEAD_BYTES, PREFACE_BYTES};

mod huffman;

/// Kinds of frames with headers, and their flags (RFC 9113, 6.2, 6.10).
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;

/// How many fields of a block are looked at. A request has four pseudo headers, an extended CONNECT
/// has five.
const FIELDS_MAX: usize = 6;

/// The longest block that is held back until it is complete, in bytes with the heads of its frames.
/// One frame that every peer may send fits (`SETTINGS_MAX_FRAME_SIZE` is at least 16,384), and
/// clients send no longer ones. Longer blocks pass in parts.
const BLOCK_BYTES_MAX: usize = HEAD_BYTES + 16_384;

/// The bytes of one connection on their way from the socket to the library.
#[derive(Debug)]
pub(super) struct LenientHeads {
    /// Bytes that pass unread, until the next frame begins.
    skip: usize,
    /// The beginning of an incomplete block, held back: at most [`BLOCK_BYTES_MAX`].
    held: Vec<u8>,
    /// Whether the library has a part of a long block.
    is_long_open: bool,
    ends_long: bool,
    /// Bytes of blocks that have passed since [`LenientHeads::take_block_bytes`].
    block_bytes: usize,
    /// Bytes for the library that come before any further bytes from the socket.
    ready: Vec<u8>,
}

impl LenientHeads {
    pub fn new() -> LenientHeads {
        LenientHeads {
            skip: PREFACE_BYTES,
            held: Vec::new(),
            is_long_open: false,
            ends_long: false,
            block_bytes: 0,
            ready: Vec::new(),
        }
    }

    /// Whether the library has the beginning of a long block, and not its end.
    pub fn is_long_open(&self) -> bool {
        self.is_long_open
    }

    /// The bytes of blocks that have passed since the last call.
    pub fn take_block_bytes(&mut self) -> usize {
        core::mem::take(&mut self.block_bytes)
    }

    /// Takes bytes from the socket. Returns how many bytes at their front the library gets
    /// unchanged. The bytes behind those are in [`LenientHeads::take_ready`], or held back until
    /// their block is complete.
    pub fn pass(&mut self, bytes: &[u8]) -> usize {
        if self.held.is_empty() {
            return self.walk(bytes);
        }
        let mut all = core::mem::take(&mut self.held);
        all.extend_from_slice(bytes);
        let kept = self.walk(&all);
        self.ready.splice(0..0, all.drain(..kept));
        0
    }

    /// Whether [`LenientHeads::take_ready`] has bytes.
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Takes at most `count` bytes that the library must get next.
    pub fn take_ready(&mut self, count: usize) -> Vec<u8> {
        let left = self.ready.split_off(self.ready.len().min(count));
        core::mem::replace(&mut self.ready, left)
    }

    /// The socket has ended: releases the bytes that were held back.
    pub fn end(&mut self) {
        self.ready.append(&mut self.held);
    }

    fn walk(&mut self, bytes: &[u8]) -> usize {
        let (mut at, mut changed_at) = (0, None);
        while at < bytes.len() {
            let rest = &bytes[at..];
            let count = self.skip.min(rest.len());
            let count = if count > 0 { count } else { self.passing(rest) };
            let first = frame_at(rest).map_or(0, |frame| frame.bytes.min(count));
            if self.skip > 0 {
                self.skip -= count;
                if self.skip == 0 && core::mem::take(&mut self.ends_long) {
                    self.is_long_open = false;
                }
            } else if count == 0 {
                self.held.extend_from_slice(rest);
                break;
            } else if rest.len() < count {
                self.skip = count - rest.len();
            } else if let Some(frame) = changed(&rest[..first]) {
                changed_at.get_or_insert(at);
                self.ready.extend_from_slice(&frame);
                self.ready.extend_from_slice(&rest[first..count]);
                at += count;
                continue;
            }
            let count = count.min(rest.len());
            if changed_at.is_some() {
                self.ready.extend_from_slice(&rest[..count]);
            }
            at += count;
        }
        changed_at.unwrap_or(at)
    }

    /// How many bytes may pass, from the frame or block that begins here; 0 if they must be held
    /// back.
    fn passing(&mut self, bytes: &[u8]) -> usize {
        let Some(first) = frame_at(bytes) else { return 0 };
        if self.is_long_open || first.kind != HEADERS {
            let is_whole = bytes.len() >= first.bytes;
            let goes_on = first.kind == CONTINUATION;
            self.is_long_open &= goes_on && !(first.ends_block && is_whole);
            self.ends_long = self.is_long_open && first.ends_block;
            self.block_bytes += if goes_on { first.bytes } else { 0 };
            return first.bytes;
        }
        let mut count = 0;
        while let Some(next) = frame_at(&bytes[count..]) {
            // The library refuses a frame of another kind inside a block.
            let is_first = count == 0;
            let goes_on = is_first || next.kind == CONTINUATION;
            let is_long = count + next.bytes > BLOCK_BYTES_MAX;
            if goes_on && !is_long && bytes.len() < count + next.bytes {
                return 0;
            }
            let passes = is_first || (goes_on && !is_long);
            count += if passes { next.bytes } else { 0 };
            if !goes_on || is_long || next.ends_block {
                let is_whole = bytes.len() >= count;
                self.is_long_open = goes_on && is_long && !(passes && next.ends_block && is_whole);
                self.ends_long = self.is_long_open && passes && next.ends_block;
                self.block_bytes += count;
                return count;
            }
        }
        0
    }
}

/// The head of a frame.
struct FrameHead {
    /// Bytes of the frame, including its head.
    bytes: usize,
    kind: u8,
    ends_block: bool,
}

/// The head of the frame that begins here; `None` if the head is incomplete.
fn frame_at(bytes: &[u8]) -> Option<FrameHead> {
    let [high, middle, low, kind, flags, ..] = *bytes.first_chunk::<HEAD_BYTES>()?;
    let bytes = HEAD_BYTES + u32::from_be_bytes([0, high, middle, low]) as usize;
    Some(FrameHead { bytes, kind, ends_block: flags & END_HEADERS > 0 })
}

/// The frame with its odd authority or path replaced; `None` if nothing must be replaced.
fn changed(frame: &[u8]) -> Option<Vec<u8>> {
    let (head, payload) = frame.split_first_chunk::<HEAD_BYTES>()?;
    let [.., kind, flags, _, _, _, _] = *head;
    if kind != HEADERS {
        return None;
    }
    let padded = if flags & PADDED > 0 { 1 } else { 0 };
    let priority = if flags & PRIORITY > 0 { 5 } else { 0 };
    let (before, block) = payload.split_at_checked(padded + priority)?;
    let mut out = Vec::new();
    let (mut taken, mut rest) = (0, block);
    for _ in 0..FIELDS_MAX {
        let (name, value) = match next_field(&mut rest) {
            Some(Field::Literal(name, value)) => (name, value),
            Some(Field::Other) => continue,
            None => break,
        };
        if let Some(other) = name.other_for(value) {
            let (value_at, behind) = (block.len() - rest.len() - value.bytes, rest.len());
            out.extend_from_slice(&block[taken..value_at]);
            put_string(&other, &mut out);
            taken = block.len() - behind;
        }
    }
    if taken == 0 {
        return None;
    }
    out.extend_from_slice(&block[taken..]);
    let count = u32::try_from(before.len() + out.len()).ok()?;
    let [_, high, middle, low] = count.to_be_bytes();
    let frame = [&[high, middle, low], &head[3..], before, &out].concat();
    (frame.len() <= BLOCK_BYTES_MAX).then_some(frame)
}

/// A field of a block.
enum Field<'b> {
    /// An authority or a path with its value.
    Literal(Name, Text<'b>),
    /// Any other field, or a change of the dynamic table's size.
    Other,
}

#[derive(Clone, Copy)]
enum Name {
    Authority,
    Path,
}

impl Name {
    /// A value of the same length that the library accepts; `None` if it accepts this one.
    fn other_for(self, value: Text<'_>) -> Option<Vec<u8>> {
        let text = value.decode()?;
        let (is_good, first) = match self {
            Name::Authority => (Authority::try_from(&text[..]).is_ok(), b'x'),
            Name::Path => {
                let begins = text.first() == Some(&b'/');
                (begins && PathAndQuery::try_from(&text[..]).is_ok(), b'/')
            }
        };
        let mut other = vec![b'x'; text.len()];
        *other.first_mut()? = first;
        (!is_good).then_some(other)
    }
}

/// A string literal in its encoded form (RFC 7541, 5.2).
#[derive(Clone, Copy)]
struct Text<'b> {
    is_huffman: bool,
    text: &'b [u8],
    /// Bytes of the whole literal, with the length in front of `text`.
    bytes: usize,
}

impl Text<'_> {
    fn decode(self) -> Option<Vec<u8>> {
        if self.is_huffman { huffman::decode(self.text) } else { Some(self.text.to_vec()) }
    }
}

/// Reads a field (RFC 7541, 6). `None` at the end of the block, or if the block is malformed: the
/// library will report that.
fn next_field<'b>(block: &mut &'b [u8]) -> Option<Field<'b>> {
    let prefix_bits = match *block.first()? {
        0x80.. => {
            take_number(block, 7)?;
            return Some(Field::Other);
        }
        0x20..0x40 => {
            take_number(block, 5)?;
            return Some(Field::Other);
        }
        0x40.. => 6,
        _ => 4,
    };
    let name = match take_number(block, prefix_bits)? {
        0 => take_text(block)?.decode().and_then(|name| match &name[..] {
            b":authority" => Some(Name::Authority),
            b":path" => Some(Name::Path),
            _ => None,
        }),
        // Indexes of HPACK's static table (RFC 7541, appendix A).
        1 => Some(Name::Authority),
        4 | 5 => Some(Name::Path),
        _ => None,
    };
    let value = take_text(block)?;
    Some(name.map_or(Field::Other, |name| Field::Literal(name, value)))
}

fn take_text<'b>(block: &mut &'b [u8]) -> Option<Text<'b>> {
    let (is_huffman, before) = (*block.first()? >= 0x80, block.len());
    let count = take_number(block, 7)?;
    let (text, rest) = block.split_at_checked(count)?;
    *block = rest;
    Some(Text { is_huffman, text, bytes: before - rest.len() })
}

/// Takes an integer whose first byte has `prefix_bits` of it (RFC 7541, 5.1). `None` if it is
/// larger than a block.
fn take_number(block: &mut &[u8], prefix_bits: u32) -> Option<usize> {
    let full = (1_usize << prefix_bits) - 1;
    let mut number = usize::from(take_byte(block)?) & full;
    if number < full {
        return Some(number);
    }
    for shift in [0, 7, 14] {
        let byte = usize::from(take_byte(block)?);
        number += (byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

fn take_byte(block: &mut &[u8]) -> Option<u8> {
    let (byte, rest) = block.split_first()?;
    *block = rest;
    Some(*byte)
}

/// Appends a string literal without Huffman coding.
fn put_string(text: &[u8], out: &mut Vec<u8>) {
    const FULL: usize = 0x7f;
    if text.len() < FULL {
        out.push(text.len() as u8);
    } else {
        out.push(FULL as u8);
        let mut left = text.len() - FULL;
        while left >= 0x80 {
            out.push((left & 0x7f) as u8 | 0x80);
            left >>= 7;
        }
        out.push(left as u8);
    }
    out.extend_from_slice(text);
}

#[cfg(test)]
mod tests;
