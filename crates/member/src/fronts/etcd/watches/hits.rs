//! Matches the changes of one revision with the groups of watchers whose keys were changed.
//!
//! A removal of a million keys under a thousand watchers of one prefix makes a thousand million
//! hits. So a hit is noted for a group, not for each watcher of the group, and hits of neighbouring
//! changes are noted as one run: the changes of a removal are in the order of their keys.

use std::ops::Range;
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use machine::etcd::change::KeyChange;

use super::groups::{GroupNumber, Groups};
use super::message::Shown;
use super::stream::Flags;

/// The changes that hit the keys of one group, as runs of positions.
pub(super) struct GroupHits {
    pub group: GroupNumber,
    runs: Vec<Range<usize>>,
    has_put: bool,
    has_delete: bool,
    /// The events as shown to watchers that want all, only removals, or only puts; made when
    /// needed.
    shown: [Option<Arc<Shown>>; 3],
}

/// Finds the groups that the changes hit, in the order of their first hits. Also returns how many
/// hits there were.
pub(super) fn find(changes: &[KeyChange], groups: &Groups) -> (Vec<GroupHits>, usize) {
    let mut found: Vec<GroupHits> = Vec::new();
    let mut places: HashMap<GroupNumber, usize, FixedState> = HashMap::default();
    let mut looks = 0;
    for (at, change) in changes.iter().enumerate() {
        groups.find(change.event.key(), |group| {
            looks += 1;
            let place = *places.entry(group).or_insert(found.len());
            if place == found.len() {
                found.push(GroupHits::new(group));
            }
            found[place].add(at, change);
        });
    }
    (found, looks)
}

impl GroupHits {
    fn new(group: GroupNumber) -> GroupHits {
        let (has_put, has_delete) = (false, false);
        GroupHits { group, runs: Vec::new(), has_put, has_delete, shown: Default::default() }
    }

    fn add(&mut self, at: usize, change: &KeyChange) {
        match self.runs.last_mut() {
            Some(last) if last.end == at => last.end += 1,
            _ => self.runs.push(at..at + 1),
        }
        match change.event.is_delete() {
            true => self.has_delete = true,
            false => self.has_put = true,
        }
    }

    /// Whether a watcher with these flags wants any of the changes.
    pub fn are_wanted(&self, flags: Flags) -> bool {
        (self.has_put && !flags.no_put) || (self.has_delete && !flags.no_delete)
    }

    /// The events for a watcher with these flags, which wants at least one of the changes. Watchers
    /// that get the same events share one copy; `all` is the copy of all changes, shared across
    /// groups.
    pub fn shown(
        &mut self,
        flags: Flags,
        changes: &[KeyChange],
        all: &mut Option<Arc<Shown>>,
    ) -> Arc<Shown> {
        let (no_put, no_delete) =
            (flags.no_put && self.has_put, flags.no_delete && self.has_delete);
        let count: usize = self.runs.iter().map(ExactSizeIterator::len).sum();
        if count == changes.len() && !no_put && !no_delete {
            return all.get_or_insert_with(|| Shown::new(changes.to_vec())).clone();
        }
        let kind = usize::from(no_put) + 2 * usize::from(no_delete);
        let runs = &self.runs;
        let make = || {
            let hits = runs.iter().flat_map(|run| &changes[run.clone()]);
            Shown::new(hits.filter(|change| flags.admits(change)).cloned().collect())
        };
        self.shown[kind].get_or_insert_with(make).clone()
    }
}

#[cfg(test)]
mod tests;
