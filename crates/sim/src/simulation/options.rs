//! The options of a run, and how they are drawn from the seed.

use machine::Level;
use member::limits::QUIET_TIMEOUT_MS_MIN;
use member::membership::bootstrap::Attendance;
use member::membership::hello::Known;
use member::order;
use member::recovery;
use member::snapshot::log_rule::SnapshotLog;
use member::spaces::{self, zk::containers::ContainerSettings};
use replica::LogMemory;
use storage::wal::WalOptions;
use workload::generate::Random;

use crate::build::Builds;
use crate::client::ClientConfig;
use crate::etcd_clients::EtcdLoad;
use crate::fault::{FaultMix, LATER_SEED};
use crate::limits::{
    FRAME_BYTES_MAX, MEMBERS_MAX, RAFT_TICK_ALONE_MS, RAFT_TICK_MS, READ_ONLY_AFTER_MS,
    READ_ONLY_OPS, READ_ONLY_THINK_US,
};
use crate::member_changes::{ChangeLoad, HOSTS_MAX};
use crate::server::{MemberConfig, Throttles};

/// XORed into a seed to draw whether clients use containers, znodes with a time to live and quotas.
/// With this number the kept seeds (those in the tests) do not use them and keep their meaning.
const MORE_SEED: u64 = 0x6d6f_7265_0000_0002;

/// XORed into a seed to draw what only an ensemble has.
pub(super) const ENSEMBLE_SEED: u64 = 0x656e_7365_6d00_0001;

/// XORed into a seed to draw whether members deceive the others.
const DECEIT_SEED: u64 = 0x6465_6365_6974_0001;

/// XORed into a seed to draw the operations of clients that were added later. With this number the
/// kept seeds have none.
const LATER_OPS_SEED: u64 = 0x6c61_7465_6f70_010f;

/// XORed into the seed of read-only mode to draw the conditions that make members enter that mode.
const READ_ONLY_SEED: u64 = 0x7265_6164_0000_0001;

/// XORed into a seed to draw whether a leader is configured with the short session timeouts that
/// clients get. With this number no leader of a kept seed is.
const SHORT_TIMEOUT_SEED: u64 = 0x7365_7373_0000_000e;

/// XORed into a seed to draw whether a leader keeps more of its log for a member that is away.
const AWAY_SEED: u64 = 0x6177_6179;

/// XORed into a seed to draw whether any majority may begin the ensemble. With this number no kept
/// seed begins so.
const AGREEMENT_SEED: u64 = 0x6167_7265_0000_005a;

/// Kinds of client operations that were added later. Each field is the seed of one kind, or `None`
/// if the run does not have that kind; the rest of the run does not depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaterOps {
    /// Frames that every server must reject.
    pub bad_frames: Option<u64>,
    /// Persistent watches (they stay after an event).
    pub lasting_watches: Option<u64>,
    /// Clients that authenticate as users, and znodes that only some users may change.
    pub users: Option<u64>,
    /// Low throttles of the clients' concurrent work. Clients then send no bad frames: a throttled
    /// server answers an unknown operation with an error and does not end the connection.
    pub throttles: Option<u64>,
    /// Clients that accept read-only mode. Members of an ensemble then serve reads without a
    /// leader.
    pub read_only: Option<u64>,
    /// Clients that authenticate as users, and znodes that only some users may read.
    pub private_znodes: Option<u64>,
}

impl LaterOps {
    /// Draws the kinds that a run has; no kind at all in half of the runs.
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
            // A new kind must be drawn last, so that the kinds before it stay the same.
            read_only: kind(),
            private_znodes: kind(),
        }
    }
}

/// The options of a run. All else comes from the seed.
#[derive(Clone, Debug)]
pub struct Options {
    /// The seed of all random choices.
    pub seed: u64,
    /// How many members there are: 1 to [`MEMBERS_MAX`].
    pub member_count: usize,
    /// The configuration that all members share. Each member's own values are drawn from the seed.
    pub member: MemberConfig,
    /// The configuration of each client.
    pub clients: Vec<ClientConfig>,
    /// Whether the members begin with unborn directories, and must find each other and agree on the
    /// ensemble's birth. Otherwise they are born when they first start.
    pub begins_unborn: bool,
    /// The faults of the run.
    pub faults: FaultMix,
    /// How long faults come, in virtual us.
    pub faults_us: u64,
    /// Whether syncs of the disks do nothing, yet report success.
    pub syncs_lie: bool,
    /// The operation of the first member's disk at which the process ends, and whether power is cut
    /// then (`true`) or only the process ends; `None` for no such stop.
    pub stop_at: Option<(u64, bool)>,
    /// The seed of containers, znodes with a time to live and quotas, and of changes of their
    /// settings; `None` if clients do not use them. The rest of the run does not depend on it.
    pub more_seed: Option<u64>,
    /// Kinds of client operations that were added after the first seeds were kept. Each field is
    /// the seed of one kind, or `None` if the run does not have that kind; the rest of the run does
    /// not depend on the field, so that kept seeds keep their meaning.
    pub later_ops: LaterOps,
    /// The etcd clients and their settings; `None` if the run has none.
    pub etcd: Option<EtcdLoad>,
    /// The builds of an ensemble whose servers run different builds; `None` if all run one build
    /// that knows the released levels.
    pub builds: Option<Builds>,
    /// How etcd's clients change the members; `None` if they do not.
    pub changes: Option<ChangeLoad>,
    /// Whether some clients vanish at the end, to check that their sessions expire.
    pub some_vanish: bool,
    /// Whether the judges also check what members do inside, and not only what clients see.
    pub looks_inside: bool,
    /// Whether faults and process starts and ends are printed to standard error.
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
        // A heavy load: much data and few snapshots, so that segments fill and a disk may become
        // full.
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
            changes: None,
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
        // Elections take seconds, so faults come for longer.
        options.faults_us = random.magnitude(5_000_000, 120_000_000);
        let tick_ms = random.magnitude(500, 2_000);
        options.member.options.spaces.zk.tick_ms = tick_ms;
        options.member.options.order.raft_tick_ms = RAFT_TICK_MS;
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
        // The log in memory is so short that a member that was away needs a snapshot.
        if random.one_in(2) {
            let bytes_max = random.magnitude(1_000, 300_000) as usize;
            let pinned_bytes_max = bytes_max + random.magnitude(10_000, 3_000_000) as usize;
            let mut away = Random::new(seed ^ AWAY_SEED);
            let is_kept = away.one_in(4);
            let away_bytes_max =
                if is_kept { away.magnitude(1_000, 1_000_000) as usize } else { 0 };
            options.member.options.order.log_memory =
                LogMemory { bytes_max, away_bytes_max, pinned_bytes_max };
        }
        // Most leaders are configured with a longer minimum session timeout than clients ask for.
        options.member.options.order.session_timeout_ms_min =
            match Random::new(seed ^ SHORT_TIMEOUT_SEED).one_in(4) {
                true => 2 * tick_ms as u32,
                false => QUIET_TIMEOUT_MS_MIN,
            };
        options.builds = Builds::draw(seed, member_count);
        if options.builds.is_none() && options.etcd.is_some() {
            options.changes = ChangeLoad::draw(seed);
        }
        options
    }

    /// Resolves dependencies between the options before the run begins.
    pub(super) fn prepare(&mut self) {
        if let Some(seed) = self.later_ops.throttles {
            self.member.throttles = Throttles::draw(Random::new(seed));
            self.later_ops.bad_frames = None;
        }
        if let Some(seed) = self.later_ops.read_only {
            self.serve_reads_only(Random::new(seed ^ READ_ONLY_SEED));
        }
        self.prepare_for_etcd();
        self.prepare_for_changes();
    }

    /// The number of machines: each member's, and those of servers that may be added.
    pub(super) fn host_count(&self) -> usize {
        if self.changes.is_some() { HOSTS_MAX } else { self.member_count }
    }

    /// Makes the members know level 5, and adds the clients that change the members.
    fn prepare_for_changes(&mut self) {
        let Some(changes) = &self.changes else { return };
        if let Some(load) = &mut self.etcd {
            changes.add_operators(load);
        }
        self.member.changes = Some(changes.rules);
        self.member.options.order.known = Known::up_to(Level::MEMBERS);
    }

    /// Configures the members for the etcd clients, or removes these clients if an operator may
    /// restore snapshots: no etcd client could survive that.
    fn prepare_for_etcd(&mut self) {
        if self.member_count == 1 && self.faults.restores() {
            self.etcd = None;
        }
        // If no build knows level 3, there are no clients of etcd v2 and no users.
        let has_v2 = self.builds.as_ref().is_none_or(|builds| builds.new >= Level::ETCD_V2);
        if let Some(load) = self.etcd.as_mut().filter(|_| !has_v2) {
            load.clients.retain(|client| client.v2.is_none());
            let clients = load.clients.iter_mut().filter_map(|client| client.http.as_mut());
            clients.for_each(|http| http.has_users = false);
        }
        let Some(load) = &self.etcd else { return };
        self.member.etcd_front_count = load.front_count;
        self.member.options.spaces.etcd.auto_compaction = load.auto_compaction;
        self.member.options.spaces.etcd.settings = load.settings;
        self.member.watch_bounds = load.watch_bounds;
        self.member.progress_ms = load.progress_ms;
    }

    /// Makes the members of an ensemble serve reads without a leader. (An ensemble of one never
    /// lacks one, as in the real server.) To bring clients to members without a leader, members are
    /// cut off for longer than in other runs, and clients work for longer with short timeouts.
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

/// Draws the configuration of a member, as for a standalone server.
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
        progress_ms: member::fronts::etcd::limits::ETCD_PROGRESS_MS,
        secret,
        options: recovery::Options {
            spaces: spaces::Options {
                zk: spaces::zk::Options { tick_ms, ..Default::default() },
                ..Default::default()
            },
            order: order::Options {
                name: String::new(),
                servers: Default::default(),
                servers_are_kept: false,
                known: Known::up_to(Level::RELEASED),
                session_timeout_ms_min: 2 * tick_ms as u32,
                raft_tick_ms: RAFT_TICK_ALONE_MS,
                log_memory: LogMemory::default(),
                server: 0,
                disk: order::DiskOptions {
                    snapshot_commands: match is_heavy {
                        true => random.magnitude(200, 5_000),
                        false => random.magnitude(10, 400),
                    },
                    stall_ms: member::order::limits::DISK_STALL_MS,
                    snapshot_log: match !is_heavy && random.one_in(3) {
                        true => SnapshotLog::Bytes(random.magnitude(2_000, 200_000)),
                        false => SnapshotLog::Unbounded,
                    },
                },
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
        changes: None,
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

/// Draws settings of containers, znodes with a time to live, and quotas.
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
