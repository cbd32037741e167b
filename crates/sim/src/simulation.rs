//! A run: the world, the members, the clients and the faults, event by event, and the end of the
//! run.
//!
//! A run has three parts. While faults come, clients work. Then the faults stop: each process that
//! is down is started, every member must serve, all must have one state and the clients must finish
//! within a bounded time. At last power is cut once more, everywhere: each member must come back
//! with the state that it had, to the bit.

mod cluster;
mod course;
mod damage;
mod deceit;
mod directory;
mod etcd;
mod faults;
mod host;
mod hosts;
mod levels;
mod locks;
mod machines;
#[cfg(test)]
mod play;
mod summary;
mod zk;

use machine::digest::Digest;
use machine::{Level, Machine, ServerList, ServerRecord, ServerRole};
use member::limits::QUIET_TIMEOUT_MS_MIN;
use member::membership::bootstrap::Attendance;
use member::membership::hello::Known;
use member::recovery::{self, draw_ids};
use member::snapshot::log_rule::SnapshotLog;
use member::spaces::{self, zk::containers::ContainerSettings};
use replica::LogMemory;
use storage::datadir::Birth;
use storage::wal::WalOptions;
use workload::generate::Random;

use crate::build::Builds;
use crate::check::{check, check_late_expiries, check_late_removals};
use crate::client::{Client, ClientConfig, Wish};
use crate::disk::SimDisk;
use crate::etcd_clients::{EtcdClients, EtcdLoad};
use crate::fault::{Disks, Fault, FaultMix, LATER_SEED, Whom};
use crate::limits::{
    CLOCK_PPM_MAX, EVENTS_MAX, FIND_OUT_TRIES_MAX, FINISH_US_MAX, FRAME_BYTES_MAX,
    LEASE_JUMP_US_MAX, LEASE_SLACK_US, LINGER_US_MAX, MEMBERS_MAX, RAFT_TICK_ALONE_MS,
    RAFT_TICK_MS, READ_ONLY_AFTER_MS, READ_ONLY_OPS, READ_ONLY_THINK_US, READY_US_MAX,
};
use crate::links::Links;
use crate::server::{LifeCounts, MemberConfig, Server, Throttles, Unborn};
use crate::witness::Witness;
use crate::world::{Clock, Event, World};
use cluster::Cluster;
use course::{Course, Phase};
pub use etcd::{EtcdCounts, EtcdFailureCounts, EtcdReadCounts, EtcdWriteCounts, WatchCounts};
pub use faults::FaultCounts;
use faults::Faults;
use host::Host;
use hosts::Hosts;
pub use hosts::MemberCounts;
pub use levels::LevelCounts;
use levels::Levels;
use locks::Turns;
pub use summary::Summary;
use zk::ZkClients;
pub use zk::{ZkCounts, ZkWatchCounts};

/// Sets a seed apart from itself, to draw containers, znodes with a time to live and quotas without
/// a change of the rest. With this number the kept seeds have none of them, and mean what they
/// meant before.
const MORE_SEED: u64 = 0x6d6f_7265_0000_0002;

/// Sets a seed apart from itself, to draw what only an ensemble has.
const ENSEMBLE_SEED: u64 = 0x656e_7365_6d00_0001;

/// Sets a seed apart from itself, to draw members that deceive the others.
const DECEIT_SEED: u64 = 0x6465_6365_6974_0001;

/// Sets a seed apart from itself, to draw the later operations of clients. With this number the
/// kept seeds have none of them.
const LATER_OPS_SEED: u64 = 0x6c61_7465_6f70_010f;

/// Sets the seed of reads without a leader apart from itself, to draw what makes them likely.
const READ_ONLY_SEED: u64 = 0x7265_6164_0000_0001;

/// Sets a seed apart from itself, to draw whether a leader knows that sessions may be short. With
/// this number it does not know it in any of the kept seeds.
const SHORT_TIMEOUT_SEED: u64 = 0x7365_7373_0000_000e;

/// Sets a seed apart from itself, to draw whether a leader keeps more of its log for a member that
/// is away.
const AWAY_SEED: u64 = 0x6177_6179;

/// Sets a seed apart from itself, to draw whether any majority may begin the ensemble. With this
/// number none of the kept seeds begins so.
const AGREEMENT_SEED: u64 = 0x6167_7265_0000_005a;

/// Operations of clients that were added later. Each kind that a run has holds the seed from which
/// it is drawn, so the rest of the run does not depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaterOps {
    /// The seed of frames that no server takes, which clients send.
    pub bad_frames: Option<u64>,
    /// The seed of watches that stay, which clients set.
    pub lasting_watches: Option<u64>,
    /// The seed of users that clients prove to be, and of znodes that only some users may change.
    pub users: Option<u64>,
    /// The seed of low bounds for the work that clients may have under way. Clients then send no
    /// bad frames: an unknown operation that waited for too long ends no connection.
    pub throttles: Option<u64>,
    /// The seed of clients that accept reads only. Members of an ensemble serve these without a
    /// leader.
    pub read_only: Option<u64>,
    /// The seed of users that clients prove to be, and of znodes that only some users may read.
    pub private_znodes: Option<u64>,
}

impl LaterOps {
    /// Draws the kinds that a run has: none in half of the runs.
    fn draw(seed: u64) -> LaterOps {
        let mut random = Random::new(seed ^ LATER_OPS_SEED);
        if random.one_in(2) {
            return LaterOps::default();
        }
        let mut kind = || {
            let seed = random.bits();
            random.one_in(2).then_some(seed)
        };
        LaterOps {
            bad_frames: kind(),
            lasting_watches: kind(),
            users: kind(),
            throttles: kind(),
            // Each kind that is added is drawn last, so the kinds before it stay what they were.
            read_only: kind(),
            private_znodes: kind(),
        }
    }
}

/// What a run consists of. Everything else comes from the seed.
#[derive(Clone, Debug)]
pub struct Options {
    /// The seed of everything that is left to chance.
    pub seed: u64,
    /// How many members there are: 1 to [`MEMBERS_MAX`].
    pub member_count: usize,
    /// The configuration of the members. What tells one from another is drawn from the seed.
    pub member: MemberConfig,
    /// The configuration of each client.
    pub clients: Vec<ClientConfig>,
    /// Whether the members of an ensemble have to find each other first, and to agree on how it
    /// begins; else they are born when they are started.
    pub begins_unborn: bool,
    /// The faults that come.
    pub faults: FaultMix,
    /// How long faults come.
    pub faults_us: u64,
    /// Whether the disks say that they synced, and did not.
    pub syncs_lie: bool,
    /// The operation of the first member's disk at which everything stops, and whether power is cut
    /// then; none: no such stop is planned.
    pub stop_at: Option<(u64, bool)>,
    /// The seed of containers, znodes with a time to live and quotas, and of changes of their
    /// configuration; none: clients make none. What else happens does not depend on it.
    pub more_seed: Option<u64>,
    /// Operations of clients that were added later.
    pub later_ops: LaterOps,
    /// The clients of etcd; none: there are none.
    pub etcd: Option<EtcdLoad>,
    /// The builds of the servers of an ensemble, if they differ; none: all know the released
    /// levels.
    pub builds: Option<Builds>,
    /// Whether at the end some clients vanish, to see their sessions expire.
    pub some_vanish: bool,
    /// Whether the judges watch what members do inside, and not only what clients see.
    pub looks_inside: bool,
    /// Whether every fault and every life of a process is printed to standard error.
    pub is_verbose: bool,
}

impl Options {
    /// Draws the options of a run of one member from the seed.
    pub fn draw(seed: u64) -> Options {
        let mut random = Random::new(seed ^ 0x0051_7e44_a11d_0000);
        let tick_ms = random.magnitude(500, 2_000);
        let mut secret = [0; 32];
        secret.fill_with(|| random.bits() as u8);
        let faults = FaultMix::draw(random.fork(), Random::new(seed ^ LATER_SEED));
        // Much data and few snapshots: segments fill, and a disk can become full.
        let is_heavy = random.one_in(if faults.fills_disk() { 2 } else { 8 });
        let segment_bytes_max = if is_heavy { 96 * 1024 } else { 256 * 1024 };
        let segment_bytes = random.magnitude(64 * 1024, segment_bytes_max);
        let mut member = draw_member(&mut random, tick_ms, secret, is_heavy, segment_bytes);
        let clients = draw_clients(&mut random, tick_ms, is_heavy);
        let faults_us = random.magnitude(500_000, 60_000_000);
        let mut more = Random::new(seed ^ MORE_SEED);
        let has_more = more.one_in(2);
        if has_more {
            draw_more(&mut more, &mut member.options);
        }
        Options {
            seed,
            member_count: 1,
            more_seed: has_more.then(|| more.bits()),
            later_ops: LaterOps::draw(seed),
            etcd: EtcdLoad::draw(seed),
            builds: None,
            member,
            clients,
            begins_unborn: false,
            faults,
            faults_us,
            syncs_lie: false,
            stop_at: None,
            some_vanish: random.one_in(4),
            looks_inside: true,
            is_verbose: false,
        }
    }

    /// Draws the options of a run of so many members from the seed.
    pub fn draw_ensemble(seed: u64, member_count: usize) -> Options {
        assert!((1..=MEMBERS_MAX).contains(&member_count));
        let mut options = Options::draw(seed);
        if member_count == 1 {
            return options;
        }
        let mut random = Random::new(seed ^ ENSEMBLE_SEED);
        options.member_count = member_count;
        let apart = Random::new(seed ^ DECEIT_SEED);
        let later = Random::new(seed ^ LATER_SEED);
        options.faults = FaultMix::draw_ensemble(random.fork(), apart, later, member_count);
        // Elections take seconds.
        options.faults_us = random.magnitude(5_000_000, 120_000_000);
        let tick_ms = random.magnitude(500, 2_000);
        options.member.options.spaces.zk.tick_ms = tick_ms;
        options.member.options.raft_tick_ms = RAFT_TICK_MS;
        let client_count = random.between(1, 2 * member_count as u64) as usize;
        let clients = options.clients.iter().cycle().take(client_count).cloned();
        options.clients = clients
            .map(|client| ClientConfig {
                timeout_ms: random.magnitude(tick_ms, 20 * tick_ms) as u32,
                ..client
            })
            .collect();
        options.begins_unborn = random.one_in(2);
        if random.one_in(4) {
            options.member.attendance = Attendance::Majority;
        } else if Random::new(seed ^ AGREEMENT_SEED).one_in(3) {
            options.member.attendance = Attendance::AnyMajority;
        }
        // The log in memory is so short that a member that was away for a while needs a snapshot.
        if random.one_in(2) {
            let bytes_max = random.magnitude(1_000, 300_000) as usize;
            let pinned_bytes_max = bytes_max + random.magnitude(10_000, 3_000_000) as usize;
            let mut away = Random::new(seed ^ AWAY_SEED);
            let is_kept = away.one_in(4);
            let away_bytes_max =
                if is_kept { away.magnitude(1_000, 1_000_000) as usize } else { 0 };
            options.member.options.log_memory =
                LogMemory { bytes_max, away_bytes_max, pinned_bytes_max };
        }
        // Most leaders are configured with a longer timeout than clients are given.
        options.member.options.session_timeout_ms_min =
            match Random::new(seed ^ SHORT_TIMEOUT_SEED).one_in(4) {
                true => 2 * tick_ms as u32,
                false => QUIET_TIMEOUT_MS_MIN,
            };
        options.builds = Builds::draw(seed, member_count);
        options
    }

    /// Lets members serve the clients of etcd, if there are some. Where someone restores snapshots
    /// there are none: no client of etcd could bear that.
    fn prepare_for_etcd(&mut self) {
        if self.member_count == 1 && self.faults.restores() {
            self.etcd = None;
        }
        // Where no build knows level 3, there are no clients of etcd v2.
        let has_v2 = self.builds.as_ref().is_none_or(|builds| builds.new >= Level::ETCD_V2);
        if let Some(load) = self.etcd.as_mut().filter(|_| !has_v2) {
            load.clients.retain(|client| client.v2.is_none());
        }
        let Some(load) = &self.etcd else { return };
        self.member.etcd_front_count = load.front_count;
        self.member.options.spaces.etcd.auto_compaction = load.auto_compaction;
        self.member.options.spaces.etcd.settings = load.settings;
        self.member.watch_bounds = load.watch_bounds;
        self.member.progress_ms = load.progress_ms;
    }

    /// Members of an ensemble serve reads without a leader; alone, as in the shell that ships, none
    /// is needed. Members are cut off for longer than others, and clients work for longer and have
    /// short timeouts, so that some come to a member without a leader.
    fn serve_reads_only(&mut self, mut random: Random) {
        if self.member_count == 1 {
            return;
        }
        self.member.read_only_after_ms = Some(READ_ONLY_AFTER_MS);
        self.faults.isolate_members();
        for client in &mut self.clients {
            client.timeout_ms =
                (random.between(2, 6) * self.member.options.spaces.zk.tick_ms) as u32;
            client.think_us_max = client.think_us_max.max(READ_ONLY_THINK_US);
            client.ops = client.ops.max(READ_ONLY_OPS);
        }
    }
}

/// A run under way.
pub(crate) struct Simulation {
    cluster: Cluster,
    course: Course,
    faults: Faults,
    /// What clients of etcd that want locks wait for.
    turns: Turns,
}

impl Simulation {
    pub fn new(mut options: Options) -> Simulation {
        if let Some(seed) = options.later_ops.throttles {
            options.member.throttles = Throttles::draw(Random::new(seed));
            options.later_ops.bad_frames = None;
        }
        if let Some(seed) = options.later_ops.read_only {
            options.serve_reads_only(Random::new(seed ^ READ_ONLY_SEED));
        }
        options.prepare_for_etcd();
        let mut random = Random::new(options.seed);
        let disk = SimDisk::new(random.bits(), options.syncs_lie);
        let mut zk = ZkClients::new(&options, &mut random);
        let mut apart = Random::new(options.seed ^ ENSEMBLE_SEED);
        let machines = hosts(&options, disk, apart.fork());
        let disks = machines.iter().map(|host| host.disk.clone()).collect();
        let mut more = options.more_seed.map(Random::new);
        if let Some(more) = &mut more {
            zk.clients.iter_mut().for_each(|client| client.do_more(more.fork()));
        }
        let cluster = Cluster {
            world: World::new(random.fork()),
            hosts: Hosts::new(machines, more),
            links: Links::new(options.member_count, apart.fork()),
            zk,
            etcd: EtcdClients::new(options.etcd.as_ref()),
            witness: Witness::new(options.looks_inside, disks),
            levels: Levels::new(options.builds.clone()),
            options,
        };
        let (course, faults, turns) = (Course::new(), Faults::default(), Turns::default());
        let mut simulation = Simulation { cluster, course, faults, turns };
        simulation.schedule_first(&mut apart);
        simulation
    }

    /// Schedules the events with which a run begins. `apart` is the chance of ensembles.
    fn schedule_first(&mut self, apart: &mut Random) {
        self.cluster.zk.begin_later_ops(self.cluster.options.later_ops);
        self.begin_asking();
        let begins_unborn = self.cluster.options.begins_unborn;
        for member in 0..self.cluster.hosts.len() {
            // An operator does not start all servers at one moment.
            let at_us = if begins_unborn { apart.magnitude(1, 5_000_000) } else { 0 };
            self.cluster.world.schedule(at_us, Event::Start { member });
        }
        if begins_unborn && self.cluster.options.faults.is_any() {
            self.faults.trouble_birth(&mut self.cluster, apart);
        }
        let Cluster { options, world, hosts, zk, etcd, .. } = &mut self.cluster;
        if let Some((op, power_is_cut)) = options.stop_at {
            hosts[0].stop_at(op, power_is_cut);
        }
        if let Some(mut wait_us) = options.faults.next_us() {
            // The first fault may come sooner than the interval says: before there is an ensemble.
            if begins_unborn && apart.one_in(2) {
                wait_us = wait_us.min(apart.magnitude(1_000, 5_000_000));
            }
            world.schedule(wait_us, Event::Fault);
        }
        (0..zk.clients.len()).for_each(|client| zk.wake(client, world));
        (0..etcd.clients.len()).for_each(|client| etcd.wake(client, world));
    }

    pub fn run(mut self) -> Result<Summary, String> {
        let mut digest = None;
        loop {
            let phase = self.course.phase();
            let Some(event) = self.cluster.world.next_event() else {
                return Err(format!("nothing happens any more, in phase {phase:?}"));
            };
            if self.cluster.world.event_count() > EVENTS_MAX {
                return Err(format!("more than {EVENTS_MAX} events, in phase {phase:?}"));
            }
            self.on_event(event)?;
            if self.cluster.hosts.is_ensemble() {
                self.note_trouble();
                self.faults.pursue_deceit(&mut self.cluster, self.course.is_calm());
                self.cluster.pursue_builds(self.course.is_calm());
            }
            match self.course.phase() {
                Phase::Faults => self.maybe_calm(),
                Phase::Calm => self.maybe_last_words()?,
                Phase::LastWords => {
                    if self.has_settled()? && !self.visit_others() && !self.ask_at_last()? {
                        match self.cluster.options.some_vanish {
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
                    if self.cluster.hosts.are_ready() {
                        return self.finish(digest);
                    }
                }
            }
        }
    }

    // Events.

    fn on_event(&mut self, event: Event) -> Result<(), String> {
        let (cluster, is_calm) = (&mut self.cluster, self.course.is_calm());
        match event {
            Event::Run { .. } | Event::Done { .. } => return cluster.on_process(event),
            Event::Arrive { connection, at_server } => {
                let Cluster { zk, world, hosts, .. } = cluster;
                return zk.on_arrival((connection, at_server), world, hosts);
            }
            Event::Client { client, token } => {
                if cluster.zk.clients[client].token == token {
                    return self.on_client(client);
                }
            }
            Event::Start { member } => return cluster.start(member, is_calm),
            Event::Decide { life } => return cluster.decide(life),
            Event::Leave { life, until_us } => cluster.leave(life, until_us, is_calm),
            Event::Frame { .. }
            | Event::Dial { .. }
            | Event::LinkOver { .. }
            | Event::LinkPatience { .. } => cluster.on_link_event(event),
            Event::Fault if is_calm => {}
            Event::Fault => {
                // Nothing else goes wrong while a member deceives the others.
                if !cluster.hosts.is_any_deceiving() {
                    self.faults.begin_next(cluster);
                }
                if let Some(wait_us) = cluster.options.faults.next_us() {
                    let at_us = cluster.world.now_us + wait_us;
                    cluster.world.schedule(at_us, Event::Fault);
                }
            }
            Event::Relief(number) => self.faults.relieve(cluster, number),
            Event::Stutter { member } => cluster.stand_still(member),
            Event::Ask { planned } => self.on_ask(planned),
            Event::Strike { is_raising } => self.strike(is_raising),
            Event::EtcdArrive { connection, parcel } => {
                let Cluster { etcd, world, hosts, .. } = cluster;
                return etcd.on_arrival((connection, parcel), world, hosts);
            }
            Event::EtcdClient { client, token } => {
                if cluster.etcd.clients[client].token == token {
                    return self.on_etcd_client(client);
                }
            }
        }
        Ok(())
    }

    /// A client of ZooKeeper's looks at its clock.
    fn on_client(&mut self, client: usize) -> Result<(), String> {
        let Cluster { zk, world, hosts, .. } = &mut self.cluster;
        if zk.on_time(client, world, hosts)? == Wish::Connect {
            self.connect(client);
        }
        let Cluster { zk, world, .. } = &mut self.cluster;
        zk.wake(client, world);
        Ok(())
    }

    fn connect(&mut self, client: usize) {
        let Cluster { zk, world, hosts, .. } = &mut self.cluster;
        let Some(member) = zk.connect(client, world, hosts, self.course.is_last()) else { return };
        // A slow disk keeps writes on their way long enough for the race.
        let may_be_slow =
            !self.course.is_calm() && world.random.one_in(2) && !hosts.is_any_deceiving();
        if zk.clients[client].take_race() && may_be_slow {
            let factor = world.random.magnitude(300, 3_000);
            let for_us = world.random.magnitude(100_000, 3_000_000);
            let fault = Fault::SlowDisk { disks: Disks::Both, factor, for_us };
            self.begin_fault(Whom::one(member), fault);
        }
    }

    /// A client of etcd's looks at its clock.
    fn on_etcd_client(&mut self, client: usize) -> Result<(), String> {
        let Cluster { etcd, world, hosts, .. } = &mut self.cluster;
        etcd.on_time(client, world, hosts, self.course.is_last())?;
        if self.course.phase() == Phase::Calm {
            self.turns.note(client, etcd, hosts, world.now_us);
        }
        Ok(())
    }

    fn begin_fault(&mut self, whom: Whom, fault: Fault) {
        self.faults.begin(&mut self.cluster, whom, fault);
    }

    /// Notes which members may not hear, or not pass on, what clients say to them now.
    fn note_trouble(&mut self) {
        let Cluster { hosts, links, world, .. } = &mut self.cluster;
        hosts.note_trouble(links, world.now_us);
    }

    // Phases.

    fn begin(&mut self, phase: Phase) {
        self.cluster.say(None, || format!("{phase:?}"));
        self.course.begin(phase, self.cluster.world.now_us);
    }

    fn maybe_calm(&mut self) {
        let Cluster { options, world, zk, etcd, .. } = &self.cluster;
        if world.now_us < options.faults_us && !(zk.are_idle() && etcd.are_idle()) {
            return;
        }
        self.begin(Phase::Calm);
        self.faults.end_waiting();
        self.cluster.end_old_builds();
        for host in self.cluster.hosts.iter_mut() {
            host.hang_until(Disks::Both, 0);
            if let Some(server) = &mut host.server {
                server.starve_apply(0);
            }
        }
        self.faults.relieve_all(&mut self.cluster);
        let Cluster { world, hosts, zk, etcd, .. } = &mut self.cluster;
        for host in hosts.iter() {
            host.spare_disk();
            host.disk.change_plan(|plan| plan.bytes_max = None);
        }
        zk.change_all(world, Client::calm_down);
        etcd.calm_down(world);
    }

    /// Checks that a started server serves soon and that clients finish, when nothing goes wrong.
    fn check_in_time(&self) -> Result<(), String> {
        let Cluster { world, hosts, zk, etcd, .. } = &self.cluster;
        let now_us = world.now_us;
        let paused_us = hosts.iter().map(|host| host.paused_until_us).max().unwrap_or(0);
        let able_us = self.course.began_us().max(paused_us).max(hosts.quorum_held_us());
        let since_us = |began_us: u64| now_us - began_us.max(able_us).min(now_us);
        for (member, host) in hosts.iter().enumerate() {
            let unborn_us = host.unborn.as_ref().map(Unborn::started_us);
            let server = host.server.as_ref().filter(|server| !server.is_ready());
            let waits_us = unborn_us.or(server.map(Server::started_us));
            if waits_us.is_some_and(|at_us| since_us(at_us) > READY_US_MAX) {
                let states = hosts.describe();
                return Err(format!("started server {member} does not become ready: {states}"));
            }
        }
        let calm_us = now_us - since_us(0);
        etcd.check_in_time(hosts, calm_us, now_us)?;
        self.turns.check_in_time(etcd, hosts, calm_us, now_us)?;
        if self.course.phase() == Phase::LastWords {
            etcd::check_leases_end(hosts, calm_us, now_us)?;
        }
        if since_us(0) > FINISH_US_MAX {
            let late: Vec<usize> =
                (0..zk.clients.len()).filter(|at| !zk.clients[*at].is_idle()).collect();
            let view = |server: &Server| {
                let machine = server.machine();
                let (index, mark) = (machine.index(), machine.mark());
                let (connections, digest) = (server.connection_count(), machine.digest());
                format!("{connections} connections, {index:?}, {mark:?}, {digest:?}")
            };
            let views: Vec<String> = hosts.servers().map(view).collect();
            let of_etcd = etcd.clients.iter().map(|client| client.describe());
            let clients = zk.clients.iter().map(Client::describe).chain(of_etcd);
            let clients: Vec<String> = clients.collect();
            return Err(format!(
                "clients {late:?} do not finish, in phase {:?}, {clients:?}, {views:?}; {}",
                self.course.phase(),
                hosts.describe()
            ));
        }
        Ok(())
    }

    fn maybe_last_words(&mut self) -> Result<(), String> {
        self.check_in_time()?;
        let Cluster { world, hosts, zk, etcd, .. } = &mut self.cluster;
        if !zk.are_idle() || !etcd.are_idle() {
            return Ok(());
        }
        if hosts.is_any_wrong() {
            // A wrong state is found out when a new entry comes, by members that are there.
            if !hosts.are_ready() {
                return Ok(());
            }
            if self.course.try_to_find_out() > FIND_OUT_TRIES_MAX {
                let states = hosts.describe();
                return Err(format!("a state that was made wrong is not found out: {states}"));
            }
            zk.change_all(world, Client::do_one_more);
            return Ok(());
        }
        self.begin(Phase::LastWords);
        let Cluster { world, hosts, zk, etcd, .. } = &mut self.cluster;
        zk.change_all(world, Client::say_last_words);
        etcd.visit(0, world, hosts);
        Ok(())
    }

    /// Sends all clients to other members, which must answer them as well, until each client was at
    /// each member. Returns false when that is done.
    fn visit_others(&mut self) -> bool {
        let Cluster { world, hosts, zk, etcd, .. } = &mut self.cluster;
        let member_count = hosts.len();
        if !hosts.is_ensemble() {
            return false;
        }
        let Some(round) = self.course.begin_visits(member_count) else { return false };
        zk.visit(round, world, member_count);
        etcd.visit(round, world, hosts);
        true
    }

    /// Whether all clients have said their last words, servers keep no connection that no client
    /// has, and members agree.
    fn has_settled(&self) -> Result<bool, String> {
        self.check_in_time()?;
        let Cluster { hosts, zk, etcd, .. } = &self.cluster;
        if !zk.clients.iter().all(Client::has_said_last_words) || !etcd.has_settled(hosts) {
            return Ok(false);
        }
        let there = zk.clients.iter().filter(|client| client.connection().is_some()).count();
        let mut connection_count = 0;
        for host in hosts.iter() {
            let Some(server) = host.server.as_ref().filter(|server| server.is_idle()) else {
                return Ok(false);
            };
            connection_count += server.connection_count();
        }
        Ok(connection_count == there
            && (!hosts.is_ensemble() || (hosts.do_agree() && hosts.do_all_vote())))
    }

    fn let_some_vanish(&mut self) {
        self.begin(Phase::Silence);
        let Cluster { world, hosts, zk, .. } = &mut self.cluster;
        let zxids = hosts.servers().map(|server| server.machine().mark().zxid.0);
        let zxid = zxids.max().expect("it answered the last words");
        let walls = hosts.iter().map(|host| host.clock.wall_ms(world.now_us));
        self.course.note_silence((zxid, walls.min().expect("there is a member")));
        let kept = world.random.below(zk.clients.len() as u64 + 1) as usize;
        for client in kept..zk.clients.len() {
            zk.clients[client].vanish(world, &mut zk.network);
            zk.wake(client, world);
        }
    }

    /// Whether the sessions of clients that vanished have had the time to expire.
    fn is_silence_over(&self) -> bool {
        let Cluster { options, world, hosts, zk, .. } = &self.cluster;
        let gone = zk.clients.iter().filter(|client| client.is_gone());
        let timeout_ms = gone.map(|client| client.session().1).max().unwrap_or(0);
        let settings = &options.member.options.spaces.zk;
        let timeout_us = u64::from(timeout_ms) * 1000;
        // A round of removals may have begun before.
        let rounds_us = match options.more_seed {
            Some(_) => 2 * u64::from(settings.containers.check_interval_ms) * 1000,
            None => 0,
        };
        let over_us = timeout_us.max(rounds_us) + settings.tick_ms * 1000 + LINGER_US_MAX;
        // While a disk hangs the server may take it for full. It renews all sessions once there is
        // room.
        let since_us = self.course.began_us().max(hosts.held_until_us());
        world.now_us >= since_us + over_us
    }

    /// Judges the life that served clients, ends it and gives its digest.
    fn end_last_life(&mut self) -> Result<Digest, String> {
        let hosts = &self.cluster.hosts;
        let first = hosts.servers().next().expect("it answered the last words");
        let digest = first.machine().digest();
        self.judge()?;
        self.cluster.check_levels()?;
        hosts.servers().try_for_each(Server::check_memory)?;
        hosts.servers().try_for_each(Server::check_levels_of_fronts)?;
        if hosts.is_any_wrong() {
            return Err("a state that was made wrong was found right".to_string());
        }
        self.begin(Phase::LastStart);
        let members = 0..self.cluster.hosts.len();
        members.for_each(|member| self.cluster.end_process(member, true));
        Ok(digest)
    }

    fn judge(&self) -> Result<(), String> {
        let Cluster { options, hosts, zk, .. } = &self.cluster;
        let machines: Vec<_> = hosts.servers().map(Server::machine).collect();
        let verdict = check(&self.cluster.evidence(), &machines)?;
        self.judge_etcd(&machines)?;
        let gone = zk.clients.iter().filter(|client| client.is_gone()).map(Client::session);
        let settings = &options.member.options.spaces.zk;
        check_late_expiries(&verdict, gone, self.course.began_us(), settings.tick_ms)?;
        match options.more_seed {
            Some(_) if self.course.phase() == Phase::Silence => {
                let (zxid, wall_ms) = self.course.silence_began_at();
                check_late_removals(&verdict, zxid, wall_ms, settings.containers.never_used_ms_max)
            }
            _ => Ok(()),
        }
    }

    /// Judges the calls of etcd's clients, and the states of members if they are given.
    fn judge_etcd(&self, machines: &[&Machine]) -> Result<EtcdCounts, String> {
        let slack_us = LEASE_SLACK_US + self.faults.clock_jumps() * LEASE_JUMP_US_MAX;
        let (evidence, is_last) = (self.cluster.evidence(), self.course.is_last());
        self.cluster.etcd.judge(&evidence, machines, slack_us, is_last)
    }

    /// Checks after the last start that the state is what it was. In an ensemble some members are
    /// ready before others, and znodes may have gone by themselves: there the committed order says
    /// what the state must be.
    fn finish(self, digest: Option<Digest>) -> Result<Summary, String> {
        let Cluster { options, world, hosts, zk, witness, levels, .. } = &self.cluster;
        let machines: Vec<_> = hosts.servers().map(Server::machine).collect();
        if !hosts.is_ensemble() && Some(machines[0].digest()) != digest {
            return Err("after a loss of power the state is another one".to_string());
        }
        // The last entries that were handed over may not be applied by any member yet.
        let newest = witness.newest_index();
        let are_there = machines.iter().all(|machine| machine.index().0 == newest);
        let is_known = !hosts.is_ensemble() || (hosts.do_agree() && are_there);
        let machines = if is_known { machines } else { Vec::new() };
        let verdict = check(&self.cluster.evidence(), &machines)?;
        let etcd = self.judge_etcd(&machines)?;
        let LifeCounts { snapshots, turned_away_count } = hosts.life_counts();
        Ok(Summary {
            seed: options.seed,
            member_count: hosts.len(),
            trace: world.trace(),
            event_count: world.event_count(),
            virtual_us: world.now_us,
            worked_us: self.course.worked_us(),
            led_count: witness.led_count(),
            entry_count: witness.entry_count(),
            disk_ops: hosts.iter().map(|host| host.disk.ops()).sum(),
            turned_away_count,
            snapshots,
            given_up: witness.check_given_up()?,
            members: hosts.counts,
            faults: self.faults.counts().clone(),
            levels: levels.counts(witness.levels.raised_us()),
            zk: zk.counts(&verdict, hosts.len()),
            etcd,
        })
    }
}

/// Draws the configuration of a member, as that of a standalone server.
fn draw_member(
    random: &mut Random,
    tick_ms: u64,
    secret: [u8; 32],
    is_heavy: bool,
    segment_bytes: u64,
) -> MemberConfig {
    MemberConfig {
        number: 0,
        servers: Vec::new(),
        birth: None,
        attendance: Attendance::All,
        lost_count: 0,
        front_count: random.between(1, 3) as u32,
        etcd_front_count: 0,
        watch_bounds: Default::default(),
        progress_ms: member::limits::ETCD_PROGRESS_MS,
        secret,
        options: recovery::Options {
            spaces: spaces::Options {
                zk: spaces::zk::Options { tick_ms, ..Default::default() },
                ..Default::default()
            },
            servers: Default::default(),
            known: Known::up_to(Level::RELEASED),
            session_timeout_ms_min: 2 * tick_ms as u32,
            raft_tick_ms: RAFT_TICK_ALONE_MS,
            log_memory: LogMemory::default(),
            server: 0,
            snapshot_commands: match is_heavy {
                true => random.magnitude(200, 5_000),
                false => random.magnitude(10, 400),
            },
            disk_stall_ms: member::limits::DISK_STALL_MS,
            snapshot_log: match !is_heavy && random.one_in(3) {
                true => SnapshotLog::Bytes(random.magnitude(2_000, 200_000)),
                false => SnapshotLog::Unbounded,
            },
        },
        wal: WalOptions {
            segment_bytes,
            first_segment_bytes: 64 * 1024,
            spare_count: if is_heavy { 1 } else { random.between(1, 3) as usize },
            ..WalOptions::default()
        },
        read_only_after_ms: None,
        room_bytes_min: segment_bytes * random.between(1, 3) / 4,
        mail_max: random.magnitude(1, 64) as usize,
        frame_bytes_max: FRAME_BYTES_MAX,
        throttles: Throttles::default(),
        syncs_are_even: false,
        sabotage: None,
    }
}

fn draw_clients(random: &mut Random, tick_ms: u64, is_heavy: bool) -> Vec<ClientConfig> {
    let is_erratic = !random.one_in(4);
    (0..random.between(1, 5))
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
        .collect()
}

/// Draws settings that the first seeds did not have.
fn draw_more(more: &mut Random, options: &mut recovery::Options) {
    options.spaces.zk.settings.extended_types = !more.one_in(4);
    options.spaces.zk.settings.enforce_quota = !more.one_in(4);
    options.spaces.zk.containers = ContainerSettings {
        check_interval_ms: more.magnitude(20, 2_000) as u32,
        removals_per_minute_max: more.magnitude(6_000, 60_000) as u32,
        never_used_ms_max: match more.one_in(2) {
            true => 0,
            false => more.magnitude(1, 20_000),
        },
    };
}

/// The records of the servers. They have no addresses for ZooKeeper: no judge knows the znode that
/// would show them.
fn server_list(count: u64) -> ServerList {
    let server = |number: u64| ServerRecord {
        name: format!("server {number}"),
        role: ServerRole::Voter,
        peer_urls: vec![format!("http://server{number}:2888")],
        client_urls: Vec::new(),
        zk: None,
    };
    ServerList { version: 0, servers: (1..=count).map(|number| (number, server(number))).collect() }
}

/// The machines of all members. The first one has this disk.
fn hosts(options: &Options, disk: SimDisk, mut random: Random) -> Vec<Host> {
    if options.member_count == 1 {
        return vec![Host::new(options.member.clone(), disk, Clock::default())];
    }
    let mut secret = || {
        let mut secret = [0; 32];
        secret.fill_with(|| random.bits() as u8);
        secret
    };
    let mut secrets: Vec<[u8; 32]> = (0..options.member_count).map(|_| secret()).collect();
    secrets.sort_unstable_by_key(|secret| draw_ids(secret).1);
    let ensemble: Vec<u64> = secrets.iter().map(|secret| draw_ids(secret).1.0).collect();
    let mut disks = vec![disk];
    disks.resize_with(options.member_count, || SimDisk::new(random.bits(), options.syncs_lie));
    let birth = Birth { cluster_id: 1, voters: ensemble };
    let mut hosts = Vec::new();
    for (number, disk) in disks.into_iter().enumerate() {
        let clock = Clock {
            fast_ppm: random.below(2 * CLOCK_PPM_MAX + 1) as i64 - CLOCK_PPM_MAX as i64,
            wall_offset_ms: random.magnitude(1, 10_000) as i64 - 100,
            monotonic_offset_us: 0,
        };
        let secret = secrets[number];
        let servers = (1..=options.member_count as u64).collect();
        let birth = (!options.begins_unborn).then(|| birth.clone());
        let config = MemberConfig { number, servers, birth, secret, ..options.member.clone() };
        let mut host = Host::new(config, disk, clock);
        host.config.options.server = number as u64 + 1;
        host.config.options.servers = server_list(options.member_count as u64);
        hosts.push(host);
    }
    hosts
}
