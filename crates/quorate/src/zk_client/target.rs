//! Which servers to ask, as ZooKeeper's connect strings say it: `host:port,host:port/chroot`
//! (`ConnectStringParser`, 3.9.5). Pure.

use std::fmt;
use std::sync::Arc;

use super::path::path_fault;

/// The port of a server that is given without one (`ConnectStringParser.DEFAULT_PORT`).
const PORT_DEFAULT: u16 = 2181;

/// What the client is to ask for.
#[derive(Clone, Debug)]
pub struct Target {
    /// As it was given.
    pub text: String,
    /// `host:port` of each server, in the order in which they are tried.
    pub servers: Vec<String>,
    /// Put before every path; empty, or a path without a slash at its end.
    pub chroot: String,
    /// Of the session.
    pub timeout_ms: u32,
    /// A server that is cut off from its ensemble will do, for reads.
    pub read_only: bool,
    /// Keep trying for as long as the session would last, in place of one round of the servers.
    pub patient: bool,
    /// How.
    pub security: Security,
}

/// How to speak to servers, and as whom.
#[derive(Clone, Debug, Default)]
pub struct Security {
    /// By TLS, if there is one.
    pub tls: Option<Arc<rustls::ClientConfig>>,
    /// By SASL (DIGEST-MD5), as this user.
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
    /// One line that says what is wrong.
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

/// With the default port if it has none. An IPv6 address with a port stands in brackets.
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
