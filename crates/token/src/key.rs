//! The key that signs and verifies tokens, or only verifies them.

use p256::ecdsa::signature::{SignatureEncoding, Signer, Verifier};
use p256::pkcs8::DecodePrivateKey;
use ring::hmac;
use ring::rand::SystemRandom;
use ring::rsa::KeyPair as RsaKeyPair;
use ring::signature::{
    ED25519, Ed25519KeyPair, KeyPair, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512,
    RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RSA_PSS_SHA256,
    RSA_PSS_SHA384, RSA_PSS_SHA512, RsaEncoding, RsaParameters, UnparsedPublicKey,
};

use crate::error::{JwtError, OptionsError};
use crate::method::SigningMethod;
use crate::pem_file::{self, Kind};

/// The sizes in bits that a public RSA key may have.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2_048..=8_192;

/// A key for one signing method ([`SigningMethod`](crate::SigningMethod)).
pub(crate) enum Key {
    Hmac(hmac::Key),
    Rsa { scheme: RsaScheme, pair: Option<Box<RsaKeyPair>>, public: Vec<u8> },
    P256(Halves<p256::ecdsa::SigningKey, p256::ecdsa::VerifyingKey>),
    P384(Halves<p384::ecdsa::SigningKey, p384::ecdsa::VerifyingKey>),
    P521(Halves<p521::ecdsa::SigningKey, p521::ecdsa::VerifyingKey>),
    Ed25519(Halves<Ed25519KeyPair, Vec<u8>>),
}

/// How an RSA key signs, and how its signatures are verified.
pub(crate) struct RsaScheme {
    signs: &'static dyn RsaEncoding,
    verifies: &'static RsaParameters,
}

/// The two halves of a key. Without the private half it only verifies.
pub(crate) struct Halves<S, V> {
    private: Option<S>,
    public: V,
}

impl Key {
    /// Reads the key of a method from key files. As in etcd, an empty file counts as not given.
    pub fn new(method: SigningMethod, public: &[u8], private: &[u8]) -> Result<Key, OptionsError> {
        let public = Some(public).filter(|file| !file.is_empty());
        let private = Some(private).filter(|file| !file.is_empty());
        match method {
            SigningMethod::Hs256 => hmac_key(hmac::HMAC_SHA256, private),
            SigningMethod::Hs384 => hmac_key(hmac::HMAC_SHA384, private),
            SigningMethod::Hs512 => hmac_key(hmac::HMAC_SHA512, private),
            SigningMethod::Rs256
            | SigningMethod::Rs384
            | SigningMethod::Rs512
            | SigningMethod::Ps256
            | SigningMethod::Ps384
            | SigningMethod::Ps512 => rsa_key(RsaScheme::of(method), public, private),
            SigningMethod::Es256 => {
                Halves::read(Kind::Ec, public, private, p256_private, |point| {
                    p256::ecdsa::VerifyingKey::from_sec1_bytes(point).ok()
                })
                .map(Key::P256)
            }
            SigningMethod::Es384 => {
                Halves::read(Kind::Ec, public, private, p384_private, |point| {
                    p384::ecdsa::VerifyingKey::from_sec1_bytes(point).ok()
                })
                .map(Key::P384)
            }
            SigningMethod::Es512 => {
                Halves::read(Kind::Ec, public, private, p521_private, |point| {
                    p521::ecdsa::VerifyingKey::from_sec1_bytes(point).ok()
                })
                .map(Key::P521)
            }
            SigningMethod::EdDsa => {
                Halves::read(Kind::Ed25519, public, private, ed25519_private, |key| {
                    (key.len() == 32).then(|| key.to_vec())
                })
                .map(Key::Ed25519)
            }
        }
    }

    /// Whether there is a private half or a secret.
    pub fn can_sign(&self) -> bool {
        match self {
            Key::Hmac(_) => true,
            Key::Rsa { pair, .. } => pair.is_some(),
            Key::P256(key) => key.private.is_some(),
            Key::P384(key) => key.private.is_some(),
            Key::P521(key) => key.private.is_some(),
            Key::Ed25519(key) => key.private.is_some(),
        }
    }

    /// Signs a text.
    pub fn sign(&self, text: &[u8]) -> Result<Vec<u8>, JwtError> {
        match self {
            Key::Hmac(key) => Ok(hmac::sign(key, text).as_ref().to_vec()),
            Key::Rsa { scheme, pair, .. } => {
                let pair = pair.as_ref().ok_or(JwtError::VerifyOnly)?;
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(scheme.signs, &SystemRandom::new(), text, &mut signature)
                    .map_err(|_| JwtError::NotSigned)?;
                Ok(signature)
            }
            Key::P256(key) => ecdsa_sign::<_, _, p256::ecdsa::Signature>(key, text),
            Key::P384(key) => ecdsa_sign::<_, _, p384::ecdsa::Signature>(key, text),
            Key::P521(key) => ecdsa_sign::<_, _, p521::ecdsa::Signature>(key, text),
            Key::Ed25519(key) => {
                let pair = key.private.as_ref().ok_or(JwtError::VerifyOnly)?;
                Ok(pair.sign(text).as_ref().to_vec())
            }
        }
    }

    /// Whether this is a valid signature of the text.
    pub fn verifies(&self, text: &[u8], signature: &[u8]) -> bool {
        match self {
            Key::Hmac(key) => hmac::verify(key, text, signature).is_ok(),
            Key::Rsa { scheme, public, .. } => {
                UnparsedPublicKey::new(scheme.verifies, public).verify(text, signature).is_ok()
            }
            Key::P256(key) => {
                ecdsa_verifies::<_, p256::ecdsa::Signature>(&key.public, text, signature)
            }
            Key::P384(key) => {
                ecdsa_verifies::<_, p384::ecdsa::Signature>(&key.public, text, signature)
            }
            Key::P521(key) => {
                ecdsa_verifies::<_, p521::ecdsa::Signature>(&key.public, text, signature)
            }
            Key::Ed25519(key) => {
                UnparsedPublicKey::new(&ED25519, &key.public).verify(text, signature).is_ok()
            }
        }
    }
}

impl RsaScheme {
    fn of(method: SigningMethod) -> RsaScheme {
        let (signs, verifies): (&'static dyn RsaEncoding, _) = match method {
            SigningMethod::Rs384 => (&RSA_PKCS1_SHA384, &RSA_PKCS1_2048_8192_SHA384),
            SigningMethod::Rs512 => (&RSA_PKCS1_SHA512, &RSA_PKCS1_2048_8192_SHA512),
            SigningMethod::Ps256 => (&RSA_PSS_SHA256, &RSA_PSS_2048_8192_SHA256),
            SigningMethod::Ps384 => (&RSA_PSS_SHA384, &RSA_PSS_2048_8192_SHA384),
            SigningMethod::Ps512 => (&RSA_PSS_SHA512, &RSA_PSS_2048_8192_SHA512),
            _ => (&RSA_PKCS1_SHA256, &RSA_PKCS1_2048_8192_SHA256),
        };
        RsaScheme { signs, verifies }
    }
}

impl<S, V: PartialEq> Halves<S, V> {
    /// Reads the halves that are given. Reads the private half first, as golang-jwt does.
    fn read(
        kind: Kind,
        public: Option<&[u8]>,
        private: Option<&[u8]>,
        read_private: impl Fn(&[u8]) -> Option<(S, V)>,
        read_public: impl Fn(&[u8]) -> Option<V>,
    ) -> Result<Halves<S, V>, OptionsError> {
        let private = private
            .map(|file| read_private(&pem_file::content(file)?).ok_or(kind.wrong("private")));
        let private = private.transpose()?;
        let public = public.map(|file| {
            read_public(&pem_file::public_key(file, kind)?).ok_or(kind.wrong("public"))
        });
        match (private, public.transpose()?) {
            (None, None) => Err(OptionsError::MissingKey),
            (None, Some(public)) => Ok(Halves { private: None, public }),
            (Some((_, its)), Some(given)) if its != given => Err(OptionsError::KeyMismatch),
            (Some((private, public)), _) => Ok(Halves { private: Some(private), public }),
        }
    }
}

/// Makes a key from a shared secret. golang-jwt does not read the public key file for these
/// methods, so neither does this.
fn hmac_key(algorithm: hmac::Algorithm, secret: Option<&[u8]>) -> Result<Key, OptionsError> {
    let secret = secret.ok_or(OptionsError::MissingKey)?;
    Ok(Key::Hmac(hmac::Key::new(algorithm, secret)))
}

fn rsa_key(
    scheme: RsaScheme,
    public: Option<&[u8]>,
    private: Option<&[u8]>,
) -> Result<Key, OptionsError> {
    let pair = private.map(rsa_private).transpose()?;
    let public = public.map(|file| pem_file::public_key(file, Kind::Rsa)).transpose()?;
    let public = match (&pair, public) {
        (None, None) => return Err(OptionsError::MissingKey),
        (None, Some(public)) => public,
        (Some(pair), public) => {
            let its = pair.public().as_ref().to_vec();
            if public.is_some_and(|public| public != its) {
                return Err(OptionsError::KeyMismatch);
            }
            its
        }
    };
    let bits = pem_file::rsa_bits(&public).unwrap_or(0);
    if !RSA_BITS.contains(&bits) {
        let why = format!("it has {bits} bits");
        return Err(OptionsError::RefusedRsaKey { half: "public", why });
    }
    Ok(Key::Rsa { scheme, pair: pair.map(Box::new), public })
}

fn rsa_private(file: &[u8]) -> Result<RsaKeyPair, OptionsError> {
    let content = pem_file::content(file)?;
    let refused = |why: String| OptionsError::RefusedRsaKey { half: "private", why };
    RsaKeyPair::from_der(&content).or_else(|of_pkcs1| {
        RsaKeyPair::from_pkcs8(&content).map_err(|of_pkcs8| {
            // Both parsers say "InvalidEncoding" if the file holds no RSA key at all.
            let reasons = [of_pkcs8.to_string(), of_pkcs1.to_string()];
            let why = reasons.into_iter().find(|why| !why.contains("Encoding"));
            match why.filter(|why| why != "WrongAlgorithm") {
                Some(why) => refused(why),
                None => Kind::Rsa.wrong("private"),
            }
        })
    })
}

fn p256_private(der: &[u8]) -> Option<(p256::ecdsa::SigningKey, p256::ecdsa::VerifyingKey)> {
    let key = p256::SecretKey::from_sec1_der(der).or_else(|_| p256::SecretKey::from_pkcs8_der(der));
    let key = p256::ecdsa::SigningKey::from(key.ok()?);
    let public = *key.verifying_key();
    Some((key, public))
}

fn p384_private(der: &[u8]) -> Option<(p384::ecdsa::SigningKey, p384::ecdsa::VerifyingKey)> {
    let key = p384::SecretKey::from_sec1_der(der).or_else(|_| p384::SecretKey::from_pkcs8_der(der));
    let key = p384::ecdsa::SigningKey::from(key.ok()?);
    let public = *key.verifying_key();
    Some((key, public))
}

fn p521_private(der: &[u8]) -> Option<(p521::ecdsa::SigningKey, p521::ecdsa::VerifyingKey)> {
    let key = p521::SecretKey::from_sec1_der(der).or_else(|_| p521::SecretKey::from_pkcs8_der(der));
    let key = p521::ecdsa::SigningKey::from(key.ok()?);
    let public = *key.verifying_key();
    Some((key, public))
}

fn ed25519_private(der: &[u8]) -> Option<(Ed25519KeyPair, Vec<u8>)> {
    let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).ok()?;
    let public = pair.public_key().as_ref().to_vec();
    Some((pair, public))
}

/// Signs deterministically (RFC 6979). The signature is the two numbers, concatenated.
fn ecdsa_sign<S, V, G>(key: &Halves<S, V>, text: &[u8]) -> Result<Vec<u8>, JwtError>
where
    S: Signer<G>,
    G: SignatureEncoding,
{
    let key = key.private.as_ref().ok_or(JwtError::VerifyOnly)?;
    Ok(key.sign(text).to_vec())
}

fn ecdsa_verifies<V, G>(key: &V, text: &[u8], signature: &[u8]) -> bool
where
    V: Verifier<G>,
    G: SignatureEncoding,
{
    G::try_from(signature).is_ok_and(|signature| key.verify(text, &signature).is_ok())
}

#[cfg(test)]
mod tests;
