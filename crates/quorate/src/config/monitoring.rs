//! What those who watch a server configure: metrics over HTTP.
//!
//! The keys of a `zoo.cfg` are those of `PrometheusMetricsProvider` and `QuorumPeerConfig`.

use super::ListenAddress;
use super::zoo_cfg::Fate;

/// `PrometheusMetricsProvider`'s port.
const METRICS_PORT_DEFAULT: u16 = 7000;

/// The provider that serves metrics over HTTP.
const PROMETHEUS_PROVIDER: &str =
    "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider";

/// Providers that serve nothing: what they hold is seen by `mntr`.
const QUIET_PROVIDERS: [&str; 2] = [
    "org.apache.zookeeper.metrics.impl.DefaultMetricsProvider",
    "org.apache.zookeeper.metrics.impl.NullMetricsProvider",
];

const NO_PROVIDER: &str = "there is no such provider; metrics are not served over HTTP";

/// Metrics over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsConfig {
    /// Where.
    pub addr: ListenAddress,
    /// Whether metrics of the process are among them (`metricsProvider.exportJvmInfo`).
    pub with_process: bool,
}

/// What the sources said so far.
#[derive(Debug, Default)]
pub(super) struct MetricsDraft {
    /// Our own key or option; it alone says that metrics are served.
    pub addr: Option<ListenAddress>,
    /// ZooKeeper's provider is asked for.
    pub is_prometheus: bool,
    pub host: Option<String>,
    pub port: Option<u16>,
    pub with_process: Option<bool>,
}

impl MetricsDraft {
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

    /// A key behind `metricsProvider.`.
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
            // As `Boolean.parseBoolean`.
            "exportJvmInfo" => self.with_process = Some(value.eq_ignore_ascii_case("true")),
            "numWorkerThreads" | "maxQueueSize" | "workerShutdownTimeoutMs" => {
                return Ok(Fate::Moot);
            }
            _ => return Ok(Fate::Unknown),
        }
        Ok(Fate::Taken)
    }
}
