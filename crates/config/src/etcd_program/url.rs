//! URLs of etcd's flags: a scheme, a host and a port (`types.NewURLs`).

use std::fmt;
use std::net::IpAddr;

use crate::ListenAddress;

/// A URL. Its host has no brackets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Url {
    pub scheme: Scheme,
    pub host: String,
    pub port: u16,
}

/// The part in front of `://`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scheme {
    Http,
    Https,
    /// A socket of a file, which is not served.
    Unix,
}

impl Url {
    /// The URL that is written so.
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

    /// URLs with commas between them, in order and each once.
    pub fn parse_list(list: &str) -> Result<Vec<Url>, String> {
        let mut urls = list.split(',').map(Url::parse).collect::<Result<Vec<Url>, String>>()?;
        urls.sort();
        urls.dedup();
        Ok(urls)
    }

    /// The address to listen on, which must be one of this machine and no name of it
    /// (`checkBindURLs`).
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
