//! Ensembles whose members' builds know different levels: the level rises once every member knows
//! it, and a build that does not know it is refused or ends.

use crate::steady::{run, steady};
use member::membership::bootstrap::Attendance;
use sim::LevelCounts;
use sim::build::{Ask, Build, Builds};
use sim::fault::{Fault, FaultMix, Whom};

use Build::{New, Old};

/// Seeds of three members.
const SEEDS_OF_THREE: std::ops::RangeInclusive<u64> = 1_451..=1_740;
const SEEDS_OF_FIVE: std::ops::RangeInclusive<u64> = 1_001..=1_060;

/// Seeds with drawn builds pass, and together they reach everything that can happen to levels.
#[test]
fn mixed_builds_reach_what_they_are_meant_to_reach() {
    let three = SEEDS_OF_THREE.map(|seed| (seed, 3));
    let seeds = three.chain(SEEDS_OF_FIVE.map(|seed| (seed, 5)));
    let is_mixed = |(seed, members): &(u64, usize)| Builds::draw(*seed, *members).is_some();
    let (mut counts, mut failures) = (Vec::new(), Vec::new());
    for (seed, member_count) in seeds.filter(is_mixed) {
        match sim::run_ensemble(seed, member_count) {
            Ok(summary) => counts.push(summary.levels),
            Err(failure) => failures.push(failure.to_string()),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let count = |of: fn(&LevelCounts) -> u64| counts.iter().map(of).sum::<u64>();
    for (what, count) in [
        ("mixed builds", count(|it| it.are_builds_mixed.into())),
        ("newer builds", count(|it| it.upgrades)),
        ("older builds", count(|it| it.downgrades)),
        ("questions for a higher level", count(|it| it.asked)),
        ("questions refused as a member is absent", count(|it| it.refused_absent)),
        ("questions refused as a member does not know it", count(|it| it.refused_unknown)),
        ("questions refused as members change", count(|it| it.refused_changing)),
        ("levels raised", count(|it| it.raised_us.is_some().into())),
        ("levels not raised", count(|it| it.raised_us.is_none().into())),
        ("links refused for a level", count(|it| it.links_refused)),
        ("joiners refused for a level", count(|it| it.joiners_refused)),
        ("starts that are too old", count(|it| it.too_old_starts)),
        ("snapshots of newer builds", count(|it| it.snapshots_to_old)),
        ("snapshots of older builds", count(|it| it.snapshots_to_new)),
    ] {
        assert!(count > 0, "no {what}");
    }
}

/// A majority begins the ensemble, so the third server has only a placeholder, which never votes
/// and does not count for a raise.
#[test]
fn a_placeholder_of_an_absent_server_does_not_hinder_a_raise() {
    let mut refused_count = 0;
    for (seed, third) in (1..=10).flat_map(|seed| [(seed, New), (seed, Old)]) {
        let mut options = steady(seed, 3, Vec::new());
        options.begins_unborn = true;
        options.member.attendance = Attendance::Majority;
        let absent = Fault::Partition { is_one_way: false, for_us: 15_400_000 };
        options.faults = FaultMix::planned_for(vec![(1, Whom::one(2), absent)]);
        options.faults_us = 40_000_000;
        options.builds =
            Some(Builds::planned(vec![New, New, third], vec![(15_000_000, Ask::Client(1))]));
        let summary = run(options);
        let raised_us = summary.levels.raised_us;
        assert!(raised_us.is_some_and(|at_us| at_us < 18_000_000), "seed {seed}: {raised_us:?}");
        assert_eq!((summary.members.founded, summary.members.joined), (2, 1), "seed {seed}");
        // An operator may install a new build before the partition is over.
        let refused = summary.levels.joiners_refused;
        assert!(refused == 0 || third == Old, "seed {seed}: {refused} times");
        refused_count += refused;
    }
    assert!(refused_count > 0, "no old build was refused");
}

/// A single old build holds the level down until it is replaced.
#[test]
fn a_level_is_raised_soon_after_the_last_old_build_is_gone() {
    for seed in 1..=10 {
        let mut options = steady(seed, 3, Vec::new());
        options.faults_us = 10_000_000;
        let old = seed as usize % 3;
        let first = (0..3).map(|at| if at == old { Old } else { New }).collect();
        let new = (old + 1) % 3;
        options.builds = Some(Builds::planned(first, vec![(5_000_000, Ask::Client(new))]));
        let counts = run(options).levels;
        let raised_us = counts.raised_us.expect("all have new builds at the end");
        assert!(raised_us > 5_000_000, "seed {seed}: {raised_us}");
        assert_eq!(counts.upgrades, 1, "seed {seed}");
        assert_eq!((counts.too_old, counts.too_old_starts), (0, 0), "seed {seed}");
    }
}

/// All processes end during a raise or just after it, and one server starts with an old build: it
/// ends at its start, or when it learns that the raise is committed.
#[test]
fn a_server_that_goes_back_behind_a_raise_ends_and_keeps_its_directory() {
    let (mut too_old, mut too_old_starts) = (0, 0);
    for seed in 1..=100 {
        // Which of the two happens depends on a few ms.
        if seed > 20 && too_old > 0 && too_old_starts > 0 {
            return;
        }
        let kill = (5_000_000 + 2_000 * (1 + seed % 20), Whom::Members(0b111), Fault::Kill);
        let mut options = steady(seed, 3, vec![kill]);
        options.faults_us = 20_000_000;
        let asks = vec![(5_000_000, Ask::OldBuild(2)), (5_000_000, Ask::Operator)];
        options.builds = Some(Builds::planned(vec![New; 3], asks));
        let summary = run(options);
        assert_eq!((summary.members.joined, summary.members.set_aside), (0, 0), "seed {seed}");
        assert_eq!(summary.levels.downgrades, 1, "seed {seed}");
        assert!(summary.levels.raised_us.is_some(), "seed {seed}");
        too_old += summary.levels.too_old;
        too_old_starts += summary.levels.too_old_starts;
    }
    assert!(too_old > 0 && too_old_starts > 0, "{too_old}, {too_old_starts}");
}

/// A level rises only on request. Here the first request is the run's own at its end.
#[test]
fn a_level_that_nobody_asked_for_is_raised_at_the_end_only() {
    let mut options = steady(1, 3, vec![(20_000_000, Whom::Leader, Fault::Kill)]);
    options.builds = Some(Builds::planned(vec![New; 3], Vec::new()));
    let counts = run(options).levels;
    assert!(counts.raised_us.is_some_and(|at_us| at_us > 20_000_000));
    let mut options = steady(1, 3, Vec::new());
    let builds = Builds::planned(vec![New, Old, New], Vec::new());
    options.builds = Some(Builds { end_new: false, ..builds });
    assert_eq!(run(options).levels.raised_us, None);
}
