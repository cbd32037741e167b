use std::collections::BTreeSet;
use std::mem::discriminant;

use etcd::pb::etcdserverpb as pb;
use pb::request_op::Request as Op;

use super::*;

/// The requests of some seeds, drawn without any reply from a server.
fn requests() -> Vec<Request> {
    let of_seed = |seed| {
        let mut generator = Generator::new(seed, 100);
        (0..500).map(move |_| generator.request())
    };
    (1..=20).flat_map(of_seed).collect()
}

#[test]
fn a_seed_gives_equal_requests() {
    let draw = || {
        let mut generator = Generator::new(7, 100);
        (0..100).map(|_| generator.request()).collect::<Vec<_>>()
    };
    assert_eq!(draw(), draw());
}

#[test]
fn every_kind_of_request_is_drawn() {
    let kinds = requests().iter().map(discriminant).collect::<std::collections::HashSet<_>>();
    assert_eq!(kinds.len(), 11);
}

/// Calls `see` for each operation of a transaction, and of the transactions inside it.
fn for_each_op(txn: &pb::TxnRequest, see: &mut impl FnMut(&Op)) {
    for op in txn.success.iter().chain(&txn.failure).filter_map(|op| op.request.as_ref()) {
        see(op);
        if let Op::RequestTxn(inner) = op {
            for_each_op(inner, see);
        }
    }
}

/// A transaction with a put and a delete whose range has no end crashes etcd 3.6.16, so none may be
/// generated.
#[test]
fn no_transaction_deletes_with_an_open_end_and_puts() {
    let mut seen = BTreeSet::new();
    for request in requests() {
        let Request::Txn(txn) = request else { continue };
        let (mut is_open, mut puts) = (false, false);
        for_each_op(&txn, &mut |op| match op {
            Op::RequestPut(_) => puts = true,
            Op::RequestDeleteRange(delete) => is_open |= *delete.range_end == [0],
            _ => {}
        });
        seen.insert((is_open, puts));
    }
    assert_eq!(seen, BTreeSet::from([(false, false), (false, true), (true, false)]));
}

#[test]
fn numbers_of_the_cluster_are_not_compared_and_all_others_are() {
    let header = |cluster_id, revision| {
        Some(pb::ResponseHeader { cluster_id, member_id: 3, revision, raft_term: 9 })
    };
    let reply = |cluster_id, revision| {
        let response = pb::PutResponse { header: header(cluster_id, revision), prev_kv: None };
        let body = etcd::pb::Message::encode_to_vec(&response).into();
        let answer = crate::workloads::etcd::grpc::Answer { code: 0, message: String::new(), body };
        Request::Put(Default::default()).reply(answer).unwrap()
    };
    assert_eq!(reply(1, 5), reply(77, 5));
    assert_ne!(reply(1, 5), reply(0, 5));
    assert_ne!(reply(1, 5), reply(1, 6));
    assert_eq!(reply(1, 5).revision(), Some(5));
}

#[test]
fn a_long_line_loses_its_middle() {
    assert_eq!(shortened("short"), "short");
    let line = shortened(&("a".repeat(5_000) + "b"));
    assert!(line.len() < 4_000 && line.ends_with("ab"), "{line}");
}
