//! Tests of a follower's reports: each session is reported until the leader answers.

use machine::SessionId;

use super::*;

const BOOT: BootId = BootId(2);

fn sessions(of: impl IntoIterator<Item = i64>) -> Vec<Owner> {
    of.into_iter().map(|id| Owner::Session(SessionId(id))).collect()
}

/// The number and the sessions of the report that is due; `None` if none is.
fn reported(hearing: &mut Hearing, now_ms: u64) -> Option<(u64, Vec<i64>)> {
    match hearing.report(now_ms)? {
        PeerMessage::Heard(heard) => Some((
            heard.number,
            heard.owners.iter().map(|Owner::Session(session)| session.0).collect(),
        )),
        message => panic!("{message:?}"),
    }
}

#[test]
fn one_report_is_under_way_at_a_time_and_is_sent_again_with_what_came_meanwhile() {
    let mut hearing = Hearing::new(BOOT);
    hearing.heard(sessions([2, 1]));
    assert_eq!(reported(&mut hearing, 1_000), Some((1, vec![1, 2])));
    hearing.heard(sessions([3]));
    assert_eq!(reported(&mut hearing, 1_000 + HEARD_RETRY_MS - 1), None);
    assert_eq!(reported(&mut hearing, 1_000 + HEARD_RETRY_MS), Some((2, vec![1, 2, 3])));
    // The answer to the first report does not count as one to the second.
    assert_eq!(hearing.on_heeded(BOOT, 1), None);
    assert_eq!(hearing.on_heeded(BOOT, 2), Some(1_000 + HEARD_RETRY_MS));
    assert_eq!(hearing.on_heeded(BOOT, 2), None);
}

#[test]
fn a_leader_is_asked_for_a_sign_of_life_though_there_is_nothing_to_report() {
    let mut hearing = Hearing::new(BOOT);
    assert_eq!(reported(&mut hearing, 1_000), Some((1, vec![])));
    hearing.on_heeded(BOOT, 1);
    assert_eq!(reported(&mut hearing, 1_000 + HEARD_INTERVAL_MS - 1), None);
    assert_eq!(reported(&mut hearing, 1_000 + HEARD_INTERVAL_MS), Some((2, vec![])));
    hearing.on_heeded(BOOT, 2);
    // Sessions that were heard from go at once.
    hearing.heard(sessions([5]));
    assert_eq!(reported(&mut hearing, 1_001 + HEARD_INTERVAL_MS), Some((3, vec![5])));
}

#[test]
fn another_leader_hears_at_once_what_was_not_answered() {
    let mut hearing = Hearing::new(BOOT);
    hearing.heard(sessions([1]));
    hearing.report(1_000);
    hearing.restart();
    assert_eq!(reported(&mut hearing, 1_001), Some((2, vec![1])));
    assert_eq!(hearing.on_heeded(BootId(1), 2), None);
    assert_eq!(hearing.take(), BTreeSet::from([Owner::Session(SessionId(1))]));
    assert_eq!(hearing.take(), BTreeSet::new());
}

#[test]
fn a_report_holds_no_more_sessions_than_the_limit() {
    let mut hearing = Hearing::new(BOOT);
    hearing.heard(sessions(0..=HEARD_SESSIONS_MAX as i64));
    assert_eq!(reported(&mut hearing, 1_000).unwrap().1.len(), HEARD_SESSIONS_MAX);
    hearing.on_heeded(BOOT, 1);
    assert_eq!(reported(&mut hearing, 1_001).unwrap().1, [HEARD_SESSIONS_MAX as i64]);
}
