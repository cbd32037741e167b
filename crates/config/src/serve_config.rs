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
    /// The file that it is from.
    pub source: SourceConfig,
    /// The data and the disk.
    pub storage: StorageConfig,
    /// The ports of ZooKeeper's clients.
    pub listeners: ListenersConfig,
    /// TLS for clients; `None` if no port speaks it.
    pub tls: Option<TlsConfig>,
    /// The sessions.
    pub sessions: SessionsConfig,
    /// The bounds on requests.
    pub requests: RequestsConfig,
    /// How often containers and TTL znodes are looked for.
    pub container: ContainerSettings,
    /// The log.
    pub logging: LoggingConfig,
    /// The admin server and the metrics.
    pub monitoring: MonitoringConfig,
    /// The chunk store, if it is served.
    pub chunk: Option<ChunkConfig>,
    /// The face for etcd's clients, if it is served.
    pub etcd: Option<EtcdConfig>,
    /// The settings of etcd's keys.
    pub etcd_keys: EtcdKeys,
    /// Settings that can change the outcome of a command. They are replicated state: each start
    /// proposes them to the ensemble, and no member reads its own alone.
    pub replicated: machine::Settings,
    /// The proofs that clients give, and whether they must.
    pub auth: AuthConfig,
    /// `myid`, if the data directory or the file has one.
    pub my_id: Option<u64>,
    /// The ensemble of this server; `None` if it is standalone.
    pub cluster: Option<ClusterConfig>,
    /// Whether the faces are the default ones: each is served unless its port is in use.
    pub has_default_faces: bool,
}

/// The sources of the configuration, as they are shown.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceConfig {
    /// The file, as it was named; `None` if there was no file.
    pub file: Option<String>,
    /// The masked text of the file, for `initial_configuration` of the admin server.
    pub initial_config: String,
    /// The properties that ZooKeeper's Java machine would have.
    pub system_properties: BTreeMap<String, String>,
}
