use super::*;
use crate::etcd_v2::auth::{Patterns, PutRole, PutUser};
use crate::etcd_v2::tests::auth_commands;

fn key(text: &str) -> Key<'_> {
    Key::new(text).unwrap()
}

fn a_write(ttl_s: Option<u64>) -> Write<'static> {
    Write { key: key("/a/b"), value: b"value", ttl_s }
}

const COMPARE: Compare<'_> = Compare { value: b"old", index: 7 };

fn decode(bytes: &[u8]) -> Result<Command<'_>, DecodeError> {
    let mut reader = Reader::new(bytes);
    let command = Command::decode(&mut reader)?;
    reader.finish()?;
    Ok(command)
}

fn encode(command: &Command<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    command.encode([12, 4], &mut bytes);
    assert_eq!(bytes[..2], [12, 4]);
    bytes.split_off(2)
}

/// Commands of each kind, with each flag set and not set.
fn commands() -> Vec<Command<'static>> {
    let mut commands = Vec::new();
    for (is_set, ttl_s) in [(false, None), (true, Some(0)), (true, Some(ETCD_V2_TTL_S_MAX))] {
        let write = a_write(ttl_s);
        let (is_dir, is_refresh, is_in_order) = (is_set, !is_set, is_set);
        commands.extend([
            Command::Set { write, is_dir, is_refresh },
            Command::Create { write, is_dir, is_in_order },
            Command::Create { write, is_dir, is_in_order: !is_in_order },
            Command::Update { write, is_refresh },
            Command::CompareAndSwap { write, compare: COMPARE, is_refresh },
            Command::Delete { key: key("/a"), is_dir, is_recursive: !is_set },
        ]);
    }
    for compare in [COMPARE, Compare { value: b"", ..COMPARE }, Compare { index: 0, ..COMPARE }] {
        commands.push(Command::CompareAndDelete { key: Key::ROOT, compare });
    }
    let judged = |number: usize| Judged { key: key("/a"), since: number as u64 };
    for count in [0, 1, EXPIRE_KEYS_MAX] {
        commands.push(Command::Expire { keys: (0..count).map(judged).collect() });
    }
    commands.extend(auth_commands());
    commands
}

#[test]
fn a_command_is_read_as_it_was_written() {
    for command in commands() {
        let bytes = encode(&command);
        assert_eq!(decode(&bytes), Ok(command.clone()));
        for end in 0..bytes.len() {
            assert!(decode(&bytes[..end]).is_err(), "{command:?} cut at {end}");
        }
        let longer = [&bytes[..], &[0]].concat();
        let trailing = Err(DecodeError::Trailing { offset: bytes.len(), bytes: 1 });
        assert_eq!(decode(&longer), trailing);
    }
}

#[test]
fn a_changed_byte_never_panics() {
    for command in commands() {
        let bytes = encode(&command);
        for at in 0..bytes.len() {
            for changed in [0, 1, 0x7f, 0x80, 0xff, bytes[at].wrapping_add(1)] {
                let mut other = bytes.clone();
                other[at] = changed;
                if let Ok(read) = decode(&other) {
                    assert_eq!(encode(&read), other, "each command has one form");
                }
            }
        }
    }
}

#[test]
fn the_bytes_are_those_of_the_format() {
    let check = |command: Command<'_>, expected: &[u8]| {
        assert_eq!(encode(&command), expected, "{command:?}");
    };
    let write = Write { key: key("/k"), value: b"v", ttl_s: None };
    let none = [255; 8];
    let of_write = [&[2, 0, 0, 0, b'/', b'k'][..], &none, &[1, 0, 0, 0, b'v']].concat();
    let set = Command::Set { write, is_dir: true, is_refresh: true };
    check(set, &[&[1, 3][..], &of_write].concat());
    let create = Command::Create { write, is_dir: false, is_in_order: true };
    check(create, &[&[2, 4][..], &of_write].concat());
    check(Command::Update { write, is_refresh: true }, &[&[3, 2][..], &of_write].concat());
    let compare = Compare { value: b"w", index: 5 };
    let of_compare = [1, 0, 0, 0, b'w', 5, 0, 0, 0, 0, 0, 0, 0];
    let swap = Command::CompareAndSwap { write, compare, is_refresh: false };
    check(swap, &[&[4, 0][..], &of_write, &of_compare].concat());
    let delete = Command::Delete { key: key("/k"), is_dir: true, is_recursive: true };
    check(delete, &[5, 9, 2, 0, 0, 0, b'/', b'k']);
    let delete = Command::CompareAndDelete { key: key("/k"), compare };
    check(delete, &[&[6, 2, 0, 0, 0, b'/', b'k'][..], &of_compare].concat());
    let expire = Command::Expire { keys: vec![Judged { key: key("/k"), since: 6 }] };
    let delete = AuthCommand::DeleteRole { name: "r" };
    check(Command::Auth(delete), &[12, 1, 0, 0, 0, b'r']);
    let (may_create, may_change, hash) = (true, true, &b"h"[..]);
    let (grant, revoke) = (vec!["r"], Vec::new());
    let put = PutUser { name: "u", may_create, may_change, hash, grant, revoke };
    let of_put = [1, 0, 0, 0, b'u', 1, 0, 0, 0, b'h', 1, 0, 0, 0, 1, 0, 0, 0, b'r', 0, 0, 0, 0];
    check(Command::Auth(AuthCommand::PutUser(put)), &[&[9, 3][..], &of_put].concat());
    let (grant, revoke) = (Patterns { read: vec!["/"], write: Vec::new() }, Patterns::default());
    let put = PutRole { name: "r", is_change: true, grant, revoke };
    let of_put = [1, 0, 0, 0, b'r', 1, 0, 0, 0, 1, 0, 0, 0, b'/'];
    let put = Command::Auth(AuthCommand::PutRole(put));
    check(put, &[&[11, 2][..], &of_put, &[0; 12]].concat());
    check(expire, &[7, 1, 0, 0, 0, 2, 0, 0, 0, b'/', b'k', 6, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn a_command_that_no_face_makes_is_refused() {
    let check = |bytes: &[u8], expected: &str| {
        let Err(DecodeError::Bad { what, .. }) = decode(bytes) else {
            panic!("{:?}", decode(bytes));
        };
        assert_eq!(what, expected);
    };
    check(&[0], "command of etcd v2");
    check(&[13], "command of etcd v2");
    check(&[8, 2], "enforcing of permissions");
    check(&[9, 0], "flags of a user");
    check(&[9, 4], "flags of a user");
    check(&[11, 3], "flags of a role");
    for kind in [10, 12] {
        check(&[kind, 0, 0, 0, 0], "bytes of a name");
    }
    check(&[11, 1, 1, 0, 0, 0, b'r', 1, 0, 0, 0, 0, 0, 0, 0], "bytes of a name");
    check(&[1, 4], "flags");
    check(&[2, 2], "flags");
    check(&[3, 1], "flags");
    check(&[4, 1], "flags");
    check(&[5, 2], "flags");
    check(&[5, 0, 1, 0, 0, 0, b'/'], "key of etcd v2 with bytes");
    let nothing = Compare { value: b"", index: 0 };
    let delete = Command::CompareAndDelete { key: key("/a"), compare: nothing };
    check(&encode(&delete), "comparison with nothing");
    let write = a_write(Some(ETCD_V2_TTL_S_MAX + 1));
    check(&encode(&Command::Update { write, is_refresh: false }), "time to live");
    let deep = "/k".repeat(crate::limits::ETCD_V2_LEVELS_MAX);
    let write = Write { key: key(&deep), ..a_write(None) };
    let in_order = Command::Create { write, is_dir: false, is_in_order: true };
    check(&encode(&in_order), "directory of a key in order");
    let mut many = vec![7];
    many.put_u32(EXPIRE_KEYS_MAX as u32 + 1);
    check(&many, "count of keys");
}
