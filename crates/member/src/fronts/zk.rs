//! Front: the connections of one runtime, the order within each session, and the watches.
//!
//! The driver puts the bytes it read into [`ZkFront::input`] and calls [`ZkFront::on_input`]. When
//! [`ZkFront::is_runnable`], it takes the lock for reading, hands over the deliveries that Apply
//! pushed before ([`ZkFront::on_delivery`]), and calls [`ZkFront::run_reads`]. It passes on the
//! output of [`ZkFront::take_output`], and writes each connection's output to its socket.
//!
//! Order within a session is exact: reads before a write run first, then the write is handed over.
//! A read behind an own write that is still in this Front's batch travels with it. Any other read
//! behind an own write waits for that write's answer, and holds back the session's later writes; so
//! does a sync that is not answered. A connection that is held back is not decoded any further.
//!
//! Nobody knows how large the reply to a read will be when the read is handed over. So no read
//! travels behind a large write, nor on a connection that recently got a large reply; and Apply
//! hands back a read with a large reply if the member has no room for replies (`room`). Such a read
//! runs here, at the front of the window, and holds back the session's later writes from then on:
//! its reply shows the state before the next own write. If that write was handed over already, this
//! cannot be promised, and the read is refused.
//!
//! A client's output is ordered by ordinal: events come before the replies that show their changes,
//! and the zxids of its replies never fall.

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
use watches::Watches;

pub use journal::{AuditEvent, AuditResult, SlowRequest, audit_ended_sessions};
pub use reports::{Reset, ResponseSize, WatchPage, ZkFrontMetrics, ZkFrontReport};
pub use room::{HeldBytes, RefusedReply};
pub use watches::WatchCursor;

/// The configuration of a Front.
#[derive(Clone, Debug)]
pub struct ZkFrontConfig {
    /// The number of this Front within its member.
    pub id: FrontId,
    /// This member and this start of it.
    pub origin: Origin,
    /// Bytes of a request frame (`jute.maxbuffer`).
    pub frame_bytes_max: u32,
    /// Commands of all connections that are not yet answered, at least 1. At the bound none of them
    /// is read. By default [`FRONT_COMMANDS_MAX`](crate::limits::FRONT_COMMANDS_MAX).
    pub commands_max: usize,
    /// Requests that waited longer for that credit are refused (`throttled_op_wait_time`), in ms;
    /// 0: they wait.
    pub throttled_op_wait_ms: u64,
    /// `minSessionTimeout`.
    pub session_timeout_ms_min: u32,
    /// `maxSessionTimeout`.
    pub session_timeout_ms_max: u32,
    /// Four-letter words that are answered; `*` is all.
    pub words_allowed: Vec<String>,
    /// For session ids and passwords: unpredictable where it matters, a seed in the simulator.
    pub secret: [u8; 32],
    /// The settings as of the machine this Front starts with.
    pub settings: Arc<Settings>,
    /// How clients prove who they are.
    pub auth: Arc<AuthConfig>,
    /// The throttle for clients and large requests, shared by the Fronts of this member.
    pub throttle: Arc<Throttle>,
    /// The room for replies, which the Fronts of this member share with its Apply
    /// ([`Apply::replies`](crate::Apply::replies)).
    pub replies: Arc<ReplyRoom>,
    /// Bytes of the reply to a read (`reply_bytes_max`). A larger one is refused with a marshalling
    /// error. `None` if only multi-reads have a bound.
    pub reply_bytes_max: Option<u64>,
    /// Names that the first step of a list adds, at least 1. Outside of the simulator
    /// [`LIST_STEP_NAMES`](crate::fronts::zk::limits::LIST_STEP_NAMES).
    pub list_step_names: usize,
    /// How long a connection may be without a session (`nio.sessionlessCnxnTimeout`).
    pub sessionless_ms_max: u64,
    /// Whether each write is reported to the audit log (`audit.enable`).
    pub audit: bool,
    /// Requests that took longer, in ms, are logged; `None` if no request is.
    pub slow_request_ms: Option<u64>,
    /// After this time without contact, in ms, clients that ask for it are served reads
    /// (`readonlymode.enabled`); `None` if no client is.
    pub read_only_after_ms: Option<u64>,
}

/// The clocks of the driver.
#[derive(Clone, Copy, Debug, Default)]
pub struct Now {
    /// A clock that never goes back, for latencies and intervals.
    pub monotonic_ms: u64,
    /// Ms since 1970; shown to people only.
    pub wall_ms: i64,
    /// When, by the monotonic clock, this member last had contact to the members that decide
    /// whether a session lives (`Loop::contact_ms`). `None` if it decides alone, 0 if it cannot
    /// take part any more.
    pub contact_at_ms: Option<u64>,
}

/// The output of a Front, for the driver to pass on.
#[derive(Debug, Default)]
pub struct ZkOutput {
    /// Messages for Loop, in order.
    pub to_loop: Vec<ToLoop>,
    /// Connections that have bytes to write, or are to be closed.
    pub dirty: Vec<ConnectionId>,
    /// Four-letter words to be answered by [`ZkFront::answer_four_letter_word`].
    pub words: Vec<(ConnectionId, Word)>,
    /// Notices for the log, each with the connection's peer.
    pub notices: Vec<Notice>,
    /// Events for the audit log, in order.
    pub audits: Vec<AuditEvent>,
    /// Slow requests for the log, as warnings.
    pub slow: Vec<SlowRequest>,
}

/// Something a person may want to know about a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The client's address.
    pub peer: String,
    /// The event, as text.
    pub what: String,
}

/// One connection runtime's step function.
pub struct ZkFront {
    config: ZkFrontConfig,
    settings: Arc<Settings>,
    connections: HashMap<ConnectionId, Connection, FixedState>,
    /// The connection here that speaks for each session.
    sessions: HashMap<SessionId, ConnectionId, FixedState>,
    watches: Watches,
    feed: Feed,
    commands: Commands,
    turns: Turns,
    admission: Admission,
    departed: Departed,
    held: HeldReplies,
    heard: Heard,
    /// Whether some connections may be read-only.
    has_read_only: bool,
    spare: Spare,
    /// The highest zxid that this Front has seen, for replies to pings.
    last_zxid: i64,
    now: Now,
    traffic: Traffic,
    metrics: ZkFrontMetrics,
    slow: SlowRequests,
    output: ZkOutput,
}

/// Connections that have something to do.
#[derive(Default)]
struct Turns {
    /// Connections with something to run under the lock.
    runnable: VecDeque<ConnectionId>,
    /// Connections whose input may go on being decoded.
    resumable: Vec<ConnectionId>,
    /// Closing connections, by the time they began to close.
    closing: VecDeque<(u64, ConnectionId)>,
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

/// The reason logged when a connection ends because this member may not answer for its session.
const NO_CONTACT: &str = "there is no contact with a leader";

/// Bytes of a frame's length.
const LENGTH_BYTES: usize = 4;

/// Why a connection is not decoded any further for now.
enum Halt {
    /// The next frame is not whole.
    NeedsBytes,
    /// The next request must wait.
    HeldBack,
    /// The connection is over.
    Closed,
}

impl ZkFront {
    /// A Front without connections.
    pub fn new(config: ZkFrontConfig) -> ZkFront {
        ZkFront {
            settings: config.settings.clone(),
            config,
            connections: HashMap::with_hasher(FixedState::default()),
            sessions: HashMap::with_hasher(FixedState::default()),
            watches: Watches::default(),
            feed: Feed::default(),
            commands: Commands::default(),
            turns: Turns::default(),
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

    /// Adds the connection of a client. `ip` is its address as `ip` identities have it, `peer` its
    /// `host:port`.
    pub fn on_accept(&mut self, id: ConnectionId, ip: &str, peer: String) {
        let connection = Connection::new(ip, peer, self.now.wall_ms);
        self.admission.accepted.push_back((self.now.monotonic_ms, id));
        let previous = self.connections.insert(id, connection);
        assert!(previous.is_none());
    }

    /// Adds the identities that a client's certificate proved, before its first frame. A client
    /// with a name too long to travel with every batch is disconnected.
    ///
    /// ZooKeeper 3.9 `NettyServerCnxnFactory.CertificateVerifier`.
    pub fn on_identified(&mut self, id: ConnectionId, proved: &[(&str, &str)]) {
        if self.connections.contains_key(&id) && !self.add_identities(id, proved) {
            self.disconnect(id, "its certificate has a name too long to travel with its requests");
        }
    }

    /// The buffer to which the driver appends the bytes it read. `None` if the connection is over,
    /// or must not be read for now.
    pub fn input(&mut self, id: ConnectionId) -> Option<&mut BytesMut> {
        let connection = self.connections.get_mut(&id)?;
        if connection.wants_input() { Some(&mut connection.input) } else { None }
    }

    /// Decodes the bytes that were appended to the input of a connection.
    pub fn on_input(&mut self, id: ConnectionId) {
        if self.end_if_cut_off(id) {
            return;
        }
        // The session counts as heard before decoding: a client whose requests are held back behind
        // a slow disk is alive.
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

    /// Whether any connection waits for the state's lock, and may have it: all deliveries are
    /// taken, and the tree is not known to be amid a change.
    pub fn is_runnable(&self) -> bool {
        !self.turns.runnable.is_empty() && self.feed.is_empty() && !self.feed.waits_for_tree
    }

    /// Whether [`ZkFront::resume`] or [`ZkFront::run_reads`] has work to do.
    pub fn may_go_on(&self) -> bool {
        self.is_runnable() || !self.turns.resumable.is_empty() || self.is_behind()
    }

    /// Whether some of what happened before is not done, for which the driver is to call
    /// [`ZkFront::resume`] again once other tasks had a turn: deliveries to be taken, or watches of
    /// closed connections to be removed.
    pub fn is_behind(&self) -> bool {
        !self.feed.is_empty() || self.watches.has_closed()
    }

    /// Runs the requests that wait for the lock, up to the bounds of one hold. The driver holds the
    /// lock for reading, and has handed over every delivery that was pushed before. Nothing runs if
    /// they were too long to be taken at once: the state shows their changes already.
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

    /// Goes on decoding connections that were held back. Called after [`ZkFront::run_reads`] and
    /// [`ZkFront::on_delivery`], without the lock. Before, takes a piece of what was left
    /// ([`ZkFront::is_behind`]).
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

    /// The socket took the first `count` bytes of a connection's output.
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

    /// The bytes to write to a connection's socket, and whether to close it after that.
    pub fn pending_output(&mut self, id: ConnectionId) -> Option<(&[u8], bool)> {
        let connection = self.connections.get_mut(&id)?;
        connection.output.delist();
        let closing = matches!(connection.state, State::Closing);
        Some((connection.output.pending(), closing))
    }

    /// Removes a connection: its socket is gone, or the driver closed it.
    pub fn on_closed(&mut self, id: ConnectionId) {
        let Some(mut connection) = self.connections.remove(&id) else { return };
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

    /// Acts on the time that has passed: ends connections that are late, and reports the sessions
    /// heard from.
    pub fn on_tick(&mut self) {
        self.end_sessionless();
        self.end_connecting();
        self.end_closing();
        self.end_cut_off_connections();
        self.end_slow_readers();
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

    /// How long until [`ZkFront::on_tick`] is due if nothing arrives before, in ms. A Front whose
    /// clients are all at rest only checks now and then whether its member still has contact.
    pub fn tick_ms(&self) -> u64 {
        let is_busy = self.traffic.outstanding > 0
            || self.commands.count > 0
            || self.has_read_only
            || !self.commands.starved.is_empty()
            || self.admission.is_busy()
            || self.held.is_busy()
            || !self.turns.closing.is_empty()
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

    /// Whether the other members may have ended a session with this timeout without this member's
    /// knowing. Its clients then have two thirds of the timeout left to find another member.
    fn is_cut_off(&self, timeout_ms: u32) -> bool {
        self.is_silent_for(u64::from(timeout_ms) / 3)
    }

    /// Whether this member had no contact for `ms` to the members that decide whether a session
    /// lives. Never if it decides alone.
    fn is_silent_for(&self, ms: u64) -> bool {
        let is_silent = |at_ms| at_ms == 0 || self.now.monotonic_ms.saturating_sub(at_ms) >= ms;
        self.now.contact_at_ms.is_some_and(is_silent)
    }

    /// Whether clients that ask for it are served as read-only (`ReadOnlyZooKeeperServer`).
    fn is_read_only(&self) -> bool {
        self.config.read_only_after_ms.is_some_and(|after_ms| self.is_silent_for(after_ms))
    }

    /// Ends the connection of a session that this member may not answer for any more, or a
    /// read-only connection whose client can be fully served again.
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
        // Usually no session is cut off, and none needs to be looked at.
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

    /// Counts clients as heard that are not read because their requests are held back: what they
    /// send meanwhile lies unread behind those.
    fn hear_held_back_clients(&mut self) {
        let attached = |found: &&Connection| matches!(found.state, State::Attached);
        let held_back = self.connections.values().filter(attached);
        let held_back = held_back.filter(|found| !found.output.is_full() && found.input_is_full());
        self.heard.sessions.extend(held_back.filter_map(|found| found.session));
    }

    /// Ends connections that have no session in time, whatever they have sent until then. An
    /// unanswered four-letter word, half a frame and a TLS handshake count like silence.
    ///
    /// ZooKeeper 3.9 `NIOServerCnxnFactory.touchCnxn`, where each byte counts anew.
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

    /// Ends connections that wait for a session while this member has no contact to a leader, after
    /// as long as an election usually takes: their clients try another server. Then tells Loop
    /// about all that ended while they waited.
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

    /// Ends closing connections whose clients do not read their last bytes.
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

    /// Takes the output for the driver to pass on.
    pub fn take_output(&mut self) -> ZkOutput {
        core::mem::take(&mut self.output)
    }

    /// Sends the answer to a four-letter word, and then closes the connection.
    pub fn answer_four_letter_word(&mut self, id: ConnectionId, text: &str) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.output.append(|out| out.extend_from_slice(text.as_bytes()));
        // `NIOServerCnxn.sendBufferSync` counts what it writes of a word's answer.
        connection.stats.sent += 1;
        self.traffic.sent += 1;
        self.close_after_output(id);
    }

    /// How many commands were handed over and are not answered.
    pub fn commands_in_flight(&self) -> usize {
        self.commands.count
    }

    /// Whether any connection here has a watch.
    pub fn has_watches(&self) -> bool {
        self.watches.len() > 0
    }

    /// How many connections have ended with commands that are not answered and may take effect.
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

    /// Puts the command of a request into the batch. False: no entry of the log can hold it.
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

    /// Puts a command into the batch that is a few bytes long.
    fn submit_small(&mut self, caller: (ConnectionId, Ticket), command: &Command<'_>) {
        let is_added = self.submit(caller, command);
        assert!(is_added, "an entry holds a small command, and the identities of a connection");
    }

    /// Ends the batch and passes it on.
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

    /// Closes a connection once its client has taken the output so far. Nothing more is read or
    /// answered.
    fn disconnect(&mut self, id: ConnectionId, why: &str) -> Halt {
        self.notice(id, why);
        self.close_after_output(id);
        Halt::Closed
    }

    /// Stops reading and running requests of a connection, and closes it once its output is taken.
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

    /// Returns the credit of the requests of a connection that has ended, and remembers it if
    /// commands of it are not answered.
    fn end_window(&mut self, id: ConnectionId, session: Option<SessionId>, window: VecDeque<Slot>) {
        for slot in &window {
            self.give_back(slot);
        }
        let last = window.iter().rfind(|slot| slot.kind.is_command());
        if let Some((session, last)) = session.zip(last) {
            self.departed.insert(id, session, last.ticket);
        }
    }

    /// Withdraws the commands of a session's earlier connections: the session has ended, or belongs
    /// to another connection. Loop is told at the next tick to give them up.
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

/// How long a client with this timeout may wait for its session while there is no leader, in ms.
fn connect_hold_ms(timeout_ms: u32) -> u64 {
    CONNECT_HOLD_MS_MAX.min(u64::from(timeout_ms) / CONNECT_HOLD_PART)
}

/// Takes a whole frame's body out of the input.
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
