//! ZooKeeper's Stat: the fields that clients see beside a znode's data.

/// The fields of a znode that clients see beside its data (ZooKeeper's Stat).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// zxid of the creation.
    pub czxid: i64,
    /// zxid of the last change of the data.
    pub mzxid: i64,
    /// Time of the creation, ms since 1970.
    pub ctime: i64,
    /// Time of the last change of the data, ms since 1970.
    pub mtime: i64,
    /// How often the data changed; wraps.
    pub version: i32,
    /// Creates and deletes of children, as ZooKeeper shows it. The tree stores only the creates:
    /// twice these, less the number of children, is creates plus deletes.
    pub cversion: i32,
    /// How often the ACL changed; wraps.
    pub aversion: i32,
    /// The session that owns an ephemeral znode; 0 for other znodes.
    pub ephemeral_owner: i64,
    /// Bytes of data; 0 for null.
    pub data_bytes: i32,
    /// Number of children.
    pub child_count: i32,
    /// zxid of the last create or delete of a child.
    pub pzxid: i64,
}
