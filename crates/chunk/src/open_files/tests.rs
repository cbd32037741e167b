//! How many files are open, and which.

use super::*;

fn key(local_id: u64) -> FileKey {
    FileKey::Block { container_id: 1, local_id }
}

#[test]
fn there_are_never_more_than_so_many() {
    let files = OpenFiles::new(8);
    for local_id in 0..1000 {
        let file = files.get(key(local_id), || Ok(local_id)).expect("opens");
        assert_eq!(*file, local_id);
        assert!(files.count() <= 8);
    }
}

#[test]
fn what_is_used_again_and_again_stays_open() {
    let files = OpenFiles::new(8);
    let mut opened = 0;
    for local_id in 0..1000 {
        files
            .get(key(5000), || {
                opened += 1;
                Ok(5000)
            })
            .expect("opens");
        files.get(key(local_id), || Ok(local_id)).expect("opens");
    }
    assert_eq!(opened, 1);
}

#[test]
fn what_is_forgotten_is_opened_again_and_what_fails_is_not_kept() {
    let files = OpenFiles::new(8);
    files.get(key(1), || Ok(1)).expect("opens");
    files.forget(key(1));
    assert_eq!(*files.get(key(1), || Ok(2)).expect("opens"), 2);
    let failed = files.get(FileKey::Segment(1), || Err(io::Error::from(io::ErrorKind::NotFound)));
    assert!(failed.is_err());
    assert_eq!(files.count(), 1);
}
