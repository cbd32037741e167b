//! The face for ZooKeeper clients. This module has the sockets: it reads bytes into a [`ZkFront`]
//! and writes the bytes that the Front returns.
//!
//! There is a connection runtime for each core, at most 16 in all. A runtime is a thread with a
//! current-thread tokio runtime and a Front. The acceptor hands connections to the runtimes in
//! turn, and a connection stays with its runtime.

mod tls_stream;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use machine::ConnectionId;
use member::ZkFront;
use member::fronts::zk::{
    AuditResult, Now, Reset, SlowRequest, WatchCursor, WatchPage, ZkFrontReport,
};
use node::FrontHandle;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::LocalSet;
use zk::four_letter::{ConnectionReport, Word};

use crate::client_tls::Tls;
use crate::connections::{self, Connections, Held};
use crate::logging::Seldom;
use tls_stream::{Handshaken, Transport};

/// How many bytes are read from a socket at once, into a buffer that all connections of a runtime
/// share.
const READ_BYTES: usize = 32 * 1024;

/// How many accepted connections may wait until their runtime takes them. At this limit the
/// acceptor waits, and the kernel's backlog fills.
const ACCEPTED_MAX: usize = 1_024;

/// How long to wait for the client to close its side after the server has closed its own. Meanwhile
/// the server reads what the client still sends, at most [`LINGER_READS_MAX`] times.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_READS_MAX: usize = 32;

/// How long a client may take to receive the last encrypted bytes of a connection that the server
/// closes.
const FLUSH: Duration = Duration::from_secs(5);

/// How often a runtime tells its Front the time while a client is active.
const TICK: Duration = Duration::from_millis(member::limits::CLOCK_INTERVAL_MS);

/// Limits the log lines about connections or requests that end in another way than the client asked
/// for, to 100 in 10 s.
static NOTICES: Seldom = Seldom::new(100, "lines about clients");

/// Limits on open connections (`maxClientCnxns`, `maxCnxns`); 0 means no limit. The same limits
/// apply again, separately, to connections that the server has closed and whose clients have not.
#[derive(Clone, Copy)]
pub struct ConnectionLimits {
    /// The most connections from one address.
    pub per_ip_max: usize,
    /// The most connections from all addresses.
    pub total_max: usize,
}

/// Which protocol a port expects.
#[derive(Clone)]
pub enum Wire {
    /// ZooKeeper's protocol without TLS.
    Plain,
    /// ZooKeeper's protocol over TLS (`secureClientPort`).
    Secure(Arc<Tls>),
    /// Either; the first byte decides (`client.portUnification`).
    Either(Arc<Tls>),
}

/// A message to a connection runtime. Answers come through the sender in the message.
pub enum ToRuntime {
    /// A new connection, not yet registered with any reactor: the acceptor's reactor would
    /// otherwise wake up for each packet, only to wake the runtime of the connection.
    Accept(std::net::TcpStream, Admission, Wire),
    /// Asks for the counters.
    Report(oneshot::Sender<ZkFrontReport>),
    /// Asks for the ids of all connections.
    ConnectionIds(oneshot::Sender<Vec<ConnectionId>>),
    /// Asks for a report about each of these connections.
    Connections(Vec<ConnectionId>, oneshot::Sender<Vec<ConnectionReport>>),
    /// Asks for a page of the watches that begins at this cursor.
    Watches(WatchCursor, oneshot::Sender<WatchPage>),
    /// Asks to reset the counters.
    Reset(Reset, oneshot::Sender<()>),
    /// The answer to a four-letter word that this connection sent.
    Answer(ConnectionId, String),
}

/// A four-letter word that a client has sent, on its way to the monitor.
pub struct Question {
    /// The index of the runtime that has the connection.
    pub runtime: usize,
    /// The connection that sent the word.
    pub connection: ConnectionId,
    /// The word.
    pub word: Word,
}

/// The ZooKeeper face: the mailboxes of its runtimes, and the state that they share.
pub struct Face {
    /// The runtimes' mailboxes, in the order of the Fronts.
    pub runtimes: Vec<mpsc::Sender<ToRuntime>>,
    /// How many connections were closed at once because of a limit.
    pub rejected: AtomicU64,
    /// The TLS settings; `None` if no port uses TLS.
    pub tls: Option<Arc<Tls>>,
    questions: mpsc::Sender<Question>,
    connections: Arc<Connections>,
    admitted: Arc<Mutex<Admitted>>,
    /// The connections that the server has closed and whose clients have not.
    lingering: Arc<Mutex<Admitted>>,
}

/// Numbers of connections, by the client's address and by whether they came to the TLS port:
/// ZooKeeper applies `maxClientCnxns` to each port separately.
type Admitted = HashMap<(IpAddr, bool), usize>;

/// A counted connection. It is counted until this is dropped.
pub struct Admission {
    from: (IpAddr, bool),
    limits: ConnectionLimits,
    /// The connection's count among those of all faces; `None` for a lingering connection.
    held: Option<Held>,
    /// The counts that include this connection: those of open connections, or of lingering ones.
    counted: Arc<Mutex<Admitted>>,
}

impl Drop for Admission {
    fn drop(&mut self) {
        let mut counted = self.counted.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(count) = counted.get_mut(&self.from) {
            *count -= 1;
            if *count == 0 {
                counted.remove(&self.from);
            }
        }
    }
}

/// Counts one more connection; `None` if that would exceed a limit.
fn admit(
    counted: &Arc<Mutex<Admitted>>,
    from: (IpAddr, bool),
    limits: ConnectionLimits,
) -> Option<Admission> {
    let mut counts = counted.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let total: usize = if limits.total_max == 0 { 0 } else { counts.values().sum() };
    let count = counts.entry(from).or_insert(0);
    let over = (limits.per_ip_max != 0 && *count >= limits.per_ip_max)
        || (limits.total_max != 0 && total >= limits.total_max);
    if over {
        if *count == 0 {
            counts.remove(&from);
        }
        return None;
    }
    *count += 1;
    Some(Admission { from, limits, held: None, counted: counted.clone() })
}

/// Starts a runtime for each Front. The runtimes end with the process. `tls` is `None` if no port
/// uses TLS.
///
/// # Errors
/// A thread or a runtime cannot be started.
pub fn start(
    fronts: Vec<(FrontHandle, ZkFront)>,
    questions: mpsc::Sender<Question>,
    (connections, tls): (Arc<Connections>, Option<Arc<Tls>>),
) -> std::io::Result<Acceptor> {
    let mut runtimes = Vec::new();
    let mut receivers = Vec::new();
    for _ in &fronts {
        let (sender, receiver) = mpsc::channel(ACCEPTED_MAX);
        runtimes.push(sender);
        receivers.push(receiver);
    }
    let face = Arc::new(Face {
        runtimes,
        rejected: AtomicU64::new(0),
        questions,
        tls,
        connections,
        admitted: Arc::default(),
        lingering: Arc::default(),
    });
    for ((handle, front), receiver) in fronts.into_iter().zip(receivers) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let face = face.clone();
        let name = format!("front-{}", handle.id().0);
        std::thread::Builder::new().name(name).spawn(move || {
            let runtime_state = Rc::new(Runtime::new(handle, front, face));
            let local = LocalSet::new();
            local.block_on(&runtime, run(runtime_state, receiver));
        })?;
    }
    Ok(Acceptor { face, next: 0 })
}

/// Hands the connections of one port to the runtimes in turn.
#[derive(Clone)]
pub struct Acceptor {
    face: Arc<Face>,
    next: usize,
}

impl Acceptor {
    /// The face, for sending messages to the runtimes.
    pub fn face(&self) -> Arc<Face> {
        self.face.clone()
    }

    /// Accepts connections until the future is dropped.
    pub async fn run(&mut self, listener: TcpListener, wire: Wire, limits: ConnectionLimits) {
        let is_secure = matches!(wire, Wire::Secure(_));
        loop {
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Most likely the process has no descriptor left; a later attempt may succeed.
                    connections::log_not_accepted(connections::Face::ZooKeeper, &error);
                    tokio::time::sleep(TICK).await;
                    continue;
                }
            };
            let ip = peer.ip().to_canonical();
            let place = connections::Face::ZooKeeper;
            let Ok(held) = self.face.connections.admit(place, &stream, peer) else {
                self.face.rejected.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            let Some(mut admission) = admit(&self.face.admitted, (ip, is_secure), limits) else {
                self.face.rejected.fetch_add(1, Ordering::Relaxed);
                connections::log_closed(ip, &"too many connections from one address");
                continue;
            };
            admission.held = Some(held);
            let Ok(stream) = stream.into_std() else { continue };
            self.next = (self.next + 1) % self.face.runtimes.len();
            let message = ToRuntime::Accept(stream, admission, wire.clone());
            if self.face.runtimes[self.next].send(message).await.is_err() {
                return;
            }
        }
    }
}

/// A connection runtime: a Front and its connections.
struct Runtime {
    handle: FrontHandle,
    front: RefCell<ZkFront>,
    sockets: RefCell<HashMap<ConnectionId, Rc<Socket>>>,
    next_connection: Cell<u64>,
    /// The buffer into which all sockets are read.
    scratch: RefCell<Box<[u8]>>,
    /// Notified when a connection may continue because its socket has taken enough bytes, or when
    /// the Front has more to do.
    has_room: Notify,
    /// Whether the pause until the next [`tick`] is longer than [`TICK`].
    rests: Cell<bool>,
    /// Notified when the Front needs an earlier tick during such a pause.
    stirred: Notify,
    face: Arc<Face>,
}

/// The sending side of a connection.
struct Socket {
    write: OwnedWriteHalf,
    transport: RefCell<Transport>,
    wake: Notify,
    /// Whether the kernel's send buffer is full. The connection's task then waits until it is not.
    blocked: Cell<bool>,
    /// Whether the Front takes no input of this connection now. The task then waits until it is
    /// woken.
    paused: Cell<bool>,
    /// Whether the connection is over and everything is written.
    done: Cell<bool>,
}

/// An address as Java prints it (`InetAddress.getHostAddress`). Clients see this form in whoAmI and
/// `cons`, and use it in ACLs.
pub fn host_address(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => ip.segments().map(|segment| format!("{segment:x}")).join(":"),
    }
}

async fn run(runtime: Rc<Runtime>, mut receiver: mpsc::Receiver<ToRuntime>) {
    tokio::task::spawn_local(deliver(runtime.clone()));
    tokio::task::spawn_local(go_on(runtime.clone()));
    tokio::task::spawn_local(tick(runtime.clone()));
    while let Some(message) = receiver.recv().await {
        runtime.on_message(message);
    }
}

/// Runs the Front when `has_room` is notified. This is a task of its own, so that a client that
/// takes bytes as fast as they come does not block the other clients.
async fn go_on(runtime: Rc<Runtime>) {
    loop {
        runtime.has_room.notified().await;
        runtime.drive();
    }
}

async fn deliver(runtime: Rc<Runtime>) {
    loop {
        runtime.handle.mail().arrived().await;
        runtime.drive();
    }
}

/// Tells the Front the time when it needs to know. Activity interrupts a long pause if the next
/// tick is then due earlier.
async fn tick(runtime: Rc<Runtime>) {
    loop {
        let wait = Duration::from_millis(runtime.front.borrow().tick_ms());
        runtime.rests.set(wait > TICK);
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = runtime.stirred.notified() => continue,
        }
        runtime.front.borrow_mut().set_now(runtime.now());
        runtime.front.borrow_mut().on_tick();
        runtime.drive();
    }
}

impl Runtime {
    fn new(handle: FrontHandle, front: ZkFront, face: Arc<Face>) -> Runtime {
        // Connection ids are unique within a run of the process, because their upper 16 bits have
        // the runtime's number.
        let first = u64::from(handle.id().0) << 48 | 1;
        Runtime {
            handle,
            front: RefCell::new(front),
            sockets: RefCell::new(HashMap::new()),
            next_connection: Cell::new(first),
            scratch: RefCell::new(vec![0; READ_BYTES].into()),
            has_room: Notify::new(),
            rests: Cell::new(false),
            stirred: Notify::new(),
            face,
        }
    }

    /// Accepts a connection, or answers a question. Errors are ignored, since the asker may be
    /// gone.
    fn on_message(self: &Rc<Self>, message: ToRuntime) {
        let mut front = self.front.borrow_mut();
        match message {
            ToRuntime::Accept(stream, admission, wire) => {
                drop(front);
                self.accept(stream, admission, wire);
            }
            ToRuntime::Report(asker) => drop(asker.send(front.report())),
            ToRuntime::ConnectionIds(asker) => drop(asker.send(front.connection_ids())),
            ToRuntime::Connections(ids, asker) => {
                drop(asker.send(front.connection_reports(&ids)));
            }
            ToRuntime::Watches(from, asker) => drop(asker.send(front.watch_page(from))),
            ToRuntime::Reset(reset, asker) => {
                front.reset(reset);
                let _ = asker.send(());
            }
            ToRuntime::Answer(id, text) => {
                front.answer_four_letter_word(id, &text);
                drop(front);
                self.drive();
            }
        }
    }

    fn now(&self) -> Now {
        Now {
            monotonic_ms: self.handle.monotonic_ms(),
            wall_ms: node::wall_ms(),
            contact_at_ms: self.handle.contact_at_ms(),
        }
    }

    fn accept(self: &Rc<Self>, stream: std::net::TcpStream, admission: Admission, wire: Wire) {
        // This fails only if the system cannot watch another socket.
        let Ok(stream) = TcpStream::from_std(stream) else { return };
        let Ok(peer) = stream.peer_addr() else { return };
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!("{peer}: {error}");
        }
        let id = ConnectionId(self.next_connection.get());
        self.next_connection.set(id.0 + 1);
        let transport = match wire {
            Wire::Plain => Transport::Plain,
            Wire::Secure(tls) => Transport::secure(&tls),
            Wire::Either(tls) => Transport::Undecided(tls),
        };
        let (read, write) = stream.into_split();
        let socket = Rc::new(Socket {
            write,
            transport: RefCell::new(transport),
            wake: Notify::new(),
            blocked: Cell::new(false),
            paused: Cell::new(false),
            done: Cell::new(false),
        });
        self.sockets.borrow_mut().insert(id, socket.clone());
        let ip = peer.ip().to_canonical();
        let host = host_address(ip);
        let shown = match ip {
            IpAddr::V4(_) => format!("{host}:{}", peer.port()),
            IpAddr::V6(_) => format!("[{host}]:{}", peer.port()),
        };
        {
            let mut front = self.front.borrow_mut();
            front.set_now(self.now());
            front.on_accept(id, &host, shown);
        }
        let runtime = self.clone();
        tokio::task::spawn_local(async move {
            runtime.run_socket(id, socket, read, admission).await;
            runtime.sockets.borrow_mut().remove(&id);
            runtime.front.borrow_mut().on_closed(id);
            runtime.drive();
        });
    }

    async fn run_socket(
        self: &Rc<Self>,
        id: ConnectionId,
        socket: Rc<Socket>,
        mut read: OwnedReadHalf,
        admission: Admission,
    ) {
        while !socket.done.get() {
            let wants_input = self.front.borrow_mut().input(id).is_some();
            socket.paused.set(!wants_input);
            tokio::select! {
                biased;
                () = socket.wake.notified() => {}
                result = socket.write.writable(), if socket.blocked.get() => {
                    if result.is_err() {
                        return;
                    }
                    socket.blocked.set(false);
                    self.write(id);
                    self.drive();
                }
                result = self.read(id, &socket, &mut read), if wants_input => match result {
                    Ok(0) | Err(_) => return,
                    Ok(_) => {
                        self.go_on_secure(id, &socket);
                        self.front.borrow_mut().set_now(self.now());
                        self.front.borrow_mut().on_input(id);
                        self.drive();
                    }
                },
            }
        }
        self.linger(&socket, &mut read, admission).await;
    }

    /// Reads what the socket has, and appends it to the Front's input.
    async fn read(
        &self,
        id: ConnectionId,
        socket: &Socket,
        read: &mut OwnedReadHalf,
    ) -> std::io::Result<usize> {
        poll_fn(|context| {
            let mut front = self.front.borrow_mut();
            let Some(input) = front.input(id) else { return Poll::Pending };
            let mut transport = socket.transport.borrow_mut();
            if transport.is_ended() {
                return Poll::Ready(Ok(0));
            }
            self.poll_read(read, context, |bytes| transport.take(bytes, input))
        })
        .await
    }

    /// Sends the bytes of a TLS handshake. Once the handshake is done, tells the Front which
    /// identity the client's certificate proves.
    fn go_on_secure(&self, id: ConnectionId, socket: &Socket) {
        let mut transport = socket.transport.borrow_mut();
        let Transport::Secure(stream) = &mut *transport else { return };
        let news = stream.take_news();
        match transport.flush(&socket.write) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                socket.blocked.set(true)
            }
            // If the socket is gone, the next read shows it.
            _ => {}
        }
        let Some(tls) = &self.face.tls else { return };
        match news {
            None | Some(Handshaken::Done(None)) => {}
            Some(Handshaken::Done(Some(certificate))) => match tls.identity(&certificate) {
                Some((name, schemes)) => {
                    let proved: Vec<_> = schemes.iter().map(|scheme| (*scheme, &*name)).collect();
                    self.front.borrow_mut().on_identified(id, &proved);
                }
                None => self.refuse(tls, socket, "its certificate has no name"),
            },
            Some(Handshaken::Failed(cause)) => self.refuse(tls, socket, &cause),
        }
    }

    /// Closes a connection that TLS refuses. The alert was already sent.
    fn refuse(&self, tls: &Tls, socket: &Socket, cause: &str) {
        let peer = socket.write.peer_addr().map(|peer| (peer.ip().to_canonical(), peer.port()));
        let peer = peer.map_or("that is gone".to_string(), |(ip, port)| format!("{ip}:{port}"));
        tls.log_refusal(&peer, cause);
        socket.done.set(true);
    }

    /// Reads into the buffer that all connections of the runtime share. If each connection had a
    /// buffer, an idle connection would use mostly buffer memory.
    fn poll_read(
        &self,
        read: &mut OwnedReadHalf,
        context: &mut Context<'_>,
        take: impl FnOnce(&[u8]),
    ) -> Poll<std::io::Result<usize>> {
        let mut scratch = self.scratch.borrow_mut();
        let mut buffer = ReadBuf::new(&mut scratch);
        ready!(Pin::new(read).poll_read(context, &mut buffer))?;
        take(buffer.filled());
        Poll::Ready(Ok(buffer.filled().len()))
    }

    /// Runs the Front until it has nothing to do, and distributes its output.
    fn drive(self: &Rc<Self>) {
        let mut front = self.front.borrow_mut();
        let mail = self.handle.mail();
        front.set_now(self.now());
        for delivery in mail.take() {
            front.on_delivery(delivery);
        }
        front.resume();
        while front.is_runnable() {
            let machine = self.handle.machine().read();
            // Whatever this state shows, the events about it were put into the mail before the lock
            // was released.
            for delivery in mail.take() {
                front.on_delivery(delivery);
            }
            front.run_reads(&machine);
            drop(machine);
            front.resume();
        }
        // Tasks of other sockets get their turn first.
        if front.is_behind() {
            self.has_room.notify_one();
        }
        // Unless a client here has a watch, none waits for changes that others make.
        mail.set_wakes_always(front.has_watches());
        if self.rests.get() && Duration::from_millis(front.tick_ms()) <= TICK {
            self.rests.set(false);
            self.stirred.notify_one();
        }
        let output = front.take_output();
        drop(front);
        if !output.to_loop.is_empty() {
            self.handle.send(output.to_loop);
        }
        for notice in output.notices {
            NOTICES.log(|| tracing::info!("client {}: {}", notice.peer, notice.what));
        }
        for event in output.audits {
            match event.result {
                AuditResult::Failure => tracing::error!(target: "audit", "AUDIT: {event}"),
                _ => tracing::info!(target: "audit", "AUDIT: {event}"),
            }
        }
        for slow in output.slow {
            warn_of_slow(&slow);
        }
        for (connection, word) in output.words {
            let question = Question { runtime: self.handle.id().0 as usize, connection, word };
            if self.face.questions.try_send(question).is_err() {
                // Too many words wait for an answer, so this connection is closed.
                self.front.borrow_mut().answer_four_letter_word(connection, "");
                self.write(connection);
            }
        }
        for id in output.dirty {
            self.write(id);
        }
    }

    /// Writes as much of a connection's output as the socket takes.
    fn write(&self, id: ConnectionId) {
        let Some(socket) = self.sockets.borrow().get(&id).cloned() else { return };
        let mut front = self.front.borrow_mut();
        loop {
            let Some((bytes, closing)) = front.pending_output(id) else { return };
            let mut transport = socket.transport.borrow_mut();
            if bytes.is_empty() && closing {
                socket.done.set(true);
                socket.wake.notify_one();
                break;
            }
            if socket.blocked.get() {
                break;
            }
            let written = match bytes {
                [] => transport.flush(&socket.write).map(|()| 0),
                bytes => transport.try_write(&socket.write, bytes),
            };
            match written {
                Ok(0) => break,
                Ok(count) => front.on_written(id, count),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    socket.blocked.set(true);
                    socket.wake.notify_one();
                    break;
                }
                Err(_) => {
                    socket.done.set(true);
                    socket.wake.notify_one();
                    break;
                }
            }
        }
        if socket.paused.get() && front.input(id).is_some() {
            socket.wake.notify_one();
        }
        if front.may_go_on() {
            self.has_room.notify_one();
        }
    }

    /// Closes the sending side, and reads what the client still sends: if a socket is closed while
    /// it has unread bytes, the kernel resets the connection, and the client may lose the last
    /// reply.
    async fn linger(&self, socket: &Socket, read: &mut OwnedReadHalf, mut admission: Admission) {
        if let Transport::Secure(stream) = &mut *socket.transport.borrow_mut() {
            stream.end();
        }
        let _ = tokio::time::timeout(FLUSH, flush(socket)).await;
        // The connection is no longer counted as open, because its client may reconnect as soon as
        // it notices the end. If too many connections linger, this one is closed without lingering.
        let lingering = admit(&self.face.lingering, admission.from, admission.limits);
        let _held = admission.held.take();
        drop(admission);
        if lingering.is_none() {
            return;
        }
        if rustix::net::shutdown(socket.write.as_ref(), rustix::net::Shutdown::Write).is_err() {
            return;
        }
        let drain = async {
            for _ in 0..LINGER_READS_MAX {
                let count = poll_fn(|context| self.poll_read(read, context, |_| ())).await;
                if !matches!(count, Ok(count) if count > 0) {
                    return;
                }
            }
        };
        // A client that keeps sending, or does not close its side, is disconnected after this.
        let _ = tokio::time::timeout(LINGER, drain).await;
    }
}

/// Writes all encrypted bytes, unless the socket fails first.
async fn flush(socket: &Socket) {
    loop {
        let flushed = socket.transport.borrow_mut().flush(&socket.write);
        match flushed {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            _ => return,
        }
        if socket.write.writable().await.is_err() {
            return;
        }
    }
}

/// Logs a request that took longer than the configured limit.
fn warn_of_slow(slow: &SlowRequest) {
    let SlowRequest { peer, session, xid, operation, path, elapsed_ms, not_told } = slow;
    let others = match not_told {
        0 => String::new(),
        count => format!("; {count} others since the last that was told"),
    };
    tracing::warn!(
        "slow request: {operation} {path} took {elapsed_ms} ms, session {session:#x}, xid {xid}, \
         client {peer}{others}"
    );
}
