#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn numbers_are_found_by_their_key() {
    let status = "Name:\tquorate\nVmSize:\t  12 kB\nVmRSS:\t7 kB\nThreads:\t3\n";
    assert_eq!(number_of(status, "VmSize:"), 12);
    assert_eq!(number_of(status, "Threads:"), 3);
    assert_eq!(number_of(status, "RssAnon:"), 0);
    assert_eq!(number_of("VmRSS:\n", "VmRSS:"), 0);
}

#[test]
fn this_process_has_memory_threads_and_descriptors() {
    let memory = memory();
    assert!(memory.threads >= 1);
    assert!(memory.resident_bytes >= memory.anonymous_bytes);
    assert!(memory.anonymous_bytes > 0);
    assert!(memory.limit_bytes >= memory.anonymous_bytes);
    let (open, max) = file_descriptors().unwrap();
    assert!(0 < open && open <= max);
}

#[test]
fn a_folder_is_as_large_as_its_files() {
    let folder = std::env::temp_dir().join(format!("folder-bytes-{}", std::process::id()));
    fs::create_dir_all(folder.join("below")).unwrap();
    fs::write(folder.join("one"), [0; 10]).unwrap();
    fs::write(folder.join("below/two"), [0; 5]).unwrap();
    assert_eq!(folder_bytes(&folder), 15);
    assert_eq!(folder_bytes(&folder.join("nothing")), 0);
    fs::remove_dir_all(&folder).unwrap();
}
