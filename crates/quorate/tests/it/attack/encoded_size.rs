//! Attacks with a command that is much larger in the log than on the wire. The server must know the
//! size that the command will have in the log when it admits the command.

use etcd::pb::Message;
use etcd::pb::etcdserverpb as pb;

use super::requests::{is_too_large, put, range, send, txn};
use super::rig::{Attack, MIB};
use crate::etcd::grpc_client::{connect, run};

/// A transaction with a huge number of tiny operations. A read of a key of 9 bytes takes 15 bytes
/// on the wire and 69 in the log. So 990,000 of them take 15 MB here, and in the log more than an
/// entry may have.
pub fn tiny_ranges() -> Vec<u8> {
    let one = range(pb::RangeRequest { key: "xxxxxxxxx".into(), ..Default::default() });
    // In protobuf, the fields of a message may be split into any number of parts.
    let ranges = txn(vec![one]).encode_to_vec().repeat(990_000);
    [txn(vec![put("a")]).encode_to_vec(), ranges].concat()
}

/// Settings that allow requests of the size of [`tiny_ranges`].
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
