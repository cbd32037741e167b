//! Runs a server under attack: well-behaved clients beside the attack, and the server's memory.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

use etcd::pb::Message;
use etcd::pb::etcdserverpb as pb;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use zk::ErrorCode;
use zk::request::{ReadKind, Request, WriteRequest};

use super::requests::{Connection, count, fill};
use crate::client::{Client, SEQUENTIAL, create, read};
use crate::ensemble::open;
use crate::etcd::grpc_client::{call, connect, framed, head, kv, run, soon};
use crate::etcd::request;
use crate::server::{Server, wait_until};

const ETCD: &str = "quorate.etcdAddr=127.0.0.1:0";
const V2: &str = "quorate.etcdEnableV2=true";

pub const MIB: u64 = 1 << 20;

/// How much memory an attack may cost whose requests are refused, or whose answers are small. The
/// state in these tests is below 100 MiB, and a slow machine may give memory back late.
pub const RISE_MAX: u64 = 256 * MIB;

/// The address space of a server. An attack that takes all memory then ends the server instead of
/// the machine.
const ADDRESS_SPACE: u64 = 4096 * MIB;

/// How long a well-behaved client may get no answer; after that the test fails.
const UNANSWERED_MAX: Duration = Duration::from_secs(120);

/// How long a client waits after a round without an answer.
const UNANSWERED_PAUSE: Duration = Duration::from_millis(10);

/// Limits the address space of a running process.
pub fn limit_address_space(pid: Pid) {
    let limit = Rlimit { current: Some(ADDRESS_SPACE), maximum: Some(ADDRESS_SPACE) };
    prlimit(Some(pid), Resource::As, limit).expect("may be lowered");
}

/// The bytes in a line of `/proc/PID/status` about memory.
fn memory(pid: Pid, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.expect("the process lives").trim().trim_end_matches(" kB");
    kib.parse::<u64>().unwrap() * 1_024
}

/// The most memory that a process has used since its start, or since [`Memory::of`] was called for
/// it.
pub fn peak(pid: Pid) -> u64 {
    memory(pid, "VmHWM:")
}

/// How a process's memory changes from some moment on.
pub struct Memory {
    pid: Pid,
    before: u64,
}

impl Memory {
    pub fn of(pid: Pid) -> Memory {
        // Writing 5 resets the recorded peak (proc_pid_clear_refs(5)).
        fs::write(format!("/proc/{}/clear_refs", pid.as_raw_pid()), "5").unwrap();
        Memory { pid, before: memory(pid, "VmRSS:") }
    }

    /// By how many bytes the memory has risen at most since [`Memory::of`] was called.
    pub fn rise(&self) -> u64 {
        peak(self.pid).saturating_sub(self.before)
    }
}

/// The experience of a well-behaved client during an attack.
#[derive(Debug, Default)]
struct Seen {
    rounds: u64,
    longest: Duration,
    /// How many rounds had no answer, because the server had no leader or the connection ended.
    unanswered: u64,
}

/// Well-behaved clients, each in its own thread. A wrong answer makes the thread panic.
pub struct Witnesses {
    is_over: Arc<AtomicBool>,
    /// How many of the clients have had an answer.
    served: Arc<AtomicUsize>,
    threads: Vec<(&'static str, JoinHandle<Seen>)>,
}

impl Witnesses {
    /// Starts a client for each protocol that is served, and returns once each has had an answer.
    pub fn of(zk: SocketAddr, etcd: SocketAddr, has_v2: bool) -> Witnesses {
        let (is_over, served) = (Arc::default(), Arc::default());
        let mut witnesses = Witnesses { is_over, served, threads: Vec::new() };
        witnesses.add("ZooKeeper", move |signals| witness_zk(zk, signals));
        witnesses.add("etcd", move |signals| run(witness_etcd(etcd, signals)));
        if has_v2 {
            witnesses.add("etcd v2", move |signals| witness_v2(etcd, signals));
        }
        let count = witnesses.threads.len();
        wait_until("all are served", || witnesses.served.load(Ordering::Acquire) == count);
        witnesses
    }

    fn add(&mut self, name: &'static str, witness: impl FnOnce(&Signals) -> Seen + Send + 'static) {
        let signals = Signals { is_over: self.is_over.clone(), served: self.served.clone() };
        self.threads.push((name, spawn(move || witness(&signals))));
    }

    /// Waits until each client has had one more answer, and stops them. Returns how many rounds got
    /// no answer.
    pub fn finish(mut self) -> u64 {
        self.is_over.store(true, Ordering::Release);
        let seen = std::mem::take(&mut self.threads).into_iter().map(|(name, thread)| {
            let seen = thread.join().unwrap_or_else(|_| panic!("{name} is not served"));
            println!("beside: {name}, {seen:?}");
            seen.unanswered
        });
        seen.sum()
    }
}

impl Drop for Witnesses {
    /// Stops the clients if the test fails, too.
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
    }
}

/// The flags through which a test and a well-behaved client communicate.
struct Signals {
    is_over: Arc<AtomicBool>,
    served: Arc<AtomicUsize>,
}

/// Runs rounds until `is_over` is set, and one after that. `round` returns whether it was answered.
/// Fails if no round was answered for [`UNANSWERED_MAX`].
async fn rounds(signals: &Signals, mut round: impl AsyncFnMut(u64) -> bool) -> Seen {
    let mut seen = Seen::default();
    let mut answered_at = Instant::now();
    loop {
        let (is_last, begun_at) = (signals.is_over.load(Ordering::Acquire), Instant::now());
        let is_answered = round(seen.rounds).await;
        seen.rounds += 1;
        seen.longest = seen.longest.max(begun_at.elapsed());
        if is_answered {
            answered_at = Instant::now();
        } else {
            seen.unanswered += 1;
            assert!(answered_at.elapsed() < UNANSWERED_MAX, "no round is answered any more");
            // If the connection is refused, the round fails at once, so wait a little.
            tokio::time::sleep(UNANSWERED_PAUSE).await;
        }
        if seen.rounds - seen.unanswered == 1 && is_answered {
            signals.served.fetch_add(1, Ordering::AcqRel);
        }
        if is_last && is_answered {
            return seen;
        }
    }
}

fn witness_zk(address: SocketAddr, signals: &Signals) -> Seen {
    let mut client = open(address);
    run(rounds(signals, async |_| {
        let is_answered = zk_round(&mut client).is_some();
        if !is_answered {
            client = open(address);
        }
        is_answered
    }))
}

/// Creates, reads and deletes a znode. `None` if the connection ended.
fn zk_round(client: &mut Client) -> Option<()> {
    let answer = client.try_call(&Request::Write(create("/well-", b"behaved", SEQUENTIAL)))?;
    assert_eq!(answer.header.error, ErrorCode::OK);
    let path = answer.text();
    let answer = client.try_call(&read(ReadKind::GetData, &path))?;
    assert_eq!(answer.header.error, ErrorCode::OK);
    assert_eq!(answer.data().as_deref(), Some(&b"behaved"[..]));
    let delete = WriteRequest::Delete { path: &path, version: -1 };
    assert_eq!(client.try_call(&Request::Write(delete))?.header.error, ErrorCode::OK);
    Some(())
}

async fn witness_etcd(address: SocketAddr, signals: &Signals) -> Seen {
    let mut requests = connect(address).await;
    rounds(signals, async |number| {
        let is_answered = etcd_round(&requests, number).await.is_some();
        if !is_answered {
            requests = connect(address).await;
        }
        is_answered
    })
    .await
}

/// Puts and reads a key that only this client uses. `None` if there is no leader, or the connection
/// ended.
async fn etcd_round(requests: &Connection, number: u64) -> Option<()> {
    let key = format!("well{number}");
    let put = pb::PutRequest { key: key.clone().into(), value: "1".into(), ..Default::default() };
    answered(requests, "Put", &put).await?;
    let range = pb::RangeRequest { key: key.into(), ..Default::default() };
    let found = answered(requests, "Range", &range).await?;
    let found = pb::RangeResponse::decode(found).unwrap();
    assert_eq!((found.count, &found.kvs[0].value[..]), (1, &b"1"[..]));
    Some(())
}

async fn answered(
    requests: &Connection,
    method: &str,
    request: &impl Message,
) -> Option<bytes::Bytes> {
    let head = head(&format!("/etcdserverpb.KV/{method}"));
    let answer = soon(call(requests, head, framed(&request.encode_to_vec()))).await.ok()?;
    let (code, text) = answer.status();
    assert!(["0", "14"].contains(&code.as_str()), "{text}");
    (code == "0").then(|| answer.messages[0].clone())
}

fn witness_v2(address: SocketAddr, signals: &Signals) -> Seen {
    run(rounds(signals, async |number| {
        let put = request(address, &format!("PUT /v2/keys/well?value={number}"), "");
        let Some((200 | 201, _)) = put else { return false };
        let Some((200, body)) = request(address, "GET /v2/keys/well", "") else { return false };
        assert!(body.contains(&format!("\"value\":\"{number}\"")), "{body}");
        true
    }))
}

/// A standalone server with keys, well-behaved clients, and its memory from then on.
pub struct Attack {
    pub server: Server,
    witnesses: Witnesses,
    memory: Memory,
    /// How many keys in `[k,l)` the server must have after a restart.
    pub key_count: usize,
}

impl Attack {
    /// Starts a server with these lines in its configuration, puts `key_count` keys, and starts the
    /// well-behaved clients.
    pub fn prepare(name: &str, lines: &[&str], key_count: usize) -> Attack {
        let server = Server::start(&format!("attack-{name}"), &[&[ETCD, V2], lines].concat());
        limit_address_space(server.pid());
        run(async { fill(&connect(server.face("etcd")).await, key_count, 0).await });
        let witnesses = Witnesses::of(server.address(), server.face("etcd"), true);
        let memory = Memory::of(server.pid());
        Attack { server, witnesses, memory, key_count }
    }

    pub fn etcd(&self) -> SocketAddr {
        self.server.face("etcd")
    }

    /// Stops the clients and checks that all their rounds were answered, that the memory rose by at
    /// most `rise_max`, and that the data survives `kill -9` and a restart.
    pub fn end(mut self, rise_max: u64) {
        assert_eq!(self.witnesses.finish(), 0, "all rounds are answered");
        let rise = self.memory.rise();
        println!("the memory rose by {} MiB", rise / MIB);
        assert!(rise <= rise_max, "{} MiB", rise / MIB);
        let log = self.server.log();
        assert!(!log.contains("panicked"), "{log}");
        self.server.kill_nine();
        self.server.restart();
        let mut zk = open(self.server.address());
        assert!(zk.create("/after", b"", 0).is_ok());
        run(async {
            let requests = connect(self.server.face("etcd")).await;
            assert_eq!(count(&requests).await, self.key_count);
            let put = pb::PutRequest { key: "after".into(), ..Default::default() };
            assert_eq!(kv(&requests, "Put", &put).await.status().0, "0");
        });
        println!("a start took {} MiB", peak(self.server.pid()) / MIB);
    }
}
