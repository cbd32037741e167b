//! The fate of frames on a link, and the notices to its ends when it is over.

use bytes::Bytes;
use machine::Level;
use member::membership::hello::Known;
use storage::datadir::Birth;

use super::*;

const PAIR: Pair = Pair { from: 0, to: 1 };

fn frame(number: u8) -> PeerFrame {
    PeerFrame { kind: 1, body: Bytes::from(vec![number; 100]) }
}

/// The hello of a member with an unborn directory.
fn hello(member: usize) -> Arc<Hello> {
    let server = member as u64 + 1;
    Arc::new(Hello::unborn(server, MemberId(10 * server), vec![1, 2], Known::up_to(Level::FIRST)))
}

fn born(member: usize, cluster_id: u128) -> Arc<Hello> {
    let birth = Some(Birth { cluster_id, voters: vec![10, 20] });
    Arc::new(Hello { birth, ..Hello::clone(&hello(member)) })
}

/// The notice to the member that dialled the link.
fn link_at(member: usize, is_up: bool) -> Told {
    Told::Link { member, peer: hello(1 - member), is_up }
}

/// The notice to the member that accepted the link.
fn linked_at(member: usize, is_up: bool) -> Told {
    Told::Linked { member, peer: hello(1 - member), is_up }
}

/// Two members with a link from the first to the second that is up.
fn linked() -> (World, Links) {
    let mut world = World::new(Random::new(1));
    let mut links = Links::new(2, Random::new(2));
    let link = links.at(PAIR);
    let told = links.dial(&mut world, link, |member| Some(hello(member)));
    assert_eq!(told, [linked_at(1, true), link_at(0, true)]);
    (world, links)
}

/// Runs until no event is left and returns all notices to members. A link that has ended is not
/// dialled again.
fn run(world: &mut World, links: &mut Links) -> Vec<Told> {
    let mut told = Vec::new();
    while let Some(event) = world.next_event() {
        match event {
            Event::Frame { link, epoch, is_bulk } => {
                told.extend(links.arrive(world, link, epoch, is_bulk));
            }
            Event::LinkOver { link, epoch } => told.extend(links.over(world, link, epoch)),
            Event::LinkPatience { link, epoch } => links.lose_patience(world, link, epoch),
            Event::Dial { .. } => {}
            event => panic!("{event:?}"),
        }
    }
    told
}

fn numbers(told: &[Told]) -> Vec<u8> {
    let number = |told: &Told| match told {
        Told::Frame { frame, .. } => Some(frame.body[0]),
        Told::Link { .. } | Told::Linked { .. } => None,
    };
    told.iter().filter_map(number).collect()
}

#[test]
fn frames_arrive_in_order_and_all_of_them() {
    let (mut world, mut links) = linked();
    (0..50).for_each(|number| links.send(&mut world, PAIR, frame(number)));
    assert_eq!(numbers(&run(&mut world, &mut links)), (0..50).collect::<Vec<u8>>());
}

#[test]
fn nothing_waits_behind_a_piece_of_a_snapshot() {
    let (mut world, mut links) = linked();
    links.slow_down(PAIR, 1_000, 0);
    let want = PeerFrame { kind: 16, ..frame(9) };
    assert!(want.is_bulk());
    (0..50).for_each(|_| links.send(&mut world, PAIR, want.clone()));
    links.send(&mut world, PAIR, frame(1));
    let arrived = numbers(&run(&mut world, &mut links));
    let position = arrived.iter().position(|number| *number == 1).unwrap();
    assert!(position < 5, "{arrived:?}");
}

#[test]
fn what_is_on_its_way_on_a_slow_link_arrives_when_it_is_not_slow_any_more() {
    let (mut world, mut links) = linked();
    links.slow_down(PAIR, 1, 0);
    (0..50).for_each(|number| links.send(&mut world, PAIR, frame(number)));
    links.speed_up(&mut world, PAIR);
    links.send(&mut world, PAIR, frame(50));
    let mut arrived = Vec::new();
    while arrived.len() < 51 {
        let Some(Event::Frame { link, epoch, is_bulk }) = world.next_event() else { panic!() };
        arrived.extend(links.arrive(&mut world, link, epoch, is_bulk));
    }
    assert_eq!(numbers(&arrived), (0..=50).collect::<Vec<u8>>());
    assert!(world.now_us < 4 * LINK_LATENCY_US_MAX);
}

#[test]
fn a_link_that_breaks_loses_the_end_and_both_are_told() {
    let (mut world, mut links) = linked();
    (0..50).for_each(|number| links.send(&mut world, PAIR, frame(number)));
    links.break_off(&mut world, PAIR);
    links.send(&mut world, PAIR, frame(99));
    let told = run(&mut world, &mut links);
    let arrived = numbers(&told);
    assert_eq!(arrived, (0..arrived.len() as u8).collect::<Vec<u8>>());
    assert!(told.contains(&link_at(0, false)));
    assert!(told.contains(&linked_at(1, false)));
}

#[test]
fn what_is_held_up_arrives_when_it_is_over() {
    let (mut world, mut links) = linked();
    links.block(&mut world, PAIR, true);
    (0..5).for_each(|number| links.send(&mut world, PAIR, frame(number)));
    assert!(!links.is_good(PAIR));
    while world.now_us < LINK_PATIENCE_US_MIN / 2 {
        let Some(Event::Frame { link, epoch, is_bulk }) = world.next_event() else { break };
        assert_eq!(links.arrive(&mut world, link, epoch, is_bulk), None);
    }
    links.block(&mut world, PAIR, false);
    assert_eq!(numbers(&run(&mut world, &mut links)), [0, 1, 2, 3, 4]);
    assert!(links.is_good(PAIR));
}

#[test]
fn a_link_that_carries_nothing_for_long_is_taken_for_dead() {
    let (mut world, mut links) = linked();
    links.block(&mut world, PAIR, true);
    links.send(&mut world, PAIR, frame(1));
    let told = run(&mut world, &mut links);
    assert_eq!(numbers(&told), []);
    assert!(told.contains(&link_at(0, false)));
    assert!(told.contains(&linked_at(1, false)));
    // No dialling member gets through.
    let link = links.at(PAIR);
    assert_eq!(links.dial(&mut world, link, |member| Some(hello(member))), []);
}

#[test]
fn a_rough_network_loses_doubles_and_reorders() {
    let (mut world, mut links) = linked();
    links.roughen(Roughness { lost_one_in: 3, doubled_one_in: 3, early_one_in: 3 });
    (0..50).for_each(|number| links.send(&mut world, PAIR, frame(number)));
    let arrived = numbers(&run(&mut world, &mut links));
    assert!(!arrived.is_sorted());
    assert!((0..50).any(|number| !arrived.contains(&number)));
    assert!((0..50).any(|number| arrived.iter().filter(|it| **it == number).count() == 2));
}

#[test]
fn a_new_link_ends_the_one_before_at_the_receiver() {
    let (mut world, mut links) = linked();
    links.break_off(&mut world, PAIR);
    let link = links.at(PAIR);
    links.over(&mut world, link, 1).unwrap();
    let told = links.dial(&mut world, link, |member| Some(hello(member)));
    assert_eq!(told, [linked_at(1, false), linked_at(1, true), link_at(0, true)]);
    // Frames in flight on the old link do not arrive.
    assert_eq!(run(&mut world, &mut links), []);
}

#[test]
fn a_process_that_ends_is_told_nothing() {
    let (mut world, mut links) = linked();
    links.send(&mut world, PAIR, frame(1));
    links.on_end(&mut world, 1, false);
    assert_eq!(run(&mut world, &mut links), [link_at(0, false)]);
}

#[test]
fn a_member_that_is_born_is_linked_anew() {
    let (mut world, mut links) = linked();
    assert_eq!(links.pair_to(0, MemberId(20)), Some(PAIR));
    assert_eq!(links.pair_to(0, MemberId(10)), None);
    links.renew(&mut world, 1);
    assert_eq!(links.pair_to(0, MemberId(20)), None);
    let told = run(&mut world, &mut links);
    assert!(told.contains(&link_at(0, false)));
    assert!(told.contains(&linked_at(1, false)));
    let link = links.at(PAIR);
    let told = links.dial(&mut world, link, |member| Some(born(member, 7)));
    let peer = born(1, 7);
    assert_eq!(told[1], Told::Link { member: 0, peer, is_up: true });
}

#[test]
fn members_of_two_ensembles_are_not_linked() {
    let mut world = World::new(Random::new(1));
    let mut links = Links::new(2, Random::new(2));
    let link = links.at(PAIR);
    let told = links.dial(&mut world, link, |member| Some(born(member, member as u128)));
    assert_eq!(told, []);
    // The hello tells a member that is not born yet how the other one was born.
    let one = |member| Some(if member == 0 { born(0, 1) } else { hello(1) });
    assert_eq!(links.dial(&mut world, link, one).len(), 2);
}

#[test]
fn links_to_a_server_below_the_level_end_and_are_refused() {
    let (mut world, mut links) = linked();
    links.on_level(&mut world, 0, Level::FIRST);
    assert_eq!(run(&mut world, &mut links), []);
    links.on_level(&mut world, 0, Level::ETCD);
    assert_eq!(run(&mut world, &mut links).len(), 2);
    let known = Known::up_to(Level::ETCD);
    let above = Hello { known, level: Some(Level::ETCD.into()), ..Hello::clone(&hello(0)) };
    let link = links.at(PAIR);
    let told = links.dial(&mut world, link, |member| match member {
        0 => Some(Arc::new(above.clone())),
        _ => Some(hello(member)),
    });
    assert_eq!(told, []);
    assert_eq!(links.take_refused_by_level(), [PAIR]);
}
