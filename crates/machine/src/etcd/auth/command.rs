//! The commands that change users, roles and permissions, how they are applied, and their bytes.

use crate::codec::{DecodeError, Reader, Write};
use crate::etcd::auth::tokens::Tokens;
use crate::etcd::auth::{Auth, Permission, PermissionKind, ROOT_ROLE, ROOT_USER, Role, User};
use crate::etcd::auth::{encode_permission, is_valid};
use crate::etcd::command::KeyRange;
use crate::etcd::reply::Refusal;
use crate::etcd::token::{TOKEN_PREFIX_BYTES, Token, TokenPrefix};
use crate::ids::Ordinal;

/// A replicated change of users, roles, permissions or tokens (`etcdserverpb.Auth`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthCommand<'a> {
    /// Start to enforce permissions.
    Enable,
    /// Stop enforcing permissions, and drop all tokens.
    Disable,
    /// Add a user.
    AddUser {
        /// The name.
        user: &'a str,
        /// The hash of the password; `None` for a user without a password.
        password: Option<&'a [u8]>,
    },
    /// Delete a user.
    DeleteUser {
        /// The name.
        user: &'a str,
    },
    /// Change a user's password. A user without a password does not get one.
    ChangePassword {
        /// The user.
        user: &'a str,
        /// The hash of the password.
        password: &'a [u8],
    },
    /// Grant a role to a user.
    GrantRole {
        /// The user.
        user: &'a str,
        /// The role.
        role: &'a str,
    },
    /// Revoke a role from a user.
    RevokeRole {
        /// The user.
        user: &'a str,
        /// The role.
        role: &'a str,
    },
    /// Add a role.
    AddRole {
        /// The name.
        role: &'a str,
    },
    /// Delete a role, and take it from all users.
    DeleteRole {
        /// The name.
        role: &'a str,
    },
    /// Add a permission to a role, or replace the one that the role has for the same range.
    GrantPermission {
        /// The role.
        role: &'a str,
        /// The permission; `None` if the request had no permission.
        permission: Option<Permission<'a>>,
    },
    /// Make a simple token for a user whose password a member has checked.
    Authenticate {
        /// The user.
        user: &'a str,
        /// The random letters at the start of the token.
        prefix: TokenPrefix,
        /// The revision of users and roles at which the member checked the password. The command is
        /// refused if there was a change since.
        revision: u64,
    },
    /// Remove a permission from a role.
    RevokePermission {
        /// The role.
        role: &'a str,
        /// The range of the permission.
        range: KeyRange<'a>,
    },
}

/// The result of a change that was not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AuthDone {
    /// Users, roles or permissions are as the command wants them.
    Changed,
    /// A token was made.
    Authenticated(Token),
}

impl Auth {
    /// Applies the command with this ordinal. The order of the checks is etcd's.
    ///
    /// # Errors
    /// The command is refused, and nothing has changed.
    pub(crate) fn apply(
        &mut self,
        ordinal: Ordinal,
        command: &AuthCommand<'_>,
    ) -> Result<AuthDone, Refusal> {
        let has_changed = match *command {
            AuthCommand::Enable => {
                if !self.is_enabled {
                    let root = self.user(ROOT_USER).ok_or(Refusal::RootUserMissing)?;
                    if !root.roles.contains(ROOT_ROLE) {
                        return Err(Refusal::RootRoleMissing);
                    }
                    self.is_enabled = true;
                }
                // No user or role changes, so the revision stays, and tokens from before remain
                // valid.
                return Ok(AuthDone::Changed);
            }
            AuthCommand::Disable => {
                self.tokens = Tokens::default();
                core::mem::take(&mut self.is_enabled)
            }
            AuthCommand::Authenticate { user, prefix, revision } => {
                let token = Token { prefix, made: ordinal };
                return self.authenticate(user, token, revision);
            }
            AuthCommand::AddUser { user, password } => self.add_user(user, password)?,
            AuthCommand::DeleteUser { user } => {
                if self.is_enabled && user == ROOT_USER {
                    return Err(Refusal::InvalidAuthManagement);
                }
                self.user(user).ok_or(Refusal::UserNotFound)?;
                self.set_user(user, None)?;
                self.tokens.remove_user(user);
                true
            }
            AuthCommand::ChangePassword { user, password } => {
                let mut changed = self.user(user).ok_or(Refusal::UserNotFound)?.clone();
                if changed.password.is_some() {
                    changed.password = Some(password.into());
                }
                self.set_user(user, Some(changed))?;
                self.on_password(user);
                self.tokens.remove_user(user);
                true
            }
            AuthCommand::GrantRole { user, role } => self.grant_role(user, role)?,
            AuthCommand::RevokeRole { user, role } => self.revoke_role(user, role)?,
            AuthCommand::AddRole { role } => {
                if role.is_empty() {
                    return Err(Refusal::RoleEmpty);
                }
                if self.roles.contains_key(role) {
                    return Err(Refusal::RoleExists);
                }
                self.set_role(role, Some(Role::default()))?;
                true
            }
            AuthCommand::DeleteRole { role } => self.delete_role(role)?,
            AuthCommand::GrantPermission { role, permission } => {
                self.grant_permission(role, permission)?
            }
            AuthCommand::RevokePermission { role, range } => self.revoke_permission(role, range)?,
        };
        if has_changed {
            self.revision += 1;
            self.forget_permitted();
        }
        Ok(AuthDone::Changed)
    }

    /// Makes a token, unless users or roles have changed since the password was checked. etcd then
    /// checks the password again; here the command is refused.
    fn authenticate(
        &mut self,
        user: &str,
        token: Token,
        revision: u64,
    ) -> Result<AuthDone, Refusal> {
        if !self.is_enabled {
            return Err(Refusal::AuthNotEnabled);
        }
        let known = self.user(user).ok_or(Refusal::AuthFailed)?;
        if known.password.is_none() {
            return Err(Refusal::AuthFailed);
        }
        if revision != self.revision {
            return Err(Refusal::AuthOldRevision);
        }
        self.tokens.add(token, user);
        Ok(AuthDone::Authenticated(token))
    }

    fn add_user(&mut self, name: &str, password: Option<&[u8]>) -> Result<bool, Refusal> {
        if name.is_empty() {
            return Err(Refusal::UserEmpty);
        }
        if self.users.contains_key(name) {
            return Err(Refusal::UserExists);
        }
        let user = User { password: password.map(Into::into), roles: Default::default() };
        self.set_user(name, Some(user))?;
        self.on_password(name);
        Ok(true)
    }

    /// Grants a role to a user. False if the user has it already.
    fn grant_role(&mut self, name: &str, role: &str) -> Result<bool, Refusal> {
        let mut user = self.user(name).ok_or(Refusal::UserNotFound)?.clone();
        if role != ROOT_ROLE && !self.roles.contains_key(role) {
            return Err(Refusal::RoleNotFound);
        }
        if !user.roles.insert(role.into()) {
            return Ok(false);
        }
        self.set_user(name, Some(user))?;
        Ok(true)
    }

    fn revoke_role(&mut self, name: &str, role: &str) -> Result<bool, Refusal> {
        if self.is_enabled && name == ROOT_USER && role == ROOT_ROLE {
            return Err(Refusal::InvalidAuthManagement);
        }
        let mut user = self.user(name).ok_or(Refusal::UserNotFound)?.clone();
        if !user.roles.remove(role) {
            return Err(Refusal::RoleNotGranted);
        }
        self.set_user(name, Some(user))?;
        Ok(true)
    }

    fn delete_role(&mut self, role: &str) -> Result<bool, Refusal> {
        if self.is_enabled && role == ROOT_ROLE {
            return Err(Refusal::InvalidAuthManagement);
        }
        self.roles.get(role).ok_or(Refusal::RoleNotFound)?;
        self.set_role(role, None)?;
        let with_it = self.users.iter().filter(|(_, known)| known.user.roles.contains(role));
        for (name, mut user) in
            with_it.map(|(name, known)| (name.clone(), known.user.clone())).collect::<Vec<_>>()
        {
            user.roles.remove(role);
            self.set_user(&name, Some(user))?;
        }
        Ok(true)
    }

    fn grant_permission(
        &mut self,
        name: &str,
        permission: Option<Permission<'_>>,
    ) -> Result<bool, Refusal> {
        let Permission { kind, range } = permission.ok_or(Refusal::PermissionNotGiven)?;
        if !is_valid(range) {
            return Err(Refusal::InvalidAuthManagement);
        }
        let mut role = self.roles.get(name).ok_or(Refusal::RoleNotFound)?.clone();
        role.permissions.insert((range.key.into(), range.end.into()), kind);
        self.set_role(name, Some(role))?;
        Ok(true)
    }

    fn revoke_permission(&mut self, name: &str, range: KeyRange<'_>) -> Result<bool, Refusal> {
        let mut role = self.roles.get(name).ok_or(Refusal::RoleNotFound)?.clone();
        let place = (range.key.into(), range.end.into());
        role.permissions.remove(&place).ok_or(Refusal::PermissionNotGranted)?;
        self.set_role(name, Some(role))?;
        Ok(true)
    }
}

const KIND_ENABLE: u8 = 1;
const KIND_DISABLE: u8 = 2;
const KIND_ADD_USER: u8 = 3;
const KIND_DELETE_USER: u8 = 4;
const KIND_CHANGE_PASSWORD: u8 = 5;
const KIND_GRANT_ROLE: u8 = 6;
const KIND_REVOKE_ROLE: u8 = 7;
const KIND_ADD_ROLE: u8 = 8;
const KIND_DELETE_ROLE: u8 = 9;
const KIND_GRANT_PERMISSION: u8 = 10;
const KIND_REVOKE_PERMISSION: u8 = 11;
const KIND_AUTHENTICATE: u8 = 12;

impl AuthCommand<'_> {
    /// Writes the change; `docs/formats.md` gives the bytes.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let mut names = |kind: u8, names: &[&str]| {
            out.put_u8(kind);
            names.iter().for_each(|name| out.put_bytes(name.as_bytes()));
        };
        match self {
            AuthCommand::Enable => names(KIND_ENABLE, &[]),
            AuthCommand::Disable => names(KIND_DISABLE, &[]),
            AuthCommand::AddUser { user, password } => {
                names(KIND_ADD_USER, &[user]);
                out.put_optional_bytes(*password);
            }
            AuthCommand::DeleteUser { user } => names(KIND_DELETE_USER, &[user]),
            AuthCommand::ChangePassword { user, password } => {
                names(KIND_CHANGE_PASSWORD, &[user]);
                out.put_bytes(password);
            }
            AuthCommand::GrantRole { user, role } => names(KIND_GRANT_ROLE, &[user, role]),
            AuthCommand::RevokeRole { user, role } => names(KIND_REVOKE_ROLE, &[user, role]),
            AuthCommand::AddRole { role } => names(KIND_ADD_ROLE, &[role]),
            AuthCommand::DeleteRole { role } => names(KIND_DELETE_ROLE, &[role]),
            AuthCommand::GrantPermission { role, permission } => {
                names(KIND_GRANT_PERMISSION, &[role]);
                out.put_u8(permission.is_some().into());
                if let Some(permission) = permission {
                    encode_permission(*permission, out);
                }
            }
            AuthCommand::Authenticate { user, prefix, revision } => {
                names(KIND_AUTHENTICATE, &[user]);
                out.extend_from_slice(prefix);
                out.put_u64(*revision);
            }
            AuthCommand::RevokePermission { role, range } => {
                names(KIND_REVOKE_PERMISSION, &[role]);
                out.put_bytes(range.key);
                out.put_bytes(range.end);
            }
        }
    }

    /// Reads what [`AuthCommand::encode`] wrote.
    pub(crate) fn decode<'a>(reader: &mut Reader<'a>) -> Result<AuthCommand<'a>, DecodeError> {
        Ok(match reader.u8()? {
            KIND_ENABLE => AuthCommand::Enable,
            KIND_DISABLE => AuthCommand::Disable,
            KIND_ADD_USER => {
                AuthCommand::AddUser { user: reader.text()?, password: reader.optional_bytes()? }
            }
            KIND_DELETE_USER => AuthCommand::DeleteUser { user: reader.text()? },
            KIND_CHANGE_PASSWORD => {
                AuthCommand::ChangePassword { user: reader.text()?, password: reader.bytes()? }
            }
            KIND_GRANT_ROLE => {
                AuthCommand::GrantRole { user: reader.text()?, role: reader.text()? }
            }
            KIND_REVOKE_ROLE => {
                AuthCommand::RevokeRole { user: reader.text()?, role: reader.text()? }
            }
            KIND_ADD_ROLE => AuthCommand::AddRole { role: reader.text()? },
            KIND_DELETE_ROLE => AuthCommand::DeleteRole { role: reader.text()? },
            KIND_GRANT_PERMISSION => {
                let role = reader.text()?;
                let permission = match reader.u8()? {
                    0 => None,
                    1 => {
                        let kind = PermissionKind::decode(reader)?;
                        let range = KeyRange { key: reader.bytes()?, end: reader.bytes()? };
                        Some(Permission { kind, range })
                    }
                    flag => return Err(reader.bad("flag of a permission", u64::from(flag))),
                };
                AuthCommand::GrantPermission { role, permission }
            }
            KIND_REVOKE_PERMISSION => {
                let role = reader.text()?;
                let range = KeyRange { key: reader.bytes()?, end: reader.bytes()? };
                AuthCommand::RevokePermission { role, range }
            }
            KIND_AUTHENTICATE => {
                let user = reader.text()?;
                let mut prefix = [0; TOKEN_PREFIX_BYTES];
                for letter in &mut prefix {
                    *letter = reader.u8()?;
                }
                AuthCommand::Authenticate { user, prefix, revision: reader.u64()? }
            }
            kind => return Err(reader.bad("change of users and roles", u64::from(kind))),
        })
    }
}
