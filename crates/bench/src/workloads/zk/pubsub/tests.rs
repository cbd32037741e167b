//! Runs each kind of test against the null server, and checks which tests the options ask for.

use clap::Parser;

use super::*;

const SHAPE: Shape = Shape {
    kind: Kind::EventThenRead,
    connections: Connections { publishers: 4, subscribers: 12 },
    paths: 3,
    items: 403,
    warmup: 10,
    size: 256,
    rate: None,
    processes: 1,
};

const NO_SUBSCRIBERS: Connections = Connections { subscribers: 0, ..SHAPE.connections };

fn value(block: &Block, name: &str) -> f64 {
    block.figures.iter().find(|figure| figure.name == name).unwrap().values[0]
}

fn has(block: &Block, name: &str) -> bool {
    block.figures.iter().any(|figure| figure.name == name)
}

fn check(shape: &Shape) -> Block {
    let null = null_server(shape).unwrap();
    let block = measure(&Turn::only(&null.target()), shape).unwrap();
    assert_eq!(block.trouble, 0, "{:?}", block.notes);
    assert_eq!(value(&block, "failed requests"), 0.0);
    block
}

#[test]
fn every_ephemeral_is_created_and_deleted() {
    for rate in [None, Some(10_000)] {
        let kind = Kind::Ephemerals;
        let block = check(&Shape { kind, connections: NO_SUBSCRIBERS, rate, ..SHAPE });
        assert_eq!(value(&block, "ephemerals created"), 403.0);
        let rate = value(&block, "updates") * value(&block, "time");
        assert_eq!(rate.round(), 806.0, "both the create and the delete are an update");
        for name in ["create mean", "delete mean", "update mean"] {
            assert!(value(&block, name) > 0.0, "{name}");
        }
    }
}

#[test]
fn each_item_is_an_event_and_a_read_of_each_of_its_subscribers() {
    for (rate, subscribers, warmup) in [(None, 12, 10), (Some(10_000), 12, 10), (None, 4, 0)] {
        let connections = Connections { subscribers, ..SHAPE.connections };
        let block = check(&Shape { connections, rate, warmup, ..SHAPE });
        let seen = 403.0 * (subscribers / 4) as f64;
        assert_eq!(value(&block, "items created"), 403.0);
        for name in ["watches set", "events", "items read"] {
            assert_eq!(value(&block, name), seen, "{name}");
        }
        let [event, data] = ["event mean", "data mean"].map(|name| value(&block, name));
        assert!(0.0 < event && event < data, "{event} {data}");
        assert!(value(&block, "time of the creates") <= value(&block, "time until all is seen"));
    }
}

#[test]
fn an_event_alone_is_not_followed_by_a_read() {
    let block = check(&Shape { kind: Kind::EventOnly, ..SHAPE });
    assert_eq!(value(&block, "events"), 1_209.0);
    assert!(!has(&block, "items read") && !has(&block, "data mean"));
}

#[test]
fn data_is_set_without_a_subscriber() {
    let block = check(&Shape { kind: Kind::SetData, connections: NO_SUBSCRIBERS, ..SHAPE });
    assert_eq!(value(&block, "items set"), 403.0);
    assert!(value(&block, "setData mean") > 0.0 && !has(&block, "events"));
}

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    args: PubsubArgs,
}

fn shapes_of(options: &str) -> anyhow::Result<Vec<Shape>> {
    let words = format!("pubsub --target zk://localhost:1 {options}");
    shapes(&Command::try_parse_from(words.split(' '))?.args)
}

#[test]
fn scenario_2_is_two_tests_of_each_size() {
    let kinds = |options| -> Vec<(Kind, usize)> {
        shapes_of(options).unwrap().iter().map(|shape| (shape.kind, shape.size)).collect()
    };
    let [event, read] = [Kind::EventOnly, Kind::EventThenRead];
    assert_eq!(
        kinds("--scenario 2 --size 256,4096"),
        [(event, 256), (event, 4096), (read, 256), (read, 4096)]
    );
    let [ephemerals, set] = [Kind::Ephemerals, Kind::SetData];
    assert_eq!(kinds("--scenario 3,1 --size 16"), [(set, 16), (ephemerals, 16)]);
    assert_eq!(kinds("--scenario 1,2,3").len(), 16);
}

#[test]
fn the_documents_numbers_are_three_watches_on_each_of_200_paths_of_a_publisher() {
    let shapes = shapes_of("--scenario 2 --items 200000").unwrap();
    let Shape { connections, items, .. } = shapes[0];
    assert_eq!((connections.publishers, shapes[0].subscribers_each()), (1_000, 3));
    assert_eq!(options::share(items, connections.publishers, 999), 200);
}

#[test]
fn options_that_make_no_test_are_named() {
    for (options, expected) in [
        ("--subscribers 3001", "--subscribers: 3001 is no multiple of --publishers, 1000"),
        ("--paths 0", "--paths: 0 is not in 1..=100000"),
        ("--size 256,15", "--size: 15 is not in 16..=1000000"),
        ("--items 0", "--items: 0 is not in"),
    ] {
        let error = shapes_of(options).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
    assert!(shapes_of("--subscribers 3001 --scenario 1,3").is_ok(), "none subscribes there");
}

#[test]
fn published_rows_are_those_of_the_same_kind_of_test() {
    let settings = |kind: Kind, bytes| -> Vec<&str> {
        let is_about =
            |row: &&PubsubRow| row.is_about(kind.scenario(), bytes, kind == Kind::EventOnly);
        PUBSUB.iter().filter(is_about).map(|row| row.setting).collect()
    };
    assert_eq!(settings(Kind::EventOnly, 256), ["event only, 5 client hosts"]);
    let read = ["event, then read, 5 client hosts", "event, then read, 1 client host"];
    assert_eq!(settings(Kind::EventThenRead, 256), read);
    assert_eq!(settings(Kind::EventThenRead, 255), read);
    assert_eq!(settings(Kind::SetData, 256), ["setData"]);
    assert!(settings(Kind::EventThenRead, 2_048).is_empty());
    let nothing = Shape { size: 2_048, ..SHAPE }.published();
    assert_eq!(nothing, ["nothing for 2048 bytes in this test"]);
}
