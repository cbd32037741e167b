//! A reader for bytes that are not trusted, and its errors.

use crate::limits::MESSAGE_BYTES_MAX;

/// Why bytes from a peer, or from this member's own disk, were not accepted. Offsets are in bytes
/// from the start of the decoded bytes. If a peer sent them, the caller closes the connection. The
/// last three errors mean that a member has lost what it had on disk; for these, the caller also
/// raises an alarm.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    #[error("cut off: {bytes} bytes wanted at offset {offset}")]
    Truncated { offset: usize, bytes: usize },
    #[error("{bytes} bytes follow the end at offset {offset}")]
    TrailingBytes { offset: usize, bytes: usize },
    #[error("version {version} at offset {offset} is not known")]
    UnknownVersion { offset: usize, version: u8 },
    #[error("kind {kind} at offset {offset} is not known or not allowed here")]
    UnknownKind { offset: usize, kind: u8 },
    #[error("{bytes} bytes at offset {offset} are more than {bytes_max}")]
    TooLarge { offset: usize, bytes: usize, bytes_max: usize },
    #[error("a count of {count} at offset {offset} is more than {count_max}")]
    TooMany { offset: usize, count: usize, count_max: usize },
    #[error("{value} at offset {offset} is not within {value_min} and {value_max}")]
    OutOfRange { offset: usize, value: u64, value_min: u64, value_max: u64 },
    #[error("malformed at offset {offset}: {what}")]
    Malformed { offset: usize, what: &'static str },
    #[error("for group {group_id}, not {expected}")]
    WrongGroup { group_id: u32, expected: u32 },
    #[error("claims to be from member {from}, came from {expected}")]
    WrongSender { from: u64, expected: u64 },
    #[error("for member {to}, not {expected}")]
    WrongReceiver { to: u64, expected: u64 },
    #[error("commit index {commit} is beyond the log, which ends at {last_index}")]
    CommitBeyondLog { commit: u64, last_index: u64 },
    #[error("the entry at commit index {commit} is of another term than the own one, {term}")]
    CommitDiffers { commit: u64, term: u64 },
    #[error("acknowledges index {index} of a log that ends at {last_index}")]
    AckBeyondLog { index: u64, last_index: u64 },
}

/// A cursor over bytes that are not trusted. Every read is checked, and errors hold the offset.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, offset: 0 }
    }

    pub(crate) fn from_message(bytes: &'a [u8]) -> Result<Reader<'a>, MessageError> {
        if bytes.len() > MESSAGE_BYTES_MAX {
            let (bytes, bytes_max) = (bytes.len(), MESSAGE_BYTES_MAX);
            return Err(MessageError::TooLarge { offset: 0, bytes, bytes_max });
        }
        Ok(Reader::new(bytes))
    }

    pub(crate) fn offset(&self) -> usize {
        self.offset
    }

    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn take(&mut self, bytes: usize) -> Result<&'a [u8], MessageError> {
        let Some((taken, rest)) = self.bytes.split_at_checked(bytes) else {
            return Err(MessageError::Truncated { offset: self.offset, bytes });
        };
        self.bytes = rest;
        // The sum is at most the length of one slice in memory.
        self.offset = self.offset.saturating_add(bytes);
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], MessageError> {
        let taken = self.take(N)?;
        Ok(taken.try_into().expect("take returns as many bytes as it was asked for"))
    }

    pub(crate) fn u8(&mut self) -> Result<u8, MessageError> {
        self.array::<1>().map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, MessageError> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, MessageError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, MessageError> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn u64_within(
        &mut self,
        value_min: u64,
        value_max: u64,
    ) -> Result<u64, MessageError> {
        let offset = self.offset;
        let value = self.u64()?;
        if value < value_min || value > value_max {
            return Err(MessageError::OutOfRange { offset, value, value_min, value_max });
        }
        Ok(value)
    }

    pub(crate) fn count(&mut self, count_max: usize) -> Result<usize, MessageError> {
        let offset = self.offset;
        let count = usize::try_from(self.u32()?).unwrap_or(usize::MAX);
        if count > count_max {
            return Err(MessageError::TooMany { offset, count, count_max });
        }
        Ok(count)
    }

    pub(crate) fn version(&mut self, expected: u8) -> Result<(), MessageError> {
        let offset = self.offset;
        let version = self.u8()?;
        if version != expected {
            return Err(MessageError::UnknownVersion { offset, version });
        }
        Ok(())
    }

    pub(crate) fn end(&self) -> Result<(), MessageError> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        Err(MessageError::TrailingBytes { offset: self.offset, bytes: self.bytes.len() })
    }
}
