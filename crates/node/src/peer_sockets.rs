//! The links between members: sockets, handshakes, beats, and the queues of frames to send.
//!
//! Each server dials every other one, once for each of two channels, and dials again whenever a
//! link ends. A link carries frames only from the dialler; the other way it carries only *beats*,
//! empty frames that show that the sender is alive. So each end notices a dead link. The receiver
//! of inputs gets them in order: the link is up, its frames, the link is down. At most one link of
//! a channel goes to a member, and one comes from it; a new link is made only after the old one was
//! reported down.
//!
//! The list of the other servers may be replaced while the links run. A server that has left the
//! list is dialled no more, and its own dials are refused. Its links stay for a while. A removed
//! member that dials gets the answer that it is retired, and ends. A member that knows no leader
//! takes servers of its ensemble that it does not know: the list may have changed while it was
//! away.
//!
//! All of this runs on one thread, with two exceptions. A sending thread writes to the socket
//! itself if the socket has space, since a wake-up costs more. And the beats have their own thread.
//! A sender never waits: a frame without a link, or without space in the link's queue, is dropped
//! and counted, as a network might do.

mod handshake;
mod listed;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Display;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use machine::{MemberId, StatedLevel};
use member::Hello;
use member::limits::PEER_BODY_BYTES_MAX;
use member::membership::hello::HandshakeVersion;
use member::peer::PeerFrame;
use parking_lot::{Condvar, Mutex};
use rustls::pki_types::{CertificateDer, ServerName};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{timeout, timeout_at};
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::limits::{
    ADDRESSES_TRIED_MAX, HANDSHAKE_LIMIT, HANDSHAKES_MAX, LINK_LASTED, PEER_ACCEPT_REST, PEER_BEAT,
    PEER_BEATS_BULK, PEER_COMPLAINT_INTERVAL, PEER_COMPLAINTS_MAX, PEER_INPUT_REST,
    PEER_QUEUE_BYTES_MAX, PEER_QUEUE_FRAMES_MAX, PEER_SILENT_BEATS_MAX, PEER_WRITE_BYTES_MAX,
    PEER_WRITE_FRAMES_MAX, REDIAL_MAX, REDIAL_MIN,
};
use crate::peer_address::{PeerAddress, addresses_of, names};
use crate::peer_frame::{FrameBatch, FrameReader};
use crate::peer_hello::{Channel, Handshake, Peer, Refusal};
use crate::peer_key::SharedNumber;
use crate::peer_traffic::{PeerTraffic, Traffic};
pub(crate) use handshake::Prover;
use handshake::{Dialler, Exchanges, HandshakeStream, Met, WrongSecrets};
use listed::{Departures, Listed, ServerList};

/// The kind of a beat, which only shows that its sender is alive. `member` has no kind 0.
const KIND_BEAT: u8 = 0;

/// A server of the list, from the configuration or from the replicated state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerServer {
    /// The server's number.
    pub number: u64,
    /// The server's addresses, tried in turn. With TLS a certificate of the server is for the host
    /// of one of them.
    pub addresses: Vec<PeerAddress>,
    /// The server's peer URLs, as the list of servers states them. A server that does not know its
    /// number is found by them.
    pub peer_urls: Vec<String>,
}

/// How members prove to each other who they are; equal on all of them.
#[derive(Clone)]
pub enum PeerAuth {
    /// No proof: any program that reaches the port is believed.
    None,
    /// By a shared secret.
    Secret(Arc<PeerSecret>),
    /// By certificates, which both sides check. They are read again for each link, so that new
    /// certificates are used without a restart.
    Tls(Arc<dyn Fn() -> PeerTls + Send + Sync>),
}

/// A secret that all servers of an ensemble share.
pub struct PeerSecret {
    bytes: Vec<u8>,
    number: SharedNumber,
    may_be_old: bool,
}

impl PeerSecret {
    /// A secret, which may be any bytes. With `may_be_old`, version 1 of the handshake is accepted
    /// until level 4 is reached. Version 1 gives every dialler a proof that allows it to try
    /// secrets offline.
    pub fn new(bytes: Vec<u8>, may_be_old: bool) -> PeerSecret {
        let number = SharedNumber::of(&bytes);
        PeerSecret { bytes, number, may_be_old }
    }
}

/// The settings of TLS between members.
#[derive(Clone)]
pub struct PeerTls {
    /// For links that this server dials.
    pub client: Arc<rustls::ClientConfig>,
    /// For links that this server accepts.
    pub server: Arc<rustls::ServerConfig>,
    /// Checks that a dialler's certificate is for one of the hosts that are configured for the
    /// server that the dialler claims to be. `None`: the owner of any trusted certificate may be
    /// any server. (`client` itself checks the host that this server dials.)
    pub names_host: Option<NamesHost>,
}

/// Returns whether a certificate is for a host, given as a name or an IP address.
pub type NamesHost = fn(&CertificateDer<'_>, &str) -> bool;

/// The certificate that a dialler presented, and the function that checks its host.
struct Shown {
    certificate: CertificateDer<'static>,
    names_host: NamesHost,
}

/// Settings of the links.
pub struct PeerConfig {
    /// The servers that are listed at first. This server may be among them and is not dialled.
    /// [`PeerHandle::set_servers`] replaces the list.
    pub servers: Vec<PeerServer>,
    /// How long the links of a server stay after it has left the list.
    pub departed_links_stay: Duration,
    /// The sockets on which links from other members are accepted.
    pub listeners: Vec<std::net::TcpListener>,
    /// How members prove who they are.
    pub auth: PeerAuth,
    /// Random bytes that nobody can predict; different at each start.
    pub secret: [u8; 32],
    /// How long it may take to connect; all addresses of a server share this time.
    pub connect_timeout: Duration,
    /// Whether the system probes silent dialled links with TCP keep-alive. For accepted links the
    /// listener decides that.
    pub keep_alive: bool,
    /// Called each time that a member of this member's ensemble says that this member was removed
    /// for good, and whether the list has its server again. Must not wait.
    pub on_retired: Box<dyn Fn(bool) + Send + Sync>,
}

/// One end of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Whether this side dialled. If so, this side sends frames on it.
    pub is_outgoing: bool,
    /// The purpose of the link.
    pub channel: Channel,
    /// The hello of the other side.
    pub hello: Arc<Hello>,
}

/// An input from the links. Inputs are given in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerInput {
    /// A link is up.
    LinkUp(Link),
    /// A link is down. Frames that were sent on it may be lost.
    LinkDown(Link),
    /// A frame arrived.
    Frame {
        /// The member that sent it.
        from: MemberId,
        /// The channel on which it arrived.
        channel: Channel,
        /// The frame itself.
        frame: PeerFrame,
    },
}

/// A link that is up, and the size of its queue, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkStatus {
    /// The link.
    pub link: Link,
    /// Frames that wait to be sent on it.
    pub queued_frames: usize,
    /// Bytes of the bodies of the waiting frames.
    pub queued_bytes: usize,
}

/// Owns the links and their threads. Dropping it ends the links.
pub struct PeerSockets {
    links: Arc<Links>,
    threads: Vec<JoinHandle<()>>,
}

/// A handle to send frames to other members and to read the state of the links.
#[derive(Clone)]
pub struct PeerHandle {
    links: Arc<Links>,
}

/// Why a link could not be made.
#[derive(Debug, Error)]
pub(crate) enum Trouble {
    /// This side refuses the link, and tells the other side why.
    #[error("it is refused: {0}")]
    Refused(#[from] Refusal),
    #[error("it refuses us: {0}")]
    RefusesUs(String),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("no address of {0} answers: {1}")]
    Unreachable(String, io::Error),
    #[error("TLS: {0}")]
    Tls(io::Error),
    #[error("it closed the connection during the handshake")]
    Closed,
    #[error("it took longer than {} s for the handshake", HANDSHAKE_LIMIT.as_secs())]
    Slow,
    #[error("newer connections took its place before its handshake ended")]
    Evicted,
    #[error("too many begin a handshake")]
    TooMany,
    /// The other side refused the first message of this version of the handshake like garbage.
    #[error("it does not understand the handshake")]
    NotUnderstood,
    #[error("it says that this member was removed from the ensemble")]
    Retired,
}

impl Trouble {
    /// Whether the trouble is likely to be gone at the next dial.
    fn is_passing(&self) -> bool {
        match self {
            Trouble::Refused(reason) => *reason == Refusal::Replaces,
            Trouble::RefusesUs(reason) => *reason == Refusal::Replaces.to_string(),
            _ => false,
        }
    }
}

/// The state that all tasks and threads of the links share.
struct Links {
    list: ServerList,
    departed_links_stay: Duration,
    prover: Prover,
    connect_timeout: Duration,
    keep_alive: bool,
    hello: watch::Sender<Arc<Hello>>,
    stop: watch::Sender<bool>,
    /// Whether the links were stopped; read by the thread of the beats.
    is_stopped: Mutex<bool>,
    stopped: Condvar,
    open: Mutex<Vec<OpenLink>>,
    next_id: AtomicU64,
    dropped: AtomicU64,
    traffic: Traffic,
    handshakes: Mutex<VecDeque<Arc<Notify>>>,
    complaints: Mutex<Complaints>,
    exchanges: Mutex<Exchanges>,
    wrong_secrets: Mutex<WrongSecrets>,
    give: Box<dyn Fn(Vec<PeerInput>) -> bool + Send + Sync>,
    on_retired: Box<dyn Fn(bool) + Send + Sync>,
    /// Passes new listeners to the thread.
    listeners: mpsc::UnboundedSender<Vec<std::net::TcpListener>>,
}

/// A link whose handshake is complete.
struct OpenLink {
    id: u64,
    link: Link,
    process: u64,
    /// Whether the link was reported as up.
    is_up: bool,
    end: Arc<Notify>,
    outbox: Arc<Outbox>,
    life: Arc<Life>,
    /// Beats in a row since anything was received.
    silent_beats: u32,
}

/// Flags that a link's task and the thread of the beats share.
#[derive(Default)]
struct Life {
    /// Whether anything was received since the last beat.
    has_heard: AtomicBool,
    /// Whether the link counts as dead, because nothing was received for too long.
    is_silent: AtomicBool,
}

/// The frames that wait to be sent on a link.
#[derive(Default)]
struct Outbox {
    waiting: Mutex<Waiting>,
    /// Wakes the link's task to look at the queue.
    arrived: Notify,
    /// Whether a frame was queued since the last beat; if so, no beat is needed.
    has_sent: AtomicBool,
    /// The socket; the thread that holds this lock may write to it. `None` if only the link's task
    /// may write.
    socket: Mutex<Option<DirectSocket>>,
}

/// A socket on which any thread may write.
struct DirectSocket {
    socket: Arc<OwnedWriteHalf>,
    /// Frames that were taken out of the queue and are not completely written, and how many of
    /// their bytes are written.
    batch: Option<(FrameBatch, usize)>,
}

#[derive(Default)]
struct Waiting {
    frames: VecDeque<PeerFrame>,
    bytes: usize,
}

impl PeerSockets {
    /// Starts the threads. They call `give` with inputs, in order; `give` must not wait. It returns
    /// whether more may follow. If not, a link that has delivered something is not read again until
    /// `give`, called without inputs, returns true.
    ///
    /// # Errors
    /// The system has no thread, or refuses what a listener needs.
    pub fn start(
        config: PeerConfig,
        hello: Hello,
        give: impl Fn(Vec<PeerInput>) -> bool + Send + Sync + 'static,
    ) -> io::Result<PeerSockets> {
        let PeerConfig { servers, departed_links_stay, listeners, auth, secret, .. } = config;
        let PeerConfig { connect_timeout, keep_alive, on_retired, .. } = config;
        let (to_thread, new_listeners) = mpsc::unbounded_channel();
        let links = Links {
            list: ServerList::new(hello.server),
            departed_links_stay,
            prover: Prover::new(auth, secret),
            connect_timeout,
            keep_alive,
            hello: watch::Sender::new(Arc::new(hello)),
            stop: watch::Sender::new(false),
            is_stopped: Mutex::new(false),
            stopped: Condvar::new(),
            open: Mutex::default(),
            next_id: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            traffic: Traffic::default(),
            handshakes: Mutex::default(),
            complaints: Mutex::default(),
            exchanges: Mutex::default(),
            wrong_secrets: Mutex::default(),
            give: Box::new(give),
            on_retired,
            listeners: to_thread,
        };
        links.set_servers(servers);
        let links = Arc::new(links);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(ADDRESSES_TRIED_MAX)
            .build()?;
        let listeners = {
            let _within = runtime.enter();
            listeners.into_iter().map(to_async).collect::<io::Result<Vec<_>>>()?
        };
        let of_thread = links.clone();
        let thread = std::thread::Builder::new().name("peers".to_string()).spawn(move || {
            runtime.block_on(run_links(of_thread, listeners, new_listeners));
            // Shutting down must not wait for a name that is being resolved.
            runtime.shutdown_background();
        })?;
        let of_beats = links.clone();
        let beats = std::thread::Builder::new().name("beats".to_string());
        let beats = beats.spawn(move || run_beats(&of_beats))?;
        Ok(PeerSockets { links, threads: vec![thread, beats] })
    }

    /// A handle to send frames to other members.
    pub fn handle(&self) -> PeerHandle {
        PeerHandle { links: self.links.clone() }
    }

    /// Ends all links and waits for the threads to end. Gives no more inputs, not even that links
    /// are down.
    pub fn stop(mut self) {
        self.links.stop();
        for thread in std::mem::take(&mut self.threads) {
            // A panic in that thread has ended the process already.
            let _ = thread.join();
        }
    }
}

impl Drop for PeerSockets {
    fn drop(&mut self) {
        self.links.stop();
    }
}

impl PeerHandle {
    /// Queues a frame for a member; drops it if there is no link or no space in its queue.
    /// [`PeerHandle::flush`] sends the queued frames.
    pub fn send(&self, to: MemberId, channel: Channel, frame: PeerFrame) {
        let outbox = {
            let open = self.links.open.lock();
            let link = open.iter().find(|it| {
                it.is_up
                    && it.link.is_outgoing
                    && it.link.channel == channel
                    && it.link.hello.member == to
            });
            link.map(|it| (it.outbox.clone(), it.link.hello.server))
        };
        let bytes = frame.body.len();
        match outbox.filter(|(outbox, _)| outbox.push(frame)) {
            Some((_, server)) => self.links.traffic.add_sent(server, bytes),
            None => {
                self.links.dropped.fetch_add(1, Ordering::Relaxed);
                self.links.traffic.add_failure(to);
            }
        }
    }

    /// Traffic between this member and each other one.
    pub fn traffic(&self) -> Vec<PeerTraffic> {
        self.links.traffic.numbers()
    }

    /// Writes the queued frames as far as the sockets have space, so that the links' thread need
    /// not be woken. That thread writes the rest.
    pub fn flush(&self) {
        let outboxes: Vec<_> = {
            let open = self.links.open.lock();
            let is_sending = |it: &&OpenLink| it.is_up && it.link.is_outgoing;
            open.iter().filter(is_sending).map(|it| it.outbox.clone()).collect()
        };
        outboxes.iter().for_each(|outbox| outbox.flush());
    }

    /// Replaces the list of servers; an equal list changes nothing. This server may be among them.
    /// Replaces the set of retired members, too. Any thread may call this; it does not wait for the
    /// links.
    ///
    /// - A new server is dialled from now on.
    /// - A server that is gone is dialled no more, and its dials are refused. Its links end after
    ///   [`PeerConfig::departed_links_stay`], unless it is listed again before. Until then its
    ///   frames are given as before.
    /// - A server with other addresses keeps its links. The next dial goes to the new addresses; a
    ///   dial that waits is made at once.
    /// - The links of a retired member end. If it dials, it gets the answer that it was removed for
    ///   good, whether or not its number is listed.
    ///
    /// Memory is kept for each listed server and each retired member; the caller bounds their
    /// numbers (`machine::limits::{LISTED_SERVERS_MAX, RETIRED_MAX}`).
    pub fn set_servers(&self, servers: Vec<PeerServer>, retired: BTreeSet<MemberId>) {
        self.links.list.set_retired(retired.clone());
        self.links.end_links_of(&retired);
        self.links.set_servers(servers);
    }

    /// Replaces the listeners for other servers. The former ones accept links for another
    /// [`PeerConfig::departed_links_stay`], for servers that do not know the new addresses yet. Any
    /// thread may call this; it does not wait for the links.
    pub fn listen(&self, listeners: Vec<std::net::TcpListener>) {
        // The receiver ends only with the process.
        let _ = self.links.listeners.send(listeners);
    }

    /// Notes which servers that are not on the list get links. While this member knows no leader:
    /// those of its ensemble, since it may have been away while the list changed. While the
    /// ensemble takes guests: those, and servers without data, which want to join.
    pub fn set_open(&self, is_lost: bool, takes_guests: bool) {
        self.links.list.set_open(is_lost, takes_guests);
    }

    /// Changes this server's hello. Ends all links; they are made again with the new hello.
    pub fn set_hello(&self, hello: Hello) {
        self.links.hello.send_replace(Arc::new(hello));
    }

    /// Tells other servers, in later handshakes, the level of the ensemble. Ends the links of
    /// servers that do not know that level; the other links stay.
    pub fn set_level(&self, stated: StatedLevel) {
        let level = stated.level;
        self.links.hello.send_if_modified(|hello| {
            let changed = Hello { level: Some(stated), ..Hello::clone(hello) };
            *hello = Arc::new(changed);
            // Returning `true` would wake the tasks, which would end and remake all links.
            false
        });
        let open = self.links.open.lock();
        let is_below = |it: &&OpenLink| it.link.hello.known.level_max < level;
        open.iter().filter(is_below).for_each(|it| it.end.notify_one());
    }

    /// Ends the links from a member that sent a frame without meaning.
    pub fn end_links_from(&self, member: MemberId, why: &dyn Display) {
        let mut server = 0;
        for it in self.links.open.lock().iter() {
            if !it.link.is_outgoing && it.link.hello.member == member {
                server = it.link.hello.server;
                it.end.notify_one();
            }
        }
        self.links.log_trouble(&format!("server {server}"), &format!("its link is closed: {why}"));
    }

    /// The links that are up.
    pub fn links(&self) -> Vec<LinkStatus> {
        let open = self.links.open.lock();
        let status = |it: &OpenLink| {
            let waiting = it.outbox.waiting.lock();
            let (queued_frames, queued_bytes) = (waiting.frames.len(), waiting.bytes);
            LinkStatus { link: it.link.clone(), queued_frames, queued_bytes }
        };
        open.iter().filter(|it| it.is_up).map(status).collect()
    }

    /// Number of frames dropped because there was no link or no space in its queue.
    pub fn dropped_count(&self) -> u64 {
        self.links.dropped.load(Ordering::Relaxed)
    }
}

impl Outbox {
    /// Queues a frame. False if there was no space.
    fn push(&self, frame: PeerFrame) -> bool {
        let mut waiting = self.waiting.lock();
        let bytes = waiting.bytes.saturating_add(frame.body.len());
        let is_full = waiting.frames.len() >= PEER_QUEUE_FRAMES_MAX || bytes > PEER_QUEUE_BYTES_MAX;
        if is_full && !waiting.frames.is_empty() {
            return false;
        }
        waiting.bytes = bytes;
        waiting.frames.push_back(frame);
        self.has_sent.store(true, Ordering::Relaxed);
        true
    }

    /// Writes the queued frames; if some are left, wakes the link's task to write them.
    fn flush(&self) {
        if self.is_empty() {
            return;
        }
        match self.write_now() {
            Ok(Written::All | Written::ByAnother) => {}
            Ok(Written::NotAll) | Err(_) => self.arrived.notify_one(),
        }
    }

    fn is_empty(&self) -> bool {
        self.waiting.lock().frames.is_empty()
    }

    /// Writes as much as the socket takes.
    fn write_now(&self) -> io::Result<Written> {
        loop {
            let Some(mut direct) = self.socket.try_lock() else { return Ok(Written::ByAnother) };
            let Some(socket) = direct.as_mut() else { return Ok(Written::NotAll) };
            let is_all = socket.write_from(self)?;
            drop(direct);
            if !is_all {
                return Ok(Written::NotAll);
            }
            // A thread that found the mutex taken has left its frames to this one.
            if self.is_empty() {
                return Ok(Written::All);
            }
        }
    }

    /// Takes the frames to write next out of the queue.
    fn take(&self) -> Vec<PeerFrame> {
        let mut waiting = self.waiting.lock();
        let (mut frames, mut bytes) = (Vec::new(), 0_usize);
        while let Some(frame) = waiting.frames.front() {
            bytes = bytes.saturating_add(frame.body.len());
            let is_full = frames.len() >= PEER_WRITE_FRAMES_MAX || bytes > PEER_WRITE_BYTES_MAX;
            if is_full && !frames.is_empty() {
                break;
            }
            waiting.bytes -= frame.body.len();
            frames.extend(waiting.frames.pop_front());
        }
        frames
    }
}

/// How much of a link's queue a call has written.
enum Written {
    /// All frames.
    All,
    /// Not all frames: the socket is full, or only the link's task may write.
    NotAll,
    /// Nothing: another thread is writing, and will look at the queue again afterwards.
    ByAnother,
}

impl DirectSocket {
    /// Writes queued frames as far as the socket takes them. Returns whether all were written.
    fn write_from(&mut self, outbox: &Outbox) -> io::Result<bool> {
        let DirectSocket { socket, batch } = self;
        loop {
            let (frames, written) = match batch {
                Some(batch) => batch,
                None => {
                    let frames = outbox.take();
                    if frames.is_empty() {
                        return Ok(true);
                    }
                    batch.insert((FrameBatch::new(frames), 0))
                }
            };
            let slices = frames.slices(*written);
            if slices.is_empty() {
                *batch = None;
                continue;
            }
            match socket.try_write_vectored(&slices) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => *written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }
}

/// The beats thread: sends the beats of all links, and ends silent links. One thread sleeps for all
/// of them, because a timer for each link would wake an idle member ten times as often.
fn run_beats(links: &Links) {
    let mut beat = 0_u32;
    let mut is_stopped = links.is_stopped.lock();
    while !*is_stopped {
        links.stopped.wait_for(&mut is_stopped, PEER_BEAT);
        beat = beat.wrapping_add(1);
        let outboxes = links.beat(beat.is_multiple_of(PEER_BEATS_BULK));
        outboxes.iter().for_each(|outbox| outbox.flush());
    }
}

fn to_async(listener: std::net::TcpListener) -> io::Result<TcpListener> {
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

async fn run_links(
    links: Arc<Links>,
    listeners: Vec<TcpListener>,
    new_listeners: mpsc::UnboundedReceiver<Vec<std::net::TcpListener>>,
) {
    let mut stop = links.stop.subscribe();
    tokio::spawn(accept_all(links.clone(), listeners, new_listeners));
    let stopped = async {
        // The sender is part of `links`, which live as long as this task.
        let _ = stop.wait_for(|stop| *stop).await;
    };
    tokio::select! {
        () = stopped => {}
        () = follow_list(&links) => {}
    }
}

/// Keeps a task for each channel of each listed server, which dials it, and ends the links of
/// servers that left the list long ago. Never returns.
async fn follow_list(links: &Arc<Links>) {
    let mut list = links.list.subscribe();
    let mut dials: BTreeMap<(u64, Channel), tokio::task::JoinHandle<()>> = BTreeMap::new();
    let mut departures = Departures::new(links.departed_links_stay);
    loop {
        list.mark_unchanged();
        // A task ends by itself once it finds its server unlisted. It then leaves its place to the
        // next one; a task that has not looked yet continues.
        dials.retain(|_, task| !task.is_finished());
        for number in links.list.numbers() {
            for channel in [Channel::Log, Channel::Bulk] {
                let dial = || tokio::spawn(dial_while_listed(links.clone(), number, channel));
                dials.entry((number, channel)).or_insert_with(dial);
            }
        }
        for number in departures.due(&links.unlisted(), Instant::now()) {
            links.end_links_with(number);
        }
        let next_end = departures.next_end();
        let departure = async {
            match next_end {
                Some(end) => tokio::time::sleep_until(end.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // The sender is part of `links`.
            _ = list.changed() => {}
            () = departure => {}
        }
    }
}

/// Accepts links on the listeners, and on those that replace them.
async fn accept_all(
    links: Arc<Links>,
    listeners: Vec<TcpListener>,
    mut replaced: mpsc::UnboundedReceiver<Vec<std::net::TcpListener>>,
) {
    let begin = |listener| tokio::spawn(accept(links.clone(), listener));
    let mut tasks: Vec<_> = listeners.into_iter().map(begin).collect();
    while let Some(listeners) = replaced.recv().await {
        let mut next = Vec::new();
        for listener in listeners {
            match to_async(listener) {
                Ok(listener) => next.push(begin(listener)),
                Err(error) => links.log_trouble("the port for other members", &error),
            }
        }
        let former = std::mem::replace(&mut tasks, next);
        let stay = links.departed_links_stay;
        tokio::spawn(async move {
            tokio::time::sleep(stay).await;
            former.iter().for_each(tokio::task::JoinHandle::abort);
        });
    }
}

async fn accept(links: Arc<Links>, listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, from)) => {
                // If this fails, the link is only slower.
                let _ = stream.set_nodelay(true);
                tokio::spawn(serve(links.clone(), stream, from));
            }
            Err(error) => {
                links.log_trouble("the port for other members", &error);
                tokio::time::sleep(PEER_ACCEPT_REST).await;
            }
        }
    }
}

/// Serves an accepted connection until it ends.
async fn serve(links: Arc<Links>, stream: TcpStream, from: SocketAddr) {
    let about = format!("a connection from {}", from.ip().to_canonical());
    // Watches our hello from now on, so that a change ends the link.
    let hello = links.hello.subscribe();
    let turn = Turn::begin(&links);
    let served = match &links.prover.auth {
        PeerAuth::Tls(tls) => {
            let PeerTls { server, names_host, .. } = tls();
            let accepted = TlsAcceptor::from(server).accept(stream);
            let accepted = async { accepted.await.map_err(Trouble::Tls) };
            match turn.limit(accepted).await {
                Ok(stream) => {
                    let shown = names_host.map(|names_host| Shown::of(&stream, names_host));
                    let dialler = Dialler { from: from.ip(), shown };
                    links.serve_on(stream, split_any, hello, turn, dialler).await
                }
                Err(trouble) => Err(trouble),
            }
        }
        _ => {
            let dialler = Dialler { from: from.ip(), shown: None };
            links.serve_on(stream, split_plain, hello, turn, dialler).await
        }
    };
    match served {
        Err(trouble) if trouble.is_passing() => {}
        Err(Trouble::Refused(Refusal::Secret)) => links.on_wrong_secret(&about),
        // A stranger chooses this text, which must not use up the places of other troubles.
        Err(Trouble::RefusesUs(reason)) => {
            let trouble = Trouble::RefusesUs(reason);
            links.log_trouble_of(&about, "it refuses us", &trouble);
        }
        Err(trouble) => links.log_trouble(&about, &trouble),
        Ok(()) => {}
    }
}

impl Shown {
    fn of<S>(stream: &tokio_rustls::server::TlsStream<S>, names_host: NamesHost) -> Shown {
        let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
        // A client without a certificate has failed already; an empty one matches no host.
        let certificate = certificates.first().cloned().unwrap_or_else(|| Vec::new().into());
        Shown { certificate: certificate.into_owned(), names_host }
    }
}

/// The place of one handshake among those under way. Dropping it frees the place.
struct Turn {
    links: Arc<Links>,
    evicted: Arc<Notify>,
    deadline: tokio::time::Instant,
}

impl Turn {
    /// Takes a place; if none is free, the oldest handshake loses its own.
    fn begin(links: &Arc<Links>) -> Turn {
        let evicted = Arc::new(Notify::new());
        let mut handshakes = links.handshakes.lock();
        if handshakes.len() >= HANDSHAKES_MAX
            && let Some(oldest) = handshakes.pop_front()
        {
            oldest.notify_one();
        }
        handshakes.push_back(evicted.clone());
        let deadline = tokio::time::Instant::now() + HANDSHAKE_LIMIT;
        Turn { links: links.clone(), evicted, deadline }
    }

    /// Runs a part of the handshake, until the whole handshake's time is up or its place is lost.
    async fn limit<T>(&self, part: impl Future<Output = Result<T, Trouble>>) -> Result<T, Trouble> {
        tokio::select! {
            biased;
            () = self.evicted.notified() => Err(Trouble::Evicted),
            done = timeout_at(self.deadline, part) => done.unwrap_or(Err(Trouble::Slow)),
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.links.handshakes.lock().retain(|it| !Arc::ptr_eq(it, &self.evicted));
    }
}

/// Dials a server again and again, until it is no longer listed.
async fn dial_while_listed(links: Arc<Links>, number: u64, channel: Channel) {
    let about = about_server(number);
    let mut redial = Redial::new(links.prover.draw_u64());
    while let Some(listed) = links.list.get(number) {
        let mut hello = links.hello.subscribe();
        let began = Instant::now();
        let dialled = tokio::select! {
            dialled = links.dial(&listed, channel, hello.clone()) => dialled,
            _ = hello.changed() => {
                hello.mark_changed();
                Ok(())
            }
        };
        if let Err(trouble) = dialled {
            tracing::debug!("links: {about}: {trouble}");
            if !trouble.is_passing() && links.list.has(number) {
                links.log_trouble(&about, &trouble);
            }
        }
        if hello.has_changed().unwrap_or(false) {
            // The handshake or the link had the old hello: start again with the new one, at once.
            redial = Redial::new(links.prover.draw_u64());
            continue;
        }
        tokio::select! {
            () = tokio::time::sleep(redial.next(began.elapsed())) => {}
            () = listed.seen[channel as usize].notified() => {}
            // Failures at the former addresses say nothing about the new ones.
            () = links.list.wait_until_changed(&listed) => {
                redial = Redial::new(links.prover.draw_u64());
            }
        }
    }
}

fn about_server(number: u64) -> String {
    format!("server {number}")
}

/// Troubles that were logged lately, by peer and by text without digits, since garbage would
/// contain other numbers each time.
#[derive(Default)]
struct Complaints {
    seen: BTreeMap<(String, String), Complaint>,
}

struct Complaint {
    at: Instant,
    /// Whether the end of the trouble was logged.
    is_over: bool,
}

impl Complaints {
    /// Whether this trouble should be logged now.
    fn is_due(&mut self, about: &str, trouble: &str, now: Instant) -> bool {
        self.seen.retain(|_, it| now < it.at + PEER_COMPLAINT_INTERVAL);
        let kind = trouble.chars().filter(|c| !c.is_ascii_digit()).collect();
        let key = (about.to_string(), kind);
        let is_due = self.seen.len() < PEER_COMPLAINTS_MAX && !self.seen.contains_key(&key);
        if is_due {
            self.seen.insert(key, Complaint { at: now, is_over: false });
        }
        is_due
    }

    /// Marks all troubles with the peer as over. Returns whether that should be logged.
    fn are_over(&mut self, about: &str) -> bool {
        let mut is_due = false;
        for (_, it) in self.seen.iter_mut().filter(|((of, _), _)| of == about) {
            is_due |= !it.is_over;
            it.is_over = true;
        }
        is_due
    }
}

/// Computes how long to wait between two dials of one server.
struct Redial {
    wait: Duration,
    chance: u64,
}

impl Redial {
    fn new(seed: u64) -> Redial {
        Redial { wait: REDIAL_MIN, chance: seed }
    }

    /// How long to wait before the next dial, if the last dial and its link took `lasted`.
    fn next(&mut self, lasted: Duration) -> Duration {
        if lasted >= LINK_LASTED {
            self.wait = REDIAL_MIN;
        }
        let wait = self.wait;
        self.wait = (wait * 2).min(REDIAL_MAX);
        // splitmix64
        self.chance = self.chance.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.chance;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let part = (bits ^ (bits >> 31)) % 1_000;
        wait / 2 + wait / 2 * part as u32 / 1_000
    }
}

impl Links {
    fn stop(&self) {
        self.stop.send_replace(true);
        *self.is_stopped.lock() = true;
        self.stopped.notify_all();
    }

    fn set_servers(&self, servers: Vec<PeerServer>) {
        self.list.replace(servers, |others| self.traffic.set_servers(others));
        // A server that is listed again may have its links still.
        for it in self.open.lock().iter().filter(|it| it.is_up) {
            self.traffic.note(it.link.hello.member, it.link.hello.server);
        }
    }

    /// Takes a server that is not on the list, and has proved that it is of this ensemble, for a
    /// listed one.
    fn meet(&self, hello: &Hello) {
        let (number, peer_urls) = (hello.server, hello.peer_urls.clone());
        let server = PeerServer { number, addresses: addresses_of(&peer_urls), peer_urls };
        tracing::info!("links: server {number} is of this ensemble, but not on the list here");
        self.list.meet(server, |others| self.traffic.set_servers(others));
    }

    /// The servers that have links and are not listed.
    fn unlisted(&self) -> BTreeSet<u64> {
        let open = self.open.lock();
        let numbers = open.iter().map(|it| it.link.hello.server);
        numbers.filter(|number| !self.list.has(*number)).collect()
    }

    fn end_links_with(&self, server: u64) {
        let open = self.open.lock();
        let links = open.iter().filter(|it| it.link.hello.server == server);
        links.for_each(|it| it.end.notify_one());
    }

    fn end_links_of(&self, members: &BTreeSet<MemberId>) {
        let open = self.open.lock();
        let links = open.iter().filter(|it| members.contains(&it.link.hello.member));
        links.for_each(|it| it.end.notify_one());
    }

    /// Marks silent links for their end, and queues a beat on links on which nothing was sent since
    /// the last call. Links for snapshots take part only if `is_for_bulk`. Returns the queues with
    /// beats.
    fn beat(&self, is_for_bulk: bool) -> Vec<Arc<Outbox>> {
        let mut outboxes = Vec::new();
        let mut open = self.open.lock();
        let is_in =
            |it: &&mut OpenLink| it.is_up && (is_for_bulk || it.link.channel == Channel::Log);
        for it in open.iter_mut().filter(is_in) {
            let has_heard = it.life.has_heard.swap(false, Ordering::Relaxed);
            it.silent_beats = if has_heard { 0 } else { it.silent_beats + 1 };
            if it.silent_beats > PEER_SILENT_BEATS_MAX {
                it.life.is_silent.store(true, Ordering::Relaxed);
                it.end.notify_one();
            }
            if !it.outbox.has_sent.load(Ordering::Relaxed) {
                it.outbox.push(PeerFrame { kind: KIND_BEAT, body: Bytes::new() });
                outboxes.push(it.outbox.clone());
            }
            it.outbox.has_sent.store(false, Ordering::Relaxed);
        }
        outboxes
    }

    /// Logs trouble with a peer, unless the same was logged lately.
    fn log_trouble(&self, about: &str, trouble: &dyn Display) {
        self.log_trouble_of(about, &trouble.to_string(), trouble);
    }

    /// Logs trouble, unless trouble of this `kind` was logged lately.
    fn log_trouble_of(&self, about: &str, kind: &str, trouble: &dyn Display) {
        if self.complaints.lock().is_due(about, kind, Instant::now()) {
            tracing::warn!("links: {about}: {trouble}");
        }
    }

    /// Logs that a peer is connected again, if trouble with it was logged lately.
    fn log_recovery(&self, about: &str) {
        if self.complaints.lock().are_over(about) {
            tracing::info!("links: {about} is connected again");
        }
    }

    /// Runs the handshake of an accepted connection, and then its link until it ends.
    async fn serve_on<S: AsyncRead + AsyncWrite + Unpin, R: AsyncRead + Unpin>(
        self: &Arc<Self>,
        stream: S,
        split: impl FnOnce(S) -> (R, Writer<S>),
        hello: watch::Receiver<Arc<Hello>>,
        turn: Turn,
        dialler: Dialler,
    ) -> Result<(), Trouble> {
        let mut talk = HandshakeStream::new(stream);
        let own = hello.borrow().clone();
        match turn.limit(self.handshake_with_dialler(&mut talk, &own, &dialler)).await {
            Ok(Met::Asks(discovered)) => {
                tracing::debug!("links: {} is server {}", dialler.from, discovered.number);
                talk.end_with(&Handshake::YouAre(discovered)).await;
                Ok(())
            }
            Ok(Met::Retired(retired)) => {
                let member = retired.member.0;
                tracing::debug!("links: {}, member {member:016x}, is retired", dialler.from);
                talk.end_with(&Handshake::Retired(retired)).await;
                Ok(())
            }
            Ok(Met::Linked(open)) => {
                drop(turn);
                let HandshakeStream { stream, frames } = talk;
                self.run(split(stream), frames, open, hello).await;
                Ok(())
            }
            Err(Trouble::Refused(reason)) => {
                talk.refuse(&reason).await;
                Err(reason.into())
            }
            Err(trouble) => Err(trouble),
        }
    }

    /// Dials a server once. If it answers, serves the link until it ends.
    async fn dial(
        self: &Arc<Self>,
        listed: &Arc<Listed>,
        channel: Channel,
        hello: watch::Receiver<Arc<Hello>>,
    ) -> Result<(), Trouble> {
        let level = hello.borrow().level.as_ref().map(|stated| stated.level);
        for version in self.prover.dialled_versions(level) {
            match self.dial_as(listed, channel, hello.clone(), version).await {
                Err(Trouble::NotUnderstood) => {}
                dialled => return dialled,
            }
        }
        Err(Refusal::OldHandshake.into())
    }

    async fn dial_as(
        self: &Arc<Self>,
        listed: &Arc<Listed>,
        channel: Channel,
        hello: watch::Receiver<Arc<Hello>>,
        version: HandshakeVersion,
    ) -> Result<(), Trouble> {
        let server = &listed.server;
        let (timeout, keep_alive) = (self.connect_timeout, self.keep_alive);
        let addresses = listed.addresses();
        let (stream, host) = tokio::select! {
            connected = connect(&addresses, timeout, keep_alive) => connected?,
            // These addresses are no longer those of a listed server.
            () = self.list.wait_until_changed(listed) => return Ok(()),
        };
        stream.set_nodelay(true)?;
        let wanted = (server.number, version);
        match &self.prover.auth {
            PeerAuth::Tls(tls) => {
                let stream = connect_tls(tls(), host, stream).await?;
                self.dial_on(stream, split_any, wanted, channel, hello).await
            }
            _ => self.dial_on(stream, split_plain, wanted, channel, hello).await,
        }
    }

    async fn dial_on<S: AsyncRead + AsyncWrite + Unpin, R: AsyncRead + Unpin>(
        self: &Arc<Self>,
        stream: S,
        split: impl FnOnce(S) -> (R, Writer<S>),
        wanted: (u64, HandshakeVersion),
        channel: Channel,
        hello: watch::Receiver<Arc<Hello>>,
    ) -> Result<(), Trouble> {
        let mut talk = HandshakeStream::new(stream);
        let own = hello.borrow().clone();
        let agreed = self.handshake_with_accepter(&mut talk, &own, wanted, channel);
        match timeout(HANDSHAKE_LIMIT, agreed).await.unwrap_or(Err(Trouble::Slow)) {
            Ok(open) => {
                if channel == Channel::Log {
                    self.log_recovery(&about_server(wanted.0));
                }
                let HandshakeStream { stream, frames } = talk;
                self.run(split(stream), frames, open, hello).await;
                Ok(())
            }
            Err(Trouble::Refused(reason)) => {
                talk.refuse(&reason).await;
                Err(reason.into())
            }
            Err(trouble) => Err(trouble),
        }
    }

    /// Registers a link, unless a link that exists forbids it.
    fn register(
        self: &Arc<Self>,
        peer: &Peer,
        channel: Channel,
        is_outgoing: bool,
    ) -> Result<Registered, Refusal> {
        let mut open = self.open.lock();
        let hello = &peer.hello;
        // The list may have changed during the handshake. This is checked under the lock, so that
        // all links of a server that leaves the list are in `open` when they are to end.
        if !self.list.has(hello.server) {
            return Err(Refusal::Incompatibility(hello.server));
        }
        let mut replaces = false;
        for it in open.iter() {
            let other = &it.link.hello;
            if other.server != hello.server && other.member == hello.member {
                return Err(Refusal::CopiedDirectory(other.server));
            }
            if other.server != hello.server {
                continue;
            }
            let is_restart = other.member == hello.member && hello.boot > other.boot;
            let is_same = other.member == hello.member && it.process == peer.process;
            if !is_restart && !is_same {
                return Err(Refusal::NumberTaken(hello.server));
            }
            let is_place = it.link.is_outgoing == is_outgoing && it.link.channel == channel;
            if !is_same || is_place {
                // The other side knows that the old link is dead, or was restarted itself.
                it.end.notify_one();
                replaces = true;
            }
        }
        if replaces {
            return Err(Refusal::Replaces);
        }
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let link = Link { is_outgoing, channel, hello: hello.clone() };
        let (end, outbox) = (Arc::new(Notify::new()), Arc::new(Outbox::default()));
        let life = Arc::new(Life::default());
        open.push(OpenLink {
            id,
            link: link.clone(),
            process: peer.process,
            is_up: false,
            end: end.clone(),
            outbox: outbox.clone(),
            life: life.clone(),
            silent_beats: 0,
        });
        let was_told = false;
        Ok(Registered { links: self.clone(), id, link, end, outbox, life, was_told })
    }

    /// Runs a link from the end of its handshake until it ends.
    async fn run<S: AsyncWrite, R: AsyncRead + Unpin>(
        &self,
        (read, write): (R, Writer<S>),
        mut frames: FrameReader,
        mut open: Registered,
        mut hello: watch::Receiver<Arc<Hello>>,
    ) {
        open.report_up();
        let Link { is_outgoing, hello: other, .. } = &open.link;
        if !is_outgoing && let Some(listed) = self.list.get(other.server) {
            listed.tell(addresses_of(&other.peer_urls));
            listed.seen.iter().for_each(Notify::notify_one);
        }
        frames.set_body_bytes_max(PEER_BODY_BYTES_MAX);
        let ended = tokio::select! {
            ended = self.read_frames(read, frames, &open) => ended,
            ended = write.run(&open.outbox) => Ended::Io(ended),
            () = open.end.notified() => match open.life.is_silent.load(Ordering::Relaxed) {
                true => Ended::Silent,
                false => Ended::Closed,
            },
            _ = hello.changed() => Ended::Closed,
        };
        match ended {
            Ended::Refused(_) => self.log_trouble(&format!("server {}", other.server), &ended),
            ended => tracing::debug!(
                "the link {} server {} for {:?} is down: {ended}",
                if *is_outgoing { "to" } else { "from" },
                other.server,
                open.link.channel
            ),
        }
    }

    /// Gives the frames that arrive, until the link ends.
    async fn read_frames<R: AsyncRead + Unpin>(
        &self,
        mut read: R,
        mut frames: FrameReader,
        open: &Registered,
    ) -> Ended {
        loop {
            // Frames that arrived together with the handshake go first.
            match take_frames(&mut frames, &open.link) {
                Ok(inputs) if inputs.is_empty() => {}
                Ok(inputs) => {
                    self.traffic.add_received_frames(open.link.hello.server, inputs.len());
                    self.give_frames(inputs, open).await;
                }
                Err(error) => return Ended::Refused(error),
            }
            match read.read_buf(frames.room()).await {
                Ok(0) => return Ended::Closed,
                Ok(bytes) => {
                    open.life.has_heard.store(true, Ordering::Relaxed);
                    self.traffic.add_received(open.link.hello.server, bytes);
                }
                Err(error) => return Ended::Io(error),
            }
        }
    }

    /// Gives frames, and waits until more may follow. Meanwhile the link is not read, and must not
    /// count as silent.
    async fn give_frames(&self, inputs: Vec<PeerInput>, open: &Registered) {
        let mut has_room = (self.give)(inputs);
        while !has_room {
            open.life.has_heard.store(true, Ordering::Relaxed);
            tokio::time::sleep(PEER_INPUT_REST).await;
            has_room = (self.give)(Vec::new());
        }
    }
}

/// Why a link ended.
#[derive(Debug, Error)]
enum Ended {
    #[error("its link is closed: {0}")]
    Refused(Refusal),
    #[error("{0}")]
    Io(io::Error),
    #[error("it is silent")]
    Silent,
    #[error("it was closed")]
    Closed,
}

/// The registration of a link. Dropping it, wherever the link's task is, reports the link as down,
/// and only then allows another link in its place.
struct Registered {
    links: Arc<Links>,
    id: u64,
    link: Link,
    end: Arc<Notify>,
    outbox: Arc<Outbox>,
    life: Arc<Life>,
    /// Whether the link was reported as up.
    was_told: bool,
}

impl Registered {
    fn report_up(&mut self) {
        if let Some(it) = self.links.open.lock().iter_mut().find(|it| it.id == self.id) {
            it.is_up = true;
        }
        self.was_told = true;
        let Link { is_outgoing, channel, hello } = &self.link;
        let (way, server) = (if *is_outgoing { "to" } else { "from" }, hello.server);
        tracing::debug!("the link {way} server {server} for {channel:?} is up");
        self.links.traffic.note(hello.member, server);
        (self.links.give)(vec![PeerInput::LinkUp(self.link.clone())]);
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        if self.was_told && !*self.links.stop.borrow() {
            (self.links.give)(vec![PeerInput::LinkDown(self.link.clone())]);
        }
        self.links.open.lock().retain(|it| it.id != self.id);
    }
}

/// Takes the complete frames out of the buffer; drops the beats.
fn take_frames(frames: &mut FrameReader, link: &Link) -> Result<Vec<PeerInput>, Refusal> {
    let mut inputs = Vec::new();
    while let Some(frame) = frames.next()? {
        if frame.kind == KIND_BEAT && frame.body.is_empty() {
            continue;
        }
        if frame.kind == KIND_BEAT || link.is_outgoing {
            return Err(Refusal::OutOfTurn);
        }
        let (from, channel) = (link.hello.member, link.channel);
        inputs.push(PeerInput::Frame { from, channel, frame });
    }
    Ok(inputs)
}

/// The sending half of a connection.
enum Writer<S> {
    /// A plain socket: any thread may write.
    Plain(OwnedWriteHalf),
    /// Only the link's task may write (TLS).
    Any(WriteHalf<S>),
}

fn split_plain(stream: TcpStream) -> (OwnedReadHalf, Writer<TcpStream>) {
    let (read, write) = stream.into_split();
    (read, Writer::Plain(write))
}

fn split_any<S: AsyncRead + AsyncWrite>(stream: S) -> (ReadHalf<S>, Writer<S>) {
    let (read, write) = tokio::io::split(stream);
    (read, Writer::Any(write))
}

impl<S: AsyncWrite> Writer<S> {
    /// Writes queued frames until the link fails; returns that error.
    async fn run(self, outbox: &Outbox) -> io::Error {
        let ended = match self {
            Writer::Plain(write) => write_plain(Arc::new(write), outbox).await,
            Writer::Any(write) => write_any(write, outbox).await,
        };
        ended.err().unwrap_or_else(|| io::ErrorKind::BrokenPipe.into())
    }
}

async fn write_plain(socket: Arc<OwnedWriteHalf>, outbox: &Outbox) -> io::Result<()> {
    *outbox.socket.lock() = Some(DirectSocket { socket: socket.clone(), batch: None });
    loop {
        match outbox.write_now()? {
            Written::NotAll => socket.writable().await?,
            Written::All | Written::ByAnother => outbox.arrived.notified().await,
        }
    }
}

async fn write_any<S: AsyncWrite>(mut write: WriteHalf<S>, outbox: &Outbox) -> io::Result<()> {
    loop {
        let frames = outbox.take();
        if frames.is_empty() {
            outbox.arrived.notified().await;
        } else {
            write_frames(&mut write, frames).await?;
        }
    }
}

async fn write_frames<W: AsyncWrite + Unpin>(
    write: &mut W,
    frames: Vec<PeerFrame>,
) -> io::Result<()> {
    let batch = FrameBatch::new(frames);
    let mut slices = batch.slices(0);
    let mut rest = &mut slices[..];
    while !rest.is_empty() {
        let count = write.write_vectored(rest).await?;
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        IoSlice::advance_slices(&mut rest, count);
    }
    write.flush().await
}

/// Begins TLS on a connection to that host.
pub(crate) async fn connect_tls(
    tls: PeerTls,
    host: &str,
    stream: TcpStream,
) -> Result<TlsStream<TcpStream>, Trouble> {
    let name = ServerName::try_from(host.to_string());
    let name = name.map_err(|error| Trouble::Tls(io::Error::other(error)))?;
    let connected = TlsConnector::from(tls.client).connect(name, stream);
    let connected = timeout(HANDSHAKE_LIMIT, connected).await;
    connected.map_err(|_| Trouble::Slow)?.map_err(Trouble::Tls)
}

/// Connects to the first address of a server that answers in time. Returns also the host of that
/// address. Each address may take an equal share of the time that is left, so that a silent address
/// leaves time for the next.
pub(crate) async fn connect(
    addresses: &[PeerAddress],
    limit: Duration,
    keep_alive: bool,
) -> Result<(TcpStream, &str), Trouble> {
    let deadline = tokio::time::Instant::now() + limit;
    let mut failure = io::Error::from(io::ErrorKind::NotFound);
    let mut candidates = Vec::new();
    for PeerAddress { host, port } in addresses {
        match timeout_at(deadline, tokio::net::lookup_host((host.as_str(), *port))).await {
            Ok(Ok(found)) => candidates.extend(found.map(|address| (address, host.as_str()))),
            Ok(Err(error)) => failure = error,
            Err(_) => failure = io::ErrorKind::TimedOut.into(),
        }
    }
    candidates.truncate(ADDRESSES_TRIED_MAX);
    for (position, (address, host)) in candidates.iter().enumerate() {
        let left = deadline.saturating_duration_since(tokio::time::Instant::now());
        let share = left / (candidates.len() - position) as u32;
        match timeout(share, connect_to(*address, keep_alive)).await {
            Ok(Ok(stream)) => return Ok((stream, host)),
            Ok(Err(error)) => failure = error,
            Err(_) => failure = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(Trouble::Unreachable(names(addresses), failure))
}

async fn connect_to(address: SocketAddr, keep_alive: bool) -> io::Result<TcpStream> {
    let socket = match address.is_ipv4() {
        true => TcpSocket::new_v4()?,
        false => TcpSocket::new_v6()?,
    };
    socket.set_keepalive(keep_alive)?;
    socket.connect(address).await
}

#[cfg(test)]
mod tests;
