//! Reads the data directories of the servers that survive when an ensemble has lost its quorum for
//! good, and finds the one that goes furthest. Changes nothing in them.
//!
//! The whole log counts, with the entries behind the commit index: some of them may have been
//! acknowledged, since a member learns late that an entry is committed. An entry that was never
//! committed may take effect this way, as it could if the lost servers had come back.

use std::collections::BTreeSet;

use machine::{Machine, MemberId};
use storage::StorageError;
use storage::datadir::{Identity, ReadDir, open_to_read};
use storage::disk::Disk;
use storage::snapshot;
use storage::wal::Membership;
use thiserror::Error;

use super::{RecoveryError, restore_newest};
use crate::inspect::{HeldState, SeenLog, see_log};

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
}

/// What is known about the writes that a set of directories lacks.
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
    /// The directory is in use, condemned, not born, or damaged.
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

    fn membership(&self) -> Membership {
        self.log.report.membership.clone().unwrap_or_default()
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
    let Membership { voters, voters_outgoing, .. } = taken.membership();
    // A quorum of a joint membership is a quorum of both lists of voters.
    let meets = |list: &[u64]| {
        let missing = list.iter().filter(|voter| !there.contains(voter)).count();
        !list.is_empty() && missing < list.len() / 2 + 1
    };
    // Behind a change of the membership that may be committed or not, either list may count.
    let is_open = taken.log.membership_entry.is_some_and(|index| index > taken.commit());
    if !is_open && (meets(&voters) || meets(&voters_outgoing)) {
        return Completeness::Complete;
    }
    let all: BTreeSet<u64> = voters.into_iter().chain(voters_outgoing).collect();
    let lost = all.difference(&there).map(|voter| MemberId(*voter)).collect();
    Completeness::Unknown { lost }
}

#[cfg(test)]
mod tests;
