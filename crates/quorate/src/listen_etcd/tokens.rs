//! The tokens of users, as this member is configured to make and to read them.

use std::sync::Arc;

use machine::etcd::token::{TOKEN_PREFIX_BYTES, TokenPrefix};

use crate::random::random_bytes;
use member::etcd_front::Credentials;

/// The kind of tokens of this member.
#[derive(Debug, Default)]
pub(super) enum Tokens {
    /// Random letters, which the members' state knows.
    #[default]
    Simple,
}

impl Tokens {
    /// What a client says of itself that sends a token.
    pub fn credentials(&self, token: &Arc<str>) -> Credentials {
        match self {
            Tokens::Simple => Credentials::Token(token.clone()),
        }
    }
}

/// The letters of tokens (`auth.letters`).
const LETTERS: &[u8; 52] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// Random letters from the system, each as likely as the others.
///
/// # Errors
/// The system gives no random bytes.
pub(super) fn random_letters() -> anyhow::Result<TokenPrefix> {
    // The largest multiple of the count: what is above would make the first letters more likely.
    let limit = u8::MAX - u8::MAX % LETTERS.len() as u8;
    let mut letters = Vec::new();
    while letters.len() < TOKEN_PREFIX_BYTES {
        let drawn = random_bytes()?;
        let fair = drawn.into_iter().filter(|byte| *byte < limit);
        letters.extend(fair.map(|byte| LETTERS[usize::from(byte) % LETTERS.len()]));
    }
    Ok(letters[..TOKEN_PREFIX_BYTES].try_into().expect("there are as many"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_drawn_from_all_and_differ() {
        let drawn: Vec<TokenPrefix> = (0..100).map(|_| random_letters().unwrap()).collect();
        let mut seen: Vec<u8> = drawn.concat();
        seen.sort_unstable();
        seen.dedup();
        let mut all = LETTERS.to_vec();
        all.sort_unstable();
        assert_eq!(seen, all);
        assert!((1..100).all(|at| drawn[at] != drawn[at - 1]));
    }
}
