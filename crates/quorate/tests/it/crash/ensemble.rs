//! Kills members of an ensemble repeatedly, one, two or all three at once, while clients of both
//! protocols write. Every acknowledged write must be there, no write may be there twice, and all
//! members must have the same state.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bench::workloads::etcd::client::runtime;
use tokio::task::JoinSet;
use workload::etcd::op::{Op, Put, Range, Response};
use workload::generate::Random;
use zk::ErrorCode;
use zk::request::{ReadKind, Request};

use super::etcd::check_revisions;
use super::number_from_env;
use crate::client::{self, Client, Greeted, TIMEOUT_MS};
use crate::ensemble::Members;
use crate::etcd::request;
use crate::etcd_client::{Caller, OpsClient, range_of};
use crate::server::wait_until;

/// How many clients of each protocol there are. Each begins at another member.
const CLIENTS: usize = 3;

/// How many unanswered puts an etcd client may have.
const AHEAD: usize = 8;

/// How long a client waits between two writes. Without this a hundred rounds would write millions
/// of keys.
const PAUSE: Duration = Duration::from_millis(4);

/// How many writes each client must get acknowledged after each round.
const PROGRESS: u64 = 3;

/// The state that the clients share with the thread that kills members.
#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    /// How many writes of each client were acknowledged.
    counts: [AtomicU64; 2 * CLIENTS],
}

impl Shared {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    fn add(&self, client: usize) {
        self.counts[client].fetch_add(1, Ordering::Relaxed);
    }

    fn counts(&self) -> [u64; 2 * CLIENTS] {
        self.counts.each_ref().map(|count| count.load(Ordering::Relaxed))
    }
}

/// Stops the clients when this is dropped, even if the thread that kills members panics.
struct Over<'a>(&'a Shared);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

fn value(number: u64) -> Vec<u8> {
    format!("value {number}").into_bytes()
}

/// An etcd client. It puts new keys, several at once, and connects to the next member when its
/// connection ends.
struct Putter<'a> {
    shared: &'a Shared,
    id: usize,
    members: [SocketAddr; 3],
    /// The revision of each acknowledged put, by the put's number.
    done: BTreeMap<u64, i64>,
    /// The number of the next put.
    next: u64,
    /// All keys with lower numbers were compared.
    compared: u64,
}

impl Putter<'_> {
    fn key(&self, number: u64) -> Vec<u8> {
        format!("{}/{number:08}", self.id).into_bytes()
    }

    /// Works until the test is over. Returns the revisions of acknowledged puts.
    fn run(mut self) -> BTreeMap<u64, i64> {
        let runtime = runtime().unwrap();
        for address in self.members.into_iter().cycle().skip(self.id) {
            if self.shared.is_over() {
                break;
            }
            if runtime.block_on(self.work(address)).is_none() {
                std::thread::sleep(PAUSE);
            }
        }
        self.done
    }

    /// Puts keys at one member until the connection ends; then `None`.
    async fn work(&mut self, address: SocketAddr) -> Option<()> {
        let mut client = OpsClient::connect(address).await?;
        self.compare(&mut client).await?;
        let mut calls = JoinSet::new();
        while !self.shared.is_over() {
            while calls.len() < AHEAD {
                let (key, value) = (self.key(self.next), value(self.next));
                let (number, mut client) = (self.next, client.clone());
                self.next += 1;
                let op = Op::Put(Put { key, value, ..Put::default() });
                calls.spawn(async move { (number, client.ask(&op).await) });
                tokio::time::sleep(PAUSE).await;
            }
            let (number, answer) = calls.join_next().await.expect("calls are under way").unwrap();
            match answer? {
                Ok(Response::Put(answer)) => {
                    self.done.insert(number, answer.revision);
                    self.shared.add(self.id);
                }
                Ok(other) => panic!("put {number}: {other:?}"),
                // The put may have taken effect.
                Err(_) => {}
            }
        }
        Some(())
    }

    /// Compares the keys put since the last comparison with the acknowledged puts.
    async fn compare(&mut self, client: &mut OpsClient) -> Option<()> {
        let (key, range_end) = (self.key(self.compared), self.key(self.next));
        let range = Range { key, range_end, ..Range::default() };
        if self.compared < self.next {
            // The member may not know a leader yet.
            let Ok(Response::Range(shown)) = client.ask(&Op::Range(range)).await? else {
                return None;
            };
            let shown: BTreeMap<_, _> =
                shown.kvs.iter().map(|pair| (&pair.key[..], pair.mod_revision)).collect();
            for (number, revision) in self.done.range(self.compared..) {
                let found = shown.get(&self.key(*number)[..]);
                assert_eq!(found, Some(revision), "put {number} of client {}", self.id);
            }
        }
        self.compared = self.next;
        Some(())
    }
}

/// A ZooKeeper client with one session. It creates znodes one by one, and connects to the next
/// member when its connection ends. Returns the numbers of acknowledged znodes.
fn create_all(shared: &Shared, id: usize, members: &[SocketAddr]) -> BTreeSet<u64> {
    let mut done = BTreeSet::new();
    let mut next = members.iter().cycle().skip(id);
    let mut client = crate::ensemble::open(*next.next().unwrap());
    let (session, password) = (client.session, client.password.clone());
    for number in 0.. {
        if shared.is_over() {
            break;
        }
        std::thread::sleep(PAUSE);
        let (path, data) = (format!("/{id}/{number}"), value(number));
        match client.try_call(&Request::Write(client::create(&path, &data, 0))) {
            Some(answer) => {
                assert_eq!(answer.header.error, ErrorCode::OK, "{path}");
                done.insert(number);
                shared.add(CLIENTS + id);
            }
            // The create may have taken effect.
            None => wait_until("the session is attached elsewhere", || {
                match Client::try_greet(*next.next().unwrap(), session, &password, 0) {
                    Greeted::Attached(attached) => client = *attached,
                    Greeted::Refused => panic!("the session of client {id} has expired"),
                    Greeted::Ended => return shared.is_over(),
                }
                true
            }),
        }
    }
    done
}

/// Kills members for a number of rounds. After each round every client must get writes
/// acknowledged.
fn kill_members(members: &mut Members, shared: &Shared, rounds: u64, random: &mut Random) {
    let mut kill_count = 0;
    wait_until("all clients write", || shared.counts().iter().all(|count| *count >= PROGRESS));
    for round in 0..rounds {
        std::thread::sleep(Duration::from_millis(random.between(0, 300)));
        let count = *random.pick(&[1, 1, 1, 2, 2, 3]);
        let first = random.below(3) as usize;
        let killed: Vec<usize> = (0..count).map(|nth| (first + nth) % 3).collect();
        killed.iter().for_each(|place| members.kill_nine(*place));
        kill_count += killed.len();
        // Sometimes a member that is just starting is killed as well.
        for place in &killed {
            if !random.one_in(3) {
                continue;
            }
            members.start(*place);
            std::thread::sleep(Duration::from_millis(random.between(1, 300)));
            members.kill_nine(*place);
            kill_count += 1;
        }
        std::thread::sleep(Duration::from_millis(random.between(0, 500)));
        killed.iter().for_each(|place| members.start(*place));
        let before = shared.counts();
        wait_until(&format!("all clients go on after round {round} without {killed:?}"), || {
            before.iter().zip(shared.counts()).all(|(before, now)| now >= before + PROGRESS)
        });
    }
    println!("{kill_count} kills in {rounds} rounds");
}

/// The hash of etcd's keys at a revision, from one member; `None` if the member cannot compute it
/// yet.
fn hash_kv(address: SocketAddr, revision: i64) -> Option<String> {
    let body = format!("{{\"revision\":{revision}}}");
    let (status, body) = request(address, "POST /v3/maintenance/hashkv", &body)?;
    // The header, which names the member, is cut off.
    let (_, hash) = body.split_once("},").filter(|_| status == 200)?;
    assert!(hash.contains("\"compact_revision\":"), "{body}");
    Some(hash.to_string())
}

/// Fails unless the hashes of all members are equal, and the acknowledged puts are there.
fn check_etcd(etcd: &[SocketAddr; 3], done: &[BTreeMap<u64, i64>]) {
    check_revisions(etcd[0]);
    for (id, done) in done.iter().enumerate() {
        let (key, range_end) = (format!("{id}/").into_bytes(), format!("{id}0").into_bytes());
        let range = Range { key, range_end, ..Range::default() };
        let shown = range_of(Caller::open(etcd[id]).call(&Op::Range(range)));
        let shown: BTreeMap<_, _> =
            shown.kvs.iter().map(|pair| (&pair.key[..], (&pair.value[..], pair))).collect();
        for (number, revision) in done {
            let (found, pair) = shown[format!("{id}/{number:08}").as_bytes()];
            assert_eq!((found, pair.mod_revision), (&value(*number)[..], *revision));
        }
    }
    let all = Range { key: vec![0], range_end: vec![0], count_only: true, ..Range::default() };
    let revision = range_of(Caller::open(etcd[0]).call(&Op::Range(all))).revision;
    let mut hashes = Vec::new();
    for address in etcd {
        wait_until("a member tells its hash", || {
            let hash = hash_kv(*address, revision);
            let is_told = hash.is_some();
            hashes.extend(hash);
            is_told
        });
    }
    assert!(hashes.iter().all(|hash| *hash == hashes[0]), "at {revision}: {hashes:?}");
}

/// Fails unless all members show the same znodes, and the acknowledged ones are there.
fn check_zookeeper(zookeeper: &[SocketAddr], done: &[BTreeSet<u64>]) {
    for (id, done) in done.iter().enumerate() {
        let parent = format!("/{id}");
        let mut shown = Vec::new();
        for address in zookeeper {
            let mut client = Client::open(*address, TIMEOUT_MS);
            let synced = client.call(&Request::Sync { path: Some(&parent) });
            assert_eq!(synced.header.error, ErrorCode::OK);
            let answer = client.call(&client::read(ReadKind::GetChildren, &parent));
            shown.push(answer.names().into_iter().collect::<BTreeSet<String>>());
        }
        assert!(shown.iter().all(|names| *names == shown[0]), "members differ below {parent}");
        let mut client = Client::open(zookeeper[id], TIMEOUT_MS);
        for number in done {
            assert!(shown[0].contains(&number.to_string()), "{parent}/{number} is lost");
            assert_eq!(client.get(&format!("{parent}/{number}")), Ok(value(*number)));
        }
    }
}

/// Kills members in 5 rounds, or in QUORATE_MEMBER_KILLS. Another QUORATE_SEED chooses other
/// members and moments.
#[test]
fn what_an_ensemble_acknowledged_outlives_kills_of_its_members() {
    let rounds = number_from_env("QUORATE_MEMBER_KILLS", 5);
    let seed = number_from_env("QUORATE_SEED", 1);
    let began = Instant::now();
    let mut members = Members::prepare("kills-ensemble", "snapCount=500\nsnapSizeLimitInKb=4096\n");
    let etcd = members.prepare_etcd();
    let zookeeper = members.clients.clone();
    (0..3).for_each(|place| members.start(place));
    let mut client = crate::ensemble::open(zookeeper[0]);
    (0..CLIENTS).for_each(|id| drop(client.create(&format!("/{id}"), b"", 0).unwrap()));
    client.close();
    wait_until("all serve etcd's clients", || {
        etcd.iter().all(|address| hash_kv(*address, 0).is_some())
    });
    wait_until("all serve ZooKeeper's clients", || {
        zookeeper.iter().all(|address| crate::ensemble::word(*address, "srvr").contains("Mode: "))
    });
    let shared = Shared::default();
    let (puts, creates) = std::thread::scope(|scope| {
        let (shared, zookeeper) = (&shared, &zookeeper);
        let over = Over(shared);
        let puts: Vec<_> = (0..CLIENTS)
            .map(|id| {
                let (done, next, compared) = (BTreeMap::new(), 0, 0);
                let putter = Putter { shared, id, members: etcd, done, next, compared };
                scope.spawn(move || putter.run())
            })
            .collect();
        let creates: Vec<_> =
            (0..CLIENTS).map(|id| scope.spawn(move || create_all(shared, id, zookeeper))).collect();
        kill_members(&mut members, shared, rounds, &mut Random::new(seed));
        drop(over);
        let puts: Vec<_> = puts.into_iter().map(|it| it.join().unwrap()).collect();
        let creates: Vec<_> = creates.into_iter().map(|it| it.join().unwrap()).collect();
        (puts, creates)
    });
    check_etcd(&etcd, &puts);
    check_zookeeper(&zookeeper, &creates);
    assert!((0..3).all(|place| !members.log(place).contains("panicked")));
    println!("seed {seed}: acknowledged {:?}, in {:?}", shared.counts(), began.elapsed());
    members.stop();
}
