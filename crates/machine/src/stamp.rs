//! The context of a command: its time, its sender, and what the sender has proved to be.

use crate::ids::{Attachment, ConnectionId, Origin};
use crate::zk::acl::Identity;

/// What an entry and a batch say about a command beside the command itself.
#[derive(Clone, Copy, Debug)]
pub struct Stamp<'a> {
    /// The leader's wall clock, ms since 1970. For Stat, and for what a time to live is compared
    /// with.
    pub time_ms: i64,
    /// The member, and its start, that handed the command over.
    pub origin: Origin,
    /// The connection that sent it; 0 for commands of Loop.
    pub connection: ConnectionId,
    /// What that connection has proved to be.
    pub identities: &'a [Identity<'a>],
}

impl Stamp<'_> {
    pub(crate) fn owner(&self) -> Attachment {
        Attachment { origin: self.origin, connection: self.connection }
    }
}
