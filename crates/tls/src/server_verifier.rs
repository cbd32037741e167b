//! Verifies the certificate of a server, for the shell and for members that dial each other: with a
//! trust store, with rules, and for the host's name.
//!
//! As in ZooKeeper 3.9 (`ClientX509Util.createNettySslContextForClient`), the name is checked as in
//! HTTPS, unless `ssl.hostnameVerification` is off. As in Java's `HostnameChecker`, the common name
//! counts if the certificate has no alternative names.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{DigitallySignedStruct, Error, SignatureScheme};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use super::rules::Rules;
use super::trust::{Purpose, Trust};

/// Verifies servers with the certificates of a trust store, then with rules.
#[derive(Debug)]
pub struct ServerVerifier {
    pub trust: Trust,
    pub rules: Arc<Rules>,
    /// Whether the certificate must be valid for the host that was dialled.
    pub checks_name: bool,
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.trust.verify(end_entity, Purpose::Server, now, || {
            verify_server_cert_signed_by_trust_anchor(
                &ParsedCertificate::try_from(end_entity)?,
                &self.trust.roots,
                intermediates,
                now,
                self.trust.algorithms.all,
            )
        })?;
        if self.checks_name && !has_common_name_only(end_entity, server_name) {
            verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
        }
        self.rules.check(end_entity, intermediates)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.trust.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.trust.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.trust.supported_schemes()
    }
}

/// Accepts every certificate: messages are encrypted, but nobody knows to whom. etcd does this with
/// `--peer-auto-tls`, where servers make their own certificates.
#[derive(Debug)]
pub struct AnyServer(pub WebPkiSupportedAlgorithms);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

/// Whether a certificate is valid for this host, by the rules for a server's name.
pub fn names_host(certificate: &CertificateDer<'_>, host: &str) -> bool {
    let Ok(name) = ServerName::try_from(host) else { return false };
    let Ok(parsed) = ParsedCertificate::try_from(certificate) else { return false };
    has_common_name_only(certificate, &name) || verify_server_name(&parsed, &name).is_ok()
}

/// Whether a certificate has this host as its common name, and has no alternative names.
fn has_common_name_only(certificate: &[u8], wanted: &ServerName<'_>) -> bool {
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else { return false };
    let ServerName::DnsName(wanted) = wanted else { return false };
    let mut names = parsed.subject().iter_common_name().filter_map(|name| name.as_str().ok());
    matches!(parsed.subject_alternative_name(), Ok(None))
        && names.any(|name| name.eq_ignore_ascii_case(wanted.as_ref()))
}
