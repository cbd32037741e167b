//! The servers and the session to connect to, parsed from ZooKeeper's connect strings:
//! `host:port,host:port/chroot` (`ConnectStringParser`, 3.9.5). Pure.

use std::fmt;
use std::sync::Arc;

use super::path::path_fault;

/// The default port of a server (`ConnectStringParser.DEFAULT_PORT`).
const PORT_DEFAULT: u16 = 2181;

/// The servers to connect to, and the kind of session to ask for.
#[derive(Clone, Debug)]
pub struct Target {
    /// The connect string, as it was given.
    pub text: String,
    /// `host:port` of each server, in the order in which they are tried.
    pub servers: Vec<String>,
    /// The prefix of every path on the server; empty, or a path without a slash at its end.
    pub chroot: String,
    /// The session timeout to ask for, in ms.
    pub timeout_ms: u32,
    /// Whether a server that is cut off from its ensemble is accepted; it serves reads only.
    pub read_only: bool,
    /// Whether a command keeps trying the servers until the session timeout ends, and not only for
    /// one round.
    pub patient: bool,
    /// The settings of TLS and SASL.
    pub security: Security,
}

/// How connections are protected, and which user logs in.
#[derive(Clone, Debug, Default)]
pub struct Security {
    /// The settings of TLS; `None` for connections without TLS.
    pub tls: Option<Arc<rustls::ClientConfig>>,
    /// The user of SASL (DIGEST-MD5); `None` to log in no user.
    pub login: Option<Login>,
}

/// The user of SASL, with its password.
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
    /// Parses a connect string.
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

/// A server as `host:port`, with the default port if `host` has none. `None` if it is malformed. An
/// IPv6 address gets brackets; it must have them already if a port follows.
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
