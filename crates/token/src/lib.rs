//! Tokens that identify etcd's clients, signed as JSON Web Tokens (RFC 7519): etcd's
//! `--auth-token=jwt,...`. This crate exists so that keys and their libraries stay out of the
//! crates that use tokens. Source: `server/auth/jwt.go` and `options.go` of etcd 3.6, and the
//! library golang-jwt 5.2, whose tokens these are: for the methods that draw nothing by chance
//! they are equal byte by byte.
//!
//! It never reads a file or a clock: key files come as bytes, and time as a number. Chance is drawn
//! by `ring` alone, for the salt of PS256 and its like; no outcome depends on it.
//!
//! Stricter than etcd are the forms that no library writes: base64 with bits or line ends that say
//! nothing is refused, and so are a revision or a time that is no number of 63 bits. RSA keys that
//! sign have 2,048 to 4,096 bits, those that only verify up to 8,192; and PS256 and its like need a
//! salt as long as the digest, as RFC 7518 says.

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
