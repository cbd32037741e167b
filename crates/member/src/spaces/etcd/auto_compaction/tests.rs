use super::*;

const MINUTE_MS: u64 = 60_000;

/// The compactions of a member whose revision grows by 10 a minute: the minute and the revision of
/// each.
fn compactions(mode: AutoCompaction, minutes: u64, leads: impl Fn(u64) -> bool) -> Vec<(u64, i64)> {
    let mut compactor = AutoCompactor::new(mode, 1);
    let mut begun = Vec::new();
    for now_ms in (0..minutes * MINUTE_MS).step_by(1_000) {
        let minute = now_ms / MINUTE_MS;
        let revision = 1 + 10 * minute as i64;
        if let Some(wanted) = compactor.step(now_ms, revision, leads(minute)) {
            assert!(wanted <= revision);
            begun.push((minute, wanted));
        }
    }
    begun
}

#[test]
fn the_periodic_mode_keeps_a_period() {
    let mode = AutoCompaction::Periodic { ms: 10 * MINUTE_MS };
    assert_eq!(compactions(mode, 9, |_| true), []);
    // Each compaction keeps one period, and up to the time between two notes more.
    assert_eq!(compactions(mode, 45, |_| true), [(10, 1), (20, 91), (30, 191), (40, 291)]);
    let hours = AutoCompaction::Periodic { ms: 120 * MINUTE_MS };
    assert_eq!(compactions(hours, 250, |_| true), [(120, 1), (180, 541), (240, 1_141)]);
}

#[test]
fn a_new_leader_knows_what_the_revision_was_a_period_ago() {
    let mode = AutoCompaction::Periodic { ms: 10 * MINUTE_MS };
    assert_eq!(compactions(mode, 60, |_| false), []);
    assert_eq!(compactions(mode, 45, |minute| minute >= 33), [(33, 221), (43, 321)]);
}

#[test]
fn the_mode_of_revisions_keeps_as_many_every_five_minutes() {
    let mode = AutoCompaction::Revisions { count: 70 };
    assert_eq!(compactions(mode, 21, |_| true), [(10, 31), (15, 81), (20, 131)]);
    // If the revision has not grown, nothing is compacted again.
    let mut compactor = AutoCompactor::new(mode, 100);
    assert_eq!(compactor.step(REVISIONS_INTERVAL_MS, 100, true), Some(30));
    assert_eq!(compactor.step(2 * REVISIONS_INTERVAL_MS, 100, true), None);
}

#[test]
fn without_a_mode_nothing_is_ever_due() {
    assert_eq!(AutoCompactor::new(AutoCompaction::Off, 5).due_ms(), u64::MAX);
    assert_eq!(compactions(AutoCompaction::Off, 300, |_| true), []);
}
