//! The commands that change etcd v2's users and roles, and their bytes. The face has hashed
//! passwords, and has checked what can be checked without the state.

use crate::codec::{DecodeError, Reader, Write};
use crate::etcd_v2::auth::decode_name;

/// A replicated change of users and roles, or of whether permissions are enforced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthCommand<'a> {
    /// Start or stop enforcing permissions.
    Enforce {
        /// Whether permissions are enforced from now on.
        is_enabled: bool,
    },
    /// Make or change a user.
    PutUser(PutUser<'a>),
    /// Delete a user.
    DeleteUser {
        /// Its name.
        name: &'a str,
    },
    /// Make or change a role.
    PutRole(PutRole<'a>),
    /// Delete a role.
    DeleteRole {
        /// Its name.
        name: &'a str,
    },
}

/// A user to make or to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutUser<'a> {
    /// Its name.
    pub name: &'a str,
    /// Whether the command may make a new user.
    pub may_create: bool,
    /// Whether the command may change an existing user.
    pub may_change: bool,
    /// The hash of the new password; empty if the password stays.
    pub hash: &'a [u8],
    /// The roles to grant to the user.
    pub grant: Vec<&'a str>,
    /// The roles to revoke from the user.
    pub revoke: Vec<&'a str>,
}

/// A role to make or to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutRole<'a> {
    /// Its name.
    pub name: &'a str,
    /// Whether the role must exist. If false, it must not exist.
    pub is_change: bool,
    /// The patterns to add to the role.
    pub grant: Patterns<'a>,
    /// The patterns to remove from the role, as far as it has them.
    pub revoke: Patterns<'a>,
}

/// Two lists of key patterns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patterns<'a> {
    /// Patterns of keys that may be read.
    pub read: Vec<&'a str>,
    /// Patterns of keys that may be written.
    pub write: Vec<&'a str>,
}

const KIND_ENFORCE: u8 = 8;
const KIND_PUT_USER: u8 = 9;
const KIND_DELETE_USER: u8 = 10;
const KIND_PUT_ROLE: u8 = 11;
const KIND_DELETE_ROLE: u8 = 12;

const MAY_CREATE: u8 = 1;
const MAY_CHANGE: u8 = 2;

impl<'a> AuthCommand<'a> {
    /// Writes the command. The caller has written the number of its space.
    ///
    /// ```text
    /// enforce     = 8 | 1 on, 0 off u8
    /// put user    = 9 | 1 new, 2 known, 3 either u8 | name text | hash bytes | grant | revoke
    /// delete user = 10 | name text
    /// put role    = 11 | 1 new, 2 known u8 | name text | grant, revoke: read, write
    /// delete role = 12 | name text
    /// grant, revoke, read, write = count u32 | that many texts
    /// ```
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            AuthCommand::Enforce { is_enabled } => {
                out.extend_from_slice(&[KIND_ENFORCE, (*is_enabled).into()]);
            }
            AuthCommand::PutUser(user) => {
                let flags = u8::from(user.may_create) + 2 * u8::from(user.may_change);
                out.extend_from_slice(&[KIND_PUT_USER, flags]);
                out.put_bytes(user.name.as_bytes());
                out.put_bytes(user.hash);
                put_list(&user.grant, out);
                put_list(&user.revoke, out);
            }
            AuthCommand::DeleteUser { name } => {
                out.put_u8(KIND_DELETE_USER);
                out.put_bytes(name.as_bytes());
            }
            AuthCommand::PutRole(role) => {
                let flag = if role.is_change { MAY_CHANGE } else { MAY_CREATE };
                out.extend_from_slice(&[KIND_PUT_ROLE, flag]);
                out.put_bytes(role.name.as_bytes());
                for patterns in [&role.grant, &role.revoke] {
                    put_list(&patterns.read, out);
                    put_list(&patterns.write, out);
                }
            }
            AuthCommand::DeleteRole { name } => {
                out.put_u8(KIND_DELETE_ROLE);
                out.put_bytes(name.as_bytes());
            }
        }
    }

    /// Reads the rest of a command whose kind was read. `None` if the kind does not belong to users
    /// and roles.
    ///
    /// # Errors
    /// The command breaks the format.
    pub fn decode(
        kind: u8,
        reader: &mut Reader<'a>,
    ) -> Result<Option<AuthCommand<'a>>, DecodeError> {
        Ok(Some(match kind {
            KIND_ENFORCE => match reader.u8()? {
                0 => AuthCommand::Enforce { is_enabled: false },
                1 => AuthCommand::Enforce { is_enabled: true },
                other => return Err(reader.bad("enforcing of permissions", other.into())),
            },
            KIND_PUT_USER => {
                let flags = reader.u8()?;
                if !(1..=3).contains(&flags) {
                    return Err(reader.bad("flags of a user", flags.into()));
                }
                AuthCommand::PutUser(PutUser {
                    name: decode_name(reader)?,
                    may_create: flags & MAY_CREATE != 0,
                    may_change: flags & MAY_CHANGE != 0,
                    hash: reader.bytes()?,
                    grant: read_list(reader)?,
                    revoke: read_list(reader)?,
                })
            }
            KIND_DELETE_USER => AuthCommand::DeleteUser { name: decode_name(reader)? },
            KIND_PUT_ROLE => {
                let flag = reader.u8()?;
                if !(1..=2).contains(&flag) {
                    return Err(reader.bad("flags of a role", flag.into()));
                }
                AuthCommand::PutRole(PutRole {
                    name: decode_name(reader)?,
                    is_change: flag == MAY_CHANGE,
                    grant: read_patterns(reader)?,
                    revoke: read_patterns(reader)?,
                })
            }
            KIND_DELETE_ROLE => AuthCommand::DeleteRole { name: decode_name(reader)? },
            _ => return Ok(None),
        }))
    }
}

fn put_list(names: &[&str], out: &mut Vec<u8>) {
    out.put_u32(names.len() as u32);
    names.iter().for_each(|name| out.put_bytes(name.as_bytes()));
}

fn read_list<'a>(reader: &mut Reader<'a>) -> Result<Vec<&'a str>, DecodeError> {
    let count = reader.count("count of names", usize::MAX)?;
    let mut names = Vec::new();
    for _ in 0..count {
        names.push(decode_name(reader)?);
    }
    Ok(names)
}

fn read_patterns<'a>(reader: &mut Reader<'a>) -> Result<Patterns<'a>, DecodeError> {
    Ok(Patterns { read: read_list(reader)?, write: read_list(reader)? })
}
