//! Runs whole tests against the null server.

use super::*;
use crate::servers::null_server::NullServer;

const SHAPE: Shape = Shape {
    connections: Connections { publishers: 4, subscribers: 12 },
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
fn every_item_is_seen_or_overtaken_by_each_of_its_subscribers() {
    // 403 items of 4 publishers: the first three publish 101 each, the last 100. Each has 3
    // subscribers.
    for (rate, subscribers) in [(None, 12), (Some(10_000), 12), (None, 2)] {
        let connections = Connections { subscribers, ..SHAPE.connections };
        let block = check(&Shape { rate, connections, ..SHAPE });
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
