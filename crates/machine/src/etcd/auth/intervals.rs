//! A set of keys, kept as a union of ranges: for example, all keys that a user may read.

use crate::etcd::command::KeyRange;

/// A union of ranges. After [`Intervals::settle`] they are sorted, and no two of them touch.
#[derive(Debug, Default)]
pub(super) struct Intervals(Vec<(Box<[u8]>, End)>);

/// Where a range ends: before a key, or never. Ordered by position.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Before(Box<[u8]>),
    Never,
}

impl End {
    fn of(range: KeyRange<'_>) -> End {
        match range.end {
            // The key with a zero byte appended is the next possible key.
            [] => End::Before([range.key, &[0]].concat().into()),
            [0] => End::Never,
            end => End::Before(end.into()),
        }
    }
}

impl Intervals {
    /// Adds the keys of a range.
    pub fn add(&mut self, range: KeyRange<'_>) {
        self.0.push((range.key.into(), End::of(range)));
    }

    /// Sorts the ranges, and joins those that touch or overlap. Call it after the last `add`.
    pub fn settle(&mut self) {
        self.0.sort_unstable();
        let mut joined: Vec<(Box<[u8]>, End)> = Vec::new();
        for (start, end) in self.0.drain(..) {
            let meets = |last: &End| match last {
                End::Before(last) => *last >= start,
                End::Never => true,
            };
            match joined.last_mut().filter(|(_, last)| meets(last)) {
                Some((_, last)) => *last = end.max(last.clone()),
                None => joined.push((start, end)),
            }
        }
        self.0 = joined;
    }

    /// Whether the union has all keys of a range. A range that ends before it begins counts as its
    /// first key alone.
    pub fn contain(&self, range: KeyRange<'_>) -> bool {
        let behind = self.0.partition_point(|(start, _)| **start <= *range.key);
        let Some((_, end)) = behind.checked_sub(1).map(|at| &self.0[at]) else { return false };
        let wanted = End::of(range);
        let first = End::of(KeyRange { key: range.key, end: &[] });
        *end >= wanted.max(first)
    }
}
