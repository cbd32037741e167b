//! Tests of deliberate differences between this server and the real one, each with its reason, and
//! of odd requests that both answer alike. Each case is sent to both servers, and the answers of
//! both are checked. The random seeds avoid the differences.

use zk::jute::{JuteWrite, begin_frame, end_frame};
use zk::request::{CreateKind, ReadKind, ReadRequest, Request, WriteRequest, opcode};

use bench::differential::generate::{
    Asked, AskedSession, Burst, Generator, Greeting, Round, body_of, entry,
};
use bench::differential::greet_anew;
use bench::differential::side::Side;

use super::{CONFIG, both};
use crate::server::{RealServer, Server};

/// A case in which the two servers answer differently.
struct Difference {
    name: &'static str,
    why: &'static str,
    rounds: Vec<Round>,
    /// The real server's answers; `None` if they vary.
    real: Option<&'static [&'static str]>,
    ours: &'static [&'static str],
}

const INTERNAL: &str = "an operation of servers among themselves, unknown to ours from a client";

const ENDED: &[&str] = &["zxid=-1 error=-6", "End"];
const MALFORMED: &[&str] = &["zxid=+0 error=-5"];

/// A single request that the two servers answer differently.
struct Row {
    name: &'static str,
    why: &'static str,
    /// The opcode.
    code: i32,
    /// Appends the body of the request.
    body: fn(&mut Vec<u8>),
    /// The real server's answers.
    real: &'static [&'static str],
    /// Our answers.
    ours: &'static [&'static str],
}

/// The single requests that the two servers answer differently.
const ROWS: [Row; 4] = [
    Row {
        name: "deleteContainer",
        why: INTERNAL,
        code: 20,
        body: root,
        real: &["zxid=+1 error=-8"],
        ours: ENDED,
    },
    Row {
        name: "a write in a multiRead",
        why: "an error has no body; the real server sends an empty list of results behind it",
        code: opcode::MULTI_READ,
        body: |out| multi(out, opcode::DELETE, root_and_int),
        real: &["zxid=+0 error=-5 [-1 true -1]"],
        ours: MALFORMED,
    },
    Row {
        name: "null in a multiRead",
        why: "the same",
        code: opcode::MULTI_READ,
        body: |out| multi(out, opcode::GET_DATA, not_there),
        real: &["zxid=+0 error=-5 [-1 true -1]"],
        ours: MALFORMED,
    },
    Row {
        name: "an ACL with null for an id",
        why: "it is an invalid ACL; Java trips over it, unless the scheme is not known or `auth`",
        code: opcode::CREATE,
        body: |out| {
            out.put_text("/new");
            null(out);
            out.put_int(1);
            out.put_int(31);
            out.put_text("world");
            null(out);
            out.put_int(0);
        },
        real: &["zxid=+1 error=-5"],
        ours: &["zxid=+1 error=-114"],
    },
];

/// An unusual request that both servers answer alike.
struct OddRow {
    name: &'static str,
    /// The opcode.
    code: i32,
    /// Appends the body of the request.
    body: fn(&mut Vec<u8>),
    answer: &'static str,
}

/// Unusual requests that both servers answer alike, and that the random seeds do not send.
const ALIKE: [OddRow; 64] = [
    OddRow { name: "sync of null", code: opcode::SYNC, body: null, answer: "zxid=+0 error=0 None" },
    OddRow {
        name: "create of null",
        code: opcode::CREATE,
        body: create_null,
        answer: "zxid=+1 error=-5",
    },
    OddRow {
        name: "create2 of null",
        code: opcode::CREATE2,
        body: create_null,
        answer: "zxid=+1 error=-5",
    },
    OddRow {
        name: "createContainer of null",
        code: opcode::CREATE_CONTAINER,
        body: create_null,
        answer: "zxid=+1 error=-5",
    },
    OddRow {
        name: "create of null, unknown flag",
        code: opcode::CREATE,
        body: |out| create_null_with(out, 9),
        answer: "zxid=+1 error=-8",
    },
    OddRow {
        name: "create of null, TTL flag",
        code: opcode::CREATE,
        body: |out| create_null_with(out, 5),
        answer: "zxid=+1 error=-6",
    },
    OddRow {
        name: "createTTL of null",
        code: opcode::CREATE_TTL,
        body: |out| {
            create_null_with(out, 5);
            out.put_long(5);
        },
        answer: "zxid=+1 error=-6",
    },
    OddRow {
        name: "createTTL of null, not with a flag of a TTL",
        code: opcode::CREATE_TTL,
        body: |out| {
            create_null_with(out, 0);
            out.put_long(5);
        },
        answer: "zxid=+1 error=-8",
    },
    OddRow {
        name: "delete of null",
        code: opcode::DELETE,
        body: null_and_ints,
        answer: "zxid=+1 error=-5",
    },
    OddRow {
        name: "setData of null",
        code: opcode::SET_DATA,
        body: null_and_ints,
        answer: "zxid=+1 error=-8",
    },
    OddRow {
        name: "setACL of null",
        code: opcode::SET_ACL,
        body: null_and_ints,
        answer: "zxid=+1 error=-8",
    },
    OddRow {
        name: "setACL with a null ACL",
        code: opcode::SET_ACL,
        body: root_and_null,
        answer: "zxid=+1 error=-114",
    },
    OddRow {
        name: "setData with null data of nothing",
        code: opcode::SET_DATA,
        body: root_and_null,
        answer: SET_NULL,
    },
    OddRow {
        name: "exists of null",
        code: opcode::EXISTS,
        body: not_there,
        answer: "zxid=+0 error=-5",
    },
    OddRow {
        name: "getData of null",
        code: opcode::GET_DATA,
        body: not_there,
        answer: "zxid=+0 error=-5",
    },
    OddRow {
        name: "getACL of null",
        code: opcode::GET_ACL,
        body: not_there,
        answer: "zxid=+0 error=-5",
    },
    OddRow {
        name: "getChildren of null",
        code: opcode::GET_CHILDREN,
        body: not_there,
        answer: "zxid=+0 error=-5",
    },
    OddRow {
        name: "getChildren2 of null",
        code: opcode::GET_CHILDREN2,
        body: not_there,
        answer: "zxid=+0 error=-5",
    },
    OddRow {
        name: "addWatch of null",
        code: opcode::ADD_WATCH,
        body: null_and_int,
        answer: "zxid=+0 error=0 and (4) 00000000",
    },
    OddRow {
        name: "checkWatches of null",
        code: opcode::CHECK_WATCHES,
        body: null_and_int,
        answer: "zxid=+0 error=-121",
    },
    OddRow {
        name: "removeWatches of null",
        code: opcode::REMOVE_WATCHES,
        body: null_and_int,
        answer: "zxid=+0 error=-121",
    },
    OddRow {
        name: "setWatches with null lists",
        code: opcode::SET_WATCHES,
        body: null_lists,
        answer: "zxid=+0 error=-5",
    },
    OddRow {
        name: "setWatches2 with null lists",
        code: opcode::SET_WATCHES2,
        body: null_lists2,
        answer: "zxid=+0 error=-5",
    },
    OddRow {
        name: "setWatches2 with null among those that stay",
        code: opcode::SET_WATCHES2,
        body: |out| {
            out.put_long(0);
            (0..3).for_each(|_| out.put_int(0));
            (0..2).for_each(|_| {
                out.put_int(1);
                null(out);
            });
        },
        answer: "zxid=+0 error=0",
    },
    OddRow {
        name: "setWatches with negative counts",
        code: opcode::SET_WATCHES,
        body: |out| {
            out.put_long(0);
            (0..3).for_each(|_| out.put_int(-7));
        },
        answer: "zxid=+0 error=0",
    },
    OddRow {
        name: "a negative count of ACL entries",
        code: opcode::CREATE,
        body: negative_acl,
        answer: "zxid=+1 error=-114",
    },
    OddRow {
        name: "create of null in a multi",
        code: opcode::MULTI,
        body: |out| multi(out, opcode::CREATE, create_null),
        answer: "zxid=+1 error=-5",
    },
    OddRow {
        name: "delete of null in a multi",
        code: opcode::MULTI,
        body: |out| multi(out, opcode::DELETE, null_and_int),
        answer: "zxid=+1 error=-5",
    },
    OddRow {
        name: "setData of null in a multi",
        code: opcode::MULTI,
        body: |out| multi(out, opcode::SET_DATA, null_and_ints),
        answer: "zxid=+1 error=-5",
    },
    OddRow {
        name: "check of null in a multi",
        code: opcode::MULTI,
        body: |out| multi(out, opcode::CHECK, null_and_int),
        answer: "zxid=+1 error=-5",
    },
    OddRow {
        name: "create of null with a null ACL in a multi",
        code: opcode::MULTI,
        body: |out| {
            multi(out, opcode::CREATE, |out| {
                (0..3).for_each(|_| null(out));
                out.put_int(0);
            });
        },
        answer: "zxid=+0 error=-5",
    },
    OddRow {
        name: "reconfig of nulls",
        code: opcode::RECONFIG,
        body: |out| {
            (0..3).for_each(|_| null(out));
            out.put_long(-1);
        },
        answer: "zxid=+1 error=-123",
    },
    OddRow {
        name: "auth with null for credentials of no digest",
        code: opcode::AUTH,
        body: |out| auth(out, Some("ip")),
        answer: "zxid=0 error=0",
    },
    OddRow {
        name: "a write in a multiRead behind a read",
        code: opcode::MULTI_READ,
        body: mixed,
        answer: "zxid=+0 error=-5",
    },
    OddRow {
        name: "sasl where it is not offered",
        code: opcode::SASL,
        body: empty,
        answer: "zxid=0 error=0 and (4) ffffffff",
    },
    OddRow {
        name: "createTTL in a multi, not with a flag of a TTL",
        code: opcode::MULTI,
        body: |out| multi(out, opcode::CREATE_TTL, with_useless_ttl),
        answer: "zxid=+1 error=0 [1 false 0 Some(\"/plain\")] [-1 true -1]",
    },
    OddRow {
        name: "createTTL in a multi, not with a flag",
        code: opcode::MULTI,
        body: |out| {
            multi(out, opcode::CREATE_TTL, |out| {
                out.put_text("/new");
                null_data_and_flag(out, 9);
                out.put_long(1_000);
            });
        },
        answer: "zxid=+1 error=0 [-1 false -8 -8] [-1 true -1]",
    },
    OddRow {
        name: "createContainer, not with a container's flag",
        code: opcode::CREATE_CONTAINER,
        body: |out| {
            out.put_text("/other");
            null_data_and_flag(out, 0);
        },
        answer: CONTAINER,
    },
    OddRow {
        name: "createTTL",
        code: opcode::CREATE_TTL,
        body: with_ttl,
        answer: "zxid=+1 error=-6",
    },
    OddRow {
        name: "createTTL, not with a flag of a TTL",
        code: opcode::CREATE_TTL,
        body: with_useless_ttl,
        answer: "zxid=+1 error=-8",
    },
    OddRow {
        name: "create with a null ACL in a multi",
        code: opcode::MULTI,
        body: |out| multi(out, opcode::CREATE, null_acl),
        answer: "zxid=+0 error=-5",
    },
    OddRow {
        name: "createContainer with a null ACL in a multi",
        code: opcode::MULTI,
        body: |out| multi(out, opcode::CREATE_CONTAINER, null_acl),
        answer: "zxid=+0 error=-5",
    },
    OddRow {
        name: "createTTL with a null ACL in a multi",
        code: opcode::MULTI,
        body: |out| {
            multi(out, opcode::CREATE_TTL, |out| {
                null_acl(out);
                out.put_long(5);
            });
        },
        answer: "zxid=+1 error=0 [-1 false -114 -114] [-1 true -1]",
    },
    OddRow {
        name: "create with a null ACL",
        code: opcode::CREATE,
        body: null_acl,
        answer: "zxid=+1 error=-114",
    },
    OddRow {
        name: "reconfig",
        code: opcode::RECONFIG,
        body: reconfig,
        answer: "zxid=+1 error=-123",
    },
    OddRow {
        name: "reconfig that does not decode",
        code: opcode::RECONFIG,
        body: empty,
        answer: "zxid=+0 error=-5",
    },
    OddRow {
        name: "getAllChildrenNumber of the empty path",
        code: opcode::GET_ALL_CHILDREN_NUMBER,
        body: |out| out.put_text(""),
        answer: "zxid=+0 error=0 6",
    },
    OddRow {
        name: "getAllChildrenNumber of null",
        code: opcode::GET_ALL_CHILDREN_NUMBER,
        body: null,
        answer: "zxid=+0 error=-5",
    },
    OddRow {
        name: "getEphemerals of null",
        code: opcode::GET_EPHEMERALS,
        body: null,
        answer: "zxid=+0 error=0 []",
    },
    OddRow {
        name: "whoAmI",
        code: opcode::WHO_AM_I,
        body: nothing,
        answer: "zxid=+0 error=0 and (23) 00000001000000026970000000093132372e302e302e31",
    },
    OddRow {
        name: "exists, no UTF-8",
        code: opcode::EXISTS,
        body: not_text,
        answer: "zxid=+0 error=-101",
    },
    OddRow {
        name: "getData, no UTF-8",
        code: opcode::GET_DATA,
        body: not_text,
        answer: "zxid=+0 error=-101",
    },
    OddRow {
        name: "delete, no UTF-8",
        code: opcode::DELETE,
        body: not_text_and_int,
        answer: "zxid=+1 error=-101",
    },
    OddRow {
        name: "create, no UTF-8",
        code: opcode::CREATE,
        body: create_not_text,
        answer: "zxid=+1 error=-8",
    },
    OddRow {
        name: "sync, no UTF-8",
        code: opcode::SYNC,
        body: not_text,
        answer: "zxid=+0 error=0 Some(\"/\u{fffd}\")",
    },
    OddRow {
        name: "setWatches2 of nothing",
        code: opcode::SET_WATCHES2,
        body: no_watches,
        answer: "zxid=+0 error=0",
    },
    OddRow {
        name: "addWatch",
        code: opcode::ADD_WATCH,
        body: root_and_int,
        answer: "zxid=+0 error=0 and (4) 00000000",
    },
    OddRow {
        name: "addWatch, a mode that is none",
        code: opcode::ADD_WATCH,
        body: root_and_large_int,
        answer: "zxid=+0 error=-5",
    },
    OddRow {
        name: "checkWatches",
        code: opcode::CHECK_WATCHES,
        body: root_and_int,
        answer: "zxid=+0 error=-121",
    },
    OddRow {
        name: "removeWatches",
        code: opcode::REMOVE_WATCHES,
        body: root_and_int,
        answer: "zxid=+0 error=-121",
    },
    OddRow {
        name: "removeWatches, a type that is none",
        code: opcode::REMOVE_WATCHES,
        body: root_and_large_int,
        answer: "zxid=+0 error=-5",
    },
    OddRow {
        name: "create, no UTF-8, in a multi",
        code: opcode::MULTI,
        body: |out| multi(out, opcode::CREATE, create_not_text),
        answer: "zxid=+1 error=0 [-1 false -8 -8] [-1 true -1]",
    },
    OddRow {
        name: "createTTL in a multi",
        code: opcode::MULTI,
        body: |out| multi(out, opcode::CREATE_TTL, with_ttl),
        answer: "zxid=+1 error=0 [-1 false -6 -6] [-1 true -1]",
    },
    OddRow {
        name: "createContainer in a multi",
        code: opcode::MULTI,
        body: |out| multi(out, opcode::CREATE_CONTAINER, container),
        answer: "zxid=+1 error=0 [15 false 0 \"/new\" stat(czxid=+1 mzxid=+1 pzxid=+1 version=0 cversion=0 \
         aversion=0 owner=none bytes=0 children=0 touched=true)] [-1 true -1]",
    },
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

/// Appends what follows the path in a create: null data, the open ACL, and a flag.
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

/// Sends each opcode of create with each flag, to both servers. A createTTL also has a time to
/// live.
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

/// All these creates: opcode, flag, time to live, and whether it is sent in a multi.
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

/// An opcode, and a function that appends the body.
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
    let row = OddRow {
        name: "reconfig",
        code: opcode::RECONFIG,
        body: reconfig,
        answer: "zxid=+1 error=-6",
    };
    check_alike("reconfig", &["reconfigEnabled=true"], &[row]);
}

fn check_alike(name: &str, config: &[&str], rows: &[OddRow]) {
    let real_server = RealServer::start(&format!("{name}-real"), config);
    let server = Server::start(&format!("{name}-ours"), config);
    let mut real = Side::new("real", real_server.address());
    let mut ours = Side::new("ours", server.address());
    let mut generator = Generator::new(1);
    for OddRow { name, code, body, answer } in rows {
        let rounds = [burst(vec![raw(&mut generator, *code, *body)])];
        assert_eq!(answers(&mut real, &rounds), [*answer], "real: {name}");
        assert_eq!(answers(&mut ours, &rounds), [*answer], "ours: {name}");
    }
}

/// Runs the rounds in a new session in slot 0. Returns the answers, without xids and pings.
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
    for Row { name, why, code, body, real, ours } in ROWS {
        let rounds = vec![burst(vec![raw(&mut generator, code, body)])];
        all.push(Difference { name, why, rounds, real: Some(real), ours });
    }
    all.push(Difference {
        name: "sync beyond the basic plane",
        why: "text is UTF-8; Java writes each half of a surrogate pair as a character of its own",
        rounds: vec![burst(vec![generator.asked(&Request::Sync { path: Some("/\u{10000}") })])],
        // Our decoder replaces a string that is not UTF-8.
        real: Some(&["zxid=+0 error=0 Some(\"/\u{fffd}\")"]),
        ours: &["zxid=+0 error=0 Some(\"/\u{10000}\")"],
    });
    all.push(wrong_password(&mut generator));
    all.push(write_behind_set_acl(&mut generator));
    all.push(auth_behind_reads(&mut generator));
    // This case comes last, because the real server's answer has no zxid, and the side cannot go on
    // with that.
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

/// A request with an arbitrary body.
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
