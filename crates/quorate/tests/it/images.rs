//! Tests of the admin commands `snapshot` and `restore`: whether a restore brings the state back,
//! who may give the commands, and which uploads are refused.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use zk::ErrorCode;
use zk::request::{ReadKind, Request, WriteRequest};

use crate::client::{Client, Greeted, TIMEOUT_MS, read};
use crate::server::{Server, wait_until};

/// How long the server may take to answer.
const SILENCE: Duration = Duration::from_secs(20);

/// By default a server restores at most once in five minutes; this setting removes the limit.
const OFTEN: &str = "admin.rateLimiterIntervalInMS=0";

const CONFIG: [&str; 3] = ["admin.serverPort=0", "admin.serverAddress=127.0.0.1", OFTEN];

/// A header with a user and a password.
const SOMEBODY: &str = "Authorization: digest bob:secret\r\n";

/// An HTTP response.
pub struct Answer {
    pub status: u16,
    head: String,
    pub body: Vec<u8>,
}

impl Answer {
    /// The value of a header, which must exist.
    fn header(&self, name: &str) -> &str {
        let line = self.head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
        line.unwrap_or_else(|| panic!("no {name} in {}", self.head))
    }

    fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("an answer in JSON")
    }
}

/// Sends a command with these headers and this body, and returns the response.
fn ask(admin: SocketAddr, line: &str, headers: &str, body: &[u8]) -> Answer {
    try_ask(admin, line, headers, body).expect("the server answers")
}

fn try_ask(admin: SocketAddr, line: &str, headers: &str, body: &[u8]) -> Option<Answer> {
    let mut stream = TcpStream::connect(admin).ok()?;
    stream.set_read_timeout(Some(SILENCE)).unwrap();
    let length = body.len();
    let head = format!(
        "{line} HTTP/1.1\r\nHost: q\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n"
    );
    stream.write_all(head.as_bytes()).ok()?;
    // A server that refuses the request need not read the whole body.
    let _ = stream.write_all(body);
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).ok()?;
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Answer { status, head: head.to_lowercase(), body: bytes[end + 4..].to_vec() })
}

pub fn snapshot(admin: SocketAddr) -> Answer {
    ask(admin, "GET /commands/snapshot", SOMEBODY, b"")
}

fn restore(admin: SocketAddr, image: &[u8]) -> Answer {
    ask(admin, "POST /commands/restore", SOMEBODY, image)
}

/// The files of received snapshots in the data directory.
fn received(server: &Server) -> Vec<PathBuf> {
    let files = std::fs::read_dir(server.data_dir().join("snapshots")).unwrap();
    let paths = files.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.to_string_lossy().contains("received")).collect()
}

#[test]
fn a_snapshot_brings_back_znodes_and_sessions() {
    let mut server = Server::start("images", &CONFIG);
    let admin = server.face("admin");
    let mut first = Client::open(server.address(), TIMEOUT_MS);
    first.create("/a", b"kept", 0).unwrap();
    first.create("/e", b"", 1).unwrap();
    let taken = snapshot(admin);
    assert_eq!(taken.status, 200);
    assert_eq!(taken.header("content-type"), "application/octet-stream");
    assert_eq!(taken.header("snapshot_size"), taken.body.len().to_string());
    let zxid = i64::from_str_radix(&taken.header("last_zxid")[2..], 16).unwrap();
    assert_eq!(zxid, first.call(&read(ReadKind::GetData, "/a")).header.zxid);
    assert_eq!(first.set("/a", b"changed"), ErrorCode::OK);
    assert_eq!(first.delete("/e"), ErrorCode::OK);
    let mut later = Client::open(server.address(), TIMEOUT_MS);
    later.create("/later", b"", 0).unwrap();

    let restored = restore(admin, &taken.body);
    assert_eq!(restored.status, 200, "{}", String::from_utf8_lossy(&restored.body));
    let restored_zxid = restored.json()["last_zxid"].as_i64().unwrap();
    assert!(restored_zxid > zxid + 3);
    // Both clients are disconnected. The first one can resume its session; the session of the other
    // does not exist any more.
    assert!(first.receive().is_none());
    assert!(later.receive().is_none());
    let again = Client::try_greet(server.address(), first.session, &first.password, zxid + 3);
    let Greeted::Attached(mut first) = again else { panic!("{again:?}") };
    assert_eq!(first.get("/a").unwrap(), b"kept");
    assert!(first.exists("/e") && !first.exists("/later"));
    let gone = Client::try_greet(server.address(), later.session, &later.password, 0);
    assert!(matches!(gone, Greeted::Refused), "{gone:?}");
    assert_eq!(first.set("/a", b"after"), ErrorCode::OK);

    // The received file is deleted once the server has taken a snapshot of its own. After a restart
    // all data is there.
    wait_until("discarding", || received(&server).is_empty());
    server.kill_nine();
    server.restart();
    let again = Client::try_greet(server.address(), first.session, &first.password, 0);
    let Greeted::Attached(mut first) = again else { panic!("{again:?}") };
    assert_eq!(first.get("/a").unwrap(), b"after");
    assert!(first.exists("/e") && !first.exists("/later"));

    // Another server can restore the same file.
    let other = Server::start("images-other", &CONFIG);
    assert_eq!(restore(other.face("admin"), &taken.body).status, 200);
    let mut client = Client::open(other.address(), TIMEOUT_MS);
    assert_eq!(client.get("/a").unwrap(), b"kept");
}

#[test]
fn a_snapshot_is_for_those_who_may_do_everything_to_the_root() {
    let server = Server::start("images-auth", &CONFIG);
    let admin = server.face("admin");
    let asked = |headers: &str| {
        let answer = ask(admin, "GET /commands/snap?streaming=false", headers, b"");
        let error = answer.json()["error"].as_str().unwrap_or("none").to_string();
        (answer.status, error)
    };
    let refused = |status, error: &str| (status, error.to_string());
    assert_eq!(asked(""), refused(401, "Auth info is missing for the command"));
    for wrong in ["nonsense", "digest", "digest a b", "world anyone", "x509 a", "super a", "\u{e9}"]
    {
        let header = format!("Authorization: {wrong}\r\n");
        assert_eq!(asked(&header), refused(401, "Not authenticated"), "{wrong}");
    }
    assert_eq!(asked(SOMEBODY), refused(200, "none"));
    assert_eq!(asked("Authorization: ip\r\n"), refused(200, "none"));
    // From here on, the root's ACL allows one address everything, and everybody else all but one
    // permission.
    let mut client = Client::open(server.address(), TIMEOUT_MS);
    let entry = |perms, scheme: &str, id: &str| machine::AclEntry {
        perms,
        scheme: scheme.into(),
        id: id.into(),
    };
    let acl = vec![entry(31, "ip", "127.0.0.1"), entry(15, "world", "anyone")];
    let path = "/";
    let set = Request::Write(WriteRequest::SetAcl { path, acl, version: -1 });
    assert_eq!(client.call(&set).header.error, ErrorCode::OK);
    assert_eq!(asked(SOMEBODY), refused(403, "Not authorized"));
    assert_eq!(asked("Authorization: ip 1.2.3.4\r\n"), refused(200, "none"));
    assert_eq!(asked("Authorization: digest super:test\r\n"), refused(200, "none"));
    assert_eq!(ask(admin, "POST /commands/restore", SOMEBODY, b"x").status, 403);
}

#[test]
fn what_may_not_be_asked_now_is_refused_with_its_status() {
    let off = ["admin.snapshot.enabled=false", "admin.restore.enabled=no"];
    let address = &CONFIG[..2];
    let server = Server::start("images-off", &[address, &off].concat());
    let admin = server.face("admin");
    assert_eq!(snapshot(admin).status, 503);
    assert_eq!(restore(admin, b"x").status, 503);
    let server = Server::start("images-limited", address);
    let admin = server.face("admin");
    assert_eq!(restore(admin, b"nothing that is a snapshot").status, 400);
    assert_eq!(restore(admin, b"nothing that is a snapshot").status, 429);
    assert_eq!(ask(admin, "GET /commands/restore", SOMEBODY, b"").status, 405);
    assert_eq!(ask(admin, "POST /commands/snapshot", SOMEBODY, b"").status, 405);
    assert_eq!(snapshot(admin).status, 200);
    assert_eq!(snapshot(admin).status, 429);
    let metrics = ask(admin, "GET /commands/monitor", "", b"").json();
    assert_eq!(metrics["restore_error_count"], 1);
    assert_eq!(metrics["restore_rate_limited_count"], 1);
    assert_eq!(metrics["snapshot_rate_limited_count"], 1);
}

#[test]
fn what_is_no_whole_snapshot_leaves_the_state_as_it_was() {
    let server = Server::start("images-bad", &CONFIG);
    let admin = server.face("admin");
    let mut client = Client::open(server.address(), TIMEOUT_MS);
    client.create("/a", b"v", 0).unwrap();
    let whole = snapshot(admin).body;
    client.create("/b", b"v", 0).unwrap();
    let mut changed = whole.clone();
    changed[whole.len() / 2] ^= 1;
    let zookeeper = [b"ZKSN\0\0\0\x02".as_slice(), &[0; 1_000]].concat();
    let halves = [&whole[..whole.len() / 2], &[&*whole, b"x"].concat()].map(<[u8]>::to_vec);
    for bytes in [changed, zookeeper, vec![0; 2_000_000], Vec::new()].into_iter().chain(halves) {
        let answer = restore(admin, &bytes);
        assert_eq!(answer.status, 400, "{}", String::from_utf8_lossy(&answer.body));
        assert!(received(&server).is_empty());
    }
    // This client sends less than it has announced, and disconnects.
    let mut stream = TcpStream::connect(admin).unwrap();
    let head = format!(
        "POST /commands/restore HTTP/1.1\r\nHost: q\r\n{SOMEBODY}Content-Length: 999\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&whole[..100]).unwrap();
    wait_until("receiving", || !received(&server).is_empty());
    drop(stream);
    wait_until("giving up", || received(&server).is_empty());
    // The server's other client was not affected.
    assert!(client.exists("/b"));
    assert_eq!(restore(admin, &whole).status, 200);
    assert!(client.receive().is_none());
}

#[test]
fn a_server_that_is_killed_while_it_restores_has_one_state_or_the_other() {
    let mut server = Server::start("images-kill", &CONFIG);
    let mut client = Client::open(server.address(), TIMEOUT_MS);
    client.create("/old", b"v", 0).unwrap();
    for at in 0..200 {
        client.create(&format!("/old/{at}"), &[7; 500], 0).unwrap();
    }
    let image = snapshot(server.face("admin")).body;
    // How many rounds found the old state, and how many the restored one.
    let mut seen = [0, 0];
    for round in 0..100_u64 {
        if seen.iter().all(|count| *count > 7) {
            break;
        }
        let mut client = Client::open(server.address(), TIMEOUT_MS);
        // The old state is prepared so that it differs: it has no znode of the snapshot, and one of
        // its own.
        for at in 0..200 {
            client.delete(&format!("/old/{at}"));
        }
        client.delete("/old");
        client.delete("/new");
        client.create("/new", b"v", 0).unwrap();
        let admin = server.face("admin");
        let sent = image.clone();
        let asking = std::thread::spawn(move || {
            let answer = try_ask(admin, "POST /commands/restore", SOMEBODY, &sent);
            answer.map(|answer| answer.status)
        });
        std::thread::sleep(Duration::from_micros(round * 500));
        server.kill_nine();
        let answered = asking.join().unwrap();
        server.restart();
        let mut client = Client::open(server.address(), TIMEOUT_MS);
        let is_restored = client.exists("/old/199");
        assert_eq!(client.exists("/old/0"), is_restored, "round {round}");
        assert_eq!(client.exists("/new"), !is_restored, "round {round}");
        if answered == Some(200) {
            assert!(is_restored, "round {round}: it was said to be");
        }
        seen[usize::from(is_restored)] += 1;
        if !is_restored {
            // A received file that was not installed is deleted at the start. The file of an
            // earlier round may be kept longer, because the log still needs it; a later snapshot
            // frees it.
            wait_until("keeping no image", || received(&server).is_empty());
        }
    }
    assert!(seen.iter().all(|count| *count > 0), "before and behind: {seen:?}");
}
