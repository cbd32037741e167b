//! The state that the threads of the chunk face share, and the state that the streams of one
//! connection share.

use std::sync::Arc;

use chunk::wire::Handler;
use grpc::{Kind, Method, Server, Share, Shares};
use storage::disk::RealDisk;

use super::admission::Addresses;
use super::limits::Limits;
use super::log_disk::LogDisk;
use super::metrics::Counts;
use crate::logging::{REFUSALS_MAX, Seldom};

/// Failures of the store that no client caused. Each client learns of its own.
static FAILURES: Seldom = Seldom::new(REFUSALS_MAX, "requests of the chunk store failed");

/// Logs a failure of the store that no client caused.
pub(super) fn log_failure(what: &str) {
    FAILURES.log(|| tracing::warn!("chunk store: {what}"));
}

/// The only method of a datanode.
pub(super) const METHODS: [Method<()>; 1] = [Method {
    service: "hadoop.hdds.datanode.XceiverClientProtocolService",
    name: "send",
    kind: Kind::BidiStreaming,
    method: (),
}];

/// The state that the threads of the face share.
pub(super) struct Service {
    pub(super) handler: Handler<RealDisk>,
    pub(super) limits: Limits,
    pub(super) requests: Arc<Share>,
    pub(super) answers: Arc<Share>,
    pub(super) grpc: Server<()>,
    pub(super) addresses: Arc<Addresses>,
    pub(super) counts: Counts,
    /// The server's log, if it is on the store's disk.
    pub(super) log: Option<LogDisk>,
}

/// The state that the streams of a connection share.
pub(super) struct ChunkConnection {
    pub(super) service: Arc<Service>,
    /// The shares that room for answers comes from.
    pub(super) answers: Shares,
}
