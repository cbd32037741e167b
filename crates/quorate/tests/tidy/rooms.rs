//! The rooms of `member`: only `zk_front` and `local_read` name the protocol of ZooKeeper, and only
//! `etcd_front` and `local_read` that of etcd. And the room of `quorate` that may name the HTTP/2
//! library.

use std::fs;

use super::{assert_none, files_below, root, shown};

/// The crates of the protocols, with the room of each.
const PROTOCOLS: [(&str, &str); 2] = [("zk::", "zk_front"), ("etcd::", "etcd_front")];

/// Whether a line of code names an item of a protocol's crate. Comments and `machine::zk` do not
/// count.
fn names(line: &str, protocol: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    code.match_indices(protocol).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != ':')
    })
}

#[test]
fn a_line_names_a_protocol_in_code_only() {
    for (line, expected) in [
        ("use zk::ErrorCode;", true),
        ("    let query = &zk::ops::query(read);", true),
        ("use machine::zk::tree::ROOT;", false),
        ("use crate::zk_front::Front;", false),
        ("    // zk::ErrorCode has a number for it.", false),
    ] {
        assert_eq!(names(line, "zk::"), expected, "{line}");
    }
    assert!(names("use etcd::Error;", "etcd::"));
    assert!(!names("use machine::etcd::reply::Refusal;", "etcd::"));
}

#[test]
fn in_member_only_the_fronts_and_local_reads_name_a_protocol() {
    let source = root().join("crates/member/src");
    let mut complaints = Vec::new();
    let mut named_counts = [0; PROTOCOLS.len()];
    for path in files_below(&source) {
        let inner = path.strip_prefix(&source).expect("it is below").to_string_lossy().into_owned();
        if inner.contains("tests") || path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("source is text");
        for ((protocol, room), count) in PROTOCOLS.iter().zip(&mut named_counts) {
            let is_room = inner.starts_with(room) || inner == "local_read.rs";
            for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| names(line, protocol))
            {
                if is_room {
                    *count += 1;
                } else {
                    complaints.push(format!("{}:{number}: {}", shown(&path), line.trim()));
                }
            }
        }
    }
    assert!(named_counts.iter().all(|count| *count > 0), "the rooms that may name them do");
    assert_none(complaints);
}

#[test]
fn in_quorate_only_grpc_names_the_library_of_http2() {
    let source = root().join("crates/quorate/src");
    let mut complaints = Vec::new();
    let mut named_count = 0;
    for path in files_below(&source) {
        let inner = path.strip_prefix(&source).expect("it is below").to_string_lossy().into_owned();
        if inner.contains("tests") || path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("source is text");
        for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| line.contains("h2::")) {
            if inner.starts_with("grpc/") {
                named_count += 1;
            } else {
                complaints.push(format!("{}:{number}: {}", shown(&path), line.trim()));
            }
        }
    }
    assert!(named_count > 0, "the module names it");
    assert_none(complaints);
}
