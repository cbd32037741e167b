//! The state that all threads of the chunk face share, and the state that the streams of one
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

/// Limits the log lines about failures of the store that no client caused. The client of the
/// request always learns of the failure.
static FAILURES: Seldom = Seldom::new(REFUSALS_MAX, "requests of the chunk store failed");

/// Logs a failure of the store that no client caused, unless too many were logged recently.
pub(super) fn log_failure(what: &str) {
    FAILURES.log(|| tracing::warn!("chunk store: {what}"));
}

/// The only gRPC method of a datanode.
pub(super) const METHODS: [Method<()>; 1] = [Method {
    service: "hadoop.hdds.datanode.XceiverClientProtocolService",
    name: "send",
    kind: Kind::BidiStreaming,
    method: (),
}];

/// The state that all threads of the face share.
pub(super) struct Service {
    pub(super) handler: Handler<RealDisk>,
    pub(super) limits: Limits,
    pub(super) requests: Arc<Share>,
    pub(super) answers: Arc<Share>,
    pub(super) grpc: Server<()>,
    pub(super) addresses: Arc<Addresses>,
    pub(super) counts: Counts,
    /// `Some` if the server's log is on the store's disk.
    pub(super) log: Option<LogDisk>,
}

/// The state that the streams of one connection share.
pub(super) struct ChunkConnection {
    pub(super) service: Arc<Service>,
    /// The bounds on the memory for the connection's answers.
    pub(super) answers: Shares,
}
