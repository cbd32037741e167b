//! Makes and verifies JSON Web Tokens. A token is three base64 parts with dots between them: a
//! header, claims, and a signature. The header names the algorithm of the signature, the claims say
//! who the client is, and the signature covers the first two parts as they are written.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use crate::error::{JwtError, OptionsError};
use crate::key::Key;
use crate::limits::TOKEN_BYTES_MAX;
use crate::method::SigningMethod;
use crate::options::JwtOptions;

/// The content of a token: its client and a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    /// The name of the user.
    pub username: String,
    /// The revision of users and roles at which the token was made.
    pub revision: u64,
}

impl Claims {
    /// Reads claims from JSON, and checks that they are valid at this time. [`Jwt::verify`] uses
    /// it; a fuzzer calls it without a signature.
    ///
    /// # Errors
    /// The claims are malformed, or not valid now.
    pub fn from_json(json: &[u8], now_unix_seconds: i64) -> Result<Claims, JwtError> {
        Verified::read(json)?.at(now_unix_seconds).cloned()
    }
}

/// Makes and checks tokens with one key.
pub struct Jwt {
    method: SigningMethod,
    key: Key,
}

/// The claims of a token whose signature was verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verified {
    claims: Claims,
    /// The second since 1970 at which the token expires: it is valid before that. `None` if it
    /// never expires.
    expires: Option<i64>,
    /// The token is valid from this second since 1970 on; `None` if it has no such bound.
    not_before: Option<i64>,
}

impl Jwt {
    /// Makes a `Jwt` from the contents of the key files. An empty file counts as not given.
    ///
    /// # Errors
    /// A key is missing, does not suit the method, or does not belong to the other key.
    pub fn new(
        options: &JwtOptions,
        public_key: &[u8],
        private_key: &[u8],
    ) -> Result<Jwt, OptionsError> {
        let method = options.method;
        Ok(Jwt { method, key: Key::new(method, public_key, private_key)? })
    }

    /// Whether this can make tokens. With only a public key it just checks them.
    pub fn can_sign(&self) -> bool {
        self.key.can_sign()
    }

    /// Makes a token for a user that is valid until `expires_unix_seconds`. With an RSA key this
    /// takes about a millisecond.
    ///
    /// # Errors
    /// There is no private key, or the system gave no randomness.
    pub fn sign(
        &self,
        username: &str,
        revision: u64,
        expires_unix_seconds: i64,
    ) -> Result<String, JwtError> {
        let header = format!("{{\"alg\":\"{}\",\"typ\":\"JWT\"}}", self.method.name());
        let username = json_text(username);
        let claims = format!(
            "{{\"exp\":{expires_unix_seconds},\"revision\":{revision},\"username\":{username}}}"
        );
        let mut token = URL_SAFE_NO_PAD.encode(header);
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(claims, &mut token);
        let signature = self.key.sign(token.as_bytes())?;
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(signature, &mut token);
        Ok(token)
    }

    /// The claims of a token, if the key has signed it and it is valid at this time.
    ///
    /// # Errors
    /// The token was not signed with the key and the method, is not valid now, or has wrong claims.
    pub fn verify(&self, token: &str, now_unix_seconds: i64) -> Result<Claims, JwtError> {
        let verified = self.verify_signature(token)?;
        verified.at(now_unix_seconds).cloned()
    }

    /// The claims of a token, if the key has signed it, whether or not it is valid now. Only the
    /// header is read before the signature is verified.
    pub(crate) fn verify_signature(&self, token: &str) -> Result<Verified, JwtError> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(JwtError::TooLong);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(JwtError::Malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(JwtError::Malformed)?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| JwtError::Malformed);
        let header: Value =
            serde_json::from_slice(&decode(header)?).map_err(|_| JwtError::Malformed)?;
        if header.get("alg").and_then(Value::as_str) != Some(self.method.name()) {
            return Err(JwtError::WrongMethod);
        }
        if !self.key.verifies(signed.as_bytes(), &decode(signature)?) {
            return Err(JwtError::BadSignature);
        }
        Verified::read(&decode(claims)?)
    }
}

impl Verified {
    /// Reads the claims that etcd knows. All others are ignored.
    fn read(claims: &[u8]) -> Result<Verified, JwtError> {
        let claims: Value = serde_json::from_slice(claims).map_err(|_| JwtError::BadClaims)?;
        let text = |name| claims.get(name).and_then(Value::as_str);
        let username = text("username").ok_or(JwtError::BadClaims)?.to_string();
        let revision = claims.get("revision").and_then(whole).ok_or(JwtError::BadClaims)?;
        let revision = u64::try_from(revision).map_err(|_| JwtError::BadClaims)?;
        let time = |name| match claims.get(name).map(whole) {
            None => Ok(None),
            Some(None) => Err(JwtError::BadClaims),
            // golang-jwt takes 0 as no time.
            Some(Some(seconds)) => Ok(Some(seconds).filter(|seconds| *seconds != 0)),
        };
        let (expires, not_before) = (time("exp")?, time("nbf")?);
        Ok(Verified { claims: Claims { username, revision }, expires, not_before })
    }

    /// The claims, if the token is valid at this time.
    pub fn at(&self, now_unix_seconds: i64) -> Result<&Claims, JwtError> {
        if self.expires.is_some_and(|expires| now_unix_seconds >= expires) {
            return Err(JwtError::Expired);
        }
        if self.not_before.is_some_and(|not_before| now_unix_seconds < not_before) {
            return Err(JwtError::NotYetValid);
        }
        Ok(&self.claims)
    }
}

/// A JSON number without its fraction; `None` if the value is no number or needs more than 63 bits.
fn whole(value: &Value) -> Option<i64> {
    const BOUND: f64 = 9_223_372_036_854_775_808.0;
    let fraction = || value.as_f64().filter(|number| number.abs() < BOUND);
    value.as_i64().or_else(|| fraction().map(|number| number.trunc() as i64))
}

/// A JSON string as Go's `encoding/json` writes it, so that tokens equal etcd's byte by byte: it
/// escapes the characters that mean something in HTML, and two line separators.
fn json_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    for character in Value::from(text).to_string().chars() {
        match character {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests;
