//! The workload `etcd2`: the table of etcd 2.2's performance page. Clients read or write one key by
//! the HTTP API of etcd v2, with two sizes of values, several numbers of clients, and connections
//! to the leader alone or to all servers.
//!
//! As in the document's generator `boom` (now `hey`), each client has its own connection, all use
//! the same key, and each sends its next request when the one before is answered. [`ETCD22_DOUBTS`]
//! lists what the document's script did differently.

pub mod load;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::ensure;
use clap::{Args, ValueEnum};

use crate::limits::{CLIENTS_MAX, ETCD_VALUE_BYTES_MAX};
use crate::measure::comparison::{Comparison, Rounds, Turn, Where};
use crate::measure::figures::{Block, Figure, Good, of_phase};
use crate::measure::open_files;
use crate::measure::published::{ETCD22, ETCD22_DOUBTS};
use crate::servers::target::{Scheme, Target};
use load::Load;

/// Options of `quorate bench etcd2`.
#[derive(Debug, Args)]
#[command(
    mut_arg("target", |it| it.value_name("etcd2://HOST:PORT[,...]")),
    mut_arg("compare", |it| it.value_name("etcd2://HOST:PORT[,...]"))
)]
pub struct Etcd2Args {
    #[command(flatten)]
    at: Where,
    #[command(flatten)]
    repeat: Rounds,
    /// The requests
    #[arg(long, value_name = "OP,...", value_delimiter = ',', default_value = "read,write")]
    op: Vec<Op>,
    /// Bytes of the value
    #[arg(long, value_name = "BYTES,...", value_delimiter = ',', default_value = "64,256")]
    size: Vec<usize>,
    /// Clients, each with a connection
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,64,256")]
    clients: Vec<usize>,
    /// Where the clients connect: to the leader alone, or to all servers in turn
    #[arg(long, value_name = "WHERE,...", value_delimiter = ',', default_value = "leader,all")]
    servers: Vec<At>,
    /// Seconds of one run
    #[arg(long, value_name = "S", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
}

/// The kind of request in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Op {
    /// GET of a key
    Read,
    /// PUT of a key
    Write,
}

/// The servers that the clients of a row connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum At {
    /// To the leader alone
    Leader,
    /// To all servers in turn
    All,
}

/// One row of the table: one test.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The kind of request.
    pub op: Op,
    /// Bytes of the value.
    pub bytes: usize,
    /// The number of clients, each with its own connection.
    pub clients: usize,
    /// The servers that they connect to.
    pub at: At,
}

/// Runs `quorate bench etcd2` and prints the results.
///
/// # Errors
/// An option is wrong, a target does not answer or does not serve etcd v2, or a file cannot be
/// written.
pub fn command(args: &Etcd2Args) -> anyhow::Result<ExitCode> {
    for clients in &args.clients {
        ensure!(
            (1..=CLIENTS_MAX).contains(clients),
            "--clients: {clients} is not in 1..={CLIENTS_MAX}"
        );
    }
    for size in &args.size {
        let max = ETCD_VALUE_BYTES_MAX as usize;
        ensure!((1..=max).contains(size), "--size: {size} is not in 1..={max}");
    }
    open_files::make_room(args.clients.iter().copied().max().unwrap_or(1))?;
    let about = format!(
        "one key, each client with a connection of its own, closed loop for {} s",
        args.seconds
    );
    let mut comparison = Comparison::start_on(Scheme::Etcd2, &args.at, "etcd2", &about)?;
    let is_published = comparison.targets()[0].addresses.len() == 3;
    if is_published {
        ETCD22_DOUBTS.iter().for_each(|doubt| println!("{doubt}"));
    }
    for row in rows(args, &comparison.targets()[0]) {
        let published = if is_published { row.published() } else { Vec::new() };
        comparison.begin(row.title(), published);
        let (time, work) = (Duration::from_secs(args.seconds), format!("{} s", args.seconds));
        comparison.measure(&args.repeat, &work, |turn| measure(turn, row, time))?;
    }
    comparison.finish()
}

/// The rows that the options ask for, in the document's order.
fn rows(args: &Etcd2Args, target: &Target) -> Vec<Row> {
    let mut rows = Vec::new();
    for &op in &args.op {
        for &at in &args.servers {
            for &bytes in &args.size {
                for &clients in &args.clients {
                    // With one server or one client, "all servers" is the same as the leader.
                    if at == At::Leader || (clients > 1 && target.addresses.len() > 1) {
                        rows.push(Row { op, bytes, clients, at });
                    }
                }
            }
        }
    }
    rows
}

impl Row {
    /// Describes the row.
    pub fn title(self) -> String {
        let Row { op, bytes, clients, at } = self;
        let op = if op == Op::Read { "read" } else { "write" };
        let at = if at == At::Leader { "the leader" } else { "all servers" };
        let s = if clients == 1 { "" } else { "s" };
        format!("{op}, {bytes} bytes, {clients} client{s}, {at}")
    }

    /// The document's figures for the row: requests a second, and the 90th percentile in ms. `None`
    /// if the document has no such row.
    pub fn of_document(self) -> Option<(&'static str, &'static str)> {
        let is_row = |row: &&crate::measure::published::Etcd22Row| {
            row.is_write == (self.op == Op::Write)
                && (row.bytes, row.clients) == (self.bytes, self.clients)
                && row.is_at_all == (self.at == At::All)
        };
        ETCD22.iter().find(is_row).map(|row| (row.rate, row.p90_ms))
    }

    fn published(self) -> Vec<String> {
        let found = self.of_document();
        found.map(|(rate, p90_ms)| format!("{rate} per s, p90 {p90_ms} ms")).into_iter().collect()
    }

    /// The addresses that the row's clients connect to.
    ///
    /// # Errors
    /// No server reports that it leads.
    pub fn addresses(self, target: &Target) -> anyhow::Result<Vec<SocketAddr>> {
        match self.at {
            At::All => Ok(target.addresses.clone()),
            At::Leader => Ok(vec![leader(&target.addresses)?]),
        }
    }

    fn path(self) -> String {
        format!("/v2/keys/bench{}", self.bytes)
    }

    fn put(self) -> Vec<u8> {
        load::put(&self.path(), &"x".repeat(self.bytes))
    }
}

/// Runs one row on one target.
///
/// # Errors
/// No server leads, or a server does not answer.
pub fn measure(turn: &Turn<'_>, row: Row, time: Duration) -> anyhow::Result<Block> {
    let mut block = turn.target.block();
    let addresses = row.addresses(turn.target)?;
    // A read row needs the key, too.
    load::ask(addresses[0], &row.put())?;
    let request = match row.op {
        Op::Read => load::get(&row.path()),
        Op::Write => row.put(),
    };
    turn.say(&row.title());
    let mut load = Load::connect(&addresses, row.clients)?;
    let phase = load.run(turn.target, &request, time)?;
    block.blame(&phase);
    let names = ["requests", "server CPU per request", "generator CPU per request"];
    block.figures.extend(of_phase(names, &phase));
    block.latencies.push(("requests", phase.latencies.clone()));
    for (name, percent) in [("p50", 50.0), ("p90", 90.0), ("p99", 99.0)] {
        let ms = phase.latencies.percentile_us(percent) / 1_000.0;
        block.figures.push(Figure::once(name, "ms", ms, Good::Less));
    }
    let resident = turn.target.memory().map(|memory| memory.resident as f64 / f64::from(1 << 20));
    block.figures.push(Figure::once("VmRSS", "MiB", resident, Good::Less));
    Ok(block)
}

/// The address of the server that reports that it leads.
fn leader(addresses: &[SocketAddr]) -> anyhow::Result<SocketAddr> {
    if let [only] = addresses {
        return Ok(*only);
    }
    for address in addresses {
        let (_, body) = load::ask(*address, &load::get("/v2/stats/self"))?;
        let state: serde_json::Value = serde_json::from_slice(&body)?;
        if state["state"] == "StateLeader" {
            return Ok(*address);
        }
    }
    anyhow::bail!("no server says that it leads")
}

#[cfg(test)]
mod tests;
