//! The four counters and the identities, each a type of its own so that none is taken for another.
//!
//! All four counters are results of apply. Conversions between them happen here and nowhere else.

/// Position of an entry in the replicated log, as Raft counts. The first real entry has index 2: a
/// data directory is born with a snapshot at index 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogIndex(pub u64);

/// Count of applied commands, finer than the log index because one entry carries many. Internal:
/// no client ever sees it. Watches and replies are ordered by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ordinal(pub u64);

/// The transaction id that ZooKeeper clients see. Session open and close and every write consume
/// one, refused writes too; attach and skipped duplicates do not. Signed as on ZooKeeper's wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Zxid(pub i64);

/// A ZooKeeper session. Never 0: on the wire 0 means "no session yet".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub i64);

/// The Raft id of a member: drawn at random by each data directory, never reused. Not `myid`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(pub u64);

/// A start of a member's process: grows with each start of a data directory. The starts of two
/// copies of a directory differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BootId(pub u64);

impl BootId {
    /// The start with number `count` of its directory, from 1. `random` tells it from the starts
    /// with that number of the directory's copies.
    pub fn new(count: u32, random: u32) -> BootId {
        BootId(u64::from(count) << 32 | u64::from(random))
    }

    /// The number of starts of the directory, this one included. For people.
    pub fn count(self) -> u64 {
        self.0 >> 32
    }
}

/// A client connection of one boot of one member, never reused within that boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// The origin of a batch: one boot of one member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// The member whose clients sent the commands.
    pub member: MemberId,
    /// The start of that member's process.
    pub boot: BootId,
}

/// A lease of etcd. Never 0: a key of lease 0 has none, and a grant of 0 lets the server choose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub i64);

/// An owner of state that lives only while its client is heard: a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// A ZooKeeper session, with its ephemerals.
    Session(SessionId),
}

/// The one connection that may act for a session: the last to attach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attachment {
    /// The member and boot that the connection belongs to.
    pub origin: Origin,
    /// The connection of that boot.
    pub connection: ConnectionId,
}

impl Ordinal {
    /// The ordinal of the next command.
    pub fn next(self) -> Ordinal {
        Ordinal(self.0 + 1)
    }
}

impl Zxid {
    /// The zxid of the next transaction.
    pub fn next(self) -> Zxid {
        Zxid(self.0 + 1)
    }
}
