//! Counters and identities, each a type of its own, so that the compiler keeps them apart.
//!
//! [`LogIndex`], [`Ordinal`] and [`Zxid`] count at different rates: an entry has one index, carries
//! many commands (an ordinal each), and not every command consumes a zxid.

/// Position of an entry in the replicated log, as Raft counts. The first real entry has index 2: a
/// new data directory starts with a snapshot at index 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogIndex(pub u64);

/// The number of a command: how many commands were applied up to this one. It counts faster than
/// the log index, because one entry carries many commands. Orders watches and replies. Clients see
/// it only as the unique number in a simple token of etcd.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ordinal(pub u64);

/// The transaction id that ZooKeeper clients see. Each write or multi consumes one, even if it is
/// refused; so does each session that is opened, closed or expired, each container or TTL znode
/// that is removed because it is due, and the installation of an image. An attach, a change of
/// settings and a skipped duplicate consume none. Signed as on ZooKeeper's wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Zxid(pub i64);

/// A ZooKeeper session. Never 0: on the wire 0 means "no session yet".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub i64);

/// The Raft id of a member: drawn at random by each data directory, never reused. Not `myid`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(pub u64);

/// One start of a member's process. Later starts of a data directory have higher ids. Two copies of
/// a directory have different ids, even for equally many starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BootId(pub u64);

impl BootId {
    /// The id of start number `count` of a directory, from 1. `random` distinguishes it from start
    /// number `count` of a copy of the directory.
    pub fn new(count: u32, random: u32) -> BootId {
        BootId(u64::from(count) << 32 | u64::from(random))
    }

    /// The number of starts of the directory, this one included, to show to people.
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

/// A lease of etcd. Never 0: in etcd's protocol, a key with lease 0 has no lease, and a grant with
/// id 0 asks the server to choose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub i64);

/// The owner of state that is removed when its client falls silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// A ZooKeeper session, with its ephemerals.
    Session(SessionId),
}

/// The connection that may act for a session: the one that opened the session or attached to it
/// last.
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
