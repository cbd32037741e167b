//! The ports of ZooKeeper's clients, and what they may do there.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use super::address::{ListenAddress, every_address_if_unspecified};
use super::report::{ConfigError, Place};
use super::sessions::SessionsConfig;

/// ZooKeeper's client port, on loopback only unless configured otherwise.
pub const ZK_PORT_DEFAULT: u16 = 2181;
/// `QuorumPeerConfig.maxClientCnxns`.
const CONNECTIONS_PER_IP_MAX_DEFAULT: u32 = 60;
/// Length of the accept queue when not configured. Java's 50 makes a thousand clients that come
/// back at once wait for the retransmission of their SYN; the kernel bounds this by `somaxconn`.
const BACKLOG_DEFAULT: u32 = 1_024;

/// Where ZooKeeper's clients connect, and how many may.
#[derive(Clone, Debug, PartialEq)]
pub struct ListenersConfig {
    /// Where ZooKeeper clients connect. None: only where they speak TLS.
    pub zk_addr: Option<ListenAddress>,
    /// True when someone chose `zk_addr`: a port in use is then an error, otherwise a warning.
    pub zk_addr_configured: bool,
    /// Where ZooKeeper clients connect by TLS.
    pub zk_tls_addr: Option<ListenAddress>,
    /// Whether `zk_addr` takes clients that speak TLS, too (`client.portUnification`).
    pub port_unification: bool,
    /// Connections of one client address; 0 means no limit.
    pub connections_per_ip_max: u32,
    /// Connections in all; 0 means no limit.
    pub connections_max: u32,
    /// `clientPortListenBacklog`; none when not configured, which `conf` shows as -1.
    /// See [`ListenersConfig::backlog_or_default`].
    pub backlog: Option<u32>,
    /// A standing keep-alive on client connections (`clientTcpKeepAlive`).
    pub keep_alive: bool,
    pub four_letter_words: FourLetterWords,
}

impl ListenersConfig {
    /// What to hand to `listen(2)`.
    pub fn backlog_or_default(&self) -> u32 {
        self.backlog.unwrap_or(BACKLOG_DEFAULT)
    }
}

/// The four-letter words that are answered (`4lw.commands.whitelist`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FourLetterWords {
    /// `*`.
    All,
    /// These and, as in `FourLetterCommands`, always `srvr`.
    Listed(BTreeSet<String>),
}

impl FourLetterWords {
    /// `FourLetterCommands.isEnabled`: a `*` among the words allows all.
    pub(super) fn of(words: BTreeSet<String>) -> FourLetterWords {
        if words.contains("*") { FourLetterWords::All } else { FourLetterWords::Listed(words) }
    }

    /// The words that may be executed; `*` is all.
    pub fn allowed(&self) -> Vec<String> {
        match self {
            FourLetterWords::All => vec!["*".to_string()],
            FourLetterWords::Listed(words) => {
                let srvr = "srvr".to_string();
                words.iter().filter(|word| **word != srvr).cloned().chain([srvr.clone()]).collect()
            }
        }
    }
}

/// The settings that the sources have given so far.
#[derive(Debug, Default)]
pub(super) struct ListenersDraft {
    pub zk_addr: Option<ListenAddress>,
    pub zk_tls_addr: Option<ListenAddress>,
    /// The keys of a `zoo.cfg` that make up the two addresses.
    pub zoo_ports: ZooPorts,
    pub connections_per_ip_max: Option<u32>,
    pub connections_max: Option<u32>,
    pub backlog: Option<u32>,
    pub keep_alive: Option<bool>,
    pub four_letter_words: Option<FourLetterWords>,
}

/// What the keys of a `zoo.cfg` say together about ports, until all of them are seen.
#[derive(Debug, Default)]
pub(super) struct ZooPorts {
    pub client_port: Option<(u16, Place)>,
    pub client_port_address: Option<(String, Place)>,
    pub secure_client_port: Option<u16>,
    pub secure_client_port_address: Option<(String, Place)>,
}

impl ListenersDraft {
    /// Joins `clientPort` and `clientPortAddress`, and the two of the port that speaks TLS.
    pub fn settle_zoo_ports(&mut self) -> Result<(), ConfigError> {
        match (&self.zoo_ports.secure_client_port, &self.zoo_ports.secure_client_port_address) {
            (None, None) => {}
            (None, Some((_, place))) => {
                return Err(ConfigError::Malformed {
                    place: place.clone(),
                    cause: "secureClientPortAddress is set but secureClientPort is not".to_string(),
                });
            }
            (Some(port), address) => {
                let host = address.as_ref().map(|(host, _)| bare(host));
                let address = ListenAddress { host, port: *port };
                self.zk_tls_addr = Some(every_address_if_unspecified(address));
            }
        }
        match (&self.zoo_ports.client_port, &self.zoo_ports.client_port_address) {
            (None, None) => {}
            (None, Some((_, place))) => {
                return Err(ConfigError::Malformed {
                    place: place.clone(),
                    cause: "clientPortAddress is set but clientPort is not".to_string(),
                });
            }
            (Some((port, _)), None) => {
                self.zk_addr = Some(ListenAddress { host: None, port: *port });
            }
            (Some((port, _)), Some((host, _))) => {
                let address = ListenAddress { host: Some(bare(host)), port: *port };
                self.zk_addr = Some(every_address_if_unspecified(address));
            }
        }
        Ok(())
    }

    /// Whether clients connect to the port for TLS only.
    fn is_only_tls(&self) -> bool {
        self.zk_addr.is_none() && self.zk_tls_addr.is_some()
    }

    pub fn finish(self, port_unification: bool, sessions: &SessionsConfig) -> ListenersConfig {
        let default_addr =
            ListenAddress { host: Some(Ipv4Addr::LOCALHOST.to_string()), port: ZK_PORT_DEFAULT };
        let default_addr = Some(default_addr).filter(|_| !self.is_only_tls());
        let per_ip_max = self.connections_per_ip_max;
        ListenersConfig {
            zk_addr_configured: self.zk_addr.is_some(),
            zk_addr: self.zk_addr.or(default_addr),
            zk_tls_addr: self.zk_tls_addr,
            port_unification,
            connections_per_ip_max: per_ip_max.unwrap_or(CONNECTIONS_PER_IP_MAX_DEFAULT),
            connections_max: self.connections_max.unwrap_or(0),
            backlog: self.backlog,
            keep_alive: self.keep_alive.unwrap_or(false),
            four_letter_words: settle_words(self.four_letter_words, sessions.read_only_mode),
        }
    }
}

/// The allowed words: read-only mode adds `isro`, which its clients ask with
/// (`FourLetterCommands.isEnabled`).
fn settle_words(words: Option<FourLetterWords>, read_only_mode: bool) -> FourLetterWords {
    match words.unwrap_or(FourLetterWords::Listed(BTreeSet::new())) {
        FourLetterWords::All => FourLetterWords::All,
        FourLetterWords::Listed(mut words) => {
            words.insert("srvr".to_string());
            if read_only_mode {
                words.insert("isro".to_string());
            }
            FourLetterWords::Listed(words)
        }
    }
}

/// A host without the brackets of an IPv6 address.
fn bare(host: &str) -> String {
    host.trim_start_matches('[').trim_end_matches(']').to_string()
}
