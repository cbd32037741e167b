//! The state that the threads of the chunk face share, and the state that the streams of one
//! connection share.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use chunk::wire::Handler;
use storage::disk::RealDisk;

use super::admission::Addresses;
use super::limits::{Limits, REPORT_INTERVAL};
use super::metrics::Counts;
use crate::grpc::{Kind, Method, Server, Share, Shares};

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
    pub(super) failures: Failures,
    pub(super) counts: Counts,
}

/// The state that the streams of a connection share.
pub(super) struct Client {
    pub(super) service: Arc<Service>,
    /// The shares that room for answers comes from.
    pub(super) answers: Shares,
}

/// Failures of the store that no client caused. Each client learns of its own; the log has one a
/// second, with the count of the others.
#[derive(Default)]
pub(super) struct Failures(Mutex<(Option<Instant>, u64)>);

impl Failures {
    pub(super) fn report(&self, what: &str) {
        let now = Instant::now();
        let mut told = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let (told_at, not_told) = &mut *told;
        if told_at.is_some_and(|at| now.duration_since(at) < REPORT_INTERVAL) {
            *not_told += 1;
            return;
        }
        *told_at = Some(now);
        match std::mem::take(not_told) {
            0 => tracing::warn!("chunk store: {what}"),
            count => tracing::warn!("chunk store: {what}; {count} others since the last"),
        }
    }
}
