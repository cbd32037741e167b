//! The servers to ask, from ZooKeeper's connect strings: `host:port,host:port/chroot`
//! (`ConnectStringParser`, 3.9.5). Pure.

use std::fmt;
use std::sync::Arc;

use super::path::path_fault;

/// The default port of a server (`ConnectStringParser.DEFAULT_PORT`).
const PORT_DEFAULT: u16 = 2181;

/// The servers to connect to, and the session to ask for.
#[derive(Clone, Debug)]
pub struct Target {
    /// The connect string, as it was given.
    pub text: String,
    /// `host:port` of each server, in the order in which they are tried.
    pub servers: Vec<String>,
    /// The prefix of every path; empty, or a path without a slash at its end.
    pub chroot: String,
    /// The timeout of the session.
    pub timeout_ms: u32,
    /// Whether a server that is cut off from its ensemble will do, for reads.
    pub read_only: bool,
    /// Whether to keep trying for as long as the session would last, in place of one round of the
    /// servers.
    pub patient: bool,
    /// TLS and SASL.
    pub security: Security,
}

/// The protocols to speak to servers, and the user.
#[derive(Clone, Debug, Default)]
pub struct Security {
    /// TLS, if it is used.
    pub tls: Option<Arc<rustls::ClientConfig>>,
    /// The user of SASL (DIGEST-MD5), if it is used.
    pub login: Option<Login>,
}

/// A user of SASL.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    pub user: String,
    pub password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}:***", self.user)
    }
}

impl Target {
    /// Reads a connect string.
    ///
    /// # Errors
    /// The connect string is malformed; the error is one line.
    pub fn parse(text: &str, timeout_ms: u32) -> Result<Target, String> {
        let (hosts, chroot) = match text.find('/') {
            Some(index) => text.split_at(index),
            None => (text, ""),
        };
        let chroot = if chroot == "/" { "" } else { chroot };
        if let Some(fault) = path_fault(chroot).filter(|_| !chroot.is_empty()) {
            return Err(format!("{text}: {fault}"));
        }
        let servers: Vec<String> = hosts
            .split(',')
            .map(str::trim)
            .filter(|host| !host.is_empty())
            .map(|host| server(host).ok_or_else(|| format!("{host:?} is not HOST:PORT")))
            .collect::<Result<_, _>>()?;
        if servers.is_empty() {
            return Err(format!("{text:?} names no server; write HOST:PORT[,HOST:PORT][/CHROOT]"));
        }
        Ok(Target {
            text: text.to_string(),
            servers,
            chroot: chroot.to_string(),
            timeout_ms,
            read_only: false,
            patient: false,
            security: Security::default(),
        })
    }
}

/// Adds the default port if there is none. An IPv6 address with a port is in brackets.
fn server(host: &str) -> Option<String> {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => {
            let (name, rest) = rest.split_once(']')?;
            (format!("[{name}]"), rest.strip_prefix(':'))
        }
        None if host.matches(':').count() > 1 => (format!("[{host}]"), None),
        None => match host.split_once(':') {
            Some((name, port)) => (name.to_string(), Some(port)),
            None => (host.to_string(), None),
        },
    };
    let port = port.map_or(Some(PORT_DEFAULT), |port| port.parse().ok())?;
    (!name.is_empty()).then(|| format!("{name}:{port}"))
}

#[cfg(test)]
mod tests;
