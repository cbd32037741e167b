//! Tests of a lone voter.

use std::collections::BTreeSet;

use bytes::Bytes;
use raft::eraftpb::{self, MessageType};

use crate::codec::MessageError;
use crate::limits::{APPEND_BYTES_MAX, ENTRY_BYTES_MAX, INDEX_MAX, TERM_MAX};
use crate::message;
use crate::{
    CampaignObstacle, Config, Effects, Entry, EntryKind, HardState, LogMemory, MemberChange,
    Membership, MembershipChange, Persist, Refused, Replica, ReplicaError, Restored, Role,
    SnapshotMeta, Transition,
};

fn born() -> Restored {
    Restored {
        membership: Membership::from_voters([1]),
        snapshot_index: 1,
        snapshot_term: 1,
        applied_index: 1,
        ..Restored::default()
    }
}

fn config() -> Config {
    Config::new(1, 42, 1)
}

fn start(restored: Restored) -> Replica {
    Replica::new(config(), restored).unwrap()
}

fn normal(index: u64, term: u64, payload: &'static str) -> Entry {
    Entry { index, term, kind: EntryKind::Normal, payload: Bytes::from(payload) }
}

/// Takes all effects, until only the disk or Apply could cause more.
fn drain(replica: &mut Replica) -> Vec<Effects> {
    let mut all = Vec::new();
    while replica.has_effects() {
        all.push(replica.effects());
    }
    all
}

/// Takes effects, persists and applies until nothing is left; returns the committed entries.
fn work(replica: &mut Replica) -> Vec<Entry> {
    let mut committed = Vec::new();
    while replica.has_effects() {
        let effects = replica.effects();
        if let Some(persist) = effects.persist {
            replica.on_persisted(persist.id);
        }
        if let Some(last) = effects.committed.last() {
            replica.on_applied(last.index);
        }
        committed.extend(effects.committed);
    }
    committed
}

fn leader() -> Replica {
    let mut replica = start(born());
    replica.campaign().unwrap();
    work(&mut replica);
    replica
}

fn persist_of(replica: &mut Replica) -> Persist {
    let effects = replica.effects();
    assert!(effects.committed.is_empty());
    effects.persist.unwrap()
}

#[test]
fn lone_voter_leads_at_once() {
    let mut replica = start(born());
    assert_eq!(replica.status().role, Role::Follower);
    replica.campaign().unwrap();
    let effects = replica.effects();
    let change = effects.role_change.unwrap();
    assert_eq!((change.role, change.term, change.leader), (Role::Leader, 2, Some(1)));
    let persist = effects.persist.unwrap();
    assert!(persist.must_sync);
    assert_eq!(persist.entries, [normal(2, 2, "")]);
    assert_eq!(persist.hard_state.unwrap(), HardState { term: 2, vote: 1, commit: 1 });
    assert_eq!(effects.committed, []);
    assert!(!replica.status().has_committed_in_term);
}

#[test]
fn lone_voter_leads_at_its_first_tick() {
    let mut replica = start(born());
    replica.tick();
    assert_eq!(replica.status().role, Role::Leader);
    assert_eq!(replica.campaign(), Err(CampaignObstacle::Leader));
}

#[test]
fn first_entry_of_a_term_is_committed_and_empty() {
    let mut replica = start(born());
    replica.campaign().unwrap();
    assert_eq!(work(&mut replica), [normal(2, 2, "")]);
    assert!(replica.status().has_committed_in_term);
}

#[test]
fn entry_is_handed_out_only_after_it_is_persisted() {
    let mut replica = leader();
    let position = replica.propose(Bytes::from("a")).unwrap();
    assert_eq!((position.term, position.index), (2, 3));
    let persist = persist_of(&mut replica);
    assert_eq!(persist.entries, [normal(3, 2, "a")]);
    replica.tick();
    assert!(drain(&mut replica).iter().all(|effects| effects.committed.is_empty()));
    replica.on_persisted(persist.id);
    let effects = replica.effects();
    assert_eq!(effects.committed, [normal(3, 2, "a")]);
    let persist = effects.persist.unwrap();
    assert!(!persist.must_sync);
    assert_eq!(persist.hard_state.unwrap().commit, 3);
}

#[test]
fn several_jobs_may_be_in_flight_and_commit_in_order() {
    let mut replica = leader();
    let jobs: Vec<Persist> = ["a", "b", "c", "d"]
        .into_iter()
        .map(|payload| {
            replica.propose(Bytes::from(payload)).unwrap();
            persist_of(&mut replica)
        })
        .collect();
    assert!(jobs.is_sorted_by(|left, right| left.id < right.id));
    replica.on_persisted(jobs[0].id);
    assert_eq!(replica.effects().committed, [normal(3, 2, "a")]);
    // The report of one job covers the jobs before it, too.
    replica.on_persisted(jobs[2].id);
    assert_eq!(replica.effects().committed, [normal(4, 2, "b"), normal(5, 2, "c")]);
    replica.on_persisted(jobs[3].id);
    assert_eq!(replica.effects().committed, [normal(6, 2, "d")]);
}

#[test]
fn proposals_between_two_effects_share_a_job() {
    let mut replica = leader();
    replica.propose(Bytes::from("a")).unwrap();
    replica.propose(Bytes::from("b")).unwrap();
    assert_eq!(persist_of(&mut replica).entries.len(), 2);
}

#[test]
fn proposal_is_refused_without_leadership() {
    let mut replica = start(born());
    let refused = Err(Refused::NotLeader { leader: None });
    assert_eq!(replica.propose(Bytes::from("a")), refused);
    assert_eq!(replica.propose_membership(&MembershipChange::leave()), refused);
    assert_eq!(replica.transfer_leader(2), Err(Refused::NotLeader { leader: None }));
}

#[test]
fn proposal_beyond_a_size_is_refused() {
    let mut replica = leader();
    assert_eq!(replica.propose(Bytes::new()), Err(Refused::Empty));
    let bytes = ENTRY_BYTES_MAX + 1;
    let refused = Refused::TooLarge { bytes, bytes_max: ENTRY_BYTES_MAX };
    assert_eq!(replica.propose(Bytes::from(vec![0; bytes])), Err(refused));
    assert!(replica.propose(Bytes::from(vec![0; ENTRY_BYTES_MAX])).is_ok());
    assert_eq!(work(&mut replica).len(), 1);
}

#[test]
fn proposals_are_refused_while_too_much_is_uncommitted() {
    let half = APPEND_BYTES_MAX as usize / 2;
    let config = Config { uncommitted_bytes_max: APPEND_BYTES_MAX, ..config() };
    let mut replica = Replica::new(config, born()).unwrap();
    replica.campaign().unwrap();
    work(&mut replica);
    replica.propose(Bytes::from(vec![0; half])).unwrap();
    replica.propose(Bytes::from(vec![0; half])).unwrap();
    assert_eq!(replica.propose(Bytes::from("a")), Err(Refused::Overloaded));
    assert_eq!(replica.status().uncommitted_bytes, 2 * half);
    work(&mut replica);
    assert_eq!(replica.status().uncommitted_bytes, 0);
    replica.propose(Bytes::from("a")).unwrap();
}

#[test]
fn restarted_voter_commits_its_tail_again() {
    let mut replica = start(Restored {
        hard_state: HardState { term: 2, vote: 1, commit: 3 },
        entries: vec![normal(2, 2, ""), normal(3, 2, "a"), normal(4, 2, "b")],
        ..born()
    });
    assert_eq!(work(&mut replica), [normal(2, 2, ""), normal(3, 2, "a")]);
    replica.campaign().unwrap();
    assert_eq!(work(&mut replica), [normal(4, 2, "b"), normal(5, 3, "")]);
}

#[test]
fn hard_state_cut_off_after_its_entries_is_mended() {
    let replica = start(Restored {
        hard_state: HardState { term: 2, vote: 1, commit: 1 },
        entries: vec![normal(2, 2, ""), normal(3, 5, "a")],
        ..born()
    });
    assert_eq!(replica.status().term, 5);
    assert_eq!(replica.status().commit_index, 1);
}

#[test]
fn campaign_waits_for_a_membership_entry_to_be_applied() {
    let change = MembershipChange {
        transition: Transition::Auto,
        changes: vec![MemberChange::AddLearner(2)],
        context: Bytes::from("somewhere:1"),
    };
    let entry = Entry { index: 2, term: 2, kind: EntryKind::Membership, payload: change.encode() };
    let mut replica = start(Restored {
        hard_state: HardState { term: 2, vote: 1, commit: 2 },
        entries: vec![entry.clone()],
        ..born()
    });
    assert_eq!(replica.campaign(), Err(CampaignObstacle::MembershipUnapplied));
    let effects = replica.effects();
    assert_eq!(effects.committed, [entry]);
    assert_eq!(effects.memberships[0].index, 2);
    assert_eq!(effects.memberships[0].membership.learners, [2]);
    assert_eq!(replica.campaign(), Err(CampaignObstacle::MembershipUnapplied));
    replica.on_applied(2);
    replica.campaign().unwrap();
    assert_eq!(replica.status().role, Role::Leader);
}

#[test]
fn state_that_contradicts_itself_is_refused() {
    let check = |restored: Restored, expected: ReplicaError| {
        assert_eq!(Replica::new(config(), restored).err().unwrap(), expected);
    };
    let gap = vec![normal(3, 1, "")];
    check(Restored { entries: gap, ..born() }, ReplicaError::Gap { index_before: 1, index: 3 });
    let fell = vec![normal(2, 3, ""), normal(3, 2, "")];
    check(
        Restored { entries: fell, ..born() },
        ReplicaError::TermFell { index: 3, term: 2, term_before: 3 },
    );
    let hard_state = HardState { term: 1, vote: 0, commit: 2 };
    check(
        Restored { hard_state, ..born() },
        ReplicaError::CommitBeyondLog { commit: 2, last_index: 1 },
    );
    let hard_state = HardState { term: TERM_MAX + 1, ..HardState::default() };
    let (value, value_max) = (TERM_MAX + 1, TERM_MAX);
    check(
        Restored { hard_state, ..born() },
        ReplicaError::TooHigh { what: "term", value, value_max },
    );
    check(
        Restored { snapshot_term: value, ..born() },
        ReplicaError::TooHigh { what: "term of the log", value, value_max },
    );
    let (value, value_max) = (INDEX_MAX + 1, INDEX_MAX);
    check(
        Restored { snapshot_index: value, applied_index: value, ..born() },
        ReplicaError::TooHigh { what: "index of the log", value, value_max },
    );
    let payload = Bytes::from(vec![0; ENTRY_BYTES_MAX + 1]);
    let (bytes, bytes_max) = (ENTRY_BYTES_MAX + 1, ENTRY_BYTES_MAX);
    check(
        Restored { entries: vec![Entry { payload, ..normal(2, 1, "") }], ..born() },
        ReplicaError::TooLarge { index: 2, bytes, bytes_max },
    );
    let membership = Membership { learners: vec![1], ..Membership::from_voters([1]) };
    let what = "a member is both voter and learner";
    check(Restored { membership, ..born() }, ReplicaError::Membership { what });
    for applied_index in [0, 2] {
        let (index_min, index_max) = (1, 1);
        let error = ReplicaError::Applied { applied_index, index_min, index_max };
        check(Restored { applied_index, ..born() }, error);
    }
}

#[test]
fn settings_that_contradict_themselves_are_refused() {
    for config in [
        Config { member_id: 0, ..config() },
        Config { heartbeat_ticks: 0, ..config() },
        Config { heartbeat_ticks: 20, ..config() },
        Config { uncommitted_bytes_max: APPEND_BYTES_MAX - 1, ..config() },
    ] {
        let error = Replica::new(config, born()).err().unwrap();
        assert!(matches!(error, ReplicaError::Config { .. }));
    }
}

#[test]
fn lone_leader_serves_a_read_at_once_after_its_first_commit() {
    let mut replica = start(born());
    let early = replica.read_index().unwrap();
    assert!(!replica.has_effects());
    replica.campaign().unwrap();
    let effects = replica.effects();
    assert_eq!(effects.reads, []);
    replica.on_persisted(effects.persist.unwrap().id);
    let reads: Vec<_> = drain(&mut replica).into_iter().flat_map(|all| all.reads).collect();
    assert_eq!(reads, [(early, 2)]);
    let read = replica.read_index().unwrap();
    assert_eq!(replica.effects().reads, [(read, 2)]);
}

#[test]
fn read_without_a_leader_fails_at_its_deadline() {
    let mut replica = start(Restored { membership: Membership::from_voters([1, 2]), ..born() });
    let read = replica.read_index().unwrap();
    let mut failed = Vec::new();
    for _ in 0..config().read_deadline_ticks {
        assert_eq!(failed, []);
        replica.tick();
        failed.extend(drain(&mut replica).into_iter().flat_map(|all| all.reads_failed));
    }
    assert_eq!(failed, [read]);
}

fn memory(bytes_max: usize) -> LogMemory {
    LogMemory { bytes_max, ..LogMemory::default() }
}

#[test]
fn memory_of_applied_entries_is_bounded() {
    let config = Config { log_memory: memory(10_000), ..config() };
    let mut replica = Replica::new(config, born()).unwrap();
    replica.campaign().unwrap();
    work(&mut replica);
    for _ in 0..100 {
        replica.propose(Bytes::from(vec![7; 1000])).unwrap();
        work(&mut replica);
        assert!(replica.status().log_applied_bytes <= 10_000);
    }
    assert_eq!(replica.status().first_index, 95);
    assert_eq!(replica.term_of(94), Some(2));
    assert_eq!(replica.term_of(93), None);
}

#[test]
fn entries_are_kept_until_they_are_applied() {
    let config = Config { log_memory: memory(0), ..config() };
    let mut replica = Replica::new(config, born()).unwrap();
    replica.campaign().unwrap();
    work(&mut replica);
    for _ in 0..10 {
        replica.propose(Bytes::from(vec![7; 1000])).unwrap();
        for effects in drain(&mut replica) {
            effects.persist.into_iter().for_each(|job| replica.on_persisted(job.id));
        }
    }
    drain(&mut replica);
    assert_eq!(replica.status().first_index, 3);
    replica.on_applied(5);
    assert_eq!(replica.status().first_index, 6);
}

#[test]
fn pinned_entries_stay() {
    let config = Config { log_memory: memory(0), ..config() };
    let mut replica = Replica::new(config, born()).unwrap();
    replica.campaign().unwrap();
    work(&mut replica);
    replica.pin_log(Some(2));
    for _ in 0..10 {
        replica.propose(Bytes::from("a")).unwrap();
        work(&mut replica);
    }
    assert_eq!(replica.status().first_index, 3);
    replica.pin_log(None);
    assert_eq!(replica.status().first_index, 13);
}

#[test]
fn committed_entries_come_in_bounded_portions() {
    let mut replica = leader();
    for _ in 0..10 {
        replica.propose(Bytes::from(vec![7; 1 << 20])).unwrap();
    }
    let persist = persist_of(&mut replica);
    replica.on_persisted(persist.id);
    let portions: Vec<usize> =
        drain(&mut replica).iter().map(|effects| effects.committed.len()).collect();
    assert_eq!(portions.iter().sum::<usize>(), 10);
    assert!(portions.iter().all(|count| *count <= 4));
}

#[test]
fn snapshot_of_what_is_applied_is_taken_in() {
    let mut replica = leader();
    let membership = replica.membership().clone();
    replica.on_snapshot_taken(SnapshotMeta { index: 2, term: 2, membership });
    assert_eq!(replica.status().applied_index, 2);
}

#[test]
fn lone_leader_sends_its_learner_nothing_before_its_term_is_on_disk() {
    let membership = Membership { learners: vec![2], ..Membership::from_voters([1]) };
    let mut replica = start(Restored { membership, ..born() });
    replica.campaign().unwrap();
    replica.tick();
    replica.tick();
    let effects = drain(&mut replica);
    assert!(effects.iter().all(|effects| effects.messages.is_empty()));
    let first = effects[0].persist.as_ref().unwrap();
    replica.on_persisted(first.id);
    assert!(drain(&mut replica).iter().any(|effects| !effects.messages.is_empty()));
}

#[test]
fn elections_of_one_term_have_different_timeouts() {
    let mut replica = start(Restored { membership: Membership::from_voters([1, 2]), ..born() });
    let mut campaigns = Vec::new();
    for tick in 0..1000 {
        replica.tick();
        if drain(&mut replica).iter().any(|effects| !effects.messages.is_empty()) {
            campaigns.push(tick);
        }
    }
    assert_eq!(replica.status().term, 1);
    let gaps: BTreeSet<u64> = campaigns.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.len() > 3);
}

#[test]
fn nothing_campaigns_while_a_snapshot_is_installed() {
    let mut replica = start(Restored { membership: Membership::from_voters([1, 2]), ..born() });
    let membership = Membership::from_voters([1, 2]);
    let meta = SnapshotMeta { index: 50, term: 3, membership };
    let mut message = eraftpb::Message { from: 2, to: 1, term: 3, ..Default::default() };
    message.set_msg_type(MessageType::MsgSnapshot);
    message.set_snapshot(meta.to_raft());
    replica.step(2, &message::encode(0, &message, false)).unwrap();
    let mut now = eraftpb::Message { from: 2, to: 1, term: 3, ..Default::default() };
    now.set_msg_type(MessageType::MsgTimeoutNow);
    let check = |replica: &mut Replica| {
        replica.step(2, &message::encode(0, &now, false)).unwrap();
        for _ in 0..100 {
            assert_eq!(replica.campaign(), Err(CampaignObstacle::Installing));
            replica.tick();
            assert_eq!(replica.status().role, Role::Follower);
        }
    };
    check(&mut replica);
    let effects = replica.effects();
    let persist = effects.persist.unwrap();
    assert_eq!(persist.install, Some(meta));
    assert_eq!(effects.messages, []);
    check(&mut replica);
    replica.on_persisted(persist.id);
    assert_eq!(replica.effects().messages.len(), 1);
    check(&mut replica);
    replica.on_snapshot_installed(50);
    // A report with an older index crossed the installation; it is ignored.
    replica.on_applied(1);
    assert_eq!(replica.status().applied_index, 50);
    replica.campaign().unwrap();
}

#[test]
fn answers_that_only_a_member_with_a_lost_disk_causes_are_refused() {
    let mut replica = start(Restored { membership: Membership::from_voters([1, 2]), ..born() });
    let mut message = eraftpb::Message { from: 2, to: 1, term: 3, ..Default::default() };
    message.set_msg_type(MessageType::MsgHeartbeat);
    message.commit = 1;
    replica.step(2, &message::encode(0, &message, false)).unwrap();
    message.commit = 2;
    let refused = Err(MessageError::CommitBeyondLog { commit: 2, last_index: 1 });
    assert_eq!(replica.step(2, &message::encode(0, &message, false)), refused);
}

#[test]
fn a_commit_of_another_entry_than_the_own_one_is_refused() {
    let mut replica = start(Restored { membership: Membership::from_voters([1, 2]), ..born() });
    let mut message = eraftpb::Message { from: 2, to: 1, term: 3, ..Default::default() };
    message.set_msg_type(MessageType::MsgHeartbeat);
    message.commit = 1;
    message.commit_term = 2;
    let refused = Err(MessageError::CommitDiffers { commit: 1, term: 1 });
    assert_eq!(replica.step(2, &message::encode(0, &message, false)), refused);
    for term in [1, 0] {
        message.commit_term = term;
        replica.step(2, &message::encode(0, &message, false)).unwrap();
    }
}

/// A torn write may bring back an entry that was replaced (sim seed 1004752463 of three members).
/// So a commit index alone does not say that this entry is committed.
#[test]
fn a_commit_of_an_unknown_term_commits_nothing() {
    let membership = Membership::from_voters([1, 2]);
    let mut replica = start(Restored { membership, entries: vec![normal(2, 1, "own")], ..born() });
    let mut message = eraftpb::Message { from: 2, to: 1, term: 3, ..Default::default() };
    message.set_msg_type(MessageType::MsgHeartbeat);
    message.commit = 2;
    for (term, committed) in [(0, 1), (1, 2)] {
        message.commit_term = term;
        replica.step(2, &message::encode(0, &message, false)).unwrap();
        assert_eq!(replica.status().commit_index, committed);
    }
}
