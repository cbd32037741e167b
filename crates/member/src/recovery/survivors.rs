//! Reads the data directories of the servers that survive when an ensemble has lost its quorum for
//! good, and finds the one that goes furthest. Reading changes nothing. One directory can also
//! begin anew in place, as the only member of a new cluster ([`Survivor::begin_anew`]).
//!
//! The whole log counts, with the entries behind the commit index: some of them may have been
//! acknowledged, since a member learns late that an entry is committed. An entry that was never
//! committed may take effect this way, as it could if the lost servers had come back.

use std::collections::BTreeSet;

use machine::image::restore::RestoreError;
use machine::{Level, Machine, MemberId};
use replica::{MemberChange, MembershipChange, Transition};
use storage::StorageError;
use storage::datadir::{Identity, ReadDir, open_to_read};
use storage::disk::Disk;
use storage::snapshot::{self, SnapshotMeta, SnapshotName, SnapshotReader};
use storage::wal::Membership;
use thiserror::Error;

use super::{RecoveryError, draw_ids, freeze_birth, restore_newest};
use crate::inspect::{HeldState, SeenLog, see_log};
use crate::membership::bootstrap::absent_server;

/// A place in the log of an ensemble. Of two logs, the one with the higher last place has every
/// committed entry of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPlace {
    /// The term of the entry.
    pub term: u64,
    /// The index of the entry.
    pub index: u64,
}

/// A directory of a server that survives, locked as long as this value exists.
pub struct Survivor<D: Disk> {
    disk: D,
    dir: ReadDir<D>,
    log: SeenLog,
    last: LogPlace,
}

/// Why the directories cannot be used.
#[derive(Debug, Error)]
pub enum SurvivorError {
    /// A directory cannot be read, is damaged, or is in use.
    #[error(transparent)]
    Unreadable(#[from] RecoveryError),
    /// The log of a directory is damaged.
    #[error("its log is damaged: {0}")]
    Damaged(String),
    /// The state has a level that the server does not know.
    #[error(transparent)]
    UnknownLevel(#[from] RestoreError),
    /// Entries of the log cannot be applied.
    #[error("the state goes up to entry {index} only, of {last}: {why}")]
    Unapplied {
        /// The last entry that could be applied.
        index: u64,
        /// The last entry of the log.
        last: u64,
        /// Why the next one could not be.
        why: String,
    },
}

impl SurvivorError {
    /// Whether a process, perhaps a server, holds the directory.
    pub fn is_in_use(&self) -> bool {
        let SurvivorError::Unreadable(RecoveryError::Storage(error)) = self else { return false };
        matches!(error, StorageError::InUse { .. })
    }

    /// Whether the directory's content is at fault, and not the way to it.
    pub fn is_of_content(&self) -> bool {
        match self {
            SurvivorError::Unreadable(error) => error.is_corruption(),
            SurvivorError::Damaged(_) | SurvivorError::Unapplied { .. } => true,
            SurvivorError::UnknownLevel(_) => false,
        }
    }
}

/// Whether a set of directories has every acknowledged write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Completeness {
    /// The directories have every acknowledged write: each quorum has one of their members.
    Complete,
    /// A quorum without these directories may have acknowledged writes that they lack. The lost
    /// voters as far as the directory that goes furthest knows them, ascending.
    Unknown {
        /// Voters whose directories are missing.
        lost: Vec<MemberId>,
    },
}

impl<D: Disk + Clone> Survivor<D> {
    /// Locks the directory that is the root of `disk`, and reads its log.
    ///
    /// # Errors
    /// A process uses the directory. Or it was condemned, has no identity, or is damaged.
    pub fn open(disk: D) -> Result<Survivor<D>, SurvivorError> {
        let dir = open_to_read(&disk).map_err(RecoveryError::from)?;
        let log = see_log(&disk);
        if let Some(problem) = log.report.problems.first() {
            return Err(SurvivorError::Damaged(problem.clone()));
        }
        let last = last_place(&disk, &log).map_err(RecoveryError::from)?;
        Ok(Survivor { disk, dir, log, last })
    }

    /// The directory's identity.
    pub fn identity(&self) -> Identity {
        self.dir.identity()
    }

    /// The last entry that the directory has, in its log or its newest snapshot.
    pub fn last(&self) -> LogPlace {
        self.last
    }

    /// The last entry that the directory knows to be committed.
    pub fn commit(&self) -> u64 {
        self.log.report.hard_state.map_or(0, |state| state.commit)
    }

    /// The state after the last entry.
    ///
    /// # Errors
    /// The state cannot be read up to there.
    pub fn state(&self) -> Result<Machine, SurvivorError> {
        let (meta, machine) = restore_newest(&self.disk, 0, |_| {})?;
        let last_index = self.last.index;
        let mut held = HeldState { machine, index: meta.index, last_index, ended: None };
        let has_other = self.log.terms.of(meta.index).is_some_and(|term| term != meta.term);
        if !has_other {
            held.apply_log(&self.disk, &self.log.terms, last_index);
        }
        if held.index == last_index {
            return Ok(held.machine);
        }
        let why = held.ended.unwrap_or_else(|| "newer snapshots cannot be read".to_string());
        Err(SurvivorError::Unapplied { index: held.index, last: last_index, why })
    }

    /// Whether the directory is the only member of its cluster.
    pub fn is_alone(&self) -> bool {
        let own = BTreeSet::from([self.identity().member_id]);
        let is_own = |Members { voters, outgoing, learners }: &Members| {
            *voters == own && outgoing.is_empty() && learners.is_empty()
        };
        self.members().is_some_and(|all| all.iter().all(is_own))
    }

    /// Makes the directory the only member of a new cluster, with the state after its last entry
    /// and with ids from `drawn`, which must be random. The server keeps its number and its place
    /// in the list, and the others are taken out. `level_max` is the highest level that the server
    /// knows. Returns the name of the subdirectory that has the old content.
    ///
    /// # Errors
    /// The state cannot be read up to the last entry, has a higher level, or the disk failed. The
    /// next start finds the old content or the new one.
    pub fn begin_anew(self, drawn: &[u8; 32], level_max: Level) -> Result<String, SurvivorError> {
        let state = self.state()?;
        state.check_level(level_max)?;
        let own = MemberId(self.identity().member_id);
        let (cluster_id, member) = draw_ids(drawn);
        let (point, pieces) = freeze_birth(Machine::begin_alone_with(state, own));
        let Survivor { disk, dir, .. } = self;
        let failed = |error: StorageError| SurvivorError::from(RecoveryError::from(error));
        let identity = Identity { cluster_id, member_id: member.0 };
        dir.begin_anew(&disk, identity, (point, &pieces)).map_err(failed)
    }

    /// The members as of the last entry that is known to be committed, and after each later entry
    /// that changes them: such a change may be committed or not. `None` if one cannot be read.
    fn members(&self) -> Option<Vec<Members>> {
        let meta = newest_meta(&self.disk)?;
        let mut all = vec![Members::of(&meta.membership)];
        if self.log.terms.of(meta.index).is_some_and(|term| term != meta.term) {
            return Some(all);
        }
        for (index, term, change) in &self.log.membership_entries {
            if *index <= meta.index || !self.log.terms.counts(*index, *term) {
                continue;
            }
            let mut members = all.last()?.clone();
            members.change(change.as_ref()?);
            if *index <= self.commit() {
                all.clear();
            }
            all.push(members);
        }
        Some(all)
    }
}

/// The metadata of the newest snapshot whose header can be read.
fn newest_meta<D: Disk + Clone>(disk: &D) -> Option<SnapshotMeta> {
    let names = snapshot::list(disk).ok()?;
    let open = |name: &SnapshotName| SnapshotReader::open(disk.clone(), &name.name).ok();
    names.iter().rev().find_map(|name| Some(open(name)?.meta().clone()))
}

/// The members of an ensemble by their ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Members {
    voters: BTreeSet<u64>,
    /// The voters before, in a joint membership.
    outgoing: BTreeSet<u64>,
    learners: BTreeSet<u64>,
}

impl Members {
    fn of(membership: &Membership) -> Members {
        let Membership { voters, voters_outgoing, learners, learners_next, .. } = membership;
        Members {
            voters: voters.iter().copied().collect(),
            outgoing: voters_outgoing.iter().copied().collect(),
            learners: learners.iter().chain(learners_next).copied().collect(),
        }
    }

    /// Changes the members as a membership entry does once it is committed. In a joint membership
    /// only leaving it is a change, and there is always a voter: an entry that does not fit changes
    /// nothing (`Changer` of raft-rs).
    fn change(&mut self, change: &MembershipChange) {
        let MembershipChange { transition, changes, .. } = change;
        let before = self.clone();
        match transition {
            Transition::Leave => return self.outgoing.clear(),
            _ if !self.outgoing.is_empty() => return,
            Transition::Auto if changes.len() < 2 => {}
            Transition::Auto | Transition::Joint | Transition::JointExplicit => {
                self.outgoing = self.voters.clone();
            }
        }
        for change in changes {
            let (MemberChange::AddVoter(id)
            | MemberChange::AddLearner(id)
            | MemberChange::Remove(id)) = change;
            self.voters.remove(id);
            self.learners.remove(id);
            match change {
                MemberChange::AddVoter(_) => self.voters.insert(*id),
                MemberChange::AddLearner(_) => self.learners.insert(*id),
                MemberChange::Remove(_) => false,
            };
        }
        if self.voters.is_empty() {
            *self = before;
        }
    }
}

/// The last place of a directory. A snapshot that another member has sent may be ahead of the log,
/// or contradict it: the log then holds entries that were never committed, and a start drops them.
fn last_place<D: Disk>(disk: &D, log: &SeenLog) -> Result<LogPlace, StorageError> {
    let newest = snapshot::list(disk)?.pop();
    let newest = newest.map(|name| LogPlace { term: name.term, index: name.index });
    let of_log = log.terms.last().map(|(index, term)| LogPlace { term, index });
    let point = log.report.snapshot_point.map(|it| LogPlace { term: it.term, index: it.index });
    let (Some(newest), Some(of_log)) = (newest, of_log) else {
        return Ok(newest.max(of_log).max(point).unwrap_or(LogPlace { term: 0, index: 0 }));
    };
    let is_ahead = newest.index > of_log.index;
    let contradicts = log.terms.of(newest.index).is_some_and(|term| term != newest.term);
    Ok(if is_ahead || contradicts { newest } else { of_log })
}

/// The place in `survivors` of the one that goes furthest: it has every acknowledged write that any
/// of them has. `survivors` is not empty.
pub fn furthest<D: Disk + Clone>(survivors: &[Survivor<D>]) -> usize {
    let places = (0..survivors.len()).rev();
    places.max_by_key(|place| survivors[*place].last).expect("there is one")
}

/// Whether the directories have every acknowledged write.
pub fn completeness<D: Disk + Clone>(survivors: &[Survivor<D>]) -> Completeness {
    let taken = &survivors[furthest(survivors)];
    let there: BTreeSet<u64> = survivors.iter().map(|it| it.identity().member_id).collect();
    let Some(all) = taken.members() else { return Completeness::Unknown { lost: Vec::new() } };
    // A placeholder acknowledges nothing.
    let is_missing = |voter: &u64| !there.contains(voter) && absent_server(*voter).is_none();
    // A quorum of a joint membership is a quorum of both lists of voters.
    let meets = |list: &BTreeSet<u64>| {
        let missing = list.iter().filter(|voter| is_missing(voter)).count();
        !list.is_empty() && missing < list.len() / 2 + 1
    };
    if all.iter().all(|members| meets(&members.voters) || meets(&members.outgoing)) {
        return Completeness::Complete;
    }
    let voters = all.iter().flat_map(|members| members.voters.union(&members.outgoing));
    let lost: BTreeSet<u64> = voters.copied().filter(is_missing).collect();
    Completeness::Unknown { lost: lost.into_iter().map(MemberId).collect() }
}

#[cfg(test)]
mod tests;
