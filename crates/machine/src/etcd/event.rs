//! Events: the versions of keys, each immutable and shared.

use core::fmt;
use std::sync::Arc;

use crate::codec::{DecodeError, Reader, Write};
use crate::digest::Digest;

/// One change of one key: a version of the key, or its removal. Cloning shares the bytes, so a
/// reader may keep an event without the lock of the state, whatever is compacted meanwhile.
///
/// ```text
/// event = revision i64 | sub u32 | kind u8 (0: put, 1: delete) | key bytes
///       | a put: create_revision i64 | version i64 | lease i64 | the rest: value
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Event(Arc<[u8]>);

/// Bytes in front of the key: revision, sub-revision, kind and the key's length.
const KEY_START: usize = 8 + 4 + 1 + 4;

/// Bytes between the key and the value.
const NUMBERS_BYTES: usize = 24;

const KIND_PUT: u8 = 0;
const KIND_DELETE: u8 = 1;

/// The numbers of a version beside its place in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// The revision at which the key was created.
    pub create_revision: i64,
    /// The number of puts since the key was created.
    pub version: i64,
    /// The lease; 0: none.
    pub lease: i64,
}

/// The place of an event in the order of all events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The revision of the transaction.
    pub revision: i64,
    /// The position of the event in the transaction, from 0.
    pub sub: u32,
}

impl Event {
    /// A version of a key.
    pub fn put(place: Place, key: &[u8], numbers: Version, value: &[u8]) -> Event {
        let mut bytes = start(place, KIND_PUT, key, NUMBERS_BYTES + value.len());
        bytes.put_i64(numbers.create_revision);
        bytes.put_i64(numbers.version);
        bytes.put_i64(numbers.lease);
        bytes.extend_from_slice(value);
        Event(bytes.into())
    }

    /// The removal of a key.
    pub fn delete(place: Place, key: &[u8]) -> Event {
        Event(start(place, KIND_DELETE, key, 0).into())
    }

    /// Reads an event that makes up the whole of `bytes`.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Event, DecodeError> {
        let mut reader = Reader::new(bytes);
        let (revision, _) = (reader.i64()?, reader.u32()?);
        let kind = reader.u8()?;
        if reader.bytes()?.is_empty() || revision < 1 {
            return Err(reader.bad("event", revision as u64));
        }
        match kind {
            KIND_PUT => {
                let (created, version) = (reader.i64()?, reader.i64()?);
                reader.i64()?;
                if created < 1 || created > revision || version < 1 {
                    return Err(reader.bad("version of a key", version as u64));
                }
            }
            KIND_DELETE => reader.finish()?,
            kind => return Err(reader.bad("kind of event", u64::from(kind))),
        }
        Ok(Event(bytes.into()))
    }

    /// The place in the order of all events.
    pub fn place(&self) -> Place {
        Place { revision: self.number(0), sub: u32::from_le_bytes(self.part(8)) }
    }

    /// The revision of the transaction that made it.
    pub fn revision(&self) -> i64 {
        self.number(0)
    }

    /// Whether it is the removal of the key.
    pub fn is_delete(&self) -> bool {
        self.0[12] == KIND_DELETE
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        &self.0[KEY_START..self.key_end()]
    }

    /// The numbers of a version. Zeros for a removal.
    pub fn numbers(&self) -> Version {
        if self.is_delete() {
            return Version { create_revision: 0, version: 0, lease: 0 };
        }
        let end = self.key_end();
        Version {
            create_revision: self.number(end),
            version: self.number(end + 8),
            lease: self.number(end + 16),
        }
    }

    /// The value. Empty for a removal.
    pub fn value(&self) -> &[u8] {
        match self.is_delete() {
            true => &[],
            false => &self.0[self.key_end() + NUMBERS_BYTES..],
        }
    }

    /// The whole event, as it stands in an image.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The term of the digest. A removal has one, too: it is part of the history.
    pub(crate) fn digest(&self) -> Digest {
        Digest::of_bytes(b'V', &self.0)
    }

    fn key_end(&self) -> usize {
        KEY_START + u32::from_le_bytes(self.part(13)) as usize
    }

    fn number(&self, at: usize) -> i64 {
        i64::from_le_bytes(self.part(at))
    }

    /// The bytes at an offset that the constructors have written.
    fn part<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut part = [0; N];
        part.copy_from_slice(&self.0[at..at + N]);
        part
    }
}

/// The bytes up to the end of the key, with room for `more`.
fn start(place: Place, kind: u8, key: &[u8], more: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(KEY_START + key.len() + more);
    bytes.put_i64(place.revision);
    bytes.put_u32(place.sub);
    bytes.put_u8(kind);
    bytes.put_bytes(key);
    bytes
}

impl fmt::Debug for Event {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = out.debug_struct(if self.is_delete() { "Delete" } else { "Put" });
        shown.field("revision", &self.revision()).field("key", &self.key().escape_ascii());
        if !self.is_delete() {
            shown.field("numbers", &self.numbers()).field("value_bytes", &self.value().len());
        }
        shown.finish()
    }
}
