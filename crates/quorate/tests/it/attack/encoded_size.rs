//! A command may be larger in the log than on the wire: it is measured where it is admitted.

use etcd::pb::Message;
use etcd::pb::etcdserverpb as pb;

use super::requests::{is_too_large, put, range, send, txn};
use super::rig::{Attack, MIB};
use crate::etcd::grpc_client::{connect, run};

/// A range of a key of 9 bytes takes 15 bytes on the wire and 69 in the log: 990,000 of them are
/// 15 MB here and more than an entry may have there.
pub fn tiny_ranges() -> Vec<u8> {
    let one = range(pb::RangeRequest { key: "xxxxxxxxx".into(), ..Default::default() });
    // The fields of a message may come one after the other in any number of parts.
    let ranges = txn(vec![one]).encode_to_vec().repeat(990_000);
    [txn(vec![put("a")]).encode_to_vec(), ranges].concat()
}

/// Allows requests that are so large.
pub const LARGE_REQUESTS: [&str; 2] =
    ["quorate.etcdMaxRequestBytes=16777216", "quorate.etcdMaxTxnOps=1000000"];

#[test]
fn a_command_that_is_too_large_for_the_log_is_refused() {
    let attack = Attack::prepare("encoded", &LARGE_REQUESTS, 100);
    let message = tiny_ranges();
    run(async {
        for _ in 0..2 {
            let requests = connect(attack.etcd()).await;
            is_too_large(&send(&requests, "KV/Txn", &message).await);
        }
    });
    attack.end(512 * MIB);
}
