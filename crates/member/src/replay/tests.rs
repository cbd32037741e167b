//! Tests of the replay: which entries a start applies before Loop and Apply begin, and where it
//! stops.

use bytes::Bytes;
use machine::entry::BatchBuilder;
use machine::together::one_by_one;
use machine::{BootId, ConnectionId, ControlCommand, MemberId, SessionId, Settings, ZkCommand};
use replica::{HardState, LeftOut, Membership, Position};

use super::*;
use crate::Apply;
use crate::message::ToApply;

/// The member and the present start of it.
const ORIGIN: Origin = Origin { member: MemberId(7), boot: BootId(4) };
/// The previous start of that member.
const BEFORE: Origin = Origin { member: MemberId(7), boot: BootId(3) };

/// An entry with one batch.
fn entry(index: u64, origin: Origin, sequence: u64, commands: &[Command<'_>]) -> Entry {
    let nobody = entry::encode_identities([].into_iter());
    let mut builder = BatchBuilder::default();
    for command in commands {
        builder.push(ConnectionId(1), &nobody, command).expect("it fits");
    }
    let batch = builder.finish().stamp(origin, sequence);
    let payload = entry::encode(index as i64, 0, machine::Level::FIRST, &[batch]);
    Entry { index, term: 1, kind: EntryKind::Normal, payload }
}

fn open_session(session: i64) -> Command<'static> {
    let (session, password) = (SessionId(session), [1; 16]);
    Command::Zk(ZkCommand::OpenSession { session, password, timeout_ms: 4_000 })
}

fn create<'a>(path: &'a str, data: &'a [u8]) -> Command<'a> {
    let op = machine::Op::Create {
        path,
        malformed: false,
        data: Some(data),
        acl: machine::zk::command::AskedAcl::Open,
        mode: machine::CreateMode::Persistent,
        ttl_ms: -1,
    };
    Command::Zk(ZkCommand::Write { session: SessionId(1), op })
}

/// Plain entries from index 2 on. The first of them opens session 1, the others create znodes.
fn plain(count: u64) -> Vec<Entry> {
    let entry_of = |at: u64| match at {
        1 => entry(2, BEFORE, 1, &[open_session(1)]),
        _ => {
            let (path, data) = (format!("/{at}"), vec![b'x'; 1_000]);
            entry(at + 1, BEFORE, at, &[create(&path, &data), create("/a", &data)])
        }
    };
    (1..=count).map(entry_of).collect()
}

/// A new member whose log holds these entries, all of them committed.
fn restored(entries: Vec<Entry>) -> Restored {
    let commit = entries.last().map_or(1, |entry| entry.index);
    Restored {
        hard_state: HardState { term: 1, vote: 0, commit },
        membership: Membership { voters: vec![ORIGIN.member.0], ..Membership::default() },
        snapshot_index: 1,
        snapshot_term: 1,
        entries,
        left_out: None,
        applied_index: 1,
    }
}

fn replayed(restored: &mut Restored) -> Machine {
    let mut machine = Machine::default();
    replay(&mut machine, restored, ORIGIN, one_by_one);
    assert_eq!(machine.index().0, restored.applied_index);
    machine
}

/// The state that Apply makes from these entries.
fn applied(entries: &[Entry]) -> Machine {
    let mut machine = Machine::default();
    let mut apply = Apply::new(ORIGIN, LogIndex(1), 1, machine::Level::RELEASED);
    apply.receive(ToApply::Entries(entries.to_vec()));
    while apply.has_work() {
        apply.step(&mut machine, 5);
    }
    machine
}

#[test]
fn a_replay_makes_the_state_that_apply_makes() {
    let mut entries = plain(40);
    // A batch that comes twice, a batch behind a gap, and the empty first entry of a leader.
    entries.push(entry(42, BEFORE, 40, &[create("/twice", b"")]));
    entries.push(entry(43, BEFORE, 50, &[create("/gap", b"")]));
    entries.push(Entry { index: 44, term: 2, kind: EntryKind::Normal, payload: Bytes::new() });
    let mut restored = restored(entries.clone());
    let (machine, expected) = (replayed(&mut restored), applied(&entries));
    assert_eq!(restored.applied_index, 44);
    assert_eq!(restored.applied_term(), 2);
    assert_eq!((machine.index(), machine.mark()), (expected.index(), expected.mark()));
    assert_eq!(machine.digest(), expected.digest());
    assert!(machine.zk().tree().find("/40").is_some());
    assert!(machine.zk().tree().find("/twice").is_none());
}

/// Checks that a replay ends right before `entry`, between plain entries.
fn check_ends_before(entry: Entry) {
    let mut entries = plain(2);
    entries.push(Entry { index: 4, ..entry });
    entries.extend(plain(5).into_iter().skip(3));
    let mut restored = restored(entries);
    replayed(&mut restored);
    assert_eq!((restored.applied_index, restored.entries.len()), (3, 5));
}

#[test]
fn a_replay_ends_before_what_loop_and_apply_decide_about() {
    let command = |command| entry(4, BEFORE, 3, &[create("/b", b""), command]);
    check_ends_before(command(Command::Control(ControlCommand::Forget { member: MemberId(9) })));
    check_ends_before(command(Command::Control(ControlCommand::InstallImage { hash: 1 })));
    check_ends_before(Entry { kind: EntryKind::Membership, ..plain(1).remove(0) });
    // A batch of this start, or of a later one, shows that the directory is an old copy.
    for boot in [4, 5] {
        let later = Origin { boot: BootId(boot), ..ORIGIN };
        check_ends_before(entry(
            4,
            later,
            1,
            &[Command::Zk(ZkCommand::Configure(Settings::default()))],
        ));
    }
}

#[test]
fn a_replay_ends_before_an_entry_that_cannot_be_decoded() {
    let whole = plain(1).remove(0);
    for end in 1..whole.payload.len() {
        check_ends_before(Entry { payload: whole.payload.slice(..end), ..whole.clone() });
    }
    let longer = [&*whole.payload, b"x"].concat();
    check_ends_before(Entry { payload: longer.into(), ..whole });
}

#[test]
fn a_replay_ends_at_the_commit_index() {
    let mut restored = restored(plain(5));
    restored.hard_state.commit = 4;
    replayed(&mut restored);
    assert_eq!(restored.applied_index, 4);
}

#[test]
fn a_member_of_an_ensemble_replays_nothing() {
    for (voters, voters_outgoing) in
        [(vec![7, 8], vec![]), (vec![7], vec![7, 8]), (vec![8], vec![])]
    {
        let mut restored = restored(plain(5));
        restored.membership = Membership { voters, voters_outgoing, ..Membership::default() };
        replayed(&mut restored);
        assert_eq!(restored.applied_index, 1);
    }
}

/// Uses entries of 1 MiB each, more than fit into two windows.
#[test]
fn what_is_applied_is_let_go_of_but_for_the_end() {
    let data = vec![b'x'; 1 << 20];
    let mut entries = plain(1);
    entries.extend((2..=40).map(|at| entry(at + 1, BEFORE, at, &[create("/a", &data)])));
    let expected = applied(&entries);
    let log_bytes: usize = entries.iter().map(|entry| entry.payload.len()).sum();
    let mut restored = restored(entries);
    let machine = replayed(&mut restored);
    assert_eq!(machine.digest(), expected.digest());
    let kept: usize = restored.entries.iter().map(|entry| entry.payload.len()).sum();
    assert!(kept <= LogMemory::default().bytes_max);
    let (last, bytes) = (Position { term: 1, index: 34 }, (log_bytes - kept) as u64);
    assert_eq!(restored.left_out, Some(LeftOut { last, bytes }));
    assert_eq!(restored.entries[0].index, 35);
    assert_eq!(restored.log_bytes(), log_bytes as u64);
    let config = replica::Config::new(ORIGIN.member.0, 1, ORIGIN.boot.0);
    let replica = replica::Replica::new(config, restored).expect("nothing contradicts itself");
    let status = replica.status();
    assert_eq!((status.first_index, status.applied_index, status.last_index), (35, 41, 41));
    assert_eq!(replica.newest_snapshot().map(|snapshot| snapshot.index), Some(1));
}
