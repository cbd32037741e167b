//! Metrics under ZooKeeper's names, and the two texts they are shown as: the lines of `mntr`
//! (`DefaultMetricsProvider.dump`, `AvgMinMaxCounter`, `AvgMinMaxPercentileCounter`) and
//! Prometheus' text format 0.0.4 (`PrometheusMetricsProvider`), ZooKeeper 3.9.5.

use core::fmt::{self, Write};

/// The media type of [`prometheus`].
pub const PROMETHEUS_MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// One metric, by the name that ZooKeeper has for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Name, without a prefix.
    pub name: &'static str,
    /// The value now.
    pub value: Value,
}

/// The kind and value of a metric.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A value that goes up and down.
    Gauge(Number),
    /// A value that only grows, until the process ends or is told to reset it.
    Counter(u64),
    /// A distribution that is shown with its median only (`DetailLevel.BASIC`).
    Basic(Distribution),
    /// A distribution that is shown with more quantiles (`DetailLevel.ADVANCED`).
    Advanced(Distribution),
    /// A distribution for each of several keys, shown with more quantiles
    /// (`AvgMinMaxPercentileCounterSet`).
    AdvancedOf(Vec<(String, Distribution)>),
    /// A distribution for each of several keys, shown with its median only (`AvgMinMaxCounterSet`).
    /// A key may be any text.
    BasicOf(Vec<(String, Distribution)>),
    /// Gauges that differ in their labels, for Prometheus only, each with its labels as text.
    Labelled(Vec<(String, f64)>),
    /// A summary without quantiles, for Prometheus only: its labels, count and sum.
    Total(String, u64, f64),
    /// A counter for Prometheus only, which need not be whole.
    Seconds(f64),
}

/// A gauge's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A whole number.
    Whole(i64),
    /// Any other number.
    Real(f64),
}

/// The distribution of repeated measurements; times are in ms.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Distribution {
    /// How many values were recorded.
    pub count: u64,
    /// The sum of all values.
    pub sum: f64,
    /// The least value; 0 if there is none.
    pub min: f64,
    /// The greatest value; 0 if there is none.
    pub max: f64,
    /// Quantiles .5, .9, .95, .99, .999 of the values of the last minutes, if there are any.
    pub quantiles: Option<[f64; 5]>,
}

/// The quantiles that [`Distribution`] has.
pub const QUANTILES: [f64; 5] = [0.5, 0.9, 0.95, 0.99, 0.999];

impl Distribution {
    fn average(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum / self.count as f64 }
    }
}

impl fmt::Display for Number {
    /// Prints the number as Java does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Whole(whole) => write!(f, "{whole}"),
            Number::Real(real) => f.write_str(&java_double(*real)),
        }
    }
}

/// A double as Java prints it, to four decimals: `0.0`, `1.25`.
pub(crate) fn java_double(value: f64) -> String {
    let text = format!("{value:.4}");
    let trimmed = text.trim_end_matches('0');
    if trimmed.ends_with('.') { format!("{trimmed}0") } else { trimmed.to_string() }
}

/// Keys with one number each, as `mntr` and the admin server's `monitor` have them. Distributions
/// are shown in whole numbers except their average.
pub fn flat(metrics: &[Metric]) -> Vec<(String, Number)> {
    let mut found = Vec::new();
    for Metric { name, value } in metrics {
        match value {
            Value::Gauge(number) => found.push((name.to_string(), *number)),
            Value::Counter(count) => found.push((name.to_string(), whole(*count as f64))),
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
            Value::Labelled(_) | Value::Total(..) | Value::Seconds(_) => {}
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
    add("min", whole(of.min));
    add("max", whole(of.max));
    add("cnt", whole(of.count as f64));
    add("sum", whole(of.sum));
    if is_advanced {
        let [p50, _, p95, p99, p999] = of.quantiles.unwrap_or_default();
        add("p50", whole(p50));
        add("p95", whole(p95));
        add("p99", whole(p99));
        add("p999", whole(p999));
    }
}

fn whole(value: f64) -> Number {
    Number::Whole(value.round() as i64)
}

/// All metrics, or the ones of these names, in Prometheus' text format. A sample that only another
/// name's family has, like `_count` of a summary, is asked for by the name of the sample.
pub fn prometheus(metrics: &[Metric], only: &[String]) -> String {
    let mut text = String::new();
    for Metric { name, value } in metrics {
        let mut samples = Samples { text: String::new(), only };
        let kind = match value {
            Value::Gauge(number) => {
                samples.add(name, "", "", real(*number));
                "gauge"
            }
            Value::Counter(count) => {
                samples.add(name, "", "", *count as f64);
                "counter"
            }
            Value::Seconds(seconds) => {
                samples.add(name, "", "", *seconds);
                "counter"
            }
            Value::Basic(of) => {
                samples.add_distribution(name, "", of, &[0.5]);
                "summary"
            }
            Value::Advanced(of) => {
                samples.add_distribution(name, "", of, &[0.5, 0.9, 0.99]);
                "summary"
            }
            Value::AdvancedOf(sets) => {
                for (key, of) in sets {
                    let label = format!("key=\"{key}\"");
                    samples.add_distribution(name, &label, of, &[0.5, 0.9, 0.99]);
                }
                "summary"
            }
            Value::BasicOf(sets) => {
                for (key, of) in sets {
                    let label = format!("key=\"{}\"", escaped(key));
                    samples.add_distribution(name, &label, of, &[0.5]);
                }
                "summary"
            }
            Value::Total(labels, count, sum) => {
                samples.add(name, "_count", labels, *count as f64);
                samples.add(name, "_sum", labels, *sum);
                "summary"
            }
            Value::Labelled(labelled) => {
                labelled.iter().for_each(|(labels, value)| samples.add(name, "", labels, *value));
                "gauge"
            }
        };
        if !samples.text.is_empty() {
            let _ = write!(text, "# HELP {name} {name}\n# TYPE {name} {kind}\n{}", samples.text);
        }
    }
    text
}

struct Samples<'a> {
    text: String,
    only: &'a [String],
}

impl Samples<'_> {
    fn add(&mut self, name: &str, suffix: &str, labels: &str, value: f64) {
        let is_asked = |asked: &String| asked.strip_prefix(name) == Some(suffix);
        if !self.only.is_empty() && !self.only.iter().any(is_asked) {
            return;
        }
        let value = prometheus_number(value);
        let _ = match labels {
            "" => writeln!(self.text, "{name}{suffix} {value}"),
            _ => writeln!(self.text, "{name}{suffix}{{{labels}}} {value}"),
        };
    }

    fn add_distribution(&mut self, name: &str, label: &str, of: &Distribution, shown: &[f64]) {
        let before = if label.is_empty() { String::new() } else { format!("{label},") };
        for (at, quantile) in QUANTILES.iter().enumerate() {
            if shown.contains(quantile) {
                let value = of.quantiles.map_or(f64::NAN, |values| values[at]);
                self.add(name, "", &format!("{before}quantile=\"{quantile}\""), value);
            }
        }
        self.add(name, "_count", label, of.count as f64);
        self.add(name, "_sum", label, of.sum);
    }
}

fn real(number: Number) -> f64 {
    match number {
        Number::Whole(whole) => whole as f64,
        Number::Real(real) => real,
    }
}

/// The value of a label, escaped for the format.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn prometheus_number(value: f64) -> String {
    if value.is_nan() { "NaN".to_string() } else { format!("{value:?}") }
}

#[cfg(test)]
mod tests;
