//! Tests of three members with slow disks, on which each sync takes 50 ms longer. Puts then take as
//! long as the disks need, but whatever needs no disk must not wait for one.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use etcd::pb::etcdserverpb as pb;
use h2::client::SendRequest;
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::sleep;

use super::grpc_client::{connect, kv, run};
use super::leases::{grant, keep};
use super::watches::{progress, watch};
use super::{get, request};
use crate::ensemble::Members;
use crate::server::{skip, wait_until};

/// By how much a sync is delayed.
const SYNC: Duration = Duration::from_millis(50);

/// How long the disks are slow.
const SLOW_FOR: Duration = Duration::from_secs(15);

/// How long a client waits between two calls that need no disk.
const PAUSE: Duration = Duration::from_millis(20);

/// A process whose syncs are slow until this is dropped, because `strace` delays each of them.
struct Slowed(Child);

impl Slowed {
    /// Begins to delay the syncs of a process. The error says why this is impossible here.
    fn begin(pid: Pid) -> Result<Slowed, String> {
        let mut command = Command::new("strace");
        let delay = format!("inject=fdatasync,fsync:delay_enter={}", SYNC.as_micros());
        command.args(["-f", "-q", "-e", "trace=fdatasync,fsync", "-e", &delay, "-o", "/dev/null"]);
        command.args(["-p", &pid.as_raw_nonzero().to_string()]);
        let spawned = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut slowed = Slowed(spawned.map_err(|error| format!("strace: {error}"))?);
        let status = format!("/proc/{}/status", pid.as_raw_nonzero());
        let tracer = format!("TracerPid:\t{}\n", slowed.0.id());
        let mut ended = None;
        wait_until("it is held up", || {
            ended = slowed.0.try_wait().unwrap();
            ended.is_some() || std::fs::read_to_string(&status).unwrap().contains(&tracer)
        });
        ended.map_or(Ok(slowed), |status| Err(format!("strace cannot attach, {status}")))
    }
}

impl Drop for Slowed {
    fn drop(&mut self) {
        // The end of `strace` lets the process run normally again.
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let _ = self.0.wait();
    }
}

/// How long calls took, shortest first.
struct Times(Vec<Duration>);

impl Times {
    fn of(times: &RefCell<Vec<Duration>>) -> Times {
        let mut times = times.borrow().clone();
        times.sort_unstable();
        Times(times)
    }

    fn at(&self, percent: usize) -> Duration {
        self.0[(self.0.len() - 1) * percent / 100]
    }
}

impl std::fmt::Display for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (half, most, last) = (self.at(50), self.at(90), self.at(100));
        write!(f, "{} calls, p50 {half:?}, p90 {most:?}, at most {last:?}", self.0.len())
    }
}

/// How long the calls of all clients took, by kind.
#[derive(Default)]
struct Calls {
    puts: RefCell<Vec<Duration>>,
    reads: RefCell<Vec<Duration>>,
    progress: RefCell<Vec<Duration>>,
}

/// Puts one key after the other until the time is over. Returns how many.
async fn put_keys(requests: &SendRequest<Bytes>, place: usize, calls: &Calls) -> usize {
    let begun_at = Instant::now();
    for number in 0.. {
        if begun_at.elapsed() > SLOW_FOR {
            return number;
        }
        let key = format!("{place}/{number}").into();
        let put = pb::PutRequest { key, value: "v".into(), ..Default::default() };
        let sent_at = Instant::now();
        assert_eq!(kv(requests, "Put", &put).await.status().0, "0");
        calls.puts.borrow_mut().push(sent_at.elapsed());
    }
    unreachable!("the time ends first")
}

async fn read(requests: &SendRequest<Bytes>, calls: &Calls) {
    let begun_at = Instant::now();
    while begun_at.elapsed() < SLOW_FOR {
        let range = pb::RangeRequest { key: "0/0".into(), serializable: true, ..<_>::default() };
        let sent_at = Instant::now();
        assert_eq!(kv(requests, "Range", &range).await.status().0, "0");
        calls.reads.borrow_mut().push(sent_at.elapsed());
        sleep(PAUSE).await;
    }
}

/// Asks for the progress of a watch without events, over and over until the time is over.
async fn ask_for_progress(requests: &SendRequest<Bytes>, calls: &Calls) {
    let mut stream = watch(requests, "quiet", 0).await;
    let begun_at = Instant::now();
    while begun_at.elapsed() < SLOW_FOR {
        let sent_at = Instant::now();
        stream.send(&progress());
        let response: pb::WatchResponse = stream.next().await;
        assert_eq!((response.watch_id, response.events.len()), (-1, 0), "{response:?}");
        calls.progress.borrow_mut().push(sent_at.elapsed());
        sleep(PAUSE).await;
    }
}

/// Keeps a lease with a short time to live alive until the time is over.
async fn keep_lease(requests: &SendRequest<Bytes>, lease: i64) {
    let begun_at = Instant::now();
    while begun_at.elapsed() < SLOW_FOR {
        let left = keep(requests, &[lease]).await;
        assert!(left[0] > 0, "lease {lease} is lost");
        sleep(Duration::from_secs(1)).await;
    }
}

/// The Raft term of a member.
fn term(address: SocketAddr) -> u64 {
    let (status, body) = request(address, "POST /v3/maintenance/status", "{}").unwrap();
    assert_eq!(status, 200, "{body}");
    let term = body.split("\"raftTerm\":\"").nth(1).and_then(|rest| rest.split('"').next());
    term.expect("a status has a term").parse().unwrap()
}

/// Runs the clients of all members, each with its own connections, until the time is over. Returns
/// how many keys the client of each member has put.
fn work(etcd: [SocketAddr; 3], calls: &Calls) -> [usize; 3] {
    run(async {
        let mut connections = Vec::new();
        for address in etcd {
            let lease = 100 + connections.len() as i64;
            let requests = connect(address).await;
            assert_eq!(grant(&requests, lease, 4).await.ttl, 4);
            let key = format!("leased/{lease}").into();
            let put = pb::PutRequest { key, value: "v".into(), lease, ..Default::default() };
            assert_eq!(kv(&requests, "Put", &put).await.status().0, "0");
            connections.push((requests, connect(address).await, lease));
        }
        let one = async |place: usize| {
            let (requests, others, lease) = &connections[place];
            let putting = put_keys(requests, place, calls);
            let reading = read(others, calls);
            let watching = ask_for_progress(others, calls);
            tokio::join!(putting, reading, watching, keep_lease(others, *lease)).0
        };
        let (first, second, third) = tokio::join!(one(0), one(1), one(2));
        [first, second, third]
    })
}

#[test]
fn slow_disks_slow_down_puts_and_nothing_else() {
    let mut members = Members::prepare("slow-disk", "");
    let etcd = members.prepare_etcd();
    (0..3).for_each(|place| members.start(place));
    wait_until("all serve etcd's clients", || etcd.iter().all(|it| super::put(*it, "first", "")));
    let slowed: Result<Vec<Slowed>, String> =
        (0..3).map(|place| Slowed::begin(members.pid(place))).collect();
    let slowed = match slowed {
        Ok(slowed) => slowed,
        Err(reason) => return skip(&format!("no disk can be made slow: {reason}")),
    };
    let (calls, before) = (Calls::default(), term(etcd[0]));
    let counts = work(etcd, &calls);
    let after = term(etcd[0]);
    drop(slowed);
    let [puts, reads, progress] = [&calls.puts, &calls.reads, &calls.progress].map(Times::of);
    println!("puts: {puts}\nreads: {reads}\nprogress: {progress}");
    assert!(puts.at(0) >= SYNC, "a put waits for a sync: {puts}");
    let least = (SLOW_FOR.as_millis() / SYNC.as_millis() / 8) as usize;
    assert!(counts.iter().all(|count| *count >= least), "{counts:?} puts, {puts}");
    for others in [reads, progress] {
        assert!(others.at(90) < SYNC / 2, "{others}, and puts: {puts}");
    }
    for (place, count) in counts.iter().enumerate() {
        assert_eq!(get(etcd[0], &format!("leased/{}", 100 + place)).as_deref(), Some("v"));
        let last = count - 1;
        assert_eq!(get(etcd[0], &format!("{place}/{last}")).as_deref(), Some("v"));
    }
    assert!(after <= before + 1, "there were elections: from term {before} to {after}");
    members.stop();
}
