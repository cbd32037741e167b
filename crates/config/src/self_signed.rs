//! A certificate that a server makes itself (etcd's `--auto-tls` and `--peer-auto-tls`).

use std::path::PathBuf;

/// Files of a folder, as etcd names them.
const CERTIFICATE_FILE: &str = "cert.pem";
const KEY_FILE: &str = "key.pem";

/// A certificate to make, unless its folder has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelfSigned {
    /// The folder of the files.
    pub dir: PathBuf,
    /// The hosts that the certificate is for.
    pub hosts: Vec<String>,
    /// How long it is valid.
    pub years: u32,
}

impl SelfSigned {
    /// The file of the certificate.
    pub fn certificate_path(&self) -> PathBuf {
        self.dir.join(CERTIFICATE_FILE)
    }

    /// The file of its key.
    pub fn key_path(&self) -> PathBuf {
        self.dir.join(KEY_FILE)
    }
}
