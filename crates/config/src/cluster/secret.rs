//! The secret that the servers of an ensemble share, to authenticate each other.

use std::fmt;

/// The least bytes of a secret. A shorter one is refused, because it can be guessed.
pub const SECRET_BYTES_MIN: usize = 16;
/// The most bytes of a secret, so that a wrong file is noticed.
pub const SECRET_BYTES_MAX: usize = 4_096;

/// A secret with fewer random bits than this (32 bytes) gets a warning.
const BITS_WANTED: usize = 256;

/// 32 random bytes have at least this many different values, except with a chance below 1 in 10^9.
/// A secret with fewer gets a warning.
const DIFFERENT_BYTES_MIN: usize = 8;

/// The secret of an ensemble, known to its servers only. It must never be shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    /// The content of the file, without white space at its end.
    pub bytes: Vec<u8>,
    /// Whether version 1 of the handshake is accepted until the ensemble reaches level 4.
    pub may_be_old: bool,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Secret {
    /// Whether the secret seems to have too few random bits. A byte counts 4 bits if all bytes are
    /// hex digits, 6 if all are base64, else 8.
    pub fn is_weak(&self) -> bool {
        let is_all = |of: fn(u8) -> bool| self.bytes.iter().all(|byte| of(*byte));
        let bits = if is_all(|byte| byte.is_ascii_hexdigit()) {
            4
        } else if is_all(|byte| byte.is_ascii_alphanumeric() || b"+/-_=".contains(&byte)) {
            6
        } else {
            8
        };
        let mut different = self.bytes.clone();
        different.sort_unstable();
        different.dedup();
        bits * self.bytes.len() < BITS_WANTED || different.len() < DIFFERENT_BYTES_MIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_weak_below_32_random_bytes() {
        let is_weak = |text: &[u8]| Secret { bytes: text.to_vec(), may_be_old: true }.is_weak();
        let hex = b"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
        assert!(!is_weak(hex));
        assert!(is_weak(&hex[..63]));
        let base64 = b"MTIzNDU2Nzg5MGFiY2RlZjEyMzQ1Njc4OTBhYmNkZWY=";
        assert!(!is_weak(base64));
        assert!(is_weak(&base64[..42]));
        let any: Vec<u8> = (100..132).collect();
        assert!(!is_weak(&any));
        assert!(is_weak(&any[..31]));
        assert!(is_weak(&[b"ab".repeat(100), b"!?".to_vec()].concat()));
        assert!(is_weak(b"correct horse battery staple"));
    }
}
