//! Encodes the JSON of a request as its protobuf message.
//!
//! The mapping is protobuf's JSON as Go's `encoding/protojson` reads it, except that unknown fields
//! are ignored; errors have Go's texts. The message is written while the JSON is read, so neither
//! is built as a tree.

use base64::alphabet::{Alphabet, STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, Engine, GeneralPurpose, GeneralPurposeConfig};
use prost::encoding::{encode_varint, encoded_len_varint};

use super::BadJson;
use super::number::{self, Integer};
use super::read::{Reader, Token};
use super::schema::{Enum, Field, Kind, Message};
use crate::limits::MESSAGE_DEPTH_MAX;

/// The encoded message for a JSON value, which a scanner must have accepted.
pub fn encode(message: &'static Message, value: &[u8]) -> Result<Vec<u8>, BadJson> {
    let mut out = Vec::with_capacity(value.len());
    let mut reader = Reader::new(value);
    write_message(&mut reader, message, MESSAGE_DEPTH_MAX, &mut out)?;
    Ok(out)
}

const WIRE_VARINT: u32 = 0;
const WIRE_BYTES: u32 = 2;

/// Reads an object and writes the fields of the message, without the message's length.
fn write_message(
    reader: &mut Reader<'_>,
    message: &'static Message,
    depth_left: usize,
    out: &mut Vec<u8>,
) -> Result<(), BadJson> {
    let start = reader.position();
    if reader.token()? != Token::Object {
        return Err(unexpected(reader, start));
    }
    // One bit for each field that was read. Every message has fewer than 64 fields and at most one
    // oneof.
    let mut seen = 0_u64;
    let mut oneof_is_set = false;
    while !reader.ends() {
        let at = reader.position();
        let Token::Text(name) = reader.token()? else { return Err(unexpected(reader, at)) };
        let quoted = reader.raw_from(at);
        let field =
            message.named(&name).and_then(|index| Some((index, message.fields.get(index)?)));
        let Some((index, field)) = field else {
            reader.skip()?;
            continue;
        };
        if seen & (1 << index) != 0 {
            return Err(reader.error(at, &format!("duplicate field {quoted}")));
        }
        seen |= 1 << index;
        if reader.takes_null() {
            continue;
        }
        if let Some(oneof) = field.oneof {
            if oneof_is_set {
                let text = format!("error parsing {quoted}, oneof {oneof} is already set");
                return Err(reader.error(at, &text));
            }
            oneof_is_set = true;
        }
        if field.repeated {
            write_list(reader, field, depth_left, out)?;
        } else {
            write_value(reader, field, depth_left, out)?;
        }
    }
    Ok(())
}

fn write_list(
    reader: &mut Reader<'_>,
    field: &Field,
    depth_left: usize,
    out: &mut Vec<u8>,
) -> Result<(), BadJson> {
    let start = reader.position();
    if reader.token()? != Token::Array {
        return Err(unexpected(reader, start));
    }
    while !reader.ends() {
        write_value(reader, field, depth_left, out)?;
    }
    Ok(())
}

/// Reads one value of a field and writes it with its tag. Writes no zero and no empty value, unless
/// the field is a list or in a oneof, where presence counts.
fn write_value(
    reader: &mut Reader<'_>,
    field: &Field,
    depth_left: usize,
    out: &mut Vec<u8>,
) -> Result<(), BadJson> {
    let keeps_zero = field.repeated || field.oneof.is_some();
    if let Kind::Message(position) = field.kind {
        let depth_left = depth_left
            .checked_sub(1)
            .ok_or_else(|| BadJson("proto: exceeded max recursion depth".to_string()))?;
        write_tag(field, WIRE_BYTES, out);
        let start = out.len();
        write_message(reader, Message::at(position), depth_left, out)?;
        insert_len(start, out);
        return Ok(());
    }
    let start = reader.position();
    let token = reader.token()?;
    match scalar(field.kind, &token) {
        Some(Scalar::Number(0)) if !keeps_zero => {}
        Some(Scalar::Bytes(bytes)) if bytes.is_empty() && !keeps_zero => {}
        Some(Scalar::Number(number)) => {
            write_tag(field, WIRE_VARINT, out);
            encode_varint(number, out);
        }
        Some(Scalar::Bytes(bytes)) => {
            write_tag(field, WIRE_BYTES, out);
            encode_varint(bytes.len() as u64, out);
            out.extend_from_slice(&bytes);
        }
        Some(Scalar::Ignored) => {}
        None => {
            let (kind, name, raw) = (field.kind.name(), field.json_name, reader.raw_from(start));
            let text = format!("invalid value for {kind} field {name}: {raw}");
            return Err(reader.error(start, &text));
        }
    }
    Ok(())
}

fn unexpected(reader: &Reader<'_>, start: usize) -> BadJson {
    reader.syntax_error(start, &format!("unexpected token {}", reader.raw_from(start)))
}

fn write_tag(field: &Field, wire: u32, out: &mut Vec<u8>) {
    encode_varint(u64::from(field.number << 3 | wire), out);
}

/// Inserts, at `start`, the length of the bytes from there to the end.
fn insert_len(start: usize, out: &mut Vec<u8>) {
    let len = out.len() - start;
    let prefix = encoded_len_varint(len as u64);
    encode_varint(len as u64, out);
    if let Some(message) = out.get_mut(start..) {
        message.rotate_right(prefix);
    }
}

/// The value of a field in its form on the wire.
enum Scalar {
    Number(u64),
    Bytes(Vec<u8>),
    /// The name of an enum's value is unknown, so the field is skipped.
    Ignored,
}

/// The value that a token has in a field of this kind; `None` if the token does not fit the kind.
fn scalar(kind: Kind, token: &Token<'_>) -> Option<Scalar> {
    Some(match (kind, token) {
        (Kind::Bool, Token::Bool(value)) => Scalar::Number(u64::from(*value)),
        (Kind::String, Token::Text(text)) => Scalar::Bytes(text.as_bytes().to_vec()),
        (Kind::Bytes, Token::Text(text)) => Scalar::Bytes(decode_base64(text)?),
        (Kind::Int64, _) => Scalar::Number(i64::try_from(integer(token)?).ok()? as u64),
        (Kind::Uint64, _) => Scalar::Number(u64::try_from(integer(token)?).ok()?),
        (Kind::Uint32, _) => Scalar::Number(u64::from(u32::try_from(integer(token)?).ok()?)),
        (Kind::Enum(position), Token::Text(name)) => match Enum::at(position).number(name) {
            Some(value) => Scalar::Number(i64::from(value) as u64),
            None => Scalar::Ignored,
        },
        (Kind::Enum(_), Token::Number(text)) => {
            let value = i32::try_from(number::integer(text)?).ok()?;
            Scalar::Number(i64::from(value) as u64)
        }
        _ => return None,
    })
}

/// The integer that a token denotes, as a number or as a string. As in Go, a string may go on
/// behind the number with a character that no number has (`"12,3"` is 12), but may not begin or end
/// with a blank.
fn integer(token: &Token<'_>) -> Option<Integer> {
    match token {
        Token::Number(text) => number::integer(text),
        Token::Text(text) if text.trim() == text => {
            let is_end = |c: char| !c.is_ascii_alphanumeric() && !"+-._".contains(c);
            number::integer(text.split(is_end).next()?)
        }
        _ => None,
    }
}

/// Decodes base64 in either alphabet, padded or not, with line ends anywhere. As in Go, the text
/// must be padded if its length is a multiple of four. Unused bits of the last character may be
/// set.
fn decode_base64(text: &str) -> Option<Vec<u8>> {
    const fn engine(alphabet: &Alphabet, padding: DecodePaddingMode) -> GeneralPurpose {
        let config = GeneralPurposeConfig::new()
            .with_decode_allow_trailing_bits(true)
            .with_decode_padding_mode(padding);
        GeneralPurpose::new(alphabet, config)
    }
    const PADDED: GeneralPurpose = engine(&STANDARD, DecodePaddingMode::RequireCanonical);
    const PLAIN: GeneralPurpose = engine(&STANDARD, DecodePaddingMode::RequireNone);
    const URL_PADDED: GeneralPurpose = engine(&URL_SAFE, DecodePaddingMode::RequireCanonical);
    const URL_PLAIN: GeneralPurpose = engine(&URL_SAFE, DecodePaddingMode::RequireNone);
    let engine = match (text.contains(['-', '_']), text.len().is_multiple_of(4)) {
        (false, true) => PADDED,
        (false, false) => PLAIN,
        (true, true) => URL_PADDED,
        (true, false) => URL_PLAIN,
    };
    if text.contains(['\r', '\n']) {
        return engine.decode(text.replace(['\r', '\n'], "")).ok();
    }
    engine.decode(text).ok()
}

#[cfg(test)]
mod tests;
