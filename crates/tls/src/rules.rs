//! Rules for a peer's certificate in addition to the trust store: names that it must have, and a
//! list of revoked certificates.
//!
//! Source: `transport.TLSInfo` and `checkCRL` of etcd 3.6. As there, the list revokes serial
//! numbers, whatever the issuer, and each certificate that the peer shows is checked. The signature
//! and the dates of the list do not matter, because the list is a file of the administrator, as the
//! trust store is.
//!
//! A handshake uses the list as it was last read, and never reads the file: a disk that hangs must
//! not stop the thread of a handshake. If the last read failed, every certificate is refused.

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, Error, OtherError};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;
use x509_parser::revocation_list::CertificateRevocationList;

use super::common_name::common_name;
use super::files::read_file;
use crate::settings::{AllowedNames, CertificateRules};

/// The rules for certificates of peers.
#[derive(Debug)]
pub struct Rules {
    names: Option<AllowedNames>,
    revoked: Option<RevokedList>,
}

/// The file of the list of revoked certificates, and the result of the last read.
#[derive(Debug)]
struct RevokedList {
    path: PathBuf,
    last: Mutex<LastRead>,
}

/// The revoked serial numbers, or why the list could not be read.
type LastRead = Result<Arc<HashSet<Box<[u8]>>>, String>;

/// Why the rules refuse a certificate.
#[derive(thiserror::Error)]
enum Refused {
    #[error("the certificate's common name {0:?} is not allowed")]
    CommonName(String),
    #[error("the certificate is for none of the allowed hosts")]
    Host,
    #[error("the list of revoked certificates cannot be used: {0}")]
    NoList(String),
}

impl fmt::Debug for Refused {
    /// Writes the text of the error, because rustls shows only the `Debug` form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Error {
        Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(refused))))
    }
}

impl Rules {
    /// Makes the rules, and reads the list.
    pub fn new(config: CertificateRules) -> Rules {
        Rules { names: config.names, revoked: config.revoked.map(RevokedList::new) }
    }

    /// Reads the list again, if there is one. Only one thread may do this at a time.
    pub fn read_again(&self) {
        let Some(list) = &self.revoked else { return };
        let read = read_list(&list.path);
        log(&list.path, &read);
        *list.last() = read;
    }

    /// Reads the list again if the last read failed. Does not log an error that is the same as
    /// before. Only one thread may do this at a time.
    pub fn try_again(&self) {
        let Some(list) = self.revoked.as_ref().filter(|list| list.last().is_err()) else { return };
        let read = read_list(&list.path);
        if read != *list.last() {
            log(&list.path, &read);
            *list.last() = read;
        }
    }

    /// Checks a certificate by the rules. The caller has checked its trust.
    ///
    /// # Errors
    /// The certificate has no allowed name, it or one of its chain is revoked, or the list could
    /// not be read.
    pub fn check(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
    ) -> Result<(), Error> {
        self.check_names(end_entity)?;
        let Some(list) = &self.revoked else { return Ok(()) };
        let revoked = list.last().clone().map_err(Refused::NoList)?;
        for certificate in std::iter::once(end_entity).chain(intermediates) {
            let Ok((_, parsed)) = X509Certificate::from_der(certificate) else {
                return Err(Error::InvalidCertificate(CertificateError::BadEncoding));
            };
            if revoked.contains(without_zeros(parsed.raw_serial())) {
                return Err(Error::InvalidCertificate(CertificateError::Revoked));
            }
        }
        Ok(())
    }

    fn check_names(&self, certificate: &CertificateDer<'_>) -> Result<(), Refused> {
        let (is_allowed, refused) = match &self.names {
            None => return Ok(()),
            Some(AllowedNames::CommonNames(allowed)) => {
                let name = common_name(certificate);
                (allowed.contains(&name), Refused::CommonName(name))
            }
            Some(AllowedNames::Hosts(allowed)) => {
                (allowed.iter().any(|host| is_for(certificate, host)), Refused::Host)
            }
        };
        if is_allowed { Ok(()) } else { Err(refused) }
    }
}

impl RevokedList {
    fn new(path: PathBuf) -> RevokedList {
        let read = read_list(&path);
        log(&path, &read);
        RevokedList { last: Mutex::new(read), path }
    }

    fn last(&self) -> MutexGuard<'_, LastRead> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Logs the result of reading the list.
fn log(path: &Path, read: &LastRead) {
    match read {
        Ok(revoked) => {
            let count = revoked.len();
            tracing::info!("TLS: {}: revoked serial numbers: {count}", path.display());
        }
        Err(cause) => tracing::error!("TLS: no certificate is believed: {cause}"),
    }
}

/// Reads the serial numbers of a list in DER.
fn read_list(path: &Path) -> LastRead {
    let shown = path.display();
    let bytes = read_file(path).map_err(|cause| format!("{shown}: {cause}"))?;
    match CertificateRevocationList::from_der(&bytes) {
        Ok(([], list)) => Ok(list
            .iter_revoked_certificates()
            .map(|it| without_zeros(it.raw_serial()).into())
            .collect::<HashSet<_>>()
            .into()),
        _ => Err(format!("{shown}: it is no revocation list in DER")),
    }
}

/// A serial number without leading zeros, so that equal numbers have equal bytes.
fn without_zeros(serial: &[u8]) -> &[u8] {
    let zeros = serial.iter().take_while(|byte| **byte == 0).count();
    &serial[zeros..]
}

/// Whether a certificate is valid for this host. As in Go, only its alternative names count
/// (`x509.Certificate.VerifyHostname`).
fn is_for(certificate: &CertificateDer<'_>, host: &str) -> bool {
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let Ok(name) = ServerName::try_from(host) else { return false };
    let parsed = ParsedCertificate::try_from(certificate);
    parsed.is_ok_and(|parsed| verify_server_name(&parsed, &name).is_ok())
}

#[cfg(test)]
mod tests;
