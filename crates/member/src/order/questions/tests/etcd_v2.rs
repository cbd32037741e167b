//! Tests with three Loops: when nodes of etcd v2 expire.

use machine::etcd_v2::change::DeadlineChange;

use machine::EtcdV2Command;

use super::*;
use crate::spaces::etcd_v2;
use crate::spaces::limits::ETCD_V2_EXPIRED_MAX;

fn began(key: &str, since: u64, ttl_s: u64) -> DeadlineChange {
    DeadlineChange::Began { key: key.into(), since, ttl_s }
}

/// Reports these changes of times to live to all members, as their Apply does.
fn tell(world: &mut World, is_replaced: bool, changes: &[DeadlineChange]) {
    for at in 0..3 {
        let etcd_v2 = etcd_v2::News { deadlines: changes.to_vec() };
        tell_news(world, at, News { is_replaced, etcd_v2, ..News::default() });
    }
}

/// The nodes that committed entries remove, in order.
fn expired(world: &World, at: usize) -> Vec<(String, u64)> {
    let mut expired = Vec::new();
    visit_committed(world, at, |command| {
        if let Command::EtcdV2(EtcdV2Command::Expire { keys }) = command {
            expired.extend(keys.iter().map(|it| (it.key.text().to_string(), it.since)));
        }
    });
    expired
}

/// Like `led` in the parent module, with members that know the level of etcd v2.
fn led() -> (World, usize, Vec<usize>) {
    led_knowing(Level::ETCD_V2)
}

#[test]
fn a_node_expires_soon_after_its_time_unless_it_was_written_since() {
    let (mut world, leader, _) = led();
    let changes = [began("/a", 4, 2), began("/b", 5, 2), began("/b", 6, 4)];
    tell(&mut world, false, &changes[..2]);
    let refreshed = [DeadlineChange::Ended { since: 5 }, changes[2].clone()];
    tell(&mut world, false, &refreshed);
    pass(&mut world, 2_000);
    assert_eq!(expired(&world, leader), []);
    pass(&mut world, 500);
    assert_eq!(expired(&world, leader), [("/a".to_string(), 4)]);
    // Apply has removed the node.
    tell(&mut world, false, &[DeadlineChange::Ended { since: 4 }]);
    pass(&mut world, 2_000);
    assert_eq!(expired(&world, leader), [("/a".to_string(), 4), ("/b".to_string(), 6)]);
    assert_eq!(world.members[leader].counts().spaces.etcd_v2_expired, 2);
}

#[test]
fn a_node_without_time_expires_at_once() {
    let (mut world, leader, _) = led();
    tell(&mut world, false, &[began("/now", 4, 0)]);
    pass(&mut world, 500);
    assert_eq!(expired(&world, leader), [("/now".to_string(), 4)]);
}

#[test]
fn a_new_leader_gives_every_node_its_full_time() {
    let (mut world, leader, others) = led();
    tell(&mut world, false, &[began("/a", 4, 6)]);
    pass(&mut world, 5_000);
    let new = lead_anew(&mut world, leader, &others);
    pass(&mut world, 6_000 - TICK_MS);
    assert_eq!(expired(&world, new), []);
    pass(&mut world, 600);
    assert_eq!(expired(&world, new), [("/a".to_string(), 4)]);
}

#[test]
fn many_nodes_expire_over_several_rounds() {
    let (mut world, leader, _) = led();
    let count = 3 * ETCD_V2_EXPIRED_MAX as u64;
    let changes: Vec<_> = (1..=count).map(|at| began(&format!("/{at}"), at, 2)).collect();
    tell(&mut world, false, &changes);
    pass(&mut world, 3_000);
    assert_eq!(expired(&world, leader).len() as u64, count);
}

#[test]
fn nodes_of_a_state_that_takes_the_place_of_another_are_the_only_ones() {
    let (mut world, leader, _) = led();
    tell(&mut world, false, &[began("/old", 4, 2)]);
    tell(&mut world, true, &[began("/new", 9, 2)]);
    let held = world.members[leader].held();
    assert_eq!((held.deadlines, held.deadline_places), (1, 1));
    pass(&mut world, 3_000);
    assert_eq!(expired(&world, leader), [("/new".to_string(), 9)]);
}
