//! Parses the parameters of a request about keys. They come from the query of the URL, and from the
//! body if the body is a form. The caller adds the body before the query. If a parameter occurs
//! twice, the value that was added first counts.
//!
//! Source: Go's `net/http.Request.ParseForm`, `net/url.ParseQuery`.

use thiserror::Error;

use super::path::{BadEscape, decoded};

/// The known parameters of requests about keys.
const NAMES: [&str; 14] = [
    "dir",
    "noValueOnSuccess",
    "prevExist",
    "prevIndex",
    "prevValue",
    "quorum",
    "recursive",
    "refresh",
    "sorted",
    "stream",
    "ttl",
    "value",
    "wait",
    "waitIndex",
];

/// The first value of each known parameter. Others are dropped, so a large form takes no memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Form {
    values: [Option<Vec<u8>>; NAMES.len()],
}

/// Why parameters cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FormError {
    /// An escape is malformed.
    #[error("{0}")]
    Escape(BadEscape),
    /// A semicolon separates two parameters, which Go refuses.
    #[error("invalid semicolon separator in query")]
    Semicolon,
}

impl Form {
    /// Adds the parameters in a query or form. A parameter that already has a value keeps it.
    ///
    /// # Errors
    /// A parameter is malformed.
    pub fn add(&mut self, text: &[u8]) -> Result<(), FormError> {
        for pair in text.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()) {
            if pair.contains(&b';') {
                return Err(FormError::Semicolon);
            }
            let end = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
            let (name, value) = (&pair[..end], pair.get(end + 1..).unwrap_or_default());
            let decoded = |text| decoded(text, true).map_err(FormError::Escape);
            let place = match name.contains(&b'%') {
                true => place(&decoded(name)?),
                false => place(name),
            };
            match place {
                Some(place) if self.values[place].is_none() => {
                    self.values[place] = Some(decoded(value)?);
                }
                _ if value.contains(&b'%') => drop(decoded(value)?),
                _ => {}
            }
        }
        Ok(())
    }

    /// The first value of a parameter; `None` if the parameter is missing.
    pub fn first(&self, name: &str) -> Option<&[u8]> {
        self.values[place(name.as_bytes())?].as_deref()
    }

    /// Takes the first value of a parameter out; returns an empty one if the parameter is missing.
    pub fn take(&mut self, name: &str) -> Vec<u8> {
        let place = place(name.as_bytes());
        place.and_then(|place| self.values[place].take()).unwrap_or_default()
    }
}

/// The index of a parameter in `NAMES`; `None` if it is unknown.
fn place(name: &[u8]) -> Option<usize> {
    NAMES.iter().position(|known| known.as_bytes() == name)
}

#[cfg(test)]
mod tests;
