//! Makes links over real sockets on loopback. Tests which servers get linked, and that neither
//! strangers nor silent connections disturb the links.

use std::io::{Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use machine::{BootId, Level};
use member::membership::hello::Known;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use storage::datadir::Birth;

mod lost;
mod numbers;
mod retired;

use super::*;
use crate::limits::HANDSHAKE_FRAME_BYTES_MAX;
use crate::peer_frame::{FRAME_HEAD_BYTES, PEER_VERSION};
use crate::peer_hello::{Answer, AuthKind, Handshake, Offer, Transcript};
use crate::peer_key::{Agreed, Side};

/// Longest wait for something that must happen, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

const SECRET: &[u8] = b"a secret of the test";

fn listener() -> std::net::TcpListener {
    std::net::TcpListener::bind("127.0.0.1:0").expect("there is a port")
}

fn port(listener: &std::net::TcpListener) -> u16 {
    listener.local_addr().expect("it is bound").port()
}

fn server(number: u64, port: u16) -> PeerServer {
    let addresses = vec![PeerAddress { host: "127.0.0.1".to_string(), port }];
    PeerServer { number, addresses, peer_urls: vec![format!("http://127.0.0.1:{port}")] }
}

fn hello(server: u64) -> Hello {
    Hello::unborn(server, MemberId(10 * server), vec![1, 2, 3], Known::up_to(Level::FIRST))
}

fn born(server: u64, cluster_id: u128) -> Hello {
    let birth = Some(Birth { cluster_id, voters: vec![10, 20, 30] });
    Hello { boot: BootId(1), birth, ..hello(server) }
}

fn secret() -> PeerAuth {
    PeerAuth::Secret(Arc::new(PeerSecret::new(SECRET.to_vec(), true)))
}

/// The secret, with version 1 of the handshake forbidden.
fn strict_secret() -> PeerAuth {
    PeerAuth::Secret(Arc::new(PeerSecret::new(SECRET.to_vec(), false)))
}

/// A server, and the inputs that its links give.
struct Peers {
    sockets: PeerSockets,
    handle: PeerHandle,
    inputs: Receiver<PeerInput>,
    /// Gets whether this server is listed again, each time that another member says that this one
    /// is retired.
    ends: Receiver<bool>,
    room: Arc<Room>,
    port: u16,
}

/// Whether the receiver of inputs is full, and how often the links have asked it for space.
#[derive(Default)]
struct Room {
    is_full: AtomicBool,
    looks: AtomicU64,
}

impl Peers {
    fn start(
        hello: Hello,
        listener: std::net::TcpListener,
        servers: &[PeerServer],
        auth: PeerAuth,
    ) -> Peers {
        Peers::start_with(hello, listener, servers, auth, PATIENCE)
    }

    /// A server that lets the links of a server that leaves its list stay for that long.
    fn start_with(
        hello: Hello,
        listener: std::net::TcpListener,
        servers: &[PeerServer],
        auth: PeerAuth,
        departed_links_stay: Duration,
    ) -> Peers {
        let port = port(&listener);
        let (give, inputs) = channel();
        let (end, ends) = channel();
        // The tests have no randomness of their own: the port makes the secrets of servers differ.
        let mut secret = [hello.server as u8; 32];
        secret[..2].copy_from_slice(&port.to_le_bytes());
        let config = PeerConfig {
            servers: servers.to_vec(),
            departed_links_stay,
            listeners: vec![listener],
            auth,
            secret,
            connect_timeout: PATIENCE,
            keep_alive: true,
            on_retired: Box::new(move |is_listed| {
                // A test that has seen enough has dropped its receiver.
                let _ = end.send(is_listed);
            }),
        };
        let room = Arc::<Room>::default();
        let of_links = room.clone();
        let sockets = PeerSockets::start(config, hello, move |inputs| {
            of_links.looks.fetch_add(u64::from(inputs.is_empty()), Ordering::SeqCst);
            // A test that has seen enough has dropped its receiver.
            inputs.into_iter().for_each(|input| drop(give.send(input)));
            !of_links.is_full.load(Ordering::SeqCst)
        });
        let sockets = sockets.expect("the thread starts");
        Peers { handle: sockets.handle(), sockets, inputs, ends, room, port }
    }

    /// A peer that only accepts links, from servers 1 to 3.
    fn alone(hello: Hello, auth: PeerAuth) -> Peers {
        // These ports were closed again, so every dial fails.
        let gone: Vec<u16> = (0..3).map(|_| port(&listener())).collect();
        let servers: Vec<_> = (1..4).zip(gone).map(|(number, port)| server(number, port)).collect();
        Peers::start(hello, listener(), &servers, auth)
    }

    /// Waits until no link with that server is registered. By then the end of each link was
    /// reported.
    fn wait_unlinked(&self, server: u64) {
        let deadline = Instant::now() + PATIENCE;
        while self.handle.links().iter().any(|it| it.link.hello.server == server) {
            assert!(Instant::now() < deadline, "the links stay");
            let _ = self.inputs.recv_timeout(Duration::from_millis(10));
        }
    }

    fn next(&self) -> PeerInput {
        self.inputs.recv_timeout(PATIENCE).expect("something comes")
    }

    /// Waits for the first input for which `look` returns something, and skips the inputs before
    /// it.
    fn wait_for<T>(&self, mut look: impl FnMut(PeerInput) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let input = self.inputs.recv_timeout(left).expect("it comes in time");
            if let Some(found) = look(input) {
                return found;
            }
        }
    }

    /// Waits for links with each of these servers, on both channels, in both directions.
    fn wait_linked(&self, servers: &[u64]) {
        let mut missing: Vec<(u64, bool, Channel)> = Vec::new();
        for server in servers {
            for channel in [Channel::Log, Channel::Bulk] {
                missing.extend([(*server, false, channel), (*server, true, channel)]);
            }
        }
        self.wait_for(|input| {
            match input {
                PeerInput::LinkUp(link) => {
                    let found = (link.hello.server, link.is_outgoing, link.channel);
                    missing.retain(|it| *it != found);
                }
                // The end of a link with another server does not matter here.
                PeerInput::LinkDown(link) if servers.contains(&link.hello.server) => {
                    missing.push((link.hello.server, link.is_outgoing, link.channel));
                }
                PeerInput::LinkDown(_) | PeerInput::Frame { .. } => {}
            }
            missing.is_empty().then_some(())
        });
    }

    fn wait_up(&self) -> Link {
        self.wait_for(|input| match input {
            PeerInput::LinkUp(link) => Some(link),
            _ => None,
        })
    }

    fn wait_down(&self) -> Link {
        self.wait_for(|input| match input {
            PeerInput::LinkDown(link) => Some(link),
            _ => None,
        })
    }

    fn wait_frame(&self) -> (MemberId, Channel, PeerFrame) {
        self.wait_for(|input| match input {
            PeerInput::Frame { from, channel, frame } => Some((from, channel, frame)),
            _ => None,
        })
    }
}

/// Servers 1 to 3, which know each other.
fn three(auth: impl Fn(usize) -> PeerAuth) -> Vec<Peers> {
    of_three(3, auth)
}

/// The first `count` of three servers; nobody listens on the ports of the others.
fn of_three(count: usize, auth: impl Fn(usize) -> PeerAuth) -> Vec<Peers> {
    let listeners: Vec<_> = (0..3).map(|_| listener()).collect();
    let servers: Vec<_> = (1..4).zip(&listeners).map(|(it, from)| server(it, port(from))).collect();
    let started = listeners
        .into_iter()
        .enumerate()
        .take(count)
        .map(|(at, listener)| Peers::start(hello(at as u64 + 1), listener, &servers, auth(at)));
    started.collect()
}

fn frame(kind: u8, bytes: usize) -> PeerFrame {
    PeerFrame { kind, body: vec![kind; bytes].into() }
}

#[test]
fn three_servers_link_and_frames_come_in_order_on_each_channel() {
    let peers = three(|_| secret());
    peers[0].wait_linked(&[2, 3]);
    peers[1].wait_linked(&[1, 3]);
    peers[2].wait_linked(&[1, 2]);
    assert_eq!(peers[0].handle.links().len(), 8);
    // Pieces of a snapshot, between heartbeats.
    for count in 0..200 {
        peers[0].handle.send(MemberId(20), Channel::Log, frame(1, count));
    }
    for _ in 0..4 {
        peers[0].handle.send(MemberId(20), Channel::Bulk, frame(7, 9 << 20));
        peers[0].handle.flush();
    }
    peers[0].handle.send(MemberId(30), Channel::Log, frame(2, 0));
    peers[0].handle.flush();
    let (mut log_count, mut bulk_count) = (0, 0);
    while log_count < 200 || bulk_count < 4 {
        match peers[1].wait_frame() {
            (MemberId(10), Channel::Log, it) => {
                assert_eq!(it, frame(1, log_count));
                log_count += 1;
            }
            (MemberId(10), Channel::Bulk, it) => {
                assert!(it == frame(7, 9 << 20));
                bulk_count += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(peers[2].wait_frame(), (MemberId(10), Channel::Log, frame(2, 0)));
    // No member has this id.
    assert_eq!(peers[0].handle.dropped_count(), 0);
    peers[0].handle.send(MemberId(21), Channel::Log, frame(2, 0));
    assert_eq!(peers[0].handle.dropped_count(), 1);
    peers.into_iter().for_each(|it| it.sockets.stop());
}

#[test]
fn a_server_that_goes_is_missed_and_one_that_comes_back_is_found() {
    let mut peers = three(|_| PeerAuth::None);
    peers[0].wait_linked(&[2, 3]);
    peers[1].wait_linked(&[1, 3]);
    let gone = peers.pop().expect("there are three");
    let (at, hello_of) = (gone.port, hello(3));
    gone.sockets.stop();
    for it in &peers {
        let mut ends = 0;
        it.wait_for(|input| {
            ends += u32::from(matches!(input, PeerInput::LinkDown(link) if link.hello.server == 3));
            (ends == 4).then_some(())
        });
        it.wait_unlinked(3);
        it.handle.send(MemberId(30), Channel::Log, frame(1, 1));
        assert_eq!(it.handle.dropped_count(), 1);
    }
    let servers: Vec<_> =
        peers.iter().zip(1..).map(|(it, number)| server(number, it.port)).collect();
    let again = std::net::TcpListener::bind(("127.0.0.1", at)).expect("the port is free again");
    let back = Peers::start(Hello { boot: BootId(1), ..hello_of }, again, &servers, PeerAuth::None);
    back.wait_linked(&[1, 2]);
    peers[0].wait_linked(&[3]);
    back.sockets.stop();
    peers.into_iter().for_each(|it| it.sockets.stop());
}

#[test]
fn a_birth_makes_the_links_anew_and_says_so() {
    let peers = of_three(2, |_| secret());
    peers[0].wait_linked(&[2]);
    peers[1].wait_linked(&[1]);
    peers[0].handle.set_hello(born(1, 7));
    let mut ends = 0;
    peers[1].wait_for(|input| {
        match input {
            PeerInput::LinkDown(link) => {
                assert_eq!(*link.hello, hello(1));
                ends += 1;
            }
            PeerInput::LinkUp(link) => assert_eq!(*link.hello, born(1, 7)),
            PeerInput::Frame { .. } => {}
        }
        (ends == 4).then_some(())
    });
    let is_whole = |it: &Peers| it.handle.links().len() == 4;
    while !is_whole(&peers[1]) {
        assert_eq!(*peers[1].wait_up().hello, born(1, 7));
    }
    // Servers that were born in different clusters end their links.
    peers[1].handle.set_hello(born(2, 8));
    peers[0].wait_unlinked(2);
    peers[1].handle.set_hello(born(2, 7));
    peers[0].wait_linked(&[2]);
    peers.into_iter().for_each(|it| it.sockets.stop());
}

/// Servers 1 to 3, each with its list of servers and with how long it lets links stay.
fn three_listing(lists: [&[u64]; 3], stay: Duration) -> (Vec<Peers>, Vec<PeerServer>) {
    let listeners: Vec<_> = (0..3).map(|_| listener()).collect();
    let servers: Vec<_> = (1..4).zip(&listeners).map(|(it, from)| server(it, port(from))).collect();
    let started = listeners.into_iter().zip(lists).zip(1..).map(|((listener, list), number)| {
        let listed = servers.iter().filter(|it| list.contains(&it.number)).cloned();
        let listed: Vec<_> = listed.collect();
        Peers::start_with(hello(number), listener, &listed, secret(), stay)
    });
    (started.collect(), servers)
}

/// The members that the links show traffic with.
fn shown_members(peers: &Peers) -> Vec<u64> {
    peers.handle.traffic().iter().map(|it| it.member.0).collect()
}

#[test]
fn a_server_that_is_listed_later_gets_linked() {
    let (peers, servers) = three_listing([&[1, 2], &[1, 2], &[1, 2, 3]], PATIENCE);
    peers[0].wait_linked(&[2]);
    peers[1].wait_linked(&[1]);
    assert_eq!(refused(&peers[0], offer(hello(3))), "server 3 is not configured here");
    peers[0].handle.set_servers(servers.clone(), BTreeSet::new());
    peers[1].handle.set_servers(servers, BTreeSet::new());
    peers[0].wait_linked(&[3]);
    peers[1].wait_linked(&[3]);
    peers[2].wait_linked(&[1, 2]);
    peers[0].handle.send(MemberId(30), Channel::Log, frame(2, 0));
    peers[0].handle.flush();
    assert_eq!(peers[2].wait_frame(), (MemberId(10), Channel::Log, frame(2, 0)));
    assert_eq!(shown_members(&peers[0]), [20, 30]);
    peers.into_iter().for_each(|it| it.sockets.stop());
}

#[test]
fn the_links_of_a_server_that_is_listed_no_more_end_and_its_dials_are_refused() {
    let all: &[u64] = &[1, 2, 3];
    let (peers, servers) = three_listing([all; 3], Duration::ZERO);
    peers[0].wait_linked(&[2, 3]);
    peers[0].handle.set_servers(servers[..2].to_vec(), BTreeSet::new());
    let mut ends = 0;
    peers[0].wait_for(|input| {
        if let PeerInput::LinkDown(link) = input {
            assert_eq!(link.hello.server, 3);
            ends += 1;
        }
        (ends == 4).then_some(())
    });
    peers[0].wait_unlinked(3);
    assert_eq!(refused(&peers[0], offer(hello(3))), "server 3 is not configured here");
    assert_eq!(shown_members(&peers[0]), [20]);
    assert_eq!(peers[0].handle.links().len(), 4);
    peers.into_iter().for_each(|it| it.sockets.stop());
}

#[test]
fn a_server_that_is_listed_no_more_is_not_dialled() {
    let (gone, there) = (listener(), listener());
    let servers = [server(1, 1), server(2, port(&gone)), server(3, port(&there))];
    let peers = Peers::start(hello(1), listener(), &servers, PeerAuth::None);
    // Each dial fails at once, and is tried again soon.
    for _ in 0..6 {
        drop(gone.accept().expect("it dials"));
    }
    peers.handle.set_servers(vec![server(3, port(&there))], BTreeSet::new());
    let dials_of = |count| (0..count).for_each(|_| drop(there.accept().expect("it dials")));
    // Dials that were under way before the links saw the new list.
    dials_of(6);
    gone.set_nonblocking(true).expect("is set");
    while gone.accept().is_ok() {}
    dials_of(6);
    assert!(gone.accept().is_err(), "it is still dialled");
    peers.sockets.stop();
}

#[test]
fn links_stay_if_their_server_is_listed_again_in_time() {
    let all: &[u64] = &[1, 2, 3];
    let (peers, servers) = three_listing([all; 3], PATIENCE);
    peers[0].wait_linked(&[2, 3]);
    peers[1].wait_linked(&[1]);
    peers[0].handle.set_servers(servers[..1].to_vec(), BTreeSet::new());
    assert_eq!(shown_members(&peers[0]), []);
    // Until its links end, what a server sends still comes, and it is still sent to.
    peers[1].handle.send(MemberId(10), Channel::Log, frame(1, 5));
    peers[1].handle.flush();
    let (from, channel) = (MemberId(20), Channel::Log);
    assert_eq!(peers[0].next(), PeerInput::Frame { from, channel, frame: frame(1, 5) });
    peers[0].handle.send(MemberId(20), Channel::Log, frame(1, 6));
    peers[0].handle.flush();
    assert_eq!(peers[1].wait_frame().2, frame(1, 6));
    assert_eq!(refused(&peers[0], offer(hello(2))), "server 2 is not configured here");
    peers[0].handle.set_servers(servers.clone(), BTreeSet::new());
    peers[0].handle.set_servers(servers, BTreeSet::new());
    assert_eq!(shown_members(&peers[0]), [20, 30]);
    assert_eq!(peers[0].handle.links().len(), 8);
    assert_eq!(peers[0].inputs.try_recv(), Err(std::sync::mpsc::TryRecvError::Empty));
    peers.into_iter().for_each(|it| it.sockets.stop());
}

#[test]
fn a_link_outlives_a_change_of_addresses_and_its_successor_goes_to_the_new_ones() {
    let (old, new) = (listener(), listener());
    let listed = |at: &std::net::TcpListener| vec![server(1, 1), server(2, port(at))];
    // Nobody listens at the first address: the links are made once the list names a better one.
    let nowhere = [server(2, port(&listener()))];
    let peers = Peers::start(hello(1), listener(), &nowhere, PeerAuth::None);
    peers.handle.set_servers(listed(&old), BTreeSet::new());
    let (first, second) = (Stranger::accept(&old), Stranger::accept(&old));
    peers.wait_up();
    peers.wait_up();
    peers.handle.set_servers(listed(&new), BTreeSet::new());
    let (cut, channel) = first;
    assert_eq!(peers.handle.links().len(), 2);
    drop(cut);
    assert_eq!(peers.wait_down().channel, channel);
    let (_third, again) = Stranger::accept(&new);
    assert_eq!(again, channel);
    assert_eq!(peers.wait_up().channel, channel);
    // The other link is still the old one.
    assert_eq!(peers.handle.links().len(), 2);
    assert_eq!(peers.inputs.try_recv(), Err(std::sync::mpsc::TryRecvError::Empty));
    drop(second);
    peers.sockets.stop();
}

/// A client that may send anything.
struct Stranger {
    stream: std::net::TcpStream,
    frames: FrameReader,
}

impl Stranger {
    fn connect(peers: &Peers) -> Stranger {
        let stream = std::net::TcpStream::connect(("127.0.0.1", peers.port)).expect("connects");
        stream.set_read_timeout(Some(PATIENCE)).expect("is set");
        Stranger { stream, frames: FrameReader::new(HANDSHAKE_FRAME_BYTES_MAX) }
    }

    fn send(&mut self, bytes: &[u8]) {
        // The other side may have closed before it read everything.
        drop(self.stream.write_all(bytes));
    }

    fn say(&mut self, what: &Handshake) {
        let bytes = FrameBatch::new(vec![what.encode()]).to_bytes();
        self.send(&bytes);
    }

    /// The next frame; `None` if the connection was closed.
    fn hear(&mut self) -> Option<PeerFrame> {
        loop {
            if let Some(frame) = self.frames.next().expect("our side speaks well") {
                return Some(frame);
            }
            let mut bytes = [0; 4096];
            match self.stream.read(&mut bytes) {
                Ok(0) | Err(_) => return None,
                Ok(count) => self.frames.room().extend_from_slice(&bytes[..count]),
            }
        }
    }

    /// The reason of the refusal that the server sends.
    fn refusal(&mut self) -> String {
        let frame = self.hear().expect("it is refused, not dropped");
        match Handshake::decode(&frame) {
            Ok(Handshake::Refused(reason)) => {
                assert_eq!(self.hear(), None, "it is closed then");
                reason
            }
            other => panic!("{other:?}"),
        }
    }

    /// Agrees on a key. `draw` is used as the random number, so that a test can use one twice.
    fn agree(&mut self, draw: u8) -> Agreed {
        let shared = SharedNumber::of(SECRET);
        let exchange = shared.begin(Side::Dialler, || [draw; 32]);
        self.say(&Handshake::Begin(*exchange.share()));
        let frame = self.hear().expect("it replies");
        let Ok(Handshake::Reply(share)) = Handshake::decode(&frame) else { panic!("{frame:?}") };
        let agreed = exchange.finish(&share).expect("is a share");
        self.say(&Handshake::Confirm(agreed.own));
        let frame = self.hear().expect("it confirms");
        match Handshake::decode(&frame) {
            Ok(Handshake::Confirm(theirs)) => assert!(agreed.is_confirmed_by(&theirs)),
            other => panic!("{other:?}"),
        }
        agreed
    }

    /// Runs a handshake up to the last message, which the server sends.
    fn knock(&mut self, offer: Offer) {
        let key = match offer.auth {
            AuthKind::Secret => self.agree(4).key.to_vec(),
            _ => SECRET.to_vec(),
        };
        self.knock_with(offer, &key, &key);
    }

    /// The part of a handshake after a key is agreed; in version 1 the key is the secret. The proof
    /// is made with `proved`.
    fn knock_with(&mut self, offer: Offer, key: &[u8], proved: &[u8]) {
        self.say(&Handshake::Offer(offer.clone()));
        let frame = self.hear().expect("it answers");
        let answer = match Handshake::decode(&frame) {
            Ok(Handshake::Answer(answer, proof)) => {
                let transcript = Transcript { offer: offer.clone(), answer: answer.clone() };
                if offer.auth == AuthKind::Secret {
                    assert!(transcript.is_accepter(key, &proof));
                }
                answer
            }
            other => panic!("{other:?}"),
        };
        let transcript = Transcript { offer, answer };
        self.say(&Handshake::Proof(transcript.dialler_proof(proved)));
    }

    /// Makes a link and keeps it alive with beats.
    fn link(&mut self, offer: Offer) {
        self.link_silently(offer);
        self.send_beats();
    }

    /// Accepts a dial of the server without a secret, as server 2, and keeps the link alive.
    /// Returns also its channel.
    fn accept(at: &std::net::TcpListener) -> (Stranger, Channel) {
        let (stream, _) = at.accept().expect("it dials");
        stream.set_read_timeout(Some(PATIENCE)).expect("is set");
        let frames = FrameReader::new(HANDSHAKE_FRAME_BYTES_MAX);
        let mut accepter = Stranger { stream, frames };
        let offer = Handshake::decode(&accepter.hear().expect("it offers"));
        let Ok(Handshake::Offer(offer)) = offer else { panic!("{offer:?}") };
        let (auth, process, nonce) = (AuthKind::None, 9, [9; 32]);
        let answer = Answer { auth, process, nonce, hello: hello(2) };
        accepter.say(&Handshake::Answer(answer, [0; 32]));
        accepter.hear().expect("it proves");
        accepter.say(&Handshake::Accepted);
        accepter.send_beats();
        (accepter, offer.channel)
    }

    fn send_beats(&self) {
        let mut stream = self.stream.try_clone().expect("has a second handle");
        let beat = FrameBatch::new(vec![frame(KIND_BEAT, 0)]).to_bytes();
        // Until one side closes the connection.
        std::thread::spawn(move || {
            while stream.write_all(&beat).is_ok() {
                std::thread::park_timeout(PEER_BEAT / 4);
            }
        });
    }

    /// Makes a link and sends nothing on it.
    fn link_silently(&mut self, offer: Offer) {
        self.knock(offer);
        let frame = self.hear().expect("it accepts");
        assert_eq!(Handshake::decode(&frame), Ok(Handshake::Accepted));
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        // The connection may be closed already.
        drop(self.stream.shutdown(std::net::Shutdown::Both));
    }
}

fn offer(from: Hello) -> Offer {
    let (auth, channel) = (AuthKind::Secret, Channel::Log);
    Offer { auth, channel, wanted: 1, process: 5, nonce: [6; 32], hello: from }
}

fn refused(peers: &Peers, offer: Offer) -> String {
    let mut stranger = Stranger::connect(peers);
    if offer.auth == AuthKind::Secret {
        stranger.agree(4);
    }
    stranger.say(&Handshake::Offer(offer));
    stranger.refusal()
}

#[test]
fn whoever_may_not_link_is_told_why_and_nothing_is_told_of_it() {
    let peers = Peers::alone(born(1, 7), secret());
    let check = |offer: Offer, expected: &str| {
        let reason = refused(&peers, offer);
        assert!(reason.contains(expected), "{reason}");
    };
    check(offer(hello(4)), "server 4 is not configured here");
    check(offer(Hello { member: MemberId(11), ..hello(1) }), "it says that it is server 1");
    check(offer(Hello { member: MemberId(10), ..hello(2) }), "a copy of server 1's");
    check(offer(born(2, 8)), "to another ensemble");
    check(Offer { wanted: 3, ..offer(hello(2)) }, "it wants server 3, and this is server 1");
    for auth in [AuthKind::None, AuthKind::Tls] {
        check(Offer { auth, ..offer(hello(2)) }, "authenticate by a shared secret");
    }
    let mut stranger = Stranger::connect(&peers);
    let key = stranger.agree(4).key;
    stranger.knock_with(offer(hello(2)), &key, b"another key");
    assert_eq!(stranger.refusal(), "it does not know the shared secret");
    // An answer instead of an offer, and an offer instead of a proof.
    let mut stranger = Stranger::connect(&peers);
    stranger.say(&Handshake::Accepted);
    assert_eq!(stranger.refusal(), "it broke the rules of the handshake");
    let mut stranger = Stranger::connect(&peers);
    stranger.say(&Handshake::Offer(offer(hello(2))));
    stranger.hear().expect("it answers");
    stranger.say(&Handshake::Offer(offer(hello(2))));
    assert_eq!(stranger.refusal(), "it broke the rules of the handshake");
    assert_eq!(peers.inputs.try_recv(), Err(std::sync::mpsc::TryRecvError::Empty));
    assert!(peers.handle.links().is_empty());
    peers.sockets.stop();
}

/// The messages received until the connection is closed.
fn heard_until_closed(stranger: &mut Stranger) -> Vec<Handshake> {
    let frames = std::iter::from_fn(|| stranger.hear());
    frames.map(|frame| Handshake::decode(&frame).expect("our side speaks well")).collect()
}

#[test]
fn a_stranger_learns_nothing_before_it_has_shown_the_secret() {
    let peers = Peers::alone(born(1, 7), strict_secret());
    let refused = |reason: &str| Handshake::Refused(reason.to_string());
    let old = "it speaks version 1 of the handshake only, which is not taken here: install version \
               0.4.0 or later there";
    // An offer first, as in version 1.
    let mut stranger = Stranger::connect(&peers);
    stranger.say(&Handshake::Offer(offer(hello(2))));
    assert_eq!(heard_until_closed(&mut stranger), [refused(old)]);
    // A guess of the secret; and the server's own bytes, sent back.
    let guess = SharedNumber::of(b"a secret of a guesser");
    let exchange = guess.begin(Side::Dialler, || [4; 32]);
    let mut stranger = Stranger::connect(&peers);
    stranger.say(&Handshake::Begin(*exchange.share()));
    let frame = stranger.hear().expect("it replies");
    let Ok(Handshake::Reply(share)) = Handshake::decode(&frame) else { panic!("{frame:?}") };
    let guessed = exchange.finish(&share).expect("is a share");
    stranger.say(&Handshake::Confirm(guessed.own));
    let wrong = [refused("it does not know the shared secret")];
    assert_eq!(heard_until_closed(&mut stranger), wrong);
    // Bytes that are no point of the curve.
    let mut stranger = Stranger::connect(&peers);
    stranger.say(&Handshake::Begin([4; 65]));
    stranger.hear().expect("it replies");
    assert_eq!(heard_until_closed(&mut stranger), wrong);
    // The confirmation that another client made with the secret is of no use.
    let mut first = Stranger::connect(&peers);
    let overheard = first.agree(4).own;
    let exchange = SharedNumber::of(SECRET);
    let exchange = exchange.begin(Side::Dialler, || [4; 32]);
    let mut second = Stranger::connect(&peers);
    second.say(&Handshake::Begin(*exchange.share()));
    second.hear().expect("it replies");
    second.say(&Handshake::Confirm(overheard));
    assert_eq!(heard_until_closed(&mut second), wrong);
    // An offer instead of the confirmation.
    let mut stranger = Stranger::connect(&peers);
    stranger.say(&Handshake::Begin(*exchange.share()));
    stranger.hear().expect("it replies");
    stranger.say(&Handshake::Offer(offer(hello(2))));
    let out_of_turn = refused("it broke the rules of the handshake");
    assert_eq!(heard_until_closed(&mut stranger), [out_of_turn]);
    assert!(peers.handle.links().is_empty());
    peers.sockets.stop();
}

#[test]
fn a_flood_of_handshakes_ends_no_link() {
    let peers = Peers::alone(hello(1), secret());
    let mut linked = Stranger::connect(&peers);
    linked.link(offer(hello(2)));
    peers.wait_up();
    let shared = SharedNumber::of(b"a secret of a guesser");
    let share = *shared.begin(Side::Dialler, || [4; 32]).share();
    let mut replies = 0;
    let began = Instant::now();
    for _ in 0..150 {
        let mut stranger = Stranger::connect(&peers);
        stranger.say(&Handshake::Begin(share));
        replies += usize::from(stranger.hear().is_some());
    }
    // A slow machine may take several seconds.
    let seconds = began.elapsed().as_secs() as usize + 1;
    assert!(replies <= 100 * seconds, "{replies} replies");
    assert_eq!(peers.handle.links().len(), 1);
    linked.send(&FrameBatch::new(vec![frame(7, 3)]).to_bytes());
    assert_eq!(peers.wait_frame().2, frame(7, 3));
    peers.sockets.stop();
}

#[test]
fn a_server_of_an_older_build_links_until_the_level_or_a_setting_forbids_it() {
    let dial = |own: Hello, auth: PeerAuth| {
        let level = own.level.clone().map(|stated| stated.level);
        let peers = Peers::alone(own, auth);
        let mut old = Stranger::connect(&peers);
        let mut from = offer(hello(2));
        from.hello.known.level_max = level.unwrap_or(Level::FIRST);
        old.say(&Handshake::Offer(from.clone()));
        let answered = Handshake::decode(&old.hear().expect("it answers or refuses"));
        let Ok(Handshake::Answer(answer, proof)) = answered else {
            peers.sockets.stop();
            return false;
        };
        let transcript = Transcript { offer: from, answer };
        assert!(transcript.is_accepter(SECRET, &proof));
        old.say(&Handshake::Proof(transcript.dialler_proof(SECRET)));
        assert_eq!(Handshake::decode(&old.hear().expect("it accepts")), Ok(Handshake::Accepted));
        peers.wait_up();
        peers.sockets.stop();
        true
    };
    let at = |level: Level| Hello { level: Some(level.into()), ..born(1, 7) };
    assert!(dial(hello(1), secret()));
    let known = Known::up_to(Level::NEWEST);
    assert!(dial(Hello { known: known.clone(), ..at(Level::ETCD_V2) }, secret()));
    assert!(!dial(Hello { known, ..at(Level::TOKENS) }, secret()));
    assert!(!dial(hello(1), strict_secret()));
}

/// Accepts connections like a server of an older version, which knows only version 1 of the
/// handshake. Returns the first message on each connection, until one is linked or eight have come.
fn dialled_by(own: Hello, auth: PeerAuth) -> Vec<Handshake> {
    let old = listener();
    let servers = [server(1, 1), server(2, port(&old))];
    let peers = Peers::start(own, listener(), &servers, auth);
    let mut first = Vec::new();
    while first.len() < 8 {
        let (stream, _) = old.accept().expect("it dials");
        stream.set_read_timeout(Some(PATIENCE)).expect("is set");
        let frames = FrameReader::new(HANDSHAKE_FRAME_BYTES_MAX);
        let mut dialler = Stranger { stream, frames };
        let said = Handshake::decode(&dialler.hear().expect("it speaks")).expect("it speaks well");
        first.push(said.clone());
        let Handshake::Offer(offer) = said else {
            dialler.say(&Handshake::Refused(Refusal::OutOfTurn.to_string()));
            continue;
        };
        let (auth, process, nonce) = (AuthKind::Secret, 9, [9; 32]);
        let answer = Answer { auth, process, nonce, hello: hello(2) };
        let transcript = Transcript { offer, answer };
        let proof = transcript.accepter_proof(SECRET);
        dialler.say(&Handshake::Answer(transcript.answer.clone(), proof));
        let proof = Handshake::decode(&dialler.hear().expect("it proves")).expect("speaks well");
        assert_eq!(proof, Handshake::Proof(transcript.dialler_proof(SECRET)));
        dialler.say(&Handshake::Accepted);
        peers.wait_up();
        break;
    }
    peers.sockets.stop();
    first
}

#[test]
fn a_server_of_an_older_build_is_dialled_as_it_understands_until_that_is_forbidden() {
    let first = dialled_by(hello(1), secret());
    assert!(matches!(first[0], Handshake::Begin(_)), "the new version is tried first");
    assert!(first.iter().any(|it| matches!(it, Handshake::Offer(_))));
    let at_level = Hello { level: Some(Level::TOKENS.into()), ..born(1, 7) };
    for (own, auth) in [(hello(1), strict_secret()), (at_level, secret())] {
        let first = dialled_by(own, auth);
        assert!(first.iter().all(|it| matches!(it, Handshake::Begin(_))), "{first:?}");
    }
}

#[test]
fn a_proof_that_was_heard_before_is_worth_nothing() {
    let peers = Peers::alone(hello(1), secret());
    let mut first = Stranger::connect(&peers);
    first.say(&Handshake::Offer(offer(hello(2))));
    let frame = first.hear().expect("it answers");
    let Ok(Handshake::Answer(answer, proof)) = Handshake::decode(&frame) else {
        panic!("{frame:?}")
    };
    let transcript = Transcript { offer: offer(hello(2)), answer };
    let good = transcript.dialler_proof(SECRET);
    // A proof from another handshake, and the accepter's own proof sent back.
    for stolen in [good, proof] {
        let mut second = Stranger::connect(&peers);
        second.say(&Handshake::Offer(offer(hello(2))));
        second.hear().expect("it answers");
        second.say(&Handshake::Proof(stolen));
        assert_eq!(second.refusal(), "it does not know the shared secret");
    }
    first.say(&Handshake::Proof(good));
    assert_eq!(Handshake::decode(&first.hear().expect("it accepts")), Ok(Handshake::Accepted));
    peers.sockets.stop();
}

#[test]
fn garbage_of_every_kind_is_refused_and_disturbs_no_link() {
    let peers = Peers::alone(hello(1), secret());
    let mut linked = Stranger::connect(&peers);
    linked.link(offer(hello(2)));
    peers.wait_up();
    let good = FrameBatch::new(vec![Handshake::Offer(offer(hello(3))).encode()]).to_bytes();
    let mut other_version = good.clone();
    other_version[8] = PEER_VERSION + 1;
    let crc = crc32c::crc32c(&other_version[8..]);
    other_version[4..8].copy_from_slice(&crc.to_le_bytes());
    let mut flipped = good.clone();
    flipped[FRAME_HEAD_BYTES + 3] ^= 1;
    // The first bytes of ZooKeeper's election (`QuorumCnxManager`), and an HTTP request.
    let zookeeper = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let too_long = vec![0xff; 100_000];
    let unknown = FrameBatch::new(vec![frame(99, 10)]).to_bytes();
    let said: [(&[u8], &str); 6] = [
        (&other_version, "it speaks version 2 of the protocol between members, this one 1"),
        (&flipped, "the checksum of a frame does not match"),
        (&zookeeper, "no member sends that"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "no member sends that"),
        (&too_long, "no member sends that"),
        (&unknown, "it broke the rules of the handshake"),
    ];
    for (bytes, expected) in said {
        let mut stranger = Stranger::connect(&peers);
        stranger.send(bytes);
        let reason = stranger.refusal();
        assert!(reason.contains(expected), "{reason}");
    }
    for cut in 0..good.len() {
        let mut stranger = Stranger::connect(&peers);
        stranger.send(&good[..cut]);
        drop(stranger.stream.shutdown(std::net::Shutdown::Write));
        assert_eq!(stranger.hear(), None, "cut at {cut}");
    }
    linked.send(&FrameBatch::new(vec![frame(1, 3)]).to_bytes());
    // This is the first input: nothing was given in between.
    let (from, channel) = (MemberId(20), Channel::Log);
    assert_eq!(peers.next(), PeerInput::Frame { from, channel, frame: frame(1, 3) });
    peers.sockets.stop();
}

#[test]
fn a_link_is_not_read_while_there_is_no_room_for_what_it_gives() {
    let peers = Peers::alone(hello(1), secret());
    let mut linked = Stranger::connect(&peers);
    linked.link(offer(hello(3)));
    peers.wait_up();
    peers.room.is_full.store(true, Ordering::SeqCst);
    let came = |bytes| {
        let (from, channel) = (MemberId(30), Channel::Log);
        PeerInput::Frame { from, channel, frame: frame(1, bytes) }
    };
    linked.send(&FrameBatch::new(vec![frame(1, 3)]).to_bytes());
    assert_eq!(peers.next(), came(3));
    linked.send(&FrameBatch::new(vec![frame(1, 4)]).to_bytes());
    let deadline = Instant::now() + PATIENCE;
    while peers.room.looks.load(Ordering::SeqCst) < 10 {
        assert!(Instant::now() < deadline, "it does not look for room");
        std::thread::yield_now();
    }
    assert_eq!(peers.inputs.try_recv(), Err(std::sync::mpsc::TryRecvError::Empty));
    peers.room.is_full.store(false, Ordering::SeqCst);
    assert_eq!(peers.next(), came(4));
    peers.sockets.stop();
}

#[test]
fn garbage_on_a_link_ends_it_and_no_other() {
    let peers = Peers::alone(hello(1), secret());
    let mut good = Stranger::connect(&peers);
    good.link(offer(hello(3)));
    peers.wait_up();
    let whole = FrameBatch::new(vec![frame(1, 50)]).to_bytes();
    let mut flipped = whole.clone();
    flipped[30] ^= 4;
    let mut too_long = whole.clone();
    too_long[..4].copy_from_slice(&(PEER_BODY_BYTES_MAX as u32 + 1).to_le_bytes());
    let beat_with_body = FrameBatch::new(vec![frame(KIND_BEAT, 1)]).to_bytes();
    for bytes in [flipped, too_long, beat_with_body, whole[..whole.len() - 1].to_vec()] {
        let mut linked = Stranger::connect(&peers);
        linked.link_silently(offer(hello(2)));
        assert_eq!(peers.wait_up().hello.server, 2);
        linked.send(&whole);
        assert_eq!(peers.wait_frame().2, frame(1, 50));
        linked.send(&bytes);
        drop(linked.stream.shutdown(std::net::Shutdown::Write));
        assert_eq!(
            peers.next(),
            PeerInput::LinkDown(Link {
                is_outgoing: false,
                channel: Channel::Log,
                hello: Arc::new(hello(2)),
            })
        );
        while linked.hear().is_some() {}
    }
    assert_eq!(peers.handle.links().len(), 1);
    peers.handle.end_links_from(MemberId(30), &"what it says has no meaning");
    assert_eq!(peers.wait_down().hello.server, 3);
    peers.sockets.stop();
}

#[test]
fn whoever_says_nothing_is_in_nobodys_way_and_closed_in_time() {
    let mut peers = Peers::alone(hello(1), secret());
    let mut silent: Vec<_> = (0..HANDSHAKES_MAX).map(|_| Stranger::connect(&peers)).collect();
    // One byte each, never a whole frame.
    silent.iter_mut().for_each(|it| it.send(&[1]));
    let mut late: Vec<_> = (0..8).map(|_| Stranger::connect(&peers)).collect();
    // The oldest connections were closed long before their time was up.
    assert!(silent[..8].iter_mut().all(|it| it.hear().is_none()));
    let mut linked = Stranger::connect(&peers);
    linked.link(offer(hello(2)));
    peers.wait_up();
    let began = Instant::now();
    assert!(silent[8..].iter_mut().chain(&mut late).all(|it| it.hear().is_none()));
    assert!(began.elapsed() < HANDSHAKE_LIMIT + PATIENCE);
    peers.inputs = channel().1;
    peers.sockets.stop();
}

#[test]
fn a_link_that_falls_silent_is_down_within_seconds() {
    let peers = Peers::alone(hello(1), secret());
    let mut linked = Stranger::connect(&peers);
    linked.link_silently(offer(hello(2)));
    peers.wait_up();
    let began = Instant::now();
    // The link is open and reads, but sends nothing.
    assert_eq!(peers.wait_down().hello.server, 2);
    assert!(began.elapsed() >= PEER_BEAT * (PEER_SILENT_BEATS_MAX - 1));
    let mut beats = 0;
    while let Some(frame) = linked.hear() {
        assert_eq!(frame, PeerFrame { kind: KIND_BEAT, body: Bytes::new() });
        beats += 1;
    }
    assert!(beats >= PEER_SILENT_BEATS_MAX);
    peers.sockets.stop();
}

#[test]
fn a_second_server_of_one_number_waits_until_the_first_is_gone() {
    let peers = Peers::alone(hello(1), secret());
    let mut first = Stranger::connect(&peers);
    first.link(offer(hello(2)));
    peers.wait_up();
    let knock = |offer: Offer| {
        let mut second = Stranger::connect(&peers);
        second.knock(offer);
        second.refusal()
    };
    let other = Hello { member: MemberId(21), ..hello(2) };
    assert_eq!(knock(offer(other.clone())), "another server 2 is connected already");
    // A copy of the directory, run at the same time under its own number and under another number.
    assert_eq!(
        knock(Offer { process: 6, ..offer(hello(2)) }),
        "another server 2 is connected already"
    );
    let copy = Hello { member: MemberId(20), ..hello(3) };
    assert!(knock(offer(copy)).contains("a copy of server 2's"));
    assert_eq!(peers.handle.links().len(), 1);
    drop(first);
    assert_eq!(*peers.wait_down().hello, hello(2));
    Stranger::connect(&peers).link(offer(other.clone()));
    assert_eq!(*peers.wait_up().hello, other);
    peers.sockets.stop();
}

#[test]
fn a_link_in_place_of_a_dead_one_comes_after_its_end_was_told() {
    let peers = Peers::alone(hello(1), secret());
    let mut first = Stranger::connect(&peers);
    first.link(offer(hello(2)));
    peers.wait_up();
    // First the process dials again, because it knows that its first link is dead; then a later
    // start of it dials.
    for again in [offer(hello(2)), Offer { process: 6, ..offer(born(2, 7)) }] {
        let mut second = Stranger::connect(&peers);
        second.knock(again.clone());
        assert_eq!(second.refusal(), "its older link is still being closed");
        assert!(matches!(peers.next(), PeerInput::LinkDown(_)));
        let mut third = Stranger::connect(&peers);
        third.link(again);
        assert!(matches!(peers.next(), PeerInput::LinkUp(_)));
        first = third;
    }
    drop(first);
    peers.sockets.stop();
}

#[test]
fn a_queue_has_its_bounds_and_takes_one_frame_of_any_size() {
    let outbox = Outbox::default();
    assert!(outbox.push(frame(1, PEER_QUEUE_BYTES_MAX + 1)));
    assert!(!outbox.push(frame(1, 0)));
    assert_eq!(outbox.take().len(), 1);
    assert!(outbox.take().is_empty());
    let half = frame(1, PEER_QUEUE_BYTES_MAX / 2);
    assert!(outbox.push(half.clone()) && outbox.push(half));
    assert!(!outbox.push(frame(1, 1)));
    assert_eq!((outbox.take().len(), outbox.take().len()), (1, 1));
    for _ in 0..PEER_QUEUE_FRAMES_MAX {
        assert!(outbox.push(frame(1, 0)));
    }
    assert!(!outbox.push(frame(1, 0)));
    assert_eq!(outbox.take().len(), PEER_WRITE_FRAMES_MAX);
    assert_eq!(outbox.waiting.lock().bytes, 0);
}

/// A socket of a link with the runtime that it needs, and its other end.
fn direct_socket() -> (tokio::runtime::Runtime, Arc<OwnedWriteHalf>, std::net::TcpStream) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("there is a runtime");
    let listener = listener();
    let stream = std::net::TcpStream::connect(listener.local_addr().expect("it is bound"));
    let stream = stream.expect("it listens");
    stream.set_nonblocking(true).expect("it is a socket");
    let (other, _) = listener.accept().expect("it was connected to");
    let write = {
        let _guard = runtime.enter();
        TcpStream::from_std(stream).expect("it is a socket").into_split().1
    };
    (runtime, Arc::new(write), other)
}

#[test]
fn the_task_of_a_link_is_not_woken_while_another_thread_writes() {
    let (runtime, socket, _other) = direct_socket();
    runtime.block_on(socket.writable()).expect("it is open");
    let outbox = Outbox::default();
    *outbox.socket.lock() = Some(DirectSocket { socket, batch: None });
    let is_woken = || {
        let mut arrived = std::pin::pin!(outbox.arrived.notified());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        arrived.as_mut().poll(&mut context).is_ready()
    };
    let held = outbox.socket.lock();
    assert!(outbox.push(frame(1, 1)));
    outbox.flush();
    assert!(!is_woken(), "the thread that writes takes the frame");
    drop(held);
    outbox.flush();
    assert!(outbox.is_empty());
    assert!(!is_woken());
    *outbox.socket.lock() = None;
    assert!(outbox.push(frame(1, 1)));
    outbox.flush();
    assert!(is_woken(), "only the task may write");
}

#[test]
fn frames_of_two_threads_at_once_are_all_sent() {
    let (runtime, socket, mut other) = direct_socket();
    let (outbox, end) = (Outbox::default(), Notify::new());
    other.set_read_timeout(Some(PATIENCE)).expect("it is a socket");
    let start = std::sync::Barrier::new(3);
    std::thread::scope(|scope| {
        let write = async {
            tokio::select! {
                ended = write_plain(socket, &outbox) => panic!("the link ends: {ended:?}"),
                () = end.notified() => {}
            }
        };
        scope.spawn(move || runtime.block_on(write));
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..3_000 {
                    start.wait();
                    assert!(outbox.push(frame(1, 1)));
                    outbox.flush();
                }
            });
        }
        let mut frames = vec![0; 2 * (FRAME_HEAD_BYTES + 1)];
        for _ in 0..3_000 {
            start.wait();
            other.read_exact(&mut frames).expect("both frames come");
        }
        end.notify_one();
    });
}

#[test]
fn the_same_trouble_is_logged_once_a_minute_whatever_its_numbers() {
    let mut complaints = Complaints::default();
    let now = Instant::now();
    assert!(complaints.is_due("server 2", "a frame of 17 bytes", now));
    assert!(!complaints.is_due("server 2", "a frame of 4711 bytes", now));
    assert!(complaints.is_due("server 3", "a frame of 17 bytes", now));
    assert!(complaints.is_due("server 2", "it is silent", now));
    let later = now + PEER_COMPLAINT_INTERVAL;
    assert!(!complaints.is_due("server 2", "it is silent", later - Duration::from_millis(1)));
    assert!(complaints.is_due("server 2", "it is silent", later));
    for count in 1..PEER_COMPLAINTS_MAX {
        assert!(complaints.is_due(&format!("server {count}"), "something", later));
    }
    assert!(!complaints.is_due("server 0", "something", later));
    // The end of trouble is logged once, and only for a peer whose trouble was logged.
    assert!(!complaints.are_over("server"));
    assert!(complaints.are_over("server 2"));
    assert!(!complaints.are_over("server 2"));
    assert!(!complaints.is_due("server 2", "it is silent", later));
    assert!(complaints.are_over("server 1"));
}

#[test]
fn dials_come_slower_up_to_a_bound_and_fast_after_a_link_that_lasted() {
    let mut redial = Redial::new(7);
    let short = Duration::ZERO;
    let mut wait = REDIAL_MIN;
    for _ in 0..20 {
        let next = redial.next(short);
        assert!(next >= wait / 2 && next <= wait, "{next:?} of {wait:?}");
        wait = (wait * 2).min(REDIAL_MAX);
    }
    assert!(redial.next(LINK_LASTED) <= REDIAL_MIN);
}

const CA: &[u8] = include_bytes!("../../../quorate/tests/fixtures/tls/ca.pem");
const MEMBER: &[u8] = include_bytes!("../../../quorate/tests/fixtures/tls/server.pem");
/// A certificate of the trusted authority that names no host.
const CLIENT: &[u8] = include_bytes!("../../../quorate/tests/fixtures/tls/client.pem");
const STRANGER: &[u8] = include_bytes!("../../../quorate/tests/fixtures/tls/stranger.pem");

/// TLS with this certificate and its key, which trusts certificates of the authority.
fn tls(own: &'static [u8]) -> PeerAuth {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(CA).expect("is PEM")).expect("is an authority");
    let roots = Arc::new(roots);
    let chain = vec![CertificateDer::from_pem_slice(own).expect("is PEM")];
    let key = PrivateKeyDer::from_pem_slice(own).expect("is PEM");
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone());
    let server = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .expect("the provider has them")
        .with_client_cert_verifier(verifier.build().expect("there is an authority"))
        .with_single_cert(chain.clone(), key.clone_key())
        .expect("they fit");
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has them")
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .expect("they fit");
    let names_host = |certificate: &CertificateDer<'_>, host: &str| {
        let certificate = rustls::server::ParsedCertificate::try_from(certificate);
        let name = ServerName::try_from(host.to_string()).expect("it is a host");
        certificate.is_ok_and(|it| rustls::client::verify_server_name(&it, &name).is_ok())
    };
    let (client, server) = (Arc::new(client), Arc::new(server));
    let tls = PeerTls { client, server, names_host: Some(names_host) };
    PeerAuth::Tls(Arc::new(move || tls.clone()))
}

/// The answer of a server to a dialler that presents this certificate and claims to be server 2.
fn said_by_tls(peers: &Peers, own: &'static [u8]) -> Handshake {
    let PeerAuth::Tls(tls) = tls(own) else { unreachable!("it is TLS") };
    let name = ServerName::try_from("localhost").expect("it is a name");
    let client = rustls::ClientConnection::new(tls().client, name).expect("it can begin");
    let stream = std::net::TcpStream::connect(("127.0.0.1", peers.port)).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("it can be set");
    let mut stream = rustls::StreamOwned::new(client, stream);
    let offer = Offer { auth: AuthKind::Tls, ..offer(hello(2)) };
    let frames = FrameBatch::new(vec![Handshake::Offer(offer).encode()]);
    for slice in frames.slices(0) {
        stream.write_all(&slice).expect("it is taken");
    }
    let mut frames = FrameReader::new(HANDSHAKE_FRAME_BYTES_MAX);
    loop {
        if let Some(frame) = frames.next().expect("it is a frame") {
            return Handshake::decode(&frame).expect("it is of a handshake");
        }
        let mut bytes = [0; 1024];
        let count = stream.read(&mut bytes).expect("it answers");
        assert_ne!(count, 0, "it says nothing");
        frames.room().extend_from_slice(&bytes[..count]);
    }
}

#[test]
fn a_certificate_is_good_only_for_the_server_whose_host_it_names() {
    let peers = Peers::alone(hello(1), tls(MEMBER));
    // This certificate is trusted, and is for no host of server 2.
    let Handshake::Refused(reason) = said_by_tls(&peers, CLIENT) else {
        panic!("it is taken for server 2");
    };
    assert_eq!(reason, "its certificate is for none of the hosts that are configured for server 2");
    assert!(matches!(said_by_tls(&peers, MEMBER), Handshake::Answer(..)));
    peers.sockets.stop();
}

/// An address that does not answer: its queue of connections is full.
fn silent_address() -> (std::net::SocketAddr, TcpListener, std::net::TcpStream) {
    let socket = TcpSocket::new_v4().expect("there is a socket");
    socket.bind("127.0.0.1:0".parse().expect("it is an address")).expect("there is a port");
    let listener = socket.listen(0).expect("it listens");
    let address = listener.local_addr().expect("it is bound");
    let first = std::net::TcpStream::connect(address).expect("there is room for one");
    (address, listener, first)
}

#[test]
fn a_dial_takes_no_longer_than_it_may_and_its_addresses_share_the_time() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("it can be made").block_on(async {
        let (address, _listener, _first) = silent_address();
        let at = |address: std::net::SocketAddr| PeerAddress {
            host: address.ip().to_string(),
            port: address.port(),
        };
        let mut addresses = vec![at(address)];
        tokio::select! {
            biased;
            _ = connect(&addresses, PATIENCE, false) => panic!("the longer one is over first"),
            failed = connect(&addresses, Duration::from_millis(100), false) => {
                assert!(matches!(failed, Err(Trouble::Unreachable(..))));
            }
        }
        let there = TcpListener::bind("127.0.0.1:0").await.expect("there is a port");
        addresses.push(at(there.local_addr().expect("it is bound")));
        connect(&addresses, Duration::from_secs(2), false).await.expect("the second one answers");
    });
}

#[test]
fn a_link_is_probed_by_the_system_where_that_is_asked_for() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("it can be made").block_on(async {
        let there = TcpListener::bind("127.0.0.1:0").await.expect("there is a port");
        let address = there.local_addr().expect("it is bound");
        for keep_alive in [true, false] {
            let stream = connect_to(address, keep_alive).await.expect("it answers");
            let stream = stream.into_std().expect("it is no other's");
            let probed = TcpSocket::from_std_stream(stream).keepalive();
            assert_eq!(probed.expect("it is known"), keep_alive);
        }
    });
}

#[test]
fn servers_with_certificates_link_and_one_without_a_good_one_does_not() {
    let peers = three(|at| tls(if at == 2 { STRANGER } else { MEMBER }));
    peers[0].wait_linked(&[2]);
    peers[1].wait_linked(&[1]);
    peers[0].handle.send(MemberId(20), Channel::Bulk, frame(3, 5 << 20));
    peers[0].handle.flush();
    assert!(peers[1].wait_frame().2 == frame(3, 5 << 20));
    // Plain bytes where TLS is expected.
    let mut plain = Stranger::connect(&peers[0]);
    plain.say(&Handshake::Offer(offer(hello(3))));
    let mut rest = Vec::new();
    drop(plain.stream.read_to_end(&mut rest));
    let links = peers[0].handle.links();
    assert!(links.iter().all(|it| it.link.hello.server == 2), "{links:?}");
    let error = peers[2].inputs.try_recv().expect_err("nobody believes it");
    assert_eq!(error, std::sync::mpsc::TryRecvError::Empty);
    peers.into_iter().for_each(|it| it.sockets.stop());
}

#[test]
fn a_stop_tells_nothing_more() {
    let peers = Peers::alone(hello(1), secret());
    let mut linked = Stranger::connect(&peers);
    linked.link(offer(hello(2)));
    peers.wait_up();
    let Peers { sockets, handle, inputs, .. } = peers;
    // The handle keeps the function alive that gives inputs.
    drop(handle);
    sockets.stop();
    assert_eq!(inputs.recv_timeout(PATIENCE), Err(RecvTimeoutError::Disconnected));
    while linked.hear().is_some() {}
}
