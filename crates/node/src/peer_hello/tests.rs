use machine::{BootId, Level, MemberId};
use member::membership::hello::{Known, VersionRange};
use storage::datadir::Birth;

use super::*;
use crate::peer_key::{SharedNumber, Side};

fn hello(server: u64) -> Hello {
    Hello::unborn(server, MemberId(10 * server), vec![1, 2, 3], Known::up_to(Level::FIRST))
}

fn born(server: u64, cluster_id: u128) -> Hello {
    let birth = Some(Birth { cluster_id, voters: vec![10, 20, 30] });
    Hello { boot: BootId(3), birth, ..hello(server) }
}

fn transcript() -> Transcript {
    let (auth, channel) = (AuthKind::Secret, Channel::Bulk);
    let offer = Offer { auth, channel, wanted: 2, process: 8, nonce: [1; 32], hello: born(1, 7) };
    let answer = Answer { auth, process: 9, nonce: [2; 32], hello: hello(2) };
    Transcript { offer, answer }
}

fn discovered() -> Discovered {
    let urls = |urls: &[&str]| urls.iter().map(|url| url.to_string()).collect::<Vec<_>>();
    let own = urls(&["http://10.0.0.4:2380", "https://h:2380"]);
    let servers = BTreeMap::from([(1, urls(&["http://10.0.0.1:2380"])), (3, vec![]), (4, own)]);
    Discovered { number: 4, cluster_id: 7 << 100, servers }
}

fn retired() -> Retired {
    Retired { member: MemberId(20), cluster_id: 7 << 100, is_listed: true }
}

/// The offer of a server that asks for its number.
fn question() -> Offer {
    let urls = discovered().servers[&4].clone();
    let hello = hello(NO_NUMBER).with_peer_urls(urls, "infra4".to_string());
    let mut hello = Hello { member: MemberId(44), ..hello.expect("there is room") };
    hello.known.program = "0.5.0".to_string();
    let (auth, channel) = (AuthKind::Secret, Channel::Log);
    Offer { auth, channel, wanted: NO_NUMBER, process: 8, nonce: [1; 32], hello }
}

#[test]
fn a_server_without_a_number_asks_for_it_by_its_urls() {
    let is_question = |change: &dyn Fn(&mut Offer)| {
        let mut offer = question();
        change(&mut offer);
        offer.asks_number()
    };
    assert!(is_question(&|_| {}));
    assert!(!is_question(&|it| it.wanted = 1));
    assert!(!is_question(&|it| it.hello.server = 2));
    assert!(!is_question(&|it| it.hello.peer_urls.clear()));
}

#[test]
fn a_list_of_servers_has_its_bounds_and_longer_ones_are_not_told() {
    let with = |count: usize, urls: &[String]| {
        let servers = (1..=count as u64).map(|number| (number, urls.to_vec())).collect();
        Discovered { number: 1, cluster_id: 7, servers }
    };
    let url = |bytes: usize| "u".repeat(bytes);
    let largest = with(LISTED_SERVERS_MAX, &vec![url(1_000); 8]);
    assert!(largest.may_be_told());
    let frame = Handshake::YouAre(largest.clone()).encode();
    assert!(frame.body.len() <= YOU_ARE_BYTES_MAX, "{}", frame.body.len());
    assert_eq!(Handshake::decode(&frame), Ok(Handshake::YouAre(largest)));
    assert!(with(2, &vec![url(SERVER_TEXT_BYTES_MAX); SERVER_URLS_MAX]).may_be_told());
    for beyond in [
        with(LISTED_SERVERS_MAX + 1, &[]),
        with(1, &vec![url(1); SERVER_URLS_MAX + 1]),
        with(1, &[url(SERVER_TEXT_BYTES_MAX + 1)]),
        with(1, &[url(0)]),
        with(1, &["a\nb".to_string()]),
        with(5, &vec![url(SERVER_TEXT_BYTES_MAX); SERVER_URLS_MAX]),
        with(0, &[]),
    ] {
        assert!(!beyond.may_be_told(), "{} servers", beyond.servers.len());
    }
}

#[test]
fn a_list_of_servers_that_nobody_tells_is_refused() {
    let begin = [&1_u64.to_le_bytes()[..], &7_u128.to_le_bytes()].concat();
    let server = |number: u64, urls: &[&[u8]]| {
        let mut out = number.to_le_bytes().to_vec();
        out.extend((urls.len() as u16).to_le_bytes());
        for url in urls {
            out.extend((url.len() as u16).to_le_bytes());
            out.extend_from_slice(url);
        }
        out
    };
    let refused = |count: u16, servers: &[Vec<u8>], what: &str| {
        let body = [&begin[..], &count.to_le_bytes(), &servers.concat()].concat();
        let refused = Handshake::decode(&PeerFrame { kind: KIND_YOU_ARE, body: body.into() });
        let refused = refused.expect_err("it is refused").to_string();
        assert!(refused.contains(what), "{refused}");
    };
    refused(0, &[], "not among the servers");
    refused(1, &[server(2, &[])], "not among the servers");
    refused(2, &[server(1, &[]), server(1, &[])], "not ascending");
    refused(LISTED_SERVERS_MAX as u16 + 1, &[], "too many servers");
    let many = vec![&b"u"[..]; SERVER_URLS_MAX + 1];
    refused(1, &[server(1, &many)], "too many URLs");
    let long = [b'u'; SERVER_TEXT_BYTES_MAX + 1];
    for url in [&b""[..], b"a\n", b"\xff", &long] {
        refused(1, &[server(1, &[url])], "a URL is empty");
    }
}

#[test]
fn what_was_said_is_what_is_heard_and_nothing_cut_off_is() {
    let Transcript { offer, answer } = transcript();
    for said in [
        Handshake::Offer(offer),
        Handshake::Answer(answer, [3; 32]),
        Handshake::Proof([4; 32]),
        Handshake::Accepted,
        Handshake::Refused("it rains".to_string()),
        Handshake::Begin([5; 65]),
        Handshake::Reply([6; 65]),
        Handshake::Confirm([7; 32]),
        Handshake::YouAre(discovered()),
        Handshake::Retired(retired()),
    ] {
        let frame = said.encode();
        assert_eq!(Handshake::decode(&frame), Ok(said.clone()));
        if let Handshake::Refused(_) = said {
            continue;
        }
        for cut in 0..frame.body.len() {
            let cut = PeerFrame { body: frame.body.slice(..cut), ..frame.clone() };
            assert!(matches!(Handshake::decode(&cut), Err(Refusal::Malformed(_))));
        }
        let more = PeerFrame { body: [&frame.body[..], &[0]].concat().into(), ..frame };
        assert!(matches!(Handshake::decode(&more), Err(Refusal::Malformed(_))));
    }
    let unknown = PeerFrame { kind: 11, body: Bytes::new() };
    assert_eq!(Handshake::decode(&unknown), Err(Refusal::OutOfTurn));
}

/// All messages of a handshake with a secret, for each version. Then the question of a server for
/// its number, and the answer; and the answer to a member that was removed.
fn handshakes() -> [(&'static str, Vec<Handshake>); 4] {
    let mut transcript = transcript();
    transcript.offer.hello.known.program = "0.4.0".to_string();
    transcript.answer.hello.known.program = "0.3.1".to_string();
    let rest = |key: &[u8]| {
        let Transcript { offer, answer } = transcript.clone();
        vec![
            Handshake::Offer(offer),
            Handshake::Answer(answer, transcript.accepter_proof(key)),
            Handshake::Proof(transcript.dialler_proof(key)),
            Handshake::Accepted,
            Handshake::Refused("it rains".to_string()),
        ]
    };
    let shared = SharedNumber::of(b"a secret of 16 b");
    let dialler = shared.begin(Side::Dialler, || [8; 32]);
    let accepter = shared.begin(Side::Accepter, || [9; 32]);
    let shares = [Handshake::Begin(*dialler.share()), Handshake::Reply(*accepter.share())];
    let share = *dialler.share();
    let dialler = dialler.finish(accepter.share()).expect("is a share");
    let accepter = accepter.finish(&share).expect("is a share");
    let confirmed = [Handshake::Confirm(dialler.own), Handshake::Confirm(accepter.own)];
    let with_key = [&shares[..], &confirmed, &rest(&dialler.key)].concat();
    let number = vec![Handshake::Offer(question()), Handshake::YouAre(discovered())];
    [
        ("handshake-v1.bin", rest(b"a secret of 16 b")),
        ("handshake-v2.bin", with_key),
        ("number-v1.bin", number),
        ("retired-v1.bin", vec![Handshake::Retired(retired())]),
    ]
}

/// The files hold the bytes of a handshake from the version that introduced it: for each frame its
/// kind, its length in 4 bytes, and its body.
#[test]
fn a_handshake_has_the_bytes_that_it_had() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
    for (name, messages) in handshakes() {
        let mut written = Vec::new();
        for message in &messages {
            let PeerFrame { kind, body } = message.encode();
            written.push(kind);
            written.extend_from_slice(&(body.len() as u32).to_le_bytes());
            written.extend_from_slice(&body);
        }
        let path = format!("{folder}/{name}");
        if std::env::var_os("QUORATE_WRITE_FIXTURES").is_some() {
            assert!(!std::path::Path::new(&path).exists(), "{name} is never written anew");
            std::fs::write(&path, &written).expect("is written");
        }
        let kept = std::fs::read(&path).expect("is there");
        assert_eq!(kept, written, "{name}");
        let mut rest = &kept[..];
        let mut read = Vec::new();
        while let [kind, rest_of_frame @ ..] = rest {
            let (length, bytes) = rest_of_frame.split_at(4);
            let length = u32::from_le_bytes(length.try_into().expect("4 bytes")) as usize;
            let (body, next) = bytes.split_at(length);
            let frame = PeerFrame { kind: *kind, body: Bytes::copy_from_slice(body) };
            read.push(Handshake::decode(&frame).expect("is a message"));
            rest = next;
        }
        assert_eq!(read, messages, "{name}");
    }
}

#[test]
fn the_reason_of_a_refusal_is_one_line_of_bounded_length() {
    let reason = format!("a\nb\u{1b}[1m{}", "é".repeat(REFUSAL_BYTES_MAX));
    let heard = Handshake::decode(&Handshake::Refused(reason).encode());
    let Ok(Handshake::Refused(heard)) = heard else { panic!("{heard:?}") };
    assert!(heard.starts_with("a?b?[1mé"), "{heard}");
    assert!(heard.len() <= REFUSAL_BYTES_MAX);
    let bytes = vec![0xff; REFUSAL_BYTES_MAX + 9];
    let garbage = PeerFrame { kind: KIND_REFUSED, body: bytes.into() };
    let Ok(Handshake::Refused(heard)) = Handshake::decode(&garbage) else { panic!("is read") };
    assert_eq!(heard.chars().count(), REFUSAL_BYTES_MAX);
}

#[test]
fn a_proof_is_good_for_one_side_of_one_handshake_with_one_secret() {
    let transcript = transcript();
    let (accepter, dialler) =
        (transcript.accepter_proof(b"secret"), transcript.dialler_proof(b"secret"));
    assert!(transcript.is_accepter(b"secret", &accepter));
    assert!(transcript.is_dialler(b"secret", &dialler));
    // A proof that is returned to its sender proves nothing.
    assert!(!transcript.is_accepter(b"secret", &dialler));
    assert!(!transcript.is_dialler(b"secret", &accepter));
    assert!(!transcript.is_accepter(b"other", &accepter));
    assert!(!transcript.is_accepter(b"secret", &[0; 32]));
    type Change<'c> = &'c dyn Fn(&mut Transcript);
    let changes: [Change; 9] = [
        &|it| it.offer.nonce[31] ^= 1,
        &|it| it.answer.nonce[0] ^= 1,
        &|it| it.offer.channel = Channel::Log,
        &|it| it.offer.wanted = 3,
        &|it| it.offer.process = 0,
        &|it| it.offer.hello.server = 3,
        &|it| it.answer.hello.member = MemberId(21),
        &|it| it.answer.hello.unknown = vec![(9, vec![])],
        &|it| it.answer.hello.birth = Some(Birth { cluster_id: 7, voters: vec![1] }),
    ];
    for (at, change) in changes.into_iter().enumerate() {
        let mut changed = transcript.clone();
        change(&mut changed);
        assert!(!changed.is_accepter(b"secret", &accepter), "change {at}");
        assert!(!changed.is_dialler(b"secret", &dialler), "change {at}");
    }
    for at in 0..32 {
        let mut proof = dialler;
        proof[at] ^= 1;
        assert!(!transcript.is_dialler(b"secret", &proof));
    }
}

#[test]
fn a_member_is_retired_only_from_the_ensemble_that_it_was_born_in() {
    let told = Retired { member: MemberId(20), cluster_id: 7, is_listed: false };
    assert_eq!(Retired::of(&born(1, 7), &born(2, 7), false), Some(told));
    assert_eq!(Retired::of(&born(1, 7), &born(2, 8), false), None);
    assert_eq!(Retired::of(&born(1, 7), &hello(2), false), None);
    assert_eq!(Retired::of(&hello(1), &born(2, 7), false), None);
}

#[test]
fn whoever_may_not_be_there_is_told_why() {
    let check = |own: &Hello, other: &Hello, expected: Result<(), Refusal>| {
        assert_eq!(check_peer(own, &[1, 2, 3], other), expected);
    };
    check(&hello(1), &hello(2), Ok(()));
    check(&born(1, 7), &hello(2), Ok(()));
    check(&hello(1), &born(2, 7), Ok(()));
    check(&born(1, 7), &born(2, 7), Ok(()));
    check(&born(1, 7), &born(2, 8), Err(Refusal::OtherCluster { own: 7, theirs: 8 }));
    check(&hello(1), &hello(4), Err(Refusal::Incompatibility(4)));
    let other_one = Hello { member: MemberId(11), ..hello(1) };
    check(&hello(1), &other_one, Err(Refusal::OwnNumber(1)));
    let copy = Hello { member: MemberId(10), ..hello(2) };
    check(&hello(1), &copy, Err(Refusal::CopiedDirectory(1)));
    let range = |min, max| VersionRange { min, max };
    let with = |range| Known { messages: range, ..Known::up_to(Level::FIRST) };
    let later = Hello { known: with(range(1, 9)), ..hello(2) };
    check(&hello(1), &later, Ok(()));
    let too_late = Hello { known: with(range(8, 9)), ..hello(2) };
    let refused = Incompatibility::Messages { server: 2, own: range(1, 1), theirs: range(8, 9) };
    let refused = Refusal::from(refused);
    let said =
        "server 2 speaks versions 8 to 9 of the messages between members, this server 1 to 1";
    assert!(refused.to_string().contains(said));
    check(&hello(1), &too_late, Err(refused));
}
