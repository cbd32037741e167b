//! A simple token, which identifies an etcd user: random letters, a point, and a unique number
//! (`auth.tokenSimple` of etcd 3.6).

use core::fmt;

use crate::ids::Ordinal;

/// The random letters of a token.
pub type TokenPrefix = [u8; TOKEN_PREFIX_BYTES];

/// The number of random letters in a token (`auth.defaultSimpleTokenLength`).
pub const TOKEN_PREFIX_BYTES: usize = 16;

/// A simple token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// The random letters, in ASCII.
    pub prefix: TokenPrefix,
    /// The ordinal of the command that made the token: its unique number.
    pub made: Ordinal,
}

impl Token {
    /// Parses a token that a client sends. `None` if it has another form.
    pub fn parse(text: &str) -> Option<Token> {
        let (prefix, made) = text.split_once('.')?;
        let is_number = !made.is_empty() && made.bytes().all(|byte| byte.is_ascii_digit());
        let made = Ordinal(made.parse().ok().filter(|_| is_number)?);
        Some(Token { prefix: prefix.as_bytes().try_into().ok()?, made })
    }
}

impl fmt::Display for Token {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}", String::from_utf8_lossy(&self.prefix), self.made.0)
    }
}
