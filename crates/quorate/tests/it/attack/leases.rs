//! Attacks with many requests for all keys of a large lease, and then with the revocation of that
//! lease.

use std::time::{Duration, Instant};

use etcd::pb::etcdserverpb as pb;
use tokio::task::spawn_local;

use super::requests::{Connection, count, fill, key, send_lease};
use super::rig::{Attack, RISE_MAX};
use crate::etcd::grpc_client::{connect, run};

const KEY_COUNT: usize = 200_000;
const QUESTION_COUNT: usize = 20;

/// Asks for the keys of lease 7 [`QUESTION_COUNT`] times. Returns the longest time that an answer
/// took.
async fn ask(requests: Connection) -> Duration {
    let request = pb::LeaseTimeToLiveRequest { id: 7, keys: true };
    let mut longest = Duration::ZERO;
    for _ in 0..QUESTION_COUNT {
        let begun_at = Instant::now();
        let mut answer: Vec<pb::LeaseTimeToLiveResponse> =
            send_lease(&requests, "LeaseTimeToLive", &request).await.all();
        longest = longest.max(begun_at.elapsed());
        let mut keys = answer.remove(0).keys;
        keys.sort_unstable();
        assert!(keys.into_iter().eq((0..KEY_COUNT).map(|number| key(number).into_bytes())));
    }
    longest
}

#[test]
fn the_keys_of_a_large_lease_are_told_and_go_while_others_are_served() {
    let attack = Attack::prepare("lease", &[], 0);
    run(async {
        let requests = connect(attack.etcd()).await;
        let grant = pb::LeaseGrantRequest { id: 7, ttl: 6_000 };
        assert_eq!(send_lease(&requests, "LeaseGrant", &grant).await.status().0, "0");
        fill(&requests, KEY_COUNT, 7).await;
        let (one, two) =
            (spawn_local(ask(connect(attack.etcd()).await)), spawn_local(ask(requests.clone())));
        println!("a question took {:?} and {:?} at most", one.await.unwrap(), two.await.unwrap());
        let revoke = pb::LeaseRevokeRequest { id: 7 };
        let begun_at = Instant::now();
        assert_eq!(send_lease(&requests, "LeaseRevoke", &revoke).await.status().0, "0");
        println!("a revocation of {KEY_COUNT} keys took {:?}", begun_at.elapsed());
        assert_eq!(count(&requests).await, 0);
    });
    attack.end(2 * RISE_MAX);
}
