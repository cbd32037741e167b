//! Holds the response to a call, or a piece of it, until it is encoded, and encodes it.

use std::sync::Arc;

use etcd::convert::{self, Encoder, Header, LeaseResponse, Piece, Response};
use machine::LeaseId;
use machine::etcd::reply::{Branch, Found as RangeFound, OpDone, Outcome, TxnDone};

use crate::fronts::etcd::limits::{
    ETCD_ENCODED_BYTES, ETCD_ENCODED_ITEMS_MAX, ETCD_REFERENCE_BYTES,
};
use crate::limits::SMALL_REPLY_BYTES;
use crate::reply_room::{HeldReply, ReplyRoom};

/// The response to a call, or a piece of it, before it is encoded. It refers to the versions of
/// keys in the store. So it takes little memory while it waits for room to be sent, and its size in
/// bytes can be found without encoding it.
///
/// A short response ([`Reply::is_short`]) is measured and written at once, a longer one in steps
/// and pieces ([`Reply::into_pieces`]).
#[derive(Debug)]
pub struct Reply {
    header: Header,
    body: Body,
    /// The room that the response's references to the store take, given back when the response is
    /// dropped.
    held: Option<HeldReply>,
}

#[derive(Debug)]
enum Body {
    Outcome(Outcome),
    Range(RangeFound),
    Txn(TxnDone),
    Piece(Piece),
    Lease(LeaseResponse),
    Encoded(Vec<u8>),
}

/// The result of a read, or its next piece.
pub(super) enum Found {
    Txn(TxnDone, Option<HeldReply>),
    Piece { piece: Piece, is_last: bool },
    Lease(LeaseResponse),
    Encoded(Vec<u8>),
}

/// A long response. Its size is measured in steps, then it is written in pieces. Each step and
/// piece is little work, so the driver can serve other calls in between.
#[derive(Debug)]
pub struct ReplyPieces {
    left: Left,
    /// The room for its references, given back when this is dropped.
    _held: Option<HeldReply>,
}

#[derive(Debug)]
enum Left {
    List(Box<Encoder>),
    /// A response without a list. It is written at once.
    Whole(Reply),
}

impl Reply {
    /// The response to a write. If it has many references, it counts them in `room`, but does not
    /// wait for room: the write has taken effect.
    pub(super) fn from_outcome(header: Header, outcome: Outcome, room: &Arc<ReplyRoom>) -> Reply {
        let held = hold(room, held_bytes(&outcome));
        let body = match (LeaseResponse::from_outcome(&outcome), outcome) {
            (Some(response), _) => Body::Lease(response),
            (None, Outcome::Authenticated { revision, token }) => {
                Body::Encoded(convert::authenticated(header, revision, token.to_string()))
            }
            (None, Outcome::Alarmed { revision, alarm }) => {
                Body::Encoded(convert::alarmed(header, revision, alarm))
            }
            (None, outcome) => Body::Outcome(outcome),
        };
        Reply { header, body, held }
    }

    /// A response that is encoded already.
    pub(super) fn from_bytes(header: Header, response: Vec<u8>) -> Reply {
        Reply { header, body: Body::Encoded(response), held: None }
    }

    pub(super) fn from_lease(header: Header, response: LeaseResponse) -> Reply {
        Reply { header, body: Body::Lease(response), held: None }
    }

    /// The result of a range, with the room that it holds.
    pub(super) fn from_range(header: Header, found: RangeFound, held: Option<HeldReply>) -> Reply {
        Reply { header, body: Body::Range(found), held }
    }

    /// The result of a read. A long list about leases counts in `room`, and does not wait for it.
    pub(super) fn from_found(header: Header, found: Found, room: &Arc<ReplyRoom>) -> Reply {
        let (body, held) = match found {
            Found::Txn(done, held) => (Body::Txn(done), held),
            Found::Piece { piece, .. } => (Body::Piece(piece), None),
            Found::Lease(response) => {
                let held = hold(room, list_bytes(&response));
                (Body::Lease(response), held)
            }
            Found::Encoded(response) => (Body::Encoded(response), None),
        };
        Reply { header, body, held }
    }

    /// Whether the response has so few items (versions, keys, leases, operations) that it can be
    /// measured and written at once with little work, however many bytes they have.
    pub fn is_short(&self) -> bool {
        let mut left = ETCD_ENCODED_ITEMS_MAX;
        let mut takes = |count: usize| {
            left = left.saturating_sub(count);
            left > 0
        };
        match &self.body {
            Body::Outcome(Outcome::Txn(done)) | Body::Txn(done) => {
                has_few_items(&done.branch, &mut left)
            }
            Body::Outcome(Outcome::DeleteRange(done)) => takes(done.prev.len()),
            Body::Range(found) => takes(found.events.len()),
            Body::Piece(piece) => takes(piece.events().len()),
            Body::Lease(LeaseResponse::TimeToLive(found)) => takes(found.keys.len()),
            Body::Lease(LeaseResponse::Leases { leases, .. }) => takes(leases.len()),
            Body::Outcome(_) | Body::Lease(_) | Body::Encoded(_) => true,
        }
    }

    /// The size of the encoded message in bytes. Only for a short response, because it looks at all
    /// items.
    pub fn bytes(&self) -> usize {
        match &self.body {
            Body::Outcome(outcome) => Response::from_outcome(self.header, outcome).bytes(),
            Body::Range(found) => Response::from_range(self.header, found).bytes(),
            Body::Txn(done) => Response::from_txn(self.header, done).bytes(),
            Body::Piece(piece) => piece.bytes(self.header),
            Body::Lease(response) => response.bytes(self.header),
            Body::Encoded(response) => response.len(),
        }
    }

    /// Appends the encoded message. Only for a short response, because it writes all items.
    pub fn write(&self, out: &mut Vec<u8>) {
        match &self.body {
            Body::Outcome(outcome) => append(&Response::from_outcome(self.header, outcome), out),
            Body::Range(found) => append(&Response::from_range(self.header, found), out),
            Body::Txn(done) => append(&Response::from_txn(self.header, done), out),
            Body::Piece(piece) => {
                out.reserve(piece.bytes(self.header));
                piece.write(self.header, out);
            }
            Body::Lease(response) => {
                out.reserve(response.bytes(self.header));
                response.write(self.header, out);
            }
            Body::Encoded(response) => out.extend_from_slice(response),
        }
    }

    /// Makes the response one that is measured in steps and written in pieces.
    pub fn into_pieces(self) -> ReplyPieces {
        let Reply { header, body, held } = self;
        let whole = |body| Left::Whole(Reply { header, body, held: None });
        let left = match body {
            Body::Outcome(Outcome::Txn(done)) | Body::Txn(done) => {
                Left::List(Box::new(Encoder::from_txn(header, done)))
            }
            Body::Outcome(Outcome::DeleteRange(done)) => {
                Left::List(Box::new(Encoder::from_deleted(header, done)))
            }
            Body::Range(found) => Left::List(Box::new(Encoder::from_range(header, found))),
            Body::Lease(response) => match Encoder::from_lease(header, response) {
                Ok(encoder) => Left::List(Box::new(encoder)),
                Err(response) => whole(Body::Lease(response)),
            },
            // A piece of a stream is short, and a put shows at most one earlier version.
            body @ (Body::Outcome(_) | Body::Piece(_) | Body::Encoded(_)) => whole(body),
        };
        ReplyPieces { left, _held: held }
    }
}

impl ReplyPieces {
    /// Measures further. Returns the size of the message in bytes once all items are measured, else
    /// `None`.
    pub fn measure(&mut self) -> Option<usize> {
        match &mut self.left {
            Left::List(encoder) => encoder.measure(ETCD_ENCODED_ITEMS_MAX),
            Left::Whole(reply) => Some(reply.bytes()),
        }
    }

    /// Appends the next piece. The message must be measured. Returns whether more follows.
    pub fn write(&mut self, out: &mut Vec<u8>) -> bool {
        match &mut self.left {
            Left::List(encoder) => encoder.write(ETCD_ENCODED_ITEMS_MAX, ETCD_ENCODED_BYTES, out),
            Left::Whole(reply) => {
                reply.write(out);
                false
            }
        }
    }
}

fn append(response: &Response<'_>, out: &mut Vec<u8>) {
    out.reserve(response.bytes());
    response.write(out);
}

/// Subtracts a branch's items from `left`, and returns whether `left` stays above 0.
fn has_few_items(branch: &Branch, left: &mut usize) -> bool {
    branch.done.iter().all(|op| {
        let items = match op {
            OpDone::Range(found) => found.events.len(),
            OpDone::DeleteRange(done) => done.prev.len(),
            OpDone::Put(_) => 1,
            OpDone::Txn(nested) if !has_few_items(nested, left) => return false,
            OpDone::Txn(_) => 0,
        };
        *left = left.saturating_sub(items + 1);
        *left > 0
    })
}

/// Counts these bytes in `room`, unless they are few.
fn hold(room: &Arc<ReplyRoom>, bytes: usize) -> Option<HeldReply> {
    (bytes > SMALL_REPLY_BYTES).then(|| HeldReply::new(room, bytes))
}

/// The bytes of the list in a response about leases.
fn list_bytes(response: &LeaseResponse) -> usize {
    match response {
        LeaseResponse::TimeToLive(found) => references(found.keys.len()),
        LeaseResponse::Leases { leases, .. } => leases.len() * size_of::<LeaseId>(),
        _ => 0,
    }
}

/// The bytes of the references and the operations in an outcome.
fn held_bytes(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::DeleteRange(done) => references(done.prev.len()),
        Outcome::Txn(done) => held_bytes_of(&done.branch),
        _ => 0,
    }
}

fn held_bytes_of(branch: &Branch) -> usize {
    let of_ops = branch.done.iter().map(|op| match op {
        OpDone::Range(found) => references(found.events.len()),
        OpDone::DeleteRange(done) => references(done.prev.len()),
        OpDone::Put(_) => 0,
        OpDone::Txn(nested) => held_bytes_of(nested),
    });
    of_ops.sum::<usize>() + branch.done.len() * size_of::<OpDone>()
}

fn references(count: usize) -> usize {
    count * ETCD_REFERENCE_BYTES as usize
}

#[cfg(test)]
mod tests;
