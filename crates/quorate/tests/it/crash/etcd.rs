//! etcd clients in a crash test. Each puts new keys with ascending numbers, several at once, until
//! the server is gone. When it is back, every acknowledged put must be there with its value and
//! revision. Every other put must be there once or not at all.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use bench::workloads::etcd::client::runtime;
use tokio::task::JoinSet;
use workload::etcd::op::{KeyValue, Op, Put, Range, Response};

use super::load::World;
use crate::etcd_client::{Caller, OpsClient, everything, range_of};

/// How many unanswered puts a client may have.
const AHEAD: usize = 8;

/// In one of this many lives of the server a client reads all its keys; in the others only those
/// that it has not read yet, and the number of all.
const ALL_ONE_IN: u64 = 8;

/// A client, with its own connection and keys.
struct Worker<'w> {
    world: &'w World,
    id: usize,
    /// The revision of each put that took effect, by the put's number.
    done: BTreeMap<u64, i64>,
    /// The numbers of the puts that got no answer.
    unknown: BTreeSet<u64>,
    /// The number of the next put.
    next: u64,
    /// All keys with lower numbers were read.
    read_before: u64,
}

impl Worker<'_> {
    fn key(&self, number: u64) -> Vec<u8> {
        format!("{}/{number:08}", self.id).into_bytes()
    }

    fn value(&self, number: u64) -> Vec<u8> {
        format!("value {number} of client {}", self.id).into_bytes()
    }

    /// The key-value pair that put `number` makes at a revision.
    fn pair(&self, number: u64, revision: i64) -> KeyValue {
        KeyValue {
            key: self.key(number),
            value: self.value(number),
            create_revision: revision,
            mod_revision: revision,
            version: 1,
            lease: 0,
        }
    }

    fn run(mut self) {
        let runtime = runtime().unwrap();
        self.world
            .live_all(|life, address, floor| runtime.block_on(self.live(life, address, floor)));
    }

    /// Checks and puts keys during one life of the server; `None` when the connection has ended.
    async fn live(&mut self, life: u64, address: SocketAddr, floor: i64) -> Option<()> {
        let mut client = OpsClient::connect(address).await?;
        let is_all = life.is_multiple_of(ALL_ONE_IN);
        let from = if is_all { 0 } else { self.read_before };
        self.verify(&mut client, from, floor).await?;
        self.world.on_satisfied(life);
        self.put(&client).await
    }

    /// Compares the keys with numbers from `from` on, and the number of all keys, with the puts.
    async fn verify(&mut self, client: &mut OpsClient, from: u64, floor: i64) -> Option<()> {
        let range_end = format!("{}0", self.id).into_bytes();
        let range = Range { key: self.key(from), range_end, ..Range::default() };
        let shown = range_of(client.ask(&Op::Range(range.clone())).await?);
        assert!(shown.revision >= floor, "revision {} is below {floor}", shown.revision);
        let unknown = std::mem::take(&mut self.unknown);
        let mut is_done = 0;
        for number in &unknown {
            let key = self.key(*number);
            if let Some(pair) = shown.kvs.iter().find(|pair| pair.key == key) {
                assert!(!self.done.values().any(|revision| *revision == pair.mod_revision));
                self.done.insert(*number, pair.mod_revision);
                is_done += 1;
            }
        }
        let due = self.done.range(from..).map(|(number, revision)| self.pair(*number, *revision));
        let due: Vec<KeyValue> = due.collect();
        if let Some((shown, due)) = shown.kvs.iter().zip(&due).find(|(shown, due)| shown != due) {
            panic!("{shown:?} is shown, and {due:?} is due");
        }
        assert_eq!(shown.kvs.len(), due.len(), "keys of client {} from {from} on", self.id);
        let count = Range { key: self.key(0), count_only: true, ..range };
        let count = range_of(client.ask(&Op::Range(count)).await?).count;
        assert_eq!(count, self.done.len() as i64, "keys of client {}", self.id);
        self.world.on_settled(is_done, unknown.len() - is_done);
        self.read_before = self.next;
        Some(())
    }

    /// Puts keys until the connection ends.
    async fn put(&mut self, client: &OpsClient) -> Option<()> {
        let mut calls = JoinSet::new();
        let mut is_over = false;
        while !self.world.has_ended() {
            while !is_over && calls.len() < AHEAD {
                let number = self.next;
                self.next += 1;
                self.unknown.insert(number);
                let (key, value) = (self.key(number), self.value(number));
                let op = Op::Put(Put { key, value, ..Put::default() });
                let (mut client, floor) = (client.clone(), self.world.zxid());
                calls.spawn(async move { (number, floor, client.ask(&op).await) });
            }
            match calls.join_next().await.transpose().unwrap()? {
                (_, _, None) => is_over = true,
                (number, floor, Some(Ok(Response::Put(answer)))) => {
                    assert!(answer.revision > floor, "{} after {floor}", answer.revision);
                    self.unknown.remove(&number);
                    self.done.insert(number, answer.revision);
                    self.world.on_acknowledged(answer.revision);
                }
                (number, _, Some(answer)) => panic!("put {number}: {answer:?}"),
            }
        }
        Some(())
    }
}

/// Starts the clients as threads of `scope`, and returns how many there are.
pub fn start<'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    world: &'scope World,
    workers: usize,
) -> usize {
    for id in 0..workers {
        let (done, unknown) = (BTreeMap::new(), BTreeSet::new());
        let worker = Worker { world, id, done, unknown, next: 0, read_before: 0 };
        scope.spawn(move || worker.run());
    }
    workers
}

/// Fails unless each revision belongs to exactly one key, which was put once.
pub fn check_revisions(address: SocketAddr) {
    let all = Caller::open(address).range(&everything());
    let mut revisions: Vec<i64> = all.kvs.iter().map(|pair| pair.mod_revision).collect();
    revisions.sort_unstable();
    assert!(revisions.iter().copied().eq(2..=all.revision), "up to {}", all.revision);
    assert!(all.kvs.iter().all(|pair| pair.version == 1));
}
