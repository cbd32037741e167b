//! A member with a full disk refuses writes with an error and still serves reads. No client waits
//! for room, and no session is lost.

use sim::client::ClientConfig;
use sim::fault::{Fault, FaultMix};
use sim::script::script;
use sim::{Options, Summary};
use storage::wal::WalOptions;

/// How long the disk is full, in us: much longer than the clients need.
const FULL_FOR_US: u64 = 300_000_000;

/// Bytes per log segment: small, to keep the run short.
const SEGMENT_BYTES: u64 = 4 * 1024 * 1024;

/// Bytes of log that must still fit, as in the real server.
const ROOM_BYTES_MIN: u64 = 2 * 1024 * 1024;

/// Options for three clients that write more than fits, on a disk that is soon full.
fn full(seed: u64, more: Vec<(u64, Fault)>, full_for_us: u64) -> Options {
    let mut options = script(seed);
    // Only a full disk causes a snapshot.
    options.member.options.order.disk.snapshot_commands = u64::MAX;
    // Entries in flight always fit, as in the real server.
    options.member.wal = WalOptions { segment_bytes: SEGMENT_BYTES, ..WalOptions::default() };
    options.member.room_bytes_min = ROOM_BYTES_MIN;
    options.faults_us = full_for_us;
    let mut faults = vec![(20_000, Fault::DiskFull { bytes: 0, for_us: full_for_us })];
    faults.extend(more);
    options.faults = FaultMix::planned(faults);
    let client = ClientConfig {
        ops: 2_000,
        pipeline_max: 20,
        large_one_in: 4,
        timeout_ms: 4 * options.member.options.spaces.zk.tick_ms as u32,
        think_us_max: 20_000,
        is_erratic: false,
    };
    options.clients = vec![client.clone(), client.clone(), client];
    options
}

fn run(options: Options) -> Summary {
    sim::run(options).unwrap_or_else(|failure| panic!("{failure}"))
}

#[test]
fn clients_are_answered_while_the_disk_is_full() {
    let mut refused_count = 0;
    for seed in 1..=5 {
        let summary = run(full(seed, Vec::new(), FULL_FOR_US));
        refused_count += summary.zk.refused;
        let virtual_us = summary.virtual_us;
        assert!(virtual_us < FULL_FOR_US / 2, "seed {seed}: waits for room, {virtual_us} us");
    }
    // Only few writes are refused, since a snapshot soon frees log segments.
    assert!(refused_count > 20, "{refused_count}");
}

#[test]
fn sessions_outlive_a_full_disk_during_which_their_connections_break() {
    for seed in 1..=5 {
        let cut = Fault::Cut { one_in: 1 };
        let mut options = full(seed, vec![(5_000_000, cut)], 60_000_000);
        for client in &mut options.clients {
            client.ops = 4_000;
            client.think_us_max = 400_000;
        }
        let summary = run(options);
        assert!(summary.zk.refused > 0, "seed {seed}");
        assert_eq!(summary.zk.expired, 0, "seed {seed}");
    }
}

/// Options for a disk that only the server's own log fills, except for some blocks, when the first
/// snapshot is needed. Small sizes are counted exactly: the log leaves less room than a snapshot of
/// this state needs.
fn full_of_log(seed: u64, blocks: u64) -> Options {
    let full = Fault::DiskFull { bytes: blocks * 64 * 1024, for_us: FULL_FOR_US };
    let mut options = script(seed);
    // Only a full disk causes a snapshot.
    options.member.options.order.disk.snapshot_commands = u64::MAX;
    options.member.wal = WalOptions {
        segment_bytes: 256 * 1024,
        first_segment_bytes: 64 * 1024,
        spare_count: 1,
        ..WalOptions::default()
    };
    options.member.room_bytes_min = 48 * 1024;
    options.faults_us = FULL_FOR_US;
    options.faults = FaultMix::planned(vec![(2_000_000, full)]);
    let client = ClientConfig {
        ops: 2_000,
        pipeline_max: 20,
        large_one_in: 4,
        timeout_ms: 4 * options.member.options.spaces.zk.tick_ms as u32,
        think_us_max: 200_000,
        is_erratic: false,
    };
    options.clients = vec![client.clone(), client.clone(), client];
    options
}

#[test]
fn a_disk_full_of_log_gets_room_by_itself() {
    for seed in 1..=10 {
        let summary = run(full_of_log(seed, seed % 4));
        assert!(summary.virtual_us < FULL_FOR_US, "seed {seed}: there was room before the end");
        assert!(summary.snapshots.taken > 0, "seed {seed}: the disk was never full");
        let (written, refused) = (summary.zk.writes, summary.zk.refused);
        assert!(refused < written / 2, "seed {seed}: {written} writes, {refused} refused");
    }
}
