//! Parses the URLs in etcd's flags into scheme, host and port (`types.NewURLs`).

use std::fmt;
use std::net::IpAddr;

use crate::ListenAddress;

/// A URL. The host of an IPv6 address has no brackets here.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Url {
    pub scheme: Scheme,
    pub host: String,
    pub port: u16,
}

/// The scheme: the part in front of `://`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scheme {
    Http,
    Https,
    /// A Unix socket, which is not served; the host is the path of its file.
    Unix,
}

impl Url {
    /// Parses a URL without a path.
    pub fn parse(text: &str) -> Result<Url, String> {
        let text = text.trim();
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        let scheme = match scheme {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            "unix" | "unixs" => {
                return Ok(Url { scheme: Scheme::Unix, host: rest.to_string(), port: 0 });
            }
            _ => return Err(format!("URL scheme must be http, https, unix, or unixs: {text}")),
        };
        let (address, path) = rest.split_once('/').unwrap_or((rest, ""));
        let wrong_form = || format!("URL address does not have the form \"host:port\": {text}");
        let (host, port) = address.rsplit_once(':').ok_or_else(wrong_form)?;
        let port = port.parse().map_err(|_| wrong_form())?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = match bare {
            Some(host) => host,
            None if host.contains(':') => return Err(wrong_form()),
            None => host,
        };
        if !path.is_empty() {
            return Err(format!("URL must not contain a path: {text}"));
        }
        Ok(Url { scheme, host: host.to_string(), port })
    }

    /// Parses URLs separated by commas; returns them sorted and without duplicates.
    pub fn parse_list(list: &str) -> Result<Vec<Url>, String> {
        let mut urls = list.split(',').map(Url::parse).collect::<Result<Vec<Url>, String>>()?;
        urls.sort();
        urls.dedup();
        Ok(urls)
    }

    /// The address to listen on. The host must be an IP address or `localhost` (`checkBindURLs`).
    pub fn to_listen(&self) -> Result<ListenAddress, String> {
        if self.scheme == Scheme::Unix {
            return Err(format!("unix sockets are not served ({self})"));
        }
        let (host, port) = match (self.host.as_str(), self.host.parse::<IpAddr>()) {
            (_, Ok(address)) if address.is_unspecified() => (None, self.port),
            ("localhost", _) | (_, Ok(_)) => (Some(self.host.clone()), self.port),
            _ => return Err(format!("expected IP in URL for binding ({self})")),
        };
        Ok(ListenAddress { host, port })
    }

    /// The host, in brackets if it is an IPv6 address.
    pub fn host_in_brackets(&self) -> String {
        if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
            Scheme::Unix => return write!(f, "unix://{}", self.host),
        };
        write!(f, "{scheme}://{}:{}", self.host_in_brackets(), self.port)
    }
}
