//! A server that knows only its peer URLs asks members for its number, over real sockets.

use std::collections::BTreeMap;

use super::*;
use crate::discovery::{DiscoverError, Discovery, discover};
use crate::peer_hello::{Discovered, NO_NUMBER};

/// The peer URLs of server 4, in the order of the list.
const URLS: [&str; 2] = ["http://10.0.0.4:2380", "http://four:2380"];

fn urls(urls: &[&str]) -> Vec<String> {
    urls.iter().map(|url| url.to_string()).collect()
}

/// Servers 1 to 4. Nobody listens at the addresses.
fn four() -> Vec<PeerServer> {
    let mut servers: Vec<_> = (1..4).map(|number| server(number, number as u16)).collect();
    servers.push(PeerServer { peer_urls: urls(&URLS), ..server(4, 4) });
    servers
}

fn told() -> Discovered {
    let servers = four().into_iter().map(|server| (server.number, server.peer_urls)).collect();
    Discovered { number: 4, cluster_id: 7, servers }
}

/// Server 1, with these servers on its list.
fn member(hello: Hello, servers: &[PeerServer], auth: PeerAuth) -> Peers {
    Peers::start(hello, listener(), servers, auth)
}

fn at(port: u16) -> Vec<PeerAddress> {
    vec![PeerAddress { host: "127.0.0.1".to_string(), port }]
}

fn asking(others: &[u16], auth: PeerAuth) -> Discovery {
    Discovery {
        others: others.iter().map(|port| at(*port)).collect(),
        peer_urls: urls(&[URLS[1], URLS[0]]),
        name: "four".to_string(),
        member: MemberId(44),
        known: Known::up_to(Level::FIRST),
        auth,
        secret: [44; 32],
        connect_timeout: PATIENCE,
    }
}

fn ask(others: &[u16], auth: PeerAuth) -> Result<Discovered, DiscoverError> {
    discover(asking(others, auth))
}

/// What the server at this port says to the question.
#[track_caller]
fn refused(port: u16, auth: PeerAuth, expected: &str) {
    match ask(&[port], auth) {
        Err(DiscoverError::Refused { reason, .. }) => {
            assert!(reason.contains(expected), "{reason}");
        }
        other => panic!("{other:?}"),
    }
}

/// Whether the member has said nothing of this to its receiver, and has no link.
fn is_untouched(peers: &Peers) -> bool {
    peers.handle.links().is_empty() && peers.inputs.try_recv().is_err()
}

#[test]
fn a_server_learns_its_number_by_its_urls_with_each_kind_of_proof() {
    let auths: [fn() -> PeerAuth; 4] = [|| PeerAuth::None, secret, strict_secret, || tls(MEMBER)];
    for auth in auths {
        let peers = member(born(1, 7), &four(), auth());
        let nobody = port(&listener());
        assert_eq!(ask(&[nobody, peers.port], auth()).expect("it is told"), told());
        assert!(is_untouched(&peers));
        peers.sockets.stop();
    }
}

#[test]
fn the_present_list_decides_and_its_urls_must_all_be_the_same() {
    let peers = member(born(1, 7), &four()[..3], secret());
    let no_match = || match ask(&[peers.port], secret()) {
        Err(error @ DiscoverError::NoMatch(_)) => {
            assert!(!error.is_passing());
            error.to_string()
        }
        other => panic!("{other:?}"),
    };
    let expected = r#"PeerURLs: no match found for existing member ["http://four:2380", "#;
    assert!(no_match().starts_with(expected));
    for not_all in [&URLS[..1], &[URLS[0], URLS[1], "http://h:1"]] {
        let mut servers = four();
        servers[3].peer_urls = urls(not_all);
        peers.handle.set_servers(servers, BTreeSet::new());
        no_match();
    }
    peers.handle.set_servers(four(), BTreeSet::new());
    assert_eq!(ask(&[peers.port], secret()).expect("it is told"), told());
    // Another server knows nothing of this one: the one that does is asked, too.
    let behind = member(born(2, 7), &four()[..3], secret());
    assert_eq!(ask(&[behind.port, peers.port], secret()).expect("it is told"), told());
    behind.sockets.stop();
    peers.sockets.stop();
}

#[test]
fn a_server_that_is_not_born_tells_no_number() {
    let unborn = member(hello(1), &four(), secret());
    // A server of an older build answers the same.
    let error = ask(&[unborn.port], secret()).expect_err("it does not tell");
    assert!(error.is_passing());
    assert!(error.to_string().contains("it wants server 0, and this is server 1"), "{error}");
    let error = ask(&[port(&listener())], secret()).expect_err("nobody answers");
    assert!(error.is_passing(), "{error}");
    assert!(ask(&[], secret()).expect_err("nobody is there").is_passing());
    let peers = member(born(2, 7), &four(), secret());
    assert_eq!(ask(&[unborn.port, peers.port], secret()).expect("it is told"), told());
    unborn.sockets.stop();
    peers.sockets.stop();
}

#[test]
fn whoever_may_not_know_its_number_is_told_why() {
    let peers = member(born(1, 7), &four(), secret());
    let other = PeerAuth::Secret(Arc::new(PeerSecret::new(b"another secret".to_vec(), true)));
    let error = ask(&[peers.port], other).expect_err("it is refused");
    assert!(
        matches!(&error, DiscoverError::WrongSecret(at) if at.contains("127.0.0.1")),
        "{error}"
    );
    refused(peers.port, PeerAuth::None, "authenticate by a shared secret");
    let mut copied = asking(&[peers.port], secret());
    copied.member = MemberId(10);
    let error = discover(copied).expect_err("it is refused");
    assert!(error.to_string().contains("is a copy of server 1's"), "{error}");
    // The URLs of the server that is asked.
    let mut servers = four();
    servers.swap(0, 3);
    (servers[0].number, servers[3].number) = (1, 4);
    peers.handle.set_servers(servers, BTreeSet::new());
    refused(peers.port, secret(), "it says that it is server 1, and so is this server");
    let many = (5..40).map(|number| server(number, 1));
    peers.handle.set_servers(four().into_iter().chain(many).collect(), BTreeSet::new());
    refused(peers.port, secret(), "the list of servers is too long to be told");
    assert!(is_untouched(&peers));
    peers.sockets.stop();
    for own in [vec![], urls(&["a b"]), vec!["u".repeat(301)]] {
        let cannot = Discovery { peer_urls: own, ..asking(&[1], secret()) };
        assert!(matches!(discover(cannot), Err(DiscoverError::OwnUrls)));
    }
}

#[test]
fn a_number_is_told_only_to_the_owner_of_a_certificate_for_that_server() {
    let peers = member(born(1, 7), &four(), tls(MEMBER));
    let expected = "its certificate is for none of the hosts that are configured for server 4";
    refused(peers.port, tls(CLIENT), expected);
    // This certificate is not trusted at all.
    let error = ask(&[peers.port], tls(STRANGER)).expect_err("it is refused");
    assert!(error.is_passing(), "{error}");
    // A member whose certificate is not trusted is not believed.
    let strange = member(born(2, 7), &four(), tls(STRANGER));
    let error = ask(&[strange.port], tls(MEMBER)).expect_err("it is refused");
    assert!(error.is_passing(), "{error}");
    assert!(is_untouched(&peers));
    strange.sockets.stop();
    peers.sockets.stop();
}

/// The offer of a server that asks for its number.
fn question() -> Offer {
    let hello = hello(NO_NUMBER).with_peer_urls(urls(&URLS), String::new());
    let hello = Hello { member: MemberId(44), ..hello.expect("there is room") };
    Offer { wanted: NO_NUMBER, ..offer(hello) }
}

#[test]
fn a_stranger_without_the_secret_learns_no_number() {
    let peers = member(born(1, 7), &four(), secret());
    // Version 1 of the handshake, which this server still accepts from members.
    let mut stranger = Stranger::connect(&peers);
    stranger.say(&Handshake::Offer(question()));
    assert_eq!(stranger.refusal(), Refusal::OldHandshake.to_string());
    // A client that has the key, and proves something else; with URLs that are listed, and not.
    let mut unlisted = question();
    unlisted.hello.peer_urls.pop();
    for question in [question(), unlisted] {
        let mut stranger = Stranger::connect(&peers);
        let key = stranger.agree(4).key;
        stranger.knock_with(question, &key, b"another key");
        assert_eq!(stranger.refusal(), "it does not know the shared secret");
    }
    // An offer that is no question is judged like that of any server.
    let nobody = || Hello { member: MemberId(44), ..hello(NO_NUMBER) };
    for (change, expected) in [
        (Offer { wanted: 1, ..question() }, "server 0 is not configured here"),
        (offer(nobody()), "server 0 is not configured here"),
        (Offer { wanted: 0, ..offer(nobody()) }, "it wants server 0, and this is server 1"),
        (Offer { wanted: 0, ..offer(hello(2)) }, "it wants server 0, and this is server 1"),
    ] {
        let reason = super::refused(&peers, change);
        assert!(reason.starts_with(expected), "{reason}");
    }
    assert!(is_untouched(&peers));
    peers.sockets.stop();
}

/// What a server believes that asks an accepter with these answers.
fn told_by(answers: impl Fn(Offer) -> Vec<Handshake> + Send + 'static) -> DiscoverError {
    let accepter = listener();
    let port = port(&accepter);
    let accepting = std::thread::spawn(move || {
        let (stream, _) = accepter.accept().expect("it dials");
        stream.set_read_timeout(Some(PATIENCE)).expect("is set");
        let frames = FrameReader::new(HANDSHAKE_FRAME_BYTES_MAX);
        let mut stranger = Stranger { stream, frames };
        let said = Handshake::decode(&stranger.hear().expect("it offers"));
        let Ok(Handshake::Offer(offer)) = said else { panic!("{said:?}") };
        answers(offer).iter().for_each(|answer| stranger.say(answer));
        while stranger.hear().is_some() {}
    });
    let error = ask(&[port], PeerAuth::None).expect_err("it does not believe that");
    accepting.join().expect("it has spoken");
    error
}

#[test]
fn a_number_that_does_not_fit_the_question_is_not_believed() {
    let answer = |hello: Hello| {
        let (auth, process, nonce) = (AuthKind::None, 9, [9; 32]);
        Handshake::Answer(Answer { auth, process, nonce, hello }, [0; 32])
    };
    let out_of_turn = |error: DiscoverError| {
        assert!(error.to_string().contains("it broke the rules of the handshake"), "{error}");
    };
    out_of_turn(told_by(|_| vec![Handshake::YouAre(told())]));
    out_of_turn(told_by(move |_| vec![answer(born(1, 7)), Handshake::Accepted]));
    let changes: [fn(&mut Discovered); 3] = [
        |told| told.cluster_id = 8,
        |told| told.number = 3,
        |told| told.servers = BTreeMap::from([(4, vec![URLS[0].to_string()])]),
    ];
    for change in changes {
        let mut told = told();
        change(&mut told);
        out_of_turn(told_by(move |_| vec![answer(born(1, 7)), Handshake::YouAre(told.clone())]));
    }
    let later = Hello { level: Some(Level::NEWEST.into()), ..born(1, 7) };
    let error = told_by(move |_| vec![answer(later.clone())]);
    assert!(error.to_string().contains("and this server knows up to 1"), "{error}");
}
