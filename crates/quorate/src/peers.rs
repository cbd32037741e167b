//! Prepares the links to other servers of the ensemble: how servers authenticate each other, and
//! the ports on which this server accepts links.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use config::cluster::{PeerAuth, Secret};
use config::{ClusterConfig, ListenAddress};
use node::StartBoard;

use crate::peer_tls::PeerStores;

/// The ensemble's settings for the node, still without the listening sockets that [`bind`] makes.
/// Reads the TLS stores, and returns them too, so that SIGHUP can have them read again.
/// `removed_status` is the status of the process if it ends because its member was removed.
///
/// # Errors
/// A TLS store cannot be used, or the thread that checks it cannot be started.
pub fn prepare(
    cluster: &ClusterConfig,
    board: Arc<StartBoard>,
    removed_status: i32,
) -> anyhow::Result<(node::ClusterConfig, Option<Arc<PeerStores>>)> {
    let mut listed = cluster.server_list().servers;
    let servers = cluster.servers.iter().map(|(number, server)| {
        let number = u64::from(*number);
        let peer_urls = listed.remove(&number).map(|record| record.peer_urls).unwrap_or_default();
        let host = server.host.clone();
        let addresses = vec![node::PeerAddress { host, port: server.peer_port }];
        node::PeerServer { number, addresses, peer_urls }
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
        voters: cluster.voters().map(u64::from).collect(),
        attendance: cluster.attendance,
        servers: servers.collect(),
        listeners: Vec::new(),
        auth,
        connect_timeout: Duration::from_millis(u64::from(cluster.connect_timeout_ms)),
        keep_alive: cluster.keep_alive,
        board,
        removed_status,
    };
    Ok((prepared, stores))
}

/// How long to wait before binding an address again. On machines that have just started, names
/// often become known a little later.
const BIND_PAUSE: Duration = Duration::from_secs(1);

/// The log mentions one failed attempt in this many, beginning with the first.
const BIND_ATTEMPTS_TOLD: u32 = 60;

/// Binds the addresses for links from other servers. Blocks and tries again until that succeeds, or
/// until the configured number of attempts is used up.
///
/// # Errors
/// The last allowed attempt failed.
pub fn bind(cluster: &ClusterConfig) -> anyhow::Result<Vec<TcpListener>> {
    cluster.listen.iter().map(|wanted| listen(cluster, wanted)).collect()
}

/// Binds one address, with as many attempts as [`bind`] says.
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

/// Binds the first address behind `wanted` that can be bound.
///
/// # Errors
/// None of them can be bound.
pub fn try_listen(cluster: &ClusterConfig, wanted: &ListenAddress) -> anyhow::Result<TcpListener> {
    let own = format!("server.{}", cluster.number);
    let mut failure = anyhow::anyhow!("{own}: {wanted} has no address");
    let candidates = wanted.candidates();
    let candidates = candidates.with_context(|| format!("{own}: {wanted} has no address"))?;
    for address in candidates {
        match TcpListener::bind(address) {
            Ok(listener) => {
                // Accepted links inherit this option.
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
