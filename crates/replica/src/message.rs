//! Encodes and decodes the messages between replicas: our own encoding of the raft-rs messages in
//! use.
//!
//! Bytes from a peer are checked here before raft-rs sees them: raft-rs ends the process, or does
//! worse, on messages that no honest peer sends (entries with gaps, a term of 0, an impossible
//! membership). A message that passes has the shape that raft-rs gives to messages of its kind.
//!
//! All numbers are little-endian.
//!
//! ```text
//!  0  version       u8   1
//!  1  kind          u8   the number of the kind in raft-rs's eraftpb.proto
//!  2  flags         u8   bit 0: reject; bit 1: quiet, see `Decoded`
//!  3  context bytes u8
//!  4  group id      u32
//!  8  to            u64
//! 16  from          u64
//! 24  term          u64
//! 32  log term      u64
//! 40  index         u64
//! 48  commit        u64
//! 56  commit term   u64
//! 64  reject hint   u64
//! 72  entry count   u32
//! 76  context
//!     entries, each: index u64, term u64, kind u8 (0 normal, 1 membership), length u32, payload
//!     only if the kind is 7 (snapshot): index u64, term u64, membership (see `Membership::encode`)
//! ```

use bytes::{BufMut, Bytes, BytesMut};
use raft::eraftpb::{self, MessageType};

use crate::codec::{MessageError, Reader};
use crate::effects::{Entry, EntryKind, SnapshotMeta};
use crate::limits::{
    APPEND_BYTES_MAX, CONTEXT_BYTES_MAX, ENTRY_BYTES_MAX, INDEX_MAX, MESSAGE_BYTES_MAX,
    MESSAGE_ENTRIES_MAX, READ_CONTEXT_BYTES, TERM_MAX,
};
use crate::members::Membership;

const VERSION: u8 = 1;
const FLAG_REJECT: u8 = 1;
const FLAG_QUIET: u8 = 2;
const HEADER_BYTES: usize = 76;
const ENTRY_HEADER_BYTES: usize = 21;

const _: () = assert!(
    MESSAGE_ENTRIES_MAX * ENTRY_HEADER_BYTES + APPEND_BYTES_MAX as usize + 4096
        <= MESSAGE_BYTES_MAX
);

/// The fields of a message that a caller needs before it passes the message to `Replica::step`, or
/// without doing so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peek {
    pub group_id: u32,
    pub to: u64,
    pub from: u64,
    /// Set if the message installs a snapshot. The caller passes such a message to `step` only when
    /// the snapshot's data have arrived.
    pub snapshot: Option<SnapshotMeta>,
    /// Whether the message is an append, which may hold entries for the log.
    pub is_append: bool,
}

/// Decodes a message's header, and the whole message if it installs a snapshot.
///
/// # Errors
/// Like `Replica::step`, for the part that is decoded.
pub fn peek(bytes: &[u8]) -> Result<Peek, MessageError> {
    let mut reader = Reader::from_message(bytes)?;
    let header = Header::decode(&mut reader)?;
    let snapshot = if header.kind == MessageType::MsgSnapshot {
        Some(SnapshotMeta::from_raft(decode(header.group_id, bytes)?.message.get_snapshot()))
    } else {
        None
    };
    let is_append = header.kind == MessageType::MsgAppend;
    Ok(Peek { group_id: header.group_id, to: header.to, from: header.from, snapshot, is_append })
}

/// Calls `visit` with the index and the payload of each normal entry that a message appends, until
/// `visit` fails. Skips membership entries and empty entries. Copies nothing.
///
/// # Errors
/// Like `Replica::step`, for the part that is decoded; or the error of `visit`.
pub fn each_payload<E: From<MessageError>>(
    bytes: &[u8],
    mut visit: impl FnMut(u64, &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut reader = Reader::from_message(bytes)?;
    let header = Header::decode(&mut reader)?;
    reader.take(header.context_bytes)?;
    if header.kind != MessageType::MsgAppend {
        return Ok(());
    }
    for _ in 0..header.entry_count {
        let entry = decode_entry_header(&mut reader)?;
        let payload = reader.take(entry.bytes)?;
        if entry.kind == EntryKind::Normal && !payload.is_empty() {
            visit(entry.index, payload)?;
        }
    }
    Ok(())
}

/// A message from a peer, decoded.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decoded {
    /// The message for raft-rs.
    pub message: eraftpb::Message,
    /// Whether the message is a *quiet* append: it has no entries, and its receiver has said, or is
    /// about to say, that it has everything up to the message's index. An answer that agrees would
    /// say nothing new, so none is sent.
    pub is_quiet: bool,
}

/// Encodes a message that raft-rs wants to send. Only an append without entries may be quiet.
pub(crate) fn encode(group_id: u32, message: &eraftpb::Message, is_quiet: bool) -> Bytes {
    let entries: Vec<Entry> = message.get_entries().iter().map(Entry::from_raft).collect();
    let payload_bytes: usize =
        entries.iter().map(|entry| ENTRY_HEADER_BYTES + entry.payload.len()).sum();
    let mut out = BytesMut::with_capacity(HEADER_BYTES + CONTEXT_BYTES_MAX + payload_bytes);
    assert!(message.context.len() <= CONTEXT_BYTES_MAX, "a context larger than its limit");
    assert!(entries.len() <= MESSAGE_ENTRIES_MAX, "more entries than the limit");
    out.put_u8(VERSION);
    out.put_u8(kind_number(message.get_msg_type()));
    let quiet = if is_quiet { FLAG_QUIET } else { 0 };
    out.put_u8(quiet | if message.reject { FLAG_REJECT } else { 0 });
    out.put_u8(u8::try_from(message.context.len()).expect("the limit is below 2^8"));
    out.put_u32_le(group_id);
    for field in [
        message.to,
        message.from,
        message.term,
        message.log_term,
        message.index,
        message.commit,
        message.commit_term,
        message.reject_hint,
    ] {
        out.put_u64_le(field);
    }
    out.put_u32_le(u32::try_from(entries.len()).expect("the limit is below 2^32"));
    out.put_slice(&message.context);
    entries.iter().for_each(|entry| encode_entry(entry, &mut out));
    if message.get_msg_type() == MessageType::MsgSnapshot {
        let meta = SnapshotMeta::from_raft(message.get_snapshot());
        out.put_u64_le(meta.index);
        out.put_u64_le(meta.term);
        meta.membership.encode_into(&mut out);
    }
    assert!(out.len() <= MESSAGE_BYTES_MAX, "a message larger than its limit");
    out.freeze()
}

/// Decodes and checks a message for `group_id`. Never panics, reads nothing past the end, and takes
/// memory of at most a small multiple of the given bytes.
pub(crate) fn decode(group_id: u32, bytes: &[u8]) -> Result<Decoded, MessageError> {
    let mut reader = Reader::from_message(bytes)?;
    let header = Header::decode(&mut reader)?;
    if header.group_id != group_id {
        return Err(MessageError::WrongGroup { group_id: header.group_id, expected: group_id });
    }
    let mut message = header.to_raft();
    let context_offset = reader.offset();
    let context = reader.take(header.context_bytes)?;
    check_context(&header, context_offset, context)?;
    message.context = Bytes::copy_from_slice(context);
    message.set_entries(decode_entries(&header, &mut reader)?.into());
    if header.kind == MessageType::MsgSnapshot {
        message.set_snapshot(decode_snapshot(&header, &mut reader)?.to_raft());
    }
    reader.end()?;
    Ok(Decoded { message, is_quiet: header.is_quiet })
}

/// The header of a message; has a fixed length.
struct Header {
    kind: MessageType,
    reject: bool,
    is_quiet: bool,
    context_bytes: usize,
    group_id: u32,
    to: u64,
    from: u64,
    term: u64,
    log_term: u64,
    index: u64,
    commit: u64,
    commit_term: u64,
    reject_hint: u64,
    entry_count: usize,
}

impl Header {
    fn decode(reader: &mut Reader<'_>) -> Result<Header, MessageError> {
        reader.version(VERSION)?;
        let kind = decode_kind(reader)?;
        let (reject, is_quiet) = match reader.u8()? {
            0 => (false, false),
            FLAG_REJECT if can_reject(kind) => (true, false),
            FLAG_QUIET if kind == MessageType::MsgAppend => (false, true),
            _ => return Err(MessageError::Malformed { offset: 2, what: "flags" }),
        };
        let context_bytes = usize::from(reader.u8()?);
        if context_bytes > CONTEXT_BYTES_MAX {
            let (bytes, bytes_max) = (context_bytes, CONTEXT_BYTES_MAX);
            return Err(MessageError::TooLarge { offset: 3, bytes, bytes_max });
        }
        // A member asks for a read index without a term, since the leader's term does not matter.
        // For any other kind, raft-rs takes term 0 for a message of its own making.
        let (term_min, term_max) =
            if kind == MessageType::MsgReadIndex { (0, 0) } else { (1, TERM_MAX) };
        let header = Header {
            kind,
            reject,
            is_quiet,
            context_bytes,
            group_id: reader.u32()?,
            to: reader.u64_within(1, u64::MAX)?,
            from: reader.u64_within(1, u64::MAX)?,
            term: reader.u64_within(term_min, term_max)?,
            log_term: reader.u64_within(0, TERM_MAX)?,
            index: reader.u64_within(0, INDEX_MAX)?,
            commit: reader.u64_within(0, INDEX_MAX)?,
            commit_term: reader.u64_within(0, TERM_MAX)?,
            reject_hint: reader.u64_within(0, INDEX_MAX)?,
            entry_count: reader.count(MESSAGE_ENTRIES_MAX)?,
        };
        assert_eq!(reader.offset(), HEADER_BYTES, "the header has a fixed length");
        header.check_shape()?;
        Ok(header)
    }

    /// Checks that the message has entries, and a log term, only as its kind allows.
    fn check_shape(&self) -> Result<(), MessageError> {
        let offset = HEADER_BYTES - 4;
        match self.kind {
            MessageType::MsgAppend if self.log_term > self.term => {
                Err(MessageError::Malformed { offset: 32, what: "log term above the term" })
            }
            // raft-rs returns term 0 for any index that is not in its log. So this pair of index
            // and term would match there, and the entries would be appended behind a gap, or
            // committed beyond the end.
            MessageType::MsgAppend if (self.log_term == 0) != (self.index == 0) => {
                Err(MessageError::Malformed { offset: 32, what: "log term" })
            }
            MessageType::MsgAppend if self.is_quiet && self.entry_count > 0 => {
                Err(MessageError::Malformed { offset: 2, what: "a quiet append with entries" })
            }
            MessageType::MsgAppend => Ok(()),
            MessageType::MsgReadIndex | MessageType::MsgReadIndexResp if self.entry_count == 1 => {
                Ok(())
            }
            MessageType::MsgReadIndex | MessageType::MsgReadIndexResp => {
                Err(MessageError::Malformed { offset, what: "a read without its context" })
            }
            _ if self.entry_count == 0 => Ok(()),
            _ => Err(MessageError::Malformed { offset, what: "entries in the wrong kind" }),
        }
    }

    fn to_raft(&self) -> eraftpb::Message {
        eraftpb::Message {
            msg_type: self.kind,
            to: self.to,
            from: self.from,
            term: self.term,
            log_term: self.log_term,
            index: self.index,
            commit: self.commit,
            commit_term: self.commit_term,
            reject: self.reject,
            reject_hint: self.reject_hint,
            ..Default::default()
        }
    }
}

/// Checks the context. A heartbeat or its answer has a ReadIndex context or none. A vote request
/// has no context, or raft-rs's mark that the leader transfers its leadership. Members vote on such
/// a request even while they hear from that leader.
fn check_context(header: &Header, offset: usize, context: &[u8]) -> Result<(), MessageError> {
    let allowed = match header.kind {
        MessageType::MsgHeartbeat | MessageType::MsgHeartbeatResponse => {
            context.is_empty() || context.len() == READ_CONTEXT_BYTES
        }
        MessageType::MsgRequestVote => context.is_empty() || context == raft::CAMPAIGN_TRANSFER,
        _ => context.is_empty(),
    };
    if allowed { Ok(()) } else { Err(MessageError::Malformed { offset, what: "context" }) }
}

fn encode_entry(entry: &Entry, out: &mut BytesMut) {
    out.put_u64_le(entry.index);
    out.put_u64_le(entry.term);
    out.put_u8(match entry.kind {
        EntryKind::Normal => 0,
        EntryKind::Membership => 1,
    });
    out.put_u32_le(u32::try_from(entry.payload.len()).expect("the limit is below 2^32"));
    out.put_slice(&entry.payload);
}

fn decode_entries(
    header: &Header,
    reader: &mut Reader<'_>,
) -> Result<Vec<eraftpb::Entry>, MessageError> {
    // The count is only a claim: memory is reserved for what the bytes can hold.
    let count_possible = reader.remaining() / ENTRY_HEADER_BYTES;
    let mut entries = Vec::with_capacity(header.entry_count.min(count_possible));
    let mut before = (header.index, header.log_term);
    for _ in 0..header.entry_count {
        let offset = reader.offset();
        let entry = decode_entry(reader)?;
        if header.kind == MessageType::MsgAppend {
            check_append_entry(header, before, &entry, offset)?;
            before = (entry.index, entry.term);
        } else {
            check_read_entry(&entry, offset)?;
        }
        entries.push(entry.to_raft()?);
    }
    Ok(entries)
}

/// The fields of an entry without the payload.
struct EntryHeader {
    index: u64,
    term: u64,
    kind: EntryKind,
    bytes: usize,
}

fn decode_entry_header(reader: &mut Reader<'_>) -> Result<EntryHeader, MessageError> {
    let index = reader.u64_within(0, INDEX_MAX)?;
    let term = reader.u64_within(0, TERM_MAX)?;
    let offset = reader.offset();
    let kind = match reader.u8()? {
        0 => EntryKind::Normal,
        1 => EntryKind::Membership,
        kind => return Err(MessageError::UnknownKind { offset, kind }),
    };
    let offset = reader.offset();
    let bytes = reader.count(usize::MAX)?;
    if bytes > ENTRY_BYTES_MAX {
        return Err(MessageError::TooLarge { offset, bytes, bytes_max: ENTRY_BYTES_MAX });
    }
    Ok(EntryHeader { index, term, kind, bytes })
}

fn decode_entry(reader: &mut Reader<'_>) -> Result<Entry, MessageError> {
    let EntryHeader { index, term, kind, bytes } = decode_entry_header(reader)?;
    Ok(Entry { index, term, kind, payload: Bytes::copy_from_slice(reader.take(bytes)?) })
}

/// Checks one entry of an append message. Its index must be one more than the index before it. Its
/// term must not be lower than the term before it, or higher than the term of the message.
fn check_append_entry(
    header: &Header,
    (index_before, term_before): (u64, u64),
    entry: &Entry,
    offset: usize,
) -> Result<(), MessageError> {
    if index_before.checked_add(1) != Some(entry.index) {
        Err(MessageError::Malformed { offset, what: "a gap between entries" })
    } else if entry.term < term_before.max(1) || entry.term > header.term {
        Err(MessageError::Malformed { offset, what: "an entry's term" })
    } else {
        Ok(())
    }
}

/// Checks an entry in which raft-rs carries the context of a read; it is not an entry of the log.
fn check_read_entry(entry: &Entry, offset: usize) -> Result<(), MessageError> {
    let is_context = entry.index == 0
        && entry.term == 0
        && entry.kind == EntryKind::Normal
        && entry.payload.len() == READ_CONTEXT_BYTES;
    if is_context { Ok(()) } else { Err(MessageError::Malformed { offset, what: "read context" }) }
}

fn decode_snapshot(header: &Header, reader: &mut Reader<'_>) -> Result<SnapshotMeta, MessageError> {
    let offset = reader.offset();
    let meta = SnapshotMeta {
        index: reader.u64_within(1, INDEX_MAX)?,
        term: reader.u64_within(1, header.term)?,
        membership: Membership::decode_from(reader)?,
    };
    if meta.membership.voters.is_empty() {
        return Err(MessageError::Malformed { offset, what: "a snapshot without voters" });
    }
    Ok(meta)
}

/// The number of a kind of message that members send to each other. Proposals are not sent:
/// raft-rs's own forwarding is off.
fn kind_number(kind: MessageType) -> u8 {
    match kind {
        MessageType::MsgAppend => 3,
        MessageType::MsgAppendResponse => 4,
        MessageType::MsgRequestVote => 5,
        MessageType::MsgRequestVoteResponse => 6,
        MessageType::MsgSnapshot => 7,
        MessageType::MsgHeartbeat => 8,
        MessageType::MsgHeartbeatResponse => 9,
        MessageType::MsgTimeoutNow => 14,
        MessageType::MsgReadIndex => 15,
        MessageType::MsgReadIndexResp => 16,
        MessageType::MsgRequestPreVote => 17,
        MessageType::MsgRequestPreVoteResponse => 18,
        local => panic!("raft-rs sent a message of the local kind {local:?}"),
    }
}

fn decode_kind(reader: &mut Reader<'_>) -> Result<MessageType, MessageError> {
    let offset = reader.offset();
    match reader.u8()? {
        3 => Ok(MessageType::MsgAppend),
        4 => Ok(MessageType::MsgAppendResponse),
        5 => Ok(MessageType::MsgRequestVote),
        6 => Ok(MessageType::MsgRequestVoteResponse),
        7 => Ok(MessageType::MsgSnapshot),
        8 => Ok(MessageType::MsgHeartbeat),
        9 => Ok(MessageType::MsgHeartbeatResponse),
        14 => Ok(MessageType::MsgTimeoutNow),
        15 => Ok(MessageType::MsgReadIndex),
        16 => Ok(MessageType::MsgReadIndexResp),
        17 => Ok(MessageType::MsgRequestPreVote),
        18 => Ok(MessageType::MsgRequestPreVoteResponse),
        kind => Err(MessageError::UnknownKind { offset, kind }),
    }
}

fn can_reject(kind: MessageType) -> bool {
    matches!(
        kind,
        MessageType::MsgAppendResponse
            | MessageType::MsgRequestVoteResponse
            | MessageType::MsgRequestPreVoteResponse
    )
}

/// Checks that a decoded message came from the peer that it names, and is for this member.
pub(crate) fn check_route(
    message: &eraftpb::Message,
    from: u64,
    member_id: u64,
) -> Result<(), MessageError> {
    if message.from != from || from == member_id {
        return Err(MessageError::WrongSender { from: message.from, expected: from });
    }
    if message.to != member_id {
        return Err(MessageError::WrongReceiver { to: message.to, expected: member_id });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
