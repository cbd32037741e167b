//! Tests of parsing connect strings.
#![allow(clippy::unwrap_used)]

use super::*;

fn check(text: &str, servers: &[&str], chroot: &str) {
    let target = Target::parse(text, 1_000).unwrap();
    assert_eq!(
        (target.servers, target.chroot.as_str()),
        (servers.iter().map(ToString::to_string).collect(), chroot),
        "{text}"
    );
}

#[test]
fn a_connect_string_is_servers_and_a_chroot() {
    check("h:1", &["h:1"], "");
    check("h", &["h:2181"], "");
    check("h:1,g , i:3", &["h:1", "g:2181", "i:3"], "");
    check("h:1/", &["h:1"], "");
    check("h:1,g:2/app/a", &["h:1", "g:2"], "/app/a");
    check("[::1]:3,[::2]", &["[::1]:3", "[::2]:2181"], "");
    check("::1/x", &["[::1]:2181"], "/x");
}

#[test]
fn what_is_no_connect_string_is_said() {
    let wrong = |text: &str, expected: &str| {
        let said = Target::parse(text, 1_000);
        assert!(said.as_ref().is_err_and(|said| said.contains(expected)), "{text}: {said:?}");
    };
    wrong("", "names no server");
    wrong("/a", "names no server");
    wrong("h:port", "is not HOST:PORT");
    wrong("h:70000", "is not HOST:PORT");
    wrong(":1", "is not HOST:PORT");
    wrong("[::1", "is not HOST:PORT");
    wrong("h:1/a/", "must not end with /");
    wrong("h:1//a", "empty node name");
}
