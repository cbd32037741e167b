use super::*;
use machine::ZkCommand;

const SESSION: SessionId = SessionId(7);

fn create(kind: CreateKind, path: &str, flags: i32, ttl_ms: i64) -> WriteRequest<'_> {
    WriteRequest::Create { kind, path, data: Some(b"x"), acl: open(), flags, ttl_ms }
}

fn entry(perms: u32, scheme: &str, id: &str) -> AclEntry {
    AclEntry { perms, scheme: scheme.into(), id: id.into() }
}

fn open() -> Vec<AclEntry> {
    vec![entry(31, "world", "anyone")]
}

/// The operation in the command for a single write.
fn op_of<'a>(write: &WriteRequest<'a>) -> Op<'a> {
    match write_command(SESSION, write) {
        Command::Zk(ZkCommand::Write { session: SESSION, op }) => op,
        other => unreachable!("a write is a write, not {other:?}"),
    }
}

/// Checks whether the operation for a create of this path is marked as malformed.
fn check_create(path: &str, flags: i32, expected: bool) {
    let write = create(CreateKind::Create2, path, flags, -1);
    let Op::Create { malformed, .. } = op_of(&write) else { unreachable!("a create is a create") };
    assert_eq!(malformed, expected, "{path:?} with flags {flags}");
}

#[test]
fn a_create_is_checked_with_the_suffix_it_will_get() {
    check_create("/a", 0, false);
    check_create("/a/", 0, true);
    check_create("/a/", 2, false);
    check_create("/a/", 3, false);
    check_create("/a/", 6, false);
    check_create("/a/", 1, true);
    check_create("/a/..", 0, true);
    check_create("/a/..", 2, false);
    check_create("//", 2, true);
    check_create("", 0, true);
}

/// Checks the mode of a create; `expected` is `-` if the whole create is malformed.
fn check_mode(kind: CreateKind, flags: i32, expected: &str) {
    let mode = match op_of(&create(kind, "/a", flags, 5)) {
        Op::Create { mode, ttl_ms: 5, .. } => format!("{mode:?}"),
        Op::Malformed => "-".to_string(),
        other => unreachable!("a create is a create, not {other:?}"),
    };
    assert_eq!(mode, expected, "{kind:?} with flags {flags}");
}

#[test]
fn flags_are_modes() {
    let modes = ["Persistent", "Ephemeral", "PersistentSequential", "EphemeralSequential"];
    for (flags, mode) in modes.into_iter().enumerate() {
        check_mode(CreateKind::Create, flags as i32, mode);
        check_mode(CreateKind::Create2, flags as i32, mode);
    }
    check_mode(CreateKind::Container, 4, "Container");
    check_mode(CreateKind::Ttl, 5, "PersistentTtl");
    check_mode(CreateKind::Ttl, 6, "PersistentSequentialTtl");
    for flags in [-1, 7, 8, i32::MAX, i32::MIN] {
        check_mode(CreateKind::Create, flags, "-");
    }
}

#[test]
fn a_plain_create_with_the_container_flag_is_persistent() {
    check_mode(CreateKind::Create, 4, "Persistent");
    check_mode(CreateKind::Create2, 4, "Persistent");
}

#[test]
fn create_container_makes_a_container_whatever_its_flag() {
    check_mode(CreateKind::Container, 0, "Container");
    check_mode(CreateKind::Container, 1, "Container");
    check_mode(CreateKind::Container, 2, "ContainerSequential");
    check_mode(CreateKind::Container, 3, "ContainerSequential");
    // The time to live is checked first, and it is missing.
    check_mode(CreateKind::Container, 5, "PersistentTtl");
    check_mode(CreateKind::Container, 6, "PersistentSequentialTtl");
    for flags in [-1, 7] {
        check_mode(CreateKind::Container, flags, "-");
    }
}

#[test]
fn create_ttl_wants_a_mode_with_a_time_to_live() {
    for flags in [0, 1, 2, 3, 4, -1, 7] {
        check_mode(CreateKind::Ttl, flags, "-");
    }
}

#[test]
fn only_everyone_everything_is_the_open_acl() {
    let acl_of = |acl: Vec<AclEntry>| {
        let write = WriteRequest::SetAcl { path: "/a", acl, version: 3 };
        let Op::SetAcl { acl, .. } = op_of(&write) else { unreachable!("a setACL is one") };
        acl
    };
    assert_eq!(acl_of(open()), AskedAcl::Open);
    let others = [
        vec![],
        vec![entry(30, "world", "anyone")],
        vec![entry(63, "world", "anyone")],
        vec![entry(31, "world", "someone")],
        vec![entry(31, "ip", "anyone")],
        [open(), open()].concat(),
    ];
    for other in others {
        assert_eq!(acl_of(other.clone()), AskedAcl::Entries(other));
    }
}

#[test]
fn operations_keep_their_fields_and_say_whether_the_path_is_malformed() {
    let (version, data) = (9, None);
    let acl = AskedAcl::Open;
    for (path, malformed) in [("/a", false), ("/a/", true), ("", true)] {
        let set = WriteRequest::SetData { path, data, version };
        assert_eq!(op_of(&set), Op::SetData { path, malformed, data, version });
        let check = WriteRequest::Check { path, version };
        assert_eq!(op_of(&check), Op::Check { path, malformed, version });
        let set_acl = WriteRequest::SetAcl { path, acl: open(), version };
        assert_eq!(op_of(&set_acl), Op::SetAcl { path, malformed, acl: acl.clone(), version });
        let delete = WriteRequest::Delete { path, version };
        assert_eq!(op_of(&delete), Op::Delete { path, version });
    }
}

#[test]
fn a_multi_keeps_the_order_of_its_operations() {
    let writes = [
        WriteRequest::Delete { path: "/a", version: -1 },
        create(CreateKind::Create, "/a", 99, -1),
        WriteRequest::Check { path: "/b", version: 0 },
    ];
    let ops = vec![
        Op::Delete { path: "/a", version: -1 },
        Op::Malformed,
        Op::Check { path: "/b", malformed: false, version: 0 },
    ];
    assert_eq!(
        multi_command(SESSION, &writes),
        Command::Zk(ZkCommand::Multi { session: SESSION, ops })
    );
    assert_eq!(
        multi_command(SESSION, &[]),
        Command::Zk(ZkCommand::Multi { session: SESSION, ops: vec![] })
    );
}

#[test]
fn reads_are_queries() {
    let cases = [
        (ReadKind::Exists, QueryKind::Exists),
        (ReadKind::GetData, QueryKind::Data),
        (ReadKind::GetChildren, QueryKind::Children),
        (ReadKind::GetChildren2, QueryKind::Children),
        (ReadKind::GetAcl, QueryKind::Acl),
    ];
    for (read, expected) in cases {
        let request = ReadRequest { kind: read, path: "/a", watch: true };
        assert_eq!(query(&request), Query { kind: expected, path: "/a" });
    }
}

#[test]
fn a_prefix_of_nothing_or_the_root_is_all() {
    for all in [None, Some(""), Some(" "), Some("/"), Some(" /\n"), Some("\u{0}\t")] {
        assert_eq!(ephemerals_prefix(all), "", "{all:?}");
    }
    for prefix in ["/a", "/a/", " /a", "//", "a", "\u{a0}"] {
        assert_eq!(ephemerals_prefix(Some(prefix)), prefix);
    }
}
