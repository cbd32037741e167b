//! Turns an encoded response into JSON in pieces: takes the bytes of the message while the message
//! is being encoded, and appends their JSON. So a large response is never whole in memory.
//!
//! The mapping is that of [`response`](super::response), with two more rules: the fields of a
//! message must come in the order of `proto/`, and a field that is no list must come only once. The
//! messages that this server encodes obey both.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::BadMessage;
use super::response::{DEPTH_MAX, Value, is_left_out, write_text, write_value};
use super::schema::{Field, Kind, Message};

/// The most bytes of a number on the wire.
const VARINT_BYTES_MAX: usize = 10;

/// The most bytes of a string. A string is kept until it is complete; a longer one is an error.
const TEXT_BYTES_MAX: usize = 1024 * 1024;

/// Turns one encoded message into JSON, piece by piece.
#[derive(Debug)]
pub struct Transcoder {
    /// The messages that have begun and not ended, the innermost last.
    open: Vec<Open>,
    state: State,
    /// Bytes of an unfinished number or string, or up to two bytes that base64 has not encoded yet.
    kept: Vec<u8>,
}

/// A message that has begun and not ended.
#[derive(Debug)]
struct Open {
    message: &'static Message,
    /// How many bytes of the message are still to come. `None` for the outermost message, which
    /// ends with [`Transcoder::finish`].
    left: Option<u64>,
    /// Index of the last field that was written; `None` before the first.
    last: Option<usize>,
}

/// The kind of the next bytes.
#[derive(Debug)]
enum State {
    /// The tag of a field: its number and wire type.
    Tag,
    /// The value of this field, a number.
    Number(&'static Field),
    /// The length of this field's value: a string, bytes or a message.
    Length(&'static Field),
    /// This many more bytes of a value of type bytes.
    Bytes(u64),
    /// This many more bytes of a string.
    Text(u64),
}

impl Transcoder {
    /// A transcoder for a message of this type.
    pub(super) fn new(message: &'static Message) -> Transcoder {
        let outermost = Open { message, left: None, last: None };
        Transcoder { open: vec![outermost], state: State::Tag, kept: Vec::new() }
    }

    /// Takes the next bytes of the message, and appends their JSON to `out`.
    ///
    /// # Errors
    /// The bytes do not decode as the message, or its fields are out of order.
    pub fn push(&mut self, mut bytes: &[u8], out: &mut String) -> Result<(), BadMessage> {
        while !bytes.is_empty() {
            match self.state {
                State::Bytes(left) => self.take_bytes(left, &mut bytes, out),
                State::Text(left) => self.take_text(left, &mut bytes, out)?,
                State::Tag | State::Number(_) | State::Length(_) => {
                    let Some(number) = self.take_varint(&mut bytes)? else { return Ok(()) };
                    self.take_number(number, out)?;
                }
            }
            self.close_ended(out)?;
        }
        Ok(())
    }

    /// Ends the message, and appends the rest of the JSON.
    ///
    /// # Errors
    /// Bytes of the message are missing.
    pub fn finish(mut self, out: &mut String) -> Result<(), BadMessage> {
        let is_whole = matches!(self.state, State::Tag) && self.kept.is_empty();
        match self.open.pop() {
            Some(outermost) if is_whole && self.open.is_empty() => {
                close(&outermost, out);
                Ok(())
            }
            _ => Err(BadMessage),
        }
    }

    /// Takes bytes of a number. Returns the number once it is complete.
    fn take_varint(&mut self, bytes: &mut &[u8]) -> Result<Option<u64>, BadMessage> {
        while let Some((byte, behind)) = bytes.split_first() {
            *bytes = behind;
            self.count(1)?;
            self.kept.push(*byte);
            if byte & 0x80 == 0 {
                let number = prost::encoding::decode_varint(&mut &self.kept[..]);
                self.kept.clear();
                return number.map(Some).map_err(|_| BadMessage);
            }
            if self.kept.len() >= VARINT_BYTES_MAX {
                return Err(BadMessage);
            }
        }
        Ok(None)
    }

    /// Takes a complete number as what the state expects: a tag, a value or a length.
    fn take_number(&mut self, number: u64, out: &mut String) -> Result<(), BadMessage> {
        match self.state {
            State::Tag => self.take_tag(number),
            State::Number(field) => {
                self.state = State::Tag;
                let value = Value::Number(number);
                if field.repeated || !is_left_out(field, value) {
                    self.begin_value(field, out)?;
                    write_value(field.kind, value, 0, out)?;
                }
                Ok(())
            }
            State::Length(field) => self.take_length(field, number, out),
            State::Bytes(_) | State::Text(_) => Err(BadMessage),
        }
    }

    fn take_tag(&mut self, tag: u64) -> Result<(), BadMessage> {
        let message = self.open.last().ok_or(BadMessage)?.message;
        let known = message.fields.iter().find(|field| u64::from(field.number) == tag >> 3);
        let field = known.ok_or(BadMessage)?;
        self.state = match tag & 7 {
            0 if field.kind.is_number() => State::Number(field),
            2 if !field.kind.is_number() => State::Length(field),
            _ => return Err(BadMessage),
        };
        Ok(())
    }

    /// Begins a string, bytes or a message of this length.
    fn take_length(
        &mut self,
        field: &'static Field,
        len: u64,
        out: &mut String,
    ) -> Result<(), BadMessage> {
        self.state = State::Tag;
        let is_shown = len > 0 || field.repeated || !is_left_out(field, Value::Bytes(&[]));
        if !is_shown {
            return Ok(());
        }
        self.begin_value(field, out)?;
        if let Kind::Message(position) = field.kind {
            // The bytes count for the containing message, too; it goes on behind them.
            self.count(len)?;
            if self.open.len() > DEPTH_MAX {
                return Err(BadMessage);
            }
            self.open.push(Open { message: Message::at(position), left: Some(len), last: None });
            return Ok(());
        }
        self.count(len)?;
        match (field.kind, len) {
            (Kind::Bytes, 0) | (Kind::String, 0) => out.push_str("\"\""),
            (Kind::Bytes, _) => {
                out.push('"');
                self.state = State::Bytes(len);
            }
            (_, 1..=TEXT_MAX) => self.state = State::Text(len),
            _ => return Err(BadMessage),
        }
        Ok(())
    }

    /// Takes the next part of a value of type bytes that has `left` bytes to come.
    fn take_bytes(&mut self, left: u64, bytes: &mut &[u8], out: &mut String) {
        let part = split(bytes, left);
        let left = left - part.len() as u64;
        // base64 makes four characters of three bytes.
        let missing = (3 - self.kept.len()) % 3;
        let (first, rest) = part.split_at(missing.min(part.len()));
        self.kept.extend_from_slice(first);
        if self.kept.len() == 3 {
            BASE64_STANDARD.encode_string(&self.kept, out);
            self.kept.clear();
        }
        let (triples, odd) = rest.split_at(rest.len() - rest.len() % 3);
        BASE64_STANDARD.encode_string(triples, out);
        self.kept.extend_from_slice(odd);
        self.state = State::Bytes(left);
        if left == 0 {
            BASE64_STANDARD.encode_string(&self.kept, out);
            self.kept.clear();
            out.push('"');
            self.state = State::Tag;
        }
    }

    /// Takes the next part of a string that has `left` bytes to come.
    fn take_text(
        &mut self,
        left: u64,
        bytes: &mut &[u8],
        out: &mut String,
    ) -> Result<(), BadMessage> {
        let part = split(bytes, left);
        self.kept.extend_from_slice(part);
        let left = left - part.len() as u64;
        self.state = State::Text(left);
        if left == 0 {
            write_text(core::str::from_utf8(&self.kept).map_err(|_| BadMessage)?, out);
            self.kept.clear();
            self.state = State::Tag;
        }
        Ok(())
    }

    /// Counts bytes as read from the innermost message.
    fn count(&mut self, bytes: u64) -> Result<(), BadMessage> {
        let open = self.open.last_mut().ok_or(BadMessage)?;
        if let Some(left) = &mut open.left {
            *left = left.checked_sub(bytes).ok_or(BadMessage)?;
        }
        Ok(())
    }

    /// Writes the JSON in front of a value of this field: the separator, and the name if the field
    /// begins with this value.
    fn begin_value(&mut self, field: &'static Field, out: &mut String) -> Result<(), BadMessage> {
        let open = self.open.last_mut().ok_or(BadMessage)?;
        let position = open.message.fields.iter().position(|of| core::ptr::eq(of, field));
        let position = position.ok_or(BadMessage)?;
        match open.last {
            Some(last) if last == position && field.repeated => {
                out.push(',');
                return Ok(());
            }
            Some(last) if last >= position => return Err(BadMessage),
            last => {
                close_list(open, out);
                out.push(if last.is_some() { ',' } else { '{' });
            }
        }
        open.last = Some(position);
        write_text(field.name, out);
        out.push(':');
        if field.repeated {
            out.push('[');
        }
        Ok(())
    }

    /// Ends every message that has no bytes to come. A message that ends inside a field is an
    /// error.
    fn close_ended(&mut self, out: &mut String) -> Result<(), BadMessage> {
        while let Some(open) = self.open.last()
            && open.left == Some(0)
            && matches!(self.state, State::Tag)
        {
            if !self.kept.is_empty() {
                return Err(BadMessage);
            }
            close(open, out);
            self.open.pop();
        }
        let is_short = |open: &Open| open.left == Some(0);
        let waits_for_number = matches!(self.state, State::Number(_) | State::Length(_));
        if waits_for_number && self.open.last().is_some_and(is_short) {
            return Err(BadMessage);
        }
        Ok(())
    }
}

const TEXT_MAX: u64 = TEXT_BYTES_MAX as u64;

/// Writes the end of a message.
fn close(open: &Open, out: &mut String) {
    if open.last.is_none() {
        out.push('{');
    }
    close_list(open, out);
    out.push('}');
}

/// Writes the end of the list, if the last field of the message is one.
fn close_list(open: &Open, out: &mut String) {
    let field = open.last.and_then(|position| open.message.fields.get(position));
    if field.is_some_and(|field| field.repeated) {
        out.push(']');
    }
}

/// Splits off at most `left` bytes from the front of `bytes`.
fn split<'a>(bytes: &mut &'a [u8], left: u64) -> &'a [u8] {
    let len = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
    let (part, behind) = bytes.split_at(len);
    *bytes = behind;
    part
}

#[cfg(test)]
mod tests;
