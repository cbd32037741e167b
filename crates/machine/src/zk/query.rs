//! Local reads of the tree: never replicated, never changing anything.

use crate::ids::SessionId;
use crate::zk::Zk;
use crate::zk::acl::{self, AclEntry, Identity, perms};
use crate::zk::reply::Refusal;
use crate::zk::stat::Stat;
use crate::zk::tree::{ROOT, Znode};

/// The kind of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryKind {
    /// The stat of a znode, if it exists.
    Exists,
    /// Data and stat.
    Data,
    /// Names of the children, and stat.
    Children,
    /// ACL and stat.
    Acl,
}

/// A read of one znode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query<'a> {
    /// The kind of the read.
    pub kind: QueryKind,
    /// The path of the znode.
    pub path: &'a str,
}

/// The result of a read. It borrows the state, so it is turned into bytes before the lock is
/// released.
pub enum QueryResult<'m> {
    /// The answer to [`QueryKind::Exists`].
    Exists(Stat),
    /// The answer to [`QueryKind::Data`].
    Data {
        /// The data; `None` is ZooKeeper's null.
        data: Option<&'m [u8]>,
        /// The znode's stat.
        stat: Stat,
    },
    /// The answer to [`QueryKind::Children`].
    Children {
        /// The znode: it lists its children.
        znode: Znode<'m>,
    },
    /// The answer to [`QueryKind::Acl`].
    Acl {
        /// The ACL's entries.
        entries: &'m [AclEntry],
        /// Whether digests must be masked, because the asker may not administer the znode.
        masked: bool,
        /// The znode's stat.
        stat: Stat,
    },
}

/// A count of the znodes below one, made in steps; the state's lock is released between them.
///
/// A znode that exists from the first step to the last is counted once; one that is made or removed
/// meanwhile may be counted or not. The price is a walk over all slots of the tree for each count,
/// and from each slot up to the counted znode or to the root. Counters in the tree would cost every
/// write a walk to the root, and a walk over only the subtree would lose its place when that znode
/// is removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DescendantCount {
    next_slot: u32,
    count: u32,
}

impl Zk {
    /// Answers a query for someone with `identities`.
    ///
    /// ZooKeeper 3.9 `FinalRequestProcessor`: exists, data and children need READ on the znode if
    /// it exists; the ACL needs READ or ADMIN, and shows digests only to ADMIN.
    pub fn query(
        &self,
        query: &Query<'_>,
        identities: &[Identity<'_>],
    ) -> Result<QueryResult<'_>, Refusal> {
        if query.kind == QueryKind::Exists && query.path.contains('\0') {
            return Err(Refusal::BadArguments);
        }
        let znode = self.tree().find(query.path).ok_or(Refusal::NoNode)?;
        let wanted = match query.kind {
            QueryKind::Acl => perms::READ | perms::ADMIN,
            _ => perms::READ,
        };
        let may = |wanted| acl::allows(self.settings(), znode.acl(), wanted, identities);
        if !may(wanted) {
            return Err(Refusal::NoAuth);
        }
        Ok(match query.kind {
            QueryKind::Exists => QueryResult::Exists(znode.stat()),
            QueryKind::Data => QueryResult::Data { data: znode.data(), stat: znode.stat() },
            QueryKind::Children => QueryResult::Children { znode },
            QueryKind::Acl => QueryResult::Acl {
                entries: znode.acl(),
                masked: !may(perms::ADMIN),
                stat: znode.stat(),
            },
        })
    }

    /// Goes on with a count of the znodes below `path`, looking at about `slots_max` znodes, their
    /// ancestors included. `None`: call it again. The root is counted at once.
    ///
    /// ZooKeeper 3.9 `FinalRequestProcessor`, getAllChildrenNumber: needs READ on the znode,
    /// whatever the ACLs of the znodes below. The znode itself is not counted, unless the path is
    /// empty, which names the root too (`DataTree.getAllChildrenNumber` then counts every path that
    /// starts with a slash).
    pub fn count_descendants(
        &self,
        path: &str,
        identities: &[Identity<'_>],
        slots_max: u32,
        so_far: &mut DescendantCount,
    ) -> Result<Option<u32>, Refusal> {
        let tree = self.tree();
        let znode = tree.find(path).ok_or(Refusal::NoNode)?;
        if !acl::allows(self.settings(), znode.acl(), perms::READ, identities) {
            return Err(Refusal::NoAuth);
        }
        if znode.id() == ROOT {
            return Ok(Some(tree.znode_count() - u32::from(!path.is_empty())));
        }
        let (count, next) = tree.count_below(znode.id(), so_far.next_slot, slots_max);
        so_far.count += count;
        so_far.next_slot = next;
        Ok((next == tree.slot_count()).then_some(so_far.count))
    }

    /// Paths of a session's ephemeral znodes, sorted.
    pub fn ephemeral_paths(&self, session: SessionId) -> Vec<String> {
        self.ephemeral_paths_from(session, "", u64::MAX).expect("no bytes are more")
    }

    /// Paths of a session's ephemeral znodes that start with `prefix`, sorted. They are its own, so
    /// no ACL is asked (`FinalRequestProcessor`, getEphemerals).
    ///
    /// # Errors
    /// The paths, with 4 bytes each for their length, take more than `bytes_max` bytes. None more
    /// are made; the error has the bytes up to there.
    pub fn ephemeral_paths_from(
        &self,
        session: SessionId,
        prefix: &str,
        bytes_max: u64,
    ) -> Result<Vec<String>, u64> {
        let session = self.sessions().get(session);
        let ids = session.into_iter().flat_map(|session| &session.ephemerals);
        let (mut paths, mut bytes) = (Vec::new(), 0);
        for path in ids.map(|&id| self.tree().path(id)).filter(|path| path.starts_with(prefix)) {
            bytes += 4 + path.len() as u64;
            if bytes > bytes_max {
                return Err(bytes);
            }
            paths.push(path);
        }
        paths.sort_unstable();
        Ok(paths)
    }
}
