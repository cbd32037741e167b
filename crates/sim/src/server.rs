//! One run of a member's process: Loop, Apply, the log, the snapshots and the connection runtimes,
//! on a [`SimDisk`], a [`Network`] and virtual time.
//!
//! The server mirrors the real shell (`node::start`, `node::threads`, `listen_zk`) part by part and
//! adds nothing. Each thread of the shell is an [`Actor`] here: it runs a random time after
//! something was pushed to its queue, and then takes everything in the queue, in order. Disk work
//! takes virtual time: the disk changes when the work starts, its thread reports the result when
//! the work ends, and a crash may come in between.

mod change_sabotage;
mod etcd_audit;
mod etcd_passwords;
mod etcd_runtime;
mod etcd_sabotage;
mod etcd_steps;
mod etcd_turn;
mod etcd_user_sabotage;
mod etcd_v2_sabotage;
mod etcd_watches;
mod forged;
mod fronts;
mod refusing;
mod runtime;
mod sabotage;
mod turn;
mod unborn;
mod wakes;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use machine::change::SharedChanges;
use machine::control::list_change::ChangeRequest;
use machine::together::one_by_one;
use machine::{
    BootId, ConnectionId, ControlCommand, Level, Machine, MemberId, Origin, Settings, StatedLevel,
};
use member::RaiseRefused;
use member::fronts::etcd::{EtcdFrontConfig, MemberChanges, OwnMember, WatchBounds};
use member::fronts::zk::limits::REPLIES_TOLD_BYTES;
use member::fronts::zk::{Reconfigurable, ZkFrontConfig};
use member::limits::APPLY_HOLD_COMMANDS_MAX;
use member::log_writer::LogInput;
use member::membership::bootstrap::{Attendance, absent_server};
use member::membership::hello::Known;
use member::message::{
    Answer, Caller, Delivery, FromSnapshot, FromTransfer, FrontId, LoopInput, PersistId,
    SnapshotJob, ToApply, ToLoop,
};
use member::peer::PeerFrame;
use member::recovery::{
    self, OpenedMember, Reading, Recovered, RecoveryError, open_member, recover, restore_newest,
};
use member::snapshot::received::{self, ImageReceiver};
use member::throttle::{Throttle, ThrottleConfig};
use member::{
    Apply, Condemned, Difference, Fetching, Hello, LogWriter, Loop, LoopHeld, SnapshotWriter,
    TokenTimes, WatchInterest,
};
use storage::StorageError;
use storage::datadir::{Birth, DataDir};
use storage::disk::Disk;
use storage::snapshot::{self, SNAPSHOT_DIR};
use storage::wal::{SpareJob, WalOptions};

use workload::generate::Random;

use crate::disk::SimDisk;
use crate::etcd_clients::network::EtcdNetwork;
use crate::etcd_clients::wire::Served;
use crate::fault::Disks;
use crate::limits::{
    COMMANDS_MAX_LEAST, ETCD_HOLD_KEYS_MAX, ETCD_PIECE_BYTES, LARGE_REQUEST_BYTES_LEAST,
    LOOP_INPUTS_IDLE_MAX, MAIL_WAIT_US, OWN_BATCHES_IDLE_MAX, OWN_BYTES_IDLE_MAX,
    RECEIVED_PIECE_BYTES, SYNC_US_MAX, TOKEN_TTL_MS,
};
use crate::network::Network;
use crate::witness::Witness;
use crate::witness::levels::Heard;
use crate::world::{Actor, Clock, World};
pub use change_sabotage::ChangeSabotage;
use change_sabotage::submitted;
pub use etcd_audit::AuditSabotage;
pub use etcd_passwords::hash_of;
use etcd_runtime::EtcdRuntime;
pub use etcd_sabotage::WatchSabotage;
pub use etcd_steps::HttpSabotage;
pub use etcd_user_sabotage::UserSabotage;
pub use etcd_v2_sabotage::V2Sabotage;
use fronts::Fronts;
use refusing::Refusing;
use runtime::{Ground, Runtime};
pub use sabotage::Sabotage;
pub use unborn::{Step, Unborn};
use wakes::Wakes;

/// A member id that no member has.
const NOBODY: MemberId = MemberId(u64::MAX);

/// The configuration of a member, for all runs of its process.
#[derive(Clone, Debug)]
pub struct MemberConfig {
    /// The number of the member, from 0.
    pub number: usize,
    /// The numbers of the ensemble's configured servers; empty in an ensemble of one.
    pub servers: Vec<u64>,
    /// The ensemble's birth; `None` if the members must agree on it first.
    pub birth: Option<Birth>,
    /// Which servers must take part in the ensemble's birth.
    pub attendance: Attendance,
    /// How often the member's directory was lost. The ids of the next directory depend on this
    /// number, so that they are new.
    pub lost_count: u64,
    /// The number of ZooKeeper connection runtimes.
    pub front_count: u32,
    /// The number of etcd connection runtimes.
    pub etcd_front_count: u32,
    /// The limits of etcd watch streams.
    pub watch_bounds: WatchBounds,
    /// How long an etcd watch is without events until it gets a notice of progress, in ms.
    pub progress_ms: u64,
    /// The secret; all ids are derived from it.
    pub secret: [u8; 32],
    /// The options that a start takes from the configuration file.
    pub options: recovery::Options,
    /// The sizes of log segments.
    pub wal: WalOptions,
    /// Bytes of log that must still fit on the disk; with less room the member refuses writes.
    pub room_bytes_min: u64,
    /// If a connection runtime has this many unread deliveries, Apply waits.
    pub mail_max: usize,
    /// The largest request frame that the member accepts, in bytes.
    pub frame_bytes_max: u32,
    /// How long the member is without a leader before it serves reads to clients that accept
    /// read-only mode, in ms; `None` if it never does.
    pub read_only_after_ms: Option<u64>,
    /// The settings for changes of the members; `None` if the member does not use level 5.
    pub changes: Option<MemberChanges>,
    /// The limits of what clients may ask for at once.
    pub throttles: Throttles,
    /// Whether each sync takes at most 1 ms unless a fault slows it. If false, one sync in a
    /// hundred takes up to 400 ms even without a fault.
    pub syncs_are_even: bool,
    /// The deliberate mistake of the shell; `None` if it works correctly.
    pub sabotage: Option<Sabotage>,
}

/// The limits of the clients' concurrent work, and of how fast they may connect.
#[derive(Clone, Debug)]
pub struct Throttles {
    /// The most unanswered commands of one connection runtime. Further requests wait.
    pub commands_max: usize,
    /// How long a request may wait before it is refused, in ms; 0 if it never is.
    pub op_wait_ms: u64,
    /// Limits of connect requests and of large requests.
    pub config: ThrottleConfig,
}

impl Default for Throttles {
    fn default() -> Throttles {
        let commands_max = member::limits::FRONT_COMMANDS_MAX;
        Throttles { commands_max, op_wait_ms: 0, config: ThrottleConfig::default() }
    }
}

impl Throttles {
    /// Draws the limits. Each is low in half of the cases.
    pub fn draw(mut random: Random) -> Throttles {
        let mut throttles = Throttles::default();
        if random.one_in(2) {
            throttles.commands_max = random.magnitude(COMMANDS_MAX_LEAST, 64) as usize;
        }
        if random.one_in(2) {
            throttles.op_wait_ms = random.magnitude(10, 2_000);
        }
        let connections = &mut throttles.config.connections;
        if random.one_in(2) {
            connections.tokens_max = random.magnitude(1, 10) as u32;
            connections.fill_ms = random.magnitude(10, 1_000) as u32;
        }
        let large_requests = &mut throttles.config.large_requests;
        if random.one_in(2) {
            let threshold = random.magnitude(LARGE_REQUEST_BYTES_LEAST, 50_000);
            large_requests.threshold = Some(threshold as u32);
            large_requests.bytes_max = threshold * random.between(1, 4);
        }
        throttles
    }
}

impl MemberConfig {
    /// Whether this is an ensemble of one.
    pub fn is_alone(&self) -> bool {
        self.servers.is_empty()
    }

    /// Derives the secret for the ids of a directory and of a process run. A server that has lost
    /// its directory gets new ids for the next directory, and each process run has its own id.
    pub fn drawn(&self, life: u64) -> [u8; 32] {
        let is_old = self.sabotage == Some(Sabotage::OldIdAgain);
        let lost_count = if is_old { 0 } else { self.lost_count };
        // A lost directory changes both ids of the next one.
        let drawn = with_word(with_word(self.secret, 1, lost_count), 2, lost_count);
        with_word(drawn, 3, life)
    }

    /// Derives the secret of one start: no two starts, and no two members, may derive the same
    /// session ids.
    fn secret_of_boot(&self, boot: u64) -> [u8; 32] {
        let mut secret = with_word(with_word(self.secret, 0, boot), 1, self.lost_count);
        secret[31] ^= self.number as u8;
        secret
    }

    /// The seed of the watch tree of this Front.
    fn watch_seed(&self, id: FrontId) -> u64 {
        let drawn = with_word(self.secret, 0, u64::from(id.0) << 32 | self.number as u64);
        u64::from_le_bytes(*drawn.first_chunk().expect("a secret is longer than a word"))
    }

    /// The options for reading the directory at a start.
    pub fn reading(&self) -> Reading {
        let level_max = self.options.order.known.level_max;
        Reading { level_max, ..Reading::from(self.wal) }
    }

    /// The levels and versions that the member tells other members that its build knows.
    fn known(&self) -> Known {
        let known = self.options.order.known.clone();
        match self.sabotage {
            Some(Sabotage::LevelsOverstated) => Known { level_max: Level::NEWEST, ..known },
            _ => known,
        }
    }

    /// The hello that introduces the member to other members.
    fn hello(&self, origin: Origin, birth: &Birth, level: StatedLevel) -> Hello {
        let (server, known) = (self.number as u64 + 1, self.known());
        Hello::unborn(server, origin.member, self.servers.clone(), known).born(
            origin.boot,
            birth.clone(),
            level,
        )
    }

    /// Creates the etcd connection runtimes.
    fn etcd_runtimes(
        &self,
        (apply, served): (&Apply, Served),
        now_us: u64,
        clock: Clock,
    ) -> Vec<EtcdRuntime> {
        let token_times = Arc::new(TokenTimes::new(TOKEN_TTL_MS, 0));
        let of_front = |position| EtcdFrontConfig {
            token_times: token_times.clone(),
            command_counts: apply.command_counts().clone(),
            ..self.of_etcd_front(position, served, apply.watch_interest())
        };
        let runtime = |position| {
            let mut runtime = EtcdRuntime::new(of_front(position), now_us, clock);
            if let Some(Sabotage::EtcdWatches(sabotage)) = self.sabotage {
                runtime.slots.sabotage(sabotage);
            }
            runtime
        };
        (0..self.etcd_front_count).map(runtime).collect()
    }

    /// The configuration of the etcd Front at this position among the etcd Fronts. Their ids follow
    /// those of the ZooKeeper Fronts.
    fn of_etcd_front(
        &self,
        position: u32,
        served: Served,
        interest: &Arc<WatchInterest>,
    ) -> EtcdFrontConfig {
        let id = FrontId(self.front_count + position);
        let Served { cluster_id, member_id, .. } = served;
        let shown_id = served.shown_id();
        EtcdFrontConfig {
            id,
            connection: ConnectionId(u64::from(id.0) << 48 | 1),
            is_alone: self.is_alone() || self.sabotage == Some(Sabotage::EtcdReadsUnconfirmed),
            cluster_id,
            member_id,
            shown_id,
            own: OwnMember { changes: self.changes, ..OwnMember::default() },
            txn_ops_max: etcd::limits::TXN_OPS_MAX_DEFAULT,
            request_bytes_max: etcd::limits::REQUEST_BYTES_MAX_DEFAULT,
            piece_bytes: ETCD_PIECE_BYTES,
            hold_keys_max: ETCD_HOLD_KEYS_MAX,
            token_times: Arc::new(TokenTimes::new(TOKEN_TTL_MS, 0)),
            references: Arc::default(),
            level: Level::FIRST,
            progress_ms: self.progress_ms,
            watch_bounds: self.watch_bounds,
            watch_seed: self.watch_seed(id),
            watch_interest: interest.clone(),
            command_counts: Arc::default(),
            names_users: false,
        }
    }

    /// Whether ZooKeeper's clients can change the servers, as a real server finds it at its start.
    fn reconfigurable(&self, machine: &Machine) -> Reconfigurable {
        let may_rise = self.options.order.known.level_max >= Level::MEMBERS;
        let leaves_one = !self.options.spaces.zk.settings.standalone_enabled;
        let mut listed = self.options.order.servers.servers.values();
        match machine.control().servers().may_be_reconfigured() {
            true => Reconfigurable::Now,
            false if may_rise && listed.any(|it| it.zk.is_some()) => {
                Reconfigurable::FromLevel { leaves_one }
            }
            false => Reconfigurable::Never,
        }
    }

    /// The configuration of the ZooKeeper Fronts, without what they share.
    fn of_fronts(&self, origin: Origin, settings: Arc<Settings>) -> ZkFrontConfig {
        ZkFrontConfig {
            id: FrontId(0),
            origin,
            frame_bytes_max: match self.sabotage {
                Some(Sabotage::FrameBoundIgnored) => u32::MAX / 2,
                _ => self.frame_bytes_max,
            },
            commands_max: match self.sabotage {
                Some(Sabotage::CreditIgnored) => usize::MAX,
                _ => self.throttles.commands_max,
            },
            throttled_op_wait_ms: self.throttles.op_wait_ms,
            session_timeout_ms_min: 2 * self.options.spaces.zk.tick_ms as u32,
            session_timeout_ms_max: 20 * self.options.spaces.zk.tick_ms as u32,
            words_allowed: vec!["*".to_string()],
            secret: self.secret_of_boot(origin.boot.0),
            settings,
            reconfigurable: Reconfigurable::Never,
            auth: Arc::default(),
            throttle: Arc::new(Throttle::new(self.throttles.config.clone())),
            replies: Arc::default(),
            reply_bytes_max: None,
            // Not drawn from the seed, so that the seed's other draws stay the same.
            list_step_names: 1 + usize::from(self.secret_of_boot(origin.boot.0)[0] % 4),
            sessionless_ms_max: member::fronts::zk::limits::SESSIONLESS_MS_DEFAULT,
            audit: false,
            slow_request_ms: None,
            read_only_after_ms: self.read_only_after_ms,
        }
    }
}

/// XORs a value into a 64-bit word of a secret. Different values give different secrets.
fn with_word(mut secret: [u8; 32], word: usize, value: u64) -> [u8; 32] {
    for (byte, value) in secret[8 * word..].iter_mut().zip(value.to_le_bytes()) {
        *byte ^= value;
    }
    secret
}

/// Why a process has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Death {
    /// The disk of the process failed, and the process ended itself as it should.
    Disk(String),
    /// The process condemned its directory.
    Condemned(Condemned),
    /// The process met data of a level that its build does not know.
    TooOld(String),
    /// The process should not have ended, or broke an invariant.
    Bug(String),
}

/// How fast the syncs of one disk are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// How many times longer than usual they take; 1 if normal.
    pub slowness: u64,
    /// The time before which no sync returns, in us.
    pub hangs_until_us: u64,
}

/// The paces of a machine's two disks, which may be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paces {
    /// The directory of the log.
    pub log: Pace,
    /// The directory of the snapshots.
    pub snapshots: Pace,
}

impl Default for Paces {
    fn default() -> Paces {
        let usual = Pace { slowness: 1, hangs_until_us: 0 };
        Paces { log: usual, snapshots: usual }
    }
}

impl Paces {
    /// Changes the pace of these disks.
    pub fn change(&mut self, disks: Disks, change: impl Fn(&mut Pace)) {
        if disks.have_log() {
            change(&mut self.log);
        }
        if disks.have_snapshots() {
            change(&mut self.snapshots);
        }
    }

    /// Whether syncs of a disk are slow or hanging.
    pub fn are_slow(&self, now_us: u64) -> bool {
        let is_slow = |pace: &Pace| pace.slowness > 1 || pace.hangs_until_us > now_us;
        is_slow(&self.log) || is_slow(&self.snapshots)
    }
}

/// The result of a step of the process; an error says why the process has ended.
pub type Lived = Result<(), Death>;

/// The queues between the threads of a process.
#[derive(Default)]
struct Queues {
    to_loop: VecDeque<LoopInput>,
    to_apply: VecDeque<ToApply>,
    to_disk: VecDeque<LogInput<SimDisk>>,
    to_snapshot: VecDeque<SnapshotJob>,
    to_spare: VecDeque<SpareJob<SimDisk>>,
    /// The report of the disk thread, due when its current work is done; `None` while it is idle.
    disk_report: Option<Vec<LoopInput>>,
    /// The report of the snapshot thread, due when its current work is done; `None` while it is
    /// idle.
    snapshot_report: Option<Vec<LoopInput>>,
    /// The report of the segment thread, due when its current work is done; `None` while it is
    /// idle.
    spare_report: Option<(SpareJob<SimDisk>, Result<(), StorageError>)>,
    /// Frames for other members, in order.
    outbox: Vec<(MemberId, PeerFrame)>,
}

/// The times of a process, on the world's clock unless a comment says otherwise.
struct Times {
    started_us: u64,
    /// When the process started, on the clock of its machine.
    started_local_us: u64,
    /// The time up to which Loop has been advanced, on the clock of its machine.
    last_us: u64,
    next_tick_us: u64,
    raft_tick_us: u64,
    /// When the member opens for clients even if it is not ready, in us; `None` unless it may serve
    /// reads without a leader.
    opens_us: Option<u64>,
    /// When the log's disk finishes its current work.
    disk_done_us: u64,
}

/// The disks' pace and the delays that the simulation imposes on a process, and its settings.
struct Conditions {
    paces: Paces,
    syncs_are_even: bool,
    /// The longest delay of Apply's wake-ups, in us; 0 if normal.
    apply_lag_us: u64,
    mail_max: usize,
    commands_max: usize,
    settings: Settings,
    read_only_after_ms: Option<u64>,
    throttle: Arc<Throttle>,
    sabotage: Option<Sabotage>,
}

/// Notes about a process that the simulation needs to judge it.
struct Judged {
    /// Jobs that Loop gave to the disk and whose end it does not know yet.
    persisting: VecDeque<PersistId>,
    /// The number of this member's newest batch that was handed to Apply.
    announced: u64,
    /// When the member last had a vote, or a state that lets it serve without one, in us.
    served_us: Option<u64>,
    /// Since when entries may have waited in Loop because the disk had enough work, in us; `None`
    /// if none can.
    waiting_since_us: Option<u64>,
    /// For each unanswered sync request of a client, the index of the last entry committed when it
    /// came.
    syncs: BTreeMap<Caller, u64>,
    /// The last index of the newest snapshot that is known to be durable.
    snapshot_index: u64,
    /// Whether the member has a reason to refuse writes for want of disk space.
    refusing: Refusing,
    /// Copies of answers that [`Sabotage::AnswersKept`] keeps.
    answers_kept: Vec<Answer>,
    /// The levels that other members know, as they said in their hellos.
    heard: Heard,
    /// Since when a transfer of leadership has delayed proposals, in us; `None` if none is going
    /// on.
    transferring_since_us: Option<u64>,
    /// The level to which this leader has decided to raise, and when. The entry may come in a later
    /// turn.
    raising: Option<(Level, u64)>,
}

impl Judged {
    /// The notes about a new process.
    fn new(snapshot_index: u64, refusing: Refusing) -> Judged {
        Judged {
            persisting: VecDeque::new(),
            announced: 0,
            served_us: None,
            waiting_since_us: None,
            syncs: BTreeMap::new(),
            snapshot_index,
            refusing,
            answers_kept: Vec::new(),
            heard: Heard::default(),
            transferring_since_us: None,
            raising: None,
        }
    }
}

/// Snapshots that a member took, and those that it fetched from others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotCounts {
    /// Snapshots taken.
    pub taken: u64,
    /// Snapshots fetched from other members and installed.
    pub fetched: u64,
    /// Snapshots that were fetched as a whole from a member other than the leader.
    pub borrowed: u64,
}

/// Counts of one process run, or the sum of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LifeCounts {
    /// Snapshots taken and fetched.
    pub snapshots: SnapshotCounts,
    /// Connections that a throttle refused.
    pub turned_away_count: usize,
}

impl LifeCounts {
    /// Adds the counts of another process run.
    pub fn add(&mut self, other: LifeCounts) {
        let snapshots = &mut self.snapshots;
        snapshots.taken += other.snapshots.taken;
        snapshots.fetched += other.snapshots.fetched;
        snapshots.borrowed += other.snapshots.borrowed;
        self.turned_away_count += other.turned_away_count;
    }
}

/// Counts and findings that the simulation reads.
struct Seen {
    /// The counts of this process run, without those that Loop keeps.
    counts: LifeCounts,
    /// The fetches of snapshots that began, in order.
    fetching: Vec<Fetching>,
    /// Members that sent a frame without meaning: their links to this one must end.
    refused: Vec<MemberId>,
    /// Differences found by comparing digests.
    differences: Vec<Difference>,
    /// The lists of servers that Loop told, each with whether this member was removed; those that
    /// the simulation has not taken.
    news: Vec<(Arc<machine::Servers>, bool)>,
    /// The level that the member has begun to announce; `None` once the simulation has taken it.
    raised: Option<Level>,
    /// The status of the replica after Loop's last turn.
    status: replica::Status,
}

/// The cluster id and the member id in responses to etcd clients.
fn served_by(origin: Origin, machine: &Machine) -> Served {
    let shown_id = machine.control().etcd_id_of(origin.member);
    let server_id = Some(shown_id).filter(|id| *id != origin.member.0);
    Served { cluster_id: 1, member_id: origin.member.0, server_id, is_last: false }
}

impl Times {
    /// The times of a process that starts now.
    fn new(config: &MemberConfig, clock: Clock, now_us: u64) -> Times {
        let raft_tick_us = config.options.order.raft_tick_ms * 1000;
        Times {
            started_us: now_us,
            started_local_us: clock.local_us(now_us),
            last_us: clock.local_us(now_us),
            next_tick_us: now_us + clock.world_us(raft_tick_us),
            raft_tick_us,
            opens_us: config.read_only_after_ms.map(|ms| now_us + clock.world_us(ms * 1000)),
            disk_done_us: 0,
        }
    }
}

impl Conditions {
    /// The configured settings, with normal pace and no delays.
    fn new(config: &MemberConfig, throttle: Arc<Throttle>) -> Conditions {
        Conditions {
            paces: Paces::default(),
            syncs_are_even: config.syncs_are_even,
            apply_lag_us: 0,
            mail_max: config.mail_max,
            commands_max: config.throttles.commands_max,
            settings: config.options.spaces.zk.settings.clone(),
            read_only_after_ms: config.read_only_after_ms,
            throttle,
            sabotage: config.sabotage,
        }
    }
}

impl Seen {
    /// The counts of a new process.
    fn new(status: replica::Status) -> Seen {
        Seen {
            counts: LifeCounts::default(),
            fetching: Vec::new(),
            refused: Vec::new(),
            differences: Vec::new(),
            news: Vec::new(),
            raised: None,
            status,
        }
    }
}

/// A running process with a born directory.
pub struct Server {
    number: usize,
    is_alone: bool,
    origin: Origin,
    /// The hello that introduces the member to other members.
    hello: Arc<Hello>,
    clock: Clock,
    disk: SimDisk,
    _dir: DataDir<SimDisk>,
    machine: Machine,
    member: Loop,
    apply: Apply,
    log: LogWriter<SimDisk>,
    image: SnapshotWriter<SimDisk>,
    fronts: Fronts,
    wakes: Wakes,
    queues: Queues,
    times: Times,
    conditions: Conditions,
    judged: Judged,
    seen: Seen,
    is_ready: bool,
}

/// The result of a start.
pub enum Started {
    /// The directory is born, and the threads run.
    Running(Box<Server>),
    /// The directory is unborn: the member must find the others first.
    Unborn(Box<Unborn>),
}

/// Whether [`Server::make_wrong`] has changed this state.
fn is_wrong(machine: &Machine) -> bool {
    machine.control().last_batch(NOBODY).is_some()
}

fn disk_failed(error: StorageError) -> Death {
    Death::Disk(error.to_string())
}

impl Server {
    /// Opens or creates the data directory and starts the threads, as `node::start` does.
    ///
    /// # Errors
    /// The directory cannot be used.
    pub fn start(
        config: &MemberConfig,
        disk: &SimDisk,
        clock: Clock,
        life: u64,
        world: &mut World,
        witness: &mut Witness,
    ) -> Result<Started, Death> {
        let recovered = if config.is_alone() {
            recover(disk, &config.drawn(life), config.reading(), |_| {}).map_err(not_recovered)?
        } else {
            match open_member(disk, &config.drawn(life), config.reading(), |_| {})
                .map_err(not_recovered)?
            {
                OpenedMember::Born(recovered) => *recovered,
                OpenedMember::Unborn(unborn) => match &config.birth {
                    Some(birth) if birth.voters.contains(&unborn.member.0) => {
                        unborn.be_born(disk, birth, config.wal).map_err(not_recovered)?
                    }
                    _ => {
                        let unborn = Unborn::new(config, *unborn, life, world);
                        return Ok(Started::Unborn(Box::new(unborn)));
                    }
                },
            }
        };
        let server = Server::start_threads(config, recovered, disk, clock, life, world, witness)?;
        Ok(Started::Running(Box::new(server)))
    }

    fn start_threads(
        config: &MemberConfig,
        mut recovered: Recovered<SimDisk>,
        disk: &SimDisk,
        clock: Clock,
        life: u64,
        world: &mut World,
        witness: &mut Witness,
    ) -> Result<Server, Death> {
        let origin = recovered.origin;
        let level = recovered.machine.control().level().clone();
        let hello = Arc::new(config.hello(origin, recovered.dir.birth(), level));
        let identity = recovered.dir.identity();
        recovered.replay(one_by_one);
        let restored = recovered.restored;
        let snapshot_index = restored.snapshot_index;
        let is_wrong = is_wrong(&recovered.machine);
        witness
            .on_recovered(config.number, &restored, &recovered.machine, world.now_us, is_wrong)
            .map_err(Death::Bug)?;
        let settings = Arc::new(recovered.machine.zk().settings().clone());
        let (mut member, apply) =
            recovery::start(origin, &recovered.machine, restored, config.options.clone())
                .map_err(|error| Death::Bug(error.to_string()))?;
        if let Some(Sabotage::Changes(ChangeSabotage::Broken(rule))) = config.sabotage {
            member.break_rule(rule);
        }
        let throttle = Arc::new(Throttle::new(config.throttles.config.clone()));
        let of_fronts = ZkFrontConfig {
            throttle: throttle.clone(),
            replies: apply.replies(),
            reconfigurable: config.reconfigurable(&recovered.machine),
            ..config.of_fronts(origin, settings)
        };
        let of_front = |id| ZkFrontConfig { id: FrontId(id), ..of_fronts.clone() };
        let runtime = |id| Runtime::new(of_front(id), world.now_us, clock);
        let runtimes = (0..config.front_count).map(runtime).collect();
        let served = served_by(origin, &recovered.machine);
        let etcd_runtimes = config.etcd_runtimes((&apply, served), world.now_us, clock);
        let status = member.status();
        let mut server = Server {
            number: config.number,
            is_alone: config.is_alone(),
            origin,
            hello,
            clock,
            disk: disk.clone(),
            _dir: recovered.dir,
            machine: recovered.machine,
            member,
            apply,
            log: LogWriter::new(recovered.wal, config.room_bytes_min),
            image: SnapshotWriter::new(disk.clone(), identity.cluster_id),
            fronts: Fronts::new(runtimes, etcd_runtimes),
            wakes: Wakes::new(life),
            queues: Queues::default(),
            times: Times::new(config, clock, world.now_us),
            conditions: Conditions::new(config, throttle),
            judged: Judged::new(snapshot_index, Refusing::new(disk.may_lack_room())),
            seen: Seen::new(status),
            is_ready: false,
        };
        server.wake(world, Actor::Loop);
        server.wake(world, Actor::Disk);
        if let Some(at_us) = server.times.opens_us {
            server.wake_at(world, Actor::Front(0), at_us);
        }
        Ok(server)
    }

    // Questions of the simulation.

    /// The member's id, and the number of this start.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// The number of this process run.
    pub fn life(&self) -> u64 {
        self.wakes.life()
    }

    /// Whether the member has become ready to serve clients in full.
    pub fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// Whether clients can connect.
    pub fn is_open(&self) -> bool {
        self.fronts.are_open()
    }

    /// When the process started, in us.
    pub fn started_us(&self) -> u64 {
        self.times.started_us
    }

    /// The member's state.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The counts of this process run so far.
    pub fn life_counts(&self) -> LifeCounts {
        let mut counts = self.seen.counts;
        counts.snapshots.borrowed = self.member.counts().snapshots_borrowed;
        counts
    }

    /// Checks that a connection runtime has at most the allowed number of unanswered commands.
    /// Connect requests do not count, and there is at most one per connection.
    fn check_credit(&self, front: usize) -> Lived {
        let runtime = &self.fronts.zk[front];
        let (count, connections) = (runtime.commands_in_flight(), runtime.connection_count());
        let max = self.conditions.commands_max.saturating_add(connections);
        match count <= max {
            true => Ok(()),
            false => Err(Death::Bug(format!("{count} commands are under way, at most {max}"))),
        }
    }

    /// How many snapshots of other members the process has installed.
    pub fn fetched_count(&self) -> u64 {
        self.seen.counts.snapshots.fetched
    }

    /// The fetches of snapshots that began in this run, in order.
    pub fn fetching(&self) -> &[Fetching] {
        &self.seen.fetching
    }

    /// The member that this member fetches a snapshot from now; `None` if it fetches none.
    pub fn fetches_from(&self) -> Option<MemberId> {
        self.member.fetches_from()
    }

    /// Sets the pace of its disks' syncs.
    pub fn set_paces(&mut self, paces: Paces) {
        self.conditions.paces = paces;
    }

    /// Sets the longest delay of Apply's wake-ups, in us; 0 for normal.
    pub fn starve_apply(&mut self, lag_us: u64) {
        self.conditions.apply_lag_us = lag_us;
    }

    /// Sets the clocks of its machine, after a jump or a suspension.
    pub fn set_clock(&mut self, clock: Clock) {
        self.clock = clock;
    }

    /// A frame arrived from another member.
    pub fn on_peer(&mut self, from: MemberId, frame: PeerFrame, world: &mut World) {
        self.push_loop(world, [LoopInput::Peer { from, frame }]);
    }

    /// A link from another member to this one is up, or has ended.
    pub fn on_linked(&mut self, peer: &Hello, is_up: bool, world: &mut World) {
        let server = is_up.then(|| peer.into());
        self.push_loop(world, [LoopInput::Linked { peer: peer.member, server }]);
    }

    /// The link from this member to another one is up, or has ended.
    pub fn on_link(&mut self, peer: &Hello, is_up: bool, world: &mut World) {
        self.push_loop(world, [LoopInput::Link { peer: peer.member, is_up }]);
    }

    /// Takes the frames to send to other members.
    pub fn take_outbox(&mut self) -> Vec<(MemberId, PeerFrame)> {
        core::mem::take(&mut self.queues.outbox)
    }

    /// Takes the members whose links to this one must end, since they sent a frame without meaning.
    pub fn take_refused(&mut self) -> Vec<MemberId> {
        core::mem::take(&mut self.seen.refused)
    }

    /// Takes the differences that this leader found by comparing digests.
    pub fn take_differences(&mut self) -> Vec<Difference> {
        core::mem::take(&mut self.seen.differences)
    }

    /// Takes the level that the member has begun to announce since the last call; `None` if it has
    /// not changed.
    pub fn take_raised(&mut self) -> Option<Level> {
        self.seen.raised.take()
    }

    /// Takes the lists of servers that Loop told since the last call, each with whether this member
    /// was removed.
    pub fn take_news(&mut self) -> Vec<(Arc<machine::Servers>, bool)> {
        core::mem::take(&mut self.seen.news)
    }

    /// Whether this member is the only voter, so that it needs no other member.
    pub fn is_only_voter(&self) -> bool {
        self.member.voters() == [self.origin.member.0]
    }

    /// The id of this member's server, if the level shows it to clients.
    pub fn server_id(&self) -> Option<u64> {
        let control = self.machine.control();
        let id = control.servers().id_of(self.number as u64 + 1);
        id.filter(|_| control.level().level >= Level::MEMBERS).map(|id| id.0)
    }

    /// The cluster id and the member id in responses to etcd clients.
    pub fn served(&self) -> Served {
        served_by(self.origin, &self.machine)
    }

    /// The level of the state, and the level that Loop knows.
    pub fn levels(&self) -> (Level, Level) {
        (self.machine.control().level().level, self.member.level())
    }

    /// A client needs this level, for the first time.
    pub fn need(&mut self, level: Level, world: &mut World) {
        self.push_loop(world, [LoopInput::Front(ToLoop::Need(level))]);
    }

    /// An operator asks the leader to raise the level to the highest that its build knows.
    ///
    /// # Errors
    /// Like [`Loop::upgrade`].
    pub fn upgrade(&mut self, world: &mut World) -> Result<Level, RaiseRefused> {
        let raised = self.member.upgrade();
        self.note_raising(world.now_us);
        self.wake(world, Actor::Loop);
        raised
    }

    /// The member ids of the voters and learners that it knows of, without placeholders.
    fn members(&self) -> Vec<u64> {
        let mut members = self.member.voters();
        members.extend(self.member.learners());
        members.retain(|id| absent_server(*id).is_none());
        members
    }

    /// Makes the state differ from the one that the log gives, in a way that clients and checksums
    /// do not notice.
    pub fn make_wrong(&mut self) {
        let origin = Origin { member: NOBODY, boot: BootId(1) };
        assert!(self.machine.begin_batch(origin, 1), "it is wrong already");
    }

    /// Whether [`Server::make_wrong`] has changed the state.
    pub fn is_wrong(&self) -> bool {
        is_wrong(&self.machine)
    }

    /// The hello that introduces the member to other members.
    pub fn hello(&self) -> &Arc<Hello> {
        &self.hello
    }

    /// The status of the member's replica after Loop's last turn.
    pub fn status(&self) -> &replica::Status {
        &self.seen.status
    }

    /// The member ids of the voters.
    pub fn voters(&self) -> Vec<u64> {
        self.member.voters()
    }

    /// Whether the membership is joint.
    pub fn is_joint(&self) -> bool {
        let newest = self.member.memberships().next_back();
        newest.is_some_and(|(_, membership)| !membership.voters_outgoing.is_empty())
    }

    /// The member ids of the learners, which have the log and no vote.
    pub fn learners(&self) -> Vec<u64> {
        self.member.learners()
    }

    /// An operator asks for a change of the list of servers, and does not wait for the outcome.
    pub fn ask_change(&mut self, request: &ChangeRequest, world: &mut World) {
        // A leader accepts no forwarded command without a connection.
        let command = ControlCommand::Request(request.clone());
        let submitted = submitted(ConnectionId(u64::MAX), command);
        self.push_loop(world, submitted);
    }

    /// Asks the member to hand its leadership over to `to`, or to any member. Returns whether it
    /// leads and can.
    pub fn hand_over(&mut self, to: Option<MemberId>, world: &mut World) -> bool {
        let is_handing_over = self.member.hand_over(to);
        self.wake(world, Actor::Loop);
        is_handing_over
    }

    /// The number of ZooKeeper connections that the process has not closed.
    pub fn connection_count(&self) -> usize {
        self.fronts.connection_count()
    }

    /// Whether the log's disk will have finished its current work at `at_us`.
    pub fn is_disk_done(&self, at_us: u64) -> bool {
        self.times.disk_done_us <= at_us
    }

    /// Whether no message, command, entry or disk job is in progress.
    pub fn is_idle(&self) -> bool {
        self.queues.to_loop.is_empty()
            && self.queues.to_apply.is_empty()
            && self.queues.to_disk.is_empty()
            && self.log.is_idle()
            && self.queues.disk_report.is_none()
            && !self.apply.has_work()
    }

    /// Checks that an idle server, whose clients wait for nothing, holds almost nothing in memory.
    ///
    /// # Errors
    /// Names the thing that it holds too much of.
    pub fn check_memory(&self) -> Result<(), String> {
        let LoopHeld { batches, unapplied_bytes, waiting_reads, deadlines, deadline_places } =
            self.member.held();
        let replies_max = self.fronts.zk.len() * REPLIES_TOLD_BYTES;
        let held = [
            ("batches that wait for a leader", batches, OWN_BATCHES_IDLE_MAX),
            ("batches that no leader was given", self.member.waiting_count(), OWN_BATCHES_IDLE_MAX),
            ("bytes of batches that are not applied", unapplied_bytes, OWN_BYTES_IDLE_MAX),
            ("syncs that wait for an index", waiting_reads, 0),
            ("deadlines beside one for each owner", deadline_places.abs_diff(deadlines), 0),
            ("jobs that the log holds", self.log.held_count(), 0),
            ("inputs of Loop", self.queues.to_loop.len(), LOOP_INPUTS_IDLE_MAX),
            ("messages for Apply", self.queues.to_apply.len(), 0),
            ("bytes of large requests", self.conditions.throttle.large_bytes() as usize, 0),
            ("bytes of answers in Apply", self.apply.held_bytes() as usize, 0),
            ("bytes of replies", self.apply.replies().bytes() as usize, replies_max),
        ];
        check_held(self.number, held.into_iter().chain(self.fronts.held()))
    }

    /// The work that waits in each part of the process, as text for people.
    pub fn describe_work(&self) -> String {
        format!(
            "loop {}, apply {} {}, disk {} {} {}, snapshots {} {}",
            self.queues.to_loop.len(),
            self.queues.to_apply.len(),
            self.apply.has_work(),
            self.queues.to_disk.len(),
            self.log.is_idle(),
            self.queues.disk_report.is_some(),
            self.queues.to_snapshot.len(),
            self.queues.snapshot_report.is_some()
        )
    }

    /// The bytes of the newest snapshot; `None` if there is none or it cannot be read.
    pub fn newest_snapshot(&self) -> Option<Vec<u8>> {
        let name = snapshot::list(&self.disk).ok()?.pop()?.name;
        let file = self.disk.open_read_only(&format!("{SNAPSHOT_DIR}/{name}")).ok()?;
        let mut bytes = vec![0; self.disk.len(&file).ok()? as usize];
        let count = self.disk.read_at(&file, 0, &mut bytes).ok()?;
        (count == bytes.len()).then_some(bytes)
    }

    /// An operator restores a snapshot, as with `node::Upload`.
    pub fn restore(&mut self, bytes: &[u8], world: &mut World, witness: &mut Witness) {
        if self.member.check_install().is_err() {
            return;
        }
        let received = ImageReceiver::new(self.disk.clone()).map_err(RecoveryError::from).and_then(
            |mut receiver| {
                bytes.chunks(RECEIVED_PIECE_BYTES).try_for_each(|piece| receiver.write(piece))?;
                receiver.finish()
            },
        );
        let is_installed = received.is_ok_and(|image| {
            witness.on_image(image.hash, image.machine.mark().ordinal.0);
            self.member.install(image).is_ok()
        });
        if !is_installed {
            // The next start removes the remains of the image.
            let _ = received::discard(&self.disk);
        }
        self.wake(world, Actor::Loop);
    }

    // Connections of ZooKeeper's clients.

    /// A ZooKeeper client connected.
    pub fn accept(&mut self, number: usize, world: &mut World, network: &mut Network) {
        let front = self.fronts.next_zk();
        network.connections[number].front = front;
        self.fronts.zk[front as usize].accept(number);
        self.wake(world, Actor::Front(front));
    }

    /// Bytes arrived on a ZooKeeper connection, or it can be written to again.
    pub fn on_socket(&mut self, number: usize, world: &mut World, network: &Network) {
        let connection = &network.connections[number];
        let (id, front) = (ConnectionId(connection.server_id), connection.front);
        if self.fronts.zk[front as usize].wake_socket(id) {
            self.wake(world, Actor::Front(front));
        }
    }

    /// Lets a runtime handle one event and then drives its Front.
    fn run_front(
        &mut self,
        front: usize,
        world: &mut World,
        network: &mut Network,
        witness: &mut Witness,
    ) {
        let actor = Actor::Front(front as u32);
        if !self.fronts.are_open() {
            match self.times.opens_us {
                Some(at_us) if at_us <= world.now_us => self.open(world),
                Some(at_us) => self.wake_at(world, actor, at_us),
                None => {}
            }
            return;
        }
        let ground = Ground {
            origin: self.origin,
            clock: self.clock,
            contact_at_ms: self.fronts.contact_at_ms,
            is_leaderless: self.conditions.sabotage.is_some() && self.is_leaderless(world),
            sabotage: self.conditions.sabotage,
        };
        let runtime = &mut self.fronts.zk[front];
        if let Some(forged) = runtime.take_one(&ground, world, network, witness) {
            self.push_loop(world, forged.into_iter().map(LoopInput::Front));
            let runtime = &mut self.fronts.zk[front];
            let driven = runtime.drive(&ground, &self.machine, world, network);
            self.seen.counts.turned_away_count += driven.turned_away_count;
            self.push_loop(world, driven.to_loop.into_iter().map(LoopInput::Front));
        }
        let runtime = &self.fronts.zk[front];
        let (has_more, tick_us) = (runtime.has_more(), runtime.next_tick_us());
        if has_more {
            self.wake(world, actor);
        }
        self.wake_at(world, actor, tick_us);
    }

    /// Whether the member has heard from no leader for so long that it serves reads only.
    fn is_leaderless(&self, world: &World) -> bool {
        let now_us = self.clock.local_us(world.now_us) - self.times.started_local_us;
        let is_silent = |at_ms, after_ms| at_ms == 0 || now_us / 1000 >= at_ms + after_ms;
        let contact = self.fronts.contact_at_ms.zip(self.conditions.read_only_after_ms);
        contact.is_some_and(|(at_ms, after_ms)| is_silent(at_ms, after_ms))
    }

    // Running.

    fn wake(&mut self, world: &mut World, actor: Actor) {
        let delay_us = match (actor, self.conditions.apply_lag_us) {
            (Actor::Apply, 1..) => world.random.between(1, self.conditions.apply_lag_us),
            _ => world.hop_us(),
        };
        let at_us = world.now_us + delay_us;
        self.wake_at(world, actor, at_us);
    }

    fn wake_at(&mut self, world: &mut World, actor: Actor, at_us: u64) {
        self.wakes.plan(world, actor, at_us);
    }

    /// A thread of the process wakes up and runs.
    ///
    /// # Errors
    /// The process has ended.
    pub fn run(
        &mut self,
        actor: Actor,
        token: u64,
        world: &mut World,
        network: &mut Network,
        etcd: &mut EtcdNetwork,
        witness: &mut Witness,
    ) -> Lived {
        if !self.wakes.take(actor, token) {
            return Ok(());
        }
        match actor {
            Actor::Loop => self.run_loop(world, witness),
            Actor::Apply => self.run_apply(world, witness),
            Actor::Disk => self.run_disk(world),
            Actor::Snapshot => self.run_snapshot(world, witness),
            Actor::Spare => {
                self.run_spare(world);
                Ok(())
            }
            Actor::Front(front) => match self.fronts.etcd_position(FrontId(front)) {
                Some(front) => {
                    self.run_etcd_front(front, world, etcd, witness);
                    Ok(())
                }
                None => {
                    self.run_front(front as usize, world, network, witness);
                    self.check_credit(front as usize)
                }
            },
        }
    }

    /// A thread has finished work that took virtual time.
    pub fn done(&mut self, actor: Actor, world: &mut World) {
        match actor {
            Actor::Disk => {
                let reports = self.queues.disk_report.take().expect("the disk was at work");
                self.push_loop(world, reports);
                if !self.queues.to_disk.is_empty() {
                    self.wake(world, Actor::Disk);
                } else {
                    let local_us = self.clock.local_us(world.now_us);
                    if let Some(at_ms) = self.log.deadline_ms(local_us / 1000) {
                        let wait_us = (at_ms * 1000).saturating_sub(local_us);
                        let at_us = world.now_us + self.clock.world_us(wait_us);
                        self.wake_at(world, Actor::Disk, at_us);
                    }
                }
            }
            Actor::Snapshot => {
                let reports =
                    self.queues.snapshot_report.take().expect("a snapshot was being written");
                for report in &reports {
                    let durable = match report {
                        LoopInput::Snapshot(FromSnapshot::Finished { index, .. }) => *index,
                        LoopInput::Transfer(FromTransfer::Whole(image)) => image.at.index,
                        _ => continue,
                    };
                    self.judged.snapshot_index = self.judged.snapshot_index.max(durable);
                }
                self.push_loop(world, reports);
                if !self.queues.to_snapshot.is_empty() {
                    self.wake(world, Actor::Snapshot);
                }
            }
            Actor::Spare => {
                let (job, made) =
                    self.queues.spare_report.take().expect("a segment was being made");
                self.queues.to_disk.push_back(LogInput::Spare(job, made));
                self.wake_disk(world);
                if !self.queues.to_spare.is_empty() {
                    self.wake(world, Actor::Spare);
                }
            }
            Actor::Loop | Actor::Apply | Actor::Front(_) => {
                unreachable!("only disks take time")
            }
        }
    }

    fn push_loop(&mut self, world: &mut World, inputs: impl IntoIterator<Item = LoopInput>) {
        let before = self.queues.to_loop.len();
        self.queues.to_loop.extend(inputs);
        if self.queues.to_loop.len() > before {
            self.wake(world, Actor::Loop);
        }
    }

    fn wake_disk(&mut self, world: &mut World) {
        // A busy disk thread needs no wake-up: it checks its queue when it is done.
        if self.queues.disk_report.is_none() {
            self.wake(world, Actor::Disk);
        }
    }

    /// Opens the connection runtimes: clients can connect from now on.
    fn open(&mut self, world: &mut World) {
        if self.fronts.open(&self.machine, world.now_us, self.clock) {
            self.fronts.actors().for_each(|actor| self.wake(world, actor));
        }
    }

    /// Shows the witness the state after a hold of Apply.
    fn show_state(&self, world: &World, witness: &mut Witness) -> Lived {
        let history = self.machine.etcd_v2().history();
        witness.v2.on_history(history, world.now_us).map_err(Death::Bug)?;
        if !self.is_alone && !self.is_wrong() && !self.apply.is_ended() {
            witness.on_applied(&self.machine).map_err(Death::Bug)?;
        }
        Ok(())
    }

    fn run_apply(&mut self, world: &mut World, witness: &mut Witness) -> Lived {
        self.queues.to_apply.drain(..).for_each(|input| self.apply.receive(input));
        if !self.apply.has_work() {
            return Ok(());
        }
        // Before the server is open, runtimes take no deliveries.
        if self.fronts.are_open() && self.fronts.is_mail_full(self.conditions.mail_max) {
            self.wake_at(world, Actor::Apply, world.now_us + MAIL_WAIT_US);
            return Ok(());
        }
        let mut count = 0;
        while self.apply.has_work() && count < APPLY_HOLD_COMMANDS_MAX {
            let step = world.random.magnitude(1, 64) as usize;
            count += self.apply.step(&mut self.machine, step);
            // A hold may end after any step.
            if world.random.one_in(3) {
                break;
            }
        }
        self.show_state(world, witness)?;
        let mut output = self.apply.take_output();
        let deliveries = output.deliveries(self.fronts.counts(), self.apply.watch_interest());
        for (front, delivery) in deliveries {
            self.check_syncs(front, &delivery, witness)?;
            if !self.fronts.are_open() {
                continue;
            }
            if let Some(position) = self.fronts.etcd_position(front) {
                self.push_etcd_mail(position, delivery, world);
            } else {
                let runtime = &mut self.fronts.zk[front.0 as usize];
                if self.conditions.sabotage == Some(Sabotage::AnswersKept) {
                    self.judged.answers_kept.extend(delivery.answers.iter().cloned());
                }
                // A runtime without watches or answers handles the changes when it runs next
                // anyway.
                let is_urgent = delivery.is_urgent() || runtime.has_watches();
                match self.conditions.sabotage {
                    Some(Sabotage::ChangesLost) if world.random.one_in(10) => {
                        let (changes, answers) = (SharedChanges::default(), delivery.answers);
                        runtime.mail.push_back(Delivery { changes, answers });
                    }
                    Some(Sabotage::ChangesDoubled) if world.random.one_in(10) => {
                        let (changes, answers) = (delivery.changes.clone(), Vec::new());
                        runtime.mail.push_back(delivery);
                        runtime.mail.push_back(Delivery { changes, answers });
                    }
                    Some(Sabotage::AnswersFirst) => {
                        let (first, answers) = (SharedChanges::default(), delivery.answers);
                        runtime.mail.push_back(Delivery { changes: first, answers });
                        let (changes, answers) = (delivery.changes, Vec::new());
                        runtime.mail.push_back(Delivery { changes, answers });
                    }
                    _ => runtime.mail.push_back(delivery),
                }
                if is_urgent {
                    self.wake(world, Actor::Front(front.0));
                }
            }
        }
        let mut to_loop = output.to_loop;
        self.forge_leases(&mut to_loop);
        self.push_loop(world, to_loop.into_iter().map(LoopInput::Apply));
        if self.apply.has_work() {
            self.wake(world, Actor::Apply);
        }
        Ok(())
    }

    /// Checks each answer to a client's sync: everything committed when the request came must be
    /// applied.
    fn check_syncs(&mut self, front: FrontId, delivery: &Delivery, witness: &Witness) -> Lived {
        for answer in &delivery.answers {
            let Answer::Synced { connection, ticket, mark } = *answer else { continue };
            let asked = self.judged.syncs.remove(&Caller { front, connection, ticket });
            let index =
                asked.ok_or_else(|| Death::Bug("nobody asked for this sync".to_string()))?;
            witness.check_sync(index, mark.ordinal.0).map_err(Death::Bug)?;
        }
        Ok(())
    }

    // The disk.

    fn run_disk(&mut self, world: &mut World) -> Lived {
        if self.queues.disk_report.is_some() {
            return Ok(());
        }
        let ops_before = self.disk.ops();
        self.disk.take_sync_count();
        let now_ms = self.clock.local_us(world.now_us) / 1000;
        for input in core::mem::take(&mut self.queues.to_disk) {
            self.log.receive(input, now_ms).map_err(disk_failed)?;
        }
        let output = self.log.finish(now_ms).map_err(disk_failed)?;
        if let Some(job) = output.spare {
            self.queues.to_spare.push_back(job);
            if self.queues.spare_report.is_none() {
                self.wake(world, Actor::Spare);
            }
        }
        let mut reports: Vec<_> = output.persisted.map(LoopInput::Persisted).into_iter().collect();
        reports.extend(output.is_full.map(|is_full| LoopInput::DiskRoom { is_full }));
        let done_us = self.done_us(self.conditions.paces.log, world, ops_before);
        self.queues.disk_report = Some(reports);
        self.times.disk_done_us = done_us;
        self.wakes.report(world, Actor::Disk, done_us);
        Ok(())
    }

    /// Draws when the disk finishes the operations made since `ops_before`, in us.
    fn done_us(&mut self, pace: Pace, world: &mut World, ops_before: u64) -> u64 {
        let ops = self.disk.ops() - ops_before;
        let syncs = self.disk.take_sync_count();
        let ops_us = ops * world.random.below(20);
        let mut syncs_us = 0;
        for _ in 0..syncs {
            let sync_us = match world.random.below(100) {
                _ if self.conditions.syncs_are_even => world.random.magnitude(30, 1_000),
                0 => world.random.magnitude(10_000, 400_000),
                1..=9 => world.random.magnitude(1_000, 10_000),
                _ => world.random.magnitude(30, 1_000),
            };
            syncs_us += sync_us * pace.slowness;
        }
        let done_us = world.now_us + ops_us + syncs_us.min(SYNC_US_MAX);
        if syncs > 0 { done_us.max(pace.hangs_until_us) } else { done_us }
    }

    fn run_spare(&mut self, world: &mut World) {
        if self.queues.spare_report.is_some() {
            return;
        }
        let Some(mut job) = self.queues.to_spare.pop_front() else { return };
        let ops_before = self.disk.ops();
        self.disk.take_sync_count();
        let result = loop {
            match job.step(&self.disk) {
                Ok(false) => {}
                Ok(true) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        let done_us = self.done_us(self.conditions.paces.log, world, ops_before);
        self.queues.spare_report = Some((job, result));
        self.wakes.report(world, Actor::Spare, done_us);
    }

    fn run_snapshot(&mut self, world: &mut World, witness: &Witness) -> Lived {
        if self.queues.snapshot_report.is_some() {
            return Ok(());
        }
        let Some(job) = self.queues.to_snapshot.pop_front() else { return Ok(()) };
        let ops_before = self.disk.ops();
        self.disk.take_sync_count();
        let output = self.image.handle(job, || ());
        let report = output.report;
        if let Some(FromSnapshot::Finished { index, .. }) = report {
            self.seen.counts.snapshots.taken += 1;
            self.check_snapshot(index, witness)?;
        }
        let done_us = self.done_us(self.conditions.paces.snapshots, world, ops_before);
        let room = output.room.map(LoopInput::SnapshotRoom);
        let report = report.map(LoopInput::Snapshot);
        let transfer = output.transfer.map(LoopInput::Transfer);
        self.queues.snapshot_report =
            Some(room.into_iter().chain(report).chain(transfer).collect());
        self.wakes.report(world, Actor::Snapshot, done_us);
        Ok(())
    }

    /// Checks that a finished snapshot can be read and equals the state at its index, by its digest
    /// and its counters.
    fn check_snapshot(&self, index: u64, witness: &Witness) -> Lived {
        // A planned read error must hit the member and not this check.
        if self.disk.fails_reads() {
            return Ok(());
        }
        match restore_newest(&self.disk, index, |_| {}) {
            // A newer snapshot may have been fetched from another member.
            Ok((meta, machine)) => {
                let found = (machine.index(), machine.mark().ordinal);
                witness.check_snapshot(meta.index, found).map_err(Death::Bug)
            }
            // The disk has reached its planned stop meanwhile.
            Err(RecoveryError::Storage(_)) if self.disk.is_stopping() => Ok(()),
            Err(error) => Err(Death::Bug(error.to_string())),
        }
    }
}

/// Checks that a member holds at most the allowed amount of each thing. Each element of `held` is a
/// name, the amount held and the allowed maximum.
fn check_held(
    member: usize,
    held: impl IntoIterator<Item = (&'static str, usize, usize)>,
) -> Result<(), String> {
    match held.into_iter().find(|(_, count, max)| count > max) {
        Some((what, count, max)) => {
            Err(format!("member {member} keeps {count} {what}, at most {max}"))
        }
        None => Ok(()),
    }
}

fn not_recovered(error: RecoveryError) -> Death {
    match error {
        RecoveryError::Unknown(unknown) => Death::TooOld(unknown.to_string()),
        RecoveryError::Snapshot { cause, .. } if cause.is_of_another_version() => {
            Death::TooOld(cause.to_string())
        }
        error => Death::Disk(error.to_string()),
    }
}

#[cfg(test)]
mod tests;
