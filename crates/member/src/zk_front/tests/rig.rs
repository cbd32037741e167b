//! What the tests of this crate share: a member of some Fronts, Apply and a machine, with either a
//! trivial loop that packs and stamps, or the real Loop and a pretend disk; and clients that speak
//! the protocol, written and read as text.
//!
//! A line of a script is one of
//! - `c1: get /a | set /a v` sends requests in one packet and runs everything until it is quiet;
//!   `c1~ ...` only sends them, `c2@1: connect` puts a new client on Front 1;
//! - `loop`, `disk`, `apply`, `deliver`, `resume`, `reads`, `write` run one step, `run` runs all;
//! - `time 500`, `stall c1`, `unstall c1`, `close c1`, `full`, `room`, `hold 3` change the world;
//! - `expire c1`, `configure NAME=VALUE ...` are commands of the loop itself, and so is `install`,
//!   of the state at the last `keep`;
//! - `contact` is the last contact with a leader, `contact alone` says that none is needed;
//! - `serve NAME=VALUE ...` makes the Fronts anew: before anyone connects.

use std::collections::{BTreeMap, VecDeque};

use machine::image::FreezeStep;
use machine::image::restore::Restore;
use machine::{AclEntry, BootId, ControlCommand, MemberId, Ordinal, PreparedImage, ZkCommand};
use zk::ErrorCode;
use zk::auth::{DigestAlgorithm, digest_id};
use zk::jute::JuteReader;
use zk::request::{
    AddWatchMode, ConnectRequest, CreateKind, ReadKind, ReadRequest, Request, SetWatches2Request,
    SetWatchesRequest, WatcherType, WriteRequest, XID_PING, opcode,
};
use zk::response::{ConnectResponse, ReplyHeader, decode_stat};

use super::super::auth::EnsembleNames;
use super::super::*;
use crate::limits::WINDOW_REQUESTS_MAX;
use crate::message::{
    DiskJob, FromApply, FromSnapshot, LoopInput, OwnerEvent, RoomKept, SnapshotJob, Start, ToApply,
    Unavailable,
};
use crate::{Apply, Loop};

pub(crate) const ORIGIN: Origin = Origin { member: MemberId(7), boot: BootId(3) };

/// A seeded generator (splitmix64): the same seed, the same test.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, count: usize) -> usize {
        (self.next() % count as u64) as usize
    }

    pub(crate) fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// What stands between the Fronts and Apply.
pub(crate) enum Engine {
    /// Every submission is an entry of its own, committed at once.
    Stamping { sequence: u64, index: u64, full: bool },
    /// The real Loop; its disk persists when the test says so.
    Real(Box<Real>),
}

/// The real Loop and what it has asked for.
pub(crate) struct Real {
    pub(crate) member: Loop,
    pub(crate) disk: VecDeque<DiskJob>,
    pub(crate) snapshot: VecDeque<SnapshotJob>,
    pub(crate) from_apply: VecDeque<FromApply>,
    pub(crate) ready: usize,
    /// Everything the disk was ever given.
    pub(crate) jobs: Vec<DiskJob>,
    /// Snapshots written, and what the log was told to let go of.
    pub(crate) finished: Vec<u64>,
    pub(crate) released: Vec<u64>,
    /// Whether the log was told to leave room to a snapshot, each time.
    pub(crate) yielded: Vec<bool>,
    room_wanted: u64,
    snapshot_at: (u64, u64),
    pub(crate) pieces: usize,
    /// How often what was received was discarded.
    pub(crate) discarded: usize,
}

/// The start of a newborn member.
pub(crate) fn start() -> Start {
    let restored = replica::Restored {
        hard_state: replica::HardState { term: 1, vote: 0, commit: 1 },
        membership: replica::Membership { voters: vec![ORIGIN.member.0], ..Default::default() },
        snapshot_index: 1,
        snapshot_term: 1,
        entries: Vec::new(),
        left_out: None,
        applied_index: 1,
    };
    Start {
        origin: ORIGIN,
        seed: 1,
        restored,
        settings: Settings::default(),
        settings_restored: Settings::default(),
        sessions: Vec::new(),
        log_bytes: 0,
        image_bytes_max: 0,
        digest: Machine::default().digest(),
        snapshot_commands: 1_000_000,
        snapshot_log_bytes: None,
        disk_stall_ms: crate::limits::DISK_STALL_MS,
        containers: Default::default(),
        tick_ms: 1_000,
        session_timeout_ms_min: 4_000,
        raft_tick_ms: 100,
        log_memory: Default::default(),
        server: 0,
        servers: Default::default(),
    }
}

/// How to read the body of a reply.
enum Form {
    Path,
    PathAndStat,
    Stat,
    Data,
    Children {
        stat: bool,
    },
    Acl,
    /// Whatever there is, in hexadecimal.
    Bytes,
    /// The error of the header once more.
    Error,
    Identities,
    Number,
    Nothing,
    Multi,
    /// A token, also behind an error.
    Sasl,
    Closing,
}

struct Sent {
    xid: i32,
    text: String,
    form: Form,
}

/// One client and its connection.
pub(crate) struct Client {
    pub(crate) id: ConnectionId,
    pub(crate) front: usize,
    /// Takes what the server writes.
    pub(crate) reads: bool,
    /// The server closed the connection.
    pub(crate) closed: bool,
    pub(crate) session: (i64, Vec<u8>),
    xid: i32,
    /// Not yet given to the Front.
    outgoing: VecDeque<u8>,
    /// Not yet a whole frame.
    incoming: Vec<u8>,
    greeting: bool,
    sent: VecDeque<Sent>,
    last_zxid: i64,
    /// The last SASL token it was sent.
    challenge: Vec<u8>,
    pub(crate) event_count: usize,
    pub(crate) reply_count: usize,
    pub(crate) bytes_taken: usize,
}

pub(crate) struct Rig {
    pub(crate) fronts: Vec<Front>,
    pub(crate) machine: Machine,
    pub(crate) apply: Apply,
    pub(crate) engine: Engine,
    pub(crate) clients: BTreeMap<u32, Client>,
    pub(crate) to_loop: VecDeque<ToLoop>,
    pub(crate) deliveries: Vec<VecDeque<Delivery>>,
    pub(crate) notices: Vec<String>,
    pub(crate) words: Vec<(ConnectionId, Word)>,
    /// What the audit log was told, and of which requests that were slow.
    pub(crate) audits: Vec<AuditEvent>,
    pub(crate) slow: Vec<SlowRequest>,
    /// Bytes that the driver reads from a socket at once.
    pub(crate) read_bytes: usize,
    /// Commands of one apply hold.
    pub(crate) hold: usize,
    pub(crate) now: Now,
    /// What clients saw since it was last taken.
    log: Vec<String>,
    next_connection: u64,
    sessions: Vec<i64>,
    kept: Option<Machine>,
}

pub(crate) fn config(id: u32) -> FrontConfig {
    FrontConfig {
        id: FrontId(id),
        origin: ORIGIN,
        frame_bytes_max: zk::limits::FRAME_BYTES_MAX_DEFAULT,
        commands_max: crate::limits::FRONT_COMMANDS_MAX,
        throttled_op_wait_ms: 0,
        session_timeout_ms_min: 4_000,
        session_timeout_ms_max: 40_000,
        words_allowed: vec!["ruok".to_string(), "dump".to_string()],
        secret: [9; 32],
        settings: Arc::new(Settings::default()),
        auth: Arc::default(),
        throttle: Arc::default(),
        replies: Arc::default(),
        reply_bytes_max: None,
        sessionless_ms_max: crate::limits::SESSIONLESS_MS_DEFAULT,
        audit: false,
        slow_request_ms: None,
        read_only_after_ms: None,
    }
}

impl Default for Rig {
    /// Two Fronts and the trivial loop.
    fn default() -> Rig {
        Rig::new(2, Engine::Stamping { sequence: 0, index: 1, full: false })
    }
}

impl Real {
    pub(crate) fn new(start: Start) -> Real {
        Real {
            member: Loop::new(start).unwrap(),
            disk: VecDeque::new(),
            snapshot: VecDeque::new(),
            from_apply: VecDeque::new(),
            ready: 0,
            jobs: Vec::new(),
            finished: Vec::new(),
            released: Vec::new(),
            yielded: Vec::new(),
            room_wanted: 0,
            snapshot_at: (0, 0),
            discarded: 0,
            pieces: 0,
        }
    }

    /// Calls [`Loop::finish`] and keeps what is for the disks; gives what is for Apply.
    pub(crate) fn finish(&mut self, wall_ms: i64) -> Vec<ToApply> {
        let output = self.member.finish(wall_ms);
        self.jobs.extend(output.disk.iter().cloned());
        self.disk.extend(output.disk);
        for job in &output.snapshot {
            if let SnapshotJob::KeepRoom(wanted) = job {
                self.room_wanted = wanted.bytes_max;
            }
        }
        self.snapshot.extend(output.snapshot);
        self.ready += usize::from(output.ready);
        self.released.extend(output.release.map(|point| point.index));
        self.yielded.extend(output.yield_room);
        output.apply
    }

    /// The pretend disk does its first `count` jobs.
    pub(crate) fn persist(&mut self, count: usize) -> bool {
        let last = self.disk.drain(..count.min(self.disk.len())).next_back();
        if let Some(job) = &last {
            self.member.handle(LoopInput::Persisted(job.id)).unwrap();
        }
        last.is_some()
    }

    /// So many bytes are set aside, as an answer to the last question.
    pub(crate) fn keep_room(&mut self, bytes: u64) {
        self.member
            .handle(LoopInput::SnapshotRoom(RoomKept { bytes, bytes_wanted: self.room_wanted }))
            .unwrap();
    }

    /// The pretend snapshot thread does one job.
    pub(crate) fn write_snapshot(&mut self) -> bool {
        let Some(job) = self.snapshot.pop_front() else { return false };
        match job {
            SnapshotJob::Begin { index, term, .. } => {
                self.snapshot_at = (index, term);
                self.member.handle(LoopInput::Snapshot(FromSnapshot::PieceWritten)).unwrap();
            }
            SnapshotJob::Piece(_) => {
                self.pieces += 1;
                self.member.handle(LoopInput::Snapshot(FromSnapshot::PieceWritten)).unwrap();
            }
            SnapshotJob::Finish => {
                let (index, term) = self.snapshot_at;
                self.finished.push(index);
                self.member
                    .handle(LoopInput::Snapshot(FromSnapshot::Finished { index, term }))
                    .unwrap();
            }
            SnapshotJob::Abort => {}
            SnapshotJob::DiscardReceived => self.discarded += 1,
            SnapshotJob::KeepRoom(wanted) => self.keep_room(wanted.bytes_max),
            job => panic!("an ensemble of one has nobody for {job:?}"),
        }
        true
    }
}

impl Rig {
    pub(crate) fn new(front_count: u32, engine: Engine) -> Rig {
        let apply = Apply::new(ORIGIN, machine::LogIndex(1), 1);
        let front = |id| Front::new(FrontConfig { replies: apply.replies(), ..config(id) });
        Rig {
            fronts: (0..front_count).map(front).collect(),
            machine: Machine::default(),
            apply,
            engine,
            clients: BTreeMap::new(),
            to_loop: VecDeque::new(),
            deliveries: (0..front_count).map(|_| VecDeque::new()).collect(),
            notices: Vec::new(),
            words: Vec::new(),
            audits: Vec::new(),
            slow: Vec::new(),
            read_bytes: 16 * 1024,
            hold: usize::MAX,
            now: Now { monotonic_ms: 0, wall_ms: 1_000_000, contact_at_ms: None },
            log: Vec::new(),
            next_connection: 1,
            sessions: Vec::new(),
            kept: None,
        }
    }

    /// A rig with the real Loop, whose first term is begun and which is ready.
    pub(crate) fn with_loop(start: Start) -> Rig {
        let mut rig = Rig::new(2, Engine::Real(Box::new(Real::new(start))));
        rig.run();
        assert_eq!(rig.real().ready, 1);
        rig
    }

    pub(crate) fn real(&mut self) -> &mut Real {
        match &mut self.engine {
            Engine::Real(real) => real,
            Engine::Stamping { .. } => panic!("this rig has the trivial loop"),
        }
    }

    /// Plays a script and gives what clients saw, a line each.
    pub(crate) fn play(&mut self, script: &str) -> String {
        let mut seen = Vec::new();
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            self.line(line);
            seen.extend(self.take_log());
        }
        seen.join("\n")
    }

    /// What clients saw since the last call, by client.
    pub(crate) fn take_log(&mut self) -> Vec<String> {
        let mut log = core::mem::take(&mut self.log);
        log.sort_by_key(|line| line.split(':').next().map(str::to_string));
        log
    }

    pub(crate) fn line(&mut self, line: &str) {
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        let number = |name: &str| name.trim_start_matches('c').parse::<u32>().unwrap();
        match first {
            "loop" => drop(self.step_loop()),
            "disk" => drop(self.step_disk(rest.parse().unwrap_or(usize::MAX))),
            "apply" => drop(self.step_apply(rest.parse().unwrap_or(self.hold))),
            "deliver" => drop(self.step_deliver()),
            "resume" => self.fronts.iter_mut().for_each(Front::resume),
            "reads" => drop(self.step_reads()),
            "write" => drop(self.step_write()),
            "run" => self.run(),
            "time" => self.advance(rest.parse().unwrap()),
            "stall" => self.client(number(rest)).reads = false,
            "unstall" => self.unstall(number(rest)),
            "close" => self.close(number(rest)),
            "full" => self.set_full(true),
            "room" => self.set_full(false),
            "hold" => self.hold = rest.parse().unwrap(),
            "expire" => self.expire(number(rest)),
            "configure" => self.configure(rest),
            "keep" => self.kept = Some(copy(&mut self.machine)),
            "install" => self.install(),
            "serve" => self.serve(rest),
            "contact" => {
                let is_alone = rest == "alone";
                // Contact at 0 is none.
                self.now.monotonic_ms = self.now.monotonic_ms.max(1);
                self.now.contact_at_ms = (!is_alone).then_some(self.now.monotonic_ms);
                for front in &mut self.fronts {
                    front.set_now(self.now);
                    front.on_tick();
                }
                self.run();
            }
            _ => self.client_line(first, rest),
        }
    }

    fn client_line(&mut self, first: &str, requests: &str) {
        let runs = first.ends_with(':');
        let name = first.trim_end_matches([':', '~']);
        let (name, front) = name.split_once('@').unwrap_or((name, "0"));
        let number = name.trim_start_matches('c').parse().unwrap();
        if !self.clients.contains_key(&number) {
            self.accept(number, front.parse().unwrap());
        }
        let bytes = self.encode(number, requests);
        self.send(number, &bytes);
        if runs {
            self.run();
        } else {
            self.flush();
        }
    }

    pub(crate) fn client(&mut self, number: u32) -> &mut Client {
        self.clients.get_mut(&number).unwrap()
    }

    /// A new connection, of a client that may have had one before.
    pub(crate) fn accept(&mut self, number: u32, front: usize) {
        let id = ConnectionId(self.next_connection);
        self.next_connection += 1;
        let session = self.clients.get(&number).map_or((0, vec![0; 16]), |old| old.session.clone());
        self.fronts[front].on_accept(id, "10.0.0.1", format!("10.0.0.1:{}", 5000 + number));
        let client = Client {
            id,
            front,
            reads: true,
            closed: false,
            session,
            xid: 0,
            outgoing: VecDeque::new(),
            incoming: Vec::new(),
            greeting: true,
            sent: VecDeque::new(),
            last_zxid: 0,
            challenge: Vec::new(),
            event_count: 0,
            reply_count: 0,
            bytes_taken: 0,
        };
        self.clients.insert(number, client);
    }

    /// The client's end of the connection goes.
    pub(crate) fn close(&mut self, number: u32) {
        let client = self.client(number);
        let (id, front) = (client.id, client.front);
        client.closed = true;
        self.fronts[front].on_closed(id);
    }

    pub(crate) fn unstall(&mut self, number: u32) {
        self.client(number).reads = true;
        self.write(number);
    }

    fn set_full(&mut self, is_full: bool) {
        match &mut self.engine {
            Engine::Stamping { full, .. } => *full = is_full,
            Engine::Real(real) => real.member.handle(LoopInput::DiskRoom { is_full }).unwrap(),
        }
    }

    /// A command of the loop itself, in an entry of its own.
    pub(crate) fn submit_own(&mut self, command: &Command<'_>) {
        let Engine::Stamping { sequence, index, .. } = &mut self.engine else {
            panic!("the real Loop has its own commands")
        };
        *sequence += 1;
        *index += 1;
        let batch = own_batch(0, command).stamp(ORIGIN, *sequence);
        let (sequence, front, waiters) = (*sequence, None, Vec::new());
        let entry = entry_of(*index, &[batch]);
        self.apply.receive(ToApply::Expect { sequence, front, waiters });
        self.apply.receive(ToApply::Entries(vec![entry]));
        self.run();
    }

    pub(crate) fn attached(&self, number: u32) -> (SessionId, Ordinal) {
        let session = SessionId(self.clients[&number].session.0);
        let attached = self.machine.zk().sessions().get(session).map(|found| found.attached);
        (session, attached.unwrap_or_default())
    }

    fn expire(&mut self, number: u32) {
        let sessions = vec![self.attached(number)];
        self.submit_own(&Command::Zk(ZkCommand::ExpireSessions { sessions }));
    }

    fn install(&mut self) {
        let machine = Box::new(self.kept.take().expect("a state was kept"));
        self.apply.receive(ToApply::Prepare(PreparedImage { hash: 1, machine }));
        self.submit_own(&Command::Control(ControlCommand::InstallImage { hash: 1 }));
    }

    fn configure(&mut self, words: &str) {
        let mut settings = Settings::default();
        for (name, value) in words.split(' ').map(|word| word.split_once('=').unwrap()) {
            match name {
                "super" => {
                    settings.super_digest = Some(digest_id(DigestAlgorithm::Sha1, value));
                }
                "algorithm" => settings.digest_algorithm = value.to_string(),
                "digest" => settings.digest_enabled = value == "on",
                "reconfig" => settings.reconfig_enabled = value == "on",
                "skip_acl" => settings.skip_acl = value == "on",
                "sasl" => settings.sasl_enabled = value == "on",
                "x509" => settings.x509_enabled = value == "on",
                _ => panic!("setting {name}"),
            }
        }
        self.submit_own(&Command::Zk(ZkCommand::Configure(settings)));
    }

    /// Lists in a value are separated by `,`, a user from the password by `:`.
    fn serve(&mut self, words: &str) {
        let mut auth = AuthConfig::default();
        let mut read_only_after_ms = None;
        let owned = |value: &str| value.split(',').map(str::to_string).collect();
        for (name, value) in words.split(' ').map(|word| word.split_once('=').unwrap()) {
            match name {
                "users" => {
                    let users = value.split(',').map(|user| user.split_once(':').unwrap());
                    let users = users.map(|(user, password)| (user.into(), password.into()));
                    auth.sasl_users = Some(users.collect());
                }
                "super" => auth.sasl_super_users = owned(value),
                "failed" => auth.sasl_failed_allowed = value == "allowed",
                "enforce" => auth.enforced_schemes = owned(value),
                "read_only_after" => read_only_after_ms = Some(value.parse().unwrap()),
                "ensemble" if value == "any" => auth.ensemble = Some(EnsembleNames::Any),
                "ensemble" => auth.ensemble = Some(EnsembleNames::These(owned(value))),
                _ => panic!("option {name}"),
            }
        }
        assert!(self.clients.is_empty());
        let (auth, count) = (Arc::new(auth), self.fronts.len() as u32);
        let front =
            |id| Front::new(FrontConfig { auth: auth.clone(), read_only_after_ms, ..config(id) });
        self.fronts = (0..count).map(front).collect();
    }

    /// Time goes by, in the driver's steps of 100 ms.
    pub(crate) fn advance(&mut self, ms: u64) {
        for _ in 0..ms.div_ceil(100) {
            let step_ms = 100.min(ms);
            self.now.monotonic_ms += step_ms;
            self.now.wall_ms += step_ms as i64;
            for front in &mut self.fronts {
                front.set_now(self.now);
                front.on_tick();
            }
            if let Engine::Real(real) = &mut self.engine {
                real.member.pass(step_ms);
            }
            self.run();
        }
    }

    // The steps of the drivers.

    /// Sends raw bytes to the Front, as far as it takes them.
    pub(crate) fn send(&mut self, number: u32, bytes: &[u8]) {
        self.client(number).outgoing.extend(bytes);
        self.pump(number);
    }

    /// The driver reads from the socket what the Front wants.
    pub(crate) fn pump(&mut self, number: u32) -> bool {
        let read_bytes = self.read_bytes;
        let client = self.clients.get_mut(&number).unwrap();
        let front = &mut self.fronts[client.front];
        let mut progress = false;
        while !client.outgoing.is_empty() && !client.closed {
            let Some(input) = front.input(client.id) else { break };
            let count = read_bytes.min(client.outgoing.len());
            let bytes: Vec<u8> = client.outgoing.drain(..count).collect();
            input.extend_from_slice(&bytes);
            front.on_input(client.id);
            progress = true;
        }
        progress
    }

    /// Bytes that the Front has not read from the client's socket.
    pub(crate) fn unread(&self, number: u32) -> usize {
        self.clients[&number].outgoing.len()
    }

    /// Takes the Fronts' output and writes to the sockets.
    pub(crate) fn flush(&mut self) -> bool {
        let mut progress = false;
        for at in 0..self.fronts.len() {
            let output = self.fronts[at].take_output();
            progress |= !output.to_loop.is_empty();
            self.to_loop.extend(output.to_loop);
            self.words.extend(output.words);
            self.audits.extend(output.audits);
            self.slow.extend(output.slow);
            self.notices.extend(output.notices.into_iter().map(|notice| notice.what));
            for id in output.dirty {
                let found = self.clients.iter().find(|(_, client)| client.id == id);
                let Some(number) = found.map(|(&number, _)| number) else { continue };
                self.write(number);
                progress = true;
            }
        }
        progress
    }

    /// Writes to every socket that takes it.
    fn step_write(&mut self) -> bool {
        let numbers: Vec<u32> = self.clients.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.write(number));
        self.flush()
    }

    fn write(&mut self, number: u32) {
        let client = self.clients.get_mut(&number).unwrap();
        if client.closed {
            return;
        }
        let front = &mut self.fronts[client.front];
        let Some((bytes, closing)) = front.pending_output(client.id) else { return };
        let mut is_over = closing && bytes.is_empty();
        if client.reads && !bytes.is_empty() {
            let count = bytes.len();
            client.incoming.extend_from_slice(bytes);
            client.bytes_taken += count;
            front.on_written(client.id, count);
            is_over = closing;
        }
        self.read_frames(number);
        if is_over {
            let client = self.clients.get_mut(&number).unwrap();
            client.closed = true;
            self.fronts[client.front].on_closed(client.id);
            self.log.push(format!("c{number}: closed"));
        }
    }

    pub(crate) fn step_loop(&mut self) -> bool {
        let messages: Vec<ToLoop> = self.to_loop.drain(..).collect();
        let mut progress = !messages.is_empty();
        let to_apply = match &mut self.engine {
            Engine::Stamping { sequence, index, full } => stamp(messages, sequence, index, *full),
            Engine::Real(real) => {
                progress |= !real.from_apply.is_empty();
                messages
                    .into_iter()
                    .for_each(|message| real.member.handle(LoopInput::Front(message)).unwrap());
                let from_apply = core::mem::take(&mut real.from_apply);
                from_apply
                    .into_iter()
                    .for_each(|message| real.member.handle(LoopInput::Apply(message)).unwrap());
                real.finish(self.now.wall_ms)
            }
        };
        progress |= !to_apply.is_empty();
        to_apply.into_iter().for_each(|message| self.apply.receive(message));
        progress
    }

    pub(crate) fn step_disk(&mut self, count: usize) -> bool {
        match &mut self.engine {
            Engine::Stamping { .. } => false,
            Engine::Real(real) => real.persist(count) | real.write_snapshot(),
        }
    }

    pub(crate) fn step_apply(&mut self, commands: usize) -> bool {
        if !self.apply.has_work() {
            return false;
        }
        self.apply.step(&mut self.machine, commands);
        let mut output = self.apply.take_output();
        for (front, delivery) in output.deliveries(self.fronts.len() as u32) {
            self.deliveries[front.0 as usize].push_back(delivery);
        }
        if let Engine::Real(real) = &mut self.engine {
            real.from_apply.extend(output.to_loop);
        }
        true
    }

    pub(crate) fn step_deliver(&mut self) -> bool {
        let mut progress = false;
        for (front, deliveries) in self.fronts.iter_mut().zip(&mut self.deliveries) {
            for delivery in deliveries.drain(..) {
                front.on_delivery(delivery);
                progress = true;
            }
        }
        self.flush() | progress
    }

    /// One hold of each Front that has something to run, as the driver does it.
    pub(crate) fn step_reads(&mut self) -> bool {
        let mut progress = false;
        for (front, deliveries) in self.fronts.iter_mut().zip(&mut self.deliveries) {
            if front.is_runnable() {
                deliveries.drain(..).for_each(|delivery| front.on_delivery(delivery));
                front.run_reads(&self.machine);
                front.resume();
                progress = true;
            }
        }
        self.flush() | progress
    }

    /// Runs every step until nothing happens any more.
    pub(crate) fn run(&mut self) {
        for _ in 0..100_000 {
            self.fronts.iter_mut().for_each(Front::resume);
            let mut progress = self.flush();
            progress |= self.step_loop();
            progress |= self.step_disk(usize::MAX);
            progress |= self.step_apply(self.hold);
            progress |= self.step_deliver();
            progress |= self.step_reads();
            let numbers: Vec<u32> = self.clients.keys().copied().collect();
            for number in numbers {
                progress |= self.pump(number);
            }
            progress |= self.fronts.iter().any(|front| !front.turns.resumable.is_empty());
            if !progress {
                self.check();
                return;
            }
        }
        panic!("it never comes to rest");
    }

    /// What always holds: credits are what the windows say.
    pub(crate) fn check(&self) {
        for front in &self.fronts {
            let of_all = |of: fn(&Connection) -> usize| front.connections.values().map(of).sum();
            let held = front.held_bytes();
            assert_eq!(held.output, of_all(|connection| connection.output.len()));
            assert_eq!(held.travelling_reads, of_all(|connection| connection.travelling_reads));
            let (mut commands, mut bytes_all) = (0, 0);
            for connection in front.connections.values() {
                let (mut window_bytes, mut local_reads, mut travelling_reads) = (0, 0, 0);
                let mut open_syncs = 0;
                commands += usize::from(matches!(connection.state, State::Connecting { .. }));
                for slot in &connection.window {
                    match &slot.kind {
                        SlotKind::Write { bytes, .. } | SlotKind::Close { bytes } => {
                            window_bytes += bytes;
                            commands += 1;
                        }
                        SlotKind::Sync { done, .. } => {
                            commands += 1;
                            open_syncs += usize::from(!done);
                        }
                        SlotKind::TravellingRead(_) => travelling_reads += 1,
                        SlotKind::Read(_)
                        | SlotKind::MultiRead(_)
                        | SlotKind::SetWatches(_)
                        | SlotKind::AddWatch { .. }
                        | SlotKind::CheckWatches { .. }
                        | SlotKind::RemoveWatches { .. } => {
                            local_reads += 1;
                        }
                        _ => {}
                    }
                }
                bytes_all += window_bytes;
                assert_eq!(connection.window_bytes, window_bytes);
                assert_eq!(connection.local_reads, local_reads);
                assert_eq!(connection.travelling_reads, travelling_reads);
                assert_eq!(connection.open_syncs, open_syncs);
                assert!(connection.window.len() <= WINDOW_REQUESTS_MAX);
            }
            assert_eq!((front.commands.count, front.commands.bytes), (commands, bytes_all));
        }
    }

    // Bytes and text.

    /// The bytes of requests separated by ` | `.
    pub(crate) fn encode(&mut self, number: u32, requests: &str) -> Vec<u8> {
        let mut out = Vec::new();
        for request in requests.split(" | ").filter(|request| !request.is_empty()) {
            self.encode_one(number, request, &mut out);
        }
        out
    }

    fn encode_one(&mut self, number: u32, text: &str, out: &mut Vec<u8>) {
        let words: Vec<&str> = text.split(' ').collect();
        match words[0] {
            "connect" => return self.encode_connect(number, &words[1..], out),
            "raw" => return out.extend(unhex(words[1])),
            "word" => return out.extend_from_slice(words[1].as_bytes()),
            _ => {}
        }
        let client = self.clients.get_mut(&number).unwrap();
        client.xid += 1;
        let mut xid = client.xid;
        let data = words.get(2).map(|word| value(word));
        let acl;
        let form = match words[0] {
            // An opcode, with as many bytes of body as asked for.
            "op" => {
                let body = words.get(2).map_or(Vec::new(), |hex| unhex(hex));
                out.extend_from_slice(&(8 + body.len() as i32).to_be_bytes());
                out.extend_from_slice(&xid.to_be_bytes());
                out.extend_from_slice(&words[1].parse::<i32>().unwrap().to_be_bytes());
                out.extend_from_slice(&body);
                Form::Bytes
            }
            "auth" => {
                xid = zk::request::XID_AUTH;
                let credentials = words.get(2).copied().unwrap_or_default().as_bytes();
                Request::Auth { scheme: words[1], credentials: Some(credentials) }.encode(xid, out);
                Form::Nothing
            }
            // The empty token, the response of `user:password`, or any bytes: `=text`.
            "sasl" => {
                let token = match words.get(1).map(|word| (word, word.split_once(':'))) {
                    None => Vec::new(),
                    Some((word, _)) if word.starts_with('=') => value(&word[1..]),
                    Some((_, Some((user, password)))) => {
                        zk::sasl::respond(&client.challenge, user, password, "cnonce").unwrap()
                    }
                    Some((word, None)) => panic!("token {word}"),
                };
                Request::Sasl { token: &token }.encode(xid, out);
                Form::Sasl
            }
            "ping" => {
                xid = XID_PING;
                Request::Ping.encode(xid, out);
                Form::Nothing
            }
            "setwatches" | "setwatches2" => {
                xid = zk::request::XID_SET_WATCHES;
                let paths = |kind: &str| {
                    words[2..].iter().filter_map(|word| word.strip_prefix(kind)).collect()
                };
                let watches = SetWatchesRequest {
                    relative_zxid: words[1].parse().unwrap(),
                    data: paths("d:"),
                    exist: paths("e:"),
                    child: paths("c:"),
                    null_behind: false,
                };
                let request = match words[0] {
                    "setwatches" => Request::SetWatches(watches),
                    _ => Request::SetWatches2(SetWatches2Request {
                        watches,
                        persistent: paths("p:"),
                        persistent_recursive: paths("r:"),
                    }),
                };
                request.encode(xid, out);
                Form::Nothing
            }
            "addwatch" => {
                let mode = match words.get(2) {
                    Some(&"r") => AddWatchMode::PersistentRecursive,
                    _ => AddWatchMode::Persistent,
                };
                Request::AddWatch { path: words[1], mode }.encode(xid, out);
                Form::Error
            }
            "checkwatch" => {
                let (path, watcher_type) = (words[1], watcher_type(words[2]));
                Request::CheckWatches { path, watcher_type }.encode(xid, out);
                Form::Nothing
            }
            "unwatch" => {
                let (path, watcher_type) = (words[1], watcher_type(words[2]));
                Request::RemoveWatches { path, watcher_type }.encode(xid, out);
                Form::Nothing
            }
            "sync" => {
                Request::Sync { path: Some(words[1]) }.encode(xid, out);
                Form::Path
            }
            "reconfig" => {
                let (joining, leaving, members) = (None, words.get(1).copied(), None);
                Request::Reconfig { joining, leaving, members, version: -1 }.encode(xid, out);
                Form::Nothing
            }
            "count" => {
                Request::GetAllChildrenNumber { path: words[1] }.encode(xid, out);
                Form::Number
            }
            "ephemerals" => {
                Request::GetEphemerals { prefix: words.get(1).copied() }.encode(xid, out);
                Form::Children { stat: false }
            }
            "whoami" => {
                Request::WhoAmI.encode(xid, out);
                Form::Identities
            }
            "bye" => {
                Request::CloseSession.encode(xid, out);
                Form::Closing
            }
            "setacl" => {
                acl = acl_of(words[2]);
                let write = WriteRequest::SetAcl { path: words[1], acl, version: -1 };
                Request::Write(write).encode(xid, out);
                Form::Stat
            }
            "multi" => {
                let values: Vec<Option<Vec<u8>>> =
                    words[1..].iter().map(|word| word.split(',').nth(2).map(value)).collect();
                let writes = words[1..].iter().zip(&values).map(|(word, value)| {
                    let parts: Vec<&str> = word.split(',').collect();
                    write(&parts, value.as_deref())
                });
                Request::Multi(writes.collect()).encode(xid, out);
                Form::Multi
            }
            "multiread" => {
                let reads = words[1..].iter().map(|word| {
                    let parts: Vec<&str> = word.split(',').collect();
                    read(&parts)
                });
                Request::MultiRead(reads.collect()).encode(xid, out);
                Form::Multi
            }
            "get" | "exists" | "ls" | "ls2" | "getacl" => {
                let read = read(&words);
                Request::Read(read.clone()).encode(xid, out);
                match read.kind {
                    ReadKind::Exists => Form::Stat,
                    ReadKind::GetData => Form::Data,
                    ReadKind::GetChildren => Form::Children { stat: false },
                    ReadKind::GetChildren2 => Form::Children { stat: true },
                    ReadKind::GetAcl => Form::Acl,
                }
            }
            _ => {
                let write = write(&words, data.as_deref());
                let form = match &write {
                    WriteRequest::Create { kind: CreateKind::Create, .. } => Form::Path,
                    WriteRequest::Create { .. } => Form::PathAndStat,
                    WriteRequest::SetData { .. } => Form::Stat,
                    _ => Form::Nothing,
                };
                Request::Write(write).encode(xid, out);
                form
            }
        };
        client.sent.push_back(Sent { xid, text: text.to_string(), form });
    }

    fn encode_connect(&mut self, number: u32, words: &[&str], out: &mut Vec<u8>) {
        let option = |name: &str| words.iter().find_map(|word| word.strip_prefix(name));
        if option("again").is_some() {
            let front = option("again@").map_or(0, |front| front.parse().unwrap());
            self.accept(number, front);
        }
        let (mut session, mut password) = self.clients[&number].session.clone();
        if let Some(other) = option("as=c") {
            (session, password) = self.clients[&other.parse().unwrap()].session.clone();
        }
        if let Some(given) = option("session=") {
            session = given.parse().unwrap();
        }
        if let Some(hex) = option("password=") {
            password = unhex(hex);
        }
        let connect = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: option("seen=").map_or(0, |zxid| zxid.parse().unwrap()),
            timeout_ms: option("timeout=").map_or(10_000, |ms| ms.parse().unwrap()),
            session,
            password,
            read_only: option("44").map_or(Some(words.contains(&"ro")), |_| None),
        };
        connect.encode(out);
    }

    fn read_frames(&mut self, number: u32) {
        loop {
            let client = self.clients.get_mut(&number).unwrap();
            let word = client.greeting && client.incoming.first().is_some_and(|byte| *byte != 0);
            if word {
                let text = core::mem::take(&mut client.incoming);
                let text = String::from_utf8(text).unwrap();
                self.log.push(format!("c{number}: says {}", text.trim_end()));
                return;
            }
            let Some(first) = client.incoming.first_chunk::<4>() else { return };
            let end = 4 + u32::from_be_bytes(*first) as usize;
            if client.incoming.len() < end {
                return;
            }
            let rest = client.incoming.split_off(end);
            let frame = core::mem::replace(&mut client.incoming, rest);
            let text = if core::mem::take(&mut client.greeting) {
                self.connected_text(number, &frame[4..])
            } else {
                client.reply_text(&frame[4..])
            };
            self.log.push(format!("c{number}: {text}"));
        }
    }

    fn connected_text(&mut self, number: u32, frame: &[u8]) -> String {
        let response = ConnectResponse::decode(frame).unwrap();
        let byte = match response.read_only {
            Some(true) => ", for reads",
            Some(false) => "",
            None => ", without the byte",
        };
        if response.session == 0 {
            assert_eq!((response.timeout_ms, response.password), (0, [0; 16]));
            return format!("refused{byte}");
        }
        self.client(number).session = (response.session, response.password.to_vec());
        let at = self.sessions.iter().position(|session| *session == response.session);
        let at = at.unwrap_or_else(|| {
            self.sessions.push(response.session);
            self.sessions.len() - 1
        });
        let name = (b'A' + at as u8) as char;
        format!("connected as {name} for {}{byte}", response.timeout_ms)
    }

    /// The states of all connections are gone, and so are all credits.
    pub(crate) fn assert_idle(&self) {
        for front in &self.fronts {
            assert_eq!((front.commands.count, front.commands.bytes), (0, 0));
            assert_eq!(front.watches.len(), 0);
            assert_eq!(front.connection_count(), 0);
            assert!(front.sessions.is_empty());
        }
    }
}

impl Client {
    fn reply_text(&mut self, frame: &[u8]) -> String {
        let mut reader = JuteReader::new(frame);
        let header = ReplyHeader::decode(&mut reader).unwrap();
        if header.xid == zk::request::XID_EVENT {
            self.event_count += 1;
            let kind = match reader.int().unwrap() {
                1 => "created",
                2 => "deleted",
                3 => "changed",
                4 => "children",
                other => panic!("event type {other}"),
            };
            assert_eq!(reader.int(), Ok(3));
            let path = shorten(reader.text().unwrap());
            if header.zxid > 0 {
                assert!(header.zxid >= self.last_zxid, "the zxid of an event fell");
            }
            return format!("event {kind} {path} @{}", header.zxid);
        }
        self.reply_count += 1;
        let sent = self.sent.pop_front().expect("a reply has a request");
        assert_eq!(header.xid, sent.xid, "replies come in the order of the requests");
        // Auth packets are answered with 0, unknown operations with -1.
        if header.zxid > 0 {
            assert!(header.zxid >= self.last_zxid, "the zxid of a reply fell");
            self.last_zxid = header.zxid;
        }
        let multi_refused = matches!(sent.form, Form::Multi);
        if matches!(sent.form, Form::Sasl) && reader.remaining() > 0 {
            let token = reader.buffer().unwrap().map(<[u8]>::to_vec);
            let text = match &token {
                None if header.error == ErrorCode::OK => "no token",
                None => header.error.name(),
                Some(token) if token.starts_with(b"rspauth=") => "proved",
                Some(_) => "challenge",
            };
            self.challenge = token.unwrap_or_default();
            return format!("{} -> {text} @{}", shorten(&sent.text), header.zxid);
        }
        let body = match header.error {
            ErrorCode::OK => body_text(&sent.form, &mut reader),
            error if multi_refused && reader.remaining() > 0 => {
                format!("{}: {}", error.name(), body_text(&sent.form, &mut reader))
            }
            error => error.name().to_string(),
        };
        assert_eq!(reader.remaining(), 0);
        let space = if body.is_empty() { "" } else { " " };
        format!("{} ->{space}{body} @{}", shorten(&sent.text), header.zxid)
    }
}

fn watcher_type(word: &str) -> WatcherType {
    match word {
        "c" => WatcherType::Children,
        "d" => WatcherType::Data,
        "any" => WatcherType::Any,
        "p" => WatcherType::Persistent,
        "r" => WatcherType::PersistentRecursive,
        _ => panic!("watcher type {word}"),
    }
}

/// Long texts by their ends and length.
fn shorten(text: &str) -> String {
    match text.len() {
        0..=200 => text.to_string(),
        length => format!("{}...{length}", &text[..20]),
    }
}

fn body_text(form: &Form, reader: &mut JuteReader<'_>) -> String {
    let stat = |reader: &mut JuteReader<'_>| {
        let stat = decode_stat(reader).unwrap();
        format!("v{}", stat.version)
    };
    match form {
        Form::Path => shorten(reader.text().unwrap()),
        Form::PathAndStat => {
            let path = reader.text().unwrap().to_string();
            format!("{path} {}", stat(reader))
        }
        Form::Stat => stat(reader),
        Form::Data => {
            let data = String::from_utf8(reader.buffer().unwrap().unwrap_or(b"null").to_vec());
            format!("{} {}", shorten(&data.unwrap()), stat(reader))
        }
        Form::Children { stat: with_stat } => {
            let mut names: Vec<&str> = reader.texts().unwrap();
            names.sort_unstable();
            let text = format!("[{}]", names.join(" "));
            if *with_stat { format!("{text} {}", stat(reader)) } else { text }
        }
        Form::Acl => {
            let mut entries = Vec::new();
            for _ in 0..reader.count(12).unwrap() {
                let perms = reader.int().unwrap();
                let (scheme, id) = (reader.text().unwrap(), reader.text().unwrap());
                entries.push(format!("{scheme}:{id}:{perms}"));
            }
            format!("{} {}", entries.join(","), stat(reader))
        }
        Form::Error => {
            assert_eq!(reader.int(), Ok(0));
            String::new()
        }
        Form::Identities => {
            let count = reader.count(8).unwrap();
            let mut one = || format!("{}:{}", reader.text().unwrap(), reader.text().unwrap());
            (0..count).map(|_| one()).collect::<Vec<_>>().join(" ")
        }
        Form::Bytes => {
            let bytes = (0..reader.remaining()).map(|_| reader.byte().unwrap());
            bytes.map(|byte| format!("{byte:02x}")).collect()
        }
        Form::Number => reader.int().unwrap().to_string(),
        Form::Nothing | Form::Sasl | Form::Closing => String::new(),
        Form::Multi => multi_text(reader),
    }
}

fn multi_text(reader: &mut JuteReader<'_>) -> String {
    let mut results = Vec::new();
    loop {
        let op = reader.int().unwrap();
        let done = reader.bool().unwrap();
        let error = reader.int().unwrap();
        if done {
            return results.join(", ");
        }
        let form = match op {
            opcode::ERROR => {
                assert_eq!(reader.int(), Ok(error));
                results.push(ErrorCode(error).name().to_string());
                continue;
            }
            opcode::CREATE => Form::Path,
            opcode::CREATE2 => Form::PathAndStat,
            opcode::SET_DATA => Form::Stat,
            opcode::GET_DATA => Form::Data,
            opcode::GET_CHILDREN => Form::Children { stat: false },
            opcode::DELETE | opcode::CHECK => Form::Nothing,
            other => panic!("result of operation {other}"),
        };
        results.push(body_text(&form, reader));
    }
}

/// `big:N` is N bytes; anything else stands for itself.
fn value(word: &str) -> Vec<u8> {
    match word.strip_prefix("big:") {
        Some(count) => vec![b'x'; count.parse().unwrap()],
        None => word.as_bytes().to_vec(),
    }
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().map(|c| c.to_digit(16).unwrap() as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// `open`, `own` (whoever made it), or entries like `digest|user:hash|1` separated by `,`.
fn acl_of(word: &str) -> Vec<AclEntry> {
    let entry = |perms: u32, scheme: &str, id: &str| AclEntry {
        perms,
        scheme: scheme.into(),
        id: id.into(),
    };
    match word {
        "open" => vec![entry(31, "world", "anyone")],
        "own" => vec![entry(31, "auth", "")],
        _ => word
            .split(',')
            .map(|part| {
                let parts: Vec<&str> = part.split('|').collect();
                entry(parts[2].parse().unwrap(), parts[0], parts[1])
            })
            .collect(),
    }
}

fn write<'a>(words: &[&'a str], value: Option<&'a [u8]>) -> WriteRequest<'a> {
    let path = words[1];
    let version = |at: usize| words.get(at).map_or(-1, |word| word.parse().unwrap());
    match words[0] {
        "create" | "create2" | "container" | "ttl" => {
            let (kind, mut flags, ttl_ms) = match words[0] {
                "create" => (CreateKind::Create, 0, -1),
                "create2" => (CreateKind::Create2, 0, -1),
                "container" => (CreateKind::Container, 4, -1),
                _ => (CreateKind::Ttl, 5, 60_000),
            };
            let mut acl = acl_of("open");
            for word in words.get(3..).unwrap_or_default() {
                match word.strip_prefix("acl=") {
                    Some(asked) => acl = acl_of(asked),
                    None => flags = word.trim_start_matches('f').parse().unwrap(),
                }
            }
            WriteRequest::Create { kind, path, data: value, acl, flags, ttl_ms }
        }
        "set" => WriteRequest::SetData { path, data: value, version: version(3) },
        "delete" => WriteRequest::Delete { path, version: version(2) },
        "check" => WriteRequest::Check { path, version: version(2) },
        other => panic!("request {other}"),
    }
}

fn read<'a>(words: &[&'a str]) -> ReadRequest<'a> {
    let kind = match words[0] {
        "exists" => ReadKind::Exists,
        "get" => ReadKind::GetData,
        "ls" => ReadKind::GetChildren,
        "ls2" => ReadKind::GetChildren2,
        "getacl" => ReadKind::GetAcl,
        other => panic!("read {other}"),
    };
    ReadRequest { kind, path: words[1], watch: words.get(2) == Some(&"w") }
}

/// A batch of one command.
pub(crate) fn own_batch(connection: u64, command: &Command<'_>) -> machine::entry::UnstampedBatch {
    let mut builder = machine::entry::BatchBuilder::default();
    let nobody = encode_identities([].into_iter());
    builder.push(ConnectionId(connection), &nobody, command);
    builder.finish()
}

/// An entry of stamped batches.
pub(crate) fn entry_of(index: u64, batches: &[Bytes]) -> replica::Entry {
    let payload = machine::entry::encode(1_000 * index as i64, 0, batches);
    replica::Entry { index, term: 1, kind: replica::EntryKind::Normal, payload }
}

/// The trivial loop: one entry per submission, committed as soon as it is packed.
fn stamp(messages: Vec<ToLoop>, sequence: &mut u64, index: &mut u64, full: bool) -> Vec<ToApply> {
    let mut to_apply = Vec::new();
    for message in messages {
        match message {
            ToLoop::Submit(crate::message::Submission { front, waiters, .. }) if full => {
                let reason = Unavailable::DiskFull;
                to_apply.push(ToApply::Refuse { front, waiters, reason });
            }
            ToLoop::Submit(crate::message::Submission { front, batch, waiters }) => {
                *sequence += 1;
                *index += 1;
                let (sequence, front) = (*sequence, Some(front));
                to_apply.push(ToApply::Expect { sequence, front, waiters });
                let entry = entry_of(*index, &[batch.stamp(ORIGIN, sequence)]);
                to_apply.push(ToApply::Entries(vec![entry]));
            }
            ToLoop::Sync(caller) => {
                let index = machine::LogIndex(*index);
                to_apply.push(ToApply::Sync { index, caller });
            }
            ToLoop::Heard(_) | ToLoop::Withdraw(..) => {}
        }
    }
    to_apply
}

/// A copy of a machine by way of its image.
pub(crate) fn copy(machine: &mut Machine) -> Machine {
    machine.freeze();
    let FreezeStep::Last(piece) = machine.freeze_step(usize::MAX, u32::MAX) else {
        panic!("a state of a test is one piece");
    };
    let mut restore = Restore::default();
    restore.piece(&piece).expect("it was just written");
    restore.finish().expect("it is whole")
}

/// The sessions of a machine, as a start wants them.
pub(crate) fn sessions_of(machine: &Machine) -> Vec<OwnerEvent> {
    let mut sessions: Vec<OwnerEvent> = machine
        .zk()
        .sessions()
        .iter()
        .map(|(session, found)| OwnerEvent::Attached {
            owner: machine::Owner::Session(session),
            attached: found.attached,
            timeout_ms: found.timeout_ms,
        })
        .collect();
    sessions.sort_by_key(|event| match event {
        OwnerEvent::Attached { owner, .. } | OwnerEvent::Ended(owner) => *owner,
        OwnerEvent::AllReplaced => unreachable!("a state that is there replaces none"),
    });
    sessions
}
