//! The facts about a running server, each gathered in one place. `mntr`, the metrics under
//! ZooKeeper's and under etcd's names, and the admin server show them; a fact here has no name of a
//! metric, and the pages name it.
//!
//! Facts are counted where they arise. A message asks a runtime for its counts, one page of a list
//! at a time, so that clients never wait for an observer, however much there is to show.

pub mod metric;
pub mod process;
pub mod replica;
pub mod state;

mod lists;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use config::ClusterConfig;
use machine::{Level, Machine, Servers};
use member::LoopCounts;
use member::fronts::zk::ZkFrontReport;
use node::{MonitorHandle, NodeMetrics, PeerTraffic};
use tokio::sync::{Semaphore, oneshot};

use crate::client_tls::HandshakeCounts;
use crate::listen_chunk::Chunks;
use crate::listen_zk::{Face, ToRuntime};
use replica::{Ensemble, MembersView, Part};
use state::StateFacts;

/// How long a reader of the tree waits before it looks again whether a command is done.
const TREE_WAIT: Duration = Duration::from_millis(1);

/// What a server's member is and does, at one moment.
pub struct MemberFacts {
    pub state: StateFacts,
    pub replica: node::ReplicaFacts,
    /// Counts of Loop since the start.
    pub counts: LoopCounts,
    /// Measurements of the threads.
    pub measured: NodeMetrics,
    /// Bytes and messages between this member and each other one; empty if it is alone.
    pub traffic: Vec<PeerTraffic>,
    /// Ms since the start.
    pub uptime_ms: u64,
}

impl MemberFacts {
    /// Gathers the facts. No lock is held for longer than a few reads of it.
    pub fn gather(node: &MonitorHandle) -> MemberFacts {
        MemberFacts {
            state: StateFacts::of(&node.machine().read()),
            replica: node.replica(),
            counts: node.loop_counts(),
            measured: node.metrics(),
            traffic: node.peer_traffic(),
            uptime_ms: node.monotonic_ms(),
        }
    }
}

/// The settings of a server that an observer needs.
pub struct ObserverSettings {
    /// The folder of snapshots and log.
    pub data_dir: PathBuf,
    /// The folder of the log, if it is another one.
    pub log_dir: Option<PathBuf>,
    /// The length of a tick, ms (`tickTime`): sessions expire at the end of a tick.
    pub tick_ms: u64,
    /// How long a connection may be without a session, ms.
    pub sessionless_ms_max: u64,
    /// The ensemble that this server is a member of; `None` of a standalone server.
    pub cluster: Option<ClusterConfig>,
    /// The time without contact to a leader after which it serves reads only, ms; `None` for
    /// never.
    pub read_only_after_ms: Option<u64>,
}

/// The source of the facts about a started server.
pub struct Observer {
    /// Reads the member.
    pub node: MonitorHandle,
    /// The face of ZooKeeper's clients, whose runtimes are asked.
    pub face: Arc<Face>,
    pub settings: ObserverSettings,
    /// The chunk store, if one is served.
    pub chunks: Option<Arc<Chunks>>,
    /// A permit to make a list: one at a time, since each may take much memory.
    listing: Semaphore,
}

impl Observer {
    pub fn new(
        node: MonitorHandle,
        face: Arc<Face>,
        settings: ObserverSettings,
        chunks: Option<Arc<Chunks>>,
    ) -> Observer {
        Observer { node, face, settings, chunks, listing: Semaphore::new(1) }
    }

    /// The facts about the member.
    pub fn member(&self) -> MemberFacts {
        MemberFacts::gather(&self.node)
    }

    /// Reads the state under the lock, for a short time.
    pub fn look<T>(&self, look: impl FnOnce(&Machine) -> T) -> T {
        look(&self.node.machine().read())
    }

    /// As [`Observer::look`], once no command of ZooKeeper's clients is done in part: for what must
    /// not see a part of a multi.
    pub async fn look_at_tree<T>(&self, look: impl Fn(&Machine) -> T) -> T {
        loop {
            let seen = self.look(|machine| {
                let is_whole = !machine.zk().is_amid_change();
                is_whole.then(|| look(machine))
            });
            match seen {
                Some(seen) => return seen,
                None => tokio::time::sleep(TREE_WAIT).await,
            }
        }
    }

    /// The member's mode, as ZooKeeper's clients see it.
    pub fn mode(&self) -> &'static str {
        match self.part() {
            // `ReadOnlyZooKeeperServer.getState`.
            _ if self.is_read_only() => "read-only",
            Some(part) => part.mode(),
            None => "standalone",
        }
    }

    /// The part of this member in its ensemble; `None` of a standalone server.
    pub fn part(&self) -> Option<Part> {
        self.settings.cluster.as_ref().map(|_| Part::of(&self.node.replica().status))
    }

    /// The ensemble in these facts; `None` of a standalone server.
    pub fn ensemble(&self, facts: &MemberFacts) -> Option<Ensemble> {
        self.settings.cluster.as_ref().map(|cluster| Ensemble::of(&facts.replica, cluster))
    }

    /// The members of the ensemble, as this one knows them; `None` of a standalone server.
    pub fn members(&self) -> Option<MembersView> {
        self.settings.cluster.as_ref().map(|_| MembersView::of(&self.node))
    }

    /// The level of the state.
    pub fn level(&self) -> Level {
        self.look(|machine| machine.control().level().level)
    }

    /// The servers of the ensemble in the replicated state; none of a standalone server.
    pub fn servers(&self) -> Servers {
        self.look(|machine| machine.control().servers().clone())
    }

    /// The number of the leading server, if it is known.
    pub fn leader(&self) -> Option<u32> {
        let cluster = self.settings.cluster.as_ref()?;
        let status = self.node.replica().status;
        if Part::of(&status) == Part::Leading {
            return Some(cluster.number);
        }
        let leader = machine::MemberId(status.leader?);
        let number = self.look(|machine| machine.control().servers().number_of(leader));
        u32::try_from(number?).ok()
    }

    /// Whether clients are served: without a leader they are not
    /// (`AbstractFourLetterCommand.isZKServerRunning`).
    pub fn is_serving(&self) -> bool {
        self.part() != Some(Part::Looking)
    }

    /// Whether clients are served reads only (`readonlymode.enabled`).
    pub fn is_read_only(&self) -> bool {
        let after_ms = self.settings.read_only_after_ms;
        let silent_ms = self.node.contact_silent_ms();
        after_ms.zip(silent_ms).is_some_and(|(after_ms, silent_ms)| silent_ms >= after_ms)
    }

    /// The counts of all of ZooKeeper's Fronts together.
    pub async fn zk_fronts(&self) -> ZkFrontReport {
        let mut all = ZkFrontReport::default();
        let ask = |sender| ToRuntime::Report(sender);
        self.ask_each(ask).await.iter().for_each(|part| all.merge(part));
        all
    }

    /// The handshakes of ZooKeeper's clients; zeros without TLS.
    pub fn zk_handshakes(&self) -> HandshakeCounts {
        self.face.tls.as_ref().map(|tls| tls.handshake_counts()).unwrap_or_default()
    }

    /// Connections of ZooKeeper's clients that were closed as soon as they were accepted.
    pub fn zk_connections_rejected(&self) -> u64 {
        self.face.rejected.load(Ordering::Relaxed)
    }

    /// Bytes of the snapshots, and of the log.
    pub fn dirs(&self) -> (u64, u64) {
        let data_dir = &self.settings.data_dir;
        let log_dir = self.settings.log_dir.as_ref();
        let log = log_dir.unwrap_or(data_dir).join(storage::wal::WAL_DIR);
        let log_bytes = process::folder_bytes(&log);
        let beside = if log.starts_with(data_dir) { log_bytes } else { 0 };
        (process::folder_bytes(data_dir).saturating_sub(beside), log_bytes)
    }

    /// Whether the chunk store is served, and a text for a probe; `None` if no chunk store is
    /// configured.
    pub fn chunk_health(&self) -> Option<(bool, String)> {
        self.chunks.as_ref().map(|chunks| chunks.health())
    }

    /// Asks every runtime of ZooKeeper's clients, one after the other.
    pub async fn ask_each<T>(&self, ask: impl Fn(oneshot::Sender<T>) -> ToRuntime) -> Vec<T> {
        let mut answers = Vec::new();
        for runtime in 0..self.face.runtimes.len() {
            answers.extend(self.ask(runtime, &ask).await);
        }
        answers
    }

    /// Asks one runtime. `None` if it has ended, as the process does then.
    async fn ask<T>(
        &self,
        runtime: usize,
        ask: impl Fn(oneshot::Sender<T>) -> ToRuntime,
    ) -> Option<T> {
        let (sender, receiver) = oneshot::channel();
        self.face.runtimes[runtime].send(ask(sender)).await.ok()?;
        receiver.await.ok()
    }
}
