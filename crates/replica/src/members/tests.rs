use super::*;
use crate::limits::{MEMBERS_MAX, MEMBERSHIP_CHANGES_MAX, MEMBERSHIP_CONTEXT_BYTES_MAX};

fn joint() -> Membership {
    Membership {
        voters: vec![1, 2, 5],
        voters_outgoing: vec![1, 2, 3],
        learners: vec![7],
        learners_next: vec![3],
        auto_leave: true,
    }
}

fn change() -> MembershipChange {
    MembershipChange {
        transition: Transition::JointExplicit,
        changes: vec![
            MemberChange::AddVoter(1),
            MemberChange::AddLearner(2),
            MemberChange::Remove(u64::MAX),
        ],
        context: Bytes::from("host:1"),
    }
}

#[test]
fn membership_survives_bytes_and_raft() {
    for membership in [Membership::default(), Membership::from_voters([3, 1, 2, 1]), joint()] {
        assert_eq!(membership.fault(), None);
        assert_eq!(Membership::decode(&membership.encode()).unwrap(), membership);
        assert_eq!(Membership::from_raft(&membership.to_raft()), membership);
    }
}

#[test]
fn change_survives_bytes_and_raft() {
    let transitions = [Transition::Auto, Transition::Joint, Transition::JointExplicit];
    let changes = transitions.map(|transition| MembershipChange { transition, ..change() });
    for change in changes.into_iter().chain([MembershipChange::leave()]) {
        assert_eq!(MembershipChange::decode(&change.encode()).unwrap(), change);
        assert_eq!(MembershipChange::from_raft(&change.to_raft_entry()), change);
    }
    // An empty entry: raft-rs appends one to leave a joint state on its own.
    assert_eq!(MembershipChange::from_raft(&eraftpb::Entry::default()), MembershipChange::leave());
}

#[test]
fn bytes_are_those_of_the_format() {
    let membership = Membership { learners: vec![2], ..Membership::from_voters([1]) };
    let bytes = [1, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(membership.encode(), bytes.as_slice());
    let change = MembershipChange {
        transition: Transition::Joint,
        changes: vec![MemberChange::Remove(9)],
        context: Bytes::from("c"),
    };
    let bytes = [1, 1, 1, 0, 2, 9, 0, 0, 0, 0, 0, 0, 0, 1, 0, b'c'];
    assert_eq!(change.encode(), bytes.as_slice());
}

#[test]
fn cut_off_bytes_are_refused() {
    let (membership, change) = (joint().encode(), change().encode());
    for length in 0..membership.len() {
        assert!(Membership::decode(&membership[..length]).is_err());
    }
    for length in 0..change.len() {
        assert!(MembershipChange::decode(&change[..length]).is_err());
    }
    let longer = |bytes: &Bytes| [bytes, [0].as_slice()].concat();
    assert!(Membership::decode(&longer(&membership)).is_err());
    assert!(MembershipChange::decode(&longer(&change)).is_err());
}

#[test]
fn lists_that_are_no_membership_are_refused() {
    let check = |membership: Membership| {
        assert!(membership.fault().is_some());
        assert!(Membership::decode(&membership.encode()).is_err());
    };
    let voters = || Membership::from_voters([1, 2]);
    check(Membership { voters: vec![2, 1], ..Membership::default() });
    check(Membership { voters: vec![1, 1], ..Membership::default() });
    check(Membership { voters: vec![0], ..Membership::default() });
    check(Membership { learners: vec![1], ..voters() });
    check(Membership { learners_next: vec![3], ..voters() });
    check(Membership { auto_leave: true, ..voters() });
    check(Membership { voters_outgoing: vec![1], ..Membership::default() });
    check(Membership { learners: vec![1], ..Membership::default() });
    check(Membership { voters_outgoing: vec![3], learners: vec![3], ..voters() });
    check(Membership { voters_outgoing: vec![2], learners_next: vec![2], ..voters() });
}

#[test]
fn counts_beyond_their_limits_are_refused() {
    let largest = Membership::from_voters(1..=MEMBERS_MAX as u64);
    assert_eq!(Membership::decode(&largest.encode()).unwrap(), largest);
    let mut bytes = largest.encode().to_vec();
    bytes[2] += 1;
    let (offset, count) = (2, MEMBERS_MAX + 1);
    let error = MessageError::TooMany { offset, count, count_max: MEMBERS_MAX };
    assert_eq!(Membership::decode(&bytes), Err(error));

    let with = |count: usize, context_bytes: usize| MembershipChange {
        changes: vec![MemberChange::AddLearner(1); count],
        context: Bytes::from(vec![0; context_bytes]),
        ..change()
    };
    let largest = with(MEMBERSHIP_CHANGES_MAX, MEMBERSHIP_CONTEXT_BYTES_MAX);
    assert_eq!(MembershipChange::decode(&largest.encode()).unwrap(), largest);
    let changes = with(MEMBERSHIP_CHANGES_MAX + 1, 0);
    assert!(MembershipChange::decode(&changes.encode()).is_err());
    let context = with(1, MEMBERSHIP_CONTEXT_BYTES_MAX + 1);
    assert!(MembershipChange::decode(&context.encode()).is_err());
}

#[test]
fn lone_voter_is_recognised_in_a_joint_state_with_itself() {
    let alone = Membership::from_voters([4]);
    assert!(alone.is_lone_voter(4));
    assert!(!alone.is_lone_voter(5));
    assert!(Membership { voters_outgoing: vec![4], ..alone.clone() }.is_lone_voter(4));
    assert!(!Membership { voters_outgoing: vec![4, 5], ..alone }.is_lone_voter(4));
}
