//! Makes and checks the tokens of etcd users, in the way that the configuration of this member
//! chooses (`--auth-token`).

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use machine::etcd::token::{TOKEN_PREFIX_BYTES, TokenPrefix};
use member::fronts::etcd::{Credentials, PasswordDone};
use token::{AuthToken, Jwt, JwtOptions, VerifiedTokens};

use crate::random::random_bytes;

/// Which kind of tokens this member makes and accepts.
pub enum Tokens {
    /// Random letters, which the replicated state knows.
    Simple,
    /// Texts that are signed with a key (JWT).
    Signed {
        jwt: Box<Jwt>,
        /// How long a token is valid, in s.
        ttl_s: i64,
    },
    /// No tokens, so no user can authenticate.
    Nothing,
}

impl Tokens {
    /// The tokens that the configuration chooses. Reads the key files that it names.
    ///
    /// # Errors
    /// A file cannot be read, or has no key for the signing method.
    pub fn of(config: &AuthToken) -> anyhow::Result<Tokens> {
        Ok(match config {
            AuthToken::Simple => Tokens::Simple,
            AuthToken::Nothing => Tokens::Nothing,
            AuthToken::Jwt(options) => {
                let public_key = key_file(options.public_key.as_deref())?;
                let private_key = key_file(options.private_key.as_deref())?;
                if !options.unknown.is_empty() {
                    tracing::warn!("--auth-token: {:?} mean nothing", options.unknown);
                }
                let JwtOptions { ttl, .. } = options;
                let jwt = Jwt::new(options, &public_key, &private_key).context("--auth-token")?;
                let ttl_s = i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX);
                Tokens::Signed { jwt: Box::new(jwt), ttl_s }
            }
        })
    }

    /// The credentials of a client that sends the token `text`. `verified` has the signed tokens
    /// that this thread has verified recently.
    pub(super) fn credentials(
        &self,
        text: &Arc<str>,
        verified: &RefCell<VerifiedTokens>,
    ) -> Credentials {
        match self {
            Tokens::Simple => Credentials::Token(text.clone()),
            Tokens::Nothing => Credentials::InvalidToken,
            Tokens::Signed { jwt, .. } => match verified.borrow_mut().verify(jwt, text, now_s()) {
                Ok(claims) => {
                    let user = claims.username.into();
                    Credentials::Signed { user, revision: claims.revision }
                }
                Err(why) => {
                    tracing::debug!("a token is not valid: {why}");
                    Credentials::InvalidToken
                }
            },
        }
    }

    /// The result for a user who has given the right password: a signed token, the letters for a
    /// simple token, or why there is no token. `revision` is that of users and roles; a signed
    /// token carries it.
    ///
    /// # Errors
    /// The system gives no random bytes, or the token cannot be signed.
    pub(super) fn prove(&self, user: &str, revision: u64) -> anyhow::Result<PasswordDone> {
        Ok(match self {
            Tokens::Simple => PasswordDone::RightFor(random_letters()?),
            // As in etcd's `tokenNop.assign`.
            Tokens::Nothing => PasswordDone::Wrong,
            Tokens::Signed { jwt, .. } if !jwt.can_sign() => PasswordDone::NoToken(VERIFY_ONLY),
            Tokens::Signed { jwt, ttl_s } => {
                PasswordDone::Signed(jwt.sign(user, revision, now_s().saturating_add(*ttl_s))?)
            }
        })
    }
}

/// The text of etcd's `auth.ErrVerifyOnly`.
const VERIFY_ONLY: &str = "auth: token signing attempted with verify-only key";

fn key_file(path: Option<&str>) -> anyhow::Result<Vec<u8>> {
    let Some(path) = path else { return Ok(Vec::new()) };
    std::fs::read(path).with_context(|| format!("--auth-token: {path} cannot be read"))
}

/// Seconds since 1970.
fn now_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// The letters that simple tokens consist of (`auth.letters`).
const LETTERS: &[u8; 52] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// Random letters for a simple token, each letter equally likely.
///
/// # Errors
/// The system gives no random bytes.
pub(super) fn random_letters() -> anyhow::Result<TokenPrefix> {
    // The largest multiple of the number of letters. Bytes from there on would make the first
    // letters likelier.
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
