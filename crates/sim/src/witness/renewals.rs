//! Records the renewals of etcd leases that have reached a leader, and checks each expiry against
//! them. While a renewal waits for its answer, the leader must not end the lease, for as long as a
//! client may wait: the answer must pass through Apply, which may take longer than the lease has
//! left.

use std::collections::BTreeMap;

use machine::{BootId, LeaseId, MemberId};
use member::lease::LeaseQuestion;
use member::message::Caller;
use member::spaces::limits::LEASE_ANSWER_MS_MAX;

/// The lease renewals, in all process runs.
#[derive(Default)]
pub struct Renewals {
    /// The renewals of each lease at each leader, in the order of arrival.
    all: BTreeMap<(Leader, LeaseId), Vec<Renewal>>,
    /// For each unanswered renewal, its lease and its position in that lease's list in `all`.
    open: BTreeMap<(Leader, Asked), (LeaseId, usize)>,
}

/// The number of a member, and a term that it leads in.
pub type Leader = (usize, u64);

/// Identifies a renewal among those that reached the same leader in the same term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Asked {
    /// The renewal came from another member: the member's id, its boot, and its number for the
    /// request.
    By(MemberId, BootId, u64),
    /// The renewal came from a client of the leader itself: the Front, the connection and the
    /// ticket.
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
    /// A request about a lease reaches a leader. It is recorded if it renews the lease.
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

    /// A leader answers a renewal.
    pub fn on_answer(&mut self, leader: Leader, asked: Asked, now_us: u64) {
        let Some((lease, position)) = self.open.remove(&(leader, asked)) else { return };
        let all = self.all.get_mut(&(leader, lease)).expect("it is one of them");
        all[position].answered_us = Some(now_us);
    }

    /// Checks that a leader was allowed to end a lease at some time between these two. Its clock
    /// may be up to `slack_us` ahead.
    ///
    /// # Errors
    /// A renewal waited for its answer during the whole time.
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
