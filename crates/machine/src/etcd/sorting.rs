//! Sorts versions in steps: sorts short runs, and then merges two runs at a time.

use core::cmp::Ordering;
use std::collections::VecDeque;
use std::vec::IntoIter;

use crate::etcd::event::Event;
use crate::etcd::range::{Order, Ranked};

/// The most versions in a run. A run is sorted at once.
const RUN_EVENTS: usize = 256;

/// Versions that are being sorted.
#[derive(Debug)]
pub(crate) struct Sorting {
    order: Order,
    /// Versions that are in no run yet. The runs take the versions in `ranked` first, then these.
    rest: IntoIter<Event>,
    ranked: IntoIter<Ranked>,
    /// Sorted runs.
    runs: VecDeque<Vec<Event>>,
    merge: Option<Merge>,
}

/// A merge of two runs, under way.
#[derive(Debug)]
struct Merge {
    one: IntoIter<Event>,
    other: IntoIter<Event>,
    merged: Vec<Event>,
}

impl Sorting {
    /// Starts to sort versions of different keys.
    pub fn new(order: Order, events: Vec<Event>, ranked: Vec<Ranked>) -> Sorting {
        let (rest, ranked) = (events.into_iter(), ranked.into_iter());
        Sorting { order, rest, ranked, runs: VecDeque::new(), merge: None }
    }

    /// Does a part of the sorting: moves up to `count_left` versions, or up to one run more, and
    /// subtracts their number from `count_left`. True when all are sorted.
    pub fn step(&mut self, count_left: &mut u64) -> bool {
        while *count_left > 0 {
            if let Some(merge) = &mut self.merge {
                if !merge.step(self.order, count_left) {
                    return false;
                }
                let merged = self.merge.take().map(|merge| merge.merged);
                self.runs.extend(merged);
            } else if self.rest.len() + self.ranked.len() > 0 {
                let ranked = self.ranked.by_ref().map(|ranked| ranked.event);
                let mut run: Vec<Event> =
                    ranked.chain(self.rest.by_ref()).take(RUN_EVENTS).collect();
                *count_left = count_left.saturating_sub(run.len() as u64);
                run.sort_unstable_by(|one, other| self.order.compare(one, other));
                self.runs.push_back(run);
            } else if self.runs.len() > 1 {
                let (one, other) = (self.runs.pop_front(), self.runs.pop_front());
                let (one, other) = (one.unwrap_or_default(), other.unwrap_or_default());
                let merged = Vec::with_capacity(one.len() + other.len());
                let (one, other) = (one.into_iter(), other.into_iter());
                self.merge = Some(Merge { one, other, merged });
            } else {
                return true;
            }
        }
        self.is_done()
    }

    fn is_done(&self) -> bool {
        let is_in_runs = self.rest.len() + self.ranked.len() == 0;
        is_in_runs && self.merge.is_none() && self.runs.len() <= 1
    }

    /// The sorted versions. Panics unless all are sorted.
    pub fn finish(mut self) -> Vec<Event> {
        assert!(self.is_done(), "the steps come before the end");
        self.runs.pop_front().unwrap_or_default()
    }
}

impl Merge {
    /// Continues the merge: moves up to `count_left` versions, and subtracts their number from
    /// `count_left`. True when both runs are merged.
    fn step(&mut self, order: Order, count_left: &mut u64) -> bool {
        while let (Some(one), Some(other)) =
            (self.one.as_slice().first(), self.other.as_slice().first())
        {
            if *count_left == 0 {
                return false;
            }
            *count_left -= 1;
            let is_first = order.compare(one, other) == Ordering::Less;
            let from = if is_first { &mut self.one } else { &mut self.other };
            self.merged.extend(from.next());
        }
        for rest in [&mut self.one, &mut self.other] {
            let count = usize::try_from(*count_left).unwrap_or(usize::MAX).min(rest.len());
            self.merged.extend(rest.take(count));
            *count_left -= count as u64;
        }
        self.one.len() == 0 && self.other.len() == 0
    }
}

#[cfg(test)]
mod tests;
