//! The methods of etcd's calls that a Front serves, and the reasons why a call gets no response.

use etcd::Error;
use etcd::convert::{AuthMethod, StreamRefused};
use grpc_code::Code;
use machine::etcd::reply::Refusal;

use super::cluster::ClusterMethod;

/// A method of etcd's services `KV`, `Lease`, `Auth`, `Cluster` and `Maintenance`, or one of `Lock`
/// and `Election` that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EtcdMethod {
    /// `KV.Range`.
    Range,
    /// `KV.RangeStream` of etcd 3.7, whose response comes in pieces.
    RangeStream,
    /// `KV.Put`.
    Put,
    /// `KV.DeleteRange`.
    DeleteRange,
    /// `KV.Txn`.
    Txn,
    /// `KV.Compact`.
    Compact,
    /// `Lease.LeaseGrant`.
    LeaseGrant,
    /// `Lease.LeaseRevoke`.
    LeaseRevoke,
    /// One message of `Lease.LeaseKeepAlive`.
    LeaseKeepAlive,
    /// `Lease.LeaseTimeToLive`.
    LeaseTimeToLive,
    /// `Lease.LeaseLeases`.
    LeaseLeases,
    /// A method of the service `Auth`.
    Auth(AuthMethod),
    /// `Maintenance.Alarm`.
    Alarm,
    /// `Maintenance.Hash`.
    Hash,
    /// `Maintenance.HashKV`.
    HashKv,
    /// `v3lockpb.Lock.Lock`. It waits as long as others hold the lock.
    Lock,
    /// `v3electionpb.Election.Campaign`. It waits as long as others lead.
    Campaign,
    /// A call about the members or about this member.
    Cluster(ClusterMethod),
    /// A check of a client's right to ask something of the member itself. The request and the
    /// response are empty.
    Need(Need),
}

/// Why a call has no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallRefused {
    /// An error of etcd.
    Error(Error),
    /// The request cannot be decoded as a message of its method.
    Malformed,
    /// The method is not served for such a request; the text is the reason.
    Unimplemented(&'static str),
    /// An error without a code of its own in etcd, sent as `Unknown`; the text is etcd's.
    Unknown(&'static str),
}

impl CallRefused {
    /// The code and the text, for an answer over HTTP.
    pub fn code_and_text(self) -> (Code, &'static str) {
        match self {
            CallRefused::Error(error) => (error.code(), error.text()),
            CallRefused::Malformed => (Code::Internal, "the request is malformed"),
            CallRefused::Unimplemented(text) => (Code::Unimplemented, text),
            CallRefused::Unknown(text) => (Code::Unknown, text),
        }
    }
}

impl From<Error> for CallRefused {
    fn from(error: Error) -> CallRefused {
        CallRefused::Error(error)
    }
}

impl From<Refusal> for CallRefused {
    fn from(refusal: Refusal) -> CallRefused {
        CallRefused::Error(refusal.into())
    }
}

impl From<StreamRefused> for CallRefused {
    fn from(refused: StreamRefused) -> CallRefused {
        match refused {
            StreamRefused::Error(error) => error.into(),
            StreamRefused::Unimplemented(text) => CallRefused::Unimplemented(text),
        }
    }
}

/// The right that a client needs to ask something of the member itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Any user: the client must be a known user if permissions are enforced.
    User,
    /// The user `root`.
    Root,
}
