//! A model of users, roles and permissions, as the actor in [`super::users`] knows them. There are
//! few keys, and all ranges begin and end at one of them.

use std::collections::{BTreeMap, BTreeSet};

use etcd::Error;
use etcd::pb::authpb;
use workload::generate::Random;

use super::ledger::ACTORS_MAX;

/// The number of users of an actor. The first one is root.
pub const USERS: usize = 3;

/// The position of root among the users.
pub const ROOT: usize = 0;

/// The number of roles of an actor, without root's role.
pub const ROLES: usize = 2;

/// The names of the users and roles that an actor may change.
#[derive(Debug)]
pub struct Cast {
    /// The users, by number.
    pub users: [&'static str; USERS],
    /// The roles, by number.
    pub roles: [&'static str; ROLES],
    /// Whether this actor creates root and switches the enforcement of permissions.
    pub is_first: bool,
}

/// The names of each actor in a run. No two actors change the same user or role.
pub const CASTS: [Cast; ACTORS_MAX] = [
    Cast { users: ["root", "ann", "bob"], roles: ["readers", "writers"], is_first: true },
    Cast { users: ["root", "cid", "dan"], roles: ["hearers", "movers"], is_first: false },
];

impl Cast {
    /// The number of the first user that this actor may change.
    pub fn first_user(&self) -> usize {
        if self.is_first { ROOT } else { ROOT + 1 }
    }

    /// The name of a role.
    pub fn role_name(&self, role: usize) -> &'static str {
        if role == ROOT_ROLE { self.users[ROOT] } else { self.roles[role] }
    }
}

/// The role number of root's role.
pub const ROOT_ROLE: usize = usize::MAX;

/// The number of keys. They sort after all keys that other clients delete.
pub const KEYS: usize = 5;

/// The key with this number.
pub fn key_of(number: usize) -> Vec<u8> {
    format!("users/{number}").into_bytes()
}

/// A single key, or the keys from one up to before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// The number of the first key.
    pub from: usize,
    /// The number of the key behind the last one; equal to `from` for a single key.
    pub to: usize,
}

impl Span {
    /// The key and the range end, for a request.
    pub fn keys(self) -> (Vec<u8>, Vec<u8>) {
        let end = if self.from == self.to { Vec::new() } else { key_of(self.to) };
        (key_of(self.from), end)
    }

    fn of(key: &[u8], end: &[u8]) -> Option<Span> {
        let find = |wanted: &[u8]| (0..=KEYS).find(|number| key_of(*number) == *wanted);
        let from = find(key)?;
        Some(Span { from, to: if end.is_empty() { from } else { find(end)? } })
    }
}

/// A kind of access to keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading.
    Read,
    /// Writing.
    Write,
}

/// The access to the keys of a range that a role has. The numbers are those of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// Read.
    Read = 0,
    /// Write.
    Write = 1,
    /// Read and write.
    Both = 2,
}

impl Permission {
    /// The range and the permission in a member's answer.
    ///
    /// # Errors
    /// No actor has granted that.
    pub fn of(permission: &authpb::Permission) -> Result<(Span, Permission), String> {
        let span = Span::of(&permission.key, &permission.range_end);
        let kind = match permission.perm_type {
            0 => Some(Permission::Read),
            1 => Some(Permission::Write),
            2 => Some(Permission::Both),
            _ => None,
        };
        span.zip(kind).ok_or_else(|| format!("etcd's users: nobody granted {permission:?}"))
    }

    fn allows(self, access: Access) -> bool {
        match access {
            Access::Read => self != Permission::Write,
            Access::Write => self != Permission::Read,
        }
    }
}

/// A change of users and roles. Users, roles and passwords are numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Enforces permissions.
    Enable,
    /// Ends the enforcement.
    Disable,
    /// Adds a user with a password.
    AddUser(usize, u32),
    /// Deletes a user.
    DeleteUser(usize),
    /// Changes a user's password.
    Password(usize, u32),
    /// Grants a user a role.
    GrantRole(usize, usize),
    /// Revokes a role from a user.
    RevokeRole(usize, usize),
    /// Adds a role.
    AddRole(usize),
    /// Deletes a role.
    DeleteRole(usize),
    /// Grants a role a permission.
    Grant(usize, Span, Permission),
    /// Revokes a permission from a role.
    Revoke(usize, Span),
}

impl Change {
    /// Whether the change switches the enforcement of permissions.
    pub fn is_switch(self) -> bool {
        matches!(self, Change::Enable | Change::Disable)
    }
}

/// A user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The password; `None` if unknown.
    pub password: Option<u32>,
    /// The roles.
    pub roles: BTreeSet<usize>,
}

/// All users and roles, and whether permissions are enforced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// Whether permissions are enforced.
    pub is_enabled: bool,
    /// The auth revision, which each change raises.
    pub revision: u64,
    /// The users.
    pub users: BTreeMap<usize, User>,
    /// The permissions of each role.
    pub roles: BTreeMap<usize, BTreeMap<Span, Permission>>,
}

impl Rights {
    /// Whether there is a root user with root's role, which the enforcement needs.
    pub fn has_root(&self) -> bool {
        self.users.get(&ROOT).is_some_and(|root| root.roles.contains(&ROOT_ROLE))
    }

    /// Adds a user as a member's answer describes it.
    pub fn add_user(&mut self, cast: &Cast, user: usize, roles: &[String]) {
        let number = |name: &String| cast.roles.iter().position(|role| role == name);
        let roles = roles.iter().map(|name| number(name).unwrap_or(ROOT_ROLE)).collect();
        self.users.insert(user, User { password: None, roles });
    }

    /// Whether a user may read, or write, all keys of a range.
    pub fn permits(&self, user: usize, access: Access, span: Span) -> bool {
        let Some(user) = self.users.get(&user) else { return false };
        if user.roles.contains(&ROOT_ROLE) {
            return true;
        }
        let roles = user.roles.iter().filter_map(|role| self.roles.get(role));
        let granted: Vec<Span> = roles
            .flatten()
            .filter(|(_, permission)| permission.allows(access))
            .map(|(span, _)| *span)
            .collect();
        let is_within = |key: usize, span: &Span| span.from <= key && key < span.to;
        match span.from == span.to {
            true => granted.iter().any(|it| it.from == span.from || is_within(span.from, it)),
            // A range contains keys between the numbered keys, so it needs permissions on ranges.
            false => (span.from..span.to).all(|key| granted.iter().any(|it| is_within(key, it))),
        }
    }

    /// Refuses the enforcement without a root user and its role.
    fn check_root(&self) -> Result<(), Error> {
        let root = self.users.get(&ROOT).ok_or(Error::NoRootUser)?;
        root.roles.contains(&ROOT_ROLE).then_some(()).ok_or(Error::NoRootRole)
    }

    /// Makes a change.
    ///
    /// # Errors
    /// The error that etcd refuses the change with.
    pub fn make(&mut self, change: Change) -> Result<(), Error> {
        let has_changed = match change {
            Change::Enable => {
                self.check_root()?;
                self.is_enabled = true;
                false
            }
            Change::Disable => core::mem::take(&mut self.is_enabled),
            Change::AddUser(user, password) => {
                if self.users.contains_key(&user) {
                    return Err(Error::UserExists);
                }
                let password = Some(password);
                self.users.insert(user, User { password, ..User::default() });
                true
            }
            Change::DeleteUser(user) => {
                self.users.remove(&user).ok_or(Error::UserNotFound)?;
                true
            }
            Change::Password(user, password) => {
                self.users.get_mut(&user).ok_or(Error::UserNotFound)?.password = Some(password);
                true
            }
            Change::GrantRole(user, role) => {
                let has_role = role == ROOT_ROLE || self.roles.contains_key(&role);
                let user = self.users.get_mut(&user).ok_or(Error::UserNotFound)?;
                if !has_role {
                    return Err(Error::RoleNotFound);
                }
                user.roles.insert(role)
            }
            Change::RevokeRole(user, role) => {
                let user = self.users.get_mut(&user).ok_or(Error::UserNotFound)?;
                match user.roles.remove(&role) {
                    true => true,
                    false => return Err(Error::RoleNotGranted),
                }
            }
            Change::AddRole(role) => {
                if self.roles.contains_key(&role) {
                    return Err(Error::RoleExists);
                }
                self.roles.insert(role, BTreeMap::new());
                true
            }
            Change::DeleteRole(role) => {
                self.roles.remove(&role).ok_or(Error::RoleNotFound)?;
                for user in self.users.values_mut() {
                    user.roles.remove(&role);
                }
                true
            }
            Change::Grant(role, span, permission) => {
                let role = self.roles.get_mut(&role).ok_or(Error::RoleNotFound)?;
                role.insert(span, permission);
                true
            }
            Change::Revoke(role, span) => {
                let role = self.roles.get_mut(&role).ok_or(Error::RoleNotFound)?;
                role.remove(&span).ok_or(Error::PermissionNotGranted)?;
                true
            }
        };
        self.revision += u64::from(has_changed);
        Ok(())
    }

    /// Draws a change. The first actor creates root first and never deletes it.
    pub fn draw(&self, cast: &Cast, random: &mut Random) -> Change {
        if cast.is_first && !self.users.contains_key(&ROOT) {
            return Change::AddUser(ROOT, 0);
        }
        if cast.is_first && !self.has_root() {
            return Change::GrantRole(ROOT, ROOT_ROLE);
        }
        let user = random.between(1, USERS as u64 - 1) as usize;
        let role = random.below(ROLES as u64) as usize;
        let Some(known) = self.users.get(&user) else {
            return Change::AddUser(user, 0);
        };
        if !self.roles.contains_key(&role) && !random.one_in(4) {
            return Change::AddRole(role);
        }
        if known.password.is_none() && !random.one_in(4) {
            return Change::Password(user, 0);
        }
        let from = random.below(KEYS as u64) as usize;
        let to = match random.one_in(2) {
            true => random.between(from as u64 + 1, KEYS as u64) as usize,
            false => from,
        };
        let permissions = [Permission::Read, Permission::Write, Permission::Both];
        match random.below(20) {
            _ if cast.is_first && !self.is_enabled && random.one_in(3) => Change::Enable,
            0 if cast.is_first => Change::Disable,
            1 => Change::DeleteUser(user),
            2..=3 => Change::Password(user, 0),
            4..=7 => Change::GrantRole(user, role),
            8 => Change::RevokeRole(user, role),
            9 => Change::DeleteRole(role),
            10 => Change::AddUser(user, 0),
            11..=12 => {
                let granted = self.roles.get(&role).into_iter().flatten();
                let granted: Vec<Span> = granted.map(|(span, _)| *span).collect();
                let is_any = granted.is_empty() || random.one_in(4);
                Change::Revoke(
                    role,
                    if is_any { Span { from, to } } else { *random.pick(&granted) },
                )
            }
            _ => Change::Grant(role, Span { from, to }, *random.pick(&permissions)),
        }
    }
}
