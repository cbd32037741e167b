use super::*;
use crate::codec::Write;
use crate::limits::{
    ACL_ENTRIES_MAX, CONTAINER_ZNODES_DELETED_MAX, EXPIRE_SESSIONS_MAX, MULTI_OPS_MAX,
};
use crate::machine::tests::rig::{Random, parse_command, parse_op, random_op};
use crate::zk::command::{
    AskedAcl, KIND_CONFIGURE, KIND_DELETE_CONTAINERS, KIND_EXPIRE_SESSIONS, KIND_MULTI, KIND_WRITE,
    OP_CREATE,
};
use crate::{
    AclEntry, ControlCommand, CreateMode, MemberId, Op, Ordinal, SessionId, Settings, ZkCommand,
};

fn settings() -> Settings {
    Settings {
        skip_acl: true,
        digest_enabled: false,
        extended_types: true,
        enforce_quota: true,
        reconfig_enabled: true,
        standalone_enabled: true,
        x509_enabled: true,
        super_digest: Some("super:x".to_string()),
        digest_algorithm: "SHA3-256".to_string(),
        sasl_enabled: true,
        sasl_any_user: Some("anyone".to_string()),
    }
}

/// Parses a command of the ensemble's space.
fn in_control(text: &'static str) -> Command<'static> {
    parse_command(SessionId(0), text)
}

/// One command of every shape.
fn commands() -> Vec<Command<'static>> {
    let session = SessionId(i64::MIN + 5);
    let password = *b"0123456789abcdef";
    let ops = [
        "create /a",
        "create /a null",
        "create /a data mode=6 ttl=1099511627775",
        "create '' bad",
        "create /a acl=none",
        "create /a acl=digest:u:x=rw,world:anyone=r mode=3",
        "delete /a v-1",
        "delete /a v7",
        "set /a null v3",
        "set /a x bad",
        "acl /a",
        "acl /a acl=none bad v2",
        "acl /a acl=ip:10.0.0.0/8=rwcda",
        "check /ü v0",
        "check /a bad",
        "malformed",
    ];
    let mut commands: Vec<Command<'static>> =
        ops.iter().map(|op| Command::Zk(ZkCommand::Write { session, op: parse_op(op) })).collect();
    commands.extend(["nothing", "raise 1", "raise 65535", "servers 0"].map(in_control));
    commands.push(in_control("servers 7 1=a:1:2 2=[::1]:3:4:observer"));
    commands.extend([
        Command::Zk(ZkCommand::OpenSession { session, password, timeout_ms: u32::MAX }),
        Command::Zk(ZkCommand::Attach { session, password, timeout_ms: 0 }),
        Command::Zk(ZkCommand::CloseSession { session }),
        Command::Zk(ZkCommand::ExpireSessions { sessions: vec![] }),
        Command::Zk(ZkCommand::ExpireSessions {
            sessions: vec![(session, Ordinal(u64::MAX)), (SessionId(1), Ordinal(0))],
        }),
        Command::Zk(ZkCommand::Configure(Settings::default())),
        Command::Zk(ZkCommand::Configure(settings())),
        Command::Zk(ZkCommand::DeleteContainers { paths: vec![], never_used_ms_max: 0 }),
        Command::Control(ControlCommand::InstallImage { hash: u128::MAX - 7 }),
        Command::Control(ControlCommand::Register { member: MemberId(u64::MAX), server: 255 }),
        Command::Control(ControlCommand::Forget { member: MemberId(1) }),
        Command::Zk(ZkCommand::DeleteContainers {
            paths: vec!["/a", "", "/ü/b"],
            never_used_ms_max: u64::MAX,
        }),
        Command::Zk(ZkCommand::Multi { session, ops: vec![] }),
        Command::Zk(ZkCommand::Multi { session, ops: ops.iter().map(|op| parse_op(op)).collect() }),
    ]);
    commands
}

fn encoded(command: &Command<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    command.encode(&mut bytes);
    bytes
}

/// Checks that decoding an encoded command gives the same command.
fn check(command: &Command<'_>) {
    assert_eq!(Command::decode(&encoded(command)).as_ref(), Ok(command));
}

#[test]
fn every_command_is_read_back() {
    commands().iter().for_each(check);
}

#[test]
fn random_operations_are_read_back() {
    let mut random = Random(11);
    for _ in 0..3000 {
        check(&Command::Zk(ZkCommand::Write { session: SessionId(1), op: random_op(&mut random) }));
    }
}

#[test]
fn a_command_cut_off_anywhere_is_refused() {
    for command in commands() {
        let bytes = encoded(&command);
        for end in 0..bytes.len() {
            assert!(Command::decode(&bytes[..end]).is_err(), "{command:?} cut at {end}");
        }
    }
}

#[test]
fn bytes_behind_a_command_are_refused() {
    for command in commands() {
        let mut bytes = encoded(&command);
        let offset = bytes.len();
        bytes.push(0);
        assert_eq!(Command::decode(&bytes), Err(DecodeError::Trailing { offset, bytes: 1 }));
    }
}

#[test]
fn a_changed_byte_is_refused_or_gives_a_command_that_is_read_back() {
    for command in commands() {
        let bytes = encoded(&command);
        for position in 0..bytes.len() {
            for value in 0..=255 {
                let mut changed = bytes.clone();
                changed[position] = value;
                if let Ok(other) = Command::decode(&changed) {
                    check(&other);
                }
            }
        }
    }
}

/// Checks that decoding fails with the name of this field.
fn check_bad(bytes: &[u8], expected: &str) {
    match Command::decode(bytes) {
        Err(DecodeError::Bad { what, .. }) => assert_eq!(what, expected),
        other => unreachable!("{other:?} is not about {expected}"),
    }
}

#[test]
fn values_outside_the_format_are_refused_by_name() {
    let write = |op: &[u8]| [&[KIND_WRITE], [0; 8].as_slice(), op].concat();
    check_bad(&[0], "command");
    check_bad(&[13], "command");
    check_bad(&[KIND_OF_SPACE, 0], "space of a command");
    check_bad(&[KIND_OF_SPACE, 5, 1, 2], "space of a command");
    check_bad(&[KIND_OF_SPACE, 3, 0], "command of etcd");
    check_bad(&[KIND_OF_SPACE, 0xff], "space of a command");
    check_bad(&write(&[0]), "operation");
    check_bad(&write(&[7]), "operation");
    check_bad(&write(&[OP_CREATE, 4]), "operation flags");
    check_bad(&write(&[OP_CREATE, 0, 8]), "create mode");
    check_bad(&[KIND_CONFIGURE, 0, 2, 0, 0], "settings flags");
}

#[test]
fn a_command_of_a_later_space_that_does_not_name_it_is_cut() {
    let cut = DecodeError::Cut { offset: 1, wanted: 1 };
    assert_eq!(Command::decode(&[KIND_OF_SPACE]), Err(cut));
}

#[test]
fn counts_are_refused_one_past_their_maximum() {
    let with_count = |kind: u8, count: usize| {
        let mut bytes = vec![kind];
        if kind != KIND_EXPIRE_SESSIONS {
            bytes.put_i64(1);
        }
        bytes.put_u32(count as u32);
        bytes
    };
    let cut = |bytes: &[u8]| matches!(Command::decode(bytes), Err(DecodeError::Cut { .. }));
    assert!(cut(&with_count(KIND_EXPIRE_SESSIONS, EXPIRE_SESSIONS_MAX)));
    check_bad(&with_count(KIND_EXPIRE_SESSIONS, EXPIRE_SESSIONS_MAX + 1), "expired session count");
    let (kind, max) = (KIND_DELETE_CONTAINERS, CONTAINER_ZNODES_DELETED_MAX);
    assert!(cut(&with_count(kind, max)));
    check_bad(&with_count(kind, max + 1), "deleted container count");
    assert!(cut(&with_count(KIND_MULTI, MULTI_OPS_MAX)));
    check_bad(&with_count(KIND_MULTI, MULTI_OPS_MAX + 1), "multi operation count");
    assert!(cut(&with_count(KIND_MULTI, u32::MAX as usize)) || u32::MAX as usize > MULTI_OPS_MAX);
}

#[test]
fn commands_at_the_maximum_are_read_back() {
    let sessions = vec![(SessionId(1), Ordinal(2)); EXPIRE_SESSIONS_MAX];
    check(&Command::Zk(ZkCommand::ExpireSessions { sessions }));
    let paths = vec!["/a"; CONTAINER_ZNODES_DELETED_MAX];
    check(&Command::Zk(ZkCommand::DeleteContainers { paths, never_used_ms_max: 1 }));
    let session = SessionId(1);
    check(&Command::Zk(ZkCommand::Multi { session, ops: vec![Op::Malformed; MULTI_OPS_MAX] }));
    let entry = AclEntry { perms: 1, scheme: "".into(), id: "".into() };
    let acl = AskedAcl::Entries(vec![entry; ACL_ENTRIES_MAX]);
    check(&Command::Zk(ZkCommand::Write {
        session,
        op: Op::SetAcl { path: "/a", malformed: false, acl, version: -1 },
    }));
}

#[test]
fn a_delete_of_containers_has_these_bytes() {
    let command =
        Command::Zk(ZkCommand::DeleteContainers { paths: vec!["/a"], never_used_ms_max: 2 });
    let bytes = [8, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, b'/', b'a'];
    assert_eq!(encoded(&command), bytes);
    assert_eq!(Command::decode(&bytes), Ok(command));
}

#[test]
fn text_that_is_not_utf8_is_refused() {
    let mut bytes = encoded(&Command::Zk(ZkCommand::Write {
        session: SessionId(1),
        op: parse_op("delete /a"),
    }));
    let last = bytes.len() - 1;
    bytes[last] = 0xff;
    assert_eq!(Command::decode(&bytes), Err(DecodeError::Text { offset: last + 1 }));
}

#[test]
fn settings_are_read_back() {
    let without_any = Settings { sasl_any_user: None, ..settings() };
    for settings in [Settings::default(), settings(), without_any] {
        let mut bytes = Vec::new();
        settings.encode(&mut bytes);
        let mut reader = Reader::new(&bytes);
        assert_eq!(Settings::decode(&mut reader), Ok(settings));
        assert_eq!(reader.finish(), Ok(()));
    }
}

#[test]
fn every_create_mode_has_its_flag() {
    for flag in 0..=6 {
        assert_eq!(CreateMode::from_flag(flag).unwrap() as i32, flag);
    }
    for flag in [-1, 7, i32::MIN, i32::MAX] {
        assert_eq!(CreateMode::from_flag(flag), None);
    }
}

#[test]
fn every_create_mode_has_its_number_in_the_log() {
    for number in 0..=7 {
        assert_eq!(CreateMode::decode(number).unwrap() as u8, number);
    }
    for number in [8, 0x7f, 0x80, 0xff] {
        assert_eq!(CreateMode::decode(number), None);
    }
}
