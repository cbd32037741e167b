//! The workload `etcd-restart`: how long etcd servers are away for their clients after SIGKILL.
//! Keys are put before the kill, and all of them must be there after the restart.

use std::net::SocketAddr;
use std::process::ExitCode;

use anyhow::ensure;
use bytes::Bytes;
use clap::Args;
use etcd::pb::etcdserverpb as pb;

use super::load::Load;
use crate::limits::{CLIENTS_MAX, ETCD_KEYS_MAX, ETCD_READ_KEYS, ETCD_VALUE_BYTES_MAX};
use crate::measure::comparison::{Comparison, Rounds, Where};
use crate::measure::figures::Block;
use crate::measure::open_files;
use crate::measure::stats::Phase;
use crate::random::Random;
use crate::servers::probe::Probe;
use crate::servers::target::{Scheme, Target};
use crate::workloads::both::restart::{self, Found, StartArgs, Things};
use crate::workloads::etcd::client::{Call, DELETE_RANGE, EtcdClient, PUT, RANGE, runtime};

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
    #[command(flatten)]
    starts: StartArgs,
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
         connections; {}",
        restart::ABOUT
    );
    let mut comparison = Comparison::start_on(Scheme::Etcd, &args.at, "etcd-restart", &about)?;
    let work = format!("{keys} puts, a kill and a start");
    restart::measure(&mut comparison, (&args.repeat, &work), &args.starts, |turn| Run {
        keys: Keys {
            prefix: format!("restart/{}/", turn.label),
            count: args.keys,
            value_bytes: args.value,
        },
        args,
    })?;
    comparison.finish()
}

/// Keys with their values.
struct Keys {
    prefix: String,
    count: u64,
    value_bytes: usize,
}

impl Keys {
    fn key(&self, number: u64) -> Bytes {
        format!("{}{number:08}", self.prefix).into()
    }

    /// The end of a range that covers all keys before key `number`. If there is no such key, the
    /// range covers all keys.
    fn bound(&self, number: u64) -> Bytes {
        if number < self.count { self.key(number) } else { format!("{}:", self.prefix).into() }
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

/// The keys of one turn.
struct Run<'a> {
    keys: Keys,
    args: &'a EtcdRestartArgs,
}

impl Things for Run<'_> {
    const NAMES: [&'static str; 4] = ["keys acknowledged", "keys found", "keys missing", "puts"];

    fn write(&mut self, target: &Target) -> anyhow::Result<Phase> {
        let mut load = Load::connect(&target.addresses, self.args.connections)?;
        load.fill(target, (self.args.clients, self.args.keys), |number| self.keys.put(number))
    }

    fn last(&self) -> Probe {
        Probe::Key(self.keys.key(self.keys.count - 1))
    }

    fn count(&mut self, target: &Target, block: &mut Block) -> anyhow::Result<Found> {
        let found = runtime()?.block_on(count(target.addresses[0], &self.keys))?;
        let missing = self.keys.count - found;
        block.trouble += missing;
        Ok(Found { found, missing })
    }

    fn remove(&mut self, target: &Target, may_keep: bool, _: &mut Block) -> anyhow::Result<()> {
        match self.args.keep && may_keep {
            true => Ok(()),
            false => runtime()?.block_on(remove(target.addresses[0], &self.keys)),
        }
    }
}

/// How many keys are there with their values.
async fn count(address: SocketAddr, keys: &Keys) -> anyhow::Result<u64> {
    let mut client = EtcdClient::connect(address).await?;
    let (mut found, mut from, mut revision, count) = (0, 0, 0, keys.count);
    while from < count {
        let to = count.min(from + ETCD_READ_KEYS);
        let (key, range_end) = (keys.key(from), keys.bound(to));
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
async fn remove(address: SocketAddr, keys: &Keys) -> anyhow::Result<()> {
    let (mut client, mut from, count) = (EtcdClient::connect(address).await?, 0, keys.count);
    while from < count {
        let to = count.min(from + ETCD_READ_KEYS);
        let (key, range_end) = (keys.key(from), keys.bound(to));
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
        let keys = Keys { prefix: "restart/t/".to_string(), count: 8, value_bytes: 11 };
        assert_eq!((keys.value(42).len(), keys.value(42)), (11, keys.value(42)));
        assert_ne!(keys.value(42), keys.value(43));
        assert_eq!(keys.key(42), "restart/t/00000042");
        assert!(keys.key(ETCD_KEYS_MAX) < keys.bound(8));
        assert_eq!(keys.bound(7), keys.key(7));
        assert!(keys.key(0) > *keys.prefix);
    }
}
