//! Checks whether a client may do what its command asks. The checks, and their order, are those of
//! etcd 3.6 (`auth.authStore`, `apply.authApplierV3`, and the calls in `etcdserver.EtcdServer`).

use crate::digest::Digest;
use crate::etcd::auth::{Access, Auth, AuthCommand, ROOT_USER};
use crate::etcd::command::{Command, DeleteRange, KeyRange, Op, Put};
use crate::etcd::lease::UserTag;
use crate::etcd::reply::Refusal;
use crate::etcd::store::Store;
use crate::zk::acl::Identity;

/// The scheme of the identity that names the user of an etcd client.
pub const ETCD_SCHEME: &str = "etcd";

/// The user that sends a command, and the revision of users and roles when a member identified it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthInfo<'a> {
    /// The user.
    pub user: &'a str,
    /// The revision of users and roles at which the user was identified. For a signed token, the
    /// revision that the token names.
    pub revision: u64,
}

impl<'a> AuthInfo<'a> {
    /// For commands that Loop makes: it may do all that `root` may, for example compact.
    pub(crate) const LOOP: AuthInfo<'static> = AuthInfo { user: ROOT_USER, revision: u64::MAX };

    /// The text that encodes this in an identity's `id`.
    pub fn to_id(self) -> String {
        format!("{}/{}", self.revision, self.user)
    }

    /// The user that these identities of a connection name; `None` if they name none.
    pub fn of(identities: &[Identity<'a>]) -> Option<AuthInfo<'a>> {
        let of_etcd = identities.iter().find(|identity| identity.scheme == ETCD_SCHEME)?;
        let (revision, user) = of_etcd.id.split_once('/')?;
        Some(AuthInfo { user, revision: revision.parse().ok()? })
    }
}

impl Auth {
    /// Checks that a user may access a range (`authStore.isOpPermitted`).
    ///
    /// # Errors
    /// Only while permissions are enforced: no user is named, users or roles have changed since the
    /// user was identified, or the user may not do this.
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

    /// Checks that the user has the role `root` (`authStore.IsAdminPermitted`).
    ///
    /// # Errors
    /// Only while permissions are enforced: no user is named, the user does not exist, its token is
    /// no longer valid, or it does not have the role `root`.
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

    /// A number that identifies a user at the present revision of users and roles. 0 if permissions
    /// are not enforced, no user is named, or users and roles have changed since the user was
    /// identified.
    pub(crate) fn user_tag(&self, who: Option<AuthInfo<'_>>) -> UserTag {
        let who = who.filter(|who| self.is_enabled && who.revision >= self.revision);
        let Some(AuthInfo { user, .. }) = who else { return 0 };
        // A hash of 64 bits: two users do not share one by chance.
        let mut bytes = self.revision.to_le_bytes().to_vec();
        bytes.extend_from_slice(user.as_bytes());
        Digest::from_bytes(b'W', &bytes).0 as u64
    }

    /// Checks that the client names a user (`EtcdServer.requireAuthInfo`). etcd checks nothing else
    /// here: it accepts a signed token even if its user was deleted or has got another password
    /// since. Here such a token is refused, from [`Level::TOKENS`] on.
    ///
    /// [`Level::TOKENS`]: crate::level::Level::TOKENS
    ///
    /// # Errors
    /// Only while permissions are enforced: no user is named, or the token is no longer valid.
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
    /// Checks a command's permissions, except for what may be of any size: the keys of a lease that
    /// the command names, and the parts of a transaction. [`Store::permit_step`] checks these.
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

    /// Checks an operation of a transaction. A nested transaction passes: its operations are
    /// checked on their own.
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

    /// Checks a put, except for the keys of its lease.
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
