//! TLS between the servers of an ensemble (`QuorumX509Util`, ZooKeeper 3.9). Each end shows a
//! certificate, which the other end checks: its trust store must trust the certificate, and the
//! certificate must name a host of its server. The connecting server looks for the host that it
//! connects to; the accepting server, for a configured host of the server that the other end claims
//! to be. The configuration can switch off these checks of names. Without a trust store nothing is
//! checked, but messages are still encrypted.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use node::{NamesHost, PeerTls};

use tls::files::{self, Files};
use tls::rules::Rules;
use tls::settings::{ClientAuth, PeerTlsConfig, TlsConfig};
use tls::{
    TlsError, client_config, config_of_any_server, key_store, names_host, read_store, server_config,
};

/// The configured TLS between servers, with the settings made from the stores as they were last
/// read.
pub struct PeerStores {
    config: PeerTlsConfig,
    files: Files,
    current: Mutex<PeerTls>,
}

impl PeerStores {
    /// Reads the stores and the list of revoked certificates.
    ///
    /// # Errors
    /// A file cannot be read, or its content cannot be used.
    pub fn load(config: PeerTlsConfig) -> Result<PeerStores, TlsError> {
        let stores = [&config.key_store].into_iter().chain(&config.trust_store);
        let files = Files::new(stores, &config.rules);
        let current = Mutex::new(read(&config, files.rules())?);
        Ok(PeerStores { config, files, current })
    }

    /// The settings for a new link.
    pub fn current(&self) -> PeerTls {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Starts a thread that checks the files from now on and applies changed ones, if `reload` is
    /// configured. If a store cannot be used, the old settings stay and one log line says so.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn reload_when_changed(self: &Arc<Self>) -> io::Result<()> {
        if !self.config.reload {
            return Ok(());
        }
        files::check_often(self, |own: &PeerStores| {
            own.files.read_changed(|| own.read_stores());
        })
    }

    /// Reads the files again now, even if unchanged.
    pub fn reload(&self) {
        self.files.read_all(|| self.read_stores());
    }

    fn read_stores(&self) -> Result<(), String> {
        let new = read(&self.config, self.files.rules()).map_err(|error| {
            format!("TLS between servers: what was read before is kept: {error}")
        })?;
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = new;
        tracing::info!("TLS between servers: the stores were read again, for new links");
        Ok(())
    }
}

fn read(config: &PeerTlsConfig, rules: &Arc<Rules>) -> Result<PeerTls, TlsError> {
    let client_auth = match config.trust_store {
        Some(_) => ClientAuth::Need,
        None => ClientAuth::None,
    };
    let of_server = TlsConfig {
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
    };
    let server = server_config(&of_server, rules)?;
    let keys = read_store(&config.key_store, key_store::read_keys)?;
    let Some(trust_store) = &config.trust_store else {
        let client = config_of_any_server(keys).map_err(|cause| config.key_store.error(cause))?;
        return Ok(PeerTls { client, server: server.into(), names_host: None });
    };
    let trusted = read_store(trust_store, key_store::read_trusted)?;
    // All servers are configured alike, so both ends agree on versions and cipher suites.
    let client = client_config(keys, trusted, rules.clone(), config.checks_names)
        .map_err(|cause| trust_store.error(cause))?;
    let names_host = config.checks_diallers.then_some(names_host as NamesHost);
    Ok(PeerTls { client, server: server.into(), names_host })
}
