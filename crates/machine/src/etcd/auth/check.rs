//! The checks of permissions. They and their order are those of etcd 3.6 (`auth.authStore`,
//! `apply.authApplierV3`, and the calls of `etcdserver.EtcdServer`).

use crate::digest::Digest;
use crate::etcd::auth::{Access, Auth, AuthCommand, ROOT_USER};
use crate::etcd::command::{Command, DeleteRange, KeyRange, Op, Put};
use crate::etcd::lease::UserTag;
use crate::etcd::reply::Refusal;
use crate::etcd::store::Store;
use crate::zk::acl::Identity;

/// The scheme of the identity that says who asked for a command of etcd's space.
pub const ETCD_SCHEME: &str = "etcd";

/// The user that asks, and the revision of users and roles that it was found at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthInfo<'a> {
    /// The user.
    pub user: &'a str,
    /// The revision of users and roles at which the user was found, or that a signed token names.
    pub revision: u64,
}

impl<'a> AuthInfo<'a> {
    /// Loop, which compacts as `root` may.
    pub(crate) const LOOP: AuthInfo<'static> = AuthInfo { user: ROOT_USER, revision: u64::MAX };

    /// The text that stands for it in a list of identities.
    pub fn to_id(self) -> String {
        format!("{}/{}", self.revision, self.user)
    }

    /// The user that a command with these identities is for.
    pub fn of(identities: &[Identity<'a>]) -> Option<AuthInfo<'a>> {
        let of_etcd = identities.iter().find(|identity| identity.scheme == ETCD_SCHEME)?;
        let (revision, user) = of_etcd.id.split_once('/')?;
        Some(AuthInfo { user, revision: revision.parse().ok()? })
    }
}

impl Auth {
    /// Refuses access to a range (`authStore.isOpPermitted`).
    ///
    /// # Errors
    /// Permissions are enforced, and nobody was named, or by something older than the newest
    /// change, or the user may not do this.
    pub fn require(
        &self,
        who: Option<AuthInfo<'_>>,
        access: Access,
        range: KeyRange<'_>,
    ) -> Result<(), Refusal> {
        if !self.is_enabled {
            return Ok(());
        }
        let AuthInfo { user, revision } = who.ok_or(Refusal::UserEmpty)?;
        if revision < self.revision {
            return Err(Refusal::AuthOldRevision);
        }
        match self.permits(user, access, range) {
            true => Ok(()),
            false => Err(Refusal::PermissionDenied),
        }
    }

    /// Refuses what only `root` may do (`authStore.IsAdminPermitted`).
    ///
    /// # Errors
    /// Permissions are enforced, and the user has not the role `root`, or has another password by
    /// now.
    pub fn require_root(&self, who: Option<AuthInfo<'_>>) -> Result<(), Refusal> {
        if !self.is_enabled {
            return Ok(());
        }
        let named = who.filter(|who| !who.user.is_empty()).ok_or(Refusal::UserEmpty)?;
        if self.user(named.user).is_none() {
            return Err(Refusal::UserNotFound);
        }
        if self.is_outlived(named) {
            return Err(Refusal::InvalidAuthToken);
        }
        match self.is_root(named.user) {
            true => Ok(()),
            false => Err(Refusal::PermissionDenied),
        }
    }

    /// A number that stands for a user and for the present users and roles. 0 while permissions are
    /// not enforced, for no user, and for one that was found before the last change.
    pub(crate) fn user_tag(&self, who: Option<AuthInfo<'_>>) -> UserTag {
        let who = who.filter(|who| self.is_enabled && who.revision >= self.revision);
        let Some(AuthInfo { user, .. }) = who else { return 0 };
        // Two users do not have the same one by chance.
        let mut bytes = self.revision.to_le_bytes().to_vec();
        bytes.extend_from_slice(user.as_bytes());
        Digest::from_bytes(b'W', &bytes).0 as u64
    }

    /// Refuses what only a client that names its user may do (`EtcdServer.requireAuthInfo`). etcd
    /// looks at nothing else: there a signed token of a user that is gone, or from before its
    /// password, is as good as any.
    ///
    /// # Errors
    /// Permissions are enforced, and nobody was named, or by such a token.
    pub fn require_user(&self, who: Option<AuthInfo<'_>>) -> Result<(), Refusal> {
        match who {
            _ if !self.is_enabled => Ok(()),
            None => Err(Refusal::UserEmpty),
            Some(who) if self.is_outlived(who) => Err(Refusal::InvalidAuthToken),
            Some(_) => Ok(()),
        }
    }
}

impl Store {
    /// Refuses a command, but looks neither at the keys of leases that it names nor at the parts of
    /// a transaction, which may be any number: see [`Store::permit_step`].
    ///
    /// # Errors
    /// Permissions are enforced, and the user may not do this.
    pub(crate) fn require_for(
        &self,
        who: Option<AuthInfo<'_>>,
        command: &Command<'_>,
    ) -> Result<(), Refusal> {
        if !self.auth.is_enabled() {
            return Ok(());
        }
        match command {
            Command::Put(put) => self.require_put(who, put),
            Command::DeleteRange(delete) => {
                self.auth.require(who, Access::Write, delete.range)?;
                self.require_prev(who, delete)
            }
            Command::Txn(_) => Ok(()),
            Command::Grant { .. } => self.auth.require_user(who),
            Command::Revoke { .. } => self.auth.require_user(who),
            Command::Compact { .. } => self.auth.require_root(who),
            Command::Configure(_) | Command::Expire { .. } => Ok(()),
            Command::Auth(AuthCommand::Authenticate { .. }) => Ok(()),
            Command::Auth(_) | Command::RaiseAlarm(_) | Command::DisarmAlarm(_) => {
                self.auth.require_root(who)
            }
        }
    }

    /// Refuses an operation, but looks at nothing within a nested transaction.
    pub(crate) fn require_op(&self, who: Option<AuthInfo<'_>>, op: &Op<'_>) -> Result<(), Refusal> {
        match op {
            Op::Range(range) => self.auth.require(who, Access::Read, range.range),
            Op::Put(put) => self.require_put(who, put),
            Op::DeleteRange(delete) => {
                self.require_prev(who, delete)?;
                self.auth.require(who, Access::Write, delete.range)
            }
            Op::Txn(_) => Ok(()),
        }
    }

    /// Refuses a put, but does not look at the keys of its lease.
    pub(crate) fn require_put(
        &self,
        who: Option<AuthInfo<'_>>,
        put: &Put<'_>,
    ) -> Result<(), Refusal> {
        let range = KeyRange { key: put.key, end: &[] };
        self.auth.require(who, Access::Write, range)?;
        match put.prev_kv {
            true => self.auth.require(who, Access::Read, range),
            false => Ok(()),
        }
    }

    fn require_prev(
        &self,
        who: Option<AuthInfo<'_>>,
        delete: &DeleteRange<'_>,
    ) -> Result<(), Refusal> {
        match delete.prev_kv {
            true => self.auth.require(who, Access::Read, delete.range),
            false => Ok(()),
        }
    }
}
