//! An ensemble continues to work without its leader: clients finish before the leader is back. And
//! a member that was away for long catches up.

use sim::fault::{Fault, FaultMix, Whom};
use sim::script::script;

/// Makes the leader unavailable while all clients work, for longer than the test may take.
fn check_goes_on(member_count: usize, fault: fn(u64) -> Fault) {
    const GONE_AT_US: u64 = 3_000_000;
    const GONE_FOR_US: u64 = 200_000_000;
    for seed in 1..=10 {
        let mut options = sim::Options::draw_ensemble(seed, member_count);
        options.begins_unborn = false;
        options.builds = None;
        options.etcd = None;
        let client = script(seed).clients[0].clone();
        options.clients = vec![client; 4];
        for client in &mut options.clients {
            client.ops = 400;
            client.think_us_max = 2_000_000;
            client.timeout_ms = 4 * options.member.options.spaces.zk.tick_ms as u32;
        }
        options.faults_us = GONE_FOR_US;
        options.some_vanish = false;
        let gone = vec![(GONE_AT_US, Whom::Leader, fault(GONE_FOR_US))];
        options.faults = FaultMix::planned_for(gone);
        match sim::run(options) {
            Ok(summary) => {
                let worked_us = summary.worked_us;
                assert!(worked_us > GONE_AT_US, "seed {seed}: over before it was gone");
                assert!(worked_us < GONE_FOR_US / 2, "seed {seed}: {worked_us} us");
            }
            Err(failure) => panic!("{failure}"),
        }
    }
}

#[test]
fn work_goes_on_while_the_leader_is_cut_off() {
    check_goes_on(3, |for_us| Fault::Partition { is_one_way: false, for_us });
    check_goes_on(5, |for_us| Fault::Partition { is_one_way: false, for_us });
}

#[test]
fn work_goes_on_while_nobody_hears_the_leader() {
    check_goes_on(3, |for_us| Fault::Partition { is_one_way: true, for_us });
}

#[test]
fn work_goes_on_while_the_leader_is_paused() {
    check_goes_on(3, |for_us| Fault::Pause { for_us });
}

/// A member is cut off, and all others restart, so that their logs in memory hold only what is
/// behind a snapshot.
#[test]
fn a_member_that_no_log_reaches_fetches_a_snapshot() {
    let mut fetched_count = 0;
    for seed in 1..=10 {
        let mut options = sim::Options::draw_ensemble(seed, 3);
        options.begins_unborn = false;
        options.builds = None;
        options.etcd = None;
        options.member.options.order.disk.snapshot_commands = 15;
        options.clients = vec![script(seed).clients[0].clone(); 4];
        for client in &mut options.clients {
            client.ops = 400;
            client.think_us_max = 4_000_000;
        }
        options.faults_us = 60_000_000;
        let cut = Fault::Partition { is_one_way: false, for_us: 50_000_000 };
        let others = Whom::Members(0b110);
        options.faults = FaultMix::planned_for(vec![
            (2_000_000, Whom::one(0), cut),
            (6_000_000, others, Fault::Kill),
            (4_000_000, others, Fault::PowerLoss),
        ]);
        match sim::run(options) {
            Ok(summary) => fetched_count += summary.snapshots.fetched,
            Err(failure) => panic!("{failure}"),
        }
    }
    assert!(fetched_count > 0);
}
