//! A simulated ZooKeeper client that behaves like ZooKeeper's own: one session over many
//! connections, pipelined requests, pings while idle, and watches set again after a reconnect.
//!
//! Everything that it sends and receives goes into the history, which the judges check later. Bytes
//! that a ZooKeeper client could not decode end the run at once.

mod bad_frame;
mod choice;
mod link;
mod mischief;
mod session;
mod wire;

use workload::generate::{Generator, Random};
use workload::history::{History, Received};
use workload::op::{Answer, EventKind, Op, error};
use zk::jute::{JuteError, JuteReader};
use zk::request::{ConnectRequest, XID_EVENT};
use zk::response::{ConnectResponse, ReplyHeader};

use crate::limits::{VISIT_PATIENCE_US, VISIT_TIMEOUT_MS_MIN};
use crate::network::Network;
use crate::world::World;
use bad_frame::BadFrames;
use choice::{Choice, ReadsOnly};
use link::{Link, State};
use mischief::Mischief;
use session::Session;
use wire::refusal_of_all;
pub use wire::{decode_answer, encode};

/// How a client behaves.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// How many operations the client does.
    pub ops: u64,
    /// The most unanswered requests.
    pub pipeline_max: u64,
    /// One in so many writes is large.
    pub large_one_in: u64,
    /// The session timeout that the client asks for, in ms.
    pub timeout_ms: u32,
    /// The longest pause between two bursts of requests, in us.
    pub think_us_max: u64,
    /// Whether the client sometimes breaks its connection, pauses, stops reading or closes its
    /// session.
    pub is_erratic: bool,
}

/// One client.
pub struct Client {
    number: u32,
    config: ClientConfig,
    random: Random,
    generator: Generator,
    /// The server's `tickTime`, in us.
    tick_us: u64,
    session: Session,
    link: Link,
    choice: Choice,
    mischief: Mischief,
    bad_frames: BadFrames,
    reads_only: ReadsOnly,
    /// Whether the client sent a wrong password on this connection.
    is_impostor: bool,
    ops_left: u64,
    /// When the next burst or the next attempt to connect is due, in us.
    next_us: u64,
    /// The progress of the client's last requests, at the end of the run.
    last_words: LastWords,
    /// Whether the client has vanished for good.
    is_gone: bool,
    /// The token of the client's newest timer event. Older timer events are ignored.
    pub token: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LastWords {
    NotYet,
    Wanted,
    Sent,
    Answered,
}

/// What a client wants from the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// The client wants nothing.
    Nothing,
    /// A connection to the client's next member.
    Connect,
}

impl Client {
    /// A client without a session.
    pub fn new(number: u32, config: ClientConfig, tick_us: u64, mut random: Random) -> Client {
        let generator = Generator::new(random.fork(), number, config.large_one_in);
        let next_us = random.magnitude(1, 200_000);
        Client {
            number,
            ops_left: config.ops,
            mischief: Mischief::new(config.is_erratic),
            config,
            random,
            generator,
            tick_us,
            session: Session::new(),
            link: Link::new(),
            choice: Choice::new(),
            bad_frames: BadFrames::none(),
            reads_only: ReadsOnly::new(),
            is_impostor: false,
            next_us,
            last_words: LastWords::NotYet,
            is_gone: false,
            token: 0,
        }
    }

    /// Adds containers, znodes with a time to live, and quotas to its operations.
    pub fn do_more(&mut self, random: Random) {
        self.generator.add_more(random);
    }

    /// Adds persistent watches to its operations.
    pub fn set_lasting_watches(&mut self, random: Random) {
        self.generator.add_lasting(random);
    }

    /// Adds authentication as users, and znodes that only some users may change, to its operations.
    pub fn be_users(&mut self, random: Random) {
        self.generator.add_users(random);
    }

    /// Adds authentication as users, and znodes that only some users may read, to its operations.
    pub fn have_private_znodes(&mut self, random: Random) {
        self.generator.add_private(random);
    }

    /// Adds frames that every server must reject to what it sends.
    pub fn send_bad_frames(&mut self, random: Random) {
        self.bad_frames.begin(random);
    }

    /// Makes the client accept read-only mode, which members without a leader offer.
    pub fn take_reads_only(&mut self, random: Random) {
        self.reads_only.accept(random);
    }

    /// Whether the client accepts read-only mode.
    pub fn takes_reads_only(&self) -> bool {
        self.reads_only.is_accepted()
    }

    /// The newest zxid that the client has seen.
    pub fn last_zxid(&self) -> i64 {
        self.session.last_zxid()
    }

    /// Connections that a server closed because of a frame that every server must reject.
    pub fn ended_count(&self) -> usize {
        self.link.ended_count()
    }

    /// The number of the client's connection; `None` without one.
    pub fn connection(&self) -> Option<usize> {
        self.link.number()
    }

    /// Whether the client has done all its operations, has all answers and is connected.
    pub fn is_idle(&self) -> bool {
        self.ops_left == 0 && self.link.is_answered() && self.link.state() == State::Connected
    }

    /// Gives the client one more operation to do.
    pub fn do_one_more(&mut self) {
        self.ops_left += 1;
    }

    /// Ends the client's mischief: from now on it sends and reads without delay.
    pub fn calm_down(&mut self) {
        self.mischief.end();
    }

    /// Makes the client vanish for good, so that its session expires. The connection is closed
    /// without closing the session, or silently abandoned.
    pub fn vanish(&mut self, world: &mut World, network: &mut Network) {
        self.is_gone = true;
        if self.link.number().is_some()
            && self.random.one_in(2)
            && let Some(number) = self.link.forget()
        {
            network.abandon(number, world.now_us);
        }
        self.leave(world, network);
    }

    /// The client's state, as text for people.
    pub fn describe(&self) -> String {
        format!(
            "{:?} at member {} with session {:#x} of {} ms, {} unanswered, {:?}, next {} us",
            self.link.state(),
            self.choice.member(),
            self.session.id(),
            self.session.timeout_ms(),
            self.link.outstanding_count(),
            self.last_words,
            self.next_us
        )
    }

    /// Whether the client has vanished for good.
    pub fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// The id of the client's current or last session, and the timeout in ms.
    pub fn session(&self) -> (i64, u32) {
        (self.session.id(), self.session.timeout_ms())
    }

    /// Makes the client do its last requests (a sync and a read of the root), and from then on send
    /// only pings.
    pub fn say_last_words(&mut self) {
        if self.last_words == LastWords::NotYet {
            self.last_words = LastWords::Wanted;
        }
    }

    /// Makes the client do its last requests again, at this member.
    pub fn visit(&mut self, member: usize, world: &mut World, network: &mut Network) {
        self.choice.visit(member);
        self.config.timeout_ms = self.config.timeout_ms.max(VISIT_TIMEOUT_MS_MIN);
        self.last_words = LastWords::Wanted;
        let connection = self.link.number();
        let is_there = connection.is_some_and(|at| network.connections[at].member == member);
        if !is_there {
            self.leave(world, network);
        }
    }

    /// Whether the client has the answers to its last requests.
    pub fn has_said_last_words(&self) -> bool {
        self.last_words == LastWords::Answered
    }

    /// The client's timer fires: the client sends what is due. If the method returns a wish, the
    /// simulation connects the client.
    pub fn on_time(
        &mut self,
        world: &mut World,
        network: &mut Network,
        history: &mut History,
    ) -> Wish {
        let now_us = world.now_us;
        let timeout_us = self.session.timeout_us();
        match self.link.state() {
            State::Away if self.is_gone => {}
            State::Away if now_us >= self.next_us => return Wish::Connect,
            State::Away => {}
            State::Greeting if now_us >= self.link.heard_us() + self.patience_us() => {
                self.leave(world, network);
            }
            State::Greeting => {}
            State::Connected if now_us >= self.gives_up_us(timeout_us) => {
                // Java's readTimeout: the client assumes that the server is dead.
                self.leave(world, network);
            }
            // `ClientCnxn.SendThread.pingRwServer`
            State::Connected
                if self.link.is_read_only() && now_us >= self.reads_only.searches_us() =>
            {
                self.leave(world, network);
            }
            State::Connected => self.talk(world, network, history, timeout_us),
        }
        Wish::Nothing
    }

    /// When the client's timer must fire next, in us.
    pub fn wakes_us(&self, now_us: u64) -> u64 {
        let (link, mischief, timeout_us) = (&self.link, &self.mischief, self.session.timeout_us());
        let at_us = match link.state() {
            State::Away if self.is_gone => u64::MAX,
            State::Away => self.next_us,
            State::Greeting => link.heard_us() + self.patience_us(),
            State::Connected => {
                let mut at_us = self.gives_up_us(timeout_us);
                let ping_us = link.sent_us() + timeout_us / 3;
                at_us = at_us.min(ping_us.max(mischief.mute_until_us()));
                let has_room = link.outstanding_count() < self.config.pipeline_max;
                let has_work = self.ops_left > 0 || self.may_say_last_words();
                if has_room && has_work && !link.waits_for_end() {
                    at_us = at_us.min(self.next_us.max(mischief.mute_until_us()));
                }
                if mischief.deaf_until_us() > now_us {
                    at_us = at_us.min(mischief.deaf_until_us());
                }
                if link.is_read_only() {
                    at_us = at_us.min(self.reads_only.searches_us());
                }
                at_us
            }
        };
        at_us.max(now_us + 1)
    }

    fn may_say_last_words(&self) -> bool {
        self.last_words == LastWords::Wanted && !self.link.is_read_only()
    }

    /// When the client assumes that the server is dead, in us. After the faults have stopped a
    /// server must close the connection because of a bad frame, so the client waits for that
    /// without limit.
    fn gives_up_us(&self, timeout_us: u64) -> u64 {
        match self.mischief.is_over() && self.link.waits_for_end() {
            true => u64::MAX,
            false => self.link.heard_us() + timeout_us * 2 / 3,
        }
    }

    /// How long the client waits for its session, in us (connectTimeout of `ClientCnxn`).
    fn patience_us(&self) -> u64 {
        match self.choice.is_visiting() {
            true => VISIT_PATIENCE_US,
            false => self.session.timeout_us() / self.choice.member_count() as u64,
        }
    }

    /// Whether the client does not read what has arrived.
    pub fn is_deaf(&self, now_us: u64) -> bool {
        self.mischief.deaf_until_us() > now_us
    }

    /// The server could not be reached.
    pub fn on_refused(&mut self, now_us: u64) {
        self.next_us = now_us + self.random.magnitude(1_000, 500_000);
        // Sometimes the client gives the server more time, but at most a session timeout.
        if self.mischief.is_possible() && self.random.one_in(8) {
            let timeout_us = u64::from(self.session.timeout_ms()) * 1000;
            self.next_us = now_us + self.random.below(timeout_us + 1);
        }
    }

    /// The member that the client tries next, one of `members`; it may be the same again.
    pub fn next_member(&mut self, members: &[usize]) -> usize {
        self.choice.next(members, &mut self.random)
    }

    /// Makes the client connect and send only when a test tells it to.
    #[cfg(test)]
    pub fn obey(&mut self) {
        self.choice.obey();
        self.next_us = u64::MAX;
    }

    /// Makes the client connect to this member on a new connection.
    #[cfg(test)]
    pub fn dial(&mut self, member: usize, world: &mut World, network: &mut Network) {
        if self.link.number().is_some() {
            self.leave(world, network);
        }
        self.choice.dial(member);
        self.next_us = world.now_us;
    }

    /// Whether the client has no unanswered request and no connection attempt in progress.
    #[cfg(test)]
    pub fn is_waiting_for_nothing(&self) -> bool {
        let is_resting = match self.link.state() {
            State::Away => self.next_us == u64::MAX,
            State::Greeting => false,
            State::Connected => true,
        };
        is_resting && self.link.is_answered()
    }

    /// Sends this operation, if the client is connected.
    #[cfg(test)]
    pub fn do_op(
        &mut self,
        op: Op,
        world: &mut World,
        network: &mut Network,
        history: &mut History,
    ) {
        if self.link.state() == State::Connected {
            let mut out = Vec::new();
            self.link.request(op, world.now_us, history, &mut out);
            self.link.send(&out, world, network);
        }
    }

    /// The session that the client asks for, and the password that it sends: sometimes a wrong one.
    pub fn ask(&mut self) -> (i64, [u8; 16]) {
        let mut password = self.session.password();
        let may_lie = self.mischief.is_possible() && self.session.id() != 0;
        self.is_impostor = may_lie && self.random.one_in(10);
        if self.is_impostor {
            password[self.random.below(16) as usize] ^= 1 << self.random.below(8);
        }
        (self.session.id(), password)
    }

    /// Whether the client reconnects now in order to provoke a race. Resets the flag.
    pub fn take_race(&mut self) -> bool {
        self.mischief.take_race()
    }

    /// The client is connected, and sends its connect request.
    pub fn on_connected(
        &mut self,
        number: usize,
        (session, password): (i64, [u8; 16]),
        world: &mut World,
        network: &mut Network,
    ) {
        self.link.open(number, world.now_us);
        let request = ConnectRequest {
            last_zxid_seen: self.session.last_zxid(),
            session,
            password: password.to_vec(),
            read_only: match self.takes_reads_only() {
                true => Some(true),
                false if self.number.is_multiple_of(3) => None,
                false => Some(false),
            },
            ..ConnectRequest::new(self.config.timeout_ms as i32)
        };
        let mut out = Vec::new();
        request.encode(&mut out);
        network.send_up(world, number, &out);
    }

    /// Sometimes sends something other than a connect request on a new connection. Returns true if
    /// it has sent such a frame.
    pub fn maybe_spoil_connect(
        &mut self,
        number: usize,
        world: &mut World,
        network: &mut Network,
        history: &mut History,
    ) -> bool {
        if self.choice.is_visiting() {
            return false;
        }
        let Some(op) = self.bad_frames.instead_of_connect() else { return false };
        self.link.open(number, world.now_us);
        self.link.wait_for_end();
        let mut out = Vec::new();
        encode(&op, 0, &mut out);
        history.invoke(number, op, world.now_us);
        network.send_up(world, number, &out);
        true
    }

    /// Gives the connection up: the fate of unanswered requests is unknown.
    fn leave(&mut self, world: &mut World, network: &mut Network) {
        self.link.close(world, network);
        if self.last_words == LastWords::Sent {
            self.last_words = LastWords::Wanted;
        }
        self.next_us = world.now_us + self.random.magnitude(10, 300_000);
        if self.choice.is_obedient() {
            self.next_us = u64::MAX;
        }
    }

    // Sending.

    fn talk(
        &mut self,
        world: &mut World,
        network: &mut Network,
        history: &mut History,
        timeout_us: u64,
    ) {
        let now_us = world.now_us;
        if now_us < self.mischief.mute_until_us() {
            return;
        }
        let mut out = Vec::new();
        if now_us >= self.next_us && !self.link.waits_for_end() {
            if self.mischief.is_possible() && self.random.one_in(40) {
                self.misbehave(world, network, history, timeout_us);
                return;
            }
            self.burst(now_us, history, &mut out);
        }
        if self.may_say_last_words() && self.link.is_answered() {
            assert!(!self.link.waits_for_end(), "a frame that it waits for is outstanding");
            self.last_words = LastWords::Sent;
            self.link.request(Op::Sync { path: "/".to_string() }, now_us, history, &mut out);
            let op = Op::GetChildren { path: "/".to_string(), watch: false, with_stat: true };
            self.link.request(op, now_us, history, &mut out);
        }
        if out.is_empty() && now_us >= self.link.sent_us() + timeout_us / 3 {
            self.link.ping(now_us, history, &mut out);
        }
        self.link.send(&out, world, network);
    }

    fn burst(&mut self, now_us: u64, history: &mut History, out: &mut Vec<u8>) {
        let room = self.config.pipeline_max.saturating_sub(self.link.outstanding_count());
        let wanted = room.min(self.ops_left);
        if wanted > 0 {
            for _ in 0..self.random.between(1, wanted) {
                self.ops_left -= 1;
                let op = self.generator.next_op();
                self.link.request(op, now_us, history, out);
                self.maybe_send_bad_frame(now_us, history, out);
            }
        }
        self.next_us = now_us + self.random.magnitude(1, self.config.think_us_max);
    }

    /// Sometimes sends a frame that every server must reject, between two requests. If that frame
    /// ends the connection, the server reads nothing behind it.
    fn maybe_send_bad_frame(&mut self, now_us: u64, history: &mut History, out: &mut Vec<u8>) {
        let xid = self.link.next_xid();
        let Some(op) = self.bad_frames.behind_request(xid) else { return };
        if matches!(op, Op::BadFrame { .. }) {
            self.link.wait_for_end();
        }
        self.link.request(op, now_us, history, out);
    }

    fn misbehave(
        &mut self,
        world: &mut World,
        network: &mut Network,
        history: &mut History,
        timeout_us: u64,
    ) {
        let now_us = world.now_us;
        match self.random.below(11) {
            0 => {
                let mut out = Vec::new();
                self.link.request(Op::CloseSession, now_us, history, &mut out);
                self.link.send(&out, world, network);
                self.mischief.mute(now_us + timeout_us);
            }
            1 | 2 => self.leave(world, network),
            3 => {
                self.leave(world, network);
                self.next_us = now_us + self.random.between(timeout_us / 4, timeout_us * 2);
            }
            // Reconnects about when its session expires: up to a tick and half a second after the
            // deadline.
            4 | 8 => {
                match self.random.one_in(2) {
                    true => self.leave(world, network),
                    false => self.abandon(now_us, history, world, network),
                }
                let late_us = self.random.below(self.tick_us + 500_000);
                self.next_us = self.link.sent_us() + timeout_us + late_us;
                self.mischief.race();
            }
            // Reconnects at once, while its last requests are still in flight.
            5 => {
                let until_us = now_us + self.random.magnitude(1_000, timeout_us);
                self.abandon(until_us, history, world, network);
            }
            // Reconnects soon: its last requests arrive about when it gets its session back.
            9 => {
                let back_us = now_us + self.random.magnitude(10, 300_000);
                let until_us = back_us + self.random.magnitude(1_000, 200_000);
                self.abandon(until_us, history, world, network);
                self.next_us = back_us;
                self.mischief.race();
            }
            // Sends nothing until just before its session expires, and meanwhile does not assume
            // that the server is dead.
            10 => {
                let early_us = self.random.below(250_000).min(timeout_us / 2);
                let until_us = self.link.sent_us() + timeout_us - early_us;
                self.mischief.mute(until_us);
                self.link.pretend_heard(until_us);
            }
            6 => {
                let for_us = self.random.between(timeout_us / 4, timeout_us * 2);
                self.mischief.mute(now_us + for_us);
            }
            _ => self.mischief.deafen(now_us + self.random.between(1_000, timeout_us)),
        }
        self.next_us = self.next_us.max(now_us + 1);
    }

    /// Sends requests and abandons the connection without closing it. The bytes arrive at
    /// `until_us`.
    fn abandon(
        &mut self,
        until_us: u64,
        history: &mut History,
        world: &mut World,
        network: &mut Network,
    ) {
        let mut out = Vec::new();
        self.burst(world.now_us, history, &mut out);
        if self.random.one_in(4) {
            self.link.request(Op::CloseSession, world.now_us, history, &mut out);
        }
        self.link.send(&out, world, network);
        if let Some(number) = self.link.forget() {
            network.abandon(number, until_us);
        }
        self.leave(world, network);
    }

    // Receiving.

    /// Handles bytes that have arrived, or the end of the connection.
    ///
    /// # Errors
    /// A ZooKeeper client could not decode the bytes.
    pub fn on_arrival(
        &mut self,
        world: &mut World,
        network: &mut Network,
        history: &mut History,
    ) -> Result<(), String> {
        let Some(number) = self.link.number() else { return Ok(()) };
        let is_over = self.link.receive(number, world.now_us, network);
        while self.link.number() == Some(number)
            && let Some(frame) = self.link.next_frame()
        {
            let read = self.on_frame(&frame[4..], number, world, network, history);
            read.map_err(|what| format!("client {}, connection {number}: {what}", self.number))?;
        }
        if is_over && self.link.number() == Some(number) {
            self.link.on_over();
            self.leave(world, network);
        }
        Ok(())
    }

    fn on_frame(
        &mut self,
        frame: &[u8],
        number: usize,
        world: &mut World,
        network: &mut Network,
        history: &mut History,
    ) -> Result<(), String> {
        if self.link.state() == State::Greeting {
            let response = ConnectResponse::decode(frame).map_err(|error| error.to_string())?;
            self.on_session(&response, number, world, network, history);
            return Ok(());
        }
        let mut reader = JuteReader::new(frame);
        let header = ReplyHeader::decode(&mut reader).map_err(|error| error.to_string())?;
        if header.xid == XID_EVENT {
            return self.on_event(header.zxid, &mut reader, number, history);
        }
        let op = self.link.answered(header.xid)?;
        let asked = history.ops[op].op.clone();
        let (code, answer) = match header.error.0 {
            error::OK => decode_answer(&asked, &mut reader)
                .map(refusal_of_all)
                .map_err(|error| format!("the reply to {asked:?}: {error}"))?,
            code => (code, Answer::Empty),
        };
        if reader.remaining() > 0 {
            return Err(format!("{} bytes behind the reply to {asked:?}", reader.remaining()));
        }
        self.session.on_answer(&asked, code, header.zxid);
        history.complete(op, header.zxid, code, answer, world.now_us);
        if asked == Op::CloseSession && code == error::OK {
            self.session.forget();
            self.mischief.unmute();
            self.leave(world, network);
        } else if self.last_words == LastWords::Sent && self.link.is_answered() {
            self.last_words = LastWords::Answered;
        }
        Ok(())
    }

    fn on_session(
        &mut self,
        response: &ConnectResponse,
        number: usize,
        world: &mut World,
        network: &mut Network,
        history: &mut History,
    ) {
        if response.timeout_ms <= 0 {
            history.receive(number, Received::Refused);
            if !self.is_impostor {
                self.session.forget();
            }
            self.leave(world, network);
            return;
        }
        let (session, timeout_ms) = (response.session, response.timeout_ms as u32);
        let password = response.password;
        let is_read_only = response.read_only == Some(true);
        if is_read_only {
            history.receive(number, Received::ConnectedReadOnly { session, password });
        } else {
            history.receive(number, Received::Connected { session, timeout_ms, password });
        }
        let is_local = self.session.id() == 0;
        if !is_read_only || self.reads_only.keeps_session(is_local, world.now_us) {
            self.session.keep(session, password);
        }
        self.session.set_timeout(timeout_ms);
        self.link.on_session(is_read_only);
        self.next_us = world.now_us;
        self.mischief.unmute();
        let mut proofs = Vec::new();
        for proof in self.session.proofs() {
            self.link.request(proof, world.now_us, history, &mut proofs);
        }
        self.link.send(&proofs, world, network);
        if let Some(op) = self.session.watches_again() {
            let mut out = Vec::new();
            self.link.request(op, world.now_us, history, &mut out);
            self.link.send(&out, world, network);
        }
    }

    fn on_event(
        &mut self,
        zxid: i64,
        reader: &mut JuteReader<'_>,
        number: usize,
        history: &mut History,
    ) -> Result<(), String> {
        let text = |error: JuteError| format!("an event: {error}");
        let kind = match reader.int().map_err(text)? {
            1 => EventKind::Created,
            2 => EventKind::Deleted,
            3 => EventKind::DataChanged,
            4 => EventKind::ChildrenChanged,
            other => return Err(format!("an event of kind {other}")),
        };
        let state = reader.int().map_err(text)?;
        if state != 3 {
            return Err(format!("an event with state {state}"));
        }
        let path = reader.text().map_err(text)?.to_string();
        self.session.on_event(kind, &path);
        history.receive(number, Received::Event { zxid, kind, path });
        Ok(())
    }
}
