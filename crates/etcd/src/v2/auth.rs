//! Users and roles: the changes that requests ask for, and answers as JSON.
//!
//! etcd 3.4 `v2auth.User`, `v2auth.Role`, `v2http/client_auth.go`.

use std::sync::Arc;

use machine::etcd_v2::auth::{
    Auth, AuthCommand, Names, Patterns, PutRole, PutUser, ROOT, Refused, Role,
};
use machine::limits::ETCD_V2_AUTH_BYTES_MAX;

use super::json::put_text;

/// A change of users and roles. Its form was checked: no name or pattern is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthWrite {
    /// Enforce permissions, or do not.
    Enforce(bool),
    /// Make or change a user.
    PutUser(UserWrite),
    /// Delete the user of this name.
    DeleteUser(String),
    /// Make or change a role.
    PutRole(RoleWrite),
    /// Delete the role of this name.
    DeleteRole(String),
}

/// A user to make or to change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserWrite {
    /// Its name.
    pub name: String,
    /// Whether it may be a new one.
    pub may_create: bool,
    /// Whether it may exist.
    pub may_change: bool,
    /// The hash of its new password; empty if none is given.
    pub hash: Vec<u8>,
    /// The roles that it gets.
    pub grant: Vec<String>,
    /// The roles that it loses.
    pub revoke: Vec<String>,
}

/// A role to make or to change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleWrite {
    /// Its name.
    pub name: String,
    /// Whether it must exist; else it must not.
    pub is_change: bool,
    /// The patterns that it gets.
    pub grant: PatternLists,
    /// The patterns that it loses.
    pub revoke: PatternLists,
}

/// Patterns of keys, each list as a request gives it; none if it gives none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatternLists {
    /// For reading.
    pub read: Option<Vec<String>>,
    /// For writing.
    pub write: Option<Vec<String>>,
}

impl AuthWrite {
    pub(super) fn command(&self) -> AuthCommand<'_> {
        match self {
            AuthWrite::Enforce(is_enabled) => AuthCommand::Enforce { is_enabled: *is_enabled },
            AuthWrite::PutUser(write) => AuthCommand::PutUser(PutUser {
                name: &write.name,
                may_create: write.may_create,
                may_change: write.may_change,
                hash: &write.hash,
                grant: texts(&write.grant),
                revoke: texts(&write.revoke),
            }),
            AuthWrite::DeleteUser(name) => AuthCommand::DeleteUser { name },
            AuthWrite::PutRole(write) => AuthCommand::PutRole(PutRole {
                name: &write.name,
                is_change: write.is_change,
                grant: write.grant.patterns(),
                revoke: write.revoke.patterns(),
            }),
            AuthWrite::DeleteRole(name) => AuthCommand::DeleteRole { name },
        }
    }

    /// Bytes of its texts, each with its length.
    pub(super) fn bytes(&self) -> usize {
        let of = |lists: &[&[String]]| -> usize {
            lists.iter().flat_map(|list| list.iter()).map(|text| 4 + text.len()).sum()
        };
        match self {
            AuthWrite::Enforce(_) => 0,
            AuthWrite::DeleteUser(name) | AuthWrite::DeleteRole(name) => name.len(),
            AuthWrite::PutUser(write) => {
                write.name.len() + write.hash.len() + of(&[&write.grant, &write.revoke])
            }
            AuthWrite::PutRole(write) => {
                let PatternLists { read, write: written } = &write.grant;
                let PatternLists { read: unread, write: unwritten } = &write.revoke;
                let lists =
                    [read, written, unread, unwritten].map(|it| it.as_deref().unwrap_or(&[]));
                write.name.len() + of(&lists)
            }
        }
    }
}

impl PatternLists {
    /// Whether there is no pattern.
    pub fn is_empty(&self) -> bool {
        [&self.read, &self.write].into_iter().flatten().all(Vec::is_empty)
    }

    fn patterns(&self) -> Patterns<'_> {
        let [read, write] = [&self.read, &self.write].map(|it| it.as_deref().unwrap_or_default());
        Patterns { read: texts(read), write: texts(write) }
    }
}

fn texts(list: &[String]) -> Vec<&str> {
    list.iter().map(String::as_str).collect()
}

/// Why a change is refused, without names: for the audit log.
pub fn reason(refused: &Refused) -> &'static str {
    match refused {
        Refused::NotRoot => "Insufficient credentials",
        Refused::AlreadyEnabled => "already enabled",
        Refused::AlreadyDisabled => "already disabled",
        Refused::NoRootUser => "No root user available",
        Refused::RootUserStays => "Cannot delete root user while auth is enabled",
        Refused::UserExists(_) => "User already exists",
        Refused::NoUser(_) | Refused::UserGone(_) => "User does not exist",
        Refused::NoPassword(_) => "Cannot create user with an empty password",
        Refused::UserUnchanged => "User not updated",
        Refused::RoleGranted { .. } => "Granting duplicate role",
        Refused::RoleNotGranted { .. } => "Revoking ungranted role",
        Refused::RootRole => "Cannot modify role root",
        Refused::RoleExists(_) => "Role already exists",
        Refused::NoRole(_) | Refused::RoleGone(_) => "Role does not exist",
        Refused::RoleUnchanged => "Role not updated",
        Refused::ReadGranted(_) | Refused::WriteGranted(_) => "Granting duplicate permission",
        Refused::TooLarge => "users and roles are too large",
    }
}

/// The status and the text of the answer to a change that is refused.
pub fn refused(refused: &Refused) -> (u16, String) {
    let (status, text) = match refused {
        Refused::NotRoot => return (401, "Insufficient credentials".to_string()),
        Refused::AlreadyEnabled => (409, "already enabled".to_string()),
        Refused::AlreadyDisabled => (409, "already disabled".to_string()),
        Refused::NoRootUser => (409, "No root user available, please create one".to_string()),
        Refused::RootUserStays => {
            (403, "Cannot delete root user while auth is enabled.".to_string())
        }
        Refused::UserExists(user) => (409, format!("User {user} already exists.")),
        Refused::NoUser(user) => (404, format!("User {user} does not exist.")),
        Refused::UserGone(user) => (404, format!("User {user} does not exist")),
        Refused::NoPassword(user) => {
            (400, format!("Cannot create user {user} with an empty password"))
        }
        Refused::UserUnchanged => {
            let text = "User not updated. Use grant/revoke/password to update the user.";
            (400, text.to_string())
        }
        Refused::RoleGranted { role, user } => {
            (409, format!("Granting duplicate role {role} for user {user}"))
        }
        Refused::RoleNotGranted { role, user } => {
            (409, format!("Revoking ungranted role {role} for user {user}"))
        }
        Refused::RootRole => (403, format!("Cannot modify role {ROOT}: is root role.")),
        Refused::RoleExists(role) => (409, format!("Role {role} already exists.")),
        Refused::NoRole(role) => (404, format!("Role {role} does not exist.")),
        Refused::RoleGone(role) => (404, format!("Role {role} doesn't exist.")),
        Refused::RoleUnchanged => {
            (400, "Role not updated. Use grant/revoke to update the role.".to_string())
        }
        Refused::ReadGranted(pattern) => {
            (409, format!("Granting duplicate read permission {pattern}"))
        }
        Refused::WriteGranted(pattern) => {
            (409, format!("Granting duplicate write permission {pattern}"))
        }
        Refused::TooLarge => {
            (403, format!("users and roles take more than {ETCD_V2_AUTH_BYTES_MAX} bytes"))
        }
    };
    (status, format!("auth: {text}"))
}

/// The line that shows a user that was made: its roles as the request gives them.
pub fn made_user(write: &UserWrite) -> Vec<u8> {
    let mut roles = texts(&write.grant);
    if write.name == ROOT && !roles.contains(&ROOT) {
        roles.push(ROOT);
    }
    user_line(&write.name, Some(roles).filter(|roles| !roles.is_empty()))
}

/// The line that shows a user that was changed.
pub fn changed_user(name: &str, roles: &Names) -> Vec<u8> {
    user_line(name, Some(roles.iter().map(AsRef::as_ref).collect()))
}

fn user_line(name: &str, roles: Option<Vec<&str>>) -> Vec<u8> {
    let mut out = b"{\"user\":".to_vec();
    put_text(name.as_bytes(), &mut out);
    out.extend_from_slice(b",\"roles\":");
    put_list(roles, &mut out);
    out.extend_from_slice(b"}\n");
    out
}

/// The line that shows a role that was made: its patterns as the request gives them.
pub fn made_role(write: &RoleWrite) -> Vec<u8> {
    let [read, written] =
        [&write.grant.read, &write.grant.write].map(|list| list.as_deref().map(texts));
    let mut out = Vec::new();
    put_role(&write.name, (read, written), &mut out);
    out.push(b'\n');
    out
}

/// The line that shows a role.
pub fn role_line(name: &str, role: &Role) -> Vec<u8> {
    let mut out = Vec::new();
    put_known_role(name, role, &mut out);
    out.push(b'\n');
    out
}

/// The line that shows a user with its roles.
///
/// # Errors
/// There is no such user, or one of its roles does not exist. The text says so.
pub fn shown_user(auth: &Auth, name: &str) -> Result<Vec<u8>, (u16, String)> {
    let user = auth.users().get(name).ok_or_else(|| refused(&Refused::NoUser(name.into())))?;
    if let Some(role) = user.roles.iter().find(|role| role_of(auth, role).is_none()) {
        return Err(refused(&Refused::NoRole((&**role).into())));
    }
    let mut out = Vec::new();
    put_user(auth, name, &user.roles, &mut out);
    out.push(b'\n');
    Ok(out)
}

/// The role of a name; `root` permits all keys.
pub fn role_of(auth: &Auth, name: &str) -> Option<Arc<Role>> {
    if name == ROOT {
        let all = Names::from(["/*".into()]);
        return Some(Arc::new(Role { read: all.clone(), write: all }));
    }
    auth.roles().get(name).cloned()
}

/// The line that shows all users with their existing roles; `None` if it exceeds `bytes_max`.
pub fn users_line(auth: &Auth, bytes_max: usize) -> Option<Vec<u8>> {
    if auth.users().is_empty() {
        return Some(b"{\"users\":null}\n".to_vec());
    }
    let mut out = b"{\"users\":[".to_vec();
    for (place, (name, user)) in auth.users().iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        put_user(auth, name, &user.roles, &mut out);
        if out.len() > bytes_max {
            return None;
        }
    }
    out.extend_from_slice(b"]}\n");
    Some(out)
}

/// The line that shows all roles, by name.
pub fn roles_line(auth: &Auth) -> Vec<u8> {
    let mut names: Vec<&str> = auth.roles().keys().map(AsRef::as_ref).chain([ROOT]).collect();
    names.sort_unstable();
    let mut out = b"{\"roles\":[".to_vec();
    for (place, name) in names.into_iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        put_known_role(name, &role_of(auth, name).expect("it was listed"), &mut out);
    }
    out.extend_from_slice(b"]}\n");
    out
}

fn put_user(auth: &Auth, name: &str, roles: &Names, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"user\":");
    put_text(name.as_bytes(), out);
    let mut separator: &[u8] = b",\"roles\":[";
    for name in roles {
        if let Some(role) = role_of(auth, name) {
            out.extend_from_slice(core::mem::replace(&mut separator, b","));
            put_known_role(name, &role, out);
        }
    }
    if separator == b"," {
        out.push(b']');
    }
    out.push(b'}');
}

fn put_known_role(name: &str, role: &Role, out: &mut Vec<u8>) {
    let [read, write] =
        [&role.read, &role.write].map(|names| Some(names.iter().map(AsRef::as_ref).collect()));
    put_role(name, (read, write), out);
}

fn put_role(name: &str, (read, write): (Option<Vec<&str>>, Option<Vec<&str>>), out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"role\":");
    put_text(name.as_bytes(), out);
    out.extend_from_slice(b",\"permissions\":{\"kv\":{\"read\":");
    put_list(read, out);
    out.extend_from_slice(b",\"write\":");
    put_list(write, out);
    out.extend_from_slice(b"}}}");
}

/// Appends a list of texts; without one, what Go writes for none.
fn put_list(list: Option<Vec<&str>>, out: &mut Vec<u8>) {
    let Some(list) = list else { return out.extend_from_slice(b"null") };
    out.push(b'[');
    for (place, text) in list.into_iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        put_text(text.as_bytes(), out);
    }
    out.push(b']');
}

#[cfg(test)]
mod tests;
