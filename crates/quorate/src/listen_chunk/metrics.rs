//! Makes the chunk face's metrics for Prometheus. A metric that means the same as a metric of
//! Ozone's datanode has Ozone's name (`ContainerMetrics`); the others have our own names.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use chunk::wire::pb;

use super::service::Service;
use crate::observe::metric::{Metric, Value, whole};

/// Each request type that the face serves, with the name of its counter of requests, and the name
/// of its counter of chunk bytes if it moves any.
const SERVED: [(pb::Type, &str, Option<&str>); 17] = [
    (pb::Type::CreateContainer, "storage_container_metrics_num_create_container", None),
    (pb::Type::ReadContainer, "storage_container_metrics_num_read_container", None),
    (pb::Type::UpdateContainer, "storage_container_metrics_num_update_container", None),
    (pb::Type::DeleteContainer, "storage_container_metrics_num_delete_container", None),
    (pb::Type::CloseContainer, "storage_container_metrics_num_close_container", None),
    (pb::Type::PutBlock, "storage_container_metrics_num_put_block", None),
    (pb::Type::GetBlock, "storage_container_metrics_num_get_block", None),
    (pb::Type::ListBlock, "storage_container_metrics_num_list_block", None),
    (
        pb::Type::ReadChunk,
        "storage_container_metrics_num_read_chunk",
        Some("storage_container_metrics_bytes_read_chunk"),
    ),
    (
        pb::Type::WriteChunk,
        "storage_container_metrics_num_write_chunk",
        Some("storage_container_metrics_bytes_write_chunk"),
    ),
    (
        pb::Type::PutSmallFile,
        "storage_container_metrics_num_put_small_file",
        Some("storage_container_metrics_bytes_put_small_file"),
    ),
    (
        pb::Type::GetSmallFile,
        "storage_container_metrics_num_get_small_file",
        Some("storage_container_metrics_bytes_get_small_file"),
    ),
    (
        pb::Type::GetCommittedBlockLength,
        "storage_container_metrics_num_get_committed_block_length",
        None,
    ),
    (pb::Type::FinalizeBlock, "storage_container_metrics_num_finalize_block", None),
    (pb::Type::Echo, "storage_container_metrics_num_echo", None),
    (
        pb::Type::GetContainerChecksumInfo,
        "storage_container_metrics_num_get_container_checksum_info",
        None,
    ),
    (
        pb::Type::ReadBlock,
        "storage_container_metrics_num_read_block",
        Some("storage_container_metrics_bytes_read_block"),
    ),
];

/// Counts of events since the chunk face started.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// The number of requests, and of chunk bytes, for each entry of [`SERVED`].
    served: [(AtomicU64, AtomicU64); SERVED.len()],
    others: AtomicU64,
    refused: AtomicU64,
    damaged: AtomicU64,
    connections_refused: AtomicU64,
}

impl Counts {
    /// Counts a request that carries `bytes` bytes of chunks.
    pub(super) fn request(&self, kind: pb::Type, bytes: usize) {
        match self.of(kind) {
            Some((requests, all)) => {
                requests.fetch_add(1, Ordering::Relaxed);
                all.fetch_add(bytes as u64, Ordering::Relaxed);
            }
            None => drop(self.others.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// Counts the chunk bytes of an answer, or that it refuses the request.
    pub(super) fn answer(&self, answer: &pb::ContainerCommandResponseProto) {
        if answer.result() != pb::Result::Success {
            self.refused.fetch_add(1, Ordering::Relaxed);
        } else if let Some((_, all)) = self.of(answer.cmd_type()) {
            let bytes = chunk::wire::data_bytes(answer) as u64;
            all.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Counts blocks that the search for damage found damaged.
    pub(super) fn damaged(&self, blocks: usize) {
        self.damaged.fetch_add(blocks as u64, Ordering::Relaxed);
    }

    /// Counts a connection that was closed right after it was accepted.
    pub(super) fn refused_connection(&self) {
        self.connections_refused.fetch_add(1, Ordering::Relaxed);
    }

    fn of(&self, kind: pb::Type) -> Option<&(AtomicU64, AtomicU64)> {
        SERVED
            .iter()
            .zip(&self.served)
            .find_map(|((of, ..), counts)| (*of == kind).then_some(counts))
    }
}

/// A handle that lets the monitor read a chunk face's metrics.
pub struct ChunkMetrics(pub(super) Arc<Service>);

impl ChunkMetrics {
    /// Every metric with its present value.
    pub fn all(&self) -> Vec<Metric> {
        let counter = |name, count: u64| Metric::named(name, Value::Counter(whole(count)));
        let gauge = |name, count: usize| Metric::named(name, Value::Gauge(whole(count)));
        let (counts, store) = (&self.0.counts, &self.0.handler.store);
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let mut metrics = Vec::new();
        let mut all = load(&counts.others);
        for ((_, ops, bytes), (requests, of)) in SERVED.iter().zip(&counts.served) {
            all += load(requests);
            metrics.push(counter(ops, load(requests)));
            metrics.extend(bytes.map(|name| counter(name, load(of))));
        }
        metrics.push(counter("storage_container_metrics_num_ops", all));
        metrics.push(counter("chunk_requests_refused", load(&counts.refused)));
        metrics.push(counter("chunk_blocks_damaged", load(&counts.damaged)));
        metrics.push(counter("chunk_log_syncs", store.sync_count()));
        metrics.push(counter("chunk_connections_refused", load(&counts.connections_refused)));
        metrics.push(gauge("chunk_connections", self.0.addresses.connection_count()));
        metrics.push(gauge("chunk_store_damaged", usize::from(store.is_damaged())));
        metrics.push(gauge("chunk_store_stopped", usize::from(store.check().is_err())));
        metrics.push(gauge("chunk_log_cut_off", usize::from(store.cut().is_some())));
        metrics.push(gauge("chunk_containers", store.container_count()));
        metrics.push(gauge("chunk_open_files", store.open_file_count()));
        metrics
    }
}
