use super::*;
use crate::null_server::NullServer;

const TREE: TreeArgs = TreeArgs { parents: 3, children: 40, size: 10, clients: 4, keep: false };

#[test]
fn as_many_requests_are_made_as_the_rate_asks_for() {
    let null = NullServer::with_children(TREE.size, TREE.children).unwrap();
    let target = null.target();
    let mut driver = Driver::connect(&target.addresses, TREE.clients, 10_000).unwrap();
    let mut tree = Tree::new(&TREE, "t");
    tree.make(&mut driver, &target).unwrap();
    let until_ns = driver.now_ns() + 20_000_000;
    let (closed, _) = set(&mut driver, &target, &tree, Pace::Closed { until_ns }, "a").unwrap();
    assert!(closed.operations > 0);
    assert_eq!((closed.errors, closed.lost), (0, 0));
    let start_ns = driver.now_ns();
    let pace = Pace::Open { start_ns, spacing_ns: 100_000.0, count: 501 };
    let (open, gaps) = set(&mut driver, &target, &tree, pace, "b").unwrap();
    assert_eq!((open.operations, open.latencies.count(), open.errors), (501, 501, 0));
    // None is sent before it is due, and the last one is after 50 ms.
    assert!(driver.now_ns() >= start_ns + 50_000_000);
    assert!(0 < gaps.longest_ns && gaps.longest_ns <= gaps.client_longest_ns);
}

fn load(tree: &Tree, pace: Pace) -> SetLoad<'_> {
    let (gaps, tally) = (Gaps::new(2), Tally::default());
    SetLoad { tree, pace, sent: vec![0; 2], gaps, tally, path: String::new() }
}

/// Two clients, a request every 10 ns: client 0 at 100, 120, client 1 at 110, 130; five in all.
#[test]
fn each_client_has_its_turn_in_the_schedule_and_latency_counts_from_it() {
    let tree = Tree::new(&TREE, "t");
    let mut load = load(&tree, Pace::Open { start_ns: 100, spacing_ns: 10.0, count: 5 });
    let mut sessions = [Session::connect(1), Session::connect(1)];
    for (client, now_ns, expected) in [
        (0, 99, Next::At(100)),
        (0, 100, Next::Sent),
        (0, 101, Next::At(120)),
        (1, 100, Next::At(110)),
        // The client was kept from sending: both that are due go at once.
        (1, 131, Next::Sent),
        (1, 131, Next::Sent),
        (1, 131, Next::Finished),
        (0, 120, Next::Sent),
        (0, 139, Next::At(140)),
        (0, 140, Next::Sent),
        (0, 140, Next::Finished),
    ] {
        assert_eq!(load.next(client, &mut sessions[client], now_ns), expected);
    }
    assert_eq!(load.sent, [3, 2]);
}

#[test]
fn a_closed_loop_keeps_so_many_under_way_until_its_end() {
    let tree = Tree::new(&TREE, "t");
    let mut load = load(&tree, Pace::Closed { until_ns: 50 });
    let mut session = Session::connect(1);
    for _ in 0..PIPELINE_REQUESTS {
        assert_eq!(load.next(0, &mut session, 49), Next::Sent);
    }
    assert_eq!(load.next(0, &mut session, 49), Next::Wait);
    assert_eq!(load.next(0, &mut session, 50), Next::Finished);
}

#[test]
fn gaps_are_those_between_replies() {
    let mut gaps = Gaps::new(2);
    for (client, now_ns) in [(0, 1_000), (1, 1_010), (0, 1_030), (0, 1_031), (1, 1_040)] {
        gaps.on_reply(client, now_ns);
    }
    assert_eq!((gaps.longest_ns, gaps.client_longest_ns), (20, 30));
    let mut none = Gaps::new(1);
    none.on_reply(0, 1_000_000);
    assert_eq!((none.longest_ns, none.client_longest_ns), (0, 0));
}

#[test]
fn all_of_the_tree_is_set_in_no_order() {
    let seen: std::collections::HashSet<usize> = (0..2_000).map(|it| scattered(it, 120)).collect();
    assert_eq!(seen.len(), 120);
    assert!((0..100).any(|it| scattered(it, 120) > scattered(it + 1, 120)));
}
