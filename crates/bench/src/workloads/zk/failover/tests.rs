use super::*;

const LOAD: LoadArgs = LoadArgs { sessions: 3, size: 100, timeout: 10_000, pause: 10 };

#[test]
fn impossible_loads_are_named() {
    assert!(LOAD.check().is_ok());
    for (load, named) in [
        (LoadArgs { sessions: 0, ..LOAD }, "--sessions: 0"),
        (LoadArgs { size: NUMBER_BYTES - 1, ..LOAD }, "--size: 7"),
        (LoadArgs { size: DATA_BYTES_MAX + 1, ..LOAD }, "--size"),
        (LoadArgs { timeout: 0, ..LOAD }, "--timeout: 0"),
    ] {
        let error = load.check().unwrap_err().to_string();
        assert!(error.starts_with(named), "{error}");
    }
}

/// Two rounds with one session each: the pooled gaps contain both.
#[test]
fn gaps_of_all_rounds_are_pooled() {
    let mut pooled = Pooled::default();
    for ms in [100, 300] {
        pooled.gaps.record(ms * 1_000_000);
    }
    let [gaps, kinds] = pooled.notes();
    assert!(gaps.starts_with("longest gaps of 2 sessions"), "{gaps}");
    assert!(gaps.contains("p50 0.10 s") && gaps.ends_with("max 0.30 s"), "{gaps}");
    assert!(kinds.ends_with(": none"), "{kinds}");
}
