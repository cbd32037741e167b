//! All three scenarios against the null server, and which items each subscriber saw on known input.

use zk::Stat;
use zk::jute::JuteWrite;
use zk::response::encode_stat;

use super::*;
use crate::null_server::NullServer;

const SHAPE: Shape = Shape {
    scenario: 2,
    publishers: 4,
    subscribers: 12,
    items: 403,
    warmup: 10,
    size: 256,
    rate: None,
    is_event_only: false,
};

fn value(block: &Block, name: &str) -> f64 {
    block.figures.iter().find(|figure| figure.name == name).unwrap().values[0]
}

fn check(shape: &Shape) -> Block {
    let null = NullServer::start(shape.size).unwrap();
    let block = measure(&Turn::only(&null.target()), shape).unwrap();
    assert_eq!(block.trouble, 0, "{:?}", block.notes);
    block
}

#[test]
fn every_ephemeral_is_made_and_deleted() {
    for rate in [None, Some(10_000)] {
        let block = check(&Shape { scenario: 1, subscribers: 0, rate, ..SHAPE });
        assert_eq!(value(&block, "ephemerals made"), 403.0);
        assert!(value(&block, "create p50") > 0.0 && value(&block, "delete p50") > 0.0);
    }
}

#[test]
fn every_item_is_seen_or_overtaken_by_each_of_its_subscribers() {
    // Item numbers go round: the first three channels have 101 items, the last 100; 3 subscribers.
    for (rate, subscribers) in [(None, 12), (Some(10_000), 12), (None, 2)] {
        let block = check(&Shape { rate, subscribers, ..SHAPE });
        assert_eq!(value(&block, "items published"), 403.0);
        let seen = value(&block, "items read after an event");
        assert_eq!(value(&block, "events"), seen);
        let due = if subscribers == 12 { 1_209.0 } else { 202.0 };
        assert_eq!(seen + value(&block, "items overtaken"), due);
        assert_eq!(value(&block, "items missed"), 0.0);
        assert!(value(&block, "event p50") > 0.0 && value(&block, "data p50") > 0.0);
    }
}

#[test]
fn an_event_alone_sets_the_watch_again_and_no_item_is_lost_count_of() {
    for rate in [None, Some(10_000)] {
        let block = check(&Shape { rate, is_event_only: true, ..SHAPE });
        let again = value(&block, "watches set again");
        assert_eq!(value(&block, "events"), again);
        assert_eq!(again + value(&block, "items overtaken"), 1_209.0);
        assert_eq!(value(&block, "items missed"), 0.0);
        assert!(!block.figures.iter().any(|figure| figure.name == "data p50"));
    }
}

#[test]
fn data_is_set_without_a_subscriber() {
    let block = check(&Shape { scenario: 3, subscribers: 0, ..SHAPE });
    assert_eq!(value(&block, "items published"), 403.0);
    assert!(!block.figures.iter().any(|figure| figure.name == "events"));
}

#[test]
fn an_open_loop_is_evenly_spaced_and_counts_from_the_intended_start() {
    let pace = Pace { start_ns: 100, spacing_ns: Some(10.0) };
    for (place, under_way, now_ns, expected) in [
        (0.0, 0, 99, Err(Next::At(100))),
        (0.0, 0, 100, Ok(100)),
        (3.0, 0, 129, Err(Next::At(130))),
        // The latency of a late item counts from when it was due, even if requests are under way.
        (3.0, 5, 170, Ok(130)),
        (3.5, 0, 134, Err(Next::At(135))),
    ] {
        assert_eq!(pace.since(place, under_way, now_ns), expected);
    }
    let closed = Pace { start_ns: 100, spacing_ns: None };
    assert_eq!(closed.since(3.0, 0, 170), Ok(170));
    assert_eq!(closed.since(3.0, 1, 170), Err(Next::Wait));
}

fn header(error: ErrorCode) -> ReplyHeader {
    ReplyHeader { xid: 1, zxid: 1, error }
}

fn load() -> (PublishLoad, String) {
    load_of(&SHAPE)
}

fn load_of(shape: &Shape) -> (PublishLoad, String) {
    let args = TreeArgs { parents: 1, children: 1, size: 16, clients: 1, keep: false };
    let tree = Tree::new(&args, "t");
    let shape = Shape { publishers: 1, subscribers: 1, size: 16, ..*shape };
    let mut load = PublishLoad::new(&shape, &tree);
    load.begin(0, Pace { start_ns: 0, spacing_ns: None });
    let mut session = Session::connect(1);
    assert_eq!(load.next(1, &mut session, 1), Next::Sent);
    read(&mut load, &[b'x'; 16], 2);
    assert_eq!(load.next(1, &mut session, 2), Next::Finished);
    let path = load.channels[0].path.clone();
    (load, path)
}

/// The read of the subscriber is answered.
fn read(load: &mut PublishLoad, data: &[u8], now_ns: u64) {
    let mut body = Vec::new();
    body.put_buffer(Some(data));
    load.on_reply(1, header(ErrorCode::OK), JuteReader::new(&body), 1, now_ns);
}

fn item(number: u64, since_ns: u64) -> Vec<u8> {
    [number.to_be_bytes(), since_ns.to_be_bytes()].concat()
}

#[test]
fn an_overtaken_item_is_known_and_its_event_counts_from_the_first_set() {
    let (mut load, path) = load();
    load.begin(3, Pace { start_ns: 0, spacing_ns: Some(10.0) });
    let (mut publisher, mut subscriber) = (Session::connect(1), Session::connect(1));
    for now_ns in [0, 10, 20] {
        assert_eq!(load.next(0, &mut publisher, now_ns), Next::Sent);
        load.on_reply(0, header(ErrorCode::OK), JuteReader::new(&[]), 5, now_ns + 5);
    }
    assert_eq!(load.next(0, &mut publisher, 30), Next::Finished);
    load.on_finished(0, 30);
    assert!(matches!(load.next(1, &mut subscriber, 30), Next::At(1_000_000_000)));
    assert_eq!(load.missed(), 3);
    load.on_event(1, DATA_CHANGED, &path, 40);
    assert_eq!(load.events.latencies.max_us(), 0.04);
    assert_eq!(load.next(1, &mut subscriber, 40), Next::Sent);
    assert_eq!(load.next(1, &mut subscriber, 41), Next::Wait);
    read(&mut load, &item(2, 20), 50);
    assert_eq!((load.overtaken, load.missed(), load.surplus), (2, 0, 0));
    assert_eq!(load.reads.latencies.max_us(), 0.03);
    assert_eq!(load.next(1, &mut subscriber, 50), Next::Finished);
    // No further item could have changed the data.
    load.on_event(1, DATA_CHANGED, &path, 60);
    assert_eq!(load.surplus, 1);
}

/// The version in the answer to exists tells which item the watch was set after.
#[test]
fn without_data_the_version_tells_what_was_overtaken() {
    for (version, seen, overtaken, errors) in
        [(1, 1, 0, 0), (3, 3, 2, 0), (0, 0, 0, 1), (4, 0, 0, 1), (-1, 0, 0, 1)]
    {
        let (mut load, path) = load_of(&Shape { is_event_only: true, ..SHAPE });
        load.begin(3, Pace { start_ns: 0, spacing_ns: Some(10.0) });
        let (mut publisher, mut subscriber) = (Session::connect(1), Session::connect(1));
        for now_ns in [0, 10, 20] {
            assert_eq!(load.next(0, &mut publisher, now_ns), Next::Sent);
            load.on_reply(0, header(ErrorCode::OK), JuteReader::new(&[]), 5, now_ns + 5);
        }
        load.on_event(1, DATA_CHANGED, &path, 40);
        let greeting = subscriber.output().len();
        assert_eq!(load.next(1, &mut subscriber, 40), Next::Sent);
        // The opcode is behind the length and the xid: exists.
        assert_eq!(subscriber.output()[greeting + 8..][..4], [0, 0, 0, 3]);
        let mut body = Vec::new();
        encode_stat(&Stat { version, ..Stat::default() }, &mut body);
        load.on_reply(1, header(ErrorCode::OK), JuteReader::new(&body), 1, 50);
        assert_eq!(
            (load.subscribers[0].seen, load.overtaken, load.reads.errors),
            (seen, overtaken, errors),
            "{version}"
        );
    }
}

#[test]
fn data_that_is_no_item_or_an_old_one_is_an_error() {
    for data in [vec![b'x'; 16], item(7, 0), item(0, 1), item(0, 0)[..15].to_vec(), Vec::new()] {
        let (mut load, path) = load();
        load.begin(1, Pace { start_ns: 0, spacing_ns: None });
        let (mut publisher, mut subscriber) = (Session::connect(1), Session::connect(1));
        assert_eq!(load.next(0, &mut publisher, 0), Next::Sent);
        load.on_event(1, DATA_CHANGED, &path, 5);
        assert_eq!(load.next(1, &mut subscriber, 5), Next::Sent);
        read(&mut load, &data, 6);
        assert_eq!((load.reads.answered, load.reads.errors), (1, 1), "{data:?}");
    }
}

#[test]
fn a_subscriber_does_not_wait_for_what_was_refused_or_never_sent() {
    let (mut load, _) = load();
    load.begin(2, Pace { start_ns: 0, spacing_ns: None });
    let (mut publisher, mut subscriber) = (Session::connect(1), Session::connect(1));
    assert_eq!(load.next(0, &mut publisher, 0), Next::Sent);
    load.on_reply(0, header(ErrorCode::NO_NODE), JuteReader::new(&[]), 5, 5);
    assert_eq!(load.next(1, &mut subscriber, 6), Next::At(1_000_000_000));
    // The session of the publisher is lost.
    load.on_finished(0, 7);
    assert_eq!(load.next(1, &mut subscriber, 8), Next::Finished);
    assert_eq!((load.sets.errors, load.missed()), (1, 0));
}

#[test]
fn too_few_connections_are_shared_out() {
    let shape = Shape { publishers: 1_000, subscribers: 3_000, ..SHAPE };
    assert_eq!(shape.with_connections(4_000), shape);
    let small = shape.with_connections(400);
    assert_eq!((small.publishers, small.subscribers), (100, 300));
    let none = Shape { subscribers: 0, ..shape }.with_connections(10);
    assert_eq!((none.publishers, none.subscribers), (10, 0));
}

#[test]
fn published_rows_are_those_of_the_same_kind_of_subscriber() {
    let settings = |scenario, bytes, is_event_only| -> Vec<&str> {
        let is_about = |row: &&PubsubRow| row.is_about(scenario, bytes, is_event_only);
        PUBSUB.iter().filter(is_about).map(|row| row.setting).collect()
    };
    assert_eq!(settings(2, 256, true), ["event only, 5 client hosts"]);
    let read = ["event, then read, 5 client hosts", "event, then read, 1 client host"];
    assert_eq!(settings(2, 256, false), read);
    assert_eq!(settings(3, 256, true), ["setData"]);
    assert!(settings(2, 2_048, false).is_empty());
}
