//! A rig for the tests of this crate: a member with some Fronts, Apply and a machine. Between the
//! Fronts and Apply it has either a trivial loop, which packs and stamps, or the real Loop with a
//! pretend disk. Its clients speak the protocol; a script has their requests and replies as text.
//!
//! Each line of a script is one of these:
//! - `c1: get /a | set /a v` sends requests in one packet and runs everything until nothing
//!   happens; `c1~ ...` only sends them; `c2@1: connect` puts a new client on Front 1;
//! - `loop`, `disk`, `apply`, `deliver`, `resume`, `reads` and `write` run one step, `run` runs
//!   all;
//! - `time 500`, `stall c1`, `unstall c1`, `close c1`, `full`, `room` and `hold 3` change the
//!   world;
//! - `expire c1` and `configure NAME=VALUE ...` submit commands of the loop itself; so does
//!   `install`, which replaces the state by the one of the last `keep`;
//! - `servers` lists the servers 1 and 2 and raises the level, so that clients may change the list;
//!   `accept`, `refuse` and `finish` are the leader's decisions about the open change;
//! - `contact` notes a contact with a leader now, `contact alone` that none is needed;
//! - `serve NAME=VALUE ...` makes the Fronts anew, before any client connects.

mod client;
mod engine;
mod replies;

use std::collections::{BTreeMap, VecDeque};

use machine::control::list_change::LeaderRefused;
use machine::{
    ControlCommand, Ordinal, PreparedImage, ServerList, ServerRecord, ServerRole, ZkAddresses,
    ZkCommand,
};
use zk::auth::{DigestAlgorithm, digest_id};

pub(crate) use client::Client;
use engine::stamp;
pub(crate) use engine::{
    Engine, ORIGIN, Real, copy, entry_of, options, own_batch, plenty_of_room, start,
};

use super::super::auth::EnsembleNames;
use super::super::*;
use crate::fronts::zk::connection::SlotKind;
use crate::fronts::zk::limits::WINDOW_REQUESTS_MAX;
use crate::fronts::zk::window::WindowCounts;
use crate::message::{Delivery, FrontCounts, LoopInput, ToApply};
use crate::order::Start;
use crate::{Apply, WatchInterest};

/// A seeded random generator (splitmix64): equal seeds give equal tests.
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

pub(crate) struct Rig {
    pub(crate) fronts: Vec<ZkFront>,
    pub(crate) machine: Machine,
    pub(crate) apply: Apply,
    pub(crate) engine: Engine,
    pub(crate) clients: BTreeMap<u32, Client>,
    pub(crate) to_loop: VecDeque<ToLoop>,
    pub(crate) deliveries: Vec<VecDeque<Delivery>>,
    pub(crate) notices: Vec<String>,
    pub(crate) words: Vec<(ConnectionId, Word)>,
    /// The events of the audit log, and the slow requests, that the Fronts have reported.
    pub(crate) audits: Vec<AuditEvent>,
    pub(crate) slow: Vec<SlowRequest>,
    /// How many bytes the driver reads from a socket at once.
    pub(crate) read_bytes: usize,
    /// How many commands Apply runs in one hold.
    pub(crate) hold: usize,
    pub(crate) now: Now,
    /// The lines that clients saw since the log was last taken.
    log: Vec<String>,
    next_connection: u64,
    sessions: Vec<i64>,
    kept: Option<Machine>,
}

pub(crate) fn config(id: u32) -> ZkFrontConfig {
    ZkFrontConfig {
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
        reconfigurable: Reconfigurable::Never,
        auth: Arc::default(),
        throttle: Arc::default(),
        replies: Arc::default(),
        reply_bytes_max: None,
        list_step_names: crate::fronts::zk::limits::LIST_STEP_NAMES,
        sessionless_ms_max: crate::fronts::zk::limits::SESSIONLESS_MS_DEFAULT,
        audit: false,
        slow_request_ms: None,
        read_only_after_ms: None,
    }
}

impl Default for Rig {
    /// A rig with two Fronts and the trivial loop.
    fn default() -> Rig {
        Rig::new(2, Engine::Stamping { sequence: 0, index: 1, full: false })
    }
}

impl Rig {
    pub(crate) fn new(front_count: u32, engine: Engine) -> Rig {
        let apply = Apply::new(ORIGIN, machine::LogIndex(1), 1, machine::Level::NEWEST);
        let front = |id| ZkFront::new(ZkFrontConfig { replies: apply.replies(), ..config(id) });
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

    /// A rig with the real Loop, which leads its first term and is ready.
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

    /// Plays a script, and returns the lines that clients saw.
    pub(crate) fn play(&mut self, script: &str) -> String {
        let mut seen = Vec::new();
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            self.line(line);
            seen.extend(self.take_log());
        }
        seen.join("\n")
    }

    /// Takes the lines that clients saw since the last call, sorted by client.
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
            "resume" => self.fronts.iter_mut().for_each(ZkFront::resume),
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
            "servers" => self.list_servers(),
            "accept" | "refuse" | "finish" => self.decide(first),
            "contact" => {
                let is_alone = rest == "alone";
                // 0 would mean that there is no contact.
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

    fn set_full(&mut self, is_full: bool) {
        match &mut self.engine {
            Engine::Stamping { full, .. } => *full = is_full,
            Engine::Real(real) => real.member.handle(LoopInput::DiskRoom { is_full }).unwrap(),
        }
    }

    /// Commits a command of the loop itself, in an entry of its own.
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

    fn list_servers(&mut self) {
        let record = |number: u64| ServerRecord {
            name: String::new(),
            role: ServerRole::Voter,
            peer_urls: vec![format!("http://s{number}:1")],
            client_urls: Vec::new(),
            zk: Some(ZkAddresses { servers: format!("s{number}:1:2"), clients: None }),
        };
        let servers = [(1, record(1)), (2, record(2))].into();
        let list = ControlCommand::SetServers(ServerList { version: 0, servers });
        self.submit_own(&Command::Control(list));
        let raise = ControlCommand::Raise(machine::Level::MEMBERS.into());
        self.submit_own(&Command::Control(raise));
    }

    fn decide(&mut self, what: &str) {
        let open = self.machine.control().servers().open_change().expect("a change is open").id;
        let reason = LeaderRefused::NoQuorum;
        self.submit_own(&Command::Control(match what {
            "accept" => ControlCommand::Accept(open),
            "refuse" => ControlCommand::Refuse { change: open, reason },
            _ => ControlCommand::Finish(open),
        }));
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
                "standalone" => settings.standalone_enabled = value == "on",
                "skip_acl" => settings.skip_acl = value == "on",
                "sasl" => settings.sasl_enabled = value == "on",
                "x509" => settings.x509_enabled = value == "on",
                _ => panic!("setting {name}"),
            }
        }
        self.submit_own(&Command::Zk(ZkCommand::Configure(settings)));
    }

    /// Makes the Fronts anew with these options. `,` separates the elements of a list, `:` a user
    /// from the password.
    fn serve(&mut self, words: &str) {
        let mut auth = AuthConfig::default();
        let mut read_only_after_ms = None;
        let mut reconfigurable = Reconfigurable::Never;
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
                "reconfig" => {
                    let leaves_one = value == "leaves_one";
                    assert!(leaves_one || value == "from_level");
                    reconfigurable = Reconfigurable::FromLevel { leaves_one };
                }
                "ensemble" if value == "any" => auth.ensemble = Some(EnsembleNames::Any),
                "ensemble" => auth.ensemble = Some(EnsembleNames::These(owned(value))),
                _ => panic!("option {name}"),
            }
        }
        assert!(self.clients.is_empty());
        let (auth, count) = (Arc::new(auth), self.fronts.len() as u32);
        let front = |id| {
            let auth = auth.clone();
            ZkFront::new(ZkFrontConfig { auth, read_only_after_ms, reconfigurable, ..config(id) })
        };
        self.fronts = (0..count).map(front).collect();
    }

    /// Lets time pass, in steps of 100 ms like the driver.
    pub(crate) fn advance(&mut self, ms: u64) {
        let mut left_ms = ms;
        while left_ms > 0 {
            let step_ms = left_ms.min(100);
            left_ms -= step_ms;
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

    /// Writes to every socket that takes bytes.
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
        for (front, delivery) in output.deliveries(
            FrontCounts { zk: self.fronts.len() as u32, etcd: 0 },
            &WatchInterest::default(),
        ) {
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

    /// Runs one hold of each Front that is runnable, as the driver does.
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
            self.fronts.iter_mut().for_each(ZkFront::resume);
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
            progress |= self.fronts.iter().any(ZkFront::may_go_on);
            if !progress {
                self.check();
                return;
            }
        }
        panic!("it never comes to rest");
    }

    /// Checks the invariants: credits equal the contents of the windows.
    pub(crate) fn check(&self) {
        for front in &self.fronts {
            let of_all = |of: fn(&Connection) -> usize| front.connections.values().map(of).sum();
            let held = front.held_bytes();
            assert_eq!(held.output, of_all(|connection| connection.output.held_bytes()));
            assert_eq!(held.travelling_reads, of_all(|it| it.window.counts().travelling_reads));
            let (mut commands, mut bytes_all) = (0, 0);
            for connection in front.connections.values() {
                let mut counts = WindowCounts::default();
                commands += usize::from(matches!(connection.state, State::Connecting { .. }));
                for slot in connection.window.iter() {
                    match &slot.kind {
                        SlotKind::Write { bytes, .. } | SlotKind::Close { bytes } => {
                            counts.bytes += bytes;
                            commands += 1;
                        }
                        SlotKind::Sync { done, .. } => {
                            commands += 1;
                            counts.open_syncs += usize::from(!done);
                        }
                        SlotKind::TravellingRead(_) => counts.travelling_reads += 1,
                        SlotKind::Read(_)
                        | SlotKind::List(_)
                        | SlotKind::MultiRead(_)
                        | SlotKind::SetWatches { .. }
                        | SlotKind::AddWatch { .. }
                        | SlotKind::CheckWatches { .. }
                        | SlotKind::RemoveWatches { .. } => {
                            counts.local_reads += 1;
                        }
                        _ => {}
                    }
                }
                bytes_all += counts.bytes;
                assert_eq!(connection.window.counts(), counts);
                assert!(connection.window.len() <= WINDOW_REQUESTS_MAX);
            }
            assert_eq!((front.commands.count, front.commands.bytes), (commands, bytes_all));
        }
    }

    /// Checks that no connection is left, and that all credit was given back.
    pub(crate) fn assert_idle(&self) {
        for front in &self.fronts {
            assert_eq!((front.commands.count, front.commands.bytes), (0, 0));
            assert_eq!(front.watches.len(), 0);
            assert_eq!(front.connection_count(), 0);
            assert!(front.sessions.is_empty());
        }
    }
}
