//! Mixed builds in a run: which build (program version) each start has, and when a client or an
//! operator asks for a higher level.
//!
//! A server may return to a build that does not know the ensemble's level. Then its process ends,
//! or the other servers refuse its links, and after a while an operator installs a newer build
//! again. If no newer build ever ran on a directory, it must never get an entry or a snapshot that
//! its build does not know.

use std::collections::BTreeSet;

use machine::Level;
use member::RaiseRefused;
use storage::datadir::{Identity, SET_ASIDE_PREFIX};
use storage::fault_disk::FaultDisk;
use storage::inspect::inspect;
use workload::generate::Random;

use super::host::Host;
use super::hosts::Hosts;
use crate::build::{Ask, Build, Builds};
use crate::fault::{Fault, Whom};
use crate::limits::{RAISE_US_MAX, STRIKE_US_MAX, TOO_OLD_CALM_US_MAX, TOO_OLD_US_MAX};

/// Counts of what happened to builds and levels in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LevelCounts {
    /// Whether the servers ran different builds.
    pub are_builds_mixed: bool,
    /// Starts with a newer build than the one before.
    pub upgrades: u64,
    /// Starts with an older build than the one before.
    pub downgrades: u64,
    /// Requests for a higher level.
    pub asked: u64,
    /// Requests refused because a member was absent.
    pub refused_absent: u64,
    /// Requests refused because a member does not know the level.
    pub refused_unknown: u64,
    /// Requests refused because the membership was changing.
    pub refused_changing: u64,
    /// When the level first rose, in virtual us; `None` if it did not.
    pub raised_us: Option<u64>,
    /// Links refused because one end does not know the other ensemble's level.
    pub links_refused: u64,
    /// The links in `links_refused` with an end that is an unborn directory whose build is below
    /// the level.
    pub joiners_refused: u64,
    /// Processes that ended because they met an entry or a snapshot of a level that they do not
    /// know.
    pub too_old: u64,
    /// Starts that failed because they met an entry or a snapshot of a level that the build does
    /// not know.
    pub too_old_starts: u64,
    /// Snapshots that a member with an old build fetched from one with a new build.
    pub snapshots_to_old: u64,
    /// Snapshots that a member with a new build fetched from one with an old build.
    pub snapshots_to_new: u64,
}

/// A random act that can change the level, or the build of a server.
pub(super) enum Question {
    /// Restarts this server, maybe with another build.
    Restart(usize),
    /// Asks for a higher level. Maybe a fault begins just before the request, or `apart_us` after
    /// it.
    Raise { ask: Ask, is_struck_before: bool, is_struck_after: bool, apart_us: u64 },
}

/// The builds of a run, the requests for a higher level, and their counts.
pub(super) struct Levels {
    builds: Option<Builds>,
    random: Random,
    counts: LevelCounts,
    /// The servers that have had their first start.
    started: BTreeSet<usize>,
    /// When the first request at the end of the run came, and when the next one is due, in us;
    /// `None` before the first.
    asked_at_last: Option<(u64, u64)>,
}

impl Levels {
    /// The state before any server has started. `builds` is `None` if all servers run one build.
    pub fn new(builds: Option<Builds>) -> Levels {
        let seed = builds.as_ref().map_or(0, |builds| builds.seed);
        let are_builds_mixed = builds.is_some();
        Levels {
            builds,
            random: Random::new(seed),
            counts: LevelCounts { are_builds_mixed, ..LevelCounts::default() },
            started: BTreeSet::new(),
            asked_at_last: None,
        }
    }

    /// Whether servers may run different builds.
    pub fn are_builds_mixed(&self) -> bool {
        self.counts.are_builds_mixed
    }

    /// The counts. `raised_us` is when the level rose.
    pub fn counts(&self, raised_us: Option<u64>) -> LevelCounts {
        LevelCounts { raised_us, ..self.counts.clone() }
    }

    /// The highest level that new builds know; `None` if all servers run one build.
    pub fn level_of_new_builds(&self) -> Option<Level> {
        self.builds.as_ref().map(|builds| builds.new)
    }

    fn new_level(&self) -> Level {
        self.level_of_new_builds().unwrap_or(Level::NEWEST)
    }

    // Builds.

    /// Chooses the build for a start of a member. For an old build returns a copy of the disk. If a
    /// newer build has run on that disk, the start may have to leave it unchanged; the copy serves
    /// to check that.
    pub fn choose_build(
        &mut self,
        (member, host): (usize, &mut Host),
        level: Level,
        is_calm: bool,
        may_change: bool,
    ) -> Option<FaultDisk> {
        let Levels { builds, random, counts, started, .. } = self;
        let builds = builds.as_ref()?;
        let is_first = started.insert(member);
        let before = match host.level_max() {
            _ if is_first => builds.first[member],
            level_max if level_max < builds.new => Build::Old,
            _ => Build::New,
        };
        let is_new = match before {
            build if is_first => build == Build::New,
            _ if is_calm && (builds.end_new || level > builds.old) => true,
            _ if is_calm || !may_change => before == Build::New || host.build.wants_new,
            Build::Old if host.build.wants_new => !random.one_in(3),
            Build::New if may_change && host.build.wants_old => false,
            Build::Old if builds.may_change => random.one_in(3),
            // The operator of a new machine may install the build that the lost one had at first.
            Build::New if builds.may_change && host.lost.is_some() => !random.one_in(3),
            Build::New if builds.may_change => !random.one_in(8),
            build => build == Build::New,
        };
        let build = if is_new { Build::New } else { Build::Old };
        host.build.wants_new &= !is_new;
        host.build.wants_old = false;
        host.build.upgrade_at_us = None;
        if build != before {
            match build {
                Build::New => counts.upgrades += 1,
                Build::Old => counts.downgrades += 1,
            }
        }
        host.config.options.order.known = builds.known(build, random);
        (build == Build::Old).then(|| host.disk.copy())
    }

    /// The members with old builds whose processes end when the faults stop, to start again with
    /// new builds.
    pub fn ending(&self, hosts: &Hosts) -> Vec<usize> {
        let Some(Builds { new, end_new: true, .. }) = self.builds else { return Vec::new() };
        let is_old = |at: &usize| hosts[*at].is_there() && hosts[*at].level_max() < new;
        (0..hosts.len()).filter(is_old).collect()
    }

    /// The members on which an operator installs a new build now: he noticed a while ago that they
    /// do not know this level of the ensemble.
    pub fn upgraded(
        &mut self,
        hosts: &mut Hosts,
        level: Level,
        now_us: u64,
        is_calm: bool,
    ) -> Vec<usize> {
        if self.builds.is_none() || level == Level::FIRST || hosts.is_any_deceiving() {
            return Vec::new();
        }
        let wait_us_max = if is_calm { TOO_OLD_CALM_US_MAX } else { TOO_OLD_US_MAX };
        let mut upgraded = Vec::new();
        for (member, host) in hosts.iter_mut().enumerate() {
            if !host.is_there() || host.level_max() >= level {
                continue;
            }
            let random = &mut self.random;
            let mut at_us = || now_us + random.magnitude(10_000, wait_us_max);
            let at_us = *host.build.upgrade_at_us.get_or_insert_with(&mut at_us);
            // A time drawn while faults came may be too late after they have stopped.
            let at_us = at_us.min(now_us + wait_us_max);
            host.build.upgrade_at_us = Some(at_us);
            if at_us <= now_us {
                host.build.wants_new = true;
                upgraded.push(member);
            }
        }
        upgraded
    }

    // Counts.

    /// Counts a running process that met a level that it does not know.
    pub fn count_too_old(&mut self) {
        self.counts.too_old += 1;
    }

    /// Counts a start that met a level that it does not know.
    pub fn count_too_old_start(&mut self) {
        self.counts.too_old_starts += 1;
    }

    /// Counts a link that was refused because of the levels of its ends.
    pub fn count_refused_link(&mut self, ends: [&Host; 2], level: Level) {
        let is_below = |host: &Host| host.unborn.is_some() && host.level_max() < level;
        self.counts.links_refused += 1;
        self.counts.joiners_refused += u64::from(ends.into_iter().any(is_below));
    }

    /// A member has installed a snapshot of another member. Counts it if their builds differ.
    pub fn count_fetched(&mut self, hosts: &Hosts, member: usize) {
        let host = &hosts[member];
        let Some(holder) = host.server.as_ref().and_then(|it| it.fetching().last()) else { return };
        let Some(holder) = hosts.position(holder.holder) else { return };
        let holder = &hosts[holder];
        let counts = &mut self.counts;
        counts.snapshots_to_old += u64::from(holder.level_max() > host.level_max());
        counts.snapshots_to_new += u64::from(holder.level_max() < host.level_max());
    }

    // Raising.

    /// The planned requests, each with its time in us.
    pub fn planned(&self) -> &[(u64, Ask)] {
        self.builds.as_ref().map_or(&[], |builds| &builds.asks)
    }

    /// Draws the time until the next random request, in us; `None` if there are none.
    pub fn draw_interval_us(&mut self) -> Option<u64> {
        let interval_us = self.builds.as_ref().and_then(|builds| builds.ask_interval_us);
        interval_us.map(|interval_us| self.random.between(1, 2 * interval_us))
    }

    /// Draws a random act: a restart of a server, or a request for a higher level.
    pub fn draw_question(&mut self, hosts: &mut Hosts) -> Question {
        let new = self.new_level();
        let random = &mut self.random;
        let member = random.below(hosts.len() as u64) as usize;
        if random.one_in(3) {
            // The restart is mostly a step of a rolling upgrade.
            let is_old = |at: &usize| hosts[*at].level_max() < new;
            let old = (0..hosts.len()).find(is_old).filter(|_| !random.one_in(4));
            old.into_iter().for_each(|old| hosts[old].build.wants_new = true);
            return Question::Restart(old.unwrap_or(member));
        }
        let ask = if random.one_in(2) { Ask::Client(member) } else { Ask::Operator };
        let (is_struck, is_first) = (random.one_in(3), random.one_in(2));
        let apart_us = random.magnitude(10, STRIKE_US_MAX);
        let (is_struck_before, is_struck_after) = (is_struck && is_first, is_struck && !is_first);
        Question::Raise { ask, is_struck_before, is_struck_after, apart_us }
    }

    /// Counts a client's request. Returns the level that the client needs.
    pub fn ask_as_client(&mut self) -> Level {
        self.counts.asked += 1;
        self.new_level()
    }

    /// Counts an operator's request by the answer to it.
    pub fn count_answer(&mut self, raised: &Result<Level, RaiseRefused>) {
        let counts = &mut self.counts;
        counts.asked += 1;
        match raised {
            Err(RaiseRefused::Absent { .. }) => counts.refused_absent += 1,
            Err(RaiseRefused::UnknownThere { .. }) => counts.refused_unknown += 1,
            Err(RaiseRefused::Changing) => counts.refused_changing += 1,
            Err(RaiseRefused::NotLeader | RaiseRefused::UnknownHere { .. }) | Ok(_) => {}
        }
    }

    /// Plans the requests at the end of the run. Returns how many us ago the first of them came,
    /// and the request that is due now, if any.
    pub fn ask_at_last(&mut self, member_count: usize, now_us: u64) -> (u64, Option<Ask>) {
        let (since_us, next_us) = *self.asked_at_last.get_or_insert((now_us, now_us));
        let waited_us = now_us - since_us;
        let Some(Builds { seed, .. }) = self.builds.as_ref().filter(|_| now_us >= next_us) else {
            return (waited_us, None);
        };
        // A member keeps a client's request until it is answered; an operator must ask again.
        let (ask, again_us) = match seed % 2 {
            0 => (Ask::Client((seed / 2 % member_count as u64) as usize), 2 * RAISE_US_MAX),
            _ => (Ask::Operator, member::membership::limits::RAISES_INTERVAL_MS * 1_000),
        };
        self.asked_at_last = Some((since_us, now_us + again_us));
        (waited_us, Some(ask))
    }

    /// Draws a fault close to a request for a higher level, mostly one of the leader. During a
    /// raise often all processes end, so that the raise is in logs while no member knows whether it
    /// is committed.
    pub fn draw_strike(&mut self, is_raising: bool, hosts: &mut Hosts) -> (Whom, Fault) {
        let random = &mut self.random;
        let one = Whom::one(random.below(hosts.len() as u64) as usize);
        let all = Whom::Members(u32::MAX);
        if random.one_in(2) {
            // The old build runs from this server's next start on.
            let back = random.below(hosts.len() as u64) as usize;
            hosts[back].build.wants_old = true;
        }
        let for_us = random.magnitude(10_000, 20_000_000);
        match if is_raising { random.below(18) } else { random.below(9) } {
            0 => (Whom::Leader, Fault::Kill),
            1 => (Whom::Leader, Fault::PowerLoss),
            2 => (Whom::Leader, Fault::Pause { for_us }),
            3 => (Whom::Leader, Fault::Partition { is_one_way: random.one_in(3), for_us }),
            4 => (Whom::Leader, Fault::HandOver { to: None }),
            5 => (one, Fault::Partition { is_one_way: random.one_in(3), for_us }),
            6 => (one, Fault::EmptiedDisk),
            7 => (one, Fault::Kill),
            8 => (one, Fault::BreakLinks { one_in: random.between(1, 4) }),
            9..14 => (all, Fault::Kill),
            _ => (all, Fault::PowerLoss),
        }
    }
}

/// Checks that a start that met an unknown level left the directory as it was.
///
/// # Errors
/// The start has changed it.
pub(super) fn check_left_alone(before: &FaultDisk, after: &FaultDisk) -> Result<(), String> {
    let is_set_aside = |path: &&String| path.starts_with(SET_ASIDE_PREFIX);
    let set_aside = |disk: &FaultDisk| disk.paths().iter().filter(is_set_aside).count();
    if set_aside(after) > set_aside(before) {
        return Err("a start that is too old has set its directory aside".to_string());
    }
    let (kept, found) = (kept_on(before), kept_on(after));
    if kept != found {
        return Err(format!("a start that is too old has made {found:?} of {kept:?}"));
    }
    Ok(())
}

/// The part of a directory that a start must not change if it meets an unknown level: the
/// directory's identity, the index of the log's last entry, and the names of the snapshots.
fn kept_on(disk: &FaultDisk) -> (Option<Identity>, Option<u64>, Vec<String>) {
    let report = inspect(disk, &mut |_| Ok(()));
    let snapshots = report.snapshots.into_iter().map(|it| it.name).collect();
    (report.identity, report.last_index, snapshots)
}
