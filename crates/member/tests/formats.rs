//! Tests of old formats: this version reads files with every message between members, and with
//! hellos, that earlier versions wrote. `fixtures/README.md` says how the files were made.
//! The files are never overwritten: a new version of a format gets files of its own.

use bytes::Bytes;
use machine::entry::{BatchBuilder, check_batch, encode_identities};
use machine::{
    BootId, Command, ConnectionId, ControlCommand, Digest, LeaseId, Level, LogIndex, MemberId,
    Origin, Owner, SessionId, StatedLevel,
};
use member::Hello;
use member::lease::{LeaseQuestion, LeaseTime};
use member::membership::hello::{Known, VersionRange};
use member::peer::{
    AskLeases, Forward, ForwardedBatch, Heard, LeaseTimes, LentSnapshot, Offer, PeerFrame,
    PeerMessage, Piece, SnapshotAt, Want,
};
use storage::codec::Reader;
use storage::datadir::Birth;

const MESSAGES: &[u8] = include_bytes!("fixtures/messages-v1.bin");
const MESSAGES_OF_LEVEL_2: &[u8] = include_bytes!("fixtures/messages-level-2-v1.bin");
const HELLOS: &[u8] = include_bytes!("fixtures/hellos-v1.bin");
const HELLOS_WITH_URLS: &[u8] = include_bytes!("fixtures/hellos-with-urls-v1.bin");
const HELLOS_WITH_NAMES: &[u8] = include_bytes!("fixtures/hellos-with-names-v1.bin");

const FROM: MemberId = MemberId(0x1111_2222_3333_4444);
const BOOT: BootId = BootId(0x0000_0003_89ab_cdef);
const AT: SnapshotAt = SnapshotAt { index: 7_000_000_000, term: 12 };

fn forwarded(sequence: u64) -> ForwardedBatch {
    let mut builder = BatchBuilder::default();
    let nobody = encode_identities([].into_iter());
    builder
        .push(ConnectionId(0), &nobody, &Command::Control(ControlCommand::Nothing))
        .expect("it fits");
    let bytes = builder.finish().stamp(Origin { member: FROM, boot: BOOT }, sequence);
    let (header, _) = check_batch(&bytes, 0).expect("a good batch");
    ForwardedBatch { header, bytes }
}

fn messages() -> Vec<PeerMessage> {
    let owners = [-4, 7].map(|id| Owner::Session(SessionId(id))).to_vec();
    let batches = vec![forwarded(4), forwarded(5)];
    let snapshot = LentSnapshot { at: AT, digest: Digest(u128::MAX - 2) };
    let bytes = Bytes::from_static(b"some bytes");
    vec![
        PeerMessage::Raft(Bytes::from_static(b"bytes of the replica")),
        PeerMessage::Forward(Forward { boot: BOOT, stream: 3, position: 8, batches }),
        PeerMessage::Forward(Forward { boot: BOOT, stream: 1, position: 0, batches: vec![] }),
        PeerMessage::Restart { boot: BOOT, stream: u64::MAX },
        PeerMessage::Heard(Heard { boot: BOOT, number: 6, owners }),
        PeerMessage::Heeded { boot: BOOT, number: 6, contact_ms: 150 },
        PeerMessage::Full(true),
        PeerMessage::Full(false),
        PeerMessage::Offer(Offer { holder: MemberId(9), message: bytes.clone() }),
        PeerMessage::Digest { index: 128, digest: Digest(1 << 100) },
        PeerMessage::Differs { index: 256 },
        PeerMessage::Lend { to: MemberId(8), index: 1 << 40 },
        PeerMessage::Lent { to: MemberId(8), snapshot: Some(snapshot) },
        PeerMessage::Lent { to: MemberId(8), snapshot: None },
        PeerMessage::NeedLevel(Level::ETCD),
        PeerMessage::Want(Want { at: AT, offset: 65_536 }),
        PeerMessage::Piece(Piece { at: AT, offset: 65_536, total: 1 << 33, bytes }),
        PeerMessage::Gone(AT),
    ]
}

/// The messages that only members of level 2 or higher send.
fn messages_of_level_2() -> Vec<PeerMessage> {
    let question = |lease, renews| LeaseQuestion { lease: LeaseId(lease), renews };
    let questions = vec![(7, question(1 << 40, true)), (u64::MAX, question(-3, false))];
    let answers = vec![(7, Some(LeaseTime { granted_s: 60, left_ms: 59_999 })), (u64::MAX, None)];
    let index = LogIndex(7_000_000_000);
    vec![
        PeerMessage::AskLeases(AskLeases { boot: BOOT, questions }),
        PeerMessage::AskLeases(AskLeases { boot: BOOT, questions: vec![] }),
        PeerMessage::LeaseTimes(LeaseTimes { boot: BOOT, index, answers }),
        PeerMessage::LeaseTimes(LeaseTimes { boot: BOOT, index, answers: vec![] }),
    ]
}

/// Encodes each message as its kind, its length and its body.
fn encoded_messages(messages: Vec<PeerMessage>) -> Vec<u8> {
    let mut out = Vec::new();
    for PeerFrame { kind, body } in messages.into_iter().map(PeerMessage::encode) {
        out.push(kind);
        out.extend((body.len() as u32).to_le_bytes());
        out.extend(&body);
    }
    out
}

fn hellos() -> Vec<Hello> {
    let known = Known {
        messages: VersionRange { min: 1, max: 1 },
        level_max: Level::FIRST,
        program: "0.1.0".to_string(),
    };
    let unborn = Hello::unborn(2, FROM, vec![1, 2, 3], known);
    let birth = Birth { cluster_id: 0x0123_4567_89ab_cdef << 64, voters: vec![5, FROM.0] };
    let level = StatedLevel { level: Level::FIRST, version: "0.1.0".to_string() };
    let born = unborn.clone().born(BOOT, birth, level);
    let later = Hello { unknown: vec![(40, b"of a later version".to_vec())], ..born.clone() };
    vec![unborn, born, later]
}

/// Hellos of a version that includes the URLs for etcd's clients.
fn hellos_with_urls() -> Vec<Hello> {
    let urls = vec!["http://10.0.0.1:2379".to_string(), "https://h:2379".to_string()];
    hellos().into_iter().map(|hello| hello.with_client_urls(urls.clone())).collect()
}

/// Hellos of a version that includes the URLs for other servers, and the name.
fn hellos_with_names() -> Vec<Hello> {
    let urls = ["http://10.0.0.1:2380".to_string(), "https://h:2380".to_string()];
    let named = |hello: Hello| hello.with_peer_urls(urls.to_vec(), "infra 1".to_string());
    hellos_with_urls().into_iter().map(|hello| named(hello).expect("there is room")).collect()
}

fn encoded(hellos: &[Hello]) -> Vec<u8> {
    let mut out = Vec::new();
    hellos.iter().for_each(|hello| hello.encode(&mut out));
    out
}

#[test]
fn messages_of_version_1_are_read_and_are_written_with_the_same_bytes() {
    for (bytes, messages) in [(MESSAGES, messages()), (MESSAGES_OF_LEVEL_2, messages_of_level_2())]
    {
        let mut reader = Reader::new(bytes);
        for message in &messages {
            let kind = reader.u8().unwrap();
            let length = reader.u32().unwrap();
            let body = Bytes::copy_from_slice(reader.take(length as usize).unwrap());
            let found = PeerMessage::decode(FROM, PeerFrame { kind, body });
            assert_eq!(found.as_ref(), Ok(message));
        }
        assert_eq!(reader.finish(), Ok(()));
        assert_eq!(encoded_messages(messages), bytes);
    }
}

#[test]
fn hellos_of_version_1_are_read_and_are_written_with_the_same_bytes() {
    for (bytes, hellos) in [
        (HELLOS, hellos()),
        (HELLOS_WITH_URLS, hellos_with_urls()),
        (HELLOS_WITH_NAMES, hellos_with_names()),
    ] {
        let mut reader = Reader::new(bytes);
        for hello in &hellos {
            assert_eq!(Hello::decode(&mut reader).as_ref(), Ok(hello));
        }
        assert_eq!(reader.finish(), Ok(()));
        assert_eq!(encoded(&hellos), bytes);
    }
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "writes the fixtures, only when a person asks for it by a variable"
)]
fn fixtures_are_written_only_when_asked_for() {
    if std::env::var_os("QUORATE_WRITE_FIXTURES").is_none() {
        return;
    }
    let write = |name: &str, bytes: &[u8]| {
        let path = format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::write(path, bytes).expect("writes");
    };
    write("messages-v1.bin", &encoded_messages(messages()));
    write("messages-level-2-v1.bin", &encoded_messages(messages_of_level_2()));
    write("hellos-v1.bin", &encoded(&hellos()));
    write("hellos-with-urls-v1.bin", &encoded(&hellos_with_urls()));
    write("hellos-with-names-v1.bin", &encoded(&hellos_with_names()));
}
