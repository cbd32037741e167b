//! Reads and writes Jute, ZooKeeper's record format: big-endian numbers; strings, buffers and
//! vectors with a 32-bit length in front, where -1 means null.
//!
//! The reader never indexes past its slice. It checks the count of a vector first: the slice must
//! have enough bytes left for that many items, so a false count reserves no memory.

use thiserror::Error;

use crate::ErrorCode;

/// Why a record could not be decoded. Offsets count from the start of the slice.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum JuteError {
    /// The bytes ended inside a value.
    #[error("cut off at byte {offset}: {wanted} more bytes wanted")]
    Cut {
        /// The offset, in bytes, at which the failed read began.
        offset: usize,
        /// How many bytes that read needs.
        wanted: usize,
    },
    /// A length is negative (-1, null, is accepted where the field may be null), or a count needs
    /// more bytes than are left.
    #[error("bad length {length} at byte {offset}")]
    BadLength {
        /// The offset of the length.
        offset: usize,
        /// The length that was found.
        length: i32,
    },
    /// A create in a multi has null for its ACL. ZooKeeper answers as it does to a request that
    /// does not decode, but consumes no zxid.
    #[error("a null ACL in the create before byte {offset}")]
    NullAcl {
        /// Where the create ends.
        offset: usize,
    },
    /// A write has null for its path. ZooKeeper consumes a zxid and answers with `error`; in a
    /// multi it answers as it does to a request that does not decode.
    #[error("null for the path before byte {offset}")]
    NullPath {
        /// Where the write ends.
        offset: usize,
        /// The error that a single write gets.
        error: ErrorCode,
    },
    /// A value that the field does not allow: null, an operation that a multi cannot hold, an
    /// unknown mode or type, too many items.
    #[error("bad {what} at byte {offset}")]
    BadValue {
        /// Name of the field.
        what: &'static str,
        /// Where the field ends.
        offset: usize,
    },
}

/// Stands in for a string that is not UTF-8. As a path it is never valid and never found, because
/// U+FFFD is not allowed in paths.
pub const NOT_UTF8: &str = "/\u{FFFD}";

/// Decodes the values of a record one after the other.
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

    /// How many bytes were read so far.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// How many bytes are left.
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

    /// Reads a byte.
    pub fn byte(&mut self) -> Result<u8, JuteError> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    /// Reads a boolean: any byte but 0 is true.
    pub fn bool(&mut self) -> Result<bool, JuteError> {
        Ok(self.byte()? != 0)
    }

    /// Reads a 32-bit number.
    pub fn int(&mut self) -> Result<i32, JuteError> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    /// Reads a 64-bit number.
    pub fn long(&mut self) -> Result<i64, JuteError> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    /// Reads a buffer, or null.
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

    /// Reads a string, or null. A string that is not UTF-8 becomes [`NOT_UTF8`] as a whole. Java's
    /// `new String(bytes, UTF_8)` replaces only the wrong bytes; either way no path and no identity
    /// equals the result.
    pub fn optional_text(&mut self) -> Result<Option<&'a str>, JuteError> {
        let Some(bytes) = self.buffer()? else { return Ok(None) };
        Ok(Some(core::str::from_utf8(bytes).unwrap_or(NOT_UTF8)))
    }

    /// Reads a string; null is an error.
    pub fn text(&mut self) -> Result<&'a str, JuteError> {
        self.optional_text()?.ok_or_else(|| self.bad("null"))
    }

    /// Reads the count of a vector, or null. `item_bytes_min` is the size of the smallest item, so
    /// a count that the remaining bytes cannot hold is an error. A negative count other than -1
    /// means an empty vector (`BinaryInputArchive.BinaryIndex.done`).
    pub fn optional_count(&mut self, item_bytes_min: usize) -> Result<Option<usize>, JuteError> {
        let offset = self.offset;
        let length = self.int()?;
        let Ok(count) = usize::try_from(length) else { return Ok((length != -1).then_some(0)) };
        match count.checked_mul(item_bytes_min) {
            Some(bytes) if bytes <= self.remaining() => Ok(Some(count)),
            _ => Err(JuteError::BadLength { offset, length }),
        }
    }

    /// Reads the count of a vector like [`JuteReader::optional_count`], but null counts as 0.
    pub fn count(&mut self, item_bytes_min: usize) -> Result<usize, JuteError> {
        Ok(self.optional_count(item_bytes_min)?.unwrap_or(0))
    }

    /// Reads a vector of strings; a null vector is empty, a null string is an error.
    pub fn texts(&mut self) -> Result<Vec<&'a str>, JuteError> {
        let count = self.count(4)?;
        let mut texts = Vec::with_capacity(count);
        for _ in 0..count {
            texts.push(self.text()?);
        }
        Ok(texts)
    }

    /// Reads a vector of strings, or null. Each string may be null.
    pub fn optional_texts(&mut self) -> Result<Option<Vec<Option<&'a str>>>, JuteError> {
        let Some(count) = self.optional_count(4)? else { return Ok(None) };
        let mut texts = Vec::with_capacity(count);
        for _ in 0..count {
            texts.push(self.optional_text()?);
        }
        Ok(Some(texts))
    }

    /// The error that the value just read, the field `what`, is not acceptable.
    pub fn bad(&self, what: &'static str) -> JuteError {
        JuteError::BadValue { what, offset: self.offset }
    }
}

/// Appends values to a record, in the form that [`JuteReader`] reads.
pub trait JuteWrite {
    /// Appends a byte.
    fn put_byte(&mut self, value: u8);
    /// Appends a boolean.
    fn put_bool(&mut self, value: bool);
    /// Appends a 32-bit number.
    fn put_int(&mut self, value: i32);
    /// Appends a 64-bit number.
    fn put_long(&mut self, value: i64);
    /// Appends a buffer, or null.
    fn put_buffer(&mut self, value: Option<&[u8]>);
    /// Appends a string.
    fn put_text(&mut self, value: &str);
    /// Appends the count of a vector, or the length of a buffer.
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

/// Begins a frame: appends four bytes for its length, and returns the offset to give to
/// [`end_frame`].
pub fn begin_frame(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.put_int(0);
    start
}

/// Ends the frame that began at offset `start`: writes its length there.
pub fn end_frame(out: &mut [u8], start: usize) {
    let length = i32::try_from(out.len() - start - 4).expect("no frame reaches 2 GiB");
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

#[cfg(test)]
mod tests;
