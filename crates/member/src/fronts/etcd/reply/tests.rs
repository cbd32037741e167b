use etcd::convert::TimeToLive;
use machine::etcd::event::{Event, Place, Version};
use machine::etcd::reply::{Granted, PutDone, RangeDeleted};

use super::*;

const HEADER: Header = Header { cluster_id: 5, member_id: 6, raft_term: 7 };

fn event(number: i64) -> Event {
    let numbers = Version { create_revision: number, version: 1, lease: 0 };
    let place = Place { revision: number, sub: 0 };
    Event::put(place, format!("key{number}").as_bytes(), numbers, b"value")
}

fn events(count: usize) -> Vec<Event> {
    (1..=count as i64).map(event).collect()
}

fn found(count: usize) -> RangeFound {
    let count_of_keys = count as u64;
    RangeFound {
        revision: 9,
        events: events(count),
        keys_only: false,
        count: count_of_keys,
        more: false,
    }
}

fn deleted(count: usize) -> RangeDeleted {
    RangeDeleted { revision: 9, count: count as u64, prev: events(count) }
}

fn txn(done: Vec<OpDone>) -> TxnDone {
    TxnDone { revision: 9, branch: Branch { succeeded: true, done } }
}

fn of_outcome(outcome: Outcome) -> Reply {
    Reply::from_outcome(HEADER, outcome, &Arc::default())
}

fn of_found(found: Found) -> Reply {
    Reply::from_found(HEADER, found, &Arc::default())
}

/// Replies of each kind that has a list, with this many items.
fn replies(count: usize) -> Vec<Reply> {
    let nested = Branch { succeeded: false, done: vec![OpDone::Range(found(count))] };
    let ops = vec![OpDone::Txn(nested), OpDone::DeleteRange(deleted(1))];
    let time_to_live = TimeToLive {
        revision: 9,
        lease: LeaseId(3),
        ttl_s: 10,
        granted_ttl_s: 20,
        keys: events(count),
    };
    let leases = (0..count as i64).map(LeaseId).collect();
    vec![
        Reply::from_range(HEADER, found(count), None),
        of_outcome(Outcome::Txn(txn(ops.clone()))),
        of_found(Found::Txn(txn(ops), None)),
        of_outcome(Outcome::DeleteRange(deleted(count))),
        of_found(Found::Lease(LeaseResponse::TimeToLive(time_to_live))),
        of_found(Found::Lease(LeaseResponse::Leases { revision: 9, leases })),
    ]
}

/// Replies without lists.
fn small_replies() -> Vec<Reply> {
    vec![
        of_outcome(Outcome::Put(PutDone { revision: 9, prev: Some(event(1)) })),
        of_outcome(Outcome::Compacted { revision: 9 }),
        of_outcome(Outcome::Granted(Granted { revision: 9, lease: LeaseId(3), ttl_s: 5 })),
        Reply::from_bytes(HEADER, b"bytes".to_vec()),
    ]
}

fn whole(reply: &Reply) -> Vec<u8> {
    let mut bytes = Vec::new();
    reply.write(&mut bytes);
    assert_eq!(bytes.len(), reply.bytes());
    bytes
}

/// The bytes of a reply in pieces, and how many pieces there were.
fn in_pieces(mut pieces: ReplyPieces) -> (Vec<u8>, usize) {
    let bytes = loop {
        if let Some(bytes) = pieces.measure() {
            break bytes;
        }
    };
    let (mut out, mut count) = (Vec::new(), 1);
    while pieces.write(&mut out) {
        count += 1;
    }
    assert_eq!(out.len(), bytes);
    (out, count)
}

#[test]
fn pieces_are_the_bytes_of_the_reply() {
    for count in [0, 1, ETCD_ENCODED_ITEMS_MAX, 3 * ETCD_ENCODED_ITEMS_MAX + 1] {
        for reply in replies(count) {
            let expected = whole(&reply);
            let (bytes, pieces) = in_pieces(reply.into_pieces());
            assert!(bytes == expected);
            assert!(pieces > count / ETCD_ENCODED_ITEMS_MAX, "{pieces} pieces of {count} items");
        }
    }
    for reply in small_replies() {
        let expected = whole(&reply);
        assert_eq!(in_pieces(reply.into_pieces()), (expected, 1));
    }
}

#[test]
fn a_reply_is_short_if_it_has_few_items() {
    for (count, is_short) in [(0, true), (ETCD_ENCODED_ITEMS_MAX - 5, true)] {
        assert!(replies(count).iter().all(|reply| reply.is_short() == is_short), "{count}");
    }
    for count in [ETCD_ENCODED_ITEMS_MAX, 10 * ETCD_ENCODED_ITEMS_MAX] {
        assert!(replies(count).iter().all(|reply| !reply.is_short()), "{count}");
    }
    assert!(small_replies().iter().all(Reply::is_short));
    // Operations count as items, even those that show nothing.
    let empty = OpDone::Put(PutDone { revision: 9, prev: None });
    let many = of_found(Found::Txn(txn(vec![empty; ETCD_ENCODED_ITEMS_MAX]), None));
    assert!(!many.is_short());
}

#[test]
fn references_of_writes_and_of_lists_of_leases_count_until_they_are_written() {
    let room = Arc::new(ReplyRoom::default());
    let few = Reply::from_outcome(HEADER, Outcome::DeleteRange(deleted(10)), &room);
    assert_eq!(room.bytes(), 0);
    let bytes = 10_000 * ETCD_REFERENCE_BYTES;
    let deleted_many = Reply::from_outcome(HEADER, Outcome::DeleteRange(deleted(10_000)), &room);
    assert_eq!(room.bytes(), bytes);
    let nested = Branch { succeeded: true, done: vec![OpDone::Range(found(10_000))] };
    let txn = txn(vec![OpDone::Txn(nested)]);
    let read = Reply::from_outcome(HEADER, Outcome::Txn(txn), &room);
    let ops_bytes = 2 * size_of::<OpDone>() as u64;
    assert_eq!(room.bytes(), 2 * bytes + ops_bytes);
    let leases = (0..10_000).map(LeaseId).collect();
    let leases = Found::Lease(LeaseResponse::Leases { revision: 9, leases });
    let listed = Reply::from_found(HEADER, leases, &room);
    assert_eq!(room.bytes(), 2 * bytes + ops_bytes + 80_000);
    drop((few, deleted_many, listed));
    let mut pieces = read.into_pieces();
    while pieces.measure().is_none() {}
    pieces.write(&mut Vec::new());
    assert_eq!(room.bytes(), bytes + ops_bytes);
    drop(pieces);
    assert_eq!(room.bytes(), 0);
}
