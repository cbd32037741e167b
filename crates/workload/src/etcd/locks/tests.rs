//! Histories of one lock that the judge must accept or reject.

use super::*;
use crate::etcd::op::{Answer, KeyValue, RangeAnswer, Txn, TxnAnswer};

const NAME: &[u8] = b"lock";

/// The slack that the judge allows.
const SLACK_US: u64 = 1_000;

const fn seconds(count: u64) -> u64 {
    count * 1_000_000
}

/// A history, written in the order of time. Client n uses lease n.
#[derive(Default)]
struct Story {
    history: History,
}

impl Story {
    /// Clients 1 to 3, with sessions of ten seconds that were granted at second 1.
    fn new() -> Story {
        let mut story = Story::default();
        (0..=3).for_each(|client| {
            story.history.connect(client, 0);
        });
        story.grant(1, 1).grant(2, 1).grant(3, 1)
    }

    fn answered(&mut self, client: u32, op: Op, at_us: u64, answer: Option<Answer>) -> CallId {
        let id = self.history.ask(client as usize, op, at_us);
        if let Some(answer) = answer {
            self.history.answer(id, answer, at_us + 1_000);
        }
        id
    }

    fn grant(mut self, client: u32, at: u64) -> Story {
        let (lease, ttl_s) = (i64::from(client), 10);
        let response = Response::Granted { revision: 1, lease, ttl_s };
        let op = Op::Lease(LeaseOp::Grant { lease, ttl_s });
        self.answered(client, op, seconds(at), Some(Ok(response)));
        self
    }

    fn keep(mut self, client: u32, at: u64, ttl_s: i64) -> Story {
        let op = Op::Lease(LeaseOp::KeepAlive { lease: client.into() });
        let response = Response::KeptAlive { revision: 1, ttl_s };
        self.answered(client, op, seconds(at), Some(Ok(response)));
        self
    }

    fn begin(mut self, client: u32, token: i64, at_us: u64) -> Story {
        self.history.begin_hold((client, NAME), client.into(), token, at_us);
        self
    }

    fn end(mut self, at_us: u64) -> Story {
        let hold = self.history.holds.len() - 1;
        self.history.end_hold(hold, at_us);
        self
    }

    /// A guarded write in this hold that succeeds at this revision and finds the value of the token
    /// `before`.
    fn write(mut self, hold: usize, revision: i64, before: i64) -> Story {
        let pair = KeyValue { value: guarded_value(before, 7), ..KeyValue::default() };
        let range = RangeAnswer { kvs: vec![pair], ..RangeAnswer::default() };
        let responses = vec![Response::Range(range)];
        self.note_write(hold, Some(TxnAnswer { revision, succeeded: true, responses }));
        self
    }

    fn note_write(&mut self, hold: usize, answer: Option<TxnAnswer>) {
        let client = self.history.holds[hold].client;
        let answer = answer.map(|answer| Ok(Response::Txn(answer)));
        let id = self.answered(client, Op::Txn(Txn::default()), seconds(20), answer);
        self.history.holds[hold].writes.push(id);
    }

    fn show(mut self, client: u32, token: i64, revision: i64) -> Story {
        self.history.shown.push(Shown { client, name: NAME.to_vec(), token, revision });
        self
    }

    fn check(&self, expected: Result<(), Rule>) {
        let verdict = judge_locks(&self.history, SLACK_US);
        let found = verdict.as_ref().map(|_| ()).map_err(|found| found.rule);
        assert_eq!(found, expected, "{verdict:?}");
    }
}

#[test]
fn a_lock_that_is_passed_on_is_taken_and_counted() {
    let story = Story::new().begin(1, 5, seconds(2)).end(seconds(3)).begin(2, 6, seconds(3));
    let mut story = story.write(0, 7, 4).write(1, 8, 5).show(3, 5, 5).show(3, 5, 9).show(3, 6, 6);
    story.note_write(0, Some(TxnAnswer::default()));
    story.note_write(1, None);
    let counts = judge_locks(&story.history, 0).expect("it is sound");
    let expected = LockCounts { holds: 2, outlived: 1, guarded: 2, fenced: 1, shown: 3 };
    assert_eq!(counts, expected);
}

#[test]
fn a_hold_beside_another_one_is_rejected() {
    let first = || Story::new().begin(1, 5, seconds(2));
    first().end(seconds(4)).begin(2, 6, seconds(4)).check(Ok(()));
    first().end(seconds(4)).begin(2, 6, seconds(4) - 1).check(Err(Rule::Alone));
    first().begin(2, 6, seconds(4)).check(Err(Rule::Alone));
    // The first hold does not end just because a second one begins.
    let second = first().begin(2, 6, seconds(11));
    second.check(Ok(()));
    let ends = second.end(seconds(11) + 5);
    ends.begin(3, 7, seconds(11) + 6).check(Ok(()));
}

#[test]
fn a_hold_lasts_as_long_as_the_session_by_the_clock_of_the_client() {
    let first = || Story::new().begin(1, 5, seconds(2));
    first().begin(2, 6, seconds(11) - SLACK_US).check(Ok(()));
    first().begin(2, 6, seconds(11) - SLACK_US - 1).check(Err(Rule::Alone));
    // The time counts from the sending of the keep-alive, not from its answer.
    let kept = || first().keep(1, 8, 10).grant(2, 12);
    kept().begin(2, 6, seconds(18)).check(Ok(()));
    kept().begin(2, 6, seconds(17)).check(Err(Rule::Alone));
    // A keep-alive answered without a time extends nothing.
    first().keep(1, 8, 0).begin(2, 6, seconds(11)).check(Ok(()));
    // A keep-alive answered too late does not revive the session.
    let late = first().keep(1, 11, 10).grant(2, 12);
    late.begin(2, 6, seconds(13)).check(Ok(()));
}

#[test]
fn a_hold_without_a_session_is_none() {
    let late = Story::new().begin(1, 5, seconds(12));
    late.grant(2, 12).begin(2, 6, seconds(13)).check(Ok(()));
    Story::new().begin(4, 5, seconds(2)).begin(2, 6, seconds(3)).check(Ok(()));
}

#[test]
fn holds_in_another_order_than_that_of_the_keys_are_rejected() {
    let first = || Story::new().begin(2, 6, seconds(2)).end(seconds(3));
    first().begin(1, 5, seconds(4)).check(Err(Rule::Turns));
    first().begin(1, 6, seconds(4)).check(Err(Rule::Turns));
    first().begin(1, 7, seconds(4)).check(Ok(()));
}

#[test]
fn guarded_writes_of_two_holders_by_turns_are_rejected() {
    let both = || {
        let story = Story::new().begin(1, 5, seconds(2)).end(seconds(3));
        story.begin(2, 6, seconds(3))
    };
    both().write(0, 10, 5).write(1, 11, 5).write(1, 12, 6).check(Ok(()));
    both().write(1, 11, 5).write(0, 12, 5).check(Err(Rule::Fence));
    // Rejected, too, if the answer to the other client's write is lost.
    both().write(0, 12, 6).check(Err(Rule::Fence));
}

#[test]
fn a_leader_that_is_shown_behind_a_newer_one_is_rejected() {
    Story::new().show(1, 5, 9).show(1, 6, 7).show(1, 6, 7).show(2, 5, 5).check(Ok(()));
    Story::new().show(1, 6, 7).show(1, 5, 9).check(Err(Rule::Leaders));
    Story::new().show(1, 6, 8).show(1, 6, 7).check(Err(Rule::Leaders));
}
