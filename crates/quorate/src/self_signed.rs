//! Makes a key and a certificate that a server signs itself (etcd's `--auto-tls` and
//! `--peer-auto-tls`, `transport.SelfCert`). Connections are then encrypted, but a client cannot
//! verify which server it talks to.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::Context;
use config::self_signed::SelfSigned;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose};
use storage::disk::{FILE_MODE, create_private_directories};

/// The length of a year as etcd counts it.
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Creates a key and a certificate file, unless both exist.
///
/// # Errors
/// A file cannot be written, or a host name cannot be part of a certificate.
pub fn make(wanted: &SelfSigned) -> anyhow::Result<()> {
    if wanted.certificate_path().exists() && wanted.key_path().exists() {
        return Ok(());
    }
    let shown = wanted.dir.display();
    let key = KeyPair::generate().context("a key cannot be made")?;
    let mut params = CertificateParams::new(wanted.hosts.clone())
        .with_context(|| format!("a certificate for {:?} cannot be made", wanted.hosts))?;
    params.distinguished_name.push(DnType::OrganizationName, "quorate");
    params.not_before = SystemTime::now().into();
    params.not_after = (SystemTime::now() + YEAR * wanted.years).into();
    params.key_usages = vec![KeyUsagePurpose::KeyEncipherment, KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let certificate = params.self_signed(&key).context("a certificate cannot be signed")?;
    create_private_directories(&wanted.dir).with_context(|| format!("{shown} cannot be made"))?;
    write(&wanted.key_path(), &key.serialize_pem())?;
    write(&wanted.certificate_path(), &certificate.pem())
}

/// Writes a file that only its owner can read.
fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let open =
        OpenOptions::new().write(true).create(true).truncate(true).mode(FILE_MODE).open(path);
    let written = open.and_then(|mut file| file.write_all(text.as_bytes()));
    written.with_context(|| format!("{} cannot be written", path.display()))
}
