//! Fixed keys and tokens for tests; see `tests/fixtures/README.md`.

use std::time::Duration;

use crate::{Jwt, JwtOptions, SigningMethod};

pub const RSA: &[u8] = include_bytes!("../tests/fixtures/rsa.pem");
pub const RSA_PUBLIC: &[u8] = include_bytes!("../tests/fixtures/rsa.pub");
pub const RSA_PKCS1: &[u8] = include_bytes!("../tests/fixtures/rsa-pkcs1.pem");
pub const RSA_PKCS1_PUBLIC: &[u8] = include_bytes!("../tests/fixtures/rsa-pkcs1.pub");
pub const RSA_CERTIFICATE: &[u8] = include_bytes!("../tests/fixtures/rsa.crt");
pub const RSA_OTHER_PUBLIC: &[u8] = include_bytes!("../tests/fixtures/rsa-other.pub");
pub const RSA_SHORT: &[u8] = include_bytes!("../tests/fixtures/rsa1024.pem");
pub const RSA_SHORT_PUBLIC: &[u8] = include_bytes!("../tests/fixtures/rsa1024.pub");
pub const EC256: &[u8] = include_bytes!("../tests/fixtures/ec256.pem");
pub const EC256_PUBLIC: &[u8] = include_bytes!("../tests/fixtures/ec256.pub");
pub const EC256_SEC1: &[u8] = include_bytes!("../tests/fixtures/ec256-sec1.pem");
pub const EC256_SEC1_PRIVATE_ONLY: &[u8] =
    include_bytes!("../tests/fixtures/ec256-sec1-private-only.pem");
pub const EC256_CERTIFICATE: &[u8] = include_bytes!("../tests/fixtures/ec256.crt");
pub const EC256_OTHER_PUBLIC: &[u8] = include_bytes!("../tests/fixtures/ec256-other.pub");
pub const EC384: &[u8] = include_bytes!("../tests/fixtures/ec384.pem");
pub const EC384_PUBLIC: &[u8] = include_bytes!("../tests/fixtures/ec384.pub");
pub const EC384_SEC1: &[u8] = include_bytes!("../tests/fixtures/ec384-sec1.pem");
pub const EC521: &[u8] = include_bytes!("../tests/fixtures/ec521.pem");
pub const EC521_PUBLIC: &[u8] = include_bytes!("../tests/fixtures/ec521.pub");
pub const EC521_SEC1: &[u8] = include_bytes!("../tests/fixtures/ec521-sec1.pem");
pub const ED: &[u8] = include_bytes!("../tests/fixtures/ed.pem");
pub const ED_PUBLIC: &[u8] = include_bytes!("../tests/fixtures/ed.pub");
pub const ED_OTHER_PUBLIC: &[u8] = include_bytes!("../tests/fixtures/ed-other.pub");
pub const SECRET: &[u8] = include_bytes!("../tests/fixtures/secret");

/// Tokens that etcd has made. Each line is a method and a token.
pub const ETCD_TOKENS: &str = include_str!("../tests/fixtures/etcd-tokens.txt");

pub fn options(method: SigningMethod) -> JwtOptions {
    let ttl = Duration::from_secs(300);
    JwtOptions { method, ttl, public_key: None, private_key: None, unknown: Vec::new() }
}

/// The public and the private key of a method. The HS methods share a secret, and have no public
/// key.
pub fn keys(method: SigningMethod) -> (&'static [u8], &'static [u8]) {
    match method {
        SigningMethod::Hs256 | SigningMethod::Hs384 | SigningMethod::Hs512 => (b"", SECRET),
        SigningMethod::Es256 => (EC256_PUBLIC, EC256),
        SigningMethod::Es384 => (EC384_PUBLIC, EC384),
        SigningMethod::Es512 => (EC521_PUBLIC, EC521),
        SigningMethod::EdDsa => (ED_PUBLIC, ED),
        _ => (RSA_PUBLIC, RSA),
    }
}

/// Makes and checks tokens of this method, with both keys.
pub fn jwt(method: SigningMethod) -> Jwt {
    let (public, private) = keys(method);
    Jwt::new(&options(method), public, private).unwrap()
}
