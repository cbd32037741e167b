//! Lets thousands of clients wait for one lock. Ordinary users of locks do the same, so the server
//! must serve them.

use std::time::Instant;

use etcd::pb::Message;
use etcd::pb::{etcdserverpb as pb, v3lockpb};
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{Duration, sleep};

use super::requests::{Connection, send_lease};
use super::rig::{Attack, RISE_MAX};
use crate::etcd::grpc_client::{Answer, PATIENCE, call, connect, framed, head, kv, run};

/// How many clients ask for the lock.
const LOCK_COUNT: i64 = 19_000;

/// How many connections share the calls. One may have 10,000 calls at the same time.
const CONNECTION_COUNT: usize = 4;

/// Grants the leases 1 to `count`, 500 at a time.
async fn grant(requests: &Connection, count: i64) {
    let ids: Vec<i64> = (1..=count).collect();
    for ids in ids.chunks(500) {
        let granted: Vec<JoinHandle<Answer>> = ids
            .iter()
            .map(|id| {
                let (requests, request) =
                    (requests.clone(), pb::LeaseGrantRequest { id: *id, ttl: 6_000 });
                spawn_local(async move { send_lease(&requests, "LeaseGrant", &request).await })
            })
            .collect();
        for granted in granted {
            assert_eq!(granted.await.unwrap().status().0, "0");
        }
    }
}

/// Begins a call that asks for the lock `l`, without waiting for its answer.
fn lock(requests: &Connection, lease: i64) -> JoinHandle<Answer> {
    let request = v3lockpb::LockRequest { name: "l".into(), lease };
    let (requests, message) = (requests.clone(), framed(&request.encode_to_vec()));
    spawn_local(async move { call(&requests, head("/v3lockpb.Lock/Lock"), message).await.unwrap() })
}

/// How many clients hold the lock or wait for it.
async fn waiters(requests: &Connection) -> i64 {
    let range = pb::RangeRequest {
        key: "l/".into(),
        range_end: "l0".into(),
        count_only: true,
        ..Default::default()
    };
    let answer: Vec<pb::RangeResponse> = kv(requests, "Range", &range).await.all();
    answer[0].count
}

/// Waits until `count` clients hold the lock or wait for it.
async fn wait_for(requests: &Connection, count: i64, what: &str) {
    let begun_at = Instant::now();
    while waiters(requests).await != count {
        assert!(begun_at.elapsed() < PATIENCE, "{what}");
        sleep(Duration::from_millis(50)).await;
    }
    println!("{what} after {:?}", begun_at.elapsed());
}

#[test]
fn thousands_of_clients_wait_for_one_lock_in_the_order_of_asking() {
    let attack = Attack::prepare("locks", &[], 0);
    run(async {
        let requests = connect(attack.etcd()).await;
        grant(&requests, LOCK_COUNT).await;
        let first = lock(&requests, 1).await.unwrap();
        assert_eq!(first.status().0, "0");
        let mut connections = Vec::new();
        for _ in 0..CONNECTION_COUNT {
            connections.push(connect(attack.etcd()).await);
        }
        let mut waiting: Vec<JoinHandle<Answer>> = (2..=LOCK_COUNT)
            .zip(connections.iter().cycle())
            .map(|(lease, connection)| lock(connection, lease))
            .collect();
        wait_for(&requests, LOCK_COUNT, "all wait").await;
        let ended = waiting.iter().filter(|it| it.is_finished()).count();
        assert_eq!(ended, 0, "nobody has the lock but the first, and none is refused");
        // The next holder is the client whose key was created first.
        let sorted = pb::RangeRequest {
            key: "l/".into(),
            range_end: "l0".into(),
            limit: 2,
            sort_order: pb::range_request::SortOrder::Ascend.into(),
            sort_target: pb::range_request::SortTarget::Create.into(),
            ..Default::default()
        };
        let answer: Vec<pb::RangeResponse> = kv(&requests, "Range", &sorted).await.all();
        let next = answer[0].kvs[1].lease;
        let revoke = pb::LeaseRevokeRequest { id: 1 };
        assert_eq!(send_lease(&requests, "LeaseRevoke", &revoke).await.status().0, "0");
        let next = waiting.swap_remove(usize::try_from(next - 2).unwrap()).await.unwrap();
        assert_eq!(next.status().0, "0");
        // Clients that disconnect leave nothing behind, except the holder of the lock, whose call
        // was already answered.
        waiting.iter().for_each(|it| it.abort());
        drop((waiting, connections));
        wait_for(&requests, 1, "all are gone but one").await;
    });
    attack.end(2 * RISE_MAX);
}
