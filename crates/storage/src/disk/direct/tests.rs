//! Compares writes in place with a plain copy of the file. The tests must also pass on a file
//! system without direct writes.

use super::*;
use crate::disk::{Disk, RealDisk, RealFile, Writes};

const LENGTH: u64 = 2 * DIRECT_PIECE_BYTES + 3 * DIRECT_BLOCK_BYTES;

/// A file opened for writing in place, and its expected content.
struct Pair {
    disk: RealDisk,
    root: std::path::PathBuf,
    file: RealFile,
    model: Vec<u8>,
}

impl Pair {
    fn new(name: &str, length: u64) -> Pair {
        let name = format!("quorate-direct-{}-{name}", std::process::id());
        let root = std::env::temp_dir().join(name);
        drop(std::fs::remove_dir_all(&root));
        let disk = RealDisk::new(&root).expect("makes a directory");
        let model: Vec<u8> = (0..length).map(|offset| (offset % 251) as u8).collect();
        let file = disk.create("a").expect("creates");
        disk.write_at(&file, 0, &model).expect("writes");
        disk.sync_data(&file).expect("syncs");
        let file = disk.open("a").expect("opens");
        Pair { disk, root, file, model }
    }

    fn reopen(&mut self) {
        self.file = self.disk.open("a").expect("opens");
    }

    fn is_direct(&self) -> bool {
        match &self.file.writes {
            Writes::InPlace(direct) => direct.lock().expect("nobody panicked").is_some(),
            _ => false,
        }
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.disk.write_at(&self.file, offset, bytes).expect("writes");
        self.disk.sync_data(&self.file).expect("syncs");
        let end = offset as usize + bytes.len();
        self.model.resize(self.model.len().max(end), 0);
        self.model[offset as usize..end].copy_from_slice(bytes);
    }

    fn check(&self) {
        let reader = self.disk.open_read_only("a").expect("opens");
        for file in [&reader, &self.file] {
            let length = self.disk.len(file).expect("measures");
            assert_eq!(length, self.model.len() as u64);
            let mut found = vec![0; length as usize];
            assert_eq!(self.disk.read_at(file, 0, &mut found).expect("reads"), found.len());
            assert!(found == self.model, "the file differs from the model");
        }
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.root));
    }
}

/// Random numbers from a seed (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn bytes(&mut self, count: u64) -> Vec<u8> {
        (0..count).map(|_| self.below(256) as u8).collect()
    }
}

#[test]
fn the_file_system_decides_whether_writes_are_direct() {
    let pair = Pair::new("decides", LENGTH);
    let mut options = OpenOptions::new();
    options.write(true).custom_flags(OFlags::DIRECT.bits() as i32);
    assert_eq!(pair.is_direct(), options.open(pair.root.join("a")).is_ok());
}

#[test]
fn appended_bytes_come_back_and_what_is_behind_them_stays() {
    for seed in 1..=4 {
        let (mut pair, mut numbers) = (Pair::new("appends", LENGTH), Numbers(seed));
        let mut end = numbers.below(3 * DIRECT_BLOCK_BYTES);
        loop {
            let most = [100, 1_000, 10_000, 200_000][numbers.below(4) as usize];
            let bytes = {
                let count = 1 + numbers.below(most);
                numbers.bytes(count)
            };
            if end + bytes.len() as u64 > LENGTH {
                break;
            }
            pair.write(end, &bytes);
            end += bytes.len() as u64;
            match numbers.below(8) {
                0 => pair.reopen(),
                1 => pair.check(),
                _ => {}
            }
        }
        pair.check();
    }
}

#[test]
fn bytes_written_anywhere_come_back() {
    let (mut pair, mut numbers) = (Pair::new("anywhere", LENGTH), Numbers(5));
    for _ in 0..200 {
        let offset = numbers.below(LENGTH);
        let most = [300, 30_000, LENGTH][numbers.below(3) as usize];
        let count = numbers.below(most.min(LENGTH - offset) + 1);
        pair.write(offset, &numbers.bytes(count));
    }
    pair.check();
    // At the borders of blocks, of pieces and of the file.
    for edge in [DIRECT_BLOCK_BYTES, DIRECT_PIECE_BYTES, 2 * DIRECT_PIECE_BYTES, LENGTH - 1] {
        for (offset, count) in [(edge - 1, 1), (edge - 1, 2), (edge, 1), (edge - 4096, 4096)] {
            pair.write(offset, &numbers.bytes(count));
            pair.check();
        }
    }
    pair.write(0, &numbers.bytes(LENGTH));
    pair.check();
}

#[test]
fn a_refused_write_and_all_later_ones_go_through_the_page_cache() {
    let mut pair = Pair::new("refused", LENGTH);
    pair.write(10, &[1; 5_000]);
    let Writes::InPlace(direct) = &pair.file.writes else { return };
    if let Some(writer) = direct.lock().expect("nobody panicked").as_mut() {
        // Memory at an odd address: even a file system that refuses nothing else refuses this.
        writer.piece.skip += 1;
        writer.piece_start = None;
    }
    pair.write(5_000, &[2; 5_000]);
    pair.write(9_000, &[3; 10]);
    pair.check();
    pair.reopen();
    pair.write(9_005, &[4; 10]);
    pair.check();
}

#[test]
fn a_write_behind_the_end_makes_the_file_longer_by_as_much() {
    let mut pair = Pair::new("longer", LENGTH);
    pair.write(LENGTH - 10, &[1; 10]);
    pair.write(LENGTH - 5, &[2; 6]);
    assert!(!pair.is_direct());
    pair.check();
    // A file that does not end with a whole block is not written directly.
    pair.reopen();
    assert!(!pair.is_direct());
    pair.write(1, &[3; 6]);
    pair.check();
    let mut empty = Pair::new("empty", 0);
    empty.write(0, b"abc");
    empty.check();
}

#[test]
fn whole_blocks_and_everything_else_of_a_file_of_blocks_come_back() {
    let pair = Pair::new("blocks", 0);
    let file = pair.disk.create("b").expect("creates");
    pair.disk.preallocate(&file, LENGTH).expect("has room");
    let mut blocks = AlignedBuffer::new(3 * DIRECT_BLOCK_BYTES as usize);
    blocks.bytes_mut().fill(1);
    pair.disk.write_at(&file, 3 * DIRECT_BLOCK_BYTES + 1, &[3; 9]).expect("writes below");
    pair.disk.write_blocks_at(&file, DIRECT_BLOCK_BYTES, blocks.bytes()).expect("writes blocks");
    pair.disk.write_at(&file, 5, &[2; 7]).expect("writes at an odd place");
    pair.disk.write_blocks_at(&file, 40, &blocks.bytes()[1..9]).expect("writes few");
    let mut back = vec![9; 5 * DIRECT_BLOCK_BYTES as usize];
    assert_eq!(pair.disk.read_at(&file, 0, &mut back).expect("reads"), back.len());
    let mut wanted = vec![0; back.len()];
    wanted[4096..4 * 4096].fill(1);
    wanted[5..12].fill(2);
    wanted[40..48].fill(1);
    assert!(back == wanted);
}

#[test]
fn a_process_without_another_descriptor_writes_through_the_page_cache() {
    // In a process of its own, because the other tests need descriptors.
    const IS_OF_ITS_OWN: &str = "QUORATE_TEST_OF_FEW_DESCRIPTORS";
    if std::env::var_os(IS_OF_ITS_OWN).is_some() {
        return write_without_descriptors();
    }
    let this = std::env::current_exe().expect("it has a path");
    let name =
        "disk::direct::tests::a_process_without_another_descriptor_writes_through_the_page_cache";
    let mut command = std::process::Command::new(this);
    let ran = command.args(["--exact", name]).env(IS_OF_ITS_OWN, "1").output().expect("starts");
    let text = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && text.contains("1 passed"), "{text}");
}

fn write_without_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let pair = Pair::new("few", 0);
    let file = pair.disk.create("b").expect("creates");
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), ..limit }).expect("may be lowered");
    let others: Vec<File> =
        std::iter::repeat_with(|| File::open("/dev/null")).map_while(Result::ok).collect();
    assert!(others.len() > 10);
    let mut blocks = AlignedBuffer::new(DIRECT_BLOCK_BYTES as usize);
    blocks.bytes_mut().fill(1);
    pair.disk.write_blocks_at(&file, 0, blocks.bytes()).expect("writes through the cache");
    drop(others);
    pair.disk.write_blocks_at(&file, DIRECT_BLOCK_BYTES, blocks.bytes()).expect("writes");
    let Writes::Buffered(handle) = &file.writes else { panic!("it is written in place") };
    assert!(handle.get().is_some(), "there was one this time");
    let mut back = vec![9; 3 * DIRECT_BLOCK_BYTES as usize];
    let count = pair.disk.read_at(&file, 0, &mut back).expect("reads");
    assert!(back[..count] == [1; 2 * DIRECT_BLOCK_BYTES as usize]);
}

#[test]
fn a_file_may_be_written_by_several_threads() {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<RealFile>();
}
