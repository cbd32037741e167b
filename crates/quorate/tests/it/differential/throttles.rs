//! Compares the connection throttle and the limit on large requests with the real server's: which
//! clients are refused, and what the metrics show.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use zk::request::{CreateKind, Request, WriteRequest};

use bench::differential::generate::{
    Asked, AskedSession, Burst, Generator, Greeting, Round, entry,
};
use bench::differential::greet_anew;
use bench::differential::side::Side;

use super::both;

const WORDS: &str = "4lw.commands.whitelist=*";

/// Runs the rounds on both servers with these flags. The answers of both must be `expected`, and
/// both must show these values for these keys of `mntr`.
fn check(name: &str, flags: &str, rounds: &[Round], expected: &[&str], keys: &[(&str, &str)]) {
    let (real_server, server) = both(name, &[WORDS], flags);
    for (name, address) in [("real", real_server.address()), ("ours", server.address())] {
        let mut side = Side::new(name, address);
        side.begin_seed();
        let lines = rounds.iter().flat_map(|round| side.run_alone(round).unwrap());
        let lines: Vec<String> = lines.filter(|line| !line.contains("xid=-2 ")).collect();
        let seen: Vec<&str> = lines.iter().filter_map(|line| ending(line)).collect();
        assert_eq!(seen, expected, "{name}: {lines:?}");
        let mntr = mntr(address);
        for (key, value) in keys {
            let line = mntr.lines().find_map(|line| line.strip_prefix(&format!("zk_{key}\t")));
            assert_eq!(line, Some(*value), "{name}: {key} in {mntr}");
        }
    }
}

/// The outcome that a line of answers shows: a session, a success, or an end. `None` for other
/// lines.
fn ending(line: &str) -> Option<&'static str> {
    let endings = [
        ("closed without an answer", "refused"),
        ("timeout=", "connected"),
        ("End", "end"),
        ("error=0", "done"),
    ];
    endings.iter().find(|(part, _)| line.contains(part)).map(|(_, ending)| *ending)
}

fn mntr(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"mntr").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn renew(slot: usize) -> Round {
    let Round::Greet(greeting) = greet_anew(slot) else { unreachable!("it greets") };
    Round::Greet(Greeting { session: AskedSession::Own, ..greeting })
}

#[test]
fn as_many_connect_as_there_are_tokens_for() {
    let flags = "-Dzookeeper.connection_throttle_tokens=3 \
                 -Dzookeeper.connection_throttle_fill_time=100000000";
    check(
        "tokens",
        flags,
        &[greet_anew(0), greet_anew(1), Round::Drop(0), renew(0), greet_anew(2), renew(1)],
        &["connected", "connected", "connected", "refused", "refused"],
        &[
            ("connection_request_count", "3"),
            ("connection_rejected", "2"),
            ("connection_drop_probability", "0.0"),
            ("cnt_connection_token_deficit", "3"),
            ("sum_connection_token_deficit", "6"),
            ("max_connection_token_deficit", "3"),
            ("large_requests_rejected", "0"),
        ],
    );
}

#[test]
fn each_session_takes_as_many_tokens_as_it_weighs() {
    let flags = "-Dzookeeper.connection_throttle_tokens=3 \
                 -Dzookeeper.connection_throttle_weight_enabled=true \
                 -Dzookeeper.connection_throttle_fill_time=100000000";
    check(
        "weights",
        flags,
        &[greet_anew(0), greet_anew(1), Round::Drop(0), renew(0), renew(0), greet_anew(2)],
        &["connected", "connected", "connected", "refused", "refused"],
        &[("connection_rejected", "2"), ("sum_connection_token_deficit", "17")],
    );
}

#[test]
fn who_comes_while_the_bucket_is_empty_is_dropped_by_chance() {
    let flags = "-Dzookeeper.connection_throttle_tokens=1 \
                 -Dzookeeper.connection_throttle_fill_time=100000000 \
                 -Dzookeeper.connection_throttle_freeze_time=0 \
                 -Dzookeeper.connection_throttle_drop_increase=1";
    check(
        "chance",
        flags,
        &[greet_anew(0), greet_anew(1), greet_anew(2)],
        &["connected", "refused", "refused"],
        &[("connection_rejected", "2"), ("connection_drop_probability", "1.0")],
    );
}

fn create(generator: &mut Generator, path: &str, bytes: usize) -> Asked {
    let data = vec![b'x'; bytes];
    generator.asked(&Request::Write(WriteRequest::Create {
        kind: CreateKind::Create,
        path,
        data: Some(&data),
        acl: vec![entry(31, "world", "anyone")],
        flags: 0,
        ttl_ms: -1,
    }))
}

#[test]
fn a_request_that_is_larger_than_all_large_ones_may_be_is_refused() {
    let mut generator = Generator::new(1);
    let burst = |asked: Vec<Asked>| Round::Burst(Burst { slot: 0, asked, pieces: Vec::new() });
    let small = burst(vec![create(&mut generator, "/a", 10), create(&mut generator, "/b", 2_800)]);
    let large = Asked { ends: true, alone: true, ..create(&mut generator, "/c", 3_000) };
    check(
        "large",
        "-Dzookeeper.largeRequestThreshold=1000 -Dzookeeper.largeRequestMaxBytes=3000",
        &[greet_anew(0), small, burst(vec![large])],
        &["connected", "done", "done", "end"],
        &[("large_requests_rejected", "1")],
    );
}
