//! Tests of the face for etcd clients in the real process. The tests here use JSON over HTTP/1.1,
//! those in the modules mostly gRPC. JSON has keys and values in base64; these tests use texts
//! whose base64 is well known.

mod audit;
mod auth;
mod backup;
mod bounds;
mod certificates;
mod concurrency;
mod connections;
pub mod grpc_client;
mod health;
mod large;
mod leaderless;
mod leases;
mod malformed;
mod members;
mod ports;
mod program;
mod slow_disk;
mod streams;
mod v2;
mod watches;
mod websocket;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustix::process::{Pid, Signal, kill_process};

pub use crate::server::free_addresses;
use crate::server::{Server, folder, wait_until};

const ETCD: &str = "quorate.etcdAddr=127.0.0.1:0";

/// Memory that the server's process has in use (`VmRSS`), in bytes.
fn resident_bytes(server: &Server) -> usize {
    memory_bytes(server, "VmRSS:")
}

/// Memory of the server's process, in bytes. `name` is the kernel's name for the kind of memory.
fn memory_bytes(server: &Server, name: &str) -> usize {
    let status = format!("/proc/{}/status", server.pid().as_raw_nonzero());
    let status = std::fs::read_to_string(status).unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    let kib: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib * 1_024
}

/// Sends a request, and returns the status and body of the answer; `None` if the connection broke.
pub fn request(address: SocketAddr, line: &str, body: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(30))).ok()?;
    let length = body.len();
    let head =
        format!("{line} HTTP/1.1\r\nHost: e\r\nConnection: close\r\nContent-Length: {length}\r\n");
    stream.write_all(format!("{head}\r\n{body}").as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, body.to_string()))
}

/// Removes HTTP's chunked encoding from a body.
fn dechunked(mut body: &str) -> String {
    let mut whole = String::new();
    loop {
        let (length, behind) = body.split_once("\r\n").unwrap();
        let length = usize::from_str_radix(length, 16).unwrap();
        if length == 0 {
            return whole;
        }
        whole.push_str(&behind[..length]);
        body = behind[length..].strip_prefix("\r\n").unwrap();
    }
}

pub fn call(address: SocketAddr, name: &str, body: &str) -> (u16, String) {
    request(address, &format!("POST /v3/kv/{name}"), body).expect("the server answers")
}

fn base64(text: &str) -> String {
    STANDARD.encode(text)
}

/// Puts a key. Returns whether the put was acknowledged.
pub fn put(address: SocketAddr, key: &str, value: &str) -> bool {
    let body = format!("{{\"key\":\"{}\",\"value\":\"{}\"}}", base64(key), base64(value));
    request(address, "POST /v3/kv/put", &body).is_some_and(|(status, _)| status == 200)
}

/// The value of a key, from a linearizable read.
pub fn get(address: SocketAddr, key: &str) -> Option<String> {
    let (status, body) = call(address, "range", &format!("{{\"key\":\"{}\"}}", base64(key)));
    assert_eq!(status, 200, "{body}");
    let value = body.split("\"value\":\"").nth(1)?.split('"').next()?;
    Some(String::from_utf8(STANDARD.decode(value).unwrap()).unwrap())
}

#[test]
fn keys_are_put_read_and_compacted_beside_a_tree() {
    let server = Server::start("etcd", &[ETCD]);
    let etcd = server.face("etcd");
    let mut zk = crate::client::Client::open(server.address(), 4_000);
    zk.create("/foo", b"of the tree", 0).unwrap();
    assert!(put(etcd, "foo", "bar"));
    assert!(put(etcd, "foo", "baz"));
    assert_eq!(get(etcd, "foo").as_deref(), Some("baz"));
    assert_eq!(get(etcd, "/foo"), None, "the tree is another space");
    let (status, body) = call(etcd, "compaction", "{\"revision\":3}");
    assert_eq!(status, 200, "{body}");
    let (status, body) = call(etcd, "range", "{\"key\":\"Zm9v\",\"revision\":\"2\"}");
    assert_eq!(status, 400);
    assert!(body.contains("etcdserver: mvcc: required revision has been compacted"), "{body}");
    let (status, body) = request(etcd, "GET /health", "").unwrap();
    assert_eq!((status, body.as_str()), (200, "{\"health\":\"true\",\"reason\":\"\"}"));
    let (status, body) = request(etcd, "GET /version", "").unwrap();
    assert_eq!(status, 200);
    assert!(body.contains("\"etcdserver\":\"3.6.16\""), "{body}");
}

#[test]
fn wrong_input_gets_an_error_and_harms_nobody() {
    let server = Server::start("etcd-wrong", &[ETCD]);
    let etcd = server.face("etcd");
    assert!(put(etcd, "foo", "bar"));
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let headers = [0, 0, 4, 1, 5, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff];
    let inputs: [&[u8]; 6] = [
        b"PR",
        b"\xff\xfe\xfd",
        &preface[..10],
        &[&preface[..], &[0, 0xff, 0xff, 0, 0, 0, 0, 0, 1]].concat(),
        &[&preface[..], &headers].concat(),
        b"POST /v3/kv/put HTTP/1.1\r\nHost: e\r\nContent-Length: 1000\r\n\r\n{\"key\":",
    ];
    for input in inputs {
        let mut stream = TcpStream::connect(etcd).unwrap();
        stream.write_all(input).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        // A reset counts as an end, too.
        let _ = stream.read_to_end(&mut answer);
        assert_eq!(get(etcd, "foo").as_deref(), Some("bar"));
    }
    let nested = "[".repeat(1_000_000);
    let large = format!("{{\"key\":\"Zm9v\",\"value\":\"{}\"}}", "QUFB".repeat(600_000));
    for (body, expected) in [
        ("{\"key\":\"\"}", "etcdserver: key is not provided"),
        ("{\"key\":", "unexpected EOF"),
        (&nested, "\"code\":3"),
        (&large, "etcdserver: request is too large"),
    ] {
        let (status, body) = call(etcd, "put", body);
        assert_eq!(status, 400, "{body}");
        assert!(body.contains(expected), "{body}");
    }
    assert_eq!(call(etcd, "nothing", "{}").0, 404);
    assert_eq!(get(etcd, "foo").as_deref(), Some("bar"));
}

/// A member that runs under the program name `etcd`. Dropping this stops it.
struct Etcd(Child);

impl Etcd {
    fn start(
        folder: &Path,
        name: &str,
        client: SocketAddr,
        peers: &[(String, SocketAddr)],
        flags: &[&str],
    ) -> Etcd {
        let list: Vec<String> =
            peers.iter().map(|(name, peer)| format!("{name}=http://{peer}")).collect();
        let own = peers.iter().find(|(other, _)| other == name).unwrap().1;
        let (client, own) = (format!("http://{client}"), format!("http://{own}"));
        let data_dir = folder.join(name);
        Etcd::spawn(
            folder,
            name,
            &[
                ["--name", name],
                ["--data-dir", data_dir.to_str().unwrap()],
                ["--listen-client-urls", &client],
                ["--advertise-client-urls", &client],
                ["--listen-peer-urls", &own],
                ["--initial-advertise-peer-urls", &own],
                ["--initial-cluster", &list.join(",")],
            ]
            .concat()
            .iter()
            .chain(flags)
            .copied()
            .collect::<Vec<_>>(),
        )
    }

    /// Starts the program with these flags. Its output goes to the file `NAME.log`.
    fn spawn(folder: &Path, name: &str, flags: &[&str]) -> Etcd {
        Etcd::spawn_with(folder, name, flags, &[])
    }

    /// Like [`Etcd::spawn`], with these variables.
    fn spawn_with(folder: &Path, name: &str, flags: &[&str], variables: &[(&str, &str)]) -> Etcd {
        let log = std::fs::File::create(folder.join(format!("{name}.log"))).unwrap();
        let child = etcd_command(folder)
            .args(flags)
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        Etcd(child)
    }
}

/// A command for the program under the name `etcd`, in this folder.
fn etcd_command(folder: &Path) -> Command {
    let program = folder.join("etcd");
    if !program.exists() {
        symlink(env!("CARGO_BIN_EXE_quorate"), &program).unwrap();
    }
    let mut command = Command::new(program);
    command.current_dir(folder);
    command
}

/// Waits until a member logs that it serves clients.
fn wait_ready(folder: &Path, name: &str) {
    let log = folder.join(format!("{name}.log"));
    let text = || std::fs::read_to_string(&log).unwrap_or_default();
    wait_until("it is ready", || text().contains("ready to serve client requests"));
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let _ = self.0.wait();
    }
}

/// The settings that etcd knows as `--quota-backend-bytes`, `--max-txn-ops` and
/// `--auto-compaction-retention`, in a zoo.cfg.
#[test]
fn settings_of_the_keys_are_obeyed_from_the_first_write_on() {
    let mut server = Server::start(
        "etcd-settings",
        &[
            "quorate.etcdAddr=127.0.0.1:0",
            "quorate.etcdQuotaBackendBytes=20000",
            "quorate.etcdMaxTxnOps=200",
            "quorate.etcdAutoCompactionRetention=1s",
        ],
    );
    let address = server.face("etcd");
    let txn = |count: usize| {
        let range = r#"{"requestRange":{"key":"YQ=="}}"#;
        let put = format!(r#"{{"requestPut":{{"key":"{}"}}}}"#, base64("txn"));
        let ops = [vec![put], vec![range.to_string(); count - 1]].concat();
        call(address, "txn", &format!(r#"{{"success":[{}]}}"#, ops.join(",")))
    };
    assert_eq!(txn(200).0, 200);
    let (status, body) = txn(201);
    assert_eq!(status, 400);
    assert!(body.contains("etcdserver: too many operations in txn request"), "{body}");
    let value = "v".repeat(1_000);
    let full = |address| {
        let (key, value) = (base64("key"), base64(&value));
        call(address, "put", &format!(r#"{{"key":"{key}","value":"{value}"}}"#))
    };
    let refused = (0..30).map(|_| full(address)).find(|(status, _)| *status != 200);
    let (status, body) = refused.expect("the quota is full before");
    assert_eq!(status, 429);
    assert!(body.contains("etcdserver: mvcc: database space exceeded"), "{body}");
    // The leader compacts what is older than a second, and then there is room again. The alarm that
    // the refused put raised stays until it is disarmed.
    let disarm = |address| {
        let alarms = request(address, "POST /v3/maintenance/alarm", "{}").unwrap().1;
        let member = alarms.split("\"memberID\":\"").nth(1).unwrap().split('"').next().unwrap();
        let body = format!(r#"{{"action":"DEACTIVATE","alarm":"NOSPACE","memberID":"{member}"}}"#);
        let (status, body) = request(address, "POST /v3/maintenance/alarm", &body).unwrap();
        assert!(status == 200 && body.contains("NOSPACE"), "{body}");
    };
    let (status, body) = request(address, "GET /health", "").unwrap();
    assert_eq!(status, 503);
    assert!(body.contains("ALARM NOSPACE"), "{body}");
    assert_eq!(request(address, "GET /health?exclude=NOSPACE", "").unwrap().0, 200);
    wait_until("a put is taken", || {
        if full(address).0 == 200 {
            return true;
        }
        disarm(address);
        false
    });
    server.kill_nine();
    server.restart();
    let address = server.face("etcd");
    let refused = (0..60).map(|_| full(address)).find(|(status, _)| *status != 200);
    assert_eq!(refused.map(|(status, _)| status), Some(429));
    assert!(server.log().contains("auto-compaction: etcd's keys are compacted to revision"));
}

/// Three members that run under the program name `etcd`.
pub struct Three {
    folder: PathBuf,
    /// The members' addresses for clients.
    pub clients: [SocketAddr; 3],
    peers: Vec<(String, SocketAddr)>,
    flags: Vec<String>,
    members: [Option<Etcd>; 3],
}

impl Three {
    /// Starts three members with empty folders, and waits until they serve.
    pub fn start(name: &str) -> Three {
        Three::start_with(name, &[])
    }

    /// Like [`Three::start`], with these additional flags.
    pub fn start_with(name: &str, flags: &[&str]) -> Three {
        Three::start_some(name, flags, &[0, 1, 2])
    }

    /// Like [`Three::start_with`], but starts only the members in `numbers`.
    pub fn start_some(name: &str, flags: &[&str], numbers: &[usize]) -> Three {
        let folder = folder(name);
        let names = ["m0", "m1", "m2"].map(str::to_string);
        let clients = free_addresses::<3>();
        let peers: Vec<_> = names.into_iter().zip(free_addresses::<3>()).collect();
        let flags = flags.iter().map(ToString::to_string).collect();
        let members = [None, None, None];
        let mut three = Three { folder, clients, peers, flags, members };
        numbers.iter().for_each(|number| three.begin(*number));
        for number in numbers {
            three.wait_ready(*number);
            let log = three.log(*number);
            assert!(!log.contains("zk="), "ZooKeeper's clients are not served: {log}");
        }
        three
    }

    /// Starts a member that is not running.
    fn begin(&mut self, number: usize) {
        self.members[number] = Some(self.spawn(number));
    }

    fn spawn(&self, number: usize) -> Etcd {
        let flags: Vec<&str> = self.flags.iter().map(String::as_str).collect();
        let (name, _) = &self.peers[number];
        Etcd::start(&self.folder, name, self.clients[number], &self.peers, &flags)
    }

    fn wait_ready(&self, number: usize) {
        wait_ready(&self.folder, &self.peers[number].0);
    }

    /// Starts a member again that was ended, and waits until it serves.
    pub fn restart(&mut self, number: usize) {
        self.begin(number);
        self.wait_ready(number);
    }

    /// The number of the leader, according to the members' logs.
    pub fn leader(&self) -> usize {
        let leads = |number: &usize| {
            let text = self.log(*number);
            let line = text.lines().rfind(|line| line.contains(" leads, in term "));
            line.is_some_and(|line| line.contains("this server leads"))
        };
        (0..3).find(leads).expect("one of them leads")
    }

    /// Kills the leader with SIGKILL, and returns its number.
    pub fn end_leader(&mut self) -> usize {
        let leader = self.leader();
        self.end(leader);
        leader
    }

    /// The text of a member's log.
    pub fn log(&self, number: usize) -> String {
        std::fs::read_to_string(self.folder.join(format!("m{number}.log"))).unwrap()
    }

    /// Kills a member with SIGKILL.
    pub fn end(&mut self, number: usize) {
        let Some(Etcd(member)) = &mut self.members[number] else { return };
        let _ = kill_process(Pid::from_child(member), Signal::KILL);
        let _ = member.wait();
    }
}

impl Drop for Three {
    fn drop(&mut self) {
        self.members = [None, None, None];
        if !std::thread::panicking() {
            // An error does not matter, because the folder is below the target folder.
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}

#[test]
fn three_members_under_the_name_etcd_serve_what_is_put_on_any() {
    let mut three = Three::start("etcd-three");
    let clients = three.clients;
    for (number, client) in clients.into_iter().enumerate() {
        assert!(put(client, "key", &number.to_string()));
        for other in clients {
            assert_eq!(get(other, "key"), Some(number.to_string()));
        }
    }
    // One of the members is lost; the others still serve.
    drop(three.members[0].take());
    let [_, left, right] = clients;
    wait_until("there is a leader", || put(left, "key", "last"));
    assert_eq!(get(right, "key").as_deref(), Some("last"));
}
