//! Tests of two judges: the judge of writes that a member gave up, and the judge of refusals for
//! want of disk space. Each gets times that it must accept, and times that it must reject.

use super::*;

const S: u64 = 1_000_000;

/// The member that the client called, and the leader, in an ensemble of three.
const ORIGIN: usize = 0;
const LEADER: usize = 1;

/// Checks the verdict on a write that was given up at 10 s and is proposed and handed over at these
/// times, by a leader whose term began at `led_since_us`. `wrong` lists members with the spells in
/// which something was wrong with them.
#[track_caller]
fn check(
    [led_since_us, proposed_us, handed_us]: [u64; 3],
    wrong: &[(usize, u64, u64)],
    expected: Result<(), &str>,
) {
    let times = Times { member: LEADER, judged_us: proposed_us, proposed_us, handed_us };
    let given_up = GivenUp { origin: ORIGIN, ended_us: 10 * S, times, led_since_us };
    let is_well = |member: usize, from_us: u64, until_us: u64| {
        let touches = |(of, start_us, end_us): &(usize, u64, u64)| {
            *of == member && *start_us <= until_us && *end_us >= from_us
        };
        !wrong.iter().any(touches)
    };
    let found = given_up.late_effect(3, is_well);
    match (&found, expected) {
        (Ok(()), Ok(())) => {}
        (Err(found), Err(part)) if found.contains(part) => {}
        _ => panic!("{found:?}, expected {expected:?}"),
    }
}

#[test]
fn a_write_that_was_given_up_takes_effect_soon_or_never() {
    check([S, 9 * S, 9 * S], &[], Ok(()));
    check([S, 13 * S, 13 * S], &[], Ok(()));
    check([S, 13 * S + 1, 13 * S + 1], &[], Err("member 1 proposed it"));
    check([S, 13 * S, 13 * S + 1], &[], Err("took effect"));
}

#[test]
fn a_message_to_the_leader_may_be_under_way_while_something_is_wrong_with_its_sender() {
    // The message arrives when the trouble is over.
    check([S, 20 * S, 20 * S], &[(ORIGIN, 9 * S, 20 * S)], Ok(()));
    check([S, 20 * S, 20 * S], &[(ORIGIN, 9 * S, 17 * S)], Ok(()));
    check([S, 20 * S, 20 * S], &[(ORIGIN, 9 * S, 17 * S - 1)], Err("member 1 proposed it"));
    // The leader may be in trouble, too; a third member is no excuse.
    check([S, 20 * S, 20 * S], &[(LEADER, 9 * S, 17 * S)], Ok(()));
    check([S, 20 * S, 20 * S], &[(2, 9 * S, 20 * S)], Err("member 1 proposed it"));
}

#[test]
fn an_entry_is_committed_late_only_while_something_is_wrong_with_a_member() {
    check([S, 11 * S, 20 * S], &[(2, 9 * S, 17 * S)], Ok(()));
    check([S, 11 * S, 20 * S], &[(2, 9 * S, 17 * S - 1)], Err("took effect"));
}

#[test]
fn no_leader_of_a_later_term_proposes_a_write_that_was_given_up() {
    let wrong = [(ORIGIN, 0, 30 * S), (LEADER, 0, 30 * S), (2, 0, 30 * S)];
    check([12 * S, 20 * S, 20 * S], &wrong, Ok(()));
    check([12 * S + 1, 20 * S, 20 * S], &wrong, Err("in a term that began at"));
}

/// Checks the verdict on a put that member 1 got at 10 s and refused for want of space at 12 s.
/// `spells` lists members with the times in which they may have refused writes.
#[track_caller]
fn check_refused(spells: &[(usize, u64, u64)], is_logged: bool, is_due: bool) {
    let mut history = History::default();
    let connection = history.connect(0, 1);
    let op = Op::Put(workload::etcd::op::Put::default());
    let call = history.ask(connection, op, 10 * S);
    history.answer(call, Err(Error::NoSpace), 12 * S);
    let mut refusing = vec![Trouble::default(); 3];
    for (member, from_us, until_us) in spells {
        refusing[*member].note(true, *from_us);
        refusing[*member].note(false, *until_us);
    }
    let claim = if is_logged { vec![Claimed::Call(call)] } else { Vec::new() };
    let refusing: Vec<&Trouble> = refusing.iter().collect();
    let found = check_refusals(&history, &claim, &refusing);
    assert_eq!(found.is_ok(), is_due, "{found:?}");
}

#[test]
fn a_call_is_refused_for_want_of_space_only_while_its_member_refuses_writes() {
    check_refused(&[(1, S, 10 * S)], false, true);
    check_refused(&[(1, 11 * S, 11 * S)], false, true);
    check_refused(&[(1, 12 * S, 20 * S)], false, true);
    check_refused(&[(1, S, 10 * S - 1)], false, false);
    check_refused(&[(1, 12 * S + 1, 20 * S)], false, false);
    // Another member's full disk alone is no reason.
    check_refused(&[(0, S, 20 * S), (2, S, 20 * S)], false, false);
    // A call in the log was refused by the store, by its own rules.
    check_refused(&[], true, true);
}
