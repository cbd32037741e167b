//! Protects a server on the user's own machine from web pages of other sites: refuses the requests
//! that such a page makes the user's browser send to the server.
//!
//! Such a page may send requests to `127.0.0.1`, or to a name of its own that it lets resolve to
//! that address (DNS rebinding). A browser puts the page's site into `Origin`, the relation of the
//! page's site to the server's into `Sec-Fetch-Site` (W3C Fetch Metadata), and the name in the
//! page's URL into `Host`. Programs other than browsers usually send neither `Origin` nor
//! `Sec-Fetch-Site`, and their `Host` is a loopback address or `localhost`.

use std::net::IpAddr;

use hyper::header::{HOST, HeaderMap, HeaderValue, ORIGIN};

/// The header in which browsers say where a request comes from. They send it to loopback addresses,
/// too.
const SEC_FETCH_SITE: &str = "sec-fetch-site";

/// Why to refuse a request that came over a connection to a loopback address; `None` if it may be
/// served. `authority` is that of the request's target; HTTP/2 has it instead of the header `Host`.
pub fn refusal(headers: &HeaderMap, authority: Option<&str>) -> Option<&'static str> {
    let hosts = headers.get_all(HOST).iter().map(HeaderValue::to_str);
    let is_local = hosts.chain(authority.map(Ok)).all(|host| host.is_ok_and(is_local_authority));
    if !is_local {
        return Some("the header Host names another machine; use localhost or a loopback address");
    }
    let mut origins = headers.get_all(ORIGIN).iter();
    if !origins.all(|origin| origin.to_str().is_ok_and(is_local_origin)) {
        return Some("pages of other sites may not send requests to this server");
    }
    if headers.get(SEC_FETCH_SITE).is_some_and(|site| site == "cross-site") {
        return Some("pages of other sites may not send requests to this server");
    }
    None
}

/// Whether an origin is a page that a server on this machine serves, on any port.
fn is_local_origin(origin: &str) -> bool {
    let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    rest.is_some_and(is_local_authority)
}

/// Whether the host in `HOST[:PORT]` is `localhost` or a loopback address.
fn is_local_authority(authority: &str) -> bool {
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost") || bare.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refused(headers: &[(&'static str, &str)]) -> bool {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        refusal(&map, None).is_some()
    }

    #[test]
    fn programs_on_this_machine_are_served() {
        assert!(!is_refused(&[]));
        for host in ["localhost", "LOCALHOST:8080", "127.0.0.1:8080", "127.1.2.3", "[::1]:8080"] {
            assert!(!is_refused(&[("host", host)]), "{host}");
            assert_eq!(refusal(&HeaderMap::new(), Some(host)), None, "{host}");
        }
    }

    #[test]
    fn names_of_other_machines_are_refused() {
        for host in ["evil.example", "evil.example:8080", "10.0.0.1", "", "localhost.evil.example"]
        {
            assert!(is_refused(&[("host", host)]), "{host}");
            assert!(refusal(&HeaderMap::new(), Some(host)).is_some(), "{host}");
        }
        assert!(is_refused(&[("host", "localhost"), ("host", "evil.example")]));
        assert!(is_refused(&[("host", "127.0.0.1.evil.example:80")]));
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        for origin in ["http://localhost:3000", "https://127.0.0.1", "http://[::1]:1"] {
            assert!(!is_refused(&[("host", "localhost"), ("origin", origin)]), "{origin}");
        }
        for origin in ["http://evil.example", "null", "file://", "http://localhost@evil.example"] {
            assert!(is_refused(&[("host", "localhost"), ("origin", origin)]), "{origin}");
        }
        // A request for an image or a link on another site's page has no `Origin`.
        assert!(is_refused(&[("host", "localhost"), ("sec-fetch-site", "cross-site")]));
        for site in ["none", "same-origin", "same-site"] {
            assert!(!is_refused(&[("host", "localhost"), ("sec-fetch-site", site)]), "{site}");
        }
    }
}
