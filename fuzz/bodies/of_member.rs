//! Bodies for messages between members, and for the hello, the first message on each link.

use machine::{BootId, Digest, LeaseId, Level, LogIndex, MemberId, Owner, SessionId};
use member::Hello;
use member::lease::{LeaseQuestion, LeaseTime};
use member::membership::hello::Known;
use member::peer::{
    AskLeases, Heard, LeaseTimes, LentSnapshot, Offer, PeerFrame, PeerMessage, Piece, SnapshotAt,
    Want,
};
use storage::codec::Reader;
use storage::datadir::Birth;

const FROM: MemberId = MemberId(5);

/// A message between members; the first byte is its kind. If it decodes, it must encode to the same
/// bytes.
pub fn member_message(bytes: &[u8]) {
    let Some((kind, body)) = bytes.split_first() else { return };
    let frame = PeerFrame { kind: *kind, body: body.to_vec().into() };
    let Ok(message) = PeerMessage::decode(FROM, frame.clone()) else { return };
    assert_eq!(message.encode(), frame);
}

/// A hello, possibly followed by other bytes. If it decodes, it must encode to the same bytes.
pub fn hello(bytes: &[u8]) {
    let mut reader = Reader::new(bytes);
    let Ok(hello) = Hello::decode(&mut reader) else { return };
    let mut written = Vec::new();
    hello.encode(&mut written);
    assert!(bytes.starts_with(&written));
}

pub fn member_message_seeds() -> Vec<Vec<u8>> {
    let at = SnapshotAt { index: 7, term: 3 };
    let lent = LentSnapshot { at, digest: Digest(1 << 100) };
    let owners = [-4, 7].map(|id| Owner::Session(SessionId(id))).to_vec();
    let boot = BootId(1);
    let messages = [
        PeerMessage::Raft(b"anything".to_vec().into()),
        PeerMessage::Restart { boot, stream: 4 },
        PeerMessage::Heard(Heard { boot, number: 6, owners }),
        PeerMessage::Heeded { boot, number: 6, contact_ms: 12 },
        PeerMessage::Full(true),
        PeerMessage::AskLeases(AskLeases {
            boot,
            questions: vec![(7, LeaseQuestion { lease: LeaseId(3), renews: true })],
        }),
        PeerMessage::LeaseTimes(LeaseTimes {
            boot,
            index: LogIndex(9),
            answers: vec![(7, None), (8, Some(LeaseTime { granted_s: 60, left_ms: 59_000 }))],
        }),
        PeerMessage::Digest { index: 128, digest: Digest(1 << 100) },
        PeerMessage::Differs { index: 128 },
        PeerMessage::Offer(Offer { holder: MemberId(6), message: b"anything".to_vec().into() }),
        PeerMessage::Lend { to: MemberId(7), index: 128 },
        PeerMessage::Lent { to: MemberId(7), snapshot: Some(lent) },
        PeerMessage::Lent { to: MemberId(7), snapshot: None },
        PeerMessage::NeedLevel(Level::ETCD),
        PeerMessage::Want(Want { at, offset: 1 << 40 }),
        PeerMessage::Piece(Piece { at, offset: 3, total: 6, bytes: b"abc".to_vec().into() }),
        PeerMessage::Gone(at),
    ];
    let encoded = messages.into_iter().map(|message| {
        let PeerFrame { kind, body } = message.encode();
        [&[kind], &body[..]].concat()
    });
    // A forwarded batch: kind, boot, stream and position, and no batches.
    let forward = [&[2][..], &[9, 0, 0, 0, 0, 0, 0, 0], &[0; 16], &[0; 4]].concat();
    encoded.chain([forward]).collect()
}

pub fn hello_seeds() -> Vec<Vec<u8>> {
    let birth = Birth { cluster_id: 1 << 100, voters: vec![5, 6, 7] };
    let unborn = Hello::unborn(1, FROM, vec![1, 2, 3], Known::up_to(Level::FIRST));
    let born = unborn.clone().born(BootId(4), birth, Level::FIRST.into());
    let later = Hello { unknown: vec![(40, b"later".to_vec())], ..born.clone() };
    let encoded = |hello: &Hello| {
        let mut bytes = Vec::new();
        hello.encode(&mut bytes);
        bytes
    };
    [&unborn, &born, &later].map(encoded).to_vec()
}
