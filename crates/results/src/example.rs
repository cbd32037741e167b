//! A small run for the tests of this crate: two groups with three tests and a skipped one, our
//! server beside a peer and the null server, with courses, latency curves and a chart.

use crate::schema::{
    Chart, Curve, Disk, Figure, Good, Machine, Measured, Moment, Published, Results, Role, SCHEMA,
    Series, System, Test, Usage,
};

/// How many rounds each figure has.
const ROUNDS: usize = 8;

/// The example run.
pub fn run() -> Results {
    let mut create = test("40 znodes, 1 client", "create", [("ours", 21_500.0), ("zk", 14_100.0)]);
    create.group = "znodes".into();
    create.limit = "fsync of the leader".into();
    create.remarks = vec!["The document's servers kept log and data on one disk.".into()];
    let mut read = test("40 znodes, 20 clients", "read", [("ours", 88_000.0), ("zk", 90_100.0)]);
    read.group = "znodes".into();
    read.systems[1].trouble = 12;
    read.systems[1].notes = vec!["12 sessions were lost in round 3.".into()];
    let mut watch = test("50,000 watches", "event", [("ours", 310_000.0), ("zk", 120_000.0)]);
    watch.group = "watches".into();
    let skipped = Test {
        group: "watches".into(),
        title: "7 servers".into(),
        skipped: Some("2 cores do not carry 7 servers".into()),
        ..Test::default()
    };
    Results {
        schema: SCHEMA.to_string(),
        workload: "zk-latencies".into(),
        title: "Latencies of ZooKeeper (P. Hunt)".into(),
        about: vec!["Each client creates, reads and deletes znodes, one request at a time.".into()],
        command: "quorate bench zk-latencies --rounds 8".into(),
        began_at: "2026-11-27T09:00:00Z".into(),
        seconds: 1_834.0,
        machine: machine(),
        systems: systems(),
        deviations: vec!["All servers share one machine with the generator.".into()],
        traps: vec!["The list of servers in the text differs from the command.".into()],
        tests: vec![create, read, watch, skipped],
        charts: vec![chart()],
        ..Results::default()
    }
}

/// The run of [`run`], with all rates of one system multiplied by `factor`.
pub fn run_with(system: &str, factor: f64) -> Results {
    let mut results = run();
    let measured = results.tests.iter_mut().flat_map(|test| &mut test.systems);
    for measured in measured.filter(|measured| measured.system == system) {
        for figure in measured.figures.iter_mut().filter(|figure| figure.good == Good::More) {
            figure.values.iter_mut().for_each(|value| *value *= factor);
        }
    }
    results
}

/// The run of [`run`] with more of everything: long names, two operations, a second peer, and a
/// test with few rounds.
pub fn large() -> Results {
    let mut results = run();
    let etcd =
        System { id: "etcd".into(), name: "etcd 3.6.4".into(), ..results.systems[1].clone() };
    results.systems.insert(2, etcd);
    let test = &mut results.tests[1];
    test.title =
        "40 znodes of 1 KiB for each of 20 clients on 3 servers, one of them a leader".into();
    for (index, measured) in test.systems.iter_mut().enumerate() {
        let rate = [30_000.0, 12_000.0, 400_000.0][index];
        let more = self::measured(&measured.system, "delete", rate);
        measured.figures.extend(more.figures);
        measured.latencies.extend(more.latencies);
    }
    let second = Measured { system: "etcd".into(), ..self::measured("etcd", "read", 61_000.0) };
    test.systems.insert(2, second);
    for figure in results.tests[2].systems.iter_mut().flat_map(|measured| &mut measured.figures) {
        figure.values.truncate(3);
    }
    let mut linear = chart();
    linear.is_logarithmic = false;
    linear.title = "Creates a second with labels that are long".into();
    linear.labels.iter_mut().for_each(|label| label.push_str(", 3 servers of 5"));
    linear.series.truncate(2);
    linear.series[0].values.truncate(1);
    results.charts.push(linear);
    results.charts.push(crowded());
    results
}

/// A chart with many labels, many lines, and values of very different sizes.
fn crowded() -> Chart {
    let series = (0..7).map(|line| Series {
        name: format!("Quorate 0.3.0, case {line}"),
        values: (0..17).map(|at| Some(10f64.powi(at - 7) * f64::from(line + 1))).collect(),
    });
    Chart {
        title: "Many sizes".into(),
        x: "size".into(),
        unit: "us".into(),
        is_logarithmic: true,
        labels: (0..17).map(|at| format!("{} KiB of data", 1 << at)).collect(),
        series: series.collect(),
    }
}

fn machine() -> Machine {
    let curve = |factor: f64| Curve {
        name: "fdatasync".into(),
        count: 2_000,
        points: [(0.0, 0.4), (50.0, 0.8), (90.0, 1.1), (99.0, 3.0), (99.9, 12.0), (100.0, 31.0)]
            .map(|(percent, value)| (percent, value * factor))
            .to_vec(),
    };
    let disk = Disk {
        folder: "data".into(),
        file_system: "ext4".into(),
        before: curve(1.0),
        after: Some(curve(1.1)),
    };
    Machine {
        processor: "Example 9000".into(),
        cores: 2,
        memory_bytes: 24 << 30,
        kernel: "Linux 6.1.0".into(),
        disk: Some(disk),
        limits: vec!["RLIMIT_NOFILE 1048576".into()],
        stolen_ms: 120,
    }
}

fn systems() -> Vec<System> {
    let system = |id: &str, role, name: &str| System {
        id: id.into(),
        role,
        name: name.into(),
        address: "127.0.0.1:2181".into(),
        build: "9f01f4a7".into(),
        configuration: vec!["tickTime=2000".into(), "snapCount=100000".into()],
    };
    vec![
        system("ours", Role::Ours, "Quorate 0.3.0"),
        system("zk", Role::Peer, "ZooKeeper 3.9.5"),
        system("null", Role::Null, "null server"),
    ]
}

/// A test of one kind of operation. `rates` has the rate of our server and that of the peer.
fn test(title: &str, operation: &str, rates: [(&str, f64); 2]) -> Test {
    let rates = [rates[0], rates[1], ("null", 400_000.0)];
    let systems = rates.iter().map(|(system, rate)| measured(system, operation, *rate));
    Test {
        title: title.into(),
        warm: "The servers had run for 30 s.".into(),
        published: vec![Published {
            figure: format!("{operation} rate"),
            value: Some(5_000.0),
            text: "5,000 per s".into(),
        }],
        systems: systems.collect(),
        ..Test::default()
    }
}

/// The measured values of a system with this rate. The values of the rounds differ by up to 2 %.
fn measured(system: &str, operation: &str, rate: f64) -> Measured {
    let figure = |name: &str, unit: &str, good, value: f64, is_headline| Figure {
        name: format!("{operation} {name}"),
        unit: unit.into(),
        good,
        values: (0..ROUNDS)
            .map(|round| {
                let own = f64::from(u32::from(system.len() as u8 + round as u8 * 7)) % 5.0;
                value * (1.0 + 0.002 * round as f64 + 0.001 * own)
            })
            .collect(),
        is_headline,
    };
    let mean_ms = 1_000.0 / rate;
    let mut figures = vec![
        figure("rate", "per s", Good::More, rate, true),
        figure("p99", "ms", Good::Less, 3.0 * mean_ms, false),
        figure("operations", "", Good::Neither, 40_000.0, false),
    ];
    if system != "null" {
        figures.push(figure("server CPU per operation", "us", Good::Less, 1e6 / rate, false));
    }
    Measured {
        system: system.into(),
        figures,
        latencies: vec![curve(operation, mean_ms)],
        course: (0..40).map(|second| moment(second, rate, system == "null")).collect(),
        notes: Vec::new(),
        trouble: 0,
    }
}

fn curve(name: &str, mean_ms: f64) -> Curve {
    let percents =
        [0.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99, 99.995, 100.0];
    let value = |index: usize| mean_ms * (0.3 + 0.1 * (index * index) as f64);
    let points = percents.iter().enumerate().map(|(index, percent)| (*percent, value(index)));
    Curve { name: name.into(), count: 80_000, points: points.collect() }
}

fn moment(second: u32, rate: f64, is_null: bool) -> Moment {
    let wave = 1.0 + 0.05 * (f64::from(second) / 3.0).sin();
    let mean_ms = 1_000.0 / rate;
    let usage = |part: f64| Usage {
        cpu_cores: (!is_null).then_some(part * 0.9 * wave),
        resident_mib: (!is_null).then(|| part * (60.0 + f64::from(second) * rate / 9e4)),
        disk_mib: None,
    };
    Moment {
        at_s: f64::from(second),
        rate: Some(rate * wave),
        p50_ms: Some(mean_ms / wave),
        p99_ms: (second > 0).then(|| 3.0 * mean_ms / wave / wave),
        all: usage(1.0),
        // A leader and two followers, which have less to do.
        servers: if is_null { Vec::new() } else { [0.5, 0.3, 0.2].map(usage).to_vec() },
    }
}

fn chart() -> Chart {
    let series = |name: &str, values: [Option<f64>; 4]| Series {
        name: name.into(),
        values: values.to_vec(),
    };
    Chart {
        title: "Creates a second by number of clients".into(),
        x: "clients".into(),
        unit: "per s".into(),
        is_logarithmic: true,
        labels: ["1 client", "10 clients", "20 clients", "60 clients"].map(String::from).to_vec(),
        series: vec![
            series("published", [Some(700.0), Some(5_100.0), None, Some(9_800.0)]),
            series("ZooKeeper 3.9.5", [Some(900.0), Some(7_000.0), Some(11_000.0), Some(14_100.0)]),
            series("Quorate 0.3.0", [Some(1_100.0), Some(9_900.0), Some(16_000.0), Some(21_500.0)]),
        ],
    }
}
