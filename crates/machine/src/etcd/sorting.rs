//! Putting versions in order, in steps: short runs are sorted, then two runs at a time are merged.

use core::cmp::Ordering;
use std::collections::VecDeque;
use std::vec::IntoIter;

use crate::etcd::event::Event;
use crate::etcd::range::{Order, Ranked};

/// Versions of a run that is sorted at once.
const RUN_EVENTS: usize = 256;

/// Versions that are being put in order.
#[derive(Debug)]
pub(crate) struct Sorting {
    order: Order,
    /// Versions that are in no run yet.
    rest: IntoIter<Event>,
    ranked: IntoIter<Ranked>,
    /// Runs, each in order.
    runs: VecDeque<Vec<Event>>,
    merge: Option<Merge>,
}

/// Two runs that become one.
#[derive(Debug)]
struct Merge {
    one: IntoIter<Event>,
    other: IntoIter<Event>,
    merged: Vec<Event>,
}

impl Sorting {
    /// Begins to put versions of different keys in order.
    pub fn new(order: Order, events: Vec<Event>, ranked: Vec<Ranked>) -> Sorting {
        let (rest, ranked) = (events.into_iter(), ranked.into_iter());
        Sorting { order, rest, ranked, runs: VecDeque::new(), merge: None }
    }

    /// Goes on, and takes each version that it moves off `count_left`; it may move a run more.
    /// Whether it is done.
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

    /// The versions in order, once it is done.
    pub fn finish(mut self) -> Vec<Event> {
        assert!(self.is_done(), "the steps come before the end");
        self.runs.pop_front().unwrap_or_default()
    }
}

impl Merge {
    /// Goes on, and takes each version that it moves off `count_left`. Whether it is done.
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
