//! TLS for clients: the settings of a listener, made from the configured stores, and made anew when
//! their files change.
//!
//! It takes the place of ZooKeeper 3.9's `ClientX509Util` and `X509AuthenticationProvider`.

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::server::ServerConfig;
use tls::files::{self, Files};
use tls::settings::{StoreFile, TlsConfig};
use tls::{TlsError, server_config, subject};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use crate::logging::{REFUSALS_MAX, Seldom};

/// Clients that TLS refused.
static REFUSED: Seldom = Seldom::new(REFUSALS_MAX, "clients of TLS were refused");

/// The configured TLS. The listeners share it.
pub struct Tls {
    config: TlsConfig,
    files: Files,
    /// The present settings, replaced when the stores change; a connection keeps the settings it
    /// began with.
    current: Mutex<Served>,
    handshakes_under_way: AtomicUsize,
    handshakes_failed: AtomicU64,
    handshakes_exceeded: AtomicU64,
}

/// The TLS settings of each face.
struct Served {
    /// The settings for ZooKeeper's clients, which negotiate no protocol name.
    zookeeper: Arc<ServerConfig>,
    /// The settings for clients of the chunk store, which are offered HTTP/2 (ALPN).
    chunks: Arc<ServerConfig>,
    /// The settings for etcd's clients, which are offered HTTP/2 and HTTP/1.1.
    etcd: Arc<ServerConfig>,
}

impl Served {
    fn new(config: ServerConfig) -> Served {
        let mut chunks = config.clone();
        chunks.alpn_protocols = vec![b"h2".to_vec()];
        let mut etcd = config.clone();
        // The first that a client offers, too. A proxy that offers both may pass on gRPC.
        etcd.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Served { zookeeper: Arc::new(config), chunks: Arc::new(chunks), etcd: Arc::new(etcd) }
    }
}

impl Tls {
    /// Reads the stores and the list of revoked certificates.
    pub fn load(config: TlsConfig) -> Result<Tls, TlsError> {
        let files = Files::new(stores(&config), &config.rules);
        let current = Mutex::new(Served::new(server_config(&config, files.rules())?));
        Ok(Tls {
            config,
            files,
            current,
            handshakes_under_way: AtomicUsize::new(0),
            handshakes_failed: AtomicU64::new(0),
            handshakes_exceeded: AtomicU64::new(0),
        })
    }

    /// The settings for a new connection of ZooKeeper's clients.
    pub fn current(&self) -> Arc<ServerConfig> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).zookeeper.clone()
    }

    /// The settings for a new connection of an etcd client.
    pub fn current_of_etcd(&self) -> Arc<ServerConfig> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).etcd.clone()
    }

    /// The settings for a new connection to the chunk store.
    pub fn current_of_chunks(&self) -> Arc<ServerConfig> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).chunks.clone()
    }

    /// Counts one more handshake under way. None at the limit
    /// (`zookeeper.netty.server.outstandingHandshake.limit`): the connection must be closed.
    pub fn begin_handshake(self: &Arc<Self>) -> Option<Handshake> {
        let count = self.handshakes_under_way.fetch_add(1, Ordering::Relaxed) + 1;
        let count_max = self.config.handshakes_max;
        if count_max == 0 || count <= count_max {
            return Some(Handshake { tls: self.clone(), succeeded: false });
        }
        self.handshakes_under_way.fetch_sub(1, Ordering::Relaxed);
        self.handshakes_exceeded.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// The counts for the metrics.
    pub fn handshake_counts(&self) -> HandshakeCounts {
        HandshakeCounts {
            under_way: self.handshakes_under_way.load(Ordering::Relaxed) as u64,
            failed: self.handshakes_failed.load(Ordering::Relaxed),
            exceeded: self.handshakes_exceeded.load(Ordering::Relaxed),
        }
    }

    /// Logs why a client was refused, unless the log has had too many such lines lately.
    pub fn log_refusal(&self, peer: &str, cause: &str) {
        REFUSED.log(|| tracing::warn!("TLS: client {peer} is refused: {cause}"));
    }

    /// The name of a trusted certificate's owner, and the schemes that it proves
    /// (`X509AuthenticationProvider`): the super user's name proves two.
    pub fn identity(&self, certificate: &[u8]) -> Option<(String, &'static [&'static str])> {
        let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
        let name = subject::rfc2253(parsed.subject().as_raw())?;
        let is_super = self.config.super_user.as_ref() == Some(&name);
        Some((name, if is_super { &["super", "x509"] } else { &["x509"] }))
    }

    /// Has the files checked from now on, and changed ones taken over. If a store cannot be used,
    /// the settings stay as they are, and one line in the log says so.
    ///
    /// # Errors
    /// No thread can be made.
    pub fn reload_when_changed(self: &Arc<Self>) -> io::Result<()> {
        if !self.config.reload {
            return Ok(());
        }
        files::check_often(self, |tls: &Tls| {
            tls.files.read_changed(|| {
                tls.read_stores("TLS: the stores have changed and are used from now on")
            });
        })
    }

    /// Reads the files now, changed or not, and logs that.
    pub fn reload(&self, done: &str) {
        self.files.read_all(|| self.read_stores(done));
    }

    fn read_stores(&self, done: &str) -> Result<(), String> {
        let new = server_config(&self.config, self.files.rules())
            .map_err(|error| format!("TLS: what was read before is kept: {error}"))?;
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Served::new(new);
        tracing::info!("{done}");
        Ok(())
    }
}

/// Counts of handshakes since the start, without those that succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandshakeCounts {
    /// Handshakes under way now.
    pub under_way: u64,
    /// Handshakes that were refused, or given up by the client.
    pub failed: u64,
    /// Handshakes that were not begun, because too many were under way.
    pub exceeded: u64,
}

/// A handshake under way. Dropping it makes room for another.
pub struct Handshake {
    tls: Arc<Tls>,
    succeeded: bool,
}

impl Handshake {
    /// Ends a handshake whose client is trusted.
    pub fn succeed(mut self) {
        self.succeeded = true;
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        self.tls.handshakes_under_way.fetch_sub(1, Ordering::Relaxed);
        if !self.succeeded {
            self.tls.handshakes_failed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn stores(config: &TlsConfig) -> impl Iterator<Item = &StoreFile> {
    [&config.key_store].into_iter().chain(&config.trust_store)
}
