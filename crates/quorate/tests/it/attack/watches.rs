//! Attacks with ZooKeeper connections that have a great many watches. A single request sets them,
//! and they vanish with the connection.

use std::time::Instant;

use zk::ErrorCode;
use zk::request::{Request, SetWatchesRequest, XID_SET_WATCHES};

use super::rig::{Attack, MIB};
use crate::client::{Client, TIMEOUT_MS};
use crate::ensemble::word;
use crate::server::wait_until;
use bench::differential::wire::Received;

const CONNECTION_COUNT: usize = 40;

/// How many paths a request has; together they are just below `jute.maxbuffer`, 1 MB.
const PATH_COUNT: usize = 69_000;

/// How many watches the server has.
fn watch_count(attack: &Attack) -> usize {
    let shown = word(attack.server.address(), "mntr");
    let line = shown.lines().find_map(|line| line.strip_prefix("zk_watch_count\t"));
    line.expect(&shown).parse().unwrap()
}

#[test]
fn sets_of_watches_come_and_go_while_others_are_served() {
    let attack = Attack::prepare("watches", &["4lw.commands.whitelist=*"], 0);
    let begun_at = Instant::now();
    let mut clients = Vec::new();
    for number in 0..CONNECTION_COUNT {
        let paths: Vec<String> =
            (0..PATH_COUNT).map(|path| format!("/w{number:02}-{path:06}")).collect();
        let exist = paths.iter().map(String::as_str).collect();
        let watches = SetWatchesRequest { exist, ..SetWatchesRequest::default() };
        let mut bytes = Vec::new();
        Request::SetWatches(watches).encode(XID_SET_WATCHES, &mut bytes);
        assert!((950_000..1_048_575).contains(&bytes.len()), "{}", bytes.len());
        let mut client = Client::open(attack.server.address(), TIMEOUT_MS);
        client.connection.send(&bytes);
        clients.push(client);
    }
    for client in &mut clients {
        let answer = client.receive().expect("the connection lives");
        assert_eq!((answer.header.xid, answer.header.error), (XID_SET_WATCHES, ErrorCode::OK));
    }
    println!("the watches were set after {:?}", begun_at.elapsed());
    assert_eq!(watch_count(&attack), CONNECTION_COUNT * PATH_COUNT);
    // A watch that was set in this way works.
    let mut writer = Client::open(attack.server.address(), TIMEOUT_MS);
    assert!(writer.create("/w07-000123", b"", 0).is_ok());
    let Received::Frame(event) = clients[7].connection.receive() else { panic!("no event") };
    assert!(event.ends_with(b"/w07-000123"));
    let begun_at = Instant::now();
    drop(clients);
    wait_until("the watches are gone", || watch_count(&attack) == 0);
    println!("the watches were gone after {:?}", begun_at.elapsed());
    attack.end(700 * MIB);
}
