//! The errors of options and of tokens.

/// Why a server does not start with its options. Where etcd has a text for the error, it is etcd's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// The options cannot be read: their form, a time, a method or a file is wrong. etcd tells the
    /// reason only to its log.
    #[error("auth: invalid auth options")]
    InvalidOptions {
        /// The reason, for the log.
        why: String,
    },
    /// No key was given that the method can use.
    #[error("auth: missing key data")]
    MissingKey,
    /// The public key does not belong to the private key.
    #[error("auth: public and private keys don't match")]
    KeyMismatch,
    /// A key file holds no PEM.
    #[error("invalid key: Key must be a PEM encoded PKCS1 or PKCS8 key")]
    NotPem,
    /// A key file holds a key of another kind or on another curve than the method needs.
    #[error("key is not a valid {kind} {half} key")]
    WrongKey {
        /// The kind of key that the method needs.
        kind: &'static str,
        /// `public` or `private`.
        half: &'static str,
    },
    /// An RSA key is too short, too long, or contradicts itself.
    #[error("key is not a valid RSA {half} key: {why}")]
    RefusedRsaKey {
        /// `public` or `private`.
        half: &'static str,
        /// The reason.
        why: String,
    },
    /// The method is `none`, which signs nothing.
    #[error("unsupported signing method: *jwt.signingMethodNone")]
    MethodNone,
}

impl OptionsError {
    /// The error for options that cannot be read.
    pub fn invalid(why: impl Into<String>) -> OptionsError {
        OptionsError::InvalidOptions { why: why.into() }
    }
}

/// Why no token can be made, or why a token is not accepted. A client only learns `etcdserver:
/// invalid auth token`; the texts are for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JwtError {
    /// Only the public key is configured: tokens can be checked, but not made.
    #[error("auth: token signing attempted with verify-only key")]
    VerifyOnly,
    /// The key did not sign, because the system gave no randomness.
    #[error("the key did not sign")]
    NotSigned,
    /// The token has more than [`crate::limits::TOKEN_BYTES_MAX`] bytes.
    #[error("token is too long")]
    TooLong,
    /// The token is not three base64 parts, or its header is no JSON.
    #[error("token is malformed")]
    Malformed,
    /// The header names another method than the configured one.
    #[error("invalid signing method")]
    WrongMethod,
    /// The token was not signed with the key.
    #[error("token signature is invalid")]
    BadSignature,
    /// A claim is missing, or is not a valid name, revision or time.
    #[error("token has invalid claims")]
    BadClaims,
    /// The time at which the token expires has passed.
    #[error("token is expired")]
    Expired,
    /// The token is valid only later.
    #[error("token is not valid yet")]
    NotYetValid,
}
