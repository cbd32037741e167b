//! The calls of a Front, by what they wait for.

use bytes::Bytes;
use etcd::convert::{self, Header, LeaseResponse, Piece, Response};
use etcd::limits::TXN_OPS_TOTAL_MAX;
use etcd::pb::etcdserverpb as pb;
use machine::LeaseId;
use machine::etcd::Store;
use machine::etcd::reply::{Found as RangeFound, Outcome, Refusal, TxnDone};

use super::Method;
use super::leases::{self, AskedLease, LeaseCall};
use super::stream::Stream;
use crate::lease::LeaseTime;

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
    Range(pb::RangeRequest),
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
}

#[derive(Debug)]
enum Body {
    Outcome(Outcome),
    Range(RangeFound),
    Txn(TxnDone),
    Piece(Piece),
    Lease(LeaseResponse),
}

/// The result of a read, or the next piece of it.
pub(super) enum Found {
    Range(RangeFound),
    Txn(TxnDone),
    Piece { piece: Piece, is_last: bool },
    Lease(LeaseResponse),
}

impl Read {
    /// Runs the read.
    pub fn run(&mut self, store: &Store) -> Result<Found, Refusal> {
        const CHECKED: &str = "the request was checked when it came";
        match self {
            Read::Range(request) => {
                let range = convert::range(request).expect(CHECKED);
                store.range(&range).map(Found::Range)
            }
            Read::Txn(request) => {
                // The setting that it was checked with may have changed since.
                let txn = convert::txn(request, TXN_OPS_TOTAL_MAX).expect(CHECKED);
                store.read_txn(&txn).map(Found::Txn)
            }
            Read::Stream(stream) => {
                stream.next(store).map(|(piece, is_last)| Found::Piece { piece, is_last })
            }
            Read::AskLease(_) => unreachable!("a question is handed over"),
            Read::TimeToLive { lease, with_keys, time } => {
                Ok(Found::Lease(leases::time_to_live(store, *lease, *with_keys, *time)))
            }
            Read::Leases => {
                let revision = store.revision();
                let leases = store.leases().iter().map(|(lease, _)| lease).collect();
                Ok(Found::Lease(LeaseResponse::Leases { revision, leases }))
            }
        }
    }
}

impl Reply {
    pub(super) fn of_outcome(header: Header, outcome: Outcome) -> Reply {
        let body = match LeaseResponse::of_outcome(&outcome) {
            Some(response) => Body::Lease(response),
            None => Body::Outcome(outcome),
        };
        Reply { header, body }
    }

    pub(super) fn of_lease(header: Header, response: LeaseResponse) -> Reply {
        Reply { header, body: Body::Lease(response) }
    }

    pub(super) fn of_found(header: Header, found: Found) -> Reply {
        let body = match found {
            Found::Range(found) => Body::Range(found),
            Found::Txn(done) => Body::Txn(done),
            Found::Piece { piece, .. } => Body::Piece(piece),
            Found::Lease(response) => Body::Lease(response),
        };
        Reply { header, body }
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
