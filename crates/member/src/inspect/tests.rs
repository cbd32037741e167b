use machine::entry::{self, BatchBuilder, encode_identities};
use machine::etcd::command::{Command as EtcdCommand, Put};
use machine::image::FreezeStep;
use machine::{BootId, Command, ConnectionId, MemberId, Origin};
use storage::datadir::{self, Identity, Opened};
use storage::fault_disk::FaultDisk;
use storage::record::{LogEntry, Membership, SnapshotPoint};
use storage::snapshot::{SnapshotMeta, SnapshotWriter};
use storage::wal::{Wal, WalOptions};

use super::*;

/// Options with small segments, so that a short log has several.
pub(crate) const OPTIONS: WalOptions = WalOptions {
    segment_bytes: 64 * 1024,
    first_segment_bytes: 64 * 1024,
    group: 0,
    spare_count: 1,
};

pub(crate) const IDENTITY: Identity = Identity { cluster_id: 5, member_id: 6 };
const ORIGIN: Origin = Origin { member: MemberId(6), boot: BootId(1) };

pub(crate) fn membership() -> Membership {
    Membership { voters: vec![IDENTITY.member_id], ..Membership::default() }
}

/// An entry that puts one key, with a value that contains the entry's index and term.
pub(crate) fn put(index: u64, term: u64) -> LogEntry {
    let (key, value) =
        (format!("key {}", index % 7), format!("{index} of term {term}").repeat(200));
    let command = EtcdCommand::Put(Put {
        key: key.as_bytes(),
        value: value.as_bytes(),
        lease: 0,
        prev_kv: false,
        ignore_value: false,
        ignore_lease: false,
    });
    let mut builder = BatchBuilder::default();
    let identities = encode_identities([].into_iter());
    builder.push(ConnectionId(1), &identities, &Command::Etcd(command)).expect("it fits");
    let batch = builder.finish().stamp(ORIGIN, index - 1);
    let payload = entry::encode(1, 0, Level::ETCD, &[batch]);
    LogEntry { index, term, kind: EntryKind::Normal, payload }
}

/// The state after these entries, applied to an empty state.
pub(crate) fn state_after(entries: &[LogEntry]) -> Machine {
    let mut machine = Machine::default();
    for it in entries {
        let (index, term, kind) = (it.index, it.term, it.kind.as_u8());
        let entry = SeenEntry { index, term, kind, payload: &it.payload };
        apply(&FaultDisk::new(0), &mut machine, &entry).expect("it is decoded");
    }
    machine
}

/// The pieces of an image of the state.
pub(crate) fn pieces(machine: &mut Machine) -> Vec<Vec<u8>> {
    machine.freeze();
    let mut pieces = Vec::new();
    loop {
        match machine.freeze_step(usize::MAX, u32::MAX) {
            FreezeStep::Piece(piece) => pieces.push(piece),
            FreezeStep::Last(piece) => {
                pieces.push(piece);
                return pieces;
            }
            FreezeStep::Aborted => unreachable!("nothing changes it"),
        }
    }
}

/// A directory whose log has these writes, and whose snapshot is an empty state.
pub(crate) fn born(writes: &[LogEntry]) -> (FaultDisk, Wal<FaultDisk>) {
    let disk = FaultDisk::new(1);
    let Ok(Opened::Empty(empty)) = datadir::open(disk.clone()) else { panic!("it is empty") };
    let pieces = pieces(&mut state_after(&[]));
    let dir = empty
        .birth(IDENTITY, &membership(), (datadir::BIRTH_POINT, &pieces), &OPTIONS)
        .expect("is born");
    dir.next_boot().expect("counts");
    let (mut wal, _) = Wal::open(disk.clone(), OPTIONS).expect("opens");
    for it in writes {
        wal.append(core::slice::from_ref(it), None, None).expect("appends");
        wal.commit().expect("commits");
    }
    (disk, wal)
}

pub(crate) fn write_snapshot(disk: &FaultDisk, point: SnapshotPoint, machine: &mut Machine) {
    let SnapshotPoint { index, term } = point;
    let cluster_id = IDENTITY.cluster_id;
    let meta = SnapshotMeta { index, term, cluster_id, membership: membership() };
    let mut writer = SnapshotWriter::create(disk.clone(), &meta).expect("creates");
    pieces(machine).iter().for_each(|piece| writer.write_piece(piece).expect("writes"));
    writer.finish().expect("finishes");
}

/// The writes to a log in which a later leader replaced some entries, and the entries that remain
/// valid.
fn replaced() -> (Vec<LogEntry>, Vec<LogEntry>) {
    let of_term = |range: core::ops::Range<u64>, term| range.map(move |index| put(index, term));
    let writes = of_term(2..80, 1).chain(of_term(60..120, 2)).collect();
    (writes, of_term(2..60, 1).chain(of_term(60..120, 2)).collect())
}

#[test]
fn the_state_has_the_entries_that_count() {
    let (writes, entries) = replaced();
    let (disk, _wal) = born(&writes);
    let held = held_state(&disk).expect("it is sound");
    assert_eq!((held.index, held.last_index, held.ended), (119, 119, None));
    assert_eq!(held.machine.digest(), state_after(&entries).digest());
}

/// A server that runs on the directory meanwhile takes a snapshot and deletes segments.
#[test]
fn segments_may_go_while_the_log_is_read() {
    let (writes, entries) = replaced();
    let (disk, mut wal) = born(&writes);
    let (mut terms, mut seen_count) = (Terms::default(), 0);
    storage::inspect::inspect_log(&disk, &mut |entry| {
        terms.add(entry.index, entry.term);
        seen_count += 1;
        Ok(())
    });
    assert_eq!(seen_count, writes.len());
    let point = SnapshotPoint { index: 40, term: 1 };
    let snapshot = &entries[..39];
    write_snapshot(&disk, point, &mut state_after(snapshot));
    wal.release(point).expect("releases");
    let (meta, machine) = restore_newest(&disk, 0, |_| {}).expect("it is sound");
    assert_eq!(meta.index, 40);
    let mut held = HeldState { machine, index: meta.index, last_index: 119, ended: None };
    let mut left_count = 0;
    storage::inspect::inspect_log(&disk, &mut |_| {
        left_count += 1;
        Ok(())
    });
    assert!((1..seen_count).contains(&left_count), "{left_count} of {seen_count}");
    held.apply_log(&disk, &terms, 119);
    assert_eq!((held.index, held.ended), (119, None));
    assert_eq!(held.machine.digest(), state_after(&entries).digest());
}

/// Which entries of a log count, as positions in `log`. An entry of `log` is its index and term.
fn that_count(log: &[(u64, u64)]) -> Vec<usize> {
    let mut terms = Terms::default();
    log.iter().for_each(|(index, term)| terms.add(*index, *term));
    (0..log.len()).filter(|at| terms.counts(log[*at].0, log[*at].1)).collect()
}

#[test]
fn an_entry_that_was_written_again_counts_where_it_stands_last() {
    assert_eq!(that_count(&[(5, 1), (6, 1), (7, 2)]), [0, 1, 2]);
    assert_eq!(that_count(&[(5, 1), (6, 1), (7, 1), (6, 2), (7, 2), (8, 2)]), [0, 3, 4, 5]);
    // If an entry is written again, the entries behind its first place are gone.
    assert_eq!(that_count(&[(5, 1), (6, 1), (7, 1), (8, 1), (6, 2)]), [0, 4]);
    assert_eq!(that_count(&[(5, 1), (6, 1), (5, 2)]), [2]);
    // A correct log never has these entries.
    assert_eq!(that_count(&[(5, 1), (9, 1), (6, 1), (3, 1)]), [0, 2]);
    assert_eq!(that_count(&[]), [0; 0]);
}

#[test]
fn a_snapshot_of_another_index_than_its_file_says_is_damage() {
    let (disk, _wal) = born(&[put(2, 1), put(3, 1)]);
    write_snapshot(&disk, SnapshotPoint { index: 3, term: 1 }, &mut state_after(&[put(2, 1)]));
    let mut skipped = Vec::new();
    let (meta, _) = restore_newest(&disk, 0, |error| skipped.push(error.to_string())).unwrap();
    assert_eq!(meta.index, datadir::BIRTH_POINT.index);
    let [said] = &skipped[..] else { panic!("{skipped:?}") };
    let what = "the state is the one at entry 2, and the snapshot that at 3";
    assert!(said.contains(what), "{said}");
}
