//! Handles the first frame of a connection, which is a four-letter word, or a connect request that
//! asks for a session.

use machine::zk::sessions::Session;
use machine::{Command, ConnectionId, Machine, Refusal, SessionId, ZkCommand, ZkOutcome};
use zk::four_letter::{TRACE_MASK_BYTES, Word};
use zk::limits::CONNECT_BYTES_MAX;
use zk::request::ConnectRequest;
use zk::response::ConnectResponse;

use super::answered::ZkAnswered;
use super::connection::{ReadOnly, State};
use super::{Halt, NO_CONTACT, ZkFront, take_frame};
use crate::fronts::zk::limits::CONNECT_HOLD_MS_MAX;

/// The session that a connect response offers.
struct Welcome {
    session: SessionId,
    password: [u8; 16],
    timeout_ms: u32,
}

impl ZkFront {
    /// Decodes the first frame: a four-letter word or a connect request.
    pub(super) fn decode_first(&mut self, id: ConnectionId) -> Result<(), Halt> {
        let connection = self.connections.get_mut(&id).expect("the caller checked that it exists");
        let Some(first) = connection.input.first_chunk::<4>() else { return Err(Halt::NeedsBytes) };
        if let Some(word) = zk::four_letter::recognise(*first) {
            return self.on_word(id, word);
        }
        let length = u32::from_be_bytes(*first);
        if length > CONNECT_BYTES_MAX {
            return Err(self.disconnect(id, &format!("a first frame of {length} bytes")));
        }
        if self.config.throttle.is_too_large(length) {
            return Err(self.reject_large(id, length));
        }
        let Some(frame) = take_frame(&mut connection.input, length) else {
            return Err(Halt::NeedsBytes);
        };
        connection.stats.received += 1;
        self.traffic.received += 1;
        self.metrics.bytes_received_count += frame.len() as u64 + 4;
        let connect = match ConnectRequest::decode(&frame) {
            Ok(connect) => connect,
            Err(error) => {
                return Err(self.disconnect(id, &format!("its connect request: {error}")));
            }
        };
        if !self.admits(connect.session == 0) {
            self.metrics.connection_rejected += 1;
            return Err(self.disconnect(id, "too many ask for a session at once"));
        }
        self.metrics.connection_request_count += 1;
        self.metrics.connection_revalidate_count += u64::from(connect.session != 0);
        let connection = self.connections.get_mut(&id).expect("the caller checked that it exists");
        connection.state = State::Greeting(connect);
        self.enqueue_if_runnable(id);
        Err(Halt::HeldBack)
    }

    /// Whether the throttle admits another request for a session, new or not
    /// (`ZooKeeperServer.processConnectRequest`).
    fn admits(&mut self, is_new: bool) -> bool {
        let (throttle, now_ms) = (self.config.throttle.clone(), self.now.monotonic_ms);
        let deficit = throttle.admits(is_new, now_ms, || self.chance());
        if let Some(deficit) = deficit {
            self.metrics.connection_token_deficit.record(deficit, now_ms);
        }
        deficit.is_some()
    }

    /// A random number from 0 to 1.
    fn chance(&mut self) -> f64 {
        let secret = self.admission.draw(&self.config.secret, self.config.id);
        let (first, _) = secret.split_first_chunk().expect("a secret has 32 bytes");
        // As many bits as the mantissa of a float has.
        (u64::from_be_bytes(*first) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn on_word(&mut self, id: ConnectionId, mut word: Word) -> Result<(), Halt> {
        let allowed = &self.config.words_allowed;
        let is_allowed = allowed.iter().any(|name| name == "*" || name == word.name());
        let connection = self.connections.get_mut(&id).expect("the caller checked that it exists");
        if let (Word::Stmk { mask }, true) = (&mut word, is_allowed) {
            let argument = connection.input.get(4..).and_then(|rest| rest.first_chunk());
            // `NIOServerCnxn.checkFourLetterWord` reads the mask once and does not wait for it.
            let Some(argument) = argument else {
                return Err(self.disconnect(id, "its stmk has no mask"));
            };
            let argument: &[u8; TRACE_MASK_BYTES] = argument;
            *mask = i64::from_be_bytes(*argument);
        }
        connection.state = State::Waiting;
        connection.input.clear();
        connection.stats.received += 1;
        self.traffic.received += 1;
        self.metrics.bytes_received_count += 4;
        match word {
            _ if !is_allowed => {
                self.answer_four_letter_word(id, &zk::four_letter::not_allowed(word))
            }
            // Telnet's close is no real word: ZooKeeper takes it for a negative frame length.
            Word::TelnetClose => return Err(self.disconnect(id, "telnet closed it")),
            _ => self.output.words.push((id, word)),
        }
        Err(Halt::HeldBack)
    }

    /// Checks a connect request against the state, and asks Loop for its session
    /// (`ZooKeeperServer.processConnectRequest`).
    pub(super) fn greet(&mut self, id: ConnectionId, machine: &Machine) {
        let connection = self.connections.get_mut(&id).expect("the caller checked that it exists");
        let State::Greeting(connect) = &connection.state else {
            unreachable!("the caller checked that it exists");
        };
        let connect = connect.clone();
        let is_read_only = self.is_read_only();
        if is_read_only && connect.read_only != Some(true) {
            self.disconnect(id, "it wants more than reads, and there is no leader");
            return;
        }
        let zxid = machine.mark().zxid.0;
        if connect.last_zxid_seen > zxid {
            let seen = connect.last_zxid_seen;
            let what = format!("it has seen zxid {seen:#x}, ours is {zxid:#x}");
            self.disconnect(id, &what);
            return;
        }
        match is_read_only {
            true => self.greet_read_only(id, &connect, machine),
            false => {
                self.admission.connecting.push(id);
                self.ask_for_session(id, connect, self.now.monotonic_ms);
            }
        }
    }

    /// Answers a client that accepts a read-only connection. It gets a session that only this
    /// member knows, or its session of the ensemble as this member last knew it.
    fn greet_read_only(&mut self, id: ConnectionId, connect: &ConnectRequest, machine: &Machine) {
        let (min, max) = (self.config.session_timeout_ms_min, self.config.session_timeout_ms_max);
        let timeout_ms = u32::try_from(connect.timeout_ms).unwrap_or(0).clamp(min, max);
        let (session, password, read_only) = match connect.session {
            0 => {
                let (session, password) = self.draw_session();
                (session, password, ReadOnly::Local)
            }
            session => {
                let session = SessionId(session);
                let is_own = |found: &&Session| found.password[..] == *connect.password;
                let Some(found) = machine.zk().sessions().get(session).filter(is_own) else {
                    self.refuse_session(id, connect.read_only);
                    return;
                };
                (session, found.password, ReadOnly::Global)
            }
        };
        self.has_read_only = true;
        let connection = self.connections.get_mut(&id).expect("the caller checked that it exists");
        connection.read_only = read_only;
        self.welcome(id, connect, Welcome { session, password, timeout_ms });
    }

    /// Asks Loop to open or attach a session for a client that has waited since `since_ms`.
    fn ask_for_session(&mut self, id: ConnectionId, connect: ConnectRequest, since_ms: u64) {
        let (min, max) = (self.config.session_timeout_ms_min, self.config.session_timeout_ms_max);
        let timeout_ms = u32::try_from(connect.timeout_ms).unwrap_or(0).clamp(min, max);
        // After so long a silence, no election is under way that would end soon.
        if self.is_cut_off(timeout_ms) || self.is_silent_for(2 * CONNECT_HOLD_MS_MAX) {
            self.disconnect(id, NO_CONTACT);
            return;
        }
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
            0 => Command::Zk(ZkCommand::OpenSession { session, password, timeout_ms }),
            _ => Command::Zk(ZkCommand::Attach { session, password, timeout_ms }),
        };
        // The command gets a batch of its own, so that Loop can drop it if the client stops
        // waiting.
        self.hand_over();
        let connection = self.connections.get_mut(&id).expect("the caller checked that it exists");
        let ticket = connection.window.draw_ticket();
        self.submit_small((id, ticket), &command);
        self.commands.take(0);
        let connection = self.connections.get_mut(&id).expect("the caller checked that it exists");
        connection.state = State::Connecting { connect, session, password, timeout_ms, since_ms };
        self.hand_over();
    }

    /// Draws the id and password of a new session. The top byte of the id is 1, as from a ZooKeeper
    /// server with the id 1. It must not be 0, 0x80 or 0xff: a znode whose ephemeral owner has such
    /// a top byte is of another kind (for example a container).
    pub(super) fn draw_session(&mut self) -> (SessionId, [u8; 16]) {
        let secret = self.admission.draw(&self.config.secret, self.config.id);
        let (id, password) = secret.split_at(16);
        let mut low = [0; 8];
        low[1..].copy_from_slice(&id[..7]);
        low[0] = 1;
        let mut own = [0; 16];
        own.copy_from_slice(password);
        (SessionId(i64::from_be_bytes(low)), own)
    }

    /// Takes the answer to a connecting client's request for a session.
    pub(super) fn on_session(&mut self, id: ConnectionId, answered: &ZkAnswered) {
        self.commands.give_back(0);
        let connection = self.connections.get_mut(&id).expect("the caller checked that it exists");
        let state = core::mem::replace(&mut connection.state, State::Waiting);
        let State::Connecting { connect, session, password, timeout_ms, since_ms } = state else {
            unreachable!("the caller checked that it exists");
        };
        match answered {
            Ok(Ok(ZkOutcome::Opened | ZkOutcome::Attached)) => {
                self.heard.sessions.insert(session);
                self.welcome(id, &connect, Welcome { session, password, timeout_ms });
            }
            Ok(Err(Refusal::SessionIdTaken(_))) => self.ask_for_session(id, connect, since_ms),
            Ok(_) => self.refuse_session(id, connect.read_only),
            Err(_) => {
                self.disconnect(id, "no session can be opened now");
            }
        }
    }

    /// Attaches the connection to its session and sends the connect response.
    fn welcome(&mut self, id: ConnectionId, connect: &ConnectRequest, welcome: Welcome) {
        let Welcome { session, password, timeout_ms } = welcome;
        let connection = self.connections.get_mut(&id).expect("the caller checked that it exists");
        let is_read_only = connection.read_only != ReadOnly::No;
        let response = ConnectResponse {
            timeout_ms: timeout_ms as i32,
            session: session.0,
            password,
            read_only: connect.read_only.map(|_| is_read_only),
        };
        connection.output.append(|out| response.encode(out));
        connection.state = State::Attached;
        connection.session = Some(session);
        connection.timeout_ms = timeout_ms;
        connection.stats.sent += 1;
        connection.stats.last_operation = "SESS";
        self.traffic.sent += 1;
        self.sessions.insert(session, id);
        self.mark_dirty(id);
        self.turns.resumable.push(id);
    }

    fn refuse_session(&mut self, id: ConnectionId, read_only: Option<bool>) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.output.append(|out| ConnectResponse::refused(read_only).encode(out));
        self.close_after_output(id);
    }
}
