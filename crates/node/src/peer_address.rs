//! The addresses at which members reach each other.

/// An address of a server. It is resolved at each dial, since the IP address of a name may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerAddress {
    /// A name, or an IP address.
    pub host: String,
    /// The port for links between members.
    pub port: u16,
}

/// The addresses of a server, for people.
pub(crate) fn names(addresses: &[PeerAddress]) -> String {
    let names = addresses.iter().map(|it| format!("{}:{}", it.host, it.port));
    names.collect::<Vec<_>>().join(", ")
}

/// The addresses in URLs, without those of another form.
pub(crate) fn addresses_of(urls: &[String]) -> Vec<PeerAddress> {
    urls.iter().filter_map(|url| address_of(url)).collect()
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
