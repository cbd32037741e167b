//! `/metrics`, under etcd's names: only those whose values are true here. `docs/etcd.md` lists what
//! is left out. Calls are counted where they are served; everything else is asked of the member.

mod page;

use etcd::versions::ETCD_VERSION;
use grpc::{CallNumbers, Code, Kind, TIME_BOUNDS_US};
use node::{PeerTraffic, WRITE_BOUNDS_US};

use super::member_view::MemberView;
use crate::monitor::process;
use page::{COUNTER, GAUGE, HISTOGRAM, Page};

/// The version of the cluster as this page shows it.
const CLUSTER_VERSION: &str = "3.6";

/// Microseconds of a second.
const US: f64 = 1e6;

/// The page that Prometheus reads.
pub(super) fn text(member: &MemberView) -> String {
    let mut page = Page::default();
    of_server(member, &mut page);
    of_replica(member, &mut page);
    of_peers(member, &mut page);
    of_keys(member, &mut page);
    of_memory(member, &mut page);
    of_zookeeper(member, &mut page);
    of_disk(member, &mut page);
    of_health(member, &mut page);
    of_calls(member, &mut page);
    of_process(&mut page);
    page.text
}

fn of_server(member: &MemberView, page: &mut Page) {
    let about = &member.config.about;
    let id = format!("server_id=\"{:x}\"", member.member_id);
    page.one("etcd_server_id", GAUGE, "Server id, in hexadecimal.", &id, 1);
    let version = format!("server_version=\"{ETCD_VERSION}\"");
    let help = "The version of etcd whose behaviour is served.";
    page.one("etcd_server_version", GAUGE, help, &version, 1);
    let version = format!("cluster_version=\"{CLUSTER_VERSION}\"");
    page.one("etcd_cluster_version", GAUGE, "The version of the cluster.", &version, 1);
    page.begin("etcd_server_feature_enabled", GAUGE, "Whether a feature gate is on.");
    for (name, stage, is_on) in &about.gates {
        page.sample("", &format!("name=\"{name}\",stage=\"{stage}\""), u64::from(*is_on));
    }
    page.begin("etcd_network_known_peers", GAUGE, "The members that this one knows.");
    for other in member.node.voters().iter().chain(&member.node.learners()) {
        let own = member.member_id;
        page.sample("", &format!("Local=\"{own:x}\",Remote=\"{other:x}\""), 1);
    }
}

/// The figures of Raft, and of leadership.
fn of_replica(member: &MemberView, page: &mut Page) {
    let (status, _) = member.node.replica();
    let counts = member.node.loop_counts();
    let has_leader = status.leader.is_some();
    let is_leader = status.leader == Some(member.member_id);
    let help = "Whether a leader is known.";
    page.one("etcd_server_has_leader", GAUGE, help, "", u64::from(has_leader));
    page.one(
        "etcd_server_is_leader",
        GAUGE,
        "Whether this member leads.",
        "",
        u64::from(is_leader),
    );
    let is_learner = u64::from(member.is_learner());
    page.one("etcd_server_is_learner", GAUGE, "Whether this member has no vote.", "", is_learner);
    // Each time that no leader was known ends with one.
    let seen = counts.looking_count - u64::from(!has_leader).min(counts.looking_count);
    let help = "How often another leader was seen.";
    page.one("etcd_server_leader_changes_seen_total", COUNTER, help, "", seen);
    let help = "The index of the last entry that is committed.";
    page.one("etcd_server_proposals_committed_total", GAUGE, help, "", status.commit_index);
    let help = "The index of the last entry that is applied.";
    page.one("etcd_server_proposals_applied_total", GAUGE, help, "", status.applied_index);
    let pending = if is_leader { status.last_index.saturating_sub(status.commit_index) } else { 0 };
    let help = "Entries of this leader that are not committed.";
    page.one("etcd_server_proposals_pending", GAUGE, help, "", pending);
    let help = "Leases that this member, as leader, has ended by time.";
    page.one(
        "etcd_debugging_server_lease_expired_total",
        COUNTER,
        help,
        "",
        counts.spaces.leases_expired,
    );
}

/// What went between the members.
fn of_peers(member: &MemberView, page: &mut Page) {
    let peers = member.node.peer_traffic();
    let mut add = |name, help, label: &str, of: fn(&PeerTraffic) -> u64| {
        page.begin(name, COUNTER, help);
        for peer in &peers {
            page.sample("", &format!("{label}=\"{:x}\"", peer.member.0), of(peer));
        }
    };
    let help = "Bytes that were sent to another member.";
    add("etcd_network_peer_sent_bytes_total", help, "To", |it| it.sent_bytes);
    let help = "Bytes that came from another member.";
    add("etcd_network_peer_received_bytes_total", help, "From", |it| it.received_bytes);
    let help = "Messages that could not be sent to another member.";
    add("etcd_network_peer_sent_failures_total", help, "To", |it| it.sent_failures);
}

/// The memory of etcd's spaces, and the bounds beyond which writes are refused.
fn of_memory(member: &MemberView, page: &mut Page) {
    let (held, held_v2, quota, bounds) = {
        let machine = member.node.machine().read();
        let (store, tree) = (machine.etcd(), machine.etcd_v2().tree());
        (store.held(), tree.held(), store.settings().quota_bytes, machine.control().bounds())
    };
    let help = "Bytes that keys and leases take in memory, about.";
    page.one("quorate_etcd_held_bytes", GAUGE, help, "", held);
    let help = "Bytes that the tree of etcd v2 takes in memory, about.";
    page.one("quorate_etcd_v2_held_bytes", GAUGE, help, "", held_v2);
    if let Some(bounds) = bounds {
        let help = "The bytes in memory beyond which puts and grants are refused.";
        page.one("quorate_etcd_held_bytes_max", GAUGE, help, "", bounds.etcd(quota));
        let help = "The bytes in memory beyond which writes of etcd v2 are refused.";
        page.one("quorate_etcd_v2_held_bytes_max", GAUGE, help, "", bounds.etcd_v2(quota));
    }
}

/// The figures of the keys.
fn of_keys(member: &MemberView, page: &mut Page) {
    let (revision, compacted, keys, bytes, quota, leases) = {
        let machine = member.node.machine().read();
        let store = machine.etcd();
        let leases = store.leases().len() as u64;
        let quota = store.settings().quota_bytes;
        (store.revision(), store.compacted(), store.key_count(), store.bytes(), quota, leases)
    };
    let help = "Bytes of the versions that can be read.";
    page.one("etcd_mvcc_db_total_size_in_bytes", GAUGE, help, "", bytes);
    page.one("etcd_mvcc_db_total_size_in_use_in_bytes", GAUGE, help, "", bytes);
    let help = "The bytes beyond which puts are refused.";
    page.one("etcd_server_quota_backend_bytes", GAUGE, help, "", quota);
    let name = "etcd_debugging_mvcc_current_revision";
    page.one(name, GAUGE, "The revision.", "", revision.unsigned_abs());
    let name = "etcd_debugging_mvcc_compact_revision";
    page.one(name, GAUGE, "The compacted revision.", "", compacted.max(0).unsigned_abs());
    page.one("etcd_debugging_mvcc_keys_total", GAUGE, "The keys.", "", keys);
    let begun = member.node.loop_counts().spaces.auto_compactions;
    let help = "Compactions that this member, as leader, has begun by itself.";
    page.one("quorate_etcd_auto_compactions_total", COUNTER, help, "", begun);
    page.one("quorate_etcd_leases", GAUGE, "The leases.", "", leases);
}

/// The figures of the other face's state.
fn of_zookeeper(member: &MemberView, page: &mut Page) {
    let (znodes, bytes, sessions) = {
        let machine = member.node.machine().read();
        let (tree, sessions) = (machine.zk().tree(), machine.zk().sessions());
        (tree.znode_count(), tree.data_bytes(), sessions.len() as u64)
    };
    page.one("quorate_zk_znodes", GAUGE, "ZooKeeper's znodes.", "", u64::from(znodes));
    let help = "Bytes of paths and data of ZooKeeper's znodes.";
    page.one("quorate_zk_data_bytes", GAUGE, help, "", bytes);
    page.one("quorate_zk_sessions", GAUGE, "Sessions of ZooKeeper's clients.", "", sessions);
}

fn of_disk(member: &MemberView, page: &mut Page) {
    let writes = member.node.metrics().fsync_buckets;
    let help = "How long the log took to be durable.";
    page.begin("etcd_disk_wal_fsync_duration_seconds", HISTOGRAM, help);
    page.histogram("", &WRITE_BOUNDS_US, &writes.counts, writes.sum_us as f64 / US);
}

fn of_health(member: &MemberView, page: &mut Page) {
    let [good, failed] = member.health_counts.health();
    page.one("etcd_server_health_success", COUNTER, "Good answers of /health.", "", good);
    page.one("etcd_server_health_failures", COUNTER, "Other answers of /health.", "", failed);
    page.begin("etcd_server_healthcheck", GAUGE, "The last result of each check.");
    for count in member.health_counts.checks() {
        let labels = format!("name=\"{}\",type=\"{}\"", count.check, count.route);
        page.sample("", &labels, u64::from(count.is_good));
    }
    page.begin("etcd_server_healthchecks_total", COUNTER, "The results of each check.");
    for count in member.health_counts.checks() {
        for (status, times) in [("error", count.failed), ("success", count.good)] {
            if times > 0 {
                let (check, route) = (count.check, count.route);
                let labels = format!("name=\"{check}\",status=\"{status}\",type=\"{route}\"");
                page.sample("", &labels, times);
            }
        }
    }
}

/// The figures of calls: by method as grpc-go's, and those of etcd that follow from them.
fn of_calls(member: &MemberView, page: &mut Page) {
    let calls: Vec<(String, &str, CallNumbers)> = member
        .call_numbers()
        .into_iter()
        .map(|(of, numbers)| {
            let kind = kind_name(of.kind);
            let (service, method) = (of.service, of.name);
            let labels =
                format!("grpc_method=\"{method}\",grpc_service=\"{service}\",grpc_type=\"{kind}\"");
            (labels, of.name, numbers)
        })
        .collect();
    let done = |name: &str| {
        let of_name = calls.iter().filter(|(_, method, _)| *method == name);
        of_name.map(|(.., numbers)| numbers.handled[Code::Ok as usize]).sum::<u64>()
    };
    let of_etcd = [
        ("etcd_mvcc_range_total", "Range"),
        ("etcd_mvcc_put_total", "Put"),
        ("etcd_mvcc_delete_total", "DeleteRange"),
        ("etcd_mvcc_txn_total", "Txn"),
        ("etcd_debugging_lease_granted_total", "LeaseGrant"),
        ("etcd_debugging_lease_revoked_total", "LeaseRevoke"),
    ];
    for (name, method) in of_etcd {
        page.one(
            name,
            COUNTER,
            "Calls of clients of this member that were done.",
            "",
            done(method),
        );
    }
    let watches = calls.iter().filter(|(_, method, _)| *method == "Watch");
    let open = watches.map(|(.., it)| it.started.saturating_sub(it.handled.iter().sum())).sum();
    let name = "etcd_debugging_mvcc_watch_stream_total";
    page.one(name, GAUGE, "Streams of watches.", "", open);
    let sum = |of: fn(&CallNumbers) -> u64| calls.iter().map(|(.., it)| of(it)).sum::<u64>();
    let help = "Bytes of messages from clients.";
    let received = sum(|it| it.bytes_received);
    page.one("etcd_network_client_grpc_received_bytes_total", COUNTER, help, "", received);
    let help = "Bytes of messages to clients.";
    page.one(
        "etcd_network_client_grpc_sent_bytes_total",
        COUNTER,
        help,
        "",
        sum(|it| it.bytes_sent),
    );
    page.begin("grpc_server_started_total", COUNTER, "Calls that began.");
    calls.iter().for_each(|(labels, _, it)| page.sample("", labels, it.started));
    page.begin("grpc_server_handled_total", COUNTER, "Calls that were done, by their codes.");
    for (labels, _, numbers) in &calls {
        for (name, count) in Code::NAMES.iter().zip(numbers.handled) {
            page.sample("", &format!("grpc_code=\"{name}\",{labels}"), count);
        }
    }
    page.begin("grpc_server_msg_received_total", COUNTER, "Messages from clients.");
    calls.iter().for_each(|(labels, _, it)| page.sample("", labels, it.messages_received));
    page.begin("grpc_server_msg_sent_total", COUNTER, "Messages to clients.");
    calls.iter().for_each(|(labels, _, it)| page.sample("", labels, it.messages_sent));
    if member.config.about.has_call_times {
        page.begin("grpc_server_handling_seconds", HISTOGRAM, "How long calls took.");
        for (labels, _, it) in &calls {
            let times = it.times.unwrap_or_default();
            page.histogram(labels, &TIME_BOUNDS_US, &times, it.time_sum_us as f64 / US);
        }
    }
}

/// grpc-go's names (`grpc_prometheus`).
fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Unary => "unary",
        Kind::ClientStreaming => "client_stream",
        Kind::ServerStreaming => "server_stream",
        Kind::BidiStreaming => "bidi_stream",
    }
}

/// The figures of the process, by the names of Prometheus' client libraries.
fn of_process(page: &mut Page) {
    let memory = process::memory();
    let name = "process_resident_memory_bytes";
    page.one(name, GAUGE, "Resident memory.", "", memory.resident_bytes);
    let name = "process_virtual_memory_bytes";
    page.one(name, GAUGE, "Address space.", "", memory.virtual_bytes);
    let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let cpu = cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9;
    page.real("process_cpu_seconds_total", COUNTER, "CPU time.", cpu);
    let began = process::BEGAN.as_secs_f64();
    page.real("process_start_time_seconds", GAUGE, "When the process began.", began);
    if let Some((open, max)) = process::file_descriptors() {
        page.one("process_open_fds", GAUGE, "File descriptors in use.", "", open);
        page.one("process_max_fds", GAUGE, "File descriptors allowed.", "", max);
        page.one("os_fd_used", GAUGE, "File descriptors in use.", "", open);
        page.one("os_fd_limit", GAUGE, "File descriptors allowed.", "", max);
    }
}
