//! Tests of the databases that a backup writes. They read a database with a reader of their own;
//! `tests/clients/go` reads one with bbolt.

use std::io::Cursor;
use std::ops::Range;

use machine::LeaseId;
use machine::etcd::event::{Event, Place, Version};
use machine::image::etcd_part::EtcdPart;

use super::bolt_writer::BoltWriter;
use super::*;
use crate::pb::{Message, leasepb, mvccpb};

const PAGE: usize = 4096;

type Record = (Vec<u8>, Vec<u8>);

fn u16_at(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap()))
}

fn u32_at(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// Reads a database, and counts how often each page is used.
struct Reader<'a> {
    file: &'a [u8],
    used: Vec<u32>,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn new(file: &'a [u8]) -> Reader<'a> {
        assert_eq!(file.len() % PAGE, 0, "whole pages");
        Reader { file, used: vec![0; file.len() / PAGE], depth: 0 }
    }

    /// The page with this number, which must have one of these flags, with its overflow pages:
    /// flags, count of entries, and bytes.
    fn page(&mut self, number: u64, flags: &[usize]) -> (usize, usize, &'a [u8]) {
        let start = number as usize * PAGE;
        let file = &self.file[start..];
        assert_eq!(u64_at(file, 0), number);
        assert!(flags.contains(&u16_at(file, 8)), "page {number} has flags {}", u16_at(file, 8));
        let pages = 1 + u32_at(file, 12);
        for page in 0..pages {
            self.used[number as usize + page] += 1;
        }
        (u16_at(file, 8), u16_at(file, 10), &file[..pages * PAGE])
    }

    /// Appends the records of a tree to `out`, each with its flags (1: it is a bucket).
    fn tree(&mut self, root: u64, depth: usize, out: &mut Vec<(usize, Record)>) {
        self.depth = self.depth.max(depth);
        let (flags, count, page) = self.page(root, &[1, 2]);
        let cut = |range: Range<usize>| page[range].to_vec();
        for at in (16..).step_by(16).take(count) {
            if flags == 2 {
                let start = at + u32_at(page, at + 4);
                let middle = start + u32_at(page, at + 8);
                let record = (cut(start..middle), cut(middle..middle + u32_at(page, at + 12)));
                out.push((u32_at(page, at), record));
            } else {
                let start = at + u32_at(page, at);
                let key = cut(start..start + u32_at(page, at + 4));
                let before = out.len();
                self.tree(u64_at(page, at + 8), depth + 1, out);
                assert_eq!(out[before].1.0, key, "a branch has the first key of its child");
            }
        }
    }

    /// The buckets, by name. Asserts that each page is used once.
    fn buckets(mut self) -> Vec<(String, Vec<Record>)> {
        let metas = [0, 1].map(|number| {
            let (_, _, page) = self.page(number, &[4]);
            let body = &page[16..16 + 56];
            let hash = body.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
            });
            assert_eq!(u64_at(page, 72), hash);
            assert_eq!(u64_at(body, 40) as usize * PAGE, self.file.len());
            assert_eq!(u64_at(body, 48), number);
            (u64_at(body, 16), u64_at(body, 32))
        });
        assert_eq!(metas[0], metas[1]);
        let (root, freelist) = metas[0];
        assert_eq!(self.page(freelist, &[16]).1, 0);
        let mut buckets = Vec::new();
        self.tree(root, 0, &mut buckets);
        let named = buckets.into_iter().map(|(flags, (name, value))| {
            assert_eq!(flags, 1);
            let mut records = Vec::new();
            self.tree(u64_at(&value, 0), 0, &mut records);
            assert!(records.iter().all(|(flags, _)| *flags == 0));
            let records: Vec<Record> = records.into_iter().map(|(_, record)| record).collect();
            assert!(records.is_sorted_by(|one, next| one.0 < next.0));
            (String::from_utf8(name).unwrap(), records)
        });
        let named: Vec<_> = named.collect();
        assert!(named.is_sorted_by(|one, next| one.0 < next.0));
        assert!(self.used.iter().all(|uses| *uses == 1), "each page is used once");
        named
    }
}

fn written(records: &[Record]) -> Vec<u8> {
    let mut bolt = BoltWriter::new(Cursor::new(Vec::new())).unwrap();
    for (key, value) in records {
        bolt.add(key, value).unwrap();
    }
    bolt.end_bucket("records").unwrap();
    let (file, bytes) = bolt.finish().unwrap();
    assert_eq!(file.get_ref().len() as u64, bytes);
    file.into_inner()
}

#[test]
fn databases_of_every_height_are_whole() {
    for (count, value_bytes, depth) in [
        (0, 0, 0),
        (1, 0, 0),
        (1, 4032, 0),
        (1, 4033, 0),
        (1, 1_500_000, 0),
        (2, 2_000, 0),
        (3, 2_000, 1),
        (300, 8_000, 2),
        (100_000, 10, 2),
        (100_000, 1_000, 3),
    ] {
        let record = |number: u64| {
            let value = vec![number as u8; value_bytes];
            ([&number.to_be_bytes()[..], b"--------"].concat(), value)
        };
        let records: Vec<Record> = (0..count).map(record).collect();
        let file = written(&records);
        let mut reader = Reader::new(&file);
        let root = u64_at(&file, 16 + 16);
        let mut buckets = Vec::new();
        reader.tree(root, 0, &mut buckets);
        reader.depth = 0;
        reader.tree(u64_at(&buckets[0].1.1, 0), 0, &mut Vec::new());
        assert_eq!(reader.depth, depth, "{count} records with {value_bytes} bytes");
        let buckets = Reader::new(&file).buckets();
        assert!(buckets == [("records".to_string(), records)], "{count} of {value_bytes} bytes");
    }
}

fn put(revision: i64, sub: u32, key: &str, lease: i64) -> Event {
    let numbers = Version { create_revision: 2, version: revision - 1, lease };
    Event::put(Place { revision, sub }, key.as_bytes(), numbers, b"value")
}

fn backup(parts: Vec<EtcdPart>) -> Vec<(String, Vec<Record>)> {
    let empty = || Cursor::new(Vec::new());
    let mut backup = Backup::new(empty(), empty(), Applied { index: 77, term: 3 }).unwrap();
    for part in parts {
        backup.piece(part).unwrap();
    }
    let (file, _) = backup.finish().unwrap();
    Reader::new(file.get_ref()).buckets()
}

fn bucket<'a>(buckets: &'a [(String, Vec<Record>)], name: &str) -> &'a [Record] {
    &buckets.iter().find(|(it, _)| it == name).unwrap().1
}

fn value_of<'a>(records: &'a [Record], key: &[u8]) -> Option<&'a [u8]> {
    records.iter().find(|(it, _)| it == key).map(|(_, value)| &value[..])
}

#[test]
fn versions_stand_by_revision_and_removals_are_marked() {
    let first = EtcdPart { revisions: Some((300, 4)), ..EtcdPart::default() };
    let events = vec![
        Event::delete(Place { revision: 4, sub: 1 }, b"gone"),
        put(3, 0, "a", 0),
        put(257, 0, "a", 0),
        Event::delete(Place { revision: 300, sub: 0 }, b"a"),
        put(4, 0, "b", 99),
    ];
    let leases = vec![(LeaseId(99), 30), (LeaseId(5), 60)];
    let second = EtcdPart { leases, events, ..EtcdPart::default() };
    let buckets = backup(vec![first, second]);
    let keys = bucket(&buckets, "key");
    let shown = keys.iter().map(|(key, value)| {
        let revision = i64::from_be_bytes(key[..8].try_into().unwrap());
        let sub = u64::from_be_bytes(key[9..17].try_into().unwrap());
        let version = mvccpb::KeyValue::decode(&value[..]).unwrap();
        (revision, key[8], sub, key[17..].to_vec(), version.key, version.lease)
    });
    let shown: Vec<_> = shown.collect();
    let row = |revision, sub, mark: &[u8], key: &'static str, lease| {
        (revision, b'_', sub, mark.to_vec(), bytes::Bytes::from(key), lease)
    };
    assert_eq!(
        shown,
        [
            row(3, 0, b"", "a", 0),
            row(4, 0, b"", "b", 99),
            row(4, 1, b"t", "gone", 0),
            row(257, 0, b"", "a", 0),
            row(300, 0, b"t", "a", 0),
        ]
    );
    let version = mvccpb::KeyValue::decode(&keys[3].1[..]).unwrap();
    assert_eq!((version.create_revision, version.mod_revision, version.version), (2, 257, 256));
    assert_eq!(&version.value[..], b"value");
    let leases = bucket(&buckets, "lease");
    assert!(leases.is_sorted());
    let lease = leasepb::Lease::decode(value_of(leases, &99_i64.to_be_bytes()).unwrap()).unwrap();
    assert_eq!((lease.id, lease.ttl), (99, 30));
}

#[test]
fn a_backup_says_where_it_stands() {
    let compacted = |compacted| {
        let revisions = Some((9, compacted));
        backup(vec![EtcdPart { revisions, ..EtcdPart::default() }])
    };
    let buckets = compacted(4);
    let meta = bucket(&buckets, "meta");
    assert_eq!(value_of(meta, b"consistent_index"), Some(&77_u64.to_be_bytes()[..]));
    assert_eq!(value_of(meta, b"term"), Some(&3_u64.to_be_bytes()[..]));
    assert_eq!(value_of(meta, b"storageVersion"), Some(&b"3.6.0"[..]));
    let at = [&4_i64.to_be_bytes()[..], b"_", &[0; 8]].concat();
    assert_eq!(value_of(meta, b"finishedCompactRev"), Some(&at[..]));
    assert_eq!(value_of(meta, b"scheduledCompactRev"), Some(&at[..]));
    assert_eq!(value_of(bucket(&compacted(-1), "meta"), b"finishedCompactRev"), None);
    let names: Vec<&str> = buckets.iter().map(|(name, _)| &**name).collect();
    assert_eq!(
        names,
        [
            "alarm",
            "auth",
            "authRoles",
            "authUsers",
            "cluster",
            "key",
            "lease",
            "members",
            "members_removed",
            "meta",
        ]
    );
}
