//! Asks Loop's questions to a quorum (ReadIndex), and uses the answers: for clients' syncs, for a
//! leader's contact, and for the questions of etcd's clients about leases, which go to the leader.
//! [`crate::spaces::etcd`] keeps the questions about leases and the deadlines.

use machine::{LogIndex, MemberId};
use replica::ReadId;

use super::Loop;
use super::reads::ReadFor;
use crate::limits::LEASE_MESSAGE_ITEMS_MAX;
use crate::message::ToApply;
use crate::order::limits::PROOF_SILENCE_MS;
use crate::peer::{AskLeases, LeaseTimes, PeerMessage};

impl Loop {
    /// Asks for all commit indexes that are needed and can be asked for now.
    pub(super) fn read_indexes(&mut self) {
        if let Some(number) = self.intake.wants_proof()
            && self.reads.ask(&mut self.replica, ReadFor::Proof { number }).is_some()
        {
            self.intake.on_proof_asked(number);
        }
        self.confirm_leases();
        self.reads.ask_syncs(&mut self.replica);
        let wants_ready = self.progress.wants_index() && self.role.leader().is_some();
        if wants_ready && self.reads.ask(&mut self.replica, ReadFor::Ready).is_some() {
            self.progress.on_asked();
        }
    }

    /// Takes the commit index that answers question `read`; `None` if the question failed.
    pub(super) fn on_read(&mut self, read: ReadId, index: Option<LogIndex>) {
        match (self.reads.take(read), index) {
            (ReadFor::Sync(caller), Some(index)) => {
                self.output.apply.push(ToApply::Sync { index, caller });
            }
            (ReadFor::Sync(caller), None) => self.reads.want_sync(caller),
            (ReadFor::Ready, index) => self.progress.on_index(index),
            (ReadFor::Contact { asked_ms }, index) => {
                self.contact.on_answer(index.map(|_| asked_ms));
            }
            (ReadFor::Leases, index) => self.on_lease_round(read, index),
            (ReadFor::Proof { number }, index) => self.intake.on_proof(number, index),
        }
    }

    // Contact: the last proof that this member belongs to a working ensemble.

    /// The age of the last contact, in ms, as of the last call of [`Loop::advance`]: a leader's
    /// contact to a quorum, or a follower's contact to such a leader. Before the first contact, the
    /// time since this member started. `None` if there are no other voters.
    ///
    /// `u64::MAX` for a follower whose disk stalls before the current term is durable: it can take
    /// part in nothing, and its clients do better elsewhere.
    pub fn contact_ms(&self) -> Option<u64> {
        if self.members.is_alone() {
            return None;
        }
        let is_follower = !self.role.leads();
        if is_follower && self.persisting.is_stalled() && !self.replica.is_term_durable() {
            return Some(u64::MAX);
        }
        let now_ms = self.clock.now_ms();
        Some(self.contact.age_ms(now_ms).min(now_ms))
    }

    /// Sends a leader's heartbeat if it is due, and notes if the contact is too old.
    pub(super) fn pursue_contact(&mut self) {
        if self.members.is_alone() {
            return;
        }
        let now_ms = self.clock.now_ms();
        if self.role.leads() && self.contact.beat_in_ms(now_ms) == 0 {
            let has_short = self.spaces.zk.has_short_timeouts();
            self.contact.plan_beat(now_ms, self.progress.applied(), has_short);
            if self.contact.is_asked() {
                self.replica.ping();
            } else {
                self.ask_contact();
            }
        }
        if self.contact.age_ms(now_ms) >= PROOF_SILENCE_MS {
            self.intake.on_silence();
        }
    }

    /// Asks the others whether they still follow this leader. Until an entry of this term is
    /// committed, the question waits, but the time that counts is the time of this call.
    pub(super) fn ask_contact(&mut self) {
        if self.contact.is_asked() || self.members.is_alone() {
            return;
        }
        let asked_ms = self.clock.now_ms();
        if self.reads.ask(&mut self.replica, ReadFor::Contact { asked_ms }).is_some() {
            self.contact.on_asked();
        }
    }

    // Clients' questions about etcd's leases. A follower sends them to the leader.

    /// Takes questions that a follower sent to this leader.
    pub(super) fn on_ask_leases(&mut self, from: MemberId, asked: AskLeases) {
        for (number, question) in asked.questions {
            self.spaces.etcd.on_asked((from, asked.boot), number, question);
        }
    }

    /// Gives the leader the questions that it was not given yet.
    pub(super) fn ask_leases(&mut self) {
        if !self.role.is_leader_known() || !self.spaces.etcd.questions.has_ungiven() {
            return;
        }
        let questions = self.spaces.etcd.questions.give();
        let boot = self.origin.boot;
        match self.role.leader() {
            Some(leader) => {
                for part in questions.chunks(LEASE_MESSAGE_ITEMS_MAX) {
                    let questions = part.to_vec();
                    self.send(leader, PeerMessage::AskLeases(AskLeases { boot, questions }));
                }
            }
            None => self.on_ask_leases(self.origin.member, AskLeases { boot, questions }),
        }
    }

    /// Begins a ReadIndex round for the questions that have arrived at this leader: an answer must
    /// wait for the proof that it still leads. A leader that is the only voter needs no proof, but
    /// it must have applied what is committed.
    fn confirm_leases(&mut self) {
        let is_alone = self.members.is_alone();
        let Some(calls) = self.spaces.etcd.calls().filter(|calls| !calls.arrived.is_empty()) else {
            return;
        };
        let Some(leading) = self.role.leading() else { return };
        if is_alone {
            let committed = LogIndex(self.replica.status().commit_index);
            let index = leading.from.max(committed);
            calls.confirmed.push_back((index, core::mem::take(&mut calls.arrived)));
        } else if let Some(read) = self.reads.ask(&mut self.replica, ReadFor::Leases) {
            calls.rounds.insert(read, core::mem::take(&mut calls.arrived));
        }
    }

    /// Ends a ReadIndex round for questions about leases, with the commit index, or with `None` if
    /// the round failed.
    fn on_lease_round(&mut self, read: ReadId, index: Option<LogIndex>) {
        let Some(calls) = self.spaces.etcd.calls() else { return };
        let Some(round) = calls.rounds.remove(&read) else { return };
        match index {
            Some(index) => calls.confirmed.push_back((index, round)),
            None => calls.arrived.extend(round),
        }
    }

    /// Answers the questions that can be answered: sends the answers to other members, and has
    /// Apply answer the callers here.
    pub(super) fn answer_leases(&mut self) {
        self.spaces.etcd.answer_up_to(self.progress.applied());
        let answers = self.spaces.etcd.calls().map(|calls| core::mem::take(&mut calls.answers));
        let index = self.progress.applied();
        for ((member, boot), answers) in answers.into_iter().flatten() {
            if member == self.origin.member {
                self.on_lease_times(LeaseTimes { boot, index, answers });
                continue;
            }
            for part in answers.chunks(LEASE_MESSAGE_ITEMS_MAX) {
                let answers = part.to_vec();
                self.send(member, PeerMessage::LeaseTimes(LeaseTimes { boot, index, answers }));
            }
        }
        for (index, answers) in self.spaces.etcd.questions.take_told() {
            self.output.apply.push(ToApply::LeaseTimes { index, answers });
        }
    }

    /// Takes a leader's answers to questions of this member's clients.
    pub(super) fn on_lease_times(&mut self, times: LeaseTimes) {
        if times.boot == self.origin.boot {
            self.spaces.etcd.questions.on_answers(times.index, times.answers);
        }
    }
}

#[cfg(test)]
mod tests;
