//! Loop's part in fetching a snapshot from another member, and in offering snapshots.

use machine::MemberId;

use super::{Fetching, Loop};
use crate::message::{FromTransfer, SnapshotJob, UnknownEntry};
use crate::peer::{Offer, PeerError, PeerMessage};
use crate::snapshot::fetch::{CatchUp, Fetch, FetchStep, WholeSnapshot};

impl Loop {
    /// Takes a leader's offer: its log does not reach this member, which must fetch a snapshot
    /// first, unless its own log has reached the snapshot already.
    pub(super) fn on_offer(&mut self, from: MemberId, offer: Offer) -> Result<(), PeerError> {
        let meta = replica::peek(&offer.message)?.snapshot.ok_or(PeerError::NoOffer)?;
        if offer.holder == self.origin.member {
            return Err(PeerError::OwnSnapshot);
        }
        if self.replica.status().commit_index >= meta.index {
            let (index, term) = (meta.index, meta.term);
            // A snapshot holds only committed entries, and so does this log up to there.
            if self.replica.term_of(index).is_some_and(|own| own != term) {
                return Err(PeerError::ForeignSnapshot { index, term });
            }
            self.replica.step(from.0, &offer.message)?;
            return Ok(());
        }
        // A snapshot that is on its way into the log already is waited for.
        let commit_index = self.replica.status().commit_index;
        let is_it =
            |whole: &WholeSnapshot| (whole.at.index, whole.at.term) == (meta.index, meta.term);
        match &self.catch_up {
            CatchUp::Replacing { .. } => return Ok(()),
            CatchUp::Whole(whole) if whole.at.index <= commit_index => return Ok(()),
            // The replica did not take the offer of the leader before.
            CatchUp::Whole(whole) if is_it(whole) => {
                self.replica.step(from.0, &offer.message)?;
                return Ok(());
            }
            CatchUp::Whole(_) => self.catch_up = CatchUp::Idle,
            CatchUp::Idle | CatchUp::Fetching(_) => {}
        }
        let now_ms = self.now_ms;
        let is_of = |fetch: &mut Fetch| fetch.is_of(from, &offer, &meta, now_ms);
        let is_known = self.catch_up.fetch_mut().is_some_and(is_of);
        // The result of a write or check for the fetch before would be taken for this one's. The
        // leader offers this one again.
        let is_busy = self.catch_up.fetch().is_some_and(|fetch| !fetch.is_waiting());
        if !is_known && !is_busy {
            let (index, holder) = (meta.index, offer.holder);
            let server = self.servers.server_of(holder);
            self.output.fetching.push(Fetching { index, holder, server });
            let fetch = Fetch::new(from, offer, &meta, now_ms);
            self.send(holder, fetch.want());
            self.catch_up = CatchUp::Fetching(fetch);
        }
        Ok(())
    }

    /// Takes a message of the snapshot thread about another member's snapshot.
    pub(super) fn on_transfer(&mut self, message: FromTransfer) {
        match message {
            FromTransfer::Read { to, message } => {
                match &message {
                    PeerMessage::Piece(piece) => {
                        self.counts.snapshot_bytes_sent += piece.bytes.len() as u64;
                    }
                    // The snapshot was this member's own, and was replaced by a newer one.
                    PeerMessage::Gone(at) => self.withdraw(to, *at),
                    _ => {}
                }
                self.send(to, message);
            }
            FromTransfer::Written => {
                let now_ms = self.now_ms;
                let step = self.catch_up.fetch_mut().map(|fetch| fetch.on_written(now_ms));
                step.into_iter().for_each(|step| self.continue_fetch(step));
            }
            FromTransfer::Whole(image) => {
                let Some(fetch) = self.catch_up.take_fetch() else { return };
                self.counts.snapshots_fetched += 1;
                self.counts.snapshots_borrowed += u64::from(fetch.holder != fetch.from);
                let (index, level) = (image.at.index, image.machine.control().level());
                match UnknownEntry::check_level(index, level, self.levels.own_max()) {
                    Ok(()) => self.install_fetched(image, &fetch),
                    Err(unknown) => self.output.unknown = Some(unknown),
                }
            }
            // The leader offers the snapshot again.
            FromTransfer::Failed => _ = self.catch_up.take_fetch(),
            FromTransfer::Spoiled => {
                if let Some(fetch) = self.catch_up.take_fetch() {
                    self.send(fetch.from, PeerMessage::Gone(fetch.at));
                }
            }
        }
    }

    /// Steps the replica's message that installs the snapshot. The replica refuses it if the member
    /// that offered it no longer leads; the snapshot then waits for the new leader's offer.
    fn install_fetched(&mut self, image: WholeSnapshot, fetch: &Fetch) {
        // A snapshot that the log has reached meanwhile need not be installed. Its file stays.
        if image.at.index > self.replica.status().commit_index {
            self.catch_up = CatchUp::Whole(image);
            // The message passed its check when it was offered.
            let _ = self.replica.step(fetch.from.0, &fetch.message);
        }
    }

    /// Takes the next step of the fetch.
    fn continue_fetch(&mut self, step: FetchStep) {
        let Some(fetch) = self.catch_up.fetch() else { return };
        let (from, holder) = (fetch.from, fetch.holder);
        match step {
            FetchStep::Ask(want) => self.send(holder, want),
            FetchStep::Check(at) => self.output.snapshot.push(SnapshotJob::CheckReceived(at)),
            FetchStep::GiveUp(at) => self.send(from, PeerMessage::Gone(at)),
        }
    }

    /// Repeats messages about offers and fetches that may have been lost.
    pub(super) fn pursue_snapshots(&mut self) {
        if let Some(leading) = self.leading.as_mut().filter(|it| !it.offers.is_empty()) {
            let due = leading.offers.due(&self.replica.peers(), self.now_ms);
            due.into_iter().for_each(|(member, offer)| self.send(member, offer));
        }
        self.pursue_lending();
        // This member's log has reached the snapshot by itself.
        let commit_index = self.replica.status().commit_index;
        let is_over = |fetch: &Fetch| fetch.is_waiting() && fetch.at.index <= commit_index;
        self.catch_up.take_fetch_if(is_over);
        let now_ms = self.now_ms;
        let step = self.catch_up.fetch_mut().and_then(|fetch| fetch.pursue(now_ms));
        step.into_iter().for_each(|step| self.continue_fetch(step));
    }
}
