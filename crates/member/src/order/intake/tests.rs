//! Tests of giving up commands: where Loop finds each, and what it gives to leaders after that.

use machine::entry::{self, BatchBuilder, encode_identities};
use machine::{Command, LogIndex, SessionId, ZkCommand};

use super::*;
use crate::fronts::zk::tests::rig::{Real, start};
use crate::message::{Fate, FromApply, LoopInput, Submission, ToLoop};
use crate::order::contact::tests::{TICK_MS, World, id};
use crate::spaces::News;

/// Hands over a batch of a Front, with one command from each of these connections. The ticket of a
/// command is ten times its connection.
fn submit(real: &mut Real, front: u32, connections: &[u64]) {
    let nobody = encode_identities([].into_iter());
    let mut builder = BatchBuilder::default();
    for connection in connections {
        let command = Command::Zk(ZkCommand::CloseSession { session: SessionId(1) });
        builder.push(ConnectionId(*connection), &nobody, &command).expect("it fits");
    }
    let waiter = |it: &u64| Waiter::new(ConnectionId(*it), Ticket(10 * it));
    let waiters = connections.iter().map(waiter).collect();
    let (front, batch) = (FrontId(front), builder.finish());
    let submission = Submission { front, batch, waiters };
    real.member.handle(LoopInput::Front(ToLoop::Submit(submission))).unwrap();
}

/// Gives up requests of Front 0, each named by its connection and its ticket.
fn give_up(real: &mut Real, callers: &[(u64, u64)]) {
    let caller = |(connection, ticket): &(u64, u64)| (ConnectionId(*connection), Ticket(*ticket));
    let callers = callers.iter().map(caller).collect();
    real.member.handle(LoopInput::Front(ToLoop::GiveUp(FrontId(0), callers))).unwrap();
}

fn withdraw(real: &mut Real, connections: &[u64]) {
    let connections = connections.iter().copied().map(ConnectionId).collect();
    real.member.handle(LoopInput::Front(ToLoop::Withdraw(FrontId(0), connections))).unwrap();
}

/// The given-up commands that Loop reported to Apply: connection, place, and whether to answer.
fn told(to_apply: &[ToApply]) -> Vec<(u64, GivenUpAt, bool)> {
    let mut told = Vec::new();
    for message in to_apply {
        if let ToApply::GiveUp { front, given_up, is_told } = message {
            assert_eq!(*front, FrontId(0));
            assert!(given_up.iter().all(|it| it.ticket.0 == 10 * it.connection.0));
            told.extend(given_up.iter().map(|it| (it.connection.0, it.at, *is_told)));
        }
    }
    told
}

/// The batches in entries that went to the disk since the last call: for each batch the connections
/// of its remaining commands. Loop's own commands are left out.
fn proposed(real: &mut Real) -> Vec<Vec<u64>> {
    let jobs = core::mem::take(&mut real.jobs);
    let payloads = jobs.iter().flat_map(|job| &job.entries).map(|found| &found.payload);
    let mut batches = Vec::new();
    for payload in payloads.filter(|payload| !payload.is_empty()) {
        let header = entry::verify(payload).unwrap();
        let mut offset = entry::HEADER_BYTES;
        for _ in 0..header.batch_count {
            let batch = entry::decode_batch(payload, offset).unwrap();
            offset = batch.end;
            let commands = batch.commands(0, usize::MAX).unwrap();
            let left = commands.iter().filter(|it| matches!(it.command, Command::Zk(_)));
            batches.push(left.map(|it| it.connection.0).collect());
        }
    }
    batches
}

fn batch(sequence: u64, position: usize, fate: Fate) -> GivenUpAt {
    GivenUpAt::Batch { sequence, position, fate }
}

#[test]
fn without_a_leader_what_is_given_up_has_never_been_anywhere() {
    let mut real = Real::new(start());
    submit(&mut real, 0, &[1, 2, 3]);
    submit(&mut real, 0, &[4, 5]);
    submit(&mut real, 1, &[1]);
    // The request of connection 2 is given up twice in one message, and once more in the next, when
    // Loop no longer has it.
    give_up(&mut real, &[(2, 20), (4, 40), (2, 20), (5, 50)]);
    give_up(&mut real, &[(2, 20)]);
    assert_eq!(real.member.waiting_count(), 2);
    let to_apply = real.finish(0);
    let waiting = |connection| (connection, GivenUpAt::Waiting, true);
    let expected = [waiting(2), waiting(4), waiting(5), (2, GivenUpAt::Nowhere, true)];
    assert_eq!(told(&to_apply), expected);
    // The member leads now: the batch whose commands were all given up is gone, the others are in
    // order.
    assert_eq!(proposed(&mut real), [vec![1, 3], vec![1]]);
}

#[test]
fn a_ticket_names_one_command_of_a_connection_and_a_connection_all() {
    for is_over in [false, true] {
        let mut real = Real::new(start());
        submit(&mut real, 0, &[1, 1, 2]);
        match is_over {
            false => give_up(&mut real, &[(1, 11)]),
            true => withdraw(&mut real, &[1]),
        }
        let to_apply = real.finish(0);
        let others = to_apply.iter().filter(|it| matches!(it, ToApply::GiveUp { .. })).count();
        // Loop does not report a command that is in no batch to Apply, unless a client wants an
        // answer.
        assert_eq!(others, usize::from(!is_over));
        let left = if is_over { vec![2] } else { vec![1, 1, 2] };
        assert_eq!(proposed(&mut real), [left]);
    }
}

#[test]
fn what_an_entry_has_may_take_effect_until_its_outcome_is_known() {
    let mut real = Real::new(start());
    real.finish(0);
    real.jobs.clear();
    submit(&mut real, 0, &[1, 2]);
    submit(&mut real, 0, &[3]);
    real.finish(1);
    assert_eq!(proposed(&mut real), [vec![1, 2], vec![3]]);
    let sequence = 1;
    give_up(&mut real, &[(2, 20)]);
    withdraw(&mut real, &[3]);
    // The commands that were handed over last get into an entry once there is room for one.
    let to_apply = real.finish(2);
    let expected = [
        (2, batch(sequence, 1, Fate::Unknown), true),
        (3, batch(sequence + 1, 0, Fate::Unknown), false),
    ];
    assert_eq!(told(&to_apply), expected);
    let applied = FromApply::Applied {
        index: LogIndex(real.member.status().last_index),
        news: News::default(),
        installed: None,
        image_bytes_max: 0,
        own_sequence: sequence + 1,
    };
    real.persist(usize::MAX);
    real.finish(3);
    real.member.handle(LoopInput::Apply(applied)).unwrap();
    give_up(&mut real, &[(1, 10)]);
    assert_eq!(told(&real.finish(4)), [(1, GivenUpAt::Nowhere, true)]);
    assert_eq!(real.member.held().unapplied_bytes, 0);
}

/// A follower's leader goes away with a command of the follower. The follower or the third member
/// leads next, and has that command in its log, or `Nothing` if the follower has given it up
/// meanwhile.
#[test]
fn the_next_leader_is_given_nothing_in_the_place_of_what_was_given_up() {
    for is_given_up in [false, true] {
        let (mut world, leader, followers) = World::led();
        let at = followers[0];
        world.away.insert(leader);
        world.submit(at);
        world.settle();
        if is_given_up {
            let caller = (ConnectionId(1), Ticket(0));
            let message = ToLoop::GiveUp(FrontId(0), vec![caller]);
            world.members[at].handle(LoopInput::Front(message)).unwrap();
        }
        world.is_apply_slow = true;
        (0..3_000 / TICK_MS).for_each(|_| world.pass(TICK_MS));
        let committed = world.unapplied.iter().filter(|(member, _)| *member == at);
        let payloads = committed.map(|(_, entry)| &entry.payload);
        let mut found = Vec::new();
        for payload in payloads.filter(|payload| !payload.is_empty()) {
            let batch = entry::decode_batch(payload, entry::HEADER_BYTES).unwrap();
            let commands = batch.commands(0, usize::MAX).unwrap();
            let is_own = batch.origin.member == id(at) && batch.sequence == 1;
            let own = commands.into_iter().filter(|it| is_own && it.connection.0 == 1);
            found.extend(own.map(|it| matches!(it.command, Command::Zk(_))));
        }
        assert_eq!(found, [!is_given_up]);
    }
}
