//! Keeps the identities that a client has proved on its connection, and its SASL exchange.

use std::sync::Arc;

use machine::entry::encode_identities;
use zk::sasl::{Exchange, NONCE_BYTES, SaslError, Step};

use crate::fronts::zk::limits::{CONNECTION_IDENTITIES_MAX, CONNECTION_IDENTITY_BYTES_MAX};
use crate::identities::{Identities, OwnedIdentity, borrow};

/// The identities that a client has proved, and its SASL exchange.
pub(super) struct Identity {
    sasl: Exchange,
    proved: Identities,
    /// The identities as a batch encodes them.
    encoded: Vec<u8>,
}

impl Identity {
    /// The identities of a new client: only its address.
    pub fn new(ip: &str) -> Identity {
        let (sasl, proved, encoded) = (Exchange::New, Arc::from([]), Vec::new());
        let mut identity = Identity { sasl, proved, encoded };
        identity.set(vec![OwnedIdentity { scheme: "ip".into(), id: ip.into() }]);
        identity
    }

    /// The proved identities.
    #[inline]
    pub fn proved(&self) -> &Identities {
        &self.proved
    }

    /// The proved identities as a batch encodes them.
    #[inline]
    pub fn encoded(&self) -> &[u8] {
        &self.encoded
    }

    /// Whether the client has proved an identity with a scheme for which `is_such` is true.
    pub fn has_scheme(&self, is_such: impl Fn(&str) -> bool) -> bool {
        self.proved.iter().any(|identity| is_such(&identity.scheme))
    }

    /// Adds identities that the client has just proved. Returns false, and adds none, if they are
    /// too many.
    pub fn add(&mut self, proved: &[(&str, &str)]) -> bool {
        let mut identities = self.proved.to_vec();
        for (scheme, id) in proved {
            let identity = OwnedIdentity { scheme: (*scheme).into(), id: (*id).into() };
            if !identities.contains(&identity) {
                identities.push(identity);
            }
        }
        let bytes = encode_identities(borrow(&identities).into_iter()).len();
        if identities.len() > CONNECTION_IDENTITIES_MAX || bytes > CONNECTION_IDENTITY_BYTES_MAX {
            return false;
        }
        self.set(identities);
        true
    }

    fn set(&mut self, identities: Vec<OwnedIdentity>) {
        self.encoded = encode_identities(borrow(&identities).into_iter());
        self.proved = identities.into();
    }

    /// Takes the next token of the client's SASL exchange.
    ///
    /// # Errors
    /// The client has failed to prove that it is the user.
    pub fn step_sasl<'a>(
        &mut self,
        token: &[u8],
        nonce: &[u8; NONCE_BYTES],
        password: impl Fn(&str) -> Option<&'a str>,
    ) -> Result<Step, SaslError> {
        self.sasl.step(token, nonce, password)
    }
}
