use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::front::tests::rig::Random;

/// The plainest table there is: by connection, path and kind the ordinal it was set at.
#[derive(Default)]
struct Model(BTreeMap<(u64, String, bool), u64>);

impl Model {
    /// Each path counts once, whatever is watched of it.
    fn bytes_of(&self, connection: u64) -> usize {
        let own = self.0.keys().filter(|key| key.0 == connection);
        let paths: BTreeSet<&str> = own.map(|key| &*key.1).collect();
        paths.into_iter().map(|path| path.len() + WATCH_BYTES).sum()
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

#[test]
fn watches_are_what_the_plainest_table_says() {
    for seed in 0..200 {
        let mut random = Random(seed);
        let (mut watches, mut model) = (Watches::default(), Model::default());
        for ordinal in 1..400 {
            let connection = random.below(4) as u64;
            let path = random.pick(&["/", "/a", "/a/b", "/c"]);
            let data = random.percent(50);
            match random.below(10) {
                0..=5 => {
                    let at = ordinal - random.below(3).min(ordinal as usize) as u64;
                    watches.set(ConnectionId(connection), kind(data), path, Ordinal(at));
                    model.0.entry((connection, path.to_string(), data)).or_insert(at);
                }
                6..=8 => {
                    let mut fired = watches.fire(kind(data), path, Ordinal(ordinal));
                    fired.sort_unstable();
                    assert_eq!(fired, model.fire(data, path, ordinal));
                }
                _ => {
                    watches.close(ConnectionId(connection));
                    model.0.retain(|key, _| key.0 != connection);
                }
            }
            assert_eq!(watches.len(), model.0.len());
            assert_eq!(watches.bytes_of(ConnectionId(connection)), model.bytes_of(connection));
        }
        (0..4).for_each(|connection| watches.close(ConnectionId(connection)));
        assert_eq!(watches.len(), 0);
        assert!(watches.by_path.is_empty());
        assert!(watches.by_connection.is_empty());
    }
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
