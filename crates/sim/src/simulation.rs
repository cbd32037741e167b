//! One run: the world, the member, the clients and the faults, event by event, and the end of it.
//!
//! A run has three parts. While faults come, clients work. Then the faults stop: whatever is down
//! is started, and the member must serve and the clients must finish within a bounded time. At last
//! power is cut once more: what was there must be there again, to the bit.

use std::collections::BTreeMap;

use machine::Settings;
use member::container_znodes::ContainerSettings;
use member::recovery;
use storage::wal::WalOptions;
use workload::generate::Random;
use workload::history::{History, Received};

use crate::check::{Evidence, WakingTime, check, check_late_expiries, check_late_removals};
use crate::client::{Client, ClientConfig, Wish};
use crate::disk::SimDisk;
use crate::fault::{Fault, FaultMix};
use crate::limits::{EVENTS_MAX, FINISH_US_MAX, LINGER_US_MAX, RAFT_TICK_US, READY_US_MAX};
use crate::network::Network;
use crate::server::{Death, MemberConfig, Server};
use crate::witness::Witness;
use crate::world::{Event, World};

/// What sets a seed apart from itself, for what must not change the rest. With this number the kept
/// seeds have nothing more, and mean what they meant before there was more.
const MORE_SEED: u64 = 0x6d6f_7265_0000_0002;

/// What a run consists of. Everything else comes from the seed.
#[derive(Clone, Debug)]
pub struct Options {
    /// For everything that is left to chance.
    pub seed: u64,
    /// The member.
    pub member: MemberConfig,
    /// Its clients.
    pub clients: Vec<ClientConfig>,
    /// What goes wrong.
    pub faults: FaultMix,
    /// For how long.
    pub faults_us: u64,
    /// The disk says that it synced, and did not.
    pub syncs_lie: bool,
    /// Everything stops at this operation of the disk; `true` if power is cut.
    pub stop_at: Option<(u64, bool)>,
    /// If the clients make containers, znodes with a time to live and quotas, and the configuration
    /// of these changes: from this seed, so that what else happens does not depend on it.
    pub more_seed: Option<u64>,
    /// Whether at the end some clients vanish, to see their sessions expire.
    pub some_vanish: bool,
    /// Whether the member's inside is watched, and not only what clients see.
    pub looks_inside: bool,
    /// Every fault and every life of the process is printed to standard error.
    pub is_verbose: bool,
}

impl Options {
    /// Everything drawn from the seed.
    pub fn draw(seed: u64) -> Options {
        let mut random = Random::new(seed ^ 0x0051_7e44_a11d_0000);
        let tick_ms = random.magnitude(500, 2_000);
        let mut secret = [0; 32];
        secret.fill_with(|| random.bits() as u8);
        let faults = FaultMix::draw(random.fork());
        // Much data and few snapshots: segments fill, and a disk can become full.
        let is_heavy = random.one_in(if faults.fills_disk() { 2 } else { 8 });
        let segment_bytes_max = if is_heavy { 96 * 1024 } else { 256 * 1024 };
        let segment_bytes = random.magnitude(64 * 1024, segment_bytes_max);
        let mut member = MemberConfig {
            front_count: random.between(1, 3) as u32,
            secret,
            options: recovery::Options {
                settings: Settings::default(),
                tick_ms,
                raft_tick_ms: RAFT_TICK_US / 1000,
                server: 0,
                containers: Default::default(),
                snapshot_commands: match is_heavy {
                    true => random.magnitude(200, 5_000),
                    false => random.magnitude(10, 400),
                },
                snapshot_log_bytes: (!is_heavy && random.one_in(3))
                    .then(|| random.magnitude(2_000, 200_000)),
            },
            wal: WalOptions {
                segment_bytes,
                first_segment_bytes: 64 * 1024,
                spare_count: if is_heavy { 1 } else { random.between(1, 3) as usize },
                ..WalOptions::default()
            },
            room_bytes_min: segment_bytes * random.between(1, 3) / 4,
            mail_max: random.magnitude(1, 64) as usize,
            frame_bytes_max: 0xf_ffff,
        };
        let is_erratic = !random.one_in(4);
        let clients = (0..random.between(1, 5))
            .map(|_| ClientConfig {
                ops: random.magnitude(if is_heavy { 40 } else { 5 }, 400),
                pipeline_max: random.magnitude(1, 40),
                large_one_in: match is_heavy {
                    true => random.magnitude(2, 4),
                    false => random.magnitude(6, 200),
                },
                timeout_ms: random.magnitude(tick_ms, 10 * tick_ms) as u32,
                think_us_max: match is_heavy {
                    true => random.magnitude(100, 400_000),
                    false => random.magnitude(100, 4_000_000),
                },
                is_erratic,
            })
            .collect();
        let faults_us = random.magnitude(500_000, 60_000_000);
        let mut more = Random::new(seed ^ MORE_SEED);
        let has_more = more.one_in(2);
        if has_more {
            let options = &mut member.options;
            options.settings.extended_types = !more.one_in(4);
            options.settings.enforce_quota = !more.one_in(4);
            options.containers = ContainerSettings {
                check_interval_ms: more.magnitude(20, 2_000) as u32,
                removals_per_minute_max: more.magnitude(6_000, 60_000) as u32,
                never_used_ms_max: match more.one_in(2) {
                    true => 0,
                    false => more.magnitude(1, 20_000),
                },
            };
        }
        Options {
            seed,
            more_seed: has_more.then(|| more.bits()),
            member,
            clients,
            faults,
            faults_us,
            syncs_lie: false,
            stop_at: None,
            some_vanish: random.one_in(4),
            looks_inside: true,
            is_verbose: false,
        }
    }
}

/// What a run was like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Of the run.
    pub seed: u64,
    /// The same for the same seed.
    pub trace: u64,
    /// Virtual time it took.
    pub virtual_us: u64,
    /// Events in it.
    pub event_count: u64,
    /// Starts of the process, those that failed included.
    pub start_count: u64,
    /// Faults, by name.
    pub faults: BTreeMap<String, u64>,
    /// Writes that were acknowledged.
    pub write_count: usize,
    /// Reads that were answered.
    pub read_count: usize,
    /// Writes without a reply that took effect.
    pub unknown_done_count: usize,
    /// Watch events.
    pub event_received_count: usize,
    /// Of those, what was missed while a client was away.
    pub missed_count: usize,
    /// Writes that were refused for want of room.
    pub refused_count: usize,
    /// Sessions that expired.
    pub expired_count: usize,
    /// Containers and znodes with a time to live that went by themselves.
    pub gone_count: usize,
    /// Writes that a quota refused.
    pub over_quota_count: usize,
    /// Snapshots taken.
    pub snapshot_count: u64,
    /// Snapshots restored.
    pub restored_count: usize,
    /// Log entries committed.
    pub entry_count: usize,
    /// Operations that changed the disk.
    pub disk_ops: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Clients work, and things go wrong.
    Faults,
    /// Nothing goes wrong any more; clients finish.
    Calm,
    /// Clients say their last words.
    LastWords,
    /// Some of them vanish: their sessions expire, and those of the others do not.
    Silence,
    /// The member is started once more after a loss of power.
    LastStart,
}

/// A run under way.
pub(crate) struct Simulation {
    options: Options,
    world: World,
    disk: SimDisk,
    network: Network,
    clients: Vec<Client>,
    history: History,
    witness: Witness,
    server: Option<Server>,
    life: u64,
    start_count: u64,
    phase: Phase,
    phase_began_us: u64,
    waking: WakingTime,
    paused_until_us: u64,
    /// Whether the disk has failed in a way that excuses the end of the process.
    is_excused: bool,
    may_refuse: bool,
    snapshot_count: u64,
    /// A snapshot that someone keeps elsewhere.
    put_aside: Option<Vec<u8>>,
    reliefs: BTreeMap<u32, Fault>,
    stop_cuts_power: bool,
    slowness: u64,
    apply_lag_us: u64,
    /// The same while a started process is not ready.
    replay_lag_us: u64,
    fault_counts: BTreeMap<String, u64>,
    /// Draws changes of the configuration, if there is more to configure.
    more: Option<Random>,
    /// The newest zxid and the wall clock when some clients vanished.
    silence_began_at: (i64, i64),
}

impl Simulation {
    pub fn new(options: Options) -> Simulation {
        let mut random = Random::new(options.seed);
        let disk = SimDisk::new(random.bits(), options.syncs_lie);
        let network = Network::new(random.fork());
        let clients = options.clients.iter().enumerate();
        let tick_us = options.member.options.tick_ms * 1000;
        let clients = clients
            .map(|(number, config)| {
                Client::new(number as u32, config.clone(), tick_us, random.fork())
            })
            .collect();
        let mut simulation = Simulation {
            world: World::new(random.fork()),
            disk,
            network,
            clients,
            history: History::default(),
            witness: Witness::new(options.looks_inside),
            server: None,
            life: 0,
            start_count: 0,
            phase: Phase::Faults,
            phase_began_us: 0,
            waking: WakingTime::default(),
            paused_until_us: 0,
            is_excused: false,
            may_refuse: false,
            snapshot_count: 0,
            put_aside: None,
            reliefs: BTreeMap::new(),
            stop_cuts_power: false,
            slowness: 1,
            apply_lag_us: 0,
            replay_lag_us: 0,
            fault_counts: BTreeMap::new(),
            more: options.more_seed.map(Random::new),
            silence_began_at: (0, 0),
            options,
        };
        if let Some(more) = &mut simulation.more {
            simulation.clients.iter_mut().for_each(|client| client.do_more(more.fork()));
        }
        simulation.world.schedule(0, Event::Start);
        if let Some((op, power_is_cut)) = simulation.options.stop_at {
            simulation.stop_at(op, power_is_cut);
        }
        if let Some(wait_us) = simulation.options.faults.next_us() {
            simulation.world.schedule(wait_us, Event::Fault);
        }
        for client in 0..simulation.clients.len() {
            simulation.wake_client(client);
        }
        simulation
    }

    pub fn run(mut self) -> Result<Summary, String> {
        let mut digest = None;
        loop {
            let Some(event) = self.world.next_event() else {
                return Err(format!("nothing happens any more, in phase {:?}", self.phase));
            };
            if self.world.event_count() > EVENTS_MAX {
                return Err(format!("more than {EVENTS_MAX} events, in phase {:?}", self.phase));
            }
            self.on_event(event)?;
            match self.phase {
                Phase::Faults => self.maybe_calm(),
                Phase::Calm => self.maybe_last_words()?,
                Phase::LastWords => {
                    if self.has_settled()? {
                        match self.options.some_vanish {
                            true => self.let_some_vanish(),
                            false => digest = Some(self.end_last_life()?),
                        }
                    }
                }
                Phase::Silence => {
                    if self.is_silence_over() && self.has_settled()? {
                        digest = Some(self.end_last_life()?);
                    }
                }
                Phase::LastStart => {
                    self.check_in_time()?;
                    if self.server.as_ref().is_some_and(Server::is_ready) {
                        return self.finish(digest);
                    }
                }
            }
        }
    }

    // Events.

    fn on_event(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Run { life, .. } | Event::Done { life, .. } => {
                if life != self.life || self.server.is_none() {
                    return Ok(());
                }
                if self.world.now_us < self.paused_until_us {
                    self.world.schedule(self.paused_until_us, event);
                    return Ok(());
                }
                self.on_process(event)
            }
            Event::Arrive { connection, at_server } => self.on_arrival(connection, at_server),
            Event::Client { client, token } => {
                if self.clients[client].token == token {
                    self.on_client(client)?;
                }
                Ok(())
            }
            Event::Start => self.start(),
            Event::Fault => {
                if self.phase == Phase::Faults {
                    self.fault();
                    if let Some(wait_us) = self.options.faults.next_us() {
                        let at_us = self.world.now_us + wait_us;
                        self.world.schedule(at_us, Event::Fault);
                    }
                }
                Ok(())
            }
            Event::Relief(number) => {
                self.relieve(number);
                Ok(())
            }
        }
    }

    /// Something of the server's process.
    fn on_process(&mut self, event: Event) -> Result<(), String> {
        let Some(server) = &mut self.server else { return Ok(()) };
        let was_ready = server.is_ready();
        let lived = match event {
            Event::Run { actor, token, .. } => {
                let (world, network) = (&mut self.world, &mut self.network);
                server.run(actor, token, world, network, &mut self.witness)
            }
            Event::Done { actor, .. } => {
                server.done(actor, &mut self.world);
                Ok(())
            }
            _ => unreachable!("other events are not the process's"),
        };
        self.may_refuse |= server.has_refused();
        if server.is_ready() && !was_ready {
            server.starve_apply(self.apply_lag_us);
        }
        if self.disk.is_stopped() || (lived.is_err() && self.disk.is_stopping()) {
            self.end_process(self.stop_cuts_power);
            return Ok(());
        }
        match lived {
            Ok(()) => Ok(()),
            Err(Death::Disk(what)) if self.is_excused => {
                self.say(|| format!("the process ended itself: {what}"));
                self.end_process(false);
                Ok(())
            }
            Err(Death::Disk(what)) => Err(format!("the disk did not fail, but: {what}")),
            Err(Death::Bug(what)) => Err(what),
        }
    }

    fn on_arrival(&mut self, number: usize, at_server: bool) -> Result<(), String> {
        if !self.network.arrive(&mut self.world, number, at_server) {
            return Ok(());
        }
        if at_server {
            self.tell_server(number);
            return Ok(());
        }
        let client = self.network.connections[number].client;
        if self.clients[client].connection() == Some(number)
            && !self.clients[client].is_deaf(self.world.now_us)
        {
            self.let_client_read(client)?;
        }
        Ok(())
    }

    /// The server's kernel has something new for a connection.
    fn tell_server(&mut self, number: usize) {
        let life = self.network.connections[number].life;
        if let Some(server) = &mut self.server
            && server.life() == life
        {
            server.on_socket(number, &mut self.world, &self.network);
        }
    }

    fn let_client_read(&mut self, client: usize) -> Result<(), String> {
        let number = self.clients[client].connection();
        self.clients[client].on_arrival(&mut self.world, &mut self.network, &mut self.history)?;
        // There is room again for what the server has to say.
        if let Some(number) = number {
            self.tell_server(number);
        }
        self.wake_client(client);
        Ok(())
    }

    fn on_client(&mut self, client: usize) -> Result<(), String> {
        if !self.clients[client].is_deaf(self.world.now_us)
            && self.clients[client].connection().is_some()
        {
            self.let_client_read(client)?;
        }
        let wish =
            self.clients[client].on_time(&mut self.world, &mut self.network, &mut self.history);
        if wish == Wish::Connect {
            self.connect(client);
        }
        self.wake_client(client);
        Ok(())
    }

    fn connect(&mut self, client: usize) {
        let Some(server) = self.server.as_mut().filter(|server| server.is_ready()) else {
            self.clients[client].on_refused(self.world.now_us);
            return;
        };
        let number = self.network.connect(client, server.life(), self.world.now_us);
        let asked = self.clients[client].ask();
        assert!(self.history.connect(client as u32, asked.0, asked.1) == number);
        server.accept(number, &mut self.world, &mut self.network);
        self.clients[client].on_connected(number, asked, &mut self.world, &mut self.network);
        // What is on its way to the disk then is there long enough for the race.
        let may_be_slow = self.phase == Phase::Faults && self.world.random.one_in(2);
        if self.clients[client].take_race() && may_be_slow {
            let factor = self.world.random.magnitude(300, 3_000);
            let for_us = self.world.random.magnitude(100_000, 3_000_000);
            self.begin_fault(Fault::SlowDisk { factor, for_us });
        }
    }

    fn wake_client(&mut self, client: usize) {
        let token = self.world.token();
        self.clients[client].token = token;
        let at_us = self.clients[client].wakes_us(self.world.now_us);
        self.world.schedule(at_us, Event::Client { client, token });
    }

    // The process.

    fn start(&mut self) -> Result<(), String> {
        if self.server.is_some() {
            return Ok(());
        }
        self.life += 1;
        self.start_count += 1;
        // Someone changes the configuration: something that no client here notices.
        if self.phase == Phase::Faults && self.world.random.one_in(4) {
            self.options.member.options.settings.reconfig_enabled ^= true;
        }
        // And now something that they do.
        if self.phase == Phase::Faults
            && let Some(more) = self.more.as_mut()
        {
            let settings = &mut self.options.member.options.settings;
            settings.extended_types ^= more.one_in(6);
            settings.enforce_quota ^= more.one_in(6);
        }
        self.witness.on_configuration(&self.options.member.options.settings);
        self.replay_lag_us = 0;
        // A long replay: clients wait for the server, and not the other way round.
        if self.phase == Phase::Faults
            && self.options.faults.is_any()
            && self.world.random.one_in(4)
        {
            self.replay_lag_us = self.world.random.magnitude(100_000, 8_000_000);
        }
        let started = Server::start(
            &self.options.member,
            &self.disk,
            self.life,
            &mut self.world,
            &mut self.witness,
        );
        match started {
            Ok(mut server) if !self.disk.is_stopped() => {
                self.say(|| "the process is started".to_string());
                server.slow_down(self.slowness);
                server.starve_apply(self.apply_lag_us.max(self.replay_lag_us));
                self.server = Some(server);
                Ok(())
            }
            Ok(_) => {
                self.end_process(self.stop_cuts_power);
                Ok(())
            }
            Err(Death::Disk(_)) if self.disk.is_stopping() => {
                self.end_process(self.stop_cuts_power);
                Ok(())
            }
            Err(Death::Disk(what)) if self.is_excused => {
                self.say(|| format!("the process did not start: {what}"));
                self.end_process(false);
                Ok(())
            }
            Err(Death::Disk(what)) => Err(format!("the server does not start: {what}")),
            Err(Death::Bug(what)) => Err(what),
        }
    }

    /// The process is gone, and is started again after a while.
    fn end_process(&mut self, power_is_cut: bool) {
        self.say(|| format!("the process is gone, power cut: {power_is_cut}"));
        if let Some(server) = self.server.take() {
            self.snapshot_count += server.snapshot_count();
        }
        self.disk.end_life(power_is_cut);
        self.is_excused = self.disk.plan().bytes_max.is_some();
        self.paused_until_us = 0;
        self.waking.cut_short(self.world.now_us);
        for number in 0..self.network.connections.len() {
            if self.network.connections[number].life == self.life {
                self.network.close_by_server(&mut self.world, number);
            }
        }
        // Connections are told once.
        self.life += 1;
        let down_us = self.world.random.magnitude(1_000, 3_000_000);
        self.world.schedule(self.world.now_us + down_us, Event::Start);
    }

    fn stop_at(&mut self, op: u64, power_is_cut: bool) {
        self.stop_cuts_power = power_is_cut;
        self.disk.change_plan(|plan| plan.stop_at = Some(op));
    }

    // Faults.

    fn fault(&mut self) {
        let fault = self.options.faults.next_fault();
        self.begin_fault(fault);
    }

    fn begin_fault(&mut self, fault: Fault) {
        self.say(|| format!("{fault:?}"));
        let text = format!("{fault:?}");
        let name = text.split([' ', '{']).next().unwrap_or_default().to_string();
        *self.fault_counts.entry(name).or_default() += 1;
        let now_us = self.world.now_us;
        match fault {
            Fault::Kill => self.maybe_end_process(false),
            Fault::PowerLoss => self.maybe_end_process(true),
            Fault::StopAt { ops, power_is_cut } => {
                let op = self.disk.ops() + ops;
                self.stop_at(op, power_is_cut);
            }
            Fault::IoError { operation, nth } => {
                self.is_excused = true;
                self.disk.change_plan(|plan| plan.fail.push((operation, nth)));
            }
            Fault::DiskFull { bytes, for_us } => {
                self.is_excused = true;
                let bytes_max = self.disk.bytes() + bytes;
                self.disk.change_plan(|plan| plan.bytes_max = Some(bytes_max));
                self.relieve_later(fault, for_us);
            }
            Fault::SlowDisk { factor, for_us } => {
                self.slowness = factor;
                if let Some(server) = &mut self.server {
                    server.slow_down(factor);
                }
                self.relieve_later(fault, for_us);
            }
            Fault::SlowApply { lag_us, for_us } => {
                self.apply_lag_us = lag_us;
                if let Some(server) = &mut self.server {
                    server.starve_apply(lag_us);
                }
                self.relieve_later(fault, for_us);
            }
            Fault::Pause { for_us } => {
                if self.server.is_some() && self.paused_until_us <= now_us {
                    self.paused_until_us = now_us + for_us;
                    self.waking.pause(now_us, now_us + for_us);
                }
            }
            Fault::Cut { one_in } => {
                for number in self.some_connections(one_in) {
                    self.network.cut_off(&mut self.world, number);
                }
            }
            Fault::Stall { one_in, for_us } => {
                for number in self.some_connections(one_in) {
                    let is_up = self.world.random.one_in(2);
                    self.network.stall(number, is_up, now_us + for_us);
                }
            }
            Fault::WallJump { by_ms } => self.world.wall_offset_ms += by_ms,
            Fault::Restore => self.restore(),
        }
    }

    fn restore(&mut self) {
        let Some(server) = &mut self.server else { return };
        let Some(newest) = server.newest_snapshot() else { return };
        let aside = self.put_aside.take().filter(|_| !self.world.random.one_in(3));
        let bytes = aside.as_ref().unwrap_or(&newest);
        server.restore(bytes, &mut self.world, &mut self.witness);
        self.put_aside = Some(newest);
        if self.disk.is_stopped() {
            self.end_process(self.stop_cuts_power);
        }
    }

    fn maybe_end_process(&mut self, power_is_cut: bool) {
        if self.server.is_some() {
            self.end_process(power_is_cut);
        }
    }

    fn some_connections(&mut self, one_in: u64) -> Vec<usize> {
        let connections = self.clients.iter().filter_map(Client::connection);
        let connections: Vec<usize> = connections.collect();
        connections.into_iter().filter(|_| self.world.random.one_in(one_in)).collect()
    }

    fn relieve_later(&mut self, fault: Fault, for_us: u64) {
        let number = self.reliefs.last_key_value().map_or(0, |(number, _)| number + 1);
        self.reliefs.insert(number, fault);
        self.world.schedule(self.world.now_us + for_us, Event::Relief(number));
    }

    fn relieve(&mut self, number: u32) {
        match self.reliefs.remove(&number) {
            Some(Fault::DiskFull { .. }) => {
                self.disk.change_plan(|plan| plan.bytes_max = None);
            }
            Some(Fault::SlowDisk { .. }) => {
                self.slowness = 1;
                if let Some(server) = &mut self.server {
                    server.slow_down(1);
                }
            }
            Some(Fault::SlowApply { .. }) => {
                self.apply_lag_us = 0;
                if let Some(server) = &mut self.server {
                    server.starve_apply(0);
                }
            }
            _ => {}
        }
    }

    // Phases.

    fn begin(&mut self, phase: Phase) {
        self.say(|| format!("{phase:?}"));
        self.phase = phase;
        self.phase_began_us = self.world.now_us;
    }

    fn are_idle(&self) -> bool {
        self.clients.iter().all(Client::is_idle)
    }

    fn maybe_calm(&mut self) {
        if self.world.now_us < self.options.faults_us && !self.are_idle() {
            return;
        }
        self.begin(Phase::Calm);
        if let Some(server) = &mut self.server {
            server.starve_apply(0);
        }
        let reliefs: Vec<u32> = self.reliefs.keys().copied().collect();
        reliefs.into_iter().for_each(|number| self.relieve(number));
        self.disk.change_plan(|plan| {
            plan.stop_at = None;
            plan.fail.clear();
            plan.bytes_max = None;
        });
        for client in 0..self.clients.len() {
            self.clients[client].calm_down();
            self.wake_client(client);
        }
    }

    /// With nothing going wrong, a started server serves soon, and clients finish.
    fn check_in_time(&self) -> Result<(), String> {
        let now_us = self.world.now_us;
        let since_us = |began_us: u64| {
            now_us - began_us.max(self.phase_began_us).max(self.paused_until_us).min(now_us)
        };
        if let Some(server) = &self.server
            && !server.is_ready()
            && since_us(server.started_us()) > READY_US_MAX
        {
            return Err("a started server does not become ready".to_string());
        }
        if since_us(0) > FINISH_US_MAX {
            let late: Vec<usize> =
                (0..self.clients.len()).filter(|at| !self.clients[*at].is_idle()).collect();
            return Err(format!("clients {late:?} do not finish, in phase {:?}", self.phase));
        }
        Ok(())
    }

    fn maybe_last_words(&mut self) -> Result<(), String> {
        self.check_in_time()?;
        if self.are_idle() {
            self.begin(Phase::LastWords);
            for client in 0..self.clients.len() {
                self.clients[client].say_last_words();
                self.wake_client(client);
            }
        }
        Ok(())
    }

    /// Everything is said and done, and no connection is left that nobody has.
    fn has_settled(&self) -> Result<bool, String> {
        self.check_in_time()?;
        let all_said = self.clients.iter().all(Client::has_said_last_words);
        let Some(server) = self.server.as_ref().filter(|_| all_said) else { return Ok(false) };
        let there = self.clients.iter().filter(|client| client.connection().is_some()).count();
        Ok(server.is_idle() && server.connection_count() == there)
    }

    fn let_some_vanish(&mut self) {
        self.begin(Phase::Silence);
        let server = self.server.as_ref().expect("it answered the last words");
        self.silence_began_at = (server.machine().counters().zxid.0, self.world.wall_ms());
        let kept = self.world.random.below(self.clients.len() as u64 + 1) as usize;
        for client in kept..self.clients.len() {
            self.clients[client].vanish(&mut self.world, &mut self.network);
            self.wake_client(client);
        }
    }

    /// The sessions of those that vanished are gone, or should be.
    fn is_silence_over(&self) -> bool {
        let gone = self.clients.iter().filter(|client| client.is_gone());
        let timeout_ms = gone.map(|client| client.session().1).max().unwrap_or(0);
        let tick_us = self.options.member.options.tick_ms * 1000;
        let timeout_us = u64::from(timeout_ms) * 1000;
        // A round may have begun before.
        let containers = &self.options.member.options.containers;
        let rounds_us = match self.more {
            Some(_) => 2 * u64::from(containers.check_interval_ms) * 1000,
            None => 0,
        };
        let over_us = timeout_us.max(rounds_us) + tick_us + LINGER_US_MAX;
        self.world.now_us >= self.phase_began_us + over_us
    }

    /// Judges the life that served clients, ends it and gives its digest.
    fn end_last_life(&mut self) -> Result<machine::digest::Digest, String> {
        let server = self.server.as_ref().expect("it answered the last words");
        let digest = server.machine().digest();
        self.judge()?;
        self.begin(Phase::LastStart);
        self.end_process(true);
        Ok(digest)
    }

    fn evidence(&self) -> Evidence<'_> {
        Evidence {
            history: &self.history,
            witness: &self.witness,
            network: &self.network,
            waking: &self.waking,
            may_refuse: self.may_refuse,
            never_used_ms_max: self.options.member.options.containers.never_used_ms_max,
        }
    }

    fn judge(&self) -> Result<(), String> {
        let server = self.server.as_ref().expect("it answered the last words");
        let verdict = check(&self.evidence(), Some(server.machine()))?;
        let gone = self.clients.iter().filter(|client| client.is_gone()).map(Client::session);
        check_late_expiries(
            &verdict,
            gone,
            self.phase_began_us,
            self.options.member.options.tick_ms,
        )?;
        match self.more {
            Some(_) if self.phase == Phase::Silence => {
                let (zxid, wall_ms) = self.silence_began_at;
                let containers = &self.options.member.options.containers;
                check_late_removals(&verdict, zxid, wall_ms, containers.never_used_ms_max)
            }
            _ => Ok(()),
        }
    }

    /// After the last start: the state is what it was.
    fn finish(mut self, digest: Option<machine::digest::Digest>) -> Result<Summary, String> {
        let server = self.server.take().expect("the caller looked");
        if Some(server.machine().digest()) != digest {
            return Err("after a loss of power the state is another one".to_string());
        }
        let verdict = check(&self.evidence(), Some(server.machine()))?;
        Ok(Summary {
            seed: self.options.seed,
            trace: self.world.trace(),
            virtual_us: self.world.now_us,
            event_count: self.world.event_count(),
            start_count: self.start_count,
            missed_count: self.missed_count(),
            faults: self.fault_counts,
            write_count: verdict.acknowledged.len(),
            refused_count: verdict.refused_count,
            read_count: verdict.read_count,
            unknown_done_count: verdict.unknown_done_count,
            event_received_count: verdict.event_count,
            expired_count: verdict.expired.len(),
            gone_count: verdict.gone_count,
            over_quota_count: verdict.over_quota_count,
            snapshot_count: self.snapshot_count + server.snapshot_count(),
            restored_count: verdict.installed_count,
            entry_count: self.witness.entry_count(),
            disk_ops: self.disk.ops(),
        })
    }

    fn missed_count(&self) -> usize {
        let received = self.history.connections.iter().flat_map(|it| &it.received);
        received.filter(|it| matches!(it, Received::Event { zxid: -1, .. })).count()
    }

    fn say(&self, what: impl FnOnce() -> String) {
        if self.options.is_verbose {
            eprintln!("{:>12} us: {}", self.world.now_us, what());
        }
    }
}
