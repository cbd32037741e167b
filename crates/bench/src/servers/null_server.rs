//! A server that does no work: it answers every ZooKeeper request at once, in most cases with
//! success, and so shows how fast the generator is by itself. It keeps no state but watches, and
//! the data of watched znodes. The rate of a load against it is the ceiling of the generator.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use zk::frame;
use zk::jute::{JuteWrite, begin_frame, end_frame};
use zk::request::{ConnectRequest, XID_EVENT, opcode};
use zk::response::{ConnectResponse, encode_stat};
use zk::{ErrorCode, JuteError, JuteReader, Stat};

use crate::limits::{NULL_HEAD_BYTES, READ_BYTES};
use crate::servers::process::thread_cpu_ns;
use crate::servers::target::Target;

const LISTENER: Token = Token(usize::MAX);

/// The thread stores its CPU time after this many watch events in one pass of its loop. It also
/// stores it at the end of the pass, but a client may see the last event before that. Storing costs
/// a system call.
const EVENTS_BETWEEN_LOOKS: usize = 64;

/// The content that every znode has.
struct Znode {
    data: Vec<u8>,
    /// The encoded Stat.
    stat: Vec<u8>,
    /// Whether a znode that a client watches by `exists` is absent until a client creates it. The
    /// create then fires the watch.
    is_absent: bool,
}

/// A running null server. Dropping it ends the server.
pub struct NullServer {
    address: SocketAddr,
    cpu_ns: Arc<AtomicU64>,
    is_ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// `Watcher.Event.EventType.NodeCreated`.
const CREATED: i32 = 1;

/// `Watcher.Event.EventType.NodeDeleted`.
const DELETED: i32 = 2;

/// `Watcher.Event.EventType.NodeDataChanged`.
const DATA_CHANGED: i32 = 3;

/// The watches of all clients. A path is added by a watching `getData`, or if znodes start absent
/// by a watching `exists`. On a path that was added, watches of both kinds count.
#[derive(Default)]
struct Watches {
    /// The index of each path in `watched`.
    by_path: HashMap<Vec<u8>, usize>,
    watched: Vec<Watched>,
    fired: Vec<Fired>,
}

/// A watch that has fired, whose event is to be sent.
struct Fired {
    kind: i32,
    /// The index of the path in `watched`.
    place: usize,
    /// The number of the connection that watches.
    watcher: usize,
}

/// A path that a client has watched at least once.
struct Watched {
    /// The path in wire form: its length, then its bytes.
    path: Vec<u8>,
    /// The data that was set last. If znodes start absent it is only the first bytes of that data;
    /// the rest is that of every znode.
    data: Vec<u8>,
    /// How often the data was set; the create counts.
    version: i32,
    /// The numbers of the connections that watch the path. The next change of the znode empties the
    /// list.
    watchers: Vec<usize>,
}

struct Connection {
    number: usize,
    stream: TcpStream,
    input: Vec<u8>,
    output: Vec<u8>,
    is_open: bool,
    /// Whether the client has set a watch by `exists`. If so, each delete by this client sends it
    /// an event.
    is_watching: bool,
    is_over: bool,
}

impl NullServer {
    /// Starts a server on a free port of the loopback interface. The data of every znode are
    /// `data_bytes` bytes of `x`.
    ///
    /// # Errors
    /// A socket or the thread cannot be made.
    pub fn start(data_bytes: usize) -> anyhow::Result<NullServer> {
        NullServer::with_children(data_bytes, 0)
    }

    /// Like [`NullServer::start`], but the Stat of every znode says that it has `child_count`
    /// children.
    ///
    /// # Errors
    /// A socket or the thread cannot be made.
    pub fn with_children(data_bytes: usize, child_count: usize) -> anyhow::Result<NullServer> {
        let (data, stat) = (vec![b'x'; data_bytes], stat(data_bytes, child_count));
        NullServer::with_znode(Znode { data, stat, is_absent: false })
    }

    /// Like [`NullServer::start`], but a znode that a client watches by `exists` is absent until a
    /// client creates it. The server keeps the first [`NULL_HEAD_BYTES`] of its data.
    ///
    /// # Errors
    /// A socket or the thread cannot be made.
    pub fn with_absent(data_bytes: usize) -> anyhow::Result<NullServer> {
        let (data, stat) = (vec![b'x'; data_bytes], stat(data_bytes, 0));
        NullServer::with_znode(Znode { data, stat, is_absent: true })
    }

    fn with_znode(znode: Znode) -> anyhow::Result<NullServer> {
        let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut listener = TcpListener::bind(loopback)?;
        let address = listener.local_addr()?;
        let mut poll = Poll::new()?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let (cpu_ns, is_ended) = (Arc::default(), Arc::default());
        let (of_thread, ended) = (Arc::clone(&cpu_ns), Arc::clone(&is_ended));
        let body = move || serve(&mut poll, &listener, &znode, &of_thread, &ended);
        let thread = std::thread::Builder::new().name("null-server".to_string()).spawn(body)?;
        Ok(NullServer { address, cpu_ns, is_ended, thread: Some(thread) })
    }

    /// The server as a target of the generator.
    pub fn target(&self) -> Target {
        let name = "a server that does nothing";
        Target::in_process(name, self.address, Arc::clone(&self.cpu_ns))
    }
}

impl Drop for NullServer {
    fn drop(&mut self) {
        self.is_ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(
    poll: &mut Poll,
    listener: &TcpListener,
    znode: &Znode,
    cpu_ns: &AtomicU64,
    is_ended: &AtomicBool,
) {
    let mut events = Events::with_capacity(1024);
    // The index is the connection's token. A connection that has ended leaves `None`.
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut buffer = vec![0; READ_BYTES];
    let mut watches = Watches::default();
    while !is_ended.load(Ordering::Relaxed) {
        if poll.poll(&mut events, Some(Duration::from_millis(100))).is_err() {
            continue;
        }
        for event in &events {
            if event.token() == LISTENER {
                while let Ok((mut stream, _)) = listener.accept() {
                    let interest = Interest::READABLE | Interest::WRITABLE;
                    let _ = stream.set_nodelay(true);
                    let number = connections.len();
                    if poll.registry().register(&mut stream, Token(number), interest).is_ok() {
                        connections.push(Some(Connection::new(number, stream)));
                    }
                }
                continue;
            }
            let place = event.token().0;
            if let Some(Some(connection)) = connections.get_mut(place) {
                connection.turn(&mut buffer, znode, &mut watches, event.is_read_closed());
                if connection.is_over {
                    connections[place] = None;
                }
            }
            for (number, fired) in watches.fired.drain(..).enumerate() {
                if let Some(connection) = &mut connections[fired.watcher] {
                    let path = &watches.watched[fired.place].path;
                    put_event(&mut connection.output, fired.kind, path);
                    connection.flush();
                }
                if number % EVENTS_BETWEEN_LOOKS == EVENTS_BETWEEN_LOOKS - 1 {
                    cpu_ns.store(thread_cpu_ns(), Ordering::Relaxed);
                }
            }
        }
        cpu_ns.store(thread_cpu_ns(), Ordering::Relaxed);
    }
}

/// The parts of a request that matter for watches.
#[derive(Clone, Copy)]
struct Asked<'a> {
    /// The opcode.
    code: i32,
    /// The path in wire form: its length, then its bytes.
    path: &'a [u8],
    /// The bytes of the request after the path.
    rest: &'a [u8],
}

impl Asked<'_> {
    fn is_watch(&self) -> bool {
        matches!(self.code, opcode::GET_DATA | opcode::EXISTS) && self.rest.last() == Some(&1)
    }
}

impl Watches {
    /// Handles the watch side of a request of connection `number`: sets the watch that it asks for,
    /// or fires the watches of the znode that it changes. Returns the index of the path in
    /// `watched`, if a client has ever watched it.
    fn note(
        &mut self,
        number: usize,
        asked: Asked<'_>,
        znode: &Znode,
    ) -> Result<Option<usize>, JuteError> {
        // Most loads watch nothing, and should not pay for a look-up.
        let mut place = match self.by_path.is_empty() {
            true => None,
            false => self.by_path.get(asked.path).copied(),
        };
        if place.is_none() && asked.is_watch() {
            place = match asked.code {
                opcode::GET_DATA => Some(self.add(asked.path, &znode.data)),
                _ => znode.is_absent.then(|| self.add(asked.path, &[])),
            };
        }
        let Some(place) = place else { return Ok(None) };
        let watched = &mut self.watched[place];
        let (kind, kept_max) = match asked.code {
            opcode::GET_DATA | opcode::EXISTS if asked.is_watch() => {
                watched.watchers.push(number);
                return Ok(Some(place));
            }
            opcode::SET_DATA => (DATA_CHANGED, usize::MAX),
            opcode::CREATE if znode.is_absent => (CREATED, NULL_HEAD_BYTES),
            _ => return Ok(Some(place)),
        };
        let data = JuteReader::new(asked.rest).buffer()?.unwrap_or_default();
        watched.data.clear();
        watched.data.extend_from_slice(&data[..data.len().min(kept_max)]);
        watched.version += 1;
        let fired = |watcher| Fired { kind, place, watcher };
        self.fired.extend(watched.watchers.drain(..).map(fired));
        Ok(Some(place))
    }

    /// Adds a path; `data` is the data that its znode has now.
    fn add(&mut self, path: &[u8], data: &[u8]) -> usize {
        let place = self.watched.len();
        let (path, data, watchers) = (path.to_vec(), data.to_vec(), Vec::new());
        self.by_path.insert(path.clone(), place);
        self.watched.push(Watched { path, data, version: 0, watchers });
        place
    }
}

impl Connection {
    fn new(number: usize, stream: TcpStream) -> Connection {
        Connection {
            number,
            stream,
            input: Vec::new(),
            output: Vec::new(),
            is_open: false,
            is_watching: false,
            is_over: false,
        }
    }

    /// Reads what has arrived and answers it.
    fn turn(
        &mut self,
        buffer: &mut [u8],
        znode: &Znode,
        watches: &mut Watches,
        is_read_closed: bool,
    ) {
        loop {
            match self.stream.read(buffer) {
                Ok(0) => self.is_over = true,
                Ok(count) => {
                    self.answer_all(&buffer[..count], znode, watches);
                    self.flush();
                    // A short read has emptied the socket, unless the connection has ended: then
                    // its end is still to be read.
                    if count == buffer.len() || is_read_closed {
                        continue;
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => self.is_over |= error.kind() != ErrorKind::WouldBlock,
            }
            break;
        }
        self.flush();
    }

    fn flush(&mut self) {
        let mut written = 0;
        while written < self.output.len() {
            match self.stream.write(&self.output[written..]) {
                Ok(count) => written += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.is_over |= error.kind() != ErrorKind::WouldBlock;
                    break;
                }
            }
        }
        self.output.drain(..written);
    }

    /// Answers all complete frames. The rest stays in `input` until more bytes arrive.
    fn answer_all(&mut self, bytes: &[u8], znode: &Znode, watches: &mut Watches) {
        let mut input = core::mem::take(&mut self.input);
        let mut rest = bytes;
        if !input.is_empty() {
            input.extend_from_slice(bytes);
            rest = &input;
        }
        while let Ok(Some((frame, after))) = frame::split(rest) {
            rest = after;
            if self.answer(frame, znode, watches).is_none() {
                self.is_over = true;
                return;
            }
        }
        self.input = rest.to_vec();
    }

    /// Answers one frame. `None` means that the frame is malformed, and the connection ends.
    fn answer(&mut self, frame: &[u8], znode: &Znode, watches: &mut Watches) -> Option<()> {
        if !self.is_open {
            self.is_open = true;
            let request = ConnectRequest::decode(frame).ok()?;
            let timeout_ms = request.timeout_ms.max(1);
            let (session, password) = (1, [0; 16]);
            let read_only = request.read_only.map(|_| false);
            let response = ConnectResponse { timeout_ms, session, password, read_only };
            response.encode(&mut self.output);
            return Some(());
        }
        let (xid, rest) = frame.split_first_chunk::<4>()?;
        let (code, body) = rest.split_first_chunk::<4>()?;
        let code = i32::from_be_bytes(*code);
        let path_bytes = body.first_chunk::<4>().map_or(0, |it| u32::from_be_bytes(*it) as usize);
        let path = body.get(..4 + path_bytes).unwrap_or_default();
        let asked = Asked { code, path, rest: &body[path.len()..] };
        self.is_watching |= code == opcode::EXISTS && asked.is_watch();
        let out = &mut self.output;
        if self.is_watching && code == opcode::DELETE {
            put_event(out, DELETED, path);
        }
        let place = watches.note(self.number, asked, znode).ok()?;
        let watched = place.map(|place| &watches.watched[place]);
        let is_absent = znode.is_absent && watched.is_some_and(|it| it.version == 0);
        let error = match code {
            opcode::EXISTS | opcode::GET_DATA if is_absent => ErrorCode::NO_NODE,
            _ => ErrorCode::OK,
        };
        let start = begin_header(out, i32::from_be_bytes(*xid), error);
        match code {
            _ if error != ErrorCode::OK => {}
            opcode::CREATE => out.extend_from_slice(path),
            opcode::EXISTS if let Some(watched) = watched => {
                let (data_bytes, version) = (watched.data.len() as i32, watched.version);
                encode_stat(&Stat { data_bytes, version, ..Stat::default() }, out);
            }
            opcode::SET_DATA | opcode::EXISTS => out.extend_from_slice(&znode.stat),
            opcode::GET_DATA => {
                let head = watched.map_or(&[][..], |it| &it.data);
                let is_whole = watched.is_some() && !znode.is_absent;
                let tail = if is_whole { None } else { znode.data.get(head.len()..) };
                let tail = tail.unwrap_or_default();
                out.put_int((head.len() + tail.len()) as i32);
                out.extend_from_slice(head);
                out.extend_from_slice(tail);
                out.extend_from_slice(&znode.stat);
            }
            _ => {}
        }
        end_frame(out, start);
        Some(())
    }
}

fn stat(data_bytes: usize, child_count: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let (data_bytes, child_count) = (data_bytes as i32, child_count as i32);
    encode_stat(&Stat { data_bytes, child_count, ..Stat::default() }, &mut out);
    out
}

/// Appends a frame with a watch event of this kind. `path` is in wire form: its length, then its
/// bytes.
fn put_event(out: &mut Vec<u8>, kind: i32, path: &[u8]) {
    let start = begin_header(out, XID_EVENT, ErrorCode::OK);
    out.put_int(kind);
    // SyncConnected.
    out.put_int(3);
    out.extend_from_slice(path);
    end_frame(out, start);
}

/// Begins a frame with a reply header, and returns where the frame starts.
fn begin_header(out: &mut Vec<u8>, xid: i32, error: ErrorCode) -> usize {
    let start = begin_frame(out);
    out.put_int(xid);
    out.put_long(1);
    out.put_int(error.0);
    start
}
