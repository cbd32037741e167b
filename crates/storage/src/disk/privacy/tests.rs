use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};

use super::*;
use crate::disk::{Disk, WAL_DIR};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("quorate-privacy-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        drop(fs::remove_dir_all(&path));
        fs::DirBuilder::new().mode(0o700).create(&path).expect("makes a directory");
        Folder(path)
    }

    fn dir(&self, name: &str, mode: u32) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir(&path).expect("makes a directory");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("sets its mode");
        path
    }

    fn file(&self, name: &str, mode: u32) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, "text").expect("writes");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("sets its mode");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().expect("is there").mode() & 0o7777
}

fn is_own(name: &str) -> bool {
    name == "own" || name == "wal"
}

#[test]
fn what_is_made_is_for_the_owner_alone() {
    let folder = Folder::new("made");
    let (root, log_root) = (folder.0.join("a/b"), folder.0.join("c"));
    let disk = RealDisk::new(&root).and_then(|disk| disk.with_log(&log_root)).expect("makes both");
    disk.create_dir("d").expect("makes a directory");
    disk.create_dir(WAL_DIR).expect("makes the log's directory");
    disk.create("d/created").expect("creates");
    disk.create_new("d/new").expect("creates");
    disk.open_or_create("wal/opened").expect("creates");
    disk.lock("lock").expect("creates");
    for dir in ["a", "a/b", "a/b/d", "c", "c/wal"] {
        assert_eq!(mode(&folder.0.join(dir)), DIR_MODE, "{dir}");
    }
    for file in ["a/b/d/created", "a/b/d/new", "a/b/lock", "c/wal/opened"] {
        assert_eq!(mode(&folder.0.join(file)), FILE_MODE, "{file}");
    }
    assert!(disk.close_to_others(|_| true, 2).is_empty());
}

#[test]
fn what_exists_is_closed_to_others_and_stays_open_to_its_group() {
    let folder = Folder::new("exists");
    let root = folder.dir("root", 0o755);
    let (below, deep) = (folder.dir("root/own", 0o2775), folder.dir("root/own/dir", 0o777));
    let (file, deeper) =
        (folder.file("root/own/file", 0o646), folder.file("root/own/dir/x", 0o644));
    let log_root = folder.dir("log-root", 0o705);
    let disk = RealDisk::existing(&root).with_existing_log(&log_root);
    let exposed = disk.close_to_others(is_own, 2);
    assert!(matches!(&exposed[..], [Exposure::Group { path }] if *path == root), "{exposed:?}");
    let advice = format!("chmod -R g-rwx {}", root.display());
    assert!(exposed[0].to_string().ends_with(&advice), "{}", exposed[0]);
    let modes = [&root, &below, &deep, &file, &log_root].map(|path| mode(path));
    assert_eq!(modes, [0o750, 0o2770, 0o770, 0o640, 0o700]);
    assert_eq!(mode(&deeper), 0o644, "it lies behind closed directories");
}

#[test]
fn a_directory_that_others_use_stays_open_and_what_is_in_it_does_not() {
    for (name, root_mode) in [("sticky", 0o1777), ("shared", 0o755)] {
        let folder = Folder::new(name);
        let root = folder.dir("root", root_mode);
        let own = folder.dir("root/own", 0o755);
        let strange = folder.file(if name == "shared" { "root/other" } else { "other" }, 0o644);
        let exposed = RealDisk::existing(&root).close_to_others(is_own, 2);
        assert!(matches!(&exposed[0], Exposure::Shared { path } if *path == root), "{exposed:?}");
        assert_eq!([&root, &own, &strange].map(|path| mode(path)), [root_mode, 0o750, 0o644]);
    }
}

#[test]
fn a_symbolic_link_to_a_directory_is_followed_and_one_to_a_file_refused() {
    let folder = Folder::new("links");
    let (real, wal) = (folder.dir("real", 0o755), folder.dir("elsewhere", 0o755));
    let other = folder.file("other", 0o644);
    symlink(&real, folder.0.join("root")).expect("links");
    symlink(&wal, real.join("wal")).expect("links");
    symlink(&other, real.join("own")).expect("links");
    let disk = RealDisk::existing(folder.0.join("root"));
    let exposed = disk.close_to_others(is_own, 2);
    assert!(matches!(&exposed[..], [Exposure::Group { .. }]), "{exposed:?}");
    assert_eq!([&real, &wal, &other].map(|path| mode(path)), [0o750, 0o755, 0o644]);
    disk.create("wal/file").expect("creates in a linked directory");
    let refused = [
        disk.open("own"),
        disk.open_read_only("own"),
        disk.create("own"),
        disk.open_or_create("own"),
        disk.lock("own"),
    ];
    for refused in refused {
        let text = refused.expect_err("is refused").to_string();
        assert_eq!(text, "it is a symbolic link, and a server's own files are none");
    }
    assert!(disk.create_new("own").is_err());
    assert_eq!(fs::read(&other).expect("reads"), b"text");
}

/// In `/proc`, nobody can change a mode.
#[test]
fn what_cannot_be_changed_is_told() {
    let exposed = RealDisk::existing("/proc/self/task").close_to_others(|_| true, 0);
    let is_told = |it: &Exposure| matches!(it, Exposure::Others { .. });
    assert!(exposed.iter().any(is_told), "{exposed:?}");
}
