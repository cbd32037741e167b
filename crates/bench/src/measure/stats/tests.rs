use super::*;

fn of(values: impl IntoIterator<Item = u64>) -> Latencies {
    let mut latencies = Latencies::default();
    values.into_iter().for_each(|ns| latencies.record(ns));
    latencies
}

/// Whether `found` equals `expected` within a histogram's precision: three digits, and the next
/// value where a percentile falls between two.
fn is_near(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= expected / 500.0 + 1e-9
}

#[test]
fn percentiles_of_known_input() {
    let latencies = of((1..=1_000).map(|at| at * 1_000));
    for (percent, us) in [(50.0, 500.0), (90.0, 900.0), (99.0, 990.0), (99.9, 999.0)] {
        let found = latencies.percentile_us(percent);
        assert!(is_near(found, us), "p{percent}: {found}");
    }
    assert!(is_near(latencies.max_us(), 1_000.0));
    assert_eq!(latencies.count(), 1_000);
}

#[test]
fn the_mean_is_not_the_median() {
    let latencies = of([1_000, 1_000, 1_000, 97_000]);
    assert!(is_near(latencies.mean_us(), 25.0), "{}", latencies.mean_us());
    assert!(is_near(latencies.percentile_us(50.0), 1.0));
}

#[test]
fn none_and_the_extremes() {
    assert_eq!((of([]).percentile_us(99.0), of([]).max_us(), of([]).mean_us()), (0.0, 0.0, 0.0));
    let latencies = of([0, u64::MAX]);
    assert_eq!(latencies.count(), 2);
    assert!(is_near(latencies.max_us(), LATENCY_NS_MAX as f64 / 1e3));
}

#[test]
fn added_histograms_count_everything() {
    let mut all = of([1_000; 3]);
    all.add(&of([9_000; 7]));
    assert_eq!(all.count(), 10);
    assert!(is_near(all.percentile_us(30.0), 1.0));
    assert!(is_near(all.percentile_us(31.0), 9.0));
}

#[test]
fn medians() {
    for (figures, expected) in
        [(&[][..], 0.0), (&[3.0][..], 3.0), (&[3.0, 1.0][..], 2.0), (&[9.0, 1.0, 2.0][..], 2.0)]
    {
        assert_eq!(median(figures), expected);
    }
}

#[test]
fn rates_and_costs() {
    let phase = Phase {
        operations: 1_000,
        elapsed_ns: 500_000_000,
        server_cpu_ns: Some(2_000_000),
        own_cpu_ns: 1_000_000,
        ..Phase::default()
    };
    assert_eq!((phase.rate(), phase.server_us(), phase.own_us()), (2_000.0, Some(2.0), 1.0));
    let nothing = Phase { server_cpu_ns: Some(5), ..Phase::default() };
    assert_eq!((nothing.rate(), nothing.server_us(), nothing.own_us()), (0.0, Some(0.0), 0.0));
}

#[test]
fn a_curve_has_only_percentiles_that_are_known() {
    let mut latencies = Latencies::default();
    (1..=200).for_each(|ms| latencies.record(ms * 1_000_000));
    let curve = latencies.curve("c");
    assert_eq!(curve.count, 200);
    let percents: Vec<f64> = curve.points.iter().map(|(percent, _)| *percent).collect();
    assert!(percents.contains(&99.5) && !percents.contains(&99.9), "{percents:?}");
    assert_eq!(curve.points.first().unwrap().1.round(), 1.0);
    assert_eq!(curve.points.last().unwrap().1.round(), 200.0);
    assert!(Latencies::default().curve("none").points.is_empty());
}

/// A process sends its latencies to another process as text, which must give equal histograms.
#[test]
fn latencies_are_the_same_behind_a_text() {
    let mut latencies = Latencies::default();
    for ns in [0, 1, 999, 1_000_000, 1_000_001, 70_000_000_123, u64::MAX] {
        latencies.record(ns);
    }
    let text = serde_json::to_string(&latencies).unwrap();
    let read: Latencies = serde_json::from_str(&text).unwrap();
    assert_eq!(read.count(), 7);
    assert_eq!(read.curve("a"), latencies.curve("a"));
    assert_eq!(read.max_us(), latencies.max_us());
}
