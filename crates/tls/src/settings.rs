//! The settings of TLS, as a configuration gives them. ZooKeeper 3.9 has those of `X509Util`.

use std::fmt;
use std::path::PathBuf;

use super::key_store::StoreKind;

/// All settings of TLS for clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsConfig {
    /// The store of our key and certificate.
    pub key_store: StoreFile,
    /// The store of certificates that clients are trusted by; `None` if they are not asked for one.
    pub trust_store: Option<StoreFile>,
    /// Whether clients show a certificate.
    pub client_auth: ClientAuth,
    /// Whether TLS 1.2 is spoken.
    pub tls12: bool,
    /// Whether TLS 1.3 is spoken.
    pub tls13: bool,
    /// The cipher suites that are allowed, by Java's names; empty: all that we have.
    pub cipher_suites: Vec<String>,
    /// Whether the stores are read again when their files change.
    pub reload: bool,
    /// Handshakes under way at once; 0 is no limit.
    pub handshakes_max: usize,
    /// The name of the super user: a client with a certificate of this name may do everything.
    pub super_user: Option<String>,
    /// The rules for a client's certificate beside its trust.
    pub rules: CertificateRules,
}

impl TlsConfig {
    /// Whether a client can prove its identity by a certificate.
    pub fn asks_for_certificates(&self) -> bool {
        self.client_auth != ClientAuth::None && self.trust_store.is_some()
    }
}

/// All settings of TLS between servers. Both ends show a certificate, as with
/// `ssl.quorum.clientAuth=need`, which is ZooKeeper's default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerTlsConfig {
    /// The store of our key and certificate.
    pub key_store: StoreFile,
    /// The store of certificates that servers are trusted by. With `None`, messages are encrypted,
    /// and any certificate will do, as with etcd's `--peer-auto-tls`.
    pub trust_store: Option<StoreFile>,
    /// Whether the certificate of a dialled server must be for the host that was dialled
    /// (`ssl.quorum.hostnameVerification`).
    pub checks_names: bool,
    /// Whether the certificate of a dialling server must be for one of its configured hosts
    /// (`ssl.quorum.clientHostnameVerification`); never without `checks_names`.
    pub checks_diallers: bool,
    /// Whether TLS 1.2 is spoken.
    pub tls12: bool,
    /// Whether TLS 1.3 is spoken.
    pub tls13: bool,
    /// The cipher suites that are allowed, by Java's names; empty: all that we have.
    pub cipher_suites: Vec<String>,
    /// Whether the stores are read again when their files change.
    pub reload: bool,
    /// The rules for the certificate of another server beside its trust.
    pub rules: CertificateRules,
}

/// Rules about the certificate of a peer, beside the trust store (etcd's flags).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateRules {
    /// A certificate must have one of these names; `None` if it may have any.
    pub names: Option<AllowedNames>,
    /// The file with the serial numbers of revoked certificates.
    pub revoked: Option<PathBuf>,
}

/// Names; a certificate must have one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedNames {
    /// Common names in its subject.
    CommonNames(Vec<String>),
    /// Hosts that the certificate is valid for, by its alternative names.
    Hosts(Vec<String>),
}

/// A file with keys or certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreFile {
    /// The file.
    pub path: PathBuf,
    /// A second file of PEM with the key, where the first one has certificates only.
    pub key_path: Option<PathBuf>,
    /// The kind of the file; `None` if the end of its name decides.
    pub kind: Option<StoreKind>,
    /// The password of the store.
    pub password: Password,
    /// The place and the key that name the file.
    pub place: Place,
    /// The key of the setting.
    pub key: String,
}

/// The password of a store.
#[derive(Clone, PartialEq, Eq)]
pub enum Password {
    /// The password itself.
    Text(String),
    /// A file that contains the password.
    File(PathBuf),
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Password::Text(_) => f.write_str("***"),
            Password::File(path) => path.fmt(f),
        }
    }
}

/// Whether clients show a certificate (`X509Util.ClientAuth`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAuth {
    /// Clients are not asked.
    None,
    /// Clients may show one.
    Want,
    /// Clients must show one.
    Need,
}

/// The place of a setting: a file and, if known, the line (from 1); or the name of an environment
/// variable or an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file, the variable or the option.
    pub file: String,
    /// The line, from 1.
    pub line: Option<u32>,
}

impl Place {
    /// A file, a variable or an option.
    pub fn of(file: &str) -> Place {
        Place { file: file.to_string(), line: None }
    }

    /// A line of a file.
    pub fn at(file: &str, line: u32) -> Place {
        Place { file: file.to_string(), line: Some(line) }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}", self.file),
            None => f.write_str(&self.file),
        }
    }
}
