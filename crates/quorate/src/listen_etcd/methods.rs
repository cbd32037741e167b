//! The gRPC methods that etcd's clients are served.

use member::etcd_front::Method as KvMethod;

use crate::grpc::{self, Kind, Methods};

/// A method that is served.
#[derive(Clone, Copy, Debug)]
pub(super) enum Method {
    Kv(KvMethod),
    Watch,
    Concurrency(ConcurrencyMethod),
    Health(HealthMethod),
}

impl Method {
    /// Whether calls are streams whose end without a leader is not the Front's to tell.
    pub fn is_stream_without_front(self) -> bool {
        match self {
            Method::Kv(method) => {
                matches!(method, KvMethod::RangeStream | KvMethod::LeaseKeepAlive)
            }
            // The Front ends these.
            Method::Watch => false,
            Method::Concurrency(method) => method == ConcurrencyMethod::Observe,
            Method::Health(method) => method == HealthMethod::Watch,
        }
    }
}

/// A method of the services `v3lockpb.Lock` and `v3electionpb.Election`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConcurrencyMethod {
    Lock,
    Unlock,
    Campaign,
    Proclaim,
    Leader,
    Observe,
    Resign,
}

impl ConcurrencyMethod {
    const ALL: [(&str, &str, ConcurrencyMethod); 7] = [
        ("v3lockpb.Lock", "Lock", ConcurrencyMethod::Lock),
        ("v3lockpb.Lock", "Unlock", ConcurrencyMethod::Unlock),
        ("v3electionpb.Election", "Campaign", ConcurrencyMethod::Campaign),
        ("v3electionpb.Election", "Proclaim", ConcurrencyMethod::Proclaim),
        ("v3electionpb.Election", "Leader", ConcurrencyMethod::Leader),
        ("v3electionpb.Election", "Observe", ConcurrencyMethod::Observe),
        ("v3electionpb.Election", "Resign", ConcurrencyMethod::Resign),
    ];

    /// The method with that gRPC path.
    pub fn at(path: &str) -> Option<ConcurrencyMethod> {
        let (service, name) = path.strip_prefix('/')?.split_once('/')?;
        let found = Self::ALL.iter().find(|(of, with, _)| (*of, *with) == (service, name));
        found.map(|(.., method)| *method)
    }
}

/// A method of the service `grpc.health.v1.Health`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HealthMethod {
    Check,
    Watch,
    List,
}

/// The methods that are served.
pub(super) fn methods() -> Methods<Method> {
    let kv = |name, kind, method| grpc::Method {
        service: "etcdserverpb.KV",
        name,
        kind,
        method: Method::Kv(method),
    };
    let kvs = [
        kv("Range", Kind::Unary, KvMethod::Range),
        kv("RangeStream", Kind::ServerStreaming, KvMethod::RangeStream),
        kv("Put", Kind::Unary, KvMethod::Put),
        kv("DeleteRange", Kind::Unary, KvMethod::DeleteRange),
        kv("Txn", Kind::Unary, KvMethod::Txn),
        kv("Compact", Kind::Unary, KvMethod::Compact),
    ];
    let lease = |name, kind, method| grpc::Method {
        service: "etcdserverpb.Lease",
        name,
        kind,
        method: Method::Kv(method),
    };
    let leases = [
        lease("LeaseGrant", Kind::Unary, KvMethod::LeaseGrant),
        lease("LeaseRevoke", Kind::Unary, KvMethod::LeaseRevoke),
        lease("LeaseKeepAlive", Kind::BidiStreaming, KvMethod::LeaseKeepAlive),
        lease("LeaseTimeToLive", Kind::Unary, KvMethod::LeaseTimeToLive),
        lease("LeaseLeases", Kind::Unary, KvMethod::LeaseLeases),
    ];
    let watch = grpc::Method {
        service: "etcdserverpb.Watch",
        name: "Watch",
        kind: Kind::BidiStreaming,
        method: Method::Watch,
    };
    let concurrency = ConcurrencyMethod::ALL.map(|(service, name, method)| grpc::Method {
        service,
        name,
        kind: match method {
            ConcurrencyMethod::Observe => Kind::ServerStreaming,
            _ => Kind::Unary,
        },
        method: Method::Concurrency(method),
    });
    let health = |name, kind, method| grpc::Method {
        service: "grpc.health.v1.Health",
        name,
        kind,
        method: Method::Health(method),
    };
    let health = [
        health("Check", Kind::Unary, HealthMethod::Check),
        health("Watch", Kind::ServerStreaming, HealthMethod::Watch),
        health("List", Kind::Unary, HealthMethod::List),
    ];
    let ours = kvs.into_iter().chain(leases).chain([watch]).chain(concurrency);
    Methods::new(ours.chain(health), false)
}
