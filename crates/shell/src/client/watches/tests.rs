//! Tests of the watches that are left after events, and of the requests that set them again.
#![allow(clippy::unwrap_used)]

use zk::{JuteReader, RequestHeader};

use super::*;

fn watches(set: &[(WatchKind, &str)]) -> Watches {
    let mut watches = Watches::default();
    set.iter().for_each(|(kind, path)| watches.add(*kind, path));
    watches
}

/// One watch of each kind, all on one path.
fn all() -> Watches {
    watches(&KINDS.map(|kind| (kind, "/a")))
}

#[test]
fn what_fires_once_is_gone_when_it_fired() {
    let left = |event_type| {
        let mut watches = all();
        watches.on_event(event_type, "/b");
        assert_eq!(watches.count(), 5);
        watches.on_event(event_type, "/a");
        KINDS.map(|kind| watches.paths[kind as usize].contains("/a"))
    };
    assert_eq!(left(1), [false, false, true, true, true]);
    assert_eq!(left(2), [false, false, false, true, true]);
    assert_eq!(left(3), [false, false, true, true, true]);
    assert_eq!(left(4), [true, true, false, true, true]);
    assert_eq!(left(7), [true; 5]);
}

#[test]
fn each_type_removes_its_own() {
    let removed = |watcher_type| {
        let mut watches = all();
        assert!(watches.has("/a", watcher_type));
        assert!(!watches.has("/b", watcher_type));
        let events = watches.remove("/a", watcher_type);
        assert!(!watches.has("/a", watcher_type));
        assert!(watches.remove("/a", watcher_type).is_empty());
        (events, watches.count())
    };
    assert_eq!(removed(WatcherType::Data), (vec![5], 3));
    assert_eq!(removed(WatcherType::Children), (vec![6], 4));
    assert_eq!(removed(WatcherType::Persistent), (vec![7], 4));
    assert_eq!(removed(WatcherType::PersistentRecursive), (vec![7], 4));
    assert_eq!(removed(WatcherType::Any), (vec![5, 6, 7], 0));
}

fn decode(frame: &[u8]) -> Request<'_> {
    let mut reader = JuteReader::new(&frame[4..]);
    let header = RequestHeader::decode(&mut reader).unwrap();
    assert_eq!(header.xid, XID_SET_WATCHES);
    Request::decode(header.opcode, &mut reader).unwrap()
}

#[test]
fn they_are_set_again_by_a_request_that_old_servers_know_where_that_will_do() {
    assert_eq!(Watches::default().restoring(7), Vec::<Vec<u8>>::new());
    let set = watches(&[(WatchKind::Data, "/d"), (WatchKind::Child, "/c")]);
    let frames = set.restoring(7);
    let expected = SetWatchesRequest {
        relative_zxid: 7,
        data: vec!["/d"],
        child: vec!["/c"],
        ..SetWatchesRequest::default()
    };
    assert_eq!(frames.len(), 1);
    assert_eq!(decode(&frames[0]), Request::SetWatches(expected));
    let set = watches(&[(WatchKind::Exist, "/e"), (WatchKind::PersistentRecursive, "/r")]);
    let expected = SetWatches2Request {
        watches: SetWatchesRequest {
            relative_zxid: 9,
            exist: vec!["/e"],
            ..SetWatchesRequest::default()
        },
        persistent: vec![],
        persistent_recursive: vec!["/r"],
    };
    assert_eq!(decode(&set.restoring(9)[0]), Request::SetWatches2(expected));
}

#[test]
fn many_are_set_again_by_several_requests() {
    let mut set = Watches::default();
    for index in 0..1_000 {
        set.add(WatchKind::Data, &format!("/{index:0>499}"));
    }
    let frames = set.restoring(1);
    assert_eq!(frames.len(), 4);
    let counts: Vec<usize> = frames
        .iter()
        .map(|frame| match decode(frame) {
            Request::SetWatches(watches) => watches.data.len(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(counts.iter().sum::<usize>(), 1_000);
    assert!(frames.iter().all(|frame| frame.len() < SET_WATCHES_BYTES_MAX + 10_000));
}

#[test]
fn only_so_many_are_kept() {
    let mut set = Watches::default();
    for index in 0..=WATCHES_MAX {
        set.add(WatchKind::Data, &format!("/{index}"));
    }
    assert_eq!(set.count(), WATCHES_MAX);
}
