use machine::etcd::command::KeyRange;
use machine::etcd::event::{Event, Place, Version};

use super::*;

const REVISION: i64 = 7;

fn put(sub: u32, key: &str) -> KeyChange {
    let numbers = Version { create_revision: REVISION, version: 1, lease: 0 };
    let place = Place { revision: REVISION, sub };
    KeyChange { event: Event::put(place, key.as_bytes(), numbers, b"v"), before: None }
}

fn delete(sub: u32, key: &str) -> KeyChange {
    let place = Place { revision: REVISION, sub };
    KeyChange { event: Event::delete(place, key.as_bytes()), before: None }
}

fn groups_of(ranges: &[(&str, &str)]) -> Groups {
    let mut groups = Groups::new(1);
    for (number, (key, end)) in (0..).zip(ranges) {
        groups.add(KeyRange { key: key.as_bytes(), end: end.as_bytes() }, number);
    }
    groups
}

/// The positions of the changes that hit a group, as one run.
fn run(numbers: Range<usize>) -> Vec<Range<usize>> {
    core::iter::once(numbers).collect()
}

fn keys(shown: &Shown) -> Vec<String> {
    let keys = shown.changes().iter().map(|change| change.event.key());
    keys.map(|key| String::from_utf8(key.to_vec()).unwrap()).collect()
}

#[test]
fn a_removal_is_one_run_for_each_group_however_many_watch() {
    let names: Vec<String> = (0..500).map(|number| format!("k{number:03}")).collect();
    let changes: Vec<_> = (0..).zip(&names).map(|(sub, name)| delete(sub, name)).collect();
    let ranges = [("k", "l"), ("k", "l"), ("k100", "k200"), ("k150", ""), ("x", "y")];
    let groups = groups_of(&ranges);
    let (found, looks) = find(&changes, &groups);
    assert_eq!(looks, 500 + 100 + 1, "watchers of one range are one group");
    let runs = |hits: &GroupHits| (groups.watchers(hits.group)[0], hits.runs.clone());
    let all: Vec<_> = found.iter().map(runs).collect();
    assert_eq!(all, [(0, run(0..500)), (2, run(100..200)), (3, run(150..151))]);
}

#[test]
fn watchers_that_want_the_same_share_it() {
    let changes = [put(0, "a"), delete(1, "k1"), put(2, "k2"), put(3, "z"), delete(4, "k3")];
    let groups = groups_of(&[("k", "l"), ("", "\0"), ("z", "")]);
    let (mut found, _) = find(&changes, &groups);
    let no_put = Flags { no_put: true, ..Flags::default() };
    let no_delete = Flags { no_delete: true, ..Flags::default() };
    let neither = Flags { no_put: true, no_delete: true, ..Flags::default() };
    let mut all = None;
    let mut shown_to = |number: u32, flags: Flags| {
        let hits = found.iter_mut().find(|it| groups.watchers(it.group)[0] == number).unwrap();
        hits.are_wanted(flags).then(|| {
            let shown = hits.shown(flags, &changes, &mut all);
            assert!(Arc::ptr_eq(&shown, &hits.shown(flags, &changes, &mut all)));
            keys(&shown)
        })
    };
    let expected = |keys: &[&str]| Some(keys.iter().map(ToString::to_string).collect::<Vec<_>>());
    assert_eq!(shown_to(0, Flags::default()), expected(&["k1", "k2", "k3"]));
    assert_eq!(shown_to(0, no_put), expected(&["k1", "k3"]));
    assert_eq!(shown_to(0, no_delete), expected(&["k2"]));
    assert_eq!(shown_to(0, neither), None);
    assert_eq!(shown_to(1, Flags::default()), expected(&["a", "k1", "k2", "z", "k3"]));
    assert_eq!(shown_to(1, no_delete), expected(&["a", "k2", "z"]));
    assert_eq!(shown_to(2, no_delete), expected(&["z"]));
    assert_eq!(shown_to(2, no_put), None);
    assert_eq!(keys(&all.unwrap()).len(), 5);
}
