use super::*;
use machine::zk::command::AskedAcl;
use machine::{
    Changes, Command, ConnectionId, CreateMode, Identity, Machine, Op, Origin, Query, QueryKind,
    SessionId, Stamp, ZkCommand,
};

/// A tree with `/a` (data `x`, two children, an ACL with a digest) and `/null`, which has no data.
fn machine() -> Machine {
    let mut machine = Machine::default();
    let session = SessionId(1);
    let entry =
        |perms, scheme: &str, id: &str| AclEntry { perms, scheme: scheme.into(), id: id.into() };
    let acl =
        vec![entry(5, "world", "anyone"), entry(31, "digest", "u:hash"), entry(1, "ip", "::1")];
    let create = |path, data, acl| {
        Command::Zk(ZkCommand::Write {
            session,
            op: Op::Create {
                path,
                malformed: false,
                data,
                acl,
                mode: CreateMode::Persistent,
                ttl_ms: -1,
            },
        })
    };
    let commands = [
        Command::Zk(ZkCommand::OpenSession { session, password: [0; 16], timeout_ms: 1 }),
        create("/a", Some(b"x".as_slice()), AskedAcl::Entries(acl)),
        create("/a/one", Some(b""), AskedAcl::Open),
        create("/a/two", Some(b""), AskedAcl::Open),
        create("/null", None, AskedAcl::Open),
    ];
    for command in commands {
        let (origin, connection) = (Origin::default(), ConnectionId(0));
        let stamp = Stamp { time_ms: 5, origin, connection, identities: &[] };
        let reply = machine.apply(&stamp, &command, &mut Changes::default());
        assert!(matches!(reply.outcome, machine::Outcome::Zk(Ok(_))), "{command:?}");
    }
    machine
}

const STAT: Stat = Stat {
    czxid: 1,
    mzxid: 2,
    ctime: 3,
    mtime: 4,
    version: 5,
    cversion: 6,
    aversion: 7,
    ephemeral_owner: -8,
    data_bytes: 9,
    child_count: 10,
    pzxid: 11,
};

/// The header of the only frame in `out`, and a reader of its body. Fails unless the frame's length
/// is right.
fn open(out: &[u8]) -> (ReplyHeader, JuteReader<'_>) {
    let mut length = JuteReader::new(out);
    assert_eq!(length.int().unwrap() as usize, out.len() - 4);
    let mut reader = JuteReader::new(&out[4..]);
    (ReplyHeader::decode(&mut reader).unwrap(), reader)
}

fn header(xid: i32, zxid: i64, error: i32) -> ReplyHeader {
    ReplyHeader { xid, zxid, error: ErrorCode(error) }
}

#[test]
fn a_stat_is_read_back() {
    let mut out = Vec::new();
    encode_stat(&STAT, &mut out);
    assert_eq!(out.len(), crate::limits::STAT_BYTES);
    assert_eq!(decode_stat(&mut JuteReader::new(&out)), Ok(STAT));
    for end in 0..out.len() {
        assert!(decode_stat(&mut JuteReader::new(&out[..end])).is_err(), "cut at {end}");
    }
}

#[test]
fn connect_responses_with_and_without_read_only_are_read_back() {
    for read_only in [None, Some(false), Some(true)] {
        let response = ConnectResponse { timeout_ms: 9, session: -3, password: [7; 16], read_only };
        let mut out = Vec::new();
        response.encode(&mut out);
        assert_eq!(out.len(), 4 + if read_only.is_some() { 37 } else { 36 });
        assert_eq!(ConnectResponse::decode(&out[4..]), Ok(response));
        for end in 4..40 {
            assert!(ConnectResponse::decode(&out[4..end]).is_err(), "cut at {end}");
        }
    }
}

#[test]
fn a_refused_connect_is_all_zeroes() {
    for (asked, expected) in [(None, None), (Some(true), Some(false)), (Some(false), Some(false))] {
        let refused = ConnectResponse::refused(asked);
        let mut out = Vec::new();
        refused.encode(&mut out);
        assert_eq!(refused.read_only, expected);
        assert!(out[4..20].iter().chain(&out[24..]).all(|&byte| byte == 0));
    }
}

#[test]
fn an_empty_response_is_its_header() {
    let mut out = Vec::new();
    encode_empty(header(-2, 0x99, -112), &mut out);
    assert_eq!(out.len(), 4 + crate::limits::REPLY_HEADER_BYTES);
    assert_eq!(open(&out).0, header(-2, 0x99, -112));
}

/// Checks the header and body of the response to a write.
fn check_write(form: &WriteForm, outcome: Result<ZkOutcome, Refusal>, error: i32, body: &[u8]) {
    let mut out = Vec::new();
    encode_write(3, 4, form, &outcome, &mut out);
    let (found, reader) = open(&out);
    assert_eq!(found, header(3, 4, error), "{outcome:?}");
    assert_eq!(&out[4 + reader.offset()..], body, "{outcome:?}");
}

fn bytes(put: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out);
    out
}

fn created() -> ZkOutcome {
    ZkOutcome::Created { path: "/a".into(), stat: STAT }
}

#[test]
fn writes_are_answered_with_what_their_kind_gives() {
    let path = bytes(|out| out.put_text("/a"));
    let stat = bytes(|out| encode_stat(&STAT, out));
    let both = [path.clone(), stat.clone()].concat();
    check_write(&WriteForm::Create, Ok(created()), 0, &path);
    check_write(&WriteForm::CreateWithStat, Ok(created()), 0, &both);
    check_write(&WriteForm::Delete, Ok(ZkOutcome::Deleted), 0, b"");
    check_write(&WriteForm::SetData, Ok(ZkOutcome::DataSet(STAT)), 0, &stat);
    check_write(&WriteForm::SetAcl, Ok(ZkOutcome::AclSet(STAT)), 0, &stat);
    check_write(&WriteForm::Check, Ok(ZkOutcome::Checked), 0, b"");
}

#[test]
fn refusals_are_answered_with_their_code_and_no_body() {
    let codes = [
        (Refusal::BadArguments, -8),
        (Refusal::NoNode, -101),
        (Refusal::NoAuth, -102),
        (Refusal::BadVersion, -103),
        (Refusal::NoChildrenForEphemerals, -108),
        (Refusal::NodeExists, -110),
        (Refusal::NotEmpty, -111),
        (Refusal::InvalidAcl, -114),
        (Refusal::SessionExpired, -112),
        (Refusal::SessionMoved, -118),
        (Refusal::Unimplemented, -6),
    ];
    for (refusal, code) in codes {
        check_write(&WriteForm::Create, Err(refusal.clone()), code, b"");
        check_write(&WriteForm::Multi(Box::new([WriteForm::Delete])), Err(refusal), code, b"");
        assert_ne!(ErrorCode(code).name(), "unknown error");
    }
}

#[test]
fn what_was_refused_before_the_log_is_so_unless_its_session_is_gone() {
    for error in [ErrorCode::MARSHALLING_ERROR, ErrorCode::RECONFIG_DISABLED] {
        check_write(&WriteForm::Refused(error), Err(Refusal::BadArguments), error.0, b"");
        check_write(&WriteForm::Refused(error), Err(Refusal::SessionExpired), -112, b"");
    }
}

#[test]
fn a_multi_is_answered_with_a_result_each() {
    let forms = [
        WriteForm::Create,
        WriteForm::CreateWithStat,
        WriteForm::Delete,
        WriteForm::SetData,
        WriteForm::Check,
    ];
    let outcomes = vec![
        created(),
        created(),
        ZkOutcome::Deleted,
        ZkOutcome::DataSet(STAT),
        ZkOutcome::Checked,
    ];
    let body = bytes(|out| {
        for opcode in [1, 15, 2, 5, 13] {
            out.put_int(opcode);
            out.put_bool(false);
            out.put_int(0);
            if matches!(opcode, 1 | 15) {
                out.put_text("/a");
            }
            if matches!(opcode, 15 | 5) {
                encode_stat(&STAT, out);
            }
        }
        out.put_int(-1);
        out.put_bool(true);
        out.put_int(-1);
    });
    check_write(&WriteForm::Multi(Box::new(forms)), Ok(ZkOutcome::Multi(outcomes)), 0, &body);
}

#[test]
fn an_empty_multi_is_answered_with_the_end_alone() {
    let body = [0xff, 0xff, 0xff, 0xff, 1, 0xff, 0xff, 0xff, 0xff];
    check_write(&WriteForm::Multi(Box::new([])), Ok(ZkOutcome::Multi(vec![])), 0, &body);
}

#[test]
fn a_refused_multi_is_answered_with_an_error_each_and_no_error_in_the_header() {
    let refusal = Box::new(Refusal::NodeExists);
    let refused = Refusal::Multi { position: 1, count: 4, refusal };
    let body = bytes(|out| {
        for error in [0, -110, -2, -2] {
            out.put_int(-1);
            out.put_bool(false);
            out.put_int(error);
            out.put_int(error);
        }
        out.put_int(-1);
        out.put_bool(true);
        out.put_int(-1);
    });
    let forms = vec![WriteForm::Delete; 4].into_boxed_slice();
    check_write(&WriteForm::Multi(forms), Err(refused), 0, &body);
}

#[test]
fn the_form_of_a_reply_follows_from_the_request() {
    let create = |kind| WriteRequest::Create {
        kind,
        path: "/a",
        data: None,
        acl: vec![],
        flags: 0,
        ttl_ms: -1,
    };
    let (path, version) = ("/a", -1);
    let cases = [
        (create(CreateKind::Create), WriteForm::Create),
        (create(CreateKind::Create2), WriteForm::CreateWithStat),
        (create(CreateKind::Ttl), WriteForm::CreateWithStat),
        (WriteRequest::Delete { path, version }, WriteForm::Delete),
        (WriteRequest::SetData { path, data: None, version }, WriteForm::SetData),
        (WriteRequest::SetAcl { path, acl: vec![], version }, WriteForm::SetAcl),
        (WriteRequest::Check { path, version }, WriteForm::Check),
    ];
    for (request, form) in &cases {
        assert_eq!(WriteForm::of(request), *form);
        let opcode = match request.opcode() {
            // All creates that return a stat have one kind of result.
            opcode::CREATE_TTL => opcode::CREATE2,
            opcode => opcode,
        };
        assert_eq!(form.opcode(), opcode);
    }
    let (requests, forms): (Vec<_>, Vec<_>) = cases.into_iter().unzip();
    assert_eq!(WriteForm::of_multi(&requests), WriteForm::Multi(forms.into()));
}

/// The error and the body of the response to a read.
fn read(kind: ReadKind, path: &str, identities: &[Identity<'_>]) -> (i32, Vec<u8>) {
    let machine = machine();
    let request = crate::request::ReadRequest { kind, path, watch: false };
    let result = machine.zk().query(&crate::ops::query(&request), identities);
    let mut out = Vec::new();
    encode_read(8, 9, kind, &result, &mut out);
    let (header, reader) = open(&out);
    assert_eq!((header.xid, header.zxid), (8, 9));
    (header.error.0, out[4 + reader.offset()..].to_vec())
}

fn stat_of(path: &str) -> Stat {
    machine().zk().tree().find(path).unwrap().stat()
}

#[test]
fn reads_are_answered_with_what_their_kind_gives() {
    let stat = bytes(|out| encode_stat(&stat_of("/a"), out));
    let data = bytes(|out| out.put_buffer(Some(b"x")));
    assert_eq!(read(ReadKind::Exists, "/a", &[]), (0, stat.clone()));
    assert_eq!(read(ReadKind::GetData, "/a", &[]), (0, [data, stat].concat()));
    let null = bytes(|out| {
        out.put_int(-1);
        encode_stat(&stat_of("/null"), out);
    });
    assert_eq!(read(ReadKind::GetData, "/null", &[]), (0, null));
}

#[test]
fn children_are_answered_with_or_without_stat() {
    let (error, body) = read(ReadKind::GetChildren2, "/a", &[]);
    let mut reader = JuteReader::new(&body);
    let mut names = reader.texts().unwrap();
    names.sort_unstable();
    assert_eq!((error, names), (0, vec!["one", "two"]));
    assert_eq!(decode_stat(&mut reader), Ok(stat_of("/a")));
    assert_eq!(read(ReadKind::GetChildren, "/a", &[]).1, body[..reader.offset() - 68]);
    assert_eq!(read(ReadKind::GetChildren, "/null", &[]), (0, vec![0; 4]));
}

#[test]
fn digests_are_masked_for_those_who_may_not_administer() {
    let answer = |digest: &str| {
        bytes(|out| {
            out.put_count(3);
            for (perms, scheme, id) in
                [(5, "world", "anyone"), (31, "digest", digest), (1, "ip", "::1")]
            {
                out.put_int(perms);
                out.put_text(scheme);
                out.put_text(id);
            }
            encode_stat(&stat_of("/a"), out);
        })
    };
    let admin = [Identity { scheme: "digest", id: "u:hash" }];
    assert_eq!(read(ReadKind::GetAcl, "/a", &[]), (0, answer("u:x")));
    assert_eq!(read(ReadKind::GetAcl, "/a", &admin), (0, answer("u:hash")));
}

#[test]
fn reads_that_find_nothing_are_answered_with_their_code() {
    assert_eq!(read(ReadKind::Exists, "/missing", &[]), (-101, vec![]));
    assert_eq!(read(ReadKind::GetData, "/missing", &[]), (-101, vec![]));
    assert_eq!(read(ReadKind::Exists, "/a\0", &[]), (-8, vec![]));
    assert_eq!(read(ReadKind::GetData, "/a\0", &[]), (-101, vec![]));
}

#[test]
fn each_read_of_several_has_its_own_result() {
    let machine = machine();
    let result = |kind, path| machine.zk().query(&Query { kind, path }, &[]);
    let results = [
        (ReadKind::GetData, result(QueryKind::Data, "/null")),
        (ReadKind::GetData, result(QueryKind::Data, "/missing")),
        (ReadKind::GetChildren, result(QueryKind::Children, "/null")),
    ];
    let encoded = bytes(|out| {
        results.iter().for_each(|(kind, result)| encode_read_result(*kind, result, out));
    });
    let mut out = Vec::new();
    encode_multi_read(5, 6, &encoded, &mut out);
    let (found, reader) = open(&out);
    assert_eq!(found, header(5, 6, 0));
    let expected = bytes(|out| {
        let result_header = |opcode, error, out: &mut Vec<u8>| {
            out.put_int(opcode);
            out.put_bool(false);
            out.put_int(error);
        };
        result_header(4, 0, out);
        out.put_int(-1);
        encode_stat(&stat_of("/null"), out);
        result_header(-1, -101, out);
        out.put_int(-101);
        result_header(8, 0, out);
        out.put_int(0);
        out.put_int(-1);
        out.put_bool(true);
        out.put_int(-1);
    });
    assert_eq!(out[4 + reader.offset()..], expected);
}

#[test]
fn sync_gives_the_path_back() {
    let mut out = Vec::new();
    encode_sync(5, 6, Some("/a"), &mut out);
    let (found, mut reader) = open(&out);
    assert_eq!((found, reader.text()), (header(5, 6, 0), Ok("/a")));
}

#[test]
fn add_watch_gives_the_error_a_second_time() {
    let mut out = Vec::new();
    encode_add_watch(header(5, 6, 0), &mut out);
    let (found, mut reader) = open(&out);
    assert_eq!((found, reader.int(), reader.remaining()), (header(5, 6, 0), Ok(0), 0));
}

#[test]
fn events_say_their_type_the_connected_state_and_the_path() {
    let types = [
        (EventType::Created, 1),
        (EventType::Deleted, 2),
        (EventType::DataChanged, 3),
        (EventType::ChildrenChanged, 4),
    ];
    for (kind, number) in types {
        let mut out = Vec::new();
        encode_event(-1, kind, "/a", &mut out);
        let (found, mut reader) = open(&out);
        assert_eq!(found, header(-1, -1, 0));
        assert_eq!((reader.int(), reader.int(), reader.text()), (Ok(number), Ok(3), Ok("/a")));
    }
}

#[test]
fn a_who_am_i_is_answered_with_scheme_and_user_of_each_identity() {
    let identity = |scheme, id| Identity { scheme, id };
    let identities = [identity("ip", "::1"), identity("digest", "u:hash"), identity("super", "")];
    let out = bytes(|out| encode_who_am_i(7, 9, &identities, out));
    let (header, mut reader) = open(&out);
    assert_eq!(header, ReplyHeader { xid: 7, zxid: 9, error: ErrorCode::OK });
    assert_eq!(reader.int(), Ok(3));
    for text in ["ip", "::1", "digest", "u", "super", ""] {
        assert_eq!(reader.text(), Ok(text));
    }
    assert_eq!(reader.remaining(), 0);
}

#[test]
fn a_get_ephemerals_is_answered_with_paths() {
    for paths in [vec![], vec!["/a".to_string(), "/b/c".to_string()]] {
        let out = bytes(|out| encode_ephemerals(7, 9, &paths, out));
        let (header, mut reader) = open(&out);
        assert_eq!(header, ReplyHeader { xid: 7, zxid: 9, error: ErrorCode::OK });
        assert_eq!(reader.texts().unwrap(), paths);
        assert_eq!(reader.remaining(), 0);
    }
}

#[test]
fn a_get_all_children_number_is_answered_with_a_number() {
    for (result, error, body) in [
        (Ok(0x0102_0304), 0, &[1, 2, 3, 4][..]),
        (Err(Refusal::NoNode), -101, &[]),
        (Err(Refusal::NoAuth), -102, &[]),
    ] {
        let out = bytes(|out| encode_all_children_number(7, 9, &result, out));
        let (header, reader) = open(&out);
        assert_eq!(header, ReplyHeader { xid: 7, zxid: 9, error: ErrorCode(error) });
        assert_eq!(&out[out.len() - reader.remaining()..], body);
    }
}
