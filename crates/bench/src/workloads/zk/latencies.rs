//! The workload `zk-latencies`: the service-latency test of P. Hunt's zk-smoketest
//! (`zk-latencies.py`). Each client has one session and goes through the phases of the test. In
//! asynchronous mode it sends all requests of a phase before it waits for the first answer; in
//! synchronous mode it sends one after the other.
//!
//! It differs from the original on purpose. All clients are in one process and begin each phase
//! together, so that the server's CPU can be measured for each phase. Each client has its own root.
//! If a client has several watchers on a znode, the server sends it one event, as in the original;
//! but here no watchers are called for that event.
//!
//! With `--rate` the phases are an open loop: every request has a time at which it is due, all
//! clients together send at the rate, and a latency counts from the due time. Servers are then
//! compared at the same load, and what they cost between requests is part of the figures.

use std::fmt::Write;
use std::process::ExitCode;

use clap::Args;
use results::ratio::Ratio;
use results::schema;
use zk::request::{CreateKind, ReadKind, ReadRequest, Request, WriteRequest};
use zk::response::ReplyHeader;
use zk::{AclEntry, ErrorCode, JuteReader};

use crate::limits::{CLIENTS_MAX, PACED_START_NS, PIPELINE_REQUESTS, RATE_MAX, SECONDS_MAX};
use crate::measure::comparison::{Progress, Rounds, Servers, Stolen, Turn, Where};
use crate::measure::driver::{Driver, Load, Next};
use crate::measure::idle;
use crate::measure::meter::{Meter, Tally};
use crate::measure::pace::Pace;
use crate::measure::report::{self, Run, Series, Shape};
use crate::measure::stats::Phase;
use crate::servers::null_server::NullServer;
use crate::servers::target::{Scheme, Target};
use crate::workloads::zk::client::Session;

/// The create flag of an ephemeral (`CreateMode.EPHEMERAL`).
pub const EPHEMERAL: i32 = 1;

/// Options of `quorate bench zk-latencies`.
#[derive(Debug, Args)]
pub struct LatencyArgs {
    #[command(flatten)]
    at: Where,
    #[command(flatten)]
    repeat: Rounds,
    /// Sessions at once; several numbers are several tests [default: 1,10,20; with --rate 10]
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    clients: Vec<usize>,
    /// One request at a time instead of all at once
    #[arg(long)]
    sync: bool,
    /// Open loop: requests a second, all clients together; several numbers are several
    /// tests
    #[arg(long, value_name = "N,...", value_delimiter = ',', conflicts_with = "sync",
          value_parser = clap::value_parser!(u64).range(1..=RATE_MAX))]
    rate: Vec<u64>,
    /// Requests of a client that are due at once, as a client library that is busy sends them
    #[arg(long, value_name = "N", default_value_t = 1, requires = "rate",
          value_parser = clap::value_parser!(u64).range(1..=PIPELINE_REQUESTS as u64))]
    burst: u64,
    /// How long a phase takes at that rate; the watches take --watch-multiple times as long
    #[arg(long, value_name = "S", default_value_t = 3, requires = "rate",
          value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    seconds: u64,
    /// How long the servers are left alone before, to measure what they cost when idle; by default
    /// 10 with --rate, else not at all
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(0..=SECONDS_MAX))]
    idle_seconds: Option<u64>,
    /// Znodes of each client; with --rate as many as --seconds take
    #[arg(long, value_name = "N", default_value_t = 10_000, conflicts_with = "rate")]
    znode_count: usize,
    /// Bytes of data in each znode
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    znode_size: usize,
    /// Watchers on each ephemeral
    #[arg(long, value_name = "N", default_value_t = 5)]
    watch_multiple: usize,
    /// Timeout of the sessions, ms
    #[arg(long, value_name = "MS", default_value_t = 30_000)]
    timeout: i32,
    /// Leave out the lines that the original prints for each client
    #[arg(long)]
    brief: bool,
}

impl Shape {
    /// The number of operations of all clients in one run.
    fn operation_count(&self, clients: usize) -> usize {
        let of_kind = |(kind, _): (Kind, &str)| match kind {
            Kind::Watch => self.znode_count * self.watch_multiple,
            _ => self.znode_count,
        };
        clients * MEASURED.map(of_kind).iter().sum::<usize>()
    }

    /// The way requests are sent, for headings.
    fn mode(&self) -> String {
        match (self.rate, self.is_synchronous) {
            (Some(rate), _) if self.burst == 1 => format!("open loop at {rate} per s"),
            (Some(rate), _) => format!("open loop at {rate} per s in bursts of {}", self.burst),
            (None, true) => "synchronous".to_string(),
            (None, false) => "asynchronous".to_string(),
        }
    }
}

impl LatencyArgs {
    fn check(&self) -> anyhow::Result<()> {
        if !self.rate.is_empty() {
            // In open loop both servers reach the rate that was asked for, so their ratio says
            // nothing.
            self.repeat.ensure_fixed()?;
        }
        for (name, number) in
            [("znode-count", self.znode_count), ("watch-multiple", self.watch_multiple)]
        {
            anyhow::ensure!(number > 0, "--{name} must be at least 1");
        }
        for clients in &self.clients {
            let is_possible = (1..=CLIENTS_MAX).contains(clients);
            anyhow::ensure!(is_possible, "--clients: {clients} is not in 1..={CLIENTS_MAX}");
        }
        Ok(())
    }

    fn client_counts(&self) -> Vec<usize> {
        match (self.clients.as_slice(), self.rate.as_slice()) {
            ([], []) => vec![1, 10, 20],
            ([], _) => vec![10],
            (given, _) => given.to_vec(),
        }
    }

    /// The tests that the options ask for: each number of clients at each rate.
    fn tests(&self) -> Vec<(usize, Shape)> {
        let rates: Vec<Option<u64>> = match self.rate.as_slice() {
            [] => vec![None],
            rates => rates.iter().copied().map(Some).collect(),
        };
        let at_rates = |clients| {
            let shape = |rate: &Option<u64>| (clients, self.shape(clients, *rate));
            rates.iter().map(shape).collect::<Vec<_>>()
        };
        self.client_counts().into_iter().flat_map(at_rates).collect()
    }

    fn shape(&self, clients: usize, rate: Option<u64>) -> Shape {
        let of_seconds = |rate: u64| (rate * self.seconds / clients as u64).max(1) as usize;
        Shape {
            znode_count: rate.map_or(self.znode_count, of_seconds),
            znode_bytes: self.znode_size,
            watch_multiple: self.watch_multiple,
            is_synchronous: self.sync,
            rate,
            burst: self.burst,
            timeout_ms: self.timeout,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    MakeRoot,
    Create,
    Set,
    Get,
    Delete,
    CreateEphemeral,
    Watch,
    DeleteEphemeral,
    RemoveRoot,
}

/// The measured phases, in order, with their names in tables.
const MEASURED: [(Kind, &str); 7] = [
    (Kind::Create, "create"),
    (Kind::Set, "set"),
    (Kind::Get, "get"),
    (Kind::Delete, "delete"),
    (Kind::CreateEphemeral, "create ephemeral"),
    (Kind::Watch, "watch"),
    (Kind::DeleteEphemeral, "delete eph., event"),
];

/// Runs `quorate bench zk-latencies` and prints the results.
///
/// # Errors
/// A target does not answer, or a file cannot be written.
pub fn command(args: &LatencyArgs) -> anyhow::Result<ExitCode> {
    args.check()?;
    let null = NullServer::start(args.znode_size)?;
    let targets = args.at.targets(Scheme::Zk)?;
    let (record, header) = args.at.start_record("zk-latencies")?;
    print!("{header}");
    let since = if args.rate.is_empty() { "the write to the socket" } else { "the intended start" };
    println!("latency from {since}; us of CPU are user and system");
    let idle = measure_idle(args, &targets);
    let mut servers = Servers::start(&args.at, (record, &header), targets);
    servers.add(null.target());
    let mut tests: Vec<schema::Test> = idle.into_iter().collect();
    let mut trouble = 0;
    for (clients, shape) in args.tests() {
        let (test, wrong) = run_test(args, &servers, clients, &shape)?;
        tests.push(test);
        trouble += wrong;
    }
    let end = servers.finish(tests, trouble);
    println!("\n{}", report::published(&args.client_counts()));
    end
}

/// Measures what the servers cost before the first request, if that is asked for.
fn measure_idle(args: &LatencyArgs, targets: &[Target]) -> Option<schema::Test> {
    let by_default = if args.rate.is_empty() { 0 } else { 10 };
    let seconds = args.idle_seconds.unwrap_or(by_default);
    if seconds == 0 {
        return None;
    }
    let idle = idle::measure(targets, seconds);
    print!("{}", idle::lines(targets, &idle, seconds));
    Some(idle::to_test(&idle, seconds))
}

/// Runs one test on all servers. Also returns how many answers were wrong or sessions lost.
fn run_test(
    args: &LatencyArgs,
    servers: &Servers<'_>,
    clients: usize,
    shape: &Shape,
) -> anyhow::Result<(schema::Test, u64)> {
    println!(
        "\n{clients} clients, {}: {} znodes of {} bytes each, {} watchers on each",
        shape.mode(),
        shape.znode_count,
        shape.znode_bytes,
        shape.watch_multiple
    );
    let work = format!("{} operations", shape.operation_count(clients));
    let warm = args.repeat.warm_line(&work, servers.targets());
    println!("{warm}");
    let series = measure(servers, clients, shape, &args.repeat)?;
    print!("{}", report::test_text(&series, shape, args.brief));
    let (_, asked) = series.split_last().expect("the null server is the last");
    let runs = asked.iter().flat_map(|one| &one.runs);
    let trouble = runs.map(|run| run.all.errors + run.all.lost).sum();
    let title = format!("{clients} clients, {}", shape.mode());
    Ok((report::test(title, shape, warm, &series), trouble))
}

fn measure(
    servers: &Servers<'_>,
    clients: usize,
    shape: &Shape,
    repeat: &Rounds,
) -> anyhow::Result<Vec<Series>> {
    let stolen = Stolen::start();
    let targets = servers.targets();
    let progress = Progress::start(u64::from(repeat.all()) * targets.len() as u64);
    let label = std::process::id().to_string();
    let run_turn = |turn: &Turn<'_>| {
        let (target, round) = (turn.target, turn.round);
        progress.say(&format!("{clients} clients, round {round}: {}", target.name));
        let run = run(target, clients, shape, &turn.label)?;
        Ok((run, target.memory().map(|it| (it.resident, it.peak))))
    };
    let (rounds, until) = servers.measure(&label, repeat, &progress, run_turn, rate_width)?;
    progress.end();
    stolen.print();
    until.iter().for_each(|line| println!("{line}"));
    let mut series = Vec::new();
    for (target, rounds) in targets.iter().zip(rounds) {
        let (runs, memories): (Vec<Run>, Vec<_>) = rounds.into_iter().unzip();
        let memory = memories.last().copied().flatten();
        let (name, address) = (target.name.clone(), target.address.clone());
        series.push(Series { name, address, runs, memory });
    }
    Ok(series)
}

/// The largest half width of the ratios between the first two servers' rates: see
/// [`crate::measure::figures`].
fn rate_width<M>(rounds: &[Vec<(Run, M)>]) -> Option<f64> {
    let rates = |of_one: &Vec<(Run, M)>| schema::Figure {
        good: schema::Good::More,
        values: of_one.iter().map(|(run, _)| run.all.rate()).collect(),
        ..schema::Figure::default()
    };
    // The last target is the null server, so a comparison has three.
    let [first, second, _, ..] = rounds else { return None };
    Ratio::of(&rates(first), &rates(second))?.half_width()
}

/// Runs the test once on one target. `label` makes the paths of this run differ from those of any
/// other.
///
/// # Errors
/// The sessions cannot be opened, or the server stays silent.
pub fn run(target: &Target, clients: usize, shape: &Shape, label: &str) -> anyhow::Result<Run> {
    let mut driver = Driver::connect(&target.addresses, clients, shape.timeout_ms)?;
    let roots: Vec<String> =
        (0..clients).map(|client| format!("/zk-latencies-{label}-{client}")).collect();
    let mut test = Test { shape, roots: &roots, data: vec![b'x'; shape.znode_bytes] };
    let made = test.phase(&mut driver, target, Kind::MakeRoot, "")?.0;
    anyhow::ensure!(made.errors == 0, "the roots of the test cannot be made");
    let mut run =
        Run { clients, phases: Vec::new(), notified_ms: Vec::new(), all: Phase::default() };
    run.all.name = "all";
    for (kind, name) in MEASURED {
        let (phase, notified_ms) = test.phase(&mut driver, target, kind, name)?;
        run.all.add(&phase);
        let sum = run.all.server_wakeups.unwrap_or(0);
        run.all.server_wakeups = phase.server_wakeups.map(|count| sum + count);
        run.notified_ms = notified_ms;
        run.phases.push(phase);
    }
    test.phase(&mut driver, target, Kind::RemoveRoot, "")?;
    driver.close();
    Ok(run)
}

struct Test<'a> {
    shape: &'a Shape,
    roots: &'a [String],
    data: Vec<u8>,
}

impl Test<'_> {
    /// Runs one phase. Also returns for each client how long after its last answer its last event
    /// came, ms.
    fn phase(
        &mut self,
        driver: &mut Driver,
        target: &Target,
        kind: Kind,
        name: &'static str,
    ) -> anyhow::Result<(Phase, Vec<u64>)> {
        let per_client = match kind {
            Kind::MakeRoot | Kind::RemoveRoot => 1,
            Kind::Watch => self.shape.znode_count * self.shape.watch_multiple,
            _ => self.shape.znode_count,
        };
        let is_measured = !matches!(kind, Kind::MakeRoot | Kind::RemoveRoot);
        let rate = self.shape.rate.filter(|_| is_measured);
        // Reading the wake-ups takes a moment: too long for a phase of some milliseconds, so they
        // are only counted in open loop.
        let waits = rate.and_then(|_| target.waits());
        let meter = Meter::start(driver, target);
        // In open loop the phase starts a little later, so that no client begins late.
        let start_ns = meter.started_ns() + PACED_START_NS;
        let mut load = PhaseLoad {
            kind,
            pace: rate.map(|rate| Pace::at_rate(start_ns, rate)),
            shape: self.shape,
            roots: self.roots,
            data: &self.data,
            acl: vec![AclEntry { perms: 31, scheme: "world".into(), id: "anyone".into() }],
            per_client,
            clients: vec![Position::default(); self.roots.len()],
            tally: Tally::default(),
            path: String::new(),
        };
        driver.run(&mut load)?;
        let mut phase = meter.stop(driver, name, load.tally);
        if rate.is_some() {
            phase.elapsed_ns -= PACED_START_NS;
            let after = waits.as_ref().and_then(|_| target.waits());
            phase.server_wakeups = after.zip(waits).map(|(after, before)| after.since(&before));
        }
        let answered = |it: &Position| it.answered_ns.saturating_sub(meter.started_ns());
        let notified = |it: &Position| it.notified_ns.saturating_sub(it.answered_ns) / 1_000_000;
        phase.client_ns = load.clients.iter().map(answered).collect();
        let notified_ms = load.clients.iter().map(notified).collect();
        Ok((phase, notified_ms))
    }
}

#[derive(Clone, Debug, Default)]
struct Position {
    sent: usize,
    answered: usize,
    events: usize,
    answered_ns: u64,
    notified_ns: u64,
}

struct PhaseLoad<'a> {
    kind: Kind,
    /// When each request is due; `None` if not in open loop.
    pace: Option<Pace>,
    shape: &'a Shape,
    roots: &'a [String],
    data: &'a [u8],
    acl: Vec<AclEntry>,
    per_client: usize,
    clients: Vec<Position>,
    tally: Tally,
    path: String,
}

/// The index of the znode that request `number` of a client is about. For watches in asynchronous
/// mode, each watcher goes over all znodes before the next does; in synchronous mode each znode
/// gets all its watchers before the next.
fn znode_of(kind: Kind, shape: &Shape, number: usize) -> usize {
    match (kind, shape.is_synchronous) {
        (Kind::Watch, true) => number / shape.watch_multiple,
        (Kind::Watch, false) => number % shape.znode_count,
        _ => number,
    }
}

fn path_of(path: &mut String, root: &str, kind: Kind, shape: &Shape, number: usize) {
    path.clear();
    path.push_str(root);
    if !matches!(kind, Kind::MakeRoot | Kind::RemoveRoot) {
        let znode = znode_of(kind, shape, number);
        write!(path, "/session_{znode}").expect("a String takes everything");
    }
}

impl Load for PhaseLoad<'_> {
    fn next(&mut self, client: usize, session: &mut Session, now_ns: u64) -> Next {
        let progress = &mut self.clients[client];
        if progress.sent == self.per_client {
            let awaits_events =
                self.kind == Kind::DeleteEphemeral && progress.events < self.shape.znode_count;
            return if awaits_events { Next::Wait } else { Next::Finished };
        }
        if self.shape.is_synchronous && session.under_way() > 0 {
            return Next::Wait;
        }
        let due_ns = match self.pace {
            Some(pace) => {
                pace.client_due_ns(self.roots.len(), client, progress.sent, self.shape.burst)
            }
            None => now_ns,
        };
        if now_ns < due_ns {
            return Next::At(due_ns);
        }
        path_of(&mut self.path, &self.roots[client], self.kind, self.shape, progress.sent);
        progress.sent += 1;
        let path = self.path.as_str();
        let create = |flags, data| {
            let (kind, acl, ttl_ms) = (CreateKind::Create, self.acl.clone(), -1);
            Request::Write(WriteRequest::Create { kind, path, data, acl, flags, ttl_ms })
        };
        let read = |kind, watch| Request::Read(ReadRequest { kind, path, watch });
        let request = match self.kind {
            Kind::MakeRoot => create(0, None),
            Kind::Create => create(0, Some(self.data)),
            Kind::CreateEphemeral => create(EPHEMERAL, Some(self.data)),
            Kind::Set => {
                let (data, version) = (Some(self.data), -1);
                Request::Write(WriteRequest::SetData { path, data, version })
            }
            Kind::Get => read(ReadKind::GetData, false),
            Kind::Watch => read(ReadKind::Exists, true),
            Kind::Delete | Kind::DeleteEphemeral | Kind::RemoveRoot => {
                Request::Write(WriteRequest::Delete { path, version: -1 })
            }
        };
        session.send(&request, due_ns);
        Next::Sent
    }

    fn on_reply(
        &mut self,
        client: usize,
        header: ReplyHeader,
        mut body: JuteReader<'_>,
        took_ns: u64,
        now_ns: u64,
    ) {
        let progress = &mut self.clients[client];
        let is_right = header.error == ErrorCode::OK
            && match self.kind {
                Kind::Create | Kind::CreateEphemeral => {
                    let root = &self.roots[client];
                    path_of(&mut self.path, root, self.kind, self.shape, progress.answered);
                    body.text() == Ok(self.path.as_str())
                }
                Kind::Get => body.buffer() == Ok(Some(self.data)),
                _ => true,
            };
        self.tally.count(is_right, took_ns);
        progress.answered += 1;
        progress.answered_ns = now_ns;
    }

    fn on_event(&mut self, client: usize, _: i32, _: &str, now_ns: u64) {
        self.clients[client].events += 1;
        self.clients[client].notified_ns = now_ns;
    }
}

#[cfg(test)]
mod tests;
