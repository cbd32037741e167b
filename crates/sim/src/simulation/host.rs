//! A member's machine, as the simulation sees it.

use std::sync::Arc;

use machine::{Level, MemberId};
use member::Hello;
use member::membership::hello::Known;
use storage::fault_disk::FaultDisk;

use crate::check::{Trouble, WakingTime};
use crate::disk::SimDisk;
use crate::fault::Disks;
use crate::server::{MemberConfig, Pace, Paces, Server, Unborn};
use crate::world::{Clock, Event};

/// How a process that stutters is given the CPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stutter {
    /// How long it runs in each period.
    pub run_us: u64,
    pub period_us: u64,
}

/// A member's machine: its disk, its clocks, and the process if it runs.
pub(super) struct Host {
    pub config: MemberConfig,
    pub disk: SimDisk,
    pub clock: Clock,
    pub server: Option<Server>,
    /// The process, while its directory is not born; none when it is born or no process runs.
    pub unborn: Option<Unborn>,
    /// The number of the process that runs, or of the time without one. No two in a run have the
    /// same number.
    pub life: u64,
    pub waking: WakingTime,
    /// When others may not have heard of its clients.
    pub trouble: Trouble,
    /// When it ran and could hear no other member.
    pub cut_off: Trouble,
    /// When it may have been late to apply what was committed, though it heard of the leader.
    pub lag: Trouble,
    pub paused_until_us: u64,
    /// When the last sync that its disks held back has returned, at the latest: a sync that is
    /// under way when the faults stop still takes that long.
    pub held_until_us: u64,
    /// Whether the clock stands still in the last pause, too.
    pub is_suspended: bool,
    /// Whether the process stays down until a script starts it.
    pub is_left_down: bool,
    /// Whether the disk has failed in a way that excuses the end of the process.
    pub is_excused: bool,
    /// The bytes of a snapshot that someone keeps elsewhere; none before the first restore.
    pub put_aside: Option<Vec<u8>>,
    pub stop_cuts_power: bool,
    pub paces: Paces,
    pub apply_lag_us: u64,
    /// The rhythm of a process that runs for a while of each period only; none if it does not
    /// stutter.
    pub stutter: Option<Stutter>,
    /// The member whose directory is lost, or may be found to be; none once another directory has
    /// its vote.
    pub lost: Option<MemberId>,
    /// What the others are wrong about while they count on what the member in [`Host::lost`] does
    /// not have; none if it deceives none of them.
    pub deceives: Option<Deceives>,
    /// The machine that had the server's place before, and is cut off.
    pub other: Option<OtherMachine>,
    /// What the disk held when somebody copied it, and the member whose directory that is.
    pub copy: Option<(MemberId, FaultDisk)>,
    /// Whether the next start is to have a new build, since the one that ran does not know the
    /// level.
    pub wants_new_build: bool,
    /// Whether the next start is to have an old build, since somebody has installed it.
    pub wants_old_build: bool,
    /// When somebody installs a newer build, once the one that runs is below the level.
    pub upgrade_at_us: Option<u64>,
}

impl Host {
    /// A machine on which nothing runs.
    pub fn new(config: MemberConfig, disk: SimDisk, clock: Clock) -> Host {
        Host {
            config,
            disk,
            clock,
            server: None,
            unborn: None,
            life: 0,
            waking: WakingTime::default(),
            trouble: Trouble::default(),
            cut_off: Trouble::default(),
            lag: Trouble::default(),
            paused_until_us: 0,
            held_until_us: 0,
            is_suspended: false,
            is_left_down: false,
            is_excused: false,
            put_aside: None,
            stop_cuts_power: false,
            paces: Paces::default(),
            apply_lag_us: 0,
            stutter: None,
            lost: None,
            deceives: None,
            other: None,
            copy: None,
            wants_new_build: false,
            wants_old_build: false,
            upgrade_at_us: None,
        }
    }

    /// Changes how the syncs of these disks go, also for the process that runs.
    pub fn pace(&mut self, disks: Disks, change: impl Fn(&mut Pace)) {
        self.paces.change(disks, change);
        if let Some(server) = &mut self.server {
            server.set_paces(self.paces);
        }
    }

    /// Lets no sync of these disks return before `at_us`.
    pub fn hang_until(&mut self, disks: Disks, at_us: u64) {
        self.held_until_us = self.held_until_us.max(at_us);
        self.pace(disks, |pace| pace.hangs_until_us = at_us);
    }

    /// When the last sync that its disks held back has returned, at the latest: a sync that is
    /// under way when the faults stop still takes that long.
    pub fn held_until_us(&self) -> u64 {
        self.held_until_us
    }

    /// Lets Apply be given the CPU up to `lag_us` late from now on; 0 is as usual.
    pub fn starve_apply(&mut self, lag_us: u64) {
        self.apply_lag_us = lag_us;
        if let Some(server) = &mut self.server {
            server.starve_apply(lag_us);
        }
    }

    /// Moves the wall clock ahead.
    pub fn move_wall_clock(&mut self, by_ms: i64) {
        self.clock.wall_offset_ms += by_ms;
        if let Some(server) = &mut self.server {
            server.set_clock(self.clock);
        }
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
        is_sound && !self.paces.are_slow(now_us) && self.apply_lag_us == 0
    }

    /// Notes whether others hear of its clients, whether it is cut off from the others, and whether
    /// it may be late to apply what was committed: its leader is far, its disk slow or its Apply
    /// late.
    pub fn note_trouble(&mut self, (is_well, is_far): (bool, bool), is_cut_off: bool, now_us: u64) {
        self.trouble.note(!is_well, now_us);
        let runs = self.server.as_ref().is_some_and(Server::is_open) && self.is_awake(now_us);
        self.cut_off.note(runs && is_cut_off, now_us);
        let is_held = now_us < self.held_until_us;
        let is_slow = is_held || self.paces.are_slow(now_us) || self.apply_lag_us > 0;
        self.lag.note(is_far || is_slow || self.disk.is_limited(), now_us);
    }

    /// Notes that the member that has this directory is lost, or may be found to be. The next
    /// directory draws other ids.
    pub fn note_lost(&mut self, member: Option<MemberId>) {
        self.lost = member;
        self.config.lost_count += 1;
    }

    /// The process, if there is one that runs, is not given the CPU for so long.
    pub fn pause(&mut self, now_us: u64, for_us: u64) -> bool {
        let is_pausing = self.is_awake(now_us);
        if is_pausing {
            self.is_suspended = false;
            self.paused_until_us = now_us + for_us;
            self.waking.pause(now_us, now_us + for_us);
        }
        is_pausing
    }

    /// The process, if there is one that runs, is not given the CPU for so long, and the machine's
    /// monotonic clock stands still.
    pub fn suspend(&mut self, now_us: u64, for_us: u64) {
        if self.pause(now_us, for_us) {
            self.is_suspended = true;
            let lost_us = self.clock.elapsed_us(now_us + for_us) - self.clock.elapsed_us(now_us);
            self.move_clock(-(lost_us as i64));
        }
    }

    /// Ends the pause of a process that is gone.
    pub fn end_pause(&mut self, now_us: u64) {
        if core::mem::take(&mut self.is_suspended) {
            // The clock has stood still only until now.
            let end_us = self.paused_until_us.max(now_us);
            let left_us = self.clock.elapsed_us(end_us) - self.clock.elapsed_us(now_us);
            self.move_clock(left_us as i64);
        }
        self.paused_until_us = 0;
        self.waking.cut_short(now_us);
    }

    /// Moves the monotonic clock ahead, or back if it has stayed behind.
    pub fn move_clock(&mut self, by_us: i64) {
        self.clock.monotonic_offset_us += by_us;
        if let Some(server) = &mut self.server {
            server.set_clock(self.clock);
        }
    }

    /// Lets everything stop at this operation of the disk.
    pub fn stop_at(&mut self, op: u64, power_is_cut: bool) {
        self.stop_cuts_power = power_is_cut;
        self.disk.change_plan(|plan| plan.stop_at = Some(op));
    }

    /// Whether a process runs, and is given the CPU.
    pub fn is_awake(&self, now_us: u64) -> bool {
        self.is_there() && self.paused_until_us <= now_us
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

    /// The member id of the directory that the process uses; none if no process runs.
    pub fn member(&self) -> Option<MemberId> {
        self.hello().map(|hello| hello.member)
    }

    /// The hello with which the process introduces itself to others; none if no process runs.
    pub fn hello(&self) -> Option<&Arc<Hello>> {
        let born = self.server.as_ref().map(Server::hello);
        born.or(self.unborn.as_ref().map(Unborn::hello))
    }

    /// The highest level that its build knows.
    pub fn level_max(&self) -> Level {
        self.config.options.known.level_max
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
    /// The member id of its directory; none: it was never started.
    pub id: Option<MemberId>,
    /// The build that is installed there.
    pub known: Known,
    pub disk: SimDisk,
    pub clock: Clock,
    /// The process that stands still on it; none: it has ended.
    pub server: Option<Server>,
    /// The life of that process.
    pub life: u64,
    /// Events that are due in that process once it goes on, in order.
    pub events: Vec<Event>,
    /// Whether the disk has failed in a way that excuses the end of the process.
    pub is_excused: bool,
    pub stop_cuts_power: bool,
}

/// The means by which a member deceives the others.
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
