//! The identities (scheme and id) that a connection has proved, as values that own their text.

use std::sync::Arc;

use machine::Identity;

/// An identity that outlives the request bytes that contained it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedIdentity {
    /// The scheme of authentication, for example `digest`.
    pub scheme: Box<str>,
    /// The id within the scheme.
    pub id: Box<str>,
}

/// All identities of a connection; its reads under way share them.
pub type Identities = Arc<[OwnedIdentity]>;

/// The identities in the form that the machine takes.
pub fn borrow(identities: &[OwnedIdentity]) -> Vec<Identity<'_>> {
    identities.iter().map(|own| Identity { scheme: &own.scheme, id: &own.id }).collect()
}
