//! Front: the connections of one runtime, the order within each session, and the watches.
//!
//! The driver puts bytes it read into [`Front::input`] and calls [`Front::on_input`]; it takes the
//! lock for reading when [`Front::is_runnable`], hands over what Apply pushed before
//! ([`Front::on_delivery`]), and calls [`Front::run_reads`]; it passes on what
//! [`Front::take_output`] gives, and writes each connection's output to its socket.
//!
//! Order within a session is exact: reads before a write run first, then the write is handed over;
//! a read behind an own write that is still in this Front's batch travels with it; any other read
//! behind an own write waits for its answer, and holds back the session's later writes; so does a
//! sync that is not answered. A connection that is held back is not decoded any further.
//!
//! A client's output is ordered by ordinal, events before the replies that show what they tell, and
//! the zxids of its replies never fall.

pub mod auth;
mod connection;
mod journal;
mod reports;
mod watches;

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};
use machine::acl::{self, perms};
use machine::change::parent_path;
use machine::entry::{BatchBuilder, encode_identities};
use machine::{
    Acl, Change, ChangeKind, Command, ConnectionId, DescendantCount, Machine, Ordinal, Origin,
    Outcome, Owner, QueryResult, Refusal, SessionId, Settings,
};
use zk::auth::{DigestAlgorithm, digest_id, session_secret};
use zk::four_letter::{Latency, TRACE_MASK_BYTES, Word};
use zk::jute::{JuteError, JuteReader};
use zk::limits::CONNECT_BYTES_MAX;
use zk::request::{ConnectRequest, ReadKind, Request, RequestHeader, XID_PING};
use zk::response::{
    ConnectResponse, EventType, ReplyHeader, WriteForm, encode_add_watch,
    encode_all_children_number, encode_empty, encode_ephemerals, encode_event, encode_multi_read,
    encode_read, encode_sasl, encode_sync, encode_unavailable, encode_who_am_i, encode_write,
};
use zk::sasl::Exchange;
use zk::{ErrorCode, ops};

use crate::limits::{
    CLOSING_MS_MAX, COUNT_STEP_SLOTS_MAX, FRONT_BYTES_MAX, GREETING_MS_MAX, HEARD_INTERVAL_MS,
    MULTI_READ_BYTES_MAX, OUTPUT_BYTES_LIMIT, READ_HOLD_BYTES_MAX, READ_HOLD_REQUESTS_MAX,
    READ_TURN_REQUESTS_MAX, TRAVELLING_READS_MAX, WATCH_BYTES_MAX, WINDOW_BYTES_MAX,
    WINDOW_REQUESTS_MAX,
};
use crate::message::{
    Answer, Answered, Delivery, FrontId, OwnedIdentity, OwnedRead, ReadAnswer, Submission, ToLoop,
    TravellingRead, Unavailable, Waiter, borrow,
};
use auth::{AuthConfig, Ensemble};
use connection::{Connection, OwnedSetWatches, Slot, SlotKind, Spare, State, Stats};
use journal::SlowRequests;
use watches::{WatchKind, Watches};

pub use journal::{AuditEvent, AuditResult, SlowRequest};
pub use reports::{FrontMetrics, FrontReport, Reset, ResponseSize, WatchPage};
pub use watches::WatchCursor;

/// What a Front is told when it is made.
#[derive(Clone, Debug)]
pub struct FrontConfig {
    /// Which one of this member's.
    pub id: FrontId,
    /// This member and this start of it.
    pub origin: Origin,
    /// Bytes of a request frame (`jute.maxbuffer`).
    pub frame_bytes_max: u32,
    /// Commands of all connections that are not yet answered, at least 1. At the bound none of them
    /// is read. By default [`FRONT_COMMANDS_MAX`](crate::limits::FRONT_COMMANDS_MAX).
    pub commands_max: usize,
    /// Requests that waited longer for that are refused (`throttled_op_wait_time`); 0: they wait.
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
    /// Whether each write is told to the audit log (`audit.enable`).
    pub audit: bool,
    /// Requests that took longer are told; none: no request is.
    pub slow_request_ms: Option<u64>,
}

/// The clocks of the driver.
#[derive(Clone, Copy, Debug, Default)]
pub struct Now {
    /// Never falls; latencies and intervals.
    pub monotonic_ms: u64,
    /// Ms since 1970; shown to people only.
    pub wall_ms: i64,
}

/// What the driver is to pass on.
#[derive(Debug, Default)]
pub struct FrontOutput {
    /// For Loop, in order.
    pub to_loop: Vec<ToLoop>,
    /// Connections that have bytes to be written, or are to be closed.
    pub dirty: Vec<ConnectionId>,
    /// Four-letter words to be answered by [`Front::answer_word`].
    pub words: Vec<(ConnectionId, Word)>,
    /// For the log, each with the connection's peer.
    pub notices: Vec<Notice>,
    /// For the audit log, in order.
    pub audits: Vec<AuditEvent>,
    /// For the log, as warnings.
    pub slow: Vec<SlowRequest>,
}

/// Something a person may want to know about a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The client's address.
    pub peer: String,
    /// What happened.
    pub what: String,
}

/// One connection runtime's step function.
pub struct Front {
    config: FrontConfig,
    settings: Arc<Settings>,
    connections: HashMap<ConnectionId, Connection, FixedState>,
    /// Which connection here speaks for a session.
    sessions: HashMap<SessionId, ConnectionId, FixedState>,
    watches: Watches,
    batch: BatchBuilder,
    waiters: Vec<Waiter>,
    /// Commands handed over and not answered, and their bytes.
    commands_in_flight: usize,
    bytes_in_flight: usize,
    /// Connections with something to run under the lock.
    runnable: VecDeque<ConnectionId>,
    /// Connections whose input may go on being decoded.
    resumable: Vec<ConnectionId>,
    /// Connections that could not go on because the Front's credits were spent.
    starved: Vec<ConnectionId>,
    /// Connections by the time they were accepted, for those that never greet.
    accepted: VecDeque<(u64, ConnectionId)>,
    /// Connections by the time they began to close.
    closing: VecDeque<(u64, ConnectionId)>,
    heard: HashSet<SessionId, FixedState>,
    heard_reported_ms: u64,
    secrets_drawn: u64,
    spare: Spare,
    /// The highest zxid this Front has seen; for pings.
    last_zxid: i64,
    now: Now,
    latency: Latency,
    received: u64,
    sent: u64,
    /// Requests in all windows.
    outstanding: u64,
    metrics: FrontMetrics,
    slow: SlowRequests,
    output: FrontOutput,
}

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

impl Front {
    /// A Front without connections.
    pub fn new(config: FrontConfig) -> Front {
        Front {
            settings: config.settings.clone(),
            config,
            connections: HashMap::with_hasher(FixedState::default()),
            sessions: HashMap::with_hasher(FixedState::default()),
            watches: Watches::default(),
            batch: BatchBuilder::default(),
            waiters: Vec::new(),
            commands_in_flight: 0,
            bytes_in_flight: 0,
            runnable: VecDeque::new(),
            resumable: Vec::new(),
            starved: Vec::new(),
            accepted: VecDeque::new(),
            closing: VecDeque::new(),
            heard: HashSet::with_hasher(FixedState::default()),
            heard_reported_ms: 0,
            secrets_drawn: 0,
            spare: Spare::default(),
            last_zxid: 0,
            now: Now::default(),
            latency: Latency::default(),
            received: 0,
            sent: 0,
            outstanding: 0,
            metrics: FrontMetrics::default(),
            slow: SlowRequests::default(),
            output: FrontOutput::default(),
        }
    }

    // What the driver calls.

    /// Sets the clocks for what follows.
    pub fn set_now(&mut self, now: Now) {
        self.now = now;
    }

    /// A client connected. `ip` is its address as `ip` identities have it, `peer` its `host:port`.
    pub fn on_accept(&mut self, id: ConnectionId, ip: &str, peer: String) {
        let identity = OwnedIdentity { scheme: "ip".into(), id: ip.into() };
        let mut connection = Connection {
            peer,
            state: State::New,
            input: BytesMut::new(),
            output: Vec::new(),
            output_start: 0,
            window: Default::default(),
            window_bytes: 0,
            local_reads: 0,
            travelling_reads: 0,
            open_syncs: 0,
            session: None,
            timeout_ms: 0,
            sasl: Exchange::New,
            identities: Arc::new([]),
            identity_bytes: Vec::new(),
            listed: false,
            dirty: false,
            starved_since_ms: None,
            throttled_bytes: 0,
            stats: Stats { established_ms: self.now.wall_ms, last_xid: -1, ..Stats::default() },
        };
        connection.stats.last_operation = "NA";
        set_identities(&mut connection, vec![identity]);
        self.accepted.push_back((self.now.monotonic_ms, id));
        let previous = self.connections.insert(id, connection);
        assert!(previous.is_none());
    }

    /// A client proved who it is by its certificate, before it said anything. One with a name too
    /// long to travel with every batch is disconnected.
    ///
    /// ZooKeeper 3.9 `NettyServerCnxnFactory.CertificateVerifier`.
    pub fn on_identified(&mut self, id: ConnectionId, proved: &[(&str, &str)]) {
        if self.connections.contains_key(&id) && !self.add_identities(id, proved) {
            self.disconnect(id, "its certificate has a name too long to travel with its requests");
        }
    }

    /// Where the driver appends what it read. `None` if the connection is over, or must not be
    /// read for now.
    pub fn input(&mut self, id: ConnectionId) -> Option<&mut BytesMut> {
        let connection = self.connections.get_mut(&id)?;
        if connection.wants_input() { Some(&mut connection.input) } else { None }
    }

    /// Bytes were appended to the input of a connection.
    pub fn on_input(&mut self, id: ConnectionId) {
        // Before decoding: a client whose requests are held back behind a slow disk is alive.
        if let Some(connection) = self.connections.get_mut(&id)
            && let State::Attached = connection.state
        {
            self.heard.extend(connection.session);
            connection.take_spare(&mut self.spare);
        }
        self.decode(id);
        self.hand_over();
    }

    /// Whether anything waits for the state's lock.
    pub fn is_runnable(&self) -> bool {
        !self.runnable.is_empty()
    }

    /// Whether anything became possible that [`Front::resume`] or the lock would get done.
    pub fn may_go_on(&self) -> bool {
        !self.runnable.is_empty() || !self.resumable.is_empty()
    }

    /// Runs what waits for the lock, up to the bounds of one hold. The driver holds the lock for
    /// reading, and has handed over every delivery that was pushed before.
    pub fn run_reads(&mut self, machine: &Machine) {
        let mut requests = 0;
        let mut bytes = 0;
        while requests < READ_HOLD_REQUESTS_MAX && bytes < READ_HOLD_BYTES_MAX {
            let Some(id) = self.runnable.pop_front() else { return };
            let before = self.output_bytes(id);
            let mut more = true;
            let mut turn = 0;
            let mut written = 0;
            let turn_max = READ_TURN_REQUESTS_MAX.min(READ_HOLD_REQUESTS_MAX - requests);
            while more && turn < turn_max && bytes + written < READ_HOLD_BYTES_MAX {
                more = self.run_one(id, machine);
                turn += 1;
                written = self.output_bytes(id).saturating_sub(before);
            }
            requests += turn;
            bytes += written;
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.listed = false;
                self.list(id);
                self.resumable.push(id);
            }
        }
    }

    fn output_bytes(&self, id: ConnectionId) -> usize {
        self.connections.get(&id).map_or(0, Connection::output_bytes)
    }

    /// Goes on decoding what was held back. Called after [`Front::run_reads`] and
    /// [`Front::on_delivery`], without the lock.
    pub fn resume(&mut self) {
        if self.has_credit() {
            for id in core::mem::take(&mut self.starved) {
                if let Some(connection) = self.connections.get_mut(&id) {
                    let since_ms = connection.starved_since_ms.take();
                    let waited_ms = since_ms.map_or(0, |ms| self.now.monotonic_ms - ms);
                    let wait_ms_max = self.config.throttled_op_wait_ms;
                    if wait_ms_max > 0 && waited_ms > wait_ms_max {
                        connection.throttled_bytes = connection.input.len();
                    }
                    self.resumable.push(id);
                }
            }
        }
        for id in core::mem::take(&mut self.resumable) {
            self.decode(id);
        }
        self.hand_over();
    }

    /// Takes what Apply pushed: events and answers, merged by ordinal.
    pub fn on_delivery(&mut self, delivery: Delivery) {
        let mut changes = delivery.changes.iter().peekable();
        for answer in delivery.answers {
            while let Some((change, path)) =
                changes.next_if(|(change, _)| change.ordinal <= answer.ordinal())
            {
                self.on_change(change, path);
            }
            self.on_answer(answer);
        }
        for (change, path) in changes {
            self.on_change(change, path);
        }
    }

    /// The socket took the first `count` bytes of a connection's output.
    pub fn on_written(&mut self, id: ConnectionId, count: usize) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let was_full = connection.output_is_full();
        connection.take_output(count);
        connection.rest(&mut self.spare);
        if was_full && !connection.output_is_full() {
            self.list(id);
            self.resumable.push(id);
        }
    }

    /// What is to be written to a connection's socket, and whether it is to be closed after that.
    pub fn pending_output(&mut self, id: ConnectionId) -> Option<(&[u8], bool)> {
        let connection = self.connections.get_mut(&id)?;
        connection.dirty = false;
        let closing = matches!(connection.state, State::Closing);
        Some((connection.pending_output(), closing))
    }

    /// The socket is gone, or the driver closed it.
    pub fn on_closed(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.remove(&id) else { return };
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
        for slot in &connection.window {
            self.give_back(&slot.kind);
        }
        if let State::Connecting { .. } = connection.state {
            self.commands_in_flight -= 1;
        }
    }

    /// Time went by: reports the sessions heard from.
    pub fn on_tick(&mut self) {
        self.end_idle();
        if self.now.monotonic_ms < self.heard_reported_ms + HEARD_INTERVAL_MS {
            return;
        }
        self.heard_reported_ms = self.now.monotonic_ms;
        self.hear_those_held_back();
        if !self.heard.is_empty() {
            let mut heard: Vec<SessionId> = self.heard.drain().collect();
            heard.sort_unstable();
            self.output.to_loop.push(ToLoop::Heard(heard));
        }
    }

    /// A client that is not read because its requests are held back waits for us: what it says
    /// meanwhile lies unread behind them.
    fn hear_those_held_back(&mut self) {
        let attached = |found: &&Connection| matches!(found.state, State::Attached);
        let held_back = self.connections.values().filter(attached);
        let held_back = held_back.filter(|found| !found.output_is_full() && found.input_is_full());
        self.heard.extend(held_back.filter_map(|found| found.session));
    }

    /// Ends connections that never said who they are, and those that leave their last bytes lying.
    fn end_idle(&mut self) {
        let now_ms = self.now.monotonic_ms;
        while let Some(&(since_ms, id)) = self.accepted.front()
            && since_ms + GREETING_MS_MAX <= now_ms
        {
            self.accepted.pop_front();
            let state = self.connections.get(&id).map(|connection| &connection.state);
            if let Some(State::New) = state {
                self.metrics.sessionless_connections_expired += 1;
                self.disconnect(id, "it did not connect a session in time");
            }
        }
        while let Some(&(since_ms, id)) = self.closing.front()
            && since_ms + CLOSING_MS_MAX <= now_ms
        {
            self.closing.pop_front();
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.drop_output();
                self.soil(id);
            }
        }
    }

    /// What is to be passed on.
    pub fn take_output(&mut self) -> FrontOutput {
        core::mem::take(&mut self.output)
    }

    /// The answer to a four-letter word, after which the connection is closed.
    pub fn answer_word(&mut self, id: ConnectionId, text: &str) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.output.extend_from_slice(text.as_bytes());
        // `NIOServerCnxn.sendBufferSync` counts what it writes of a word's answer.
        connection.stats.sent += 1;
        self.sent += 1;
        self.close_after_output(id);
    }

    /// Whether any connection here waits for a change.
    pub fn has_watches(&self) -> bool {
        self.watches.len() > 0
    }

    /// Connections, whatever their state.
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

    /// A four-letter word or a connect request.
    fn decode_first(&mut self, id: ConnectionId) -> Result<(), Halt> {
        let connection = self.connections.get_mut(&id).expect("the caller looked");
        let Some(first) = connection.input.first_chunk::<4>() else { return Err(Halt::NeedsBytes) };
        if let Some(word) = zk::four_letter::recognise(*first) {
            return self.on_word(id, word);
        }
        let length = u32::from_be_bytes(*first);
        if length > CONNECT_BYTES_MAX {
            return Err(self.disconnect(id, &format!("a first frame of {length} bytes")));
        }
        let Some(frame) = take_frame(&mut connection.input, length) else {
            return Err(Halt::NeedsBytes);
        };
        connection.stats.received += 1;
        self.received += 1;
        self.metrics.bytes_received_count += frame.len() as u64 + 4;
        match ConnectRequest::decode(&frame) {
            Ok(connect) => {
                self.metrics.connection_request_count += 1;
                connection.state = State::Greeting(connect);
                self.list(id);
                Err(Halt::HeldBack)
            }
            Err(error) => Err(self.disconnect(id, &format!("its connect request: {error}"))),
        }
    }

    fn on_word(&mut self, id: ConnectionId, mut word: Word) -> Result<(), Halt> {
        let allowed = &self.config.words_allowed;
        let is_allowed = allowed.iter().any(|name| name == "*" || name == word.name());
        let connection = self.connections.get_mut(&id).expect("the caller looked");
        if let (Word::Stmk { mask }, true) = (&mut word, is_allowed) {
            let argument = connection.input.get(4..).and_then(|rest| rest.first_chunk());
            let argument: &[u8; TRACE_MASK_BYTES] = argument.ok_or(Halt::NeedsBytes)?;
            *mask = i64::from_be_bytes(*argument);
        }
        connection.state = State::Waiting;
        connection.input.clear();
        connection.stats.received += 1;
        self.received += 1;
        self.metrics.bytes_received_count += 4;
        match word {
            _ if !is_allowed => self.answer_word(id, &zk::four_letter::not_allowed(word)),
            // It is allowed to be no word: then it is a negative length.
            Word::TelnetClose => return Err(self.disconnect(id, "telnet closed it")),
            _ => self.output.words.push((id, word)),
        }
        Err(Halt::HeldBack)
    }

    /// The next frame of a connection with a session.
    fn decode_request(&mut self, id: ConnectionId) -> Result<(), Halt> {
        let has_credit = self.has_credit();
        let frame_bytes_max = self.config.frame_bytes_max;
        let connection = self.connections.get_mut(&id).expect("the caller looked");
        if connection.is_refused() {
            return Err(Halt::HeldBack);
        }
        let Some(first) = connection.input.first_chunk::<4>() else { return Err(Halt::NeedsBytes) };
        let length = u32::from_be_bytes(*first);
        if length > frame_bytes_max {
            let what = format!("a frame of {} bytes, {frame_bytes_max} allowed", length as i32);
            return Err(self.disconnect(id, &what));
        }
        let window_is_full = connection.window.len() >= WINDOW_REQUESTS_MAX
            || connection.window_bytes >= WINDOW_BYTES_MAX;
        if window_is_full || connection.output_is_full() {
            return Err(Halt::HeldBack);
        }
        if !has_credit && connection.throttled_bytes == 0 {
            if connection.starved_since_ms.is_none() {
                connection.starved_since_ms = Some(self.now.monotonic_ms);
                self.starved.push(id);
            }
            return Err(Halt::HeldBack);
        }
        let Some(body) = connection.input.get(4..4 + length as usize) else {
            return Err(Halt::NeedsBytes);
        };
        let opcode = body.get(4..8).and_then(|bytes| bytes.first_chunk::<4>());
        if opcode.is_some_and(|opcode| is_held_back(connection, i32::from_be_bytes(*opcode))) {
            return Err(Halt::HeldBack);
        }
        let Some(frame) = take_frame(&mut connection.input, length) else {
            return Err(Halt::NeedsBytes);
        };
        connection.stats.received += 1;
        self.received += 1;
        self.metrics.bytes_received_count += frame.len() as u64 + 4;
        let mut reader = JuteReader::new(&frame);
        let header = match RequestHeader::decode(&mut reader) {
            Ok(header) => header,
            Err(error) => return Err(self.disconnect(id, &format!("a request: {error}"))),
        };
        let session = connection.session.expect("an attached connection has a session");
        let throttled = connection.takes_throttled(4 + frame.len());
        if self.lacks_auth(id, header.opcode) {
            self.notice(id, "it asks for something before it has proved who it is");
            self.fail(id, header.xid, ErrorCode::AUTH_REQUIRED, Some(0), true);
            return Ok(());
        }
        if throttled && is_throttlable(header.opcode) {
            self.metrics.throttled_ops += 1;
            self.fail(id, header.xid, ErrorCode::THROTTLED_OP, None, false);
            return Ok(());
        }
        match Request::decode(header.opcode, &mut reader) {
            Ok(request) => self.on_request(id, header, &request, frame.len()),
            // `ZooKeeperServer.processPacket` reads these before all others, and does not catch.
            Err(error) if header.opcode == zk::request::opcode::AUTH => {
                Err(self.disconnect(id, &format!("an auth packet: {error}")))
            }
            Err(error) if header.opcode == zk::request::opcode::SASL => {
                Err(self.disconnect(id, &format!("a SASL packet: {error}")))
            }
            // `PrepRequestProcessor.pRequestHelper` takes the zxid on its way out, where an ACL is null
            // on another.
            Err(error)
                if header.opcode == zk::request::opcode::MULTI
                    && !matches!(error, JuteError::NullAcl { .. }) =>
            {
                let bytes = frame.len();
                self.submit(id, &ops::refused_command(session), bytes);
                let form = WriteForm::Refused(ErrorCode::MARSHALLING_ERROR);
                self.push_slot(id, header.xid, SlotKind::Write { form, bytes });
                Ok(())
            }
            Err(_) => {
                self.fail(id, header.xid, ErrorCode::MARSHALLING_ERROR, None, false);
                Ok(())
            }
        }
    }

    fn on_request(
        &mut self,
        id: ConnectionId,
        header: RequestHeader,
        request: &Request<'_>,
        bytes: usize,
    ) -> Result<(), Halt> {
        let xid = header.xid;
        let connection = self.connections.get_mut(&id).expect("its frame was just decoded");
        connection.stats.last_operation = operation_name(request);
        if xid >= 0 {
            connection.stats.last_xid = i64::from(xid);
        }
        let session = connection.session.expect("an attached connection has a session");
        match request {
            Request::Write(write) => {
                let form = WriteForm::of(write);
                self.submit(id, &ops::write_command(session, write), bytes);
                self.push_slot(id, xid, SlotKind::Write { form, bytes });
                self.keep_pending(id, request);
            }
            Request::Multi(writes) => {
                let form = WriteForm::of_multi(writes);
                self.submit(id, &ops::multi_command(session, writes), bytes);
                self.push_slot(id, xid, SlotKind::Write { form, bytes });
                self.keep_pending(id, request);
            }
            Request::CloseSession => {
                self.submit(id, &Command::CloseSession { session }, bytes);
                self.push_slot(id, xid, SlotKind::Close { bytes });
            }
            Request::Read(read) => self.on_read(id, xid, OwnedRead::of(read)),
            Request::MultiRead(reads) => {
                let reads = reads.iter().map(OwnedRead::of).collect();
                self.push_slot(id, xid, SlotKind::MultiRead(reads));
            }
            Request::SetWatches(watches) => {
                let watches = Box::new(OwnedSetWatches::of(watches));
                self.push_slot(id, xid, SlotKind::SetWatches(watches));
            }
            Request::SetWatches2(watches) => {
                let watches = Box::new(OwnedSetWatches::of_all(watches));
                self.push_slot(id, xid, SlotKind::SetWatches(watches));
            }
            Request::AddWatch { path, mode } => {
                let (path, mode) = ((*path).into(), *mode);
                self.push_slot(id, xid, SlotKind::AddWatch { path, mode });
            }
            Request::CheckWatches { path, watcher_type } => {
                let (path, watcher_type) = ((*path).into(), *watcher_type);
                self.push_slot(id, xid, SlotKind::CheckWatches { path, watcher_type });
            }
            Request::RemoveWatches { path, watcher_type } => {
                let (path, watcher_type) = ((*path).into(), *watcher_type);
                self.push_slot(id, xid, SlotKind::RemoveWatches { path, watcher_type });
            }
            Request::Sync { path } => {
                let path = (*path).into();
                self.hand_over();
                self.output.to_loop.push(ToLoop::Sync(self.config.id, id));
                self.push_slot(id, xid, SlotKind::Sync { path, done: false });
            }
            Request::Ping => self.push_slot(id, xid, SlotKind::Ping),
            // PrepRequestProcessor: what a standalone server says, allowed or not.
            Request::Reconfig { .. } => {
                let form = WriteForm::Refused(match self.settings.reconfig_enabled {
                    true => ErrorCode::UNIMPLEMENTED,
                    false => ErrorCode::RECONFIG_DISABLED,
                });
                self.submit(id, &ops::refused_command(session), bytes);
                self.push_slot(id, xid, SlotKind::Write { form, bytes });
            }
            Request::GetAllChildrenNumber { path } => {
                let (path, so_far) = ((*path).into(), DescendantCount::default());
                self.push_slot(id, xid, SlotKind::Count { path, so_far });
            }
            Request::GetEphemerals { prefix } => {
                let prefix = ops::ephemerals_prefix(*prefix).into();
                self.push_slot(id, xid, SlotKind::Ephemerals(prefix));
            }
            Request::WhoAmI => {
                let identities = connection.identities.clone();
                self.push_slot(id, xid, SlotKind::WhoAmI(identities));
            }
            Request::Auth { scheme, credentials } => self.on_auth(id, xid, scheme, credentials),
            Request::Sasl { token } => self.on_sasl(id, xid, token),
            // UnimplementedRequestProcessor: answered with zxid -1, then closed.
            Request::Unknown => self.fail(id, xid, ErrorCode::UNIMPLEMENTED, Some(-1), true),
        }
        self.settle(id);
        Ok(())
    }

    /// A read runs here, or travels with the own write right before it if that one was not handed
    /// over yet.
    fn on_read(&mut self, id: ConnectionId, xid: i32, read: OwnedRead) {
        let connection = self.connections.get(&id).expect("its frame was just decoded");
        let identities = connection.identities.clone();
        let small = !matches!(read.kind, ReadKind::GetChildren | ReadKind::GetChildren2);
        let behind_write = connection.local_reads == 0
            && connection.window.back().is_some_and(|slot| {
                matches!(slot.kind, SlotKind::Write { .. } | SlotKind::TravellingRead(_))
            });
        let may_travel =
            small && behind_write && connection.travelling_reads < TRAVELLING_READS_MAX;
        let waiter = self.waiters.last_mut().filter(|waiter| waiter.connection == id);
        match waiter {
            Some(waiter) if may_travel => {
                waiter.reads.push(TravellingRead { xid, read: read.clone(), identities });
                self.push_slot(id, xid, SlotKind::TravellingRead(read));
            }
            _ => self.push_slot(id, xid, SlotKind::Read(read)),
        }
    }

    fn on_auth(&mut self, id: ConnectionId, xid: i32, scheme: &str, credentials: &[u8]) {
        let accepted = match scheme {
            "digest" if self.settings.digest_enabled => self.add_digest(id, credentials),
            "ip" => true,
            "ensemble" => match self.check_ensemble(id, credentials) {
                Ensemble::Accepted => true,
                Ensemble::Unknown => false,
                Ensemble::Refused => return,
            },
            "x509" => self.has_certificate(id),
            _ => false,
        };
        if accepted {
            self.push_slot(id, xid, SlotKind::AuthAccepted);
        } else {
            self.fail(id, xid, ErrorCode::AUTH_FAILED, Some(0), true);
        }
    }

    /// `X509AuthenticationProvider.handleAuthentication`: an auth packet only looks again at the
    /// certificate of the connection.
    fn has_certificate(&self, id: ConnectionId) -> bool {
        let connection = self.connections.get(&id).expect("its frame was just decoded");
        connection.identities.iter().any(|identity| &*identity.scheme == "x509")
    }

    /// `DigestAuthenticationProvider.handleAuthentication`: the super digest makes a super user.
    fn add_digest(&mut self, id: ConnectionId, credentials: &[u8]) -> bool {
        let Some(algorithm) = DigestAlgorithm::from_name(&self.settings.digest_algorithm) else {
            return false;
        };
        let digest = digest_id(algorithm, &String::from_utf8_lossy(credentials));
        let is_super = self.settings.super_digest.as_deref() == Some(&digest);
        let identities = [("super", ""), ("digest", &*digest)];
        self.add_identities(id, &identities[usize::from(!is_super)..])
    }

    // The window.

    fn push_slot(&mut self, id: ConnectionId, xid: i32, kind: SlotKind) {
        let received_ms = self.now.monotonic_ms;
        let connection = self.connections.get_mut(&id).expect("its frame was just decoded");
        match &kind {
            SlotKind::Write { bytes, .. } | SlotKind::Close { bytes } => {
                connection.window_bytes += bytes;
                self.commands_in_flight += 1;
                self.bytes_in_flight += bytes;
            }
            SlotKind::Sync { .. } => {
                connection.open_syncs += 1;
                self.commands_in_flight += 1;
            }
            kind if kind.runs_here() => connection.local_reads += 1,
            SlotKind::TravellingRead(_) => connection.travelling_reads += 1,
            _ => {}
        }
        connection.window.push_back(Slot { xid, received_ms, kind, pending: None });
        self.outstanding += 1;
    }

    /// Returns the credit of a slot that is answered, or whose connection is gone.
    fn give_back(&mut self, kind: &SlotKind) {
        self.outstanding -= 1;
        match kind {
            SlotKind::Write { bytes, .. } | SlotKind::Close { bytes } => {
                self.commands_in_flight -= 1;
                self.bytes_in_flight -= bytes;
            }
            SlotKind::Sync { .. } => self.commands_in_flight -= 1,
            _ => {}
        }
    }

    fn has_credit(&self) -> bool {
        self.commands_in_flight < self.config.commands_max && self.bytes_in_flight < FRONT_BYTES_MAX
    }

    /// Takes the first slot of the window out, which must be there.
    fn pop_slot(&mut self, id: ConnectionId) -> Slot {
        let connection = self.connections.get_mut(&id).expect("the caller looked");
        let slot = connection.window.pop_front().expect("the caller looked");
        match &slot.kind {
            SlotKind::Write { bytes, .. } | SlotKind::Close { bytes } => {
                connection.window_bytes -= bytes;
            }
            kind if kind.runs_here() => connection.local_reads -= 1,
            SlotKind::TravellingRead(_) => connection.travelling_reads -= 1,
            _ => {}
        }
        self.give_back(&slot.kind);
        slot
    }

    /// Answers what stands at the front of the window and needs nothing more, and lists the
    /// connection if what stands there then needs the lock.
    fn settle(&mut self, id: ConnectionId) {
        loop {
            let Some(connection) = self.connections.get(&id) else { return };
            let Some(slot) = connection.window.front() else { break };
            let ready = match &slot.kind {
                SlotKind::Ping
                | SlotKind::WhoAmI(_)
                | SlotKind::AuthAccepted
                | SlotKind::Sasl { .. }
                | SlotKind::Failed { .. } => true,
                SlotKind::Sync { done, .. } => *done,
                _ => false,
            };
            if !ready {
                break;
            }
            let slot = self.pop_slot(id);
            self.answer_ready(id, slot);
        }
        self.list(id);
    }

    fn answer_ready(&mut self, id: ConnectionId, slot: Slot) {
        let last_zxid = self.last_zxid;
        let xid = slot.xid;
        let header = |zxid, error| ReplyHeader { xid, zxid, error };
        match &slot.kind {
            SlotKind::Ping => {
                let header = ReplyHeader { xid: XID_PING, zxid: last_zxid, error: ErrorCode::OK };
                self.reply(id, &slot, last_zxid, |out| encode_empty(header, out));
            }
            SlotKind::WhoAmI(identities) => {
                let identities = borrow(identities);
                self.reply(id, &slot, last_zxid, |out| {
                    encode_who_am_i(xid, last_zxid, &identities, out);
                });
            }
            SlotKind::AuthAccepted => {
                let header = header(0, ErrorCode::OK);
                self.reply(id, &slot, 0, |out| encode_empty(header, out));
            }
            SlotKind::Sasl { token, error, close } => {
                let header = header(0, *error);
                self.reply(id, &slot, 0, |out| encode_sasl(header, token.as_deref(), out));
                if *close {
                    self.close_after_output(id);
                }
            }
            SlotKind::Failed { error, zxid, close } => {
                let header = header(zxid.unwrap_or(last_zxid), *error);
                self.reply(id, &slot, header.zxid, |out| encode_empty(header, out));
                if *close {
                    self.close_after_output(id);
                }
            }
            SlotKind::Sync { path, .. } => {
                self.reply(id, &slot, last_zxid, |out| encode_sync(xid, last_zxid, path, out));
            }
            _ => unreachable!("settle answers only what is ready"),
        }
    }

    /// Appends a reply to the output and counts it.
    fn reply(
        &mut self,
        id: ConnectionId,
        slot: &Slot,
        zxid: i64,
        encode: impl FnOnce(&mut Vec<u8>),
    ) {
        let now = self.now;
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let bytes_before = connection.output.len();
        encode(&mut connection.output);
        let bytes = (connection.output.len() - bytes_before - LENGTH_BYTES) as u64;
        let elapsed_ms = now.monotonic_ms.saturating_sub(slot.received_ms);
        let stats = &mut connection.stats;
        stats.sent += 1;
        stats.latency.record(elapsed_ms);
        stats.last_zxid = stats.last_zxid.max(zxid);
        stats.last_response_ms = now.wall_ms;
        self.sent += 1;
        self.latency.record(elapsed_ms);
        self.metrics.response_bytes += bytes;
        self.metrics.response_size.record(bytes, now.monotonic_ms);
        match &slot.kind {
            SlotKind::Write { .. } | SlotKind::Close { .. } => {
                self.metrics.update_latency.record(elapsed_ms, now.monotonic_ms);
            }
            SlotKind::AuthAccepted => {}
            _ => self.metrics.read_latency.record(elapsed_ms, now.monotonic_ms),
        }
        self.note_slow(id, slot, elapsed_ms);
        self.soil(id);
    }

    fn fail(
        &mut self,
        id: ConnectionId,
        xid: i32,
        error: ErrorCode,
        zxid: Option<i64>,
        close: bool,
    ) {
        self.push_slot(id, xid, SlotKind::Failed { error, zxid, close });
        if close {
            self.forget_input(id);
        }
        self.settle(id);
    }

    /// What stands behind is not decoded any more: the close ends the window.
    fn forget_input(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.input.clear();
        }
    }

    // Handing over.

    /// Puts a command, of a request of `bytes`, into the batch.
    fn submit(&mut self, id: ConnectionId, command: &Command<'_>, bytes: usize) {
        if self.batch.is_full_for(bytes) {
            self.hand_over();
        }
        let connection = self.connections.get(&id).expect("the caller looked");
        self.batch.push(id, &connection.identity_bytes, command);
        self.waiters.push(Waiter { connection: id, reads: Vec::new() });
    }

    /// Ends the batch and passes it on.
    fn hand_over(&mut self) {
        if self.batch.command_count() == 0 {
            return;
        }
        let batch = self.batch.finish();
        let waiters = core::mem::take(&mut self.waiters);
        assert!(batch.command_count == waiters.len());
        let submission = Submission { front: self.config.id, batch, waiters };
        self.output.to_loop.push(ToLoop::Submit(submission));
    }

    // Under the lock.

    fn run_one(&mut self, id: ConnectionId, machine: &Machine) -> bool {
        let Some(connection) = self.connections.get(&id) else { return false };
        if !connection.is_runnable() {
            return false;
        }
        let counters = machine.counters();
        self.last_zxid = self.last_zxid.max(counters.zxid.0);
        if let State::Greeting(_) = connection.state {
            self.greet(id, machine);
            return false;
        }
        if let Some(SlotKind::Count { .. }) = connection.window.front().map(|slot| &slot.kind) {
            self.run_count(id, machine);
            return true;
        }
        let slot = self.pop_slot(id);
        let identities = self.connections[&id].identities.clone();
        let (xid, zxid, at) = (slot.xid, counters.zxid.0, counters.ordinal);
        match &slot.kind {
            SlotKind::Read(read) => {
                let query = read.borrow();
                let result = machine.query(&ops::query(&query), &borrow(&identities));
                let error = result.as_ref().err().map_or(ErrorCode::OK, ErrorCode::of);
                self.reply(id, &slot, zxid, |out| {
                    encode_read(xid, zxid, read.kind, &result, out);
                });
                self.watch(id, read, error, at);
            }
            SlotKind::MultiRead(reads) => {
                let identities = borrow(&identities);
                let results: Vec<_> = reads
                    .iter()
                    .map(|read| {
                        (read.kind, machine.query(&ops::query(&read.borrow()), &identities))
                    })
                    .collect();
                let bytes: u64 = results.iter().map(|(_, result)| result_bytes(result)).sum();
                if bytes > MULTI_READ_BYTES_MAX {
                    self.notice(id, &format!("a multi-read of {bytes} bytes is refused"));
                    let header = ReplyHeader { xid, zxid, error: ErrorCode::MARSHALLING_ERROR };
                    self.reply(id, &slot, zxid, |out| encode_empty(header, out));
                } else {
                    self.reply(id, &slot, zxid, |out| encode_multi_read(xid, zxid, &results, out));
                }
                // No watches: `MultiOperationRecord` drops the flag.
            }
            SlotKind::SetWatches(watches) => {
                self.set_watches(id, watches, machine);
                if !self.is_attached(id) {
                    return false;
                }
                let header = ReplyHeader { xid, zxid, error: ErrorCode::OK };
                self.reply(id, &slot, zxid, |out| encode_empty(header, out));
            }
            // `FinalRequestProcessor` asks for no permission here: events are held against the ACL.
            SlotKind::AddWatch { path, mode } => {
                let header = ReplyHeader { xid, zxid, error: ErrorCode::OK };
                self.reply(id, &slot, zxid, |out| encode_add_watch(header, out));
                self.set_watch(id, WatchKind::of(*mode), path, at);
            }
            SlotKind::CheckWatches { path, watcher_type } => {
                let kinds = WatchKind::of_type(*watcher_type);
                let found = kinds.iter().any(|kind| self.watches.contains(id, *kind, path));
                self.answer_watcher(id, &slot, zxid, found);
            }
            SlotKind::RemoveWatches { path, watcher_type } => {
                let kinds = WatchKind::of_type(*watcher_type);
                let removed = kinds.iter().filter(|kind| self.watches.remove(id, **kind, path));
                let found = removed.count() > 0;
                self.answer_watcher(id, &slot, zxid, found);
            }
            SlotKind::Ephemerals(prefix) => {
                let session = self.connections[&id].session;
                let session = session.expect("an attached connection has a session");
                let mut paths = machine.ephemeral_paths(session);
                paths.retain(|path| path.starts_with(&**prefix));
                self.reply(id, &slot, zxid, |out| encode_ephemerals(xid, zxid, &paths, out));
            }
            _ => unreachable!("only reads are runnable"),
        }
        self.settle(id);
        true
    }

    /// Runs one step of the count at the front of the window, and answers it if that was the last.
    fn run_count(&mut self, id: ConnectionId, machine: &Machine) {
        let connection = self.connections.get_mut(&id).expect("the caller looked");
        let identities = borrow(&connection.identities);
        let Some(SlotKind::Count { path, so_far }) =
            connection.window.front_mut().map(|slot| &mut slot.kind)
        else {
            unreachable!("the caller looked");
        };
        let step = machine.count_descendants(path, &identities, COUNT_STEP_SLOTS_MAX, so_far);
        let Some(result) = step.transpose() else { return };
        let zxid = machine.counters().zxid.0;
        let slot = self.pop_slot(id);
        let xid = slot.xid;
        self.reply(id, &slot, zxid, |out| encode_all_children_number(xid, zxid, &result, out));
        self.settle(id);
    }

    /// Sets the watch of a read that succeeded, or of an exists that found nothing.
    fn watch(&mut self, id: ConnectionId, read: &OwnedRead, error: ErrorCode, at: Ordinal) {
        if !read.watch {
            return;
        }
        let missing = read.kind == ReadKind::Exists && error == ErrorCode::NO_NODE;
        if error != ErrorCode::OK && !missing {
            return;
        }
        let kind = match read.kind {
            ReadKind::Exists | ReadKind::GetData => WatchKind::Data,
            ReadKind::GetChildren | ReadKind::GetChildren2 => WatchKind::Child,
            ReadKind::GetAcl => return,
        };
        self.set_watch(id, kind, &read.path, at);
    }

    fn set_watch(&mut self, id: ConnectionId, kind: WatchKind, path: &str, at: Ordinal) {
        self.watches.set(id, kind, path, at);
        let bytes = self.watches.bytes_of(id);
        if bytes > WATCH_BYTES_MAX {
            self.disconnect(id, &format!("its watches take {bytes} bytes"));
        }
    }

    /// The client makes the events of removed watches itself: there is a reply and no more.
    fn answer_watcher(&mut self, id: ConnectionId, slot: &Slot, zxid: i64, found: bool) {
        let error = if found { ErrorCode::OK } else { ErrorCode::NO_WATCHER };
        let header = ReplyHeader { xid: slot.xid, zxid, error };
        self.reply(id, slot, zxid, |out| encode_empty(header, out));
    }

    /// `DataTree.setWatches`: what was missed fires at once, the rest is set. Persistent ones are only
    /// set: what they missed is not told.
    fn set_watches(&mut self, id: ConnectionId, asked: &OwnedSetWatches, machine: &Machine) {
        let at = machine.counters().ordinal;
        let since = asked.relative_zxid;
        let find = |path: &str| machine.tree().find(path).map(|znode| znode.stat());
        for path in &asked.data {
            let missed = match find(path) {
                None => Some(EventType::Deleted),
                Some(stat) if stat.mzxid > since => Some(EventType::DataChanged),
                Some(_) => None,
            };
            self.fire_or_set(id, missed, WatchKind::Data, path, at);
        }
        for path in &asked.exist {
            let missed = find(path).map(|_| EventType::Created);
            self.fire_or_set(id, missed, WatchKind::Data, path, at);
        }
        for path in &asked.child {
            let missed = match find(path) {
                None => Some(EventType::Deleted),
                Some(stat) if stat.pzxid > since => Some(EventType::ChildrenChanged),
                Some(_) => None,
            };
            self.fire_or_set(id, missed, WatchKind::Child, path, at);
        }
        for path in &asked.persistent {
            self.fire_or_set(id, None, WatchKind::Persistent, path, at);
        }
        for path in &asked.persistent_recursive {
            self.fire_or_set(id, None, WatchKind::PersistentRecursive, path, at);
        }
    }

    fn fire_or_set(
        &mut self,
        id: ConnectionId,
        missed: Option<EventType>,
        kind: WatchKind,
        path: &str,
        at: Ordinal,
    ) {
        match missed {
            Some(event) => self.send_event(id, -1, event, path),
            // The event before may have been one too many.
            None if self.is_attached(id) => self.set_watch(id, kind, path, at),
            None => {}
        }
    }

    fn is_attached(&self, id: ConnectionId) -> bool {
        let state = self.connections.get(&id).map(|connection| &connection.state);
        matches!(state, Some(State::Attached))
    }

    /// Holds a connect request against the state and asks for its session.
    /// `ZooKeeperServer.processConnectRequest`.
    fn greet(&mut self, id: ConnectionId, machine: &Machine) {
        let connection = self.connections.get_mut(&id).expect("the caller looked");
        let State::Greeting(connect) = &connection.state else {
            unreachable!("the caller looked");
        };
        let connect = connect.clone();
        let zxid = machine.counters().zxid.0;
        if connect.last_zxid_seen > zxid {
            let seen = connect.last_zxid_seen;
            let what = format!("it has seen zxid {seen:#x}, ours is {zxid:#x}");
            self.disconnect(id, &what);
            return;
        }
        self.ask_for_session(id, connect);
    }

    fn ask_for_session(&mut self, id: ConnectionId, connect: ConnectRequest) {
        let (min, max) = (self.config.session_timeout_ms_min, self.config.session_timeout_ms_max);
        let timeout_ms = u32::try_from(connect.timeout_ms).unwrap_or(0).clamp(min, max);
        let (session, password) = match connect.session {
            0 => self.draw_session(),
            session => {
                let Ok(password) = <[u8; 16]>::try_from(&*connect.password) else {
                    self.refuse_session(id, connect.read_only);
                    return;
                };
                (SessionId(session), password)
            }
        };
        let command = match connect.session {
            0 => Command::OpenSession { session, password, timeout_ms },
            _ => Command::Attach { session, password, timeout_ms },
        };
        self.submit(id, &command, CONNECT_BYTES_MAX as usize);
        self.commands_in_flight += 1;
        let connection = self.connections.get_mut(&id).expect("the caller looked");
        connection.state = State::Connecting { connect, session, password, timeout_ms };
        self.hand_over();
    }

    /// A new session's id and password. The top byte is 1, as of a ZooKeeper with server id 1: ids
    /// whose top byte is 0, 0x80 or 0xff would be taken for other owners of znodes.
    fn draw_session(&mut self) -> (SessionId, [u8; 16]) {
        self.secrets_drawn += 1;
        let secret = session_secret(&self.config.secret, self.config.id.0, self.secrets_drawn);
        let (id, password) = secret.split_at(16);
        let mut low = [0; 8];
        low[1..].copy_from_slice(&id[..7]);
        low[0] = 1;
        let mut own = [0; 16];
        own.copy_from_slice(password);
        (SessionId(i64::from_be_bytes(low)), own)
    }

    // What Apply pushed.

    fn on_answer(&mut self, answer: Answer) {
        match answer {
            Answer::Command { connection, ordinal, zxid, answered, reads } => {
                self.last_zxid = self.last_zxid.max(zxid.0);
                self.on_command(connection, ordinal, zxid.0, &answered, reads);
            }
            Answer::Synced { connection, zxid, .. } => {
                self.last_zxid = self.last_zxid.max(zxid.0);
                self.on_synced(connection);
            }
        }
    }

    fn on_command(
        &mut self,
        id: ConnectionId,
        ordinal: Ordinal,
        zxid: i64,
        answered: &Answered,
        reads: Vec<ReadAnswer>,
    ) {
        let Some(connection) = self.connections.get(&id) else { return };
        match connection.state {
            State::Connecting { .. } => {
                assert!(reads.is_empty());
                self.on_session(id, answered);
                return;
            }
            State::Attached => {}
            _ => return,
        }
        let slot = self.pop_slot(id);
        let xid = slot.xid;
        self.audit(id, &slot, answered);
        match (&slot.kind, answered) {
            // FinalRequestProcessor closes a connection whose session moved.
            (_, Ok(Err(Refusal::SessionMoved))) => {
                self.disconnect(id, "its session moved to another connection");
                return;
            }
            (SlotKind::Write { form, .. }, Ok(outcome)) => {
                self.reply(id, &slot, zxid, |out| encode_write(xid, zxid, form, outcome, out));
            }
            (SlotKind::Close { .. }, Ok(outcome)) => {
                let error = outcome.as_ref().err().map_or(ErrorCode::OK, ErrorCode::of);
                let header = ReplyHeader { xid, zxid, error };
                self.reply(id, &slot, zxid, |out| encode_empty(header, out));
                self.close_after_output(id);
                return;
            }
            (SlotKind::Write { form, .. }, Err(reason)) => {
                let error = unavailable_code(*reason);
                self.reply(id, &slot, zxid, |out| encode_unavailable(xid, zxid, form, error, out));
            }
            (SlotKind::Close { .. }, Err(reason)) => {
                let header = ReplyHeader { xid, zxid, error: unavailable_code(*reason) };
                self.reply(id, &slot, zxid, |out| encode_empty(header, out));
            }
            _ => unreachable!("answers come in the order of the window"),
        }
        for answer in reads {
            let slot = self.pop_slot(id);
            let SlotKind::TravellingRead(read) = &slot.kind else {
                unreachable!("reads that travelled stand behind their write");
            };
            self.reply(id, &slot, zxid, |out| out.extend_from_slice(&answer.frame));
            self.watch(id, read, answer.error, ordinal);
            if !self.is_attached(id) {
                // That watch was one too many.
                return;
            }
        }
        self.settle(id);
        self.resumable.push(id);
    }

    fn on_synced(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let pending = connection.window.iter_mut().find_map(|slot| match &mut slot.kind {
            SlotKind::Sync { done, .. } if !*done => Some(done),
            _ => None,
        });
        if let Some(done) = pending {
            *done = true;
            connection.open_syncs -= 1;
        }
        self.settle(id);
        self.resumable.push(id);
    }

    /// The session of a connecting client exists, or does not.
    fn on_session(&mut self, id: ConnectionId, answered: &Answered) {
        self.commands_in_flight -= 1;
        let connection = self.connections.get_mut(&id).expect("the caller looked");
        let state = core::mem::replace(&mut connection.state, State::Waiting);
        let State::Connecting { connect, session, password, timeout_ms } = state else {
            unreachable!("the caller looked");
        };
        match answered {
            Ok(Ok(Outcome::Opened | Outcome::Attached)) => {
                let response = ConnectResponse {
                    timeout_ms: timeout_ms as i32,
                    session: session.0,
                    password,
                    read_only: connect.read_only.map(|_| false),
                };
                response.encode(&mut connection.output);
                connection.state = State::Attached;
                connection.session = Some(session);
                connection.timeout_ms = timeout_ms;
                connection.stats.sent += 1;
                connection.stats.last_operation = "SESS";
                self.sent += 1;
                self.sessions.insert(session, id);
                self.heard.insert(session);
                self.soil(id);
                self.resumable.push(id);
            }
            Ok(Err(Refusal::SessionIdTaken(_))) => self.ask_for_session(id, connect),
            Ok(_) => self.refuse_session(id, connect.read_only),
            Err(_) => {
                self.disconnect(id, "no session can be opened now");
            }
        }
    }

    fn refuse_session(&mut self, id: ConnectionId, read_only: Option<bool>) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        ConnectResponse::refused(read_only).encode(&mut connection.output);
        self.close_after_output(id);
    }

    fn on_change(&mut self, change: &Change, path: &str) {
        let (zxid, at) = (change.zxid.0, change.ordinal);
        self.last_zxid = self.last_zxid.max(zxid);
        match &change.kind {
            ChangeKind::Created { acl, parent_acl } => {
                self.fire(WatchKind::Data, EventType::Created, path, zxid, at, acl);
                let parent = parent_path(path);
                let event = EventType::ChildrenChanged;
                self.fire(WatchKind::Child, event, parent, zxid, at, parent_acl);
            }
            ChangeKind::Deleted { acl, parent_acl } => {
                self.fire_deleted(path, zxid, at, acl);
                let parent = parent_path(path);
                let event = EventType::ChildrenChanged;
                self.fire(WatchKind::Child, event, parent, zxid, at, parent_acl);
            }
            ChangeKind::DataSet { acl } => {
                self.fire(WatchKind::Data, EventType::DataChanged, path, zxid, at, acl);
            }
            ChangeKind::SessionClosed { session } => self.on_session_closed(*session),
            ChangeKind::SessionAttached { session, owner, .. } => {
                self.on_session_attached(*session, *owner);
            }
            ChangeKind::Configured(settings) => self.settings = settings.clone(),
        }
    }

    fn fire(
        &mut self,
        kind: WatchKind,
        event: EventType,
        path: &str,
        zxid: i64,
        at: Ordinal,
        acl: &Option<Acl>,
    ) {
        let fired = self.watches.fire(kind, path, at);
        if !fired.is_empty() {
            let count = fired.len() as u64;
            match event {
                EventType::Created => &mut self.metrics.node_created_watch_count,
                EventType::DataChanged => &mut self.metrics.node_changed_watch_count,
                _ => &mut self.metrics.node_children_watch_count,
            }
            .record(count, self.now.monotonic_ms);
        }
        for connection in fired {
            self.send_permitted_event(connection, zxid, event, path, acl);
        }
    }

    /// Data and child watches of a removed znode: one event per connection.
    fn fire_deleted(&mut self, path: &str, zxid: i64, at: Ordinal, acl: &Option<Acl>) {
        let data = self.watches.fire(WatchKind::Data, path, at);
        let child = self.watches.fire(WatchKind::Child, path, at);
        if data.is_empty() && child.is_empty() {
            return;
        }
        let told: HashSet<ConnectionId, FixedState> = data.iter().copied().collect();
        let rest = child.into_iter().filter(|connection| !told.contains(connection));
        let rest: Vec<ConnectionId> = rest.collect();
        let count = (data.len() + rest.len()) as u64;
        self.metrics.node_deleted_watch_count.record(count, self.now.monotonic_ms);
        for connection in data.iter().copied().chain(rest) {
            self.send_permitted_event(connection, zxid, EventType::Deleted, path, acl);
        }
    }

    /// Since 3.9 a watcher that may not read the znode is not told (`NIOServerCnxn.process`).
    fn send_permitted_event(
        &mut self,
        id: ConnectionId,
        zxid: i64,
        event: EventType,
        path: &str,
        acl: &Option<Acl>,
    ) {
        let Some(connection) = self.connections.get(&id) else { return };
        let permitted = acl.as_ref().is_none_or(|acl| {
            let identities = borrow(&connection.identities);
            acl::allows(&self.settings, acl, perms::READ, &identities)
        });
        if permitted {
            self.send_event(id, zxid, event, path);
        }
    }

    fn send_event(&mut self, id: ConnectionId, zxid: i64, event: EventType, path: &str) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if matches!(connection.state, State::Closing) {
            return;
        }
        let bytes_before = connection.output.len();
        encode_event(zxid, event, path, &mut connection.output);
        self.metrics.watch_bytes += (connection.output.len() - bytes_before - LENGTH_BYTES) as u64;
        connection.stats.sent += 1;
        self.sent += 1;
        if connection.output_bytes() > OUTPUT_BYTES_LIMIT {
            let what = format!("it leaves {} bytes unread", connection.output_bytes());
            connection.drop_output();
            self.disconnect(id, &what);
            return;
        }
        self.soil(id);
    }

    fn on_session_closed(&mut self, session: SessionId) {
        let Some(&id) = self.sessions.get(&session) else { return };
        self.heard.remove(&session);
        let ending = self.connections.get(&id).is_none_or(Connection::is_ending);
        if !ending {
            self.close_after_output(id);
            self.notice(id, "its session expired");
        }
    }

    /// An older connection of the session is closed, here as on every other member.
    fn on_session_attached(&mut self, session: SessionId, owner: Owner) {
        let Some(&id) = self.sessions.get(&session) else { return };
        let own = Owner { origin: self.config.origin, connection: id };
        if own != owner {
            self.sessions.remove(&session);
            self.disconnect(id, "its session moved to another connection");
        }
    }

    // Ends.

    /// Closes a connection at once, with what it was sent so far.
    fn disconnect(&mut self, id: ConnectionId, why: &str) -> Halt {
        self.notice(id, why);
        self.close_after_output(id);
        Halt::Closed
    }

    /// Nothing more is read or run for this connection; it ends when its output is taken.
    fn close_after_output(&mut self, id: ConnectionId) {
        let now_ms = self.now.monotonic_ms;
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if matches!(connection.state, State::Closing) {
            return;
        }
        self.closing.push_back((now_ms, id));
        self.audit_closing(id);
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let was_connecting = matches!(connection.state, State::Connecting { .. });
        connection.state = State::Closing;
        connection.input = BytesMut::new();
        connection.window_bytes = 0;
        connection.local_reads = 0;
        connection.travelling_reads = 0;
        connection.open_syncs = 0;
        for slot in core::mem::take(&mut connection.window) {
            self.give_back(&slot.kind);
        }
        if was_connecting {
            self.commands_in_flight -= 1;
        }
        self.watches.close(id);
        self.soil(id);
    }

    fn notice(&mut self, id: ConnectionId, what: &str) {
        let Some(connection) = self.connections.get(&id) else { return };
        let notice = Notice { peer: connection.peer.clone(), what: what.to_string() };
        self.output.notices.push(notice);
    }

    fn soil(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if !connection.dirty {
            connection.dirty = true;
            self.output.dirty.push(id);
        }
    }

    fn list(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.is_runnable() && !connection.listed {
            connection.listed = true;
            self.runnable.push_back(id);
        }
    }
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

/// Bytes of a result in a reply, give or take a header.
fn result_bytes(result: &Result<QueryResult<'_>, Refusal>) -> u64 {
    match result {
        Ok(QueryResult::Data { data, .. }) => data.map_or(0, |data| data.len() as u64),
        Ok(QueryResult::Children { znode }) => {
            znode.child_name_bytes() + 4 * u64::from(znode.child_count())
        }
        _ => 0,
    }
}

fn set_identities(connection: &mut Connection, identities: Vec<OwnedIdentity>) {
    connection.identity_bytes = encode_identities(borrow(&identities).into_iter());
    connection.identities = identities.into();
}

/// Whether a request with this opcode must wait before it is decoded. A read that waits for its
/// turn holds back whatever is handed over behind it, and auth and SASL, which would show it more than
/// it may see. A sync holds back commands: it does not pass the log, and theirs could be answered
/// first.
fn is_held_back(connection: &Connection, opcode: i32) -> bool {
    use zk::request::opcode as op;
    let behind_read = connection.local_reads > 0;
    match opcode {
        op::SYNC | op::AUTH | op::SASL => behind_read,
        op::CREATE
        | op::CREATE2
        | op::DELETE
        | op::SET_DATA
        | op::SET_ACL
        | op::MULTI
        | op::RECONFIG
        | op::CLOSE_SESSION => behind_read || connection.open_syncs > 0,
        _ => false,
    }
}

/// Whether a request may be refused because it waited too long (`Request.isThrottlable`, and what
/// `ZooKeeperServer.processPacket` handles without its throttle).
fn is_throttlable(opcode: i32) -> bool {
    use zk::request::opcode as op;
    !matches!(opcode, op::PING | op::CLOSE_SESSION | op::AUTH | op::SASL)
}

/// ZooKeeper has no code for a server that cannot take a write for now; a system error is what its
/// clients hand to the caller without closing the connection.
fn unavailable_code(reason: Unavailable) -> ErrorCode {
    match reason {
        Unavailable::DiskFull => ErrorCode::SYSTEM_ERROR,
        Unavailable::NotLeader => ErrorCode::OPERATION_TIMEOUT,
    }
}

/// The short names of operations in `cons` (`FinalRequestProcessor`).
fn operation_name(request: &Request<'_>) -> &'static str {
    use zk::request::WriteRequest;
    match request {
        Request::Write(WriteRequest::Create { .. }) => "CREA",
        Request::Write(WriteRequest::Delete { .. }) => "DELE",
        Request::Write(WriteRequest::SetData { .. }) => "SETD",
        Request::Write(WriteRequest::SetAcl { .. }) => "SETA",
        Request::Write(WriteRequest::Check { .. }) => "CHEC",
        Request::Multi(_) => "MULT",
        Request::MultiRead(_) => "MLTR",
        Request::Read(read) => match read.kind {
            ReadKind::Exists => "EXIS",
            ReadKind::GetData => "GETD",
            ReadKind::GetAcl => "GETA",
            ReadKind::GetChildren | ReadKind::GetChildren2 => "GETC",
        },
        Request::Sync { .. } => "SYNC",
        Request::Ping => "PING",
        Request::GetAllChildrenNumber { .. } => "GETACN",
        Request::GetEphemerals { .. } => "GETE",
        Request::WhoAmI => "HOMI",
        Request::Auth { .. } => "AUTH",
        Request::Sasl { .. } => "SASL",
        Request::SetWatches(_) => "SETW",
        Request::SetWatches2(_) => "STW2",
        Request::AddWatch { .. } => "ADDW",
        Request::CheckWatches { .. } => "CHKW",
        Request::RemoveWatches { .. } => "REMW",
        Request::CloseSession => "CLOS",
        Request::Reconfig { .. } | Request::Unknown => "NA",
    }
}

#[cfg(test)]
pub(crate) mod tests;
