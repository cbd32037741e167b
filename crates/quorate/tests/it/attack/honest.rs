//! Sends requests that look at many keys but that an honest client may send. The server must never
//! refuse them, neither alone nor as the largest operation of a transaction.

use etcd::pb::etcdserverpb as pb;

use super::requests::{
    all, allowed, are_all, compare_all, count, delete, delete_all, exists, fill, put, range,
    send_lease, txn,
};
use super::rig::{Attack, MIB};
use crate::etcd::grpc_client::{connect, run};

/// How many keys most of these tests put.
fn key_count() -> usize {
    let is_large = std::env::var_os("QUORATE_ATTACK_LARGE").is_some();
    if is_large { 1_000_000 } else { 200_000 }
}

/// How many bytes of memory a test may cost: 256 MiB, and for each key enough for a second copy or
/// a removal of it, and for its part of the answers.
fn rise_max() -> u64 {
    256 * MIB + key_count() as u64 * 600
}

#[test]
fn a_list_of_all_keys_is_answered() {
    let attack = Attack::prepare("list", &[], key_count());
    run(async {
        let requests = connect(attack.etcd()).await;
        let found: pb::RangeResponse = allowed(&requests, "KV/Range", &all()).await;
        are_all(&found.kvs, key_count());
        let request = txn(vec![put("a"), range(all())]);
        let found: pb::TxnResponse = allowed(&requests, "KV/Txn", &request).await;
        assert_eq!(found.responses.len(), 2);
    });
    attack.end(rise_max());
}

#[test]
fn a_removal_of_all_keys_is_done() {
    let mut attack = Attack::prepare("remove", &[], key_count());
    run(async {
        let requests = connect(attack.etcd()).await;
        let done: pb::DeleteRangeResponse =
            allowed(&requests, "KV/DeleteRange", &delete_all(false)).await;
        assert_eq!(usize::try_from(done.deleted).unwrap(), key_count());
        assert_eq!(count(&requests).await, 0);
        // The removed versions can be compacted away, too.
        let revision = done.header.unwrap().revision;
        let compact = pb::CompactionRequest { revision, physical: true };
        let _: pb::CompactionResponse = allowed(&requests, "KV/Compact", &compact).await;
    });
    attack.key_count = 0;
    attack.end(rise_max());
}

#[test]
fn a_removal_of_all_keys_with_their_values_is_done() {
    let mut attack = Attack::prepare("remove-prev", &[], key_count());
    run(async {
        let requests = connect(attack.etcd()).await;
        let done: pb::DeleteRangeResponse =
            allowed(&requests, "KV/DeleteRange", &delete_all(true)).await;
        are_all(&done.prev_kvs, key_count());
    });
    attack.key_count = 0;
    attack.end(rise_max());
}

#[test]
fn a_transaction_that_removes_all_keys_is_done() {
    let mut attack = Attack::prepare("remove-txn", &[], key_count());
    run(async {
        let requests = connect(attack.etcd()).await;
        let request = txn(vec![put("a"), delete(delete_all(true))]);
        let done: pb::TxnResponse = allowed(&requests, "KV/Txn", &request).await;
        let Some(pb::response_op::Response::ResponseDeleteRange(done)) =
            &done.responses[1].response
        else {
            panic!("no removal");
        };
        are_all(&done.prev_kvs, key_count());
        assert!(exists(&requests, "a").await);
    });
    attack.key_count = 0;
    attack.end(rise_max());
}

#[test]
fn a_lease_of_all_keys_is_revoked() {
    let attack = Attack::prepare("revoke", &[], 0);
    run(async {
        let requests = connect(attack.etcd()).await;
        let grant = pb::LeaseGrantRequest { id: 7, ttl: 6_000 };
        assert_eq!(send_lease(&requests, "LeaseGrant", &grant).await.status().0, "0");
        fill(&requests, key_count(), 7).await;
        assert_eq!(count(&requests).await, key_count());
        let revoke = pb::LeaseRevokeRequest { id: 7 };
        let _: pb::LeaseRevokeResponse = allowed(&requests, "Lease/LeaseRevoke", &revoke).await;
        assert_eq!(count(&requests).await, 0);
    });
    attack.end(rise_max() + key_count() as u64 * 600);
}

#[test]
fn a_comparison_of_a_large_prefix_is_judged() {
    let attack = Attack::prepare("compare", &[], 200_000);
    run(async {
        let requests = connect(attack.etcd()).await;
        let compare = vec![compare_all()];
        let request = pb::TxnRequest { compare, ..txn(vec![put("a")]) };
        let done: pb::TxnResponse = allowed(&requests, "KV/Txn", &request).await;
        assert!(done.succeeded && exists(&requests, "a").await);
    });
    attack.end(256 * MIB);
}
