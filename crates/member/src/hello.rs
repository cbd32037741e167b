//! The hello: each server begins a link with it. It says who the server is, where its directory
//! stands, and which versions it knows.
//!
//! A hello is a list of tagged fields, so that members of two builds understand each other's: a
//! field that is new to a reader is skipped, or is *needed*, and the link is refused.
//!
//! Byte layout: `docs/formats.md`, "Hello".

use machine::entry::FEATURE_LEVEL;
use machine::{BootId, MemberId};
use storage::codec::{DecodeError, Reader, put_u64_list};
use storage::datadir::Birth;

use crate::limits::VOTERS_MAX;

/// The versions of the messages between members that this build speaks.
pub const MESSAGE_VERSIONS: VersionRange = VersionRange { min: 1, max: 1 };

/// The versions that a server knows: all from the lowest to the highest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionRange {
    /// The lowest, from 1.
    pub min: u16,
    /// The highest.
    pub max: u16,
}

impl VersionRange {
    /// The highest version that both know; none if there is none.
    pub fn common(self, other: VersionRange) -> Option<u16> {
        let highest = self.max.min(other.max);
        (highest >= self.min.max(other.min)).then_some(highest)
    }
}

/// Who is at the other end of a link, or at this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Its number in the configuration (`server.N`).
    pub server: u64,
    /// Its directory's member id.
    pub member: MemberId,
    /// Which start of that directory; 0 while it is unborn.
    pub boot: BootId,
    /// The numbers of the servers that are to vote, as it is configured, ascending.
    pub servers: Vec<u64>,
    /// How its ensemble began; none while its directory is unborn.
    pub birth: Option<Birth>,
    /// The versions of messages that it speaks.
    pub messages: VersionRange,
    /// The highest level that it knows; it knows all below.
    pub level_max: u16,
    /// Fields that this build does not know, by ascending tags. They are part of what the proofs of
    /// a handshake cover.
    pub unknown: Vec<(u16, Vec<u8>)>,
}

/// Set in the tag of a field without which a hello is misunderstood.
const NEEDED: u16 = 0x8000;

const TAG_SERVER: u16 = 1;
const TAG_MEMBER: u16 = 2;
const TAG_BOOT: u16 = 3;
const TAG_SERVERS: u16 = 4;
const TAG_BIRTH: u16 = 5;
const TAG_MESSAGES: u16 = 6;
const TAG_LEVEL: u16 = 7;

/// Fields of a hello at most.
const FIELDS_MAX: u16 = 64;

impl Hello {
    /// The hello of this build, for a directory that is not born.
    pub fn unborn(server: u64, member: MemberId, servers: Vec<u64>) -> Hello {
        Hello {
            server,
            member,
            boot: BootId(0),
            servers,
            birth: None,
            messages: MESSAGE_VERSIONS,
            level_max: FEATURE_LEVEL,
            unknown: Vec::new(),
        }
    }

    /// The hello of this build, for a directory that is born and was started.
    pub fn born(
        server: u64,
        member: MemberId,
        boot: BootId,
        servers: Vec<u64>,
        birth: Birth,
    ) -> Hello {
        Hello { boot, birth: Some(birth), ..Hello::unborn(server, member, servers) }
    }

    /// Appends its bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        assert!(self.servers.len() <= VOTERS_MAX, "more servers than the limit");
        let mut servers = Vec::new();
        put_u64_list(&mut servers, &self.servers);
        let messages = [self.messages.min.to_le_bytes(), self.messages.max.to_le_bytes()].concat();
        let mut fields = vec![
            (TAG_SERVER, self.server.to_le_bytes().to_vec()),
            (TAG_MEMBER, self.member.0.to_le_bytes().to_vec()),
            (TAG_BOOT, self.boot.0.to_le_bytes().to_vec()),
            (TAG_SERVERS, servers),
        ];
        if let Some(birth) = &self.birth {
            assert!(birth.voters.len() <= VOTERS_MAX, "more voters than the limit");
            let mut bytes = birth.cluster_id.to_le_bytes().to_vec();
            put_u64_list(&mut bytes, &birth.voters);
            fields.push((TAG_BIRTH, bytes));
        }
        fields.push((TAG_MESSAGES, messages));
        fields.push((TAG_LEVEL, self.level_max.to_le_bytes().to_vec()));
        fields.extend(self.unknown.iter().cloned());
        let count = u16::try_from(fields.len()).expect("fields are bounded far below 2^16");
        out.extend_from_slice(&count.to_le_bytes());
        for (tag, bytes) in fields {
            let length = u16::try_from(bytes.len()).expect("a field is bounded far below 2^16");
            out.extend_from_slice(&tag.to_le_bytes());
            out.extend_from_slice(&length.to_le_bytes());
            out.extend_from_slice(&bytes);
        }
    }

    /// Reads one.
    ///
    /// # Errors
    /// The bytes are no hello, or a needed field is missing or not known here.
    pub fn decode(reader: &mut Reader) -> Result<Hello, DecodeError> {
        let count = reader.u16()?;
        if count > FIELDS_MAX {
            return Err(reader.bad("too many fields"));
        }
        let mut known = [None; TAG_LEVEL as usize + 1];
        let mut unknown = Vec::new();
        let mut last = 0;
        for _ in 0..count {
            let (tag, length) = (reader.u16()?, reader.u16()?);
            if tag & !NEEDED <= last {
                return Err(reader.bad("the fields are not ascending"));
            }
            last = tag & !NEEDED;
            let bytes = reader.take(usize::from(length))?;
            match known.get_mut(usize::from(tag)) {
                Some(place) => *place = Some(bytes),
                None if tag & NEEDED != 0 => {
                    return Err(reader.bad("a needed field is not known to this version"));
                }
                None => unknown.push((tag, bytes.to_vec())),
            }
        }
        let field = |tag: u16| -> Result<Reader<'_>, DecodeError> {
            let bytes = known[usize::from(tag)];
            Ok(Reader::new(bytes.ok_or_else(|| reader.bad("a needed field is missing"))?))
        };
        let birth = match known[usize::from(TAG_BIRTH)] {
            Some(bytes) => Some(whole(&mut Reader::new(bytes), decode_birth)?),
            None => None,
        };
        Ok(Hello {
            server: whole(&mut field(TAG_SERVER)?, Reader::u64)?,
            member: whole(&mut field(TAG_MEMBER)?, decode_member)?,
            boot: BootId(whole(&mut field(TAG_BOOT)?, Reader::u64)?),
            servers: whole(&mut field(TAG_SERVERS)?, decode_servers)?,
            birth,
            messages: whole(&mut field(TAG_MESSAGES)?, decode_range)?,
            level_max: whole(&mut field(TAG_LEVEL)?, decode_level)?,
            unknown,
        })
    }
}

/// Reads a field to its end.
fn whole<'a, T>(
    reader: &mut Reader<'a>,
    decode: impl FnOnce(&mut Reader<'a>) -> Result<T, DecodeError>,
) -> Result<T, DecodeError> {
    let value = decode(reader)?;
    reader.finish().map(|()| value)
}

fn decode_member(reader: &mut Reader) -> Result<MemberId, DecodeError> {
    match reader.u64()? {
        0 => Err(reader.bad("the member id is 0")),
        member => Ok(MemberId(member)),
    }
}

fn decode_servers(reader: &mut Reader) -> Result<Vec<u64>, DecodeError> {
    let servers = reader.u64_list(VOTERS_MAX)?;
    match servers.is_sorted_by(|before, after| before < after) {
        true => Ok(servers),
        false => Err(reader.bad("the servers are not ascending")),
    }
}

fn decode_birth(reader: &mut Reader) -> Result<Birth, DecodeError> {
    let birth = Birth { cluster_id: reader.u128()?, voters: reader.u64_list(VOTERS_MAX)? };
    if birth.voters.is_empty() || birth.voters.contains(&0) {
        return Err(reader.bad("the first voters are none, or nobody"));
    }
    match birth.voters.is_sorted_by(|before, after| before < after) {
        true => Ok(birth),
        false => Err(reader.bad("the first voters are not ascending")),
    }
}

fn decode_range(reader: &mut Reader) -> Result<VersionRange, DecodeError> {
    let range = VersionRange { min: reader.u16()?, max: reader.u16()? };
    match range.min > 0 && range.min <= range.max {
        true => Ok(range),
        false => Err(reader.bad("a range of versions has none")),
    }
}

fn decode_level(reader: &mut Reader) -> Result<u16, DecodeError> {
    match reader.u16()? {
        0 => Err(reader.bad("the level is 0")),
        level => Ok(level),
    }
}

#[cfg(test)]
mod tests;
