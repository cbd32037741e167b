use std::collections::BTreeMap;

use super::*;
use crate::front::tests::rig::Random;

/// The plainest table there is: by connection, path and kind the ordinal it was set at.
#[derive(Default)]
struct Model(BTreeMap<(u64, String, bool), u64>);

impl Model {
    fn bytes_of(&self, connection: u64) -> usize {
        let own = self.0.keys().filter(|key| key.0 == connection);
        own.map(|key| key.1.len() + WATCH_BYTES).sum()
    }

    fn fire(&mut self, data: bool, path: &str, ordinal: u64) -> Vec<ConnectionId> {
        let fires = |key: &(u64, String, bool), set_at: u64| {
            key.1 == path && key.2 == data && set_at < ordinal
        };
        let fired = self.0.iter().filter(|(key, set_at)| fires(key, **set_at));
        let fired = fired.map(|(key, _)| ConnectionId(key.0)).collect();
        self.0.retain(|key, set_at| !fires(key, *set_at));
        fired
    }
}

fn kind(data: bool) -> WatchKind {
    if data { WatchKind::Data } else { WatchKind::Child }
}

/// Each place leads to a watch of its watcher, and there are no others.
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
    assert_eq!(count, watches.len());
    let spots = watches.spots.slots.iter().flatten();
    assert!(spots.clone().all(|spot| !spot.watches.is_empty()));
    assert_eq!(spots.map(|spot| spot.watches.len()).sum::<usize>(), count);
}

/// Random watches of some connections on some paths, beside the model.
fn play(seed: u64, connections: usize, paths: usize, steps: u64) {
    let mut random = Random(seed);
    let (mut watches, mut model) = (Watches::default(), Model::default());
    for ordinal in 1..steps {
        let connection = random.below(connections) as u64;
        let path = format!("/{}", random.below(paths));
        let data = random.percent(50);
        // Many are set for a while, and then they become few.
        let set_percent = if ordinal * 3 / steps == 1 { 5 } else { 80 };
        if random.percent(set_percent) {
            let at = ordinal - random.below(3).min(ordinal as usize) as u64;
            watches.set(ConnectionId(connection), kind(data), &path, Ordinal(at));
            model.0.entry((connection, path, data)).or_insert(at);
        } else if random.percent(60) {
            let before = ordinal - random.below(200).min(ordinal as usize) as u64;
            let mut fired = watches.fire(kind(data), &path, Ordinal(before));
            fired.sort_unstable();
            assert_eq!(fired, model.fire(data, &path, before));
        } else {
            watches.close(ConnectionId(connection));
            model.0.retain(|key, _| key.0 != connection);
        }
        assert_eq!(watches.len(), model.0.len());
        assert_eq!(watches.bytes_of(ConnectionId(connection)), model.bytes_of(connection));
        if ordinal % 16 == 0 {
            check(&watches);
        }
    }
    (0..connections as u64).for_each(|connection| watches.close(ConnectionId(connection)));
    assert_eq!(watches.len(), 0);
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
