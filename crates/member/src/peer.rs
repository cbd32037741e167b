//! The messages between members, and their encoding. The driver makes the links, and the frames
//! around the messages.
//!
//! The decoder here checks a message from another member completely, except the bytes of `replica`:
//! Loop checks those before the replica takes them. So nothing that does not decode reaches the
//! log. Kinds from 16 on are bulk ([`PeerFrame::is_bulk`]), and no message has the kind 15. Kind,
//! name and body of each message; all numbers are little-endian; `(...)?` is present if the flag
//! before it is 1:
//!
//! ```text
//! 1 raft     bytes of `replica`
//! 2 forward  boot u64 | stream u64 | position u64 | batch count u32 | batch*  (see `machine::entry`)
//! 3 restart  boot u64 | stream u64
//! 4 heard    boot u64 | number u64 | session count u32 | session i64*
//! 5 heeded   boot u64 | number u64 | contact ms u64
//! 6 full     u8: 0 or 1
//! 7 offer    member u64 | bytes of `replica`: its message that installs a snapshot
//! 8 digest   index u64 | digest u128
//! 9 differs  index u64
//! 10 lend    member u64 | index u64
//! 11 lent    member u64 | u8: 0 or 1 | (index u64 | term u64 | digest u128)?
//! 12 need level  level u16
//! 13 ask leases  boot u64 | question count u32 | (number u64 | lease i64 | u8: 1 if it renews)*
//! 14 lease times boot u64 | index u64 | answer count u32
//!                | (number u64 | u8: 0 or 1 | (granted seconds i64 | left ms u64)?)*
//!
//! 16 want    index u64 | term u64 | offset u64
//! 17 piece   index u64 | term u64 | offset u64 | bytes of the file u64 | bytes
//! 18 gone    index u64 | term u64
//! ```

mod leases;

use bytes::Bytes;
use machine::codec::{DecodeError, Reader, Write};
use machine::digest::Digest;
use machine::entry::{self, BatchHeader};
use machine::limits::BATCH_ALONE_BYTES_MAX;
use machine::{BootId, Level, MemberId, Owner, SessionId};
use thiserror::Error;

use crate::limits::{FORWARD_BATCHES_MAX, HEARD_SESSIONS_MAX};
use crate::snapshot::limits::FETCHED_PIECE_BYTES;

pub use leases::{AskLeases, LeaseTimes};

const KIND_RAFT: u8 = 1;
const KIND_FORWARD: u8 = 2;
const KIND_RESTART: u8 = 3;
const KIND_HEARD: u8 = 4;
const KIND_HEEDED: u8 = 5;
const KIND_FULL: u8 = 6;
const KIND_OFFER: u8 = 7;
const KIND_DIGEST: u8 = 8;
const KIND_DIFFERS: u8 = 9;
const KIND_LEND: u8 = 10;
const KIND_LENT: u8 = 11;
const KIND_NEED_LEVEL: u8 = 12;
const KIND_ASK_LEASES: u8 = 13;
const KIND_LEASE_TIMES: u8 = 14;

/// Messages of this kind and higher ones are bulk: they have a second channel on the link, so that
/// no other message waits behind them.
const KIND_BULK: u8 = 16;
const KIND_WANT: u8 = 16;
const KIND_PIECE: u8 = 17;
const KIND_GONE: u8 = 18;

/// A message as a link carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerFrame {
    /// The kind of the message.
    pub kind: u8,
    /// The bytes of the message, without the kind; the module's head describes them.
    pub body: Bytes,
}

impl PeerFrame {
    /// Whether the message goes over the link's second channel, so that no other message waits
    /// behind it.
    pub fn is_bulk(&self) -> bool {
        self.kind >= KIND_BULK
    }
}

/// A message between two members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerMessage {
    /// A Raft message of the replica, to any member.
    Raft(Bytes),
    /// A follower's batches, to the leader.
    Forward(Forward),
    /// A piece of a follower's stream was lost. From the leader to that follower, which begins a
    /// new stream.
    Restart {
        /// The boot of the receiver, from its `Forward`.
        boot: BootId,
        /// The stream that has a gap.
        stream: u64,
    },
    /// A follower's report of sessions whose clients were heard from, to the leader.
    Heard(Heard),
    /// The leader's answer to `Heard`: it has renewed the sessions of the report.
    Heeded {
        /// The boot of the receiver, from its report.
        boot: BootId,
        /// The number of the report, from `Heard`.
        number: u64,
        /// The age of the leader's own contact to a quorum, in ms.
        contact_ms: u64,
    },
    /// Whether the sender's disk is full, so that it refuses writes if it leads. To all members.
    Full(bool),
    /// A snapshot to fetch, since the leader's log no longer has the entries that the follower
    /// needs. From the leader to that follower.
    Offer(Offer),
    /// The digest of the sender's state. From a follower to the leader, to be compared; from the
    /// leader, it asks the receiver for its own digest at the same index.
    Digest {
        /// The last entry that is applied to the state.
        index: u64,
        /// The digest of the state after that entry.
        digest: Digest,
    },
    /// The follower's state differs from that of the majority, so its directory must not be used
    /// any more. From the leader.
    Differs {
        /// The log index at which the states differ.
        index: u64,
    },
    /// The leader asks a follower to lend a snapshot to a third member. Repeated until `Lent`
    /// comes.
    Lend {
        /// The member that needs the snapshot.
        to: MemberId,
        /// The lowest index that the snapshot may have.
        index: u64,
    },
    /// The lender's answer to `Lend`, once it has a durable snapshot or knows that it can take
    /// none.
    Lent {
        /// The member that needs the snapshot.
        to: MemberId,
        /// The snapshot; `None` if the lender has none and cannot take one.
        snapshot: Option<LentSnapshot>,
    },
    /// A client of the sender needs this level: the receiver, if it leads, is to raise the level.
    NeedLevel(Level),
    /// Questions of a follower's clients about leases, to the leader. Only members that know the
    /// level of etcd send them, and only once the ensemble has that level.
    AskLeases(AskLeases),
    /// The leader's answers to `AskLeases`.
    LeaseTimes(LeaseTimes),
    /// A request for a piece of the file of a snapshot that was offered, to the holder of the file.
    Want(Want),
    /// The holder's answer to `Want`: a piece of the file.
    Piece(Piece),
    /// The snapshot is gone, or never existed. The holder sends it to the member that wants the
    /// snapshot; that member sends it on to the leader, if the leader named another holder.
    Gone(SnapshotAt),
}

/// A leader's offer of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The member that has the snapshot's file.
    pub holder: MemberId,
    /// The replica's message that installs the snapshot.
    pub message: Bytes,
}

/// The index and the term that name a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotAt {
    /// The index of the last entry that the snapshot holds.
    pub index: u64,
    /// The term of that entry.
    pub term: u64,
}

/// A snapshot that a lender has for another member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LentSnapshot {
    /// The snapshot's index and term.
    pub at: SnapshotAt,
    /// The digest of the state that the snapshot holds.
    pub digest: Digest,
}

/// A request for the next bytes of a snapshot's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// The snapshot's index and term.
    pub at: SnapshotAt,
    /// The offset in the file at which the bytes start.
    pub offset: u64,
}

/// Bytes of a snapshot's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The snapshot's index and term.
    pub at: SnapshotAt,
    /// The offset in the file at which the bytes start.
    pub offset: u64,
    /// The size of the whole file, in bytes.
    pub total: u64,
    /// The bytes, at most [`FETCHED_PIECE_BYTES`].
    pub bytes: Bytes,
}

/// A follower's report of the sessions whose clients were heard from. The leader's answer shows the
/// follower that both can hear each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// The boot of the sender.
    pub boot: BootId,
    /// The number of the report; each report has a higher one than the last.
    pub number: u64,
    /// The sessions, at most [`HEARD_SESSIONS_MAX`].
    pub owners: Vec<Owner>,
}

/// One piece of a follower's stream: batches in the order of their sequences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    /// The boot of the sender.
    pub boot: BootId,
    /// The number of the stream; higher each time the follower begins a new one.
    pub stream: u64,
    /// How many pieces of the stream came before this one.
    pub position: u64,
    /// The batches, which have their sequences; at most [`FORWARD_BATCHES_MAX`].
    pub batches: Vec<ForwardedBatch>,
}

/// A batch that has its origin and sequence, on its way to the leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardedBatch {
    /// The header, decoded from the bytes.
    pub header: BatchHeader,
    /// The bytes of the batch, exactly as an entry holds them.
    pub bytes: Bytes,
}

impl ForwardedBatch {
    /// The number of commands and of bytes.
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.header.command_count as usize, self.bytes.len())
    }

    /// The batch, with a refused command in place of each command that is too large for any entry.
    /// `None` if the batch is too large even so.
    pub(crate) fn refuse_oversize(self) -> Option<ForwardedBatch> {
        match entry::refuse_oversize(&self.bytes) {
            Some((header, bytes)) => Some(ForwardedBatch { header, bytes }),
            None => Some(self).filter(|batch| batch.bytes.len() <= BATCH_ALONE_BYTES_MAX),
        }
    }
}

/// Why a message of another member was not accepted. The link it came on is closed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PeerError {
    /// The kind is unknown: another version sent it, or it is garbage.
    #[error("a message of unknown kind {0}")]
    UnknownKind(u8),
    /// The body does not decode as a message of this kind.
    #[error("a message of kind {kind}: {cause}")]
    Malformed {
        /// The kind of the message.
        kind: u8,
        /// The reason, with the offset.
        cause: DecodeError,
    },
    /// The origin of a batch is another member than the sender, or another boot than the message
    /// names.
    #[error("forwarded batches whose origin is not member {from:x}")]
    ForeignBatch {
        /// The member that sent the message.
        from: u64,
    },
    /// A forwarded batch has a command that only a leader makes: one about the ensemble, or one
    /// without a connection.
    #[error(
        "forwarded commands that are none of a client's, in the batch with sequence {sequence}"
    )]
    OwnCommand {
        /// The sequence of the batch.
        sequence: u64,
    },
    /// A Raft message that installs a snapshot came without an offer, or an offer contains a
    /// message that installs none.
    #[error("a Raft message that is no offer of a snapshot, or an offer that is none")]
    NoOffer,
    /// A member was asked to lend a snapshot to itself, or was offered its own one.
    #[error("a snapshot for the member that has it")]
    OwnSnapshot,
    /// The log has another entry at the snapshot's index, or none. A snapshot holds only committed
    /// entries, so every leader's log has them.
    #[error(
        "a snapshot at log index {index}, term {term}, where the log has another entry or none"
    )]
    ForeignSnapshot {
        /// The index of the last entry that the snapshot is said to hold.
        index: u64,
        /// The term of that entry.
        term: u64,
    },
    /// A leader sent an entry that no member can apply.
    #[error("entry {index} of the log, which cannot be applied: {cause}")]
    Entry {
        /// The index of the entry.
        index: u64,
        /// The reason, with the offset in the entry or in the command.
        cause: DecodeError,
    },
    /// The replica refuses the message.
    #[error("a Raft message: {0}")]
    Raft(#[from] replica::MessageError),
}

impl PeerMessage {
    /// Encodes the message. A Raft message is not copied.
    pub fn encode(self) -> PeerFrame {
        let mut out = Vec::new();
        let kind = match self {
            PeerMessage::Raft(body) => return PeerFrame { kind: KIND_RAFT, body },
            PeerMessage::Forward(forward) => {
                encode_forward(&forward, &mut out);
                KIND_FORWARD
            }
            PeerMessage::Restart { boot, stream } => {
                out.put_u64(boot.0);
                out.put_u64(stream);
                KIND_RESTART
            }
            PeerMessage::Heard(heard) => {
                encode_heard(&heard, &mut out);
                KIND_HEARD
            }
            PeerMessage::Heeded { boot, number, contact_ms } => {
                out.put_u64(boot.0);
                out.put_u64(number);
                out.put_u64(contact_ms);
                KIND_HEEDED
            }
            PeerMessage::Full(is_full) => {
                out.put_u8(u8::from(is_full));
                KIND_FULL
            }
            PeerMessage::Offer(offer) => {
                encode_offer(&offer, &mut out);
                KIND_OFFER
            }
            PeerMessage::Digest { index, digest } => {
                out.put_u64(index);
                out.put_u128(digest.0);
                KIND_DIGEST
            }
            PeerMessage::Differs { index } => {
                out.put_u64(index);
                KIND_DIFFERS
            }
            PeerMessage::Lend { to, index } => {
                out.put_u64(to.0);
                out.put_u64(index);
                KIND_LEND
            }
            PeerMessage::Lent { to, snapshot } => {
                encode_lent(to, snapshot, &mut out);
                KIND_LENT
            }
            PeerMessage::NeedLevel(level) => {
                out.put_u16(level.number());
                KIND_NEED_LEVEL
            }
            PeerMessage::AskLeases(asked) => {
                asked.encode(&mut out);
                KIND_ASK_LEASES
            }
            PeerMessage::LeaseTimes(times) => {
                times.encode(&mut out);
                KIND_LEASE_TIMES
            }
            PeerMessage::Want(want) => return encode_want(want),
            PeerMessage::Piece(piece) => return encode_piece(&piece),
            PeerMessage::Gone(at) => return encode_gone(at),
        };
        PeerFrame { kind, body: out.into() }
    }

    /// Decodes a frame that `from` sent.
    ///
    /// # Errors
    /// No correct member sends such a frame.
    pub fn decode(from: MemberId, frame: PeerFrame) -> Result<PeerMessage, PeerError> {
        let PeerFrame { kind, body } = frame;
        if kind == KIND_RAFT {
            return Ok(PeerMessage::Raft(body));
        }
        let malformed = |cause| PeerError::Malformed { kind, cause };
        let mut reader = Reader::new(&body);
        let message = match kind {
            KIND_FORWARD => PeerMessage::Forward(decode_forward(&body).map_err(malformed)?),
            KIND_RESTART => decode_restart(&mut reader).map_err(malformed)?,
            KIND_HEARD => PeerMessage::Heard(decode_heard(&mut reader).map_err(malformed)?),
            KIND_HEEDED => decode_heeded(&mut reader).map_err(malformed)?,
            KIND_FULL => PeerMessage::Full(decode_full(&mut reader).map_err(malformed)?),
            KIND_OFFER => {
                let holder = MemberId(reader.u64().map_err(malformed)?);
                let message = body.slice(reader.offset()..);
                PeerMessage::Offer(Offer { holder, message })
            }
            KIND_DIGEST => decode_digest(&mut reader).map_err(malformed)?,
            KIND_DIFFERS => {
                let index = reader.u64().map_err(malformed)?;
                reader.finish().map_err(malformed)?;
                PeerMessage::Differs { index }
            }
            KIND_LEND => decode_lend(&mut reader).map_err(malformed)?,
            KIND_LENT => decode_lent(&mut reader).map_err(malformed)?,
            KIND_NEED_LEVEL => decode_need_level(&mut reader).map_err(malformed)?,
            KIND_ASK_LEASES => {
                PeerMessage::AskLeases(AskLeases::decode(&mut reader).map_err(malformed)?)
            }
            KIND_LEASE_TIMES => {
                PeerMessage::LeaseTimes(LeaseTimes::decode(&mut reader).map_err(malformed)?)
            }
            KIND_WANT => PeerMessage::Want(decode_want(&mut reader).map_err(malformed)?),
            KIND_PIECE => PeerMessage::Piece(decode_piece(&body).map_err(malformed)?),
            KIND_GONE => {
                let at = decode_at(&mut reader).map_err(malformed)?;
                reader.finish().map_err(malformed)?;
                PeerMessage::Gone(at)
            }
            kind => return Err(PeerError::UnknownKind(kind)),
        };
        if let PeerMessage::Forward(forward) = &message {
            check_origins(from, forward)?;
            check_commands(forward)?;
        }
        Ok(message)
    }
}

fn encode_forward(forward: &Forward, out: &mut Vec<u8>) {
    assert!(forward.batches.len() <= FORWARD_BATCHES_MAX);
    let bytes: usize = forward.batches.iter().map(|batch| batch.bytes.len()).sum();
    out.reserve(28 + bytes);
    out.put_u64(forward.boot.0);
    out.put_u64(forward.stream);
    out.put_u64(forward.position);
    out.put_u32(forward.batches.len() as u32);
    forward.batches.iter().for_each(|batch| out.extend_from_slice(&batch.bytes));
}

fn encode_heard(heard: &Heard, out: &mut Vec<u8>) {
    assert!(heard.owners.len() <= HEARD_SESSIONS_MAX);
    out.put_u64(heard.boot.0);
    out.put_u64(heard.number);
    out.put_u32(heard.owners.len() as u32);
    heard.owners.iter().for_each(|Owner::Session(session)| out.put_i64(session.0));
}

fn encode_offer(offer: &Offer, out: &mut Vec<u8>) {
    out.reserve(8 + offer.message.len());
    out.put_u64(offer.holder.0);
    out.extend_from_slice(&offer.message);
}

fn encode_lent(to: MemberId, snapshot: Option<LentSnapshot>, out: &mut Vec<u8>) {
    out.put_u64(to.0);
    out.put_u8(u8::from(snapshot.is_some()));
    if let Some(LentSnapshot { at, digest }) = snapshot {
        encode_at(at, out);
        out.put_u128(digest.0);
    }
}

fn encode_want(want: Want) -> PeerFrame {
    let mut out = Vec::new();
    encode_at(want.at, &mut out);
    out.put_u64(want.offset);
    PeerFrame { kind: KIND_WANT, body: out.into() }
}

fn encode_piece(piece: &Piece) -> PeerFrame {
    assert!(piece.bytes.len() <= FETCHED_PIECE_BYTES);
    let mut out = Vec::with_capacity(32 + piece.bytes.len());
    encode_at(piece.at, &mut out);
    out.put_u64(piece.offset);
    out.put_u64(piece.total);
    out.extend_from_slice(&piece.bytes);
    PeerFrame { kind: KIND_PIECE, body: out.into() }
}

fn encode_gone(at: SnapshotAt) -> PeerFrame {
    let mut out = Vec::new();
    encode_at(at, &mut out);
    PeerFrame { kind: KIND_GONE, body: out.into() }
}

fn decode_forward(body: &Bytes) -> Result<Forward, DecodeError> {
    let mut reader = Reader::new(body);
    let (boot, stream, position) = (BootId(reader.u64()?), reader.u64()?, reader.u64()?);
    let count = reader.count("batch count", FORWARD_BATCHES_MAX)?;
    let mut batches = Vec::new();
    let mut offset = reader.offset();
    for _ in 0..count {
        let (header, end) = entry::check_batch(body, offset)?;
        batches.push(ForwardedBatch { header, bytes: body.slice(offset..end) });
        offset = end;
    }
    match body.len() - offset {
        0 => Ok(Forward { boot, stream, position, batches }),
        bytes => Err(DecodeError::Trailing { offset, bytes }),
    }
}

/// Checks that each batch is the sender's own and that their sequences follow each other.
fn check_origins(from: MemberId, forward: &Forward) -> Result<(), PeerError> {
    let mut before = None;
    for batch in &forward.batches {
        let (origin, sequence) = (batch.header.origin, batch.header.sequence);
        let is_own = origin.member == from && origin.boot == forward.boot;
        let is_next =
            sequence > 0 && before.is_none_or(|last: u64| last.checked_add(1) == Some(sequence));
        if !is_own || !is_next {
            return Err(PeerError::ForeignBatch { from: from.0 });
        }
        before = Some(sequence);
    }
    Ok(())
}

/// Checks that all commands are a client's. A member forwards no commands of its own Loop, and
/// Apply trusts such commands.
fn check_commands(forward: &Forward) -> Result<(), PeerError> {
    match forward.batches.iter().find(|batch| !entry::may_be_forwarded(&batch.bytes)) {
        Some(batch) => Err(PeerError::OwnCommand { sequence: batch.header.sequence }),
        None => Ok(()),
    }
}

fn decode_need_level(reader: &mut Reader<'_>) -> Result<PeerMessage, DecodeError> {
    let number = reader.u16()?;
    let level = Level::from_number(number).ok_or_else(|| reader.bad("level", number.into()))?;
    reader.finish()?;
    Ok(PeerMessage::NeedLevel(level))
}

fn decode_restart(reader: &mut Reader<'_>) -> Result<PeerMessage, DecodeError> {
    let (boot, stream) = (BootId(reader.u64()?), reader.u64()?);
    reader.finish()?;
    Ok(PeerMessage::Restart { boot, stream })
}

fn decode_heard(reader: &mut Reader<'_>) -> Result<Heard, DecodeError> {
    let (boot, number) = (BootId(reader.u64()?), reader.u64()?);
    let count = reader.count("session count", HEARD_SESSIONS_MAX)?;
    let mut owners = Vec::new();
    for _ in 0..count {
        owners.push(Owner::Session(SessionId(reader.i64()?)));
    }
    reader.finish()?;
    Ok(Heard { boot, number, owners })
}

fn decode_heeded(reader: &mut Reader<'_>) -> Result<PeerMessage, DecodeError> {
    let (boot, number, contact_ms) = (BootId(reader.u64()?), reader.u64()?, reader.u64()?);
    reader.finish()?;
    Ok(PeerMessage::Heeded { boot, number, contact_ms })
}

fn decode_digest(reader: &mut Reader<'_>) -> Result<PeerMessage, DecodeError> {
    let (index, digest) = (reader.u64()?, Digest(reader.u128()?));
    reader.finish()?;
    Ok(PeerMessage::Digest { index, digest })
}

fn decode_lend(reader: &mut Reader<'_>) -> Result<PeerMessage, DecodeError> {
    let (to, index) = (MemberId(reader.u64()?), reader.u64()?);
    reader.finish()?;
    Ok(PeerMessage::Lend { to, index })
}

fn decode_lent(reader: &mut Reader<'_>) -> Result<PeerMessage, DecodeError> {
    let to = MemberId(reader.u64()?);
    let snapshot = match reader.u8()? {
        0 => None,
        1 => Some(LentSnapshot { at: decode_at(reader)?, digest: Digest(reader.u128()?) }),
        value => return Err(reader.bad("flag", u64::from(value))),
    };
    reader.finish()?;
    Ok(PeerMessage::Lent { to, snapshot })
}

fn encode_at(at: SnapshotAt, out: &mut Vec<u8>) {
    out.put_u64(at.index);
    out.put_u64(at.term);
}

fn decode_at(reader: &mut Reader<'_>) -> Result<SnapshotAt, DecodeError> {
    Ok(SnapshotAt { index: reader.u64()?, term: reader.u64()? })
}

fn decode_want(reader: &mut Reader<'_>) -> Result<Want, DecodeError> {
    let want = Want { at: decode_at(reader)?, offset: reader.u64()? };
    reader.finish()?;
    Ok(want)
}

/// Decodes a piece. It must lie within its file and not be empty.
fn decode_piece(body: &Bytes) -> Result<Piece, DecodeError> {
    let mut reader = Reader::new(body);
    let (at, offset, total) = (decode_at(&mut reader)?, reader.u64()?, reader.u64()?);
    let bytes = body.slice(reader.offset()..);
    let end = offset.checked_add(bytes.len() as u64);
    match end {
        Some(end) if end <= total && !bytes.is_empty() && bytes.len() <= FETCHED_PIECE_BYTES => {
            Ok(Piece { at, offset, total, bytes })
        }
        _ => Err(reader.bad("piece", bytes.len() as u64)),
    }
}

fn decode_full(reader: &mut Reader<'_>) -> Result<bool, DecodeError> {
    let value = reader.u8()?;
    reader.finish()?;
    match value {
        0 => Ok(false),
        1 => Ok(true),
        value => Err(reader.bad("flag", u64::from(value))),
    }
}

#[cfg(test)]
mod tests;
