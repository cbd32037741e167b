//! The etcd clients of the chaos tests. Each client connects to any member and makes several calls
//! at once. One history records every call with its times and its result: an answer, a refusal, or
//! nothing.
//!
//! A write without an answer, or the end of a lease, may have made a revision that no answer
//! mentions. So one client, the auditor, reads all keys at each such revision before it compacts;
//! then the judge knows every state. Some clients only watch, and some only have leases; further
//! judges compare what these saw with the states.

mod keeper;
mod stream;
mod verdict;
mod watcher;
mod world;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bench::workloads::etcd::client::runtime;
use tokio::task::JoinSet;
use tokio::time::sleep;
use workload::etcd::finding::Rule;
use workload::etcd::generate::{Generator, Options};
use workload::etcd::linear::judge;
use workload::etcd::op::{Compact, Error, LeaseOp, Op, Put, Range, RangeAnswer, Response};
use workload::etcd::watch::{Step, Wanted};
use workload::generate::Random;

use super::load::{Alarm, World};
use crate::etcd_client::{everything, range_of};
use crate::server::{PATIENCE, Server, port_of_its_own, wait_until};
use keeper::Keeper;
use verdict::judge_history;
pub use verdict::{counts_of, judge_all};
pub use watcher::Watcher;
pub use world::EtcdWorld;
use world::{CALL_WAIT, Connection, lock};

/// How many clients make calls.
const CLIENTS: u32 = 4;
/// The client number of the auditor in the history. The client that reads everything at the end
/// uses this number, too.
const AUDITOR: u32 = CLIENTS;
/// How many clients watch, how many have leases, and the first client number of each group.
const WATCHERS: u32 = 3;
const FIRST_WATCHER: u32 = AUDITOR + 1;
const KEEPERS: u32 = 3;
const FIRST_KEEPER: u32 = FIRST_WATCHER + WATCHERS;
/// How many calls a client makes at once at most.
const BURST_MAX: u64 = 4;
/// How long the auditor pauses between two looks at the state.
const AUDIT_PAUSE: Duration = Duration::from_millis(100);
/// How many revisions a compaction leaves at most.
const REVISIONS_LEFT_MAX: u64 = 40;

/// Runs the clients until the test is over. Returns those that watch.
pub fn run(world: &Arc<EtcdWorld>, others: &World, mut random: Random) -> Vec<Watcher> {
    let _alarm = Alarm(others);
    runtime().unwrap().block_on(async {
        let (mut tasks, mut watchers, mut kept) = (JoinSet::new(), JoinSet::new(), Vec::new());
        for id in 0..CLIENTS {
            tasks.spawn(Client::new(world, id, random.fork()).run());
        }
        for client in FIRST_WATCHER..FIRST_KEEPER {
            watchers.spawn(Watcher::new(world, client, random.fork()).run());
        }
        for client in FIRST_KEEPER..FIRST_KEEPER + KEEPERS {
            tasks.spawn(Keeper { world: world.clone(), client, random: random.fork() }.run());
        }
        tasks.spawn(Auditor { world: world.clone(), random }.run());
        loop {
            let ended = tokio::select! {
                Some(ended) = tasks.join_next() => ended,
                Some(watcher) = watchers.join_next() => watcher.map(|it| kept.push(it)),
                else => return kept,
            };
            ended.unwrap_or_else(|failed| std::panic::resume_unwind(failed.into_panic()));
        }
    })
}

/// A client that makes calls.
struct Client {
    world: Arc<EtcdWorld>,
    id: u32,
    random: Random,
    generator: Generator,
}

impl Client {
    fn new(world: &Arc<EtcdWorld>, id: u32, mut random: Random) -> Client {
        // Compactions are left to the auditor. Deletes have an end, so that keys of leases are
        // safe, and no call changes a key twice.
        let options = Options {
            compactions: false,
            open_deletes: false,
            open_deletes_in_txns: false,
            ..Options::all(Vec::new())
        };
        let generator = Generator::new(random.fork(), id, options);
        Client { world: world.clone(), id, random, generator }
    }

    async fn run(mut self) {
        while !self.world.is_over() {
            let any = self.random.below(self.world.addresses.len() as u64) as usize;
            if let Some(connection) = self.world.connect(self.id, any).await {
                self.work(&connection).await;
            }
            sleep(Duration::from_millis(self.random.between(5, 100))).await;
        }
    }

    /// Makes calls on a connection. Leaves it after a call without an answer, and sometimes for no
    /// reason; calls under way are then abandoned.
    async fn work(&mut self, connection: &Connection) {
        let mut calls = JoinSet::new();
        while !self.world.is_over() {
            for _ in 0..self.random.between(1, BURST_MAX) {
                let (op, wait) = (self.generator.next_op(), self.patience());
                let mut connection = connection.clone();
                calls.spawn(async move { connection.call(op, wait).await });
            }
            let left = if self.random.one_in(2) { 0 } else { self.random.below(BURST_MAX) };
            while calls.len() as u64 > left {
                let Some(answer) = calls.join_next().await.expect("a call").unwrap() else {
                    return;
                };
                if let Ok(response) = answer {
                    self.generator.observe(response.revision());
                }
            }
            if self.random.one_in(200) {
                return;
            }
            sleep(Duration::from_millis(self.random.between(1, 40))).await;
        }
        while let Some(ended) = calls.join_next().await {
            ended.unwrap();
        }
    }

    fn patience(&mut self) -> Duration {
        match self.random.one_in(50) {
            true => Duration::from_millis(self.random.magnitude(1, 1_000)),
            false => CALL_WAIT,
        }
    }
}

/// The client that reads the state at each revision that no answer mentions.
struct Auditor {
    world: Arc<EtcdWorld>,
    random: Random,
}

impl Auditor {
    async fn run(mut self) {
        while !self.world.is_over() {
            let any = self.random.below(self.world.addresses.len() as u64) as usize;
            if let Some(mut connection) = self.world.connect(AUDITOR, any).await {
                while !self.world.is_over() && self.look(&mut connection).await.is_some() {
                    sleep(AUDIT_PAUSE).await;
                }
            }
            sleep(AUDIT_PAUSE).await;
        }
    }

    /// Audits up to the newest revision, and then sometimes compacts. `None` if a call gets no
    /// answer.
    async fn look(&mut self, connection: &mut Connection) -> Option<()> {
        let audited = audit(connection).await?;
        if self.random.one_in(4) {
            let left = self.random.below(REVISIONS_LEFT_MAX) as i64;
            let (revision, physical) = ((audited - left).max(1), self.random.one_in(2));
            // A refusal does not matter: an earlier compaction that got no answer may have been
            // done.
            let _ = connection.call(Op::Compact(Compact { revision, physical }), CALL_WAIT).await?;
        }
        Some(())
    }
}

/// Reads all keys at each revision since the last audit that no answer mentioned. Returns the
/// newest revision; `None` if a call gets no answer.
async fn audit(connection: &mut Connection) -> Option<i64> {
    let world = connection.world.clone();
    let newest = read(connection, everything()).await?.revision;
    let audited = world.audited.load(Ordering::Relaxed);
    let unknown: Vec<i64> = {
        let acknowledged = lock(&world.acknowledged);
        (audited + 1..=newest).filter(|it| !acknowledged.contains(it)).collect()
    };
    for revision in unknown {
        read(connection, Range { revision, ..everything() }).await?;
    }
    world.audited.store(newest, Ordering::Relaxed);
    let mut acknowledged = lock(&world.acknowledged);
    *acknowledged = acknowledged.split_off(&(newest + 1));
    Some(newest)
}

/// Reads a range; `None` if there is no answer, or no leader.
async fn read(connection: &mut Connection, range: Range) -> Option<RangeAnswer> {
    match connection.call(Op::Range(range), CALL_WAIT).await? {
        Err(Error::NoLeader | Error::TimedOut | Error::NotCapable) => None,
        answer => Some(range_of(answer)),
    }
}

/// Waits until every member answers a linearizable read of all keys.
pub fn await_all(world: &Arc<EtcdWorld>) {
    for member in 0..world.addresses.len() {
        wait_until(&format!("member {} answers etcd's clients", member + 1), || {
            read_at(world, member, everything()).is_some()
        });
    }
}

fn read_at(world: &Arc<EtcdWorld>, member: usize, range: Range) -> Option<RangeAnswer> {
    runtime().unwrap().block_on(async {
        let mut connection = world.connect(AUDITOR, member).await?;
        read(&mut connection, range).await
    })
}

/// Waits until all leases have ended, audits the last revisions, and fails unless all members show
/// the same keys and the watchers see every event. No client writes any more, but a write without
/// an answer may still take effect.
pub fn check_convergence(world: &Arc<EtcdWorld>, watchers: &mut [Watcher]) {
    await_all(world);
    let of_leases = Range { key: b"l/".to_vec(), range_end: b"l0".to_vec(), ..Range::default() };
    wait_until("all leases have ended", || {
        read_at(world, 0, of_leases.clone()).is_some_and(|it| it.count == 0)
    });
    let from_own = Range { serializable: true, ..everything() };
    let deadline = Instant::now() + PATIENCE;
    loop {
        let read = |range: &Range| {
            let all = (0..world.addresses.len()).map(|own| read_at(world, own, range.clone()));
            all.collect::<Option<Vec<RangeAnswer>>>()
        };
        let read_twice = read(&everything()).zip(read(&from_own));
        if let Some((linearizable, serializable)) = &read_twice
            && linearizable.iter().chain(serializable).all(|it| *it == linearizable[0])
        {
            break;
        }
        assert!(Instant::now() < deadline, "members differ: {read_twice:#?}");
    }
    wait_until("the last revisions are read", || {
        runtime()
            .unwrap()
            .block_on(async {
                let mut connection = world.connect(AUDITOR, 0).await?;
                audit(&mut connection).await
            })
            .is_some()
    });
    let newest = world.audited.load(Ordering::Relaxed);
    runtime().unwrap().block_on(async {
        for watcher in watchers {
            watcher.finish(newest).await;
        }
    });
}

/// If the judge did not notice this, the chaos tests would prove nothing.
#[test]
fn the_judge_notices_that_an_acknowledged_put_is_lost() {
    let etcd = SocketAddr::from(([127, 0, 0, 1], port_of_its_own()));
    let mut server = Server::start("chaos-loses", &[&format!("quorate.etcdAddr={etcd}")]);
    let world = EtcdWorld::new(vec![etcd], false);
    let call = |op: Op| {
        runtime().unwrap().block_on(async {
            let mut connection = world.connect(0, 0).await.expect("it listens");
            let answer = connection.call(op, CALL_WAIT).await.expect("it answers");
            answer.expect("it is not refused").revision()
        })
    };
    let put = |key: &str| Op::Put(Put { key: key.into(), ..Put::default() });
    let rule_broken = || judge(&lock(&world.history)).err().map(|it| it.rule);
    assert_eq!(call(put("a")), 2);
    server.stop();
    let (data, old) = (server.data_dir(), server.folder().join("old"));
    copy(&data, &old);
    server.restart();
    assert_eq!(call(put("b")), 3);
    assert_eq!(rule_broken(), None);
    server.kill_nine();
    std::fs::remove_dir_all(&data).unwrap();
    std::fs::rename(&old, &data).unwrap();
    server.restart();
    // The new put has the revision of the lost one.
    assert_eq!(call(put("c")), 3);
    assert_eq!(rule_broken(), Some(Rule::Revision));
    // A read alone would have revealed the loss, too.
    lock(&world.history).calls.truncate(2);
    assert_eq!(rule_broken(), None);
    assert_eq!(call(Op::Range(everything())), 3);
    assert_eq!(rule_broken(), Some(Rule::Read));
}

/// The judges accept a watch and a lease of a correct server. They reject them if an event is left
/// out, or a keep-alive is added that the server never received.
#[test]
fn the_judges_notice_a_lost_event_and_a_lease_that_ends_early() {
    let etcd = SocketAddr::from(([127, 0, 0, 1], port_of_its_own()));
    let _server = Server::start("chaos-watches", &[&format!("quorate.etcdAddr={etcd}")]);
    let world = EtcdWorld::new(vec![etcd], false);
    let lease = 7;
    runtime().unwrap().block_on(async {
        let mut watcher = Watcher::new(&world, FIRST_WATCHER, Random::new(1));
        let all = Wanted { key: vec![0], range_end: vec![0], ..Wanted::default() };
        watcher.add(Wanted { start: 1, ..all });
        let mut connection = world.connect(0, 0).await.expect("it listens");
        let put = |key: String, lease| Op::Put(Put { key: key.into(), lease, ..Put::default() });
        let calls = [
            Op::Lease(LeaseOp::Grant { lease, ttl_s: 2 }),
            put("a".into(), 0),
            put(format!("{}0", keeper::keys_of(lease)), lease),
            Op::Lease(LeaseOp::KeepAlive { lease }),
        ];
        for call in calls {
            connection.call(call, CALL_WAIT).await.expect("it answers").expect("it is done");
        }
        while read(&mut connection, everything()).await.expect("it answers").count > 1 {
            sleep(AUDIT_PAUSE).await;
        }
        watcher.finish(4).await;
    });
    let history = lock(&world.history);
    let (_, leases, watches) = judge_history(&history).unwrap();
    assert_eq!((leases.expired, watches.event_count), (1, 3));
    let mut broken = history.clone();
    let has_events = |step: &Step| matches!(step, Step::Response(it) if !it.events.is_empty());
    let first = broken.watches[0].steps.iter().position(|(_, step)| has_events(step)).unwrap();
    broken.watches[0].steps.remove(first);
    assert!(judge_history(&broken).unwrap_err().contains("watch: "));
    let mut broken = history.clone();
    let seen_us = history.calls.last().unwrap().asked.at_us;
    let other = broken.connect(0, 0);
    let forged = broken.ask(other, Op::Lease(LeaseOp::KeepAlive { lease }), seen_us - 1_000_000);
    let kept = Response::KeptAlive { revision: 3, ttl_s: 2 };
    broken.answer(forged, Ok(kept), seen_us - 999_000);
    assert!(judge_history(&broken).unwrap_err().contains("Lease: "));
}

/// Copies a folder with everything in it.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (path, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        match path.is_dir() {
            true => copy(&path, &to),
            false => drop(std::fs::copy(&path, &to).unwrap()),
        }
    }
}
