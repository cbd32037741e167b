//! The workload `etcd-watch`: what watches of etcd's keys cost. It measures the time to create
//! them, their memory, the time until all of them have seen one put, and the rate of puts beside
//! watches whose clients read nothing.
//!
//! All watches cover one prefix. The next put is sent only when every watch has seen the one
//! before; so the time until the last event belongs to one put alone.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, ensure};
use bytes::Bytes;
use clap::Args;
use etcd::pb::{Message, etcdserverpb as pb};
use pb::watch_request::RequestUnion;
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

use super::load::{Load, Loop, accept};
use super::spread;
use crate::limits::{
    CLIENTS_MAX, ETCD_VALUE_BYTES_MAX, ETCD_WATCHES_MAX, ITEMS_MAX, RATE_MAX, SILENCE_LIMIT,
};
use crate::measure::comparison::{Comparison, Rounds, Turn, Where};
use crate::measure::figures::{Block, Figure, Good};
use crate::measure::open_files;
use crate::measure::pace::End;
use crate::measure::stats::Latencies;
use crate::random::Random;
use crate::servers::target::{Scheme, Target};
use crate::workloads::etcd::client::{Call, EtcdClient, PUT, runtime};
use crate::workloads::etcd::grpc::{Received, Stream};

/// The keys that are watched: all with this prefix.
const PREFIX: &[u8] = b"watched/";
const PREFIX_END: &[u8] = b"watched0";

/// Bytes that a client which reads nothing lets the server send: the least that HTTP/2 begins with.
const SLOW_WINDOW_BYTES: u32 = 65_535;

/// The most puts under way at once beside clients that read nothing.
const SLOW_CLIENTS: usize = 1_000;

/// Options of `quorate bench etcd-watch`.
#[derive(Debug, Args)]
#[command(
    mut_arg("target", |it| it.value_name("etcd://HOST:PORT[,...]")),
    mut_arg("compare", |it| it.value_name("etcd://HOST:PORT[,...]")),
    mut_arg("warmup", |it| it.default_value("0"))
)]
pub struct EtcdWatchArgs {
    #[command(flatten)]
    at: Where,
    #[command(flatten)]
    repeat: Rounds,
    /// Watches of one prefix
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    watches: usize,
    /// Streams, which have the watches in equal parts
    #[arg(long, value_name = "N", default_value_t = 100)]
    streams: usize,
    /// Connections, which have the streams in equal parts
    #[arg(long, value_name = "N", default_value_t = 10)]
    connections: usize,
    /// Puts that all watches see, one after the other
    #[arg(long, value_name = "N", default_value_t = 50)]
    puts: u32,
    /// Bytes of a value
    #[arg(long, value_name = "BYTES", default_value_t = 256)]
    value_size: usize,
    /// Also: puts alone, and beside so many watches whose clients read nothing
    #[arg(long, value_name = "N", default_value_t = 0)]
    slow: usize,
    /// Puts a second of that part
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=RATE_MAX))]
    rate: u64,
    /// Puts of that part
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    requests: u64,
}

/// Runs `quorate bench etcd-watch` and prints it.
///
/// # Errors
/// An option is wrong, a target does not answer, or a file cannot be written.
pub fn command(args: &EtcdWatchArgs) -> anyhow::Result<ExitCode> {
    for (name, number, max) in [
        ("watches", args.watches, ETCD_WATCHES_MAX),
        ("streams", args.streams, args.watches),
        ("connections", args.connections, args.streams.min(CLIENTS_MAX)),
        ("value-size", args.value_size, ETCD_VALUE_BYTES_MAX as usize),
        ("requests", args.requests as usize, ITEMS_MAX as usize),
    ] {
        ensure!((1..=max).contains(&number), "--{name}: {number} is not in 1..={max}");
    }
    ensure!(args.slow <= CLIENTS_MAX, "--slow: {} is more than {CLIENTS_MAX}", args.slow);
    open_files::make_room(args.connections + args.slow)?;
    let EtcdWatchArgs { watches, streams, connections, puts, value_size, .. } = args;
    let mut about = format!(
        "{watches} watches of one prefix on {streams} streams and {connections} connections; \
         {puts} puts of {value_size} bytes, each when all have seen the one before; latency from \
         the write of the put to the connection"
    );
    if args.slow > 0 {
        let EtcdWatchArgs { slow, rate, requests, .. } = args;
        about +=
            &format!("; {requests} puts at {rate} per s, alone and beside {slow} slow watches");
    }
    let mut comparison = Comparison::start_on(Scheme::Etcd, &args.at, "etcd-watch", &about)?;
    let work = format!("{watches} watches and {puts} puts");
    comparison.measure(&args.repeat, &work, |turn| measure(turn, args))?;
    comparison.finish()
}

fn measure(turn: &Turn<'_>, args: &EtcdWatchArgs) -> anyhow::Result<Block> {
    let mut block = turn.target.block();
    runtime()?.block_on(watch(turn, args, &mut block))?;
    if args.slow > 0 {
        beside_slow(turn, args, &mut block)?;
    }
    Ok(block)
}

/// The state that the tasks of all streams share.
struct Watching {
    started: Instant,
    /// Watches that the server has confirmed.
    created: AtomicU64,
    /// When the put under way was sent, in ns since the start.
    sent_ns: AtomicU64,
    /// Watches that have not seen the put under way.
    left: AtomicU64,
    events: Mutex<Latencies>,
    /// The last watch was confirmed, or has seen the put.
    is_done: Notify,
    watches: u64,
    /// Streams that the server has ended.
    ended: AtomicU64,
}

impl Watching {
    fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    fn on_response(&self, response: &pb::WatchResponse) {
        if response.created {
            if self.created.fetch_add(1, Ordering::Relaxed) + 1 == self.watches {
                self.is_done.notify_one();
            }
            return;
        }
        let count = response.events.len() as u64;
        let took_ns = self.now_ns().saturating_sub(self.sent_ns.load(Ordering::Relaxed));
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        (0..count).for_each(|_| events.record(took_ns));
        if count > 0 && self.left.fetch_sub(count, Ordering::Relaxed) == count {
            self.is_done.notify_one();
        }
    }

    /// Waits until all watches have what they wait for.
    async fn done(&self, what: &str) -> anyhow::Result<()> {
        let waited = timeout(SILENCE_LIMIT, self.is_done.notified()).await;
        let ended = self.ended.load(Ordering::Relaxed);
        ensure!(ended == 0, "the server has ended {ended} streams of watches");
        waited.with_context(|| {
            let (created, left) =
                (self.created.load(Ordering::Relaxed), self.left.load(Ordering::Relaxed));
            format!("{what}: {created} of {} watches are there, {left} miss an event", self.watches)
        })
    }
}

/// Sets the watches, and lets them see puts.
async fn watch(turn: &Turn<'_>, args: &EtcdWatchArgs, block: &mut Block) -> anyhow::Result<()> {
    let target = turn.target;
    let watching = Arc::new(Watching {
        started: Instant::now(),
        created: AtomicU64::new(0),
        sent_ns: AtomicU64::new(0),
        left: AtomicU64::new(0),
        events: Mutex::default(),
        is_done: Notify::new(),
        watches: args.watches as u64,
        ended: AtomicU64::new(0),
    });
    let mut connections = Vec::new();
    for address in target.addresses.iter().cycle().take(args.connections) {
        connections.push(EtcdClient::connect(*address).await?);
    }
    let before = target.memory();
    turn.say("setting watches");
    let (cpu_ns, began_ns) = (target.cpu_ns(), watching.now_ns());
    for (number, connection) in (0..args.streams).zip(connections.iter().cycle()) {
        let share = args.watches / args.streams + usize::from(number < args.watches % args.streams);
        open(connection.clone(), share, &watching).await?;
    }
    watching.done("setting watches").await?;
    let watches = args.watches as f64;
    let took_s = (watching.now_ns() - began_ns) as f64 / 1e9;
    let each = |after: Option<f64>| after.map(|after| after / watches);
    block.figures.push(Figure::once("watches set", "per s", watches / took_s, Good::More));
    let cpu_us = cpu_since(target, cpu_ns);
    block.figures.push(Figure::once("server CPU per watch", "us", each(cpu_us), Good::Less));
    let memory = target.memory().zip(before);
    let grown = memory.map(|(after, before)| after.resident.saturating_sub(before.resident) as f64);
    let resident = Figure::once("VmRSS per watch", "bytes", each(grown), Good::Less);
    block.figures.push(resident.of_first_round());

    turn.say("seeing puts");
    let mut writer = EtcdClient::connect(target.addresses[0]).await?;
    let key = Bytes::from([PREFIX, b"key"].concat());
    let value = Bytes::from(Random::new(0).bytes(args.value_size));
    let put = Call::new(PUT, &pb::PutRequest { key, value, ..Default::default() })?;
    let (mut last, cpu_ns) = (Latencies::default(), target.cpu_ns());
    for _ in 0..args.puts {
        watching.left.store(watching.watches, Ordering::Relaxed);
        watching.sent_ns.store(watching.now_ns(), Ordering::Relaxed);
        let answer = writer.ask(&put).await?;
        ensure!(answer.code == 0, "a put was refused: {}", answer.message);
        watching.done("seeing a put").await?;
        last.record(watching.now_ns() - watching.sent_ns.load(Ordering::Relaxed));
    }
    let events = f64::from(args.puts) * watches;
    let cpu_us = cpu_since(target, cpu_ns).map(|us| us / events);
    block.figures.push(Figure::once("server CPU per event", "us", cpu_us, Good::Less));
    let names = ["event p50", "event p90", "event p99", "event p99.9", "event max"];
    let seen = watching.events.lock().unwrap_or_else(PoisonError::into_inner).clone();
    block.figures.extend(spread(names, &seen));
    let names = ["last event p50", "last event p90", "last event p99", "last p99.9", "last max"];
    block.figures.extend(spread(names, &last));
    Ok(())
}

/// CPU time of the servers since a point in time, in us.
fn cpu_since(target: &Target, before_ns: Option<u64>) -> Option<f64> {
    let (after, before) = target.cpu_ns().zip(before_ns)?;
    Some(after.saturating_sub(before) as f64 / 1e3)
}

/// Opens a stream with `watches` watches; a task reads it until the server ends it.
async fn open(
    mut client: EtcdClient,
    watches: usize,
    watching: &Arc<Watching>,
) -> anyhow::Result<()> {
    let mut stream = begin(&mut client, watches).await?;
    let watching = Arc::clone(watching);
    tokio::spawn(async move {
        // An error ends the stream as its end does.
        while let Ok(Received::Message(message)) = stream.next().await {
            let Ok(response) = pb::WatchResponse::decode(message) else { break };
            watching.on_response(&response);
        }
        watching.ended.fetch_add(1, Ordering::Relaxed);
        watching.is_done.notify_one();
    });
    Ok(())
}

/// Opens a stream, and requests `watches` watches on it.
async fn begin(client: &mut EtcdClient, watches: usize) -> anyhow::Result<Stream> {
    let create = pb::WatchCreateRequest {
        key: PREFIX.into(),
        range_end: PREFIX_END.into(),
        ..Default::default()
    };
    let request = pb::WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
    let request = request.encode_to_vec();
    let mut stream = client.open_watches(false).await?;
    (0..watches).try_for_each(|_| stream.send(&request))?;
    Ok(stream)
}

/// Puts at a rate, alone and beside watches whose clients read nothing.
fn beside_slow(turn: &Turn<'_>, args: &EtcdWatchArgs, block: &mut Block) -> anyhow::Result<()> {
    let target = turn.target;
    let mut load = Load::connect(&target.addresses, args.connections)?;
    let put = |number: u64| {
        let key = [PREFIX, number.to_string().as_bytes()].concat().into();
        let value = Random::new(number).bytes(args.value_size).into();
        Call::new(PUT, &pb::PutRequest { key, value, ..Default::default() })
    };
    let puts: Vec<Call> = (0..1_000).map(put).collect::<Result<_, _>>()?;
    let end = End::Requests(args.requests);
    let how = Loop { clients: SLOW_CLIENTS, end, rate: Some(args.rate) };
    turn.say("puts alone");
    let alone = load.run(target, &puts, how.clone(), accept)?.phase("puts alone");
    let slow = SlowWatches::open(target.addresses.clone(), args.slow)?;
    turn.say("puts beside slow watches");
    let beside = load.run(target, &puts, how, accept)?.phase("puts beside slow watches");
    slow.close();
    for (phase, names) in [
        (&alone, ["puts alone", "their p50", "their p99", "their server CPU"]),
        (&beside, ["puts beside slow watches", "p50 beside", "p99 beside", "server CPU beside"]),
    ] {
        block.blame(phase);
        let [rate, p50, p99, cpu] = names;
        let ms = |percent| phase.latencies.percentile_us(percent) / 1_000.0;
        block.figures.push(Figure::once(rate, "per s", phase.rate(), Good::Neither));
        block.figures.push(Figure::once(p50, "ms", ms(50.0), Good::Less));
        block.figures.push(Figure::once(p99, "ms", ms(99.0), Good::Less));
        block.figures.push(Figure::once(cpu, "us", phase.server_us(), Good::Less));
    }
    Ok(())
}

/// Watches whose clients read nothing, on connections that a thread of their own serves.
struct SlowWatches {
    thread: std::thread::JoinHandle<()>,
    close: oneshot::Sender<()>,
}

impl SlowWatches {
    fn open(addresses: Vec<SocketAddr>, count: usize) -> anyhow::Result<SlowWatches> {
        let runtime = runtime()?;
        let watches = runtime.block_on(async {
            let mut watches = Vec::new();
            for address in addresses.iter().cycle().take(count) {
                let mut client =
                    EtcdClient::connect_with_window(*address, SLOW_WINDOW_BYTES).await?;
                let mut stream = begin(&mut client, 1).await?;
                // The watch is there, and nothing is read from now on.
                timeout(SILENCE_LIMIT, stream.next()).await??;
                watches.push((stream, client));
            }
            anyhow::Ok(watches)
        })?;
        let (close, closed) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            // The sender is dropped at an error only, which ends the run.
            drop(runtime.block_on(closed));
            drop(watches);
        });
        Ok(SlowWatches { thread, close })
    }

    fn close(self) {
        drop(self.close);
        drop(self.thread.join());
    }
}
