//! etcd v2's users, their roles, the permissions of the roles, and whether permissions are
//! enforced.
//!
//! A role has two lists of key patterns: one for reading and one for writing. The role `root`
//! permits everything, and is not stored. A client that names no user has the role `guest`. A
//! command names only what it grants and revokes; apply merges that into the state at the command's
//! place in the log, so two commands never overwrite each other. As in etcd 3.4
//! `etcdserver/api/v2auth`, `v2http/client_auth.go`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::codec::{DecodeError, Reader, Write};
use crate::digest::Digest;
use crate::etcd_v2::key::Key;
use crate::limits::{ETCD_V2_AUTH_BYTES_MAX, ETCD_V2_AUTH_ENTRY_BYTES, ETCD_V2_AUTH_NAME_BYTES};

mod apply;
mod command;

pub use apply::{Done, Refused};
pub use command::{AuthCommand, Patterns, PutRole, PutUser};

/// The name of the user that must exist while permissions are enforced, and of the role that
/// permits everything. That user always has that role.
pub const ROOT: &str = "root";

/// The role of clients that name no user.
pub const GUEST_ROLE: &str = "guest";

/// The scheme of the identity that names the user of an etcd v2 client.
pub const ETCD_V2_SCHEME: &str = "etcd2";

/// The pattern that matches all keys. A new role `guest` has it.
const ALL_KEYS: &str = "/*";

pub(crate) const TAG_AUTH: u8 = b'a';
pub(crate) const TAG_USER: u8 = b'u';
pub(crate) const TAG_ROLE: u8 = b'r';

/// All users and roles, and whether permissions are enforced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Auth {
    is_enabled: bool,
    /// Each user is shared with earlier copies of this struct, so that a change of a user copies
    /// only that user.
    users: BTreeMap<Arc<str>, Arc<User>>,
    /// Shared like the users.
    roles: BTreeMap<Arc<str>, Arc<Role>>,
    /// The sums over the records of all users and roles.
    sums: Sums,
}

/// Sums over the records of users and roles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums {
    digest: Digest,
    /// Sum of the bytes of the records.
    bytes: u64,
    /// An estimate of the memory that they take, in bytes.
    weight: u64,
}

/// A user of etcd v2: the hash of its password, and its roles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The hash of the password, in a form that only the face knows.
    pub hash: Arc<[u8]>,
    /// The names of the user's roles. Some may not exist.
    pub roles: Names,
}

/// A role: the patterns of the keys that it permits to read and to write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Role {
    /// The patterns of the keys that may be read.
    pub read: Names,
    /// The patterns of the keys that may be written.
    pub write: Names,
}

/// Names of roles, or key patterns. A pattern is a key, or a prefix of keys followed by `*`.
pub type Names = BTreeSet<Arc<str>>;

/// Names a record of users and roles: its tag, and the name of the user or role.
pub(crate) type RecordAt = (u8, Arc<str>);

/// The client for which a command or a read acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who<'a> {
    /// The member itself, which may do everything.
    Member,
    /// A client that names no user.
    Guest,
    /// A user whose password a member has checked, or whom a client certificate names.
    User(&'a str),
}

/// The access to a key that a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access<'a> {
    /// The key.
    pub key: Key<'a>,
    /// Whether it changes the key: else it only reads.
    pub is_write: bool,
    /// Whether everything below the key is concerned too.
    pub is_recursive: bool,
}

impl Auth {
    /// Whether permissions are enforced.
    pub fn is_enabled(&self) -> bool {
        self.is_enabled
    }

    /// The users by name.
    pub fn users(&self) -> &BTreeMap<Arc<str>, Arc<User>> {
        &self.users
    }

    /// The roles by name. `root` is never among them.
    pub fn roles(&self) -> &BTreeMap<Arc<str>, Arc<Role>> {
        &self.roles
    }

    /// Whether a client may read and change users and roles (`v2http.hasRootAccess`).
    pub fn permits_root(&self, who: Who<'_>) -> bool {
        match who {
            _ if !self.is_enabled => true,
            Who::Member => true,
            Who::Guest => false,
            Who::User(name) => self.users.get(name).is_some_and(|user| user.roles.contains(ROOT)),
        }
    }

    /// Whether a client may access a key in this way (`v2http.hasKeyPrefixAccess`).
    pub fn permits(&self, who: Who<'_>, access: Access<'_>) -> bool {
        match who {
            _ if !self.is_enabled => true,
            Who::Member => true,
            Who::Guest => {
                let access = Access { is_recursive: false, ..access };
                self.roles.get(GUEST_ROLE).is_some_and(|role| role.permits(access))
            }
            Who::User(name) => {
                let mut roles = self.users.get(name).into_iter().flat_map(|user| &user.roles);
                roles.any(|role| {
                    **role == *ROOT || self.roles.get(role).is_some_and(|role| role.permits(access))
                })
            }
        }
    }

    /// Whether there are no users and roles and permissions are not enforced. Then there are no
    /// records.
    pub fn is_unused(&self) -> bool {
        !self.is_enabled && self.users.is_empty() && self.roles.is_empty()
    }

    /// The sum of the contributions to the digest of all users and roles, and of whether
    /// permissions are enforced.
    pub(crate) fn digest(&self) -> Digest {
        let mut digest = self.sums.digest;
        if !self.is_unused() {
            digest.add(Digest::from_tagged(&self.own_record()));
        }
        digest
    }

    /// Bytes of all records. JSON of all users and roles takes at most six times as many.
    pub fn bytes(&self) -> u64 {
        match self.is_unused() {
            true => 0,
            false => self.sums.bytes + self.own_record().len() as u64,
        }
    }

    /// The record that says whether permissions are enforced.
    fn own_record(&self) -> [u8; 2] {
        [TAG_AUTH, self.is_enabled.into()]
    }

    /// The number of records in an image.
    pub(crate) fn record_count(&self) -> u64 {
        match self.is_unused() {
            true => 0,
            false => 1 + (self.users.len() + self.roles.len()) as u64,
        }
    }

    /// Appends the record that follows the one with tag and name `behind`, or the first record if
    /// that is `None`. Returns the tag and the name of the appended record; `None` if there was
    /// none left.
    ///
    /// ```text
    /// auth = 'a' | 1 enforced, 0 not u8
    /// user = 'u' | name text | hash bytes | roles        users by name
    /// role = 'r' | name text | read | write              roles by name, each a list
    /// list = count u32 | that many texts, in their order
    /// ```
    pub(crate) fn put_record(
        &self,
        behind: Option<RecordAt>,
        out: &mut Vec<u8>,
    ) -> Option<RecordAt> {
        use core::ops::Bound::{Excluded, Unbounded};
        if self.is_unused() {
            return None;
        }
        let Some((tag, name)) = behind else {
            out.extend_from_slice(&self.own_record());
            return Some((TAG_AUTH, "".into()));
        };
        // No name is empty, so every name follows the empty one.
        let after = |of: u8| if tag == of { &*name } else { "" };
        if tag != TAG_ROLE {
            let range = (Excluded(after(TAG_USER)), Unbounded);
            if let Some((name, user)) = self.users.range::<str, _>(range).next() {
                user.encode(name, out);
                return Some((TAG_USER, name.clone()));
            }
        }
        let range = (Excluded(after(TAG_ROLE)), Unbounded);
        let (name, role) = self.roles.range::<str, _>(range).next()?;
        role.encode(name, out);
        Some((TAG_ROLE, name.clone()))
    }

    /// Reads a record, whose tag was read already, and adds what it says. `behind` is the tag and
    /// the name of the record before; `None` before the first.
    ///
    /// # Errors
    /// The record breaks the format, or is out of order.
    pub(crate) fn take_record(
        &mut self,
        tag: u8,
        behind: Option<RecordAt>,
        reader: &mut Reader<'_>,
    ) -> Result<RecordAt, DecodeError> {
        let rank = |tag| [TAG_AUTH, TAG_USER, TAG_ROLE].iter().position(|it| *it == tag);
        let is_first = behind.is_none();
        if (tag == TAG_AUTH) != is_first || behind.as_ref().is_some_and(|it| rank(it.0) > rank(tag))
        {
            return Err(reader.bad("order of records of users and roles", tag.into()));
        }
        if tag == TAG_AUTH {
            self.is_enabled = match reader.u8()? {
                0 => false,
                1 => true,
                other => return Err(reader.bad("enforcing of permissions", other.into())),
            };
            return Ok((TAG_AUTH, "".into()));
        }
        let name: Arc<str> = decode_name(reader)?.into();
        if behind.is_some_and(|before| before.0 == tag && before.1 >= name) {
            return Err(reader.bad("order of users and roles", tag.into()));
        }
        if tag == TAG_USER {
            let hash = reader.bytes()?.into();
            let user = User { hash, roles: decode_list(reader)? };
            self.set_user(&name, Some(user));
        } else {
            let role = Role { read: decode_list(reader)?, write: decode_list(reader)? };
            self.set_role(&name, Some(role));
        }
        Ok((tag, name))
    }

    /// Merges the users and roles of the next piece of an image into these.
    pub(crate) fn take_more(&mut self, mut more: Auth) {
        self.is_enabled |= more.is_enabled;
        self.users.append(&mut more.users);
        self.roles.append(&mut more.roles);
        self.sums.add(more.sums);
    }

    /// Whether commands could have made this state: used to check an image.
    pub(crate) fn is_sound(&self) -> bool {
        let root = self.users.get(ROOT);
        let has_root = root.is_some_and(|root| root.roles.contains(ROOT));
        (has_root || (root.is_none() && !self.is_enabled)) && !self.roles.contains_key(ROOT)
    }

    /// Adds or replaces the user with this name; `None` removes it.
    fn set_user(&mut self, name: &str, user: Option<User>) {
        if let Some(before) = self.users.remove(name) {
            self.sums.subtract(before.sums(name));
        }
        if let Some(user) = user {
            self.sums.add(user.sums(name));
            self.users.insert(name.into(), Arc::new(user));
        }
    }

    /// As [`Auth::set_user`], for a role.
    fn set_role(&mut self, name: &str, role: Option<Role>) {
        if let Some(before) = self.roles.remove(name) {
            self.sums.subtract(before.sums(name));
        }
        if let Some(role) = role {
            self.sums.add(role.sums(name));
            self.roles.insert(name.into(), Arc::new(role));
        }
    }

    fn is_too_large(&self) -> bool {
        self.sums.weight > ETCD_V2_AUTH_BYTES_MAX
    }
}

impl Sums {
    /// The sums of one record. `name_count` is how many names its lists have together.
    fn of(record: &[u8], name_count: usize) -> Sums {
        let bytes = record.len() as u64;
        let of_names = name_count as u64 * ETCD_V2_AUTH_NAME_BYTES;
        let weight = bytes + ETCD_V2_AUTH_ENTRY_BYTES + of_names;
        Sums { digest: Digest::from_tagged(record), bytes, weight }
    }

    fn add(&mut self, other: Sums) {
        self.digest.add(other.digest);
        self.bytes += other.bytes;
        self.weight += other.weight;
    }

    fn subtract(&mut self, other: Sums) {
        self.digest.subtract(other.digest);
        self.bytes -= other.bytes;
        self.weight -= other.weight;
    }
}

impl User {
    fn encode(&self, name: &str, out: &mut Vec<u8>) {
        out.put_u8(TAG_USER);
        out.put_bytes(name.as_bytes());
        out.put_bytes(&self.hash);
        encode_list(&self.roles, out);
    }

    fn sums(&self, name: &str) -> Sums {
        let mut record = Vec::new();
        self.encode(name, &mut record);
        Sums::of(&record, self.roles.len())
    }
}

impl Role {
    fn encode(&self, name: &str, out: &mut Vec<u8>) {
        out.put_u8(TAG_ROLE);
        out.put_bytes(name.as_bytes());
        encode_list(&self.read, out);
        encode_list(&self.write, out);
    }

    fn sums(&self, name: &str) -> Sums {
        let mut record = Vec::new();
        self.encode(name, &mut record);
        Sums::of(&record, self.read.len() + self.write.len())
    }

    /// Whether the role permits an access. A pattern for a directory matches the directory with or
    /// without a slash at its end: clients of etcd write both, and both are the same node.
    fn permits(&self, access: Access<'_>) -> bool {
        let Access { key, is_write, is_recursive } = access;
        let begins = |begin: &str| {
            let is_dir = || begin.strip_suffix('/') == Some(key.text());
            key.text().starts_with(begin) || is_dir()
        };
        let patterns = if is_write { &self.write } else { &self.read };
        patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(begin) => begins(begin),
            None if is_recursive => false,
            None => pattern.strip_suffix('/').unwrap_or(pattern) == key.text(),
        })
    }
}

fn encode_list(names: &Names, out: &mut Vec<u8>) {
    out.put_u32(names.len() as u32);
    names.iter().for_each(|name| out.put_bytes(name.as_bytes()));
}

fn decode_list(reader: &mut Reader<'_>) -> Result<Names, DecodeError> {
    let count = reader.count("count of names", usize::MAX)?;
    let mut names = Names::new();
    for _ in 0..count {
        let name = decode_name(reader)?;
        if names.last().is_some_and(|last| **last >= *name) {
            return Err(reader.bad("order of names", count as u64));
        }
        names.insert(name.into());
    }
    Ok(names)
}

/// Reads a name or a pattern. An empty one is an error.
pub(crate) fn decode_name<'a>(reader: &mut Reader<'a>) -> Result<&'a str, DecodeError> {
    match reader.text()? {
        "" => Err(reader.bad("bytes of a name", 0)),
        name => Ok(name),
    }
}

#[cfg(test)]
mod tests;
