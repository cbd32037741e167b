use super::*;
use crate::servers::null_server::NullServer;
use crate::workloads::zk::tree::TreeArgs;

const TREE: TreeArgs = TreeArgs { parents: 3, children: 40, size: 10, clients: 4, keep: false };

#[test]
fn as_many_requests_are_made_as_the_rate_asks_for() {
    let null = NullServer::with_children(TREE.size, TREE.children).unwrap();
    let target = null.target();
    let mut driver = Driver::connect(&target.addresses, TREE.clients, 10_000).unwrap();
    let mut tree = Tree::new(&TREE, "t");
    tree.make(&mut driver, &target).unwrap();
    let start_ns = driver.now_ns();
    let (open, gaps) = set(&mut driver, &target, &tree, 500, 1, "a").unwrap();
    assert_eq!((open.operations, open.latencies.count(), open.errors), (500, 500, 0));
    assert!(open.rate() > 400.0 && open.rate() <= 501.1, "{}", open.rate());
    // No request is sent before it is due, and the last one is due after 998 ms.
    assert!(driver.now_ns() >= start_ns + 998_000_000);
    assert!(0 < gaps.longest_ns && gaps.longest_ns <= gaps.client_longest_ns);
}

/// Each server in turn sustains every rate up to its capacity and none above.
#[test]
fn the_search_ends_close_below_what_is_sustained() {
    for capacity in [1, 7, 999, 1_000, 37_000, 1_000_000, RATE_MAX] {
        let mut search = Search::default();
        let mut tried = Vec::new();
        while let Some(rate) = search.next() {
            tried.push(rate);
            search.on_probe(rate, rate <= capacity);
        }
        let found = search.sustained.unwrap();
        // Rates are whole numbers, so the search may not come closer.
        let is_close = capacity as f64 <= found as f64 * PROBE_RATE_STEP || capacity == found;
        assert!(found <= capacity && is_close, "{capacity}: {tried:?}");
        assert!(tried.len() < 20, "{capacity}: {tried:?}");
    }
    let mut none = Search::default();
    while let Some(rate) = none.next() {
        none.on_probe(rate, false);
    }
    assert_eq!(none.sustained, None);
}

#[test]
fn a_rate_is_sustained_that_is_reached_in_time_without_errors() {
    let phase = |operations, took_ns, errors, lost| {
        let mut latencies = crate::measure::stats::Latencies::default();
        latencies.record(took_ns);
        let elapsed_ns = 1_000_000_000;
        Phase { operations, elapsed_ns, latencies, errors, lost, ..Phase::default() }
    };
    for (phase, expected) in [
        (phase(950, 9_900_000, 0, 0), true),
        (phase(949, 9_900_000, 0, 0), false),
        (phase(950, 10_100_000, 0, 0), false),
        (phase(950, 9_900_000, 1, 0), false),
        (phase(950, 9_900_000, 0, 1), false),
    ] {
        assert_eq!(is_sustained(&phase, 1_000), expected);
    }
}
