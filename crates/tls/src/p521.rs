//! Adds P-521 keys and signatures to TLS: ring lacks them, but Go and OpenSSL accept such
//! certificates. RFC 5480 (keys), RFC 5758 (signatures).

use std::sync::{Arc, LazyLock};

use p521::SecretKey;
use p521::ecdsa::signature::hazmat::{PrehashSigner, PrehashVerifier};
use p521::ecdsa::{Signature, SigningKey, VerifyingKey};
use p521::pkcs8::DecodePrivateKey;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring};
use rustls::pki_types::{
    AlgorithmIdentifier, InvalidSignature, PrivateKeyDer, SignatureVerificationAlgorithm, alg_id,
};
use rustls::sign::Signer;
use rustls::{Error, SignatureAlgorithm, SignatureScheme};
use sha2::{Digest, Sha256, Sha384, Sha512};

/// Bytes of an element of the field of P-521.
const FIELD_BYTES: usize = 66;

static SHA256: Verification = Verification(hashed::<Sha256>, alg_id::ECDSA_SHA256);
static SHA384: Verification = Verification(hashed::<Sha384>, alg_id::ECDSA_SHA384);
static SHA512: Verification = Verification(hashed::<Sha512>, alg_id::ECDSA_SHA512);

/// The algorithms of ring, and those of P-521. TLS 1.3 uses the first algorithm of each scheme. In
/// TLS 1.2 a scheme names only a digest, and the key decides the curve (RFC 5246, 7.4.1.4.1).
static ALGORITHMS: LazyLock<WebPkiSupportedAlgorithms> = LazyLock::new(|| {
    let of_ring = ring::default_provider().signature_verification_algorithms;
    let mut mapping = of_ring.mapping.to_vec();
    for (scheme, ours) in [
        (SignatureScheme::ECDSA_NISTP256_SHA256, &SHA256),
        (SignatureScheme::ECDSA_NISTP384_SHA384, &SHA384),
        (SignatureScheme::ECDSA_NISTP521_SHA512, &SHA512),
    ] {
        let with = |before: &[_]| -> &'static [_] {
            [before, &[ours as &dyn SignatureVerificationAlgorithm]].concat().leak()
        };
        match mapping.iter_mut().find(|(of, _)| *of == scheme) {
            Some((_, algorithms)) => *algorithms = with(algorithms),
            None => mapping.push((scheme, with(&[]))),
        }
    }
    let ours: [&'static dyn SignatureVerificationAlgorithm; 3] = [&SHA512, &SHA384, &SHA256];
    // These lists are leaked, but they are made only once.
    let all = [of_ring.all, &ours].concat().leak();
    WebPkiSupportedAlgorithms { all, mapping: mapping.leak() }
});

/// The cryptography that TLS uses here: ring with the algorithms of P-521.
pub fn provider() -> CryptoProvider {
    CryptoProvider { signature_verification_algorithms: *ALGORITHMS, ..ring::default_provider() }
}

/// The verification of P-521 signatures with one digest.
#[derive(Debug)]
struct Verification(fn(&[u8]) -> [u8; FIELD_BYTES], AlgorithmIdentifier);

impl SignatureVerificationAlgorithm for Verification {
    fn verify_signature(
        &self,
        public_key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), InvalidSignature> {
        let key = VerifyingKey::from_sec1_bytes(public_key).map_err(|_| InvalidSignature)?;
        let signature = Signature::from_der(signature).map_err(|_| InvalidSignature)?;
        key.verify_prehash(&self.0(message), &signature).map_err(|_| InvalidSignature)
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        alg_id::ECDSA_P521
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        self.1
    }
}

/// The digest of a message, with zeros in front up to [`FIELD_BYTES`]. The library refuses a digest
/// shorter than half of that, such as SHA-256's.
fn hashed<D: Digest>(message: &[u8]) -> [u8; FIELD_BYTES] {
    let digest = D::digest(message);
    let mut out = [0; FIELD_BYTES];
    out[FIELD_BYTES - digest.len()..].copy_from_slice(&digest);
    out
}

/// A private key of P-521, which signs.
#[derive(Clone)]
struct Key(Arc<SigningKey>);

/// Reads a P-521 private key in PKCS#8 or SEC 1; `None` if the key is of another kind.
pub fn signing_key(key: &PrivateKeyDer<'_>) -> Option<Arc<dyn rustls::sign::SigningKey>> {
    let secret = match key {
        PrivateKeyDer::Pkcs8(key) => SecretKey::from_pkcs8_der(key.secret_pkcs8_der()).ok()?,
        PrivateKeyDer::Sec1(key) => SecretKey::from_sec1_der(key.secret_sec1_der()).ok()?,
        _ => return None,
    };
    Some(Arc::new(Key(Arc::new(SigningKey::from(secret)))))
}

impl std::fmt::Debug for Key {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("P-521")
    }
}

impl rustls::sign::SigningKey for Key {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let is_offered = offered.contains(&SignatureScheme::ECDSA_NISTP521_SHA512);
        is_offered.then(|| Box::new(self.clone()) as Box<dyn Signer>)
    }

    fn public_key(&self) -> Option<rustls::pki_types::SubjectPublicKeyInfoDer<'_>> {
        let point = self.0.verifying_key().to_sec1_point(false);
        Some(rustls::sign::public_key_to_spki(&alg_id::ECDSA_P521, point.as_bytes()))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ECDSA
    }
}

impl Signer for Key {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let signed: Result<Signature, _> = self.0.sign_prehash(&hashed::<Sha512>(message));
        let signed = signed.map_err(|error| Error::General(error.to_string()))?;
        Ok(signed.to_der().as_bytes().to_vec())
    }

    fn scheme(&self) -> SignatureScheme {
        SignatureScheme::ECDSA_NISTP521_SHA512
    }
}

#[cfg(test)]
mod tests;
