//! Tests of TLS: clients that are served or refused, the identity that a certificate proves, and
//! attacks, which must harm no other client.
//!
//! The keys are in `tests/fixtures/tls`; `tests/peers/make-tls-fixtures.sh` describes each of them.

mod chunks;
pub mod wire;

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use machine::AclEntry;
use machine::zk::acl::perms;
use zk::ErrorCode;
use zk::jute::JuteReader;
use zk::request::{CreateKind, ReadKind, Request, WriteRequest};

use crate::client::{self, Client, TIMEOUT_MS, Wire, create, read};
use crate::server::{self, PATIENCE, Server, wait_until};
use bench::differential::wire::Received;
use wire::{Shape, TlsClient, TlsConnection, certificates, fixture};

/// Starts a server with a TLS port and these additional lines of configuration.
fn start(name: &str, lines: &[&str]) -> Server {
    start_with(name, "server.pem", "ca.pem", lines)
}

fn start_with(name: &str, keys: &str, trusted: &str, lines: &[&str]) -> Server {
    let stores = [
        "secureClientPort=0".to_string(),
        "secureClientPortAddress=127.0.0.1".to_string(),
        format!("ssl.keyStore.location={}", fixture(keys)),
        format!("ssl.trustStore.location={}", fixture(trusted)),
        "ssl.keyStore.password=secret".to_string(),
        "ssl.trustStore.password=secret".to_string(),
        "4lw.commands.whitelist=*".to_string(),
    ];
    let lines: Vec<&str> = stores.iter().map(String::as_str).chain(lines.iter().copied()).collect();
    Server::start(name, &lines)
}

/// Fails unless a client with this certificate is served. Returns the client.
fn assert_served(address: SocketAddr, shape: Shape) -> TlsClient {
    let mut client = wire::open(address, shape)
        .unwrap_or_else(|error| panic!("{:?} is not served: {error}", shape.shows));
    let answer = client.call(&Request::Write(create("/served-", b"x", client::SEQUENTIAL)));
    assert_eq!(answer.header.error, ErrorCode::OK);
    let path = answer.text();
    assert_eq!(client.call(&read(ReadKind::GetData, &path)).data(), Some(b"x".to_vec()));
    client
}

fn assert_refused(address: SocketAddr, shape: Shape) {
    assert!(wire::open(address, shape).is_err(), "{:?} is served", shape.shows);
}

/// The scheme and id of each entry in the ACL of a znode.
fn acl_of(client: &mut TlsClient, path: &str) -> Vec<(String, String)> {
    let answer = client.call(&read(ReadKind::GetAcl, path));
    assert_eq!(answer.header.error, ErrorCode::OK);
    let mut reader = JuteReader::new(&answer.body);
    let count = reader.int().unwrap();
    let mut ids = Vec::new();
    for _ in 0..count {
        reader.int().unwrap();
        ids.push((reader.text().unwrap().to_string(), reader.text().unwrap().to_string()));
    }
    ids
}

fn create_for<'a>(path: &'a str, scheme: &str, id: &str) -> Request<'a> {
    let acl = vec![AclEntry { perms: perms::ALL, scheme: scheme.into(), id: id.into() }];
    let kind = CreateKind::Create;
    Request::Write(WriteRequest::Create { kind, path, data: None, acl, flags: 0, ttl_ms: -1 })
}

// ---- clients that are served

#[test]
fn clients_with_a_certificate_are_served_in_both_versions_of_tls() {
    let server = start("tls-versions", &[]);
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        for shows in ["client", "client-chained", "client-v1"] {
            assert_served(server.face("zk-tls"), Shape { version, ..Shape::with(shows) });
        }
    }
    let mut plain = Client::open(server.address(), TIMEOUT_MS);
    assert!(plain.exists("/served-0000000000"));
}

#[test]
fn every_kind_of_store_serves() {
    for (name, keys, trusted) in [
        ("jks", "server-rsa.jks", "trust.jks"),
        ("java-ec", "server-ec.jks", "trust-pkcs12.jks"),
        ("p12", "server.p12", "trust.p12"),
        ("legacy-p12", "server-legacy.p12", "trust.p12"),
        ("keytool-p12", "server-keytool.p12", "ca.pem"),
        ("encrypted-pem", "server-encrypted-3des.pem", "ca.pem"),
    ] {
        let server = start_with(&format!("tls-store-{name}"), keys, trusted, &[]);
        assert_served(server.face("zk-tls"), Shape::with("client"));
        assert_served(
            server.face("zk-tls"),
            Shape { version: &rustls::version::TLS12, ..Shape::with("client") },
        );
    }
}

#[test]
fn those_who_are_not_believed_are_refused_and_named_in_the_log() {
    let server = start("tls-refused", &[]);
    let mut other = assert_served(server.face("zk-tls"), Shape::with("client"));
    for (shape, cause) in [
        (Shape::bare(), "peer sent no certificates"),
        (Shape::with("stranger"), "UnknownIssuer"),
        (Shape::with("stranger-v1"), "UnknownIssuer"),
        (Shape::with("client-expired"), "expired"),
        (Shape::with("client-early"), "not valid yet"),
        (Shape::with("client-server-only"), "extended key usage"),
    ] {
        assert_refused(server.face("zk-tls"), shape);
        wait_until(cause, || server.log().contains(cause));
    }
    let log = server.log();
    assert!(log.contains("TLS: client 127.0.0.1:"), "{log}");
    for _ in 0..20 {
        assert_refused(server.face("zk-tls"), Shape::bare());
    }
    let lines = server.log().lines().filter(|line| line.contains("is refused")).count();
    assert!(lines <= 20, "{lines} lines about 26 clients");
    wait_until("26 are counted", || metric(&server, "unsuccessful_handshake") == 26);
    wait_until("none is under way", || metric(&server, "outstanding_tls_handshake") == 0);
    assert_eq!(other.call(&read(ReadKind::Exists, "/")).header.error, ErrorCode::OK);
    assert_served(server.face("zk-tls"), Shape::with("client"));
}

#[test]
fn a_certificate_may_be_wanted_or_not_asked_for() {
    let wanted = start("tls-want", &["ssl.clientAuth=want"]);
    assert_served(wanted.face("zk-tls"), Shape::with("client"));
    assert_served(wanted.face("zk-tls"), Shape::bare());
    assert_refused(wanted.face("zk-tls"), Shape::with("stranger"));
    let none = start("tls-none", &["ssl.clientAuth=none"]);
    let mut client = assert_served(none.face("zk-tls"), Shape::with("stranger"));
    // The server did not ask the client for its certificate, so the client has no identity.
    assert_eq!(client.call(&create_for("/own", "auth", "")).header.error, ErrorCode::INVALID_ACL);
}

#[test]
fn who_is_trusted_as_a_client_makes_up_no_others() {
    let server = start_with("tls-made-up", "server.p12", "trust.p12", &[]);
    assert_served(server.face("zk-tls"), Shape::with("self-signed"));
    assert_refused(server.face("zk-tls"), Shape::with("made-up"));
    assert_refused(server.face("zk-tls"), Shape::with("made-up-v1"));
}

#[test]
fn one_port_takes_tls_and_plain_text() {
    let stores = [
        "client.portUnification=true".to_string(),
        format!("ssl.keyStore.location={}", fixture("server.pem")),
        format!("ssl.trustStore.location={}", fixture("ca.pem")),
        "4lw.commands.whitelist=*".to_string(),
    ];
    let lines: Vec<&str> = stores.iter().map(String::as_str).collect();
    let server = Server::start("tls-unified", &lines);
    assert_served(server.address(), Shape::with("client"));
    assert_refused(server.address(), Shape::with("stranger"));
    let mut plain = Client::open(server.address(), TIMEOUT_MS);
    assert!(plain.exists("/served-0000000000"));
    let mut word = TcpStream::connect(server.address()).unwrap();
    word.write_all(b"ruok").unwrap();
    let mut answer = String::new();
    word.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "imok");
    let mut word = TlsConnection::connect(server.address(), Shape::with("client")).unwrap();
    word.send(b"ruok");
    assert_eq!(word.rest().unwrap(), b"imok");
}

#[test]
fn words_are_answered_by_tls_and_conf_names_the_port() {
    let server = start("tls-words", &[]);
    let mut client = TlsConnection::connect(server.face("zk-tls"), Shape::with("client")).unwrap();
    client.send(b"conf");
    // TLS announces the end of the answer, too.
    let answer = String::from_utf8(client.rest().unwrap()).unwrap();
    let line = format!("secureClientPort={}\n", server.face("zk-tls").port());
    assert!(answer.contains(&line), "{answer}");
}

// ---- identities of clients

#[test]
fn a_certificate_is_an_identity_for_acls() {
    let server = start("tls-identity", &[]);
    let address = server.face("zk-tls");
    let mut client = assert_served(address, Shape::with("client"));
    assert_eq!(client.call(&create_for("/own", "auth", "")).header.error, ErrorCode::OK);
    let name = "CN=client,O=Test\\, Inc.,C=DE";
    assert_eq!(acl_of(&mut client, "/own"), [("x509".to_string(), name.to_string())]);
    assert_eq!(client.call(&create_for("/named", "x509", name)).header.error, ErrorCode::OK);
    let malformed = client.call(&create_for("/bad", "x509", "client"));
    assert_eq!(malformed.header.error, ErrorCode::INVALID_ACL);
    for path in ["/own", "/named"] {
        let found = client.call(&read(ReadKind::GetData, path));
        assert_eq!(found.header.error, ErrorCode::OK);
    }
    // An auth packet with the scheme x509 only asks whether the connection has a certificate.
    client.send(&Request::Auth { scheme: "x509", credentials: Some(b"") });
    assert_eq!(client.receive().unwrap().header.error, ErrorCode::OK);

    let mut other = assert_served(address, Shape::with("client-v1"));
    let mut plain = Client::open(server.address(), TIMEOUT_MS);
    for path in ["/own", "/named"] {
        let refused = other.call(&read(ReadKind::GetData, path));
        assert_eq!(refused.header.error, ErrorCode::NO_AUTH);
        assert_eq!(plain.get(path), Err(ErrorCode::NO_AUTH));
    }
    let auth = Request::Auth { scheme: "x509", credentials: Some(b"") };
    plain.send(&auth);
    let answer = plain.receive().unwrap();
    assert_eq!(answer.header.error, ErrorCode::AUTH_FAILED);
    assert!(plain.receive().is_none());
}

#[test]
fn the_super_user_may_do_everything() {
    let super_user = "X509AuthenticationProvider.superUser=CN=client,O=Test\\\\, Inc.,C=DE";
    let server = start("tls-super", &[super_user]);
    let mut owner = assert_served(server.face("zk-tls"), Shape::with("client-v1"));
    assert_eq!(owner.call(&create_for("/own", "auth", "")).header.error, ErrorCode::OK);
    let mut root = assert_served(server.face("zk-tls"), Shape::with("client"));
    let found = root.call(&read(ReadKind::GetData, "/own"));
    assert_eq!(found.header.error, ErrorCode::OK);
    // The super user keeps the identity of its certificate, too.
    assert_eq!(root.call(&create_for("/root", "auth", "")).header.error, ErrorCode::OK);
    assert_eq!(acl_of(&mut root, "/root").len(), 1);
    let refused = owner.call(&read(ReadKind::GetData, "/root"));
    assert_eq!(refused.header.error, ErrorCode::NO_AUTH);
}

#[test]
fn without_tls_the_scheme_is_unknown() {
    let server = Server::start("tls-no-scheme", &[]);
    let mut client = Client::open(server.address(), TIMEOUT_MS);
    let answer = client.call(&create_for("/own", "x509", "CN=client"));
    assert_eq!(answer.header.error, ErrorCode::INVALID_ACL);
}

// ---- stores that change

#[test]
fn changed_stores_are_used_without_a_restart_and_broken_ones_are_not() {
    let folder = server::folder("tls-reload-stores");
    let (keys, trusted) = (folder.join("keys.pem"), folder.join("trusted.pem"));
    fs::copy(fixture("server.pem"), &keys).unwrap();
    fs::copy(fixture("ca.pem"), &trusted).unwrap();
    let lines = [
        "secureClientPort=0".to_string(),
        "secureClientPortAddress=127.0.0.1".to_string(),
        format!("ssl.keyStore.location={}", keys.display()),
        format!("ssl.trustStore.location={}", trusted.display()),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let server = Server::start("tls-reload", &lines);
    let address = server.face("zk-tls");
    let mut first = assert_served(address, Shape::with("client"));
    assert_eq!(first.connection.server_certificate(), certificates("server")[0]);

    // Like people and tools, the test overwrites the file in place once, and once replaces it with
    // a rename.
    fs::copy(fixture("server-2.pem"), &keys).unwrap();
    let shown =
        || TlsConnection::connect(address, Shape::with("client")).unwrap().server_certificate();
    wait_until("the new certificate", || shown() == certificates("server-2")[0]);
    fs::write(&keys, "-----BEGIN CERTIFICATE-----\nAAAA").unwrap();
    wait_until("a line about the broken file", || server.log().contains("is kept"));
    assert_eq!(shown(), certificates("server-2")[0]);
    fs::copy(fixture("server.pem"), folder.join("new")).unwrap();
    fs::rename(folder.join("new"), &keys).unwrap();
    wait_until("the first certificate again", || shown() == certificates("server")[0]);
    let kept = server.log().lines().filter(|line| line.contains("is kept")).count();
    assert_eq!(kept, 1, "{}", server.log());

    // The authority changes: connected clients stay, and new clients must have a certificate from
    // the new authority.
    fs::copy(fixture("other-ca.pem"), &trusted).unwrap();
    wait_until("the new authority", || wire::open(address, Shape::with("stranger")).is_ok());
    assert_refused(address, Shape::with("client"));
    assert_eq!(first.call(&read(ReadKind::Exists, "/")).header.error, ErrorCode::OK);
    fs::remove_dir_all(&folder).unwrap();
}

// ---- attacks that harm nobody

#[test]
fn garbage_and_cut_handshakes_harm_nobody() {
    let server = start("tls-garbage", &["client.portUnification=true"]);
    let mut other = assert_served(server.face("zk-tls"), Shape::with("client"));
    let hello = client_hello();
    let mut inputs: Vec<Vec<u8>> = vec![
        client::greeting(TIMEOUT_MS),
        b"ruok".to_vec(),
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0x16; 5_000],
        [&[0x16, 3, 1, 0xff, 0xff][..], &[0; 70_000]].concat(),
        [&[0x16, 3, 1, 0, 4][..], &[1, 0xff, 0xff, 0xff]].concat(),
        [&hello[..], &hello[..]].concat(),
        [&hello[..], &[0x17, 3, 3, 0, 1, 0]].concat(),
        vec![0x15, 3, 1, 0, 2, 2, 40],
        vec![0x17, 3, 3, 0, 0],
    ];
    inputs.extend((0..hello.len()).step_by(9).map(|end| hello[..end].to_vec()));
    inputs.extend((5..hello.len()).step_by(23).map(|index| {
        let mut changed = hello.clone();
        changed[index] ^= 0xff;
        changed
    }));
    for address in [server.face("zk-tls"), server.address()] {
        for input in &inputs {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            // The server may have closed the connection already.
            let _ = stream.write_all(input);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            match stream.read_to_end(&mut Vec::new()) {
                Err(error) if error.kind() != ErrorKind::ConnectionReset => {
                    panic!("no end after {input:?}: {error}")
                }
                _ => {}
            }
        }
    }
    assert_eq!(other.call(&read(ReadKind::Exists, "/")).header.error, ErrorCode::OK);
    assert_served(server.face("zk-tls"), Shape::with("client"));
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

#[test]
fn a_handshake_that_never_ends_is_cut_off() {
    let lines = ["client.portUnification=true", "nio.sessionlessCnxnTimeout=1000"];
    let server = start("tls-endless", &lines);
    let hello = client_hello();
    let mut waiting: Vec<TcpStream> = Vec::new();
    for address in [server.face("zk-tls"), server.address()] {
        for said in [&[][..], &hello[..1], &hello[..100], &hello] {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(said).unwrap();
            waiting.push(stream);
        }
    }
    for mut stream in waiting {
        // Without the configured limit, the connection would stay open for this time.
        let default = Duration::from_millis(member::fronts::zk::limits::SESSIONLESS_MS_DEFAULT);
        stream.set_read_timeout(Some(default - Duration::from_secs(1))).unwrap();
        // The server sends an alert, and closes the connection.
        stream.read_to_end(&mut Vec::new()).unwrap();
    }
    wait_until("they are forgotten", || connections(&server) == 1);
    assert_eq!(metric(&server, "outstanding_tls_handshake"), 0);
}

#[test]
fn a_certificate_may_be_what_is_enforced() {
    let enforced = ["enforce.auth.enabled=true", "enforce.auth.schemes=x509"];
    let server = start("tls-enforced", &[&enforced[..], &["ssl.clientAuth=want"]].concat());
    assert_served(server.face("zk-tls"), Shape::with("client"));
    let mut nobody = wire::open(server.face("zk-tls"), Shape::bare()).unwrap();
    let refused = nobody.call(&read(ReadKind::Exists, "/"));
    assert_eq!(refused.header.error, ErrorCode::AUTH_REQUIRED);
    let mut plain = Client::open(server.address(), TIMEOUT_MS);
    let refused = plain.call(&read(ReadKind::Exists, "/"));
    assert_eq!(refused.header.error, ErrorCode::AUTH_REQUIRED);
}

/// The first bytes that a TLS client sends.
fn client_hello() -> Vec<u8> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let client = std::thread::spawn(move || TlsConnection::connect(address, Shape::bare()).is_ok());
    let (mut stream, _) = listener.accept().unwrap();
    let mut header = [0; 5];
    stream.read_exact(&mut header).unwrap();
    let mut hello = vec![0; usize::from(u16::from_be_bytes([header[3], header[4]]))];
    stream.read_exact(&mut hello).unwrap();
    drop((stream, listener));
    assert!(!client.join().unwrap());
    [&header[..], &hello].concat()
}

#[test]
fn handshakes_under_way_are_limited_where_that_is_asked_for() {
    let server = start("tls-handshakes", &["netty.server.outstandingHandshake.limit=1"]);
    let address = server.face("zk-tls");
    let waiting = TcpStream::connect(address).unwrap();
    // A runtime of the server counts this handshake as soon as it has accepted the connection.
    // Before that, another runtime could accept a later connection first, and the waiting one would
    // be above the limit.
    wait_until("it is under way", || metric(&server, "outstanding_tls_handshake") == 1);
    assert!(TlsConnection::connect(address, Shape::with("client")).is_err());
    drop(waiting);
    assert!(metric(&server, "tls_handshake_exceeded") > 0);
    // Finished handshakes do not count, once the server has noticed that they are finished.
    let mut served = Vec::new();
    wait_until("there is room for three, one after the other", || {
        served.extend(wire::open(address, Shape::with("client")));
        served.len() == 3
    });
}

#[test]
fn large_replies_wait_for_a_slow_reader() {
    const REPLIES: usize = 200;
    let server = start("tls-slow", &[]);
    let data: Vec<u8> = (0..900_000_u32).map(|index| (index % 251) as u8).collect();
    let mut client = assert_served(server.face("zk-tls"), Shape::with("client"));
    let made = client.call(&Request::Write(create("/large", &data, 0)));
    assert_eq!(made.header.error, ErrorCode::OK);
    let xids: Vec<i32> =
        (0..REPLIES).map(|_| client.send(&read(ReadKind::GetData, "/large"))).collect();
    // The server owes the client 180 MB. It does not encrypt them before the client takes bytes,
    // and it serves other clients meanwhile.
    let before = resident_bytes(&server);
    for _ in 0..20 {
        assert_served(server.face("zk-tls"), Shape::with("client-v1"));
    }
    let grown = resident_bytes(&server).saturating_sub(before);
    assert!(grown < 40 << 20, "{grown} bytes more");
    for xid in xids {
        let answer = client.receive().unwrap();
        assert_eq!((answer.header.xid, answer.header.error), (xid, ErrorCode::OK));
        assert_eq!(answer.data().as_deref(), Some(data.as_slice()));
    }
}

#[test]
fn who_never_reads_is_let_go() {
    let server = start("tls-never-reads", &["maxSessionTimeout=500", "minSessionTimeout=500"]);
    let data = vec![7; 900_000];
    let mut client = assert_served(server.face("zk-tls"), Shape::with("client"));
    client.call(&Request::Write(create("/large", &data, 0)));
    for _ in 0..100 {
        client.send(&read(ReadKind::GetData, "/large"));
    }
    assert_eq!(connections(&server), 2);
    // The client's session expires. The server gives it time to take the last bytes, but the client
    // does not take them.
    wait_until("its end", || connections(&server) == 1);
    let mut taken = 0;
    while let Received::Frame(reply) = client.connection.receive() {
        taken += reply.len();
    }
    assert!(taken < 50 * data.len(), "{taken} bytes were kept for it");
}

/// Sends a four-letter word to the plain port, and returns the answer.
fn ask_word(server: &Server, word: &str) -> String {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.write_all(word.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The number of connections in the answer to `cons`, including the one that asks.
fn connections(server: &Server) -> usize {
    ask_word(server, "cons").lines().filter(|line| line.contains('[')).count()
}

/// A number in the answer to `mntr`.
fn metric(server: &Server, name: &str) -> u64 {
    let answer = ask_word(server, "mntr");
    let start = format!("zk_{name}\t");
    let line = answer.lines().find_map(|line| line.strip_prefix(&start));
    line.unwrap_or_else(|| panic!("no {name} in {answer}")).parse().unwrap()
}

fn resident_bytes(server: &Server) -> u64 {
    let pid = server.pid().as_raw_nonzero();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

#[test]
fn closing_the_session_ends_tls_as_it_should() {
    let server = start("tls-close", &[]);
    let mut client = assert_served(server.face("zk-tls"), Shape::with("client"));
    client.send(&Request::CloseSession);
    assert_eq!(client.receive().unwrap().header.error, ErrorCode::OK);
    assert_eq!(client.connection.rest().unwrap(), b"");
}

// ---- configurations that are refused

#[test]
fn stores_that_cannot_be_used_are_one_clear_line() {
    for (name, keys, trusted, password, expected) in [
        ("path", "no-such.pem", "ca.pem", "secret", "No such file"),
        ("password", "server.p12", "ca.pem", "Secret", "the password is wrong"),
        ("key-password", "server-other-password.jks", "ca.pem", "secret", "different passwords"),
        ("content", "ca.pem", "ca.pem", "secret", "no private key"),
        ("type", "../../it/tls.rs", "ca.pem", "secret", "no type is set"),
        ("trust", "server.pem", "trust-openssl.p12", "secret", "no trusted certificate"),
    ] {
        let folder = server::folder(&format!("tls-bad-{name}"));
        let config = format!(
            "dataDir={}\nclientPort=0\nsecureClientPort=0\nssl.keyStore.location={}\n\
             ssl.keyStore.password={password}\nssl.trustStore.location={}\n\
             ssl.trustStore.password={password}\n",
            folder.join("data").display(),
            fixture(keys),
            fixture(trusted),
        );
        fs::write(folder.join("zoo.cfg"), config).unwrap();
        let status = server::command(&folder).status().unwrap();
        assert_eq!(status.code(), Some(1));
        let log = fs::read_to_string(folder.join("log")).unwrap();
        let lines: Vec<&str> = log.lines().collect();
        let line = if keys == "server.pem" { 6 } else { 4 };
        let store = if keys == "server.pem" { "trustStore" } else { "keyStore" };
        let start = format!("zoo.cfg:{line}: ssl.{store}.location: ");
        assert_eq!(lines.len(), 1, "{log}");
        assert!(lines[0].contains(&start) && lines[0].contains(expected), "{log}");
        assert!(!Path::new(&folder.join("data")).exists(), "nothing is touched");
        fs::remove_dir_all(&folder).unwrap();
    }
}

// ---- handshakes of OpenSSL

#[test]
fn openssl_shakes_hands_in_every_shape_it_can() {
    if Command::new("openssl").arg("version").output().is_err() {
        eprintln!("openssl is not here: nothing to compare with");
        return;
    }
    let server = start("tls-openssl", &[]);
    let address = server.face("zk-tls").to_string();
    let (client, ca) = (fixture("client.pem"), fixture("ca.pem"));
    let ask = |options: &str| {
        let mut child = Command::new("openssl")
            .args(["s_client", "-quiet", "-connect", &address, "-CAfile", &ca])
            .args(["-verify_return_error", "-verify_hostname", "localhost"])
            .args(["-cert", &client, "-key", &client])
            .args(options.split_whitespace())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // openssl ends when the server closes the connection, and must not see the end of its input
        // before.
        let mut input = child.stdin.take().unwrap();
        let _ = input.write_all(b"ruok");
        let output = child.wait_with_output().unwrap();
        drop(input);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    for options in [
        "",
        "-tls1_3",
        "-tls1_2",
        "-tls1_3 -ciphersuites TLS_CHACHA20_POLY1305_SHA256",
        "-tls1_2 -cipher ECDHE-ECDSA-AES128-GCM-SHA256",
        "-groups P-384",
        "-maxfraglen 512",
        "-servername elsewhere",
        "-noservername",
        "-alpn http/1.1",
        "-split_send_frag 100 -max_send_frag 512",
    ] {
        assert_eq!(ask(options), "imok", "{options}");
    }
    for options in ["-tls1_1", "-tls1_2 -cipher ECDHE-ECDSA-AES128-SHA"] {
        assert_eq!(ask(options), "", "{options}");
    }
}
