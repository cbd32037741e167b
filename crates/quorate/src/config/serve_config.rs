//! What `quorate serve` is told, with every default filled in.

use std::collections::BTreeMap;

use member::leader::containers::ContainerSettings;
use member::zk_front::auth::AuthConfig;

use super::chunk::ChunkConfig;
use super::cluster::ClusterConfig;
use super::listeners::ListenersConfig;
use super::logging::LoggingConfig;
use super::monitoring::MonitoringConfig;
use super::requests::RequestsConfig;
use super::sessions::SessionsConfig;
use super::storage::StorageConfig;
use super::tls::TlsConfig;

/// Everything `quorate serve` needs to know. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct ServeConfig {
    pub source: SourceConfig,
    pub storage: StorageConfig,
    pub listeners: ListenersConfig,
    /// None: TLS is spoken nowhere.
    pub tls: Option<TlsConfig>,
    pub sessions: SessionsConfig,
    pub requests: RequestsConfig,
    /// When containers and TTL znodes are looked for.
    pub container: ContainerSettings,
    pub logging: LoggingConfig,
    pub monitoring: MonitoringConfig,
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

/// What the configuration was read from, as it is shown.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceConfig {
    /// The file this came from, as it was named; none without one.
    pub file: Option<String>,
    /// The text of the file without its secrets, as `initial_configuration` of the admin server
    /// shows it.
    pub initial_config: String,
    /// What ZooKeeper would have as properties of its Java machine.
    pub system_properties: BTreeMap<String, String>,
}
