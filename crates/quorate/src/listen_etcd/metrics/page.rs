//! Prometheus' text format 0.0.4.

use std::fmt::Write;

pub(super) const COUNTER: &str = "counter";
pub(super) const GAUGE: &str = "gauge";
pub(super) const HISTOGRAM: &str = "histogram";

/// Microseconds of a second.
const US: f64 = 1e6;

/// The text so far.
#[derive(Default)]
pub(super) struct Page {
    pub text: String,
    /// The name of the family that was begun last.
    name: &'static str,
}

impl Page {
    /// Begins a family of samples.
    pub fn begin(&mut self, name: &'static str, kind: &str, help: &str) {
        self.name = name;
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    /// Adds a sample of the family; `suffix` is added to its name.
    pub fn sample(&mut self, suffix: &str, labels: &str, value: u64) {
        self.add(suffix, labels, &value.to_string());
    }

    /// Adds a family with one sample.
    pub fn one(&mut self, name: &'static str, kind: &str, help: &str, labels: &str, value: u64) {
        self.begin(name, kind, help);
        self.sample("", labels, value);
    }

    /// Adds a family with one number that need not be whole.
    pub fn real(&mut self, name: &'static str, kind: &str, help: &str, value: f64) {
        self.begin(name, kind, help);
        self.add("", "", &value.to_string());
    }

    /// Adds a histogram to the family. `counts` has one count for each bound, and one beyond them.
    pub fn histogram(&mut self, labels: &str, bounds_us: &[u64], counts: &[u64], sum: f64) {
        let comma = if labels.is_empty() { "" } else { "," };
        let bounds = bounds_us.iter().map(|us| (*us as f64 / US).to_string());
        let mut count = 0;
        for (bound, more) in bounds.chain(["+Inf".to_string()]).zip(counts) {
            count += more;
            self.sample("_bucket", &format!("{labels}{comma}le=\"{bound}\""), count);
        }
        self.add("_sum", labels, &sum.to_string());
        self.sample("_count", labels, count);
    }

    fn add(&mut self, suffix: &str, labels: &str, value: &str) {
        let name = self.name;
        let _ = match labels {
            "" => writeln!(self.text, "{name}{suffix} {value}"),
            _ => writeln!(self.text, "{name}{suffix}{{{labels}}} {value}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_have_their_samples_below_them() {
        let mut page = Page::default();
        page.one("a", GAUGE, "Help.", "x=\"1\"", 7);
        page.begin("b", HISTOGRAM, "More.");
        page.histogram("", &[5_000, 1_000_000], &[1, 2, 3], 4.5);
        page.real("c", COUNTER, "Last.", 0.25);
        let expected = "# HELP a Help.\n# TYPE a gauge\na{x=\"1\"} 7\n\
                        # HELP b More.\n# TYPE b histogram\nb_bucket{le=\"0.005\"} 1\n\
                        b_bucket{le=\"1\"} 3\nb_bucket{le=\"+Inf\"} 6\nb_sum 4.5\nb_count 6\n\
                        # HELP c Last.\n# TYPE c counter\nc 0.25\n";
        assert_eq!(page.text, expected);
    }
}
