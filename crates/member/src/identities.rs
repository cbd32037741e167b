//! The identities that a connection has proved, kept longer than the bytes that carried them.

use std::sync::Arc;

use machine::Identity;

/// An identity that outlives the bytes it came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedIdentity {
    /// The scheme.
    pub scheme: Box<str>,
    /// The id.
    pub id: Box<str>,
}

/// All identities of a connection, shared with its reads under way.
pub type Identities = Arc<[OwnedIdentity]>;

/// The identities as the machine wants them.
pub fn borrow(identities: &[OwnedIdentity]) -> Vec<Identity<'_>> {
    identities.iter().map(|own| Identity { scheme: &own.scheme, id: &own.id }).collect()
}
