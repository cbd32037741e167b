//! The workload `etcd-member-add`: how long it takes from the call that adds a member to a cluster
//! of etcd until that member serves and votes. The cluster may hold data, which the new member must
//! get first. Both systems get the same calls, options and data: `MemberAdd`, then the start of
//! the new member.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bytes::Bytes;
use clap::Args;
use etcd::pb::etcdserverpb as pb;
use tokio::time::timeout;

use crate::limits::{
    ETCD_VALUE_BYTES_MAX, MEMBER_CHANGE_LIMIT, MEMBER_CHANGE_PAUSE, MEMBERS_MAX, MIB_MAX,
    RECONNECT_PAUSE, SERVER_START_LIMIT,
};
use crate::measure::comparison::Rounds;
use crate::measure::contest::{self, About, Bout, Contenders};
use crate::measure::figures::{Block, Figure, Good};
use crate::random::Random;
use crate::servers::spawned::{Spawned, free_addresses};
use crate::servers::target::{Scheme, Target, TargetAddress};
use crate::workloads::etcd::client::{
    Call, EtcdClient, MEMBER_ADD, MEMBER_LIST, PUT, RANGE, runtime, status_at,
};
use crate::workloads::etcd::performance::load::Load;

/// The key that the new member is asked for.
const PROBE: &str = "member-add/probe";

/// Puts under way at once, and connections, while the data is put.
const FILL_CLIENTS: (usize, usize) = (64, 16);

/// Options of `quorate bench etcd-member-add`.
#[derive(Debug, Args)]
// There is no warm-up round: each round starts its servers afresh.
#[command(mut_arg("warmup", |it| it.default_value("0")))]
#[command(mut_arg("rounds", |it| it.default_value("5")))]
pub struct MemberAddArgs {
    #[command(flatten)]
    at: Contenders,
    #[command(flatten)]
    repeat: Rounds,
    /// Members before the new one
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=MEMBERS_MAX as u64 - 1))]
    members: u64,
    /// Data in the keys before the member is added, MiB
    #[arg(long, value_name = "MIB", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=MIB_MAX))]
    data: u64,
    /// Bytes of a value of that data
    #[arg(long, value_name = "BYTES", default_value_t = 4_096, value_parser = clap::value_parser!(u64).range(1..=ETCD_VALUE_BYTES_MAX))]
    value_size: u64,
}

/// Runs `quorate bench etcd-member-add` and prints the results.
///
/// # Errors
/// A member does not start, is not added, or does not serve; or a file cannot be written.
pub fn command(args: &MemberAddArgs) -> anyhow::Result<ExitCode> {
    let MemberAddArgs { members, data, value_size, .. } = args;
    let text = format!(
        "{members} members with {data} MiB in values of {value_size} bytes; MemberAdd, then the new \
         member is started; times from the call of MemberAdd"
    );
    let about = About { workload: "etcd-member-add", text: &text, words: &["etcd"] };
    contest::run(&args.at, &args.repeat, about, |bout| add(bout, args))
}

/// The members of one run: first those that begin the cluster, last the one that is added.
struct Cluster<'a> {
    bout: &'a Bout<'a>,
    clients: Vec<SocketAddr>,
    peers: Vec<SocketAddr>,
    running: Vec<Spawned>,
}

/// The times from the call of MemberAdd until the new member is there.
struct Added {
    /// MemberAdd was answered.
    answered: Duration,
    /// The new member answered a linearizable read.
    serves: Duration,
    /// The new member says that it votes.
    votes: Duration,
    /// The list of members, as the new one shows it, has its name.
    listed: Duration,
    /// How often MemberAdd was refused before it was accepted, which does not count.
    refused: u64,
}

fn add(bout: &Bout<'_>, args: &MemberAddArgs) -> anyhow::Result<Block> {
    let count = args.members as usize;
    let mut cluster = Cluster::start(bout, count)?;
    let target = cluster.target(count)?;
    let mut block = bout.block(&target);
    let put = |key: Bytes, value: Bytes| {
        Call::new(PUT, &pb::PutRequest { key, value, ..Default::default() })
    };
    let mut load = Load::connect(&target.addresses, FILL_CLIENTS.1)?;
    let (bytes, keys) = (args.value_size as usize, (args.data << 20) / args.value_size);
    if keys > 0 {
        bout.say("putting the data");
        let phase = load.fill(&target, (FILL_CLIENTS.0, keys), |number| {
            put(format!("data/{number:010}").into(), Random::new(number).bytes(bytes).into())
        })?;
        block.blame(&phase);
    }
    block.blame(&load.fill(&target, (1, 1), |_| put(PROBE.into(), Bytes::new()))?);
    drop(load);
    bout.say("adding a member");
    let added = cluster.add()?;
    let ms = |it: Duration| it.as_secs_f64() * 1_000.0;
    let time = |name, it: Duration| Figure::once(name, "ms", ms(it), Good::Less);
    let size = status_at(target.addresses[0]).map(|it| it.db_size as f64 / f64::from(1 << 20));
    let all = added.serves.max(added.votes).max(added.listed);
    block.figures = vec![
        time("serves, votes and is listed", all),
        time("MemberAdd is answered", added.answered),
        time("answers a linearizable read", added.serves),
        time("has its vote", added.votes),
        time("is listed as started", added.listed),
        Figure::once("MemberAdd refused before", "", added.refused as f64, Good::Neither),
        Figure::once("size of the database", "MiB", size, Good::Neither),
    ];
    Ok(block)
}

impl<'a> Cluster<'a> {
    /// Starts `count` members, and waits until all of them serve.
    fn start(bout: &'a Bout<'a>, count: usize) -> anyhow::Result<Cluster<'a>> {
        let all = free_addresses::<{ 2 * MEMBERS_MAX }>()?;
        let (clients, peers) = (all[..=count].to_vec(), all[MEMBERS_MAX..][..=count].to_vec());
        let mut cluster = Cluster { bout, clients, peers, running: Vec::new() };
        bout.say("starting");
        for number in 0..count {
            cluster.start_one(number, "new", count)?;
        }
        for member in &mut cluster.running {
            let address = member.address;
            let leads = || status_at(address).is_some_and(|status| status.leader != 0);
            member.wait_until("it serves", leads)?;
        }
        Ok(cluster)
    }

    fn start_one(&mut self, number: usize, state: &str, listed: usize) -> anyhow::Result<()> {
        let (client, peer) = (self.clients[number], self.peers[number]);
        let list = self.peers[..listed].iter().enumerate();
        let list: Vec<String> = list.map(|(it, peer)| format!("m{it}=http://{peer}")).collect();
        let data = self.bout.folder.join(format!("m{number}"));
        let flags = [
            format!("--name=m{number}"),
            format!("--data-dir={}", data.display()),
            format!("--listen-client-urls=http://{client}"),
            format!("--advertise-client-urls=http://{client}"),
            format!("--listen-peer-urls=http://{peer}"),
            format!("--initial-advertise-peer-urls=http://{peer}"),
            format!("--initial-cluster={}", list.join(",")),
            format!("--initial-cluster-state={state}"),
        ];
        let flags = flags.map(OsString::from);
        let output = self.bout.folder.join(format!("m{number}.log"));
        let Bout { program, interrupt, .. } = self.bout;
        self.running.push(program.start(&flags, client, output, interrupt)?);
        Ok(())
    }

    fn target(&self, count: usize) -> anyhow::Result<Target> {
        let all: Vec<String> = self.clients[..count].iter().map(SocketAddr::to_string).collect();
        let address = format!("{}://{}", Scheme::Etcd, all.join(","));
        Target::find(&address.parse::<TargetAddress>().map_err(anyhow::Error::msg)?)
    }

    /// Adds the last member and starts it.
    fn add(&mut self) -> anyhow::Result<Added> {
        let new = self.clients.len() - 1;
        let runtime = runtime()?;
        let (called_at, refused) = runtime.block_on(self.call_member_add(self.peers[new]))?;
        let answered = called_at.elapsed();
        self.start_one(new, "existing", new + 1)?;
        let member = self.running.last_mut().context("it was just started")?;
        let (address, name) = (member.address, format!("m{new}"));
        let [mut serves, mut votes, mut listed] = [None; 3];
        while serves.is_none() || votes.is_none() || listed.is_none() {
            std::thread::sleep(RECONNECT_PAUSE);
            member.check()?;
            ensure!(called_at.elapsed() < SERVER_START_LIMIT, "the new member does not serve");
            if serves.is_none() && runtime.block_on(reads(address)) {
                serves = Some(called_at.elapsed());
            }
            if votes.is_none() && status_at(address).is_some_and(|it| votes_by(&it)) {
                votes = Some(called_at.elapsed());
            }
            if listed.is_none() && runtime.block_on(lists(address, &name)) {
                listed = Some(called_at.elapsed());
            }
        }
        let [serves, votes, listed] = [serves, votes, listed].map(Option::unwrap_or_default);
        Ok(Added { answered, serves, votes, listed, refused })
    }

    /// Calls MemberAdd until it is accepted: etcd refuses it until its members have been connected
    /// for some seconds. Returns when the accepted call was sent, and how many were refused.
    async fn call_member_add(&self, peer: SocketAddr) -> anyhow::Result<(Instant, u64)> {
        let request =
            pb::MemberAddRequest { peer_ur_ls: vec![format!("http://{peer}")], is_learner: false };
        let call = Call::new(MEMBER_ADD, &request)?;
        let mut client = EtcdClient::connect(self.clients[0]).await?;
        let (began, mut refused) = (Instant::now(), 0);
        loop {
            let called_at = Instant::now();
            let answer = timeout(MEMBER_CHANGE_LIMIT, client.ask(&call)).await??;
            if answer.code == 0 {
                return Ok((called_at, refused));
            }
            let is_late = began.elapsed() > MEMBER_CHANGE_LIMIT;
            ensure!(!is_late, "MemberAdd is refused: {}", answer.message);
            self.bout.interrupt.check()?;
            refused += 1;
            tokio::time::sleep(MEMBER_CHANGE_PAUSE).await;
        }
    }
}

/// Whether the member at an address answers a linearizable read, and has the key.
async fn reads(address: SocketAddr) -> bool {
    let range = pb::RangeRequest { key: PROBE.into(), ..Default::default() };
    let found: Option<pb::RangeResponse> = asked(address, RANGE, &range).await;
    found.is_some_and(|found| found.kvs.len() == 1)
}

/// Whether the list of the member at an address has a started member with this name, which is no
/// learner. A member that has not started has no name.
async fn lists(address: SocketAddr, name: &str) -> bool {
    let request = pb::MemberListRequest { linearizable: true };
    let found: Option<pb::MemberListResponse> = asked(address, MEMBER_LIST, &request).await;
    let members = found.map(|found| found.members).unwrap_or_default();
    members.iter().any(|it| it.name == name && !it.is_learner && !it.client_ur_ls.is_empty())
}

/// The answer to a call on a new connection; `None` if there is none, or it is an error.
async fn asked<R: etcd::pb::Message + Default>(
    address: SocketAddr,
    path: &str,
    request: &impl etcd::pb::Message,
) -> Option<R> {
    let call = Call::new(path, request).ok()?;
    let asking = async { EtcdClient::connect(address).await?.ask(&call).await };
    let answer = timeout(MEMBER_CHANGE_LIMIT, asking).await.ok()?.ok()?;
    if answer.code == 0 { R::decode(answer.body).ok() } else { None }
}

/// Whether a member says that it has a vote, and knows a leader.
fn votes_by(status: &pb::StatusResponse) -> bool {
    !status.is_learner && status.leader != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_without_a_leader_or_a_vote_does_not_vote() {
        let status =
            |leader, is_learner| pb::StatusResponse { leader, is_learner, ..Default::default() };
        assert!(votes_by(&status(7, false)));
        assert!(!votes_by(&status(0, false)));
        assert!(!votes_by(&status(7, true)));
    }
}
