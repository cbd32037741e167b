//! Users and roles of etcd v2: turns requests to change them into commands, and encodes the answers
//! as JSON.
//!
//! Source: etcd 3.4, `v2auth.User`, `v2auth.Role`, `v2http/client_auth.go`.

use std::sync::Arc;

use machine::etcd_v2::auth::{
    Auth, AuthCommand, Names, Patterns, PutRole, PutUser, ROOT, Refused, Role,
};
use machine::limits::ETCD_V2_AUTH_BYTES_MAX;

use super::json::put_text;

/// A change of users and roles whose form was checked: no name and no pattern is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthWrite {
    /// Turn the enforcement of permissions on (true) or off.
    Enforce(bool),
    /// Create or change a user.
    PutUser(UserWrite),
    /// Delete the user of this name.
    DeleteUser(String),
    /// Create or change a role.
    PutRole(RoleWrite),
    /// Delete the role of this name.
    DeleteRole(String),
}

/// A user to create or to change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserWrite {
    /// The user's name.
    pub name: String,
    /// Whether the user may be created if it does not exist.
    pub may_create: bool,
    /// Whether the user may be changed if it exists.
    pub may_change: bool,
    /// The hash of the new password; empty if the request gives no password.
    pub hash: Vec<u8>,
    /// Roles that the user gets.
    pub grant: Vec<String>,
    /// Roles that the user loses.
    pub revoke: Vec<String>,
}

/// A role to create or to change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleWrite {
    /// The role's name.
    pub name: String,
    /// True if the role must exist, false if it must not.
    pub is_change: bool,
    /// Patterns that the role gets.
    pub grant: PatternLists,
    /// Patterns that the role loses.
    pub revoke: PatternLists,
}

/// Lists of patterns, as a request gives them; `None` where the request has no list. A pattern is a
/// key, or a prefix of keys followed by `*`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatternLists {
    /// Keys that may be read.
    pub read: Option<Vec<String>>,
    /// Keys that may be written.
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

    /// Bytes of the names, hashes and patterns, with 4 for each item of a list.
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
    /// Whether both lists are empty or missing.
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

/// Why a change is refused, without the names of users and roles, for the audit log.
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

/// The HTTP status and the text of the answer to a refused change.
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

/// The answer to the creation of a user: a line of JSON with the roles as the request lists them.
pub fn made_user(write: &UserWrite) -> Vec<u8> {
    let mut roles = texts(&write.grant);
    if write.name == ROOT && !roles.contains(&ROOT) {
        roles.push(ROOT);
    }
    user_line(&write.name, Some(roles).filter(|roles| !roles.is_empty()))
}

/// The answer to the change of a user: a line of JSON with all its roles.
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

/// The answer to the creation of a role: a line of JSON with the patterns as the request lists
/// them.
pub fn made_role(write: &RoleWrite) -> Vec<u8> {
    let [read, written] =
        [&write.grant.read, &write.grant.write].map(|list| list.as_deref().map(texts));
    let mut out = Vec::new();
    put_role(&write.name, (read, written), &mut out);
    out.push(b'\n');
    out
}

/// A line of JSON that shows a role with its patterns.
pub fn role_line(name: &str, role: &Role) -> Vec<u8> {
    let mut out = Vec::new();
    put_known_role(name, role, &mut out);
    out.push(b'\n');
    out
}

/// A line of JSON that shows a user, and each of its roles with patterns.
///
/// # Errors
/// The user or one of its roles does not exist. The error is the HTTP status and the text of the
/// answer.
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

/// The role with this name. The role `root` always exists and permits all keys.
pub fn role_of(auth: &Auth, name: &str) -> Option<Arc<Role>> {
    if name == ROOT {
        let all = Names::from(["/*".into()]);
        return Some(Arc::new(Role { read: all.clone(), write: all }));
    }
    auth.roles().get(name).cloned()
}

/// A line of JSON that shows all users, each with its roles; a role that does not exist is left
/// out. `None` if the line exceeds `bytes_max`.
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

/// A line of JSON that shows all roles, sorted by name.
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

/// Appends a list of texts; for `None`, the `null` that Go writes for a missing list.
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
