use bytes::Bytes;

use super::refuse_oversize;
use crate::command::Command;
use crate::entry::nothing::with_bodies;
use crate::entry::{BatchBuilder, NotAdded, check_batch, decode_batch, encode, encode_identities};
use crate::etcd::command::{Command as EtcdCommand, KeyRange, Op, Put, RangeOp, Txn};
use crate::ids::{BootId, ConnectionId, MemberId, Origin};
use crate::level::Level;
use crate::limits::{BATCH_ALONE_BYTES_MAX, ENTRY_BYTES_MAX};

const ORIGIN: Origin = Origin { member: MemberId(7), boot: BootId(3) };

fn put(value: &[u8]) -> Command<'_> {
    let (lease, prev_kv, ignore_value, ignore_lease) = (0, false, false, false);
    Command::Etcd(EtcdCommand::Put(Put {
        key: b"k",
        value,
        lease,
        prev_kv,
        ignore_value,
        ignore_lease,
    }))
}

fn nobody() -> Vec<u8> {
    encode_identities([].into_iter())
}

/// Bytes of a batch with one put, in addition to the put's value.
fn overhead() -> usize {
    let mut builder = BatchBuilder::default();
    builder.push(ConnectionId(1), &nobody(), &put(b"")).expect("it is small");
    builder.finish().byte_count()
}

#[test]
fn a_command_that_just_fits_an_entry_is_taken_and_one_byte_more_is_not() {
    let largest = vec![b'v'; BATCH_ALONE_BYTES_MAX - overhead()];
    let mut builder = BatchBuilder::default();
    builder.push(ConnectionId(1), &nobody(), &put(&largest)).expect("it fits exactly");
    assert_eq!(
        builder.push(ConnectionId(1), &nobody(), &put(b"")),
        Err(NotAdded::Full),
        "it goes alone"
    );
    let batch = builder.finish().stamp(ORIGIN, 1);
    assert_eq!(encode(0, 0, Level::ETCD, &[batch]).len(), ENTRY_BYTES_MAX);

    let larger = vec![b'v'; largest.len() + 1];
    let mut builder = BatchBuilder::default();
    let refused = builder.push(ConnectionId(1), &nobody(), &put(&larger));
    assert!(matches!(refused, Err(NotAdded::TooLarge { .. })), "{refused:?}");
    assert_eq!(builder.command_count(), 0, "nothing of it stays");
    builder.push(ConnectionId(1), &nobody(), &put(b"v")).expect("the builder goes on");
}

#[test]
fn tiny_operations_are_counted_as_large_as_they_are_in_the_log() {
    // An operation takes 6 bytes on the wire, and 60 or more in the log.
    let read = Op::Range(RangeOp::of(KeyRange { key: b"k", end: b"" }));
    let txn = Txn { compares: vec![], success: vec![read; 999_999], failure: vec![] };
    let command = Command::Etcd(EtcdCommand::Txn(txn.clone()));
    let mut builder = BatchBuilder::default();
    assert_eq!(builder.push(ConnectionId(1), &nobody(), &command), Ok(()));
    let read = Op::Range(RangeOp::of(KeyRange { key: b"a longer key", end: b"" }));
    let command = Command::Etcd(EtcdCommand::Txn(Txn { success: vec![read; 999_999], ..txn }));
    let mut builder = BatchBuilder::default();
    let refused = builder.push(ConnectionId(1), &nobody(), &command);
    assert!(matches!(refused, Err(NotAdded::TooLarge { .. })), "{refused:?}");
}

#[test]
fn an_oversize_batch_keeps_its_shape_and_its_large_command_is_refused() {
    let mut builder = BatchBuilder::default();
    builder.push(ConnectionId(1), &nobody(), &put(b"first")).expect("it is small");
    builder.push(ConnectionId(2), &nobody(), &put(b"second")).expect("it is small");
    let batch = builder.finish().stamp(ORIGIN, 9);
    assert_eq!(refuse_oversize(&batch), None, "an entry can hold it");
    let mut large = Vec::new();
    put(&vec![b'v'; BATCH_ALONE_BYTES_MAX]).encode(&mut large);
    let oversize = with_bodies(&batch, |position, _| (position == 1).then(|| large.clone()));
    let (header, fitting) = refuse_oversize(&Bytes::from(oversize)).expect("it is too large");
    assert_eq!((header.origin, header.sequence, header.command_count), (ORIGIN, 9, 2));
    assert!(check_batch(&fitting, 0).is_ok());
    let decoded = decode_batch(&fitting, 0).expect("it was just checked");
    let commands = decoded.commands(0, 2).expect("it was just checked");
    assert_eq!(commands[0].command, put(b"first"));
    assert_eq!(commands[1].connection, ConnectionId(2));
    let refused = Command::Etcd(EtcdCommand::Compact { revision: i64::MAX });
    assert_eq!(commands[1].command, refused);
}
