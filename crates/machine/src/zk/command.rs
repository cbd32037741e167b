//! ZooKeeper's commands, and their bytes in the log. A Front checks sizes and form before it makes
//! a command. Only apply decides what depends on the state: whether a znode exists, a version
//! matches, or a permission is missing.

use core::ops::RangeInclusive;

use crate::codec::{DecodeError, Reader, Write};
use crate::ids::{Ordinal, SessionId};
use crate::limits::{CONTAINER_ZNODES_DELETED_MAX, EXPIRE_SESSIONS_MAX, MULTI_OPS_MAX};
use crate::zk::acl::{self, AclEntry};
use crate::zk::settings::Settings;

/// The kind of a new znode. The numbers up to 6 are ZooKeeper's flags (`CreateMode`, ZooKeeper
/// 3.9); the log holds the numbers up to 7.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateMode {
    /// Stays until it is deleted.
    Persistent = 0,
    /// Is removed when its session ends.
    Ephemeral = 1,
    /// Persistent, with the parent's counter appended to the name.
    PersistentSequential = 2,
    /// Ephemeral, with the parent's counter appended to the name.
    EphemeralSequential = 3,
    /// Is removed some time after its last child was removed.
    Container = 4,
    /// Is removed when it has no children and its data has not changed for its time to live.
    PersistentTtl = 5,
    /// `PersistentTtl`, with the parent's counter appended to the name.
    PersistentSequentialTtl = 6,
    /// A container with the parent's counter appended to the name. ZooKeeper has no flag for it:
    /// there the opcode means "container", and the flag means "sequential".
    ContainerSequential = 7,
}

impl CreateMode {
    /// The mode that a client's flag asks for; `None` if ZooKeeper has no such flag.
    pub fn from_flag(flag: i32) -> Option<CreateMode> {
        match flag {
            0 => Some(CreateMode::Persistent),
            1 => Some(CreateMode::Ephemeral),
            2 => Some(CreateMode::PersistentSequential),
            3 => Some(CreateMode::EphemeralSequential),
            4 => Some(CreateMode::Container),
            5 => Some(CreateMode::PersistentTtl),
            6 => Some(CreateMode::PersistentSequentialTtl),
            _ => None,
        }
    }

    /// The mode with this number in the log; `None` if there is none.
    pub(crate) fn decode(number: u8) -> Option<CreateMode> {
        match number {
            7 => Some(CreateMode::ContainerSequential),
            flag => CreateMode::from_flag(i32::from(flag)),
        }
    }

    /// Whether the parent's counter is appended.
    pub fn is_sequential(self) -> bool {
        matches!(
            self,
            CreateMode::PersistentSequential
                | CreateMode::EphemeralSequential
                | CreateMode::PersistentSequentialTtl
                | CreateMode::ContainerSequential
        )
    }

    /// Whether the znode is removed some time after its last child was removed.
    pub fn is_container(self) -> bool {
        matches!(self, CreateMode::Container | CreateMode::ContainerSequential)
    }

    /// Whether the znode belongs to a session.
    pub fn is_ephemeral(self) -> bool {
        matches!(self, CreateMode::Ephemeral | CreateMode::EphemeralSequential)
    }

    /// Whether the znode has a time to live.
    pub fn is_ttl(self) -> bool {
        matches!(self, CreateMode::PersistentTtl | CreateMode::PersistentSequentialTtl)
    }
}

/// The ACL that a client asked for, before [`acl::resolve`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AskedAcl {
    /// Everyone may do everything. It is by far the most frequent ACL, and takes one bit in the
    /// log.
    Open,
    /// These entries; an empty list is refused in apply.
    Entries(Vec<AclEntry>),
}

/// One operation on the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op<'a> {
    /// Make a znode.
    Create {
        /// The path; the counter is appended to it if the mode is sequential.
        path: &'a str,
        /// Whether the path, counter included, breaks ZooKeeper's rules for paths. Such a create is
        /// refused in apply.
        malformed: bool,
        /// Its data; `None` is ZooKeeper's null.
        data: Option<&'a [u8]>,
        /// The ACL that the client asked for.
        acl: AskedAcl,
        /// The kind of the znode.
        mode: CreateMode,
        /// Time to live in ms; -1 for modes that have none.
        ttl_ms: i64,
    },
    /// Remove a znode without children.
    Delete {
        /// The path of the znode.
        path: &'a str,
        /// The version that the data must have; -1 allows any.
        version: i32,
    },
    /// Replace the data.
    SetData {
        /// The path of the znode.
        path: &'a str,
        /// Whether the path breaks ZooKeeper's rules.
        malformed: bool,
        /// The new data; `None` is ZooKeeper's null.
        data: Option<&'a [u8]>,
        /// The version that the data must have; -1 allows any.
        version: i32,
    },
    /// Replace the ACL.
    SetAcl {
        /// The path of the znode.
        path: &'a str,
        /// Whether the path breaks ZooKeeper's rules.
        malformed: bool,
        /// The new ACL.
        acl: AskedAcl,
        /// The version that the ACL must have; -1 allows any.
        version: i32,
    },
    /// Change nothing; refused unless the znode has this version.
    Check {
        /// The path of the znode.
        path: &'a str,
        /// Whether the path breaks ZooKeeper's rules.
        malformed: bool,
        /// The version that the data must have; -1 allows any.
        version: i32,
    },
    /// An operation that is refused as bad arguments in every state (for example an unknown create
    /// flag), but consumes a zxid as in ZooKeeper.
    Malformed,
}

/// A replicated write of ZooKeeper's space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// Open a session, owned by the sending connection.
    OpenSession {
        /// The id that the member has drawn; the command is refused if a session has it already.
        session: SessionId,
        /// The password that a client must show to attach again.
        password: [u8; 16],
        /// The negotiated timeout in ms.
        timeout_ms: u32,
    },
    /// Make the sending connection the owner of the session. Refused if the password is wrong.
    Attach {
        /// The session.
        session: SessionId,
        /// The password that the client showed.
        password: [u8; 16],
        /// The timeout in ms, negotiated anew.
        timeout_ms: u32,
    },
    /// End the session, and remove its ephemerals.
    CloseSession {
        /// The session.
        session: SessionId,
    },
    /// End silent sessions, except those that a client has attached to again since the leader
    /// judged them silent.
    ExpireSessions {
        /// The sessions, each with the ordinal of the last command, when the leader judged, that
        /// opened the session or attached to it. A session that was attached to since then stays.
        sessions: Vec<(SessionId, Ordinal)>,
    },
    /// Replace the settings.
    Configure(Settings),
    /// Do one operation for a session.
    Write {
        /// The session that sends the operation.
        session: SessionId,
        /// The operation.
        op: Op<'a>,
    },
    /// Do several operations for a session: all, or none if one is refused.
    Multi {
        /// The session that sends the operations.
        session: SessionId,
        /// The operations in order; later ones see the effects of earlier ones.
        ops: Vec<Op<'a>>,
    },
    /// Remove those of the named containers and znodes with a time to live that are due at the time
    /// of the stamp.
    DeleteContainers {
        /// The paths of the znodes.
        paths: Vec<&'a str>,
        /// The age in ms at which a container that never had a child is removed; 0 means never.
        never_used_ms_max: u64,
    },
}

/// The range of the first bytes of these commands in the log.
pub(crate) const KINDS: RangeInclusive<u8> = KIND_OPEN_SESSION..=KIND_DELETE_CONTAINERS;

pub(crate) const KIND_OPEN_SESSION: u8 = 1;
pub(crate) const KIND_ATTACH: u8 = 2;
pub(crate) const KIND_CLOSE_SESSION: u8 = 3;
pub(crate) const KIND_EXPIRE_SESSIONS: u8 = 4;
pub(crate) const KIND_CONFIGURE: u8 = 5;
pub(crate) const KIND_WRITE: u8 = 6;
pub(crate) const KIND_MULTI: u8 = 7;
pub(crate) const KIND_DELETE_CONTAINERS: u8 = 8;

pub(crate) const OP_CREATE: u8 = 1;
pub(crate) const OP_DELETE: u8 = 2;
pub(crate) const OP_SET_DATA: u8 = 3;
pub(crate) const OP_SET_ACL: u8 = 4;
pub(crate) const OP_CHECK: u8 = 5;
pub(crate) const OP_MALFORMED: u8 = 6;

const FLAG_MALFORMED: u8 = 1;
const FLAG_OPEN_ACL: u8 = 2;
const FLAGS_ALL: u8 = 3;

impl Op<'_> {
    /// Bytes of the operation's data, and of the ACL that it asks for.
    pub(crate) fn content_bytes(&self) -> usize {
        let of_acl = |acl: &AskedAcl| match acl {
            AskedAcl::Open => 0,
            AskedAcl::Entries(entries) => {
                entries.iter().map(|entry| entry.scheme.len() + entry.id.len() + 16).sum()
            }
        };
        let of_data = |data: &Option<&[u8]>| data.map_or(0, <[u8]>::len);
        match self {
            Op::Create { data, acl, .. } => of_data(data) + of_acl(acl),
            Op::SetData { data, .. } => of_data(data),
            Op::SetAcl { acl, .. } => of_acl(acl),
            Op::Delete { .. } | Op::Check { .. } | Op::Malformed => 0,
        }
    }

    /// The path of the operation; `None` for [`Op::Malformed`].
    pub(crate) fn path(&self) -> Option<&str> {
        match self {
            Op::Create { path, .. }
            | Op::Delete { path, .. }
            | Op::SetData { path, .. }
            | Op::SetAcl { path, .. }
            | Op::Check { path, .. } => Some(path),
            Op::Malformed => None,
        }
    }

    /// Writes the operation; `docs/formats.md` gives the bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Op::Create { path, malformed, data, acl, mode, ttl_ms } => {
                out.put_u8(OP_CREATE);
                out.put_u8(flags(*malformed, Some(acl)));
                out.put_u8(*mode as u8);
                out.put_i64(*ttl_ms);
                out.put_bytes(path.as_bytes());
                out.put_optional_bytes(*data);
                encode_acl(acl, out);
            }
            Op::Delete { path, version } => {
                out.put_u8(OP_DELETE);
                out.put_i32(*version);
                out.put_bytes(path.as_bytes());
            }
            Op::SetData { path, malformed, data, version } => {
                out.put_u8(OP_SET_DATA);
                out.put_u8(flags(*malformed, None));
                out.put_i32(*version);
                out.put_bytes(path.as_bytes());
                out.put_optional_bytes(*data);
            }
            Op::SetAcl { path, malformed, acl, version } => {
                out.put_u8(OP_SET_ACL);
                out.put_u8(flags(*malformed, Some(acl)));
                out.put_i32(*version);
                out.put_bytes(path.as_bytes());
                encode_acl(acl, out);
            }
            Op::Check { path, malformed, version } => {
                out.put_u8(OP_CHECK);
                out.put_u8(flags(*malformed, None));
                out.put_i32(*version);
                out.put_bytes(path.as_bytes());
            }
            Op::Malformed => out.put_u8(OP_MALFORMED),
        }
    }

    fn decode<'a>(reader: &mut Reader<'a>) -> Result<Op<'a>, DecodeError> {
        let kind = reader.u8()?;
        Ok(match kind {
            OP_CREATE => {
                let (malformed, open) = decode_flags(reader)?;
                let number = reader.u8()?;
                let mode = CreateMode::decode(number)
                    .ok_or_else(|| reader.bad("create mode", u64::from(number)))?;
                let ttl_ms = reader.i64()?;
                let path = reader.text()?;
                let data = reader.optional_bytes()?;
                Op::Create { path, malformed, data, acl: decode_acl(open, reader)?, mode, ttl_ms }
            }
            OP_DELETE => {
                let version = reader.i32()?;
                Op::Delete { path: reader.text()?, version }
            }
            OP_SET_DATA => {
                let (malformed, _) = decode_flags(reader)?;
                let version = reader.i32()?;
                let path = reader.text()?;
                Op::SetData { path, malformed, data: reader.optional_bytes()?, version }
            }
            OP_SET_ACL => {
                let (malformed, open) = decode_flags(reader)?;
                let version = reader.i32()?;
                let path = reader.text()?;
                Op::SetAcl { path, malformed, acl: decode_acl(open, reader)?, version }
            }
            OP_CHECK => {
                let (malformed, _) = decode_flags(reader)?;
                let version = reader.i32()?;
                Op::Check { path: reader.text()?, malformed, version }
            }
            OP_MALFORMED => Op::Malformed,
            _ => return Err(reader.bad("operation", u64::from(kind))),
        })
    }
}

fn flags(malformed: bool, acl: Option<&AskedAcl>) -> u8 {
    let malformed = if malformed { FLAG_MALFORMED } else { 0 };
    let open = if acl == Some(&AskedAcl::Open) { FLAG_OPEN_ACL } else { 0 };
    malformed | open
}

fn decode_flags(reader: &mut Reader<'_>) -> Result<(bool, bool), DecodeError> {
    let flags = reader.u8()?;
    if flags & !FLAGS_ALL != 0 {
        return Err(reader.bad("operation flags", u64::from(flags)));
    }
    Ok((flags & FLAG_MALFORMED != 0, flags & FLAG_OPEN_ACL != 0))
}

fn encode_acl(acl: &AskedAcl, out: &mut Vec<u8>) {
    if let AskedAcl::Entries(entries) = acl {
        acl::encode(entries, out);
    }
}

fn decode_acl(open: bool, reader: &mut Reader<'_>) -> Result<AskedAcl, DecodeError> {
    if open { Ok(AskedAcl::Open) } else { acl::decode(reader).map(AskedAcl::Entries) }
}

impl Command<'_> {
    /// How many znodes the command would create and how many it would delete, in this order.
    pub fn creates_and_deletes(&self) -> [u64; 2] {
        let ops = match self {
            Command::Write { op, .. } => core::slice::from_ref(op),
            Command::Multi { ops, .. } => ops.as_slice(),
            _ => &[],
        };
        let creates = ops.iter().filter(|op| matches!(op, Op::Create { .. })).count();
        let deletes = ops.iter().filter(|op| matches!(op, Op::Delete { .. })).count();
        [creates, deletes].map(|count| count as u64)
    }

    /// Writes the command; `docs/formats.md` gives the bytes.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Command::OpenSession { session, password, timeout_ms } => {
                out.put_u8(KIND_OPEN_SESSION);
                encode_credentials(*session, password, *timeout_ms, out);
            }
            Command::Attach { session, password, timeout_ms } => {
                out.put_u8(KIND_ATTACH);
                encode_credentials(*session, password, *timeout_ms, out);
            }
            Command::CloseSession { session } => {
                out.put_u8(KIND_CLOSE_SESSION);
                out.put_i64(session.0);
            }
            Command::ExpireSessions { sessions } => {
                assert!(sessions.len() <= EXPIRE_SESSIONS_MAX);
                out.put_u8(KIND_EXPIRE_SESSIONS);
                out.put_u32(sessions.len() as u32);
                for (session, judged) in sessions {
                    out.put_i64(session.0);
                    out.put_u64(judged.0);
                }
            }
            Command::Configure(settings) => {
                out.put_u8(KIND_CONFIGURE);
                settings.encode(out);
            }
            Command::Write { session, op } => {
                out.put_u8(KIND_WRITE);
                out.put_i64(session.0);
                op.encode(out);
            }
            Command::Multi { session, ops } => {
                assert!(ops.len() <= MULTI_OPS_MAX);
                out.put_u8(KIND_MULTI);
                out.put_i64(session.0);
                out.put_u32(ops.len() as u32);
                for op in ops {
                    op.encode(out);
                }
            }
            Command::DeleteContainers { paths, never_used_ms_max } => {
                assert!(paths.len() <= CONTAINER_ZNODES_DELETED_MAX);
                out.put_u8(KIND_DELETE_CONTAINERS);
                out.put_u64(*never_used_ms_max);
                out.put_u32(paths.len() as u32);
                for path in paths {
                    out.put_bytes(path.as_bytes());
                }
            }
        }
    }

    /// Reads the rest of a command whose first byte was `kind`.
    pub(crate) fn decode<'a>(
        kind: u8,
        reader: &mut Reader<'a>,
    ) -> Result<Command<'a>, DecodeError> {
        Ok(match kind {
            KIND_OPEN_SESSION => {
                let (session, password, timeout_ms) = decode_credentials(reader)?;
                Command::OpenSession { session, password, timeout_ms }
            }
            KIND_ATTACH => {
                let (session, password, timeout_ms) = decode_credentials(reader)?;
                Command::Attach { session, password, timeout_ms }
            }
            KIND_CLOSE_SESSION => Command::CloseSession { session: SessionId(reader.i64()?) },
            KIND_EXPIRE_SESSIONS => {
                let count = reader.count("expired session count", EXPIRE_SESSIONS_MAX)?;
                let mut sessions = Vec::new();
                for _ in 0..count {
                    sessions.push((SessionId(reader.i64()?), Ordinal(reader.u64()?)));
                }
                Command::ExpireSessions { sessions }
            }
            KIND_CONFIGURE => Command::Configure(Settings::decode(reader)?),
            KIND_WRITE => {
                let session = SessionId(reader.i64()?);
                Command::Write { session, op: Op::decode(reader)? }
            }
            KIND_MULTI => {
                let session = SessionId(reader.i64()?);
                let count = reader.count("multi operation count", MULTI_OPS_MAX)?;
                let mut ops = Vec::new();
                for _ in 0..count {
                    ops.push(Op::decode(reader)?);
                }
                Command::Multi { session, ops }
            }
            KIND_DELETE_CONTAINERS => {
                let never_used_ms_max = reader.u64()?;
                let count =
                    reader.count("deleted container count", CONTAINER_ZNODES_DELETED_MAX)?;
                let mut paths = Vec::new();
                for _ in 0..count {
                    paths.push(reader.text()?);
                }
                Command::DeleteContainers { paths, never_used_ms_max }
            }
            _ => return Err(reader.bad("command", u64::from(kind))),
        })
    }
}

fn encode_credentials(session: SessionId, password: &[u8; 16], timeout_ms: u32, out: &mut Vec<u8>) {
    out.put_i64(session.0);
    out.extend_from_slice(password);
    out.put_u32(timeout_ms);
}

fn decode_credentials(reader: &mut Reader<'_>) -> Result<(SessionId, [u8; 16], u32), DecodeError> {
    Ok((SessionId(reader.i64()?), reader.password()?, reader.u32()?))
}
