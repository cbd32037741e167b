//! Histories of one lease that the judge must accept or reject.

use super::*;
use crate::etcd::history::CallId;
use crate::etcd::op::{Answer, Put, PutAnswer};

const LEASE: i64 = 7;

/// A history of calls, one per second, with its claim.
#[derive(Default)]
struct Story {
    history: History,
    claim: Vec<(Claimed, Handed)>,
}

const fn seconds(count: u64) -> u64 {
    count * 1_000_000
}

impl Story {
    fn new() -> Story {
        let mut story = Story::default();
        story.history.connect(0, 0);
        story
    }

    fn call(&mut self, op: LeaseOp, at_us: u64, answer: Answer, answered_us: u64) -> CallId {
        let id = self.history.ask(0, Op::Lease(op), at_us);
        self.history.answer(id, answer, answered_us);
        id
    }

    /// A lease that is granted at this second.
    fn grant(mut self, at: u64, ttl_s: i64) -> Story {
        let response = Response::Granted { revision: 1, lease: LEASE, ttl_s };
        let op = LeaseOp::Grant { lease: LEASE, ttl_s };
        let id = self.call(op, seconds(at), Ok(response), seconds(at) + 1_000);
        self.claim.push((Claimed::Call(id), Handed::at(seconds(at) + 500)));
        self
    }

    fn keep(mut self, at: u64, ttl_s: i64) -> Story {
        let response = Response::KeptAlive { revision: 1, ttl_s };
        let op = LeaseOp::KeepAlive { lease: LEASE };
        self.call(op, seconds(at), Ok(response), seconds(at) + 1_000);
        self
    }

    fn left(mut self, at: u64, ttl_s: i64, granted_s: i64) -> Story {
        let response = Response::TimeToLive { revision: 1, ttl_s, granted_s };
        let op = LeaseOp::TimeToLive { lease: LEASE };
        self.call(op, seconds(at), Ok(response), seconds(at) + 1_000);
        self
    }

    /// A put that uses the lease.
    fn put(mut self, at: u64, is_found: bool) -> Story {
        let put = Put { key: b"a".to_vec(), lease: LEASE, ..Put::default() };
        let id = self.history.ask(0, Op::Put(put), seconds(at));
        let answer = match is_found {
            true => Ok(Response::Put(PutAnswer::default())),
            false => Err(Error::LeaseNotFound),
        };
        self.history.answer(id, answer, seconds(at) + 1_000);
        self
    }

    /// The expiry of the last grant.
    fn expire(self, at_us: u64) -> Story {
        self.expire_between(Handed::at(at_us))
    }

    fn expire_between(mut self, handed: Handed) -> Story {
        let is_grant = |it: &(Claimed, Handed)| matches!(it.0, Claimed::Call(_));
        let granted = self.claim.iter().rposition(is_grant).expect("it was granted");
        self.claim.push((Claimed::Expire { lease: LEASE, granted }, handed));
        self
    }

    fn check(&self, is_good: bool) {
        let verdict = judge_leases(&self.history, &self.claim, 1_000);
        assert_eq!(verdict.is_ok(), is_good, "{verdict:?}");
    }
}

#[test]
fn a_lease_that_lives_its_time_is_taken_and_counted() {
    let story = Story::new().grant(1, 5).keep(3, 5).left(4, 3, 5).expire(seconds(8));
    let story = story.keep(9, 0).left(10, -1, 0).grant(11, 2).expire(seconds(13));
    let counts = judge_leases(&story.history, &story.claim, 0).expect("it is sound");
    assert_eq!(counts, LeaseCounts { granted: 2, expired: 2, kept: 1, unknown: 2 });
}

#[test]
fn an_end_before_the_time_after_the_grant_or_a_keep_alive_is_rejected() {
    Story::new().grant(1, 5).expire(seconds(6)).check(true);
    Story::new().grant(1, 5).expire(seconds(6) - 2_000).check(false);
    Story::new().grant(1, 5).keep(3, 5).expire(seconds(8)).check(true);
    Story::new().grant(1, 5).keep(3, 5).expire(seconds(8) - 2_000).check(false);
    // A keep-alive answered without a time extends nothing; that answer is wrong itself.
    Story::new().grant(1, 5).keep(3, 0).expire(seconds(6)).check(false);
    // The shortest time to live.
    Story::new().grant(1, 0).expire(seconds(3)).check(true);
    Story::new().grant(1, 0).expire(seconds(2)).check(false);
}

#[test]
fn an_answer_with_a_time_after_the_end_or_without_a_grant_is_rejected() {
    Story::new().keep(3, 5).check(false);
    Story::new().left(3, 4, 5).check(false);
    Story::new().grant(1, 2).expire(seconds(4)).keep(5, 2).check(false);
    Story::new().grant(1, 2).expire(seconds(4)).left(5, 1, 2).check(false);
    Story::new().grant(1, 2).keep(3, 9).check(false);
}

#[test]
fn an_answer_as_by_an_unknown_lease_while_it_exists_is_rejected() {
    Story::new().grant(1, 5).keep(3, 0).check(false);
    Story::new().grant(1, 5).left(3, -1, 0).check(false);
    Story::new().grant(1, 5).expire(seconds(7)).keep(8, 0).check(true);
    Story::new().keep(1, 0).grant(2, 5).check(true);
}

#[test]
fn of_an_end_whose_time_is_not_known_both_answers_are_taken() {
    let ended = || {
        let handed = Handed { earliest_us: seconds(4), latest_us: seconds(8) };
        Story::new().grant(1, 5).expire_between(handed)
    };
    ended().keep(2, 0).check(false);
    ended().left(7, 3, 5).left(7, -1, 0).keep(7, 0).check(true);
    ended().left(9, 3, 5).check(false);
    // Counted from the latest end.
    ended().keep(4, 5).check(false);
}

#[test]
fn a_put_finds_a_lease_if_and_only_if_it_exists() {
    Story::new().grant(1, 2).put(2, true).expire(seconds(4)).put(5, false).check(true);
    Story::new().put(2, true).check(false);
    Story::new().grant(1, 2).expire(seconds(4)).put(5, true).check(false);
    Story::new().grant(1, 5).put(2, false).check(false);
}

#[test]
fn a_time_that_is_not_below_the_granted_one_is_rejected() {
    Story::new().grant(1, 5).left(2, 4, 5).check(true);
    Story::new().grant(1, 5).left(2, 0, 5).check(true);
    Story::new().grant(1, 5).left(2, 5, 5).check(false);
    Story::new().grant(1, 5).left(2, -2, 5).check(false);
    Story::new().grant(1, 5).left(2, 4, 6).check(false);
}

#[test]
fn an_expiry_that_judged_an_earlier_grant_ends_nothing() {
    let mut story = Story::new().grant(1, 2).expire(seconds(4)).grant(5, 60);
    story.claim.push((Claimed::Expire { lease: LEASE, granted: 0 }, Handed::at(seconds(6))));
    story.keep(7, 60).check(true);
}
