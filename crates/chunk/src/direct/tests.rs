use std::path::PathBuf;
use std::thread;

use storage::disk::RealDisk;
use storage::fault_disk::{FaultDisk, FaultPlan, Operation};

use super::*;

/// A folder of the real file system, removed at the end of the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("quorate-chunk-{}-{name}", std::process::id());
        Folder(std::env::temp_dir().join(name))
    }

    fn disk(&self) -> RealDisk {
        RealDisk::new(&self.0).expect("makes the folder")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes as u32).map(|it| (it * 31 + it / 4093) as u8).collect()
}

#[test]
fn any_offset_and_length_comes_back() {
    let folder = Folder::new("direct-writes");
    let disk = folder.disk();
    let writes = DirectWrites::default();
    let block = BLOCK_BYTES as usize;
    let lengths = [
        1,
        block,
        FILE_CACHED_BYTES_MAX,
        FILE_CACHED_BYTES_MAX + 1,
        FILE_CACHED_BYTES_MAX + block,
        100_000,
        102_400,
    ]
    .into_iter()
    .chain([BUFFER_BYTES, BUFFER_BYTES + block, 3 * BUFFER_BYTES + 5]);
    for length in lengths {
        for offset in [0, 1, block, 3 * block + 7] {
            let data = pattern(length);
            let file = disk.create("file").expect("creates");
            writes.write(&disk, &file, offset as u64, &data).expect("writes");
            assert_eq!(disk.len(&file).expect("has a length"), (offset + length) as u64);
            let mut back = vec![1; offset + length];
            assert_eq!(disk.read_at(&file, 0, &mut back).expect("reads"), back.len());
            assert!(back[..offset].iter().all(|byte| *byte == 0), "{length} at {offset}");
            assert!(back[offset..] == data, "{length} at {offset}");
        }
    }
}

#[test]
fn more_writers_than_buffers_wait_for_each_other() {
    let folder = Folder::new("direct-writers");
    let disk = folder.disk();
    let writes = DirectWrites::default();
    let data = pattern(2 * BUFFER_BYTES);
    thread::scope(|scope| {
        for number in 0..3 * BUFFERS_MAX {
            let (disk, writes, data) = (&disk, &writes, &data);
            scope.spawn(move || {
                let file = disk.create(&number.to_string()).expect("creates");
                writes.write(disk, &file, 0, data).expect("writes");
                let mut back = vec![0; data.len()];
                assert_eq!(disk.read_at(&file, 0, &mut back).expect("reads"), back.len());
                assert!(back == *data, "{number}");
            });
        }
    });
    let state = writes.state.lock();
    assert!(state.count <= BUFFERS_MAX);
    assert_eq!(state.free.len(), state.count);
}

#[test]
fn a_failed_write_is_told_and_its_buffer_is_used_again() {
    let disk = FaultDisk::new(1);
    let writes = DirectWrites::default();
    let file = disk.create("file").expect("creates");
    let data = pattern(2 * BUFFER_BYTES + 1);
    for nth in 0..3 {
        disk.set_plan(FaultPlan { full: vec![(Operation::Write, nth)], ..FaultPlan::default() });
        let error = writes.write(&disk, &file, 0, &data).expect_err("the disk is full");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull, "write {nth}");
    }
    disk.set_plan(FaultPlan::default());
    writes.write(&disk, &file, 0, &data).expect("writes");
    assert_eq!(writes.state.lock().count, 1);
}
