//! Tests of the judges of session expiries: clients are silent for times that the judges must
//! accept, and for times that they must reject.

use super::*;

const S: u64 = 1_000_000;

/// Checks the longest silence that a server can have seen if its client's bytes arrived at these
/// times and it decided at `judged_us`.
#[track_caller]
fn check_silence(waking: &WakingTime, heard_us: &[u64], judged_us: u64, expected_us: u64) {
    assert_eq!(
        longest_silence(waking, heard_us, 0, HEARING_US_MAX, judged_us, judged_us),
        expected_us
    );
}

#[test]
fn a_silence_lasts_until_the_session_is_judged_or_its_client_speaks() {
    let waking = WakingTime::default();
    check_silence(&waking, &[], 9 * S, 0);
    check_silence(&waking, &[S], 9 * S, 8 * S);
    // Bytes that the server may not have noted yet end the silence.
    check_silence(&waking, &[S, 9 * S - 1], 9 * S, 8 * S - 1);
    check_silence(&waking, &[S, 9 * S - HEARING_US_MAX + 1], 9 * S, 8 * S - HEARING_US_MAX + 1);
    // Bytes that the server must have noted end the silence, too, and a later silence counts.
    check_silence(&waking, &[S, 9 * S - HEARING_US_MAX], 9 * S, HEARING_US_MAX);
    check_silence(&waking, &[S, 5 * S, 6 * S], 9 * S, 3 * S);
}

#[test]
fn a_silence_that_ended_while_the_command_waited_counts() {
    let waking = WakingTime::default();
    let silence_us =
        |judged_us| longest_silence(&waking, &[S, 6 * S], 0, HEARING_US_MAX, judged_us, 9 * S);
    assert_eq!(silence_us(6 * S), 5 * S);
    assert_eq!(silence_us(7 * S), 3 * S);
}

#[test]
fn a_pause_of_the_process_counts_little() {
    let mut waking = WakingTime::default();
    waking.pause(2 * S, 8 * S);
    check_silence(&waking, &[S], 9 * S, 2 * S + PAUSE_COUNTS_US);
    waking.pause(9 * S, 20 * S);
    check_silence(&waking, &[S], 21 * S, 3 * S + 2 * PAUSE_COUNTS_US);
    // A pause before the client's bytes does not count.
    check_silence(&waking, &[20 * S], 21 * S, S + PAUSE_COUNTS_US);
    check_silence(&waking, &[20 * S + 1], 21 * S, S - 1);
    // A pause shorter than a sleep of Loop counts in full.
    waking.pause(22 * S, 22 * S + PAUSE_COUNTS_US / 4);
    check_silence(&waking, &[21 * S], 23 * S, 2 * S);
}

#[test]
fn a_jump_of_the_clock_counts_as_a_pause() {
    let mut waking = WakingTime::default();
    waking.jump(2 * S, 60 * S);
    check_silence(&waking, &[S], 9 * S, 8 * S + PAUSE_COUNTS_US);
    waking.jump(3 * S, PAUSE_COUNTS_US / 4);
    check_silence(&waking, &[S], 9 * S, 8 * S + PAUSE_COUNTS_US + PAUSE_COUNTS_US / 4);
    check_silence(&waking, &[4 * S], 9 * S, 5 * S);
}

/// A process that runs only for moments has no waking time to hear of clients, but it knows at once
/// that it has given all sessions a full timeout.
#[test]
fn a_renewal_of_all_counts_from_its_moment() {
    let mut waking = WakingTime::default();
    waking.pause(2 * S, 9 * S);
    let silence_us =
        |renewed_us| longest_silence(&waking, &[2 * S], renewed_us, HEARING_US_MAX, 9 * S, 9 * S);
    assert_eq!(silence_us(0), 0);
    assert_eq!(silence_us(2 * S), PAUSE_COUNTS_US);
}

#[test]
fn trouble_lasts_until_it_is_over() {
    let mut trouble = Trouble::default();
    assert!(trouble.is_none_between(0, 9 * S));
    for (is_any, at_us) in [(false, 0), (true, 2), (true, 3), (false, 4), (false, 5), (true, 8)] {
        trouble.note(is_any, at_us * S);
    }
    assert!(trouble.is_none_between(0, 2 * S - 1));
    assert!(!trouble.is_none_between(0, 2 * S));
    assert!(!trouble.is_none_between(3 * S, 3 * S));
    assert!(!trouble.is_none_between(4 * S, 5 * S));
    assert!(trouble.is_none_between(4 * S + 1, 8 * S - 1));
    assert!(!trouble.is_none_between(7 * S, 9 * S));
}

#[test]
fn a_session_whose_client_vanished_must_be_gone() {
    let mut model = Model::new();
    assert!(model.open(7, [0; 16], 0));
    let verdict = |model| Verdict {
        model,
        acknowledged: Vec::new(),
        shown: Vec::new(),
        refused_count: 0,
        throttled_count: 0,
        read_count: 0,
        read_only_count: 0,
        not_read_only_count: 0,
        unknown_done_count: 0,
        lasting_event_count: 0,
        private_event_count: 0,
        hidden_event_count: 0,
        event_count: 0,
        expired: Vec::new(),
        installed_count: 0,
        gone_count: 0,
        over_quota_count: 0,
    };
    let check = |model, session| {
        check_late_expiries(&verdict(model), [(session, 4_000)].into_iter(), 0, 1_000)
    };
    assert!(check(model.clone(), 8).is_ok());
    assert!(check(model.clone(), 7).unwrap_err().contains("lives on"));
    assert!(model.expire(7, 1));
    assert!(check(model, 7).is_ok());
}

#[test]
fn a_read_that_shows_what_is_not_committed_yet_is_rejected() {
    let mut history = History::default();
    let connection = history.connect(0, 0, [0; 16]);
    let op = workload::op::Op::Sync { path: "/".to_string() };
    let number = history.invoke(connection, op, S);
    history.complete(number, 1, 0, workload::op::Answer::Empty, 2 * S);
    assert_eq!(check_shown(&history, &[(number, 0)], &[]), Ok(()));
    assert_eq!(check_shown(&history, &[(number, 1)], &[2 * S, 9 * S]), Ok(()));
    assert!(check_shown(&history, &[(number, 2)], &[2 * S, 9 * S]).is_err());
}
