//! The ports that a server listens on.

use std::time::Duration;

use anyhow::Context;
use tokio::net::{TcpListener, TcpSocket};

use crate::admin::{Port, Service};
use crate::config::etcd::{EtcdPort, EtcdWire};
use crate::config::{ListenAddress, ServeConfig};

/// How long a connection for metrics may be silent, as Jetty has it.
const METRICS_IDLE: Duration = Duration::from_secs(30);

/// The configured ports for clients.
pub(super) struct ClientPorts {
    /// The port for ZooKeeper's clients.
    pub plain: Option<TcpListener>,
    /// The port for ZooKeeper's clients that speak TLS.
    pub secure: Option<TcpListener>,
    /// The ports for etcd's clients.
    pub etcd: Vec<(EtcdPort, TcpListener)>,
    /// The port for clients of the chunk store.
    pub chunk_plain: Option<TcpListener>,
    /// The port for clients of the chunk store that speak TLS.
    pub chunk_secure: Option<TcpListener>,
}

impl ClientPorts {
    pub fn bind(config: &ServeConfig) -> anyhow::Result<ClientPorts> {
        let port = |wanted: Option<&ListenAddress>, setting| {
            wanted.map(|wanted| listen(config, wanted, setting)).transpose()
        };
        let chunk = config.chunk.as_ref();
        let etcd = config.etcd.as_ref();
        Ok(ClientPorts {
            plain: port(config.listeners.zk_addr.as_ref(), "--zk-addr")?,
            secure: port(config.listeners.zk_tls_addr.as_ref(), "secureClientPort")?,
            etcd: etcd.map_or(Ok(Vec::new()), |etcd| etcd_ports(config, &etcd.ports))?,
            chunk_plain: port(chunk.and_then(|it| it.addr.as_ref()), "--chunk-addr")?,
            chunk_secure: port(chunk.and_then(|it| it.tls_addr.as_ref()), "--chunk-tls-addr")?,
        })
    }

    /// The plain port and the TLS port of ZooKeeper's clients, as `conf` shows them.
    pub fn numbers(&self) -> [String; 2] {
        [&self.plain, &self.secure].map(|listener| port_of(listener.as_ref()))
    }

    /// The part of the ready line that names the ports.
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

/// Binds the ports for etcd's clients.
fn etcd_ports(
    config: &ServeConfig,
    ports: &[EtcdPort],
) -> anyhow::Result<Vec<(EtcdPort, TcpListener)>> {
    let bind = |port: &EtcdPort| {
        let setting = match port.wire {
            EtcdWire::Secure => "--etcd-tls-addr",
            EtcdWire::Plain | EtcdWire::Either => "--etcd-addr",
        };
        Ok((port.clone(), listen(config, &port.address, setting)?))
    };
    ports.iter().map(bind).collect()
}

/// Binds the first of the addresses behind `wanted` that can be bound; `setting` is the name of the
/// setting for another one, for the error.
fn listen(
    config: &ServeConfig,
    wanted: &ListenAddress,
    setting: &str,
) -> anyhow::Result<TcpListener> {
    let candidates =
        wanted.candidates().with_context(|| format!("{wanted} is not an address here"))?;
    let mut failure = anyhow::anyhow!("no address for {wanted}");
    for address in candidates {
        let bound = (|| {
            let socket = match address.is_ipv4() {
                true => TcpSocket::new_v4()?,
                false => TcpSocket::new_v6()?,
            };
            socket.set_reuseaddr(true)?;
            // Accepted connections inherit this (`NIOServerCnxn`).
            socket.set_keepalive(config.listeners.keep_alive)?;
            socket.bind(address)?;
            socket.listen(config.listeners.backlog_or_default())
        })();
        match bound {
            Ok(listener) => return Ok(listener),
            Err(error) => failure = cannot_listen(wanted, setting, &error),
        }
    }
    Err(failure)
}

/// Binds the configured ports for monitoring. The ready line names each.
pub(super) fn bind_monitoring(config: &ServeConfig) -> anyhow::Result<(Vec<Port>, String)> {
    let (mut ports, mut shown) = (Vec::new(), String::new());
    if let Some(metrics) = &config.monitoring.metrics {
        let service = Service::Metrics { with_process: metrics.with_process };
        let port = Port::bind(&metrics.addr, "metrics", service, METRICS_IDLE)?;
        shown += &format!(" metrics={}", port.address()?);
        ports.push(port);
    }
    if let Some(admin) = &config.monitoring.admin {
        let service = Service::Commands { url: admin.command_url.clone() };
        let idle = Duration::from_millis(u64::from(admin.idle_ms));
        match Port::bind(&admin.addr, "the admin server", service, idle) {
            Ok(port) => {
                shown += &format!(" admin={}", port.address()?);
                ports.push(port);
            }
            Err(error) if admin.is_port_configured => return Err(error),
            Err(error) => tracing::warn!("{error}; going on without it"),
        }
    }
    Ok((ports, shown))
}

fn cannot_listen(wanted: &ListenAddress, setting: &str, error: &std::io::Error) -> anyhow::Error {
    match error.kind() {
        std::io::ErrorKind::AddrInUse => anyhow::anyhow!(
            "cannot listen on {wanted}: port {} is in use; choose another with {setting}",
            wanted.port
        ),
        _ => anyhow::anyhow!("cannot listen on {wanted}: {error}"),
    }
}

/// The port of a listener, as `conf` shows it.
fn port_of(listener: Option<&TcpListener>) -> String {
    let port = listener.and_then(|listener| listener.local_addr().ok());
    port.map_or("-1".to_string(), |address| address.port().to_string())
}
