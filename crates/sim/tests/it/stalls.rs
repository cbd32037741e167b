//! The log disk, or the snapshot disk, of one of three members hangs or is slow while clients go on
//! writing. The tests bound how long clients wait for a write. Waits are in virtual time, so every
//! run of a seed has equal ones.

use sim::client::ClientConfig;
use sim::fault::{Disks, Fault, FaultMix, Whom};
use sim::{LaterOps, Options, Summary};

/// How long the disk hangs, in us.
const HANGS_US: u64 = 8_000_000;

/// The longest waits for a write while the leader's disk hangs.
struct Bounds {
    /// For clients of the other members, in us.
    at_others_us: u64,
    /// For clients of the member whose disk hangs, in us.
    at_leader_us: u64,
}

/// The bounds if the leader's disk hangs. Writes go on without that disk; after `DISK_STALL_MS` the
/// leader hands over, and its clients go to other members.
const LEADER_HANGS: Bounds = Bounds { at_others_us: 300_000, at_leader_us: 1_500_000 };

/// The longest wait of clients of the other members while a follower's disk hangs or is slow, in
/// us.
const FOLLOWER_HANGS_US: u64 = 300_000;

/// When the disk begins to hang, in us from the start.
const BEGINS_US: u64 = 2_500_000;

const SEEDS: std::ops::RangeInclusive<u64> = 1..=8;

/// Options for clients that write all the time, on connections that stay open.
fn writing(seed: u64, faults: Vec<(u64, Whom, Fault)>) -> Options {
    let mut options = Options::draw_ensemble(seed, 3);
    options.begins_unborn = false;
    options.member.attendance = Default::default();
    options.member.options.order.disk.snapshot_commands = 400;
    options.member.options.order.disk.snapshot_log =
        member::snapshot::log_rule::SnapshotLog::Unbounded;
    options.member.options.spaces.zk.tick_ms = 2_000;
    options.member.syncs_are_even = true;
    options.some_vanish = false;
    options.later_ops = LaterOps::default();
    options.builds = None;
    options.etcd = None;
    let client = ClientConfig {
        ops: 2_500,
        pipeline_max: 4,
        // A large value takes half a second through a small socket buffer, whatever the disk does.
        large_one_in: u64::MAX,
        timeout_ms: 40_000,
        think_us_max: 100_000,
        is_erratic: false,
    };
    options.clients = vec![client; 6];
    options.faults_us = faults.iter().map(|(wait_us, ..)| wait_us).sum::<u64>() + 20_000_000;
    options.faults = FaultMix::planned_for(faults);
    options
}

fn run(options: Options) -> Summary {
    sim::run(options).unwrap_or_else(|failure| panic!("{failure}"))
}

/// The longest wait of the struck member's clients, and of the other clients, in us.
fn waits_us(summary: &Summary) -> (u64, u64) {
    let struck = *summary.faults.struck.first().expect("a fault was for somebody");
    let others = (0..3).filter(|member| *member != struck);
    let of = |member: usize| summary.zk.write_wait_us_max[member];
    (of(struck), others.map(of).max().unwrap_or(0))
}

/// Runs one fault, checks that clients still worked when it ended, and returns the waits.
fn struck(seed: u64, whom: Whom, fault: Fault) -> (u64, u64) {
    let summary = run(writing(seed, vec![(BEGINS_US, whom, fault)]));
    let worked_us = summary.worked_us;
    assert!(worked_us > BEGINS_US + HANGS_US, "seed {seed}: over before, at {worked_us} us");
    waits_us(&summary)
}

#[test]
fn clients_write_on_while_the_log_disk_of_the_leader_hangs() {
    for seed in SEEDS {
        let hangs = Fault::HangingDisk { disks: Disks::Log, for_us: HANGS_US };
        let (at_leader_us, at_others_us) = struck(seed, Whom::Leader, hangs);
        assert!(at_others_us <= LEADER_HANGS.at_others_us, "seed {seed}: {at_others_us} us");
        assert!(at_leader_us <= LEADER_HANGS.at_leader_us, "seed {seed}: {at_leader_us} us");
    }
}

#[test]
fn clients_of_others_write_on_while_the_log_disk_of_a_follower_hangs_or_is_slow() {
    for fault in [
        Fault::HangingDisk { disks: Disks::Log, for_us: HANGS_US },
        Fault::SlowDisk { disks: Disks::Log, factor: 300, for_us: HANGS_US },
    ] {
        for seed in SEEDS {
            let (_, at_others_us) = struck(seed, Whom::Follower, fault);
            assert!(at_others_us <= FOLLOWER_HANGS_US, "seed {seed}, {fault:?}: {at_others_us} us");
        }
    }
}

/// The snapshots are on another disk, and no client waits for them.
#[test]
fn clients_write_on_while_the_snapshot_disk_of_the_leader_hangs() {
    for seed in SEEDS {
        let hangs = Fault::HangingDisk { disks: Disks::Snapshots, for_us: HANGS_US };
        let (at_leader_us, at_others_us) = struck(seed, Whom::Leader, hangs);
        let wait_us = at_leader_us.max(at_others_us);
        assert!(wait_us <= FOLLOWER_HANGS_US, "seed {seed}: {wait_us} us");
    }
}
