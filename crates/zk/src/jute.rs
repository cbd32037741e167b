//! Jute, ZooKeeper's record format: big-endian numbers, 32-bit lengths, -1 for null.
//!
//! The reader never indexes past its slice, and never reserves memory for a count before it has
//! seen the bytes.

use thiserror::Error;

use crate::ErrorCode;

/// Why a record could not be read. Offsets count from the start of the slice.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum JuteError {
    /// The bytes ended inside a value.
    #[error("cut off at byte {offset}: {wanted} more bytes wanted")]
    Cut {
        /// Where the value starts.
        offset: usize,
        /// Bytes it needs from there.
        wanted: usize,
    },
    /// A length is negative (other than null where that is allowed), or a count is impossible.
    #[error("bad length {length} at byte {offset}")]
    BadLength {
        /// The offset of the length.
        offset: usize,
        /// The length that was found.
        length: i32,
    },
    /// A create in a multi has null for its ACL: ZooKeeper refuses the request like one that does
    /// not decode, but before it takes a zxid for it.
    #[error("a null ACL in the create before byte {offset}")]
    NullAcl {
        /// Where the create ends.
        offset: usize,
    },
    /// A write has null for its path: ZooKeeper takes a zxid for it and refuses it with `error`, or
    /// in a multi like one that does not decode.
    #[error("null for the path before byte {offset}")]
    NullPath {
        /// Where the write ends.
        offset: usize,
        /// The error if the write is in no multi.
        error: ErrorCode,
    },
    /// A boolean that is neither 0 nor 1, an operation that may not stand here, text that is not
    /// UTF-8, null where a value must be.
    #[error("bad {what} at byte {offset}")]
    BadValue {
        /// The field.
        what: &'static str,
        /// Where it ends.
        offset: usize,
    },
}

/// The text in place of text that is not UTF-8: a path that is refused where one is made, and found
/// nowhere (the replacement character is not allowed in paths).
pub const NOT_UTF8: &str = "/\u{FFFD}";

/// Reads values one after the other.
#[derive(Clone, Debug)]
pub struct JuteReader<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> JuteReader<'a> {
    /// Starts at the beginning of `bytes`.
    pub fn new(bytes: &'a [u8]) -> JuteReader<'a> {
        JuteReader { bytes, offset: 0 }
    }

    /// Bytes read so far.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Bytes not yet read.
    pub fn remaining(&self) -> usize {
        self.bytes.len().saturating_sub(self.offset)
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], JuteError> {
        let cut = JuteError::Cut { offset: self.offset, wanted: count };
        let end = self.offset.checked_add(count).ok_or(cut)?;
        let slice = self.bytes.get(self.offset..end).ok_or(cut)?;
        self.offset = end;
        Ok(slice)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], JuteError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// A byte.
    pub fn byte(&mut self) -> Result<u8, JuteError> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    /// A boolean.
    pub fn bool(&mut self) -> Result<bool, JuteError> {
        Ok(self.byte()? != 0)
    }

    /// A 32-bit number.
    pub fn int(&mut self) -> Result<i32, JuteError> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    /// A 64-bit number.
    pub fn long(&mut self) -> Result<i64, JuteError> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    /// A buffer, or null.
    pub fn buffer(&mut self) -> Result<Option<&'a [u8]>, JuteError> {
        let offset = self.offset;
        match self.int()? {
            -1 => Ok(None),
            length => {
                let count =
                    usize::try_from(length).map_err(|_| JuteError::BadLength { offset, length })?;
                self.take(count).map(Some)
            }
        }
    }

    /// Text, or null. Bytes that are not UTF-8 become [`NOT_UTF8`] as a whole. Java's `new
    /// String(bytes, UTF_8)` replaces only the wrong bytes; either way no path and no identity
    /// equals it.
    pub fn optional_text(&mut self) -> Result<Option<&'a str>, JuteError> {
        let Some(bytes) = self.buffer()? else { return Ok(None) };
        Ok(Some(core::str::from_utf8(bytes).unwrap_or(NOT_UTF8)))
    }

    /// Text that must be there.
    pub fn text(&mut self) -> Result<&'a str, JuteError> {
        self.optional_text()?.ok_or_else(|| self.bad("null"))
    }

    /// The count of a vector with items of at least `item_bytes_min` bytes each, or null. Other
    /// negative counts mean an empty vector (`BinaryInputArchive.BinaryIndex.done`).
    pub fn optional_count(&mut self, item_bytes_min: usize) -> Result<Option<usize>, JuteError> {
        let offset = self.offset;
        let length = self.int()?;
        let Ok(count) = usize::try_from(length) else { return Ok((length != -1).then_some(0)) };
        match count.checked_mul(item_bytes_min) {
            Some(bytes) if bytes <= self.remaining() => Ok(Some(count)),
            _ => Err(JuteError::BadLength { offset, length }),
        }
    }

    /// The count of a vector, as [`JuteReader::optional_count`]; null is 0.
    pub fn count(&mut self, item_bytes_min: usize) -> Result<usize, JuteError> {
        Ok(self.optional_count(item_bytes_min)?.unwrap_or(0))
    }

    /// A vector of texts.
    pub fn texts(&mut self) -> Result<Vec<&'a str>, JuteError> {
        let count = self.count(4)?;
        let mut texts = Vec::with_capacity(count);
        for _ in 0..count {
            texts.push(self.text()?);
        }
        Ok(texts)
    }

    /// A vector of texts, or null. Each text may be null.
    pub fn optional_texts(&mut self) -> Result<Option<Vec<Option<&'a str>>>, JuteError> {
        let Some(count) = self.optional_count(4)? else { return Ok(None) };
        let mut texts = Vec::with_capacity(count);
        for _ in 0..count {
            texts.push(self.optional_text()?);
        }
        Ok(Some(texts))
    }

    /// An error about the value just read.
    pub fn bad(&self, what: &'static str) -> JuteError {
        JuteError::BadValue { what, offset: self.offset }
    }
}

/// Appends values, as [`JuteReader`] reads them.
pub trait JuteWrite {
    /// A byte.
    fn put_byte(&mut self, value: u8);
    /// A boolean.
    fn put_bool(&mut self, value: bool);
    /// A 32-bit number.
    fn put_int(&mut self, value: i32);
    /// A 64-bit number.
    fn put_long(&mut self, value: i64);
    /// A buffer, or null.
    fn put_buffer(&mut self, value: Option<&[u8]>);
    /// Text.
    fn put_text(&mut self, value: &str);
    /// A count, of a vector or of bytes.
    fn put_count(&mut self, count: usize);
}

impl JuteWrite for Vec<u8> {
    fn put_byte(&mut self, value: u8) {
        self.push(value);
    }
    fn put_bool(&mut self, value: bool) {
        self.push(u8::from(value));
    }
    fn put_int(&mut self, value: i32) {
        self.extend_from_slice(&value.to_be_bytes());
    }
    fn put_long(&mut self, value: i64) {
        self.extend_from_slice(&value.to_be_bytes());
    }
    fn put_buffer(&mut self, value: Option<&[u8]>) {
        match value {
            None => self.put_int(-1),
            Some(bytes) => {
                self.put_count(bytes.len());
                self.extend_from_slice(bytes);
            }
        }
    }
    fn put_text(&mut self, value: &str) {
        self.put_buffer(Some(value.as_bytes()));
    }
    fn put_count(&mut self, count: usize) {
        self.put_int(i32::try_from(count).expect("nothing on the wire reaches 2 GiB"));
    }
}

/// Starts a frame: leaves room for its length, and returns where it began.
pub fn begin_frame(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.put_int(0);
    start
}

/// Ends the frame that began at `start` by writing its length.
pub fn end_frame(out: &mut [u8], start: usize) {
    let length = i32::try_from(out.len() - start - 4).expect("no frame reaches 2 GiB");
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

#[cfg(test)]
mod tests;
