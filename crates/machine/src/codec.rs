//! Little-endian reading and writing of our own formats: entries, commands, images.
//!
//! The reader never indexes past its slice and never panics: a short or malformed input is a
//! [`DecodeError`] that says where.

use thiserror::Error;

use crate::limits::RESTORED_NUMBER_MAX;

/// Why bytes of our own format could not be read.
#[derive(Debug, Error, PartialEq, Eq, Clone)]
pub enum DecodeError {
    /// The input ended inside a value.
    #[error("cut off at byte {offset}: {wanted} more bytes wanted")]
    Cut {
        /// Where the value starts.
        offset: usize,
        /// Bytes that the value needs from there.
        wanted: usize,
    },
    /// A value is outside what the format allows.
    #[error("bad {what} at byte {offset}: {value}")]
    Bad {
        /// Name of the field.
        what: &'static str,
        /// The offset at which the field ends.
        offset: usize,
        /// The value that was found.
        value: u64,
    },
    /// Text is not UTF-8.
    #[error("text at byte {offset} is not UTF-8")]
    Text {
        /// Where the text ends.
        offset: usize,
    },
    /// Bytes are left over after the last value.
    #[error("{bytes} bytes left over at byte {offset}")]
    Trailing {
        /// Where the values end.
        offset: usize,
        /// The number of bytes left over.
        bytes: usize,
    },
}

/// Reads values one after the other from a slice.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Reader<'a> {
    /// Starts at the beginning of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, offset: 0 }
    }

    /// Bytes read so far.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Bytes not yet read.
    pub fn remaining(&self) -> usize {
        self.bytes.len().saturating_sub(self.offset)
    }

    /// The next `count` bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let cut = DecodeError::Cut { offset: self.offset, wanted: count };
        let end = self.offset.checked_add(count).ok_or_else(|| cut.clone())?;
        let slice = self.bytes.get(self.offset..end).ok_or(cut)?;
        self.offset = end;
        Ok(slice)
    }

    /// A reader of the next `count` bytes alone, which this reader skips. Its errors give offsets
    /// from the start of the whole input.
    pub fn part(&mut self, count: usize) -> Result<Reader<'a>, DecodeError> {
        let start = self.offset;
        self.take(count)?;
        let bytes = self.bytes.get(..self.offset).unwrap_or_default();
        Ok(Reader { bytes, offset: start })
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let slice = self.take(N)?;
        let mut array = [0; N];
        array.copy_from_slice(slice);
        Ok(array)
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    /// An unsigned 16-bit number.
    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// An unsigned 32-bit number.
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// A signed 32-bit number.
    pub fn i32(&mut self) -> Result<i32, DecodeError> {
        Ok(i32::from_le_bytes(self.array()?))
    }

    /// An unsigned 64-bit number.
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A signed 64-bit number.
    pub fn i64(&mut self) -> Result<i64, DecodeError> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    /// An unsigned 128-bit number.
    pub fn u128(&mut self) -> Result<u128, DecodeError> {
        Ok(u128::from_le_bytes(self.array()?))
    }

    /// The 16 bytes of a session password.
    pub fn password(&mut self) -> Result<[u8; 16], DecodeError> {
        self.array()
    }

    /// A 32-bit length and that many bytes.
    pub fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let count = self.u32()? as usize;
        self.take(count)
    }

    /// A 32-bit length and that many bytes, or the length `u32::MAX` for "none".
    pub fn optional_bytes(&mut self) -> Result<Option<&'a [u8]>, DecodeError> {
        match self.u32()? {
            u32::MAX => Ok(None),
            count => self.take(count as usize).map(Some),
        }
    }

    /// A 32-bit length and that many bytes of UTF-8.
    pub fn text(&mut self) -> Result<&'a str, DecodeError> {
        let bytes = self.bytes()?;
        core::str::from_utf8(bytes).map_err(|_| DecodeError::Text { offset: self.offset })
    }

    /// A count that must not exceed `max`.
    pub fn count(&mut self, what: &'static str, max: usize) -> Result<usize, DecodeError> {
        let value = self.u32()?;
        if value as usize > max {
            return Err(self.bad(what, u64::from(value)));
        }
        Ok(value as usize)
    }

    /// A 64-bit number that later commands will increment. It is an error if the number is above
    /// [`RESTORED_NUMBER_MAX`].
    pub(crate) fn counted(&mut self, what: &'static str) -> Result<u64, DecodeError> {
        match self.u64()? {
            value if value > RESTORED_NUMBER_MAX => Err(self.bad(what, value)),
            value => Ok(value),
        }
    }

    /// An error about the value just read.
    pub fn bad(&self, what: &'static str, value: u64) -> DecodeError {
        DecodeError::Bad { what, offset: self.offset, value }
    }

    /// Succeeds only when everything was read.
    pub fn finish(&self) -> Result<(), DecodeError> {
        match self.remaining() {
            0 => Ok(()),
            bytes => Err(DecodeError::Trailing { offset: self.offset, bytes }),
        }
    }
}

/// Appends values to a buffer, in the form that [`Reader`] reads.
pub trait Write {
    /// One byte.
    fn put_u8(&mut self, value: u8);
    /// An unsigned 16-bit number.
    fn put_u16(&mut self, value: u16);
    /// An unsigned 32-bit number.
    fn put_u32(&mut self, value: u32);
    /// A signed 32-bit number.
    fn put_i32(&mut self, value: i32);
    /// An unsigned 64-bit number.
    fn put_u64(&mut self, value: u64);
    /// A signed 64-bit number.
    fn put_i64(&mut self, value: i64);
    /// An unsigned 128-bit number.
    fn put_u128(&mut self, value: u128);
    /// A 32-bit length and the bytes.
    fn put_bytes(&mut self, value: &[u8]);
    /// As [`Write::put_bytes`], with the length `u32::MAX` for "none".
    fn put_optional_bytes(&mut self, value: Option<&[u8]>);
}

impl Write for Vec<u8> {
    fn put_u8(&mut self, value: u8) {
        self.push(value);
    }
    fn put_u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    fn put_i32(&mut self, value: i32) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    fn put_i64(&mut self, value: i64) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    fn put_u128(&mut self, value: u128) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    fn put_bytes(&mut self, value: &[u8]) {
        let count = u32::try_from(value.len()).expect("values are bounded far below 4 GiB");
        assert!(count != u32::MAX);
        self.put_u32(count);
        self.extend_from_slice(value);
    }
    fn put_optional_bytes(&mut self, value: Option<&[u8]>) {
        match value {
            Some(bytes) => self.put_bytes(bytes),
            None => self.put_u32(u32::MAX),
        }
    }
}
