//! The settings of the ports for ZooKeeper's clients: the addresses, the limits on connections, and
//! the allowed four-letter words.

use std::collections::BTreeSet;

use super::address::{ListenAddress, every_address_if_unspecified};
use super::report::{ConfigError, Place};
use super::sessions::SessionsConfig;

/// ZooKeeper's client port. The default address has it on loopback only.
pub const ZK_PORT_DEFAULT: u16 = 2181;
/// The default of `maxClientCnxns` (`QuorumPeerConfig.maxClientCnxns`).
const CONNECTIONS_PER_IP_MAX_DEFAULT: u32 = 60;
/// The default length of the accept queue; the kernel caps it at `somaxconn`. With Java's 50, most
/// of a thousand clients that reconnect at once would have to retransmit their SYN.
const BACKLOG_DEFAULT: u32 = 1_024;

/// The addresses for ZooKeeper's clients, and the limits on connections.
#[derive(Clone, Debug, PartialEq)]
pub struct ListenersConfig {
    /// The address for clients without TLS; `None` if none is served.
    pub zk_addr: Option<ListenAddress>,
    /// The address for clients with TLS; `None` if there is none.
    pub zk_tls_addr: Option<ListenAddress>,
    /// Whether `zk_addr` also accepts clients that speak TLS (`client.portUnification`).
    pub port_unification: bool,
    /// Limit of connections from one IP address; 0 means no limit.
    pub connections_per_ip_max: u32,
    /// Limit of all connections; 0 means no limit.
    pub connections_max: u32,
    /// `clientPortListenBacklog`; `None` if not configured, which `conf` shows as -1. See
    /// [`ListenersConfig::backlog_or_default`].
    pub backlog: Option<u32>,
    /// Whether the operating system probes silent client connections (`clientTcpKeepAlive`).
    pub keep_alive: bool,
    pub four_letter_words: FourLetterWords,
}

impl ListenersConfig {
    /// Whether ZooKeeper's clients are served.
    pub fn has_zk(&self) -> bool {
        self.zk_addr.is_some() || self.zk_tls_addr.is_some()
    }

    /// The length of the accept queue, for `listen(2)`.
    pub fn backlog_or_default(&self) -> u32 {
        self.backlog.unwrap_or(BACKLOG_DEFAULT)
    }
}

/// The four-letter words that clients may send (`4lw.commands.whitelist`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FourLetterWords {
    /// All words: `*`.
    All,
    /// These words and always `srvr`, as in `FourLetterCommands`.
    Listed(BTreeSet<String>),
}

impl FourLetterWords {
    /// The allowed words from a list, where `*` allows all (`FourLetterCommands.isEnabled`).
    pub(super) fn of(words: BTreeSet<String>) -> FourLetterWords {
        if words.contains("*") { FourLetterWords::All } else { FourLetterWords::Listed(words) }
    }

    /// The allowed four-letter words; only `*` if all words are allowed. `srvr` is always allowed,
    /// and comes last.
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

/// The settings of the listeners that the sources have given so far.
#[derive(Debug, Default)]
pub(super) struct ListenersDraft {
    /// Whether ZooKeeper's clients are served on the default address if no other address is set.
    pub has_zk_default: bool,
    pub zk_addr: Option<ListenAddress>,
    pub zk_tls_addr: Option<ListenAddress>,
    /// Keys of a `zoo.cfg`; [`ListenersDraft::settle_zoo_ports`] makes the two addresses of them.
    pub zoo_ports: ZooPorts,
    pub connections_per_ip_max: Option<u32>,
    pub connections_max: Option<u32>,
    pub backlog: Option<u32>,
    pub keep_alive: Option<bool>,
    pub four_letter_words: Option<FourLetterWords>,
}

/// The port keys of a `zoo.cfg`, collected until the whole file is read.
#[derive(Debug, Default)]
pub(super) struct ZooPorts {
    pub client_port: Option<(u16, Place)>,
    pub client_port_address: Option<(String, Place)>,
    pub secure_client_port: Option<u16>,
    pub secure_client_port_address: Option<(String, Place)>,
}

impl ListenersDraft {
    /// Makes `zk_addr` of `clientPort` and `clientPortAddress`, and `zk_tls_addr` of the two keys
    /// of the TLS port.
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

    /// Whether a setting names a port for ZooKeeper's clients.
    pub fn is_named(&self) -> bool {
        self.zk_addr.is_some() || self.zk_tls_addr.is_some()
    }

    /// Whether all addresses that are set require TLS.
    fn is_only_tls(&self) -> bool {
        self.zk_addr.is_none() && self.zk_tls_addr.is_some()
    }

    pub fn finish(self, port_unification: bool, sessions: &SessionsConfig) -> ListenersConfig {
        let has_default = self.has_zk_default && !self.is_only_tls();
        let default_addr = has_default.then(|| ListenAddress::loopback(ZK_PORT_DEFAULT));
        let per_ip_max = self.connections_per_ip_max;
        ListenersConfig {
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

/// The allowed words. Read-only mode adds `isro`, which clients send to find a server that accepts
/// writes (`FourLetterCommands.isEnabled`).
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

/// A host, without the brackets of an IPv6 address.
fn bare(host: &str) -> String {
    if host.is_empty() {
        // Java resolves the empty host to loopback (`InetAddress.getByName("")`).
        return "127.0.0.1".to_string();
    }
    host.trim_start_matches('[').trim_end_matches(']').to_string()
}
