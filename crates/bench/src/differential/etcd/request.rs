//! Requests as values, and their replies without the numbers in which servers may differ.

use bytes::Bytes;
use etcd::pb::Message;
use etcd::pb::etcdserverpb as pb;

use crate::client_etcd::{COMPACT, Call, DELETE_RANGE, PUT, RANGE, TXN};
use crate::grpc::Answer;

/// A request of one of the methods.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// A read.
    Range(pb::RangeRequest),
    /// A write.
    Put(pb::PutRequest),
    /// A removal.
    DeleteRange(pb::DeleteRangeRequest),
    /// A transaction.
    Txn(pb::TxnRequest),
    /// A compaction.
    Compact(pb::CompactionRequest),
    /// An empty message to a method that does not exist.
    Unknown(&'static str),
}

/// The reply to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// To [`Request::Range`].
    Range(pb::RangeResponse),
    /// To [`Request::Put`].
    Put(pb::PutResponse),
    /// To [`Request::DeleteRange`].
    DeleteRange(pb::DeleteRangeResponse),
    /// To [`Request::Txn`].
    Txn(pb::TxnResponse),
    /// To [`Request::Compact`].
    Compact(pb::CompactionResponse),
    /// An error.
    Error {
        /// The gRPC status code.
        code: u32,
        /// The text of the error, as it was sent.
        message: String,
    },
}

/// A request that removes every key.
pub fn everything() -> pb::DeleteRangeRequest {
    let all = Bytes::from_static(b"\0");
    pb::DeleteRangeRequest { key: all.clone(), range_end: all, prev_kv: true }
}

impl Request {
    /// The request, encoded.
    ///
    /// # Errors
    /// It is longer than gRPC can say.
    pub fn call(&self) -> anyhow::Result<Call> {
        match self {
            Request::Range(request) => Call::new(RANGE, request),
            Request::Put(request) => Call::new(PUT, request),
            Request::DeleteRange(request) => Call::new(DELETE_RANGE, request),
            Request::Txn(request) => Call::new(TXN, request),
            Request::Compact(request) => Call::new(COMPACT, request),
            Request::Unknown(path) => Call::new(path, &pb::HashRequest {}),
        }
    }

    /// The reply in an answer to this request.
    ///
    /// # Errors
    /// The answer is none to such a request.
    pub fn reply(&self, answer: Answer) -> anyhow::Result<Reply> {
        let Answer { code, message, body } = answer;
        if code != 0 {
            return Ok(Reply::Error { code, message });
        }
        let mut reply = match self {
            Request::Range(_) => Reply::Range(Message::decode(body)?),
            Request::Put(_) => Reply::Put(Message::decode(body)?),
            Request::DeleteRange(_) => Reply::DeleteRange(Message::decode(body)?),
            Request::Txn(_) => Reply::Txn(Message::decode(body)?),
            Request::Compact(_) => Reply::Compact(Message::decode(body)?),
            Request::Unknown(path) => anyhow::bail!("{path} is answered"),
        };
        if let Some(header) = reply.header() {
            // The numbers differ between servers; only their presence is compared.
            header.cluster_id = header.cluster_id.min(1);
            header.member_id = header.member_id.min(1);
            header.raft_term = header.raft_term.min(1);
        }
        Ok(reply)
    }
}

impl Reply {
    fn header(&mut self) -> Option<&mut pb::ResponseHeader> {
        match self {
            Reply::Range(reply) => reply.header.as_mut(),
            Reply::Put(reply) => reply.header.as_mut(),
            Reply::DeleteRange(reply) => reply.header.as_mut(),
            Reply::Txn(reply) => reply.header.as_mut(),
            Reply::Compact(reply) => reply.header.as_mut(),
            Reply::Error { .. } => None,
        }
    }

    /// The revision of the store.
    pub fn revision(&self) -> Option<i64> {
        self.clone().header().map(|header| header.revision)
    }
}
