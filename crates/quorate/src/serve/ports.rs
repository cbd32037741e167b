//! Binds the ports that a server listens on.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use config::etcd::{EtcdPort, EtcdWire};
use config::{ListenAddress, MonitoringConfig, ServeConfig};
use tokio::net::{TcpListener, TcpSocket};

use crate::admin::{Commands, Metrics, Port, Services};

/// How long a connection for metrics may send nothing, as in Jetty.
const METRICS_IDLE: Duration = Duration::from_secs(30);

/// How long to wait before an address is bound again that could not be bound.
const REBIND_PAUSE: Duration = Duration::from_secs(1);

/// The bound ports for clients.
pub(super) struct ClientPorts {
    /// ZooKeeper's port without TLS.
    pub plain: Option<TcpListener>,
    /// ZooKeeper's port with TLS.
    pub secure: Option<TcpListener>,
    /// etcd's ports.
    pub etcd: Vec<(EtcdPort, TcpListener)>,
    /// The chunk store's port without TLS.
    pub chunk_plain: Option<TcpListener>,
    /// The chunk store's port with TLS.
    pub chunk_secure: Option<TcpListener>,
}

impl ClientPorts {
    /// Binds the configured ports. A default port that is in use is left out with a warning.
    ///
    /// # Errors
    /// A configured port cannot be bound, or all default ports for clients are in use.
    pub fn bind(config: &ServeConfig) -> anyhow::Result<ClientPorts> {
        let port = |wanted: Option<&ListenAddress>, setting| {
            wanted.map_or(Ok(None), |wanted| listen_or_warn(config, wanted, setting))
        };
        let chunk = config.chunk.as_ref();
        let etcd = config.etcd.as_ref();
        let ports = ClientPorts {
            plain: port(config.listeners.zk_addr.as_ref(), "--zk-addr")?,
            secure: port(config.listeners.zk_tls_addr.as_ref(), "secureClientPort")?,
            etcd: etcd.map_or(Ok(Vec::new()), |etcd| etcd_ports(config, &etcd.ports))?,
            chunk_plain: port(chunk.and_then(|it| it.addr.as_ref()), "--chunk-addr")?,
            chunk_secure: port(chunk.and_then(|it| it.tls_addr.as_ref()), "--chunk-tls-addr")?,
        };
        anyhow::ensure!(
            !config.has_default_faces || ports.plain.is_some() || !ports.etcd.is_empty(),
            "every default port for clients is in use: does another server run here? Choose others \
             with --zk-addr and --etcd-addr"
        );
        Ok(ports)
    }

    /// The numbers of ZooKeeper's ports without and with TLS, as `conf` shows them.
    pub fn numbers(&self) -> [String; 2] {
        [&self.plain, &self.secure].map(|listener| port_of(listener.as_ref()))
    }

    /// The part of the ready line that names these ports.
    pub fn shown(&self) -> std::io::Result<String> {
        let optional = |name, listener: &'_ Option<TcpListener>| {
            listener.as_ref().map(|it| (name, it.local_addr()))
        };
        let listeners = [optional("zk", &self.plain), optional("zk-tls", &self.secure)].into_iter();
        let etcd = self.etcd.iter().map(|(port, listener)| {
            let name = match port.wire {
                EtcdWire::Plain | EtcdWire::Either => "etcd",
                EtcdWire::Secure => "etcd-tls",
            };
            Some((name, listener.local_addr()))
        });
        let chunk =
            [optional("chunk", &self.chunk_plain), optional("chunk-tls", &self.chunk_secure)];
        let mut shown = String::new();
        for (name, address) in listeners.chain(etcd).chain(chunk).flatten() {
            shown += &format!(" {name}={}", address?);
        }
        Ok(shown)
    }
}

/// Binds etcd's ports.
fn etcd_ports(
    config: &ServeConfig,
    ports: &[EtcdPort],
) -> anyhow::Result<Vec<(EtcdPort, TcpListener)>> {
    let bind = |port: &EtcdPort| {
        let setting = match port.wire {
            EtcdWire::Secure => "--etcd-tls-addr",
            EtcdWire::Plain | EtcdWire::Either => "--etcd-addr",
        };
        let listener = listen_or_warn(config, &port.address, setting).transpose()?;
        Some(listener.map(|listener| (port.clone(), listener)))
    };
    ports.iter().filter_map(bind).collect()
}

/// Binds a port. `None`, after a warning, if it is a default port and in use.
fn listen_or_warn(
    config: &ServeConfig,
    wanted: &ListenAddress,
    setting: &'static str,
) -> anyhow::Result<Option<TcpListener>> {
    match listen(config, wanted, setting) {
        Ok(listener) => Ok(Some(listener)),
        Err(error @ NotBound::InUse { .. }) if config.has_default_faces => {
            tracing::warn!("{error}; going on without it");
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Binds the address for ZooKeeper's clients that the changed list of servers has for this server;
/// tries again each second.
pub(super) async fn rebind(config: &ServeConfig, wanted: &ListenAddress) -> TcpListener {
    let mut is_first = true;
    loop {
        // A name may take long to be resolved.
        let asked = wanted.clone();
        let found = tokio::task::spawn_blocking(move || asked.candidates()).await;
        let found = found.unwrap_or_else(|ended| Err(io::Error::other(ended)));
        match listen_at(config, wanted, found, "reconfig") {
            Ok(listener) => {
                tracing::info!("ZooKeeper's clients reach this server at {wanted} now");
                return listener;
            }
            Err(error) if is_first => {
                tracing::warn!(
                    "{error}; no client is accepted until then, it is tried each second"
                );
            }
            Err(_) => {}
        }
        is_first = false;
        tokio::time::sleep(REBIND_PAUSE).await;
    }
}

/// Why a port could not be bound.
#[derive(Debug, thiserror::Error)]
enum NotBound {
    #[error("{wanted} is not an address here: {cause}")]
    NoAddress { wanted: ListenAddress, cause: io::Error },
    #[error(
        "cannot listen on {wanted}: port {} is in use; choose another with {setting}",
        wanted.port
    )]
    InUse { wanted: ListenAddress, setting: &'static str },
    #[error("cannot listen on {wanted}: {cause}")]
    Other { wanted: ListenAddress, cause: io::Error },
}

/// Binds the first address behind `wanted` that can be bound. `setting` is the name of the setting
/// that chooses another address, for the error.
fn listen(
    config: &ServeConfig,
    wanted: &ListenAddress,
    setting: &'static str,
) -> Result<TcpListener, NotBound> {
    listen_at(config, wanted, wanted.candidates(), setting)
}

/// Like [`listen`], where `wanted` has these addresses.
fn listen_at(
    config: &ServeConfig,
    wanted: &ListenAddress,
    candidates: io::Result<Vec<SocketAddr>>,
    setting: &'static str,
) -> Result<TcpListener, NotBound> {
    let no_address = |cause| NotBound::NoAddress { wanted: wanted.clone(), cause };
    let candidates = candidates.map_err(no_address)?;
    let mut failure = no_address(io::ErrorKind::NotFound.into());
    for address in candidates {
        let bound = (|| {
            let socket =
                if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
            socket.set_reuseaddr(true)?;
            // Accepted connections inherit this option (`NIOServerCnxn`).
            socket.set_keepalive(config.listeners.keep_alive)?;
            socket.bind(address)?;
            socket.listen(config.listeners.backlog_or_default())
        })();
        let wanted = wanted.clone();
        failure = match bound {
            Ok(listener) => return Ok(listener),
            Err(cause) if cause.kind() == io::ErrorKind::AddrInUse => {
                NotBound::InUse { wanted, setting }
            }
            Err(cause) => NotBound::Other { wanted, cause },
        };
    }
    Err(failure)
}

/// Binds the ports for monitoring, and returns them with their part of the ready line. If metrics
/// and admin server have the same address, they share a port.
pub(super) fn bind_monitoring(config: &ServeConfig) -> anyhow::Result<(Vec<Port>, String)> {
    let MonitoringConfig { metrics, admin, refuses_foreign_pages, .. } = &config.monitoring;
    let services =
        Services { refuses_foreign_pages: *refuses_foreign_pages, ..Services::default() };
    let shared = metrics
        .as_ref()
        .zip(admin.as_ref())
        .filter(|(metrics, admin)| admin.addr == metrics.addr && admin.addr.port != 0);
    let (mut ports, mut shown) = (Vec::new(), String::new());
    if let Some(metrics) = metrics.as_ref().filter(|_| shared.is_none()) {
        let metrics_served = Metrics { with_process: metrics.with_process };
        let services = Services { metrics: Some(metrics_served), ..services.clone() };
        let bound = Port::bind(&metrics.addr, "metrics", services, METRICS_IDLE);
        if let Some(port) = bound_or_warn(bound, config.has_default_faces)? {
            shown += &format!(" metrics={}", port.address()?);
            ports.push(port);
        }
    }
    if let Some(admin) = admin {
        let with_process = shared.map(|(metrics, _)| metrics.with_process);
        let services = Services {
            metrics: with_process.map(|with_process| Metrics { with_process }),
            commands: Some(Commands { url: admin.command_url.clone() }),
            ..services
        };
        let idle = Duration::from_millis(u64::from(admin.idle_ms));
        let bound = Port::bind(&admin.addr, "the admin server", services, idle);
        let is_default = config.has_default_faces || !admin.is_port_configured;
        if let Some(port) = bound_or_warn(bound, is_default)? {
            let address = port.address()?;
            let metrics = shared.map(|_| format!(" metrics={address}")).unwrap_or_default();
            shown += &format!("{metrics} admin={address}");
            ports.push(port);
        }
    }
    Ok((ports, shown))
}

/// The port if it was bound. `None`, after a warning, if it was not but is a default port.
fn bound_or_warn(bound: anyhow::Result<Port>, is_default: bool) -> anyhow::Result<Option<Port>> {
    match bound {
        Err(error) if is_default => {
            tracing::warn!("{error}; going on without it");
            Ok(None)
        }
        bound => bound.map(Some),
    }
}

/// The number of a listener's port, as `conf` shows it; -1 if there is none.
fn port_of(listener: Option<&TcpListener>) -> String {
    let port = listener.and_then(|listener| listener.local_addr().ok());
    port.map_or("-1".to_string(), |address| address.port().to_string())
}
