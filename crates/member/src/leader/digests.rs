//! Checks that all members have the same state: a leader compares digests of their states at equal
//! log indexes.
//!
//! A follower sends the leader the digest of its state at every [`DIGEST_INTERVAL_ENTRIES`]th
//! entry. It also sends the newest digest when it begins to follow, is linked to the leader, or has
//! installed a snapshot: a start may have restored a wrong state, and in an idle ensemble no entry
//! would show it. If a digest is not the leader's, the leader sends its own digest to the other
//! members, which answer with theirs at that index: a digest from the leader is a question.
//!
//! If a majority of the voters has the same digest, a member with another one is *outside*: its
//! state is wrong, and it must fetch the state of the others. Without such a majority nobody can
//! tell which state is right, so no member has to fetch another state.
//!
//! A copy of a state proves nothing: a wrong snapshot that goes to other members would become a
//! wrong majority. So a follower's snapshot goes to another member only if its digest equals the
//! leader's at the same index.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use machine::{Digest, MemberId};
use replica::Membership;

use crate::leader::limits::{DIGEST_CHECKS_MAX, DIGEST_INTERVAL_ENTRIES, OWN_DIGESTS_MAX};

/// The digests that members sent to a leader, by index.
#[derive(Default)]
pub(crate) struct Digests {
    checks: BTreeMap<u64, Check>,
}

/// The digests of this member's own state, one after each of the last entries, without a gap.
pub(crate) struct OwnDigests {
    first_index: u64,
    digests: VecDeque<Digest>,
    /// Indexes that are not applied yet, and whose digest another member waits for.
    asked: BTreeSet<u64>,
    /// Set once this member, as leader, has found that a majority has another state.
    wrong: Option<Wrong>,
}

/// The moment at which a leader found that its state is not that of the majority.
#[derive(Clone, Copy)]
pub(crate) struct Wrong {
    /// The log index at which the digests differ.
    pub index: u64,
    /// When the leader found the difference, by Loop's clock.
    pub since_ms: u64,
}

#[derive(Default)]
struct Check {
    by_member: BTreeMap<MemberId, Digest>,
    /// Whether a majority was found, or its absence was reported.
    is_said: bool,
    /// Whether the leader has asked the other members for their digests at this index.
    is_asked: bool,
}

/// A difference between states that their digests showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// A member's state is not that of the majority.
    Outside {
        /// The member with the wrong state.
        member: MemberId,
        /// The index at which the digests were compared.
        index: u64,
    },
    /// Digests differ, and no majority of the voters has the same one: either all voters have sent
    /// theirs, or the leader no longer waits for the missing ones.
    NoMajority {
        /// The index at which the digests were compared.
        index: u64,
    },
}

impl OwnDigests {
    /// Starts with the digest of the state that a start restores, at `index`.
    pub fn new(index: u64, digest: Digest) -> OwnDigests {
        let digests = VecDeque::from([digest]);
        OwnDigests { first_index: index, digests, asked: BTreeSet::new(), wrong: None }
    }

    /// Adds the digest after the entry at `index`. An installed snapshot leaves a gap: digests
    /// before it are forgotten. Returns whether the digest is due, that is, to be compared with the
    /// other members'. If another digest was added for this entry before, the state was spoiled
    /// since: the new one replaces it, and is due.
    pub fn push(&mut self, index: u64, digest: Digest) -> bool {
        if index == self.newest().0 {
            let newest = self.digests.back_mut().expect("there is always one");
            return core::mem::replace(newest, digest) != digest;
        }
        let is_gap = self.first_index + self.digests.len() as u64 != index;
        if is_gap {
            self.digests.clear();
            self.first_index = index;
        }
        if self.digests.len() == OWN_DIGESTS_MAX {
            self.digests.pop_front();
            self.first_index += 1;
        }
        self.digests.push_back(digest);
        is_gap || self.take_asked(index) || index.is_multiple_of(DIGEST_INTERVAL_ENTRIES)
    }

    fn take_asked(&mut self, index: u64) -> bool {
        let mut is_asked = false;
        while let Some(first) = self.asked.first().copied().filter(|first| *first <= index) {
            self.asked.pop_first();
            is_asked = first == index;
        }
        is_asked
    }

    /// The digest after this entry, if it is known. If the entry is not applied yet, its digest
    /// becomes due once it is.
    pub fn at_or_due(&mut self, index: u64) -> Option<Digest> {
        if index > self.newest().0 && self.asked.len() < DIGEST_CHECKS_MAX {
            self.asked.insert(index);
        }
        self.at(index)
    }

    /// The index of the last applied entry, and the digest after it.
    pub fn newest(&self) -> (u64, Digest) {
        let last = self.digests.len() - 1;
        (self.first_index + last as u64, self.digests[last])
    }

    /// The digest after this entry; `None` if it is not kept, or the entry is not applied.
    pub fn at(&self, index: u64) -> Option<Digest> {
        let offset = index.checked_sub(self.first_index)?;
        self.digests.get(usize::try_from(offset).ok()?).copied()
    }

    /// The lowest index whose digest is kept.
    pub fn first_index(&self) -> u64 {
        self.first_index
    }

    /// Notes that this leader has found at `index` that a majority has another state.
    pub fn on_wrong(&mut self, index: u64, now_ms: u64) {
        self.wrong = Some(Wrong { index, since_ms: now_ms });
    }

    /// When and where this leader found that a majority has another state; `None` if it did not.
    pub fn wrong(&self) -> Option<Wrong> {
        self.wrong
    }
}

impl Digests {
    /// Whether two members differed at the last index for which both have sent a digest.
    pub fn differ(&self, one: MemberId, other: MemberId) -> bool {
        let both = |check: &Check| {
            let given = |member| check.by_member.get(member);
            Some(given(&one)? != given(&other)?)
        };
        self.checks.values().rev().find_map(both).unwrap_or(false)
    }

    /// The indexes at which digests differ and neither a majority was found nor its absence
    /// reported.
    pub fn open(&self) -> impl Iterator<Item = u64> {
        self.checks.iter().filter(|(_, check)| check.is_open()).map(|(index, _)| *index)
    }

    /// Whether the other members are to be asked for their digests at this index: digests differ,
    /// no majority was found, and they were not asked yet. Notes that they are asked now.
    pub fn take_question(&mut self, index: u64) -> bool {
        let check = self.checks.get_mut(&index).filter(|check| check.is_open());
        check.is_some_and(|check| !core::mem::replace(&mut check.is_asked, true))
    }

    /// Whether a digest at this index would not be kept, because enough higher indexes are.
    pub fn is_past(&self, index: u64) -> bool {
        let lowest = self.checks.first_key_value().map(|(index, _)| *index);
        self.checks.len() >= DIGEST_CHECKS_MAX && lowest.is_some_and(|lowest| index < lowest)
    }

    /// Forgets the digests of a member at indexes without a majority: its link is new, so it may
    /// have restarted with another state.
    pub fn forget_unsettled(&mut self, member: MemberId) {
        for check in self.checks.values_mut().filter(|check| !check.is_said) {
            check.by_member.remove(&member);
        }
    }

    /// Takes a member's digest and returns the differences that it shows. A difference is reported
    /// once for each member, index and digest. While the voters are being changed, no digest is
    /// kept.
    pub fn on_digest(
        &mut self,
        member: MemberId,
        (index, digest): (u64, Digest),
        membership: &Membership,
    ) -> Vec<Difference> {
        if membership.is_joint() {
            return Vec::new();
        }
        let check = self.checks.entry(index).or_default();
        // A member that restarted may send another digest than before.
        let is_news = check.by_member.insert(member, digest) != Some(digest);
        let mut differences = match is_news {
            true => check.differences((member, index), &membership.voters),
            false => Vec::new(),
        };
        for difference in &differences {
            if let Difference::Outside { member, .. } = difference {
                self.forget_elsewhere(*member, index);
            }
        }
        if self.checks.len() > DIGEST_CHECKS_MAX
            && let Some((index, check)) = self.checks.pop_first()
            && check.is_open()
        {
            differences.push(Difference::NoMajority { index });
        }
        differences
    }
}

impl Digests {
    /// Forgets the digests that a member with a wrong state sent at other indexes, where they could
    /// prevent a majority for ever.
    fn forget_elsewhere(&mut self, member: MemberId, index: u64) {
        let others = self.checks.iter_mut().filter(|(other, _)| **other != index);
        for (_, check) in others {
            check.by_member.remove(&member);
        }
    }
}

impl Check {
    /// Whether digests differ and neither a majority was found nor its absence reported.
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
