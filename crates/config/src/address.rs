//! Parses the addresses to listen on, and finds the socket addresses to bind for each.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

/// An address to listen on. A host name in it is not looked up yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenAddress {
    /// The host; `None` for every address of this machine.
    pub host: Option<String>,
    /// The port.
    pub port: u16,
}

impl ListenAddress {
    /// A port of 127.0.0.1, which other machines cannot reach.
    pub fn loopback(port: u16) -> ListenAddress {
        ListenAddress { host: Some(Ipv4Addr::LOCALHOST.to_string()), port }
    }

    /// The address as text that other machines can dial; `None` if it means every local address or
    /// any free port.
    pub fn reachable(&self) -> Option<String> {
        let host = self.host.as_deref()?;
        let is_any = host.parse().is_ok_and(|address: IpAddr| address.is_unspecified());
        (!is_any && self.port != 0).then(|| match host.parse::<Ipv6Addr>() {
            Ok(_) => format!("[{host}]:{}", self.port),
            Err(_) => format!("{host}:{}", self.port),
        })
    }

    /// The addresses to bind, in this order: the first that can be bound is used. A missing host
    /// gives `[::]` with IPv4 mapped into IPv6, then `0.0.0.0` for a machine without IPv6; a peer's
    /// address must then be read with `IpAddr::to_canonical`. For a host name, IPv4 addresses come
    /// first, as in Java and Go.
    ///
    /// # Errors
    /// The host name cannot be resolved.
    pub fn candidates(&self) -> io::Result<Vec<SocketAddr>> {
        match &self.host {
            None => Ok(vec![
                SocketAddr::from((Ipv6Addr::UNSPECIFIED, self.port)),
                SocketAddr::from((Ipv4Addr::UNSPECIFIED, self.port)),
            ]),
            Some(host) => {
                let found = (host.as_str(), self.port).to_socket_addrs()?;
                let mut addresses: Vec<SocketAddr> = found.collect();
                addresses.sort_by_key(|address| !address.is_ipv4());
                Ok(addresses)
            }
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            None => write!(f, "*:{}", self.port),
            Some(host) if host.contains(':') => write!(f, "[{host}]:{}", self.port),
            Some(host) => write!(f, "{host}:{}", self.port),
        }
    }
}

impl FromStr for ListenAddress {
    type Err = String;

    /// Parses `HOST:PORT`, `[IPV6]:PORT`, or `*:PORT` and `:PORT` for every local address.
    fn from_str(text: &str) -> Result<Self, String> {
        let malformed = || format!("{text:?} is not an address; write it like 127.0.0.1:2181");
        let (host, port) = text.rsplit_once(':').ok_or_else(malformed)?;
        let port = port.parse().map_err(|_| malformed())?;
        let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
        let host = match (bare, host) {
            (Some(inside), _) if inside.parse::<Ipv6Addr>().is_ok() => Some(inside.to_string()),
            (None, "" | "*") => None,
            (None, name) if !name.contains(|c: char| c == ':' || c.is_whitespace()) => {
                Some(name.to_string())
            }
            _ => return Err(malformed()),
        };
        Ok(ListenAddress { host, port })
    }
}

/// Replaces the hosts `0.0.0.0` and `::` by `None`: all three mean every local address.
pub(super) fn every_address_if_unspecified(address: ListenAddress) -> ListenAddress {
    match address.host.as_deref() {
        Some("0.0.0.0" | "::") => ListenAddress { host: None, port: address.port },
        _ => address,
    }
}
