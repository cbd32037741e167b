//! The JSON of a run. Fields are only added: a reader takes what it knows, and lacks nothing that
//! it must have.

use serde::{Deserialize, Serialize};

/// The name and the version of the schema.
pub const SCHEMA: &str = "quorate-bench/1";

/// All that one run has found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Results {
    /// [`SCHEMA`].
    pub schema: String,
    /// The workload, as the command line names it: `zk-latencies`, `reproduce hunt`.
    pub workload: String,
    /// The title of the run for readers.
    pub title: String,
    /// What was done, a sentence each.
    pub about: Vec<String>,
    /// The command line.
    pub command: String,
    /// When it began (RFC 3339, UTC).
    pub began_at: String,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// Whether it was scaled down, so that its figures show the method only.
    pub is_quick: bool,
    /// Why parts of it are missing; `None` if it is whole.
    pub cut_short: Option<String>,
    /// Why no real server is beside ours, where one was looked for and is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_peer: Option<String>,
    /// Why no figure of this run is to be quoted: CPU that was stolen, a disk that drifted.
    pub doubts: Vec<String>,
    /// Where it was made.
    pub machine: Machine,
    /// The systems that were measured. The one in question is the first.
    pub systems: Vec<System>,
    /// All that differs from the method of the document, a sentence each.
    pub deviations: Vec<String>,
    /// What is known to be wrong or unclear in the document, a sentence each.
    pub traps: Vec<String>,
    /// The tests, in order.
    pub tests: Vec<Test>,
    /// The charts of the document, made of figures of the tests.
    pub charts: Vec<Chart>,
}

/// The machine that servers and generator had.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// Model of the processor.
    pub processor: String,
    /// Cores that the run might use.
    pub cores: usize,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Name and version of the kernel.
    pub kernel: String,
    /// The disk of the servers; `None` if it was not measured.
    pub disk: Option<Disk>,
    /// The limits of the process that count here (`RLIMIT_NOFILE` and the like), a line each.
    pub limits: Vec<String>,
    /// CPU time that other guests of the host took meanwhile, in ms.
    pub stolen_ms: u64,
}

/// A disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Disk {
    /// The folder that was measured.
    pub folder: String,
    /// The type of its file system.
    pub file_system: String,
    /// How long fdatasync takes after 4 KiB were written over older bytes, before the run.
    pub before: Curve,
    /// How long it takes after the run.
    pub after: Option<Curve>,
}

/// The role of a system in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The system in question.
    #[default]
    Ours,
    /// A system that it is compared with.
    Peer,
    /// The null server, which does nothing: its figures are the ceiling of the generator.
    Null,
}

/// A system that was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct System {
    /// The key that [`Measured`] names it by.
    pub id: String,
    /// Its role.
    pub role: Role,
    /// Name and version.
    pub name: String,
    /// Where it served.
    pub address: String,
    /// What tells its build from another one of this version; empty if unknown.
    pub build: String,
    /// Its configuration, a line each.
    pub configuration: Vec<String>,
}

/// A test: a row or a cell of the document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Test {
    /// The table that it belongs to; empty if there is one table.
    pub group: String,
    /// What was done. No two tests of a group have the same.
    pub title: String,
    /// What was warm when it began.
    pub warm: String,
    /// What the document says.
    pub published: Vec<Published>,
    /// What each system showed.
    pub systems: Vec<Measured>,
    /// What limits the rate of the system in question; empty if unknown.
    pub limit: String,
    /// Why published and measured figures differ, and other remarks, a sentence each.
    pub remarks: Vec<String>,
    /// Why it was not measured; `None` if it was.
    pub skipped: Option<String>,
}

/// A published figure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Published {
    /// The name of the figure that it is beside.
    pub figure: String,
    /// Its value, if it is one number, in the unit of that figure.
    pub value: Option<f64>,
    /// The text of the document.
    pub text: String,
}

/// What one system showed in a test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Measured {
    /// [`System::id`].
    pub system: String,
    /// The figures, in equal order for all systems.
    pub figures: Vec<Figure>,
    /// The distribution of latencies, all rounds together.
    pub latencies: Vec<Curve>,
    /// The course of the last round.
    pub course: Vec<Moment>,
    /// Remarks, a line each.
    pub notes: Vec<String>,
    /// Answers that were errors or wrong, and sessions that were lost.
    pub trouble: u64,
}

/// Which values of a figure are good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Good {
    /// Many: a rate.
    More,
    /// Few: a cost, a wait.
    Less,
    /// Neither: it says what was done, and is not compared.
    #[default]
    Neither,
}

/// A figure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Figure {
    /// Its name. No two figures of a system in a test have the same.
    pub name: String,
    /// Its unit: `per s`, `us`, `ms`, `MiB`; empty if it is a count.
    pub unit: String,
    /// Which values are good.
    pub good: Good,
    /// A value for each round; values at one place were measured one after the other, so they form
    /// a pair. Empty: it cannot be known.
    pub values: Vec<f64>,
    /// Whether it is in the table of the report, and not only in the details.
    pub is_headline: bool,
}

/// A distribution: which part of all values is not above a value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Curve {
    /// The name of the quantity.
    pub name: String,
    /// The number of values.
    pub count: u64,
    /// Pairs of percent (0 to 100) and the value in ms, both rising.
    pub points: Vec<(f64, f64)>,
}

/// The state of a system at a time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Moment {
    /// Seconds since the round began.
    pub at_s: f64,
    /// Operations a second since the moment before.
    pub rate: Option<f64>,
    /// The median latency since the moment before, in ms.
    pub p50_ms: Option<f64>,
    /// The 99th percentile of it.
    pub p99_ms: Option<f64>,
    /// What all servers use.
    #[serde(flatten)]
    pub all: Usage,
    /// What each server of several uses, in the order of their addresses; empty if they cannot be
    /// told apart.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<Usage>,
}

/// What servers use at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Cores, since the moment before.
    pub cpu_cores: Option<f64>,
    /// Resident memory.
    pub resident_mib: Option<f64>,
    /// The folders of data and logs.
    pub disk_mib: Option<f64>,
}

/// A chart of the document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// The name of its horizontal axis.
    pub x: String,
    /// The unit of its values.
    pub unit: String,
    /// Whether the values are shown by their logarithms.
    pub is_logarithmic: bool,
    /// Its places, from left to right.
    pub labels: Vec<String>,
    /// Its lines.
    pub series: Vec<Series>,
}

/// A line of a chart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Series {
    /// The name of the line: a system, or the document.
    pub name: String,
    /// A value for each place; none where there is none.
    pub values: Vec<Option<f64>>,
}

impl Results {
    /// Reads the JSON of a run.
    ///
    /// # Errors
    /// The text is no JSON of this schema.
    pub fn read(text: &str) -> anyhow::Result<Results> {
        let results: Results = serde_json::from_str(text)?;
        let schema = &results.schema;
        anyhow::ensure!(schema == SCHEMA, "the schema is {schema:?}, and not {SCHEMA:?}");
        Ok(results)
    }

    /// Its JSON.
    pub fn to_json(&self) -> String {
        let json = serde_json::to_string(self);
        json.expect("names are texts, and all numbers are finite or null")
    }

    /// The system with this id.
    pub fn system(&self, id: &str) -> Option<&System> {
        self.systems.iter().find(|system| system.id == id)
    }

    /// The first system with a role.
    pub fn of_role(&self, role: Role) -> Option<&System> {
        self.systems.iter().find(|system| system.role == role)
    }
}

impl Test {
    /// What a system showed.
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
    /// The median of its values; `None` if it is unknown.
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

    /// The least and the greatest value; `None` if it is unknown.
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
