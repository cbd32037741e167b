use super::*;
use crate::change::Changes;
use crate::image::FreezeStep;
use crate::image::etcd_part::EtcdPartReader;
use crate::machine::tests::rig::Random;

const KEYS: [&str; 5] = ["a", "ab", "b", "c", "d"];

/// A store with a random history, compacted at a random revision or never.
fn drawn(random: &mut Random) -> Store {
    let mut store = Store::default();
    store.leases.add(LeaseId(7), Grant { ttl_s: 60, granted: Ordinal::default() });
    let transactions = random.below(1500);
    for _ in 0..transactions {
        let revision = store.revision + 1;
        let (mut sub, mut changes) = (0, Changes::default().etcd);
        for key in KEYS {
            let place = Place { revision, sub };
            match random.below(8) {
                0..=1 => store.put(place, (key.as_bytes(), b"value"), 0, &mut changes),
                2 => store.put(place, (key.as_bytes(), b"v"), 7, &mut changes),
                3 if store.index.newest(key.as_bytes()).is_some() => {
                    let range = KeyRange { key: key.as_bytes(), end: &[] };
                    store.delete_range(place, range, 1, &mut changes, |_| {});
                }
                _ => continue,
            }
            sub += 1;
        }
        if sub > 0 {
            store.revision = revision;
        }
    }
    store
}

/// The versions in an image of the store, in the order of their revisions.
fn versions_in_image(store: Store) -> Vec<Event> {
    let mut machine = Machine { etcd: store, ..Machine::default() };
    machine.freeze();
    let (mut reader, mut events) = (EtcdPartReader::default(), Vec::new());
    while !reader.is_whole() {
        let (FreezeStep::Piece(piece) | FreezeStep::Last(piece)) = machine.freeze_step(4096, 100)
        else {
            panic!("nothing changes the machine");
        };
        events.extend(reader.piece(&piece).unwrap().events);
    }
    events.sort_by_key(Event::place);
    events
}

fn imported(compacted: i64, events: &[Event], revision: i64) -> Machine {
    let mut import = Import::new(Some(compacted).filter(|it| *it >= 0)).unwrap();
    import.add_lease(LeaseId(7), 60).unwrap();
    for event in events {
        import.push(event.clone()).unwrap();
    }
    if revision > import.store.revision {
        import.move_to(Place { revision, sub: 0 }).unwrap();
    }
    import.finish(LogIndex(9)).unwrap()
}

/// Everything about the store's keys, as text.
fn shown(store: &Store) -> Vec<String> {
    let mut lines = vec![format!(
        "{} {} {:?} {:?} {:?}",
        store.revision, store.compacted, store.base_sum, store.tail_sum, store.edge
    )];
    let everything = KeyRange { key: &[0], end: &[0] };
    for revision in store.compacted.max(1)..=store.revision {
        let mut at = format!("{revision}:");
        let read = store.walk_range(everything, revision, |event| {
            at += &format!(" {event:?}");
            true
        });
        read.unwrap();
        lines.push(at);
    }
    lines.extend(store.events_behind(Place::default()).map(|event| format!("{event:?}")));
    let leased = store.leases.get(LeaseId(7)).unwrap().keys();
    lines.extend(leased.map(|key| key.escape_ascii().to_string()));
    lines
}

#[test]
fn a_store_is_the_same_after_it_was_imported() {
    for seed in 0..40 {
        let mut random = Random(seed);
        let mut store = drawn(&mut random);
        let revision = store.revision;
        let whole: Vec<Event> = store.events_behind(Place::default()).cloned().collect();
        if random.below(4) > 0 && revision > 1 {
            store.compact(1 + random.below(revision as usize) as i64).unwrap();
        }
        let compacted = store.compacted;
        let expected = shown(&store);
        let versions = versions_in_image(store);
        let from_image = imported(compacted, &versions, revision);
        assert_eq!(shown(&from_image.etcd), expected, "seed {seed}, from an image");
        // The history may also contain versions that a compaction has hidden but not removed yet.
        let from_whole = imported(compacted, &whole, revision);
        assert_eq!(shown(&from_whole.etcd), expected, "seed {seed}, from everything");
        assert_eq!(from_whole.digest(), from_image.digest());
    }
}

fn a_version(revision: i64, lease: i64) -> Event {
    let numbers = Version { create_revision: revision, version: 1, lease };
    Event::put(Place { revision, sub: 0 }, b"key", numbers, b"value")
}

#[test]
fn what_cannot_be_is_named() {
    let mut import = Import::new(None).unwrap();
    import.push(a_version(5, 0)).unwrap();
    assert_eq!(import.push(a_version(5, 0)), Err(ImportError::Order { revision: 5 }));
    assert_eq!(import.push(a_version(4, 0)), Err(ImportError::Order { revision: 4 }));
    let high = ETCD_REVISION_MAX + 1;
    assert_eq!(import.push(a_version(high, 0)), Err(ImportError::Order { revision: high }));
    assert!(Import::new(Some(high)).is_err());
    let none = LeaseId(0);
    assert_eq!(import.add_lease(none, 5), Err(ImportError::Lease { lease: none, ttl_s: 5 }));
    import.add_lease(LeaseId(9), 5).unwrap();
    let twice = import.add_lease(LeaseId(9), 5);
    assert_eq!(twice, Err(ImportError::Lease { lease: LeaseId(9), ttl_s: 5 }));
}

#[test]
fn keys_of_leases_that_do_not_exist_are_found_and_detached() {
    let pushed = |detached: &[Place]| {
        let mut import = Import::new(None).unwrap();
        import.detach(detached.iter().copied());
        import.push(a_version(5, 7)).unwrap();
        import.push(a_version(6, 8)).unwrap();
        import.finish(LogIndex(9))
    };
    let place = Place { revision: 6, sub: 0 };
    let missing = MissingLease { place, key: b"key".as_slice().into(), lease: 8 };
    assert_eq!(pushed(&[]).unwrap_err(), [missing]);
    let machine = pushed(&[place]).unwrap();
    let newest = machine.etcd.index.newest(b"key").unwrap();
    assert_eq!((newest.place(), newest.numbers().lease), (place, 0));
}

#[test]
fn older_versions_may_name_leases_that_are_over() {
    let mut import = Import::new(None).unwrap();
    import.push(a_version(5, 8)).unwrap();
    import.push(a_version(6, 0)).unwrap();
    assert_eq!(import.finish(LogIndex(9)).unwrap().etcd.key_count(), 1);
}

#[test]
fn a_history_may_end_below_its_compacted_revision() {
    let mut import = Import::new(Some(9)).unwrap();
    import.push(a_version(5, 0)).unwrap();
    let store = import.finish(LogIndex(9)).unwrap().etcd;
    assert_eq!((store.revision, store.compacted, store.key_count()), (9, 9, 1));
}
