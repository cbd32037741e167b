//! Sends etcd requests: one thread runs all connections. In closed loop each client is a task; in
//! open loop each request is one. [`OpenLoop`] is used by all open loops of etcd's workloads.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bytes::Bytes;
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::limits::{ETCD_CALLS_AHEAD, NAP, PACED_START_NS, SILENCE_LIMIT};
use crate::measure::meter::{Done, Tally};
use crate::measure::pace::{End, Pace};
use crate::measure::stats::Phase;
use crate::servers::process::thread_cpu_ns;
use crate::servers::target::Target;
use crate::workloads::etcd::client::{Call, EtcdClient, runtime};

/// How requests are sent, and when they end.
#[derive(Clone, Debug)]
pub struct Loop {
    /// Requests under way at once, at most.
    pub clients: usize,
    /// When the load ends.
    pub end: End,
    /// Requests a second in open loop, all clients together; `None` in closed loop.
    pub rate: Option<u64>,
}

impl Loop {
    /// A closed loop that ends after this many requests.
    pub fn closed(clients: usize, requests: u64) -> Loop {
        Loop { clients, end: End::Requests(requests), rate: None }
    }
}

/// The connections to a target, and the runtime that runs them.
pub struct Load {
    runtime: Runtime,
    connections: Vec<EtcdClient>,
}

/// The state that all tasks of a run share.
struct Run<F> {
    calls: Vec<Call>,
    is_right: F,
    started: Instant,
    tallies: Mutex<[Tally; 2]>,
}

impl Load {
    /// Opens `count` connections, spread evenly over the addresses.
    ///
    /// # Errors
    /// A server does not answer.
    pub fn connect(addresses: &[SocketAddr], count: usize) -> anyhow::Result<Load> {
        let runtime = runtime()?;
        let connections = runtime.block_on(async {
            let mut connections = Vec::new();
            for address in addresses.iter().cycle().take(count) {
                connections.push(EtcdClient::connect(*address).await?);
            }
            anyhow::Ok(connections)
        })?;
        Ok(Load { runtime, connections })
    }

    /// Sends `count` requests in closed loop, each made by `call` from its number. They are made in
    /// batches, and the time of making them does not count.
    ///
    /// # Errors
    /// `call` fails, for example because a request is too long for gRPC.
    pub fn fill(
        &mut self,
        target: &Target,
        (clients, count): (usize, u64),
        call: impl Fn(u64) -> anyhow::Result<Call>,
    ) -> anyhow::Result<Phase> {
        let (mut all, mut from) = (Phase { name: "filling", ..Phase::default() }, 0);
        while from < count {
            let to = count.min(from + ETCD_CALLS_AHEAD);
            let calls: Vec<Call> = (from..to).map(&call).collect::<anyhow::Result<_>>()?;
            let how = Loop::closed(clients, to - from);
            all.add(&self.run(target, &calls, how, accept)?.phase("filling"));
            from = to;
        }
        Ok(all)
    }

    /// Sends the calls in turn, over and over, until the end of the loop, and waits for all
    /// answers. `is_right` judges the response to the request with a number. Of the two tallies,
    /// the first counts requests with even numbers, the second those with odd numbers.
    ///
    /// # Errors
    /// A timer cannot be made.
    pub fn run<F>(
        &mut self,
        target: &Target,
        calls: &[Call],
        how: Loop,
        is_right: F,
    ) -> anyhow::Result<Done>
    where
        F: Fn(u64, Bytes) -> bool + Send + Sync + 'static,
    {
        let (server_cpu_ns, own_cpu_ns) = (target.cpu_ns(), thread_cpu_ns());
        let run = Arc::new(Run {
            calls: calls.to_vec(),
            is_right,
            started: Instant::now(),
            tallies: Mutex::default(),
        });
        let Load { runtime, connections } = self;
        let Loop { clients, end, rate } = how;
        let since_ns = match rate {
            None => {
                runtime.block_on(closed_loop(&run, connections, clients, &end));
                0
            }
            Some(rate) => {
                let pace = Pace::at_rate(run.now_ns() + PACED_START_NS, rate);
                let open = OpenLoop { started: run.started, pace, end, clients };
                let send = |mut client: EtcdClient, number, due_ns| {
                    let run = Arc::clone(&run);
                    async move { run.one(&mut client, number, due_ns).await }
                };
                runtime.block_on(open.run(connections, send))?;
                pace.start_ns
            }
        };
        let elapsed_ns = run.now_ns() - since_ns;
        let server_cpu_ns = target.cpu_ns().zip(server_cpu_ns);
        let tallies = run.tallies.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let cost = Phase {
            elapsed_ns,
            server_cpu_ns: server_cpu_ns.map(|(after, before)| after.saturating_sub(before)),
            own_cpu_ns: thread_cpu_ns() - own_cpu_ns,
            ..Phase::default()
        };
        Ok(Done { tallies, cost })
    }
}

/// An `is_right` for [`Load::run`] that accepts every response which is no error.
pub fn accept(_: u64, _: Bytes) -> bool {
    true
}

impl<F: Fn(u64, Bytes) -> bool> Run<F> {
    fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    /// Sends request `number` and counts its answer. The latency counts from `since_ns`.
    async fn one(&self, client: &mut EtcdClient, number: u64, since_ns: u64) {
        let call = &self.calls[(number % self.calls.len() as u64) as usize];
        let answer = timeout(SILENCE_LIMIT, client.ask(call)).await;
        let took_ns = self.now_ns().saturating_sub(since_ns);
        let is_right = match answer {
            Ok(Ok(answer)) => answer.code == 0 && (self.is_right)(number, answer.body),
            Ok(Err(_)) | Err(_) => false,
        };
        let mut tallies = self.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        tallies[(number % 2) as usize].count(is_right, took_ns);
    }
}

async fn closed_loop<F>(run: &Arc<Run<F>>, connections: &[EtcdClient], clients: usize, end: &End)
where
    F: Fn(u64, Bytes) -> bool + Send + Sync + 'static,
{
    let (next, mut tasks) = (Arc::new(AtomicU64::new(0)), JoinSet::new());
    for connection in connections.iter().cycle().take(clients) {
        let (run, next) = (Arc::clone(run), Arc::clone(&next));
        let (end, mut client) = (end.clone(), connection.clone());
        tasks.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let now_ns = run.now_ns();
                if !end.includes(number, run.started + Duration::from_nanos(now_ns)) {
                    return;
                }
                run.one(&mut client, number, now_ns).await;
            }
        });
    }
    tasks.join_all().await;
}

/// Sends each request at its due time, whether or not earlier requests were answered.
pub struct OpenLoop {
    /// The time that `pace` counts from.
    pub started: Instant,
    /// When each request is due.
    pub pace: Pace,
    /// When the load ends.
    pub end: End,
    /// The most requests under way. A request that is due beyond that waits until one is answered.
    pub clients: usize,
}

impl OpenLoop {
    /// Calls `send` for each request, with a connection, the number of the request and its due time
    /// (ns after `started`). Returns when all of these calls have ended.
    ///
    /// # Errors
    /// There is no connection, or no thread can be made.
    pub async fn run<T>(
        self,
        connections: &[EtcdClient],
        send: impl Fn(EtcdClient, u64, u64) -> T,
    ) -> anyhow::Result<()>
    where
        T: Future<Output = ()> + Send + 'static,
    {
        let OpenLoop { started, pace, end, clients } = self;
        let places = Arc::new(Semaphore::new(clients));
        let (sender, mut due) = mpsc::channel(1);
        let keep_time = move || keep_time(started, pace, &end, &sender);
        let clock = std::thread::Builder::new().name("clock".to_string()).spawn(keep_time)?;
        let (mut next, mut connections) = (0, connections.iter().cycle());
        while let Some(until) = due.recv().await {
            for number in next..until {
                let place = Arc::clone(&places).acquire_owned().await?;
                let client = connections.next().context("there is no connection")?.clone();
                let sending = send(client, number, pace.due_ns(number));
                tokio::spawn(async move {
                    sending.await;
                    drop(place);
                });
            }
            next = until;
        }
        // All permits are back once the last answer has come.
        drop(places.acquire_many(u32::try_from(clients)?).await?);
        ensure!(clock.join().is_ok(), "the thread that keeps the time panicked");
        Ok(())
    }
}

/// Runs on its own thread, because the runtime's timers are exact only to a millisecond. Whenever
/// requests become due, it sends one more than the number of the last due request.
fn keep_time(started: Instant, pace: Pace, end: &End, due: &mpsc::Sender<u64>) {
    let mut until = 0;
    loop {
        let now_ns = started.elapsed().as_nanos() as u64;
        let next = until;
        let due_at = |number| started + Duration::from_nanos(pace.due_ns(number));
        while pace.due_ns(until) <= now_ns && end.includes(until, due_at(until)) {
            until += 1;
        }
        if until > next && due.blocking_send(until).is_err() {
            return;
        }
        if !end.includes(until, due_at(until)) {
            return;
        }
        let wait = Duration::from_nanos(pace.due_ns(until).saturating_sub(now_ns));
        std::thread::sleep(wait.max(NAP));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The clock thread starts a second late, after the end of the load. 50 requests were due
    /// before that end.
    #[test]
    fn requests_that_were_due_before_the_end_are_sent_after_it() {
        let started = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
        let pace = Pace { start_ns: 0, spacing_ns: 1e7 };
        let half = started + Duration::from_millis(500);
        for (end, expected) in [(End::at(half), Some(50)), (End::Requests(7), Some(7))] {
            let (sender, mut due) = mpsc::channel(1);
            keep_time(started, pace, &end, &sender);
            drop(sender);
            assert_eq!([due.blocking_recv(), due.blocking_recv()], [expected, None]);
        }
    }
}
