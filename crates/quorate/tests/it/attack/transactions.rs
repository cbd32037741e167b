//! Attacks with transactions that look at many keys. The server counts the keys, and refuses such a
//! transaction before the transaction is in the log.

use etcd::pb::etcdserverpb as pb;

use super::requests::{
    all, allowed, compare_all, delete, delete_all, exists, first_by_value, nested, nested_64, put,
    put_and_comparisons, put_and_ranges, range, refused, txn,
};
use super::rig::{Attack, RISE_MAX};
use crate::etcd::grpc_client::{connect, run};

/// Fails unless the server refuses the transaction as a whole.
fn is_refused(attack: Attack, request: &pb::TxnRequest) {
    run(async {
        let requests = connect(attack.etcd()).await;
        refused(&requests, request).await;
        assert!(!exists(&requests, "a").await, "nothing of it is done");
    });
    attack.end(RISE_MAX);
}

#[test]
fn a_put_with_thousands_of_nested_ranges_is_refused() {
    is_refused(Attack::prepare("ranges", &[], 20_000), &put_and_ranges());
}

#[test]
fn thousands_of_comparisons_of_ranges_are_refused() {
    is_refused(Attack::prepare("comparisons", &[], 100_000), &put_and_comparisons());
}

#[test]
fn thousands_of_sorts_for_one_key_each_are_refused() {
    let attack = Attack::prepare("sorts", &[], 20_000);
    let sorts = nested_64(56, &range(first_by_value()));
    run(async {
        let requests = connect(attack.etcd()).await;
        // A transaction that only reads is not logged, and is still refused.
        refused(&requests, &txn(sorts.clone())).await;
    });
    is_refused(attack, &txn([vec![put("a")], sorts].concat()));
}

/// 192,000 reads of a key that does not exist, in four levels of transactions. Each is cheap, and
/// all together stay below every limit. Applying them in steps must cost no more than the reads
/// themselves.
#[test]
fn a_transaction_of_many_cheap_operations_is_done() {
    let attack = Attack::prepare("cheap", &[], 0);
    let mut ops = vec![range(pb::RangeRequest { key: "x".into(), ..Default::default() }); 32];
    for count in [30, 20, 10] {
        ops = vec![nested(txn(ops)); count];
    }
    run(async {
        let requests = connect(attack.etcd()).await;
        let request = txn([vec![put("a")], ops].concat());
        let done: pb::TxnResponse = allowed(&requests, "KV/Txn", &request).await;
        assert_eq!(done.responses.len(), 11);
        assert!(exists(&requests, "a").await);
    });
    attack.end(2 * RISE_MAX);
}

/// A transaction may look at 1,000,000 keys besides its largest operation. The server has 10,000
/// keys, so a transaction may have 101 operations on all keys, and not one key more.
#[test]
fn a_transaction_may_look_at_a_million_keys_beside_its_largest_operation() {
    let attack = Attack::prepare("million", &["quorate.etcdMaxTxnOps=1000"], 10_000);
    let one = || range(pb::RangeRequest { key: "none".into(), ..Default::default() });
    let counted = || range(pb::RangeRequest { count_only: true, ..all() });
    let sorts = |count| vec![range(first_by_value()); count];
    let compare = |count| vec![compare_all(); count];
    run(async {
        let requests = connect(attack.etcd()).await;
        let requests = &requests;
        let passes = async |request: pb::TxnRequest| {
            let _: pb::TxnResponse = allowed(requests, "KV/Txn", &request).await;
        };
        passes(txn(sorts(101))).await;
        refused(requests, &txn([sorts(101), vec![one()]].concat())).await;
        refused(requests, &txn([sorts(101), vec![counted()]].concat())).await;
        passes(txn([sorts(100), vec![counted(); 900]].concat())).await;
        // Comparisons, nested transactions, and the branch that is not taken all count.
        let success = sorts(50);
        passes(pb::TxnRequest {
            compare: compare(51),
            success: success.clone(),
            ..Default::default()
        })
        .await;
        refused(requests, &pb::TxnRequest { compare: compare(52), success, ..Default::default() })
            .await;
        let failure = vec![nested(txn(sorts(52)))];
        refused(requests, &pb::TxnRequest { failure, success: sorts(50), ..Default::default() })
            .await;
        // Removals count, too, even though none of these takes place.
        let deletes = vec![delete(delete_all(false)); 102];
        let lone = pb::TxnRequest { failure: deletes, ..Default::default() };
        refused(requests, &lone).await;
    });
    attack.end(RISE_MAX);
}
