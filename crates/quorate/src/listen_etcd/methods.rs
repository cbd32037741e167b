//! The gRPC methods that etcd's clients are served.

use member::etcd_front::Method as KvMethod;

use crate::grpc::{self, Kind, Methods};

/// A method that is served.
#[derive(Clone, Copy, Debug)]
pub(super) enum Method {
    Kv(KvMethod),
    Watch,
    Health(HealthMethod),
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
    Methods::new(kvs.into_iter().chain(leases).chain([watch]).chain(health))
}
