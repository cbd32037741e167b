//! Runs a short fixed load once for each of its disk operations, with a crash at that operation.
//! One test shows that these runs notice a disk whose syncs do nothing.

use sim::script::{script, stopped_at};

const SEED: u64 = 1;

/// The number of disk operations of the script without a crash.
fn op_count() -> u64 {
    let summary = sim::run(script(SEED)).expect("nothing goes wrong in it");
    assert!(summary.snapshots.taken > 0);
    assert!(summary.zk.writes > 10);
    assert!(summary.disk_ops < sim::limits::SCRIPT_OPS_MAX);
    summary.disk_ops
}

fn crash_everywhere(power_is_cut: bool) {
    for op in 0..op_count() {
        let result = stopped_at(SEED, op, power_is_cut);
        assert!(result.is_ok(), "at operation {op}: {result:?}");
    }
}

#[test]
fn a_loss_of_power_at_every_disk_operation_loses_nothing_acknowledged() {
    crash_everywhere(true);
}

#[test]
fn an_end_of_the_process_at_every_disk_operation_loses_nothing_acknowledged() {
    crash_everywhere(false);
}

/// With syncs that do nothing: how many power cuts were tried, and how many were noticed. It tries
/// operations in the second half of the script, where there is something to lose.
fn noticed(looks_inside: bool) -> (u64, u64) {
    let all = op_count();
    let (mut tried, mut noticed) = (0, 0);
    for op in (all / 2..all).step_by(3) {
        let mut options = script(SEED);
        options.syncs_lie = true;
        options.looks_inside = looks_inside;
        options.stop_at = Some((op, true));
        tried += 1;
        noticed += u64::from(sim::run(options).is_err());
    }
    (tried, noticed)
}

#[test]
fn a_server_that_never_syncs_does_not_pass() {
    let (tried, noticed) = noticed(true);
    assert_eq!(noticed, tried);
}

#[test]
fn clients_alone_notice_a_server_that_never_syncs() {
    let (tried, noticed) = noticed(false);
    assert_eq!(noticed, tried);
}

/// A killed process leaves the page cache intact, so it cannot show that a sync did nothing.
#[test]
fn a_server_that_never_syncs_survives_the_end_of_its_process() {
    let mut options = script(SEED);
    options.syncs_lie = true;
    options.stop_at = Some((op_count() / 2, false));
    let failure = sim::run(options).unwrap_err();
    // The run itself ends with a power cut, and that is noticed.
    assert!(!failure.reason.contains("does not become ready"), "{failure}");
}
