use clap::Parser;

use super::*;
use crate::servers::process::Processes;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    args: Etcd2Args,
}

fn args(line: &str) -> Etcd2Args {
    let words = ["bench", "--target", "etcd2://127.0.0.1:1"].into_iter().chain(line.split(' '));
    Line::parse_from(words.filter(|word| !word.is_empty())).args
}

fn target(count: u16) -> Target {
    let addresses = (1..=count).map(|port| SocketAddr::from(([127, 0, 0, 1], port))).collect();
    Target::from_processes("etcd", Scheme::Etcd2, addresses, Processes::default())
}

/// The document has twenty rows, each with a figure.
#[test]
fn three_servers_have_the_rows_of_the_document() {
    let rows = rows(&args(""), &target(3));
    assert_eq!(rows.len(), 20);
    for row in &rows {
        assert_eq!(row.published().len(), 1, "{}", row.title());
    }
    let first = rows[0];
    assert_eq!(first.title(), "read, 64 bytes, 1 client, the leader");
    assert_eq!(first.published(), ["2804 per s, p90 0.4 ms"]);
    let last = rows[19];
    assert_eq!(last.title(), "write, 256 bytes, 256 clients, all servers");
    assert_eq!(last.published(), ["4975 per s, p90 70.3 ms"]);
}

#[test]
fn one_server_has_the_rows_of_the_leader() {
    assert_eq!(rows(&args(""), &target(1)).len(), 12);
    assert_eq!(rows(&args("--op read --size 64 --clients 1,64"), &target(1)).len(), 2);
}

/// Runs a load against a server that sends the same answer to every request.
#[test]
fn a_load_counts_answers_and_errors() {
    use std::io::{Read, Write};
    for (status, errors) in [("200 OK", false), ("500 Internal Server Error", true)] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\nok");
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, answer) = (stream.unwrap(), answer.clone());
                std::thread::spawn(move || {
                    let mut request = [0; 4096];
                    while stream.read(&mut request).is_ok_and(|count| count > 0) {
                        stream.write_all(answer.as_bytes()).unwrap();
                    }
                });
            }
        });
        let mut load = Load::connect(&[address], 3).unwrap();
        let request = load::get("/v2/keys/a");
        let phase = load.run(&target(1), &request, Duration::from_millis(50)).unwrap();
        let (counted, other) = match errors {
            true => (phase.errors, phase.operations),
            false => (phase.operations, phase.errors),
        };
        assert!(counted >= 3 && other == 0, "{counted} and {other}");
        // Errors may come at once, so their latencies must not make the figures better.
        assert_eq!(phase.latencies.count(), phase.operations);
    }
}
