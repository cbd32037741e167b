//! Questions about leases, and what a member adds to the leader's answers.

use etcd::convert::{LeaseResponse, TimeToLive};
use etcd::pb::etcdserverpb as pb;
use machine::LeaseId;
use machine::etcd::Store;

use crate::lease::{LeaseQuestion, LeaseTime};

/// A question about a lease.
#[derive(Clone, Copy, Debug)]
pub(super) enum LeaseCall {
    /// To keep the lease alive.
    KeepAlive(LeaseId),
    /// For the time that is left, and the keys if that is so.
    TimeToLive(LeaseId, bool),
}

/// A question that was handed over.
#[derive(Clone, Copy, Debug)]
pub(super) struct AskedLease {
    pub call: LeaseCall,
    /// The revision when it was handed over.
    pub revision: i64,
}

impl LeaseCall {
    pub fn keep_alive(request: &pb::LeaseKeepAliveRequest) -> LeaseCall {
        LeaseCall::KeepAlive(LeaseId(request.id))
    }

    pub fn time_to_live(request: &pb::LeaseTimeToLiveRequest) -> LeaseCall {
        LeaseCall::TimeToLive(LeaseId(request.id), request.keys)
    }

    pub fn question(self) -> LeaseQuestion {
        match self {
            LeaseCall::KeepAlive(lease) => LeaseQuestion { lease, renews: true },
            LeaseCall::TimeToLive(lease, _) => LeaseQuestion { lease, renews: false },
        }
    }
}

/// The response for a lease of which the leader has said this. It may have ended here since.
pub(super) fn time_to_live(
    store: &Store,
    lease: LeaseId,
    with_keys: bool,
    time: Option<LeaseTime>,
) -> LeaseResponse {
    let revision = store.revision();
    let found = store.leases().get(lease);
    let response = match (time, found) {
        (Some(LeaseTime { granted_s, left_ms }), Some(found)) => {
            // Some time has passed since the clock was looked at: whole seconds are less.
            let ttl_s = (left_ms.saturating_sub(1) / 1_000) as i64;
            let shown = found.versions().filter(|_| with_keys);
            let keys = shown.cloned().collect();
            TimeToLive { revision, lease, ttl_s, granted_ttl_s: granted_s, keys }
        }
        _ => TimeToLive { revision, lease, ttl_s: -1, granted_ttl_s: 0, keys: Vec::new() },
    };
    LeaseResponse::TimeToLive(response)
}
