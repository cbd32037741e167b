//! Reports about a Front, for four-letter words, metrics and the admin server.
//!
//! Counters are kept where the events happen, and are copied out here. Lists come in pages, so that
//! a Front with many connections or watches serves its clients in between.

use machine::ConnectionId;
use zk::four_letter::{self, ConnectionReport, SessionReport};

use super::connection::Connection;
use super::namespaces::Namespaces;
use super::room::RefusedReply;
use super::watches::WatchCursor;
use super::{State, Stats, ZkFront};
use crate::summary::{Latency, Summary};

/// The counts of one Front. Merged, they are the counts of the member.
#[derive(Clone, Debug, Default)]
pub struct ZkFrontReport {
    /// The latency of requests, from decoding to the reply.
    pub latency: Latency,
    /// How many frames came from clients.
    pub received: u64,
    /// How many frames were sent to clients.
    pub sent: u64,
    /// How many requests are not answered.
    pub outstanding: u64,
    /// How many connections there are, in any state.
    pub connections: u64,
    /// How many watches there are, as ZooKeeper counts them.
    pub watches: u64,
    /// How many watches there are except one-shot child watches, as `wchs` counts them.
    pub data_watches: u64,
    /// The metric `connection_drop_probability`. It is the same for all ZooKeeper Fronts of the
    /// member.
    pub connection_drop_probability: f64,
    /// The counts that are ZooKeeper metrics.
    pub metrics: ZkFrontMetrics,
}

impl ZkFrontReport {
    /// Adds the counts of another Front of the member.
    pub fn merge(&mut self, other: &ZkFrontReport) {
        self.latency.merge(&other.latency);
        self.received += other.received;
        self.sent += other.sent;
        self.outstanding += other.outstanding;
        self.connections += other.connections;
        self.watches += other.watches;
        self.data_watches += other.data_watches;
        // All Fronts share the throttle, so they report the same value.
        self.connection_drop_probability =
            self.connection_drop_probability.max(other.connection_drop_probability);
        self.metrics.merge(&other.metrics);
    }
}

/// Counters and distributions, by ZooKeeper's names (`ServerMetrics`). Times are in ms.
#[derive(Clone, Debug, Default)]
pub struct ZkFrontMetrics {
    /// `readlatency`: from decoding a request to its reply.
    pub read_latency: Summary,
    /// `updatelatency`: from decoding a replicated request to its reply.
    pub update_latency: Summary,
    /// `node_created_watch_count`: how many connections of one Front the creation of a znode
    /// notified.
    pub node_created_watch_count: Summary,
    /// `node_deleted_watch_count`: the same figure for removals of znodes.
    pub node_deleted_watch_count: Summary,
    /// `node_changed_watch_count`: the same figure for changes of data.
    pub node_changed_watch_count: Summary,
    /// `node_children_watch_count`: the same figure for changes of the list of children.
    pub node_children_watch_count: Summary,
    /// `bytes_received_count`: frames with their length fields, and four-letter words.
    pub bytes_received_count: u64,
    /// `response_bytes`: replies without their length fields, except replies to connect requests.
    pub response_bytes: u64,
    /// `watch_bytes`: events without their length fields.
    pub watch_bytes: u64,
    /// `connection_request_count`: connect requests.
    pub connection_request_count: u64,
    /// `connection_token_deficit`: tokens that the throttle lacked when it admitted a client.
    pub connection_token_deficit: Summary,
    /// `connection_rejected`: clients that the throttle refused.
    pub connection_rejected: u64,
    /// `large_requests_rejected`: requests that did not fit beside other large ones.
    pub large_requests_rejected: u64,
    /// `connection_drop_count`: connections that ended without this server closing them.
    pub connection_drop_count: u64,
    /// `sessionless_connections_expired`: connections that were closed because they did not get a
    /// session in time.
    pub sessionless_connections_expired: u64,
    /// `throttled_ops`: requests that were refused because they had waited too long for credit.
    pub throttled_ops: u64,
    /// `auth_failed_count`: auth requests and SASL exchanges that failed.
    pub auth_failed_count: u64,
    /// `connection_revalidate_count`: connect requests that name a session.
    pub connection_revalidate_count: u64,
    /// `read_per_namespace` and `write_per_namespace`: the bytes that clients read and wrote, by
    /// namespace.
    pub namespaces: Namespaces,
    /// `replies_refused`: replies to reads that were larger than `reply_bytes_max`.
    pub replies_refused: u64,
    /// The last reply of any Front that was larger than `reply_bytes_max`; `None` before the first.
    pub last_refused_reply: Option<RefusedReply>,
    /// `travelling_reads_refused`: reads between two writes of their own session that were refused,
    /// because there was no room for their replies.
    pub travelling_reads_refused: u64,
    /// `replies_timed_out`: requests that have waited for room for their replies for too long.
    pub replies_timed_out: u64,
    /// `slow_takers_ended`: connections that were closed because they kept the room for replies
    /// full and read next to nothing.
    pub slow_takers_ended: u64,
    /// Sizes of replies.
    pub response_size: ResponseSize,
}

impl ZkFrontMetrics {
    fn merge(&mut self, other: &ZkFrontMetrics) {
        self.read_latency.merge(&other.read_latency);
        self.update_latency.merge(&other.update_latency);
        self.node_created_watch_count.merge(&other.node_created_watch_count);
        self.node_deleted_watch_count.merge(&other.node_deleted_watch_count);
        self.node_changed_watch_count.merge(&other.node_changed_watch_count);
        self.node_children_watch_count.merge(&other.node_children_watch_count);
        self.bytes_received_count += other.bytes_received_count;
        self.response_bytes += other.response_bytes;
        self.watch_bytes += other.watch_bytes;
        self.connection_request_count += other.connection_request_count;
        self.connection_token_deficit.merge(&other.connection_token_deficit);
        self.connection_rejected += other.connection_rejected;
        self.large_requests_rejected += other.large_requests_rejected;
        self.connection_drop_count += other.connection_drop_count;
        self.sessionless_connections_expired += other.sessionless_connections_expired;
        self.throttled_ops += other.throttled_ops;
        self.auth_failed_count += other.auth_failed_count;
        self.connection_revalidate_count += other.connection_revalidate_count;
        self.namespaces.merge(&other.namespaces);
        self.replies_refused += other.replies_refused;
        if other.last_refused_reply.is_some() {
            self.last_refused_reply.clone_from(&other.last_refused_reply);
        }
        self.travelling_reads_refused += other.travelling_reads_refused;
        self.replies_timed_out += other.replies_timed_out;
        self.slow_takers_ended += other.slow_takers_ended;
        self.response_size.merge(&other.response_size);
    }
}

/// The sizes of replies in bytes (`BufferStats`); all zero before the first reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResponseSize {
    /// The size of the last reply, and when it was written, in ms; `None` before the first.
    pub last: Option<(u64, u64)>,
    /// The smallest size.
    pub min: u64,
    /// The largest size.
    pub max: u64,
}

impl ResponseSize {
    /// Records a reply. `now_ms` must never go back.
    pub(super) fn record(&mut self, bytes: u64, now_ms: u64) {
        self.min = if self.last.is_none() { bytes } else { self.min.min(bytes) };
        self.max = self.max.max(bytes);
        self.last = Some((bytes, now_ms));
    }

    fn merge(&mut self, other: &ResponseSize) {
        let Some((_, at_ms)) = other.last else { return };
        self.min = if self.last.is_none() { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        if self.last.is_none_or(|(_, own_ms)| own_ms <= at_ms) {
            self.last = other.last;
        }
    }
}

/// The counts to reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// The counts of each connection that `cons` shows (`ServerCnxn.resetStats`).
    Connections,
    /// The counts that `srvr` shows (`ServerStats.reset`), and perhaps the metrics. The metrics for
    /// Prometheus are not reset, because its counters must not fall
    /// (`PrometheusMetricsProvider.resetAllValues`).
    Server {
        /// Whether the metrics are reset too.
        metrics: bool,
    },
}

/// One page of the list of watches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchPage {
    /// Each path with the sessions that watch it.
    pub watches: Vec<(String, Vec<i64>)>,
    /// Where the next page begins; `None` if this was the last page.
    pub next: Option<WatchCursor>,
}

impl ZkFront {
    /// The counts of this Front.
    pub fn report(&self) -> ZkFrontReport {
        ZkFrontReport {
            latency: self.traffic.latency,
            received: self.traffic.received,
            sent: self.traffic.sent,
            outstanding: self.traffic.outstanding,
            connections: self.connections.len() as u64,
            watches: self.watches.len() as u64,
            data_watches: self.watches.data_watch_count() as u64,
            connection_drop_probability: self.config.throttle.drop_probability(),
            metrics: self.metrics.clone(),
        }
    }

    /// The ids of all connections, for [`ZkFront::connection_reports`].
    pub fn connection_ids(&self) -> Vec<ConnectionId> {
        let mut ids: Vec<ConnectionId> = self.connections.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// Reports about these connections, except those that have ended. The caller passes at most
    /// [`CONNECTION_PAGE_COUNT`](crate::fronts::zk::limits::CONNECTION_PAGE_COUNT).
    pub fn connection_reports(&self, ids: &[ConnectionId]) -> Vec<ConnectionReport> {
        ids.iter().filter_map(|id| self.connections.get(id)).map(report_of).collect()
    }

    /// The page of the list of watches that begins at `from`.
    pub fn watch_page(&self, from: WatchCursor) -> WatchPage {
        let (page, next) = self.watches.page(from);
        let session = |id: &ConnectionId| Some(self.connections.get(id)?.session?.0);
        let own = |(path, ids): (&str, Vec<ConnectionId>)| {
            (path.to_string(), ids.iter().filter_map(session).collect())
        };
        WatchPage { watches: page.into_iter().map(own).collect(), next }
    }

    /// Resets these counts.
    pub fn reset(&mut self, reset: Reset) {
        match reset {
            Reset::Connections => self.connections.values_mut().for_each(reset_connection),
            Reset::Server { metrics } => {
                self.traffic.latency = Latency::default();
                (self.traffic.received, self.traffic.sent) = (0, 0);
                self.metrics.response_size = ResponseSize::default();
                if metrics {
                    let namespaces = core::mem::take(&mut self.metrics.namespaces).emptied();
                    self.metrics = ZkFrontMetrics { namespaces, ..ZkFrontMetrics::default() };
                }
            }
        }
    }
}

fn reset_connection(connection: &mut Connection) {
    connection.stats = Stats {
        established_ms: connection.stats.established_ms,
        last_operation: "NA",
        last_xid: -1,
        last_zxid: -1,
        ..Stats::default()
    };
}

fn report_of(connection: &Connection) -> ConnectionReport {
    let stats = &connection.stats;
    let session = connection.session.map(|id| SessionReport {
        id: id.0,
        last_operation: stats.last_operation,
        timeout_ms: i64::from(connection.timeout_ms),
        last_xid: stats.last_xid,
        last_zxid: stats.last_zxid,
        last_response_ms: stats.last_response_ms,
        latency: stats.latency.into(),
    });
    ConnectionReport {
        peer: connection.peer.clone(),
        established_ms: stats.established_ms,
        is_reading: !matches!(connection.state, State::Waiting | State::Closing),
        outstanding: connection.window.len() as u64,
        received: stats.received,
        sent: stats.sent,
        session,
    }
}

impl From<Latency> for four_letter::Latency {
    fn from(of: Latency) -> four_letter::Latency {
        let Latency { last_ms, min_ms, max_ms, total_ms, count } = of;
        four_letter::Latency { last_ms, min_ms, max_ms, total_ms, count }
    }
}
