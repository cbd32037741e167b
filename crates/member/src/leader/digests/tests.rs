//! Tests of digests: members with a wrong state are found in whatever order the digests come.

use super::*;

fn membership(voters: &[u64]) -> Membership {
    Membership { voters: voters.to_vec(), ..Membership::default() }
}

/// Gives a leader these digests at index 128, in this order, and returns all differences that it
/// reports.
fn said(voters: &[u64], digests: &[(u64, u128)]) -> Vec<Difference> {
    let mut of_leader = Digests::default();
    let mut all = Vec::new();
    for (member, digest) in digests {
        let given = (128, Digest(*digest));
        all.extend(of_leader.on_digest(MemberId(*member), given, &membership(voters)));
    }
    all
}

fn outside(member: u64) -> Difference {
    Difference::Outside { member: MemberId(member), index: 128 }
}

#[test]
fn the_last_digests_that_two_members_gave_are_compared() {
    let mut digests = Digests::default();
    let mut give = |member: u64, index: u64, digest: u128| {
        digests.on_digest(MemberId(member), (index, Digest(digest)), &membership(&[1, 2, 3]));
        digests.differ(MemberId(1), MemberId(2))
    };
    assert!(!give(1, 128, 7));
    assert!(!give(3, 128, 8));
    assert!(give(2, 128, 8));
    assert!(give(1, 256, 9));
    assert!(!give(2, 256, 9));
}

#[test]
fn members_that_agree_are_left_alone() {
    assert_eq!(said(&[1, 2, 3], &[(1, 7), (2, 7), (3, 7)]), []);
    assert_eq!(said(&[1, 2, 3], &[(1, 7), (2, 7)]), []);
}

#[test]
fn whoever_differs_from_a_majority_is_outside_whenever_it_comes() {
    for order in [[(1, 7), (2, 7), (3, 8)], [(3, 8), (1, 7), (2, 7)], [(1, 7), (3, 8), (2, 7)]] {
        assert_eq!(said(&[1, 2, 3], &order), [outside(3)], "{order:?}");
    }
    let five = [(4, 9), (1, 7), (5, 8), (2, 7), (3, 7)];
    assert_eq!(said(&[1, 2, 3, 4, 5], &five), [outside(4), outside(5)]);
}

#[test]
fn learners_are_judged_and_do_not_count() {
    assert_eq!(said(&[1, 2, 3], &[(9, 8), (1, 7), (2, 7)]), [outside(9)]);
    assert_eq!(said(&[1, 2, 3], &[(1, 7), (9, 7), (2, 8)]), []);
}

#[test]
fn without_a_majority_nobody_is_outside_and_that_is_said_once() {
    let none = [Difference::NoMajority { index: 128 }];
    assert_eq!(said(&[1, 2, 3], &[(1, 7), (2, 8), (3, 9), (4, 7)]), none);
    assert_eq!(said(&[1, 2, 3], &[(1, 7), (2, 8)]), []);
    assert_eq!(said(&[1, 2], &[(1, 7), (2, 8)]), none);
}

#[test]
fn a_digest_that_comes_twice_says_nothing_more() {
    assert_eq!(said(&[1, 2, 3], &[(1, 7), (2, 7), (3, 8), (3, 8), (3, 7)]), [outside(3)]);
}

/// The member was right, and restarted with a wrong state.
#[test]
fn a_member_that_gives_another_digest_than_before_is_judged_anew() {
    let twice = [(1, 7), (2, 7), (3, 7), (3, 8), (3, 8)];
    assert_eq!(said(&[1, 2, 3], &twice), [outside(3)]);
}

/// The member was wrong, and has another state now. The digest of its wrong state must not condemn
/// the new one.
#[test]
fn what_a_member_gave_on_an_earlier_link_decides_nothing_later() {
    let mut digests = Digests::default();
    let voters = membership(&[1, 2, 3]);
    let give = |digests: &mut Digests, member: u64, digest: u128| {
        digests.on_digest(MemberId(member), (5, Digest(digest)), &voters)
    };
    assert_eq!(give(&mut digests, 1, 7), []);
    assert_eq!(give(&mut digests, 2, 8), []);
    digests.forget_unsettled(MemberId(2));
    assert_eq!(give(&mut digests, 3, 7), []);
}

#[test]
fn an_index_below_those_that_are_kept_is_past() {
    let mut digests = Digests::default();
    let voters = membership(&[1, 2, 3]);
    for index in 10..10 + DIGEST_CHECKS_MAX as u64 {
        assert!(!digests.is_past(5));
        digests.on_digest(MemberId(1), (index, Digest(7)), &voters);
    }
    assert!(digests.is_past(9) && !digests.is_past(10));
}

#[test]
fn old_checks_are_forgotten() {
    let mut digests = Digests::default();
    let voters = membership(&[1, 2, 3]);
    for index in 0..=DIGEST_CHECKS_MAX as u64 {
        assert_eq!(digests.on_digest(MemberId(1), (index, Digest(7)), &voters), []);
    }
    assert_eq!(digests.checks.len(), DIGEST_CHECKS_MAX);
    assert!(!digests.checks.contains_key(&0));
}

#[test]
fn a_difference_that_stays_undecided_is_said_when_it_is_forgotten() {
    let mut digests = Digests::default();
    let voters = membership(&[1, 2, 3]);
    assert_eq!(digests.on_digest(MemberId(2), (0, Digest(8)), &voters), []);
    let mut all = Vec::new();
    for index in 0..=DIGEST_CHECKS_MAX as u64 {
        all.extend(digests.on_digest(MemberId(1), (index, Digest(7)), &voters));
    }
    assert_eq!(all, [Difference::NoMajority { index: 0 }]);
}

#[test]
fn while_the_voters_change_nobody_is_judged() {
    let mut digests = Digests::default();
    let joint = Membership { voters_outgoing: vec![1, 2, 3], ..membership(&[1, 2, 4]) };
    for (member, digest) in [(1, 7), (2, 7), (3, 8)] {
        let given = (128, Digest(digest));
        assert_eq!(digests.on_digest(MemberId(member), given, &joint), []);
    }
}

#[test]
fn a_state_that_was_spoiled_since_its_last_entry_has_another_digest() {
    let mut own = OwnDigests::new(4, Digest(4));
    own.push(5, Digest(5));
    assert!(!own.push(5, Digest(5)));
    assert!(own.push(5, Digest(55)));
    assert_eq!((own.at(4), own.at(5)), (Some(Digest(4)), Some(Digest(55))));
    assert!(!own.push(6, Digest(6)));
    assert_eq!(own.newest(), (6, Digest(6)));
}

#[test]
fn own_digests_are_kept_for_the_last_entries_and_without_a_gap() {
    let digest = |index: u64| Digest(u128::from(index));
    let mut own = OwnDigests::new(4, digest(4));
    assert_eq!((own.at(3), own.at(4), own.at(5)), (None, Some(digest(4)), None));
    let indexes = 5..=OWN_DIGESTS_MAX as u64 + 7;
    for index in indexes.clone() {
        assert_eq!(own.push(index, digest(index)), index % DIGEST_INTERVAL_ENTRIES == 0, "{index}");
    }
    assert_eq!(own.first_index(), 8);
    for (index, known) in [(7, false), (8, true), (*indexes.end(), true)] {
        assert_eq!(own.at(index), known.then_some(digest(index)), "{index}");
    }
    assert_eq!(own.at(indexes.end() + 1), None);
    assert!(own.push(indexes.end() + 2, digest(1)), "a snapshot was installed");
    assert_eq!((own.first_index(), own.at(8)), (indexes.end() + 2, None));
    assert_eq!(own.newest(), (indexes.end() + 2, digest(1)));
}

#[test]
fn a_digest_that_another_waits_for_is_due() {
    let digest = |index: u64| Digest(u128::from(index));
    let mut own = OwnDigests::new(4, digest(4));
    assert_eq!([3, 4, 6, 9].map(|index| own.at_or_due(index)), [None, Some(digest(4)), None, None]);
    let due: Vec<u64> = (5..=7).filter(|index| own.push(*index, digest(*index))).collect();
    assert_eq!(due, [6]);
    // Index 9, whose digest was asked for, never comes: an installed snapshot skips it.
    assert!(own.push(20, digest(20)));
    assert!(!own.push(21, digest(21)));
}

#[test]
fn others_are_asked_once_for_an_index_without_a_majority() {
    let mut digests = Digests::default();
    let voters = membership(&[1, 2, 3]);
    let mut give = |member: u64, index: u64, digest: u128| {
        let given = (index, Digest(digest));
        let said = digests.on_digest(MemberId(member), given, &voters);
        (said, digests.take_question(index), digests.open().collect::<Vec<u64>>())
    };
    assert_eq!(give(1, 5, 7), (vec![], false, vec![]));
    assert_eq!(give(2, 5, 8), (vec![], true, vec![5]));
    assert_eq!(give(2, 5, 8), (vec![], false, vec![5]));
    assert_eq!(give(1, 6, 7), (vec![], false, vec![5]));
    assert_eq!(give(2, 6, 8), (vec![], true, vec![5, 6]));
    // A member that is outside at one index no longer counts at any other index.
    let outside = Difference::Outside { member: MemberId(2), index: 6 };
    assert_eq!(give(3, 6, 7), (vec![outside], false, vec![]));
}
