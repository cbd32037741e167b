//! How large requests and replies may be, and how many clients may ask for at once.

use member::limits::FRONT_COMMANDS_MAX;
use member::throttle::ThrottleConfig;

use super::report::Report;
use super::throttle::ThrottleDraft;

/// `BinaryInputArchive.maxBuffer`: one byte less than a mebibyte.
const JUTE_BYTES_MAX_DEFAULT: u32 = 0xf_ffff;
/// The largest `jute.maxbuffer` we take; a request must fit into one entry of the log.
pub(super) const JUTE_BYTES_MAX_MAX: u32 = 48 << 20;

const _: () = assert!((JUTE_BYTES_MAX_MAX as usize) < machine::limits::ENTRY_BYTES_MAX);
const _: () = assert!(JUTE_BYTES_MAX_DEFAULT <= JUTE_BYTES_MAX_MAX);

/// The bounds on what clients ask for.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestsConfig {
    /// The largest request (`jute.maxbuffer`); at most [`JUTE_BYTES_MAX_MAX`].
    pub jute_bytes_max: u32,
    /// Writes of all clients that are not yet answered (`request_throttle_max_requests`,
    /// `globalOutstandingLimit`; the smaller one); none: [`member::limits::FRONT_COMMANDS_MAX`] for
    /// each connection runtime.
    pub commands_in_flight_max: Option<u32>,
    /// Requests that wait longer because of that are refused (`throttled_op_wait_time`); 0: never.
    pub throttled_op_wait_ms: u64,
    /// Bytes of a reply to a read; a larger one is refused. None: no bound.
    pub reply_bytes_max: Option<u64>,
    /// How many may ask for a session in a time, and what large requests may take together
    /// (`connection_throttle_*`, `largeRequest*`).
    pub throttle: ThrottleConfig,
}

impl RequestsConfig {
    /// The share of each of `fronts` connection runtimes in the writes that are not yet answered.
    pub fn commands_in_flight_of(&self, fronts: usize) -> usize {
        let share = self.commands_in_flight_max.map(|max| (max as usize / fronts).max(1));
        share.unwrap_or(FRONT_COMMANDS_MAX).min(FRONT_COMMANDS_MAX)
    }
}

/// The settings that the sources have given so far.
#[derive(Debug, Default)]
pub(super) struct RequestsDraft {
    pub jute_bytes_max: Option<u32>,
    pub commands_in_flight_max: Option<u32>,
    pub throttled_op_wait_ms: u64,
    pub reply_bytes_max: Option<u64>,
    pub throttle: ThrottleDraft,
}

impl RequestsDraft {
    /// Takes a bound of the writes under way: of several the smallest counts.
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
