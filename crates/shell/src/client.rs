//! A small blocking ZooKeeper client. It keeps one session over several connections, and has a
//! function for each kind of request.
//!
//! Paths are relative to the chroot of the connect string. They are checked before they are sent,
//! as in ZooKeeper's own client.

mod connection;
mod limits;
mod path;
mod target;
mod watches;
mod wire;

use std::time::Duration;

use thiserror::Error;
use zk::request::{
    AddWatchMode, CreateKind, ReadKind, ReadRequest, Request, WatcherType, WriteRequest, opcode,
};
use zk::response::{ReplyHeader, decode_stat};
use zk::{AclEntry, ErrorCode, JuteError, JuteReader, Stat};

use connection::{Asked, Connection, Waiting, without_chroot};
use limits::ANSWER_LIMIT;
use zk::CreateMode;

pub use connection::Phase;
pub use path::path_fault;
pub use target::{Login, Security, Target};

/// The znode with the members of the ensemble. The chroot does not apply to it
/// (`ZooDefs.CONFIG_NODE`).
const CONFIG_PATH: &str = "/zookeeper/config";

/// Why a request failed.
#[derive(Debug, Error)]
pub enum ClientError {
    /// No server gives a session, or the connection cannot be restored.
    #[error("cannot connect to {servers}: {reason}")]
    Unreachable {
        /// The connect string, as it was given.
        servers: String,
        /// Why each server failed.
        reason: String,
    },
    /// The connection ended before the answer came. A write may have taken effect. Holds the
    /// server.
    #[error("the connection to {0} was lost; a change that was under way may have been made")]
    Lost(String),
    /// No answer came in time. A write may still take effect. Holds the server.
    #[error("no answer from {0}; a change that was asked for may still be made")]
    Silent(String),
    /// The session is over; its ephemeral znodes and its watches are gone.
    #[error("the session expired: its ephemeral znodes and its watches are gone")]
    Expired,
    /// This client has closed the session.
    #[error("Not connected")]
    Closed,
    /// The path is invalid. Holds what is wrong with it.
    #[error("{0}")]
    BadPath(String),
    /// The server refused the request.
    #[error("{}", .0.name())]
    Refused(ErrorCode),
    /// The answer cannot be decoded.
    #[error("the answer is not ZooKeeper's: {0}")]
    Undecodable(#[from] JuteError),
}

/// Something that happens without a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A watch fired.
    Watch {
        /// The number of the event's type (`Watcher.Event.EventType`).
        event_type: i32,
        /// The number of the connection's state (`Watcher.Event.KeeperState`).
        state: i32,
        /// The path of the znode, without the chroot.
        path: String,
        /// The zxid of the change, or -1.
        zxid: i64,
    },
    /// A connection with the session is open.
    Connected {
        /// The server, as `host:port`.
        server: String,
        /// The session's id.
        session: i64,
        /// Whether the session is the same as on the connection before.
        again: bool,
        /// Whether the server is cut off from its ensemble and serves reads only.
        read_only: bool,
        /// How many watches are set again on this connection.
        watch_count: usize,
    },
    /// The connection ended; the client tries to open another one.
    Lost {
        /// The server at the other end of the connection.
        server: String,
        /// Why the connection ended.
        reason: String,
    },
    /// The session has expired.
    Expired,
    /// The server refused to set watches again, with this error.
    WatchesLost(ErrorCode),
}

/// A znode to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewZnode {
    /// The path. If the mode is sequential, the server appends a number to it.
    pub path: String,
    /// The data; `None` for null.
    pub data: Option<Vec<u8>>,
    /// The ACL: the permissions of each identity.
    pub acl: Vec<AclEntry>,
    /// The mode: persistent, ephemeral, sequential and so on.
    pub mode: CreateMode,
    /// The time to live in ms; `None` for modes without one.
    pub ttl_ms: Option<i64>,
}

/// A change of the ensemble's members (`ReconfigRequest`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconfiguration {
    /// The servers that join or change, as `server.N=...` separated by commas.
    pub joining: Option<String>,
    /// The numbers of the servers that leave, separated by commas.
    pub leaving: Option<String>,
    /// The complete list of servers; set in place of `joining` and `leaving`.
    pub members: Option<String>,
    /// Refuse the change unless the configuration has this version; -1: any version.
    pub version: i64,
}

/// A session with an ensemble.
pub struct Client {
    connection: Connection,
}

impl Client {
    /// Opens a session on the first server that gives one. Events go to `on_event`, which runs on a
    /// thread of the client and must not call the client.
    ///
    /// # Errors
    /// No server gives a session.
    pub fn connect(
        target: &Target,
        on_event: impl Fn(Event) + Send + Sync + 'static,
    ) -> Result<Client, ClientError> {
        let connection = Connection::open(target.clone(), Box::new(on_event))?;
        Ok(Client { connection })
    }

    /// The phase that the session is in.
    pub fn phase(&self) -> Phase {
        self.connection.phase()
    }

    /// The data and the stat of a znode. If `watch` is true, here and in the methods below, the
    /// read also sets a watch.
    pub fn get_data(
        &self,
        path: &str,
        watch: bool,
    ) -> Result<(Option<Vec<u8>>, Stat), ClientError> {
        self.data_of(&self.full(path)?, watch)
    }

    /// The members of the ensemble as text, and the stat of the znode that holds them.
    pub fn config(&self, watch: bool) -> Result<(Option<Vec<u8>>, Stat), ClientError> {
        self.data_of(CONFIG_PATH, watch)
    }

    fn data_of(&self, full: &str, watch: bool) -> Result<(Option<Vec<u8>>, Stat), ClientError> {
        let waiting = self.ask(ReadKind::GetData, full, watch)?;
        self.answer(&waiting, |r| Ok((r.buffer()?.map(<[u8]>::to_vec), decode_stat(r)?)))
    }

    /// The stat of a znode; `None` if the znode does not exist.
    pub fn exists(&self, path: &str, watch: bool) -> Result<Option<Stat>, ClientError> {
        let waiting = self.ask(ReadKind::Exists, &self.full(path)?, watch)?;
        match self.answer(&waiting, decode_stat) {
            Err(ClientError::Refused(ErrorCode::NO_NODE)) => Ok(None),
            stat => stat.map(Some),
        }
    }

    /// The sorted names of a znode's children, and the znode's stat.
    pub fn children(&self, path: &str, watch: bool) -> Result<(Vec<String>, Stat), ClientError> {
        let waiting = self.ask(ReadKind::GetChildren2, &self.full(path)?, watch)?;
        self.answer(&waiting, decode_children)
    }

    /// The sorted names of each znode's children, or the error for that znode; empty for a znode
    /// that does not exist. Sends all requests before it waits for the first answer.
    pub fn children_of_each(
        &self,
        paths: &[String],
        watch: bool,
    ) -> Result<Vec<Result<Vec<String>, ErrorCode>>, ClientError> {
        let kind = ReadKind::GetChildren2;
        let mut asked = Vec::with_capacity(paths.len());
        for path in paths {
            let full = self.full(path)?;
            let request = Request::Read(ReadRequest { kind, path: &full, watch });
            asked.push((frame(&request), watch.then(|| Asked::by_read(kind, &full))));
        }
        let waiting = self.connection.send_each(asked)?;
        waiting
            .iter()
            .map(|waiting| match self.answer(waiting, decode_children) {
                Ok((names, _)) => Ok(Ok(names)),
                Err(ClientError::Refused(ErrorCode::NO_NODE)) => Ok(Ok(Vec::new())),
                Err(ClientError::Refused(code)) => Ok(Err(code)),
                Err(error) => Err(error),
            })
            .collect()
    }

    /// The ACL and the stat of a znode.
    pub fn acl(&self, path: &str) -> Result<(Vec<AclEntry>, Stat), ClientError> {
        let waiting = self.ask(ReadKind::GetAcl, &self.full(path)?, false)?;
        self.answer(&waiting, decode_acl)
    }

    /// Creates a znode. Returns its path, with the number of a sequential one.
    pub fn create(&self, znode: &NewZnode) -> Result<String, ClientError> {
        let full = match znode.mode.is_sequential() {
            // `PathUtils.validatePath` checks the path with a number behind it.
            true => self.full(&format!("{}1", znode.path)).map(|mut full| {
                full.pop();
                full
            }),
            false => self.full(&znode.path),
        }?;
        let kind = match znode.mode {
            CreateMode::Container => CreateKind::Container,
            mode if mode.is_ttl() => CreateKind::Ttl,
            _ => CreateKind::Create,
        };
        let write = WriteRequest::Create {
            kind,
            path: &full,
            data: znode.data.as_deref(),
            acl: znode.acl.clone(),
            flags: znode.mode as i32,
            ttl_ms: znode.ttl_ms.unwrap_or(-1),
        };
        let created = self.call(&Request::Write(write), |r| Ok(r.text()?.to_string()))?;
        Ok(without_chroot(&created, self.chroot()).to_string())
    }

    /// Replaces the data of a znode that has this version; -1: any version.
    pub fn set_data(&self, path: &str, data: &[u8], version: i32) -> Result<Stat, ClientError> {
        let full = self.full(path)?;
        let write = WriteRequest::SetData { path: &full, data: Some(data), version };
        self.call(&Request::Write(write), decode_stat)
    }

    /// Replaces the ACL of a znode whose ACL has this version; -1: any version.
    pub fn set_acl(&self, path: &str, acl: &[AclEntry], version: i32) -> Result<Stat, ClientError> {
        let full = self.full(path)?;
        let write = WriteRequest::SetAcl { path: &full, acl: acl.to_vec(), version };
        self.call(&Request::Write(write), decode_stat)
    }

    /// Deletes a znode that has this version; -1: any version.
    pub fn delete(&self, path: &str, version: i32) -> Result<(), ClientError> {
        let full = self.full(path)?;
        let write = WriteRequest::Delete { path: &full, version };
        self.call(&Request::Write(write), |_| Ok(()))
    }

    /// Deletes znodes in this order, all of them or none.
    pub fn delete_each(&self, paths: &[String]) -> Result<(), ClientError> {
        let full: Vec<String> =
            paths.iter().map(|path| self.full(path)).collect::<Result<_, _>>()?;
        let writes = full.iter().map(|path| WriteRequest::Delete { path, version: -1 }).collect();
        self.call(&Request::Multi(writes), decode_multi_error)?.map_or(Ok(()), |error| {
            // The deletes before the failed one have the result OK.
            Err(ClientError::Refused(error))
        })
    }

    /// Waits until the server has applied everything that was committed before this request.
    pub fn sync(&self, path: &str) -> Result<(), ClientError> {
        let full = self.full(path)?;
        self.call(&Request::Sync { path: Some(&full) }, |_| Ok(()))
    }

    /// Sends credentials, on this connection and, if the server accepts them, on each later one.
    pub fn add_auth(&self, scheme: &str, credentials: &[u8]) -> Result<(), ClientError> {
        self.connection.add_auth(scheme, credentials, ANSWER_LIMIT)
    }

    /// Sets a watch that stays when it fires.
    pub fn add_watch(&self, path: &str, mode: AddWatchMode) -> Result<(), ClientError> {
        let full = self.full(path)?;
        let frame = frame(&Request::AddWatch { path: &full, mode });
        let waiting = self.connection.send(frame, Some(Asked::lasting(mode, &full)))?;
        self.answer(&waiting, |_| Ok(()))
    }

    /// Removes watches, and returns the types of the events that report this. With `locally`, a
    /// watch is forgotten even if no server can be told; the next connection then does not set it
    /// again.
    pub fn remove_watches(
        &self,
        path: &str,
        watcher_type: WatcherType,
        locally: bool,
    ) -> Result<Vec<i32>, ClientError> {
        let full = self.full(path)?;
        // A watch that this client does not know does not exist (`ZooKeeper.removeWatches`).
        if !self.connection.with_watches(|watches| watches.has(&full, watcher_type)) {
            return Err(ClientError::Refused(ErrorCode::NO_WATCHER));
        }
        let told = self.call(&Request::RemoveWatches { path: &full, watcher_type }, |_| Ok(()));
        match told {
            Ok(()) => {}
            Err(ClientError::Unreachable { .. } | ClientError::Lost(_)) if locally => {}
            Err(error) => return Err(error),
        }
        Ok(self.connection.with_watches(|watches| watches.remove(&full, watcher_type)))
    }

    /// How many znodes are below a path, at any depth.
    pub fn count_below(&self, path: &str) -> Result<i32, ClientError> {
        let full = self.full(path)?;
        self.call(&Request::GetAllChildrenNumber { path: &full }, |r| r.int())
    }

    /// The paths of the session's ephemeral znodes that start with `prefix`, sorted.
    pub fn ephemerals(&self, prefix: &str) -> Result<Vec<String>, ClientError> {
        let full = self.full(prefix)?;
        let mut paths = self.call(&Request::GetEphemerals { prefix: Some(&full) }, |r| {
            let paths = r.texts()?.into_iter();
            Ok(paths
                .map(|path| without_chroot(path, self.chroot()).to_string())
                .collect::<Vec<_>>())
        })?;
        paths.sort_unstable();
        Ok(paths)
    }

    /// The identities that the connection has: scheme and user of each.
    pub fn who_am_i(&self) -> Result<Vec<(String, String)>, ClientError> {
        self.call(&Request::WhoAmI, |r| {
            let count = r.count(8)?;
            (0..count).map(|_| Ok((r.text()?.to_string(), r.text()?.to_string()))).collect()
        })
    }

    /// Changes the members of the ensemble. Returns the new configuration and its stat.
    pub fn reconfigure(&self, change: &Reconfiguration) -> Result<(Vec<u8>, Stat), ClientError> {
        let request = Request::Reconfig {
            joining: change.joining.as_deref(),
            leaving: change.leaving.as_deref(),
            members: change.members.as_deref(),
            version: change.version,
        };
        self.call(&request, |r| Ok((r.buffer()?.unwrap_or_default().to_vec(), decode_stat(r)?)))
    }

    /// Ends the session, and with it its ephemeral znodes.
    pub fn close(&self) {
        self.connection.close(limits::CONNECT_LIMIT);
    }

    fn chroot(&self) -> &str {
        &self.connection.target().chroot
    }

    /// The path on the server: `path` behind the chroot.
    fn full(&self, path: &str) -> Result<String, ClientError> {
        if let Some(fault) = path_fault(path) {
            return Err(ClientError::BadPath(fault));
        }
        Ok(match (self.chroot(), path) {
            ("", path) => path.to_string(),
            (chroot, "/") => chroot.to_string(),
            (chroot, path) => format!("{chroot}{path}"),
        })
    }

    /// Sends a read of one znode, given by its path on the server.
    fn ask(&self, kind: ReadKind, full: &str, watch: bool) -> Result<Waiting, ClientError> {
        let request = Request::Read(ReadRequest { kind, path: full, watch });
        self.connection.send(frame(&request), watch.then(|| Asked::by_read(kind, full)))
    }

    /// Sends a request and waits for the answer. `decode` reads the body of an answer without
    /// error.
    fn call<T>(
        &self,
        request: &Request<'_>,
        decode: impl FnOnce(&mut JuteReader<'_>) -> Result<T, JuteError>,
    ) -> Result<T, ClientError> {
        let waiting = self.connection.send(frame(request), None)?;
        self.answer(&waiting, decode)
    }

    fn answer<T>(
        &self,
        waiting: &Waiting,
        decode: impl FnOnce(&mut JuteReader<'_>) -> Result<T, JuteError>,
    ) -> Result<T, ClientError> {
        self.answer_within(waiting, ANSWER_LIMIT, decode)
    }

    fn answer_within<T>(
        &self,
        waiting: &Waiting,
        limit: Duration,
        decode: impl FnOnce(&mut JuteReader<'_>) -> Result<T, JuteError>,
    ) -> Result<T, ClientError> {
        let body = self.connection.wait(waiting, limit)?;
        let mut reader = JuteReader::new(&body);
        let header = ReplyHeader::decode(&mut reader)?;
        if header.error != ErrorCode::OK {
            return Err(ClientError::Refused(header.error));
        }
        Ok(decode(&mut reader)?)
    }

    /// The names of a znode's children, for completion, which must not delay a typing user. Empty
    /// if there are more than `count_max` or there is no connection; an error if the server takes
    /// longer than `limit`.
    pub fn few_children(
        &self,
        path: &str,
        count_max: i32,
        limit: Duration,
    ) -> Result<Vec<String>, ClientError> {
        if self.phase() == Phase::Connecting {
            return Ok(Vec::new());
        }
        let full = self.full(path)?;
        let stat = self.ask(ReadKind::Exists, &full, false)?;
        if self.answer_within(&stat, limit, decode_stat)?.child_count > count_max {
            return Ok(Vec::new());
        }
        let names = self.ask(ReadKind::GetChildren2, &full, false)?;
        Ok(self.answer_within(&names, limit, decode_children)?.0)
    }
}

fn frame(request: &Request<'_>) -> Vec<u8> {
    let mut frame = Vec::new();
    request.encode(0, &mut frame);
    frame
}

fn decode_children(reader: &mut JuteReader<'_>) -> Result<(Vec<String>, Stat), JuteError> {
    let mut names: Vec<String> = reader.texts()?.into_iter().map(str::to_string).collect();
    names.sort_unstable();
    Ok((names, decode_stat(reader)?))
}

fn decode_acl(reader: &mut JuteReader<'_>) -> Result<(Vec<AclEntry>, Stat), JuteError> {
    let mut entries = Vec::new();
    for _ in 0..reader.count(12)? {
        let perms = reader.int()? as u32;
        let (scheme, id) = (reader.text()?.into(), reader.text()?.into());
        entries.push(AclEntry { perms, scheme, id });
    }
    Ok((entries, decode_stat(reader)?))
}

/// The first error among the results of a multi of deletes; `None` if there is none
/// (`MultiResponse`). When one delete fails, those before it have the result 0.
fn decode_multi_error(reader: &mut JuteReader<'_>) -> Result<Option<ErrorCode>, JuteError> {
    loop {
        let (kind, done, _) = (reader.int()?, reader.bool()?, reader.int()?);
        if done {
            return Ok(None);
        }
        if kind == opcode::ERROR {
            match ErrorCode(reader.int()?) {
                ErrorCode::OK => {}
                error => return Ok(Some(error)),
            }
        }
    }
}
