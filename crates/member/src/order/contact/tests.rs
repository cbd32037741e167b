//! Tests with three Loops whose disks answer at once and whose Applies change nothing: which
//! members have contact, and which batches are handed over again after a silence.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use machine::{BootId, Command, Level, MemberId, Origin, SessionChange, SessionId, ZkCommand};
use replica::{Membership, Role};

use super::super::tests::{applied_up_to, applied_with, news_of};
use super::*;
use crate::Loop;
use crate::fronts::zk::tests::rig::{options, own_batch, plenty_of_room, start};
use crate::limits::{HEARTBEAT_QUIET_MS, QUIET_TIMEOUT_MS_MIN};
use crate::membership::hello::Known;
use crate::membership::servers::LinkedServer;
use crate::message::{
    Caller, FromApply, FrontId, LeaseAnswered, LoopInput, Submission, Ticket, ToApply, ToLoop,
    Waiter,
};
use crate::order::forward::Forwarder;
use crate::order::limits::FULL_LASTS_MS;
use crate::order::limits::PROOF_SILENCE_MS;
use crate::order::{Options, Start};
use crate::peer::{PeerFrame, PeerMessage};

pub(in crate::order) const TICK_MS: u64 = 20;

pub(in crate::order) struct World {
    pub members: Vec<Loop>,
    /// Members that are cut off: they neither hear others nor are heard.
    pub away: BTreeSet<usize>,
    flying: VecDeque<(usize, usize, PeerFrame)>,
    /// The sender of each piece of a stream that was forwarded to the leader.
    pub forwarded: Vec<usize>,
    /// The member of each command that was refused.
    refused: Vec<usize>,
    /// Whether committed entries stay unapplied.
    pub is_apply_slow: bool,
    pub unapplied: Vec<(usize, replica::Entry)>,
    /// The level that a member reported, each time that it rose.
    pub raised: Vec<(usize, Level)>,
    /// The answers about leases that members gave to their Apply, with the index that must be
    /// applied first.
    pub lease_times: Vec<(usize, LogIndex, Caller, LeaseAnswered)>,
    /// Committed entries, as each member handed them to its Apply.
    pub committed: Vec<(usize, replica::Entry)>,
}

pub(in crate::order) fn id(at: usize) -> MemberId {
    MemberId(at as u64 + 1)
}

pub(in crate::order) fn linked(at: usize, level_max: Level) -> LinkedServer {
    LinkedServer { level_max, program: "0.1.0".to_string(), ..LinkedServer::of(at as u64 + 1) }
}

fn member(at: usize, membership: &Membership, level_max: Level) -> Loop {
    let origin = Origin { member: id(at), boot: BootId(1) };
    let mut restored = start().restored;
    restored.membership = membership.clone();
    let (seed, server, raft_tick_ms) = (at as u64, at as u64 + 1, TICK_MS);
    let known = Known::up_to(level_max);
    let options = Options { server, raft_tick_ms, known, ..options() };
    let start = Start { origin, seed, restored, options, ..start() };
    let mut member = Loop::new(start).unwrap();
    member.handle(plenty_of_room()).unwrap();
    member
}

impl World {
    /// Three members, after one was elected and got contact. Returns the leader and the followers.
    pub fn led() -> (World, usize, Vec<usize>) {
        World::led_with(&Membership::from_voters([1, 2, 3]))
    }

    fn led_with(membership: &Membership) -> (World, usize, Vec<usize>) {
        World::led_knowing(membership, [Level::RELEASED; 3])
    }

    /// Like `led`, with members that each know levels up to the one given.
    pub fn led_knowing(membership: &Membership, known: [Level; 3]) -> (World, usize, Vec<usize>) {
        let mut world = World {
            members: (0..3).map(|at| member(at, membership, known[at])).collect(),
            away: BTreeSet::new(),
            flying: VecDeque::new(),
            forwarded: Vec::new(),
            refused: Vec::new(),
            is_apply_slow: false,
            unapplied: Vec::new(),
            raised: Vec::new(),
            lease_times: Vec::new(),
            committed: Vec::new(),
        };
        for (at, other) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] {
            world.members[at].handle(LoopInput::Link { peer: id(other), is_up: true }).unwrap();
            world.members[at]
                .handle(LoopInput::Linked {
                    peer: id(other),
                    server: Some(linked(other, known[other])),
                })
                .unwrap();
        }
        (0..100).for_each(|_| world.pass(TICK_MS));
        let leads = |at: &usize| world.members[*at].status().role == Role::Leader;
        let leader = (0..3).find(leads).expect("one leads after two seconds");
        let followers = (0..3).filter(|at| *at != leader).collect();
        (world, leader, followers)
    }

    /// Lets `ms` pass at every member, runs each once, and delivers the messages that they send.
    pub fn pass(&mut self, ms: u64) {
        (0..3).for_each(|at| self.run(at, ms));
        self.settle();
    }

    fn run(&mut self, at: usize, ms: u64) {
        self.members[at].pass(ms);
        self.turn(at);
    }

    pub fn settle(&mut self) {
        while let Some((from, to, frame)) = self.flying.pop_front() {
            if !self.away.contains(&from) && !self.away.contains(&to) {
                self.members[to]
                    .handle(LoopInput::Peer { from: id(from), frame })
                    .expect("a correct member");
                self.turn(to);
            }
        }
    }

    pub fn turn(&mut self, at: usize) {
        loop {
            let output = self.members[at].finish(0);
            for (to, frame) in output.peers {
                let message = PeerMessage::decode(id(at), frame.clone()).unwrap();
                if let PeerMessage::Forward(_) = message {
                    self.forwarded.push(at);
                }
                self.flying.push_back((at, to.0 as usize - 1, frame));
            }
            self.raised.extend(output.raised.map(|stated| (at, stated.level)));
            for job in &output.disk {
                self.members[at].handle(LoopInput::Persisted(job.id)).unwrap();
            }
            let mut is_quiet = output.disk.is_empty();
            for message in output.apply {
                match message {
                    ToApply::Entries(entries) => {
                        is_quiet = false;
                        let entries = entries.into_iter().map(|entry| (at, entry));
                        self.unapplied.extend(entries.clone());
                        self.committed.extend(entries);
                    }
                    ToApply::Refuse { .. } => self.refused.push(at),
                    ToApply::LeaseTimes { index, answers } => {
                        let told = answers.into_iter().map(|(of, told)| (at, index, of, told));
                        self.lease_times.extend(told);
                    }
                    _ => {}
                }
            }
            if !self.is_apply_slow {
                self.apply();
            }
            if is_quiet {
                return;
            }
        }
    }

    fn apply(&mut self) {
        for (at, entry) in std::mem::take(&mut self.unapplied) {
            let member = &mut self.members[at];
            let header = machine::entry::decode_header(&entry.payload);
            if let Ok(level) = header.map(|header| header.level)
                && level > member.level()
            {
                member.handle(LoopInput::Apply(FromApply::Raised(level.into()))).unwrap();
            }
            member.handle(LoopInput::Apply(applied_up_to(entry.index))).unwrap();
        }
    }

    pub fn submit(&mut self, at: usize) {
        let batch = own_batch(1, &Command::Zk(ZkCommand::CloseSession { session: SessionId(1) }));
        let waiters = vec![Waiter::new(machine::ConnectionId(1), Ticket(0))];
        let submission = Submission { front: FrontId(0), batch, waiters };
        self.members[at].handle(LoopInput::Front(ToLoop::Submit(submission))).unwrap();
        self.turn(at);
    }

    fn contact_ms(&self, at: usize) -> u64 {
        self.members[at].contact_ms().expect("there are others")
    }

    /// Ends a member's time away: its links to the others are made again.
    pub fn link_anew(&mut self, at: usize) {
        self.away.remove(&at);
        for other in (0..3).filter(|other| *other != at) {
            self.members[at].handle(LoopInput::Link { peer: id(other), is_up: true }).unwrap();
            self.members[other].handle(LoopInput::Link { peer: id(at), is_up: true }).unwrap();
        }
    }
}

#[test]
fn all_have_contact_while_all_are_there() {
    let (mut world, ..) = World::led();
    for _ in 0..100 {
        world.pass(TICK_MS);
        for at in 0..3 {
            assert!(world.contact_ms(at) <= 500, "{}", world.contact_ms(at));
        }
    }
}

/// The number of heartbeats that a leader sends to one other member within a second, including
/// those that raft-rs sends by itself every 380 ms.
fn beats_of_a_second(world: &mut World, leader: usize, other: usize) -> usize {
    let mut beats = 0;
    for _ in 0..1_000 / TICK_MS {
        world.run(leader, TICK_MS);
        let is_beat = |(_, to, frame): &&(usize, usize, PeerFrame)| {
            let decoded = PeerMessage::decode(id(leader), frame.clone());
            *to == other && matches!(decoded, Ok(PeerMessage::Raft(_)))
        };
        beats += world.flying.iter().filter(is_beat).count();
        (0..3).filter(|at| *at != leader).for_each(|at| world.run(at, TICK_MS));
        world.settle();
    }
    beats
}

#[test]
fn heartbeats_are_rare_while_nothing_is_written_and_no_session_is_short() {
    let (mut world, leader, others) = World::led();
    let mut servers = machine::Servers::default();
    (0..3).for_each(|at| servers.register(id(at), at as u64 + 1));
    world.members[leader].handle(LoopInput::Apply(FromApply::Servers(Arc::new(servers)))).unwrap();
    let beats = |world: &mut World| beats_of_a_second(world, leader, others[0]);
    let attached = |session, timeout_ms| {
        let (session, attached) = (SessionId(session), machine::Ordinal(1));
        vec![SessionChange::Attached { session, attached, timeout_ms }]
    };
    let close = |session| vec![SessionChange::Ended(SessionId(session))];
    let told = |world: &mut World, events| {
        let index = world.members[leader].status().applied_index;
        let message = applied_with(index, news_of(events));
        world.members[leader].handle(LoopInput::Apply(message)).unwrap();
    };
    (0..2).for_each(|_| _ = beats(&mut world));
    assert!((5..=8).contains(&beats(&mut world)));
    world.submit(leader);
    world.settle();
    assert!(beats(&mut world) >= 11);
    beats(&mut world);
    assert!((5..=8).contains(&beats(&mut world)));
    told(&mut world, attached(1, QUIET_TIMEOUT_MS_MIN));
    assert!((5..=8).contains(&beats(&mut world)));
    told(&mut world, attached(2, QUIET_TIMEOUT_MS_MIN - 1));
    assert!(beats(&mut world) >= 11);
    told(&mut world, close(1));
    assert!(beats(&mut world) >= 11);
    told(&mut world, close(2));
    assert!((5..=8).contains(&beats(&mut world)));
}

#[test]
fn heartbeats_are_never_rare_where_a_short_session_may_be_opened() {
    let (mut world, leader, others) = World::led();
    world.members[leader].contact.admits_short = true;
    (0..2).for_each(|_| _ = beats_of_a_second(&mut world, leader, others[0]));
    assert!(beats_of_a_second(&mut world, leader, others[0]) >= 9);
    assert!(Contact::new(QUIET_TIMEOUT_MS_MIN - 1).admits_short);
    assert!(!Contact::new(QUIET_TIMEOUT_MS_MIN).admits_short);
}

#[test]
fn a_leader_that_is_cut_off_loses_contact_however_seldom_it_runs() {
    let (mut world, leader, _) = World::led();
    let silent_ms = world.contact_ms(leader);
    // The answers of the others are read only much later.
    world.members[leader].pass(TICK_MS);
    world.turn(leader);
    let late: Vec<_> = world.flying.drain(..).collect();
    world.away.insert(leader);
    let mut cut_ms = TICK_MS;
    for round in 0..5 {
        // The leader's process runs only 100 ms of every 2,500.
        for ms in [2_400, 20, 20, 20, 20, 20] {
            world.run(leader, ms);
            cut_ms += ms;
        }
        if round == 0 {
            // Answers to questions from before the pause arrive.
            for (_, to, frame) in late.clone() {
                world.members[to].handle(LoopInput::Peer { from: id(leader), frame }).unwrap();
                world.turn(to);
            }
            let answers: Vec<_> =
                world.flying.drain(..).filter(|(from, ..)| *from != leader).collect();
            for (from, _, frame) in answers {
                world.members[leader].handle(LoopInput::Peer { from: id(from), frame }).unwrap();
                world.turn(leader);
            }
        }
        let contact_ms = world.contact_ms(leader);
        assert!(contact_ms + silent_ms + 2 * TICK_MS >= cut_ms, "{contact_ms} of {cut_ms}");
    }
}

#[test]
fn behind_a_short_silence_batches_are_handed_over_again_at_once() {
    let (mut world, _, followers) = World::led();
    let at = followers[0];
    world.submit(at);
    world.settle();
    assert_eq!(world.forwarded, [at]);
    world.away.insert(at);
    (0..10).for_each(|_| world.run(at, TICK_MS));
    world.link_anew(at);
    world.turn(at);
    assert_eq!(world.forwarded, [at, at]);
}

/// After a long silence another member may have taken this one's place, and the state may have
/// forgotten this one.
#[test]
fn behind_a_long_silence_batches_are_handed_over_again_once_what_is_committed_is_applied() {
    let (mut world, leader, followers) = World::led();
    let at = followers[0];
    world.submit(at);
    world.settle();
    world.away.insert(at);
    world.run(at, PROOF_SILENCE_MS);
    world.submit(leader);
    world.settle();
    world.is_apply_slow = true;
    world.link_anew(at);
    (0..30).for_each(|_| world.pass(TICK_MS));
    assert_eq!(world.members[at].status().leader, Some(id(leader).0));
    assert_eq!(world.forwarded, [at]);
    world.is_apply_slow = false;
    world.apply();
    world.pass(TICK_MS);
    assert_eq!(world.forwarded, [at, at]);
}

#[test]
fn what_is_handed_over_by_a_member_that_is_none_is_not_taken() {
    let (mut world, leader, followers) = World::led();
    for (from, taken) in [(MemberId(77), 0), (id(followers[0]), 1)] {
        let mut forwarder = Forwarder::new(Origin { member: from, boot: BootId(9) });
        let command = Command::Zk(ZkCommand::CloseSession { session: SessionId(1) });
        forwarder.push(own_batch(1, &command), None);
        let frame = forwarder.forward().unwrap().encode();
        let before = world.members[leader].status().last_index;
        world.members[leader].handle(LoopInput::Peer { from, frame }).unwrap();
        world.turn(leader);
        assert_eq!(world.members[leader].status().last_index, before + taken);
    }
}

/// A learner of a server that serves read-only clients has clients before it is ready.
#[test]
fn a_learner_hands_over_nothing_and_is_not_ready() {
    let membership = Membership { learners: vec![3], ..Membership::from_voters([1, 2]) };
    let (mut world, leader, _) = World::led_with(&membership);
    let learner = 2;
    assert_eq!(world.members[learner].status().leader, Some(id(leader).0));
    world.submit(learner);
    (0..50).for_each(|_| world.pass(TICK_MS));
    assert_eq!((world.forwarded.len(), world.members[learner].progress.is_ready()), (0, false));
    let follower = 1 - leader;
    world.submit(follower);
    assert_eq!(
        (world.forwarded, world.members[follower].progress.is_ready()),
        (vec![follower], true)
    );
}

/// A new leader may report that its disk is full before its followers know that it leads.
#[test]
fn a_disk_that_is_full_is_heeded_although_its_member_does_not_lead_yet() {
    let (mut world, leader, followers) = World::led();
    let [next, other] = followers[..] else { panic!("{followers:?}") };
    let full = PeerMessage::Full(true).encode();
    world.members[other].handle(LoopInput::Peer { from: id(next), frame: full }).unwrap();
    world.submit(other);
    assert_eq!(world.refused, []);
    assert!(world.members[leader].hand_over(Some(id(next))));
    (0..5).for_each(|_| world.pass(TICK_MS));
    assert_eq!(world.members[other].status().leader, Some(id(next).0));
    world.submit(other);
    assert_eq!(world.refused, [other]);
    world.members[other]
        .handle(LoopInput::Peer { from: id(next), frame: PeerMessage::Full(false).encode() })
        .unwrap();
    world.submit(other);
    assert_eq!(world.refused, [other]);
}

/// The message that a disk has room again may be lost.
#[test]
fn a_disk_that_was_full_is_not_taken_for_full_for_ever() {
    let (mut world, leader, followers) = World::led();
    let at = followers[0];
    world.members[at]
        .handle(LoopInput::Peer { from: id(leader), frame: PeerMessage::Full(true).encode() })
        .unwrap();
    world.submit(at);
    assert_eq!(world.refused, [at]);
    for _ in 0..FULL_LASTS_MS / TICK_MS {
        world.pass(TICK_MS);
    }
    world.submit(at);
    assert_eq!(world.refused, [at]);
}

#[test]
fn time_before_a_heartbeat_does_not_count_for_an_election() {
    let (mut world, leader, followers) = World::led();
    let at = followers[0];
    let wait_ticks = |world: &World| world.members[at].replica.ticks_until_election().unwrap();
    (0..6).for_each(|_| world.pass(TICK_MS));
    world.members[leader].pass(HEARTBEAT_QUIET_MS);
    world.turn(leader);
    // The member sleeps until the heartbeat arrives.
    world.members[at].advance(HEARTBEAT_QUIET_MS);
    world.settle();
    let after_heartbeat = wait_ticks(&world);
    world.members[at].on_time();
    assert_eq!(wait_ticks(&world), after_heartbeat);
    assert!(after_heartbeat * TICK_MS >= 2 * HEARTBEAT_QUIET_MS - TICK_MS);
}
