//! The judge without a claim, on hand-made histories, one for each thing that it must reject, and
//! on a cluster made of the model, honest or lying.

use super::*;
use crate::etcd::generate::Options;
use crate::etcd::history::CallId;
use crate::etcd::model::{Model, View};
use crate::etcd::op::{LeaseOp, Put, PutAnswer, Range, RangeAnswer};
use crate::etcd::play::{Play, play};
use crate::etcd::short::{all, compact, delete, delete_to, put, range, txn};
use crate::generate::Random;

/// A history written call by call. Connections 0 and 1 belong to different clients.
struct Case {
    history: History,
    model: Model,
}

impl Case {
    fn new() -> Case {
        let mut history = History::default();
        history.connect(0, 0);
        history.connect(1, 1);
        Case { history, model: Model::new() }
    }

    fn ask(&mut self, connection: usize, op: impl Into<Op>) -> CallId {
        self.history.ask(connection, op.into(), 0)
    }

    /// Makes a call that takes effect and is answered.
    fn done(&mut self, connection: usize, op: impl Into<Op>) {
        let op = op.into();
        let answer = self.model.apply(&op);
        self.told(connection, op, answer);
    }

    /// Makes a write that takes effect and is not answered.
    fn lost(&mut self, connection: usize, op: impl Into<Op>) {
        let op = op.into();
        self.model.apply(&op).unwrap();
        self.ask(connection, op);
    }

    fn at(&self, op: impl Into<Op>, revision: i64) -> Answer {
        self.model.answer_at(&op.into(), View { revision, compacted: -1 })
    }

    fn told(&mut self, connection: usize, op: impl Into<Op>, answer: Answer) {
        let id = self.ask(connection, op);
        self.history.answer(id, answer, 0);
    }

    fn passes(&self) -> Verdict {
        judge(&self.history).unwrap()
    }

    fn breaks(&self, rule: Rule) {
        let found = judge(&self.history).unwrap_err();
        assert_eq!(found.rule, rule, "{found}");
    }
}

fn put_at(revision: i64) -> Answer {
    Ok(Response::Put(PutAnswer { revision, prev_kv: None }))
}

fn serializable(key: &str) -> Range {
    Range { serializable: true, ..range(key) }
}

#[test]
fn a_sound_history_passes() {
    let mut case = Case::new();
    case.done(0, put("a", "1"));
    case.lost(1, put("b", "2"));
    case.ask(1, put("b", "3"));
    case.done(0, delete("zz"));
    case.done(1, all());
    case.told(1, serializable("b"), case.at(range("b"), 3));
    case.done(0, compact(3));
    case.done(0, compact(2));
    case.done(0, Range { revision: 2, ..all() });
    case.done(0, Range { revision: 9, ..all() });
    case.done(0, put("", "1"));
    case.told(0, put("c", "1"), Err(Error::NoLeader));
    let verdict = case.passes();
    assert_eq!((verdict.change_count, verdict.read_count, verdict.refused_count), (1, 4, 3));
    assert_eq!((verdict.unknown_count, verdict.gap_count, verdict.uncompared_count), (2, 1, 0));
}

#[test]
fn two_writes_of_one_revision_are_rejected() {
    let mut case = Case::new();
    let (one, two) = (case.ask(0, put("a", "1")), case.ask(1, put("b", "1")));
    case.history.answer(one, put_at(2), 0);
    case.history.answer(two, put_at(2), 0);
    case.breaks(Rule::Revision);
}

#[test]
fn a_revision_that_nobody_made_is_rejected() {
    let mut case = Case::new();
    case.told(0, put("a", "1"), put_at(3));
    case.breaks(Rule::Revision);
    // A write that was refused before the log, or sent too late, cannot have made it.
    let mut case = Case::new();
    case.told(0, put("b", "1"), Err(Error::NoLeader));
    case.told(0, put("a", "1"), put_at(3));
    case.ask(0, put("b", "2"));
    case.breaks(Rule::Revision);
    let mut case = Case::new();
    case.told(0, put("b", "1"), Err(Error::TimedOut));
    case.told(0, put("a", "1"), put_at(3));
    case.passes();
}

#[test]
fn one_write_makes_one_revision() {
    let mut case = Case::new();
    case.ask(0, put("b", "1"));
    case.told(0, put("a", "1"), put_at(4));
    case.breaks(Rule::Revision);
}

#[test]
fn a_write_comes_behind_what_was_shown_before_it() {
    let mut case = Case::new();
    case.ask(1, put("b", "1"));
    case.told(0, put("a", "1"), put_at(3));
    case.told(0, put("a", "2"), put_at(2));
    case.breaks(Rule::RealTime);
}

#[test]
fn a_linearizable_read_sees_what_was_shown_before_it() {
    let mut case = Case::new();
    case.done(0, put("a", "1"));
    case.told(1, serializable("a"), case.at(range("a"), 1));
    case.passes();
    case.told(1, range("a"), case.at(range("a"), 1));
    case.breaks(Rule::RealTime);
}

#[test]
fn a_connection_never_goes_back() {
    let mut case = Case::new();
    case.done(0, put("a", "1"));
    case.told(0, serializable("a"), case.at(range("a"), 1));
    case.breaks(Rule::Connection);
}

#[test]
fn an_answer_shows_no_write_that_was_sent_later() {
    let mut case = Case::new();
    case.model.apply(&put("a", "1").into()).unwrap();
    case.told(1, serializable("a"), case.at(range("a"), 2));
    case.told(0, put("a", "1"), put_at(2));
    case.breaks(Rule::RealTime);
}

#[test]
fn a_write_that_tells_a_wrong_past_is_rejected() {
    let mut case = Case::new();
    case.done(0, put("a", "1"));
    let op = crate::etcd::op::Put { prev_kv: true, ..put("a", "2") };
    case.told(0, op, put_at(3));
    case.breaks(Rule::Answer);
}

#[test]
fn a_read_that_no_state_gives_is_rejected() {
    let mut case = Case::new();
    case.done(0, put("a", "1"));
    case.told(1, range("a"), case.at(range("b"), 2));
    case.breaks(Rule::Read);
    let mut case = Case::new();
    case.done(0, put("a", "1"));
    case.done(0, put("a", "2"));
    case.told(1, Range { revision: 2, ..range("a") }, case.at(range("a"), 3));
    case.breaks(Rule::Read);
}

#[test]
fn answers_agree_about_a_write_of_unknown_fate() {
    // Revision 2 belongs to one write or the other, for all readers alike.
    let mut case = Case::new();
    case.lost(0, put("a", "1"));
    case.ask(0, put("a", "2"));
    case.told(1, range("a"), case.at(range("a"), 2));
    case.passes();
    let mut other = Model::new();
    other.apply(&put("a", "2").into()).unwrap();
    let answer = other.answer_at(&range("a").into(), other.view());
    case.told(1, range("a"), answer);
    case.breaks(Rule::Read);
}

#[test]
fn a_write_of_unknown_fate_is_done_once() {
    let mut case = Case::new();
    case.lost(0, put("a", "1"));
    case.done(0, delete("a"));
    case.done(1, all());
    case.passes();
    case.model.apply(&put("a", "1").into()).unwrap();
    case.done(1, all());
    case.breaks(Rule::Revision);
}

#[test]
fn writes_of_one_effect_make_one_world_and_a_revision_each() {
    let mut case = Case::new();
    for _ in 0..40 {
        case.done(0, put("a", "1"));
        case.lost(1, delete("a"));
        case.ask(1, delete_to("a", "b"));
        case.done(0, all());
    }
    let one_more = |case: &mut Case| {
        case.done(0, put("a", "1"));
        case.model.apply(&delete("a").into()).unwrap();
        case.done(0, all());
    };
    (0..40).for_each(|_| one_more(&mut case));
    let verdict = case.passes();
    assert_eq!((verdict.unknown_count, verdict.gap_count), (80, 80));
    assert_eq!(verdict.uncompared_count, 0);
    one_more(&mut case);
    case.breaks(Rule::Revision);
}

#[test]
fn revisions_that_change_nothing_to_see_make_one_world() {
    let mut case = Case::new();
    // A delete with an open end may delete what the same transaction has put.
    let nothing = |key: &str| txn([put(key, "1").into(), delete_to(key, "\0").into()]);
    for _ in 0..10 {
        case.ask(1, nothing("y"));
        case.lost(1, nothing("z"));
        case.done(0, all());
    }
    let verdict = case.passes();
    assert_eq!((verdict.gap_count, verdict.uncompared_count), (10, 0));
}

#[test]
fn a_range_at_an_older_revision_tells_the_state_there_at_once() {
    let mut case = Case::new();
    for value in 0..=WORLDS_MAX {
        case.ask(1, put("a", &value.to_string()));
    }
    case.model.apply(&put("a", "7").into()).unwrap();
    case.done(0, put("a", "new"));
    case.done(0, put("a", "newer"));
    assert_eq!(case.passes().uncompared_count, 2);
    case.done(0, Range { revision: 2, ..all() });
    assert_eq!(case.passes().uncompared_count, 0);
    case.told(0, Range { revision: 2, ..range("a") }, case.at(range("a"), 4));
    case.breaks(Rule::Read);
}

#[test]
fn with_too_many_worlds_the_rest_is_not_compared() {
    let mut case = Case::new();
    for value in 0..9 {
        case.ask(0, put("a", &value.to_string()));
    }
    let kvs = Vec::new();
    let answer = RangeAnswer { revision: 4, kvs, more: false, count: 0 };
    case.told(1, range("b"), Ok(Response::Range(answer)));
    case.told(
        1,
        range("c"),
        case.at(range("c"), 1).map(|_| {
            Response::Range(RangeAnswer { revision: 5, count: 7, ..RangeAnswer::default() })
        }),
    );
    assert_eq!(case.passes().uncompared_count, 2);
}

#[test]
fn a_range_below_a_compaction_that_was_acknowledged_is_refused() {
    let mut case = Case::new();
    case.done(0, put("a", "1"));
    let old = Range { revision: 1, ..range("a") };
    let open = case.ask(1, old.clone());
    case.done(0, compact(2));
    let answer = case.at(old.clone(), 2);
    case.history.answer(open, answer.clone(), 0);
    case.passes();
    case.told(1, old, answer);
    case.breaks(Rule::Read);
}

#[test]
fn a_refusal_as_compacted_needs_a_compaction_that_was_sent() {
    let refused = |case: &mut Case, op: Op| case.told(1, op, Err(Error::Compacted));
    let old = || Op::from(Range { revision: 1, ..range("a") });
    for (op, answer) in [
        (compact(1), None),
        (compact(2), Some(Err(Error::NoLeader))),
        (compact(2), Some(Err(Error::FutureRevision))),
    ] {
        let mut case = Case::new();
        let id = case.ask(0, op);
        if let Some(answer) = answer {
            case.history.answer(id, answer, 0);
        }
        refused(&mut case, old());
        case.breaks(Rule::Read);
    }
    let mut case = Case::new();
    refused(&mut case, compact(0));
    case.breaks(Rule::Answer);
    let mut case = Case::new();
    refused(&mut case, compact(-1));
    case.ask(0, compact(2));
    refused(&mut case, old());
    refused(&mut case, compact(2));
    case.passes();
    refused(&mut case, range("a").into());
    case.breaks(Rule::Read);
}

#[test]
fn compactions_go_forward() {
    let mut case = Case::new();
    case.done(0, put("a", "1"));
    case.done(0, compact(2));
    case.told(0, compact(1), Ok(Response::Compact { revision: 2 }));
    case.breaks(Rule::Answer);
    let mut case = Case::new();
    case.told(0, compact(5), Ok(Response::Compact { revision: 1 }));
    case.breaks(Rule::Answer);
}

#[test]
fn a_refusal_as_future_needs_a_state_without_the_revision() {
    let future = Range { revision: 2, ..range("a") };
    let mut case = Case::new();
    case.done(0, future.clone());
    case.done(0, put("a", "1"));
    case.passes();
    case.told(1, future, Err(Error::FutureRevision));
    case.breaks(Rule::Read);
}

#[test]
fn a_refusal_has_a_reason_in_its_call() {
    for error in [Error::KeyNotFound, Error::LeaseNotFound] {
        let mut case = Case::new();
        case.told(0, put("a", "1"), Err(error));
        case.breaks(Rule::Answer);
    }
    let mut case = Case::new();
    case.told(0, delete("a"), Err(Error::NoSpace));
    case.breaks(Rule::Answer);
    let mut case = Case::new();
    case.told(0, put("a", "1"), Err(Error::EmptyKey));
    case.breaks(Rule::Form);
}

// A cluster made of the model.

#[test]
fn what_an_honest_cluster_shows_passes() {
    let (mut sum, mut uncompared_count) = (0, 0);
    for seed in 0..150 {
        let play = play(seed, &Options::for_etcd(), 600);
        let verdict = judge(&play.history).unwrap_or_else(|found| panic!("seed {seed}: {found}"));
        sum += verdict.change_count + verdict.read_count;
        uncompared_count += verdict.uncompared_count;
    }
    assert!(uncompared_count * 10 < sum, "{uncompared_count} of {sum} are not compared");
}

fn told(play: &mut Play, is_it: impl Fn(&Response) -> bool) -> Vec<&mut Response> {
    let calls = play.history.calls.iter_mut();
    let answers = calls.filter_map(|record| record.answered.as_mut()?.answer.as_mut().ok());
    answers.filter(|response| is_it(response)).collect()
}

/// Changes one answer to one that no server can give, if there is a suitable answer.
fn lie(play: &mut Play, random: &mut Random) -> bool {
    let kind = random.below(4);
    let mut told = told(play, |response| match (kind, response) {
        (0, Response::Range(answer)) => !answer.kvs.is_empty(),
        (1, Response::Range(_)) | (2, Response::Put(_)) => true,
        (3, Response::DeleteRange(answer)) => !answer.prev_kvs.is_empty(),
        _ => false,
    });
    let count = told.len() as u64;
    if count == 0 {
        return false;
    }
    match &mut *told[random.below(count) as usize] {
        Response::Range(answer) if kind == 0 => answer.kvs[0].value.push(b'!'),
        Response::Range(answer) => answer.count += 1,
        Response::Put(answer) => answer.revision += 1_000,
        Response::DeleteRange(answer) => answer.prev_kvs[0].version += 1,
        _ => {}
    }
    true
}

#[test]
fn a_lie_of_a_cluster_is_rejected_unless_it_is_not_compared() {
    let mut told_count = 0;
    for seed in 0..200 {
        let mut play = play(seed, &Options::for_etcd(), 300);
        let are_few = judge(&play.history).unwrap().uncompared_count == 0;
        if are_few && lie(&mut play, &mut Random::new(seed)) {
            told_count += 1;
            assert!(judge(&play.history).is_err(), "seed {seed}");
        }
    }
    assert!(told_count > 100, "{told_count} were told");
}

const LEASE: i64 = 7;

fn leased(key: &str) -> Op {
    Op::Put(Put { lease: LEASE, ..put(key, key) })
}

/// A case with a lease on key a, at revision 2, and key b, at revision 3.
fn with_lease() -> Case {
    let mut case = Case::new();
    case.done(0, Op::Lease(LeaseOp::Grant { lease: LEASE, ttl_s: 5 }));
    case.done(0, leased("a"));
    case.done(0, leased("b"));
    case
}

#[test]
fn the_end_of_a_lease_makes_one_revision_without_all_its_keys() {
    let mut case = with_lease();
    case.model.revoke(LEASE);
    case.done(1, all());
    assert_eq!(case.passes().gap_count, 1);
    // Only once: the lease was granted once.
    case.told(0, put("c", "1"), put_at(6));
    case.breaks(Rule::Revision);
    // No key outlives its lease.
    let mut case = with_lease();
    case.model.apply(&Op::from(delete("a"))).unwrap();
    case.done(1, all());
    case.breaks(Rule::Read);
    // A lease that was not granted cannot expire.
    let mut case = Case::new();
    case.done(0, put("a", "1"));
    case.model.apply(&Op::from(delete("a"))).unwrap();
    case.done(1, all());
    case.breaks(Rule::Revision);
}

#[test]
fn answers_to_questions_about_leases_show_no_older_revision_on_one_connection() {
    let keep = Op::Lease(LeaseOp::KeepAlive { lease: LEASE });
    let kept = |revision| Ok(Response::KeptAlive { revision, ttl_s: 5 });
    let mut case = with_lease();
    case.told(1, keep.clone(), kept(1));
    case.passes();
    case.told(0, keep.clone(), kept(2));
    case.breaks(Rule::Connection);
    let mut case = with_lease();
    case.told(1, Op::Lease(LeaseOp::Grant { lease: LEASE, ttl_s: 5 }), Err(Error::LeaseExists));
    case.breaks(Rule::Answer);
}

#[test]
fn a_past_says_when_each_state_can_have_been_shown_first() {
    let mut case = Case::new();
    case.done(0, put("a", "1"));
    case.lost(1, txn([delete("zz").into(), put("b", "1").into()]));
    case.done(0, all());
    case.done(1, compact(2));
    let (_, pasts) = judge_with_pasts(&case.history).unwrap();
    let [past] = &pasts[..] else { panic!("{} pasts", pasts.len()) };
    let asked = |call: usize| case.history.calls[call].asked.sequence;
    let at = |sequence| past.timeline.newest_before(sequence);
    assert_eq!(at(asked(0)), View { revision: 1, compacted: -1 });
    assert_eq!(at(asked(0) + 1), View { revision: 3, compacted: -1 });
    assert_eq!(at(asked(3) + 1), View { revision: 3, compacted: 2 });
    assert!(past.timeline.unordered.is_empty());
    assert_eq!(past.model.changes(b"b", &[], 1, 3).len(), 1);
}

#[test]
fn the_order_of_deletes_is_not_known_where_two_writes_may_have_made_them() {
    let mut case = Case::new();
    case.done(0, put("a", "1"));
    case.done(0, put("b", "1"));
    case.ask(1, txn([delete("b").into(), delete("a").into()]));
    case.lost(1, delete_to("a", "c"));
    case.done(0, all());
    let (_, pasts) = judge_with_pasts(&case.history).unwrap();
    assert!(pasts.iter().all(|past| past.timeline.unordered.contains(&4)));
    assert_eq!(pasts.len(), 1);
}
