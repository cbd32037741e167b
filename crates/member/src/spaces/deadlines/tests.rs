use machine::{Owner, SessionId};

use super::*;

fn owner(id: i64) -> Owner {
    Owner::Session(SessionId(id))
}
use crate::fronts::zk::tests::rig::Random;
use crate::order::limits::EXPIRY_MARGIN_MS;
use crate::spaces::limits::HEARING_MS_MAX;

const TICK_MS: u64 = 1_000;

fn leases(sessions: &[(i64, u32)]) -> Deadlines<Owner> {
    let mut leases = Deadlines::new(TICK_MS, HEARING_MS_MAX);
    for &(session, timeout_ms) in sessions {
        leases.attach(owner(session), Ordinal(session as u64), timeout_ms.into());
    }
    leases
}

/// Lets time pass in steps, and returns when each session expired.
fn run(leases: &mut Deadlines<Owner>, step_ms: u64, until_ms: u64) -> Vec<(u64, i64)> {
    let mut expired = Vec::new();
    for now_ms in (step_ms..=until_ms).step_by(step_ms as usize) {
        leases.advance(step_ms, 0);
        expired.extend(
            leases.expired(100).into_iter().map(|(Owner::Session(session), _)| (now_ms, session.0)),
        );
    }
    expired
}

/// Lets time pass without asking which sessions have expired.
fn pass(leases: &mut Deadlines<Owner>, ms: u64) {
    (0..ms / 100).for_each(|_| leases.advance(100, 0));
}

#[test]
fn a_session_expires_never_early_and_at_most_a_tick_late() {
    for timeout_ms in [1, 999, 1_000, 1_001, 4_000, 4_321] {
        for step_ms in [1, 100, 133, LEASE_ADVANCE_MS_MAX] {
            for offset_ms in [0, 1, 100, 199] {
                let mut leases = Deadlines::new(TICK_MS, HEARING_MS_MAX);
                pass(&mut leases, 900);
                leases.advance(offset_ms, 0);
                leases.attach(owner(1), Ordinal(1), timeout_ms);
                let expired = run(&mut leases, step_ms, 12_000);
                let due_ms = timeout_ms + HEARING_MS_MAX;
                let [(at_ms, 1)] = expired[..] else { panic!("{expired:?}") };
                assert!(at_ms > due_ms, "{at_ms} for {timeout_ms}");
                assert!(at_ms <= due_ms + TICK_MS + step_ms, "{at_ms} for {timeout_ms}");
            }
        }
    }
}

/// Tries all phases of the client, of the reports and of Loop's rounds, in steps of 10 ms.
#[test]
fn a_client_that_speaks_once_in_its_timeout_is_never_expired() {
    let phases = (90..120).flat_map(|timeout| (0..30).map(move |client| (timeout, client)));
    for (timeout, client) in phases {
        for (round, interval) in (0..10).flat_map(|round| [(round, 20), (round, 30)]) {
            let mut leases = Deadlines::new(10, HEARING_MS_MAX);
            leases.attach(owner(1), Ordinal(1), 10 * timeout);
            let mut spoke = false;
            for now in 0..3 * timeout {
                if now % 10 == round {
                    leases.advance(100, 0);
                    let phases = (timeout, client, round, interval);
                    assert_eq!(leases.expired(1), [], "{phases:?}");
                }
                if now % interval == 0 && core::mem::take(&mut spoke) {
                    leases.heard(owner(1));
                }
                spoke |= now % timeout == client;
            }
        }
    }
}

#[test]
fn each_attach_is_judged_once_until_the_session_is_attached_or_heard_from() {
    let mut leases = leases(&[(1, 1_000)]);
    assert_eq!(run(&mut leases, 100, 10_000).len(), 1);
    leases.heard(owner(1));
    assert_eq!(run(&mut leases, 100, 10_000).len(), 1);
    leases.attach(owner(1), Ordinal(7), 2_000);
    pass(&mut leases, 3_200);
    assert_eq!(leases.expired(100), [(owner(1), Ordinal(7))]);
    leases.close(owner(1));
    assert!(leases.is_empty());
    leases.heard(owner(1));
    assert_eq!(run(&mut leases, 100, 10_000), []);
}

#[test]
fn a_paused_process_advances_by_the_limit() {
    let mut leases = leases(&[(1, 4_000)]);
    let rounds = 4_000 / LEASE_ADVANCE_MS_MAX;
    for _ in 0..3 {
        for _ in 0..rounds {
            leases.advance(3_600_000, 0);
            assert_eq!(leases.expired(100), []);
        }
        leases.heard(owner(1));
    }
    (0..rounds).for_each(|_| leases.advance(3_600_000, 0));
    assert_eq!(leases.expired(100), []);
    pass(&mut leases, HEARING_MS_MAX + TICK_MS);
    assert_eq!(leases.expired(100).len(), 1);
}

#[test]
fn a_new_leader_gives_everyone_a_full_timeout() {
    let mut leases = leases(&[(1, 1_000), (2, 5_000)]);
    pass(&mut leases, 1_900);
    leases.renew_all();
    let expired = run(&mut leases, 100, 10_000);
    assert!(expired.iter().all(|(at_ms, session)| match session {
        1 => (1_400..=2_600).contains(at_ms),
        _ => (5_400..=6_600).contains(at_ms),
    }));
    assert_eq!(expired.len(), 2);
}

#[test]
fn a_shorter_timeout_after_an_attach_counts_at_once() {
    let mut leases = leases(&[(1, 40_000)]);
    leases.attach(owner(1), Ordinal(2), 1_000);
    pass(&mut leases, 2_200);
    assert_eq!(leases.expired(100), [(owner(1), Ordinal(2))]);
    assert_eq!(run(&mut leases, 100, 60_000), []);
}

#[test]
fn no_more_expire_at_once_than_asked_for() {
    let sessions: Vec<(i64, u32)> = (1..=25).map(|session| (session, 1_000)).collect();
    let mut leases = leases(&sessions);
    pass(&mut leases, 2_200);
    let counts: Vec<usize> = (0..4).map(|_| leases.expired(10).len()).collect();
    assert_eq!(counts, [10, 10, 5, 0]);
    assert_eq!(leases.len(), 25);
}

/// An owner in a plain list, which the deadlines are compared with.
struct Plain {
    ordinal: u64,
    timeout_ms: u64,
    end_ms: u64,
    protected_ms: u64,
    is_given: bool,
}

impl Plain {
    fn deadline_ms(&self) -> u64 {
        self.end_ms.max(self.protected_ms)
    }
}

#[test]
fn leases_are_what_a_plain_list_of_deadlines_says() {
    for seed in 0..100 {
        let mut random = Random(seed);
        let mut leases = Deadlines::new(TICK_MS, HEARING_MS_MAX);
        let mut model = std::collections::BTreeMap::<i64, Plain>::new();
        let mut now_ms = 0;
        for ordinal in 1..1_000 {
            let session = random.below(6) as i64;
            match random.below(9) {
                0 => {
                    let timeout_ms = 1 + random.below(6_000) as u64;
                    leases.attach(owner(session), Ordinal(ordinal), timeout_ms);
                    let end_ms = now_ms + timeout_ms + HEARING_MS_MAX;
                    let (protected_ms, is_given) = (0, false);
                    model.insert(
                        session,
                        Plain { ordinal, timeout_ms, end_ms, protected_ms, is_given },
                    );
                }
                1 => {
                    leases.close(owner(session));
                    model.remove(&session);
                }
                2..=3 => {
                    leases.heard(owner(session));
                    if let Some(lease) = model.get_mut(&session) {
                        lease.end_ms = now_ms + lease.timeout_ms + HEARING_MS_MAX;
                        lease.is_given = false;
                    }
                }
                4 => {
                    let until_ms = [0, now_ms + random.below(6_000) as u64][random.below(2)];
                    leases.protect(owner(session), until_ms);
                    if let Some(lease) = model.get_mut(&session) {
                        lease.protected_ms = until_ms;
                    }
                }
                _ => {
                    let elapsed_ms = random.below(600) as u64;
                    leases.advance(elapsed_ms, 0);
                    now_ms += elapsed_ms.min(LEASE_ADVANCE_MS_MAX);
                    let expired = leases.expired(usize::MAX);
                    for (Owner::Session(session), attached) in expired {
                        let lease = model.get_mut(&session.0).unwrap();
                        assert_eq!(attached.0, lease.ordinal);
                        assert!(!lease.is_given && lease.deadline_ms() <= now_ms);
                        lease.is_given = true;
                    }
                    let late = |lease: &&Plain| {
                        !lease.is_given && (lease.deadline_ms() / TICK_MS + 1) * TICK_MS <= now_ms
                    };
                    assert_eq!(model.values().filter(late).count(), 0);
                }
            }
            assert_eq!(leases.len(), model.len());
            assert_eq!(leases.place_count(), model.len());
        }
    }
}

#[test]
fn reconnects_and_sessions_that_come_and_go_leave_no_places_behind() {
    let mut follower = leases(&[(0, 4_000)]);
    for round in 1..10_000 {
        follower.advance(100, 0);
        follower.attach(owner(0), Ordinal(round), 4_000);
        follower.attach(owner(round as i64), Ordinal(round), 4_000);
        follower.close(owner(round as i64));
        assert_eq!((follower.len(), follower.place_count()), (1, 1));
    }
}

#[test]
fn a_new_leader_looks_at_a_bounded_number_of_sessions_in_one_call() {
    let count = 3 * EXPIRY_LOOKS_MAX;
    let sessions: Vec<(i64, u32)> = (0..count as i64).map(|session| (session, 4_000)).collect();
    let mut leases = leases(&sessions);
    pass(&mut leases, 60_000);
    leases.renew_all();
    let is_due = |leases: &Deadlines<Owner>| {
        leases.buckets.first().is_some_and(|(bucket, _)| (bucket + 1) * TICK_MS <= leases.now_ms)
    };
    for _ in 0..3 {
        assert!(is_due(&leases));
        assert_eq!(leases.expired(usize::MAX), []);
    }
    assert!(!is_due(&leases));
    let mut expired = 0;
    for _ in 0..60 {
        pass(&mut leases, 100);
        expired += leases.expired(usize::MAX).len();
    }
    assert_eq!(expired, count);
}

#[test]
fn a_session_whose_expiry_was_lost_with_its_leader_is_judged_again() {
    let mut leases = leases(&[(1, 1_000)]);
    assert_eq!(run(&mut leases, 100, 3_000).len(), 1);
    leases.renew_all();
    assert_eq!(run(&mut leases, 100, 10_000).len(), 1);
}

/// While no deadline is near, Loop may not look at the clock for long, and all of that time counts.
/// A process that is paused for longer looks at least twice more before it judges any session.
#[test]
fn a_long_look_ends_well_before_a_deadline() {
    let mut leases = leases(&[(1, 30_000)]);
    let due_ms = leases.due_ms().unwrap();
    assert!((30_000 + HEARING_MS_MAX..=31_000 + HEARING_MS_MAX).contains(&due_ms));
    let planned_ms = due_ms - EXPIRY_MARGIN_MS;
    leases.advance(3_600_000, planned_ms);
    assert_eq!(leases.due_ms(), Some(EXPIRY_MARGIN_MS));
    for _ in 0..2 {
        leases.advance(3_600_000, 100);
        assert_eq!(leases.expired(100), []);
    }
    leases.heard(owner(1));
    leases.advance(3_600_000, 100);
    assert_eq!(leases.expired(100), []);
    assert!(leases.due_ms().unwrap() > 29_000);
    leases.close(owner(1));
    assert_eq!(leases.due_ms(), None);
}
