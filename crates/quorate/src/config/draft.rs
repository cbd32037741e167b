//! What the sources of a configuration said so far, and what they say together.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::path::PathBuf;

use member::leader::containers::ContainerSettings;
use member::limits::{DISK_STALL_MS, SESSIONLESS_MS_DEFAULT, SNAPSHOT_LOG_BYTES_DEFAULT};
use member::zk_front::auth::{AuthConfig, EnsembleNames};

use super::address::ListenAddress;
use super::chunk::ChunkDraft;
use super::cluster::{ClusterConfig, ClusterDraft};
use super::listeners::{FourLetterWords, settle_words};
use super::monitoring::{AdminDraft, MetricsDraft};
use super::report::{ConfigError, Place, Report, Warning};
use super::sasl::SaslKeys;
use super::serve_config::{
    CONNECTIONS_PER_IP_MAX_DEFAULT, DATA_DIR_DEFAULT, FSYNC_WARNING_MS_DEFAULT,
    JUTE_BYTES_MAX_DEFAULT, ServeConfig, TICK_MS_DEFAULT, ZK_PORT_DEFAULT,
};
use super::throttle::ThrottleDraft;
use super::tls::{TlsConfig, TlsDraft};

/// What the sources said so far; none where nobody has spoken. Later sources overwrite.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub report: Report,
    pub data_dir: Option<PathBuf>,
    pub is_data_dir_required: bool,
    pub log_dir: Option<PathBuf>,
    pub zk_addr: Option<ListenAddress>,
    pub tick_ms: Option<u32>,
    pub session_timeout_ms_min: Option<u32>,
    pub session_timeout_ms_max: Option<u32>,
    pub session_timeout_place: Option<Place>,
    pub connections_per_ip_max: Option<u32>,
    pub connections_max: Option<u32>,
    pub listen_backlog: Option<u32>,
    pub client_keep_alive: Option<bool>,
    pub four_letter_words: Option<FourLetterWords>,
    pub read_only_mode: bool,
    pub jute_bytes_max: Option<u32>,
    pub commands_in_flight_max: Option<u32>,
    pub throttled_op_wait_ms: u64,
    pub reply_bytes_max: Option<u64>,
    pub sessionless_ms_max: Option<u64>,
    pub throttle: ThrottleDraft,
    pub snapshot_command_count: Option<u32>,
    /// The outer none: not said; the inner: switched off.
    pub snapshot_log_bytes: Option<Option<u64>>,
    pub disk_stall_ms: Option<u64>,
    pub container: ContainerSettings,
    pub fsync_warning_ms: Option<u64>,
    pub metrics: MetricsDraft,
    pub admin: AdminDraft,
    pub chunk: ChunkDraft,
    pub audit: bool,
    pub log_filter: Option<String>,
    pub slow_request_ms: Option<u64>,
    pub initial_config: String,
    pub system_properties: BTreeMap<String, String>,
    pub replicated: machine::Settings,
    pub ensemble_auth_names: Option<BTreeSet<String>>,
    pub ensemble_auth_provider: bool,
    pub enforce_auth: bool,
    pub enforce_auth_schemes: BTreeSet<String>,
    pub client_sasl_required: bool,
    pub sasl: SaslKeys,
    pub sasl_users: Option<BTreeMap<String, String>>,
    pub sasl_failed_allowed: bool,
    pub my_id: Option<u64>,
    pub cluster: ClusterDraft,
    pub zoo: FileKeys,
    pub tls: TlsDraft,
}

impl Draft {
    /// Takes a bound of the writes under way: of several the smallest counts.
    pub fn bound_commands(&mut self, max: u32) {
        let bound = self.commands_in_flight_max;
        self.commands_in_flight_max = Some(bound.map_or(max, |bound| bound.min(max)));
    }

    /// Fills in the defaults and checks what spans several settings.
    pub fn finish(
        mut self,
        cluster: Option<ClusterConfig>,
    ) -> Result<(ServeConfig, Vec<Warning>), ConfigError> {
        let tick_ms = self.tick_ms.unwrap_or(TICK_MS_DEFAULT);
        let (session_timeout_ms_min, session_timeout_ms_max) = self.session_timeouts(tick_ms)?;
        self.replicated.ensemble = cluster.as_ref().map(ClusterConfig::to_string);
        let port_unification = self.tls.port_unification();
        let serves_zk_by_tls = self.tls.serves_zk();
        let serves_chunks_by_tls = self.chunk.tls_addr.is_some();
        let tls = self.tls.settle(serves_chunks_by_tls, &mut self.report)?;
        // QuorumPeerConfig.configureSSLAuth. All members have to agree on it, and a port for chunks
        // is nothing that others need to have.
        self.replicated.x509_enabled |= serves_zk_by_tls;
        let enforce_auth_schemes = self.settle_enforced_schemes(tls.as_ref())?;
        let ensemble = self.settle_ensemble_names();
        let default_addr =
            ListenAddress { host: Some(Ipv4Addr::LOCALHOST.to_string()), port: ZK_PORT_DEFAULT };
        let only_tls = self.zk_addr.is_none() && self.tls.address.is_some();
        self.check_required(cluster.as_ref())?;
        let throttle = self.throttle.settle(&mut self.report);
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
            file: self.report.file,
        };
        Ok((config, self.report.warnings))
    }

    /// The shortest and the longest timeout of a session, in ms.
    fn session_timeouts(&self, tick_ms: u32) -> Result<(u32, u32), ConfigError> {
        let ticks = |count: u32| tick_ms.saturating_mul(count).min(i32::MAX.unsigned_abs());
        let min = self.session_timeout_ms_min.unwrap_or(ticks(2));
        let max = self.session_timeout_ms_max.unwrap_or(ticks(20));
        if min <= max {
            return Ok((min, max));
        }
        Err(ConfigError::Malformed {
            place: self.session_timeout_place.clone().unwrap_or_else(|| self.report.whole()),
            cause: format!(
                "the smallest session timeout, {min} ms, is above the largest, {max} ms"
            ),
        })
    }

    /// Refuses a `zoo.cfg` without the keys that it must have.
    fn check_required(&self, cluster: Option<&ClusterConfig>) -> Result<(), ConfigError> {
        if !self.report.is_zoo_cfg {
            return Ok(());
        }
        if self.data_dir.is_none() {
            return Err(self.report.missing("dataDir is not set"));
        }
        if self.zk_addr.is_some() || self.tls.address.is_some() {
            return Ok(());
        }
        let has_servers = cluster.is_some() || self.cluster.first_place().is_some();
        Err(self.report.missing(if has_servers {
            "clientPort is not set, and no server.N line with this member's myid names one"
        } else {
            "clientPort is not set"
        }))
    }

    /// The rules of `AuthenticationHelper.validateConfiguredProperties`.
    fn settle_enforced_schemes(
        &mut self,
        tls: Option<&TlsConfig>,
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
            return Err(self
                .report
                .missing("authentication is enforced, but no scheme is named for it"));
        }
        for scheme in &schemes {
            match scheme.as_str() {
                "ip" => {}
                "digest" if self.replicated.digest_enabled => {}
                "sasl" if self.replicated.sasl_enabled => {
                    if self.sasl_users.is_none() {
                        let place = self.report.whole();
                        let message = "is required of clients, and there are no users of it: \
                                       it admits nobody";
                        self.report.warn(&place, scheme, message);
                    }
                }
                "ensemble" if self.ensemble_auth_provider => {
                    let place = self.report.whole();
                    let message = "is required of clients, and proves nothing: it admits nobody";
                    self.report.warn(&place, scheme, message);
                }
                "x509" if self.replicated.x509_enabled => {
                    if !tls.is_some_and(TlsConfig::asks_for_certificates) {
                        let place = self.report.whole();
                        let message = "is required of clients, and no port asks them for a \
                                       certificate: it admits nobody";
                        self.report.warn(&place, scheme, message);
                    }
                }
                _ => {
                    let cause = format!("the enforced scheme {scheme:?} is not available");
                    return Err(self.report.missing(cause));
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
                let place = self.report.whole();
                let message = "has no effect without authProvider.N=\
                               org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider";
                self.report.warn(&place, "ensembleAuthName", message);
                None
            }
            (false, None) => None,
        }
    }
}

/// What the keys of a file say together, until all of them are seen.
#[derive(Debug, Default)]
pub(super) struct FileKeys {
    pub client_port: Option<(u16, Place)>,
    pub client_port_address: Option<(String, Place)>,
    pub secure_client_port: Option<u16>,
    pub secure_client_port_address: Option<(String, Place)>,
    pub dynamic_file: Option<(PathBuf, Place)>,
}
