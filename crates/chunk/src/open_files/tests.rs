//! Tests how many files stay open, and which ones.

use std::cell::Cell;

use super::*;

fn key(local_id: u64) -> FileKey {
    FileKey::Block(BlockId { container_id: 1, local_id })
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
    let opened = Cell::new(0);
    for local_id in 0..1000 {
        files
            .get(key(5000), || {
                opened.set(opened.get() + 1);
                Ok(5000)
            })
            .expect("opens");
        files.get(key(local_id), || Ok(local_id)).expect("opens");
    }
    assert_eq!(opened.get(), 1);
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

#[test]
fn what_is_forgotten_while_it_is_opened_is_not_kept() {
    let files = OpenFiles::new(8);
    let open = || {
        // Another block with this id takes its place.
        files.forget_block(BlockId { container_id: 1, local_id: 1 });
        Ok(1)
    };
    assert_eq!(*files.get(key(1), open).expect("opens"), 1);
    assert_eq!(files.count(), 0);
    assert_eq!(*files.get(key(1), || Ok(2)).expect("opens"), 2);
    let other = || {
        files.forget_block(BlockId { container_id: 1, local_id: 3 });
        Ok(1)
    };
    files.get(key(2), other).expect("opens");
    assert_eq!(files.count(), 2);
}

#[test]
fn who_finds_no_descriptor_closes_what_was_used_longest_ago() {
    let files = OpenFiles::new(8);
    // Linux's EMFILE.
    let open = |of_process: usize| match files.count() < of_process {
        true => Ok(()),
        false => Err(io::Error::from_raw_os_error(24)),
    };
    for local_id in 0..100 {
        files.get(key(local_id), || open(5)).expect("opens");
        files.get(key(local_id), || panic!("it is open")).expect("is open");
    }
    let error = files.get(key(100), || open(0)).expect_err("nothing else can be closed");
    assert!(is_out_of_descriptors(&error));
}
