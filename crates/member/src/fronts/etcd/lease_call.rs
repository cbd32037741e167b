//! Calls about one lease: the question to the leader, and the response, which is made of the
//! leader's answer and of this member's state.

use etcd::convert::{LeaseResponse, TimeToLive};
use etcd::pb::etcdserverpb as pb;
use machine::LeaseId;
use machine::etcd::Store;
use machine::etcd::auth::Access;
use machine::etcd::event::Event;
use machine::etcd::lease_read::LeaseLook;

use crate::lease::{LeaseQuestion, LeaseTime};

/// A call about a lease that the leader answers without the log.
#[derive(Clone, Copy, Debug)]
pub(super) enum LeaseCall {
    /// Keeps the lease alive.
    KeepAlive(LeaseId),
    /// Asks how much time is left, and, if the flag is true, which keys belong to the lease.
    TimeToLive(LeaseId, bool),
}

/// A call whose question about a lease was handed to Loop.
#[derive(Clone, Copy, Debug)]
pub(super) struct AskedLease {
    pub call: LeaseCall,
    /// This member's revision when the question was handed over.
    pub revision: i64,
}

impl LeaseCall {
    pub fn keep_alive(request: &pb::LeaseKeepAliveRequest) -> LeaseCall {
        LeaseCall::KeepAlive(LeaseId(request.id))
    }

    pub fn time_to_live(request: &pb::LeaseTimeToLiveRequest) -> LeaseCall {
        LeaseCall::TimeToLive(LeaseId(request.id), request.keys)
    }

    /// How the lease is looked at before the question goes to Loop. A user that asks for the keys
    /// must have the right to read them. That right is checked again when the keys are shown.
    pub fn look(self) -> LeaseLook {
        let access = match self {
            LeaseCall::KeepAlive(_) => Some(Access::Write),
            LeaseCall::TimeToLive(_, with_keys) => with_keys.then_some(Access::Read),
        };
        LeaseLook { access, shows: false }
    }

    pub fn lease(self) -> LeaseId {
        match self {
            LeaseCall::KeepAlive(lease) | LeaseCall::TimeToLive(lease, _) => lease,
        }
    }

    pub fn question(self) -> LeaseQuestion {
        match self {
            LeaseCall::KeepAlive(lease) => LeaseQuestion { lease, renews: true },
            LeaseCall::TimeToLive(lease, _) => LeaseQuestion { lease, renews: false },
        }
    }
}

/// The response for a lease, from the leader's answer. The lease may have ended on this member
/// meanwhile: then the response has no time.
pub(super) fn time_to_live(
    store: &Store,
    lease: LeaseId,
    time: Option<LeaseTime>,
    keys: Vec<Event>,
) -> LeaseResponse {
    let revision = store.revision();
    let response = match time.filter(|_| store.leases().get(lease).is_some()) {
        Some(LeaseTime { granted_s, left_ms }) => {
            // Some time has passed since the leader looked at its clock, so the remainder is
            // rounded down.
            let ttl_s = (left_ms.saturating_sub(1) / 1_000) as i64;
            TimeToLive { revision, lease, ttl_s, granted_ttl_s: granted_s, keys }
        }
        None => TimeToLive { revision, lease, ttl_s: -1, granted_ttl_s: 0, keys: Vec::new() },
    };
    LeaseResponse::TimeToLive(response)
}
