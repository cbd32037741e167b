//! Sets of keys as the union of ranges.

use crate::etcd::command::KeyRange;

/// A union of ranges. After [`Intervals::settle`] they are apart from each other and in order.
#[derive(Debug, Default)]
pub(super) struct Intervals(Vec<(Box<[u8]>, End)>);

/// Where a range ends: before a key, or never. The order is that of the ends.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Before(Box<[u8]>),
    Never,
}

impl End {
    fn of(range: KeyRange<'_>) -> End {
        match range.end {
            // No other key is between a key and the key with one zero more.
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

    /// Joins ranges that meet.
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

    /// Whether all keys of a range are in the union. One that ends before it begins is as its
    /// first key.
    pub fn contain(&self, range: KeyRange<'_>) -> bool {
        let behind = self.0.partition_point(|(start, _)| **start <= *range.key);
        let Some((_, end)) = behind.checked_sub(1).map(|at| &self.0[at]) else { return false };
        let wanted = End::of(range);
        let first = End::of(KeyRange { key: range.key, end: &[] });
        *end >= wanted.max(first)
    }
}
