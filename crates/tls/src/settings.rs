//! The TLS settings that a configuration gives: those of ZooKeeper 3.9 (`X509Util`), and rules for
//! certificates from etcd's flags.

use std::fmt;
use std::path::PathBuf;

use super::key_store::StoreKind;

/// All TLS settings for connections of clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsConfig {
    /// The store with the server's own key and certificate.
    pub key_store: StoreFile,
    /// The store of trusted certificates that clients are verified with; `None` if clients are not
    /// asked for a certificate.
    pub trust_store: Option<StoreFile>,
    /// Whether clients are asked for a certificate.
    pub client_auth: ClientAuth,
    /// Whether TLS 1.2 is allowed.
    pub tls12: bool,
    /// Whether TLS 1.3 is allowed.
    pub tls13: bool,
    /// The allowed cipher suites, by Java's names. Empty: all supported ones.
    pub cipher_suites: Vec<String>,
    /// Whether the stores are read again when their files change.
    pub reload: bool,
    /// The most handshakes under way at once; 0 for no limit.
    pub handshakes_max: usize,
    /// The name of the super user: a client whose certificate has this name has all rights.
    pub super_user: Option<String>,
    /// Further rules for a client's certificate.
    pub rules: CertificateRules,
}

impl TlsConfig {
    /// Whether a client can prove its identity with a certificate.
    pub fn asks_for_certificates(&self) -> bool {
        self.client_auth != ClientAuth::None && self.trust_store.is_some()
    }
}

/// All TLS settings for connections between servers. Both ends show a certificate, as with
/// `ssl.quorum.clientAuth=need`, ZooKeeper's default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerTlsConfig {
    /// The store with the server's own key and certificate.
    pub key_store: StoreFile,
    /// The store of trusted certificates that other servers are verified with. With `None`,
    /// messages are encrypted but any certificate is accepted, as with etcd's `--peer-auto-tls`.
    pub trust_store: Option<StoreFile>,
    /// Whether the certificate of a dialled server must be valid for the host that was dialled
    /// (`ssl.quorum.hostnameVerification`).
    pub checks_names: bool,
    /// Whether the certificate of a dialling server must be valid for one of its configured hosts
    /// (`ssl.quorum.clientHostnameVerification`). Never true without `checks_names`.
    pub checks_diallers: bool,
    /// Whether TLS 1.2 is allowed.
    pub tls12: bool,
    /// Whether TLS 1.3 is allowed.
    pub tls13: bool,
    /// The allowed cipher suites, by Java's names. Empty: all supported ones.
    pub cipher_suites: Vec<String>,
    /// Whether the stores are read again when their files change.
    pub reload: bool,
    /// Further rules for the certificate of another server.
    pub rules: CertificateRules,
}

/// Rules for a peer's certificate in addition to the trust store (etcd's flags).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateRules {
    /// A certificate must have one of these names; `None` if it may have any.
    pub names: Option<AllowedNames>,
    /// The file with the list of revoked certificates; `None` if there is no such list.
    pub revoked: Option<PathBuf>,
}

/// Names for certificates. A certificate must have one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedNames {
    /// Common names in the subject.
    CommonNames(Vec<String>),
    /// Hosts for which the certificate must be valid by its alternative names.
    Hosts(Vec<String>),
}

/// A file with keys or certificates, and the setting that names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreFile {
    /// The path of the file.
    pub path: PathBuf,
    /// A second PEM file with the key, if the first one has only certificates.
    pub key_path: Option<PathBuf>,
    /// The kind of the file; `None` if the extension of its name decides.
    pub kind: Option<StoreKind>,
    /// The password of the store.
    pub password: Password,
    /// The place of the setting that names the file, for errors.
    pub place: Place,
    /// The key of that setting, for errors.
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

/// Whether clients are asked for a certificate (`X509Util.ClientAuth`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAuth {
    /// Clients are not asked for a certificate.
    None,
    /// Clients are asked for a certificate, and need not show one.
    Want,
    /// Clients must show a certificate.
    Need,
}

/// Where a setting was made: a file with the line, if known; or the name of an environment variable
/// or of a command line option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file, the variable or the option.
    pub file: String,
    /// The line, from 1.
    pub line: Option<u32>,
}

impl Place {
    /// A file, a variable or an option, without a line.
    pub fn of(file: &str) -> Place {
        Place { file: file.to_string(), line: None }
    }

    /// A line of a file, from 1.
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
