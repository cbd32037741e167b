//! Tests what clients learn about the members, and how members begin a cluster or join one.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Etcd, Three, free_addresses, get, put, request, wait_ready};
use crate::server::{folder, wait_until};
use crate::tls::wire::fixture;

/// Calls the gateway, and returns the status and the JSON of the answer.
fn call(address: SocketAddr, path: &str, body: &str) -> (u16, Value) {
    let (status, text) = request(address, &format!("POST /v3/{path}"), body).expect("it answers");
    (status, serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}")))
}

#[test]
fn every_member_lists_all_with_names_ids_and_urls() {
    let mut three = Three::start("etcd-members");
    let names = |client| {
        let (_, list) = call(client, "cluster/member/list", r#"{"linearizable":true}"#);
        let members = list["members"].as_array().unwrap().clone();
        let shown = |it: &Value| {
            let url = it["clientURLs"][0].as_str().unwrap_or_default();
            format!("{} {url}", it["name"].as_str().unwrap_or_default())
        };
        members.iter().map(shown).collect::<Vec<_>>()
    };
    let [first, second, third] = three.clients;
    let expected = [("m0", first), ("m1", second), ("m2", third)]
        .map(|(of, url)| format!("{of} http://{url}"));
    // As in etcd, a member that has just started has no name yet.
    wait_until("all have started", || names(first) == expected);
    let mut lists = Vec::new();
    for client in three.clients {
        let (status, list) = call(client, "cluster/member/list", r#"{"linearizable":true}"#);
        assert_eq!(status, 200);
        assert!(list["header"].get("revision").is_none(), "{list}");
        let own = list["header"]["member_id"].clone();
        let members = list["members"].as_array().unwrap().clone();
        assert_eq!(names(client), expected);
        let of_own = members.iter().find(|it| it["ID"] == own).expect("it is among them");
        assert_eq!(of_own["clientURLs"][0], format!("http://{client}"));
        assert!(of_own["peerURLs"][0].as_str().unwrap().starts_with("http://127.0.0.1:"));
        lists.push(members.iter().map(|it| it["ID"].clone()).collect::<Vec<_>>());
    }
    assert!(lists.iter().all(|list| *list == lists[0]), "{lists:?}");
    let statuses = three.clients.map(|client| call(client, "maintenance/status", "{}").1);
    let leader = &statuses[0]["leader"];
    assert!(lists[0].contains(leader), "{leader}");
    for status in &statuses {
        assert_eq!((&status["version"], &status["leader"]), (&Value::from("3.6.16"), leader));
        assert_eq!(status["dbSizeQuota"], "2147483648");
        assert_eq!(status["dbSize"], "1", "nothing was written, and programs divide by it");
    }
    let index = |client| {
        let status = call(client, "maintenance/status", "{}").1;
        status["raftAppliedIndex"].as_str().unwrap().parse::<u64>().unwrap()
    };
    let before = index(three.clients[1]);
    assert!(put(three.clients[1], "key", "value"));
    assert!(index(three.clients[1]) > before);
    // A new leader, to which the lost one has told nothing, must still know that one's URL.
    three.end_leader();
    let left = || three.clients.iter().copied().find(|client| put(*client, "key", "other"));
    wait_until("there is a leader", || left().is_some());
    let left = left().unwrap();
    wait_until("the list is whole", || names(left) == expected);
}

/// The expected errors are those of etcd 3.6.16, and of a cluster that cannot change now.
#[test]
fn changes_of_the_members_are_refused() {
    let folder = folder("etcd-members-alone");
    let [client] = free_addresses::<1>();
    let url = format!("http://{client}");
    let flags = ["--name=a", "--listen-client-urls", &url, "--advertise-client-urls", &url];
    let member = Etcd::spawn(&folder, "a", &flags);
    wait_ready(&folder, "a");
    let (_, list) = call(client, "cluster/member/list", "{}");
    let own = list["members"][0]["ID"].as_str().unwrap().to_string();
    for (path, body, status, text) in [
        ("add", r#"{"peerURLs":["bad"]}"#, 400, "given member URLs are invalid"),
        ("add", r#"{"peerURLs":["http://localhost:2380"]}"#, 400, "Peer URLs already exists"),
        ("add", r#"{"peerURLs":["http://h:1"]}"#, 500, "not enough started members"),
        ("remove", r#"{"ID":"1"}"#, 404, "member not found"),
        ("remove", &format!("{{\"ID\":\"{own}\"}}"), 500, "not enough started members"),
        ("update", r#"{"ID":"1","peerURLs":["http://h:1"]}"#, 404, "member not found"),
        ("promote", &format!("{{\"ID\":\"{own}\"}}"), 400, "can only promote a learner member"),
    ] {
        let (found, answer) = call(client, &format!("cluster/member/{path}"), body);
        let message = answer["message"].as_str().unwrap();
        assert!(found == status && message.contains(text), "{path} {body}: {found} {answer}");
    }
    let (status, alarms) = call(client, "maintenance/alarm", "{}");
    assert!(status == 200 && alarms.get("alarms").is_none(), "{alarms}");
    drop(member);
    fs::remove_dir_all(folder).unwrap();
}

/// Members whose list etcd's clients change. Level 5, which such a change needs, is not released.
struct Changed {
    folder: PathBuf,
    clients: [SocketAddr; 3],
    peers: [SocketAddr; 3],
    members: [Option<Etcd>; 3],
}

impl Changed {
    fn prepare(name: &str) -> Changed {
        let (clients, peers) = (free_addresses::<3>(), free_addresses::<3>());
        Changed { folder: folder(name), clients, peers, members: [None, None, None] }
    }

    /// Starts a member with a list of these members.
    fn start(&mut self, number: usize, state: &str, listed: &[usize]) {
        self.start_with(number, state, listed, &[]);
    }

    /// Like [`Changed::start`], with additional flags.
    fn start_with(&mut self, number: usize, state: &str, listed: &[usize], more: &[&str]) {
        self.spawn(number, state, listed, more);
        wait_ready(&self.folder, &format!("m{number}"));
    }

    /// Like [`Changed::start_with`], but does not wait until the member serves.
    fn spawn(&mut self, number: usize, state: &str, listed: &[usize], more: &[&str]) {
        let (client, peer) = (self.clients[number], self.peers[number]);
        let list = listed.iter().map(|number| format!("m{number}=http://{}", self.peers[*number]));
        let name = format!("m{number}");
        let flags = [
            format!("--name={name}"),
            format!("--data-dir={name}"),
            format!("--listen-client-urls=http://{client}"),
            format!("--advertise-client-urls=http://{client}"),
            format!("--listen-peer-urls=http://{peer}"),
            format!("--initial-advertise-peer-urls=http://{peer}"),
            format!("--initial-cluster={}", list.collect::<Vec<_>>().join(",")),
            format!("--initial-cluster-state={state}"),
        ];
        let flags: Vec<&str> =
            flags.iter().map(String::as_str).chain(more.iter().copied()).collect();
        let level = [("QUORATE_LEVEL_MAX", "5")];
        self.members[number] = Some(Etcd::spawn_with(&self.folder, &name, &flags, &level));
    }

    /// Asks member `at` to add this member.
    fn add(&self, at: usize, number: usize) -> (u16, Value) {
        let body = format!(r#"{{"peerURLs":["http://{}"]}}"#, self.peers[number]);
        call(self.clients[at], "cluster/member/add", &body)
    }

    /// The ids that member `at` lists, by name.
    fn ids(&self, at: usize) -> BTreeMap<String, String> {
        let (_, list) = call(self.clients[at], "cluster/member/list", "{}");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
        let members = list["members"].as_array().unwrap().iter();
        members.map(|member| (text(&member["name"]), text(&member["ID"]))).collect()
    }

    /// Kills a member.
    fn kill(&mut self, number: usize) {
        let mut member = self.members[number].take().expect("it was started");
        member.0.kill().unwrap();
        member.0.wait().unwrap();
    }

    /// Asks member `at` to remove this member.
    fn remove(&self, at: usize, number: usize) -> (u16, Value) {
        let (_, list) = call(self.clients[at], "cluster/member/list", "{}");
        let name = format!("m{number}");
        let members = list["members"].as_array().unwrap();
        let own = members.iter().find(|it| it["name"] == name.as_str()).expect("it is listed");
        let body = format!(r#"{{"ID":{}}}"#, own["ID"]);
        call(self.clients[at], "cluster/member/remove", &body)
    }

    /// Waits until a removed member has ended by itself with status 0, as etcd's does.
    fn wait_for_end(&mut self, number: usize) {
        let member = self.members[number].as_mut().expect("it was started");
        let mut status = None;
        wait_until("it ends", || {
            status = member.0.try_wait().unwrap();
            status.is_some()
        });
        assert!(status.unwrap().success(), "{status:?}");
        let log = fs::read_to_string(self.folder.join(format!("m{number}.log"))).unwrap();
        assert!(log.contains("the member has been permanently removed from the cluster"), "{log}");
        self.members[number] = None;
    }
}

#[test]
fn one_member_becomes_three_and_one_again() {
    let mut changed = Changed::prepare("etcd-members-changed");
    changed.start(0, "new", &[0]);
    assert!(put(changed.clients[0], "key", "of one"));
    assert_eq!(changed.add(0, 1).0, 200);
    let (status, refused) = changed.add(0, 1);
    assert!(status == 400 && refused["message"] == "etcdserver: Peer URLs already exists");
    let (status, refused) = changed.add(0, 2);
    assert!(status == 500 && refused["message"].as_str().unwrap().contains("not enough started"));
    assert!(put(changed.clients[0], "key", "while one is not there"));
    changed.start(1, "existing", &[0, 1]);
    assert_eq!(changed.add(0, 2).0, 200);
    changed.start(2, "existing", &[0, 1, 2]);
    assert_eq!(get(changed.clients[2], "key").as_deref(), Some("while one is not there"));
    assert!(put(changed.clients[2], "key", "of three"));
    // The first member leaves, leads or not.
    assert_eq!(changed.remove(1, 0).0, 200);
    changed.wait_for_end(0);
    wait_until("the others go on", || put(changed.clients[2], "key", "of two"));
    assert_eq!(changed.remove(1, 2).0, 200);
    changed.wait_for_end(2);
    wait_until("the last one goes on", || put(changed.clients[1], "key", "of the last"));
    // Its command line still has the list that it began with.
    changed.members[1] = None;
    changed.start(1, "existing", &[0, 1]);
    assert_eq!(get(changed.clients[1], "key").as_deref(), Some("of the last"));
    changed.members[1] = None;
    fs::remove_dir_all(&changed.folder).unwrap();
}

/// Two of three members are lost for good. The third begins a new cluster alone, with its id and
/// its keys; new members are added, and one that comes back is refused.
#[test]
fn a_member_goes_on_alone_when_it_is_forced_to() {
    let mut changed = Changed::prepare("etcd-members-forced");
    changed.start(0, "new", &[0]);
    assert_eq!(changed.add(0, 1).0, 200);
    changed.start(1, "existing", &[0, 1]);
    assert_eq!(changed.add(0, 2).0, 200);
    changed.start(2, "existing", &[0, 1, 2]);
    assert!(put(changed.clients[2], "key", "of three"));
    assert!(put(changed.clients[2], "old", "and never put again"));
    let cluster_id = |changed: &Changed| {
        let (_, list) = call(changed.clients[0], "cluster/member/list", "{}");
        list["header"]["cluster_id"].clone()
    };
    let (own, before) = (changed.ids(0)["m0"].clone(), cluster_id(&changed));
    (0..3).for_each(|number| changed.kill(number));
    changed.start_with(0, "new", &[0, 1, 2], &["--force-new-cluster"]);
    let expected = [("m0".to_string(), own)].into();
    wait_until("it is the only one", || changed.ids(0) == expected);
    assert_ne!(cluster_id(&changed), before);
    assert_eq!(get(changed.clients[0], "key").as_deref(), Some("of three"));
    assert!(put(changed.clients[0], "key", "of one"));
    let kept = changed.folder.join("m0").join("set-aside-1");
    assert!(kept.join("identity").is_file() && kept.join("wal").is_dir());

    // A second start with the flag changes nothing.
    changed.members[0] = None;
    changed.start_with(0, "new", &[0, 1, 2], &["--force-new-cluster"]);
    assert_eq!(get(changed.clients[0], "key").as_deref(), Some("of one"));
    assert!(!changed.folder.join("m0").join("set-aside-2").exists());

    // The lost member comes back with its old directory, and is refused.
    assert_eq!(changed.add(0, 1).0, 200);
    changed.spawn(1, "existing", &[0, 1], &[]);
    let log = || fs::read_to_string(changed.folder.join("m0.log")).unwrap();
    wait_until("it is refused", || log().contains("it is refused: server 2"));
    changed.members[1] = None;
    assert!(put(changed.clients[0], "key", "of one again"));
    fs::remove_dir_all(changed.folder.join("m1")).unwrap();
    changed.start(1, "existing", &[0, 1]);
    assert_eq!(get(changed.clients[1], "key").as_deref(), Some("of one again"));
    assert_eq!(get(changed.clients[1], "old").as_deref(), Some("and never put again"));
    changed.members = [None, None, None];
    fs::remove_dir_all(&changed.folder).unwrap();
}

/// Starts three members whose URLs for each other begin with https, with these additional flags.
/// Returns their addresses for clients, their addresses for each other, and the members.
pub fn start_over_tls(
    folder: &Path,
    more: &[String],
) -> ([SocketAddr; 3], [SocketAddr; 3], Vec<Etcd>) {
    let (clients, peers) = (free_addresses::<3>(), free_addresses::<3>());
    let list: Vec<String> = peers
        .iter()
        .enumerate()
        .map(|(number, peer)| format!("m{number}=https://{peer}"))
        .collect();
    let start = |number: usize| {
        let (client, peer) = (clients[number], peers[number]);
        let flags = [
            format!("--name=m{number}"),
            format!("--data-dir=m{number}"),
            format!("--listen-client-urls=http://{client}"),
            format!("--advertise-client-urls=http://{client}"),
            format!("--listen-peer-urls=https://{peer}"),
            format!("--initial-advertise-peer-urls=https://{peer}"),
            format!("--initial-cluster={}", list.join(",")),
        ];
        let flags: Vec<&str> = flags.iter().chain(more).map(String::as_str).collect();
        Etcd::spawn(folder, &format!("m{number}"), &flags)
    };
    (clients, peers, (0..3).map(start).collect())
}

fn assert_serve_over_tls(name: &str, more: &[String]) {
    let folder = folder(name);
    let (clients, peers, members) = start_over_tls(&folder, more);
    (0..3).for_each(|number| wait_ready(&folder, &format!("m{number}")));
    assert!(put(clients[0], "key", "value"));
    wait_until("the others have it", || get(clients[2], "key").as_deref() == Some("value"));
    assert!(std::net::TcpStream::connect(peers[1]).is_ok(), "it listens on its peer URL");
    drop(members);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn members_that_make_their_certificates_themselves_find_each_other() {
    assert_serve_over_tls("etcd-members-auto-tls", &["--peer-auto-tls".to_string()]);
}

#[test]
fn members_with_certificates_of_an_authority_find_each_other() {
    let flags = [
        format!("--peer-cert-file={}", fixture("server.pem")),
        format!("--peer-key-file={}", fixture("server.pem")),
        format!("--peer-trusted-ca-file={}", fixture("ca.pem")),
        "--peer-client-cert-auth".to_string(),
    ];
    assert_serve_over_tls("etcd-members-tls", &flags);
}

/// As in etcd, any majority of the members can begin a cluster whose state is `new`.
#[test]
fn any_two_of_three_begin_a_cluster_and_the_third_joins_it() {
    for third in 0..3 {
        let name = format!("etcd-members-two-of-three-{third}");
        let others = [0, 1, 2].into_iter().filter(|number| *number != third);
        let mut three = Three::start_some(&name, &[], &others.clone().collect::<Vec<_>>());
        let first = others.clone().next().unwrap();
        assert!(put(three.clients[first], "key", "value"));
        three.restart(third);
        let has_joined = || get(three.clients[third], "key").as_deref() == Some("value");
        wait_until("it has the data", has_joined);
        // Before that a placeholder had the third member's vote.
        let has_its_vote = |client| {
            let (_, page) = request(client, "GET /metrics", "").unwrap();
            !page.contains("Remote=\"ffffffff") && page.contains("etcd_server_is_learner 0\n")
        };
        wait_until("it has its vote", || three.clients.into_iter().all(has_its_vote));
        three.end(first);
        wait_until("the others go on", || put(three.clients[third], "key", "other"));
    }
}

/// With `--initial-cluster-state=existing`, a member without data joins a running ensemble but does
/// not begin one. Like etcd's, it ends with an error if it reaches no member.
#[test]
fn a_member_of_an_existing_cluster_joins_it_or_ends() {
    let mut three = Three::start("etcd-members-existing");
    let [client, other, _] = three.clients;
    assert!(put(client, "key", "value"));
    three.end(0);
    fs::remove_dir_all(three.folder.join("m0")).unwrap();
    three.flags.push("--initial-cluster-state=existing".to_string());
    three.restart(0);
    assert!(put(other, "key", "other"));
    assert_eq!(get(client, "key").as_deref(), Some("other"));
    // Once a member has begun, the flag has no effect: it waits for the others like any member.
    (0..3).for_each(|number| three.end(number));
    (0..3).for_each(|number| three.begin(number));
    (0..3).for_each(|number| three.wait_ready(number));
    assert_eq!(get(client, "key").as_deref(), Some("other"));
    // All members are stopped, and their data is deleted.
    (0..3).for_each(|number| three.end(number));
    (0..3).for_each(|number| fs::remove_dir_all(three.folder.join(format!("m{number}"))).unwrap());
    let mut ended = [0, 1].map(|number| three.spawn(number));
    for (number, member) in ended.iter_mut().enumerate() {
        let status = member.0.wait().unwrap();
        let log = three.log(number);
        let text = "could not retrieve cluster information from the given URLs";
        assert!(status.code() == Some(1) && log.contains(text), "{status}: {log}");
        assert!(!three.folder.join(format!("m{number}/identity")).exists());
    }
}

/// Flags that matter only at a first start, and that do not fit the data. They are ignored, as in
/// etcd.
#[test]
fn a_member_that_has_begun_knows_its_ensemble_whatever_the_flags_say() {
    let mut three = Three::start("etcd-members-other-flags");
    let [client, other, _] = three.clients;
    assert!(put(client, "key", "value"));
    three.end(0);
    let (urls, peer) = (format!("http://{client}"), format!("http://{}", three.peers[0].1));
    let flags = [
        "--data-dir=m0",
        "--name=new",
        "--initial-cluster=new=http://127.0.0.1:1",
        "--initial-cluster-token=other",
        "--discovery-srv=nowhere.invalid",
        "--listen-peer-urls",
        &peer,
        "--listen-client-urls",
        &urls,
        "--advertise-client-urls",
        &urls,
    ];
    three.members[0] = Some(Etcd::spawn(&three.folder, "m0", &flags));
    three.wait_ready(0);
    assert!(put(other, "key", "other"));
    assert_eq!(get(client, "key").as_deref(), Some("other"));
    let log = three.log(0);
    for flag in ["initial-cluster", "initial-cluster-token", "discovery-srv"] {
        let warning = format!("--{flag}: is ignored: the data directory says");
        assert!(log.contains(&warning), "{warning}: {log}");
    }
    // A standalone server stays one.
    let folder = folder("etcd-members-alone-other-flags");
    let [client] = free_addresses::<1>();
    let url = format!("http://{client}");
    let urls = ["--data-dir=d", "--listen-client-urls", &url, "--advertise-client-urls", &url];
    let member = Etcd::spawn(&folder, "a", &urls);
    wait_ready(&folder, "a");
    assert!(put(client, "key", "value"));
    drop(member);
    let list = "--initial-cluster=a=http://127.0.0.1:1,b=http://127.0.0.1:2,c=http://127.0.0.1:3";
    let member = Etcd::spawn(&folder, "b", &[&urls[..], &["--name=a", list]].concat());
    wait_ready(&folder, "b");
    assert_eq!(get(client, "key").as_deref(), Some("value"));
    drop(member);
    fs::remove_dir_all(folder).unwrap();
}
