//! The workload `mixed`: ZooKeeper's and etcd's clients on the same server or ensemble. Each round
//! has three phases, in turn: each protocol's clients alone, and both at once. A figure of the
//! third phase divided by that of a protocol's own phase shows what the protocol loses beside the
//! other one.
//!
//! In open loop each protocol has its own rate, which is the same alone and beside the other
//! protocol. In closed loop clients get the rate that the servers allow; beside the other protocol,
//! half of the rate alone is a fair share.

use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::ensure;
use bytes::Bytes;
use clap::Args;
use etcd::pb::{Message, etcdserverpb as pb};
use results::schema;

use crate::limits::{
    CLIENTS_MAX, ETCD_VALUE_BYTES_MAX, MIXED_KEYS_MAX, RATE_MAX, SECONDS_MAX, SESSION_TIMEOUT_MS,
    TREE_CLIENTS,
};
use crate::measure::comparison::{Progress, Rounds, Servers, Stolen, Where};
use crate::measure::driver::Driver;
use crate::measure::figures::{self, Block, Figure, Good, of_latencies};
use crate::measure::meter::Done;
use crate::measure::open_files;
use crate::measure::pace::End;
use crate::measure::record::OURS;
use crate::measure::stats::Phase;
use crate::random::Random;
use crate::servers::process::Processes;
use crate::servers::target::{Scheme, Target, TargetAddress};
use crate::workloads::etcd::client::{
    COMPACT, Call, DELETE_RANGE, EtcdClient, PUT, RANGE, runtime,
};
use crate::workloads::etcd::performance::load::{Load, Loop};
use crate::workloads::zk::tree::traffic::{self, Plan};
use crate::workloads::zk::tree::{Tree, TreeArgs};

/// Options of `quorate bench mixed`.
#[derive(Debug, Args)]
#[command(mut_arg("rounds", |it| it.default_value("6")))]
pub struct MixedArgs {
    /// The servers, where ZooKeeper's clients connect
    #[arg(long, value_name = "zk://HOST:PORT[,...]")]
    target: TargetAddress,
    /// Addresses of the same servers for etcd's clients
    #[arg(long, value_name = "etcd://HOST:PORT[,...]")]
    etcd: TargetAddress,
    #[command(flatten)]
    repeat: Rounds,
    /// Closed loop: each client sends its next request when the one before is answered
    #[arg(long, conflicts_with_all = ["zk_rate", "etcd_rate"])]
    closed: bool,
    /// Sets and reads a second of ZooKeeper's clients, in turn, all sessions together
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(1..=RATE_MAX))]
    zk_rate: u64,
    /// Puts and reads a second of etcd's clients, in turn, all clients together
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(1..=RATE_MAX))]
    etcd_rate: u64,
    /// Sessions of ZooKeeper's clients
    #[arg(long, value_name = "N", default_value_t = 50)]
    zk_clients: usize,
    /// Requests of etcd's clients under way at once; in open loop no more than so many
    #[arg(long, value_name = "N", default_value_t = 50)]
    etcd_clients: usize,
    /// Connections, which etcd's clients share
    #[arg(long, value_name = "N", default_value_t = 10)]
    etcd_connections: usize,
    /// Znodes, and keys
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    keys: usize,
    /// Bytes of a znode's data, and of a value
    #[arg(long, value_name = "BYTES", default_value_t = 256)]
    value_size: usize,
    /// How long each phase takes
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    seconds: u64,
    /// Measure how long fdatasync takes in this folder, which should be on the servers' disk
    #[arg(long, value_name = "DIR")]
    disk: Option<PathBuf>,
    /// Write all figures to a file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl MixedArgs {
    fn check(&self) -> anyhow::Result<()> {
        for (name, number, max) in [
            ("zk-clients", self.zk_clients, CLIENTS_MAX),
            ("etcd-clients", self.etcd_clients, CLIENTS_MAX),
            ("etcd-connections", self.etcd_connections, CLIENTS_MAX),
            ("keys", self.keys, MIXED_KEYS_MAX),
            ("value-size", self.value_size, ETCD_VALUE_BYTES_MAX as usize),
        ] {
            ensure!((1..=max).contains(&number), "--{name}: {number} is not in 1..={max}");
        }
        open_files::make_room(self.zk_clients + self.etcd_connections)
    }

    fn about(&self) -> String {
        let MixedArgs { zk_clients, etcd_clients, etcd_connections, .. } = self;
        let MixedArgs { keys, value_size, seconds, .. } = self;
        let how = match self.closed {
            true => "closed loop, latency from the write".to_string(),
            false => format!(
                "open loop at {} and {} per s, latency from the intended start",
                self.zk_rate, self.etcd_rate
            ),
        };
        format!(
            "sets and reads of {zk_clients} ZooKeeper sessions, puts and reads of {etcd_clients} \
             etcd clients on {etcd_connections} connections, {keys} znodes and keys of \
             {value_size} bytes; {how}; {seconds} s of each alone and of both, in turn"
        )
    }

    fn rate(&self, of_protocol: u64) -> Option<u64> {
        (!self.closed).then_some(of_protocol)
    }
}

/// A phase of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    ZkAlone,
    EtcdAlone,
    Both,
}

impl Part {
    const ALL: [Part; 3] = [Part::ZkAlone, Part::EtcdAlone, Part::Both];

    fn title(self) -> &'static str {
        match self {
            Part::ZkAlone => "ZooKeeper's clients alone",
            Part::EtcdAlone => "etcd's clients alone",
            Part::Both => "both",
        }
    }
}

/// The names of one protocol's figures.
struct Names {
    requests: &'static str,
    /// The names of latencies: those of writes, then those of reads.
    latencies: [[&'static str; 3]; 2],
}

const ZK: Names = Names {
    requests: "ZooKeeper requests",
    latencies: [["set p50", "set p99", "set max"], ["get p50", "get p99", "get max"]],
};

const ETCD: Names = Names {
    requests: "etcd requests",
    latencies: [["put p50", "put p99", "put max"], ["range p50", "range p99", "range max"]],
};

/// The name of the figure with the servers' CPU.
const SERVER_CPU: &str = "server CPU per request";

/// Runs `quorate bench mixed` and prints the results.
///
/// # Errors
/// An option is wrong, the servers do not answer, or a file cannot be written.
pub fn command(args: &MixedArgs) -> anyhow::Result<ExitCode> {
    args.check()?;
    args.etcd.check_scheme(Scheme::Etcd)?;
    let (target, disk) = (args.target.clone(), args.disk.clone());
    let at = Where { target, compare: None, disk, json: args.json.clone() };
    let mut zk = at.targets(Scheme::Zk)?;
    let etcd = Target::find(&args.etcd)?;
    check_same(zk[0].processes(), etcd.processes())?;
    let (record, header) = at.start_record("mixed")?;
    let about = format!("{header}mixed: {}\n", args.about());
    print!("{about}");
    let warm = args.repeat.warm_line(&format!("{} s of each", args.seconds), &zk);
    let servers = Servers::start(&at, (record, &about), zk.clone());
    let stolen = Stolen::start();
    let progress = Progress::start(0);
    progress.say("making the znodes and the keys");
    let test = Test::prepare(args, zk.remove(0), etcd)?;
    let turn = |place: usize, round| {
        let part = Part::ALL[place];
        progress.say(&format!("{}: {}", args.repeat.round_name(round), part.title()));
        test.measure(part)
    };
    let width = |rounds: &[Vec<Block>]| {
        let blocks: Vec<Block> = rounds.iter().cloned().map(Block::from_rounds).collect();
        width_of(&quotients(&blocks, args.closed), args.closed)
    };
    let measured = args.repeat.take_turns_until(Part::ALL.len(), turn, width);
    progress.end();
    stolen.print();
    let (removed, measured) = (test.remove(), measured?);
    removed?;
    let (rounds, until) = measured;
    let mut blocks: Vec<Block> = rounds.into_iter().map(Block::from_rounds).collect();
    blocks.push(quotients(&blocks, args.closed));
    println!("\n{warm}");
    for block in &blocks {
        print!("{}", figures::table(core::slice::from_ref(block)));
    }
    until.iter().for_each(|line| println!("{line}"));
    let trouble = blocks.iter().map(|block| block.trouble).sum();
    let test = |block: &Block| schema::Test {
        remarks: until.iter().cloned().collect(),
        title: block.name.clone(),
        warm: warm.clone(),
        systems: vec![block.of_comparison(OURS)],
        ..schema::Test::default()
    };
    servers.finish(blocks.iter().map(test).collect(), trouble)
}

/// Refuses two targets that are not the same processes of this machine.
fn check_same(zk: Option<&Processes>, etcd: Option<&Processes>) -> anyhow::Result<()> {
    ensure!(
        zk == etcd,
        "--target and --etcd must be the same servers: name every member in both of them"
    );
    Ok(())
}

/// The servers, with the znodes and keys of the test.
struct Test<'a> {
    args: &'a MixedArgs,
    zk: Target,
    etcd: Target,
    tree: Tree,
    /// For each key in turn a put, then a read.
    calls: Vec<Call>,
    prefix: String,
}

impl<'a> Test<'a> {
    fn prepare(args: &'a MixedArgs, zk: Target, etcd: Target) -> anyhow::Result<Test<'a>> {
        let (size, clients) = (args.value_size, TREE_CLIENTS);
        let shape = TreeArgs { parents: 1, children: args.keys, size, clients, keep: false };
        let label = std::process::id().to_string();
        let mut tree = Tree::new(&shape, &label);
        let mut driver = Driver::connect(&zk.addresses, clients, SESSION_TIMEOUT_MS)?;
        let made = tree.make(&mut driver, &zk)?;
        driver.close();
        let prefix = format!("mixed-{label}/");
        let calls = calls(&prefix, args.keys, args.value_size)?;
        let mut load = Load::connect(&etcd.addresses, args.etcd_connections)?;
        let count = (args.etcd_clients, args.keys as u64);
        let put = load.fill(&etcd, count, |number| Ok(calls[2 * number as usize].clone()))?;
        ensure!(made.errors + put.errors == 0, "the znodes and the keys cannot be made");
        Ok(Test { args, zk, etcd, tree, calls, prefix })
    }

    /// Runs one phase.
    fn measure(&self, part: Part) -> anyhow::Result<Block> {
        let args = self.args;
        let has_zk = part != Part::EtcdAlone;
        let connect = || Driver::connect(&self.zk.addresses, args.zk_clients, SESSION_TIMEOUT_MS);
        let mut driver = has_zk.then(connect).transpose()?;
        let has_etcd = part != Part::ZkAlone;
        let connect = || Load::connect(&self.etcd.addresses, args.etcd_connections);
        let mut load = has_etcd.then(connect).transpose()?;

        let end = End::at(Instant::now() + Duration::from_secs(args.seconds));
        let plan = Plan { rate: args.rate(args.zk_rate), end: end.clone(), has_reads: true };
        let how = Loop { clients: args.etcd_clients, end, rate: args.rate(args.etcd_rate) };
        let server_cpu_ns = self.zk.cpu_ns();
        let (zk, etcd) = thread::scope(|scope| {
            let zk = driver
                .as_mut()
                .map(|driver| scope.spawn(|| traffic::run(driver, &self.zk, &self.tree, plan)));
            let etcd = load
                .as_mut()
                .map(|load| scope.spawn(|| load.run(&self.etcd, &self.calls, how, is_answered)));
            let zk = zk.map(|it| it.join().expect("the thread does not panic"));
            (zk, etcd.map(|it| it.join().expect("the thread does not panic")))
        });
        let server_cpu_ns =
            self.zk.cpu_ns().zip(server_cpu_ns).map(|(after, before)| after - before);
        if let Some(driver) = driver {
            driver.close();
        }
        if has_etcd {
            self.compact()?;
        }
        let zk = zk.transpose()?.map(|(done, _)| (ZK, done));
        let dones = zk.into_iter().chain(etcd.transpose()?.map(|done| (ETCD, done)));
        Ok(self.block(part, server_cpu_ns, dones))
    }

    fn block(
        &self,
        part: Part,
        server_cpu_ns: Option<u64>,
        dones: impl Iterator<Item = (Names, Done)>,
    ) -> Block {
        let name = part.title().to_string();
        let address = format!("{} {}", self.zk.address, self.etcd.address);
        let mut block = Block { name, address, ..Block::default() };
        let mut all = Phase { server_cpu_ns, ..Phase::default() };
        for (names, done) in dones {
            let phase = done.phase(names.requests);
            block.blame(&phase);
            all.operations += phase.operations;
            all.own_cpu_ns += phase.own_cpu_ns;
            block.figures.push(Figure::once(names.requests, "per s", phase.rate(), Good::More));
            for (names, tally) in names.latencies.into_iter().zip(&done.tallies) {
                block.figures.extend(of_latencies(names, &tally.latencies, Good::Less));
            }
        }
        block.figures.push(Figure::once(SERVER_CPU, "us", all.server_us(), Good::Less));
        let own = Figure::once("generator CPU per request", "us", all.own_us(), Good::Neither);
        block.figures.push(own);
        block
    }

    /// Compacts all revisions but the newest of each key, so that all phases start from the same
    /// state.
    fn compact(&self) -> anyhow::Result<()> {
        let Test { etcd, prefix, .. } = self;
        runtime()?.block_on(async {
            let mut client = EtcdClient::connect(etcd.addresses[0]).await?;
            let range = pb::RangeRequest { key: key(prefix, 0), ..Default::default() };
            let read: pb::RangeResponse = client.demand(RANGE, &range).await?;
            let revision = read.header.map_or(0, |header| header.revision);
            let compaction = pb::CompactionRequest { revision, physical: true };
            client.demand::<pb::CompactionResponse>(COMPACT, &compaction).await.map(drop)
        })
    }

    /// Removes the znodes and keys of the test.
    fn remove(mut self) -> anyhow::Result<()> {
        let mut driver = Driver::connect(&self.zk.addresses, TREE_CLIENTS, SESSION_TIMEOUT_MS)?;
        self.tree.remove(&mut driver, &self.zk)?;
        driver.close();
        runtime()?.block_on(async {
            let mut client = EtcdClient::connect(self.etcd.addresses[0]).await?;
            let (key, range_end) = (self.prefix.clone().into(), end_of(&self.prefix));
            let delete = pb::DeleteRangeRequest { key, range_end, ..Default::default() };
            client.demand::<pb::DeleteRangeResponse>(DELETE_RANGE, &delete).await.map(drop)
        })
    }
}

fn key(prefix: &str, number: usize) -> Bytes {
    format!("{prefix}{number:08}").into()
}

/// The end of the range of all keys with a prefix: `0` sorts right after the slash of the prefix.
fn end_of(prefix: &str) -> Bytes {
    format!("{}0", prefix.trim_end_matches('/')).into()
}

/// For each key in turn a put and a read. The value of each key is random bytes.
fn calls(prefix: &str, keys: usize, value_bytes: usize) -> anyhow::Result<Vec<Call>> {
    let mut calls = Vec::with_capacity(2 * keys);
    for number in 0..keys {
        let value = Random::new(number as u64).bytes(value_bytes).into();
        let put = pb::PutRequest { key: key(prefix, number), value, ..Default::default() };
        calls.push(Call::new(PUT, &put)?);
        let range = pb::RangeRequest { key: key(prefix, number), ..Default::default() };
        calls.push(Call::new(RANGE, &range)?);
    }
    Ok(calls)
}

/// Whether a response is right: to a put if `number` is even, to a read if it is odd.
fn is_answered(number: u64, body: Bytes) -> bool {
    match number % 2 {
        0 => pb::PutResponse::decode(body).is_ok_and(|it| it.header.is_some()),
        _ => pb::RangeResponse::decode(body).is_ok_and(|it| it.kvs.len() == 1),
    }
}

/// The figures of "both", each divided by the figure of the protocol alone, round by round. In open
/// loop these are rates and latencies. In closed loop they are only rates, divided by half of the
/// rate alone. The CPU of a request is divided by that of the same mix of requests alone.
fn quotients(blocks: &[Block], is_closed: bool) -> Block {
    let [zk, etcd, both] = blocks else { unreachable!("there is a block for each part") };
    let name = match is_closed {
        true => "both, divided by half of the rate alone",
        false => "both, divided by alone",
    };
    let mut block = Block { name: name.to_string(), ..Block::default() };
    block.address.clone_from(&both.address);
    for figure in &both.figures {
        let alone = match figure.name {
            SERVER_CPU => same_requests_alone(blocks),
            name => [values(zk, name), values(etcd, name)].concat(),
        };
        let is_rate = figure.good == Good::More;
        let is_wanted = figure.name == SERVER_CPU || is_rate || !is_closed;
        if figure.good == Good::Neither || !is_wanted {
            continue;
        }
        let share = if is_closed && is_rate { 0.5 } else { 1.0 };
        assert_eq!(figure.values.len(), alone.len(), "each has a value of each round");
        let pairs = figure.values.iter().zip(alone);
        let values = pairs.map(|(both, alone)| both / (share * alone)).collect();
        let quotient = Figure::once(figure.name, "times", None, figure.good);
        block.figures.push(Figure { values, ..quotient });
    }
    block
}

/// The largest half width of the quotients: see [`crate::measure::figures`]. In closed loop the
/// quotients of the rates count, in open loop only that of the CPU of a request.
fn width_of(quotients: &Block, is_closed: bool) -> Option<f64> {
    let is_wanted = |figure: &&Figure| match is_closed {
        true => figure.good == Good::More,
        false => figure.name == SERVER_CPU,
    };
    figures::widest(quotients.figures.iter().filter(is_wanted).map(figures::quotient_width))
}

/// The values of a figure, one for each round; empty if the block has no such figure.
fn values(block: &Block, name: &str) -> Vec<f64> {
    let found = block.figures.iter().find(|figure| figure.name == name);
    found.map_or(Vec::new(), |figure| figure.values.clone())
}

/// For each round, the CPU that an average request of "both" would take if each protocol's requests
/// cost what they cost alone.
fn same_requests_alone(blocks: &[Block]) -> Vec<f64> {
    let [zk, etcd, both] = blocks else { unreachable!("there is a block for each part") };
    let rates = values(both, ZK.requests).into_iter().zip(values(both, ETCD.requests));
    let costs = values(zk, SERVER_CPU).into_iter().zip(values(etcd, SERVER_CPU));
    let mean = |((zk, etcd), (zk_us, etcd_us))| (zk * zk_us + etcd * etcd_us) / (zk + etcd);
    rates.zip(costs).map(mean).collect()
}

#[cfg(test)]
mod tests;
