//! The methods of calls, and why a call has no response.

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
    /// `v3lockpb.Lock.Lock`. It takes as long as others hold the lock.
    Lock,
    /// `v3electionpb.Election.Campaign`. It takes as long as others lead.
    Campaign,
    /// A call about the members, or about this one.
    Cluster(ClusterMethod),
    /// Whether a client may ask something of the member itself. The request and the response are
    /// empty.
    Need(Need),
}

/// Why a call has no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallRefused {
    /// An error of etcd.
    Error(Error),
    /// The request is no message of its method.
    Malformed,
    /// The method is not served for such a request; the text says why.
    Unimplemented(&'static str),
    /// An error that etcd has no code for; the text is etcd's.
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

/// What only some may ask of the member itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// What a client may ask that names its user.
    User,
    /// What only `root` may ask.
    Root,
}
