//! Runs in which an operator restores newest and older snapshots while other faults come.

use sim::fault::{Fault, FaultMix};
use sim::script::script;
use sim::{Failure, Options, Summary};
use workload::generate::Random;

/// The seeds in every test run.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=150;

fn run(seed: u64) -> Result<Summary, Failure> {
    let faults = FaultMix::restoring(Random::new(seed));
    sim::run(Options { faults, ..Options::draw(seed) })
}

#[test]
fn what_a_snapshot_brings_back_is_what_was_there() {
    let (mut failures, mut restored, mut expired) = (Vec::new(), 0, 0);
    for seed in SEEDS {
        match run(seed) {
            Ok(summary) => {
                restored += summary.zk.restored;
                expired += summary.zk.expired;
            }
            Err(failure) => failures.push(format!("seed {seed}: {failure}")),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(restored > 100 && expired > 0, "{restored} restored, {expired} expired");
}

#[test]
fn a_crash_at_every_disk_operation_of_a_restore_leaves_one_state_or_the_other() {
    // The first restore keeps a snapshot elsewhere; the second one happens while many commands are
    // in flight.
    let restoring = || {
        let mut options = script(1);
        options.faults =
            FaultMix::planned(vec![(150_000, Fault::Restore), (100_000, Fault::Restore)]);
        options
    };
    let whole = sim::run(restoring()).expect("nothing goes wrong in it");
    assert!(whole.zk.restored > 0, "{whole:?}");
    for power_is_cut in [true, false] {
        for op in 0..whole.disk_ops {
            let mut options = restoring();
            options.stop_at = Some((op, power_is_cut));
            let result = sim::run(options);
            assert!(result.is_ok(), "at operation {op}: {result:?}");
        }
    }
}
