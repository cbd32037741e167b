//! The service-latency test of P. Hunt's zk-smoketest (`zk-latencies.py`): each client has one
//! session and goes through the phases; asynchronously, so that all requests of a phase are sent
//! before the first answer is waited for, or synchronously, one after the other.
//!
//! Different from the original, on purpose: all clients are in one process and begin each phase
//! together, so that the server's CPU can be told for each phase; each client has a root of its
//! own; a watch is one event on the wire however many watchers a client has, as in the original,
//! where the client library multiplies them.

use std::fmt::Write;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use zk::request::{CreateKind, ReadKind, ReadRequest, Request, WriteRequest};
use zk::response::ReplyHeader;
use zk::{AclEntry, ErrorCode, JuteReader};

use crate::census::Census;
use crate::client_zk::Session;
use crate::comparison::{self, Progress, Rounds, Stolen, Where};
use crate::driver::{Driver, Load, Next};
use crate::limits::CLIENTS_MAX;
use crate::meter::{Meter, Tally};
use crate::null_server::NullServer;
use crate::report::{self, Series};
use crate::stats::Phase;
use crate::target::Target;

/// The flag of a create that makes an ephemeral (`CreateMode.EPHEMERAL`).
pub const EPHEMERAL: i32 = 1;

/// Options of `quorate bench zk-latencies`.
#[derive(Debug, Args)]
pub struct LatencyArgs {
    #[command(flatten)]
    at: Where,
    #[command(flatten)]
    repeat: Rounds,
    /// Sessions at once; several numbers are several tests
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,10,20")]
    clients: Vec<usize>,
    /// One request at a time instead of all at once
    #[arg(long)]
    sync: bool,
    /// Znodes of each client
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    znode_count: usize,
    /// Bytes of data in each
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

/// Options of the test, as the original has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Znodes of each client, in each phase.
    pub znode_count: usize,
    /// Bytes of data in each.
    pub znode_bytes: usize,
    /// Watchers on each ephemeral.
    pub watch_multiple: usize,
    /// One request at a time.
    pub is_synchronous: bool,
    /// Asked for, ms.
    pub timeout_ms: i32,
}

impl Shape {
    /// What all clients together do in one run.
    fn operation_count(&self, clients: usize) -> usize {
        let of_kind = |(kind, _): (Kind, &str)| match kind {
            Kind::Watch => self.znode_count * self.watch_multiple,
            _ => self.znode_count,
        };
        clients * MEASURED.map(of_kind).iter().sum::<usize>()
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

/// The phases that are measured, with their names in tables.
const MEASURED: [(Kind, &str); 7] = [
    (Kind::Create, "create"),
    (Kind::Set, "set"),
    (Kind::Get, "get"),
    (Kind::Delete, "delete"),
    (Kind::CreateEphemeral, "create ephemeral"),
    (Kind::Watch, "watch"),
    (Kind::DeleteEphemeral, "delete eph., event"),
];

/// One run of the test.
#[derive(Clone, Debug)]
pub struct Run {
    /// Sessions at once.
    pub clients: usize,
    /// In the order of the test.
    pub phases: Vec<Phase>,
    /// For each client, how long after its last delete the last event came, ms.
    pub notified_ms: Vec<u64>,
    /// CPU, memory and time of everything, as one phase.
    pub all: Phase,
}

/// Runs `quorate bench zk-latencies` and prints it.
///
/// # Errors
/// A target does not answer, or a file cannot be written.
pub fn command(args: &LatencyArgs) -> anyhow::Result<ExitCode> {
    for (name, number) in
        [("znode-count", args.znode_count), ("watch-multiple", args.watch_multiple)]
    {
        anyhow::ensure!(number > 0, "--{name} must be at least 1");
    }
    for clients in &args.clients {
        let is_possible = (1..=CLIENTS_MAX).contains(clients);
        anyhow::ensure!(is_possible, "--clients: {clients} is not in 1..={CLIENTS_MAX}");
    }
    let shape = Shape {
        znode_count: args.znode_count,
        znode_bytes: args.znode_size,
        watch_multiple: args.watch_multiple,
        is_synchronous: args.sync,
        timeout_ms: args.timeout,
    };
    let null = NullServer::start(args.znode_size)?;
    let mut targets = args.at.targets()?;
    let census = Census::start(&targets);
    targets.push(null.target());
    let header = args.at.header()?;
    print!("{header}");
    println!("latency from the write to the socket; us of CPU are user and system");
    let mut tests = Vec::new();
    let mut trouble = 0;
    for &clients in &args.clients {
        let mode = if args.sync { "synchronous" } else { "asynchronous" };
        println!(
            "\n{clients} clients, {mode}: {} znodes of {} bytes each, {} watchers on each",
            shape.znode_count, shape.znode_bytes, shape.watch_multiple
        );
        let work = format!("{} operations", shape.operation_count(clients));
        let warm = args.repeat.warm_line(&work, &targets);
        println!("{warm}");
        let series = measure(&targets, clients, &shape, &args.repeat)?;
        for one in &series[..series.len() - 1] {
            if !args.brief {
                println!("{} ({}), last run", one.name, one.address);
                print!("{}", report::original_lines(&one.runs[one.runs.len() - 1], &shape));
            }
            trouble += one.runs.iter().map(|run| run.all.errors + run.all.lost).sum::<u64>();
        }
        let (null, servers) = series.split_last().expect("the null server is the last");
        print!("{}", report::table(servers));
        println!("the generator's ceiling:");
        print!("{}", report::table(core::slice::from_ref(null)));
        tests.push(json!({
            "clients": clients,
            "synchronous": args.sync,
            "warm": warm,
            "servers": series.iter().map(report::to_json).collect::<Vec<_>>(),
        }));
    }
    let each = census.end();
    println!("\n{}", report::published(&args.clients));
    args.at.write_json(&json!({
        "workload": "zk-latencies",
        "about": header,
        "each_server": each,
        "tests": tests,
    }))?;
    Ok(comparison::end(trouble))
}

fn measure(
    targets: &[Target],
    clients: usize,
    shape: &Shape,
    repeat: &Rounds,
) -> anyhow::Result<Vec<Series>> {
    let stolen = Stolen::start();
    let progress = Progress::start(u64::from(repeat.all()) * targets.len() as u64);
    let rounds = repeat.take_turns(targets.len(), |place, round| {
        let target = &targets[place];
        progress.say(&format!("{clients} clients, round {round}: {}", target.name));
        let label = format!("{}-{round}", std::process::id());
        let run = run(target, clients, shape, &label)
            .map_err(|error| anyhow::anyhow!("{}: {error}", target.address))?;
        Ok((run, target.memory().map(|it| (it.resident, it.peak))))
    })?;
    progress.end();
    stolen.print();
    let mut series = Vec::new();
    for (target, rounds) in targets.iter().zip(rounds) {
        let (runs, memories): (Vec<Run>, Vec<_>) = rounds.into_iter().unzip();
        let memory = memories.last().copied().flatten();
        let (name, address) = (target.name.clone(), target.address.clone());
        series.push(Series { name, address, runs, memory });
    }
    Ok(series)
}

/// Runs the test once. `label` makes the paths of this run unlike those of any other.
///
/// # Errors
/// The sessions cannot be opened, or the server is silent.
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
        run.all.operations += phase.operations;
        run.all.elapsed_ns += phase.elapsed_ns;
        run.all.latencies.add(&phase.latencies);
        run.all.own_cpu_ns += phase.own_cpu_ns;
        run.all.errors += phase.errors;
        run.all.lost = phase.lost;
        let sum = run.all.server_cpu_ns.unwrap_or(0);
        run.all.server_cpu_ns = phase.server_cpu_ns.map(|ns| sum + ns);
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
    /// One phase, and for each client how long after its last answer the last event came.
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
        let meter = Meter::start(driver, target);
        let mut load = PhaseLoad {
            kind,
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
    shape: &'a Shape,
    roots: &'a [String],
    data: &'a [u8],
    acl: Vec<AclEntry>,
    per_client: usize,
    clients: Vec<Position>,
    tally: Tally,
    path: String,
}

/// The znode of the n-th request. Asynchronously, each watcher goes over all znodes; synchronously
/// each znode gets all its watchers.
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
        session.send(&request, now_ns);
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
