//! Tests of forwarding: which batches of a stream a leader takes, whatever is lost or repeated on
//! the way.

use machine::entry::{BatchBuilder, encode_identities};
use machine::{Command, ConnectionId, SessionId, ZkCommand};

use machine::MemberId;

use super::*;
use crate::leader::followed::Followed;

const ORIGIN: Origin = Origin { member: MemberId(7), boot: BootId(3) };
const OTHER: MemberId = MemberId(7);

fn batch_of(bytes: usize) -> UnstampedBatch {
    let nobody = encode_identities([].into_iter());
    let mut builder = BatchBuilder::default();
    let data = vec![b'x'; bytes];
    let (path, malformed, version) = ("/a", false, -1);
    let op = machine::Op::SetData { path, malformed, data: Some(&data), version };
    builder
        .push(
            ConnectionId(1),
            &nobody,
            &Command::Zk(ZkCommand::Write { session: SessionId(1), op }),
        )
        .expect("it fits");
    builder.finish()
}

/// The caller for a batch that [`batch_of`] makes.
fn callers() -> Option<Callers> {
    Some(Callers { front: FrontId(0), tickets: [Ticket(1)].into() })
}

fn with_batches(count: u64) -> Forwarder {
    let mut forwarder = Forwarder::new(ORIGIN);
    for sequence in 1..=count {
        assert_eq!(forwarder.push(batch_of(10), callers()), sequence);
    }
    forwarder
}

/// A piece of the stream with this number, at this position, whose batches have these sequences.
fn piece(stream: u64, position: u64, sequences: impl IntoIterator<Item = u64>) -> Forward {
    let batch = |sequence| {
        let header =
            BatchHeader { origin: ORIGIN, sequence, command_count: 1, level: Level::FIRST };
        ForwardedBatch { header, bytes: batch_of(10).stamp(ORIGIN, sequence) }
    };
    let batches = sequences.into_iter().map(batch).collect();
    Forward { boot: ORIGIN.boot, stream, position, batches }
}

fn sequences(batches: &[ForwardedBatch]) -> Vec<u64> {
    batches.iter().map(|batch| batch.header.sequence).collect()
}

fn forwarded(forwarder: &mut Forwarder) -> Option<(u64, u64, Vec<u64>)> {
    match forwarder.forward()? {
        PeerMessage::Forward(it) => Some((it.stream, it.position, sequences(&it.batches))),
        message => panic!("{message:?}"),
    }
}

#[test]
fn a_stream_goes_on_where_it_stopped_and_restarts_with_what_is_not_applied() {
    let mut forwarder = with_batches(3);
    assert_eq!(forwarded(&mut forwarder), Some((1, 0, vec![1, 2, 3])));
    assert_eq!(forwarded(&mut forwarder), None);
    forwarder.push(batch_of(10), callers());
    assert_eq!(forwarded(&mut forwarder), Some((1, 1, vec![4])));
    forwarder.on_applied(2);
    assert_eq!(forwarded(&mut forwarder), None);
    forwarder.restart();
    assert_eq!(forwarded(&mut forwarder), Some((2, 0, vec![3, 4])));
    forwarder.on_applied(4);
    forwarder.restart();
    assert_eq!(forwarded(&mut forwarder), None);
    assert_eq!(forwarder.unapplied_bytes(), 0);
}

#[test]
fn what_is_under_way_to_a_leader_is_bounded_but_one_batch_always_goes() {
    let mut forwarder = Forwarder::new(ORIGIN);
    for _ in 0..3 {
        forwarder.push(batch_of(FORWARD_BYTES_MAX), callers());
    }
    assert_eq!(forwarded(&mut forwarder), Some((1, 0, vec![1])));
    assert_eq!(forwarded(&mut forwarder), None);
    forwarder.on_applied(1);
    assert_eq!(forwarded(&mut forwarder), Some((1, 1, vec![2])));
}

#[test]
fn a_restart_is_asked_for_by_boot_and_stream() {
    let mut forwarder = with_batches(1);
    forwarder.forward();
    for (boot, stream) in [(2, 1), (3, 0), (3, 2)] {
        forwarder.on_restart(BootId(boot), stream);
        assert_eq!(forwarded(&mut forwarder), None, "{boot} {stream}");
    }
    forwarder.on_restart(BootId(3), 1);
    assert_eq!(forwarded(&mut forwarder), Some((2, 0, vec![1])));
}

#[test]
fn silence_counts_while_something_is_under_way() {
    let mut forwarder = with_batches(2);
    assert!(!forwarder.is_silent_after(2 * FORWARD_SILENCE_MS));
    forwarder.forward();
    assert!(!forwarder.is_silent_after(FORWARD_SILENCE_MS - 1));
    forwarder.on_applied(1);
    assert!(!forwarder.is_silent_after(FORWARD_SILENCE_MS - 1));
    assert!(forwarder.is_silent_after(1));
    forwarder.on_applied(2);
    assert!(!forwarder.is_silent_after(FORWARD_SILENCE_MS));
}

#[test]
fn what_loop_wanted_as_a_leader_keeps_its_place_without_commands() {
    let mut forwarder = Forwarder::new(ORIGIN);
    forwarder.push(batch_of(10), callers());
    forwarder.push(batch_of(10), None);
    forwarder.push(batch_of(10), callers());
    let before = forwarder.unapplied_bytes();
    forwarder.empty_own_batches();
    assert!(forwarder.unapplied_bytes() < before);
    let Some(PeerMessage::Forward(forward)) = forwarder.forward() else {
        panic!("there are three")
    };
    let counts: Vec<u32> = forward.batches.iter().map(|it| it.header.command_count).collect();
    assert_eq!(counts, [1, 0, 1]);
    for batch in &forward.batches {
        let (header, end) = machine::entry::check_batch(&batch.bytes, 0).unwrap();
        assert_eq!((header, end), (batch.header, batch.bytes.len()));
    }
    forwarder.on_applied(3);
    assert_eq!(forwarder.unapplied_bytes(), 0);
}

/// Gives a leader these pieces one after the other, and checks the result of each: the sequences
/// that it takes, "again" if it asks for a new stream, `None` if it drops the piece.
fn check(pieces: &[Forward], expected: &str) {
    let mut followed = Followed::default();
    let said: Vec<String> = pieces
        .iter()
        .map(|piece| match followed.take(OTHER, piece.clone()) {
            Ok(batches) => format!("{:?}", sequences(&batches)),
            Err(Some(PeerMessage::Restart { stream, .. })) => format!("again {stream}"),
            Err(answer) => format!("{answer:?}"),
        })
        .collect();
    assert_eq!(said.join(" "), expected);
}

#[test]
fn a_leader_takes_what_is_next_and_nothing_twice() {
    check(&[piece(4, 0, 9..=10), piece(4, 1, 11..=11)], "[9, 10] [11]");
    // Pieces that are repeated, lost or reordered.
    check(&[piece(4, 0, 1..=2), piece(4, 0, 1..=2), piece(4, 1, 3..=3)], "[1, 2] None [3]");
    check(&[piece(4, 0, 1..=2), piece(4, 2, 4..=4), piece(4, 1, 3..=3)], "[1, 2] again 4 [3]");
    check(&[piece(4, 1, 3..=3), piece(4, 0, 1..=2), piece(4, 1, 3..=3)], "again 4 [1, 2] [3]");
    // A new stream begins with the first batch that is not applied at the follower; the leader has
    // taken some of these batches already.
    check(&[piece(4, 0, 1..=3), piece(5, 0, 2..=5), piece(4, 1, 4..=4)], "[1, 2, 3] [4, 5] None");
    check(&[piece(4, 0, 1..=3), piece(6, 1, 4..=4), piece(6, 0, 1..=3)], "[1, 2, 3] again 6 []");
    // An earlier leader took the batches with the sequences in between.
    check(&[piece(4, 0, 1..=1), piece(5, 0, 8..=9)], "[1] [8, 9]");
}

#[test]
fn another_boot_begins_anew_and_an_older_one_is_not_heard() {
    let next = |mut piece: Forward| {
        piece.boot = BootId(4);
        piece
    };
    check(
        &[
            piece(9, 0, 5..=6),
            next(piece(1, 0, 1..=2)),
            piece(9, 1, 7..=7),
            next(piece(1, 1, 3..=3)),
        ],
        "[5, 6] [1, 2] None [3]",
    );
}

#[test]
fn a_leader_that_is_one_anew_takes_whatever_a_stream_begins_with() {
    let mut followed = Followed::default();
    followed.take(OTHER, piece(4, 0, 1..=3)).unwrap();
    let mut followed = Followed::default();
    assert!(followed.take(OTHER, piece(4, 1, 4..=4)).is_err());
    let taken = followed.take(OTHER, piece(5, 0, 2..=4)).unwrap();
    assert_eq!(sequences(&taken), [2, 3, 4]);
}

/// Pushes a batch with one command from each connection from 1 to `count`, whose tickets are ten
/// times the connection.
fn push_of(forwarder: &mut Forwarder, front: u32, count: u64) -> u64 {
    let nobody = encode_identities([].into_iter());
    let mut builder = BatchBuilder::default();
    for connection in 1..=count {
        let command = Command::Zk(ZkCommand::CloseSession { session: SessionId(1) });
        builder.push(ConnectionId(connection), &nobody, &command).expect("it fits");
    }
    let tickets = (1..=count).map(|connection| Ticket(10 * connection)).collect();
    forwarder.push(builder.finish(), Some(Callers { front: FrontId(front), tickets }))
}

/// Gives the leader all it may get: the sequence of each batch, and the connections of its commands
/// that are not `Nothing`.
fn given(forwarder: &mut Forwarder) -> Vec<(u64, Vec<u64>)> {
    let Some(PeerMessage::Forward(forward)) = forwarder.forward() else { return Vec::new() };
    let left = |batch: &ForwardedBatch| {
        let (header, end) = entry::check_batch(&batch.bytes, 0).unwrap();
        assert_eq!((header, end), (batch.header, batch.bytes.len()));
        let decoded = entry::decode_batch(&batch.bytes, 0).unwrap();
        let commands = decoded.commands(0, usize::MAX).unwrap();
        let commands = commands.iter().filter(|it| matches!(it.command, Command::Zk(_)));
        (header.sequence, commands.map(|it| it.connection.0).collect())
    };
    forward.batches.iter().map(left).collect()
}

/// Gives up the commands of these connections of Front 0, and returns where each was: sequence,
/// position, and whether no leader had it (`Fate::Definite`).
fn give_up(forwarder: &mut Forwarder, connections: &[u64]) -> Vec<(u64, usize, bool)> {
    let is_given_up = |connection: ConnectionId, ticket: Ticket| {
        assert_eq!(ticket.0, 10 * connection.0);
        connections.contains(&connection.0)
    };
    let place = |it: GivenUp| {
        let GivenUpAt::Batch { sequence, position, fate } = it.at else { panic!("{it:?}") };
        assert_eq!((it.connection.0 - 1, it.ticket.0), (position as u64, 10 * it.connection.0));
        (sequence, position, fate == Fate::Definite)
    };
    forwarder.give_up(FrontId(0), is_given_up).into_iter().map(place).collect()
}

/// Checks that the counters of bytes equal the bytes of the kept batches.
fn check_bytes(forwarder: &Forwarder) {
    let bytes = |count: usize| {
        let kept = forwarder.unapplied.iter().take(count);
        kept.map(|unapplied| unapplied.batch.bytes.len()).sum::<usize>()
    };
    assert_eq!(forwarder.unapplied_bytes, bytes(usize::MAX));
    assert_eq!(forwarder.given_bytes, bytes(forwarder.given));
}

#[test]
fn what_is_given_up_before_a_leader_has_it_is_given_to_none() {
    let mut forwarder = Forwarder::new(ORIGIN);
    push_of(&mut forwarder, 0, 3);
    push_of(&mut forwarder, 1, 2);
    push_of(&mut forwarder, 0, 1);
    assert_eq!(give_up(&mut forwarder, &[]), []);
    assert_eq!(give_up(&mut forwarder, &[1, 3]), [(1, 0, true), (1, 2, true), (3, 0, true)]);
    check_bytes(&forwarder);
    // The connections of another Front have the same numbers, but their commands stay.
    assert_eq!(given(&mut forwarder), [(1, vec![2]), (2, vec![1, 2]), (3, vec![])]);
    check_bytes(&forwarder);
    // Now the leader has all batches. Some commands are given up a second time, the others for the
    // first.
    assert_eq!(give_up(&mut forwarder, &[1, 2, 3]), [(1, 1, false)]);
    forwarder.on_applied(3);
    assert_eq!((forwarder.unapplied_bytes, forwarder.given_bytes), (0, 0));
}

#[test]
fn what_is_given_up_after_a_leader_had_it_is_given_to_the_next_one_as_nothing() {
    let mut forwarder = Forwarder::new(ORIGIN);
    push_of(&mut forwarder, 0, 2);
    push_of(&mut forwarder, 0, 2);
    assert_eq!(given(&mut forwarder), [(1, vec![1, 2]), (2, vec![1, 2])]);
    push_of(&mut forwarder, 0, 2);
    // The last batch was not given to any leader.
    assert_eq!(give_up(&mut forwarder, &[1]), [(1, 0, false), (2, 0, false), (3, 0, true)]);
    check_bytes(&forwarder);
    forwarder.restart();
    check_bytes(&forwarder);
    // After a change of leader, the new one has not got the batches yet, but the log may still hold
    // them.
    assert_eq!(give_up(&mut forwarder, &[2]), [(1, 1, false), (2, 1, false), (3, 1, true)]);
    let emptied: Vec<(u64, Vec<u64>)> = (1..=3).map(|sequence| (sequence, vec![])).collect();
    assert_eq!(given(&mut forwarder), emptied);
    forwarder.on_applied(1);
    forwarder.restart();
    assert_eq!(given(&mut forwarder), emptied[1..]);
    check_bytes(&forwarder);
    forwarder.on_applied(3);
    assert_eq!(give_up(&mut forwarder, &[1, 2]), []);
    assert_eq!((forwarder.unapplied_bytes, forwarder.given_bytes), (0, 0));
}

/// A leader gives up commands of its own clients: an entry that it has proposed still has them and
/// may get into the log, but the next leader gets `Nothing` in their place.
#[test]
fn an_entry_of_this_member_has_what_is_given_up_and_what_is_sent_again_has_not() {
    let mut forwarder = Forwarder::new(ORIGIN);
    push_of(&mut forwarder, 0, 2);
    let proposed = forwarder.give();
    assert_eq!(give_up(&mut forwarder, &[2]), [(1, 1, false)]);
    assert_eq!(proposed.header.command_count, 2);
    forwarder.empty_own_batches();
    forwarder.restart();
    assert!(forwarder.is_resending());
    assert_eq!(given(&mut forwarder), [(1, vec![1])]);
}

/// A new start keeps no batch of the previous start, and counts its own batches from 1.
#[test]
fn another_start_sends_nothing_of_what_the_one_before_gave_up() {
    let mut before = Forwarder::new(ORIGIN);
    push_of(&mut before, 0, 1);
    given(&mut before);
    give_up(&mut before, &[1]);
    let mut forwarder = Forwarder::new(Origin { boot: BootId(4), ..ORIGIN });
    assert_eq!(give_up(&mut forwarder, &[1]), []);
    assert_eq!(given(&mut forwarder), []);
    assert_eq!(push_of(&mut forwarder, 0, 1), 1);
    assert_eq!(given(&mut forwarder), [(1, vec![1])]);
}

/// Loop's own batches, and batches without waiters, cannot be given up.
#[test]
fn what_nobody_waits_for_is_never_given_up() {
    let mut forwarder = Forwarder::new(ORIGIN);
    forwarder.push(batch_of(10), None);
    forwarder.push(batch_of(10), Some(Callers { front: FrontId(0), tickets: [].into() }));
    assert_eq!(give_up(&mut forwarder, &[1]), []);
    assert_eq!(given(&mut forwarder), [(1, vec![1]), (2, vec![1])]);
}
