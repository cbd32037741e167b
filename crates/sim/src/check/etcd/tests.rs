//! The judge of given-up writes against times that it must reject.

use super::*;

const S: u64 = 1_000_000;

/// The member that the client had called, and the leader, of an ensemble of three.
const ORIGIN: usize = 0;
const LEADER: usize = 1;

/// Checks whether a write that was given up at 10 s may be proposed and handed over at these times
/// by a leader of a term that began at `led_since_us`, where something went wrong with these
/// members between two points in time.
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
    // It arrives when the trouble is over.
    check([S, 20 * S, 20 * S], &[(ORIGIN, 9 * S, 20 * S)], Ok(()));
    check([S, 20 * S, 20 * S], &[(ORIGIN, 9 * S, 17 * S)], Ok(()));
    check([S, 20 * S, 20 * S], &[(ORIGIN, 9 * S, 17 * S - 1)], Err("member 1 proposed it"));
    // The leader may be in trouble, too; a third member excuses nothing.
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
