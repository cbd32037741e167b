//! Tests of SASL on the real binary: clients that prove their identity with it, clients that do
//! not, and servers that require it.

mod alike;

use std::fs;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Stdio;

use machine::{AclEntry, zk::acl::perms};
use zk::ErrorCode;
use zk::jute::JuteReader;
use zk::request::{CreateKind, ReadKind, Request, WriteRequest};

use crate::client::{Client, TIMEOUT_MS, create, read};
use crate::server::{self, JVMFLAGS_FILE, Server};

const PROVIDER: &str = "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider";

const JAAS: &str = "// the users of a test
Server {
    org.apache.zookeeper.server.auth.DigestLoginModule required
    user_super=\"of all sasl users\"
    user_root=\"root's\"
    user_bob=\"bob's\" /* in a comment: user_eve=\"eve's\" */ ;
};
";

/// Makes a folder with a JAAS file and the Java flags that name it.
fn jaas_folder(name: &str, jaas: &str, flags: &str) -> PathBuf {
    let folder = server::folder(name);
    let file = folder.join("jaas.conf");
    fs::write(&file, jaas).unwrap();
    let flags = format!("-Djava.security.auth.login.config={} {flags}", file.display());
    fs::write(folder.join(JVMFLAGS_FILE), flags).unwrap();
    folder
}

fn start(name: &str, lines: &[&str]) -> Server {
    let folder = jaas_folder(name, JAAS, "-Dzookeeper.superUser=root");
    Server::start_in(folder, &[&[PROVIDER], lines].concat())
}

fn open(server: &Server) -> Client {
    Client::open(server.address(), TIMEOUT_MS)
}

/// The error code of an answer to a token, and the token in the answer.
type Answered = (ErrorCode, Option<Vec<u8>>);

fn sasl(client: &mut Client, token: &[u8]) -> Answered {
    let answer = client.call(&Request::Sasl { token });
    let token = JuteReader::new(&answer.body).buffer().unwrap().map(<[u8]>::to_vec);
    (answer.header.error, token)
}

/// Asks for a challenge, and returns the right response to it.
fn response(client: &mut Client, user: &str, password: &str) -> Vec<u8> {
    let (error, challenge) = sasl(client, b"");
    assert_eq!(error, ErrorCode::OK);
    zk::sasl::respond(&challenge.unwrap(), user, password, "cnonce").unwrap()
}

fn log_in(server: &Server, user: &str, password: &str) -> Client {
    let mut client = open(server);
    let response = response(&mut client, user, password);
    let (error, token) = sasl(&mut client, &response);
    assert_eq!(error, ErrorCode::OK);
    assert!(token.unwrap().starts_with(b"rspauth="));
    client
}

/// Fails unless a token is refused with this error, and the connection then ends.
fn assert_refused(client: &mut Client, token: &[u8], expected: ErrorCode) {
    assert_eq!(sasl(client, token), (expected, None));
    assert!(client.receive().is_none(), "the connection ends");
}

fn create_for(client: &mut Client, path: &str, scheme: &str, id: &str) -> ErrorCode {
    let acl = vec![AclEntry { perms: perms::ALL, scheme: scheme.into(), id: id.into() }];
    let kind = CreateKind::Create;
    let write = WriteRequest::Create { kind, path, data: Some(b"x"), acl, flags: 0, ttl_ms: -1 };
    client.call(&Request::Write(write)).header.error
}

fn error_of_get(client: &mut Client, path: &str) -> ErrorCode {
    client.call(&read(ReadKind::GetData, path)).header.error
}

#[test]
fn a_user_owns_what_it_makes_and_still_does_after_a_restart() {
    let mut server = start("sasl-users", &[]);
    let mut bob = log_in(&server, "bob", "bob's");
    assert_eq!(create_for(&mut bob, "/own", "auth", ""), ErrorCode::OK);
    assert_eq!(create_for(&mut bob, "/eves", "sasl", "eve"), ErrorCode::OK);
    assert_eq!(create_for(&mut bob, "/bad", "sasl", "a@b@c"), ErrorCode::INVALID_ACL);
    let acl = bob.call(&read(ReadKind::GetAcl, "/own"));
    let mut reader = JuteReader::new(&acl.body);
    assert_eq!((reader.int(), reader.int()), (Ok(1), Ok(31)));
    assert_eq!((reader.text(), reader.text()), (Ok("sasl"), Ok("bob")));
    server.stop();
    server.restart();
    let mut nobody = open(&server);
    assert_eq!(error_of_get(&mut nobody, "/own"), ErrorCode::NO_AUTH);
    let mut bob = log_in(&server, "bob", "bob's");
    assert_eq!(error_of_get(&mut bob, "/own"), ErrorCode::OK);
    assert_eq!(error_of_get(&mut bob, "/eves"), ErrorCode::NO_AUTH);
    let mut all_sasl_users = log_in(&server, "super", "of all sasl users");
    assert_eq!(error_of_get(&mut all_sasl_users, "/own"), ErrorCode::OK);
    assert_eq!(create_for(&mut all_sasl_users, "/digest", "digest", "u:x"), ErrorCode::OK);
    assert_eq!(error_of_get(&mut all_sasl_users, "/digest"), ErrorCode::NO_AUTH);
    let mut root = log_in(&server, "root", "root's");
    assert_eq!(error_of_get(&mut root, "/digest"), ErrorCode::OK);
}

#[test]
fn wrong_passwords_unknown_users_and_garbage_are_refused_and_harm_nobody_else() {
    let server = start("sasl-refused", &[]);
    let mut bob = log_in(&server, "bob", "bob's");
    assert_eq!(create_for(&mut bob, "/own", "auth", ""), ErrorCode::OK);
    for (user, password) in
        [("bob", "root's"), ("bob", ""), ("eve", "eve's"), ("", ""), ("BOB", "bob's")]
    {
        let mut client = open(&server);
        let response = response(&mut client, user, password);
        assert_refused(&mut client, &response, ErrorCode::AUTH_FAILED);
    }
    let long = vec![b'x'; zk::limits::SASL_TOKEN_BYTES_MAX + 1];
    let tokens: [&[u8]; 7] = [
        b"",
        b"garbage",
        b"username=\"bob",
        b"\xff\xfe\0",
        b"username=bob,username=bob",
        &long[1..],
        &long,
    ];
    for token in tokens {
        let mut client = open(&server);
        assert_eq!(sasl(&mut client, b"").0, ErrorCode::OK);
        assert_refused(&mut client, token, ErrorCode::AUTH_FAILED);
    }
    let mut client = open(&server);
    assert_refused(&mut client, &long, ErrorCode::AUTH_FAILED);
    assert_eq!(error_of_get(&mut bob, "/own"), ErrorCode::OK);
    let log = server.log();
    assert!(log.contains("a wrong password of user \"bob\""), "{log}");
    assert!(!log.contains("bob's") && !log.contains("panicked"), "{log}");
}

#[test]
fn a_response_counts_once_and_for_its_own_connection() {
    let server = start("sasl-replayed", &[]);
    let mut first = open(&server);
    let response = response(&mut first, "bob", "bob's");
    let mut other = open(&server);
    assert_eq!(sasl(&mut other, b"").0, ErrorCode::OK);
    assert_refused(&mut other, &response, ErrorCode::AUTH_FAILED);
    assert_eq!(sasl(&mut first, &response).0, ErrorCode::OK);
    assert_refused(&mut first, &response, ErrorCode::AUTH_FAILED);
}

#[test]
fn an_exchange_that_is_cut_off_leaves_nothing() {
    let server = start("sasl-cut", &[]);
    for cut in 0..40 {
        let mut client = open(&server);
        let response = response(&mut client, "bob", "bob's");
        let mut bytes = Vec::new();
        client.encode(&Request::Sasl { token: &response }, &mut bytes);
        let end = bytes.len() * cut / 40;
        client.connection.send(&bytes[..end]);
    }
    // A request that holds no token ends the connection without an answer.
    let mut client = open(&server);
    let mut bytes = Vec::new();
    client.encode(&Request::Sasl { token: b"" }, &mut bytes);
    let end = bytes.len() - 4;
    bytes[end..].fill(0xff);
    client.connection.send(&bytes);
    assert!(client.receive().is_none());
    log_in(&server, "bob", "bob's");
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

#[test]
fn requests_in_one_packet_with_the_response_are_served_in_their_order() {
    let server = start("sasl-pipelined", &[]);
    for (password, expected) in [("bob's", ErrorCode::OK), ("wrong", ErrorCode::AUTH_FAILED)] {
        let mut client = open(&server);
        let response = response(&mut client, "bob", password);
        let mut bytes = Vec::new();
        client.encode(&Request::Write(create("/before", b"", 0)), &mut bytes);
        client.encode(&Request::Sasl { token: &response }, &mut bytes);
        client.encode(&Request::Write(create("/behind", b"", 0)), &mut bytes);
        client.connection.send(&bytes);
        assert_eq!(client.receive().unwrap().header.error, ErrorCode::OK);
        assert_eq!(client.receive().unwrap().header.error, expected);
        let behind = client.receive().map(|answer| answer.header.error);
        assert_eq!(behind, Some(ErrorCode::OK).filter(|_| expected == ErrorCode::OK));
        let mut other = open(&server);
        assert_eq!(other.exists("/behind"), expected == ErrorCode::OK);
        other.delete("/before");
        other.delete("/behind");
    }
}

#[test]
fn a_server_without_users_gives_an_empty_answer_and_goes_on() {
    let server = Server::start("sasl-none", &[]);
    let mut client = open(&server);
    for token in [b"".as_slice(), b"anything"] {
        assert_eq!(sasl(&mut client, token), (ErrorCode::OK, None));
    }
    assert_eq!(create_for(&mut client, "/a", "sasl", "bob"), ErrorCode::INVALID_ACL);
    assert!(client.create("/a", b"", 0).is_ok());
}

#[test]
fn a_client_that_may_fail_stays_and_has_proved_nothing() {
    let server = start("sasl-may-fail", &["allowSaslFailedClients=true"]);
    let mut client = open(&server);
    let response = response(&mut client, "bob", "wrong");
    assert_eq!(sasl(&mut client, &response), (ErrorCode::OK, None));
    assert_eq!(sasl(&mut client, b""), (ErrorCode::OK, None));
    assert_eq!(create_for(&mut client, "/a", "auth", ""), ErrorCode::INVALID_ACL);
}

#[test]
fn a_server_that_requires_sasl_answers_nothing_else() {
    let lines = ["sessionRequireClientSASLAuth=true", "allowSaslFailedClients=true"];
    let server = start("sasl-required", &lines);
    let required = |request: &Request<'_>| {
        let mut client = open(&server);
        let answer = client.call(request);
        assert_eq!(answer.header.error, ErrorCode::AUTH_REQUIRED, "{request:?}");
        assert!(client.receive().is_none(), "{request:?}");
    };
    required(&Request::Ping);
    required(&Request::CloseSession);
    required(&read(ReadKind::GetData, "/"));
    required(&Request::Write(create("/a", b"", 0)));
    let mut client = open(&server);
    let digest = Request::Auth { scheme: "digest", credentials: Some(b"u:p") };
    client.connection.send(&{
        let mut bytes = Vec::new();
        digest.encode(zk::request::XID_AUTH, &mut bytes);
        bytes
    });
    assert_eq!(client.receive().unwrap().header.error, ErrorCode::OK);
    assert_eq!(error_of_get(&mut client, "/"), ErrorCode::AUTH_REQUIRED);
    let mut client = open(&server);
    let wrong = response(&mut client, "bob", "wrong");
    assert_refused(&mut client, &wrong, ErrorCode::AUTH_REQUIRED);
    let mut bob = log_in(&server, "bob", "bob's");
    assert!(bob.create("/a", b"", 0).is_ok());
    assert!(bob.close());
}

#[test]
fn a_client_of_another_ensemble_is_turned_away_without_an_answer() {
    let provider = "authProvider.1=org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider";
    let server = Server::start("ensemble-name", &[provider, "ensembleAuthName=one, two"]);
    for (name, accepted) in [("one", true), ("two", true), ("", true), ("three", false)] {
        let mut client = open(&server);
        let credentials = name.as_bytes();
        let mut bytes = Vec::new();
        let auth = Request::Auth { scheme: "ensemble", credentials: Some(credentials) };
        auth.encode(zk::request::XID_AUTH, &mut bytes);
        client.connection.send(&bytes);
        let error = client.receive().map(|answer| answer.header.error);
        assert_eq!(error, Some(ErrorCode::OK).filter(|_| accepted), "{name:?}");
    }
}

#[test]
fn a_server_whose_users_cannot_be_read_does_not_start() {
    for (name, jaas, lines, complaint) in [
        ("sasl-krb5", "Server {\n x.Krb5LoginModule required;\n};", PROVIDER, "jaas.conf:2: Krb5"),
        ("sasl-syntax", "Server {\n x required\n k=1; };", PROVIDER, "jaas.conf:3: the value"),
        ("sasl-unknown", "", "sessionRequireClientSASLAuth=true", "\"sasl\" is not available"),
    ] {
        let folder = jaas_folder(name, jaas, "");
        let data = folder.join("data");
        let config = format!("dataDir={}\nclientPort=0\n{lines}\n", data.display());
        fs::write(folder.join("zoo.cfg"), config).unwrap();
        let output = server::command(&folder).stderr(Stdio::piped()).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains(complaint), "{text}");
        assert!(!data.exists(), "nothing is begun");
        fs::remove_dir_all(folder).unwrap();
    }
}

/// Java writes all eight groups of an IPv6 address; other programs shorten it.
#[test]
fn a_client_is_told_its_ipv6_address_in_full() {
    let mut server = Server::start("ipv6", &[]);
    server.stop();
    server.restart_at("[::1]:0".parse().unwrap());
    let mut client = open(&server);
    let answer = client.call(&Request::WhoAmI);
    let mut reader = JuteReader::new(&answer.body);
    assert_eq!(reader.int(), Ok(1));
    assert_eq!((reader.text(), reader.text()), (Ok("ip"), Ok("0:0:0:0:0:0:0:1")));
    assert_eq!(create_for(&mut client, "/own", "ip", "::1"), ErrorCode::OK);
    assert_eq!(error_of_get(&mut client, "/own"), ErrorCode::OK);
    assert_eq!(create_for(&mut client, "/others", "ip", "::2/127"), ErrorCode::OK);
    assert_eq!(error_of_get(&mut client, "/others"), ErrorCode::NO_AUTH);
}

/// The kernel's table of connections shows their timers. An idle connection has no timer but that
/// of the keep-alive.
#[test]
fn connections_are_kept_alive_if_asked_for() {
    for (lines, expected) in
        [(["clientTcpKeepAlive=true"], "02"), (["clientTcpKeepAlive=false"], "00")]
    {
        let server = Server::start("keep-alive", &lines);
        let client = TcpStream::connect(server.address()).unwrap();
        let ends = [server.address(), client.local_addr().unwrap()];
        let [served, own] = ends.map(|end| format!(":{:04X}", end.port()));
        let timer = || {
            let table = fs::read_to_string("/proc/net/tcp").unwrap();
            table.lines().find_map(|line| {
                let words: Vec<&str> = line.split_whitespace().collect();
                let found = words[1].ends_with(&served) && words[2].ends_with(&own);
                found.then(|| words[5][..2].to_string())
            })
        };
        // Until the bytes are acknowledged, the timer is that of the retransmission.
        while timer().as_deref() == Some("01") {
            std::thread::yield_now();
        }
        assert_eq!(timer().as_deref(), Some(expected));
    }
}
