//! Whose snapshot a member is sent that the leader's log does not reach: another member's, where
//! one has it or can take it, so that the leader, which has the most to do, neither takes it nor
//! sends it.
//!
//! The leader asks one that is there and has caught up, again and again until that one answers,
//! with a snapshot that is durable; the file goes from there to the borrower. A lender that says
//! that it cannot, does not answer for too long or does not get its file across is passed over.
//! Where nobody is left, it is the leader's own; if that does not get across either, all are asked
//! once more.

use std::collections::BTreeMap;

use machine::MemberId;
use replica::{SnapshotMeta, SnapshotWanted};

use crate::limits::{
    BORROWER_SILENCE_MS_MAX, LEND_FAILURES_MAX, LEND_INTERVAL_MS, LEND_PATIENCE_MS,
    LENDER_PATIENCE_MS,
};
use crate::peer::{PeerMessage, SnapshotAt};

/// A leader's view of who is given whose snapshot.
#[derive(Default)]
pub(crate) struct Lending {
    borrowers: BTreeMap<MemberId, Borrower>,
}

/// A member that the log does not reach.
struct Borrower {
    /// When it last wanted a snapshot.
    wanted_ms: u64,
    /// The snapshot's index is to be at least this.
    index_min: u64,
    source: Source,
    /// How often others had nothing for it.
    failures: BTreeMap<MemberId, u32>,
}

/// Whose snapshot it is given.
enum Source {
    /// Nobody's yet.
    Nobody { since_ms: u64 },
    /// This one was asked for one.
    Asked { lender: MemberId, since_ms: u64, said_ms: u64 },
    /// This one has it.
    Lent { lender: MemberId, meta: SnapshotMeta },
    /// The leader's.
    Own,
}

/// What comes next for a borrower.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LendStep {
    /// Ask this one.
    Ask(MemberId, PeerMessage),
    /// It is sent this one's.
    Lent(SnapshotMeta),
    /// It is sent the leader's own, one that has this index at least.
    Own { index_min: u64 },
}

/// What a step depends on beside that.
pub(crate) struct LendView<'a> {
    /// All others, those that are least behind first.
    pub others: &'a [Lender],
    pub now_ms: u64,
}

/// Another member, as one that may lend.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lender {
    pub member: MemberId,
    /// It is linked and heard, and its disk is not full.
    pub is_there: bool,
    /// It has about all of the log.
    pub has_caught_up: bool,
    /// The last entry that it is known to have.
    pub matched_index: u64,
    /// The snapshot that it is being sent itself.
    pub snapshot_index: Option<u64>,
}

impl Lender {
    /// Whether it can have a snapshot with this index, or a later one. A short log is not enough to
    /// go by: whoever needs a snapshot itself may be few entries behind.
    fn is_able(&self, index_min: u64) -> bool {
        let has_entries = self.has_caught_up && self.matched_index >= index_min;
        has_entries && self.is_there && self.snapshot_index.is_none()
    }
}

impl Lending {
    /// The log does not reach a member. Said again as long as that is so and nothing is sent.
    pub fn on_wanted(&mut self, wanted: &SnapshotWanted, view: &LendView<'_>) -> Option<LendStep> {
        let (to, now_ms) = (MemberId(wanted.to), view.now_ms);
        let borrower = self.borrowers.entry(to).or_insert_with(|| Borrower {
            wanted_ms: now_ms,
            index_min: wanted.index_fresh,
            source: Source::Nobody { since_ms: now_ms },
            failures: BTreeMap::new(),
        });
        borrower.wanted_ms = now_ms;
        if borrower.index_min < wanted.index_min {
            borrower.index_min = wanted.index_fresh;
        }
        match &borrower.source {
            Source::Nobody { .. } => borrower.look_for_lender(to, view),
            Source::Asked { .. } => None,
            // What it was sent did not arrive, for no fault of the lender's, as far as is known.
            Source::Lent { lender, meta } if meta.index >= wanted.index_min => {
                match view.others.iter().any(|other| other.member == *lender && other.is_there) {
                    true => Some(LendStep::Lent(meta.clone())),
                    false => borrower.pass_over(to, 1, view),
                }
            }
            // The log has gone on.
            Source::Lent { .. } => borrower.look_for_lender(to, view),
            Source::Own => Some(LendStep::Own { index_min: borrower.index_min }),
        }
    }

    /// From which index on this lender was asked for a snapshot for that member; none if it was
    /// not.
    pub fn asked_for(&self, lender: MemberId, to: MemberId) -> Option<u64> {
        let borrower = self.borrowers.get(&to)?;
        let is_asked =
            matches!(borrower.source, Source::Asked { lender: asked, .. } if asked == lender);
        is_asked.then_some(borrower.index_min)
    }

    /// The lender that was asked has this, which serves.
    pub fn on_lent(&mut self, to: MemberId, meta: SnapshotMeta) {
        if let Some(borrower) = self.borrowers.get_mut(&to)
            && let Source::Asked { lender, .. } = borrower.source
        {
            borrower.source = Source::Lent { lender, meta };
        }
    }

    /// The lender that was asked has none, and takes none.
    pub fn on_refused(&mut self, to: MemberId, view: &LendView<'_>) -> Option<LendStep> {
        self.borrowers.get_mut(&to)?.pass_over(to, LEND_FAILURES_MAX, view)
    }

    /// The log has gone on from what the lender that was asked has: it is asked for a newer one.
    pub fn on_left_behind(&mut self, to: MemberId, index_min: u64) {
        if let Some(borrower) = self.borrowers.get_mut(&to) {
            borrower.index_min = borrower.index_min.max(index_min);
        }
    }

    /// What the member was offered cannot be had, or is no snapshot. If it was the leader's own,
    /// another is wanted, with this index at least.
    pub fn on_gone(&mut self, to: MemberId, at: SnapshotAt, own_min: u64, now_ms: u64) {
        let Some(borrower) = self.borrowers.get_mut(&to) else { return };
        match &borrower.source {
            Source::Lent { lender, meta } if meta.index == at.index && meta.term == at.term => {
                *borrower.failures.entry(*lender).or_default() += 1;
                borrower.source = Source::Nobody { since_ms: now_ms };
            }
            Source::Own => {
                borrower.index_min = borrower.index_min.max(own_min);
                borrower.failures.clear();
                borrower.source = Source::Nobody { since_ms: now_ms };
            }
            Source::Nobody { .. } | Source::Asked { .. } | Source::Lent { .. } => {}
        }
    }

    /// Who has the snapshot that a member is offered; none if this member itself has it.
    pub fn lender_of(&self, to: MemberId, index: u64) -> Option<MemberId> {
        match &self.borrowers.get(&to)?.source {
            Source::Lent { lender, meta } if meta.index == index => Some(*lender),
            _ => None,
        }
    }

    /// Time went by: asks again, and passes over who does not answer. Forgets who needs nothing any
    /// more.
    pub fn pursue(&mut self, view: &LendView<'_>) -> Vec<(MemberId, LendStep)> {
        let now_ms = view.now_ms;
        self.borrowers.retain(|to, borrower| {
            let other = view.others.iter().find(|other| other.member == *to);
            let is_sent = other.is_some_and(|other| other.snapshot_index.is_some());
            is_sent || now_ms < borrower.wanted_ms + BORROWER_SILENCE_MS_MAX
        });
        let mut steps = Vec::new();
        for (to, borrower) in &mut self.borrowers {
            steps.extend(borrower.pursue(*to, view).map(|step| (*to, step)));
        }
        steps
    }

    /// Whether there is nobody to be given one.
    pub fn is_empty(&self) -> bool {
        self.borrowers.is_empty()
    }
}

impl Borrower {
    fn pursue(&mut self, to: MemberId, view: &LendView<'_>) -> Option<LendStep> {
        let now_ms = view.now_ms;
        match &mut self.source {
            Source::Nobody { .. } => self.look_for_lender(to, view),
            Source::Asked { lender, since_ms, said_ms } => {
                let lender = *lender;
                let is_at_it = |other: &Lender| {
                    other.member == lender && other.is_there && other.snapshot_index.is_none()
                };
                if !view.others.iter().any(is_at_it) {
                    return self.pass_over(to, 1, view);
                }
                if now_ms >= *since_ms + LEND_PATIENCE_MS {
                    return self.pass_over(to, LEND_FAILURES_MAX, view);
                }
                if now_ms < *said_ms + LEND_INTERVAL_MS {
                    return None;
                }
                *said_ms = now_ms;
                Some(LendStep::Ask(lender, PeerMessage::Lend { to, index: self.index_min }))
            }
            Source::Lent { .. } | Source::Own => None,
        }
    }

    fn pass_over(&mut self, to: MemberId, failures: u32, view: &LendView<'_>) -> Option<LendStep> {
        if let Source::Asked { lender, .. } | Source::Lent { lender, .. } = self.source {
            *self.failures.entry(lender).or_default() += failures;
        }
        self.source = Source::Nobody { since_ms: view.now_ms };
        self.look_for_lender(to, view)
    }

    /// Asks whoever is able and has failed least; waits a while for those that may come to be able.
    fn look_for_lender(&mut self, to: MemberId, view: &LendView<'_>) -> Option<LendStep> {
        let now_ms = view.now_ms;
        let failures = |other: &Lender| self.failures.get(&other.member).copied().unwrap_or(0);
        let is_left = |other: &&Lender| other.member != to && failures(other) < LEND_FAILURES_MAX;
        let left = view.others.iter().filter(is_left);
        let able = left.clone().filter(|other| other.is_able(self.index_min));
        let able = able.min_by_key(|other| failures(other));
        if let Some(other) = able {
            let lender = other.member;
            self.source = Source::Asked { lender, since_ms: now_ms, said_ms: now_ms };
            return Some(LendStep::Ask(lender, PeerMessage::Lend { to, index: self.index_min }));
        }
        let since_ms = match self.source {
            Source::Nobody { since_ms } => since_ms,
            _ => now_ms,
        };
        if left.count() > 0 && now_ms < since_ms + LENDER_PATIENCE_MS {
            self.source = Source::Nobody { since_ms };
            return None;
        }
        self.source = Source::Own;
        Some(LendStep::Own { index_min: self.index_min })
    }
}

#[cfg(test)]
mod tests;
