//! Tests of a cluster under random faults from a seed. When the faults have stopped, the members
//! must agree.

use bytes::Bytes;

use super::cluster::{Cluster, Faults};
use crate::{MemberChange, MembershipChange, Transition};

#[derive(Clone, Copy)]
struct Plan {
    member_count: u64,
    changes_members: bool,
    /// Whether other members' snapshots are sent, too, and not only the leader's.
    lends: bool,
}

/// Runs one seed and returns the cluster for more checks.
fn run(seed: u64, plan: Plan) -> Cluster {
    let mut cluster = Cluster::new(seed, plan.member_count, &[1, 2, 3]);
    cluster.log_memory.bytes_max = 2000;
    if plan.lends {
        cluster.lenders = cluster.ids();
    }
    cluster.faults = Faults {
        drop: cluster.rng.below(20),
        double: cluster.rng.below(10),
        delay_max: cluster.rng.below(6),
    };
    for step in 0..600 {
        one_step(&mut cluster, step, plan);
    }
    settle(&mut cluster);
    cluster
}

fn one_step(cluster: &mut Cluster, step: u64, plan: Plan) {
    cluster.step += 1;
    cluster.deliver();
    for id in cluster.ids() {
        if cluster.members[&id].replica.is_none() {
            if cluster.rng.chance(10) {
                cluster.start(id);
            }
            continue;
        }
        if cluster.rng.chance(70) {
            cluster.replica(id).tick();
            cluster.drain(id);
        }
        act(cluster, id, step, plan);
        let (jobs, entries) = (cluster.rng.below(4), cluster.rng.below(6));
        cluster.run_disk(id, jobs);
        cluster.apply(id, entries);
        if cluster.rng.chance(1) {
            cluster.crash(id);
        }
    }
    match cluster.rng.below(100) {
        0 => {
            let id = 1 + cluster.rng.below(plan.member_count);
            cluster.isolate(id);
        }
        1..=3 => cluster.heal(),
        _ => {}
    }
}

/// Does what clients and an administrator of one member would do.
fn act(cluster: &mut Cluster, id: u64, step: u64, plan: Plan) {
    let payload = Bytes::from(format!("{id}:{step}:{}", "x".repeat(step as usize % 90)));
    match cluster.rng.below(40) {
        0..=9 => {
            let _ = cluster.replica(id).propose(payload);
        }
        10..=14 => {
            cluster.read(id);
        }
        15 => cluster.take_snapshot(id),
        16 => {
            let to = 1 + cluster.rng.below(plan.member_count);
            let _ = cluster.replica(id).transfer_leader(to);
        }
        17 => {
            let peer = 1 + cluster.rng.below(plan.member_count);
            cluster.replica(id).report_unreachable(peer);
        }
        20 if step.is_multiple_of(20) => cluster.replica(id).resign(),
        18..=19 if plan.changes_members => {
            let change = random_change(cluster, plan.member_count);
            let _ = cluster.replica(id).propose_membership(&change);
        }
        _ => {}
    }
    cluster.drain(id);
}

fn random_change(cluster: &mut Cluster, member_count: u64) -> MembershipChange {
    let transition = match cluster.rng.below(5) {
        0 => return MembershipChange::leave(),
        1 => Transition::JointExplicit,
        2 => Transition::Joint,
        _ => Transition::Auto,
    };
    let changes = (0..=cluster.rng.below(3)).map(|_| {
        let id = 1 + cluster.rng.below(member_count);
        match cluster.rng.below(4) {
            0 => MemberChange::Remove(id),
            1 => MemberChange::AddLearner(id),
            _ => MemberChange::AddVoter(id),
        }
    });
    MembershipChange { transition, changes: changes.collect(), context: Bytes::new() }
}

fn settle(cluster: &mut Cluster) {
    cluster.faults = Faults::default();
    cluster.heal();
    for id in cluster.ids() {
        if cluster.members[&id].replica.is_none() {
            cluster.start(id);
        }
    }
    cluster.rounds(150);
    let leader = cluster.elect();
    cluster.propose(leader, "last");
    let read = cluster.read(leader);
    cluster.rounds(30);
    assert!(cluster.members[&leader].served.iter().any(|(id, _)| *id == read));
    cluster.check_converged();
    assert!(cluster.applied(leader).contains(&"last".to_owned()));
}

fn check_seeds(seeds: std::ops::Range<u64>, plan: Plan) {
    let (mut installed, mut served, mut terms) = (0, 0, 0);
    for seed in seeds {
        let repeat = std::panic::AssertUnwindSafe(|| run(seed, plan));
        let Ok(cluster) = std::panic::catch_unwind(repeat) else {
            panic!("seed {seed} with {} members", plan.member_count);
        };
        installed += cluster.snapshots_installed;
        served += cluster.reads_served;
        terms += cluster.leaders.len();
    }
    println!("{installed} snapshots installed, {served} reads served, {terms} leaders");
    assert!(installed > 0);
    assert!(served > 0);
    assert!(terms > 0);
}

#[test]
fn three_members_agree_whatever_the_network_and_the_disks_do() {
    check_seeds(0..300, Plan { member_count: 3, changes_members: false, lends: false });
}

#[test]
fn members_agree_while_their_membership_changes() {
    check_seeds(1000..1300, Plan { member_count: 5, changes_members: true, lends: false });
}

#[test]
fn members_agree_while_they_send_each_other_snapshots_of_whoever_has_one() {
    check_seeds(2000..2200, Plan { member_count: 3, changes_members: false, lends: true });
    check_seeds(3000..3200, Plan { member_count: 5, changes_members: true, lends: true });
}

#[test]
fn same_seed_gives_the_same_bytes() {
    for changes_members in [false, true] {
        let plan = Plan { member_count: 4, changes_members, lends: changes_members };
        assert!(run(7, plan).trace == run(7, plan).trace);
        assert!(run(7, plan).trace != run(8, plan).trace);
    }
}
