//! The draft of a configuration: the settings that the sources have given so far. [`Draft::finish`]
//! makes the configuration.

use std::collections::BTreeMap;

use machine::Level;
use member::spaces::zk::containers::ContainerSettings;

use super::auth::AuthDraft;
use super::chunk::ChunkDraft;
use super::cluster::{ClusterConfig, ClusterDraft};
use super::etcd::EtcdDraft;
use super::listeners::ListenersDraft;
use super::logging::LoggingConfig;
use super::monitoring::MonitoringDraft;
use super::report::{ConfigError, Report, Warning};
use super::requests::RequestsDraft;
use super::serve_config::{ServeConfig, SourceConfig};
use super::sessions::SessionsDraft;
use super::storage::StorageDraft;
use super::tls::{TlsConfig, TlsDraft};
use super::values::RECONFIG_NEEDS_LEVEL;

/// The settings that the sources have given so far. `None` means that no source has set one; a
/// later source overwrites an earlier one.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub report: Report,
    pub initial_config: String,
    pub system_properties: BTreeMap<String, String>,
    pub storage: StorageDraft,
    pub listeners: ListenersDraft,
    pub tls: TlsDraft,
    /// TLS for clients from etcd's flags; `Some` replaces what is in `tls`.
    pub given_tls: Option<TlsConfig>,
    pub sessions: SessionsDraft,
    pub requests: RequestsDraft,
    pub container: ContainerSettings,
    pub logging: LoggingConfig,
    pub monitoring: MonitoringDraft,
    /// Whether HTTP refuses requests that pages of other sites make a browser send.
    pub refuses_foreign_pages: bool,
    pub chunk: ChunkDraft,
    pub etcd: EtcdDraft,
    pub replicated: machine::Settings,
    pub auth: AuthDraft,
    pub cluster: ClusterDraft,
    /// Whether the default faces are served, because no source names a face.
    pub has_default_faces: bool,
}

impl Draft {
    /// If no source names a face and there is no file, serves the default faces: ZooKeeper, etcd,
    /// and one port for the admin server and metrics, all on loopback.
    pub fn name_default_faces(&mut self) {
        let is_named = self.listeners.is_named()
            || self.monitoring.is_named()
            || self.etcd.is_served()
            || self.chunk.is_served();
        let has_source = self.report.file.is_some() || self.report.is_zoo_cfg;
        self.has_default_faces = !is_named && !has_source;
        if self.has_default_faces {
            // A state of a lower level has no etcd keys.
            if self.storage.level_max.is_none_or(|level| level >= Level::ETCD) {
                self.etcd.name_default();
            }
            self.monitoring.name_default();
            self.refuses_foreign_pages = true;
        }
        // A configuration file that names no port for ZooKeeper's clients has the default one.
        self.listeners.has_zk_default = self.has_default_faces || has_source;
    }

    /// Fills in the defaults, and checks rules that span several settings.
    pub fn finish(
        mut self,
        mut cluster: Option<ClusterConfig>,
    ) -> Result<(ServeConfig, Vec<Warning>), ConfigError> {
        let sessions = std::mem::take(&mut self.sessions).finish(&self.report)?;
        let port_unification = self.tls.port_unification();
        let speaks_zk = self.listeners.zk_tls_addr.is_some() || port_unification;
        let is_spoken = speaks_zk || self.chunk.tls_addr.is_some() || self.etcd.tls_addr.is_some();
        let tls = match self.given_tls.take() {
            Some(given) => Some(given),
            None => self.tls.settle(is_spoken, &mut self.report)?,
        };
        // As in QuorumPeerConfig.configureSSLAuth. All members must agree on this setting, so a TLS
        // port for chunks must not switch it on: some members may have one and others not.
        self.replicated.x509_enabled |= speaks_zk;
        // Under etcd's name a list of one server needs no such key.
        let is_said = cluster.as_ref().is_some_and(|cluster| cluster.listens_by_list.is_some());
        self.replicated.standalone_enabled = self.cluster.standalone_enabled || !is_said;
        let auth = std::mem::take(&mut self.auth);
        let auth = auth.settle(&self.replicated, tls.as_ref(), &mut self.report)?;
        self.check_required(cluster.as_ref())?;
        if self.storage.level_max.is_some_and(|it| it >= Level::MEMBERS) {
            self.report.warnings.retain(|warning| warning.message != RECONFIG_NEEDS_LEVEL);
        }
        if self.etcd.is_served() && self.storage.level_max.is_some_and(|it| it < Level::ETCD) {
            let cause = format!("etcd's clients need level {}", Level::ETCD);
            return Err(self.report.missing(cause));
        }
        if self.etcd.has_v2 && self.storage.level_max.is_some_and(|it| it < Level::ETCD_V2) {
            let cause = format!("clients of etcd v2 need level {}", Level::ETCD_V2);
            return Err(self.report.missing(cause));
        }
        let (mut etcd, etcd_keys) =
            self.etcd.finish().map_err(|cause| self.report.missing(cause))?;
        if let Some(etcd) = &mut etcd {
            etcd.about.refuses_foreign_pages = self.refuses_foreign_pages;
        }
        if let (Some(cluster), Some(etcd)) = (&mut cluster, &etcd) {
            cluster.tell_client_urls(&etcd.about.client_urls);
        }
        let config = ServeConfig {
            storage: self.storage.finish(),
            listeners: self.listeners.finish(port_unification, &sessions),
            tls,
            sessions,
            requests: self.requests.finish(&mut self.report),
            container: self.container,
            logging: self.logging,
            monitoring: self.monitoring.finish(self.refuses_foreign_pages),
            chunk: self.chunk.finish(),
            etcd,
            etcd_keys,
            replicated: self.replicated,
            auth,
            my_id: self.cluster.own.my_id,
            cluster,
            has_default_faces: self.has_default_faces,
            source: SourceConfig {
                is_zoo_cfg: self.report.is_zoo_cfg && self.report.file.is_some(),
                file: self.report.file,
                initial_config: self.initial_config,
                system_properties: self.system_properties,
            },
        };
        Ok((config, self.report.warnings))
    }

    /// Refuses a `zoo.cfg` that lacks a required key.
    fn check_required(&self, cluster: Option<&ClusterConfig>) -> Result<(), ConfigError> {
        if !self.report.is_zoo_cfg {
            return Ok(());
        }
        if self.storage.data_dir.is_none() {
            return Err(self.report.missing("dataDir is not set"));
        }
        if self.listeners.zk_addr.is_some() || self.listeners.zk_tls_addr.is_some() {
            return Ok(());
        }
        let has_servers = cluster.is_some() || self.cluster.first_place().is_some();
        Err(self.report.missing(if has_servers {
            "clientPort is not set, and no server.N line with this member's myid names one"
        } else {
            "clientPort is not set"
        }))
    }
}
