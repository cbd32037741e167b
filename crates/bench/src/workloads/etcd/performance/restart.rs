//! How long servers of etcd's clients are away after SIGKILL: keys are put, the servers are killed
//! at the last reply, are started again, and are asked for the last key until one answers. Then
//! every key must be there.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ExitCode};
use std::time::{Duration, Instant};

use anyhow::ensure;
use bytes::Bytes;
use clap::Args;
use etcd::pb::etcdserverpb as pb;

use super::load::Load;
use crate::limits::{
    CLIENTS_MAX, ETCD_KEYS_MAX, ETCD_READ_KEYS, ETCD_VALUE_BYTES_MAX, RECONNECT_PAUSE,
    RESTART_LIMIT,
};
use crate::measure::comparison::{Comparison, Rounds, Turn, Where};
use crate::measure::figures::{Block, Figure, Good};
use crate::measure::open_files;
use crate::random::Random;
use crate::servers::launch::Launch;
use crate::servers::process::Processes;
use crate::servers::target::Scheme;
use crate::workloads::etcd::client::{Call, DELETE_RANGE, EtcdClient, PUT, RANGE, runtime};
use crate::workloads::zk::restart::{check_children, kill_and_start, launches_of};

/// Options of `quorate bench etcd-restart`.
#[derive(Debug, Args)]
#[command(
    mut_arg("target", |it| it.value_name("etcd://HOST:PORT[,...]")),
    mut_arg("compare", |it| it.value_name("etcd://HOST:PORT[,...]")),
    // Each round starts its servers afresh.
    mut_arg("warmup", |it| it.default_value("0"))
)]
pub struct EtcdRestartArgs {
    #[command(flatten)]
    at: Where,
    #[command(flatten)]
    repeat: Rounds,
    /// Keys that are put
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    keys: u64,
    /// Bytes of a value
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    value: usize,
    /// Puts under way at once
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    clients: usize,
    /// Connections, which the clients share
    #[arg(long, value_name = "N", default_value_t = 100)]
    connections: usize,
    /// Leave the keys of the last round there
    #[arg(long)]
    keep: bool,
    /// How to start the servers again, for sh [default: as their processes were started]
    #[arg(long, value_name = "CMD")]
    start: Option<String>,
    /// How to start the compared servers again, for sh
    #[arg(long, value_name = "CMD", requires = "compare")]
    compare_start: Option<String>,
}

/// Runs `quorate bench etcd-restart` and prints it.
///
/// # Errors
/// An option is wrong, a server is not on this machine or does not come back, or a file cannot be
/// written.
pub fn command(args: &EtcdRestartArgs) -> anyhow::Result<ExitCode> {
    for (name, number, max) in [
        ("keys", args.keys, ETCD_KEYS_MAX),
        ("value", args.value as u64, ETCD_VALUE_BYTES_MAX),
        ("clients", args.clients as u64, CLIENTS_MAX as u64),
        ("connections", args.connections as u64, CLIENTS_MAX as u64),
    ] {
        ensure!((1..=max).contains(&number), "--{name}: {number} is not in 1..={max}");
    }
    open_files::make_room(args.connections)?;
    let EtcdRestartArgs { keys, value, clients, connections, .. } = args;
    let about = format!(
        "{keys} keys with values of {value} bytes, put by {clients} clients on {connections} \
         connections; then SIGKILL at the last reply; time counts from that. The log was written \
         just before and is in the page cache, where it was written through that"
    );
    let mut comparison = Comparison::start_on(Scheme::Etcd, &args.at, "etcd-restart", &about)?;
    // This check comes first: a server that cannot be killed or started cannot be measured.
    let launches = comparison.targets().iter().zip([&args.start, &args.compare_start]);
    let launches: Vec<Vec<Launch>> = launches
        .map(|(target, start)| launches_of(target, start.as_deref()))
        .collect::<anyhow::Result<_>>()?;
    let work = format!("{keys} puts, a kill and a start");
    comparison.measure(&args.repeat, &work, |turn| restart(turn, &launches[turn.place], args))?;
    comparison.finish()
}

/// The keys of a run.
struct Keys<'a> {
    prefix: &'a str,
    value_bytes: usize,
}

impl Keys<'_> {
    fn key(&self, number: u64) -> Bytes {
        format!("{}{number:08}", self.prefix).into()
    }

    /// The end of the range before key `number`, or of all keys, if it is behind the last.
    fn bound(&self, number: u64, count: u64) -> Bytes {
        if number < count { self.key(number) } else { format!("{}:", self.prefix).into() }
    }

    /// The value of a key: random bytes, seeded by its number.
    fn value(&self, number: u64) -> Bytes {
        Random::new(number).bytes(self.value_bytes).into()
    }

    fn put(&self, number: u64) -> anyhow::Result<Call> {
        let (key, value) = (self.key(number), self.value(number));
        Call::new(PUT, &pb::PutRequest { key, value, ..Default::default() })
    }
}

fn restart(turn: &Turn<'_>, launches: &[Launch], args: &EtcdRestartArgs) -> anyhow::Result<Block> {
    // The processes of the target may be those that the round before started.
    let mut target = turn.target.clone();
    target.find_processes();
    let mut block = target.block();
    let prefix = format!("restart/{}/", turn.label);
    let keys = Keys { prefix: &prefix, value_bytes: args.value };
    turn.say("putting");
    let before = target.memory();
    let mut load = Load::connect(&target.addresses, args.connections)?;
    let made = load.fill(&target, (args.clients, args.keys), |number| keys.put(number))?;
    drop(load);
    turn.say("killing");
    let outage = kill_and_start(&target, launches, |children, output| {
        first_answer(&target.addresses, keys.key(args.keys - 1), children, output)
    })?;
    let memory = Processes::listening(&target.addresses).memory();
    turn.say("reading all keys");
    let found = runtime()?.block_on(count(target.addresses[0], &keys, args.keys))?;
    let (acknowledged, missing) = (made.operations - made.errors, args.keys - found);
    let ms = |it: Duration| it.as_secs_f64() * 1_000.0;
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let count = |name, count: u64| Figure::once(name, "", count as f64, Good::Neither);
    let cpu_ms = outage.cpu_ns.map(|ns| ns as f64 / 1e6);
    block.figures = vec![
        count("keys acknowledged", acknowledged),
        count("keys found", found),
        count("keys missing", missing),
        Figure::once("VmRSS before", "MiB", before.map(|it| mib(it.resident)), Good::Neither),
        Figure::once("puts", "per s", made.rate(), Good::More),
        Figure::once("processes gone", "ms", ms(outage.gone), Good::Neither),
        Figure::once("first answer", "ms", ms(outage.answered), Good::Less),
        Figure::once("server CPU to first answer", "ms", cpu_ms, Good::Less),
        Figure::once("VmRSS after", "MiB", memory.map(|it| mib(it.resident)), Good::Less),
        Figure::once("VmHWM after", "MiB", memory.map(|it| mib(it.peak)), Good::Less),
    ];
    block.trouble += made.errors + missing + u64::from(!outage.first);
    // The processes of earlier rounds are gone, so only the last round names them.
    if turn.may_keep {
        let (pids, output) = (outage.pids, outage.output.display());
        block.notes.push(format!("started again as process {pids}; it prints to {output}"));
    }
    if !(args.keep && turn.may_keep) {
        runtime()?.block_on(remove(target.addresses[0], &keys, args.keys))?;
    }
    Ok(block)
}

/// Asks the servers in turn for a key, by a linearizable read, until one answers. Returns whether
/// the key is there.
///
/// # Errors
/// A command that started a server has failed, or no server answers for [`RESTART_LIMIT`].
fn first_answer(
    addresses: &[SocketAddr],
    key: Bytes,
    children: &mut [Child],
    output: &Path,
) -> anyhow::Result<bool> {
    let (runtime, began) = (runtime()?, Instant::now());
    let range = pb::RangeRequest { key, ..Default::default() };
    for address in addresses.iter().cycle() {
        let asking = async {
            let mut client = EtcdClient::connect(*address).await?;
            client.demand::<pb::RangeResponse>(RANGE, &range).await
        };
        if let Ok(response) = runtime.block_on(asking) {
            return Ok(response.kvs.len() == 1);
        }
        check_children(children, output)?;
        let log = output.display();
        ensure!(began.elapsed() < RESTART_LIMIT, "it does not come back: see {log}");
        std::thread::sleep(RECONNECT_PAUSE);
    }
    unreachable!("a target has an address")
}

/// How many keys are there with their values.
async fn count(address: SocketAddr, keys: &Keys<'_>, count: u64) -> anyhow::Result<u64> {
    let mut client = EtcdClient::connect(address).await?;
    let (mut found, mut from, mut revision) = (0, 0, 0);
    while from < count {
        let to = count.min(from + ETCD_READ_KEYS);
        let (key, range_end) = (keys.key(from), keys.bound(to, count));
        let range = pb::RangeRequest { key, range_end, revision, ..Default::default() };
        let page: pb::RangeResponse = client.demand(RANGE, &range).await?;
        revision =
            page.header.as_ref().filter(|_| revision == 0).map_or(revision, |it| it.revision);
        let mut there = page.kvs.iter().peekable();
        for number in from..to {
            let key = keys.key(number);
            while there.next_if(|kv| kv.key < key).is_some() {}
            let kv = there.next_if(|kv| kv.key == key);
            found += u64::from(kv.is_some_and(|kv| kv.value == keys.value(number)));
        }
        from = to;
    }
    Ok(found)
}

/// Removes the keys, few at once: etcd gives up a request that it does not finish in seconds.
async fn remove(address: SocketAddr, keys: &Keys<'_>, count: u64) -> anyhow::Result<()> {
    let (mut client, mut from) = (EtcdClient::connect(address).await?, 0);
    while from < count {
        let to = count.min(from + ETCD_READ_KEYS);
        let (key, range_end) = (keys.key(from), keys.bound(to, count));
        let delete = pb::DeleteRangeRequest { key, range_end, ..Default::default() };
        client.demand::<pb::DeleteRangeResponse>(DELETE_RANGE, &delete).await?;
        from = to;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_a_value_of_its_own_and_the_end_is_behind_the_last() {
        let keys = Keys { prefix: "restart/t/", value_bytes: 11 };
        assert_eq!((keys.value(42).len(), keys.value(42)), (11, keys.value(42)));
        assert_ne!(keys.value(42), keys.value(43));
        assert_eq!(keys.key(42), "restart/t/00000042");
        assert!(keys.key(ETCD_KEYS_MAX) < keys.bound(ETCD_KEYS_MAX, ETCD_KEYS_MAX));
        assert_eq!(keys.bound(7, 8), keys.key(7));
        assert!(keys.key(0) > *keys.prefix);
    }
}
