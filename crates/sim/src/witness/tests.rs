//! What the witness must detect about entries that were handed to Apply: entries that are lost,
//! differ, or are not synced.

use machine::entry::{BatchBuilder, encode_identities};
use machine::{BootId, ConnectionId, LogIndex, MemberId, Ordinal, Origin, ZkCommand};
use storage::disk::Disk;

use super::*;

fn entry(index: u64, payload: &'static [u8]) -> Entry {
    Entry { index, term: 2, kind: EntryKind::Normal, payload: Bytes::from_static(payload) }
}

/// A disk on which entry 2 is synced.
fn disk() -> SimDisk {
    let disk = SimDisk::new(1, false);
    let file = disk.create("log").unwrap();
    disk.announce(2, &Bytes::from_static(b"two"));
    disk.write_at(&file, 0, b"two").unwrap();
    disk.sync_data(&file).unwrap();
    disk
}

/// A disk on which entry 2 is written but not synced.
fn unsynced() -> SimDisk {
    let disk = SimDisk::new(1, false);
    let file = disk.create("log").unwrap();
    disk.announce(2, &Bytes::from_static(b"two"));
    disk.write_at(&file, 0, b"two").unwrap();
    disk
}

fn witness(disks: &[SimDisk]) -> Witness {
    Witness::new(true, disks.to_vec(), false)
}

#[test]
fn an_entry_that_no_sync_covers_must_not_be_applied() {
    let disk = disk();
    let mut witness = witness(core::slice::from_ref(&disk));
    assert_eq!(witness.on_committed(0, &[entry(2, b"two")], 0), Ok(()));
    disk.announce(3, &Bytes::from_static(b"three"));
    let refused = witness.on_committed(0, &[entry(3, b"three")], 0);
    assert_eq!(refused, Err("entry 3 is applied, and on 0 disks only".to_string()));
}

#[test]
fn an_applied_entry_stays_what_it_was() {
    let mut witness = witness(&[disk()]);
    witness.on_committed(0, &[entry(2, b"two")], 0).unwrap();
    assert!(witness.on_start(0, 1, &[entry(2, b"two")], 0).is_ok());
    assert!(witness.on_start(0, 1, &[entry(2, b"other")], 0).is_err());
    assert!(witness.on_committed(0, &[entry(2, b"other")], 0).is_err());
}

#[test]
fn an_applied_entry_is_there_after_a_restart() {
    let mut witness = witness(&[disk()]);
    witness.on_committed(0, &[entry(2, b"two")], 0).unwrap();
    assert!(witness.on_start(0, 2, &[], 0).is_ok());
    assert!(witness.on_start(0, 1, &[], 0).is_err());
}

#[test]
fn an_entry_must_be_on_the_disks_of_a_quorum() {
    let mut few = witness(&[disk(), unsynced(), unsynced()]);
    let refused = few.on_committed(0, &[entry(2, b"two")], 0);
    assert_eq!(refused, Err("entry 2 is applied, and on 1 disks only".to_string()));
    let mut enough = witness(&[disk(), unsynced(), disk()]);
    assert_eq!(enough.on_committed(0, &[entry(2, b"two")], 0), Ok(()));
    // A member may apply an entry that its own disk does not have yet, and lack it after a restart.
    assert_eq!(enough.on_committed(1, &[entry(2, b"two")], 0), Ok(()));
    assert!(enough.on_start(1, 1, &[], 0).is_ok());
    assert!(enough.on_start(0, 1, &[], 0).is_err());
}

#[test]
fn a_follower_may_lose_what_nobody_has_applied() {
    let mut witness = witness(&[disk(), disk(), disk()]);
    witness.on_committed(0, &[entry(2, b"two")], 0).unwrap();
    let other = Entry { term: 1, ..entry(2, b"old") };
    assert!(witness.on_start(1, 1, core::slice::from_ref(&other), 0).is_ok());
    assert!(witness.on_start(0, 1, &[other], 0).is_err());
}

#[test]
fn an_index_and_a_term_name_one_entry() {
    let mut witness = witness(&[disk(), disk(), disk()]);
    let (two, other) = (Bytes::from_static(b"two"), Bytes::from_static(b"other"));
    assert!(witness.on_proposed(0, (2, 2), &two, 0, 0).is_ok());
    assert!(witness.on_proposed(1, (2, 2), &two, 0, 0).is_ok());
    assert!(witness.on_proposed(1, (2, 3), &other, 0, 0).is_ok());
    assert!(witness.on_proposed(2, (2, 2), &other, 0, 0).is_err());
}

/// The status of a leader of this term with a log that ends at `last_index`.
fn leader(term: u64, last_index: u64) -> Status {
    Status {
        role: Role::Leader,
        term,
        leader: None,
        transferring_to: None,
        commit_index: 0,
        applied_index: 0,
        persisted_index: 0,
        first_index: 1,
        last_index,
        has_committed_in_term: false,
        uncommitted_bytes: 0,
        log_applied_bytes: 0,
        persist_job_count: 0,
        is_term_durable: true,
        messages_dropped_count: 0,
    }
}

#[test]
fn a_term_has_one_leader_who_has_what_was_applied() {
    let mut witness = witness(&[disk(), disk(), disk()]);
    witness.on_committed(0, &[entry(2, b"two")], 0).unwrap();
    assert!(witness.on_status(1, MemberId(1), &leader(3, 2), 0).is_ok());
    assert!(witness.on_status(1, MemberId(1), &leader(3, 2), 0).is_ok());
    assert!(witness.on_status(2, MemberId(2), &leader(3, 2), 0).is_err());
    assert!(witness.on_status(2, MemberId(2), &leader(4, 1), 0).is_err());
    // A leader may learn late that a later term has begun.
    assert!(witness.on_status(2, MemberId(2), &leader(2, 1), 0).is_ok());
    assert_eq!(witness.led_count(), 3);
    // A lone voter whose term is not durable has told nobody.
    let early = Status { is_term_durable: false, ..leader(3, 2) };
    assert!(witness.on_status(2, MemberId(2), &early, 0).is_ok());
    // A machine with another directory is another member.
    assert!(witness.on_status(1, MemberId(7), &leader(3, 2), 0).is_err());
}

/// The leader of term 6 commits an entry of an earlier term. The leader of term 5, which learns
/// late of its votes, may lack that entry; the leader of term 7 must have it.
#[test]
fn a_leader_who_hears_late_of_its_votes_may_lack_what_a_later_one_committed() {
    let mut witness = witness(&[disk(), disk(), disk()]);
    witness.on_status(0, MemberId(1), &leader(6, 3), 0).unwrap();
    witness.on_committed(0, &[entry(2, b"two")], 0).unwrap();
    assert!(witness.on_status(1, MemberId(2), &leader(5, 1), 0).is_ok());
    assert!(witness.on_status(2, MemberId(3), &leader(7, 1), 0).is_err());
}

#[test]
fn a_member_that_has_lost_its_directory_need_not_have_what_it_applied() {
    let mut witness = witness(&[disk(), disk(), disk()]);
    witness.on_committed(0, &[entry(2, b"two")], 0).unwrap();
    assert!(witness.on_start(0, 1, &[], 0).is_err());
    witness.on_lost(0);
    assert!(witness.on_start(0, 1, &[], 0).is_ok());
}

/// A witness to which entry 2 with so many commands was handed over.
fn handed(command_count: usize) -> Witness {
    let mut builder = BatchBuilder::default();
    let nobody = encode_identities([].into_iter());
    for _ in 0..command_count {
        let command = Command::Zk(ZkCommand::ExpireSessions { sessions: Vec::new() });
        builder.push(ConnectionId(0), &nobody, &command).expect("it fits");
    }
    let origin = Origin { member: MemberId(1), boot: BootId(1) };
    let payload = entry::encode(0, 0, machine::Level::FIRST, &[builder.finish().stamp(origin, 1)]);
    let disk = SimDisk::new(1, false);
    let mut witness = witness(core::slice::from_ref(&disk));
    let file = disk.create("log").unwrap();
    disk.announce(2, &payload);
    disk.write_at(&file, 0, &payload).unwrap();
    disk.sync_data(&file).unwrap();
    let entry = Entry { index: 2, term: 2, kind: EntryKind::Normal, payload };
    witness.on_committed(0, &[entry], 0).unwrap();
    witness
}

#[test]
fn a_member_is_not_ready_before_it_has_applied_what_was_committed_in_earlier_lives() {
    let mut witness = handed(1);
    assert!(witness.on_ready(0, 1, 0).is_ok());
    witness.on_start(0, 2, &[], 0).unwrap();
    assert!(witness.on_ready(0, 2, 0).is_ok());
    assert!(witness.on_ready(0, 1, 0).is_err());
}

#[test]
fn a_sync_is_not_answered_before_what_was_committed_is_applied() {
    let witness = handed(3);
    assert_eq!((witness.newest_index(), witness.ordinal_at(2)), (2, 3));
    assert!(witness.check_sync(1, 0).is_ok());
    assert!(witness.check_sync(2, 3).is_ok());
    assert!(witness.check_sync(2, 2).is_err());
}

#[test]
fn a_snapshot_is_the_state_at_the_end_of_its_entry() {
    let witness = handed(3);
    let found = |index, ordinal| (LogIndex(index), Ordinal(ordinal));
    assert!(witness.check_snapshot(2, found(2, 3)).is_ok());
    assert!(witness.check_snapshot(2, found(2, 2)).is_err());
    assert!(witness.check_snapshot(2, found(1, 3)).is_err());
}

#[test]
fn clients_can_attach_while_the_member_is_ready_and_its_disk_is_not_full() {
    let mut witness = handed(1);
    witness.on_start(0, 2, &[], 5).unwrap();
    assert!(witness.is_shut_between(0, 5, 9));
    witness.on_ready(0, 2, 10).unwrap();
    assert!(!witness.is_shut_between(0, 5, 10));
    witness.on_room(0, true, 20);
    assert!(witness.is_shut_between(0, 20, 24));
    assert!(!witness.is_shut_between(0, 19, 24));
    witness.on_room(0, false, 25);
    assert!(!witness.is_shut_between(0, 20, 25));
    witness.on_start(0, 2, &[], 40).unwrap();
    witness.on_room(0, false, 45);
    assert!(witness.is_shut_between(0, 45, 50));
    let renewed_us = [9, 10, 24, 25, 50].map(|until_us| witness.renewed_us(0, until_us));
    assert_eq!(renewed_us, [0, 10, 10, 25, 25]);
}

#[test]
fn a_machine_that_comes_back_has_renewed_nothing_meanwhile() {
    let old = SimDisk::new(1, false);
    let mut witness = Witness::new(true, vec![old.clone()], false);
    witness.on_ready(0, 0, 10).unwrap();
    witness.on_machine(0, SimDisk::new(2, false), false, 20);
    assert!(witness.is_shut_between(0, 20, 29));
    witness.on_ready(0, 0, 30).unwrap();
    assert_eq!(witness.renewed_us(0, 35), 30);
    witness.on_machine(0, old, true, 40);
    assert!(!witness.is_shut_between(0, 40, 50));
    assert_eq!(witness.renewed_us(0, 45), 10);
    witness.on_room(0, false, 50);
    assert_eq!(witness.renewed_us(0, 55), 50);
}

/// Checks a log of entries, each with the level that it states and the levels to which it raises.
fn levelled(entries: &[(Level, &[Level])]) -> Result<Level, String> {
    let mut witness = Witness::new(false, vec![SimDisk::new(1, false)], false);
    let nobody = encode_identities([].into_iter());
    let origin = Origin { member: MemberId(1), boot: BootId(1) };
    let mut sequence = 0;
    for (at, (stated, raises)) in entries.iter().enumerate() {
        let batch = |level: &Level| {
            let mut builder = BatchBuilder::default();
            let raise = Command::Control(ControlCommand::Raise((*level).into()));
            builder.push(ConnectionId(0), &nobody, &raise).expect("it fits");
            sequence += 1;
            builder.finish().stamp(origin, sequence)
        };
        let batches: Vec<_> = raises.iter().map(batch).collect();
        let payload = entry::encode(0, 0, *stated, &batches);
        let index = at as u64 + 2;
        let entry = Entry { index, term: 2, kind: EntryKind::Normal, payload };
        witness.on_committed(0, &[entry], 0).unwrap();
    }
    let found = witness.check_levels();
    assert!(found.is_err() || found == Ok(witness.levels.level()));
    found
}

#[test]
fn the_level_rises_only_and_no_entry_states_one_above_it() {
    let (old, new) = (Level::FIRST, Level::ETCD);
    assert_eq!(levelled(&[(old, &[]), (old, &[])]), Ok(old));
    assert_eq!(levelled(&[(old, &[]), (new, &[new]), (new, &[]), (old, &[])]), Ok(new));
    assert!(levelled(&[(new, &[]), (new, &[new])]).is_err(), "before the raise");
    assert!(levelled(&[(old, &[new])]).is_err(), "a raise that does not say so");
    assert!(levelled(&[(new, &[new]), (new, &[new])]).is_err(), "twice");
    assert!(levelled(&[(new, &[new]), (old, &[old])]).is_err(), "back");
}

fn membership(voters: &[u64], voters_outgoing: &[u64]) -> storage::wal::Membership {
    storage::wal::Membership {
        voters: voters.to_vec(),
        voters_outgoing: voters_outgoing.to_vec(),
        ..storage::wal::Membership::default()
    }
}

#[test]
fn a_leader_needs_the_votes_of_its_own_membership() {
    let is_elected = |votes: &[u64], membership: storage::wal::Membership| {
        let mut members = members::MembersSeen::new(true);
        votes.iter().for_each(|voter| members.on_vote(MemberId(*voter), 5, 1));
        let known = [(1, membership)];
        let known = known.iter().map(|(from, membership)| (*from, membership));
        members.check_votes((MemberId(1), 5), known).is_ok()
    };
    assert!(is_elected(&[1, 2], membership(&[1, 2, 3], &[])));
    assert!(!is_elected(&[1], membership(&[1, 2, 3], &[])));
    // A member outside does not count.
    assert!(!is_elected(&[1, 4], membership(&[1, 2, 3], &[])));
    // A joint membership needs both halves.
    assert!(!is_elected(&[1, 4, 5], membership(&[1, 4, 5], &[1, 2, 3])));
    assert!(is_elected(&[1, 2, 4], membership(&[1, 4, 5], &[1, 2, 3])));
}

#[test]
fn an_entry_needs_the_disks_of_a_quorum_of_its_membership() {
    let is_durable = |synced: &[usize], last: storage::wal::Membership| {
        let mut members = members::MembersSeen::new(true);
        (1..=5).for_each(|member| members.on_life(MemberId(member), member as usize - 1));
        let known = [(1, membership(&[1, 2, 3], &[])), (10, last.clone()), (20, last)];
        let known = known.iter().map(|(from, membership)| (*from, membership));
        members.on_memberships(known).unwrap();
        members.check_quorum(30, &synced.iter().copied().collect()).is_ok()
    };
    assert!(is_durable(&[0, 1], membership(&[1, 2, 3], &[])));
    assert!(!is_durable(&[0], membership(&[1, 2, 3], &[])));
    assert!(!is_durable(&[0, 1], membership(&[1, 4, 5], &[])));
    assert!(!is_durable(&[0, 3, 4], membership(&[1, 4, 5], &[1, 2, 3])));
    assert!(is_durable(&[0, 1, 3], membership(&[1, 4, 5], &[1, 2, 3])));
}
