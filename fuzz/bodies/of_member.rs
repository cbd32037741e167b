//! Bodies for messages between members, for the messages of a link's handshake, and for the hello
//! in them.

use machine::{BootId, Digest, LeaseId, Level, LogIndex, MemberId, Owner, SessionId};
use member::Hello;
use member::lease::{LeaseQuestion, LeaseTime};
use member::membership::hello::Known;
use member::peer::{
    AskLeases, Heard, LeaseTimes, LentSnapshot, Offer, PeerFrame, PeerMessage, Piece, SnapshotAt,
    Want,
};
use node::{Answer, AuthKind, Channel, Discovered, Handshake, Offer as Dialled, Retired};
use storage::codec::Reader;
use storage::datadir::{Acceptor, Ballot, Birth};

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

/// A message of a link's handshake; the first byte is its kind. If it decodes, it must encode to
/// the same bytes, unless it is a list of servers that is longer than any frame.
pub fn handshake(bytes: &[u8]) {
    let Some((kind, body)) = bytes.split_first() else { return };
    let frame = PeerFrame { kind: *kind, body: body.to_vec().into() };
    let Ok(message) = Handshake::decode(&frame) else { return };
    match &message {
        // The decoder makes the reason fit for a log.
        Handshake::Refused(reason) => assert!(!reason.contains(char::is_control)),
        Handshake::YouAre(discovered) if !discovered.may_be_told() => {}
        _ => assert_eq!(message.encode(), frame),
    }
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
        PeerMessage::NeedLevel(Level::MEMBERS),
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

fn hellos() -> [Hello; 5] {
    let birth = Birth { cluster_id: 1 << 100, voters: vec![5, 6, 7] };
    let unborn = Hello::unborn(1, FROM, vec![1, 2, 3], Known::up_to(Level::MEMBERS));
    let promised = Ballot { round: 2, member: 9 };
    let acceptor = Acceptor { promised, accepted: Some((promised, birth.clone())) };
    let agreeing = unborn.clone().agreeing(acceptor);
    let urls = || vec!["http://a:2380".to_string(), "https://[::1]:2380".to_string()];
    let named = |hello: Hello| {
        let told = hello.with_client_urls(urls()).with_peer_urls(urls(), "n\u{e9} 1".to_string());
        told.expect("a hello has room for them")
    };
    let born = named(unborn.clone().born(BootId(4), birth, Level::MEMBERS.into()));
    let later = Hello { unknown: vec![(40, b"later".to_vec())], ..born.clone() };
    let nobody = named(Hello::unborn(0, FROM, Vec::new(), Known::up_to(Level::MEMBERS)));
    [unborn, agreeing, born, later, nobody]
}

pub fn hello_seeds() -> Vec<Vec<u8>> {
    let encoded = |hello: &Hello| {
        let mut bytes = Vec::new();
        hello.encode(&mut bytes);
        bytes
    };
    hellos().iter().map(encoded).collect()
}

pub fn handshake_seeds() -> Vec<Vec<u8>> {
    let [_, _, born, later, nobody] = hellos();
    let (nonce, proof, process) = ([3; 32], [4; 32], 8);
    let dialled = |auth, channel, wanted, hello| {
        Handshake::Offer(Dialled { auth, channel, wanted, process, nonce, hello })
    };
    let urls = |count: usize| vec!["http://a:2380".to_string(); count];
    let servers = [(1, urls(1)), (2, urls(2)), (9, urls(0))].into_iter().collect();
    let cluster_id = 1 << 100;
    let messages = [
        dialled(AuthKind::Secret, Channel::Log, 2, born.clone()),
        // A server that asks for its number.
        dialled(AuthKind::None, Channel::Bulk, 0, nobody),
        Handshake::Answer(Answer { auth: AuthKind::Tls, process, nonce, hello: later }, proof),
        Handshake::Proof(proof),
        Handshake::Accepted,
        Handshake::Refused("PeerURLs: no match found for existing member".to_string()),
        Handshake::Begin([5; 65]),
        Handshake::Reply([6; 65]),
        Handshake::Confirm([7; 32]),
        Handshake::YouAre(Discovered { number: 2, cluster_id, servers }),
        Handshake::Retired(Retired { member: FROM, cluster_id, is_listed: false }),
        Handshake::Retired(Retired { member: FROM, cluster_id, is_listed: true }),
    ];
    let encoded = messages.map(|message| {
        let PeerFrame { kind, body } = message.encode();
        [&[kind], &body[..]].concat()
    });
    encoded.to_vec()
}
