//! A server that does nothing: it answers every request at once with what the load expects, and
//! keeps no state but who watches what, and what was last set there. What a load reaches against it is the ceiling of the
//! generator.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use zk::jute::{JuteWrite, begin_frame, end_frame};
use zk::request::{ConnectRequest, XID_EVENT, opcode};
use zk::response::{ConnectResponse, encode_stat};
use zk::{JuteReader, Stat};

use crate::limits::READ_BYTES;
use crate::process::thread_cpu_ns;
use crate::target::Target;

const LISTENER: Token = Token(usize::MAX);

/// What every znode is.
struct Znode {
    data: Vec<u8>,
    /// Encoded.
    stat: Vec<u8>,
}

/// A running null server; it ends when this is dropped.
pub struct NullServer {
    address: SocketAddr,
    cpu_ns: Arc<AtomicU64>,
    is_ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Who asked by getData to hear of a change.
#[derive(Default)]
struct Watches {
    by_path: HashMap<Vec<u8>, Watched>,
    /// Events to be sent.
    fired: Vec<(Vec<u8>, Token)>,
}

/// A path that was watched before.
struct Watched {
    /// What was set since then.
    data: Vec<u8>,
    /// Until the next change.
    watchers: Vec<Token>,
}

struct Connection {
    token: Token,
    stream: TcpStream,
    input: Vec<u8>,
    output: Vec<u8>,
    is_open: bool,
    /// A watch was asked for: each delete is an event.
    is_watching: bool,
    is_over: bool,
}

impl NullServer {
    /// Starts one on a free port of the loopback. Every znode holds `data_bytes` times `x`.
    ///
    /// # Errors
    /// The system refuses.
    pub fn start(data_bytes: usize) -> anyhow::Result<NullServer> {
        NullServer::with_children(data_bytes, 0)
    }

    /// The same, where every znode says that it has so many children.
    ///
    /// # Errors
    /// The system refuses.
    pub fn with_children(data_bytes: usize, child_count: usize) -> anyhow::Result<NullServer> {
        let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut listener = TcpListener::bind(loopback)?;
        let address = listener.local_addr()?;
        let mut poll = Poll::new()?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let (cpu_ns, is_ended) = (Arc::default(), Arc::default());
        let (of_thread, ended) = (Arc::clone(&cpu_ns), Arc::clone(&is_ended));
        let znode = Znode { data: vec![b'x'; data_bytes], stat: stat(data_bytes, child_count) };
        let body = move || serve(&mut poll, &listener, &znode, &of_thread, &ended);
        let thread = std::thread::Builder::new().name("null-server".to_string()).spawn(body)?;
        Ok(NullServer { address, cpu_ns, is_ended, thread: Some(thread) })
    }

    /// For the generator.
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
    let mut connections: HashMap<Token, Connection> = HashMap::new();
    let mut next = 0;
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
                    if poll.registry().register(&mut stream, Token(next), interest).is_ok() {
                        connections.insert(Token(next), Connection::new(Token(next), stream));
                    }
                    next += 1;
                }
            } else if let Some(connection) = connections.get_mut(&event.token()) {
                connection.turn(&mut buffer, znode, &mut watches);
                if connection.is_over {
                    connections.remove(&event.token());
                }
                for (path, watcher) in watches.fired.drain(..) {
                    if let Some(connection) = connections.get_mut(&watcher) {
                        // NodeDataChanged.
                        put_event(&mut connection.output, 3, &path);
                        connection.flush();
                        // The last event may be seen before this turn ends.
                        cpu_ns.store(thread_cpu_ns(), Ordering::Relaxed);
                    }
                }
            }
        }
        cpu_ns.store(thread_cpu_ns(), Ordering::Relaxed);
    }
}

impl Connection {
    fn new(token: Token, stream: TcpStream) -> Connection {
        Connection {
            token,
            stream,
            input: Vec::new(),
            output: Vec::new(),
            is_open: false,
            is_watching: false,
            is_over: false,
        }
    }

    fn turn(&mut self, buffer: &mut [u8], znode: &Znode, watches: &mut Watches) {
        loop {
            match self.stream.read(buffer) {
                Ok(0) => self.is_over = true,
                Ok(count) => {
                    self.input.extend_from_slice(&buffer[..count]);
                    self.answer_all(znode, watches);
                    self.flush();
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => self.is_over |= error.kind() != ErrorKind::WouldBlock,
            }
            break;
        }
        self.flush();
    }

    fn flush(&mut self) {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(count) => {
                    self.output.drain(..count);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.is_over |= error.kind() != ErrorKind::WouldBlock;
                    return;
                }
            }
        }
    }

    fn answer_all(&mut self, znode: &Znode, watches: &mut Watches) {
        let input = core::mem::take(&mut self.input);
        let mut rest = input.as_slice();
        while let Some((prefix, after)) = rest.split_first_chunk::<4>() {
            let Some(frame) = after.get(..u32::from_be_bytes(*prefix) as usize) else { break };
            rest = &after[frame.len()..];
            if self.answer(frame, znode, watches).is_none() {
                self.is_over = true;
                return;
            }
        }
        self.input = rest.to_vec();
    }

    /// None ends the connection.
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
        self.is_watching |= code == opcode::EXISTS && body.last() == Some(&1);
        let out = &mut self.output;
        if self.is_watching && code == opcode::DELETE {
            // NodeDeleted.
            put_event(out, 2, path);
        }
        match code {
            opcode::GET_DATA if body.last() == Some(&1) => {
                let new = || Watched { data: znode.data.clone(), watchers: Vec::new() };
                let watched = watches.by_path.entry(path.to_vec()).or_insert_with(new);
                watched.watchers.push(self.token);
            }
            opcode::SET_DATA if !watches.by_path.is_empty() => {
                if let Some(watched) = watches.by_path.get_mut(path) {
                    let data = JuteReader::new(&body[path.len()..]).buffer().ok()?;
                    watched.data.clear();
                    watched.data.extend_from_slice(data.unwrap_or_default());
                    let watchers = watched.watchers.drain(..);
                    watches.fired.extend(watchers.map(|it| (path.to_vec(), it)));
                }
            }
            _ => {}
        }
        let start = begin_header(out, i32::from_be_bytes(*xid));
        match code {
            opcode::CREATE => out.extend_from_slice(path),
            opcode::SET_DATA | opcode::EXISTS => out.extend_from_slice(&znode.stat),
            opcode::GET_DATA => {
                let watched = match watches.by_path.is_empty() {
                    true => None,
                    false => watches.by_path.get(path),
                };
                out.put_buffer(Some(watched.map_or(&znode.data, |it| &it.data)));
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

/// A frame with an event of this kind; the path as it stands in requests.
fn put_event(out: &mut Vec<u8>, kind: i32, path: &[u8]) {
    let start = begin_header(out, XID_EVENT);
    out.put_int(kind);
    // SyncConnected.
    out.put_int(3);
    out.extend_from_slice(path);
    end_frame(out, start);
}

/// A frame with the header of a good answer.
fn begin_header(out: &mut Vec<u8>, xid: i32) -> usize {
    let start = begin_frame(out);
    out.put_int(xid);
    out.put_long(1);
    out.put_int(0);
    start
}
