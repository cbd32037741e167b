//! SASL authentication with the mechanism DIGEST-MD5 (RFC 2831) as a ZooKeeper server offers it.
//! [`Exchange`] is the server's side as a step function, with random bytes as an argument;
//! [`respond`] is the client's side.
//!
//! The server answers the client's first token, whatever it holds, with a challenge. It checks the
//! second token against the user's password, and its answer proves that the server knows the
//! password too. Then the exchange is over, successful or not, and the server refuses every further
//! token.
//!
//! `ZooKeeperSaslServer` and `SecurityUtils.createSaslServer` (3.9.5) create the server's side with
//! the protocol "zookeeper", the server name "zk-sasl-md5" and no properties. The consequences are
//! in `com.sun.security.sasl.digest.DigestMD5Server` of JDK 17: one realm, the quality of
//! protection "auth" only, UTF-8, and a nonce that is used once.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest, Md5};
use thiserror::Error;

use crate::limits::SASL_TOKEN_BYTES_MAX;

/// The only realm. Every ZooKeeper server uses this name.
pub const REALM: &str = "zk-sasl-md5";

/// The `digest-uri` that a client must send: service and server name.
pub const DIGEST_URI: &str = "zookeeper/zk-sasl-md5";

/// How many random bytes the nonce of a challenge has.
pub const NONCE_BYTES: usize = 30;

/// The server's side of one exchange.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Exchange {
    /// The client has sent no token yet.
    #[default]
    New,
    /// The server has sent a challenge with this nonce (in base64).
    Challenged(Box<str>),
    /// The exchange has ended; every further token is refused.
    Over,
}

/// The server's reaction to a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The challenge to send to the client.
    Challenge(Vec<u8>),
    /// The client knows the password of `user`; `token` proves that the server knows it too.
    Authenticated {
        /// The authenticated user.
        user: String,
        /// The server's last token, to send to the client.
        token: Vec<u8>,
    },
}

/// Why an exchange failed, for the log. A client only learns that it failed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SaslError {
    /// The token is longer than [`SASL_TOKEN_BYTES_MAX`].
    #[error("a token of {bytes} bytes, {SASL_TOKEN_BYTES_MAX} allowed")]
    TokenTooLong {
        /// Length of the token.
        bytes: usize,
    },
    /// The client sent a token after the exchange had ended.
    #[error("a token after the end of the exchange")]
    Over,
    /// The response is not a list of directives, or contains a directive twice.
    #[error("a malformed response: {0}")]
    Malformed(&'static str),
    /// A directive is missing, or its value is not acceptable.
    #[error("the directive {directive} is invalid")]
    Directive {
        /// Name of the directive.
        directive: &'static str,
    },
    /// The server has no user of this name.
    #[error("there is no user {user:?}")]
    UnknownUser {
        /// The name that the client gave.
        user: String,
    },
    /// The response does not prove that the client knows the password.
    #[error("a wrong password of user {user:?}")]
    WrongPassword {
        /// The name that the client gave.
        user: String,
    },
}

impl Exchange {
    /// Handles a token from the client. `nonce` must be unpredictable and never used twice;
    /// `password` returns the password of a user, if the user exists.
    ///
    /// # Errors
    /// The client is not authenticated. [`SaslError::TokenTooLong`] leaves the exchange as it is;
    /// any other error ends it.
    pub fn step<'a>(
        &mut self,
        token: &[u8],
        nonce: &[u8; NONCE_BYTES],
        password: impl FnOnce(&str) -> Option<&'a str>,
    ) -> Result<Step, SaslError> {
        if token.len() > SASL_TOKEN_BYTES_MAX {
            return Err(SaslError::TokenTooLong { bytes: token.len() });
        }
        match core::mem::replace(self, Exchange::Over) {
            Exchange::New => {
                let nonce = STANDARD.encode(nonce);
                let challenge =
                    format!("realm=\"{REALM}\",nonce=\"{nonce}\",charset=utf-8,algorithm=md5-sess");
                *self = Exchange::Challenged(nonce.into());
                Ok(Step::Challenge(challenge.into_bytes()))
            }
            Exchange::Challenged(nonce) => Directives::parse(token)?.verify(&nonce, password),
            Exchange::Over => Err(SaslError::Over),
        }
    }
}

/// A client's response to a server's challenge; `None` if `challenge` is not one. `cnonce` is the
/// client's own random text, of characters that need no quoting.
pub fn respond(challenge: &[u8], user: &str, password: &str, cnonce: &str) -> Option<Vec<u8>> {
    let directives = Directives::parse(challenge).ok()?;
    let nonce = core::str::from_utf8(directives.get("nonce")?).ok()?;
    let uri = DIGEST_URI.as_bytes();
    let proof = Proof { user, realm: REALM, password, nonce, cnonce: cnonce.as_bytes(), uri };
    let hash = proof.response_value("AUTHENTICATE", None);
    let user = user.replace('\\', "\\\\").replace('"', "\\\"");
    let response = format!(
        "charset=utf-8,username=\"{user}\",realm=\"{REALM}\",nonce=\"{nonce}\",nc=00000001,\
         cnonce=\"{cnonce}\",digest-uri=\"{DIGEST_URI}\",maxbuf=65536,response={hash},qop=auth"
    );
    Some(response.into_bytes())
}

/// The directives of a response that the server knows; it ignores all others. It ignores `nc`, the
/// RFC's count of the nonce's uses, too: the JDK looks for the name `nonce-count`, and always
/// computes the hash with a count of 1.
const NAMES: [&str; 13] = [
    "username",
    "realm",
    "nonce",
    "cnonce",
    "nonce-count",
    "qop",
    "digest-uri",
    "response",
    "maxbuf",
    "charset",
    "cipher",
    "authzid",
    "auth-param",
];

/// The values of a response's directives, in the order of [`NAMES`]; `None` for an absent
/// directive.
#[derive(Default)]
struct Directives {
    values: [Option<Vec<u8>>; NAMES.len()],
}

impl Directives {
    /// Parses directives as `DigestMD5Base.parseDirectives` does: `name=value`, separated by commas
    /// or blanks. A value may be in double quotes, where `\` makes the next character literal. Like
    /// Java, it accepts a name without a value at the end.
    fn parse(text: &[u8]) -> Result<Directives, SaslError> {
        let mut directives = Directives::default();
        let mut rest = skip_blanks(text);
        while let Some((&first, behind)) = rest.split_first() {
            if first == b',' {
                rest = skip_blanks(behind);
                continue;
            }
            let end = rest.iter().position(|&byte| byte == b'=' || byte == b',' || is_blank(byte));
            let Some((name, behind)) = end.and_then(|end| rest.split_at_checked(end)) else {
                // The text ends with a bare name.
                return directives.put(rest, Vec::new());
            };
            let Some((b'=', behind)) = skip_blanks(behind).split_first() else {
                return Err(SaslError::Malformed("a name without ="));
            };
            if name.is_empty() {
                return Err(SaslError::Malformed("= without a name"));
            }
            let (value, behind) = parse_value(skip_blanks(behind))?;
            directives = directives.put(name, value)?;
            rest = behind;
        }
        Ok(directives)
    }

    fn put(mut self, name: &[u8], value: Vec<u8>) -> Result<Directives, SaslError> {
        let known = NAMES.iter().position(|known| known.as_bytes().eq_ignore_ascii_case(name));
        if let Some(slot) = known.and_then(|known| self.values.get_mut(known))
            && slot.replace(value).is_some()
        {
            return Err(SaslError::Malformed("a directive twice"));
        }
        Ok(self)
    }

    fn get(&self, name: &'static str) -> Option<&[u8]> {
        let known = NAMES.iter().position(|known| *known == name);
        self.values.get(known.expect("a name of the table"))?.as_deref()
    }

    fn must_have(&self, name: &'static str) -> Result<&[u8], SaslError> {
        self.get(name).ok_or(SaslError::Directive { directive: name })
    }

    /// Returns the error about the directive `name` unless `fits`.
    fn check(name: &'static str, fits: bool) -> Result<(), SaslError> {
        if fits { Ok(()) } else { Err(SaslError::Directive { directive: name }) }
    }

    /// Checks a client's response (`DigestMD5Server.validateClientResponse`). The directive
    /// `authzid`, the user that the client wants to act as, only goes into the hash:
    /// `SaslServerCallbackHandler` authorizes the authenticated user itself.
    fn verify<'a>(
        &self,
        nonce: &str,
        password: impl FnOnce(&str) -> Option<&'a str>,
    ) -> Result<Step, SaslError> {
        let charset = self.get("charset");
        Self::check("charset", charset.is_none_or(|charset| charset == b"utf-8"))?;
        Self::check("maxbuf", self.get("maxbuf").is_none_or(|value| integer(value, 10).is_some()))?;
        let user = self.must_have("username")?;
        Self::check("realm", self.get("realm") == Some(REALM.as_bytes()))?;
        Self::check("nonce", self.get("nonce") == Some(nonce.as_bytes()))?;
        let cnonce = self.must_have("cnonce")?;
        let count = self.get("nonce-count");
        Self::check("nonce-count", count.is_none_or(|count| integer(count, 16) == Some(1)))?;
        Self::check("qop", self.get("qop").is_none_or(|qop| qop == b"auth"))?;
        let uri = self.must_have("digest-uri")?;
        Self::check("digest-uri", uri.eq_ignore_ascii_case(DIGEST_URI.as_bytes()))?;
        let response = self.must_have("response")?;
        let user = String::from_utf8_lossy(user).into_owned();
        let Some(password) = password(&user) else {
            return Err(SaslError::UnknownUser { user });
        };
        let hash = |method| {
            let proof = Proof { user: &user, realm: REALM, password, nonce, cnonce, uri };
            proof.response_value(method, self.get("authzid"))
        };
        if response != hash("AUTHENTICATE").as_bytes() {
            return Err(SaslError::WrongPassword { user });
        }
        let token = format!("rspauth={}", hash("")).into_bytes();
        Ok(Step::Authenticated { user, token })
    }
}

/// The inputs of the hash that proves that a side knows the password.
struct Proof<'a> {
    user: &'a str,
    realm: &'a str,
    password: &'a str,
    nonce: &'a str,
    cnonce: &'a [u8],
    uri: &'a [u8],
}

impl Proof<'_> {
    /// The value of `response` (RFC 2831, 2.1.2.1), or of `rspauth` if `method` is empty (2.1.3),
    /// for the quality of protection "auth".
    fn response_value(&self, method: &str, authzid: Option<&[u8]>) -> String {
        let (nonce, cnonce) = (self.nonce.as_bytes(), self.cnonce);
        let [user, realm, password] = [self.user, self.realm, self.password].map(latin1_or_utf8);
        let secret = md5(&[&user, &realm, &password]);
        let mut first: Vec<&[u8]> = vec![&secret, nonce, cnonce];
        first.extend(authzid);
        let first = hex(&md5(&first));
        let second = hex(&md5(&[method.as_bytes(), self.uri]));
        let count = b"00000001";
        hex(&md5(&[first.as_bytes(), nonce, count, cnonce, b"auth", second.as_bytes()]))
    }
}

/// The MD5 hash of the parts, joined with `:`.
fn md5(parts: &[&[u8]]) -> [u8; 16] {
    Md5::digest(parts.join(&b':')).into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of a user, realm or password to hash: ISO 8859-1 if that has all its characters, else
/// UTF-8.
fn latin1_or_utf8(text: &str) -> Vec<u8> {
    let latin1: Result<Vec<u8>, _> = text.chars().map(|c| u8::try_from(u32::from(c))).collect();
    latin1.unwrap_or_else(|_| text.as_bytes().to_vec())
}

/// Parses the value of a directive. Returns it, and the text behind it and its separator.
fn parse_value(text: &[u8]) -> Result<(Vec<u8>, &[u8]), SaslError> {
    let Some((&first, behind)) = text.split_first() else {
        return Err(SaslError::Malformed("a name without a value"));
    };
    let (value, behind) = if first == b'"' {
        parse_quoted(behind)?
    } else {
        let end = text.iter().position(|&byte| byte == b',' || is_blank(byte));
        let (value, behind) = text.split_at(end.unwrap_or(text.len()));
        (value.to_vec(), behind)
    };
    match behind.split_first() {
        None => Ok((value, behind)),
        Some((&byte, behind)) if byte == b',' || is_blank(byte) => Ok((value, skip_blanks(behind))),
        Some(_) => Err(SaslError::Malformed("something right behind a closing quote")),
    }
}

/// Parses the rest of a quoted value, after its opening quote. Returns it unescaped, and the text
/// behind the closing quote.
fn parse_quoted(text: &[u8]) -> Result<(Vec<u8>, &[u8]), SaslError> {
    let mut value = Vec::new();
    let mut rest = text;
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        match byte {
            b'"' => return Ok((value, rest)),
            b'\\' => {
                let Some((&literal, behind)) = rest.split_first() else { break };
                value.push(literal);
                rest = behind;
            }
            byte => value.push(byte),
        }
    }
    Err(SaslError::Malformed("a quote that does not end"))
}

/// Parses a number as `Integer.parseInt` does with this radix.
fn integer(text: &[u8], radix: u32) -> Option<i32> {
    i32::from_str_radix(core::str::from_utf8(text).ok()?, radix).ok()
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn skip_blanks(text: &[u8]) -> &[u8] {
    let blanks = text.iter().take_while(|&&byte| is_blank(byte)).count();
    text.split_at(blanks).1
}

#[cfg(test)]
mod tests;
