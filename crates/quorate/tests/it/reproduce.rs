//! Tests of `quorate reproduce` in its quickest form, mostly against this tree's servers alone:
//! each document has its tests, and each test its figures.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;

use bench::limits::SERVER_END_LIMIT;
use results::Results;
use results::schema::{Good, Moment, Role, Test, Usage};
use rustix::process::{Pid, Signal, kill_process};

use crate::server::{folder, wait_until};

/// A run of `quorate reproduce` that writes its files to an empty folder.
struct Reproduction {
    folder: PathBuf,
    command: Command,
}

impl Reproduction {
    fn new(document: &str, name: &str) -> Reproduction {
        let folder = folder(&format!("reproduce-{name}"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
        command.args(["reproduce", document, "--quick", "--dir"]).arg(&folder);
        command.arg("--json").arg(folder.join("run.json"));
        command.arg("--html").arg(folder.join("run.html"));
        Reproduction { folder, command }
    }

    fn run(mut self) -> (Results, String) {
        let output = self.command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let results = read(&self.folder);
        // The page shows the figures of the JSON file, and no other file is left.
        let page = fs::read_to_string(self.folder.join("run.html")).unwrap();
        assert_eq!(results::html::results_of(&page).unwrap(), results);
        assert_eq!(fs::read_dir(&self.folder).unwrap().count(), 2);
        (results, String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

fn read(folder: &Path) -> Results {
    Results::read(&fs::read_to_string(folder.join("run.json")).unwrap()).unwrap()
}

/// Runs the tests of a document. Fails unless there are `tests` of them, each with figures or with
/// a reason why it was skipped.
fn reproduce(document: &str, tests: usize) -> Results {
    let mut reproduction = Reproduction::new(document, document);
    reproduction.command.args(["--peer", "none"]);
    let (results, text) = reproduction.run();
    assert_eq!(results.no_peer, None);
    assert!(results.is_quick && results.cut_short.is_none());
    assert_eq!(results.tests.len(), tests, "{text}");
    let ours = &results.of_role(Role::Ours).unwrap().id;
    for test in results.tests.iter().filter(|test| test.skipped.is_none()) {
        let measured = test.of(ours).unwrap();
        assert_eq!(measured.trouble, 0, "{}: {:?}", test.title, measured.notes);
        let mut headlines = measured.figures.iter().filter(|figure| figure.is_headline);
        let rate = headlines.find(|figure| figure.good == Good::More).unwrap();
        assert!(rate.values.len() == 1 && rate.values[0] > 0.0, "{}: {rate:?}", test.title);
    }
    assert!(text.contains(&results.tests[0].title), "{text}");
    results
}

#[test]
fn the_tests_of_hunt_have_the_published_lines_beside_them() {
    let results = reproduce("hunt", 18);
    let cores = results.machine.cores;
    for test in &results.tests {
        assert_eq!(test.published.len(), 9, "{}", test.title);
        let asked: usize = test.title.split([' ', ',']).nth(3).unwrap().parse().unwrap();
        assert_eq!(test.skipped.is_some(), asked > cores, "{}", test.title);
    }
    assert_eq!(results.charts.len(), 2);
    let measured = &results.tests[0];
    let course = &measured.of("ours").unwrap().course;
    assert!(course.iter().any(|moment| moment.rate.unwrap_or(0.0) > 0.0), "{course:?}");
    assert!(course.iter().any(|moment| moment.all.resident_mib > Some(0.0)), "{course:?}");
    assert!(course.iter().all(|moment| moment.servers.is_empty()), "{course:?}");
    assert!(measured.of("null").is_some());
}

#[test]
fn the_tests_of_alibaba_see_every_event() {
    let results = reproduce("alibaba", 16);
    let events = results.tests.iter().filter_map(|test| test.of("ours")?.figure("events"));
    let events: Vec<f64> = events.flat_map(|figure| figure.values.clone()).collect();
    assert_eq!(events, [1_200.0; 10]);
}

#[test]
fn the_rows_of_etcd_are_made_by_both_protocols() {
    let results = reproduce("etcd", 40);
    let groups: Vec<&str> = results.tests.iter().map(|test| test.group.as_str()).collect();
    assert_eq!(groups.iter().filter(|group| **group == groups[0]).count(), 20);
    // Each moment has the usage of each of the three servers.
    let of_test = |test: &Test| test.of("ours").unwrap().course.clone();
    let moments: Vec<Moment> = results.tests.iter().flat_map(of_test).collect();
    assert!(moments.len() >= 40);
    let mut busy = 0;
    for moment in moments {
        assert_eq!(moment.servers.len(), 3);
        let sum_of = |value: fn(&Usage) -> Option<f64>| -> f64 {
            moment.servers.iter().map(|server| value(server).unwrap()).sum()
        };
        let memory = sum_of(|usage| usage.resident_mib) / moment.all.resident_mib.unwrap();
        assert!((0.8..1.2).contains(&memory), "{moment:?}");
        assert!(sum_of(|usage| usage.disk_mib) > 0.0, "{moment:?}");
        busy += u32::from(sum_of(|usage| usage.cpu_cores) > 0.0);
    }
    assert!(busy > 0, "no server used a core");
}

#[test]
fn the_tests_of_ozone_have_all_published_runs_beside_them() {
    let results = reproduce("ozone", 10);
    for test in &results.tests {
        assert_eq!(test.published[0].text.matches(',').count(), 5, "{}", test.published[0].text);
        assert!(test.of("ours-log").is_some());
    }
}

/// Uses the figures of one quick run, which cannot be compared, as if they came from two whole
/// runs.
#[test]
fn files_of_runs_are_shown_compared_and_judged() {
    let mut reproduction = Reproduction::new("hunt", "files");
    reproduction.command.args(["--only", "1 server, 1 core, 1 client"]);
    let folder = reproduction.folder.clone();
    reproduction.run();
    let json = folder.join("run.json");
    let bench = |args: &[&str], files: &[&PathBuf]| -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
        command.arg("bench").args(args).args(files).output().unwrap()
    };
    let table = bench(&["report"], &[&json]);
    assert!(String::from_utf8_lossy(&table.stdout).contains("1 server, 1 core, 1 client"));
    let page = folder.join("compare.html");
    let compared = bench(&["compare", "--html", page.to_str().unwrap()], &[&json, &json]);
    assert!(compared.status.success(), "{}", String::from_utf8_lossy(&compared.stderr));
    assert!(fs::read_to_string(&page).unwrap().contains("1 server, 1 core, 1 client"));
    let refused = bench(&["gate"], &[&json, &json]);
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("scaled down"));
    // This makes a whole run out of the quick one, with the same figures.
    let mut whole = read(&folder);
    (whole.is_quick, whole.doubts) = (false, Vec::new());
    for figure in
        whole.tests.iter_mut().flat_map(|test| &mut test.systems).flat_map(|it| &mut it.figures)
    {
        figure.values = figure.values.iter().flat_map(|value| [*value; 8]).collect();
    }
    fs::write(&json, whole.to_json()).unwrap();
    assert!(bench(&["gate"], &[&json, &json]).status.success());
    let slow = folder.join("slow.json");
    for figure in
        whole.tests.iter_mut().flat_map(|test| &mut test.systems).flat_map(|it| &mut it.figures)
    {
        let factor = if figure.good == Good::More { 0.5 } else { 2.0 };
        figure.values.iter_mut().for_each(|value| *value *= factor);
    }
    fs::write(&slow, whole.to_json()).unwrap();
    let regressed = bench(&["gate", "--limit", "5%"], &[&json, &slow]);
    assert_eq!(regressed.status.code(), Some(1), "{}", String::from_utf8_lossy(&regressed.stdout));
}

/// The ids of the processes that a process has started.
fn children_of(parent: u32) -> Vec<u32> {
    let line = format!("PPid:\t{parent}\n");
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_child = |pid: &u32| {
        fs::read_to_string(format!("/proc/{pid}/status")).is_ok_and(|text| text.contains(&line))
    };
    pids.filter(is_child).collect()
}

#[test]
fn an_interrupt_leaves_what_was_measured_and_no_server() {
    let mut reproduction = Reproduction::new("hunt", "interrupt");
    let stderr = fs::File::create(reproduction.folder.join("progress")).unwrap();
    let mut child: Child =
        reproduction.command.stdout(Stdio::null()).stderr(stderr).spawn().unwrap();
    let folder = reproduction.folder;
    let progress = || fs::read_to_string(folder.join("progress")).unwrap_or_default();
    wait_until("a test is over", || progress().contains("1 core, 10 clients"));
    let servers = children_of(child.id());
    assert_eq!(servers.len(), 1, "{servers:?}");
    let pid = Pid::from_raw(child.id() as i32).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let asked = Instant::now();
    assert!(child.wait().unwrap().success(), "{}", progress());
    // The servers end when asked to, so they need not be killed.
    assert!(asked.elapsed() < SERVER_END_LIMIT, "{:?}", asked.elapsed());
    assert!(!servers.iter().any(|pid| Path::new(&format!("/proc/{pid}")).exists()));
    let results = read(&folder);
    assert_eq!(results.cut_short.as_deref(), Some("it was interrupted"));
    assert!(!results.tests.is_empty() && results.tests.len() < 18);
    // The data of the interrupted run's servers are gone.
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 3);
}

/// A real server is missing if nobody has named one, or if the folder has no script that starts
/// one, or if the script fails.
#[test]
fn a_real_server_that_is_missing_is_named() {
    let at = folder("reproduce-no-peer-scripts");
    let cell = "1 server, 1 core, 1 client";
    let scripts = [
        ("hunt", cell, None, "--peer names one"),
        ("hunt", cell, Some("real-zk.sh"), "no network | at all"),
        ("ozone", "1000000 chunks of 1 KiB", Some("ozone/install-ozone.sh"), "no network | at all"),
    ];
    for (document, only, script, named) in scripts {
        if let Some(script) = script {
            let path = at.join("tests/peers").join(script);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "#!/bin/sh\necho no network >&2\n\necho at all >&2\nexit 1\n")
                .unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let mut reproduction = Reproduction::new(document, "no-peer");
        reproduction.command.args(["--only", only]).current_dir(&at);
        let (results, text) = reproduction.run();
        let why = results.no_peer.as_deref().unwrap();
        assert!(why.contains(named), "{why}");
        assert!(text.contains("! There is no real server beside ours: "), "{text}");
        assert!(results.of_role(Role::Peer).is_none());
    }
}

#[test]
fn what_cannot_be_reproduced_is_named() {
    for (args, named) in [
        (&["hunt", "--peer", "/nowhere"][..], "/nowhere"),
        (&["hunt", "--only", "no such test"][..], "--only"),
        (&["hunt", "--dir", "/nowhere"][..], "No such file"),
        (&["hunt", "--peer", "zk://a"][..], "HOST:PORT"),
        (&["nothing"][..], "nothing"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
        let output = command.arg("reproduce").args(args).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(named), "{args:?}: {text}");
    }
}
