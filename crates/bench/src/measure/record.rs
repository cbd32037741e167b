//! The record of a run in the JSON schema of all results: its time, its machine, its servers, and
//! its figures.

use std::path::Path;
use std::time::{Instant, SystemTime};

use anyhow::Context;
use results::Results;
use results::schema::{Curve, Disk, Machine, Role, SCHEMA, System, Test};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::limits::{DRIFT_MAX, STEAL_MAX};
use crate::measure::file_system::FileSystem;
use crate::measure::machine_info::{MachineInfo, stolen_ticks};
use crate::measure::open_files;
use crate::measure::stats::Latencies;
use crate::servers::target::Target;

/// Milliseconds of one tick in `/proc/stat` (`USER_HZ` is 100).
const TICK_MS: u64 = 10;

/// The id of the system in question (Quorate) in all results.
pub const OURS: &str = "ours";
/// The id of the system that it is compared with, in all results.
pub const PEER: &str = "peer";
/// The id of the null server in all results.
pub const NULL: &str = "null";

/// A record that is still being made.
#[derive(Debug)]
pub struct Record {
    /// The results so far.
    pub results: Results,
    began: Instant,
    stolen_before: u64,
}

impl Record {
    /// Starts the record of a workload, with the facts about this machine.
    pub fn start(workload: &str) -> Record {
        let info = MachineInfo::read();
        let machine = Machine {
            processor: info.processor,
            cores: info.cores,
            memory_bytes: info.memory_bytes,
            kernel: format!("Linux {}", info.kernel),
            limits: vec![format!("open files: {}", open_files::hard_limit())],
            ..Machine::default()
        };
        let results = Results {
            schema: SCHEMA.to_string(),
            workload: workload.to_string(),
            title: workload.to_string(),
            command: std::env::args().collect::<Vec<_>>().join(" "),
            began_at: utc(SystemTime::now()),
            machine,
            ..Results::default()
        };
        Record { results, began: Instant::now(), stolen_before: stolen_ticks() }
    }

    /// Adds how long fdatasync takes in `folder`, before the run.
    pub fn note_disk(&mut self, folder: &Path, latencies: &Latencies) {
        self.results.machine.disk = Some(Disk {
            folder: folder.display().to_string(),
            file_system: FileSystem::of(folder).to_string(),
            before: latencies.curve("fdatasync of 4 KiB, before"),
            after: None,
        });
    }

    /// Adds the systems of a comparison: the targets in order, then the null server.
    pub fn note_targets(&mut self, targets: &[Target]) {
        let ids = [(OURS, Role::Ours), (PEER, Role::Peer)];
        let system = |(target, (id, role)): (&Target, (&str, Role))| System {
            id: id.to_string(),
            role,
            name: target.name.clone(),
            address: target.address.clone(),
            ..System::default()
        };
        self.results.systems.extend(targets.iter().zip(ids).map(system));
        self.note_null();
    }

    /// Adds the null server as a system.
    pub fn note_null(&mut self) {
        self.results.systems.push(System {
            id: NULL.to_string(),
            role: Role::Null,
            name: "a server that does nothing".to_string(),
            ..System::default()
        });
    }

    /// Seconds since the record was started.
    pub fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// Completes the record with `tests`. Systems that no test measured are dropped, and doubts
    /// about the machine are added.
    pub fn end(mut self, tests: Vec<Test>) -> Results {
        self.results.seconds = self.seconds();
        let stolen = stolen_ticks().saturating_sub(self.stolen_before);
        self.results.machine.stolen_ms = stolen * TICK_MS;
        self.results.tests.extend(tests);
        let used =
            |system: &System| self.results.tests.iter().any(|it| it.of(&system.id).is_some());
        let systems = self.results.systems.iter().filter(|system| used(system)).cloned().collect();
        self.results.systems = systems;
        let doubts = doubts(&self.results);
        self.results.doubts.extend(doubts);
        self.results
    }
}

/// Hides the folders of this machine in results that others will read: each absolute path becomes
/// its last name.
pub fn leave_out_folders(results: &mut Results) {
    let Results { command, machine, systems, deviations, doubts, cut_short, no_peer, .. } = results;
    let configurations = systems.iter_mut().flat_map(|system| &mut system.configuration);
    let folder = machine.disk.iter_mut().map(|disk| &mut disk.folder);
    let of_machine = core::iter::once(command).chain(folder).chain(configurations);
    // Errors may name paths, so the texts that quote errors are shortened, too.
    for text in of_machine.chain(deviations).chain(doubts).chain(cut_short).chain(no_peer) {
        *text = without_folders(text);
    }
}

fn without_folders(text: &str) -> String {
    let short = |word: &str| {
        let (word, space) = word.split_at(word.trim_end().len());
        let (name, value) = word.split_at(word.find('=').map_or(0, |at| at + 1));
        let last =
            value.strip_prefix('/').and_then(|it| it.trim_end_matches('/').rsplit('/').next());
        format!("{name}{}{space}", last.unwrap_or(value))
    };
    text.split_inclusive(char::is_whitespace).map(short).collect()
}

/// The reasons why no figure of a run may be quoted; empty if there are none.
fn doubts(results: &Results) -> Vec<String> {
    let mut doubts = Vec::new();
    let Machine { cores, stolen_ms, disk, .. } = &results.machine;
    let stolen = *stolen_ms as f64 / 1_000.0 / (results.seconds * *cores as f64).max(1e-9);
    if stolen > STEAL_MAX {
        doubts.push(format!(
            "other guests of the host took {:.1} % of the CPU; {:.1} % is the limit",
            stolen * 100.0,
            STEAL_MAX * 100.0
        ));
    }
    let median = |curve: &Curve| curve.points.iter().find(|(percent, _)| *percent >= 50.0).copied();
    let both = disk
        .as_ref()
        .and_then(|disk| Some((median(&disk.before)?.1, median(disk.after.as_ref()?)?.1)));
    if let Some((before, after)) = both
        && (after / before).max(before / after) > DRIFT_MAX
    {
        doubts.push(format!(
            "the median fdatasync took {before:.2} ms before the run and {after:.2} ms after it: \
             more than {DRIFT_MAX} times"
        ));
    }
    doubts
}

/// Writes the JSON of a run to a file.
///
/// # Errors
/// The file cannot be written.
pub fn write(results: &Results, path: &Path) -> anyhow::Result<()> {
    std::fs::write(path, results.to_json()).with_context(|| path.display().to_string())
}

/// Formats a time by RFC 3339, in UTC, to the second.
pub fn utc(time: SystemTime) -> String {
    let time = OffsetDateTime::from(time).replace_nanosecond(0);
    time.ok().and_then(|time| time.format(&Rfc3339).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servers::null_server::NullServer;
    use results::schema::Measured;

    #[test]
    fn times_are_in_utc() {
        assert_eq!(utc(SystemTime::UNIX_EPOCH), "1970-01-01T00:00:00Z");
    }

    #[test]
    fn folders_of_the_machine_can_be_left_out() {
        for (text, short) in [
            (
                "/opt/q/quorate reproduce etcd --peer /srv/etcd",
                "quorate reproduce etcd --peer etcd",
            ),
            ("--html=/home/me/it.html tests/peers", "--html=it.html tests/peers"),
            ("dataDir=/data tickTime=2000", "dataDir=data tickTime=2000"),
            ("--peer /srv/etcd/ --quick", "--peer etcd --quick"),
            ("no server:\n/srv/zk.sh: ended", "no server:\nzk.sh: ended"),
            ("zk://127.0.0.1:2181", "zk://127.0.0.1:2181"),
        ] {
            assert_eq!(without_folders(text), short);
        }
        let disk = Disk { folder: "/srv/data".to_string(), ..Disk::default() };
        let machine = Machine { disk: Some(disk), ..Machine::default() };
        let mut results = Results { machine, ..Results::default() };
        leave_out_folders(&mut results);
        assert_eq!(results.machine.disk.unwrap().folder, "data");
    }

    #[test]
    fn only_systems_that_were_measured_stay() {
        let null = NullServer::start(1).unwrap();
        let mut record = Record::start("test");
        record.note_targets(&[null.target(), null.target()]);
        let measured = Measured { system: PEER.to_string(), ..Measured::default() };
        let test = Test { systems: vec![measured], ..Test::default() };
        let results = record.end(vec![test]);
        let ids: Vec<&str> = results.systems.iter().map(|it| it.id.as_str()).collect();
        assert_eq!(ids, [PEER]);
        assert!(results.machine.cores > 0 && !results.began_at.is_empty());
    }

    #[test]
    fn stolen_cpu_and_a_disk_that_drifts_are_doubts() {
        let curve = |ms| Curve { points: vec![(50.0, ms)], ..Curve::default() };
        let disk =
            |after| Disk { before: curve(1.0), after: Some(curve(after)), ..Disk::default() };
        let run = |stolen_ms, after| {
            let machine =
                Machine { cores: 2, stolen_ms, disk: Some(disk(after)), ..Machine::default() };
            doubts(&Results { seconds: 10.0, machine, ..Results::default() })
        };
        assert_eq!(run(100, 1.4), Vec::<String>::new());
        assert!(run(2_000, 1.0)[0].contains("10.0 %"));
        assert!(run(0, 3.0)[0].contains("fdatasync"));
        assert!(run(0, 0.3)[0].contains("fdatasync"));
    }
}
