//! The disk in memory must lose what a real disk may lose: other tests rely on that.

use std::collections::BTreeSet;

use super::*;

fn content(disk: &FaultDisk, path: &str) -> Vec<u8> {
    disk.content(path).unwrap_or_default()
}

#[test]
fn unsynced_writes_are_kept_lost_or_torn_and_synced_ones_stay() {
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let disk = FaultDisk::new(seed);
        let file = disk.create("a").expect("creates");
        disk.write_at(&file, 0, &[1; 1536]).expect("writes");
        disk.sync_data(&file).expect("syncs");
        disk.sync_dir("").expect("syncs");
        disk.write_at(&file, 0, &[2; 1536]).expect("writes");
        disk.crash();
        let found = content(&disk, "a");
        assert_eq!(found.len(), 1536);
        let sectors: Vec<u8> = found.chunks(512).map(|sector| sector[0]).collect();
        assert!(found.chunks(512).all(|sector| sector.iter().all(|byte| *byte == sector[0])));
        seen.insert(sectors);
    }
    assert_eq!(seen.len(), 8, "every mix of sectors happens");
}

#[test]
fn of_unsynced_names_a_prefix_survives() {
    let mut seen = BTreeSet::new();
    for seed in 0..100 {
        let disk = FaultDisk::new(seed);
        disk.create("a").expect("creates");
        disk.rename("a", "b").expect("renames");
        disk.create("c").expect("creates");
        disk.remove("b").expect("removes");
        disk.crash();
        seen.insert(disk.paths());
    }
    let expected: BTreeSet<Vec<String>> = [vec![], vec!["a"], vec!["b"], vec!["b", "c"], vec!["c"]]
        .iter()
        .map(|names| names.iter().map(|name| (*name).to_owned()).collect())
        .collect();
    assert_eq!(seen, expected);
}

#[test]
fn a_kill_keeps_everything_visible_and_nothing_durable() {
    let mut is_lost = false;
    for seed in 0..50 {
        let disk = FaultDisk::new(seed);
        let file = disk.create("a").expect("creates");
        disk.sync_dir("").expect("syncs");
        disk.write_at(&file, 0, b"abc").expect("writes");
        disk.kill();
        assert_eq!(content(&disk, "a"), b"abc");
        assert!(disk.write_at(&file, 0, b"x").is_err(), "the handle is dead");
        disk.crash();
        is_lost |= content(&disk, "a").is_empty();
    }
    assert!(is_lost);
}

#[test]
fn after_a_failed_sync_a_later_one_makes_nothing_durable() {
    let mut is_lost = false;
    for seed in 0..50 {
        let disk = FaultDisk::new(seed);
        let file = disk.create("a").expect("creates");
        disk.sync_dir("").expect("syncs");
        disk.write_at(&file, 0, b"abc").expect("writes");
        disk.set_plan(FaultPlan { fail: vec![(Operation::Sync, 0)], ..FaultPlan::default() });
        disk.sync_data(&file).expect_err("is told to fail");
        disk.sync_data(&file).expect("says that all is well");
        assert_eq!(content(&disk, "a"), b"abc");
        disk.crash();
        is_lost |= content(&disk, "a").is_empty();
    }
    assert!(is_lost);
}

#[test]
fn everything_fails_from_the_stop_on() {
    let disk = FaultDisk::new(1);
    let file = disk.create("a").expect("creates");
    disk.set_plan(FaultPlan { stop_at: Some(disk.ops() + 1), ..FaultPlan::default() });
    disk.write_at(&file, 0, b"a").expect("comes before the stop");
    disk.write_at(&file, 1, b"b").expect_err("is the stop");
    assert_eq!(content(&disk, "a"), b"ab", "it may have taken effect");
    disk.write_at(&file, 2, b"c").expect_err("comes after");
    disk.len(&file).expect_err("comes after");
    disk.open("a").expect_err("comes after");
    assert_eq!(content(&disk, "a"), b"ab");
}

#[test]
fn the_byte_budget_is_enforced_and_overwriting_is_free() {
    let disk = FaultDisk::new(1);
    let first = disk.create("a").expect("creates");
    let second = disk.create("b").expect("creates");
    disk.set_plan(FaultPlan { bytes_max: Some(100), ..FaultPlan::default() });
    disk.preallocate(&first, 60).expect("fits");
    disk.write_at(&second, 0, &[1; 40]).expect("fits exactly");
    let refused = disk.write_at(&second, 40, &[1]).expect_err("is one too many");
    assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
    disk.write_at(&first, 0, &[1; 60]).expect("is allocated");
    drop(second);
    disk.remove("b").expect("removes");
    disk.preallocate(&first, 100).expect("there is room again");
}

#[test]
fn slow_syncs_are_reported_once() {
    let disk = FaultDisk::new(1);
    let file = disk.create("a").expect("creates");
    disk.set_plan(FaultPlan { sync_delay_us: 700, ..FaultPlan::default() });
    disk.sync_data(&file).expect("syncs");
    disk.sync_data(&file).expect("syncs");
    assert_eq!(disk.take_sync_delay_us(), 1400);
    assert_eq!(disk.take_sync_delay_us(), 0);
}

#[test]
fn one_seed_gives_one_outcome() {
    let run = || {
        let disk = FaultDisk::new(77);
        for name in ["a", "b", "c"] {
            let file = disk.create(name).expect("creates");
            disk.write_at(&file, 0, &[5; 5000]).expect("writes");
        }
        disk.crash();
        let paths = disk.paths();
        paths.iter().map(|path| content(&disk, path)).collect::<Vec<Vec<u8>>>()
    };
    assert_eq!(run(), run());
}

#[test]
fn a_lock_is_held_as_long_as_its_handle_and_ends_with_the_process() {
    let disk = FaultDisk::new(1);
    let lock = disk.lock("LOCK").expect("locks");
    assert!(lock.is_lock());
    let refused = disk.lock("LOCK").expect_err("is taken");
    assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
    disk.kill();
    let other = disk.lock("LOCK").expect("locks");
    // The handle of the dead process must not release the lock of the living one.
    drop(lock);
    disk.lock("LOCK").expect_err("is taken");
    drop(other);
    disk.lock("LOCK").expect("locks");
}

#[test]
fn what_is_in_a_lost_directory_is_lost() {
    let mut seen = BTreeSet::new();
    for seed in 0..50 {
        let disk = FaultDisk::new(seed);
        disk.create_dir("d").expect("makes a directory");
        let file = disk.create("d/a").expect("creates");
        disk.sync_data(&file).expect("syncs");
        disk.sync_dir("d").expect("syncs");
        disk.crash();
        seen.insert((disk.exists("d").expect("looks"), disk.exists("d/a").expect("looks")));
    }
    assert_eq!(seen, BTreeSet::from([(false, false), (true, true)]));
}

#[test]
fn what_somebody_removes_is_gone_for_good() {
    let disk = FaultDisk::new(1);
    for dir in ["d", "dd"] {
        disk.create_dir(dir).expect("makes a directory");
        disk.create(&format!("{dir}/a")).expect("creates");
    }
    disk.sync_dir("").expect("syncs");
    disk.sync_dir("dd").expect("syncs");
    disk.kill();
    disk.lose_tree("d");
    assert_eq!(disk.paths(), ["dd/a"]);
    // Changes that were not durable do not come back.
    disk.sync_dir("d").expect("syncs");
    disk.crash();
    assert!(!disk.exists("d").expect("looks"));
    assert_eq!(disk.paths(), ["dd/a"]);
    disk.lose_tree("");
    assert_eq!(disk.list("").expect("lists"), Vec::<String>::new());
}
