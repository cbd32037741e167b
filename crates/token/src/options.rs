//! The text of etcd's flag `--auth-token`: a kind, and options behind commas.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::error::OptionsError;
use crate::method::SigningMethod;

/// How long a token is valid if the options do not say (`auth.DefaultTTL`).
const TTL_DEFAULT: Duration = Duration::from_secs(5 * 60);

/// The kind of the tokens that a server gives out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthToken {
    /// Tokens that only the servers know. Their options have no effect.
    Simple,
    /// Tokens that a key signs.
    Jwt(JwtOptions),
    /// No tokens: nobody can authenticate.
    Nothing,
}

/// The options of tokens that a key signs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtOptions {
    /// The method.
    pub method: SigningMethod,
    /// How long a token is valid.
    pub ttl: Duration,
    /// The file with the public key.
    pub public_key: Option<String>,
    /// The file with the private key; for HS256 and its like, with the secret.
    pub private_key: Option<String>,
    /// Names that mean nothing. etcd warns of them.
    pub unknown: Vec<String>,
}

impl AuthToken {
    /// Reads the text of the flag. `duration` reads a time as Go does, like `10m`.
    ///
    /// # Errors
    /// The text is none, or says no method.
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
        // An option without a value counts as not given.
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
