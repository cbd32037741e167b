//! Members of two builds in one ensemble: an upgrade of one server at a time under load, the way
//! back, and the raise of the level, after which an older build is refused.
//!
//! The newer build is this one, the older build is this one without level 2: they know ranges of
//! levels that differ, as two releases do.

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
use crate::server::wait_until;

const TIMEOUT_MS: i32 = 10_000;

/// The additional configuration of an older build.
const OLDER: &str = "quorate.levelMax=1\n";

/// Makes a server the newer build, or the older one, from its next start on.
fn install(members: &Members, place: usize, is_newer: bool) {
    let file = members.folder.join((place + 1).to_string()).join("zoo.cfg");
    let config = fs::read_to_string(&file).unwrap().replace(OLDER, "");
    let more = if is_newer { "" } else { OLDER };
    fs::write(&file, config + more).unwrap();
}

/// Stops a server and starts it as the other build, while the others serve.
fn replace(members: &mut Members, place: usize, is_newer: bool) {
    members.stop_one(place);
    install(members, place, is_newer);
    members.start(place);
    let address = members.clients[place];
    wait_until("it serves again", || word(address, "srvr").contains("Mode: "));
}

/// Checks that a server has kept its directory: nothing was set aside.
fn check_kept(members: &Members, place: usize) {
    let names = fs::read_dir(members.data(place)).unwrap().map(|it| it.unwrap().file_name());
    let names: BTreeSet<String> = names.map(|it| it.into_string().unwrap()).collect();
    assert!(names.contains("identity"), "{names:?}");
    assert!(names.iter().all(|name| !name.starts_with("set-aside")), "{names:?}");
}

/// Creates znodes until it is told to stop, with any server that takes them. Returns the
/// acknowledged paths.
fn write(clients: &[SocketAddr], is_over: &AtomicBool, count: &AtomicUsize) -> Vec<String> {
    // The data is so large that the leader's memory does not hold the whole log.
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

/// Waits until the writer has written some more.
fn let_it_write(count: &AtomicUsize) {
    let before = count.load(Ordering::Acquire);
    wait_until("something is written", || count.load(Ordering::Acquire) > before + 20);
}

/// Empties the directory of a server, which comes back with another server's snapshot.
fn refill(members: &mut Members, place: usize) {
    members.stop_one(place);
    let data = members.data(place);
    fs::remove_dir_all(&data).unwrap();
    fs::create_dir_all(&data).unwrap();
    fs::write(data.join("myid"), format!("{}\n", place + 1)).unwrap();
    members.start(place);
    let address = members.clients[place];
    wait_until("it serves again", || word(address, "srvr").contains("Mode: "));
    assert!(members.log(place).contains("it fetches the snapshot at log index"));
}

#[test]
fn servers_are_upgraded_one_at_a_time_and_back_until_the_level_is_raised() {
    let mut members = Members::prepare("levels", &format!("snapCount=200\n{OLDER}"));
    (0..3).for_each(|place| members.start(place));
    members.leader();
    let (is_over, count) = (AtomicBool::new(false), AtomicUsize::new(0));
    let clients = members.clients.clone();
    let written = thread::scope(|scope| {
        let writer = scope.spawn(|| write(&clients, &is_over, &count));
        for (place, is_newer) in [(0, true), (1, true), (1, false), (1, true), (2, true)] {
            let (said, is_done) = members.cluster(&["upgrade"]);
            // The older build knows no level to raise to.
            let is_refused = !is_done && said.contains("install version 0.2.0 or later there");
            assert!(is_refused || said.contains("the level is 1"), "{said}");
            replace(&mut members, place, is_newer);
            let_it_write(&count);
            // The sender and the receiver of the snapshot are of two builds, both ways round.
            if (place, is_newer) == (0, true) {
                let before = count.load(Ordering::Acquire);
                wait_until("the log is long", || count.load(Ordering::Acquire) > before + 300);
                refill(&mut members, 0);
                refill(&mut members, 1);
            }
        }
        wait_until("all three are there, and the level rises", || {
            let (said, is_done) = members.cluster(&["upgrade"]);
            is_done && said == "the level rose from 1 to 2\n"
        });
        assert!(members.cluster(&["upgrade"]).0.contains("the level is 2"));
        let_it_write(&count);
        is_over.store(true, Ordering::Release);
        writer.join().unwrap()
    });
    assert!(members.cluster(&["status"]).0.contains("\nlevel 2\n"));
    for address in members.clients.clone() {
        let mut client = Client::open(address, TIMEOUT_MS);
        assert!(word(address, "mntr").contains("zk_digest_mismatches_count\t0\n"));
        client.call(&Request::Sync { path: Some("/") });
        assert!(written.iter().all(|path| client.exists(path)), "{} were written", written.len());
    }
    an_older_build_is_refused(&mut members);
    members.stop();
}

/// Checks that an older build is refused: with a directory that has the new level, and with an
/// empty one.
fn an_older_build_is_refused(members: &mut Members) {
    let old = (members.leader() + 1) % 3;
    members.stop_one(old);
    install(members, old, false);
    members.start(old);
    let status = members.wait_for_end(old);
    assert!(!status.success());
    let log = members.log(old);
    let said = "level 2, and this server knows up to 1: install version 0.2.0 or later";
    assert!(log.contains(said), "{log}");
    check_kept(members, old);

    // With an empty directory it is a new member, which nobody takes in.
    let kept: PathBuf = members.folder.join("kept");
    fs::rename(members.data(old), &kept).unwrap();
    fs::create_dir_all(members.data(old)).unwrap();
    fs::write(members.data(old).join("myid"), format!("{}\n", old + 1)).unwrap();
    members.start(old);
    wait_until("it is told what to install", || {
        let log = members.log(old);
        log.contains("is at level 2, and this server knows up to 1: install version 0.2.0")
    });
    assert!(!word(members.clients[old], "srvr").contains("Mode: "));
    kill_process(members.pid(old), Signal::KILL).unwrap();
    members.wait_for_end(old);

    // The server is as it was before, and of the newer build.
    fs::remove_dir_all(members.data(old)).unwrap();
    fs::rename(&kept, members.data(old)).unwrap();
    install(members, old, true);
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
    let mut members = Members::prepare("levels-etcd", &format!("snapCount=200\n{OLDER}"));
    (0..3).for_each(|place| members.start(place));
    members.leader();
    let etcd: [SocketAddr; 3] = free_addresses();
    let (is_over, count) = (AtomicBool::new(false), AtomicUsize::new(0));
    let clients = members.clients.clone();
    let mut refused = None;
    let written = thread::scope(|scope| {
        let writer = scope.spawn(|| write(&clients, &is_over, &count));
        for place in 0..3 {
            let file = members.folder.join((place + 1).to_string()).join("zoo.cfg");
            let config = fs::read_to_string(&file).unwrap();
            fs::write(&file, format!("{config}quorate.etcdAddr={}\n", etcd[place])).unwrap();
            replace(&mut members, place, true);
            let_it_write(&count);
            if place == 0 {
                refused = Some(call(etcd[0], "put", r#"{"key":"YQ==","value":"Yg=="}"#));
            }
        }
        // The first command raises the level.
        wait_until("a client of etcd is served", || put(etcd[0], "first", "1"));
        for (number, address) in (0..300).zip(etcd.iter().cycle()) {
            assert!(put(*address, &format!("key{}", number % 50), &format!("value{number}")));
        }
        let_it_write(&count);
        is_over.store(true, Ordering::Release);
        writer.join().unwrap()
    });
    let (status, body) = refused.unwrap();
    assert_eq!(status, 400, "{body}");
    assert!(body.contains("etcdserver: not capable"), "{body}");
    assert!(members.cluster(&["status"]).0.contains("\nlevel 2\n"));
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
