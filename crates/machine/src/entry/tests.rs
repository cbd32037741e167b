use super::*;
use crate::ZkCommand;
use crate::ids::SessionId;
use crate::machine::tests::rig::{Random, parse_op};
use crate::zk::command::Op;

const ORIGIN: Origin = Origin { member: MemberId(0x0102_0304), boot: BootId(9) };
const USER: Identity<'static> = Identity { scheme: "digest", id: "u:x" };
const ADDRESS: Identity<'static> = Identity { scheme: "ip", id: "10.0.0.1" };

fn write(op: &str) -> Command<'_> {
    Command::Zk(ZkCommand::Write { session: SessionId(5), op: parse_op(op) })
}

fn identities(list: &[Identity<'static>]) -> Vec<u8> {
    encode_identities(list.iter().copied())
}

/// An entry of two batches; the second one holds two commands with different identities.
fn entry() -> Bytes {
    let mut builder = BatchBuilder::default();
    builder.push(ConnectionId(1), &identities(&[]), &write("create /a")).expect("it fits");
    let first = builder.finish().stamp(ORIGIN, 1);
    builder
        .push(ConnectionId(2), &identities(&[ADDRESS]), &write("set /a data v3"))
        .expect("it fits");
    builder
        .push(ConnectionId(3), &identities(&[ADDRESS, USER]), &write("delete /a"))
        .expect("it fits");
    let second = builder.finish().stamp(ORIGIN, 2);
    encode(-77, 4, Level::FIRST, &[first, second])
}

/// Each command of an entry as text: `sequence connection identities command`.
fn commands(entry: &[u8]) -> Vec<String> {
    let header = decode_header(entry).unwrap();
    let mut found = Vec::new();
    let mut offset = HEADER_BYTES;
    for _ in 0..header.batch_count {
        let batch = decode_batch(entry, offset).unwrap();
        let mut at = 0;
        while let Some(framed) = batch.command(at).unwrap() {
            let list = &batch.identities[framed.identity_list];
            let names: Vec<&str> = list.iter().map(|identity| identity.scheme).collect();
            let Command::Zk(ZkCommand::Write { op, .. }) = &framed.command else {
                unreachable!("only writes")
            };
            let kind = format!("{op:?}").split(' ').next().unwrap().to_string();
            found.push(format!("{} {} {names:?} {kind}", batch.sequence, framed.connection.0));
            at = framed.end;
        }
        assert_eq!(batch.origin, ORIGIN);
        offset = batch.end;
    }
    assert_eq!(offset, entry.len());
    found
}

#[test]
fn an_entry_is_read_back() {
    let entry = entry();
    let header = decode_header(&entry).unwrap();
    let level = Level::FIRST;
    assert_eq!(header, EntryHeader { level, group: 4, time_ms: -77, batch_count: 2 });
    let expected = ["1 1 [] Create", "2 2 [\"ip\"] SetData", "2 3 [\"ip\", \"digest\"] Delete"];
    assert_eq!(commands(&entry), expected);
    assert_eq!(verify(&entry), Ok(header));
}

#[test]
fn entries_and_batches_without_commands_are_read_back() {
    assert!(verify(&encode(0, 0, Level::FIRST, &[])).is_ok());
    let empty = BatchBuilder::default().finish().stamp(ORIGIN, 1);
    let entry = encode(0, 0, Level::FIRST, &[empty]);
    assert!(verify(&entry).is_ok());
    let batch = decode_batch(&entry, HEADER_BYTES).unwrap();
    assert_eq!((batch.command_count, batch.identities.len()), (0, 0));
}

#[test]
fn an_entry_cut_off_anywhere_is_refused() {
    let entry = entry();
    for end in 0..entry.len() {
        assert!(verify(&entry[..end]).is_err(), "cut at {end}");
    }
}

#[test]
fn bytes_behind_an_entry_are_refused() {
    let mut bytes = entry().to_vec();
    let offset = bytes.len();
    bytes.push(0);
    assert_eq!(verify(&bytes), Err(DecodeError::Trailing { offset, bytes: 1 }));
}

#[test]
fn an_entry_with_any_byte_changed_never_panics() {
    let entry = entry();
    for position in 0..entry.len() {
        for value in 0..=255 {
            let mut changed = entry.to_vec();
            changed[position] = value;
            let _ = verify(&changed);
        }
    }
}

#[test]
fn garbage_never_panics() {
    let mut random = Random(3);
    for _ in 0..20_000 {
        let count = random.below(120);
        let mut bytes: Vec<u8> = (0..count).map(|_| random.next() as u8 & 3).collect();
        if let Some(first) = bytes.first_mut() {
            *first = FORMAT_VERSION;
        }
        let _ = verify(&bytes);
        let _ = decode_identities(&bytes);
        let _ = Command::decode(&bytes);
    }
}

/// Checks that decoding fails with the name of this field when the byte at `position` is `value`.
fn check(position: usize, value: u8, expected: &str) {
    let mut bytes = entry().to_vec();
    bytes[position] = value;
    match verify(&bytes) {
        Err(DecodeError::Bad { what, .. }) => assert_eq!(what, expected),
        other => unreachable!("{other:?} is not about {expected}"),
    }
}

#[test]
fn a_header_of_another_version_is_refused() {
    check(0, FORMAT_VERSION + 1, "entry format version");
    check(0, 0, "entry format version");
    check(1, 1, "reserved byte");
    check(2, 0, "level");
}

#[test]
fn a_wrong_command_count_or_identity_list_is_refused() {
    check(HEADER_BYTES + 28, 2, "command count");
    check(HEADER_BYTES + 28, 0, "command count");
    check(HEADER_BYTES + 30, 1, "command count");
    check(HEADER_BYTES + BATCH_HEADER_BYTES + 4, 1, "identity list");
}

#[test]
fn equal_identity_lists_stand_once_in_a_batch() {
    let mut builder = BatchBuilder::default();
    let lists = [identities(&[USER]), identities(&[]), identities(&[USER]), identities(&[USER])];
    for (connection, list) in lists.iter().enumerate() {
        builder.push(ConnectionId(connection as u64), list, &write("check /")).expect("it fits");
    }
    let entry = encode(0, 0, Level::FIRST, &[builder.finish().stamp(ORIGIN, 1)]);
    let batch = decode_batch(&entry, HEADER_BYTES).unwrap();
    assert_eq!(batch.identities, [vec![USER], vec![]]);
    let mut at = 0;
    let mut used = Vec::new();
    while let Some(framed) = batch.command(at).unwrap() {
        used.push(framed.identity_list);
        at = framed.end;
    }
    assert_eq!(used, [0, 1, 0, 0]);
}

#[test]
fn a_finished_builder_starts_anew() {
    let mut builder = BatchBuilder::default();
    builder.push(ConnectionId(1), &identities(&[USER]), &write("create /a")).expect("it fits");
    let first = builder.finish();
    assert_eq!((first.command_count, builder.command_count()), (1, 0));
    builder.push(ConnectionId(1), &identities(&[USER]), &write("create /a")).expect("it fits");
    let second = builder.finish();
    assert_eq!(first.byte_count(), second.byte_count());
    assert_eq!(first.stamp(ORIGIN, 1), second.stamp(ORIGIN, 1));
}

#[test]
fn a_batch_is_full_at_its_commands_or_bytes_but_takes_one_of_any_size() {
    let mut builder = BatchBuilder::default();
    let small = |builder: &mut BatchBuilder| {
        builder.push(ConnectionId(1), &identities(&[]), &write("malformed"))
    };
    for _ in 0..BATCH_COMMANDS_MAX {
        assert_eq!(small(&mut builder), Ok(()));
    }
    assert_eq!(small(&mut builder), Err(NotAdded::Full));
    let (data, mut builder) = (vec![b'v'; BATCH_BYTES_MAX], BatchBuilder::default());
    let mut free = BATCH_BYTES_MAX - HEADER_BYTES;
    let large = |builder: &mut BatchBuilder, bytes: usize| {
        let op =
            Op::SetData { path: "/a", malformed: false, data: Some(&data[..bytes]), version: 0 };
        let command = Command::Zk(ZkCommand::Write { session: SessionId(1), op });
        builder.push(ConnectionId(1), &identities(&[]), &command)
    };
    assert_eq!(small(&mut builder), Ok(()));
    while large(&mut builder, free) == Err(NotAdded::Full) {
        free -= 1;
    }
    assert_eq!(builder.bytes.len(), BATCH_BYTES_MAX);
    assert_eq!(small(&mut builder), Err(NotAdded::Full));
    assert_eq!(large(&mut BatchBuilder::default(), BATCH_BYTES_MAX), Ok(()), "it goes alone");
}

#[test]
fn a_full_batch_with_as_many_identity_lists_is_read_back() {
    let mut builder = BatchBuilder::default();
    for number in 0..BATCH_COMMANDS_MAX {
        let id = number.to_string();
        let list = encode_identities([Identity { scheme: "ip", id: &id }].into_iter());
        builder.push(ConnectionId(number as u64), &list, &write("malformed")).expect("it fits");
    }
    let entry = encode(0, 0, Level::FIRST, &[builder.finish().stamp(ORIGIN, 1)]);
    let batch = decode_batch(&entry, HEADER_BYTES).unwrap();
    assert_eq!(batch.command_count as usize, BATCH_COMMANDS_MAX);
    assert_eq!(batch.identities.len(), IDENTITY_LISTS_MAX);
    assert!(verify(&entry).is_ok());
}

/// Checks that decoding an encoded list gives the same list.
fn check_identities(list: &[Identity<'static>]) {
    let bytes = identities(list);
    assert_eq!(decode_identities(&bytes).as_deref(), Ok(list));
    for end in 0..bytes.len().min(200) {
        assert!(decode_identities(&bytes[..end]).is_err(), "cut at {end}");
    }
}

#[test]
fn identities_are_read_back() {
    check_identities(&[]);
    check_identities(&[USER]);
    check_identities(&[ADDRESS, USER, Identity { scheme: "", id: "" }]);
    check_identities(&vec![USER; IDENTITIES_MAX]);
}

#[test]
fn identities_one_past_the_maximum_are_refused() {
    let mut bytes = identities(&vec![USER; IDENTITIES_MAX]);
    bytes[..2].copy_from_slice(&(IDENTITIES_MAX as u16 + 1).to_le_bytes());
    let refused = DecodeError::Bad { what: "identity count", offset: 2, value: 1001 };
    assert_eq!(decode_identities(&bytes), Err(refused));
}

#[test]
fn commands_are_read_ahead_up_to_a_count_or_the_end_of_the_batch() {
    let entry = entry();
    let first = decode_batch(&entry, HEADER_BYTES).unwrap();
    let batch = decode_batch(&entry, first.end).unwrap();
    let one = batch.commands(0, 1).unwrap();
    assert_eq!(one.len(), 1);
    let behind = one[0].end;
    let count = |offset, count_max| batch.commands(offset, count_max).unwrap().len();
    assert_eq!([count(0, 0), count(0, 2), count(0, 9), count(behind, 9)], [0, 2, 2, 1]);
    let end = batch.commands(0, 2).unwrap()[1].end;
    assert_eq!(count(end, 9), 0);
}
