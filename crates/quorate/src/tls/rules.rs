//! Rules about the certificate of a peer beside the trust store: the names that it must have, and a
//! list of revoked certificates.
//!
//! Source: `transport.TLSInfo` and `checkCRL` of etcd 3.6. As there, a list revokes serial numbers:
//! the issuer does not count, and each certificate that the peer shows is looked at. The signature
//! and the dates of the list do not count either, since the list is a file of the administrator, as
//! the trust store is. While it cannot be read, no certificate is believed.

use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, Error, OtherError};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;
use x509_parser::revocation_list::CertificateRevocationList;

use super::{FileStamp, common_name, read_file, stamp};
use crate::config::tls::{AllowedNames, CertificateRules};

/// The rules, and the list as it was read last.
#[derive(Debug)]
pub struct Rules {
    config: CertificateRules,
    read: Mutex<Option<Read>>,
}

/// A list that was read: what its file looked like, and the serial numbers, or why there are none.
#[derive(Debug)]
struct Read {
    stamp: Option<FileStamp>,
    revoked: Result<Arc<HashSet<Box<[u8]>>>, String>,
}

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
    /// The text: rustls shows no other form of it.
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
    /// Rules that are looked at for each certificate.
    pub fn new(config: CertificateRules) -> Rules {
        Rules { config, read: Mutex::default() }
    }

    /// Refuses a certificate that breaks a rule. Its trust was checked.
    ///
    /// # Errors
    /// It has no allowed name, it or one beside it is revoked, or the list cannot be read.
    pub fn check(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
    ) -> Result<(), Error> {
        self.check_names(end_entity)?;
        let Some(path) = &self.config.revoked else { return Ok(()) };
        let revoked = self.revoked(path).map_err(Refused::NoList)?;
        for certificate in std::iter::once(end_entity).chain(intermediates) {
            let Ok((_, parsed)) = X509Certificate::from_der(certificate) else {
                return Err(Error::InvalidCertificate(CertificateError::BadEncoding));
            };
            if revoked.contains(number(parsed.raw_serial())) {
                return Err(Error::InvalidCertificate(CertificateError::Revoked));
            }
        }
        Ok(())
    }

    fn check_names(&self, certificate: &CertificateDer<'_>) -> Result<(), Refused> {
        let (is_allowed, refused) = match &self.config.names {
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

    /// The serial numbers of the list, which is read again if its file has changed.
    fn revoked(&self, path: &Path) -> Result<Arc<HashSet<Box<[u8]>>>, String> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        // The stamp is taken before the file is read: a change meanwhile is then seen later.
        let stamp = stamp(path);
        match &*read {
            Some(read) if read.stamp == stamp && stamp.is_some() => read.revoked.clone(),
            _ => {
                let revoked = read_list(path)
                    .map(Arc::new)
                    .map_err(|cause| format!("{}: {cause}", path.display()));
                *read = Some(Read { stamp, revoked: revoked.clone() });
                revoked
            }
        }
    }
}

/// The serial numbers of a list in DER.
fn read_list(path: &Path) -> Result<HashSet<Box<[u8]>>, String> {
    let bytes = read_file(path)?;
    match CertificateRevocationList::from_der(&bytes) {
        Ok(([], list)) => {
            Ok(list.iter_revoked_certificates().map(|it| number(it.raw_serial()).into()).collect())
        }
        _ => Err("it is no revocation list in DER".to_string()),
    }
}

/// A serial number without zeros in front, by which equal ones are compared.
fn number(serial: &[u8]) -> &[u8] {
    let zeros = serial.iter().take_while(|byte| **byte == 0).count();
    &serial[zeros..]
}

/// Whether a certificate is for this host, by its alternative names alone, as in Go
/// (`x509.Certificate.VerifyHostname`).
fn is_for(certificate: &CertificateDer<'_>, host: &str) -> bool {
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let Ok(name) = ServerName::try_from(host) else { return false };
    let parsed = ParsedCertificate::try_from(certificate);
    parsed.is_ok_and(|parsed| verify_server_name(&parsed, &name).is_ok())
}

#[cfg(test)]
mod tests;
