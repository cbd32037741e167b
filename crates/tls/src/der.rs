//! Reads and writes the DER that keys and names need: takes one value after the other, and wraps
//! values in another value.

/// The DER tag of an integer (X.690). The constants below are DER tags too.
pub const INTEGER: u8 = 0x02;
/// The tag of a string of bits.
pub const BIT_STRING: u8 = 0x03;
/// The tag of a string of bytes.
pub const OCTET_STRING: u8 = 0x04;
/// The tag of an object identifier.
pub const OID: u8 = 0x06;
/// The tag of a sequence.
pub const SEQUENCE: u8 = 0x30;
/// The tag of a set.
pub const SET: u8 = 0x31;
/// The context-specific tag `[0]`, constructed: further values are inside.
pub const CONTEXT_0: u8 = 0xa0;
/// The context-specific tag `[1]`, constructed: further values are inside.
pub const CONTEXT_1: u8 = 0xa1;

/// The most length bytes that are read: no file or certificate here has 4 GiB.
const LENGTH_BYTES_MAX: usize = 4;

/// One DER value of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value<'a> {
    /// The tag.
    pub tag: u8,
    /// The bytes after tag and length.
    pub content: &'a [u8],
    /// The whole value, tag and length included.
    pub whole: &'a [u8],
}

/// Takes the first value off `input`. If the value is cut off, or its tag or length has a form that
/// does not occur here, returns `None` and leaves `input` unchanged.
pub fn take<'a>(input: &mut &'a [u8]) -> Option<Value<'a>> {
    let (&tag, after_tag) = input.split_first()?;
    if tag & 0x1f == 0x1f {
        return None;
    }
    let (&first, after_first) = after_tag.split_first()?;
    let (length, body) = if first & 0x80 == 0 {
        (usize::from(first), after_first)
    } else {
        let count = usize::from(first & 0x7f);
        if count == 0 || count > LENGTH_BYTES_MAX {
            return None;
        }
        let (bytes, body) = after_first.split_at_checked(count)?;
        (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), body)
    };
    let (content, rest) = body.split_at_checked(length)?;
    let whole = input.get(..input.len() - rest.len())?;
    *input = rest;
    Some(Value { tag, content, whole })
}

/// Takes the first value off `input` if it has this tag. Otherwise leaves `input` unchanged.
pub fn take_tagged<'a>(input: &mut &'a [u8], tag: u8) -> Option<Value<'a>> {
    let mut rest = *input;
    let value = take(&mut rest).filter(|value| value.tag == tag)?;
    *input = rest;
    Some(value)
}

/// Encodes a value with this tag around the concatenated `parts`.
pub fn wrap(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut out = Vec::with_capacity(length + 2 + size_of::<usize>());
    out.push(tag);
    if length < 0x80 {
        out.push(length as u8);
    } else {
        let bytes = length.to_be_bytes();
        let skipped = bytes.iter().take_while(|byte| **byte == 0).count();
        let bytes = bytes.get(skipped..).unwrap_or_default();
        out.push(0x80 | bytes.len() as u8);
        out.extend_from_slice(bytes);
    }
    for part in parts {
        out.extend_from_slice(part);
    }
    out
}
