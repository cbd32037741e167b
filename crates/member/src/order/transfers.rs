//! Does Loop's part in moving snapshots between members. A leader offers a snapshot to a member
//! that needs entries which the log no longer has, a lender supplies the snapshot, and the member
//! fetches it. [`crate::leader::lending`] decides which member supplies a snapshot.

use core::cmp::Reverse;

use machine::{LogIndex, MemberId};
use replica::{PeerStatus, SnapshotMeta, SnapshotWanted};

use super::Loop;
use super::output::Fetching;
use super::records::to_replica;
use crate::leader::lending::{LendStep, LendView, Lender};
use crate::limits::CAUGHT_UP_ENTRIES;
use crate::message::{FromTransfer, SnapshotJob, UnknownEntry};
use crate::order::limits::SNAPSHOT_RETRY_MS;
use crate::peer::{LentSnapshot, Offer, PeerError, PeerMessage, SnapshotAt};
use crate::snapshot::fetch::{CatchUp, Fetch, FetchStep, WholeSnapshot};

impl Loop {
    // A leader offers a snapshot: its own, or a lender's.

    /// Takes the leader's request to lend a snapshot to member `to`. The newest snapshot is lent if
    /// its index is at least `index`; otherwise a new one is taken. Until that is done there is no
    /// answer, and the leader asks again.
    pub(super) fn on_lend(
        &mut self,
        from: MemberId,
        to: MemberId,
        index: u64,
    ) -> Result<(), PeerError> {
        if to == self.origin.member {
            return Err(PeerError::OwnSnapshot);
        }
        // A deposed leader soon learns that it is, and needs no answer.
        if !self.role.is_led_by(from) {
            return Ok(());
        }
        let newest = self.replica.newest_snapshot().filter(|newest| newest.index >= index);
        let snapshot = newest.and_then(|newest| {
            let at = SnapshotAt { index: newest.index, term: newest.term };
            Some(LentSnapshot { at, digest: self.own_digests.at(newest.index)? })
        });
        let is_unfit =
            self.room.is_full() || self.persisting.is_stalled() || self.has_failed_to_write();
        if snapshot.is_some() || is_unfit {
            self.send(from, PeerMessage::Lent { to, snapshot });
        } else if self.progress.applied().0 >= index {
            self.snapshots.want_with(index);
        }
        Ok(())
    }

    /// Takes the answer of a lender that was asked for a snapshot.
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
            && self.role.leads()
        {
            let is_beyond = index > self.replica.status().last_index;
            let is_other = self.replica.term_of(index).is_some_and(|own| own != term);
            if is_beyond || is_other {
                return Err(PeerError::ForeignSnapshot { index, term });
            }
        }
        let leading = self.role.leading();
        let asked = leading.and_then(|leading| leading.lending.asked_for(from, to));
        let Some(index_min) = asked else { return Ok(()) };
        let Some(LentSnapshot { at: SnapshotAt { index, term }, digest }) = snapshot else {
            self.on_refused(to);
            return Ok(());
        };
        // Refuse: to apply this far, a new leader may first have to commit, with the vote of the
        // very member that needs the snapshot.
        if index > self.progress.applied().0 && !self.replica.status().has_committed_in_term {
            self.on_refused(to);
            return Ok(());
        }
        // Ask again later if the snapshot is ahead of this member's state, or older than what is
        // needed by now.
        if index < index_min || index > self.progress.applied().0 {
            return Ok(());
        }
        // If the log no longer reaches back to the snapshot, ask for a newer one.
        let first_index = self.replica.status().first_index - 1;
        let known_from = self.members.memberships().first_index().0;
        let first_compared = self.own_digests.first_index();
        let index_min = first_index.max(known_from).max(first_compared);
        if index < index_min {
            if let Some(leading) = self.role.leading_mut() {
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
        let membership = to_replica(self.members.memberships().at(LogIndex(index)));
        let meta = SnapshotMeta { index, term, membership };
        if let Some(leading) = self.role.leading_mut() {
            leading.lending.on_lent(to, meta.clone());
        }
        self.lend(to, LendStep::Lent(meta));
        Ok(())
    }

    /// Treats the lender that was asked as one that has no snapshot for member `to`, or a wrong
    /// one.
    fn on_refused(&mut self, to: MemberId) {
        let others = self.lenders();
        let view = LendView { others: &others, now_ms: self.clock.now_ms() };
        let leading = self.role.leading_mut();
        if let Some(step) = leading.and_then(|it| it.lending.on_refused(to, &view)) {
            self.lend(to, step);
        }
    }

    /// Takes the message that a snapshot is gone. The holder of the file sends it to the member
    /// that fetches, and that member sends it to the leader. If a piece is being written meanwhile,
    /// nothing is done: the holder is asked again later.
    pub(super) fn on_gone(&mut self, from: MemberId, at: SnapshotAt) {
        let is_lost = |fetch: &Fetch| {
            fetch.holder == from && fetch.at == at && fetch.from != from && fetch.is_waiting()
        };
        if let Some(fetch) = self.catch_up.take_fetch_if(is_lost) {
            self.send(fetch.from, PeerMessage::Gone(at));
        }
        self.withdraw(from, at);
    }

    /// Withdraws the offer to member `from`, since the snapshot is gone; that member is offered
    /// another one.
    pub(super) fn withdraw(&mut self, from: MemberId, at: SnapshotAt) {
        if let Some(leading) = self.role.leading_mut()
            && leading.offers.withdraw_at(from, at)
        {
            self.replica.report_snapshot(from.0, false);
            // If this member's own snapshot was bad, offer a newer one, if there can be a newer
            // one.
            let own_min = self.progress.applied().0.min(at.index + 1);
            leading.lending.on_gone(from, at, own_min, self.clock.now_ms());
        }
    }

    /// Finds a snapshot for a member that needs entries which the log no longer has.
    pub(super) fn on_snapshot_wanted(&mut self, mut wanted: SnapshotWanted) {
        // The replica may have asked before this member stopped leading.
        if !self.role.leads() {
            return;
        }
        let index_min = self.member_from(MemberId(wanted.to)).max(wanted.index_min);
        wanted.index_min = index_min;
        wanted.index_fresh = wanted.index_fresh.max(index_min);
        let others = self.lenders();
        let view = LendView { others: &others, now_ms: self.clock.now_ms() };
        let leading = self.role.leading_mut();
        if let Some(step) = leading.and_then(|it| it.lending.on_wanted(&wanted, &view)) {
            self.lend(MemberId(wanted.to), step);
        }
    }

    /// The lowest index at which a snapshot's membership contains the member, as far as is known
    /// here.
    fn member_from(&self, member: MemberId) -> u64 {
        let has = |membership: &storage::wal::Membership| to_replica(membership).contains(member.0);
        self.members.memberships().since(has).unwrap_or(self.progress.applied()).0
    }

    /// Whether this member recently failed to write a snapshot.
    fn has_failed_to_write(&self) -> bool {
        let failed_ms = self.snapshots.failed_ms();
        failed_ms.is_some_and(|failed_ms| self.clock.now_ms() < failed_ms + SNAPSHOT_RETRY_MS)
    }

    fn lend(&mut self, to: MemberId, step: LendStep) {
        match step {
            LendStep::Ask(lender, message) => self.send(lender, message),
            // If the replica does not send the snapshot now, it asks again.
            LendStep::Lent(meta) => {
                self.counts.snapshots_given += 1;
                self.replica.send_snapshot(to.0, &meta);
            }
            LendStep::Own { index_min } => {
                let own = self.replica.newest_snapshot().filter(|own| own.index >= index_min);
                if let Some(own) = own.cloned() {
                    self.counts.snapshots_given += 1;
                    self.replica.send_snapshot(to.0, &own);
                } else {
                    self.snapshots.want_with(index_min);
                }
            }
        }
    }

    /// The other members as possible lenders, those with the most of the log first. A member whose
    /// state differs from this one's is not able to lend: its snapshot would spread the wrong
    /// state.
    fn lenders(&self) -> Vec<Lender> {
        let last_index = self.replica.status().last_index;
        let mut peers = self.replica.peers();
        peers.sort_by_key(|peer| Reverse(peer.matched_index));
        let differs = |member: MemberId| {
            let leading = self.role.leading();
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

    /// Asks lenders again, and replaces lenders that do not answer.
    pub(super) fn pursue_lending(&mut self) {
        if self.role.leading().is_none_or(|leading| leading.lending.is_empty()) {
            return;
        }
        let others = self.lenders();
        let view = LendView { others: &others, now_ms: self.clock.now_ms() };
        let steps = self.role.leading_mut().map(|leading| leading.lending.pursue(&view));
        steps.into_iter().flatten().for_each(|(to, step)| self.lend(to, step));
    }

    // A member that needs entries which the leader's log no longer has fetches a snapshot.

    /// Takes a leader's offer of a snapshot. This member must fetch it, since the leader's log no
    /// longer has the entries that follow this member's log; unless its own log has reached the
    /// snapshot's index meanwhile.
    pub(super) fn on_offer(&mut self, from: MemberId, offer: Offer) -> Result<(), PeerError> {
        let meta = replica::peek(&offer.message)?.snapshot.ok_or(PeerError::NoOffer)?;
        if offer.holder == self.origin.member {
            return Err(PeerError::OwnSnapshot);
        }
        if self.replica.status().commit_index >= meta.index {
            let (index, term) = (meta.index, meta.term);
            // A snapshot holds only committed entries, and up to this index so does this log.
            if self.replica.term_of(index).is_some_and(|own| own != term) {
                return Err(PeerError::ForeignSnapshot { index, term });
            }
            self.replica.step(from.0, &offer.message)?;
            return Ok(());
        }
        // If a snapshot is being installed already, wait for that.
        let commit_index = self.replica.status().commit_index;
        let is_it =
            |whole: &WholeSnapshot| (whole.at.index, whole.at.term) == (meta.index, meta.term);
        match &self.catch_up {
            CatchUp::Replacing { .. } => return Ok(()),
            CatchUp::Whole(whole) if whole.at.index <= commit_index => return Ok(()),
            // The snapshot is here already, but the replica refused the offer of the previous
            // leader.
            CatchUp::Whole(whole) if is_it(whole) => {
                self.replica.step(from.0, &offer.message)?;
                return Ok(());
            }
            CatchUp::Whole(_) => self.catch_up = CatchUp::Idle,
            CatchUp::Idle | CatchUp::Fetching(_) => {}
        }
        let now_ms = self.clock.now_ms();
        let is_of = |fetch: &mut Fetch| fetch.is_of(from, &offer, &meta, now_ms);
        let is_known = self.catch_up.fetch_mut().is_some_and(is_of);
        // Otherwise the result of a write or check for the previous fetch would be taken for one of
        // the new fetch. The leader offers the snapshot again.
        let is_busy = self.catch_up.fetch().is_some_and(|fetch| !fetch.is_waiting());
        if !is_known && !is_busy {
            let (index, holder) = (meta.index, offer.holder);
            let server = self.members.servers().server_of(holder);
            self.output.fetching.push(Fetching { index, holder, server });
            let fetch = Fetch::new(from, offer, &meta, now_ms);
            self.send(holder, fetch.want());
            self.catch_up = CatchUp::Fetching(fetch);
        }
        Ok(())
    }

    /// Takes a message of the snapshot thread about a snapshot that goes to another member, or
    /// comes from one.
    pub(super) fn on_transfer(&mut self, message: FromTransfer) {
        match message {
            FromTransfer::Read { to, message } => {
                match &message {
                    PeerMessage::Piece(piece) => {
                        self.counts.snapshot_bytes_sent += piece.bytes.len() as u64;
                    }
                    // The snapshot was this member's own, and a newer one has replaced it.
                    PeerMessage::Gone(at) => self.withdraw(to, *at),
                    _ => {}
                }
                self.send(to, message);
            }
            FromTransfer::Written => {
                let now_ms = self.clock.now_ms();
                let steps = self.catch_up.fetch_mut().map(|fetch| fetch.on_written(now_ms));
                steps.into_iter().flatten().for_each(|step| self.continue_fetch(step));
            }
            FromTransfer::Whole(image) => {
                let Some(fetch) = self.catch_up.take_fetch() else { return };
                self.counts.snapshots_fetched += 1;
                self.counts.snapshots_borrowed += u64::from(fetch.holder != fetch.from);
                let (index, level) = (image.at.index, image.machine.control().level());
                match UnknownEntry::check_level(index, level, self.members.levels().own_max()) {
                    Ok(()) => self.install_fetched(image, &fetch),
                    Err(unknown) => self.output.unknown = Some(unknown),
                }
            }
            // The leader offers the snapshot again later.
            FromTransfer::Failed => _ = self.catch_up.take_fetch(),
            FromTransfer::Spoiled => {
                if let Some(fetch) = self.catch_up.take_fetch() {
                    self.send(fetch.from, PeerMessage::Gone(fetch.at));
                }
            }
        }
    }

    /// Gives the replica the message that installs the snapshot. The replica refuses it if the
    /// member that offered it no longer leads; the snapshot then waits for the new leader's offer.
    fn install_fetched(&mut self, image: WholeSnapshot, fetch: &Fetch) {
        // If the log has reached the snapshot's index meanwhile, it need not be installed. Its file
        // stays.
        if image.at.index > self.replica.status().commit_index {
            self.catch_up = CatchUp::Whole(image);
            // The message was checked when it was offered.
            let _ = self.replica.step(fetch.from.0, &fetch.message);
        }
    }

    /// Takes the next step of the fetch.
    pub(super) fn continue_fetch(&mut self, step: FetchStep) {
        let Some(fetch) = self.catch_up.fetch() else { return };
        let (from, holder) = (fetch.from, fetch.holder);
        match step {
            FetchStep::Ask(want) => self.send(holder, want),
            FetchStep::Write { is_first, bytes } => {
                self.output.snapshot.push(SnapshotJob::Receive { is_first, bytes });
            }
            FetchStep::Check(at) => self.output.snapshot.push(SnapshotJob::CheckReceived(at)),
            FetchStep::GiveUp(at) => self.send(from, PeerMessage::Gone(at)),
        }
    }

    /// Repeats offers and requests for pieces that may have been lost.
    pub(super) fn pursue_snapshots(&mut self) {
        if let Some(leading) = self.role.leading_mut().filter(|it| !it.offers.is_empty()) {
            let due = leading.offers.due(&self.replica.peers(), self.clock.now_ms());
            due.into_iter().for_each(|(member, offer)| self.send(member, offer));
        }
        self.pursue_lending();
        // End the fetch if this member's log has reached the snapshot's index by itself.
        let commit_index = self.replica.status().commit_index;
        let is_over = |fetch: &Fetch| fetch.is_waiting() && fetch.at.index <= commit_index;
        self.catch_up.take_fetch_if(is_over);
        let now_ms = self.clock.now_ms();
        let step = self.catch_up.fetch_mut().and_then(|fetch| fetch.pursue(now_ms));
        step.into_iter().for_each(|step| self.continue_fetch(step));
    }
}

#[cfg(test)]
mod tests;
