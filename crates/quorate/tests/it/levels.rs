//! Tests of an ensemble whose members are of two builds. The servers are upgraded one by one under
//! load, and back again; then the level is raised, after which an older build is refused.
//!
//! The newer build is this one. An older build is this one limited to the levels up to 1, 2 or 3.
//! So the two differ in the levels that they know, as two releases would.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::{Signal, kill_process};

use zk::ErrorCode;
use zk::request::Request;

use crate::client::{Client, Greeted, create};
use crate::ensemble::{Members, word};
use crate::etcd::{call, free_addresses, get, put, request};
use crate::server::{Over, wait_until};

const TIMEOUT_MS: i32 = 10_000;

/// A build of the program, by the levels that it knows.
#[derive(Clone, Copy, PartialEq)]
enum Build {
    /// This build.
    Newer,
    /// A build that knows the levels up to this one.
    Older(u16),
}

impl Build {
    /// The line of configuration that makes a server behave like this build.
    fn line(self) -> String {
        match self {
            Build::Newer => String::new(),
            Build::Older(level) => format!("quorate.levelMax={level}\n"),
        }
    }
}

/// Starts three servers with an older build that knows the levels up to `level`.
fn start_older(name: &str, level: u16) -> Members {
    let line = Build::Older(level).line();
    let mut members = Members::prepare(name, &format!("snapCount=200\n{line}"));
    (0..3).for_each(|place| members.start(place));
    members.leader();
    members
}

/// Changes a server's configuration so that it has another build, and these further lines, from its
/// next start on.
fn install(members: &Members, place: usize, build: Build, lines_more: &str) {
    let file = members.folder.join((place + 1).to_string()).join("zoo.cfg");
    let config = fs::read_to_string(&file).unwrap();
    // Lines of an earlier build are removed, because an older build refuses keys that it does not
    // know.
    let newer_keys = ["quorate.levelMax=", "quorate.etcdEnableV2="];
    let lines = config.lines().filter(|line| !newer_keys.iter().any(|key| line.starts_with(key)));
    let config: String = lines.flat_map(|line| [line, "\n"]).collect();
    fs::write(&file, config + &build.line() + lines_more).unwrap();
}

/// Stops a server, and starts it with another build and further lines of configuration, while the
/// others serve.
fn replace(members: &mut Members, place: usize, build: Build, lines_more: &str) {
    members.stop_one(place);
    install(members, place, build, lines_more);
    members.start(place);
    let address = members.clients[place];
    wait_until("it serves again", || word(address, "srvr").contains("Mode: "));
}

/// Fails unless a server still uses its directory: nothing in it was set aside.
fn check_kept(members: &Members, place: usize) {
    let names = fs::read_dir(members.data(place)).unwrap().map(|it| it.unwrap().file_name());
    let names: BTreeSet<String> = names.map(|it| it.into_string().unwrap()).collect();
    assert!(names.contains("identity"), "{names:?}");
    assert!(names.iter().all(|name| !name.starts_with("set-aside")), "{names:?}");
}

/// Creates znodes at any server that accepts them, until `is_over`. Returns the acknowledged paths.
fn write(clients: &[SocketAddr], is_over: &AtomicBool, count: &AtomicUsize) -> Vec<String> {
    // The data is so large that the leader does not keep the whole log in memory.
    let data = vec![7; 64 * 1024];
    let mut written = Vec::new();
    for attempt in 0.. {
        let address = clients[attempt % clients.len()];
        if !word(address, "srvr").contains("Mode: ") {
            thread::sleep(Duration::from_millis(20));
        } else if let Greeted::Attached(mut client) = Client::try_greet(address, 0, &[0; 16], 0) {
            loop {
                if is_over.load(Ordering::Acquire) {
                    return written;
                }
                let path = format!("/n{attempt}-{}", written.len());
                let request = Request::Write(create(&path, &data, 0));
                if client.try_call(&request).is_none_or(|it| it.header.error != ErrorCode::OK) {
                    break;
                }
                written.push(path);
                count.store(written.len(), Ordering::Release);
            }
        }
        if is_over.load(Ordering::Acquire) {
            return written;
        }
    }
    unreachable!("the loop has no end")
}

/// Waits until the writer has created some more znodes.
fn let_it_write(count: &AtomicUsize) {
    let before = count.load(Ordering::Acquire);
    wait_until("something is written", || count.load(Ordering::Acquire) > before + 20);
}

/// Empties the directory of a server, which then is a new member and fetches a snapshot from
/// another server. Waits until the new member has taken the place of the server's old one. Until
/// then, a majority of the earlier voters is needed as well, so no second directory may be emptied.
fn refill(members: &mut Members, place: usize) {
    let status = |members: &Members| {
        let (shown, is_led) = members.cluster(&["status"]);
        (shown.lines().count(), is_led && !shown.contains("joining"))
    };
    let mut before = 0;
    wait_until("all are there", || {
        let (lines, is_settled) = status(members);
        before = lines;
        is_settled
    });
    members.stop_one(place);
    let data = members.data(place);
    fs::remove_dir_all(&data).unwrap();
    fs::create_dir_all(&data).unwrap();
    fs::write(data.join("myid"), format!("{}\n", place + 1)).unwrap();
    members.start(place);
    let address = members.clients[place];
    wait_until("it serves again", || word(address, "srvr").contains("Mode: "));
    assert!(members.log(place).contains("it fetches the snapshot at log index"));
    wait_until("the change is complete", || status(members) == (before, true));
}

#[test]
fn servers_are_upgraded_one_at_a_time_and_back_until_the_level_is_raised() {
    const OLDER: Build = Build::Older(1);
    let mut members = start_older("levels", 1);
    let (is_over, count) = (AtomicBool::new(false), AtomicUsize::new(0));
    let clients = members.clients.clone();
    let written = thread::scope(|scope| {
        let over = Over(&is_over);
        let writer = scope.spawn(|| write(&clients, &is_over, &count));
        let newer = |place| (place, Build::Newer);
        for (place, build) in [newer(0), newer(1), (1, OLDER), newer(1), newer(2)] {
            let (said, is_done) = members.cluster(&["upgrade"]);
            // An older build that leads knows no level to raise to.
            let is_refused = !is_done && said.contains("install version 0.4.0 or later there");
            assert!(is_refused || said.contains("the level is 1"), "{said}");
            replace(&mut members, place, build, "");
            let_it_write(&count);
            // Now the sender and the receiver of a snapshot are different builds, both ways round.
            if (place, build) == newer(0) {
                let before = count.load(Ordering::Acquire);
                wait_until("the log is long", || count.load(Ordering::Acquire) > before + 300);
                refill(&mut members, 0);
                refill(&mut members, 1);
            }
        }
        wait_until("all three are there, and the level rises", || {
            let (said, is_done) = members.cluster(&["upgrade"]);
            is_done && said == "the level rose from 1 to 4\n"
        });
        assert!(members.cluster(&["upgrade"]).0.contains("the level is 4"));
        let_it_write(&count);
        drop(over);
        writer.join().unwrap()
    });
    assert!(members.cluster(&["status"]).0.contains("\nlevel 4\n"));
    for address in members.clients.clone() {
        let mut client = Client::open(address, TIMEOUT_MS);
        assert!(word(address, "mntr").contains("zk_digest_mismatches_count\t0\n"));
        client.call(&Request::Sync { path: Some("/") });
        assert!(written.iter().all(|path| client.exists(path)), "{} were written", written.len());
    }
    an_older_build_is_refused(&mut members, OLDER);
    members.stop();
}

/// Fails unless an older build is refused, with a directory of the new level and with an empty one.
fn an_older_build_is_refused(members: &mut Members, older: Build) {
    let Build::Older(level) = older else { panic!("it is this build") };
    let old = (members.leader() + 1) % 3;
    members.stop_one(old);
    install(members, old, older, "");
    members.start(old);
    let status = members.wait_for_end(old);
    assert!(!status.success());
    let log = members.log(old);
    let said =
        format!("level 4, and this server knows up to {level}: install version 0.4.0 or later");
    assert!(log.contains(&said), "{log}");
    check_kept(members, old);

    // With an empty directory it would be a new member, but no ensemble accepts it.
    let kept: PathBuf = members.folder.join("kept");
    fs::rename(members.data(old), &kept).unwrap();
    fs::create_dir_all(members.data(old)).unwrap();
    fs::write(members.data(old).join("myid"), format!("{}\n", old + 1)).unwrap();
    members.start(old);
    let said = format!("is at {said}");
    wait_until("it is told what to install", || members.log(old).contains(&said));
    assert!(!word(members.clients[old], "srvr").contains("Mode: "));
    kill_process(members.pid(old), Signal::KILL).unwrap();
    members.wait_for_end(old);

    // The server gets its directory back, and the newer build.
    fs::remove_dir_all(members.data(old)).unwrap();
    fs::rename(&kept, members.data(old)).unwrap();
    install(members, old, Build::Newer, "");
    members.start(old);
    let address = members.clients[old];
    wait_until("it serves again", || word(address, "srvr").contains("Mode: "));
}

/// The hash of etcd's keys at their newest revision, and that revision.
fn hash_of_keys(etcd: SocketAddr) -> (u64, String) {
    let (status, body) = request(etcd, "POST /v3/maintenance/hashkv", "{}").unwrap();
    assert_eq!(status, 200, "{body}");
    let answer: serde_json::Value = serde_json::from_str(&body).unwrap();
    (answer["hash"].as_u64().unwrap(), answer["hash_revision"].as_str().unwrap().to_string())
}

#[test]
fn clients_of_etcd_are_served_once_the_last_server_is_upgraded() {
    let mut members = start_older("levels-etcd", 1);
    let etcd: [SocketAddr; 3] = free_addresses();
    let (is_over, count) = (AtomicBool::new(false), AtomicUsize::new(0));
    let clients = members.clients.clone();
    let mut refused = None;
    let written = thread::scope(|scope| {
        let over = Over(&is_over);
        let writer = scope.spawn(|| write(&clients, &is_over, &count));
        for place in 0..3 {
            let line = format!("quorate.etcdAddr={}\n", etcd[place]);
            replace(&mut members, place, Build::Newer, &line);
            let_it_write(&count);
            if place == 0 {
                refused = Some(call(etcd[0], "put", r#"{"key":"YQ==","value":"Yg=="}"#));
            }
        }
        // The first command of an etcd client raises the level, as far as all servers know it.
        wait_until("a client of etcd is served", || put(etcd[0], "first", "1"));
        for (number, address) in (0..300).zip(etcd.iter().cycle()) {
            assert!(put(*address, &format!("key{}", number % 50), &format!("value{number}")));
        }
        let_it_write(&count);
        drop(over);
        writer.join().unwrap()
    });
    let (status, body) = refused.unwrap();
    assert_eq!(status, 400, "{body}");
    assert!(body.contains("etcdserver: not capable"), "{body}");
    assert!(members.cluster(&["status"]).0.contains("\nlevel 4\n"));
    kill_process(members.pid(2), Signal::KILL).unwrap();
    members.wait_for_end(2);
    members.start(2);
    wait_until("it serves again", || put(etcd[2], "last", "1"));
    let hashes = || etcd.map(hash_of_keys);
    wait_until("all have the same keys", || hashes().iter().all(|hash| *hash == hashes()[0]));
    assert_eq!(get(etcd[2], "key49").as_deref(), Some("value299"));
    for address in members.clients.clone() {
        let mut client = Client::open(address, TIMEOUT_MS);
        client.call(&Request::Sync { path: Some("/") });
        assert!(written.iter().all(|path| client.exists(path)), "{} were written", written.len());
    }
    members.stop();
}

/// Sets a key of etcd v2. Returns the status and body of the answer.
fn set_v2(etcd: SocketAddr, key: &str, value: &str) -> (u16, String) {
    let line = format!("PUT /v2/keys/{key}?value={value}");
    request(etcd, &line, "").expect("the server answers")
}

#[test]
fn clients_of_etcd_v2_are_served_once_the_last_server_is_upgraded() {
    let mut members = start_older("levels-etcd-v2", 2);
    let etcd: [SocketAddr; 3] = free_addresses();
    for (place, address) in etcd.iter().enumerate() {
        let line = format!("quorate.etcdAddr={address}\n");
        replace(&mut members, place, Build::Older(2), &line);
    }
    wait_until("a client of etcd is served", || put(etcd[0], "first", "1"));
    for place in 0..3 {
        replace(&mut members, place, Build::Newer, "quorate.etcdEnableV2=true\n");
        for number in 0..250 {
            assert!(put(etcd[number % 3], &format!("key{}", number % 50), &format!("{number}")));
        }
        if place == 0 {
            let (status, body) = set_v2(etcd[0], "early", "1");
            assert_eq!(status, 500, "{body}");
            assert!(body.contains("etcdserver: not capable"), "{body}");
        }
    }
    wait_until("a client of etcd v2 is served", || set_v2(etcd[0], "first", "1").0 == 201);
    for (number, address) in (0..300).zip(etcd.iter().cycle()) {
        let (status, body) = set_v2(*address, &format!("key{}", number % 50), &number.to_string());
        assert!([200, 201].contains(&status), "{body}");
    }
    // Only the level that clients need is raised. So a server may still go back to a build that
    // knows that one.
    assert!(members.cluster(&["status"]).0.contains("\nlevel 3; all servers know level 4"));
    replace(&mut members, 0, Build::Older(3), "quorate.etcdEnableV2=true\n");
    wait_until("the older build serves", || put(etcd[0], "key49", "249"));
    assert_eq!(set_v2(etcd[0], "key49", "299").0, 200);
    // If the older build leads, it knows no higher level; otherwise the leader names that server as
    // the reason.
    members.cluster(&["upgrade"]);
    assert!(members.cluster(&["status"]).0.contains("\nlevel 3"));
    replace(&mut members, 0, Build::Newer, "quorate.etcdEnableV2=true\n");
    wait_until("the level rises", || members.cluster(&["upgrade"]).1);
    assert!(members.cluster(&["status"]).0.contains("\nlevel 4\n"));
    assert!(put(etcd[0], "key49", "249") && set_v2(etcd[1], "key49", "299").0 == 200);
    let last = |etcd| request(etcd, "GET /v2/keys/key49", "").expect("the server answers").1;
    wait_until("all have the same keys", || {
        etcd.iter().all(|address| last(*address).contains("\"value\":\"299\""))
    });
    let (status, _) = request(etcd[1], "GET /v2/keys/early", "").unwrap();
    assert_eq!(status, 404, "a refused write has no effect");
    let hashes = || etcd.map(hash_of_keys);
    wait_until("all have the same keys of v3", || hashes().iter().all(|it| *it == hashes()[0]));
    assert_eq!(get(etcd[2], "key49").as_deref(), Some("249"));
    for address in members.clients.clone() {
        assert!(word(address, "mntr").contains("zk_digest_mismatches_count\t0\n"));
    }
    an_older_build_is_refused(&mut members, Build::Older(3));
    members.stop();
}
