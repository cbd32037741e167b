//! Events: the puts and deletions of keys. Each event is immutable, and shared by everything that
//! needs it.

use core::fmt;
use std::sync::Arc;

use crate::codec::{DecodeError, Reader, Write};
use crate::digest::Digest;
use crate::limits::RESTORED_NUMBER_MAX;

/// One change of one key: a put, which makes a version of the key, or the key's deletion. A clone
/// shares the bytes, so a reader may keep an event after it has released the state's lock, whatever
/// is compacted meanwhile.
///
/// ```text
/// event  = kind u8 ('V': put, 'D': delete) | revision | sub | key's length | key
///        | a put: revision - create_revision | version | lease | the rest: value
/// number = 7 bits in each byte, the lowest first; the highest bit is set where more follow; no
///          byte more than needed
/// ```
///
/// A million keys mean a million allocations, so numbers are encoded in few bytes. The kind is also
/// the tag of the event's contribution to the digest: the contribution is the hash of these bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Event(Arc<[u8]>);

const KIND_PUT: u8 = b'V';
const KIND_DELETE: u8 = b'D';

/// Bytes of the longest encoded number, one of 64 bits.
const NUMBER_BYTES_MAX: usize = 10;

/// The numbers that etcd shows with a version of a key, in addition to the revision that made the
/// version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// The revision at which the key was created.
    pub create_revision: i64,
    /// How many puts there were since the key was created, this one included.
    pub version: i64,
    /// The id of the lease; 0 if the key has none.
    pub lease: i64,
}

/// The place of an event in the order of all events of the store: by revision, then by position in
/// the transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The revision of the event's transaction.
    pub revision: i64,
    /// The position of the event in the transaction, from 0.
    pub sub: u32,
}

impl Event {
    /// A put: a new version of a key.
    pub fn put(place: Place, key: &[u8], numbers: Version, value: &[u8]) -> Event {
        let mut bytes = start(place, KIND_PUT, key, 3 * NUMBER_BYTES_MAX + value.len());
        put_number((place.revision - numbers.create_revision) as u64, &mut bytes);
        put_number(numbers.version as u64, &mut bytes);
        put_number(numbers.lease as u64, &mut bytes);
        bytes.extend_from_slice(value);
        Event(bytes.into())
    }

    /// The deletion of a key.
    pub fn delete(place: Place, key: &[u8]) -> Event {
        Event(start(place, KIND_DELETE, key, 0).into())
    }

    /// Decodes an event from exactly these bytes.
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

    /// The event's place in the order of all events.
    pub fn place(&self) -> Place {
        let mut at = 1;
        let revision = self.number(&mut at) as i64;
        Place { revision, sub: self.number(&mut at) as u32 }
    }

    /// The revision of the event's transaction.
    pub fn revision(&self) -> i64 {
        self.number(&mut 1) as i64
    }

    /// Whether the event deletes its key.
    pub fn is_delete(&self) -> bool {
        self.0[0] == KIND_DELETE
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        let (start, end) = self.key_range();
        &self.0[start..end]
    }

    /// The numbers of the version. All are 0 for a deletion.
    pub fn numbers(&self) -> Version {
        if self.is_delete() {
            return Version { create_revision: 0, version: 0, lease: 0 };
        }
        let (_, mut at) = self.key_range();
        let create_revision = self.revision() - self.number(&mut at) as i64;
        let version = self.number(&mut at) as i64;
        Version { create_revision, version, lease: self.number(&mut at) as i64 }
    }

    /// By how much the event changes the number of existing keys: 1 if it creates its key, -1 if it
    /// deletes it, else 0.
    pub(crate) fn key_count_change(&self) -> i64 {
        match self.is_delete() {
            true => -1,
            false => i64::from(self.numbers().version == 1),
        }
    }

    /// The value. Empty for a deletion.
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

    /// The encoded event, as in an image.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The event's contribution to the digest. A deletion has one too, since it is a part of the
    /// history.
    pub(crate) fn digest(&self) -> Digest {
        Digest::from_tagged(&self.0)
    }

    /// The offsets where the key begins and ends.
    fn key_range(&self) -> (usize, usize) {
        let mut at = 1;
        self.number(&mut at);
        self.number(&mut at);
        let key_bytes = self.number(&mut at) as usize;
        (at, at + key_bytes)
    }

    /// The number at offset `at`, which a constructor wrote. Moves `at` behind it.
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

/// The bytes of an event up to the end of its key, with capacity for `more` bytes.
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

/// Reads a number. Refuses one with more bytes than needed, so that each event has only one
/// encoding.
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
