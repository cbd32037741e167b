//! A short fixed load that tests repeat, with a crash at a different disk operation each time.

use crate::client::ClientConfig;
use crate::fault::FaultMix;
use crate::simulation::{LaterOps, Options, Summary};
use crate::{Failure, run};

/// The options of the load: two clients with 25 operations each. Segments and snapshots are so
/// small that every kind of disk operation of the log and of snapshots occurs.
pub fn script(seed: u64) -> Options {
    let mut options = Options::draw(seed);
    options.etcd = None;
    options.faults = FaultMix::none();
    options.some_vanish = false;
    options.later_ops = LaterOps::default();
    options.member.front_count = 2;
    options.member.options.order.disk.snapshot_commands = 15;
    options.member.options.order.disk.snapshot_log =
        member::snapshot::log_rule::SnapshotLog::Unbounded;
    let client = ClientConfig {
        ops: 25,
        pipeline_max: 6,
        large_one_in: 50,
        timeout_ms: 4 * options.member.options.spaces.zk.tick_ms as u32,
        think_us_max: 20_000,
        is_erratic: false,
    };
    options.clients = vec![client.clone(), client];
    options
}

/// Runs the load and stops everything at the disk's operation number `op`: by a power cut, or by
/// killing the process only.
///
/// # Errors
/// Like [`run`].
pub fn stopped_at(seed: u64, op: u64, power_is_cut: bool) -> Result<Summary, Failure> {
    let mut options = script(seed);
    options.stop_at = Some((op, power_is_cut));
    run(options)
}
