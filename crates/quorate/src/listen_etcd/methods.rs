//! Lists the gRPC methods that the etcd face serves.

use etcd::convert::AuthMethod;
use member::fronts::etcd::health::HealthMethod;
use member::fronts::etcd::{ClusterMethod, EtcdMethod};

use grpc::{Kind, Methods};

/// A gRPC method, by the part of the code that answers it.
#[derive(Clone, Copy, Debug)]
pub(super) enum FaceMethod {
    Kv(EtcdMethod),
    Watch,
    Concurrency(ConcurrencyMethod),
    Health(HealthMethod),
    /// A backup (`Maintenance.Snapshot`).
    Snapshot,
}

impl FaceMethod {
    /// Whether the call is a stream that the face must end when the leader is lost, because the
    /// Front does not.
    pub fn is_stream_without_front(self) -> bool {
        match self {
            FaceMethod::Kv(method) => {
                matches!(method, EtcdMethod::RangeStream | EtcdMethod::LeaseKeepAlive)
            }
            // The Front ends these itself.
            FaceMethod::Watch => false,
            FaceMethod::Concurrency(method) => method == ConcurrencyMethod::Observe,
            FaceMethod::Health(method) => method == HealthMethod::Watch,
            FaceMethod::Snapshot => true,
        }
    }
}

const CLUSTER: &str = "etcdserverpb.Cluster";
const MAINTENANCE: &str = "etcdserverpb.Maintenance";

/// Finds the method with this gRPC path in a table.
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

    /// The method with this gRPC path.
    pub fn at(path: &str) -> Option<ConcurrencyMethod> {
        at_path(&Self::ALL, path)
    }
}

/// The methods that the Front answers, each with its service, name and kind, except those of the
/// service `Auth` ([`AuthMethod::ALL`]).
const OF_FRONT: [(&str, &str, Kind, EtcdMethod); 23] = [
    ("etcdserverpb.KV", "Range", Kind::Unary, EtcdMethod::Range),
    ("etcdserverpb.KV", "RangeStream", Kind::ServerStreaming, EtcdMethod::RangeStream),
    ("etcdserverpb.KV", "Put", Kind::Unary, EtcdMethod::Put),
    ("etcdserverpb.KV", "DeleteRange", Kind::Unary, EtcdMethod::DeleteRange),
    ("etcdserverpb.KV", "Txn", Kind::Unary, EtcdMethod::Txn),
    ("etcdserverpb.KV", "Compact", Kind::Unary, EtcdMethod::Compact),
    ("etcdserverpb.Lease", "LeaseGrant", Kind::Unary, EtcdMethod::LeaseGrant),
    ("etcdserverpb.Lease", "LeaseRevoke", Kind::Unary, EtcdMethod::LeaseRevoke),
    ("etcdserverpb.Lease", "LeaseKeepAlive", Kind::BidiStreaming, EtcdMethod::LeaseKeepAlive),
    ("etcdserverpb.Lease", "LeaseTimeToLive", Kind::Unary, EtcdMethod::LeaseTimeToLive),
    ("etcdserverpb.Lease", "LeaseLeases", Kind::Unary, EtcdMethod::LeaseLeases),
    (MAINTENANCE, "Alarm", Kind::Unary, EtcdMethod::Alarm),
    (MAINTENANCE, "Hash", Kind::Unary, EtcdMethod::Hash),
    (MAINTENANCE, "HashKV", Kind::Unary, EtcdMethod::HashKv),
    (CLUSTER, "MemberAdd", Kind::Unary, EtcdMethod::Cluster(ClusterMethod::MemberAdd)),
    (CLUSTER, "MemberRemove", Kind::Unary, EtcdMethod::Cluster(ClusterMethod::MemberRemove)),
    (CLUSTER, "MemberUpdate", Kind::Unary, EtcdMethod::Cluster(ClusterMethod::MemberUpdate)),
    (CLUSTER, "MemberList", Kind::Unary, EtcdMethod::Cluster(ClusterMethod::MemberList)),
    (CLUSTER, "MemberPromote", Kind::Unary, EtcdMethod::Cluster(ClusterMethod::MemberPromote)),
    (MAINTENANCE, "Status", Kind::Unary, EtcdMethod::Cluster(ClusterMethod::Status)),
    (MAINTENANCE, "Defragment", Kind::Unary, EtcdMethod::Cluster(ClusterMethod::Defragment)),
    (MAINTENANCE, "MoveLeader", Kind::Unary, EtcdMethod::Cluster(ClusterMethod::MoveLeader)),
    (MAINTENANCE, "Downgrade", Kind::Unary, EtcdMethod::Cluster(ClusterMethod::Downgrade)),
];

const OF_HEALTH: [(&str, Kind, HealthMethod); 3] = [
    ("Check", Kind::Unary, HealthMethod::Check),
    ("Watch", Kind::ServerStreaming, HealthMethod::Watch),
    ("List", Kind::Unary, HealthMethod::List),
];

/// The method with this gRPC path, if the Front answers it with a single response; else `None`.
pub(super) fn unary_of_front(path: &str) -> Option<EtcdMethod> {
    let (service, name) = path.strip_prefix('/')?.split_once('/')?;
    if service == AUTH {
        let found = AuthMethod::ALL.iter().find(|(it, _)| *it == name);
        return found.map(|(_, method)| EtcdMethod::Auth(*method));
    }
    let is_it = |(of, it, kind, _): &&(&str, &str, Kind, EtcdMethod)| {
        (*of, *it, *kind) == (service, name, Kind::Unary)
    };
    OF_FRONT.iter().find(is_it).map(|(.., method)| *method)
}

const AUTH: &str = "etcdserverpb.Auth";

/// All methods of the face. `has_times` says whether to measure how long calls take.
pub(super) fn methods(has_times: bool) -> Methods<FaceMethod> {
    let of = |service, name, kind, method| grpc::Method { service, name, kind, method };
    let of_front = OF_FRONT
        .map(|(service, name, kind, method)| of(service, name, kind, FaceMethod::Kv(method)));
    let watch = of("etcdserverpb.Watch", "Watch", Kind::BidiStreaming, FaceMethod::Watch);
    let auth = AuthMethod::ALL.map(|(name, method)| {
        of(AUTH, name, Kind::Unary, FaceMethod::Kv(EtcdMethod::Auth(method)))
    });
    let concurrency = ConcurrencyMethod::ALL.map(|(service, name, method)| {
        let kind = match method {
            ConcurrencyMethod::Observe => Kind::ServerStreaming,
            _ => Kind::Unary,
        };
        of(service, name, kind, FaceMethod::Concurrency(method))
    });
    let health = OF_HEALTH.map(|(name, kind, method)| {
        of("grpc.health.v1.Health", name, kind, FaceMethod::Health(method))
    });
    let snapshot = of(MAINTENANCE, "Snapshot", Kind::ServerStreaming, FaceMethod::Snapshot);
    let ours = of_front.into_iter().chain([watch, snapshot]).chain(auth).chain(concurrency);
    Methods::new(ours.chain(health), has_times)
}
