//! `quorate reproduce etcd`: the performance page of etcd 2.2 (2015). It reads and writes one key
//! by the HTTP API of etcd v2, on three servers, in twenty rows. A second table has the same rows
//! by the gRPC API of etcd v3.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use etcd::pb::etcdserverpb as pb;
use results::schema::{Published, Test};

use super::ReproduceArgs;
use super::session::{CpuUse, Plan, Session, Work};
use crate::measure::comparison::Turn;
use crate::measure::figures::{Block, Figure, Good, of_phase};
use crate::measure::open_files;
use crate::measure::pace::End;
use crate::measure::published::ETCD22_DOUBTS;
use crate::servers::target::Scheme;
use crate::workloads::etcd::client::{Call, PUT, RANGE};
use crate::workloads::etcd::performance::load::{Load, Loop, accept};
use crate::workloads::etcd::v2::{self, At, Op, Row};

/// The number of servers in the document.
const SERVERS: usize = 3;

/// Seconds of a run, and of a run with `--quick`. The document does not say how long its runs took.
const SECONDS: f64 = 3.0;
const QUICK_SECONDS: f64 = 0.3;

const RATE: &str = "requests";
const P90: &str = "p90";
const HEADLINES: [&str; 2] = [RATE, P90];

/// The two tables, one for each API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Api {
    V2,
    V3,
}

/// Runs `quorate reproduce etcd`.
///
/// # Errors
/// Servers do not start, a test fails, or a file cannot be written.
pub fn command(args: &ReproduceArgs) -> anyhow::Result<ExitCode> {
    let makers = args.makers(&["etcd"], &[("etcd", &[]), ("etcd/real-etcd.sh", &[])])?;
    let repeat = args.repeat(6);
    let rows: Vec<(Api, Row)> = [Api::V2, Api::V3]
        .into_iter()
        .flat_map(|api| rows().map(move |row| (api, row)))
        .filter(|(api, row)| args.wants(&format!("{}: {}", api.group(), row.title())))
        .collect();
    anyhow::ensure!(!rows.is_empty(), "--only: no test has that in its title");
    open_files::make_room(rows.iter().map(|(_, row)| row.clients).max().unwrap_or(1))?;
    let mut session = Session::start(Plan {
        workload: "reproduce etcd".to_string(),
        title: "etcd 2.2 performance (2015)".to_string(),
        is_quick: args.quick,
        repeat,
        no_peer: args.no_peer(&makers),
        dir: args.dir.clone(),
        log_dir: args.log_dir.clone(),
        work: (rows.len() * makers.len()) as f64 * f64::from(repeat.all()),
        makers,
        outputs: args.outputs(),
    })?;
    let seconds = if args.quick { QUICK_SECONDS } else { SECONDS };
    describe(&mut session, seconds);
    let measured = measure_all(&mut session, &rows, Duration::from_secs_f64(seconds));
    session.finish_after(measured)
}

/// The rows of a table, in the document's order.
fn rows() -> impl Iterator<Item = Row> {
    let of_op = |op| {
        let leader = [64, 256]
            .into_iter()
            .flat_map(|bytes| [1, 64, 256].map(|clients| (bytes, clients, At::Leader)));
        let all = [64, 256]
            .into_iter()
            .flat_map(|bytes| [64, 256].map(|clients| (bytes, clients, At::All)));
        leader.chain(all).map(move |(bytes, clients, at)| Row { op, bytes, clients, at })
    };
    [Op::Read, Op::Write].into_iter().flat_map(of_op)
}

fn measure_all(session: &mut Session, rows: &[(Api, Row)], time: Duration) -> anyhow::Result<()> {
    let cores = session.results().machine.cores;
    let Some(split) = session.split(cores) else { return Ok(()) };
    let site = session.start_servers(Scheme::Etcd2, SERVERS, split)?;
    for (api, row) in rows {
        let work = Work {
            test: test(*api, *row),
            what: format!("{:.1} s", time.as_secs_f64()),
            units: 1.0,
            headlines: &HEADLINES,
            cpu: Some(CpuUse::FIRST_RATE),
        };
        let goes_on = session.measure(&site, work, |turn| match api {
            Api::V2 => v2::measure(turn, *row, time),
            Api::V3 => measure_v3(turn, *row, time),
        })?;
        if !goes_on {
            break;
        }
    }
    Ok(())
}

fn test(api: Api, row: Row) -> Test {
    let of = |figure: &str, value: &str, unit: &str| Published {
        figure: figure.to_string(),
        value: value.parse().ok(),
        text: format!("{value} {unit}"),
    };
    let published = row.of_document().map_or_else(Vec::new, |(rate, p90_ms)| {
        vec![of(RATE, rate, "per s"), of(P90, p90_ms, "ms")]
    });
    let mut remarks = Vec::new();
    if row.at == At::All && row.op == Op::Read {
        remarks.push(
            "the document read at one server after the other and added the rates up; each had a \
             machine of its own"
                .to_string(),
        );
    }
    if row.clients == 1 && row.op == Op::Write {
        let why = "a write of one client waits for the disks and the network of its time";
        remarks.push(why.to_string());
    }
    let published = match api {
        Api::V2 => published,
        // The document has no figures for v3.
        Api::V3 => Vec::new(),
    };
    Test {
        group: api.group().to_string(),
        title: row.title(),
        published,
        remarks,
        ..Test::default()
    }
}

impl Api {
    fn group(self) -> &'static str {
        match self {
            Api::V2 => "etcd v2, HTTP",
            Api::V3 => "etcd v3, gRPC",
        }
    }
}

/// Measures a row by etcd v3. Its reads are linearizable; a v2 read is answered by the server that
/// gets it, from its own state.
fn measure_v3(turn: &Turn<'_>, row: Row, time: Duration) -> anyhow::Result<Block> {
    let mut block = turn.target.block();
    let key = format!("bench{}", row.bytes);
    let value = "x".repeat(row.bytes);
    let put = pb::PutRequest {
        key: key.clone().into(),
        value: value.into(),
        ..pb::PutRequest::default()
    };
    let range = pb::RangeRequest { key: key.into(), ..pb::RangeRequest::default() };
    let put = Call::new(PUT, &put)?;
    let call = match row.op {
        Op::Read => Call::new(RANGE, &range)?,
        Op::Write => put.clone(),
    };
    let mut load = Load::connect(&row.addresses(turn.target)?, row.clients)?;
    // A read row needs the key, too.
    let made = load.run(turn.target, &[put], Loop::closed(1, 1), accept)?.phase("making the key");
    block.blame(&made);
    let end = End::at(Instant::now() + time);
    let how = Loop { clients: row.clients, end, rate: None };
    let phase = load.run(turn.target, &[call], how, accept)?.phase("requests");
    block.blame(&phase);
    let names = [RATE, "server CPU per request", "generator CPU per request"];
    block.figures.extend(of_phase(names, &phase));
    for (name, percent) in [("p50", 50.0), (P90, 90.0), ("p99", 99.0)] {
        let ms = phase.latencies.percentile_us(percent) / 1_000.0;
        block.figures.push(Figure::once(name, "ms", ms, Good::Less));
    }
    block.latencies.push(("requests", phase.latencies.clone()));
    Ok(block)
}

fn describe(session: &mut Session, seconds: f64) {
    session.results().about = vec![
        format!(
            "GET and PUT of one key, values of 64 and 256 bytes; each client has a connection of its \
             own and sends its next request when the one before is answered, for {seconds} s a run"
        ),
        "three servers, all on this machine; \"all servers\": the clients are spread over them"
            .to_string(),
        "the second table is the same by etcd v3, whose reads are linearizable; the document has no \
         v3"
            .to_string(),
    ];
    session.results().deviations = vec![
        "servers and generator share all cores of one machine; in the document each had its own"
            .to_string(),
        "the document does not say how long a row took, nor how its servers were configured"
            .to_string(),
        "etcd 2.2 cannot be built any more: the real server is a later one that still serves v2"
            .to_string(),
    ];
    session.results().traps = ETCD22_DOUBTS.map(str::to_string).to_vec();
    session.results().traps.push(
        "the percents in brackets in the document are those of etcd 2.1, and are not shown"
            .to_string(),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_its_published_figures() {
        let tests: Vec<Test> = rows().map(|row| test(Api::V2, row)).collect();
        assert_eq!(tests.len(), 20);
        assert!(tests.iter().all(|test| test.published.len() == 2));
        let sum: f64 = tests.iter().filter_map(|test| test.published[0].value).sum();
        // All rates of the document added up.
        assert_eq!(sum, 308_615.0);
        assert!(rows().map(|row| test(Api::V3, row)).all(|test| test.published.is_empty()));
    }
}
