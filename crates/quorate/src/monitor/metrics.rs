//! The metrics, under ZooKeeper's names: only those whose values are true here. `docs/zookeeper.md`
//! lists the metrics that are left out, and why.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use machine::MemberId;
use member::fronts::zk::namespaces::Sizes;
use member::fronts::zk::{RefusedReply, ZkFrontReport};
use member::summary::Summary;
use node::NodeMetrics;
use zk::metrics::{Distribution, Metric, Number, Value};

use super::Monitor;
use super::process;
use crate::client_tls::HandshakeCounts;

/// Microseconds of a millisecond.
const US: f64 = 1_000.0;

impl Monitor {
    /// All metrics, which `mntr` shows as well.
    pub async fn metrics(&self) -> Vec<Metric> {
        let fronts = self.fronts().await;
        let node = self.node.metrics();
        let mut metrics = self.gauges(&fronts);
        metrics.extend(self.etcd_gauges());
        metrics.extend(self.counters(&fronts, &node));
        metrics.extend(fronts.metrics.last_refused_reply.as_ref().map(refused_reply));
        metrics.extend(self.distributions(&fronts, &node));
        metrics.extend(self.ack_latencies(&node));
        metrics.extend(self.ensemble().iter().flat_map(|ensemble| ensemble.metrics()));
        metrics
    }

    /// The metrics of [`Monitor::metrics`], with those of the chunk store, and of the process if
    /// `with_process`.
    pub async fn prometheus(&self, with_process: bool) -> Vec<Metric> {
        let mut metrics = self.metrics().await;
        metrics.extend(self.chunks.iter().flat_map(|chunks| chunks.metrics()));
        if with_process {
            let version = self.about.version.split(',').next().unwrap_or_default();
            metrics.extend(process::metrics(version));
        }
        metrics
    }

    /// `ZooKeeperServer.registerMetrics`.
    fn gauges(&self, fronts: &ZkFrontReport) -> Vec<Metric> {
        let (znodes, ephemerals, data_bytes, sessions) = {
            let machine = self.node.machine().read();
            let (tree, sessions) = (machine.zk().tree(), machine.zk().sessions());
            let ephemerals = sessions.ephemeral_count() as u64;
            (tree.znode_count(), ephemerals, tree.data_bytes(), sessions.len() as u64)
        };
        let size = &fronts.metrics.response_size;
        let last = size.last.map_or(-1, |(bytes, _)| bytes as i64);
        let none_as_java = |bytes: u64| if size.last.is_none() { -1 } else { bytes as i64 };
        let mut gauges = vec![
            gauge("avg_latency", Number::Real(fronts.latency.average())),
            whole("max_latency", fronts.latency.max_ms),
            whole("min_latency", fronts.latency.min_ms),
            whole("packets_received", fronts.received),
            whole("packets_sent", fronts.sent),
            whole("num_alive_connections", fronts.connections),
            whole("outstanding_requests", fronts.outstanding),
            whole("uptime", self.node.monotonic_ms()),
            // ZooKeeper's tree holds its root twice.
            whole("znode_count", u64::from(znodes) + 1),
            whole("watch_count", fronts.watches),
            whole("ephemerals_count", ephemerals),
            whole("approximate_data_size", data_bytes),
            whole("global_sessions", sessions),
            // Quorate has no local sessions, which only one server knows.
            whole("local_sessions", 0),
            whole("auth_failed_count", fronts.metrics.auth_failed_count),
            whole("outstanding_tls_handshake", self.handshakes().under_way),
            gauge("connection_drop_probability", Number::Real(fronts.connection_drop_probability)),
            gauge("last_client_response_size", Number::Whole(last)),
            gauge("max_client_response_size", Number::Whole(none_as_java(size.max))),
            gauge("min_client_response_size", Number::Whole(none_as_java(size.min))),
        ];
        if let Some((open, max)) = process::file_descriptors() {
            gauges.push(whole("open_file_descriptor_count", open));
            gauges.push(whole("max_file_descriptor_count", max));
        }
        gauges
    }

    /// The figures of etcd's keys, once they were used. Names that are not ZooKeeper's begin with
    /// `etcd_`.
    fn etcd_gauges(&self) -> Vec<Metric> {
        let machine = self.node.machine().read();
        let store = machine.etcd();
        if store.is_unused() {
            return Vec::new();
        }
        vec![
            whole("etcd_revision", store.revision().unsigned_abs()),
            whole("etcd_compacted_revision", store.compacted().max(0).unsigned_abs()),
            whole("etcd_key_count", store.key_count()),
            whole("etcd_data_size", store.bytes()),
            whole("etcd_quota", store.settings().quota_bytes),
            whole("etcd_lease_count", store.leases().len() as u64),
            whole("etcd_alarm_count", store.alarms().iter().len() as u64),
        ]
    }

    fn handshakes(&self) -> HandshakeCounts {
        self.face.tls.as_ref().map(|tls| tls.handshake_counts()).unwrap_or_default()
    }

    fn counters(&self, fronts: &ZkFrontReport, node: &NodeMetrics) -> Vec<Metric> {
        let counts = self.node.loop_counts();
        let ordinal = self.node.machine().read().mark().ordinal.0;
        let rejected = self.face.rejected.load(Ordering::Relaxed);
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
            counter("unsuccessful_handshake", self.handshakes().failed),
            counter("tls_handshake_exceeded", self.handshakes().exceeded),
            counter("sessionless_connections_expired", of.sessionless_connections_expired),
            counter("throttled_ops", of.throttled_ops),
            counter("replies_refused", of.replies_refused),
            counter("travelling_reads_refused", of.travelling_reads_refused),
            counter("replies_timed_out", of.replies_timed_out),
            counter("slow_takers_ended", of.slow_takers_ended),
            counter("stale_sessions_expired", counts.spaces.sessions_expired),
            counter("proposal_count", counts.commands_proposed),
            counter("commit_count", ordinal - node.startup.ordinal),
            counter("snapshot_error_count", images.snapshot_errors),
            counter("snapshot_rate_limited_count", images.snapshots_limited),
            counter("restore_error_count", images.restore_errors),
            counter("restore_rate_limited_count", images.restores_limited),
            // The process ends at the first such error.
            counter("unrecoverable_error_count", 0),
        ]
    }

    fn distributions(&self, fronts: &ZkFrontReport, node: &NodeMetrics) -> Vec<Metric> {
        let now_ms = self.node.monotonic_ms();
        let shown = |summary: &Summary, unit| summary.distribution(unit, now_ms).into();
        let of = &fronts.metrics;
        let started = &node.startup;
        let basic = |name, of| Metric { name, value: Value::Basic(of) };
        let advanced = |name, of| Metric { name, value: Value::Advanced(of) };
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

    /// The latencies of `Leader.processAck` and `tryToCommit`, and a follower's part of them: how
    /// long entries take to reach other disks.
    fn ack_latencies(&self, node: &NodeMetrics) -> Vec<Metric> {
        if self.about.cluster.is_none() {
            return Vec::new();
        }
        let now_ms = self.node.monotonic_ms();
        let servers = self.servers();
        let of_member = |(member, summary): (&MemberId, &Summary)| {
            let server = servers.number_of(*member)?;
            Some((server.to_string(), summary.distribution(US, now_ms).into()))
        };
        let of_quorum = node.quorum_ack_latency_us.distribution(US, now_ms).into();
        let of_members = node.ack_latency_us.iter().filter_map(of_member).collect();
        let of_proposals = node.proposal_latency_ms.distribution(1.0, now_ms).into();
        vec![
            // `Follower.processPacket`
            Metric { name: "proposal_latency", value: Value::Advanced(of_proposals) },
            Metric { name: "quorum_ack_latency", value: Value::Advanced(of_quorum) },
            Metric { name: "ack_latency", value: Value::AdvancedOf(of_members) },
        ]
    }
}

fn gauge(name: &'static str, number: Number) -> Metric {
    Metric { name, value: Value::Gauge(number) }
}

fn whole(name: &'static str, value: u64) -> Metric {
    gauge(name, Number::Whole(i64::try_from(value).unwrap_or(i64::MAX)))
}

fn counter(name: &'static str, count: u64) -> Metric {
    Metric { name, value: Value::Counter(count) }
}

/// One metric with the bytes below each first path element.
fn namespaces(name: &'static str, sizes: BTreeMap<&str, Sizes>) -> Metric {
    let sets = sizes.into_iter().map(|(key, sizes)| (key.to_string(), sizes.distribution().into()));
    Metric { name, value: Value::BasicOf(sets.collect()) }
}

/// The reply that was refused last, with its client's session: counters cannot have a label for
/// each path.
fn refused_reply(refused: &RefusedReply) -> Metric {
    let RefusedReply { session, path, bytes } = refused;
    let path = path.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let labels = format!("path=\"{path}\",session=\"{session:#x}\"");
    Metric {
        name: "last_refused_reply_bytes",
        value: Value::Labelled(vec![(labels, *bytes as f64)]),
    }
}

/// The distribution of an event that happens once, at the start.
fn once(value: u64) -> Distribution {
    let value = value as f64;
    Distribution { count: 1, sum: value, min: value, max: value, quantiles: Some([value; 5]) }
}
