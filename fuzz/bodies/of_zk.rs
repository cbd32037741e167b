//! Bodies for ZooKeeper's protocol: requests of clients, responses of servers, four-letter words,
//! SASL tokens, and the texts that name servers.

use machine::control::list_change::{Asker, ListChange};
use machine::{AclEntry, Changes, Command, LogIndex, SessionId, Stat};
use zk::four_letter::{Word, recognise};
use zk::ops::{multi_command, write_command};
use zk::reconfig::list_change;
use zk::request::{CreateKind, ReadKind, ReadRequest, SetWatchesRequest, WriteRequest};
use zk::response::{ConnectResponse, ReplyHeader, decode_stat, encode_empty, encode_stat};
use zk::sasl::{Exchange, Step};
use zk::server_text::{ServerText, in_brackets};
use zk::{ConnectRequest, ErrorCode, JuteReader, Request, RequestHeader};

use super::of_config::assert_dynamic_file_is_faithful;
use super::of_machine::{assert_image_is_faithful, change_list, ensemble, machine_with_session};

/// How many bytes the length in front of a frame takes.
const LENGTH_BYTES: usize = 4;

/// A connect request, the first packet of a connection. If it decodes, it must encode and decode
/// again to an equal one.
pub fn connect_request(body: &[u8]) {
    let Ok(request) = ConnectRequest::decode(body) else { return };
    let mut encoded = Vec::new();
    request.encode(&mut encoded);
    assert_eq!(ConnectRequest::decode(&encoded[LENGTH_BYTES..]), Ok(request));
}

/// The response to a connect request. If it decodes, it must encode and decode again to an equal
/// one.
pub fn connect_response(body: &[u8]) {
    let Ok(response) = ConnectResponse::decode(body) else { return };
    let mut encoded = Vec::new();
    response.encode(&mut encoded);
    assert_eq!(ConnectResponse::decode(&encoded[LENGTH_BYTES..]), Ok(response));
}

/// A request with its header. If it decodes, and a client could send it, it must encode and decode
/// again to an equal one.
pub fn jute_request(frame: &[u8]) {
    let Some(request) = decode_request(frame) else { return };
    let is_sent = match &request {
        Request::Unknown => false,
        Request::SetWatches(watches) => !watches.null_behind,
        Request::SetWatches2(request) => !request.watches.null_behind,
        _ => true,
    };
    if !is_sent {
        return;
    }
    let mut encoded = Vec::new();
    request.encode(1, &mut encoded);
    assert_eq!(decode_request(&encoded[LENGTH_BYTES..]), Some(request));
}

fn decode_request(frame: &[u8]) -> Option<Request<'_>> {
    let mut reader = JuteReader::new(frame);
    let header = RequestHeader::decode(&mut reader).ok()?;
    Request::decode(header.opcode, &mut reader).ok()
}

/// A response that consists of its header and a stat. Each of the two, if it decodes, must encode
/// to the same bytes.
pub fn response(frame: &[u8]) {
    let mut reader = JuteReader::new(frame);
    let Ok(header) = ReplyHeader::decode(&mut reader) else { return };
    let mut encoded = Vec::new();
    encode_empty(header, &mut encoded);
    let offset = reader.offset();
    assert_eq!(encoded[LENGTH_BYTES..], frame[..offset]);
    let Ok(stat) = decode_stat(&mut reader) else { return };
    let mut encoded = Vec::new();
    encode_stat(&stat, &mut encoded);
    assert_eq!(encoded, frame[offset..reader.offset()]);
}

/// The first four bytes of a connection, which are a four-letter word or the length of a frame. If
/// they are recognised as a word, they must be its name, or begin with the byte that Telnet sends
/// at its end.
pub fn four_letter_word(bytes: &[u8]) {
    let Some(first) = bytes.first_chunk() else { return };
    match recognise(*first) {
        Some(Word::TelnetClose) => assert!(first[0] == 0xff),
        Some(word) => assert_eq!(word.name().as_bytes(), first),
        // Other bytes are the length of a frame. No client may send a frame whose length reads as a
        // word.
        None => assert!(*first != *b"ruok"),
    }
}

/// Tries the bytes as a client's response to a challenge, and as a server's challenge to a client.
/// Panics if a client is authenticated without knowing the password.
pub fn sasl_token(bytes: &[u8]) {
    let mut exchange = challenged();
    let found = exchange.step(bytes, &SASL_NONCE, |user| (user == "bob").then_some(SASL_PASSWORD));
    if let Ok(step) = found {
        // The response was the client's own, changed only in bytes that the hash does not cover.
        assert!(matches!(step, Step::Authenticated { user, .. } if user == "bob"));
        let proof = sasl_response();
        let hash_at = proof.windows(9).position(|part| part == b"response=").map(|at| at + 9);
        let proved = hash_at.is_some_and(|at| {
            let hash = &proof[at..at + 32];
            bytes.windows(32).any(|part| part == hash)
        });
        assert!(proved);
    }
    let is_over = exchange.step(b"", &SASL_NONCE, |_| Some("")).is_err();
    assert!(is_over);
    if let Some(response) = zk::sasl::respond(bytes, "bob", SASL_PASSWORD, "cnonce") {
        assert!(response.starts_with(b"charset=utf-8,username=\"bob\""));
    }
}

/// The text of a server. If it has the form, its parts written again must have the same parts.
pub fn server_text(bytes: &[u8]) {
    let Ok(text) = core::str::from_utf8(bytes) else { return };
    let Ok(server) = ServerText::parse(text) else { return };
    let ServerText { host, peer_port, election_port, role, client } = server;
    let role_again = role.map(|role| format!(":{role}")).unwrap_or_default();
    let client_again = client.map(|client| format!(";{client}")).unwrap_or_default();
    let host = in_brackets(host);
    let again = format!("{host}:{peer_port}:{election_port}{role_again}{client_again}");
    let again = ServerText::parse(&again).expect("the text of a server is read again");
    assert_eq!(in_brackets(again.host), host);
    assert_eq!(ServerText { host: server.host, ..again }, server);
}

/// The texts of a reconfig, separated by zeros: the servers that join, those that leave, and all
/// servers. A missing or empty text is null. If the change can be made, the file that a server
/// writes for its next start must have the same list, and so must the text that clients see.
pub fn reconfig(bytes: &[u8]) {
    let Ok(text) = core::str::from_utf8(bytes) else { return };
    let mut texts = text.splitn(3, '\0').map(|text| Some(text).filter(|text| !text.is_empty()));
    let [joining, leaving, members] = [(); 3].map(|()| texts.next().flatten());
    let Ok(change) = list_change(joining, leaving, members) else { return };
    if change == ListChange::Malformed {
        return;
    }
    let mut ensemble = ensemble();
    // Session 0 is no session; nobody's session is checked then.
    change_list(&mut ensemble, Asker::Zk(SessionId(0)), change);
    let list = ensemble.control().servers().list().clone();
    let shown = list.zk_text().expect("each server has addresses");
    let Ok(ListChange::Whole(servers)) = list_change(None, None, Some(&shown)) else {
        panic!("what clients see is a list: {shown}");
    };
    let again = servers.into_iter().map(|(number, server)| (number, server.zk));
    assert!(again.eq(list.servers.iter().map(|(number, record)| {
        (*number, record.zk.clone().expect("each server has addresses"))
    })));
    assert_dynamic_file_is_faithful(&list);
    ensemble.finish_entry(LogIndex(2));
    assert_image_is_faithful(&mut ensemble);
}

/// Frames of a client, each with its length in front, on their whole way to the state. Each frame
/// that is a write is applied, whatever it asks for; afterwards the state must still have a
/// faithful image.
pub fn requests_applied(mut bytes: &[u8]) {
    let (mut machine, stamp, session) = machine_with_session();
    let mut changes = Changes::default();
    while let Some((length, rest)) = bytes.split_at_checked(LENGTH_BYTES) {
        let length = length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        let (frame, rest) = rest.split_at(length.min(rest.len()));
        let command = match decode_request(frame) {
            Some(Request::Write(write)) => Some(write_command(session, &write)),
            Some(Request::Multi(writes)) => Some(multi_command(session, &writes)),
            _ => None,
        };
        if let Some(command) = command {
            let mut encoded = Vec::new();
            command.encode(&mut encoded);
            let decoded = Command::decode(&encoded).expect("what was written is read");
            assert_eq!(decoded, command);
            machine.apply(&stamp, &decoded, &mut changes);
        }
        bytes = rest;
    }
    machine.finish_entry(LogIndex(2));
    assert_image_is_faithful(&mut machine);
}

fn acl() -> Vec<AclEntry> {
    vec![AclEntry { perms: 31, scheme: "world".into(), id: "anyone".into() }]
}

fn writes() -> Vec<WriteRequest<'static>> {
    let create = |kind, path, flags| {
        let (data, acl) = (Some(&b"data"[..]), acl());
        WriteRequest::Create { kind, path, data, acl, flags, ttl_ms: -1 }
    };
    vec![
        create(CreateKind::Create, "/a", 0),
        create(CreateKind::Create2, "/a/b", 1),
        create(CreateKind::Create2, "/a/c", 2),
        WriteRequest::SetData { path: "/a", data: None, version: 0 },
        WriteRequest::Delete { path: "/a/b", version: -1 },
    ]
}

fn requests() -> Vec<Request<'static>> {
    let mut multi = writes();
    multi.push(WriteRequest::Check { path: "/a", version: 2 });
    let set_acl = WriteRequest::SetAcl {
        path: "/a",
        acl: vec![AclEntry { perms: 3, scheme: "auth".into(), id: "".into() }],
        version: 0,
    };
    let read = |kind, watch| ReadRequest { kind, path: "/a", watch };
    let mut requests: Vec<Request<'_>> = writes().into_iter().map(Request::Write).collect();
    requests.extend([
        Request::Multi(multi),
        Request::Write(set_acl),
        Request::Read(read(ReadKind::GetData, true)),
        Request::Read(read(ReadKind::GetAcl, false)),
        Request::MultiRead(vec![
            read(ReadKind::GetData, false),
            read(ReadKind::GetChildren, false),
        ]),
        Request::Sync { path: Some("/") },
        Request::Ping,
        Request::Auth { scheme: "digest", credentials: Some(b"user:password") },
        Request::SetWatches(SetWatchesRequest {
            relative_zxid: 5,
            data: vec!["/a"],
            exist: vec!["/b", "/c"],
            child: Vec::new(),
            null_behind: false,
        }),
        Request::Reconfig {
            joining: Some("server.4=h:1:2:observer;3"),
            leaving: Some("1,2"),
            members: None,
            version: -1,
        },
        Request::CloseSession,
    ]);
    requests
}

fn frames() -> Vec<Vec<u8>> {
    let frame = |(position, request): (usize, Request<'_>)| {
        let mut out = Vec::new();
        request.encode(position as i32, &mut out);
        out
    };
    requests().into_iter().enumerate().map(frame).collect()
}

pub fn jute_request_seeds() -> Vec<Vec<u8>> {
    frames().into_iter().map(|frame| frame[LENGTH_BYTES..].to_vec()).collect()
}

pub fn requests_applied_seeds() -> Vec<Vec<u8>> {
    vec![frames().concat()]
}

pub fn connect_request_seeds() -> Vec<Vec<u8>> {
    [None, Some(false), Some(true)]
        .into_iter()
        .map(|read_only| {
            let request = ConnectRequest {
                protocol_version: 0,
                last_zxid_seen: 3,
                timeout_ms: 30_000,
                session: 1,
                password: vec![7; 16],
                read_only,
            };
            let mut out = Vec::new();
            request.encode(&mut out);
            out.split_off(LENGTH_BYTES)
        })
        .collect()
}

pub fn connect_response_seeds() -> Vec<Vec<u8>> {
    let given =
        ConnectResponse { timeout_ms: 9, session: 1, password: [7; 16], read_only: Some(false) };
    [given, ConnectResponse::refused(None)]
        .iter()
        .map(|response| {
            let mut out = Vec::new();
            response.encode(&mut out);
            out.split_off(LENGTH_BYTES)
        })
        .collect()
}

pub fn response_seeds() -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    encode_empty(ReplyHeader { xid: 1, zxid: 2, error: ErrorCode::OK }, &mut out);
    let mut out = out.split_off(LENGTH_BYTES);
    encode_stat(&Stat { czxid: 1, ..Stat::default() }, &mut out);
    vec![out]
}

const SASL_NONCE: [u8; zk::sasl::NONCE_BYTES] = [7; zk::sasl::NONCE_BYTES];
const SASL_PASSWORD: &str = "secret";

/// The server's side of an exchange, after it has sent its challenge.
fn challenged() -> Exchange {
    let mut exchange = Exchange::New;
    exchange.step(b"", &SASL_NONCE, |_| None).expect("the first step is a challenge");
    exchange
}

/// The response to the challenge from a client that knows the password.
fn sasl_response() -> Vec<u8> {
    let Ok(Step::Challenge(challenge)) = Exchange::New.step(b"", &SASL_NONCE, |_| None) else {
        unreachable!("the first step is a challenge");
    };
    zk::sasl::respond(&challenge, "bob", SASL_PASSWORD, "cnonce").expect("a challenge")
}

pub fn sasl_token_seeds() -> Vec<Vec<u8>> {
    let challenge =
        b"realm=\"zk-sasl-md5\",nonce=\"AAAA\",charset=utf-8,algorithm=md5-sess".to_vec();
    vec![sasl_response(), challenge, b"a = \"b\\\"c\" , d=e".to_vec()]
}

pub fn four_letter_word_seeds() -> Vec<Vec<u8>> {
    ["ruok", "srvr", "dump"].iter().map(|word| word.as_bytes().to_vec()).collect()
}

pub fn server_text_seeds() -> Vec<Vec<u8>> {
    ["h:1:2", "a.b:1:2:observer;3", "[::1]:1:2:participant;[::2]:3", " h :1:2::;0.0.0.0:3;"]
        .map(|text| text.as_bytes().to_vec())
        .to_vec()
}

pub fn reconfig_seeds() -> Vec<Vec<u8>> {
    [
        "server.4=h:1:2;3, 5 = [::1]:4:5:OBSERVER;x:6\x003,9",
        "\x002",
        "server.1=other:1:2:participant;[::]:3",
        "\0\0server.1=a:1:2,server.2=b:1:2:observer;3,server.7=[::1]:2:3;h:4",
        "\0\0# two\nserver.1=a:1:2:participant;0.0.0.0:3\nserver.2=b:1:2;3\nversion=100000000",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}
