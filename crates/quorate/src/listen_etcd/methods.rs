//! The gRPC methods that etcd's clients are served.

use etcd::convert::AuthMethod;
use member::etcd_front::Method as KvMethod;

use crate::grpc::{self, Kind, Methods};

/// A method that is served.
#[derive(Clone, Copy, Debug)]
pub(super) enum Method {
    Kv(KvMethod),
    Watch,
    Concurrency(ConcurrencyMethod),
    Cluster(ClusterMethod),
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
            Method::Cluster(_) => false,
        }
    }
}

/// A method of the service `etcdserverpb.Cluster`, or of `Maintenance`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClusterMethod {
    MemberAdd,
    MemberRemove,
    MemberUpdate,
    MemberList,
    MemberPromote,
    Status,
    Defragment,
    MoveLeader,
    Downgrade,
}

impl ClusterMethod {
    const ALL: [(&str, &str, ClusterMethod); 9] = [
        ("etcdserverpb.Cluster", "MemberAdd", ClusterMethod::MemberAdd),
        ("etcdserverpb.Cluster", "MemberRemove", ClusterMethod::MemberRemove),
        ("etcdserverpb.Cluster", "MemberUpdate", ClusterMethod::MemberUpdate),
        ("etcdserverpb.Cluster", "MemberList", ClusterMethod::MemberList),
        ("etcdserverpb.Cluster", "MemberPromote", ClusterMethod::MemberPromote),
        ("etcdserverpb.Maintenance", "Status", ClusterMethod::Status),
        ("etcdserverpb.Maintenance", "Defragment", ClusterMethod::Defragment),
        ("etcdserverpb.Maintenance", "MoveLeader", ClusterMethod::MoveLeader),
        ("etcdserverpb.Maintenance", "Downgrade", ClusterMethod::Downgrade),
    ];

    /// The method with that gRPC path.
    pub fn at(path: &str) -> Option<ClusterMethod> {
        at_path(&Self::ALL, path)
    }
}

/// The method of a table with that gRPC path.
fn at_path<M: Copy>(all: &[(&str, &str, M)], path: &str) -> Option<M> {
    let (service, name) = path.strip_prefix('/')?.split_once('/')?;
    let found = all.iter().find(|(of, with, _)| (*of, *with) == (service, name));
    found.map(|(.., method)| *method)
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
        at_path(&Self::ALL, path)
    }
}

/// A method of the service `grpc.health.v1.Health`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HealthMethod {
    Check,
    Watch,
    List,
}

/// The methods that are served; `has_times` says whether it is measured how long calls take.
pub(super) fn methods(has_times: bool) -> Methods<Method> {
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
    let maintenance = |name, method| grpc::Method {
        service: "etcdserverpb.Maintenance",
        name,
        kind: Kind::Unary,
        method: Method::Kv(method),
    };
    let maintenance = [
        maintenance("Alarm", KvMethod::Alarm),
        maintenance("Hash", KvMethod::Hash),
        maintenance("HashKV", KvMethod::HashKv),
    ];
    let auth = AuthMethod::ALL.map(|(name, method)| grpc::Method {
        service: "etcdserverpb.Auth",
        name,
        kind: Kind::Unary,
        method: Method::Kv(KvMethod::Auth(method)),
    });
    let concurrency = ConcurrencyMethod::ALL.map(|(service, name, method)| grpc::Method {
        service,
        name,
        kind: match method {
            ConcurrencyMethod::Observe => Kind::ServerStreaming,
            _ => Kind::Unary,
        },
        method: Method::Concurrency(method),
    });
    let cluster = ClusterMethod::ALL.map(|(service, name, method)| grpc::Method {
        service,
        name,
        kind: Kind::Unary,
        method: Method::Cluster(method),
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
    let ours = kvs
        .into_iter()
        .chain(leases)
        .chain([watch])
        .chain(auth)
        .chain(maintenance)
        .chain(concurrency)
        .chain(cluster);
    Methods::new(ours.chain(health), has_times)
}
