//! Members lose their disk's content, or deceive the others about what they have, and return to
//! their server's place. Leaders hand over on request. Members that never met find each other.

use crate::steady::{run, steady};
use member::membership::bootstrap::Attendance;
use replica::LogMemory;
use sim::Summary;
use sim::fault::{Fault, Whom};

/// Every run checks that all members vote at the end. A member whose process ends right after its
/// birth is not counted as one that has lost its directory, since its next start finds it born.
#[test]
fn every_member_in_turn_loses_its_directory_and_comes_back() {
    let mut joined = 0;
    for seed in 1..=10 {
        let lost = |member| (8_000_000, Whom::one(member), Fault::EmptiedDisk);
        joined += run(steady(seed, 3, (0..3).map(lost).collect())).members.joined;
    }
    assert!((27..=30).contains(&joined), "{joined} of 30");
}

#[test]
fn two_of_five_lose_their_directories_at_once_and_come_back() {
    for seed in 1..=5 {
        let two = Whom::Members(0b1010);
        let summary = run(steady(seed, 5, vec![(5_000_000, two, Fault::EmptiedDisk)]));
        assert_eq!(summary.members.joined, 2, "seed {seed}");
    }
}

#[test]
fn a_directory_that_is_corrupt_is_set_aside_and_its_server_comes_back() {
    let mut set_aside = 0;
    for seed in 1..=20 {
        let rots = (10_000_000, Whom::one(seed as usize % 3), Fault::BitRot);
        let summary = run(steady(seed, 3, vec![rots]));
        // Not counted: a process that ends right after it set its directory aside, or right after
        // its birth.
        let (joined, lost) = (summary.members.joined, summary.members.set_aside);
        assert!(joined.abs_diff(lost) <= 1, "seed {seed}: {joined} of {lost}");
        set_aside += lost;
    }
    assert!(set_aside >= 10, "{set_aside}");
}

/// Runs these seeds with one member that deceives the others at a time when all is well.
fn deceived(seeds: std::ops::RangeInclusive<u64>, deceit: Fault) -> Vec<Summary> {
    seeds
        .map(|seed| {
            let whom = Whom::one(seed as usize % 3);
            let all = Whom::Members(0b111);
            let mut options =
                steady(seed, 3, vec![(3_000_000, all, Fault::Copy), (3_000_000, whom, deceit)]);
            options.faults_us = 60_000_000;
            options.member.options.order.log_memory = LogMemory::default();
            run(options)
        })
        .collect()
}

fn sum(summaries: &[Summary], of: fn(&Summary) -> u64) -> u64 {
    summaries.iter().map(of).sum()
}

/// Checks that a detected member joins again with a new member id, and that no other member joins.
fn check_found_out(summaries: &[Summary], deceit_min: u64, condemned_min: u64) {
    let deceits = sum(summaries, |it| it.faults.deceits);
    let condemned = sum(summaries, |it| it.members.condemned);
    assert!(deceits >= deceit_min, "{deceits} deceits");
    assert!(condemned >= condemned_min, "{condemned} found out");
    for summary in summaries {
        assert!(summary.members.joined <= summary.faults.deceits, "seed {}", summary.seed);
    }
    // A member whose process ends right after its birth is not counted.
    let joined = sum(summaries, |it| it.members.joined);
    assert!(joined >= condemned * 8 / 10, "{joined} of {condemned}");
}

#[test]
fn a_member_on_an_old_copy_of_its_directory_is_found_out_and_comes_back() {
    check_found_out(&deceived(1..=12, Fault::OldCopy), 10, 6);
}

#[test]
fn a_member_whose_last_write_is_damaged_is_found_out_and_comes_back() {
    check_found_out(&deceived(1..=16, Fault::TornTail), 5, 3);
}

#[test]
fn a_member_whose_state_differs_is_found_out_and_comes_back() {
    let summaries = deceived(1..=8, Fault::WrongState);
    let deceits = sum(&summaries, |it| it.faults.deceits);
    check_found_out(&summaries, 6, deceits);
}

#[test]
fn a_majority_never_loses_what_it_has() {
    // The second member is spared, since the first one is not replaced yet.
    let lost = |member| (1_000, Whom::one(member), Fault::EmptiedDisk);
    let summary = run(steady(1, 3, (0..3).map(lost).collect()));
    assert_eq!(summary.members.joined, 1);
}

#[test]
fn a_leader_that_is_asked_to_hands_over() {
    for seed in 1..=10 {
        let asked = (3_000_000, Whom::Leader, Fault::HandOver { to: None });
        let summary = run(steady(seed, 3, vec![asked; 5]));
        assert!(summary.led_count >= 5, "seed {seed}: {} terms", summary.led_count);
    }
}

#[test]
fn a_majority_begins_and_the_others_come_later() {
    let (mut founded, mut joined) = (0, 0);
    for seed in 1..=20 {
        let mut options = steady(seed, 3, Vec::new());
        options.begins_unborn = true;
        options.member.attendance = Attendance::Majority;
        let summary = run(options);
        assert_eq!(summary.members.founded + summary.members.joined, 3, "seed {seed}");
        founded += summary.members.founded;
        joined += summary.members.joined;
    }
    assert!(joined > 0 && founded >= 40, "{founded}, {joined}");
}

#[test]
fn any_majority_begins_and_the_others_come_later() {
    let (mut founded, mut joined) = (0, 0);
    for (seed, member_count) in (1..=20).flat_map(|seed| [(seed, 3), (seed, 5)]) {
        let mut options = steady(seed, member_count, Vec::new());
        options.begins_unborn = true;
        options.member.attendance = Attendance::AnyMajority;
        let summary = run(options);
        let born = summary.members.founded + summary.members.joined;
        assert_eq!(born, member_count as u64, "seed {seed}");
        founded += summary.members.founded;
        joined += summary.members.joined;
    }
    assert!(joined > 0 && founded >= 100, "{founded}, {joined}");
}

/// A process ends at each disk operation of the agreement on a birth in turn, sometimes with a
/// power cut.
#[test]
fn an_agreement_goes_on_wherever_a_process_ends() {
    for (seed, op) in (1..=4).flat_map(|seed| (1..=40).map(move |op| (seed, op))) {
        let mut options = steady(seed, 3, Vec::new());
        options.begins_unborn = true;
        options.member.attendance = Attendance::AnyMajority;
        options.stop_at = Some((op, seed % 2 == 0));
        let summary = run(options);
        assert_eq!(
            summary.members.founded + summary.members.joined,
            3,
            "seed {seed}, operation {op}"
        );
    }
}

#[test]
fn members_that_never_met_find_each_other() {
    for member_count in [3, 5] {
        for seed in 1..=10 {
            let mut options = steady(seed, member_count, Vec::new());
            options.begins_unborn = true;
            let summary = run(options);
            assert_eq!(summary.members.founded, member_count as u64, "seed {seed}");
            assert_eq!(summary.members.joined, 0, "seed {seed}");
        }
    }
}
