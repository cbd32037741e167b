//! The parameters of a request: of its query, and of its form where it has one. Those of the form
//! come first.
//!
//! Go's `net/http.Request.ParseForm`, `net/url.ParseQuery`.

use thiserror::Error;

use super::path::{BadEscape, decoded};

/// Parameters with their values, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Form {
    pairs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Why parameters cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FormError {
    /// An escape is malformed.
    #[error("{0}")]
    Escape(BadEscape),
    /// A semicolon stands between two parameters.
    #[error("invalid semicolon separator in query")]
    Semicolon,
}

impl Form {
    /// Adds the parameters of a text behind those that are there.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub fn add(&mut self, text: &[u8]) -> Result<(), FormError> {
        for pair in text.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()) {
            if pair.contains(&b';') {
                return Err(FormError::Semicolon);
            }
            let end = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
            let (name, value) = (&pair[..end], pair.get(end + 1..).unwrap_or_default());
            let decoded = |text| decoded(text, true).map_err(FormError::Escape);
            self.pairs.push((decoded(name)?, decoded(value)?));
        }
        Ok(())
    }

    /// The first value of a parameter; none if it is not there.
    pub fn first(&self, name: &str) -> Option<&[u8]> {
        let found = self.pairs.iter().find(|(found, _)| found == name.as_bytes());
        found.map(|(_, value)| value.as_slice())
    }

    /// Takes the first value of a parameter out; empty if it is not there.
    pub fn take(&mut self, name: &str) -> Vec<u8> {
        let found = self.pairs.iter_mut().find(|(found, _)| found == name.as_bytes());
        found.map(|(_, value)| core::mem::take(value)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
