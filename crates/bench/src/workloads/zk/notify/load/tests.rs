//! Which items a subscriber counts as seen, for known input.

use zk::Stat;
use zk::jute::JuteWrite;
use zk::response::encode_stat;

use super::*;
use crate::workloads::zk::pubsub::options::Connections;
use crate::workloads::zk::tree::TreeArgs;

fn header(error: ErrorCode) -> ReplyHeader {
    ReplyHeader { xid: 1, zxid: 1, error }
}

fn load() -> (NotifyLoad, String) {
    load_of(false)
}

fn load_of(is_event_only: bool) -> (NotifyLoad, String) {
    let args = TreeArgs { parents: 1, children: 1, size: 16, clients: 1, keep: false };
    let tree = Tree::new(&args, "t");
    let connections = Connections { publishers: 1, subscribers: 1 };
    let shape = Shape { connections, items: 3, warmup: 0, size: 16, rate: None, is_event_only };
    let mut load = NotifyLoad::new(&shape, &tree);
    load.begin(0, Pace { start_ns: 0, spacing_ns: None });
    let mut session = Session::connect(1);
    assert_eq!(load.next(1, &mut session, 1), Next::Sent);
    read(&mut load, &[b'x'; 16], 2);
    assert_eq!(load.next(1, &mut session, 2), Next::Finished);
    let path = load.channels[0].path.clone();
    (load, path)
}

/// Answers the read of the subscriber.
fn read(load: &mut NotifyLoad, data: &[u8], now_ns: u64) {
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
    // All items were set and seen, so this event is surplus.
    load.on_event(1, DATA_CHANGED, &path, 60);
    assert_eq!(load.surplus, 1);
}

/// The version in the answer to `exists` shows which item was the newest when the watch was set.
#[test]
fn without_data_the_version_tells_what_was_overtaken() {
    for (version, seen, overtaken, errors) in
        [(1, 1, 0, 0), (3, 3, 2, 0), (0, 0, 0, 1), (4, 0, 0, 1), (-1, 0, 0, 1)]
    {
        let (mut load, path) = load_of(true);
        load.begin(3, Pace { start_ns: 0, spacing_ns: Some(10.0) });
        let (mut publisher, mut subscriber) = (Session::connect(1), Session::connect(1));
        for now_ns in [0, 10, 20] {
            assert_eq!(load.next(0, &mut publisher, now_ns), Next::Sent);
            load.on_reply(0, header(ErrorCode::OK), JuteReader::new(&[]), 5, now_ns + 5);
        }
        load.on_event(1, DATA_CHANGED, &path, 40);
        let greeting = subscriber.output().len();
        assert_eq!(load.next(1, &mut subscriber, 40), Next::Sent);
        // The opcode follows the length and the xid; 3 is `exists`.
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
    // The publisher has lost its session.
    load.on_finished(0, 7);
    assert_eq!(load.next(1, &mut subscriber, 8), Next::Finished);
    assert_eq!((load.sets.errors, load.missed()), (1, 0));
}
