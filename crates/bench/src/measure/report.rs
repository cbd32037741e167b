//! Formats the results of the service-latency test ([`crate::workloads::zk::latencies`]): as the
//! lines that P. Hunt's original script prints, as tables, and as JSON. Pure: figures in, text out.

use std::fmt::Write;

use results::schema::{self, Measured};

use crate::measure::published::HUNT;
use crate::measure::record::{NULL, OURS, PEER};
use crate::measure::stats::{Phase, median};

/// The options of the test; they mean what they mean in the original script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Znodes of each client, in each phase.
    pub znode_count: usize,
    /// Bytes of data in each znode.
    pub znode_bytes: usize,
    /// Watches that are set on each ephemeral.
    pub watch_multiple: usize,
    /// Whether each client waits for an answer before its next request.
    pub is_synchronous: bool,
    /// Requests a second of all clients together, in open loop. `None` means closed loop: as fast
    /// as the server answers.
    pub rate: Option<u64>,
    /// In open loop, how many requests of a client are due at the same moment.
    pub burst: u64,
    /// The session timeout that clients ask for, ms.
    pub timeout_ms: i32,
}

/// One run of the test.
#[derive(Clone, Debug)]
pub struct Run {
    /// Sessions that send at the same time.
    pub clients: usize,
    /// The phases, in the order of the test.
    pub phases: Vec<Phase>,
    /// For each client, how long after its last delete its last watch event came, ms.
    pub notified_ms: Vec<u64>,
    /// The whole run as one phase: time, CPU, and the results of all phases together.
    pub all: Phase,
}

/// All runs of one test against one server.
#[derive(Clone, Debug)]
pub struct Series {
    /// The name and version of the server.
    pub name: String,
    /// The address of the server.
    pub address: String,
    /// The runs, in the order in which they were made.
    pub runs: Vec<Run>,
    /// Bytes of `VmRSS` and `VmHWM` after the last run; `None` if the server is not on this
    /// machine.
    pub memory: Option<(u64, u64)>,
}

/// Everything that is printed after one test. The null server is the last of `series`. `brief`
/// leaves out the original's lines.
pub fn test_text(series: &[Series], shape: &Shape, brief: bool) -> String {
    let (null, servers) = series.split_last().expect("the null server is the last");
    let mut out = String::new();
    // The original has no open loop, so there are no lines to imitate.
    if !brief && shape.rate.is_none() {
        for one in servers {
            let _ = writeln!(out, "{} ({}), last run", one.name, one.address);
            out += &original_lines(one.runs.last().expect("a round counts"), shape);
        }
    }
    out += &table(servers);
    out += "the generator's ceiling:\n";
    out += &table(core::slice::from_ref(null));
    out
}

/// The lines that the original script prints for each client, letter by letter.
fn original_lines(run: &Run, shape: &Shape) -> String {
    let mut out = String::new();
    let mode = if shape.is_synchronous { "syncronous" } else { "asynchronous" };
    let znodes = shape.znode_count;
    let watches = shape.znode_count * shape.watch_multiple;
    for client in 0..run.clients {
        let _ = writeln!(out, "Testing latencies on client {client} using {mode} calls");
        let texts = [
            (format!("created {znodes:>7} permanent znodes "), znodes),
            (format!("set     {znodes:>7}           znodes "), znodes),
            (format!("get     {znodes:>7}           znodes "), znodes),
            (format!("deleted {znodes:>7} permanent znodes "), znodes),
            (format!("created {znodes:>7} ephemeral znodes "), znodes),
            (format!("watched {watches:>7}           znodes "), watches),
            (format!("deleted {znodes:>7} ephemeral znodes "), znodes),
        ];
        for ((text, count), phase) in texts.iter().zip(&run.phases) {
            let ms = phase.client_ns[client] as f64 / 1e6;
            original_line(&mut out, text, ms, *count);
        }
        let text = format!("notif   {watches:>7}           watches");
        original_line(&mut out, &text, run.notified_ms[client] as f64, watches);
        out.push_str("Latency test complete\n");
    }
    out
}

fn original_line(out: &mut String, text: &str, ms: f64, count: usize) {
    let whole = ms as u64;
    let _ = match whole {
        0 => writeln!(out, "{text} in {whole:>6} ms (included in prior)"),
        _ => {
            let (each, rate) = (ms / count as f64, count as f64 * 1_000.0 / ms);
            writeln!(out, "{text} in {whole:>6} ms ({each:.6} ms/op {rate:.6}/sec)")
        }
    };
}

/// One phase over all runs of a series: the median of each figure, and the latencies of all runs in
/// one histogram.
struct Middle {
    operations: u64,
    rate: f64,
    server_us: Option<f64>,
    server_wakeups: Option<f64>,
    own_us: f64,
    all: Phase,
}

fn phases_of(run: &Run) -> impl Iterator<Item = &Phase> {
    run.phases.iter().chain(core::iter::once(&run.all))
}

fn middle(series: &Series, at: usize) -> Middle {
    let phases: Vec<&Phase> = series
        .runs
        .iter()
        .map(|run| phases_of(run).nth(at).expect("every member has it"))
        .collect();
    let mut all = Phase::default();
    for phase in &phases {
        all.name = phase.name;
        all.latencies.add(&phase.latencies);
        all.errors += phase.errors;
        all.lost += phase.lost;
    }
    let of = |figure: &dyn Fn(&Phase) -> f64| {
        median(&phases.iter().map(|phase| figure(phase)).collect::<Vec<_>>())
    };
    let is_known = phases.iter().all(|phase| phase.server_cpu_ns.is_some());
    let is_counted = phases.iter().all(|phase| phase.server_wakeups.is_some());
    Middle {
        operations: phases.first().map_or(0, |phase| phase.operations),
        rate: of(&|phase| phase.rate()),
        server_us: is_known.then(|| of(&|phase| phase.server_us().unwrap_or(0.0))),
        server_wakeups: is_counted.then(|| of(&|phase| phase.server_wakeups_each().unwrap_or(0.0))),
        own_us: of(&|phase| phase.own_us()),
        all,
    }
}

fn shown(us: Option<f64>) -> String {
    us.map_or("-".to_string(), |us| format!("{us:.2}"))
}

/// The table of one test: a block for each server, then the ratios of the second server to the
/// first. A ratio is the median over the rounds; in each round both servers ran one after the
/// other.
fn table(series: &[Series]) -> String {
    let mut out = String::new();
    let phase_count = series[0].runs[0].phases.len() + 1;
    for one in series {
        let _ = writeln!(out, "{} ({})", one.name, one.address);
        let _ = writeln!(
            out,
            "  {:<18} {:>9} {:>11} {:>9} {:>9} {:>9} {:>9} {:>9} {:>10} {:>8} {:>8}",
            "phase",
            "ops",
            "ops/s",
            "p50 us",
            "p90 us",
            "p99 us",
            "p99.9 us",
            "max us",
            "server us",
            "wake-ups",
            "own us"
        );
        for at in 0..phase_count {
            let middle = middle(one, at);
            let latencies = &middle.all.latencies;
            let _ = write!(
                out,
                "  {:<18} {:>9} {:>11.0} {:>9.0} {:>9.0} {:>9.0} {:>9.0} {:>9.0} {:>10} {:>8} \
                 {:>8.2}",
                middle.all.name,
                middle.operations,
                middle.rate,
                latencies.percentile_us(50.0),
                latencies.percentile_us(90.0),
                latencies.percentile_us(99.0),
                latencies.percentile_us(99.9),
                latencies.max_us(),
                shown(middle.server_us),
                shown(middle.server_wakeups),
                middle.own_us
            );
            if middle.all.errors > 0 || middle.all.lost > 0 {
                let Phase { errors, lost, .. } = middle.all;
                let _ = write!(out, "  {errors} errors, {lost} sessions lost");
            }
            out.push('\n');
        }
        if let Some((resident, peak)) = one.memory {
            let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
            let _ = writeln!(
                out,
                "  memory after the last run: {:.0} MiB resident, {:.0} MiB at most",
                mib(resident),
                mib(peak)
            );
        }
    }
    if let [first, second, ..] = series {
        let _ = writeln!(out, "ratios, {} to {}", second.name, first.name);
        let _ = writeln!(out, "  {:<18} {:>11} {:>13}", "phase", "ops/s", "server CPU/op");
        for at in 0..phase_count {
            let (name, faster, cheaper) = ratios(first, second, at);
            let cheaper = cheaper.map_or("-".to_string(), |it| format!("1/{it:.1}"));
            let _ = writeln!(out, "  {name:<18} {:>11} {cheaper:>13}", format!("{faster:.2}x"));
        }
    }
    out
}

/// How many times faster the first server is in phase `at`, and how many times less CPU it takes;
/// `None` if a CPU figure is not known. Also returns the name of the phase.
fn ratios(first: &Series, second: &Series, at: usize) -> (&'static str, f64, Option<f64>) {
    let pairs: Vec<(&Phase, &Phase)> = first
        .runs
        .iter()
        .zip(&second.runs)
        .filter_map(|(one, other)| phases_of(one).nth(at).zip(phases_of(other).nth(at)))
        .collect();
    let faster: Vec<f64> = pairs.iter().map(|(one, other)| one.rate() / other.rate()).collect();
    let cheaper: Option<Vec<f64>> = pairs
        .iter()
        .map(|(one, other)| Some(other.server_us()? / one.server_us().filter(|us| *us > 0.0)?))
        .collect();
    let name = pairs.first().map_or("", |(one, _)| one.name);
    (name, median(&faster), cheaper.map(|all| median(&all)))
}

/// The figures that P. Hunt published for these numbers of clients, as text.
pub fn published(clients: &[usize]) -> String {
    let mut out = String::from(
        "published by P. Hunt for ZooKeeper 3.2.1 in 2009, on two 4-core Xeons of 2.5 GHz limited \
         to \
         so many cores and one 7200 rpm disk:\nops/s of all clients (clients x 110,000 operations / \
         seconds; the rates in the original are those of the slowest client)\n",
    );
    let _ =
        writeln!(out, "  {:<8} {:>6} {:>12} {:>12}", "clients", "cores", "standalone", "3 servers");
    for row in HUNT.iter().filter(|row| clients.contains(&row.clients)) {
        let (one, three) = row.rates();
        let _ = writeln!(out, "  {:<8} {:>6} {one:>12.0} {three:>12.0}", row.clients, row.cores);
    }
    out.push_str("  (with one client the original's client is the limit, not the server)\n");
    out
}

/// The test in the JSON schema of all results. The null server is the last of `series`.
pub fn test(title: String, shape: &Shape, warm: String, series: &[Series]) -> schema::Test {
    let last = series.len() - 1;
    let id = |place: usize| match place {
        _ if place == last => NULL,
        0 => OURS,
        _ => PEER,
    };
    let systems = series.iter().enumerate().map(|(place, one)| measured(id(place), one, shape));
    schema::Test { title, warm, systems: systems.collect(), ..schema::Test::default() }
}

fn measured(id: &str, series: &Series, shape: &Shape) -> Measured {
    let mut figures = Vec::new();
    let mut latencies = Vec::new();
    let phase_count = series.runs.first().map_or(0, |run| phases_of(run).count());
    for at in 0..phase_count {
        let phases: Vec<&Phase> =
            series.runs.iter().filter_map(|run| phases_of(run).nth(at)).collect();
        figures.extend(figures_of(&phases, shape));
        let all = middle(series, at).all;
        latencies.push(all.latencies.curve(all.name));
    }
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    for (name, bytes) in
        [("VmRSS", series.memory.map(|it| it.0)), ("VmHWM", series.memory.map(|it| it.1))]
    {
        let values = bytes.map(mib).into_iter().collect();
        figures.push(figure(name.to_string(), "MiB", schema::Good::Less, values));
    }
    let trouble = series.runs.iter().map(|run| run.all.errors + run.all.lost).sum();
    Measured { system: id.to_string(), figures, latencies, trouble, ..Measured::default() }
}

fn figure(name: String, unit: &str, good: schema::Good, values: Vec<f64>) -> schema::Figure {
    schema::Figure { name, unit: unit.to_string(), good, values, is_headline: false }
}

/// The figures of one phase, each with a value for each run.
fn figures_of(phases: &[&Phase], shape: &Shape) -> Vec<schema::Figure> {
    use schema::Good::{Less, More, Neither};
    let name = phases.first().map_or("", |phase| phase.name);
    let of = |value: &dyn Fn(&Phase) -> Option<f64>| -> Vec<f64> {
        // If a figure is unknown in one run, it has no value at all: else its values would no
        // longer line up with the rounds.
        let values: Option<Vec<f64>> = phases.iter().map(|phase| value(phase)).collect();
        values.unwrap_or_default()
    };
    let percentile =
        |percent: f64| of(&|phase| Some(phase.latencies.percentile_us(percent) / 1_000.0));
    let rate_is = if shape.rate.is_none() { More } else { Neither };
    let slowest = |phase: &Phase| {
        let slowest_ns = phase.client_ns.iter().max().filter(|ns| **ns > 0)?;
        let each = phase.operations as f64 / phase.client_ns.len() as f64;
        Some(each * 1e9 / *slowest_ns as f64)
    };
    let rate = figure(name.to_string(), "per s", rate_is, of(&|phase| Some(phase.rate())));
    let more =
        |what: &str, unit, good, values| figure(format!("{name}: {what}"), unit, good, values);
    vec![
        schema::Figure { is_headline: true, ..rate },
        more("slowest client", "per s", rate_is, of(&slowest)),
        more("server CPU", "us", Less, of(&|phase| phase.server_us())),
        more("generator CPU", "us", Neither, of(&|phase| Some(phase.own_us()))),
        more("server wake-ups", "", Less, of(&|phase| phase.server_wakeups_each())),
        more("p50", "ms", Less, percentile(50.0)),
        more("p99", "ms", Less, percentile(99.0)),
        more("max", "ms", Less, of(&|phase| Some(phase.latencies.max_us() / 1_000.0))),
        more("operations", "", Neither, of(&|phase| Some(phase.operations as f64))),
        more("errors", "", Neither, of(&|phase| Some(phase.errors as f64))),
        more("sessions lost", "", Neither, of(&|phase| Some(phase.lost as f64))),
    ]
}

#[cfg(test)]
mod tests;
