//! A run: the world, the members, the clients and the faults, event by event, and the end of the
//! run.
//!
//! A run has three parts. While faults come, clients work. Then the faults stop: each process that
//! is down is started, every member must serve, all must have one state and the clients must finish
//! within a bounded time. At last power is cut once more, everywhere: each member must come back
//! with the state that it had, to the bit.

mod damage;
mod deceit;
mod directory;
mod etcd;
mod faults;
mod host;
mod levels;
mod locks;
mod machines;
#[cfg(test)]
mod play;
mod process;

use std::collections::BTreeMap;

use machine::{Level, ServerList, ServerRecord, ServerRole};
use member::limits::QUIET_TIMEOUT_MS_MIN;
use member::membership::bootstrap::Attendance;
use member::membership::hello::Known;
use member::recovery::{self, draw_ids};
use member::snapshot::log_rule::SnapshotLog;
use member::spaces::{self, zk::containers::ContainerSettings};
use replica::LogMemory;
use storage::datadir::Birth;
use storage::wal::WalOptions;
use workload::generate::{OWNED, Random};
use workload::history::{History, Received};
use workload::op::{Op, error};

use crate::build::Builds;
use crate::check::{Evidence, check, check_late_expiries, check_late_removals};
use crate::client::{Client, ClientConfig, Wish};
use crate::disk::SimDisk;
use crate::etcd_clients::{EtcdClients, EtcdLoad};
use crate::fault::{Disks, Fault, FaultMix, LATER_SEED, Whom};
use crate::limits::{
    CLOCK_PPM_MAX, EVENTS_MAX, FIND_OUT_TRIES_MAX, FINISH_US_MAX, FRAME_BYTES_MAX, LINGER_US_MAX,
    MEMBERS_MAX, RAFT_TICK_ALONE_MS, RAFT_TICK_MS, READ_ONLY_AFTER_MS, READ_ONLY_OPS,
    READ_ONLY_THINK_US, READY_US_MAX,
};
use crate::links::{Links, Told};
use crate::network::Network;
use crate::server::{MemberConfig, Server, Throttles, Unborn};
use crate::witness::Witness;
use crate::world::{Clock, Event, World};
pub use etcd::{EtcdCounts, WatchCounts};
use host::{Deceit, Host};
pub use levels::LevelCounts;
use levels::Levels;
use locks::Front;

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

/// What a run was like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The seed of the run.
    pub seed: u64,
    /// The number of members.
    pub member_count: usize,
    /// Terms that had a leader.
    pub led_count: usize,
    /// A hash of all events. Two runs of one seed have the same trace.
    pub trace: u64,
    /// Virtual time it took.
    pub virtual_us: u64,
    /// When all clients had done everything they had to, and had every answer.
    pub worked_us: u64,
    /// The number of events.
    pub event_count: u64,
    /// Starts of processes, those that failed included.
    pub start_count: u64,
    /// Faults, by name.
    pub faults: BTreeMap<String, u64>,
    /// Writes that were acknowledged.
    pub write_count: usize,
    /// Reads that were answered.
    pub read_count: usize,
    /// Reads that were answered on connections that are served reads only.
    pub read_only_count: usize,
    /// Requests that were refused on such connections.
    pub not_read_only_count: usize,
    /// Writes without a reply that took effect.
    pub unknown_done_count: usize,
    /// Watch events.
    pub event_received_count: usize,
    /// Watch events that came only for watches that stay.
    pub lasting_event_count: usize,
    /// Watch events that came and that only some users may see.
    pub private_event_count: usize,
    /// Watch events that were kept from connections that may not see them.
    pub hidden_event_count: usize,
    /// Watches that stay and were set again on another connection.
    pub lasting_again_count: usize,
    /// Watch events that a client missed while it was away, and was told of later.
    pub missed_count: usize,
    /// Writes that were refused for want of room.
    pub refused_count: usize,
    /// Sessions that expired.
    pub expired_count: usize,
    /// Containers and znodes with a time to live that went by themselves.
    pub gone_count: usize,
    /// Writes that a quota refused.
    pub over_quota_count: usize,
    /// Writes of znodes with owners that were done.
    pub owned_count: usize,
    /// Writes of znodes with owners that were refused for want of permission.
    pub denied_count: usize,
    /// Requests that were refused because they had waited for too long.
    pub throttled_count: usize,
    /// Connections that a throttle closed.
    pub turned_away_count: usize,
    /// Connections that a member closed behind a frame that no server takes.
    pub ended_count: usize,
    /// Batches that nobody waited for any more and that went before any leader had them.
    pub withdrawn_count: usize,
    /// Commands that nobody waited for any more and that `Nothing` took the place of, after their
    /// batches had a sequence.
    pub given_up_count: usize,
    /// How many of these commands took effect all the same, since a leader had them already.
    pub given_up_done_count: usize,
    /// Snapshots taken.
    pub snapshot_count: u64,
    /// Snapshots that members fetched from others.
    pub fetched_count: u64,
    /// Snapshots that came whole from a member other than the leader.
    pub borrowed_count: u64,
    /// Directories that were born with a vote, once the members had found each other.
    pub founded_count: u64,
    /// Directories that were born to an ensemble that already existed.
    pub joined_count: u64,
    /// Directories that were corrupt or condemned, and were set aside.
    pub set_aside_count: u64,
    /// Members that deceived the others.
    pub deceit_count: u64,
    /// Members that were found out, and condemned their directories.
    pub condemned_count: u64,
    /// Files of running members in which bits have flipped.
    pub running_rot_count: u64,
    /// Times that another machine took a server's place.
    pub machine_change_count: u64,
    /// Snapshots restored.
    pub restored_count: usize,
    /// The longest that a client of each member waited for the answer to a write, or for the end of
    /// the connection instead.
    pub write_wait_us_max: Vec<u64>,
    /// Members that faults were for, in the order of the faults.
    pub struck: Vec<usize>,
    /// Log entries committed.
    pub entry_count: usize,
    /// Operations that changed the disk.
    pub disk_ops: u64,
    /// What happened about builds and levels.
    pub levels: LevelCounts,
    /// What etcd's clients did.
    pub etcd: EtcdCounts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Clients work, and things go wrong.
    Faults,
    /// Nothing goes wrong any more; clients finish.
    Calm,
    /// Clients say their last words.
    LastWords,
    /// Some clients vanish: their sessions expire, and those of the others do not.
    Silence,
    /// The members are started once more after a loss of power.
    LastStart,
}

/// A run under way.
pub(crate) struct Simulation {
    options: Options,
    world: World,
    hosts: Vec<Host>,
    network: Network,
    links: Links,
    clients: Vec<Client>,
    history: History,
    etcd: EtcdClients,
    witness: Witness,
    /// Counts the lives of all processes, and the times without one.
    lives: u64,
    start_count: u64,
    phase: Phase,
    phase_began_us: u64,
    may_refuse: bool,
    /// How often the monotonic clock of a machine has jumped ahead.
    clock_jumps: u64,
    worked_us: u64,
    snapshot_count: u64,
    turned_away_count: usize,
    fetched_count: u64,
    borrowed_count: u64,
    founded_count: u64,
    joined_count: u64,
    set_aside_count: u64,
    /// A deceit that waits until everything else is well.
    deceit: Option<(Whom, Deceit)>,
    deceit_count: u64,
    condemned_count: u64,
    /// Files of running members in which bits have flipped.
    running_rot_count: u64,
    /// Times that another machine took a server's place.
    machine_change_count: u64,
    /// Rounds of visits that clients have begun at the end.
    visit_count: usize,
    /// Rounds of extra operations that are to make members find out a state that was made wrong.
    tries_to_find_out: u64,
    struck: Vec<usize>,
    reliefs: BTreeMap<u32, (Vec<usize>, Fault)>,
    fault_counts: BTreeMap<String, u64>,
    /// Draws changes of the configuration, if there is more to configure.
    more: Option<Random>,
    /// The newest zxid and the wall clock when some clients vanished.
    silence_began_at: (i64, i64),
    /// Builds, and questions for a higher level.
    levels: Levels,
    /// What each client of etcd that wants a lock waits for, and since when.
    fronts: BTreeMap<usize, (Front, u64)>,
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
        let network = Network::new(random.fork());
        let clients = options.clients.iter().enumerate();
        let tick_us = options.member.options.spaces.zk.tick_ms * 1000;
        let clients = clients
            .map(|(number, config)| {
                Client::new(number as u32, config.clone(), tick_us, random.fork())
            })
            .collect();
        let mut apart = Random::new(options.seed ^ ENSEMBLE_SEED);
        let hosts = hosts(&options, disk, apart.fork());
        let disks = hosts.iter().map(|host| host.disk.clone()).collect();
        let mut simulation = Simulation {
            world: World::new(random.fork()),
            hosts,
            network,
            links: Links::new(options.member_count, apart.fork()),
            clients,
            history: History::default(),
            etcd: EtcdClients::new(options.etcd.as_ref()),
            witness: Witness::new(options.looks_inside, disks),
            lives: 0,
            start_count: 0,
            phase: Phase::Faults,
            phase_began_us: 0,
            may_refuse: false,
            clock_jumps: 0,
            worked_us: 0,
            snapshot_count: 0,
            turned_away_count: 0,
            fetched_count: 0,
            borrowed_count: 0,
            founded_count: 0,
            joined_count: 0,
            set_aside_count: 0,
            deceit: None,
            deceit_count: 0,
            condemned_count: 0,
            running_rot_count: 0,
            machine_change_count: 0,
            visit_count: 0,
            tries_to_find_out: 0,
            struck: Vec::new(),
            reliefs: BTreeMap::new(),
            fault_counts: BTreeMap::new(),
            more: options.more_seed.map(Random::new),
            silence_began_at: (0, 0),
            levels: Levels::new(options.builds.clone()),
            fronts: BTreeMap::new(),
            options,
        };
        simulation.schedule_first(&mut apart);
        simulation
    }

    /// Schedules the events with which a run begins. `apart` is the chance of ensembles.
    fn schedule_first(&mut self, apart: &mut Random) {
        if let Some(more) = &mut self.more {
            self.clients.iter_mut().for_each(|client| client.do_more(more.fork()));
        }
        self.begin_later_ops();
        self.begin_asking();
        for member in 0..self.hosts.len() {
            // An operator does not start all servers at one moment.
            let at_us = match self.options.begins_unborn {
                true => apart.magnitude(1, 5_000_000),
                false => 0,
            };
            self.world.schedule(at_us, Event::Start { member });
        }
        if self.options.begins_unborn && self.options.faults.is_any() {
            self.trouble_birth(apart);
        }
        if let Some((op, power_is_cut)) = self.options.stop_at {
            self.hosts[0].stop_at(op, power_is_cut);
        }
        if let Some(mut wait_us) = self.options.faults.next_us() {
            // The first fault may come sooner than the interval says: before there is an ensemble.
            if self.options.begins_unborn && apart.one_in(2) {
                wait_us = wait_us.min(apart.magnitude(1_000, 5_000_000));
            }
            self.world.schedule(wait_us, Event::Fault);
        }
        for client in 0..self.clients.len() {
            self.wake_client(client);
        }
        for client in 0..self.etcd.clients.len() {
            self.wake_etcd_client(client);
        }
    }

    fn begin_later_ops(&mut self) {
        let LaterOps {
            bad_frames,
            lasting_watches,
            users,
            throttles: _,
            read_only,
            private_znodes,
        } = self.options.later_ops;
        if let Some(mut random) = bad_frames.map(Random::new) {
            self.clients.iter_mut().for_each(|it| it.send_bad_frames(random.fork()));
        }
        if let Some(mut random) = lasting_watches.map(Random::new) {
            self.clients.iter_mut().for_each(|it| it.set_lasting_watches(random.fork()));
        }
        if let Some(mut random) = users.map(Random::new) {
            self.clients.iter_mut().for_each(|it| it.be_users(random.fork()));
        }
        if let Some(mut random) = private_znodes.map(Random::new) {
            self.clients.iter_mut().for_each(|it| it.have_private_znodes(random.fork()));
        }
        if let Some(mut random) = read_only.map(Random::new) {
            for client in &mut self.clients {
                if random.one_in(2) {
                    client.take_reads_only(random.fork());
                }
            }
        }
    }

    fn is_ensemble(&self) -> bool {
        self.hosts.len() > 1
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
            if self.is_ensemble() {
                self.note_trouble();
                self.pursue_deceit();
                self.pursue_builds();
            }
            match self.phase {
                Phase::Faults => self.maybe_calm(),
                Phase::Calm => self.maybe_last_words()?,
                Phase::LastWords => {
                    if self.has_settled()? && !self.visit_others() && !self.ask_at_last()? {
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
                    if self
                        .hosts
                        .iter()
                        .all(|host| host.server.as_ref().is_some_and(Server::is_ready))
                    {
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
                let lives = |host: &Host| host.life == life && host.server.is_some();
                let Some(member) = self.hosts.iter().position(lives) else {
                    self.keep_for_later(life, event);
                    return Ok(());
                };
                let paused_until_us = self.hosts[member].paused_until_us;
                if self.world.now_us < paused_until_us {
                    self.world.schedule(paused_until_us, event);
                    return Ok(());
                }
                self.on_process(member, event)
            }
            Event::Arrive { connection, at_server } => self.on_arrival(connection, at_server),
            Event::Client { client, token } => {
                if self.clients[client].token == token {
                    self.on_client(client)?;
                }
                Ok(())
            }
            Event::Start { member } => self.start(member),
            Event::Decide { life } => self.decide(life),
            Event::Leave { life, until_us } => {
                self.leave(life, until_us);
                Ok(())
            }
            Event::Frame { .. }
            | Event::Dial { .. }
            | Event::LinkOver { .. }
            | Event::LinkPatience { .. } => {
                self.on_link_event(event);
                Ok(())
            }
            Event::Fault => {
                if self.phase == Phase::Faults {
                    // Nothing else goes wrong while a member deceives the others.
                    if !self.is_any_deceiving() {
                        self.fault();
                    }
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
            Event::Stutter { member } => {
                self.stand_still(member);
                Ok(())
            }
            Event::Ask { planned } => {
                self.on_ask(planned);
                Ok(())
            }
            Event::Strike { is_raising } => {
                self.strike(is_raising);
                Ok(())
            }
            Event::EtcdArrive { .. } | Event::EtcdClient { .. } => self.on_etcd_event(event),
        }
    }

    /// Something happens to the links between members.
    fn on_link_event(&mut self, event: Event) {
        match event {
            Event::Frame { link, epoch, is_bulk } => {
                let told = self.links.arrive(&mut self.world, link, epoch, is_bulk);
                told.into_iter().for_each(|told| self.tell(told));
            }
            Event::Dial { link } => {
                let hosts = &self.hosts;
                let now_us = self.world.now_us;
                let hello = |member: usize| {
                    let host: &Host = &hosts[member];
                    host.hello().filter(|_| host.is_awake(now_us)).cloned()
                };
                let told = self.links.dial(&mut self.world, link, hello);
                self.note_refused_links();
                told.into_iter().for_each(|told| self.tell(told));
            }
            Event::LinkOver { link, epoch } => {
                let told = self.links.over(&mut self.world, link, epoch);
                told.into_iter().for_each(|told| self.tell(told));
            }
            Event::LinkPatience { link, epoch } => {
                self.links.lose_patience(&mut self.world, link, epoch);
            }
            _ => unreachable!("the caller checked that it exists"),
        }
    }

    /// Tells a member what the links say.
    fn tell(&mut self, told: Told) {
        let member = match &told {
            Told::Frame { member, .. } | Told::Link { member, .. } => *member,
            Told::Linked { member, .. } => *member,
        };
        let host = &mut self.hosts[member];
        match (&mut host.server, &mut host.unborn, told) {
            (Some(server), _, Told::Frame { from, frame, .. }) => {
                server.on_peer(from, frame, &mut self.world);
            }
            (Some(server), _, Told::Link { peer, is_up, .. }) => {
                server.on_link(&peer, is_up, &mut self.world);
            }
            (Some(server), _, Told::Linked { peer, is_up, .. }) => {
                server.on_linked(&peer, is_up, &mut self.world);
            }
            (
                None,
                Some(unborn),
                Told::Link { peer, is_up, .. } | Told::Linked { peer, is_up, .. },
            ) => {
                unborn.on_link(&peer, is_up);
                let at_us = self.world.now_us + self.world.hop_us();
                self.world.schedule(at_us, Event::Decide { life: unborn.life() });
            }
            (None, ..) => {}
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
        let (member, life) = {
            let connection = &self.network.connections[number];
            (connection.member, connection.life)
        };
        if let Some(server) = &mut self.hosts[member].server
            && server.life() == life
        {
            server.on_socket(number, &mut self.world, &self.network);
        }
    }

    fn let_client_read(&mut self, client: usize) -> Result<(), String> {
        let number = self.clients[client].connection();
        self.clients[client].on_arrival(&mut self.world, &mut self.network, &mut self.history)?;
        // The connection has room again for what the server has to say.
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
        let member = self.clients[client].next_member(self.hosts.len());
        let is_last = self.phase == Phase::LastStart;
        let server = self.hosts[member].server.as_mut();
        let Some(server) = server.filter(|server| server.is_open() && !is_last) else {
            self.clients[client].on_refused(self.world.now_us);
            return;
        };
        let number = self.network.connect(client, member, server.life(), self.world.now_us);
        let asked = self.clients[client].ask();
        assert!(self.history.connect(client as u32, asked.0, asked.1) == number);
        let record = &mut self.history.connections[number];
        record.takes_read_only = self.clients[client].takes_reads_only();
        record.zxid_floor = self.clients[client].last_zxid().max(server.machine().mark().zxid.0);
        server.accept(number, &mut self.world, &mut self.network);
        let (world, network) = (&mut self.world, &mut self.network);
        if self.clients[client].maybe_spoil_connect(number, world, network, &mut self.history) {
            return;
        }
        self.clients[client].on_connected(number, asked, &mut self.world, &mut self.network);
        // A slow disk keeps writes on their way long enough for the race.
        let may_be_slow =
            self.phase == Phase::Faults && self.world.random.one_in(2) && !self.is_any_deceiving();
        if self.clients[client].take_race() && may_be_slow {
            let factor = self.world.random.magnitude(300, 3_000);
            let for_us = self.world.random.magnitude(100_000, 3_000_000);
            self.begin_fault(
                Whom::one(member),
                Fault::SlowDisk { disks: Disks::Both, factor, for_us },
            );
        }
    }

    fn wake_client(&mut self, client: usize) {
        let token = self.world.token();
        self.clients[client].token = token;
        let at_us = self.clients[client].wakes_us(self.world.now_us);
        self.world.schedule(at_us, Event::Client { client, token });
    }

    // Phases.

    fn begin(&mut self, phase: Phase) {
        self.say(None, || format!("{phase:?}"));
        self.phase = phase;
        self.phase_began_us = self.world.now_us;
    }

    fn are_idle(&self) -> bool {
        self.clients.iter().all(Client::is_idle) && self.is_etcd_idle()
    }

    fn maybe_calm(&mut self) {
        if self.world.now_us < self.options.faults_us && !self.are_idle() {
            return;
        }
        self.begin(Phase::Calm);
        self.deceit = None;
        self.end_old_builds();
        for host in &mut self.hosts {
            host.hang_until(Disks::Both, 0);
            if let Some(server) = &mut host.server {
                server.starve_apply(0);
            }
        }
        let reliefs: Vec<u32> = self.reliefs.keys().copied().collect();
        reliefs.into_iter().for_each(|number| self.relieve(number));
        for host in &self.hosts {
            host.disk.change_plan(|plan| {
                plan.stop_at = None;
                plan.fail.clear();
                plan.bytes_max = None;
            });
        }
        for client in 0..self.clients.len() {
            self.clients[client].calm_down();
            self.wake_client(client);
        }
        self.calm_etcd();
    }

    /// Checks that a started server serves soon and that clients finish, when nothing goes wrong.
    fn check_in_time(&self) -> Result<(), String> {
        let now_us = self.world.now_us;
        let paused_us = self.hosts.iter().map(|host| host.paused_until_us).max().unwrap_or(0);
        let able_us = self.phase_began_us.max(paused_us).max(self.quorum_held_us());
        let since_us = |began_us: u64| now_us - began_us.max(able_us).min(now_us);
        for (member, host) in self.hosts.iter().enumerate() {
            let unborn_us = host.unborn.as_ref().map(Unborn::started_us);
            let server = host.server.as_ref().filter(|server| !server.is_ready());
            let waits_us = unborn_us.or(server.map(Server::started_us));
            if waits_us.is_some_and(|at_us| since_us(at_us) > READY_US_MAX) {
                let states: Vec<String> = self.hosts.iter().map(Host::describe).collect();
                let states = states.join("; ");
                return Err(format!("started server {member} does not become ready: {states}"));
            }
        }
        self.check_etcd_in_time(now_us - since_us(0))?;
        if since_us(0) > FINISH_US_MAX {
            let late: Vec<usize> =
                (0..self.clients.len()).filter(|at| !self.clients[*at].is_idle()).collect();
            let states: Vec<String> = self.hosts.iter().map(Host::describe).collect();
            let views: Vec<String> = self
                .servers()
                .map(|server| {
                    let machine = server.machine();
                    let (index, mark) = (machine.index(), machine.mark());
                    let (connections, digest) = (server.connection_count(), machine.digest());
                    format!("{connections} connections, {index:?}, {mark:?}, {digest:?}")
                })
                .collect();
            let of_etcd = self.etcd.clients.iter().map(|client| client.describe());
            let clients = self.clients.iter().map(Client::describe).chain(of_etcd);
            let clients: Vec<String> = clients.collect();
            return Err(format!(
                "clients {late:?} do not finish, in phase {:?}, {clients:?}, {views:?}; {}",
                self.phase,
                states.join("; ")
            ));
        }
        Ok(())
    }

    /// Until when the disks of so many servers hang that the others are no quorum. A sync that hung
    /// before the calm ends as late as it would have.
    fn quorum_held_us(&self) -> u64 {
        let serves = |host: &&Host| host.server.as_ref().is_some_and(Server::is_ready);
        let serving = self.hosts.iter().filter(serves);
        let mut held_us: Vec<u64> = serving.map(|host| host.held_until_us).collect();
        held_us.sort_unstable();
        held_us.get(self.hosts.len() / 2).or(held_us.last()).copied().unwrap_or(0)
    }

    fn maybe_last_words(&mut self) -> Result<(), String> {
        self.check_in_time()?;
        if self.are_idle() && self.is_any_wrong() {
            // A wrong state is found out when a new entry comes, by members that are there.
            let is_ready = |host: &Host| host.server.as_ref().is_some_and(Server::is_ready);
            if !self.hosts.iter().all(is_ready) {
                return Ok(());
            }
            self.tries_to_find_out += 1;
            if self.tries_to_find_out > FIND_OUT_TRIES_MAX {
                let states: Vec<String> = self.hosts.iter().map(Host::describe).collect();
                let states = states.join("; ");
                return Err(format!("a state that was made wrong is not found out: {states}"));
            }
            for client in 0..self.clients.len() {
                self.clients[client].do_one_more();
                self.wake_client(client);
            }
        } else if self.are_idle() {
            self.begin(Phase::LastWords);
            self.worked_us = self.world.now_us;
            for client in 0..self.clients.len() {
                self.clients[client].say_last_words();
                self.wake_client(client);
            }
            self.visit_with_etcd(0);
        }
        Ok(())
    }

    /// Sends all clients to other members, which must answer them as well, until each client was at
    /// each member. Returns false when that is done.
    fn visit_others(&mut self) -> bool {
        let member_count = self.hosts.len();
        if !self.is_ensemble() || self.visit_count == member_count {
            return false;
        }
        for client in 0..self.clients.len() {
            let member = (client + self.visit_count) % member_count;
            self.clients[client].visit(member, &mut self.world, &mut self.network);
            self.wake_client(client);
        }
        self.visit_with_etcd(self.visit_count);
        self.visit_count += 1;
        true
    }

    /// Whether all clients have said their last words, servers keep no connection that no client
    /// has, and members agree.
    fn has_settled(&self) -> Result<bool, String> {
        self.check_in_time()?;
        if !self.clients.iter().all(Client::has_said_last_words) || !self.has_etcd_settled() {
            return Ok(false);
        }
        let there = self.clients.iter().filter(|client| client.connection().is_some()).count();
        let mut connection_count = 0;
        for host in &self.hosts {
            let Some(server) = host.server.as_ref().filter(|server| server.is_idle()) else {
                return Ok(false);
            };
            connection_count += server.connection_count();
        }
        Ok(connection_count == there
            && (!self.is_ensemble() || (self.do_agree() && self.do_all_vote())))
    }

    /// Whether every server runs and has a vote, and no other member has one.
    fn do_all_vote(&self) -> bool {
        let mut ids: Vec<u64> = self.servers().map(|server| server.hello().member.0).collect();
        ids.sort_unstable();
        ids.len() == self.hosts.len() && self.servers().all(|server| server.voters() == ids)
    }

    /// Whether all members that run have the same leader and the same state.
    fn do_agree(&self) -> bool {
        let mut views = self.servers().map(|server| {
            let (status, machine) = (server.status(), server.machine());
            let state = (machine.index(), machine.mark(), machine.digest());
            (server.is_ready(), status.term, status.leader, state)
        });
        let first = views.next();
        first.is_some_and(|(is_ready, _, leader, ..)| is_ready && leader.is_some())
            && views.all(|view| Some(view) == first)
    }

    fn servers(&self) -> impl Iterator<Item = &Server> {
        self.hosts.iter().filter_map(|host| host.server.as_ref())
    }

    fn let_some_vanish(&mut self) {
        self.begin(Phase::Silence);
        let zxids = self.servers().map(|server| server.machine().mark().zxid.0);
        let zxid = zxids.max().expect("it answered the last words");
        let walls = self.hosts.iter().map(|host| host.clock.wall_ms(self.world.now_us));
        self.silence_began_at = (zxid, walls.min().expect("there is a member"));
        let kept = self.world.random.below(self.clients.len() as u64 + 1) as usize;
        for client in kept..self.clients.len() {
            self.clients[client].vanish(&mut self.world, &mut self.network);
            self.wake_client(client);
        }
    }

    /// Whether the sessions of clients that vanished have had the time to expire.
    fn is_silence_over(&self) -> bool {
        let gone = self.clients.iter().filter(|client| client.is_gone());
        let timeout_ms = gone.map(|client| client.session().1).max().unwrap_or(0);
        let tick_us = self.options.member.options.spaces.zk.tick_ms * 1000;
        let timeout_us = u64::from(timeout_ms) * 1000;
        // A round of removals may have begun before.
        let containers = &self.options.member.options.spaces.zk.containers;
        let rounds_us = match self.more {
            Some(_) => 2 * u64::from(containers.check_interval_ms) * 1000,
            None => 0,
        };
        let over_us = timeout_us.max(rounds_us) + tick_us + LINGER_US_MAX;
        // While a disk hangs the server may take it for full. It renews all sessions once there is
        // room.
        let held_us = self.hosts.iter().map(|host| host.held_until_us).max().unwrap_or(0);
        self.world.now_us >= self.phase_began_us.max(held_us) + over_us
    }

    /// Judges the life that served clients, ends it and gives its digest.
    fn end_last_life(&mut self) -> Result<machine::digest::Digest, String> {
        let digest = self.servers().next().expect("it answered the last words").machine().digest();
        self.judge()?;
        self.check_levels()?;
        self.servers().try_for_each(Server::check_memory)?;
        self.servers().try_for_each(Server::check_levels_of_fronts)?;
        if self.is_any_wrong() {
            return Err("a state that was made wrong was found right".to_string());
        }
        self.begin(Phase::LastStart);
        (0..self.hosts.len()).for_each(|member| self.end_process(member, true));
        Ok(digest)
    }

    fn evidence(&self) -> Evidence<'_> {
        Evidence {
            history: &self.history,
            witness: &self.witness,
            network: &self.network,
            waking: self.hosts.iter().map(|host| &host.waking).collect(),
            trouble: self.hosts.iter().map(|host| &host.trouble).collect(),
            lag: self.hosts.iter().map(|host| &host.lag).collect(),
            cut_off: self.hosts.iter().map(|host| &host.cut_off).collect(),
            now_us: self.world.now_us,
            may_refuse: self.may_refuse,
            may_throttle: self.options.member.throttles.op_wait_ms > 0,
            never_used_ms_max: self.options.member.options.spaces.zk.containers.never_used_ms_max,
        }
    }

    fn judge(&self) -> Result<(), String> {
        let machines: Vec<_> = self.servers().map(Server::machine).collect();
        let verdict = check(&self.evidence(), &machines)?;
        self.judge_etcd(&machines)?;
        let gone = self.clients.iter().filter(|client| client.is_gone()).map(Client::session);
        check_late_expiries(
            &verdict,
            gone,
            self.phase_began_us,
            self.options.member.options.spaces.zk.tick_ms,
        )?;
        match self.more {
            Some(_) if self.phase == Phase::Silence => {
                let (zxid, wall_ms) = self.silence_began_at;
                let containers = &self.options.member.options.spaces.zk.containers;
                check_late_removals(&verdict, zxid, wall_ms, containers.never_used_ms_max)
            }
            _ => Ok(()),
        }
    }

    /// Checks after the last start that the state is what it was. In an ensemble some members are
    /// ready before others, and znodes may have gone by themselves: there the committed order says
    /// what the state must be.
    fn finish(self, digest: Option<machine::digest::Digest>) -> Result<Summary, String> {
        let machines: Vec<_> = self.servers().map(Server::machine).collect();
        if !self.is_ensemble() && Some(machines[0].digest()) != digest {
            return Err("after a loss of power the state is another one".to_string());
        }
        // The last entries that were handed over may not be applied by any member yet.
        let newest = self.witness.newest_index();
        let are_there = machines.iter().all(|machine| machine.index().0 == newest);
        let is_known = !self.is_ensemble() || (self.do_agree() && are_there);
        let machines = if is_known { machines } else { Vec::new() };
        let verdict = check(&self.evidence(), &machines)?;
        let etcd = self.judge_etcd(&machines)?;
        let given_up = self.witness.check_given_up()?;
        let snapshot_count = self.servers().map(Server::snapshot_count).sum::<u64>();
        let turned_away_count = self.servers().map(Server::turned_away_count).sum::<usize>();
        let fetched_count = self.servers().map(Server::fetched_count).sum::<u64>();
        let borrowed = self.servers().map(|server| server.counts().snapshots_borrowed);
        let borrowed_count = borrowed.sum::<u64>();
        Ok(Summary {
            seed: self.options.seed,
            member_count: self.hosts.len(),
            led_count: self.witness.led_count(),
            trace: self.world.trace(),
            virtual_us: self.world.now_us,
            worked_us: self.worked_us,
            event_count: self.world.event_count(),
            start_count: self.start_count,
            missed_count: self.missed_count(),
            lasting_event_count: verdict.lasting_event_count,
            private_event_count: verdict.private_event_count,
            hidden_event_count: verdict.hidden_event_count,
            lasting_again_count: self.lasting_again_count(),
            faults: self.fault_counts.clone(),
            write_count: verdict.acknowledged.len(),
            refused_count: verdict.refused_count,
            read_count: verdict.read_count,
            read_only_count: verdict.read_only_count,
            not_read_only_count: verdict.not_read_only_count,
            unknown_done_count: verdict.unknown_done_count,
            event_received_count: verdict.event_count,
            expired_count: verdict.expired.len(),
            gone_count: verdict.gone_count,
            over_quota_count: verdict.over_quota_count,
            owned_count: self.owned_count(error::OK),
            denied_count: self.owned_count(error::NO_AUTH),
            throttled_count: verdict.throttled_count,
            turned_away_count: self.turned_away_count + turned_away_count,
            ended_count: self.clients.iter().map(Client::ended_count).sum(),
            withdrawn_count: given_up.gone,
            given_up_count: given_up.replaced,
            given_up_done_count: given_up.done,
            snapshot_count: self.snapshot_count + snapshot_count,
            fetched_count: self.fetched_count + fetched_count,
            borrowed_count: self.borrowed_count + borrowed_count,
            founded_count: self.founded_count,
            joined_count: self.joined_count,
            set_aside_count: self.set_aside_count,
            deceit_count: self.deceit_count,
            condemned_count: self.condemned_count,
            running_rot_count: self.running_rot_count,
            machine_change_count: self.machine_change_count,
            restored_count: verdict.installed_count,
            write_wait_us_max: self.write_wait_us_max(),
            struck: self.struck.clone(),
            entry_count: self.witness.entry_count(),
            disk_ops: self.hosts.iter().map(|host| host.disk.ops()).sum(),
            levels: self.level_counts(),
            etcd,
        })
    }

    fn write_wait_us_max(&self) -> Vec<u64> {
        let mut longest_us = vec![0; self.hosts.len()];
        for record in self.history.ops.iter().filter(|record| record.op.is_write()) {
            let connection = &self.network.connections[record.connection];
            let answered_us = record.completed.as_ref().map(|completed| completed.moment.at_us);
            let over_us = answered_us.unwrap_or(connection.left_us);
            let wait_us = over_us.saturating_sub(record.invoked.at_us);
            let longest_us = &mut longest_us[connection.member];
            *longest_us = wait_us.max(*longest_us);
        }
        longest_us
    }

    /// The number of answers with this code to writes of znodes that have owners.
    fn owned_count(&self, code: i32) -> usize {
        let records = self.history.ops.iter().filter(|record| match &record.op {
            Op::CreateOwned { .. } | Op::SetAclOwned { .. } => true,
            Op::SetData { path, .. } | Op::Delete { path, .. } => {
                path.split('/').any(|name| name == OWNED)
            }
            _ => false,
        });
        let completed = records.filter_map(|record| record.completed.as_ref());
        completed.filter(|completed| completed.error == code).count()
    }

    fn lasting_again_count(&self) -> usize {
        let answered = self.history.ops.iter().filter(|record| record.completed.is_some());
        let lasting = answered.map(|record| match &record.op {
            Op::SetWatches2 { persistent, recursive, .. } => persistent.len() + recursive.len(),
            _ => 0,
        });
        lasting.sum()
    }

    fn missed_count(&self) -> usize {
        let received = self.history.connections.iter().flat_map(|it| &it.received);
        received.filter(|it| matches!(it, Received::Event { zxid: -1, .. })).count()
    }

    fn say(&self, member: Option<usize>, what: impl FnOnce() -> String) {
        if self.options.is_verbose {
            let which = member.filter(|_| self.is_ensemble());
            let which = which.map(|member| format!("member {member}: ")).unwrap_or_default();
            eprintln!("{:>12} us: {which}{}", self.world.now_us, what());
        }
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
