//! Machines that take turns in a server's place, stutter, are suspended, or have two disks.

use crate::steady::run;
use sim::Options;
use sim::fault::{Disks, Fault, Whom};

/// Like [`crate::steady::steady`], with clients that work five times as long.
fn steady(seed: u64, member_count: usize, faults: Vec<(u64, Whom, Fault)>) -> Options {
    let mut options = crate::steady::steady(seed, member_count, faults);
    for client in &mut options.clients {
        client.ops = 2_000;
        client.think_us_max = 6_000_000;
    }
    options
}

/// The first machine is frozen while the second one has its place for so long that the other
/// members remove the first. Then the first one continues with what it was about to submit.
#[test]
fn a_machine_that_was_replaced_comes_back_and_its_clients_are_answered() {
    let mut changes = 0;
    for seed in 1..=20 {
        let other = |wait_us| (wait_us, Whom::one(seed as usize % 3), Fault::OtherMachine);
        let summary = run(steady(seed, 3, vec![other(5_000_000), other(30_000_000)]));
        changes += summary.members.machine_changes;
    }
    assert!(changes >= 30, "{changes} of 40");
}

/// The server's place goes to the second machine and back to the first, three times.
#[test]
fn two_machines_have_the_place_of_one_server_in_turn() {
    for seed in 1..=10 {
        let other = |wait_us| (wait_us, Whom::one(seed as usize % 3), Fault::OtherMachine);
        let changes = std::iter::once(other(5_000_000)).chain(vec![other(25_000_000); 5]);
        let summary = run(steady(seed, 3, changes.collect()));
        assert!(
            summary.members.machine_changes >= 4,
            "seed {seed}: {}",
            summary.members.machine_changes
        );
    }
}

/// A leader that is cut off runs for 100 ms in every 2.5 s, while the other members expire its
/// clients' sessions.
#[test]
fn a_leader_that_is_cut_off_and_stutters_answers_nobody_for_long() {
    let mut expired = 0;
    for seed in 1..=10 {
        let for_us = 90_000_000;
        let stutter = Fault::Stutter { run_us: 100_000, period_us: 2_500_000, for_us };
        let cut = Fault::Partition { is_one_way: false, for_us };
        let mut options =
            steady(seed, 3, vec![(5_000_000, Whom::Leader, cut), (1_000, Whom::Leader, stutter)]);
        options.faults_us = for_us;
        for client in &mut options.clients {
            // The clients hardly ever write: a client that writes notices that it gets no answer.
            client.ops = 20;
            client.think_us_max = 90_000_000;
            client.timeout_ms = 10 * options.member.options.spaces.zk.tick_ms as u32;
        }
        expired += run(options).zk.expired;
    }
    assert!(expired > 0);
}

/// A suspended machine's clock stopped, so at first its process believes that no time has passed.
#[test]
fn a_member_that_was_suspended_answers_for_no_session_that_is_over() {
    for seed in 1..=10 {
        let for_us = 30_000_000;
        let one = Whom::one(seed as usize % 3);
        let mut options = steady(seed, 3, vec![(5_000_000, one, Fault::Suspend { for_us })]);
        options.faults_us = 60_000_000;
        for client in &mut options.clients {
            client.ops = 20;
            client.think_us_max = 60_000_000;
            client.timeout_ms = 4 * options.member.options.spaces.zk.tick_ms as u32;
        }
        run(options);
    }
}

/// Snapshots are taken while the log's disk hangs, and the log is written while the snapshots' disk
/// hangs.
#[test]
fn the_log_and_the_snapshots_hang_and_are_slow_apart() {
    for disks in [Disks::Log, Disks::Snapshots] {
        for seed in 1..=8 {
            let slow = Fault::SlowDisk { disks, factor: 1_000, for_us: 10_000_000 };
            let hangs = Fault::HangingDisk { disks, for_us: 6_000_000 };
            let all = Whom::Members(0b111);
            let mut options = steady(
                seed,
                3,
                vec![
                    (4_000_000, Whom::one(seed as usize % 3), hangs),
                    (10_000_000, Whom::Leader, hangs),
                    (10_000_000, all, slow),
                ],
            );
            options.member.options.order.disk.snapshot_commands = 15;
            options.clients.iter_mut().for_each(|client| client.ops = 400);
            run(options);
        }
    }
}

/// Clients that reconnect again and again leave no deadlines behind on any member.
#[test]
fn members_keep_no_deadlines_of_sessions_that_came_back() {
    for seed in 1..=5 {
        let cut = (300_000, Whom::one(0), Fault::Cut { one_in: 1 });
        let mut options = steady(seed, 3, vec![cut; 200]);
        for client in &mut options.clients {
            client.timeout_ms = 20 * options.member.options.spaces.zk.tick_ms as u32;
        }
        run(options);
    }
}
