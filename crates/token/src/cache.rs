//! Remembers tokens whose signature was verified. A client sends the same token with each call, and
//! verifying a signature takes 20 to 500 us.

use std::collections::{BTreeMap, VecDeque};

use ring::digest::{SHA256, digest};

use crate::error::JwtError;
use crate::jwt::{Claims, Jwt, Verified};
use crate::limits::VERIFIED_TOKENS_MAX;

/// The SHA-256 digest of a token. Tokens themselves are secret, and long.
type Digest = [u8; 32];

/// The tokens of one key that were valid when they were first seen. Each thread that checks tokens
/// has its own `VerifiedTokens`. Whether a remembered token has expired since is checked each time.
#[derive(Default)]
pub struct VerifiedTokens {
    tokens: BTreeMap<Digest, Verified>,
    /// The digests, oldest first.
    order: VecDeque<Digest>,
}

impl VerifiedTokens {
    /// Like [`Jwt::verify`], but verifies the signature only of a token that is not remembered.
    /// `jwt` must be the same each time.
    ///
    /// # Errors
    /// The errors of [`Jwt::verify`].
    pub fn verify(
        &mut self,
        jwt: &Jwt,
        token: &str,
        now_unix_seconds: i64,
    ) -> Result<Claims, JwtError> {
        let mut of_token = Digest::default();
        of_token.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        if let Some(verified) = self.tokens.get(&of_token) {
            return verified.at(now_unix_seconds).cloned();
        }
        let verified = jwt.verify_signature(token)?;
        let claims = verified.at(now_unix_seconds).cloned();
        if claims.is_ok() {
            self.remember(of_token, verified);
        }
        claims
    }

    /// The number of remembered tokens.
    pub fn count(&self) -> usize {
        self.tokens.len()
    }

    fn remember(&mut self, of_token: Digest, verified: Verified) {
        if self.order.len() == VERIFIED_TOKENS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.tokens.remove(&oldest);
        }
        self.order.push_back(of_token);
        self.tokens.insert(of_token, verified);
    }
}

#[cfg(test)]
mod tests;
