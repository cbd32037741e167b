//! TLS between the servers of an ensemble (`QuorumX509Util`, ZooKeeper 3.9). Both ends show a
//! certificate that the other's trust store knows, for a host of their server: the dialler checks
//! the host that it dials, the accepter the configured hosts of the server that the dialler claims
//! to be. Without a trust store nobody is checked, and messages are encrypted nevertheless.

use std::sync::{Mutex, PoisonError};

use node::{NamesHost, PeerTls};

use super::server_verifier::names_host;
use super::{FileStamps, TlsError, key_store, read_store, server_config, stamps};
use crate::config::tls::{ClientAuth, PeerTlsConfig, TlsConfig};
use crate::zk_client::tls::{client_config, config_of_any_server};

/// The stores, as they were read last.
pub struct PeerStores {
    config: PeerTlsConfig,
    current: Mutex<(PeerTls, FileStamps)>,
}

impl PeerStores {
    /// Reads the stores.
    pub fn load(config: PeerTlsConfig) -> Result<PeerStores, TlsError> {
        let stamps = own_stamps(&config);
        let current = Mutex::new((read(&config)?, stamps));
        Ok(PeerStores { config, current })
    }

    /// The TLS settings for a new link. Changed stores are read again; if they cannot be used, the
    /// old ones stay, and one line in the log says so.
    pub fn current(&self) -> PeerTls {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let stamps = own_stamps(&self.config);
        if self.config.reload && current.1 != stamps {
            current.1 = stamps;
            self.read_again(&mut current.0);
        }
        current.0.clone()
    }

    /// Reads the stores now, changed or not.
    pub fn reload(&self) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.1 = own_stamps(&self.config);
        self.read_again(&mut current.0);
    }

    fn read_again(&self, current: &mut PeerTls) {
        match read(&self.config) {
            Ok(new) => {
                *current = new;
                tracing::info!("TLS between servers: the stores were read again, for new links");
            }
            Err(error) => {
                tracing::error!("TLS between servers: what was read before is kept: {error}");
            }
        }
    }
}

fn own_stamps(config: &PeerTlsConfig) -> FileStamps {
    stamps([&config.key_store].into_iter().chain(&config.trust_store))
}

fn read(config: &PeerTlsConfig) -> Result<PeerTls, TlsError> {
    let client_auth = match config.trust_store {
        Some(_) => ClientAuth::Need,
        None => ClientAuth::None,
    };
    let server = server_config(&TlsConfig {
        key_store: config.key_store.clone(),
        trust_store: config.trust_store.clone(),
        client_auth,
        tls12: config.tls12,
        tls13: config.tls13,
        cipher_suites: config.cipher_suites.clone(),
        reload: config.reload,
        handshakes_max: 0,
        super_user: None,
        rules: config.rules.clone(),
    })?;
    let keys = read_store(&config.key_store, key_store::read_keys)?;
    let Some(trust_store) = &config.trust_store else {
        let client = config_of_any_server(keys).map_err(|cause| config.key_store.error(cause))?;
        return Ok(PeerTls { client, server: server.into(), names_host: None });
    };
    let trusted = read_store(trust_store, key_store::read_trusted)?;
    // The other end is configured alike, so both agree on versions and suites.
    let client = client_config(keys, trusted, config.rules.clone(), config.checks_names)
        .map_err(|cause| trust_store.error(cause))?;
    let names_host = config.checks_diallers.then_some(names_host as NamesHost);
    Ok(PeerTls { client, server: server.into(), names_host })
}
