//! Removes, empties and cuts off every file of a store, and flips its bits.
//!
//! Acknowledged data are served unchanged, or their loss is reported: by the start, by an
//! inspection or by the scrubber. Nothing is served that was not written, and no file is removed,
//! however long the background work runs. A later start still reports the damage.

use std::collections::BTreeMap;

use chunk::ChunkError;
use chunk::block::{BlockData, BlockId, ChunkInfo};
use chunk::checksum::{ChecksumData, ChecksumType};
use chunk::container::{ContainerSpec, State};
use chunk::layout::Layout;
use chunk::store::{Durability, Store, StoreOptions, UpkeepBudget, WriteMode, inspect, repair};
use storage::fault_disk::{Chance, FaultDisk};

const OPTIONS: StoreOptions = StoreOptions {
    layout: Layout::Log,
    verify_writes: false,
    block_bytes_max: 1 << 20,
    container_bytes_max: 1 << 24,
    segment_bytes: 64 * 1024,
    bytes_max: 0,
    free_bytes_min: 0,
    open_files_max: 16,
    new_store_id: Some(7),
};

/// Acknowledged data: the bytes of each committed block.
type Acknowledged = BTreeMap<BlockId, Vec<u8>>;

/// Sizes of the chunks of each block in bytes. They are small, so that most of the log is the
/// headers of records. A chunk of `LARGE` bytes is written alone, not gathered.
const CHUNKS: [usize; 3] = [90, 200, 70];
const LARGE: usize = 70_000;

fn write_block(store: &Store<FaultDisk>, id: BlockId, sizes: &[usize], known: &mut Acknowledged) {
    let (mut chunks, mut all) = (Vec::new(), Vec::new());
    for (number, size) in sizes.iter().enumerate() {
        let mut chance = Chance::new(id.container_id << 32 | id.local_id << 8 | number as u64);
        let data: Vec<u8> = (0..*size).map(|_| chance.bits() as u8).collect();
        let checksum = ChecksumData::of(ChecksumType::Crc32c, 1 << 20, &data);
        let name = format!("{}_chunk_{number}", id.local_id);
        let chunk =
            ChunkInfo { checksum, ..ChunkInfo::plain(name, all.len() as u64, *size as u64) };
        store.write_chunk(id, &chunk, &data, WriteMode::default()).expect("writes");
        chunks.push(chunk);
        all.extend(data);
    }
    let block = BlockData {
        id,
        commit_sequence_id: 0,
        replica_index: None,
        flags: None,
        metadata: Vec::new(),
        chunks,
    };
    store.put_block(&block, true, Durability::GroupSynced).expect("commits");
    known.insert(id, all);
}

fn id(container_id: u64, local_id: u64) -> BlockId {
    BlockId { container_id, local_id }
}

/// A store with every kind of record and file.
fn write(layout: Layout, is_stopped: bool) -> (FaultDisk, Acknowledged) {
    let disk = FaultDisk::new(1);
    let mut known = Acknowledged::new();
    let store = Store::open(disk.clone(), options()).expect("opens");
    let spec = ContainerSpec { layout: Some(layout), ..ContainerSpec::default() };
    for container_id in [1, 2, 3] {
        store.create_container(container_id, &spec).expect("creates");
    }
    (0..4).for_each(|local_id| write_block(&store, id(1, local_id), &CHUNKS, &mut known));
    write_block(&store, id(3, 0), &CHUNKS, &mut known);
    store.checkpoint().expect("writes");
    (0..3).for_each(|local_id| write_block(&store, id(2, local_id), &CHUNKS, &mut known));
    store.delete_container(3, true).expect("deletes");
    known.remove(&id(3, 0));
    store.tick().expect("works");
    store.checkpoint().expect("writes");
    store.create_container(4, &spec).expect("creates");
    write_block(&store, id(4, 0), &CHUNKS, &mut known);
    if layout == Layout::Log {
        // More than what is left of the segment.
        write_block(&store, id(4, 1), &[LARGE / 2, LARGE / 2], &mut known);
    }
    store.finalize_block(id(4, 0)).expect("finalizes");
    store.delete_block(id(1, 3)).expect("deletes");
    known.remove(&id(1, 3));
    (0..2).for_each(|local_id| write_block(&store, id(4, 10 + local_id), &CHUNKS, &mut known));
    [1, 2, 4].iter().for_each(|id| store.close_container(*id).expect("closes"));
    store.tick().expect("works");
    if is_stopped {
        store.checkpoint().expect("writes");
    }
    drop(store);
    disk.kill();
    (disk, known)
}

fn options() -> StoreOptions {
    OPTIONS
}

/// Reads what was acknowledged, as a client does that verifies its own checksums. Returns what has
/// changed or is missing.
fn lost(store: &Store<FaultDisk>, known: &Acknowledged) -> Vec<String> {
    let mut lost = Vec::new();
    for (id, wanted) in known {
        let mut found = Vec::new();
        let mut read = || -> Result<(), ChunkError> {
            for chunk in store.block(*id, 0)?.chunks {
                let start = found.len();
                store.read_chunk(*id, &chunk, 0, &mut found)?;
                if let Err(what) = chunk.checksum.verify(&found[start..]) {
                    return Err(ChunkError::ChecksumMismatch { name: chunk.name, what });
                }
            }
            Ok(())
        };
        match read() {
            Err(error) => lost.push(format!("{id:?}: {error}")),
            Ok(()) => assert!(found == *wanted, "{id:?} is served, and is not what was written"),
        }
    }
    lost
}

/// Exports all containers. Each acknowledged block has a file with its data, or is reported; or the
/// store does not know it, and is damaged.
fn check_export(store: &Store<FaultDisk>, known: &Acknowledged, what: &str) {
    let to = FaultDisk::new(1);
    for container_id in store.container_ids() {
        let info = store.container(container_id).expect("is there");
        let (dir, damaged) = match info.layout {
            Layout::Log => {
                let exported = store.export_container(container_id, &to);
                let exported = exported.unwrap_or_else(|error| panic!("{what}: {error}"));
                (Some(exported.dir), exported.damaged)
            }
            _ => (None, store.damaged_blocks(container_id).expect("is there")),
        };
        for (id, wanted) in known.iter().filter(|(id, _)| id.container_id == container_id) {
            let file = dir.as_ref().map(|dir| format!("{dir}/{}.block", id.local_id));
            let content = file.as_ref().and_then(|file| to.content(file));
            let is_named = damaged.iter().any(|(named, _)| named == id) || store.is_damaged();
            match (file, content) {
                // A block whose commit is lost still has its chunks, and is exported like any
                // other.
                (_, Some(content)) if store.is_damaged() => {
                    assert!(wanted.starts_with(&content), "{what}: {id:?} is another");
                }
                (_, Some(content)) => assert!(content == *wanted, "{what}: {id:?} is another"),
                (Some(_), None) => assert!(is_named, "{what}: {id:?} has no file"),
                (None, None) => {
                    let is_lost = !lost(store, &[(*id, wanted.clone())].into()).is_empty();
                    assert!(is_named || !is_lost, "{what}: {id:?} is lost without a word");
                }
            }
        }
    }
}

/// Files that hold data: not those prepared as segments, and not unfinished ones.
fn files(disk: &FaultDisk) -> Vec<String> {
    let mut paths = disk.paths();
    paths.retain(|path| !path.ends_with(".next") && !path.ends_with(".tmp"));
    paths
}

/// Opens a damaged store, reads it, runs its background work, and opens it again. `what` describes
/// the damage.
fn check(disk: &FaultDisk, known: &Acknowledged, what: &str) {
    let before = files(disk);
    let report = inspect(disk.clone());
    let opened = Store::open(disk.clone(), options());
    let store = match opened {
        Ok(store) => store,
        Err(error) => {
            // The error is reported by an inspection, too, and nothing was changed.
            assert!(report.is_err(), "{what}: {error}, and a look finds {report:?}");
            assert_eq!(files(disk), before, "{what}");
            return;
        }
    };
    let report = report.unwrap_or_else(|error| panic!("{what}: opened, and a look says {error}"));
    let found = lost(&store, known);
    let mut named: Vec<String> = store.damage().iter().map(ToString::to_string).collect();
    named.extend(store.cut().map(ToString::to_string));
    for _ in 0..40 {
        let budget = UpkeepBudget { bytes_moved_max: 1 << 20, bytes_scrubbed_max: 1 << 20 };
        let done = store.upkeep(budget).unwrap_or_else(|error| panic!("{what}: {error}"));
        named.extend(done.damaged.into_iter().map(|(id, what)| format!("{id:?}: {what}")));
    }
    store.checkpoint().unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(found.is_empty() || !named.is_empty(), "{what}: lost without a word: {found:?}");
    let is_told = !report.is_sound() || report.cut.is_some();
    assert!(found.is_empty() || is_told, "{what}: a look finds nothing of {found:?}");
    let after = files(disk);
    let removed: Vec<_> = before.iter().filter(|path| !after.contains(path)).collect();
    // A store whose log and index are intact may remove dead files.
    assert!(removed.is_empty() || !store.is_damaged(), "{what}: {removed:?} removed");
    let was_damaged = store.is_damaged();
    drop(store);
    disk.kill();
    let store = Store::open(disk.clone(), options());
    let store = store.unwrap_or_else(|error| panic!("{what}: at the second start: {error}"));
    assert_eq!(store.is_damaged(), was_damaged, "{what}: at the second start");
    let again = lost(&store, known);
    let more: Vec<_> = again.iter().filter(|lost| !found.contains(lost)).collect();
    assert!(more.is_empty(), "{what}: lost at the second start: {more:?}");
}

/// Every file of a store with its content.
fn contents(disk: &FaultDisk) -> Vec<(String, Vec<u8>)> {
    let paths = disk.paths().into_iter().filter(|path| path != "lock");
    paths.map(|path| (path.clone(), disk.content(&path).expect("is there"))).collect()
}

fn each_store(mut body: impl FnMut(&FaultDisk, &Acknowledged, &str)) {
    for layout in Layout::ALL {
        for is_stopped in [false, true] {
            let (disk, known) = write(layout, is_stopped);
            body(&disk, &known, &format!("{layout:?}, stopped: {is_stopped}"));
        }
    }
}

#[test]
fn a_store_that_is_whole_is_served_and_nothing_is_named() {
    each_store(|disk, known, store_name| {
        let report = inspect(disk.clone()).expect("looks");
        assert!(report.is_sound() && report.cut.is_none(), "{store_name}: {report}");
        let store = Store::open(disk.clone(), options()).expect("opens");
        assert_eq!(lost(&store, known), [""; 0], "{store_name}");
        assert!(!store.is_damaged(), "{store_name}: {:?}", store.damage());
    });
}

#[test]
fn a_file_that_is_removed_or_emptied_is_missed() {
    each_store(|disk, known, store_name| {
        for (path, content) in contents(disk) {
            let removed = disk.fork(1);
            removed.lose_file(&path);
            check(&removed, known, &format!("{store_name}: {path} removed"));
            if !content.is_empty() {
                let emptied = disk.fork(1);
                emptied.set_content(&path, Vec::new());
                check(&emptied, known, &format!("{store_name}: {path} emptied"));
            }
        }
    });
}

/// A crash may undo a new segment's name, so that it is a `.next` file again, and keep the name of
/// the `.next` file behind it.
#[test]
fn the_last_segment_is_missed_where_two_files_are_to_be_segments() {
    let (disk, known) = write(Layout::Log, false);
    let next = disk.paths().into_iter().find(|path| path.ends_with(".next")).expect("is there");
    let number = u32::from_str_radix(&next["log/".len()..][..8], 16).expect("it is one");
    disk.set_content(&format!("log/{:08x}.next", number + 1), Vec::new());
    disk.lose_file(&format!("log/{:08x}.log", number - 1));
    let report = inspect(disk.clone()).expect("looks");
    assert!(!report.is_sound(), "{report}");
    check(&disk, &known, "the last segment removed");
}

#[test]
fn a_folder_that_is_removed_is_missed() {
    each_store(|disk, known, store_name| {
        for dir in ["index", "log", "hdds"] {
            let removed = disk.fork(1);
            removed.lose_tree(dir);
            check(&removed, known, &format!("{store_name}: {dir} removed"));
        }
    });
}

#[test]
fn a_file_that_is_cut_off_anywhere_is_missed() {
    each_store(|disk, known, store_name| {
        for (path, content) in contents(disk) {
            let end = content.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            let all = [end + 1, content.len().saturating_sub(1)];
            for count in (0..end).step_by(211).chain(all).filter(|count| *count < content.len()) {
                let cut = disk.fork(1);
                cut.set_content(&path, content[..count].to_vec());
                check(&cut, known, &format!("{store_name}: {path} cut off at {count}"));
            }
        }
    });
}

#[test]
fn a_bit_that_is_flipped_anywhere_is_found() {
    let mut stores = 0;
    each_store(|disk, known, store_name| {
        stores += 1;
        for (path, content) in contents(disk) {
            let end = content.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            // Every byte of the heads and the first record, and a sample of the others, which
            // starts at another byte for each store.
            let step = if end > 40_000 { 211 } else { 17 };
            let some = (stores * 3 % step..end).step_by(step);
            for at in
                some.chain(0..end.min(60)).chain(2048..end.min(2108)).chain(4096..end.min(4200))
            {
                let flipped = disk.fork(1);
                let mut bad = content.clone();
                bad[at] ^= 1 << (at % 8);
                flipped.set_content(&path, bad);
                check(&flipped, known, &format!("{store_name}: {path}, byte {at} flipped"));
            }
        }
    });
}

#[test]
fn what_cannot_be_exported_is_named() {
    each_store(|disk, known, store_name| {
        let mut damaged = vec![(disk.fork(1), store_name.to_owned())];
        for (path, content) in contents(disk) {
            let removed = disk.fork(1);
            removed.lose_file(&path);
            damaged.push((removed, format!("{store_name}: {path} removed")));
            let cut = disk.fork(1);
            cut.set_content(&path, content[..content.len() / 2].to_vec());
            damaged.push((cut, format!("{store_name}: {path} cut off in the middle")));
            let end = content.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            for at in (0..end).step_by(end / 10 + 1) {
                let flipped = disk.fork(1);
                let mut bad = content.clone();
                bad[at] ^= 1 << (at % 8);
                flipped.set_content(&path, bad);
                damaged.push((flipped, format!("{store_name}: {path}, byte {at} flipped")));
            }
        }
        for (disk, what) in damaged {
            // A store that cannot be opened is not exported.
            let Ok(store) = Store::open(disk.clone(), options()) else { continue };
            check_export(&store, known, &what);
        }
    });
}

#[test]
fn damage_that_a_person_has_accepted_lets_space_be_given_back() {
    let (disk, known) = write(Layout::Log, false);
    let mut bad = disk.content("log/00000001.log").expect("is there");
    bad[20] ^= 1;
    bad[2068] ^= 1;
    disk.set_content("log/00000001.log", bad);
    let store = Store::open(disk.clone(), options()).expect("opens");
    assert!(store.is_damaged());
    assert_eq!(lost(&store, &known), [""; 0]);
    assert!(repair(&disk).is_err(), "the store is open");
    drop(store);
    let noted = repair(&disk).expect("accepts");
    assert_eq!(noted.len(), 1, "{noted:?}");
    assert_eq!(repair(&disk).expect("accepts"), [""; 0]);
    // The next start finds the damage again, and continues as if the store were intact.
    let report = inspect(disk.clone()).expect("looks");
    assert!(report.is_sound() && report.accepted == noted, "{report}");
    let store = Store::open(disk.clone(), options()).expect("opens");
    assert!(!store.is_damaged() && store.damage().len() == 1);
    for container_id in [1, 2, 4] {
        store.delete_container(container_id, true).expect("deletes");
    }
    for _ in 0..200 {
        let budget = UpkeepBudget { bytes_moved_max: 1 << 20, bytes_scrubbed_max: 0 };
        store.upkeep(budget).expect("works");
    }
    assert!(!disk.paths().contains(&"log/00000001.log".to_owned()), "{:?}", disk.paths());
}

#[test]
fn a_container_whose_record_is_lost_is_served_unhealthy() {
    for layout in Layout::ALL {
        let disk = FaultDisk::new(1);
        let mut known = Acknowledged::new();
        let store = Store::open(disk.clone(), options()).expect("opens");
        let spec = ContainerSpec { layout: Some(layout), ..ContainerSpec::default() };
        store.create_container(1, &spec).expect("creates");
        store.create_container(2, &spec).expect("creates");
        write_block(&store, id(1, 5), &CHUNKS, &mut known);
        write_block(&store, id(2, 5), &CHUNKS, &mut known);
        drop(store);
        disk.kill();
        // The first record is the one that made container 1.
        let mut bad = disk.content("log/00000001.log").expect("is there");
        bad[4096 + 17] ^= 1;
        disk.set_content("log/00000001.log", bad);
        let store = Store::open(disk.clone(), options()).expect("opens");
        assert_eq!(lost(&store, &known), [""; 0], "{layout:?}");
        let info = store.container(1).expect("is there");
        assert_eq!((info.state, info.layout), (State::Unhealthy, layout));
        assert_eq!(store.container(2).expect("is there").state, State::Open);
        let said = store.damage().iter().map(ToString::to_string).collect::<Vec<_>>();
        assert!(said.iter().any(|line| line.starts_with("container 1: ")), "{said:?}");
    }
}
