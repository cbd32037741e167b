//! Tests on the real file system, below the build's own temporary directory.

use super::*;

fn disk(name: &str) -> RealDisk {
    let root = std::env::temp_dir().join(format!("quorate-storage-{}-{name}", std::process::id()));
    drop(std::fs::remove_dir_all(&root));
    RealDisk::new(root).expect("makes a directory")
}

fn clean(disk: &RealDisk) {
    std::fs::remove_dir_all(disk.root.as_path()).expect("removes");
}

#[test]
fn bytes_come_back_as_they_were_written() {
    let disk = disk("bytes");
    disk.create_dir("d").expect("makes a directory");
    disk.create_dir("d").expect("is there already");
    let file = disk.create("d/a").expect("creates");
    disk.preallocate(&file, 8192).expect("allocates");
    assert_eq!(disk.len(&file).expect("measures"), 8192);
    disk.write_at(&file, 8000, &[7; 400]).expect("writes");
    disk.preallocate(&file, 100).expect("never makes shorter");
    assert_eq!(disk.len(&file).expect("measures"), 8400);
    disk.sync_data(&file).expect("syncs");
    disk.rename("d/a", "d/b").expect("renames");
    disk.sync_dir("d").expect("syncs");
    disk.sync_dir("").expect("syncs");
    let file = disk.open_read_only("d/b").expect("opens");
    let mut buffer = [1; 500];
    assert_eq!(disk.read_at(&file, 7900, &mut buffer).expect("reads"), 500);
    assert_eq!(buffer[..100], [0; 100]);
    assert_eq!(buffer[100..], [7; 400]);
    assert_eq!(disk.read_at(&file, 9000, &mut buffer).expect("reads"), 0);
    assert!(disk.write_at(&file, 0, b"x").is_err());
    assert_eq!(disk.list("d").expect("lists"), ["b"]);
    assert!(disk.exists("d").expect("looks"));
    disk.remove("d/b").expect("removes");
    assert!(!disk.exists("d/b").expect("looks"));
    assert_eq!(disk.open("d/b").expect_err("is gone").kind(), io::ErrorKind::NotFound);
    clean(&disk);
}

#[test]
fn the_log_may_lie_in_another_directory() {
    let disk = disk("log-elsewhere");
    let log_root = disk.path("mount/log");
    let disk = disk.with_log(&log_root).expect("makes the directory");
    for dir in [WAL_DIR, "snapshots", "walnuts"] {
        disk.create_dir(dir).expect("makes a directory");
        drop(disk.create(&format!("{dir}/a")).expect("creates"));
        disk.sync_dir(dir).expect("syncs");
    }
    disk.sync_dir("").expect("syncs both");
    assert_eq!(disk.list("").expect("lists"), ["mount", "snapshots", "walnuts"]);
    assert!(log_root.join("wal/a").is_file());
    assert_eq!(disk.list(WAL_DIR).expect("lists"), ["a"]);
    // Each root's directories are set aside within that root.
    let aside = format!("{SET_ASIDE_PREFIX}1");
    disk.create_dir(&aside).expect("makes both");
    for dir in [WAL_DIR, "snapshots"] {
        disk.rename(dir, &format!("{aside}/{dir}")).expect("moves");
    }
    disk.sync_dir(&aside).expect("syncs both");
    assert!(log_root.join(&aside).join("wal/a").is_file());
    assert!(disk.root.join(&aside).join("snapshots/a").is_file());
    assert_eq!(disk.list(&format!("{aside}/{WAL_DIR}")).expect("lists"), ["a"]);
    assert!(!disk.exists(WAL_DIR).expect("looks"));
    clean(&disk);
}

#[test]
fn the_name_of_each_directory_that_is_made_is_synced() {
    let disk = disk("names");
    let (root, mut synced) = (disk.path("a/b/c"), Vec::new());
    let mut create = |path: &Path| {
        create_directories(path, &mut |parent| {
            synced.push(parent.to_owned());
            sync_directory(parent)
        })
        .expect("makes the directories");
        core::mem::take(&mut synced)
    };
    assert_eq!(create(&root), [disk.path(""), disk.path("a"), disk.path("a/b")]);
    assert!(create(&root).is_empty());
    assert_eq!(create(&disk.path("a/b/d/")), [disk.path("a/b")]);
    assert!(root.is_dir());
    RealDisk::new(disk.path("e/f")).expect("makes the directories");
    assert!(disk.path("e/f").is_dir());
    clean(&disk);
}

#[test]
fn a_file_in_the_place_of_the_root_is_an_error() {
    let disk = disk("file");
    disk.create("a").expect("creates");
    RealDisk::new(disk.path("a")).expect_err("is a file");
    RealDisk::new(disk.path("a/b")).expect_err("lies below a file");
    clean(&disk);
}

#[test]
fn a_lock_excludes_another_handle_until_it_is_dropped() {
    let disk = disk("lock");
    let lock = disk.lock("LOCK").expect("locks");
    let refused = disk.lock("LOCK").expect_err("is taken");
    assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
    drop(lock);
    disk.lock("LOCK").expect("locks");
    clean(&disk);
}
