//! Local reads of the tree: never replicated, never changing anything.

use crate::acl::{self, AclEntry, Identity, perms};
use crate::ids::SessionId;
use crate::machine::Machine;
use crate::reply::Refusal;
use crate::tree::{Stat, Znode};

/// What is asked.
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
    /// What is asked.
    pub kind: QueryKind,
    /// Of which znode.
    pub path: &'a str,
}

/// What was found. Borrows the state: turned into bytes before the lock is given back.
pub enum QueryResult<'m> {
    /// To [`QueryKind::Exists`].
    Exists(Stat),
    /// To [`QueryKind::Data`].
    Data {
        /// `None` is ZooKeeper's null.
        data: Option<&'m [u8]>,
        /// The znode's stat.
        stat: Stat,
    },
    /// To [`QueryKind::Children`].
    Children {
        /// The znode: it lists its children.
        znode: Znode<'m>,
    },
    /// To [`QueryKind::Acl`].
    Acl {
        /// The ACL's entries.
        entries: &'m [AclEntry],
        /// The asker may not administer the znode: digests are to be masked.
        masked: bool,
        /// The znode's stat.
        stat: Stat,
    },
}

impl Machine {
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

    /// Paths of a session's ephemeral znodes, sorted.
    pub fn ephemeral_paths(&self, session: SessionId) -> Vec<String> {
        let Some(session) = self.sessions().get(session) else {
            return Vec::new();
        };
        let mut paths: Vec<String> =
            session.ephemerals.iter().map(|&id| self.tree().path(id)).collect();
        paths.sort_unstable();
        paths
    }
}
