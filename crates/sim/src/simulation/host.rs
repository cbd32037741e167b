//! A member's machine as the simulation sees it: its disk, its clocks, the process on it, and what
//! went wrong with them.

use std::sync::Arc;

use machine::{Level, MemberId};
use member::Hello;
use member::membership::hello::Known;
use storage::fault_disk::FaultDisk;

use super::cpu::Cpu;
use super::roster::{Numbers, Place, Standing};
use crate::check::Trouble;
use crate::disk::SimDisk;
use crate::fault::Disks;
use crate::server::{MemberConfig, Pace, Paces, Server, Unborn};
use crate::world::{Clock, Event};

/// Which build the next start of a server should have.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NextBuild {
    /// Whether the next start must run a new build, since the current one does not know the
    /// ensemble's level.
    pub wants_new: bool,
    /// Whether an operator has installed an old build for the next start.
    pub wants_old: bool,
    /// When an operator installs a newer build; `None` while the running build knows the ensemble's
    /// level.
    pub upgrade_at_us: Option<u64>,
}

/// How slow a machine's disks and its Apply thread are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slowness {
    /// The pace of the syncs of each disk.
    pub paces: Paces,
    /// The longest delay of Apply's wake-ups, in us; 0 if normal.
    pub apply_lag_us: u64,
    /// When the last hang of a disk ends, in us. It stays when the faults stop: a sync that is
    /// already hanging takes that long anyway.
    held_until_us: u64,
}

impl Slowness {
    /// Whether syncs are slow or hanging, or Apply gets the CPU late.
    fn is_any(&self, now_us: u64) -> bool {
        self.paces.are_slow(now_us) || self.apply_lag_us > 0
    }
}

/// The spells in which the judges demand less of a member, because something was wrong with it or
/// its links.
#[derive(Clone, Debug, Default)]
pub(super) struct Spells {
    /// When the leader may not have heard of the member's clients.
    pub trouble: Trouble,
    /// When the member ran but could reach no other member.
    pub cut_off: Trouble,
    /// When the member may have applied committed entries late, although it was in contact with the
    /// leader.
    pub lag: Trouble,
}

/// A member's machine: its disk, its clocks, and its process if one runs.
pub(super) struct Host {
    pub config: MemberConfig,
    pub disk: SimDisk,
    /// The clocks of the machine, and when a process gets the CPU.
    pub cpu: Cpu,
    /// How slow the machine is.
    pub slowness: Slowness,
    pub server: Option<Server>,
    /// The process while its directory is unborn; `None` after the birth, or if no process runs.
    pub unborn: Option<Unborn>,
    /// Number of the current process run, or of the current time without a process. Unique in a run
    /// of the simulation.
    pub life: u64,
    /// When the judges demand less of the member, because something was wrong with it or its links.
    pub spells: Spells,
    /// Whether the process stays down until a test's script starts it.
    pub is_left_down: bool,
    /// Whether a fault of the disk excuses the process if it ends itself.
    pub is_excused: bool,
    /// The bytes of a snapshot that an operator keeps elsewhere; `None` before the first restore.
    pub put_aside: Option<Vec<u8>>,
    pub stop_cuts_power: bool,
    /// The member whose directory was lost, or damaged so that a start may find it lost. `None`
    /// once another directory has its vote.
    pub lost: Option<MemberId>,
    /// The wrong belief of the others about the member in [`Host::lost`]; `None` if it does not
    /// deceive them.
    pub deceives: Option<Deceives>,
    /// The machine that had the server's place before this one, and is cut off now.
    pub other: Option<OtherMachine>,
    /// A copy of the disk, and the member id of the directory that was copied. `None` before a copy
    /// was made.
    pub copy: Option<(MemberId, FaultDisk)>,
    /// Which build the next start should have.
    pub build: NextBuild,
    /// Whether the machine is one of the ensemble, and which servers its process knows.
    pub place: Place,
}

impl Host {
    /// A machine on which no process has run.
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
            place: Place::new(Standing::Begun, Numbers::new()),
        }
    }

    // Slowness.

    /// Changes the pace of the syncs of these disks, also for the running process.
    pub fn pace(&mut self, disks: Disks, change: impl Fn(&mut Pace)) {
        self.slowness.paces.change(disks, change);
        if let Some(server) = &mut self.server {
            server.set_paces(self.slowness.paces);
        }
    }

    /// Makes syncs of these disks return no earlier than `at_us`.
    pub fn hang_until(&mut self, disks: Disks, at_us: u64) {
        self.slowness.held_until_us = self.slowness.held_until_us.max(at_us);
        self.pace(disks, |pace| pace.hangs_until_us = at_us);
    }

    /// Sets the longest delay of Apply's wake-ups, in us; 0 for normal.
    pub fn starve_apply(&mut self, lag_us: u64) {
        self.slowness.apply_lag_us = lag_us;
        if let Some(server) = &mut self.server {
            server.starve_apply(lag_us);
        }
    }

    /// When the last hang of a disk ends, in us.
    pub fn held_until_us(&self) -> u64 {
        self.slowness.held_until_us
    }

    /// Drops the planned faults of the disk.
    pub fn spare_disk(&self) {
        self.disk.change_plan(|plan| {
            plan.stop_at = None;
            plan.fail.clear();
        });
    }

    /// Whether the disk runs at its usual pace without planned faults, and Apply gets the CPU in
    /// time.
    pub fn is_treated_well(&self, now_us: u64) -> bool {
        let is_sound = !self.disk.is_stopping() && !self.disk.is_limited();
        is_sound && !self.slowness.is_any(now_us)
    }

    /// Notes three facts about the member for the judges. `is_well` says that the leader hears of
    /// the member's clients. `is_cut_off` says that the member reaches no other member. The third
    /// is whether it may apply committed entries late, because the leader is far (`is_far`), its
    /// disk slow, or its Apply late.
    pub fn note_trouble(&mut self, (is_well, is_far): (bool, bool), is_cut_off: bool, now_us: u64) {
        let runs = self.server.as_ref().is_some_and(Server::is_open) && self.is_awake(now_us);
        let is_held = now_us < self.slowness.held_until_us;
        let is_slow = is_held || self.slowness.is_any(now_us) || self.disk.is_limited();
        self.spells.trouble.note(!is_well, now_us);
        self.spells.cut_off.note(runs && is_cut_off, now_us);
        self.spells.lag.note(is_far || is_slow, now_us);
    }

    /// Notes that the directory of this member is lost, or damaged. The next directory draws new
    /// ids.
    pub fn note_lost(&mut self, member: Option<MemberId>) {
        self.lost = member;
        self.config.lost_count += 1;
    }

    // The CPU and the clocks.

    /// Pauses the process for `for_us`, if one runs that is not paused yet.
    pub fn pause(&mut self, now_us: u64, for_us: u64) {
        if self.is_awake(now_us) {
            self.cpu.pause(now_us, for_us);
        }
    }

    /// Pauses the process for `for_us` and stops the machine's monotonic clock meanwhile, if a
    /// process runs that is not paused yet.
    pub fn suspend(&mut self, now_us: u64, for_us: u64) {
        if self.is_awake(now_us) {
            self.cpu.suspend(now_us, for_us);
            self.tell_clock();
        }
    }

    /// Ends the pause, since the process is gone.
    pub fn end_pause(&mut self, now_us: u64) {
        self.cpu.end_pause(now_us);
        self.tell_clock();
    }

    /// Makes the monotonic clock jump ahead, unless the process is paused. Returns whether the
    /// clock has jumped.
    pub fn jump_clock(&mut self, now_us: u64, by_us: u64) -> bool {
        let is_running = !self.cpu.is_paused(now_us);
        if is_running {
            self.cpu.jump(now_us, by_us);
            self.tell_clock();
        }
        is_running
    }

    /// Moves the wall clock ahead; back if negative.
    pub fn move_wall_clock(&mut self, by_ms: i64) {
        self.cpu.move_wall_clock(by_ms);
        self.tell_clock();
    }

    fn tell_clock(&mut self) {
        if let Some(server) = &mut self.server {
            server.set_clock(self.cpu.clock());
        }
    }

    /// Plans that the process, or the power, ends at this operation of the disk.
    pub fn stop_at(&mut self, op: u64, power_is_cut: bool) {
        self.stop_cuts_power = power_is_cut;
        self.disk.change_plan(|plan| plan.stop_at = Some(op));
    }

    /// Whether a process runs and is not paused.
    pub fn is_awake(&self, now_us: u64) -> bool {
        self.is_there() && !self.cpu.is_paused(now_us)
    }

    /// Whether a process runs, on a born or an unborn directory.
    pub fn is_there(&self) -> bool {
        self.server.is_some() || self.unborn.is_some()
    }

    /// An operator copies the disk with the current directory. No copy is made of the only voter:
    /// put back, it would lead by itself, even if others vote by then.
    pub fn make_copy(&mut self) {
        let is_only_voter = self.server.as_ref().is_some_and(Server::is_only_voter);
        let id = self.member().filter(|_| !is_only_voter);
        self.copy = id.map(|id| (id, self.disk.copy()));
    }

    /// Whether the copy is one of the current directory.
    pub fn is_copied(&self) -> bool {
        let id = self.member();
        self.copy.as_ref().is_some_and(|(of, _)| Some(*of) == id)
    }

    /// The member id of the directory that the process uses; `None` if no process runs.
    pub fn member(&self) -> Option<MemberId> {
        self.hello().map(|hello| hello.member)
    }

    /// The hello that the process sends to other members; `None` if no process runs.
    pub fn hello(&self) -> Option<&Arc<Hello>> {
        let born = self.server.as_ref().map(Server::hello);
        born.or(self.unborn.as_ref().map(Unborn::hello))
    }

    /// The highest level that the host's build knows.
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
             zxid {}, fetches {:?} from {:?}, change {:?}, reaches {:?}, work {}",
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
            machine.control().servers().open_change(),
            self.place.reaches,
            server.describe_work()
        )
    }
}

/// A machine that is cut off while another machine has its place.
pub(super) struct OtherMachine {
    /// The member id of the machine's directory; `None` if the machine never ran a process.
    pub id: Option<MemberId>,
    /// The levels and messages that the machine's build knows.
    pub known: Known,
    pub disk: SimDisk,
    pub clock: Clock,
    /// The frozen process of the machine; `None` if it has ended.
    pub server: Option<Server>,
    /// The number of that process run.
    pub life: u64,
    /// Events of the frozen process that wait until it continues, in order.
    pub events: Vec<Event>,
    /// Whether a fault of the disk excuses the process if it ends itself.
    pub is_excused: bool,
    pub stop_cuts_power: bool,
}

/// A way to deceive the other members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deceit {
    OldCopy,
    TornTail,
    WrongState,
}

/// The wrong belief of the others about a member that deceives them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deceives {
    /// They believe that the member has all entries that it acknowledged, but it may lack some up
    /// to this index.
    Forgot { index: u64 },
    /// They believe that the member's state is the one that the log gives, but the simulation has
    /// changed it.
    Differs,
}
