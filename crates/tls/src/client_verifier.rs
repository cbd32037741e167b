//! Verifies the certificates of clients, for a server.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use super::rules::Rules;
use super::trust::{Purpose, Trust};

/// Verifies clients with the certificates of a trust store, then with rules.
#[derive(Debug)]
pub struct ClientVerifier {
    trust: Trust,
    rules: Arc<Rules>,
    /// webpki's verifier of paths to the authorities; `None` if the trust store has no authority.
    paths: Option<Arc<dyn ClientCertVerifier>>,
    subjects: Vec<DistinguishedName>,
    mandatory: bool,
}

impl ClientVerifier {
    /// Makes a verifier with these trusted certificates and rules. With `mandatory`, clients
    /// without a certificate are refused. Fails if a trusted certificate cannot be used.
    pub fn new(
        trusted: Vec<CertificateDer<'static>>,
        rules: Arc<Rules>,
        mandatory: bool,
        provider: &Arc<CryptoProvider>,
    ) -> Result<ClientVerifier, String> {
        let trust = Trust::new(trusted, provider)?;
        let roots = trust.roots.clone();
        let paths = if roots.is_empty() {
            None
        } else {
            let builder = WebPkiClientVerifier::builder_with_provider(roots, provider.clone());
            Some(builder.build().map_err(|error| error.to_string())?)
        };
        Ok(ClientVerifier { subjects: trust.subjects()?, trust, rules, paths, mandatory })
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn offer_client_auth(&self) -> bool {
        true
    }

    fn client_auth_mandatory(&self) -> bool {
        self.mandatory
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.subjects
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.trust.verify(end_entity, Purpose::Client, now, || {
            let unknown = Error::InvalidCertificate(CertificateError::UnknownIssuer);
            let paths = self.paths.as_ref().ok_or(unknown)?;
            paths.verify_client_cert(end_entity, intermediates, now).map(drop)
        })?;
        self.rules.check(end_entity, intermediates)?;
        Ok(ClientCertVerified::assertion())
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

#[cfg(test)]
mod tests;
