//! Latencies as HDR histograms, and [`Phase`], the figures of one phase of a run.

use hdrhistogram::Histogram;
use results::schema::Curve;
use serde::{Deserialize, Serialize};

use crate::limits::LATENCY_NS_MAX;

/// A histogram of latencies in ns, exact to three significant digits.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(into = "Vec<(u64, u64)>", from = "Vec<(u64, u64)>")]
pub struct Latencies(Histogram<u64>);

/// Turns a histogram into pairs: a latency in ns, and how often it was counted.
impl From<Latencies> for Vec<(u64, u64)> {
    fn from(latencies: Latencies) -> Vec<(u64, u64)> {
        let recorded = latencies.0.iter_recorded();
        recorded.map(|it| (it.value_iterated_to(), it.count_at_value())).collect()
    }
}

impl From<Vec<(u64, u64)>> for Latencies {
    fn from(pairs: Vec<(u64, u64)>) -> Latencies {
        let mut latencies = Latencies::default();
        for (ns, count) in pairs {
            latencies.0.saturating_record_n(ns, count);
        }
        latencies
    }
}

impl Default for Latencies {
    fn default() -> Latencies {
        let histogram = Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3);
        Latencies(histogram.expect("the bounds are in order"))
    }
}

impl Latencies {
    /// Counts one latency. A latency above [`LATENCY_NS_MAX`] counts as [`LATENCY_NS_MAX`].
    pub fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns.max(1));
    }

    /// Adds all latencies of `other`.
    pub fn add(&mut self, other: &Latencies) {
        self.0.add(&other.0).expect("all have the same bounds");
    }

    /// The number of latencies.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The latency in µs that `percent` of all latencies do not exceed; 0 if there are none.
    pub fn percentile_us(&self, percent: f64) -> f64 {
        self.0.value_at_percentile(percent) as f64 / 1_000.0
    }

    /// The distribution as points of a percentile and its latency in ms. Leaves out a percentile if
    /// there are too few latencies to tell it from the largest one (99.9 % needs 1,000).
    pub fn curve(&self, name: &str) -> Curve {
        let count = self.count();
        let is_told =
            |percent: &f64| *percent == 100.0 || (100.0 - percent) / 100.0 * count as f64 >= 1.0;
        let of = |percent: f64| (percent, self.percentile_us(percent) / 1_000.0);
        let known = PERCENTS.into_iter().filter(is_told).filter(|_| count > 0);
        Curve { name: name.to_string(), count, points: known.map(of).collect() }
    }

    /// The mean of all latencies, in µs; 0 if there are none.
    pub fn mean_us(&self) -> f64 {
        self.0.mean() / 1_000.0
    }

    /// The largest latency, in µs.
    pub fn max_us(&self) -> f64 {
        self.0.max() as f64 / 1_000.0
    }
}

/// The percentiles that a curve may have.
const PERCENTS: [f64; 20] = [
    0.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 98.0, 99.0, 99.5, 99.9,
    99.95, 99.99, 99.999, 100.0,
];

/// The figures of one phase (a named part) of one run.
#[derive(Clone, Debug, Default)]
pub struct Phase {
    /// The name of the phase in tables.
    pub name: &'static str,
    /// Answered requests of all clients.
    pub operations: u64,
    /// Time from the start of the phase to the last answer of any client, ns.
    pub elapsed_ns: u64,
    /// For each client, the time from the start of the phase to its last answer, ns. May be empty.
    pub client_ns: Vec<u64>,
    /// How long each request took, counted from its write to the socket, or in open loop from the
    /// time at which it was due.
    pub latencies: Latencies,
    /// CPU time of the server's processes; `None` if they are not on this machine.
    pub server_cpu_ns: Option<u64>,
    /// Wake-ups of the server's threads; `None` if they were not counted.
    pub server_wakeups: Option<u64>,
    /// CPU time of the generator's thread.
    pub own_cpu_ns: u64,
    /// Answers that were errors, or not the answer that was expected.
    pub errors: u64,
    /// Sessions that were lost until the end of this phase.
    pub lost: u64,
}

impl Phase {
    /// Adds the part of this phase that follows: its counts, times and latencies. `lost` counts
    /// from the start of the driver, so the later value replaces it.
    pub fn add(&mut self, part: &Phase) {
        self.operations += part.operations;
        self.elapsed_ns += part.elapsed_ns;
        self.latencies.add(&part.latencies);
        let before = self.server_cpu_ns.unwrap_or(0);
        self.server_cpu_ns = part.server_cpu_ns.map(|ns| before + ns);
        self.own_cpu_ns += part.own_cpu_ns;
        self.errors += part.errors;
        self.lost = part.lost;
    }

    /// How long the phase took, in seconds.
    pub fn seconds(&self) -> f64 {
        self.elapsed_ns as f64 / 1e9
    }

    /// Operations a second, all clients together.
    pub fn rate(&self) -> f64 {
        match self.elapsed_ns {
            0 => 0.0,
            ns => self.operations as f64 * 1e9 / ns as f64,
        }
    }

    /// CPU of the server for each operation, µs; `None` if it is not known.
    pub fn server_us(&self) -> Option<f64> {
        self.server_cpu_ns.map(|ns| per_operation_us(ns, self.operations))
    }

    /// Wake-ups of the server's threads for each operation; `None` if they were not counted.
    pub fn server_wakeups_each(&self) -> Option<f64> {
        let wakeups = self.server_wakeups?;
        Some(if self.operations == 0 { 0.0 } else { wakeups as f64 / self.operations as f64 })
    }

    /// CPU of the generator for each operation, µs.
    pub fn own_us(&self) -> f64 {
        per_operation_us(self.own_cpu_ns, self.operations)
    }
}

fn per_operation_us(ns: u64, operations: u64) -> f64 {
    match operations {
        0 => 0.0,
        count => ns as f64 / 1e3 / count as f64,
    }
}

/// The median; for an even number of values the mean of the middle two, and 0 for none.
pub fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        count if count % 2 == 1 => sorted[count / 2],
        count => (sorted[count / 2 - 1] + sorted[count / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests;
