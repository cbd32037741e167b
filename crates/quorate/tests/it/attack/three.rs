//! Attacks an ensemble of three with requests that the members must refuse. If such a request came
//! into the log, it would end all members, and again at each restart.

use rustix::process::Pid;

use super::encoded_size::{LARGE_REQUESTS, tiny_ranges};
use super::requests::{
    count, exists, fill, is_too_large, put_and_comparisons, put_and_ranges, refused, send,
};
use super::rig::{MIB, Memory, RISE_MAX, Witnesses, limit_address_space};
use crate::ensemble::{Members, open};
use crate::etcd::grpc_client::{connect, run};

const KEY_COUNT: usize = 20_000;

#[test]
fn three_members_refuse_what_would_end_them_and_start_again() {
    let lines = LARGE_REQUESTS.map(|line| format!("{line}\n")).concat();
    let mut members = Members::prepare("attack-three", &lines);
    let etcd = members.prepare_etcd();
    (0..3).for_each(|place| members.start(place));
    let leader = members.leader();
    let pids: Vec<Pid> = (0..3).map(|place| members.pid(place)).collect();
    pids.iter().for_each(|pid| limit_address_space(*pid));
    run(async { fill(&connect(etcd[leader]).await, KEY_COUNT, 0).await });
    let witnesses: Vec<Witnesses> =
        (0..3).map(|place| Witnesses::of(members.clients[place], etcd[place], false)).collect();
    let memory: Vec<Memory> = pids.iter().map(|pid| Memory::of(*pid)).collect();
    let message = tiny_ranges();
    run(async {
        // Each member is asked directly, because a follower would have forwarded the request.
        for address in etcd {
            let requests = connect(address).await;
            refused(&requests, &put_and_ranges()).await;
            refused(&requests, &put_and_comparisons()).await;
            is_too_large(&send(&requests, "KV/Txn", &message).await);
            assert!(!exists(&requests, "a").await);
        }
    });
    let unanswered: u64 = witnesses.into_iter().map(Witnesses::finish).sum();
    println!("{unanswered} rounds were not answered");
    for memory in memory {
        println!("the memory rose by {} MiB", memory.rise() / MIB);
        assert!(memory.rise() < 2 * RISE_MAX);
    }
    for place in 0..3 {
        assert!(!members.log(place).contains("panicked"), "{}", members.log(place));
        members.kill_nine(place);
    }
    (0..3).for_each(|place| members.start(place));
    let leader = members.leader();
    assert!(open(members.clients[leader]).create("/after", b"", 0).is_ok());
    run(async { assert_eq!(count(&connect(etcd[leader]).await).await, KEY_COUNT) });
    members.stop();
}
