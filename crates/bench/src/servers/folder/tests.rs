use super::*;

#[test]
fn a_folder_leaves_nothing_behind() {
    let dir = std::env::temp_dir();
    let path;
    {
        let folder = Folder::make(&dir, "quorate-folder-test").unwrap();
        path = folder.path().to_path_buf();
        fs::create_dir_all(path.join("a/b")).unwrap();
        fs::write(path.join("a/b/c"), b"c").unwrap();
        fs::write(path.join("d"), b"").unwrap();
        folder.drop_cache().unwrap();
        folder.clear().unwrap();
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
        fs::write(path.join("e"), b"e").unwrap();
    }
    assert!(!path.exists());
    let error = Folder::make(&path, "x").unwrap_err().to_string();
    assert!(error.contains("no such folder"), "{error}");
}

#[test]
fn folders_of_one_name_are_two() {
    let dir = std::env::temp_dir();
    let make = || Folder::make(&dir, "quorate-folder-twice").unwrap();
    let (first, second) = (make(), make());
    fs::write(first.path().join("a"), b"a").unwrap();
    assert_ne!(first.path(), second.path());
    drop(second);
    assert!(first.path().join("a").exists());
}
