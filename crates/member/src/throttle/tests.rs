use super::*;

fn throttle(connections: ConnectionThrottleConfig) -> Throttle {
    Throttle::new(ThrottleConfig { connections, ..ThrottleConfig::default() })
}

/// Plays requests, each a word `MS`, `MS:renew` or `MS/CHANCE`, and checks how many tokens the
/// bucket lacks after each, or `no` if the request is refused.
fn check(config: ConnectionThrottleConfig, script: &str, expected: &str) {
    let throttle = throttle(config);
    let mut seen = Vec::new();
    for word in script.split(' ') {
        let (word, chance) = word.split_once('/').unwrap_or((word, "0.5"));
        let (ms, kind) = word.split_once(':').unwrap_or((word, "new"));
        let admitted =
            throttle.admits(kind == "new", ms.parse().unwrap(), || chance.parse().unwrap());
        seen.push(admitted.map_or("no".to_string(), |deficit| deficit.to_string()));
    }
    assert_eq!(seen.join(" "), expected, "{script}");
}

fn tokens(tokens_max: u32, fill_ms: u32, fill_count: u32) -> ConnectionThrottleConfig {
    ConnectionThrottleConfig {
        tokens_max,
        fill_ms,
        fill_count,
        ..ConnectionThrottleConfig::default()
    }
}

#[test]
fn nobody_is_refused_unless_there_are_tokens() {
    check(ConnectionThrottleConfig::default(), "0 0 0 0", "0 0 0 0");
    check(ConnectionThrottleConfig { freeze_ms: Some(0), ..tokens(0, 1, 0) }, "5 6/0", "0 0");
}

#[test]
fn who_comes_when_the_bucket_is_empty_is_refused() {
    check(tokens(2, 1000, 1), "0 0 0 0", "1 2 no no");
    check(tokens(1, 1000, 0), "0 1000000", "1 no");
}

#[test]
fn the_bucket_is_filled_after_more_than_the_fill_time() {
    check(tokens(1, 1000, 1), "0 1000 1001 1002", "1 no 1 no");
    // A part of an interval is lost when tokens are added.
    check(tokens(1, 1000, 1), "0 1999 2999 3000", "1 1 no 1");
    // Tokens are added in proportion to the time that has passed, but never beyond a full bucket.
    check(tokens(3, 100, 1), "0 0 0 201 201 201 9999 9999 9999 9999", "1 2 3 2 3 no 1 2 3 no");
    check(tokens(5, 10, 3), "0 0 0 0 0 11 11 11 11", "1 2 3 4 5 3 4 5 no");
}

#[test]
fn numbers_at_their_bounds_fill_the_bucket() {
    let largest = tokens(i32::MAX as u32, 1, i32::MAX as u32);
    check(largest, "0 18446744073709551615 18446744073709551615", "1 1 2");
    // The clock of one Front may be behind that of another.
    check(tokens(2, 10, 1), "100 50 50 61", "1 2 no no");
}

#[test]
fn each_takes_as_many_tokens_as_it_weighs() {
    let weights = Some(Weights { new_session: 3, renewed_session: 2 });
    let config = ConnectionThrottleConfig { weights, ..tokens(2, 1000, 1) };
    check(config.clone(), "0 0 0 0:renew", "3 6 no no");
    check(config.clone(), "0:renew 0:renew 0:renew 0:renew", "2 4 6 no");
    check(config.clone(), "0:renew 0:renew 0 0:renew", "2 4 no 6");
    // The refill counts in tokens of new sessions.
    check(config, "0 0 1001 1001:renew", "3 6 6 no");
}

#[test]
fn the_chance_grows_while_the_bucket_is_empty() {
    let config = ConnectionThrottleConfig {
        freeze_ms: Some(10),
        drop_increase: 0.4,
        drop_decrease: 0.3,
        ..tokens(2, 1_000_000, 1)
    };
    let throttle = throttle(config);
    let step = |ms, chance| {
        let admitted = throttle.admits(true, ms, || chance).is_some();
        (admitted, (throttle.drop_probability() * 10.0).round())
    };
    assert_eq!(step(0, 0.0), (true, 0.0));
    assert_eq!(step(11, 0.0), (true, 0.0));
    assert_eq!(step(12, 0.9), (false, 0.0));
    assert_eq!(step(22, 0.9), (false, 4.0));
    assert_eq!(step(32, 0.9), (false, 4.0));
    assert_eq!(step(33, 0.9), (false, 8.0));
    assert_eq!(step(44, 0.9), (false, 10.0));
    assert_eq!(step(55, 0.99), (false, 10.0));
    // The bucket is full again, so the probability falls, but it still causes refusals for now.
    assert_eq!(step(3_000_000, 0.6), (false, 7.0));
    assert_eq!(step(3_000_011, 0.5), (true, 4.0));
    // The bucket is neither empty nor nearly full, so the probability stays.
    assert_eq!(step(3_000_022, 0.5), (true, 4.0));
}

#[test]
fn the_chance_falls_while_the_bucket_is_nearly_full() {
    let config = |decrease_ratio| ConnectionThrottleConfig {
        freeze_ms: Some(0),
        drop_increase: 1.0,
        drop_decrease: 1.0,
        decrease_ratio,
        ..tokens(4, 10, 1)
    };
    let drop_with_one_missing = |ratio| {
        let throttle = throttle(config(ratio));
        for _ in 0..4 {
            throttle.admits(true, 0, || 0.5);
        }
        throttle.admits(true, 1, || 0.5);
        assert_eq!(throttle.drop_probability(), 1.0);
        throttle.admits(true, 31, || 0.5);
        throttle.drop_probability()
    };
    assert_eq!(drop_with_one_missing(0.0), 1.0);
    assert_eq!(drop_with_one_missing(0.124), 1.0);
    assert_eq!(drop_with_one_missing(0.125), 0.0);
    assert_eq!(drop_with_one_missing(1.0), 0.0);
}

fn large(threshold: Option<u32>, bytes_max: u64) -> Throttle {
    let large_requests = LargeRequestsConfig { threshold, bytes_max };
    Throttle::new(ThrottleConfig { large_requests, ..ThrottleConfig::default() })
}

#[test]
fn without_a_threshold_no_request_is_large() {
    let throttle = large(None, 1);
    assert!(!throttle.is_too_large(u32::MAX));
    assert_eq!(throttle.begin_request(u32::MAX), Some(0));
    assert_eq!(throttle.large_bytes(), 0);
}

#[test]
fn large_requests_take_so_many_bytes_together() {
    let throttle = large(Some(10), 30);
    assert_eq!(throttle.begin_request(10), Some(0));
    assert_eq!(throttle.begin_request(11), Some(11));
    assert!(!throttle.is_too_large(19));
    assert!(throttle.is_too_large(20));
    assert!(!throttle.is_too_large(10));
    assert_eq!(throttle.begin_request(20), None);
    assert_eq!(throttle.begin_request(19), Some(19));
    assert_eq!((throttle.begin_request(11), throttle.large_bytes()), (None, 30));
    throttle.end_request(0);
    throttle.end_request(11);
    assert_eq!((throttle.begin_request(11), throttle.large_bytes()), (Some(11), 30));
    throttle.end_request(19);
    throttle.end_request(11);
    assert_eq!(throttle.large_bytes(), 0);
    assert_eq!(throttle.begin_request(31), None);
}
