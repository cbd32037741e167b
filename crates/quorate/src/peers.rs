//! The node's view of its ensemble: the bound port for other servers, and the means by which
//! servers trust each other.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use node::StartBoard;

use crate::config::cluster::PeerAuth;
use crate::config::{ClusterConfig, ListenAddress};
use crate::tls::peers::PeerStores;

/// Binds the port for other servers and reads the TLS stores. Returns the stores, too, so that the
/// caller can have them read again.
pub fn prepare(
    cluster: &ClusterConfig,
    board: Arc<StartBoard>,
) -> anyhow::Result<(node::ClusterConfig, Option<Arc<PeerStores>>)> {
    let servers = cluster.servers.iter().map(|(number, server)| node::PeerServer {
        number: u64::from(*number),
        addresses: vec![node::PeerAddress { host: server.host.clone(), port: server.peer_port }],
    });
    let (auth, stores) = match &cluster.auth {
        PeerAuth::None => (node::PeerAuth::None, None),
        PeerAuth::Secret(secret) => (node::PeerAuth::Secret(secret.0.clone().into()), None),
        PeerAuth::Tls(tls) => {
            let stores = Arc::new(PeerStores::load((**tls).clone())?);
            stores.reload_when_changed().context("the thread that reads changed stores")?;
            let of_links = stores.clone();
            (node::PeerAuth::Tls(Arc::new(move || of_links.current())), Some(stores))
        }
    };
    let prepared = node::ClusterConfig {
        server: u64::from(cluster.number),
        voters: cluster.servers.keys().map(|number| u64::from(*number)).collect(),
        attendance: cluster.attendance,
        servers: servers.collect(),
        listeners: cluster.listen.iter().map(|it| listen(cluster, it)).collect::<Result<_, _>>()?,
        auth,
        connect_timeout: Duration::from_millis(u64::from(cluster.connect_timeout_ms)),
        keep_alive: cluster.keep_alive,
        board,
    };
    Ok((prepared, stores))
}

/// How often an address that cannot be bound is tried again: the names of machines that have just
/// started become known a little later (`zookeeper.electionPortBindRetry`, 3 times).
const BIND_RETRIES: u32 = 3;
const BIND_PAUSE: Duration = Duration::from_secs(1);

/// Binds an address of this server, once that is possible.
fn listen(cluster: &ClusterConfig, wanted: &ListenAddress) -> anyhow::Result<TcpListener> {
    for _ in 0..BIND_RETRIES {
        match try_listen(cluster, wanted) {
            Ok(listener) => return Ok(listener),
            Err(error) => tracing::warn!("{error:#}; it is tried again"),
        }
        std::thread::sleep(BIND_PAUSE);
    }
    try_listen(cluster, wanted)
}

/// Binds the first address of the own name that can be bound.
fn try_listen(cluster: &ClusterConfig, wanted: &ListenAddress) -> anyhow::Result<TcpListener> {
    let own = format!("server.{}", cluster.number);
    let mut failure = anyhow::anyhow!("{own}: {wanted} has no address");
    let candidates = wanted.candidates();
    let candidates = candidates.with_context(|| format!("{own}: {wanted} has no address"))?;
    for address in candidates {
        match TcpListener::bind(address) {
            Ok(listener) => {
                // Accepted links inherit this.
                rustix::net::sockopt::set_socket_keepalive(&listener, cluster.keep_alive)?;
                return Ok(listener);
            }
            Err(error) => failure = cannot_listen(&own, wanted, &error),
        }
    }
    Err(failure)
}

fn cannot_listen(own: &str, wanted: &ListenAddress, error: &std::io::Error) -> anyhow::Error {
    let hint = match error.kind() {
        ErrorKind::AddrInUse => "",
        _ => "; with quorumListenOnAllIPs=true every address of this machine is listened on",
    };
    anyhow::anyhow!("{own}: other servers cannot be listened to on {wanted}: {error}{hint}")
}
