//! The ZooKeeper face: sockets only. Bytes go into a [`ZkFront`] and come out of it.
//!
//! One connection runtime per core, each a thread with a current-thread tokio runtime and one
//! Front. The acceptor spreads connections over them; a connection stays where it is.

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

/// Bytes read from a socket at once, into one buffer for all connections of a runtime.
const READ_BYTES: usize = 32 * 1024;

/// Connections that are accepted and not yet taken by their runtime. At this limit the acceptor
/// waits, and the kernel's backlog fills.
const ACCEPTED_MAX: usize = 1_024;

/// How long the client of a closed connection may take to notice the end; it may still send
/// meanwhile.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_READS_MAX: usize = 32;

/// How long a client may leave the last encrypted bytes untaken.
const FLUSH: Duration = Duration::from_secs(5);

/// The interval at which a runtime looks at the clock while a client is active.
const TICK: Duration = Duration::from_millis(member::limits::CLOCK_INTERVAL_MS);

/// Lines about clients whose connections or requests end otherwise than they asked, in 10 s.
static NOTICES: Seldom = Seldom::new(100, "lines about clients");

/// Limits on connections (`maxClientCnxns`, `maxCnxns`); 0 is none. As many that were told their
/// end may wait for the client's end beside them.
#[derive(Clone, Copy)]
pub struct ConnectionLimits {
    /// Connections from one address.
    pub per_ip_max: usize,
    /// Connections of all addresses.
    pub total_max: usize,
}

/// The protocol on a port.
#[derive(Clone)]
pub enum Wire {
    /// Plain text.
    Plain,
    /// TLS (`secureClientPort`).
    Secure(Arc<Tls>),
    /// Plain text or TLS (`client.portUnification`).
    Either(Arc<Tls>),
}

/// A message to a runtime.
pub enum ToRuntime {
    /// A connection that no reactor watches yet: the reactor of the acceptor's runtime would
    /// otherwise wake up for each packet, only to wake the connection's runtime.
    Accept(std::net::TcpStream, Admission, Wire),
    /// Asks for the counters.
    Report(oneshot::Sender<ZkFrontReport>),
    /// Asks for the ids of all connections.
    ConnectionIds(oneshot::Sender<Vec<ConnectionId>>),
    /// Asks for a report of each of these connections.
    Connections(Vec<ConnectionId>, oneshot::Sender<Vec<ConnectionReport>>),
    /// Asks for a page of the watches, from this cursor on.
    Watches(WatchCursor, oneshot::Sender<WatchPage>),
    /// Asks to reset the counters.
    Reset(Reset, oneshot::Sender<()>),
    /// Brings the answer to a four-letter word.
    Answer(ConnectionId, String),
}

/// A four-letter word that a client asked.
pub struct Question {
    /// The runtime of the client's connection, by its index.
    pub runtime: usize,
    /// The connection to answer.
    pub connection: ConnectionId,
    /// The word.
    pub word: Word,
}

/// The mailboxes of the runtimes, and the state that they share.
pub struct Face {
    /// The mailboxes, in the order of the Fronts.
    pub runtimes: Vec<mpsc::Sender<ToRuntime>>,
    /// Connections that were closed because the limit was reached.
    pub rejected: AtomicU64,
    /// TLS, if some port speaks it.
    pub tls: Option<Arc<Tls>>,
    questions: mpsc::Sender<Question>,
    connections: Arc<Connections>,
    admitted: Arc<Mutex<Admitted>>,
    /// Connections whose client was told the end and has not ended its own side.
    lingering: Arc<Mutex<Admitted>>,
}

/// Connections by address, and by whether they came to the port for TLS: ZooKeeper counts each port
/// separately against `maxClientCnxns`.
type Admitted = HashMap<(IpAddr, bool), usize>;

/// One admitted connection. Dropping it makes room for another.
pub struct Admission {
    from: (IpAddr, bool),
    limits: ConnectionLimits,
    /// Its place among the connections of all faces.
    held: Option<Held>,
    /// The counts that contain it: of open connections, or of lingering ones.
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

/// Counts one more connection, unless that is beyond the limits.
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

/// Starts one runtime per Front. The runtimes end with the process. `tls` is given if some port
/// speaks it.
///
/// # Errors
/// A thread or a runtime cannot be made.
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

/// Spreads the connections of one port over the runtimes.
#[derive(Clone)]
pub struct Acceptor {
    face: Arc<Face>,
    next: usize,
}

impl Acceptor {
    /// The handle to ask the runtimes.
    pub fn face(&self) -> Arc<Face> {
        self.face.clone()
    }

    /// Accepts connections until the task is dropped.
    pub async fn run(&mut self, listener: TcpListener, wire: Wire, limits: ConnectionLimits) {
        let is_secure = matches!(wire, Wire::Secure(_));
        loop {
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    // The process is most likely out of file descriptors: the next one may succeed.
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

/// One connection runtime.
struct Runtime {
    handle: FrontHandle,
    front: RefCell<ZkFront>,
    sockets: RefCell<HashMap<ConnectionId, Rc<Socket>>>,
    next_connection: Cell<u64>,
    /// The buffer for reads of all sockets.
    scratch: RefCell<Box<[u8]>>,
    /// Notified when a socket took so many bytes that its connection may go on.
    has_room: Notify,
    /// Whether the next look at the clock is further off than [`TICK`].
    rests: Cell<bool>,
    /// Notified when the next look at the clock became due earlier while the runtime rested.
    stirred: Notify,
    face: Arc<Face>,
}

/// The writing side of a connection.
struct Socket {
    write: OwnedWriteHalf,
    transport: RefCell<Transport>,
    wake: Notify,
    /// Whether the kernel's buffer is full: the task waits until it is not.
    blocked: Cell<bool>,
    /// Whether the Front wants no input for now: the task waits until it is woken.
    paused: Cell<bool>,
    /// Whether everything is written and the connection is over.
    done: Cell<bool>,
}

/// An address as Java prints it (`InetAddress.getHostAddress`): clients see it in whoAmI and
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

/// Runs the Front when a socket has taken enough bytes for its connection to go on, or when the
/// Front left some of its work for later. This needs a turn of its own: a client that takes bytes
/// as fast as they come would block the other clients.
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

/// Lets the Front look at the clock when that is due. Activity wakes a runtime that rests, since
/// the next look is then due earlier.
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
        // Connection ids are unique within this boot: the runtime's id is in the upper bits.
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

    /// Takes a connection, or answers a question. The asker may be gone.
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
        // This fails only if the system cannot watch one more socket.
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

    /// Reads what the socket has and appends it to the Front's input.
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

    /// Sends the bytes of a handshake, and tells the Front the client's identity once it is known.
    fn go_on_secure(&self, id: ConnectionId, socket: &Socket) {
        let mut transport = socket.transport.borrow_mut();
        let Transport::Secure(stream) = &mut *transport else { return };
        let news = stream.take_news();
        match transport.flush(&socket.write) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                socket.blocked.set(true)
            }
            // A read of the socket shows if it is gone.
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

    /// Ends a connection that TLS refuses, after the alert was sent.
    fn refuse(&self, tls: &Tls, socket: &Socket, cause: &str) {
        let peer = socket.write.peer_addr().map(|peer| (peer.ip().to_canonical(), peer.port()));
        let peer = peer.map_or("that is gone".to_string(), |(ip, port)| format!("{ip}:{port}"));
        tls.log_refusal(&peer, cause);
        socket.done.set(true);
    }

    /// Reads into the buffer that all connections share: an own buffer would be most of the memory
    /// of an idle connection.
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

    /// Runs the Front until it has nothing more to do, and passes on its output.
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
            // Events of everything that this state shows were in the mail before the lock was
            // released.
            for delivery in mail.take() {
                front.on_delivery(delivery);
            }
            front.run_reads(&machine);
            drop(machine);
            front.resume();
        }
        // The tasks of other sockets have their turn first.
        if front.is_behind() {
            self.has_room.notify_one();
        }
        // Without a watch here, no client waits for changes by others.
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
                // Too many words are waiting for an answer: this connection is closed.
                self.front.borrow_mut().answer_four_letter_word(connection, "");
                self.write(connection);
            }
        }
        for id in output.dirty {
            self.write(id);
        }
    }

    /// Writes the output of a connection, as much as the socket takes.
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

    /// Ends the writing side and reads what the client still sends: if a socket is closed with
    /// unread bytes, the kernel resets the connection, and the client may lose the last reply.
    async fn linger(&self, socket: &Socket, read: &mut OwnedReadHalf, mut admission: Admission) {
        if let Transport::Secure(stream) = &mut *socket.transport.borrow_mut() {
            stream.end();
        }
        let _ = tokio::time::timeout(FLUSH, flush(socket)).await;
        // A client that is told the end may open its next connection at once. Without room to
        // linger, the connection is closed at once.
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
        // A client that keeps sending, or that does not close, is cut off.
        let _ = tokio::time::timeout(LINGER, drain).await;
    }
}

/// Writes all encrypted bytes, or as many as the socket takes before it is gone.
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

/// A request took longer than is configured.
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
