//! How long no client of etcd can put when the leader is killed. Each client has a connection of
//! its own and a key of its own, and puts ascending numbers in closed loop. After an error, or
//! without an answer, it goes on at the next member, as clients that know all members do. In the
//! end each key must have the last number that was acknowledged, or a later one that was sent.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bytes::Bytes;
use clap::Args;
use etcd::pb::{Message, etcdserverpb as pb};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::limits::{
    CLIENTS_MAX, CONNECT_LIMIT, ETCD_RETRY_PAUSE, ETCD_VALUE_BYTES_MAX, EXIT_LIMIT,
    MEMBER_LOOK_PAUSE, PAUSE_MS_MAX, SECONDS_MAX, SILENCE_LIMIT,
};
use crate::measure::comparison::{Comparison, Rounds, Turn, Where};
use crate::measure::figures::{Block, Figure, Good};
use crate::measure::open_files;
use crate::measure::stats::Latencies;
use crate::random::Random;
use crate::servers::ensemble::{Ensemble, Member};
use crate::servers::target::Scheme;
use crate::workloads::etcd::client::{Call, EtcdClient, PUT, RANGE, STATUS, runtime};

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
    /// How long the clients put before the leader is killed
    #[arg(long, value_name = "S", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    before: u64,
    /// How long the leader is away until it is started again
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u64).range(0..=SECONDS_MAX))]
    away: u64,
    /// How long the clients put after the leader is back
    #[arg(long, value_name = "S", default_value_t = 1, value_parser = clap::value_parser!(u64).range(0..=SECONDS_MAX))]
    after: u64,
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
    let EtcdFailoverArgs { clients, value_size, patience, before, away, after, .. } = args;
    let about = format!(
        "{clients} clients put {value_size} bytes in closed loop, each its own key, and go to the \
         next member after an error or {patience} ms; after {before} s the leader is killed and \
         started again {away} s later, and they go on for {after} s after it is back"
    );
    let mut comparison = Comparison::start_on(Scheme::Etcd, &args.at, "etcd-failover", &about)?;
    for target in comparison.targets() {
        let ensemble =
            Ensemble::of(target).map_err(|error| anyhow::anyhow!("{}: {error}", target.address))?;
        ensure!(leader(&ensemble).is_some(), "{}: no server says that it leads", target.address);
    }
    comparison.measure(&args.repeat, "one kill of the leader", |turn| fail_over(turn, args))?;
    comparison.finish()
}

/// What the clients and the thread that kills share.
struct Shared {
    started: Instant,
    /// When the leader was killed, in ns since the start; 0 before.
    killed_ns: AtomicU64,
    is_over: AtomicBool,
}

impl Shared {
    fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }
}

/// What one client has done.
#[derive(Default)]
struct Done {
    sent: u64,
    acknowledged: u64,
    /// Puts that were acknowledged before the kill.
    acknowledged_before: u64,
    errors: u64,
    last_ns: u64,
    /// The longest time between two acknowledged puts that ended after the kill, in ns.
    gap_ns: u64,
    /// The longest time between two acknowledged puts before the kill, in ns.
    usual_gap_ns: u64,
}

fn fail_over(turn: &Turn<'_>, args: &EtcdFailoverArgs) -> anyhow::Result<Block> {
    let ensemble = Ensemble::of(turn.target)?;
    let shared = Arc::new(Shared {
        started: Instant::now(),
        killed_ns: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
    });
    turn.say("putting");
    let addresses: Arc<[SocketAddr]> = turn.target.addresses.clone().into();
    let prefix = format!("failover/{}/{}/", std::process::id(), turn.round);
    let (outage, done) = std::thread::scope(|scope| {
        let killer = scope.spawn(|| {
            let outage = outage(&ensemble, &shared, args);
            shared.is_over.store(true, Ordering::Relaxed);
            outage
        });
        let done = put_all(&addresses, &shared, args, &prefix);
        (killer.join().expect("the thread does not panic"), done)
    });
    let (outage, done) = (outage?, done?);
    turn.say("reading what was acknowledged");
    let account = runtime()?.block_on(account(&addresses, &done, &prefix))?;
    let mut block = turn.target.block();
    block.figures = figures(&shared, &done, &outage, &account);
    block.trouble += account.lost + account.surplus + account.silent;
    if let Some(output) = outage.output.to_str().filter(|_| turn.may_keep) {
        block.notes.push(format!("the leader was started again; it prints to {output}"));
    }
    Ok(block)
}

/// The kill of the leader.
struct Outage {
    /// How long after its start it answered a linearizable read.
    back: Duration,
    output: std::path::PathBuf,
}

fn outage(ensemble: &Ensemble, shared: &Shared, args: &EtcdFailoverArgs) -> anyhow::Result<Outage> {
    std::thread::sleep(Duration::from_secs(args.before));
    let leader = leader(ensemble).context("no server says that it leads")?;
    shared.killed_ns.store(shared.now_ns(), Ordering::Relaxed);
    let gone = leader.kill()?;
    std::thread::sleep(Duration::from_secs(args.away).saturating_sub(gone));
    let (started, since) = (leader.start()?, Instant::now());
    while !answers(leader.address) {
        ensure!(since.elapsed() < EXIT_LIMIT, "{} does not serve again", leader.address);
        std::thread::sleep(MEMBER_LOOK_PAUSE);
    }
    let back = since.elapsed();
    std::thread::sleep(Duration::from_secs(args.after));
    Ok(Outage { back, output: started.output })
}

/// The member that says that it leads, or the only one.
fn leader(ensemble: &Ensemble) -> Option<&Member> {
    let leads = |member: &&Member| {
        let status: Option<pb::StatusResponse> = ask(member.address, STATUS, &pb::StatusRequest {});
        let id = |status: &pb::StatusResponse| status.header.as_ref().map(|it| it.member_id);
        status.is_some_and(|status| Some(status.leader) == id(&status))
    };
    ensemble.members().iter().find(leads)
}

/// Whether a member answers a linearizable read.
fn answers(address: SocketAddr) -> bool {
    let range = pb::RangeRequest { key: Bytes::from_static(b"failover/"), ..Default::default() };
    ask::<pb::RangeResponse>(address, RANGE, &range).is_some()
}

fn ask<R: Message + Default>(address: SocketAddr, path: &str, request: &impl Message) -> Option<R> {
    let call = Call::new(path, request).ok()?;
    let asking = async { EtcdClient::connect(address).await?.ask(&call).await };
    let answer = runtime().ok()?.block_on(async { timeout(CONNECT_LIMIT, asking).await });
    let answer = answer.ok()?.ok().filter(|answer| answer.code == 0)?;
    R::decode(answer.body).ok()
}

/// Lets all clients put until it is over.
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

/// One client.
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
        let killed_ns = shared.killed_ns.load(Ordering::Relaxed);
        match killed_ns {
            0 if self.acknowledged > 0 => self.usual_gap_ns = self.usual_gap_ns.max(since_ns),
            0 => {}
            _ => self.gap_ns = self.gap_ns.max(since_ns),
        }
        self.last_ns = now_ns;
        self.acknowledged = self.sent;
        self.acknowledged_before += u64::from(killed_ns == 0);
    }
}

/// What the keys say in the end.
#[derive(Default)]
struct Account {
    /// Keys without the last acknowledged number.
    lost: u64,
    /// Keys with a number that was never sent.
    surplus: u64,
    /// Clients that had no put acknowledged after the kill.
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
    let killed_s = shared.killed_ns.load(Ordering::Relaxed) as f64 / 1e9;
    let (mut usual, mut gaps) = (Latencies::default(), Latencies::default());
    for client in done {
        usual.record(client.usual_gap_ns);
        gaps.record(client.gap_ns);
    }
    let sum = |of: fn(&Done) -> u64| done.iter().map(of).sum::<u64>() as f64;
    let ms = |name, us: f64, good| Figure::once(name, "ms", us / 1_000.0, good);
    let count = |name, count: f64| Figure::once(name, "", count, Good::Neither);
    let before = sum(|it| it.acknowledged_before) / killed_s;
    vec![
        Figure::once("puts before the kill", "per s", before, Good::More),
        ms("longest gap before it, clients' p50", usual.percentile_us(50.0), Good::Neither),
        ms("longest gap of a client, p50", gaps.percentile_us(50.0), Good::Less),
        ms("longest gap of a client, p99", gaps.percentile_us(99.0), Good::Less),
        ms("longest gap of a client, max", gaps.max_us(), Good::Less),
        count("errors and missing answers", sum(|it| it.errors)),
        count("acknowledged puts lost", account.lost as f64),
        count("numbers that were never sent", account.surplus as f64),
        count("clients that did not put again", account.silent as f64),
        ms("serves again after its start", outage.back.as_secs_f64() * 1e6, Good::Less),
    ]
}
