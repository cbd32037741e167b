//! Attacks the trees of ZooKeeper and of etcd v2 with requests that change or read many nodes at
//! once.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use zk::ErrorCode;
use zk::request::Request;

use super::rig::{Attack, MIB};
use crate::client::{Client, EPHEMERAL, TIMEOUT_MS, create};
use crate::ensemble::word;
use crate::etcd::request;

/// How many creates a multi has; together they are just below `jute.maxbuffer`, 1 MB.
const CREATE_COUNT: usize = 14_000;

const MULTI_COUNT: usize = 15;

/// The number in a line of `mntr`.
fn shown(attack: &Attack, name: &str) -> usize {
    let text = word(attack.server.address(), "mntr");
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.expect(&text).trim().parse().unwrap()
}

#[test]
fn a_session_with_many_ephemerals_closes_while_others_are_served() {
    let attack = Attack::prepare("ephemerals", &["4lw.commands.whitelist=*"], 0);
    let mut client = Client::open(attack.server.address(), TIMEOUT_MS);
    let begun_at = Instant::now();
    for multi in 0..MULTI_COUNT {
        let paths: Vec<String> =
            (0..CREATE_COUNT).map(|number| format!("/e{multi:02}-{number:05}")).collect();
        let creates = paths.iter().map(|path| create(path, b"", EPHEMERAL)).collect();
        let answer = client.call(&Request::Multi(creates));
        assert_eq!(answer.header.error, ErrorCode::OK);
    }
    println!("{MULTI_COUNT} multis of {CREATE_COUNT} creates took {:?}", begun_at.elapsed());
    assert_eq!(shown(&attack, "zk_ephemerals_count"), MULTI_COUNT * CREATE_COUNT);
    let begun_at = Instant::now();
    assert!(client.close());
    println!("the end of the session took {:?}", begun_at.elapsed());
    let mut other = Client::open(attack.server.address(), TIMEOUT_MS);
    assert!(!other.exists("/e00-00000") && !other.exists("/e14-13999"));
    attack.end(512 * MIB);
}

/// Sends requests to etcd v2 on one connection without waiting for answers in between, and checks
/// that each is answered.
fn pipeline(address: SocketAddr, lines: &[String]) {
    let mut stream = TcpStream::connect(address).unwrap();
    for lines in lines.chunks(200) {
        let text: String = lines
            .iter()
            .map(|line| format!("{line} HTTP/1.1\r\nHost: e\r\nContent-Length: 0\r\n\r\n"))
            .collect();
        stream.write_all(text.as_bytes()).unwrap();
        let mut answers = Vec::new();
        let mut piece = [0; 65_536];
        let created = b"HTTP/1.1 201";
        while answers.windows(created.len()).filter(|it| it == created).count() < lines.len() {
            let count = stream.read(&mut piece).unwrap();
            assert!(count > 0, "the connection ended");
            answers.extend_from_slice(&piece[..count]);
        }
    }
}

#[test]
fn a_directory_of_etcd_v2_is_listed_and_removed_while_others_are_served() {
    let attack = Attack::prepare("directory", &[], 0);
    let address = attack.etcd();
    std::thread::scope(|scope| {
        for part in 0..4 {
            let lines: Vec<String> = (0..2_500)
                .map(|number| format!("PUT /v2/keys/d/{part}/{}/{number}?value=1", number % 50))
                .collect();
            scope.spawn(move || pipeline(address, &lines));
        }
    });
    for _ in 0..5 {
        let begun_at = Instant::now();
        let (status, body) = request(address, "GET /v2/keys/d?recursive=true", "").unwrap();
        assert_eq!((status, body.matches("\"value\":\"1\"").count()), (200, 10_000));
        println!("a list of 10,000 nodes took {:?}", begun_at.elapsed());
    }
    let begun_at = Instant::now();
    assert_eq!(request(address, "DELETE /v2/keys/d?recursive=true", "").unwrap().0, 200);
    println!("a removal of 10,000 nodes took {:?}", begun_at.elapsed());
    assert_eq!(request(address, "GET /v2/keys/d", "").unwrap().0, 404);
    attack.end(256 * MIB);
}
