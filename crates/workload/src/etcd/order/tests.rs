//! The judge with a claim, on hand-made histories, one for each thing that it must reject, and on a
//! cluster made of the model, honest or lying.

use super::*;
use crate::etcd::generate::Options;
use crate::etcd::op::{DeleteAnswer, Put, PutAnswer, Range, RangeAnswer};
use crate::etcd::play::{Play, play};
use crate::etcd::short::{all, compact, delete, put, range, txn};
use crate::generate::Random;

/// A history and its claim, written call by call. Connections 0 and 1 belong to different clients.
struct Case {
    history: History,
    claim: Vec<Claimed>,
    model: Model,
}

impl Case {
    fn new() -> Case {
        let mut history = History::default();
        history.connect(0, 0);
        history.connect(1, 1);
        Case { history, claim: Vec::new(), model: Model::new() }
    }

    fn ask(&mut self, connection: usize, op: impl Into<Op>) -> CallId {
        self.history.ask(connection, op.into(), 0)
    }

    fn op(&self, id: CallId) -> Op {
        self.history.calls[self.history.position(id).unwrap()].op.clone()
    }

    /// Adds a call to the claim. Returns the model's answer.
    fn commit(&mut self, id: CallId) -> Answer {
        self.claim.push(Claimed::Call(id));
        self.model.apply(&self.op(id))
    }

    fn answer(&mut self, id: CallId, answer: Answer) {
        self.history.answer(id, answer, 0);
    }

    /// Makes a write that takes effect and is answered.
    fn write(&mut self, connection: usize, op: impl Into<Op>) -> CallId {
        let id = self.ask(connection, op);
        let answer = self.commit(id);
        self.answer(id, answer);
        id
    }

    /// Makes a read that shows the state at a revision.
    fn read(&mut self, connection: usize, op: impl Into<Op>, revision: i64) {
        let id = self.ask(connection, op);
        let compacted = self.model.view().compacted;
        let answer = self.model.answer_at(&self.op(id), View { revision, compacted });
        self.answer(id, answer);
    }

    /// Makes a read with a given answer.
    fn told(&mut self, connection: usize, op: impl Into<Op>, answer: Answer) {
        let id = self.ask(connection, op);
        self.answer(id, answer);
    }

    fn passes(&self) -> Verdict {
        judge(&self.history, &self.claim).unwrap()
    }

    fn breaks(&self, rule: Rule) {
        let found = judge(&self.history, &self.claim).unwrap_err();
        assert_eq!(found.rule, rule, "{found}");
    }
}

fn serializable(key: &str) -> Range {
    Range { serializable: true, ..range(key) }
}

#[test]
fn a_sound_history_passes() {
    let mut case = Case::new();
    case.write(0, put("a", "1"));
    case.write(1, put("b", "2"));
    case.read(0, all(), 3);
    case.read(1, serializable("a"), 3);
    case.write(0, compact(3));
    case.told(1, Range { revision: 2, ..all() }, Err(Error::Compacted));
    case.write(1, compact(2));
    case.told(1, Range { revision: 9, ..all() }, Err(Error::FutureRevision));
    case.told(0, put("", "1"), Err(Error::EmptyKey));
    case.told(0, put("c", "1"), Err(Error::NoLeader));
    case.told(0, put("c", "2"), Err(Error::TimedOut));
    case.ask(0, put("c", "3"));
    let late = case.ask(0, put("c", "4"));
    case.commit(late).unwrap();
    let verdict = case.passes();
    assert_eq!((verdict.acknowledged_count, verdict.refused_count), (3, 1));
    assert_eq!((verdict.read_count, verdict.read_refused_count), (2, 2));
    assert_eq!((verdict.unknown_done_count, verdict.unknown_count), (1, 2));
    assert_eq!(verdict.never_logged_count, 2);
    assert_eq!(verdict.model, case.model);
}

// The claim.

#[test]
fn a_command_that_nobody_sent_is_rejected() {
    let mut case = Case::new();
    case.claim.push(Claimed::Call(CallId { client: 0, number: 0 }));
    case.breaks(Rule::Claim);
}

#[test]
fn a_command_that_stands_twice_is_rejected() {
    let mut case = Case::new();
    let id = case.ask(0, put("a", "1"));
    case.claim = vec![Claimed::Call(id); 2];
    case.breaks(Rule::Claim);
}

#[test]
fn a_read_in_the_claim_is_rejected() {
    let mut case = Case::new();
    let id = case.ask(0, range("a"));
    case.commit(id).unwrap();
    case.breaks(Rule::Claim);
}

#[test]
fn a_command_that_the_checks_refuse_is_rejected() {
    let mut case = Case::new();
    let id = case.ask(0, put("", "1"));
    case.commit(id).unwrap_err();
    case.breaks(Rule::Claim);
}

#[test]
fn a_txn_of_txns_of_ranges_may_stand_in_the_claim_or_not() {
    let mut case = Case::new();
    case.write(0, put("a", "1"));
    let reads = txn([txn([range("a").into()]).into()]);
    case.write(0, reads.clone());
    case.read(1, reads.clone(), 2);
    case.passes();
    case.read(1, reads, 1);
    case.breaks(Rule::RealTime);
}

// Fates.

#[test]
fn a_lost_write_is_rejected() {
    let mut case = Case::new();
    case.write(0, put("a", "1"));
    case.claim.clear();
    case.breaks(Rule::Fate);
}

#[test]
fn a_refusal_by_the_store_has_a_place() {
    let mut case = Case::new();
    case.told(0, compact(9), Err(Error::FutureRevision));
    case.breaks(Rule::Fate);
    let mut case = Case::new();
    case.write(0, compact(9));
    case.passes();
}

#[test]
fn a_write_that_was_refused_before_the_log_is_not_in_it() {
    let before_the_log = [Error::NoLeader, Error::NotCapable, Error::TooManyRequests];
    for error in before_the_log.into_iter().chain([Error::RequestTooLarge]) {
        let mut case = Case::new();
        let id = case.ask(0, put("a", "1"));
        case.answer(id, Err(error));
        case.passes();
        case.commit(id).unwrap();
        case.breaks(Rule::Fate);
    }
}

#[test]
fn a_write_of_unknown_fate_may_be_in_it() {
    for error in [Error::TimedOut, Error::LeaderChanged, Error::Stopped, Error::Canceled] {
        let mut case = Case::new();
        let id = case.ask(0, put("a", "1"));
        case.answer(id, Err(error));
        case.passes();
        case.commit(id).unwrap();
        case.passes();
        case.claim.push(Claimed::Call(id));
        case.breaks(Rule::Claim);
    }
}

// Answers.

#[test]
fn a_wrong_revision_of_a_write_is_rejected() {
    let mut case = Case::new();
    let id = case.ask(0, put("a", "1"));
    case.commit(id).unwrap();
    case.answer(id, Ok(Response::Put(PutAnswer { revision: 3, prev_kv: None })));
    case.breaks(Rule::Answer);
}

#[test]
fn a_wrong_count_of_deleted_keys_is_rejected() {
    let mut case = Case::new();
    case.write(0, put("a", "1"));
    let id = case.ask(0, delete("a"));
    case.commit(id).unwrap();
    let answer = DeleteAnswer { revision: 3, deleted: 2, prev_kvs: Vec::new() };
    case.answer(id, Ok(Response::DeleteRange(answer)));
    case.breaks(Rule::Answer);
}

#[test]
fn a_refusal_that_does_not_fit_its_place_is_rejected() {
    let mut case = Case::new();
    case.write(0, put("a", "1"));
    let id = case.ask(0, compact(2));
    case.commit(id).unwrap();
    case.answer(id, Err(Error::Compacted));
    case.breaks(Rule::Answer);
}

#[test]
fn leases_end_where_the_claim_says() {
    let mut case = Case::new();
    case.claim.push(Claimed::Grant { lease: 5 });
    case.model.grant(5);
    case.write(0, Put { lease: 5, ..put("a", "1") });
    case.claim.push(Claimed::Revoke { lease: 5 });
    case.model.revoke(5);
    case.read(0, all(), 3);
    case.write(0, Put { lease: 5, ..put("a", "2") });
    case.passes();
    case.read(0, all(), 2);
    case.breaks(Rule::RealTime);
}

#[test]
fn want_of_space_is_refused_where_the_claim_says_or_before_the_log() {
    let mut case = Case::new();
    case.told(0, put("a", "1"), Err(Error::NoSpace));
    case.claim.push(Claimed::NoSpace { is_raised: true });
    case.model.set_no_space(true);
    case.write(0, put("a", "2"));
    case.write(0, delete("a"));
    case.passes();
    case.claim.remove(0);
    case.breaks(Rule::Answer);
}

#[test]
fn a_compaction_may_tell_a_newer_revision_of_its_time() {
    let mut case = Case::new();
    case.write(0, put("a", "1"));
    let id = case.ask(0, compact(2));
    case.commit(id).unwrap();
    case.write(1, put("a", "2"));
    case.answer(id, Ok(Response::Compact { revision: 3 }));
    case.passes();
    case.read(1, all(), 3);
    case.write(1, put("a", "3"));
    case.passes();
    for revision in [1, 4, 9] {
        let mut case = Case::new();
        case.write(0, put("a", "1"));
        let id = case.ask(0, compact(2));
        case.commit(id).unwrap();
        case.write(1, put("a", "2"));
        case.answer(id, Ok(Response::Compact { revision }));
        case.write(1, put("a", "3"));
        case.breaks(Rule::Answer);
    }
}

// The checks before the log.

#[test]
fn a_check_that_did_not_refuse_is_rejected() {
    for answer in [Ok(Response::Compact { revision: 1 }), Err(Error::ValueProvided)] {
        let mut case = Case::new();
        case.told(0, put("", "1"), answer);
        case.breaks(Rule::Form);
    }
}

#[test]
fn a_check_that_refused_without_a_reason_is_rejected() {
    for error in [Error::EmptyKey, Error::DuplicateKey, Error::TooManyOps, Error::ValueProvided] {
        let mut case = Case::new();
        case.told(0, put("a", "1"), Err(error));
        case.breaks(Rule::Form);
        let mut case = Case::new();
        case.told(0, range("a"), Err(error));
        case.breaks(Rule::Form);
    }
}

// Reads and time.

#[test]
fn a_linearizable_read_sees_what_was_acknowledged_before() {
    let mut case = Case::new();
    case.write(0, put("a", "1"));
    case.read(1, serializable("a"), 1);
    case.passes();
    case.read(1, range("a"), 1);
    case.breaks(Rule::RealTime);
}

#[test]
fn a_linearizable_read_sees_what_was_read_before() {
    let mut case = Case::new();
    let id = case.ask(0, put("a", "1"));
    case.commit(id).unwrap();
    // A state that only a serializable read has shown counts, too.
    case.read(0, serializable("a"), 2);
    case.passes();
    case.read(1, range("b"), 1);
    case.breaks(Rule::RealTime);
}

#[test]
fn a_read_may_show_what_is_not_acknowledged_yet_or_not() {
    for revision in [1, 2] {
        let mut case = Case::new();
        let write = case.ask(0, put("a", "1"));
        let read = case.ask(1, range("a"));
        let answer = case.commit(write);
        let view = View { revision, compacted: -1 };
        let shown = case.model.answer_at(&range("a").into(), view);
        case.answer(write, answer);
        case.answer(read, shown);
        case.passes();
    }
}

#[test]
fn a_read_that_shows_what_was_not_sent_yet_is_rejected() {
    for op in [range("a"), serializable("a")] {
        let mut case = Case::new();
        case.model.apply(&put("a", "1").into()).unwrap();
        case.read(1, op, 2);
        case.model = Model::new();
        case.write(0, put("a", "1"));
        case.breaks(Rule::RealTime);
    }
}

#[test]
fn a_connection_never_goes_back() {
    let mut case = Case::new();
    case.write(0, put("a", "1"));
    case.write(0, put("a", "2"));
    case.read(1, serializable("a"), 2);
    case.read(1, serializable("a"), 3);
    case.passes();
    let mut other = Case { history: case.history.clone(), claim: case.claim.clone(), ..case };
    let connection = other.history.connect(1, 2);
    other.read(connection, serializable("a"), 2);
    other.passes();
    other.read(1, serializable("a"), 2);
    other.breaks(Rule::Connection);
}

#[test]
fn a_connection_that_wrote_sees_its_write() {
    let mut case = Case::new();
    case.write(0, put("a", "1"));
    case.read(0, serializable("a"), 1);
    case.breaks(Rule::Connection);
}

#[test]
fn open_calls_of_one_connection_may_be_answered_in_any_order() {
    let mut case = Case::new();
    let first = case.ask(0, serializable("a"));
    let write = case.ask(1, put("a", "1"));
    let answer = case.commit(write);
    case.answer(write, answer);
    case.read(0, serializable("a"), 2);
    let old = case.model.answer_at(&range("a").into(), View { revision: 1, compacted: -1 });
    case.answer(first, old);
    case.passes();
}

#[test]
fn writes_stand_in_the_order_of_time() {
    // Deletes of nothing make no revision, so only their places show the order.
    let mut case = Case::new();
    case.write(0, delete("a"));
    case.write(1, delete("b"));
    case.passes();
    case.claim.swap(0, 1);
    case.breaks(Rule::RealTime);
}

#[test]
fn a_write_of_unknown_fate_stands_behind_what_was_shown_before_it() {
    let mut case = Case::new();
    let first = case.ask(0, delete("a"));
    case.answer(first, Err(Error::TimedOut));
    case.write(0, put("a", "1"));
    let unknown = case.ask(1, put("b", "2"));
    case.claim.push(Claimed::Call(first));
    case.claim.push(Claimed::Call(unknown));
    case.passes();
    let mut case = Case::new();
    case.write(0, delete("a"));
    let unknown = case.ask(1, delete("b"));
    case.claim.insert(0, Claimed::Call(unknown));
    case.breaks(Rule::RealTime);
}

#[test]
fn a_streamed_read_ends_as_compacted_only_if_a_compaction_passes_it() {
    let case = |read: Range, compacted: Option<i64>| {
        let mut case = Case::new();
        case.write(0, put("a", "1"));
        let id = case.ask(1, read);
        case.write(0, put("a", "2"));
        if let Some(revision) = compacted {
            case.write(0, compact(revision));
        }
        case.answer(id, Err(Error::CompactedMeanwhile));
        (case, id)
    };
    // The read began at revision 2 or 3.
    case(all(), Some(3)).0.passes();
    case(all(), Some(2)).0.breaks(Rule::Read);
    case(Range { revision: 1, ..all() }, Some(2)).0.passes();
    case(Range { revision: 2, ..all() }, Some(2)).0.breaks(Rule::Read);
    let (cut, id) = case(all(), None);
    let judged = |calls: &[CallId]| {
        judge_with(&cut.history, &cut.claim, &[], &calls.iter().copied().collect())
    };
    assert!(judged(&[]).is_err());
    assert!(judged(&[id]).is_ok());
}

#[test]
fn a_read_that_no_state_gives_is_rejected() {
    let mut case = Case::new();
    case.write(0, put("a", "1"));
    let answer = case.model.answer_at(&range("a").into(), case.model.view()).unwrap();
    let Response::Range(answer) = answer else { panic!() };
    let broken = |change: &dyn Fn(&mut RangeAnswer)| {
        let mut answer = answer.clone();
        change(&mut answer);
        let mut case =
            Case { history: case.history.clone(), claim: case.claim.clone(), model: Model::new() };
        case.told(1, range("a"), Ok(Response::Range(answer)));
        case
    };
    broken(&|_| {}).passes();
    broken(&|answer| answer.revision = 3).breaks(Rule::Read);
    broken(&|answer| answer.count = 2).breaks(Rule::Read);
    broken(&|answer| answer.more = true).breaks(Rule::Read);
    broken(&|answer| answer.kvs.clear()).breaks(Rule::Read);
    broken(&|answer| answer.kvs[0].value.push(0)).breaks(Rule::Read);
    broken(&|answer| answer.kvs[0].version = 2).breaks(Rule::Read);
    broken(&|answer| answer.kvs[0].create_revision = 1).breaks(Rule::Read);
    broken(&|answer| answer.kvs[0].lease = 1).breaks(Rule::Read);
    let mut case = Case::new();
    case.told(0, range("a"), Err(Error::KeyNotFound));
    case.breaks(Rule::Read);
}

// Reads and compactions.

#[test]
fn a_range_below_a_compaction_that_was_acknowledged_is_refused() {
    let mut case = Case::new();
    case.write(0, put("a", "1"));
    let old = Range { revision: 1, ..range("a") };
    let before = case.model.answer_at(&old.clone().into(), case.model.view());
    let open = case.ask(1, old.clone());
    case.write(0, compact(2));
    // The read was open when the compaction was made.
    case.answer(open, before.clone());
    case.told(1, old.clone(), Err(Error::Compacted));
    case.told(1, Range { serializable: true, ..old.clone() }, Err(Error::Compacted));
    case.passes();
    case.told(1, old, before);
    case.breaks(Rule::RealTime);
}

#[test]
fn a_refusal_as_compacted_needs_a_compaction_that_was_sent() {
    let old = Range { revision: 1, ..range("a") };
    let mut case = Case::new();
    case.write(0, put("a", "1"));
    case.told(1, old.clone(), Err(Error::Compacted));
    case.breaks(Rule::Read);
    case.write(0, compact(2));
    case.breaks(Rule::RealTime);
    let mut case = Case::new();
    case.write(0, put("a", "1"));
    case.write(0, compact(1));
    case.told(1, old.clone(), Err(Error::Compacted));
    case.breaks(Rule::Read);
    let mut case = Case::new();
    case.write(0, put("a", "1"));
    let unknown = case.ask(0, compact(2));
    case.commit(unknown).unwrap();
    case.told(1, old.clone(), Err(Error::Compacted));
    case.passes();
    // A revision that was shown must not be missing later.
    case.read(0, old, 2);
    let answer = case.model.answer_at(&range("a").into(), View { revision: 1, compacted: -1 });
    case.told(0, Range { revision: 1, ..range("a") }, answer);
    case.breaks(Rule::RealTime);
}

#[test]
fn a_refusal_as_future_needs_a_state_without_the_revision() {
    let future = Range { revision: 2, ..range("a") };
    let mut case = Case::new();
    case.told(0, future.clone(), Err(Error::FutureRevision));
    case.write(0, put("a", "1"));
    case.told(1, Range { serializable: true, ..future.clone() }, Err(Error::FutureRevision));
    case.passes();
    case.told(1, future, Err(Error::FutureRevision));
    case.breaks(Rule::RealTime);
}

// A cluster made of the model.

fn everything() -> Options {
    Options::all(vec![5, 6])
}

#[test]
fn what_an_honest_cluster_shows_passes() {
    let mut counts = [0; 7];
    for seed in 0..150 {
        let play = play(seed, &everything(), 600);
        let verdict = judge(&play.history, &play.claim)
            .unwrap_or_else(|found| panic!("seed {seed}: {found}"));
        assert_eq!(verdict.model, play.model);
        let of_play = [
            verdict.acknowledged_count,
            verdict.refused_count,
            verdict.never_logged_count,
            verdict.read_count,
            verdict.read_refused_count,
            verdict.unknown_done_count,
            verdict.unknown_count,
        ];
        counts.iter_mut().zip(of_play).for_each(|(sum, count)| *sum += count);
    }
    assert!(counts.iter().all(|count| *count > 100), "all kinds occur: {counts:?}");
}

/// Changes one thing, if there is a suitable one; the result must be wrong in any case.
type Lie = fn(&mut Play, &mut Random) -> Option<()>;

fn pick<T>(random: &mut Random, items: Vec<T>) -> Option<T> {
    let count = items.len() as u64;
    (count > 0).then(|| items.into_iter().nth(random.below(count) as usize)).flatten()
}

/// The positions of the calls whose answers a test may change.
fn answers(play: &Play, is_wanted: impl Fn(&CallRecord, &Answer) -> bool) -> Vec<usize> {
    let calls = play.history.calls.iter().enumerate();
    let wanted =
        calls.filter(|(_, record)| record.answer().is_some_and(|it| is_wanted(record, it)));
    wanted.map(|(position, _)| position).collect()
}

fn response(play: &mut Play, position: usize) -> &mut Response {
    play.history.calls[position].answered.as_mut().unwrap().answer.as_mut().unwrap()
}

fn is_change(answer: &Answer) -> bool {
    answer.as_ref().is_ok_and(Response::tells_change)
}

/// The indices in the claim of acknowledged changes.
fn changes(play: &Play) -> Vec<usize> {
    let is_it = |command: &Claimed| match command {
        Claimed::Call(id) => {
            let position = play.history.position(*id).unwrap();
            play.history.calls[position].answer().is_some_and(is_change)
        }
        _ => false,
    };
    (0..play.claim.len()).filter(|index| is_it(&play.claim[*index])).collect()
}

fn lose_a_write(play: &mut Play, random: &mut Random) -> Option<()> {
    let index = pick(random, changes(play))?;
    play.claim.remove(index);
    Some(())
}

fn do_twice(play: &mut Play, random: &mut Random) -> Option<()> {
    let index = pick(random, changes(play))?;
    play.claim.push(play.claim[index].clone());
    Some(())
}

fn swap_writes(play: &mut Play, random: &mut Random) -> Option<()> {
    let changes = changes(play);
    let neighbours = changes.windows(2).filter(|pair| pair[0] + 1 == pair[1]);
    let index = pick(random, neighbours.map(|pair| pair[0]).collect())?;
    play.claim.swap(index, index + 1);
    Some(())
}

fn change_a_value(play: &mut Play, random: &mut Random) -> Option<()> {
    let has_pair = |_: &CallRecord, answer: &Answer| match answer {
        Ok(Response::Range(answer)) => !answer.kvs.is_empty(),
        _ => false,
    };
    let position = pick(random, answers(play, has_pair))?;
    let Response::Range(answer) = response(play, position) else { return None };
    answer.kvs[0].value.push(b'!');
    Some(())
}

fn change_a_count(play: &mut Play, random: &mut Random) -> Option<()> {
    let is_it = |_: &CallRecord, answer: &Answer| matches!(answer, Ok(Response::Range(_)));
    let position = pick(random, answers(play, is_it))?;
    let Response::Range(answer) = response(play, position) else { return None };
    answer.count += 1;
    Some(())
}

fn turn_a_txn(play: &mut Play, random: &mut Random) -> Option<()> {
    let is_it = |_: &CallRecord, answer: &Answer| matches!(answer, Ok(Response::Txn(_)));
    let position = pick(random, answers(play, is_it))?;
    let Response::Txn(answer) = response(play, position) else { return None };
    answer.responses.push(Response::Compact { revision: 1 });
    Some(())
}

fn hide_a_deleted_pair(play: &mut Play, random: &mut Random) -> Option<()> {
    let is_it = |_: &CallRecord, answer: &Answer| match answer {
        Ok(Response::DeleteRange(answer)) => !answer.prev_kvs.is_empty(),
        _ => false,
    };
    let position = pick(random, answers(play, is_it))?;
    let Response::DeleteRange(answer) = response(play, position) else { return None };
    answer.prev_kvs.pop();
    Some(())
}

fn refuse_what_was_done(play: &mut Play, random: &mut Random) -> Option<()> {
    let position = pick(random, answers(play, |_, answer| is_change(answer)))?;
    let error = *random.pick(&[Error::KeyNotFound, Error::NoLeader, Error::EmptyKey]);
    play.history.calls[position].answered.as_mut().unwrap().answer = Err(error);
    Some(())
}

fn claim_an_unsent_call(play: &mut Play, _: &mut Random) -> Option<()> {
    play.claim.push(Claimed::Call(CallId { client: 0, number: 1_000_000 }));
    Some(())
}

fn refuse_a_range_as_compacted(play: &mut Play, random: &mut Random) -> Option<()> {
    let is_it = |record: &CallRecord, answer: &Answer| {
        matches!(&record.op, Op::Range(range) if range.revision == 0) && answer.is_ok()
    };
    let position = pick(random, answers(play, is_it))?;
    play.history.calls[position].answered.as_mut().unwrap().answer = Err(Error::Compacted);
    Some(())
}

/// A read at the newest revision shows the state before a change that was acknowledged earlier.
fn show_an_old_state(play: &mut Play, random: &mut Random) -> Option<()> {
    let is_it = |record: &CallRecord, answer: &Answer| record.op.is_read() && answer.is_ok();
    let position = pick(random, answers(play, is_it))?;
    let record = &play.history.calls[position];
    let is_own = record.op.is_serializable();
    let earlier = play.history.answers().into_iter().filter_map(|(answered, other, answer)| {
        let is_before = answered < record.asked.sequence;
        let counts = !is_own || other.connection == record.connection;
        (is_before && counts && is_change(answer)).then(|| answer.as_ref().unwrap().revision())
    });
    let revision = earlier.max()? - 1;
    let view = View { revision, compacted: -1 };
    let old = play.model.answer_at(&record.op, view).ok()?;
    *response(play, position) = old;
    Some(())
}

const LIES: [(&str, Lie); 11] = [
    ("lose_a_write", lose_a_write),
    ("do_twice", do_twice),
    ("swap_writes", swap_writes),
    ("change_a_value", change_a_value),
    ("change_a_count", change_a_count),
    ("turn_a_txn", turn_a_txn),
    ("hide_a_deleted_pair", hide_a_deleted_pair),
    ("refuse_what_was_done", refuse_what_was_done),
    ("claim_an_unsent_call", claim_an_unsent_call),
    ("refuse_a_range_as_compacted", refuse_a_range_as_compacted),
    ("show_an_old_state", show_an_old_state),
];

#[test]
fn each_lie_of_a_cluster_is_rejected() {
    for (name, lie) in LIES {
        let mut told_count = 0;
        for seed in 0..40 {
            let mut play = play(seed, &everything(), 400);
            if lie(&mut play, &mut Random::new(seed)).is_none() {
                continue;
            }
            told_count += 1;
            assert!(judge(&play.history, &play.claim).is_err(), "{name}, seed {seed}");
        }
        assert!(told_count >= 10, "{name} was told {told_count} times");
    }
}

/// A server without disk space for its log may refuse any write with an error, but no read.
#[test]
fn a_write_may_be_refused_for_want_of_space_and_a_read_may_not() {
    let mut case = Case::new();
    case.told(0, put("a", "1"), Err(Error::NoSpace));
    case.told(0, delete("a"), Err(Error::NoSpace));
    case.told(0, compact(1), Err(Error::NoSpace));
    assert_eq!(case.passes().never_logged_count, 3);
    case.told(0, all(), Err(Error::NoSpace));
    case.breaks(Rule::Read);
}
