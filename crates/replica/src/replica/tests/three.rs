//! Tests of three voters: elections, conflicts, snapshots, reads.

use bytes::Bytes;

use super::cluster::{Cluster, Faults};
use crate::{
    Config, LogMemory, MemberChange, Membership, MembershipChange, Refused, Replica, Restored,
    Role, SnapshotMeta, Transition,
};

fn three(seed: u64) -> Cluster {
    Cluster::new(seed, 3, &[1, 2, 3])
}

fn others(leader: u64) -> [u64; 2] {
    let others: Vec<u64> = (1..=3).filter(|id| *id != leader).collect();
    others.try_into().unwrap()
}

#[test]
fn one_of_three_is_elected_and_replicates() {
    let mut cluster = three(1);
    let leader = cluster.elect();
    cluster.propose(leader, "a");
    cluster.rounds(5);
    for id in 1..=3 {
        assert_eq!(cluster.applied(id), ["a"]);
        assert_eq!(cluster.replica(id).status().leader, Some(leader));
    }
    cluster.check_converged();
}

#[test]
fn tied_candidates_do_not_tie_for_ever() {
    for seed in 0..50 {
        let mut cluster = three(seed);
        for id in 1..=3 {
            cluster.replica(id).campaign().unwrap();
            cluster.work(id);
        }
        cluster.elect();
    }
}

#[test]
fn isolated_leader_steps_down_and_another_takes_over() {
    let mut cluster = three(2);
    let old = cluster.elect();
    cluster.isolate(old);
    cluster.rounds(60);
    assert_ne!(cluster.replica(old).status().role, Role::Leader);
    let new = cluster.elect();
    assert_ne!(new, old);
    let term = cluster.replica(new).status().term;
    cluster.heal();
    cluster.rounds(60);
    // Pre-vote: the member that was cut off did not raise the term.
    assert_eq!(cluster.replica(new).status().term, term);
    assert_eq!(cluster.leader(), Some(new));
}

#[test]
fn entries_of_a_deposed_leader_are_overwritten() {
    let mut cluster = three(3);
    let old = cluster.elect();
    cluster.isolate(old);
    for payload in ["lost 1", "lost 2", "lost 3"] {
        cluster.propose(old, payload);
        cluster.work(old);
    }
    assert_eq!(cluster.members[&old].disk.entries.len(), 4);
    cluster.rounds(60);
    let new = cluster.elect();
    cluster.propose(new, "kept");
    cluster.rounds(5);
    cluster.heal();
    cluster.rounds(60);
    assert_eq!(cluster.applied(old), ["kept"]);
    cluster.check_converged();
    assert!(cluster.members[&old].disk.entries.iter().all(|entry| entry.payload != "lost 1"));
}

#[test]
fn follower_acknowledges_only_what_is_on_its_disk() {
    let mut cluster = three(4);
    let leader = cluster.elect();
    let followers = others(leader);
    cluster.isolate(followers[1]);
    let position = cluster.propose(leader, "a");
    cluster.run_disk(leader, u64::MAX);
    cluster.step += 1;
    cluster.deliver();
    assert!(!cluster.members[&followers[0]].jobs.is_empty());
    cluster.step += 1;
    cluster.deliver();
    assert!(cluster.replica(leader).status().commit_index < position.index);
    cluster.work(followers[0]);
    cluster.step += 1;
    cluster.deliver();
    assert_eq!(cluster.replica(leader).status().commit_index, position.index);
}

/// A proposal that one follower has on disk, so that the leader has committed it. The other
/// follower, `late`, learns of the commit before it has the entry on disk.
fn commit_without(cluster: &mut Cluster) -> (u64, u64, u64) {
    let leader = cluster.elect();
    cluster.rounds(5);
    let [early, late] = others(leader);
    let next = |cluster: &mut Cluster| {
        cluster.step += 1;
        cluster.deliver();
    };
    // Heartbeats that are on their way get answered first.
    next(cluster);
    next(cluster);
    let position = cluster.propose(leader, "a");
    cluster.work(leader);
    next(cluster);
    cluster.work(early);
    next(cluster);
    assert_eq!(cluster.replica(leader).status().commit_index, position.index);
    assert_eq!([cluster.in_flight(leader, early), cluster.in_flight(leader, late)], [1, 1]);
    next(cluster);
    assert_eq!(cluster.replica(early).status().commit_index, position.index);
    cluster.work(early);
    assert_eq!(cluster.in_flight(early, leader), 0);
    (leader, late, position.index)
}

fn matched(cluster: &mut Cluster, leader: u64, member: u64) -> u64 {
    let peers = cluster.replica(leader).peers();
    peers.iter().find(|peer| peer.member_id == member).unwrap().matched_index
}

#[test]
fn commit_index_alone_is_not_answered() {
    let mut cluster = three(27);
    let (leader, late, index) = commit_without(&mut cluster);
    // The follower reports that the entry is on its disk.
    cluster.work(late);
    assert_eq!(cluster.in_flight(late, leader), 1);
    cluster.step += 1;
    cluster.deliver();
    assert_eq!(matched(&mut cluster, leader, late), index);
    cluster.rounds(5);
    cluster.check_converged();
}

#[test]
fn an_answer_that_is_lost_is_asked_for_again() {
    let mut cluster = three(27);
    let (leader, late, index) = commit_without(&mut cluster);
    cluster.cut.insert((late, leader));
    cluster.work(late);
    assert_eq!(cluster.in_flight(late, leader), 0);
    cluster.cut.clear();
    assert!(matched(&mut cluster, leader, late) < index);
    cluster.rounds(8);
    assert_eq!(matched(&mut cluster, leader, late), index);
}

#[test]
fn what_a_quorum_has_is_applied_by_a_member_whose_disk_hangs() {
    for hangs_at_leader in [true, false] {
        let mut cluster = three(5);
        let leader = cluster.elect();
        cluster.rounds(5);
        let hanging = if hangs_at_leader { leader } else { others(leader)[0] };
        for payload in ["a", "b"] {
            cluster.propose(leader, payload);
            for _ in 0..30 {
                cluster.step += 1;
                cluster.deliver();
                for id in 1..=3 {
                    cluster.replica(id).tick();
                    cluster.drain(id);
                    cluster.apply(id, u64::MAX);
                    if id != hanging {
                        cluster.work(id);
                    }
                }
            }
        }
        assert_eq!(cluster.replica(leader).status().role, Role::Leader);
        for id in 1..=3 {
            assert_eq!(cluster.applied(id), ["a", "b"]);
        }
        let status = cluster.replica(hanging).status();
        assert!(status.persisted_index < status.applied_index);
        // The leader hears from the member, though nothing reaches that member's disk.
        for peer in cluster.replica(leader).peers() {
            assert!(peer.silent_ticks.unwrap() < 10);
        }
        cluster.rounds(10);
        cluster.check_converged();
        let status = cluster.replica(hanging).status();
        assert_eq!(status.persisted_index, status.last_index);
    }
}

#[test]
fn a_membership_is_not_changed_by_an_entry_that_is_not_on_disk() {
    let mut cluster = Cluster::new(5, 4, &[1, 2, 3]);
    let leader = cluster.elect();
    cluster.rounds(5);
    let changes = vec![MemberChange::AddLearner(4)];
    let change = MembershipChange { transition: Transition::Auto, changes, context: Bytes::new() };
    cluster.propose(leader, "a");
    cluster.replica(leader).propose_membership(&change).unwrap();
    cluster.propose(leader, "b");
    for _ in 0..5 {
        cluster.step += 1;
        cluster.deliver();
        cluster.apply(leader, u64::MAX);
        others(leader).into_iter().for_each(|id| cluster.work(id));
    }
    assert_eq!(cluster.applied(leader), ["a"]);
    assert!(!cluster.replica(leader).membership().contains(4));
    cluster.rounds(10);
    assert_eq!(cluster.applied(leader), ["a", "b"]);
    assert!(cluster.replica(leader).membership().contains(4));
    cluster.check_converged();
}

#[test]
fn crashed_member_comes_back_with_what_it_persisted() {
    let mut cluster = three(6);
    let leader = cluster.elect();
    cluster.propose(leader, "a");
    cluster.rounds(5);
    for id in 1..=3 {
        cluster.crash(id);
    }
    for id in 1..=3 {
        cluster.start(id);
    }
    let leader = cluster.elect();
    cluster.propose(leader, "b");
    cluster.rounds(5);
    for id in 1..=3 {
        assert_eq!(cluster.applied(id), ["a", "b"]);
    }
    cluster.check_converged();
}

#[test]
fn lagging_follower_gets_a_snapshot() {
    let mut cluster = three(7);
    cluster.log_memory.bytes_max = 500;
    for id in 1..=3 {
        cluster.crash(id);
        cluster.start(id);
    }
    let leader = cluster.elect();
    let lagging = others(leader)[0];
    cluster.isolate(lagging);
    for number in 0..30 {
        cluster.propose(leader, &format!("{number}"));
        cluster.rounds(2);
    }
    assert_eq!(cluster.snapshots_installed, 0);
    cluster.heal();
    cluster.rounds(60);
    assert_eq!(cluster.snapshots_installed, 1);
    assert_eq!(cluster.applied(lagging).len(), 30);
    cluster.check_converged();
    let leader = cluster.leader().unwrap();
    assert!(cluster.replica(leader).peers().iter().all(|peer| peer.snapshot_index.is_none()));
}

/// Three members that keep few entries in memory, except for a follower that was silent for a short
/// time.
fn three_with_a_log_for_those_away() -> Cluster {
    let mut cluster = three(7);
    cluster.log_memory.bytes_max = 500;
    cluster.log_memory.away_bytes_max = 1 << 20;
    for id in 1..=3 {
        cluster.crash(id);
        cluster.start(id);
    }
    cluster
}

#[test]
fn follower_that_was_away_for_a_short_time_comes_back_to_the_log() {
    let mut cluster = three_with_a_log_for_those_away();
    let leader = cluster.elect();
    let lagging = others(leader)[0];
    cluster.isolate(lagging);
    for number in 0..30 {
        cluster.propose(leader, &format!("{number}"));
        cluster.rounds(2);
    }
    cluster.heal();
    cluster.rounds(60);
    assert_eq!(cluster.snapshots_installed, 0);
    assert_eq!(cluster.applied(lagging).len(), 30);
    cluster.check_converged();
    // The follower has every entry, so the entries are no longer needed.
    cluster.propose(leader, "last");
    cluster.rounds(5);
    assert!(cluster.replica(leader).status().log_applied_bytes <= 500);
}

#[test]
fn leader_that_restarts_comes_back_to_the_log_of_the_next() {
    let mut cluster = three_with_a_log_for_those_away();
    let first = cluster.elect();
    cluster.propose(first, "first");
    cluster.rounds(5);
    cluster.crash(first);
    let next = cluster.elect();
    for number in 0..30 {
        cluster.propose(next, &format!("{number}"));
        cluster.rounds(2);
    }
    cluster.start(first);
    cluster.rounds(60);
    assert_eq!(cluster.snapshots_installed, 0);
    assert_eq!(cluster.applied(first).len(), 31);
    cluster.check_converged();
}

#[test]
fn log_is_not_kept_for_a_follower_that_is_gone() {
    let mut cluster = three_with_a_log_for_those_away();
    let leader = cluster.elect();
    cluster.isolate(others(leader)[0]);
    let away_ticks = 10 * crate::limits::AWAY_TIMEOUTS;
    for number in 0..20 {
        cluster.propose(leader, &format!("{number}"));
        cluster.rounds(2);
    }
    assert!(cluster.replica(leader).status().log_applied_bytes > 2_000);
    cluster.rounds(away_ticks);
    cluster.propose(leader, "later");
    cluster.rounds(5);
    assert!(cluster.replica(leader).status().log_applied_bytes <= 500);
}

/// The leader takes no snapshot itself, and keeps its log from the index of the other member's
/// snapshot on.
#[test]
fn lagging_follower_gets_the_snapshot_of_another_one() {
    let mut cluster = three(7);
    cluster.log_memory.bytes_max = 500;
    for id in 1..=3 {
        cluster.crash(id);
        cluster.start(id);
    }
    let leader = cluster.elect();
    let [lagging, lender] = others(leader);
    cluster.lenders = vec![lender];
    cluster.isolate(lagging);
    for number in 0..30 {
        cluster.propose(leader, &format!("{number}"));
        cluster.rounds(2);
    }
    cluster.heal();
    cluster.rounds(60);
    assert_eq!(cluster.snapshots_installed, 1);
    assert_eq!(cluster.members[&leader].disk.snapshot.index, 1);
    assert_eq!(cluster.applied(lagging).len(), 30);
    cluster.check_converged();
}

/// However much is written meanwhile, the log still reaches back to the snapshot that is being
/// sent.
#[test]
fn the_log_is_kept_from_the_snapshot_on_that_is_being_sent() {
    let mut cluster = three(7);
    cluster.log_memory.bytes_max = 0;
    for id in 1..=3 {
        cluster.crash(id);
        cluster.start(id);
    }
    let leader = cluster.elect();
    let [lagging, lender] = others(leader);
    cluster.isolate(lagging);
    for number in 0..30 {
        cluster.propose(leader, &format!("{number}"));
        cluster.rounds(2);
    }
    cluster.rounds(5);
    cluster.take_snapshot(lender);
    let lent = cluster.replica(lender).newest_snapshot().unwrap().clone();
    cluster.rounds(20);
    cluster.wanted = Some(Vec::new());
    cluster.heal();
    cluster.rounds(20);
    let wanted = cluster.wanted.take().unwrap().pop().unwrap();
    assert_eq!(wanted.to, lagging);
    let own = cluster.replica(leader).newest_snapshot();
    assert!(own.is_none_or(|own| own.index < wanted.index_min));
    // Refuses a snapshot that the log does not continue from, that is not of this log, or that the
    // receiver cannot use.
    let other_term = SnapshotMeta { term: lent.term - 1, ..lent.clone() };
    let beyond = SnapshotMeta { index: lent.index + 1, ..lent.clone() };
    let before = SnapshotMeta { index: 1, term: 1, ..lent.clone() };
    for (to, meta) in [
        (lagging, &other_term),
        (lagging, &beyond),
        (lagging, &before),
        (leader, &lent),
        (9, &lent),
    ] {
        assert!(!cluster.replica(leader).send_snapshot(to, meta), "{meta:?} to {to}");
    }
    cluster.snapshot_delay = 50;
    cluster.holders.insert((lagging, lent.index), lender);
    assert!(cluster.replica(leader).send_snapshot(lagging, &lent));
    cluster.work(leader);
    for number in 0..20 {
        cluster.propose(leader, &format!("later {number}"));
        cluster.rounds(2);
        assert_eq!(cluster.replica(leader).status().first_index, lent.index + 1);
    }
    cluster.rounds(60);
    assert_eq!(cluster.snapshots_installed, 1);
    cluster.propose(leader, "last");
    cluster.rounds(5);
    assert_eq!(cluster.applied(lagging).len(), 51);
    assert!(cluster.replica(leader).status().first_index > lent.index + 1);
    cluster.check_converged();
}

/// Entries arrive so fast that the log no longer reaches back to a snapshot when the follower has
/// installed it. So a newer snapshot is sent. At half the speed, one snapshot is enough.
#[test]
fn a_snapshot_that_the_log_has_left_behind_is_followed_by_a_newer_one() {
    let mut cluster = three(7);
    cluster.log_memory = LogMemory { bytes_max: 0, away_bytes_max: 0, pinned_bytes_max: 4_000 };
    for id in 1..=3 {
        cluster.crash(id);
        cluster.start(id);
    }
    let leader = cluster.elect();
    let [lagging, lender] = others(leader);
    cluster.lenders = vec![lender];
    cluster.snapshot_delay = 8;
    cluster.isolate(lagging);
    let write = |cluster: &mut Cluster, count| {
        for number in 0..count {
            cluster.propose(leader, &format!("{number}"));
            cluster.rounds(1);
        }
    };
    write(&mut cluster, 30);
    cluster.heal();
    // The log has some 24 entries. As many again are written while a snapshot is transferred, and
    // then half as many.
    for _ in 0..100 {
        for payload in ["fast", "faster", "fastest"] {
            cluster.propose(leader, payload);
        }
        cluster.rounds(1);
    }
    let installed = cluster.snapshots_installed;
    assert!((4..=12).contains(&installed), "{installed}");
    write(&mut cluster, 60);
    let more = cluster.snapshots_installed - installed;
    assert!(more <= 1, "{more}");
    cluster.rounds(60);
    assert_eq!(cluster.applied(lagging).len(), 390);
    cluster.check_converged();
}

#[test]
fn failed_snapshot_is_sent_again() {
    let mut cluster = three(8);
    let leader = cluster.elect();
    let lagging = others(leader)[0];
    cluster.isolate(lagging);
    cluster.propose(leader, "a");
    cluster.rounds(10);
    cluster.take_snapshot(leader);
    // A restarted leader has in memory only the entries after its snapshot.
    for id in [leader, others(leader)[1]] {
        cluster.take_snapshot(id);
        cluster.crash(id);
        cluster.start(id);
    }
    cluster.elect();
    cluster.heal();
    cluster.faults = Faults { drop: 60, ..Faults::default() };
    cluster.rounds(300);
    cluster.faults = Faults::default();
    cluster.rounds(60);
    assert!(cluster.snapshots_installed >= 1);
    cluster.check_converged();
}

#[test]
fn leadership_is_handed_over_on_request() {
    let mut cluster = three(9);
    let old = cluster.elect();
    let to = others(old)[1];
    assert_eq!(cluster.replica(old).transfer_leader(old), Err(Refused::NotVoter { to: old }));
    assert_eq!(cluster.replica(old).transfer_leader(9), Err(Refused::NotVoter { to: 9 }));
    cluster.replica(old).transfer_leader(to).unwrap();
    let refused = cluster.replica(old).propose(Bytes::from("a"));
    assert_eq!(refused, Err(Refused::Transferring { to }));
    cluster.drain(old);
    cluster.rounds(8);
    assert_eq!(cluster.leader(), Some(to));
}

#[test]
fn leader_that_resigns_is_replaced() {
    let mut cluster = three(17);
    let old = cluster.elect();
    cluster.replica(old).resign();
    assert_eq!(cluster.replica(old).status().role, Role::Follower);
    let term = cluster.replica(old).status().term;
    let new = cluster.elect();
    assert!(cluster.replica(new).status().term > term);
    cluster.propose(new, "a");
    cluster.rounds(10);
    cluster.check_converged();
}

#[test]
fn proposal_at_a_follower_is_refused_and_names_the_leader() {
    let mut cluster = three(10);
    let leader = cluster.elect();
    let follower = others(leader)[0];
    let refused = cluster.replica(follower).propose(Bytes::from("a"));
    assert_eq!(refused, Err(Refused::NotLeader { leader: Some(leader) }));
}

#[test]
fn read_is_served_at_leader_and_follower() {
    let mut cluster = three(11);
    let leader = cluster.elect();
    cluster.propose(leader, "a");
    cluster.rounds(5);
    for id in 1..=3 {
        let read = cluster.read(id);
        cluster.drain(id);
        cluster.rounds(6);
        let index = cluster.replica(leader).status().commit_index;
        assert_eq!(cluster.members[&id].served, [(read, index)]);
    }
}

#[test]
fn read_at_a_new_leader_waits_for_its_first_commit() {
    let mut cluster = three(12);
    let mut waited = false;
    for _ in 0..200 {
        cluster.step += 1;
        cluster.deliver();
        for id in 1..=3 {
            cluster.replica(id).tick();
            cluster.drain(id);
            let status = cluster.replica(id).status();
            if status.role == Role::Leader && !status.has_committed_in_term {
                cluster.read(id);
                cluster.drain(id);
                assert!(cluster.members[&id].served.is_empty());
                waited = true;
            }
            cluster.run_disk(id, u64::MAX);
            cluster.apply(id, u64::MAX);
        }
    }
    let leader = cluster.leader().unwrap();
    assert!(waited);
    assert!(cluster.members[&leader].reads.is_empty());
    assert!(!cluster.members[&leader].served.is_empty());
}

#[test]
fn isolated_leader_serves_no_read() {
    let mut cluster = three(13);
    let old = cluster.elect();
    cluster.isolate(old);
    let read = cluster.read(old);
    cluster.rounds(60);
    let new = cluster.elect();
    cluster.propose(new, "newer");
    cluster.rounds(60);
    assert_eq!(cluster.members[&old].served, []);
    assert_eq!(cluster.members[&old].failed, [read]);
}

#[test]
fn read_asked_without_a_leader_is_served_when_there_is_one() {
    let mut cluster = three(14);
    let read = cluster.read(1);
    cluster.elect();
    cluster.rounds(10);
    assert_eq!(cluster.members[&1].served.first().unwrap().0, read);
}

#[test]
fn message_on_a_wrong_path_changes_nothing() {
    let mut cluster = three(16);
    let leader = cluster.elect();
    cluster.propose(leader, "a");
    let to = others(leader)[0];
    let membership = Membership::from_voters([1, 2, 3]);
    let restored = Restored {
        membership,
        snapshot_index: 1,
        snapshot_term: 1,
        applied_index: 1,
        ..Restored::default()
    };
    let mut probe = Replica::new(Config::new(leader, 1, 1), restored.clone()).unwrap();
    probe.campaign().unwrap();
    let effects = probe.effects();
    let bytes = effects.messages.iter().find(|message| message.to == to).unwrap().bytes.clone();
    let wrong_group = Config { group_id: 1, ..Config::new(to, 1, 1) };
    let before = cluster.replica(to).status();
    assert!(cluster.replica(to).step(others(leader)[1], &bytes).is_err());
    assert!(cluster.replica(others(leader)[1]).step(leader, &bytes).is_err());
    assert!(cluster.replica(leader).step(leader, &bytes).is_err());
    assert!(Replica::new(wrong_group, restored).unwrap().step(leader, &bytes).is_err());
    assert!(cluster.replica(to).step(leader, &bytes[..bytes.len() - 1]).is_err());
    assert_eq!(cluster.replica(to).status(), before);
}

/// The ticks until a group has a leader again after its leader crashed, summed over twenty groups.
/// If `are_told`, the followers learn that their connections to the leader ended.
fn ticks_without_a_leader(are_told: bool) -> u64 {
    let ticks = |seed: u64| {
        let mut cluster = Cluster::new(seed, 3, &[1, 2, 3]);
        let leader = cluster.elect();
        cluster.rounds(5);
        cluster.crash(leader);
        // Messages that were sent before arrive before the end of a connection.
        cluster.rounds(4);
        for id in cluster.alive() {
            if are_told {
                cluster.replica(id).miss_leader(leader);
            }
        }
        let is_led = |_: &u64| {
            cluster.round();
            cluster.leader().is_some()
        };
        (1..400).find(is_led).expect("two of three elect one")
    };
    (0..20).map(ticks).sum()
}

#[test]
fn a_leader_whose_connections_ended_is_not_waited_for() {
    let (told, untold) = (ticks_without_a_leader(true), ticks_without_a_leader(false));
    // An election timeout has at least 10 ticks; part of each had passed by then.
    assert!(told + 20 * 5 < untold, "{told} and {untold}");
}

#[test]
fn a_leader_that_is_missed_by_one_and_still_there_goes_on() {
    let mut cluster = Cluster::new(3, 3, &[1, 2, 3]);
    let leader = cluster.elect();
    cluster.rounds(5);
    let term = cluster.replica(leader).status().term;
    let other = cluster.ids().into_iter().find(|id| *id != leader).unwrap();
    for _ in 0..10 {
        cluster.replica(other).miss_leader(leader);
        cluster.replica(other).miss_leader(99);
        cluster.rounds(30);
    }
    assert_eq!(cluster.leader(), Some(leader));
    assert_eq!(cluster.replica(other).status().term, term);
}
