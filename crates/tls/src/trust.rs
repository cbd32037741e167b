//! Decides whether a peer's certificate is trusted by a trust store.
//!
//! webpki verifies paths, as everywhere in rustls. Java's trust manager accepts more, and
//! ZooKeeper's users rely on it. So three further cases are accepted:
//!
//! - A certificate that is in the trust store itself needs no issuer. Such a certificate can issue
//!   others only if it says that it is an authority, or is of version 1: a trusted client must not
//!   be able to make up other clients.
//! - A certificate of X.509 version 1, which `openssl x509 -req` makes without extensions, if an
//!   authority of the trust store has signed it.
//! - A peer's certificate that is an authority itself (the default of `openssl req -x509`), if an
//!   authority of the trust store has signed it.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
    verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{
    CertificateDer, SignatureVerificationAlgorithm, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, PeerMisbehaved,
    RootCertStore, SignatureScheme,
};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::{FromDer, X509Version};
use x509_parser::time::ASN1Time;

use super::der::{self, BIT_STRING, SEQUENCE};

/// The role in which a peer shows its certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Client,
    Server,
}

/// The certificates of a trust store, prepared to verify peers.
#[derive(Debug)]
pub struct Trust {
    trusted: Vec<CertificateDer<'static>>,
    /// The trusted certificates that may issue other certificates.
    authorities: Vec<CertificateDer<'static>>,
    /// The authorities as webpki's roots.
    pub roots: Arc<RootCertStore>,
    pub algorithms: WebPkiSupportedAlgorithms,
}

impl Trust {
    /// Prepares a trust store. Fails if a certificate cannot be used.
    pub fn new(
        trusted: Vec<CertificateDer<'static>>,
        provider: &CryptoProvider,
    ) -> Result<Trust, String> {
        let mut authorities = Vec::new();
        for certificate in &trusted {
            let parsed = parse(certificate).map_err(|error| error.to_string())?;
            if may_vouch(&parsed) {
                authorities.push(certificate.clone());
            }
        }
        let roots = Arc::new(store(&authorities)?);
        let algorithms = provider.signature_verification_algorithms;
        Ok(Trust { trusted, authorities, roots, algorithms })
    }

    /// The names of all trusted certificates. Clients choose their certificate by these names.
    pub fn subjects(&self) -> Result<Vec<DistinguishedName>, String> {
        Ok(store(&self.trusted)?.subjects())
    }

    /// Verifies a peer's certificate. If it needs a path to an authority, `by_path` verifies the
    /// path.
    pub fn verify(
        &self,
        end_entity: &CertificateDer<'_>,
        purpose: Purpose,
        now: UnixTime,
        by_path: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        if self.believes(end_entity, now)? {
            return Ok(());
        }
        match by_path() {
            Err(error) if is_for_authority(&error) => {
                self.verify_authority(end_entity, purpose, now)
            }
            verdict => verdict,
        }
    }

    /// Verifies a peer's certificate that is an authority itself, which webpki refuses: a trusted
    /// authority must have signed it, and it must be valid now and for this purpose.
    fn verify_authority(
        &self,
        end_entity: &CertificateDer<'_>,
        purpose: Purpose,
        now: UnixTime,
    ) -> Result<(), Error> {
        let parsed = parse(end_entity)?;
        check_dates(&parsed, now)?;
        let usage = parsed.extended_key_usage();
        let usage = usage.map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
        let permits = usage.is_none_or(|usage| match purpose {
            Purpose::Client => usage.value.any || usage.value.client_auth,
            Purpose::Server => usage.value.any || usage.value.server_auth,
        });
        if !permits {
            return Err(Error::InvalidCertificate(CertificateError::InvalidPurpose));
        }
        self.verify_issued(end_entity, &parsed)
    }

    /// Whether a certificate is trusted without a path. False if webpki must verify a path.
    fn believes(&self, end_entity: &CertificateDer<'_>, now: UnixTime) -> Result<bool, Error> {
        let parsed = parse(end_entity)?;
        if self.trusted.iter().any(|trusted| trusted == end_entity) {
            check_dates(&parsed, now)?;
        } else if parsed.version() == X509Version::V1 {
            check_dates(&parsed, now)?;
            self.verify_issued(end_entity, &parsed)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Verifies that a trusted authority has signed a certificate.
    fn verify_issued(&self, bytes: &[u8], parsed: &X509Certificate<'_>) -> Result<(), Error> {
        let issuers = self.authorities.iter().filter_map(|authority| {
            let (_, authority) = X509Certificate::from_der(authority).ok()?;
            // An authority may constrain the names of the certificates that it issues. Nothing here
            // checks that, so such an authority is left out.
            let constrained = authority.name_constraints().ok().flatten().is_some();
            let is_issuer = authority.subject().as_raw() == parsed.issuer().as_raw();
            (is_issuer && !constrained).then(|| authority.public_key().raw.to_vec())
        });
        let mut problem = CertificateError::UnknownIssuer;
        for public_key in issuers {
            match signed_certificate(bytes)
                .filter(|signed| verify(self.algorithms.all, &public_key, signed).is_ok())
            {
                Some(_) => return Ok(()),
                None => problem = CertificateError::BadSignature,
            }
        }
        Err(Error::InvalidCertificate(problem))
    }

    /// Like [`rustls::crypto::verify_tls12_signature`], but also for certificates of version 1.
    pub fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let parsed = parse(certificate)?;
        if parsed.version() != X509Version::V1 {
            return verify_tls12_signature(message, certificate, signed, &self.algorithms);
        }
        let offered = self.algorithms.mapping.iter().find(|(scheme, _)| *scheme == signed.scheme);
        let (_, algorithms) = offered.ok_or(Error::PeerMisbehaved(
            PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme,
        ))?;
        let signed = Signed { message, algorithm: None, signature: signed.signature() };
        verify(algorithms, parsed.public_key().raw, &signed)?;
        Ok(HandshakeSignatureValid::assertion())
    }

    /// Like [`rustls::crypto::verify_tls13_signature`], but also for certificates of version 1.
    pub fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let parsed = parse(certificate)?;
        if parsed.version() != X509Version::V1 {
            return verify_tls13_signature(message, certificate, signed, &self.algorithms);
        }
        let public_key = SubjectPublicKeyInfoDer::from(parsed.public_key().raw);
        verify_tls13_signature_with_raw_key(message, &public_key, signed, &self.algorithms)
    }

    /// The signature schemes that can be verified.
    pub fn supported_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Whether webpki has refused a certificate only because it is an authority's. Go and Java accept
/// such certificates from peers.
fn is_for_authority(error: &Error) -> bool {
    let Error::InvalidCertificate(CertificateError::Other(OtherError(error))) = error else {
        return false;
    };
    error.downcast_ref() == Some(&webpki::Error::CaUsedAsEndEntity)
}

fn store(certificates: &[CertificateDer<'static>]) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    for (index, certificate) in certificates.iter().enumerate() {
        store
            .add(certificate.clone())
            .map_err(|error| format!("certificate {}: {error}", index + 1))?;
    }
    Ok(store)
}

/// Whether the certificate may issue others, by Java's rules (OpenJDK's
/// `PKIXValidator.verifyTrustAnchor`).
fn may_vouch(parsed: &X509Certificate<'_>) -> bool {
    let may_sign = match parsed.key_usage() {
        Ok(usage) => usage.is_none_or(|usage| usage.value.key_cert_sign()),
        Err(_) => false,
    };
    parsed.version() == X509Version::V1 || (parsed.is_ca() && may_sign)
}

fn parse(bytes: &[u8]) -> Result<X509Certificate<'_>, Error> {
    match X509Certificate::from_der(bytes) {
        Ok(([], parsed)) => Ok(parsed),
        _ => Err(Error::InvalidCertificate(CertificateError::BadEncoding)),
    }
}

fn check_dates(parsed: &X509Certificate<'_>, now: UnixTime) -> Result<(), Error> {
    let now = i64::try_from(now.as_secs())
        .ok()
        .and_then(|seconds| ASN1Time::from_timestamp(seconds).ok())
        .ok_or(Error::FailedToGetCurrentTime)?;
    if now < parsed.validity().not_before {
        return Err(Error::InvalidCertificate(CertificateError::NotValidYet));
    }
    if now > parsed.validity().not_after {
        return Err(Error::InvalidCertificate(CertificateError::Expired));
    }
    Ok(())
}

/// A signed message, with its signature.
struct Signed<'a> {
    message: &'a [u8],
    /// The encoded algorithm identifier without tag and length; `None` if any algorithm of the
    /// caller may have signed.
    algorithm: Option<&'a [u8]>,
    signature: &'a [u8],
}

/// The signed content of a certificate, with the algorithm and the signature of its issuer.
fn signed_certificate(mut bytes: &[u8]) -> Option<Signed<'_>> {
    let mut parts = der::take_tagged(&mut bytes, SEQUENCE)?.content;
    let message = der::take_tagged(&mut parts, SEQUENCE)?.whole;
    let algorithm = der::take_tagged(&mut parts, SEQUENCE)?.content;
    let signature = bits(der::take_tagged(&mut parts, BIT_STRING)?.content)?;
    Some(Signed { message, algorithm: Some(algorithm), signature })
}

/// The bytes of a bit string; `None` if it has unused bits.
fn bits(content: &[u8]) -> Option<&[u8]> {
    content.split_first().filter(|(unused, _)| **unused == 0).map(|(_, bits)| bits)
}

/// Verifies a signature with an encoded public key.
fn verify(
    algorithms: &[&dyn SignatureVerificationAlgorithm],
    mut public_key: &[u8],
    signed: &Signed<'_>,
) -> Result<(), Error> {
    let key = der::take_tagged(&mut public_key, SEQUENCE).and_then(|info| {
        let mut parts = info.content;
        let kind = der::take_tagged(&mut parts, SEQUENCE)?.content;
        Some((kind, bits(der::take_tagged(&mut parts, BIT_STRING)?.content)?))
    });
    let (kind, key) = key.ok_or(Error::InvalidCertificate(CertificateError::BadEncoding))?;
    let mut fitting = algorithms.iter().filter(|algorithm| {
        algorithm.public_key_alg_id().as_ref() == kind
            && signed.algorithm.is_none_or(|id| id == algorithm.signature_alg_id().as_ref())
    });
    let valid = fitting
        .any(|algorithm| algorithm.verify_signature(key, signed.message, signed.signature).is_ok());
    if valid { Ok(()) } else { Err(Error::InvalidCertificate(CertificateError::BadSignature)) }
}
