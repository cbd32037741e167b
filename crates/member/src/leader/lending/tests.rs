//! Tests of the choice of a lender: lenders that can supply a snapshot, cannot, or stop.

use replica::Membership;

use super::*;

const BORROWER: MemberId = MemberId(9);

fn able(member: u64) -> Lender {
    let member = MemberId(member);
    Lender { member, is_there: true, has_caught_up: true, matched_index: 100, snapshot_index: None }
}

fn absent(member: u64) -> Lender {
    Lender { is_there: false, ..able(member) }
}

/// The view of a leader. The borrower itself is among the others, but is never its own lender.
fn view(others: &[Lender], now_ms: u64) -> LendView<'_> {
    LendView { others, now_ms }
}

fn wanted(index_min: u64, index_fresh: u64) -> SnapshotWanted {
    SnapshotWanted { to: BORROWER.0, index_min, index_fresh }
}

fn ask(lender: u64, index: u64) -> Option<LendStep> {
    let message = PeerMessage::Lend { to: BORROWER, index };
    Some(LendStep::Ask(MemberId(lender), message))
}

fn meta(index: u64) -> SnapshotMeta {
    SnapshotMeta { index, term: 2, membership: Membership::from_voters([1, 2, BORROWER.0]) }
}

fn at(index: u64) -> SnapshotAt {
    SnapshotAt { index, term: 2 }
}

const OWN: fn(u64) -> Option<LendStep> = |index_min| Some(LendStep::Own { index_min });

/// A leader that asked the first of these members, which offered its snapshot at index 20.
fn lent(others: &[Lender]) -> Lending {
    let mut lending = Lending::default();
    let first = others[0].member;
    assert_eq!(lending.on_wanted(&wanted(5, 10), &view(others, 0)), ask(first.0, 10));
    lending.on_lent(BORROWER, meta(20));
    lending
}

#[test]
fn whoever_is_least_behind_is_asked_until_it_answers() {
    let others = [able(BORROWER.0), able(2), able(3)];
    let mut lending = Lending::default();
    assert_eq!(lending.on_wanted(&wanted(5, 10), &view(&others, 0)), ask(2, 10));
    // The replica wants the snapshot again and again meanwhile.
    assert_eq!(lending.on_wanted(&wanted(5, 11), &view(&others, 100)), None);
    assert_eq!(lending.pursue(&view(&others, LEND_INTERVAL_MS - 1)), []);
    let again = lending.pursue(&view(&others, LEND_INTERVAL_MS));
    assert_eq!(again, [(BORROWER, ask(2, 10).unwrap())]);
    assert_eq!(lending.asked_for(MemberId(2), BORROWER), Some(10));
    for (lender, to) in [(3, BORROWER), (2, MemberId(3)), (BORROWER.0, BORROWER)] {
        assert_eq!(lending.asked_for(MemberId(lender), to), None);
    }
    lending.on_lent(BORROWER, meta(12));
    assert_eq!(lending.lender_of(BORROWER, 12), Some(MemberId(2)));
    assert_eq!(lending.lender_of(BORROWER, 13), None);
    assert_eq!(lending.asked_for(MemberId(2), BORROWER), None);
}

#[test]
fn who_is_behind_or_is_sent_a_snapshot_itself_is_not_asked() {
    let behind = Lender { has_caught_up: false, ..able(2) };
    let is_sent = Lender { snapshot_index: Some(7), ..able(3) };
    // This member has nearly all of a short log, but lacks entries that the snapshot must hold.
    let needs_one = Lender { matched_index: 9, ..able(6) };
    let mut lending = Lending::default();
    let others = [behind, is_sent, absent(4), needs_one, able(5)];
    assert_eq!(lending.on_wanted(&wanted(5, 10), &view(&others, 0)), ask(5, 10));
}

#[test]
fn a_lender_that_comes_to_need_a_snapshot_itself_is_passed_over() {
    let mut lending = Lending::default();
    assert_eq!(lending.on_wanted(&wanted(5, 10), &view(&[able(2), able(3)], 0)), ask(2, 10));
    let others = [Lender { snapshot_index: Some(7), ..able(2) }, able(3)];
    assert_eq!(lending.pursue(&view(&others, 100)), [(BORROWER, ask(3, 10).unwrap())]);
}

#[test]
fn a_leader_alone_with_the_borrower_gives_its_own_at_once() {
    let others = [able(BORROWER.0)];
    let mut lending = Lending::default();
    for now_ms in [0, 100] {
        assert_eq!(lending.on_wanted(&wanted(5, 10), &view(&others, now_ms)), OWN(10));
    }
}

#[test]
fn those_who_may_come_are_waited_for_a_while() {
    let mut lending = Lending::default();
    let others = [absent(2), absent(3)];
    assert_eq!(lending.on_wanted(&wanted(5, 10), &view(&others, 7)), None);
    assert_eq!(lending.pursue(&view(&others, 6 + LENDER_PATIENCE_MS)), []);
    let come = [absent(2), able(3)];
    let mut other = Lending::default();
    assert_eq!(other.on_wanted(&wanted(5, 10), &view(&others, 7)), None);
    assert_eq!(other.pursue(&view(&come, 100)), [(BORROWER, ask(3, 10).unwrap())]);
    // A member that is able only later is not asked any more.
    let own = lending.pursue(&view(&others, 7 + LENDER_PATIENCE_MS));
    assert_eq!(own, [(BORROWER, OWN(10).unwrap())]);
    assert_eq!(lending.on_wanted(&wanted(5, 10), &view(&come, 9_000)), OWN(10));
}

#[test]
fn a_lender_that_cannot_is_passed_over_and_so_is_one_that_is_gone_or_too_slow() {
    let others = [able(2), able(3), able(4)];
    let mut lending = Lending::default();
    assert_eq!(lending.on_wanted(&wanted(5, 10), &view(&others, 0)), ask(2, 10));
    assert_eq!(lending.on_refused(BORROWER, &view(&others, 10)), ask(3, 10));
    let gone = [able(2), absent(3), able(4)];
    assert_eq!(lending.pursue(&view(&gone, 100)), [(BORROWER, ask(4, 10).unwrap())]);
    for now_ms in (1_000..LEND_PATIENCE_MS).step_by(1_000) {
        lending.on_wanted(&wanted(5, 10), &view(&gone, now_ms));
        lending.pursue(&view(&gone, now_ms));
        assert!(lending.asked_for(MemberId(4), BORROWER).is_some(), "after {now_ms} ms");
    }
    // The lost lender may come back. If it does not, the leader sends its own snapshot.
    let late_ms = 100 + LEND_PATIENCE_MS;
    assert_eq!(lending.pursue(&view(&gone, late_ms)), []);
    let own = lending.pursue(&view(&gone, late_ms + LENDER_PATIENCE_MS));
    assert_eq!(own, [(BORROWER, OWN(10).unwrap())]);
}

#[test]
fn what_broke_on_its_way_goes_on_from_the_same_lender() {
    let others = [able(2), able(3)];
    let mut lending = lent(&others);
    let again = lending.on_wanted(&wanted(15, 19), &view(&others, 500));
    assert_eq!(again, Some(LendStep::Lent(meta(20))));
    assert_eq!(lending.lender_of(BORROWER, 20), Some(MemberId(2)));
    // Now the lender is gone, and another one is asked.
    let others = [absent(2), able(3)];
    assert_eq!(lending.on_wanted(&wanted(15, 19), &view(&others, 600)), ask(3, 19));
}

#[test]
fn a_snapshot_that_the_log_has_left_behind_is_asked_for_anew_and_fresh() {
    let others = [able(2), able(3)];
    let mut lending = lent(&others);
    assert_eq!(lending.on_wanted(&wanted(21, 30), &view(&others, 500)), ask(2, 30));
    // A lender is also asked again if the log left its snapshot behind before the leader heard of
    // it.
    lending.on_left_behind(BORROWER, 40);
    let again = lending.pursue(&view(&others, 500 + LEND_INTERVAL_MS));
    assert_eq!(again, [(BORROWER, ask(2, 40).unwrap())]);
    // If the log leaves the leader's own snapshot behind, it takes a newer one, too.
    let mut lending = Lending::default();
    let nobody = [able(BORROWER.0)];
    assert_eq!(lending.on_wanted(&wanted(5, 10), &view(&nobody, 0)), OWN(10));
    assert_eq!(lending.on_wanted(&wanted(9, 14), &view(&nobody, 0)), OWN(10));
    assert_eq!(lending.on_wanted(&wanted(11, 16), &view(&nobody, 0)), OWN(16));
}

#[test]
fn whose_snapshot_does_not_arrive_is_asked_once_more_and_then_the_next_one_and_then_all_again() {
    let others = [able(2), able(3)];
    let mut lending = Lending::default();
    for lender in [2, 3, 2, 3] {
        assert_eq!(lending.on_wanted(&wanted(5, 10), &view(&others, 0)), ask(lender, 10));
        lending.on_lent(BORROWER, meta(20));
        // Messages about another snapshot or from another member change nothing.
        lending.on_gone(BORROWER, at(19), 20, 0);
        lending.on_gone(MemberId(3), at(20), 20, 0);
        assert_eq!(lending.lender_of(BORROWER, 20), Some(MemberId(lender)));
        lending.on_gone(BORROWER, at(20), 21, 0);
        assert_eq!(lending.lender_of(BORROWER, 20), None);
    }
    assert_eq!(lending.on_wanted(&wanted(5, 10), &view(&others, 0)), OWN(10));
    // The leader's own snapshot is gone as well, or damaged: a newer one is wanted, from any
    // member.
    lending.on_gone(BORROWER, at(20), 21, 0);
    assert_eq!(lending.on_wanted(&wanted(5, 10), &view(&others, 0)), ask(2, 21));
}

#[test]
fn who_needs_nothing_any_more_is_forgotten() {
    let others = [able(2), able(BORROWER.0)];
    let mut lending = lent(&others);
    // A borrower is remembered as long as it is being sent a snapshot.
    let sent = [able(2), Lender { snapshot_index: Some(20), ..able(BORROWER.0) }];
    lending.pursue(&view(&sent, 10 * BORROWER_SILENCE_MS_MAX));
    assert!(!lending.is_empty());
    lending.pursue(&view(&others, BORROWER_SILENCE_MS_MAX - 1));
    assert!(!lending.is_empty());
    lending.pursue(&view(&others, BORROWER_SILENCE_MS_MAX));
    assert!(lending.is_empty());
}
