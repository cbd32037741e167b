//! Where this server and the real one differ, and why: each case is asked of both, and both answers
//! are asserted as they are. What the seeds ask keeps away from these.

use zk::jute::{JuteWrite, begin_frame, end_frame};
use zk::request::{CreateKind, ReadKind, ReadRequest, Request, WriteRequest, opcode};

use bench::differential::generate::{
    Asked, AskedSession, Burst, Generator, Greeting, Round, body_of, entry,
};
use bench::differential::greet_anew;
use bench::differential::side::Side;

use super::{CONFIG, both};
use crate::server::{RealServer, Server};

/// Something that is asked, and the answers.
struct Difference {
    name: &'static str,
    why: &'static str,
    rounds: Vec<Round>,
    /// `None` where the real server does not always answer the same.
    real: Option<&'static [&'static str]>,
    ours: &'static [&'static str],
}

const INTERNAL: &str = "an operation of servers among themselves, unknown to ours from a client";

const ENDED: &[&str] = &["zxid=-1 error=-6", "End"];
const MALFORMED: &[&str] = &["zxid=+0 error=-5"];

/// Name, opcode, body, and what each says.
type Row = (
    &'static str,
    &'static str,
    i32,
    fn(&mut Vec<u8>),
    &'static [&'static str],
    &'static [&'static str],
);

/// Single requests.
const ROWS: [Row; 4] = [
    ("deleteContainer", INTERNAL, 20, root, &["zxid=+1 error=-8"], ENDED),
    (
        "a write in a multiRead",
        "an error has no body; the real server sends an empty list of results behind it",
        opcode::MULTI_READ,
        |out| multi(out, opcode::DELETE, root_and_int),
        &["zxid=+0 error=-5 [-1 true -1]"],
        MALFORMED,
    ),
    (
        "null in a multiRead",
        "the same",
        opcode::MULTI_READ,
        |out| multi(out, opcode::GET_DATA, not_there),
        &["zxid=+0 error=-5 [-1 true -1]"],
        MALFORMED,
    ),
    (
        "an ACL with null for an id",
        "it is an invalid ACL; Java trips over it, unless the scheme is not known or `auth`",
        opcode::CREATE,
        |out| {
            out.put_text("/new");
            null(out);
            out.put_int(1);
            out.put_int(31);
            out.put_text("world");
            null(out);
            out.put_int(0);
        },
        &["zxid=+1 error=-5"],
        &["zxid=+1 error=-114"],
    ),
];

/// Name, opcode, body, and the answer.
type OddRow = (&'static str, i32, fn(&mut Vec<u8>), &'static str);

/// Odd requests that both answer alike. The seeds do not ask them.
const ALIKE: [OddRow; 64] = [
    ("sync of null", opcode::SYNC, null, "zxid=+0 error=0 None"),
    ("create of null", opcode::CREATE, create_null, "zxid=+1 error=-5"),
    ("create2 of null", opcode::CREATE2, create_null, "zxid=+1 error=-5"),
    ("createContainer of null", opcode::CREATE_CONTAINER, create_null, "zxid=+1 error=-5"),
    (
        "create of null, unknown flag",
        opcode::CREATE,
        |out| create_null_with(out, 9),
        "zxid=+1 error=-8",
    ),
    (
        "create of null, TTL flag",
        opcode::CREATE,
        |out| create_null_with(out, 5),
        "zxid=+1 error=-6",
    ),
    (
        "createTTL of null",
        opcode::CREATE_TTL,
        |out| {
            create_null_with(out, 5);
            out.put_long(5);
        },
        "zxid=+1 error=-6",
    ),
    (
        "createTTL of null, not with a flag of a TTL",
        opcode::CREATE_TTL,
        |out| {
            create_null_with(out, 0);
            out.put_long(5);
        },
        "zxid=+1 error=-8",
    ),
    ("delete of null", opcode::DELETE, null_and_ints, "zxid=+1 error=-5"),
    ("setData of null", opcode::SET_DATA, null_and_ints, "zxid=+1 error=-8"),
    ("setACL of null", opcode::SET_ACL, null_and_ints, "zxid=+1 error=-8"),
    ("setACL with a null ACL", opcode::SET_ACL, root_and_null, "zxid=+1 error=-114"),
    ("setData with null data of nothing", opcode::SET_DATA, root_and_null, SET_NULL),
    ("exists of null", opcode::EXISTS, not_there, "zxid=+0 error=-5"),
    ("getData of null", opcode::GET_DATA, not_there, "zxid=+0 error=-5"),
    ("getACL of null", opcode::GET_ACL, not_there, "zxid=+0 error=-5"),
    ("getChildren of null", opcode::GET_CHILDREN, not_there, "zxid=+0 error=-5"),
    ("getChildren2 of null", opcode::GET_CHILDREN2, not_there, "zxid=+0 error=-5"),
    ("addWatch of null", opcode::ADD_WATCH, null_and_int, "zxid=+0 error=0 and (4) 00000000"),
    ("checkWatches of null", opcode::CHECK_WATCHES, null_and_int, "zxid=+0 error=-121"),
    ("removeWatches of null", opcode::REMOVE_WATCHES, null_and_int, "zxid=+0 error=-121"),
    ("setWatches with null lists", opcode::SET_WATCHES, null_lists, "zxid=+0 error=-5"),
    ("setWatches2 with null lists", opcode::SET_WATCHES2, null_lists2, "zxid=+0 error=-5"),
    (
        "setWatches2 with null among those that stay",
        opcode::SET_WATCHES2,
        |out| {
            out.put_long(0);
            (0..3).for_each(|_| out.put_int(0));
            (0..2).for_each(|_| {
                out.put_int(1);
                null(out);
            });
        },
        "zxid=+0 error=0",
    ),
    (
        "setWatches with negative counts",
        opcode::SET_WATCHES,
        |out| {
            out.put_long(0);
            (0..3).for_each(|_| out.put_int(-7));
        },
        "zxid=+0 error=0",
    ),
    ("a negative count of ACL entries", opcode::CREATE, negative_acl, "zxid=+1 error=-114"),
    (
        "create of null in a multi",
        opcode::MULTI,
        |out| multi(out, opcode::CREATE, create_null),
        "zxid=+1 error=-5",
    ),
    (
        "delete of null in a multi",
        opcode::MULTI,
        |out| multi(out, opcode::DELETE, null_and_int),
        "zxid=+1 error=-5",
    ),
    (
        "setData of null in a multi",
        opcode::MULTI,
        |out| multi(out, opcode::SET_DATA, null_and_ints),
        "zxid=+1 error=-5",
    ),
    (
        "check of null in a multi",
        opcode::MULTI,
        |out| multi(out, opcode::CHECK, null_and_int),
        "zxid=+1 error=-5",
    ),
    (
        "create of null with a null ACL in a multi",
        opcode::MULTI,
        |out| {
            multi(out, opcode::CREATE, |out| {
                (0..3).for_each(|_| null(out));
                out.put_int(0);
            });
        },
        "zxid=+0 error=-5",
    ),
    (
        "reconfig of nulls",
        opcode::RECONFIG,
        |out| {
            (0..3).for_each(|_| null(out));
            out.put_long(-1);
        },
        "zxid=+1 error=-123",
    ),
    (
        "auth with null for credentials of no digest",
        opcode::AUTH,
        |out| auth(out, Some("ip")),
        "zxid=0 error=0",
    ),
    ("a write in a multiRead behind a read", opcode::MULTI_READ, mixed, "zxid=+0 error=-5"),
    ("sasl where it is not offered", opcode::SASL, empty, "zxid=0 error=0 and (4) ffffffff"),
    (
        "createTTL in a multi, not with a flag of a TTL",
        opcode::MULTI,
        |out| multi(out, opcode::CREATE_TTL, with_useless_ttl),
        "zxid=+1 error=0 [1 false 0 Some(\"/plain\")] [-1 true -1]",
    ),
    (
        "createTTL in a multi, not with a flag",
        opcode::MULTI,
        |out| {
            multi(out, opcode::CREATE_TTL, |out| {
                out.put_text("/new");
                null_data_and_flag(out, 9);
                out.put_long(1_000);
            });
        },
        "zxid=+1 error=0 [-1 false -8 -8] [-1 true -1]",
    ),
    (
        "createContainer, not with a container's flag",
        opcode::CREATE_CONTAINER,
        |out| {
            out.put_text("/other");
            null_data_and_flag(out, 0);
        },
        CONTAINER,
    ),
    ("createTTL", opcode::CREATE_TTL, with_ttl, "zxid=+1 error=-6"),
    (
        "createTTL, not with a flag of a TTL",
        opcode::CREATE_TTL,
        with_useless_ttl,
        "zxid=+1 error=-8",
    ),
    (
        "create with a null ACL in a multi",
        opcode::MULTI,
        |out| multi(out, opcode::CREATE, null_acl),
        "zxid=+0 error=-5",
    ),
    (
        "createContainer with a null ACL in a multi",
        opcode::MULTI,
        |out| multi(out, opcode::CREATE_CONTAINER, null_acl),
        "zxid=+0 error=-5",
    ),
    (
        "createTTL with a null ACL in a multi",
        opcode::MULTI,
        |out| {
            multi(out, opcode::CREATE_TTL, |out| {
                null_acl(out);
                out.put_long(5);
            });
        },
        "zxid=+1 error=0 [-1 false -114 -114] [-1 true -1]",
    ),
    ("create with a null ACL", opcode::CREATE, null_acl, "zxid=+1 error=-114"),
    ("reconfig", opcode::RECONFIG, reconfig, "zxid=+1 error=-123"),
    ("reconfig that does not decode", opcode::RECONFIG, empty, "zxid=+0 error=-5"),
    (
        "getAllChildrenNumber of the empty path",
        opcode::GET_ALL_CHILDREN_NUMBER,
        |out| out.put_text(""),
        "zxid=+0 error=0 6",
    ),
    ("getAllChildrenNumber of null", opcode::GET_ALL_CHILDREN_NUMBER, null, "zxid=+0 error=-5"),
    ("getEphemerals of null", opcode::GET_EPHEMERALS, null, "zxid=+0 error=0 []"),
    (
        "whoAmI",
        opcode::WHO_AM_I,
        nothing,
        "zxid=+0 error=0 and (23) 00000001000000026970000000093132372e302e302e31",
    ),
    ("exists, no UTF-8", opcode::EXISTS, not_text, "zxid=+0 error=-101"),
    ("getData, no UTF-8", opcode::GET_DATA, not_text, "zxid=+0 error=-101"),
    ("delete, no UTF-8", opcode::DELETE, not_text_and_int, "zxid=+1 error=-101"),
    ("create, no UTF-8", opcode::CREATE, create_not_text, "zxid=+1 error=-8"),
    ("sync, no UTF-8", opcode::SYNC, not_text, "zxid=+0 error=0 Some(\"/\u{fffd}\")"),
    ("setWatches2 of nothing", opcode::SET_WATCHES2, no_watches, "zxid=+0 error=0"),
    ("addWatch", opcode::ADD_WATCH, root_and_int, "zxid=+0 error=0 and (4) 00000000"),
    ("addWatch, a mode that is none", opcode::ADD_WATCH, root_and_large_int, "zxid=+0 error=-5"),
    ("checkWatches", opcode::CHECK_WATCHES, root_and_int, "zxid=+0 error=-121"),
    ("removeWatches", opcode::REMOVE_WATCHES, root_and_int, "zxid=+0 error=-121"),
    (
        "removeWatches, a type that is none",
        opcode::REMOVE_WATCHES,
        root_and_large_int,
        "zxid=+0 error=-5",
    ),
    (
        "create, no UTF-8, in a multi",
        opcode::MULTI,
        |out| multi(out, opcode::CREATE, create_not_text),
        "zxid=+1 error=0 [-1 false -8 -8] [-1 true -1]",
    ),
    (
        "createTTL in a multi",
        opcode::MULTI,
        |out| multi(out, opcode::CREATE_TTL, with_ttl),
        "zxid=+1 error=0 [-1 false -6 -6] [-1 true -1]",
    ),
    (
        "createContainer in a multi",
        opcode::MULTI,
        |out| multi(out, opcode::CREATE_CONTAINER, container),
        "zxid=+1 error=0 [15 false 0 \"/new\" stat(czxid=+1 mzxid=+1 pzxid=+1 version=0 cversion=0 \
         aversion=0 owner=none bytes=0 children=0 touched=true)] [-1 true -1]",
    ),
];

const SET_NULL: &str = "zxid=+1 error=0 stat(czxid=0 mzxid=+1 pzxid=0 version=1 cversion=-1 aversion=0 \
                        owner=none bytes=0 children=1 touched=true)";

const CONTAINER: &str = "zxid=+1 error=0 \"/other\" stat(czxid=+1 mzxid=+1 pzxid=+1 version=0 \
                         cversion=0 aversion=0 owner=none bytes=0 children=0 touched=true)";

fn nothing(_: &mut Vec<u8>) {}

fn empty(out: &mut Vec<u8>) {
    out.put_buffer(Some(b""));
}

fn null(out: &mut Vec<u8>) {
    out.put_buffer(None);
}

fn null_and_ints(out: &mut Vec<u8>) {
    null(out);
    out.put_int(-1);
    out.put_int(-1);
}

fn null_and_int(out: &mut Vec<u8>) {
    null(out);
    out.put_int(1);
}

fn null_lists(out: &mut Vec<u8>) {
    out.put_long(0);
    (0..3).for_each(|_| null(out));
}

fn null_lists2(out: &mut Vec<u8>) {
    out.put_long(0);
    (0..5).for_each(|_| null(out));
}

fn no_watches(out: &mut Vec<u8>) {
    out.put_long(0);
    (0..5).for_each(|_| out.put_int(0));
}

fn root(out: &mut Vec<u8>) {
    out.put_text("/");
}

fn root_and_int(out: &mut Vec<u8>) {
    root(out);
    out.put_int(1);
}

fn root_and_large_int(out: &mut Vec<u8>) {
    root(out);
    out.put_int(6);
}

fn not_text(out: &mut Vec<u8>) {
    out.put_buffer(Some(b"/\xff"));
    out.put_bool(false);
}

fn not_text_and_int(out: &mut Vec<u8>) {
    out.put_buffer(Some(b"/\xff"));
    out.put_int(-1);
}

/// What a create has behind its path: null data, the open ACL, a flag.
fn null_data_and_flag(out: &mut Vec<u8>, flag: i32) {
    null(out);
    out.put_int(1);
    out.put_int(31);
    out.put_text("world");
    out.put_text("anyone");
    out.put_int(flag);
}

fn container(out: &mut Vec<u8>) {
    out.put_text("/new");
    null_data_and_flag(out, 4);
}

fn with_ttl(out: &mut Vec<u8>) {
    out.put_text("/new");
    null_data_and_flag(out, 5);
    out.put_long(1_000);
}

fn with_useless_ttl(out: &mut Vec<u8>) {
    out.put_text("/plain");
    null_data_and_flag(out, 0);
    out.put_long(1_000);
}

fn create_null(out: &mut Vec<u8>) {
    create_null_with(out, 0);
}

fn create_null_with(out: &mut Vec<u8>, flag: i32) {
    null(out);
    null_data_and_flag(out, flag);
}

fn not_there(out: &mut Vec<u8>) {
    null(out);
    out.put_bool(true);
}

fn root_and_null(out: &mut Vec<u8>) {
    root(out);
    null(out);
    out.put_int(-1);
}

fn auth(out: &mut Vec<u8>, scheme: Option<&str>) {
    out.put_int(0);
    out.put_buffer(scheme.map(str::as_bytes));
    null(out);
}

fn mixed(out: &mut Vec<u8>) {
    for (code, done) in [(opcode::GET_DATA, false), (opcode::DELETE, false), (-1, true)] {
        out.put_int(code);
        out.put_bool(done);
        out.put_int(-1);
        if !done {
            root_and_int(out);
        }
    }
}

fn null_acl(out: &mut Vec<u8>) {
    out.put_text("/new");
    null(out);
    null(out);
    out.put_int(0);
}

fn create_not_text(out: &mut Vec<u8>) {
    out.put_buffer(Some(b"/\xff"));
    null_data_and_flag(out, 0);
}

fn negative_acl(out: &mut Vec<u8>) {
    out.put_text("/new");
    null(out);
    out.put_int(-7);
    out.put_int(0);
}

fn reconfig(out: &mut Vec<u8>) {
    (0..3).for_each(|_| out.put_text(""));
    out.put_long(-1);
}

fn multi(out: &mut Vec<u8>, code: i32, body: fn(&mut Vec<u8>)) {
    multi_with(out, code, body);
}

fn multi_with(out: &mut Vec<u8>, code: i32, body: impl Fn(&mut Vec<u8>)) {
    for (code, done) in [(code, false), (-1, true)] {
        out.put_int(code);
        out.put_bool(done);
        out.put_int(-1);
        if !done {
            body(out);
        }
    }
}

#[test]
fn what_differs_on_purpose_differs_as_listed() {
    let real_server = RealServer::start("deliberate-real", &CONFIG);
    let server = Server::start("deliberate-ours", &CONFIG);
    let mut real = Side::new("real", real_server.address());
    let mut ours = Side::new("ours", server.address());
    for difference in differences() {
        let Difference { name, why, rounds, real: expected, ours: own } = difference;
        let got = answers(&mut real, &rounds);
        if let Some(expected) = expected {
            assert_eq!(got, expected, "real: {name} ({why})");
        }
        assert_eq!(answers(&mut ours, &rounds), own, "ours: {name} ({why})");
    }
}

#[test]
fn odd_requests_are_answered_as_the_real_server_does() {
    check_alike("odd", &CONFIG, &ALIKE);
}

/// What each of the creates makes of each flag, a time to live behind those that have one.
#[test]
fn every_create_with_every_flag_is_answered_as_the_real_server_does() {
    for (name, flags) in [("flags", ""), ("flags-ttl", "-Dzookeeper.extendedTypesEnabled=true")] {
        let (real_server, server) = both(name, &CONFIG, flags);
        let mut real = Side::new("real", real_server.address());
        let mut ours = Side::new("ours", server.address());
        let mut generator = Generator::new(1);
        let mut made = 0;
        for (code, flag, ttl_ms, in_multi) in creates() {
            made += 1;
            let path = format!("/a{made}-");
            let asked =
                raw_with(&mut generator, if in_multi { opcode::MULTI } else { code }, |out| {
                    let create = |out: &mut Vec<u8>| {
                        out.put_text(&path);
                        null_data_and_flag(out, flag);
                        if let Some(ttl_ms) = ttl_ms {
                            out.put_long(ttl_ms);
                        }
                    };
                    match in_multi {
                        true => multi_with(out, code, create),
                        false => create(out),
                    }
                });
            let data = ReadRequest { kind: ReadKind::GetData, path: &path, watch: false };
            let names = ReadRequest { kind: ReadKind::GetChildren2, path: "/", watch: false };
            let [data, names] = [data, names].map(|read| generator.asked(&Request::Read(read)));
            let rounds = [burst(vec![asked]), burst(vec![data, names])];
            let (expected, got) = (answers(&mut real, &rounds), answers(&mut ours, &rounds));
            let what = format!("opcode {code}, flag {flag}, {ttl_ms:?}, in a multi: {in_multi}");
            assert_eq!(expected, got, "{name}: {what}");
        }
    }
}

/// Opcode, flag, time to live, and whether it stands in a multi.
fn creates() -> Vec<(i32, i32, Option<i64>, bool)> {
    let mut all = Vec::new();
    let codes = [opcode::CREATE, opcode::CREATE2, opcode::CREATE_CONTAINER, opcode::CREATE_TTL];
    for code in codes {
        let times: &[Option<i64>] = match code {
            opcode::CREATE_TTL => &[Some(1 << 39), Some(0), Some(-1), Some(1 << 40)],
            _ => &[None],
        };
        for flag in [0, 1, 2, 3, 4, 5, 6, 7, 8, -1, 0x1_0000, i32::MAX, i32::MIN] {
            for &ttl_ms in times {
                let ends_the_real_server =
                    ttl_ms.is_some_and(|ms| ms < 0) && (0..5).contains(&flag);
                if !ends_the_real_server {
                    all.push((code, flag, ttl_ms, false));
                }
                all.push((code, flag, ttl_ms, true));
            }
        }
    }
    all
}

/// Opcode and body.
type Bare = (i32, fn(&mut Vec<u8>));

#[test]
fn credentials_of_null_end_the_connection_as_that_of_the_real_server() {
    let (real_server, server) = both("null-auth", &CONFIG, "");
    let mut real = Side::new("real", real_server.address());
    let mut ours = Side::new("ours", server.address());
    let mut generator = Generator::new(1);
    let refused: &[&str] = &["zxid=0 error=-115", "End"];
    let rows: [(Bare, &[&str]); 4] = [
        ((opcode::AUTH, |out| auth(out, None)), refused),
        ((opcode::AUTH, |out| auth(out, Some("digest"))), refused),
        ((opcode::AUTH, |out| auth(out, Some("x509"))), refused),
        ((opcode::SASL, null), &["End"]),
    ];
    for ((code, body), expected) in rows {
        let asked = Asked { ends: true, alone: true, ..raw(&mut generator, code, body) };
        let rounds = [burst(vec![asked])];
        assert_eq!(answers(&mut real, &rounds), expected, "real: opcode {code}");
        assert_eq!(answers(&mut ours, &rounds), expected, "ours: opcode {code}");
    }
}

#[test]
fn watches_of_null_are_there_and_those_before_a_null_are_set_as_by_the_real_server() {
    let (real_server, server) = both("null-watches", &CONFIG, "");
    let mut real = Side::new("real", real_server.address());
    let mut ours = Side::new("ours", server.address());
    let mut generator = Generator::new(1);
    let set_watches: fn(&mut Vec<u8>) = |out| {
        out.put_long(0);
        out.put_int(3);
        out.put_text("/no");
        null(out);
        out.put_text("/neither");
        (0..2).for_each(|_| null(out));
    };
    let create: fn(&mut Vec<u8>) = |out| {
        out.put_text("/new");
        null_data_and_flag(out, 0);
    };
    let of_any: fn(&mut Vec<u8>) = |out| {
        null(out);
        out.put_int(3);
    };
    let asked: [Bare; 8] = [
        (opcode::CHECK_WATCHES, of_any),
        (opcode::ADD_WATCH, null_and_int),
        (opcode::CHECK_WATCHES, of_any),
        (opcode::CREATE, create),
        (opcode::REMOVE_WATCHES, of_any),
        (opcode::REMOVE_WATCHES, of_any),
        (opcode::SET_WATCHES, set_watches),
        (opcode::PING, nothing),
    ];
    let asked = asked.map(|(code, body)| raw(&mut generator, code, body));
    let rounds = asked.map(|asked| burst(vec![asked]));
    let expected = answers(&mut real, &rounds);
    assert_eq!(expected.iter().filter(|line| line.starts_with("event")).count(), 1, "{expected:?}");
    assert_eq!(answers(&mut ours, &rounds), expected);
}

#[test]
fn reconfig_that_is_enabled_is_not_for_a_server_alone() {
    let row = ("reconfig", opcode::RECONFIG, reconfig as fn(&mut Vec<u8>), "zxid=+1 error=-6");
    check_alike("reconfig", &["reconfigEnabled=true"], &[row]);
}

fn check_alike(name: &str, config: &[&str], rows: &[OddRow]) {
    let real_server = RealServer::start(&format!("{name}-real"), config);
    let server = Server::start(&format!("{name}-ours"), config);
    let mut real = Side::new("real", real_server.address());
    let mut ours = Side::new("ours", server.address());
    let mut generator = Generator::new(1);
    for (name, code, body, expected) in rows {
        let rounds = [burst(vec![raw(&mut generator, *code, *body)])];
        assert_eq!(answers(&mut real, &rounds), [*expected], "real: {name}");
        assert_eq!(answers(&mut ours, &rounds), [*expected], "ours: {name}");
    }
}

/// Runs the rounds in a new session of slot 0 and gives the answers without xids and pings.
fn answers(side: &mut Side, rounds: &[Round]) -> Vec<String> {
    side.run(&greet_anew(0)).unwrap();
    side.begin_seed();
    let mut answers = Vec::new();
    for line in rounds.iter().flat_map(|round| side.run_alone(round).unwrap()).collect::<Vec<_>>() {
        let line = line.trim_start_matches("slot 0 ");
        match line.strip_prefix("reply xid=").and_then(|rest| rest.split_once(' ')) {
            Some(("-2", _)) => {}
            Some((_, answer)) => answers.push(answer.to_string()),
            None => answers.push(line.to_string()),
        }
    }
    side.run(&Round::Drop(0)).unwrap();
    answers
}

fn differences() -> Vec<Difference> {
    let mut generator = Generator::new(1);
    let mut all = Vec::new();
    for (name, why, code, body, real, ours) in ROWS {
        let rounds = vec![burst(vec![raw(&mut generator, code, body)])];
        all.push(Difference { name, why, rounds, real: Some(real), ours });
    }
    all.push(Difference {
        name: "sync beyond the basic plane",
        why: "text is UTF-8; Java writes each half of a surrogate pair as a character of its own",
        rounds: vec![burst(vec![generator.asked(&Request::Sync { path: Some("/\u{10000}") })])],
        // As our decoder reads what is not UTF-8.
        real: Some(&["zxid=+0 error=0 Some(\"/\u{fffd}\")"]),
        ours: &["zxid=+0 error=0 Some(\"/\u{10000}\")"],
    });
    all.push(wrong_password(&mut generator));
    all.push(write_behind_set_acl(&mut generator));
    all.push(auth_behind_reads(&mut generator));
    // Last: the zxid in what the real server says is none, and leaves the side confused.
    let create_session = raw(&mut generator, -10, |out| out.put_int(10_000));
    all.push(Difference {
        name: "createSession",
        why: INTERNAL,
        rounds: vec![burst(vec![create_session])],
        real: None,
        ours: ENDED,
    });
    all
}

fn wrong_password(generator: &mut Generator) -> Difference {
    let greeting = Greeting {
        slot: 0,
        timeout_ms: 300_000,
        read_only: None,
        protocol_version: 0,
        session: AskedSession::WrongPassword,
        seen_ahead: -1_000_000,
    };
    let sync = generator.asked(&Request::Sync { path: Some("/") });
    Difference {
        name: "a wrong password for a session that is connected",
        why: "who does not know the password cannot cut another's connection; \
              `ZooKeeperServer.processConnectRequest` closes it before it looks at the password",
        rounds: vec![Round::Greet(greeting), burst(vec![sync])],
        real: Some(&["timeout=0 same session=false read_only=None", "End", "End"]),
        ours: &[
            "timeout=0 same session=false read_only=None",
            "End",
            "zxid=+0 error=0 Some(\"/\")",
        ],
    }
}

fn write_behind_set_acl(generator: &mut Generator) -> Difference {
    let create = |generator: &mut Generator, path: &str| {
        generator.asked(&Request::Write(WriteRequest::Create {
            kind: CreateKind::Create,
            path,
            data: None,
            acl: vec![entry(31, "world", "anyone")],
            flags: 0,
            ttl_ms: -1,
        }))
    };
    let parent = create(generator, "/p");
    let set_acl = generator.asked(&Request::Write(WriteRequest::SetAcl {
        path: "/p",
        acl: vec![entry(1, "world", "anyone")],
        version: -1,
    }));
    let child = create(generator, "/p/c");
    Difference {
        name: "a write behind a setACL",
        why: "it is judged by the new ACL; the real server judges it by the old one as long as the \
              setACL is under way",
        rounds: vec![burst(vec![parent, set_acl, child])],
        real: None,
        ours: &[
            "zxid=+1 error=0 Some(\"/p\")",
            "zxid=+2 error=0 stat(czxid=+1 mzxid=+1 pzxid=+1 version=0 cversion=0 aversion=1 \
             owner=none bytes=0 children=0 touched=true)",
            "zxid=+3 error=-102",
        ],
    }
}

fn auth_behind_reads(generator: &mut Generator) -> Difference {
    let read = ReadRequest { kind: ReadKind::Exists, path: "/no", watch: false };
    let read = generator.asked(&Request::Read(read));
    let auth = Request::Auth { scheme: "digest", credentials: Some(b"a:b") };
    let auth = generator.asked(&auth);
    Difference {
        name: "an auth packet behind a read",
        why: "it is answered in its turn; the real server answers it as soon as it has read it",
        rounds: vec![burst(vec![read, auth])],
        real: None,
        ours: &["zxid=+0 error=-101", "zxid=0 error=0"],
    }
}

fn burst(asked: Vec<Asked>) -> Round {
    Round::Burst(Burst { slot: 0, asked, pieces: Vec::new() })
}

/// A request with a body of any form.
fn raw(generator: &mut Generator, code: i32, body: fn(&mut Vec<u8>)) -> Asked {
    raw_with(generator, code, body)
}

fn raw_with(generator: &mut Generator, code: i32, body: impl Fn(&mut Vec<u8>)) -> Asked {
    let like = generator.asked(&Request::Sync { path: Some("/") });
    let mut bytes = Vec::new();
    let start = begin_frame(&mut bytes);
    bytes.put_int(like.xid);
    bytes.put_int(code);
    body(&mut bytes);
    end_frame(&mut bytes, start);
    Asked { bytes, body: body_of(code).0, shown: format!("opcode {code}"), ..like }
}
