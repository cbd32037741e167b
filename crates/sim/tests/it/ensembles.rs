//! Ensembles of three and of five members from seeds; some seeds run twice, to compare.

use sim::Summary;

/// The seeds of three members in every test run; a nightly run takes many more.
const SEEDS_OF_THREE: std::ops::RangeInclusive<u64> = 1..=110;

/// The seeds of five members in every test run.
const SEEDS_OF_FIVE: std::ops::RangeInclusive<u64> = 1..=40;

fn check(seeds: impl Iterator<Item = (u64, usize)>) -> Vec<Summary> {
    let (mut summaries, mut failures) = (Vec::new(), Vec::new());
    for (seed, member_count) in seeds {
        match sim::run_ensemble(seed, member_count) {
            Ok(summary) => summaries.push(summary),
            Err(failure) => failures.push(failure.to_string()),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    summaries
}

/// The seeds pass, and together they reach everything that they should test: every fault, and
/// everything that depends on faults.
#[test]
fn ensembles_pass_and_reach_what_they_are_meant_to_reach() {
    let three = SEEDS_OF_THREE.map(|seed| (seed, 3));
    let summaries = check(three.chain(SEEDS_OF_FIVE.map(|seed| (seed, 5))));
    let faults: std::collections::BTreeSet<&str> =
        summaries.iter().flat_map(|it| it.faults.by_name.keys().map(String::as_str)).collect();
    for fault in [
        "BitRot",
        "BreakLinks",
        "ClockJump",
        "Copy",
        "Cut",
        "DiskFull",
        "EmptiedDisk",
        "HandOver",
        "HangingDisk",
        "IoError",
        "Kill",
        "OldCopy",
        "OtherMachine",
        "Partition",
        "Pause",
        "PowerLoss",
        "ReadError",
        "RefusedLinks",
        "Restore",
        "RoughLinks",
        "RunningRot",
        "SlowApply",
        "SlowDisk",
        "SlowLinks",
        "Stall",
        "Stop",
        "StopAt",
        "Stutter",
        "Suspend",
        "TornTail",
        "WallJump",
        "WrongState",
    ] {
        assert!(faults.contains(fault), "no {fault}: {faults:?}");
    }
    let count = |of: fn(&Summary) -> usize| summaries.iter().map(of).sum::<usize>();
    for (what, count) in [
        ("elections", count(|it| it.led_count - 1)),
        ("snapshots fetched", count(|it| it.snapshots.fetched as usize)),
        ("snapshots of followers", count(|it| it.snapshots.borrowed as usize)),
        ("members that found each other", count(|it| it.members.founded as usize)),
        ("members that joined", count(|it| it.members.joined as usize)),
        ("directories set aside", count(|it| it.members.set_aside as usize)),
        ("members that deceive", count(|it| it.faults.deceits as usize)),
        ("machines that took a place", count(|it| it.members.machine_changes as usize)),
        ("files that rot in use", count(|it| it.faults.running_rots as usize)),
        ("members found out", count(|it| it.members.condemned as usize)),
        ("recoveries of all acknowledged writes", count(|it| it.recoveries.complete)),
        ("recoveries that may lack some", count(|it| it.recoveries.incomplete)),
        ("recoveries that do lack some", count(|it| it.recoveries.lacking)),
        ("recoveries that need the end of a log", count(|it| it.recoveries.tails_needed)),
        ("unknown writes", count(|it| it.zk.unknown_done)),
        ("missed events", count(|it| it.zk.watches.missed)),
        ("expired sessions", count(|it| it.zk.expired)),
        ("connections that end behind a bad frame", count(|it| it.zk.ended)),
        ("writes of znodes with owners", count(|it| it.zk.owned)),
        ("writes that only an owner may do", count(|it| it.zk.denied)),
        ("connections that a throttle closed", count(|it| it.turned_away_count)),
        ("batches given up before a leader had them", count(|it| it.given_up.gone)),
        ("commands replaced by nothing", count(|it| it.given_up.replaced)),
        ("commands given up that took effect", count(|it| it.given_up.done)),
        ("events of watches that stay", count(|it| it.zk.watches.lasting)),
        ("watches that stay and are set again", count(|it| it.zk.watches.set_again)),
        ("reads without a leader", count(|it| it.zk.read_only)),
        ("requests that need a leader and have none", count(|it| it.zk.not_read_only)),
    ] {
        assert!(count > 0, "no {what}");
    }
    // An ensemble refuses restores, since the other members lack the snapshot.
    assert_eq!(count(|it| it.zk.restored), 0);
}

#[test]
fn seeds_that_found_something_pass() {
    let kept = include_str!("ensembles.txt").lines().filter(|line| !line.starts_with('#'));
    check(kept.map(|line| {
        let mut words = line.split(' ');
        let mut number = || words.next().unwrap().parse::<u64>().unwrap();
        (number(), number() as usize)
    }));
}

#[test]
fn one_seed_is_one_run() {
    for seed in 1..=10 {
        assert_eq!(sim::run_ensemble(seed, 3), sim::run_ensemble(seed, 3));
    }
    let trace = |member_count| sim::run_ensemble(1, member_count).unwrap().trace;
    assert_ne!(trace(3), trace(5));
}

/// Seeds of one member keep the meaning that they had before there were ensembles.
#[test]
fn an_ensemble_of_one_is_what_the_seeds_of_one_member_are() {
    for seed in 1..=5 {
        assert_eq!(sim::run_ensemble(seed, 1), sim::run_seed(seed));
    }
}
