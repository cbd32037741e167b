//! Collects statistics of repeated measurements: their count, sum, least and greatest value, and
//! the distribution of recent values.
//!
//! Each summary has one owner, which records into it without a lock and gives away copies. Sums are
//! since the start; quantiles are of the last five to ten minutes, as a Prometheus client has them:
//! two histograms take turns, and the older one is cleared. Memory is bounded, and none is
//! allocated before the first record.

use hdrhistogram::Histogram;

use crate::limits::{SUMMARY_DIGITS, SUMMARY_RUN_MS, SUMMARY_TURN_MS, SUMMARY_VALUE_MAX};

/// Statistics of times in ms, without quantiles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// The last time.
    pub last_ms: u64,
    /// The shortest time.
    pub min_ms: u64,
    /// The longest time.
    pub max_ms: u64,
    /// The sum of all times.
    pub total_ms: u64,
    /// How many times were recorded.
    pub count: u64,
}

impl Latency {
    /// Counts one more time.
    pub fn record(&mut self, ms: u64) {
        self.last_ms = ms;
        self.min_ms = if self.count == 0 { ms } else { self.min_ms.min(ms) };
        self.max_ms = self.max_ms.max(ms);
        self.total_ms += ms;
        self.count += 1;
    }

    /// Adds the times that another value has counted.
    pub fn merge(&mut self, other: &Latency) {
        if other.count == 0 {
            return;
        }
        self.min_ms = if self.count == 0 { other.min_ms } else { self.min_ms.min(other.min_ms) };
        self.max_ms = self.max_ms.max(other.max_ms);
        self.total_ms += other.total_ms;
        self.count += other.count;
    }

    /// The mean; 0 if nothing was recorded.
    pub fn average(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.total_ms as f64 / self.count as f64 }
    }
}

/// The statistics of a [`Summary`], ready to show.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Distribution {
    /// How many values were recorded.
    pub count: u64,
    /// The sum of all values.
    pub sum: f64,
    /// The least value; 0 before the first.
    pub min: f64,
    /// The greatest value; 0 before the first.
    pub max: f64,
    /// The [`QUANTILES`] of the last minutes' values, in the same order; `None` if there are no
    /// values.
    pub quantiles: Option<[f64; 5]>,
}

impl Distribution {
    /// The mean; 0 if there is none.
    pub fn average(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum / self.count as f64 }
    }
}

/// The quantiles that a [`Distribution`] has.
pub const QUANTILES: [f64; 5] = [0.5, 0.9, 0.95, 0.99, 0.999];

/// Collects values, and gives their statistics as a [`Distribution`].
#[derive(Clone, Debug, Default)]
pub struct Summary {
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
    recent: Option<Box<Recent>>,
    run: Run,
}

/// Equal values in a row that are not in the histogram yet. In a burst most requests take equally
/// many ms, so adding them together is cheap.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    value: u64,
    count: u64,
    since_ms: u64,
}

#[derive(Clone, Debug)]
struct Recent {
    current: Histogram<u64>,
    previous: Histogram<u64>,
    turned_ms: u64,
}

impl Summary {
    /// Records a value at `now_ms`, which must never go back. The histogram counts a value above
    /// [`SUMMARY_VALUE_MAX`] as that.
    pub fn record(&mut self, value: u64, now_ms: u64) {
        let is_young = now_ms < self.run.since_ms + SUMMARY_RUN_MS;
        if value == self.run.value && is_young {
            self.run.count += 1;
            return;
        }
        self.end_run();
        self.run = Run { value, count: 1, since_ms: now_ms };
    }

    /// Adds the run to the histogram and the sums.
    fn end_run(&mut self) {
        let Run { value, count, since_ms } = core::mem::take(&mut self.run);
        if count == 0 {
            return;
        }
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.count += count;
        self.sum = self.sum.saturating_add(value.saturating_mul(count));
        let recent = self.recent.get_or_insert_with(|| Box::new(Recent::new(since_ms)));
        recent.turn(since_ms);
        recent.current.saturating_record_n(value, count);
    }

    /// Adds the values that another summary has recorded.
    pub fn merge(&mut self, other: &Summary) {
        self.end_run();
        let mut other = other.clone();
        other.end_run();
        if other.count == 0 {
            return;
        }
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        match (&mut self.recent, other.recent) {
            (_, None) => {}
            (None, Some(recent)) => self.recent = Some(recent),
            (Some(own), Some(other)) => {
                own.turned_ms = own.turned_ms.max(other.turned_ms);
                for (own, other) in
                    [(&mut own.current, &other.current), (&mut own.previous, &other.previous)]
                {
                    own.add(other).expect("all have the same bounds");
                }
            }
        }
    }

    /// The distribution as of `now_ms`, each value divided by `unit`.
    pub fn distribution(&self, unit: f64, now_ms: u64) -> Distribution {
        let mut counted = self.clone();
        counted.end_run();
        counted.counted_distribution(unit, now_ms)
    }

    fn counted_distribution(mut self, unit: f64, now_ms: u64) -> Distribution {
        let shown = |value: u64| value as f64 / unit;
        let recent = self.recent.take().and_then(|mut recent| {
            recent.turn(now_ms);
            recent.current.add(&recent.previous).expect("both have the same bounds");
            (!recent.current.is_empty()).then_some(recent.current)
        });
        Distribution {
            count: self.count,
            sum: shown(self.sum),
            min: shown(self.min),
            max: shown(self.max),
            quantiles: recent.map(|recent| {
                QUANTILES.map(|quantile| {
                    // The upper end of a histogram's bucket may be above all recorded values.
                    shown(recent.value_at_quantile(quantile).min(self.max))
                })
            }),
        }
    }
}

impl Recent {
    fn new(now_ms: u64) -> Recent {
        let empty = || {
            Histogram::new_with_bounds(1, SUMMARY_VALUE_MAX, SUMMARY_DIGITS)
                .expect("the bounds are those of a histogram")
        };
        Recent { current: empty(), previous: empty(), turned_ms: now_ms }
    }

    fn turn(&mut self, now_ms: u64) {
        let passed_ms = now_ms.saturating_sub(self.turned_ms);
        if passed_ms < SUMMARY_TURN_MS {
            return;
        }
        core::mem::swap(&mut self.current, &mut self.previous);
        self.current.reset();
        if passed_ms >= 2 * SUMMARY_TURN_MS {
            self.previous.reset();
        }
        self.turned_ms = now_ms;
    }
}

#[cfg(test)]
mod tests;
