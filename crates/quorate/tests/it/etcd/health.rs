//! Tests of health checks, readiness and metrics of a member.

use std::net::SocketAddr;

use super::{Three, put, request};
use crate::client::Client;
use crate::monitoring::METRICS;
use crate::server::{Server, wait_until};

fn get(address: SocketAddr, path: &str) -> (u16, String) {
    request(address, &format!("GET {path}"), "").expect("it answers")
}

/// The value of the sample with this name and labels on a page of metrics.
fn sample(page: &str, name: &str) -> f64 {
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {page}")).parse().unwrap()
}

#[test]
fn checks_say_what_they_found_and_can_be_left_out() {
    let server = Server::start("etcd-health", &[super::ETCD]);
    let etcd = server.face("etcd");
    let ok = |path: &str| {
        let (status, text) = get(etcd, path);
        assert_eq!(status, 200, "{path}: {text}");
        text
    };
    assert_eq!(ok("/livez"), "ok\n");
    assert_eq!(ok("/livez?verbose"), "[+]serializable_read ok\nok\n");
    assert_eq!(ok("/livez?verbose&exclude=serializable_read"), "ok\n");
    let all = "[+]data_corruption ok\n[+]serializable_read ok\n[+]linearizable_read ok\n\
               [+]non_learner ok\nok\n";
    assert_eq!(ok("/readyz?verbose"), all);
    assert_eq!(ok("/readyz?exclude=nothing&verbose"), all);
    assert_eq!(ok("/readyz/linearizable_read?verbose"), "[+]linearizable_read ok\nok\n");
    assert_eq!(get(etcd, "/readyz/nothing").0, 404);
    for path in ["/health", "/readyz", "/livez", "/version", "/debug/vars"] {
        assert_eq!(request(etcd, &format!("POST {path}"), "").unwrap().0, 405, "{path}");
        assert_eq!(request(etcd, &format!("OPTIONS {path}"), "").unwrap(), (200, String::new()));
    }
    let variables: serde_json::Value = serde_json::from_str(&ok("/debug/vars")).unwrap();
    assert!(variables["cmdline"].as_array().unwrap().len() > 1, "{variables}");
}

#[test]
fn a_member_without_a_quorum_lives_and_is_not_ready() {
    let mut three = Three::start("etcd-health-three");
    let [left, ..] = three.clients;
    assert_eq!(get(left, "/readyz").0, 200);
    // The links are summed, since two followers have nothing to send each other.
    for name in ["etcd_network_peer_sent_bytes_total{To", "etcd_network_peer_received_bytes_total{"]
    {
        let values = |page: &str| {
            let values = page.lines().filter(|line| line.starts_with(name));
            values.map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect()
        };
        wait_until("the links to both are counted", || {
            let values: Vec<u64> = values(&get(left, "/metrics").1);
            values.len() == 2 && values.iter().sum::<u64>() > 0
        });
    }
    three.end(1);
    three.end(2);
    wait_until("no leader is known", || {
        let (status, text) = get(left, "/health");
        status == 503 && text == "{\"health\":\"false\",\"reason\":\"RAFT NO LEADER\"}\n"
    });
    assert_eq!(get(left, "/health?serializable=true").0, 200);
    assert_eq!(get(left, "/livez").0, 200);
    let (status, text) = get(left, "/readyz");
    assert_eq!(status, 503, "{text}");
    assert!(text.contains("[+]serializable_read ok\n"), "{text}");
    assert!(text.contains("[-]linearizable_read failed: etcdserver: "), "{text}");
    let (_, page) = get(left, "/metrics");
    assert_eq!(sample(&page, "etcd_server_has_leader"), 0.0);
    let failed = "etcd_server_healthchecks_total{name=\"linearizable_read\",status=\"error\",\
                  type=\"readyz\"}";
    assert!(sample(&page, failed) >= 1.0);
    // The read for the health check took longer than 300 ms, so it is logged.
    let log = three.log(0);
    let line = log.lines().find(|line| line.contains("request stats")).expect("there is a line");
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!(line["request_content"], "key:\"health\" limit:0", "{line}");
    assert_eq!(line["success"], false, "{line}");
}

/// The names that the dashboards and alerts of etcd's own mixin use, and others that are in wide
/// use.
#[test]
fn metrics_have_etcds_names_and_move() {
    let server = Server::start("etcd-metrics", &[super::ETCD]);
    let etcd = server.face("etcd");
    let page = || get(etcd, "/metrics").1;
    let before = page();
    for name in [
        "etcd_server_has_leader",
        "etcd_server_is_leader",
        "etcd_server_leader_changes_seen_total",
        "etcd_server_proposals_committed_total",
        "etcd_server_proposals_applied_total",
        "etcd_server_proposals_pending",
        "etcd_server_quota_backend_bytes",
        "etcd_server_version{server_version=\"3.6.16\"}",
        "etcd_mvcc_db_total_size_in_bytes",
        "etcd_mvcc_db_total_size_in_use_in_bytes",
        "etcd_disk_wal_fsync_duration_seconds_bucket{le=\"0.001\"}",
        "etcd_disk_wal_fsync_duration_seconds_bucket{le=\"+Inf\"}",
        "etcd_network_client_grpc_sent_bytes_total",
        "etcd_network_client_grpc_received_bytes_total",
        "grpc_server_started_total{grpc_method=\"Watch\",grpc_service=\"etcdserverpb.Watch\",\
         grpc_type=\"bidi_stream\"}",
        "process_resident_memory_bytes",
    ] {
        sample(&before, name);
    }
    for number in 0..10 {
        assert!(put(etcd, &format!("key{number}"), "value"));
    }
    let after = page();
    let grown = |name: &str| sample(&after, name) - sample(&before, name);
    assert_eq!(grown("etcd_mvcc_put_total"), 10.0);
    assert_eq!(grown("etcd_debugging_mvcc_keys_total"), 10.0);
    assert_eq!(grown("etcd_debugging_mvcc_current_revision"), 10.0);
    let put = "grpc_server_handled_total{grpc_code=\"OK\",grpc_method=\"Put\",\
               grpc_service=\"etcdserverpb.KV\",grpc_type=\"unary\"}";
    assert_eq!(grown(put), 10.0);
    assert!(grown("etcd_server_proposals_applied_total") >= 10.0);
    assert!(grown("etcd_mvcc_db_total_size_in_bytes") > 0.0);
    assert!(grown("etcd_disk_wal_fsync_duration_seconds_count") >= 1.0);
    assert_eq!(sample(&after, "etcd_server_has_leader"), 1.0);
}

/// The metrics of each protocol show figures of the other one's state, too, and the leader's own
/// compactions.
#[test]
fn metrics_show_both_faces_and_what_is_compacted() {
    let own = [super::ETCD, "quorate.etcdAutoCompactionMode=periodic"];
    let lines = [&own[..], &["quorate.etcdAutoCompactionRetention=2s"], &METRICS].concat();
    let server = Server::start("etcd-both-metrics", &lines);
    let (etcd, zookeeper) = (server.face("etcd"), server.face("metrics"));
    assert!(!get(zookeeper, "/metrics").1.contains("etcd_"), "nobody has used etcd's keys");
    for number in 0..5 {
        assert!(put(etcd, &format!("key{number}"), "value"));
    }
    Client::open(server.address(), 10_000).create("/znode", b"", 0).unwrap();
    let of_zookeeper = get(zookeeper, "/metrics").1;
    let value = |name: &str| sample(&of_zookeeper, name);
    let figures = ["etcd_revision", "etcd_key_count", "etcd_lease_count", "etcd_alarm_count"];
    assert_eq!(figures.map(value), [6.0, 5.0, 0.0, 0.0]);
    assert!(value("etcd_data_size") > 0.0 && value("etcd_quota") > 0.0);
    let of_etcd = get(etcd, "/metrics").1;
    assert_eq!(sample(&of_etcd, "quorate_zk_znodes"), value("znode_count") - 1.0);
    assert_eq!(sample(&of_etcd, "quorate_zk_sessions"), 1.0);
    wait_until("the leader has compacted by itself", || {
        let begun = sample(&get(etcd, "/metrics").1, "quorate_etcd_auto_compactions_total");
        begun > 0.0 && sample(&get(zookeeper, "/metrics").1, "etcd_compacted_revision") == 6.0
    });
}
