//! Tests with three Loops: which member answers questions about leases, when, and when leases
//! expire.

mod etcd_v2;

use machine::entry::{self, decode_batch};
use machine::etcd::command::Command as EtcdCommand;
use machine::{BootId, Command, ConnectionId, LeaseChange, LeaseId, Level, Ordinal};
use replica::{Membership, Role};

use super::super::contact::tests::{TICK_MS, World, id};
use super::*;
use crate::lease::{LeaseQuestion, LeaseTime, NoLeaseTime};
use crate::message::{Caller, FrontId, LeaseAnswered, LoopInput, Ticket, ToLoop};
use crate::order::tests::applied_with;
use crate::spaces::limits::{
    LEASE_ANSWER_MS_MAX, LEASE_GRACE_MS, LEASE_QUESTIONS_MAX, LEASE_RETRY_MS, LEASE_TICK_MS,
    LEASES_EXPIRED_MAX,
};
use crate::spaces::{News, etcd};

const LEASE: LeaseId = LeaseId(7);

fn caller(ticket: u64) -> Caller {
    Caller { front: FrontId(1), connection: ConnectionId(2), ticket: Ticket(ticket) }
}

fn granted(lease: LeaseId, ordinal: u64, ttl_s: i64) -> LeaseChange {
    LeaseChange::Granted { lease, granted: Ordinal(ordinal), ttl_s }
}

/// Reports these changes of leases to all members, as their Apply does.
fn tell(world: &mut World, changes: &[LeaseChange]) {
    for at in 0..3 {
        tell_one(world, at, changes);
    }
}

fn tell_one(world: &mut World, at: usize, changes: &[LeaseChange]) {
    let etcd = etcd::News { leases: changes.to_vec(), ..etcd::News::default() };
    tell_news(world, at, News { etcd, ..News::default() });
}

fn tell_news(world: &mut World, at: usize, news: News) {
    let message = applied_with(world.members[at].progress.applied().0, news);
    world.members[at].handle(LoopInput::Apply(message)).unwrap();
    world.turn(at);
}

/// Lets a client of the member ask about a lease. The answer comes when the messages arrive.
fn ask(world: &mut World, at: usize, ticket: u64, lease: LeaseId, renews: bool) {
    let questions = vec![(caller(ticket), LeaseQuestion { lease, renews })];
    world.members[at].handle(LoopInput::Front(ToLoop::AskLeases(questions))).unwrap();
    world.turn(at);
}

/// The answers since the last call, with their members and tickets.
fn told(world: &mut World) -> Vec<(usize, u64, LeaseAnswered)> {
    let times = core::mem::take(&mut world.lease_times);
    times.into_iter().map(|(at, _, of, told)| (at, of.ticket.0, told)).collect()
}

fn time(granted_s: i64, left_ms: u64) -> LeaseAnswered {
    Ok(Some(LeaseTime { granted_s, left_ms }))
}

/// Passes the commands of the entries committed at a member to `visit`, in order.
fn visit_committed(world: &World, at: usize, mut visit: impl FnMut(&Command<'_>)) {
    for (_, found) in world.committed.iter().filter(|(of, _)| *of == at) {
        if found.payload.is_empty() {
            continue;
        }
        let header = entry::decode_header(&found.payload).unwrap();
        let mut offset = entry::HEADER_BYTES;
        for _ in 0..header.batch_count {
            let batch = decode_batch(&found.payload, offset).unwrap();
            batch.commands(0, usize::MAX).unwrap().iter().for_each(|it| visit(&it.command));
            offset = batch.end;
        }
    }
}

/// The leases that committed entries end, each with the grant that was judged, in order.
fn expired(world: &World, at: usize) -> Vec<(i64, u64)> {
    let mut expired = Vec::new();
    visit_committed(world, at, |command| {
        if let Command::Etcd(EtcdCommand::Expire { leases }) = command {
            expired.extend(leases.iter().map(|(lease, judged)| (lease.0, judged.0)));
        }
    });
    expired
}

fn pass(world: &mut World, ms: u64) {
    (0..ms / TICK_MS).for_each(|_| world.pass(TICK_MS));
}

/// A world whose members have applied everything, and have had a leader for a while.
fn led() -> (World, usize, Vec<usize>) {
    led_knowing(Level::ETCD)
}

/// Like [`led`], with members that know levels up to this one.
fn led_knowing(level: Level) -> (World, usize, Vec<usize>) {
    let voters = Membership::from_voters([1, 2, 3]);
    let (mut world, leader, followers) = World::led_knowing(&voters, [level; 3]);
    pass(&mut world, 500);
    world.committed.clear();
    (world, leader, followers)
}

/// Cuts the leader off until another member leads, for less than 5 s. Returns the new leader.
fn lead_anew(world: &mut World, leader: usize, others: &[usize]) -> usize {
    world.away.insert(leader);
    world.committed.clear();
    let mut waited_ms = 0;
    loop {
        let leads = |at: &usize| world.members[*at].status().role == Role::Leader;
        if let Some(new) = others.iter().copied().find(leads) {
            return new;
        }
        pass(world, TICK_MS);
        waited_ms += TICK_MS;
        assert!(waited_ms < 5_000);
    }
}

#[test]
fn every_member_answers_with_the_time_that_the_leader_has() {
    let (mut world, leader, others) = led();
    tell(&mut world, &[granted(LEASE, 5, 10)]);
    pass(&mut world, 3_000);
    for (ticket, at) in [(1, leader), (2, others[0]), (3, others[1])] {
        ask(&mut world, at, ticket, LEASE, false);
        ask(&mut world, at, 10 + ticket, LeaseId(8), false);
        world.settle();
        assert_eq!(told(&mut world), [(at, ticket, time(10, 7_000)), (at, 10 + ticket, Ok(None))]);
    }
    for (ticket, at) in [(1, leader), (2, others[0])] {
        pass(&mut world, 6_000);
        ask(&mut world, at, ticket, LEASE, true);
        ask(&mut world, at, 10 + ticket, LeaseId(8), true);
        world.settle();
        assert_eq!(told(&mut world), [(at, ticket, time(10, 10_000)), (at, 10 + ticket, Ok(None))]);
    }
    pass(&mut world, 9_000);
    assert_eq!(expired(&world, leader), [], "it was kept alive");
    assert!(world.members.iter().all(|member| member.held().waiting_reads == 0));
}

#[test]
fn questions_of_one_turn_go_in_one_message_and_are_answered_in_one() {
    let (mut world, _, others) = led();
    tell(&mut world, &[granted(LEASE, 5, 10)]);
    let questions: Vec<_> = (0..100)
        .map(|ticket| (caller(ticket), LeaseQuestion { lease: LEASE, renews: true }))
        .collect();
    let at = others[0];
    world.members[at].handle(LoopInput::Front(ToLoop::AskLeases(questions))).unwrap();
    let output = world.members[at].finish(0);
    let asked = output.peers.iter().filter(|(_, frame)| frame.kind == 13);
    assert_eq!(asked.count(), 1);
}

#[test]
fn an_answer_about_the_time_left_waits_for_what_the_leader_has_applied() {
    let (mut world, leader, others) = led();
    tell(&mut world, &[granted(LEASE, 5, 10)]);
    let applied = world.members[leader].progress.applied();
    ask(&mut world, others[0], 1, LEASE, false);
    ask(&mut world, others[0], 2, LEASE, true);
    world.settle();
    let mut indexes: Vec<_> =
        world.lease_times.iter().map(|(_, index, of, _)| (of.ticket.0, *index)).collect();
    indexes.sort_unstable();
    assert_eq!(indexes, [(1, applied), (2, LogIndex(0))]);
}

#[test]
fn a_leader_answers_only_once_it_has_applied_what_was_committed() {
    let (mut world, leader, others) = led();
    world.is_apply_slow = true;
    world.submit(leader);
    world.settle();
    ask(&mut world, others[0], 1, LEASE, true);
    ask(&mut world, leader, 2, LEASE, true);
    pass(&mut world, 200);
    assert_eq!(told(&mut world), [], "the grant may be in an entry that is not applied");
    // The entry that is applied only now granted the lease.
    tell(&mut world, &[granted(LEASE, 5, 10)]);
    world.is_apply_slow = false;
    pass(&mut world, 200);
    let mut told = told(&mut world);
    told.sort_unstable_by_key(|(_, ticket, _)| *ticket);
    assert_eq!(told, [(others[0], 1, time(10, 10_000)), (leader, 2, time(10, 10_000))]);
}

#[test]
fn a_leader_that_is_cut_off_answers_nothing() {
    let (mut world, leader, others) = led();
    tell(&mut world, &[granted(LEASE, 5, 10)]);
    world.away.insert(leader);
    ask(&mut world, leader, 1, LEASE, true);
    ask(&mut world, leader, 2, LEASE, false);
    pass(&mut world, 4_000);
    assert_eq!(told(&mut world), []);
    // The other members have a new leader, which answers.
    ask(&mut world, others[0], 3, LEASE, true);
    pass(&mut world, 200);
    assert_eq!(told(&mut world), [(others[0], 3, time(10, 10_000))]);
    // The clients of the member that is cut off get the error that there is no leader.
    pass(&mut world, 3_200);
    let alone = Err(NoLeaseTime::NoLeader);
    assert_eq!(told(&mut world), [(leader, 1, alone), (leader, 2, alone)]);
    assert_eq!(world.members[leader].held().waiting_reads, 0);
}

#[test]
fn a_question_that_is_lost_is_asked_again_and_a_new_leader_answers_it() {
    let (mut world, leader, others) = led();
    tell(&mut world, &[granted(LEASE, 5, 10)]);
    let asker = others[0];
    // The question is lost on its way.
    world.away.insert(asker);
    ask(&mut world, asker, 1, LEASE, true);
    world.settle();
    world.away.remove(&asker);
    assert_eq!(told(&mut world), []);
    pass(&mut world, LEASE_RETRY_MS + 100);
    assert_eq!(told(&mut world), [(asker, 1, time(10, 10_000))]);
    // The question is lost together with the leader.
    world.away.insert(leader);
    ask(&mut world, asker, 2, LEASE, true);
    pass(&mut world, 5_000);
    assert_eq!(told(&mut world), [(asker, 2, time(10, 10_000))]);
}

#[test]
fn a_lease_expires_not_before_its_time_and_soon_after_it() {
    for ttl_s in [2, 3, 10] {
        let (mut world, leader, _) = led();
        tell(&mut world, &[granted(LEASE, 5, ttl_s)]);
        let mut passed_ms = 0;
        while expired(&world, leader).is_empty() {
            pass(&mut world, TICK_MS);
            passed_ms += TICK_MS;
        }
        let ttl_ms = ttl_s as u64 * 1_000;
        assert!(passed_ms > ttl_ms, "{passed_ms}");
        assert!(passed_ms <= ttl_ms + LEASE_TICK_MS + LEASE_GRACE_MS + 200, "{passed_ms}");
        assert_eq!(expired(&world, leader), [(7, 5)], "it names the grant that was judged");
        pass(&mut world, 3_000);
        assert_eq!(expired(&world, leader).len(), 1);
    }
}

/// A world in which no entry is applied any more, with a lease of 2 s.
fn stalled() -> (World, usize, Vec<usize>) {
    let (mut world, leader, others) = led();
    tell(&mut world, &[granted(LEASE, 5, 2)]);
    world.is_apply_slow = true;
    world.submit(leader);
    world.settle();
    (world, leader, others)
}

/// A former bug: a lease counted as heard from only with the answer, which waits for Apply.
#[test]
fn a_renewal_that_waits_for_apply_protects_its_lease_until_it_is_answered() {
    let (mut world, leader, others) = stalled();
    for ticket in 1..=8 {
        let at = [leader, others[0]][ticket as usize % 2];
        ask(&mut world, at, ticket, LEASE, true);
        pass(&mut world, 700);
    }
    assert_eq!((told(&mut world), expired(&world, leader)), (vec![], vec![]));
    world.is_apply_slow = false;
    pass(&mut world, 200);
    let answers = told(&mut world);
    assert_eq!(answers.len(), 8);
    assert!(answers.iter().all(|(.., told)| *told == time(2, 2_000)), "{answers:?}");
    // From the answer on, the lease has its full time again.
    let mut passed_ms = 200;
    while expired(&world, leader).is_empty() {
        pass(&mut world, TICK_MS);
        passed_ms += TICK_MS;
    }
    assert!((2_000..=2_000 + LEASE_TICK_MS + LEASE_GRACE_MS + 400).contains(&passed_ms));
}

#[test]
fn later_renewals_do_not_prolong_the_protection_of_one_that_is_not_answered() {
    let (mut world, leader, others) = stalled();
    let mut passed_ms = 0;
    while submitted(&world, leader) == 0 {
        assert!(passed_ms < 20_000);
        if passed_ms % 500 == 0 {
            ask(&mut world, others[0], passed_ms, LEASE, true);
        }
        pass(&mut world, TICK_MS);
        passed_ms += TICK_MS;
    }
    let soonest_ms = LEASE_ANSWER_MS_MAX;
    assert!((soonest_ms..=soonest_ms + LEASE_TICK_MS + 200).contains(&passed_ms), "{passed_ms}");
}

#[test]
fn a_question_for_the_time_left_protects_nothing() {
    let (mut world, leader, others) = stalled();
    let mut passed_ms = 0;
    while submitted(&world, leader) == 0 {
        if passed_ms % 500 == 0 {
            ask(&mut world, others[0], passed_ms, LEASE, false);
        }
        pass(&mut world, TICK_MS);
        passed_ms += TICK_MS;
    }
    assert!(passed_ms <= 2_000 + LEASE_TICK_MS + LEASE_GRACE_MS + 200, "{passed_ms}");
}

/// How many leases' expiry a leader has submitted. It may not be applied yet.
fn submitted(world: &World, leader: usize) -> u64 {
    world.members[leader].counts().spaces.leases_expired
}

#[test]
fn a_question_about_a_lease_whose_expiry_is_under_way_waits_for_its_end() {
    let (mut world, leader, others) = led();
    tell(&mut world, &[granted(LEASE, 5, 2)]);
    pass(&mut world, 3_000);
    assert_eq!(expired(&world, leader), [(7, 5)]);
    ask(&mut world, others[0], 1, LEASE, true);
    ask(&mut world, leader, 2, LEASE, false);
    pass(&mut world, 2_000);
    assert_eq!(told(&mut world), [], "it may yet live: another grant may be behind this one");
    tell(&mut world, &[LeaseChange::Ended(LEASE)]);
    pass(&mut world, 200);
    assert_eq!(told(&mut world).len(), 2);
    // A lease that was granted again meanwhile lives on.
    tell(&mut world, &[granted(LEASE, 9, 2)]);
    pass(&mut world, 3_000);
    ask(&mut world, others[0], 3, LEASE, true);
    pass(&mut world, 200);
    assert_eq!(told(&mut world), []);
    tell(&mut world, &[granted(LEASE, 12, 60)]);
    pass(&mut world, 200);
    assert_eq!(told(&mut world), [(others[0], 3, time(60, 60_000))]);
}

#[test]
fn a_new_leader_gives_every_lease_its_full_time() {
    let (mut world, leader, others) = led();
    tell(&mut world, &[granted(LEASE, 5, 6)]);
    pass(&mut world, 5_000);
    let new = lead_anew(&mut world, leader, &others);
    pass(&mut world, 6_000 - TICK_MS);
    assert_eq!(expired(&world, new), []);
    pass(&mut world, 600);
    assert_eq!(expired(&world, new), [(7, 5)]);
    assert_eq!(expired(&world, leader), [], "the old leader expires nobody");
}

#[test]
fn many_leases_expire_over_several_rounds() {
    let (mut world, leader, _) = led();
    let count = 3 * LEASES_EXPIRED_MAX as i64;
    let changes: Vec<_> =
        (1..=count).map(|lease| granted(LeaseId(lease), lease as u64, 2)).collect();
    tell(&mut world, &changes);
    pass(&mut world, 4_000);
    let mut expired = expired(&world, leader);
    expired.sort_unstable();
    assert!(expired.into_iter().eq((1..=count).map(|lease| (lease, lease as u64))));
}

#[test]
fn leases_of_a_state_that_takes_the_place_of_another_are_the_only_ones() {
    let (mut world, leader, _) = led();
    tell(&mut world, &[granted(LEASE, 5, 2)]);
    let leases = vec![granted(LeaseId(8), 6, 3)];
    let etcd = etcd::News { leases, ..etcd::News::default() };
    let news = News { is_replaced: true, etcd, ..News::default() };
    (0..3).for_each(|at| tell_news(&mut world, at, news.clone()));
    pass(&mut world, 5_000);
    assert_eq!(expired(&world, leader), [(8, 6)]);
}

#[test]
fn a_member_takes_no_more_questions_than_its_limit() {
    let (mut world, leader, _) = led();
    world.away.insert(leader);
    let question = LeaseQuestion { lease: LEASE, renews: true };
    let questions = (0..=LEASE_QUESTIONS_MAX as u64).map(|ticket| (caller(ticket), question));
    let questions = ToLoop::AskLeases(questions.collect());
    world.members[leader].handle(LoopInput::Front(questions)).unwrap();
    world.turn(leader);
    let last = LEASE_QUESTIONS_MAX as u64;
    assert_eq!(told(&mut world), [(leader, last, Err(NoLeaseTime::TooManyRequests))]);
    assert_eq!(world.members[leader].spaces.etcd.questions.count(), LEASE_QUESTIONS_MAX);
}

#[test]
fn answers_of_another_boot_are_for_nobody() {
    let (mut world, leader, others) = led();
    let asker = others[0];
    ask(&mut world, asker, 1, LEASE, true);
    let answers = vec![(1, Some(LeaseTime { granted_s: 1, left_ms: 1 }))];
    let stale = LeaseTimes { boot: BootId(9), index: LogIndex(1), answers };
    let frame = PeerMessage::LeaseTimes(stale).encode();
    world.members[asker].handle(LoopInput::Peer { from: id(leader), frame }).unwrap();
    world.turn(asker);
    assert_eq!(told(&mut world), []);
    pass(&mut world, 200);
    assert_eq!(told(&mut world), [(asker, 1, Ok(None))]);
}
