use super::*;
use crate::limits::SESSION_TIMEOUT_MS;
use crate::servers::null_server::NullServer;
use crate::workloads::zk::tree::TreeArgs;

const TREE: TreeArgs = TreeArgs { parents: 3, children: 40, size: 10, clients: 4, keep: false };

/// Two clients and a request every 10 ns: client 0 at 100, 120 and 140 ns, client 1 at 110 and 130
/// ns; five requests in all.
#[test]
fn each_client_has_its_turn_in_the_schedule_and_latency_counts_from_it() {
    let tree = Tree::new(&TREE, "t");
    let pace = Some(Pace { start_ns: 100, spacing_ns: 10.0 });
    let mut load = Traffic::new(&tree, Instant::now(), pace, End::Requests(5), 2);
    let mut sessions = [Session::connect(1), Session::connect(1)];
    for (client, now_ns, expected) in [
        (0, 99, Next::At(100)),
        (0, 100, Next::Sent),
        (0, 101, Next::At(120)),
        (1, 100, Next::At(110)),
        // The client could not send for a while; both requests that are due by now go at once.
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

/// Each session sends sets and reads in turn and waits for each answer, until the time is over.
#[test]
fn a_closed_loop_has_one_request_of_each_session_under_way_until_its_time_is_over() {
    let null = NullServer::with_children(TREE.size, TREE.children).unwrap();
    let target = null.target();
    let mut driver = Driver::connect(&target.addresses, TREE.clients, SESSION_TIMEOUT_MS).unwrap();
    let mut tree = Tree::new(&TREE, "t");
    tree.make(&mut driver, &target).unwrap();
    let end = Instant::now() + Duration::from_millis(100);
    let plan = Plan { rate: None, end: End::at(end), has_reads: true };
    let (done, gaps) = run(&mut driver, &target, &tree, plan).unwrap();
    assert!(Instant::now() >= end);
    let [sets, reads] = done.tallies.each_ref().map(|it| it.answered);
    assert!(sets > 10 && reads > 10, "{sets} {reads}");
    // The number of sessions is even, and each is at most one request ahead with either kind.
    assert!(sets.abs_diff(reads) <= 4, "{sets} {reads}");
    let phase = done.phase("a");
    assert_eq!((phase.operations, phase.errors, phase.lost), (sets + reads, 0, 0));
    assert!(phase.seconds() >= 0.09, "{}", phase.seconds());
    assert!(0 < gaps.longest_ns && gaps.longest_ns <= gaps.client_longest_ns);
}

/// Each session alternates, and so do neighbours in the order of all requests.
#[test]
fn sets_and_reads_follow_each_other() {
    let tree = Tree::new(&TREE, "t");
    let end = End::Requests(100);
    let mut load = Traffic::new(&tree, Instant::now(), None, end.clone(), 2);
    load.has_reads = true;
    let of = |client| [0, 1, 2].map(|number| load.is_read(client, number));
    assert_eq!([of(0), of(1)], [[false, true, false], [true, false, true]]);
    let load = Traffic::new(&tree, Instant::now(), None, end, 2);
    assert!(!load.is_read(0, 1) && !load.is_read(1, 0));
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
