//! The subcommands of `quorate bench`. Each workload's own module has its options.

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::differential::{self, DifferentialArgs};
use crate::measure::result_files::{self, CompareArgs, GateArgs, ReportArgs};
use crate::workloads;
use crate::workloads::both::beside_chunks::{self, BesideChunksArgs};
use crate::workloads::both::mixed::{self, MixedArgs};
use crate::workloads::chunk::cmdr::{self, CmdrArgs};
use crate::workloads::chunk::cmdw::{self, CmdwArgs};
use crate::workloads::chunk::open::ChunkOpenArgs;
use crate::workloads::etcd::kube::EtcdKubeArgs;
use crate::workloads::etcd::member_add::{self, MemberAddArgs};
use crate::workloads::etcd::performance::EtcdArgs;
use crate::workloads::etcd::performance::compaction::{
    self as etcd_compaction, EtcdCompactionArgs,
};
use crate::workloads::etcd::performance::failover::{self as etcd_failover, EtcdFailoverArgs};
use crate::workloads::etcd::performance::restart::{self as etcd_restart, EtcdRestartArgs};
use crate::workloads::etcd::performance::watch::{self as etcd_watch, EtcdWatchArgs};
use crate::workloads::etcd::v2::Etcd2Args;
use crate::workloads::zk::failover::{self, FailoverArgs};
use crate::workloads::zk::fill::{self, FillArgs};
use crate::workloads::zk::join::{self, JoinArgs};
use crate::workloads::zk::latencies::{self, LatencyArgs};
use crate::workloads::zk::new_server::{self, NewServerArgs};
use crate::workloads::zk::notify::NotifyArgs;
use crate::workloads::zk::pubsub::processes::{self, PartArgs};
use crate::workloads::zk::pubsub::{self, PubsubArgs};
use crate::workloads::zk::reconfig::{self, ReconfigArgs};
use crate::workloads::zk::restart::{self, RestartArgs};
use crate::workloads::zk::snapshot_gap::{self, SnapshotGapArgs};
use crate::workloads::zk::watch::{self, WatchArgs};

/// Options of `quorate bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Debug, Subcommand)]
enum Workload {
    /// The service-latency test: create, set, get, delete, ephemerals, watches
    #[command(name = "zk-latencies")]
    Latencies(LatencyArgs),
    /// A million znodes: how fast they are made and how much memory each takes
    #[command(name = "zk-fill")]
    Fill(FillArgs),
    /// A million znodes, then kill -9: how long until the server answers again
    #[command(name = "zk-restart")]
    Restart(RestartArgs),
    /// The leader is killed under load: how long no client can write, and what is lost
    #[command(name = "zk-failover")]
    Failover(FailoverArgs),
    /// A million znodes and full write load: a member whose data was deleted joins again
    #[command(name = "zk-join")]
    Join(JoinArgs),
    /// A million znodes, half of the maximum rate, and a fourth server joins: how long it takes
    #[command(name = "zk-new-server")]
    NewServer(NewServerArgs),
    /// Servers join, leave and move under load: how long each takes, and what clients feel
    #[command(name = "zk-reconfig")]
    Reconfig(ReconfigArgs),
    /// A million znodes, half of the maximum rate: the longest gap between replies
    #[command(name = "zk-snapshot-gap")]
    SnapshotGap(SnapshotGapArgs),
    /// A million watches: what each costs; then one change that 10,000 connections see
    #[command(name = "zk-watch")]
    Watch(WatchArgs),
    /// Znodes whose data is set, and subscribers that watch and read them
    #[command(name = "zk-notify")]
    Notify(NotifyArgs),
    /// Synchronous creates, alone and while chunks are written at full rate
    #[command(name = "zk-beside-chunks")]
    BesideChunks(BesideChunksArgs),
    /// The publish/subscribe test: ephemerals, items that subscribers see, setData
    #[command(name = "pubsub")]
    Pubsub(PubsubArgs),
    /// A process of clients of that test
    #[command(name = "pubsub-part", hide = true)]
    PubsubPart(PartArgs),
    /// Puts, reads and transactions of etcd's clients: the rows of etcd's performance page
    #[command(name = "etcd")]
    Etcd(EtcdArgs),
    /// Reads and writes of etcd v2 over HTTP: the table of etcd 2.2
    #[command(name = "etcd2")]
    Etcd2(Etcd2Args),
    /// Watches of one prefix: what each costs, one put that all see, and puts beside slow clients
    #[command(name = "etcd-watch")]
    EtcdWatch(EtcdWatchArgs),
    /// The leader is killed while clients of etcd put: how long none can, and what is lost
    #[command(name = "etcd-failover")]
    EtcdFailover(EtcdFailoverArgs),
    /// A member is added to a cluster of etcd: how long until it serves and votes
    #[command(name = "etcd-member-add")]
    EtcdMemberAdd(MemberAddArgs),
    /// A million keys, then kill -9: how long until etcd's clients are answered again
    #[command(name = "etcd-restart")]
    EtcdRestart(EtcdRestartArgs),
    /// A million revisions, then a compaction under load: what clients and servers feel of it
    #[command(name = "etcd-compaction")]
    EtcdCompaction(EtcdCompactionArgs),
    /// The load of a cluster of Kubernetes on etcd: a day of it in five minutes
    #[command(name = "etcd-kube")]
    EtcdKube(EtcdKubeArgs),
    /// ZooKeeper's clients and etcd's on one server, alone and together
    #[command(name = "mixed")]
    Mixed(MixedArgs),
    /// The chunk write test of Ozone's freon, on the chunk store
    #[command(name = "cmdw")]
    Cmdw(CmdwArgs),
    /// The chunk read test: reads back the chunks that cmdw writes
    #[command(name = "cmdr")]
    Cmdr(CmdrArgs),
    /// A million blocks in the chunk store: the time of a start, and the memory of each block
    #[command(name = "chunk-open")]
    ChunkOpen(ChunkOpenArgs),
    /// Sends the same seeded requests to two servers and compares each answer and event
    #[command(name = "differential")]
    Differential(DifferentialArgs),
    /// Makes a report of a run, or prints its tables
    #[command(name = "report")]
    Report(ReportArgs),
    /// Makes a page that shows two runs side by side
    #[command(name = "compare")]
    Compare(CompareArgs),
    /// Says which figures have become worse between two runs; the exit status tells a script
    #[command(name = "gate")]
    Gate(GateArgs),
}

/// Runs a benchmark and prints it.
///
/// # Errors
/// A target does not answer, or a file cannot be written.
pub fn run(args: &BenchArgs) -> anyhow::Result<ExitCode> {
    match &args.workload {
        Workload::Latencies(args) => latencies::command(args),
        Workload::Fill(args) => fill::command(args),
        Workload::Restart(args) => restart::command(args),
        Workload::Failover(args) => failover::command(args),
        Workload::Join(args) => join::command(args),
        Workload::NewServer(args) => new_server::command(args),
        Workload::Reconfig(args) => reconfig::command(args),
        Workload::SnapshotGap(args) => snapshot_gap::command(args),
        Workload::Watch(args) => watch::command(args),
        Workload::Notify(args) => workloads::zk::notify::command(args),
        Workload::BesideChunks(args) => beside_chunks::command(args),
        Workload::Pubsub(args) => pubsub::command(args),
        Workload::PubsubPart(args) => processes::part(args),
        Workload::Etcd(args) => workloads::etcd::performance::command(args),
        Workload::Etcd2(args) => workloads::etcd::v2::command(args),
        Workload::EtcdWatch(args) => etcd_watch::command(args),
        Workload::EtcdFailover(args) => etcd_failover::command(args),
        Workload::EtcdMemberAdd(args) => member_add::command(args),
        Workload::EtcdRestart(args) => etcd_restart::command(args),
        Workload::EtcdCompaction(args) => etcd_compaction::command(args),
        Workload::EtcdKube(args) => workloads::etcd::kube::command(args),
        Workload::Mixed(args) => mixed::command(args),
        Workload::Cmdw(args) => cmdw::command(args),
        Workload::Cmdr(args) => cmdr::command(args),
        Workload::ChunkOpen(args) => workloads::chunk::open::command(args),
        Workload::Differential(args) => differential::command(args),
        Workload::Report(args) => result_files::report(args),
        Workload::Compare(args) => result_files::compare(args),
        Workload::Gate(args) => result_files::gate(args),
    }
}
