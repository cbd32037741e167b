//! The list of servers of the replicated state, as the links between members and the program see
//! it.

use std::sync::Arc;

use machine::Servers;

use crate::peer_address::addresses_of;
use crate::peer_sockets::PeerServer;

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
        addresses: addresses_of(&record.peer_urls),
    });
    peers.collect()
}
