//! The workload `etcd-failover`: how long no client of etcd can put when the leader is killed or
//! paused, or its disk hangs. Each client has its own connection and its own key, and puts
//! ascending numbers in closed loop. After an error, or after a wait without an answer, it goes on
//! at the next member, as clients that know all members do. In the end each key must have the last
//! number that was acknowledged, or a later number that was sent.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use bytes::Bytes;
use clap::Args;
use etcd::pb::{Message, etcdserverpb as pb};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::limits::{
    CLIENTS_MAX, ETCD_RETRY_PAUSE, ETCD_VALUE_BYTES_MAX, PAUSE_MS_MAX, SILENCE_LIMIT,
};
use crate::measure::comparison::{Comparison, Rounds, Turn, Where};
use crate::measure::figures::{Block, Figure, Good};
use crate::measure::open_files;
use crate::measure::stats::Latencies;
use crate::random::Random;
use crate::servers::ensemble::Ensemble;
use crate::servers::probe::Probe;
use crate::servers::target::Scheme;
use crate::workloads::both::fault::{FaultArgs, Outage};
use crate::workloads::etcd::client::{Call, EtcdClient, PUT, RANGE, runtime};

/// Bytes of the number at the beginning of each value.
const NUMBER_BYTES: usize = 8;

/// Options of `quorate bench etcd-failover`.
#[derive(Debug, Args)]
#[command(
    mut_arg("target", |it| it.value_name("etcd://HOST:PORT,...")),
    mut_arg("compare", |it| it.value_name("etcd://HOST:PORT,...")),
    mut_arg("rounds", |it| it.default_value("10"))
)]
pub struct EtcdFailoverArgs {
    #[command(flatten)]
    at: Where,
    #[command(flatten)]
    repeat: Rounds,
    /// Clients that put, each on a connection of its own
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    clients: usize,
    /// Bytes of a value
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    value_size: usize,
    /// How long a client waits for an answer, ms
    #[arg(long, value_name = "MS", default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..=PAUSE_MS_MAX))]
    patience: u64,
    #[command(flatten)]
    fault: FaultArgs,
}

/// Runs `quorate bench etcd-failover` and prints it.
///
/// # Errors
/// An option is wrong, a server is not on this machine or does not come back, or a file cannot be
/// written.
pub fn command(args: &EtcdFailoverArgs) -> anyhow::Result<ExitCode> {
    for (name, number, min, max) in [
        ("clients", args.clients, 1, CLIENTS_MAX),
        ("value-size", args.value_size, NUMBER_BYTES, ETCD_VALUE_BYTES_MAX as usize),
    ] {
        ensure!((min..=max).contains(&number), "--{name}: {number} is not in {min}..={max}");
    }
    open_files::make_room(args.clients)?;
    let EtcdFailoverArgs { clients, value_size, patience, fault, .. } = args;
    let about = format!(
        "{clients} clients put {value_size} bytes in closed loop, each its own key, and go to the \
         next member after an error or {patience} ms; {fault}"
    );
    let mut comparison = Comparison::start_on(Scheme::Etcd, &args.at, "etcd-failover", &about)?;
    fault.check(comparison.targets())?;
    comparison.measure(&args.repeat, "one fault of the leader", |turn| fail_over(turn, args))?;
    comparison.finish()
}

/// The state that the clients share with the thread that makes the fault.
struct Shared {
    started: Instant,
    /// When the leader failed, in ns since the start; 0 before.
    failed_ns: AtomicU64,
    is_over: AtomicBool,
}

impl Shared {
    fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }
}

/// The puts of one client, and the longest times between two of its acknowledgements.
#[derive(Default)]
struct Done {
    sent: u64,
    acknowledged: u64,
    /// Puts that were acknowledged before the fault.
    acknowledged_before: u64,
    errors: u64,
    last_ns: u64,
    /// The longest time between two acknowledged puts that ended after the fault, in ns.
    gap_ns: u64,
    /// The longest time between two acknowledged puts before the fault, in ns.
    usual_gap_ns: u64,
}

fn fail_over(turn: &Turn<'_>, args: &EtcdFailoverArgs) -> anyhow::Result<Block> {
    let ensemble = Ensemble::of(turn.target)?;
    let shared = Arc::new(Shared {
        started: Instant::now(),
        failed_ns: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
    });
    turn.say("putting");
    let addresses: Arc<[SocketAddr]> = turn.target.addresses.clone().into();
    let prefix = format!("failover/{}/{}/", std::process::id(), turn.round);
    let probe = runtime()?.block_on(put_first(addresses[0], &prefix))?;
    let (outage, done) = std::thread::scope(|scope| {
        let keeper = scope.spawn(|| {
            let outage = args.fault.happen(&ensemble, &probe, || {
                shared.failed_ns.store(shared.now_ns(), Ordering::Relaxed);
            });
            shared.is_over.store(true, Ordering::Relaxed);
            outage
        });
        let done = put_all(&addresses, &shared, args, &prefix);
        (keeper.join().expect("the thread does not panic"), done)
    });
    let (outage, done) = (outage?, done?);
    turn.say("reading what was acknowledged");
    let account = runtime()?.block_on(account(&addresses, &done, &prefix))?;
    let mut block = turn.target.block();
    block.figures = figures(&shared, &done, &outage, &account);
    block.trouble += account.lost + account.surplus + account.silent;
    if let Some(output) = outage.output.filter(|_| turn.may_keep) {
        let output = output.display();
        block.notes.push(format!("the leader was started again; it prints to {output}"));
    }
    Ok(block)
}

/// Puts a key that every member must find, and returns the read of it.
async fn put_first(address: SocketAddr, prefix: &str) -> anyhow::Result<Probe> {
    let key = Bytes::from(format!("{prefix}first"));
    let put = pb::PutRequest { key: key.clone(), ..Default::default() };
    EtcdClient::connect(address).await?.demand::<pb::PutResponse>(PUT, &put).await?;
    Ok(Probe::Key(key))
}

/// Lets all clients put until `Shared::is_over` is set.
fn put_all(
    addresses: &Arc<[SocketAddr]>,
    shared: &Arc<Shared>,
    args: &EtcdFailoverArgs,
    prefix: &str,
) -> anyhow::Result<Vec<Done>> {
    let (patience, value_size) = (Duration::from_millis(args.patience), args.value_size);
    runtime()?.block_on(async {
        let mut tasks = JoinSet::new();
        for number in 0..args.clients {
            let (addresses, shared) = (Arc::clone(addresses), Arc::clone(shared));
            let key = Bytes::from(format!("{prefix}{number}"));
            tasks.spawn(async move {
                let done = put_on(&addresses, number, &shared, (key, value_size), patience).await;
                done.map(|done| (number, done))
            });
        }
        let mut all: Vec<(usize, Done)> =
            tasks.join_all().await.into_iter().collect::<anyhow::Result<_>>()?;
        all.sort_unstable_by_key(|(number, _)| *number);
        Ok(all.into_iter().map(|(_, done)| done).collect())
    })
}

/// Puts ascending numbers to one key, as one client, until `Shared::is_over` is set.
async fn put_on(
    addresses: &[SocketAddr],
    number: usize,
    shared: &Shared,
    (key, value_size): (Bytes, usize),
    patience: Duration,
) -> anyhow::Result<Done> {
    let (mut done, mut place) = (Done::default(), number);
    let mut client = None;
    // Random bytes behind a number, other ones in each put.
    let mut random = Random::new(number as u64);
    while !shared.is_over.load(Ordering::Relaxed) {
        let connected = match client.take() {
            Some(connected) => Ok(connected),
            None => EtcdClient::connect(addresses[place % addresses.len()]).await,
        };
        let answer = match connected {
            Ok(mut connected) => {
                done.sent += 1;
                let mut value = random.bytes(value_size);
                value[..NUMBER_BYTES].copy_from_slice(&done.sent.to_be_bytes());
                let (key, value) = (key.clone(), value.into());
                let put = Call::new(PUT, &pb::PutRequest { key, value, ..Default::default() })?;
                let answer = timeout(patience, connected.ask(&put)).await;
                client = Some(connected);
                matches!(answer, Ok(Ok(answer)) if answer.code == 0)
            }
            Err(_) => false,
        };
        if answer {
            done.acknowledge(shared);
            continue;
        }
        done.errors += 1;
        client = None;
        place += 1;
        tokio::time::sleep(ETCD_RETRY_PAUSE).await;
    }
    Ok(done)
}

impl Done {
    fn acknowledge(&mut self, shared: &Shared) {
        let now_ns = shared.now_ns();
        let since_ns = now_ns - self.last_ns;
        let failed_ns = shared.failed_ns.load(Ordering::Relaxed);
        match failed_ns {
            0 if self.acknowledged > 0 => self.usual_gap_ns = self.usual_gap_ns.max(since_ns),
            0 => {}
            _ => self.gap_ns = self.gap_ns.max(since_ns),
        }
        self.last_ns = now_ns;
        self.acknowledged = self.sent;
        self.acknowledged_before += u64::from(failed_ns == 0);
    }
}

/// The comparison of the keys' values in the end with the acknowledged puts.
#[derive(Default)]
struct Account {
    /// Keys without the last acknowledged number.
    lost: u64,
    /// Keys with a number that was never sent.
    surplus: u64,
    /// Clients that had no put acknowledged after the fault.
    silent: u64,
}

async fn account(addresses: &[SocketAddr], done: &[Done], prefix: &str) -> anyhow::Result<Account> {
    let mut account = Account::default();
    let mut client = EtcdClient::connect(addresses[0]).await?;
    for (number, done) in done.iter().enumerate() {
        let key = format!("{prefix}{number}").into();
        let range = Call::new(RANGE, &pb::RangeRequest { key, ..Default::default() })?;
        let answer = timeout(SILENCE_LIMIT, client.ask(&range)).await??;
        ensure!(answer.code == 0, "a key cannot be read: {}", answer.message);
        let found = pb::RangeResponse::decode(answer.body)?;
        let value = found.kvs.first().and_then(|kv| kv.value.first_chunk::<NUMBER_BYTES>());
        let last = value.map_or(0, |number| u64::from_be_bytes(*number));
        account.lost += u64::from(last < done.acknowledged);
        account.surplus += u64::from(last > done.sent);
        account.silent += u64::from(done.gap_ns == 0);
    }
    Ok(account)
}

fn figures(shared: &Shared, done: &[Done], outage: &Outage, account: &Account) -> Vec<Figure> {
    let failed_s = shared.failed_ns.load(Ordering::Relaxed) as f64 / 1e9;
    let (mut usual, mut gaps) = (Latencies::default(), Latencies::default());
    for client in done {
        usual.record(client.usual_gap_ns);
        gaps.record(client.gap_ns);
    }
    let sum = |of: fn(&Done) -> u64| done.iter().map(of).sum::<u64>() as f64;
    let ms = |name, us: f64, good| Figure::once(name, "ms", us / 1_000.0, good);
    let count = |name, count: f64| Figure::once(name, "", count, Good::Neither);
    let before = sum(|it| it.acknowledged_before) / failed_s;
    let mut figures = vec![
        Figure::once("puts before the fault", "per s", before, Good::More),
        ms("longest gap before it, clients' p50", usual.percentile_us(50.0), Good::Neither),
        ms("longest gap of a client, p50", gaps.percentile_us(50.0), Good::Less),
        ms("longest gap of a client, p99", gaps.percentile_us(99.0), Good::Less),
        ms("longest gap of a client, max", gaps.max_us(), Good::Less),
        count("errors and missing answers", sum(|it| it.errors)),
        count("acknowledged puts lost", account.lost as f64),
        count("numbers that were never sent", account.surplus as f64),
        count("clients that did not put again", account.silent as f64),
    ];
    figures.extend(outage.figures());
    figures
}
