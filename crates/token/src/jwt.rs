//! Tokens: three parts in base64 with dots between them. The header names the method, the claims
//! say who the client is, and the signature covers both as they are written.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use crate::error::{JwtError, OptionsError};
use crate::key::Key;
use crate::limits::TOKEN_BYTES_MAX;
use crate::method::SigningMethod;
use crate::options::JwtOptions;

/// The claims of a token about its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    /// The name of the user.
    pub username: String,
    /// The revision of the auth store at which the token was made.
    pub revision: u64,
}

impl Claims {
    /// The claims of a token as JSON, at this time. [`Jwt::verify`] reads them so; a fuzzer reads
    /// them without a signature.
    ///
    /// # Errors
    /// They are not valid now, or no such claims.
    pub fn from_json(json: &[u8], now_unix_seconds: i64) -> Result<Claims, JwtError> {
        Verified::read(json)?.at(now_unix_seconds).cloned()
    }
}

/// Makes and checks tokens with one key.
pub struct Jwt {
    method: SigningMethod,
    key: Key,
}

/// A token that the key has signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verified {
    claims: Claims,
    /// The first second since 1970 at which it is valid no more; `None` if it is for ever.
    expires: Option<i64>,
    /// The first second at which it is valid.
    not_before: Option<i64>,
}

impl Jwt {
    /// Reads the keys that the options name. An empty file counts as none.
    ///
    /// # Errors
    /// A key is missing, is none of the method's, or does not fit the other.
    pub fn new(
        options: &JwtOptions,
        public_key: &[u8],
        private_key: &[u8],
    ) -> Result<Jwt, OptionsError> {
        let method = options.method;
        Ok(Jwt { method, key: Key::new(method, public_key, private_key)? })
    }

    /// Whether it makes tokens. With a public key alone it only checks them.
    pub fn can_sign(&self) -> bool {
        self.key.can_sign()
    }

    /// A token for a user, which is valid until `expires_unix_seconds`. An RSA key takes about a
    /// millisecond for it.
    ///
    /// # Errors
    /// The key only verifies, or the system has no randomness.
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

    /// The claims of a token that the key has signed and that is valid at this time.
    ///
    /// # Errors
    /// It is not signed by the key and the method, not valid now, or has other claims.
    pub fn verify(&self, token: &str, now_unix_seconds: i64) -> Result<Claims, JwtError> {
        let verified = self.verify_signature(token)?;
        verified.at(now_unix_seconds).cloned()
    }

    /// The claims of a token that the key has signed, whenever it is valid. Nothing but the header
    /// is read before the signature has been verified.
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
    /// Reads the claims. Others than these say nothing to etcd.
    fn read(claims: &[u8]) -> Result<Verified, JwtError> {
        let claims: Value = serde_json::from_slice(claims).map_err(|_| JwtError::BadClaims)?;
        let text = |name| claims.get(name).and_then(Value::as_str);
        let username = text("username").ok_or(JwtError::BadClaims)?.to_string();
        let revision = claims.get("revision").and_then(whole).ok_or(JwtError::BadClaims)?;
        let revision = u64::try_from(revision).map_err(|_| JwtError::BadClaims)?;
        let time = |name| match claims.get(name).map(whole) {
            None => Ok(None),
            Some(None) => Err(JwtError::BadClaims),
            // golang-jwt takes 0 for no time.
            Some(Some(seconds)) => Ok(Some(seconds).filter(|seconds| *seconds != 0)),
        };
        let (expires, not_before) = (time("exp")?, time("nbf")?);
        Ok(Verified { claims: Claims { username, revision }, expires, not_before })
    }

    /// The claims, if they are valid at this time.
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

/// A number without its fraction; none for what is no number, or needs more than 63 bits.
fn whole(value: &Value) -> Option<i64> {
    const BOUND: f64 = 9_223_372_036_854_775_808.0;
    let fraction = || value.as_f64().filter(|number| number.abs() < BOUND);
    value.as_i64().or_else(|| fraction().map(|number| number.trunc() as i64))
}

/// A text in JSON as Go's `encoding/json` writes it, so that tokens are equal byte by byte: it
/// escapes what means something in HTML, and two separators of lines.
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
