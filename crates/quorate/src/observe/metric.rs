//! Metrics, under whatever names a page has for them, and the two ways to show them: Prometheus'
//! text format 0.0.4, and a flat list of keys and numbers (`mntr` and the admin server's `monitor`:
//! `DefaultMetricsProvider.dump`, `AvgMinMaxCounter`, `AvgMinMaxPercentileCounter`, ZooKeeper
//! 3.9.5).

use std::fmt::Write;

use member::summary::{Distribution, QUANTILES};
use zk::four_letter::Number;

/// The media type of [`prometheus`].
pub const PROMETHEUS_MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Microseconds of a second.
const US: f64 = 1e6;

/// A metric: a family of samples, in Prometheus' words.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// The name, without a prefix.
    pub name: &'static str,
    /// One sentence for people. ZooKeeper's metrics have their name here.
    pub help: &'static str,
    pub value: Value,
}

impl Metric {
    /// A metric whose name says enough: its help is its name, as on ZooKeeper's page.
    pub fn named(name: &'static str, value: Value) -> Metric {
        Metric { name, help: name, value }
    }
}

/// The kind of a metric, and its present value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number that goes up and down.
    Gauge(Number),
    /// A number that only grows, until the process ends or it is reset.
    Counter(Number),
    /// Gauges that differ in their labels. Only Prometheus sees them.
    Gauges(Vec<(Labels, Number)>),
    /// Counters that differ in their labels. Only Prometheus sees them.
    Counters(Vec<(Labels, Number)>),
    /// A distribution that is shown with its median only (`DetailLevel.BASIC`).
    Basic(Distribution),
    /// A distribution that is shown with more quantiles (`DetailLevel.ADVANCED`).
    Advanced(Distribution),
    /// A distribution for each of several keys, shown with its median only (`AvgMinMaxCounterSet`).
    /// A key may be any text.
    BasicOf(Vec<(String, Distribution)>),
    /// A distribution for each of several keys, shown with more quantiles
    /// (`AvgMinMaxPercentileCounterSet`).
    AdvancedOf(Vec<(String, Distribution)>),
    /// A summary without quantiles. Only Prometheus sees it.
    Total { labels: Labels, count: u64, sum: f64 },
    /// Times in buckets. Only Prometheus sees them.
    Histograms(Vec<(Labels, Histogram)>),
}

/// Times in buckets.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// The upper bound of each bucket but the last, which has none; us, ascending.
    pub bounds_us: &'static [u64],
    /// The times in each bucket: one count more than there are bounds.
    pub counts: Vec<u64>,
    /// The sum of all times, us.
    pub sum_us: u64,
}

/// The labels of a sample as the format has them: `a="x",b="y"`; empty without labels.
pub type Labels = String;

/// A label, escaped for the format: any text may be its value.
pub fn label(name: &str, value: &str) -> Labels {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("{name}=\"{value}\"")
}

/// A whole number; a larger one than the type holds is shown as the largest.
pub fn whole(number: impl TryInto<i64>) -> Number {
    Number::Whole(number.try_into().unwrap_or(i64::MAX))
}

/// The way in which a page prints numbers. Programs read both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// As Java prints a double, whole numbers too: `7.0` (`PrometheusMetricsProvider`).
    AsDoubles,
    /// Whole numbers without a point, as Go prints them: `7`.
    AsTheyAre,
}

/// Keys with one number each. Distributions are shown in whole numbers except their average.
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

/// All metrics, or the ones of these names, in Prometheus' text format. A sample whose name has a
/// suffix, like `_count` of a summary, is asked for by its full name. A metric without samples is
/// left out.
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

/// The format's name for a kind of metric.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Gauge(_) | Value::Gauges(_) => "gauge",
        Value::Counter(_) | Value::Counters(_) => "counter",
        Value::Basic(_) | Value::Advanced(_) => "summary",
        Value::BasicOf(_) | Value::AdvancedOf(_) | Value::Total { .. } => "summary",
        Value::Histograms(_) => "histogram",
    }
}

/// The samples of one metric, as text.
struct Samples<'a> {
    text: String,
    name: &'static str,
    numbers: Numbers,
    /// The names that were asked for; all, if there are none.
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

    /// Adds the buckets as the format wants them: each counts the times of all lower ones, too.
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

/// Labels with one more behind them.
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
