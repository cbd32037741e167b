//! Reads of the tree, which a member answers on its own: they are not replicated, and change
//! nothing.

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

/// The result of a read. It borrows the state, so the caller turns it into bytes before it releases
/// the lock.
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
        /// The znode whose children to list.
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

/// The progress of a count of a znode's descendants. The count is done in steps, between which the
/// state's lock is released.
///
/// A znode that exists from the first step to the last is counted once; one that is made or removed
/// meanwhile is counted or not. Each count walks over all slots of the tree, and from each znode up
/// to the counted one or to the root. The alternatives are worse: counters in the tree would cost
/// every write a walk to the root, and a walk over only the subtree would lose its place when the
/// znode where it stopped is removed.
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

    /// Does one step of a count of the znodes below `path`. A step looks at about `slots_max`
    /// znodes, including the ancestors that it passes on the way up from each znode. Returns `None`
    /// if the count is not done: call it again with the same `so_far`. If `path` is the root, one
    /// step is enough.
    ///
    /// ZooKeeper 3.9 `FinalRequestProcessor`, getAllChildrenNumber: needs READ on the znode,
    /// whatever the ACLs of the znodes below. The znode itself is not counted, except for the empty
    /// path, which names the root too (`DataTree.getAllChildrenNumber` then counts every path that
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

    /// Paths of a session's ephemeral znodes that start with `prefix`, sorted. The session may see
    /// all of them, so no ACL is checked (`FinalRequestProcessor`, getEphemerals).
    ///
    /// # Errors
    /// The paths take more than `bytes_max` bytes, with 4 bytes for the length of each. The error
    /// holds the bytes of the paths up to the first one that was too much; the rest were not looked
    /// at.
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
