use super::*;
use crate::etcd_v2::event::{Action, NodeState};
use crate::etcd_v2::tests::{Rig, event_text};

/// The event of a set of a key, with this index.
fn a_set(key: &str, index: u64, value_bytes: usize) -> Arc<Event> {
    let value = Some(vec![b'v'; value_bytes].into());
    let (created, modified) = (index, index);
    let node = NodeState { created, modified, is_dir: false, value, expiration: None };
    Arc::new(Event { action: Action::Set, key: key.into(), node, prev: None, is_refresh: false })
}

fn history_of(count: u64, value_bytes: usize) -> History {
    let mut history = History::default();
    for index in 1..=count {
        history.push(a_set("/a", index, value_bytes));
    }
    history
}

/// Checks the indexes of the first and the last event, and the highest index whose event was
/// dropped.
fn check(history: &History, first: u64, last: u64, cleared: u64) {
    let indexes: Vec<u64> = history.events().map(|event| event.index()).collect();
    assert_eq!(indexes, (first..=last).collect::<Vec<_>>());
    assert_eq!(history.cleared(), cleared);
    let mut anew = History::behind(cleared);
    for event in history.events() {
        anew.push(event.clone());
    }
    assert_eq!(&anew, history, "the sums are those of the events");
}

#[test]
fn the_last_thousand_events_are_kept() {
    check(&history_of(0, 0), 1, 0, 0);
    check(&history_of(1, 0), 1, 1, 0);
    check(&history_of(1_000, 0), 1, 1_000, 0);
    check(&history_of(1_001, 0), 2, 1_001, 1);
    check(&history_of(2_500, 0), 1_501, 2_500, 1_500);
}

#[test]
fn large_events_leave_room_for_fewer() {
    let mut history = history_of(5, 10);
    let (five, one) = (history.bytes(), history.bytes() / 5);
    history.push_within(a_set("/a", 6, 10), five + one);
    check(&history, 1, 6, 0);
    history.push_within(a_set("/a", 7, 10), five + 1);
    check(&history, 3, 7, 2);
    history.push_within(a_set("/a", 8, 10 + 2 * one as usize), five);
    check(&history, 6, 8, 5);
    // An event that alone exceeds the bound is not kept either.
    history.push_within(a_set("/a", 9, five as usize), five);
    check(&history, 10, 9, 9);
    history.push_within(a_set("/a", 10, 10), five);
    check(&history, 10, 10, 9);
}

#[test]
fn a_wait_begins_at_its_index() {
    let history = history_of(1_001, 0);
    let index_of = |from| {
        let found = history.first_of(Key::new("/a").unwrap(), false, from);
        found.map(|event| event.map(|event| event.index()))
    };
    assert_eq!(index_of(0), Err(Cleared { first: 2 }));
    assert_eq!(index_of(1), Err(Cleared { first: 2 }));
    assert_eq!(index_of(2), Ok(Some(2)));
    assert_eq!(index_of(500), Ok(Some(500)));
    assert_eq!(index_of(1_001), Ok(Some(1_001)));
    assert_eq!(index_of(1_002), Ok(None));
    assert_eq!(index_of(u64::MAX), Ok(None));
}

/// Checks the first event of a script that concerns a key.
fn check_first(script: &str, key: &str, is_recursive: bool, expected: &str) {
    let mut rig = Rig::default();
    rig.script(script);
    let key = Key::new(key).unwrap();
    let found = rig.store.history().first_of(key, is_recursive, 1).unwrap();
    let found = found.map_or_else(|| "none".to_string(), |event| event_text(event));
    assert_eq!(found, expected, "{} {is_recursive} after {script}", key.text());
}

#[test]
fn a_wait_finds_writes_of_its_key_and_below() {
    let script = "PUT /a/b value=1
                  PUT /a value=2
                  PUT /ab value=3";
    check_first(script, "/a", false, "none");
    check_first(script, "/a", true, "set /a/b=1 +1/+1");
    check_first(script, "/a/b", false, "set /a/b=1 +1/+1");
    check_first(script, "/a/b/c", true, "none");
    check_first(script, "", true, "set /a/b=1 +1/+1");
    check_first(script, "", false, "none");
    check_first(script, "/ab", false, "set /ab=3 +2/+2");
}

#[test]
fn a_wait_finds_the_removal_of_a_directory_above() {
    let script = "PUT /a/b value=1
                  DELETE /a recursive=true";
    let removal = "delete /a/ +1/+2 < /a/ +1/+1";
    check_first(script, "/a/x", false, removal);
    check_first(script, "/a/b/c", false, removal);
    check_first(script, "/a", false, removal);
    check_first(script, "/ab", false, "none");
    let script = "PUT /a value=1
                  DELETE /a";
    check_first(script, "/a/x", true, "none");
}

#[test]
fn a_wait_finds_hidden_keys_and_no_refreshes() {
    check_first("PUT /a/_h value=1", "/a", true, "set /a/_h=1 +1/+1");
    let script = "PUT /a ttl=5&value=1
                  PUT /a ttl=6&refresh=true&prevExist=true
                  DELETE /a";
    let mut rig = Rig::default();
    rig.script(script);
    let from = rig.store.index() - 1;
    assert_eq!(rig.wait("/a", false, from), "delete /a +1/+3 < /a=1 +1/+2 ttl 6");
}
