//! The workload `etcd-kube`: the load that a Kubernetes cluster puts on etcd, in compressed time.
//! It has guarded updates, creates and deletes, events with shared leases, lists in pages, watches
//! of each kind by several apiservers, and a compaction every five minutes of the cluster's time.
//!
//! The loop is open: calls come at the cluster's rate times the compression, each of a random kind.
//! The results are checked. Each watch must see each acknowledged put, in order, and must end with
//! the same keys as the server. Each count must equal the number of keys at its revision. Each
//! object must have as many updates as were acknowledged.

mod acts;
mod cluster;
mod objects;
mod outcome;
mod run;
mod value;
mod watcher;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Args;
use etcd::pb::etcdserverpb as pb;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::limits::{
    CLIENTS_MAX, KUBE_APISERVERS_MAX, KUBE_COMPRESS_MAX, KUBE_FILL_CLIENTS, KUBE_OBJECTS_MAX,
    PACED_START_NS, RATE_MAX, SECONDS_MAX, SILENCE_LIMIT,
};
use crate::measure::comparison::{Comparison, Rounds, Turn, Where};
use crate::measure::figures::Block;
use crate::measure::open_files;
use crate::measure::pace::{End, Pace};
use crate::measure::samples::Sampler;
use crate::random::Random;
use crate::servers::process::thread_cpu_ns;
use crate::servers::target::Scheme;
use crate::workloads::etcd::client::{DELETE_RANGE, EtcdClient, PUT, runtime};
use crate::workloads::etcd::performance::load::OpenLoop;
use cluster::{Kind, Mix, Registry};
use outcome::{Account, Cost};
use run::{Answers, Run};
use value::Head;
use watcher::{Seen, Watched, Watcher};

/// The time between two compactions, in seconds of the cluster's time: `--etcd-compaction-interval`
/// of apiservers.
const COMPACTION_S: f64 = 300.0;

/// The compression and the seconds of a run without options: a day in five minutes.
const DEFAULT_COMPRESS: f64 = 288.0;
const DEFAULT_SECONDS: u64 = 300;

/// Options of `quorate bench etcd-kube`.
#[derive(Debug, Args)]
#[command(
    mut_arg("target", |it| it.value_name("etcd://HOST:PORT[,...]")),
    mut_arg("compare", |it| it.value_name("etcd://HOST:PORT[,...]")),
    mut_arg("rounds", |it| it.default_value("1")),
    mut_arg("warmup", |it| it.default_value("0"))
)]
pub struct EtcdKubeArgs {
    #[command(flatten)]
    at: Where,
    #[command(flatten)]
    repeat: Rounds,
    /// Objects at the start; every 100 of them are one node
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    objects: u64,
    /// Apiservers, each with a connection for a watch of each kind
    #[arg(long, value_name = "N", default_value_t = 3)]
    apiservers: usize,
    /// Seconds of the cluster's time in a second [default: 288, or as --hours and --seconds say]
    #[arg(long, value_name = "N")]
    compress: Option<f64>,
    /// Hours of the cluster's time [default: as --compress and --seconds say]
    #[arg(long, value_name = "N")]
    hours: Option<f64>,
    /// How long a run takes [default: 300, or as --hours and --compress say]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    seconds: Option<u64>,
    /// Calls under way at once; a call that is due beyond that waits
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    clients: usize,
    /// Connections of the calls
    #[arg(long, value_name = "N", default_value_t = 12)]
    connections: usize,
    /// Leave the objects of the last round there
    #[arg(long)]
    keep: bool,
}

/// How long a run takes, in seconds, and how many seconds of the cluster's time pass in a second.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Time {
    compress: f64,
    seconds: u64,
}

impl EtcdKubeArgs {
    fn time(&self) -> anyhow::Result<Time> {
        let time = match (self.compress, self.hours, self.seconds) {
            (Some(_), Some(_), Some(_)) => {
                anyhow::bail!("--compress, --hours and --seconds: two of them tell the third")
            }
            (Some(compress), Some(hours), None) => {
                Time { compress, seconds: (hours * 3_600.0 / compress).ceil() as u64 }
            }
            (None, Some(hours), seconds) => {
                let seconds = seconds.unwrap_or(DEFAULT_SECONDS);
                Time { compress: hours * 3_600.0 / seconds as f64, seconds }
            }
            (compress, None, seconds) => Time {
                compress: compress.unwrap_or(DEFAULT_COMPRESS),
                seconds: seconds.unwrap_or(DEFAULT_SECONDS),
            },
        };
        let Time { compress, seconds } = time;
        let is_sane = (1.0..=KUBE_COMPRESS_MAX).contains(&compress);
        ensure!(is_sane, "--compress: {compress} is not in 1..={KUBE_COMPRESS_MAX}");
        let is_sane = (1..=SECONDS_MAX).contains(&seconds);
        ensure!(is_sane, "--seconds: {seconds} is not in 1..={SECONDS_MAX}");
        Ok(time)
    }
}

/// Runs `quorate bench etcd-kube` and prints the results.
///
/// # Errors
/// An option is wrong, a target does not answer, or a file cannot be written.
pub fn command(args: &EtcdKubeArgs) -> anyhow::Result<ExitCode> {
    for (name, number, max) in [
        ("objects", args.objects, KUBE_OBJECTS_MAX),
        ("apiservers", args.apiservers as u64, KUBE_APISERVERS_MAX as u64),
        ("clients", args.clients as u64, CLIENTS_MAX as u64),
        ("connections", args.connections as u64, CLIENTS_MAX as u64),
    ] {
        ensure!((1..=max).contains(&number), "--{name}: {number} is not in 1..={max}");
    }
    let time = args.time()?;
    let Time { compress, seconds } = time;
    let per_s = Mix::of(args.objects, args.apiservers).per_s() * compress;
    ensure!(per_s <= RATE_MAX as f64, "--compress: {per_s:.0} calls a second are too many");
    open_files::make_room(args.connections + args.apiservers)?;
    let EtcdKubeArgs { objects, apiservers, clients, connections, .. } = args;
    let about = format!(
        "{objects} objects and {apiservers} apiservers with {} watches each; {:.1} hours of the \
         cluster in {seconds} s (compressed {compress:.0} times): {per_s:.0} calls per s in open \
         loop, at most {clients} at once on {connections} connections; latency from when a call \
         was due, delay of watches from when a put was sent",
        Kind::ALL.len(),
        compress * seconds as f64 / 3_600.0
    );
    let mut comparison = Comparison::start_on(Scheme::Etcd, &args.at, "etcd-kube", &about)?;
    let work = format!("{seconds} s of the cluster");
    comparison.measure(&args.repeat, &work, |turn| measure(turn, args, time))?;
    comparison.finish()
}

fn measure(turn: &Turn<'_>, args: &EtcdKubeArgs, time: Time) -> anyhow::Result<Block> {
    let mix = Mix::of(args.objects, args.apiservers);
    let run = Arc::new(Run::new(Registry::new(&turn.label), mix, time.compress));
    runtime()?.block_on(live(turn, args, time, &run))
}

/// Makes one run: sets the watches, creates the objects, sends the calls, and checks the results.
async fn live(
    turn: &Turn<'_>,
    args: &EtcdKubeArgs,
    time: Time,
    run: &Arc<Run>,
) -> anyhow::Result<Block> {
    let (target, mut clients) = (turn.target, Vec::new());
    for address in target.addresses.iter().cycle().take(args.connections) {
        clients.push(EtcdClient::connect(*address).await?);
    }
    turn.say("setting watches");
    let mut watches = JoinSet::new();
    for address in target.addresses.iter().cycle().take(args.apiservers) {
        watch_all(run, EtcdClient::connect(*address).await?, &mut watches).await?;
    }
    turn.say("making the objects");
    fill(run, &clients, args.objects).await?;
    let made = std::mem::take(&mut *run.answers());

    turn.say(&format!("{} s of the cluster", time.seconds));
    let sampler = Sampler::start(target)?;
    let (server_cpu_ns, own_cpu_ns) = (target.cpu_ns(), thread_cpu_ns());
    let elapsed_ns = open_loop(run, &clients, args.clients, time).await?;
    let answers = std::mem::take(&mut *run.answers());
    let cost = Cost {
        elapsed_ns,
        server_cpu_ns: target.cpu_ns().zip(server_cpu_ns).map(|(after, before)| after - before),
        own_cpu_ns: thread_cpu_ns() - own_cpu_ns,
    };
    let samples = sampler.stop();

    turn.say("checking");
    let watched = last_events(run, &mut clients[0], watches).await?;
    let account = Account::of(run, &mut clients[0], &watched, &answers.counts).await?;
    let mut block = target.block();
    block.figures = cost.figures(run.mix.per_s() * time.compress, &answers);
    block.figures.extend(outcome::delays(&watched.seen));
    block.figures.extend(samples.figures());
    block.figures.extend(account.figures(&answers));
    block.notes.extend(samples.notes());
    let errors = |it: &Answers| it.tallies.iter().map(|tally| tally.errors).sum::<u64>();
    block.trouble += errors(&made) + errors(&answers) + account.trouble();
    if args.keep && turn.may_keep {
        return Ok(block);
    }
    for (key, range_end) in run.registry.parts() {
        let delete = pb::DeleteRangeRequest { key, range_end, ..Default::default() };
        clients[0].demand::<pb::DeleteRangeResponse>(DELETE_RANGE, &delete).await?;
    }
    Ok(block)
}

/// Sets the watches of one apiserver; a task reads each of them.
async fn watch_all(
    run: &Run,
    mut client: EtcdClient,
    watches: &mut JoinSet<(Kind, Seen)>,
) -> anyhow::Result<()> {
    for kind in Kind::ALL {
        let (range, last_key) = (run.registry.kind(kind), run.registry.last_key(kind));
        let opening = Watcher::open(&mut client, range, last_key, run.started);
        let watcher = timeout(SILENCE_LIMIT, opening).await.context("no watch is set")??;
        watches.spawn(async move { (kind, watcher.watch().await) });
    }
    Ok(())
}

/// Creates the objects that exist at the start.
async fn fill(run: &Arc<Run>, clients: &[EtcdClient], objects: u64) -> anyhow::Result<()> {
    let kinds = Kind::ALL.into_iter();
    let all = kinds.flat_map(|kind| core::iter::repeat_n(kind, kind.count(objects) as usize));
    let all: Arc<[Kind]> = all.collect();
    let (next, mut tasks) = (Arc::new(AtomicU64::new(0)), JoinSet::new());
    for client in clients.iter().cycle().take(KUBE_FILL_CLIENTS) {
        let (run, all, next) = (Arc::clone(run), Arc::clone(&all), Arc::clone(&next));
        let mut client = client.clone();
        tasks.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(kind) = all.get(number as usize) else { return };
                // Calls of the run count up from 0 and these count down from the top, so no seed is
                // used twice.
                let mut random = Random::new(u64::MAX - number);
                acts::create(&run, &mut client, *kind, &mut random, None).await;
            }
        });
    }
    tasks.join_all().await;
    let made: u64 = Kind::ALL.iter().map(|kind| run.objects.puts(*kind).count).sum();
    ensure!(made == all.len() as u64, "only {made} of {} objects were made", all.len());
    Ok(())
}

/// Sends the calls of the cluster when they are due, and waits until all are answered. Returns how
/// long that took, ns.
async fn open_loop(
    run: &Arc<Run>,
    clients: &[EtcdClient],
    clients_max: usize,
    time: Time,
) -> anyhow::Result<u64> {
    let per_s = run.mix.per_s() * time.compress;
    let pace = Pace { start_ns: run.now_ns() + PACED_START_NS, spacing_ns: 1e9 / per_s };
    *run.answers() = Answers::from(pace.start_ns);
    let end = End::Requests((per_s * time.seconds as f64).ceil() as u64);
    let compactions = tokio::spawn(compact_often(Arc::clone(run), clients[0].clone(), pace));
    let open = OpenLoop { started: run.started, pace, end, clients: clients_max };
    let send = |client, number, due_ns| {
        let run = Arc::clone(run);
        async move { acts::act(&run, client, number, due_ns).await }
    };
    open.run(clients, send).await?;
    compactions.abort();
    let now_ns = run.now_ns();
    run.answers().end_gap(now_ns);
    Ok(now_ns.saturating_sub(pace.start_ns))
}

/// Every five minutes of the cluster's time, compacts the revisions that existed five minutes
/// before, as an apiserver does.
async fn compact_often(run: Arc<Run>, mut client: EtcdClient, pace: Pace) {
    let interval_ns = COMPACTION_S / run.compress * 1e9;
    let mut old = run.revision.load(Ordering::Relaxed);
    for number in 1.. {
        let due_ns = pace.start_ns + (f64::from(number) * interval_ns) as u64;
        tokio::time::sleep(Duration::from_nanos(due_ns.saturating_sub(run.now_ns()))).await;
        let revision = run.revision.load(Ordering::Relaxed);
        if old < revision {
            acts::compact(&run, &mut client, old, due_ns).await;
        }
        old = revision;
    }
}

/// Puts one last key in each kind, and waits until each watch has seen it.
async fn last_events(
    run: &Run,
    client: &mut EtcdClient,
    watches: JoinSet<(Kind, Seen)>,
) -> anyhow::Result<Watched> {
    let mut revisions = [0; Kind::ALL.len()];
    for kind in Kind::ALL {
        let key = run.registry.last_key(kind);
        let value = run.values.value(Head { sent_ns: 0, updates: 0 }, Head::BYTES);
        let put = pb::PutRequest { key, value, ..Default::default() };
        let response: pb::PutResponse = client.demand(PUT, &put).await?;
        let revision = run.note(response.header.as_ref());
        revisions[kind.place()] = revision;
        run.objects.count_put(kind, Some(revision));
    }
    let seen = timeout(SILENCE_LIMIT, watches.join_all()).await;
    Ok(Watched { seen: seen.context("a watch misses the last put")?, revisions })
}

#[cfg(test)]
mod tests;
