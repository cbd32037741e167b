//! Whether the members have the same state: a leader compares their digests at equal index.
//!
//! Each member gives the digest of its state at every [`DIGEST_INTERVAL_ENTRIES`]th entry, a
//! follower to its leader. Where a majority of the voters has the same, whoever has another is
//! *outside*: its state is wrong, and it is to fetch that of the others. Where there is no such
//! majority nobody can tell who is right, and nobody is touched.
//!
//! A state that was copied bears no witness: a snapshot that is wrong would make a majority that
//! is. So the snapshot of a follower is passed on only if its digest is the leader's at that very
//! index.

use std::collections::{BTreeMap, VecDeque};

use machine::{Digest, MemberId};
use replica::Membership;

use crate::limits::{DIGEST_CHECKS_MAX, DIGEST_INTERVAL_ENTRIES, OWN_DIGESTS_MAX};

/// The digests that a leader was given, by index.
#[derive(Default)]
pub(crate) struct Digests {
    checks: BTreeMap<u64, Check>,
}

/// What the digest of this member's own state was after each of the last entries, without a gap.
pub(crate) struct OwnDigests {
    first_index: u64,
    digests: VecDeque<Digest>,
}

#[derive(Default)]
struct Check {
    by_member: BTreeMap<MemberId, Digest>,
    /// Whether there is a majority, or it was said that there is none.
    is_said: bool,
}

/// What a digest brought to light.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// This member's state is not that of a majority.
    Outside {
        /// Who.
        member: MemberId,
        /// The last entry that is in all of the states.
        index: u64,
    },
    /// There are different ones, and no majority of the voters has given the same: all have given
    /// theirs, or those that have not are gone.
    NoMajority {
        /// Likewise.
        index: u64,
    },
}

/// Whether a member gives its digest at this index.
pub(crate) fn is_due(index: u64) -> bool {
    index.is_multiple_of(DIGEST_INTERVAL_ENTRIES)
}

impl OwnDigests {
    /// Begins with the state that a start finds.
    pub fn new(index: u64, digest: Digest) -> OwnDigests {
        OwnDigests { first_index: index, digests: VecDeque::from([digest]) }
    }

    /// The newest. What came before a gap, which a snapshot leaves that is installed, is forgotten.
    pub fn push(&mut self, index: u64, digest: Digest) {
        if self.first_index + self.digests.len() as u64 != index {
            self.digests.clear();
            self.first_index = index;
        }
        if self.digests.len() == OWN_DIGESTS_MAX {
            self.digests.pop_front();
            self.first_index += 1;
        }
        self.digests.push_back(digest);
    }

    /// After this entry.
    pub fn at(&self, index: u64) -> Option<Digest> {
        let offset = index.checked_sub(self.first_index)?;
        self.digests.get(usize::try_from(offset).ok()?).copied()
    }

    /// The first entry after which it is known.
    pub fn first_index(&self) -> u64 {
        self.first_index
    }
}

impl Digests {
    /// Whether two members gave different digests when both gave theirs last.
    pub fn differ(&self, one: MemberId, other: MemberId) -> bool {
        let both = |check: &Check| {
            let given = |member| check.by_member.get(member);
            Some(given(&one)? != given(&other)?)
        };
        self.checks.values().rev().find_map(both).unwrap_or(false)
    }

    /// A member gives its digest. What comes of it is said once for each member and index.
    pub fn on_digest(
        &mut self,
        member: MemberId,
        (index, digest): (u64, Digest),
        membership: &Membership,
    ) -> Vec<Difference> {
        let check = self.checks.entry(index).or_default();
        let is_first = check.by_member.insert(member, digest).is_none();
        let mut differences = match membership.is_joint() || !is_first {
            true => Vec::new(),
            false => check.differences((member, index), &membership.voters),
        };
        if self.checks.len() > DIGEST_CHECKS_MAX
            && let Some((index, check)) = self.checks.pop_first()
            && check.is_open()
        {
            differences.push(Difference::NoMajority { index });
        }
        differences
    }
}

impl Check {
    /// Whether there is a difference that nobody was told of.
    fn is_open(&self) -> bool {
        let mut digests = self.by_member.values();
        let first = digests.next();
        !self.is_said && digests.any(|digest| Some(digest) != first)
    }

    fn differences(&mut self, (newest, index): (MemberId, u64), voters: &[u64]) -> Vec<Difference> {
        let of_voters = self.by_member.iter().filter(|(member, _)| voters.contains(&member.0));
        let mut counts: BTreeMap<u128, usize> = BTreeMap::new();
        of_voters.clone().for_each(|(_, digest)| *counts.entry(digest.0).or_default() += 1);
        let right = counts.iter().find(|(_, count)| **count > voters.len() / 2);
        let Some((right, _)) = right else {
            let is_all = of_voters.count() == voters.len();
            return match is_all && !core::mem::replace(&mut self.is_said, true) {
                true => vec![Difference::NoMajority { index }],
                false => Vec::new(),
            };
        };
        let is_new = !core::mem::replace(&mut self.is_said, true);
        let outside = self.by_member.iter().filter(|(_, digest)| digest.0 != *right);
        outside
            .filter(|(member, _)| is_new || **member == newest)
            .map(|(member, _)| Difference::Outside { member: *member, index })
            .collect()
    }
}

#[cfg(test)]
mod tests;
