//! Writes to the tree: each operation's checks, in ZooKeeper's order, and then its changes.
//!
//! An operation makes no change before all its checks have passed, so a single operation needs no
//! undo.
//!
//! Source of the order of checks: `PrepRequestProcessor.pRequest2Txn`, ZooKeeper 3.9.5.

use crate::ids::SessionId;
use crate::stamp::Stamp;
use crate::zk::Zk;
use crate::zk::acl::{self, Acl, AclEntry, perms};
use crate::zk::change::Change;
use crate::zk::command::{AskedAcl, CreateMode, Op};
use crate::zk::pause::{Counting, Step};
use crate::zk::reply::{Outcome, Refusal};
use crate::zk::tree::{CONTAINER_OWNER, NewZnode, Tree, Znode, ZnodeId, ephemeral_session};
use crate::zk::txn::{Call, Txn, Undo};
use crate::zk::usage::{Usage, data_bytes};

/// The longest time to live: 40 bits of ms (`EphemeralType.TTL.maxValue`).
const TTL_MS_MAX: i64 = (1 << 40) - 1;
/// The top byte that marks the owner word of a TTL znode.
const TTL_OWNER: i64 = (0xff_u64 << 56) as i64;

/// How far an operation came that passed its checks.
pub(crate) enum Operated {
    Done(Outcome),
    /// The operation is a create that has made its znode, and must now count a subtree.
    Counts(Box<Counting>),
}

impl Zk {
    /// Starts a write, or continues it from `begun`. `Err` holds what is left for the next step.
    pub(crate) fn write(
        &mut self,
        call: Call<'_>,
        (session, op): (SessionId, &Op<'_>),
        begun: Option<Box<Counting>>,
        step: &mut Step<'_>,
    ) -> Result<Result<Outcome, Refusal>, Box<Counting>> {
        let counting = match begun {
            Some(counting) => counting,
            None => {
                let mark = self.consume_zxid(call.ordinal);
                if let Err(refusal) = self.check_owner(call.stamp, session) {
                    return Ok(Err(refusal));
                }
                let mut txn = Txn::new(mark, step.changes);
                match self.operate(call.stamp, session, op, &mut txn) {
                    Ok(Operated::Done(outcome)) => return Ok(Ok(outcome)),
                    Ok(Operated::Counts(counting)) => counting,
                    Err(refusal) => return Ok(Err(refusal)),
                }
            }
        };
        let mut txn = Txn::new(self.mark(call.ordinal), step.changes);
        self.finish_create(counting, &mut txn, &mut step.steps).map(Ok)
    }

    /// Checks an operation and does it, except for the count of a subtree that a create may need.
    pub(crate) fn operate(
        &mut self,
        stamp: &Stamp<'_>,
        session: SessionId,
        op: &Op<'_>,
        txn: &mut Txn<'_>,
    ) -> Result<Operated, Refusal> {
        match op {
            Op::Create { .. } => self.create(stamp, session, op, txn),
            _ => self.operate_on_one(stamp, op, txn).map(Operated::Done),
        }
    }

    /// Checks an operation on an existing znode, and does it.
    fn operate_on_one(
        &mut self,
        stamp: &Stamp<'_>,
        op: &Op<'_>,
        txn: &mut Txn<'_>,
    ) -> Result<Outcome, Refusal> {
        match op {
            Op::Create { .. } => unreachable!("operate hands over other operations only"),
            Op::Delete { path, version } => self.delete(stamp, path, *version, txn),
            Op::SetData { path, malformed, data, version } => {
                let znode = self.find_valid(path, *malformed)?;
                self.check_acl(stamp, znode.acl(), perms::WRITE)?;
                let more = Usage { znodes: 0, bytes: data_bytes(*data) - data_bytes(znode.data()) };
                self.check_quota(path, more, txn.changes)?;
                check_version(znode.version(), *version)?;
                let (id, acl) = (znode.id(), znode.restricting_acl());
                let old = self.tree.set_data(id, path, *data, txn.mark.zxid.0, stamp.time_ms);
                txn.did(|| Undo::SetData { path: (*path).into(), old });
                self.charge_quota(path, more, txn);
                txn.tell(Change::DataSet { acl }, path);
                Ok(Outcome::DataSet(self.tree.znode(id).stat()))
            }
            Op::SetAcl { path, malformed, acl, version } => {
                if *malformed {
                    return Err(Refusal::BadArguments);
                }
                let acl = self.resolve_acl(stamp, acl)?;
                let znode = self.find_valid(path, false)?;
                self.check_acl(stamp, znode.acl(), perms::ADMIN)?;
                check_version(znode.aversion(), *version)?;
                let id = znode.id();
                let old = self.tree.set_acl(id, path, &acl);
                txn.did(|| Undo::SetAcl { path: (*path).into(), old });
                Ok(Outcome::AclSet(self.tree.znode(id).stat()))
            }
            Op::Check { path, malformed, version } => {
                let znode = self.find_valid(path, *malformed)?;
                self.check_acl(stamp, znode.acl(), perms::READ)?;
                check_version(znode.version(), *version)?;
                Ok(Outcome::Checked)
            }
            Op::Malformed => Err(Refusal::BadArguments),
        }
    }

    fn create(
        &mut self,
        stamp: &Stamp<'_>,
        session: SessionId,
        op: &Op<'_>,
        txn: &mut Txn<'_>,
    ) -> Result<Operated, Refusal> {
        let Op::Create { path, malformed, data, acl, mode, ttl_ms } = op else {
            unreachable!("operate hands over creates only")
        };
        let owner = self.owner_word(session, *mode, *ttl_ms)?;
        let slash = path.rfind('/').filter(|_| !path.contains('\0'));
        let parent_end = slash.ok_or(Refusal::BadArguments)?;
        let acl = self.resolve_acl(stamp, acl)?;
        let parent = self.tree.find(&path[..parent_end]).ok_or(Refusal::NoNode)?;
        self.check_acl(stamp, parent.acl(), perms::CREATE)?;
        let path = match mode.is_sequential() {
            true => format!("{path}{:010}", parent.sequence()),
            false => (*path).to_string(),
        };
        if *malformed {
            return Err(Refusal::BadArguments);
        }
        // The root is no child of anything, so no lookup finds it.
        let name = &path[parent_end + 1..];
        if name.is_empty() || self.tree.find_child(parent.id(), name).is_some() {
            return Err(Refusal::NodeExists);
        }
        if ephemeral_session(parent.owner()).is_some() {
            return Err(Refusal::NoChildrenForEphemerals);
        }
        let more = Usage { znodes: 1, bytes: data_bytes(*data) };
        self.check_quota(&path, more, txn.changes)?;
        let parent_acl = parent.restricting_acl();
        let parent = parent.id();
        let (data, acl, zxid) = (*data, &acl, txn.mark.zxid.0);
        let new = NewZnode { name, data, acl, owner, zxid, time_ms: stamp.time_ms };
        let created = self.tree.create(parent, &path, &new);
        let id = Tree::created_id(&created);
        self.own_ephemeral(owner, id);
        let znode = self.tree.znode(id);
        let stat = znode.stat();
        txn.tell(Change::Created { acl: znode.restricting_acl(), parent_acl }, &path);
        txn.did(|| Undo::Create { path: path.as_str().into(), created });
        let count = self.begin_count(&path);
        if count.is_none() {
            self.charge_quota(&path, more, txn);
        }
        let path: Box<str> = path.into();
        let outcome = Outcome::Created { path: path.clone(), stat };
        Ok(match count {
            None => Operated::Done(outcome),
            Some(count) => Operated::Counts(Box::new(Counting { path, more, count, outcome })),
        })
    }

    /// The ephemeral owner word of a new znode (`PrepRequestProcessor.validateCreateRequest` and
    /// `EphemeralType`).
    fn owner_word(
        &self,
        session: SessionId,
        mode: CreateMode,
        ttl_ms: i64,
    ) -> Result<i64, Refusal> {
        if mode.is_ttl() {
            if !self.settings.extended_types {
                return Err(Refusal::Unimplemented);
            }
            if ttl_ms <= 0 || ttl_ms > TTL_MS_MAX {
                return Err(Refusal::BadArguments);
            }
            return Ok(TTL_OWNER | ttl_ms);
        }
        // EphemeralType.validateTTL: a mode without a time to live must not name one.
        if ttl_ms >= 0 {
            return Err(Refusal::BadArguments);
        }
        Ok(match mode {
            _ if mode.is_container() => CONTAINER_OWNER,
            _ if mode.is_ephemeral() => session.0,
            _ => 0,
        })
    }

    fn delete(
        &mut self,
        stamp: &Stamp<'_>,
        path: &str,
        version: i32,
        txn: &mut Txn<'_>,
    ) -> Result<Outcome, Refusal> {
        let slash = path.rfind('/').filter(|_| !path.contains('\0'));
        let parent_end = slash.ok_or(Refusal::BadArguments)?;
        if is_special(path) {
            return Err(Refusal::BadArguments);
        }
        let parent = self.tree.find(&path[..parent_end]).ok_or(Refusal::NoNode)?;
        self.check_acl(stamp, parent.acl(), perms::DELETE)?;
        let name = &path[parent_end + 1..];
        let znode = self.tree.find_child(parent.id(), name).ok_or(Refusal::NoNode)?;
        check_version(znode.version(), version)?;
        if znode.child_count() > 0 {
            return Err(Refusal::NotEmpty);
        }
        self.remove_znode(znode.id(), path, txn);
        Ok(Outcome::Deleted)
    }

    /// Removes a znode after its checks: for a delete, with its session, or because it is due.
    pub(crate) fn remove_znode(&mut self, id: ZnodeId, path: &str, txn: &mut Txn<'_>) {
        let znode = self.tree.znode(id);
        let owner = znode.owner();
        let less = Usage { znodes: -1, bytes: -data_bytes(znode.data()) };
        let change = Change::Deleted {
            acl: znode.restricting_acl(),
            parent_acl: self.tree.znode(self.tree.parent(id)).restricting_acl(),
        };
        self.disown_ephemeral(owner, id);
        let removed = self.tree.remove(id, path, txn.mark.zxid.0);
        txn.tell(change, path);
        txn.did(|| Undo::Remove { path: path.into(), removed, owner });
        self.charge_quota(path, less, txn);
    }

    /// Undoes one change of a multi. Changes made later must be undone before it.
    pub(crate) fn undo(&mut self, step: Undo) {
        match step {
            Undo::Create { path, created } => {
                let id = Tree::created_id(&created);
                self.disown_ephemeral(self.tree.znode(id).owner(), id);
                self.tree.undo_create(&path, created);
            }
            Undo::Remove { path, removed, owner } => {
                let id = self.tree.undo_remove(&path, removed);
                self.own_ephemeral(owner, id);
            }
            Undo::SetData { path, old } => self.tree.undo_set_data(&path, old),
            Undo::SetAcl { path, old } => self.tree.undo_set_acl(&path, old),
        }
    }

    pub(crate) fn own_ephemeral(&mut self, owner: i64, id: ZnodeId) {
        let Some(session) = ephemeral_session(owner) else {
            return;
        };
        self.sessions.own(SessionId(session), id);
    }

    fn disown_ephemeral(&mut self, owner: i64, id: ZnodeId) {
        let Some(session) = ephemeral_session(owner) else {
            return;
        };
        self.sessions.disown(SessionId(session), id);
    }

    fn find_valid(&self, path: &str, malformed: bool) -> Result<Znode<'_>, Refusal> {
        // The empty path would find the root, whose path in the digest is `/`.
        if malformed || path.is_empty() {
            return Err(Refusal::BadArguments);
        }
        self.tree.find(path).ok_or(Refusal::NoNode)
    }

    fn check_acl(&self, stamp: &Stamp<'_>, acl: &[AclEntry], wanted: u32) -> Result<(), Refusal> {
        match acl::allows(&self.settings, acl, wanted, stamp.identities) {
            true => Ok(()),
            false => Err(Refusal::NoAuth),
        }
    }

    fn resolve_acl(&self, stamp: &Stamp<'_>, asked: &AskedAcl) -> Result<Acl, Refusal> {
        match asked {
            AskedAcl::Open => Ok(self.tree.open_acl()),
            AskedAcl::Entries(entries) => acl::resolve(&self.settings, entries, stamp.identities),
        }
    }
}

/// `PrepRequestProcessor.checkAndIncVersion`: -1 matches any version.
fn check_version(version: i32, expected: i32) -> Result<(), Refusal> {
    match expected == -1 || expected == version {
        true => Ok(()),
        false => Err(Refusal::BadVersion),
    }
}

/// `DataTree.isSpecialPath`: these znodes cannot be deleted.
fn is_special(path: &str) -> bool {
    let special = ["/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"];
    special.contains(&path)
}
