//! The phases against the null server: what is asked, how often, and what is made of the answers.

use super::*;
use crate::null_server::NullServer;

const SHAPE: Shape = Shape {
    znode_count: 50,
    znode_bytes: 20,
    watch_multiple: 3,
    is_synchronous: false,
    timeout_ms: 10_000,
};

fn counts(run: &Run) -> Vec<(&'static str, u64, u64)> {
    run.phases.iter().map(|phase| (phase.name, phase.operations, phase.latencies.count())).collect()
}

#[test]
fn each_phase_asks_what_it_says() {
    for is_synchronous in [false, true] {
        let null = NullServer::start(SHAPE.znode_bytes).unwrap();
        let shape = Shape { is_synchronous, ..SHAPE };
        let run = run(&null.target(), 4, &shape, "t").unwrap();
        let expected = MEASURED.map(|(kind, name)| {
            let count = if kind == Kind::Watch { 4 * 50 * 3 } else { 4 * 50 };
            (name, count, count)
        });
        assert_eq!(counts(&run), expected);
        assert_eq!((run.all.operations, run.all.errors, run.all.lost), (4 * 450, 0, 0));
        assert_eq!(shape.operation_count(4), 4 * 450);
        assert_eq!((run.clients, run.notified_ms.len()), (4, 4));
        for phase in &run.phases {
            assert!(phase.client_ns.iter().all(|ns| (1..=phase.elapsed_ns).contains(ns)));
            assert!(phase.server_cpu_ns.is_some());
        }
    }
}

/// The data is not what was written.
#[test]
fn wrong_answers_are_counted_and_not_fatal() {
    let null = NullServer::start(SHAPE.znode_bytes + 1).unwrap();
    let run = run(&null.target(), 2, &SHAPE, "t").unwrap();
    let wrong: Vec<_> = run.phases.iter().map(|phase| (phase.name, phase.errors)).collect();
    for (name, errors) in wrong {
        assert_eq!(errors, if name == "get" { 100 } else { 0 }, "{name}");
    }
}

#[test]
fn watchers_go_round_asynchronously_and_stay_at_a_znode_synchronously() {
    let visited = |is_synchronous| {
        let shape = Shape { znode_count: 2, watch_multiple: 3, is_synchronous, ..SHAPE };
        (0..6).map(|number| znode_of(Kind::Watch, &shape, number)).collect::<Vec<_>>()
    };
    assert_eq!(visited(false), [0, 1, 0, 1, 0, 1]);
    assert_eq!(visited(true), [0, 0, 0, 1, 1, 1]);
}

#[test]
fn nobody_at_the_address_is_an_error() {
    let null = NullServer::start(1).unwrap();
    let target = null.target();
    drop(null);
    assert!(run(&target, 1, &SHAPE, "t").is_err());
}
