//! Monitoring: answers four-letter words, and gathers the numbers for metrics and the admin server.
//! [`crate::monitor_thread`] runs it.
//!
//! Numbers are counted where they arise. A message asks a runtime for its numbers, one page of a
//! list at a time, so that clients never wait for monitoring, however much there is to show.

pub mod ensemble;
pub mod images;
pub mod process;

mod lists;
mod metrics;

use std::cell::{Cell, OnceCell};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use config::{ClusterConfig, ImageConfig};
use images::Images;
use machine::{Level, Machine, Servers};
use member::RaiseRefused;
use member::fronts::zk::{Reset, ZkFrontReport};
use node::MonitorHandle;
use tokio::sync::{Semaphore, oneshot};
use zk::four_letter::{self, ConfReport, ServerReport, TRACE_MASK_DEFAULT, Word};

use crate::listen_chunk::Chunks;
use crate::listen_zk::{Face, Question, ToRuntime};
use ensemble::{Ensemble, MembersView, Part};

/// How long a reader of the tree waits before it looks again whether a command is done.
const TREE_WAIT: Duration = Duration::from_millis(1);

/// Facts for the words beside the numbers of the Fronts.
pub struct About {
    /// The name and version of the server.
    pub version: String,
    /// The lines for `conf` and `envi`.
    pub conf: ConfReport,
    /// The folder of snapshots and log.
    pub data_dir: PathBuf,
    /// The folder of the log, if it is another one.
    pub log_dir: Option<PathBuf>,
    /// The length of a tick, ms (`tickTime`): sessions expire at the end of a tick.
    pub tick_ms: u64,
    /// The text of the configuration file at the start.
    pub initial_config: String,
    /// The properties that ZooKeeper's Java machine would have, in order.
    pub system_properties: BTreeMap<String, String>,
    /// The ensemble that this server is a member of.
    pub cluster: Option<ClusterConfig>,
    /// How long a connection may be without a session.
    pub sessionless_ms_max: u64,
    /// The time without contact to a leader after which it serves reads, ms; `None` for never.
    pub read_only_after_ms: Option<u64>,
    /// Whether Prometheus reads the metrics: counters must not fall then.
    pub has_prometheus: bool,
}

/// The source of everything that monitoring shows.
pub struct Monitor {
    node: MonitorHandle,
    face: Arc<Face>,
    about: About,
    /// The trace mask, which has no effect here and is only told back.
    trace_mask: Cell<i64>,
    /// A permit to make a list: one at a time, since each may take much memory.
    listing: Semaphore,
    images: Images,
    chunks: Option<Arc<Chunks>>,
}

/// The monitor of a server; empty until the server has started.
pub type Started = Rc<OnceCell<Monitor>>;

impl Monitor {
    pub fn new(
        node: MonitorHandle,
        face: Arc<Face>,
        about: About,
        images: ImageConfig,
        chunks: Option<Arc<Chunks>>,
    ) -> Monitor {
        let trace_mask = Cell::new(TRACE_MASK_DEFAULT);
        let listing = Semaphore::new(1);
        let images = Images::new(images);
        Monitor { node, face, about, trace_mask, listing, images, chunks }
    }

    /// Answers a client's word.
    pub async fn answer(&self, question: Question) {
        let text = self.answer_to(question.word).await;
        let answer = ToRuntime::Answer(question.connection, text);
        // This fails only while the process ends.
        let _ = self.face.runtimes[question.runtime].send(answer).await;
    }

    /// The answer to a word.
    async fn answer_to(&self, word: Word) -> String {
        let About { version, conf, .. } = &self.about;
        match word {
            // `TraceMaskCommand` and `SetTraceMaskCommand` do not ask.
            Word::Gtmk | Word::Stmk { .. } => {}
            word if !self.is_serving() && !self.is_read_only() => {
                return four_letter::while_not_serving(word, version, conf);
            }
            _ => {}
        }
        match word {
            Word::Ruok => four_letter::RUOK.to_string(),
            Word::Isro => if self.is_read_only() { "ro" } else { "rw" }.to_string(),
            Word::Conf => {
                let (data_bytes, log_bytes) = self.dirs();
                four_letter::conf(conf, data_bytes, log_bytes)
            }
            Word::Envi => four_letter::environment(version, conf),
            Word::Dirs => {
                let (data_bytes, log_bytes) = self.dirs();
                four_letter::dirs(data_bytes, log_bytes)
            }
            Word::Srvr => four_letter::srvr(&self.server().await),
            Word::Stat => four_letter::stat(&self.server_with_connections().await),
            Word::Cons => four_letter::cons(&self.server_with_connections().await),
            Word::Crst => {
                self.reset(Reset::Connections).await;
                four_letter::CONNECTION_STATS_RESET.to_string()
            }
            Word::Srst => {
                self.reset_server().await;
                four_letter::SERVER_STATS_RESET.to_string()
            }
            Word::Dump => four_letter::dump(&self.dump().await),
            Word::Wchc => four_letter::watches_by_session(&self.watches().await),
            Word::Wchp => four_letter::watches_by_path(&self.watches().await),
            Word::Wchs => four_letter::watch_summary(&self.watch_summary().await),
            Word::Mntr => {
                let ensemble = self.ensemble();
                let peer_state = ensemble.as_ref().map(|ensemble| ensemble.part.peer_state());
                four_letter::mntr(version, self.mode(), peer_state, &self.metrics().await)
            }
            Word::Gtmk => self.trace_mask().to_string(),
            Word::Stmk { mask } => {
                self.set_trace_mask(mask);
                mask.to_string()
            }
            // The digests by zxid, which this server does not keep.
            Word::Hash | Word::TelnetClose => String::new(),
        }
    }

    /// The facts that do not change.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Reads the state under the lock, for a short time.
    pub fn look<T>(&self, look: impl FnOnce(&Machine) -> T) -> T {
        look(&self.node.machine().read())
    }

    /// As [`Monitor::look`], once no command of ZooKeeper's clients is done in part: for what must
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

    /// The trace mask for `gtmk`.
    pub fn trace_mask(&self) -> i64 {
        self.trace_mask.get()
    }

    /// Sets the trace mask for `gtmk`.
    pub fn set_trace_mask(&self, mask: i64) {
        self.trace_mask.set(mask);
    }

    /// Ms since the start.
    pub fn uptime_ms(&self) -> u64 {
        self.node.monotonic_ms()
    }

    /// How often writing the log took too long.
    pub fn fsync_threshold_exceed_count(&self) -> u64 {
        self.node.metrics().fsync_threshold_exceed_count
    }

    /// The zxid of the newest snapshot and when it was finished, in s since 1970.
    pub fn last_snapshot(&self) -> Option<(i64, i64)> {
        let last = self.node.metrics().last_snapshot;
        last.map(|(mark, at_s)| (mark.zxid.0, at_s))
    }

    /// The member's mode, as clients see it.
    pub fn mode(&self) -> &'static str {
        match self.ensemble() {
            // `ReadOnlyZooKeeperServer.getState`.
            _ if self.is_read_only() => "read-only",
            Some(ensemble) => ensemble.part.mode(),
            None => "standalone",
        }
    }

    /// The state of the ensemble; none on a standalone server.
    pub fn ensemble(&self) -> Option<Ensemble> {
        self.about.cluster.as_ref().map(|cluster| Ensemble::of(&self.node, cluster))
    }

    /// The members of the ensemble, as this one knows them; none on a standalone server.
    pub fn members(&self) -> Option<MembersView> {
        self.about.cluster.as_ref().map(|_| MembersView::of(&self.node))
    }

    /// Asks the member to hand leadership to server `to`, or to the server that is least behind.
    /// False if this member does not lead, or that server cannot lead.
    pub fn hand_over(&self, to: Option<u32>) -> bool {
        let Some(number) = to else { return self.node.hand_over(None) };
        let voters = self.node.voters();
        let registered = self.servers();
        let of_number =
            registered.members().iter().filter(|(_, server)| **server == u64::from(number));
        let member = of_number.map(|(member, _)| *member).find(|it| voters.contains(&it.0));
        member.is_some_and(|member| self.node.hand_over(Some(member)))
    }

    /// Asks to raise the level of the ensemble to the highest that this version knows. Returns that
    /// level; [`Monitor::level`] shows when the state has it.
    ///
    /// # Errors
    /// The level cannot be raised, and stays as it is.
    pub fn upgrade(&self) -> Result<Level, RaiseRefused> {
        self.node.upgrade()
    }

    /// The level of the state.
    pub fn level(&self) -> Level {
        self.look(|machine| machine.control().level().level)
    }

    /// The servers of the ensemble in the replicated state; none on a standalone server.
    pub fn servers(&self) -> Servers {
        self.look(|machine| machine.control().servers().clone())
    }

    /// The number of the leading server, if it is known.
    pub fn leader(&self) -> Option<u32> {
        let (cluster, ensemble) = (self.about.cluster.as_ref()?, self.ensemble()?);
        match ensemble.part {
            Part::Leading => Some(cluster.number),
            _ => {
                let leader = ensemble.leader?;
                let number = self.look(|machine| machine.control().servers().number_of(leader));
                u32::try_from(number?).ok()
            }
        }
    }

    /// Whether the chunk store is served, and a text for a probe; `None` if no chunk store is
    /// configured.
    pub fn chunk_health(&self) -> Option<(bool, String)> {
        self.chunks.as_ref().map(|chunks| chunks.health())
    }

    /// Whether clients are served: without a leader they are not
    /// (`AbstractFourLetterCommand.isZKServerRunning`).
    pub fn is_serving(&self) -> bool {
        self.ensemble().is_none_or(|ensemble| ensemble.part != Part::Looking)
    }

    /// Whether clients are served reads only (`readonlymode.enabled`).
    pub fn is_read_only(&self) -> bool {
        let after_ms = self.about.read_only_after_ms;
        let silent_ms = self.node.contact_silent_ms();
        after_ms.zip(silent_ms).is_some_and(|(after_ms, silent_ms)| silent_ms >= after_ms)
    }

    /// Asks every runtime, one after the other.
    async fn ask_each<T>(&self, ask: impl Fn(oneshot::Sender<T>) -> ToRuntime) -> Vec<T> {
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

    /// The counters of all runtimes together.
    pub async fn fronts(&self) -> ZkFrontReport {
        let mut all = ZkFrontReport::default();
        let ask = |sender| ToRuntime::Report(sender);
        self.ask_each(ask).await.iter().for_each(|part| all.merge(part));
        all
    }

    /// The server's numbers.
    pub async fn server(&self) -> ServerReport {
        self.server_of(&self.fronts().await)
    }

    /// The server's numbers, with the given counters of its Fronts.
    pub fn server_of(&self, fronts: &ZkFrontReport) -> ServerReport {
        let (zxid, znodes) = {
            let machine = self.node.machine().read();
            (machine.mark().zxid.0, machine.zk().tree().znode_count())
        };
        let ensemble = self.ensemble();
        ServerReport {
            version: self.about.version.clone(),
            mode: self.mode(),
            proposal_sizes: ensemble.and_then(|ensemble| ensemble.proposal_sizes()),
            latency: fronts.latency.into(),
            received: fronts.received,
            sent: fronts.sent,
            outstanding: fronts.outstanding,
            zxid,
            // ZooKeeper's tree holds its root twice.
            znode_count: u64::from(znodes) + 1,
            connection_count: fronts.connections,
            connections: Vec::new(),
            connections_missing: 0,
        }
    }

    async fn server_with_connections(&self) -> ServerReport {
        let (connections, connections_missing) = self.connections().await;
        ServerReport { connections, connections_missing, ..self.server().await }
    }

    pub async fn reset(&self, reset: Reset) {
        self.ask_each(|sender| ToRuntime::Reset(reset, sender)).await;
    }

    /// `ServerStats.reset`.
    pub async fn reset_server(&self) {
        let metrics = !self.about.has_prometheus;
        self.reset(Reset::Server { metrics }).await;
        if metrics {
            self.node.reset();
        }
    }

    /// Bytes of the snapshots, and of the log.
    pub fn dirs(&self) -> (u64, u64) {
        let data_dir = &self.about.data_dir;
        let log_dir = self.about.log_dir.as_ref();
        let log = log_dir.unwrap_or(data_dir).join(storage::wal::WAL_DIR);
        let log_bytes = process::folder_bytes(&log);
        let beside = if log.starts_with(data_dir) { log_bytes } else { 0 };
        (process::folder_bytes(data_dir).saturating_sub(beside), log_bytes)
    }
}
