//! A client that speaks ZooKeeper's bytes as ZooKeeper's own do: one session over many connections,
//! requests pipelined, pings when it has nothing to say, its watches set again after a reconnect.
//!
//! What it sends and receives goes into the history. A byte that a ZooKeeper client could not
//! understand ends the run.

mod bad_frame;

use std::collections::{BTreeSet, VecDeque};

use machine::AclEntry;
use workload::generate::{Generator, Random};
use workload::history::{History, Received};
use workload::op::{
    Answer, CreateRequest, EventKind, Op, Owner, Stat, USERS, Watching, error, perms,
};
use zk::jute::{JuteError, JuteReader};
use zk::request::{
    AddWatchMode, ConnectRequest, CreateKind, ReadKind, ReadRequest, Request, SetWatches2Request,
    SetWatchesRequest, WatcherType, WriteRequest, XID_AUTH, XID_EVENT, XID_PING, XID_SET_WATCHES,
};
use zk::response::{ConnectResponse, ReplyHeader, decode_stat};

use crate::limits::{READ_ONLY_US_MAX, VISIT_PATIENCE_US, VISIT_TIMEOUT_MS_MIN};
use crate::network::{End, Network};
use crate::world::World;

/// A client that sends frames which no server takes does so behind one in so many requests.
const BAD_FRAME_ONE_IN: u64 = 25;

/// Such a client sends something else than a connect request on one in so many connections.
const BAD_CONNECT_ONE_IN: u64 = 8;

/// How a client behaves.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// The number of operations that it does.
    pub ops: u64,
    /// The largest number of requests without a reply.
    pub pipeline_max: u64,
    /// One in so many writes is large.
    pub large_one_in: u64,
    /// The session timeout it asks for.
    pub timeout_ms: u32,
    /// The longest it thinks between two bursts.
    pub think_us_max: u64,
    /// Whether it breaks its connection, falls asleep, stops reading, closes its session.
    pub is_erratic: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It has no connection.
    Away,
    /// It has a connection, and waits for its session.
    Greeting,
    /// It has a connection and a session.
    Connected,
}

/// The list of `setWatches` or `setWatches2` that a watch stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Table {
    Data,
    Exist,
    Child,
    Persistent,
    Recursive,
}

/// One client.
pub struct Client {
    number: u32,
    config: ClientConfig,
    random: Random,
    generator: Generator,
    state: State,
    /// The number of its connection, while it has one.
    connection: Option<usize>,
    session: i64,
    password: [u8; 16],
    /// Whether the password that it showed on this connection is not the session's.
    is_impostor: bool,
    /// The `tickTime` of the server.
    tick_us: u64,
    timeout_ms: u32,
    last_zxid: i64,
    xid: i32,
    /// The xid and the number in the history of each request without a reply, the oldest first.
    outstanding: VecDeque<(i32, usize)>,
    pings: VecDeque<usize>,
    watches: BTreeSet<(Table, String)>,
    input: Vec<u8>,
    ops_left: u64,
    sent_us: u64,
    heard_us: u64,
    /// When the next burst or the next attempt to connect is due.
    next_us: u64,
    /// The time before which it sends nothing.
    mute_until_us: u64,
    /// The time before which it reads nothing.
    deaf_until_us: u64,
    /// Whether it comes back at a time when a race is likely: about when its session expires, or
    /// about when the bytes that it sent before arrive.
    is_racing: bool,
    /// Users that it has proved to be, in order. It proves them again on each connection.
    users: Vec<usize>,
    /// Draws frames that no server takes; none if the client sends no such frames.
    bad_frames: Option<Random>,
    /// Draws what has to do with servers that serve reads only; none if the client asks for more.
    reads_only: Option<Random>,
    /// Whether its server has no leader, and serves it reads only on this connection.
    is_read_only: bool,
    /// When it leaves a connection of reads only, to look for a server that takes writes.
    searches_us: u64,
    /// Whether it has sent a frame that no server takes on this connection, and waits for the end
    /// of the connection.
    waits_for_end: bool,
    /// The number of connections that a server closed behind such a frame.
    ended_count: usize,
    /// Whether it does no more mischief. It is set when the faults stop.
    is_calm: bool,
    /// Whether it is gone for good.
    is_gone: bool,
    /// How far it has come with its last words.
    last_words: LastWords,
    /// The member that it tried last, and how many members it knows.
    member: usize,
    member_count: usize,
    /// Whether it stays with `member` and waits for its answer, however long that takes.
    is_visiting: bool,
    /// Whether it connects only when it is told to.
    is_obedient: bool,
    /// The token of its newest wake-up. Earlier wake-ups are stale.
    pub token: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LastWords {
    NotYet,
    Wanted,
    Sent,
    Answered,
}

/// What a client wants of the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// It wishes for nothing.
    Nothing,
    /// A connection, if the server takes connections.
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
            config,
            random,
            generator,
            state: State::Away,
            connection: None,
            session: 0,
            password: [0; 16],
            is_impostor: false,
            tick_us,
            timeout_ms: 0,
            last_zxid: 0,
            xid: 0,
            outstanding: VecDeque::new(),
            pings: VecDeque::new(),
            watches: BTreeSet::new(),
            input: Vec::new(),
            sent_us: 0,
            heard_us: 0,
            next_us,
            mute_until_us: 0,
            deaf_until_us: 0,
            is_racing: false,
            users: Vec::new(),
            bad_frames: None,
            reads_only: None,
            is_read_only: false,
            searches_us: 0,
            waits_for_end: false,
            ended_count: 0,
            is_calm: false,
            is_gone: false,
            last_words: LastWords::NotYet,
            member: 0,
            member_count: 1,
            is_visiting: false,
            is_obedient: false,
            token: 0,
        }
    }

    /// Adds containers, znodes with a time to live, and quotas to what it does.
    pub fn do_more(&mut self, random: Random) {
        self.generator.add_more(random);
    }

    /// Adds watches that stay to what it does.
    pub fn set_lasting_watches(&mut self, random: Random) {
        self.generator.add_lasting(random);
    }

    /// Adds proofs to be users, and znodes that only some users may change, to what it does.
    pub fn be_users(&mut self, random: Random) {
        self.generator.add_users(random);
    }

    /// Adds proofs to be users, and znodes that only some users may read, to what it does.
    pub fn have_private_znodes(&mut self, random: Random) {
        self.generator.add_private(random);
    }

    /// Adds frames that no server takes to what it sends.
    pub fn send_bad_frames(&mut self, random: Random) {
        self.bad_frames = Some(random);
    }

    /// Lets it accept reads only, where a server has no leader.
    pub fn take_reads_only(&mut self, random: Random) {
        self.reads_only = Some(random);
    }

    /// Whether it accepts a server that serves reads only.
    pub fn takes_reads_only(&self) -> bool {
        self.reads_only.is_some()
    }

    /// The newest zxid that it has seen.
    pub fn last_zxid(&self) -> i64 {
        self.last_zxid
    }

    /// Connections that a server closed behind a frame that no server takes.
    pub fn ended_count(&self) -> usize {
        self.ended_count
    }

    /// The number of its connection, while it has one.
    pub fn connection(&self) -> Option<usize> {
        self.connection
    }

    /// Whether it has done everything it had to, and has every answer.
    pub fn is_idle(&self) -> bool {
        self.ops_left == 0 && self.outstanding.is_empty() && self.state == State::Connected
    }

    /// Gives it one more operation to do.
    pub fn do_one_more(&mut self) {
        self.ops_left += 1;
    }

    /// Ends its mischief: from now on it sends and reads at once.
    pub fn calm_down(&mut self) {
        self.is_calm = true;
        self.mute_until_us = 0;
        self.deaf_until_us = 0;
    }

    /// Makes it go for good and let its session expire. Its connection is closed, or left as it is.
    pub fn vanish(&mut self, world: &mut World, network: &mut Network) {
        self.is_gone = true;
        if let Some(number) = self.connection.take_if(|_| self.random.one_in(2)) {
            network.abandon(number, world.now_us);
        }
        self.leave(world, network);
    }

    /// What it does, as text for people.
    pub fn describe(&self) -> String {
        format!(
            "{:?} at member {} with session {:#x} of {} ms, {} unanswered, {:?}, next {} us",
            self.state,
            self.member,
            self.session,
            self.timeout_ms,
            self.outstanding.len(),
            self.last_words,
            self.next_us
        )
    }

    /// Whether it is gone for good.
    pub fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// The session it has, or had last, and its timeout.
    pub fn session(&self) -> (i64, u32) {
        (self.session, self.timeout_ms)
    }

    /// Makes it look at the state once more and then send nothing but pings.
    pub fn say_last_words(&mut self) {
        if self.last_words == LastWords::NotYet {
            self.last_words = LastWords::Wanted;
        }
    }

    /// Makes it say its last words to this member, on a connection to that member.
    pub fn visit(&mut self, member: usize, world: &mut World, network: &mut Network) {
        self.is_visiting = true;
        self.config.timeout_ms = self.config.timeout_ms.max(VISIT_TIMEOUT_MS_MIN);
        self.last_words = LastWords::Wanted;
        let is_there = self.connection.is_some_and(|at| network.connections[at].member == member);
        self.member = member;
        if !is_there {
            self.leave(world, network);
        }
    }

    /// Whether it has said its last words and has the answers.
    pub fn has_said_last_words(&self) -> bool {
        self.last_words == LastWords::Answered
    }

    /// Looks at the clock: sends what is due. The simulation connects it if it wishes so.
    pub fn on_time(
        &mut self,
        world: &mut World,
        network: &mut Network,
        history: &mut History,
    ) -> Wish {
        let now_us = world.now_us;
        let timeout_us = u64::from(self.timeout_ms.max(1_000)) * 1000;
        match self.state {
            State::Away if self.is_gone => {}
            State::Away if now_us >= self.next_us => return Wish::Connect,
            State::Away => {}
            State::Greeting if now_us >= self.heard_us + self.patience_us() => {
                self.leave(world, network);
            }
            State::Greeting => {}
            State::Connected if now_us >= self.gives_up_us(timeout_us) => {
                // Java's readTimeout: the server is taken for dead.
                self.leave(world, network);
            }
            // `ClientCnxn.SendThread.pingRwServer`
            State::Connected if self.is_read_only && now_us >= self.searches_us => {
                self.leave(world, network);
            }
            State::Connected => self.talk(world, network, history, timeout_us),
        }
        Wish::Nothing
    }

    /// When it wants to look at the clock next.
    pub fn wakes_us(&self, now_us: u64) -> u64 {
        let timeout_us = u64::from(self.timeout_ms.max(1_000)) * 1000;
        let at_us = match self.state {
            State::Away if self.is_gone => u64::MAX,
            State::Away => self.next_us,
            State::Greeting => self.heard_us + self.patience_us(),
            State::Connected => {
                let mut at_us = self.gives_up_us(timeout_us);
                let ping_us = self.sent_us + timeout_us / 3;
                at_us = at_us.min(ping_us.max(self.mute_until_us));
                let has_room = (self.outstanding.len() as u64) < self.config.pipeline_max;
                let may_speak = self.last_words == LastWords::Wanted && !self.is_read_only;
                let has_work = self.ops_left > 0 || may_speak;
                if has_room && has_work && !self.waits_for_end {
                    at_us = at_us.min(self.next_us.max(self.mute_until_us));
                }
                if self.deaf_until_us > now_us {
                    at_us = at_us.min(self.deaf_until_us);
                }
                if self.is_read_only {
                    at_us = at_us.min(self.searches_us);
                }
                at_us
            }
        };
        at_us.max(now_us + 1)
    }

    /// When it takes the server for dead. Once nothing goes wrong any more a server must close the
    /// connection behind a frame that no server takes, so the client waits for that.
    fn gives_up_us(&self, timeout_us: u64) -> u64 {
        match self.is_calm && self.waits_for_end {
            true => u64::MAX,
            false => self.heard_us + timeout_us * 2 / 3,
        }
    }

    /// How long it waits for its session (connectTimeout of `ClientCnxn`).
    fn patience_us(&self) -> u64 {
        match self.is_visiting {
            true => VISIT_PATIENCE_US,
            false => u64::from(self.timeout_ms.max(1_000)) * 1000 / self.member_count as u64,
        }
    }

    /// Whether it reads what has arrived.
    pub fn is_deaf(&self, now_us: u64) -> bool {
        self.deaf_until_us > now_us
    }

    /// The server could not be reached.
    pub fn on_refused(&mut self, now_us: u64) {
        self.next_us = now_us + self.random.magnitude(1_000, 500_000);
        // The client gives the server time now and then, but not more than its session has.
        if self.config.is_erratic && !self.is_calm && self.random.one_in(8) {
            self.next_us = now_us + self.random.below(u64::from(self.timeout_ms) * 1000 + 1);
        }
    }

    /// The member that it tries next, of so many: sometimes the same again.
    pub fn next_member(&mut self, member_count: usize) -> usize {
        self.member_count = member_count;
        let is_free = !self.is_obedient && !self.is_visiting;
        if member_count > 1 && is_free && !self.random.one_in(4) {
            self.member = self.random.below(member_count as u64) as usize;
        }
        self.member
    }

    /// Makes it connect and ask only when it is told to, from now on.
    #[cfg(test)]
    pub fn obey(&mut self) {
        self.is_obedient = true;
        self.next_us = u64::MAX;
    }

    /// Makes it connect to this member, on a new connection.
    #[cfg(test)]
    pub fn dial(&mut self, member: usize, world: &mut World, network: &mut Network) {
        if self.connection.is_some() {
            self.leave(world, network);
        }
        self.member = member;
        self.next_us = world.now_us;
    }

    /// Whether nothing that it asked for is under way.
    #[cfg(test)]
    pub fn is_waiting_for_nothing(&self) -> bool {
        let is_resting = match self.state {
            State::Away => self.next_us == u64::MAX,
            State::Greeting => false,
            State::Connected => true,
        };
        is_resting && self.outstanding.is_empty()
    }

    /// Makes it send this operation, if it is connected.
    #[cfg(test)]
    pub fn do_op(
        &mut self,
        op: Op,
        world: &mut World,
        network: &mut Network,
        history: &mut History,
    ) {
        if self.state == State::Connected {
            let mut out = Vec::new();
            self.request(op, world.now_us, history, &mut out);
            self.send(&out, world, network);
        }
    }

    /// The session it asks for, and the password it shows: sometimes not the right one.
    pub fn ask(&mut self) -> (i64, [u8; 16]) {
        let mut password = self.password;
        let may_lie = self.config.is_erratic && !self.is_calm && self.session != 0;
        self.is_impostor = may_lie && self.random.one_in(10);
        if self.is_impostor {
            password[self.random.below(16) as usize] ^= 1 << self.random.below(8);
        }
        (self.session, password)
    }

    /// Whether it comes back at a time when a race is likely.
    pub fn take_race(&mut self) -> bool {
        core::mem::take(&mut self.is_racing)
    }

    /// It is connected and asks for its session.
    pub fn on_connected(
        &mut self,
        number: usize,
        (session, password): (i64, [u8; 16]),
        world: &mut World,
        network: &mut Network,
    ) {
        self.connection = Some(number);
        self.state = State::Greeting;
        self.heard_us = world.now_us;
        self.sent_us = world.now_us;
        self.input.clear();
        let request = ConnectRequest {
            last_zxid_seen: self.last_zxid,
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

    /// Sends something else than a connect request on a new connection, if it is to. Returns
    /// whether it did.
    pub fn maybe_spoil_connect(
        &mut self,
        number: usize,
        world: &mut World,
        network: &mut Network,
        history: &mut History,
    ) -> bool {
        let Some(random) = self.bad_frames.as_mut().filter(|_| !self.is_visiting) else {
            return false;
        };
        if !random.one_in(BAD_CONNECT_ONE_IN) {
            return false;
        }
        let op = bad_frame::instead_of_connect(random);
        self.connection = Some(number);
        self.state = State::Greeting;
        self.waits_for_end = true;
        self.heard_us = world.now_us;
        self.sent_us = world.now_us;
        self.input.clear();
        let mut out = Vec::new();
        encode(&op, 0, &mut out);
        history.invoke(number, op, world.now_us);
        network.send_up(world, number, &out);
        true
    }

    /// Gives the connection up: what was under way is of unknown fate.
    fn leave(&mut self, world: &mut World, network: &mut Network) {
        if let Some(number) = self.connection.take() {
            network.close_by_client(world, number);
        }
        self.state = State::Away;
        self.is_read_only = false;
        self.waits_for_end = false;
        self.outstanding.clear();
        self.pings.clear();
        if self.last_words == LastWords::Sent {
            self.last_words = LastWords::Wanted;
        }
        self.next_us = world.now_us + self.random.magnitude(10, 300_000);
        if self.is_obedient {
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
        if now_us < self.mute_until_us {
            return;
        }
        let mut out = Vec::new();
        if now_us >= self.next_us && !self.waits_for_end {
            if self.config.is_erratic && !self.is_calm && self.random.one_in(40) {
                self.misbehave(world, network, history, timeout_us);
                return;
            }
            self.burst(now_us, history, &mut out);
        }
        let may_speak = self.last_words == LastWords::Wanted && !self.is_read_only;
        if may_speak && self.outstanding.is_empty() {
            assert!(!self.waits_for_end, "a frame that it waits for is outstanding");
            self.last_words = LastWords::Sent;
            self.request(Op::Sync { path: "/".to_string() }, now_us, history, &mut out);
            let op = Op::GetChildren { path: "/".to_string(), watch: false, with_stat: true };
            self.request(op, now_us, history, &mut out);
        }
        if out.is_empty() && now_us >= self.sent_us + timeout_us / 3 {
            let number = self.connection.expect("a connected client has a connection");
            self.pings.push_back(history.invoke(number, Op::Ping, now_us));
            Request::Ping.encode(XID_PING, &mut out);
        }
        self.send(&out, world, network);
    }

    fn send(&mut self, bytes: &[u8], world: &mut World, network: &mut Network) {
        if bytes.is_empty() {
            return;
        }
        self.sent_us = world.now_us;
        let number = self.connection.expect("a connected client has a connection");
        network.send_up(world, number, bytes);
    }

    fn burst(&mut self, now_us: u64, history: &mut History, out: &mut Vec<u8>) {
        let room = self.config.pipeline_max.saturating_sub(self.outstanding.len() as u64);
        let wanted = room.min(self.ops_left);
        if wanted > 0 {
            for _ in 0..self.random.between(1, wanted) {
                self.ops_left -= 1;
                let op = self.generator.next_op();
                self.request(op, now_us, history, out);
                self.maybe_send_bad_frame(now_us, history, out);
            }
        }
        self.next_us = now_us + self.random.magnitude(1, self.config.think_us_max);
    }

    /// Sends a frame that no server takes between two requests, now and then. If the frame ends the
    /// connection, no server reads what the client sends behind it.
    fn maybe_send_bad_frame(&mut self, now_us: u64, history: &mut History, out: &mut Vec<u8>) {
        let Some(random) = &mut self.bad_frames else { return };
        if !random.one_in(BAD_FRAME_ONE_IN) {
            return;
        }
        let xid = self.xid + 1;
        let op = match random.one_in(2) {
            true => bad_frame::that_does_not_decode(xid, random),
            false => bad_frame::that_closes(xid, random),
        };
        self.waits_for_end |= matches!(op, Op::BadFrame { .. });
        self.request(op, now_us, history, out);
    }

    fn request(&mut self, op: Op, now_us: u64, history: &mut History, out: &mut Vec<u8>) {
        let number = self.connection.expect("a connected client has a connection");
        let xid = match op {
            Op::SetWatches { .. } | Op::SetWatches2 { .. } => XID_SET_WATCHES,
            Op::Auth { .. } => XID_AUTH,
            _ => {
                self.xid += 1;
                self.xid
            }
        };
        encode(&op, xid, out);
        self.outstanding.push_back((xid, history.invoke(number, op, now_us)));
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
                self.request(Op::CloseSession, now_us, history, &mut out);
                self.send(&out, world, network);
                self.mute_until_us = now_us + timeout_us;
            }
            1 | 2 => self.leave(world, network),
            3 => {
                self.leave(world, network);
                self.next_us = now_us + self.random.between(timeout_us / 4, timeout_us * 2);
            }
            // Back when its session is about to expire: a look at the clock after the deadline.
            4 | 8 => {
                match self.random.one_in(2) {
                    true => self.leave(world, network),
                    false => self.abandon(now_us, history, world, network),
                }
                let late_us = self.random.below(self.tick_us + 500_000);
                self.next_us = self.sent_us + timeout_us + late_us;
                self.is_racing = true;
            }
            // Back at once, while its last requests are still on their way.
            5 => {
                let until_us = now_us + self.random.magnitude(1_000, timeout_us);
                self.abandon(until_us, history, world, network);
            }
            // Back soon: its last requests arrive when it is just being given its session.
            9 => {
                let back_us = now_us + self.random.magnitude(10, 300_000);
                let until_us = back_us + self.random.magnitude(1_000, 200_000);
                self.abandon(until_us, history, world, network);
                self.next_us = back_us;
                self.is_racing = true;
            }
            // Mute until the last moment before its session expires, and meanwhile content with
            // what it hears.
            10 => {
                let early_us = self.random.below(250_000).min(timeout_us / 2);
                self.mute_until_us = self.sent_us + timeout_us - early_us;
                self.heard_us = self.mute_until_us;
            }
            6 => self.mute_until_us = now_us + self.random.between(timeout_us / 4, timeout_us * 2),
            _ => self.deaf_until_us = now_us + self.random.between(1_000, timeout_us),
        }
        self.next_us = self.next_us.max(now_us + 1);
    }

    /// Sends something and forgets the connection without closing it. The bytes arrive at
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
            self.request(Op::CloseSession, world.now_us, history, &mut out);
        }
        self.send(&out, world, network);
        if let Some(number) = self.connection.take() {
            network.abandon(number, until_us);
        }
        self.leave(world, network);
    }

    // Receiving.

    /// Bytes have arrived, or the end of the connection.
    ///
    /// # Errors
    /// A ZooKeeper client would not have understood them.
    pub fn on_arrival(
        &mut self,
        world: &mut World,
        network: &mut Network,
        history: &mut History,
    ) -> Result<(), String> {
        let Some(number) = self.connection else { return Ok(()) };
        let connection = &mut network.connections[number];
        if !connection.client_buffer.is_empty() {
            self.heard_us = self.heard_us.max(world.now_us);
            self.input.extend(connection.client_buffer.drain(..));
        }
        let is_over = connection.client_end == End::Over;
        while self.connection == Some(number) {
            let Some(first) = self.input.first_chunk::<4>() else { break };
            let length = u32::from_be_bytes(*first) as usize;
            if self.input.len() < 4 + length {
                break;
            }
            let rest = self.input.split_off(4 + length);
            let frame = core::mem::replace(&mut self.input, rest);
            let read = self.on_frame(&frame[4..], number, world, network, history);
            read.map_err(|what| format!("client {}, connection {number}: {what}", self.number))?;
        }
        if is_over && self.connection == Some(number) {
            self.ended_count += usize::from(self.waits_for_end);
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
        if self.state == State::Greeting {
            let response = ConnectResponse::decode(frame).map_err(|error| error.to_string())?;
            self.on_session(&response, number, world, network, history);
            return Ok(());
        }
        let mut reader = JuteReader::new(frame);
        let header = ReplyHeader::decode(&mut reader).map_err(|error| error.to_string())?;
        if header.xid == XID_EVENT {
            return self.on_event(header.zxid, &mut reader, number, history);
        }
        let waiting = match header.xid {
            XID_PING => self.pings.pop_front().map(|op| (XID_PING, op)),
            _ => self.outstanding.pop_front(),
        };
        let Some((xid, op)) = waiting else {
            return Err(format!("a reply to {}, which nobody asked", header.xid));
        };
        if xid != header.xid {
            return Err(format!("a reply to {} before the one to {xid}", header.xid));
        }
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
        self.last_zxid = self.last_zxid.max(header.zxid);
        self.learn_watches(&asked, code);
        if let Op::Auth { user } = asked
            && !self.users.contains(&user)
        {
            self.users.push(user);
        }
        history.complete(op, header.zxid, code, answer, world.now_us);
        if asked == Op::CloseSession && code == error::OK {
            self.forget_session();
            self.mute_until_us = 0;
            self.leave(world, network);
        } else if self.last_words == LastWords::Sent && self.outstanding.is_empty() {
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
                self.forget_session();
            }
            self.leave(world, network);
            return;
        }
        let (session, timeout_ms) = (response.session, response.timeout_ms as u32);
        let password = response.password;
        self.is_read_only = response.read_only == Some(true);
        if self.is_read_only {
            history.receive(number, Received::ConnectedReadOnly { session, password });
        } else {
            history.receive(number, Received::Connected { session, timeout_ms, password });
        }
        if self.keeps_session(world.now_us) {
            self.session = session;
            self.password = password;
        }
        self.timeout_ms = timeout_ms;
        self.state = State::Connected;
        self.next_us = world.now_us;
        self.mute_until_us = 0;
        let mut proofs = Vec::new();
        for user in self.users.clone() {
            self.request(Op::Auth { user }, world.now_us, history, &mut proofs);
        }
        self.send(&proofs, world, network);
        if !self.watches.is_empty() {
            let of = |table: Table| {
                let wanted = self.watches.iter().filter(|(of, _)| *of == table);
                wanted.map(|(_, path)| path.clone()).collect::<Vec<_>>()
            };
            let relative_zxid = self.last_zxid;
            let (data, exist, child) = (of(Table::Data), of(Table::Exist), of(Table::Child));
            let (persistent, recursive) = (of(Table::Persistent), of(Table::Recursive));
            // `ClientCnxn.SendThread.primeConnection`
            let op = match persistent.is_empty() && recursive.is_empty() {
                true => Op::SetWatches { relative_zxid, data, exist, child },
                false => {
                    Op::SetWatches2 { relative_zxid, data, exist, child, persistent, recursive }
                }
            };
            let mut out = Vec::new();
            self.request(op, world.now_us, history, &mut out);
            self.send(&out, world, network);
        }
    }

    /// Whether it asks for the session that it was just given on its next connection. ZooKeeper's
    /// clients do not ask for one that only a server without a leader knows
    /// (`ClientCnxn.SendThread.seenRwServerBefore`), others do.
    fn keeps_session(&mut self, now_us: u64) -> bool {
        if !self.is_read_only {
            return true;
        }
        let is_local = self.session == 0;
        match &mut self.reads_only {
            Some(random) => {
                self.searches_us = now_us + random.magnitude(100_000, READ_ONLY_US_MAX);
                !is_local || random.one_in(4)
            }
            None => !is_local,
        }
    }

    fn forget_session(&mut self) {
        self.session = 0;
        self.password = [0; 16];
        self.last_zxid = 0;
        self.users.clear();
        self.watches.clear();
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
        let gone: &[Table] = match kind {
            EventKind::Created | EventKind::DataChanged => &[Table::Data, Table::Exist],
            EventKind::Deleted => &[Table::Data, Table::Exist, Table::Child],
            EventKind::ChildrenChanged => &[Table::Child],
        };
        for table in gone {
            self.watches.remove(&(*table, path.clone()));
        }
        history.receive(number, Received::Event { zxid, kind, path });
        Ok(())
    }

    /// Notes which watches the client has now. ZooKeeper's clients keep their watches, to set them
    /// again.
    fn learn_watches(&mut self, op: &Op, code: i32) {
        if let (Op::FindWatch { path, which, removes: true }, error::OK) = (op, code) {
            for table in tables_of(*which) {
                self.watches.remove(&(*table, path.clone()));
            }
        }
        let mut add = |table: Table, path: &String| {
            self.watches.insert((table, path.clone()));
        };
        match (op, code) {
            (Op::Exists { path, watch: true }, error::OK)
            | (Op::GetData { path, watch: true }, error::OK) => add(Table::Data, path),
            (Op::Exists { path, watch: true }, error::NO_NODE) => add(Table::Exist, path),
            (Op::GetChildren { path, watch: true, .. }, error::OK) => add(Table::Child, path),
            (Op::AddWatch { path, is_recursive: false }, error::OK) => add(Table::Persistent, path),
            (Op::AddWatch { path, is_recursive: true }, error::OK) => add(Table::Recursive, path),
            _ => {}
        }
    }
}

fn tables_of(which: Watching) -> &'static [Table] {
    match which {
        Watching::Children => &[Table::Child],
        Watching::Data => &[Table::Data, Table::Exist],
        Watching::Persistent => &[Table::Persistent],
        Watching::Recursive => &[Table::Recursive],
        Watching::Any => {
            &[Table::Data, Table::Exist, Table::Child, Table::Persistent, Table::Recursive]
        }
    }
}

// Encoding.

fn texts(paths: &[String]) -> Vec<&str> {
    paths.iter().map(String::as_str).collect()
}

fn watcher_type(which: Watching) -> WatcherType {
    match which {
        Watching::Children => WatcherType::Children,
        Watching::Data => WatcherType::Data,
        Watching::Persistent => WatcherType::Persistent,
        Watching::Recursive => WatcherType::PersistentRecursive,
        Watching::Any => WatcherType::Any,
    }
}

fn acl(perms: u32) -> Vec<AclEntry> {
    vec![AclEntry { perms, scheme: "world".into(), id: "anyone".into() }]
}

fn owned_acl(owner: Owner, others: u32) -> Vec<AclEntry> {
    let (scheme, id) = match owner {
        Owner::User(user) => ("digest", USERS[user].id),
        Owner::Asker => ("auth", ""),
    };
    let owner = AclEntry { perms: perms::ALL, scheme: scheme.into(), id: id.into() };
    [vec![owner], acl(others)].concat()
}

/// Appends the frame of a request.
pub fn encode(op: &Op, xid: i32, out: &mut Vec<u8>) {
    match op {
        Op::Multi(ops) => Request::Multi(ops.iter().filter_map(write).collect()).encode(xid, out),
        Op::MultiRead(ops) => {
            Request::MultiRead(ops.iter().filter_map(read).collect()).encode(xid, out);
        }
        Op::Sync { path } => Request::Sync { path: Some(path) }.encode(xid, out),
        Op::SetWatches { relative_zxid, data, exist, child } => {
            let request = SetWatchesRequest {
                relative_zxid: *relative_zxid,
                data: texts(data),
                exist: texts(exist),
                child: texts(child),
                null_behind: false,
            };
            Request::SetWatches(request).encode(xid, out);
        }
        Op::SetWatches2 { relative_zxid, data, exist, child, persistent, recursive } => {
            let watches = SetWatchesRequest {
                relative_zxid: *relative_zxid,
                data: texts(data),
                exist: texts(exist),
                child: texts(child),
                null_behind: false,
            };
            let (persistent, persistent_recursive) = (texts(persistent), texts(recursive));
            let request = SetWatches2Request { watches, persistent, persistent_recursive };
            Request::SetWatches2(request).encode(xid, out);
        }
        Op::AddWatch { path, is_recursive } => {
            let mode = match is_recursive {
                true => AddWatchMode::PersistentRecursive,
                false => AddWatchMode::Persistent,
            };
            Request::AddWatch { path, mode }.encode(xid, out);
        }
        Op::FindWatch { path, which, removes } => {
            let watcher_type = watcher_type(*which);
            match removes {
                true => Request::RemoveWatches { path, watcher_type }.encode(xid, out),
                false => Request::CheckWatches { path, watcher_type }.encode(xid, out),
            }
        }
        Op::Auth { user } => {
            let credentials = Some(USERS[*user].credentials.as_bytes());
            Request::Auth { scheme: "digest", credentials }.encode(xid, out);
        }
        Op::BadFrame { bytes, .. } | Op::Undecodable { bytes, .. } => out.extend_from_slice(bytes),
        Op::Ping => Request::Ping.encode(xid, out),
        Op::CloseSession => Request::CloseSession.encode(xid, out),
        op => match (write(op), read(op)) {
            (Some(write), _) => Request::Write(write).encode(xid, out),
            (None, Some(read)) => Request::Read(read).encode(xid, out),
            (None, None) => unreachable!("every operation is one or the other"),
        },
    }
}

fn write(op: &Op) -> Option<WriteRequest<'_>> {
    Some(match op {
        Op::Create { path, data, perms, flag, request } => {
            let (kind, ttl_ms) = match request {
                CreateRequest::Create => (CreateKind::Create, -1),
                CreateRequest::Create2 => (CreateKind::Create2, -1),
                CreateRequest::Container => (CreateKind::Container, -1),
                CreateRequest::Ttl { ttl_ms } => (CreateKind::Ttl, *ttl_ms),
            };
            let (data, acl, flags) = (data.as_deref(), acl(*perms), *flag);
            WriteRequest::Create { kind, path, data, acl, flags, ttl_ms }
        }
        Op::Delete { path, version } => WriteRequest::Delete { path, version: *version },
        Op::SetData { path, data, version } => {
            WriteRequest::SetData { path, data: data.as_deref(), version: *version }
        }
        Op::SetAcl { path, perms, version } => {
            WriteRequest::SetAcl { path, acl: acl(*perms), version: *version }
        }
        Op::CreateOwned { path, data, owner, others, flag } => WriteRequest::Create {
            kind: CreateKind::Create,
            path,
            data: data.as_deref(),
            acl: owned_acl(*owner, *others),
            flags: *flag,
            ttl_ms: -1,
        },
        Op::SetAclOwned { path, owner, others, version } => {
            let acl = owned_acl(*owner, *others);
            WriteRequest::SetAcl { path, acl, version: *version }
        }
        Op::Check { path, version } => WriteRequest::Check { path, version: *version },
        _ => return None,
    })
}

fn read(op: &Op) -> Option<ReadRequest<'_>> {
    Some(match op {
        Op::Exists { path, watch } => ReadRequest { kind: ReadKind::Exists, path, watch: *watch },
        Op::GetData { path, watch } => ReadRequest { kind: ReadKind::GetData, path, watch: *watch },
        Op::GetChildren { path, watch, with_stat } => ReadRequest {
            kind: if *with_stat { ReadKind::GetChildren2 } else { ReadKind::GetChildren },
            path,
            watch: *watch,
        },
        Op::GetAcl { path } => ReadRequest { kind: ReadKind::GetAcl, path, watch: false },
        _ => return None,
    })
}

// Decoding.

fn stat(reader: &mut JuteReader<'_>) -> Result<Stat, JuteError> {
    let stat = decode_stat(reader)?;
    Ok(Stat {
        czxid: stat.czxid,
        mzxid: stat.mzxid,
        ctime: stat.ctime,
        mtime: stat.mtime,
        version: stat.version,
        cversion: stat.cversion,
        aversion: stat.aversion,
        ephemeral_owner: stat.ephemeral_owner,
        data_bytes: stat.data_bytes,
        child_count: stat.child_count,
        pzxid: stat.pzxid,
    })
}

fn names(reader: &mut JuteReader<'_>) -> Result<Vec<String>, JuteError> {
    let mut names: Vec<String> = reader.texts()?.into_iter().map(str::to_string).collect();
    names.sort();
    Ok(names)
}

/// The body of the reply to an operation.
///
/// # Errors
/// The bytes are not the body of such a reply.
pub fn decode_answer(op: &Op, reader: &mut JuteReader<'_>) -> Result<Answer, JuteError> {
    Ok(match op {
        Op::Create { request: CreateRequest::Create, .. }
        | Op::CreateOwned { .. }
        | Op::Sync { .. } => Answer::Path(reader.text()?.to_string()),
        Op::Create { .. } => Answer::PathStat(reader.text()?.to_string(), stat(reader)?),
        Op::SetData { .. } | Op::SetAcl { .. } | Op::SetAclOwned { .. } | Op::Exists { .. } => {
            Answer::Stat(stat(reader)?)
        }
        Op::GetData { .. } => {
            let data = reader.buffer()?.map(<[u8]>::to_vec);
            Answer::Data(data, stat(reader)?)
        }
        Op::GetChildren { with_stat: false, .. } => Answer::Children(names(reader)?),
        Op::GetChildren { .. } => Answer::ChildrenStat(names(reader)?, stat(reader)?),
        Op::GetAcl { .. } => {
            let count = reader.count(12)?;
            let (mut owners, mut everyone) = (Vec::new(), 0);
            for _ in 0..count {
                let perms = reader.int()? as u32;
                match (reader.text()?, reader.text()?) {
                    ("world", "anyone") => everyone |= perms,
                    ("digest", id) if perms == perms::ALL => owners.push(id.to_string()),
                    _ => return Err(reader.bad("ACL")),
                }
            }
            let stat = stat(reader)?;
            match owners.is_empty() {
                true => Answer::Acl(everyone, stat),
                false => Answer::OwnedAcl(owners, everyone, stat),
            }
        }
        Op::Multi(ops) | Op::MultiRead(ops) => decode_results(ops, reader)?,
        // `ErrorResponse`
        Op::AddWatch { .. } => match reader.int()? {
            error::OK => Answer::Empty,
            _ => return Err(reader.bad("result of addWatch")),
        },
        Op::Delete { .. }
        | Op::Check { .. }
        | Op::SetWatches { .. }
        | Op::SetWatches2 { .. }
        | Op::FindWatch { .. }
        | Op::Auth { .. }
        | Op::BadFrame { .. }
        | Op::Undecodable { .. }
        | Op::Ping
        | Op::CloseSession => Answer::Empty,
    })
}

/// A multi that was not taken says so for each operation and not in the header.
fn refusal_of_all(answer: Answer) -> (i32, Answer) {
    let is_refused = |result: &Result<Answer, i32>| *result == Err(error::SYSTEM_ERROR);
    match &answer {
        Answer::Multi(results) if !results.is_empty() && results.iter().all(is_refused) => {
            (error::SYSTEM_ERROR, Answer::Empty)
        }
        _ => (error::OK, answer),
    }
}

/// `MultiResponse`: a header before each result, and one that says it was the last.
fn decode_results(ops: &[Op], reader: &mut JuteReader<'_>) -> Result<Answer, JuteError> {
    let mut results = Vec::new();
    loop {
        let kind = reader.int()?;
        let is_last = reader.bool()?;
        let code = reader.int()?;
        if is_last {
            break;
        }
        let Some(op) = ops.get(results.len()) else { return Err(reader.bad("result count")) };
        if kind == zk::request::opcode::ERROR {
            if reader.int()? != code {
                return Err(reader.bad("error result"));
            }
            results.push(Err(code));
        } else {
            if kind != result_kind_of(op) || code != error::OK {
                return Err(reader.bad("result header"));
            }
            results.push(Ok(decode_answer(op, reader)?));
        }
    }
    match results.len() == ops.len() {
        true => Ok(Answer::Multi(results)),
        false => Err(reader.bad("result count")),
    }
}

/// `OpResult.CreateResult`: a result with a stat is that of create2, whatever request made it.
fn result_kind_of(op: &Op) -> i32 {
    match op {
        Op::Create { request: CreateRequest::Create, .. } | Op::CreateOwned { .. } => {
            zk::request::opcode::CREATE
        }
        Op::Create { .. } => zk::request::opcode::CREATE2,
        op => opcode_of(op),
    }
}

fn opcode_of(op: &Op) -> i32 {
    match (write(op), read(op)) {
        (Some(write), _) => write.opcode(),
        (None, Some(read)) => read.kind.opcode(),
        (None, None) => 0,
    }
}
