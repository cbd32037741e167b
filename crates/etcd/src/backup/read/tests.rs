use std::io::Cursor;

use machine::etcd::alarm::AlarmKind;
use machine::etcd::auth::{Permission, PermissionKind};
use machine::etcd::command::KeyRange;
use machine::image::FreezeStep;
use machine::image::etcd_part::EtcdPartReader;

use super::*;
use crate::backup::bolt::{ENTRY_BYTES, LEAF, PAGE_HEAD_BYTES, fnv_1a};
use crate::backup::bolt_writer::BoltWriter;
use crate::backup::{Applied, Backup};

fn put(revision: i64, key: &str, value: &[u8], lease: i64) -> Event {
    let numbers = Version { create_revision: revision, version: 1, lease };
    Event::put(Place { revision, sub: 0 }, key.as_bytes(), numbers, value)
}

/// A state with keys, leases, users, roles and alarms.
fn state(keys: i64) -> Machine {
    let mut import = Import::new(Some(4)).unwrap();
    let range = KeyRange { key: b"a", end: b"b" };
    let role = Role::of([Permission { kind: PermissionKind::Read, range }]).unwrap();
    let password = Some(Box::from(*b"hash"));
    let bob = User { password, roles: ["reader".into()].into() };
    let users =
        [("bob".to_string(), bob), ("eve".to_string(), User { password: None, roles: [].into() })];
    import.set_auth(Auth::imported(true, 9, users, [("reader".to_string(), role)]).unwrap());
    import.add_alarm(Alarm { kind: AlarmKind::NoSpace, member: 77 }).unwrap();
    import.add_lease(LeaseId(-5), 60).unwrap();
    import.push(put(3, "gone", b"value", 0)).unwrap();
    import.push(Event::delete(Place { revision: 4, sub: 0 }, b"gone")).unwrap();
    import.push(put(5, "leased", b"value", -5)).unwrap();
    for revision in 6..6 + keys {
        import.push(put(revision, &format!("key{revision}"), &[b'v'; 50], 0)).unwrap();
    }
    import.push(put(6 + keys, "large", &[b'v'; 9000], 0)).unwrap();
    import.finish(LogIndex(55)).unwrap()
}

/// Encodes a state as a database.
fn database(mut machine: Machine) -> Vec<u8> {
    let empty = || Cursor::new(Vec::new());
    let mut backup = Backup::new(empty(), empty(), Applied { index: 55, term: 3 }).unwrap();
    let mut reader = EtcdPartReader::default();
    machine.freeze();
    while !reader.is_whole() {
        let (FreezeStep::Piece(piece) | FreezeStep::Last(piece)) = machine.freeze_step(4096, 100)
        else {
            panic!("nothing changes the machine");
        };
        backup.piece(reader.piece(&piece).unwrap()).unwrap();
    }
    backup.finish().unwrap().0.into_inner()
}

fn read_all(file: &[u8]) -> Result<Machine, ReadError> {
    read(Cursor::new(file), file.len() as u64).map(|read| read.machine)
}

#[test]
fn a_state_is_the_same_after_it_was_written_and_read() {
    for keys in [0, 1, 3000] {
        let file = database(state(keys));
        let found = read_all(&file).unwrap();
        assert_eq!(found.digest(), state(keys).digest());
        assert_eq!(found.etcd().auth(), state(keys).etcd().auth());
        assert_eq!(found.index(), LogIndex(55));
        assert_eq!(found.etcd().compacted(), 4);
    }
}

/// A database with one flipped bit is either read without a panic, or refused.
#[test]
fn changed_files_are_refused_or_read() {
    let file = database(state(30));
    let mut refused = 0;
    for at in 0..file.len() {
        let step = if file[at] == 0 && at % 16 != 0 { 8 } else { 1 };
        for bit in (0..8).step_by(step) {
            let mut changed = file.clone();
            changed[at] ^= 1 << bit;
            refused += u32::from(read_all(&changed).is_err());
        }
    }
    assert!(refused > 5_000, "{refused}");
    for length in 0..file.len() {
        assert!(read_all(&file[..length]).is_err(), "cut at {length}");
    }
}

#[test]
fn a_page_within_itself_is_found() {
    let mut bolt = BoltWriter::new(Cursor::new(Vec::new())).unwrap();
    for number in 0..200_u64 {
        bolt.add(&number.to_be_bytes(), &[0; 100]).unwrap();
    }
    bolt.end_bucket(KEY).unwrap();
    let mut file = bolt.finish().unwrap().0.into_inner();
    let branch = file.chunks(4096).position(|page| page[8..10] == [1, 0]).unwrap();
    // The first child of the branch becomes the branch itself.
    let child = branch * 4096 + PAGE_HEAD_BYTES + 8;
    file[child..child + 8].copy_from_slice(&(branch as u64).to_le_bytes());
    let mut database = BoltReader::open(Cursor::new(&file), file.len() as u64).unwrap();
    let error = database.for_each(KEY, |_, _| Ok(())).unwrap_err();
    assert_eq!(error.to_string(), "a page is used twice");
}

/// A tree that uses its pages many times must not take for ever, even without a record in it.
#[test]
fn pages_that_are_used_twice_are_found() {
    let mut bolt = BoltWriter::new(Cursor::new(Vec::new())).unwrap();
    for number in 0..20_000_u64 {
        bolt.add(&number.to_be_bytes(), &[0; 100]).unwrap();
    }
    bolt.end_bucket(KEY).unwrap();
    let mut file = bolt.finish().unwrap().0.into_inner();
    for page in file.chunks_mut(4096).filter(|page| page[8..10] == LEAF.to_le_bytes()) {
        let is_of_versions = page[PAGE_HEAD_BYTES + 8] == 8;
        if is_of_versions {
            page[10..12].fill(0);
        }
    }
    let branches: Vec<u64> = (0..)
        .zip(file.chunks(4096))
        .filter_map(|(number, page)| (page[8..10] == [1, 0]).then_some(number))
        .collect();
    // All children of each branch become the branch before it; the first branch keeps its leaves.
    for pair in branches.windows(2) {
        let at = pair[1] as usize * 4096;
        let count = usize::from(file[at + 10]);
        for child in 0..count {
            let child = at + PAGE_HEAD_BYTES + child * ENTRY_BYTES + 8;
            file[child..child + 8].copy_from_slice(&pair[0].to_le_bytes());
        }
    }
    let mut database = BoltReader::open(Cursor::new(&file), file.len() as u64).unwrap();
    let error = database.for_each(KEY, |_, _| Ok(())).unwrap_err();
    assert_eq!(error.to_string(), "a page is used twice");
}

/// bbolt keeps the only page of a small bucket inside the bucket's record.
#[test]
fn small_buckets_stand_in_their_records() {
    let mut page = vec![0; PAGE_HEAD_BYTES + ENTRY_BYTES];
    page[8..10].copy_from_slice(&LEAF.to_le_bytes());
    page[10] = 1;
    page[PAGE_HEAD_BYTES + 4] = ENTRY_BYTES as u8;
    page[PAGE_HEAD_BYTES + 8] = INDEX.len() as u8;
    page[PAGE_HEAD_BYTES + 12] = 8;
    page.extend_from_slice(INDEX.as_bytes());
    page.extend_from_slice(&7_u64.to_be_bytes());
    // The record of an empty bucket is replaced by one that has the page inside.
    let mut bolt = BoltWriter::new(Cursor::new(Vec::new())).unwrap();
    bolt.end_bucket(META).unwrap();
    let mut file = bolt.finish().unwrap().0.into_inner();
    let root = u64::from_le_bytes(*file[32..].first_chunk().unwrap()) as usize * 4096;
    let entry = root + PAGE_HEAD_BYTES;
    file[entry + 12] = 16 + page.len() as u8;
    let value = entry + ENTRY_BYTES + META.len();
    file[value..value + 16].fill(0);
    file[value + 16..][..page.len()].copy_from_slice(&page);
    assert_eq!(read_all(&file).unwrap().index(), LogIndex(7));
}

#[test]
fn formats_of_later_versions_are_named() {
    let mut bolt = BoltWriter::new(Cursor::new(Vec::new())).unwrap();
    bolt.add(STORAGE_VERSION_KEY.as_bytes(), b"3.8.0").unwrap();
    bolt.end_bucket(META).unwrap();
    let file = bolt.finish().unwrap().0.into_inner();
    assert_eq!(read_all(&file).unwrap_err().to_string(), "its format 3.8.0 is not known here");
}

type Record = (Vec<u8>, Vec<u8>);

/// A database with these records in these buckets.
fn written(buckets: Vec<(&'static str, Vec<Record>)>) -> Vec<u8> {
    let mut bolt = BoltWriter::new(Cursor::new(Vec::new())).unwrap();
    for (name, records) in buckets {
        for (key, value) in records {
            bolt.add(&key, &value).unwrap();
        }
        bolt.end_bucket(name).unwrap();
    }
    bolt.finish().unwrap().0.into_inner()
}

fn revision_key(revision: i64, mark: &[u8]) -> Vec<u8> {
    [&revision.to_be_bytes()[..], b"_", &[0; 8], mark].concat()
}

fn version(revision: i64, key: &str, lease: i64) -> Record {
    let message = mvccpb::KeyValue {
        key: key.to_string().into(),
        create_revision: revision,
        mod_revision: revision,
        version: 1,
        value: "value".into(),
        lease,
    };
    (revision_key(revision, b""), message.encode_to_vec())
}

fn removal(revision: i64, key: &str) -> Record {
    let message = mvccpb::KeyValue { key: key.to_string().into(), ..<_>::default() };
    (revision_key(revision, b"t"), message.encode_to_vec())
}

fn keys(machine: &Machine) -> Vec<String> {
    let everything = KeyRange { key: &[0], end: &[0] };
    let mut keys = Vec::new();
    let read = machine.etcd().walk_range(everything, machine.etcd().revision(), |event| {
        let lease = event.numbers().lease;
        keys.push(format!("{} {} {lease}", event.key().escape_ascii(), event.revision()));
        true
    });
    read.unwrap();
    keys
}

/// A compaction is scheduled before it removes anything, so versions that it hides may still be
/// there.
#[test]
fn a_compaction_that_has_not_ended_is_ended() {
    let at = |revision| revision_key(revision, b"");
    let meta =
        vec![(b"finishedCompactRev".to_vec(), at(2)), (b"scheduledCompactRev".to_vec(), at(6))];
    let versions = vec![
        version(3, "a", 0),
        version(4, "a", 0),
        removal(5, "b"),
        removal(6, "c"),
        version(7, "b", 0),
    ];
    let file = written(vec![(KEY, versions), (META, meta)]);
    let machine = read_all(&file).unwrap();
    assert_eq!((machine.etcd().compacted(), machine.etcd().revision()), (6, 7));
    assert_eq!(keys(&machine), ["a 4 0", "b 7 0"]);
    let shown: Vec<i64> =
        machine.etcd().events_behind(Place::default()).map(Event::revision).collect();
    assert_eq!(shown, [6, 7], "a watch from the compacted revision sees the removal at it");
}

#[test]
fn a_revision_of_users_from_which_nothing_counts_on_is_damage() {
    let of_users = |revision: u64| {
        let record = (AUTH_REVISION.as_bytes().to_vec(), revision.to_be_bytes().to_vec());
        written(vec![(KEY, vec![version(3, "a", 0)]), (AUTH, vec![record])])
    };
    assert!(read_all(&of_users(RESTORED_NUMBER_MAX)).is_ok());
    for revision in [RESTORED_NUMBER_MAX + 1, u64::MAX] {
        let error = read_all(&of_users(revision)).map(drop).unwrap_err().to_string();
        assert!(error.contains("the bucket auth"), "{error}");
    }
}

/// `etcdutl snapshot restore --bump-revision` leaves a record without a key.
#[test]
fn a_revision_that_was_raised_stays() {
    let raised = (revision_key(1_000, b""), Vec::new());
    let file = written(vec![(KEY, vec![version(3, "a", 0), raised])]);
    let machine = read_all(&file).unwrap();
    assert_eq!((machine.etcd().revision(), keys(&machine)), (1_000, vec!["a 3 0".to_string()]));
}

#[test]
fn what_etcd_serves_in_another_way_is_said() {
    let permission = |key: &'static str, end: &'static str| authpb::Permission {
        perm_type: authpb::permission::Type::Read.into(),
        key: key.into(),
        range_end: end.into(),
    };
    let key_permission = vec![permission("b", "a"), permission("a", "b"), permission("", "z")];
    let role = authpb::Role { name: "old".into(), key_permission };
    let roles = vec![(b"old".to_vec(), role.encode_to_vec())];
    let versions = vec![version(3, "a", 77), version(4, "b", 78), version(5, "b", 0)];
    let file = written(vec![(ROLES, roles), (KEY, versions)]);
    let read = read(Cursor::new(&file), file.len() as u64).unwrap();
    assert_eq!(
        read.differences,
        [
            "the role old has no permission from \"b\" to \"a\": it is for no key",
            "the role old has no permission from \"\" to \"z\": it is for no key",
            "the key \"a\" has no lease: lease 4d does not exist",
        ]
    );
    assert_eq!(keys(&read.machine), ["a 3 0", "b 5 0"]);
    assert_eq!(read.machine.etcd().auth().role("old").unwrap().permissions().count(), 1);
}

/// The database, with a wrong checksum in its first meta.
fn with_torn_meta(mut file: Vec<u8>) -> Vec<u8> {
    file[PAGE_HEAD_BYTES + 56] ^= 1;
    file
}

#[test]
fn a_torn_first_meta_is_made_good_by_the_second() {
    let file = with_torn_meta(database(state(30)));
    assert_eq!(read_all(&file).unwrap().digest(), state(30).digest());
}

/// A client chooses the bytes of a value. They may look like a second meta, at the offset where a
/// database with larger pages has it.
#[test]
fn a_value_is_not_taken_for_a_meta() {
    let mut file = written(vec![(KEY, vec![version(3, "a", 0)])]);
    let mut meta = file[..PAGE_HEAD_BYTES + 64].to_vec();
    let body = PAGE_HEAD_BYTES;
    meta[body + 8..body + 12].copy_from_slice(&32_768_u32.to_le_bytes());
    meta[body + 40..body + 48].copy_from_slice(&1_u64.to_le_bytes());
    meta[body + 48..body + 56].copy_from_slice(&u64::MAX.to_le_bytes());
    let sum = fnv_1a(&meta[body..body + 56]);
    meta[body + 56..].copy_from_slice(&sum.to_le_bytes());
    file.resize(65_536, 0);
    file[32_768..32_768 + meta.len()].copy_from_slice(&meta);
    assert_eq!(keys(&read_all(&file).unwrap()), ["a 3 0"]);
}
