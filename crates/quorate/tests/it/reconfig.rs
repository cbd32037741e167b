//! Real servers whose list ZooKeeper's clients change while they run: servers leave and come back,
//! move to other ports, and lose their files or not. Level 5, which such a change needs, is not
//! released.

use std::fs;
use std::net::SocketAddr;

use zk::ErrorCode;
use zk::request::Request;

use crate::client::Client;
use crate::ensemble::{Members, open, word};
use crate::server::{port_of_its_own, wait_until};

const LINES: &str =
    "reconfigEnabled=true\nquorate.levelMax=5\nstandaloneEnabled=false\nskipACL=yes\n";

/// Asks for a change. Returns the new list, or the error.
fn reconfig(
    client: &mut Client,
    joining: Option<&str>,
    leaving: Option<&str>,
) -> Result<String, ErrorCode> {
    let answer = client.call(&Request::Reconfig { joining, leaving, members: None, version: -1 });
    match answer.header.error {
        ErrorCode::OK => Ok(String::from_utf8(answer.data().unwrap_or_default()).unwrap()),
        error => Err(error),
    }
}

/// The line of a server, with these ports for servers and for clients.
fn line(members: &Members, place: usize, peer: u16, client: u16) -> String {
    let election = members.clients[place].port() + 1_707;
    format!("server.{}=localhost:{peer}:{election}:participant;127.0.0.1:{client}", place + 1)
}

/// Three servers that run, and whose list may be changed.
fn started(name: &str) -> Members {
    let mut members = Members::prepare(name, LINES);
    (0..3).for_each(|place| members.start(place));
    members.leader();
    // The first one may come before the level is high enough, and then waits for that.
    let first = reconfig(&mut open(members.clients[0]), None, Some("9"));
    assert_ne!(first, Err(ErrorCode::UNIMPLEMENTED));
    members
}

fn numbers(list: &str) -> Vec<&str> {
    let servers = list.lines().filter_map(|line| line.strip_prefix("server."));
    servers.filter_map(|server| server.split('=').next()).collect()
}

fn mode_of(address: SocketAddr) -> String {
    let said = word(address, "srvr");
    let mode = said.lines().find_map(|line| line.strip_prefix("Mode: "));
    mode.unwrap_or_default().to_string()
}

#[test]
fn three_servers_become_one_and_three_again() {
    let mut members = started("reconfig-one");
    members.make_leader(0);
    let mut client = open(members.clients[0]);
    let mut guest = open(members.clients[2]);
    assert_eq!(numbers(&reconfig(&mut client, None, Some("3")).unwrap()), ["1", "2"]);
    assert_eq!(numbers(&reconfig(&mut client, None, Some("2")).unwrap()), ["1"]);
    assert_eq!(reconfig(&mut client, None, Some("1")), Err(ErrorCode::BAD_ARGUMENTS));
    // A removed server serves until it is stopped.
    assert_eq!(guest.create("/a", b"of a guest", 0).as_deref(), Ok("/a"));
    assert_eq!(mode_of(members.clients[2]), "follower");
    assert!(open(members.clients[1]).exists("/a"));
    // Its file is not changed, as the others' are, and it says so.
    let warning = "differs from theirs, and has no effect";
    wait_until("it warns", || members.log(2).contains(warning));
    assert!(!members.log(0).contains(warning));
    // The file of the server that is left names it alone.
    let own = fs::read_to_string(members.folder.join("1/zoo.cfg")).unwrap();
    assert!(own.contains("dynamicConfigFile=") && !own.contains("server.2="), "{own}");
    members.kill_nine(1);
    members.kill_nine(0);
    members.start(0);
    let mut client = open(members.clients[0]);
    assert_eq!(client.get("/a").as_deref(), Ok(&b"of a guest"[..]));
    // Server 3 is a guest still. Server 2 does not run, so it can only be the third.
    for place in [2, 1] {
        let port = members.clients[place].port();
        let joining = line(&members, place, port + 707, port);
        reconfig(&mut client, Some(&joining), None).unwrap();
    }
    members.start(1);
    for place in [1, 2] {
        wait_until("it follows", || mode_of(members.clients[place]) == "follower");
        assert_eq!(open(members.clients[place]).get("/a").as_deref(), Ok(&b"of a guest"[..]));
    }
    wait_until("all vote", || {
        word(members.clients[0], "mntr").lines().any(|line| line == "zk_quorum_size\t3")
    });
    members.kill_nine(0);
    let left = members.leader_if(|place| place != 0);
    assert_eq!(open(members.clients[left]).create("/b", b"", 0).as_deref(), Ok("/b"));
    members.stop();
}

#[test]
fn servers_move_to_other_ports_and_a_removed_leader_hands_over() {
    let mut members = started("reconfig-ports");
    let leader = members.leader();
    let (moved, other) = ((leader + 1) % 3, (leader + 2) % 3);
    let mut kept = open(members.clients[moved]);
    let (peer, clients) = (port_of_its_own(), port_of_its_own());
    let joining = line(&members, moved, peer, clients);
    let list = reconfig(&mut open(members.clients[other]), Some(&joining), None).unwrap();
    assert!(list.contains(&format!("localhost:{peer}:")), "{list}");
    assert_eq!(kept.create("/kept", b"", 0).as_deref(), Ok("/kept"));
    wait_until("it listens at the new port", || {
        std::net::TcpStream::connect(("localhost", peer)).is_ok()
    });
    // The next start finds the new ports in the dynamic file or, if that was not written yet, in
    // the state.
    members.kill_nine(moved);
    members.start(moved);
    members.clients[moved] = SocketAddr::from(([127, 0, 0, 1], clients));
    assert!(open(members.clients[moved]).exists("/kept"));
    // Its own client asks the leader to leave.
    let leader = members.leader();
    let mut of_leader = open(members.clients[leader]);
    let left = reconfig(&mut of_leader, None, Some(&(leader + 1).to_string())).unwrap();
    assert_eq!(numbers(&left).len(), 2);
    let next = members.leader_if(|place| place != leader);
    assert_eq!(open(members.clients[next]).create("/next", b"", 0).as_deref(), Ok("/next"));
    wait_until("the removed server has it", || of_leader.exists("/next"));
    members.stop();
}

#[test]
fn a_removed_server_that_comes_back_late_gets_the_data_anew() {
    let mut members = started("reconfig-back");
    members.make_leader(0);
    let mut client = open(members.clients[0]);
    members.kill_nine(2);
    reconfig(&mut client, None, Some("3")).unwrap();
    assert_eq!(client.create("/later", b"", 0).as_deref(), Ok("/later"));
    // If it comes back soon, it serves.
    members.start(2);
    assert!(open(members.clients[2]).exists("/later"));
    members.kill_nine(2);
    // Until its member is forgotten, `status` shows it.
    wait_until("it is gone for good", || {
        let (said, _) = members.cluster(&["status"]);
        let has = |number: &str| said.lines().any(|line| line.starts_with(number));
        has("2 ") && !has("3 ")
    });
    // Now it is another member, with its old data set aside.
    members.start(2);
    assert!(open(members.clients[2]).exists("/later"));
    assert!(members.data(2).join("set-aside-1").exists());
    let port = members.clients[2].port();
    let joining = line(&members, 2, port + 707, port);
    assert_eq!(numbers(&reconfig(&mut client, Some(&joining), None).unwrap()), ["1", "2", "3"]);
    members.stop();
}

#[test]
fn a_new_server_has_the_data_before_it_is_listed_and_then_replaces_all() {
    let mut members = Members::prepare("reconfig-guest", LINES);
    let all = members.listed(0);
    for place in [0, 1] {
        members.list(place, &all[..2]);
        members.start(place);
    }
    wait_until("there is a leader", || !mode_of(members.clients[0]).is_empty());
    let mut client = open(members.clients[0]);
    wait_until("a reconfig is answered", || {
        reconfig(&mut client, None, Some("9")) != Err(ErrorCode::UNIMPLEMENTED)
    });
    assert_eq!(client.create("/before", b"", 0).as_deref(), Ok("/before"));
    members.start(2);
    let mut guest = open(members.clients[2]);
    assert!(guest.exists("/before"));
    assert_eq!(guest.create("/guest", b"", 0).as_deref(), Ok("/guest"));
    let list = String::from_utf8(guest.get("/zookeeper/config").unwrap()).unwrap();
    assert_eq!(numbers(&list), ["1", "2"]);
    let port = members.clients[2].port();
    let joining = line(&members, 2, port + 707, port);
    let list = reconfig(&mut client, Some(&joining), Some("1,2")).unwrap();
    assert_eq!(numbers(&list), ["3"]);
    members.kill_nine(0);
    members.kill_nine(1);
    wait_until("it leads", || mode_of(members.clients[2]) == "leader");
    assert_eq!(guest.create("/alone", b"", 0).as_deref(), Ok("/alone"));
    members.stop();
}

/// Adds a server as the operators of Kubernetes do: lists it as an observer, starts it with that
/// list, and makes it a participant once it serves.
fn grow(members: &mut Members, place: usize, all: &[String]) {
    let port = members.clients[place].port();
    let joining = line(members, place, port + 707, port);
    let observer = joining.replace(":participant", ":observer");
    let mut client = open(members.clients[0]);
    let mut listed = all[..place].to_vec();
    listed.push(observer.clone());
    members.list(place, &listed);
    reconfig(&mut client, Some(&observer), None).unwrap();
    members.start(place);
    open(members.clients[place]);
    wait_until("it gets its vote", || reconfig(&mut client, Some(&joining), None).is_ok());
}

#[test]
fn one_server_grows_by_observers_and_all_start_again_from_what_they_wrote() {
    let mut members = Members::prepare("reconfig-grows", LINES);
    let all = members.listed(0);
    members.list(0, &all[..1]);
    members.start(0);
    assert_eq!(open(members.clients[0]).create("/one", b"", 0).as_deref(), Ok("/one"));
    grow(&mut members, 1, &all);
    grow(&mut members, 2, &all);
    // Directories that are kept do not hinder servers that are removed and added again.
    let mut client = open(members.clients[0]);
    for place in [2, 1] {
        reconfig(&mut client, None, Some(&(place + 1).to_string())).unwrap();
        members.stop_one(place);
    }
    assert_eq!(client.create("/alone", b"", 0).as_deref(), Ok("/alone"));
    grow(&mut members, 1, &all);
    grow(&mut members, 2, &all);
    // The first server began alone, and one is an observer now: all files name it so.
    let port = members.clients[2].port();
    let observer = line(&members, 2, port + 707, port).replace(":participant", ":observer");
    reconfig(&mut client, Some(&observer), None).unwrap();
    wait_until("the files are written", || {
        let is_written = |place: usize| {
            let files = fs::read_dir(members.folder.join((place + 1).to_string())).unwrap();
            let mut files = files.map(|file| file.unwrap().path());
            files.any(|file| fs::read_to_string(file).is_ok_and(|it| it.contains(":observer")))
        };
        (0..3).all(is_written)
    });
    (0..3).for_each(|place| members.kill_nine(place));
    (0..3).for_each(|place| members.start(place));
    members.leader();
    assert!(open(members.clients[2]).exists("/alone"));
    assert_eq!(mode_of(members.clients[2]), "observer");
    assert_eq!(open(members.clients[0]).create("/again", b"", 0).as_deref(), Ok("/again"));
    members.stop();
}
