//! Events: the versions of keys, each immutable and shared.

use core::fmt;
use std::sync::Arc;

use crate::codec::{DecodeError, Reader, Write};
use crate::digest::Digest;
use crate::limits::RESTORED_NUMBER_MAX;

/// One change of one key: a version of the key, or its removal. Cloning shares the bytes, so a
/// reader may keep an event without the lock of the state, whatever is compacted meanwhile.
///
/// ```text
/// event  = kind u8 ('V': put, 'D': delete) | revision | sub | key's length | key
///        | a put: revision - create_revision | version | lease | the rest: value
/// number = 7 bits in each byte, the lowest first; the highest bit is set where more follow; no
///          byte more than needed
/// ```
///
/// A million keys are as many allocations, so the numbers are short. The kind is also the tag of
/// the event's term of the digest, so that the term is the hash of the bytes as they are.
#[derive(Clone, PartialEq, Eq)]
pub struct Event(Arc<[u8]>);

const KIND_PUT: u8 = b'V';
const KIND_DELETE: u8 = b'D';

/// Bytes of the longest number: 64 bits.
const NUMBER_BYTES_MAX: usize = 10;

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
        let mut bytes = start(place, KIND_PUT, key, 3 * NUMBER_BYTES_MAX + value.len());
        put_number((place.revision - numbers.create_revision) as u64, &mut bytes);
        put_number(numbers.version as u64, &mut bytes);
        put_number(numbers.lease as u64, &mut bytes);
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
        let kind = reader.u8()?;
        let revision = read_number(&mut reader)? as i64;
        let sub = read_number(&mut reader)?;
        let key_bytes = read_number(&mut reader)?;
        let key = reader.take(usize::try_from(key_bytes).unwrap_or(usize::MAX))?;
        if u32::try_from(sub).is_err() {
            return Err(reader.bad("sub-revision", sub));
        }
        if key.is_empty() || revision < 1 {
            return Err(reader.bad("event", revision as u64));
        }
        match kind {
            KIND_PUT => {
                let since_create = read_number(&mut reader)?;
                let version = read_number(&mut reader)?;
                read_number(&mut reader)?;
                let is_version = (1..=RESTORED_NUMBER_MAX).contains(&version);
                if since_create >= revision as u64 || !is_version {
                    return Err(reader.bad("version of a key", version));
                }
            }
            KIND_DELETE => reader.finish()?,
            kind => return Err(reader.bad("kind of event", u64::from(kind))),
        }
        Ok(Event(bytes.into()))
    }

    /// The place in the order of all events.
    pub fn place(&self) -> Place {
        let mut at = 1;
        let revision = self.number(&mut at) as i64;
        Place { revision, sub: self.number(&mut at) as u32 }
    }

    /// The revision of the transaction that made it.
    pub fn revision(&self) -> i64 {
        self.number(&mut 1) as i64
    }

    /// Whether it is the removal of the key.
    pub fn is_delete(&self) -> bool {
        self.0[0] == KIND_DELETE
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        let (start, end) = self.key_range();
        &self.0[start..end]
    }

    /// The numbers of a version. Zeros for a removal.
    pub fn numbers(&self) -> Version {
        if self.is_delete() {
            return Version { create_revision: 0, version: 0, lease: 0 };
        }
        let (_, mut at) = self.key_range();
        let create_revision = self.revision() - self.number(&mut at) as i64;
        let version = self.number(&mut at) as i64;
        Version { create_revision, version, lease: self.number(&mut at) as i64 }
    }

    /// How many keys more exist after it than before: 1 for the first version of a key, -1 for a
    /// removal.
    pub(crate) fn key_count_change(&self) -> i64 {
        match self.is_delete() {
            true => -1,
            false => i64::from(self.numbers().version == 1),
        }
    }

    /// The value. Empty for a removal.
    pub fn value(&self) -> &[u8] {
        if self.is_delete() {
            return &[];
        }
        let (_, mut at) = self.key_range();
        for _ in 0..3 {
            self.number(&mut at);
        }
        &self.0[at..]
    }

    /// The whole event, as it is in an image.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The term of the digest. A removal has one, too: it is part of the history.
    pub(crate) fn digest(&self) -> Digest {
        Digest::from_tagged(&self.0)
    }

    /// Where the key begins and ends.
    fn key_range(&self) -> (usize, usize) {
        let mut at = 1;
        self.number(&mut at);
        self.number(&mut at);
        let key_bytes = self.number(&mut at) as usize;
        (at, at + key_bytes)
    }

    /// The number at this offset, which the constructors have written; moves behind it.
    fn number(&self, at: &mut usize) -> u64 {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.0[*at];
            *at += 1;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        number
    }
}

/// The bytes up to the end of the key, with room for `more`.
fn start(place: Place, kind: u8, key: &[u8], more: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1 + 3 * NUMBER_BYTES_MAX + key.len() + more);
    bytes.put_u8(kind);
    put_number(place.revision as u64, &mut bytes);
    put_number(u64::from(place.sub), &mut bytes);
    put_number(key.len() as u64, &mut bytes);
    bytes.extend_from_slice(key);
    bytes
}

fn put_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.put_u8(number as u8 | 0x80);
        number >>= 7;
    }
    out.put_u8(number as u8);
}

/// Reads a number that takes no byte more than needed: an event has one form.
fn read_number(reader: &mut Reader<'_>) -> Result<u64, DecodeError> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = reader.u8()?;
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits || (byte == 0 && shift > 0) {
            return Err(reader.bad("number", u64::from(byte)));
        }
        number |= bits << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(reader.bad("number", number))
}

impl fmt::Debug for Event {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = out.debug_struct(if self.is_delete() { "Delete" } else { "Put" });
        let key = format_args!("{}", self.key().escape_ascii());
        shown.field("revision", &self.revision()).field("key", &key);
        if !self.is_delete() {
            shown.field("numbers", &self.numbers()).field("value_bytes", &self.value().len());
        }
        shown.finish()
    }
}
