//! Upper bounds on what tokens may make us hold.

/// Bytes of a token. etcd has no bound of its own; its tokens have 150 to 850 bytes. A longer one
/// is refused unread ([`crate::JwtError::TooLong`]).
pub const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// Tokens that a [`crate::VerifiedTokens`] remembers. Beyond it the one that came first is
/// forgotten, and checked anew when it comes again.
pub const VERIFIED_TOKENS_MAX: usize = 1_000;
