//! What `quorate serve` is told, with every default filled in.

use std::collections::BTreeMap;
use std::path::PathBuf;

use member::leader::containers::ContainerSettings;
use member::limits::FRONT_COMMANDS_MAX;
use member::throttle::ThrottleConfig;
use member::zk_front::auth::AuthConfig;

use super::address::ListenAddress;
use super::chunk::ChunkConfig;
use super::cluster::ClusterConfig;
use super::listeners::FourLetterWords;
use super::monitoring::{AdminConfig, ImageConfig, MetricsConfig};
use super::tls;

/// Where the data is kept when nothing says otherwise.
pub const DATA_DIR_DEFAULT: &str = "./quorate-data";
/// ZooKeeper's client port, on loopback only unless configured otherwise.
pub const ZK_PORT_DEFAULT: u16 = 2181;
/// `ZooKeeperServer.DEFAULT_TICK_TIME`.
pub const TICK_MS_DEFAULT: u32 = 3_000;
/// `QuorumPeerConfig.maxClientCnxns`.
pub const CONNECTIONS_PER_IP_MAX_DEFAULT: u32 = 60;
/// Length of the accept queue when not configured. Java's 50 makes a thousand clients that come
/// back at once wait for the retransmission of their SYN; the kernel bounds this by `somaxconn`.
pub const LISTEN_BACKLOG_DEFAULT: u32 = 1_024;
/// `BinaryInputArchive.maxBuffer`: one byte less than a mebibyte.
pub const JUTE_BYTES_MAX_DEFAULT: u32 = 0xf_ffff;
/// The largest `jute.maxbuffer` we take; a request must fit into one entry of the log.
pub const JUTE_BYTES_MAX_MAX: u32 = 48 << 20;
/// `FileTxnLog.FSYNC_WARNING_THRESHOLD_MS_PROPERTY`.
pub const FSYNC_WARNING_MS_DEFAULT: u64 = 1_000;
/// The smallest `snapCount` (`ZooKeeperServer.getSnapCount`).
pub const SNAPSHOT_COMMAND_COUNT_MIN: u32 = 2;

const _: () = assert!((JUTE_BYTES_MAX_MAX as usize) < machine::limits::ENTRY_BYTES_MAX);
const _: () = assert!(JUTE_BYTES_MAX_DEFAULT <= JUTE_BYTES_MAX_MAX);

/// Everything `quorate serve` needs to know. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct ServeConfig {
    /// The file this came from, as it was named; none without one.
    pub file: Option<String>,
    pub data_dir: PathBuf,
    /// Whether the start is refused where `data_dir` holds no data (`datadir.autocreate=false`).
    pub is_data_dir_required: bool,
    /// Where the log is kept, if not in `data_dir` (`dataLogDir`).
    pub log_dir: Option<PathBuf>,
    /// Where ZooKeeper clients connect. None: only where they speak TLS.
    pub zk_addr: Option<ListenAddress>,
    /// True when someone chose `zk_addr`: a port in use is then an error, otherwise a warning.
    pub zk_addr_configured: bool,
    /// Where ZooKeeper clients connect by TLS.
    pub zk_tls_addr: Option<ListenAddress>,
    /// Whether `zk_addr` takes clients that speak TLS, too (`client.portUnification`).
    pub port_unification: bool,
    /// None: TLS is spoken nowhere.
    pub tls: Option<tls::TlsConfig>,
    pub tick_ms: u32,
    pub session_timeout_ms_min: u32,
    pub session_timeout_ms_max: u32,
    /// Connections of one client address; 0 means no limit.
    pub connections_per_ip_max: u32,
    /// Connections in all; 0 means no limit.
    pub connections_max: u32,
    /// `clientPortListenBacklog`; none when not configured, which `conf` shows as -1.
    /// See [`ServeConfig::listen_backlog_or_default`].
    pub listen_backlog: Option<u32>,
    /// A standing keep-alive on client connections (`clientTcpKeepAlive`).
    pub client_keep_alive: bool,
    pub four_letter_words: FourLetterWords,
    /// Whether clients that ask for it are served reads without a leader (`readonlymode.enabled`).
    pub read_only_mode: bool,
    /// The largest request (`jute.maxbuffer`); at most [`JUTE_BYTES_MAX_MAX`].
    pub jute_bytes_max: u32,
    /// Writes of all clients that are not yet answered (`request_throttle_max_requests`,
    /// `globalOutstandingLimit`; the smaller one); none: [`member::limits::FRONT_COMMANDS_MAX`] for
    /// each connection runtime.
    pub commands_in_flight_max: Option<u32>,
    /// Requests that wait longer because of that are refused (`throttled_op_wait_time`); 0: never.
    pub throttled_op_wait_ms: u64,
    /// Bytes of a reply to a read; a larger one is refused. None: no bound.
    pub reply_bytes_max: Option<u64>,
    /// How long a connection may be without a session (`nio.sessionlessCnxnTimeout`).
    pub sessionless_ms_max: u64,
    /// How many may ask for a session in a time, and what large requests may take together
    /// (`connection_throttle_*`, `largeRequest*`).
    pub throttle: ThrottleConfig,
    /// Commands after which a snapshot is due (`snapCount`); none: never for their number.
    pub snapshot_command_count: Option<u32>,
    /// Bytes of log after which a snapshot is due (`snapSizeLimitInKb`); none: never for its size.
    pub snapshot_log_bytes: Option<u64>,
    /// How long the log's disk may hang before a leader hands over.
    pub disk_stall_ms: u64,
    /// When containers and TTL znodes are looked for.
    pub container: ContainerSettings,
    /// A write of the log that takes longer is worth a warning (`fsync.warningthresholdms`).
    pub fsync_warning_ms: u64,
    /// The admin server, if it is served.
    pub admin: Option<AdminConfig>,
    /// What it may do with whole states.
    pub images: ImageConfig,
    /// The text of the file without its secrets, as `initial_configuration` of the admin server
    /// shows it.
    pub initial_config: String,
    /// What ZooKeeper would have as properties of its Java machine.
    pub system_properties: BTreeMap<String, String>,
    /// Each write is a line in the log (`audit.enable`).
    pub audit: bool,
    /// Which lines are logged (`quorate.log`); none: as the environment or the options say.
    pub log_filter: Option<String>,
    /// A request that takes longer is a warning; none: no request is.
    pub slow_request_ms: Option<u64>,
    /// Where metrics are served to Prometheus, if they are.
    pub metrics: Option<MetricsConfig>,
    /// The chunk store, if it is served.
    pub chunk: Option<ChunkConfig>,
    /// Settings that can change the outcome of a command. They are replicated state: on start they
    /// are proposed to the ensemble, never read by one member alone.
    pub replicated: machine::Settings,
    /// How clients prove who they are, and whether they must.
    pub auth: AuthConfig,
    /// `myid`, if the data directory or the file gives one.
    pub my_id: Option<u64>,
    /// The ensemble that this server is a member of; none: it is alone.
    pub cluster: Option<ClusterConfig>,
}

impl ServeConfig {
    /// The share of each of `fronts` connection runtimes in the writes that are not yet answered.
    pub fn commands_in_flight_of(&self, fronts: usize) -> usize {
        let share = self.commands_in_flight_max.map(|max| (max as usize / fronts).max(1));
        share.unwrap_or(FRONT_COMMANDS_MAX).min(FRONT_COMMANDS_MAX)
    }

    /// What to hand to `listen(2)`.
    pub fn listen_backlog_or_default(&self) -> u32 {
        self.listen_backlog.unwrap_or(LISTEN_BACKLOG_DEFAULT)
    }
}
