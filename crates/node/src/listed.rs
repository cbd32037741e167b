//! The list of servers of the replicated state, as the links between members and the program see
//! it.

use std::sync::Arc;

use machine::Servers;

use crate::peer_sockets::{PeerAddress, PeerServer};

/// News of the list of servers: a change of it was accepted or has finished.
#[derive(Clone, Debug)]
pub struct ListNews {
    /// The servers of the state.
    pub servers: Arc<Servers>,
    /// Whether this member's own server was removed: the member must end.
    pub is_removed: bool,
}

/// The servers to make links with, at the addresses of their peer URLs.
pub(crate) fn peers_of(servers: &Servers) -> Vec<PeerServer> {
    let reached = servers.to_reach().into_iter();
    let peers = reached.map(|(number, record)| PeerServer {
        number,
        peer_urls: record.peer_urls.clone(),
        addresses: record.peer_urls.iter().filter_map(|url| address_of(url)).collect(),
    });
    peers.collect()
}

/// The address in a URL of the form `scheme://host:port`; `None` if it has another form.
fn address_of(url: &str) -> Option<PeerAddress> {
    let (_, place) = url.split_once("://")?;
    let (host, port) = place.rsplit_once(':')?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    Some(PeerAddress { host: host.to_string(), port: port.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_the_host_and_the_port_of_a_url() {
        let address = |url| address_of(url).map(|it| (it.host, it.port));
        assert_eq!(address("http://a.b:2380"), Some(("a.b".to_string(), 2380)));
        assert_eq!(address("https://[::1]:1"), Some(("::1".to_string(), 1)));
        for bad in ["http://a", "a:1", "http://a:65536", "http://a:"] {
            assert_eq!(address(bad), None, "{bad}");
        }
    }
}
