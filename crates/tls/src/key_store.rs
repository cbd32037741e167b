//! Reads key stores and trust stores: turns PEM, PKCS #12 and JKS files into keys with their
//! chains, and into trusted certificates.
//!
//! As in ZooKeeper 3.9 (`KeyStoreFileType`, `FileKeyStoreLoader` and its subclasses, and Java's
//! `PKIXParameters`), one password opens a file and its keys, and in a PKCS #12 or JKS file only
//! entries that are marked as trusted certificates are trusted. As in Java, a file of type JKS may
//! hold PKCS #12 and vice versa: since Java 9, `keytool` writes PKCS #12 under any file name.

use std::path::Path;
use std::sync::Arc;

use p12_keystore::Pkcs12Archive;
use p12_keystore::error::Error as Pkcs12Error;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer};
use rustls::sign::{CertifiedKey, SigningKey};
use x509_parser::certificate::X509Certificate;
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer;

use super::der::{self, BIT_STRING, CONTEXT_0, CONTEXT_1, INTEGER, OCTET_STRING, OID, SEQUENCE};
use super::jks::{self, JksError};
use super::p521;

/// The most bytes of a store: enough for ten times the certificates that a browser trusts.
pub const STORE_BYTES_MAX: usize = 16 << 20;

/// The most certificates in a chain that is sent to peers.
const CHAIN_MAX: usize = 100;

/// The object identifier id-data: plain content in a PKCS #12 file (RFC 7292).
const DATA: [u8; 9] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x01];
/// The object identifier of a PKCS #12 bag with an encrypted key (RFC 7292).
const SHROUDED_KEY_BAG: [u8; 11] =
    [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x0a, 0x01, 0x02];
/// The object identifier id-ecPublicKey (RFC 5480).
const EC_PUBLIC_KEY: [u8; 7] = [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];

/// The format of a store (`ssl.keyStore.type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// A Java key store.
    Jks,
    /// PEM: certificates and keys as text.
    Pem,
    /// A PKCS #12 archive.
    Pkcs12,
}

impl StoreKind {
    /// The kind with this name, in any case (`KeyStoreFileType.fromPropertyValue`).
    pub fn from_name(name: &str) -> Result<StoreKind, String> {
        match name.to_ascii_uppercase().as_str() {
            "JKS" => Ok(StoreKind::Jks),
            "PEM" => Ok(StoreKind::Pem),
            "PKCS12" => Ok(StoreKind::Pkcs12),
            "BCFKS" => Err("BCFKS is not built; use PKCS12, PEM or JKS".to_string()),
            _ => Err(format!("{name:?} is not one of JKS, PEM and PKCS12")),
        }
    }

    /// The kind of a file by the extension of its name (`KeyStoreFileType.fromFilename`); `None` if
    /// the extension is unknown.
    pub fn from_path(path: &Path) -> Option<StoreKind> {
        match path.extension()?.to_str()? {
            "jks" => Some(StoreKind::Jks),
            "pem" => Some(StoreKind::Pem),
            "p12" => Some(StoreKind::Pkcs12),
            _ => None,
        }
    }
}

/// The reason why a store cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The password is wrong, or the file is damaged.
    #[error("the password is wrong, or the file is damaged")]
    Password,
    /// The key has another password than the store.
    #[error("its key and the store have different passwords; ZooKeeper supports only one")]
    KeyPassword,
    /// The key is encrypted, and there is no password.
    #[error("its key is encrypted, and there is no password")]
    NoPassword,
    /// There is no private key.
    #[error("it holds no private key")]
    NoKey,
    /// There is no certificate for the private key.
    #[error("it holds no certificate for its private key")]
    NoChain,
    /// There is no trusted certificate.
    #[error("it holds no trusted certificate")]
    NoTrusted,
    /// The key does not belong to the first certificate.
    #[error("its private key does not match its first certificate")]
    KeyMismatch,
    #[error(
        "its private key cannot be used: {0}; RSA of 2048 to 8192 bits, P-256, P-384 and Ed25519 \
         can"
    )]
    /// The key cannot be used, for this reason.
    Key(String),
    /// The bytes are no store of this format.
    #[error("it is not a {0}")]
    Malformed(String),
}

/// Reads the private keys of a store, each with its certificate and the issuers' certificates.
pub fn read_keys(
    bytes: &[u8],
    kind: StoreKind,
    password: &str,
) -> Result<Vec<Arc<CertifiedKey>>, StoreError> {
    let found = match format_of(bytes, kind) {
        StoreKind::Pem => vec![pem_key(bytes, password)?],
        StoreKind::Jks => {
            let own = |key| PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key));
            let keys = jks::read(bytes, password).map_err(jks_error)?.keys;
            keys.into_iter().map(|found| (own(found.key), found.chain)).collect()
        }
        StoreKind::Pkcs12 => pkcs12_keys(&pkcs12(bytes, password)?)?,
    };
    if found.is_empty() {
        return Err(StoreError::NoKey);
    }
    found.into_iter().map(|(key, chain)| certified(&key, chain)).collect()
}

/// Reads the trusted certificates of a store.
pub fn read_trusted(
    bytes: &[u8],
    kind: StoreKind,
    password: &str,
) -> Result<Vec<CertificateDer<'static>>, StoreError> {
    let found = match format_of(bytes, kind) {
        StoreKind::Pem => pem_certificates(&pem_sections(bytes)?)?,
        StoreKind::Jks => jks::read(bytes, password).map_err(jks_error)?.trusted,
        StoreKind::Pkcs12 => {
            let certificates = pkcs12(bytes, password)?.certs.into_iter();
            let trusted =
                certificates.filter(|found| found.trusted && found.local_key_id.is_none());
            trusted.map(|found| found.cert.as_der().to_vec()).collect()
        }
    };
    if found.is_empty() {
        return Err(StoreError::NoTrusted);
    }
    found.into_iter().map(|bytes| certificate(&bytes).map(CertificateDer::into_owned)).collect()
}

/// The real format of a file: one that is configured as JKS or PKCS #12 may be either.
fn format_of(bytes: &[u8], kind: StoreKind) -> StoreKind {
    match kind {
        StoreKind::Pem => StoreKind::Pem,
        StoreKind::Jks | StoreKind::Pkcs12 if bytes.starts_with(&jks::MAGIC) => StoreKind::Jks,
        StoreKind::Jks | StoreKind::Pkcs12 => StoreKind::Pkcs12,
    }
}

fn jks_error(error: JksError) -> StoreError {
    match error {
        JksError::Password => StoreError::Password,
        JksError::KeyPassword => StoreError::KeyPassword,
        JksError::Malformed(offset) => {
            StoreError::Malformed(format!("JKS file: byte {offset} cannot be read"))
        }
    }
}

/// The certificate at the beginning of `bytes`. Some PEM sections have more bytes after it.
fn certificate(bytes: &[u8]) -> Result<CertificateDer<'_>, StoreError> {
    let (_, parsed) = X509Certificate::from_der(bytes)
        .map_err(|error| StoreError::Malformed(format!("certificate: {error}")))?;
    Ok(CertificateDer::from(parsed.as_raw()))
}

type KeyAndChain = (PrivateKeyDer<'static>, Vec<Vec<u8>>);

// PEM.

fn pem_sections(bytes: &[u8]) -> Result<Vec<Pem>, StoreError> {
    let malformed = |cause: String| StoreError::Malformed(format!("PEM file: {cause}"));
    if bytes.windows(21).any(|window| window == b"Proc-Type: 4,ENCRYPTED") {
        let cause = "its key is encrypted in an old form; convert it by `openssl pkcs8 -topk8`";
        return Err(malformed(cause.to_string()));
    }
    // Editors put a byte order mark before a text, and `cat` leaves the mark between two texts.
    // Java's `PemReader` only looks for the dashes.
    let text: Vec<u8> =
        bytes.split_inclusive(|byte| *byte == b'\n').flat_map(without_mark).collect();
    Pem::iter_from_buffer(&text)
        .collect::<Result<Vec<Pem>, _>>()
        .map_err(|error| malformed(error.to_string()))
}

/// A line without the UTF-8 byte order mark that it may begin with.
fn without_mark(line: &[u8]) -> impl Iterator<Item = u8> {
    line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line).iter().copied()
}

fn pem_certificates(sections: &[Pem]) -> Result<Vec<Vec<u8>>, StoreError> {
    let certificates = sections.iter().filter(|section| section.label.ends_with("CERTIFICATE"));
    Ok(certificates.map(|section| section.contents.clone()).collect())
}

/// The first key and all certificates (`PemReader.loadKeyStore`).
fn pem_key(bytes: &[u8], password: &str) -> Result<KeyAndChain, StoreError> {
    let sections = pem_sections(bytes)?;
    let key = sections.iter().find(|section| section.label.ends_with("PRIVATE KEY"));
    let key = key.ok_or(StoreError::NoKey)?;
    let contents = key.contents.clone();
    let key = match key.label.as_str() {
        "RSA PRIVATE KEY" => PrivateKeyDer::Pkcs1(contents.into()),
        "EC PRIVATE KEY" => PrivateKeyDer::Sec1(contents.into()),
        "ENCRYPTED PRIVATE KEY" if password.is_empty() => return Err(StoreError::NoPassword),
        "ENCRYPTED PRIVATE KEY" => decrypted(&contents, password)?,
        _ => PrivateKeyDer::Pkcs8(contents.into()),
    };
    Ok((key, pem_certificates(&sections)?))
}

/// Decrypts a key. It wraps the key as the only content of a PKCS #12 file, whose keys are
/// encrypted in the same way, so that one library decrypts both.
fn decrypted(info: &[u8], password: &str) -> Result<PrivateKeyDer<'static>, StoreError> {
    let oid = |bytes: &[u8]| der::wrap(OID, &[bytes]);
    let bag = der::wrap(SEQUENCE, &[&oid(&SHROUDED_KEY_BAG), &der::wrap(CONTEXT_0, &[info])]);
    let data = |content: &[u8]| {
        let content = der::wrap(CONTEXT_0, &[&der::wrap(OCTET_STRING, &[content])]);
        der::wrap(SEQUENCE, &[&oid(&DATA), &content])
    };
    let safe = der::wrap(SEQUENCE, &[&data(&der::wrap(SEQUENCE, &[&bag]))]);
    let file = der::wrap(SEQUENCE, &[&der::wrap(INTEGER, &[&[3]]), &data(&safe)]);
    let archive = pkcs12(&file, password)?;
    let key = archive.keys.first().ok_or(StoreError::NoKey)?;
    Ok(PrivateKeyDer::Pkcs8(key.key.as_der().to_vec().into()))
}

// PKCS #12.

fn pkcs12(bytes: &[u8], password: &str) -> Result<Pkcs12Archive, StoreError> {
    Pkcs12Archive::from_pkcs12(bytes, password).map_err(|error| match error {
        Pkcs12Error::MacError(_)
        | Pkcs12Error::Pkcs5Error(_)
        | Pkcs12Error::UnpadError
        | Pkcs12Error::InvalidPrivateKey => StoreError::Password,
        error => StoreError::Malformed(format!("PKCS #12 file: {error}")),
    })
}

/// The keys of an archive, each with the certificate of its local id and then the issuers'
/// certificates. As in Java, a single key without an id gets the first certificate.
fn pkcs12_keys(archive: &Pkcs12Archive) -> Result<Vec<KeyAndChain>, StoreError> {
    let mut found = Vec::new();
    for bag in &archive.keys {
        let id = bag.local_key_id.as_ref().map(|id| id.as_ref());
        let own = match id {
            None if archive.keys.len() == 1 => archive.certs.first(),
            id => archive
                .certs
                .iter()
                .find(|other| id.is_some() && other.local_key_id.as_deref() == id),
        };
        let mut last = own.ok_or(StoreError::NoChain)?;
        let mut chain = vec![last.cert.as_der().to_vec()];
        while let Some(issuer) = archive.certs.iter().find(|other| {
            other.cert.subject() == last.cert.issuer()
                && !chain.iter().any(|der| der == other.cert.as_der())
        }) && chain.len() < CHAIN_MAX
        {
            chain.push(issuer.cert.as_der().to_vec());
            last = issuer;
        }
        found.push((PrivateKeyDer::Pkcs8(bag.key.as_der().to_vec().into()), chain));
    }
    Ok(found)
}

// Keys.

/// A key that can sign, with its chain. Checks that the key and the first certificate belong
/// together.
fn certified(
    key: &PrivateKeyDer<'static>,
    chain: Vec<Vec<u8>>,
) -> Result<Arc<CertifiedKey>, StoreError> {
    let chain: Vec<CertificateDer<'static>> = chain
        .iter()
        .map(|bytes| certificate(bytes).map(CertificateDer::into_owned))
        .collect::<Result<_, _>>()?;
    let own = chain.first().ok_or(StoreError::NoChain)?;
    let (_, own) = X509Certificate::from_der(own)
        .map_err(|error| StoreError::Malformed(format!("certificate: {error}")))?;
    let public_key = own.public_key().raw;
    let signing: Arc<dyn SigningKey> = match any_supported_type(key) {
        Ok(signing) => signing,
        Err(error) => p521::signing_key(key)
            .or_else(|| any_supported_type(&with_public_key(key, public_key)?).ok())
            .ok_or_else(|| StoreError::Key(error.to_string()))?,
    };
    if signing.public_key().is_some_and(|own| own.as_ref() != public_key) {
        return Err(StoreError::KeyMismatch);
    }
    Ok(Arc::new(CertifiedKey::new(chain, signing)))
}

/// Completes an elliptic key that Java has written without its public half, with the public key of
/// its certificate: our signer needs both (RFC 5915).
fn with_public_key(key: &PrivateKeyDer<'_>, public_key: &[u8]) -> Option<PrivateKeyDer<'static>> {
    let PrivateKeyDer::Pkcs8(key) = key else { return None };
    let mut input = key.secret_pkcs8_der();
    let mut info = der::take_tagged(&mut input, SEQUENCE)?.content;
    der::take_tagged(&mut info, INTEGER)?;
    let mut algorithm = der::take_tagged(&mut info, SEQUENCE)?.content;
    if der::take_tagged(&mut algorithm, OID)?.content != EC_PUBLIC_KEY {
        return None;
    }
    let curve = der::take_tagged(&mut algorithm, OID)?.whole;
    let mut inside = der::take_tagged(&mut info, OCTET_STRING)?.content;
    let mut private = der::take_tagged(&mut inside, SEQUENCE)?.content;
    let version = der::take_tagged(&mut private, INTEGER)?.whole;
    let scalar = der::take_tagged(&mut private, OCTET_STRING)?.whole;

    let mut public_key = public_key;
    let mut public_info = der::take_tagged(&mut public_key, SEQUENCE)?.content;
    der::take_tagged(&mut public_info, SEQUENCE)?;
    let point = der::take_tagged(&mut public_info, BIT_STRING)?.whole;
    let curve = der::wrap(CONTEXT_0, &[curve]);
    let point = der::wrap(CONTEXT_1, &[point]);
    let whole = der::wrap(SEQUENCE, &[version, scalar, &curve, &point]);
    Some(PrivateKeyDer::Sec1(PrivateSec1KeyDer::from(whole)))
}

#[cfg(test)]
mod tests;
