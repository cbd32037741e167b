use machine::etcd_v2::auth::Who;
use machine::etcd_v2::change::Changes;
use machine::etcd_v2::command::{Command, Write};
use machine::etcd_v2::key::Key;
use machine::etcd_v2::{Store, reply};

use super::*;

/// The time of all writes: 26 November 2026, 20:00 UTC and a half second.
const TIME_MS: i64 = 1_795_723_200_500;

fn set(store: &mut Store, key: &str, value: &str, ttl_s: Option<u64>) -> Arc<Event> {
    let key = Key::new(key).unwrap();
    let write = Write { key, value: value.as_bytes(), ttl_s };
    let command = Command::Set { write, is_dir: false, is_refresh: false };
    match store.apply((Who::Member, TIME_MS), &command, &mut Changes::default()).unwrap() {
        reply::Outcome::Written(event) => event,
        reply::Outcome::Expired { .. } | reply::Outcome::AuthDone(_) => unreachable!(),
    }
}

fn listed(store: &Store, key: &str, is_recursive: bool, piece_bytes: usize) -> (String, usize) {
    let node = store.get(Key::new(key).unwrap()).unwrap().node;
    let mut listing = Listing::new(key, node, is_recursive, TIME_MS + 1_200);
    let (mut out, mut pieces) = (Vec::new(), 1);
    while listing.write(piece_bytes, &mut out) {
        pieces += 1;
    }
    (String::from_utf8(out).unwrap(), pieces)
}

fn file(store: &Store, key: &str) -> Option<String> {
    let node = store.get(Key::new(key).unwrap()).unwrap().node;
    let mut out = Vec::new();
    let is_written = write_file(key, &node, TIME_MS + 1_200, &mut out);
    assert_eq!(is_written, !out.is_empty());
    is_written.then(|| String::from_utf8(out).unwrap())
}

fn line(event: &Event, hides_nodes: bool) -> String {
    let mut out = Vec::new();
    write_event(event, hides_nodes, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn an_event_shows_the_nodes_before_and_after() {
    let mut store = Store::default();
    set(&mut store, "/a", "1", None);
    let event = set(&mut store, "/a", "x", Some(90));
    assert_eq!(
        line(&event, false),
        "{\"action\":\"set\",\"node\":{\"key\":\"/a\",\"value\":\"x\",\
         \"expiration\":\"2026-11-26T20:01:30.5Z\",\"ttl\":90,\"modifiedIndex\":5,\
         \"createdIndex\":5},\"prevNode\":{\"key\":\"/a\",\"value\":\"1\",\"modifiedIndex\":4,\
         \"createdIndex\":4}}\n"
    );
    assert_eq!(line(&event, true), "{\"action\":\"set\"}\n");
}

/// A part is only slightly longer than requested, however large the value is. Wherever the value is
/// cut, the parts together are the whole line.
#[test]
fn large_values_are_written_in_parts() {
    for (pattern, text) in [
        ("\u{1}".to_string(), "\\u0001".to_string()),
        ("a\u{20ac}".to_string(), "a\u{20ac}".to_string()),
        ("\u{1f600}".to_string(), "\u{1f600}".to_string()),
        ("x".to_string(), "x".to_string()),
    ] {
        let count = 30_001;
        let mut store = Store::default();
        set(&mut store, "/d/a", &pattern.repeat(count), Some(9));
        set(&mut store, "/d/b", "small", None);
        let node = store.get(Key::new("/d").unwrap()).unwrap().node;
        let mut listing = Listing::new("/d", node, true, TIME_MS);
        let (mut whole, mut has_more) = (Vec::new(), true);
        while has_more {
            let mut part = Vec::new();
            has_more = listing.write(100, &mut part);
            assert!(part.len() < 6 * VALUE_PART_BYTES + 400, "{}", part.len());
            whole.extend_from_slice(&part);
        }
        let expected = format!(
            "{{\"action\":\"get\",\"node\":{{\"key\":\"/d\",\"dir\":true,\"nodes\":[\
             {{\"key\":\"/d/a\",\"value\":\"{}\",\"expiration\":\"2026-11-26T20:00:09.5Z\",\
             \"ttl\":9,\"modifiedIndex\":4,\"createdIndex\":4}},\
             {{\"key\":\"/d/b\",\"value\":\"small\",\"modifiedIndex\":5,\"createdIndex\":5}}],\
             \"modifiedIndex\":4,\"createdIndex\":4}}}}\n",
            text.repeat(count)
        );
        assert_eq!(String::from_utf8(whole).unwrap(), expected);
        let (one, parts) = listed(&store, "/d/a", false, 1_000);
        assert!(parts > 3 && one.contains(&text.repeat(count)) && one.ends_with("4}}\n"));
    }
}

/// Bytes that are not UTF-8 are replaced one by one, wherever the value is cut.
#[test]
fn a_large_value_may_be_no_utf8() {
    for pattern in [&b"\x80"[..], b"\xe2\x82", b"a\xff\xe2\x82\xac", b"\xf0\x9f\x98"] {
        let value = pattern.repeat(10_000);
        let mut store = Store::default();
        let write = Write { key: Key::new("/a").unwrap(), value: &value, ttl_s: None };
        let command = Command::Set { write, is_dir: false, is_refresh: false };
        store.apply((Who::Member, 0), &command, &mut Changes::default()).unwrap();
        let mut at_once = Vec::new();
        put_text(&value, &mut at_once);
        let at_once = String::from_utf8(at_once).unwrap();
        assert!(listed(&store, "/a", false, 1).0.contains(&at_once), "{pattern:?}");
    }
}

#[test]
fn the_line_of_a_file_is_that_of_its_listing() {
    let mut store = Store::default();
    set(&mut store, "/d/a", "x\u{1}", None);
    set(&mut store, "/d/b", "1", Some(9));
    for key in ["/d/a", "/d/b"] {
        assert_eq!(file(&store, key), Some(listed(&store, key, false, 100).0));
    }
    assert_eq!(file(&store, "/d"), None);
}

#[test]
fn a_directory_shows_its_nodes_and_a_recursive_read_all() {
    let mut store = Store::default();
    assert_eq!(listed(&store, "", true, 100).0, "{\"action\":\"get\",\"node\":{\"dir\":true}}\n");
    set(&mut store, "/d/e/f", "1", None);
    set(&mut store, "/d/_hidden", "2", None);
    set(&mut store, "/d/x", "3", Some(5));
    let (flat, _) = listed(&store, "/d", false, usize::MAX);
    let x = "{\"key\":\"/d/x\",\"value\":\"3\",\"expiration\":\"2026-11-26T20:00:05.5Z\",\
             \"ttl\":4,\"modifiedIndex\":6,\"createdIndex\":6}";
    assert_eq!(
        flat,
        format!(
            "{{\"action\":\"get\",\"node\":{{\"key\":\"/d\",\"dir\":true,\"nodes\":[\
             {{\"key\":\"/d/e\",\"dir\":true,\"modifiedIndex\":4,\"createdIndex\":4}},{x}],\
             \"modifiedIndex\":4,\"createdIndex\":4}}}}\n"
        )
    );
    let (all, pieces) = listed(&store, "/d", true, 1);
    assert_eq!(
        all,
        format!(
            "{{\"action\":\"get\",\"node\":{{\"key\":\"/d\",\"dir\":true,\"nodes\":[\
             {{\"key\":\"/d/e\",\"dir\":true,\"nodes\":[{{\"key\":\"/d/e/f\",\"value\":\"1\",\
             \"modifiedIndex\":4,\"createdIndex\":4}}],\"modifiedIndex\":4,\"createdIndex\":4}},\
             {x}],\"modifiedIndex\":4,\"createdIndex\":4}}}}\n"
        )
    );
    assert_eq!(pieces, 6, "each step of the walk is a piece");
    assert_eq!(listed(&store, "/d", true, usize::MAX), (all, 1));
}

/// The expected texts are those of Go's `encoding/json`.
#[test]
fn texts_are_escaped_as_go_does() {
    for (text, json) in [
        (b"a b".as_slice(), r#""a b""#),
        (
            "\u{e9}\"<\\>&\n\t\r\u{1}\u{8}".as_bytes(),
            r#""é\"\u003c\\\u003e\u0026\n\t\r\u0001\u0008""#,
        ),
        ("\u{2028}".as_bytes(), r#""\u2028""#),
        (b"\xffx\xc3", r#""\ufffdx\ufffd""#),
    ] {
        let mut out = Vec::new();
        put_text(text, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), json);
    }
}

#[test]
fn a_time_far_away_is_shown_as_the_last_one() {
    for (ms, text) in [
        (0, "1970-01-01T00:00:00Z"),
        (TIME_MS, "2026-11-26T20:00:00.5Z"),
        (i64::MAX, "9999-12-31T23:59:59Z"),
    ] {
        assert_eq!(time_text(ms), text);
    }
}
