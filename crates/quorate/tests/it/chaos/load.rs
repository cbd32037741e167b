//! The ZooKeeper clients of the chaos tests. They behave like ZooKeeper's own: a session continues
//! over many connections to any members, requests are pipelined, and watches are set again after a
//! reconnect. One history records what they send and receive.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use sim::client::{decode_answer, encode};
use workload::generate::Random;
use workload::history::{History, Received};
use workload::op::{Answer, CreateRequest, EventKind, Op, error, flag, perms};
use zk::frame;
use zk::jute::JuteReader;
use zk::request::{ConnectRequest, XID_EVENT, XID_PING, XID_SET_WATCHES};
use zk::response::{ConnectResponse, ReplyHeader};

/// The session timeout that clients ask for.
pub const TIMEOUT_MS: u64 = 4_000;
/// How long a client waits for an answer before it tries another member (`ClientCnxn.readTimeout`).
const READ_WAIT: Duration = Duration::from_millis(TIMEOUT_MS * 2 / 3);
/// How long a client waits for a session (`ClientCnxn.connectTimeout`).
const CONNECT_WAIT: Duration = Duration::from_millis(TIMEOUT_MS / 3);
/// How many requests of a client may be unanswered.
const PIPELINE_MAX: u64 = 12;
/// How many sequential znodes a client keeps.
const SEQUENTIAL_MAX: usize = 8;
/// How long each part of the tree is used. The judge compares every list of children with every
/// child that ever existed, so a part must not live too long.
const SEASON: Duration = Duration::from_secs(15);
/// How many parents each season has.
const PARENTS: u64 = 2;

/// The state that all ZooKeeper clients share.
pub struct World {
    pub history: Mutex<History>,
    began: Instant,
    addresses: Vec<SocketAddr>,
    is_over: AtomicBool,
    failed: AtomicBool,
}

impl World {
    pub fn new(addresses: Vec<SocketAddr>) -> World {
        World {
            history: Mutex::default(),
            began: Instant::now(),
            addresses,
            is_over: AtomicBool::new(false),
            failed: AtomicBool::new(false),
        }
    }

    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn now_us(&self) -> u64 {
        self.began.elapsed().as_micros() as u64
    }

    /// Tells the clients to close their sessions and stop.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    fn season(&self) -> u64 {
        self.began.elapsed().as_secs() / SEASON.as_secs()
    }

    /// All parents that may exist so far.
    pub fn parents(&self) -> Vec<String> {
        (0..=self.season()).flat_map(parents_of).collect()
    }
}

fn parents_of(season: u64) -> Vec<String> {
    (0..PARENTS).map(|number| format!("/s{season}-{number}")).collect()
}

/// The error if a connection has ended, or cannot be used any more because an answer is late or
/// malformed.
#[derive(Debug)]
pub struct Gone;

/// A connection, with the received bytes of an incomplete frame.
struct Wire {
    stream: TcpStream,
    input: Vec<u8>,
}

impl Wire {
    fn open(address: SocketAddr) -> Result<Wire, Gone> {
        let stream = TcpStream::connect(address).map_err(|_| Gone)?;
        stream.set_nodelay(true).map_err(|_| Gone)?;
        stream.set_write_timeout(Some(READ_WAIT)).map_err(|_| Gone)?;
        Ok(Wire { stream, input: Vec::new() })
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        self.stream.write_all(bytes).map_err(|_| Gone)
    }

    /// The next frame; `None` if it does not arrive in time.
    fn frame(&mut self, wait: Duration) -> Result<Option<Vec<u8>>, Gone> {
        let deadline = Instant::now() + wait;
        loop {
            if let Some((body, _)) = frame::split(&self.input).map_err(|_| Gone)? {
                let frame = body.to_vec();
                self.input.drain(..frame::LENGTH_BYTES + frame.len());
                return Ok(Some(frame));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            self.stream.set_read_timeout(Some(left)).map_err(|_| Gone)?;
            let mut bytes = [0; 16 * 1024];
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(Gone),
                Ok(count) => self.input.extend_from_slice(&bytes[..count]),
                Err(failed)
                    if matches!(failed.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(_) => return Err(Gone),
            }
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// The three lists of a setWatches request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Table {
    Data,
    Exist,
    Child,
}

/// A session as its client sees it.
pub struct Session<'w> {
    world: &'w World,
    client: u32,
    session: i64,
    password: [u8; 16],
    /// The zxid of the last reply. A member that has not applied it must refuse the session.
    last_zxid: i64,
    watches: BTreeSet<(Table, String)>,
    wire: Option<Wire>,
    connection: usize,
    xid: i32,
    outstanding: VecDeque<(i32, usize)>,
    pings: VecDeque<usize>,
}

/// The result of an attempt to connect: the member gave the session, or refused it.
#[derive(Debug, PartialEq, Eq)]
pub enum Greeting {
    Attached,
    Refused,
}

impl<'w> Session<'w> {
    pub fn new(world: &'w World, client: u32) -> Session<'w> {
        Session {
            world,
            client,
            session: 0,
            password: [0; 16],
            last_zxid: 0,
            watches: BTreeSet::new(),
            wire: None,
            connection: 0,
            xid: 0,
            outstanding: VecDeque::new(),
            pings: VecDeque::new(),
        }
    }

    /// Connects to a member, to resume the session or to open one.
    pub fn connect(&mut self, member: usize) -> Result<Greeting, Gone> {
        self.leave();
        let mut wire = Wire::open(self.world.addresses[member])?;
        let request = ConnectRequest {
            last_zxid_seen: self.last_zxid,
            session: self.session,
            password: self.password.to_vec(),
            ..ConnectRequest::new(TIMEOUT_MS as i32)
        };
        {
            let mut history = self.world.history();
            self.connection = history.connect(self.client, self.session, self.password);
            history.note_asked(self.connection, self.world.now_us());
        }
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        wire.send(&bytes)?;
        let frame = wire.frame(CONNECT_WAIT)?.ok_or(Gone)?;
        let response = ConnectResponse::decode(&frame).expect("a response to a connect request");
        let mut history = self.world.history();
        if response.timeout_ms <= 0 {
            history.receive(self.connection, Received::Refused);
            history.note_told(self.connection, self.world.now_us());
            drop(history);
            self.forget();
            return Ok(Greeting::Refused);
        }
        (self.session, self.password) = (response.session, response.password);
        let timeout_ms = response.timeout_ms as u32;
        let (session, password) = (self.session, self.password);
        let connected = Received::Connected { session, timeout_ms, password };
        history.receive(self.connection, connected);
        history.note_told(self.connection, self.world.now_us());
        drop(history);
        self.wire = Some(wire);
        self.set_watches_again()?;
        Ok(Greeting::Attached)
    }

    fn set_watches_again(&mut self) -> Result<(), Gone> {
        if self.watches.is_empty() {
            return Ok(());
        }
        let of = |table: Table| {
            let wanted = self.watches.iter().filter(|(of, _)| *of == table);
            wanted.map(|(_, path)| path.clone()).collect::<Vec<_>>()
        };
        let (data, exist, child) = (of(Table::Data), of(Table::Exist), of(Table::Child));
        let op = Op::SetWatches { relative_zxid: self.last_zxid, data, exist, child };
        self.send(vec![op])
    }

    /// Forgets the session after it has ended.
    fn forget(&mut self) {
        self.leave();
        (self.session, self.password, self.last_zxid) = (0, [0; 16], 0);
        self.watches.clear();
    }

    /// Drops the connection.
    pub fn leave(&mut self) {
        self.wire = None;
        self.outstanding.clear();
        self.pings.clear();
        self.xid = 0;
    }

    pub fn is_connected(&self) -> bool {
        self.wire.is_some()
    }

    /// Sends several requests with one write.
    pub fn send(&mut self, ops: Vec<Op>) -> Result<(), Gone> {
        let mut bytes = Vec::new();
        {
            let mut history = self.world.history();
            let now_us = self.world.now_us();
            for op in ops {
                let xid = match op {
                    Op::Ping => XID_PING,
                    Op::SetWatches { .. } => XID_SET_WATCHES,
                    _ => {
                        self.xid += 1;
                        self.xid
                    }
                };
                encode(&op, xid, &mut bytes);
                let is_ping = op == Op::Ping;
                let number = history.invoke(self.connection, op, now_us);
                match is_ping {
                    true => self.pings.push_back(number),
                    false => self.outstanding.push_back((xid, number)),
                }
            }
        }
        let wire = self.wire.as_mut().ok_or(Gone)?;
        let sent = wire.send(&bytes);
        self.or_leave(sent)
    }

    fn or_leave<T>(&mut self, result: Result<T, Gone>) -> Result<T, Gone> {
        if result.is_err() {
            self.leave();
        }
        result
    }

    /// Receives until at most `left` requests are unanswered. Returns the answered operations by
    /// their numbers in the history.
    pub fn receive(&mut self, left: usize) -> Result<Vec<usize>, Gone> {
        let mut answered = Vec::new();
        while self.outstanding.len() + self.pings.len() > left {
            let wire = self.wire.as_mut().ok_or(Gone)?;
            let frame = wire.frame(READ_WAIT).and_then(|frame| frame.ok_or(Gone));
            let frame = self.or_leave(frame)?;
            answered.extend(self.on_frame(&frame)?);
        }
        Ok(answered)
    }

    /// Receives an event, if one arrives in time.
    pub fn listen(&mut self, wait: Duration) -> Result<(), Gone> {
        let wire = self.wire.as_mut().ok_or(Gone)?;
        let frame = wire.frame(wait);
        if let Some(frame) = self.or_leave(frame)? {
            self.on_frame(&frame)?;
        }
        Ok(())
    }

    fn on_frame(&mut self, frame: &[u8]) -> Result<Option<usize>, Gone> {
        let mut reader = JuteReader::new(frame);
        let header = ReplyHeader::decode(&mut reader).expect("a frame begins with a header");
        if header.xid == XID_EVENT {
            self.on_event(header.zxid, &mut reader);
            return Ok(None);
        }
        let (xid, number) = match header.xid {
            XID_PING => (XID_PING, self.pings.pop_front().expect("a ping was sent")),
            xid => self
                .outstanding
                .pop_front()
                .unwrap_or_else(|| panic!("a reply to {xid}, which nobody asked: {header:?}")),
        };
        assert_eq!(xid, header.xid, "replies come in the order of the requests");
        let mut history = self.world.history();
        let asked = history.ops[number].op.clone();
        let code = header.error.0;
        let answer = match code {
            error::OK => decode_answer(&asked, &mut reader).expect("a reply to what was asked"),
            _ => Answer::Empty,
        };
        history.complete(number, header.zxid, code, answer, self.world.now_us());
        drop(history);
        if xid != XID_PING && header.zxid > 0 {
            self.last_zxid = self.last_zxid.max(header.zxid);
        }
        self.learn_watches(&asked, code);
        match code {
            // ZooKeeper's own clients disconnect at these errors, too: another connection has taken
            // over the session.
            error::SESSION_MOVED | error::SESSION_EXPIRED => {
                self.leave();
                Err(Gone)
            }
            error::OK if asked == Op::CloseSession => {
                self.forget();
                Err(Gone)
            }
            _ => Ok(Some(number)),
        }
    }

    fn on_event(&mut self, zxid: i64, reader: &mut JuteReader<'_>) {
        let kind = match reader.int().unwrap() {
            1 => EventKind::Created,
            2 => EventKind::Deleted,
            3 => EventKind::DataChanged,
            4 => EventKind::ChildrenChanged,
            other => panic!("an event of kind {other}"),
        };
        assert_eq!(reader.int().unwrap(), 3, "the state of an event is that of the connection");
        let path = reader.text().unwrap().to_string();
        let gone: &[Table] = match kind {
            EventKind::Created | EventKind::DataChanged => &[Table::Data, Table::Exist],
            EventKind::Deleted => &[Table::Data, Table::Exist, Table::Child],
            EventKind::ChildrenChanged => &[Table::Child],
        };
        for table in gone {
            self.watches.remove(&(*table, path.clone()));
        }
        self.world.history().receive(self.connection, Received::Event { zxid, kind, path });
    }

    fn learn_watches(&mut self, op: &Op, code: i32) {
        let watch = match (op, code) {
            (Op::Exists { path, watch: true } | Op::GetData { path, watch: true }, error::OK) => {
                (Table::Data, path)
            }
            (Op::Exists { path, watch: true }, error::NO_NODE) => (Table::Exist, path),
            (Op::GetChildren { path, watch: true, .. }, error::OK) => (Table::Child, path),
            _ => return,
        };
        self.watches.insert((watch.0, watch.1.clone()));
    }

    /// Sends a request and waits for its answer. Returns the error code and the answer.
    pub fn call(&mut self, op: Op) -> Result<(i32, Answer), Gone> {
        self.send(vec![op])?;
        let answered = self.receive(0)?;
        let number = *answered.last().ok_or(Gone)?;
        let history = self.world.history();
        let completed = history.ops[number].completed.as_ref().expect("it was answered");
        Ok((completed.error, completed.answer.clone()))
    }
}

/// A client that sends random requests.
pub struct Client<'w> {
    world: &'w World,
    session: Session<'w>,
    random: Random,
    id: u32,
    drawn: u64,
    season: u64,
    /// The last version that the client has seen of each znode, by path.
    versions: BTreeMap<String, i32>,
    /// The paths of the sequential znodes that the client has created.
    sequential: Vec<String>,
}

impl<'w> Client<'w> {
    pub fn new(world: &'w World, id: u32, random: Random) -> Client<'w> {
        Client {
            world,
            session: Session::new(world, id),
            random,
            id,
            drawn: 0,
            season: u64::MAX,
            versions: BTreeMap::new(),
            sequential: Vec::new(),
        }
    }

    /// Sends requests until the test is over, then closes its session.
    pub fn run(mut self) {
        let _alarm = Alarm(self.world);
        while !self.world.is_over() {
            // After an error it connects to another member.
            let _ = self.work();
        }
        let give_up = Instant::now() + 2 * READ_WAIT;
        while self.session.session != 0 && Instant::now() < give_up {
            if self.session.is_connected() || self.connect().is_ok() {
                let _ = self.session.call(Op::CloseSession);
            }
        }
    }

    fn connect(&mut self) -> Result<(), Gone> {
        let any = self.random.below(self.world.addresses.len() as u64) as usize;
        match self.session.connect(any) {
            Ok(Greeting::Attached) => Ok(()),
            Ok(Greeting::Refused) => Err(Gone),
            Err(Gone) => {
                std::thread::sleep(Duration::from_millis(self.random.between(5, 100)));
                Err(Gone)
            }
        }
    }

    fn work(&mut self) -> Result<(), Gone> {
        if !self.session.is_connected() {
            self.connect()?;
        }
        let season = self.world.season();
        if self.season != season {
            self.begin_season(season)?;
        }
        let count = self.random.between(1, PIPELINE_MAX);
        let ops = (0..count).map(|_| self.draw()).collect();
        self.session.send(ops)?;
        let outstanding = self.session.outstanding.len() as u64;
        let left = if self.random.one_in(2) { 0 } else { self.random.below(outstanding + 1) };
        for number in self.session.receive(left as usize)? {
            self.learn(number);
        }
        match self.random.below(1000) {
            // Disconnects in the middle of its requests, to go to another member.
            0..=4 => self.session.leave(),
            5 => {
                let _ = self.session.call(Op::CloseSession);
            }
            // Sends nothing for a while, perhaps for longer than its session lasts.
            6 => {
                let silence_ms = self.random.between(TIMEOUT_MS / 2, 2 * TIMEOUT_MS);
                self.be_silent(Duration::from_millis(silence_ms));
            }
            7..=40 => self.session.send(vec![Op::Ping])?,
            _ => {
                let wait = Duration::from_millis(self.random.between(1, 40));
                self.session.listen(wait)?;
            }
        }
        Ok(())
    }

    fn be_silent(&mut self, silence: Duration) {
        let end = Instant::now() + silence;
        while Instant::now() < end && !self.world.is_over() {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn begin_season(&mut self, season: u64) -> Result<(), Gone> {
        for path in parents_of(season) {
            let data = Some(self.data());
            let (flag, request) = (flag::PERSISTENT, CreateRequest::Create);
            let op = Op::Create { path, data, perms: perms::ALL, flag, request };
            self.session.call(op)?;
        }
        self.season = season;
        self.versions.clear();
        self.sequential.clear();
        Ok(())
    }

    /// Data that no other write has.
    fn data(&mut self) -> Vec<u8> {
        self.drawn += 1;
        format!("{}-{}", self.id, self.drawn).into_bytes()
    }

    fn path(&mut self) -> String {
        let parent = self.random.below(PARENTS);
        let season = self.season;
        match self.random.below(4) {
            0 => format!("/s{season}-{parent}/e{}", self.random.below(3)),
            _ => format!("/s{season}-{parent}/x{}", self.random.below(5)),
        }
    }

    fn version(&mut self, path: &str) -> i32 {
        match self.versions.get(path) {
            Some(version) if self.random.one_in(2) => *version,
            _ => -1,
        }
    }

    fn draw(&mut self) -> Op {
        let watch = self.random.one_in(4);
        match self.random.below(20) {
            0..=8 => self.draw_write(),
            9 => {
                let mut touched = BTreeSet::new();
                let count = self.random.between(2, 4);
                let mut ops: Vec<Op> = (0..count).map(|_| self.draw_part()).collect();
                ops.retain(|op| touched.insert(path_of(op)));
                Op::Multi(ops)
            }
            10 => Op::Sync { path: "/".to_string() },
            11 | 12 => Op::Exists { path: self.path(), watch },
            13..=16 => Op::GetData { path: self.path(), watch },
            17 => Op::MultiRead(vec![
                Op::GetData { path: self.path(), watch: false },
                Op::GetData { path: self.path(), watch: false },
            ]),
            _ => {
                let parent = self.random.below(PARENTS);
                let path = format!("/s{}-{parent}", self.season);
                Op::GetChildren { path, watch, with_stat: self.random.one_in(2) }
            }
        }
    }

    fn draw_part(&mut self) -> Op {
        if !self.random.one_in(4) {
            return self.draw_write();
        }
        let path = self.path();
        let version = self.version(&path);
        Op::Check { path, version }
    }

    fn draw_write(&mut self) -> Op {
        let path = self.path();
        let version = self.version(&path);
        match self.random.below(10) {
            0..=3 => Op::SetData { path, data: Some(self.data()), version },
            4 => Op::Delete { path, version },
            5 if self.sequential.len() >= SEQUENTIAL_MAX => {
                let any = self.random.below(self.sequential.len() as u64) as usize;
                Op::Delete { path: self.sequential.swap_remove(any), version: -1 }
            }
            5 if self.sequential.len() < SEQUENTIAL_MAX => {
                let path = format!("/s{}-{}/n-", self.season, self.random.below(PARENTS));
                let is_ephemeral = self.random.one_in(3);
                self.create(match is_ephemeral {
                    true => (path, flag::EPHEMERAL_SEQUENTIAL),
                    false => (path, flag::PERSISTENT_SEQUENTIAL),
                })
            }
            _ => {
                let is_ephemeral = path.contains("/e");
                let flag = if is_ephemeral { flag::EPHEMERAL } else { flag::PERSISTENT };
                self.create((path, flag))
            }
        }
    }

    fn create(&mut self, (path, flag): (String, i32)) -> Op {
        let request = match self.random.one_in(2) {
            true => CreateRequest::Create,
            false => CreateRequest::Create2,
        };
        Op::Create { path, data: Some(self.data()), perms: perms::ALL, flag, request }
    }

    /// Remembers what an answer says, for later requests: a version to expect, or a name to delete.
    fn learn(&mut self, number: usize) {
        let history = self.world.history();
        let record = &history.ops[number];
        let Some(completed) = &record.completed else { return };
        match (&record.op, &completed.answer) {
            (Op::GetData { path, .. }, Answer::Data(_, stat))
            | (Op::SetData { path, .. }, Answer::Stat(stat))
            | (Op::Exists { path, .. }, Answer::Stat(stat)) => {
                self.versions.insert(path.clone(), stat.version);
            }
            (Op::Create { flag, .. }, Answer::Path(made) | Answer::PathStat(made, _))
                if flag::is_sequential(*flag) =>
            {
                self.sequential.push(made.clone());
            }
            (Op::Create { path, .. }, Answer::Path(_) | Answer::PathStat(..)) => {
                self.versions.insert(path.clone(), 0);
            }
            _ => {}
        }
    }
}

fn path_of(op: &Op) -> String {
    match op {
        Op::Create { path, flag, data, .. } if flag::is_sequential(*flag) => {
            // Each create gets a path of its own.
            format!("{path}{data:?}")
        }
        Op::Create { path, .. }
        | Op::Delete { path, .. }
        | Op::SetData { path, .. }
        | Op::Check { path, .. } => path.clone(),
        _ => String::new(),
    }
}

/// Marks the run as failed if the client that owns this panics.
pub struct Alarm<'w>(pub &'w World);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.failed.store(true, Ordering::Relaxed);
        }
    }
}
