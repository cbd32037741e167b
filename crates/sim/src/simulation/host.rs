//! A member's machine, as the simulation sees it.

use std::sync::Arc;

use machine::{Level, MemberId};
use member::Hello;
use member::membership::hello::Known;
use storage::fault_disk::FaultDisk;

use super::cpu::Cpu;
use crate::check::Trouble;
use crate::disk::SimDisk;
use crate::fault::Disks;
use crate::server::{MemberConfig, Pace, Paces, Server, Unborn};
use crate::world::{Clock, Event};

/// What somebody wants of the build of the next start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NextBuild {
    /// Whether it is to be a new one, since the one that ran does not know the level.
    pub wants_new: bool,
    /// Whether it is to be an old one, since somebody has installed it.
    pub wants_old: bool,
    /// When somebody installs a newer build, once the one that runs is below the level.
    pub upgrade_at_us: Option<u64>,
}

/// How slow a machine is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slowness {
    /// How the syncs of its disks go.
    pub paces: Paces,
    /// How late Apply is given the CPU at most; 0: as usual.
    pub apply_lag_us: u64,
    /// When the last sync that its disks held back has returned, at the latest: a sync that is
    /// under way when the faults stop still takes that long.
    held_until_us: u64,
}

impl Slowness {
    /// Whether syncs are slow or hang, or Apply is late.
    fn is_any(&self, now_us: u64) -> bool {
        self.paces.are_slow(now_us) || self.apply_lag_us > 0
    }
}

/// When the clients of a member could expect less of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Spells {
    /// When others may not have heard of its clients.
    pub trouble: Trouble,
    /// When it ran and could hear no other member.
    pub cut_off: Trouble,
    /// When it may have been late to apply what was committed, though it heard of the leader.
    pub lag: Trouble,
}

/// A member's machine: its disk, its clocks, and the process if it runs.
pub(super) struct Host {
    pub config: MemberConfig,
    pub disk: SimDisk,
    /// The clocks of the machine, and when a process is given the CPU.
    pub cpu: Cpu,
    /// How slow the machine is.
    pub slowness: Slowness,
    pub server: Option<Server>,
    /// The process, while its directory is not born; none when it is born or no process runs.
    pub unborn: Option<Unborn>,
    /// The number of the process that runs, or of the time without one. No two in a run have the
    /// same number.
    pub life: u64,
    /// When its clients could expect less of it.
    pub spells: Spells,
    /// Whether the process stays down until a script starts it.
    pub is_left_down: bool,
    /// Whether the disk has failed in a way that excuses the end of the process.
    pub is_excused: bool,
    /// The bytes of a snapshot that someone keeps elsewhere; none before the first restore.
    pub put_aside: Option<Vec<u8>>,
    pub stop_cuts_power: bool,
    /// The member whose directory is lost, or may be found to be; none once another directory has
    /// its vote.
    pub lost: Option<MemberId>,
    /// The error of the others while they count on what the member in [`Host::lost`] does not have;
    /// `None` if it deceives nobody.
    pub deceives: Option<Deceives>,
    /// The machine that had the server's place before, and is cut off.
    pub other: Option<OtherMachine>,
    /// What the disk held when somebody copied it, and the member whose directory that is.
    pub copy: Option<(MemberId, FaultDisk)>,
    /// The build that the next start is to have.
    pub build: NextBuild,
}

impl Host {
    /// A machine on which nothing runs.
    pub fn new(config: MemberConfig, disk: SimDisk, clock: Clock) -> Host {
        Host {
            config,
            disk,
            cpu: Cpu::new(clock),
            slowness: Slowness::default(),
            server: None,
            unborn: None,
            life: 0,
            spells: Spells::default(),
            is_left_down: false,
            is_excused: false,
            put_aside: None,
            stop_cuts_power: false,
            lost: None,
            deceives: None,
            other: None,
            copy: None,
            build: NextBuild::default(),
        }
    }

    // Slowness.

    /// Changes how the syncs of these disks go, also for the process that runs.
    pub fn pace(&mut self, disks: Disks, change: impl Fn(&mut Pace)) {
        self.slowness.paces.change(disks, change);
        if let Some(server) = &mut self.server {
            server.set_paces(self.slowness.paces);
        }
    }

    /// Lets no sync of these disks return before `at_us`.
    pub fn hang_until(&mut self, disks: Disks, at_us: u64) {
        self.slowness.held_until_us = self.slowness.held_until_us.max(at_us);
        self.pace(disks, |pace| pace.hangs_until_us = at_us);
    }

    /// Lets Apply be given the CPU up to `lag_us` late from now on; 0 is as usual.
    pub fn starve_apply(&mut self, lag_us: u64) {
        self.slowness.apply_lag_us = lag_us;
        if let Some(server) = &mut self.server {
            server.starve_apply(lag_us);
        }
    }

    /// When the last sync that its disks held back has returned, at the latest.
    pub fn held_until_us(&self) -> u64 {
        self.slowness.held_until_us
    }

    /// Ends all that its disk is about to do wrong.
    pub fn spare_disk(&self) {
        self.disk.change_plan(|plan| {
            plan.stop_at = None;
            plan.fail.clear();
        });
    }

    /// Whether its disk works at its usual pace and is about to do nothing wrong, and Apply is
    /// given the CPU in time.
    pub fn is_treated_well(&self, now_us: u64) -> bool {
        let is_sound = !self.disk.is_stopping() && !self.disk.is_limited();
        is_sound && !self.slowness.is_any(now_us)
    }

    /// Notes whether others hear of its clients, whether it is cut off from the others, and whether
    /// it may be late to apply what was committed: its leader is far, its disk slow or its Apply
    /// late.
    pub fn note_trouble(&mut self, (is_well, is_far): (bool, bool), is_cut_off: bool, now_us: u64) {
        let runs = self.server.as_ref().is_some_and(Server::is_open) && self.is_awake(now_us);
        let is_held = now_us < self.slowness.held_until_us;
        let is_slow = is_held || self.slowness.is_any(now_us) || self.disk.is_limited();
        self.spells.trouble.note(!is_well, now_us);
        self.spells.cut_off.note(runs && is_cut_off, now_us);
        self.spells.lag.note(is_far || is_slow, now_us);
    }

    /// Notes that the member that has this directory is lost, or may be found to be. The next
    /// directory draws other ids.
    pub fn note_lost(&mut self, member: Option<MemberId>) {
        self.lost = member;
        self.config.lost_count += 1;
    }

    // The CPU and the clocks.

    /// The process, if there is one that runs, is not given the CPU for so long.
    pub fn pause(&mut self, now_us: u64, for_us: u64) {
        if self.is_awake(now_us) {
            self.cpu.pause(now_us, for_us);
        }
    }

    /// The process, if there is one that runs, is not given the CPU for so long, and the machine's
    /// monotonic clock stands still.
    pub fn suspend(&mut self, now_us: u64, for_us: u64) {
        if self.is_awake(now_us) {
            self.cpu.suspend(now_us, for_us);
            self.tell_clock();
        }
    }

    /// Ends the pause of a process that is gone.
    pub fn end_pause(&mut self, now_us: u64) {
        self.cpu.end_pause(now_us);
        self.tell_clock();
    }

    /// The monotonic clock jumps ahead. Returns false if the process is paused: then it does not.
    pub fn jump_clock(&mut self, now_us: u64, by_us: u64) -> bool {
        let is_running = !self.cpu.is_paused(now_us);
        if is_running {
            self.cpu.jump(now_us, by_us);
            self.tell_clock();
        }
        is_running
    }

    /// Moves the wall clock ahead.
    pub fn move_wall_clock(&mut self, by_ms: i64) {
        self.cpu.move_wall_clock(by_ms);
        self.tell_clock();
    }

    fn tell_clock(&mut self) {
        if let Some(server) = &mut self.server {
            server.set_clock(self.cpu.clock());
        }
    }

    /// Lets everything stop at this operation of the disk.
    pub fn stop_at(&mut self, op: u64, power_is_cut: bool) {
        self.stop_cuts_power = power_is_cut;
        self.disk.change_plan(|plan| plan.stop_at = Some(op));
    }

    /// Whether a process runs, and is given the CPU.
    pub fn is_awake(&self, now_us: u64) -> bool {
        self.is_there() && !self.cpu.is_paused(now_us)
    }

    /// Whether there is a process.
    pub fn is_there(&self) -> bool {
        self.server.is_some() || self.unborn.is_some()
    }

    /// Somebody copies the directory that it uses.
    pub fn make_copy(&mut self) {
        let id = self.member();
        self.copy = id.map(|id| (id, self.disk.copy()));
    }

    /// Whether there is a copy of the directory that it uses.
    pub fn is_copied(&self) -> bool {
        let id = self.member();
        self.copy.as_ref().is_some_and(|(of, _)| Some(*of) == id)
    }

    /// The member id of the directory that the process uses; `None` if no process runs.
    pub fn member(&self) -> Option<MemberId> {
        self.hello().map(|hello| hello.member)
    }

    /// The hello that introduces the process to others; `None` if no process runs.
    pub fn hello(&self) -> Option<&Arc<Hello>> {
        let born = self.server.as_ref().map(Server::hello);
        born.or(self.unborn.as_ref().map(Unborn::hello))
    }

    /// The highest level that its build knows.
    pub fn level_max(&self) -> Level {
        self.config.options.order.known.level_max
    }

    /// The state of the member, as text for people.
    pub fn describe(&self) -> String {
        let Some(server) = &self.server else {
            return self.unborn.as_ref().map_or("not there".to_string(), Unborn::describe);
        };
        let (status, machine) = (server.status(), server.machine());
        format!(
            "member {} of {:?} and {:?}, ready {}, idle {}, {:?} in term {} of {:?}, applied {} of {} of {}, \
             zxid {}, fetches {:?} from {:?}, work {}",
            server.hello().member.0,
            server.voters(),
            server.learners(),
            server.is_ready(),
            server.is_idle(),
            status.role,
            status.term,
            status.leader,
            machine.index().0,
            status.commit_index,
            status.last_index,
            machine.mark().zxid.0,
            server.fetching().last(),
            server.fetches_from(),
            server.describe_work()
        )
    }
}

/// A machine that is cut off while another one has its place.
pub(super) struct OtherMachine {
    /// The member id of its directory; `None` if it was never started.
    pub id: Option<MemberId>,
    /// The build that is installed there.
    pub known: Known,
    pub disk: SimDisk,
    pub clock: Clock,
    /// The paused process of the machine; `None` if it has ended.
    pub server: Option<Server>,
    /// The life of that process.
    pub life: u64,
    /// Events that are due in that process once it goes on, in order.
    pub events: Vec<Event>,
    /// Whether the disk has failed in a way that excuses the end of the process.
    pub is_excused: bool,
    pub stop_cuts_power: bool,
}

/// How a member deceives the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deceit {
    OldCopy,
    TornTail,
    WrongState,
}

/// What the others are wrong about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deceives {
    /// It may have forgotten what it acknowledged, up to this entry.
    Forgot { index: u64 },
    /// Its state differs from theirs.
    Differs,
}
