//! Why options or tokens are refused.

/// Why a server does not start with its options. The texts are etcd's, where etcd has one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// The option cannot be read: its form, a time, a method, or a file. etcd tells the reason to
    /// its log alone.
    #[error("auth: invalid auth options")]
    InvalidOptions {
        /// What is wrong.
        why: String,
    },
    /// No key was given that the method can use.
    #[error("auth: missing key data")]
    MissingKey,
    /// The public key is not that of the private key.
    #[error("auth: public and private keys don't match")]
    KeyMismatch,
    /// A key file holds no PEM.
    #[error("invalid key: Key must be a PEM encoded PKCS1 or PKCS8 key")]
    NotPem,
    /// A key file holds another kind of key than the method's, or another curve.
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
        /// What is wrong.
        why: String,
    },
    /// The method `none` signs nothing.
    #[error("unsupported signing method: *jwt.signingMethodNone")]
    MethodNone,
}

impl OptionsError {
    /// The error for options that cannot be read.
    pub fn invalid(why: impl Into<String>) -> OptionsError {
        OptionsError::InvalidOptions { why: why.into() }
    }
}

/// Why there is no token, or a token says nothing. A client learns no more than
/// `etcdserver: invalid auth token`; the texts are for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JwtError {
    /// Only the public key is known: tokens can be checked, and none be made.
    #[error("auth: token signing attempted with verify-only key")]
    VerifyOnly,
    /// The key did not sign: the system has no randomness.
    #[error("the key did not sign")]
    NotSigned,
    /// The token has more than [`crate::limits::TOKEN_BYTES_MAX`] bytes.
    #[error("token is too long")]
    TooLong,
    /// The token is no three parts in base64, or its header is no JSON.
    #[error("token is malformed")]
    Malformed,
    /// The header names another method than ours.
    #[error("invalid signing method")]
    WrongMethod,
    /// The key has not signed the token.
    #[error("token signature is invalid")]
    BadSignature,
    /// A claim is missing, or is no name, revision or time.
    #[error("token has invalid claims")]
    BadClaims,
    /// The token was valid until some time ago.
    #[error("token is expired")]
    Expired,
    /// The token is valid from some time on.
    #[error("token is not valid yet")]
    NotYetValid,
}
