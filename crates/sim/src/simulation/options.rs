//! What a run consists of, and how that is drawn from the seed.

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
use crate::server::{MemberConfig, Throttles};

/// Sets a seed apart from itself, to draw containers, znodes with a time to live and quotas without
/// a change of the rest. With this number the kept seeds have none of them, and mean what they
/// meant before.
const MORE_SEED: u64 = 0x6d6f_7265_0000_0002;

/// Sets a seed apart from itself, to draw what only an ensemble has.
pub(super) const ENSEMBLE_SEED: u64 = 0x656e_7365_6d00_0001;

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

/// Operations of clients that were added later. Each kind that a run has holds its own seed, so the
/// rest of the run does not depend on it.
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
    /// then; `None` if no such stop is planned.
    pub stop_at: Option<(u64, bool)>,
    /// The seed of containers, znodes with a time to live and quotas, and of changes of their
    /// configuration; `None` if clients do not make them. What else happens does not depend on it.
    pub more_seed: Option<u64>,
    /// Operations of clients that were added later.
    pub later_ops: LaterOps,
    /// The clients of etcd; `None` if there are no such clients.
    pub etcd: Option<EtcdLoad>,
    /// The builds of the servers of an ensemble, if they differ; `None` if all know the released
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
        // The log in memory is so short that a member that was away for a while needs a snapshot.
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
        // Most leaders are configured with a longer timeout than clients are given.
        options.member.options.order.session_timeout_ms_min =
            match Random::new(seed ^ SHORT_TIMEOUT_SEED).one_in(4) {
                true => 2 * tick_ms as u32,
                false => QUIET_TIMEOUT_MS_MIN,
            };
        options.builds = Builds::draw(seed, member_count);
        options
    }

    /// Makes the options agree with each other, before the run begins.
    pub(super) fn prepare(&mut self) {
        if let Some(seed) = self.later_ops.throttles {
            self.member.throttles = Throttles::draw(Random::new(seed));
            self.later_ops.bad_frames = None;
        }
        if let Some(seed) = self.later_ops.read_only {
            self.serve_reads_only(Random::new(seed ^ READ_ONLY_SEED));
        }
        self.prepare_for_etcd();
    }

    /// Lets members serve the clients of etcd, if there are some. Where someone restores snapshots
    /// there are none: no client of etcd could bear that.
    fn prepare_for_etcd(&mut self) {
        if self.member_count == 1 && self.faults.restores() {
            self.etcd = None;
        }
        // Where no build knows level 3, there are no clients of etcd v2, and no users.
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
        progress_ms: member::fronts::etcd::limits::ETCD_PROGRESS_MS,
        secret,
        options: recovery::Options {
            spaces: spaces::Options {
                zk: spaces::zk::Options { tick_ms, ..Default::default() },
                ..Default::default()
            },
            order: order::Options {
                servers: Default::default(),
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
