//! Writes parts of an HTTP response's head, for responses that are written without the HTTP
//! library.

use std::cell::{Cell, RefCell};
use std::time::{Duration, SystemTime};

use config::etcd::EtcdAbout;

/// The methods and headers that web pages of other origins may use.
pub(super) const CORS_METHODS: &str = "POST, GET, OPTIONS, PUT, DELETE";
pub(super) const CORS_HEADERS: &str = "accept, content-type, authorization";

/// The header lines that every answer about etcd v2 keys has. `None` if the client's `Host` or
/// `Origin` decides whether a request is allowed; then the HTTP library must handle every request.
pub(super) fn common_headers(about: &EtcdAbout, cluster_id: &str) -> Option<String> {
    if about.refuses_foreign_pages || !about.hosts.iter().any(|host| host == "*") {
        return None;
    }
    let origin = match &*about.origins {
        [] => String::new(),
        origins if origins.iter().any(|origin| origin == "*") => format!(
            "Access-Control-Allow-Methods: {CORS_METHODS}\r\n\
             Access-Control-Allow-Origin: *\r\n\
             Access-Control-Allow-Headers: {CORS_HEADERS}\r\n"
        ),
        _ => return None,
    };
    Some(format!("X-Etcd-Cluster-Id: {cluster_id}\r\n{origin}"))
}

/// The text for the header `Date`, formatted once per second.
#[derive(Default)]
pub(super) struct Date {
    second: Cell<i64>,
    text: RefCell<String>,
}

impl Date {
    /// Appends the text for the time `now_ms`, in ms since 1970.
    pub fn put(&self, now_ms: i64, out: &mut Vec<u8>) {
        let second = now_ms.div_euclid(1_000);
        if self.second.replace(second) != second {
            let since = Duration::from_secs(u64::try_from(second).unwrap_or(0));
            *self.text.borrow_mut() = httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + since);
        }
        out.extend_from_slice(self.text.borrow().as_bytes());
    }
}

#[cfg(test)]
mod tests;
