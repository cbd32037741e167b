//! Whole runs from seeds: the first ones, those that once found a bug, and some twice, to compare.

/// The seeds in every test run; a nightly run takes many more.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=400;

fn check(seeds: impl Iterator<Item = u64>) {
    let failures: Vec<String> = seeds
        .filter_map(|seed| sim::run_seed(seed).err())
        .map(|failure| failure.to_string())
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn hundreds_of_seeds_pass() {
    check(SEEDS);
}

#[test]
fn seeds_that_found_something_pass() {
    let kept = include_str!("seeds.txt").lines().filter(|line| !line.starts_with('#'));
    check(kept.map(|line| {
        let seed = line.split(' ').next().unwrap();
        seed.parse().unwrap()
    }));
}

#[test]
fn one_seed_is_one_run() {
    for seed in 1..=20 {
        assert_eq!(sim::run_seed(seed), sim::run_seed(seed));
    }
    let trace = |seed| sim::run_seed(seed).unwrap().trace;
    assert_ne!(trace(1), trace(2));
}

/// The seeds together reach everything that they should test: every fault, and everything that
/// depends on faults.
#[test]
fn the_seeds_reach_what_they_are_meant_to_reach() {
    let mut faults = std::collections::BTreeSet::new();
    let (mut unknown, mut missed, mut refused, mut expired, mut snapshots) = (0, 0, 0, 0, 0);
    let (mut gone, mut over_quota, mut ended) = (0, 0, 0);
    let (mut throttled, mut turned_away, mut private, mut hidden) = (0, 0, 0, 0);
    let (mut lasting, mut lasting_again, mut owned, mut denied) = (0, 0, 0, 0);
    for summary in (1..=150).map(|seed| sim::run_seed(seed).unwrap()) {
        faults.extend(summary.faults.by_name.into_keys());
        unknown += summary.zk.unknown_done;
        missed += summary.zk.watches.missed;
        refused += summary.zk.refused;
        expired += summary.zk.expired;
        snapshots += summary.snapshots.taken;
        gone += summary.zk.gone;
        over_quota += summary.zk.over_quota;
        ended += summary.zk.ended;
        throttled += summary.zk.throttled;
        turned_away += summary.turned_away_count;
        owned += summary.zk.owned;
        denied += summary.zk.denied;
        lasting += summary.zk.watches.lasting;
        lasting_again += summary.zk.watches.set_again;
        private += summary.zk.watches.private;
        hidden += summary.zk.watches.hidden;
    }
    let all = [
        "ClockJump",
        "Cut",
        "DiskFull",
        "IoError",
        "Kill",
        "Pause",
        "PowerLoss",
        "SlowApply",
        "SlowDisk",
        "Stall",
        "StopAt",
        "Stutter",
        "Suspend",
        "WallJump",
    ];
    assert!(all.iter().all(|name| faults.contains(*name)), "{faults:?}");
    for (what, count) in [
        ("unknown writes", unknown),
        ("missed events", missed),
        ("refused writes", refused),
        ("expired sessions", expired),
        ("snapshots", snapshots as usize),
        ("znodes that went by themselves", gone),
        ("writes over a quota", over_quota),
        ("connections that end behind a bad frame", ended),
        ("writes of znodes with owners", owned),
        ("writes that only an owner may do", denied),
        ("requests that waited for too long", throttled),
        ("connections that a throttle closed", turned_away),
        ("events of watches that stay", lasting),
        ("watches that stay and are set again", lasting_again),
        ("events that only some users may see", private),
        ("events that are kept from a watcher", hidden),
    ] {
        assert!(count > 0, "no {what}");
    }
}
