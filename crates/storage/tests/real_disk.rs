//! All of storage on the real file system: birth, writes, restart, inspection.
#![expect(
    clippy::disallowed_methods,
    reason = "these tests are about the real file system, and threads"
)]

use storage::datadir::{self, Identity, Opened};
use storage::disk::RealDisk;
use storage::inspect::inspect;
use storage::snapshot::{SnapshotReader, snapshot_name};
use storage::wal::{EntryKind, LogEntry, Membership, SnapshotPoint, Wal, WalOptions};

fn options() -> WalOptions {
    WalOptions {
        segment_bytes: 1024 * 1024,
        first_segment_bytes: 256 * 1024,
        ..WalOptions::default()
    }
}

fn entry(index: u64) -> LogEntry {
    LogEntry { index, term: 1, kind: EntryKind::Normal, payload: vec![index as u8; 20_000].into() }
}

#[test]
fn a_server_is_born_lives_and_comes_back() {
    let name = format!("quorate-storage-{}-life", std::process::id());
    let root = std::env::temp_dir().join(name);
    let disk = RealDisk::new(&root).expect("makes a directory");
    let Ok(Opened::Empty(empty)) = datadir::open(disk.clone()) else {
        panic!("it is empty");
    };
    let identity = Identity { cluster_id: 1, member_id: 2 };
    let members = Membership { voters: vec![2], ..Membership::default() };
    let dir = empty
        .birth(
            identity,
            &members,
            (storage::datadir::BIRTH_POINT, &[b"image".to_vec()]),
            &options(),
        )
        .expect("is born");
    assert_eq!(dir.next_boot().expect("counts"), 1);
    let (mut wal, _) = Wal::open(disk.clone(), options()).expect("opens");
    for index in 2..400 {
        wal.append(&[entry(index)], None, None).expect("appends");
        wal.commit().expect("commits");
        if let Some(mut job) = wal.spare_wanted() {
            let clone = disk.clone();
            let worker = std::thread::spawn(move || {
                while !job.step(&clone).expect("steps") {}
                job
            });
            wal.adopt_spare(worker.join().expect("ends"));
        }
    }
    wal.release(SnapshotPoint { index: 300, term: 1 }).expect("releases");
    drop(wal);
    drop(dir);

    let Ok(Opened::Existing(dir)) = datadir::open(disk.clone()) else {
        panic!("it was born");
    };
    assert_eq!(dir.identity(), identity);
    assert_eq!(dir.next_boot().expect("counts"), 2);
    let (_, recovered) = Wal::open(disk.clone(), options()).expect("opens");
    assert_eq!(recovered.entries, (301..400).map(entry).collect::<Vec<_>>());
    assert_eq!(recovered.membership, members);
    let mut reader = SnapshotReader::open(disk.clone(), &snapshot_name(1, 1)).expect("opens");
    assert_eq!(reader.next_piece().expect("reads"), Some(b"image".to_vec()));
    assert_eq!(reader.next_piece().expect("reads"), None);

    let report = inspect(&RealDisk::existing(&root), &mut |_| Ok(()));
    // The log was released up to 300 without a snapshot: that is the only problem.
    assert_eq!(report.problems.len(), 1, "{report}");
    std::fs::remove_dir_all(root).expect("removes");
}

#[test]
fn the_log_can_move_to_another_thread() {
    fn is_send<T: Send>() {}
    is_send::<Wal<RealDisk>>();
    is_send::<storage::wal::SpareJob<RealDisk>>();
    is_send::<storage::snapshot::SnapshotWriter<RealDisk>>();
    is_send::<storage::snapshot::SnapshotReader<RealDisk>>();
}
