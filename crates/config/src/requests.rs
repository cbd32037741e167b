//! The limits on the sizes of requests and replies, and on the writes under way.

use member::limits::FRONT_COMMANDS_MAX;
use member::throttle::ThrottleConfig;

use super::report::Report;
use super::throttle::ThrottleDraft;

/// The default of `jute.maxbuffer`, one byte less than a MiB (`BinaryInputArchive.maxBuffer`).
const JUTE_BYTES_MAX_DEFAULT: u32 = 0xf_ffff;
/// The largest `jute.maxbuffer` that is accepted: a request must fit into one log entry.
pub(super) const JUTE_BYTES_MAX_MAX: u32 = 48 << 20;

const _: () = assert!((JUTE_BYTES_MAX_MAX as usize) < machine::limits::ENTRY_BYTES_MAX);
const _: () = assert!(JUTE_BYTES_MAX_DEFAULT <= JUTE_BYTES_MAX_MAX);

/// The limits on requests and replies of ZooKeeper's clients.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestsConfig {
    /// The largest request in bytes (`jute.maxbuffer`); at most [`JUTE_BYTES_MAX_MAX`].
    pub jute_bytes_max: u32,
    /// The most writes of all clients that may be unanswered at a time (the smaller of
    /// `request_throttle_max_requests` and `globalOutstandingLimit`). `None`: each connection
    /// runtime may have [`member::limits::FRONT_COMMANDS_MAX`].
    pub commands_in_flight_max: Option<u32>,
    /// How long a request may wait because of `commands_in_flight_max` before it is refused
    /// (`throttled_op_wait_time`), in ms; 0: for ever.
    pub throttled_op_wait_ms: u64,
    /// The largest reply to a read in bytes. A larger one is refused. `None` for no limit.
    pub reply_bytes_max: Option<u64>,
    /// The limits on the rate of connect requests, and on the total bytes of large requests
    /// (`connection_throttle_*`, `largeRequest*`).
    pub throttle: ThrottleConfig,
}

impl RequestsConfig {
    /// The unanswered writes that each of `fronts` connection runtimes may have; at least 1.
    pub fn commands_in_flight_of(&self, fronts: usize) -> usize {
        let share = self.commands_in_flight_max.map(|max| (max as usize / fronts).max(1));
        share.unwrap_or(FRONT_COMMANDS_MAX).min(FRONT_COMMANDS_MAX)
    }
}

/// The settings of requests that the sources have given so far.
#[derive(Debug, Default)]
pub(super) struct RequestsDraft {
    pub jute_bytes_max: Option<u32>,
    pub commands_in_flight_max: Option<u32>,
    pub throttled_op_wait_ms: u64,
    pub reply_bytes_max: Option<u64>,
    pub throttle: ThrottleDraft,
}

impl RequestsDraft {
    /// Limits the unanswered writes; of several limits the smallest counts.
    pub fn bound_commands(&mut self, max: u32) {
        let bound = self.commands_in_flight_max;
        self.commands_in_flight_max = Some(bound.map_or(max, |bound| bound.min(max)));
    }

    pub fn finish(self, report: &mut Report) -> RequestsConfig {
        RequestsConfig {
            jute_bytes_max: self.jute_bytes_max.unwrap_or(JUTE_BYTES_MAX_DEFAULT),
            commands_in_flight_max: self.commands_in_flight_max,
            throttled_op_wait_ms: self.throttled_op_wait_ms,
            reply_bytes_max: self.reply_bytes_max,
            throttle: self.throttle.settle(report),
        }
    }
}
