//! Tests of a single Loop with a simulated disk: what it packs, and what it waits for.

use machine::entry::{self, BatchBuilder};
use machine::etcd::command::Command as EtcdCommand;
use machine::{
    Changes, Level, Machine, Ordinal, SessionChange, SessionId, Settings, Stamp, ZkCommand,
};

use super::*;
use crate::fronts::zk::tests::rig::{ORIGIN, Real, Rig, copy, options, own_batch, start};
use crate::limits::CLOCK_INTERVAL_MS;
use crate::membership::hello::Known;
use crate::message::{Caller, LoopInput, Submission, Ticket, Waiter};
use crate::order::limits::{ENTRIES_TO_DISK_MAX, SNAPSHOT_RETRY_MS};
use crate::snapshot::limits::{SNAPSHOT_ROOM_ANSWER_MS_MAX, SNAPSHOT_ROOM_RETRY_MS};
use crate::snapshot::log_rule::SnapshotLog;
use crate::spaces::etcd::auto_compaction::AutoCompaction;
use crate::spaces::{self, Found, News, Search, etcd, zk};

/// A Loop that leads, and whose first entry is durable and applied.
fn leading(start: Start) -> Real {
    let mut real = Real::new(start);
    real.finish(0);
    real.persist(usize::MAX);
    let applied: Vec<ToApply> = real.finish(0);
    let last = last_committed(&applied).expect("the first entry of the term");
    real.member.handle(LoopInput::Apply(applied_up_to(last))).unwrap();
    real.finish(0);
    assert_eq!(real.ready, 1);
    real.jobs.clear();
    real
}

pub(crate) fn applied_up_to(index: u64) -> FromApply {
    applied_with(index, News::default())
}

/// Apply's report that everything up to this index is applied, with this news.
pub(crate) fn applied_with(index: u64, news: News) -> FromApply {
    let index = LogIndex(index);
    FromApply::Applied { index, news, installed: None, image_bytes_max: 0, own_sequence: 0 }
}

/// The news with these changes of sessions.
pub(crate) fn news_of(sessions: Vec<SessionChange>) -> News {
    News { zk: zk::News { sessions, settings: None }, ..News::default() }
}

/// A start whose restored state has these sessions.
fn start_with(sessions: Vec<SessionChange>) -> Start {
    let mut start = start();
    start.spaces.on_applied(news_of(sessions));
    start
}

/// The rooms of the spaces ([`Spaces`]) for an empty state.
fn spaces(options: spaces::Options) -> Spaces {
    Spaces::new(options, &Machine::default())
}

/// The index of the last entry handed to Apply; `None` if there is none.
fn last_committed(to_apply: &[ToApply]) -> Option<u64> {
    to_apply.iter().rev().find_map(|message| match message {
        ToApply::Entries(entries) => entries.last().map(|entry| entry.index),
        _ => None,
    })
}

/// A submission of one command of about `bytes` bytes, with one waiter.
fn submission(bytes: usize) -> ToLoop {
    submission_of(1, bytes)
}

fn submission_of(commands: usize, bytes: usize) -> ToLoop {
    let nobody = entry::encode_identities([].into_iter());
    let mut builder = BatchBuilder::default();
    let data = vec![b'x'; bytes];
    for _ in 0..commands {
        let (path, malformed, version) = ("/a", false, -1);
        let op = machine::Op::SetData { path, malformed, data: Some(&data), version };
        builder
            .push(
                ConnectionId(1),
                &nobody,
                &Command::Zk(ZkCommand::Write { session: SessionId(1), op }),
            )
            .expect("it fits");
    }
    let waiter = Waiter::new(ConnectionId(1), Ticket(0));
    let waiters = vec![waiter; commands];
    ToLoop::Submit(Submission { front: FrontId(0), batch: builder.finish(), waiters })
}

/// The number of batches and of commands in each entry that went to the disk.
fn packed(real: &Real) -> Vec<(u32, u32)> {
    let entries = real.jobs.iter().flat_map(|job| &job.entries);
    entries
        .filter(|found| !found.payload.is_empty())
        .map(|found| {
            let header = entry::decode_header(&found.payload).unwrap();
            let mut offset = entry::HEADER_BYTES;
            let mut commands = 0;
            for _ in 0..header.batch_count {
                let batch = entry::decode_batch(&found.payload, offset).unwrap();
                commands += batch.command_count;
                offset = batch.end;
            }
            (header.batch_count, commands)
        })
        .collect()
}

fn refusals(to_apply: &[ToApply]) -> usize {
    let refused = |message: &&ToApply| matches!(message, ToApply::Refuse { .. });
    to_apply.iter().filter(refused).count()
}

#[test]
fn whatever_has_arrived_goes_into_one_entry_at_once() {
    let mut real = leading(start());
    for count in [1, 3, 100] {
        for _ in 0..count {
            real.member.handle(LoopInput::Front(submission(10))).unwrap();
        }
        real.finish(5);
        assert_eq!(packed(&real), [(count, count)]);
        real.jobs.clear();
        real.persist(usize::MAX);
    }
}

#[test]
fn an_entry_holds_no_more_commands_than_the_limit() {
    let mut real = leading(start());
    for commands in [1_000, 24, 1, 1_023, 1] {
        real.member.handle(LoopInput::Front(submission_of(commands, 1))).unwrap();
    }
    real.finish(5);
    assert_eq!(packed(&real), [(2, 1_024), (2, 1_024), (1, 1)]);
}

#[test]
fn an_entry_holds_no_more_bytes_than_the_limit_unless_one_command_does() {
    let mut real = leading(start());
    for bytes in [100_000, 100_000, 100_000, 1_000_000, 10, 10] {
        real.member.handle(LoopInput::Front(submission(bytes))).unwrap();
    }
    real.finish(5);
    assert_eq!(packed(&real), [(2, 2), (1, 1), (1, 1), (2, 2)]);
}

#[test]
fn four_entries_are_on_their_way_to_the_disk_at_most() {
    let mut real = leading(start());
    for at in 0..10 {
        real.member.handle(LoopInput::Front(submission(10))).unwrap();
        real.finish(at);
    }
    assert_eq!(packed(&real), [(1, 1); ENTRIES_TO_DISK_MAX]);
    // Once one entry is durable, all waiting batches go into the next one.
    real.jobs.clear();
    real.persist(1);
    real.finish(10);
    assert_eq!(packed(&real), [(6, 6)]);
    real.member.handle(LoopInput::Front(submission(10))).unwrap();
    real.finish(11);
    assert_eq!(packed(&real), [(6, 6)]);
}

#[test]
fn the_stamp_of_an_entry_is_the_time_it_was_packed_at() {
    let mut real = leading(start());
    real.member.handle(LoopInput::Front(submission(10))).unwrap();
    real.finish(1_234);
    let header = entry::decode_header(&real.jobs[0].entries[0].payload).unwrap();
    assert_eq!(header.time_ms, 1_234);
}

#[test]
fn apply_is_told_to_expect_a_batch_before_its_entry_and_in_order() {
    let mut real = leading(start());
    let mut expected = Vec::new();
    let mut committed = 0;
    for at in 0..20 {
        real.member.handle(LoopInput::Front(submission(10))).unwrap();
        if at % 3 == 0 {
            real.persist(2);
        }
        for message in real.finish(at) {
            match message {
                ToApply::Expect { sequence, front, waiters } => {
                    assert_eq!((front, waiters.len()), (Some(FrontId(0)), 1));
                    expected.push(sequence);
                }
                ToApply::Entries(entries) => {
                    for found in entries {
                        let header = entry::decode_header(&found.payload).unwrap();
                        committed += u64::from(header.batch_count);
                        assert!(committed <= expected.len() as u64);
                    }
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(expected.iter().copied().eq(1..=expected.len() as u64));
}

#[test]
fn nothing_is_committed_before_the_disk_has_it() {
    let mut real = leading(start());
    let mut handed_out = 0;
    for at in 0..30 {
        real.member.handle(LoopInput::Front(submission(10))).unwrap();
        let to_apply = real.finish(at);
        assert_eq!(last_committed(&to_apply), None);
        let durable = real.disk.front().and_then(|job| job.entries.last()).map(|last| last.index);
        real.persist(1);
        let to_apply = real.finish(at);
        if let Some(index) = last_committed(&to_apply) {
            assert_eq!(Some(index), durable);
            handed_out = index;
        }
    }
    assert!(handed_out > 20);
}

#[test]
fn a_commit_index_alone_is_never_a_job_of_its_own() {
    let mut real = leading(start());
    let mut last_commit = 0;
    for at in 0..20 {
        real.member.handle(LoopInput::Front(submission(10))).unwrap();
        real.finish(at);
        real.persist(usize::MAX);
        let to_apply = real.finish(at);
        real.member
            .handle(LoopInput::Apply(applied_up_to(last_committed(&to_apply).unwrap())))
            .unwrap();
        real.member.pass(100);
        real.finish(at);
        assert!(real.disk.is_empty());
    }
    assert_eq!(real.jobs.len(), 20);
    for job in &real.jobs {
        assert_eq!(job.entries.len(), 1);
        // The commit index is written with the next entry, behind that entry.
        let commit = job.hard_state.map_or(last_commit, |state| state.commit);
        assert!(commit >= last_commit);
        assert!(commit < job.entries[0].index);
        last_commit = commit;
    }
    assert!(last_commit > 15);
}

#[test]
fn a_full_disk_refuses_what_is_in_no_entry_and_keeps_the_order() {
    let mut real = leading(start());
    for at in 0..7 {
        real.member.handle(LoopInput::Front(submission(10))).unwrap();
        assert_eq!(refusals(&real.finish(at)), 0);
    }
    real.member.handle(LoopInput::DiskRoom { is_full: true }).unwrap();
    real.member.handle(LoopInput::Front(submission(10))).unwrap();
    let to_apply = real.finish(7);
    assert_eq!(refusals(&to_apply), 4);
    // A snapshot becomes due at once, to free the log before it.
    assert!(matches!(to_apply.last(), Some(ToApply::Freeze)));
    assert_eq!(to_apply.len(), 5);
    real.member.handle(LoopInput::DiskRoom { is_full: false }).unwrap();
    real.persist(usize::MAX);
    real.member.handle(LoopInput::Front(submission(10))).unwrap();
    let to_apply = real.finish(8);
    assert_eq!(refusals(&to_apply), 0);
    assert_eq!(packed(&real), [(1, 1); 5]);
}

#[test]
fn a_full_disk_does_not_refuse_what_loop_itself_has_to_say() {
    let mut real = leading(start_with(vec![attached(1, 5, 1_000)]));
    for at in 0..4 {
        real.member.handle(LoopInput::Front(submission(10))).unwrap();
        real.finish(at);
    }
    // The expiry of a session waits for the disk, and so does a client's command.
    for _ in 0..30 {
        real.member.pass(100);
        real.finish(4);
    }
    real.member.handle(LoopInput::Front(submission(10))).unwrap();
    real.member.handle(LoopInput::DiskRoom { is_full: true }).unwrap();
    assert_eq!(refusals(&real.finish(5)), 1);
    real.persist(usize::MAX);
    real.finish(6);
    assert_eq!(packed(&real), [(1, 1); 5]);
    assert_eq!(expired(&real), [(1, 5)]);
}

/// How many snapshots Apply was asked to begin.
fn freezes(to_apply: &[ToApply]) -> usize {
    to_apply.iter().filter(|message| matches!(message, ToApply::Freeze)).count()
}

#[test]
fn a_snapshot_that_finds_no_room_is_tried_again_after_a_while_and_when_there_is_room() {
    let mut real = leading(start());
    real.member.handle(LoopInput::Front(submission(10))).unwrap();
    real.finish(0);
    real.member.handle(LoopInput::DiskRoom { is_full: true }).unwrap();
    assert_eq!(freezes(&real.finish(0)), 1);
    let frozen = FromApply::Frozen {
        index: LogIndex(2),
        term: 1,
        mark: machine::Mark::default(),
        image_bytes_max: 0,
    };
    for wait_ms in [SNAPSHOT_RETRY_MS, SNAPSHOT_RETRY_MS, 0] {
        real.member.handle(LoopInput::Apply(frozen.clone())).unwrap();
        real.member.handle(LoopInput::Snapshot(FromSnapshot::Failed)).unwrap();
        assert_eq!(freezes(&real.finish(0)), 0);
        for _ in 0..(wait_ms / 100).saturating_sub(1) {
            real.member.pass(100);
            assert_eq!(freezes(&real.finish(0)), 0);
        }
        match wait_ms {
            0 => real.member.handle(LoopInput::DiskRoom { is_full: false }).unwrap(),
            _ => real.member.pass(100),
        }
        assert_eq!(freezes(&real.finish(0)), 1);
    }
}

/// A Loop whose state has `state_mib` MiB, and whose snapshot thread has set `room_mib` MiB aside.
fn with_room(state_mib: u64, room_mib: u64) -> Real {
    let mut real = leading(start());
    real.keep_room(2 << 20);
    let mut applied = applied_up_to(2);
    if let FromApply::Applied { image_bytes_max, .. } = &mut applied {
        *image_bytes_max = state_mib << 20;
    }
    real.member.handle(LoopInput::Apply(applied)).unwrap();
    real.finish(0);
    real.keep_room(room_mib << 20);
    real
}

#[test]
fn writes_are_refused_while_the_next_snapshot_has_no_room() {
    let mut real = with_room(50, 60);
    real.member.handle(LoopInput::Front(submission(10))).unwrap();
    let to_apply = real.finish(0);
    assert_eq!((refusals(&to_apply), freezes(&to_apply)), (1, 0));
    assert_eq!(real.yielded, [true]);
    assert_eq!(real.released, [1]);
    // Loop asks for room again and again.
    real.snapshot.clear();
    real.member.pass(SNAPSHOT_ROOM_RETRY_MS);
    real.finish(0);
    assert!(matches!(real.snapshot.front(), Some(SnapshotJob::KeepRoom(_))));
    real.keep_room(110 << 20);
    real.member.handle(LoopInput::Front(submission(10))).unwrap();
    assert_eq!(refusals(&real.finish(0)), 0);
    assert_eq!(real.yielded, [true, false]);
    assert_eq!(packed(&real), [(1, 1)]);
}

/// The state has grown faster than the snapshot thread answers. Whether the disk has more room or
/// not: before the answer, no write is packed or refused.
#[test]
fn writes_wait_for_the_answer_whether_the_next_snapshot_has_room() {
    for room_mib in [110, 60] {
        let mut real = with_room(0, 2);
        let mut applied = applied_up_to(2);
        if let FromApply::Applied { image_bytes_max, .. } = &mut applied {
            *image_bytes_max = 50 << 20;
        }
        real.member.handle(LoopInput::Apply(applied)).unwrap();
        real.member.handle(LoopInput::Front(submission(10))).unwrap();
        for _ in 0..3 {
            real.member.pass(100);
            assert_eq!(refusals(&real.finish(0)), 0);
        }
        assert!(packed(&real).is_empty());
        assert_eq!(real.member.waiting_count(), 1);
        real.keep_room(room_mib << 20);
        let refused = usize::from(room_mib == 60);
        assert_eq!(refusals(&real.finish(0)), refused);
        assert_eq!(packed(&real).len(), 1 - refused);
        assert_eq!(real.member.waiting_count(), 0);
    }
}

/// The snapshot thread hangs with its disk, so writes stop waiting for it after a while.
#[test]
fn writes_do_not_wait_for_ever_for_an_answer_about_room() {
    let mut real = with_room(0, 2);
    let mut applied = applied_up_to(2);
    if let FromApply::Applied { image_bytes_max, .. } = &mut applied {
        *image_bytes_max = 50 << 20;
    }
    real.member.handle(LoopInput::Apply(applied)).unwrap();
    real.member.handle(LoopInput::Front(submission(10))).unwrap();
    real.finish(0);
    assert!(packed(&real).is_empty());
    let mut waited_ms = 0;
    while packed(&real).is_empty() {
        let due_ms = real.member.due_ms();
        assert!(due_ms <= CLOCK_INTERVAL_MS);
        waited_ms += due_ms;
        assert!(waited_ms < SNAPSHOT_ROOM_ANSWER_MS_MAX + 2 * CLOCK_INTERVAL_MS);
        real.member.pass(due_ms);
        assert_eq!(refusals(&real.finish(0)), 0);
    }
    assert!(waited_ms >= SNAPSHOT_ROOM_ANSWER_MS_MAX);
}

/// A snapshot that failed for lack of room is tried again as soon as there is enough room for it,
/// even if there is too little to accept writes.
#[test]
fn a_snapshot_begins_as_soon_as_it_has_room() {
    let mut real = with_room(50, 110);
    real.member.handle(LoopInput::Front(submission(10))).unwrap();
    real.finish(0);
    real.persist(usize::MAX);
    assert_eq!(freezes(&real.finish(0)), 0);
    real.member.pass(SNAPSHOT_ROOM_RETRY_MS);
    real.keep_room(0);
    assert_eq!(freezes(&real.finish(0)), 1);
    let mark = machine::Mark::default();
    let frozen = FromApply::Frozen { index: LogIndex(2), term: 1, mark, image_bytes_max: 50 << 20 };
    real.member.handle(LoopInput::Apply(frozen)).unwrap();
    real.member.handle(LoopInput::Snapshot(FromSnapshot::Failed)).unwrap();
    assert_eq!(freezes(&real.finish(0)), 0);
    real.keep_room(40 << 20);
    assert_eq!(freezes(&real.finish(0)), 0);
    real.keep_room(60 << 20);
    assert_eq!(freezes(&real.finish(0)), 1);
    real.member.handle(LoopInput::Front(submission(10))).unwrap();
    assert_eq!(refusals(&real.finish(0)), 1);
}

#[test]
fn the_log_is_full_until_both_it_and_the_snapshot_have_room() {
    let mut real = with_room(50, 60);
    real.finish(0);
    real.member.handle(LoopInput::DiskRoom { is_full: true }).unwrap();
    real.finish(0);
    real.member.handle(LoopInput::DiskRoom { is_full: false }).unwrap();
    real.member.handle(LoopInput::Front(submission(10))).unwrap();
    assert_eq!(refusals(&real.finish(0)), 1);
    real.member.handle(LoopInput::DiskRoom { is_full: true }).unwrap();
    real.keep_room(110 << 20);
    real.finish(0);
    real.member.handle(LoopInput::Front(submission(10))).unwrap();
    assert_eq!(refusals(&real.finish(0)), 1);
    real.member.handle(LoopInput::DiskRoom { is_full: false }).unwrap();
    real.member.handle(LoopInput::Front(submission(10))).unwrap();
    assert_eq!(refusals(&real.finish(0)), 0);
}

/// The snapshot being written has its room, so writes go on; only the log gets no more segments.
#[test]
fn a_snapshot_that_uses_up_the_room_does_not_stop_writes_until_it_is_over() {
    let mut real = with_room(50, 110);
    real.member.handle(LoopInput::Front(submission(10))).unwrap();
    real.finish(0);
    real.persist(usize::MAX);
    real.finish(0);
    real.member.handle(LoopInput::DiskRoom { is_full: true }).unwrap();
    assert_eq!(freezes(&real.finish(0)), 1);
    real.member.handle(LoopInput::DiskRoom { is_full: false }).unwrap();
    let (index, mark) = (LogIndex(2), machine::Mark::default());
    real.member
        .handle(LoopInput::Apply(FromApply::Frozen {
            index,
            term: 1,
            mark,
            image_bytes_max: 50 << 20,
        }))
        .unwrap();
    real.keep_room(0);
    real.member.handle(LoopInput::Snapshot(FromSnapshot::PieceWritten)).unwrap();
    real.member.handle(LoopInput::Front(submission(10))).unwrap();
    assert_eq!(refusals(&real.finish(0)), 0);
    assert_eq!(real.yielded, [true]);
    // The snapshot has ended, and there is still no room for the next: so the log up to this
    // snapshot is released, although otherwise the log since the previous one is kept.
    real.member
        .handle(LoopInput::Apply(FromApply::Piece { bytes: Vec::new(), last: true }))
        .unwrap();
    real.member.handle(LoopInput::Snapshot(FromSnapshot::Finished { index: 2, term: 1 })).unwrap();
    real.member.handle(LoopInput::Front(submission(10))).unwrap();
    assert_eq!(refusals(&real.finish(0)), 1);
    assert_eq!(real.released.last(), Some(&2));
    real.keep_room(60 << 20);
    real.member.handle(LoopInput::Front(submission(10))).unwrap();
    assert_eq!(refusals(&real.finish(0)), 0);
    assert_eq!(real.yielded, [true, false]);
}

#[test]
fn nobody_expires_while_the_disk_is_full_and_then_everyone_has_a_full_timeout() {
    let mut real = leading(start_with(vec![attached(1, 5, 2_000)]));
    real.member.handle(LoopInput::DiskRoom { is_full: true }).unwrap();
    pass(&mut real, 20_000);
    assert_eq!(expired(&real), []);
    real.member.handle(LoopInput::DiskRoom { is_full: false }).unwrap();
    pass(&mut real, 2_200);
    assert_eq!(expired(&real), []);
    pass(&mut real, 1_100);
    assert_eq!(expired(&real), [(1, 5)]);
}

fn caller(front: u32, connection: u64) -> Caller {
    let (front, connection) = (FrontId(front), ConnectionId(connection));
    Caller { front, connection, ticket: Ticket(0) }
}

#[test]
fn a_sync_waits_for_an_index_that_holds_all_that_was_committed() {
    let mut real = leading(start());
    real.member.handle(LoopInput::Front(submission(10))).unwrap();
    real.finish(0);
    real.persist(usize::MAX);
    let committed = last_committed(&real.finish(0)).unwrap();
    real.member.handle(LoopInput::Front(ToLoop::Sync(caller(1, 9)))).unwrap();
    real.member.handle(LoopInput::Front(ToLoop::Sync(caller(0, 8)))).unwrap();
    let syncs: Vec<(u64, u32, u64)> = real
        .finish(0)
        .iter()
        .filter_map(|message| match message {
            ToApply::Sync { index, caller } => Some((index.0, caller.front.0, caller.connection.0)),
            _ => None,
        })
        .collect();
    assert_eq!(syncs, [(committed, 1, 9), (committed, 0, 8)]);
}

#[test]
fn a_sync_before_the_first_entry_of_the_term_waits_for_it() {
    let mut real = Real::new(start());
    real.member.handle(LoopInput::Front(ToLoop::Sync(caller(0, 1)))).unwrap();
    let early = real.finish(0);
    assert!(early.is_empty(), "{early:?}");
    real.persist(usize::MAX);
    let to_apply = real.finish(0);
    let first = last_committed(&to_apply).unwrap();
    let sync = to_apply.iter().find_map(|message| match message {
        ToApply::Sync { index, .. } => Some(index.0),
        _ => None,
    });
    assert_eq!(sync, Some(first));
}

#[test]
fn a_member_is_ready_once_and_only_when_it_has_applied_what_was_there() {
    let mut real = Real::new(start());
    real.finish(0);
    assert_eq!(real.ready, 0);
    real.persist(usize::MAX);
    let last = last_committed(&real.finish(0)).unwrap();
    assert_eq!(real.ready, 0);
    real.member.handle(LoopInput::Apply(applied_up_to(last))).unwrap();
    for _ in 0..5 {
        real.finish(0);
        real.member.pass(100);
    }
    assert_eq!(real.ready, 1);
}

#[test]
fn settings_that_differ_are_configured_before_a_member_is_ready() {
    let wanted = Settings { skip_acl: true, ..Settings::default() };
    let zk = zk::Options { settings: wanted.clone(), ..zk::Options::default() };
    let spaces = spaces(spaces::Options { zk, ..Default::default() });
    let real = Real::new(Start { spaces, ..start() });
    let mut rig = Rig::new(1, crate::fronts::zk::tests::rig::Engine::Real(Box::new(real)));
    for _ in 0..10 {
        assert_eq!(rig.real().ready == 1, *rig.machine.zk().settings() == wanted);
        rig.step_loop();
        rig.step_disk(1);
        rig.step_apply(1);
        rig.step_loop();
    }
    assert_eq!(rig.real().ready, 1);
    // The settings are configured once: there is the first entry of the term, and one with the
    // command.
    assert_eq!(packed(rig.real()), [(1, 1)]);
    assert_eq!(rig.machine.mark().ordinal, Ordinal(1));
}

#[test]
fn settings_that_are_the_same_are_not_configured() {
    let settings = Settings { skip_acl: true, ..Settings::default() };
    let zk = zk::Options { settings: settings.clone(), ..zk::Options::default() };
    let mut spaces = spaces(spaces::Options { zk, ..Default::default() });
    let zk = zk::News { settings: Some(settings.into()), ..zk::News::default() };
    spaces.on_applied(News { zk, ..News::default() });
    let real = leading(Start { spaces, ..start() });
    assert_eq!(packed(&real), []);
}

/// etcd's settings are not set before the state has etcd's level, nor does the leader compact
/// before.
#[test]
fn etcds_settings_are_configured_and_its_keys_compacted_once_the_level_has_them() {
    let etcd_settings = machine::etcd::Settings { txn_ops_max: 7, ..Default::default() };
    let auto_compaction = AutoCompaction::Periodic { ms: 1_000 };
    let known = crate::membership::hello::Known::up_to(Level::ETCD);
    let etcd = etcd::Options { settings: etcd_settings, auto_compaction, is_alone: false };
    let spaces = spaces(spaces::Options { etcd, ..Default::default() });
    let mut real = leading(Start { spaces, options: Options { known, ..options() }, ..start() });
    let pass = |real: &mut Real| {
        for _ in 0..25 {
            real.member.pass(100);
            real.finish(0);
            real.persist(usize::MAX);
        }
    };
    pass(&mut real);
    assert_eq!(packed(&real), []);
    let raised = FromApply::Raised(Level::ETCD.into());
    real.member.handle(LoopInput::Apply(raised)).unwrap();
    real.finish(0);
    assert_eq!(etcd_commands(&real), [EtcdCommand::Configure(etcd_settings)]);
    // Apply has run the command, so it is not submitted again. The revision has risen meanwhile.
    real.persist(usize::MAX);
    real.finish(0);
    real.jobs.clear();
    let (settings, revision) = (Some(etcd_settings), Some(50));
    let etcd = etcd::News { settings, revision, ..etcd::News::default() };
    let applied = applied_with(3, News { etcd, ..News::default() });
    real.member.handle(LoopInput::Apply(applied)).unwrap();
    pass(&mut real);
    let revisions = etcd_commands(&real).into_iter().map(|command| match command {
        EtcdCommand::Compact { revision } => revision,
        command => panic!("{command:?}"),
    });
    assert_eq!(revisions.collect::<Vec<i64>>(), [1, 50]);
    assert_eq!(real.member.counts().spaces.auto_compactions, 2);
}

/// The commands of etcd's space in the entries on the disk.
fn etcd_commands(real: &Real) -> Vec<EtcdCommand<'_>> {
    let mut commands = Vec::new();
    for entry in real.jobs.iter().flat_map(|job| &job.entries) {
        let header = entry::decode_header(&entry.payload).unwrap();
        let mut at = entry::HEADER_BYTES;
        for _ in 0..header.batch_count {
            let batch = entry::decode_batch(&entry.payload, at).unwrap();
            for framed in batch.commands(0, usize::MAX).unwrap() {
                match framed.command {
                    Command::Etcd(command) => commands.push(command),
                    command => panic!("{command:?}"),
                }
            }
            at = batch.end;
        }
    }
    commands
}

fn attached(session: i64, ordinal: u64, timeout_ms: u32) -> SessionChange {
    let (session, attached) = (SessionId(session), Ordinal(ordinal));
    SessionChange::Attached { session, attached, timeout_ms }
}

/// The sessions that the entries on the disk end, each with the attach that was judged.
fn expired(real: &Real) -> Vec<(i64, u64)> {
    let mut expired = Vec::new();
    for found in real.jobs.iter().flat_map(|job| &job.entries) {
        if found.payload.is_empty() {
            continue;
        }
        let batch = entry::decode_batch(&found.payload, entry::HEADER_BYTES).unwrap();
        let framed = batch.command(0).unwrap().unwrap();
        if let Command::Zk(ZkCommand::ExpireSessions { sessions }) = framed.command {
            expired.extend(sessions.iter().map(|(session, judged)| (session.0, judged.0)));
        }
    }
    expired.sort_unstable();
    expired
}

fn pass(real: &mut Real, ms: u64) {
    for _ in 0..ms / 100 {
        real.member.pass(100);
        real.finish(0);
        real.persist(usize::MAX);
        real.finish(0);
    }
}

#[test]
fn an_expiry_names_the_attach_it_judged_and_is_given_once() {
    let mut real = leading(start_with(vec![attached(1, 5, 2_000), attached(2, 6, 9_000)]));
    pass(&mut real, 2_200);
    assert_eq!(expired(&real), []);
    pass(&mut real, 1_100);
    assert_eq!(expired(&real), [(1, 5)]);
    pass(&mut real, 3_000);
    assert_eq!(expired(&real), [(1, 5)]);
    // A session that was attached again meanwhile is judged again.
    let index = LogIndex(real.jobs.last().unwrap().entries[0].index);
    let sessions = vec![attached(1, 8, 2_000)];
    real.member.handle(LoopInput::Apply(applied_with(index.0, news_of(sessions)))).unwrap();
    pass(&mut real, 2_200);
    assert_eq!(expired(&real), [(1, 5)]);
    pass(&mut real, 1_900);
    assert_eq!(expired(&real), [(1, 5), (1, 8), (2, 6)]);
}

#[test]
fn a_session_that_is_heard_from_lives_and_one_that_is_closed_is_forgotten() {
    let mut real = leading(start_with(vec![attached(1, 5, 2_000), attached(2, 6, 2_000)]));
    let index = real.member.progress.applied();
    let sessions = vec![SessionChange::Ended(SessionId(2))];
    real.member.handle(LoopInput::Apply(applied_with(index.0, news_of(sessions)))).unwrap();
    for _ in 0..20 {
        real.member
            .handle(LoopInput::Front(ToLoop::Heard(vec![Owner::Session(SessionId(1))])))
            .unwrap();
        pass(&mut real, 1_000);
    }
    assert_eq!(expired(&real), []);
}

#[test]
fn time_before_a_member_is_ready_expires_nobody() {
    let mut real = Real::new(start_with(vec![attached(1, 5, 1_000)]));
    for _ in 0..50 {
        real.member.pass(2_000);
        real.finish(0);
    }
    real.persist(usize::MAX);
    let last = last_committed(&real.finish(0)).unwrap();
    real.member.handle(LoopInput::Apply(applied_up_to(last))).unwrap();
    real.finish(0);
    assert_eq!(real.ready, 1);
    pass(&mut real, 1_100);
    assert_eq!(expired(&real), []);
    pass(&mut real, 1_200);
    assert_eq!(expired(&real), [(1, 5)]);
}

#[test]
fn a_process_that_was_paused_expires_nobody_at_once() {
    let mut real = leading(start_with(vec![attached(1, 5, 4_000)]));
    real.member.pass(3_600_000);
    real.finish(0);
    assert_eq!(expired(&real), []);
    real.member
        .handle(LoopInput::Front(ToLoop::Heard(vec![Owner::Session(SessionId(1))])))
        .unwrap();
    real.member.pass(3_600_000);
    real.finish(0);
    assert_eq!(expired(&real), []);
}

/// A rig whose Loop takes a snapshot after this many commands or bytes of log.
fn snapshotting(commands: u64, bytes: u64) -> Rig {
    let mut start = start();
    start.options.disk.snapshot_commands = commands;
    start.options.disk.snapshot_log = SnapshotLog::Bytes(bytes);
    Rig::with_loop(start)
}

#[test]
fn a_snapshot_is_taken_by_commands_and_its_log_released() {
    let mut rig = snapshotting(5, 1_000_000);
    rig.play("c1: connect\nc1: create /a x\nc1: set /a y\nc1: set /a z");
    assert_eq!(rig.real().finished, [0; 0]);
    rig.play("c1: set /a q");
    // The image is begun while the fifth command is not applied yet.
    let index = rig.machine.index().0;
    assert_eq!(rig.real().finished, [index - 1]);
    assert!(rig.real().pieces > 0);
    rig.play("c1: set /a 1\nc1: set /a 2\nc1: set /a 3\nc1: set /a 4");
    assert_eq!(rig.real().finished.len(), 1);
    rig.play("c1: set /a 5");
    assert_eq!(rig.real().finished.len(), 2);
    // The first snapshot releases no log: the one before it is that of the birth.
    assert_eq!(rig.real().released, [1, index - 1]);
}

#[test]
fn a_snapshot_is_taken_by_bytes() {
    let mut rig = snapshotting(1_000_000, 100_000);
    rig.play("c1: connect\nc1: create /a big:60000");
    assert_eq!(rig.real().finished.len(), 0);
    rig.play("c1: set /a big:60000");
    assert_eq!(rig.real().finished.len(), 1);
}

#[test]
fn writes_go_on_while_a_snapshot_is_taken() {
    let mut rig = snapshotting(3, 1_000_000);
    rig.play("c1: connect\nc1: create /a x");
    rig.line("c1~ set /a y");
    // An image is wanted, but the snapshot thread does nothing for now.
    for _ in 0..20 {
        rig.step_loop();
        rig.real().persist(usize::MAX);
        rig.step_apply(1);
        rig.step_deliver();
    }
    let at = rig.machine.index().0;
    rig.take_log();
    rig.line("c1~ set /a z | set /a q");
    for _ in 0..20 {
        rig.step_loop();
        rig.real().persist(usize::MAX);
        rig.step_apply(1);
        rig.step_deliver();
    }
    assert_eq!(rig.take_log().len(), 2);
    rig.run();
    let finished = rig.real().finished.clone();
    assert!(finished[0] <= at && at < rig.machine.index().0, "{finished:?}");
}

/// The next start of a member that played these lines, from the content of its disk.
fn restarted(rig: &mut Rig, script: &str) -> Start {
    rig.play(script);
    let jobs = rig.real().jobs.clone();
    let entries: Vec<storage::wal::LogEntry> =
        jobs.iter().flat_map(|job| job.entries.clone()).collect();
    let hard_state = jobs.iter().rev().find_map(|job| job.hard_state).unwrap();
    assert!(hard_state.commit < entries.last().unwrap().index);
    let membership = to_storage(&start().restored.membership);
    let point = storage::wal::SnapshotPoint { index: 1, term: 1 };
    let restored = to_restored(hard_state, membership, point, entries);
    let origin = Origin { boot: machine::BootId(4), ..ORIGIN };
    Start { origin, restored, ..start() }
}

#[test]
fn a_member_restored_from_its_disk_goes_on_where_it_was() {
    let mut rig = Rig::with_loop(start());
    let script = "c1: connect\nc1: create /a x | create /e x f1 | set /a y";
    let restart = restarted(&mut rig, script);
    let origin = restart.origin;
    let mut real = Real::new(restart);
    let mut machine = Machine::default();
    let mut apply = crate::Apply::new(origin, LogIndex(1), 1, machine::Level::RELEASED);
    for _ in 0..50 {
        real.finish(9).into_iter().for_each(|message| apply.receive(message));
        real.persist(usize::MAX);
        apply.step(&mut machine, 1);
        let to_loop = apply.take_output().to_loop;
        to_loop
            .into_iter()
            .for_each(|message| real.member.handle(LoopInput::Apply(message)).unwrap());
    }
    assert_eq!(real.ready, 1);
    assert_eq!(machine.digest(), rig.machine.digest());
    assert_eq!(machine.zk().deadlines(), rig.machine.zk().deadlines());
    // The session of the old boot is not forgotten: it will expire, and its ephemeral znode will
    // go.
    assert_eq!(real.member.spaces.held().deadlines, 1);
}

#[test]
fn a_snapshot_that_is_due_at_a_start_waits_for_the_end_of_the_replay() {
    let mut rig = Rig::with_loop(start());
    let script = "c1: connect\nc1: create /a x\nc1: set /a y\nc1: set /a z\nc1: set /a q";
    let restart = restarted(&mut rig, script);
    let replayed_to = restart.restored.hard_state.commit;
    let mut restart = Start { log_bytes: 1_000, ..restart };
    restart.options.disk.snapshot_log = SnapshotLog::Bytes(1_000);
    let mut real = Real::new(restart);
    for index in 2..=replayed_to {
        assert_eq!(freezes(&real.finish(9)), 0, "before entry {index} is applied");
        real.member.handle(LoopInput::Apply(applied_up_to(index))).unwrap();
    }
    assert_eq!(freezes(&real.finish(9)), 1);
}

#[test]
fn commands_of_the_loop_itself_are_nobodys() {
    let batch = own_batch(0, &Command::Zk(ZkCommand::Configure(Settings::default())));
    let stamped = batch.stamp(ORIGIN, 1);
    let payload = entry::encode(0, 0, machine::Level::FIRST, &[stamped]);
    let decoded = entry::decode_batch(&payload, entry::HEADER_BYTES).unwrap();
    assert_eq!(decoded.command(0).unwrap().unwrap().connection, ConnectionId(0));
}

/// Lets Loop look at the clock once, at this time. Returns the search that it asks Apply for.
fn search_at(real: &mut Real, wall_ms: i64) -> Option<machine::ContainerSearch> {
    real.member.pass(100);
    let to_apply = real.finish(wall_ms);
    real.persist(usize::MAX);
    real.finish(wall_ms);
    to_apply.into_iter().find_map(|message| match message {
        ToApply::Search(Search(search)) => Some(search),
        _ => None,
    })
}

#[test]
fn containers_that_were_found_are_removed_by_a_command() {
    let containers = zk::containers::ContainerSettings {
        check_interval_ms: 200,
        never_used_ms_max: 9,
        ..Default::default()
    };
    let mut real = leading(start_looking(containers));
    assert_eq!(search_at(&mut real, 50), None);
    let search = search_at(&mut real, 60).expect("the interval is over");
    assert_eq!((search.time_ms, search.never_used_ms_max), (60, 9));
    real.jobs.clear();
    let paths = vec!["/a".to_string(), "/b".to_string()];
    real.member
        .handle(LoopInput::Apply(FromApply::Found(Found(machine::ContainersFound {
            paths,
            next: None,
        }))))
        .unwrap();
    real.finish(70);
    let payload = &real.jobs[0].entries[0].payload;
    assert_eq!(entry::decode_header(payload).unwrap().time_ms, 70);
    let batch = entry::decode_batch(payload, entry::HEADER_BYTES).unwrap();
    let command = batch.command(0).unwrap().unwrap().command;
    let (paths, never_used_ms_max) = (vec!["/a", "/b"], 9);
    assert_eq!(command, Command::Zk(ZkCommand::DeleteContainers { paths, never_used_ms_max }));
    // If a search finds nothing, nothing is proposed.
    real.persist(usize::MAX);
    real.finish(80);
    real.jobs.clear();
    search_at(&mut real, 90);
    assert!(search_at(&mut real, 100).is_some());
    let found = machine::ContainersFound { paths: Vec::new(), next: None };
    real.member.handle(LoopInput::Apply(FromApply::Found(Found(found)))).unwrap();
    real.finish(110);
    assert!(real.jobs.is_empty());
}

#[test]
fn containers_are_not_looked_for_while_the_disk_is_full_or_before_the_member_is_ready() {
    let containers =
        zk::containers::ContainerSettings { check_interval_ms: 100, ..Default::default() };
    let mut real = Real::new(start_looking(containers.clone()));
    for _ in 0..9 {
        real.member.pass(100);
        let to_apply = real.finish(0);
        assert!(!to_apply.iter().any(|message| matches!(message, ToApply::Search(_))));
    }
    let mut real = leading(start_looking(containers));
    real.member.handle(LoopInput::DiskRoom { is_full: true }).unwrap();
    for at in 0..9 {
        assert_eq!(search_at(&mut real, at), None);
    }
    real.member.handle(LoopInput::DiskRoom { is_full: false }).unwrap();
    assert!(search_at(&mut real, 9).is_some());
}

/// A start with these settings for the search for containers.
fn start_looking(containers: zk::containers::ContainerSettings) -> Start {
    let zk = zk::Options { containers, ..zk::Options::default() };
    Start { spaces: spaces(spaces::Options { zk, ..Default::default() }), ..start() }
}

fn image(machine: &mut Machine, hash: u128) -> PreparedImage {
    PreparedImage { hash, machine: Box::new(copy(machine)) }
}

#[test]
fn an_image_replaces_the_state_and_is_kept_until_a_snapshot_covers_it() {
    let mut rig = snapshotting(1_000_000, 1_000_000);
    rig.play("c1: connect\nc1: create /a x");
    let first = image(&mut rig.machine, 1);
    rig.play("c1: create /b y");
    let second = image(&mut rig.machine, 2);
    // Loop has taken no snapshot so far: the test has frozen the machine to copy it.
    assert_eq!(rig.real().finished, [0; 0]);
    assert_eq!(rig.real().member.install(first), Ok(()));
    assert_eq!(rig.real().member.install(second), Err(InstallRefused::UnderWay));
    rig.run();
    assert!(rig.machine.zk().tree().find("/a").is_some());
    assert!(rig.machine.zk().tree().find("/b").is_none());
    let index = rig.machine.index().0;
    let real = rig.real();
    // The log since the previous snapshot is not kept: it could not be applied without the image.
    assert_eq!((&*real.finished, &*real.released), ([index].as_slice(), [index].as_slice()));
    assert_eq!(real.discarded, 1);
    assert_eq!(real.member.check_install(), Ok(()));
    rig.take_log();
    rig.play("c2: connect as=c1\nc2: create /b z");
    assert!(rig.machine.zk().tree().find("/b").is_some());
}

#[test]
fn an_image_of_a_level_that_is_not_known_is_refused() {
    let known = Known::up_to(Level::FIRST);
    let mut real = leading(Start { options: Options { known, ..options() }, ..start() });
    let raise = Command::Control(ControlCommand::Raise(Level::ETCD.into()));
    let mut machine = Machine::default();
    let stamp = Stamp { time_ms: 0, origin: ORIGIN, connection: ConnectionId(0), identities: &[] };
    machine.apply(&stamp, &raise, &mut Changes::default());
    let refused = InstallRefused::Level { level: Level::ETCD, level_max: Level::FIRST };
    assert_eq!(real.member.install(image(&mut machine, 1)), Err(refused));
    assert_eq!(real.member.check_install(), Ok(()), "nothing is under way");
}

#[test]
fn an_image_that_no_snapshot_covers_yet_is_not_discarded() {
    let mut real = leading(start());
    assert_eq!(real.member.install(image(&mut Machine::default(), 1)), Ok(()));
    real.finish(0);
    let installed = FromApply::Applied {
        index: LogIndex(3),
        news: News { is_replaced: true, ..News::default() },
        installed: Some(machine::Mark::default()),
        image_bytes_max: 0,
        own_sequence: 0,
    };
    real.persist(usize::MAX);
    real.finish(0);
    real.member.handle(LoopInput::Apply(installed)).unwrap();
    assert_eq!(real.member.check_install(), Err(InstallRefused::UnderWay));
    assert_eq!(freezes(&real.finish(0)), 1);
    // The snapshot finds no room: the next one that is written covers the installation as well.
    let (index, mark) = (LogIndex(3), machine::Mark::default());
    real.member
        .handle(LoopInput::Apply(FromApply::Frozen { index, term: 1, mark, image_bytes_max: 0 }))
        .unwrap();
    real.member.handle(LoopInput::Snapshot(FromSnapshot::Failed)).unwrap();
    real.finish(0);
    assert_eq!(real.member.check_install(), Err(InstallRefused::UnderWay));
}

#[test]
fn no_image_is_installed_before_a_member_is_ready_or_while_the_disk_is_full() {
    let mut real = Real::new(start());
    let refused = real.member.install(image(&mut Machine::default(), 1));
    assert_eq!(refused, Err(InstallRefused::NotLeader));
    let mut real = leading(start());
    real.member.handle(LoopInput::DiskRoom { is_full: true }).unwrap();
    let refused = real.member.install(image(&mut Machine::default(), 1));
    assert_eq!(refused, Err(InstallRefused::DiskFull));
}

#[test]
fn sessions_of_before_an_image_expire_no_more_and_those_of_it_have_a_full_timeout() {
    let mut real = leading(start_with(vec![attached(1, 5, 2_000)]));
    pass(&mut real, 1_900);
    let news = News { is_replaced: true, ..news_of(vec![attached(2, 9, 2_000)]) };
    real.member.handle(LoopInput::Apply(applied_with(2, news))).unwrap();
    pass(&mut real, 2_200);
    assert_eq!(expired(&real), []);
    pass(&mut real, 1_100);
    assert_eq!(expired(&real), [(2, 9)]);
}

#[test]
fn a_snapshot_that_is_wanted_is_taken_whatever_was_written() {
    let mut rig = snapshotting(1_000_000, 1_000_000);
    rig.play("c1: connect");
    for number in 1..3 {
        assert_eq!(rig.real().member.want_snapshot(), number);
        rig.run();
        assert_eq!(rig.real().finished.len(), number as usize);
    }
    // Both snapshots hold the same state, so the second one releases no more log.
    let index = rig.machine.index().0;
    assert_eq!(rig.real().finished, [index, index]);
    assert_eq!(rig.real().released, [1, 1]);
    rig.play("c1: create /a x");
    rig.real().member.want_snapshot();
    rig.run();
    assert_eq!(rig.real().released, [1, 1, index]);
}

#[test]
fn elections_are_counted_from_when_no_leader_is_known_until_one_is() {
    let mut counts = LoopCounts::at_start();
    let elections = |counts: &LoopCounts| (counts.looking_count, counts.election_time.count);
    counts.on_role(false, false, 10);
    assert_eq!((elections(&counts), counts.leading_since_ms), ((1, 0), None));
    counts.on_role(true, true, 30);
    assert_eq!((elections(&counts), counts.leading_since_ms), ((1, 1), Some(30)));
    assert_eq!(counts.election_time.last_ms, 30);
    // A leader begins to serve clients only later.
    assert_eq!(counts.unavailable_time.count, 0);
    counts.on_available(35);
    assert_eq!((counts.unavailable_time.count, counts.unavailable_time.last_ms), (1, 35));
    counts.on_available(36);
    assert_eq!(counts.unavailable_time.count, 1);
    counts.on_role(true, true, 40);
    assert_eq!((elections(&counts), counts.leading_since_ms), ((1, 1), Some(30)));
    counts.on_role(false, false, 50);
    counts.on_role(false, true, 70);
    assert_eq!((elections(&counts), counts.leading_since_ms), ((2, 2), None));
    assert_eq!(counts.election_time.last_ms, 20);

    // The member becomes ready under the second leader that it follows.
    counts.on_role(false, true, 80);
    counts.on_ready(83);
    let sync_time = counts.follower_sync_time;
    assert_eq!((sync_time.count, sync_time.last_ms), (1, 3));
    counts.on_role(true, true, 90);
    counts.on_ready(95);
    assert_eq!(counts.follower_sync_time, sync_time);

    assert_eq!(counts.proposal_bytes, None);
    for bytes in [7, 9, 3] {
        counts.on_proposal(1, bytes);
    }
    assert_eq!(counts.proposal_bytes, Some([3, 3, 9]));
}

/// Commands of three connections wait for a leader, and two of the connections end.
#[test]
fn what_nobody_waits_for_any_more_is_forgotten_before_a_leader_has_it() {
    let mut member = Loop::new(start()).unwrap();
    let submission = |front: u32, connection: u64| {
        let command = Command::Zk(ZkCommand::OpenSession {
            session: SessionId(connection as i64),
            password: [0; 16],
            timeout_ms: 4_000,
        });
        let batch = own_batch(connection, &command);
        let waiters = vec![Waiter::new(ConnectionId(connection), Ticket(0))];
        ToLoop::Submit(Submission { front: FrontId(front), batch, waiters })
    };
    [(0, 1), (0, 2), (0, 3), (1, 1)].into_iter().for_each(|(front, connection)| {
        member.handle(LoopInput::Front(submission(front, connection))).unwrap();
    });
    assert_eq!(member.waiting_count(), 4);
    member
        .handle(LoopInput::Front(ToLoop::Withdraw(
            FrontId(0),
            vec![ConnectionId(1), ConnectionId(3)],
        )))
        .unwrap();
    assert_eq!(member.waiting_count(), 2);
    // A client that connects again and again leaves no commands behind.
    for connection in 10..1_000 {
        member.handle(LoopInput::Front(submission(0, connection))).unwrap();
        member
            .handle(LoopInput::Front(ToLoop::Withdraw(FrontId(0), vec![ConnectionId(connection)])))
            .unwrap();
    }
    assert_eq!(member.waiting_count(), 2);
}
