//! The settings of monitoring: metrics over HTTP, and the admin server.
//!
//! The keys of a `zoo.cfg` are those of `PrometheusMetricsProvider`, `QuorumPeerConfig`,
//! `AdminServerFactory` and `JettyAdminServer`. The admin server runs only if a source names it, or
//! as one of the default faces, on loopback; ZooKeeper by default opens its port on every address
//! of the machine.

use super::address::ListenAddress;
use super::values::Fate;

/// The default port of `PrometheusMetricsProvider`.
const METRICS_PORT_DEFAULT: u16 = 7000;

/// The Java class of ZooKeeper that serves metrics over HTTP.
const PROMETHEUS_PROVIDER: &str =
    "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider";

/// Java classes of ZooKeeper that serve no port: only the four-letter word `mntr` shows their
/// metrics.
const QUIET_PROVIDERS: [&str; 2] = [
    "org.apache.zookeeper.metrics.impl.DefaultMetricsProvider",
    "org.apache.zookeeper.metrics.impl.NullMetricsProvider",
];

const NO_PROVIDER: &str = "there is no such provider; metrics are not served over HTTP";

/// The ports of monitoring, and what they serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MonitoringConfig {
    /// Metrics for Prometheus; `None` if they are not served.
    pub metrics: Option<MetricsConfig>,
    /// The admin server; `None` if it is not served.
    pub admin: Option<AdminConfig>,
    /// The limits on snapshots through the admin server.
    pub images: ImageConfig,
    /// Whether requests are refused that pages of other sites make a browser send.
    pub refuses_foreign_pages: bool,
}

/// The settings of monitoring that the sources have given so far.
#[derive(Debug, Default)]
pub(super) struct MonitoringDraft {
    pub metrics: MetricsDraft,
    pub admin: AdminDraft,
}

impl MonitoringDraft {
    /// Whether a setting asks for metrics over HTTP or for the admin server.
    pub fn is_named(&self) -> bool {
        self.admin.is_asked() || self.metrics.is_asked()
    }

    /// Serves the admin server and the metrics on the default port of loopback. A setting can
    /// switch the admin server off. Snapshots are off unless a setting switches them on.
    pub fn name_default(&mut self) {
        let addr = ListenAddress::loopback(ADMIN_PORT_DEFAULT);
        if self.admin.is_enabled != Some(false) {
            self.admin.addr = Some(addr.clone());
        }
        self.metrics.addr = Some(addr);
        self.admin.snapshot.get_or_insert(false);
        self.admin.restore.get_or_insert(false);
    }

    pub fn finish(self, refuses_foreign_pages: bool) -> MonitoringConfig {
        MonitoringConfig {
            metrics: self.metrics.finish(),
            images: self.admin.images(),
            admin: self.admin.finish(),
            refuses_foreign_pages,
        }
    }
}

/// The port for metrics over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsConfig {
    /// The address.
    pub addr: ListenAddress,
    /// Whether metrics about the process are included (`metricsProvider.exportJvmInfo`).
    pub with_process: bool,
}

/// The settings of metrics that the sources have given so far.
#[derive(Debug, Default)]
pub(super) struct MetricsDraft {
    /// The address from our own key or option; it alone switches metrics on.
    pub addr: Option<ListenAddress>,
    /// Whether ZooKeeper's `PrometheusMetricsProvider` is configured.
    pub is_prometheus: bool,
    pub host: Option<String>,
    pub port: Option<u16>,
    pub with_process: Option<bool>,
}

impl MetricsDraft {
    fn is_asked(&self) -> bool {
        self.addr.is_some() || self.is_prometheus
    }

    pub fn finish(self) -> Option<MetricsConfig> {
        let with_process = self.with_process.unwrap_or(true);
        if let Some(addr) = self.addr {
            return Some(MetricsConfig { addr, with_process });
        }
        let host = self.host.filter(|host| host != "0.0.0.0" && host != "::");
        let port = self.port.unwrap_or(METRICS_PORT_DEFAULT);
        let addr = ListenAddress { host, port };
        self.is_prometheus.then_some(MetricsConfig { addr, with_process })
    }

    /// Applies the key `metricsProvider.<name>`.
    pub fn apply(&mut self, name: &str, value: &str) -> Result<Fate, String> {
        match name {
            "className" if value == PROMETHEUS_PROVIDER => self.is_prometheus = true,
            "className" if QUIET_PROVIDERS.contains(&value) => self.is_prometheus = false,
            "className" => return Ok(Fate::Differs(NO_PROVIDER.to_string())),
            "httpHost" => self.host = Some(value.to_string()),
            "httpPort" => {
                let port = value.parse().map_err(|_| format!("{value:?} is not a port"))?;
                self.port = Some(port);
            }
            // Parsed as by `Boolean.parseBoolean`.
            "exportJvmInfo" => self.with_process = Some(value.eq_ignore_ascii_case("true")),
            "numWorkerThreads" | "maxQueueSize" | "workerShutdownTimeoutMs" => {
                return Ok(Fate::Moot);
            }
            _ => return Ok(Fate::Unknown),
        }
        Ok(Fate::Taken)
    }
}

/// The default port of the admin server (`JettyAdminServer.DEFAULT_PORT`).
pub const ADMIN_PORT_DEFAULT: u16 = 8080;

/// The default of `admin.commandURL` (`JettyAdminServer.DEFAULT_COMMAND_URL`).
const COMMAND_URL_DEFAULT: &str = "/commands";

/// The default of `admin.idleTimeout`, in ms (`JettyAdminServer.DEFAULT_IDLE_TIMEOUT`).
const ADMIN_IDLE_MS_DEFAULT: u32 = 30_000;

/// The settings of the admin server's port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminConfig {
    /// The address.
    pub addr: ListenAddress,
    /// Whether the port was configured. If so, a port that is in use is an error, otherwise a
    /// warning.
    pub is_port_configured: bool,
    /// The path above all commands (`admin.commandURL`).
    pub command_url: String,
    /// A connection that is silent for this long is closed, in ms (`admin.idleTimeout`).
    pub idle_ms: u32,
}

/// The limits on snapshots through the admin server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageConfig {
    /// Whether clients may take snapshots (`admin.snapshot.enabled`).
    pub is_snapshot_enabled: bool,
    /// Whether clients may restore snapshots (`admin.restore.enabled`).
    pub is_restore_enabled: bool,
    /// The shortest time between two snapshots (`admin.rateLimiterIntervalInMS`).
    pub rate_limit_interval_ms: u64,
}

/// The settings of the admin server that the sources have given so far.
#[derive(Debug, Default)]
pub(super) struct AdminDraft {
    /// The address from our own key or option; it alone switches the admin server on.
    pub addr: Option<ListenAddress>,
    pub is_enabled: Option<bool>,
    pub host: Option<String>,
    pub port: Option<u16>,
    pub command_url: Option<String>,
    pub idle_ms: Option<u32>,
    pub snapshot: Option<bool>,
    pub restore: Option<bool>,
    pub rate_limit_interval_ms: Option<u64>,
}

impl AdminDraft {
    fn is_asked(&self) -> bool {
        let has_part = self.port.is_some() || self.host.is_some();
        self.addr.is_some() || self.is_enabled.unwrap_or(has_part)
    }

    /// The limits on snapshots. The defaults are those of ZooKeeper 3.9.5 (`Commands`).
    fn images(&self) -> ImageConfig {
        ImageConfig {
            is_snapshot_enabled: self.snapshot.unwrap_or(true),
            is_restore_enabled: self.restore.unwrap_or(true),
            rate_limit_interval_ms: self.rate_limit_interval_ms.unwrap_or(300_000),
        }
    }

    pub fn finish(self) -> Option<AdminConfig> {
        if !self.is_asked() {
            return None;
        }
        let is_port_configured = self.addr.is_some() || self.port.is_some();
        let host = self.host.filter(|host| host != "0.0.0.0" && host != "::");
        let port = self.port.unwrap_or(ADMIN_PORT_DEFAULT);
        Some(AdminConfig {
            addr: self.addr.unwrap_or(ListenAddress { host, port }),
            is_port_configured,
            command_url: self.command_url.unwrap_or_else(|| COMMAND_URL_DEFAULT.to_string()),
            idle_ms: self.idle_ms.unwrap_or(ADMIN_IDLE_MS_DEFAULT),
        })
    }

    /// Applies the property `zookeeper.admin.<name>`.
    pub fn apply(&mut self, name: &str, value: &str) -> Result<Fate, String> {
        match name {
            // Only the text `false` switches it off (`AdminServerFactory`).
            "enableServer" => self.is_enabled = Some(value != "false"),
            "serverPort" => {
                let port = value.parse().map_err(|_| format!("{value:?} is not a port"))?;
                self.port = Some(port);
            }
            "serverAddress" => self.host = Some(value.to_string()),
            "commandURL" => self.command_url = Some(command_url(value)?),
            "idleTimeout" => {
                let ms = value.parse().ok().filter(|ms| *ms > 0);
                self.idle_ms = Some(ms.ok_or_else(|| format!("{value:?} is not a time in ms"))?);
            }
            "httpVersion" => return Ok(Fate::Moot),
            "portUnification" | "forceHttps" | "needClientAuth" => {
                let is_off = value.eq_ignore_ascii_case("false");
                return Ok(if is_off { Fate::Moot } else { Fate::Differs(NO_HTTPS.to_string()) });
            }
            "snapshot.enabled" => {
                self.snapshot = Some(value.eq_ignore_ascii_case("true"));
            }
            "rateLimiterIntervalInMS" => {
                let ms = value.parse().map_err(|_| format!("{value:?} is not a time in ms"))?;
                self.rate_limit_interval_ms = Some(ms);
            }
            "restore.enabled" => {
                self.restore = Some(value.eq_ignore_ascii_case("true"));
            }
            _ => return Ok(Fate::Unknown),
        }
        Ok(Fate::Taken)
    }
}

/// Parses the path above the commands: absolute, and without a slash at the end.
fn command_url(value: &str) -> Result<String, String> {
    let is_path = value.starts_with('/') && value.len() > 1 && !value.ends_with('/');
    let is_plain = value.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#%\"<>".contains(&byte));
    if is_path && is_plain {
        Ok(value.to_string())
    } else {
        Err(format!("{value:?} is not a path like {COMMAND_URL_DEFAULT}"))
    }
}

const NO_HTTPS: &str = "the admin server is not served over TLS; it is ignored";
