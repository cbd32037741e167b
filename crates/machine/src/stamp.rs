//! The context of a command: its time, its sender, and the sender's identities.

use crate::ids::{Attachment, ConnectionId, Origin};
use crate::zk::acl::Identity;

/// The context that an entry and a batch give to a command.
#[derive(Clone, Copy, Debug)]
pub struct Stamp<'a> {
    /// The leader's wall clock, ms since 1970. Znodes take their times from it, and it decides
    /// whether a container or a TTL znode is due. etcd v2 only shows the ends of times to live by
    /// it.
    pub time_ms: i64,
    /// The member that handed the command over, and that member's boot.
    pub origin: Origin,
    /// The connection that sent the command; 0 if Loop made the command.
    pub connection: ConnectionId,
    /// The identities that the connection has proved.
    pub identities: &'a [Identity<'a>],
}

impl Stamp<'_> {
    pub(crate) fn owner(&self) -> Attachment {
        Attachment { origin: self.origin, connection: self.connection }
    }
}
