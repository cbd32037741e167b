//! Tests of etcd v2 over HTTP/1.1, in the real process. Some tests send the requests in a file of
//! recorded answers of a real etcd, and compare.

mod users;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{ETCD, Three, audit, resident_bytes};
use crate::server::{Over, PATIENCE, Server, wait_until};

const V2: &str = "quorate.etcdEnableV2=true";

/// The index of a fresh store. A recorded `+N` means this index plus N.
const FIRST_INDEX: u64 = 3;

const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(found, _)| *found == name).map(|(_, value)| value)
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{}: {}", self.head, self.body))
    }

    fn index(&self) -> u64 {
        self.header("X-Etcd-Index").expect("it has an index").parse().unwrap()
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    try_connect(address).unwrap()
}

fn try_connect(address: SocketAddr) -> Option<TcpStream> {
    let stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(30))).ok()?;
    Some(stream)
}

/// Sends a request, and returns the connection. `headers` and `body` are complete texts.
fn begin(address: SocketAddr, line: &str, headers: &str, body: &str) -> TcpStream {
    try_begin(address, line, headers, body).expect("the server takes it")
}

fn try_begin(address: SocketAddr, line: &str, headers: &str, body: &str) -> Option<TcpStream> {
    let mut stream = try_connect(address)?;
    let length = body.len();
    let head = format!("{line} HTTP/1.1\r\nHost: e\r\nConnection: close\r\n{headers}");
    let request = format!("{head}Content-Length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).ok()?;
    Some(stream)
}

/// Reads the answer, up to the end of the connection.
fn end(stream: TcpStream) -> Answer {
    try_end(stream).expect("it is answered")
}

fn try_end(mut stream: TcpStream) -> Option<Answer> {
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let body = match head.contains("Transfer-Encoding: chunked") {
        true => unchunked(body),
        false => body.to_string(),
    };
    Some(Answer { status, head: head.to_string(), body })
}

fn unchunked(mut text: &str) -> String {
    let mut out = String::new();
    while let Some((length, rest)) = text.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        out.push_str(&rest[..length]);
        text = rest[length..].trim_start_matches("\r\n");
    }
    out
}

fn ask(address: SocketAddr, line: &str, form: &str) -> Answer {
    end(begin(address, line, FORM, form))
}

fn put(address: SocketAddr, key: &str, form: &str) -> Answer {
    ask(address, &format!("PUT /v2/keys{key}"), form)
}

fn get(address: SocketAddr, key: &str) -> Answer {
    ask(address, &format!("GET /v2/keys{key}"), "")
}

/// Reads the head of an answer without waiting for the body.
fn head_of(reader: &mut BufReader<TcpStream>) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).unwrap() > 0, "{head}");
    }
    head
}

/// Reads the next chunk of a body, which is a line of JSON.
fn chunk_of(reader: &mut BufReader<TcpStream>) -> Value {
    let mut length = String::new();
    reader.read_line(&mut length).unwrap();
    let length = usize::from_str_radix(length.trim_end(), 16).unwrap();
    let mut chunk = vec![0; length + 2];
    reader.read_exact(&mut chunk).unwrap();
    serde_json::from_slice(&chunk[..length]).unwrap()
}

/// A recorded answer with each `+N` replaced by the index in our fresh store.
fn with_indexes(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('+') {
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        let index = FIRST_INDEX + after[..digits].parse::<u64>().unwrap();
        match before.strip_suffix("ORD") {
            Some(before) => out.push_str(&format!("{before}{index:020}")),
            None => out.push_str(&format!("{before}{index}")),
        }
        rest = &after[digits..];
    }
    out + rest
}

/// An answer in the form in which the file has it.
fn shown(answer: &Answer) -> Vec<String> {
    let status = match answer.status {
        301 | 307 => "301 or 307".to_string(),
        status => status.to_string(),
    };
    let headers = ["Content-Type", "Allow", "X-Etcd-Index", "Location"];
    let headers = headers.iter().filter_map(|name| Some((name, answer.header(name)?)));
    let headers = headers.map(|(name, value)| format!("{name}: {value}"));
    let body = serde_json::from_str::<Value>(&answer.body).map(|mut body| {
        blur(&mut body);
        body.to_string()
    });
    let body = body.unwrap_or_else(|_| answer.body.trim_end().to_string());
    let body = if body.starts_with("http://127.0.0.1:") { "URL".to_string() } else { body };
    let body = Some(body).filter(|body| !body.is_empty());
    core::iter::once(status).chain(headers).chain(body).collect()
}

/// Replaces values that differ from server to server, as the file does.
fn blur(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields.iter_mut() {
                match name.as_str() {
                    "expiration" | "id" | "name" => *field = "*".into(),
                    _ => blur(field),
                }
            }
        }
        Value::Array(fields) => fields.iter_mut().for_each(blur),
        Value::String(text) if text.starts_with("http://127.0.0.1:") => *text = "URL".to_string(),
        _ => {}
    }
}

fn expected(text: &str) -> Vec<String> {
    let text = with_indexes(text);
    let lines = text.lines();
    let shown = lines.map(|line| match serde_json::from_str::<Value>(line) {
        Ok(value) if value.is_object() => value.to_string(),
        _ => line.to_string(),
    });
    shown.filter(|line| !line.is_empty()).collect()
}

/// Sends a request that a line of the file describes: the method, the path, optionally `@` with
/// credentials, and a form or a JSON body.
fn send(address: SocketAddr, line: &str) -> TcpStream {
    let mut parts = line.splitn(3, ' ');
    let (method, path) = (parts.next().unwrap(), parts.next().unwrap());
    let mut body = parts.next().unwrap_or_default();
    let mut headers = String::new();
    if let Some(rest) = body.strip_prefix('@') {
        let (credentials, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        headers.push_str(&users::header(credentials));
        body = rest;
    }
    headers.push_str(match body.starts_with('{') {
        true => "Content-Type: application/json\r\n",
        false => FORM,
    });
    begin(address, &format!("{method} {path}"), &headers, body)
}

/// Runs a line of the file and returns the answer. A line with `WAIT` begins a wait, and sends the
/// requests behind `THEN` meanwhile.
fn run(address: SocketAddr, line: &str) -> Answer {
    let Some(wait) = line.strip_prefix("WAIT ") else { return end(send(address, line)) };
    let (path, then) = wait.split_once(' ').unwrap();
    let mut reader = BufReader::new(send(address, &format!("GET {path}")));
    let head = head_of(&mut reader);
    for line in then.split(" THEN ") {
        end(send(address, line));
    }
    let mut rest = String::new();
    reader.read_to_string(&mut rest).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head, body: unchunked(&rest) }
}

#[test]
fn requests_are_answered_as_by_etcd() {
    let server = Server::start("etcd-v2", &[ETCD, V2]);
    check_answers(server.face("etcd"), include_str!("v2/answers.txt"), 80);
}

/// Sends the requests of a file to a fresh server, and compares the answers. Fails unless there
/// were `expected_count` requests.
fn check_answers(etcd: SocketAddr, answers: &str, expected_count: usize) {
    let mut count = 0;
    for block in answers.split("### ").skip(1) {
        let (line, text) = block.split_once('\n').unwrap();
        let has_members = line.contains("/v2/machines") || line.contains("/v2/members/leader");
        if has_members {
            // A server that was not started under etcd's name has no URLs to show.
            continue;
        }
        if line.starts_with("GET /v2/keys/t?recursive=maybe") {
            wait_until("the key without time is gone", || get(etcd, "/t2").status == 404);
        }
        assert_eq!(shown(&run(etcd, line)), expected(text), "{line}");
        count += 1;
    }
    assert_eq!(count, expected_count);
}

#[test]
fn etcd_v2_is_served_only_where_it_is_asked_for() {
    let server = Server::start("etcd-v2-off", &[ETCD]);
    assert_eq!(get(server.face("etcd"), "/a").status, 404);
}

#[test]
fn a_stream_shows_each_event_and_ends_with_its_client() {
    let server = Server::start("etcd-v2-stream", &[ETCD, V2]);
    let etcd = server.face("etcd");
    put(etcd, "/d/before", "value=0");
    let line = "GET /v2/keys/d?wait=true&stream=true&recursive=true&waitIndex=4";
    let mut reader = BufReader::new(begin(etcd, line, "", ""));
    let head = head_of(&mut reader);
    assert!(head.contains("X-Etcd-Index: 4\r\n"), "{head}");
    assert_eq!(chunk_of(&mut reader)["node"]["key"], "/d/before");
    for number in 0..200 {
        put(etcd, &format!("/d/{number}"), "value=x");
    }
    for number in 0..200 {
        assert_eq!(chunk_of(&mut reader)["node"]["key"], format!("/d/{number}"));
    }
    let watchers = || ask(etcd, "GET /v2/stats/store", "").json()["watchers"].clone();
    assert_eq!(watchers(), 1);
    drop(reader);
    wait_until("the wait is gone with its client", || watchers() == 0);
}

#[test]
fn many_clients_wait_for_one_key() {
    let server = Server::start("etcd-v2-waits", &[ETCD, V2]);
    let etcd = server.face("etcd");
    let mut waiting: Vec<_> =
        (0..500).map(|_| BufReader::new(begin(etcd, "GET /v2/keys/a?wait=true", "", ""))).collect();
    for reader in &mut waiting {
        head_of(reader);
    }
    put(etcd, "/a", "value=now");
    for mut reader in waiting {
        assert_eq!(chunk_of(&mut reader)["node"]["value"], "now");
    }
}

#[test]
fn large_listings_that_nobody_reads_make_room_for_others() {
    let server = Server::start("etcd-v2-large", &[ETCD, V2]);
    let etcd = server.face("etcd");
    let value = "v".repeat(100_000);
    for number in 0..300 {
        assert_eq!(put(etcd, &format!("/d/{number:03}"), &format!("value={value}")).status, 201);
    }
    let before = resident_bytes(&server);
    let slow: Vec<_> =
        (0..40).map(|_| begin(etcd, "GET /v2/keys/d?recursive=true", "", "")).collect();
    std::thread::sleep(Duration::from_secs(1));
    let more = resident_bytes(&server).saturating_sub(before);
    assert!(more < 128 << 20, "{more} bytes for 40 listings of 30 MB that nobody reads");
    assert_eq!(put(etcd, "/other", "value=x").status, 201, "others are served");
    let whole = get(etcd, "/d?recursive=true").json();
    assert_eq!(whole["node"]["nodes"].as_array().unwrap().len(), 300);
    // A client whose answer was cut off can tell, because the last chunk is missing.
    let ends: Vec<bool> = slow.into_iter().map(is_ended).collect();
    assert!(ends.contains(&false), "some had to go");
}

/// Whether the last chunk of an answer arrives.
fn is_ended(mut stream: TcpStream) -> bool {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).is_ok() && bytes.ends_with(b"\r\n0\r\n\r\n")
}

#[test]
fn bad_requests_get_an_error_and_harm_nobody() {
    let server = Server::start("etcd-v2-bad", &[ETCD, V2]);
    let etcd = server.face("etcd");
    for (line, form, status, code) in [
        ("PUT /v2/keys/%ff", "value=x", 400, 209),
        ("PUT /v2/keys/a?x=%zz", "value=x", 400, 210),
        ("PUT /v2/keys/a", "value=%z", 400, 210),
        ("PUT /v2/keys/a", "value=x;ttl=5", 400, 210),
        ("PUT /v2/keys/a?wait=true", "value=x", 400, 209),
        ("PUT /v2/keys/a?ttl=9000000001", "value=x", 400, 202),
    ] {
        let answer = ask(etcd, line, form);
        assert_eq!(answer.status, status, "{line}");
        assert_eq!(answer.json()["errorCode"], code, "{line}");
        assert_eq!(answer.index(), 0, "{line}");
    }
    let long = format!("GET /v2/keys/{}", "k".repeat(20_000));
    assert_eq!(ask(etcd, &long, "").json()["errorCode"], 209);
    // Longer than a request may be, and longer than a form may be.
    let large = format!("value={}", "v".repeat(2 << 20));
    let answer = put(etcd, "/a", &large);
    assert_eq!((answer.status, answer.json()["errorCode"].clone()), (400, 210.into()));
    let mut stream = connect(etcd);
    let head =
        format!("PUT /v2/keys/a HTTP/1.1\r\nHost: e\r\n{FORM}Content-Length: 104857600\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let part = "v".repeat(1 << 20);
    // The server need not read all of it.
    for _ in 0..100 {
        if stream.write_all(part.as_bytes()).is_err() {
            break;
        }
    }
    let mut answer = Vec::new();
    // A reset of the connection is acceptable, too.
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.is_empty() || answer.contains("\"errorCode\":210"), "{answer}");
    assert_eq!(put(etcd, "/a", "value=good").status, 201, "nothing of that was written");
    // As in Go, a body that is not a form is ignored.
    let ignored = end(begin(etcd, "PUT /v2/keys/a", "", "value=ignored"));
    assert_eq!(ignored.json()["node"]["value"], "");
}

#[test]
fn requests_of_one_connection_are_answered_in_their_order() {
    let server = Server::start("etcd-v2-pipelined", &[ETCD, V2]);
    let mut stream = connect(server.face("etcd"));
    let chunked = "PUT /v2/keys/c HTTP/1.1\r\nHost: e\r\nTransfer-Encoding: chunked\r\n";
    let chunked = format!("{chunked}{FORM}\r\n4\r\nvalu\r\n4\r\ne=12\r\n0\r\n\r\n");
    let read = "GET /v2/keys/c HTTP/1.1\r\nHost: e\r\n";
    let all = format!("{chunked}{read}\r\n{read}Connection: close\r\n\r\n");
    stream.write_all(all.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let bodies: Vec<&str> = text.lines().filter(|line| line.starts_with('{')).collect();
    assert_eq!(bodies.len(), 3, "{text}");
    assert!(bodies[0].starts_with("{\"action\":\"set\""), "{text}");
    assert!(bodies[1] == bodies[2] && bodies[1].contains("\"value\":\"12\""), "{text}");
}

/// Reads an answer on a connection that stays open. Returns the lines of its head, without those
/// that vary, and its body.
fn answer_of(reader: &mut BufReader<TcpStream>) -> (String, String) {
    let head = head_of(reader);
    let lines: Vec<&str> = head.lines().filter(|line| !line.starts_with("Date: ")).collect();
    assert_eq!(lines.len() + 1, head.lines().count(), "{head}");
    let mut body = String::new();
    match lines.iter().find_map(|line| line.strip_prefix("Content-Length: ")) {
        Some(length) => {
            let mut bytes = vec![0; length.parse().unwrap()];
            reader.read_exact(&mut bytes).unwrap();
            body = String::from_utf8(bytes).unwrap();
        }
        None => while read_chunk(reader, &mut body) > 0 {},
    }
    // Raft's index varies, because refused writes are log entries, too.
    let lines = lines.iter().map(|line| match line.starts_with("X-Raft-Index: ") {
        true => "X-Raft-Index",
        false => line,
    });
    (lines.collect::<Vec<_>>().join("\n"), body)
}

/// Appends the next chunk to a body, and returns its length.
fn read_chunk(reader: &mut BufReader<TcpStream>, body: &mut String) -> usize {
    let mut length = String::new();
    reader.read_line(&mut length).unwrap();
    let length = usize::from_str_radix(length.trim_end(), 16).unwrap();
    let mut chunk = vec![0; length + 2];
    reader.read_exact(&mut chunk).unwrap();
    body.push_str(str::from_utf8(&chunk[..length]).unwrap());
    length
}

/// A connection begins with our own HTTP code, and is handed to the HTTP library by a header that
/// only the library handles. Both must answer alike, including a large listing in chunks, and the
/// connection must survive.
#[test]
fn requests_are_answered_alike_with_and_without_the_library() {
    let server = Server::start("etcd-v2-short", &[ETCD, V2]);
    let mut reader = BufReader::new(connect(server.face("etcd")));
    let mut ask = |line: &str, headers: &str, form: &str| {
        let length = form.len();
        let head = format!("{line} HTTP/1.1\r\nHost: e\r\n{FORM}Content-Length: {length}\r\n");
        let request = format!("{head}{headers}\r\n{form}");
        let (first, second) = request.split_at(request.len() / 2);
        reader.get_mut().write_all(first.as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(2));
        reader.get_mut().write_all(second.as_bytes()).unwrap();
        answer_of(&mut reader)
    };
    let value = "x".repeat(7_000);
    for number in 0..20 {
        let line = format!("PUT /v2/keys/large/{number}");
        let (head, body) = ask(&line, "", &format!("value={value}"));
        assert!(head.starts_with("HTTP/1.1 201 Created\n"), "{head}\n{body}");
    }
    ask("PUT /v2/keys/a", "", "value=%22%C3%A9");
    // Each of these requests reads or is refused, so the indexes do not change.
    let requests = [
        ("GET /v2/keys/a", ""),
        ("GET /v2/keys/a?quorum=true", ""),
        ("GET /v2/keys/none", ""),
        ("GET /v2/keys/large?recursive=true", ""),
        ("GET /v2/keys/large/7", ""),
        ("GET /v2/keys?recursive=maybe", ""),
        ("PUT /v2/keys/a?prevExist=false", "value=1"),
        ("PUT /v2/keys/a", "value=1&prevValue=2"),
        ("PUT /v2/keys/a", "ttl=soon"),
        ("PUT /v2/keys/a", "value=%zz"),
        ("POST /v2/keys/a", "value=1"),
        ("DELETE /v2/keys/large", ""),
    ];
    let mut of_all = |headers: &str| requests.map(|(line, form)| ask(line, headers, form));
    let (short, library) = (of_all(""), of_all("TE: trailers\r\n"));
    for ((one, other), request) in short.iter().zip(&library).zip(requests) {
        assert_eq!(one, other, "{request:?}");
    }
    assert!(short[3].0.contains("Transfer-Encoding: chunked"), "{}", short[3].0);
    assert!(short[3].1.len() > 20 * value.len());
    let (head, body) = ask("GET /v2/keys/a?wait=true&waitIndex=1", "", "");
    assert!(head.contains("chunked") && body.contains("\"key\":\"/a\""), "{head}\n{body}");
}

#[test]
fn three_members_serve_one_tree_and_lose_nothing_with_their_leader() {
    let mut three = Three::start_with("etcd-v2-three", &["--enable-v2"]);
    let clients = three.clients;
    let machines = ask(clients[0], "GET /v2/machines", "").body;
    let mut urls: Vec<String> = clients.iter().map(|at| format!("http://{at}")).collect();
    urls.sort();
    assert_eq!(machines, urls.join(", "));
    let leader = three.leader();
    let follower = clients[(leader + 1) % 3];
    let followers_wait = begin(follower, "GET /v2/keys/k?wait=true", "", "");
    let mut waiting = BufReader::new(followers_wait);
    head_of(&mut waiting);
    assert_eq!(put(follower, "/k", "value=1").status, 201);
    assert_eq!(chunk_of(&mut waiting)["node"]["value"], "1");
    for (number, at) in clients.iter().enumerate() {
        let read = get(*at, "/k?quorum=true");
        assert_eq!(read.json()["node"]["value"], "1");
        let state = ask(*at, "GET /v2/stats/self", "").json()["state"].clone();
        assert_eq!(state == "StateLeader", number == leader, "{state}");
        let status = if number == leader { 200 } else { 403 };
        assert_eq!(ask(*at, "GET /v2/stats/leader", "").status, status);
    }
    let begun_at = Instant::now();
    assert_eq!(put(follower, "/t", "value=1&ttl=3").status, 201);
    assert_eq!(put(follower, "/k", "value=2&prevValue=1").status, 200);
    three.end_leader();
    wait_until("the others have a leader", || {
        put(follower, "/k", "value=3&prevValue=2").status == 200
    });
    let body = get(follower, "/k?quorum=true").json();
    assert_eq!(body["node"]["value"], "3");
    wait_until("the time to live ends", || get(follower, "/t").status == 404);
    assert!(begun_at.elapsed() >= Duration::from_secs(3), "{:?}", begun_at.elapsed());
}

#[test]
fn the_tree_outlives_a_kill_and_a_snapshot() {
    let mut server = Server::start("etcd-v2-restart", &[ETCD, V2, "snapCount=100"]);
    let etcd = server.face("etcd");
    for number in 0..250 {
        put(etcd, &format!("/d/{number}"), "value=x");
    }
    let before = put(etcd, "/t", "value=x&ttl=2");
    server.kill_nine();
    server.restart();
    let etcd = server.face("etcd");
    let read = get(etcd, "/d");
    assert_eq!(read.json()["node"]["nodes"].as_array().unwrap().len(), 250);
    assert_eq!(read.index(), before.index());
    let missed = get(etcd, &format!("/t?wait=true&waitIndex={}", before.index()));
    assert_eq!(missed.json()["node"]["key"], "/t", "the history is state, too");
    wait_until("the key expires after the restart", || get(etcd, "/t").status == 404);
    assert_eq!(get(etcd, "/t").index(), before.index() + 1);
    server.stop();
    let mut inspect = std::process::Command::new(env!("CARGO_BIN_EXE_quorate"));
    let inspected =
        inspect.arg("inspect").arg(server.data_dir()).arg("--etcd=v2").output().unwrap();
    let text = String::from_utf8(inspected.stdout).unwrap();
    let index = before.index() + 1;
    assert!(text.contains(&format!("etcd v2: index {index}, 251 nodes")), "{text}");
    assert!(text.contains("\nnode /d created 4 modified 4 directory\n"), "{text}");
    assert!(text.contains("\nnode /d/0 created 4 modified 4 value 1 bytes\n"), "{text}");
}

#[test]
fn writes_are_lines_of_the_audit_log() {
    let server = Server::start("etcd-v2-audit", &[ETCD, V2, "audit.enable=true"]);
    let etcd = server.face("etcd");
    put(etcd, "/a%09b", "value=secret");
    put(etcd, "/a%09b", "value=x&prevValue=y");
    get(etcd, "/a%09b");
    let ip = "ip=127.0.0.1";
    let failed = "result=failure\terror=Compare failed";
    assert_eq!(
        audit::lines(&server),
        [
            format!("{ip}\toperation=v2Set\tkey=\"/a\\tb\"\tresult=success"),
            format!("{ip}\toperation=v2CompareAndSwap\tkey=\"/a\\tb\"\t{failed}"),
        ]
    );
}

/// Increments a counter by compare-and-swap on its index, at each member in turn, until `is_over`.
/// Returns the acknowledged writes with their indexes.
fn count_up(clients: [SocketAddr; 3], key: &str, is_over: impl Fn() -> bool) -> Vec<(u64, String)> {
    let mut written = Vec::new();
    let mut at = 0;
    while !is_over() {
        at += 1;
        let address = clients[at % 3];
        let Some(read) = try_ask(address, &format!("GET /v2/keys{key}?quorum=true"), "") else {
            continue;
        };
        let (value, condition) = match read.status {
            200 => {
                let node = read.json()["node"].clone();
                let value: u64 = node["value"].as_str().unwrap().parse().unwrap();
                (value + 1, format!("prevIndex={}", node["modifiedIndex"]))
            }
            404 => (1, "prevExist=false".to_string()),
            _ => continue,
        };
        let form = format!("value={value}&{condition}");
        let Some(put) = try_ask(address, &format!("PUT /v2/keys{key}"), &form) else { continue };
        if put.status < 300 {
            written.push((put.index(), value.to_string()));
        }
    }
    written
}

/// Like [`ask`]; `None` if the server is gone, or disappears during its answer.
fn try_ask(address: SocketAddr, line: &str, form: &str) -> Option<Answer> {
    try_end(try_begin(address, line, FORM, form)?)
}

/// Waits for events of all keys, one by one, at each member in turn, until the key `last` is
/// written. Returns the events.
fn follow(clients: [SocketAddr; 3], last: &str) -> Vec<Value> {
    let (mut events, mut next, mut at) = (Vec::new(), FIRST_INDEX + 1, 0);
    let deadline = Instant::now() + 3 * PATIENCE;
    loop {
        at += 1;
        assert!(Instant::now() < deadline, "{last} is not written in time");
        let line = format!("GET /v2/keys/?wait=true&recursive=true&waitIndex={next}");
        let Some(answer) = try_ask(clients[at % 3], &line, "") else { continue };
        // A member that stops may have begun an answer without an event.
        let Ok(event) = serde_json::from_str::<Value>(&answer.body) else { continue };
        assert_eq!(answer.status, 200, "{event}");
        let index = event["node"]["modifiedIndex"].as_u64().unwrap();
        assert!(index >= next, "{event} after {next}");
        next = index + 1;
        let is_last = event["node"]["key"] == last;
        events.push(event);
        if is_last {
            return events;
        }
    }
}

#[test]
fn no_write_is_lost_and_no_event_is_missed_while_members_are_killed() {
    let mut three = Three::start_with("etcd-v2-kills", &["--enable-v2"]);
    let clients = three.clients;
    let is_over = AtomicBool::new(false);
    let is_over = &is_over;
    let (written, events) = std::thread::scope(|scope| {
        let over = Over(is_over);
        let count = |key| count_up(clients, key, || is_over.load(Ordering::Relaxed));
        let counting = ["/a", "/a", "/d/b", "/d/b"].map(|key| scope.spawn(move || count(key)));
        let following = scope.spawn(move || follow(clients, "/end"));
        for round in 0..6 {
            std::thread::sleep(Duration::from_millis(700));
            let killed = if round % 2 == 0 { three.leader() } else { round % 3 };
            three.end(killed);
            std::thread::sleep(Duration::from_millis(300));
            three.restart(killed);
        }
        drop(over);
        let written = counting.map(|it| it.join().unwrap());
        wait_until("the last write is taken", || {
            let put = try_ask(clients[0], "PUT /v2/keys/end", "value=x");
            put.is_some_and(|put| put.status < 300)
        });
        (written, following.join().unwrap())
    });
    // Each write has its own index, and the waits missed none.
    let mut counters = std::collections::BTreeMap::<&str, u64>::new();
    for (event, index) in events.iter().zip(FIRST_INDEX + 1..) {
        assert_eq!(event["node"]["modifiedIndex"], index);
        if event["node"]["key"] == "/end" {
            continue;
        }
        let counter = counters.entry(event["node"]["key"].as_str().unwrap()).or_default();
        *counter += 1;
        assert_eq!(event["node"]["value"], counter.to_string(), "{event}");
    }
    let mut count = 0;
    for (index, value) in written.iter().flatten() {
        let event = &events[(index - FIRST_INDEX - 1) as usize];
        assert_eq!(event["node"]["value"], **value, "acknowledged at {index}: {event}");
        count += 1;
    }
    assert!(count > 100, "{count} writes were acknowledged");
}
