//! The results of a run as Rust types, which are read from JSON and written as JSON. Fields are
//! only added, never removed: a reader ignores fields that it does not know, and uses a default for
//! those that are missing.
//!
//! Words of this schema: the *document* is the published benchmark that a run follows. *Ours* is
//! the system in question, a *peer* is a real server beside it, and the *null server* is one that
//! does nothing. A test is measured in several *rounds*. The *course* is what was seen over the
//! time of one round.

use serde::{Deserialize, Serialize};

/// The name and the version of the schema.
pub const SCHEMA: &str = "quorate-bench/1";

/// Everything that one run has found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Results {
    /// The schema of this JSON: [`SCHEMA`].
    pub schema: String,
    /// The name of the workload on the command line: `zk-latencies`, `reproduce hunt`.
    pub workload: String,
    /// The title for readers.
    pub title: String,
    /// Sentences about the method of the run.
    pub about: Vec<String>,
    /// The command line of the run.
    pub command: String,
    /// When the run began (RFC 3339, UTC).
    pub began_at: String,
    /// How long the run took, in seconds.
    pub seconds: f64,
    /// Whether the run was scaled down, so that its figures only show the method.
    pub is_quick: bool,
    /// Why parts of the run are missing; `None` if it is complete.
    pub cut_short: Option<String>,
    /// Why there is no real server beside ours; `None` if there is one, or if none was wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_peer: Option<String>,
    /// Why no figure of this run may be quoted, for example stolen CPU time or a disk that drifted;
    /// empty if figures may be quoted.
    pub doubts: Vec<String>,
    /// The machine that the run was made on.
    pub machine: Machine,
    /// The systems that were measured; the first is the one in question.
    pub systems: Vec<System>,
    /// How the method differs from the document's, a sentence each.
    pub deviations: Vec<String>,
    /// Known errors and ambiguities of the document, a sentence each.
    pub traps: Vec<String>,
    /// The tests, in order.
    pub tests: Vec<Test>,
    /// The document's charts, with figures of the tests.
    pub charts: Vec<Chart>,
}

/// The machine on which servers and generator ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// The processor's model.
    pub processor: String,
    /// How many cores the run could use.
    pub cores: usize,
    /// The size of the memory.
    pub memory_bytes: u64,
    /// The kernel's name and version.
    pub kernel: String,
    /// The servers' disk; `None` if it was not measured.
    pub disk: Option<Disk>,
    /// Limits of the process that matter (`RLIMIT_NOFILE` and the like), a line each.
    pub limits: Vec<String>,
    /// CPU time that other guests of the host took during the run, in ms.
    pub stolen_ms: u64,
}

/// A disk, and how long fdatasync takes on it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Disk {
    /// The folder that was measured.
    pub folder: String,
    /// The type of its file system.
    pub file_system: String,
    /// How long fdatasync takes after overwriting 4 KiB, measured before the run.
    pub before: Curve,
    /// As `before`, measured after the run.
    pub after: Option<Curve>,
}

/// The role of a system in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The system in question.
    #[default]
    Ours,
    /// A system that ours is compared with.
    Peer,
    /// The null server, which does nothing: its figures are the most that the generator can do.
    Null,
}

/// A system that was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct System {
    /// The id of the system; [`Measured`] refers to it.
    pub id: String,
    /// The system's role in the run.
    pub role: Role,
    /// The system's name and version.
    pub name: String,
    /// The address that clients connected to.
    pub address: String,
    /// Distinguishes builds of the same version; empty if unknown.
    pub build: String,
    /// The system's configuration, a line each.
    pub configuration: Vec<String>,
}

/// A test: a row or a cell of the document's tables.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Test {
    /// The name of the table that the test belongs to; empty if a report of the run has only one
    /// table.
    pub group: String,
    /// The action that the test measures. The title is unique within a group.
    pub title: String,
    /// The warm-up before the test, in words.
    pub warm: String,
    /// The document's values for this test.
    pub published: Vec<Published>,
    /// The measured values of each system.
    pub systems: Vec<Measured>,
    /// The bottleneck of the system in question; empty if unknown.
    pub limit: String,
    /// Why published and measured figures differ, and other remarks, a sentence each.
    pub remarks: Vec<String>,
    /// Why the test was not measured; `None` if it was.
    pub skipped: Option<String>,
}

/// A value that the document publishes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Published {
    /// The name of the [`Figure`] that the value is shown beside.
    pub figure: String,
    /// The value in the figure's unit; `None` if it is not a single number.
    pub value: Option<f64>,
    /// The value as the document words it.
    pub text: String,
}

/// The measured values of one system in a test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Measured {
    /// The system's [`System::id`].
    pub system: String,
    /// The system's figures, in the same order for all systems.
    pub figures: Vec<Figure>,
    /// The distributions of latencies, each over all rounds.
    pub latencies: Vec<Curve>,
    /// The course of the last round.
    pub course: Vec<Moment>,
    /// Remarks, a line each.
    pub notes: Vec<String>,
    /// How many answers were errors or wrong, plus how many sessions were lost.
    pub trouble: u64,
}

/// Which direction of a figure is good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Good {
    /// More is better: a rate.
    More,
    /// Less is better: a cost, a wait.
    Less,
    /// Neither: the figure says what was done, and is not compared.
    #[default]
    Neither,
}

/// A figure: one measured quantity of one system in one test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Figure {
    /// The name, unique among the figures of a system in a test.
    pub name: String,
    /// The unit: `per s`, `us`, `ms`, `MiB`; empty for a count.
    pub unit: String,
    /// Which direction is good.
    pub good: Good,
    /// One value for each round; empty if the figure could not be measured. Values of two systems
    /// with equal indices were measured one after the other, so they form a pair.
    pub values: Vec<f64>,
    /// Whether the figure is in the tables of a report; otherwise it is only in the details.
    pub is_headline: bool,
}

/// A distribution of values, by percentile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Curve {
    /// The name of the measured quantity.
    pub name: String,
    /// How many values were measured.
    pub count: u64,
    /// Points (percent from 0 to 100, value in ms), both rising: that percentage of all values is
    /// not above the value.
    pub points: Vec<(f64, f64)>,
}

/// The state of a system at one moment of a round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Moment {
    /// The time since the round began, in seconds.
    pub at_s: f64,
    /// Operations per second since the moment before.
    pub rate: Option<f64>,
    /// The median latency since the moment before, in ms.
    pub p50_ms: Option<f64>,
    /// The 99th percentile of the latency since the moment before, in ms.
    pub p99_ms: Option<f64>,
    /// The sum over all servers.
    #[serde(flatten)]
    pub all: Usage,
    /// The usage of each of several servers, in the order of their addresses; empty if they cannot
    /// be measured apart.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<Usage>,
}

/// The resources that servers use at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// CPU cores, on average since the moment before.
    pub cpu_cores: Option<f64>,
    /// Resident memory, in MiB.
    pub resident_mib: Option<f64>,
    /// The size of the folders of data and logs, in MiB.
    pub disk_mib: Option<f64>,
}

/// A chart of the document, with measured lines beside the published ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Chart {
    /// The title above the chart.
    pub title: String,
    /// The name of the horizontal axis.
    pub x: String,
    /// The unit of the values.
    pub unit: String,
    /// Whether the vertical axis is logarithmic.
    pub is_logarithmic: bool,
    /// The places on the horizontal axis, from left to right.
    pub labels: Vec<String>,
    /// The lines of the chart.
    pub series: Vec<Series>,
}

/// A line of a chart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Series {
    /// The name of the line: a system, or the document.
    pub name: String,
    /// A value for each place; `None` where there is none.
    pub values: Vec<Option<f64>>,
}

impl Results {
    /// Parses the JSON of a run.
    ///
    /// # Errors
    /// The text is not JSON of this schema.
    pub fn read(text: &str) -> anyhow::Result<Results> {
        let results: Results = serde_json::from_str(text)?;
        let schema = &results.schema;
        anyhow::ensure!(schema == SCHEMA, "the schema is {schema:?}, and not {SCHEMA:?}");
        Ok(results)
    }

    /// The run as JSON.
    pub fn to_json(&self) -> String {
        let json = serde_json::to_string(self);
        json.expect("names are texts, and all numbers are finite or null")
    }

    /// The system with this id.
    pub fn system(&self, id: &str) -> Option<&System> {
        self.systems.iter().find(|system| system.id == id)
    }

    /// The first system with this role.
    pub fn of_role(&self, role: Role) -> Option<&System> {
        self.systems.iter().find(|system| system.role == role)
    }
}

impl Test {
    /// The measured values of the system with this id; `None` if it was not measured.
    pub fn of(&self, id: &str) -> Option<&Measured> {
        self.systems.iter().find(|measured| measured.system == id)
    }
}

impl Measured {
    /// The figure with this name.
    pub fn figure(&self, name: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.name == name)
    }
}

impl Figure {
    /// The median of the rounds; `None` if there are no values.
    pub fn median(&self) -> Option<f64> {
        let mut sorted = self.values.clone();
        sorted.sort_by(f64::total_cmp);
        let (count, middle) = (sorted.len(), sorted.len() / 2);
        match count {
            0 => None,
            _ if count % 2 == 1 => Some(sorted[middle]),
            _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
        }
    }

    /// The least and the greatest value; `None` if there are no values.
    pub fn range(&self) -> Option<(f64, f64)> {
        let least = self.values.iter().copied().min_by(f64::total_cmp)?;
        Some((least, self.values.iter().copied().max_by(f64::total_cmp)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_reads_as_it_was_written() {
        let figure = Figure { name: "rate".into(), values: vec![1.5, 2.0], ..Figure::default() };
        let measured =
            Measured { system: "ours".into(), figures: vec![figure], ..Measured::default() };
        let test = Test { title: "t".into(), systems: vec![measured], ..Test::default() };
        let results =
            Results { schema: SCHEMA.to_string(), tests: vec![test], ..Results::default() };
        assert_eq!(Results::read(&results.to_json()).unwrap(), results);
        let read = &results.tests[0].of("ours").unwrap().figure("rate").unwrap();
        assert_eq!((read.median(), read.range()), (Some(1.75), Some((1.5, 2.0))));
    }

    #[test]
    fn other_schemas_are_refused_and_new_fields_are_not() {
        let error = Results::read(r#"{"schema":"other/1"}"#).unwrap_err().to_string();
        assert!(error.contains("other/1"), "{error}");
        assert!(Results::read("[").is_err());
        let text = format!(r#"{{"schema":"{SCHEMA}","new":1}}"#);
        assert_eq!(Results::read(&text).unwrap().tests, []);
    }
}
