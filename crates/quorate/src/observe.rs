//! Gathers the facts about a running server that operators may see. `mntr`, the metrics under
//! ZooKeeper's and under etcd's names, and the admin server show these facts. The facts have no
//! metric names; the code that shows a fact names it.
//!
//! Each part of the server keeps its own counts. An observer fetches the counts of a ZooKeeper
//! connection runtime by a message to the runtime. It fetches a long list in pages, so that clients
//! never wait long for an observer.

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

/// How long to wait before looking again whether a command that was partly applied is done.
const TREE_WAIT: Duration = Duration::from_millis(1);

/// The facts about a server's member at one moment.
pub struct MemberFacts {
    pub state: StateFacts,
    pub replica: node::ReplicaFacts,
    /// Loop's counts since the start.
    pub counts: LoopCounts,
    /// The measurements of the member's threads.
    pub measured: NodeMetrics,
    /// Bytes and messages exchanged with each other member; empty for a standalone server.
    pub traffic: Vec<PeerTraffic>,
    /// Time since the start, in ms.
    pub uptime_ms: u64,
}

impl MemberFacts {
    /// Gathers the facts. Holds no lock for longer than a few reads.
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

/// The settings of the server that an observer needs.
pub struct ObserverSettings {
    /// The folder with the snapshots, and with the log unless `log_dir` is set.
    pub data_dir: PathBuf,
    /// The folder with the log, if it is another one.
    pub log_dir: Option<PathBuf>,
    /// The length of a tick in ms (`tickTime`). Sessions expire at the ends of ticks.
    pub tick_ms: u64,
    /// How long a connection may be open without a session, in ms.
    pub sessionless_ms_max: u64,
    /// The ensemble of this server; `None` for a standalone server.
    pub cluster: Option<ClusterConfig>,
    /// After how long without contact with a leader the server only serves reads, in ms; `None` if
    /// it never does.
    pub read_only_after_ms: Option<u64>,
}

/// Where the facts about a started server are read.
pub struct Observer {
    /// Reads the state and the counts of the member.
    pub node: MonitorHandle,
    /// The ZooKeeper face; its runtimes are asked by messages.
    pub face: Arc<Face>,
    pub settings: ObserverSettings,
    /// The chunk store; `None` if none is configured.
    pub chunks: Option<Arc<Chunks>>,
    /// A single permit: one list is made at a time, since each may need much memory.
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

    /// The present facts about the member.
    pub fn member(&self) -> MemberFacts {
        MemberFacts::gather(&self.node)
    }

    /// Calls `look` with the state. `look` must be short, because the lock of the state is held
    /// meanwhile.
    pub fn look<T>(&self, look: impl FnOnce(&Machine) -> T) -> T {
        look(&self.node.machine().read())
    }

    /// Like [`Observer::look`], but waits until no command of ZooKeeper clients is only partly
    /// applied, so that `look` never sees a part of a multi.
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

    /// The member's mode as ZooKeeper clients see it.
    pub fn mode(&self) -> &'static str {
        match self.part() {
            // As in `ReadOnlyZooKeeperServer.getState`.
            _ if self.is_read_only() => "read-only",
            Some(part) => part.mode(),
            None => "standalone",
        }
    }

    /// This member's part in its ensemble; `None` for a standalone server.
    pub fn part(&self) -> Option<Part> {
        self.settings.cluster.as_ref().map(|_| Part::of(&self.node.replica()))
    }

    /// The facts about the ensemble; `None` for a standalone server.
    pub fn ensemble(&self, facts: &MemberFacts) -> Option<Ensemble> {
        self.settings.cluster.as_ref().map(|_| Ensemble::of(&facts.replica))
    }

    /// The members of the ensemble as this one knows them; `None` for a standalone server.
    pub fn members(&self) -> Option<MembersView> {
        self.settings.cluster.as_ref().map(|_| MembersView::of(&self.node))
    }

    /// The ensemble's level, as applied here.
    pub fn level(&self) -> Level {
        self.look(|machine| machine.control().level().level)
    }

    /// The servers of the ensemble, from the replicated state; empty for a standalone server.
    pub fn servers(&self) -> Servers {
        self.look(|machine| machine.control().servers().clone())
    }

    /// The number of the server that leads; `None` if it is not known.
    pub fn leader(&self) -> Option<u32> {
        let cluster = self.settings.cluster.as_ref()?;
        let replica = self.node.replica();
        if Part::of(&replica) == Part::Leading {
            return Some(cluster.number);
        }
        let leader = machine::MemberId(replica.status.leader?);
        let number = self.look(|machine| machine.control().servers().number_of(leader));
        u32::try_from(number?).ok()
    }

    /// Whether clients are served. Without a leader they are not
    /// (`AbstractFourLetterCommand.isZKServerRunning`).
    pub fn is_serving(&self) -> bool {
        self.part() != Some(Part::Looking)
    }

    /// Whether clients are only served reads (`readonlymode.enabled`).
    pub fn is_read_only(&self) -> bool {
        let after_ms = self.settings.read_only_after_ms;
        let silent_ms = self.node.contact_silent_ms();
        after_ms.zip(silent_ms).is_some_and(|(after_ms, silent_ms)| silent_ms >= after_ms)
    }

    /// The counts of all ZooKeeper Fronts, added up.
    pub async fn zk_fronts(&self) -> ZkFrontReport {
        let mut all = ZkFrontReport::default();
        let ask = |sender| ToRuntime::Report(sender);
        self.ask_each(ask).await.iter().for_each(|part| all.merge(part));
        all
    }

    /// The counts of TLS handshakes with ZooKeeper clients; all 0 without TLS.
    pub fn zk_handshakes(&self) -> HandshakeCounts {
        self.face.tls.as_ref().map(|tls| tls.handshake_counts()).unwrap_or_default()
    }

    /// How many ZooKeeper connections were closed right after they were accepted.
    pub fn zk_connections_rejected(&self) -> u64 {
        self.face.rejected.load(Ordering::Relaxed)
    }

    /// Bytes of the data directory without the log, and bytes of the log.
    pub fn dirs(&self) -> (u64, u64) {
        let data_dir = &self.settings.data_dir;
        let log_dir = self.settings.log_dir.as_ref();
        let log = log_dir.unwrap_or(data_dir).join(storage::wal::WAL_DIR);
        let log_bytes = process::folder_bytes(&log);
        let beside = if log.starts_with(data_dir) { log_bytes } else { 0 };
        (process::folder_bytes(data_dir).saturating_sub(beside), log_bytes)
    }

    /// Whether the chunk store serves, and a line for the health probe; `None` if no chunk store is
    /// configured.
    pub fn chunk_health(&self) -> Option<(bool, String)> {
        self.chunks.as_ref().map(|chunks| chunks.health())
    }

    /// Asks every runtime of the ZooKeeper face, one after the other.
    pub async fn ask_each<T>(&self, ask: impl Fn(oneshot::Sender<T>) -> ToRuntime) -> Vec<T> {
        let mut answers = Vec::new();
        for runtime in 0..self.face.runtimes.len() {
            answers.extend(self.ask(runtime, &ask).await);
        }
        answers
    }

    /// Asks one runtime. `None` if it has ended, which happens only when the process ends.
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
