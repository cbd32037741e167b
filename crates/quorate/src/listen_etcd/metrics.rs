//! Makes the metrics that `/metrics` on etcd's ports shows, under etcd's names. Metrics of etcd
//! whose values would not be true for this server are left out; `docs/etcd.md` lists them. The
//! figures come from [`crate::observe`], and from the code that serves calls and health checks.

use etcd::versions::ETCD_VERSION;
use grpc::{CallNumbers, Kind, TIME_BOUNDS_US};
use grpc_code::Code;
use node::{PeerTraffic, WRITE_BOUNDS_US};
use zk::four_letter::Number;

use super::member_view::MemberView;
use crate::observe::metric::{Histogram, Labels, Metric, Numbers, Value, label, prometheus, whole};
use crate::observe::state::StateFacts;
use crate::observe::{MemberFacts, process};

/// The cluster version that the metrics show. `/version` shows [`etcd::versions::CLUSTER_VERSION`].
const CLUSTER_VERSION: &str = "3.6";

/// The page of metrics, in Prometheus' text format.
pub(super) fn text(member: &MemberView) -> String {
    let facts = MemberFacts::gather(&member.node);
    let mut metrics = of_server(member, &facts);
    metrics.extend(of_replica(member, &facts));
    metrics.extend(of_peers(member, &facts.traffic));
    metrics.extend(of_keys(&facts));
    metrics.extend(of_memory(&facts.state));
    metrics.extend(of_zookeeper(&facts.state));
    metrics.push(of_disk(&facts));
    metrics.extend(of_health(member));
    metrics.extend(of_calls(member));
    metrics.extend(of_process());
    prometheus(&metrics, Numbers::AsTheyAre, &[])
}

fn gauge(name: &'static str, help: &'static str, number: impl TryInto<i64>) -> Metric {
    Metric { name, help, value: Value::Gauge(whole(number)) }
}

fn counter(name: &'static str, help: &'static str, number: impl TryInto<i64>) -> Metric {
    Metric { name, help, value: Value::Counter(whole(number)) }
}

/// The values of one metric, each with its labels.
type Samples = Vec<(Labels, Number)>;

fn gauges(name: &'static str, help: &'static str, samples: Samples) -> Metric {
    Metric { name, help, value: Value::Gauges(samples) }
}

fn counters(name: &'static str, help: &'static str, samples: Samples) -> Metric {
    Metric { name, help, value: Value::Counters(samples) }
}

/// A metric of value 1 that only carries labels.
fn info(name: &'static str, help: &'static str, labels: Labels) -> Metric {
    gauges(name, help, vec![(labels, whole(1))])
}

/// A member id as etcd shows it.
fn hex(member: u64) -> String {
    format!("{member:x}")
}

fn of_server(member: &MemberView, facts: &MemberFacts) -> Vec<Metric> {
    let about = &member.config.about;
    let shown = |id: u64| hex(member.shown_id(id));
    let own = shown(member.member_id);
    let gates = about.gates.iter().map(|(name, stage, is_on)| {
        let labels = [label("name", name), label("stage", stage)].join(",");
        (labels, whole(u64::from(*is_on)))
    });
    let others = facts.replica.voters.iter().chain(&facts.replica.learners);
    let known = others
        .map(|other| ([label("Local", &own), label("Remote", &shown(*other))].join(","), whole(1)));
    vec![
        info("etcd_server_id", "Server id, in hexadecimal.", label("server_id", &own)),
        info(
            "etcd_server_version",
            "The version of etcd whose behaviour is served.",
            label("server_version", ETCD_VERSION),
        ),
        info(
            "etcd_cluster_version",
            "The version of the cluster.",
            label("cluster_version", CLUSTER_VERSION),
        ),
        gauges("etcd_server_feature_enabled", "Whether a feature gate is on.", gates.collect()),
        gauges("etcd_network_known_peers", "The members that this one knows.", known.collect()),
    ]
}

/// The metrics of Raft, and of leadership.
fn of_replica(member: &MemberView, facts: &MemberFacts) -> Vec<Metric> {
    let (status, counts) = (&facts.replica.status, &facts.counts);
    let has_leader = status.leader.is_some();
    let is_leader = status.leader == Some(member.member_id);
    let is_learner = !member.is_alone && !facts.replica.voters.contains(&member.member_id);
    // `looking_count` counts the times without a known leader; each but the present one ended with
    // a leader.
    let seen = counts.looking_count - u64::from(!has_leader).min(counts.looking_count);
    let pending = if is_leader { status.last_index.saturating_sub(status.commit_index) } else { 0 };
    vec![
        gauge("etcd_server_has_leader", "Whether a leader is known.", u64::from(has_leader)),
        gauge("etcd_server_is_leader", "Whether this member leads.", u64::from(is_leader)),
        gauge("etcd_server_is_learner", "Whether this member has no vote.", u64::from(is_learner)),
        counter(
            "etcd_server_leader_changes_seen_total",
            "How often another leader was seen.",
            seen,
        ),
        gauge(
            "etcd_server_proposals_committed_total",
            "The index of the last entry that is committed.",
            status.commit_index,
        ),
        gauge(
            "etcd_server_proposals_applied_total",
            "The index of the last entry that is applied.",
            status.applied_index,
        ),
        gauge(
            "etcd_server_proposals_pending",
            "Entries of this leader that are not committed.",
            pending,
        ),
        counter(
            "etcd_debugging_server_lease_expired_total",
            "Leases that this member, as leader, has ended by time.",
            counts.spaces.leases_expired,
        ),
    ]
}

/// The metrics of the traffic with other members.
fn of_peers(member: &MemberView, traffic: &[PeerTraffic]) -> Vec<Metric> {
    let samples = |direction: &str, of: fn(&PeerTraffic) -> u64| {
        let sample = |it: &PeerTraffic| {
            (label(direction, &hex(member.shown_id(it.member.0))), whole(of(it)))
        };
        traffic.iter().map(sample).collect()
    };
    vec![
        counters(
            "etcd_network_peer_sent_bytes_total",
            "Bytes that were sent to another member.",
            samples("To", |it| it.sent_bytes),
        ),
        counters(
            "etcd_network_peer_received_bytes_total",
            "Bytes that came from another member.",
            samples("From", |it| it.received_bytes),
        ),
        counters(
            "etcd_network_peer_sent_failures_total",
            "Messages that could not be sent to another member.",
            samples("To", |it| it.sent_failures),
        ),
    ]
}

/// The metrics of keys and leases.
fn of_keys(facts: &MemberFacts) -> Vec<Metric> {
    let etcd = &facts.state.etcd;
    let help = "Bytes of the versions that can be read.";
    vec![
        gauge("etcd_mvcc_db_total_size_in_bytes", help, etcd.bytes),
        gauge("etcd_mvcc_db_total_size_in_use_in_bytes", help, etcd.bytes),
        gauge(
            "etcd_server_quota_backend_bytes",
            "The bytes beyond which puts are refused.",
            etcd.quota_bytes,
        ),
        gauge("etcd_debugging_mvcc_current_revision", "The revision.", etcd.revision),
        gauge(
            "etcd_debugging_mvcc_compact_revision",
            "The compacted revision.",
            etcd.compacted_revision,
        ),
        gauge("etcd_debugging_mvcc_keys_total", "The keys.", etcd.key_count),
        counter(
            "quorate_etcd_auto_compactions_total",
            "Compactions that this member, as leader, has begun by itself.",
            facts.counts.spaces.auto_compactions,
        ),
        gauge("quorate_etcd_leases", "The leases.", etcd.lease_count),
    ]
}

/// The metrics of the memory that etcd's spaces use, and of the bounds above which writes are
/// refused.
fn of_memory(state: &StateFacts) -> Vec<Metric> {
    let (v3, v2) = (&state.etcd, &state.etcd_v2);
    let mut metrics = vec![
        gauge(
            "quorate_etcd_held_bytes",
            "Bytes that keys and leases take in memory, about.",
            v3.held_bytes,
        ),
        gauge(
            "quorate_etcd_v2_held_bytes",
            "Bytes that the tree of etcd v2 takes in memory, about.",
            v2.held_bytes,
        ),
    ];
    let help = "The bytes in memory beyond which puts and grants are refused.";
    let bound = v3.held_bytes_max;
    metrics.extend(bound.map(|bytes| gauge("quorate_etcd_held_bytes_max", help, bytes)));
    let help = "The bytes in memory beyond which writes of etcd v2 are refused.";
    let bound = v2.held_bytes_max;
    metrics.extend(bound.map(|bytes| gauge("quorate_etcd_v2_held_bytes_max", help, bytes)));
    metrics
}

/// A few figures of ZooKeeper's state, which shares the server.
fn of_zookeeper(state: &StateFacts) -> Vec<Metric> {
    let zk = &state.zk;
    vec![
        gauge("quorate_zk_znodes", "ZooKeeper's znodes.", zk.znode_count),
        gauge(
            "quorate_zk_data_bytes",
            "Bytes of paths and data of ZooKeeper's znodes.",
            zk.data_bytes,
        ),
        gauge("quorate_zk_sessions", "Sessions of ZooKeeper's clients.", zk.session_count),
    ]
}

fn of_disk(facts: &MemberFacts) -> Metric {
    let writes = &facts.measured.fsync_buckets;
    let times = Histogram {
        bounds_us: &WRITE_BOUNDS_US,
        counts: writes.counts.to_vec(),
        sum_us: writes.sum_us,
    };
    Metric {
        name: "etcd_disk_wal_fsync_duration_seconds",
        help: "How long the log took to be durable.",
        value: Value::Histograms(vec![(Labels::new(), times)]),
    }
}

fn of_health(member: &MemberView) -> Vec<Metric> {
    let [good, failed] = member.health_counts.health();
    let (mut last, mut all) = (Samples::new(), Samples::new());
    for count in member.health_counts.checks() {
        let (name, route) = (label("name", count.check), label("type", count.route));
        last.push((format!("{name},{route}"), whole(u64::from(count.is_good))));
        for (status, times) in [("error", count.failed), ("success", count.good)] {
            if times > 0 {
                let status = label("status", status);
                all.push((format!("{name},{status},{route}"), whole(times)));
            }
        }
    }
    vec![
        counter("etcd_server_health_success", "Good answers of /health.", good),
        counter("etcd_server_health_failures", "Other answers of /health.", failed),
        gauges("etcd_server_healthcheck", "The last result of each check.", last),
        counters("etcd_server_healthchecks_total", "The results of each check.", all),
    ]
}

/// A gRPC method, and the counts of its calls.
struct MethodCalls {
    name: &'static str,
    /// The labels that grpc-go's metrics have.
    labels: Labels,
    numbers: CallNumbers,
}

/// The metrics of calls: those of grpc-go for each method, and those of etcd that can be computed
/// from them.
fn of_calls(member: &MemberView) -> Vec<Metric> {
    let calls = member.call_numbers().into_iter().map(|(method, numbers)| {
        let labels = [
            label("grpc_method", method.name),
            label("grpc_service", method.service),
            label("grpc_type", kind_name(method.kind)),
        ];
        MethodCalls { name: method.name, labels: labels.join(","), numbers }
    });
    let calls: Vec<MethodCalls> = calls.collect();
    let mut metrics = of_etcds_calls(&calls);
    let samples = |of: fn(&CallNumbers) -> u64| {
        calls.iter().map(|call| (call.labels.clone(), whole(of(&call.numbers)))).collect()
    };
    let handled = calls.iter().flat_map(|MethodCalls { labels, numbers, .. }| {
        Code::NAMES.iter().zip(numbers.handled).map(move |(code, count)| {
            (format!("{},{labels}", label("grpc_code", code)), whole(count))
        })
    });
    metrics.extend([
        counters("grpc_server_started_total", "Calls that began.", samples(|it| it.started)),
        counters(
            "grpc_server_handled_total",
            "Calls that were done, by their codes.",
            handled.collect(),
        ),
        counters(
            "grpc_server_msg_received_total",
            "Messages from clients.",
            samples(|it| it.messages_received),
        ),
        counters(
            "grpc_server_msg_sent_total",
            "Messages to clients.",
            samples(|it| it.messages_sent),
        ),
    ]);
    if member.config.about.has_call_times {
        let times = |call: &MethodCalls| {
            let counts = call.numbers.times.unwrap_or_default().to_vec();
            let sum_us = call.numbers.time_sum_us;
            (call.labels.clone(), Histogram { bounds_us: &TIME_BOUNDS_US, counts, sum_us })
        };
        let value = Value::Histograms(calls.iter().map(times).collect());
        let (name, help) = ("grpc_server_handling_seconds", "How long calls took.");
        metrics.push(Metric { name, help, value });
    }
    metrics
}

/// The metrics of etcd that can be computed from the counts of calls.
fn of_etcds_calls(calls: &[MethodCalls]) -> Vec<Metric> {
    let done = |name: &'static str, method: &str| {
        let of_method = calls.iter().filter(|call| call.name == method);
        let count: u64 = of_method.map(|call| call.numbers.handled[Code::Ok as usize]).sum();
        counter(name, "Calls of clients of this member that were done.", count)
    };
    let watches = calls.iter().filter(|call| call.name == "Watch").map(|call| &call.numbers);
    let open: u64 = watches.map(|it| it.started.saturating_sub(it.handled.iter().sum())).sum();
    let sum = |of: fn(&CallNumbers) -> u64| calls.iter().map(|it| of(&it.numbers)).sum::<u64>();
    vec![
        done("etcd_mvcc_range_total", "Range"),
        done("etcd_mvcc_put_total", "Put"),
        done("etcd_mvcc_delete_total", "DeleteRange"),
        done("etcd_mvcc_txn_total", "Txn"),
        done("etcd_debugging_lease_granted_total", "LeaseGrant"),
        done("etcd_debugging_lease_revoked_total", "LeaseRevoke"),
        gauge("etcd_debugging_mvcc_watch_stream_total", "Streams of watches.", open),
        counter(
            "etcd_network_client_grpc_received_bytes_total",
            "Bytes of messages from clients.",
            sum(|it| it.bytes_received),
        ),
        counter(
            "etcd_network_client_grpc_sent_bytes_total",
            "Bytes of messages to clients.",
            sum(|it| it.bytes_sent),
        ),
    ]
}

/// The name of a kind of method in grpc-go's metrics (`grpc_prometheus`).
fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Unary => "unary",
        Kind::ClientStreaming => "client_stream",
        Kind::ServerStreaming => "server_stream",
        Kind::BidiStreaming => "bidi_stream",
    }
}

/// The metrics of the process, under the names of Prometheus' client libraries.
fn of_process() -> Vec<Metric> {
    let memory = process::memory();
    let cpu = Value::Counter(Number::Real(process::cpu_seconds()));
    let began = Value::Gauge(Number::Real(process::BEGAN.as_secs_f64()));
    let mut metrics = vec![
        gauge("process_resident_memory_bytes", "Resident memory.", memory.resident_bytes),
        gauge("process_virtual_memory_bytes", "Address space.", memory.virtual_bytes),
        Metric { name: "process_cpu_seconds_total", help: "CPU time.", value: cpu },
        Metric {
            name: "process_start_time_seconds",
            help: "When the process began.",
            value: began,
        },
    ];
    if let Some((open, max)) = process::file_descriptors() {
        metrics.extend([
            gauge("process_open_fds", "File descriptors in use.", open),
            gauge("process_max_fds", "File descriptors allowed.", max),
            gauge("os_fd_used", "File descriptors in use.", open),
            gauge("os_fd_limit", "File descriptors allowed.", max),
        ]);
    }
    metrics
}
