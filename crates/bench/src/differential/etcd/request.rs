//! Requests of etcd's protocol as values, and their replies without the numbers that may differ
//! between servers.

use bytes::Bytes;
use etcd::pb::Message;
use etcd::pb::etcdserverpb as pb;

use crate::workloads::etcd::client::{
    COMPACT, Call, DELETE_RANGE, LEASE_GRANT, LEASE_KEEP_ALIVE, LEASE_REVOKE, LEASE_TIME_TO_LIVE,
    LEASES, PUT, RANGE, TXN,
};
use crate::workloads::etcd::grpc::Answer;

/// A request to one of the methods.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// A range read.
    Range(pb::RangeRequest),
    /// A put.
    Put(pb::PutRequest),
    /// A delete of a range.
    DeleteRange(pb::DeleteRangeRequest),
    /// A transaction.
    Txn(pb::TxnRequest),
    /// A compaction.
    Compact(pb::CompactionRequest),
    /// A grant of a lease.
    Grant(pb::LeaseGrantRequest),
    /// A revocation of a lease.
    Revoke(pb::LeaseRevokeRequest),
    /// A keep-alive of a lease.
    KeepAlive(pb::LeaseKeepAliveRequest),
    /// A request for the remaining time and the keys of a lease.
    TimeToLive(pb::LeaseTimeToLiveRequest),
    /// A list of all leases.
    Leases,
    /// An empty message to a method that does not exist, at this path.
    Unknown(&'static str),
}

/// The reply to a request. Each variant answers the request of the same name.
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
    /// To [`Request::Grant`].
    Grant(pb::LeaseGrantResponse),
    /// To [`Request::Revoke`].
    Revoke(pb::LeaseRevokeResponse),
    /// To [`Request::KeepAlive`].
    KeepAlive(pb::LeaseKeepAliveResponse),
    /// To [`Request::TimeToLive`]. The keys are sorted, and a remaining time of 1 s or more is
    /// shown as 1.
    TimeToLive(pb::LeaseTimeToLiveResponse),
    /// To [`Request::Leases`], sorted by id.
    Leases(pb::LeaseLeasesResponse),
    /// An error.
    Error {
        /// The gRPC status code.
        code: u32,
        /// The text of the error, as the server sent it.
        message: String,
    },
}

/// A request that deletes all keys.
pub fn everything() -> pb::DeleteRangeRequest {
    let all = Bytes::from_static(b"\0");
    pb::DeleteRangeRequest { key: all.clone(), range_end: all, prev_kv: true }
}

impl Request {
    /// The request as an encoded call.
    ///
    /// # Errors
    /// The request is too long for gRPC.
    pub fn call(&self) -> anyhow::Result<Call> {
        match self {
            Request::Range(request) => Call::new(RANGE, request),
            Request::Put(request) => Call::new(PUT, request),
            Request::DeleteRange(request) => Call::new(DELETE_RANGE, request),
            Request::Txn(request) => Call::new(TXN, request),
            Request::Compact(request) => Call::new(COMPACT, request),
            Request::Grant(request) => Call::new(LEASE_GRANT, request),
            Request::Revoke(request) => Call::new(LEASE_REVOKE, request),
            Request::KeepAlive(request) => Call::new(LEASE_KEEP_ALIVE, request),
            Request::TimeToLive(request) => Call::new(LEASE_TIME_TO_LIVE, request),
            Request::Leases => Call::new(LEASES, &pb::LeaseLeasesRequest {}),
            Request::Unknown(path) => Call::new(path, &pb::HashRequest {}),
        }
    }

    /// Decodes the answer to this request, and removes what may differ between servers.
    ///
    /// # Errors
    /// The server's answer does not fit this request.
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
            Request::Grant(_) => Reply::Grant(Message::decode(body)?),
            Request::Revoke(_) => Reply::Revoke(Message::decode(body)?),
            Request::KeepAlive(_) => Reply::KeepAlive(Message::decode(body)?),
            Request::TimeToLive(_) => Reply::TimeToLive(time_to_live(Message::decode(body)?)),
            Request::Leases => Reply::Leases(leases(Message::decode(body)?)),
            Request::Unknown(path) => anyhow::bail!("{path} is answered"),
        };
        if let Some(header) = reply.header() {
            // These numbers differ between servers, so only whether they are set is compared.
            header.cluster_id = header.cluster_id.min(1);
            header.member_id = header.member_id.min(1);
            header.raft_term = header.raft_term.min(1);
        }
        Ok(reply)
    }
}

/// Removes what may differ: the order of the keys (in etcd that of a hash map), and how much time
/// has passed.
fn time_to_live(mut reply: pb::LeaseTimeToLiveResponse) -> pb::LeaseTimeToLiveResponse {
    reply.keys.sort_unstable();
    reply.ttl = reply.ttl.min(1);
    reply
}

/// Removes the order of the leases, which in etcd is that of their expiry.
fn leases(mut reply: pb::LeaseLeasesResponse) -> pb::LeaseLeasesResponse {
    reply.leases.sort_unstable_by_key(|lease| lease.id);
    reply
}

impl Reply {
    fn header(&mut self) -> Option<&mut pb::ResponseHeader> {
        match self {
            Reply::Range(reply) => reply.header.as_mut(),
            Reply::Put(reply) => reply.header.as_mut(),
            Reply::DeleteRange(reply) => reply.header.as_mut(),
            Reply::Txn(reply) => reply.header.as_mut(),
            Reply::Compact(reply) => reply.header.as_mut(),
            Reply::Grant(reply) => reply.header.as_mut(),
            Reply::Revoke(reply) => reply.header.as_mut(),
            Reply::KeepAlive(reply) => reply.header.as_mut(),
            Reply::TimeToLive(reply) => reply.header.as_mut(),
            Reply::Leases(reply) => reply.header.as_mut(),
            Reply::Error { .. } => None,
        }
    }

    /// The revision in the header; `None` if the reply has no header.
    pub fn revision(&self) -> Option<i64> {
        self.clone().header().map(|header| header.revision)
    }
}
