//! Keys and certificates that a server makes itself (etcd's `--auto-tls` and `--peer-auto-tls`,
//! `transport.SelfCert`): what is sent is encrypted, and clients cannot know to whom.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Context;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose};
use storage::disk::{FILE_MODE, create_private_directories};

/// Files of a folder, as etcd names them.
const CERTIFICATE_FILE: &str = "cert.pem";
const KEY_FILE: &str = "key.pem";

/// The length of a year, as etcd counts it.
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

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

    /// Makes the files, unless they exist.
    ///
    /// # Errors
    /// A file cannot be written, or a host cannot be in a certificate.
    pub fn make(&self) -> anyhow::Result<()> {
        if self.certificate_path().exists() && self.key_path().exists() {
            return Ok(());
        }
        let shown = self.dir.display();
        let key = KeyPair::generate().context("a key cannot be made")?;
        let mut params = CertificateParams::new(self.hosts.clone())
            .with_context(|| format!("a certificate for {:?} cannot be made", self.hosts))?;
        params.distinguished_name.push(DnType::OrganizationName, "quorate");
        params.not_before = SystemTime::now().into();
        params.not_after = (SystemTime::now() + YEAR * self.years).into();
        params.key_usages =
            vec![KeyUsagePurpose::KeyEncipherment, KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.self_signed(&key).context("a certificate cannot be signed")?;
        create_private_directories(&self.dir).with_context(|| format!("{shown} cannot be made"))?;
        write(&self.key_path(), &key.serialize_pem())?;
        write(&self.certificate_path(), &certificate.pem())
    }
}

/// Writes a file that only its owner may read.
fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let open =
        OpenOptions::new().write(true).create(true).truncate(true).mode(FILE_MODE).open(path);
    let written = open.and_then(|mut file| file.write_all(text.as_bytes()));
    written.with_context(|| format!("{} cannot be written", path.display()))
}
