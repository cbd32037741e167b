use std::collections::BTreeSet;

use super::*;

fn path(http_method: &str, path: &str) -> Result<&'static str, NoRoute> {
    route(http_method, path).map(|method| method.path)
}

#[test]
fn paths_lead_to_calls() {
    let check = |of: &str, expected: &str| assert_eq!(path("POST", of), Ok(expected), "{of}");
    check("/v3/kv/range", "/etcdserverpb.KV/Range");
    check("/v3beta/kv/range", "/etcdserverpb.KV/Range");
    check("/v3/kv/compaction", "/etcdserverpb.KV/Compact");
    check("/v3/watch", "/etcdserverpb.Watch/Watch");
    check("/v3/lease/leases", "/etcdserverpb.Lease/LeaseLeases");
    check("/v3/kv/lease/leases", "/etcdserverpb.Lease/LeaseLeases");
    check("/v3/kv/lease/revoke", "/etcdserverpb.Lease/LeaseRevoke");
    check("/v3/kv/lease/timetolive", "/etcdserverpb.Lease/LeaseTimeToLive");
    check("/v3/maintenance/transfer-leadership", "/etcdserverpb.Maintenance/MoveLeader");
    check("/v3/auth/user/changepw", "/etcdserverpb.Auth/UserChangePassword");
    check("/v3/lock/lock", "/v3lockpb.Lock/Lock");
    check("/v3/election/observe", "/v3electionpb.Election/Observe");
}

#[test]
fn other_paths_are_not_found() {
    let others = [
        "/v3/nothing",
        "/v3/kv/put/",
        "/v3/kv//put",
        "/v3/",
        "/v3",
        "/v3beta/kv/range/x",
        "",
        "/v3alpha/kv/range",
        "/v3/kv/put:x",
        "/v3/kv/lease/grant",
        "/v3/kv/rangestream",
        "/etcdserverpb.KV/Range",
        "/v3//kv/range",
    ];
    for of in others {
        assert_eq!(path("POST", of), Err(NoRoute::NotFound), "{of}");
        assert_eq!(path("GET", of), Err(NoRoute::NotFound), "{of}");
    }
}

#[test]
fn calls_take_post_only() {
    for method in ["GET", "PUT", "HEAD", "DELETE", "post", ""] {
        assert_eq!(path(method, "/v3/kv/put"), Err(NoRoute::MethodNotAllowed));
    }
    let error = NoRoute::MethodNotAllowed;
    assert_eq!((error.code().number(), error.text()), (12, "Method Not Allowed"));
    let error = NoRoute::NotFound;
    assert_eq!((error.code().number(), error.text()), (5, "Not Found"));
}

#[test]
fn every_call_of_etcd_3_6_has_a_path() {
    let routed: BTreeSet<&str> = ROUTES
        .iter()
        .map(|(of, _)| path("POST", &format!("/v3/{of}")).expect("it leads to a call"))
        .collect();
    let unrouted: Vec<&str> =
        METHODS.iter().map(|method| method.path).filter(|path| !routed.contains(path)).collect();
    let expected = [
        "/etcdserverpb.KV/RangeStream",
        "/grpc.health.v1.Health/Check",
        "/grpc.health.v1.Health/Watch",
    ];
    assert_eq!(unrouted, expected);
}

#[test]
fn the_calls_that_stream_are_those_of_etcd() {
    let streams =
        |of: &str| method(of).map(|method| (method.client_streams, method.server_streams));
    assert_eq!(streams("/etcdserverpb.KV/Put"), Some((false, false)));
    assert_eq!(streams("/etcdserverpb.KV/RangeStream"), Some((false, true)));
    assert_eq!(streams("/etcdserverpb.Watch/Watch"), Some((true, true)));
    assert_eq!(streams("/etcdserverpb.Lease/LeaseKeepAlive"), Some((true, true)));
    assert_eq!(streams("/etcdserverpb.Maintenance/Snapshot"), Some((false, true)));
    assert_eq!(streams("/etcdserverpb.KV/Nothing"), None);
    assert_eq!(METHODS.iter().filter(|method| method.server_streams).count(), 6);
}
