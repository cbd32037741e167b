use super::*;

fn summary(values: &[u64]) -> Summary {
    let mut summary = Summary::default();
    values.iter().for_each(|&value| summary.record(value, 0));
    summary
}

/// Checks count, sum, least value, greatest value, median and the 0.99 quantile.
fn check(summary: &Summary, now_ms: u64, expected: &str) {
    let of = summary.distribution(1.0, now_ms);
    let quantiles = of.quantiles.map_or("none".into(), |of| format!("{} {}", of[0], of[3]));
    let found = format!("{} {} {} {} {quantiles}", of.count, of.sum, of.min, of.max);
    assert_eq!(found, expected);
}

#[test]
fn nothing_is_nothing() {
    check(&Summary::default(), 0, "0 0 0 0 none");
}

#[test]
fn values_are_counted_and_distributed() {
    check(&summary(&[0]), 0, "1 0 0 0 0 0");
    check(&summary(&[5, 1, 3]), 0, "3 9 1 5 3 5");
    let many: Vec<u64> = (1..=100).collect();
    check(&summary(&many), 0, "100 5050 1 100 50 99");
}

#[test]
fn a_value_beyond_the_histogram_is_its_largest_there() {
    let found = summary(&[SUMMARY_VALUE_MAX * 10]).distribution(1.0, 0);
    assert_eq!(found.max, (SUMMARY_VALUE_MAX * 10) as f64);
    assert!(found.quantiles.unwrap()[0] >= SUMMARY_VALUE_MAX as f64);
}

#[test]
fn quantiles_forget_and_sums_do_not() {
    let mut summary = summary(&[100]);
    summary.record(1, SUMMARY_TURN_MS);
    check(&summary, SUMMARY_TURN_MS, "2 101 1 100 1 100");
    check(&summary, 2 * SUMMARY_TURN_MS, "2 101 1 100 1 1");
    check(&summary, 4 * SUMMARY_TURN_MS, "2 101 1 100 none");
}

#[test]
fn two_places_are_joined() {
    let mut all = Summary::default();
    all.merge(&Summary::default());
    check(&all, 0, "0 0 0 0 none");
    all.merge(&summary(&[4, 6]));
    all.merge(&summary(&[2]));
    check(&all, 0, "3 12 2 6 4 6");
}

#[test]
fn values_are_shown_in_another_unit() {
    let found = summary(&[1_500]).distribution(1_000.0, 0);
    assert_eq!((found.sum, found.max), (1.5, 1.5));
}

#[test]
fn equal_values_are_counted_like_others() {
    let mut summary = summary(&[3, 3, 3, 1, 3]);
    check(&summary, 0, "5 13 1 3 3 3");
    // A run ends in time for its values to go into the right histogram.
    summary.record(3, SUMMARY_TURN_MS);
    check(&summary, 2 * SUMMARY_TURN_MS, "6 16 1 3 3 3");
    let mut all = Summary::default();
    all.record(3, 0);
    all.merge(&summary);
    all.record(3, 0);
    check(&all, 0, "8 22 1 3 3 3");
}

/// Checks the minimum, average, maximum and count of times that are recorded one by one.
fn check_latency(recorded: &[u64], expected: &str) {
    let mut latency = Latency::default();
    recorded.iter().for_each(|&ms| latency.record(ms));
    let found =
        format!("{} {:.4} {} {}", latency.min_ms, latency.average(), latency.max_ms, latency.count);
    assert_eq!(found, expected, "{recorded:?}");
}

#[test]
fn latencies_are_counted() {
    check_latency(&[], "0 0.0000 0 0");
    check_latency(&[5], "5 5.0000 5 1");
    check_latency(&[3, 1, 2], "1 2.0000 3 3");
    check_latency(&[0, 0, 1], "0 0.3333 1 3");
    check_latency(&[10; 3], "10 10.0000 10 3");
}

#[test]
fn latencies_of_two_places_are_joined() {
    let mut all = Latency::default();
    all.merge(&Latency::default());
    assert_eq!(all, Latency::default());
    let some = Latency { last_ms: 4, min_ms: 2, max_ms: 4, total_ms: 6, count: 2 };
    all.merge(&some);
    all.merge(&Latency::default());
    all.merge(&Latency { last_ms: 1, min_ms: 1, max_ms: 1, total_ms: 1, count: 1 });
    assert_eq!((all.min_ms, all.max_ms, all.total_ms, all.count), (1, 4, 7, 3));
}
