//! Tests of changes of the membership of a running cluster.

use bytes::Bytes;

use super::cluster::Cluster;
use crate::{
    CampaignObstacle, EntryKind, MemberChange, Membership, MembershipChange, Persist, Refused,
    Role, Transition,
};

use MemberChange::{AddLearner, AddVoter, Remove};

fn change(transition: Transition, changes: &[MemberChange]) -> MembershipChange {
    MembershipChange { transition, changes: changes.to_vec(), context: Bytes::new() }
}

/// Proposes changes and runs until they are applied and the joint state, if any, is left.
fn apply(cluster: &mut Cluster, changes: &[MemberChange]) {
    let leader = cluster.elect();
    let change = change(Transition::Auto, changes);
    cluster.replica(leader).propose_membership(&change).unwrap();
    cluster.drain(leader);
    cluster.rounds(20);
    let leader = cluster.elect();
    cluster.rounds(20);
    assert!(!cluster.replica(leader).membership().is_joint());
}

fn brings_membership(job: &Persist) -> bool {
    job.entries.iter().any(|entry| entry.kind == EntryKind::Membership)
}

fn membership(cluster: &mut Cluster) -> Membership {
    let leader = cluster.elect();
    cluster.replica(leader).membership().clone()
}

#[test]
fn learner_is_added_promoted_and_removed() {
    let mut cluster = Cluster::new(1, 4, &[1, 2, 3]);
    let leader = cluster.elect();
    cluster.propose(leader, "a");
    apply(&mut cluster, &[AddLearner(4)]);
    assert_eq!(membership(&mut cluster).learners, [4]);
    assert_eq!(cluster.applied(4), ["a"]);
    assert_eq!(cluster.replica(4).campaign(), Err(CampaignObstacle::NotVoter));
    apply(&mut cluster, &[AddVoter(4)]);
    assert_eq!(membership(&mut cluster), Membership::from_voters([1, 2, 3, 4]));
    apply(&mut cluster, &[Remove(4)]);
    assert_eq!(membership(&mut cluster), Membership::from_voters([1, 2, 3]));
    cluster.check_converged();
}

#[test]
fn voter_is_replaced_by_joint_consensus() {
    let mut cluster = Cluster::new(2, 4, &[1, 2, 3]);
    let leader = cluster.elect();
    let gone = if leader == 3 { 2 } else { 3 };
    cluster.isolate(gone);
    apply(&mut cluster, &[AddLearner(4)]);
    apply(&mut cluster, &[AddVoter(4), Remove(gone)]);
    let expected = Membership::from_voters([1, 2, 3, 4].into_iter().filter(|id| *id != gone));
    assert_eq!(membership(&mut cluster), expected);
    let leader = cluster.elect();
    cluster.propose(leader, "a");
    cluster.rounds(5);
    assert_eq!(cluster.applied(4), ["a"]);
    cluster.check_converged();
}

#[test]
fn explicit_joint_state_lasts_until_it_is_left() {
    let mut cluster = Cluster::new(3, 4, &[1, 2, 3]);
    let leader = cluster.elect();
    let enter = change(Transition::JointExplicit, &[AddVoter(4)]);
    cluster.replica(leader).propose_membership(&enter).unwrap();
    cluster.drain(leader);
    cluster.rounds(40);
    assert_eq!(membership(&mut cluster).voters_outgoing, [1, 2, 3]);
    let leader = cluster.elect();
    let refused = cluster.replica(leader).propose_membership(&enter);
    assert!(matches!(refused, Err(Refused::Membership { .. })));
    cluster.replica(leader).propose_membership(&MembershipChange::leave()).unwrap();
    cluster.drain(leader);
    cluster.rounds(40);
    assert_eq!(membership(&mut cluster), Membership::from_voters([1, 2, 3, 4]));
}

#[test]
fn leader_that_is_removed_steps_down() {
    let mut cluster = Cluster::new(4, 3, &[1, 2, 3]);
    let old = cluster.elect();
    apply(&mut cluster, &[Remove(old)]);
    assert_eq!(cluster.replica(old).status().role, Role::Follower);
    let new = cluster.elect();
    assert_ne!(new, old);
    cluster.propose(new, "a");
    cluster.rounds(40);
    assert_eq!(cluster.leader(), Some(new));
    cluster.check_converged();
}

#[test]
fn leader_that_is_demoted_becomes_a_learner() {
    let mut cluster = Cluster::new(5, 3, &[1, 2, 3]);
    let old = cluster.elect();
    apply(&mut cluster, &[AddLearner(old)]);
    let new = cluster.elect();
    assert_ne!(new, old);
    assert_eq!(membership(&mut cluster).learners, [old]);
    cluster.propose(new, "a");
    cluster.rounds(10);
    assert_eq!(cluster.applied(old), ["a"]);
}

#[test]
fn ensemble_shrinks_to_one_and_grows_again() {
    let mut cluster = Cluster::new(6, 3, &[1, 2, 3]);
    let leader = cluster.elect();
    let others: Vec<MemberChange> = (1..=3).filter(|id| *id != leader).map(Remove).collect();
    apply(&mut cluster, &others);
    assert_eq!(membership(&mut cluster), Membership::from_voters([leader]));
    cluster.propose(leader, "alone");
    cluster.work(leader);
    assert_eq!(cluster.applied(leader), ["alone"]);
    let back: Vec<MemberChange> = (1..=3).filter(|id| *id != leader).map(AddVoter).collect();
    apply(&mut cluster, &back);
    assert_eq!(membership(&mut cluster), Membership::from_voters([1, 2, 3]));
    cluster.check_converged();
}

#[test]
fn survivor_of_a_shrink_to_one_leads_at_once_after_a_restart() {
    let mut cluster = Cluster::new(7, 2, &[1, 2]);
    let leader = cluster.elect();
    let survivor = 3 - leader;
    apply(&mut cluster, &[Remove(leader)]);
    assert_eq!(cluster.leader(), Some(survivor));
    cluster.crash(survivor);
    cluster.start(survivor);
    assert_eq!(cluster.replica(survivor).membership().voters, [survivor]);
    cluster.round();
    assert_eq!(cluster.leader(), Some(survivor));
}

#[test]
fn survivor_of_a_shrink_to_one_drains_its_disk_queue_before_it_campaigns() {
    let mut cluster = Cluster::new(8, 2, &[1, 2]);
    let leader = cluster.elect();
    let survivor = 3 - leader;
    let remove = change(Transition::Auto, &[Remove(leader)]);
    cluster.replica(leader).propose_membership(&remove).unwrap();
    cluster.drain(leader);
    cluster.propose(leader, "x");
    cluster.propose(leader, "y");
    cluster.run_disk(leader, u64::MAX);
    // The removal gets on the survivor's disk and is committed; later entries are still in flight.
    for _ in 0..3 {
        cluster.step += 1;
        cluster.deliver();
        while cluster.members[&survivor].jobs.iter().any(brings_membership) {
            cluster.run_disk(survivor, 1);
        }
    }
    cluster.apply(survivor, u64::MAX);
    assert_eq!(cluster.replica(survivor).membership().voters, [survivor]);
    for _ in 0..50 {
        let obstacle = cluster.replica(survivor).campaign_obstacle();
        assert_eq!(obstacle, Some(CampaignObstacle::PersistPending));
        cluster.replica(survivor).tick();
        cluster.drain(survivor);
    }
    cluster.work(survivor);
    cluster.replica(survivor).tick();
    assert_eq!(cluster.replica(survivor).status().role, Role::Leader);
    cluster.work(survivor);
    assert_eq!(cluster.applied(survivor), ["x", "y"]);
}

#[test]
fn one_change_at_a_time_is_taken() {
    let mut cluster = Cluster::new(9, 3, &[1, 2, 3]);
    let leader = cluster.elect();
    let add = change(Transition::Auto, &[AddLearner(4)]);
    cluster.replica(leader).propose_membership(&add).unwrap();
    let second = cluster.replica(leader).propose_membership(&add);
    assert_eq!(second, Err(Refused::MembershipPending));
}

#[test]
fn change_that_does_not_fit_is_refused_before_the_log() {
    let mut cluster = Cluster::new(10, 1, &[1]);
    let leader = cluster.elect();
    for change in [
        MembershipChange::leave(),
        change(Transition::Auto, &[Remove(1)]),
        change(Transition::Auto, &[]),
        change(Transition::Auto, &[AddVoter(0)]),
        change(Transition::Leave, &[AddVoter(2)]),
    ] {
        let refused = cluster.replica(leader).propose_membership(&change);
        assert!(matches!(refused, Err(Refused::Membership { .. })), "{change:?}");
    }
    assert!(!cluster.replica(leader).has_effects());
}

#[test]
fn snapshot_from_before_a_member_joined_is_not_sent_to_it() {
    let mut cluster = Cluster::new(11, 4, &[1, 2, 3]);
    cluster.log_memory.bytes_max = 0;
    for id in 1..=4 {
        cluster.crash(id);
        cluster.start(id);
    }
    let leader = cluster.elect();
    cluster.propose(leader, "a");
    cluster.rounds(10);
    cluster.take_snapshot(leader);
    apply(&mut cluster, &[AddLearner(4)]);
    cluster.rounds(40);
    assert_eq!(cluster.applied(4), ["a"]);
    assert!(cluster.snapshots_installed >= 1);
}

#[test]
fn read_is_served_by_a_lone_voter_in_a_joint_state_with_itself() {
    let mut cluster = Cluster::new(12, 1, &[1]);
    let leader = cluster.elect();
    let enter = change(Transition::JointExplicit, &[AddLearner(2)]);
    cluster.replica(leader).propose_membership(&enter).unwrap();
    cluster.work(leader);
    assert!(cluster.replica(leader).membership().is_joint());
    let read = cluster.read(leader);
    cluster.drain(leader);
    assert_eq!(cluster.members[&leader].served.first().unwrap().0, read);
}

#[test]
fn joint_state_is_left_without_waiting_for_a_heartbeat() {
    let mut cluster = Cluster::new(13, 3, &[1, 2, 3]);
    let leader = cluster.elect();
    cluster.rounds(10);
    let gone = if leader == 3 { 2 } else { 3 };
    let remove = change(Transition::Joint, &[Remove(gone)]);
    cluster.replica(leader).propose_membership(&remove).unwrap();
    cluster.work(leader);
    for _ in 0..6 {
        cluster.step += 1;
        cluster.deliver();
        (1..=3).for_each(|id| cluster.work(id));
    }
    let membership = cluster.replica(leader).membership();
    assert!(!membership.is_joint());
    assert!(!membership.contains(gone));
}
