//! Tests of messages between members: encoded and decoded, cut off anywhere, changed anywhere, with
//! a wrong origin.

use machine::entry::{BatchBuilder, UnstampedBatch, encode_identities};
use machine::{Command, ConnectionId, ControlCommand, LeaseId, LogIndex, Origin, ZkCommand};

use super::*;
use crate::lease::{LeaseQuestion, LeaseTime};

const FROM: MemberId = MemberId(5);
const AT: SnapshotAt = SnapshotAt { index: 7, term: 3 };
const LENT: LentSnapshot = LentSnapshot { at: AT, digest: Digest(1 << 100) };
const ORIGIN: Origin = Origin { member: FROM, boot: BootId(9) };

fn forward(origin: Origin, sequences: &[u64]) -> PeerMessage {
    let batch = |sequence: &u64| {
        let header =
            BatchHeader { origin, sequence: *sequence, command_count: 0, level: Level::FIRST };
        ForwardedBatch { header, bytes: UnstampedBatch::empty().stamp(origin, *sequence) }
    };
    let batches = sequences.iter().map(batch).collect();
    PeerMessage::Forward(Forward { boot: ORIGIN.boot, stream: 3, position: 8, batches })
}

fn messages() -> Vec<PeerMessage> {
    let owners = [-4, 7].map(|id| Owner::Session(SessionId(id))).to_vec();
    vec![
        PeerMessage::Raft(Bytes::from_static(b"anything")),
        forward(ORIGIN, &[]),
        forward(ORIGIN, &[1]),
        forward(ORIGIN, &[4, 5, 6]),
        PeerMessage::Restart { boot: BootId(1), stream: u64::MAX },
        PeerMessage::Heard(Heard { boot: BootId(1), number: 6, owners }),
        PeerMessage::Heard(Heard { boot: BootId(1), number: 0, owners: Vec::new() }),
        PeerMessage::Heeded { boot: BootId(1), number: 6, contact_ms: u64::MAX },
        PeerMessage::Full(true),
        PeerMessage::Full(false),
        PeerMessage::Offer(Offer {
            holder: MemberId(1 << 63),
            message: Bytes::from_static(b"anything"),
        }),
        PeerMessage::Digest { index: 128, digest: Digest(u128::MAX - 1) },
        PeerMessage::Differs { index: 128 },
        PeerMessage::Lend { to: MemberId(8), index: 1 << 40 },
        PeerMessage::Lent { to: MemberId(8), snapshot: Some(LENT) },
        PeerMessage::Lent { to: MemberId(8), snapshot: None },
        PeerMessage::NeedLevel(Level::ETCD),
        PeerMessage::AskLeases(AskLeases { boot: BootId(4), questions: Vec::new() }),
        PeerMessage::AskLeases(AskLeases {
            boot: BootId(4),
            questions: vec![
                (8, LeaseQuestion { lease: LeaseId(i64::MIN), renews: true }),
                (9, LeaseQuestion { lease: LeaseId(3), renews: false }),
            ],
        }),
        PeerMessage::LeaseTimes(LeaseTimes {
            boot: BootId(4),
            index: LogIndex(1 << 40),
            answers: vec![
                (8, None),
                (u64::MAX, Some(LeaseTime { granted_s: 60, left_ms: 59_999 })),
            ],
        }),
        PeerMessage::Want(Want { at: AT, offset: 1 << 40 }),
        PeerMessage::Piece(Piece {
            at: AT,
            offset: 3,
            total: 6,
            bytes: Bytes::from_static(b"abc"),
        }),
        PeerMessage::Gone(AT),
    ]
}

#[test]
fn a_message_is_read_back() {
    for message in messages() {
        assert_eq!(PeerMessage::decode(FROM, message.clone().encode()), Ok(message));
    }
}

#[test]
fn a_message_that_is_cut_off_or_too_long_is_refused() {
    for message in messages() {
        let PeerFrame { kind, body } = message.encode();
        // Other code checks the content of these kinds; the last field of a piece is as long as its
        // frame allows.
        if [KIND_RAFT, KIND_OFFER, KIND_PIECE].contains(&kind) {
            continue;
        }
        for end in 0..body.len() {
            let cut = PeerFrame { kind, body: body.slice(..end) };
            assert!(PeerMessage::decode(FROM, cut).is_err(), "{kind} at {end}");
        }
        let mut longer = body.to_vec();
        longer.push(0);
        let longer = PeerFrame { kind, body: longer.into() };
        assert!(PeerMessage::decode(FROM, longer).is_err(), "{kind}");
    }
}

#[test]
fn an_offer_says_who_has_the_file() {
    for bytes in [&[][..], &[1; 7]] {
        let frame = PeerFrame { kind: KIND_OFFER, body: Bytes::copy_from_slice(bytes) };
        assert!(PeerMessage::decode(FROM, frame).is_err());
    }
}

#[test]
fn a_message_with_any_byte_changed_never_panics() {
    for message in messages() {
        let PeerFrame { kind, body } = message.encode();
        for at in 0..body.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut changed = body.to_vec();
                changed[at] = value;
                let _ = PeerMessage::decode(FROM, PeerFrame { kind, body: changed.into() });
            }
        }
    }
}

#[test]
fn a_piece_outside_of_its_file_is_refused() {
    let piece = |offset, total, bytes| {
        let piece = Piece { at: AT, offset, total, bytes: Bytes::from_static(bytes) };
        PeerMessage::decode(FROM, PeerMessage::Piece(piece).encode()).is_ok()
    };
    assert!(piece(0, 3, b"abc"));
    assert!(!piece(0, 2, b"abc"));
    assert!(!piece(1, 3, b"abc"));
    assert!(!piece(u64::MAX, u64::MAX, b"abc"));
    assert!(!piece(0, 3, b""));
}

#[test]
fn bulk_is_what_nothing_else_waits_behind() {
    for message in messages() {
        let is_bulk =
            matches!(message, PeerMessage::Want(_) | PeerMessage::Piece(_) | PeerMessage::Gone(_));
        assert_eq!(message.encode().is_bulk(), is_bulk);
    }
}

#[test]
fn kinds_of_other_versions_are_refused() {
    for kind in [0, 15, 19, 255] {
        let frame = PeerFrame { kind, body: Bytes::new() };
        assert_eq!(PeerMessage::decode(FROM, frame), Err(PeerError::UnknownKind(kind)));
    }
}

#[test]
fn only_own_batches_are_forwarded_and_in_order() {
    let foreign = Err(PeerError::ForeignBatch { from: FROM.0 });
    let other_boot = Origin { boot: BootId(8), ..ORIGIN };
    for message in [
        forward(Origin { member: MemberId(6), ..ORIGIN }, &[1]),
        forward(other_boot, &[1]),
        forward(ORIGIN, &[0]),
        forward(ORIGIN, &[1, 3]),
        forward(ORIGIN, &[2, 2]),
        forward(ORIGIN, &[u64::MAX, 0]),
    ] {
        assert_eq!(PeerMessage::decode(FROM, message.encode()), foreign);
    }
}

/// Decodes a forwarded batch with this command of this connection.
fn forwarded(connection: u64, command: &Command<'_>) -> Result<PeerMessage, PeerError> {
    let mut builder = BatchBuilder::default();
    builder
        .push(ConnectionId(connection), &encode_identities([].into_iter()), command)
        .expect("it fits");
    let bytes = builder.finish().stamp(ORIGIN, 6);
    let (header, _) = entry::check_batch(&bytes, 0).unwrap();
    let batches = vec![ForwardedBatch { header, bytes }];
    let forward = Forward { boot: ORIGIN.boot, stream: 3, position: 8, batches };
    PeerMessage::decode(FROM, PeerMessage::Forward(forward).encode())
}

#[test]
fn commands_that_only_a_leader_makes_are_not_taken_from_a_peer() {
    let refused = Err(PeerError::OwnCommand { sequence: 6 });
    let install = Command::Control(ControlCommand::InstallImage { hash: 7 });
    assert_eq!(forwarded(5, &install), refused);
    assert_eq!(forwarded(0, &install), refused);
    let close = Command::Zk(ZkCommand::CloseSession { session: SessionId(4) });
    assert_eq!(forwarded(0, &close), refused);
    assert!(forwarded(5, &close).is_ok());
    assert!(forwarded(5, &Command::Control(ControlCommand::Nothing)).is_ok());
}
