//! The settings of `quorate serve`, with every default filled in.

use std::collections::BTreeMap;

use member::fronts::zk::auth::AuthConfig;
use member::spaces::zk::containers::ContainerSettings;

use super::chunk::ChunkConfig;
use super::cluster::ClusterConfig;
use super::etcd::{EtcdConfig, EtcdKeys};
use super::listeners::ListenersConfig;
use super::logging::LoggingConfig;
use super::monitoring::MonitoringConfig;
use super::requests::RequestsConfig;
use super::sessions::SessionsConfig;
use super::storage::StorageConfig;
use super::tls::TlsConfig;

/// All settings of `quorate serve`. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct ServeConfig {
    /// Where the configuration comes from.
    pub source: SourceConfig,
    /// The data directory, and how the disk is used.
    pub storage: StorageConfig,
    /// The ports for ZooKeeper's clients.
    pub listeners: ListenersConfig,
    /// TLS for clients; `None` if no port speaks TLS.
    pub tls: Option<TlsConfig>,
    /// The timeouts of ZooKeeper's sessions.
    pub sessions: SessionsConfig,
    /// The limits on ZooKeeper's requests.
    pub requests: RequestsConfig,
    /// How often the leader looks for containers and TTL znodes to remove.
    pub container: ContainerSettings,
    /// The settings of the log.
    pub logging: LoggingConfig,
    /// The admin server and the metrics.
    pub monitoring: MonitoringConfig,
    /// The chunk store; `None` if it is not served.
    pub chunk: Option<ChunkConfig>,
    /// The face for etcd's clients; `None` if it is not served.
    pub etcd: Option<EtcdConfig>,
    /// The settings of etcd's keys, which count even if `etcd` is `None`.
    pub etcd_keys: EtcdKeys,
    /// Settings that can change the outcome of a command. They are part of the replicated state: a
    /// leader proposes its own settings if the replicated ones differ, and all members use the
    /// settings that were committed last.
    pub replicated: machine::Settings,
    /// How ZooKeeper's clients authenticate, and which schemes they must use.
    pub auth: AuthConfig,
    /// This server's number, if a source gives one (`myid`).
    pub my_id: Option<u64>,
    /// The ensemble that this server belongs to; `None` if it is standalone.
    pub cluster: Option<ClusterConfig>,
    /// Whether the default faces are served. A default face whose port is in use is left out.
    pub has_default_faces: bool,
}

/// The sources of the configuration, in the form in which the admin server shows them.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceConfig {
    /// The path of the file as it was given; `None` if there was no file.
    pub file: Option<String>,
    /// Whether the file is a `zoo.cfg`.
    pub is_zoo_cfg: bool,
    /// The file's text without secrets, for the admin server's `initial_configuration`.
    pub initial_config: String,
    /// The Java properties that ZooKeeper would have with this configuration.
    pub system_properties: BTreeMap<String, String>,
}
