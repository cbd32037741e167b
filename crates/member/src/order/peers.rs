//! Handles messages from other members, and the links to and from them, for Loop.

use std::collections::BTreeSet;

use machine::{Digest, MemberId, entry};
use replica::MessageError;

use super::Loop;
use super::refused::Condemned;
use crate::leader::digests::{Difference, Wrong};
use crate::membership::servers::LinkedServer;
use crate::message::SnapshotJob;
use crate::order::limits::{DIFFERS_HAND_OVER_MS, PERSISTING_BYTES_MAX};
use crate::peer::{Forward, ForwardedBatch, PeerError, PeerFrame, PeerMessage};

impl Loop {
    /// Takes a frame from another member. The link has proved the member's identity.
    ///
    /// # Errors
    /// No correct member sends this frame: the link must be closed.
    pub(super) fn on_peer(&mut self, from: MemberId, frame: PeerFrame) -> Result<(), PeerError> {
        match PeerMessage::decode(from, frame)? {
            PeerMessage::Raft(bytes) => {
                let seen = replica::peek(&bytes)?;
                if seen.snapshot.is_some() {
                    return Err(PeerError::NoOffer);
                }
                // Entries that a stalled disk cannot take are dropped; the replica asks for them
                // again.
                if !seen.is_append || self.persisting.bytes() < PERSISTING_BYTES_MAX {
                    self.check_entries(&bytes)?;
                    self.step(from, &bytes)?;
                    self.members.on_heard(from);
                }
            }
            PeerMessage::Offer(offer) => self.on_offer(from, offer)?,
            PeerMessage::Lend { to, index } => self.on_lend(from, to, index)?,
            PeerMessage::Lent { to, snapshot } => self.on_lent(from, to, snapshot)?,
            PeerMessage::Digest { index, digest } => self.on_digest(from, (index, digest)),
            PeerMessage::Differs { index } if self.role.is_led_by(from) => {
                self.condemn(Condemned::Differs { index });
            }
            PeerMessage::Differs { .. } => {}
            PeerMessage::Want(want) => {
                self.output.snapshot.push(SnapshotJob::Read { to: from, want });
            }
            PeerMessage::Piece(piece) => {
                let now_ms = self.clock.now_ms();
                let fetch = self.catch_up.fetch_mut();
                let steps = fetch.map(|fetch| fetch.on_piece(from, piece, now_ms));
                steps.into_iter().flatten().for_each(|step| self.continue_fetch(step));
            }
            PeerMessage::Gone(at) => self.on_gone(from, at),
            // A sender that is no longer in the membership may have been replaced by another
            // member.
            PeerMessage::Forward(_) if !self.replica.membership().contains(from.0) => {}
            // If this member does not lead, the sender learns soon who does.
            PeerMessage::Forward(forward) => self.on_forward(from, forward),
            PeerMessage::Heard(heard) => {
                if let Some(leading) = self.role.leading_mut() {
                    heard.owners.into_iter().for_each(|owner| self.spaces.zk.heard(owner));
                    leading.heeded.insert(from, (heard.boot, heard.number));
                }
            }
            PeerMessage::Restart { boot, stream } => {
                if self.role.is_led_by(from) {
                    self.intake.on_restart(boot, stream);
                }
            }
            PeerMessage::Heeded { boot, number, contact_ms } => {
                if let Some(sent_ms) = self.hearing.on_heeded(boot, number) {
                    self.contact.note(sent_ms.checked_sub(contact_ms));
                }
            }
            // A sender outside the membership has no clients.
            PeerMessage::AskLeases(asked) => self.on_ask_leases(from, asked),
            PeerMessage::LeaseTimes(times) => self.on_lease_times(times),
            PeerMessage::Full(is_full) => self.on_full(from, is_full),
            PeerMessage::NeedLevel(level) => self.members.need_level(level),
        }
        Ok(())
    }

    /// Checks that this member can apply the entries of a Raft message. An entry of a level that
    /// this member does not know passes: Apply ends when it reaches the entry.
    fn check_entries(&self, bytes: &[u8]) -> Result<(), PeerError> {
        let level_max = self.members.levels().own_max();
        replica::each_payload(bytes, |index, payload| {
            let refused = |cause| PeerError::Entry { index, cause };
            let header = entry::decode_header(payload).map_err(refused)?;
            if header.level <= level_max {
                entry::verify(payload).map_err(refused)?;
            }
            Ok(())
        })
    }

    fn on_forward(&mut self, from: MemberId, forward: Forward) {
        let Some(leading) = self.role.leading_mut() else { return };
        match leading.followed.take(from, forward) {
            Ok(batches) => {
                // A batch larger than any correct version makes is left out; its member would
                // forward it again.
                let fitting = batches.into_iter().filter_map(ForwardedBatch::refuse_oversize);
                self.intake.take_forwarded(fitting);
            }
            Err(Some(answer)) => self.send(from, answer),
            Err(None) => {}
        }
    }

    /// Gives a Raft message to the replica.
    ///
    /// # Errors
    /// No correct member sends this message; or this member has lost entries that it once
    /// acknowledged.
    fn step(&mut self, from: MemberId, bytes: &[u8]) -> Result<(), PeerError> {
        let stepped = self.replica.step(from.0, bytes);
        match stepped {
            Err(MessageError::CommitBeyondLog { commit, last_index }) => {
                self.condemn(Condemned::Forgot { acknowledged: commit, last_index });
            }
            Err(MessageError::CommitDiffers { commit, term }) => {
                self.condemn(Condemned::HoldsAnother { acknowledged: commit, term });
            }
            _ => {}
        }
        Ok(stepped?)
    }

    /// Takes the digest of this member's own state after the entry at `index`, and gives it to the
    /// leader if it is due.
    pub(super) fn on_own_digest(&mut self, index: u64, digest: Digest) {
        if self.members.has_others() && self.own_digests.push(index, digest) {
            self.give_digest(index, digest);
        }
    }

    /// Sends a digest of this member's state to the leader, or compares it if this member leads.
    fn give_digest(&mut self, index: u64, digest: Digest) {
        match self.role.leader() {
            _ if self.role.leads() => self.compare_and_ask(self.origin.member, (index, digest)),
            Some(leader) => self.send(leader, PeerMessage::Digest { index, digest }),
            None => {}
        }
    }

    /// Gives the newest digest to the leader, since this member has another leader, or a new link
    /// to it: either of them may have restarted with a wrong state.
    pub(super) fn give_newest_digest(&mut self) {
        let (index, digest) = self.own_digests.newest();
        if self.members.has_others() && index == self.progress.applied().0 {
            self.give_digest(index, digest);
        }
    }

    /// Takes the digest of another member. A digest from the leader is a question for this member's
    /// own at that index.
    fn on_digest(&mut self, from: MemberId, (index, digest): (u64, Digest)) {
        if !self.role.leads() {
            if self.role.is_led_by(from)
                && let Some(digest) = self.own_digests.at_or_due(index)
            {
                self.send(from, PeerMessage::Digest { index, digest });
            }
            return;
        }
        let is_past = self.role.leading().is_some_and(|it| it.digests.is_past(index));
        if is_past || index < self.own_digests.first_index() {
            // Ask for the digest at a later entry, which the member will reach and where both can
            // be compared.
            return self.ask_digest(from, self.own_digests.newest());
        }
        if let Some(own) = self.own_digests.at_or_due(index) {
            self.compare(self.origin.member, (index, own));
        }
        self.compare_and_ask(from, (index, digest));
    }

    fn ask_digest(&mut self, of: MemberId, (index, digest): (u64, Digest)) {
        self.send(of, PeerMessage::Digest { index, digest });
    }

    /// Compares a digest. If the digests at its index differ and no majority was found, asks the
    /// other members for their digests at that index. Also asks for their newest digests, since
    /// they may no longer keep a digest at that index.
    pub(super) fn compare_and_ask(&mut self, member: MemberId, (index, digest): (u64, Digest)) {
        self.compare(member, (index, digest));
        let Some(digest) = self.own_digests.at(index) else { return };
        if self.role.leading_mut().is_some_and(|it| it.digests.take_question(index)) {
            self.send_to_all(&PeerMessage::Digest { index, digest });
            let newest = self.own_digests.newest();
            if newest.0 != index {
                self.send_to_all(&PeerMessage::Digest { index: newest.0, digest: newest.1 });
            }
        }
    }

    /// Asks a member whose link is new for the digests that are needed to find a majority: an
    /// earlier question may be lost.
    fn ask_open_digests(&mut self, of: MemberId) {
        let Some(leading) = self.role.leading() else { return };
        let own = |index| Some((index, self.own_digests.at(index)?));
        let open: Vec<(u64, Digest)> = leading.digests.open().filter_map(own).collect();
        open.into_iter().for_each(|own| self.ask_digest(of, own));
    }

    /// If this member leads, compares the digest of a member, or its own. A member with a wrong
    /// state is informed, which makes it condemn its directory.
    pub(super) fn compare(&mut self, member: MemberId, given: (u64, Digest)) {
        let Some(leading) = self.role.leading_mut() else { return };
        for difference in leading.digests.on_digest(member, given, self.replica.membership()) {
            if let Difference::Outside { member, index } = difference {
                if member == self.origin.member {
                    self.own_digests.on_wrong(index, self.clock.now_ms());
                } else {
                    self.send(member, PeerMessage::Differs { index });
                }
            }
            self.counts.differences += 1;
            self.output.differences.push(difference);
        }
    }

    /// Ends the leadership of a member whose state is not that of the majority: it hands over or
    /// resigns. Once it is a follower, it condemns its directory.
    pub(super) fn pursue_difference(&mut self) {
        let Some(Wrong { index, since_ms }) = self.own_digests.wrong() else { return };
        if !self.role.leads() {
            self.condemn(Condemned::Differs { index });
        } else if self.clock.now_ms() >= since_ms + DIFFERS_HAND_OVER_MS || !self.hand_over(None) {
            self.replica.resign();
        }
    }

    /// Notes whether a member's disk is full. A leader may report that before its followers know
    /// that it leads.
    fn on_full(&mut self, from: MemberId, is_full: bool) {
        self.room.on_member(from, is_full, self.clock.now_ms());
        if self.leader_is_full() {
            self.refuse_waiting();
        }
    }

    /// Whether another member leads and its disk is full, so that no writes are accepted.
    pub(super) fn leader_is_full(&self) -> bool {
        self.role.leader().is_some_and(|leader| self.is_full(leader))
    }

    pub(super) fn is_full(&self, member: MemberId) -> bool {
        self.room.is_member_full(member, self.clock.now_ms())
    }

    /// Notes that another member has linked to this one, with the description of its server, or
    /// with `None` that the link ended.
    pub(super) fn on_linked(&mut self, member: MemberId, server: Option<LinkedServer>) {
        if server.is_none() {
            self.replica.miss_leader(member.0);
        }
        if let Some(leading) = self.role.leading_mut().filter(|_| server.is_some()) {
            leading.digests.forget_unsettled(member);
        }
        // If the member's disk is still full, it reports that again on its new link.
        self.room.on_member(member, false, self.clock.now_ms());
        self.members.on_linked(member, server);
    }

    /// Notes that a link to another member was made, or broke: messages sent on it may be lost.
    pub(super) fn on_link(&mut self, member: MemberId, is_up: bool) {
        if !is_up {
            let leading = self.role.leading_mut();
            if leading.is_some_and(|leading| leading.offers.withdraw(member)) {
                self.replica.report_snapshot(member.0, false);
            }
            self.replica.report_unreachable(member.0);
            return;
        }
        if self.role.leads() {
            // The member learns at once who leads, and answers how far its log goes. The next
            // heartbeat may be a fifth of a second away.
            self.replica.ping();
        }
        if self.role.is_led_by(member) {
            self.intake.restart();
            self.hearing.restart();
            self.spaces.etcd.questions.restart(self.clock.now_ms());
            self.give_newest_digest();
        }
        self.ask_open_digests(member);
        if self.room.is_full() {
            self.send(member, PeerMessage::Full(true));
        }
    }

    /// Answers the report of sessions of each follower to which another message goes now. A
    /// heartbeat goes to each follower soon, so no report waits long.
    pub(super) fn answer_reports(&mut self) {
        if self.role.leading().is_none_or(|leading| leading.heeded.is_empty()) {
            return;
        }
        let age_ms = self.contact.age_ms(self.clock.now_ms());
        let contact_ms = if self.members.is_alone() { 0 } else { age_ms };
        let sent_to: BTreeSet<MemberId> = self.output.peers.iter().map(|(to, _)| *to).collect();
        for to in sent_to {
            let leading = self.role.leading_mut();
            if let Some((boot, number)) = leading.and_then(|it| it.heeded.remove(&to)) {
                self.send(to, PeerMessage::Heeded { boot, number, contact_ms });
            }
        }
    }

    pub(super) fn send(&mut self, to: MemberId, message: PeerMessage) {
        self.output.peers.push((to, message.encode()));
    }

    pub(super) fn send_to_all(&mut self, message: &PeerMessage) {
        let membership = self.replica.membership();
        let lists = [&membership.voters, &membership.voters_outgoing, &membership.learners];
        let mut members: Vec<u64> = lists.into_iter().flatten().copied().collect();
        members.sort_unstable();
        members.dedup();
        members.retain(|member| *member != self.origin.member.0);
        for member in members {
            self.send(MemberId(member), message.clone());
        }
    }
}
