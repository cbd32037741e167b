//! A certificate that a server makes for itself (etcd's `--auto-tls` and `--peer-auto-tls`).

use std::path::PathBuf;

/// Names of the files in the folder, as in etcd.
const CERTIFICATE_FILE: &str = "cert.pem";
const KEY_FILE: &str = "key.pem";

/// A certificate to make, unless the folder already has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelfSigned {
    /// The folder of the certificate and its key.
    pub dir: PathBuf,
    /// The host names and addresses that the certificate is for.
    pub hosts: Vec<String>,
    /// How long the certificate is valid.
    pub years: u32,
}

impl SelfSigned {
    /// The path of the certificate.
    pub fn certificate_path(&self) -> PathBuf {
        self.dir.join(CERTIFICATE_FILE)
    }

    /// The path of the certificate's key.
    pub fn key_path(&self) -> PathBuf {
        self.dir.join(KEY_FILE)
    }
}
