use super::*;

fn phase(name: &'static str, operations: u64, elapsed_ms: u64, server_us: u64) -> Phase {
    Phase {
        name,
        operations,
        elapsed_ns: elapsed_ms * 1_000_000,
        client_ns: vec![elapsed_ms * 1_000_000],
        server_cpu_ns: Some(operations * server_us * 1_000),
        ..Phase::default()
    }
}

fn series(name: &str, elapsed_ms: [u64; 3], server_us: [u64; 3]) -> Series {
    let run = |(ms, us)| Run {
        clients: 1,
        phases: vec![phase("create", 1_000, ms, us)],
        notified_ms: vec![0],
        all: phase("all", 1_000, ms, us),
    };
    let runs = elapsed_ms.into_iter().zip(server_us).map(run).collect();
    Series { name: name.to_string(), address: "zk://a:1".to_string(), runs, memory: None }
}

#[test]
fn the_lines_of_the_original() {
    let shape = Shape {
        znode_count: 1_000,
        znode_bytes: 10,
        watch_multiple: 5,
        is_synchronous: true,
        rate: None,
        burst: 1,
        timeout_ms: 1,
    };
    let one = series("a", [500, 500, 500], [1, 1, 1]);
    let mut run = one.runs[0].clone();
    run.phases = vec![phase("any", 1_000, 500, 1); 7];
    let lines = original_lines(&run, &shape);
    let expected = "\
Testing latencies on client 0 using syncronous calls
created    1000 permanent znodes  in    500 ms (0.500000 ms/op 2000.000000/sec)
set        1000           znodes  in    500 ms (0.500000 ms/op 2000.000000/sec)
get        1000           znodes  in    500 ms (0.500000 ms/op 2000.000000/sec)
deleted    1000 permanent znodes  in    500 ms (0.500000 ms/op 2000.000000/sec)
created    1000 ephemeral znodes  in    500 ms (0.500000 ms/op 2000.000000/sec)
watched    5000           znodes  in    500 ms (0.100000 ms/op 10000.000000/sec)
deleted    1000 ephemeral znodes  in    500 ms (0.500000 ms/op 2000.000000/sec)
notif      5000           watches in      0 ms (included in prior)
Latency test complete
";
    assert_eq!(lines, expected);
}

/// A ratio compares two runs of the same round, and not the medians of the two servers.
#[test]
fn ratios_are_medians_of_pairs() {
    let ours = series("ours", [100, 200, 100], [2, 4, 2]);
    let theirs = series("theirs", [400, 1_600, 300], [20, 40, 30]);
    let (name, faster, cheaper) = ratios(&ours, &theirs, 0);
    assert_eq!((name, faster, cheaper), ("create", 4.0, Some(10.0)));
    let text = table(&[ours, theirs]);
    assert!(text.contains("4.00x"), "{text}");
    assert!(text.contains("1/10.0"), "{text}");
}

#[test]
fn a_server_elsewhere_has_no_cpu_figure() {
    let mut ours = series("ours", [100, 100, 100], [2, 2, 2]);
    ours.runs[1].phases[0].server_cpu_ns = None;
    assert!(middle(&ours, 0).server_us.is_none());
    assert!(middle(&ours, 1).server_us.is_some());
    let measured = measured(OURS, &ours, &SHAPE);
    assert!(measured.figure("create: server CPU").unwrap().values.is_empty());
    assert_eq!(measured.figure("create: operations").unwrap().values, [1_000.0; 3]);
}

#[test]
fn wake_ups_are_shown_where_they_were_counted() {
    let mut ours = series("ours", [100, 100, 100], [2, 2, 2]);
    assert_eq!(middle(&ours, 0).server_wakeups, None);
    for (run, wakeups) in ours.runs.iter_mut().zip([500, 2_000, 3_000]) {
        run.phases[0].server_wakeups = Some(wakeups);
    }
    assert_eq!(middle(&ours, 0).server_wakeups, Some(2.0));
    let measured = measured(OURS, &ours, &SHAPE);
    assert_eq!(measured.figure("create: server wake-ups").unwrap().values, [0.5, 2.0, 3.0]);
    assert!(measured.figure("all: server wake-ups").unwrap().values.is_empty());
}

#[test]
fn only_the_rows_with_as_many_clients_are_quoted() {
    let text = published(&[10]);
    assert_eq!(text.lines().filter(|line| line.starts_with("  10 ")).count(), 3);
    assert!(!text.contains("  20 "));
    // 10 clients x 110,000 operations in 58 s.
    assert!(text.contains("18966"), "{text}");
}

const SHAPE: Shape = Shape {
    znode_count: 1_000,
    znode_bytes: 10,
    watch_multiple: 5,
    is_synchronous: false,
    rate: None,
    burst: 1,
    timeout_ms: 1,
};

#[test]
fn a_test_is_lines_of_the_original_then_tables_then_the_ceiling() {
    let mut ours = series("ours", [500, 500, 500], [1, 1, 1]);
    ours.memory = Some((3 << 20, 4 << 20));
    let all = [ours, series("none", [100, 100, 100], [1, 1, 1])];
    let tables = "\
ours (zk://a:1)
phase ops ops/s p50 us p90 us p99 us p99.9 us max us server us wake-ups own us
create 1000 2000 0 0 0 0 0 1.00 - 0.00
all 1000 2000 0 0 0 0 0 1.00 - 0.00
memory after the last run: 3 MiB resident, 4 MiB at most
the generator's ceiling:
none (zk://a:1)
phase ops ops/s p50 us p90 us p99 us p99.9 us max us server us wake-ups own us
create 1000 10000 0 0 0 0 0 1.00 - 0.00
all 1000 10000 0 0 0 0 0 1.00 - 0.00
";
    let lines = "\
ours (zk://a:1), last run
Testing latencies on client 0 using asynchronous calls
created 1000 permanent znodes in 500 ms (0.500000 ms/op 2000.000000/sec)
notif 5000 watches in 0 ms (included in prior)
Latency test complete
";
    let paced = Shape { rate: Some(10), ..SHAPE };
    // Runs of blanks become one blank: the tables are wider than a line of this file.
    let squeezed = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ") + "\n";
    let check = |shape: &Shape, brief, expected: &str| {
        let text: String = test_text(&all, shape, brief).lines().map(squeezed).collect();
        assert_eq!(text, expected);
    };
    check(&SHAPE, true, tables);
    check(&SHAPE, false, &format!("{lines}{tables}"));
    check(&paced, false, tables);
}

#[test]
fn a_test_is_written_down_with_the_null_server() {
    let all = [series("ours", [500, 500, 500], [1, 1, 1]), series("none", [100; 3], [1; 3])];
    let paced = Shape { rate: Some(10), burst: 2, ..SHAPE };
    let test = test("a title".to_string(), &paced, "warm: yes".to_string(), &all);
    assert_eq!((test.title.as_str(), test.warm.as_str()), ("a title", "warm: yes"));
    let ids: Vec<&str> = test.systems.iter().map(|it| it.system.as_str()).collect();
    assert_eq!(ids, [OURS, NULL]);
    let create = test.systems[0].figure("create").unwrap();
    assert_eq!((create.values.as_slice(), create.is_headline), (&[2_000.0; 3][..], true));
    // In open loop the rate was asked for, so it is not compared.
    assert_eq!(create.good, schema::Good::Neither);
    assert_eq!(test.systems[0].latencies.len(), 2);
}
