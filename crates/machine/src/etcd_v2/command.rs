//! The commands of etcd v2's space, and their bytes in the log.
//!
//! Each command is an operation of etcd's store (`v2store.Store`). The face has turned the
//! parameters of a request into the operation (`etcdserver.applierV2store`), and has checked their
//! form.

use crate::codec::{DecodeError, Reader, Write as _};
use crate::etcd_v2::auth::{Access, AuthCommand};
use crate::etcd_v2::key::Key;
use crate::limits::{ETCD_V2_TTL_S_MAX, EXPIRE_KEYS_MAX};

/// A replicated write of etcd v2's space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// Set a key: create a node there, or replace the file there by a new node.
    Set {
        /// The key, and what to write.
        write: Write<'a>,
        /// Whether the node is a directory.
        is_dir: bool,
        /// Whether this is a refresh: the value stays as it is, and watchers are not notified. The
        /// key must exist then.
        is_refresh: bool,
    },
    /// Create a node at a key where none exists.
    Create {
        /// The key, and what to write.
        write: Write<'a>,
        /// Whether the node is a directory.
        is_dir: bool,
        /// Whether the key names a directory, in which the new node gets a name that sorts after
        /// those of earlier nodes made so.
        is_in_order: bool,
    },
    /// Change the node at a key, which must exist. For a directory, only the time to live changes.
    Update {
        /// The key, and what to write.
        write: Write<'a>,
        /// As in `Set`.
        is_refresh: bool,
    },
    /// Change a node if a comparison with it holds. The node must be a file.
    CompareAndSwap {
        /// The key, and what to write.
        write: Write<'a>,
        /// The comparison.
        compare: Compare<'a>,
        /// As in `Set`.
        is_refresh: bool,
    },
    /// Remove a node.
    Delete {
        /// The key.
        key: Key<'a>,
        /// Whether the node may be an empty directory.
        is_dir: bool,
        /// Whether the node may be a directory with nodes in it, which are removed with it.
        is_recursive: bool,
    },
    /// Remove a node if a comparison with it holds. The node must be a file.
    CompareAndDelete {
        /// The key.
        key: Key<'a>,
        /// The comparison.
        compare: Compare<'a>,
    },
    /// Remove nodes whose time to live has ended, with everything below them; each at an index of
    /// its own. At most [`EXPIRE_KEYS_MAX`]. Only Loop makes this command.
    Expire {
        /// The keys of the nodes, in the order in which they expire.
        keys: Vec<Judged<'a>>,
    },
    /// Change users and roles, or whether permissions are enforced.
    Auth(AuthCommand<'a>),
}

/// The key, value and time to live that a command writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write<'a> {
    /// The key.
    pub key: Key<'a>,
    /// The value; empty for a directory.
    pub value: &'a [u8],
    /// The time to live in seconds, at most [`ETCD_V2_TTL_S_MAX`]. `None` if the node is to live
    /// on, even if it had a time to live. 0 means that the leader expires the node at once.
    pub ttl_s: Option<u64>,
}

/// A comparison with the node at a key. At least one of the fields is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compare<'a> {
    /// The value that the file must have; empty allows any.
    pub value: &'a [u8],
    /// The index of its last write that the file must have; 0 allows any.
    pub index: u64,
}

/// A key whose time to live has ended, as the leader judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged<'a> {
    /// The key.
    pub key: Key<'a>,
    /// The index of the write that gave the time to live. A key that was written since stays.
    pub since: u64,
}

const KIND_SET: u8 = 1;
const KIND_CREATE: u8 = 2;
const KIND_UPDATE: u8 = 3;
const KIND_COMPARE_AND_SWAP: u8 = 4;
const KIND_DELETE: u8 = 5;
const KIND_COMPARE_AND_DELETE: u8 = 6;
const KIND_EXPIRE: u8 = 7;

const FLAG_DIR: u8 = 1;
const FLAG_REFRESH: u8 = 2;
const FLAG_IN_ORDER: u8 = 4;
const FLAG_RECURSIVE: u8 = 8;

/// In the bytes of a write: it gives no time to live.
const NO_TTL: u64 = u64::MAX;

impl<'a> Command<'a> {
    /// Writes the command. `in_space` holds the first bytes of all commands of this space.
    ///
    /// ```text
    /// set              = 1 | flags u8 (1: directory, 2: refresh) | write
    /// create           = 2 | flags u8 (1: directory, 4: in order) | write
    /// update           = 3 | flags u8 (2: refresh) | write
    /// compareAndSwap   = 4 | flags u8 (2: refresh) | write | compare
    /// delete           = 5 | flags u8 (1: directory, 8: recursive) | key text
    /// compareAndDelete = 6 | key text | compare
    /// expire           = 7 | count u32 | (key text | index of the write u64)*
    /// kinds 8 to 12: users and roles (`auth/command.rs`)
    /// write            = key text | s to live u64, or 2^64 - 1 for none | value bytes
    /// compare          = value bytes | index u64
    /// ```
    pub fn encode(&self, in_space: [u8; 2], out: &mut Vec<u8>) {
        out.extend_from_slice(&in_space);
        match self {
            Command::Set { write, is_dir, is_refresh } => {
                out.put_u8(KIND_SET);
                put_flags(&[(FLAG_DIR, *is_dir), (FLAG_REFRESH, *is_refresh)], out);
                write.encode(out);
            }
            Command::Create { write, is_dir, is_in_order } => {
                out.put_u8(KIND_CREATE);
                put_flags(&[(FLAG_DIR, *is_dir), (FLAG_IN_ORDER, *is_in_order)], out);
                write.encode(out);
            }
            Command::Update { write, is_refresh } => {
                out.put_u8(KIND_UPDATE);
                put_flags(&[(FLAG_REFRESH, *is_refresh)], out);
                write.encode(out);
            }
            Command::CompareAndSwap { write, compare, is_refresh } => {
                out.put_u8(KIND_COMPARE_AND_SWAP);
                put_flags(&[(FLAG_REFRESH, *is_refresh)], out);
                write.encode(out);
                compare.encode(out);
            }
            Command::Delete { key, is_dir, is_recursive } => {
                out.put_u8(KIND_DELETE);
                put_flags(&[(FLAG_DIR, *is_dir), (FLAG_RECURSIVE, *is_recursive)], out);
                out.put_bytes(key.text().as_bytes());
            }
            Command::CompareAndDelete { key, compare } => {
                out.put_u8(KIND_COMPARE_AND_DELETE);
                out.put_bytes(key.text().as_bytes());
                compare.encode(out);
            }
            Command::Expire { keys } => {
                out.put_u8(KIND_EXPIRE);
                assert!(keys.len() <= EXPIRE_KEYS_MAX);
                out.put_u32(keys.len() as u32);
                for judged in keys {
                    out.put_bytes(judged.key.text().as_bytes());
                    out.put_u64(judged.since);
                }
            }
            Command::Auth(command) => command.encode(out),
        }
    }

    /// Reads the rest of a command, behind the number of its space.
    ///
    /// # Errors
    /// The command is of no known kind, or breaks the format.
    pub fn decode(reader: &mut Reader<'a>) -> Result<Command<'a>, DecodeError> {
        Ok(match reader.u8()? {
            KIND_SET => {
                let [is_dir, is_refresh] = read_flags([FLAG_DIR, FLAG_REFRESH], reader)?;
                Command::Set { write: Write::decode(reader)?, is_dir, is_refresh }
            }
            KIND_CREATE => {
                let [is_dir, is_in_order] = read_flags([FLAG_DIR, FLAG_IN_ORDER], reader)?;
                let write = Write::decode(reader)?;
                if is_in_order && !write.key.has_room_in_order() {
                    return Err(reader.bad("directory of a key in order", KIND_CREATE.into()));
                }
                Command::Create { write, is_dir, is_in_order }
            }
            KIND_UPDATE => {
                let [is_refresh] = read_flags([FLAG_REFRESH], reader)?;
                Command::Update { write: Write::decode(reader)?, is_refresh }
            }
            KIND_COMPARE_AND_SWAP => {
                let [is_refresh] = read_flags([FLAG_REFRESH], reader)?;
                let write = Write::decode(reader)?;
                Command::CompareAndSwap { write, compare: Compare::decode(reader)?, is_refresh }
            }
            KIND_DELETE => {
                let [is_dir, is_recursive] = read_flags([FLAG_DIR, FLAG_RECURSIVE], reader)?;
                Command::Delete { key: Key::decode(reader)?, is_dir, is_recursive }
            }
            KIND_COMPARE_AND_DELETE => {
                let key = Key::decode(reader)?;
                Command::CompareAndDelete { key, compare: Compare::decode(reader)? }
            }
            KIND_EXPIRE => Command::Expire { keys: decode_judged(reader)? },
            kind => match AuthCommand::decode(kind, reader)? {
                Some(command) => Command::Auth(command),
                None => return Err(reader.bad("command of etcd v2", u64::from(kind))),
            },
        })
    }

    /// The access that the client needs permission for. `None` for commands that are checked
    /// otherwise, or that no client sends.
    pub(crate) fn access(&self) -> Option<Access<'a>> {
        let (key, is_recursive) = match self {
            Command::Set { write, .. }
            | Command::Create { write, .. }
            | Command::Update { write, .. }
            | Command::CompareAndSwap { write, .. } => (write.key, false),
            Command::Delete { key, is_recursive, .. } => (*key, *is_recursive),
            Command::CompareAndDelete { key, .. } => (*key, false),
            Command::Expire { .. } | Command::Auth(_) => return None,
        };
        Some(Access { key, is_write: true, is_recursive })
    }
}

fn decode_judged<'a>(reader: &mut Reader<'a>) -> Result<Vec<Judged<'a>>, DecodeError> {
    let count = reader.count("count of keys", EXPIRE_KEYS_MAX)?;
    (0..count).map(|_| Ok(Judged { key: Key::decode(reader)?, since: reader.u64()? })).collect()
}

impl<'a> Write<'a> {
    fn encode(&self, out: &mut Vec<u8>) {
        out.put_bytes(self.key.text().as_bytes());
        out.put_u64(self.ttl_s.unwrap_or(NO_TTL));
        out.put_bytes(self.value);
    }

    fn decode(reader: &mut Reader<'a>) -> Result<Write<'a>, DecodeError> {
        let key = Key::decode(reader)?;
        let ttl_s = match reader.u64()? {
            NO_TTL => None,
            ttl_s if ttl_s > ETCD_V2_TTL_S_MAX => return Err(reader.bad("time to live", ttl_s)),
            ttl_s => Some(ttl_s),
        };
        Ok(Write { key, value: reader.bytes()?, ttl_s })
    }
}

impl<'a> Compare<'a> {
    fn encode(&self, out: &mut Vec<u8>) {
        out.put_bytes(self.value);
        out.put_u64(self.index);
    }

    fn decode(reader: &mut Reader<'a>) -> Result<Compare<'a>, DecodeError> {
        let (value, index) = (reader.bytes()?, reader.u64()?);
        if value.is_empty() && index == 0 {
            return Err(reader.bad("comparison with nothing", 0));
        }
        Ok(Compare { value, index })
    }
}

fn put_flags(flags: &[(u8, bool)], out: &mut Vec<u8>) {
    out.put_u8(flags.iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| flag).sum());
}

/// Reads a byte of flags: for each flag in `known`, whether it is set. An unknown flag is an error.
fn read_flags<const N: usize>(
    known: [u8; N],
    reader: &mut Reader<'_>,
) -> Result<[bool; N], DecodeError> {
    let flags = reader.u8()?;
    if flags & !known.iter().fold(0, |all, flag| all | flag) != 0 {
        return Err(reader.bad("flags", u64::from(flags)));
    }
    Ok(known.map(|flag| flags & flag != 0))
}

#[cfg(test)]
mod tests;
