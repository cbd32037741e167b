//! Bounds on the memory that tokens may take.

/// The most bytes of a token. A longer one is refused unread ([`crate::JwtError::TooLong`]). etcd
/// has no bound; its tokens have 150 to 850 bytes.
pub const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// The most tokens that a [`crate::VerifiedTokens`] remembers. Beyond that the oldest one is
/// forgotten, and verified anew when it comes again.
pub const VERIFIED_TOKENS_MAX: usize = 1_000;
