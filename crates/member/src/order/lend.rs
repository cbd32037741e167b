//! Loop's part in lending snapshots between members: [`crate::leader::lending`] decides who lends
//! to whom.

use core::cmp::Reverse;

use machine::{LogIndex, MemberId};
use replica::{PeerStatus, SnapshotMeta, SnapshotWanted};

use super::{Loop, to_replica};
use crate::leader::lending::{LendStep, LendView, Lender};
use crate::limits::{CAUGHT_UP_ENTRIES, SNAPSHOT_RETRY_MS};
use crate::peer::{LentSnapshot, PeerError, PeerMessage, SnapshotAt};
use crate::snapshot::fetch::Fetch;

impl Loop {
    /// Takes the leader's request for a snapshot for another member. The newest one is lent if it
    /// is recent enough; otherwise one is taken. While it is taken there is no answer, and the
    /// leader asks again.
    pub(super) fn on_lend(
        &mut self,
        from: MemberId,
        to: MemberId,
        index: u64,
    ) -> Result<(), PeerError> {
        if to == self.origin.member {
            return Err(PeerError::OwnSnapshot);
        }
        // A deposed leader soon learns so, and needs no answer.
        if self.leader != Some(from) {
            return Ok(());
        }
        let newest = self.replica.newest_snapshot().filter(|newest| newest.index >= index);
        let snapshot = newest.and_then(|newest| {
            let at = SnapshotAt { index: newest.index, term: newest.term };
            Some(LentSnapshot { at, digest: self.own_digests.at(newest.index)? })
        });
        let is_unfit =
            self.room.is_full || self.persisting.is_stalled() || self.has_failed_to_write();
        if snapshot.is_some() || is_unfit {
            self.send(from, PeerMessage::Lent { to, snapshot });
        } else if self.applied.0 >= index && !self.snapshots.is_running() {
            self.snapshots.want();
        }
        Ok(())
    }

    /// Takes the answer of a member that was asked for a snapshot.
    pub(super) fn on_lent(
        &mut self,
        from: MemberId,
        to: MemberId,
        snapshot: Option<LentSnapshot>,
    ) -> Result<(), PeerError> {
        if to == from {
            return Err(PeerError::OwnSnapshot);
        }
        if let Some(SnapshotAt { index, term }) = snapshot.map(|snapshot| snapshot.at)
            && self.leading.is_some()
        {
            let is_beyond = index > self.replica.status().last_index;
            let is_other = self.replica.term_of(index).is_some_and(|own| own != term);
            if is_beyond || is_other {
                return Err(PeerError::ForeignSnapshot { index, term });
            }
        }
        let leading = self.leading.as_ref();
        let asked = leading.and_then(|leading| leading.lending.asked_for(from, to));
        let Some(index_min) = asked else { return Ok(()) };
        let Some(LentSnapshot { at: SnapshotAt { index, term }, digest }) = snapshot else {
            self.on_refused(to);
            return Ok(());
        };
        // A new leader may need the borrower's vote to commit before it can apply this far.
        if index > self.applied.0 && !self.replica.status().has_committed_in_term {
            self.on_refused(to);
            return Ok(());
        }
        // A snapshot that is ahead of this member's state, or older than was asked for since, is
        // asked for again.
        if index < index_min || index > self.applied.0 {
            return Ok(());
        }
        // The log no longer reaches back to the snapshot: a newer one is asked for.
        let first_index = self.replica.status().first_index - 1;
        let known_from = self.memberships.first_index().0;
        let first_compared = self.own_digests.first_index();
        let index_min = first_index.max(known_from).max(first_compared);
        if index < index_min {
            if let Some(leading) = &mut self.leading {
                leading.lending.on_left_behind(to, index_min);
            }
            return Ok(());
        }
        let Some(own) = self.own_digests.at(index) else { return Ok(()) };
        if own != digest {
            self.compare(self.origin.member, (index, own));
            self.compare_and_ask(from, (index, digest));
            self.on_refused(to);
            return Ok(());
        }
        let membership = to_replica(self.memberships.at(LogIndex(index)));
        let meta = SnapshotMeta { index, term, membership };
        if let Some(leading) = &mut self.leading {
            leading.lending.on_lent(to, meta.clone());
        }
        self.lend(to, LendStep::Lent(meta));
        Ok(())
    }

    /// The lender that was asked has no snapshot, or a wrong one.
    fn on_refused(&mut self, to: MemberId) {
        let others = self.lenders();
        let view = LendView { others: &others, now_ms: self.now_ms };
        let leading = self.leading.as_mut();
        if let Some(step) = leading.and_then(|it| it.lending.on_refused(to, &view)) {
            self.lend(to, step);
        }
    }

    /// A snapshot is gone. Sent by its holder, or by the member that it was offered to.
    pub(super) fn on_gone(&mut self, from: MemberId, at: SnapshotAt) {
        let is_lost = |fetch: &Fetch| {
            fetch.holder == from && fetch.at == at && fetch.from != from && fetch.is_waiting()
        };
        if let Some(fetch) = self.catch_up.take_fetch_if(is_lost) {
            self.send(fetch.from, PeerMessage::Gone(at));
        }
        self.withdraw(from, at);
    }

    /// Withdraws an offer whose snapshot is gone; the member is offered another.
    pub(super) fn withdraw(&mut self, from: MemberId, at: SnapshotAt) {
        if let Some(leading) = &mut self.leading
            && leading.offers.withdraw_at(from, at)
        {
            self.replica.report_snapshot(from.0, false);
            // If this member's own snapshot was bad, a newer one is offered, if there can be one.
            let own_min = self.applied.0.min(at.index + 1);
            leading.lending.on_gone(from, at, own_min, self.now_ms);
        }
    }

    /// Finds a snapshot for a member that has fallen off the log.
    pub(super) fn on_snapshot_wanted(&mut self, mut wanted: SnapshotWanted) {
        // The replica asked before this member stopped leading.
        if self.leading.is_none() {
            return;
        }
        let index_min = self.member_from(MemberId(wanted.to)).max(wanted.index_min);
        wanted.index_min = index_min;
        wanted.index_fresh = wanted.index_fresh.max(index_min);
        let others = self.lenders();
        let view = LendView { others: &others, now_ms: self.now_ms };
        let leading = self.leading.as_mut();
        if let Some(step) = leading.and_then(|it| it.lending.on_wanted(&wanted, &view)) {
            self.lend(MemberId(wanted.to), step);
        }
    }

    /// The index from which on a snapshot has the member in its membership, as far as known here.
    fn member_from(&self, member: MemberId) -> u64 {
        let has = |membership: &storage::wal::Membership| to_replica(membership).contains(member.0);
        self.memberships.since(has).unwrap_or(self.applied).0
    }

    /// Whether this member recently failed to write a snapshot.
    fn has_failed_to_write(&self) -> bool {
        let failed_ms = self.snapshots.failed_ms();
        failed_ms.is_some_and(|failed_ms| self.now_ms < failed_ms + SNAPSHOT_RETRY_MS)
    }

    fn lend(&mut self, to: MemberId, step: LendStep) {
        match step {
            LendStep::Ask(lender, message) => self.send(lender, message),
            // If the replica does not send it, it asks again.
            LendStep::Lent(meta) => {
                self.counts.snapshots_given += 1;
                self.replica.send_snapshot(to.0, &meta);
            }
            LendStep::Own { index_min } => {
                let own = self.replica.newest_snapshot().filter(|own| own.index >= index_min);
                if let Some(own) = own.cloned() {
                    self.counts.snapshots_given += 1;
                    self.replica.send_snapshot(to.0, &own);
                } else if !self.snapshots.is_running() {
                    self.snapshots.want();
                }
            }
        }
    }

    /// The other members as possible lenders, the ones with the most of the log first. A member
    /// with a state that differs from this one's is not able: its snapshot would spread the wrong
    /// state.
    fn lenders(&self) -> Vec<Lender> {
        let last_index = self.replica.status().last_index;
        let mut peers = self.replica.peers();
        peers.sort_by_key(|peer| Reverse(peer.matched_index));
        let differs = |member: MemberId| {
            let leading = self.leading.as_ref();
            leading.is_some_and(|it| it.digests.differ(self.origin.member, member))
        };
        let lender = |peer: PeerStatus| Lender {
            member: MemberId(peer.member_id),
            is_there: self.is_there(&peer) && !differs(MemberId(peer.member_id)),
            has_caught_up: peer.matched_index + CAUGHT_UP_ENTRIES >= last_index,
            matched_index: peer.matched_index,
            snapshot_index: peer.snapshot_index,
        };
        peers.into_iter().map(lender).collect()
    }

    /// Asks lenders again, and asks others in place of lenders that do not answer.
    pub(super) fn pursue_lending(&mut self) {
        if self.leading.as_ref().is_none_or(|leading| leading.lending.is_empty()) {
            return;
        }
        let others = self.lenders();
        let view = LendView { others: &others, now_ms: self.now_ms };
        let steps = self.leading.as_mut().map(|leading| leading.lending.pursue(&view));
        steps.into_iter().flatten().for_each(|(to, step)| self.lend(to, step));
    }
}

#[cfg(test)]
mod tests;
