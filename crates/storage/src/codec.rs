//! Little-endian reading of the on-disk formats of this crate.
//!
//! The reader never indexes past its slice and never panics: malformed input is a [`DecodeError`]
//! with an offset. (`machine` has its own reader: no crate may depend on another only for this.)

use thiserror::Error;

/// Why bytes could not be decoded.
#[derive(Debug, Error, PartialEq, Eq, Clone)]
#[error("{what} at byte {offset} of the record")]
pub struct DecodeError {
    /// A description of the problem, for people.
    pub what: &'static str,
    /// The offset in the given slice where the bad value ends, or where a value that is cut off
    /// starts.
    pub offset: usize,
}

/// Reads values one after the other from a slice.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Reader<'a> {
    /// A reader that starts at the beginning of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, offset: 0 }
    }

    /// Number of bytes that are still unread.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.offset
    }

    /// The next `count` bytes, or an error if fewer are left.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let end = self.offset.checked_add(count);
        let slice = end.and_then(|end| self.bytes.get(self.offset..end));
        let slice = slice.ok_or_else(|| self.bad("cut off"))?;
        self.offset = self.offset.saturating_add(count);
        Ok(slice)
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

    /// An unsigned 64-bit number.
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// An unsigned 128-bit number.
    pub fn u128(&mut self) -> Result<u128, DecodeError> {
        Ok(u128::from_le_bytes(self.array()?))
    }

    /// A byte that is 0 or 1.
    pub fn flag(&mut self) -> Result<bool, DecodeError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.bad("a flag is neither 0 nor 1")),
        }
    }

    /// Skips `count` reserved bytes, which a later version may use; an error if one of them is not
    /// zero.
    pub fn zeros(&mut self, count: usize) -> Result<(), DecodeError> {
        match self.take(count)?.iter().all(|byte| *byte == 0) {
            true => Ok(()),
            false => Err(self.bad("reserved bytes are not zero")),
        }
    }

    /// Reads a 32-bit count of at most `count_max`, and then that many 64-bit numbers.
    pub fn u64_list(&mut self, count_max: usize) -> Result<Vec<u64>, DecodeError> {
        let count = self.u32()? as usize;
        if count > count_max {
            return Err(self.bad("a list is too long"));
        }
        (0..count).map(|_| self.u64()).collect()
    }

    /// An error about the value that was just read.
    pub fn bad(&self, what: &'static str) -> DecodeError {
        DecodeError { what, offset: self.offset }
    }

    /// An error if bytes are left over.
    pub fn finish(&self) -> Result<(), DecodeError> {
        match self.offset == self.bytes.len() {
            true => Ok(()),
            false => Err(self.bad("bytes are left over")),
        }
    }
}

/// Appends a 32-bit count and then the numbers. [`Reader::u64_list`] reads them.
pub fn put_u64_list(out: &mut Vec<u8>, values: &[u64]) {
    let count = u32::try_from(values.len()).expect("lists are bounded far below 2^32");
    out.extend_from_slice(&count.to_le_bytes());
    for value in values {
        out.extend_from_slice(&value.to_le_bytes());
    }
}

#[cfg(test)]
mod tests;
