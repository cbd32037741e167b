//! The witness must detect a given-up command that is logged, sent or proposed where it must not
//! be.

use machine::entry::{BatchBuilder, encode_identities};
use machine::{BootId, Level, MemberId, SessionId, ZkCommand};
use member::message::Ticket;
use member::peer::{Forward, ForwardedBatch};
use replica::Entry;

use crate::disk::SimDisk;

use super::*;

const ORIGIN: Origin = Origin { member: MemberId(7), boot: BootId(3) };

/// A batch with one command of each of these connections; the commands of `replaced` are `Nothing`.
fn batch(sequence: u64, connections: &[u64], replaced: &[u64]) -> Bytes {
    let nobody = encode_identities([].into_iter());
    let mut builder = BatchBuilder::default();
    for connection in connections {
        let command = Command::Zk(ZkCommand::CloseSession { session: SessionId(1) });
        builder.push(ConnectionId(*connection), &nobody, &command).expect("it fits");
    }
    let mut batch = builder.finish();
    batch.replace_by_nothing(|_, connection| replaced.contains(&connection.0));
    batch.stamp(ORIGIN, sequence)
}

fn payload(batches: &[Bytes]) -> Bytes {
    entry::encode(0, 0, Level::FIRST, batches)
}

/// A witness of two members.
fn witness() -> Witness {
    Witness::new(true, vec![SimDisk::new(1, false), SimDisk::new(2, false)], false)
}

/// Puts these batches into the log, one per entry, and returns the witness's verdict.
fn check_log(witness: &mut Witness, batches: &[Bytes]) -> Result<GivenUpCounts, String> {
    for (number, batch) in batches.iter().enumerate() {
        let (payload, index) = (payload(core::slice::from_ref(batch)), 2 + number as u64);
        let entry = Entry { index, term: 1, kind: EntryKind::Normal, payload };
        witness.hand_over(0, &entry, 0);
    }
    witness.check_given_up()
}

fn give_up(witness: &mut Witness, sequence: u64, position: usize, fate: Fate) {
    let at = GivenUpAt::Batch { sequence, position, fate };
    let given_up = GivenUp { connection: ConnectionId(1), ticket: Ticket(1), at };
    witness.on_given_up(ORIGIN, &[given_up], 5);
}

#[test]
fn what_no_leader_had_must_not_be_in_the_log() {
    let (all, second_replaced) = (batch(1, &[1, 2], &[]), batch(1, &[1, 2], &[2]));
    for (fate, of, expected) in [
        (Fate::Definite, &all, None),
        (Fate::Definite, &second_replaced, Some(0)),
        (Fate::Unknown, &all, Some(1)),
        (Fate::Unknown, &second_replaced, Some(0)),
    ] {
        let mut witness = witness();
        give_up(&mut witness, 1, 1, fate);
        let found = check_log(&mut witness, core::slice::from_ref(of));
        assert_eq!(found.map(|counts| counts.done).ok(), expected);
    }
    // If a batch is in the log twice, only the first one is applied.
    let mut witness = witness();
    give_up(&mut witness, 1, 1, Fate::Definite);
    assert!(check_log(&mut witness, &[second_replaced, all]).is_ok());
}

#[test]
fn a_connection_that_was_given_up_must_not_have_later_batches() {
    for (last_sequence, expected) in [(0, false), (1, false), (2, true)] {
        let mut witness = witness();
        witness.on_connections_given_up(ORIGIN, &[ConnectionId(4)], last_sequence);
        let log = [batch(1, &[3], &[]), batch(2, &[3, 4], &[]), batch(3, &[4], &[4])];
        assert_eq!(check_log(&mut witness, &log).is_ok(), expected);
    }
}

#[test]
fn what_was_given_up_must_not_be_handed_over_again() {
    let mut witness = witness();
    let (all, replaced) = (batch(1, &[1, 2], &[]), batch(1, &[1, 2], &[2]));
    let sent = |bytes: &Bytes| {
        let (header, _) = entry::check_batch(bytes, 0).unwrap();
        let batches = vec![ForwardedBatch { header, bytes: bytes.clone() }];
        let forward = Forward { boot: ORIGIN.boot, stream: 1, position: 0, batches };
        PeerMessage::Forward(forward).encode()
    };
    assert_eq!(witness.check_sent(ORIGIN, [&sent(&all)]), Ok(()));
    give_up(&mut witness, 1, 1, Fate::Unknown);
    assert!(witness.check_sent(ORIGIN, [&sent(&all)]).is_err());
    assert_eq!(witness.check_sent(ORIGIN, [&sent(&replaced)]), Ok(()));
    // A leader may still propose a command in the term in which it gave the command up.
    assert_eq!(witness.check_proposed(ORIGIN, 5, &payload(core::slice::from_ref(&all))), Ok(()));
    assert!(witness.check_proposed(ORIGIN, 6, &payload(&[all])).is_err());
    assert_eq!(witness.check_proposed(ORIGIN, 6, &payload(&[replaced])), Ok(()));
}
