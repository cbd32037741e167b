//! Tests of the text and JSON of answers. Expected texts were printed by the real `zkCli.sh`.

use super::*;

fn out(answer: &Answer) -> String {
    plain(answer).out
}

fn get(data: Option<&[u8]>, form: Form) -> Shown {
    plain(&Answer::Data(data.map(<[u8]>::to_vec), form, None))
}

const STAT: Stat = Stat {
    czxid: 16,
    mzxid: 17,
    ctime: 0,
    mtime: 951_826_154_321,
    version: 2,
    cversion: 3,
    aversion: 4,
    ephemeral_owner: 255,
    data_bytes: 6,
    child_count: 7,
    pzxid: 18,
};

#[test]
fn printable_data_is_text_and_the_rest_a_dump() {
    let text = |data: Option<&[u8]>| get(data, Form::Text).out;
    assert_eq!(text(None), "null\n");
    assert_eq!(text(Some(b"")), "\n");
    assert_eq!(text(Some(b"one\ntwo")), "one\ntwo\n");
    assert_eq!(text(Some("gr\u{fc}n\n".as_bytes())), "gr\u{fc}n\n\n");
    for bytes in [&b"\x1b[2J"[..], b"\xff\xfe", b"a\0b", "\u{9b}2J".as_bytes()] {
        let shown = get(Some(bytes), Form::Text);
        assert_eq!(shown.out, get(Some(bytes), Form::Hex).out);
        let count = bytes.len();
        assert_eq!(shown.err, format!("{count} bytes that are no text; -b gives them as base64\n"));
    }
}

#[test]
fn data_is_shown_as_base64_or_in_a_frame() {
    assert_eq!(get(Some(b"one two"), Form::Base64).out, "b25lIHR3bw==\n");
    assert_eq!(get(Some(b""), Form::Base64).out, "\n");
    assert_eq!(get(Some(b""), Form::Hex).out, "\n");
    let frame = "         +-------------------------------------------------+
         |  0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f |
+--------+-------------------------------------------------+----------------+
|00000000| 6f 6e 65 20 74 77 6f 00 00 00 00 00 00 00 00 00 |one two.........|
|00000010| 6f                                              |o               |
+--------+-------------------------------------------------+----------------+
";
    assert_eq!(get(Some(b"one two\0\0\0\0\0\0\0\0\0o"), Form::Hex).out, frame);
}

#[test]
fn a_stat_is_that_of_zkcli() {
    let expected = "cZxid = 0x10
ctime = Thu Jan 01 00:00:00 UTC 1970
mZxid = 0x11
mtime = Tue Feb 29 12:09:14 UTC 2000
pZxid = 0x12
cversion = 3
dataVersion = 2
aclVersion = 4
ephemeralOwner = 0xff
dataLength = 6
numChildren = 7
";
    assert_eq!(out(&Answer::Stat(STAT)), expected);
    let names = vec!["a".to_string(), "b".to_string()];
    assert_eq!(out(&Answer::Names(names, Some(STAT))), format!("[a, b]\n{expected}"));
    assert_eq!(out(&Answer::Names(Vec::new(), None)), "[]\n");
}

#[test]
fn times_are_those_of_the_calendar() {
    assert_eq!(time(0), "1970-01-01T00:00:00.000Z");
    assert_eq!(time(951_826_154_321), "2000-02-29T12:09:14.321Z");
    assert_eq!(time(-1), "1969-12-31T23:59:59.999Z");
    assert_eq!(time(4_102_444_800_000), "2100-01-01T00:00:00.000Z");
    assert_eq!(java_date(-1), "Wed Dec 31 23:59:59 UTC 1969");
    assert_eq!(java_date(1_795_326_540_433), "Sun Nov 22 05:49:00 UTC 2026");
}

#[test]
fn an_acl_says_id_and_permissions() {
    let entry = |id: &str| AclEntry { perms: 17, scheme: "digest".into(), id: id.into() };
    assert_eq!(out(&Answer::Acl(vec![entry("u:x")], None)), "'digest,'u:x\n: ra\n");
    assert_eq!(out(&Answer::Acl(vec![entry("\u{1b}c")], None)), "'digest,'\\u{1b}c\n: ra\n");
    let fields = fields(&Answer::Acl(vec![entry("u:x")], None));
    assert_eq!(fields["acl"], json!([{ "scheme": "digest", "id": "u:x", "perms": "ra" }]));
}

#[test]
fn what_was_made_is_said_on_standard_error() {
    let shown = plain(&Answer::Created("/a".to_string()));
    assert_eq!((shown.out.as_str(), shown.err.as_str()), ("", "Created /a\n"));
}

#[test]
fn quotas_are_limits_and_what_there_is() {
    let shown = plain(&Answer::Quota("/c".to_string(), Track::unlimited(), Track::zero()));
    assert_eq!(
        shown.out,
        "Output quota for /c count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=-1\n\
         Output stat for /c count=0,bytes=0\n"
    );
}

#[test]
fn json_has_a_field_for_each_thing() {
    let value = |answer| Value::Object(fields(&answer)).to_string();
    let data = |data: Option<&[u8]>, form| Answer::Data(data.map(<[u8]>::to_vec), form, None);
    assert_eq!(value(Answer::Nothing), "{}");
    assert_eq!(value(data(None, Form::Text)), r#"{"data":null}"#);
    assert_eq!(value(data(Some(b"a\x1b"), Form::Text)), r#"{"data":"a\u001b"}"#);
    assert_eq!(value(data(Some(b"\xff"), Form::Text)), r#"{"data_base64":"/w=="}"#);
    assert_eq!(value(data(Some(b"a"), Form::Base64)), r#"{"data_base64":"YQ=="}"#);
    assert_eq!(value(Answer::Count(7)), r#"{"count":7}"#);
    assert_eq!(value(Answer::Line("version", "v".into())), r#"{"version":"v"}"#);
    let stat = &fields(&Answer::Stat(STAT))["stat"];
    assert_eq!((&stat["czxid"], &stat["ctime"]), (&json!("0x10"), &json!(0)));
    assert_eq!(stat.as_object().map(Map::len), Some(11));
}

#[test]
fn errors_are_said_in_the_words_of_zkcli() {
    let refused = |code| ClientError::Refused(ErrorCode(code));
    let check = |code, expected: &str| assert_eq!(error_text(&refused(code), Some("/a")), expected);
    check(-101, "Node does not exist: /a");
    check(-102, "Insufficient permission : /a");
    check(-111, "Node not empty: /a");
    check(-121, "KeeperErrorCode = No such watcher for /a");
    check(-999, "KeeperErrorCode = Unknown error -999 for /a");
    assert_eq!(error_text(&refused(-6), None), "KeeperErrorCode = Unimplemented");
    let value = error_value(Some(&refused(-101)), "text");
    assert_eq!(value, json!({ "code": -101, "name": "NoNode", "message": "text" }));
    assert_eq!(error_value(None, "text"), json!({ "message": "text" }));
    assert_eq!(error_text(&ClientError::Expired, Some("/a")), ClientError::Expired.to_string());
}

#[test]
fn events_are_those_of_zkcli_and_connections_are_put_in_words() {
    let event = Event::Watch { event_type: 3, state: 3, path: "/a".to_string(), zxid: 5 };
    assert_eq!(
        event_text(&event),
        "\nWATCHER::\n\nWatchedEvent state:SyncConnected type:NodeDataChanged path:/a zxid: 5\n"
    );
    let expected =
        json!({ "event": "NodeDataChanged", "state": "SyncConnected", "path": "/a", "zxid": 5 });
    assert_eq!(event_value(&event), expected);
    let server = || "h:1".to_string();
    let again = Event::Connected {
        server: server(),
        session: 16,
        again: true,
        read_only: false,
        watch_count: 2,
    };
    assert_eq!(
        event_text(&again),
        "connected to h:1, session 0x10 again, 2 watches are set again\n"
    );
    let lost = Event::Lost { server: server(), reason: "it died".to_string() };
    assert_eq!(event_text(&lost), "the connection to h:1 was lost (it died); trying again\n");
    assert_eq!(event_value(&lost)["state"], "Disconnected");
    assert!(event_text(&Event::Expired).starts_with("the session expired"));
}

#[test]
fn clients_are_told_where_to_connect() {
    let config = "server.1=h:2780:2785:participant;0.0.0.0:2181\nserver.2=g:1:2;2182\n\
                  server.3=f:1:2\nversion=1a";
    assert_eq!(client_addresses(config), "1a 0.0.0.0:2181,0.0.0.0:2182");
    assert_eq!(client_addresses(""), " ");
}
