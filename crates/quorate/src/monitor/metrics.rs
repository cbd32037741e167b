//! Makes a server's metrics under ZooKeeper's names. Metrics of ZooKeeper whose values would not be
//! true for this server are left out; `docs/zookeeper.md` lists them with the reasons.

use std::collections::BTreeMap;

use machine::MemberId;
use member::fronts::zk::namespaces::Sizes;
use member::fronts::zk::{RefusedReply, ZkFrontReport};
use member::summary::{Distribution, Latency, Summary};
use zk::four_letter::Number;

use super::{MemberFacts, Metric, Monitor};
use crate::observe::metric::{Value, label, whole};
use crate::observe::process;
use crate::observe::replica::{Ensemble, Part};
use crate::observe::state::StateFacts;

/// Microseconds in a millisecond.
const US: f64 = 1_000.0;

impl Monitor {
    /// The metrics that both `mntr` and Prometheus show.
    pub async fn metrics(&self) -> Vec<Metric> {
        let fronts = self.observer.zk_fronts().await;
        let facts = self.observer.member();
        let mut metrics = self.gauges(&facts, &fronts);
        metrics.extend(etcd_gauges(&facts.state));
        metrics.extend(self.counters(&facts, &fronts));
        metrics.extend(fronts.metrics.last_refused_reply.as_ref().map(refused_reply));
        metrics.extend(self.distributions(&facts, &fronts));
        if let Some(ensemble) = self.observer.ensemble(&facts) {
            metrics.extend(self.ack_latencies(&facts));
            metrics.extend(of_ensemble(&ensemble, &facts));
        }
        metrics
    }

    /// The metrics for Prometheus: those of [`Monitor::metrics`], those of the chunk store, and
    /// with `with_process` those of the process.
    pub async fn prometheus(&self, with_process: bool) -> Vec<Metric> {
        let mut metrics = self.metrics().await;
        metrics.extend(self.observer.chunks.iter().flat_map(|chunks| chunks.metrics()));
        if with_process {
            let version = self.about.version.split(',').next().unwrap_or_default();
            metrics.extend(of_process(version));
        }
        metrics
    }

    /// The gauges of `ZooKeeperServer.registerMetrics`.
    fn gauges(&self, facts: &MemberFacts, fronts: &ZkFrontReport) -> Vec<Metric> {
        let state = &facts.state.zk;
        let size = &fronts.metrics.response_size;
        let last = size.last.map_or(-1, |(bytes, _)| bytes as i64);
        let none_as_java = |bytes: u64| if size.last.is_none() { -1 } else { bytes as i64 };
        let handshakes = self.observer.zk_handshakes();
        let mut gauges = vec![
            gauge("avg_latency", Number::Real(fronts.latency.average())),
            whole_gauge("max_latency", fronts.latency.max_ms),
            whole_gauge("min_latency", fronts.latency.min_ms),
            whole_gauge("packets_received", fronts.received),
            whole_gauge("packets_sent", fronts.sent),
            whole_gauge("num_alive_connections", fronts.connections),
            whole_gauge("outstanding_requests", fronts.outstanding),
            whole_gauge("uptime", facts.uptime_ms),
            // ZooKeeper counts its root twice.
            whole_gauge("znode_count", state.znode_count + 1),
            whole_gauge("watch_count", fronts.watches),
            whole_gauge("ephemerals_count", state.ephemeral_count),
            whole_gauge("approximate_data_size", state.data_bytes),
            whole_gauge("global_sessions", state.session_count),
            // Quorate has no local sessions (sessions that only one server knows).
            whole_gauge("local_sessions", 0),
            whole_gauge("auth_failed_count", fronts.metrics.auth_failed_count),
            whole_gauge("outstanding_tls_handshake", handshakes.under_way),
            gauge("connection_drop_probability", Number::Real(fronts.connection_drop_probability)),
            gauge("last_client_response_size", Number::Whole(last)),
            gauge("max_client_response_size", Number::Whole(none_as_java(size.max))),
            gauge("min_client_response_size", Number::Whole(none_as_java(size.min))),
        ];
        if let Some((open, max)) = process::file_descriptors() {
            gauges.push(whole_gauge("open_file_descriptor_count", open));
            gauges.push(whole_gauge("max_file_descriptor_count", max));
        }
        gauges
    }

    fn counters(&self, facts: &MemberFacts, fronts: &ZkFrontReport) -> Vec<Metric> {
        let (counts, ordinal) = (&facts.counts, facts.state.mark.ordinal.0);
        let rejected = self.observer.zk_connections_rejected();
        let handshakes = self.observer.zk_handshakes();
        let (of, images) = (&fronts.metrics, self.images.counts());
        vec![
            counter("bytes_received_count", of.bytes_received_count),
            counter("response_bytes", of.response_bytes),
            counter("watch_bytes", of.watch_bytes),
            counter("connection_request_count", of.connection_request_count),
            counter("connection_revalidate_count", of.connection_revalidate_count),
            counter("connection_drop_count", of.connection_drop_count),
            counter("connection_rejected", rejected + of.connection_rejected),
            counter("large_requests_rejected", of.large_requests_rejected),
            counter("unsuccessful_handshake", handshakes.failed),
            counter("tls_handshake_exceeded", handshakes.exceeded),
            counter("sessionless_connections_expired", of.sessionless_connections_expired),
            counter("throttled_ops", of.throttled_ops),
            counter("replies_refused", of.replies_refused),
            counter("travelling_reads_refused", of.travelling_reads_refused),
            counter("replies_timed_out", of.replies_timed_out),
            counter("slow_takers_ended", of.slow_takers_ended),
            counter("stale_sessions_expired", counts.spaces.sessions_expired),
            counter("proposal_count", counts.commands_proposed),
            counter("commit_count", ordinal - facts.measured.startup.ordinal),
            counter("snapshot_error_count", images.snapshot_errors),
            counter("snapshot_rate_limited_count", images.snapshots_limited),
            counter("restore_error_count", images.restore_errors),
            counter("restore_rate_limited_count", images.restores_limited),
            // A server ends its process at the first such error.
            counter("unrecoverable_error_count", 0),
        ]
    }

    fn distributions(&self, facts: &MemberFacts, fronts: &ZkFrontReport) -> Vec<Metric> {
        let shown = |summary: &Summary, unit| summary.distribution(unit, facts.uptime_ms);
        let (of, node) = (&fronts.metrics, &facts.measured);
        let started = &node.startup;
        let basic = |name, of| Metric::named(name, Value::Basic(of));
        let advanced = |name, of| Metric::named(name, Value::Advanced(of));
        vec![
            basic("fsynctime", shown(&node.fsync_time_us, US)),
            basic("snapshottime", shown(&node.snapshot_time_ms, 1.0)),
            basic("restore_time", shown(&self.images.restore_time_ms(), 1.0)),
            basic("dbinittime", once(started.snapshot_load_ms + started.log_apply_ms)),
            basic("startup_snap_load_time", once(started.snapshot_load_ms)),
            basic("startup_txns_load_time", once(started.log_apply_ms)),
            basic("startup_txns_loaded", once(started.commands_applied)),
            basic("connection_token_deficit", shown(&of.connection_token_deficit, 1.0)),
            basic("node_created_watch_count", shown(&of.node_created_watch_count, 1.0)),
            basic("node_deleted_watch_count", shown(&of.node_deleted_watch_count, 1.0)),
            basic("node_changed_watch_count", shown(&of.node_changed_watch_count, 1.0)),
            basic("node_children_watch_count", shown(&of.node_children_watch_count, 1.0)),
            namespaces("read_per_namespace", of.namespaces.read()),
            namespaces("write_per_namespace", of.namespaces.written_bytes()),
            advanced("propagation_latency", shown(&node.propagation_latency_ms, 1.0)),
            advanced("readlatency", shown(&of.read_latency, 1.0)),
            advanced("updatelatency", shown(&of.update_latency, 1.0)),
        ]
    }

    /// How long entries take to reach the disks of other members: the latencies that ZooKeeper
    /// measures in `Leader.processAck` and `tryToCommit`, and on a follower in
    /// `Follower.processPacket`.
    fn ack_latencies(&self, facts: &MemberFacts) -> Vec<Metric> {
        let (node, now_ms) = (&facts.measured, facts.uptime_ms);
        let servers = self.observer.servers();
        let of_member = |(member, summary): (&MemberId, &Summary)| {
            let server = servers.number_of(*member)?;
            Some((server.to_string(), summary.distribution(US, now_ms)))
        };
        let of_quorum = node.quorum_ack_latency_us.distribution(US, now_ms);
        let of_members = node.ack_latency_us.iter().filter_map(of_member).collect();
        let of_proposals = node.proposal_latency_ms.distribution(1.0, now_ms);
        vec![
            // As in `Follower.processPacket`.
            Metric::named("proposal_latency", Value::Advanced(of_proposals)),
            Metric::named("quorum_ack_latency", Value::Advanced(of_quorum)),
            Metric::named("ack_latency", Value::AdvancedOf(of_members)),
        ]
    }
}

/// Gauges about etcd's keys; empty before a client of etcd has changed anything. Names that
/// ZooKeeper does not have begin with `etcd_`.
fn etcd_gauges(state: &StateFacts) -> Vec<Metric> {
    let etcd = &state.etcd;
    if etcd.is_unused {
        return Vec::new();
    }
    vec![
        whole_gauge("etcd_revision", etcd.revision),
        whole_gauge("etcd_compacted_revision", etcd.compacted_revision),
        whole_gauge("etcd_key_count", etcd.key_count),
        whole_gauge("etcd_data_size", etcd.bytes),
        whole_gauge("etcd_quota", etcd.quota_bytes),
        whole_gauge("etcd_lease_count", etcd.lease_count),
        whole_gauge("etcd_alarm_count", etcd.alarm_count),
    ]
}

/// Bytes of the last, the smallest and the largest proposal (`BufferStats`), -1 before the first.
/// `None` unless leading.
pub(super) fn proposal_sizes(ensemble: &Ensemble, facts: &MemberFacts) -> Option<[i64; 3]> {
    let shown = |bytes: [u64; 3]| bytes.map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
    let sizes = facts.counts.proposal_bytes.map_or([-1; 3], shown);
    (ensemble.part == Part::Leading).then_some(sizes)
}

/// The metrics of a member of an ensemble (`QuorumZooKeeperServer.registerMetrics`,
/// `LeaderZooKeeperServer.registerMetrics`, and those about elections in `ServerMetrics`).
fn of_ensemble(ensemble: &Ensemble, facts: &MemberFacts) -> Vec<Metric> {
    let (status, counts) = (&facts.replica.status, &facts.counts);
    let mut metrics = vec![
        whole_gauge("quorum_size", ensemble.size as u64),
        // ZooKeeper does not have these: the state of the log, in Raft's words.
        whole_gauge("raft_term", status.term),
        whole_gauge("raft_last_index", status.last_index),
        whole_gauge("raft_commit_index", status.commit_index),
        whole_gauge("raft_applied_index", status.applied_index),
        counter("looking_count", counts.looking_count),
        counter("digest_mismatches_count", counts.differences),
        times("election_time", &counts.election_time),
        times("unavailable_time", &counts.unavailable_time),
        // As in `Follower.followLeader`.
        times("follower_sync_time", &counts.follower_sync_time),
        counter("snap_count", counts.snapshots_given),
        // ZooKeeper does not have these: they show what members that come back cost.
        counter("snapshot_bytes_sent", counts.snapshot_bytes_sent),
        counter("snapshots_fetched", counts.snapshots_fetched),
        counter("snapshots_borrowed", counts.snapshots_borrowed),
    ];
    if let Some([last, min, max]) = proposal_sizes(ensemble, facts) {
        let since_ms = counts.leading_since_ms.unwrap_or(facts.uptime_ms);
        metrics.extend([
            whole_gauge("learners", ensemble.learners as u64),
            whole_gauge("synced_followers", ensemble.synced_followers as u64),
            whole_gauge("synced_non_voting_followers", ensemble.synced_non_voters as u64),
            // Observers are not supported yet.
            whole_gauge("synced_observers", 0),
            // There are no pending syncs, because a member answers a sync itself once it has caught
            // up with the leader.
            whole_gauge("pending_syncs", 0),
            whole_gauge("leader_uptime", facts.uptime_ms.saturating_sub(since_ms)),
            gauge("last_proposal_size", Number::Whole(last)),
            gauge("min_proposal_size", Number::Whole(min)),
            gauge("max_proposal_size", Number::Whole(max)),
        ]);
    }
    metrics
}

/// The metrics of `DefaultExports` in Prometheus' Java client that are true here: `process_*`, and
/// some `jvm_*` metrics that dashboards made for ZooKeeper read.
fn of_process(version: &str) -> Vec<Metric> {
    let memory = process::memory();
    let bytes = |name, value: u64| gauge(name, Number::Real(value as f64));
    let heap = |name, value: u64| {
        Metric::named(
            name,
            Value::Gauges(vec![(label("area", "heap"), Number::Real(value as f64))]),
        )
    };
    let info = [label("version", version), label("vendor", "quorate"), label("runtime", "none")];
    let no_collections = Value::Total { labels: label("gc", "none"), count: 0, sum: 0.0 };
    let cpu_seconds = Value::Counter(Number::Real(process::cpu_seconds()));
    let began = Number::Real(process::BEGAN.as_secs_f64());
    let mut metrics = vec![
        Metric::named("process_cpu_seconds_total", cpu_seconds),
        gauge("process_start_time_seconds", began),
        bytes("process_virtual_memory_bytes", memory.virtual_bytes),
        bytes("process_resident_memory_bytes", memory.resident_bytes),
        Metric::named("jvm_info", Value::Gauges(vec![(info.join(","), Number::Real(1.0))])),
        heap("jvm_memory_bytes_used", memory.anonymous_bytes),
        heap("jvm_memory_bytes_committed", memory.anonymous_bytes),
        heap("jvm_memory_bytes_max", memory.limit_bytes),
        bytes("jvm_threads_current", memory.threads),
        // There is no garbage collector, so collections take no time.
        Metric::named("jvm_gc_collection_seconds", no_collections),
    ];
    if let Some((open, max)) = process::file_descriptors() {
        metrics.push(bytes("process_open_fds", open));
        metrics.push(bytes("process_max_fds", max));
    }
    metrics
}

fn gauge(name: &'static str, number: Number) -> Metric {
    Metric::named(name, Value::Gauge(number))
}

fn whole_gauge(name: &'static str, value: u64) -> Metric {
    gauge(name, whole(value))
}

fn counter(name: &'static str, count: u64) -> Metric {
    Metric::named(name, Value::Counter(whole(count)))
}

/// A metric of times in ms, without quantiles.
fn times(name: &'static str, of: &Latency) -> Metric {
    let (sum, min, max) = (of.total_ms as f64, of.min_ms as f64, of.max_ms as f64);
    Metric::named(
        name,
        Value::Basic(Distribution { count: of.count, sum, min, max, quantiles: None }),
    )
}

/// A metric with a distribution of sizes, in bytes, for each first path element.
fn namespaces(name: &'static str, sizes: BTreeMap<&str, Sizes>) -> Metric {
    let sets = sizes.into_iter().map(|(key, sizes)| (key.to_string(), sizes.distribution()));
    Metric::named(name, Value::BasicOf(sets.collect()))
}

/// A gauge about the last reply that was too large to be sent, labelled with its client's session
/// and path. Only the last one is shown, because a metric cannot have a label for each path.
fn refused_reply(refused: &RefusedReply) -> Metric {
    let RefusedReply { session, path, bytes } = refused;
    let labels = [label("path", path), label("session", &format!("{session:#x}"))].join(",");
    Metric::named("last_refused_reply_bytes", Value::Gauges(vec![(labels, whole(*bytes))]))
}

/// The distribution of a value that is measured once, at the start.
fn once(value: u64) -> Distribution {
    let value = value as f64;
    Distribution { count: 1, sum: value, min: value, max: value, quantiles: Some([value; 5]) }
}
