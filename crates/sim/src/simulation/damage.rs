//! Disks that lose what was durable: bits that flip, directories that somebody empties.
//!
//! An ensemble tolerates that for a minority of its members at a time: a member is lost until
//! another directory has its vote. Until then no member beyond that minority loses anything. A part
//! of the log's end that was not confirmed to be durable counts as torn when it is damaged
//! (`storage::wal`). A member with such a torn log has lost in silence what it had acknowledged:
//! that is tried apart from this (`super::deceit`).

use machine::MemberId;
use member::membership::bootstrap::Attendance;
use storage::snapshot::SNAPSHOT_DIR;
use storage::wal::WAL_DIR;
use workload::generate::Random;

use super::Simulation;
use super::directory::{Found, found};
use crate::disk::Lost;
use crate::fault::Disks;
use crate::limits::{ROT_TRIES_MAX, SET_ASIDE_MAX};
use crate::server::Server;

/// What happens to a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Damage {
    Rot,
    Loss,
}

impl Simulation {
    /// Ends the process of a member, and damages what it has on its disk.
    pub(super) fn damage(&mut self, member: usize, damage: Damage) {
        if !self.may_lose(member) {
            return;
        }
        // A member without a process is left alone: its member id is not known.
        let Some(id) = self.hosts[member].hello().map(|hello| hello.member) else { return };
        let power_is_cut = self.world.random.one_in(2);
        self.end_process(member, power_is_cut);
        self.tidy_up(member);
        let is_damaged = match damage {
            Damage::Rot => self.rot(member),
            Damage::Loss => {
                self.hosts[member].disk.lose(Lost::All);
                self.witness.on_lost(member);
                true
            }
        };
        let host = &mut self.hosts[member];
        if is_damaged {
            host.lost = Some(id);
            host.config.lost_count += 1;
        }
        self.hinder_start(member);
    }

    /// Flips bits of a file that the process of a member uses, if the next start will notice it.
    pub(super) fn rot_running(&mut self, member: usize, disks: Disks) {
        let Some(id) = self.hosts[member].hello().map(|hello| hello.member) else { return };
        if self.hosts[member].lost.is_some() || !self.may_lose(member) {
            return;
        }
        let is_of_disks = |path: &str| match disks {
            Disks::Both => true,
            Disks::Log => path.starts_with(WAL_DIR),
            Disks::Snapshots => path.starts_with(SNAPSHOT_DIR),
        };
        if self.flip_some(member, is_of_disks, |found, _| found == Found::Corrupt) {
            let host = &mut self.hosts[member];
            host.lost = Some(id);
            host.config.lost_count += 1;
            // A process that reads the bits ends itself.
            host.is_excused = true;
            self.running_rot_count += 1;
        }
    }

    /// Lets the next start stop after a few disk operations, now and then.
    pub(super) fn hinder_start(&mut self, member: usize) {
        let host = &mut self.hosts[member];
        if self.world.random.one_in(3) {
            let (ops, power_is_cut) =
                (self.world.random.magnitude(1, 60), self.world.random.one_in(2));
            let op = host.disk.ops() + ops;
            host.stop_at(op, power_is_cut);
        }
    }

    /// Whether a majority has lost nothing if this member loses its directory. An ensemble of one
    /// never loses its directory.
    pub(super) fn may_lose(&mut self, member: usize) -> bool {
        let host_count = self.hosts.len();
        self.note_replaced();
        // Where a majority may begin an ensemble, a member that has no place yet could begin
        // another one.
        let may_begin = self.options.member.attendance != Attendance::All;
        let is_missing = |at: &usize| {
            let is_lost = self.hosts[*at].lost.is_some();
            *at != member && (is_lost || (may_begin && !self.has_its_place(*at, member)))
        };
        (0..host_count).filter(is_missing).count() < host_count.div_ceil(2) - 1
    }

    pub(super) fn note_replaced(&mut self) {
        for at in 0..self.hosts.len() {
            if self.is_replaced(at) {
                self.hosts[at].lost = None;
            }
        }
    }

    /// Whether what was lost is replaced: the member has another directory, which is one of as many
    /// voters as there were, and all members know that. Then it has what was committed before,
    /// since the change was committed behind that. No member waits for the vote of the one that is
    /// gone, and no log holds a change under way that could make a member wait for it.
    pub(super) fn is_replaced(&self, member: usize) -> bool {
        let host = &self.hosts[member];
        let id = host.hello().map(|hello| hello.member);
        let Some(id) = id.filter(|id| host.lost != Some(*id)) else { return false };
        // A learner may be about to be a voter: then no member could do without its vote.
        let is_out = |it: &Server| host.lost.is_none_or(|lost| !it.learners().contains(&lost.0));
        let knows = |server: &Server| {
            self.has_vote(id, server)
                && is_out(server)
                && !self.witness.may_change_membership(server.status())
        };
        self.hosts.iter().all(|host| host.server.as_ref().is_some_and(knows))
    }

    /// Whether a member runs and is one of as many voters as there are servers, as far as a member
    /// other than `lost` knows: what only `lost` knows is lost with it.
    fn has_its_place(&self, member: usize, lost: usize) -> bool {
        let Some(server) = &self.hosts[member].server else { return false };
        let id = server.hello().member;
        let others = self.hosts.iter().enumerate().filter(|(at, _)| *at != lost);
        let mut others = others.filter_map(|(_, host)| host.server.as_ref());
        others.any(|server| self.has_vote(id, server))
    }

    /// Whether a member votes, and as many do as there are servers, as far as one of them knows.
    fn has_vote(&self, id: MemberId, known_to: &Server) -> bool {
        let voters = known_to.voters();
        voters.len() == self.hosts.len() && voters.contains(&id.0)
    }

    /// Removes directories that were set aside, once there are too many: someone has looked at
    /// them.
    pub(super) fn tidy_up(&mut self, member: usize) {
        let disk = &self.hosts[member].disk;
        let paths = disk.paths();
        let mut set_aside: Vec<&str> = paths
            .iter()
            .filter_map(|path| path.split_once('/'))
            .map(|(dir, _)| dir)
            .filter(|dir| dir.starts_with(storage::datadir::SET_ASIDE_PREFIX))
            .collect();
        set_aside.dedup();
        if set_aside.len() >= SET_ASIDE_MAX {
            set_aside.into_iter().for_each(|dir| disk.lose(Lost::Tree(dir)));
        }
    }

    /// Flips bits of a file in use. Returns whether they are left flipped.
    fn rot(&mut self, member: usize) -> bool {
        let is_in_use = |path: &str| !path.starts_with(storage::datadir::SET_ASIDE_PREFIX);
        self.flip_some(member, is_in_use, |found, random| match found {
            Found::Corrupt => true,
            // Such damage may stay unnoticed for long.
            Found::Same => random.one_in(ROT_TRIES_MAX),
            Found::Torn | Found::Other => false,
        })
    }

    /// Flips bits of a byte of a file that `is_candidate` takes, and puts them back, until
    /// `is_kept` takes what the next start makes of it. Returns false if no bits are left flipped.
    fn flip_some(
        &mut self,
        member: usize,
        is_candidate: impl Fn(&str) -> bool,
        is_kept: impl Fn(Found, &mut Random) -> bool,
    ) -> bool {
        for _ in 0..ROT_TRIES_MAX {
            let random = &mut self.world.random;
            let host = &self.hosts[member];
            let mut paths = host.disk.paths();
            paths.retain(|path| is_candidate(path));
            if paths.is_empty() {
                return false;
            }
            let path = random.pick(&paths).clone();
            let written = host.disk.written(&path);
            if written.is_empty() {
                continue;
            }
            let (offset, bits) = (*random.pick(&written), random.between(1, 255) as u8);
            let before = host.disk.copy();
            host.disk.flip(&path, offset, bits);
            let found = found(&host.config, &before, &host.disk);
            if is_kept(found, random) {
                self.say(Some(member), || format!("bits flip in {path} at {offset}: {found:?}"));
                return true;
            }
            host.disk.flip(&path, offset, bits);
        }
        false
    }
}
