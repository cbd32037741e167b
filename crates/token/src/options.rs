//! Parses etcd's flag `--auth-token`: a kind of token, then options separated by commas.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::error::OptionsError;
use crate::method::SigningMethod;

/// How long a token is valid if the options name no time (`auth.DefaultTTL`).
const TTL_DEFAULT: Duration = Duration::from_secs(5 * 60);

/// The kind of tokens that a server makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthToken {
    /// Simple tokens: random text that the servers remember. The options have no effect.
    Simple,
    /// Signed tokens.
    Jwt(JwtOptions),
    /// No tokens: no client can authenticate with a password.
    Nothing,
}

/// The options for signed tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtOptions {
    /// The signing method.
    pub method: SigningMethod,
    /// How long a token is valid.
    pub ttl: Duration,
    /// The path of the public key file.
    pub public_key: Option<String>,
    /// The path of the private key file, or for HS256 and its like of the file with the secret.
    pub private_key: Option<String>,
    /// The names of unknown options. etcd logs a warning about them.
    pub unknown: Vec<String>,
}

impl AuthToken {
    /// Parses the flag. `duration` parses a time in Go's form, like `10m`.
    ///
    /// # Errors
    /// The text is malformed, or an option is missing or wrong.
    pub fn parse(
        text: &str,
        duration: impl Fn(&str) -> Option<Duration>,
    ) -> Result<AuthToken, OptionsError> {
        let mut words = text.split(',');
        let kind = words.next().unwrap_or_default();
        let mut options = BTreeMap::new();
        for word in words {
            let Some((name, value)) = word.split_once('=').filter(|(_, it)| !it.contains('='))
            else {
                return Err(OptionsError::invalid(format!("{word:?} is no NAME=VALUE")));
            };
            if options.insert(name, value).is_some() {
                return Err(OptionsError::invalid(format!("{name:?} is given twice")));
            }
        }
        match kind {
            "simple" => Ok(AuthToken::Simple),
            "jwt" => Ok(AuthToken::Jwt(JwtOptions::of(options, duration)?)),
            "" => Ok(AuthToken::Nothing),
            _ => Err(OptionsError::invalid(format!("{kind:?} is no kind of token"))),
        }
    }
}

impl JwtOptions {
    fn of(
        mut options: BTreeMap<&str, &str>,
        duration: impl Fn(&str) -> Option<Duration>,
    ) -> Result<JwtOptions, OptionsError> {
        // An option with an empty value counts as not given.
        let mut take = |name| options.remove(name).filter(|value| !value.is_empty());
        let ttl = match take("ttl") {
            None => TTL_DEFAULT,
            Some(ttl) => duration(ttl)
                .ok_or_else(|| OptionsError::invalid(format!("{ttl:?} is no time like 10m")))?,
        };
        let public_key = take("pub-key").map(str::to_string);
        let private_key = take("priv-key").map(str::to_string);
        let method = take("sign-method").unwrap_or_default();
        if method == "none" {
            return Err(OptionsError::MethodNone);
        }
        let Some(method) = SigningMethod::named(method) else {
            let why = format!("auth: invalid auth signature method: {method:?}");
            return Err(OptionsError::invalid(why));
        };
        let unknown = options.into_keys().map(str::to_string).collect();
        Ok(JwtOptions { method, ttl, public_key, private_key, unknown })
    }
}

#[cfg(test)]
mod tests;
