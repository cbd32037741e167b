//! TLS for client connections: builds each listener's TLS settings from the configured key store
//! and trust store, and builds them again when those files change, if that is configured, or at
//! SIGHUP.
//!
//! It replaces ZooKeeper 3.9's `ClientX509Util` and `X509AuthenticationProvider`.

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

/// Limits the log lines about clients that TLS refused.
static REFUSED: Seldom = Seldom::new(REFUSALS_MAX, "clients of TLS were refused");

/// The configured TLS with its present settings. All listeners share one `Tls`.
pub struct Tls {
    config: TlsConfig,
    files: Files,
    /// The present settings. Replaced when the stores change; a connection keeps those it began
    /// with.
    current: Mutex<Served>,
    handshakes_under_way: AtomicUsize,
    handshakes_failed: AtomicU64,
    handshakes_exceeded: AtomicU64,
}

/// The TLS settings for each protocol.
struct Served {
    /// For ZooKeeper clients, which negotiate no protocol (ALPN).
    zookeeper: Arc<ServerConfig>,
    /// For clients of the chunk store: ALPN offers HTTP/2.
    chunks: Arc<ServerConfig>,
    /// For etcd clients: ALPN offers HTTP/2 and HTTP/1.1.
    etcd: Arc<ServerConfig>,
}

impl Served {
    fn new(config: ServerConfig) -> Served {
        let mut chunks = config.clone();
        chunks.alpn_protocols = vec![b"h2".to_vec()];
        let mut etcd = config.clone();
        // The server prefers HTTP/2, so that a proxy that knows both can forward gRPC.
        etcd.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Served { zookeeper: Arc::new(config), chunks: Arc::new(chunks), etcd: Arc::new(etcd) }
    }
}

impl Tls {
    /// Reads the stores and the list of revoked certificates.
    ///
    /// # Errors
    /// A file cannot be read, or its content cannot be used.
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

    /// The settings for a new connection of a ZooKeeper client.
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

    /// Counts a handshake as under way. `None` if too many are
    /// (`zookeeper.netty.server.outstandingHandshake.limit`); the caller must then close the
    /// connection.
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

    /// The counts of handshakes, for the metrics.
    pub fn handshake_counts(&self) -> HandshakeCounts {
        HandshakeCounts {
            under_way: self.handshakes_under_way.load(Ordering::Relaxed) as u64,
            failed: self.handshakes_failed.load(Ordering::Relaxed),
            exceeded: self.handshakes_exceeded.load(Ordering::Relaxed),
        }
    }

    /// Logs why a client was refused, unless too many such lines were logged recently.
    pub fn log_refusal(&self, peer: &str, cause: &str) {
        REFUSED.log(|| tracing::warn!("TLS: client {peer} is refused: {cause}"));
    }

    /// The subject name of a trusted certificate, and the schemes of the identities that it proves
    /// (`X509AuthenticationProvider`): `x509`, and for the configured super user also `super`.
    /// `None` if the certificate or its name cannot be parsed.
    pub fn identity(&self, certificate: &[u8]) -> Option<(String, &'static [&'static str])> {
        let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
        let name = subject::rfc2253(parsed.subject().as_raw())?;
        let is_super = self.config.super_user.as_ref() == Some(&name);
        Some((name, if is_super { &["super", "x509"] } else { &["x509"] }))
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
        files::check_often(self, |tls: &Tls| {
            tls.files.read_changed(|| {
                tls.read_stores("TLS: the stores have changed and are used from now on")
            });
        })
    }

    /// Reads the files again now, even if unchanged, and logs `done` on success.
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

/// Counts of TLS handshakes that have not succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandshakeCounts {
    /// Handshakes under way at this moment.
    pub under_way: u64,
    /// How many handshakes have failed since the start, because the client was refused, was too
    /// slow, or gave up.
    pub failed: u64,
    /// How many connections were closed before their handshake since the start, because too many
    /// other handshakes were under way.
    pub exceeded: u64,
}

/// A handshake under way; dropping it ends its count. It counts as failed unless
/// [`Handshake::succeed`] was called.
pub struct Handshake {
    tls: Arc<Tls>,
    succeeded: bool,
}

impl Handshake {
    /// Ends the handshake as a success.
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
