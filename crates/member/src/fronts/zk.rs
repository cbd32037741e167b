//! `ZkFront`: serves the connections of ZooKeeper's clients on one connection runtime. It keeps the
//! order within each session, and the watches. It is a pure step function: no I/O, no clock.
//!
//! The driver (the runtime's thread) puts the bytes that it has read into [`ZkFront::input`] and
//! calls [`ZkFront::on_input`]. When [`ZkFront::is_runnable`], it takes the lock of the state for
//! reading, hands over the deliveries that Apply has pushed ([`ZkFront::on_delivery`]), and calls
//! [`ZkFront::run_reads`]. It passes on the output of [`ZkFront::take_output`], and writes each
//! connection's output to its socket.
//!
//! The order within a session is exact. Reads before a write run first; then the write is handed to
//! Loop. A read behind a write travels with that write, if the write is still in this Front's
//! batch. Otherwise the read waits for the write's answer, and holds back the session's later
//! writes; so does an unanswered sync. A connection that is held back is not decoded further.
//!
//! When a read is handed over, nobody knows how large its reply will be. So no read travels behind
//! a large write, nor on a connection that recently got a large reply; and Apply hands back a read
//! with a large reply if there is no room for it (`room`). This Front then runs the read once all
//! earlier requests of its connection are answered, and holds back the session's later writes
//! meanwhile: the reply shows the state before the session's next write. If that write was handed
//! to Loop already, this is impossible, and the read is refused.
//!
//! A client's output is in the order of ordinals: events come before the replies that show their
//! changes, and the zxids of a client's replies never fall.

mod acls;
mod admission;
mod answered;
pub mod auth;
mod connection;
mod deliveries;
mod departed;
mod events;
mod feed;
mod handshake;
mod heard;
mod held;
mod identity;
mod journal;
pub mod limits;
mod long_reads;
pub mod namespaces;
mod output;
mod pending;
mod read_steps;
mod reads;
mod reconfigs;
mod replies;
mod reports;
mod requests;
mod room;
mod watches;
mod window;

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use machine::control::list_change::ChangeId;
use machine::entry::NotAdded;
use machine::{Command, ConnectionId, Machine, Origin, SessionId, Settings};
use zk::four_letter::Word;

use crate::commands::Commands;
use crate::fronts::zk::limits::{
    CLOSED_PIECE_WATCHES, CLOSING_MS_MAX, CONNECT_HOLD_MS_MAX, CONNECT_HOLD_PART, CONTACT_MS_USUAL,
    READ_HOLD_BYTES_MAX, READ_TURN_REQUESTS_MAX, REST_TICK_MS_MAX,
};
use crate::limits::{CLOCK_INTERVAL_MS, READ_HOLD_REQUESTS_MAX};
use crate::message::{Answer, FrontId, Ticket, ToLoop, Waiter};
use crate::reply_room::ReplyRoom;
use crate::summary::Latency;
use crate::throttle::Throttle;
use admission::Admission;
use auth::AuthConfig;
use connection::{Connection, ReadOnly, Slot, Spare, State, Stats};
use departed::Departed;
use feed::Feed;
use heard::Heard;
use held::HeldReplies;
use journal::SlowRequests;
use reconfigs::Reconfigs;
use watches::Watches;

pub use journal::{AuditEvent, AuditResult, SlowRequest, audit_ended_sessions};
pub use reconfigs::Reconfigurable;
pub use reports::{Reset, ResponseSize, WatchPage, ZkFrontMetrics, ZkFrontReport};
pub use room::{HeldBytes, RefusedReply};
pub use watches::WatchCursor;

/// The configuration of a Front.
#[derive(Clone, Debug)]
pub struct ZkFrontConfig {
    /// The number of this Front within its member.
    pub id: FrontId,
    /// This member and the present run of it.
    pub origin: Origin,
    /// The most bytes of a request frame (`jute.maxbuffer`).
    pub frame_bytes_max: u32,
    /// The most unanswered commands of all connections of this Front, at least 1. At the bound no
    /// connection is decoded further. By default
    /// [`FRONT_COMMANDS_MAX`](crate::limits::FRONT_COMMANDS_MAX).
    pub commands_max: usize,
    /// A request that has waited longer than this for credit, in ms, is refused
    /// (`throttled_op_wait_time`). 0: no request is refused for that.
    pub throttled_op_wait_ms: u64,
    /// The least session timeout, in ms (`minSessionTimeout`).
    pub session_timeout_ms_min: u32,
    /// The greatest session timeout, in ms (`maxSessionTimeout`).
    pub session_timeout_ms_max: u32,
    /// The four-letter words that are answered; `*` stands for all.
    pub words_allowed: Vec<String>,
    /// The secret that session ids and passwords are made from. It must be unpredictable; the
    /// simulator uses a seed.
    pub secret: [u8; 32],
    /// The settings in the state that this Front starts with.
    pub settings: Arc<Settings>,
    /// Whether the servers can be changed when the Front starts.
    pub reconfigurable: Reconfigurable,
    /// How clients prove their identity.
    pub auth: Arc<AuthConfig>,
    /// The throttle for connect requests and large requests. All ZooKeeper Fronts of the member
    /// share it.
    pub throttle: Arc<Throttle>,
    /// The room for replies. All ZooKeeper Fronts of the member and its Apply share it
    /// ([`Apply::replies`](crate::Apply::replies)).
    pub replies: Arc<ReplyRoom>,
    /// The most bytes of a reply to a read (`reply_bytes_max`). A larger one is refused with a
    /// marshalling error. With `None`, a multi-read has the bound
    /// [`MULTI_READ_BYTES_MAX`](crate::fronts::zk::limits::MULTI_READ_BYTES_MAX), and any other
    /// reply only that of a frame.
    pub reply_bytes_max: Option<u64>,
    /// How many names the first step of a list adds, at least 1. It is
    /// [`LIST_STEP_NAMES`](crate::fronts::zk::limits::LIST_STEP_NAMES), except in the simulator.
    pub list_step_names: usize,
    /// How long a connection may be without a session, in ms (`nio.sessionlessCnxnTimeout`).
    pub sessionless_ms_max: u64,
    /// Whether each write is reported to the audit log (`audit.enable`).
    pub audit: bool,
    /// A request that took longer than this, in ms, is logged; with `None` none is.
    pub slow_request_ms: Option<u64>,
    /// After this time without contact, in ms, clients that accept it get read-only connections
    /// (`readonlymode.enabled`); with `None` they never do.
    pub read_only_after_ms: Option<u64>,
}

/// The clocks, and this member's contact with the ensemble.
#[derive(Clone, Copy, Debug, Default)]
pub struct Now {
    /// A clock that never goes back, for latencies and intervals.
    pub monotonic_ms: u64,
    /// Ms since 1970, only shown to people.
    pub wall_ms: i64,
    /// When, on the monotonic clock, this member last had contact with the members that decide
    /// whether a session lives (`Loop::contact_ms`). `None` if it decides alone, 0 if it has no
    /// contact.
    pub contact_at_ms: Option<u64>,
}

/// The output of a Front. The driver passes it on.
#[derive(Debug, Default)]
pub struct ZkOutput {
    /// Messages for Loop, in order.
    pub to_loop: Vec<ToLoop>,
    /// Connections that have bytes to write, or are to be closed.
    pub dirty: Vec<ConnectionId>,
    /// Four-letter words. The driver answers each with [`ZkFront::answer_four_letter_word`].
    pub words: Vec<(ConnectionId, Word)>,
    /// Notices for the log, each with the connection's peer.
    pub notices: Vec<Notice>,
    /// Events for the audit log, in order.
    pub audits: Vec<AuditEvent>,
    /// Slow requests, to be logged as warnings.
    pub slow: Vec<SlowRequest>,
}

/// An event of a connection that an operator may want to know of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The client's address.
    pub peer: String,
    /// A description of the event.
    pub what: String,
}

/// The step function that serves the ZooKeeper clients of one connection runtime.
pub struct ZkFront {
    config: ZkFrontConfig,
    settings: Arc<Settings>,
    connections: HashMap<ConnectionId, Connection, FixedState>,
    /// For each session, its connection on this Front.
    sessions: HashMap<SessionId, ConnectionId, FixedState>,
    watches: Watches,
    feed: Feed,
    commands: Commands,
    turns: Turns,
    admission: Admission,
    departed: Departed,
    held: HeldReplies,
    heard: Heard,
    /// Whether there may be read-only connections.
    has_read_only: bool,
    spare: Spare,
    /// The highest zxid that this Front has seen, for replies without a zxid of their own.
    last_zxid: i64,
    now: Now,
    traffic: Traffic,
    metrics: ZkFrontMetrics,
    slow: SlowRequests,
    output: ZkOutput,
}

/// Lists of connections that have work to do.
struct Turns {
    /// Connections with a request to run under the lock.
    runnable: VecDeque<ConnectionId>,
    /// Connections whose input may be decoded further.
    resumable: Vec<ConnectionId>,
    /// The open change of the servers that a connection of this Front has asked for, with that
    /// connection.
    reconfiguring: Option<(ChangeId, ConnectionId)>,
    /// Connections whose reconfig waits for the level that it needs.
    reconfigs: Reconfigs,
    /// Connections that are being closed, each with the time at which that began, in ms.
    closing: VecDeque<(u64, ConnectionId)>,
}

impl Turns {
    fn new(reconfigurable: Reconfigurable) -> Turns {
        Turns {
            runnable: VecDeque::new(),
            resumable: Vec::new(),
            reconfiguring: None,
            reconfigs: Reconfigs::new(reconfigurable),
            closing: VecDeque::new(),
        }
    }
}

/// The counts that four-letter words show.
#[derive(Default)]
struct Traffic {
    latency: Latency,
    /// Frames received.
    received: u64,
    sent: u64,
    /// Requests in all windows.
    outstanding: u64,
}

/// The reason logged when a connection is closed because this member has no contact with a leader.
const NO_CONTACT: &str = "there is no contact with a leader";

/// Bytes of the length field of a frame.
const LENGTH_BYTES: usize = 4;

/// Why a connection is not decoded further now.
enum Halt {
    /// The next frame is not whole.
    NeedsBytes,
    /// The next request must wait.
    HeldBack,
    /// The connection has ended.
    Closed,
}

impl ZkFront {
    /// A Front without connections.
    pub fn new(config: ZkFrontConfig) -> ZkFront {
        ZkFront {
            settings: config.settings.clone(),
            turns: Turns::new(config.reconfigurable),
            config,
            connections: HashMap::with_hasher(FixedState::default()),
            sessions: HashMap::with_hasher(FixedState::default()),
            watches: Watches::default(),
            feed: Feed::default(),
            commands: Commands::default(),
            admission: Admission::default(),
            departed: Departed::default(),
            held: HeldReplies::default(),
            heard: Heard::default(),
            has_read_only: false,
            spare: Spare::default(),
            last_zxid: 0,
            now: Now::default(),
            traffic: Traffic::default(),
            metrics: ZkFrontMetrics::default(),
            slow: SlowRequests::default(),
            output: ZkOutput::default(),
        }
    }

    // The driver's calls.

    /// Sets the clocks for the calls that follow.
    pub fn set_now(&mut self, now: Now) {
        self.now = now;
    }

    /// Adds the connection of a client. `ip` is its address as in `ip` identities, `peer` its
    /// `host:port`.
    pub fn on_accept(&mut self, id: ConnectionId, ip: &str, peer: String) {
        let connection = Connection::new(ip, peer, self.now.wall_ms);
        self.admission.accepted.push_back((self.now.monotonic_ms, id));
        let previous = self.connections.insert(id, connection);
        assert!(previous.is_none());
    }

    /// Adds the identities that the client's certificate proves, before its first frame. A client
    /// whose name is too long to be sent with every batch is disconnected (ZooKeeper 3.9
    /// `NettyServerCnxnFactory.CertificateVerifier`).
    pub fn on_identified(&mut self, id: ConnectionId, proved: &[(&str, &str)]) {
        if self.connections.contains_key(&id) && !self.add_identities(id, proved) {
            self.disconnect(id, "its certificate has a name too long to travel with its requests");
        }
    }

    /// The buffer to which the driver appends the bytes that it has read. `None` if the connection
    /// has ended, or must not be read now.
    pub fn input(&mut self, id: ConnectionId) -> Option<&mut BytesMut> {
        let connection = self.connections.get_mut(&id)?;
        if connection.wants_input() { Some(&mut connection.input) } else { None }
    }

    /// Decodes the bytes that were appended to a connection's input.
    pub fn on_input(&mut self, id: ConnectionId) {
        if self.end_if_cut_off(id) {
            return;
        }
        // The session counts as heard from before its requests are decoded: a client whose requests
        // are held back behind a slow disk is alive.
        if let Some(connection) = self.connections.get_mut(&id)
            && let State::Attached = connection.state
        {
            if connection.read_only == ReadOnly::No {
                self.heard.sessions.extend(connection.session);
            }
            connection.take_spare(&mut self.spare);
        }
        self.decode(id);
        self.hand_over();
    }

    /// Whether a connection waits for the state's lock and may have it: all deliveries are taken,
    /// and the tree is not known to be in the middle of a change.
    pub fn is_runnable(&self) -> bool {
        !self.turns.runnable.is_empty() && self.feed.is_empty() && !self.feed.waits_for_tree
    }

    /// Whether [`ZkFront::resume`] or [`ZkFront::run_reads`] has work to do.
    pub fn may_go_on(&self) -> bool {
        self.is_runnable() || !self.turns.resumable.is_empty() || self.is_behind()
    }

    /// Whether the driver must call [`ZkFront::resume`] again after other tasks had a turn:
    /// deliveries are not taken to their end, or watches of closed connections are not removed.
    pub fn is_behind(&self) -> bool {
        !self.feed.is_empty() || self.watches.has_closed()
    }

    /// Runs the requests that wait for the lock, up to the bounds of one hold. The driver holds the
    /// lock for reading, and has handed over every delivery that Apply pushed earlier. If these
    /// deliveries were too long to be taken at once, nothing runs, because the state shows their
    /// changes already.
    pub fn run_reads(&mut self, machine: &Machine) {
        if !self.feed.is_empty() {
            return;
        }
        if machine.zk().is_amid_change() {
            self.feed.waits_for_tree = true;
            return;
        }
        let mut requests = 0;
        let mut bytes = 0;
        while requests < READ_HOLD_REQUESTS_MAX && bytes < READ_HOLD_BYTES_MAX {
            let Some(id) = self.turns.runnable.pop_front() else { return };
            let before = self.output_bytes(id);
            let mut more = true;
            let mut turn = 0;
            let mut written = 0;
            let turn_max = READ_TURN_REQUESTS_MAX.min(READ_HOLD_REQUESTS_MAX - requests);
            while more && turn < turn_max && bytes + written < READ_HOLD_BYTES_MAX {
                let ran = self.run_one(id, machine);
                more = ran.is_some();
                turn += ran.unwrap_or(1);
                written = self.output_bytes(id).saturating_sub(before);
            }
            requests += turn;
            bytes += written;
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.listed = false;
                self.enqueue_if_runnable(id);
                self.turns.resumable.push(id);
            }
        }
    }

    fn output_bytes(&self, id: ConnectionId) -> usize {
        self.connections.get(&id).map_or(0, |connection| connection.output.bytes())
    }

    /// Takes a piece of what was left ([`ZkFront::is_behind`]), and decodes connections that were
    /// held back. The driver calls this after [`ZkFront::run_reads`] and [`ZkFront::on_delivery`],
    /// without the lock.
    pub fn resume(&mut self) {
        self.take_feed();
        self.watches.forget_closed(CLOSED_PIECE_WATCHES);
        self.unpark();
        if self.has_credit() {
            for id in core::mem::take(&mut self.commands.starved) {
                if let Some(connection) = self.connections.get_mut(&id) {
                    let (now_ms, bytes) = (self.now.monotonic_ms, connection.input.len());
                    connection.credit.end_wait(now_ms, self.config.throttled_op_wait_ms, bytes);
                    self.turns.resumable.push(id);
                }
            }
        }
        for id in core::mem::take(&mut self.turns.resumable) {
            self.settle(id);
            self.decode(id);
        }
        self.hand_over();
    }

    /// Notes that the socket has taken the first `count` bytes of a connection's output.
    pub fn on_written(&mut self, id: ConnectionId, count: usize) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let was_full = connection.output.is_full();
        connection.output.take(count);
        connection.rest(&mut self.spare);
        let goes_on = was_full && !connection.output.is_full();
        self.count_output(id);
        if goes_on {
            self.enqueue_if_runnable(id);
            self.turns.resumable.push(id);
        }
        self.unpark();
    }

    /// The bytes to write to a connection's socket, and whether to close the socket after them.
    pub fn pending_output(&mut self, id: ConnectionId) -> Option<(&[u8], bool)> {
        let connection = self.connections.get_mut(&id)?;
        connection.output.delist();
        let closing = matches!(connection.state, State::Closing);
        Some((connection.output.pending(), closing))
    }

    /// Removes a connection whose socket is closed.
    pub fn on_closed(&mut self, id: ConnectionId) {
        let Some(mut connection) = self.connections.remove(&id) else { return };
        self.turns.reconfigs.forget(id);
        if !matches!(connection.state, State::Closing) {
            self.metrics.connection_drop_count += 1;
        }
        self.watches.close(id);
        if let Some(session) = connection.session
            && self.sessions.get(&session) == Some(&id)
        {
            self.sessions.remove(&session);
        }
        if self.config.audit {
            self.output.audits.extend(journal::unanswered(&connection));
        }
        let (session, counted) = (connection.session, connection.output.counted());
        self.end_window(id, session, connection.window.take_all());
        self.held.output -= counted;
        self.held.tell(&self.config.replies, self.connections.is_empty());
        if let State::Connecting { .. } = connection.state {
            self.commands.give_back(0);
            self.admission.withdrawn.push(id);
        }
    }

    /// Does what time requires: ends connections that are late, and reports the sessions heard
    /// from.
    pub fn on_tick(&mut self) {
        self.end_sessionless();
        self.end_connecting();
        self.end_closing();
        self.end_cut_off_connections();
        self.end_slow_readers();
        self.turns.resumable.extend(self.turns.reconfigs.late(self.now.monotonic_ms));
        let now_ms = self.now.monotonic_ms;
        if !self.heard.is_due(now_ms) {
            return;
        }
        self.hear_held_back_clients();
        let owners = self.heard.take(now_ms);
        if !owners.is_empty() {
            self.output.to_loop.push(ToLoop::Heard(owners));
        }
    }

    /// How long until [`ZkFront::on_tick`] is due if nothing arrives, in ms. If all clients are
    /// idle, the tick only checks now and then whether this member still has contact.
    pub fn tick_ms(&self) -> u64 {
        let is_busy = self.traffic.outstanding > 0
            || self.commands.count > 0
            || self.has_read_only
            || !self.commands.starved.is_empty()
            || self.admission.is_busy()
            || self.held.is_busy()
            || !self.turns.closing.is_empty()
            || self.turns.reconfigs.has_held()
            || !self.heard.sessions.is_empty();
        if is_busy {
            return CLOCK_INTERVAL_MS;
        }
        let Some(contact_at_ms) = self.now.contact_at_ms.filter(|_| !self.connections.is_empty())
        else {
            return REST_TICK_MS_MAX;
        };
        let cut_off_ms = contact_at_ms + u64::from(self.config.session_timeout_ms_min) / 3;
        let left_ms = cut_off_ms.saturating_sub(self.now.monotonic_ms);
        left_ms.clamp(CLOCK_INTERVAL_MS, REST_TICK_MS_MAX)
    }

    /// Whether the other members may have ended a session with this timeout without this member
    /// knowing it. The session's client still has two thirds of the timeout to find another member.
    fn is_cut_off(&self, timeout_ms: u32) -> bool {
        self.is_silent_for(u64::from(timeout_ms) / 3)
    }

    /// Whether this member has had no contact for `ms` with the members that decide whether a
    /// session lives. Always false if it decides alone.
    fn is_silent_for(&self, ms: u64) -> bool {
        let is_silent = |at_ms| at_ms == 0 || self.now.monotonic_ms.saturating_sub(at_ms) >= ms;
        self.now.contact_at_ms.is_some_and(is_silent)
    }

    /// Whether clients that accept it get read-only connections (`ReadOnlyZooKeeperServer`).
    fn is_read_only(&self) -> bool {
        self.config.read_only_after_ms.is_some_and(|after_ms| self.is_silent_for(after_ms))
    }

    /// Ends a connection whose session this member may no longer answer for, or a read-only
    /// connection whose client could be fully served again. Returns whether it has ended the
    /// connection.
    fn end_if_cut_off(&mut self, id: ConnectionId) -> bool {
        let (timeout_ms, read_only) = match self.connections.get(&id) {
            Some(connection) if matches!(connection.state, State::Attached) => {
                (connection.timeout_ms, connection.read_only)
            }
            _ => return false,
        };
        let (is_over, why) = match read_only {
            ReadOnly::No => (self.is_cut_off(timeout_ms), NO_CONTACT),
            _ => (!self.is_read_only(), "there is contact with a leader again"),
        };
        if is_over {
            self.disconnect(id, why);
        }
        is_over
    }

    fn end_cut_off_connections(&mut self) {
        // Usually no session is cut off, and no connection has to be looked at.
        let may_serve_more = self.has_read_only && !self.is_read_only();
        if may_serve_more || self.is_cut_off(self.config.session_timeout_ms_min) {
            self.has_read_only &= !may_serve_more;
            let mut ids: Vec<ConnectionId> = self.connections.keys().copied().collect();
            ids.sort_unstable();
            for id in ids {
                self.end_if_cut_off(id);
            }
        }
    }

    /// Counts attached clients as heard from if their input is full because their requests are held
    /// back: what they send meanwhile is not read.
    fn hear_held_back_clients(&mut self) {
        let attached = |found: &&Connection| matches!(found.state, State::Attached);
        let held_back = self.connections.values().filter(attached);
        let held_back = held_back.filter(|found| !found.output.is_full() && found.input_is_full());
        self.heard.sessions.extend(held_back.filter_map(|found| found.session));
    }

    /// Ends connections that have not got a session in time, whatever they have sent. An unanswered
    /// four-letter word, half a frame and a TLS handshake count like silence.
    ///
    /// In ZooKeeper 3.9, each byte restarts the time (`NIOServerCnxnFactory.touchCnxn`).
    fn end_sessionless(&mut self) {
        let now_ms = self.now.monotonic_ms;
        while let Some(&(since_ms, id)) = self.admission.accepted.front() {
            let state = self.connections.get(&id).map(|connection| &connection.state);
            let is_open = !matches!(state, None | Some(State::Attached | State::Closing));
            let is_late = since_ms.saturating_add(self.config.sessionless_ms_max) <= now_ms;
            if is_open && !is_late {
                return;
            }
            self.admission.accepted.pop_front();
            if is_open {
                self.metrics.sessionless_connections_expired += 1;
                self.disconnect(id, "it did not connect a session in time");
            }
        }
    }

    /// Ends connections that have waited for a session as long as an election usually takes, while
    /// this member has no contact with a leader: their clients then try another server. Then tells
    /// Loop about the connections that ended while they waited.
    fn end_connecting(&mut self) {
        let now_ms = self.now.monotonic_ms;
        for id in core::mem::take(&mut self.admission.connecting) {
            let state = self.connections.get(&id).map(|connection| &connection.state);
            let Some(State::Connecting { timeout_ms, since_ms, .. }) = state else { continue };
            let hold_ms = connect_hold_ms(*timeout_ms);
            let is_late = since_ms + hold_ms <= now_ms;
            if is_late && self.is_silent_for(hold_ms.max(CONTACT_MS_USUAL)) {
                self.disconnect(id, NO_CONTACT);
            } else {
                self.admission.connecting.push(id);
            }
        }
        let mut withdrawn = core::mem::take(&mut self.admission.withdrawn);
        if !withdrawn.is_empty() {
            withdrawn.sort_unstable();
            self.output.to_loop.push(ToLoop::Withdraw(self.config.id, withdrawn));
        }
    }

    /// Ends closing connections whose clients do not read their last bytes in time.
    fn end_closing(&mut self) {
        let now_ms = self.now.monotonic_ms;
        while let Some(&(since_ms, id)) = self.turns.closing.front()
            && since_ms + CLOSING_MS_MAX <= now_ms
        {
            self.turns.closing.pop_front();
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.output.forget();
                self.mark_dirty(id);
            }
        }
    }

    /// Takes the output since the last call.
    pub fn take_output(&mut self) -> ZkOutput {
        core::mem::take(&mut self.output)
    }

    /// Sends the answer to a four-letter word, and closes the connection after it.
    pub fn answer_four_letter_word(&mut self, id: ConnectionId, text: &str) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.output.append(|out| out.extend_from_slice(text.as_bytes()));
        // As in `NIOServerCnxn.sendBufferSync`, the answer counts as one frame sent.
        connection.stats.sent += 1;
        self.traffic.sent += 1;
        self.close_after_output(id);
    }

    /// How many commands are in the batch or at Loop, and are not answered.
    pub fn commands_in_flight(&self) -> usize {
        self.commands.count
    }

    /// Whether any connection here has a watch.
    pub fn has_watches(&self) -> bool {
        self.watches.len() > 0
    }

    /// How many departed connections are kept, because their commands may still take effect.
    pub fn departed_count(&self) -> usize {
        self.departed.len()
    }

    /// How many connections this Front has, in any state.
    pub fn connection_count(&self) -> usize {
        self.connections.len()
    }

    // Decoding.

    fn decode(&mut self, id: ConnectionId) {
        loop {
            let Some(connection) = self.connections.get_mut(&id) else { return };
            let halt = match connection.state {
                State::New => self.decode_first(id),
                State::Attached => self.decode_request(id),
                _ => Err(Halt::HeldBack),
            };
            match halt {
                Ok(()) => {}
                Err(Halt::NeedsBytes | Halt::HeldBack | Halt::Closed) => return,
            }
        }
    }

    // Handing over.

    /// Puts the command of a request into the batch. Returns false if no entry of the log can hold
    /// it.
    #[must_use]
    fn submit(&mut self, (id, ticket): (ConnectionId, Ticket), command: &Command<'_>) -> bool {
        let connection = self.connections.get(&id).expect("the caller checked that it exists");
        let identities = connection.identity.encoded();
        let mut added = self.commands.batch.push(id, identities, command);
        if added == Err(NotAdded::Full) {
            let submission = self.commands.finish(self.config.id);
            self.output.to_loop.extend(submission.map(ToLoop::Submit));
            added = self.commands.batch.push(id, identities, command);
        }
        if added.is_ok() {
            self.commands.waiters.push(Waiter::new(id, ticket));
        }
        added.is_ok()
    }

    /// Puts a command of a few bytes into the batch.
    fn submit_small(&mut self, caller: (ConnectionId, Ticket), command: &Command<'_>) {
        let is_added = self.submit(caller, command);
        assert!(is_added, "an entry holds a small command, and the identities of a connection");
    }

    /// Ends the batch and passes it to Loop.
    fn hand_over(&mut self) {
        let submission = self.commands.finish(self.config.id);
        self.output.to_loop.extend(submission.map(ToLoop::Submit));
    }

    // Under the lock.

    fn is_attached(&self, id: ConnectionId) -> bool {
        let state = self.connections.get(&id).map(|connection| &connection.state);
        matches!(state, Some(State::Attached))
    }

    // Deliveries of Apply.

    fn on_answer(&mut self, answer: Answer) {
        match answer {
            Answer::Command { connection, ticket, mark, answered, reads } => {
                self.last_zxid = self.last_zxid.max(mark.zxid.0);
                self.on_command((connection, ticket), mark, answered, reads);
            }
            Answer::Synced { connection, ticket, mark } => {
                self.last_zxid = self.last_zxid.max(mark.zxid.0);
                self.on_synced(connection, ticket);
            }
            Answer::Lease { .. } => unreachable!("only etcd's clients ask for leases"),
        }
    }

    // Ends.

    /// Ends a connection, with a reason for the log: nothing more is read or answered, and the
    /// socket is closed once it has taken the output.
    fn disconnect(&mut self, id: ConnectionId, why: &str) -> Halt {
        self.notice(id, why);
        self.close_after_output(id);
        Halt::Closed
    }

    /// Stops reading and running a connection's requests, and closes it once the socket has taken
    /// its output.
    fn close_after_output(&mut self, id: ConnectionId) {
        let now_ms = self.now.monotonic_ms;
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if matches!(connection.state, State::Closing) {
            return;
        }
        self.turns.closing.push_back((now_ms, id));
        self.audit_closing(id);
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let was_connecting = matches!(connection.state, State::Connecting { .. });
        let session = connection.session;
        connection.state = State::Closing;
        connection.input = BytesMut::new();
        connection.room.unpark();
        let window = connection.window.take_all();
        self.end_window(id, session, window);
        if was_connecting {
            self.commands.give_back(0);
            self.admission.withdrawn.push(id);
        }
        self.watches.close(id);
        self.mark_dirty(id);
    }

    /// Gives back the credit of an ended connection's requests. If some of its commands are not
    /// answered, keeps it as departed.
    fn end_window(&mut self, id: ConnectionId, session: Option<SessionId>, window: VecDeque<Slot>) {
        for slot in &window {
            self.give_back(slot);
        }
        let last = window.iter().rfind(|slot| slot.kind.is_command());
        if let Some((session, last)) = session.zip(last) {
            self.departed.insert(id, session, last.ticket);
        }
    }

    /// Withdraws the commands of a session's departed connections, because the session has ended or
    /// has moved to another connection. At the next tick, Loop is asked to give them up.
    fn withdraw_departed(&mut self, session: SessionId) {
        self.admission.withdrawn.extend(self.departed.end(session));
    }

    fn notice(&mut self, id: ConnectionId, what: &str) {
        let Some(connection) = self.connections.get(&id) else { return };
        let notice = Notice { peer: connection.peer.clone(), what: what.to_string() };
        self.output.notices.push(notice);
    }

    fn mark_dirty(&mut self, id: ConnectionId) {
        self.count_output(id);
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.output.enlist() {
            self.output.dirty.push(id);
        }
    }

    fn enqueue_if_runnable(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.is_runnable() && !connection.listed {
            connection.listed = true;
            self.turns.runnable.push_back(id);
        }
    }
}

/// How long a client with this timeout waits for its session while there is no leader, in ms.
fn connect_hold_ms(timeout_ms: u32) -> u64 {
    CONNECT_HOLD_MS_MAX.min(u64::from(timeout_ms) / CONNECT_HOLD_PART)
}

/// Takes a frame out of the input, if it is whole, and returns its body.
fn take_frame(input: &mut BytesMut, length: u32) -> Option<Bytes> {
    let end = 4 + length as usize;
    if input.len() < end {
        return None;
    }
    let mut frame = input.split_to(end).freeze();
    frame.advance(4);
    Some(frame)
}

const _: () = assert!(
    crate::fronts::zk::limits::CONNECTION_IDENTITY_BYTES_MAX + machine::limits::BATCH_BYTES_MAX
        <= machine::limits::BATCH_ALONE_BYTES_MAX
);

#[cfg(test)]
pub(crate) mod tests;
