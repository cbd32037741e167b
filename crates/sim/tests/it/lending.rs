//! Members that have fallen off the leader's log get snapshots from followers (the lenders),
//! whatever happens to these followers.

use crate::steady::{run, steady};
use replica::LogMemory;
use sim::Options;
use sim::fault::{Disks, Fault, Whom};

/// Like [`steady`], with so little log in memory that a member that returns without a directory
/// needs a snapshot.
fn forgetful(seed: u64, member_count: usize, faults: Vec<(u64, Whom, Fault)>) -> Options {
    let mut options = steady(seed, member_count, faults);
    options.member.options.order.log_memory =
        LogMemory { bytes_max: 0, away_bytes_max: 0, ..LogMemory::default() };
    options
}

/// A member loses its directory, and then, every 20 ms, the fault strikes each follower that is
/// sending a snapshot.
fn while_lending(fault: Fault) -> Vec<(u64, Whom, Fault)> {
    let mut faults = vec![(8_000_000, Whom::one(0), Fault::EmptiedDisk)];
    faults.extend(vec![(20_000, Whom::Lender, fault); 500]);
    faults
}

#[test]
fn whoever_lost_its_directory_has_its_state_from_followers() {
    let (mut fetched, mut borrowed) = (0, 0);
    for seed in 1..=10 {
        let lost = |member| (8_000_000, Whom::one(member), Fault::EmptiedDisk);
        let summary = run(forgetful(seed, 3, (0..3).map(lost).collect()));
        // If a leader learns late that a link leads to a lost directory, the next server cannot
        // lose its own yet.
        assert!(summary.snapshots.fetched >= 1, "seed {seed}");
        fetched += summary.snapshots.fetched;
        borrowed += summary.snapshots.borrowed;
    }
    // A leader that does not know another member yet sends its own snapshot.
    assert!(fetched >= 30, "{fetched}");
    assert!(10 * borrowed >= 9 * fetched, "{borrowed} of {fetched}");
}

#[test]
fn a_lender_that_dies_is_replaced() {
    let mut death_count = 0;
    for seed in 1..=10 {
        let summary = run(forgetful(seed, 5, while_lending(Fault::Kill)));
        assert!(summary.snapshots.fetched > 0, "seed {seed}");
        // Each member starts once more at the end of the run, and one start follows the lost
        // directory.
        death_count += summary.members.starts - 2 * 5 - 1;
    }
    assert!(death_count >= 10, "{death_count}");
}

#[test]
fn a_lender_whose_disk_hangs_or_is_full_or_that_is_cut_off_keeps_nobody_waiting() {
    let for_us = 60_000_000;
    for fault in [
        Fault::HangingDisk { disks: Disks::Both, for_us },
        Fault::DiskFull { bytes: 0, for_us },
        Fault::Pause { for_us },
        Fault::Partition { is_one_way: true, for_us },
    ] {
        for seed in 1..=4 {
            let summary = run(forgetful(seed, 5, while_lending(fault)));
            assert!(summary.snapshots.fetched > 0, "seed {seed}, {fault:?}");
        }
    }
}

/// A bit flips in the snapshot that the lender reads. No member installs the damaged snapshot.
#[test]
fn a_lender_whose_snapshot_rots_misleads_nobody() {
    for disks in [Disks::Snapshots, Disks::Log] {
        for seed in 1..=4 {
            let summary = run(forgetful(seed, 5, while_lending(Fault::RunningRot { disks })));
            assert!(summary.snapshots.fetched > 0, "seed {seed}, {disks:?}");
        }
    }
}
