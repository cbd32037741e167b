//! The calls of a Front, by what they wait for.

use bytes::Bytes;
use etcd::convert::{self, Header, Response};
use etcd::pb::etcdserverpb as pb;
use machine::etcd::Store;
use machine::etcd::reply::{Found as RangeFound, Refusal, TxnDone};

use super::Method;

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
    /// A read that waits for the lock.
    Ready(Read),
    /// A compaction that is done, and waits until the memory is freed.
    Pruning {
        /// The response.
        response: Vec<u8>,
    },
}

/// A request to read. Its form was checked.
pub(super) enum Read {
    Range(pb::RangeRequest),
    Txn(pb::TxnRequest),
}

/// The result of a read: references to versions, to be encoded without the lock.
pub(super) enum Found {
    Range(RangeFound),
    Txn(TxnDone),
}

impl Read {
    /// Runs the read. `txn_ops_max` is the one that the request was checked with.
    pub fn run(&self, store: &Store, txn_ops_max: usize) -> Result<Found, Refusal> {
        const CHECKED: &str = "the request was checked when it came";
        match self {
            Read::Range(request) => {
                let range = convert::range(request).expect(CHECKED);
                store.range(&range).map(Found::Range)
            }
            Read::Txn(request) => {
                let txn = convert::txn(request, txn_ops_max).expect(CHECKED);
                store.read_txn(&txn).map(Found::Txn)
            }
        }
    }
}

impl Found {
    /// The bytes of the response.
    pub fn response(&self, header: Header) -> Vec<u8> {
        match self {
            Found::Range(found) => Response::of_range(header, found).to_vec(),
            Found::Txn(done) => Response::of_txn(header, done).to_vec(),
        }
    }
}
