//! The renewals of etcd's leases that have reached a leader. While one waits for its answer, as
//! long as its client may wait, the leader must not end the lease: the answer waits for Apply,
//! which may take longer than the lease has.

use std::collections::BTreeMap;

use machine::{BootId, LeaseId, MemberId};
use member::lease::LeaseQuestion;
use member::message::Caller;
use member::spaces::limits::LEASE_ANSWER_MS_MAX;

/// The renewals, in all lives of the processes.
#[derive(Default)]
pub struct Renewals {
    /// Those of each leader and lease, in the order of arrival.
    all: BTreeMap<(Leader, LeaseId), Vec<Renewal>>,
    /// Those that are not answered: the lease, and the position among its renewals.
    open: BTreeMap<(Leader, Asked), (LeaseId, usize)>,
}

/// The number of a member, and a term that it leads in.
pub type Leader = (usize, u64);

/// A question, as its leader knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Asked {
    /// Another member's.
    By(MemberId, BootId, u64),
    /// One of the leader's own clients: the runtime, the connection and the ticket.
    Here(u32, u64, u64),
}

impl From<&Caller> for Asked {
    fn from(caller: &Caller) -> Asked {
        Asked::Here(caller.front.0, caller.connection.0, caller.ticket.0)
    }
}

#[derive(Clone, Copy, Debug)]
struct Renewal {
    arrived_us: u64,
    answered_us: Option<u64>,
}

impl Renewals {
    /// A leader gets a question.
    pub fn on_question(
        &mut self,
        leader: Leader,
        asked: Asked,
        question: LeaseQuestion,
        now_us: u64,
    ) {
        let place = (leader, asked);
        if !question.renews || self.open.contains_key(&place) {
            return;
        }
        let all = self.all.entry((leader, question.lease)).or_default();
        self.open.insert(place, (question.lease, all.len()));
        all.push(Renewal { arrived_us: now_us, answered_us: None });
    }

    /// A leader gives an answer.
    pub fn on_answer(&mut self, leader: Leader, asked: Asked, now_us: u64) {
        let Some((lease, position)) = self.open.remove(&(leader, asked)) else { return };
        let all = self.all.get_mut(&(leader, lease)).expect("it is one of them");
        all[position].answered_us = Some(now_us);
    }

    /// Checks that a leader could end a lease between these times. Its clock may be ahead by
    /// `slack_us`.
    ///
    /// # Errors
    /// The oldest renewal without an answer protected the lease all the while.
    pub fn check_end(
        &self,
        leader: Leader,
        lease: LeaseId,
        (from_us, until_us): (u64, u64),
        slack_us: u64,
    ) -> Result<(), String> {
        let all = self.all.get(&(leader, lease)).map_or(&[][..], Vec::as_slice);
        let waits = |it: &&Renewal, at_us: u64| it.answered_us.is_none_or(|us| us > at_us);
        let oldest = all.iter().find(|it| it.arrived_us < from_us && waits(it, from_us));
        let Some(oldest) = oldest.filter(|it| waits(it, until_us)) else { return Ok(()) };
        if until_us + slack_us >= oldest.arrived_us + LEASE_ANSWER_MS_MAX * 1_000 {
            return Ok(());
        }
        Err(format!(
            "{leader:?} ends {lease:?} between {from_us} and {until_us} us, and {oldest:?} of it waits"
        ))
    }
}
