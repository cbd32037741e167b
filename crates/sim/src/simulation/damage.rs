//! Damage to disks that loses durable data: flipped bits, and directories that an operator empties.
//!
//! An ensemble tolerates such a loss as long as a majority of its members has lost nothing. So the
//! simulation damages a member only if a majority without losses is left. A member counts as lost
//! until another directory has its vote. Damage to an end of the log that was not confirmed as
//! durable passes for a torn write (`storage::wal`): then the member silently forgets entries that
//! it had acknowledged. That is tested separately (`super::deceit`).

use storage::inspect::inspect;
use storage::snapshot::SNAPSHOT_DIR;
use storage::wal::{WAL_DIR, log_path};
use workload::generate::Random;

use super::cluster::Cluster;
use super::directory::{Found, found};
use super::host::{Deceives, Host};
use crate::disk::Lost;
use crate::fault::Disks;
use crate::limits::{ROT_TRIES_MAX, SET_ASIDE_MAX};

/// A way to damage a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Damage {
    Rot,
    Loss,
}

impl Cluster {
    /// Ends the process of a member, and damages its disk. Does nothing unless the other members
    /// are a majority that has lost nothing.
    pub fn damage(&mut self, member: usize, damage: Damage) {
        if self.hosts.may_lose(member, &self.witness) {
            self.damage_now(member, damage);
        }
    }

    /// Ends the process of a member, and damages its disk. The caller knows that a majority has
    /// lost nothing.
    pub fn damage_now(&mut self, member: usize, damage: Damage) {
        // A member without a process is spared, since the simulation does not know its member id.
        let Some(id) = self.hosts[member].member() else { return };
        // After a power cut the leader would count on the member for a while, also for a list that
        // needs it.
        let power_is_cut = self.world.random.one_in(2) && !self.hosts.are_members_changing();
        self.end_process(member, power_is_cut);
        self.hosts[member].tidy_up();
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
            host.note_lost(Some(id));
        }
        host.hinder_start(&mut self.world.random);
    }

    /// Flips bits of a file while the process of a member uses it. Undoes that if a start would not
    /// find the directory corrupt. Returns whether the damage was kept.
    pub fn rot_running(&mut self, member: usize, disks: Disks) -> bool {
        // Unnoticed, the damaged directory could become that of the only voter.
        if self.hosts.are_members_changing() {
            return false;
        }
        let Some(id) = self.hosts[member].member() else { return false };
        if self.hosts[member].lost.is_some() || !self.hosts.may_lose(member, &self.witness) {
            return false;
        }
        let is_of_disks = |path: &str| match disks {
            Disks::Both => true,
            Disks::Log => path.starts_with(WAL_DIR),
            Disks::Snapshots => path.starts_with(SNAPSHOT_DIR),
        };
        let is_rotten = self.flip_some(member, is_of_disks, |found, _| found == Found::Corrupt);
        if is_rotten {
            let host = &mut self.hosts[member];
            host.note_lost(Some(id));
            // The process ends itself if it reads the flipped bits.
            host.is_excused = true;
        }
        is_rotten
    }

    /// Flips bits of a file in use. Returns whether the damage was kept.
    fn rot(&mut self, member: usize) -> bool {
        let is_in_use = |path: &str| !path.starts_with(storage::datadir::SET_ASIDE_PREFIX);
        self.flip_some(member, is_in_use, |found, random| match found {
            Found::Corrupt => true,
            // A start may not notice such damage for long, so it is kept seldom.
            Found::Same => random.one_in(ROT_TRIES_MAX),
            Found::Torn | Found::Other => false,
        })
    }

    fn flip_some(
        &mut self,
        member: usize,
        is_candidate: impl Fn(&str) -> bool,
        is_kept: impl Fn(Found, &mut Random) -> bool,
    ) -> bool {
        let random = &mut self.world.random;
        let flipped = self.hosts[member].flip_some(random, is_candidate, is_kept);
        if let Some(flipped) = &flipped {
            self.say(Some(member), || flipped.clone());
        }
        flipped.is_some()
    }

    /// Ends the process of a member. Returns the index of the last entry in its log; the other
    /// members may rely on all entries up to that index.
    fn stop(&mut self, member: usize) -> Option<u64> {
        let last_index = self.hosts[member].server.as_ref()?.status().last_index;
        let power_is_cut = self.world.random.one_in(2);
        self.end_process(member, power_is_cut);
        Some(last_index)
    }

    /// Ends the process, and restores an earlier copy of its disk. `None` if there is no copy or no
    /// process.
    pub fn put_back(&mut self, member: usize) -> Option<Deceives> {
        let (_, copy) = self.hosts[member].copy.take()?;
        let index = self.stop(member)?;
        self.hosts[member].disk.put_back(&copy);
        self.witness.on_lost(member);
        Some(Deceives::Forgot { index })
    }

    /// Ends the process, and damages the end of its log, behind what is marked as durable. `None`
    /// if the log has no such part or no process runs.
    pub fn tear(&mut self, member: usize) -> Option<Deceives> {
        let index = self.stop(member)?;
        self.hosts[member].tidy_up();
        let is_torn = self.hosts[member].tear(&mut self.world.random);
        is_torn.then(|| {
            self.witness.on_lost(member);
            Deceives::Forgot { index }
        })
    }

    /// Makes the state of a member differ from the others'. `None` if no process runs.
    pub fn make_wrong(&mut self, member: usize) -> Option<Deceives> {
        self.hosts[member].server.as_mut()?.make_wrong();
        Some(Deceives::Differs)
    }
}

impl Host {
    /// In one of three cases, plans a stop of the next start after a few disk operations.
    pub fn hinder_start(&mut self, random: &mut Random) {
        if random.one_in(3) {
            let (ops, power_is_cut) = (random.magnitude(1, 60), random.one_in(2));
            let op = self.disk.ops() + ops;
            self.stop_at(op, power_is_cut);
        }
    }

    /// Removes the directories that were set aside, once there are [`SET_ASIDE_MAX`]: an operator
    /// cleans up.
    fn tidy_up(&self) {
        let disk = &self.disk;
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

    /// Flips bits of one random byte in a file that `is_candidate` accepts. Undoes it and tries
    /// again until `is_kept` accepts what a start makes of the damage. Returns a description of the
    /// kept damage; `None` if none was kept.
    fn flip_some(
        &self,
        random: &mut Random,
        is_candidate: impl Fn(&str) -> bool,
        is_kept: impl Fn(Found, &mut Random) -> bool,
    ) -> Option<String> {
        for _ in 0..ROT_TRIES_MAX {
            let mut paths = self.disk.paths();
            paths.retain(|path| is_candidate(path));
            if paths.is_empty() {
                return None;
            }
            let path = random.pick(&paths).clone();
            let written = self.disk.written(&path);
            if written.is_empty() {
                continue;
            }
            let (offset, bits) = (*random.pick(&written), random.between(1, 255) as u8);
            let before = self.disk.copy();
            self.disk.flip(&path, offset, bits);
            let found = found(&self.config, &before, &self.disk);
            if is_kept(found, random) {
                return Some(format!("bits flip in {path} at {offset}: {found:?}"));
            }
            self.disk.flip(&path, offset, bits);
        }
        None
    }

    /// Flips bits at the log's end so that they pass for a torn write. Returns whether the damage
    /// was kept.
    fn tear(&self, random: &mut Random) -> bool {
        let before = self.disk.copy();
        let Some(last) = inspect(&before, &mut |_| Ok(())).segments.pop() else { return false };
        if last.mark >= last.end {
            return false;
        }
        let path = log_path(last.sequence);
        for _ in 0..ROT_TRIES_MAX {
            let offset = random.between(last.mark, last.end - 1) as usize;
            let bits = random.between(1, 255) as u8;
            self.disk.flip(&path, offset, bits);
            if found(&self.config, &before, &self.disk) == Found::Torn {
                return true;
            }
            self.disk.flip(&path, offset, bits);
        }
        false
    }
}
