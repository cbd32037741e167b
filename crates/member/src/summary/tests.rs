use super::*;

fn summary(values: &[u64]) -> Summary {
    let mut summary = Summary::default();
    values.iter().for_each(|&value| summary.record(value, 0));
    summary
}

/// Count, sum, least, most, median and .99.
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
    // A run ends in time to go into the histogram whose turn it is.
    summary.record(3, SUMMARY_TURN_MS);
    check(&summary, 2 * SUMMARY_TURN_MS, "6 16 1 3 3 3");
    let mut all = Summary::default();
    all.record(3, 0);
    all.merge(&summary);
    all.record(3, 0);
    check(&all, 0, "8 22 1 3 3 3");
}
