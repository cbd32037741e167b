use super::*;
use crate::codec::Reader;

fn server(role: ServerRole) -> ServerRecord {
    ServerRecord {
        name: "one".to_string(),
        role,
        peer_urls: vec!["http://a:2888".to_string(), "http://b:2888".to_string()],
        client_urls: vec!["http://a:2379".to_string()],
        zk: Some(ZkAddresses {
            servers: "a:2888:3888".to_string(),
            clients: Some("0.0.0.0:2181".to_string()),
        }),
    }
}

fn list(numbers: &[u64]) -> ServerList {
    let servers = numbers.iter().map(|number| (*number, server(ServerRole::Voter)));
    ServerList { version: 3, servers: servers.collect() }
}

fn encoded(servers: &Servers) -> Vec<u8> {
    let mut bytes = Vec::new();
    servers.encode(&mut bytes);
    bytes
}

fn decoded(bytes: &[u8]) -> Result<Servers, DecodeError> {
    let mut reader = Reader::new(bytes);
    let servers = Servers::decode(Level::FIRST, &mut reader)?;
    reader.finish().map(|()| servers)
}

/// A list of servers in which each field has every form that it can have.
fn servers() -> Servers {
    let mut servers = Servers::default();
    let mut list = list(&[1, 2]);
    let nothing = ServerRecord {
        name: String::new(),
        role: ServerRole::Observer,
        peer_urls: Vec::new(),
        client_urls: Vec::new(),
        zk: None,
    };
    list.servers.insert(3, nothing);
    let mut learner = server(ServerRole::Learner);
    learner.zk = Some(ZkAddresses { servers: "[::1]:1:2".to_string(), clients: None });
    list.servers.insert(9, learner);
    servers.set(list, MemberId(77), Ordinal(5));
    servers.register(MemberId(77), 1);
    servers.register(MemberId(78), 2);
    servers
}

#[test]
fn records_are_read_back() {
    for servers in [Servers::default(), servers()] {
        assert_eq!(decoded(&encoded(&servers)), Ok(servers));
    }
}

#[test]
fn records_cut_anywhere_or_with_more_behind_them_are_refused() {
    let bytes = encoded(&servers());
    for cut in 0..bytes.len() {
        assert!(decoded(&bytes[..cut]).is_err(), "{cut} bytes");
    }
    assert!(decoded(&[&bytes[..], &[0]].concat()).is_err());
}

/// Checks that decoding fails with the name of this field if one byte is changed.
fn check(position: usize, value: u8, expected: &str) {
    let mut bytes = encoded(&servers());
    bytes[position] = value;
    match decoded(&bytes) {
        Err(DecodeError::Bad { what, .. }) => assert_eq!(what, expected),
        other => unreachable!("{other:?} is not about {expected}"),
    }
}

#[test]
fn bad_records_are_refused() {
    let bytes = encoded(&servers());
    let first = 8 + 4;
    // Give the second server the number of the first one.
    let second = (first + 8..).find(|at| bytes[*at..].starts_with(&2u64.to_le_bytes())).unwrap();
    check(second, 1, "number of a server");
    check(first + 8, 3, "role of a server");
    check(11, 1, "server count");
    let text = first + 9;
    check(text + 4 + 3 + 1, 1, "count of a server's URLs");
    let members = bytes.len() - 2 * 16;
    let ids = members - 4 - 4 * 8;
    let mut twice = bytes.clone();
    twice.copy_within(ids..ids + 8, ids + 8);
    assert!(matches!(decoded(&twice), Err(DecodeError::Bad { what: "id of a server", .. })));
    let mut nobody = bytes.clone();
    nobody[ids..ids + 8].fill(0);
    assert!(matches!(decoded(&nobody), Err(DecodeError::Bad { what: "id of a server", .. })));
    check(members, 78, "member");
    check(members - 1, 1, "member count");
}

#[test]
fn texts_longer_than_the_bound_are_refused() {
    for (bytes, is_good) in [(SERVER_TEXT_BYTES_MAX, true), (SERVER_TEXT_BYTES_MAX + 1, false)] {
        let mut encoded = Vec::new();
        encoded.put_bytes("x".repeat(bytes).as_bytes());
        assert_eq!(text(&mut Reader::new(&encoded)).is_ok(), is_good);
    }
}

#[test]
fn a_server_keeps_its_id_while_it_is_in_the_list() {
    let mut servers = Servers::default();
    servers.set(list(&[1, 2]), MemberId(77), Ordinal(5));
    let id = |servers: &Servers, number| servers.id_of(number);
    let (first, second) = (id(&servers, 1).unwrap(), id(&servers, 2).unwrap());
    assert_ne!(first, second);
    servers.register(MemberId(8), 2);
    servers.forget(MemberId(8));
    servers.set(list(&[2, 3]), MemberId(78), Ordinal(6));
    assert_eq!((id(&servers, 1), id(&servers, 2)), (None, Some(second)));
    assert!(![first, second].contains(&id(&servers, 3).unwrap()));
    // A number that is used again names another server.
    servers.set(list(&[1, 2]), MemberId(78), Ordinal(7));
    assert_ne!(id(&servers, 1), Some(first));
}

#[test]
fn the_text_for_zookeeper_leaves_out_servers_without_its_addresses() {
    let servers = servers();
    let text = servers.list().zk_text().unwrap();
    let expected = "server.1=a:2888:3888:participant;0.0.0.0:2181\n\
                    server.2=a:2888:3888:participant;0.0.0.0:2181\n\
                    server.9=[::1]:1:2:observer\n\
                    version=3";
    assert_eq!(text, expected);
    assert_eq!(ServerList::default().zk_text(), None);
}

#[test]
fn the_parts_of_an_address_are_those_of_its_text() {
    let check = |servers: &str, parts| {
        let addresses = ZkAddresses { servers: servers.to_string(), clients: None };
        assert_eq!(addresses.parts(), parts);
    };
    check("a:1:2", ["a", "1", "2"]);
    check("[::1]:2888:3888", ["[::1]", "2888", "3888"]);
    check("", ["", "", ""]);
}

#[test]
fn beyond_the_bound_no_member_is_noted() {
    let mut servers = Servers::default();
    for member in 0..SERVERS_MAX as u64 + 1 {
        servers.register(MemberId(member), 1);
    }
    assert_eq!(servers.members().len(), SERVERS_MAX);
    servers.register(MemberId(0), 2);
    assert_eq!(servers.members()[&MemberId(0)], 2);
}
