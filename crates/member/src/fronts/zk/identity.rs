//! The identities that a client has proved on its connection.

use std::sync::Arc;

use machine::entry::encode_identities;
use zk::sasl::{Exchange, NONCE_BYTES, SaslError, Step};

use crate::fronts::zk::limits::{CONNECTION_IDENTITIES_MAX, CONNECTION_IDENTITY_BYTES_MAX};
use crate::identities::{Identities, OwnedIdentity, borrow};

/// The identities that a client has proved, and its SASL exchange.
pub(super) struct Identity {
    sasl: Exchange,
    proved: Identities,
    /// The identities, encoded as a batch holds them.
    encoded: Vec<u8>,
}

impl Identity {
    /// The identity of a client at this address, as `ip` identities have it.
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

    /// The proved identities, encoded as a batch holds them.
    #[inline]
    pub fn encoded(&self) -> &[u8] {
        &self.encoded
    }

    /// Whether an identity of a scheme is proved that `is_such` accepts.
    pub fn has_scheme(&self, is_such: impl Fn(&str) -> bool) -> bool {
        self.proved.iter().any(|identity| is_such(&identity.scheme))
    }

    /// Adds identities that the client has just proved. False if they are too many; then none is
    /// added.
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

    /// Takes a token of the SASL exchange.
    ///
    /// # Errors
    /// The client has not proved to be the user.
    pub fn step_sasl<'a>(
        &mut self,
        token: &[u8],
        nonce: &[u8; NONCE_BYTES],
        password: impl Fn(&str) -> Option<&'a str>,
    ) -> Result<Step, SaslError> {
        self.sasl.step(token, nonce, password)
    }
}
