//! Applies the commands that change users and roles. Each is refused with a reason, or takes effect
//! at once.

use std::sync::Arc;

use crate::etcd_v2::auth::command::{AuthCommand, PutRole, PutUser};
use crate::etcd_v2::auth::{ALL_KEYS, Auth, GUEST_ROLE, Names, ROOT, Role, Who};

/// The result of a change of users and roles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// A user was made or changed.
    User {
        /// Whether the user is new.
        is_new: bool,
        /// The user's roles after the change.
        roles: Names,
    },
    /// A role was made or changed. The field is the role after the change.
    Role(Role),
    /// Permissions are now enforced, or no longer; or a user or a role was deleted.
    Other,
}

/// Why a change of users and roles is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The client is not `root`.
    NotRoot,
    /// Permissions are enforced already.
    AlreadyEnabled,
    /// Permissions are not enforced anyway.
    AlreadyDisabled,
    /// There is no user `root`, so permissions cannot be enforced.
    NoRootUser,
    /// The user `root` cannot be deleted while permissions are enforced.
    RootUserStays,
    /// A user of that name exists already.
    UserExists(Box<str>),
    /// The user to change does not exist.
    NoUser(Box<str>),
    /// The user to delete does not exist.
    UserGone(Box<str>),
    /// A new user needs a password.
    NoPassword(Box<str>),
    /// The change would leave the user as it is.
    UserUnchanged,
    /// The user has the role already.
    RoleGranted {
        /// The role.
        role: Box<str>,
        /// The user.
        user: Box<str>,
    },
    /// The user does not have the role.
    RoleNotGranted {
        /// The role.
        role: Box<str>,
        /// The user.
        user: Box<str>,
    },
    /// The role `root` cannot be made, changed or deleted.
    RootRole,
    /// A role of that name exists already.
    RoleExists(Box<str>),
    /// The role to change does not exist.
    NoRole(Box<str>),
    /// The role to delete does not exist.
    RoleGone(Box<str>),
    /// The change would leave the role as it is.
    RoleUnchanged,
    /// The role has that pattern for reading already.
    ReadGranted(Box<str>),
    /// The role has that pattern for writing already.
    WriteGranted(Box<str>),
    /// Users and roles would take more than [`crate::limits::ETCD_V2_AUTH_BYTES_MAX`].
    TooLarge,
}

impl Auth {
    /// Applies a command for a client.
    ///
    /// # Errors
    /// The change is refused, and nothing has changed.
    pub(crate) fn apply(
        self: &mut Arc<Auth>,
        who: Who<'_>,
        command: &AuthCommand<'_>,
    ) -> Result<Done, Refused> {
        if !self.permits_root(who) {
            return Err(Refused::NotRoot);
        }
        let mut changed = Auth::clone(self);
        let done = match command {
            AuthCommand::Enforce { is_enabled } => changed.enforce(*is_enabled),
            AuthCommand::PutUser(put) => changed.put_user(put),
            AuthCommand::DeleteUser { name } => changed.delete_user(name),
            AuthCommand::PutRole(put) => changed.put_role(put),
            AuthCommand::DeleteRole { name } => changed.delete_role(name),
        }?;
        if changed.is_too_large() && changed.sums.weight > self.sums.weight {
            return Err(Refused::TooLarge);
        }
        *self = Arc::new(changed);
        Ok(done)
    }

    /// `v2auth.store.EnableAuth`, `DisableAuth`.
    fn enforce(&mut self, is_enabled: bool) -> Result<Done, Refused> {
        match (self.is_enabled, is_enabled) {
            (true, true) => return Err(Refused::AlreadyEnabled),
            (false, false) => return Err(Refused::AlreadyDisabled),
            (false, true) if !self.users.contains_key(ROOT) => return Err(Refused::NoRootUser),
            (false, true) => {
                let all = Names::from([Arc::from(ALL_KEYS)]);
                if !self.roles.contains_key(GUEST_ROLE) {
                    self.set_role(GUEST_ROLE, Some(Role { read: all.clone(), write: all }));
                }
            }
            (true, false) => {}
        }
        self.is_enabled = is_enabled;
        Ok(Done::Other)
    }

    /// `v2auth.store.CreateUser`, `UpdateUser`, `CreateOrUpdateUser`, `User.merge`.
    fn put_user(&mut self, put: &PutUser<'_>) -> Result<Done, Refused> {
        let PutUser { name, hash, .. } = put;
        let before = self.users.get(*name).cloned();
        if hash.is_empty() && !put.may_change {
            return Err(Refused::NoPassword((*name).into()));
        }
        let is_new = match before {
            Some(_) if !put.may_change => return Err(Refused::UserExists((*name).into())),
            None if !put.may_create => return Err(Refused::NoUser((*name).into())),
            None if hash.is_empty() => return Err(Refused::NoPassword((*name).into())),
            _ => before.is_none(),
        };
        let mut user = before.as_deref().cloned().unwrap_or_default();
        let pair = |role: &str| (Box::from(role), Box::from(*name));
        for role in &put.grant {
            // The list for a new user may name a role twice.
            if !user.roles.insert((*role).into()) && !is_new {
                let (role, user) = pair(role);
                return Err(Refused::RoleGranted { role, user });
            }
        }
        for role in &put.revoke {
            if !user.roles.remove(*role) {
                let (role, user) = pair(role);
                return Err(Refused::RoleNotGranted { role, user });
            }
        }
        if !hash.is_empty() {
            user.hash = (*hash).into();
        }
        if *name == ROOT {
            user.roles.insert(ROOT.into());
        }
        if before.is_some_and(|before| *before == user) {
            return Err(Refused::UserUnchanged);
        }
        let roles = user.roles.clone();
        self.set_user(name, Some(user));
        Ok(Done::User { is_new, roles })
    }

    /// `v2auth.store.DeleteUser`.
    fn delete_user(&mut self, name: &str) -> Result<Done, Refused> {
        if self.is_enabled && name == ROOT {
            return Err(Refused::RootUserStays);
        }
        if !self.users.contains_key(name) {
            return Err(Refused::UserGone(name.into()));
        }
        self.set_user(name, None);
        Ok(Done::Other)
    }

    /// `v2auth.store.CreateRole`, `UpdateRole`, `RWPermission.Grant`, `Revoke`.
    fn put_role(&mut self, put: &PutRole<'_>) -> Result<Done, Refused> {
        let PutRole { name, is_change, grant, revoke } = put;
        if *name == ROOT {
            return Err(Refused::RootRole);
        }
        let before = self.roles.get(*name).cloned();
        match before {
            Some(_) if !is_change => return Err(Refused::RoleExists((*name).into())),
            None if *is_change => return Err(Refused::NoRole((*name).into())),
            _ => {}
        }
        let mut role = before.as_deref().cloned().unwrap_or_default();
        for (patterns, of, granted) in [
            (&grant.read, &mut role.read, Refused::ReadGranted as fn(_) -> _),
            (&grant.write, &mut role.write, Refused::WriteGranted as fn(_) -> _),
        ] {
            for pattern in patterns {
                if !of.insert((*pattern).into()) && *is_change {
                    return Err(granted((*pattern).into()));
                }
            }
        }
        for (patterns, of) in [(&revoke.read, &mut role.read), (&revoke.write, &mut role.write)] {
            for pattern in patterns {
                of.remove(*pattern);
            }
        }
        if before.is_some_and(|before| *before == role) {
            return Err(Refused::RoleUnchanged);
        }
        self.set_role(name, Some(role.clone()));
        Ok(Done::Role(role))
    }

    /// `v2auth.store.DeleteRole`.
    fn delete_role(&mut self, name: &str) -> Result<Done, Refused> {
        if name == ROOT {
            return Err(Refused::RootRole);
        }
        if !self.roles.contains_key(name) {
            return Err(Refused::RoleGone(name.into()));
        }
        self.set_role(name, None);
        Ok(Done::Other)
    }
}
