//! TLS for clients: the settings of a listener, made from the configured stores, and made anew when
//! their files change.
//!
//! It takes the place of ZooKeeper 3.9's `ClientX509Util` and `X509AuthenticationProvider`. TLS
//! sessions are not resumed: every connection proves its certificate again.

mod client_verifier;
mod common_name;
mod der;
pub mod files;
mod jks;
pub mod key_store;
pub mod keys;
pub mod p521;
pub mod peers;
pub mod rules;
pub mod self_signed;
pub mod server_verifier;
mod subject;
pub mod suites;
pub mod trust;

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::server::{NoServerSessionStorage, ServerConfig, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use crate::config::report::Place;
use crate::config::tls::{ClientAuth, Password, StoreFile, TlsConfig};
use crate::logging::{REFUSALS_MAX, Seldom};
use client_verifier::ClientVerifier;
pub use common_name::common_name;
use files::{Files, read_file};
use key_store::StoreKind;
use keys::Keys;
use rules::Rules;
use suites::cipher_suite_name;

/// Clients that TLS refused.
static REFUSED: Seldom = Seldom::new(REFUSALS_MAX, "clients of TLS were refused");

/// The error of a store that cannot be used: one line that names its place and the cause.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {key}: {path}: {cause}")]
pub struct TlsError {
    place: Place,
    key: String,
    path: String,
    cause: String,
}

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

fn server_config(config: &TlsConfig, rules: &Arc<Rules>) -> Result<ServerConfig, TlsError> {
    let mut provider = p521::provider();
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
            let verifier = ClientVerifier::new(trusted, rules.clone(), mandatory, &provider)
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

/// Logs the validity of our certificate: a client would notice too late that it expired.
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

/// Reads the contents of a store.
pub(crate) fn read_store<T>(store: &StoreFile, read: ReadStore<T>) -> Result<Vec<T>, TlsError> {
    let kind = store.kind.or_else(|| StoreKind::from_path(&store.path)).ok_or_else(|| {
        store.error("its name ends in none of .jks, .pem and .p12, and no type is set".to_string())
    })?;
    let mut bytes = read_file(&store.path).map_err(|cause| store.error(cause))?;
    if let Some(key_path) = &store.key_path {
        let key = read_file(key_path)
            .map_err(|cause| store.error(format!("key file {}: {cause}", key_path.display())))?;
        bytes.push(b'\n');
        bytes.extend(key);
    }
    let password = match &store.password {
        Password::Text(text) => text.clone(),
        Password::File(path) => {
            let bytes = read_file(path).map_err(|cause| {
                store.error(format!("password file {}: {cause}", path.display()))
            })?;
            // `SecretUtils.readSecret`: a line end behind the password is not a part of it.
            let text = String::from_utf8_lossy(&bytes);
            text.strip_suffix('\n').unwrap_or(&text).to_string()
        }
    };
    read(&bytes, kind, &password).map_err(|error| store.error(error.to_string()))
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

/// The text about a client's fault.
pub fn cause_of(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidMessage(error) => format!("what it sends is not TLS ({error:?})"),
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests;
