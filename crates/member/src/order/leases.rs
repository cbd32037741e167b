//! Loop's part in etcd's leases: their expiry, keep-alives, and questions for the time that a lease
//! has left; and the expiry of etcd v2's nodes.
//!
//! Only the leader's deadlines count. A member sends the questions of its clients to the leader,
//! those of a turn in one message. The leader answers a question once a round of its quorum that
//! began after the question arrived has returned, and everything is applied here that was committed
//! by then. So it does lead, and it knows every lease that was granted before. A question about a
//! lease whose expiry is under way waits until the lease has ended.
//!
//! A renewal protects its lease from its arrival on, until it is answered or its client no longer
//! waits: the answer may come late, since Apply or the round takes long.
//!
//! A question that is asked twice has the effect of one. So a member asks again whenever a question
//! may have been lost, and the next leader needs nothing of the one before.

use machine::etcd::command::Command as EtcdCommand;
use machine::etcd_v2::command::Judged;
use machine::etcd_v2::key::Key;
use machine::limits::{EXPIRE_KEYS_MAX, EXPIRE_LEASES_MAX};
use machine::{Command, EtcdV2Command, LeaseChange, LogIndex, MemberId};
use replica::ReadId;

use super::questions::Asked;
use super::{Loop, ReadFor};
use crate::leader::deadlines::TimeLeft;
use crate::leader::lease_calls::{Arrived, Asker};
use crate::lease::{LeaseQuestion, LeaseTime, NoLeaseTime};
use crate::limits::{
    ETCD_V2_EXPIRED_MAX, LEASE_ANSWER_MS_MAX, LEASE_CALLS_MAX, LEASE_MESSAGE_ITEMS_MAX,
    LEASE_QUESTIONS_MAX, LEASE_RETRY_MS, LEASES_EXPIRED_MAX,
};
use crate::message::{Caller, LeaseAnswered, ToApply};
use crate::peer::{AskLeases, LeaseTimes, PeerMessage};

impl Loop {
    /// Takes questions of this member's clients.
    pub(super) fn on_lease_questions(&mut self, questions: Vec<(Caller, LeaseQuestion)>) {
        let mut refused = Vec::new();
        for (caller, question) in questions {
            if self.questions.count() >= LEASE_QUESTIONS_MAX {
                refused.push((caller, Err(NoLeaseTime::TooManyRequests)));
                continue;
            }
            self.questions.number += 1;
            let number = self.questions.number;
            let since_ms = self.now_ms;
            self.questions.asked.insert(number, Asked { caller, question, since_ms });
            self.questions.ungiven.insert(number);
        }
        self.tell_of_leases(LogIndex(0), refused);
    }

    /// Takes questions of a follower.
    pub(super) fn on_ask_leases(&mut self, from: MemberId, asked: AskLeases) {
        for (number, question) in asked.questions {
            self.take_lease_question((from, asked.boot), number, question);
        }
    }

    fn take_lease_question(&mut self, from: Asker, number: u64, question: LeaseQuestion) {
        let Some(leading) = &mut self.leading else { return };
        let calls = &mut leading.lease_calls;
        if calls.known.len() >= LEASE_CALLS_MAX || !calls.known.insert((from, number)) {
            return;
        }
        let arrived_ms = self.leases.now_ms();
        calls.arrived.push(Arrived { from, number, question, arrived_ms });
        if question.renews {
            let until_ms = calls.on_renewal(question.lease, arrived_ms);
            self.leases.protect(question.lease, until_ms);
        }
    }

    /// Gives the leader the questions that it was not given.
    pub(super) fn ask_leases(&mut self) {
        if self.questions.ungiven.is_empty() || (self.leader.is_none() && !self.leads()) {
            return;
        }
        let numbers = core::mem::take(&mut self.questions.ungiven);
        let asked = &self.questions.asked;
        let question_of = |number: u64| asked.get(&number).map(|it| (number, it.question));
        let questions: Vec<_> = numbers.into_iter().filter_map(question_of).collect();
        let boot = self.origin.boot;
        match self.leader {
            Some(leader) => {
                for part in questions.chunks(LEASE_MESSAGE_ITEMS_MAX) {
                    let questions = part.to_vec();
                    self.send(leader, PeerMessage::AskLeases(AskLeases { boot, questions }));
                }
            }
            None => {
                let from = (self.origin.member, boot);
                for (number, question) in questions {
                    self.take_lease_question(from, number, question);
                }
            }
        }
    }

    /// Begins a round for the questions that have arrived at this leader. A leader that is alone
    /// needs none, but has to apply what is committed.
    pub(super) fn confirm_leases(&mut self) {
        let is_alone = self.is_alone();
        let Some(leading) = &mut self.leading else { return };
        let calls = &mut leading.lease_calls;
        if calls.arrived.is_empty() {
            return;
        }
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
        let Some(leading) = &mut self.leading else { return };
        let calls = &mut leading.lease_calls;
        let Some(round) = calls.rounds.remove(&read) else { return };
        match index {
            Some(index) => calls.confirmed.push_back((index, round)),
            None => calls.arrived.extend(round),
        }
    }

    /// Answers what can be answered, and sends the answers.
    pub(super) fn answer_leases(&mut self) {
        let Some(leading) = &mut self.leading else { return };
        let mut ready = Vec::new();
        let confirmed = &mut leading.lease_calls.confirmed;
        confirmed.retain_mut(|(index, arrived)| {
            let is_ready = *index <= self.applied;
            if is_ready {
                ready.append(arrived);
            }
            !is_ready
        });
        for arrived in ready {
            self.answer_lease(arrived);
        }
        self.send_lease_answers();
    }

    fn answer_lease(&mut self, arrived: Arrived) {
        let Some(leading) = &mut self.leading else { return };
        let calls = &mut leading.lease_calls;
        let LeaseQuestion { lease, renews } = arrived.question;
        let time = match self.leases.left(lease) {
            Some(TimeLeft::Judged) => {
                calls.fated.entry(lease).or_default().push(arrived);
                return;
            }
            Some(TimeLeft::Some { left_ms, timeout_ms }) => {
                let left_ms = if renews { timeout_ms } else { left_ms };
                Some(LeaseTime { granted_s: (timeout_ms / 1_000) as i64, left_ms })
            }
            None => None,
        };
        if renews {
            self.leases.heard(lease);
            self.leases.protect(lease, calls.on_renewed(lease, arrived.arrived_ms));
        }
        calls.known.remove(&(arrived.from, arrived.number));
        calls.answers.entry(arrived.from).or_default().push((arrived.number, time));
    }

    fn send_lease_answers(&mut self) {
        let Some(leading) = &mut self.leading else { return };
        let answers = core::mem::take(&mut leading.lease_calls.answers);
        let index = self.applied;
        for ((member, boot), answers) in answers {
            if member == self.origin.member {
                self.on_lease_times(LeaseTimes { boot, index, answers });
                continue;
            }
            for part in answers.chunks(LEASE_MESSAGE_ITEMS_MAX) {
                let answers = part.to_vec();
                self.send(member, PeerMessage::LeaseTimes(LeaseTimes { boot, index, answers }));
            }
        }
    }

    /// Takes a leader's answers to questions of this member's clients. One who asked for the time
    /// that is left may be shown the keys as well, as they were at the leader.
    pub(super) fn on_lease_times(&mut self, times: LeaseTimes) {
        if times.boot != self.origin.boot {
            return;
        }
        let (mut now, mut later) = (Vec::new(), Vec::new());
        for (number, time) in times.answers {
            let Some(Asked { caller, question, .. }) = self.questions.asked.remove(&number) else {
                continue;
            };
            self.questions.ungiven.remove(&number);
            let told = if question.renews { &mut now } else { &mut later };
            told.push((caller, Ok(time)));
        }
        self.tell_of_leases(LogIndex(0), now);
        self.tell_of_leases(times.index, later);
    }

    fn tell_of_leases(&mut self, index: LogIndex, answers: Vec<(Caller, LeaseAnswered)>) {
        if !answers.is_empty() {
            self.output.apply.push(ToApply::LeaseTimes { index, answers });
        }
    }

    /// Asks again what may be lost, and answers what has waited for too long.
    pub(super) fn pursue_leases(&mut self) {
        let mut late = Vec::new();
        let is_leader_known = self.leader.is_some() || self.leads();
        let why = if is_leader_known { NoLeaseTime::TimedOut } else { NoLeaseTime::NoLeader };
        while let Some(first) = self.questions.asked.first_entry()
            && self.now_ms >= first.get().since_ms + LEASE_ANSWER_MS_MAX
        {
            let (number, asked) = first.remove_entry();
            self.questions.ungiven.remove(&number);
            late.push((asked.caller, Err(why)));
        }
        self.tell_of_leases(LogIndex(0), late);
        let oldest = self.questions.asked.first_key_value().map(|(_, asked)| asked.since_ms);
        let since_ms = oldest.map(|since_ms| since_ms.max(self.questions.restarted_ms));
        if since_ms.is_some_and(|since_ms| self.now_ms >= since_ms + LEASE_RETRY_MS) {
            self.questions.restart(self.now_ms);
        }
    }

    /// Takes changes of leases.
    pub(super) fn on_leases(&mut self, is_replaced: bool, changes: Vec<LeaseChange>) {
        if is_replaced {
            self.leases.clear();
        }
        for change in changes {
            let lease = match change {
                LeaseChange::Granted { lease, granted, ttl_s } => {
                    self.leases.attach(lease, granted, ttl_s as u64 * 1_000);
                    if let Some(leading) = &self.leading {
                        self.leases.protect(lease, leading.lease_calls.protected_until_ms(lease));
                    }
                    lease
                }
                LeaseChange::Ended(lease) => {
                    self.leases.close(lease);
                    lease
                }
            };
            let calls = self.leading.as_mut().map(|leading| &mut leading.lease_calls);
            let fated = calls.and_then(|calls| calls.fated.remove(&lease));
            for arrived in fated.into_iter().flatten() {
                self.answer_lease(arrived);
            }
        }
    }

    /// Submits the commands that expire the leases whose time has passed.
    pub(super) fn expire_leases(&mut self) {
        let expired = self.leases.expired(LEASES_EXPIRED_MAX);
        self.counts.leases_expired += expired.len() as u64;
        for leases in expired.chunks(EXPIRE_LEASES_MAX) {
            self.submit_own(&Command::Etcd(EtcdCommand::Expire { leases: leases.to_vec() }));
        }
    }

    /// Submits the commands that remove the nodes of etcd v2 whose time is over.
    pub(super) fn expire_etcd_v2(&mut self) {
        let expired = self.etcd_v2_deadlines.expired(ETCD_V2_EXPIRED_MAX);
        self.counts.etcd_v2_expired += expired.len() as u64;
        for part in expired.chunks(EXPIRE_KEYS_MAX) {
            let judged = part.iter().map(|(since, key)| Judged {
                key: Key::new(key).expect("the state has the key"),
                since: *since,
            });
            let keys = judged.collect();
            self.submit_own(&Command::EtcdV2(EtcdV2Command::Expire { keys }));
        }
    }
}

#[cfg(test)]
mod tests;
