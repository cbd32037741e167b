//! Shows a server to ZooKeeper's operators: makes the answers to four-letter words, and the metrics
//! under ZooKeeper's names. The figures come from [`crate::observe`]. All of this runs on one
//! thread, [`crate::monitor_thread`].

pub mod images;

mod metrics;

use std::cell::{Cell, OnceCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use config::ImageConfig;
use images::Images;
use machine::Level;
use member::RaiseRefused;
use member::fronts::zk::{Reset, ZkFrontReport};
use zk::four_letter::{self, ConfReport, ServerReport, TRACE_MASK_DEFAULT, Word};

use crate::listen_zk::{Question, ToRuntime};
use crate::observe::metric::{Metric, flat};
use crate::observe::{MemberFacts, Observer};

/// Texts about the server that do not change, for four-letter words and admin commands.
pub struct About {
    /// The name and version of the server.
    pub version: String,
    /// The lines for `conf` and `envi`.
    pub conf: ConfReport,
    /// The text of the configuration file as it was when the server started.
    pub initial_config: String,
    /// The Java properties that a ZooKeeper server with this configuration would have, by name.
    pub system_properties: BTreeMap<String, String>,
    /// Whether Prometheus reads the metrics. Then `srst` must not reset counters.
    pub has_prometheus: bool,
}

/// Answers ZooKeeper operators.
pub struct Monitor {
    /// Gathers the figures from the member, the faces and the process.
    pub observer: Observer,
    about: About,
    /// The trace mask, which the server only stores and shows.
    trace_mask: Cell<i64>,
    images: Images,
}

/// The monitor of a server; empty until the server has started.
pub type Started = Rc<OnceCell<Monitor>>;

impl Monitor {
    pub fn new(observer: Observer, about: About, images: ImageConfig) -> Monitor {
        let trace_mask = Cell::new(TRACE_MASK_DEFAULT);
        let images = Images::new(images);
        Monitor { observer, about, trace_mask, images }
    }

    /// Answers a four-letter word of a client.
    pub async fn answer(&self, question: Question) {
        let text = self.answer_to(question.word).await;
        let answer = ToRuntime::Answer(question.connection, text);
        // Sending fails only while the process ends.
        let _ = self.observer.face.runtimes[question.runtime].send(answer).await;
    }

    /// The answer to a four-letter word.
    async fn answer_to(&self, word: Word) -> String {
        let About { version, conf, .. } = &self.about;
        let observer = &self.observer;
        match word {
            // ZooKeeper's `TraceMaskCommand` and `SetTraceMaskCommand` work even if the server does
            // not serve.
            Word::Gtmk | Word::Stmk { .. } => {}
            word if !observer.is_serving() && !observer.is_read_only() => {
                return four_letter::while_not_serving(word, version, conf);
            }
            _ => {}
        }
        match word {
            Word::Ruok => four_letter::RUOK.to_string(),
            Word::Isro => if observer.is_read_only() { "ro" } else { "rw" }.to_string(),
            Word::Conf => {
                let (data_bytes, log_bytes) = observer.dirs();
                four_letter::conf(conf, data_bytes, log_bytes)
            }
            Word::Envi => four_letter::environment(version, conf),
            Word::Dirs => {
                let (data_bytes, log_bytes) = observer.dirs();
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
            Word::Dump => four_letter::dump(&observer.dump().await),
            Word::Wchc => four_letter::watches_by_session(&observer.watches().await),
            Word::Wchp => four_letter::watches_by_path(&observer.watches().await),
            Word::Wchs => four_letter::watch_summary(&observer.watch_summary().await),
            Word::Mntr => {
                let peer_state = observer.part().map(|part| part.peer_state());
                four_letter::mntr(
                    version,
                    observer.mode(),
                    peer_state,
                    &flat(&self.metrics().await),
                )
            }
            Word::Gtmk => self.trace_mask().to_string(),
            Word::Stmk { mask } => {
                self.set_trace_mask(mask);
                mask.to_string()
            }
            // `hash` lists digests of the state by zxid, and this server keeps none.
            Word::Hash | Word::TelnetClose => String::new(),
        }
    }

    /// The texts about this server.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// The trace mask that `gtmk` shows.
    pub fn trace_mask(&self) -> i64 {
        self.trace_mask.get()
    }

    /// Sets the trace mask that `gtmk` shows.
    pub fn set_trace_mask(&self, mask: i64) {
        self.trace_mask.set(mask);
    }

    /// Asks the member to hand leadership to server `to`, or to the server that lags least. False
    /// if this member does not lead, or that server cannot lead.
    pub fn hand_over(&self, to: Option<u32>) -> bool {
        let node = &self.observer.node;
        let Some(number) = to else { return node.hand_over(None) };
        let voters = node.voters();
        let registered = self.observer.servers();
        let of_number =
            registered.members().iter().filter(|(_, server)| **server == u64::from(number));
        let member = of_number.map(|(member, _)| *member).find(|it| voters.contains(&it.0));
        member.is_some_and(|member| node.hand_over(Some(member)))
    }

    /// Asks this member, which must lead or be a standalone server, to raise the level to the
    /// highest that this version knows. Returns that level; [`Observer::level`] shows when it is
    /// applied.
    ///
    /// # Errors
    /// The level cannot be raised, and stays as it is.
    pub fn upgrade(&self) -> Result<Level, RaiseRefused> {
        self.observer.node.upgrade()
    }

    /// The server's figures that `srvr` shows, gathered from the member and the connection
    /// runtimes.
    pub async fn server(&self) -> ServerReport {
        self.server_of(&self.observer.member(), &self.observer.zk_fronts().await)
    }

    /// The server's figures that `srvr` shows, computed from these facts.
    pub fn server_of(&self, facts: &MemberFacts, fronts: &ZkFrontReport) -> ServerReport {
        let ensemble = self.observer.ensemble(facts);
        ServerReport {
            version: self.about.version.clone(),
            mode: self.observer.mode(),
            proposal_sizes: ensemble.and_then(|ensemble| metrics::proposal_sizes(&ensemble, facts)),
            latency: fronts.latency.into(),
            received: fronts.received,
            sent: fronts.sent,
            outstanding: fronts.outstanding,
            zxid: facts.state.mark.zxid.0,
            // ZooKeeper counts its root twice.
            znode_count: facts.state.zk.znode_count + 1,
            connection_count: fronts.connections,
            connections: Vec::new(),
            connections_missing: 0,
        }
    }

    async fn server_with_connections(&self) -> ServerReport {
        let (connections, connections_missing) = self.observer.connections().await;
        ServerReport { connections, connections_missing, ..self.server().await }
    }

    pub async fn reset(&self, reset: Reset) {
        self.observer.ask_each(|sender| ToRuntime::Reset(reset, sender)).await;
    }

    /// Resets the server's counters (`ServerStats.reset`), but not its metrics if Prometheus reads
    /// them.
    pub async fn reset_server(&self) {
        let metrics = !self.about.has_prometheus;
        self.reset(Reset::Server { metrics }).await;
        if metrics {
            self.observer.node.reset();
        }
    }
}
