//! Encodes the responses of etcd's service `Lease`.

use bytes::BufMut;
use machine::LeaseId;
use machine::etcd::event::Event;
use machine::etcd::reply::{Granted, Outcome};

use super::{
    HEADER, Header, header_bytes, message_bytes, number_bytes, start_message, write_blob,
    write_header, write_number,
};

// Fields of `LeaseGrantResponse`, `LeaseKeepAliveResponse` and `LeaseTimeToLiveResponse`.
pub(super) const ID: u32 = 2;
pub(super) const TTL: u32 = 3;
// More fields of `LeaseTimeToLiveResponse`.
pub(super) const GRANTED_TTL: u32 = 4;
pub(super) const KEYS: u32 = 5;
// Fields of `LeaseLeasesResponse`.
pub(super) const LEASES: u32 = 2;
// Fields of `LeaseStatus`.
pub(super) const STATUS_ID: u32 = 1;

/// A response about leases. Each variant carries the store's revision, for the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseResponse {
    /// `LeaseGrantResponse`.
    Granted(Granted),
    /// `LeaseRevokeResponse`.
    Revoked {
        /// The store's revision.
        revision: i64,
    },
    /// `LeaseKeepAliveResponse`.
    KeptAlive {
        /// The store's revision.
        revision: i64,
        /// The lease's id.
        lease: LeaseId,
        /// Seconds until the lease expires without another keep-alive; 0 if the lease does not
        /// exist.
        ttl_s: i64,
    },
    /// `LeaseTimeToLiveResponse`.
    TimeToLive(TimeToLive),
    /// `LeaseLeasesResponse`.
    Leases {
        /// The store's revision.
        revision: i64,
        /// All leases.
        leases: Vec<LeaseId>,
    },
}

/// The answer to the question how long a lease lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeToLive {
    /// The store's revision.
    pub revision: i64,
    /// The lease's id.
    pub lease: LeaseId,
    /// Whole seconds until the lease expires; -1 if it does not exist.
    pub ttl_s: i64,
    /// Seconds that each keep-alive gives the lease; 0 if it does not exist.
    pub granted_ttl_s: i64,
    /// The newest versions of the keys attached to the lease; empty unless the client asked for
    /// keys. The response shows the keys alone, without values.
    pub keys: Vec<Event>,
}

impl LeaseResponse {
    /// The response to a command about leases; `None` if the outcome is another command's.
    pub fn from_outcome(outcome: &Outcome) -> Option<LeaseResponse> {
        match outcome {
            Outcome::Granted(granted) => Some(LeaseResponse::Granted(*granted)),
            Outcome::Revoked { revision } => Some(LeaseResponse::Revoked { revision: *revision }),
            _ => None,
        }
    }

    fn revision(&self) -> i64 {
        match self {
            LeaseResponse::Granted(granted) => granted.revision,
            LeaseResponse::TimeToLive(found) => found.revision,
            LeaseResponse::Revoked { revision }
            | LeaseResponse::KeptAlive { revision, .. }
            | LeaseResponse::Leases { revision, .. } => *revision,
        }
    }

    /// Bytes of the message.
    pub fn bytes(&self, header: Header) -> usize {
        let number = |number: i64| number_bytes(number as u64);
        let body = match self {
            LeaseResponse::Granted(Granted { lease, ttl_s, .. })
            | LeaseResponse::KeptAlive { lease, ttl_s, .. } => number(lease.0) + number(*ttl_s),
            LeaseResponse::Revoked { .. } => 0,
            LeaseResponse::TimeToLive(found) => {
                let keys = found.keys.iter().map(|event| message_bytes(event.key().len()));
                let numbers = [found.lease.0, found.ttl_s, found.granted_ttl_s];
                numbers.into_iter().map(number).sum::<usize>() + keys.sum::<usize>()
            }
            LeaseResponse::Leases { leases, .. } => {
                leases.iter().map(|lease| message_bytes(number(lease.0))).sum()
            }
        };
        message_bytes(header_bytes(header, self.revision())) + body
    }

    /// Writes the message. `out` gets exactly [`LeaseResponse::bytes`] bytes.
    pub fn write(&self, header: Header, out: &mut impl BufMut) {
        let revision = self.revision();
        start_message(HEADER, header_bytes(header, revision), out);
        write_header(header, revision, out);
        match self {
            LeaseResponse::Granted(Granted { lease, ttl_s, .. })
            | LeaseResponse::KeptAlive { lease, ttl_s, .. } => {
                write_number(ID, lease.0 as u64, out);
                write_number(TTL, *ttl_s as u64, out);
            }
            LeaseResponse::Revoked { .. } => {}
            LeaseResponse::TimeToLive(found) => {
                write_number(ID, found.lease.0 as u64, out);
                write_number(TTL, found.ttl_s as u64, out);
                write_number(GRANTED_TTL, found.granted_ttl_s as u64, out);
                for event in &found.keys {
                    write_blob(KEYS, event.key(), out);
                }
            }
            LeaseResponse::Leases { leases, .. } => {
                for lease in leases {
                    start_message(LEASES, number_bytes(lease.0 as u64), out);
                    write_number(STATUS_ID, lease.0 as u64, out);
                }
            }
        }
    }
}
