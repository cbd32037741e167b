//! The syntax of a server in ZooKeeper's configuration and in reconfig requests:
//! `host:port:port[:role][;[host:]port]` (`QuorumPeer.QuorumServer`, 3.9).

use std::net::Ipv6Addr;

/// A server as people write it. The parts are not checked further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerText<'a> {
    /// The host name or IP address, without brackets.
    pub host: &'a str,
    /// The port for the other servers.
    pub peer_port: &'a str,
    /// The port for elections.
    pub election_port: &'a str,
    /// The role, if the text has one.
    pub role: Option<&'a str>,
    /// The port or address for clients, if the text has one.
    pub client: Option<&'a str>,
}

impl<'a> ServerText<'a> {
    /// Splits the text of a server.
    ///
    /// # Errors
    /// The text has another form; the error is for people.
    pub fn parse(text: &'a str) -> Result<ServerText<'a>, String> {
        let malformed =
            || format!("{text:?} is not of the form host:port:port[:role][;[host:]port]");
        let mut halves = text.split(';');
        let server = halves.next().unwrap_or_default();
        let client = halves.next().map(str::trim).filter(|client| !client.is_empty());
        if halves.any(|more| !more.is_empty()) {
            return Err(malformed());
        }
        if server.contains('|') {
            return Err("several addresses of one server are not served: name one".to_string());
        }
        let (host, rest) = match server.strip_prefix('[') {
            Some(inside) => {
                let (host, rest) = inside.split_once(']').ok_or_else(malformed)?;
                (host, rest.strip_prefix(':').ok_or_else(malformed)?)
            }
            None => server.split_once(':').ok_or_else(malformed)?,
        };
        let host = host.trim();
        // Java's `split` drops empty parts at the end.
        let mut parts = rest.trim_end_matches(':').split(':');
        let (Some(peer_port), Some(election_port)) = (parts.next(), parts.next()) else {
            return Err(malformed());
        };
        let role = parts.next();
        if parts.next().is_some() || host.is_empty() || host.contains(char::is_whitespace) {
            return Err(malformed());
        }
        Ok(ServerText { host, peer_port, election_port, role, client })
    }
}

/// A host as Java shows it (`InetSocketAddress.getHostString`): an IPv6 address without `::`.
pub fn shown_host(host: &str) -> String {
    match host.parse::<Ipv6Addr>() {
        Ok(address) => address.segments().map(|part| format!("{part:x}")).join(":"),
        Err(_) => host.to_string(),
    }
}

/// A host, in brackets if it is an IPv6 address (`QuorumServer.delimitedHostString`).
pub fn in_brackets(host: &str) -> String {
    let shown = shown_host(host);
    if shown.contains(':') { format!("[{shown}]") } else { shown }
}
