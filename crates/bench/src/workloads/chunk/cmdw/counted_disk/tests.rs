use super::*;
use crate::servers::folder::Folder;

#[test]
fn clones_count_their_syncs_together() {
    let folder = Folder::make(&std::env::temp_dir(), "quorate-counted-test").unwrap();
    let disk = CountedDisk::new(folder.path().join("disk")).unwrap();
    let before = disk.sync_counts();
    let (file, other) = (disk.create("a").unwrap(), disk.clone());
    disk.write_at(&file, 0, b"a").unwrap();
    disk.sync_data(&file).unwrap();
    other.sync_data(&file).unwrap();
    other.sync_dir("").unwrap();
    let expected = SyncCounts { files: 2, directories: 1 };
    assert_eq!(disk.sync_counts().since(before), expected);
    assert_eq!(disk.list("").unwrap(), ["a"]);
}
