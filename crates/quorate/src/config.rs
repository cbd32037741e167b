//! The configuration of a server: command line, file and environment become one [`ServeConfig`].
//!
//! A file is ZooKeeper's `zoo.cfg` or our own `quorate.toml`, told apart by content. In a
//! `zoo.cfg` every key means what it means in ZooKeeper 3.9 (`QuorumPeerConfig`, and the classes
//! that read the `zookeeper.*` properties); a key that is unknown, or known and not built, is a
//! [`Warning`]. In a `quorate.toml` an unknown key is an error.
//!
//! Of one setting the command line wins over the file, the file over a `-D` property of
//! `JVMFLAGS` (as in ZooKeeper, where the file is read into the properties), and that over the
//! default. Without a file the variables of ZooKeeper's container image (`ZOO_*`) stand for one.
//! [`load_from`] is pure: files and environment are its arguments.

pub mod chunk;
pub mod cluster;
mod container_env;
pub(crate) mod jaas;
pub mod masked;
mod monitoring;
pub(crate) mod properties;
mod sasl;
mod throttle;
pub mod tls;
mod toml_file;
mod units;
mod zoo_cfg;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use member::leader::containers::ContainerSettings;
use member::limits::{
    DISK_STALL_MS, DISK_STALL_MS_MAX, FRONT_COMMANDS_MAX, SESSIONLESS_MS_DEFAULT,
    SNAPSHOT_LOG_BYTES_DEFAULT,
};
use member::throttle::ThrottleConfig;
use member::zk_front::auth::{AuthConfig, EnsembleNames};

use crate::cli::ServeArgs;
use monitoring::{AdminDraft, MetricsDraft};

pub use chunk::{ChunkConfig, layout_name, parse_layout};
pub use cluster::ClusterConfig;
pub use container_env::ContainerEnv;
pub use monitoring::{ADMIN_PORT_DEFAULT, AdminConfig, ImageConfig, MetricsConfig};
pub use units::parse_ms;

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

/// The four-letter words that are answered (`4lw.commands.whitelist`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FourLetterWords {
    /// `*`.
    All,
    /// These and, as in `FourLetterCommands`, always `srvr`.
    Listed(BTreeSet<String>),
}

impl FourLetterWords {
    /// The words that may be executed; `*` is all.
    pub fn allowed(&self) -> Vec<String> {
        match self {
            FourLetterWords::All => vec!["*".to_string()],
            FourLetterWords::Listed(words) => {
                let srvr = "srvr".to_string();
                words.iter().filter(|word| **word != srvr).cloned().chain([srvr.clone()]).collect()
            }
        }
    }
}

/// An address to listen on, before names are looked up. `host` is none for every local address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenAddress {
    pub host: Option<String>,
    pub port: u16,
}

impl ListenAddress {
    /// The addresses to try in this order; the first that can be bound is the one. For every
    /// local address that is IPv6 with IPv4 mapped into it, then IPv4 alone for a host without
    /// IPv6; a peer's address must then be read with `IpAddr::to_canonical`.
    pub fn candidates(&self) -> io::Result<Vec<SocketAddr>> {
        match &self.host {
            None => Ok(vec![
                SocketAddr::from((Ipv6Addr::UNSPECIFIED, self.port)),
                SocketAddr::from((Ipv4Addr::UNSPECIFIED, self.port)),
            ]),
            Some(host) => Ok((host.as_str(), self.port).to_socket_addrs()?.collect()),
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            None => write!(f, "*:{}", self.port),
            Some(host) if host.contains(':') => write!(f, "[{host}]:{}", self.port),
            Some(host) => write!(f, "{host}:{}", self.port),
        }
    }
}

impl FromStr for ListenAddress {
    type Err = String;

    /// Reads `HOST:PORT`, `[IPV6]:PORT`, or `*:PORT` and `:PORT` for every local address.
    fn from_str(text: &str) -> Result<Self, String> {
        let malformed = || format!("{text:?} is not an address; write it like 127.0.0.1:2181");
        let (host, port) = text.rsplit_once(':').ok_or_else(malformed)?;
        let port = port.parse().map_err(|_| malformed())?;
        let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
        let host = match (bare, host) {
            (Some(inside), _) if inside.parse::<Ipv6Addr>().is_ok() => Some(inside.to_string()),
            (None, "" | "*") => None,
            (None, name) if !name.contains(|c: char| c == ':' || c.is_whitespace()) => {
                Some(name.to_string())
            }
            _ => return Err(malformed()),
        };
        Ok(ListenAddress { host, port })
    }
}

/// Where a setting was found: a file and, where it has one, the line (from 1); or the name of an
/// environment variable or an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub file: String,
    pub line: Option<u32>,
}

impl Place {
    fn of(file: &str) -> Place {
        Place { file: file.to_string(), line: None }
    }

    fn at(file: &str, line: u32) -> Place {
        Place { file: file.to_string(), line: Some(line) }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}", self.file),
            None => f.write_str(&self.file),
        }
    }
}

/// Something in the configuration that does not do what its author may expect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    pub severity: Severity,
    pub place: Place,
    pub key: String,
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.place, self.key, self.message)
    }
}

/// How loud a [`Warning`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// For the log at its usual level: the server differs from what was asked for.
    Warning,
    /// For a debug log: nothing was lost.
    Note,
}

/// Why a configuration cannot be used. Each is one line that names file, line and cause.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("{file}: cannot be read: {cause}")]
    Unreadable { file: String, cause: String },
    #[error("{place}: {cause}")]
    Malformed { place: Place, cause: String },
    #[error("{place}: {key}: {cause}")]
    Invalid { place: Place, key: String, cause: String },
}

/// The environment variables that a configuration is read from.
#[derive(Clone, Debug, Default)]
pub struct Env {
    /// `SERVER_JVMFLAGS`; `zkServer.sh` puts it in front of the other.
    pub server_jvmflags: Option<String>,
    /// `JVMFLAGS`; of one property the last definition counts, so this one wins.
    pub jvmflags: Option<String>,
    /// `ZOO_*`, the variables of ZooKeeper's container image.
    pub container: ContainerEnv,
}

impl Env {
    /// Reads all of them from the environment of this process.
    pub fn of_process() -> Env {
        let text = |name| std::env::var_os(name).map(|v| v.to_string_lossy().into_owned());
        let variables = std::env::vars_os().map(|(name, value)| {
            (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned())
        });
        Env {
            server_jvmflags: text("SERVER_JVMFLAGS"),
            jvmflags: text("JVMFLAGS"),
            container: variables.filter(|(name, _)| name.starts_with("ZOO_")).collect(),
        }
    }
}

/// Reads the text of a file; `Ok(None)` when there is none.
pub type ReadFile<'a> = &'a dyn Fn(&Path) -> io::Result<Option<String>>;

/// The configuration of `quorate serve` with these options in this environment.
pub fn load(args: &ServeArgs, env: &Env) -> Result<(ServeConfig, Vec<Warning>), ConfigError> {
    load_from(args, env, &read_file)
}

/// As [`load`], with every file read by `read`.
pub fn load_from(
    args: &ServeArgs,
    env: &Env,
    read: ReadFile<'_>,
) -> Result<(ServeConfig, Vec<Warning>), ConfigError> {
    let mut draft = Draft::default();
    for (name, flags) in [("SERVER_JVMFLAGS", &env.server_jvmflags), ("JVMFLAGS", &env.jvmflags)] {
        zoo_cfg::apply_jvm_flags(&mut draft, name, flags.as_deref().unwrap_or(""))?;
    }
    let mounted = container_env::mounted_file(&env.container);
    let mounted = mounted.filter(|path| matches!(read(path), Ok(Some(_))));
    if let Some(path) = args.file().or(mounted.as_deref()) {
        let file = path.display().to_string();
        let text = must_read(read, path)?;
        draft.file = Some(file.clone());
        if toml_file::recognises(path, &text) {
            draft.initial_config = masked::toml(&text);
            toml_file::apply(&mut draft, &file, &text)?;
        } else {
            draft.is_zoo_cfg = true;
            draft.initial_config = masked::zoo_cfg(&text);
            zoo_cfg::apply(&mut draft, &file, &text, read)?;
        }
    } else if env.container.keys().any(|name| container_env::is_one(name)) {
        draft.is_zoo_cfg = true;
        container_env::apply(&mut draft, &env.container)?;
        zoo_cfg::settle_client_address(&mut draft)?;
    }
    if let Some(data_dir) = &args.data_dir {
        draft.data_dir = Some(data_dir.clone());
    }
    let cluster = cluster::settle(&mut draft, read)?;
    if let Some(zk_addr) = &args.zk_addr {
        draft.zk_addr = Some(zk_addr.clone());
    }
    if let Some(admin_addr) = &args.admin_addr {
        draft.admin.addr = Some(admin_addr.clone());
    }
    if let Some(metrics_addr) = &args.metrics_addr {
        draft.metrics.addr = Some(metrics_addr.clone());
    }
    if let Some(chunk_addr) = &args.chunk_addr {
        draft.chunk.addr = Some(chunk_addr.clone());
    }
    if let Some(chunk_tls_addr) = &args.chunk_tls_addr {
        draft.chunk.tls_addr = Some(chunk_tls_addr.clone());
    }
    if let Some(chunk_dir) = &args.chunk_dir {
        draft.chunk.dir = Some(chunk_dir.clone());
    }
    if let Some(layout) = args.chunk_layout {
        draft.chunk.layout = Some(layout);
    }
    draft.chunk.verify_writes |= args.chunk_verify_writes;
    draft.sasl_users = sasl::settle(&mut draft, read)?;
    draft.finish(cluster)
}

/// Reads a file that must be there.
fn must_read(read: ReadFile<'_>, path: &Path) -> Result<String, ConfigError> {
    let unreadable =
        |cause: String| ConfigError::Unreadable { file: path.display().to_string(), cause };
    match read(path) {
        Ok(Some(text)) => Ok(text),
        Ok(None) => Err(unreadable("there is no such file".to_string())),
        Err(error) => Err(unreadable(error.to_string())),
    }
}

/// The text of a file. Bytes that are not UTF-8 are read as ISO 8859-1, as Java reads properties.
fn read_file(path: &Path) -> io::Result<Option<String>> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => error.into_bytes().iter().map(|&b| char::from(b)).collect(),
        })),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// What the sources said so far; none where nobody has spoken. Later sources overwrite.
#[derive(Debug, Default)]
struct Draft {
    file: Option<String>,
    is_zoo_cfg: bool,
    warnings: Vec<Warning>,

    data_dir: Option<PathBuf>,
    is_data_dir_required: bool,
    log_dir: Option<PathBuf>,
    zk_addr: Option<ListenAddress>,
    tick_ms: Option<u32>,
    session_timeout_ms_min: Option<u32>,
    session_timeout_ms_max: Option<u32>,
    session_timeout_place: Option<Place>,
    connections_per_ip_max: Option<u32>,
    connections_max: Option<u32>,
    listen_backlog: Option<u32>,
    client_keep_alive: Option<bool>,
    four_letter_words: Option<FourLetterWords>,
    read_only_mode: bool,
    jute_bytes_max: Option<u32>,
    commands_in_flight_max: Option<u32>,
    throttled_op_wait_ms: u64,
    reply_bytes_max: Option<u64>,
    sessionless_ms_max: Option<u64>,
    throttle: throttle::ThrottleDraft,
    snapshot_command_count: Option<u32>,
    /// The outer none: not said; the inner: switched off.
    snapshot_log_bytes: Option<Option<u64>>,
    disk_stall_ms: Option<u64>,
    container: ContainerSettings,
    fsync_warning_ms: Option<u64>,
    metrics: MetricsDraft,
    admin: AdminDraft,
    chunk: chunk::ChunkDraft,
    audit: bool,
    log_filter: Option<String>,
    slow_request_ms: Option<u64>,
    initial_config: String,
    system_properties: BTreeMap<String, String>,
    replicated: machine::Settings,
    ensemble_auth_names: Option<BTreeSet<String>>,
    ensemble_auth_provider: bool,
    enforce_auth: bool,
    enforce_auth_schemes: BTreeSet<String>,
    client_sasl_required: bool,
    sasl: sasl::SaslKeys,
    sasl_users: Option<BTreeMap<String, String>>,
    sasl_failed_allowed: bool,
    my_id: Option<u64>,
    cluster: cluster::ClusterDraft,
    zoo: zoo_cfg::FileKeys,
    tls: tls::TlsDraft,
}

impl Draft {
    /// Takes a bound of the writes under way: of several the smallest counts.
    fn bound_commands(&mut self, max: u32) {
        let bound = self.commands_in_flight_max;
        self.commands_in_flight_max = Some(bound.map_or(max, |bound| bound.min(max)));
    }

    fn warn(&mut self, place: &Place, key: &str, message: impl Into<String>) {
        self.report(Severity::Warning, place, key, message.into());
    }

    fn note(&mut self, place: &Place, key: &str, message: impl Into<String>) {
        self.report(Severity::Note, place, key, message.into());
    }

    fn report(&mut self, severity: Severity, place: &Place, key: &str, message: String) {
        let (place, key) = (place.clone(), key.to_string());
        self.warnings.push(Warning { severity, place, key, message });
    }

    /// The place for a complaint about the configuration as a whole.
    fn whole(&self) -> Place {
        Place::of(self.file.as_deref().unwrap_or("configuration"))
    }

    /// Fills in the defaults and checks what spans several settings.
    fn finish(
        mut self,
        cluster: Option<ClusterConfig>,
    ) -> Result<(ServeConfig, Vec<Warning>), ConfigError> {
        let tick_ms = self.tick_ms.unwrap_or(TICK_MS_DEFAULT);
        let ticks = |count: u32| tick_ms.saturating_mul(count).min(i32::MAX.unsigned_abs());
        let session_timeout_ms_min = self.session_timeout_ms_min.unwrap_or(ticks(2));
        let session_timeout_ms_max = self.session_timeout_ms_max.unwrap_or(ticks(20));
        if session_timeout_ms_min > session_timeout_ms_max {
            return Err(ConfigError::Malformed {
                place: self.session_timeout_place.clone().unwrap_or_else(|| self.whole()),
                cause: format!(
                    "the smallest session timeout, {session_timeout_ms_min} ms, is above the \
                     largest, {session_timeout_ms_max} ms"
                ),
            });
        }
        self.replicated.ensemble = cluster.as_ref().map(ClusterConfig::to_string);
        let port_unification = self.tls.port_unification();
        let tls = tls::settle(&mut self)?;
        let enforce_auth_schemes = self.settle_enforced_schemes(tls.as_ref())?;
        let ensemble = self.settle_ensemble_names();
        let throttle = throttle::settle(&mut self);
        let default_addr =
            ListenAddress { host: Some(Ipv4Addr::LOCALHOST.to_string()), port: ZK_PORT_DEFAULT };
        if self.is_zoo_cfg && self.data_dir.is_none() {
            return Err(self.missing("dataDir is not set"));
        }
        let only_tls = self.zk_addr.is_none() && self.tls.address.is_some();
        if self.is_zoo_cfg && self.zk_addr.is_none() && !only_tls {
            let has_servers = cluster.is_some() || self.cluster.first_place().is_some();
            return Err(self.missing(match has_servers {
                true => {
                    "clientPort is not set, and no server.N line with this member's myid names one"
                }
                false => "clientPort is not set",
            }));
        }
        let data_dir = self.data_dir.unwrap_or_else(|| PathBuf::from(DATA_DIR_DEFAULT));
        let config = ServeConfig {
            log_dir: self.log_dir.filter(|log_dir| *log_dir != data_dir),
            data_dir,
            is_data_dir_required: self.is_data_dir_required,
            zk_addr_configured: self.zk_addr.is_some(),
            zk_addr: self.zk_addr.or((!only_tls).then_some(default_addr)),
            zk_tls_addr: self.tls.address,
            port_unification,
            tls,
            tick_ms,
            session_timeout_ms_min,
            session_timeout_ms_max,
            connections_per_ip_max: self
                .connections_per_ip_max
                .unwrap_or(CONNECTIONS_PER_IP_MAX_DEFAULT),
            connections_max: self.connections_max.unwrap_or(0),
            listen_backlog: self.listen_backlog,
            client_keep_alive: self.client_keep_alive.unwrap_or(false),
            four_letter_words: settle_words(self.four_letter_words, self.read_only_mode),
            read_only_mode: self.read_only_mode,
            jute_bytes_max: self.jute_bytes_max.unwrap_or(JUTE_BYTES_MAX_DEFAULT),
            commands_in_flight_max: self.commands_in_flight_max,
            throttled_op_wait_ms: self.throttled_op_wait_ms,
            reply_bytes_max: self.reply_bytes_max,
            sessionless_ms_max: self.sessionless_ms_max.unwrap_or(SESSIONLESS_MS_DEFAULT),
            throttle,
            snapshot_command_count: self.snapshot_command_count,
            snapshot_log_bytes: self.snapshot_log_bytes.unwrap_or(Some(SNAPSHOT_LOG_BYTES_DEFAULT)),
            disk_stall_ms: self.disk_stall_ms.unwrap_or(DISK_STALL_MS),
            container: self.container,
            metrics: self.metrics.finish(),
            chunk: self.chunk.finish(),
            images: self.admin.images.clone(),
            admin: self.admin.finish(),
            audit: self.audit,
            log_filter: self.log_filter,
            slow_request_ms: self.slow_request_ms,
            initial_config: self.initial_config,
            system_properties: self.system_properties,
            fsync_warning_ms: self.fsync_warning_ms.unwrap_or(FSYNC_WARNING_MS_DEFAULT),
            replicated: self.replicated,
            auth: AuthConfig {
                sasl_super_users: self.sasl.super_users(),
                sasl_users: self.sasl_users,
                sasl_failed_allowed: self.sasl_failed_allowed,
                ensemble,
                enforced_schemes: enforce_auth_schemes,
            },
            my_id: self.my_id,
            cluster,
            file: self.file,
        };
        Ok((config, self.warnings))
    }

    /// The rules of `AuthenticationHelper.validateConfiguredProperties`.
    fn settle_enforced_schemes(
        &mut self,
        tls: Option<&tls::TlsConfig>,
    ) -> Result<BTreeSet<String>, ConfigError> {
        if self.client_sasl_required {
            self.enforce_auth = true;
            self.enforce_auth_schemes = BTreeSet::from(["sasl".to_string()]);
        }
        if !self.enforce_auth {
            return Ok(BTreeSet::new());
        }
        let schemes = std::mem::take(&mut self.enforce_auth_schemes);
        if schemes.is_empty() {
            return Err(self.missing("authentication is enforced, but no scheme is named for it"));
        }
        for scheme in &schemes {
            match scheme.as_str() {
                "ip" => {}
                "digest" if self.replicated.digest_enabled => {}
                "sasl" if self.replicated.sasl_enabled => {
                    if self.sasl_users.is_none() {
                        let place = self.whole();
                        let message = "is required of clients, and there are no users of it: \
                                       it admits nobody";
                        self.warn(&place, scheme, message);
                    }
                }
                "ensemble" if self.ensemble_auth_provider => {
                    let place = self.whole();
                    let message = "is required of clients, and proves nothing: it admits nobody";
                    self.warn(&place, scheme, message);
                }
                "x509" if self.replicated.x509_enabled => {
                    if !tls.is_some_and(tls::TlsConfig::asks_for_certificates) {
                        let place = self.whole();
                        let message = "is required of clients, and no port asks them for a \
                                       certificate: it admits nobody";
                        self.warn(&place, scheme, message);
                    }
                }
                _ => {
                    let cause = format!("the enforced scheme {scheme:?} is not available");
                    return Err(self.missing(cause));
                }
            }
        }
        Ok(schemes)
    }

    /// What the scheme `ensemble` takes, if there is one: names alone do not make it
    /// (`EnsembleAuthenticationProvider`).
    fn settle_ensemble_names(&mut self) -> Option<EnsembleNames> {
        let names = self.ensemble_auth_names.take();
        match (self.ensemble_auth_provider, names) {
            (true, Some(names)) => Some(EnsembleNames::These(names)),
            (true, None) => Some(EnsembleNames::Any),
            (false, Some(_)) => {
                let place = self.whole();
                let message = "has no effect without authProvider.N=\
                               org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider";
                self.warn(&place, "ensembleAuthName", message);
                None
            }
            (false, None) => None,
        }
    }

    fn missing(&self, cause: impl Into<String>) -> ConfigError {
        ConfigError::Malformed { place: self.whole(), cause: cause.into() }
    }
}

/// The allowed words: read-only mode adds `isro`, which its clients ask with
/// (`FourLetterCommands.isEnabled`).
fn settle_words(words: Option<FourLetterWords>, read_only_mode: bool) -> FourLetterWords {
    match words.unwrap_or(FourLetterWords::Listed(BTreeSet::new())) {
        FourLetterWords::All => FourLetterWords::All,
        FourLetterWords::Listed(mut words) => {
            words.insert("srvr".to_string());
            if read_only_mode {
                words.insert("isro".to_string());
            }
            FourLetterWords::Listed(words)
        }
    }
}

/// The hash algorithms a digest may use, by Java's name (which ignores case) and ours.
const DIGEST_ALGORITHMS: [(&str, &str); 10] = [
    ("SHA1", "SHA1"),
    ("SHA-1", "SHA1"),
    ("SHA", "SHA1"),
    ("SHA-224", "SHA-224"),
    ("SHA-256", "SHA-256"),
    ("SHA-384", "SHA-384"),
    ("SHA-512", "SHA-512"),
    ("SHA3-256", "SHA3-256"),
    ("SHA3-384", "SHA3-384"),
    ("SHA3-512", "SHA3-512"),
];

/// How long the log's disk may hang before a leader hands over.
fn disk_stall_ms(ms: u64) -> Result<u64, String> {
    match ms {
        1..=DISK_STALL_MS_MAX => Ok(ms),
        _ => Err(format!("{ms} ms is not between 1 and {DISK_STALL_MS_MAX} ms")),
    }
}

/// The one spelling we keep of a digest algorithm's name.
fn digest_algorithm(name: &str) -> Result<String, String> {
    DIGEST_ALGORITHMS
        .iter()
        .find(|(java, _)| java.eq_ignore_ascii_case(name))
        .map(|(_, ours)| ours.to_string())
        .ok_or_else(|| format!("{name:?} is not a digest algorithm we know"))
}

/// `user:base64(hash)`; nothing for an empty text.
fn super_digest(text: &str) -> Result<Option<String>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    match text.split_once(':') {
        Some((user, hash)) if !user.is_empty() && !hash.is_empty() => Ok(Some(text.to_string())),
        _ => Err("is not of the form user:base64-of-the-hash".to_string()),
    }
}
