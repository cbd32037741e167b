//! Loop's part in etcd's leases: it carries the questions of clients to the leader and the answers
//! back, and asks the quorum before a leader answers. [`crate::spaces::etcd`] keeps the questions
//! and the deadlines.

use machine::{LogIndex, MemberId};
use replica::ReadId;

use super::{Loop, ReadFor};
use crate::limits::LEASE_MESSAGE_ITEMS_MAX;
use crate::message::ToApply;
use crate::peer::{AskLeases, LeaseTimes, PeerMessage};

impl Loop {
    /// Takes questions of a follower.
    pub(super) fn on_ask_leases(&mut self, from: MemberId, asked: AskLeases) {
        for (number, question) in asked.questions {
            self.spaces.etcd.on_asked((from, asked.boot), number, question);
        }
    }

    /// Gives the leader the questions that it was not given.
    pub(super) fn ask_leases(&mut self) {
        let is_leader_known = self.leader.is_some() || self.leads();
        if !is_leader_known || !self.spaces.etcd.questions.has_ungiven() {
            return;
        }
        let questions = self.spaces.etcd.questions.give();
        let boot = self.origin.boot;
        match self.leader {
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
    pub(super) fn confirm_leases(&mut self) {
        let is_alone = self.is_alone();
        let Some(calls) = self.spaces.etcd.calls().filter(|calls| !calls.arrived.is_empty()) else {
            return;
        };
        let Some(leading) = &self.leading else { return };
        if is_alone {
            let committed = LogIndex(self.replica.status().commit_index);
            let index = leading.from.max(committed);
            calls.confirmed.push_back((index, core::mem::take(&mut calls.arrived)));
        } else if let Ok(read) = self.replica.read_index() {
            calls.rounds.insert(read, core::mem::take(&mut calls.arrived));
            self.reads.under_way.insert(read, ReadFor::Leases);
        }
    }

    /// A round has returned with this index, or, if none, has failed.
    pub(super) fn on_lease_round(&mut self, read: ReadId, index: Option<LogIndex>) {
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
        self.spaces.etcd.answer_up_to(self.applied);
        let answers = self.spaces.etcd.calls().map(|calls| core::mem::take(&mut calls.answers));
        let index = self.applied;
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
