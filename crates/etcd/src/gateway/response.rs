//! Decodes the protobuf message of a response into JSON, all at once.
//!
//! The mapping is protobuf's JSON as etcd's gateway writes it: fields under their names in `proto/`
//! and in the order of `proto/`, zero fields left out, 64-bit numbers as strings, bytes in base64,
//! enums by name.

use core::fmt::Write;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use prost::encoding::decode_varint;

use super::schema::{Enum, Field, Kind, Message};
use crate::limits::TXN_DEPTH_MAX;

/// The bytes do not decode as the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadMessage;

/// The most levels of nested messages in a response: two for each level of the deepest transaction,
/// and a few below the innermost.
pub(super) const DEPTH_MAX: usize = 2 * TXN_DEPTH_MAX + 8;

/// The JSON of an encoded message.
pub fn decode(message: &'static Message, bytes: &[u8]) -> Result<String, BadMessage> {
    let mut out = String::with_capacity(bytes.len().saturating_mul(2));
    write_message(message, bytes, DEPTH_MAX, &mut out)?;
    Ok(out)
}

/// The value of a field in its form on the wire.
#[derive(Clone, Copy)]
pub(super) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn write_message(
    message: &'static Message,
    bytes: &[u8],
    depth_left: usize,
    out: &mut String,
) -> Result<(), BadMessage> {
    let mut values = values(message, bytes)?;
    // Messages that this server encodes are in this order already.
    values.sort_by_key(|(index, _)| *index);
    out.push('{');
    let mut is_first = true;
    let mut rest = values.as_slice();
    while let Some((index, _)) = rest.first() {
        let count = rest.iter().take_while(|(of, _)| of == index).count();
        let (of_field, behind) = rest.split_at(count);
        rest = behind;
        let field = message.fields.get(*index).ok_or(BadMessage)?;
        if !field.repeated && of_field.last().is_none_or(|(_, value)| is_left_out(field, *value)) {
            continue;
        }
        if !is_first {
            out.push(',');
        }
        is_first = false;
        write_text(field.name, out);
        out.push(':');
        write_field(field, of_field, depth_left, out)?;
    }
    out.push('}');
    Ok(())
}

/// Writes all values of a list; for any other field, the last value.
fn write_field(
    field: &Field,
    values: &[(usize, Value<'_>)],
    depth_left: usize,
    out: &mut String,
) -> Result<(), BadMessage> {
    if !field.repeated {
        let (_, value) = values.last().ok_or(BadMessage)?;
        return write_value(field.kind, *value, depth_left, out);
    }
    for (position, (_, value)) in values.iter().enumerate() {
        out.push(if position == 0 { '[' } else { ',' });
        write_value(field.kind, *value, depth_left, out)?;
    }
    out.push(']');
    Ok(())
}

/// Whether JSON leaves out a field with this value, because an absent field means the same. An
/// empty message is never left out.
pub(super) fn is_left_out(field: &Field, value: Value<'_>) -> bool {
    let is_zero = match value {
        Value::Number(number) => number == 0,
        Value::Bytes(bytes) => bytes.is_empty(),
    };
    is_zero && field.oneof.is_none() && !matches!(field.kind, Kind::Message(_))
}

/// The known fields of a message, in the order of the bytes: the field's index in the table, and
/// its value.
fn values<'a>(
    message: &Message,
    mut rest: &'a [u8],
) -> Result<Vec<(usize, Value<'a>)>, BadMessage> {
    let mut values = Vec::new();
    while !rest.is_empty() {
        let tag = varint(&mut rest)?;
        let value = match tag & 7 {
            0 => Some(Value::Number(varint(&mut rest)?)),
            1 => {
                take(&mut rest, 8)?;
                None
            }
            2 => {
                let len = usize::try_from(varint(&mut rest)?).map_err(|_| BadMessage)?;
                Some(Value::Bytes(take(&mut rest, len)?))
            }
            5 => {
                take(&mut rest, 4)?;
                None
            }
            _ => return Err(BadMessage),
        };
        let index = message.fields.iter().position(|field| u64::from(field.number) == tag >> 3);
        let (Some(index), Some(value)) = (index, value) else { continue };
        let field = message.fields.get(index).ok_or(BadMessage)?;
        match value {
            // A list of numbers may be packed into one value.
            Value::Bytes(mut packed) if field.repeated && field.kind.is_number() => {
                while !packed.is_empty() {
                    values.push((index, Value::Number(varint(&mut packed)?)));
                }
            }
            value => values.push((index, value)),
        }
    }
    Ok(values)
}

fn varint(rest: &mut &[u8]) -> Result<u64, BadMessage> {
    decode_varint(rest).map_err(|_| BadMessage)
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Result<&'a [u8], BadMessage> {
    let (taken, behind) = rest.split_at_checked(len).ok_or(BadMessage)?;
    *rest = behind;
    Ok(taken)
}

pub(super) fn write_value(
    kind: Kind,
    value: Value<'_>,
    depth_left: usize,
    out: &mut String,
) -> Result<(), BadMessage> {
    let written = match (kind, value) {
        (Kind::Bool, Value::Number(number)) => write!(out, "{}", number != 0),
        (Kind::Int64, Value::Number(number)) => write!(out, "\"{}\"", number as i64),
        (Kind::Uint64, Value::Number(number)) => write!(out, "\"{number}\""),
        (Kind::Uint32, Value::Number(number)) => write!(out, "{}", number as u32),
        (Kind::Enum(position), Value::Number(number)) => {
            match Enum::at(position).name(number as i32) {
                Some(name) => write!(out, "\"{name}\""),
                None => write!(out, "{}", number as i32),
            }
        }
        (Kind::String, Value::Bytes(bytes)) => {
            write_text(core::str::from_utf8(bytes).map_err(|_| BadMessage)?, out);
            Ok(())
        }
        (Kind::Bytes, Value::Bytes(bytes)) => {
            out.push('"');
            BASE64_STANDARD.encode_string(bytes, out);
            out.push('"');
            Ok(())
        }
        (Kind::Message(position), Value::Bytes(bytes)) => {
            let depth_left = depth_left.checked_sub(1).ok_or(BadMessage)?;
            write_message(Message::at(position), bytes, depth_left, out)?;
            Ok(())
        }
        _ => return Err(BadMessage),
    };
    written.expect("a string takes everything");
    Ok(())
}

/// Writes text in quotes. Escapes only the characters that JSON does not allow.
pub fn write_text(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..' ' => {
                write!(out, "\\u{:04x}", u32::from(character)).expect("a string takes everything");
            }
            _ => out.push(character),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests;
