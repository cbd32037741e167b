//! Tests that commands are replaced in place, and that the rest of the batch stays as it was.

use crate::entry::{BatchBuilder, decode_batch, encode, encode_identities, verify};
use crate::ids::{BootId, MemberId, Origin, SessionId};
use crate::limits::{BATCH_COMMANDS_MAX, ENTRY_BYTES_MAX, IDENTITY_LISTS_MAX};
use crate::zk::acl::Identity;
use crate::{Op, ZkCommand};

use super::*;

const ORIGIN: Origin = Origin { member: MemberId(7), boot: BootId(3) };

fn set(data: &[u8]) -> Command<'_> {
    let op = Op::SetData { path: "/a", malformed: false, data: Some(data), version: -1 };
    Command::Zk(ZkCommand::Write { session: SessionId(5), op })
}

/// A batch of `count` commands, each from another connection and with other identities.
fn batch_of(count: usize) -> UnstampedBatch {
    let mut builder = BatchBuilder::default();
    for number in 0..count {
        let id = number.to_string();
        let list = encode_identities([Identity { scheme: "ip", id: &id }].into_iter());
        builder
            .push(ConnectionId(100 + number as u64), &list, &set(&vec![b'x'; 10 + number % 128]))
            .expect("it fits");
    }
    builder.finish()
}

/// The commands of a batch: for each its connection, the number in its identity, and the bytes of
/// its data; `None` instead of the bytes for `Nothing`.
fn commands(batch: &[u8]) -> Vec<(u64, usize, Option<usize>)> {
    let batch = decode_batch(batch, 0).unwrap();
    let framed = batch.commands(0, usize::MAX).unwrap();
    assert_eq!(framed.len(), batch.command_count as usize);
    let data_bytes = |command: &Command<'_>| match command {
        Command::Control(ControlCommand::Nothing) => None,
        Command::Zk(ZkCommand::Write { op: Op::SetData { data, .. }, .. }) => {
            Some(data.unwrap().len())
        }
        other => panic!("{other:?}"),
    };
    let of = |framed: &crate::entry::Framed<'_>| {
        let id = batch.identities[framed.identity_list][0].id.parse().unwrap();
        (framed.connection.0, id, data_bytes(&framed.command))
    };
    framed.iter().map(of).collect()
}

/// Replaces the commands at these positions, once before and once after the batch is stamped, and
/// compares the result with the original batch.
fn check(count: usize, positions: &[usize]) {
    let mut unstamped = batch_of(count);
    let stamped = unstamped.clone().stamp(ORIGIN, 9);
    let replaced = replace_by_nothing(&stamped, |position, _| positions.contains(&position));
    unstamped.replace_by_nothing(|position, _| positions.contains(&position));
    assert_eq!(unstamped.command_count, count);
    let bytes = match &replaced {
        Some(replaced) => &replaced.bytes,
        None => &stamped,
    };
    assert_eq!(unstamped.stamp(ORIGIN, 9), bytes);
    assert!(bytes.len() < stamped.len() || positions.is_empty());
    let expected: Vec<_> = (0..count)
        .map(|number| {
            let data_bytes = (!positions.contains(&number)).then_some(10 + number % 128);
            (100 + number as u64, number, data_bytes)
        })
        .collect();
    assert_eq!(commands(bytes), expected, "{positions:?} of {count}");
    assert!(verify(&encode(0, 0, Level::FIRST, &[bytes.clone(), stamped.clone()])).is_ok());
    if let Some(replaced) = &replaced {
        let (header, end) = check_batch(bytes, 0).unwrap();
        assert_eq!((replaced.header, bytes.len()), (header, end));
        assert_eq!((header.origin, header.sequence), (ORIGIN, 9));
        let places = positions.iter().map(|at| (*at, ConnectionId(100 + *at as u64)));
        assert_eq!(replaced.places, places.collect::<Vec<_>>());
    }
}

#[test]
fn any_commands_of_a_batch_are_replaced_in_place() {
    for count in 1..=5 {
        for chosen in 0..1_u32 << count {
            let positions: Vec<usize> = (0..count).filter(|at| chosen >> at & 1 == 1).collect();
            check(count, &positions);
        }
    }
}

#[test]
fn a_batch_of_as_many_commands_and_identity_lists_as_there_may_be_stays_valid() {
    assert_eq!(BATCH_COMMANDS_MAX, IDENTITY_LISTS_MAX);
    let last = BATCH_COMMANDS_MAX - 1;
    check(BATCH_COMMANDS_MAX, &[0, 1, last]);
    check(BATCH_COMMANDS_MAX, &(0..=last).collect::<Vec<_>>());
}

#[test]
fn a_command_as_large_as_an_entry_is_replaced() {
    let mut builder = BatchBuilder::default();
    let data = vec![b'x'; ENTRY_BYTES_MAX - 200];
    builder
        .push(ConnectionId(1), &encode_identities([].into_iter()), &set(&data))
        .expect("it fits");
    let batch = builder.finish().stamp(ORIGIN, 1);
    let replaced = replace_by_nothing(&batch, |_, _| true).unwrap();
    assert!(replaced.bytes.len() < 100);
    assert_eq!(check_batch(&replaced.bytes, 0), Ok((replaced.header, replaced.bytes.len())));
}

#[test]
fn what_is_replaced_is_chosen_by_connection_too_and_once() {
    let batch = batch_of(4).stamp(ORIGIN, 1);
    let is_given_up = |_, connection| [ConnectionId(101), ConnectionId(103)].contains(&connection);
    let once = replace_by_nothing(&batch, is_given_up).unwrap();
    assert_eq!(once.places, [(1, ConnectionId(101)), (3, ConnectionId(103))]);
    assert!(replace_by_nothing(&once.bytes, is_given_up).is_none());
    let rest = replace_by_nothing(&once.bytes, |_, _| true).unwrap();
    assert_eq!(rest.places, [(0, ConnectionId(100)), (2, ConnectionId(102))]);
    let empty = UnstampedBatch::empty().stamp(ORIGIN, 1);
    assert!(replace_by_nothing(&empty, |_, _| true).is_none());
}

/// After a replacement, the batch needs only the level of its remaining commands.
#[test]
fn a_batch_without_what_needed_its_level_needs_it_no_more() {
    let raise = Command::Control(ControlCommand::Raise(Level::ETCD.into()));
    let mut builder = BatchBuilder::default();
    let nobody = encode_identities([].into_iter());
    builder.push(ConnectionId(1), &nobody, &set(b"x")).expect("it fits");
    builder.push(ConnectionId(2), &nobody, &raise).expect("it fits");
    let mut batch = builder.finish();
    assert_eq!(batch.level, Level::ETCD);
    let stamped = batch.clone().stamp(ORIGIN, 1);
    let level = |at| replace_by_nothing(&stamped, |position, _| position == at).unwrap();
    assert_eq!((level(0).header.level, level(1).header.level), (Level::ETCD, Level::FIRST));
    batch.replace_by_nothing(|position, _| position == 1);
    assert_eq!(batch.level, Level::FIRST);
}
