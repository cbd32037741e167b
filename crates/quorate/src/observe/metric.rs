//! Defines a metric, and two text forms for metrics: Prometheus' text format 0.0.4, and a flat list
//! of keys and numbers. ZooKeeper's `mntr` and the admin command `monitor` show the flat list
//! (`DefaultMetricsProvider.dump`, `AvgMinMaxCounter`, `AvgMinMaxPercentileCounter`, ZooKeeper
//! 3.9.5).

use std::fmt::Write;

use member::summary::{Distribution, QUANTILES};
use zk::four_letter::Number;

/// The media type of the text that [`prometheus`] makes.
pub const PROMETHEUS_MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Microseconds in a second.
const US: f64 = 1e6;

/// A metric with its present value. In Prometheus' words, a family of samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// The metric's name; the flat list adds a prefix.
    pub name: &'static str,
    /// A sentence that explains the metric. For ZooKeeper's metrics it is the name.
    pub help: &'static str,
    pub value: Value,
}

impl Metric {
    /// A metric without an explanation: `help` repeats the name, as ZooKeeper does.
    pub fn named(name: &'static str, value: Value) -> Metric {
        Metric { name, help: name, value }
    }
}

/// The kind of a metric with its present value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number that may rise and fall.
    Gauge(Number),
    /// A number that only rises, until the process ends or the number is reset.
    Counter(Number),
    /// Gauges with different labels. Only Prometheus shows them.
    Gauges(Vec<(Labels, Number)>),
    /// Counters with different labels. Only Prometheus shows them.
    Counters(Vec<(Labels, Number)>),
    /// A distribution that is shown with its median only, as a quantile (`DetailLevel.BASIC`).
    Basic(Distribution),
    /// A distribution that is shown with several quantiles (`DetailLevel.ADVANCED`).
    Advanced(Distribution),
    /// Distributions by key, each shown with its median only (`AvgMinMaxCounterSet`). A key may be
    /// any text.
    BasicOf(Vec<(String, Distribution)>),
    /// Distributions by key, each shown with several quantiles (`AvgMinMaxPercentileCounterSet`).
    AdvancedOf(Vec<(String, Distribution)>),
    /// A count and a sum without quantiles. Only Prometheus shows them.
    Total { labels: Labels, count: u64, sum: f64 },
    /// Histograms with different labels. Only Prometheus shows them.
    Histograms(Vec<(Labels, Histogram)>),
}

/// Counts of times in buckets.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// The upper bounds of the buckets in us, ascending. The last bucket has no bound.
    pub bounds_us: &'static [u64],
    /// How many times fell into each bucket, one count more than there are bounds.
    pub counts: Vec<u64>,
    /// The sum of all times, in us.
    pub sum_us: u64,
}

/// The labels of a sample, in Prometheus' format: `a="x",b="y"`; empty if there are none.
pub type Labels = String;

/// A label in Prometheus' format. `value` may be any text; it is escaped.
pub fn label(name: &str, value: &str) -> Labels {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("{name}=\"{value}\"")
}

/// A whole number; one beyond `i64` becomes `i64::MAX`.
pub fn whole(number: impl TryInto<i64>) -> Number {
    Number::Whole(number.try_into().unwrap_or(i64::MAX))
}

/// How a page of metrics prints numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// As Java prints a double, whole numbers included: `7.0` (`PrometheusMetricsProvider`).
    AsDoubles,
    /// Whole numbers without a decimal point, as Go prints them: `7`.
    AsTheyAre,
}

/// The flat list of metrics. A distribution becomes several keys, whose numbers are whole but for
/// the average.
pub fn flat(metrics: &[Metric]) -> Vec<(String, Number)> {
    let mut found = Vec::new();
    for Metric { name, value, .. } in metrics {
        match value {
            Value::Gauge(number) | Value::Counter(number) => {
                found.push((name.to_string(), *number));
            }
            Value::Basic(of) => flat_distribution(name, of, false, &mut found),
            Value::Advanced(of) => flat_distribution(name, of, true, &mut found),
            Value::AdvancedOf(sets) => {
                for (key, of) in sets {
                    flat_distribution(&format!("{key}_{name}"), of, true, &mut found);
                }
            }
            Value::BasicOf(sets) => {
                for (key, of) in sets {
                    flat_distribution(&format!("{key}_{name}"), of, false, &mut found);
                }
            }
            Value::Gauges(_) | Value::Counters(_) | Value::Total { .. } | Value::Histograms(_) => {}
        }
    }
    found
}

fn flat_distribution(
    name: &str,
    of: &Distribution,
    is_advanced: bool,
    found: &mut Vec<(String, Number)>,
) {
    let mut add = |prefix: &str, number| found.push((format!("{prefix}_{name}"), number));
    add("avg", Number::Real(of.average()));
    add("min", rounded(of.min));
    add("max", rounded(of.max));
    add("cnt", rounded(of.count as f64));
    add("sum", rounded(of.sum));
    if is_advanced {
        let [p50, _, p95, p99, p999] = of.quantiles.unwrap_or_default();
        add("p50", rounded(p50));
        add("p95", rounded(p95));
        add("p99", rounded(p99));
        add("p999", rounded(p999));
    }
}

fn rounded(value: f64) -> Number {
    Number::Whole(value.round() as i64)
}

/// Metrics in Prometheus' text format: all, or the samples whose names are in `only`, unless that
/// is empty. A sample with a suffix, like a summary's `_count`, has to be named in full. A metric
/// without samples is left out.
pub fn prometheus(metrics: &[Metric], numbers: Numbers, only: &[String]) -> String {
    let mut text = String::new();
    for Metric { name, help, value } in metrics {
        let mut samples = Samples { text: String::new(), name, numbers, only };
        samples.add_value(value);
        if !samples.text.is_empty() {
            let (kind, samples) = (kind(value), samples.text);
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{samples}");
        }
    }
    text
}

/// Prometheus' name for the kind of a metric.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Gauge(_) | Value::Gauges(_) => "gauge",
        Value::Counter(_) | Value::Counters(_) => "counter",
        Value::Basic(_) | Value::Advanced(_) => "summary",
        Value::BasicOf(_) | Value::AdvancedOf(_) | Value::Total { .. } => "summary",
        Value::Histograms(_) => "histogram",
    }
}

/// Collects the samples of one metric as text.
struct Samples<'a> {
    text: String,
    name: &'static str,
    numbers: Numbers,
    /// The names of the samples to collect; empty for all.
    only: &'a [String],
}

impl Samples<'_> {
    fn add_value(&mut self, value: &Value) {
        match value {
            Value::Gauge(number) | Value::Counter(number) => self.add("", "", *number),
            Value::Gauges(all) | Value::Counters(all) => {
                all.iter().for_each(|(labels, number)| self.add("", labels, *number));
            }
            Value::Basic(of) => self.add_distribution("", of, &[0.5]),
            Value::Advanced(of) => self.add_distribution("", of, &[0.5, 0.9, 0.99]),
            Value::BasicOf(sets) => {
                sets.iter().for_each(|(key, of)| {
                    self.add_distribution(&label("key", key), of, &[0.5]);
                });
            }
            Value::AdvancedOf(sets) => {
                sets.iter().for_each(|(key, of)| {
                    self.add_distribution(&label("key", key), of, &[0.5, 0.9, 0.99]);
                });
            }
            Value::Total { labels, count, sum } => {
                self.add("_count", labels, whole(*count));
                self.add("_sum", labels, Number::Real(*sum));
            }
            Value::Histograms(all) => {
                all.iter().for_each(|(labels, of)| self.add_histogram(labels, of));
            }
        }
    }

    fn add(&mut self, suffix: &str, labels: &str, number: Number) {
        let name = self.name;
        let is_asked = |asked: &String| asked.strip_prefix(name) == Some(suffix);
        if !self.only.is_empty() && !self.only.iter().any(is_asked) {
            return;
        }
        let number = match (number, self.numbers) {
            (Number::Real(real), _) if real.is_nan() => "NaN".to_string(),
            (number, Numbers::AsDoubles) => format!("{:?}", real(number)),
            (Number::Whole(whole), Numbers::AsTheyAre) => whole.to_string(),
            (Number::Real(real), Numbers::AsTheyAre) => real.to_string(),
        };
        let _ = match labels {
            "" => writeln!(self.text, "{name}{suffix} {number}"),
            _ => writeln!(self.text, "{name}{suffix}{{{labels}}} {number}"),
        };
    }

    fn add_distribution(&mut self, label: &str, of: &Distribution, shown: &[f64]) {
        for (at, quantile) in QUANTILES.iter().enumerate() {
            if shown.contains(quantile) {
                let value = of.quantiles.map_or(f64::NAN, |values| values[at]);
                let labels = joined(label, &format!("quantile=\"{quantile}\""));
                self.add("", &labels, Number::Real(value));
            }
        }
        self.add("_count", label, whole(of.count));
        self.add("_sum", label, Number::Real(of.sum));
    }

    /// Adds the samples of a histogram. As the format demands, each bucket includes the counts of
    /// all lower ones.
    fn add_histogram(&mut self, labels: &str, of: &Histogram) {
        let bounds = of.bounds_us.iter().map(|us| (*us as f64 / US).to_string());
        let mut count = 0;
        for (bound, more) in bounds.chain(["+Inf".to_string()]).zip(&of.counts) {
            count += more;
            self.add("_bucket", &joined(labels, &format!("le=\"{bound}\"")), whole(count));
        }
        self.add("_sum", labels, Number::Real(of.sum_us as f64 / US));
        self.add("_count", labels, whole(count));
    }
}

/// The labels, with another one at the end.
fn joined(labels: &str, last: &str) -> Labels {
    if labels.is_empty() { last.to_string() } else { format!("{labels},{last}") }
}

fn real(number: Number) -> f64 {
    match number {
        Number::Whole(whole) => whole as f64,
        Number::Real(real) => real,
    }
}

#[cfg(test)]
mod tests;
