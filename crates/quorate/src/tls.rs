//! TLS for clients: what a listener needs to speak it, made of the configured stores, and made anew
//! when their files change.
//!
//! Of ZooKeeper 3.9 it stands for `ClientX509Util` and `X509AuthenticationProvider`. Sessions of
//! TLS are not resumed: every connect proves its certificate again.

mod client_verifier;
mod der;
mod jks;
pub mod key_store;
pub mod keys;
pub mod peers;
pub mod server_verifier;
mod subject;
pub mod suites;
pub mod trust;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rustls::crypto::ring;
use rustls::server::{NoServerSessionStorage, ServerConfig, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use crate::config::report::Place;
use crate::config::tls::{ClientAuth, Password, StoreFile, TlsConfig};
use client_verifier::ClientVerifier;
use key_store::{STORE_BYTES_MAX, StoreKind};
use keys::Keys;
use suites::cipher_suite_name;

/// How often the files of the stores are looked at.
const RELOAD_INTERVAL: Duration = Duration::from_secs(1);

/// Handshakes that failed are logged at most so often in each interval; the others are counted.
const COMPLAINTS_MAX: usize = 10;
const COMPLAINTS_INTERVAL: Duration = Duration::from_secs(10);

/// A store that cannot be used: one line that says where it is named, and why not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {key}: {path}: {cause}")]
pub struct TlsError {
    place: Place,
    key: String,
    path: String,
    cause: String,
}

/// TLS as it is configured. Shared by the listeners.
pub struct Tls {
    config: TlsConfig,
    /// Replaced when the stores change; a connection keeps the one it began with.
    current: Mutex<Served>,
    handshakes_under_way: AtomicUsize,
    handshakes_failed: AtomicU64,
    handshakes_exceeded: AtomicU64,
    complaints: Mutex<Complaints>,
}

/// The settings of each face.
struct Served {
    /// Of ZooKeeper's clients, who speak no protocol that has a name.
    zookeeper: Arc<ServerConfig>,
    /// Of clients of the chunk store, who are offered HTTP/2 (ALPN).
    chunks: Arc<ServerConfig>,
}

impl Served {
    fn new(config: ServerConfig) -> Served {
        let mut chunks = config.clone();
        chunks.alpn_protocols = vec![b"h2".to_vec()];
        Served { zookeeper: Arc::new(config), chunks: Arc::new(chunks) }
    }
}

impl Tls {
    /// Reads the stores.
    pub fn load(config: TlsConfig) -> Result<Tls, TlsError> {
        let current = Mutex::new(Served::new(server_config(&config)?));
        Ok(Tls {
            config,
            current,
            handshakes_under_way: AtomicUsize::new(0),
            handshakes_failed: AtomicU64::new(0),
            handshakes_exceeded: AtomicU64::new(0),
            complaints: Mutex::default(),
        })
    }

    /// What a new connection of ZooKeeper's clients is to begin with.
    pub fn current(&self) -> Arc<ServerConfig> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).zookeeper.clone()
    }

    /// What a new connection to the chunk store is to begin with.
    pub fn current_of_chunks(&self) -> Arc<ServerConfig> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).chunks.clone()
    }

    /// Counts one more handshake under way. None if there are as many as there may be
    /// (`zookeeper.netty.server.outstandingHandshake.limit`): the connection is to be closed.
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

    /// For the metrics.
    pub fn handshake_counts(&self) -> HandshakeCounts {
        HandshakeCounts {
            under_way: self.handshakes_under_way.load(Ordering::Relaxed) as u64,
            failed: self.handshakes_failed.load(Ordering::Relaxed),
            exceeded: self.handshakes_exceeded.load(Ordering::Relaxed),
        }
    }

    /// Logs why a client could not be served, unless too many had to be logged lately.
    pub fn complain(&self, peer: &str, cause: &str) {
        let mut complaints = self.complaints.lock().unwrap_or_else(PoisonError::into_inner);
        let (log, unlogged_count) = complaints.add(Instant::now());
        drop(complaints);
        if unlogged_count > 0 {
            tracing::warn!("TLS: {unlogged_count} more clients were refused before");
        }
        if log {
            tracing::warn!("TLS: client {peer} is refused: {cause}");
        }
    }

    /// The name of the owner of a believed certificate, and by which schemes it is one
    /// (`X509AuthenticationProvider`): the super user's counts twice.
    pub fn identity(&self, certificate: &[u8]) -> Option<(String, &'static [&'static str])> {
        let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
        let name = subject::rfc2253(parsed.subject().as_raw())?;
        let is_super = self.config.super_user.as_ref() == Some(&name);
        Some((name, if is_super { &["super", "x509"] } else { &["x509"] }))
    }

    /// Looks at the files for ever, and takes over what is new in them. A file that cannot be used
    /// changes nothing: what was read before stays, and one line says so.
    pub async fn reload_when_changed(&self) {
        if !self.config.reload {
            return std::future::pending().await;
        }
        let mut seen = own_stamps(&self.config);
        let mut interval = tokio::time::interval(RELOAD_INTERVAL);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            interval.tick().await;
            // Before they are read: what is written meanwhile is seen as one more change.
            let stamps = own_stamps(&self.config);
            if stamps == seen {
                continue;
            }
            seen = stamps;
            self.reload("TLS: the stores have changed and are used from now on");
        }
    }

    /// Reads the stores now, whether they have changed or not, and says so.
    pub fn reload(&self, done: &str) {
        match server_config(&self.config) {
            Ok(new) => {
                *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Served::new(new);
                tracing::info!("{done}");
            }
            Err(error) => tracing::error!("TLS: what was read before is kept: {error}"),
        }
    }
}

/// Handshakes since the start, but for those that succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandshakeCounts {
    /// Now.
    pub under_way: u64,
    /// Refused, or given up by the client.
    pub failed: u64,
    /// Not begun, because too many were under way.
    pub exceeded: u64,
}

/// A handshake under way; dropped, it makes room for another.
pub struct Handshake {
    tls: Arc<Tls>,
    succeeded: bool,
}

impl Handshake {
    /// It is over, and the client is believed.
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

/// How many clients were refused lately.
#[derive(Default)]
struct Complaints {
    since: Option<Instant>,
    count: usize,
}

impl Complaints {
    /// Counts one more: whether it is to be logged, and how many were not before it.
    fn add(&mut self, now: Instant) -> (bool, usize) {
        let over = self.since.is_none_or(|since| now >= since + COMPLAINTS_INTERVAL);
        let unlogged_count = if over { self.count.saturating_sub(COMPLAINTS_MAX) } else { 0 };
        if over {
            *self = Complaints { since: Some(now), count: 0 };
        }
        self.count += 1;
        (self.count <= COMPLAINTS_MAX, unlogged_count)
    }
}

/// What tells one version of the files from another: length and time of the last change, and which
/// file it is, since a name may be led elsewhere.
type FileStamps = Vec<Option<(u64, SystemTime, u64)>>;

fn own_stamps(config: &TlsConfig) -> FileStamps {
    stamps([&config.key_store].into_iter().chain(&config.trust_store))
}

fn stamps<'a>(stores: impl IntoIterator<Item = &'a StoreFile>) -> FileStamps {
    use std::os::unix::fs::MetadataExt;
    let files = stores.into_iter().flat_map(|store| {
        let password = match &store.password {
            Password::File(path) => Some(path),
            Password::Text(_) => None,
        };
        std::iter::once(&store.path).chain(password)
    });
    let stamp = |path: &PathBuf| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.len(), metadata.modified().ok()?, metadata.ino()))
    };
    files.map(stamp).collect()
}

fn server_config(config: &TlsConfig) -> Result<ServerConfig, TlsError> {
    let mut provider = ring::default_provider();
    if !config.cipher_suites.is_empty() {
        let wanted = |name: &str| config.cipher_suites.iter().any(|wanted| wanted == name);
        provider.cipher_suites.retain(|suite| wanted(&cipher_suite_name(*suite)));
    }
    let provider = Arc::new(provider);
    let versions: Vec<_> = [(config.tls13, &TLS13), (config.tls12, &TLS12)]
        .into_iter()
        .filter_map(|(enabled, version)| enabled.then_some(version))
        .collect();
    let store = &config.key_store;
    let keys = read_store(store, key_store::read_keys)?;
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&versions)
        .map_err(|error| store.error(format!("protocols and cipher suites: {error}")))?;
    let builder = match (&config.trust_store, config.client_auth) {
        (Some(store), ClientAuth::Want | ClientAuth::Need) => {
            let trusted = read_store(store, key_store::read_trusted)?;
            let mandatory = config.client_auth == ClientAuth::Need;
            let verifier = ClientVerifier::new(trusted, mandatory, &provider)
                .map_err(|cause| store.error(cause))?;
            builder.with_client_cert_verifier(Arc::new(verifier))
        }
        _ => builder.with_client_cert_verifier(WebPkiClientVerifier::no_client_auth()),
    };
    keys.iter().for_each(|own| show_dates(store, own));
    let mut server_config = builder.with_cert_resolver(Arc::new(Keys(keys)));
    server_config.session_storage = Arc::new(NoServerSessionStorage {});
    server_config.send_tls13_tickets = 0;
    Ok(server_config)
}

/// Logs how long a certificate of ours is valid: a client that finds out is too late.
fn show_dates(store: &StoreFile, own: &CertifiedKey) {
    let certificate = own.cert.first().map_or(&[][..], |certificate| certificate);
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else { return };
    let name = subject::rfc2253(parsed.subject().as_raw()).unwrap_or_default();
    let (validity, path) = (parsed.validity(), store.path.display());
    let until = validity.not_after;
    if validity.is_valid() {
        tracing::info!("TLS: {path}: the certificate of {name} is valid until {until}");
    } else {
        let since = validity.not_before;
        tracing::warn!(
            "TLS: {path}: the certificate of {name} is valid only from {since} to {until}"
        );
    }
}

type ReadStore<T> = fn(&[u8], StoreKind, &str) -> Result<Vec<T>, key_store::StoreError>;

/// What a store holds.
pub(crate) fn read_store<T>(store: &StoreFile, read: ReadStore<T>) -> Result<Vec<T>, TlsError> {
    let kind = store.kind.or_else(|| StoreKind::from_path(&store.path)).ok_or_else(|| {
        store.error("its name ends in none of .jks, .pem and .p12, and no type is set".to_string())
    })?;
    let bytes = read_file(&store.path).map_err(|cause| store.error(cause))?;
    let password = match &store.password {
        Password::Text(text) => text.clone(),
        Password::File(path) => {
            let bytes = read_file(path).map_err(|cause| {
                store.error(format!("password file {}: {cause}", path.display()))
            })?;
            // SecretUtils.readSecret: a line end behind it is not a part of it.
            let text = String::from_utf8_lossy(&bytes);
            text.strip_suffix('\n').unwrap_or(&text).to_string()
        }
    };
    read(&bytes, kind, &password).map_err(|error| store.error(error.to_string()))
}

fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    let length = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
    if length > STORE_BYTES_MAX as u64 {
        return Err(format!("{length} bytes are more than {STORE_BYTES_MAX}"));
    }
    std::fs::read(path).map_err(|error| error.to_string())
}

impl StoreFile {
    fn error(&self, cause: String) -> TlsError {
        TlsError {
            place: self.place.clone(),
            key: self.key.clone(),
            path: self.path.display().to_string(),
            cause,
        }
    }
}

/// What a client is told to have done wrong.
pub fn cause_of(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidMessage(error) => format!("what it sends is not TLS ({error:?})"),
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests;
