//! Makes and verifies tokens that identify etcd's clients and are signed as JSON Web Tokens (RFC
//! 7519): etcd's `--auth-token=jwt,...`. This crate exists to keep keys and their libraries out of
//! the crates that use tokens. Source: `server/auth/jwt.go` and `options.go` of etcd 3.6, and its
//! library golang-jwt 5.2. With the methods for which etcd uses no randomness (HS, RS and EdDSA),
//! tokens equal etcd's byte by byte.
//!
//! The crate never reads a file or a clock: its callers pass key files as bytes, and the time as a
//! number. Only `ring` uses randomness, for the salt of PS256 and its like; no outcome depends on
//! it.
//!
//! Some forms that no library writes are accepted by etcd but refused here: base64 with unused bits
//! or line ends, and a revision or a time that does not fit 63 bits. RSA keys that sign must have
//! 2,048 to 4,096 bits, those that only verify up to 8,192. PS256 and its like need a salt as long
//! as the digest, as RFC 7518 says.

mod cache;
mod error;
#[cfg(test)]
mod fixtures;
mod jwt;
mod key;
pub mod limits;
mod method;
mod options;
mod pem_file;

pub use cache::VerifiedTokens;
pub use error::{JwtError, OptionsError};
pub use jwt::{Claims, Jwt};
pub use method::SigningMethod;
pub use options::{AuthToken, JwtOptions};
