//! Clients of etcd during faults: several calls at once on one connection, each client at any
//! member. One history records every call with its times and its fate: an answer, a refusal, or
//! neither.
//!
//! A write without an answer may have made any revision that nobody was told of. So one client, the
//! auditor, reads all keys at each such revision, before it compacts: the judge then knows every
//! state.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use bench::client_etcd::runtime;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use workload::etcd::finding::Rule;
use workload::etcd::generate::{Generator, Options};
use workload::etcd::history::History;
use workload::etcd::linear::{Verdict, judge};
use workload::etcd::op::{Answer, Compact, Error, Op, Put, Range, RangeAnswer};
use workload::generate::Random;

use super::load::{Alarm, World};
use crate::etcd_client::{EtcdClient, everything, range_of};
use crate::server::{PATIENCE, Server, port_of_its_own, wait_until};

/// Clients that work during the faults.
const CLIENTS: u32 = 4;
/// The number of the auditor, and of the client that reads everything at the end.
const AUDITOR: u32 = CLIENTS;
/// Calls that a client sends at once.
const BURST_MAX: u64 = 4;
/// How long a client waits for most answers. A member gives up a call after 7 s.
const CALL_WAIT: Duration = Duration::from_secs(10);
/// The time between two looks of the auditor.
const AUDIT_PAUSE: Duration = Duration::from_millis(100);
/// A compaction leaves at most so many revisions.
const REVISIONS_LEFT_MAX: u64 = 40;

/// The state that all clients share.
pub struct EtcdWorld {
    history: Mutex<History>,
    /// The revisions that acknowledged writes have made since the last audit.
    acknowledged: Mutex<BTreeSet<i64>>,
    /// The newest revision up to which all states are known.
    audited: AtomicI64,
    began: Instant,
    addresses: Vec<SocketAddr>,
    /// The cluster that all responses name.
    cluster_id: OnceLock<u64>,
    is_over: AtomicBool,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl EtcdWorld {
    pub fn new(addresses: Vec<SocketAddr>) -> Arc<EtcdWorld> {
        Arc::new(EtcdWorld {
            history: Mutex::default(),
            acknowledged: Mutex::default(),
            audited: AtomicI64::new(1),
            began: Instant::now(),
            addresses,
            cluster_id: OnceLock::new(),
            is_over: AtomicBool::new(false),
        })
    }

    /// Tells the clients to stop.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    fn now_us(&self) -> u64 {
        self.began.elapsed().as_micros() as u64
    }

    async fn connect(self: &Arc<Self>, client: u32, member: usize) -> Option<Connection> {
        let wire = EtcdClient::connect(self.addresses[member]).await?;
        let number = lock(&self.history).connect(client, member as u32);
        Some(Connection { world: self.clone(), wire, number })
    }

    /// Judges the history. If it is refused, or a part cannot be compared, it goes to a file.
    pub fn judge(&self, folder: &Path) -> Verdict {
        let history = lock(&self.history);
        let problem = match judge(&history) {
            Ok(verdict) if verdict.uncompared_count == 0 => return verdict,
            Ok(verdict) => format!("not all is compared: {verdict:?}"),
            Err(violation) => violation.to_string(),
        };
        let file = folder.join("history-etcd.txt");
        std::fs::write(&file, written(&history)).unwrap();
        panic!("{problem}; see {}", file.display());
    }
}

/// A connection of a client, whose calls are recorded.
#[derive(Clone)]
struct Connection {
    world: Arc<EtcdWorld>,
    wire: EtcdClient,
    /// Its number in the history.
    number: usize,
}

impl Connection {
    /// Makes a call. None if there is no answer: the connection ended, or the time is over.
    async fn call(&mut self, op: Op, wait: Duration) -> Option<Answer> {
        let id = lock(&self.world.history).ask(self.number, op.clone(), self.world.now_us());
        let told = timeout(wait, self.wire.try_ask(&op)).await;
        let answer = told.unwrap_or(Some(Err(Error::Canceled)))?;
        if let Some(served) = self.wire.served() {
            let cluster_id = self.world.cluster_id.get_or_init(|| served.cluster_id);
            assert_eq!(*cluster_id, served.cluster_id, "all members are of one cluster");
        }
        let mut history = lock(&self.world.history);
        history.answer(id, answer.clone(), self.world.now_us());
        if let Ok(response) = &answer
            && response.tells_change()
        {
            lock(&self.world.acknowledged).insert(response.revision());
        }
        drop(history);
        (answer != Err(Error::Canceled)).then_some(answer)
    }
}

/// Runs the clients until the world ends.
pub fn run(world: &Arc<EtcdWorld>, others: &World, mut random: Random) {
    let _alarm = Alarm(others);
    runtime().unwrap().block_on(async {
        let mut tasks = JoinSet::new();
        for id in 0..CLIENTS {
            tasks.spawn(Client::new(world, id, random.fork()).run());
        }
        tasks.spawn(Auditor { world: world.clone(), random }.run());
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap_or_else(|failed| std::panic::resume_unwind(failed.into_panic()));
        }
    });
}

/// One client.
struct Client {
    world: Arc<EtcdWorld>,
    id: u32,
    random: Random,
    generator: Generator,
}

impl Client {
    fn new(world: &Arc<EtcdWorld>, id: u32, mut random: Random) -> Client {
        // The auditor compacts.
        let options = Options { compactions: false, ..Options::all(Vec::new()) };
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

    /// Works on a connection, and leaves it when a call has no answer, and at times without a
    /// reason. Calls without an answer are given up then.
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

/// The client that reads the state at each revision that no answer told of.
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

    /// Audits up to the newest revision; then it compacts at times. None without an answer.
    async fn look(&mut self, connection: &mut Connection) -> Option<()> {
        let audited = audit(connection).await?;
        if self.random.one_in(4) {
            let left = self.random.below(REVISIONS_LEFT_MAX) as i64;
            let (revision, physical) = ((audited - left).max(1), self.random.one_in(2));
            // A refusal does not matter: a compaction without an answer may have been done.
            let _ = connection.call(Op::Compact(Compact { revision, physical }), CALL_WAIT).await?;
        }
        Some(())
    }
}

/// Reads all keys at each revision since the last audit that no answer told of. Returns the newest
/// revision; none without an answer.
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

/// The answer to a range of all keys. None without an answer or a leader.
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

/// Audits the last revisions, and checks that all members show the same keys. Nobody writes any
/// more, but a write without an answer may still take effect.
pub fn check_convergence(world: &Arc<EtcdWorld>) {
    await_all(world);
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
}

/// A history as text: every call, then every connection.
fn written(history: &History) -> String {
    let mut text = String::new();
    for record in &history.calls {
        text += &format!("{:?} connection {} {:?}\n", record.id, record.connection, record.op);
        text += &format!("    asked {:?}, {:?}\n", record.asked, record.answered);
    }
    for (number, connection) in history.connections.iter().enumerate() {
        text += &format!("connection {number}: {connection:?}\n");
    }
    text
}

/// Else the chaos test would prove nothing.
#[test]
fn the_judge_notices_that_an_acknowledged_put_is_lost() {
    let etcd = SocketAddr::from(([127, 0, 0, 1], port_of_its_own()));
    let mut server = Server::start("chaos-loses", &[&format!("quorate.etcdAddr={etcd}")]);
    let world = EtcdWorld::new(vec![etcd]);
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
    // The lost put has left its revision to another one.
    assert_eq!(call(put("c")), 3);
    assert_eq!(rule_broken(), Some(Rule::Revision));
    // A read alone would have told it, too.
    lock(&world.history).calls.truncate(2);
    assert_eq!(rule_broken(), None);
    assert_eq!(call(Op::Range(everything())), 3);
    assert_eq!(rule_broken(), Some(Rule::Read));
}

/// Copies a folder with all that is in it.
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
