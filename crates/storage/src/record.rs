//! The frames of the log: encodes, decodes and checks them. No disk here.
//!
//! A frame is a header of 64 bytes and a body padded with zeros to a multiple of 8. Checksums cover
//! every bit: the header starts with its own checksum, and also holds the checksum of the padded
//! body. Three fields of the header say where the frame belongs. `chain` is the header checksum of
//! the frame before, so frames form one chain through all segments. `generation` is the number of
//! the segment, and `offset` is the frame's own offset in the segment. So a frame left over from an
//! earlier use of a recycled segment, or written to the wrong place, is recognised as wrong.
//!
//! Header checksums of all frames but the head start from the **salt**: the header checksum of the
//! segment's head. Recovery looks for frames behind a damaged one at every offset, and so also
//! inside data that clients wrote. A client does not know the salt, so it cannot write bytes that
//! look like a frame.
//!
//! Byte layouts: `docs/formats.md`, "The log".

use bytes::Bytes;

use crate::codec::{DecodeError, Reader, put_u64_list};
use crate::error::StorageError;
use crate::limits::{
    BODY_BYTES_MAX, MEMBERS_MAX, PAYLOAD_BYTES_MAX, POSITION_MAX, SHARED_PAYLOAD_BYTES_MIN,
};

/// Version of the log's format. Each segment's head holds it.
pub const LOG_FORMAT_VERSION: u32 = 1;

/// Bytes of a frame's header.
pub const HEADER_BYTES: usize = 64;

/// Every frame starts at a multiple of this, in bytes.
pub const FRAME_ALIGN_BYTES: u64 = 8;

/// Offsets of the two mark slots. They are 4 KiB apart from each other and from the frames, so that
/// no disk sector holds two of these.
pub const SLOT_OFFSETS: [u64; 2] = [0, 4096];

/// Bytes of a mark slot.
pub const SLOT_BYTES: usize = 40;

/// Offset of a segment's head frame.
pub const FRAMES_START: u64 = 8192;

const SLOT_MAGIC: u32 = 0x4b52_4d51; // "QMRK"

/// The kind of an entry, as replication passes it to storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryKind {
    /// Commands for the state machine, or an empty entry.
    Normal,
    /// A change of the membership.
    MembershipChange,
}

impl EntryKind {
    /// The byte on disk.
    pub fn as_u8(self) -> u8 {
        match self {
            EntryKind::Normal => 0,
            EntryKind::MembershipChange => 1,
        }
    }

    /// The kind for a byte from disk; `None` if the byte is not known.
    pub fn from_u8(byte: u8) -> Option<EntryKind> {
        match byte {
            0 => Some(EntryKind::Normal),
            1 => Some(EntryKind::MembershipChange),
            _ => None,
        }
    }
}

/// One entry of the replicated log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// The entry's index in the log, from 1.
    pub index: u64,
    /// The term of the leader that appended it.
    pub term: u64,
    /// The kind of the entry.
    pub kind: EntryKind,
    /// The payload, opaque here; at most [`PAYLOAD_BYTES_MAX`].
    pub payload: Bytes,
}

/// State that Raft must not forget: the term, the vote in that term, and the commit index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HardState {
    /// The current term.
    pub term: u64,
    /// The member voted for in that term; 0 is nobody.
    pub vote: u64,
    /// The highest index known to be committed. The true one may be higher.
    pub commit: u64,
}

/// The members of the ensemble, in Raft's joint form. Each list has at most [`MEMBERS_MAX`] ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    /// Ids of the voters (the incoming ones during a joint change).
    pub voters: Vec<u64>,
    /// Ids of the voters that leave with the joint change; empty outside of one.
    pub voters_outgoing: Vec<u64>,
    /// Ids of the learners.
    pub learners: Vec<u64>,
    /// Voters that become learners when the joint change ends.
    pub learners_next: Vec<u64>,
    /// Whether Raft leaves the joint state on its own.
    pub auto_leave: bool,
}

/// Index and term of the last entry that a snapshot covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SnapshotPoint {
    /// The entry's index.
    pub index: u64,
    /// The entry's term.
    pub term: u64,
}

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// The first frame of a segment; body: [`Head`].
    Head,
    /// An entry; body: its payload.
    Entry,
    /// Body: [`HardState`].
    HardState,
    /// Body: [`Membership`].
    Membership,
    /// Body: a [`SnapshotPoint`]. A durable snapshot covers the log up to that point.
    Snapshot,
}

impl FrameKind {
    fn as_u8(self) -> u8 {
        match self {
            FrameKind::Head => 1,
            FrameKind::Entry => 2,
            FrameKind::HardState => 3,
            FrameKind::Membership => 4,
            FrameKind::Snapshot => 5,
        }
    }

    fn from_u8(byte: u8) -> Option<FrameKind> {
        match byte {
            1 => Some(FrameKind::Head),
            2 => Some(FrameKind::Entry),
            3 => Some(FrameKind::HardState),
            4 => Some(FrameKind::Membership),
            5 => Some(FrameKind::Snapshot),
            _ => None,
        }
    }
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Bytes of the body, without padding.
    pub body_bytes: u32,
    /// The kind of the frame.
    pub kind: FrameKind,
    /// [`EntryKind::as_u8`] of an entry, else 0.
    pub entry_kind: u8,
    /// The group of the log. One process may hold several logs some day.
    pub group: u32,
    /// The entry's index; for a head, the last index of the log before this segment; else 0.
    pub index: u64,
    /// The entry's term; else 0.
    pub term: u64,
    /// The number of the segment this frame was written for.
    pub generation: u64,
    /// The offset in the segment where the frame starts.
    pub offset: u64,
    /// Everything in this segment below this offset, and everything in all earlier segments, was
    /// durable before this frame was written. In a head, the mark may lie behind the head: at the
    /// end of the carried frames, which were written and synced before the head. It then covers
    /// everything below but the head itself.
    pub mark: u64,
    /// Header checksum of the frame before; in a head, that of the last frame of the linked
    /// segment, or 0 without a link.
    pub chain: u32,
    /// Checksum of the padded body.
    pub body_crc: u32,
}

impl FrameHeader {
    /// Bytes of the whole frame, padding included.
    pub fn frame_bytes(&self) -> u64 {
        frame_bytes(self.body_bytes as usize)
    }

    /// Whether the mark is not above the frame's own offset, or the frame is a head: only a head is
    /// written after frames that lie behind it.
    fn is_mark_possible(&self) -> bool {
        self.mark <= self.offset || self.kind == FrameKind::Head
    }
}

/// Bytes of a frame with a body of `body_bytes` bytes.
pub fn frame_bytes(body_bytes: usize) -> u64 {
    let padded = (body_bytes as u64).next_multiple_of(FRAME_ALIGN_BYTES);
    HEADER_BYTES as u64 + padded
}

/// Appends a frame to `out` and returns its header checksum, which is the `chain` of the next
/// frame. The header checksum starts from `salt`, which is 0 for a head. Computes the fields
/// `body_bytes` and `body_crc` from `body`, whatever `header` holds there.
///
/// Panics if the body is over [`BODY_BYTES_MAX`]: [`crate::wal::Wal::append`] has checked that.
pub fn encode_frame(out: &mut Vec<u8>, salt: u32, header: &FrameHeader, body: &[u8]) -> u32 {
    assert!(body.len() <= BODY_BYTES_MAX);
    assert!(header.offset.is_multiple_of(FRAME_ALIGN_BYTES));
    assert!(header.is_mark_possible());
    let padding = &[0_u8; 8][..body.len().next_multiple_of(8) - body.len()];
    let body_crc = crc32c::crc32c_append(crc32c::crc32c(body), padding);
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&(body.len() as u32).to_le_bytes());
    out.push(header.kind.as_u8());
    out.push(header.entry_kind);
    out.extend_from_slice(&[0; 2]);
    out.extend_from_slice(&header.group.to_le_bytes());
    out.extend_from_slice(&header.index.to_le_bytes());
    out.extend_from_slice(&header.term.to_le_bytes());
    out.extend_from_slice(&header.generation.to_le_bytes());
    out.extend_from_slice(&header.offset.to_le_bytes());
    out.extend_from_slice(&header.mark.to_le_bytes());
    out.extend_from_slice(&header.chain.to_le_bytes());
    out.extend_from_slice(&body_crc.to_le_bytes());
    assert_eq!(out.len() - start, HEADER_BYTES);
    let header_crc = crc32c::crc32c_append(salt, &out[start + 4..]);
    out[start..start + 4].copy_from_slice(&header_crc.to_le_bytes());
    out.extend_from_slice(body);
    out.extend_from_slice(padding);
    header_crc
}

/// Decodes and checks a header, with a checksum that starts from `salt`. Also returns that
/// checksum. `bytes` may be longer than [`HEADER_BYTES`].
pub fn decode_header(bytes: &[u8], salt: u32) -> Result<(FrameHeader, u32), DecodeError> {
    let mut reader = Reader::new(bytes);
    let header_crc = reader.u32()?;
    let covered = Reader::new(bytes).take(HEADER_BYTES)?;
    let covered = covered.get(4..).unwrap_or(&[]);
    if crc32c::crc32c_append(salt, covered) != header_crc {
        return Err(reader.bad("the checksum of a frame's header does not match"));
    }
    let body_bytes = reader.u32()?;
    if body_bytes as usize > BODY_BYTES_MAX {
        return Err(reader.bad("a frame's body is over the limit"));
    }
    let kind = FrameKind::from_u8(reader.u8()?);
    let kind = kind.ok_or_else(|| reader.bad("a frame is of no known kind"))?;
    let entry_kind = reader.u8()?;
    reader.zeros(2)?;
    let header = FrameHeader {
        body_bytes,
        kind,
        entry_kind,
        group: reader.u32()?,
        index: reader.u64()?,
        term: reader.u64()?,
        generation: reader.u64()?,
        offset: reader.u64()?,
        mark: reader.u64()?,
        chain: reader.u32()?,
        body_crc: reader.u32()?,
    };
    if !header.is_mark_possible() {
        return Err(reader.bad("a frame's mark lies behind the frame"));
    }
    Ok((header, header_crc))
}

/// Checks a padded body against its header and returns it without the padding.
pub fn decode_body<'a>(header: &FrameHeader, padded: &'a [u8]) -> Result<&'a [u8], DecodeError> {
    let mut reader = Reader::new(padded);
    if crc32c::crc32c(padded) != header.body_crc {
        return Err(reader.bad("the checksum of a frame's body does not match"));
    }
    let body = reader.take(header.body_bytes as usize)?;
    Ok(body)
}

/// The entry in a frame of kind [`FrameKind::Entry`]. A large payload is a slice of `body`; a small
/// one is copied, so that it does not keep the whole read window in memory.
pub fn decode_entry(header: &FrameHeader, body: &Bytes) -> Result<LogEntry, DecodeError> {
    let reader = Reader::new(body);
    let kind = EntryKind::from_u8(header.entry_kind);
    let kind = kind.ok_or_else(|| reader.bad("an entry is of no known kind"))?;
    if body.len() > PAYLOAD_BYTES_MAX {
        return Err(reader.bad("an entry's payload is over the limit"));
    }
    if header.index == 0 {
        return Err(reader.bad("an entry has index 0"));
    }
    if header.index > POSITION_MAX || header.term > POSITION_MAX {
        return Err(reader.bad("an index or a term is over the limit"));
    }
    Ok(LogEntry {
        index: header.index,
        term: header.term,
        kind,
        payload: match body.len() < SHARED_PAYLOAD_BYTES_MIN {
            true => Bytes::copy_from_slice(body),
            false => body.clone(),
        },
    })
}

/// Where the segment before ended, as a head records it. Nothing in that segment behind `end`
/// counts, and everything before `end` was durable when the head was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Number of the segment before.
    pub sequence: u64,
    /// The offset where that segment's last frame ends.
    pub end: u64,
    /// Header checksum of that segment's last frame.
    pub chain: u32,
}

/// The body of a segment's first frame: the whole state of the log at that point, except its
/// entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The segment before; `None` if the log needs none, because it is new, or because a snapshot
    /// covers everything before this segment.
    pub link: Option<Link>,
    /// The hard state when the segment was started.
    pub hard_state: HardState,
    /// The snapshot point when the segment was started.
    pub snapshot: SnapshotPoint,
    /// The membership when the segment was started.
    pub membership: Membership,
    /// The least size of the segment's file, in blocks of [`HEAD_BLOCK_BYTES`]. A file gets its
    /// length before its name, so a shorter file has lost data. 0 if unknown.
    pub blocks: u32,
}

/// Bytes of one block that [`Head::blocks`] counts.
pub const HEAD_BLOCK_BYTES: u64 = 4096;

/// The largest number of blocks that a head can record (24 bits).
const HEAD_BLOCKS_MAX: u64 = (1 << 24) - 1;

impl Head {
    /// The value of [`Head::blocks`] for a file of `file_bytes` bytes.
    pub fn blocks_of(file_bytes: u64) -> u32 {
        (file_bytes / HEAD_BLOCK_BYTES).min(HEAD_BLOCKS_MAX) as u32
    }

    /// The least size of the segment's file, in bytes.
    pub fn file_bytes_min(&self) -> u64 {
        u64::from(self.blocks) * HEAD_BLOCK_BYTES
    }
}

/// Encodes a head.
pub fn encode_head(head: &Head) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend_from_slice(&LOG_FORMAT_VERSION.to_le_bytes());
    let link = head.link.unwrap_or(Link { sequence: 0, end: 0, chain: 0 });
    out.extend_from_slice(&(u32::from(head.link.is_some()) | head.blocks << 8).to_le_bytes());
    out.extend_from_slice(&link.sequence.to_le_bytes());
    out.extend_from_slice(&link.end.to_le_bytes());
    out.extend_from_slice(&link.chain.to_le_bytes());
    out.extend_from_slice(&encode_hard_state(&head.hard_state));
    out.extend_from_slice(&encode_snapshot_point(&head.snapshot));
    put_membership(&mut out, &head.membership);
    out
}

/// The format version of a head; checked before the rest is decoded.
pub fn decode_head_version(body: &[u8]) -> Result<u32, DecodeError> {
    Reader::new(body).u32()
}

/// Decodes what [`encode_head`] wrote.
pub fn decode_head(body: &[u8]) -> Result<Head, DecodeError> {
    let mut reader = Reader::new(body);
    if reader.u32()? != LOG_FORMAT_VERSION {
        return Err(reader.bad("a segment's head has an unknown format version"));
    }
    let flags = reader.u32()?;
    let (has_link, blocks) = (flags & 0xff, flags >> 8);
    if has_link > 1 {
        return Err(reader.bad("a flag is neither 0 nor 1"));
    }
    let link = Link { sequence: reader.u64()?, end: reader.u64()?, chain: reader.u32()? };
    let head = Head {
        link: (has_link == 1).then_some(link),
        hard_state: read_hard_state(&mut reader)?,
        snapshot: read_snapshot_point(&mut reader)?,
        membership: read_membership(&mut reader)?,
        blocks,
    };
    reader.finish()?;
    Ok(head)
}

/// Encodes a hard state: 24 bytes.
pub fn encode_hard_state(state: &HardState) -> Vec<u8> {
    let mut out = Vec::with_capacity(24);
    out.extend_from_slice(&state.term.to_le_bytes());
    out.extend_from_slice(&state.vote.to_le_bytes());
    out.extend_from_slice(&state.commit.to_le_bytes());
    out
}

fn read_hard_state(reader: &mut Reader) -> Result<HardState, DecodeError> {
    let (term, vote) = (read_position(reader)?, reader.u64()?);
    Ok(HardState { term, vote, commit: read_position(reader)? })
}

/// Reads an index or a term.
pub(crate) fn read_position(reader: &mut Reader) -> Result<u64, DecodeError> {
    match reader.u64()? {
        value if value > POSITION_MAX => Err(reader.bad("an index or a term is over the limit")),
        value => Ok(value),
    }
}

/// Decodes what [`encode_hard_state`] wrote.
pub fn decode_hard_state(body: &[u8]) -> Result<HardState, DecodeError> {
    let mut reader = Reader::new(body);
    let state = read_hard_state(&mut reader)?;
    reader.finish()?;
    Ok(state)
}

/// Encodes a snapshot point: 16 bytes.
pub fn encode_snapshot_point(point: &SnapshotPoint) -> Vec<u8> {
    let mut out = Vec::with_capacity(16);
    out.extend_from_slice(&point.index.to_le_bytes());
    out.extend_from_slice(&point.term.to_le_bytes());
    out
}

fn read_snapshot_point(reader: &mut Reader) -> Result<SnapshotPoint, DecodeError> {
    Ok(SnapshotPoint { index: read_position(reader)?, term: read_position(reader)? })
}

/// Decodes what [`encode_snapshot_point`] wrote.
pub fn decode_snapshot_point(body: &[u8]) -> Result<SnapshotPoint, DecodeError> {
    let mut reader = Reader::new(body);
    let point = read_snapshot_point(&mut reader)?;
    reader.finish()?;
    Ok(point)
}

/// Refuses a membership if one of its lists has more than [`MEMBERS_MAX`] ids.
pub fn check_membership(membership: &Membership) -> Result<(), StorageError> {
    let lists = [
        &membership.voters,
        &membership.voters_outgoing,
        &membership.learners,
        &membership.learners_next,
    ];
    match lists.iter().map(|list| list.len()).max() {
        Some(count) if count > MEMBERS_MAX => {
            Err(StorageError::RecordTooLarge { bytes: count * 8, bytes_max: MEMBERS_MAX * 8 })
        }
        _ => Ok(()),
    }
}

/// Encodes a membership that [`check_membership`] let pass.
pub fn encode_membership(membership: &Membership) -> Vec<u8> {
    let mut out = Vec::new();
    put_membership(&mut out, membership);
    out
}

/// Like [`encode_membership`], but appends to `out`.
pub(crate) fn put_membership(out: &mut Vec<u8>, membership: &Membership) {
    out.push(u8::from(membership.auto_leave));
    out.extend_from_slice(&[0; 3]);
    put_u64_list(out, &membership.voters);
    put_u64_list(out, &membership.voters_outgoing);
    put_u64_list(out, &membership.learners);
    put_u64_list(out, &membership.learners_next);
}

/// Reads a membership out of a longer record.
pub(crate) fn read_membership(reader: &mut Reader) -> Result<Membership, DecodeError> {
    let auto_leave = reader.flag()?;
    reader.zeros(3)?;
    Ok(Membership {
        voters: reader.u64_list(MEMBERS_MAX)?,
        voters_outgoing: reader.u64_list(MEMBERS_MAX)?,
        learners: reader.u64_list(MEMBERS_MAX)?,
        learners_next: reader.u64_list(MEMBERS_MAX)?,
        auto_leave,
    })
}

/// Decodes what [`encode_membership`] wrote.
pub fn decode_membership(body: &[u8]) -> Result<Membership, DecodeError> {
    let mut reader = Reader::new(body);
    let membership = read_membership(&mut reader)?;
    reader.finish()?;
    Ok(membership)
}

/// A mark on its own, at the start of a segment. It is written when no later frame carries the
/// mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The number of the segment that the slot was written for.
    pub generation: u64,
    /// Everything in the segment below this offset is durable.
    pub mark: u64,
    /// Whether the slot is a seal: a later segment was durably started, so this one is not the
    /// last.
    pub is_sealed: bool,
    /// Number of that later segment; 0 if not sealed.
    pub successor: u64,
}

/// Encodes a slot.
pub fn encode_slot(slot: &Slot) -> Vec<u8> {
    let mut rest = Vec::with_capacity(SLOT_BYTES);
    rest.extend_from_slice(&SLOT_MAGIC.to_le_bytes());
    rest.push(u8::from(slot.is_sealed));
    rest.extend_from_slice(&[0; 7]);
    rest.extend_from_slice(&slot.generation.to_le_bytes());
    rest.extend_from_slice(&slot.mark.to_le_bytes());
    rest.extend_from_slice(&slot.successor.to_le_bytes());
    let mut out = crc32c::crc32c(&rest).to_le_bytes().to_vec();
    out.extend_from_slice(&rest);
    assert_eq!(out.len(), SLOT_BYTES);
    out
}

/// Decodes what [`encode_slot`] wrote. `bytes` may be longer than [`SLOT_BYTES`].
pub fn decode_slot(bytes: &[u8]) -> Result<Slot, DecodeError> {
    let mut reader = Reader::new(bytes);
    let crc = reader.u32()?;
    let covered = Reader::new(bytes).take(SLOT_BYTES)?;
    if crc32c::crc32c(covered.get(4..).unwrap_or(&[])) != crc {
        return Err(reader.bad("the checksum of a mark slot does not match"));
    }
    if reader.u32()? != SLOT_MAGIC {
        return Err(reader.bad("a mark slot has the wrong magic number"));
    }
    let is_sealed = reader.flag()?;
    reader.zeros(7)?;
    Ok(Slot { is_sealed, generation: reader.u64()?, mark: reader.u64()?, successor: reader.u64()? })
}

#[cfg(test)]
mod tests;
