//! Picks which member supplies the snapshot for a follower that needs entries which the leader's
//! log no longer has. Prefers another follower, to spare the leader, which has the most to do.
//!
//! The leader asks one follower that is linked and has caught up, again and again until it answers
//! with a durable snapshot; the file then goes from that lender to the borrower, the member that
//! needs it. The leader passes over a lender that refuses, does not answer for too long, or fails
//! to transfer its file. If no lender is left, the leader sends its own snapshot; if that fails,
//! too, it asks all lenders once more.

use std::collections::BTreeMap;

use machine::MemberId;
use replica::{SnapshotMeta, SnapshotWanted};

use crate::leader::limits::{
    BORROWER_SILENCE_MS_MAX, LEND_FAILURES_MAX, LEND_INTERVAL_MS, LEND_PATIENCE_MS,
    LENDER_PATIENCE_MS,
};
use crate::peer::{PeerMessage, SnapshotAt};

/// A leader's record of the members that need a snapshot, and of the lender of each.
#[derive(Default)]
pub(crate) struct Lending {
    borrowers: BTreeMap<MemberId, Borrower>,
}

/// A member that needs entries which the leader's log no longer has.
struct Borrower {
    /// When the replica last wanted a snapshot for this member, by Loop's clock.
    wanted_ms: u64,
    /// The lowest index that its snapshot may have.
    index_min: u64,
    source: Source,
    /// How often each lender has failed to supply a snapshot.
    failures: BTreeMap<MemberId, u32>,
}

/// The source of a borrower's snapshot.
enum Source {
    /// No lender is found; the leader has looked for one since `since_ms`.
    Nobody { since_ms: u64 },
    /// This lender was asked at `since_ms` for a snapshot, and last at `said_ms`.
    Asked { lender: MemberId, since_ms: u64, said_ms: u64 },
    /// This lender has the snapshot with this index and term.
    Lent { lender: MemberId, meta: SnapshotMeta },
    /// The leader sends its own snapshot.
    Own,
}

/// The next step for a borrower.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LendStep {
    /// Send this message to this lender.
    Ask(MemberId, PeerMessage),
    /// Offer the lender's snapshot to the borrower.
    Lent(SnapshotMeta),
    /// Offer the leader's own snapshot, whose index must be at least this.
    Own { index_min: u64 },
}

/// The other members and the time: the input of a step.
pub(crate) struct LendView<'a> {
    /// All other members, those with the most of the log first.
    pub others: &'a [Lender],
    pub now_ms: u64,
}

/// Another member as a possible lender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lender {
    pub member: MemberId,
    /// Whether the member is linked and heard, and its disk is not full.
    pub is_there: bool,
    /// Whether the member has nearly all of the log.
    pub has_caught_up: bool,
    /// The last entry that the member is known to have.
    pub matched_index: u64,
    /// The index of the snapshot that this member itself is being sent; `None` if it is being sent
    /// none.
    pub snapshot_index: Option<u64>,
}

impl Lender {
    /// Whether the member can have a snapshot with this index or a later one. Being few entries
    /// behind is not enough: a member that needs a snapshot itself may be, too.
    fn is_able(&self, index_min: u64) -> bool {
        let has_entries = self.has_caught_up && self.matched_index >= index_min;
        has_entries && self.is_there && self.snapshot_index.is_none()
    }
}

impl Lending {
    /// Notes that a member needs entries which the log no longer has. The replica repeats this
    /// until something is sent to that member. Returns the step to take now, if any.
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
            Source::Nobody { .. } => borrower.pick_lender(to, view),
            Source::Asked { .. } => None,
            // The snapshot did not arrive, but nothing shows that the lender was at fault.
            Source::Lent { lender, meta } if meta.index >= wanted.index_min => {
                match view.others.iter().any(|other| other.member == *lender && other.is_there) {
                    true => Some(LendStep::Lent(meta.clone())),
                    false => borrower.pick_another_lender(to, 1, view),
                }
            }
            // The log no longer reaches back to the lender's snapshot: a newer one is needed.
            Source::Lent { .. } => borrower.pick_lender(to, view),
            Source::Own => Some(LendStep::Own { index_min: borrower.index_min }),
        }
    }

    /// The lowest index that the snapshot of `lender` for `to` may have; `None` if that lender is
    /// not being asked.
    pub fn asked_for(&self, lender: MemberId, to: MemberId) -> Option<u64> {
        let borrower = self.borrowers.get(&to)?;
        let is_asked =
            matches!(borrower.source, Source::Asked { lender: asked, .. } if asked == lender);
        is_asked.then_some(borrower.index_min)
    }

    /// Notes that the lender that was asked has this snapshot, and that it is recent enough.
    pub fn on_lent(&mut self, to: MemberId, meta: SnapshotMeta) {
        if let Some(borrower) = self.borrowers.get_mut(&to)
            && let Source::Asked { lender, .. } = borrower.source
        {
            borrower.source = Source::Lent { lender, meta };
        }
    }

    /// Handles a refusal: the lender that was asked has no snapshot and takes none.
    pub fn on_refused(&mut self, to: MemberId, view: &LendView<'_>) -> Option<LendStep> {
        self.borrowers.get_mut(&to)?.pick_another_lender(to, LEND_FAILURES_MAX, view)
    }

    /// Notes that the log no longer reaches back to the lender's snapshot: the lender is asked for
    /// a newer one, with `index_min` at least.
    pub fn on_left_behind(&mut self, to: MemberId, index_min: u64) {
        if let Some(borrower) = self.borrowers.get_mut(&to) {
            borrower.index_min = borrower.index_min.max(index_min);
        }
    }

    /// Notes that the snapshot which was offered to member `to` is gone, or is damaged. If it was
    /// the leader's own, another one is needed, with index `own_min` at least.
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

    /// The lender of the snapshot with this index that is offered to member `to`; `None` if the
    /// leader supplies it.
    pub fn lender_of(&self, to: MemberId, index: u64) -> Option<MemberId> {
        match &self.borrowers.get(&to)?.source {
            Source::Lent { lender, meta } if meta.index == index => Some(*lender),
            _ => None,
        }
    }

    /// Asks lenders again, and passes over those that do not answer. Forgets borrowers that no
    /// longer need a snapshot.
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

    /// Whether no member needs a snapshot.
    pub fn is_empty(&self) -> bool {
        self.borrowers.is_empty()
    }
}

impl Borrower {
    fn pursue(&mut self, to: MemberId, view: &LendView<'_>) -> Option<LendStep> {
        let now_ms = view.now_ms;
        match &mut self.source {
            Source::Nobody { .. } => self.pick_lender(to, view),
            Source::Asked { lender, since_ms, said_ms } => {
                let lender = *lender;
                let is_at_it = |other: &Lender| {
                    other.member == lender && other.is_there && other.snapshot_index.is_none()
                };
                if !view.others.iter().any(is_at_it) {
                    return self.pick_another_lender(to, 1, view);
                }
                if now_ms >= *since_ms + LEND_PATIENCE_MS {
                    return self.pick_another_lender(to, LEND_FAILURES_MAX, view);
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

    fn pick_another_lender(
        &mut self,
        to: MemberId,
        failures: u32,
        view: &LendView<'_>,
    ) -> Option<LendStep> {
        if let Source::Asked { lender, .. } | Source::Lent { lender, .. } = self.source {
            *self.failures.entry(lender).or_default() += failures;
        }
        self.source = Source::Nobody { since_ms: view.now_ms };
        self.pick_lender(to, view)
    }

    /// Asks the able lender with the fewest failures. If there is none, waits a while for members
    /// that may become able, then falls back to the leader's own snapshot.
    fn pick_lender(&mut self, to: MemberId, view: &LendView<'_>) -> Option<LendStep> {
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
