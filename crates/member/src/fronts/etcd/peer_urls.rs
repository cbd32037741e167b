//! Checks the peer URLs of members (`types.NewURLs` of etcd).
//!
//! The replicated list of members keeps these URLs, the other members dial them, and files keep
//! them for the next start. So URLs that nobody can dial are refused, though etcd takes them: ports
//! that are 0 or above 65535, an empty host, and parts of a URL besides scheme, host and port. Unix
//! sockets are taken, because etcd's own tests add members at them.

use std::net::Ipv6Addr;

use machine::limits::HOST_BYTES_MAX;

use crate::membership::limits::{CLIENT_URL_BYTES_MAX, CLIENT_URLS_MAX};

/// The URLs without blanks around them, in their order.
///
/// # Errors
/// There is no URL, there are too many, or one is malformed. If etcd refuses it too, the text is
/// that of etcd.
pub fn checked(urls: &[String]) -> Result<Vec<String>, String> {
    if urls.is_empty() {
        return Err("no valid URLs given".to_string());
    }
    // A hello must have room for them.
    if urls.len() > CLIENT_URLS_MAX {
        return Err(format!("more than {CLIENT_URLS_MAX} URLs of a member"));
    }
    urls.iter().map(|url| checked_one(url.trim())).collect()
}

fn checked_one(url: &str) -> Result<String, String> {
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let scheme = scheme.to_ascii_lowercase();
    match &*scheme {
        "http" | "https" => {}
        "unix" | "unixs" if is_path(rest) => return Ok(format!("{scheme}://{rest}")),
        "unix" | "unixs" => return Err(format!("not the path of a Unix socket: {url}")),
        _ => return Err(format!("URL scheme must be http, https, unix, or unixs: {url}")),
    }
    let (address, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let parts = address.rsplit_once(':').filter(|(host, _)| is_host(host));
    let port =
        parts.map(|(_, port)| port).filter(|port| port.bytes().all(|it| it.is_ascii_digit()));
    match port.and_then(|port| port.parse::<u16>().ok()) {
        None => Err(format!("URL address does not have the form \"host:port\": {url}")),
        Some(_) if !path.is_empty() => Err(format!("URL must not contain a path: {url}")),
        Some(0) => Err(format!("port 0 cannot be dialled: {url}")),
        Some(_) => Ok(format!("{scheme}://{address}")),
    }
}

/// Whether this may be the path of a Unix socket, which the list in a file has between blanks.
fn is_path(path: &str) -> bool {
    (1..=HOST_BYTES_MAX).contains(&path.len()) && path.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Whether this may be the host of a URL: a name, an IPv4 address, or an IPv6 address in brackets.
fn is_host(host: &str) -> bool {
    if host.len() > HOST_BYTES_MAX {
        return false;
    }
    match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(inside) => inside.parse::<Ipv6Addr>().is_ok(),
        None => {
            let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
            !host.is_empty() && host.bytes().all(is_part)
        }
    }
}

// A hello has room for each URL.
const _: () = assert!("https://".len() + HOST_BYTES_MAX + ":65535".len() <= CLIENT_URL_BYTES_MAX);

#[cfg(test)]
mod tests;
