//! The workload `etcd`: requests to etcd's services KV and Lease. It has the rows of etcd's
//! performance page (puts, linearizable and serializable reads), and also transactions and
//! keep-alives of leases, in closed or in open loop.
//!
//! In closed loop each client sends its next request when the one before is answered. In open loop
//! each request has a due time, and latency counts from it; the number of clients then limits how
//! many requests are under way. Clients share the connections. Requests are encoded before the
//! clock starts. Keys are numbers of a fixed length, and stay on the server after a run.

pub mod compaction;
pub mod failover;
pub mod load;
pub mod restart;
pub mod watch;

use std::process::ExitCode;

use anyhow::ensure;
use bytes::Bytes;
use clap::{Args, ValueEnum};
use etcd::pb::etcdserverpb as pb;
use pb::request_op::Request;

use crate::limits::{
    CLIENTS_MAX, ETCD_KEYS_MAX, ETCD_MIXED_KEYS, ETCD_VALUE_BYTES_MAX, ITEMS_MAX, RATE_MAX,
};
use crate::measure::comparison::{Comparison, Rounds, Turn, Where};
use crate::measure::figures::{Block, Figure, Good, of_phase};
use crate::measure::open_files;
use crate::measure::pace::End;
use crate::measure::stats::Latencies;
use crate::random::Random;
use crate::servers::target::Scheme;
use crate::workloads::etcd::client::{Call, LEASE_GRANT, LEASE_KEEP_ALIVE, PUT, RANGE, TXN};
use load::{Load, Loop, accept};

/// The time to live of the leases, seconds: longer than a run.
const LEASE_TTL_S: i64 = 3_600;

/// Options of `quorate bench etcd`.
#[derive(Debug, Args)]
#[command(
    mut_arg("target", |it| it.value_name("etcd://HOST:PORT[,...]")),
    mut_arg("compare", |it| it.value_name("etcd://HOST:PORT[,...]"))
)]
pub struct EtcdArgs {
    #[command(flatten)]
    at: Where,
    #[command(flatten)]
    repeat: Rounds,
    /// The requests; several kinds are several tests
    #[arg(long, value_name = "OP,...", value_delimiter = ',', default_value = "put,range")]
    op: Vec<Op>,
    /// Requests under way at once; with --rate no more than so many
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    clients: usize,
    /// Connections, which the clients share
    #[arg(long, value_name = "N", default_value_t = 100)]
    connections: usize,
    /// Requests of one run
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    requests: u64,
    /// Open loop: requests a second, all clients together [default: closed loop]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=RATE_MAX))]
    rate: Option<u64>,
    /// Keys that are written and read in turn
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    keys: u64,
    /// Bytes of a key
    #[arg(long, value_name = "BYTES", default_value_t = 8)]
    key_size: usize,
    /// Bytes of a value
    #[arg(long, value_name = "BYTES", default_value_t = 256)]
    value_size: usize,
}

/// The kind of request in a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Op {
    /// Put
    Put,
    /// Linearizable read of one key
    Range,
    /// Read of one key that the member answers from its own state
    SerializableRange,
    /// Transaction with one put
    TxnPut,
    /// In turn a transaction with a read of ten keys, and one with a put
    TxnMixed,
    /// Keep-alive of a lease, on a stream of its own; --keys is the number of leases
    LeaseKeepalive,
}

/// Runs `quorate bench etcd` and prints the results.
///
/// # Errors
/// An option is wrong, a target does not answer, or a file cannot be written.
pub fn command(args: &EtcdArgs) -> anyhow::Result<ExitCode> {
    check(args)?;
    open_files::make_room(args.connections)?;
    let EtcdArgs { clients, connections, requests, keys, .. } = args;
    let loop_ = match args.rate {
        Some(rate) => format!("open loop at {rate} per s, latency from the intended start"),
        None => "closed loop, latency from the write to the connection".to_string(),
    };
    let about = format!(
        "{clients} clients on {connections} connections, {requests} requests, {keys} keys of {} \
         bytes with values of {} bytes; {loop_}",
        args.key_size, args.value_size
    );
    let mut comparison = Comparison::start_on(Scheme::Etcd, &args.at, "etcd", &about)?;
    for op in &args.op {
        comparison.begin(op.title().to_string(), Vec::new());
        let work = format!("{requests} requests");
        comparison.measure(&args.repeat, &work, |turn| measure(turn, args, *op))?;
    }
    comparison.finish()
}

fn check(args: &EtcdArgs) -> anyhow::Result<()> {
    for (name, number, max) in [
        ("clients", args.clients as u64, CLIENTS_MAX as u64),
        ("connections", args.connections as u64, CLIENTS_MAX as u64),
        ("requests", args.requests, ITEMS_MAX),
        ("keys", args.keys, ETCD_KEYS_MAX),
        ("key-size", args.key_size as u64, ETCD_VALUE_BYTES_MAX),
    ] {
        ensure!((1..=max).contains(&number), "--{name}: {number} is not in 1..={max}");
    }
    let (size, max) = (args.value_size as u64, ETCD_VALUE_BYTES_MAX);
    ensure!(size <= max, "--value-size: {size} is more than {max}");
    let digits = (args.keys - 1).max(1).ilog10() as usize + 1;
    ensure!(args.key_size >= digits, "--key-size: {} keys need {digits} bytes", args.keys);
    Ok(())
}

/// Runs one test on one target.
fn measure(turn: &Turn<'_>, args: &EtcdArgs, op: Op) -> anyhow::Result<Block> {
    let keys = Keys { count: args.keys, bytes: args.key_size, value_bytes: args.value_size };
    let mut block = turn.target.block();
    let mut load = Load::connect(&turn.target.addresses, args.connections)?;
    if op == Op::LeaseKeepalive {
        turn.say("granting the leases");
        // Leases that an earlier run has granted serve as well, so errors do not matter.
        load.run(turn.target, &keys.grants()?, Loop::closed(args.clients, args.keys), accept)?;
    }
    if op.reads() {
        turn.say("making the keys");
        let calls = keys.calls(Op::Put)?;
        let fill = load.run(turn.target, &calls, Loop::closed(args.clients, args.keys), accept)?;
        block.blame(&fill.phase("filling"));
    }
    turn.say(op.title());
    let calls = keys.calls(op)?;
    let end = End::Requests(args.requests);
    let how = Loop { clients: args.clients, end, rate: args.rate };
    let done =
        load.run(turn.target, &calls, how, move |number, body| op.is_answered_by(number, body))?;
    let phase = done.phase(op.title());
    block.blame(&phase);
    block.figures.push(Figure::once("time", "s", phase.seconds(), Good::Neither));
    let names = ["requests", "server CPU per request", "generator CPU per request"];
    let [rate, server_cpu, own_cpu] = of_phase(names, &phase);
    let rate = if args.rate.is_some() { rate.of_open_loop() } else { rate };
    block.figures.extend([rate, server_cpu, own_cpu]);
    match op {
        Op::TxnMixed => {
            let [reads, writes] = &done.tallies;
            let names = ["read p50", "read p90", "read p99", "read p99.9", "read max"];
            block.figures.extend(spread(names, &reads.latencies));
            let names = ["put p50", "put p90", "put p99", "put p99.9", "put max"];
            block.figures.extend(spread(names, &writes.latencies));
        }
        _ => {
            block.figures.extend(spread(["p50", "p90", "p99", "p99.9", "max"], &phase.latencies));
        }
    }
    let resident = turn.target.memory().map(|memory| memory.resident as f64 / f64::from(1 << 20));
    block.figures.push(Figure::once("VmRSS", "MiB", resident, Good::Less));
    Ok(block)
}

fn spread(names: [&'static str; 5], latencies: &Latencies) -> [Figure; 5] {
    let us = [50.0, 90.0, 99.0, 99.9].map(|percent| latencies.percentile_us(percent));
    let [p50, p90, p99, p999] = us;
    let all = [p50, p90, p99, p999, latencies.max_us()];
    core::array::from_fn(|at| Figure::once(names[at], "ms", all[at] / 1_000.0, Good::Less))
}

/// The keys of a test. The value of each is random bytes, the same in each run.
struct Keys {
    count: u64,
    bytes: usize,
    value_bytes: usize,
}

impl Keys {
    /// The key with this number. A number past the last one gives a key that sorts after all
    /// others.
    fn key(&self, number: u64) -> Bytes {
        let Keys { count, bytes, .. } = self;
        if number < *count { format!("{number:0bytes$}").into() } else { ":".into() }
    }

    /// The requests that grant the leases, whose ids count from 1.
    fn grants(&self) -> anyhow::Result<Vec<Call>> {
        let grant = |id| pb::LeaseGrantRequest { id, ttl: LEASE_TTL_S };
        (1..=self.count as i64).map(|id| Call::new(LEASE_GRANT, &grant(id))).collect()
    }

    /// The requests of a test; they are sent in turn.
    fn calls(&self, op: Op) -> anyhow::Result<Vec<Call>> {
        let put = |number| {
            let value = Random::new(number).bytes(self.value_bytes).into();
            pb::PutRequest { key: self.key(number), value, ..Default::default() }
        };
        let txn = |request| {
            let success = vec![pb::RequestOp { request: Some(request) }];
            Call::new(TXN, &pb::TxnRequest { success, ..Default::default() })
        };
        let range = |number| pb::RangeRequest { key: self.key(number), ..Default::default() };
        let mut calls = Vec::new();
        for number in 0..self.count {
            let call = match op {
                Op::Put => Call::new(PUT, &put(number))?,
                Op::Range => Call::new(RANGE, &range(number))?,
                Op::SerializableRange => {
                    Call::new(RANGE, &pb::RangeRequest { serializable: true, ..range(number) })?
                }
                Op::TxnPut => txn(Request::RequestPut(put(number)))?,
                Op::LeaseKeepalive => {
                    let id = number as i64 + 1;
                    Call::new(LEASE_KEEP_ALIVE, &pb::LeaseKeepAliveRequest { id })?
                }
                Op::TxnMixed => {
                    let range_end = self.key(number + ETCD_MIXED_KEYS);
                    let read = pb::RangeRequest { range_end, ..range(number) };
                    calls.push(txn(Request::RequestRange(read))?);
                    txn(Request::RequestPut(put(number)))?
                }
            };
            calls.push(call);
        }
        Ok(calls)
    }
}

impl Op {
    fn title(self) -> &'static str {
        match self {
            Op::Put => "put",
            Op::Range => "range",
            Op::SerializableRange => "serializable range",
            Op::TxnPut => "txn with a put",
            Op::TxnMixed => "txns with a read of ten keys, and with a put",
            Op::LeaseKeepalive => "lease keep-alive",
        }
    }

    /// Whether the keys must exist before the test.
    fn reads(self) -> bool {
        matches!(self, Op::Range | Op::SerializableRange | Op::TxnMixed)
    }

    /// Whether a response is what request `number` must get.
    fn is_answered_by(self, number: u64, body: Bytes) -> bool {
        use etcd::pb::Message;
        match self {
            Op::Put => !body.is_empty(),
            Op::Range | Op::SerializableRange => {
                pb::RangeResponse::decode(body).is_ok_and(|it| it.kvs.len() == 1)
            }
            Op::LeaseKeepalive => {
                pb::LeaseKeepAliveResponse::decode(body).is_ok_and(|it| it.ttl > 0)
            }
            Op::TxnPut | Op::TxnMixed => pb::TxnResponse::decode(body).is_ok_and(|it| {
                let [only] = it.responses.as_slice() else { return false };
                let is_read = self == Op::TxnMixed && number.is_multiple_of(2);
                match &only.response {
                    Some(pb::response_op::Response::ResponseRange(it)) => {
                        is_read && !it.kvs.is_empty()
                    }
                    Some(pb::response_op::Response::ResponsePut(_)) => !is_read,
                    _ => false,
                }
            }),
        }
    }
}

#[cfg(test)]
mod tests;
