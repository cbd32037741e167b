//! Finds the figures that two runs have in common: the same figure of the same system in the same
//! test. Lists how the runs differ in workload, machine and systems, and which differences make
//! figures incomparable.

use std::collections::BTreeMap;

use crate::number::bytes;
use crate::schema::{Figure, Machine, Results, Role, System};

/// Two disks count as different if the median fdatasync of one is more than this many times the
/// other's.
const DISK_FACTOR_MAX: f64 = 1.5;

/// Identifies a figure, so that it can be found in two runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key<'a> {
    /// The group of the test.
    pub group: &'a str,
    /// The title of the test.
    pub title: &'a str,
    /// The id of the system.
    pub system: &'a str,
    /// The name of the figure.
    pub figure: &'a str,
}

/// The figures of two runs, each list in the order of its run.
#[derive(Clone, Debug, Default)]
pub struct Matching<'a> {
    /// Figures that both runs have: the key, the old figure and the new one.
    pub both: Vec<(Key<'a>, &'a Figure, &'a Figure)>,
    /// Figures that only the old run has.
    pub only_old: Vec<(Key<'a>, &'a Figure)>,
    /// Figures that only the new run has.
    pub only_new: Vec<(Key<'a>, &'a Figure)>,
}

/// One difference between two runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The property that differs.
    pub what: String,
    /// The value in the old run.
    pub old: String,
    /// The value in the new run.
    pub new: String,
    /// Whether figures must not be compared because of it. Another name or build of our own server
    /// is not serious.
    pub is_serious: bool,
}

impl std::fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = [self.group, self.title, self.system, self.figure];
        let parts = parts.iter().filter(|part| !part.is_empty());
        write!(f, "{}", parts.copied().collect::<Vec<_>>().join(" / "))
    }
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {} before, {} now", self.what, self.old, self.new)
    }
}

/// All figures of a run that have values, with their keys.
fn figures(results: &Results) -> Vec<(Key<'_>, &Figure)> {
    let tests = results.tests.iter().filter(|test| test.skipped.is_none());
    let figures = tests.flat_map(|test| {
        test.systems.iter().flat_map(move |measured| {
            measured.figures.iter().map(move |figure| {
                let (system, name) = (measured.system.as_str(), figure.name.as_str());
                let (group, title) = (test.group.as_str(), test.title.as_str());
                (Key { group, title, system, figure: name }, figure)
            })
        })
    });
    figures.filter(|(_, figure)| !figure.values.is_empty()).collect()
}

/// Matches the figures of two runs.
pub fn matching<'a>(old: &'a Results, new: &'a Results) -> Matching<'a> {
    let (old, new) = (figures(old), figures(new));
    let old_keys: BTreeMap<Key, &Figure> = old.iter().copied().collect();
    let new_keys: BTreeMap<Key, &Figure> = new.iter().copied().collect();
    let both = old.iter().filter_map(|(key, figure)| {
        new_keys.get(key).map(|new_figure| (*key, *figure, *new_figure))
    });
    Matching {
        both: both.collect(),
        only_old: old.iter().filter(|(key, _)| !new_keys.contains_key(key)).copied().collect(),
        only_new: new.iter().filter(|(key, _)| !old_keys.contains_key(key)).copied().collect(),
    }
}

/// The differences of two runs in workload, machine, disk, and in the systems that both have.
pub fn differences(old: &Results, new: &Results) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut compare = |what: &str, old: String, new: String, is_serious: bool| {
        if old != new {
            let shown = |text: String| if text.is_empty() { "unknown".to_string() } else { text };
            let (old, new) = (shown(old), shown(new));
            found.push(Difference { what: what.to_string(), old, new, is_serious });
        }
    };
    compare("workload", old.workload.clone(), new.workload.clone(), true);
    for ((what, old), (_, new)) in facts(&old.machine).into_iter().zip(facts(&new.machine)) {
        compare(what, old, new, true);
    }
    if let Some((old, new)) = slower_disk(&old.machine, &new.machine) {
        compare("fdatasync", format!("{old:.2} ms"), format!("{new:.2} ms"), true);
    }
    for one in &old.systems {
        let Some(other) = new.system(&one.id) else { continue };
        let is_peer = one.role != Role::Ours;
        compare(&format!("{}: name", one.id), one.name.clone(), other.name.clone(), is_peer);
        compare(&format!("{}: build", one.id), one.build.clone(), other.build.clone(), is_peer);
        let (lines, others) = (missing(one, other), missing(other, one));
        compare(&format!("{}: configuration", one.id), lines, others, true);
    }
    found
}

/// The properties of a machine that affect figures, each with its name.
fn facts(machine: &Machine) -> Vec<(&'static str, String)> {
    let disk = machine.disk.as_ref();
    vec![
        ("processor", machine.processor.clone()),
        ("cores", machine.cores.to_string()),
        ("memory", bytes(machine.memory_bytes)),
        ("kernel", machine.kernel.clone()),
        ("file system", disk.map(|disk| disk.file_system.clone()).unwrap_or_default()),
        ("limits", machine.limits.join(", ")),
    ]
}

/// The median fdatasync times of the two disks; `None` unless one is much slower.
fn slower_disk(old: &Machine, new: &Machine) -> Option<(f64, f64)> {
    let median = |machine: &Machine| {
        let points = &machine.disk.as_ref()?.before.points;
        points.iter().find(|(percent, _)| *percent >= 50.0).map(|(_, value)| *value)
    };
    let (old, new) = (median(old)?, median(new)?);
    let factor = (old / new).max(new / old);
    (factor > DISK_FACTOR_MAX).then_some((old, new))
}

/// The lines of a system's configuration that another one lacks, for a reader.
fn missing(one: &System, other: &System) -> String {
    let lines = one.configuration.iter().filter(|line| !other.configuration.contains(line));
    let lines: Vec<&str> = lines.map(String::as_str).collect();
    let is_equal = one.configuration == other.configuration;
    if lines.is_empty() && !is_equal { "nothing else".to_string() } else { lines.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::run;

    #[test]
    fn figures_are_matched_by_name() {
        let (old, mut new) = (run(), run());
        let all = matching(&old, &new).both.len();
        assert_eq!(all, figures(&old).len());
        new.tests[0].title = "renamed".into();
        new.tests[1].systems[0].figures[0].values.clear();
        let matching = matching(&old, &new);
        let of_first = old.tests[0].systems.iter().map(|one| one.figures.len()).sum::<usize>();
        assert_eq!(matching.only_old.len(), of_first + 1);
        assert_eq!(matching.only_new.len(), of_first);
        assert_eq!(matching.both.len(), all - of_first - 1);
        let key = matching.only_old[0].0.to_string();
        assert_eq!(key, "znodes / 40 znodes, 1 client / ours / create rate");
    }

    #[test]
    fn differences_of_place_are_serious_and_our_build_is_not() {
        let (old, mut new) = (run(), run());
        assert_eq!(differences(&old, &new), []);
        new.machine.kernel = "Linux 6.2.0".into();
        new.systems[0].build = "other".into();
        new.systems[1].configuration[0] = "tickTime=500".into();
        let before = &mut new.machine.disk.as_mut().unwrap().before;
        before.points.iter_mut().for_each(|point| point.1 *= 2.0);
        let found = differences(&old, &new);
        let found: Vec<(&str, bool)> =
            found.iter().map(|one| (one.what.as_str(), one.is_serious)).collect();
        let expected = [
            ("kernel", true),
            ("fdatasync", true),
            ("ours: build", false),
            ("zk: configuration", true),
        ];
        assert_eq!(found, expected);
    }
}
