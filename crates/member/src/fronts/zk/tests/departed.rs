//! Tests of departed connections: Loop is asked to drop their commands once the commands can change
//! nothing.

use machine::{Attachment, BootId, Changes, Mark, Ordinal, ZkChange};

use super::super::*;
use super::rig::*;
use crate::message::{Delivery, Unavailable};

/// A rig whose first client has a session on Front 0, and has handed over two writes that Loop
/// keeps.
fn waiting() -> Rig {
    let mut rig = Rig::default();
    rig.play("c1: connect\nc1~ create /a x | get /a | set /a y");
    assert!(!rig.to_loop.is_empty());
    rig
}

fn session(rig: &Rig) -> SessionId {
    SessionId(rig.clients[&1].session.0)
}

/// Closes the first client's connection.
fn lose(rig: &mut Rig) {
    let id = rig.clients[&1].id;
    rig.fronts[0].on_closed(id);
}

/// Delivers a change to Front 0.
fn tell(rig: &mut Rig, kind: ZkChange) {
    let mut changes = Changes::default();
    let mark = Mark { ordinal: Ordinal(1_000), ..rig.machine.mark() };
    changes.zk.push(mark, kind, "");
    rig.fronts[0].on_delivery(Delivery { changes: changes.into(), answers: Vec::new() });
}

fn attached(session: SessionId, connection: u64) -> ZkChange {
    let origin = Origin { boot: BootId(99), ..ORIGIN };
    let owner = Attachment { origin, connection: ConnectionId(connection) };
    ZkChange::SessionAttached { session, owner, timeout_ms: 4_000 }
}

/// The connections whose commands the next tick asks Loop to give up.
fn given_up(rig: &mut Rig) -> Vec<ConnectionId> {
    rig.fronts[0].on_tick();
    let withdrawn = |message| match message {
        ToLoop::Withdraw(FrontId(0), connections) => connections,
        _ => Vec::new(),
    };
    rig.fronts[0].take_output().to_loop.into_iter().flat_map(withdrawn).collect()
}

/// Delivers answers to the commands with these tickets.
fn answer(rig: &mut Rig, tickets: &[u64]) {
    let connection = rig.clients[&1].id;
    let answer = |ticket: &u64| Answer::Command {
        connection,
        ticket: Ticket(*ticket),
        mark: rig.machine.mark(),
        answered: Err(Unavailable::DiskFull),
        reads: Vec::new(),
    };
    let answers = tickets.iter().map(answer).collect();
    rig.fronts[0].on_delivery(Delivery { changes: Default::default(), answers });
}

#[test]
fn what_a_lost_connection_left_behind_is_given_up_when_its_session_ends_or_moves() {
    for is_lost_first in [true, false] {
        for is_moved in [true, false] {
            let mut rig = waiting();
            let (id, session) = (rig.clients[&1].id, session(&rig));
            if is_lost_first {
                lose(&mut rig);
                assert_eq!(rig.fronts[0].departed_count(), 1);
            }
            assert_eq!(given_up(&mut rig), []);
            match is_moved {
                true => tell(&mut rig, attached(session, 1)),
                false => tell(&mut rig, ZkChange::SessionClosed { session }),
            }
            assert_eq!(rig.fronts[0].departed_count(), 0);
            assert_eq!(given_up(&mut rig), [id]);
            assert_eq!(given_up(&mut rig), []);
        }
    }
}

#[test]
fn while_the_session_lives_nothing_is_given_up() {
    let mut rig = waiting();
    let session = session(&rig);
    lose(&mut rig);
    let other = SessionId(session.0 + 1);
    tell(&mut rig, ZkChange::SessionClosed { session: other });
    tell(&mut rig, attached(other, 7));
    assert_eq!(given_up(&mut rig), []);
    assert_eq!(rig.fronts[0].departed_count(), 1);
    // The commands take effect.
    rig.run();
    assert_eq!(rig.machine.zk().tree().find("/a").map(|it| it.stat().version), Some(1));
    assert_eq!(rig.fronts[0].departed_count(), 0);
}

#[test]
fn a_connection_is_kept_until_its_last_command_is_answered() {
    let mut rig = waiting();
    let session = session(&rig);
    lose(&mut rig);
    // The connect request has the first ticket, and the read between the writes has one too.
    answer(&mut rig, &[1]);
    assert_eq!(rig.fronts[0].departed_count(), 1);
    answer(&mut rig, &[2]);
    assert_eq!(rig.fronts[0].departed_count(), 1);
    answer(&mut rig, &[3]);
    assert_eq!(rig.fronts[0].departed_count(), 0);
    tell(&mut rig, ZkChange::SessionClosed { session });
    assert_eq!(given_up(&mut rig), []);
}

#[test]
fn who_leaves_nothing_behind_is_not_kept() {
    for script in ["c1: connect", "c1: connect\nc1: create /a x\nc1~ ping", "c1~ raw 00"] {
        let mut rig = Rig::default();
        rig.play(script);
        lose(&mut rig);
        assert_eq!(rig.fronts[0].departed_count(), 0, "{script}");
    }
}

/// A client sends a write after the request that ends its session.
#[test]
fn what_was_sent_behind_the_end_of_a_session_is_given_up() {
    let mut rig = Rig::default();
    rig.play("c1: connect\nc1~ bye | create /a x");
    let id = rig.clients[&1].id;
    rig.line("hold 1");
    rig.line("loop");
    rig.line("apply 1");
    rig.step_deliver();
    assert_eq!(rig.fronts[0].departed_count(), 0);
    assert_eq!(given_up(&mut rig), [id]);
    rig.run();
    assert!(rig.machine.zk().tree().find("/a").is_none());
}

#[test]
fn a_snapshot_that_replaces_the_state_ends_what_is_kept() {
    let mut rig = waiting();
    lose(&mut rig);
    let mut changes = Changes::default();
    changes.on_snapshot(&rig.machine);
    rig.fronts[0].on_delivery(Delivery { changes: changes.into(), answers: Vec::new() });
    assert_eq!(rig.fronts[0].departed_count(), 0);
}

#[test]
fn no_more_are_kept_than_the_limit() {
    let limit = crate::fronts::zk::limits::DEPARTED_CONNECTIONS_MAX;
    let mut departed = Departed::default();
    let id = |number: usize| ConnectionId(number as u64);
    (0..=limit).for_each(|number| departed.insert(id(number), SessionId(1), Ticket(5)));
    assert_eq!(departed.len(), limit);
    departed.on_answer(id(3), Ticket(4));
    assert_eq!(departed.len(), limit);
    departed.on_answer(id(3), Ticket(5));
    departed.insert(id(3), SessionId(2), Ticket(5));
    departed.insert(id(limit), SessionId(2), Ticket(5));
    assert_eq!(departed.len(), limit);
    assert_eq!(departed.end(SessionId(2)), [id(3)]);
    assert_eq!(departed.end(SessionId(1)).len(), limit - 1);
    assert_eq!((departed.len(), departed.end(SessionId(1)).len()), (0, 0));
}
