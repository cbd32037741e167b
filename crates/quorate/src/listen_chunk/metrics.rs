//! What the chunk face counts, shown to Prometheus: under the names of a datanode's metrics
//! (`ContainerMetrics`) where it counts the same, and under our own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use chunk::wire::pb;
use zk::metrics::{Metric, Number, Value};

use super::Service;

/// Requests by their type, and the bytes of chunks in them or in their answers.
macro_rules! served {
    ($($kind:ident $ops:literal $bytes:literal)*) => {
        /// Each type that is served: what its requests and their bytes are called.
        const SERVED: &[(pb::Type, &str, &str)] = &[$((
            pb::Type::$kind,
            concat!("storage_container_metrics_num_", $ops),
            concat!("storage_container_metrics_bytes_", $bytes),
        )),*];
    };
}

served! {
    CreateContainer "create_container" ""
    ReadContainer "read_container" ""
    UpdateContainer "update_container" ""
    DeleteContainer "delete_container" ""
    CloseContainer "close_container" ""
    PutBlock "put_block" ""
    GetBlock "get_block" ""
    ListBlock "list_block" ""
    ReadChunk "read_chunk" "read_chunk"
    WriteChunk "write_chunk" "write_chunk"
    PutSmallFile "put_small_file" "put_small_file"
    GetSmallFile "get_small_file" "get_small_file"
    GetCommittedBlockLength "get_committed_block_length" ""
    FinalizeBlock "finalize_block" ""
    Echo "echo" ""
    GetContainerChecksumInfo "get_container_checksum_info" ""
    ReadBlock "read_block" "read_block"
}

/// Counts that only grow.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Requests and bytes of each of [`SERVED`].
    served: [(AtomicU64, AtomicU64); SERVED.len()],
    others: AtomicU64,
    refused: AtomicU64,
    damaged: AtomicU64,
}

impl Counts {
    /// A request came, with so many bytes of chunks.
    pub(super) fn request(&self, kind: pb::Type, bytes: usize) {
        match self.of(kind) {
            Some((requests, all)) => {
                requests.fetch_add(1, Ordering::Relaxed);
                all.fetch_add(bytes as u64, Ordering::Relaxed);
            }
            None => drop(self.others.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// An answer goes.
    pub(super) fn answer(&self, answer: &pb::ContainerCommandResponseProto) {
        if answer.result() != pb::Result::Success {
            self.refused.fetch_add(1, Ordering::Relaxed);
        } else if let Some((_, all)) = self.of(answer.cmd_type()) {
            let bytes = chunk::wire::data_bytes(answer) as u64;
            all.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// The scrubber found blocks that are not what was written.
    pub(super) fn damaged(&self, blocks: usize) {
        self.damaged.fetch_add(blocks as u64, Ordering::Relaxed);
    }

    fn of(&self, kind: pb::Type) -> Option<&(AtomicU64, AtomicU64)> {
        SERVED
            .iter()
            .zip(&self.served)
            .find_map(|((of, ..), counts)| (*of == kind).then_some(counts))
    }
}

/// The metrics of a chunk face, for whoever shows them.
pub struct ChunkMetrics(pub(super) Arc<Service>);

impl ChunkMetrics {
    /// All of them, as they are now.
    pub fn all(&self) -> Vec<Metric> {
        let counter = |name, count| Metric { name, value: Value::Counter(count) };
        let gauge =
            |name, count: usize| Metric { name, value: Value::Gauge(Number::Whole(count as i64)) };
        let (counts, store) = (&self.0.counts, &self.0.handler.store);
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let mut metrics = Vec::new();
        let mut all = load(&counts.others);
        for ((_, ops, bytes), (requests, of)) in SERVED.iter().zip(&counts.served) {
            all += load(requests);
            metrics.push(counter(ops, load(requests)));
            if !bytes.ends_with('_') {
                metrics.push(counter(bytes, load(of)));
            }
        }
        metrics.push(counter("storage_container_metrics_num_ops", all));
        metrics.push(counter("chunk_requests_refused", load(&counts.refused)));
        metrics.push(counter("chunk_blocks_damaged", load(&counts.damaged)));
        metrics.push(counter("chunk_log_syncs", store.sync_count()));
        metrics.push(gauge("chunk_containers", store.container_count()));
        metrics.push(gauge("chunk_open_files", store.open_file_count()));
        metrics
    }
}
