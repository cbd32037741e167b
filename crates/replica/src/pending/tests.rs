use super::*;
use bytes::Bytes;

/// For each role, whether its messages promise entries.
const FOLLOWER: bool = true;
const LEADER: bool = false;

fn job(id: u64, must_sync: bool, election: bool) -> Job {
    Job { id: PersistId(id), must_sync, election }
}

fn to(to: u64) -> Outgoing {
    Outgoing { to, bytes: Bytes::new(), snapshot: None }
}

fn released(pending: &mut Pending) -> Vec<u64> {
    pending.take_released().iter().map(|message| message.to).collect()
}

#[test]
fn message_of_a_follower_waits_for_all_jobs_before_it() {
    let mut pending = Pending::default();
    pending.send(FOLLOWER, to(1));
    pending.add(job(5, true, false));
    pending.add(job(6, true, false));
    pending.send(FOLLOWER, to(2));
    assert_eq!(released(&mut pending), [1]);
    pending.on_persisted(PersistId(5));
    assert_eq!(released(&mut pending), [0; 0]);
    pending.on_persisted(PersistId(6));
    assert_eq!(released(&mut pending), [2]);
}

#[test]
fn message_of_a_leader_waits_for_its_term_only() {
    let mut pending = Pending::default();
    pending.add(job(1, true, true));
    pending.add(job(2, true, false));
    pending.send(LEADER, to(1));
    assert_eq!(released(&mut pending), [0; 0]);
    pending.on_persisted(PersistId(1));
    assert_eq!(released(&mut pending), [1]);
    pending.send(LEADER, to(2));
    assert_eq!(released(&mut pending), [2]);
}

#[test]
fn job_that_only_moves_the_commit_index_holds_nothing() {
    let mut pending = Pending::default();
    pending.add(job(1, false, false));
    assert!(pending.is_synced());
    pending.send(FOLLOWER, to(1));
    assert_eq!(released(&mut pending), [1]);
}

#[test]
fn messages_beyond_the_limit_are_dropped() {
    let mut pending = Pending::default();
    pending.add(job(1, true, false));
    for _ in 0..=MESSAGES_HELD_MAX {
        pending.send(FOLLOWER, to(1));
    }
    assert_eq!(pending.dropped_count(), 1);
    pending.on_persisted(PersistId(1));
    assert_eq!(pending.take_released().len(), MESSAGES_HELD_MAX);
}
