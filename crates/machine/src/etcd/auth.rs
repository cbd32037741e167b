//! etcd's users, their roles, the permissions of the roles, and whether permissions are enforced.
//!
//! A user may do what one of its roles permits; the role `root` permits everything. Access to a
//! range needs the union of the user's permissions to cover the range. Each change of users, roles
//! or permissions raises the *revision of users and roles* ([`Auth::revision`]), which is another
//! number than the revision of the keys. As in etcd 3.6 `auth.authStore`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use crate::codec::{DecodeError, Reader, Write};
use crate::digest::Digest;
use crate::etcd::auth::intervals::Intervals;
use crate::etcd::command::KeyRange;
use crate::etcd::reply::Refusal;
use crate::etcd::token::Token;
use crate::ids::Ordinal;
use crate::limits::{ETCD_AUTH_BYTES_MAX, ETCD_AUTH_ENTRY_BYTES};

mod check;
mod command;
mod intervals;
mod permit_steps;
mod permitting;
mod tokens;

pub use check::{AuthInfo, ETCD_SCHEME};
pub use command::AuthCommand;
pub(crate) use command::AuthDone;
pub use permitting::Permitting;
use tokens::Tokens;

/// The user that must exist before permissions can be enforced.
pub const ROOT_USER: &str = "root";

/// The role that permits everything. It can be granted even if no such role exists.
pub const ROOT_ROLE: &str = "root";

/// The revision of users and roles before the first change (`auth.NewAuthStore`).
const FIRST_REVISION: u64 = 1;

/// All users and roles, the simple tokens, and whether permissions are enforced.
#[derive(Clone, Debug)]
pub struct Auth {
    is_enabled: bool,
    revision: u64,
    users: BTreeMap<Arc<str>, KnownUser>,
    roles: BTreeMap<Arc<str>, Role>,
    tokens: Tokens,
    /// Whether [`KnownUser::password_since`] is kept: from [`Level::TOKENS`] on.
    ///
    /// [`Level::TOKENS`]: crate::level::Level::TOKENS
    knows_passwords_since: bool,
    /// The sum of the users' and roles' contributions to the digest.
    digest: Digest,
    /// Bytes that the users and roles count for, at most [`ETCD_AUTH_BYTES_MAX`].
    bytes: usize,
}

/// A user of etcd: the hash of its password, if it has one, and its roles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The hash of the password, in a form that only the face knows. `None` for a user without a
    /// password, who is named by certificates or signed tokens only.
    pub password: Option<Box<[u8]>>,
    /// The names of the user's roles. Some may have been deleted.
    pub roles: BTreeSet<Arc<str>>,
}

/// A user, with facts about it that are not in etcd's record.
#[derive(Clone, Debug)]
struct KnownUser {
    user: User,
    /// The revision of users and roles at which the user got its present password, or at which an
    /// image replaced all users. A token from before this revision is invalid. 0 if the revision is
    /// unknown: then no token is too old.
    password_since: u64,
    permitted: OnceLock<Arc<Permitted>>,
}

/// A role: its permissions, at most one for each range, ordered by range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Role {
    permissions: BTreeMap<(Key, Key), PermissionKind>,
}

/// A key, or the end of a range.
type Key = Box<[u8]>;

/// The kind of access that a permission allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermissionKind {
    /// Reading keys, and watching them.
    Read,
    /// Putting and deleting keys.
    Write,
    /// Both reading and writing.
    ReadWrite,
}

/// One permission of a role: what it allows, for which keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permission<'a> {
    /// The access that the permission allows.
    pub kind: PermissionKind,
    /// The keys that it applies to.
    pub range: KeyRange<'a>,
}

/// The kind of access that a request needs to a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The request reads the keys.
    Read,
    /// The request changes the keys.
    Write,
}

/// The permissions of a user: the union of those of its roles. Computed when first needed; not
/// state.
#[derive(Debug, Default)]
struct Permitted {
    is_root: bool,
    read: Intervals,
    write: Intervals,
}

impl Default for Auth {
    fn default() -> Auth {
        Auth {
            is_enabled: false,
            revision: FIRST_REVISION,
            users: BTreeMap::new(),
            roles: BTreeMap::new(),
            tokens: Tokens::default(),
            knows_passwords_since: false,
            digest: Digest::default(),
            bytes: 0,
        }
    }
}

impl PartialEq for Auth {
    fn eq(&self, other: &Auth) -> bool {
        (self.is_enabled, self.revision) == (other.is_enabled, other.revision)
            && self.knows_passwords_since == other.knows_passwords_since
            && self.users().eq(other.users())
            && self.passwords_since().eq(other.passwords_since())
            && self.roles == other.roles
            && self.tokens.digest() == other.tokens.digest()
    }
}

impl Role {
    /// A role with these permissions. `None` if one of their ranges is not allowed in a permission.
    pub fn of<'a>(permissions: impl IntoIterator<Item = Permission<'a>>) -> Option<Role> {
        let of_range = |Permission { kind, range }: Permission<'_>| {
            is_valid(range).then(|| ((range.key.into(), range.end.into()), kind))
        };
        Some(Role { permissions: permissions.into_iter().map(of_range).collect::<Option<_>>()? })
    }

    /// The permissions, ordered by range.
    pub fn permissions(&self) -> impl ExactSizeIterator<Item = Permission<'_>> {
        self.permissions.iter().map(|((key, end), kind)| {
            let range = KeyRange { key, end };
            Permission { kind: *kind, range }
        })
    }
}

impl Auth {
    /// Whether permissions are enforced.
    pub fn is_enabled(&self) -> bool {
        self.is_enabled
    }

    /// The revision of users and roles: 1 at first, and raised by 1 with each change. (Starting to
    /// enforce permissions is no change; stopping is one. An installed image raises the revision
    /// further.)
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The user with this name; `None` if there is none.
    pub fn user(&self, name: &str) -> Option<&User> {
        self.users.get(name).map(|known| &known.user)
    }

    /// The users, by name.
    pub fn users(&self) -> impl ExactSizeIterator<Item = (&str, &User)> {
        self.users.iter().map(|(name, known)| (&**name, &known.user))
    }

    /// The user that holds a simple token; `None` if the token is unknown.
    pub fn user_of_token(&self, token: Token) -> Option<&Arc<str>> {
        self.tokens.user(token)
    }

    /// Whether a simple token exists that the command with this ordinal has made.
    pub fn has_token(&self, made: Ordinal) -> bool {
        self.tokens.contains(made)
    }

    /// The role with this name; `None` if there is none.
    pub fn role(&self, name: &str) -> Option<&Role> {
        self.roles.get(name)
    }

    /// The roles, by name.
    pub fn roles(&self) -> impl ExactSizeIterator<Item = (&str, &Role)> {
        self.roles.iter().map(|(name, role)| (&**name, role))
    }

    /// Makes the state from another store's users and roles, without tokens. `revision` is the
    /// revision of the users and roles there.
    ///
    /// # Errors
    /// The users and roles count for more than [`ETCD_AUTH_BYTES_MAX`] bytes.
    pub fn imported(
        is_enabled: bool,
        revision: u64,
        users: impl IntoIterator<Item = (String, User)>,
        roles: impl IntoIterator<Item = (String, Role)>,
    ) -> Result<Auth, Refusal> {
        let mut auth =
            Auth { is_enabled, revision: revision.max(FIRST_REVISION), ..Auth::default() };
        for (name, user) in users {
            auth.set_user(&name, Some(user))?;
        }
        for (name, role) in roles {
            auth.set_role(&name, Some(role))?;
        }
        Ok(auth)
    }

    /// Called on users and roles of an image that has been installed; `revision_before` is the
    /// revision of the users and roles that were replaced. Drops all tokens, since none is valid
    /// any more. Raises the revision above the image's and above `revision_before`, so that clients
    /// never see an old revision again.
    pub(crate) fn on_installed(&mut self, revision_before: u64, knows_passwords_since: bool) {
        self.tokens = Tokens::default();
        self.revision = self.revision.max(revision_before) + 1;
        self.knows_passwords_since = knows_passwords_since;
        let since = if knows_passwords_since { self.revision } else { 0 };
        let names: Vec<Arc<str>> = self.users.keys().cloned().collect();
        names.iter().for_each(|name| self.set_password_since(name, since));
        self.forget_permitted();
    }

    /// Notes whether the level allows to keep [`KnownUser::password_since`]. Called when the level
    /// has risen, and after an image is restored or installed.
    pub(crate) fn know_passwords_since(&mut self, knows: bool) {
        self.knows_passwords_since = knows;
    }

    /// Whether [`KnownUser::password_since`] is kept.
    pub(crate) fn knows_passwords_since(&self) -> bool {
        self.knows_passwords_since
    }

    fn passwords_since(&self) -> impl Iterator<Item = u64> {
        self.users.values().map(|known| known.password_since)
    }

    /// Notes that the change being applied gives a user its password.
    fn on_password(&mut self, name: &str) {
        if self.knows_passwords_since {
            self.set_password_since(name, self.revision + 1);
        }
    }

    fn set_password_since(&mut self, name: &str, since: u64) {
        let Some(known) = self.users.get_mut(name) else { return };
        let before = core::mem::replace(&mut known.password_since, since);
        self.digest.subtract(term_of_password(name, before));
        self.digest.add(term_of_password(name, since));
    }

    /// Whether a client's token is no longer valid: its user was deleted, or has got another
    /// password since. Only a signed token can be that old: simple tokens are removed with the user
    /// and with its password. Always false below [`Level::TOKENS`], where the state does not say
    /// how old a password is.
    ///
    /// [`Level::TOKENS`]: crate::level::Level::TOKENS
    fn is_outlived(&self, AuthInfo { user, revision }: AuthInfo<'_>) -> bool {
        let since = self.users.get(user).map_or(u64::MAX, |known| known.password_since);
        self.knows_passwords_since && revision < self.revision && revision < since
    }

    /// Whether there was never a change, and permissions are not enforced.
    pub(crate) fn is_unused(&self) -> bool {
        self.revision == FIRST_REVISION && !self.is_enabled
    }

    /// The digest's terms of this state: those of users and roles, of tokens, and one of the rest.
    pub(crate) fn digest(&self) -> Digest {
        let mut digest = self.digest;
        let mut scalars = Vec::new();
        self.encode_scalars(&mut scalars);
        digest.add(Digest::from_bytes(b'A', &scalars));
        digest.add(self.tokens.digest());
        if self.knows_passwords_since {
            digest.add(Digest::from_bytes(b'P', &[]));
        }
        digest
    }

    /// Whether a user may read or change (`access`) all keys of a range
    /// (`authStore.isOpPermitted`). An unknown user may do nothing. Only meaningful while
    /// permissions are enforced.
    pub fn permits(&self, user: &str, access: Access, range: KeyRange<'_>) -> bool {
        let Some(known) = self.users.get(user) else { return false };
        let permitted = known.permitted.get_or_init(|| Arc::new(self.permitted_of(&known.user)));
        let intervals = match access {
            Access::Read => &permitted.read,
            Access::Write => &permitted.write,
        };
        permitted.is_root || intervals.contain(range)
    }

    /// Whether a user has the role `root`.
    pub fn is_root(&self, user: &str) -> bool {
        self.has_role(user, ROOT_ROLE)
    }

    /// Whether a user has a role.
    pub fn has_role(&self, user: &str, role: &str) -> bool {
        self.user(user).is_some_and(|user| user.roles.contains(role))
    }

    fn permitted_of(&self, user: &User) -> Permitted {
        let mut permitted =
            Permitted { is_root: user.roles.contains(ROOT_ROLE), ..Permitted::default() };
        let roles = user.roles.iter().filter_map(|role| self.roles.get(role));
        for Permission { kind, range } in roles.flat_map(Role::permissions) {
            if kind != PermissionKind::Write {
                permitted.read.add(range);
            }
            if kind != PermissionKind::Read {
                permitted.write.add(range);
            }
        }
        permitted.read.settle();
        permitted.write.settle();
        permitted
    }

    /// Drops the cached permissions of all users. Called after every change.
    fn forget_permitted(&mut self) {
        for known in self.users.values_mut() {
            known.permitted.take();
        }
    }

    /// Adds or replaces the user with this name; `None` removes it. `NoSpace` if users and roles
    /// would take too many bytes.
    fn set_user(&mut self, name: &str, user: Option<User>) -> Result<(), Refusal> {
        let (before, after) = (self.user(name), user.as_ref());
        let term = |user: &User| term_of(b'U', |out| encode_user(name, user, out));
        let changed = self.change(before.map(term), after.map(term))?;
        (self.digest, self.bytes) = changed;
        let password_since = self.users.get(name).map_or(0, |known| known.password_since);
        match user {
            Some(user) => {
                let known = KnownUser { user, password_since, permitted: OnceLock::new() };
                self.users.insert(name.into(), known);
            }
            None => {
                self.set_password_since(name, 0);
                self.users.remove(name);
            }
        }
        Ok(())
    }

    /// As [`Auth::set_user`], for a role.
    fn set_role(&mut self, name: &str, role: Option<Role>) -> Result<(), Refusal> {
        let (before, after) = (self.roles.get(name), role.as_ref());
        let term = |role: &Role| term_of(b'O', |out| encode_role(name, role, out));
        let changed = self.change(before.map(term), after.map(term))?;
        (self.digest, self.bytes) = changed;
        match role {
            Some(role) => drop(self.roles.insert(name.into(), role)),
            None => drop(self.roles.remove(name)),
        }
        Ok(())
    }

    /// Returns what `digest` and `bytes` become when a user or a role changes. `before` and `after`
    /// are its contribution and its bytes; `None` if it does not exist then.
    ///
    /// # Errors
    /// `NoSpace` if users and roles would take too many bytes.
    fn change(
        &self,
        before: Option<(Digest, usize)>,
        after: Option<(Digest, usize)>,
    ) -> Result<(Digest, usize), Refusal> {
        let (mut digest, mut bytes) = (self.digest, self.bytes);
        if let Some((term, of_it)) = before {
            digest.subtract(term);
            bytes -= of_it;
        }
        if let Some((term, of_it)) = after {
            digest.add(term);
            bytes += of_it;
        }
        match bytes > ETCD_AUTH_BYTES_MAX && bytes > self.bytes {
            true => Err(Refusal::NoSpace),
            false => Ok((digest, bytes)),
        }
    }

    fn encode_scalars(&self, out: &mut Vec<u8>) {
        out.put_u8(self.is_enabled.into());
        out.put_u64(self.revision);
    }
}

/// The contribution of a user's `password_since` to the digest: nothing for 0.
fn term_of_password(name: &str, since: u64) -> Digest {
    if since == 0 {
        return Digest::default();
    }
    let mut bytes = since.to_le_bytes().to_vec();
    bytes.extend_from_slice(name.as_bytes());
    Digest::from_bytes(b'P', &bytes)
}

/// The contribution of a user or a role to the digest, and the bytes that it counts for.
fn term_of(tag: u8, encode: impl FnOnce(&mut Vec<u8>)) -> (Digest, usize) {
    let mut bytes = Vec::new();
    encode(&mut bytes);
    (Digest::from_bytes(tag, &bytes), ETCD_AUTH_ENTRY_BYTES + bytes.len())
}

fn encode_user(name: &str, user: &User, out: &mut Vec<u8>) {
    out.put_bytes(name.as_bytes());
    out.put_optional_bytes(user.password.as_deref());
    out.put_u32(user.roles.len() as u32);
    user.roles.iter().for_each(|role| out.put_bytes(role.as_bytes()));
}

fn encode_role(name: &str, role: &Role, out: &mut Vec<u8>) {
    out.put_bytes(name.as_bytes());
    out.put_u32(role.permissions.len() as u32);
    role.permissions().for_each(|permission| encode_permission(permission, out));
}

fn encode_permission(permission: Permission<'_>, out: &mut Vec<u8>) {
    let Permission { kind, range } = permission;
    out.put_u8(kind as u8);
    out.put_bytes(range.key);
    out.put_bytes(range.end);
}

impl PermissionKind {
    fn decode(reader: &mut Reader<'_>) -> Result<PermissionKind, DecodeError> {
        use PermissionKind::{Read, ReadWrite, Write};
        let number = reader.u8()?;
        let kind = [Read, Write, ReadWrite].into_iter().find(|kind| *kind as u8 == number);
        kind.ok_or_else(|| reader.bad("kind of permission", u64::from(number)))
    }
}

/// Whether a range is allowed in a permission (`auth.isValidPermissionRange`).
pub fn is_valid(range: KeyRange<'_>) -> bool {
    !range.key.is_empty() && (matches!(range.end, [] | [0]) || range.key < range.end)
}

/// An image holds users, roles and tokens in one record:
///
/// ```text
/// auth = 'A' | enabled u8 | revision u64 | users u32 | user... | roles u32 | role...
///      | users with tokens u32 | tokens of a user...
/// From level 4 on, with 'P' for 'A' and behind all of this:
///      | revision u64 at which the user got its password, or 0...              by name
/// user = name | password's hash, or none | roles u32 | role's name...        by name
/// role = name | permissions u32 | (kind u8 | key | end)...                   by name
/// ```
impl Auth {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        self.encode_scalars(out);
        out.put_u32(self.users.len() as u32);
        self.users().for_each(|(name, user)| encode_user(name, user, out));
        out.put_u32(self.roles.len() as u32);
        self.roles.iter().for_each(|(name, role)| encode_role(name, role, out));
        self.tokens.encode(out);
        if self.knows_passwords_since {
            self.passwords_since().for_each(|since| out.put_u64(since));
        }
    }

    /// Reads what [`Auth::encode`] wrote.
    pub(crate) fn decode(
        reader: &mut Reader<'_>,
        knows_passwords_since: bool,
    ) -> Result<Auth, DecodeError> {
        let is_enabled = match reader.u8()? {
            flag @ 0..=1 => flag == 1,
            flag => return Err(reader.bad("flag of enforced permissions", u64::from(flag))),
        };
        let mut auth = Auth { is_enabled, ..Auth::default() };
        auth.revision = reader.counted("revision of users and roles")?;
        for _ in 0..reader.count("count of users", reader.remaining())? {
            let (name, user) = decode_user(reader)?;
            let is_next = auth.users.last_key_value().is_none_or(|(last, _)| **last < *name);
            let fits = is_next && !name.is_empty() && auth.set_user(name, Some(user)).is_ok();
            if !fits {
                return Err(reader.bad("order of users", auth.users.len() as u64));
            }
        }
        for _ in 0..reader.count("count of roles", reader.remaining())? {
            let (name, role) = decode_role(reader)?;
            let is_next = auth.roles.last_key_value().is_none_or(|(last, _)| **last < *name);
            let fits = is_next && !name.is_empty() && auth.set_role(name, Some(role)).is_ok();
            if !fits {
                return Err(reader.bad("order of roles", auth.roles.len() as u64));
            }
        }
        auth.tokens = Tokens::decode(reader)?;
        auth.knows_passwords_since = knows_passwords_since;
        let names =
            if knows_passwords_since { auth.users.keys().cloned().collect() } else { vec![] };
        for name in names {
            let since = reader.u64()?;
            if since > auth.revision {
                return Err(reader.bad("revision of a password", since));
            }
            auth.set_password_since(&name, since);
        }
        Ok(auth)
    }

    /// The most bytes that the record can have.
    pub(crate) fn bytes_max(&self) -> u64 {
        let of_passwords = if self.knows_passwords_since { 8 * self.users.len() } else { 0 };
        (SCALARS_BYTES + self.bytes + self.tokens.bytes() + of_passwords) as u64
    }
}

/// Bytes of the record's fixed fields.
const SCALARS_BYTES: usize = 1 + 8 + 4 + 4;

fn decode_user<'a>(reader: &mut Reader<'a>) -> Result<(&'a str, User), DecodeError> {
    let (name, password) = (reader.text()?, reader.optional_bytes()?.map(Into::into));
    let count = reader.count("count of roles of a user", reader.remaining())?;
    let mut roles = BTreeSet::new();
    for _ in 0..count {
        let role = reader.text()?;
        if roles.last().is_some_and(|last: &Arc<str>| **last >= *role) {
            return Err(reader.bad("order of roles of a user", roles.len() as u64));
        }
        roles.insert(role.into());
    }
    Ok((name, User { password, roles }))
}

fn decode_role<'a>(reader: &mut Reader<'a>) -> Result<(&'a str, Role), DecodeError> {
    let name = reader.text()?;
    let count = reader.count("count of permissions", reader.remaining())?;
    let mut role = Role::default();
    for number in 0..count {
        let kind = PermissionKind::decode(reader)?;
        let range = KeyRange { key: reader.bytes()?, end: reader.bytes()? };
        let place = (range.key.into(), range.end.into());
        let is_next = role.permissions.last_key_value().is_none_or(|(last, _)| *last < place);
        if !is_next || !is_valid(range) {
            return Err(reader.bad("range of a permission", number as u64));
        }
        role.permissions.insert(place, kind);
    }
    Ok((name, role))
}

#[cfg(test)]
mod tests;
