//! Runs all phases against the null server, and checks the requests, their number, and the figures.

use super::*;
use crate::servers::null_server::NullServer;

const SHAPE: Shape = Shape {
    znode_count: 50,
    znode_bytes: 20,
    watch_multiple: 3,
    is_synchronous: false,
    rate: None,
    burst: 1,
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

/// The server returns other data than were written. The run counts these answers as errors and goes
/// on.
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

/// At 5,000 requests a second, a phase with 200 creates must take 40 ms, and one with 600 watches
/// 120 ms.
#[test]
fn an_open_loop_asks_the_same_and_no_sooner_than_is_due() {
    let null = NullServer::start(SHAPE.znode_bytes).unwrap();
    let shape = Shape { rate: Some(5_000), ..SHAPE };
    let run = run(&null.target(), 4, &shape, "t").unwrap();
    assert_eq!((run.all.operations, run.all.errors, run.all.lost), (4 * 450, 0, 0));
    for phase in &run.phases {
        let last_due_ns = (phase.operations - 1) * 200_000;
        assert!(phase.elapsed_ns >= last_due_ns, "{}: {}", phase.name, phase.elapsed_ns);
        // The null server is a thread of this process, whose wake-ups are not counted.
        assert_eq!(phase.server_wakeups, None);
    }
}

/// The second of two clients has requests due at 110 and 130 ns. Both are sent at 500 ns, but their
/// latencies count from when they were due.
#[test]
fn latency_of_an_open_loop_counts_from_the_intended_start() {
    let shape = Shape { znode_count: 2, ..SHAPE };
    let roots = ["/a".to_string(), "/b".to_string()];
    let mut load = PhaseLoad {
        kind: Kind::Get,
        pace: Some(Pace { start_ns: 100, spacing_ns: 10.0 }),
        shape: &shape,
        roots: &roots,
        data: b"",
        acl: Vec::new(),
        per_client: 2,
        clients: vec![Position::default(); 2],
        tally: Tally::default(),
        path: String::new(),
    };
    let mut session = Session::connect(1);
    let written = session.output().len();
    session.on_written(written);
    assert_eq!(load.next(1, &mut session, 109), Next::At(110));
    assert_eq!(load.next(1, &mut session, 500), Next::Sent);
    assert_eq!(load.next(1, &mut session, 500), Next::Sent);
    assert_eq!(load.next(1, &mut session, 500), Next::Finished);
    assert_eq!(session.since_ns(), [110, 130]);
}

#[test]
fn rates_and_clients_make_the_tests() {
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: LatencyArgs,
    }
    let tests = |line: &str| {
        let line = format!("x --target zk://a:1 {line}");
        let line = <Line as clap::Parser>::try_parse_from(line.split(' ')).ok()?;
        let of = |(clients, shape): (usize, Shape)| (clients, shape.rate, shape.znode_count);
        Some(line.args.tests().into_iter().map(of).collect::<Vec<_>>())
    };
    let plain = vec![(1, None, 10_000), (10, None, 10_000), (20, None, 10_000)];
    assert_eq!(tests("--brief"), Some(plain));
    let paced = vec![(10, Some(5_000), 1_500), (10, Some(15_000), 4_500)];
    assert_eq!(tests("--rate 5000,15000"), Some(paced));
    let long = vec![(2, Some(100), 500), (4, Some(100), 250)];
    assert_eq!(tests("--rate 100 --clients 2,4 --seconds 10"), Some(long));
    for refused in ["--rate 0", "--rate 1 --sync", "--rate 1 --znode-count 5"] {
        assert_eq!(tests(refused), None, "{refused}");
    }
}

/// The target is a null server in this process, found by its port like any other server.
#[test]
fn the_file_says_what_was_done_and_what_each_test_gave() {
    let null = NullServer::start(20).unwrap();
    let path = std::env::temp_dir().join(format!("quorate-latencies-{}", std::process::id()));
    let at = Where {
        target: null.target().address.parse().unwrap(),
        compare: None,
        disk: None,
        json: Some(path.clone()),
    };
    let args = LatencyArgs {
        at,
        repeat: Rounds::of(2, 0),
        clients: vec![1, 2],
        sync: false,
        rate: Vec::new(),
        burst: 1,
        seconds: 3,
        idle_seconds: None,
        znode_count: 20,
        znode_size: 20,
        watch_multiple: 2,
        timeout: 10_000,
        brief: true,
    };
    command(&args).unwrap();
    let results = results::Results::read(&std::fs::read_to_string(&path).unwrap()).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(results.workload, "zk-latencies");
    assert!(results.about[0].starts_with("quorate "));
    for (test, clients) in results.tests.iter().zip([1, 2]) {
        assert_eq!(test.title, format!("{clients} clients, asynchronous"));
        // The results have the target itself, and then the null server of the generator's ceiling.
        for id in ["ours", "null"] {
            let measured = test.of(id).unwrap();
            assert_eq!(measured.figure("get").unwrap().values.len(), 2);
            assert_eq!(measured.latencies.len(), MEASURED.len() + 1);
        }
    }
    assert_eq!(results.tests.len(), 2);
}
