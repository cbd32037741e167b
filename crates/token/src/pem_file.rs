//! Reads keys from PEM files as golang-jwt does: only the first section counts, its label does not
//! matter, and its content is tried in each form that it may have.

use x509_parser::certificate::X509Certificate;
use x509_parser::oid_registry::{
    OID_KEY_TYPE_EC_PUBLIC_KEY, OID_PKCS1_RSAENCRYPTION, OID_SIG_ED25519,
};
use x509_parser::prelude::FromDer;
use x509_parser::public_key::RSAPublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

use crate::error::OptionsError;

/// The kinds of keys that PEM files may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Rsa,
    Ec,
    Ed25519,
}

impl Kind {
    /// The error for a key of another kind, with golang-jwt's text.
    pub fn wrong(self, half: &'static str) -> OptionsError {
        let kind = match self {
            Kind::Rsa => "RSA",
            Kind::Ec => "ECDSA",
            Kind::Ed25519 => "Ed25519",
        };
        OptionsError::WrongKey { kind, half }
    }
}

/// The content of the first section of a PEM file.
pub(crate) fn content(file: &[u8]) -> Result<Vec<u8>, OptionsError> {
    let section = pem::parse(file).map_err(|_| OptionsError::NotPem)?;
    Ok(section.into_contents())
}

/// The public key in a PEM file: for RSA an `RSAPublicKey` (RFC 8017, A.1.1), for a curve a point.
pub(crate) fn public_key(file: &[u8], kind: Kind) -> Result<Vec<u8>, OptionsError> {
    let content = content(file)?;
    let key = match SubjectPublicKeyInfo::from_der(&content) {
        Ok((_, info)) => of_info(&info, kind),
        Err(_) if kind == Kind::Ed25519 => None,
        Err(_) => match X509Certificate::from_der(&content) {
            Ok((_, certificate)) => of_info(certificate.public_key(), kind),
            Err(_) if kind == Kind::Rsa => {
                RSAPublicKey::from_der(&content).is_ok().then_some(content)
            }
            Err(_) => None,
        },
    };
    key.ok_or(kind.wrong("public"))
}

fn of_info(info: &SubjectPublicKeyInfo<'_>, kind: Kind) -> Option<Vec<u8>> {
    let wanted = match kind {
        Kind::Rsa => OID_PKCS1_RSAENCRYPTION,
        Kind::Ec => OID_KEY_TYPE_EC_PUBLIC_KEY,
        Kind::Ed25519 => OID_SIG_ED25519,
    };
    (info.algorithm.algorithm == wanted).then(|| info.subject_public_key.data.to_vec())
}

/// The bits of the modulus of an `RSAPublicKey`.
pub(crate) fn rsa_bits(key: &[u8]) -> Option<usize> {
    let (_, key) = RSAPublicKey::from_der(key).ok()?;
    Some(key.key_size())
}
