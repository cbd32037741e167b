//! Compares the names of files and folders with Ozone's.

use super::*;

#[test]
fn folders_are_ozones() {
    let dirs = container_dirs("CID-1", 1027);
    assert_eq!(dirs[5], "hdds/CID-1/current/containerDir2/1027/chunks");
    assert_eq!(container_dirs("x", 512 * 256 + 5)[3], "hdds/x/current/containerDir0");
}

#[test]
fn files_are_ozones() {
    assert_eq!(block_file_name(7), "7.block");
    assert_eq!(temporary_chunk_name("7_chunk_1", 3, 99), "7_chunk_1.tmp.3.99");
}

#[test]
fn a_name_that_leads_elsewhere_is_refused() {
    let long = "x".repeat(CHUNK_NAME_BYTES_MAX + 1);
    for name in ["", ".", "..", "a/b", "../../etc/passwd", "/a", "a\0b", &long] {
        assert!(check_chunk_name(name).is_err(), "{name:?}");
    }
    for name in ["1_chunk_1", "...", "a..b", &long[1..]] {
        assert!(check_chunk_name(name).is_ok(), "{name:?}");
    }
}

#[test]
fn layouts_have_their_numbers() {
    for layout in Layout::ALL {
        assert_eq!(Layout::from_number(layout.number()), Some(layout));
    }
    assert_eq!(Layout::from_number(0), None);
    assert_eq!(Layout::from_number(4), None);
}
