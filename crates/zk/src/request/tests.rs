use super::*;

fn acl() -> Vec<AclEntry> {
    let entry =
        |perms, scheme: &str, id: &str| AclEntry { perms, scheme: scheme.into(), id: id.into() };
    vec![entry(31, "world", "anyone"), entry(u32::MAX, "digest", "u:x"), entry(0, "", "")]
}

fn writes() -> Vec<WriteRequest<'static>> {
    let (path, version, ttl_ms) = ("/a/ü", -1, -1);
    let create =
        |kind, data, acl, flags| WriteRequest::Create { kind, path, data, acl, flags, ttl_ms };
    vec![
        create(CreateKind::Create, Some(b"x".as_slice()), acl(), 3),
        create(CreateKind::Create2, None, vec![], 2),
        create(CreateKind::Create, Some(b""), acl(), 0),
        WriteRequest::Delete { path, version },
        WriteRequest::SetData { path, data: None, version },
        WriteRequest::SetData { path, data: Some(b"data"), version: i32::MAX },
    ]
}

/// All writes, with the operation that only a multi may hold.
fn multi_writes() -> Vec<WriteRequest<'static>> {
    let mut writes = writes();
    writes.push(WriteRequest::Check { path: "/a", version: 7 });
    writes
}

fn reads() -> Vec<ReadRequest<'static>> {
    let read = |kind, watch| ReadRequest { kind, path: "/a", watch };
    vec![read(ReadKind::GetData, true), read(ReadKind::GetChildren, false)]
}

/// A request of every shape that the server answers.
fn requests() -> Vec<Request<'static>> {
    let mut requests: Vec<Request<'static>> = writes().into_iter().map(Request::Write).collect();
    requests.extend(reads().into_iter().map(Request::Read));
    let create = |kind, flags, ttl_ms| {
        let (path, data, acl) = ("/a", None, acl());
        Request::Write(WriteRequest::Create { kind, path, data, acl, flags, ttl_ms })
    };
    requests.push(create(CreateKind::Container, 4, -1));
    requests.push(create(CreateKind::Ttl, 6, 7));
    let read = |kind, watch| Request::Read(ReadRequest { kind, path: "", watch });
    let watches = SetWatchesRequest {
        relative_zxid: 5,
        data: vec!["/a", "/b"],
        exist: vec![],
        child: vec!["/c"],
        null_behind: false,
    };
    requests.extend([
        Request::Write(WriteRequest::SetAcl { path: "/a", acl: acl(), version: 2 }),
        Request::Multi(vec![]),
        Request::Multi(multi_writes()),
        read(ReadKind::Exists, true),
        read(ReadKind::GetChildren2, false),
        read(ReadKind::GetAcl, false),
        Request::MultiRead(vec![]),
        Request::MultiRead(reads()),
        Request::Sync { path: Some("/a") },
        Request::Sync { path: None },
        Request::Ping,
        Request::Auth { scheme: "digest", credentials: Some(b"u:p") },
        Request::Auth { scheme: "digest", credentials: None },
        Request::Sasl { token: b"" },
        Request::Sasl { token: b"username=\"u\"" },
        Request::SetWatches(SetWatchesRequest::default()),
        Request::SetWatches(watches.clone()),
        Request::SetWatches2(SetWatches2Request::default()),
        Request::SetWatches2(SetWatches2Request {
            watches,
            persistent: vec!["/d"],
            persistent_recursive: vec!["/e", "/"],
        }),
        Request::AddWatch { path: "/a", mode: AddWatchMode::Persistent },
        Request::AddWatch { path: "", mode: AddWatchMode::PersistentRecursive },
        Request::GetEphemerals { prefix: Some("/a") },
        Request::GetEphemerals { prefix: None },
        Request::GetAllChildrenNumber { path: "/a" },
        Request::Reconfig { joining: None, leaving: Some("2"), members: Some(""), version: -1 },
        Request::WhoAmI,
        Request::CloseSession,
    ]);
    let (path, types) =
        ("/a", [1, 2, 3, 4, 5].map(|number| WatcherType::from_int(number).unwrap()));
    requests.extend(types.map(|watcher_type| Request::CheckWatches { path, watcher_type }));
    requests.extend(types.map(|watcher_type| Request::RemoveWatches { path, watcher_type }));
    requests
}

/// The header and body of a request, as its frame holds them.
fn frame(request: &Request<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    request.encode(77, &mut out);
    let length = i32::from_be_bytes(out[..4].try_into().unwrap());
    assert_eq!(length as usize, out.len() - 4, "the frame says how long it is");
    out.split_off(4)
}

fn decode(frame: &[u8]) -> Result<Request<'_>, JuteError> {
    let mut reader = JuteReader::new(frame);
    let header = RequestHeader::decode(&mut reader)?;
    Request::decode(header.opcode, &mut reader)
}

#[test]
fn every_request_is_read_back() {
    for request in requests() {
        let frame = frame(&request);
        let mut reader = JuteReader::new(&frame);
        let header = RequestHeader::decode(&mut reader).unwrap();
        assert_eq!(header, RequestHeader { xid: 77, opcode: request.opcode() });
        assert_eq!(Request::decode(header.opcode, &mut reader), Ok(request));
        assert_eq!(reader.remaining(), 0);
    }
}

#[test]
fn a_request_cut_off_anywhere_is_refused() {
    for request in requests() {
        let frame = frame(&request);
        for end in 0..frame.len() {
            assert!(decode(&frame[..end]).is_err(), "{request:?} cut at {end}");
        }
    }
}

#[test]
fn bytes_behind_a_request_are_ignored() {
    for request in requests() {
        let mut frame = frame(&request);
        frame.extend_from_slice(b"more");
        assert_eq!(decode(&frame), Ok(request));
    }
}

#[test]
fn a_changed_byte_never_panics_and_what_is_read_is_read_back() {
    for request in requests() {
        let bytes = frame(&request);
        for position in 4..bytes.len() {
            for value in [0, 1, 2, 9, 0x7f, 0x80, 0xfe, 0xff] {
                let mut changed = bytes.clone();
                changed[position] = value;
                let Ok(other) = decode(&changed) else { continue };
                if other != Request::Unknown {
                    assert_eq!(decode(&frame(&other)), Ok(other.clone()));
                }
            }
        }
    }
}

#[test]
fn garbage_never_panics() {
    let mut state = 9_u64;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    for round in 0..100_000 {
        let mask = [0xff, 0x0f, 0x01][round % 3];
        let count = next() % 64;
        let body: Vec<u8> = (0..count).map(|_| next() & mask).collect();
        for opcode in [i32::from(next() % 24), 100, 101, 102, 105, 106] {
            let _ = Request::decode(opcode, &mut JuteReader::new(&body));
        }
        let _ = ConnectRequest::decode(&body);
    }
}

/// Checks how an opcode with an empty body is decoded.
fn check_opcode(opcode: i32, expected: &str) {
    let found = match Request::decode(opcode, &mut JuteReader::new(&[])) {
        Ok(request) => format!("{request:?}"),
        Err(_) => "served".to_string(),
    };
    assert_eq!(found, expected, "opcode {opcode}");
}

#[test]
fn opcodes_are_served_or_unknown() {
    for opcode in [
        1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 14, 15, 16, 17, 18, 19, 21, 22, 100, 101, 102, 103, 104,
        105, 106,
    ] {
        check_opcode(opcode, "served");
    }
    check_opcode(11, "Ping");
    check_opcode(107, "WhoAmI");
    check_opcode(-11, "CloseSession");
    // Check (13) is only an operation of a multi.
    for opcode in [0, -1, -10, 10, 13, 20, 23, 99, 108, 1000, i32::MAX, i32::MIN] {
        check_opcode(opcode, "Unknown");
    }
}

/// Decodes a multi of opcode `outer` that holds one operation of opcode `inner` with this body.
fn multi(outer: i32, inner: i32, body: &[u8]) -> Result<Request<'static>, JuteError> {
    let mut bytes = Vec::new();
    encode_multi_header(inner, false, &mut bytes);
    bytes.extend_from_slice(body);
    encode_multi_header(-1, true, &mut bytes);
    Request::decode(outer, &mut JuteReader::new(bytes.leak()))
}

#[test]
fn a_multi_takes_the_operations_of_zookeepers() {
    let mut body = Vec::new();
    body.put_text("/a");
    body.put_int(-1);
    body.put_int(0);
    for inner in [opcode::DELETE, opcode::CHECK] {
        assert!(multi(opcode::MULTI, inner, &body[..10]).is_ok(), "opcode {inner}");
    }
    for inner in [opcode::SET_ACL, opcode::GET_DATA, opcode::MULTI, opcode::SYNC, opcode::PING, 0] {
        assert!(multi(opcode::MULTI, inner, &body).is_err(), "opcode {inner}");
    }
    for inner in [opcode::GET_DATA, opcode::GET_CHILDREN] {
        assert!(multi(opcode::MULTI_READ, inner, &body[..7]).is_ok(), "opcode {inner}");
    }
    for inner in [opcode::EXISTS, opcode::GET_ACL, opcode::DELETE, opcode::GET_CHILDREN2] {
        assert!(multi(opcode::MULTI_READ, inner, &body).is_err(), "opcode {inner}");
    }
}

/// The kind that a create with these flags becomes in a multi. `None` if the multi is refused.
fn multi_create(inner: i32, flags: i32) -> Option<CreateKind> {
    let mut body = Vec::new();
    body.put_text("/a");
    body.put_int(-1);
    body.put_int(0);
    body.put_int(flags);
    match multi(opcode::MULTI, inner, &body) {
        Ok(Request::Multi(writes)) => match &*writes {
            [WriteRequest::Create { kind, .. }] => Some(*kind),
            other => panic!("{other:?}"),
        },
        Ok(other) => panic!("{other:?}"),
        Err(_) => None,
    }
}

#[test]
fn a_create_in_a_multi_has_a_flag_that_it_can_have() {
    for flags in 0..=3 {
        assert_eq!(multi_create(opcode::CREATE, flags), Some(CreateKind::Create), "{flags}");
        assert_eq!(multi_create(opcode::CREATE2, flags), Some(CreateKind::Create2), "{flags}");
    }
    assert_eq!(multi_create(opcode::CREATE, 4), Some(CreateKind::Container));
    assert_eq!(multi_create(opcode::CREATE2, 4), Some(CreateKind::Container));
    for flags in [5, 6, 7, -1, i32::MAX] {
        assert_eq!(multi_create(opcode::CREATE, flags), None, "{flags}");
    }
    for flags in [0, 4] {
        let found = multi_create(opcode::CREATE_CONTAINER, flags);
        assert_eq!(found, Some(CreateKind::Container), "{flags}");
    }
    // After its flags, this create has a time to live, which is missing here.
    assert_eq!(multi_create(opcode::CREATE_TTL, 5), None);
}

#[test]
fn a_time_to_live_in_a_multi_is_dropped_where_the_flag_has_no_use_for_it() {
    for (flags, expected) in [
        (0, (CreateKind::Create, -1)),
        (3, (CreateKind::Create, -1)),
        (4, (CreateKind::Container, -1)),
        (5, (CreateKind::Ttl, 9)),
        (6, (CreateKind::Ttl, 9)),
        (7, (CreateKind::Create, -1)),
    ] {
        let mut body = Vec::new();
        body.put_text("/a");
        body.put_int(-1);
        body.put_int(0);
        body.put_int(flags);
        body.put_long(9);
        let Ok(Request::Multi(writes)) = multi(opcode::MULTI, opcode::CREATE_TTL, &body) else {
            panic!("flag {flags}")
        };
        let [WriteRequest::Create { kind, ttl_ms, .. }] = &*writes else { panic!("flag {flags}") };
        assert_eq!((*kind, *ttl_ms), expected, "flag {flags}");
    }
}

#[test]
fn a_null_acl_of_a_create_in_a_multi_is_told_from_other_errors() {
    let body = |acl: i32, flags: i32| {
        let mut body = Vec::new();
        body.put_text("/a");
        body.put_int(-1);
        body.put_int(acl);
        body.put_int(flags);
        body.put_long(5);
        body
    };
    for inner in [opcode::CREATE, opcode::CREATE2, opcode::CREATE_CONTAINER] {
        let end = body(-1, 0).len() - 8;
        let null = multi(opcode::MULTI, inner, &body(-1, 0)[..end]);
        assert_eq!(null, Err(JuteError::NullAcl { offset: 9 + end }), "opcode {inner}");
        assert!(multi(opcode::MULTI, inner, &body(0, 0)[..end]).is_ok(), "opcode {inner}");
        // The flag is checked first.
        let bad_flag = multi(opcode::MULTI, inner, &body(-1, 99)[..end]);
        assert!(matches!(bad_flag, Err(JuteError::BadValue { .. })), "opcode {inner}");
        // The need for a time to live is checked after both.
        let ttl = multi(opcode::MULTI, inner, &body(-1, 5)[..end]);
        assert!(matches!(ttl, Err(JuteError::NullAcl { .. })), "opcode {inner}");
    }
    assert!(multi(opcode::MULTI, opcode::CREATE_TTL, &body(-1, 5)).is_ok());
}

#[test]
fn a_multi_of_more_operations_than_a_command_holds_is_refused() {
    let decode_count = |count: usize| {
        let mut body = Vec::new();
        for _ in 0..count {
            encode_multi_header(opcode::DELETE, false, &mut body);
            body.put_text("");
            body.put_int(-1);
        }
        encode_multi_header(-1, true, &mut body);
        Request::decode(opcode::MULTI, &mut JuteReader::new(&body)).map(drop)
    };
    assert_eq!(decode_count(machine::limits::MULTI_OPS_MAX), Ok(()));
    assert!(decode_count(machine::limits::MULTI_OPS_MAX + 1).is_err());
}

#[test]
fn null_parts_of_an_acl_are_read_as_empty() {
    let mut body = Vec::new();
    body.put_text("/a");
    body.put_count(1);
    body.put_int(1);
    body.put_buffer(None);
    body.put_buffer(None);
    body.put_int(-1);
    let request = Request::decode(opcode::SET_ACL, &mut JuteReader::new(&body)).unwrap();
    let acl = vec![AclEntry { perms: 1, scheme: "".into(), id: "".into() }];
    assert_eq!(request, Request::Write(WriteRequest::SetAcl { path: "/a", acl, version: -1 }));
}

#[test]
fn a_null_acl_is_read_as_empty() {
    let mut body = Vec::new();
    body.put_text("/a");
    body.put_int(-1);
    body.put_int(-1);
    let request = Request::decode(opcode::SET_ACL, &mut JuteReader::new(&body)).unwrap();
    let acl = vec![];
    assert_eq!(request, Request::Write(WriteRequest::SetAcl { path: "/a", acl, version: -1 }));
}

/// Checks the error of a write with a null path, followed by `rest`.
fn check_null_path(opcode: i32, rest: &[i32], expected: ErrorCode) {
    let bytes: Vec<u8> =
        [-1].iter().chain(rest).flat_map(|number: &i32| number.to_be_bytes()).collect();
    match Request::decode(opcode, &mut JuteReader::new(&bytes)) {
        Err(JuteError::NullPath { offset, error }) => {
            assert_eq!((offset, error), (bytes.len(), expected), "opcode {opcode}, {rest:?}");
        }
        other => panic!("opcode {opcode}, {rest:?}: {other:?}"),
    }
}

#[test]
fn a_write_of_null_is_refused_by_what_is_looked_at_first() {
    check_null_path(opcode::DELETE, &[-1], ErrorCode::MARSHALLING_ERROR);
    check_null_path(opcode::SET_DATA, &[-1, -1], ErrorCode::BAD_ARGUMENTS);
    check_null_path(opcode::SET_ACL, &[-1, -1], ErrorCode::BAD_ARGUMENTS);
    for opcode in [opcode::CREATE, opcode::CREATE2, opcode::CREATE_CONTAINER] {
        for flags in 0..=4 {
            check_null_path(opcode, &[-1, -1, flags], ErrorCode::MARSHALLING_ERROR);
        }
        check_null_path(opcode, &[-1, -1, 5], ErrorCode::UNIMPLEMENTED);
        check_null_path(opcode, &[-1, -1, 7], ErrorCode::BAD_ARGUMENTS);
    }
    check_null_path(opcode::CREATE_TTL, &[-1, -1, 6, 0, 9], ErrorCode::UNIMPLEMENTED);
    check_null_path(opcode::CREATE_TTL, &[-1, -1, 0, 0, 9], ErrorCode::BAD_ARGUMENTS);
}

#[test]
fn a_null_path_in_a_multi_is_told_once_all_is_decoded() {
    let delete_null = |out: &mut Vec<u8>| {
        encode_multi_header(opcode::DELETE, false, out);
        out.put_buffer(None);
        out.put_int(-1);
    };
    let mut body = Vec::new();
    delete_null(&mut body);
    let alone = [&*body, &[0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0, 0]].concat();
    let refused = Request::decode(opcode::MULTI, &mut JuteReader::new(&alone));
    assert!(matches!(refused, Err(JuteError::NullPath { .. })), "{refused:?}");
    encode_multi_header(opcode::CREATE, false, &mut body);
    body.put_text("/a");
    for _ in 0..3 {
        body.put_int(-1);
    }
    let before = Request::decode(opcode::MULTI, &mut JuteReader::new(&body));
    assert!(matches!(before, Err(JuteError::BadValue { .. })), "an unknown flag: {before:?}");
    let end = body.len();
    body[end - 4..].fill(0);
    let before = Request::decode(opcode::MULTI, &mut JuteReader::new(&body));
    assert!(matches!(before, Err(JuteError::NullAcl { .. })), "a null ACL: {before:?}");
}

#[test]
fn a_read_of_null_is_refused() {
    for opcode in [
        opcode::EXISTS,
        opcode::GET_DATA,
        opcode::GET_ACL,
        opcode::GET_CHILDREN,
        opcode::GET_CHILDREN2,
        opcode::GET_ALL_CHILDREN_NUMBER,
    ] {
        let refused = Request::decode(opcode, &mut JuteReader::new(&[0xff; 5]));
        assert!(matches!(refused, Err(JuteError::BadValue { .. })), "opcode {opcode}");
    }
}

#[test]
fn a_watch_of_null_has_a_path_that_no_znode_has() {
    let mut body = Vec::new();
    body.put_buffer(None);
    body.put_int(1);
    let decode = |opcode| Request::decode(opcode, &mut JuteReader::new(&body)).unwrap();
    let (path, mode) = ("null", AddWatchMode::PersistentRecursive);
    assert_eq!(decode(opcode::ADD_WATCH), Request::AddWatch { path, mode });
    let watcher_type = WatcherType::Children;
    assert_eq!(decode(opcode::CHECK_WATCHES), Request::CheckWatches { path, watcher_type });
    assert_eq!(decode(opcode::REMOVE_WATCHES), Request::RemoveWatches { path, watcher_type });
}

/// Checks how the lists of a `setWatches` are decoded. `lists` has a word for each list, with its
/// paths between commas; `-` means null.
fn check_set_watches(lists: &str, expected: &str) {
    let mut body = Vec::new();
    body.put_long(5);
    for list in lists.split(' ') {
        match list {
            "-" => body.put_int(-1),
            "" => body.put_int(0),
            _ => {
                let paths = list.split(',').map(|path| (path != "-").then_some(path));
                body.put_count(paths.clone().count());
                paths.for_each(|path| body.put_buffer(path.map(str::as_bytes)));
            }
        }
    }
    let decoded = match lists.split(' ').count() {
        3 => Request::decode(opcode::SET_WATCHES, &mut JuteReader::new(&body)),
        _ => Request::decode(opcode::SET_WATCHES2, &mut JuteReader::new(&body)),
    };
    let (watches, stay) = match decoded.unwrap() {
        Request::SetWatches(watches) => (watches, vec![]),
        Request::SetWatches2(SetWatches2Request { watches, persistent, persistent_recursive }) => {
            (watches, vec![persistent, persistent_recursive])
        }
        other => panic!("{other:?}"),
    };
    let mut left = vec![watches.data, watches.exist, watches.child];
    left.extend(stay);
    let mut text = left.iter().map(|list| list.join(",")).collect::<Vec<_>>().join(" ");
    text += if watches.null_behind { " and null" } else { "" };
    assert_eq!(text, expected, "{lists:?}");
}

#[test]
fn watches_are_set_again_up_to_the_first_null() {
    check_set_watches("/a /b /c", "/a /b /c");
    check_set_watches("- /b /c", "   and null");
    check_set_watches("/a - /c", "/a   and null");
    check_set_watches("/a /b,-,/d /c", "/a /b  and null");
    check_set_watches("/a  /c,-", "/a  /c and null");
    check_set_watches("/a,- /b /c /d /e", "/a     and null");
    check_set_watches("/a /b /c - /e", "/a /b /c   and null");
    check_set_watches("/a /b /c /d -", "/a /b /c /d  and null");
    check_set_watches("/a /b /c /d,- -,/e", "/a /b /c /d,null null,/e");
}

#[test]
fn an_acl_count_beyond_the_bytes_or_the_format_is_refused() {
    let decode_count = |count: i32, entries: usize| {
        let mut body = Vec::new();
        body.put_text("/a");
        body.put_int(count);
        body.resize(body.len() + entries * 12 + 4, 0);
        Request::decode(opcode::SET_ACL, &mut JuteReader::new(&body)).map(|_| ())
    };
    assert_eq!(decode_count(3, 3), Ok(()));
    assert!(decode_count(4, 3).is_err());
    assert!(decode_count(i32::MAX, 3).is_err());
    assert_eq!(decode_count(-2, 3), Ok(()));
    assert_eq!(decode_count(0xffff, 0xffff), Ok(()));
    assert!(decode_count(0x1_0000, 0x1_0000).is_err());
}

fn connect(read_only: Option<bool>) -> ConnectRequest {
    let password = vec![3; 16];
    ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: 0x1_0000_0002,
        timeout_ms: 30_000,
        session: -5,
        password,
        read_only,
    }
}

#[test]
fn connect_requests_with_and_without_read_only_are_read_back() {
    for read_only in [None, Some(false), Some(true)] {
        let mut out = Vec::new();
        connect(read_only).encode(&mut out);
        let bytes = if read_only.is_some() { 45 } else { 44 };
        assert_eq!(out.len(), 4 + bytes);
        assert_eq!(ConnectRequest::decode(&out[4..]), Ok(connect(read_only)));
    }
}

#[test]
fn a_connect_request_cut_off_anywhere_is_refused() {
    let mut out = Vec::new();
    connect(None).encode(&mut out);
    for end in 4..out.len() {
        assert!(ConnectRequest::decode(&out[4..end]).is_err(), "cut at {end}");
    }
}

#[test]
fn a_null_password_is_read_as_empty() {
    let mut out = Vec::new();
    ConnectRequest { password: vec![], ..connect(None) }.encode(&mut out);
    let length = out.len() - 4;
    out[length..].fill(0xff);
    assert_eq!(ConnectRequest::decode(&out[4..]).unwrap().password, Vec::<u8>::new());
}
