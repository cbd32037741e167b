//! Loop's questions to a quorum, and the use of the answers: the syncs of clients, a leader's
//! contact, and the questions of etcd's clients about leases, which go to the leader.
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
    /// Asks for the indexes that are wanted.
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

    /// Takes the index that answers a question; `None` if the question failed.
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

    // This member's contact.

    /// The age of the last contact, in ms: of a leader to a quorum, or of a follower to such a
    /// leader. Before the first contact, the time since this member started. `None` without other
    /// members. As of the last call of [`Loop::advance`].
    ///
    /// `u64::MAX` for a follower whose disk has stalled before the present term is on it: it takes
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

    /// Sends a leader's heartbeat when it is due, and notes a long silence.
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

    /// Asks the others whether they still follow this leader. While nothing is committed in this
    /// term the question waits, and its time stays that of the asking.
    pub(super) fn ask_contact(&mut self) {
        if self.contact.is_asked() || self.members.is_alone() {
            return;
        }
        let asked_ms = self.clock.now_ms();
        if self.reads.ask(&mut self.replica, ReadFor::Contact { asked_ms }).is_some() {
            self.contact.on_asked();
        }
    }

    // Questions about etcd's leases.

    /// Takes questions of a follower.
    pub(super) fn on_ask_leases(&mut self, from: MemberId, asked: AskLeases) {
        for (number, question) in asked.questions {
            self.spaces.etcd.on_asked((from, asked.boot), number, question);
        }
    }

    /// Gives the leader the questions that it was not given.
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

    /// Begins a round for the questions that have arrived at this leader. A leader that is alone
    /// needs none, but has to apply what is committed.
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

    /// A round has returned with this index, or, with `None`, has failed.
    fn on_lease_round(&mut self, read: ReadId, index: Option<LogIndex>) {
        let Some(calls) = self.spaces.etcd.calls() else { return };
        let Some(round) = calls.rounds.remove(&read) else { return };
        match index {
            Some(index) => calls.confirmed.push_back((index, round)),
            None => calls.arrived.extend(round),
        }
    }

    /// Answers what can be answered: sends the answers to other members, and has the callers here
    /// told.
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
