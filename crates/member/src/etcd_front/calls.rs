//! The calls of a Front, by what they wait for.

use std::sync::Arc;

use bytes::Bytes;
use etcd::convert::{self, Header, LeaseResponse, Piece, Response};
use etcd::limits::TXN_OPS_TOTAL_MAX;
use etcd::pb::etcdserverpb as pb;
use machine::LeaseId;
use machine::etcd::Store;
use machine::etcd::reply::{Found as RangeFound, Outcome, Refusal, TxnDone};

use super::Method;
use super::leases::{self, AskedLease, LeaseCall};
use super::range::{self, Range, Stepped};
use super::stream::Stream;
use crate::lease::LeaseTime;
use crate::reply_room::{HeldReply, ReplyRoom};

/// A call that is not done.
pub(super) enum Call {
    /// A write that waits until the level of the state allows it, with its request.
    Held {
        /// The method of the call.
        method: Method,
        /// The bytes of the request.
        request: Bytes,
    },
    /// A command that was handed over.
    Command {
        /// Bytes of credit that it holds.
        bytes: usize,
        /// Whether it is a compaction that waits until the memory is freed.
        is_physical: bool,
        /// Whether nobody waits for the result any more.
        is_cancelled: bool,
    },
    /// A read that waits until this member has applied what was committed.
    Confirming(Read),
    /// A question about a lease that was handed over.
    Asking(AskedLease),
    /// A read, or a question about a lease, that waits for the lock.
    Ready(Read),
    /// A streamed read whose newest piece the driver has, until the client has taken it.
    Sent(Stream),
    /// A compaction that is done, and waits until the memory is freed.
    Pruning {
        /// The response.
        reply: Reply,
    },
}

/// A request to read. Its form was checked.
pub(super) enum Read {
    Range(Range),
    Txn(pb::TxnRequest),
    Stream(Stream),
    /// A question about a lease, which is handed over under the lock.
    AskLease(LeaseCall),
    /// The rest of an answer about a lease.
    TimeToLive {
        lease: LeaseId,
        with_keys: bool,
        /// What the leader has said.
        time: Option<LeaseTime>,
    },
    /// All leases.
    Leases,
}

/// The response to a call or a piece of it, not encoded yet: it shares the versions that it shows.
/// So it takes little memory until there is room to send it, and its size is known before.
#[derive(Debug)]
pub struct Reply {
    header: Header,
    body: Body,
    /// The room for references that it takes until it is dropped.
    _held: Option<HeldReply>,
}

#[derive(Debug)]
enum Body {
    Outcome(Outcome),
    Range(RangeFound),
    Txn(TxnDone),
    Piece(Piece),
    Lease(LeaseResponse),
}

/// How a turn of a read under the lock ended, if it is not refused.
pub(super) enum Ran {
    /// With the result, or the next piece of it.
    Found(Found),
    /// A range was read to its end; its result is made without the lock.
    Range,
    /// It goes on in another hold.
    More,
    /// It has not begun, since there is no room for what it may find.
    NoRoom,
}

/// The result of a read, or the next piece of it.
pub(super) enum Found {
    Txn(TxnDone, Option<HeldReply>),
    Piece { piece: Piece, is_last: bool },
    Lease(LeaseResponse),
}

impl Read {
    /// Runs the read, or a step of it, and takes the keys that it looks at off `keys_left`.
    pub fn run(
        &mut self,
        store: &Store,
        keys_left: &mut u64,
        room: &Arc<ReplyRoom>,
    ) -> Result<Ran, Refusal> {
        let found = match self {
            Read::Range(range) => {
                return range.step(store, keys_left, room).map(|stepped| match stepped {
                    Stepped::Done => Ran::Range,
                    Stepped::More => Ran::More,
                    Stepped::NoRoom => Ran::NoRoom,
                });
            }
            Read::Txn(request) => {
                // The setting that it was checked with may have changed since.
                let txn = convert::txn(request, TXN_OPS_TOTAL_MAX)
                    .expect("the request was checked when it came");
                let count = range::reference_count_max_of(store, &txn);
                let Some(held) = range::hold(room, count) else { return Ok(Ran::NoRoom) };
                *keys_left = keys_left.saturating_sub(count);
                Found::Txn(store.read_txn(&txn)?, held)
            }
            Read::Stream(stream) => {
                let (piece, is_last) = stream.next(store)?;
                *keys_left = keys_left.saturating_sub(piece.events().len() as u64);
                Found::Piece { piece, is_last }
            }
            Read::AskLease(_) => unreachable!("a question is handed over"),
            Read::TimeToLive { lease, with_keys, time } => {
                Found::Lease(leases::time_to_live(store, *lease, *with_keys, *time))
            }
            Read::Leases => {
                let revision = store.revision();
                let leases = store.leases().iter().map(|(lease, _)| lease).collect();
                Found::Lease(LeaseResponse::Leases { revision, leases })
            }
        };
        Ok(Ran::Found(found))
    }
}

impl Reply {
    pub(super) fn of_outcome(header: Header, outcome: Outcome) -> Reply {
        let body = match LeaseResponse::of_outcome(&outcome) {
            Some(response) => Body::Lease(response),
            None => Body::Outcome(outcome),
        };
        Reply { header, body, _held: None }
    }

    pub(super) fn of_lease(header: Header, response: LeaseResponse) -> Reply {
        Reply { header, body: Body::Lease(response), _held: None }
    }

    /// The result of a range, with the room that it holds.
    pub(super) fn of_range(header: Header, found: RangeFound, held: Option<HeldReply>) -> Reply {
        Reply { header, body: Body::Range(found), _held: held }
    }

    pub(super) fn of_found(header: Header, found: Found) -> Reply {
        let (body, held) = match found {
            Found::Txn(done, held) => (Body::Txn(done), held),
            Found::Piece { piece, .. } => (Body::Piece(piece), None),
            Found::Lease(response) => (Body::Lease(response), None),
        };
        Reply { header, body, _held: held }
    }

    /// Bytes of the message.
    pub fn bytes(&self) -> usize {
        match &self.body {
            Body::Outcome(outcome) => Response::of_outcome(self.header, outcome).bytes(),
            Body::Range(found) => Response::of_range(self.header, found).bytes(),
            Body::Txn(done) => Response::of_txn(self.header, done).bytes(),
            Body::Piece(piece) => piece.bytes(self.header),
            Body::Lease(response) => response.bytes(self.header),
        }
    }

    /// Appends the message.
    pub fn write(&self, out: &mut Vec<u8>) {
        match &self.body {
            Body::Outcome(outcome) => append(&Response::of_outcome(self.header, outcome), out),
            Body::Range(found) => append(&Response::of_range(self.header, found), out),
            Body::Txn(done) => append(&Response::of_txn(self.header, done), out),
            Body::Piece(piece) => {
                out.reserve(piece.bytes(self.header));
                piece.write(self.header, out);
            }
            Body::Lease(response) => {
                out.reserve(response.bytes(self.header));
                response.write(self.header, out);
            }
        }
    }
}

fn append(response: &Response<'_>, out: &mut Vec<u8>) {
    out.reserve(response.bytes());
    response.write(out);
}
