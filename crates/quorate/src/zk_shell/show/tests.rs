//! How things are shown.

use super::*;

#[test]
fn printable_data_is_text_and_the_rest_a_dump() {
    assert_eq!(data(None), "null\n");
    assert_eq!(data(Some(b"")), "\n");
    assert_eq!(data(Some(b"one\ntwo")), "one\ntwo\n");
    assert_eq!(data(Some("gr\u{fc}n\n".as_bytes())), "gr\u{fc}n\n");
    assert_eq!(
        data(Some(b"\x00a\xff")),
        "3 bytes\n00000000  00 61 ff                                         .a.\n"
    );
    assert_eq!(data(Some(&[0; 17])).lines().count(), 3);
    assert!(data(Some(b"\x1b[2J")).starts_with("4 bytes\n"));
}

#[test]
fn times_are_those_of_the_calendar() {
    assert_eq!(time(0), "1970-01-01T00:00:00.000Z");
    assert_eq!(time(951_826_154_321), "2000-02-29T12:09:14.321Z");
    assert_eq!(time(-1), "1969-12-31T23:59:59.999Z");
    assert_eq!(time(4_102_444_800_000), "2100-01-01T00:00:00.000Z");
}

#[test]
fn an_acl_is_shown_as_it_is_written() {
    let entry = AclEntry { perms: 17, scheme: "digest".into(), id: "u:x".into() };
    assert_eq!(acl(&[entry]), "digest:u:x:ra\n");
}

#[test]
fn a_stat_has_the_names_of_zkcli() {
    let stat = stat(&Stat {
        czxid: 16,
        mzxid: 17,
        ctime: 0,
        mtime: 0,
        version: 2,
        cversion: 3,
        aversion: 4,
        ephemeral_owner: 255,
        data_bytes: 6,
        child_count: 7,
        pzxid: 18,
    });
    assert!(stat.starts_with("cZxid          = 0x10\nctime          = 1970-"));
    assert!(stat.ends_with("ephemeralOwner = 0xff\ndataLength     = 6\nnumChildren    = 7\n"));
    assert_eq!(stat.lines().count(), 11);
}
