//! TLS for servers and clients: reads key stores and certificates from files, decides which peers
//! to trust, and builds the configurations of rustls. It is the counterpart of ZooKeeper 3.9's
//! `X509Util`.
//!
//! ```text
//! settings -> files -> key_store (jks, PEM, PKCS #12) -> keys, trust, rules -> server | client
//! ```
//!
//! TLS sessions are never resumed: each connection proves its certificate again.

mod client;
mod client_verifier;
mod common_name;
pub mod der;
pub mod files;
pub mod jks;
pub mod key_store;
mod keys;
mod p521;
pub mod rules;
mod server;
mod server_verifier;
pub mod settings;
pub mod subject;
pub mod suites;
mod trust;

use files::read_file;
use key_store::StoreKind;
use settings::{Password, Place, StoreFile};

pub use client::{client_config, config_of_any_server};
pub use common_name::common_name;
pub use server::server_config;
pub use server_verifier::names_host;

/// The error of a store that cannot be used: one line with the setting's place and the cause.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {key}: {path}: {cause}")]
pub struct TlsError {
    place: Place,
    key: String,
    path: String,
    cause: String,
}

type ReadStore<T> = fn(&[u8], StoreKind, &str) -> Result<Vec<T>, key_store::StoreError>;

/// Reads a store: its file, perhaps a separate key file, and its password. `read` parses the bytes.
pub fn read_store<T>(store: &StoreFile, read: ReadStore<T>) -> Result<Vec<T>, TlsError> {
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
            // As in `SecretUtils.readSecret`, a line end after the password is not a part of it.
            let text = String::from_utf8_lossy(&bytes);
            text.strip_suffix('\n').unwrap_or(&text).to_string()
        }
    };
    read(&bytes, kind, &password).map_err(|error| store.error(error.to_string()))
}

impl StoreFile {
    /// An error that says that this store cannot be used, because of `cause`.
    pub fn error(&self, cause: String) -> TlsError {
        TlsError {
            place: self.place.clone(),
            key: self.key.clone(),
            path: self.path.display().to_string(),
            cause,
        }
    }
}

/// The text of a TLS error that the other end of a connection (a client or a server) has caused,
/// for a log or an error message.
pub fn cause_of(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidMessage(error) => format!("what it sends is not TLS ({error:?})"),
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests;
