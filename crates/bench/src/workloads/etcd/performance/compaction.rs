//! The workload `etcd-compaction`: how a compaction disturbs etcd's clients. A million revisions
//! are made. Then puts and reads go on at half of the maximum rate, and meanwhile all revisions but
//! the last thousand are compacted.
//!
//! The loop is open: latency counts from when a request was due. The compaction is a *physical*
//! one: its answer comes when the revisions are gone. A request counts as "during" if it was due
//! before that answer and was itself answered after the compaction was sent, however late it was
//! sent. All requests that were due until the end are answered and counted.

use std::process::ExitCode;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bytes::Bytes;
use clap::Args;
use etcd::pb::{Message, etcdserverpb as pb};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::load::{Load, OpenLoop};
use crate::limits::{
    CLIENTS_MAX, COMPACTION_LIMIT, ETCD_KEYS_MAX, ETCD_VALUE_BYTES_MAX, ITEMS_MAX, PACED_START_NS,
    RATE_MAX, SECONDS_MAX, SILENCE_LIMIT,
};
use crate::measure::comparison::{Comparison, Rounds, Turn, Where};
use crate::measure::figures::{Block, Figure, Good, of_latencies};
use crate::measure::meter::Tally;
use crate::measure::open_files;
use crate::measure::pace::{End, Pace};
use crate::random::Random;
use crate::servers::data_folder::{data_folders, disk_bytes};
use crate::servers::target::{Scheme, Target};
use crate::workloads::etcd::client::{COMPACT, Call, EtcdClient, PUT, RANGE, runtime};

/// The stages of a run: before, during and after the compaction.
const STAGES: usize = 3;
const BEFORE: usize = 0;
const DURING: usize = 1;
const AFTER: usize = 2;

/// The names of a stage's figures.
struct Names {
    rate: &'static str,
    cores: &'static str,
    /// The names of latencies: those of puts, then those of reads.
    latencies: [[&'static str; 3]; 2],
}

const NAMES: [Names; STAGES] = [
    Names {
        rate: "requests before",
        cores: "cores before",
        latencies: [
            ["put p50 before", "put p99 before", "put max before"],
            ["range p50 before", "range p99 before", "range max before"],
        ],
    },
    Names {
        rate: "requests during",
        cores: "cores during",
        latencies: [
            ["put p50 during", "put p99 during", "put max during"],
            ["range p50 during", "range p99 during", "range max during"],
        ],
    },
    Names {
        rate: "requests after",
        cores: "cores after",
        latencies: [
            ["put p50 after", "put p99 after", "put max after"],
            ["range p50 after", "range p99 after", "range max after"],
        ],
    },
];

/// Options of `quorate bench etcd-compaction`.
#[derive(Debug, Args)]
#[command(
    mut_arg("target", |it| it.value_name("etcd://HOST:PORT[,...]")),
    mut_arg("compare", |it| it.value_name("etcd://HOST:PORT[,...]")),
    mut_arg("rounds", |it| it.default_value("2")),
    mut_arg("warmup", |it| it.default_value("0"))
)]
pub struct EtcdCompactionArgs {
    #[command(flatten)]
    at: Where,
    #[command(flatten)]
    repeat: Rounds,
    /// Revisions that are made first, by puts at full rate
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    revisions: u64,
    /// Keys that have them
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    keys: u64,
    /// Bytes of a value
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    value: usize,
    /// Revisions that the compaction leaves
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    leave: u64,
    /// Puts and reads a second, in turn [default: half of the puts that the server can do]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=RATE_MAX))]
    rate: Option<u64>,
    /// How long they go on before the compaction, and as long after it
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    seconds: u64,
    /// Requests under way at once
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    clients: usize,
    /// Connections, which the clients share
    #[arg(long, value_name = "N", default_value_t = 100)]
    connections: usize,
}

/// Runs `quorate bench etcd-compaction` and prints the results.
///
/// # Errors
/// An option is wrong, a target does not answer, or a file cannot be written.
pub fn command(args: &EtcdCompactionArgs) -> anyhow::Result<ExitCode> {
    for (name, number, max) in [
        ("revisions", args.revisions, ITEMS_MAX),
        ("keys", args.keys, ETCD_KEYS_MAX.min(args.revisions)),
        ("leave", args.leave, args.revisions),
        ("value", args.value as u64, ETCD_VALUE_BYTES_MAX),
        ("clients", args.clients as u64, CLIENTS_MAX as u64),
        ("connections", args.connections as u64, CLIENTS_MAX as u64),
    ] {
        ensure!((1..=max).contains(&number), "--{name}: {number} is not in 1..={max}");
    }
    open_files::make_room(args.connections)?;
    let EtcdCompactionArgs { revisions, keys, value, leave, seconds, .. } = args;
    let rate = args.rate.map_or("half of the maximum".to_string(), |rate| format!("{rate} per s"));
    let about = format!(
        "{revisions} revisions of {keys} keys with values of {value} bytes; then puts and reads in \
         turn at {rate}, open loop, latency from the intended start; after {seconds} s all but \
         {leave} revisions are compacted; {seconds} s more after that. By default etcd rests for 10 \
         ms after each 1000 revisions that it compacts (--compaction-sleep-interval)"
    );
    let mut comparison = Comparison::start_on(Scheme::Etcd, &args.at, "etcd-compaction", &about)?;
    let work = format!("{revisions} puts and a compaction");
    comparison.measure(&args.repeat, &work, |turn| measure(turn, args))?;
    comparison.finish()
}

/// The memory and the disk use of the servers at one moment, MiB; `None` if not known.
#[derive(Clone, Copy, Debug)]
struct Size {
    memory: Option<f64>,
    disk: Option<f64>,
}

impl Size {
    fn of(target: &Target) -> Size {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let folders = data_folders(target);
        let disk = (!folders.is_empty()).then(|| folders.iter().map(|it| disk_bytes(it)).sum());
        Size { memory: target.memory().map(|it| mib(it.resident)), disk: disk.map(mib) }
    }
}

fn measure(turn: &Turn<'_>, args: &EtcdCompactionArgs) -> anyhow::Result<Block> {
    let (target, mut block) = (turn.target, turn.target.block());
    turn.say("making revisions");
    let mut load = Load::connect(&target.addresses, args.connections)?;
    let made = load.fill(target, (args.clients, args.revisions), |number| {
        put(number % args.keys, Random::new(number).bytes(args.value))
    })?;
    drop(load);
    block.blame(&made);
    let rate = args.rate.unwrap_or_else(|| (made.rate() / 2.0).max(1.0) as u64);
    turn.say(&format!("puts and reads at {rate} per s"));
    let full = Size::of(target);
    // Values that differ from all values of the fill.
    let of_load = |number| Random::new(u64::MAX - number).bytes(args.value);
    let run = Arc::new(Run {
        started: Instant::now(),
        calls: [
            (0..args.keys).map(|number| put(number, of_load(number))).collect::<Result<_, _>>()?,
            (0..args.keys).map(range).collect::<Result<_, _>>()?,
        ],
        compaction: [AtomicU64::new(u64::MAX), AtomicU64::new(u64::MAX)],
        revision: AtomicI64::new(0),
        tallies: Mutex::default(),
    });
    let (compacted, spent) = runtime()?.block_on(run.disturbed(turn, args, rate))?;
    block.figures.push(Figure::once("maximum of puts", "per s", made.rate(), Good::More));
    block.figures.push(Figure::once("rate asked for", "per s", rate as f64, Good::Neither));
    let took_ms = compacted.took.as_secs_f64() * 1_000.0;
    block.figures.push(Figure::once("compaction", "ms", took_ms, Good::Less));
    // Latencies are compared only if all servers get the same rate.
    let good = if args.rate.is_some() { Good::Less } else { Good::Neither };
    block.figures.extend(run.figures(&spent, good));
    for (names, size) in [
        (["VmRSS with all revisions", "data folder with all revisions"], full),
        (["VmRSS after the compaction", "data folder after the compaction"], compacted.size),
        (["VmRSS at the end", "data folder at the end"], Size::of(target)),
    ] {
        block.figures.push(Figure::once(names[0], "MiB", size.memory, Good::Less));
        block.figures.push(Figure::once(names[1], "MiB", size.disk, Good::Less));
    }
    let tallies = run.tallies.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let errors: u64 = tallies.iter().flatten().map(|it| it.errors).sum();
    block.figures.push(Figure::once("errors", "", errors as f64, Good::Neither));
    block.trouble += errors;
    if !compacted.is_exact {
        block.trouble += 1;
        block.notes.push("other revisions are gone than were to be compacted".to_string());
    }
    Ok(block)
}

fn put(number: u64, value: Vec<u8>) -> anyhow::Result<Call> {
    let (key, value) = (key(number), value.into());
    Call::new(PUT, &pb::PutRequest { key, value, ..Default::default() })
}

fn range(number: u64) -> anyhow::Result<Call> {
    Call::new(RANGE, &pb::RangeRequest { key: key(number), ..Default::default() })
}

fn key(number: u64) -> Bytes {
    format!("compaction/{number:08}").into()
}

/// The duration of one stage, and the servers' CPU time in it.
#[derive(Clone, Copy, Debug)]
struct Spent {
    seconds: f64,
    cpu_s: Option<f64>,
}

/// The compaction and what was measured around it.
struct Compacted {
    took: Duration,
    /// The memory and disk use right after the answer to the compaction.
    size: Size,
    /// The stages before and during the compaction.
    spent: [Spent; 2],
    /// When the stage after the compaction began.
    after: Moment,
    /// Whether exactly the revisions before the compacted one are gone, and that one can be read.
    is_exact: bool,
}

/// A moment, and the CPU time of the servers until then.
#[derive(Clone, Copy, Debug)]
struct Moment {
    time: Instant,
    cpu_ns: Option<u64>,
}

impl Moment {
    fn now(target: &Target) -> Moment {
        Moment { time: Instant::now(), cpu_ns: target.cpu_ns() }
    }

    fn spent_until(self, end: Moment) -> Spent {
        let cpu_ns = end.cpu_ns.zip(self.cpu_ns).map(|(end, begin)| end.saturating_sub(begin));
        let seconds = (end.time - self.time).as_secs_f64();
        Spent { seconds, cpu_s: cpu_ns.map(|ns| ns as f64 / 1e9) }
    }
}

/// The state that all requests of a run share.
struct Run {
    started: Instant,
    /// The puts, then the reads.
    calls: [Vec<Call>; 2],
    /// When the compaction was sent, and when it was answered, ns since the start. [`u64::MAX`]
    /// until that happens.
    compaction: [AtomicU64; 2],
    /// The newest revision that a put has got.
    revision: AtomicI64,
    /// For each stage the answers to puts, then to reads.
    tallies: Mutex<[[Tally; 2]; STAGES]>,
}

impl Run {
    fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    /// Sends puts and reads at `rate`, and a compaction in their middle.
    async fn disturbed(
        self: &Arc<Run>,
        turn: &Turn<'_>,
        args: &EtcdCompactionArgs,
        rate: u64,
    ) -> anyhow::Result<(Compacted, [Spent; STAGES])> {
        let mut clients = Vec::new();
        for address in turn.target.addresses.iter().cycle().take(args.connections) {
            clients.push(EtcdClient::connect(*address).await?);
        }
        let end = Arc::new(OnceLock::new());
        let open = OpenLoop {
            started: self.started,
            pace: Pace::at_rate(self.now_ns() + PACED_START_NS, rate),
            end: End::Time(Arc::clone(&end)),
            clients: args.clients,
        };
        let sending = open.run(&clients, |client, number, due_ns| {
            let run = Arc::clone(self);
            async move { run.one(client, number, due_ns).await }
        });
        let compacting = async {
            let compacted = self.compact(turn, args).await;
            end.get_or_init(Instant::now);
            compacted
        };
        let (sent, compacted) = tokio::join!(sending, compacting);
        sent?;
        let compacted = compacted?;
        // The last stage ends with the last answer.
        let [before, during] = compacted.spent;
        let after = compacted.after.spent_until(Moment::now(turn.target));
        Ok((compacted, [before, during, after]))
    }

    async fn one(&self, mut client: EtcdClient, number: u64, due_ns: u64) {
        let (kind, index) = ((number % 2) as usize, number / 2);
        let calls = &self.calls[kind];
        let call = &calls[(index % calls.len() as u64) as usize];
        let answer = timeout(SILENCE_LIMIT, client.ask(call)).await;
        let now_ns = self.now_ns();
        let compaction = self.compaction.each_ref().map(|it| it.load(Ordering::Relaxed));
        let stage = stage_of(due_ns, now_ns, compaction);
        let answer = answer.ok().and_then(Result::ok).filter(|answer| answer.code == 0);
        let is_right = answer.is_some_and(|answer| match kind {
            0 => pb::PutResponse::decode(answer.body).is_ok_and(|put| {
                let revision = put.header.map_or(0, |header| header.revision);
                self.revision.fetch_max(revision, Ordering::Relaxed);
                revision > 0
            }),
            _ => pb::RangeResponse::decode(answer.body).is_ok_and(|it| it.kvs.len() == 1),
        });
        let mut tallies = self.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        tallies[stage][kind].count(is_right, now_ns.saturating_sub(due_ns));
    }

    /// Sends the compaction after a while, and ends a while after its answer.
    async fn compact(
        &self,
        turn: &Turn<'_>,
        args: &EtcdCompactionArgs,
    ) -> anyhow::Result<Compacted> {
        let target = turn.target;
        let mut client = EtcdClient::connect(target.addresses[0]).await?;
        let begin = Moment::now(target);
        tokio::time::sleep(Duration::from_secs(args.seconds)).await;
        turn.say("compacting");
        let revision = self.revision.load(Ordering::Relaxed) - args.leave as i64;
        ensure!(revision > 0, "no put was answered before the compaction");
        let compaction = pb::CompactionRequest { revision, physical: true };
        let call = Call::new(COMPACT, &compaction)?;
        let [sent_ns, done_ns] = &self.compaction;
        sent_ns.store(self.now_ns(), Ordering::Relaxed);
        let sent = Moment::now(target);
        let answer = timeout(COMPACTION_LIMIT, client.ask(&call)).await;
        done_ns.store(self.now_ns(), Ordering::Relaxed);
        let after = Moment::now(target);
        let answer = answer.context("the compaction has no answer")??;
        ensure!(answer.code == 0, "the compaction is refused: {}", answer.message);
        let measured = target.clone();
        // The clients run on this thread and must go on meanwhile.
        let size = spawn_blocking(move || Size::of(&measured)).await?;
        let is_exact =
            is_there(&mut client, revision).await? && !is_there(&mut client, revision - 1).await?;
        tokio::time::sleep(Duration::from_secs(args.seconds)).await;
        let spent = [begin.spent_until(sent), sent.spent_until(after)];
        Ok(Compacted { took: after.time - sent.time, size, spent, after, is_exact })
    }

    fn figures(&self, spent: &[Spent; STAGES], good: Good) -> Vec<Figure> {
        let tallies = self.tallies.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut figures = Vec::new();
        for ((names, spent), tallies) in NAMES.iter().zip(spent).zip(tallies) {
            let answered: u64 = tallies.iter().map(|it| it.answered).sum();
            let rate = answered as f64 / spent.seconds;
            let cores = spent.cpu_s.map(|cpu_s| cpu_s / spent.seconds);
            figures.push(Figure::once(names.rate, "per s", rate, Good::Neither));
            figures.push(Figure::once(names.cores, "", cores, good));
            for (names, tally) in names.latencies.into_iter().zip(&tallies) {
                figures.extend(of_latencies(names, &tally.latencies, good));
            }
        }
        figures
    }
}

/// The stage that a request counts for, from when it was due and answered, and from when the
/// compaction was sent and answered. All times are ns since the start.
fn stage_of(due_ns: u64, answered_ns: u64, [sent_ns, done_ns]: [u64; 2]) -> usize {
    if answered_ns < sent_ns {
        BEFORE
    } else if due_ns > done_ns {
        AFTER
    } else {
        DURING
    }
}

/// Whether revision `revision` can be read; false if it was compacted.
async fn is_there(client: &mut EtcdClient, revision: i64) -> anyhow::Result<bool> {
    let range = pb::RangeRequest { key: key(0), revision, ..Default::default() };
    let answer = timeout(SILENCE_LIMIT, client.ask(&Call::new(RANGE, &range)?)).await??;
    let is_compacted = answer.code != 0 && answer.message.contains("compacted");
    ensure!(answer.code == 0 || is_compacted, "a read is refused: {}", answer.message);
    Ok(!is_compacted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_was_due_or_under_way_during_the_compaction_counts_there() {
        let never = u64::MAX;
        for (due_ns, answered_ns, compaction, stage) in [
            (10, 20, [never, never], BEFORE),
            (10, 20, [30, never], BEFORE),
            (10, 30, [30, never], DURING),
            (40, 50, [30, never], DURING),
            (10, 90, [30, 80], DURING),
            // The request had to wait, and was sent only after the compaction; but it was due
            // before that.
            (80, 99, [30, 80], DURING),
            (81, 99, [30, 80], AFTER),
        ] {
            assert_eq!(stage_of(due_ns, answered_ns, compaction), stage, "{due_ns} {answered_ns}");
        }
    }
}
