//! Tokens whose signature was verified before: a client sends the same one with each call, and a
//! signature takes 20 to 500 us to verify.

use std::collections::{BTreeMap, VecDeque};

use ring::digest::{SHA256, digest};

use crate::error::JwtError;
use crate::jwt::{Claims, Jwt, Verified};
use crate::limits::VERIFIED_TOKENS_MAX;

/// The digest of a token. Tokens themselves are secret, and long.
type Digest = [u8; 32];

/// The tokens of one key that were good lately; each thread that checks tokens has its own. Only
/// tokens that the key has signed get in, and whether one is valid is judged each time anew.
#[derive(Default)]
pub struct VerifiedTokens {
    tokens: BTreeMap<Digest, Verified>,
    /// The digests in the order in which they came.
    order: VecDeque<Digest>,
}

impl VerifiedTokens {
    /// As [`Jwt::verify`], which is asked if the token is not known yet. `jwt` must be the same
    /// each time.
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

    /// How many tokens are remembered.
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
