//! The payload of a log entry: a header and batches of commands.
//!
//! A batch holds the commands that one member handed over at once. Its name is the member, the boot
//! (one start of the member's process), and a sequence number. A member that does not know whether
//! its batch was committed sends the whole batch again. A connection runtime builds a batch in its
//! final bytes, Loop writes the name into the batch, and the leader's Loop packs waiting batches
//! into one entry. A batch ends with its identity table, a list of lists of identities, each list
//! once. A command holds the position of its sender's list in that table.
//!
//! ```text
//! entry  = version u8 | 0 u8 | level u16 | group u32 | time_ms i64 | batch count u32 | batch*
//! batch  = bytes of the rest u32 | member u64 | boot u64 | sequence u64
//!        | command count u32 | bytes of commands u32 | command* | identity table
//! command = bytes of the rest u32 | identity list u16 | connection u64 | body
//! identity table = list count u16 | list*;  list = count u16 | (scheme text, id text)*
//! ```
//! All little-endian; text is a 32-bit length and UTF-8. `group` is always 0.

mod forwarded;
mod nothing;
mod oversize;

use bytes::Bytes;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::codec::{DecodeError, Reader, Write};
use crate::command::Command;
use crate::control::command::{Command as ControlCommand, decode_level};
use crate::ids::{BootId, ConnectionId, MemberId, Origin};
use crate::level::Level;
use crate::limits::{
    BATCH_ALONE_BYTES_MAX, BATCH_BYTES_MAX, BATCH_COMMANDS_MAX, ENTRY_BYTES_MAX, IDENTITIES_MAX,
    IDENTITY_LISTS_MAX,
};
use crate::zk::acl::Identity;

pub use forwarded::may_be_forwarded;
pub use nothing::{Replaced, replace_by_nothing};
pub use oversize::refuse_oversize;

/// Version of the entry format.
pub const FORMAT_VERSION: u8 = 1;

/// Bytes before the first batch.
pub const HEADER_BYTES: usize = 20;

const _: () = assert!(HEADER_BYTES + BATCH_ALONE_BYTES_MAX == ENTRY_BYTES_MAX);

/// Bytes of a batch before its first command.
const BATCH_HEADER_BYTES: usize = 36;

/// The header of an entry. Its fields apply to all commands of the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryHeader {
    /// The lowest level that allows all commands of the entry. A member checks that it knows this
    /// level before it applies the commands.
    pub level: Level,
    /// Which of several logs the entry belongs to. Always 0: there is only one log so far.
    pub group: u32,
    /// The leader's wall clock in ms since 1970. The commands take the times of znodes, and the
    /// ends of times to live, from it. It may be lower than in the entry before.
    pub time_ms: i64,
    /// How many batches follow.
    pub batch_count: u32,
}

/// Builds one batch in its final bytes. Each connection runtime has one, and Loop has one for its
/// own commands.
pub struct BatchBuilder {
    bytes: Vec<u8>,
    command_count: usize,
    level: Level,
    lists: Vec<u8>,
    list_count: u16,
    list_index: HashMap<Vec<u8>, u16, FixedState>,
}

/// Why a command was not added to a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAdded {
    /// With the command, the batch would have too many commands or too many bytes.
    Full,
    /// No entry can hold the command, which has this many bytes.
    TooLarge {
        /// The size of the encoded command.
        bytes: usize,
    },
}

/// A finished batch that Loop has not stamped yet.
#[derive(Clone, Debug)]
pub struct UnstampedBatch {
    bytes: Vec<u8>,
    /// The number of commands.
    pub command_count: usize,
    /// The lowest level that allows all commands of the batch.
    pub level: Level,
}

impl Default for BatchBuilder {
    fn default() -> Self {
        BatchBuilder {
            bytes: vec![0; BATCH_HEADER_BYTES],
            command_count: 0,
            level: Level::FIRST,
            lists: Vec::new(),
            list_count: 0,
            list_index: HashMap::with_hasher(FixedState::default()),
        }
    }
}

impl BatchBuilder {
    /// Adds a command sent by `connection` with the identities that [`encode_identities`] wrote.
    ///
    /// Checks the exact size of the encoded command, because no limit on a request's size bounds
    /// the size of the command made from it.
    ///
    /// # Errors
    /// The command is not added: it must go into the next batch, or no entry can hold it.
    pub fn push(
        &mut self,
        connection: ConnectionId,
        identities: &[u8],
        command: &Command<'_>,
    ) -> Result<(), NotAdded> {
        if self.command_count >= BATCH_COMMANDS_MAX {
            return Err(NotAdded::Full);
        }
        let known_list = self.list_index.get(identities).copied();
        let start = self.bytes.len();
        self.bytes.put_u32(0);
        self.bytes.put_u16(known_list.unwrap_or(self.list_count));
        self.bytes.put_u64(connection.0);
        command.encode(&mut self.bytes);
        let command_bytes = self.bytes.len() - start;
        let alone_bytes = BATCH_HEADER_BYTES + command_bytes + 2 + identities.len();
        let not_added = if alone_bytes > BATCH_ALONE_BYTES_MAX {
            Some(NotAdded::TooLarge { bytes: command_bytes })
        } else if self.command_count > 0 && self.bytes.len() > BATCH_BYTES_MAX {
            Some(NotAdded::Full)
        } else {
            None
        };
        if let Some(not_added) = not_added {
            self.bytes.truncate(start);
            return Err(not_added);
        }
        patch_length(&mut self.bytes, start);
        if known_list.is_none() {
            self.lists.extend_from_slice(identities);
            self.list_index.insert(identities.to_vec(), self.list_count);
            self.list_count += 1;
        }
        self.command_count += 1;
        self.level = self.level.max(command.level());
        Ok(())
    }

    /// The number of commands.
    pub fn command_count(&self) -> usize {
        self.command_count
    }

    /// Returns the finished batch, and starts a new one.
    pub fn finish(&mut self) -> UnstampedBatch {
        let mut built = core::mem::take(self);
        let command_bytes = built.bytes.len() - BATCH_HEADER_BYTES;
        built.bytes.put_u16(built.list_count);
        built.bytes.extend_from_slice(&built.lists);
        put_at(&mut built.bytes, 28, &(built.command_count as u32).to_le_bytes());
        put_at(&mut built.bytes, 32, &(command_bytes as u32).to_le_bytes());
        patch_length(&mut built.bytes, 0);
        UnstampedBatch {
            bytes: built.bytes,
            command_count: built.command_count,
            level: built.level,
        }
    }
}

impl UnstampedBatch {
    /// Bytes of the batch.
    pub fn byte_count(&self) -> usize {
        self.bytes.len()
    }

    /// A batch without commands: it only uses up a sequence number.
    pub fn empty() -> UnstampedBatch {
        BatchBuilder::default().finish()
    }

    /// Writes the batch's name into its header: its origin and its sequence.
    pub fn stamp(mut self, origin: Origin, sequence: u64) -> Bytes {
        put_at(&mut self.bytes, 4, &origin.member.0.to_le_bytes());
        put_at(&mut self.bytes, 12, &origin.boot.0.to_le_bytes());
        put_at(&mut self.bytes, 20, &sequence.to_le_bytes());
        self.bytes.into()
    }
}

fn patch_length(bytes: &mut [u8], start: usize) {
    let length = u32::try_from(bytes.len() - start - 4).expect("a batch is far below 4 GiB");
    put_at(bytes, start, &length.to_le_bytes());
}

fn put_at(bytes: &mut [u8], start: usize, value: &[u8]) {
    bytes[start..start + value.len()].copy_from_slice(value);
}

/// Writes a connection's identities, as one list of a batch's identity table.
pub fn encode_identities<'a>(identities: impl ExactSizeIterator<Item = Identity<'a>>) -> Vec<u8> {
    assert!(identities.len() <= IDENTITIES_MAX);
    let mut out = Vec::new();
    out.put_u16(identities.len() as u16);
    for identity in identities {
        out.put_bytes(identity.scheme.as_bytes());
        out.put_bytes(identity.id.as_bytes());
    }
    out
}

/// Reads what [`encode_identities`] wrote.
pub fn decode_identities(bytes: &[u8]) -> Result<Vec<Identity<'_>>, DecodeError> {
    let mut reader = Reader::new(bytes);
    let identities = decode_list(&mut reader)?;
    reader.finish()?;
    Ok(identities)
}

fn decode_list<'a>(reader: &mut Reader<'a>) -> Result<Vec<Identity<'a>>, DecodeError> {
    let count = reader.u16()?;
    if usize::from(count) > IDENTITIES_MAX {
        return Err(reader.bad("identity count", u64::from(count)));
    }
    let mut list = Vec::new();
    for _ in 0..count {
        let scheme = reader.text()?;
        list.push(Identity { scheme, id: reader.text()? });
    }
    Ok(list)
}

/// Packs stamped batches into the payload of one entry; `level` is the lowest level that allows all
/// their commands. Called by Loop on the leader. A single batch may have up to
/// [`BATCH_ALONE_BYTES_MAX`] bytes; several together, up to [`BATCH_BYTES_MAX`].
pub fn encode(time_ms: i64, group: u32, level: Level, batches: &[Bytes]) -> Bytes {
    let bytes: usize = batches.iter().map(Bytes::len).sum();
    let mut out = Vec::with_capacity(HEADER_BYTES + bytes);
    out.put_u8(FORMAT_VERSION);
    out.put_u8(0);
    out.put_u16(level.number());
    out.put_u32(group);
    out.put_i64(time_ms);
    out.put_u32(batches.len() as u32);
    for batch in batches {
        out.extend_from_slice(batch);
    }
    assert!(out.len() <= ENTRY_BYTES_MAX);
    Bytes::from(out)
}

/// Reads the header of an entry.
pub fn decode_header(entry: &[u8]) -> Result<EntryHeader, DecodeError> {
    let mut reader = Reader::new(entry);
    let version = reader.u8()?;
    if version != FORMAT_VERSION {
        return Err(reader.bad("entry format version", u64::from(version)));
    }
    let zero = reader.u8()?;
    if zero != 0 {
        return Err(reader.bad("reserved byte", u64::from(zero)));
    }
    let level = decode_level(&mut reader)?;
    let group = reader.u32()?;
    let time_ms = reader.i64()?;
    Ok(EntryHeader { level, group, time_ms, batch_count: reader.u32()? })
}

/// One batch of an entry, its commands not yet decoded.
#[derive(Debug)]
pub struct Batch<'a> {
    /// The member whose clients sent the commands, and the boot of that member.
    pub origin: Origin,
    /// The number of the batch among those of its origin: the first batch of a boot has 1.
    pub sequence: u64,
    /// The number of commands.
    pub command_count: u32,
    /// The identity lists of the batch. Each command names one by its index.
    pub identities: Vec<Vec<Identity<'a>>>,
    /// Offset of the next batch in the entry.
    pub end: usize,
    commands: &'a [u8],
}

/// One command of a batch.
#[derive(Debug)]
pub struct Framed<'a> {
    /// The connection that sent the command; 0 if Loop made it.
    pub connection: ConnectionId,
    /// Index into [`Batch::identities`]: the identities of the connection when it sent the command.
    pub identity_list: usize,
    /// The command itself.
    pub command: Command<'a>,
    /// Offset of the next command, within the bytes of the batch's commands.
    pub end: usize,
}

/// Reads the batch that starts at `offset` of an entry.
pub fn decode_batch(entry: &[u8], offset: usize) -> Result<Batch<'_>, DecodeError> {
    let mut outer = Reader::new(entry);
    outer.take(offset)?;
    let mut reader = Reader::new(outer.bytes()?);
    let member = MemberId(reader.u64()?);
    let boot = BootId(reader.u64()?);
    let sequence = reader.u64()?;
    let command_count = reader.count("command count", BATCH_COMMANDS_MAX)?;
    let commands = reader.bytes()?;
    let list_count = reader.u16()?;
    if usize::from(list_count) > IDENTITY_LISTS_MAX {
        return Err(reader.bad("identity list count", u64::from(list_count)));
    }
    let mut identities = Vec::new();
    for _ in 0..list_count {
        identities.push(decode_list(&mut reader)?);
    }
    reader.finish()?;
    Ok(Batch {
        origin: Origin { member, boot },
        sequence,
        command_count: command_count as u32,
        identities,
        end: outer.offset(),
        commands,
    })
}

impl<'a> Batch<'a> {
    /// Reads up to `count_max` commands, the first at `offset` within the bytes of the commands;
    /// fewer if the batch has no more.
    pub fn commands(
        &self,
        offset: usize,
        count_max: usize,
    ) -> Result<Vec<Framed<'a>>, DecodeError> {
        let mut commands = Vec::with_capacity(count_max.min(self.command_count as usize));
        let mut at = offset;
        while commands.len() < count_max
            && let Some(framed) = self.command(at)?
        {
            at = framed.end;
            commands.push(framed);
        }
        Ok(commands)
    }

    /// Reads the command at `offset` within the bytes of the commands; `None` at their end.
    pub fn command(&self, offset: usize) -> Result<Option<Framed<'a>>, DecodeError> {
        let mut outer = Reader::new(self.commands);
        outer.take(offset)?;
        if outer.remaining() == 0 {
            return Ok(None);
        }
        let mut reader = Reader::new(outer.bytes()?);
        let identity_list = usize::from(reader.u16()?);
        if identity_list >= self.identities.len() {
            return Err(reader.bad("identity list", identity_list as u64));
        }
        let connection = ConnectionId(reader.u64()?);
        let command = Command::decode(reader.take(reader.remaining())?)?;
        Ok(Some(Framed { connection, identity_list, command, end: outer.offset() }))
    }
}

/// The header of a stamped batch, and the level that its commands need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// The member whose clients sent the commands, and the boot of that member.
    pub origin: Origin,
    /// The number of the batch among those of its origin: the first batch of a boot has 1.
    pub sequence: u64,
    /// The number of commands.
    pub command_count: u32,
    /// The lowest level that allows all commands of the batch.
    pub level: Level,
}

/// Decodes the whole batch that starts at `offset`, each of its commands included, so that a batch
/// from a peer cannot fail to decode later, in apply. Returns its header and the offset behind it.
pub fn check_batch(bytes: &[u8], offset: usize) -> Result<(BatchHeader, usize), DecodeError> {
    let batch = decode_batch(bytes, offset)?;
    let mut at = 0;
    let (mut count, mut level) = (0, Level::FIRST);
    while let Some(framed) = batch.command(at)? {
        at = framed.end;
        count += 1;
        level = level.max(framed.command.level());
    }
    if count != batch.command_count {
        let offset = batch.end;
        return Err(DecodeError::Bad { what: "command count", offset, value: count.into() });
    }
    let (origin, sequence, command_count) = (batch.origin, batch.sequence, batch.command_count);
    Ok((BatchHeader { origin, sequence, command_count, level }, batch.end))
}

/// The number of commands in an entry, by the counts that its batches state; 0 if the header does
/// not decode. The commands are not checked: use it for statistics only.
pub fn command_count(entry: &[u8]) -> usize {
    let Ok(header) = decode_header(entry) else { return 0 };
    let (mut offset, mut count) = (HEADER_BYTES, 0);
    for _ in 0..header.batch_count {
        let mut reader = Reader::new(entry);
        let batch = reader.take(offset).and_then(|_| reader.bytes());
        let Ok(batch) = batch else { return count };
        offset = reader.offset();
        let mut reader = Reader::new(batch);
        let commands = reader.take(BATCH_HEADER_BYTES - 12).and_then(|_| reader.u32());
        count += commands.unwrap_or(0) as usize;
    }
    count
}

/// The version of the program that an entry's `Raise` command names, to show to people. `None` if
/// the entry has no such command, or if a command before it does not decode.
pub fn version_raised_to(entry: &[u8]) -> Option<String> {
    let header = decode_header(entry).ok()?;
    let mut offset = HEADER_BYTES;
    for _ in 0..header.batch_count {
        let batch = decode_batch(entry, offset).ok()?;
        let mut at = 0;
        while let Some(framed) = batch.command(at).ok()? {
            if let Command::Control(ControlCommand::Raise(stated)) = framed.command {
                return Some(stated.version);
            }
            at = framed.end;
        }
        offset = batch.end;
    }
    None
}

/// Decodes a whole entry to check it, and returns only the header. For inspection and fuzzing.
pub fn verify(entry: &[u8]) -> Result<EntryHeader, DecodeError> {
    let header = decode_header(entry)?;
    let mut offset = HEADER_BYTES;
    for _ in 0..header.batch_count {
        (_, offset) = check_batch(entry, offset)?;
    }
    match entry.len() - offset {
        0 => Ok(header),
        bytes => Err(DecodeError::Trailing { offset, bytes }),
    }
}

#[cfg(test)]
mod tests;
