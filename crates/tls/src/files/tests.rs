#![allow(clippy::unwrap_used)]

use std::cell::Cell;
use std::fs;

use super::*;

/// A store and a path for a list, in a folder of their own.
fn files(name: &str) -> (PathBuf, Files) {
    let folder = std::env::temp_dir().join(format!("tls-files-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("store"), "1").unwrap();
    let store = StoreFile {
        path: folder.join("store"),
        key_path: None,
        kind: None,
        password: Password::Text(String::new()),
        place: crate::settings::Place::of("a file"),
        key: "key".to_string(),
    };
    let rules = CertificateRules { names: None, revoked: Some(folder.join("list")) };
    let files = Files::new([&store], &rules);
    (folder, files)
}

#[test]
fn stores_and_the_list_are_read_when_they_change_and_independently() {
    let (folder, files) = files("change");
    let read_count = Cell::new(0);
    let fails = Cell::new(false);
    let read = || {
        read_count.set(read_count.get() + 1);
        if fails.get() { Err("it fails".to_string()) } else { Ok(()) }
    };
    let check = || files.read_changed(read);
    check();
    assert_eq!(read_count.get(), 0, "nothing has changed");
    fs::write(folder.join("list"), "no list").unwrap();
    check();
    assert_eq!(read_count.get(), 0, "the list is no store");
    fs::write(folder.join("store"), "22").unwrap();
    check();
    check();
    assert_eq!(read_count.get(), 1);
    fs::remove_file(folder.join("store")).unwrap();
    check();
    assert_eq!(read_count.get(), 2);
    files.read_all(read);
    assert_eq!(read_count.get(), 3, "changed or not");
    fails.set(true);
    files.read_all(read);
    check();
    assert_eq!(read_count.get(), 5, "it could not be read before");
    fails.set(false);
    check();
    check();
    assert_eq!(read_count.get(), 6, "it has been read since");
    fs::remove_dir_all(folder).unwrap();
}
