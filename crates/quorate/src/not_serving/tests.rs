//! Tests the answers of a server that does not serve yet, over real sockets.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::TcpStream as Socket;

use super::*;

/// Sends each of these first bytes on a connection of its own to a port that allows these words.
/// Returns the answers.
fn ask(words_allowed: &[&str], is_plain: bool, openings: &[&'static [u8]]) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let answers = Answers {
        words_allowed: words_allowed.iter().map(ToString::to_string).collect(),
        version: "v".to_string(),
        conf: ConfReport::default(),
    };
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let openings = openings.to_vec();
        let asked = tokio::task::spawn_blocking(move || {
            let ask_one = |opening: &[u8]| {
                let mut socket = Socket::connect(address).unwrap();
                socket.write_all(opening).unwrap();
                let mut text = Vec::new();
                match socket.read_to_end(&mut text) {
                    Ok(_) => String::from_utf8(text).unwrap(),
                    Err(error) => format!("{:?}", error.kind()),
                }
            };
            openings.into_iter().map(ask_one).collect()
        });
        tokio::select! {
            () = answer(Some(&listener), is_plain, Arc::new(answers)) => unreachable!(),
            asked = asked => asked.unwrap(),
        }
    })
}

#[test]
fn words_are_answered_and_who_wants_a_session_is_hung_up_on() {
    let not_serving = "This ZooKeeper instance is not currently serving requests\n";
    let said = ask(&["*"], true, &[b"ruok", b"ruok\r\n", b"srvr", b"mntr", b"isro"]);
    assert_eq!(said, ["imok", "imok", not_serving, not_serving, "null"]);
    // Not a word but the beginning of a connect request, with its length in front.
    let connect = &[0, 0, 0, 44, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    for said in ask(&["*"], true, &[connect]) {
        assert!(said.is_empty() || said == "ConnectionReset", "{said}");
    }
}

#[test]
fn words_that_are_not_allowed_are_not_executed() {
    let said = ask(&["srvr"], true, &[b"ruok", b"srvr"]);
    assert_eq!(said[0], "ruok is not executed because it is not in the whitelist.\n");
    assert!(said[1].starts_with("This ZooKeeper instance"));
}

#[test]
fn a_port_for_tls_closes_what_comes() {
    for said in ask(&["*"], false, &[b"ruok"]) {
        assert!(said.is_empty() || said == "ConnectionReset", "{said}");
    }
}
