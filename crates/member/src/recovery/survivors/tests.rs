use core::ops::Range;

use machine::{BootId, Command, ConnectionId, ControlCommand, Level, Origin};
use storage::datadir::{LOCK_FILE, condemn};
use storage::fault_disk::FaultDisk;
use storage::record::{HardState, LogEntry, SnapshotPoint};
use storage::snapshot::{ReceivedWriter, SnapshotWriter, keep_received};
use storage::wal::EntryKind;

use super::*;
use crate::inspect::tests::{IDENTITY, OPTIONS, born, pieces, put, state_after, write_snapshot};
use crate::membership::bootstrap::absent_voter;

/// Entries of one term.
fn of_term(range: Range<u64>, term: u64) -> Vec<LogEntry> {
    range.map(|index| put(index, term)).collect()
}

/// An entry with a command of the ensemble itself.
fn control(index: u64, command: &ControlCommand) -> LogEntry {
    let mut builder = machine::entry::BatchBuilder::default();
    let identities = machine::entry::encode_identities([].into_iter());
    builder
        .push(ConnectionId(1), &identities, &Command::Control(command.clone()))
        .expect("it fits");
    let origin = Origin { member: MemberId(IDENTITY.member_id), boot: BootId(1) };
    let batch = builder.finish().stamp(origin, index - 1);
    let payload = machine::entry::encode(1, 0, Level::ETCD, &[batch]);
    LogEntry { index, term: 1, kind: EntryKind::Normal, payload }
}

/// Entries of one term. The first makes etcd's keys possible.
fn with_keys(range: Range<u64>) -> Vec<LogEntry> {
    let raise = control(range.start, &ControlCommand::Raise(Level::ETCD.into()));
    [vec![raise], of_term(range.start + 1..range.end, 1)].concat()
}

fn opened(disk: &FaultDisk) -> Survivor<FaultDisk> {
    Survivor::open(disk.clone()).expect("it is sound")
}

/// Every file of the disk with its content.
fn contents(disk: &FaultDisk) -> Vec<(String, Option<Vec<u8>>)> {
    disk.paths().into_iter().map(|path| (path.clone(), disk.content(&path))).collect()
}

fn refused(disk: &FaultDisk) -> String {
    Survivor::open(disk.clone()).err().expect("it is refused").to_string()
}

#[test]
fn entries_that_are_not_known_to_be_committed_are_kept_and_nothing_changes() {
    let entries = of_term(2..30, 1);
    let (disk, mut wal) = born(&entries);
    let hard_state = HardState { term: 1, vote: 0, commit: 10 };
    wal.append(&[], Some(hard_state), None).expect("appends");
    wal.commit().expect("commits");
    drop(wal);
    let before = contents(&disk);
    let survivor = opened(&disk);
    assert_eq!((survivor.commit(), survivor.last()), (10, LogPlace { term: 1, index: 29 }));
    let state = survivor.state().expect("is read");
    assert_eq!(state.digest(), state_after(&entries).digest());
    assert_eq!(survivor.identity(), IDENTITY);
    drop(survivor);
    assert_eq!(contents(&disk), before);
}

#[test]
fn the_later_term_goes_further_than_the_longer_log() {
    let logs = [of_term(2..60, 1), [of_term(2..40, 1), of_term(40..50, 2)].concat()];
    let disks = logs.each_ref().map(|log| born(log).0);
    let survivors = disks.each_ref().map(opened);
    assert_eq!(furthest(&survivors), 1);
    let state = survivors[1].state().expect("is read");
    assert_eq!(state.digest(), state_after(&logs[1]).digest());
    // Of two equal ones, the first is taken.
    assert_eq!(furthest(&[opened(&born(&logs[0]).0), opened(&born(&logs[0]).0)]), 0);
}

/// A later leader has sent a snapshot, and the process was killed before its log was cut: the
/// entries of the log contradict the snapshot.
#[test]
fn a_snapshot_wins_against_a_log_that_contradicts_it() {
    for (log, snapshot_index) in [(of_term(2..60, 1), 50), (of_term(2..20, 1), 50)] {
        let (disk, _wal) = born(&log);
        let point = SnapshotPoint { index: snapshot_index, term: 3 };
        let truth = [of_term(2..10, 1), of_term(10..51, 3)].concat();
        write_snapshot(&disk, point, &mut state_after(&truth));
        let survivor = opened(&disk);
        assert_eq!(survivor.last(), LogPlace { term: 3, index: 50 });
        let state = survivor.state().expect("is read");
        assert_eq!(state.digest(), state_after(&truth).digest());
    }
}

#[test]
fn a_directory_that_is_used_condemned_or_not_born_is_refused() {
    let (disk, _wal) = born(&of_term(2..5, 1));
    let lock = disk.lock(LOCK_FILE).expect("locks");
    assert!(refused(&disk).contains("in use by another process"), "{}", refused(&disk));
    drop(lock);
    let first = opened(&disk);
    assert!(refused(&disk).contains("in use by another process"), "{}", refused(&disk));
    drop(first);
    condemn(&disk, "its state differs").expect("writes");
    assert!(refused(&disk).contains("its state differs"), "{}", refused(&disk));
    assert!(refused(&FaultDisk::new(3)).contains("cannot open identity"));
}

/// A copy without the lock file, or what was set aside.
#[test]
fn a_directory_without_a_lock_file_is_read() {
    let entries = of_term(2..5, 1);
    let (disk, wal) = born(&entries);
    drop(wal);
    disk.lose_file(LOCK_FILE);
    let state = opened(&disk).state().expect("is read");
    assert_eq!(state.digest(), state_after(&entries).digest());
    assert!(!disk.paths().contains(&LOCK_FILE.to_string()));
}

/// Whatever byte of the log is damaged: the directory is refused, or it goes less far, or the state
/// is the right one. It is never a wrong state.
#[test]
fn damage_is_named_and_never_taken_for_the_state() {
    let entries = of_term(2..20, 1);
    let (disk, wal) = born(&entries);
    drop(wal);
    let logs =
        disk.paths().into_iter().filter(|path| path.starts_with("wal/") && path.ends_with(".log"));
    let (mut refused_count, mut shorter_count) = (0, 0);
    for path in logs {
        let sound = disk.content(&path).expect("it is there");
        let written = sound.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        for at in (0..written).step_by(53) {
            let mut bytes = sound.clone();
            bytes[at] ^= 1 << (at % 8);
            disk.set_content(&path, bytes);
            match Survivor::open(disk.clone()).and_then(|it| Ok((it.last().index, it.state()?))) {
                Ok((last, state)) => {
                    let count = usize::try_from(last).unwrap() - 1;
                    let known = state_after(&entries[..count]);
                    assert_eq!(state.digest(), known.digest(), "{path} at {at}");
                    shorter_count += usize::from(count < entries.len());
                }
                Err(_) => refused_count += 1,
            }
        }
        disk.set_content(&path, sound);
    }
    assert!(refused_count > 10, "{refused_count} refused, {shorter_count} shorter");
}

/// An entry that installs a snapshot which an operator has brought is applied as well.
#[test]
fn a_snapshot_that_the_log_installs_is_read() {
    let mut brought = state_after(&with_keys(2..9));
    assert!(brought.etcd().key_count() > 0);
    let (of_backup, _wal) = born(&[]);
    write_snapshot(&of_backup, SnapshotPoint { index: 8, term: 1 }, &mut brought);
    let name = snapshot::list(&of_backup).unwrap().pop().unwrap().name;
    let file = of_backup.content(&format!("{}/{name}", snapshot::SNAPSHOT_DIR)).unwrap();
    let mut reader = SnapshotReader::open(of_backup, &name).unwrap();
    while reader.next_piece().unwrap().is_some() {}
    let hash = reader.hash();

    let (disk, mut wal) = born(&of_term(2..5, 1));
    let mut writer = ReceivedWriter::create(disk.clone()).unwrap();
    writer.write(&file).unwrap();
    writer.finish().unwrap();
    keep_received(&disk).unwrap();
    let entry = control(5, &ControlCommand::InstallImage { hash });
    wal.append(&[entry], None, None).expect("appends");
    wal.commit().expect("commits");
    let state = opened(&disk).state().expect("is read");
    assert_eq!(state.index().0, 5);
    assert_eq!(state.etcd().key_count(), brought.etcd().key_count());
    disk.lose_file("snapshots/received.snap");
    let error = opened(&disk).state().expect_err("it is missing").to_string();
    assert!(error.contains("up to entry 4 only, of 5: entry 5"), "{error}");
}

/// A directory of this member, whose snapshot has this membership, with these changes of it behind
/// the snapshot. It knows that entries up to `commit` are committed.
fn directory(
    member: u64,
    (voters, outgoing): (&[u64], &[u64]),
    changes: &[MembershipChange],
    commit: u64,
) -> Survivor<FaultDisk> {
    let (disk, mut wal) = born(&of_term(2..5, 1));
    let membership = storage::wal::Membership {
        voters: voters.to_vec(),
        voters_outgoing: outgoing.to_vec(),
        ..Membership::default()
    };
    let meta = SnapshotMeta { index: 4, term: 1, cluster_id: IDENTITY.cluster_id, membership };
    let mut writer = SnapshotWriter::create(disk.clone(), &meta).expect("creates");
    for piece in pieces(&mut state_after(&of_term(2..5, 1))) {
        writer.write_piece(&piece).expect("writes");
    }
    writer.finish().expect("finishes");
    for (index, change) in (5..).zip(changes) {
        let (kind, payload) = (EntryKind::MembershipChange, change.encode());
        wal.append(&[LogEntry { index, term: 1, kind, payload }], None, None).expect("appends");
    }
    wal.append(&[], Some(HardState { term: 1, vote: 0, commit }), None).expect("appends");
    wal.commit().expect("commits");
    let identity = Identity { member_id: member, ..IDENTITY };
    disk.set_content("identity", storage::datadir::encode_identity(&identity));
    opened(&disk)
}

/// The directories of these members, all with this membership.
fn ensemble(members: &[u64], voters: &[u64], outgoing: &[u64]) -> Completeness {
    let all = members.iter().map(|member| directory(*member, (voters, outgoing), &[], 4));
    completeness(&all.collect::<Vec<_>>())
}

fn unknown(lost: &[u64]) -> Completeness {
    Completeness::Unknown { lost: lost.iter().copied().map(MemberId).collect() }
}

#[test]
fn nothing_is_missing_if_each_quorum_has_a_survivor() {
    assert_eq!(ensemble(&[6], &[6, 7, 8], &[]), unknown(&[7, 8]));
    assert_eq!(ensemble(&[6, 8], &[6, 7, 8], &[]), Completeness::Complete);
    assert_eq!(ensemble(&[6, 6], &[6, 7, 8], &[]), unknown(&[7, 8]));
    assert_eq!(ensemble(&[6], &[6], &[]), Completeness::Complete);
    assert_eq!(ensemble(&[6, 7], &[6, 7, 8, 9], &[]), Completeness::Complete);
    assert_eq!(ensemble(&[6], &[6, 7, 8, 9], &[]), unknown(&[7, 8, 9]));
    assert_eq!(ensemble(&[6, 7, 9], &[6, 7, 8, 9, 10], &[]), Completeness::Complete);
    // A directory of no voter has what it has.
    assert_eq!(ensemble(&[11], &[6, 7, 8], &[]), unknown(&[6, 7, 8]));
    // A placeholder has nothing.
    let nobody = absent_voter(3).expect("it has one");
    assert_eq!(ensemble(&[6], &[6, 7, nobody], &[]), Completeness::Complete);
    // A quorum of a joint membership has a quorum of both.
    assert_eq!(ensemble(&[6, 7], &[8, 9, 10], &[6, 7, 8]), Completeness::Complete);
    assert_eq!(ensemble(&[6], &[8, 9, 10], &[6, 7, 8]), unknown(&[7, 8, 9, 10]));
}

fn joint(changes: &[MemberChange]) -> MembershipChange {
    let (transition, context) = (Transition::JointExplicit, bytes::Bytes::new());
    MembershipChange { transition, changes: changes.to_vec(), context }
}

/// The membership is that of the log's last entry: it may be another one than that of the snapshot.
#[test]
fn changes_of_the_membership_behind_the_snapshot_count() {
    let voters = (&[6, 7, 8][..], &[][..]);
    let smaller =
        [joint(&[MemberChange::Remove(7), MemberChange::AddLearner(8)]), MembershipChange::leave()];
    let look = |members: &[u64], changes: &[MembershipChange], commit| {
        let all = members.iter().map(|member| directory(*member, voters, changes, commit));
        completeness(&all.collect::<Vec<_>>())
    };
    // The joint membership: a quorum is 6 and one of 7 and 8.
    assert_eq!(look(&[7, 8], &smaller[..1], 5), Completeness::Complete);
    assert_eq!(look(&[7], &smaller[..1], 5), unknown(&[6, 8]));
    assert_eq!(look(&[6], &smaller[..1], 5), Completeness::Complete);
    // Of 6 alone: that the others are there proves nothing.
    assert_eq!(look(&[7, 8], &smaller, 6), unknown(&[6]));
    assert_eq!(look(&[6], &smaller, 6), Completeness::Complete);
    // If the last change may be committed or not, either membership may be in force.
    assert_eq!(look(&[6], &smaller, 5), Completeness::Complete);
    assert_eq!(look(&[7, 8], &smaller, 5), unknown(&[6]));
    // A directory that is behind knows an older membership; the one that goes furthest counts.
    let behind = directory(7, voters, &[], 4);
    let ahead = directory(8, voters, &smaller, 6);
    assert_eq!(completeness(&[behind, ahead]), unknown(&[6]));
    // What does not fit changes nothing: a second joint change, and one that leaves no voter.
    let twice = [smaller[0].clone(), joint(&[MemberChange::AddVoter(9)]), smaller[1].clone()];
    assert_eq!(look(&[6], &twice, 7), Completeness::Complete);
    let all = [6, 7, 8].map(MemberChange::Remove);
    assert_eq!(look(&[6, 7], &[joint(&all)], 5), Completeness::Complete);
    let grown = [joint(&[MemberChange::AddVoter(9)]), MembershipChange::leave()];
    assert_eq!(look(&[6], &grown, 6), unknown(&[7, 8, 9]));
    assert_eq!(look(&[6, 9], &grown, 6), Completeness::Complete);
}

#[test]
fn a_member_is_alone_without_voters_and_learners() {
    let one = (&[6][..], &[][..]);
    assert!(directory(6, one, &[], 4).is_alone());
    assert!(!directory(7, one, &[], 4).is_alone());
    assert!(!directory(6, (&[6, 7], &[]), &[], 4).is_alone());
    let learner = MembershipChange {
        transition: Transition::Auto,
        changes: vec![MemberChange::AddLearner(7)],
        context: bytes::Bytes::new(),
    };
    let removed = MembershipChange { changes: vec![MemberChange::Remove(7)], ..learner.clone() };
    assert!(!directory(6, one, core::slice::from_ref(&learner), 5).is_alone());
    assert!(directory(6, one, &[learner, removed], 6).is_alone());
}

/// The directory becomes the only member of a new cluster, with the state after its last entry.
#[test]
fn a_directory_begins_anew_alone() {
    let entries = with_keys(2..30);
    let (disk, wal) = born(&entries);
    drop(wal);
    let kept = opened(&disk).begin_anew(&[7; 32], Level::NEWEST);
    assert_eq!(kept.expect("the disk is sound"), "set-aside-1");
    let recovered = crate::recovery::recover(&disk, &[8; 32], OPTIONS, |_| {}).expect("starts");
    let (cluster_id, member) = draw_ids(&[7; 32]);
    assert_eq!(recovered.dir.identity(), Identity { cluster_id, member_id: member.0 });
    let mut expected = Machine::begin_alone_with(state_after(&entries), MemberId(6));
    expected.freeze();
    assert_eq!(recovered.machine.digest(), expected.digest());
    assert_eq!(recovered.machine.etcd().key_count(), 7);
    assert_eq!(recovered.restored.membership.voters, [member.0]);
    drop(recovered);
    assert!(opened(&disk).is_alone());
}
