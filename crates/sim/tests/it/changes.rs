//! Ensembles whose members etcd's clients add, remove, move and promote.

use member::BrokenRule;
use sim::fault::FaultMix;
use sim::server::{ChangeSabotage, Sabotage};
use sim::{ChangeCounts, ENSEMBLE_SEEDS, Options};

/// The first seeds that change members.
fn seeds(count: usize) -> impl Iterator<Item = Options> {
    let all = (ENSEMBLE_SEEDS..).map(|seed| Options::draw_ensemble(seed, 3));
    all.filter(|options| options.changes.is_some()).take(count)
}

fn check(all: impl Iterator<Item = Options>) -> ChangeCounts {
    let mut counts = ChangeCounts::default();
    for options in all {
        let summary = sim::run(options).unwrap_or_else(|failure| panic!("{failure}"));
        counts.add(&summary.changes);
    }
    counts
}

#[test]
fn members_change_beside_all_faults() {
    let counts = check(seeds(40));
    let ChangeCounts { runs, added, added_learners, promoted, updated, removed, .. } = counts;
    for (what, count) in [
        ("runs", runs),
        ("added servers", added),
        ("added learners", added_learners),
        ("promoted learners", promoted),
        ("moved servers", updated),
        ("removed servers", removed),
        ("removed leaders", counts.removed_leaders),
        ("changes refused without a quorum", counts.refused_no_quorum),
        ("changes refused for another reason", counts.refused_otherwise),
        ("servers that joined", counts.begun),
        ("servers that died while they joined", counts.died_joining),
        ("removed members that ended", counts.ended),
        ("leaders killed in the middle of a change", counts.leaders_killed),
        ("minorities killed right after a change", counts.ended_short),
        ("finished reconfigs", counts.reconfigs),
        ("observers", counts.observers),
        ("guests", counts.guests),
        ("machines that came back", counts.returned),
    ] {
        assert!(count > 0, "no {what}: {counts:?}");
    }
}

#[test]
fn members_change_without_faults() {
    let calm = seeds(6).map(|mut options| {
        options.faults = FaultMix::planned_for(Vec::new());
        options.faults_us = 60_000_000;
        options
    });
    let counts = check(calm);
    assert!(counts.added > 0 && counts.removed > 0, "{counts:?}");
    assert_eq!(counts.given_up, 0, "{counts:?}");
}

/// The seeds that were kept before members could change have kept their meaning.
#[test]
fn no_older_seed_changes_members() {
    let kept = include_str!("ensembles.txt").lines().filter(|line| !line.starts_with('#'));
    let older = kept.take_while(|line| !line.ends_with("(members change)"));
    for line in older {
        let numbers: Vec<u64> = line.split(' ').take(2).filter_map(|it| it.parse().ok()).collect();
        let options = Options::draw_ensemble(numbers[0], numbers[1] as usize);
        assert!(options.changes.is_none(), "{line}");
    }
    assert!((1..1_000).all(|seed| Options::draw_ensemble(seed, 3).changes.is_none()));
}

fn check_noticed(sabotage: ChangeSabotage, why: &str) {
    check_noticed_among(seeds(60), sabotage, why);
}

fn check_noticed_among(
    mut seeds: impl Iterator<Item = Options>,
    sabotage: ChangeSabotage,
    why: &str,
) {
    let noticed = seeds.find_map(|mut options| {
        options.member.sabotage = Some(Sabotage::Changes(sabotage));
        sim::run(options).err().filter(|failure| failure.reason.contains(why))
    });
    assert!(noticed.is_some(), "{sabotage:?} is not noticed");
}

#[test]
fn a_change_that_is_answered_at_its_request_is_noticed() {
    check_noticed(ChangeSabotage::AnsweredAtRequest, "is answered");
}

#[test]
fn a_change_that_is_refused_and_finishes_is_noticed() {
    check_noticed(ChangeSabotage::RefusedAtRequest, "is refused, and its change finished");
}

#[test]
fn a_change_that_finishes_before_the_votes_have_moved_is_noticed() {
    check_noticed(ChangeSabotage::FinishedBeforeVotesMoved, "a change finishes at entry");
}

#[test]
fn a_removed_member_that_goes_on_is_noticed() {
    check_noticed(ChangeSabotage::RemovalIgnored, "goes on, and has applied its removal");
}

#[test]
fn voters_that_are_removed_and_not_made_learners_first_are_noticed() {
    check_noticed(ChangeSabotage::Broken(BrokenRule::Demotion), "not made learners first");
}

#[test]
fn a_vote_for_a_member_that_has_not_caught_up_is_noticed() {
    check_noticed(ChangeSabotage::Broken(BrokenRule::CatchUp), "gets a vote at entry");
}

#[test]
fn a_member_that_left_without_a_vote_and_comes_back_is_noticed() {
    // Only a reconfig lets a removed server serve on, and few such servers are forgotten later.
    let with_guests = seeds(400).filter(|options| {
        options.changes.as_ref().is_some_and(|changes| changes.reconfigs.is_some())
    });
    let sabotage = ChangeSabotage::Broken(BrokenRule::Tombstones);
    check_noticed_among(with_guests, sabotage, "is registered again");
}

#[test]
fn a_member_that_hands_over_commands_without_leave_is_noticed() {
    check_noticed(ChangeSabotage::Broken(BrokenRule::Registration), "no vote and no leave");
}
