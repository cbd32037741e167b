//! Runs both halves of the workload against the null server.

use super::*;
use crate::servers::null_server::NullServer;

const SHAPE: Shape =
    Shape { connections: 5, watches: 40, is_distinct: false, seers: 30, changes: 3 };

fn values(block: &Block, name: &str) -> Vec<f64> {
    block.figures.iter().find(|figure| figure.name == name).unwrap().values.clone()
}

#[test]
fn every_watch_is_set_and_every_seer_sees_each_change_once() {
    let null = NullServer::start(DATA_BYTES).unwrap();
    let block = measure(&Turn::only(&null.target()), &SHAPE).unwrap();
    assert_eq!(block.trouble, 0, "{:?}", block.notes);
    assert_eq!(values(&block, "watches"), [200.0]);
    assert_eq!(values(&block, "events"), [30.0]);
    let (first, last) = (values(&block, "first event"), values(&block, "last event"));
    assert!(first.iter().zip(&last).all(|(first, last)| *first > 0.0 && first <= last));
}

fn event(load: &mut SeeLoad<'_>, client: usize, kind: i32, path: &str, now_ns: u64) {
    load.on_event(client, kind, path, now_ns);
}

#[test]
fn events_that_nobody_waits_for_are_counted_apart() {
    let mut load = SeeLoad {
        path: "/a".to_string(),
        data: b"x",
        has_seen: vec![false; 2],
        set_ns: None,
        first_ns: 0,
        surplus: 0,
        tally: Tally::default(),
    };
    // These five events do not count: one before the change, one of another kind, one about another
    // znode, a second one, and one to the client that made the change.
    event(&mut load, 0, DATA_CHANGED, "/a", 5);
    load.set_ns = Some(10);
    event(&mut load, 0, 2, "/a", 20);
    event(&mut load, 0, DATA_CHANGED, "/b", 20);
    event(&mut load, 1, DATA_CHANGED, "/a", 25);
    event(&mut load, 1, DATA_CHANGED, "/a", 26);
    event(&mut load, 2, DATA_CHANGED, "/a", 27);
    event(&mut load, 0, DATA_CHANGED, "/a", 40);
    assert_eq!((load.surplus, load.tally.answered, load.first_ns), (5, 2, 15));
    assert_eq!(load.has_seen, [true, true]);
}

#[test]
fn watches_alternate_between_get_and_exists_and_absent_ones_are_all_exists() {
    let args = TreeArgs { parents: 1, children: 4, size: 1, clients: 1, keep: false };
    let tree = Tree::new(&args, "t");
    for (is_distinct, expected) in [
        (false, ["4 /bench-t/p0/c0", "3 /bench-t/p0/c1"]),
        (true, ["3 /bench-t/w0-0", "3 /bench-t/w0-1"]),
    ] {
        let mut session = Session::connect(1_000);
        let greeting = session.output().len();
        session.on_written(greeting);
        let (sent, tally, path) = (vec![0], Tally::default(), String::new());
        let mut load = WatchLoad { tree: &tree, per_client: 2, is_distinct, sent, tally, path };
        for expected in expected {
            assert_eq!(load.next(0, &mut session, 0), Next::Sent);
            let mut frame = JuteReader::new(session.output());
            // Skips the length and the xid.
            frame.int().unwrap();
            frame.int().unwrap();
            let opcode = frame.int().unwrap();
            assert_eq!(format!("{opcode} {}", frame.text().unwrap()), expected);
            assert!(frame.bool().unwrap());
            let length = session.output().len();
            session.on_written(length);
        }
        assert_eq!(load.next(0, &mut session, 0), Next::Finished);
        // Client 1 sets no watches.
        assert_eq!(load.next(1, &mut session, 0), Next::Finished);
    }
}
