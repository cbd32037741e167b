//! The node's view of its ensemble: the bound port for other servers, and how servers trust each
//! other.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use config::cluster::{PeerAuth, Secret};
use config::{ClusterConfig, ListenAddress};
use node::StartBoard;

use crate::peer_tls::PeerStores;

/// The ensemble without the sockets for other servers, which [`bind`] makes. Reads the TLS stores,
/// and returns them, too, so that the caller can have them read again.
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
        PeerAuth::Secret(Secret { bytes, may_be_old }) => {
            let secret = node::PeerSecret::new(bytes.clone(), *may_be_old);
            (node::PeerAuth::Secret(Arc::new(secret)), None)
        }
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
        listeners: Vec::new(),
        auth,
        connect_timeout: Duration::from_millis(u64::from(cluster.connect_timeout_ms)),
        keep_alive: cluster.keep_alive,
        board,
    };
    Ok((prepared, stores))
}

/// The pause before an address that cannot be bound is tried again: the names of machines that have
/// just started become known later.
const BIND_PAUSE: Duration = Duration::from_secs(1);

/// The log mentions one attempt in so many.
const BIND_ATTEMPTS_TOLD: u32 = 60;

/// Binds the addresses for other servers, once that is possible. Blocks meanwhile.
///
/// # Errors
/// An address cannot be bound, however often that is tried.
pub fn bind(cluster: &ClusterConfig) -> anyhow::Result<Vec<TcpListener>> {
    cluster.listen.iter().map(|wanted| listen(cluster, wanted)).collect()
}

/// Binds an address of this server, once that is possible.
fn listen(cluster: &ClusterConfig, wanted: &ListenAddress) -> anyhow::Result<TcpListener> {
    for attempt in 1_u32.. {
        match try_listen(cluster, wanted) {
            Ok(listener) => return Ok(listener),
            Err(error) if attempt == cluster.bind_attempts => return Err(error),
            Err(error) if attempt % BIND_ATTEMPTS_TOLD == 1 => {
                tracing::warn!("{error:#}; it is tried again each second");
            }
            Err(_) => {}
        }
        std::thread::sleep(BIND_PAUSE);
    }
    unreachable!("a start does not last that long")
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
