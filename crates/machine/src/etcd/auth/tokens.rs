//! Simple tokens: a client that shows one acts as the token's user. Tokens are replicated, so a
//! token that one member made works on every member. Each member decides for itself how long a
//! token may stay unused.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::codec::{DecodeError, Reader, Write};
use crate::digest::Digest;
use crate::etcd::token::{TOKEN_PREFIX_BYTES, Token, TokenPrefix};
use crate::ids::Ordinal;
use crate::limits::ETCD_TOKENS_MAX;

/// All simple tokens, by the ordinal of the command that made each, with their users.
#[derive(Clone, Debug, Default)]
pub(super) struct Tokens {
    tokens: BTreeMap<Ordinal, (TokenPrefix, Arc<str>)>,
    of_user: BTreeMap<Arc<str>, BTreeSet<Ordinal>>,
    digest: Digest,
}

impl Tokens {
    /// The user of a token; `None` if it is unknown. Compares all letters of the token, so the time
    /// does not tell which of them are wrong.
    pub fn user(&self, token: Token) -> Option<&Arc<str>> {
        let (prefix, user) = self.tokens.get(&token.made)?;
        let differs =
            prefix.iter().zip(token.prefix).fold(0, |all, (one, other)| all | one ^ other);
        (differs == 0).then_some(user)
    }

    /// Whether a token exists that the command with this ordinal has made.
    pub fn contains(&self, made: Ordinal) -> bool {
        self.tokens.contains_key(&made)
    }

    /// Adds a token. If there are [`ETCD_TOKENS_MAX`] already, removes the oldest token of the user
    /// that has the most.
    pub fn add(&mut self, token: Token, user: &str) {
        self.remove(token.made);
        if self.tokens.len() >= ETCD_TOKENS_MAX {
            // If several users have the most, the last of them by name loses one.
            let most = self.of_user.values().max_by_key(|of_user| of_user.len());
            let oldest = most.and_then(|of_user| of_user.first()).copied();
            oldest.into_iter().for_each(|oldest| self.remove(oldest));
        }
        let name = self.of_user.get_key_value(user).map(|(name, _)| name.clone());
        let name = name.unwrap_or_else(|| user.into());
        self.of_user.entry(name.clone()).or_default().insert(token.made);
        self.digest.add(term_of(token.made, &token.prefix, user));
        self.tokens.insert(token.made, (token.prefix, name));
    }

    fn remove(&mut self, made: Ordinal) {
        let Some((prefix, user)) = self.tokens.remove(&made) else { return };
        self.digest.subtract(term_of(made, &prefix, &user));
        if let Some(of_user) = self.of_user.get_mut(&user) {
            of_user.remove(&made);
            if of_user.is_empty() {
                self.of_user.remove(&user);
            }
        }
    }

    /// Removes all tokens of a user.
    pub fn remove_user(&mut self, user: &str) {
        for made in self.of_user.get(user).cloned().unwrap_or_default() {
            self.remove(made);
        }
    }

    /// The sum of the tokens' contributions to the digest.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Bytes that [`Tokens::encode`] writes.
    pub fn bytes(&self) -> usize {
        let of_user = |(user, tokens): (&Arc<str>, &BTreeSet<Ordinal>)| {
            4 + user.len() + 4 + tokens.len() * (8 + TOKEN_PREFIX_BYTES)
        };
        4 + self.of_user.iter().map(of_user).sum::<usize>()
    }

    /// Writes, for each user by name, the user's tokens by ordinal.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(self.of_user.len() as u32);
        for (user, tokens) in &self.of_user {
            out.put_bytes(user.as_bytes());
            out.put_u32(tokens.len() as u32);
            for made in tokens {
                out.put_u64(made.0);
                out.extend_from_slice(&self.tokens[made].0);
            }
        }
    }

    /// Reads what [`Tokens::encode`] wrote.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Tokens, DecodeError> {
        let mut tokens = Tokens::default();
        let mut last = None;
        for _ in 0..reader.count("count of users with tokens", reader.remaining())? {
            let user = reader.text()?;
            let count = reader.count("count of tokens of a user", reader.remaining())?;
            if last.is_some_and(|last| last >= user) || count == 0 {
                return Err(reader.bad("tokens of a user", count as u64));
            }
            last = Some(user);
            let mut before = None;
            for _ in 0..count {
                let made = Ordinal(reader.u64()?);
                let mut prefix = [0; TOKEN_PREFIX_BYTES];
                for letter in &mut prefix {
                    *letter = reader.u8()?;
                }
                let is_new = !tokens.tokens.contains_key(&made) && before < Some(made);
                if !is_new || tokens.tokens.len() >= ETCD_TOKENS_MAX {
                    return Err(reader.bad("number of a token", made.0));
                }
                before = Some(made);
                tokens.add(Token { prefix, made }, user);
            }
        }
        Ok(tokens)
    }
}

fn term_of(made: Ordinal, prefix: &TokenPrefix, user: &str) -> Digest {
    let mut bytes = Vec::new();
    bytes.put_u64(made.0);
    bytes.extend_from_slice(prefix);
    bytes.put_bytes(user.as_bytes());
    Digest::from_bytes(b'K', &bytes)
}
