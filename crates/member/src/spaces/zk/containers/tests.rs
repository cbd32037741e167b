use super::*;

const LOOK_MS: u64 = 100;

fn manager(interval_ms: u32, per_minute: u32) -> ContainerManager {
    ContainerManager::new(ContainerSettings {
        check_interval_ms: interval_ms,
        removals_per_minute_max: per_minute,
        never_used_ms_max: 7,
    })
}

/// Looks at the clock once. Returns how many znodes the step that is asked for then may find.
fn look(manager: &mut ContainerManager) -> Option<usize> {
    manager.advance(LOOK_MS);
    manager.search(5).map(|search| search.count_max)
}

fn found(count: usize, next: Option<u32>) -> ContainersFound {
    ContainersFound { paths: vec!["/c".to_string(); count], next: next.map(ZnodeId) }
}

/// How many znodes are removed in a minute, if there are always more to remove.
fn removals_of_a_minute(per_minute: u32) -> usize {
    let mut manager = manager(100, per_minute);
    let mut removals = 0;
    for _ in 0..MINUTE_MS / LOOK_MS {
        if let Some(count_max) = look(&mut manager) {
            removals += count_max;
            manager.on_found(&found(count_max, Some(9)));
        }
    }
    removals
}

#[test]
fn a_round_begins_one_interval_after_the_one_before() {
    let mut manager = manager(1_000, 10_000);
    let mut begun = Vec::new();
    for number in 1..=30 {
        if look(&mut manager).is_some() {
            begun.push(number);
            assert!(!manager.on_found(&found(0, None)));
        }
    }
    assert_eq!(begun, [10, 20, 30]);
}

#[test]
fn a_step_is_asked_for_once_and_the_next_begins_where_it_ended() {
    let mut manager = manager(100, 60_000);
    manager.advance(LOOK_MS);
    let (count_max, time_ms, never_used_ms_max) = (100, 5, 7);
    let first = ContainerSearch { from: ROOT, count_max, time_ms, never_used_ms_max };
    assert_eq!(manager.search(5), Some(first));
    assert_eq!(manager.search(5), None);
    assert_eq!(look(&mut manager), None);
    assert!(manager.on_found(&found(1, Some(8))));
    // The next step is not due before the next look at the clock.
    assert_eq!(manager.search(5), None);
    manager.advance(LOOK_MS);
    assert_eq!(manager.search(6).map(|search| search.from), Some(ZnodeId(8)));
}

#[test]
fn a_round_that_took_longer_than_an_interval_is_followed_by_the_next() {
    let mut manager = manager(100, 60_000);
    assert!(look(&mut manager).is_some());
    for _ in 0..50 {
        assert_eq!(look(&mut manager), None);
    }
    manager.on_found(&found(0, None));
    assert!(look(&mut manager).is_some());
}

#[test]
fn no_more_are_removed_than_a_minute_may_have() {
    assert_eq!(removals_of_a_minute(1), 1);
    assert_eq!(removals_of_a_minute(7), 7);
    assert_eq!(removals_of_a_minute(10_000), 10_000);
    // At most 1,000 can be removed per look, and so many are.
    assert_eq!(removals_of_a_minute(600_000), 600_000);
    assert_eq!(removals_of_a_minute(u32::MAX), 600_000);
}

#[test]
fn what_was_not_removed_between_rounds_is_not_added_to_the_next() {
    let mut manager = manager(60_000, 10_000);
    let mut first = None;
    while first.is_none() {
        first = look(&mut manager);
    }
    assert_eq!(first, Some(16));
}

#[test]
fn a_member_that_leads_no_more_forgets_its_round() {
    let mut manager = manager(300, 60_000);
    (0..2).for_each(|_| assert_eq!(look(&mut manager), None));
    assert!(look(&mut manager).is_some());
    // The next leader begins with a new round.
    let mut manager = self::manager(300, 60_000);
    assert!(!manager.on_found(&found(1, Some(3))));
    (0..2).for_each(|_| assert_eq!(look(&mut manager), None));
    manager.advance(LOOK_MS);
    assert_eq!(manager.search(5).map(|search| search.from), Some(ROOT));
}
