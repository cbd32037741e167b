//! The requests of ZooKeeper clients. The server decodes them, and our own clients encode them.

use machine::{AclEntry, CreateMode};

use crate::ErrorCode;
use crate::jute::{JuteError, JuteReader, JuteWrite, begin_frame, end_frame};

/// Operation codes (`ZooDefs.OpCode`, ZooKeeper 3.9.5).
#[allow(missing_docs)]
pub mod opcode {
    pub const CREATE: i32 = 1;
    pub const DELETE: i32 = 2;
    pub const EXISTS: i32 = 3;
    pub const GET_DATA: i32 = 4;
    pub const SET_DATA: i32 = 5;
    pub const GET_ACL: i32 = 6;
    pub const SET_ACL: i32 = 7;
    pub const GET_CHILDREN: i32 = 8;
    pub const SYNC: i32 = 9;
    pub const PING: i32 = 11;
    pub const GET_CHILDREN2: i32 = 12;
    pub const CHECK: i32 = 13;
    pub const MULTI: i32 = 14;
    pub const CREATE2: i32 = 15;
    pub const RECONFIG: i32 = 16;
    pub const CHECK_WATCHES: i32 = 17;
    pub const REMOVE_WATCHES: i32 = 18;
    pub const CREATE_CONTAINER: i32 = 19;
    pub const CREATE_TTL: i32 = 21;
    pub const MULTI_READ: i32 = 22;
    pub const AUTH: i32 = 100;
    pub const SET_WATCHES: i32 = 101;
    pub const SASL: i32 = 102;
    pub const GET_EPHEMERALS: i32 = 103;
    pub const GET_ALL_CHILDREN_NUMBER: i32 = 104;
    pub const SET_WATCHES2: i32 = 105;
    pub const ADD_WATCH: i32 = 106;
    pub const WHO_AM_I: i32 = 107;
    pub const CLOSE_SESSION: i32 = -11;
    pub const ERROR: i32 = -1;
}

/// The xid of watch events.
pub const XID_EVENT: i32 = -1;
/// The xid of pings and their replies.
pub const XID_PING: i32 = -2;
/// The xid of auth packets and their replies.
pub const XID_AUTH: i32 = -4;
/// The xid of the request that sets watches again after a reconnect.
pub const XID_SET_WATCHES: i32 = -8;

/// The first packet of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectRequest {
    /// Always 0.
    pub protocol_version: i32,
    /// The highest zxid the client has seen.
    pub last_zxid_seen: i64,
    /// The session timeout that the client asks for.
    pub timeout_ms: i32,
    /// The session to resume; 0 asks for a new one.
    pub session: i64,
    /// The password of the session; clients of 3.4 and later send 16 bytes.
    pub password: Vec<u8>,
    /// Whether the client accepts a read-only server. `None` from an old client that does not know
    /// such servers; its response must not have the corresponding field either (`ProtocolManager`).
    pub read_only: Option<bool>,
}

impl ConnectRequest {
    /// A request for a new session on a server that takes writes.
    pub fn new(timeout_ms: i32) -> ConnectRequest {
        ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: 0,
            timeout_ms,
            session: 0,
            password: vec![0; 16],
            read_only: Some(false),
        }
    }

    /// Reads the body of a connect frame.
    pub fn decode(body: &[u8]) -> Result<ConnectRequest, JuteError> {
        let mut reader = JuteReader::new(body);
        Ok(ConnectRequest {
            protocol_version: reader.int()?,
            last_zxid_seen: reader.long()?,
            timeout_ms: reader.int()?,
            session: reader.long()?,
            password: reader.buffer()?.unwrap_or_default().to_vec(),
            read_only: reader.bool().ok(),
        })
    }

    /// Appends the whole frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = begin_frame(out);
        out.put_int(self.protocol_version);
        out.put_long(self.last_zxid_seen);
        out.put_int(self.timeout_ms);
        out.put_long(self.session);
        out.put_buffer(Some(&self.password));
        if let Some(read_only) = self.read_only {
            out.put_bool(read_only);
        }
        end_frame(out, start);
    }
}

/// The header of every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// The number that the client gives the request; the reply repeats it.
    pub xid: i32,
    /// The operation; see [`opcode`].
    pub opcode: i32,
}

/// The four opcodes that create a znode. Their replies differ, and the request of `Ttl` has one
/// field more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateKind {
    /// Replies with the path.
    Create,
    /// Replies with path and stat.
    Create2,
    /// Makes a container; replies with path and stat.
    Container,
    /// Makes a znode with a time to live; replies with path and stat.
    Ttl,
}

impl CreateKind {
    /// The kind's opcode.
    pub fn opcode(self) -> i32 {
        match self {
            CreateKind::Create => opcode::CREATE,
            CreateKind::Create2 => opcode::CREATE2,
            CreateKind::Container => opcode::CREATE_CONTAINER,
            CreateKind::Ttl => opcode::CREATE_TTL,
        }
    }
}

/// An operation that changes the tree, alone or in a multi.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteRequest<'a> {
    /// Make a znode.
    Create {
        /// Which create opcode.
        kind: CreateKind,
        /// The path of the znode.
        path: &'a str,
        /// The data, or null.
        data: Option<&'a [u8]>,
        /// The ACL that the client asks for.
        acl: Vec<AclEntry>,
        /// The create mode as ZooKeeper's `CreateMode` numbers it.
        flags: i32,
        /// The time to live in ms, for [`CreateKind::Ttl`]; -1 for other kinds.
        ttl_ms: i64,
    },
    /// Remove a znode.
    Delete {
        /// The path of the znode.
        path: &'a str,
        /// The version that the znode must have; -1 accepts any.
        version: i32,
    },
    /// Replace the data.
    SetData {
        /// The path of the znode.
        path: &'a str,
        /// The data, or null.
        data: Option<&'a [u8]>,
        /// The version that the znode must have; -1 accepts any.
        version: i32,
    },
    /// Replace the ACL. Not allowed in a multi.
    SetAcl {
        /// The path of the znode.
        path: &'a str,
        /// The ACL that the client asks for.
        acl: Vec<AclEntry>,
        /// The ACL version that the znode must have; -1 accepts any.
        version: i32,
    },
    /// Compare the version. Allowed only in a multi: `Request.isValid` does not know it as a
    /// request.
    Check {
        /// The path of the znode.
        path: &'a str,
        /// The version that the znode must have; -1 accepts any.
        version: i32,
    },
}

/// The kind of answer that a read of one znode returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadKind {
    /// The znode's stat, if the znode exists.
    Exists,
    /// Data and stat.
    GetData,
    /// Names of the children.
    GetChildren,
    /// Names of the children, and stat.
    GetChildren2,
    /// ACL and stat.
    GetAcl,
}

impl ReadKind {
    /// The kind's opcode.
    pub fn opcode(self) -> i32 {
        match self {
            ReadKind::Exists => opcode::EXISTS,
            ReadKind::GetData => opcode::GET_DATA,
            ReadKind::GetChildren => opcode::GET_CHILDREN,
            ReadKind::GetChildren2 => opcode::GET_CHILDREN2,
            ReadKind::GetAcl => opcode::GET_ACL,
        }
    }
}

/// A read of one znode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadRequest<'a> {
    /// The kind of answer.
    pub kind: ReadKind,
    /// The path of the znode.
    pub path: &'a str,
    /// Whether to set a watch. Never with [`ReadKind::GetAcl`].
    pub watch: bool,
}

/// The modes of a persistent watch (`ZooDefs.AddWatchModes`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddWatchMode {
    /// Watches the znode's data and children.
    Persistent = 0,
    /// Watches the znode and all below it.
    PersistentRecursive = 1,
}

impl AddWatchMode {
    /// The mode with this number (`WatcherMode.fromZooDef`).
    fn from_int(mode: i32) -> Option<AddWatchMode> {
        match mode {
            0 => Some(AddWatchMode::Persistent),
            1 => Some(AddWatchMode::PersistentRecursive),
            _ => None,
        }
    }
}

/// Which watches of a path a checkWatches or removeWatches means (`Watcher.WatcherType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatcherType {
    /// One-shot watches of the children.
    Children = 1,
    /// One-shot watches of the data, or of a znode that does not exist.
    Data = 2,
    /// Watches of every kind.
    Any = 3,
    /// Persistent watches.
    Persistent = 4,
    /// Persistent recursive watches.
    PersistentRecursive = 5,
}

impl WatcherType {
    fn from_int(watcher_type: i32) -> Option<WatcherType> {
        match watcher_type {
            1 => Some(WatcherType::Children),
            2 => Some(WatcherType::Data),
            3 => Some(WatcherType::Any),
            4 => Some(WatcherType::Persistent),
            5 => Some(WatcherType::PersistentRecursive),
            _ => None,
        }
    }
}

/// A request to set the watches of an earlier connection again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetWatchesRequest<'a> {
    /// The last zxid that the client has seen. For a change after it, the server sends the event at
    /// once.
    pub relative_zxid: i64,
    /// Paths with a data watch.
    pub data: Vec<&'a str>,
    /// Paths with a watch for a znode that did not exist.
    pub exist: Vec<&'a str>,
    /// Paths with a child watch.
    pub child: Vec<&'a str>,
    /// Whether a list was null, or a path in one of these three lists. The null and all that
    /// follows it is then dropped, because ZooKeeper sets the watches before the null and then
    /// fails. Encoding ignores this field.
    pub null_behind: bool,
}

/// Like [`SetWatchesRequest`], and also with persistent watches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetWatches2Request<'a> {
    /// The one-shot watches.
    pub watches: SetWatchesRequest<'a>,
    /// Paths with a persistent watch.
    pub persistent: Vec<&'a str>,
    /// Paths with a persistent recursive watch.
    pub persistent_recursive: Vec<&'a str>,
}

/// A request after the connect request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// Changes the tree by one operation.
    Write(WriteRequest<'a>),
    /// Changes the tree by several operations, all or none.
    Multi(Vec<WriteRequest<'a>>),
    /// Reads one znode.
    Read(ReadRequest<'a>),
    /// Reads several znodes; each read has its own result.
    MultiRead(Vec<ReadRequest<'a>>),
    /// Waits until the server has applied everything committed before.
    Sync {
        /// The path, returned in the reply, null included.
        path: Option<&'a str>,
    },
    /// Says that the client is alive.
    Ping,
    /// Shows credentials.
    Auth {
        /// `digest`, `ip`, ...
        scheme: &'a str,
        /// The credentials in the form of the scheme; `user:password` for digest.
        credentials: Option<&'a [u8]>,
    },
    /// One token of a SASL exchange.
    Sasl {
        /// The token of the mechanism.
        token: &'a [u8],
    },
    /// Sets watches again.
    SetWatches(SetWatchesRequest<'a>),
    /// Sets watches again, those of persistent kinds included.
    SetWatches2(SetWatches2Request<'a>),
    /// Sets a persistent watch.
    AddWatch {
        /// The path of the watch. Any text: ZooKeeper does not check that it is a path.
        path: &'a str,
        /// Whether the watch covers the whole subtree.
        mode: AddWatchMode,
    },
    /// Asks whether this connection has a watch.
    CheckWatches {
        /// The path of the watch.
        path: &'a str,
        /// The kind of the watch.
        watcher_type: WatcherType,
    },
    /// Removes watches of this connection.
    RemoveWatches {
        /// The path of the watch.
        path: &'a str,
        /// The kind of the watch.
        watcher_type: WatcherType,
    },
    /// Asks to change the members of the ensemble.
    Reconfig {
        /// Servers that join, or null.
        joining: Option<&'a str>,
        /// Servers that leave, or null.
        leaving: Option<&'a str>,
        /// All members of the new ensemble, or null.
        members: Option<&'a str>,
        /// The version that the membership must have; -1 accepts any.
        version: i64,
    },
    /// Asks how many znodes are below one, at any depth.
    GetAllChildrenNumber {
        /// The path of the znode.
        path: &'a str,
    },
    /// Asks for the session's ephemeral znodes.
    GetEphemerals {
        /// Only ephemerals whose path begins with this are listed; null lists all.
        prefix: Option<&'a str>,
    },
    /// Asks for the identities of the connection.
    WhoAmI,
    /// Ends the session.
    CloseSession,
    /// An opcode that ZooKeeper does not have.
    Unknown,
}

impl RequestHeader {
    /// Reads a header and leaves the reader at the start of the body.
    pub fn decode(reader: &mut JuteReader<'_>) -> Result<RequestHeader, JuteError> {
        Ok(RequestHeader { xid: reader.int()?, opcode: reader.int()? })
    }
}

impl<'a> Request<'a> {
    /// Decodes the body of a request with this opcode. Like ZooKeeper, it ignores further bytes.
    pub fn decode(opcode: i32, reader: &mut JuteReader<'a>) -> Result<Request<'a>, JuteError> {
        Ok(match opcode {
            opcode::CREATE
            | opcode::CREATE2
            | opcode::CREATE_CONTAINER
            | opcode::CREATE_TTL
            | opcode::DELETE
            | opcode::SET_DATA
            | opcode::SET_ACL => Request::Write(decode_write(opcode, reader)?),
            opcode::MULTI => Request::Multi(decode_multi(reader, decode_multi_write)?),
            opcode::EXISTS
            | opcode::GET_DATA
            | opcode::GET_CHILDREN
            | opcode::GET_CHILDREN2
            | opcode::GET_ACL => Request::Read(decode_read(opcode, reader)?),
            opcode::MULTI_READ => Request::MultiRead(decode_multi(reader, decode_multi_read)?),
            opcode::SYNC => Request::Sync { path: reader.optional_text()? },
            opcode::PING => Request::Ping,
            opcode::AUTH => {
                reader.int()?;
                // Null becomes the empty name; no scheme has either name.
                let scheme = reader.optional_text()?.unwrap_or_default();
                Request::Auth { scheme, credentials: reader.buffer()? }
            }
            // A null token is an error: `ZooKeeperServer.processSasl` fails on it.
            opcode::SASL => {
                let token = reader.buffer()?;
                Request::Sasl { token: token.ok_or_else(|| reader.bad("SASL token"))? }
            }
            opcode::SET_WATCHES => Request::SetWatches(decode_set_watches(reader)?),
            opcode::SET_WATCHES2 => Request::SetWatches2(decode_set_watches2(reader)?),
            opcode::ADD_WATCH => {
                let (path, mode) = (watched_path(reader)?, AddWatchMode::from_int(reader.int()?));
                Request::AddWatch { path, mode: mode.ok_or_else(|| reader.bad("watch mode"))? }
            }
            opcode::CHECK_WATCHES => {
                let (path, watcher_type) = (watched_path(reader)?, decode_watcher_type(reader)?);
                Request::CheckWatches { path, watcher_type }
            }
            opcode::REMOVE_WATCHES => {
                let (path, watcher_type) = (watched_path(reader)?, decode_watcher_type(reader)?);
                Request::RemoveWatches { path, watcher_type }
            }
            opcode::RECONFIG => Request::Reconfig {
                joining: reader.optional_text()?,
                leaving: reader.optional_text()?,
                members: reader.optional_text()?,
                version: reader.long()?,
            },
            opcode::GET_ALL_CHILDREN_NUMBER => {
                Request::GetAllChildrenNumber { path: reader.text()? }
            }
            opcode::GET_EPHEMERALS => Request::GetEphemerals { prefix: reader.optional_text()? },
            opcode::WHO_AM_I => Request::WhoAmI,
            opcode::CLOSE_SESSION => Request::CloseSession,
            _ => Request::Unknown,
        })
    }

    /// The request's opcode.
    ///
    /// # Panics
    /// For `Unknown`, which no client sends.
    pub fn opcode(&self) -> i32 {
        match self {
            Request::Write(write) => write.opcode(),
            Request::Multi(_) => opcode::MULTI,
            Request::Read(read) => read.kind.opcode(),
            Request::MultiRead(_) => opcode::MULTI_READ,
            Request::Sync { .. } => opcode::SYNC,
            Request::Ping => opcode::PING,
            Request::Auth { .. } => opcode::AUTH,
            Request::Sasl { .. } => opcode::SASL,
            Request::SetWatches(_) => opcode::SET_WATCHES,
            Request::SetWatches2(_) => opcode::SET_WATCHES2,
            Request::AddWatch { .. } => opcode::ADD_WATCH,
            Request::CheckWatches { .. } => opcode::CHECK_WATCHES,
            Request::RemoveWatches { .. } => opcode::REMOVE_WATCHES,
            Request::Reconfig { .. } => opcode::RECONFIG,
            Request::GetAllChildrenNumber { .. } => opcode::GET_ALL_CHILDREN_NUMBER,
            Request::GetEphemerals { .. } => opcode::GET_EPHEMERALS,
            Request::WhoAmI => opcode::WHO_AM_I,
            Request::CloseSession => opcode::CLOSE_SESSION,
            Request::Unknown => unreachable!("only decoded, never sent"),
        }
    }

    /// Appends the whole frame of a request.
    pub fn encode(&self, xid: i32, out: &mut Vec<u8>) {
        let start = begin_frame(out);
        out.put_int(xid);
        out.put_int(self.opcode());
        match self {
            Request::Write(write) => write.encode(out),
            Request::Multi(writes) => {
                for write in writes {
                    encode_multi_header(write.opcode(), false, out);
                    write.encode(out);
                }
                encode_multi_header(-1, true, out);
            }
            Request::Read(read) => read.encode(out),
            Request::MultiRead(reads) => {
                for read in reads {
                    encode_multi_header(read.kind.opcode(), false, out);
                    read.encode(out);
                }
                encode_multi_header(-1, true, out);
            }
            Request::Sync { path } => out.put_buffer(path.map(str::as_bytes)),
            Request::GetAllChildrenNumber { path } => out.put_text(path),
            Request::Reconfig { joining, leaving, members, version } => {
                for servers in [joining, leaving, members] {
                    out.put_buffer(servers.map(str::as_bytes));
                }
                out.put_long(*version);
            }
            Request::GetEphemerals { prefix } => out.put_buffer(prefix.map(str::as_bytes)),
            Request::Auth { scheme, credentials } => {
                out.put_int(0);
                out.put_text(scheme);
                out.put_buffer(*credentials);
            }
            Request::Sasl { token } => out.put_buffer(Some(token)),
            Request::SetWatches(watches) => watches.encode(out),
            Request::SetWatches2(asked) => {
                asked.watches.encode(out);
                encode_texts(&asked.persistent, out);
                encode_texts(&asked.persistent_recursive, out);
            }
            Request::AddWatch { path, mode } => {
                out.put_text(path);
                out.put_int(*mode as i32);
            }
            Request::CheckWatches { path, watcher_type }
            | Request::RemoveWatches { path, watcher_type } => {
                out.put_text(path);
                out.put_int(*watcher_type as i32);
            }
            Request::Ping | Request::WhoAmI | Request::CloseSession | Request::Unknown => {}
        }
        end_frame(out, start);
    }
}

impl WriteRequest<'_> {
    /// The operation's opcode.
    pub fn opcode(&self) -> i32 {
        match self {
            WriteRequest::Create { kind, .. } => kind.opcode(),
            WriteRequest::Delete { .. } => opcode::DELETE,
            WriteRequest::SetData { .. } => opcode::SET_DATA,
            WriteRequest::SetAcl { .. } => opcode::SET_ACL,
            WriteRequest::Check { .. } => opcode::CHECK,
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            WriteRequest::Create { kind, path, data, acl, flags, ttl_ms } => {
                out.put_text(path);
                out.put_buffer(*data);
                encode_acl(acl, out);
                out.put_int(*flags);
                if *kind == CreateKind::Ttl {
                    out.put_long(*ttl_ms);
                }
            }
            WriteRequest::Delete { path, version } | WriteRequest::Check { path, version } => {
                out.put_text(path);
                out.put_int(*version);
            }
            WriteRequest::SetData { path, data, version } => {
                out.put_text(path);
                out.put_buffer(*data);
                out.put_int(*version);
            }
            WriteRequest::SetAcl { path, acl, version } => {
                out.put_text(path);
                encode_acl(acl, out);
                out.put_int(*version);
            }
        }
    }
}

impl ReadRequest<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        out.put_text(self.path);
        if self.kind != ReadKind::GetAcl {
            out.put_bool(self.watch);
        }
    }
}

impl SetWatchesRequest<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        out.put_long(self.relative_zxid);
        encode_texts(&self.data, out);
        encode_texts(&self.exist, out);
        encode_texts(&self.child, out);
    }
}

/// The text that replaces a null path of a watch. ZooKeeper's `DataTree` keeps watches of null,
/// which never fire. Watches of this text never fire either, because every znode's path has a
/// slash, and `wchp` shows null as the same text.
const NULL_PATH: &str = "null";

fn watched_path<'a>(reader: &mut JuteReader<'a>) -> Result<&'a str, JuteError> {
    Ok(reader.optional_text()?.unwrap_or(NULL_PATH))
}

/// Reads a SetWatches. `DataTree.setWatches` handles the lists one after the other, so a null cuts
/// off its own list and drops the later lists.
fn decode_set_watches<'a>(reader: &mut JuteReader<'a>) -> Result<SetWatchesRequest<'a>, JuteError> {
    let relative_zxid = reader.long()?;
    let lists = [reader.optional_texts()?, reader.optional_texts()?, reader.optional_texts()?];
    let mut null_behind = false;
    let [data, exist, child] = lists.map(|list| {
        let list = if null_behind { Some(Vec::new()) } else { list };
        let count = list.as_ref().map(Vec::len);
        let paths: Vec<&str> = list.into_iter().flatten().map_while(|path| path).collect();
        null_behind |= count != Some(paths.len());
        paths
    });
    Ok(SetWatchesRequest { relative_zxid, data, exist, child, null_behind })
}

/// Reads a SetWatches2. In the two lists of persistent watches a null path counts as [`NULL_PATH`].
fn decode_set_watches2<'a>(
    reader: &mut JuteReader<'a>,
) -> Result<SetWatches2Request<'a>, JuteError> {
    let mut watches = decode_set_watches(reader)?;
    let lists = [reader.optional_texts()?, reader.optional_texts()?];
    let [persistent, persistent_recursive] = lists.map(|list| {
        watches.null_behind |= list.is_none();
        let list = if watches.null_behind { None } else { list };
        list.into_iter().flatten().map(|path| path.unwrap_or(NULL_PATH)).collect()
    });
    Ok(SetWatches2Request { watches, persistent, persistent_recursive })
}

fn encode_texts(texts: &[&str], out: &mut Vec<u8>) {
    out.put_count(texts.len());
    texts.iter().for_each(|text| out.put_text(text));
}

/// A create as the wire has it, where path and ACL may be null. [`WriteRequest`] allows neither.
struct CreateRecord<'a> {
    kind: CreateKind,
    path: Option<&'a str>,
    data: Option<&'a [u8]>,
    acl: Option<Vec<AclEntry>>,
    flags: i32,
    ttl_ms: i64,
}

impl<'a> CreateRecord<'a> {
    fn decode(opcode: i32, reader: &mut JuteReader<'a>) -> Result<CreateRecord<'a>, JuteError> {
        let kind = match opcode {
            opcode::CREATE => CreateKind::Create,
            opcode::CREATE2 => CreateKind::Create2,
            opcode::CREATE_CONTAINER => CreateKind::Container,
            opcode::CREATE_TTL => CreateKind::Ttl,
            _ => return Err(reader.bad("operation")),
        };
        Ok(CreateRecord {
            kind,
            path: reader.optional_text()?,
            data: reader.buffer()?,
            acl: decode_acl(reader)?,
            flags: reader.int()?,
            ttl_ms: if kind == CreateKind::Ttl { reader.long()? } else { -1 },
        })
    }

    fn into_write(self, reader: &JuteReader<'_>) -> Result<WriteRequest<'a>, JuteError> {
        let null = null_path(reader, self.error_of_null());
        let CreateRecord { kind, path, data, acl, flags, ttl_ms } = self;
        let (path, acl) = (path.ok_or(null)?, acl.unwrap_or_default());
        Ok(WriteRequest::Create { kind, path, data, acl, flags, ttl_ms })
    }

    /// The error for a create whose path is null. ZooKeeper checks flag and time to live before the
    /// path (`PrepRequestProcessor.validateCreateRequest`), so their error comes first. A mode with
    /// a time to live gets the answer of a server whose setting `extendedTypesEnabled` is off.
    fn error_of_null(&self) -> ErrorCode {
        match CreateMode::from_flag(self.flags) {
            None => ErrorCode::BAD_ARGUMENTS,
            Some(mode) if mode.is_ttl() => ErrorCode::UNIMPLEMENTED,
            Some(_) if self.ttl_ms >= 0 => ErrorCode::BAD_ARGUMENTS,
            Some(_) => ErrorCode::MARSHALLING_ERROR,
        }
    }
}

fn null_path(reader: &JuteReader<'_>, error: ErrorCode) -> JuteError {
    JuteError::NullPath { offset: reader.offset(), error }
}

fn decode_write<'a>(
    opcode: i32,
    reader: &mut JuteReader<'a>,
) -> Result<WriteRequest<'a>, JuteError> {
    match opcode {
        opcode::DELETE => {
            let (path, version) = (reader.optional_text()?, reader.int()?);
            let path = path.ok_or_else(|| null_path(reader, ErrorCode::MARSHALLING_ERROR))?;
            Ok(WriteRequest::Delete { path, version })
        }
        opcode::SET_DATA => {
            let (path, data) = (reader.optional_text()?, reader.buffer()?);
            let version = reader.int()?;
            let path = path.ok_or_else(|| null_path(reader, ErrorCode::BAD_ARGUMENTS))?;
            Ok(WriteRequest::SetData { path, data, version })
        }
        opcode::SET_ACL => {
            let (path, acl) = (reader.optional_text()?, decode_acl(reader)?);
            let version = reader.int()?;
            let path = path.ok_or_else(|| null_path(reader, ErrorCode::BAD_ARGUMENTS))?;
            Ok(WriteRequest::SetAcl { path, acl: acl.unwrap_or_default(), version })
        }
        opcode::CHECK => {
            let (path, version) = (reader.optional_text()?, reader.int()?);
            let path = path.ok_or_else(|| null_path(reader, ErrorCode::BAD_ARGUMENTS))?;
            Ok(WriteRequest::Check { path, version })
        }
        _ => CreateRecord::decode(opcode, reader)?.into_write(reader),
    }
}

/// Decodes one write of a multi (`MultiOperationRecord`). A multi cannot hold a setACL, nor a
/// create with an unknown flag, nor one whose flag needs a time to live that this opcode's record
/// does not carry. `CreateOptions.Builder`, which every create but createTTL uses, accepts no null
/// ACL.
fn decode_multi_write<'a>(
    opcode: i32,
    reader: &mut JuteReader<'a>,
) -> Result<WriteRequest<'a>, JuteError> {
    match opcode {
        opcode::DELETE | opcode::SET_DATA | opcode::CHECK => return decode_write(opcode, reader),
        opcode::SET_ACL => return Err(reader.bad("operation")),
        _ => {}
    }
    let mut create = CreateRecord::decode(opcode, reader)?;
    let mode = CreateMode::from_flag(create.flags);
    if opcode != opcode::CREATE_TTL {
        let mode = mode.ok_or_else(|| reader.bad("create flag"))?;
        if create.acl.is_none() {
            return Err(JuteError::NullAcl { offset: reader.offset() });
        }
        if mode.is_ttl() {
            return Err(reader.bad("create flag"));
        }
    }
    match mode {
        Some(mode) if mode.is_ttl() => {}
        // `Op.Create.getOpcode`: in a multi, unlike in a single create, the flag makes it a
        // container.
        Some(CreateMode::Container) => create.kind = CreateKind::Container,
        // `Op.create` ignores a time to live that the flag does not use: the operation is a plain
        // create.
        _ if create.kind == CreateKind::Ttl => create.kind = CreateKind::Create,
        _ => {}
    }
    if create.kind != CreateKind::Ttl {
        create.ttl_ms = -1;
    }
    create.into_write(reader)
}

fn decode_read<'a>(opcode: i32, reader: &mut JuteReader<'a>) -> Result<ReadRequest<'a>, JuteError> {
    let kind = match opcode {
        opcode::EXISTS => ReadKind::Exists,
        opcode::GET_DATA => ReadKind::GetData,
        opcode::GET_CHILDREN => ReadKind::GetChildren,
        opcode::GET_CHILDREN2 => ReadKind::GetChildren2,
        opcode::GET_ACL => ReadKind::GetAcl,
        _ => return Err(reader.bad("operation")),
    };
    let path = reader.text()?;
    let watch = kind != ReadKind::GetAcl && reader.bool()?;
    Ok(ReadRequest { kind, path, watch })
}

/// Decodes one read of a multi (`MultiOperationRecord`), which can only be getData or getChildren.
fn decode_multi_read<'a>(
    opcode: i32,
    reader: &mut JuteReader<'a>,
) -> Result<ReadRequest<'a>, JuteError> {
    match opcode {
        opcode::GET_DATA | opcode::GET_CHILDREN => decode_read(opcode, reader),
        _ => Err(reader.bad("operation")),
    }
}

fn decode_watcher_type(reader: &mut JuteReader<'_>) -> Result<WatcherType, JuteError> {
    WatcherType::from_int(reader.int()?).ok_or_else(|| reader.bad("watcher type"))
}

fn decode_multi<'a, T>(
    reader: &mut JuteReader<'a>,
    decode: impl Fn(i32, &mut JuteReader<'a>) -> Result<T, JuteError>,
) -> Result<Vec<T>, JuteError> {
    let mut ops = Vec::new();
    // The multi is decoded to its end first, because ZooKeeper fails on a null path only then
    // (`PrepRequestProcessor.getPendingChanges`).
    let mut null_path = None;
    loop {
        let opcode = reader.int()?;
        let done = reader.bool()?;
        reader.int()?;
        if done {
            return null_path.map_or(Ok(ops), Err);
        }
        // The largest frame could hold more operations than a command may have.
        if ops.len() == machine::limits::MULTI_OPS_MAX {
            return Err(reader.bad("multi operation count"));
        }
        match decode(opcode, reader) {
            Err(error @ JuteError::NullPath { .. }) => null_path = Some(error),
            op => ops.push(op?),
        }
    }
}

/// Appends the header that comes before each operation and each result of a multi.
pub(crate) fn encode_multi_header(opcode: i32, done: bool, out: &mut Vec<u8>) {
    out.put_int(opcode);
    out.put_bool(done);
    out.put_int(-1);
}

/// Reads an ACL, or null. A null scheme or id becomes an empty string; ZooKeeper then refuses the
/// ACL as invalid instead of the whole request.
fn decode_acl(reader: &mut JuteReader<'_>) -> Result<Option<Vec<AclEntry>>, JuteError> {
    let Some(count) = reader.optional_count(12)? else { return Ok(None) };
    if count > machine::limits::ACL_ENTRIES_MAX {
        return Err(reader.bad("ACL count"));
    }
    let mut acl = Vec::with_capacity(count);
    for _ in 0..count {
        acl.push(AclEntry {
            perms: reader.int()? as u32,
            scheme: reader.optional_text()?.unwrap_or_default().into(),
            id: reader.optional_text()?.unwrap_or_default().into(),
        });
    }
    Ok(Some(acl))
}

pub(crate) fn encode_acl(acl: &[AclEntry], out: &mut Vec<u8>) {
    out.put_count(acl.len());
    for entry in acl {
        out.put_int(entry.perms as i32);
        out.put_text(&entry.scheme);
        out.put_text(&entry.id);
    }
}

#[cfg(test)]
mod tests;
