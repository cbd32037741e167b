use machine::{ServerRecord, ServerRole};

use super::*;

fn list(urls: [&str; 4]) -> ServerList {
    let record = |url: &str| ServerRecord {
        name: String::new(),
        role: ServerRole::Voter,
        peer_urls: Vec::new(),
        client_urls: url.split_whitespace().map(str::to_string).collect(),
        zk: None,
    };
    ServerList { version: 0, servers: (1..).zip(urls.map(record)).collect() }
}

/// The configuration of a server has the URLs of that server only, so others come from links or the
/// state.
#[test]
fn urls_for_clients_come_from_the_list_a_link_or_the_state() {
    let told = LinkedServer { client_urls: vec!["told".to_string()], ..LinkedServer::of(2) };
    let linked = BTreeMap::from([(MemberId(20), told), (MemberId(30), LinkedServer::of(3))]);
    let registered = list(["was", "was", "state", ""]);
    let own = || list(["own", "", "", ""]);
    let found = fill_in_urls(own(), &registered, &linked);
    assert_eq!(found, list(["own", "told", "state", ""]));
    let found = fill_in_urls(own(), &registered, &BTreeMap::new());
    assert_eq!(found, list(["own", "was", "state", ""]));
    let found = fill_in_urls(own(), &ServerList::default(), &BTreeMap::new());
    assert_eq!(found, own());
}
