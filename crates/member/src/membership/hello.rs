//! Encodes and reads the hello, which is the first message on each link. In it a server describes
//! itself: its number, the state of its directory, the message versions and levels it knows, and
//! the level of its ensemble.
//!
//! A hello is a list of tagged fields, so members of two builds can understand each other. A reader
//! skips a field that it does not know. If such a field is marked as *needed*, the reader refuses
//! the link instead.
//!
//! Byte layout: `docs/formats.md`, "Hello".

use machine::limits::VERSION_BYTES_MAX;
use machine::{BootId, Level, MemberId, StatedLevel};
use storage::codec::{DecodeError, Reader, put_u64_list};
use storage::datadir::{Acceptor, Birth};
use thiserror::Error;

use crate::membership::limits::{
    CLIENT_URL_BYTES_MAX, CLIENT_URLS_MAX, NAME_BYTES_MAX, VOTERS_MAX,
};

/// A range of versions that a server knows, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionRange {
    /// The lowest version, at least 1.
    pub min: u16,
    /// The highest version.
    pub max: u16,
}

impl VersionRange {
    /// The highest version that is in both ranges; `None` if they share no version.
    pub fn common(self, other: VersionRange) -> Option<u16> {
        let highest = self.max.min(other.max);
        (highest >= self.min.max(other.min)).then_some(highest)
    }
}

/// The message versions and levels that a build knows. A hello contains them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// The versions of the messages between members that the build speaks.
    pub messages: VersionRange,
    /// The highest level that the build knows; it knows all below.
    pub level_max: Level,
    /// The version of the program, for people; empty if unknown.
    pub program: String,
}

impl Known {
    /// The message versions and levels of this build, with `level_max` as its highest level.
    pub fn up_to(level_max: Level) -> Known {
        let program = env!("CARGO_PKG_VERSION").to_string();
        Known { messages: VersionRange { min: 1, max: 1 }, level_max, program }
    }
}

/// A version of the handshake in which two servers prove that they know a shared secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeVersion {
    /// Version 1. A proof is a MAC with the secret as its key. The dialling side gets a proof
    /// before it has proved anything itself, so it can try secrets offline.
    Old,
    /// Version 2. The servers agree on a key first, so no secret can be tried offline.
    New,
}

/// The versions of the handshake that a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshakes {
    /// Whether the server's build knows the new version.
    pub knows_new: bool,
    /// Whether the server speaks the old version.
    pub has_old: bool,
}

impl Handshakes {
    /// The versions of a server whose ensemble is at `level`; `None` for an unborn directory. Below
    /// level 4 a server also speaks the old version, for members of an older build, if `may_be_old`
    /// permits it. From level 4 on every member knows the new version.
    pub fn of(knows_new: bool, may_be_old: bool, level: Option<Level>) -> Handshakes {
        let is_over = level >= Some(Level::TOKENS);
        Handshakes { knows_new, has_old: !knows_new || (may_be_old && !is_over) }
    }

    /// Whether the server accepts a link that begins with this version.
    pub fn takes(self, version: HandshakeVersion) -> bool {
        match version {
            HandshakeVersion::Old => self.has_old,
            HandshakeVersion::New => self.knows_new,
        }
    }

    /// The versions that the server dials with, in order: it tries the next one if the other end
    /// does not understand the one before.
    pub fn dialled(self) -> impl Iterator<Item = HandshakeVersion> {
        let versions = [HandshakeVersion::New, HandshakeVersion::Old];
        versions.into_iter().filter(move |version| self.takes(*version))
    }
}

/// Why two servers cannot speak to each other. Both sides report it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Incompatibility {
    /// The two servers have no version of the messages in common.
    #[error(
        "server {} speaks versions {} to {} of the messages between members, this server {} to \
         {}: install a version in between first",
        .server, .theirs.min, .theirs.max, .own.min, .own.max
    )]
    Messages {
        /// The number of the other server.
        server: u64,
        /// The versions that this server knows.
        own: VersionRange,
        /// The versions that the other server knows.
        theirs: VersionRange,
    },
    /// The other server's ensemble is at a level that this server does not know.
    #[error(
        "the ensemble of server {} is at level {}, and this server knows up to {level_max}: \
         install version {} or later, or raise level_max where it is set",
        .server, .stated.level, .stated.version
    )]
    Older {
        /// The number of the other server.
        server: u64,
        /// The level of the other server's ensemble.
        stated: StatedLevel,
        /// The highest level that this server knows.
        level_max: Level,
    },
    /// This server's ensemble is at a level that the other server does not know.
    #[error(
        "the ensemble is at level {}, and server {} knows up to {level_max}: \
         install version {} or later there, or raise level_max where it is set",
        .stated.level, .server, .stated.version
    )]
    Newer {
        /// The number of the other server.
        server: u64,
        /// The level of this server's ensemble.
        stated: StatedLevel,
        /// The highest level that the other server knows.
        level_max: Level,
    },
}

/// A server's description of itself, sent to the other end of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The server's number in the list of servers (`server.N`); 0 if the server does not know its
    /// number yet, and asks for it.
    pub server: u64,
    /// The member id of the server's directory.
    pub member: MemberId,
    /// The number of the start of that directory; 0 while the directory is unborn.
    pub boot: BootId,
    /// The numbers of the servers that are to vote, from the server's configuration, ascending.
    pub servers: Vec<u64>,
    /// The id and the first voters of the ensemble; `None` before its birth.
    pub birth: Option<Birth>,
    /// The message versions and levels that the server's build knows.
    pub known: Known,
    /// The level of the ensemble, from this member's state; `None` before the ensemble's birth.
    pub level: Option<StatedLevel>,
    /// The URLs at which etcd's clients reach the server; empty if it names none.
    pub client_urls: Vec<String>,
    /// The URLs at which the other servers reach the server; empty if it names none.
    pub peer_urls: Vec<String>,
    /// The server's name, as etcd's clients see it; empty if it says none.
    pub name: String,
    /// The promise and the accepted birth that the directory has on disk; `None` if the server does
    /// not take part in an agreement on the birth.
    pub acceptor: Option<Acceptor>,
    /// Fields that this build does not know, by ascending tags. They are kept because the proofs of
    /// a handshake cover them, too.
    pub unknown: Vec<(u16, Vec<u8>)>,
}

/// The bit in a tag that marks the field as needed: a reader that does not know the field refuses
/// the link.
const NEEDED: u16 = 0x8000;

const TAG_SERVER: u16 = 1;
const TAG_MEMBER: u16 = 2;
const TAG_BOOT: u16 = 3;
const TAG_SERVERS: u16 = 4;
const TAG_BIRTH: u16 = 5;
const TAG_MESSAGES: u16 = 6;
const TAG_LEVEL_MAX: u16 = 7;
const TAG_LEVEL: u16 = 8;
const TAG_PROGRAM: u16 = 9;
const TAG_CLIENT_URLS: u16 = 10;
const TAG_PEER_URLS: u16 = 11;
const TAG_NAME: u16 = 12;
// 13 and 14 are reserved for changes of the members.
const TAG_ACCEPTOR: u16 = 15;

/// The most fields that a hello may have.
const FIELDS_MAX: u16 = 64;

impl Hello {
    /// The hello of this build, for a directory that is not born.
    pub fn unborn(server: u64, member: MemberId, servers: Vec<u64>, known: Known) -> Hello {
        Hello {
            server,
            member,
            boot: BootId(0),
            servers,
            birth: None,
            known,
            level: None,
            client_urls: Vec::new(),
            peer_urls: Vec::new(),
            name: String::new(),
            acceptor: None,
            unknown: Vec::new(),
        }
    }

    /// This hello, of an unborn directory that takes part in an agreement on the birth.
    pub fn agreeing(self, acceptor: Acceptor) -> Hello {
        Hello { acceptor: Some(acceptor), ..self }
    }

    /// This hello with the URLs at which etcd's clients reach the server, at most
    /// [`CLIENT_URLS_MAX`] of them.
    pub fn with_client_urls(self, client_urls: Vec<String>) -> Hello {
        Hello { client_urls, ..self }
    }

    /// This hello with the URLs at which the other servers reach the server, and with its name.
    /// `None` if a hello has no room for them, or if logs could not show them.
    pub fn with_peer_urls(self, peer_urls: Vec<String>, name: String) -> Option<Hello> {
        let is_good = |url: &String| check_url(url.as_bytes()).is_ok();
        let has_room = peer_urls.len() <= CLIENT_URLS_MAX && peer_urls.iter().all(is_good);
        (has_room && is_name(&name)).then_some(Hello { peer_urls, name, ..self })
    }

    /// This hello after the directory is born and was started, with the level of its state.
    pub fn born(self, boot: BootId, birth: Birth, level: StatedLevel) -> Hello {
        Hello { boot, birth: Some(birth), level: Some(level), acceptor: None, ..self }
    }

    /// Decides which version of the messages to speak on the link: the highest that both servers
    /// know.
    ///
    /// # Errors
    /// The servers have no version in common, or one of them does not know the level of the other's
    /// ensemble.
    pub fn agree(&self, other: &Hello) -> Result<u16, Incompatibility> {
        let server = other.server;
        let is_above = |stated: &&StatedLevel, known: &Known| stated.level > known.level_max;
        if let Some(stated) = other.level.as_ref().filter(|it| is_above(it, &self.known)) {
            let (stated, level_max) = (stated.clone(), self.known.level_max);
            return Err(Incompatibility::Older { server, stated, level_max });
        }
        if let Some(stated) = self.level.as_ref().filter(|it| is_above(it, &other.known)) {
            let (stated, level_max) = (stated.clone(), other.known.level_max);
            return Err(Incompatibility::Newer { server, stated, level_max });
        }
        let (own, theirs) = (self.known.messages, other.known.messages);
        own.common(theirs).ok_or(Incompatibility::Messages { server, own, theirs })
    }

    /// Appends the bytes of the hello.
    pub fn encode(&self, out: &mut Vec<u8>) {
        assert!(self.servers.len() <= VOTERS_MAX, "more servers than the limit");
        let mut servers = Vec::new();
        put_u64_list(&mut servers, &self.servers);
        let Known { messages, level_max, program } = &self.known;
        let messages = [messages.min.to_le_bytes(), messages.max.to_le_bytes()].concat();
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
        fields.push((TAG_LEVEL_MAX, level_max.number().to_le_bytes().to_vec()));
        if let Some(StatedLevel { level, version }) = &self.level {
            assert!(version.len() <= VERSION_BYTES_MAX, "a longer version than the limit");
            let bytes = [&level.number().to_le_bytes()[..], version.as_bytes()].concat();
            fields.push((TAG_LEVEL, bytes));
        }
        if !program.is_empty() {
            assert!(program.len() <= VERSION_BYTES_MAX, "a longer version than the limit");
            fields.push((TAG_PROGRAM, program.as_bytes().to_vec()));
        }
        if !self.client_urls.is_empty() {
            fields.push((TAG_CLIENT_URLS, encoded_urls(&self.client_urls)));
        }
        if !self.peer_urls.is_empty() {
            fields.push((TAG_PEER_URLS, encoded_urls(&self.peer_urls)));
        }
        if !self.name.is_empty() {
            assert!(self.name.len() <= NAME_BYTES_MAX, "a longer name than the limit");
            fields.push((TAG_NAME, self.name.as_bytes().to_vec()));
        }
        if let Some(acceptor) = &self.acceptor {
            let voters = acceptor.accepted.iter().map(|(_, birth)| birth.voters.len());
            assert!(voters.sum::<usize>() <= VOTERS_MAX, "more voters than the limit");
            let mut bytes = Vec::new();
            acceptor.encode(&mut bytes);
            fields.push((TAG_ACCEPTOR, bytes));
        }
        fields.extend(self.unknown.iter().cloned());
        fields.sort_by_key(|(tag, _)| *tag & !NEEDED);
        let count = u16::try_from(fields.len()).expect("fields are bounded far below 2^16");
        out.extend_from_slice(&count.to_le_bytes());
        for (tag, bytes) in fields {
            let length = u16::try_from(bytes.len()).expect("a field is bounded far below 2^16");
            out.extend_from_slice(&tag.to_le_bytes());
            out.extend_from_slice(&length.to_le_bytes());
            out.extend_from_slice(&bytes);
        }
    }

    /// Reads a hello.
    ///
    /// # Errors
    /// The bytes are not a hello, or a needed field is missing or unknown here.
    pub fn decode(reader: &mut Reader) -> Result<Hello, DecodeError> {
        let (known, unknown) = split_fields(reader)?;
        let field = |tag: u16| -> Result<Reader<'_>, DecodeError> {
            let bytes = known[usize::from(tag)];
            Ok(Reader::new(bytes.ok_or_else(|| reader.bad("a needed field is missing"))?))
        };
        let birth = match known[usize::from(TAG_BIRTH)] {
            Some(bytes) => Some(whole(&mut Reader::new(bytes), decode_birth)?),
            None => None,
        };
        let level = match known[usize::from(TAG_LEVEL)] {
            Some(bytes) => Some(decode_stated_level(&mut Reader::new(bytes))?),
            None => None,
        };
        let program = match known[usize::from(TAG_PROGRAM)] {
            Some([]) => return Err(reader.bad("the name of a version is none")),
            Some(bytes) => decode_version(&mut Reader::new(bytes))?,
            None => String::new(),
        };
        let urls = |tag: u16| match known[usize::from(tag)] {
            Some(bytes) => decode_urls(&mut Reader::new(bytes)),
            None => Ok(Vec::new()),
        };
        let name = match known[usize::from(TAG_NAME)] {
            Some(bytes) => decode_name(&mut Reader::new(bytes))?,
            None => String::new(),
        };
        let acceptor = match known[usize::from(TAG_ACCEPTOR)] {
            Some(bytes) => Some(Acceptor::decode(&mut Reader::new(bytes), VOTERS_MAX)?),
            None => None,
        };
        Ok(Hello {
            server: whole(&mut field(TAG_SERVER)?, Reader::u64)?,
            member: whole(&mut field(TAG_MEMBER)?, decode_member)?,
            boot: BootId(whole(&mut field(TAG_BOOT)?, Reader::u64)?),
            servers: whole(&mut field(TAG_SERVERS)?, decode_servers)?,
            birth,
            known: Known {
                messages: whole(&mut field(TAG_MESSAGES)?, decode_range)?,
                level_max: whole(&mut field(TAG_LEVEL_MAX)?, decode_level)?,
                program,
            },
            level,
            client_urls: urls(TAG_CLIENT_URLS)?,
            peer_urls: urls(TAG_PEER_URLS)?,
            name,
            acceptor,
            unknown,
        })
    }
}

/// The bytes of each known field by its tag, and the fields that this build does not know.
type SplitFields<'a> = ([Option<&'a [u8]>; TAG_ACCEPTOR as usize + 1], Vec<(u16, Vec<u8>)>);

fn split_fields<'a>(reader: &mut Reader<'a>) -> Result<SplitFields<'a>, DecodeError> {
    let count = reader.u16()?;
    if count > FIELDS_MAX {
        return Err(reader.bad("too many fields"));
    }
    let mut known = [None; TAG_ACCEPTOR as usize + 1];
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
            Some(place) if tag <= TAG_NAME || tag == TAG_ACCEPTOR => {
                *place = Some(bytes);
            }
            _ if tag & NEEDED != 0 => {
                return Err(reader.bad("a needed field is not known to this version"));
            }
            _ => unknown.push((tag, bytes.to_vec())),
        }
    }
    Ok((known, unknown))
}

/// Encodes the URLs one after the other, each behind its length in 2 bytes.
fn encoded_urls(urls: &[String]) -> Vec<u8> {
    assert!(urls.len() <= CLIENT_URLS_MAX, "more URLs than the limit");
    let mut out = Vec::new();
    for url in urls {
        assert!(url.len() <= CLIENT_URL_BYTES_MAX, "a longer URL than the limit");
        out.extend_from_slice(&(url.len() as u16).to_le_bytes());
        out.extend_from_slice(url.as_bytes());
    }
    out
}

/// Reads what [`encoded_urls`] wrote, to the end of the field.
fn decode_urls(reader: &mut Reader<'_>) -> Result<Vec<String>, DecodeError> {
    let mut urls = Vec::new();
    while reader.remaining() > 0 {
        let bytes = usize::from(reader.u16()?);
        if urls.len() == CLIENT_URLS_MAX {
            return Err(reader.bad("URLs are too many"));
        }
        let url = reader.take(bytes)?;
        check_url(url).map_err(|why| reader.bad(why))?;
        urls.push(String::from_utf8_lossy(url).into_owned());
    }
    match urls.is_empty() {
        true => Err(reader.bad("URLs are none")),
        false => Ok(urls),
    }
}

/// Checks a URL of a hello: logs show it.
fn check_url(url: &[u8]) -> Result<(), &'static str> {
    if url.is_empty() || url.len() > CLIENT_URL_BYTES_MAX {
        return Err("a URL is empty or too long");
    }
    match url.iter().all(u8::is_ascii_graphic) {
        true => Ok(()),
        false => Err("a URL is not visible ASCII"),
    }
}

/// Whether this may be the name of a server in a hello, or that it says none.
fn is_name(name: &str) -> bool {
    name.len() <= NAME_BYTES_MAX && !name.chars().any(char::is_control)
}

/// Reads the remaining bytes as the name of a server.
fn decode_name(reader: &mut Reader<'_>) -> Result<String, DecodeError> {
    match core::str::from_utf8(reader.take(reader.remaining())?) {
        Ok(name) if !name.is_empty() && is_name(name) => Ok(name.to_string()),
        _ => Err(reader.bad("the name of the server is none")),
    }
}

/// Decodes a value that must fill the whole field.
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

fn decode_level(reader: &mut Reader) -> Result<Level, DecodeError> {
    Level::from_number(reader.u16()?).ok_or_else(|| reader.bad("the level is 0"))
}

fn decode_stated_level(reader: &mut Reader) -> Result<StatedLevel, DecodeError> {
    let level = decode_level(reader)?;
    Ok(StatedLevel { level, version: decode_version(reader)? })
}

/// Reads the remaining bytes as the name of a version: visible ASCII only, since logs show it.
fn decode_version(reader: &mut Reader) -> Result<String, DecodeError> {
    let bytes = reader.take(reader.remaining())?;
    let is_shown = |byte: &u8| byte.is_ascii_graphic();
    match core::str::from_utf8(bytes) {
        Ok(version) if bytes.len() <= VERSION_BYTES_MAX && bytes.iter().all(is_shown) => {
            Ok(version.to_string())
        }
        _ => Err(reader.bad("the name of a version is none")),
    }
}

#[cfg(test)]
mod tests;
