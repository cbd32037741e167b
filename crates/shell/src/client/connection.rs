//! A ZooKeeper session and its connection: connects to one of the servers, keeps the connection
//! alive, and connects again when it is lost.
//!
//! One thread owns the connection: it connects, reads, pings when no requests are sent, and
//! reconnects with the same session. Callers write under the lock, and answers come in the order of
//! the requests. On each new connection, the credentials and the watches of the session are sent
//! first.
//!
//! A *round* is one attempt to connect to each server of the list.

use std::collections::VecDeque;
use std::io::Read;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use zk::frame;
use zk::limits::REPLY_HEADER_BYTES;
use zk::request::{
    AddWatchMode, ConnectRequest, ReadKind, Request, XID_AUTH, XID_EVENT, XID_PING, XID_SET_WATCHES,
};
use zk::response::{ConnectResponse, ReplyHeader};
use zk::{ErrorCode, JuteError, JuteReader};

use super::limits::{
    CONNECT_LIMIT, PROBE_LIMIT, PROBE_PAUSE_MAX, PROBE_PAUSE_MIN, RETRY_PAUSE_MAX, RETRY_PAUSE_MIN,
    WRITE_LIMIT,
};
use super::target::{Login, Target};
use super::watches::{WatchKind, Watches};
use super::wire::Wire;
use super::{ClientError, Event};

/// The function that gets the client's events.
type Listener = Box<dyn Fn(Event) + Send + Sync>;

/// A session and its connection. Dropping this closes the connection but does not end the session;
/// the session then expires on the server.
pub struct Connection {
    shared: Arc<Shared>,
}

struct Shared {
    target: Target,
    state: Mutex<State>,
    /// Notified when the phase changes, or when a round has failed.
    changed: Condvar,
    on_event: Listener,
}

/// Whether the session has a connection, or is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// There is no connection now.
    Connecting,
    /// There is a connection.
    Connected,
    /// There is a connection for reads only: its server is cut off from the ensemble.
    ConnectedReadOnly,
    /// The servers say that the session has expired.
    Expired,
    /// This client has closed the session.
    Closed,
}

struct State {
    phase: Phase,
    /// Whether the session is being closed, so that the end of the connection is no loss.
    closing: bool,
    /// The server of the present connection, or of the last one.
    server: String,
    /// Why the last connection ended, or why each server of the last round failed.
    reason: String,
    /// How many rounds have failed.
    failed_rounds: u64,
    wire: Option<Arc<Wire>>,
    session: i64,
    password: Vec<u8>,
    /// Whether a server that is not read-only gave the session. Only such a session is known to the
    /// other servers.
    seen_read_write: bool,
    timeout: Duration,
    last_zxid: i64,
    last_xid: i32,
    last_sent: Instant,
    /// Requests without an answer yet, the oldest first.
    pending: VecDeque<Pending>,
    /// Credentials without an answer yet, the oldest first. `None` for those that a new connection
    /// sends again: no caller waits for them.
    pending_auths: VecDeque<Option<SyncSender<Vec<u8>>>>,
    /// Whether the server refused credentials. The server then ends the connection, and that loss
    /// is not reported.
    auth_refused: bool,
    /// Credentials that the server accepted: scheme and credentials.
    auths: Vec<(String, Vec<u8>)>,
    watches: Watches,
}

struct Pending {
    xid: i32,
    answer: SyncSender<Vec<u8>>,
    watch: Option<Asked>,
}

/// A watch that a request sets on the server if the request succeeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    what: AskedKind,
    /// The path on the server, with the chroot.
    path: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AskedKind {
    Read(ReadKind),
    Lasting(AddWatchMode),
}

impl Asked {
    /// The watch that comes with a read.
    pub fn by_read(kind: ReadKind, path: &str) -> Asked {
        Asked { what: AskedKind::Read(kind), path: path.to_string() }
    }

    /// A persistent watch, which stays when it fires.
    pub fn lasting(mode: AddWatchMode, path: &str) -> Asked {
        Asked { what: AskedKind::Lasting(mode), path: path.to_string() }
    }

    /// The kind of watch that the server has set, given the error in its answer; `None` if it set
    /// none (`ZooKeeper.ExistsWatchRegistration` and its siblings, 3.9.5).
    fn set_by(&self, error: ErrorCode) -> Option<WatchKind> {
        match (self.what, error) {
            (AskedKind::Read(ReadKind::Exists), ErrorCode::NO_NODE) => Some(WatchKind::Exist),
            (AskedKind::Read(ReadKind::Exists | ReadKind::GetData), ErrorCode::OK) => {
                Some(WatchKind::Data)
            }
            (AskedKind::Read(ReadKind::GetChildren | ReadKind::GetChildren2), ErrorCode::OK) => {
                Some(WatchKind::Child)
            }
            (AskedKind::Lasting(AddWatchMode::Persistent), ErrorCode::OK) => {
                Some(WatchKind::Persistent)
            }
            (AskedKind::Lasting(AddWatchMode::PersistentRecursive), ErrorCode::OK) => {
                Some(WatchKind::PersistentRecursive)
            }
            _ => None,
        }
    }
}

/// A request that waits for its answer.
pub struct Waiting {
    answer: Receiver<Vec<u8>>,
    server: String,
}

impl Connection {
    /// Opens a session on the first server that gives one. `on_event` runs on the connection's
    /// thread and must not call the client.
    ///
    /// # Errors
    /// No server gives a session.
    pub fn open(target: Target, on_event: Listener) -> Result<Connection, ClientError> {
        let timeout = Duration::from_millis(u64::from(target.timeout_ms));
        let state = State {
            phase: Phase::Connecting,
            closing: false,
            server: String::new(),
            reason: String::new(),
            failed_rounds: 0,
            wire: None,
            session: 0,
            password: vec![0; 16],
            seen_read_write: false,
            timeout,
            last_zxid: 0,
            last_xid: 0,
            last_sent: Instant::now(),
            pending: VecDeque::new(),
            pending_auths: VecDeque::new(),
            auth_refused: false,
            auths: Vec::new(),
            watches: Watches::default(),
        };
        let (state, changed) = (Mutex::new(state), Condvar::new());
        let shared = Arc::new(Shared { target, state, changed, on_event });
        let own = shared.clone();
        std::thread::Builder::new()
            .name("zk-connection".to_string())
            .spawn(move || own.run())
            .map_err(|error| shared.unreachable(&error.to_string()))?;
        let connection = Connection { shared };
        drop(connection.connected()?);
        Ok(connection)
    }

    /// The phase that the session is in.
    pub fn phase(&self) -> Phase {
        self.shared.lock().phase
    }

    /// The target of [`Connection::open`].
    pub fn target(&self) -> &Target {
        &self.shared.target
    }

    /// Calls `look` with the session's watches.
    pub fn with_watches<T>(&self, look: impl FnOnce(&mut Watches) -> T) -> T {
        look(&mut self.shared.lock().watches)
    }

    /// Sends the frame of a request, and fills in its xid. `watch` is the watch that the request
    /// sets.
    ///
    /// # Errors
    /// There is no connection, and the servers could not be reached for about one round.
    pub fn send(&self, frame: Vec<u8>, watch: Option<Asked>) -> Result<Waiting, ClientError> {
        let mut waiting = self.send_each(vec![(frame, watch)])?;
        Ok(waiting.pop().expect("each has one"))
    }

    /// Sends several requests in this order, in one write.
    ///
    /// # Errors
    /// The errors of [`Connection::send`].
    pub fn send_each(
        &self,
        requests: Vec<(Vec<u8>, Option<Asked>)>,
    ) -> Result<Vec<Waiting>, ClientError> {
        let mut state = self.connected()?;
        let mut bytes = Vec::new();
        let mut all = Vec::with_capacity(requests.len());
        for (mut frame, watch) in requests {
            state.last_xid = state.last_xid.checked_add(1).unwrap_or(1);
            let xid = state.last_xid;
            frame[4..8].copy_from_slice(&xid.to_be_bytes());
            bytes.extend_from_slice(&frame);
            let (sender, answer) = sync_channel(1);
            state.pending.push_back(Pending { xid, answer: sender, watch });
            all.push(Waiting { answer, server: state.server.clone() });
        }
        state.write(&bytes)?;
        Ok(all)
    }

    /// Waits for an answer: its header and body.
    ///
    /// # Errors
    /// No answer came. A write may still take effect.
    pub fn wait(&self, waiting: &Waiting, limit: Duration) -> Result<Vec<u8>, ClientError> {
        waiting.answer.recv_timeout(limit).map_err(|error| match error {
            RecvTimeoutError::Timeout => ClientError::Silent(waiting.server.clone()),
            RecvTimeoutError::Disconnected => match self.phase() {
                Phase::Expired => ClientError::Expired,
                _ => ClientError::Lost(waiting.server.clone()),
            },
        })
    }

    /// Sends credentials, on this connection and, if the server accepts them, on all later ones.
    pub fn add_auth(
        &self,
        scheme: &str,
        credentials: &[u8],
        limit: Duration,
    ) -> Result<(), ClientError> {
        let mut state = self.connected()?;
        let (sender, answer) = sync_channel(1);
        state.pending_auths.push_back(Some(sender));
        let mut frame = Vec::new();
        Request::Auth { scheme, credentials: Some(credentials) }.encode(XID_AUTH, &mut frame);
        state.write(&frame)?;
        let waiting = Waiting { answer, server: state.server.clone() };
        drop(state);
        let body = self.wait(&waiting, limit)?;
        match ReplyHeader::decode(&mut JuteReader::new(&body))?.error {
            ErrorCode::OK => {
                self.shared.lock().auths.push((scheme.to_string(), credentials.to_vec()));
                Ok(())
            }
            error => Err(ClientError::Refused(error)),
        }
    }

    /// Ends the session, and with it its ephemeral znodes. Waits at most `limit` for the answer.
    pub fn close(&self, limit: Duration) {
        self.shared.lock().closing = true;
        if matches!(self.phase(), Phase::Connected | Phase::ConnectedReadOnly) {
            let mut frame = Vec::new();
            Request::CloseSession.encode(0, &mut frame);
            // If this fails, the session expires on the server after its timeout.
            let _ = self.send(frame, None).and_then(|waiting| self.wait(&waiting, limit));
        }
        self.shared.end(Phase::Closed);
    }

    /// The locked state, once there is a connection.
    fn connected(&self) -> Result<MutexGuard<'_, State>, ClientError> {
        let shared = &self.shared;
        let mut state = shared.lock();
        let deadline = Instant::now() + state.timeout;
        // The present round may have begun long ago, so wait for one more; for a new session, wait
        // for one round only.
        let rounds_max = if state.session == 0 { 0 } else { state.failed_rounds + 1 };
        loop {
            match state.phase {
                Phase::Connected | Phase::ConnectedReadOnly => return Ok(state),
                Phase::Expired => return Err(ClientError::Expired),
                Phase::Closed => return Err(ClientError::Closed),
                Phase::Connecting => {}
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let tried = state.failed_rounds > rounds_max && !shared.target.patient;
            if left.is_zero() || tried || state.closing {
                return Err(shared.unreachable(&state.reason));
            }
            let waited = shared.changed.wait_timeout(state, left);
            state = waited.expect("nothing panics under the lock").0;
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.end(Phase::Closed);
    }
}

impl State {
    /// Writes to the connection. If that fails, ends the connection; its thread will notice.
    fn write(&mut self, frame: &[u8]) -> Result<(), ClientError> {
        self.last_sent = Instant::now();
        let lost = || ClientError::Lost(self.server.clone());
        let wire = self.wire.as_ref().ok_or_else(lost)?;
        wire.write_all(frame).map_err(|_| {
            wire.shutdown();
            lost()
        })
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under the lock")
    }

    fn unreachable(&self, reason: &str) -> ClientError {
        ClientError::Unreachable { servers: self.target.text.clone(), reason: reason.to_string() }
    }

    /// Ends the connection for good; `phase` is the session's last phase.
    fn end(&self, phase: Phase) {
        let mut state = self.lock();
        if state.phase != Phase::Expired {
            state.phase = phase;
        }
        if let Some(wire) = state.wire.take() {
            wire.shutdown();
        }
        state.pending.clear();
        state.pending_auths.clear();
        self.changed.notify_all();
    }

    /// Runs the connection's thread: opens one connection after the other, until the session ends.
    fn run(&self) {
        let mut next_server = 0;
        while let Some((wire, frames)) = self.find(&mut next_server) {
            let reason = self.read(&wire, frames, &mut next_server);
            let mut state = self.lock();
            if state.closing || state.phase == Phase::Closed {
                drop(state);
                return self.end(Phase::Closed);
            }
            state.phase = Phase::Connecting;
            state.reason = reason.to_string();
            let (server, expected) = (state.server.clone(), state.auth_refused);
            drop(state);
            if !expected {
                let reason = reason.to_string();
                (self.on_event)(Event::Lost { server, reason });
            }
            let mut state = self.lock();
            state.wire = None;
            state.pending.clear();
            state.pending_auths.clear();
        }
    }

    /// Tries the servers in turn, round after round, until one accepts the session. `None` if the
    /// session is over.
    fn find(&self, next_server: &mut usize) -> Option<(Arc<Wire>, Frames)> {
        let servers = &self.target.servers;
        let mut pause = RETRY_PAUSE_MIN;
        loop {
            let mut reasons = Vec::with_capacity(servers.len());
            for _ in 0..servers.len() {
                let server = &servers[*next_server % servers.len()];
                *next_server += 1;
                if self.lock().phase != Phase::Connecting {
                    return None;
                }
                let reason =
                    match self.dial(server, CONNECT_LIMIT).and_then(|wire| self.greet(wire)) {
                        Ok((wire, frames, response)) if response.session != 0 => {
                            match self.take(server, &wire, &response) {
                                Ok(event) => {
                                    if !std::mem::take(&mut self.lock().auth_refused) {
                                        (self.on_event)(event);
                                    }
                                    self.announce(response.read_only == Some(true));
                                    return Some((wire, frames));
                                }
                                Err(error) => error.to_string(),
                            }
                        }
                        Ok(_) if self.lock().session == 0 => "it gives no session".to_string(),
                        Ok(_) => {
                            (self.on_event)(Event::Expired);
                            self.end(Phase::Expired);
                            return None;
                        }
                        Err(error) => error.to_string(),
                    };
                reasons.push(match servers.len() {
                    1 => reason,
                    _ => format!("{server}: {reason}"),
                });
            }
            let mut state = self.lock();
            state.reason = reasons.join("; ");
            state.failed_rounds += 1;
            self.changed.notify_all();
            drop(self.changed.wait_timeout(state, pause));
            pause = (pause * 2).min(RETRY_PAUSE_MAX);
        }
    }

    /// Connects to the first address of a server that accepts a connection, and starts TLS if it is
    /// used.
    fn dial(&self, server: &str, limit: Duration) -> std::io::Result<Wire> {
        let mut failure = std::io::Error::other("the name has no address");
        for address in server.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, limit) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_read_timeout(Some(limit))?;
                    stream.set_write_timeout(Some(WRITE_LIMIT))?;
                    let Some(config) = &self.target.security.tls else {
                        return Ok(Wire::plain(stream));
                    };
                    let host = server.rsplit_once(':').map_or(server, |(host, _)| host);
                    let host = host.trim_start_matches('[').trim_end_matches(']');
                    return Wire::secure(stream, host, config.clone());
                }
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Asks the server for the present session, or for a new one if there is none, and logs in if a
    /// user is set.
    fn greet(&self, wire: Wire) -> std::io::Result<(Arc<Wire>, Frames, ConnectResponse)> {
        let state = self.lock();
        let timeout_ms = i32::try_from(self.target.timeout_ms).unwrap_or(i32::MAX);
        let mut request = ConnectRequest {
            last_zxid_seen: state.last_zxid,
            read_only: Some(self.target.read_only),
            ..ConnectRequest::new(timeout_ms)
        };
        if state.seen_read_write {
            (request.session, request.password) = (state.session, state.password.clone());
        }
        drop(state);
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        wire.write_all(&bytes)?;
        let mut frames = Frames::default();
        let body = frames.due(&wire)?;
        let response = ConnectResponse::decode(&body).map_err(|error| no_session(&body, error))?;
        if response.session != 0
            && let Some(login) = &self.target.security.login
        {
            self.log_in(&wire, &mut frames, login)?;
        }
        Ok((Arc::new(wire), frames, response))
    }

    /// Authenticates by SASL with DIGEST-MD5 (`ZooKeeperSaslClient`, 3.9.5). The client's first
    /// token is empty, and the server answers with the first challenge.
    fn log_in(&self, wire: &Wire, frames: &mut Frames, login: &Login) -> std::io::Result<()> {
        let challenge = self.exchange(wire, frames, b"")?;
        let mut chance = [0; 32];
        rustix::rand::getrandom(&mut chance, rustix::rand::GetRandomFlags::empty())?;
        let chance = BASE64.encode(chance);
        let response = zk::sasl::respond(&challenge, &login.user, &login.password, &chance);
        let response = response.ok_or_else(|| {
            std::io::Error::other("SASL: what the server says is no challenge of DIGEST-MD5")
        })?;
        let refused = |error| {
            std::io::Error::other(format!("SASL: the user {:?} is refused ({error})", login.user))
        };
        self.exchange(wire, frames, &response).map(drop).map_err(refused)
    }

    /// Sends one token of SASL, and returns the token in the server's answer.
    fn exchange(&self, wire: &Wire, frames: &mut Frames, token: &[u8]) -> std::io::Result<Vec<u8>> {
        let mut state = self.lock();
        state.last_xid = state.last_xid.checked_add(1).unwrap_or(1);
        let xid = state.last_xid;
        drop(state);
        let mut frame = Vec::new();
        Request::Sasl { token }.encode(xid, &mut frame);
        wire.write_all(&frame)?;
        let body = frames.due(wire)?;
        let mut reader = JuteReader::new(&body);
        let header = ReplyHeader::decode(&mut reader).map_err(std::io::Error::other)?;
        if header.error != ErrorCode::OK {
            return Err(std::io::Error::other(header.error.name()));
        }
        let token = reader.buffer().map_err(std::io::Error::other)?;
        Ok(token.unwrap_or_default().to_vec())
    }

    /// Makes `wire` the present connection, after the server has given the session on it. Sends
    /// credentials and watches before any request.
    fn take(
        &self,
        server: &str,
        wire: &Arc<Wire>,
        response: &ConnectResponse,
    ) -> std::io::Result<Event> {
        let timeout = Duration::from_millis(u64::from(response.timeout_ms.unsigned_abs()));
        let read_only = response.read_only == Some(true);
        let tick_max = if read_only { PROBE_PAUSE_MIN } else { Duration::from_secs(1) };
        let tick = (timeout / 6).clamp(Duration::from_millis(10), tick_max);
        wire.tcp().set_read_timeout(Some(tick))?;
        let mut state = self.lock();
        if state.phase != Phase::Connecting {
            return Err(std::io::Error::other("it is not wanted any more"));
        }
        let state = &mut *state;
        let again = state.session == response.session;
        state.wire = Some(wire.clone());
        state.server = server.to_string();
        state.session = response.session;
        state.password = response.password.to_vec();
        state.timeout = timeout;
        state.seen_read_write |= !read_only;
        for (scheme, credentials) in std::mem::take(&mut state.auths) {
            let mut frame = Vec::new();
            let request = Request::Auth { scheme: &scheme, credentials: Some(&credentials) };
            request.encode(XID_AUTH, &mut frame);
            state.pending_auths.push_back(None);
            // If the write fails, the connection ends, and the next one sends the credentials.
            let _ = state.write(&frame);
            state.auths.push((scheme, credentials));
        }
        for frame in state.watches.restoring(state.last_zxid) {
            let _ = state.write(&frame);
        }
        Ok(Event::Connected {
            server: server.to_string(),
            session: state.session,
            again,
            read_only,
            watch_count: state.watches.count(),
        })
    }

    /// Lets requests through. Called after the listener has got the event about the connection.
    fn announce(&self, read_only: bool) {
        let mut state = self.lock();
        if state.phase == Phase::Connecting {
            state.phase = if read_only { Phase::ConnectedReadOnly } else { Phase::Connected };
        }
        self.changed.notify_all();
    }

    /// Reads until the connection ends, and returns why. A read-only connection also ends when a
    /// server is found that accepts writes; that server is tried next.
    fn read(&self, wire: &Wire, mut frames: Frames, next_server: &mut usize) -> ReadEnd {
        let timeout = self.lock().timeout;
        let mut heard = Instant::now();
        let mut search = Search::start();
        loop {
            match frames.next(&mut &*wire) {
                Ok(Some(body)) => {
                    heard = Instant::now();
                    if let Err(error) = self.on_frame(body) {
                        return ReadEnd::Undecodable(error);
                    }
                }
                Ok(None) => {}
                Err(error) => return ReadEnd::Failed(error),
            }
            // As in `ClientCnxn`: after silence for two thirds of the session's timeout, try the
            // next server while there is time left.
            if heard.elapsed() > timeout * 2 / 3 {
                return ReadEnd::Silent;
            }
            let mut state = self.lock();
            if state.phase == Phase::Closed {
                return ReadEnd::Silent;
            }
            if state.last_sent.elapsed() >= timeout / 3 {
                let mut ping = Vec::new();
                Request::Ping.encode(XID_PING, &mut ping);
                let _ = state.write(&ping);
            }
            let is_read_only = state.phase == Phase::ConnectedReadOnly;
            drop(state);
            if is_read_only && search.is_due() {
                let servers = &self.target.servers;
                let server = &servers[*next_server % servers.len()];
                if self.is_writable(server) {
                    return ReadEnd::Writable(server.clone());
                }
                *next_server += 1;
            }
        }
    }

    /// Asks a server by the four-letter word `isro` whether it accepts writes
    /// (`SendThread.pingRwServer`). Blocks the connection's thread until the answer comes.
    fn is_writable(&self, server: &str) -> bool {
        let ask = || -> std::io::Result<bool> {
            let wire = self.dial(server, PROBE_LIMIT)?;
            wire.write_all(b"isro")?;
            let mut answer = [0; 2];
            (&wire).read_exact(&mut answer)?;
            Ok(answer == *b"rw")
        };
        ask().unwrap_or(false)
    }

    fn on_frame(&self, body: Vec<u8>) -> Result<(), JuteError> {
        let mut reader = JuteReader::new(&body);
        let header = ReplyHeader::decode(&mut reader)?;
        let mut state = self.lock();
        if header.zxid > 0 {
            state.last_zxid = state.last_zxid.max(header.zxid);
        }
        match header.xid {
            XID_PING => {}
            XID_EVENT => {
                let (event_type, event_state) = (reader.int()?, reader.int()?);
                let path = reader.text()?;
                state.watches.on_event(event_type, path);
                drop(state);
                let path = without_chroot(path, &self.target.chroot).to_string();
                let zxid = header.zxid;
                (self.on_event)(Event::Watch { event_type, state: event_state, path, zxid });
            }
            XID_AUTH => {
                if header.error != ErrorCode::OK {
                    // The server ends the connection, so later requests must wait for the next one.
                    state.auth_refused = true;
                    state.phase = Phase::Connecting;
                    state.wire.iter().for_each(|wire| wire.shutdown());
                }
                if let Some(Some(answer)) = state.pending_auths.pop_front() {
                    drop(state);
                    // Ignore an error: the caller may have stopped waiting.
                    let _ = answer.send(body);
                }
            }
            XID_SET_WATCHES => {
                drop(state);
                if header.error != ErrorCode::OK {
                    (self.on_event)(Event::WatchesLost(header.error));
                }
            }
            xid => {
                let pending = state.pending.pop_front().filter(|pending| pending.xid == xid);
                let pending = pending.ok_or_else(|| reader.bad("xid"))?;
                if let Some(watch) = pending.watch
                    && let Some(kind) = watch.set_by(header.error)
                {
                    state.watches.add(kind, &watch.path);
                }
                drop(state);
                let _ = pending.answer.send(body);
            }
        }
        Ok(())
    }
}

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
enum ReadEnd {
    #[error("{0}")]
    Failed(std::io::Error),
    #[error("it does not answer")]
    Silent,
    #[error("{0} can be written to")]
    Writable(String),
    #[error("the answer is not ZooKeeper's: {0}")]
    Undecodable(JuteError),
}

/// When a read-only client looks for a server that accepts writes: soon at first, then less and
/// less often.
struct Search {
    since: Instant,
    pause: Duration,
}

impl Search {
    fn start() -> Search {
        Search { since: Instant::now(), pause: PROBE_PAUSE_MIN }
    }

    fn is_due(&mut self) -> bool {
        let due = self.since.elapsed() >= self.pause;
        if due {
            let pause = (self.pause * 2).min(PROBE_PAUSE_MAX);
            *self = Search { since: Instant::now(), pause };
        }
        due
    }
}

/// A path on the server, without the chroot.
pub fn without_chroot<'a>(path: &'a str, chroot: &str) -> &'a str {
    match path.strip_prefix(chroot) {
        Some("") => "/",
        Some(rest) if rest.starts_with('/') => rest,
        _ => path,
    }
}

/// The error for a connect request that has no decodable answer. A server that is cut off from its
/// ensemble refuses a session with the reply header of an ordinary request
/// (`ReadOnlyRequestProcessor`, 3.9.5).
fn no_session(body: &[u8], error: JuteError) -> std::io::Error {
    let header = ReplyHeader::decode(&mut JuteReader::new(body));
    std::io::Error::other(match header {
        Ok(header) if body.len() == REPLY_HEADER_BYTES && header.error == NOT_READ_ONLY => {
            "it is cut off from its ensemble and opens no session".to_string()
        }
        _ => error.to_string(),
    })
}

/// A server that is cut off refuses a request with this (`KeeperException.Code.NOTREADONLY`).
const NOT_READ_ONLY: ErrorCode = ErrorCode(-119);

/// Assembles frames from the bytes of a connection.
#[derive(Default)]
struct Frames {
    /// Bytes that were read; those before `start` are used up.
    bytes: Vec<u8>,
    start: usize,
}

/// The most bytes that are read at once.
const READ_BYTES: usize = 64 * 1024;

impl Frames {
    /// The body of the next frame; `None` if a read timed out.
    fn next(&mut self, stream: &mut impl Read) -> std::io::Result<Option<Vec<u8>>> {
        loop {
            if let Some(body) = self.take()? {
                return Ok(Some(body));
            }
            let filled = self.bytes.len();
            self.bytes.resize(filled + READ_BYTES, 0);
            let read = stream.read(&mut self.bytes[filled..]);
            self.bytes.truncate(filled + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => return Err(std::io::Error::other("the server closed the connection")),
                Ok(_) => {}
                Err(error) => match error.kind() {
                    std::io::ErrorKind::Interrupted => {}
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => {
                        return Ok(None);
                    }
                    _ => return Err(error),
                },
            }
        }
    }

    /// The body of the next frame; a timeout is an error.
    fn due(&mut self, wire: &Wire) -> std::io::Result<Vec<u8>> {
        self.next(&mut &*wire)?.ok_or_else(|| {
            std::io::Error::new(std::io::ErrorKind::TimedOut, "it accepts and does not answer")
        })
    }

    fn take(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        let rest = &self.bytes[self.start..];
        let Some((body, _)) = frame::split(rest)? else { return Ok(None) };
        let body = body.to_vec();
        self.start += frame::LENGTH_BYTES + body.len();
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        } else if self.start > READ_BYTES {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        Ok(Some(body))
    }
}

#[cfg(test)]
mod tests;
