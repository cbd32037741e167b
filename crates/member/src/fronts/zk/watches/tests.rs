use std::collections::BTreeMap;

use super::*;
use crate::fronts::zk::tests::rig::Random;

const KINDS: [WatchKind; 4] =
    [WatchKind::Data, WatchKind::Child, WatchKind::Persistent, WatchKind::PersistentRecursive];

/// A simple model of the watches: for each connection, path and index of the kind, the ordinal at
/// which the watch was set.
#[derive(Default)]
struct Model(BTreeMap<(u64, String, usize), u64>);

impl Model {
    fn len(&self) -> usize {
        self.0.keys().map(|key| if KINDS[key.2] == WatchKind::Persistent { 2 } else { 1 }).sum()
    }

    fn bytes_of(&self, connection: u64) -> usize {
        let own = self.0.keys().filter(|key| key.0 == connection);
        own.map(|key| key.1.len() + WATCH_BYTES).sum()
    }

    fn fire(&mut self, kind: WatchKind, path: &str, ordinal: u64) -> Vec<ConnectionId> {
        let below = |above: &str| above == "/" || path.starts_with(&format!("{above}/"));
        let fires = |key: &(u64, String, usize), set_at: u64| {
            let waits = match KINDS[key.2] {
                WatchKind::PersistentRecursive => {
                    kind == WatchKind::Data && (key.1 == path || below(&key.1))
                }
                WatchKind::Persistent => key.1 == path,
                once => once == kind && key.1 == path,
            };
            waits && set_at < ordinal
        };
        let fired = self.0.iter().filter(|(key, set_at)| fires(key, **set_at));
        let mut fired: Vec<ConnectionId> = fired.map(|(key, _)| ConnectionId(key.0)).collect();
        fired.dedup();
        self.0.retain(|key, set_at| !(KINDS[key.2] == kind && fires(key, *set_at)));
        fired
    }
}

/// A random path: the root, a child of it, or a grandchild.
fn any_path(random: &mut Random, count: usize) -> String {
    let (name, below) = (random.below(count), random.below(count));
    match random.below(8) {
        0 => "/".to_string(),
        1..=4 => format!("/{name}"),
        _ => format!("/{name}/{below}"),
    }
}

/// Checks that each place leads to a watch of its watcher, and that there are no other watches.
fn check(watches: &Watches) {
    let mut count = 0;
    for (connection, watcher) in &watches.watcher_index {
        let own = &watches.watchers[*watcher];
        assert_eq!(own.connection, *connection);
        assert!(!own.places.is_empty());
        for place in &own.places.0 {
            let listed = watches.spots[place.spot].watches[place.position as usize];
            assert_eq!({ listed.watcher }, *watcher);
            count += 1;
        }
    }
    assert_eq!(count, watches.counts.iter().sum::<usize>());
    for Closed { watcher, .. } in &watches.closed {
        let own = &watches.watchers[*watcher];
        assert!(own.is_closed);
        for place in &own.places.0 {
            let listed = watches.spots[place.spot].watches[place.position as usize];
            assert_eq!({ listed.watcher }, *watcher);
            count += 1;
        }
    }
    let spots = watches.spots.slots.iter().flatten();
    assert!(spots.clone().all(|spot| !spot.watches.is_empty()));
    assert_eq!(spots.map(|spot| spot.watches.len()).sum::<usize>(), count);
}

fn forget_all_closed(watches: &mut Watches) {
    while watches.has_closed() {
        watches.forget_closed(7);
    }
}

/// Plays random watches of some connections on some paths, and compares them with the model.
fn play(seed: u64, connections: usize, paths: usize, steps: u64) {
    let mut random = Random(seed);
    let (mut watches, mut model) = (Watches::default(), Model::default());
    for ordinal in 1..steps {
        let connection = random.below(connections) as u64;
        let path = any_path(&mut random, paths);
        let once = random.pick(&KINDS[..2]);
        // For a while many watches are set, then few.
        let set_percent = if ordinal * 3 / steps == 1 { 5 } else { 80 };
        if random.percent(set_percent) {
            let at = ordinal - random.below(3).min(ordinal as usize) as u64;
            let kind = random.below(KINDS.len());
            watches.set(ConnectionId(connection), KINDS[kind], &path, Ordinal(at));
            model.0.entry((connection, path, kind)).or_insert(at);
        } else if random.percent(40) {
            let kind = random.below(KINDS.len());
            let removed = watches.remove(ConnectionId(connection), KINDS[kind], &path);
            assert_eq!(removed, model.0.remove(&(connection, path.clone(), kind)).is_some());
            assert!(!watches.contains(ConnectionId(connection), KINDS[kind], &path));
        } else if random.percent(60) {
            let before = ordinal - random.below(200).min(ordinal as usize) as u64;
            let mut fired = watches.fire(once, &path, Ordinal(before));
            fired.sort_unstable();
            assert_eq!(fired, model.fire(once, &path, before));
        } else {
            watches.close(ConnectionId(connection));
            model.0.retain(|key, _| key.0 != connection);
        }
        // The watches of closed connections are removed some time later.
        if random.percent(30) {
            watches.forget_closed(random.below(20));
        }
        assert_eq!(watches.len(), model.len());
        for (kind, of) in KINDS.into_iter().enumerate() {
            let found = watches.contains(ConnectionId(connection), of, "/");
            assert_eq!(found, model.0.contains_key(&(connection, "/".to_string(), kind)));
        }
        assert_eq!(watches.bytes_of(ConnectionId(connection)), model.bytes_of(connection));
        if ordinal % 16 == 0 {
            check(&watches);
        }
    }
    (0..connections as u64).for_each(|connection| watches.close(ConnectionId(connection)));
    assert_eq!(watches.len(), 0);
    forget_all_closed(&mut watches);
    assert!(watches.spots.slots.is_empty());
    assert!(watches.spot_index.is_empty());
    assert!(watches.watchers.slots.is_empty());
    assert!(watches.watcher_index.is_empty());
}

#[test]
fn watches_are_what_the_plainest_table_says() {
    for seed in 0..100 {
        play(seed, 4, 4, 400);
        play(seed, 40, 3, 600);
        play(seed, 3, 100, 600);
    }
}

#[test]
fn the_same_calls_give_the_same_order() {
    let order = || {
        let mut watches = Watches::default();
        for connection in 0..100 {
            watches.set(ConnectionId(connection), WatchKind::Data, "/a", Ordinal(1));
            watches.set(ConnectionId(connection), WatchKind::Child, "/a", Ordinal(1));
            watches.set(ConnectionId(connection / 2), WatchKind::Persistent, "/a", Ordinal(1));
        }
        (20..60).step_by(3).for_each(|connection| watches.close(ConnectionId(connection)));
        let mut fired = watches.fire(WatchKind::Child, "/a", Ordinal(2));
        fired.extend(watches.fire(WatchKind::Data, "/a", Ordinal(2)));
        fired
    };
    assert_eq!(order(), order());
}

#[test]
fn watches_that_are_gone_leave_no_memory_behind() {
    let mut watches = Watches::default();
    for connection in 0..2_000 {
        watches.set(ConnectionId(connection), WatchKind::Data, "/a", Ordinal(1));
        watches.set(ConnectionId(1), WatchKind::Child, &format!("/{connection}"), Ordinal(1));
    }
    assert!(watches.spots[0].watches.capacity() <= 2_500);
    (10..2_000).for_each(|connection| watches.close(ConnectionId(connection)));
    forget_all_closed(&mut watches);
    (10..2_000).for_each(|at| {
        assert!(!watches.fire(WatchKind::Child, &format!("/{at}"), Ordinal(2)).is_empty())
    });
    assert_eq!(watches.len(), 20);
    let spot = watches.find_spot(WatchKind::Data, "/a").unwrap();
    assert!(watches.spots[spot].watches.capacity() <= 40);
    assert!(watches.spot_index.capacity() <= 112);
    let watcher = watches.watcher_index[&ConnectionId(1)];
    assert!(watches.watchers[watcher].places.0.capacity() <= 112);
}

#[test]
fn a_watch_fires_for_changes_behind_the_read_that_set_it_only() {
    let mut watches = Watches::default();
    watches.set(ConnectionId(1), WatchKind::Data, "/a", Ordinal(5));
    assert_eq!(watches.fire(WatchKind::Data, "/a", Ordinal(4)), []);
    assert_eq!(watches.fire(WatchKind::Data, "/a", Ordinal(5)), []);
    assert_eq!(watches.fire(WatchKind::Child, "/a", Ordinal(6)), []);
    assert_eq!(watches.fire(WatchKind::Data, "/a", Ordinal(6)), [ConnectionId(1)]);
    assert_eq!(watches.fire(WatchKind::Data, "/a", Ordinal(7)), []);
}

#[test]
fn a_watch_that_is_set_again_keeps_its_first_place() {
    let mut watches = Watches::default();
    watches.set(ConnectionId(1), WatchKind::Child, "/a", Ordinal(5));
    watches.set(ConnectionId(1), WatchKind::Child, "/a", Ordinal(9));
    assert_eq!(watches.len(), 1);
    assert_eq!(watches.fire(WatchKind::Child, "/a", Ordinal(7)), [ConnectionId(1)]);
}

#[test]
fn watches_that_stay_fire_again_and_again() {
    let mut watches = Watches::default();
    watches.set(ConnectionId(1), WatchKind::Persistent, "/a", Ordinal(5));
    watches.set(ConnectionId(2), WatchKind::PersistentRecursive, "/a", Ordinal(6));
    for (ordinal, told) in [(5, vec![]), (6, vec![1]), (7, vec![1, 2]), (8, vec![1, 2])] {
        let told: Vec<ConnectionId> = told.into_iter().map(ConnectionId).collect();
        assert_eq!(watches.fire(WatchKind::Data, "/a", Ordinal(ordinal)), told);
    }
    assert_eq!(watches.fire(WatchKind::Child, "/a", Ordinal(9)), [ConnectionId(1)]);
    assert_eq!(watches.fire(WatchKind::Data, "/a/b/c", Ordinal(9)), [ConnectionId(2)]);
    assert_eq!(watches.fire(WatchKind::Child, "/a/b", Ordinal(9)), []);
    assert_eq!(watches.fire(WatchKind::Data, "/ab", Ordinal(9)), []);
    assert_eq!(watches.fire(WatchKind::Data, "/", Ordinal(9)), []);
    assert_eq!(watches.len(), 3);
}

#[test]
fn a_connection_with_several_watches_is_told_once() {
    let mut watches = Watches::default();
    for kind in KINDS {
        watches.set(ConnectionId(1), kind, "/a", Ordinal(1));
    }
    watches.set(ConnectionId(1), WatchKind::PersistentRecursive, "/", Ordinal(1));
    assert_eq!(watches.fire(WatchKind::Data, "/a", Ordinal(2)), [ConnectionId(1)]);
    assert_eq!(watches.fire(WatchKind::Data, "/a", Ordinal(3)), [ConnectionId(1)]);
    assert_eq!(watches.fire(WatchKind::Child, "/a", Ordinal(3)), [ConnectionId(1)]);
}

/// All pages of the list of watches.
fn pages(watches: &Watches) -> Vec<Vec<(&str, Vec<ConnectionId>)>> {
    let (mut pages, mut next) = (Vec::new(), Some(WatchCursor::default()));
    while let Some(cursor) = next {
        let page = watches.page(cursor);
        pages.push(page.0);
        next = page.1;
    }
    pages
}

#[test]
fn pages_show_each_watch_once_but_child_watches() {
    let mut watches = Watches::default();
    assert_eq!(pages(&watches), [[]]);
    let at = Ordinal(1);
    let count = 3 * WATCH_PAGE_COUNT as u64 + 1;
    for connection in 0..count {
        watches.set(ConnectionId(connection), WatchKind::Data, "/many", at);
        watches.set(ConnectionId(connection), WatchKind::Child, "/child", at);
        let path = format!("/{connection}");
        watches.set(ConnectionId(1), WatchKind::PersistentRecursive, &path, at);
    }
    assert_eq!(watches.data_watch_count() as u64, 2 * count);
    let pages = pages(&watches);
    assert!(pages.len() >= 6);
    let mut seen = BTreeMap::new();
    for page in &pages {
        assert!(page.iter().map(|(_, ids)| ids.len()).sum::<usize>() <= 2 * WATCH_PAGE_COUNT);
        for (path, ids) in page {
            seen.entry(path.to_string()).or_insert_with(Vec::new).extend(ids.iter().copied());
        }
    }
    assert_eq!(seen.len() as u64, count + 1);
    assert_eq!(seen["/many"], (0..count).map(ConnectionId).collect::<Vec<_>>());
    assert_eq!(seen["/7"], [ConnectionId(1)]);
}

#[test]
fn a_page_of_long_paths_is_short() {
    let mut watches = Watches::default();
    for number in 0..4 {
        let path = format!("/{number}{}", "x".repeat(WATCH_PAGE_BYTES));
        watches.set(ConnectionId(1), WatchKind::Data, &path, Ordinal(1));
    }
    assert_eq!(pages(&watches).iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 1, 1]);
}

#[test]
fn a_closed_connection_with_many_watches_is_forgotten_in_pieces() {
    let mut watches = Watches::default();
    for number in 0..1_000 {
        for connection in 1..=2 {
            let path = format!("/{number}");
            watches.set(ConnectionId(connection), WatchKind::Data, &path, Ordinal(1));
        }
    }
    watches.close(ConnectionId(1));
    assert_eq!(watches.len(), 1_000);
    assert_eq!(watches.bytes_of(ConnectionId(1)), 0);
    let mut pieces = 0;
    while watches.has_closed() {
        // Some watches fire before their piece is removed.
        let path = format!("/{}", pieces * 7);
        assert_eq!(watches.fire(WatchKind::Data, &path, Ordinal(2)), [ConnectionId(2)]);
        watches.forget_closed(16);
        check(&watches);
        pieces += 1;
    }
    assert!(pieces > 1_000 / 16, "{pieces}");
    assert_eq!(watches.len(), 1_000 - pieces);
}

#[test]
fn recursive_watches_above_a_long_path_are_found_by_a_walk_through_it() {
    let mut watches = Watches::default();
    let path = "/a".repeat(100_000);
    for above in ["/", "/a", "/a/a/a", &path[..100_000], &path] {
        watches.set(
            ConnectionId(above.len() as u64),
            WatchKind::PersistentRecursive,
            above,
            Ordinal(1),
        );
    }
    for above in ["/aa", "/a/aa"] {
        watches.set(ConnectionId(0), WatchKind::PersistentRecursive, above, Ordinal(1));
    }
    let fired = watches.fire(WatchKind::Data, &path, Ordinal(2));
    assert_eq!(fired, [200_000, 100_000, 6, 2, 1].map(ConnectionId));
    assert_eq!(watches.fire(WatchKind::Data, "/", Ordinal(2)), [ConnectionId(1)]);
}
